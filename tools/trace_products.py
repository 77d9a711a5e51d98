#!/usr/bin/env python3
"""Times products of PyTorch at sizes drawn at random, in all types, each from a cold L2: kernels' names, grids, registers,
shared memory and times, by PyTorch's profiler. The cases are made as tools/trace_operators.py makes them.

    tools/trace_products.py --list first > CASES.jsonl
    tools/trace_products.py --cases CASES.jsonl --out FOLDER [--until SECONDS]
    ncu --profile-from-start off --nvtx --clock-control none --csv --page raw --log-file LOG --metrics METRICS \\
        python3 tools/trace_products.py --cases CASES.jsonl --count

--list: the cases of a draw (first to fifteenth), one JSON object a line. `set` says what for: `train` (sizes that the project's rule
holds out are drawn again), `heldout` (drawn by another seed; all of them are held out), `sweep` (training too: one to four
turns of the SMs at six depths, from a cold L2 and from a warm one; of the first draw alone). --count: one call of each case,
marked by its line, for the profiler. FOLDER/products.jsonl: each case with its launches. Each case runs REPEATS times; before
each, 256 MiB are read (trace_operators.sweep). Cases share a profile in groups, of which a run begins and ends with a marker.
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
import zlib

REPEATS, GROUP = 7, 36
SIDES = ("train", "heldout")
SEEDS = {"first": (20261201, 20261202), "second": (20261203, 20261204), "third": (20261215, 20261216),
         "fourth": (20261217, 20261218), "fifth": (20261219, 20261220), "sixth": (20261221, 20261222), "seventh": (20261223, 20261224),
         "eighth": (20261225, 20261226), "ninth": (20261227, 20261228), "tenth": (20261229, 20261230),
         "eleventh": (20261231, 20270101), "twelfth": (20270102, 20270103),
         "thirteenth": (20270104, 20270105), "fourteenth": (20270106, 20270107),
         "fifteenth": (20270108, 20270109)}
# cases of a type: for training, held out
EACH = {"first": {"int8": (80, 28), "tf32": (80, 28), "float32": (60, 28), "fp8_row": (70, 28), "fp8_block": (70, 28), "fp8_tensor": (40, 28),
                  "float16": (40, 28), "bfloat16": (40, 28)},
        "second": {"int8": (120, 30), "tf32": (400, 40), "float32": (250, 40), "fp8_row": (60, 24), "fp8_block": (60, 24),
                   "fp8_tensor": (60, 24), "float16": (150, 30), "bfloat16": (200, 40)},
        "third": {"tf32": (500, 60), "float32": (400, 60), "fp8_tensor": (250, 40), "float16": (300, 60), "bfloat16": (150, 40)},
        "fourth": {"int8": (0, 30), "tf32": (0, 60), "float32": (0, 60), "fp8_row": (0, 30), "fp8_block": (0, 30), "fp8_tensor": (0, 40),
                   "float16": (0, 50), "bfloat16": (0, 50)},
        "fifth": {"tf32": (0, 60), "fp8_tensor": (0, 60), "float16": (0, 60), "bfloat16": (0, 80)},
        "sixth": {"tf32": (0, 80), "float16": (0, 40), "bfloat16": (0, 60)},
        "seventh": {"tf32": (0, 60), "float16": (0, 60), "bfloat16": (0, 60)},
        "eighth": {"tf32": (0, 50), "float16": (0, 60), "bfloat16": (0, 70)},
        "ninth": {"tf32": (0, 90), "float16": (0, 25), "bfloat16": (0, 20)},
        "tenth": {"float16": (0, 60), "bfloat16": (0, 50), "fp8_tensor": (0, 50)},
        "eleventh": {}, "twelfth": {}, "thirteenth": {"tf32": (0, 24)}, "fourteenth": {"tf32": (0, 40)},
        "fifteenth": {"int8": (0, 40), "tf32": (0, 40), "float32": (0, 40), "fp8_row": (0, 40), "fp8_block": (0, 40), "fp8_tensor": (0, 40),
                      "float16": (0, 40), "bfloat16": (0, 40)}}
# the same, whose rows are no whole 16 bytes
ODD = {"sixth": {"bfloat16": (0, 80), "tf32": (0, 40), "float16": (0, 20)},
       "seventh": {"bfloat16": (130, 40), "tf32": (70, 20), "float16": (40, 15)}}
# those whose rows are no whole 16 bytes along N, K or both
RAGGED = {"seventh": {"bfloat16": (200, 30), "tf32": (120, 20), "float16": (70, 15)},
          "eighth": {"bfloat16": (0, 25), "float16": (0, 10)},
          "ninth": {"bfloat16": (0, 12), "tf32": (0, 12)}}
# gradients' products: of inputs (weights [K,N]) and of weights (both operands across)
ACROSS = {"eleventh": {"tf32": (0, 120)}, "twelfth": {"tf32": (0, 120)}, "thirteenth": {"tf32": (0, 60)}, "fourteenth": {"tf32": (0, 24)},
          "fifteenth": {"tf32": (0, 20)}}
# those of up to 32 rows
FEW = {"seventh": {"bfloat16": (140, 30), "tf32": (60, 15), "float16": (60, 15)}}
# batches of small matrices
SMALL = {"seventh": (220, 40), "eighth": (0, 30), "ninth": (0, 10)}
BATCHES = {"first": (80, 32), "second": (250, 40), "third": (300, 50), "fourth": (0, 60), "fifth": (0, 80), "sixth": (0, 60), "seventh": (0, 60),
           "eighth": (0, 60),
           "ninth": (0, 12), "tenth": (0, 0), "eleventh": (0, 0), "twelfth": (0, 0), "thirteenth": (0, 50), "fourteenth": (0, 0), "fifteenth": (0, 30)}
ROWS = {"first": (80, 32), "second": (250, 40), "third": (150, 40), "fourth": (1500, 60), "fifth": (0, 60), "sixth": (0, 50), "seventh": (0, 50),
        "eighth": (0, 40),
        "ninth": (0, 12), "tenth": (0, 0), "eleventh": (0, 0), "twelfth": (0, 0), "thirteenth": (0, 12), "fourteenth": (0, 90), "fifteenth": (0, 20)}
DEPTHS = (1024, 2048, 4096, 6400, 8192, 12288)
SWEPT = ((1408, 1408), (1024, 1408), (704, 1408), (2816, 1408), (5632, 1408), (256, 8192))


def held_out(n, k, m=None, batch=None, kn=False, out=None, layout="nk"):
    """The project's rule (validate/record/held_out.cpp)."""
    layout = "kn" if kn else layout
    keys = {"K": k, "M": m, "N": n, "batch": batch, "layout": layout if layout != "nk" else None, "out": out}
    shape = ";".join(f"{key}={value}" for key, value in keys.items() if value)
    group = f"N={n};K={k}" + (f";batch={batch}" if batch else "")
    return zlib.crc32(f"gemm|{shape}".encode()) % 5 == 0 or zlib.crc32(f"gemm|group|{group}".encode()) % 10 == 0


