#!/usr/bin/env python3
"""Times the kernels behind single operators of PyTorch on the GPU of this machine, each from a cold L2.

    tools/trace_operators.py --out FOLDER [--kinds grouped_mm,sdpa,bmm,gemm,...] [--until SECONDS] [--device cuda|cpu]

Kinds:  grouped_mm   torch._grouped_mm as transformers calls it: tokens sorted by expert, weights [experts, N, K]
        sdpa         scaled_dot_product_attention by one named backend (cudnn, flash), keys and values of as many heads as queries
        bmm          the two products of attention written out
        gemm         torch.matmul with weights [N, K] and [K, N], rows of whole 16-byte units and not
        types        products of weights [N, K] in fp16, fp32 (with and without TF32), int8 (torch._int_mm) and fp8
                     (torch._scaled_mm: a scale a tensor, a row, a block of 1x128 by 128x128), batches of them in bf16
        drawn        sixty more of those types, of sizes drawn at random
Each case runs REPEATS times; before each, 256 MiB are read, so that nothing of it is in L2 (with --dirty they are written:
what L2 then holds must go to memory while the case runs, which costs one that waits for memory a third of its rate). As one line of
FOLDER/operators.jsonl a case has its numbers, and for each launch of one run its kernel, grid, block and the median, least and
largest duration in microseconds (the device's, by PyTorch's profiler). A case that fails is written with its error.
Values are normal, the seed is fixed.
"""
import argparse
import json
import math
import os
import random
import statistics
import tempfile
import time

import torch
from torch.nn import functional

REPEATS = 7
EXPERT_WEIGHTS = [(8, 4096, 28672), (8, 14336, 4096), (128, 2048, 1536), (128, 768, 2048), (64, 2048, 2816), (64, 1408, 2048),
                  (32, 2880, 5760), (32, 2880, 2880), (64, 2048, 2048), (16, 5120, 2048)]
# (experts that have rows: 0 for all, rows of each)
EXPERT_ROWS = [(1, 1), (2, 1), (2, 8), (6, 1), (0, 1), (0, 3), (0, 16), (0, 64), (0, 100), (0, 128), (0, 129), (0, 200), (0, 512), (0, 2000)]


def grouped_cases():
    for experts, k, n in EXPERT_WEIGHTS:
        rows = [[r if (not touched or e < touched) else 0 for e in range(experts)] for touched, r in EXPERT_ROWS]
        weights = [1 / (e + 1) for e in range(experts)]
        rows += [[round(mean * experts * w / sum(weights)) for w in weights] for mean in (4, 60, 400)]
        for each in rows:
            if 2 * sum(each) * n * k < 6e12:
                yield {"kind": "grouped_mm", "experts": experts, "k": k, "n": n, "rows": each}


def sdpa_cases():
    heads = [(32, 128), (16, 256), (16, 64), (40, 128), (12, 64)]
    for backend in ("cudnn", "flash"):
        for h, d in heads:
            for b, s in [(1, 128), (1, 500), (1, 1024), (1, 2048), (1, 4096), (1, 8192), (4, 512), (4, 2048), (16, 384), (64, 128)]:
                yield {"kind": "sdpa", "backend": backend, "batch": b, "heads": h, "queries": s, "keys": s, "width": d, "causal": True}
            for b, s in [(8, 384), (64, 384), (32, 128), (16, 512), (1, 1024), (2, 4096)]:
                yield {"kind": "sdpa", "backend": backend, "batch": b, "heads": h, "queries": s, "keys": s, "width": d, "causal": False}
            for b, s in [(1, 129), (1, 1025), (1, 4097), (1, 16001), (4, 1025), (8, 2001), (32, 513), (32, 1025), (32, 4097), (96, 513)]:
                yield {"kind": "sdpa", "backend": backend, "batch": b, "heads": h, "queries": 1, "keys": s, "width": d, "causal": False}


def bmm_cases():
    for products, keys, width in [(b, s, d) for d in (128, 64, 256) for b in (32, 128, 512, 1024, 3072) for s in (17, 129, 512, 1025, 2001, 8001)]:
        if products * keys * width * 2 < 8e9:
            yield {"kind": "bmm", "product": "scores", "batch": products, "queries": 1, "keys": keys, "width": width}
            yield {"kind": "bmm", "product": "mix", "batch": products, "queries": 1, "keys": keys, "width": width}
    for products, keys, width in [(32, 128, 128), (32, 700, 128), (32, 2048, 128), (128, 512, 128), (512, 384, 128), (128, 384, 64), (1024, 128, 64), (16, 4096, 64)]:
        yield {"kind": "bmm", "product": "scores", "batch": products, "queries": keys, "keys": keys, "width": width}
        yield {"kind": "bmm", "product": "mix", "batch": products, "queries": keys, "keys": keys, "width": width}


