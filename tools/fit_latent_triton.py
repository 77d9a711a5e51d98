#!/usr/bin/env python3
"""Scalars of vLLM's latent decode by Triton (library.mla_decode_triton) from the A100's training rows.

validate fit prices TensorRT-LLM's stack, so the few terms of plan_mla_triton.cpp's launch are written out here: rounds of CTAs,
each a chain of steps of 32 keys, beside DRAM, and the merge. Rows that take less than 450 us by a chain of 0.1 us a key wait
for their host (nothing was in a graph) and are left out, by shape alone. usage: tools/fit_latent_triton.py
"""
import csv
import math
import pathlib
import re
import statistics

from scipy.optimize import minimize

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMS, CLOCK, DRAM, L2 = 108, 1410e6, 1776e9, 4e12
ROWS, KEYS, PARTS, FIXED, MERGE, GAP = 16, 32, 4, 5e-6, 2.14e-6, 0.77e-6


def ctas(batch, heads):
    return batch * math.ceil(heads / ROWS) * PARTS


def seconds(scalars, batch, heads, keys):
    start, step, both = scalars
    steps = math.ceil(math.ceil(keys / PARTS) / KEYS)
    full, last = divmod(ctas(batch, heads), SMS)
    alone, rounds = (1 if 0 < last <= SMS / 2 else 0), full + (last > 0)
    slower = (alone + (rounds - alone) * both) / rounds
    chain = slower * (steps * (2 * ROWS * KEYS * 1088 / 2048 + step) + start) / CLOCK * rounds
    dram = (batch * keys * 1152 + 2176 * batch * heads) / DRAM
    merge = MERGE + 2 * 4 * PARTS * 512 * batch * heads / L2
    return (chain**4 + dram**4) ** 0.25 + FIXED + merge + 2 * GAP


def training_rows():
    with open(ROOT / "data/measurements/aiconfigurator/a100_sxm/mla_decode.train.csv", newline="") as file:
        for row in csv.DictReader(file):
            batch, heads, keys = map(int, re.match(r"B=(\d+);H=(\d+);S=(\d+)", row["shape"]).groups())
            if row["stack"].startswith("vllm") and math.ceil(ctas(batch, heads) / SMS) * keys / PARTS * 0.1 > 450:
                yield batch, heads, keys, float(row["measured_us"]) * 1e-6


def main():
    rows = list(training_rows())
    errors = lambda x: [abs(math.log(seconds(x, *row[:3]) / row[3])) for row in rows]  # noqa: E731
    fit = minimize(lambda p: sum(errors([math.exp(v) for v in p])), [math.log(v) for v in (8000, 4000, 1.1)],
                   method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-5, "fatol": 1e-5})
    start, step, both = (math.exp(v) for v in fit.x)
    print(f"{len(rows)} rows, median {100 * statistics.median(errors((start, step, both))):.1f} %")
    print(f"start_clk {start:.0f}  step_clk {step:.1f}  exposed {both:.4f}")


if __name__ == "__main__":
    main()
