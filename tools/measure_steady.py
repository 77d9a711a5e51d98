#!/usr/bin/env python3
"""Runs PyTorch operators for a second or two each and reads the board: time of a call, power by NVML's energy counter,
SM clock. What a step at the power cap is made of, one operator at a time.

Each case is captured in a CUDA graph of so many calls that a replay takes about 20 ms; operands rotate over more than
three times L2. The card warms up on the case for a quarter of its time; then energy and time are read over the rest, and
the clock ten times a second. One JSON object a line is written as soon as it is there.

usage: measure_steady.py OUT.jsonl [--seconds TOTAL] [--each SECONDS] [--only WORD] [--cpu]
       measure_steady.py --convert IN.jsonl > OUT.csv

The second form writes rows of the operators that `validate compare` knows. It needs no PyTorch.
"""
import argparse
import csv
import json
import os
import re
import statistics
import sys
import threading
import time


def convert(recorded):
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow("op,dtype,shape,measured_us,measured_W,board_MHz,clock,stack,kernel,id".split(","))
    with open(recorded, encoding="utf-8") as text:
        lines = [json.loads(line) for line in text]
    for number, row in enumerate(lines):
        words = row.get("case", "").split()
        if not words or "error" in row:
            continue
        op, shape, name = words[0], words[-1], words[0]
        if name == "mm":
            if words[1] == "t":
                continue  # no operator of ours has the row side across
            op, shape = "gemm", shape + (";layout=kn" if words[1] == "kn" else "")
        elif name.startswith("attention"):
            op = "attention_prefill" if name == "attention" else name
            b, h, d, s = (int(x) for x in re.findall(r"=(\d+)", shape))
            shape = f"B={b};Hq={h};Hkv={h};D={d};S={s};causal=1"
        elif name not in ("add", "copy", "silu", "gelu"):
            continue
        out.writerow([op, "bf16", shape, f"{row['measured_us']:.4g}", f"{row['watts']:.4g}", f"{row['sm_MHz']:.0f}",
                      "steady", f"torch-{lines[0]['torch']}", name, f"{os.path.basename(recorded)}:{number + 1}"])


if sys.argv[1:2] == ["--convert"]:
    convert(sys.argv[2])
    sys.exit()

import torch

from nvml_board import Board

L2_BYTES = 60 << 20


def normal(*shape):
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)


