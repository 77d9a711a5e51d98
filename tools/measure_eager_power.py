#!/usr/bin/env python3
"""What kernels of eager training draw, each by itself: PyTorch's operators in a loop behind one another on one GPU, and the
board's energy counter between two of its movements (tools/energy_edges.py). One JSON object a line: `case`, `us` a call (CUDA
events), `watts`, `clocks_MHz`, `celsius`, `kernels` (of one call, by the profiler). Of cases `waits` calls come one by one, the
host at no work of the GPU's between them.

    tools/measure_eager_power.py OUT.jsonl [SECONDS] [--only TEXT] [--second]

--second: other products in tf32, fp16 and bf16, some of zeros, and passes over single precision and over rows that L2 holds in part.
Needs PyTorch and NVML; energy_edges.py and nvml_board.py lie beside it.
"""
import json
import sys
import time

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from energy_edges import EnergyEdges, now
from nvml_board import Board

SETTLE = 0.25
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def normal(*shape, dtype=BF16):
    return torch.randn(*shape, device="cuda", dtype=FP32).mul_(0.5).to(dtype)


def products(tokens, inner, outer, dtype=BF16):
    """Forward, gradient of the input, gradient of the weights of a linear layer."""
    x, w, g = normal(tokens, inner, dtype=dtype), normal(outer, inner, dtype=dtype), normal(tokens, outer, dtype=dtype)
    return {"forward": lambda: x @ w.t(), "dx": lambda: g @ w, "dw": lambda: g.t() @ x}


def attention(batch, heads, tokens, width, causal, dropout, backend=SDPBackend.CUDNN_ATTENTION, dtype=BF16):
    q, k, v, g = [normal(batch, tokens, heads, width, dtype=dtype).transpose(1, 2) for _ in range(4)]
    for each in (q, k, v):
        each.requires_grad_()

    def forward():
        with sdpa_kernel([backend]):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout)
    made = forward()
    return {"forward": forward, "backward": lambda: torch.autograd.grad(made, (q, k, v), g, retain_graph=True)}


