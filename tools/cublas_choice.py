#!/usr/bin/env python3
"""Writes model/stacks/cublas/choice_net.hpp: which of its kernels of any tile ("nvjet") cuBLASLt takes on Hopper.

    tools/cublas_choice.py; ./dev format          (needs PyTorch; some ten minutes of two cores)

Trained on cuBLASLt's answers for single products in fp16, bf16 and fp8 with one scale
(data/measurements/h200/pytorch/choices.csv.gz, choices_third.csv.gz); no shape that is held out is read. Nothing of it is a
measured time. A cost, likely() of choice.cpp, is trained to say which kernel is taken, as a softmax over all of them; of the
forty likeliest (sixteen in the model, which names the same) a net says which, by what features() of choice.cpp lists, in the same order. Six of seven shapes are trained on,
what is said of the others is printed.
"""
import collections
import csv
import glob
import gzip
import math
import os
import random
import re

import torch

import trace_products

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FOLDER = os.path.join(ROOT, "data", "measurements", "h200", "pytorch")
OUT = os.path.join(ROOT, "model", "stacks", "cublas", "choice_net.hpp")
HEADER = "/usr/local/cuda/include/cublasLt.h"  # which tile a number of cuBLASLt stands for
KINDS = {"fp16": "fp16", "bf16": "bf16", "fp8_tensor": "fp8"}
ANY_TILE = "66"  # cuBLASLt's number of these kernels
SMS, PAIRS_AND_SINGLE, LARGER = 132.0, 132, 120
MOST_PARTS, LEAST_STEPS, WIDTH = 8, 12, 16
LIKELIEST, LOOKED_AT = 40, 16  # trained on, asked about
SHAPES = ((2, 4), (4, 2), (1, 4), (4, 1), (2, 2), (1, 2), (2, 1))  # clusters.cpp: CTAs along M, along N
PARTS = torch.arange(1, MOST_PARTS + 1, dtype=torch.float32)


def tiles_by_number():
    with open(HEADER, encoding="ascii", errors="replace") as text:
        found = re.findall(r"CUBLASLT_MATMUL_TILE_(\d+)x(\d+)\s*=\s*(\d+)", text.read())
    return {int(number): (int(n), int(m)) for n, m, number in found}


def held_out_rows():
    for path in glob.glob(os.path.join(ROOT, "data", "measurements", "*_pytorch", "*", "*.heldout.csv")):
        with open(path, encoding="ascii") as text:
            for row in csv.DictReader(text):
                if row["op"] == "gemm":
                    sizes = dict(pair.split("=") for pair in row["shape"].split(";"))
                    yield (row["dtype"], *(int(sizes[key]) for key in "MNK"), sizes.get("layout", "nk"))


def answers():
    """Of products (type, M, N, K, weights [K,N]): along N and M, whether rows lie along N, parts."""
    held, tiles = set(held_out_rows()), tiles_by_number()
    out = {}
    for name in ("choices", "choices_third"):
        with gzip.open(os.path.join(FOLDER, f"{name}.csv.gz"), "rt", encoding="ascii") as text:
            for row in csv.DictReader(text):
                if row["type"] not in KINDS or row["algo"] != ANY_TILE or row["batch"] != "1" or int(row["splitk"]) > MOST_PARTS:
                    continue
                m, n, k = (int(row[key]) for key in "MNK")
                across = row["layout"] == "kn"
                if trace_products.held_out(n, k, m, kn=across) or trace_products.held_out(n, k, m):
                    continue
                if (KINDS[row["type"]], m, n, k, row["layout"]) not in held:
                    out[row["type"], m, n, k, across] = (*tiles[int(row["tile"])], int(row["custom"]) % 2 == 1, int(row["splitk"]))
    return out


