#!/usr/bin/env python3
"""PyTorch profiler traces of whole steps, as users take them, for `validate compare`: Chrome's JSON, one file a run.

    tools/trace_pytorch.py --models data/models --out FOLDER [--seconds N] [--only N,...] [--device cuda|cpu --tiny]

Goes through RUNS in order until `--seconds` are over. Models, points, modes and seed are those of tools/trace_transformers.py.
A run's file is FOLDER/NAME.json.gz, written as soon as it is there: the profiler's own export, without what no reader of
kernels needs (Python's stack, call sites); FOLDER/runs.jsonl has a line a run: what ran, the wall time of a step without
the profiler, or the error. `--range` runs one step of RUNS' first between cudaProfilerStart and Stop, for ncu:

    ncu --profile-from-start off --clock-control none --cache-control none --metrics METRICS -o steps \\
        tools/trace_pytorch.py --models data/models --out FOLDER --range
    ncu --import steps.ncu-rep --csv --page raw > raw.csv       (and --page details)
"""
import argparse
import gzip
import json
import os
import statistics
import tempfile
import time

import torch

import trace_transformers as base

# (name, model, mode, point, steps in the trace, whether shapes are recorded)
RUNS = [
    ("llama_sdpa_decode", "llama-3.1-8b", "sdpa", ("decode", 8, 2000), 1, True),
    ("llama_sdpa_prefill", "llama-3.1-8b", "sdpa", ("prefill", 1, 2048), 1, True),
    ("llama_eager_decode", "llama-3.1-8b", "eager", ("decode", 32, 1024), 1, True),
    ("llama_eager_prefill", "llama-3.1-8b", "eager", ("prefill", 1, 700), 1, True),
    ("llama_sdpa_three_steps", "llama-3.1-8b", "sdpa", ("decode", 1, 1024), 3, False),
    ("qwen3_sdpa_decode", "qwen3-8b", "sdpa", ("decode", 8, 2000), 1, True),
    ("qwen3_sdpa_prefill", "qwen3-8b", "sdpa", ("prefill", 4, 512), 1, False),
    ("gemma2_sdpa_decode", "gemma-2-9b", "sdpa", ("decode", 8, 2000), 1, True),
    ("llama_compile_decode", "llama-3.1-8b", "compile", ("decode", 8, 2000), 1, True),
]


def small(trace):
    """The trace without Python's events and call stacks, whose names are of one machine's files."""
    kept = []
    for event in trace["traceEvents"]:
        if event.get("cat") in ("python_function", "cuda_sync", "overhead", "Trace"):
            continue
        args = event.get("args")
        if isinstance(args, dict):
            for key in ("Call stack", "Python id", "Python parent id", "Python module id", "Fwd thread id", "Sequence number",
                        "Record function id", "Ev Idx", "Concrete Inputs", "Input Strides", "queued", "context",
                        "est. achieved occupancy %", "blocks per SM", "warps per SM", "kernel_file"):
                args.pop(key, None)
        kept.append(event)
    trace["traceEvents"] = kept
    for key in ("traceName", "trace_id", "baseTimeNanoseconds", "hostname"):
        trace.pop(key, None)
    return trace


def profiled(steps, count, shapes, device):
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    steps.fresh()
    steps.step()
    base.synchronize(device)
    with torch.profiler.profile(activities=activities, record_shapes=shapes) as profile:
        for number in range(count):
            with torch.profiler.record_function(f"ProfilerStep#{number + 1}"):
                steps.step()
        base.synchronize(device)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "trace.json")
        profile.export_chrome_trace(file)
        with open(file, encoding="utf-8", errors="replace") as text:
            return json.load(text)


def wall(steps, device):
    """Seconds of a step, the median of seven by themselves."""
    times = []
    for _ in range(7):
        steps.fresh()
        steps.step()
        base.synchronize(device)
        begin = time.perf_counter()
        steps.step()
        base.synchronize(device)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def prepared(model, config, kind, mode, point, args):
    model.set_attn_implementation("eager" if mode == "eager" else "sdpa")
    steps = base.Steps(kind, model, config, mode, point, args.device)
    steps.loop(3)
    base.synchronize(args.device)
    return steps


def one_range(args):
    _, name, mode, point, _, _ = RUNS[0]
    kind, model, config = base.build(name, args)
    steps = prepared(model, config, kind, mode, point, args)
    steps.fresh()
    steps.step()
    base.synchronize(args.device)
    if args.device == "cuda":
        torch.cuda.profiler.start()
    steps.step()
    base.synchronize(args.device)
    if args.device == "cuda":
        torch.cuda.profiler.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="data/models")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--only", default="", help="numbers of RUNS")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--range", action="store_true")
    args = parser.parse_args()
    if args.range:
        one_range(args)
        return
    begin, board = time.perf_counter(), base.Board(args.device)
    os.makedirs(args.out, exist_ok=True)
    chosen = [int(n) for n in args.only.split(",")] if args.only else range(len(RUNS))
    built = (None, None)
    with open(os.path.join(args.out, "runs.jsonl"), "a", encoding="utf-8") as log:
        for number in chosen:
            name, model_name, mode, point, count, shapes = RUNS[number]
            if time.perf_counter() - begin > args.seconds:
                break
            record = {"name": name, "model": model_name, "layers": base.MODELS[model_name][1], "mode": mode, "phase": point[0],
                      "batch": point[1], "tokens": point[2], "steps": count, "torch": torch.__version__, **board.facts()}
            try:
                if built[0] != model_name:
                    built = (None, None)
                    if args.device == "cuda":
                        torch.cuda.empty_cache()
                    built = (model_name, base.build(model_name, args))
                kind, model, config = built[1]
                steps = prepared(model, config, kind, mode, point, args)
                record["wall_us"] = round(1e6 * wall(steps, args.device), 1)
                trace = small(profiled(steps, count, shapes, args.device))
                with gzip.open(os.path.join(args.out, name + ".json.gz"), "wt", encoding="utf-8") as out:
                    json.dump(trace, out, separators=(",", ":"))
                record["events"] = len(trace["traceEvents"])
            except Exception as error:  # the other runs go on; the record says what failed
                record["error"] = f"{type(error).__name__}: {str(error)[:300]}"
            record["at_s"] = round(time.perf_counter() - begin, 1)
            log.write(json.dumps(record) + "\n")
            log.flush()
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
