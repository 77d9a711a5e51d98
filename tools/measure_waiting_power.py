#!/usr/bin/env python3
"""What a GPU draws whose kernels come with gaps between them: bursts of the same kernels in a CUDA graph, launched at a fixed
period by a host that spins, and the board's energy counter between two of its movements (tools/energy_edges.py). One JSON object
a line: `case`, `kernel`, `kernel_us` (behind one another in a graph), `burst` (kernels a launch), `gap_us` (asked for),
`period_us` (reached), `busy` (kernels' time over the wall's), `watts`, `clocks_MHz`, `celsius`, `instant_W`.

    tools/measure_waiting_power.py OUT.jsonl [SECONDS]

Needs PyTorch and NVML; energy_edges.py and nvml_board.py lie beside it.
"""
import json
import sys
import time

import torch

from energy_edges import EnergyEdges, now
from nvml_board import Board

SETTLE = 0.3
GAPS_US = (5, 20, 100, 1000)
DUTIES = (0.75, 0.5, 0.25, 0.1)
LEAST_PERIOD_US = 9  # a host's for a graph


def normal(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).mul_(0.5).to(torch.bfloat16)


def kernels():
    """Products of some 50 us, a pass over DRAM of some 50 us, one in L2 of some 5 us."""
    a, b, c = normal(4096, 2048), normal(2048, 2048), normal(4096, 2048)
    x, y, z = [normal(4096, 8192) for _ in range(3)]
    s, t = normal(1024, 2048), normal(1024, 2048)
    return {"product": lambda: torch.mm(a, b, out=c), "pass": lambda: torch.add(x, y, out=z), "small": lambda: torch.add(s, t, out=t)}


def graph_of(call, count):
    graph = torch.cuda.CUDAGraph()
    call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return graph


def alone_us(call):
    """A kernel's time behind its like in one graph."""
    graph = graph_of(call, 200)
    graph.replay()
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(5):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def paced(graph, period_s, seconds):
    """Launches at a period, by a host that spins; where the GPU falls four periods behind, from there on. How many, and the wall's time."""
    clock = time.perf_counter
    start = due = clock()
    count = 0
    while True:
        while clock() < due:
            pass
        if clock() - start >= seconds:
            return count, clock() - start
        graph.replay()
        count += 1
        due += period_s
        if clock() > due + 4 * period_s:
            due = clock()


def held(graph, seconds):
    """Launches one behind another, two of them between two waits of the host."""
    clock = time.perf_counter
    start, count = clock(), 0
    while clock() - start < seconds:
        for _ in range(2):
            graph.replay()
        torch.cuda.synchronize()
        count += 2
    return count, clock() - start


def nothing(seconds):
    time.sleep(seconds)
    return 0, seconds


def bursts(kernel_us):
    """(kernels, gap behind them in us): of each share of the time and gap what comes nearest, where a host can keep the pace."""
    for duty in DUTIES:
        for gap in GAPS_US:
            count = round(gap * duty / (1 - duty) / kernel_us)
            if count < 1 and kernel_us / (kernel_us + gap) >= duty * 1.3:
                continue
            if max(1, count) * kernel_us + gap >= LEAST_PERIOD_US:
                yield max(1, count), gap
    yield 1, 5
    yield 1, 20


class Recording:
    def __init__(self, out, seconds):
        self.out, self.seconds, self.board, self.edges = out, seconds, Board(), EnergyEdges(0)

    def note(self, fields, run, kernel_us=0, burst=0):
        """A line: what `run` does for a while, after it did so for a moment."""
        run(SETTLE)
        torch.cuda.synchronize()
        start = now()
        count, wall = run(self.seconds)
        read = self.edges.between(start, now())
        torch.cuda.synchronize()
        made = {**fields, "period_us": round(wall / max(1, count) * 1e6, 2), "busy": round(count * burst * kernel_us / (wall * 1e6), 4),
                **read, "celsius": self.board.celsius()}
        self.out.write(json.dumps(made) + "\n")

    def kernel(self, name, call, us):
        about = {"kernel": name, "kernel_us": round(us, 2)}
        many = max(1, int(10e3 / us))
        whole = graph_of(call, many)
        self.note({"case": f"{name} behind one another", **about, "burst": many, "gap_us": 0}, lambda span: held(whole, span), us, many)
        self.note({"case": f"nothing after {name}"}, nothing)
        for burst, gap in bursts(us):
            graph, period = graph_of(call, burst), (burst * us + gap) * 1e-6
            self.note({"case": f"{name} {burst} then {gap} us", **about, "burst": burst, "gap_us": gap},
                      lambda span: paced(graph, period, span), us, burst)


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 1.2
    torch.manual_seed(11)
    with open(sys.argv[1], "a", encoding="utf-8", buffering=1) as out:
        recording = Recording(out, seconds)
        out.write(json.dumps({"case": "machine", "gpu": recording.board.uuid(), "torch": torch.__version__,
                              "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}) + "\n")
        try:
            torch.zeros(8, device="cuda")
            recording.note({"case": "context, no kernel yet"}, nothing)
            calls = kernels()
            alone = {name: alone_us(call) for name, call in calls.items()}
            for name, call in calls.items():
                recording.kernel(name, call, alone[name])
        finally:
            recording.edges.stop()


if __name__ == "__main__":
    main()
