#!/usr/bin/env python3
"""Times each launch of scaled_dot_product_attention, forward and backward, as PyTorch chooses its kernel on the GPU of this machine:
with the masks of windows that transformers hands it, heads of other widths, dropout, fp32 and fp32 in tf32.

    tools/trace_attention.py --out FILE.jsonl [--device cpu --tiny]

A line a case: shape (`window` 0: no mask; `mask`: causal), type, kernels by pass: launches a call, median, least and largest
duration in microseconds of five calls, each behind 256 MiB that were read (so that nothing in L2 waits to be written back). Operands lie as projections leave them, [B, S, H, D];
where there is a mask, keys and values of every query head, contiguous, as transformers' repeat_kv leaves them.
"""
import argparse
import json
import statistics

import torch
from torch.nn import functional

# B, Hq, Hkv, D, S, causal, window (0: none), type, dropout
CASES = [(2, 32, 8, 128, 4096, 1, 4096), (1, 32, 8, 128, 2048, 1, 1024), (4, 16, 8, 128, 1024, 1, 512), (1, 32, 8, 128, 8192, 1, 4096),
         (8, 32, 8, 128, 512, 1, 256), (3, 24, 8, 128, 1500, 1, 1024), (2, 32, 32, 64, 2048, 1, 1024), (8, 16, 16, 64, 1024, 1, 512),
         (1, 32, 8, 64, 4096, 1, 1024), (4, 12, 12, 64, 700, 1, 512), (2, 8, 4, 256, 2048, 1, 1024), (1, 16, 8, 256, 4096, 1, 4096),
         (4, 4, 1, 256, 2048, 1, 512), (4, 16, 8, 256, 1024, 1, 512), (1, 8, 4, 256, 8192, 1, 4096), (2, 32, 32, 96, 2048, 1, 1024),
         (4, 32, 32, 96, 1024, 1, 512)]
PLAIN = [(4, 8, 1, 256, 2048, 1, 0), (2, 8, 4, 256, 4096, 1, 0), (8, 4, 1, 256, 1024, 1, 0), (1, 16, 8, 256, 8192, 1, 0),
         (4, 16, 8, 256, 1024, 1, 0), (1, 16, 16, 256, 2048, 1, 0), (2, 32, 32, 96, 2048, 1, 0), (4, 32, 32, 80, 1024, 1, 0),
         (2, 32, 32, 80, 2048, 1, 0), (1, 32, 32, 96, 4096, 1, 0), (16, 16, 16, 80, 577, 0, 0), (4, 32, 8, 128, 1024, 1, 0),
         (32, 12, 12, 64, 197, 0, 0), (8, 32, 8, 64, 1024, 1, 0)]
WIDE = [(4, 32, 32, 64, 1024, 1, 0), (32, 12, 12, 64, 512, 0, 0), (8, 12, 12, 64, 1024, 1, 0), (2, 32, 32, 128, 2048, 1, 0),
        (4, 16, 16, 128, 1024, 1, 0), (8, 16, 16, 64, 512, 0, 0), (2, 16, 16, 64, 2048, 1, 0), (4, 32, 8, 128, 1024, 1, 0)]


def cases():
    for shape in CASES + PLAIN:
        yield (*shape, "bf16", 0.0)
    for shape in WIDE:
        yield (*shape, "tf32", 0.0)
    yield (32, 12, 12, 64, 512, 0, 0, "tf32", 0.1)
    yield (8, 12, 12, 64, 1024, 1, 0, "tf32", 0.1)
    yield (4, 32, 32, 64, 1024, 1, 0, "fp32", 0.0)
    yield (4, 16, 16, 128, 1024, 1, 0, "fp32", 0.0)
    for shape in [(16, 12, 12, 64, 1024, 1, 0), (32, 16, 16, 64, 512, 0, 0), (64, 12, 12, 64, 128, 0, 0), (4, 16, 16, 128, 2048, 1, 0)]:
        yield (*shape, "bf16", 0.1)
    for shape in [(2, 32, 8, 128, 4096, 1, 4096), (4, 8, 1, 256, 2048, 1, 0), (4, 32, 8, 64, 1024, 1, 0)]:
        yield (*shape, "fp16", 0.0)


def launches(case, device):
    batch, heads, kv_heads, width, tokens, causal, window, kind, dropout = case
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(kind, torch.float32)
    mask = None
    if window:
        at = torch.arange(tokens, device=device)
        seen = (at[None, :] <= at[:, None]) & (at[None, :] > at[:, None] - window)
        mask = seen.expand(batch, 1, tokens, tokens).contiguous()

    def operand(count):
        return torch.randn(batch, tokens, count, width, device=device, dtype=dtype).transpose(1, 2)
    query = operand(heads).requires_grad_()
    key, value = [(operand(kv_heads).repeat_interleave(heads // kv_heads, 1) if window else operand(kv_heads)).requires_grad_()
                  for _ in range(2)]
    upstream = torch.randn(batch, tokens, heads, width, device=device, dtype=dtype).transpose(1, 2)
    flush = torch.ones(1 << (28 if device == "cuda" else 10), dtype=torch.int8, device=device)

    def once():
        flush.max()
        with torch.profiler.record_function("pass:forward"):
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout,
                                                            is_causal=bool(causal) and mask is None,
                                                            enable_gqa=mask is None and heads != kv_heads)
        flush.max()
        torch.autograd.grad(mixed, (query, key, value), upstream)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(2):
        once()
    wait()
    kinds = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if device == "cuda" else [])
    with torch.profiler.profile(activities=kinds) as profile:
        for _ in range(5):
            once()
        wait()
    found = {}
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA or device == "cpu":
            duration = event.device_time if device == "cuda" else event.cpu_time
            if "pass:" not in event.name and "signed char" not in event.name:  # what reads 256 MiB
                found.setdefault(event.name[:200], []).append(round(duration, 3))
    return {name: [len(t) / 5, statistics.median(t), min(t), max(t)] for name, t in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(5)
    names = ("B", "Hq", "Hkv", "D", "S", "causal", "window", "type", "dropout")
    machine = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
               "cudnn": torch.backends.cudnn.version()}
    with open(args.out, "w", encoding="utf-8") as out:
        for case in cases():
            record = {**dict(zip(names, case)), "machine": machine}
            if args.tiny:
                case = (1, case[1] // case[2] * 2, 2, 16, 32, case[5], min(case[6], 16), *case[7:])
            try:
                record["kernels"] = launches(case, args.device)
            except Exception as error:  # the others go on
                record["error"] = f"{type(error).__name__}: {str(error)[:300]}"
            out.write(json.dumps(record) + "\n")
            out.flush()
            if args.device == "cuda":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
