#!/usr/bin/env python3
"""Finds what the host takes for the phases of training iterations: least squares on hosts.jsonl of data/measurements/h200/pytorch_training
(tools/trace_training_hosts.py), in launches of the narrow model that was taken beside each iteration.

Each phase has terms of its own, counted as the prediction counts them:

    forward        calls that launch, launches more that a library makes in one, layers, layers with experts
    backward       calls, launches more; what is computed again: calls of that, layers
    replicas       of DistributedDataParallel a tensor; of fully_shard a unit and a tensor, in each pass
    update         a tensor of each walk over them (optimizer, clipping), and of each list of it

Prints the terms, how far each point and phase is off, and the times for data/stacks at the narrow launch given. Standard library only;
`predict-model` must be built.
"""
import argparse
import collections
import json
import math
import os
import statistics

import predict_eager
from fit_stack_host import solved

FOLDER = os.path.join(predict_eager.ROOT, "data", "measurements", "h200", "pytorch_training")
LISTS = {"foreach": 8, "fused": 1, "sgd": 1, "sgd-momentum": 3}  # of tensors that the optimizer goes through; of clipping:
CLIPPING = 2
FURTHER = 0.214  # narrow launches of a launch more that a library makes in a call: serving's (tools/fit_host.py)
# Of what fully_shard's hooks do in the backward pass, summing gradients; the other part gathers again. (Least times of iterations of
# PyTorch 2.11 on a CPU that have next to no work, with and without reshard_after_forward: 0.29 and 0.24 of all that they do.)
SUMS = 0.29 / (0.29 + 0.24)
MEASURED = ("phases_us", "host_us", "counts", "machine", "tensors", "parameters")


def calls_of(point, known={}):
    """By pass, [calls, launches more that a library makes in one], as predicted of the model with all its widths, unspread."""
    asked = {**point, "spread": "none", "accumulate": 1, "masters": False, "clip": False, "optimizer": "foreach"}
    key = json.dumps({name: asked[name] for name in sorted(asked) if name not in MEASURED})
    if key not in known:
        step, complaint = predict_eager.ask(os.path.join(predict_eager.ROOT, "build", "bin", "predict-model"), asked, "h200")
        if not step:
            raise SystemExit(f"{point['model']}: {complaint}")
        known[key] = collections.defaultdict(lambda: [0, 0])
        for op in step["ops"]:
            in_call = op["name"].endswith(".reduce") or op["name"].endswith(".clear") and "read=4;" in op["shape"]
            further = op["count"] * (op["launch_count"] if in_call else op["launch_count"] - 1 if op["op"] == "gemm" else 0)
            known[key][op["pass"]][0] += op["count"] * op["launch_count"] - further
            known[key][op["pass"]][1] += further
    return known[key]


def terms_of(point):
    """By phase, {term: count} of a point."""
    layers, tensors, parts = point["layers"], point["tensors"], point.get("accumulate", 1)
    experts = layers if "moe" in point["model"] or "mixtral" in point["model"] else 0
    plain = calls_of({**point, "recompute": False})
    (forward, forward_more), (backward, backward_more) = plain["forward"], plain["backward"]
    found = {"forward": {"forward_call": parts * forward, "further_launch": parts * forward_more, "forward_layer": parts * layers},
             "backward": {"backward_call": parts * backward, "further_launch": parts * backward_more, "backward_layer": parts * layers}}
    if experts:
        found["forward"]["experts_layer"] = parts * experts
    if point["recompute"]:  # the layers' forward pass once more, and what the checkpoint adds to it
        again = calls_of(point)["backward"]
        found["forward"]["kept_layer"] = parts * layers
        found["backward"].update({"forward_call": parts * (again[0] - backward), "forward_layer": parts * layers, "again_layer": parts * layers})
        found["backward"]["further_launch"] += parts * (again[1] - backward_more)
    spread = point.get("spread", "none")
    if spread == "ddp":
        found["backward"]["summed_tensor"] = tensors
    elif spread == "fsdp":
        found["forward"]["gathered_unit"] = parts * (layers + 1)
        found["backward"]["backward_unit"] = (layers + 1) * (SUMS + (0 if point.get("keep") else parts * (1 - SUMS)))
    kind = "shard" if spread == "fsdp" else "tensor"
    found["optimizer"] = {f"walked_{kind}": tensors, f"listed_{kind}": tensors * LISTS[point["optimizer"]]}
    found["clip"] = {f"walked_{kind}": tensors, f"listed_{kind}": tensors * CLIPPING}
    return found


