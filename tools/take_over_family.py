#!/usr/bin/env python3
"""Copies a kernel family's scalars (not its bands) from one card's calibration to another's and says so in each source.

usage: take_over_family.py FROM TO SET.FAMILY REASON [cycles]        (cards by short name, files in data/calibration)
cycles: what a launch takes at least is so many cycles (CarryOver::fixed_in_cycles), so that TO gets its own clock's seconds
"""
import json
import pathlib
import sys

source, target, family, reason = sys.argv[1:5]
data = pathlib.Path(__file__).resolve().parent.parent / "data"
folder = data / "calibration"


def boost_clock(card):
    number, unit = json.loads((data / f"gpus/{card}.json").read_text())["boost_clock"].split()
    return float(number) * {"MHz": 1, "GHz": 1000}[unit]


cycles = boost_clock(source) / boost_clock(target) if sys.argv[5:] == ["cycles"] else 1
scalars = json.loads((folder / f"{source}.json").read_text())
path = folder / f"{target}.json"
calibration = json.loads(path.read_text())
kernel_set, name = family.split(".")
taken = scalars["families"][kernel_set][name]
calibration["families"].setdefault(kernel_set, {})[name] = {
    key: {
        "value": value["value"] * (cycles if key == "fixed_s" else 1),
        "source": f"taken over from {source}: {reason}" + ("; the same cycles" if cycles != 1 and key == "fixed_s" else ""),
    }
    for key, value in taken.items()
}
beside = path.with_suffix(".json.partial")
beside.write_text(json.dumps(calibration, indent=2) + "\n")
beside.rename(path)
