#!/usr/bin/env python3
"""Joins what `ncu` counted of `probe --launch STUDY.csv` with the cases, one line a kernel launch.

    ncu --clock-control none --cache-control none --csv --page raw --log-file LOG --metrics METRICS \\
        probe --launch STUDY.csv > CASES.csv
    tools/profiler_counts.py LOG CASES.csv > data/kernels/NAME.csv

Between the kernels `case_marker`, whose grid is the case's number + 1, and `case_end` stand that case's launches. METRICS are those of
COLUMNS below that begin with a unit's name (smsp__, dram__, lts__); the launch__ figures come by themselves. All of
smsp__ fit one pass, so no kernel is replayed.
"""
import csv
import re
import sys

# Our column -> the profiler's metric. Absent ones stay empty.
COLUMNS = {
    "registers": "launch__registers_per_thread",
    "shared_static_B": "launch__shared_mem_per_block_static",
    "shared_dynamic_B": "launch__shared_mem_per_block_dynamic",
    "cluster": "launch__cluster_size",
    "clusters_at_once": "launch__cluster_max_active",
    "ctas_per_sm": None,  # the least of the launch__occupancy_limit_* figures
    "warp_instructions": "smsp__inst_executed.sum",
    "xu_instructions": "smsp__inst_executed_pipe_xu.sum",
    "lsu_instructions": "smsp__inst_executed_pipe_lsu.sum",
    "dram_read_B": "dram__bytes_read.sum",
    "dram_write_B": "dram__bytes_write.sum",
    "l2_sectors": "lts__t_sectors.sum",
}
SCALE = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def number(text):
    value = float(text.replace(",", ""))
    return int(value) if value == int(value) else value


def cell(row, units, metric):
    if metric not in row or row[metric] == "":
        return ""
    return round(number(row[metric]) * SCALE.get(units.get(metric, ""), 1))


def occupancy(row):
    limits = [number(v) for k, v in row.items() if k.startswith("launch__occupancy_limit_") and v]
    return min(limits) if limits else ""


def launches(log):
    lines = [line for line in open(log, encoding="utf-8") if line.startswith('"')]
    head, units, *rows = csv.reader(lines)
    return dict(zip(head, units)), [dict(zip(head, row)) for row in rows]


def main(log, cases_file):
    cases = list(csv.DictReader(open(cases_file, encoding="utf-8")))
    units, rows = launches(log)
    present = [c for c, m in COLUMNS.items() if m is None or m in units]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["op", "dtype", "shape", "launch", "kernel", "grid", "block"] + present)
    case, launch = None, 0
    for row in rows:
        grid = [int(n) for n in re.findall(r"\d+", row["Grid Size"])]
        if "case_marker" in row["Kernel Name"]:
            case, launch = grid[0] - 1, 0
            continue
        if "case_end" in row["Kernel Name"]:
            case = None
        if case is None:  # fills and preparations of the next case
            continue
        op, dtype, shape = cases[case]["text"].split(",")[0].split(" ")
        block = [int(n) for n in re.findall(r"\d+", row["Block Size"])]
        name = re.sub(r"\(.*", "", row["Kernel Name"].replace("void ", "").replace("device::", ""))
        name = re.sub(r"^.*unnamed>::", "", name)
        figures = [occupancy(row) if COLUMNS[c] is None else cell(row, units, COLUMNS[c]) for c in present]
        out.writerow([op, dtype, shape, launch, name, grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2]] + figures)
        launch += 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
