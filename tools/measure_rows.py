#!/usr/bin/env python3
"""Times the row-wise kernels of serving stacks at sizes drawn at random: FlashInfer's and vLLM's norms, gated units and rotations,
FlashInfer's append to a paged cache, PyTorch's embedding and argmax. From a cold L2 and from a warm one, by PyTorch's profiler.

    tools/measure_rows.py --list first > CASES.jsonl
    tools/measure_rows.py --cases CASES.jsonl --flashinfer librows.so --vllm librows_vllm.so --out FOLDER [--until SECONDS]
    ncu --profile-from-start off --nvtx --clock-control none --csv --page raw --log-file LOG --metrics METRICS \\
        python3 tools/measure_rows.py --cases CASES.jsonl --flashinfer librows.so --vllm librows_vllm.so --count 40

The libraries are built from copies of the packages (tools/measure_rows.cu, tools/measure_rows_vllm.cu). One JSON object a line: `kind`,
`library`, `dtype`, sizes; FOLDER/rows.jsonl adds `launches` (name, grid, block, median, least, largest microseconds, registers, shared
memory), `warm_us` (the same operands again, medians summed) and `error_of`, the largest difference from PyTorch's answer in fp32 as a
share of that answer's largest element. A case runs 7 times cold, each behind a read of 256 MiB, and 7 times warm. Values are normal.
"""
import argparse
import ctypes
import json
import os
import random
import time

from trace_products import between, count_one, launches_of, listed, runs_in

REPEATS, GROUP = 7, 40
SEEDS = {"first": 20270201, "second": 20270202}
KINDS = {"first": {"rmsnorm": 55, "add_rmsnorm": 60, "head_norm": 24, "swiglu": 60, "rope": 56, "append": 30, "argmax": 44, "embedding": 36},
         "second": {"rmsnorm": 20, "add_rmsnorm": 20, "head_norm": 10, "swiglu": 20, "rope": 20, "append": 10, "argmax": 14, "embedding": 10}}
BOTH = ("rmsnorm", "add_rmsnorm", "head_norm", "swiglu", "rope")
WIDTHS = (1024, 2048, 2560, 2880, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 12288, 16384)
GATED = (768, 1408, 2048, 2880, 3584, 5504, 7168, 8192, 9728, 11008, 13824, 14336, 14784, 18944, 28672)
HEADS = ((32, 8, 128), (64, 8, 128), (28, 4, 128), (16, 16, 128), (40, 8, 128), (14, 2, 64), (32, 32, 64), (24, 8, 128), (16, 8, 256),
         (96, 8, 128), (8, 1, 128), (4, 1, 128), (12, 2, 128), (40, 40, 128), (64, 8, 64))
VOCABULARIES = (32000, 32768, 50257, 102400, 128256, 129280, 151936, 152064, 201088, 256000, 262144)
MOST = 1.0e9  # bytes that a case moves


def width_of(draw, often, step):
    """One of a model, or any; one in ten has rows of no whole 16 bytes where `step` is 1."""
    if draw.random() < 0.5:
        return draw.choice(often)
    if step == 1 and draw.random() < 0.2:
        return 2 * between(draw, 512, 4096) + draw.choice((0, 0, 1))
    return between(draw, 1024, 16384, draw.choice((8, 64, 64)))


def sizes(draw, kind):
    tokens = between(draw, 1, 32768)
    if kind in ("rmsnorm", "add_rmsnorm"):
        return {"rows": tokens, "cols": width_of(draw, WIDTHS, 1)}
    if kind == "head_norm":
        return {"rows": tokens * draw.choice((1, 4, 8, 32, 40)), "cols": draw.choice((64, 128, 128, 192, 256, 512))}
    if kind == "swiglu":
        return {"rows": tokens, "cols": width_of(draw, GATED, 8)}
    if kind in ("rope", "append"):
        q, k, d = draw.choice(HEADS)
        case = {"tokens": tokens, "q_heads": q, "kv_heads": k, "D": d, "long": int(tokens > 256 or draw.random() < 0.3)}
        return case | ({"page": draw.choice((16, 64))} if kind == "append" else {})
    if kind == "argmax":
        return {"rows": between(draw, 1, 1024), "cols": draw.choice(VOCABULARIES)}
    return {"rows": tokens, "cols": draw.choice(WIDTHS), "table": draw.choice(VOCABULARIES)}


def bytes_of(kind, c, element):
    if kind in ("rope", "append"):
        return 4 * c["tokens"] * (c["q_heads"] + 2 * c["kv_heads"]) * c["D"]
    if kind == "embedding" and c["table"] * c["cols"] > 1.2e9:
        return 2 * MOST
    passes = {"rmsnorm": 2, "head_norm": 2, "add_rmsnorm": 4, "swiglu": 3, "argmax": 1, "embedding": 2}[kind]
    return passes * c["rows"] * c["cols"] * element