def between(draw, low, high, step=1):
    return step * int(math.exp(draw.uniform(math.log(low / step), math.log(high / step + 1))))


def dense(draw):
    return {"m": between(draw, 32, 8192, 8), "n": between(draw, 1024, 16384, 128), "k": between(draw, 1024, 16384, 128)}


def odd(draw):
    """Heads over vocabularies that are not padded: logits, and the gradient of what they are made of."""
    m, k, n = between(draw, 16, 8192, 8), between(draw, 256, 8192, 64), between(draw, 1000, 60000, 1)
    n += n % 8 == 0
    return {"m": m, "n": n, "k": k, "layout": "nk"} if draw.random() < 0.6 else {"m": m, "n": k, "k": n, "layout": "kn"}


def ragged(draw):
    """Sizes along N, K or both whose rows begin at 2, 4 or 8 bytes of 16."""
    m, n, k = between(draw, 16, 8192, 1), between(draw, 256, 16384, 64), between(draw, 256, 16384, 64)
    step = draw.choice((1, 2, 4))
    off = lambda: step * (2 * draw.randrange(32) + 1)
    which = draw.choice(("n", "k", "both"))
    return {"m": m, "n": n + off() * (which != "k"), "k": k + off() * (which != "n"), "layout": draw.choice(("nk", "kn"))}


