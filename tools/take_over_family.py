#!/usr/bin/env python3
"""Copies a kernel family's scalars (not its bands) from one card's calibration to another's and says so in each source.

usage: take_over_family.py FROM TO SET.FAMILY REASON        (cards by short name, files in data/calibration)
"""
import json
import pathlib
import sys

source, target, family, reason = sys.argv[1:5]
folder = pathlib.Path(__file__).resolve().parent.parent / "data/calibration"
scalars = json.loads((folder / f"{source}.json").read_text())
path = folder / f"{target}.json"
calibration = json.loads(path.read_text())
kernel_set, name = family.split(".")
taken = scalars["families"][kernel_set][name]
calibration["families"].setdefault(kernel_set, {})[name] = {
    key: {"value": value["value"], "source": f"taken over from {source}: {reason}"} for key, value in taken.items()
}
beside = path.with_suffix(".json.partial")
beside.write_text(json.dumps(calibration, indent=2) + "\n")
beside.rename(path)