def cases(which):
    draw = random.Random(SEEDS[which])
    for kind, count in KINDS[which].items():
        while count:
            dtype = draw.choice(("bf16", "bf16", "fp16", "fp32") if kind == "argmax" else ("bf16", "bf16", "fp16"))
            case = sizes(draw, kind)
            if bytes_of(kind, case, 4 if dtype == "fp32" else 2) > MOST:
                continue
            count -= 1
            for library in ("flashinfer", "vllm") if kind in BOTH else ("flashinfer" if kind == "append" else "torch",):
                yield {"kind": kind, "library": library, "dtype": dtype, **case}


class Maker:
    """Makes a case's action, and a check of it."""

    def __init__(self, libraries):
        self.libraries = {name: ctypes.CDLL(os.path.abspath(path)) for name, path in libraries.items()}
        self.table = None

    def normal(self, *shape, dtype):
        import torch
        return torch.randn(*shape, device="cuda", dtype=dtype)

    def call(self, c, name, *args):
        import torch
        entry = getattr(self.libraries[c["library"]], "rows_" + name)
        entry.restype = ctypes.c_int
        passed = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else ctypes.c_int(a) for a in args]
        passed = [ctypes.c_int(c["dtype"] == "bf16"), *passed, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)]
        kept = args

        def action():
            error = entry(*passed)
            if error:
                raise RuntimeError(f"CUDA error {error}, {len(kept)} arguments")
        return action

    def make(self, c):
        import torch
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[c["dtype"]]
        return getattr(self, c["kind"])(c, dtype)

    def rmsnorm(self, c, dtype):
        import torch
        x, w = self.normal(c["rows"], c["cols"], dtype=dtype), self.normal(c["cols"], dtype=dtype)
        y = torch.empty_like(x)
        right = lambda: torch.nn.functional.rms_norm(x.float(), (c["cols"],), w.float(), 1e-5)
        return self.call(c, "rmsnorm", x, w, y, c["rows"], c["cols"]), lambda: (right(), lambda: y)

    head_norm = rmsnorm

    def add_rmsnorm(self, c, dtype):
        import torch
        x, r = self.normal(c["rows"], c["cols"], dtype=dtype), self.normal(c["rows"], c["cols"], dtype=dtype)
        w = self.normal(c["cols"], dtype=dtype)
        right = lambda: torch.nn.functional.rms_norm(x.float() + r.float(), (c["cols"],), w.float(), 1e-5)
        return self.call(c, "add_rmsnorm", x, r, w, c["rows"], c["cols"]), lambda: (right(), lambda: x)

    def swiglu(self, c, dtype):
        import torch
        x, n = self.normal(c["rows"], 2 * c["cols"], dtype=dtype), c["cols"]
        y = torch.empty(c["rows"], n, device="cuda", dtype=dtype)
        right = lambda: torch.nn.functional.silu(x[:, :n].float()) * x[:, n:].float()
        return self.call(c, "swiglu", y, x, c["rows"], n), lambda: (right(), lambda: y)

    def places(self, c, integer):
        """Prompts: one sequence. Else a token of each of many."""
        import torch
        if c["long"]:
            return torch.arange(c["tokens"], device="cuda", dtype=integer)
        return torch.randint(0, 8192, (c["tokens"],), device="cuda", dtype=integer)

    def rope(self, c, dtype):
        import torch
        t, hq, hk, d = c["tokens"], c["q_heads"], c["kv_heads"], c["D"]
        x = self.normal(t, hq + 2 * hk, d, dtype=dtype)
        flash = c["library"] == "flashinfer"
        at = self.places(c, torch.int32 if flash else torch.int64)
        angle = torch.arange(32768, device="cuda")[:, None] * 10000.0 ** (-torch.arange(0, d, 2, device="cuda") / d)
        table = torch.cat((angle.cos(), angle.sin()), 1).to(torch.float32 if flash else dtype).contiguous()

        def right():
            cos, sin = (table[at.long()].float()[:, None, part] for part in (slice(0, d // 2), slice(d // 2, d)))
            one, two = x[..., :d // 2].float(), x[..., d // 2:].float()
            turned = torch.cat((one * cos - two * sin, two * cos + one * sin), -1)
            turned[:, hq + hk:] = x[:, hq + hk:].float()
            return turned
        return self.call(c, "rope", x, x[:, hq:], table, at, t, hq, hk, d), lambda: (right(), lambda: x)

    def append(self, c, dtype):
        import torch
        t, hq, hk, d, page = c["tokens"], c["q_heads"], c["kv_heads"], c["D"], c["page"]
        x = self.normal(t, hq + 2 * hk, d, dtype=dtype)
        at = self.places(c, torch.int32)
        batch = 1 if c["long"] else t
        lengths = torch.tensor([t], device="cuda") if c["long"] else at + 1
        each = (lengths + page - 1) // page
        begins = torch.zeros(batch + 1, device="cuda", dtype=torch.int32)
        begins[1:] = each.cumsum(0)
        total = int(begins[-1])
        pages = torch.randperm(total, device="cuda").to(torch.int32)
        last = ((lengths - 1) % page + 1).to(torch.int32)
        of = torch.zeros(t, device="cuda", dtype=torch.int32) if c["long"] else torch.arange(t, device="cuda", dtype=torch.int32)
        cache = [torch.empty(total, page, hk, d, device="cuda", dtype=dtype) for _ in range(2)]
        slot = (pages[(begins[of.long()] + at // page).long()].long(), (at % page).long())
        action = self.call(c, "append", cache[0], cache[1], pages, begins, last, x[:, hq:], x[:, hq + hk:], of, at, t, batch, hk, d, page,
                           (hq + 2 * hk) * d)
        kept = (x, cache)
        return action, lambda: (kept[0][:, hq + hk:].float(), lambda: cache[1][slot])

    def argmax(self, c, dtype):
        import torch
        x = self.normal(c["rows"], c["cols"], dtype=dtype)
        return lambda: torch.argmax(x, dim=-1), None

    def embedding(self, c, dtype):
        import torch
        key = (c["table"], c["cols"], dtype)
        if self.table is None or self.table[0] != key:
            self.table = None
            self.table = (key, self.normal(c["table"], c["cols"], dtype=dtype))
        ids = torch.randint(0, c["table"], (c["rows"],), device="cuda")
        table = self.table[1]
        return lambda: torch.nn.functional.embedding(ids, table), None


def checked(case, action, check):
    """The first call, and how far it is from what PyTorch has in fp32."""
    if check is None or case.get("rows", case.get("tokens")) > 4096:
        action()
        return
    right, answer = check()
    action()
    case["error_of"] = float("%.3g" % ((answer().float() - right).abs().max() / right.abs().max()).item())


def run_group(group, maker, flush, trace):
    import torch
    end = torch.empty(64, device="cuda", dtype=torch.int16)
    ran = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for case in group:
            try:
                action, check = maker.make(case)
                checked(case, action, check)
                action()
            except Exception as error:  # a shape that is refused is a finding, not an end
                case["error"] = str(error).splitlines()[0][:300]
                continue
            for i in range(REPEATS):
                trace.sweep(flush, i, False)
                action()
                end.fill_(i)
            for i in range(REPEATS):
                action()
                flush[:1024].fill_(i)
                action()
                end.fill_(i)
            ran.append(case)
            del action, check
        torch.cuda.synchronize()
    runs = runs_in(profile, trace)
    for case in ran:
        mine, runs = runs[:2 * REPEATS], runs[2 * REPEATS:]
        case["launches"] = launches_of(mine[:REPEATS])
        case["warm_us"] = round(sum(launch[3] for launch in launches_of(mine[REPEATS:])), 3)
    if runs:
        raise SystemExit("runs are left over: a marker was not found")


def count(every, maker, step):
    for case in every[::step]:
        count_one(case, maker.make(case)[0])


def measure(args, maker):
    import pynvml
    import torch

    import trace_operators as trace
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    facts = {"torch": torch.__version__, "built_from": args.built_from, "sweep": "read",
             "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "gpu": torch.cuda.get_device_name(0),
             "driver": pynvml.nvmlSystemGetDriverVersion(), "uuid": pynvml.nvmlDeviceGetUUID(handle),
             "cap_W": pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3}
    flush = torch.empty(256 << 20, device="cuda", dtype=torch.int8)
    begin, every = time.perf_counter(), listed(args.cases)
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "rows.jsonl"), "w", encoding="utf-8") as out:
        out.write(json.dumps(facts) + "\n")
        for first in range(0, len(every), GROUP):
            if time.perf_counter() - begin > args.until:
                break
            group = every[first:first + GROUP]
            run_group(group, maker, flush, trace)
            for case in group:
                out.write(json.dumps(case) + "\n")
            out.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", choices=SEEDS)
    parser.add_argument("--cases")
    parser.add_argument("--flashinfer")
    parser.add_argument("--vllm")
    parser.add_argument("--built-from", default="", help="the packages and releases that the libraries were built from")
    parser.add_argument("--out")
    parser.add_argument("--count", type=int, help="call every so manieth case once, for ncu")
    parser.add_argument("--until", type=float, default=1e9, help="begin no group after this many seconds")
    args = parser.parse_args()
    if args.list:
        for case in cases(args.list):
            print(json.dumps(case))
        return
    import torch
    torch.manual_seed(11)
    maker = Maker({"flashinfer": args.flashinfer, "vllm": args.vllm})
    with torch.no_grad():
        if args.count:
            count(listed(args.cases), maker, args.count)
        else:
            measure(args, maker)


if __name__ == "__main__":
    main()
