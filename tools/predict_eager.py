#!/usr/bin/env python3
"""Predicts PyTorch's eager training iterations by group of kernels, and holds them against what tools/trace_training.py recorded.

    tools/predict_eager.py --points POINTS.json [--more MODELS.json] [--out PREDICTED.jsonl]    predicts
    tools/predict_eager.py --steps STEPS.jsonl ... [--traces TRACES.jsonl.gz ...] [--predicted FILE ...]
                                                    compares, with those files' predictions or new ones
    tools/predict_eager.py --recorded               compares all that was recorded on one and two H200, but for rehearsals

POINTS.json is what trace_training.py takes: lists of model, batch, tokens and an object of what differs. A line of
PREDICTED.jsonl: point, layers, wall_us, watts, sm_MHz, peak_bytes, groups_us (of the traced iteration: element_wise, matrix, attention, loss,
reductions, optimizer, experts). A comparison prints 100 ln(predicted / measured), of groups that take 5 % of the GPU's time or more;
at its end, of each file and of all, how many lie in their bands and half the width of those in ln. Power of records whose energy
counter was watched for 14 movements and more is printed again by itself. With `--hosts` each point whose
record has its host's narrow launches is predicted by `--host` of their mean, of the slower rank's. Build predict-model first.
"""
import argparse
import collections
import concurrent.futures
import glob
import gzip
import json
import math
import os
import re
import statistics
import subprocess
import tempfile

import convert_training_traces
import trace_training_models

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
OPTIMIZERS = {"foreach": "adamw", "fused": "adamw-fused", "loop": "adamw-loop", "sgd": "sgd-plain", "sgd-momentum": "sgd",
              "adafactor": "adafactor", "muon": "muon", "adam8bit": "adam8bit"}


COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "broadcast")


def group_of(name, op, phase):
    """A predicted launch's group, as convert_training_traces.group_of() counts a traced one."""
    part = name.split(".", 1)[1] if "." in name else name
    if op in COLLECTIVES:
        return "network"
    if phase == "update" and part != "accumulate":  # micro-batches' gradients are added in the backward pass
        return "optimizer"
    if name.startswith("loss_"):
        return "loss"
    if "lm_head" in name and re.search("_cap$|scale$|^d_from_fp32$", part):
        return "loss"
    written_out = "fp32|copy|turn|scale|scores|context|softmax|drop|times_weights|add_mask|all$|zero$|choose|least|see$|behind|bias|d_d[kvqp]$"
    if re.match("(cross_)?attention", name) and not re.search("repeat|seen|sum_|pad|" + written_out, part):
        return "attention"
    if op in ("gemm", "grouped_gemm") or re.search("^(clear|prepare)$", part) and "proj" in name:
        return "matrix"
    if re.search(r"attn_scores\.(d_scatter|gather)", name):  # DeBERTa's, by the operators that experts have elsewhere
        return "experts" if "scatter" in name else "element_wise"
    if re.search("sort|topk|select", name) or name.startswith("moe_permute") and re.search("count|sum|zero$|begins", part) \
            or re.match("moe_|experts_", name) and re.search("(^|_)put$", part):  # index_put, as its sorts
        return "experts"
    if re.search(r"(^|_|\.)(mean|row_sum|weight_sum|dw|db|norm_rows|norm_columns|columns_in_parts|dw_of_parts|dense_db|rows|columns|last_rows|last_columns|sum_keys|sum_values|places_sum|d_sum_table|table_db|table_norm_rows|all|d_sum_bias|sum_bias)$", part) \
            and not re.search("d_mean|times_mean|embedding.*rows|_cast_|clear_d|times_rows", name):
        return "reductions"
    return "element_wise"


def config_of(point):
    config, layers = trace_training_models.config_of(point["model"], os.path.join(ROOT, "data", "models"))
    layers = point.get("layers", layers)
    for key in trace_training_models.DEPTHS:
        if key in config:
            depth, config[key] = config[key], layers
            for name, value in config.items():
                if isinstance(value, list) and len(value) == depth:
                    config[name] = value[:layers]
    encoder = trace_training_models.ENCODERS.get(config.get("model_type"))
    if encoder:
        config["architectures"] = [encoder + "ForMaskedLM"]
    if point.get("no_dropout"):
        config.update({key: 0.0 for key in config if key.endswith(("pdrop", "dropout_prob", "dropout", "dropout_rate"))})
    return config, layers