def across(draw):
    """Sides of layers and numbers of tokens of training, of which K is one or the other."""
    sizes = [between(draw, 512, 16384, 64), between(draw, 512, 16384, 64), between(draw, 1024, 16384, 64)]
    if draw.random() < 0.5:
        return {"m": sizes[2], "n": sizes[0], "k": sizes[1], "layout": "kn"}
    return {"m": sizes[0], "n": sizes[1], "k": sizes[2], "layout": "km"}


def few(draw):
    return {"m": between(draw, 1, 32, 1), "n": between(draw, 512, 32768, 64), "k": between(draw, 512, 16384, 64),
            "layout": draw.choice(("nk", "nk", "kn"))}


def small(draw):
    return {"product": draw.choice(("scores", "mix")), "batch": between(draw, 16, 512, 1), "queries": between(draw, 64, 512, 8),
            "keys": between(draw, 64, 512, 8), "width": between(draw, 64, 512, 8)}


def batched(draw):
    """Scores and mixes of attention written out, latent attention's absorbed products."""
    case = {"product": draw.choice(("scores", "mix")), "batch": between(draw, 4, 1024, 1), "queries": between(draw, 16, 4096, 8),
            "keys": between(draw, 64, 4096, 8), "width": draw.choice((64, 128, 192, 256, 512))}
    return case


def one_row(draw):
    return {"product": draw.choice(("scores", "mix")), "batch": between(draw, 16, 4096, 1), "queries": 1,
            "keys": 2 * between(draw, 8, 4096, 1) + 1, "width": draw.choice((64, 80, 96, 128, 192, 256))}


def sides(c):
    """As Plumbline has it: N, K, M, batch, whether weights are [K,N], the result's type."""
    if "product" not in c:
        return c["n"], c["k"], c["m"], None, c.get("layout") == "kn", "fp32" if c["dtype"] == "int8" else None
    scores = c["product"] == "scores"
    n, k = (c["keys"], c["width"]) if scores else (c["width"], c["keys"])
    return n, k, c["queries"], c["batch"], not scores, None


def fits(c):
    n, k, m, batch = sides(c)[:4]
    batch = batch or 1
    most = 5e10 if c.get("dtype") == "float32" else 6e11
    return 2 * batch * m * n * k < most and 2 * batch * (m * n + m * k + n * k) < 3e9


def drawn(which, side):
    place = SIDES.index(side)
    draw = random.Random(SEEDS[which][place])
    kinds = [({"kind": "types", "dtype": dtype}, dense, counts[place]) for dtype, counts in EACH[which].items()]
    for make, drawn_of in ((odd, ODD), (ragged, RAGGED), (across, ACROSS), (few, FEW)):
        kinds += [({"kind": "types", "dtype": dtype}, make, counts[place]) for dtype, counts in drawn_of.get(which, {}).items()]
    kinds += [({"kind": "bmm"}, small, SMALL[which][place])] if which in SMALL else []
    kinds += [({"kind": "bmm"}, batched, BATCHES[which][place]), ({"kind": "bmm"}, one_row, ROWS[which][place])]
    for base, make, count in kinds:
        while count:
            case = {"set": side, **base, **make(draw)}
            if fits(case) and (side != "train" or not held_out(*sides(case))):
                count -= 1
                yield case


