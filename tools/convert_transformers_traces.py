#!/usr/bin/env python3
"""Makes the tables of data/measurements/h200/pytorch from what tools/trace_transformers.py wrote there: steps.csv (a line a
run), steps.train.csv and steps.heldout.csv (wall times of eager and SDPA of the first three recordings as `validate compare`
reads them, by the project's rule, which `validate sides` says: build validate first), static.train.csv and static.heldout.csv (the
same of graphs and torch.compile, of all recordings), hosts.train.csv and hosts.heldout.csv (steps of hosts.jsonl.gz beside
their measured host), hosts_second.csv (those of hosts_second.jsonl.gz, of both sides). `--rates` prints instead how many CTAs a microsecond the longest
launches of each native kernel went through, which the instruction counts of data/launches/transformers.json are read off.

    tools/convert_transformers_traces.py [--rates]

Standard library only.
"""
import csv
import gzip
import json
import os
import re
import statistics
import sys

import measurement_csv

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "measurements", "h200", "pytorch")
RECORDINGS = ["steps.jsonl.gz", "second.jsonl.gz", "experts.jsonl.gz", "compiled.jsonl.gz",
              "compiled_second.jsonl.gz"]
STEP_COLUMNS = ["file", "line", "model", "layers", "mode", "phase", "batch", "tokens", "dtype", "wall_us", "wall_low_us",
                "wall_high_us", "busy_us", "launches", "watts", "sm_MHz", "peak_bytes", "experts_touched", "resets"]
RUN_COLUMNS = ["model", "layers", "phase", "batch", "prompt", "context", "dtype", "gpu", "stack", "measured_ms", "measured_W",
               "id"]
STATIC_COLUMNS = RUN_COLUMNS[:9] + ["runtime"] + RUN_COLUMNS[9:]
HOST_COLUMNS = RUN_COLUMNS[:9] + ["host"] + RUN_COLUMNS[9:]
# The stack and runtime of a mode with a static cache.
STATIC = {"graph": ("hf-static", "graph"), "compile": ("torch-compile", "eager"), "captured": ("torch-compile", "graph"),
          "overhead": ("torch-compile", "graph")}
# Native kernels by what their names hold; CTAs of fewer threads or elements are other kernels.
KERNELS = [r"vectorized_elementwise_kernel<8,.*Gelu", r"unrolled_elementwise_kernel", r"elementwise_kernel<128, 2",
           r"elementwise_kernel<128, 4.*direct_copy|elementwise_kernel<128, 4.*neg_kernel", r"elementwise_kernel<128, 4",
           r"vectorized_layer_norm"]


def runs():
    """(file, line from 1, record) of each run."""
    for file in RECORDINGS:
        with gzip.open(os.path.join(FOLDER, file), "rt", encoding="utf-8") as text:
            for line, record in enumerate(text, 1):
                record = json.loads(record)
                if "launches" in record:  # else the run failed, and says why
                    yield file, line, record


def write(name, columns, rows):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def step_row(file, line, r):
    return [file, line, r["model"], r["layers"], r["mode"], r["phase"], r["batch"], r["tokens"], r["dtype"], *r["wall_us"],
            r["busy_us"], len(r["launches"]), watts_of(r), r["sm_MHz"] or "", r["peak_bytes"], experts_touched(r), resets(r)]


def watts_of(r):
    return round(r["watts"], 1) if r["watts"] else ""


def experts_touched(r):
    """Experts of a layer that have rows, the mean over layers, where they were counted."""
    layers = r.get("experts_rows")
    return round(sum(len(rows) for rows in layers) / len(layers), 1) if layers else ""


def resets(r):
    """Launches that set a static cache back before a prefill: the loop's, not the step's. They are in `launches`."""
    if r["mode"] not in STATIC or r["phase"] != "prefill":
        return 0
    return sum(group[6] for group in r["groups"] if "FillFunctor<long>" in r["strings"][group[0]])


