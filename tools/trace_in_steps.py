#!/usr/bin/env python3
"""What a launch takes alone and in a step: products of few rows, element-wise launches and norms on one GPU by PyTorch's
profiler, repeated in several ways. One JSON object a case and way: the kernels of one turn with the median, 10th and 90th
percentile and mean of their durations in ns, and the idle time before each as the profiler shows it.

Ways: warm (the same operands), rotate (weights, or elements, take turns, 300 MB and more), far (weights a GiB apart), written
(the input is written right before), mixed and mixed_far (eight launches of other kernels between), mixed_warm, made (a product
writes the input right before), layer (a whole layer's launches as a Llama has them). `graph`: in a CUDA graph, else one by one.

usage: trace_in_steps.py SECONDS OUT.jsonl
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

GIB, DEVICE = 1 << 30, "cuda"
BEGIN = time.time()


def kernels(prof):
    events = [e for e in prof.profiler.kineto_results.events()
              if str(e.device_type()).endswith("CUDA") and "Memcpy" not in e.name() and "Memset" not in e.name()]
    events.sort(key=lambda e: e.start_ns())
    return [(e.name(), e.start_ns(), e.duration_ns()) for e in events]


def at_place(seen, place, each, periods):
    """Of the launch at one place of each period; the first two periods are left out of durations."""
    ordered = sorted(seen[p * each + place][2] for p in range(2, periods))
    idle = sorted(seen[i][1] - seen[i - 1][1] - seen[i - 1][2] for i in range(place, len(seen), each) if i > 0)
    return {"name": seen[(periods - 1) * each + place][0][:150], "med": ordered[len(ordered) // 2], "p10": ordered[len(ordered) // 10],
            "p90": ordered[len(ordered) * 9 // 10], "mean": sum(ordered) / len(ordered), "gap": idle[len(idle) // 2] if idle else 0}


class Bench:
    def __init__(self, seconds, out):
        self.seconds, self.out = seconds, out
        self.arena = torch.empty(48 * GIB // 2, dtype=torch.bfloat16, device=DEVICE)
        for i in range(48):
            self.arena[i * GIB // 2:(i + 1) * GIB // 2].normal_(0, 0.02)
        self.small = torch.randn(64, 2048, dtype=torch.bfloat16, device=DEVICE)
        self.gain = torch.ones(2048, dtype=torch.bfloat16, device=DEVICE)

    def at(self, offset, *shape):
        elements = 1
        for size in shape:
            elements *= size
        return self.arena[offset // 2:offset // 2 + elements].view(*shape)

    def others(self):
        F.layer_norm(self.small, (2048,), self.gain, self.gain)
        F.gelu(self.small)
        torch.softmax(self.small, -1)
        torch.cat([self.small, self.small], -1)
        self.small + self.small
        self.small.t().contiguous()
        torch.rsqrt(self.small.float())
        self.small.sum(-1)

    def run(self, tag, period, periods, graph, what):
        if time.time() - BEGIN > self.seconds:
            return

        def call():
            for p in range(periods):
                period(p)
        call()
        torch.cuda.synchronize()
        if graph:
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                call()
            call = captured.replay
        call()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as prof:
            call()
            torch.cuda.synchronize()
        seen = kernels(prof)
        record = {"tag": tag, "graph": graph, "periods": periods, "kernels": len(seen), **what}
        if seen and len(seen) % periods == 0:
            each = len(seen) // periods
            record["at"] = [at_place(seen, place, each, periods) for place in range(each)]
        self.out.write(json.dumps(record) + "\n")
        self.out.flush()


def product(bench, m, n, k):
    size = n * k * 2
    x, raw = (torch.randn(m, k, dtype=torch.bfloat16, device=DEVICE) for _ in range(2))
    count = min(160, max(40, -(-300_000_000 // size)))
    step = -(-size // (1 << 16)) * (1 << 16)
    near = [bench.at(i * step, n, k) for i in range(count)]
    far = [bench.at((i * 19 % 47) * GIB + (i // 47) * (GIB // 8) + (i % 8) * (3 << 20), n, k) for i in range(count)]

    def mixed(weights):
        def turn(p):
            bench.others()
            F.linear(x, weights[p])
        return turn
    what = {"M": m, "N": n, "K": k}
    bench.run("warm", lambda p: F.linear(x, near[0]), count, True, what)
    bench.run("rotate", lambda p: F.linear(x, near[p]), count, True, what)
    bench.run("far", lambda p: F.linear(x, far[p]), count, True, what)
    bench.run("written", lambda p: F.linear(torch.relu(raw), near[p]), count, True, what)
    bench.run("mixed", mixed(near), count, True, what)
    bench.run("mixed_far", mixed(far), count, True, what)
    bench.run("rotate", lambda p: F.linear(x, near[p]), count, False, what)
    bench.run("mixed_far", mixed(far), count, False, what)


def layer(bench, m, hidden, ffn, kv):
    weights, offset = [], 0
    for _ in range(24):
        row = []
        for shape in ((hidden, hidden), (kv, hidden), (kv, hidden), (hidden, hidden), (ffn, hidden), (ffn, hidden), (hidden, ffn)):
            row.append(bench.at(offset, *shape))
            offset += shape[0] * shape[1] * 2
        weights.append(row)
    gain = torch.ones(hidden, dtype=torch.bfloat16, device=DEVICE)
    x0 = torch.randn(m, hidden, dtype=torch.bfloat16, device=DEVICE)

    def norm(x):
        wide = x.float()
        return gain * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)

    def turn(p):
        w = weights[p]
        y = norm(x0)
        q = F.linear(y, w[0])
        F.linear(y, w[1])
        F.linear(y, w[2])
        x = x0 + F.linear(q, w[3])
        y = norm(x)
        x + F.linear(F.silu(F.linear(y, w[4])) * F.linear(y, w[5]), w[6])
    for graph in (True, False):
        bench.run("layer", turn, 24, graph, {"M": m, "h": hidden, "f": ffn, "kv": kv})


def light(bench, op, tokens, hidden):
    size = tokens * hidden * 2
    count = min(160, max(40, -(-300_000_000 // size)))
    xs = [bench.at(i * size, tokens, hidden) for i in range(count)]
    ys = [bench.at(4 * GIB + i * size, tokens, hidden) for i in range(count)]
    gain, weight = torch.ones(hidden, dtype=torch.bfloat16, device=DEVICE), bench.at(40 * GIB, hidden, hidden)
    call = {"gelu": lambda x, y: F.gelu(x), "tanh_gelu": lambda x, y: F.gelu(x, approximate="tanh"), "add": lambda x, y: x + y,
            "layernorm": lambda x, y: F.layer_norm(x, (hidden,), gain, gain), "copy": lambda x, y: x.clone(),
            "to_float": lambda x, y: x.float(), "mean": lambda x, y: x.mean(-1), "softmax": lambda x, y: torch.softmax(x, -1),
            "silu": lambda x, y: F.silu(x)}[op]

    def mixed(p, warm=False):
        bench.others()
        call(xs[0 if warm else p], ys[0 if warm else p])

    def made(p):
        call(F.linear(xs[p], weight), ys[p])
    what = {"op": op, "T": tokens, "h": hidden}
    bench.run("warm", lambda p: call(xs[0], ys[0]), count, True, what)
    bench.run("rotate", lambda p: call(xs[p], ys[p]), count, True, what)
    bench.run("mixed", mixed, count, True, what)
    bench.run("made", made, count, True, what)
    bench.run("made", made, count, False, what)
    bench.run("mixed_warm", lambda p: mixed(p, True), count, True, what)
    bench.run("rotate", lambda p: call(xs[p], ys[p]), count, False, what)


def main():
    torch.manual_seed(0)
    with open(sys.argv[2], "w", encoding="utf-8") as out, torch.no_grad():
        bench = Bench(float(sys.argv[1]), out)
        for sizes in ((1, 4096, 14336, 1024), (8, 4096, 14336, 1024), (16, 2048, 8192, 512), (1, 2048, 8192, 512)):
            layer(bench, *sizes)
        for tokens, hidden in ((512, 768), (512, 4096)):
            for op in ("gelu", "add", "layernorm", "to_float", "copy", "softmax"):
                light(bench, op, tokens, hidden)
        for m in (1, 8, 16):
            for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (1024, 4096), (2048, 2048), (8192, 2048), (2048, 8192)):
                product(bench, m, n, k)
        for m, n, k in ((512, 768, 768), (512, 3072, 768), (512, 768, 3072), (512, 4096, 4096), (4, 4096, 4096), (4, 2048, 2048),
                        (4, 14336, 4096)):
            product(bench, m, n, k)
        for tokens, hidden in ((512, 3072), (16, 4096), (1, 4096), (2048, 1024), (512, 1024)):
            for op in ("gelu", "add", "layernorm", "tanh_gelu", "silu", "mean", "copy"):
                light(bench, op, tokens, hidden)


if __name__ == "__main__":
    main()
