#!/usr/bin/env python3
"""Gives cards with the same chip one set of a family's scalars: the geometric mean of what was fitted on each card's rows.

Scalars of the SMs' work cannot differ between cards of one chip and clock (H100 and H200 SXM are both GH100 at 1980 MHz);
where the fits disagree, that is how well the rows determine them. Bands stay each card's own.

usage: share_family.py SET.FAMILY CARD CARD...        (cards by short name, files in data/calibration)
"""
import json
import math
import pathlib
import sys

family, cards = sys.argv[1], sys.argv[2:]
kernel_set, name = family.split(".")
folder = pathlib.Path(__file__).resolve().parent.parent / "data/calibration"
files = {card: json.loads((folder / f"{card}.json").read_text()) for card in cards}
fitted = {card: files[card]["families"][kernel_set][name] for card in cards}
for key, first in fitted[cards[0]].items():
    values = [fitted[card][key]["value"] for card in cards]
    if any(value <= 0 for value in values) or len(set(values)) == 1:
        continue
    mean = math.exp(sum(map(math.log, values)) / len(values))
    each = ", ".join(f"{card} {value:.4g}" for card, value in zip(cards, values))
    for card in cards:
        said = fitted[card][key]["source"].split("; shared")[0]
        fitted[card][key] = {"value": mean, "source": f"{said}; shared by one chip: geometric mean of {each}"}
for card in cards:
    path = folder / f"{card}.json"
    beside = path.with_suffix(".json.partial")
    beside.write_text(json.dumps(files[card], indent=2, ensure_ascii=False) + "\n")
    beside.rename(path)
