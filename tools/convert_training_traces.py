#!/usr/bin/env python3
"""Makes the tables of data/measurements/{h200,h100}/pytorch_training from what tools/trace_training.py wrote there: steps.csv (a
line a point), groups.csv (time of each kind of launch in the traced iteration), steps.train.csv and steps.heldout.csv (as
`validate compare` reads them, by the project's rule, which `validate sides` says: build validate first), options.*.csv (the same of
points that clip gradients or run under autocast); and
data/measurements/h200_pytorch/h200_sxm/attention_backward.*.csv from the H200's single operators by cuDNN.

    tools/convert_training_traces.py [--launches MODEL BATCHxTOKENS]     lists the launches of a traced iteration instead

Standard library only.
"""
import csv
import gzip
import json
import os
import re
import sys

import measurement_csv
import trace_training_models

MEASUREMENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "measurements")


def folder_of(card):
    return os.path.join(MEASUREMENTS, card, "pytorch_training")


POINT = ["model", "layers", "gpus", "spread", "batch", "tokens", "optimizer", "clip", "recompute", "attention", "autocast", "keep",
         "view"]
STEP_COLUMNS = POINT + ["side", "wall_us", "wall_low_us", "wall_high_us", "busy_us", "launches", "watts", "sm_MHz", "rest_bytes",
                        "behind_forward_bytes", "peak_forward_bytes", "peak_backward_bytes", "peak_optimizer_bytes",
                        "peak_bytes", "reserved_bytes"]
GROUPS = ["matrix", "attention", "element_wise", "loss", "optimizer", "reductions", "experts", "network", "other"]
RUN_COLUMNS = ["model", "layers", "phase", "batch", "prompt", "recompute", "optimizer", "dtype", "gpu", "stack", "measured_ms",
               "measured_W", "id"]


def group_of(strings, group, vocabulary):
    """What a launch is counted as, by kernel, operator, shapes and phase."""
    kernel, operator, dims, phase = (strings[group[i]] for i in (0, 1, 2, 6))
    if "nccl" in kernel.lower():
        return "network"
    if phase in ("optimizer", "clip"):
        return "optimizer"
    if re.search("log_softmax|nll_loss|cross_entropy", operator):
        return "loss"
    if operator in ("aten::copy_", "aten::_to_copy", "aten::fill_", "aten::zero_", "aten::div", "aten::mul") and f", {vocabulary}]" in dims:
        return "loss"
    if re.search("scaled_dot_product|_attention_(forward|backward)", operator):
        return "attention"
    if re.search("aten::(mm|addmm|bmm|baddbmm|_grouped_mm|linear)$", operator) or re.search("nvjet|gemm|cutlass|splitK", kernel):
        return "matrix"
    if re.search("sort|topk|_index_put|scatter|histc|cumsum", operator):
        return "experts"
    if re.search("reduce_kernel|GammaBeta|layer_norm_grad|cuComputePartGrad|norm_grad", kernel):
        return "reductions"
    return "element_wise"


def traces(folder):
    """By point, the record of traces.jsonl.gz."""
    found = {}
    for name in ("traces.jsonl.gz", "traces.second.jsonl.gz", "traces.two.jsonl.gz"):
        file = os.path.join(folder, name)
        if not os.path.exists(file):
            continue
        with gzip.open(file, "rt", encoding="utf-8") as text:
            for line in text:
                record = json.loads(line)
                found[key_of(record)] = record
    return found


def key_of(record):
    return tuple(str(record.get(name, "")) for name in POINT)


def steps(folder):
    for name in ("steps.jsonl", "steps.second.jsonl", "steps.two.jsonl"):
        file = os.path.join(folder, name)
        if os.path.exists(file):
            with open(file, encoding="utf-8") as text:
                for line, record in enumerate(text, 1):
                    yield f"{name}:{line}", json.loads(record)


def write(folder, name, columns, rows):
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def vocabulary_of(model):
    return trace_training_models.config_of(model, os.path.join(MEASUREMENTS, "..", "models"))[0]["vocab_size"]


def times_by_group(trace):
    """Microseconds and launches of each group; of NCCL's kernels, which run beside the others, too."""
    vocabulary, times = vocabulary_of(trace["model"]), {name: [0.0, 0] for name in GROUPS}
    for group in trace["groups"]:
        name = group_of(trace["strings"], group, vocabulary)
        times[name][0] += group[12]
        times[name][1] += group[8]
    return times


def list_launches(trace):
    vocabulary = vocabulary_of(trace["model"])
    for index in trace["launches"]:
        g, s = trace["groups"][index], trace["strings"]
        print(s[g[6]][:4], group_of(s, g, vocabulary)[:6], f"{g[9]:9.2f}", s[g[1]], s[g[2]], s[g[3]], s[g[5]], s[g[0]][:90], sep=" | ")


