#!/usr/bin/env python3
"""Makes data/studies/whatif/area_budget.json: what a GPU would be if some more silicon went into one of its parts.

    tools/area_budget.py            prints the study
    tools/area_budget.py --areas    prints what the areas of data/studies/areas.json add up to, die by die

Each design spends the same area (areas.json, budget.mm2) on SMs, L2, channels of HBM or the tensor rate, at the low, the
likely and the high area of that part; whole units, as many as fit. Standard library only.
"""

import json
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
CHANNELS = 16  # of 64 bits, in a site of 1024 (JEDEC JESD238, HBM3)
RANGE = ("likely", "low", "high")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return json.load(file)


def number(text):
    """The number in front of a unit."""
    return float(text.split()[0])


class Budget:
    """The card as it is, and what the area buys."""

    def __init__(self):
        self.areas = read("data/studies/areas.json")
        budget = self.areas["budget"]
        self.gpu, self.mm2, self.die = budget["gpu"], budget["mm2"], self.areas["die"]
        card = read(f"data/gpus/{self.gpu}.json")
        family = read(f"data/gpus/family/{card['extends'].split(':')[1]}.json")
        self.sms = card["sm_count"]
        self.l2 = number(card["l2"]["size"])
        self.bandwidth = number(card["memory"]["bandwidth"])
        self.rate = family["sm"]["tensor_flop_per_clk"]["bf16"]
        self.tdp = number(card["tdp"])

    def area(self, part, which):
        return self.areas["parts"][part][which]

    def more_sms(self, which):
        built = int(self.mm2 / self.area("sm", which))
        return built * self.sms // self.die["sms"]

    def more_l2(self, which):
        return int(self.mm2 / self.area("l2_MiB", which))

    def more_channels(self, which):
        return int(self.mm2 / (self.area("hbm_site", which) / CHANNELS))

    def more_rate(self, which):
        """As a share of the rate of today; it is of every SM that is built."""
        return self.mm2 / (self.die["sms"] * self.area("tensor_doubled", which))

    def designs(self):
        """(label, SMs, MiB of L2, GB/s, FLOP a clock and SM)"""
        today = (self.sms, self.l2, self.bandwidth, self.rate)
        out = [("as it is", *today)]
        for which in RANGE:
            out.append((f"SMs, {which} area", self.sms + self.more_sms(which), *today[1:]))
        for which in RANGE:
            out.append((f"L2, {which} area", self.sms, self.l2 + self.more_l2(which), *today[2:]))
        for which in RANGE:
            more = self.more_channels(which) / (CHANNELS * self.die["hbm_sites"])
            out.append((f"HBM, {which} area", *today[:2], self.bandwidth * (1 + more), self.rate))
        for which in RANGE:
            # in steps of 64 FLOP a clock: a row of eight multiply-adds in each of the four tensor cores
            out.append((f"tensor rate, {which} area", *today[:3], self.rate + int(self.rate * self.more_rate(which) / 64) * 64))
        return out

    def study(self):
        designs = self.designs()
        columns = list(zip(*designs))
        more_power = round(self.tdp / self.die["area_mm2"] * self.mm2)
        names = ["label", "set.sm_count", "set.l2.size", "set.memory.bandwidth", "set.sm.tensor_flop_per_clk.bf16"]
        texts = [
            list(columns[0]),
            [f"{n:.0f}" for n in columns[1]],
            [f"{n:.0f}MiB" for n in columns[2]],
            [f"{n:.0f}GB/s" for n in columns[3]],
            [f"{n:.0f}" for n in columns[4]],
        ]
        return {
            "schema": 1,
            "note": f"What {self.mm2} mm2 more silicon buy on an H200, in one part at a time, and {more_power} W more power: "
            "made by tools/area_budget.py from data/studies/areas.json.",
            "base": {"command": "llm", "model": "llama-3.1-70b", "gpu": self.gpu.split("_")[0], "phase": "generate", "tp": 4,
                     "batch": 32, "prompt": 2048, "output": 256},
            "axes": [
                {"name": "set.tdp", "values": [f"{self.tdp:.0f}W", f"{self.tdp + more_power:.0f}W"]},
                {"zip": [{"name": name, "values": values} for name, values in zip(names, texts)]},
            ],
            "columns": ["ttft_s", "tpot_s", "tokens_per_s", "tokens_per_J", "power_W"],
        }  # fmt: skip

    def sums(self):
        """(die, what its parts add up to, what it has)"""
        parts, die = self.areas["parts"], self.areas["die"]
        old = self.areas["adds_up"]["GA100"]
        gh100 = (die["sms"] * parts["sm"]["likely"] + die["l2_MiB"] * parts["l2_MiB"]["likely"]
                 + die["hbm_sites"] * parts["hbm_site"]["likely"] + die["nvlinks"] * parts["nvlink"]["likely"]
                 + die["pcie_lanes"] * parts["pcie_lane"]["likely"])  # fmt: skip
        ga100 = (old["sms"] * old["sm"] + old["l2_MiB_count"] * old["l2_MiB"] + old["hbm_sites"] * old["hbm_site"]
                 + old["nvlinks"] * old["nvlink"] + old["pcie_lanes"] * old["pcie_lane"])  # fmt: skip
        return [("GA100", ga100, old["area_mm2"]), (die["name"], gh100, die["area_mm2"])]


def line_of(value):
    return json.dumps(value, ensure_ascii=False)


def text_of(study):
    """JSON as the other studies have it: an axis a line."""
    axes = []
    for axis in study["axes"]:
        if "zip" in axis:
            axes.append('{"zip": [' + ",\n           ".join(line_of(each) for each in axis["zip"]) + "]}")
        else:
            axes.append(line_of(axis))
    parts = [f'{line_of(key)}: ' + ("[" + ",\n          ".join(axes) + "]" if key == "axes" else line_of(value))
             for key, value in study.items()]  # fmt: skip
    return "{" + ",\n ".join(parts) + "}\n"


def main():
    budget = Budget()
    if sys.argv[1:] == ["--areas"]:
        for die, found, has in budget.sums():
            print(f"{die}: parts add up to {found:.0f} mm2 of {has}")
    elif not sys.argv[1:]:
        sys.stdout.write(text_of(budget.study()))
    else:
        sys.exit("usage: tools/area_budget.py [--areas]")


if __name__ == "__main__":
    main()
