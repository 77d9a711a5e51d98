#!/usr/bin/env python3
"""Makes the tables of data/measurements/h200/pytorch from what tools/trace_transformers.py wrote there: steps.csv (a line a
run), steps.train.csv and steps.heldout.csv (wall times of eager and SDPA as `validate compare` reads them, by the project's
rule, which `validate sides` says: build validate first). `--rates` prints instead how many CTAs a microsecond the longest
launches of each native kernel went through, which the instruction counts of data/launches/transformers.json are read off.

    tools/convert_transformers_traces.py [--rates]

Standard library only.
"""
import csv
import gzip
import json
import os
import re
import sys

import measurement_csv

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "measurements", "h200", "pytorch")
RECORDINGS = ["steps.jsonl.gz", "second.jsonl.gz", "experts.jsonl.gz"]
STEP_COLUMNS = ["file", "line", "model", "layers", "mode", "phase", "batch", "tokens", "dtype", "wall_us", "wall_low_us",
                "wall_high_us", "busy_us", "launches", "watts", "sm_MHz", "peak_bytes", "experts_touched"]
RUN_COLUMNS = ["model", "layers", "phase", "batch", "prompt", "context", "dtype", "gpu", "stack", "measured_ms", "measured_W",
               "id"]
# Native kernels by what their names hold; CTAs of fewer threads or elements are other kernels.
KERNELS = [r"vectorized_elementwise_kernel<8,.*Gelu", r"unrolled_elementwise_kernel", r"elementwise_kernel<128, 2",
           r"elementwise_kernel<128, 4.*direct_copy|elementwise_kernel<128, 4.*neg_kernel", r"elementwise_kernel<128, 4",
           r"vectorized_layer_norm"]


def runs():
    """(file, line from 1, record) of each run."""
    for file in RECORDINGS:
        with gzip.open(os.path.join(FOLDER, file), "rt", encoding="utf-8") as text:
            for line, record in enumerate(text, 1):
                yield file, line, json.loads(record)


def write(name, columns, rows):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def step_row(file, line, r):
    return [file, line, r["model"], r["layers"], r["mode"], r["phase"], r["batch"], r["tokens"], r["dtype"], *r["wall_us"],
            r["busy_us"], len(r["launches"]), watts_of(r), r["sm_MHz"] or "", r["peak_bytes"], experts_touched(r)]


def watts_of(r):
    return round(r["watts"], 1) if r["watts"] else ""


def experts_touched(r):
    """Experts of a layer that have rows, the mean over layers, where they were counted."""
    layers = r.get("experts_rows")
    return round(sum(len(rows) for rows in layers) / len(layers), 1) if layers else ""


def run_row(file, line, r):
    """None where no stack of ours runs it: graphs, torch.compile, diffusion."""
    if r["mode"] not in ("eager", "sdpa") or r["phase"] == "denoise":
        return None
    decode = r["phase"] == "decode"
    return [r["model"], r["layers"], "decode" if decode else "prefill", r["batch"], "" if decode else r["tokens"],
            r["tokens"] if decode else "", "bf16", "h200_sxm", "hf-" + r["mode"], repr(round(r["wall_us"][0] / 1e3, 5)),
            watts_of(r), f"{file}:{line}"]


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
    steps, measured = [], []
    for file, line, r in runs():
        steps.append(step_row(file, line, r))
        measured.append(run_row(file, line, r))
    measured = [row for row in measured if row]
    write("steps.csv", STEP_COLUMNS, steps)
    asked = [[row[0], row[2], row[3], row[4], row[5], ""] for row in measured]
    held_out = measurement_csv.sides(asked, measurement_csv.RUN_COLUMNS[:6])
    for side, wanted in (("train", False), ("heldout", True)):
        write(f"steps.{side}.csv", RUN_COLUMNS, [row for row, held in zip(measured, held_out) if held == wanted])


if __name__ == "__main__":
    main()