def total(weights, terms):
    return sum(weights.get(name, 0) * count for name, count in terms.items())


def squares(rows, names, near):
    """Least squares of (predicted - measured) / near[i], of terms `names`, none below 0."""
    names = list(names)
    while True:
        scaled = [[terms.get(name, 0) / unit for name in names] for (_, terms, _), unit in zip(rows, near)]
        right = [ratio / unit for (_, _, ratio), unit in zip(rows, near)]
        matrix = [[sum(row[i] * row[j] for row in scaled) + 1e-9 * (i == j) for j in range(len(names))] for i in range(len(names))]
        found = dict(zip(names, solved(matrix, [sum(row[i] * r for row, r in zip(scaled, right)) for i in range(len(names))])))
        least = min(found, key=found.get)
        if found[least] >= 0:
            return found
        names.remove(least)


def fitted(rows):
    """{term: narrow launches} of the least sum of |ln(predicted / measured)|, by squares weighted again and again: a backward pass
    takes up to twice its usual time, as its thread finds a core."""
    rows = [(about, {name: count for name, count in terms.items() if name != "further_launch"},
             ratio - FURTHER * terms.get("further_launch", 0)) for about, terms, ratio in rows]
    names = sorted({name for _, terms, _ in rows for name in terms})
    weights = squares(rows, names, [ratio for _, _, ratio in rows])
    for _ in range(60):
        near = []
        for _, terms, ratio in rows:
            predicted = total(weights, terms)
            off = abs(math.log(predicted / ratio)) if predicted > 0 else 1
            near.append(math.sqrt(max(predicted, 1) * ratio) * math.sqrt(max(off, 0.02)))
        weights = squares(rows, names, near)
    return {**weights, "further_launch": FURTHER}


def ratios(record):
    """By phase, the median over iterations of its time over the mean of the narrow launches in front and behind."""
    hosts = [(a + b) / 2 for a, b in zip(record["host_us"], record["host_us"][1:])]
    return {name: statistics.median(us / host for us, host in zip(times, hosts)) for name, times in record["phases_us"].items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", default=os.path.join(FOLDER, "hosts.jsonl"))
    parser.add_argument("--narrow-launch", type=float, default=28.4, help="microseconds, of the host that times are printed for")
    parser.add_argument("--leave-out", action="store_true", help="each model predicted by terms found on the others")
    args = parser.parse_args()
    records = [r for r in predict_eager.lines_of(args.hosts) if "phases_us" in r]
    rows = collections.defaultdict(list)
    for record in records:
        terms, found = terms_of(record), ratios(record)
        for phase, ratio in found.items():
            rows["passes" if phase in ("forward", "backward") else "update"].append(((record, phase), terms[phase], ratio))
    for group, kept in rows.items():
        weights = fitted(kept)
        print(group, {name: f"{value:.3f} = {value * args.narrow_launch:.1f} us" for name, value in weights.items()})
        errors = []
        for (record, phase), terms, ratio in kept:
            used = weights
            if args.leave_out:
                used = fitted([row for row in kept if row[0][0]["model"] != record["model"]])
            off = 100 * math.log(total(used, terms) / ratio)
            errors.append(abs(off))
            print(f"  {phase:9s} {off:+6.1f} %  {record['model']:20s} {record['layers']:3d} {predict_eager.flags_of(record)}  {ratio:.0f} narrow")
        print(f"  {len(errors)}: median {statistics.median(errors):.1f} %, mean {statistics.mean(errors):.1f}, worst {max(errors):.1f}")


if __name__ == "__main__":
    main()
