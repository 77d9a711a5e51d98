#!/usr/bin/env python3
"""What a GPU draws for products of training by what their operands hold, and for passes over rows: the board's energy counter between
two of its movements (tools/energy_edges.py). Products come in bursts of some 3 ms with pauses behind, so that the mean stays below the
cap at the boost clock. One JSON object a line: `case`, `kernel_us` (of a burst, its calls behind one another), `count` (calls a burst),
`period_us`, `watts`, `mJ` (above an idle board's, of one call), `clocks_MHz`, `celsius`.

    tools/measure_gradient_power.py OUT.jsonl [SECONDS]

Heads of 32000 and of 49155 tokens: gradients of logits are normal numbers, softmax by logits of a standard deviation of 1.28 ("loss"),
and of 0.08 ("flat": as where logits are divided by 16), less one of a row's. Layers: inputs that are normal, squared behind a ReLU,
and SiLU's times normal ones. Needs PyTorch and NVML; energy_edges.py and nvml_board.py lie beside it.
"""
import json
import sys
import time

import torch

from energy_edges import EnergyEdges, now
from nvml_board import Board

SETTLE, BURST_US, DUTY = 0.2, 3000, 0.4


def normal(*shape, scale=1.0, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).mul_(scale).to(dtype)


def gradient(rows, tokens, deviation):
    """Of logits, of the mean of rows' losses."""
    logits = torch.randn(rows, tokens, device="cuda") * deviation
    made = torch.softmax(logits, 1)
    made[torch.arange(rows, device="cuda"), torch.randint(tokens, (rows,), device="cuda")] -= 1
    return (made / rows).to(torch.bfloat16)


def head(tokens, rows=4096, width=4096):
    x, w = normal(rows, width), normal(tokens, width, scale=0.02)
    yield f"head {tokens} forward normal", lambda: x @ w.t()
    for name, dy in (("normal", lambda: normal(rows, tokens)), ("loss", lambda: gradient(rows, tokens, 1.28)),
                     ("flat", lambda: gradient(rows, tokens, 0.08))):
        dy = dy()
        yield f"head {tokens} dx {name}", lambda: dy @ w
        yield f"head {tokens} dw {name}", lambda: dy.t() @ x


def layer(rows=4096, width=4096, inner=14336):
    w, dy = normal(width, inner, scale=0.02), normal(rows, width)
    for name in ("normal", "relu2", "silu"):
        x = normal(rows, inner)
        x = {"normal": x, "relu2": torch.relu(x) ** 2, "silu": torch.nn.functional.silu(x) * normal(rows, inner)}[name]
        yield f"layer forward {name}", lambda: x @ w.t()
        yield f"layer dw {name}", lambda: dy.t() @ x
    gate = normal(rows, inner) * (normal(rows, inner) > 0)
    yield "layer dx half zeros", lambda: gate @ w.t()


def passes(rows=8192, cols=8192):
    x, y, weight = normal(rows, cols), normal(rows, cols), normal(cols)
    wide = normal(rows, cols, dtype=torch.float32)
    logits = normal(4096, 128256, dtype=torch.float32)
    softened = torch.log_softmax(logits, 1)
    aten = torch.ops.aten
    yield "add", lambda: x + y
    yield "mul scalar", lambda: x * 0.7
    yield "tanh", lambda: torch.tanh(x)
    yield "silu backward", lambda: aten.silu_backward(y, x)
    yield "from fp32", lambda: wide.to(torch.bfloat16)
    yield "to fp32", lambda: x.float()
    yield "square fp32", lambda: wide.pow(2)
    yield "times weight", lambda: x * weight
    yield "log_softmax", lambda: torch.log_softmax(logits, 1)
    yield "log_softmax backward", lambda: aten._log_softmax_backward_data(logits, softened, 1, torch.float32)


def burst_us(call, count):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3


def repeat(call, count, period_s, seconds):
    """Bursts at a period, by a host that spins; 0: one behind another, waited for."""
    start = due = time.perf_counter()
    bursts = 0
    while time.perf_counter() - start < seconds:
        while time.perf_counter() < due:
            pass
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        bursts += 1
        due = max(due + period_s, time.perf_counter()) if period_s else 0
    return bursts, time.perf_counter() - start


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.7
    torch.manual_seed(20261129)
    board, edges = Board(), EnergyEdges(0)
    with open(sys.argv[1], "a", encoding="utf-8", buffering=1) as out, torch.no_grad():
        out.write(json.dumps({"case": "machine", "gpu": board.uuid(), "name": board.name(), "torch": torch.__version__,
                              "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}) + "\n")

        def idle():
            time.sleep(0.5)
            start = now()
            time.sleep(0.6)
            read = edges.between(start, now())
            out.write(json.dumps({"case": "idle", **read, "celsius": board.celsius()}) + "\n")
            return read.get("watts") or 122

        torch.ones(1, device="cuda")
        floor = idle()
        for make, paused in ((lambda: head(32000), True), (lambda: head(49155), True), (layer, True), (passes, False)):
            for name, call in make():
                call()
                torch.cuda.synchronize()
                once = burst_us(call, 3) / 3
                count = max(1, round(BURST_US / once))
                us = burst_us(call, count)
                period = us / DUTY * 1e-6 if paused else 0
                repeat(call, count, period, SETTLE)
                start = now()
                bursts, wall = repeat(call, count, period, seconds)
                read = edges.between(start, now())
                watts = read.get("watts")
                made = {"case": name, "kernel_us": round(us / count, 2), "count": count, "period_us": round(wall / bursts * 1e6, 1), **read,
                        "mJ": round((watts - floor) * wall / bursts / count * 1e3, 3) if watts else None, "celsius": board.celsius()}
                out.write(json.dumps(made) + "\n")
                print(made)
        idle()
    edges.stop()


if __name__ == "__main__":
    main()