def replicas_of(point):
    """Flags of the batch, and of the GPUs that share it (`gpus`, else two): a rank's own batch is `batch` of each of `accumulate` parts."""
    parts, spread = point.get("accumulate", 1), point.get("spread", "none")
    ranks = 1 if spread == "none" else point.get("gpus", 2)
    flags = ["--batch", str(ranks * parts * point["batch"])] + (["--micro-batch", str(point["batch"])] if parts > 1 else [])
    if ranks == 1:
        return flags
    shards = 2 if point.get("keep") else 3
    zero = {"ddp": 0, "zero1": 1, "fsdp": shards, "fsdp1": shards}[spread]
    flags += ["--dp", str(ranks), "--zero", str(zero), "--cluster", "dgx_h200"] + (["--fsdp", "1"] if spread == "fsdp1" else [])
    return flags + (["--grad-dtype", "fp32"] if point.get("masters") else [])


def stack_of(point):
    return "hf-eager" if point.get("attention") == "eager" else "hf-sdpa"


def ask(program, point, gpu, host_us=0, stack=""):
    """(What predict-model says of the point or nothing, its complaint). `stack`: a file in place of the usual one."""
    config, _ = config_of(point)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        command = [program, "llm", "--model", file.name, "--gpu", gpu, "--phase", "train", "--stack", stack or stack_of(point),
                   "--prompt", str(point["tokens"]), "--optimizer", OPTIMIZERS[point.get("optimizer", "foreach")], "--format", "json"]
        command += replicas_of(point) + (["--host", f"{host_us}us"] if host_us else [])
        command += ["--clip", "norm"] if point.get("clip") else []
        command += ["--recompute", "full"] if point.get("recompute") else []
        command += ["--grad-dtype", "fp32"] if point.get("autocast") or point.get("tf32") else []
        # what tools/trace_training.py makes of a model, whatever type its config names
        kept = "tf32" if point.get("tf32") else point.get("dtype") or ("fp16" if point.get("half") else "bf16")
        command += ["--dtype", kept]
        run = subprocess.run(command, capture_output=True, text=True)
    return json.loads(run.stdout) if run.stdout else None, re.sub(r"/\S*/", "", run.stderr.strip())[:200]


def predict(program, point, gpu, host_us=0):
    line = {"point": point, "layers": config_of(point)[1]}
    step, complaint = ask(program, point, gpu, host_us)
    if not step:
        return {**line, "error": complaint}
    groups = collections.Counter()
    for op in step["ops"]:
        groups[group_of(op["name"], op["op"], op["pass"])] += op["kernel_s"] * op["count"] * 1e6
    return {**line, "wall_us": round(step["latency_s"] * 1e6, 1), "low_us": round(step["latency_low_s"] * 1e6, 1),
            "high_us": round(step["latency_high_s"] * 1e6, 1), "watts": round(step["power_W"], 1), "sm_MHz": round(step["sm_clock_Hz"] / 1e6),
            "peak_bytes": step["memory_bytes"]["total"], "groups_us": {name: round(us, 1) for name, us in groups.items()}}


# Movements of the energy counter, one in 100 ms, from which on a reading counts as long: iterations take as long as that, and
# of one that is read for 0.7 s a phase more or less is in it.
LONG_READ = 14


def error(predicted, measured):
    return 100 * math.log(predicted / measured) if predicted > 0 and measured else math.nan


KEYS = {"optimizer": "foreach", "clip": False, "recompute": False, "autocast": False, "no_dropout": False, "tf32": False, "attention": "sdpa",
        "dtype": None, "spread": "none", "accumulate": 1, "keep": False, "masters": False, "view": False,
        "scaler": False, "half": False}


def key_of(r):
    """What tells one point of a file from another: model, sizes and all that differs."""
    return json.dumps([r["model"], r["batch"], r["tokens"]] + [r.get(name) or usual for name, usual in KEYS.items()])


def flags_of(r):
    return ",".join(name if r[name] is True else f"{name}={r[name]}" if name == "accumulate" else str(r[name])
                    for name, usual in KEYS.items() if r.get(name) and r[name] != usual)


def groups_off(p, trace):
    """Errors of the groups that take 5 % of the GPU's time or more, with their shares."""
    found = {}
    for name, (us, _) in (convert_training_traces.times_by_group(trace) if trace else {}).items():
        if us >= 0.05 * trace["busy_us"] and name not in ("other", "network"):  # NCCL's kernels wait for one another
            found[name] = error(p["groups_us"].get(name, 0), us), us / trace["busy_us"]
    return found


def watts_of(record):
    """Between two movements of the energy counters, of several ranks their mean, where a record has it; else of the loop."""
    seen = [(each.get("power") or {}).get("watts") for each in record.get("ranks", [])] or [(record.get("power") or {}).get("watts")]
    return statistics.mean(seen) if all(seen) else record["watts"]


def moves_of(record):
    """Movements of the energy counter in that stretch, of several ranks the fewest; 0 where nobody watched it."""
    return min((each.get("power") or {}).get("moves", 0) for each in record.get("ranks") or [record])


