#!/usr/bin/env python3
"""Writes data/studies/{train,heldout,quick}.csv: which shapes `validate` measures on a card.

Shapes come from the configs in data/models (projections, heads, widths, vocabularies; prefill and decode, 1 to 16384
tokens, tensor-parallel shares) and a few awkward ones (odd sizes, tails, just over a wave of 132 SMs). The side of a
shape follows the rule of data/measurements/README.md, by its CRC32, as the program `validate` (built first) has it: a
shape that is held out among published measurements is held out here. Deterministic; the lists are fixed once measured: change them only by adding.

usage: make_studies.py [FOLDER]      (default: data/studies beside this script)
"""
import csv
import itertools
import json
import os
import sys
import zlib
from collections import defaultdict

import measurement_csv

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
MODELS = ["llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "llama-3.2-1b", "llama-3.2-3b", "llama-2-7b",
          "llama-2-13b", "qwen2-0.5b", "qwen2.5-3b", "qwen2.5-7b", "qwen2.5-72b", "qwen3-8b", "qwen3-14b", "qwen3-32b",
          "qwen3-30b-a3b", "qwen3-235b-a22b", "mistral-7b-v0.1", "mistral-nemo-12b", "mixtral-8x7b", "mixtral-8x22b",
          "gemma-2b", "gemma-2-9b", "gemma-2-27b", "gemma-3-27b", "phi-4", "tinyllama-1.1b", "olmo-2-13b",
          "bert-base-uncased", "bert-large-uncased", "gpt2-xl", "deepseek-v3"]
TOKENS = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192,
          12288, 16384]
ODD_TOKENS = [3, 7, 17, 33, 65, 100, 129, 257, 333, 500, 1000, 1025, 2047, 3000, 4097, 5000, 7777, 10000]
TYPE_BYTES = {"bf16": 2, "fp8": 1, "fp32": 4}
COLD = ("cold", "burst")

# ---------------------------------------------------------------------------------------------- the models' numbers


def first(config, *names):
    return next((config[n] for n in names if config.get(n)), None)


def read_model(name):
    with open(os.path.join(ROOT, "data", "models", name + ".json"), encoding="utf-8") as file:
        config = json.load(file)
    config = {**config, **config.get("text_config", {})}
    hidden, heads = first(config, "hidden_size", "n_embd"), first(config, "num_attention_heads", "n_head")
    return {"hidden": hidden, "heads": heads, "kv": first(config, "num_key_value_heads") or heads,
            "dim": first(config, "head_dim") or hidden // heads, "inter": first(config, "intermediate_size") or 4 * hidden,
            "moe": first(config, "moe_intermediate_size"), "vocab": config["vocab_size"],
            "experts": first(config, "num_local_experts", "num_experts", "n_routed_experts"),
            "gated": first(config, "hidden_act", "hidden_activation", "activation_function") not in ("gelu", "gelu_new"),
            "latent": config.get("kv_lora_rank"), "q_latent": config.get("q_lora_rank"), "name": name}


