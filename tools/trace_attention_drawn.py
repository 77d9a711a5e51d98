#!/usr/bin/env python3
"""Times each launch of scaled_dot_product_attention, forward and backward, at drawn sizes, kernel by kernel with its grid.

    tools/trace_attention_drawn.py draw --seed N --out POINTS.csv [--sweep] [--wide] [--any]
    tools/trace_attention_drawn.py trace --points POINTS.csv --out FILE.jsonl [--seconds S] [--device cpu]

`draw` writes B, Hq, Hkv, D, S, causal, type, by (cudnn, flash, efficient), in the order in which they are to be run; `--sweep`
puts grids of heads x sequences that do not fill the SMs before what is drawn, `--wide` draws more widths and types of the
memory-efficient kernels, and adds `bias`: 0 none, 1 a matrix for each head and sequence added to the scores, 2 one for all;
`--any` draws lengths of any number, and few heads; `--deterministic` asks for gradients whose sums are taken in one order.
`trace` writes a line a point: kernels of both passes, each [name, grid, block, shared memory, launches a call, median, least,
largest in microseconds] of three calls after one, and the registers of a thread by kernel. Before each pass 256 MiB are read,
so that L2 holds none of its operands and nothing waits to be written back. Operands lie as projections leave them, [B, S, H, D].
"""
import argparse
import csv
import json
import os
import random
import re
import statistics
import subprocess
import tempfile
import time

COLUMNS = ("B", "Hq", "Hkv", "D", "S", "causal", "type", "by", "bias", "deterministic")
CALLS, CHUNK = 3, 20


# ---------------------------------------------------------------------------------------------- sizes
def swept():
    """Few heads x few sequences: from one to some tens of blocks of keys more than there are SMs."""
    pairs = [(1, 4), (1, 8), (2, 8), (1, 12), (3, 8), (4, 8), (4, 12), (4, 16), (4, 17), (6, 16), (8, 16)]
    for width in (64, 128):
        for causal in (0, 1):
            for batch, heads in pairs:
                for tokens in (512, 1024, 2048, 4096):
                    yield batch, heads, heads, width, tokens, causal, "bf16", "cudnn"


def drawn(rng, by, count):
    widths = {"cudnn": (64, 64, 64, 128, 128, 128, 96, 80, 256), "flash": (64, 64, 128, 128, 96, 192, 256),
              "efficient": (64, 64, 128, 96)}[by]
    for _ in range(count):
        heads = rng.choice((4, 8, 9, 12, 14, 16, 20, 24, 32, 40, 64))
        groups = [g for g in (1, 1, 1, 2, 3, 4, 7, 8, 9, heads) if heads % g == 0] if by != "efficient" else [1]
        tokens = rng.choice((512, 512, 1024, 1024, 2048, 2048, 4096, 8192, rng.randrange(500, 4000)))
        batch = rng.choice([b for b in (1, 1, 2, 3, 4, 5, 6, 8, 16, 32) if b * tokens <= 16384])
        kind = rng.choice(("bf16", "fp32")) if by == "efficient" else "bf16"
        yield batch, heads, heads // rng.choice(groups), rng.choice(widths), tokens, int(rng.random() < 0.6), kind, by


def drawn_wide(rng, by, count):
    """Even over widths; no point takes more than some ten milliseconds."""
    widths = (32, 64, 64, 80, 96, 128, 128, 192, 256) if by == "efficient" else (32, 64, 96, 128, 192, 256)
    found = 0
    while found < count:
        heads = rng.choice((4, 5, 8, 12, 16, 20, 32, 40, 64))
        tokens = rng.choice((512, 768, 1024, 1500, 2048, 3000, 4096, 8192))
        groups = [g for g in (1, 1, 1, 2, 4, 8, heads) if heads % g == 0] if by == "flash" else [1]
        batch, width = rng.choice((1, 1, 2, 3, 4, 8)), rng.choice(widths)
        if batch * heads * tokens * tokens * width > (3e10 if by == "efficient" else 1e11):
            continue
        found += 1
        kind = rng.choice(("bf16", "fp16", "fp32")) if by == "efficient" else "bf16"
        bias = rng.choice((0, 0, 0, 1, 2)) if by == "efficient" and batch * heads * tokens * tokens < 1e9 else 0
        causal = 0 if bias else int(rng.random() < 0.5)
        yield batch, heads, heads // rng.choice(groups), width, tokens, causal, kind, by, bias


