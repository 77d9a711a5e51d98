#!/usr/bin/env python3
"""Writes model/stacks/cublas/lane_answers.hpp and tile_answers*.hpp: which kernels cuBLAS takes for products in fp32 and in tf32.

    tools/cublas_answers.py; ./dev format          (half a minute)

Of cuBLASLt's answers for training shapes (data/measurements/h200/pytorch/choices.csv.gz, choices_third.csv.gz,
choices_fourth.csv.gz, choices_fifth.csv.gz; no shape that is held out is read) it keeps those for which the nearest of the ones before would take a tenth
more or less time than the answer itself, by what tiles take of an SM; in tf32 all. (Of those for which the nearest would name
another kernel there are 20,840, with which held-out products are 4.71 % off in the mean, with all 4.65.) The nearest is found as
answers.cpp finds it.
"""
import csv
import glob
import gzip
import json
import math
import os
import random

import trace_products

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FOLDER = os.path.join(ROOT, "data", "measurements", "h200", "pytorch")
OUT = os.path.join(ROOT, "model", "stacks", "cublas")
# cuBLASLt's number of a tile (its rows are columns of PyTorch's result): place in kLaneTiles, rows along M, columns, CTAs that an
# SM holds, clocks a column of K of one among others, of one alone, of its epilogue
TILES = {20: (0, 128, 128, 2, 160, 176, 9000), 21: (1, 64, 256, 2, 164, 187, 9000), 19: (2, 256, 64, 2, 164, 187, 9000),
         17: (3, 128, 64, 2, 93, 110, 5000), 18: (4, 64, 128, 2, 92, 117, 5000), 15: (5, 64, 64, 4, 52.5, 107, 3000),
         16: (6, 32, 128, 4, 60, 107, 3000), 13: (7, 32, 64, 9, 35.5, 100, 2000), 11: (8, 32, 32, 12, 25, 80, 1500)}
SMS, STEP, PASSES = 132, 8, 2
CHOICES = ("choices", "choices_third", "choices_fourth", "choices_fifth")


def held_out_shapes(dtype):
    for name in ("products", "products_second", "products_third"):
        with gzip.open(os.path.join(FOLDER, f"{name}.jsonl.gz"), "rt", encoding="utf-8") as lines:
            next(lines)
            for case in map(json.loads, lines):
                if case["set"] == "heldout" and case.get("dtype") == dtype:
                    yield case["m"], case["n"], case["k"]


def answers(kind, dtype, layout="nk"):
    held = set(held_out_shapes(dtype))
    for name in CHOICES:
        with gzip.open(os.path.join(FOLDER, f"{name}.csv.gz"), "rt", encoding="ascii") as text:
            for row in csv.DictReader(text):
                m, n, k = (int(row[key]) for key in "MNK")
                if (row["type"], row["layout"], row["batch"]) != (kind, layout, "1") or trace_products.held_out(n, k, m, layout=layout):
                    continue
                if (m, n, k) not in held:
                    yield (m, n, k), row


def lane_answers():
    """M, N, K; tile, parts, whether they meet in place."""
    for shape, row in answers("fp32", "float32"):
        if int(row["tile"]) in TILES:
            yield shape, (TILES[int(row["tile"])], int(row["splitk"]), int(row["custom"]) > 0)


def place(m, n, k, of_sides):
    tiles = lambda side: math.ceil(m / side) * math.ceil(n / side)
    return (3 * math.log(tiles(128)), 1.5 * math.log(tiles(64)), 0.3 * math.log(k), of_sides * math.log(m / n),
            0.3 * math.log(min(m, 256)))


def lane_clocks(shape, answer):
    m, n, k = shape
    (_, rows, columns, held, each, alone, epilogue), parts, in_place = answer
    full, rest = divmod(math.ceil(m / rows) * math.ceil(n / columns) * parts, SMS * held)
    depth = STEP * math.ceil(math.ceil(k / STEP) / parts)
    last = held if held == 2 and full else math.ceil(rest / SMS)
    total = 4000 + full * (max(held * each, alone) * depth + epilogue) + (rest > 0) * (max(last * each, alone) * depth + epilogue)
    sums = m * n * parts / 1e6
    return total + (parts > 1) * (4000 + 500 * sums if in_place else 9000 + 700 * sums + 200 * parts)


def nearest(at, kept):
    return min(kept, key=lambda one: math.dist(one[0], at))


# places in kTf32Tiles
TF32_TILES = {24: 0, 23: 1, 20: 2, 21: 3, 19: 4, 18: 5, 17: 6, 15: 7}
HOPPER = "43"  # cuBLASLt's number of its kernels for sm_90
# small products run its kernels for sm_80: places in kSmallTf32Tiles (model/stacks/cublas/other_types.cpp), behind those above.
# Tiles of 64 x 64 have one CTA an SM, or parts of K until there are two (AMPERE_PAIRS).
AMPERE, AMPERE_TILES, AMPERE_PAIRS = "21", {15: 8, 18: 10, 17: 11}, 9


def held_out_rows(dtype):
    """M, N, K of all rows of PyTorch's products that are held out."""
    for path in glob.glob(os.path.join(ROOT, "data", "measurements", "*_pytorch", "*", "*.heldout.csv")):
        with open(path, encoding="ascii") as text:
            for row in csv.DictReader(text):
                if (row["op"], row["dtype"]) == ("gemm", dtype):
                    sizes = dict(pair.split("=") for pair in row["shape"].split(";"))
                    yield tuple(int(sizes[key]) for key in "MNK")


