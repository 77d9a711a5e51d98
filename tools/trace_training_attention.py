"""Forward and backward of scaled_dot_product_attention by themselves, for tools/trace_training.py."""
import json
import statistics
import time

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from trace_transformers import synchronize

# B, Hq, Hkv, D, S, causal
ATTENTION = [(4, 32, 8, 64, 1024, True), (1, 32, 8, 64, 8192, True), (8, 32, 8, 64, 512, True), (2, 32, 8, 128, 2048, True),
             (1, 32, 8, 128, 8192, True), (2, 32, 8, 64, 4096, True), (16, 16, 16, 64, 512, False), (1, 32, 32, 128, 2048, True),
             (4, 25, 25, 64, 1024, True), (2, 16, 16, 128, 4096, False), (3, 32, 8, 64, 700, True), (1, 32, 8, 128, 1024, True),
             (1, 32, 8, 64, 16384, True), (32, 16, 16, 64, 128, False)]


def attention_operators(out, args, until):
    """Forward and backward of scaled_dot_product_attention, each launch's duration, from operands that rotate."""
    backends = [("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)]
    if args.device == "cpu":
        backends = [("math", SDPBackend.MATH)]
    for shape in ATTENTION[:2] if args.tiny else ATTENTION:
        for name, backend in backends:
            if time.perf_counter() > until:
                return
            batch, heads, kv_heads, width, tokens, causal = shape
            if args.tiny:
                tokens = 64
            record = {"op": "sdpa", "by": name, "shape": {"B": batch, "Hq": heads, "Hkv": kv_heads, "D": width, "S": tokens,
                                                          "causal": int(causal)}}
            try:
                record["kernels"] = attention_launches(batch, heads, kv_heads, width, tokens, causal, backend, args)
            except Exception as error:
                record["error"] = f"{type(error).__name__}: {str(error)[:300]}"
            out.write(json.dumps(record) + "\n")
            out.flush()


def attention_launches(batch, heads, kv_heads, width, tokens, causal, backend, args):
    def operand(count):  # [B, S, H, D] seen as [B, H, S, D], as a projection leaves it
        made = torch.randn(batch, tokens, count, width, device=args.device, dtype=torch.bfloat16)
        return made.transpose(1, 2).requires_grad_()
    flush = torch.empty(1 << (28 if args.device == "cuda" else 10), dtype=torch.int8, device=args.device)
    query, key, value = operand(heads), operand(kv_heads), operand(kv_heads)
    upstream = torch.randn(batch, tokens, heads, width, device=args.device, dtype=torch.bfloat16).transpose(1, 2)

    def once():
        flush.zero_()
        with sdpa_kernel([backend]):
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, enable_gqa=heads != kv_heads)
        flush.zero_()
        torch.autograd.grad(mixed, (query, key, value), upstream)
    for _ in range(3):
        once()
    synchronize(args.device)
    activity = torch.profiler.ProfilerActivity.CUDA if args.device == "cuda" else torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity]) as profile:
        for _ in range(5):
            once()
        synchronize(args.device)
    found = {}
    for event in profile.events():
        duration = event.device_time if args.device == "cuda" else event.cpu_time
        if duration > 0:
            found.setdefault(event.name[:200], []).append(round(duration, 3))
    return {kernel: [len(times), statistics.median(times), min(times), max(times)] for kernel, times in found.items()}