def projections(m):
    """(N, K) of the weight matrices of a model, whole and as tensor-parallel shares."""
    found = set()
    for tp in (1, 2, 4, 8):
        if m["latent"]:  # multi-head latent attention: down- and up-projections
            heads = m["heads"] // tp
            found |= {(m["q_latent"] + m["latent"] + 64, m["hidden"]), (heads * 192, m["q_latent"]),
                      (heads * 256, m["latent"]), (m["hidden"], heads * 128)}
        elif m["heads"] % tp == 0:
            kv = max(m["kv"] // tp, 1)
            found |= {((m["heads"] // tp + 2 * kv) * m["dim"], m["hidden"]), (m["hidden"], m["heads"] // tp * m["dim"])}
        if m["inter"] % (tp * 16) == 0:
            found |= {((2 if m["gated"] else 1) * m["inter"] // tp, m["hidden"]), (m["hidden"], m["inter"] // tp)}
        if m["vocab"] % tp == 0:
            found.add((m["vocab"] // tp, m["hidden"]))
    if m["moe"]:
        found |= {(2 * m["moe"], m["hidden"]), (m["hidden"], m["moe"])}
    return found


# ---------------------------------------------------------------------------------------------- a row


class Row:
    """One case. `flops` and `bytes` are rough: they only sort cases into classes of time."""

    def __init__(self, op, dtype, shape, flops, moved, extra=""):
        self.op, self.dtype, self.shape, self.flops, self.bytes, self.extra = op, dtype, shape, flops, moved, extra
        self.text = ";".join(f"{k}={v}" for k, v in shape.items())

    def crc(self, salt=""):
        return zlib.crc32(f"{salt}|{self.op}|{self.dtype}|{self.text}".encode("ascii"))

    def seconds(self):
        return max(2e-6, self.bytes / 4.2e12, self.flops / (1.3e15 if self.dtype == "fp8" else 7e14))

    def size_class(self):
        return 0 if self.seconds() < 7e-6 else 1 if self.seconds() < 80e-6 else 2 if self.seconds() < 600e-6 else 3

    def fits(self):
        return self.bytes < 4.5e9 and self.seconds() < 9e-3


def gemm(m, n, k, dtype, extra=""):
    size = TYPE_BYTES[dtype]
    extra = extra or ("few" if m <= 16 else "some" if m <= 128 else "many" if m <= 1024 else "most")
    return Row("gemm", dtype, {"M": m, "N": n, "K": k}, 2.0 * m * n * k, size * (m * k + n * k) + 2.0 * m * n, extra)


def prefill(b, hq, hkv, d, s, causal, skv=0):
    keys = skv or s
    pairs = s * (keys - s) + s * (s + 1) / 2 if causal else s * keys
    shape = {"B": b, "Hq": hq, "Hkv": hkv, "D": d, "S": s, "causal": causal}
    if skv:
        shape["Skv"] = skv
    shape["append"] = 0
    return Row("attention_prefill", "bf16", shape, 4.0 * b * hq * d * pairs,
               2.0 * b * d * (2 * hq * s + 2 * hkv * keys), f"{d} {causal}")


def decode(b, hq, hkv, d, s, page):
    return Row("attention_decode", "bf16", {"B": b, "Hq": hq, "Hkv": hkv, "D": d, "S": s, "page": page},
               4.0 * b * hq * d * s, 2.0 * b * d * (2 * hkv * s + 2 * hq), str(d))


# bytes moved an element of rows x cols in bf16
ROWWISE = {"layernorm": 4, "rmsnorm": 4, "softmax": 4, "silu": 4, "gelu": 4, "add": 6, "copy": 4, "sum_rows": 2,
           "argmax": 2, "transpose_copy": 4, "swiglu": 6, "quantize": 3, "scale": 4, "mask": 4, "dropout": 5,
           "dropout_backward": 5, "softmax_backward": 6, "scale_mask_softmax_dropout": 4,
           "scale_mask_softmax_dropout_backward": 6}


def rowwise(op, rows, cols, residual=0):
    shape = {"rows": rows, "cols": cols, **({"residual": 1} if residual else {})}
    return Row(op, "bf16", shape, 0, float(rows) * cols * (ROWWISE[op] + 4 * residual), "wide" if cols > 16384 else "")


# ---------------------------------------------------------------------------------------------- pools


def gemm_pool(models, dtype):
    pairs = sorted({pair for m in models for pair in projections(m)})
    rows = [gemm(m, n, k, dtype) for (n, k), m in itertools.product(pairs, TOKENS + ODD_TOKENS)]
    if dtype == "fp8":
        return [r for r in rows if r.shape["K"] % 16 == 0 and r.shape["N"] % 16 == 0 and r.fits()]
    return [r for r in rows if r.fits()]


def awkward_gemms():
    """Odd sizes that tensor maps cannot take, tails of one row or column, grids just over a wave of 132."""
    odd = [(1111, 3333, 2222), (4095, 4097, 4096), (777, 1001, 1003), (2048, 50257, 768), (512, 30522, 1024),
           (129, 8191, 8192), (4097, 4104, 4104), (8193, 4096, 4096), (1025, 1032, 1032), (63, 4088, 5000),
           (255, 255, 255), (2049, 2056, 7176), (5, 32001, 4096), (640, 640, 32768), (128, 128, 65536),
           (3333, 1000, 500), (96, 200, 16384), (1, 1000, 1000), (6000, 24, 4096), (16384, 64, 2048)]
    waves = [(128 * a, 256 * b, k) for a, b, k in
             [(19, 7, 4096), (7, 19, 2048), (12, 11, 4096), (2, 67, 8192), (67, 2, 8192), (5, 27, 1024), (53, 5, 4096),
              (5, 53, 7168), (24, 11, 3072), (14, 19, 5120), (21, 19, 2048), (3, 45, 16384), (9, 15, 4096)]]
    cubes = [(n, n, n) for n in (512, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288)]
    return [gemm(*s, "bf16", "awkward") for s in odd + waves] + [gemm(*s, "bf16", "cube") for s in cubes]


def big_fp8():
    sizes = [(4096, 7168, 16384), (4096, 4096, 7168), (8192, 8192, 8192), (4096, 16384, 7168), (8192, 7168, 18432),
             (6144, 6144, 12288), (8192, 5120, 25600), (4096, 24576, 8192), (5000, 7168, 16384), (8192, 4096, 14336)]
    return [gemm(*s, "fp8", "deep") for s in sizes]


def prefill_pool(models):
    heads = sorted({(m["heads"] // tp, max(m["kv"] // tp, 1), m["dim"]) for m in models for tp in (1, 2, 4, 8)
                    if m["heads"] % tp == 0 and m["dim"] in (64, 128, 256) and m["heads"] // tp % max(m["kv"] // tp, 1) == 0})
    rows = [prefill(b, *h, s, c) for h, s, b, c in itertools.product(
        heads, [100, 128, 256, 333, 512, 1000, 1024, 1537, 2048, 3000, 4096, 5000, 8192, 16384, 32768],
        [1, 2, 4, 8, 16, 32], [0, 1])]
    rows += [prefill(b, *h, s, 1, skv) for h, (s, skv), b in itertools.product(
        heads, [(512, 4608), (256, 8448), (1024, 17408), (128, 1000)], [1, 2, 4])]
    return [r for r in rows if r.fits() and r.flops > 2e8]


def decode_pool(models):
    heads = sorted({(m["heads"] // tp, max(m["kv"] // tp, 1), m["dim"]) for m in models for tp in (1, 2, 4, 8)
                    if m["heads"] % tp == 0 and m["dim"] in (64, 128, 256)
                    and m["heads"] // tp % max(m["kv"] // tp, 1) == 0 and m["heads"] // tp // max(m["kv"] // tp, 1) <= 16})
    rows = [decode(b, *h, s, (64, 16, 128)[zlib.crc32(f"{b}|{h}|{s}".encode()) % 3])
            for h, b, s in itertools.product(heads, [1, 2, 4, 7, 8, 16, 32, 48, 64, 128],
                                             [128, 512, 1000, 1024, 2048, 3333, 4096, 8192, 16384, 32768, 65536, 131072])]
    return [r for r in rows if r.fits()]


def rowwise_pool(op, models):
    hidden = sorted({m["hidden"] for m in models})
    wide = sorted({m["inter"] for m in models} | {m["inter"] // 2 for m in models})
    vocab = sorted({m["vocab"] for m in models})
    sequences = [128, 256, 384, 512, 1000, 1024, 2048, 4096, 8192]
    cols = {"softmax": sequences + vocab, "argmax": vocab + [4096, 8192], "silu": wide, "gelu": wide, "swiglu": wide,
            "sum_rows": hidden + sequences + vocab[:3],
            "transpose_copy": [512, 768, 1000, 1024, 2048, 3000, 3072, 4096, 4100, 5120, 8192, 14336, 16384],
            "copy": hidden + wide, "add": hidden, "quantize": hidden + wide}.get(op, hidden)
    rows_of = [512, 1000, 1024, 2048, 3000, 4096, 8192, 16384, 12000] if op == "transpose_copy" else \
        TOKENS + ODD_TOKENS + [32768, 65536]
    odd = [(333, 5000), (1001, 1003), (77, 12345), (4097, 333), (5000, 2050)]
    residual = [0, 1] if op in ("rmsnorm", "layernorm") else [0]
    rows = [rowwise(op, r, c, e) for (r, c), e in itertools.product(list(itertools.product(rows_of, cols)) + odd, residual)]
    return [r for r in rows if r.fits()]


def chain_pool(op):
    """Scores of a training step: rows = batch x heads x queries, cols = keys."""
    rows = [rowwise(op, b * h * s, s) for b, h, s in itertools.product(
        [1, 2, 4, 8, 16, 32, 64], [8, 12, 16, 32, 40], [128, 200, 256, 384, 512, 1000, 1024, 2048, 4096])]
    return [r for r in rows if r.fits()]


def other_pools(models):
    tokens = TOKENS + ODD_TOKENS + [32768]
    heads = sorted({(m["heads"] + m["kv"], m["dim"]) for m in models if not m["latent"]} | {(129, 64)})  # 128 + 1: latent
    pools = {"rope": [Row("rope", "bf16", {"tokens": t, "heads": h, "D": d}, 0, 4.0 * t * h * d)
                      for t, (h, d) in itertools.product(tokens, heads)],
             "embedding": [Row("embedding", "bf16", {"rows": t, "cols": m["hidden"]}, 0, 4.0 * t * m["hidden"])
                           for t, m in itertools.product(tokens, models)]}
    counts = sorted({1000, 4096, 65536, 100000, 262144, 777777, 10 ** 6, 2 ** 20, 3 * 10 ** 6, 2 ** 22, 6 * 10 ** 6, 10 ** 7,
                     12345678, 2 ** 24, 3 * 10 ** 7, 33333333, 2 ** 26, 10 ** 8, 2 * 10 ** 8, 2 ** 28, 5 * 10 ** 8, 2 ** 29}
                    | {int(1000 * 1.37 ** i) for i in range(40)})
    pools["sum_all"] = [Row("sum_all", "bf16", {"n": n}, 0, 2.0 * n) for n in counts]
    pools["cumsum"] = [Row("cumsum", "fp32", {"n": n}, 0, 8.0 * n) for n in counts]
    vocab = sorted({m["vocab"] for m in models})
    experts = [(8, 2), (64, 6), (128, 8), (256, 8)]
    picks = [(r, c, k) for r, c, k in itertools.product([1, 4, 16, 32, 64, 128, 256, 512, 1000], vocab, [1, 8, 40, 50, 64])]
    picks += [(t, e, k) for t, (e, k) in itertools.product(TOKENS[4:] + ODD_TOKENS[5:], experts)]
    for op, extra in (("topk", 0), ("softmax_topk", 0)):
        pools[op] = [Row(op, "bf16", {"rows": r, "cols": c, "k": k}, 0, 2.0 * r * c + 6.0 * r * k + extra,
                         "router" if c <= 256 else "vocabulary") for r, c, k in picks]
    return {op: [r for r in rows if r.fits()] for op, rows in pools.items()}


# ---------------------------------------------------------------------------------------------- choosing


def choose(pool, count, salt):
    """`count` rows, turn by turn from every stratum (size class and kind), in the order of a hash. Weight matrices, head
    layouts and the like come up evenly because the hash knows nothing of them."""
    strata = defaultdict(list)
    for row in sorted({r.text: r for r in pool}.values(), key=lambda r: r.crc(salt)):
        strata[(row.size_class(), row.extra)].append(row)
    queues = [strata[key] for key in sorted(strata)]
    chosen = []
    for turn in itertools.count():
        left = [q for q in queues if turn < len(q)]
        if not left or len(chosen) >= count:
            return chosen[:count]
        chosen += [q[turn] for q in sorted(left, key=lambda q: q[turn].crc(salt))][: count - len(chosen)]


# Cases a side: cold bursts.
COUNTS = {"gemm bf16": 92, "awkward": 24, "gemm fp8": 40, "deep": 4, "attention_prefill": 44, "attention_decode": 40,
          "layernorm": 10, "rmsnorm": 14, "softmax": 12, "silu": 5, "gelu": 6, "add": 7, "copy": 8, "sum_rows": 7,
          "argmax": 6, "transpose_copy": 10, "swiglu": 10, "quantize": 8, "scale": 4, "mask": 4, "dropout": 4,
          "rope": 8, "embedding": 8, "sum_all": 7, "cumsum": 7, "topk": 8, "softmax_topk": 8, "dropout_backward": 4,
          "softmax_backward": 4, "scale_mask_softmax_dropout": 6, "scale_mask_softmax_dropout_backward": 6}
CHAIN = ["scale", "mask", "dropout", "dropout_backward", "softmax_backward", "scale_mask_softmax_dropout",
         "scale_mask_softmax_dropout_backward"]
# Repeated with operands in L2: where weights or activations of a real step would be.
WARM = {"gemm bf16": 8, "gemm fp8": 3, "attention_prefill": 4, "attention_decode": 5, "rmsnorm": 3, "softmax": 3,
        "swiglu": 3, "add": 2, "copy": 3, "rope": 2, "layernorm": 2, "sum_rows": 1, "gelu": 1}
# Sustained until clock and power settle, held-out side: compute-, memory-, L2- and latency-bound.
STEADY_COMPUTE = {"gemm bf16": 11, "gemm fp8": 7, "attention_prefill": 8}
STEADY_MEMORY = {"gemm bf16": 3, "attention_decode": 6, "rmsnorm": 2, "softmax": 2, "add": 2, "copy": 2, "swiglu": 2,
                 "transpose_copy": 1, "sum_rows": 1, "cumsum": 1, "layernorm": 1}
STEADY_LATENCY = {"gemm bf16": 2, "rmsnorm": 1, "rope": 1, "softmax": 1, "topk": 1, "attention_decode": 2, "embedding": 1}
STEADY_L2 = {"copy": 2, "rmsnorm": 1, "gemm bf16": 2, "swiglu": 1}
L2_BYTES = 40e6  # what fits with room to spare


def pools_of(models):
    pools = {"gemm bf16": gemm_pool(models, "bf16"), "gemm fp8": gemm_pool(models, "fp8"), "awkward": awkward_gemms(),
             "deep": big_fp8(), "attention_prefill": prefill_pool(models), "attention_decode": decode_pool(models)}
    for op in ROWWISE:
        pools[op] = chain_pool(op) if op in CHAIN else rowwise_pool(op, models)
    pools.update(other_pools(models))
    return pools


def is_l2_bound(row):
    return 4e6 < row.bytes < L2_BYTES and row.flops / 7e14 < row.bytes / 8e12


def is_memory_bound(row):
    return row.bytes > 150e6 and row.flops / 7e14 < row.bytes / 6e12


def is_compute_bound(row):
    return row.flops > 2e11 and row.flops / 7e14 > 1.5 * row.bytes / 4.2e12


def side_cases(pools, side):
    """(row, cache, clock) of one side."""
    cases = [(row, *COLD) for key, count in COUNTS.items() for row in choose(pools[key], count, "cold")]
    add = lambda table, keep, cache, clock, part=1: cases.extend(
        (row, cache, clock) for key, count in table.items()
        for row in choose([r for r in pools[key] if keep(r)], max(1, count // part), clock + cache))
    add(WARM, lambda r: r.bytes < L2_BYTES, "warm", "burst")
    part = 1 if side == "heldout" else 4
    add(STEADY_COMPUTE, is_compute_bound, "cold", "steady", part)
    if side == "heldout":
        add(STEADY_MEMORY, is_memory_bound, "cold", "steady")
        add(STEADY_LATENCY, lambda r: r.seconds() < 4e-6 and r.bytes < 4e6, "cold", "steady")
        add(STEADY_L2, is_l2_bound, "warm", "steady")
    else:
        add({"attention_decode": 1, "copy": 1, "rmsnorm": 1}, is_memory_bound, "cold", "steady")
    return cases


# Demanded figures stand on these; each lands on its own side.
ANCHORS = [gemm(8192, 8192, 8192, "bf16", "cube"), prefill(4, 16, 16, 128, 4096, 0), prefill(2, 32, 8, 128, 8192, 1),
           prefill(2, 16, 16, 128, 16384, 0), prefill(4, 32, 8, 128, 4096, 1), decode(64, 32, 8, 128, 8192, 64),
           decode(16, 64, 8, 128, 32768, 64), rowwise("copy", 65536, 8192), rowwise("copy", 32768, 8192),
           rowwise("transpose_copy", 16384, 16384), rowwise("transpose_copy", 8192, 16384)]


def quick_cases(sides):
    """Few of every operator, of different sizes, from both sides; with a handful warm and steady."""
    cases = [c for side in sides.values() for c in side]
    by_op = defaultdict(list)
    for row, cache, clock in cases:
        if (cache, clock) == COLD and row.seconds() < 2.5e-3:
            by_op[(row.op, row.dtype)].append(row)
    chosen = [(row, *COLD) for (op, dtype), rows in sorted(by_op.items())
              for row in choose(rows, 8 if (op, dtype) == ("gemm", "bf16") else 4 if op in ("gemm", "attention_prefill",
                                "attention_decode") else 1 if op in CHAIN + ["gelu", "silu", "embedding", "sum_rows"] else 2,
                                "quick")]
    anchor = ANCHORS[0]
    chosen += [(anchor, *COLD)] if all(r.text != anchor.text for r, _, _ in chosen) else []
    for kind, count in ((("warm", "burst"), 4), (("cold", "steady"), 5)):
        rows = sorted((r for r, cache, clock in cases if (cache, clock) == kind), key=lambda r: r.crc("quick"))
        seen = set()
        for row in rows:
            if row.op not in seen and len(seen) < count:
                seen.add(row.op)
                chosen.append((row, *kind))
    return chosen


def write(path, cases):
    lines = sorted({(row.op, row.dtype, cache, clock, row.seconds(), row.text) for row, cache, clock in cases},
                   key=lambda c: (c[3] == "steady", c[2] == "warm", c[0], c[1], c[4], c[5]))
    with open(path + ".partial", "w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["op", "dtype", "shape", "cache", "clock"])
        writer.writerows((op, dtype, text, cache, clock) for op, dtype, cache, clock, _, text in lines)
    os.replace(path + ".partial", path)
    steady = sum(c[3] == "steady" for c in lines)
    print(f"{os.path.basename(path)}: {len(lines)} cases, {steady} steady, "
          f"{sum(c[2] == 'warm' for c in lines)} warm")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "data", "studies")
    pools = pools_of([read_model(name) for name in MODELS])
    all_rows = [row for rows in pools.values() for row in rows] + ANCHORS
    held_out = dict(zip(map(id, all_rows), measurement_csv.sides([(row.op, row.text) for row in all_rows])))
    sides = {}
    for side, held in (("train", False), ("heldout", True)):
        of_side = {key: [r for r in rows if held_out[id(r)] == held] for key, rows in pools.items()}
        sides[side] = side_cases(of_side, side) + [(r, *COLD) for r in ANCHORS if held_out[id(r)] == held]
        write(os.path.join(folder, side + ".csv"), sides[side])
    write(os.path.join(folder, "quick.csv"), quick_cases(sides))


if __name__ == "__main__":
    main()