def compare_point(record, p, trace):
    """Prints a line; {what: error}, whether the time lies in the band, half the band's width."""
    watts = watts_of(record)
    wall = record["wall_us"][0]
    errors = {"time": error(p["wall_us"], wall), "power": error(p["watts"], watts or math.nan),
              "memory": error(p["peak_bytes"], record["memory"]["max_allocated"])}
    if moves_of(record) >= LONG_READ:
        errors["power, read long"] = errors["power"]
    low, high = p.get("low_us", 0), p.get("high_us", math.inf)
    groups = groups_off(p, trace)
    print(f"{record['model']:18s} {record['batch']}x{record['tokens']} {flags_of(record):14s} time {errors['time']:+5.1f}"
          f"{'' if low <= wall <= high else ' OUT'} W {errors['power']:+5.1f} memory {errors['memory']:+6.2f} | "
          + " ".join(f"{name} {off:+.1f} ({share:.0%})" for name, (off, share) in groups.items()))
    return {**errors, **{name: off for name, (off, _) in groups.items()}}, low <= wall <= high, math.log(high / low) / 2 if low else math.nan


def summarize(title, compared):
    print(title)
    by_name = collections.defaultdict(list)
    for errors, _, _ in compared:
        for name, off in errors.items():
            by_name[name].append(off)
    for name, offs in by_name.items():
        kept = [off for off in offs if not math.isnan(off)]
        if kept:
            sizes = [abs(off) for off in kept]
            print(f"  {name:14s} {len(kept):3d}  median {statistics.median(sizes):5.2f}  mean {statistics.mean(sizes):5.2f}  "
                  f"worst {max(sizes):5.2f}  bias {statistics.mean(kept):+5.2f}")
    widths = [width for _, _, width in compared if not math.isnan(width)]
    if widths:
        inside = sum(lies for _, lies, _ in compared)
        print(f"  in their bands {inside} of {len(compared)}, half of whose width is {statistics.mean(widths):.3f} in the mean")


def lines_of(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as text:
        yield from map(json.loads, text)


def host_of(record):
    """The mean of the narrow launches taken beside a point, of the slower rank; 0: none were taken."""
    taken = [each["host_us"] for each in record.get("ranks", []) if each.get("host_us")] or [record.get("host_us") or []]
    return max((statistics.mean(each) for each in taken if each), default=0)


def compare(args):
    everything = []
    for steps in args.steps:
        own = re.sub(r"steps([^/]*)\.jsonl$", r"models\1.json", steps)
        if os.path.exists(own):  # files differ in what they call by one name
            trace_training_models.add_models(own)
        records = [r for r in lines_of(steps) if "wall_us" in r]
        wanted = args.traces or glob.glob(re.sub(r"steps([^/]*)\.jsonl$", r"traces\1.jsonl.gz", steps))
        traces = {key_of(r): r for path in wanted for r in lines_of(path)}
        predicted = {key_of(p["point"]): p for path in args.predicted for p in lines_of(path)}
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            found = list(pool.map(lambda r: predicted.get(key_of(r), {"error": "not predicted"}) if predicted else
                                  predict(args.predict, r, args.gpu, host_of(r) if args.hosts else 0), records))
        compared = []
        for record, p in zip(records, found):
            if "error" in p:
                print(f"{record['model']:18s} {record['batch']}x{record['tokens']} {p['error']}")
            else:
                compared.append(compare_point(record, p, traces.get(key_of(record))))
        summarize(os.path.basename(steps), compared)
        everything += compared
    if len(args.steps) > 1:
        summarize("all", everything)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--predict", default=os.path.join(ROOT, "build", "bin", "predict-model"))
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--points", default="")
    parser.add_argument("--more", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--steps", nargs="+", default=[])
    parser.add_argument("--traces", nargs="+", default=[])
    parser.add_argument("--predicted", nargs="+", default=[])
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.more:
        trace_training_models.add_models(args.more)

    if args.points:
        with open(args.points, encoding="utf-8") as text:
            lines = [predict(args.predict, dict(zip(("model", "batch", "tokens"), p[:3])) | p[3], args.gpu) for p in json.load(text)]
        for line in lines:
            print({k: v for k, v in line.items() if k != "groups_us"})
        if args.out:
            with open(args.out, "w", encoding="utf-8") as out:
                out.writelines(json.dumps(line) + "\n" for line in lines)
        return
    if args.recorded:
        folder = os.path.join(ROOT, "data", "measurements", "h200", "pytorch_training")
        for models in glob.glob(os.path.join(folder, "*.models.json")):
            trace_training_models.add_models(models)
        args.steps = sorted(path for path in glob.glob(os.path.join(folder, "*steps*.jsonl")) if not path.endswith("fake.steps.jsonl"))
    compare(args)


if __name__ == "__main__":
    main()