def swept():
    for dtype in ("int8", "tf32", "fp8_row", "fp8_block", "float16"):
        for m, n in SWEPT:
            for k in DEPTHS:
                case = {"set": "sweep", "kind": "types", "dtype": dtype, "m": m, "n": n, "k": k}
                if not held_out(*sides(case)):
                    yield case


def cases(which):
    yield from drawn(which, "heldout")
    if which == "first":
        yield from swept()
    yield from drawn(which, "train")


def action_of(maker, case):
    if case["kind"] == "bmm":
        return maker.bmm(case)
    if case["dtype"] == "bfloat16":
        return maker.gemm({"layout": "nk", **case})
    return maker.types(case)


def launches_of(runs):
    """Of each launch of a run: name, grid, block, median, least, largest microseconds, registers, shared memory."""
    out = []
    for i, first in enumerate(runs[0] if runs else []):
        times = [run[i]["dur"] for run in runs if len(run) == len(runs[0])]
        args = first["args"]
        shared = args.get("shared memory")
        out.append([first["name"][:400], args.get("grid"), args.get("block"), round(statistics.median(times), 3), round(min(times), 3),
                    round(max(times), 3), args.get("registers per thread"), shared])
    return out


def runs_in(profile, trace):
    """The runs of a profile, each of which ended with a marker."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        with open(file.name, encoding="utf-8", errors="replace") as text:
            return trace.runs_of(json.load(text)["traceEvents"])


def run_group(group, maker, flush, trace):
    import torch
    end = torch.empty(64, device="cuda", dtype=torch.int16)
    ran = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for case in group:
            try:
                action = action_of(maker, case)
                action()
                action()
            except Exception as error:  # a shape that is refused is a finding, not an end
                case["error"] = str(error).splitlines()[0][:300]
                continue
            for i in range(REPEATS):
                trace.sweep(flush, i, False)
                action()
                end.fill_(i)
            if case["set"] == "sweep":
                for i in range(REPEATS):
                    action()
                    flush[:1024].fill_(i)
                    action()
                    end.fill_(i)
            ran.append(case)
            del action
        torch.cuda.synchronize()
    runs = runs_in(profile, trace)
    for case in ran:
        count = 2 * REPEATS if case["set"] == "sweep" else REPEATS
        mine, runs = runs[:count], runs[count:]
        case["launches"] = launches_of(mine[:REPEATS])
        if count > REPEATS:
            case["warm_us"] = round(sum(launch[3] for launch in launches_of(mine[REPEATS:])), 3)
    if runs:
        raise SystemExit("runs are left over: a marker was not found")


def listed(path):
    with open(path, encoding="utf-8") as text:
        return [json.loads(line) for line in text]


def count_one(case, action):
    """One call of it, marked by its line, for the profiler."""
    import torch
    action()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    torch.cuda.nvtx.range_push(json.dumps(case).replace(",", ";"))
    action()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    torch.cuda.profiler.stop()


def count_each(path):
    import trace_operators as trace
    maker = trace.Maker("cuda")
    for case in listed(path):
        count_one(case, action_of(maker, case))


def measure(args):
    import pynvml
    import torch

    import trace_operators as trace
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    torch.manual_seed(11)
    facts = {"torch": torch.__version__, "sweep": "read", "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
             "gpu": torch.cuda.get_device_name(0), "driver": pynvml.nvmlSystemGetDriverVersion(), "uuid": pynvml.nvmlDeviceGetUUID(handle),
             "cap_W": pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3}
    flush = torch.empty(256 << 20, device="cuda", dtype=torch.int8)
    maker, begin = trace.Maker("cuda"), time.perf_counter()
    every = listed(args.cases)
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "products.jsonl"), "w", encoding="utf-8") as out, torch.no_grad():
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
    parser.add_argument("--out")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--until", type=float, default=1e9, help="begin no group after this many seconds")
    args = parser.parse_args()
    if args.list:
        for case in cases(args.list):
            print(json.dumps(case))
    elif args.count:
        count_each(args.cases)
    else:
        measure(args)


if __name__ == "__main__":
    main()
