#!/usr/bin/env python3
"""Products of few rows, norms and sums of rows and element-wise launches of few elements as a step has them: drawn at random,
each captured in a CUDA graph between launches of other kernels, over weights that L2 does not hold and activations that it
does. One JSON object a case: the kernels of one turn with the profiler's durations and what it shows idle before each (median,
10th and 90th percentile over the turns), and what a turn takes without a profiler.

usage: trace_few_rows.py OUT.jsonl [--seed N] [--seconds S]
"""
import argparse
import json
import random
import time

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

DEVICE, GIB = "cuda", 1 << 30
ARENA_GIB = 24


def kernels_of(prof):
    events = [e for e in prof.profiler.kineto_results.events()
              if str(e.device_type()).endswith("CUDA") and "Memcpy" not in e.name() and "Memset" not in e.name()]
    events.sort(key=lambda e: e.start_ns())
    return [(e.name(), e.start_ns(), e.duration_ns()) for e in events]


def spread(values):
    ordered = sorted(values)
    return [ordered[len(ordered) // 2] / 1e3, ordered[len(ordered) // 10] / 1e3, ordered[len(ordered) * 9 // 10] / 1e3]


class Recorder:
    def __init__(self, out, seconds):
        self.out, self.seconds, self.begin = out, seconds, time.time()

    def over(self):
        return time.time() - self.begin > self.seconds

    def write(self, **what):
        self.out.write(json.dumps(what) + "\n")
        self.out.flush()

    def run(self, turn, turns, **what):
        """`turn(i)` is one turn; its launches are the same each time."""
        def body():
            for i in range(turns):
                turn(i)
        body()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            body()
        walls = []
        for _ in range(3):
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record()
            graph.replay()
            last.record()
            torch.cuda.synchronize()
            walls.append(1e3 * first.elapsed_time(last) / turns)
        with profile(activities=[ProfilerActivity.CUDA]) as prof:
            graph.replay()
            torch.cuda.synchronize()
        seen = kernels_of(prof)
        if not seen or len(seen) % turns:
            self.write(turns=turns, failed=len(seen), **what)
            return
        each = len(seen) // turns
        rows = []
        for j in range(each):
            places = range(j + each, len(seen), each)
            rows.append([seen[places[-1]][0][:140], spread([seen[p][2] for p in places]),
                         spread([seen[p][1] - seen[p - 1][1] - seen[p - 1][2] for p in places])])
        self.write(turns=turns, turn_us=sorted(walls)[1], kernels=rows, **what)


class Others:
    """Launches of other kernels between."""
    def __init__(self):
        self.x = torch.randn(64, 2048, dtype=torch.bfloat16, device=DEVICE)
        self.gain = torch.ones(2048, dtype=torch.bfloat16, device=DEVICE)

    def __call__(self):
        F.layer_norm(self.x, (2048,), self.gain, self.gain)
        F.gelu(self.x)
        torch.softmax(self.x, -1)
        torch.cat([self.x, self.x], -1)
        self.x.sum(-1)


def log_uniform(rng, low, high, step):
    return max(step, step * round(low * (high / low) ** rng.random() / step))


def products(recorder, arena, others, rng, count):
    for _ in range(count):
        if recorder.over():
            return
        m = rng.choice([1, 2, 3, 4, 5, 6, 8, 8, 12, 16, 16])
        n, k = log_uniform(rng, 512, 16384, 64), log_uniform(rng, 512, 16384, 64)
        kind = rng.choice(["plain", "plain", "plain", "bias", "odd"])
        if kind == "odd":
            n, k = log_uniform(rng, 4096, 65536, 1) | 1, log_uniform(rng, 768, 4096, 64)
        size = n * k
        turns = min(64, max(12, -(-150_000_000 // size)))
        weights = [arena[i * size:(i + 1) * size].view(n, k) for i in range(min(turns, arena.numel() // size))]
        bias = [torch.randn(n, dtype=torch.bfloat16, device=DEVICE) for _ in weights] if kind == "bias" else None
        x = torch.randn(m, k, dtype=torch.bfloat16, device=DEVICE)
        what = {"op": "gemm", "M": m, "N": n, "K": k, "bias": int(kind == "bias")}

        def product(i, weights=weights, bias=bias, x=x):
            F.linear(x, weights[i % len(weights)], bias[i % len(weights)] if bias else None)

        def between(i, product=product):
            others()
            product(i)
        recorder.run(product, turns, how="alone", **what)
        recorder.run(between, turns, how="between", **what)


def rows(recorder, others, rng, count):
    for _ in range(count):
        if recorder.over():
            return
        r = rng.choice([1, 2, 4, 8, 8, 16, 32, 64, 128, 256, 512, 1024, 2048])
        c = log_uniform(rng, 256, 8192, 64)
        if r * c > 4 << 20:
            continue
        op, dtype = rng.choice([("layernorm", "bf16"), ("layernorm", "bf16"), ("mean", "fp32"), ("mean", "fp32"), ("rsqrt_norm", "bf16"),
                                ("softmax", "fp32"), ("softmax", "bf16"), ("layernorm", "fp32")])
        t = torch.bfloat16 if dtype == "bf16" else torch.float32
        x, gain = torch.randn(r, c, dtype=t, device=DEVICE), torch.ones(c, dtype=t, device=DEVICE)
        call = {"layernorm": lambda: F.layer_norm(x, (c,), gain, gain), "mean": lambda: x.mean(-1, keepdim=True),
                "rsqrt_norm": lambda: F.rms_norm(x, (c,), gain), "softmax": lambda: torch.softmax(x, -1)}[op]

        def between(_, call=call):
            others()
            call()
        recorder.run(between, 24, how="between", op=op, rows=r, cols=c, dtype=dtype)


def elements(recorder, others, rng, count):
    for _ in range(count):
        if recorder.over():
            return
        r, c = rng.choice([1, 8, 16, 64, 256, 512, 512, 1024, 2048]), log_uniform(rng, 512, 16384, 64)
        if r * c > 8 << 20:
            continue
        x, y = (torch.randn(r, c, dtype=torch.bfloat16, device=DEVICE) for _ in range(2))
        row, wide = torch.randn(c, dtype=torch.bfloat16, device=DEVICE), torch.randn(r, c, device=DEVICE)
        scale = torch.rand(r, 1, device=DEVICE)
        calls = {"gelu": lambda: F.gelu(x), "gelu_tanh": lambda: F.gelu(x, approximate="tanh"), "silu": lambda: F.silu(x),
                 "add": lambda: x + y, "add_row": lambda: x + row, "mul_row": lambda: row * x, "cast": lambda: x.float(),
                 "cast_back": lambda: wide.to(torch.bfloat16), "pow": lambda: wide.pow(2), "mul_rows": lambda: wide * scale,
                 "rotate_half": lambda: torch.cat((-x[:, c // 2:], x[:, :c // 2]), -1), "scale": lambda: x * 0.125,
                 "transposed": lambda: x.view(r, c // 64, 64).transpose(0, 1).contiguous()}
        op = rng.choice(sorted(calls))

        def between(_, call=calls[op]):
            others()
            call()
        recorder.run(between, 24, how="between", op=op, rows=r, cols=c, dtype="bf16")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=20261128)
    parser.add_argument("--seconds", type=float, default=85)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with open(args.out, "w", encoding="utf-8") as out, torch.no_grad():
        recorder = Recorder(out, args.seconds)
        arena = torch.empty(ARENA_GIB * GIB // 2, dtype=torch.bfloat16, device=DEVICE)
        for i in range(ARENA_GIB):
            arena[i * GIB // 2:(i + 1) * GIB // 2].normal_(0, 0.02)
        others = Others()
        recorder.write(about="few rows in steps", gpu=torch.cuda.get_device_name(), torch=torch.__version__, seed=args.seed,
                       uuid=str(torch.cuda.get_device_properties(0).uuid))
        products(recorder, arena, others, rng, 60)
        for _ in range(4):
            rows(recorder, others, rng, 60)
            elements(recorder, others, rng, 50)
            products(recorder, arena, others, rng, 60)
        recorder.write(seconds=time.time() - recorder.begin)


if __name__ == "__main__":
    main()
