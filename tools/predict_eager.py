#!/usr/bin/env python3
"""Predicts PyTorch's eager training iterations by group of kernels, and holds them against what tools/trace_training.py recorded.

    tools/predict_eager.py --points POINTS.json [--out PREDICTED.jsonl]                     predicts
    tools/predict_eager.py --steps steps.jsonl --traces traces.jsonl.gz [--predicted FILE]  compares, with a file's predictions or new ones

POINTS.json is what trace_training.py takes: lists of model, batch, tokens and an object of what differs. A line of
PREDICTED.jsonl: point, layers, wall_us, watts, sm_MHz, peak_bytes, groups_us (of the traced iteration: element_wise, matrix, attention, loss,
reductions, optimizer, experts). A comparison prints 100 ln(predicted / measured), of groups that take 5 % of the GPU's time or more. Build predict-model first.
"""
import argparse
import collections
import gzip
import json
import math
import os
import re
import statistics
import subprocess
import tempfile

import convert_training_traces

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
OPTIMIZERS = {"foreach": "adamw", "fused": "adamw-fused", "sgd": "sgd-plain", "sgd-momentum": "sgd", "adafactor": "adafactor",
              "muon": "muon"}


def group_of(name, op, phase):
    """A predicted launch's group, as convert_training_traces.group_of() counts a traced one."""
    part = name.split(".", 1)[1] if "." in name else name
    if phase == "update":
        return "optimizer"
    if name.startswith("loss_"):
        return "loss"
    if "lm_head" in name and re.search("_cap$|scale$", part):
        return "loss"
    if name.startswith("attention") and not re.search("repeat|seen|sum_", part):
        return "attention"
    if op in ("gemm", "grouped_gemm") or re.search("^(clear|prepare)$", part) and "proj" in name:
        return "matrix"
    if re.search("sort|topk|select", name) or name.startswith("moe_permute") and re.search("count|sum|zero$|begins", part):
        return "experts"
    if re.search("(^|_)(mean|row_sum|weight_sum|dw|db|clear_dw|clear_db|norm_rows|norm_columns|dense_db|rows|columns|sum_keys|sum_values|places_sum)$", part) \
            and not re.search("d_mean|times_mean|embedding.*rows|_cast_", name):
        return "reductions"
    return "element_wise"


def config_of(point):
    import trace_training_models
    file, layers = trace_training_models.MODELS[point["model"]]
    with open(os.path.join(ROOT, "data", "models", file), encoding="utf-8") as text:
        config = json.load(text)
    for key in ("num_hidden_layers", "n_layer"):
        if key in config:
            depth, config[key] = config[key], layers
            for name, value in config.items():
                if isinstance(value, list) and len(value) == depth:
                    config[name] = value[:layers]
    if point.get("no_dropout"):
        config.update({key: 0.0 for key in config if key.endswith(("pdrop", "dropout_prob", "dropout"))})
    return config, layers


def replicas_of(point):
    """Flags of the batch, and of two GPUs that share it: a rank's own batch is `batch` of each of `accumulate` parts."""
    parts, spread = point.get("accumulate", 1), point.get("spread", "none")
    ranks = 1 if spread == "none" else 2
    flags = ["--batch", str(ranks * parts * point["batch"])] + (["--micro-batch", str(point["batch"])] if parts > 1 else [])
    if ranks == 1:
        return flags
    zero = {"ddp": 0, "fsdp": 2 if point.get("keep") else 3}[spread]
    flags += ["--dp", "2", "--zero", str(zero), "--cluster", "dgx_h200"]
    return flags + (["--grad-dtype", "fp32"] if point.get("masters") else [])


def predict(program, point, gpu, host_us=0):
    config, layers = config_of(point)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        stack = "hf-eager" if point.get("attention") == "eager" else "hf-sdpa"
        command = [program, "llm", "--model", file.name, "--gpu", gpu, "--phase", "train", "--stack", stack,
                   "--prompt", str(point["tokens"]), "--optimizer", OPTIMIZERS[point.get("optimizer", "foreach")], "--format", "json"]
        command += replicas_of(point) + (["--host", f"{host_us}us"] if host_us else [])
        command += ["--clip", "norm"] if point.get("clip") else []
        command += ["--recompute", "full"] if point.get("recompute") else []
        command += ["--grad-dtype", "fp32"] if point.get("autocast") or point.get("tf32") else []
        command += ["--dtype", "tf32"] if point.get("tf32") else ["--dtype", point["dtype"]] if point.get("dtype") else []
        command += ["--dtype", "fp16"] if point.get("half") else []
        run = subprocess.run(command, capture_output=True, text=True)
    line = {"point": point, "layers": layers}
    if not run.stdout:
        return {**line, "error": re.sub(r"/\S*/", "", run.stderr.strip())[:200]}
    step, groups = json.loads(run.stdout), collections.Counter()
    for op in step["ops"]:
        groups[group_of(op["name"], op["op"], op["pass"])] += op["kernel_s"] * op["count"] * 1e6
    return {**line, "wall_us": round(step["latency_s"] * 1e6, 1), "low_us": round(step["latency_low_s"] * 1e6, 1),
            "high_us": round(step["latency_high_s"] * 1e6, 1), "watts": round(step["power_W"], 1), "sm_MHz": round(step["sm_clock_Hz"] / 1e6),
            "peak_bytes": step["memory_bytes"]["total"], "groups_us": {name: round(us, 1) for name, us in groups.items()}}


