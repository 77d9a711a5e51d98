#!/usr/bin/env python3
"""Writes data/measurements/h200_pytorch/h200_sxm/attention_drawn*.csv: scaled_dot_product_attention at drawn sizes, forward and
backward, by cuDNN, by FlashAttention-2 and by the memory-efficient kernels (`kernel`), from data/measurements/h200/pytorch/attention_drawn*.jsonl.gz
(tools/trace_attention_drawn.py). A row's time is the sum of its launches' own, without what clears a counter.

usage: tools/convert_attention_drawn.py; build validate first
"""
import gzip
import json
import os

import measurement_csv

MEASUREMENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "measurements")
# files that were written before rows of the memory-efficient kernels were kept
WITHOUT_EFFICIENT = ("attention_drawn", "attention_drawn_second", "attention_drawn_third")
OPS = {"forward": "attention_prefill", "backward": "attention_backward"}


def microseconds(kernels):
    """Memsets clear counters of cuDNN's, a few bytes; of FlashAttention-2 and of others dQ's sums, which are work."""
    return sum(launches * median for name, _, _, _, launches, median, _, _ in kernels if not name.startswith("Memset"))


def add_rows(out, name):
    source = os.path.join(MEASUREMENTS, "h200", "pytorch", f"{name}.jsonl.gz")
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        for line, text in enumerate(lines, 1):
            record = json.loads(text)
            if "forward" not in record or record.get("bias", 0):  # no operator has a matrix that is added to scores
                continue
            if record["by"] == "efficient" and name in WITHOUT_EFFICIENT:
                continue
            shape = {key: record[key] for key in ("B", "Hq", "Hkv", "D", "S", "causal")}
            for side, op in OPS.items():
                out.add(("h200_pytorch", "h200_sxm", name), op, record["type"], shape, f"{microseconds(record[side]):.3f}",
                        f"{name}:{line}", stack="pytorch-2.11", kernel=record["by"], scope="kernels")


def main():
    out = measurement_csv.Output()
    for name in ("attention_drawn", "attention_drawn_second", "attention_drawn_third", "attention_drawn_fourth", "attention_drawn_sixth",
                 "attention_drawn_seventh", "attention_drawn_eighth", "attention_drawn_ninth", "attention_tiles"):
        add_rows(out, name)
    out.write(MEASUREMENTS)


if __name__ == "__main__":
    main()
