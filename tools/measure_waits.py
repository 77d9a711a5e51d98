#!/usr/bin/env python3
"""What the board draws while launches wait for the host, while a cache is copied, and where rows of a product are zeros.

Each case runs for about two seconds, of which the later three quarters are read: time of a call, watts by NVML's energy
counter, the SM clock. Waits: a call is launched by the host at fixed moments, so that the GPU is idle between; `period_us`
is what was asked for (0: a CUDA graph, one call behind another), `measured_us` what came of it, `busy_us` what a call takes
in a graph. One JSON object a line.

usage: measure_waits.py OUT.jsonl [--each SECONDS] [--only WORD] [--cpu]
"""
import argparse
import json
import time

import torch

from nvml_board import Board


def normal(*shape):
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def graph_of(calls, seconds):
    """Replays about `seconds` of calls; how many they are; what one takes."""
    def run(rounds):
        for _ in range(rounds):
            for call in calls:
                call()

    run(2)
    synchronize()
    if DEVICE == "cpu":
        return (lambda: run(1)), len(calls), 1e-3
    once = torch.cuda.CUDAGraph()
    with torch.cuda.graph(once):
        run(1)
    once.replay()
    synchronize()
    began = time.perf_counter()
    for _ in range(5):
        once.replay()
    synchronize()
    each = (time.perf_counter() - began) / (5 * len(calls))
    rounds = max(1, min(400, round(seconds / (each * len(calls)))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(rounds)
    return graph.replay, rounds * len(calls), each


def paced(calls, period):
    """A function that launches calls for about 20 ms, each at its moment, and how many; the GPU is never far behind."""
    count = max(1, round(0.02 / period))

    def run():
        due = time.perf_counter()
        for i in range(count):
            calls[i % len(calls)]()
            due += period
            while time.perf_counter() < due:
                pass
    return run, count


def read(board, run, count, each):
    began = time.perf_counter()
    while time.perf_counter() - began < each / 4:
        run()
        synchronize()
    energy = board.joules()
    while board.library and board.joules() == energy:  # the counter moves some tens of times a second: begin where it does
        run()
        synchronize()
    energy, began, done, clocks = board.joules(), time.perf_counter(), 0, []
    while time.perf_counter() - began < 0.75 * each:
        run()
        clocks.append(board.sm_MHz())
        synchronize()
        done += count
    spent, seconds = board.joules() - energy, time.perf_counter() - began
    return {"measured_us": round(1e6 * seconds / done, 3), "watts": round(spent / seconds, 2),
            "sm_MHz": sorted(clocks)[len(clocks) // 2], "celsius": board.celsius()}


def product(m, n, k, x_zeros=False, w_zeros=False):
    count = max(2, min(8, (180 << 20) // (2 * (m * k + n * k + m * n)) + 1))
    make = lambda zeros, *shape: torch.zeros(*shape, device=DEVICE, dtype=torch.bfloat16) if zeros else normal(*shape)
    x, w = [make(x_zeros, m, k) for _ in range(count)], [make(w_zeros, n, k).t() for _ in range(count)]
    y = [torch.empty(m, n, device=DEVICE, dtype=torch.bfloat16) for _ in range(count)]
    return [lambda i=i: torch.mm(x[i], w[i], out=y[i]) for i in range(count)]


def add(n):
    x, y = normal(n), normal(n)
    return [lambda: torch.add(x, y, out=x)]


def grouped(experts, n, k, rows, real):
    """Rows beyond the first `real` of each expert are zeros."""
    x = normal(experts, rows, k)
    x[:, real:] = 0
    x = x.view(experts * rows, k)
    w = normal(experts, n, k).transpose(-2, -1)
    ends = (torch.arange(1, experts + 1, device=DEVICE) * rows).to(torch.int32)
    return [lambda: torch._grouped_mm(x, w, offs=ends)]


def cache(kind, batch, heads, length, width, repeat):
    old = [normal(batch, heads, length, width) for _ in range(4)]
    new = normal(batch, heads, 1, width)
    if kind == "cat":
        return [lambda i=i: torch.cat([old[i], new], dim=2) for i in range(4)]
    if kind == "repeat":
        wide = lambda x: x[:, :, None].expand(batch, heads, repeat, length, width).reshape(batch, heads * repeat, length, width)
        return [lambda i=i: wide(old[i]) for i in range(4)]
    if kind == "transposed":
        return [lambda i=i: old[i].transpose(1, 2).contiguous() for i in range(4)]
    same = [torch.empty_like(old[0]) for _ in range(4)]
    return [lambda i=i: same[i].copy_(old[i]) for i in range(4)]


def cases(small):
    """Name, calls, period in us (0: in a graph)."""
    f = 32 if small else 1
    for period in (0, 80, 160, 400, 1600):
        yield f"mm M=32;N=8192;K=8192 period={period}", lambda: product(32, 8192 // f, 8192 // f), period
    for period in (0, 400, 1000):
        yield f"mm M=4096;N=4096;K=4096 period={period}", lambda: product(4096 // f, 4096 // f, 4096 // f), period
    for period in (0, 25, 100, 400):
        yield f"add n=1048576 period={period}", lambda: add(1 << 20 >> (8 if small else 0)), period
    for x, w in ((False, False), (True, False), (False, True), (True, True)):
        yield (f"mm M=4096;N=2048;K=2048 x={'zeros' if x else 'normal'};w={'zeros' if w else 'normal'} period=200",
               lambda x=x, w=w: product(4096 // f, 2048 // f, 2048 // f, x, w), 200)
    for rows, real in ((2, 2), (16, 16), (128, 128), (128, 2)):
        yield (f"grouped_mm E=8;N=14336;K=4096;rows={rows};real={real} period=0",
               lambda r=rows, a=real: grouped(8, 14336 // f, 4096 // f, r, a), 0)
    yield "grouped_mm E=128;N=768;K=2048;rows=2;real=2 period=0", lambda: grouped(128, 768 // f, 2048 // f, 2, 2), 0
    for kind in ("cat", "repeat", "transposed", "copy"):
        yield f"cache {kind} B=8;H=8;S=2000;D=128;repeat=4 period=0", lambda k=kind: cache(k, 8, 8, 2000 // f, 128, 4), 0


def measured(board, name, make, period, each):
    calls = make()
    run, count, busy = graph_of(calls, 0.02)
    if period:
        run, count = paced(calls, 1e-6 * period)
    return {"case": name, "period_us": period, "busy_us": round(1e6 * busy, 3), **read(board, run, count, each)}


def main():
    global DEVICE
    words = argparse.ArgumentParser()
    words.add_argument("out")
    words.add_argument("--each", type=float, default=2.0)
    words.add_argument("--only", default="")
    words.add_argument("--cpu", action="store_true")
    asked = words.parse_args()
    DEVICE = "cpu" if asked.cpu else "cuda"
    torch.manual_seed(20261124)
    board = Board(asked.cpu)
    with open(asked.out, "w", encoding="utf-8") as out:
        def put(row):
            out.write(json.dumps(row) + "\n")
            out.flush()

        put({"card": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu", "uuid": board.uuid(),
             "torch": torch.__version__, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        few = torch.zeros(64, device=DEVICE)
        few.add_(1)
        put({"case": "idle", **read(board, lambda: time.sleep(0.02), 1, asked.each)})
        for name, make, period in cases(asked.cpu):
            if asked.only not in name:
                continue
            try:
                put(measured(board, name, make, period, asked.each))
            except Exception as error:  # a case that fails must not cost the others
                put({"case": name, "error": str(error)[:200]})
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
        put({"case": "idle", **read(board, lambda: time.sleep(0.02), 1, asked.each)})


if __name__ == "__main__":
    main()
