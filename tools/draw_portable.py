#!/usr/bin/env python3
"""Draws a list of shapes for our kernels of mma.sync at random, as a study that is held out: what data/studies/portable.*.csv are.

    tools/draw_portable.py SEED [--each 40] > LIST.csv

Half are matrix products (two of five with few rows, whose K is cut), half prefill attention; sizes are drawn log-uniformly,
one type in three is fp16, and what would take more than some 1.5 ms on an H200 is drawn again.
"""
import argparse
import math
import random

MOST_FLOP = 5e11


def log_uniform(draw, low, high):
    return int(math.exp(draw.uniform(math.log(low), math.log(high + 1))))


def gemm(draw, few_rows):
    if few_rows:
        m, n, k = log_uniform(draw, 16, 512), log_uniform(draw, 512, 16384), log_uniform(draw, 1024, 16384)
    else:
        m, n, k = (log_uniform(draw, low, high) for low, high in ((1, 8192), (64, 16384), (64, 16384)))
    n -= n % draw.choice((8, 8, 8, 2))
    k -= k % draw.choice((8, 8, 8, 8, 2))
    return f"gemm,{{type}},M={m};N={n};K={k}", 2 * m * n * k


def attention(draw):
    batch, kv, group = draw.choice((1, 1, 1, 2, 4, 8)), draw.choice((1, 2, 4, 8, 12)), draw.choice((1, 1, 2, 4, 5, 7))
    width, causal, queries = draw.choice((64, 128)), draw.randrange(2), log_uniform(draw, 64, 8192)
    keys = queries if draw.randrange(3) else int(queries * draw.uniform(1, 3))
    longer = f"Skv={keys};" if keys > queries else ""
    shape = f"B={batch};Hq={kv * group};Hkv={kv};D={width};S={queries};{longer}causal={causal};append=0"
    return f"attention_prefill,{{type}},{shape}", 4 * batch * kv * group * width * queries * keys


def drawn(draw, make, count):
    rows = []
    while len(rows) < count:
        row, flop = make(draw, len(rows))
        if flop <= MOST_FLOP:
            rows.append(row.format(type="fp16" if len(rows) % 3 == 0 else "bf16"))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--each", type=int, default=40)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    rows = drawn(draw, lambda d, i: gemm(d, i % 5 < 2), arguments.each)
    rows += drawn(draw, lambda d, i: attention(d), arguments.each)
    print("op,dtype,shape,cache,clock,held_out")
    for row in rows:
        print(f"{row},cold,burst,yes")


if __name__ == "__main__":
    main()
