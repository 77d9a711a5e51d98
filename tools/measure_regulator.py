#!/usr/bin/env python3
"""When a card's power regulator acts: calls of one kind back to back behind a pause, each timed by events, the board read
meanwhile. What a call takes over time is the clock that the regulator has set: a burst's first calls run at the boost clock,
later ones at the clock that long runs settle at.

usage: measure_regulator.py OUT.jsonl [--seconds S] [--repeats N]

Loads: products of cuBLAS in bf16 (normal and ternary data), fp16 and fp8, attention of prompts. Before each burst the card
idles (0.6, 0.15 or 0.04 s) or copies memory for 0.5 s (some 400 W). A line a burst: `us`, the times of its calls in order,
`before`, `pause_s`, joules and seconds of the burst, and board samples [ms since the burst's begin, MHz, joules]. Needs
PyTorch and NVML; nvml_board.py lies beside it.
"""
import json
import sys
import threading
import time

import torch

from nvml_board import Board

OUT = sys.argv[1]
OPTIONS = dict(zip(sys.argv[2::2], sys.argv[3::2]))
SECONDS, REPEATS = float(OPTIONS.get("--seconds", 0.4)), int(OPTIONS.get("--repeats", 4))
SETTLED = {"mm bf16": 1.5}  # bursts that last until clock and power have settled


def normal(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda").to(dtype)


def ternary(*shape):
    return torch.randint(-1, 2, shape, device="cuda").to(torch.bfloat16)


def product(m, n, k, dtype=torch.bfloat16, make=None):
    make = make or (lambda *shape: normal(*shape, dtype=dtype))
    x, w, y = make(m, k), make(n, k).t(), torch.empty(m, n, device="cuda", dtype=dtype)
    return lambda: torch.mm(x, w, out=y)


def product_fp8(m, n, k):
    x, w = normal(m, k).to(torch.float8_e4m3fn), normal(n, k).to(torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(x, w, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def attention(batch, heads, length, width):
    q, k, v = (normal(batch, heads, length, width) for _ in range(3))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


LOADS = {
    "mm bf16": lambda: product(8192, 8192, 8192),
    "mm bf16 small": lambda: product(4096, 2048, 8192),
    "mm bf16 ternary": lambda: product(8192, 8192, 8192, make=ternary),
    "mm fp16": lambda: product(8192, 8192, 8192, dtype=torch.float16),
    "mm fp8": lambda: product_fp8(8192, 8192, 8192),
    "attention": lambda: attention(4, 32, 4096, 128),
}


class Watch:
    """Samples of the board in a thread of its own."""

    def __init__(self, board):
        self.board, self.samples, self.done = board, [], False
        self.begin = time.perf_counter()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.done:
            at = time.perf_counter() - self.begin
            self.samples.append([round(1e3 * at, 2), self.board.sm_MHz(), self.board.joules()])
            time.sleep(0.003)

    def stop(self):
        self.done = True
        self.thread.join()
        return self.samples


def burst(call, calls, board):
    events = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
    watch = Watch(board)
    joules, begin = board.joules(), time.perf_counter()
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    events[-1].synchronize()
    seconds, joules = time.perf_counter() - begin, board.joules() - joules
    samples = watch.stop()
    us = [round(1e3 * a.elapsed_time(b), 1) for a, b in zip(events, events[1:])]
    return {"seconds": seconds, "J": joules, "us": us, "board": samples}


def streams(seconds, source, target):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(8):
            target.copy_(source)
        torch.cuda.synchronize()


def main():
    board = Board()
    source, target = (torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    with open(OUT, "w", encoding="utf-8") as out:
        put = lambda row: out.write(json.dumps(row) + "\n")
        put({"card": torch.cuda.get_device_name(), "uuid": board.uuid(), "torch": torch.__version__,
             "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        for name, make in LOADS.items():
            call = make()
            for _ in range(3):
                call()
            torch.cuda.synchronize()
            time.sleep(0.6)
            one = sorted(burst(call, 8, board)["us"])[1] / 1e6
            plans = [(0.6, "idle", SECONDS)] * REPEATS
            plans += [(0.15, "idle", SECONDS), (0.04, "idle", SECONDS), (0.0, "copies", SECONDS), (0.0, "copies", SECONDS)]
            if name in SETTLED:
                plans.append((0.6, "idle", SETTLED[name]))
            for pause, before, seconds in plans:
                torch.cuda.synchronize()
                if before == "copies":
                    time.sleep(0.3)
                    streams(0.5, source, target)
                else:
                    time.sleep(pause)
                row = burst(call, max(8, int(seconds / one)), board)
                put({"case": name, "before": before, "pause_s": pause, "celsius": board.celsius(), **row})


main()
