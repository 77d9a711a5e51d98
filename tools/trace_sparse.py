#!/usr/bin/env python3
"""Times products of weights that are 2:4 sparse, by cuSPARSELt through PyTorch, and the launch that prunes and compresses a
weight both ways, as training does: kernels' names, grids and times, from a cold L2, by PyTorch's profiler.

    tools/trace_sparse.py --list first|second > CASES.jsonl
    tools/trace_sparse.py --cases CASES.jsonl --out FOLDER [--until SECONDS]

--list: sizes drawn by a seed, one JSON object a line; `set` is the side (`validate sides` of the built program says which
training sizes the project's rule holds out; these are drawn again; what is drawn for `heldout` is held out whatever the
rule says). `kind` sparse: y^T = W x^T, W [n,k] compressed; layout nk: x [m,k] lies in rows, kn: its transpose does (what
follows another such product, whose result is y^T; of the second draw, which is held out whole, none). `kind` sparsify: W [n,k] into both compressed copies
(torch._sparse_semi_structured_tile). FOLDER/products_sparse.jsonl: each case with its launches, as tools/trace_products.py has it.
"""
import argparse
import json
import os
import random

import trace_products as products

SEEDS = {"first": {"train": 20261229, "heldout": 20261230}, "second": {"heldout": 20261231}}
EACH = {"first": {"train": {("sparse", "bfloat16"): 130, ("sparse", "float16"): 30, ("sparsify", "bfloat16"): 30},
                  "heldout": {("sparse", "bfloat16"): 50, ("sparse", "float16"): 20, ("sparsify", "bfloat16"): 15}},
        "second": {"heldout": {("sparse", "bfloat16"): 60, ("sparse", "float16"): 30, ("sparsify", "bfloat16"): 15}}}


def drawn(draw, kind, dtype):
    case = {"kind": kind, "dtype": dtype, "n": products.between(draw, 512, 16384, 128), "k": products.between(draw, 512, 16384, 128)}
    if kind == "sparse":
        case.update(m=products.between(draw, 64, 16384, 64), layout=draw.choice(("nk", "nk", "kn")))
    return case


def operator(case):
    keys = ("M", "N", "K") if case["kind"] == "sparse" else ("rows", "cols")
    sizes = (case["m"], case["n"], case["k"]) if case["kind"] == "sparse" else (case["n"], case["k"])
    name = "gemm_sparse24" if case["kind"] == "sparse" else "sparsify24"
    return name, ";".join(f"{key}={size}" for key, size in zip(keys, sizes))


def cases(which):
    import measurement_csv
    for side, counts in EACH[which].items():
        draw = random.Random(SEEDS[which][side])
        for (kind, dtype), count in counts.items():
            while count:
                case = {"set": side, **drawn(draw, kind, dtype)}
                if kind == "sparse" and 2 * case["m"] * case["n"] * case["k"] > 1.2e12:
                    continue
                if side == "train" and kind == "sparse" and measurement_csv.sides([operator(case)])[0]:
                    continue
                if kind == "sparse" and which == "second":
                    case["layout"] = "nk"
                count -= 1
                yield case


def action_of(_, case):
    import torch
    from torch.sparse import SparseSemiStructuredTensorCUSPARSELT as Compressed
    dtype = getattr(torch, case["dtype"])
    weight = torch.randn(case["n"], case["k"], device="cuda", dtype=dtype)
    if case["kind"] == "sparsify":
        return lambda: torch._sparse_semi_structured_tile(weight, algorithm="", use_cutlass=False)
    compressed = Compressed.prune_dense_static_sort(weight)
    if case["layout"] == "nk":
        x = torch.randn(case["m"], case["k"], device="cuda", dtype=dtype).t()
    else:
        x = torch.randn(case["k"], case["m"], device="cuda", dtype=dtype)
    return lambda: compressed._mm(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", choices=SEEDS)
    parser.add_argument("--cases")
    parser.add_argument("--out")
    parser.add_argument("--until", type=float, default=1e9, help="begin no group after this many seconds")
    args = parser.parse_args()
    if args.list:
        for case in cases(args.list):
            print(json.dumps(case))
        return
    products.action_of = action_of
    products.measure(args)
    os.rename(os.path.join(args.out, "products.jsonl"), os.path.join(args.out, "products_sparse.jsonl"))


if __name__ == "__main__":
    main()
