#!/usr/bin/env python3
"""Finds what the host takes for a step of transformers that is launched one by one: least squares of measured / predicted - 1
on the training rows of data/measurements/h200/pytorch/hosts.jsonl.gz, in units of what a launch of the narrow step took beside
each run (tools/measure_host.py):

    step / narrow launch = calls x a + further launches x f + layers x b + layers with experts x c

Calls and further launches are those that the prediction has: a further one is made by cuBLAS or cuDNN in the call of another (the
sum of a split product's parts, a counter that it clears).

Then the host that the stack files are of, where nobody measured one: the median of the training rows of `eager` and `sdpa` in
steps.csv that wait for it, in microseconds of a narrow launch. Prints both, the times for data/stacks, and how far rows of both
sides are off. Standard library only; `validate` and `predict-model` must be built.
"""
import csv
import gzip
import json
import math
import os
import statistics
import subprocess
import tempfile

import measurement_csv
from fit_stack_host import solved

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "measurements", "h200", "pytorch")
MODELS = os.path.join(FOLDER, "..", "..", "..", "models")
PREDICT = os.path.join(os.path.dirname(measurement_csv.__file__), "..", os.environ.get("PLUMBLINE_BUILD", "build"), "bin",
                       "predict-model")
WAITS = 0.8  # the GPU is busy for less of the step's time than this


def has_experts(model):
    with open(os.path.join(MODELS, model + ".json"), encoding="utf-8") as file:
        config = json.load(file)
    return any(key in config for key in ("num_experts", "num_local_experts", "n_routed_experts"))


def priced(row, folder, known={}):
    """(launches, those made in the call of another) of a traced step, as predicted."""
    key = tuple(str(row[name]) for name in ("model", "mode", "phase", "batch", "tokens", "layers"))
    if key in known:
        return known[key]
    with open(os.path.join(MODELS, row["model"] + ".json"), encoding="utf-8") as file:
        config = json.load(file)
    for name in ("num_hidden_layers", "n_layer"):
        if name in config:
            config[name] = int(row["layers"])
    path = os.path.join(folder, row["model"] + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    decode = row["phase"] == "decode"
    command = [PREDICT, "llm", "--model", path, "--gpu", "h200", "--stack", "hf-" + row["mode"], "--batch", str(row["batch"]),
               "--phase", "decode" if decode else "prefill", "--context" if decode else "--prompt", str(row["tokens"]),
               "--format", "json"]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    launches = further = 0
    for op in json.loads(text)["ops"]:
        if op["name"] == "sample":  # a forward chooses no token
            continue
        launches += op["count"] * op["launch_count"]
        in_call = op["name"].endswith(".reduce") or op["name"].endswith(".clear") and "read=4;" in op["shape"]
        if in_call or op["op"] in ("gemm", "attention_decode", "mla_decode"):
            further += op["count"] * (op["launch_count"] - (0 if in_call else 1))
    known[key] = (launches, further)
    return known[key]


def parts_of(row, folder):
    launches, further = priced(row, folder)
    layers = int(row["layers"])
    return [launches - further, further, layers, layers if has_experts(row["model"]) else 0]


def side_key(model, phase, batch, tokens):
    decode = phase == "decode"
    return [model, "decode" if decode else "prefill", batch, "" if decode else tokens, tokens if decode else "", ""]


def split(rows):
    """Rows of (side key, parts, ...): (training rows, held-out rows)."""
    held_out = measurement_csv.sides([row[0] for row in rows], measurement_csv.RUN_COLUMNS[:6])
    return ([row for row, held in zip(rows, held_out) if not held], [row for row, held in zip(rows, held_out) if held])


def beside_hosts(folder):
    """(side key, parts, step / narrow launch) of decoders and encoders."""
    rows = []
    with gzip.open(os.path.join(FOLDER, "hosts.jsonl.gz"), "rt", encoding="utf-8") as text:
        for line in text:
            r = json.loads(line)
            if r["phase"] == "denoise":
                continue
            measured = statistics.median(r["wall_us"]) / statistics.median(r["probe_us"])
            rows.append((side_key(r["model"], r["phase"], r["batch"], r["tokens"]),
                         parts_of(r, folder), measured))
    return rows


def waiting_steps(folder):
    """The same of steps.csv, with the step's time in microseconds."""
    rows = []
    with open(os.path.join(FOLDER, "steps.csv"), encoding="utf-8", newline="") as file:
        for r in csv.DictReader(file):
            waits = float(r["busy_us"]) < WAITS * float(r["wall_us"])
            if r["mode"] in ("eager", "sdpa") and r["phase"] != "denoise" and waits:
                rows.append((side_key(r["model"], r["phase"], int(r["batch"]), int(r["tokens"])),
                             parts_of(r, folder), float(r["wall_us"])))
    return rows


def fitted(rows):
    size = len(rows[0][1])
    scaled = [[part / measured for part in parts] for _, parts, measured in rows]
    matrix = [[sum(row[i] * row[j] for row in scaled) for j in range(size)] for i in range(size)]
    return solved(matrix, [sum(row[i] for row in scaled) for i in range(size)])


def dot(weights, parts):
    return sum(w * p for w, p in zip(weights, parts))


def told(name, errors):
    errors = sorted(errors)
    print(f"{name}: {len(errors)} rows, median {100 * statistics.median(errors):.1f} %, "
          f"p90 {100 * errors[int(0.9 * (len(errors) - 1))]:.1f} %")


def main():
    with tempfile.TemporaryDirectory() as folder:
        beside, waiting = beside_hosts(folder), waiting_steps(folder)
    train, held_out = split(beside)
    weights = fitted(train)
    print("narrow launches: a call {:.3f}, a further launch {:.3f}, a layer {:.2f}, a layer with experts {:.2f} more".format(*weights))
    for name, rows in (("measured host, training", train), ("measured host, held out", held_out)):
        told(name, [abs(math.log(dot(weights, parts) / measured)) for _, parts, measured in rows])
    train, held_out = split(waiting)
    host = statistics.median(measured / dot(weights, parts) for _, parts, measured in train)
    print(f"unknown host: narrow_launch {host:.1f} us; each_launch {host * weights[0]:.1f} us, "
          f"each_further_launch {host * weights[1]:.1f} us, each_layer {host * weights[2]:.0f} us, "
          f"each_experts_layer {host * weights[3]:.0f} us")
    for name, rows in (("unknown host, training", train), ("unknown host, held out", held_out)):
        told(name, [abs(math.log(host * dot(weights, parts) / measured)) for _, parts, measured in rows])


if __name__ == "__main__":
    main()
