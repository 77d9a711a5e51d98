#!/usr/bin/env python3
"""Times cuBLAS GEMMs and PyTorch's fused attention on the card at hand, as ops CSV rows that `validate compare` reads.

Method: random normal bf16 data; operands rotate over more than three times the L2 cache (weights cold, activations too);
every launch of a burst is captured in one CUDA graph, the graph is replayed, and the time of a launch is graph time /
launches, median of replays. SM clock and power are read before and after. Needs PyTorch with CUDA; nothing is installed.

usage: measure_library.py OUT.csv [SEED]
"""
import csv
import random
import statistics
import subprocess
import sys
import time

import torch

L2_BYTES = 60 << 20


def smi():
    query = "clocks.sm,power.draw,temperature.gpu"
    out = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader,nounits"], capture_output=True,
                         text=True, check=False).stdout.strip().splitlines()
    return out[0] if out else ""


def graph_time_us(calls, replays):
    """Median microseconds of one call: all calls in one graph, replayed."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(replays):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / len(calls))
    return statistics.median(times)


def gemm_case(m, n, k):
    size = 2 * (m * k + n * k + m * n)
    copies = max(2, min(24, (3 * L2_BYTES) // size + 1))
    x = [torch.randn(m, k, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
    w = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
    y = [torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
    calls = [lambda i=i: torch.matmul(x[i], w[i].t(), out=y[i]) for i in range(copies)]
    check = torch.randint(0, m, (min(m, 8),), device="cuda")
    torch.matmul(x[0], w[0].t(), out=y[0])
    reference = x[0][check].double() @ w[0].double().t()
    error = ((y[0][check].double() - reference).norm() / reference.norm()).item()
    if not error < 1e-2:
        raise SystemExit(f"gemm {m} {n} {k}: relative error {error}")
    return calls


def attention_case(b, hq, hkv, d, s, causal):
    size = 2 * b * s * d * (2 * hq + 2 * hkv)
    copies = max(1, min(8, (3 * L2_BYTES) // size + 1))
    make = lambda h: torch.randn(b, h, s, d, device="cuda", dtype=torch.bfloat16)
    q, k, v = ([make(h) for _ in range(copies)] for h in (hq, hkv, hkv))
    attention = torch.nn.functional.scaled_dot_product_attention
    return [lambda i=i: attention(q[i], k[i], v[i], is_causal=causal, enable_gqa=hq != hkv) for i in range(copies)]


def shapes(seed):
    rng = random.Random(seed)
    log = lambda low, high, step: max(step, int(round(2 ** rng.uniform(low, high) / step)) * step)
    for _ in range(170):
        m, n, k = log(0, 14, 1), log(8, 15.5, 16), log(8, 14.5, 16)
        if 2 * m * n * k < 8e12 and 2 * (m * k + n * k + m * n) < 4e9:
            yield "gemm", f"M={m};N={n};K={k}", (m, n, k)
    for _ in range(50):
        d, hkv, group = rng.choice([64, 128, 128]), rng.choice([1, 2, 4, 8]), rng.choice([1, 4, 8])
        s, b = log(7, 14, 1), rng.choice([1, 2, 4, 8, 16])
        if b * hkv * group * s * s * d < 4e12 and b * hkv * group * s * d < 5e8:
            causal = rng.random() < 0.7
            text = f"B={b};Hq={hkv * group};Hkv={hkv};D={d};S={s};causal={int(causal)};append=0"
            yield "attention_prefill", text, (b, hkv * group, hkv, d, s, causal)


def main():
    out, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20261120
    torch.manual_seed(seed)
    stack = f"torch-{torch.__version__}"
    began = time.time()
    with open(out, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow("op,dtype,shape,measured_us,measured_W,stack,kernel,clock,scope,id,held_out".split(","))
        for number, (op, text, sizes) in enumerate(shapes(seed)):
            if time.time() - began > 240:
                break
            calls = gemm_case(*sizes) if op == "gemm" else attention_case(*sizes)
            micros = graph_time_us(calls, 15)
            kernel = "cublas" if op == "gemm" else "sdpa"
            rows.writerow([op, "bf16", text, f"{micros:.4f}", "", stack, kernel, "burst", "kernel, graph, cold L2", number,
                           "yes"])
            file.flush()
            del calls
            torch.cuda.empty_cache()
            time.sleep(0.05)
    print(torch.cuda.get_device_name(0), stack, "CUDA", torch.version.cuda, time.strftime("%Y-%m-%d"), "after:", smi())


if __name__ == "__main__":
    main()
