#!/usr/bin/env python3
"""Turns the single operators of PyTorch on file (data/measurements/{h200,h100}/pytorch/operators.read.jsonl.gz, of
tools/trace_operators.py; operators.jsonl.gz, whose L2 was swept by writing, is not read) into Plumbline's ops CSV, split for good into train and held-out files: data/measurements/{h200,h100}_pytorch/. And products of drawn sizes (operators.drawn.jsonl.gz), all of
them held out, and those of tools/trace_products.py (products*.jsonl.gz), whose held-out draws say so.

    tools/convert_pytorch_operators.py

A row's time is the sum of its launches' own times, medians of seven runs, without the gaps between them; `_grouped_mm`'s is
that of the product alone (what prepares its pointers is a launch that data/launches names). Left out: products of experts
that have unequal numbers of rows, which the operator's keys can't say. `id` is operators.read:<line>.
"""
import csv
import gzip
import json
import os

from measurement_csv import COLUMNS, Output, shape_text, sides

DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "tf32": "tf32", "int8": "int8", "fp8_tensor": "fp8", "fp8_row": "fp8",
          "fp8_block": "fp8"}


def grouped(c):
    rows = [r for r in c["rows"] if r]
    if len(set(rows)) != 1:
        return None
    # as many experts as have rows, each token to all of them: each has `rows` rows
    return "grouped_gemm", {"E": len(rows), "topk": len(rows), "T": rows[0], "N": c["n"], "K": c["k"]}, c["launches"][1:]


def attention(c):
    heads = {"B": c["batch"], "Hq": c["heads"], "Hkv": c["heads"], "D": c["width"]}
    if c["queries"] == 1:
        return "attention_decode", {**heads, "S": c["keys"]}, c["launches"]
    kernels = [launch for launch in c["launches"] if not launch[0].startswith("Memset")]  # cuDNN's counter is cleared
    return "attention_prefill", {**heads, "S": c["keys"], "causal": int(c["causal"])}, kernels


def product(c):
    if c["kind"] == "gemm":
        return "gemm", {"M": c["m"], "N": c["n"], "K": c["k"], **({"layout": "kn"} if c["layout"] == "kn" else {})}, c["launches"]
    if c["product"] == "scores":
        return "gemm", {"M": c["queries"], "N": c["keys"], "K": c["width"], "batch": c["batch"]}, c["launches"]
    return "gemm", {"M": c["queries"], "N": c["width"], "K": c["keys"], "batch": c["batch"], "layout": "kn"}, c["launches"]


def typed(c):
    more = {"out": "fp32"} if c["dtype"] == "int8" else {}  # 32-bit integers, which are as many bytes
    more.update({"batch": c["batch"]} if "batch" in c else {})
    more.update({"layout": c["layout"]} if c.get("layout", "nk") != "nk" else {})
    return "gemm", {"M": c["m"], "N": c["n"], "K": c["k"], **more}, c["launches"]


FAMILIES = {"types": ("types", typed), "grouped_mm": ("grouped_gemm", grouped), "sdpa": ("attention", attention), "bmm": ("products", product),
            "gemm": ("gemm", product)}


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "measurements")
    out = Output()
    for card in ("h200", "h100"):
        add_card(out, root, card)
    for (source, gpu, family, side), rows in sorted(out.write(root).items()):
        print(f"{source}/{gpu}/{family}.{side}.csv,{len(rows)}")
    print(f"h200_pytorch/h200_sxm/types_drawn.heldout.csv,{write_drawn(root)}")
    for side in ("train", "heldout"):
        print(f"h200_pytorch/h200_sxm/sparse.{side}.csv,{write_sparse(root, side)}")
    for name in RECORDINGS:
        for side in ONE_SIDED.get(name, ("train", "heldout")):
            print(f"h200_pytorch/h200_sxm/{name}.{side}.csv,{write_products(root, name, side)}")