def drawn_any(rng, by, count):
    """Lengths of any number, few to many; every third one whole blocks of 128."""
    widths = {"cudnn": (64, 64, 128, 128, 96, 192, 256), "flash": (32, 64, 64, 96, 128, 128, 192, 256), "efficient": (64, 128)}[by]
    found = 0
    while found < count:
        heads, batch, width = rng.choice((2, 4, 8, 12, 16, 24, 32, 40)), rng.choice((1, 1, 1, 2, 3, 4, 8)), rng.choice(widths)
        tokens = int(round(2 ** rng.uniform(7, 12.5)))
        if rng.random() < 1 / 3:
            tokens = (tokens + 127) // 128 * 128
        groups = [g for g in (1, 1, 2, 4, heads) if heads % g == 0] if by != "efficient" else [1]
        if batch * heads * tokens * tokens * width > 5e10:
            continue
        found += 1
        yield batch, heads, heads // rng.choice(groups), width, tokens, int(rng.random() < 0.5), "bf16", by, 0


def draw(args):
    rng = random.Random(args.seed)
    points = [(*p, 0) for p in swept()] if args.sweep else []
    for by in ("cudnn", "flash", "efficient"):
        count = getattr(args, by)
        if args.any:
            points += drawn_any(rng, by, count)
        else:
            points += list(drawn_wide(rng, by, count)) if args.wide else [(*p, 0) for p in drawn(rng, by, count)]
    points = list(dict.fromkeys(points))
    rng.shuffle(points)
    with open(args.out, "w", newline="", encoding="ascii") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((*p, int(args.deterministic)) for p in points)


# ---------------------------------------------------------------------------------------------- measuring
def prepare(point, device):
    """What runs one call of the point, both passes, each behind a read of 256 MiB; None where no kernel takes it."""
    import torch
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backend = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
               "efficient": SDPBackend.EFFICIENT_ATTENTION}[point["by"]] if device == "cuda" else SDPBackend.MATH
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[point["type"]]
    batch, tokens, width = point["B"], point["S"], point["D"]

    def operand(heads):
        return torch.randn(batch, tokens, heads, width, device=device, dtype=dtype).transpose(1, 2)
    query, key, value = (operand(point[h]).requires_grad_() for h in ("Hq", "Hkv", "Hkv"))
    upstream, bias = operand(point["Hq"]), point.get("bias", 0)
    added = None
    if bias:
        own = (batch, point["Hq"]) if bias == 1 else (1, 1)
        added = torch.randn(*own, tokens, tokens, device=device, dtype=dtype)

    def once(flush):
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.use_deterministic_algorithms(bool(point.get("deterministic", 0)))
        flush.max()
        with sdpa_kernel([backend]):
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=added,
                                                            is_causal=bool(point["causal"]),
                                                            enable_gqa=point["Hq"] != point["Hkv"])
        flush.max()
        torch.autograd.grad(mixed, (query, key, value), upstream)
    return once


