#!/usr/bin/env python3
"""Turns the launches of linear attention on file (data/measurements/h200/pytorch/linear.jsonl.gz, of tools/measure_linear.py) into
Plumbline's ops CSV, split for good into train and held-out files: data/measurements/h200_linear/h200_sxm/recurrence.

    tools/convert_linear.py

A row's time is the sum of its kernels' own times, medians of five runs, and a graph's gap for each (GAP_US, the calibration's):
the calls were queued one by one, so that the gaps that passed are the host's. `id` is linear:<line>. Standard library, and `validate`.
"""
import gzip
import json
import os

from measurement_csv import Output, digits

GAP_US = 0.72
STACKS = {"mamba2": "mamba-ssm-2.3.2", "kda": "fla-0.4.0", "lightning": "fla-0.4.0", "gated_delta_net": "fla-0.4.0"}


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "measurements")
    out = Output()
    with gzip.open(os.path.join(root, "h200/pytorch/linear.jsonl.gz"), "rt") as lines:
        for number, line in enumerate(lines, 1):
            case = json.loads(line)
            if "about" in case:
                continue
            kind = {"kda": "gated_delta_net", "lightning": "mamba2"}.get(case["kind"], case["kind"])
            shape = {"kind": kind, **{key: case[key] for key in ("B", "S", "H", "D", "state", "groups")}}
            if shape["groups"] == 1:
                del shape["groups"]
            if case["kind"] == "mamba2" and case["S"] > 1:
                shape["carry"] = 0  # no state is given; the last one is written all the same
                shape |= {"chunk": case["chunk"]} if case["chunk"] != 256 else {}
            if case["kind"] == "kda":
                shape["channel_decay"] = 1
            if case.get("state_dtype") == "bf16":
                shape["state_dtype"] = "bf16"
            time = digits(case["sum_us"] + GAP_US * len(case["kernels"]))
            out.add(("h200_linear", "h200_sxm", "recurrence"), "recurrence", "bf16", shape, time, f"linear:{number}",
                    stack=STACKS[case["kind"]], kernel=case["kind"], scope="kernels, and 0.72 us a launch")
    for (source, gpu, family, side), rows in sorted(out.write(root).items()):
        print(f"{source}/{gpu}/{family}.{side}.csv,{len(rows)}")


if __name__ == "__main__":
    main()
