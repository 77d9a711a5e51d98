#!/usr/bin/env python3
"""Error bands of one class of kernels by its training rows alone, where finding those of every class again (tools/fit_bands.sh)
takes too long: by size (10us, 100us, large) the 3rd to the 97th percentile (SHARE: 0.03) of ln(measured / predicted), and the middle.
Written into data/calibration/<GPU>.json; with FROM into that card's file as well, whose bands of neighbours they are.

usage: [SHARE=0.03] [FORMATS="fp8"] tools/class_bands.py GPU CLASS ROWS.train.csv [FROM] [-- filters of `validate compare`]
    GPU, FROM: cards by short name; FROM: the same rows are predicted by that card's file, as for a neighbour without its own
    FORMATS: those that the class was measured in, where the rows are of more (a class that is too few takes its neighbour's too)
    CLASS: as in the calibration, library.linear_conv; build validate first
"""
import csv
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEAST = 8  # rows of a size
SHARE = float(os.environ.get("SHARE", 0.03))


def residuals(gpu, rows, filters, calibration):
    if not rows.endswith(".train.csv"):
        sys.exit(f"class_bands: bands are found on training rows, X.train.csv; found {rows}")
    validate = pathlib.Path(os.environ.get("PLUMBLINE_BUILD", ROOT / "build")) / "bin/validate"
    with tempfile.NamedTemporaryFile(suffix=".csv") as out:
        subprocess.run([validate, "compare", rows, "--gpu", gpu, "--kernels", "library", "--calibration", calibration,
                        "--rows", out.name, *filters], check=True, stdout=subprocess.DEVNULL)
        for row in csv.DictReader(open(out.name)):
            predicted = float(row["predicted_us"] or 0)
            if predicted > 0 and not row["error"]:
                size = "10us" if predicted < 10 else "100us" if predicted < 100 else "large"
                yield size, row["dtype"], math.log(float(row["measured_us"]) / predicted)


def quantile(values, share):
    at = share * (len(values) - 1)
    low = int(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def bands(found):
    sizes = {}
    for size, _, residual in found:
        sizes.setdefault(size, []).append(residual)
    if sum(map(len, sizes.values())) < LEAST:
        return {}
    sizes["any"] = [r for all_of in list(sizes.values()) for r in all_of]
    return {size: {"low": round(quantile(v, SHARE), 4), "middle": round(quantile(v, 0.5), 4), "high": round(quantile(v, 1 - SHARE), 4),
                   "rows": len(v)} for size, v in ((s, sorted(v)) for s, v in sizes.items()) if len(v) >= LEAST}


def calibration_of(card):
    return ROOT / f"data/calibration/{card}.json"


def write(card, section, name, found):
    path, found = calibration_of(card), list(found)
    calibration = json.loads(path.read_text())
    for known in [key for key in calibration[section] if key.startswith(name + ".")]:
        del calibration[section][known]  # by bound too: the bands of all rows stand for them
    for size, band in bands(found).items():
        calibration[section][f"{name}.{size}"] = band
        print(card, f"{name}.{size}", band)
    calibration["measured"][name] = os.environ["FORMATS"].split() if "FORMATS" in os.environ else sorted({dtype for _, dtype, _ in found})
    for part in (section, "measured"):
        calibration[part] = dict(sorted(calibration[part].items()))
    beside = path.with_suffix(".json.partial")
    beside.write_text(json.dumps(calibration, indent=2) + "\n")
    beside.rename(path)


def main():
    words, filters = sys.argv[1:], []
    if "--" in words:
        words, filters = words[:words.index("--")], words[words.index("--") + 1:]
    gpu, name, rows = words[:3]
    write(gpu, "bands", name, residuals(gpu, rows, filters, calibration_of(gpu)))
    if words[3:]:
        write(words[3], "transfer_bands", "near." + name, residuals(gpu, rows, filters, calibration_of(words[3])))


if __name__ == "__main__":
    main()