def kernels_of(profile):
    """The chunk's kernels in the order of their starts: name, grid, block, shared memory, microseconds."""
    path = os.path.join(tempfile.mkdtemp(), "trace.json")
    profile.export_chrome_trace(path)
    with open(path, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    os.unlink(path)
    found = [e for e in events if e.get("cat") in ("kernel", "gpu_memset", "gpu_memcpy")]
    return [(e["name"], e["args"].get("grid"), e["args"].get("block"), e["args"].get("shared memory"), e["dur"],
             e["args"].get("registers per thread")) for e in sorted(found, key=lambda e: e["ts"])]


def short_name(name):
    return re.sub(r"\(.*", "", name.replace("(anonymous namespace)", ""))[:160]


def registers_of(passes):
    return {short_name(kernel[0]): kernel[5] for one in passes for kernel in one if kernel[5]}


def is_read(name):
    return "reduce_kernel" in name and "signed char" in name


def passes_of(kernels):
    """Kernels between two reads of 256 MiB (a read is one launch or two in a row)."""
    passes, before = [], False
    for kernel in kernels:
        read = is_read(kernel[0])
        if read and not before:
            passes.append([])
        if not read and passes:
            passes[-1].append(kernel)
        before = read
    return passes


def summed(calls):
    """By kernel and grid: launches a call, median, least and largest duration."""
    found = {}
    for call in calls:
        for name, grid, block, shared, us, _ in call:
            found.setdefault((short_name(name), str(grid)), [grid, block, shared, []])[3].append(us)
    return [[name, grid, block, shared, len(us) / len(calls), round(statistics.median(us), 3), round(min(us), 3),
             round(max(us), 3)] for (name, _), (grid, block, shared, us) in found.items()]


def trace(args):
    import torch
    began = time.perf_counter()
    with open(args.points, encoding="ascii") as f:
        points = [{k: v if k in ("type", "by") else int(v or 0) for k, v in row.items()} for row in csv.DictReader(f)]
    torch.manual_seed(7)
    flush = torch.ones(1 << 28, dtype=torch.int8, device=args.device)
    machine = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "gpu": args.device}
    if args.device == "cuda":
        fields = "name,uuid,driver_version,power.limit,clocks.sm"
        told = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], stdout=subprocess.PIPE,
                              text=True, check=False).stdout
        machine.update(gpu=torch.cuda.get_device_name(), smi=told.strip(), date=time.strftime("%Y-%m-%d %H:%M", time.gmtime()))
    with open(args.out, "w", encoding="utf-8") as out:
        out.write(json.dumps({"machine": machine}) + "\n")
        for at in range(0, len(points), CHUNK):
            if time.perf_counter() - began > args.seconds:
                break
            trace_chunk(points[at:at + CHUNK], flush, out)
            out.flush()


def trace_chunk(points, flush, out):
    import torch
    ready = []
    for point in points:
        try:
            once = prepare(point, flush.device.type)
            once(flush)
            ready.append((point, once))
        except Exception as error:  # the others go on
            out.write(json.dumps({**point, "error": f"{type(error).__name__}: {str(error)[:200]}"}) + "\n")
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _, once in ready:
            for _ in range(CALLS):
                once(flush)
        torch.cuda.synchronize()
    passes = passes_of(kernels_of(profile))
    if len(passes) != 2 * CALLS * len(ready):
        out.write(json.dumps({"error": f"{len(passes)} passes of {len(ready)} points"}) + "\n")
        return
    for i, (point, _) in enumerate(ready):
        mine = passes[2 * CALLS * i:2 * CALLS * (i + 1)]
        out.write(json.dumps({**point, "forward": summed(mine[0::2]), "backward": summed(mine[1::2]),
                              "registers": registers_of(mine)}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("--seed", type=int, required=True)
    drawing.add_argument("--out", required=True)
    drawing.add_argument("--sweep", action="store_true")
    drawing.add_argument("--wide", action="store_true")
    drawing.add_argument("--any", action="store_true")
    drawing.add_argument("--deterministic", action="store_true")
    drawing.add_argument("--cudnn", type=int, default=200)
    drawing.add_argument("--flash", type=int, default=70)
    drawing.add_argument("--efficient", type=int, default=50)
    drawing.set_defaults(run=draw)
    tracing = commands.add_parser("trace")
    tracing.add_argument("--points", required=True)
    tracing.add_argument("--out", required=True)
    tracing.add_argument("--seconds", type=float, default=70)
    tracing.add_argument("--device", default="cuda")
    tracing.set_defaults(run=trace)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