def clusters(tiles_m, tiles_n, parts, a, w):
    """cluster_of() of clusters.cpp for all kernels at once: CTAs along M, along N, tiles with padding."""
    turns = torch.ceil(tiles_m * tiles_n * parts / SMS - 1e-6)
    one = torch.ones_like(turns)
    size, rows, cols, least, asks = one, one, one, tiles_m * tiles_n * one, (a + w) * one
    for r, c in SHAPES:
        padded_m, padded_n = r * torch.ceil(tiles_m / r), c * torch.ceil(tiles_n / c)
        tiles = padded_m * padded_n
        taken = (torch.ceil(tiles * parts / (LARGER if r * c > 2 else PAIRS_AND_SINGLE) - 1e-6) <= turns) & (size <= r * c)
        taken &= (padded_m < 2 * tiles_m) | torch.tensor(r == 1)
        taken &= (padded_n < 2 * tiles_n) | torch.tensor(c == 1)
        if r * c > 2:
            taken &= tiles <= 4 / 3 * tiles_m * tiles_n
        here = a / c + w / r
        taken &= ~((size > 1) & ((tiles > least) | ((tiles >= least) & (here >= asks))))
        size, rows, cols = (torch.where(taken, new * one, old) for new, old in ((r * c, size), (r, rows), (c, cols)))
        least, asks = torch.where(taken, tiles * one, least), torch.where(taken, here * one, asks)
    return rows, cols, least, size


class Kernels:
    """All tiles by all parts, for products side by side: tensors are [product, tile, parts]."""

    def __init__(self, tiles):
        self.tiles = tiles
        self.n, self.m = (torch.tensor([float(tile[i]) for tile in tiles])[None, :, None] for i in (0, 1))

    def cut(self, products):
        def column(i):
            return torch.tensor([float(p[i]) for p in products])[:, None, None]
        d = {"m": column(1), "n": column(2), "k": column(3), "across": column(4)}
        d["bytes"] = torch.tensor([1.0 if p[0] == "fp8_tensor" else 2.0 for p in products])[:, None, None]
        d["tiles_m"], d["tiles_n"] = torch.ceil(d["m"] / self.m), torch.ceil(d["n"] / self.n)
        d["steps"] = torch.ceil(d["k"] * d["bytes"] / 128)
        d["deep"] = torch.ceil(d["steps"] / PARTS)
        d["rows"], d["cols"], padded, size = clusters(d["tiles_m"], d["tiles_n"], PARTS, self.m + 0 * PARTS, self.n + 0 * PARTS)
        d["ctas"], d["bare"] = padded * PARTS, d["tiles_m"] * d["tiles_n"] * PARTS
        d["turns"] = torch.ceil(d["ctas"] / torch.where(size > 2.5, float(LARGER), float(PAIRS_AND_SINGLE)) - 1e-6)
        d["asked"] = (self.m / d["cols"] + self.n / d["rows"]) / 128
        d["valid"] = ~(((PARTS > 1) & ((d["turns"] > 1.5) | (d["deep"] < LEAST_STEPS)))
                       | ((self.m > 64) & (self.m >= 2 * d["m"])) | ((self.n > 64) & (self.n >= 2 * d["n"])))
        return d

    def places(self, taken):
        at = {tile[:2]: i for i, tile in enumerate(self.tiles)}
        return torch.tensor([at[answer[:2]] * MOST_PARTS + answer[3] - 1 for answer in taken])

    def features(self, d):
        """As features() of choice.cpp lists them, but for the last, how likely the cost says it is."""
        log, waves = torch.log, d["bare"] / SMS

        def whole(side, of):
            return (side % of == 0).float()
        listed = [log(d["ctas"] / SMS), log(d["turns"]), waves - torch.floor(waves - 1e-6), log(waves),
                  log(self.n * self.m / 16384), log(self.n / 64), log(self.m / 64), log(PARTS), (PARTS > 1).float(),
                  log(d["steps"]), log(d["deep"]), log(d["tiles_m"]), log(d["tiles_n"]), log(d["m"] / 128), log(d["n"] / 1024),
                  d["bytes"], log(d["rows"]), log(d["cols"]), log(d["asked"]),
                  log(d["asked"] * torch.clamp(d["ctas"] / SMS, max=1.0)), log(d["tiles_m"] * self.m / d["m"]),
                  log(d["tiles_n"] * self.n / d["n"]), whole(self.n, 64), whole(self.m, 64), whole(self.n, 128),
                  whole(self.m, 128), (self.n * self.m > 22528).float(), log(d["m"] * d["n"] / 1e6), (d["turns"] == 1).float(),
                  d["across"]]
        return torch.stack([one + torch.zeros_like(waves) for one in listed], -1)


