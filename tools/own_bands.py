#!/usr/bin/env python3
"""Error bands of our own kernels from a recording: 5 to 95 % quantiles of ln(measured / predicted) of its training cases, by kernel family and predicted size, written into a calibration. Held-out cases are not read.

    tools/own_bands.py build/bin/validate data/measurements/h200/full.json data/calibration/h200_sxm.json

The scalars of these families are not fitted to the cases, so nothing is cross-validated; the terms of the model were
found while looking at them, which makes the bands a little narrow. Held-out coverage is in the README.
"""
import csv
import io
import json
import math
import os
import subprocess
import sys

SIZES = (("10us", 10.0), ("100us", 100.0), ("large", math.inf))  # microseconds, as model/machine.hpp has them
LEAST_ROWS = 8


def family_of(case):
    if case["op"] == "gemm":
        return "gemm_portable" if case["plan"].endswith(" mma") else "gemm"
    return case["op"] if case["op"].startswith("attention_") else "rowwise"


def band_of(values):
    """The order statistics that hold a further value with 90 % chance, however the values are distributed: those of
    n + 1, as split conformal prediction has them (Lei et al., JASA 113, 2018). Few values give their whole range."""
    ordered, n = sorted(values), len(values)
    low = max(0, math.floor(0.05 * (n + 1)) - 1)
    high = min(n - 1, math.ceil(0.95 * (n + 1)) - 1)
    return {"low": ordered[low], "high": ordered[high], "rows": n}


def main():
    validate, recording, calibration = sys.argv[1:]
    text = subprocess.run([validate, "--replay", recording, "--where", "study=train", "--format", "csv"],
                          check=True, capture_output=True, text=True).stdout
    residuals = {}
    for case in csv.DictReader(io.StringIO(text)):
        if case["error"] or not case["measured_us"]:
            continue
        predicted, measured = float(case["predicted_us"]), float(case["measured_us"])
        size = next(name for name, below in SIZES if predicted < below)
        residuals.setdefault(f"own.{family_of(case)}.{size}", []).append(math.log(measured / predicted))
    with open(calibration) as file:
        document = json.load(file)
    bands = {key: band for key, band in document["bands"].items() if not key.startswith("own.")}
    for key, values in residuals.items():
        if len(values) >= LEAST_ROWS:
            bands[key] = band_of(values)
    document["bands"] = dict(sorted(bands.items()))
    beside = calibration + ".partial"
    with open(beside, "w") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
    os.replace(beside, calibration)


if __name__ == "__main__":
    main()
