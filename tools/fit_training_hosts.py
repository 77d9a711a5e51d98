#!/usr/bin/env python3
"""Finds what the host takes for the phases of training iterations: the terms of model/stacks/training_host.hpp, on hosts.jsonl
of data/measurements/h200/pytorch_training (tools/trace_training_hosts.py), in launches of the narrow model that was taken beside each
iteration. What is least is the sum of |ln(predicted / measured)| over phases; each term is counted as the prediction counts it.

Prints the terms, how far each point and phase is off, and the times for data/stacks at the narrow launch given. Standard library only;
`predict-model` must be built.
"""
import argparse
import collections
import json
import math
import os
import statistics
import tempfile

import predict_eager
from fit_stack_host import solved

FOLDER = os.path.join(predict_eager.ROOT, "data", "measurements", "h200", "pytorch_training")
LISTS = {"foreach": 8, "fused": 1, "sgd": 1, "sgd-momentum": 3}  # of tensors that the optimizer goes through; of clipping:
CLIPPING = 2
FURTHER = 0.214  # narrow launches of a launch more that a library makes in a call: serving's (tools/fit_host.py)
# Of what fully_shard's hooks do in the backward pass, summing gradients; the other part gathers again. (Least times of iterations of
# PyTorch 2.11 on a CPU that have next to no work, with and without reshard_after_forward: 0.29 and 0.24 of all that they do.)
SUMS = 0.29 / (0.29 + 0.24)


def counted(term, point, known={}):
    """How many of a stack's `term` (model/stacks/training_host.hpp) an iteration has: what it takes on a host that takes a second for one
    and for nothing else."""
    asked = {name: value for name, value in point.items() if name in ("model", "layers", "batch", "tokens", *predict_eager.KEYS)}
    key = json.dumps([term, asked], sort_keys=True)
    if key not in known:
        with open(os.path.join(predict_eager.ROOT, "data", "stacks", predict_eager.stack_of(point) + ".json"), encoding="utf-8") as text:
            stack = json.load(text)
        host = stack["host"]
        host["training"] = {name: int(name == term) if isinstance(value, (int, float)) else value for name, value in host["training"].items()}
        host["training"]["narrow_launch"] = "1 s"
        host["training_hosts"]["apart"] = 0
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(stack, file)
            file.flush()
            program = os.path.join(predict_eager.ROOT, "build", "bin", "predict-model")
            step, complaint = predict_eager.ask(program, asked, "h200", stack=file.name)
        if not step:
            raise SystemExit(f"{point['model']}: {complaint}")
        known[key] = round(step["latency_s"])
    return known[key]


def terms_of(point):
    """By phase, {term: count} of a point."""
    plain = {**point, "recompute": False}
    begin = ["forward_begin"]  # once, whatever is computed again
    forward = ["forward_call", "forward_layer", "experts_layer"]
    found = {"forward": {name: counted(name, plain) for name in begin + forward},
             "backward": {name: counted(name, point) for name in ("backward_call", "backward_layer", "further_launch")}}
    if point["recompute"]:
        found["forward"]["kept_layer"] = counted("kept_layer", point)
        found["backward"].update({name: counted(name, point) - counted(name, plain) for name in forward})
        found["backward"]["again_layer"] = counted("again_layer", point)
    spread = point.get("spread", "none")
    if spread == "ddp":
        found["backward"]["summed_tensor"] = counted("summed_tensor", point)
    elif spread == "fsdp":
        found["forward"]["gathered_unit"] = counted("gathered_unit", point)
        found["backward"]["backward_unit"] = (SUMS * counted("summed_unit", point) + (1 - SUMS) * counted("gathered_again_unit", point))
    kind = "shard" if spread == "fsdp" else "tensor"
    found["optimizer"] = {f"walked_{kind}": point["tensors"], f"listed_{kind}": point["tensors"] * LISTS[point["optimizer"]]}
    found["clip"] = {f"walked_{kind}": point["tensors"], f"listed_{kind}": point["tensors"] * CLIPPING}
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