def error(predicted, measured):
    return 100 * math.log(predicted / measured) if predicted > 0 and measured else math.nan


def key_of(r):
    return json.dumps([r["model"], r["batch"], r["tokens"], r.get("optimizer", "foreach"), r.get("clip", False), r.get("recompute", False),
                       r.get("autocast", False), r.get("no_dropout"), r.get("tf32"), r.get("attention", "sdpa"), r.get("dtype"), r.get("scaler", False)])


def compare(steps, traces, predictions):
    times, peaks, powers, by_group = [], [], [], collections.defaultdict(list)
    for record in steps:
        key = key_of(record)
        p, trace = predictions[key], traces.get(key)
        if "error" in record or "error" in p:
            print(f"{record['model']:20s} {record['batch']}x{record['tokens']} {record.get('error', '')} {p.get('error', '')}")
            continue
        watts = record.get("power", {}).get("watts") or record["watts"]
        errors = [error(p["wall_us"], record["wall_us"][0]), error(p["watts"], watts or math.nan),
                  error(p["peak_bytes"], record["memory"]["max_allocated"])]
        for kept, value in zip((times, powers, peaks), errors):
            kept.append(abs(value))
        parts = []
        if trace:
            measured = convert_training_traces.times_by_group(trace)
            for name, (us, _) in measured.items():
                if us >= 0.05 * trace["busy_us"] and name != "other":
                    off = error(p["groups_us"].get(name, 0), us)
                    by_group[name].append(abs(off))
                    parts.append(f"{name} {off:+.1f} ({us / trace['busy_us']:.0%})")
        flags = ",".join(f"{k}" if v is True else f"{v}" for k, v in record.items()
                         if k in ("optimizer", "clip", "recompute", "autocast", "no_dropout", "tf32", "dtype") and v and v != "foreach")
        inside = "" if p.get("low_us", 0) <= record["wall_us"][0] <= p.get("high_us", 1e30) else " OUT"
        print(f"{record['model']:18s} {record['batch']}x{record['tokens']} {flags:14s} time {errors[0]:+5.1f}{inside} W {errors[1]:+5.1f} memory {errors[2]:+6.2f} | "
              + " ".join(parts))
    for name, values in [("time", times), ("power", powers), ("memory", peaks)] + sorted(by_group.items()):
        kept = [v for v in values if not math.isnan(v)]
        if kept:
            print(f"{name:14s} {len(kept):3d}  median {statistics.median(kept):5.2f}  worst {max(kept):5.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--predict", default=os.path.join(ROOT, "build", "bin", "predict-model"))
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--points", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--steps", default="")
    parser.add_argument("--traces", default="")
    parser.add_argument("--predicted", default="")
    args = parser.parse_args()

    if args.points:
        with open(args.points, encoding="utf-8") as text:
            lines = [predict(args.predict, dict(zip(("model", "batch", "tokens"), p[:3])) | p[3], args.gpu) for p in json.load(text)]
        for line in lines:
            print({k: v for k, v in line.items() if k != "groups_us"})
        if args.out:
            with open(args.out, "w", encoding="utf-8") as out:
                out.writelines(json.dumps(line) + "\n" for line in lines)
        return
    with open(args.steps, encoding="utf-8") as text:
        steps = [json.loads(line) for line in text]
    with gzip.open(args.traces, "rt", encoding="utf-8") as text:
        traces = {}
        for line in text:
            record = json.loads(line)
            traces[key_of(record)] = record
    if args.predicted:
        with open(args.predicted, encoding="utf-8") as text:
            predictions = {key_of(line["point"]): line for line in map(json.loads, text)}
    else:
        predictions = {key_of(record): predict(args.predict, record, args.gpu) for record in steps}
    compare(steps, traces, predictions)


if __name__ == "__main__":
    main()
