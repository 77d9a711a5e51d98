#!/usr/bin/env python3
"""Draws shapes of every kernel of ours at random, as a study that is held out: what data/studies/own.fresh*.csv are.

    tools/draw_own.py SEED [--each 6] [--pieces 0] > LIST.csv

Sizes are drawn log-uniformly and are ragged: rows of a matrix that are no whole 16 bytes are among them wherever the
kernel takes them. What would move more than 1.5 GB or take more than 4e11 FLOPs is drawn again. --pieces: instead, so
many matrix products of mma.sync whose rows are pairs or single elements (the stack own-portable).
"""
import argparse
import math
import random

MOST_ELEMENTS, MOST_FLOP = 3.5e8, 4e11
FLAT = ("add", "copy", "dropout", "gelu", "mask", "scale", "silu", "swiglu", "transpose_copy")
ROWS = ("argmax", "layernorm", "layernorm_backward", "quantize", "rmsnorm", "rmsnorm_backward", "softmax",
        "softmax_backward", "scale_mask_softmax_dropout", "scale_mask_softmax_dropout_backward", "sum_rows")
MANY = ("topk", "softmax_topk", "cumsum", "sum_all", "layernorm_backward", "sum_rows", "softmax")
GRADIENTS_OF_NORMS = ("layernorm_backward", "rmsnorm_backward")


def log_uniform(draw, low, high):
    return int(math.exp(draw.uniform(math.log(low), math.log(high + 1))))


def matrix(draw, op):
    """Rows and columns; one in three has columns that are no multiple of 8, where the kernel has no other demand."""
    widest = 8192 if op in GRADIENTS_OF_NORMS else 130000 if draw.randrange(4) == 0 else 16384
    cols = log_uniform(draw, 64, widest)
    if draw.randrange(3) or op in GRADIENTS_OF_NORMS + ("swiglu", "quantize"):
        cols += -cols % 8
    return f"rows={log_uniform(draw, 1, 60000)};cols={cols}", cols


def row_wise(draw, op):
    if op in ("cumsum", "sum_all"):
        return f"n={log_uniform(draw, 4096, 60_000_000)}"
    if op == "topk":
        rows, cols = log_uniform(draw, 1, 2000), log_uniform(draw, 128, 160000)
        return f"rows={rows};cols={cols};k={draw.choice((1, 2, 8, 32, 50))}"
    if op == "softmax_topk":
        experts = draw.choice((8, 16, 32, 60, 64, 96, 128, 160, 256, 384))
        return f"rows={log_uniform(draw, 1, 30000)};cols={experts};k={draw.choice((1, 2, 4, 6, 8))}"
    if op == "rope":
        return f"tokens={log_uniform(draw, 1, 30000)};heads={log_uniform(draw, 1, 96)};D={draw.choice((64, 128))}"
    if op == "embedding":
        return f"rows={log_uniform(draw, 1, 30000)};cols={8 * log_uniform(draw, 32, 1536)}"
    return matrix(draw, op)[0]


def heads(draw):
    kv, group = draw.choice((1, 2, 4, 8, 12)), draw.choice((1, 1, 2, 4, 5, 7, 8))
    return kv * group, kv, draw.choice((64, 128))


def prefill(draw):
    (q, kv, width), batch, s = heads(draw), draw.choice((1, 1, 1, 2, 4, 8)), log_uniform(draw, 64, 12000)
    shape = f"B={batch};Hq={q};Hkv={kv};D={width};S={s};causal={draw.randrange(2)};append=0"
    return shape, 4 * batch * q * width * s * s


def backward(draw):
    (q, kv, width), batch, s = heads(draw), draw.choice((1, 2, 3, 5, 8, 16)), log_uniform(draw, 128, 6000)
    return f"B={batch};Hq={q};Hkv={kv};D={width};S={s};causal={draw.randrange(2)}", 10 * batch * q * width * s * s


def decode(draw):
    (q, kv, width), batch, s = heads(draw), log_uniform(draw, 1, 200), log_uniform(draw, 64, 60000)
    shape = f"B={batch};Hq={q};Hkv={kv};D={width};S={s};page={draw.choice((0, 16, 64, 128))}"
    return shape.replace(";page=0", ""), 2500.0 * batch * kv * width * s  # bounds the cache's bytes


def product(draw):
    m, n, k = (log_uniform(draw, low, high) for low, high in ((1, 8192), (64, 30000), (64, 16384)))
    return f"M={m};N={n - n % 8};K={k - k % 8}", 2 * m * n * k


def product_in_pieces(draw):
    few = draw.randrange(5) < 2
    m = log_uniform(draw, 16, 512) if few else log_uniform(draw, 1, 8192)
    n, k = log_uniform(draw, 64, 16384), log_uniform(draw, 1024 if few else 64, 16384)
    n -= n % draw.choice((8, 2, 1))
    k = k | 1 if draw.randrange(2) else k - k % 8 + draw.choice((2, 4, 6))
    return f"M={m};N={n};K={k}", 2 * m * n * k


def within(draw, make):
    while True:
        shape, flop = make(draw)
        if flop <= MOST_FLOP:
            return shape


def row_wise_within(draw, op):
    while True:
        shape = row_wise(draw, op)
        sizes = [int(part.split("=")[1]) for part in shape.split(";") if not part.startswith("k=")]
        if math.prod(sizes) <= MOST_ELEMENTS:
            return shape


def every_class(draw, each):
    for op in sorted(set(FLAT + ROWS + MANY + ("rope", "embedding"))):
        for i in range(each if op in MANY else max(1, each // 2)):
            yield op, "fp16" if i % 4 == 3 else "bf16", row_wise_within(draw, op)
    makes = {"gemm": product, "attention_prefill": prefill, "attention_decode": decode, "attention_backward": backward}
    for op, make in makes.items():
        for i in range(2 * each):
            yield op, "fp16" if i % 3 == 2 and op != "attention_backward" else "bf16", within(draw, make)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--each", type=int, default=6)
    parser.add_argument("--pieces", type=int, default=0)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    if arguments.pieces:
        types = ["fp16" if i % 3 == 0 else "bf16" for i in range(arguments.pieces)]
        rows = [("gemm", dtype, within(draw, product_in_pieces)) for dtype in types]
    else:
        rows = list(every_class(draw, arguments.each))
    print("op,dtype,shape,cache,clock,held_out")
    for op, dtype, shape in rows:
        print(f"{op},{dtype},{shape},cold,burst,yes")


if __name__ == "__main__":
    main()