def write_drawn(root):
    """Products of sizes drawn at random (kind `drawn`): all of them held out, whatever the rule says."""
    path = os.path.join(root, "h200_pytorch", "h200_sxm", "types_drawn.heldout.csv")
    count = 0
    with gzip.open(os.path.join(root, "h200", "pytorch", "operators.drawn.jsonl.gz"), "rt", encoding="utf-8") as lines, \
         open(path, "w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*COLUMNS, "held_out"])
        next(lines)
        for line, text in enumerate(lines, start=2):
            case = json.loads(text)
            op, shape, launches = typed(case)
            kernel = case["dtype"] if case["dtype"].startswith("fp8") else "types"
            writer.writerow([op, DTYPES[case["dtype"]], shape_text(shape), f"{sum(launch[3] for launch in launches):.3f}", "", "pytorch-2.11",
                             kernel, "burst", "kernels", f"operators.drawn:{line}", "yes"])
            count += 1
    return count


RECORDINGS = {"products_drawn": "products", "products_second": "products_second", "products_third": "products_third",
              "one_row": "products_one_row", "products_fourth": "products_fourth", "products_fifth": "products_fifth",
              "products_sixth": "products_sixth", "products_ragged": "products_ragged", "products_one_turn": "products_one_turn",
              "products_eighth": "products_eighth", "products_ninth": "products_ninth",
              "products_tenth": "products_tenth", "products_eleventh": "products_eleventh",
              "products_twelfth": "products_twelfth", "products_thirteenth": "products_thirteenth",
              "products_fourteenth": "products_fourteenth", "products_fifteenth": "products_fifteenth",
              "products_edges": "products_edges"}
ONE_SIDED = {"one_row": ("train",), "products_fourth": ("heldout",), "products_fifth": ("heldout",),
             "products_sixth": ("heldout",), "products_one_turn": ("train",), "products_eighth": ("heldout",),
             "products_ninth": ("heldout",), "products_tenth": ("heldout",),
             "products_twelfth": ("heldout",), "products_thirteenth": ("heldout",),
             "products_fourteenth": ("heldout",), "products_fifteenth": ("heldout",),
             "products_edges": ("train",)}
# drawn as held out, and looked at since: dealt by the rule
OPENED = ("products_eleventh",)
# of a draw whose sides were recorded on a card each
HELD_OUT_RECORDINGS = {"products_ragged": "products_seventh"}
FEW_ROWS = 32


def kernel_of(case, launches, recording):
    """What a list of rows is asked for by: scales, rows that are no whole 16 bytes, few rows, products on lanes. (The sixth draw's
    list was published with all of its odd sizes, some of which are whole in tf32.)"""
    if case.get("dtype", "").startswith("fp8"):
        return case["dtype"]
    if "layout" in case and recording == "products_sixth":
        return "odd"
    if "layout" in case:
        unit = 16 // (4 if case["dtype"] == "tf32" else 2)
        if case["n"] % unit or case["k"] % unit:
            return "odd"
        return "few" if case["m"] <= FEW_ROWS else "types"
    return "gemv" if any("gemv" in launch[0] for launch in launches) else case["kind"]


def write_products(root, name, side):
    """Products drawn at random for training and as held-out rows, and those of a sweep (training)."""
    folder = os.path.join(root, "h200_pytorch", "h200_sxm")
    count = 0
    recording = HELD_OUT_RECORDINGS.get(name, RECORDINGS[name]) if side == "heldout" else RECORDINGS[name]
    with gzip.open(os.path.join(root, "h200", "pytorch", f"{recording}.jsonl.gz"), "rt", encoding="utf-8") as lines, \
         open(os.path.join(folder, f"{name}.{side}.csv"), "w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*COLUMNS, *(["held_out"] if side == "heldout" else [])])
        next(lines)
        for line, text in enumerate(lines, start=2):
            case = json.loads(text)
            if not case.get("launches"):
                continue
            op, shape, launches = product(case) if case["kind"] == "bmm" else typed(case)
            held_out = sides([(op, shape_text(shape))])[0] if name in OPENED else case["set"] == "heldout"
            if held_out != (side == "heldout"):
                continue
            kernel = kernel_of(case, launches, recording)
            row = [op, DTYPES[case.get("dtype", "bfloat16")], shape_text(shape), f"{sum(launch[3] for launch in launches):.3f}", "",
                   "pytorch-2.11", kernel, "burst", "kernels", f"{recording}:{line}"]
            writer.writerow(row + (["yes"] if side == "heldout" else []))
            count += 1
    return count


def write_sparse(root, side):
    """Products of 2:4 sparse weights whose x lies in rows (of its transpose another kernel runs, which no key tells), and launches
    that prune and compress a weight."""
    path = os.path.join(root, "h200_pytorch", "h200_sxm", f"sparse.{side}.csv")
    count = 0
    with gzip.open(os.path.join(root, "h200", "pytorch", "products_sparse.jsonl.gz"), "rt", encoding="utf-8") as lines, \
         open(path, "w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*COLUMNS, *(["held_out"] if side == "heldout" else [])])
        next(lines)
        for line, text in enumerate(lines, start=2):
            case = json.loads(text)
            if case.get("layout") == "kn":
                continue
            op, shape = ("gemm_sparse24", {"M": case["m"], "N": case["n"], "K": case["k"]}) if case["kind"] == "sparse" else \
                ("sparsify24", {"rows": case["n"], "cols": case["k"]})
            held_out = case["set"] == "heldout" or sides([(op, shape_text(shape))])[0]
            if held_out != (side == "heldout"):
                continue
            row = [op, DTYPES[case["dtype"]], shape_text(shape), f"{sum(launch[3] for launch in case['launches']):.3f}", "",
                   "pytorch-2.11", "cusparselt", "burst", "kernels", f"products_sparse:{line}"]
            writer.writerow(row + (["yes"] if side == "heldout" else []))
            count += 1
    return count


def add_card(out, root, card):
    with gzip.open(os.path.join(root, card, "pytorch", "operators.read.jsonl.gz"), "rt", encoding="utf-8") as lines:
        next(lines)
        for line, text in enumerate(lines, start=2):
            case = json.loads(text)
            family, convert = FAMILIES[case["kind"]]
            row = convert(case)
            if row is None or not case["launches"]:
                continue
            name, shape, launches = row
            kernel = case["backend"] if case["kind"] == "sdpa" else case["kind"]
            if case["dtype" if kernel == "types" else "kind"].startswith("fp8"):
                kernel = case["dtype"]
            if any("gemv" in launch[0] for launch in launches):
                kernel = "gemv"
            out.add((f"{card}_pytorch", f"{card}_sxm", family), name, DTYPES[case.get("dtype", "bfloat16")], shape,
                    f"{sum(launch[3] for launch in launches):.3f}", f"operators.read:{line}", stack="pytorch-2.11", kernel=kernel,
                    scope="kernels")


if __name__ == "__main__":
    main()