# cuBLASLt's number of a cluster: place in kTf32Clusters
CLUSTERS = {5: 0, 3: 1, 2: 2, 17: 3, 32: 4, 4: 5, 8: 6, 18: 7, 38: 8, 19: 9, 20: 10, 11: 11, 12: 12, 7: 13, 9: 14, 24: 15, 14: 16, 10: 17,
            33: 18, 15: 19, 25: 20, 43: 21, 6: 22, 16: 23, 13: 24, 30: 25, 50: 26, 41: 27}


OTHER = 12  # what no plan of the model is


def tf32_kernel(shape, row):
    """Places of its tile and cluster, and whether its tiles are swizzled, whether it may cut K."""
    tile, cluster = int(row["tile"]), int(row["cluster"])
    if row["algo"] == HOPPER and tile in TF32_TILES and cluster in CLUSTERS:
        return TF32_TILES[tile], CLUSTERS[cluster], row["swizzle"] != "0", row["splitk"] == "-1"
    if row["algo"] != AMPERE or tile not in AMPERE_TILES:
        return OTHER, 0, False, False
    pairs = tile == 15 and math.ceil(shape[0] / 64) * math.ceil(shape[1] / 64) * int(row["splitk"]) > SMS
    return (AMPERE_PAIRS if pairs else AMPERE_TILES[tile]), 0, False, False


def tf32_answers(layout):
    """Weights [K,N] swap the sides of a kernel's tile and of its cluster: by its name its rows lie along N."""
    held = set(held_out_rows("tf32"))
    for (m, n, k), row in answers("tf32", "tf32", layout):
        kernel = tf32_kernel((m, n), row)
        if (m, n, k) in held or (layout == "nk" and kernel[0] == OTHER):
            continue
        yield ((n, m, k) if layout == "kn" else (m, n, k)), kernel


def condensed(every, place_of, differ):
    placed = [(place_of(*shape), shape, answer) for shape, answer in sorted(set(every))]
    random.Random(3).shuffle(placed)
    kept = [placed[0]]
    for _ in range(PASSES):
        for one in placed:
            near = nearest(one[0], kept)
            if differ(one[1], near[2], one[2]):
                kept.append(one)
    return sorted((shape, answer) for _, shape, answer in kept)


HEAD = """// What cuBLASLt answered for products in {kind} (tools/cublas_answers.py writes it).
#pragma once

#include <array>

#include "model/stacks/cublas/answers.hpp"

namespace plumbline::cublas {{

inline constexpr std::array<{name}, {count}> k{name}s{{{{
"""

def write(name, kind, entries):
    with open(os.path.join(OUT, f"{name.lower()}_answers.hpp"), "w", encoding="ascii") as out:
        out.write(HEAD.format(kind=kind, name=f"{name}Answer", count=len(entries)))
        line = "   "
        for entry in entries:
            text = " {" + ", ".join(map(str, entry)).lower() + "},"
            if len(line + text) > 120:
                out.write(line + "\n")
                line = "   "
            line += text
        out.write(f"{line}\n}}}};\n\n}}  // namespace plumbline::cublas\n")


PACKED = """// What cuBLASLt answered for products in tf32{of} (tools/cublas_answers.py writes it).
#pragma once

#include <array>
#include <cstdint>

namespace plumbline::cublas {{

/// From the highest bit: M, N and K in 17 each, TileAnswer's tile in 4, its cluster in 5, swizzled, cuts.
inline constexpr std::array<std::uint64_t, {count}> k{name}{{{{
"""


def write_packed(file, name, of, entries):
    with open(os.path.join(OUT, file), "w", encoding="ascii") as out:
        out.write(PACKED.format(count=len(entries), name=name, of=of))
        line = "   "
        for (m, n, k), (tile, cluster, swizzled, cuts) in entries:
            packed = 0
            for value, bits in ((m, 17), (n, 17), (k, 17), (tile, 4), (cluster, 5), (swizzled, 1), (cuts, 1)):
                assert 0 <= value < 1 << bits
                packed = packed << bits | int(value)
            text = f" {packed:#x},"
            if len(line + text) > 120:
                out.write(line + "\n")
                line = "   "
            line += text
        out.write(f"{line}\n}}}};\n\n}}  // namespace plumbline::cublas\n")


def main():
    otherwise = lambda shape, a, b: abs(math.log(lane_clocks(shape, a) / lane_clocks(shape, b))) > 0.10
    kept = condensed(lane_answers(), lambda m, n, k: place(m, n, k, 0.15), otherwise)
    write("Lane", "fp32", [(*shape, tile[0], parts, in_place) for shape, (tile, parts, in_place) in kept])
    for layout, file, name, of in (("nk", "tile_answers.hpp", "TileAnswers", ""),
                                   ("kn", "tile_answers_kn.hpp", "TileAnswersKn", " with weights [K,N], N in place of M"),
                                   ("km", "tile_answers_km.hpp", "TileAnswersKm", " with weights [K,N] and x [K,M]")):
        write_packed(file, name, of, sorted(dict(tf32_answers(layout)).items()))


if __name__ == "__main__":
    main()
