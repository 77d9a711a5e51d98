#!/usr/bin/env python3
"""Fits the one free scalar of FlashAttention's first kernels (family library.flash_first: what a step waits) to published sums of
forward and backward passes on an A100, training rows alone (data/measurements/flash_attention), and carries it to H100 and
H200 in cycles. What a launch takes is FlashAttention-2's. The residuals of both sides are printed.

usage: tools/fit_first_flash.py; build predict-model first
"""
import csv
import json
import math
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / os.environ.get("PLUMBLINE_BUILD", "build") / "bin" / "predict-model"
CARD = ROOT / "data/calibration/a100_sxm.json"
STACK = "llm-foundry"


def rows(side):
    with open(ROOT / f"data/measurements/flash_attention/a100_sxm/attention_fwd_bwd.{side}.csv", encoding="ascii") as f:
        return [row for row in csv.DictReader(f) if row["kernel"] == "FA1"]


def scalars(step_clk, source):
    beside = json.loads(CARD.read_text())["families"]["library"]["flash_prefill_mma"]
    said = {"fixed_s": (beside["fixed_s"]["value"], "FlashAttention-2's"),
            "overlap": (1.0, "not fitted: one CTA an SM, one stage of loads: what is counted takes turns"),
            "start_clk": (beside["start_clk"]["value"], "FlashAttention-2's"),
            "step_clk": (step_clk, source),
            "tensor_burst_fraction": (1.0, "tensor units are at most a third busy"),
            "tensor_steady_fraction": (1.0, "tensor units are at most a third busy")}
    return {key: {"value": value, "source": text} for key, (value, text) in said.items()}


def errors(table, step_clk):
    """ln(predicted / measured) of each row."""
    calibration = json.loads(CARD.read_text())
    calibration["families"]["library"]["flash_first"] = scalars(step_clk, "tried")
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "tried.json")
        pathlib.Path(file).write_text(json.dumps(calibration), encoding="ascii")
        asked = os.path.join(folder, "ops.csv")
        with open(asked, "w", newline="", encoding="ascii") as f:
            out = csv.writer(f)
            out.writerow(["op", "dtype", "shape"])
            for row in table:
                out.writerow(["attention_prefill", row["dtype"], row["shape"] + ";append=0"])
                out.writerow(["attention_backward", row["dtype"], row["shape"]])
        text = subprocess.run([PROGRAM, "ops", "--in", asked, "--gpu", "a100_sxm", "--stack", STACK, "--calibration", file],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
    times = [float(row["latency_us"]) for row in csv.DictReader(text.splitlines())]
    return [math.log((times[2 * i] + times[2 * i + 1]) / float(row["measured_us"])) for i, row in enumerate(table)]


def fitted(table):
    """Least squares of the logarithms, by golden section of the scalar's logarithm."""
    low, high, part = math.log(100), math.log(20000), (math.sqrt(5) - 1) / 2
    cost = lambda x: sum(e * e for e in errors(table, math.exp(x)))  # noqa: E731
    while high - low > 1e-3:
        a, b = high - part * (high - low), low + part * (high - low)
        if cost(a) < cost(b):
            high = b
        else:
            low = a
    return math.exp((low + high) / 2)


def main():
    table = rows("train")
    step = round(fitted(table), 1)
    source = f"fitted on flash_attention a100_sxm attention_fwd_bwd, kernel=FA1, n={len(table)}, heads of 64 and 128 columns"
    calibration = json.loads(CARD.read_text())
    calibration["families"]["library"]["flash_first"] = scalars(step, source)
    CARD.write_text(json.dumps(calibration, indent=2) + "\n")
    for side in ("train", "heldout"):
        for row, error in zip(rows(side), errors(rows(side), step)):
            print(f"{side} {row['shape']}: {100 * error:+.1f} %")
    print(f"step_clk {step}")
    for card in ("h100_sxm", "h200_sxm"):
        subprocess.run(["python3", ROOT / "tools/take_over_family.py", "a100_sxm", card, "library.flash_first",
                        "mma.sync's kernels, which this card's library does not run", "cycles"], check=True)


if __name__ == "__main__":
    main()