def gemm_cases():
    shapes = [(4096, 100000, 700), (4096, 100000, 704), (4096, 100000, 701), (4096, 4096, 4096), (2048, 8192, 4104), (8192, 8192, 8192),
              (1000, 5000, 1000), (1000, 5000, 1001), (512, 14336, 4096), (16, 4096, 4096), (64, 4096, 14336), (128, 6144, 4096),
              (4096, 1001, 4096), (2048, 2050, 2046)]
    for dtype in ("float16", "bfloat16"):
        for m, n, k in shapes:
            for layout in ("nk", "kn"):
                yield {"kind": "gemm", "dtype": dtype, "m": m, "n": n, "k": k, "layout": layout}


TYPES = ("float16", "tf32", "float32", "int8", "fp8_tensor", "fp8_row", "fp8_block")
# (M, weights [N, K])
TYPED_ROWS = (32, 128, 384, 1024, 2304, 4096, 8192)
TYPED_WEIGHTS = ((1024, 1024), (4096, 4096), (6144, 4096), (4096, 14336), (8192, 8192), (28672, 4096))


DRAWN_TYPES = ("int8", "fp8_block", "fp8_row", "tf32", "float32")


def drawn_cases():
    """Shapes that nobody chose: twelve of each type, sizes drawn log-uniformly, those above 2 ms or so drawn again."""
    draw = random.Random(20261125)
    between = lambda low, high, step: step * int(math.exp(draw.uniform(math.log(low / step), math.log(high / step + 1))))
    for dtype in DRAWN_TYPES:
        count = 0
        while count < 12:
            m, n, k = between(32, 8192, 8), between(1024, 16384, 128), between(1024, 16384, 128)
            if 2 * m * n * k < (5e10 if dtype == "float32" else 8e11):
                count += 1
                yield {"kind": "drawn", "dtype": dtype, "m": m, "n": n, "k": k}


def types_cases():
    for n, k in TYPED_WEIGHTS:
        for m in TYPED_ROWS:
            for dtype in TYPES:
                if 2 * m * n * k < (2e11 if dtype == "float32" else 1.2e12):
                    yield {"kind": "types", "dtype": dtype, "m": m, "n": n, "k": k}
    for batch, m, n, k in [(8, 1024, 1024, 1024), (32, 512, 512, 128), (64, 256, 2048, 128), (16, 2048, 1408, 2048), (128, 128, 1536, 2048),
                           (4, 4096, 4096, 1024)]:
        yield {"kind": "types", "dtype": "bfloat16", "batch": batch, "m": m, "n": n, "k": k}


CASES = {"types": types_cases, "drawn": drawn_cases, "grouped_mm": grouped_cases, "sdpa": sdpa_cases, "bmm": bmm_cases, "gemm": gemm_cases}