def copies_of(size):
    return max(2, min(24, (3 * L2_BYTES) // size + 1))


def product(m, n, k, layout):
    """y[m,n] = x w: `nk` forward (both K innermost), `kn` a gradient of inputs (w[k,n]), `t` one of weights (x[k,m])."""
    count = copies_of(2 * (m * k + n * k + m * n))
    y = [torch.empty(m, n, device=DEVICE, dtype=torch.bfloat16) for _ in range(count)]
    x = [normal(k, m).t() if layout == "t" else normal(m, k) for _ in range(count)]
    w = [normal(n, k).t() if layout == "nk" else normal(k, n) for _ in range(count)]
    return [lambda i=i: torch.mm(x[i], w[i], out=y[i]) for i in range(count)]


def attention(b, hq, hkv, d, s, backward):
    q, k, v = (torch.randn(b, h, s, d, device=DEVICE, dtype=torch.bfloat16, requires_grad=backward) for h in (hq, hq, hq))
    call = torch.nn.functional.scaled_dot_product_attention
    if not backward:
        return [lambda: call(q, k, v, is_causal=True)]
    out = call(q, k, v, is_causal=True)
    up = torch.randn_like(out)
    return [lambda: torch.autograd.grad(out, (q, k, v), up, retain_graph=True)]


def streams(name, rows, cols):
    """Element-wise kernels and reductions of an eager iteration over [rows, cols]."""
    count = copies_of(rows * cols * 4)
    a, b = ([normal(rows, cols) for _ in range(count)] for _ in range(2))
    y = [torch.empty_like(a[0]) for _ in range(count)]
    if name == "add":
        return [lambda i=i: torch.add(a[i], b[i], out=y[i]) for i in range(count)]
    if name == "mul":
        return [lambda i=i: torch.mul(a[i], b[i], out=y[i]) for i in range(count)]
    if name == "silu":
        return [lambda i=i: torch.ops.aten.silu.out(a[i], out=y[i]) for i in range(count)]
    if name == "gelu":
        return [lambda i=i: torch.ops.aten.gelu.out(a[i], out=y[i]) for i in range(count)]
    if name == "to_fp32":
        wide = [torch.empty(rows, cols, device=DEVICE) for _ in range(count)]
        return [lambda i=i: wide[i].copy_(a[i]) for i in range(count)]
    if name == "copy":
        return [lambda i=i: y[i].copy_(a[i]) for i in range(count)]
    if name == "layer_norm":
        weight = normal(cols)
        return [lambda i=i: torch.nn.functional.layer_norm(a[i], (cols,), weight) for i in range(count)]
    wide = [torch.randn(rows, cols, device=DEVICE) for _ in range(2)]
    if name == "log_softmax":
        return [lambda i=i: torch.log_softmax(wide[i], -1) for i in range(2)]
    if name == "mean_square":
        return [lambda i=i: wide[i].pow(2).mean(-1) for i in range(2)]
    raise ValueError(name)


def adamw(elements, fused):
    weights = [torch.nn.Parameter(normal(elements // 8)) for _ in range(8)]
    for w in weights:
        w.grad = torch.randn_like(w)
    optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=fused or None, foreach=not fused)
    optimizer.step()
    return [optimizer.step]


def cases(small):
    f = 64 if small else 1
    for layout in ("nk", "kn", "t"):
        for m, n, k in ((8192, 8192, 8192), (4096, 14336, 4096), (8192, 2048, 8192)):
            yield f"mm {layout} M={m};N={n};K={k}", lambda s=(m // f, n // f, k // f), l=layout: product(*s, l)
    yield "mm t M=14336;N=4096;K=8192", lambda: product(14336 // f, 4096 // f, 8192 // f, "t")
    yield "mm kn M=8192;N=4096;K=14336", lambda: product(8192 // f, 4096 // f, 14336 // f, "kn")
    yield "mm nk M=8192;N=128256;K=4096", lambda: product(8192 // f, 128256 // f, 4096 // f, "nk")
    yield "mm nk M=4096;N=6400;K=1600", lambda: product(4096 // f, 6400 // f, 1600 // f, "nk")
    yield "mm t M=1600;N=6400;K=4096", lambda: product(1600 // f, 6400 // f, 4096 // f, "t")
    yield "attention B=2;H=32;D=128;S=4096", lambda: attention(2, 32, 8, 128, 4096 // f, False)
    yield "attention_backward B=2;H=32;D=128;S=4096", lambda: attention(2, 32, 8, 128, 4096 // f, True)
    for name in ("add", "mul", "silu", "gelu", "to_fp32", "copy", "layer_norm"):
        yield f"{name} rows=8192;cols=14336", lambda n=name: streams(n, 8192 // f, 14336 // f)
    yield "log_softmax rows=4096;cols=128256", lambda: streams("log_softmax", 4096 // f, 128256 // f)
    yield "mean_square rows=16384;cols=4096", lambda: streams("mean_square", 16384 // f, 4096 // f)
    yield "adamw_foreach n=1e9", lambda: adamw(1 << 30 >> (12 if small else 0), False)
    yield "adamw_fused n=1e9", lambda: adamw(1 << 30 >> (12 if small else 0), True)


def captured(calls, seconds, graph_too):
    """A function that runs about `seconds` of calls, and how many calls that is. Autograd's calls and an optimizer's are
    not captured: a millisecond each, launched one behind another."""
    for call in calls:
        call()
    synchronize()
    began = time.perf_counter()
    for call in calls:
        call()
    synchronize()
    one = (time.perf_counter() - began) / len(calls)
    rounds = max(1, min(200, round(seconds / (one * len(calls)))))
    if not graph_too or DEVICE == "cpu":
        return (lambda: [call() for _ in range(rounds) for call in calls]), rounds * len(calls)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for call in calls:
                call()
    return graph.replay, rounds * len(calls)


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def steady(board, calls, each, graph_too):
    replay, count = captured(calls, 0.02, graph_too)
    began = time.perf_counter()
    while time.perf_counter() - began < each / 4:
        replay()
        synchronize()
    clocks, stop = [], threading.Event()

    def watch():
        while not stop.wait(0.1):
            clocks.append(board.sm_MHz())

    watcher = threading.Thread(target=watch)
    watcher.start()
    # The energy counter moves some tens of times a second: begin and end where it does.
    joules = board.joules()
    while board.joules() == joules and board.library:
        replay()
        synchronize()
    joules, began, replays = board.joules(), time.perf_counter(), 0
    while time.perf_counter() - began < each * 3 / 4:
        replay()
        synchronize()
        replays += 1
    spent, seconds = board.joules() - joules, time.perf_counter() - began
    stop.set()
    watcher.join()
    return {"measured_us": seconds / (replays * count) * 1e6, "watts": spent / seconds, "seconds": seconds,
            "sm_MHz": statistics.median(clocks) if clocks else 0, "celsius": board.celsius()}


def main():
    global DEVICE
    words = argparse.ArgumentParser()
    words.add_argument("out")
    words.add_argument("--seconds", type=float, default=90)
    words.add_argument("--each", type=float, default=1.6)
    words.add_argument("--only", default="")
    words.add_argument("--cpu", action="store_true")
    asked = words.parse_args()
    DEVICE = "cpu" if asked.cpu else "cuda"
    torch.manual_seed(20261123)
    board, began = Board(asked.cpu), time.time()
    with open(asked.out, "w") as out:
        head = {"card": board.name(), "uuid": board.uuid(),
                "torch": torch.__version__, "cuda": torch.version.cuda, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        out.write(json.dumps(head) + "\n")
        for name, make in cases(asked.cpu):
            if asked.only not in name:
                continue
            if time.time() - began > asked.seconds:
                break
            try:
                row = {"case": name, **steady(board, make(), asked.each, "backward" not in name and "adamw" not in name)}
            except Exception as error:  # a case that fails must not cost the others
                row = {"case": name, "error": str(error)[:200]}
            out.write(json.dumps(row) + "\n")
            out.flush()
            if not asked.cpu:
                torch.cuda.empty_cache()
                time.sleep(0.1)


if __name__ == "__main__":
    main()