def backward_rows():
    """Backward passes by cuDNN: the sum of their launches' own times, without what clears a counter."""
    out = measurement_csv.Output()
    with open(os.path.join(folder_of("h200"), "operators.jsonl"), encoding="utf-8") as lines:
        for line, text in enumerate(lines, 1):
            record = json.loads(text)
            if record["by"] != "cudnn" or "kernels" not in record:
                continue
            times = [count / 5 * median for name, (count, median, _, _) in record["kernels"].items()
                     if re.search("bprop|compute_dot_do_o|convert_dq|fmha_reduce", name)]
            out.add(("h200_pytorch", "h200_sxm", "attention_backward"), "attention_backward", "bf16", record["shape"],
                    f"{sum(times):.3f}", f"operators:{line}", stack="pytorch-2.11", kernel="cudnn", scope="kernels")
    with open(os.path.join(folder_of("h200"), "attention.jsonl"), encoding="utf-8") as lines:
        for line, text in enumerate(lines, 1):
            record = json.loads(text)
            if record["window"] or record["dropout"] or record["type"] != "bf16":
                continue
            shape = {key: record[key] for key in ("B", "Hq", "Hkv", "D", "S", "causal")}
            for op, kernels in (("attention_backward", "bprop|compute_dot_do_o|convert_dq|fmha_reduce"), ("attention_prefill", "fprop")):
                us = sum(count * median for name, (count, median, _, _) in record["kernels"].items() if re.search(kernels, name))
                out.add(("h200_pytorch", "h200_sxm", "attention_widths"), op, "bf16", shape, f"{us:.3f}", f"attention:{line}",
                        stack="pytorch-2.11", kernel="cudnn", scope="kernels")
    out.write(MEASUREMENTS)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--launches":
        for record in traces(folder_of("h200")).values():
            if record["model"] == sys.argv[2] and f"{record['batch']}x{record['tokens']}" == sys.argv[3]:
                return list_launches(record)
        sys.exit("no such point")
    for card in ("h200", "h100"):
        write_tables(card)
    backward_rows()


def write_tables(card):
    folder = folder_of(card)
    held = traces(folder)
    points = [(where, record) for where, record in steps(folder) if "wall_us" in record]
    asked = [[r["model"], "train", r["batch"] * r["gpus"], r["tokens"], "", "", "" if r["gpus"] == 1 else r["gpus"]] for _, r in points]
    sides = measurement_csv.sides(asked, measurement_csv.SIDE_COLUMNS)
    rows, groups, runs, others = [], [], {True: [], False: []}, {True: [], False: []}
    for (where, r), held_out in zip(points, sides):
        trace, memory = held.get(key_of(r)), r.get("memory") or {"peak": {}, "behind": {}}
        side = "heldout" if held_out else "train"
        point = [r.get(name, "") for name in POINT]
        rows.append(point + [side, *r["wall_us"], trace["busy_us"] if trace else "", len(trace["launches"]) if trace else "",
                             round(r["watts"], 1) if r.get("watts") else "", r.get("sm_MHz") or "", memory.get("rest", ""),
                             memory["behind"].get("forward", ""), memory["peak"].get("forward", ""),
                             memory["peak"].get("backward", ""), memory["peak"].get("optimizer", ""),
                             memory.get("max_allocated", ""), memory.get("reserved", "")])
        if trace:
            times = times_by_group(trace)
            groups += [point + [side, name, round(us, 1), count] for name, (us, count) in times.items() if count]
        if r["gpus"] == 1:
            run = [r["model"], r["layers"], "train", r["batch"], r["tokens"], "full" if r["recompute"] else "none",
                   "adamw-fused" if r["optimizer"] == "fused" else "adamw", "bf16", f"{card}_sxm", "hf-" + r["attention"],
                   repr(round(r["wall_us"][0] / 1e3, 5)), round(r["watts"], 1) if r.get("watts") else "", where]
            if r["clip"] or r["autocast"]:
                others[held_out].append(run + ["fp32" if r["autocast"] else "", "norm" if r["clip"] else ""])
            else:
                runs[held_out].append(run)
    write(folder, "steps.csv", STEP_COLUMNS, rows)
    write(folder, "groups.csv", POINT + ["side", "group", "us", "launches"], groups)
    write(folder, "steps.train.csv", RUN_COLUMNS, runs[False])
    write(folder, "steps.heldout.csv", RUN_COLUMNS, runs[True])
    for side, kept in (("train", others[False]), ("heldout", others[True])):
        if kept:
            write(folder, f"options.{side}.csv", RUN_COLUMNS + ["grad-dtype", "clip"], kept)


if __name__ == "__main__":
    main()