class Cost(torch.nn.Module):
    """likely() of choice.cpp; its numbers are in the order of ChoiceCost."""

    def __init__(self, kernels):
        super().__init__()
        self.kernels = kernels
        start = [0.27, 7.3, 2.37, 38, 70, 12.8, 5.6, 0.43, 2.8e-6, 4.6, 100, 15, 1e-4, 0.025]
        self.logs = torch.nn.Parameter(torch.log(torch.tensor(start)))

    def numbers(self):
        x = torch.exp(self.logs)
        return torch.cat([x[:9], 1 + x[9:10], x[10:]])

    def forward(self, d):
        (step, step_area, step_sides, end, end_area, end_sides, shared, alone, dram, power, fixed, second, second_sum,
         spread) = self.numbers()
        area, sides = self.kernels.n * self.kernels.m / 16384, (self.kernels.n + self.kernels.m) / 128
        l2 = d["asked"] * (shared * torch.clamp(d["ctas"] / SMS, max=1.0) + alone)
        memory = (d["m"] + d["n"]) * 128 * dram / d["turns"]
        each = ((step + step_area * area + step_sides * sides) ** power + l2 ** power + memory ** power) ** (1 / power)
        total = d["turns"] * (d["deep"] * each + end + end_area * area + end_sides * sides) + fixed
        total = total + (PARTS > 1) * (second + second_sum * d["m"] * d["n"] * PARTS)
        return (-torch.log(total) / spread).masked_fill(~d["valid"], -1e9).flatten(1)


def train(model, rates, batch, loss_of, count):
    optimizer = torch.optim.Adam(model.parameters(), lr=rates[0])
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        order, total = torch.randperm(count), 0.0
        for i in range(0, count, batch):
            some = order[i:i + batch]
            loss = loss_of(some)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(some)
        print(f"loss {total / count:.4f}", flush=True)


def train_cost(kernels, products, places):
    cost, cut = Cost(kernels), kernels.cut(products)

    def loss_of(some):
        return torch.nn.functional.cross_entropy(cost({k: v[some] if len(v) > 1 else v for k, v in cut.items()}), places[some])
    train(cost, [0.05 * 0.85 ** i for i in range(15)], 512, loss_of, len(products))
    return cost


def likeliest(kernels, cost, products, places):
    """Features of the likeliest kernels and which of them was taken (-100: none)."""
    features, taken = [], []
    with torch.no_grad():
        for i in range(0, len(products), 256):
            cut = kernels.cut(products[i:i + 256])
            score, at = cost(cut).topk(LIKELIEST, 1)
            every = kernels.features(cut).flatten(1, 2)
            some = torch.gather(every, 1, at[:, :, None].expand(-1, -1, every.shape[-1]))
            features.append(torch.cat([some, torch.clamp(score - score[:, :1], min=-30)[:, :, None]], -1))
            hit = at == places[i:i + 256, None]
            taken.append(torch.where(hit.any(1), hit.float().argmax(1), torch.tensor(-100)))
    return torch.cat(features), torch.cat(taken)


def train_net(features, taken, count):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(features.shape[-1], WIDTH), torch.nn.SiLU(), torch.nn.Linear(WIDTH, WIDTH),
                              torch.nn.SiLU(), torch.nn.Linear(WIDTH, 1))
    passes = 36
    rates = [6e-3 * (1 - i / passes) + 1e-4 for i in range(passes)]
    train(net, rates, 256, lambda some: torch.nn.functional.cross_entropy(net(features[some])[..., 0], taken[some]), count)
    with torch.no_grad():
        right = net(features[count:])[..., 0].argmax(1) == taken[count:]
    print(f"of {len(right)} answers left out {100 * right.float().mean().item():.1f} % are named")
    return net


