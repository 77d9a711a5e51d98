#!/usr/bin/env python3
"""Results of the program `probe` (validate/cuda_probe_main.cpp) -> data/measurements/own/<gpu>/.

    tools/probe_to_csv.py RESULTS GPU [ROOT]

RESULTS is the folder that `probe` wrote, GPU a name of `predict-model list gpus`, ROOT data/measurements. Copies the
machine scalars (machine.csv and machine.json). Refuses results with a failed check. Operators are measured by `validate`.
"""
import csv
import os
import shutil
import sys


def rows(path):
    with open(path, newline="", encoding="ascii") as f:
        yield from csv.DictReader(f)


def main(results, gpu, root):
    failed = [r for r in rows(os.path.join(results, "checks.csv")) if r["fault"]]
    if failed:
        sys.exit(f"{results}: {len(failed)} failed checks, first {failed[0]['op']} {failed[0]['shape']}")
    folder = os.path.join(root, "own", gpu)
    os.makedirs(folder, exist_ok=True)
    for name in ("machine.json", "machine.csv"):
        shutil.copyfile(os.path.join(results, name), os.path.join(folder, name))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else "data/measurements")
