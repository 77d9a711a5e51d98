#!/usr/bin/env python3
"""Turns the row-wise kernels on file (data/measurements/h200/pytorch/serving_rows.jsonl.gz, of tools/measure_rows.py) into Plumbline's
ops CSV, split for good into train and held-out files: data/measurements/h200_rows/h200_sxm/{flashinfer,vllm,pytorch}.

    tools/convert_rows.py

A row's time is the sum of its launches' own times, medians of seven runs behind a read of 256 MiB, and a graph's gap for each (GAP_US, the
calibration's). FlashInfer's append is the operator `copy` of as many keys and values, as a step has it. `id` is serving_rows:<line>.
Standard library, and `validate`.
"""
import csv
import gzip
import json
import os

from measurement_csv import Output, digits

GAP_US = 0.72
STACKS = {"flashinfer": "flashinfer-0.6.13", "vllm": "vllm-0.11.2", "torch": "pytorch-2.11"}
OPERATORS = {"add_rmsnorm": "rmsnorm", "head_norm": "rmsnorm", "append": "copy"}


def shape_of(case):
    if case["kind"] == "rope":
        return {"tokens": case["tokens"], "heads": case["q_heads"] + case["kv_heads"], "D": case["D"]}
    if case["kind"] == "append":
        return {"rows": case["tokens"], "cols": 2 * case["kv_heads"] * case["D"]}
    return {"rows": case["rows"], "cols": case["cols"], **({"residual": 1} if case["kind"] == "add_rmsnorm" else {})}


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "measurements")
    out = Output()
    with gzip.open(os.path.join(root, "h200/pytorch/serving_rows.jsonl.gz"), "rt") as lines:
        for number, line in enumerate(lines, 1):
            case = json.loads(line)
            if "kind" not in case:
                continue
            library = "pytorch" if case["library"] == "torch" else case["library"]
            time = digits(sum(launch[3] + GAP_US for launch in case["launches"]))
            out.add(("h200_rows", "h200_sxm", library), OPERATORS.get(case["kind"], case["kind"]), case["dtype"], shape_of(case), time,
                    f"serving_rows:{number}", stack=STACKS[case["library"]], kernel=case["kind"], scope="kernels, and 0.72 us a launch")
    for (source, gpu, family, side), rows in sorted(out.write(root).items()):
        path = os.path.join(root, source, gpu, f"{family}.{side}.csv")
        with open(path, newline="", encoding="ascii") as file:
            table = list(csv.reader(file))
        with open(path, "w", newline="", encoding="ascii") as file:  # what L2 held: all that was read before
            csv.writer(file, lineterminator="\n").writerows([table[0] + ["cache"]] + [row + ["read-through"] for row in table[1:]])
        print(f"{source}/{gpu}/{family}.{side}.csv,{len(rows)}")


if __name__ == "__main__":
    main()