class Maker:
    """Makes a case's action; keeps the last expert weights, which take longest to fill."""

    def __init__(self, device):
        self.device, self.kept, self.weights = device, None, None

    def normal(self, *shape, dtype=torch.bfloat16):
        return torch.randn(*shape, device=self.device, dtype=dtype)

    def grouped_mm(self, c):
        key = (c["experts"], c["n"], c["k"])
        if self.kept != key:
            self.weights = None
            self.kept, self.weights = key, self.normal(*key)
        x = self.normal(sum(c["rows"]), c["k"])
        ends = torch.tensor(c["rows"], device=self.device).cumsum(0).to(torch.int32)
        weights = self.weights.transpose(-2, -1)
        return lambda: torch._grouped_mm(x, weights, offs=ends)

    def sdpa(self, c):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        backend = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[c["backend"]]
        q = self.normal(c["batch"], c["queries"], c["heads"], c["width"]).transpose(1, 2)
        k, v = (self.normal(c["batch"], c["heads"], c["keys"], c["width"]) for _ in range(2))

        def action():
            with sdpa_kernel([backend]):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=c["causal"])
        return action

    def bmm(self, c):
        if c["product"] == "scores":
            a, b = self.normal(c["batch"], c["queries"], c["width"]), self.normal(c["batch"], c["keys"], c["width"]).transpose(1, 2)
        else:
            a, b = self.normal(c["batch"], c["queries"], c["keys"]), self.normal(c["batch"], c["keys"], c["width"])
        return lambda: torch.bmm(a, b)

    def types(self, c):
        dtype, m, n, k = c["dtype"], c["m"], c["n"], c["k"]
        if dtype == "bfloat16":
            a, b = self.normal(c["batch"], m, k), self.normal(c["batch"], n, k).transpose(1, 2)
            return lambda: torch.bmm(a, b)
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        if dtype in ("float16", "float32", "tf32"):
            made = torch.float16 if dtype == "float16" else torch.float32
            x = self.normal(k, m, dtype=made).t() if c.get("layout") == "km" else self.normal(m, k, dtype=made)
            w = self.normal(k, n, dtype=made) if c.get("layout") in ("kn", "km") else self.normal(n, k, dtype=made).t()
            return lambda: torch.matmul(x, w)
        if dtype == "int8":
            x, w = (torch.randint(-127, 128, (rows, k), device=self.device, dtype=torch.int8) for rows in (m, n))
            w = w.t()
            return lambda: torch._int_mm(x, w)
        x, w = self.normal(m, k).to(torch.float8_e4m3fn), self.normal(n, k).to(torch.float8_e4m3fn).t()
        ones = {"device": self.device, "dtype": torch.float32}
        if dtype == "fp8_tensor":
            scales = [(torch.ones((), **ones), torch.ones((), **ones))]
        elif dtype == "fp8_row":
            scales = [(torch.ones(m, 1, **ones), torch.ones(1, n, **ones))]
        else:  # scales of the rows lie along M; which order those of the weights have goes with the release
            rows = torch.ones(k // 128, m, **ones).t()
            scales = [(rows, torch.ones(n // 128, k // 128, **ones).t()), (rows, torch.ones(k // 128, n // 128, **ones))]
        for number, (of_x, of_w) in enumerate(scales):
            def action(of_x=of_x, of_w=of_w):
                return torch._scaled_mm(x, w, scale_a=of_x, scale_b=of_w, out_dtype=torch.bfloat16, use_fast_accum=dtype != "fp8_block")
            try:
                action()
                return action
            except Exception:
                if number + 1 == len(scales):
                    raise

    drawn = types

    def gemm(self, c):
        dtype = getattr(torch, c["dtype"])
        x = self.normal(c["m"], c["k"], dtype=dtype)
        w = self.normal(c["n"], c["k"], dtype=dtype).t() if c["layout"] == "nk" else self.normal(c["k"], c["n"], dtype=dtype)
        return lambda: torch.matmul(x, w)


def runs_of(events):
    """The launches of each run: what stands between a write of signed bytes and one of 16-bit integers."""
    runs, inside = [], False
    for event in sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"]):
        if "FillFunctor<signed char>" in event["name"]:
            runs.append([])
            inside = True
        elif "FillFunctor<short>" in event["name"]:
            inside = False
        elif inside:
            runs[-1].append(event)
    return runs


def sweep(flush, i, dirty):
    """Clears L2; ends with a launch that begins a run (`runs_of`)."""
    if dirty:
        flush.fill_(i)
    else:
        flush.view(torch.int64).sum()
        flush[:1024].fill_(i)


def measured(action, flush, device, dirty):
    activity = torch.profiler.ProfilerActivity.CUDA if device == "cuda" else torch.profiler.ProfilerActivity.CPU
    end = torch.empty(64, device=device, dtype=torch.int16)
    action()
    action()
    with torch.profiler.profile(activities=[activity]) as profile:
        for i in range(REPEATS):
            sweep(flush, i, dirty)
            action()
            end.fill_(i)
        if device == "cuda":
            torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        with open(file.name, encoding="utf-8", errors="replace") as text:
            runs = runs_of(json.load(text)["traceEvents"])
    launches = []
    for i, first in enumerate(runs[0] if runs else []):
        times = [run[i]["dur"] for run in runs if len(run) == len(runs[0])]
        args = first["args"]
        launches.append([first["name"][:400], args.get("grid"), args.get("block"), round(statistics.median(times), 3),
                         round(min(times), 3), round(max(times), 3)])
    return {"runs": len(runs), "launches": launches}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--kinds", default=",".join(CASES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--until", type=float, default=1e9, help="begin no case after this many seconds")
    parser.add_argument("--dirty", action="store_true", help="clear L2 by writing")
    parser.add_argument("--most", type=int, default=1 << 30, help="cases of a kind")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(11)
    facts = {"torch": torch.__version__, "sweep": "written" if args.dirty else "read", "date": time.strftime("%Y-%m-%d", time.gmtime())}
    if args.device == "cuda":
        import pynvml
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        facts.update(gpu=torch.cuda.get_device_name(0), driver=pynvml.nvmlSystemGetDriverVersion(), uuid=pynvml.nvmlDeviceGetUUID(handle),
                     cap_W=pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3)
    flush = torch.empty(256 << 20 if args.device == "cuda" else 1 << 10, device=args.device, dtype=torch.int8)
    maker, begin = Maker(args.device), time.perf_counter()
    with open(os.path.join(args.out, "operators.jsonl"), "w", encoding="utf-8") as out, torch.no_grad():
        out.write(json.dumps(facts) + "\n")
        for kind in args.kinds.split(","):
            for number, case in enumerate(CASES[kind]()):
                if time.perf_counter() - begin > args.until or number >= args.most:
                    break
                try:
                    case.update(measured(getattr(maker, kind)(case), flush, args.device, args.dirty))
                except Exception as error:  # a backend that refuses a shape is a finding, not an end
                    case["error"] = str(error).splitlines()[0][:300]
                out.write(json.dumps(case) + "\n")
                out.flush()


if __name__ == "__main__":
    main()