def run_row(file, line, r):
    """None for graphs, torch.compile and diffusion."""
    if r["mode"] not in ("eager", "sdpa") or r["phase"] == "denoise" or file in RECORDINGS[3:]:
        return None
    decode = r["phase"] == "decode"
    return [r["model"], r["layers"], "decode" if decode else "prefill", r["batch"], "" if decode else r["tokens"],
            r["tokens"] if decode else "", "bf16", "h200_sxm", "hf-" + r["mode"], repr(round(r["wall_us"][0] / 1e3, 5)),
            watts_of(r), f"{file}:{line}"]


def static_row(file, line, r):
    """None for a growing cache, and for diffusion, whose tokens are the config's."""
    if r["mode"] not in STATIC or r["phase"] == "denoise":
        return None
    decode = r["phase"] == "decode"
    stack, runtime = STATIC[r["mode"]]
    return [r["model"], r["layers"], "decode" if decode else "prefill", r["batch"], "" if decode else r["tokens"],
            r["tokens"] if decode else "", "bf16", "h200_sxm", stack, runtime, repr(round(r["wall_us"][0] / 1e3, 5)),
            watts_of(r), f"{file}:{line}"]


def host_rows(file):
    """Steps beside their host (tools/measure_host.py): its narrow launch is the median of the six taken around the loops."""
    with gzip.open(os.path.join(FOLDER, file), "rt", encoding="utf-8") as text:
        for line, record in enumerate(text, 1):
            r = json.loads(record)
            if "launches" not in r or r["phase"] == "denoise":
                continue
            decode = r["phase"] == "decode"
            yield [r["model"], r["layers"], "decode" if decode else "prefill", r["batch"], "" if decode else r["tokens"],
                   r["tokens"] if decode else "", "bf16", "h200_sxm", "hf-" + r["mode"],
                   f"{statistics.median(r['probe_us']):.3f} us", repr(round(statistics.median(r["wall_us"]) / 1e3, 5)), "",
                   f"{file}:{line}"]


def write_sides(name, columns, rows):
    """Rows of a model, phase, batch and length are on one side, whatever ran them."""
    asked = [[row[0], row[2], row[3], row[4], row[5], ""] for row in rows]
    held_out = measurement_csv.sides(asked, measurement_csv.RUN_COLUMNS[:6])
    for side, wanted in (("train", False), ("heldout", True)):
        write(f"{name}.{side}.csv", columns, [row for row, held in zip(rows, held_out) if held == wanted])


def print_rates():
    longest = {}
    for _, _, r in runs():
        for group in r["groups"]:
            kernel = next((k for k in KERNELS if re.search(k, r["strings"][group[0]])), None)
            grid = json.loads(r["strings"][group[5]])[0]
            # up to 2^31 elements one launch takes them all
            if kernel and grid and grid[0] * grid[1] < 250000:
                longest.setdefault(kernel, []).append((group[7], grid[0] * grid[1] / group[7]))
    for kernel, launches in longest.items():
        rates = [rate for _, rate in sorted(launches)[-20:]]
        print(f"{kernel}: {min(rates):.0f} to {max(rates):.0f} CTAs a microsecond in the 20 longest kinds of launches")


def main():
    if sys.argv[1:] == ["--rates"]:
        return print_rates()
    steps, measured, static = [], [], []
    for file, line, r in runs():
        steps.append(step_row(file, line, r))
        measured.append(run_row(file, line, r))
        static.append(static_row(file, line, r))
    write("steps.csv", STEP_COLUMNS, steps)
    write_sides("steps", RUN_COLUMNS, [row for row in measured if row])
    write_sides("static", STATIC_COLUMNS, [row for row in static if row])
    write_sides("hosts", HOST_COLUMNS, list(host_rows("hosts.jsonl.gz")))
    write("hosts_second.csv", HOST_COLUMNS, host_rows("hosts_second.jsonl.gz"))


if __name__ == "__main__":
    main()
