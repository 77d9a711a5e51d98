#!/usr/bin/env python3
"""A census of what eager training iterations (`--stack hf-sdpa`) launch and keep, predicted beside what PyTorch's dispatcher
runs and allocates on fake tensors, without a GPU: which families' lists are left to be written, worst first.

    tools/census_eager.py [--predict build/bin/predict-model] [--families tools/census_families.json] [--only NAME ...] [--csv FILE]
                          [CONFIG.json ...]

A family is a config of two layers or is cut to as many. A line of the table: family, mode (bf16 or autocast), by how many launches of
2 MB and more an iteration's passes differ (sum over passes and groups of the absolute differences) of how many, the same of
bytes in percent; then the peak's error in percent with attention fused and written out (`attention="eager"`), without and
with recomputed layers. What a family's program can't do on fake tensors is a dash; its reason is printed behind. Needs torch,
transformers 5.17 and a C++ compiler.
"""
import argparse
import collections
import json
import os
import sys

import count_kept

if __name__ == "__main__" and "COUNT_KEPT_STUB" not in os.environ:
    count_kept.with_stub()

import eager_operators
import predict_eager
import trace_training_models

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, TOKENS, LAYERS = 8, 512, 2
WORKSPACES = 2 * 32 * 2**20  # cuBLAS's


def launches(program, config, autocast):
    """(launches that differ, operators, bytes that differ in percent)"""
    ours = eager_operators.predicted(program, config, BATCH, TOKENS, autocast)
    theirs, vocabulary = eager_operators.dispatched(config, BATCH, TOKENS, autocast)
    table = collections.defaultdict(lambda: [0, 0, 0.0, 0.0])
    for phase, name, read, write, shapes in theirs:
        group = eager_operators.group_of_operator(name, shapes, vocabulary)
        if group != "other" and read + write >= eager_operators.LARGE:
            row = table[(phase, group)]
            row[0], row[2] = row[0] + 1, row[2] + read + write
    for phase, name, op, shape, read, write in ours:
        group = eager_operators.group_of_launch(name, op, shape)
        if group not in ("other", "attention") and (read + write >= eager_operators.LARGE or group == "matrix"):
            row = table[(phase, group)]
            row[1], row[3] = row[1] + 1, row[3] + read + write
    rows = [(key, row) for key, row in table.items() if key[1] != "attention"]
    moved = [row for key, row in rows if key[1] != "matrix"]
    apart = sum(abs(row[0] - row[1]) for _, row in rows)
    return apart, sum(row[0] for _, row in rows), 100 * sum(abs(r[2] - r[3]) for r in moved) / sum(r[2] for r in moved)


def kept(program, name, flags):
    """The error of the peak in percent."""
    point = trace_training_models.at(name, BATCH, TOKENS, **flags)
    predicted = predict_eager.predict(program, point, "h200")
    if "peak_bytes" not in predicted:
        raise RuntimeError(predicted["error"])
    return 100 * (predicted["peak_bytes"] / (count_kept.simulate(point)["max_allocated"] + WORKSPACES) - 1)


def census_of(program, name, config):
    for autocast in (False, True):
        line, reasons = {"family": name, "mode": "autocast" if autocast else "bf16"}, []
        try:
            line["apart"], line["operators"], line["bytes"] = launches(program, config, autocast)
        except Exception as error:  # the others go on
            reasons.append(f"launches: {type(error).__name__} {str(error)[:90]}")
        for attention in ("sdpa", "eager"):
            for recompute in (False, True):
                try:
                    line[attention + " recomputed" * recompute] = kept(
                        program, name, {"attention": attention, "recompute": recompute, "autocast": autocast})
                except Exception as error:
                    reasons.append(f"{attention}: {type(error).__name__} {str(error)[:90]}")
        line["reason"] = "; ".join(dict.fromkeys(reasons)).replace("\n", " ")
        yield line


PEAKS = ("sdpa", "sdpa recomputed", "eager", "eager recomputed")


def text_of(line):
    apart = f"{line['apart']:3d} of {line['operators']:3d} | {line['bytes']:5.1f}" if "apart" in line else "- | -"
    peaks = " | ".join(f"{line[p]:+.2f}" if p in line else "-" for p in PEAKS)
    return f"| {line['family']} | {line['mode']} | {apart} | {peaks} |" + (f" {line['reason']}" if line["reason"] else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configs", nargs="*")
    parser.add_argument("--predict", default=os.path.join(HERE, "..", "build", "bin", "predict-model"))
    parser.add_argument("--families", default=os.path.join(HERE, "census_families.json"))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--csv", default="")
    args = parser.parse_args()
    count_kept.patch()
    with open(args.families, encoding="utf-8") as text:
        families = json.load(text)
    for path in args.configs:
        with open(path, encoding="utf-8") as text:
            families[os.path.basename(path)[:-5]] = json.load(text)
    lines = []
    for name, config in families.items():
        if args.only and name not in args.only:
            continue
        config = eager_operators.cut(config, LAYERS)
        trace_training_models.MODELS[name] = [config, LAYERS]
        lines += census_of(args.predict, name, config)
        print(*map(text_of, lines[-2:]), sep="\n", file=sys.stderr, flush=True)
    lines.sort(key=lambda line: -max([line.get("bytes", 0)] + [abs(line[p]) for p in PEAKS if p in line]))
    print("| family | mode | launches apart | bytes apart, % | peak, % | recomputed | written out | both |\n|---|---|--:|--:|--:|--:|--:|--:|")
    for line in lines:
        print(text_of(line))
    if args.csv:
        with open(args.csv, "w", encoding="utf-8") as out:
            out.write("family,mode,apart,operators,bytes," + ",".join(PEAKS) + "\n")
            for line in lines:
                out.write(",".join(str(line.get(k, "")) for k in ("family", "mode", "apart", "operators", "bytes", *PEAKS)) + "\n")


if __name__ == "__main__":
    main()
