#!/usr/bin/env python3
"""Column sums of a gradient under PyTorch: cold, in L2, and behind the products that read the gradient.

    tools/measure_sums.py OUT.jsonl SECONDS

Writes a line a shape, of at most 60 drawn by a seed: rows m, columns n, columns k of the layer's input; the median in us of twelve
sums of [m, n] in bf16 by torch.profiler, each time after 256 MiB were written: `cold`, with nothing between; `behind_write`, the
gradient written by one launch before; `behind_inputs`, `behind_weights`, `behind_both`, that launch and the gradient of the input,
of the weights, of both in that order; `hot`, sum after sum without the writes; and how many launches each median is of.
"""
import json
import random
import statistics
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

ROWS = [1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384]
COLUMNS = [768, 1024, 1600, 2048, 2560, 3072, 4096, 5120, 8192]
INPUTS = [768, 1024, 1600, 2048, 3072, 4096]


def median_of_sums(run, repeats=12):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as taken:
        for _ in range(repeats):
            run()
        torch.cuda.synchronize()
    times = [event.device_time for event in taken.events() if "reduce_kernel" in event.name]
    return (round(statistics.median(times), 3) if times else None), len(times)


def ways(m, n, k, flush):
    """What runs, by name."""
    gradient, x = (torch.randn(m, cols, device="cuda", dtype=torch.bfloat16) for cols in (n, k))
    weights = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)

    def behind(written=False, inputs=False, of_weights=False):
        def run():
            flush.zero_()
            if written:
                gradient.mul_(1.0)
            kept = [gradient @ weights] if inputs else []
            if of_weights:
                kept.append(gradient.t() @ x)
            return gradient.sum(0), kept
        return run

    return {"cold": behind(), "hot": lambda: gradient.sum(0), "behind_both": behind(True, True, True),
            "behind_weights": behind(True, of_weights=True), "behind_inputs": behind(True, inputs=True),
            "behind_write": behind(True)}


def main():
    until = time.time() + float(sys.argv[2])
    torch.manual_seed(1)
    random.seed(20261130)
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    drawn = [(random.choice(ROWS), random.choice(COLUMNS), random.choice(INPUTS)) for _ in range(60)]
    with open(sys.argv[1], "w") as out:
        for m, n, k in drawn:
            if not 3e6 < 2 * m * n < 1.3e8 or time.time() > until:
                continue
            line = {"m": m, "n": n, "k": k}
            for name, run in ways(m, n, k, flush).items():
                line[name + "_us"], line[name + "_kernels"] = median_of_sums(run)
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
