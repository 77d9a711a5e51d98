#!/usr/bin/env python3
"""Results of the program `probe` (kernels/probe_main.cu) -> data/measurements/own/<gpu>/.

    tools/probe_to_csv.py RESULTS GPU [ROOT]

RESULTS is the folder that `probe` wrote, GPU a name of `predict-model list gpus`, ROOT data/measurements. Writes the
timings as ops CSV, split into train and held-out by the rule of all measurements, and the machine scalars as machine.csv
and machine.json. Refuses results with a failed check.
"""
import csv
import json
import os
import shutil
import sys

from measurement_csv import Output

STACK = "plumbline-own-0.1"
SCOPE = "kernel, graph, cold L2"


def rows(path):
    with open(path, newline="", encoding="ascii") as f:
        yield from csv.DictReader(f)


def shape_of(text):
    return {key: int(value) for key, value in (part.split("=") for part in text.split(";"))}


def main(results, gpu, root):
    failed = [r for r in rows(os.path.join(results, "checks.csv")) if r["fault"]]
    if failed:
        sys.exit(f"{results}: {len(failed)} failed checks, first {failed[0]['op']} {failed[0]['shape']}")
    with open(os.path.join(results, "machine.json"), encoding="ascii") as f:
        machine = json.load(f)
    output = Output()
    for line, row in enumerate(rows(os.path.join(results, "timings.csv")), start=2):
        # Watts are the card's, of calls too short to settle: whole numbers are all that they mean.
        watts = f"{float(row['measured_W']):.0f}" if float(row["measured_W"]) > 0 else ""
        output.add(("own", gpu, "rowwise"), row["op"], row["dtype"], shape_of(row["shape"]), row["measured_us"],
                   f"{machine['date']}:{line}", watts, STACK, row["kernel"], "burst", SCOPE)
    output.write(root)
    folder = os.path.join(root, "own", gpu)
    for name in ("machine.json", "machine.csv", "timings.csv"):
        shutil.copyfile(os.path.join(results, name), os.path.join(folder, name))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else "data/measurements")