def rows(count, width):
    x, g, other, weight = normal(count, width), normal(count, width), normal(count, width), normal(width)
    wide, one = normal(count, width, dtype=FP32), normal(count, 1, dtype=FP32)
    mask = torch.rand(count, width, device="cuda") > 0.1
    norm = torch.native_layer_norm(x, [width], weight, weight, 1e-5)
    heads = x.view(8, count // 8, width // 128, 128).transpose(1, 2)
    return {
        "mul": lambda: x * g, "add": lambda: x + g, "mul scalar": lambda: x * 0.8, "tanh": lambda: torch.tanh(x), "cube": lambda: torch.pow(x, 3.0),
        "to fp32": lambda: x.float(), "from fp32": lambda: wide.to(BF16), "square fp32": lambda: wide.pow(2),
        "times rows": lambda: wide * one, "times weight": lambda: x * weight, "mean": lambda: wide.mean(-1, keepdim=True),
        "silu": lambda: functional.silu(x), "silu backward": lambda: torch.ops.aten.silu_backward(g, x), "gelu": lambda: functional.gelu(x),
        "heads behind": lambda: heads.contiguous(), "halves": lambda: torch.cat((-heads[..., 64:], heads[..., :64]), -1),
        "dropout": lambda: torch.native_dropout(x, 0.1, True), "dropout backward": lambda: torch.ops.aten.native_dropout_backward(g, mask, 1.1),
        "layernorm": lambda: torch.native_layer_norm(x, [width], weight, weight, 1e-5),
        "layernorm backward": lambda: torch.ops.aten.native_layer_norm_backward(g, x, [width], norm[1], norm[2], weight, weight, [True, True, True]),
        "columns": lambda: other.sum(0),
    }


def lists():
    """torch.optim's passes over lists of tensors: 64 of 2048 x 8192."""
    a, b, c, d = [[normal(2048, 8192) for _ in range(16)] for _ in range(4)]
    wide = [[normal(2048, 8192, dtype=FP32) for _ in range(8)] for _ in range(4)]
    for each in (b, d, wide[1], wide[3]):
        torch._foreach_abs_(each)
    steps = [torch.ones((), device="cuda") for _ in a]
    fused = {"lr": 1e-9, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.01, "eps": 1e-8, "amsgrad": False, "maximize": False}
    return {"mul": lambda: torch._foreach_mul_(a, 0.99999), "lerp": lambda: torch._foreach_lerp_(a, c, 0.001),
            "sqrt": lambda: torch._foreach_sqrt(b), "addcmul": lambda: torch._foreach_addcmul_(a, c, c, value=1e-6),
            "addcdiv": lambda: torch._foreach_addcdiv_(a, c, b, value=1e-6), "norm": lambda: torch._foreach_norm(a),
            "fused bf16": lambda: torch._fused_adamw_(a, c, b, d, [], steps, **fused),
            "fused fp32": lambda: torch._fused_adamw_(*wide, [], steps[:8], **fused)}


def loss(count, vocabulary):
    logits, labels = normal(count, vocabulary, dtype=FP32), torch.randint(0, vocabulary, (count,), device="cuda")
    log = torch.log_softmax(logits, -1)
    return {"log_softmax": lambda: torch.log_softmax(logits, -1), "log_softmax backward": lambda: torch.ops.aten._log_softmax_backward_data(logits, log, -1, FP32),
            "nll": lambda: functional.nll_loss(log, labels)}


def tf32(parts):
    def wrapped(call):
        def run():
            torch.backends.cuda.matmul.allow_tf32 = True
            made = call()
            torch.backends.cuda.matmul.allow_tf32 = False
            return made
        return run
    return {name: wrapped(call) for name, call in parts.items()}


# name of a group: how it is made (when its turn comes), and which of its parts are not taken
GROUPS = [
    ("linear 8192x8192x8192", lambda: products(8192, 8192, 8192)), ("linear fp16 8192x4096x4096", lambda: products(8192, 4096, 4096, FP16)),
    ("head 4096x1600x50257", lambda: products(4096, 1600, 50257)), ("head 8192x1024x30522", lambda: products(8192, 1024, 30522)),
    ("linear 4096x1600x6400", lambda: products(4096, 1600, 6400)),
    ("tf32 4096x2048x8192", lambda: tf32(products(4096, 2048, 8192, FP32))), ("tf32 16384x768x3072", lambda: tf32(products(16384, 768, 3072, FP32))),
    ("fp32 4096x2048x8192", lambda: products(4096, 2048, 8192, FP32)),
    ("attention 4x25x1024x64", lambda: attention(4, 25, 1024, 64, True, 0.0)), ("attention dropout 4x25x1024x64", lambda: attention(4, 25, 1024, 64, True, 0.1)),
    ("attention 2x32x4096x128", lambda: attention(2, 32, 4096, 128, True, 0.0)),
    ("attention fp32 4x16x1024x64", lambda: attention(4, 16, 1024, 64, True, 0.0, SDPBackend.EFFICIENT_ATTENTION, FP32)),
    ("rows 8192x8192", lambda: rows(8192, 8192)), ("loss 4096x128256", lambda: loss(4096, 128256)), ("lists", lists),
]


def zeros(parts_of):
    """The same calls of operands that are zeros: what arithmetic takes and what moving takes, told apart."""
    def made():
        global normal
        usual, normal = normal, lambda *shape, dtype=BF16: torch.zeros(*shape, device="cuda", dtype=dtype)
        try:
            return parts_of()
        finally:
            normal = usual
    return made


def batched(batch, rows_, columns, inner, dtype):
    x, w = normal(batch, rows_, inner, dtype=dtype), normal(batch, columns, inner, dtype=dtype)
    return {"scores": lambda: x @ w.transpose(1, 2)}


def passes(count, width, dtype):
    """Passes over rows of one type, as iterations in fp32, under autocast and of small models make them."""
    x, g, other, weight = [normal(count, width, dtype=dtype) for _ in range(3)] + [normal(width, dtype=dtype)]
    norm = torch.native_layer_norm(x, [width], weight, weight, 1e-5)
    to = BF16 if dtype == FP32 else FP32
    return {
        "mul": lambda: x * g, "add": lambda: x + g, "mul scalar": lambda: x * 0.8, "convert": lambda: x.to(to), "copy": lambda: other.copy_(x),
        "gelu": lambda: functional.gelu(x), "gelu backward": lambda: torch.ops.aten.gelu_backward(g, x), "dropout": lambda: torch.native_dropout(x, 0.1, True),
        "layernorm": lambda: torch.native_layer_norm(x, [width], weight, weight, 1e-5),
        "layernorm backward": lambda: torch.ops.aten.native_layer_norm_backward(g, x, [width], norm[1], norm[2], weight, weight, [True, True, True]),
        "columns": lambda: other.sum(0),
    }


def sizes():
    """Calls whose times alone are noted: column sums of many shapes, gradients in tf32."""
    for count, width in [(4096, 64), (32768, 64), (262144, 64), (4096, 128), (32768, 128), (131072, 128), (524288, 128), (16384, 256), (65536, 256),
                         (8192, 768), (16384, 1024), (2048, 2048), (8192, 3072), (4096, 14336)]:
        for kind, dtype in (("bf16", BF16), ("fp32", FP32)):
            x = normal(count, width, dtype=dtype)
            yield f"columns {kind} {count}x{width}", lambda x=x: x.sum(0)
    for tokens, inner, outer in [(2048, 1024, 4096), (4096, 2048, 512), (4096, 2048, 2048), (8192, 896, 4864), (4096, 4096, 4096), (12288, 768, 768),
                                 (1024, 2048, 8192), (8192, 1600, 6400), (16384, 1024, 1024)]:
        for name, call in tf32(products(tokens, inner, outer, FP32)).items():
            yield f"tf32 {tokens}x{inner}x{outer} {name}", call


SECOND = [
    ("tf32 8192x8192x8192", lambda: tf32(products(8192, 8192, 8192, FP32))), ("tf32 8192x4096x4096", lambda: tf32(products(8192, 4096, 4096, FP32))),
    ("tf32 16384x768x768", lambda: tf32(products(16384, 768, 768, FP32))), ("tf32 4096x1024x4096", lambda: tf32(products(4096, 1024, 4096, FP32))),
    ("tf32 2048x2048x5632", lambda: tf32(products(2048, 2048, 5632, FP32))),
    ("tf32 zeros 8192x4096x4096", zeros(lambda: tf32(products(8192, 4096, 4096, FP32)))),
    ("tf32 zeros 16384x768x3072", zeros(lambda: tf32(products(16384, 768, 3072, FP32)))),
    ("tf32 batches 64x1024x1024x64", lambda: tf32(batched(64, 1024, 1024, 64, FP32))),
    ("tf32 batches 16x2048x2048x1024", lambda: tf32(batched(16, 2048, 2048, 1024, FP32))),
    ("tf32 16384x768x30522", lambda: tf32(products(16384, 768, 30522, FP32))),
    ("attention tf32 32x12x512x64", lambda: tf32(attention(32, 12, 512, 64, False, 0.0, SDPBackend.EFFICIENT_ATTENTION, FP32))),
    ("attention dropout tf32 32x12x512x64", lambda: tf32(attention(32, 12, 512, 64, False, 0.1, SDPBackend.EFFICIENT_ATTENTION, FP32))),
    ("attention fp32 32x12x512x64", lambda: attention(32, 12, 512, 64, False, 0.0, SDPBackend.EFFICIENT_ATTENTION, FP32)),
    ("attention efficient 32x12x512x64", lambda: attention(32, 12, 512, 64, False, 0.0, SDPBackend.EFFICIENT_ATTENTION)),
    ("fp16 8192x8192x8192", lambda: products(8192, 8192, 8192, FP16)), ("fp16 16384x768x3072", lambda: products(16384, 768, 3072, FP16)),
    ("bf16 8192x4096x4096", lambda: products(8192, 4096, 4096)), ("bf16 16384x768x3072", lambda: products(16384, 768, 3072)),
    ("bf16 zeros 8192x4096x4096", zeros(lambda: products(8192, 4096, 4096))),
    ("passes fp32 8192x8192", lambda: passes(8192, 8192, FP32)), ("passes fp32 16384x768", lambda: passes(16384, 768, FP32)),
    ("passes bf16 16384x768", lambda: passes(16384, 768, BF16)), ("passes bf16 16384x3072", lambda: passes(16384, 3072, BF16)),
]


def kernels_of(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return [[event.name[:120], round(event.device_time, 2)] for event in profile.events() if event.device_time > 0]


def loop(call, seconds, each):
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(each):
            call()
        torch.cuda.synchronize()


def measured(call, seconds, board, edges):
    call()
    torch.cuda.synchronize()
    kernels = kernels_of(call)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(5):
        call()
    end.record()
    torch.cuda.synchronize()
    each = max(1, int(30e3 / (begin.elapsed_time(end) / 5 * 1e3)))
    loop(call, SETTLE, each)
    start = now()
    begin.record()
    calls, clock = 0, time.perf_counter()
    while time.perf_counter() - clock < seconds:
        for _ in range(each):
            call()
        calls += each
        end.record()
        torch.cuda.synchronize()
    return {"us": round(begin.elapsed_time(end) * 1e3 / calls, 2), **edges.between(start, now()), "celsius": board.celsius(), "kernels": kernels}


def waits(seconds, board, edges):
    """Small launches with pauses of the host between them, by their pace: what a GPU draws that waits for its host."""
    small = normal(4096)
    for pause in (0, 20e-6, 100e-6, 1e-3):
        def call(pause=pause):
            small.add_(0)
            until = time.perf_counter() + pause
            while time.perf_counter() < until:
                pass
        loop(call, SETTLE, 200)
        start, clock, calls = now(), time.perf_counter(), 0
        while time.perf_counter() - clock < seconds:
            call()
            calls += 1
        yield {"case": f"waits {pause * 1e6:.0f} us", "us": round((time.perf_counter() - clock) / calls * 1e6, 2), **edges.between(start, now()),
               "celsius": board.celsius()}


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.8
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    second = "--second" in sys.argv
    torch.manual_seed(7)
    board, edges = Board(), EnergyEdges(0)
    with open(sys.argv[1], "a", encoding="utf-8", buffering=1) as out:
        out.write(json.dumps({"case": "machine", "gpu": board.uuid(), "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}) + "\n")
        for group, make in SECOND if second else GROUPS:
            if only not in group:
                continue
            try:
                for name, call in make().items():
                    out.write(json.dumps({"case": f"{group} {name}", **measured(call, seconds, board, edges)}) + "\n")
            except Exception as error:  # the other groups go on
                out.write(json.dumps({"case": group, "error": f"{type(error).__name__}: {str(error)[:200]}"}) + "\n")
            torch.cuda.empty_cache()
        for name, call in [] if second else sizes():
            for _ in range(3):
                call()
            times = [kernels_of(call) for _ in range(3)]
            out.write(json.dumps({"case": f"time alone: {name}", "kernels": min(times, key=lambda kernels: sum(us for _, us in kernels))}) + "\n")
        for line in [] if second else waits(seconds, board, edges):
            out.write(json.dumps(line) + "\n")
    edges.stop()


if __name__ == "__main__":
    main()
