#!/usr/bin/env python3
"""Launches of training's kernels as operators' rows, by the project's split.

    tools/convert_training_kernels.py

Reads data/measurements/h200/training_kernels.csv, whose ops are named by the bench that measured them, and writes
data/measurements/own/h200_sxm/training.train.csv and training.heldout.csv. Each launch ran behind a read of 256 MiB:
`cache` says read-through. Asks `validate sides`, so that must be built.
"""
import csv
import os

from measurement_csv import COLUMNS, sides

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "measurements")
# The operators' own names and types, where the bench has others.
NAMES = {"sum_rows_backward": "sum_columns", "gradient_norm": "norm_all", "adamw_floats": "adamw", "clear": "custom"}
FLOATS = {"gradient_norm", "adamw_floats"}


def shape_of(op, shape):
    count = shape.removeprefix("n=")
    if op == "adamw_floats":
        return f"rows=1;cols={count};out=bf16"
    return f"write={4 * int(count)}" if op == "clear" else shape


def main():
    with open(os.path.join(ROOT, "h200", "training_kernels.csv"), newline="", encoding="ascii") as f:
        rows = [[NAMES.get(r["op"], r["op"]), "fp32" if r["op"] in FLOATS else "bf16", shape_of(r["op"], r["shape"]),
                 r["median_us"], "", "plumbline-own-0.1", f"own {r['op']} ctas={r['grid']} threads={r['block']}",
                 "burst", "kernel, CUPTI, behind a read of 256 MiB", f"2026-11-23:{i}", "read-through"]
                for i, r in enumerate(csv.DictReader(f), 2)]
    held_out = sides([(row[0], row[2]) for row in rows])
    for side, wanted in (("train", False), ("heldout", True)):
        path = os.path.join(ROOT, "own", "h200_sxm", f"training.{side}.csv")
        with open(path + ".partial", "w", newline="", encoding="ascii") as f:
            writer = csv.writer(f, lineterminator="\n")
            writer.writerow(COLUMNS + ["cache"])
            writer.writerows(row for row, held in zip(rows, held_out) if held == wanted)
        os.replace(path + ".partial", path)


if __name__ == "__main__":
    main()