HEAD = """// Which kernel cuBLASLt answers for a product (tools/cublas_choice.py writes it).
#pragma once

#include <array>
#include <cstddef>

#include "model/stacks/cublas/choice.hpp"

namespace plumbline::cublas {{

/// In units of a step of the fit, but for `power` and `spread`.
struct ChoiceCost {{
  double step, step_area, step_sides;
  double end, end_area, end_sides;
  double l2_shared, l2_alone, dram, power;
  double fixed, second, second_sum, spread;
}};
inline constexpr ChoiceCost kChoiceCost{{{cost}}};

inline constexpr std::size_t kLikeliest = {likeliest}, kChoiceFeatures = {features}, kChoiceWidth = {width};

inline constexpr std::array<AnyTile, {tiles}> kAnyTiles{{{{
"""


def number(value):
    text = f"{float(value):.5g}"
    return text + ("F" if "." in text or "e" in text else ".0F")


def write(cost, tiles, mean, scale, net):
    first, first_bias, second, second_bias, last = (net[i].weight.double() if weight else net[i].bias.double()
                                                    for i, weight in ((0, 1), (0, 0), (2, 1), (2, 0), (4, 1)))
    first_bias = first_bias - (first * mean / scale).sum(1)
    first = first / scale
    with open(OUT, "w", encoding="ascii") as out:
        def items(listed, end):
            line = "   "
            for item in listed:
                if len(line + item) > 117:
                    out.write(line + "\n")
                    line = "   "
                line += f" {item},"
            out.write(f"{line}\n{end};\n\n")
        out.write(HEAD.format(cost=", ".join(f"{float(x):.5g}" for x in cost.numbers()), likeliest=LOOKED_AT,
                              features=first.shape[1], width=WIDTH, tiles=len(tiles)))
        items((f"{{{n}, {m}, {str(swapped).lower()}}}" for n, m, swapped in tiles), "}}")
        for name, weights, bias in (("First", first, first_bias), ("Second", second, second_bias)):
            by_input = torch.cat([weights, bias[:, None]], 1).T
            out.write("/// By input; the last row is added.\n"
                      f"inline constexpr std::array<std::array<float, kChoiceWidth>, {len(by_input)}> kChoice{name}{{{{\n")
            items(("{" + ", ".join(map(number, row)) + "}" for row in by_input), "}}")
        out.write("inline constexpr std::array<float, kChoiceWidth> kChoiceLast{\n")
        items(map(number, last[0]), "}")
        out.write("}  // namespace plumbline::cublas\n")


def main():
    every = answers()
    seen = collections.Counter(answer[:2] for answer in every.values())
    rows_along_n = {answer[:2]: answer[2] for answer in every.values()}
    tiles = [(*tile, rows_along_n[tile]) for tile in sorted(seen) if seen[tile] >= 3]
    known = {tile[:2] for tile in tiles}
    asked = sorted((product, answer) for product, answer in every.items() if answer[:2] in known)
    random.Random(1).shuffle(asked)
    products, count = [product for product, _ in asked], len(asked) * 6 // 7
    print(f"{len(asked)} answers, {len(tiles)} tiles")
    kernels = Kernels(tiles)
    places = kernels.places([answer for _, answer in asked])
    torch.manual_seed(0)
    some = min(8000, count)
    cost = train_cost(kernels, products[:some], places[:some])
    features, taken = likeliest(kernels, cost, products, places)
    mean, scale = features[:count].mean((0, 1)), features[:count].std((0, 1)) + 1e-6
    net = train_net((features - mean) / scale, taken, count)
    write(cost, tiles, mean.double(), scale.double(), net)


if __name__ == "__main__":
    main()
