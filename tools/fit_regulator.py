#!/usr/bin/env python3
"""How fast an H200's regulator moves the clock: `regulator_pace_per_s` of data/calibration/h200_sxm.json.

    tools/fit_regulator.py [--sums 480] [--paces 8,10,12,15]

For each pace follows the clock through products of 8192^3 beside pauses or sums of columns, as model/predictor/regulator.hpp
has it, and prints how far the time of a product and the mean power are from the three series of
data/measurements/h200/pytorch/cap_*.csv (100 ln, root of the mean square). Time and power of a product over the clock are
what predict-model says of them (build it first); `--sums`: watts of the sums of columns beside products, 127 W of pauses.
"""
import argparse
import bisect
import csv
import json
import math
import os
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BOOST_MHZ, AIM_W, PAUSE_W = 1980, 690, 127
STEP_S = 2e-4


def product_over_clock():
    """[(share of the boost clock, seconds, watts)]"""
    found = []
    for clock in range(1200, 1980, 60):
        run = subprocess.run([os.path.join(ROOT, "build", "bin", "predict-model"), "op", "gemm", "M=8192", "N=8192", "K=8192", "--gpu",
                              "h200", "--stack", "hf-sdpa", "--clock", "steady", "--power-cap", "1500", "--sm-clock", str(clock),
                              "--format", "json"], capture_output=True, text=True, check=True)
        said = json.loads(run.stdout)
        found.append((clock / BOOST_MHZ, said["latency_s"], said["power_W"]))
    return found + [(1.0, found[-1][1], found[-1][2])]


def between(table, share, column):
    i = min(max(bisect.bisect([row[0] for row in table], share), 1), len(table) - 1)
    low, high = table[i - 1], table[i]
    return low[column] + (high[column] - low[column]) * (share - low[0]) / (high[0] - low[0])


def follow(table, pace, period, waiting, rest_watts, at_cap):
    """(time of a product, of its time at the cap; mean watts) once a period is as the one before it"""
    work, share, step = (1 - waiting) * period, 0.9, min(period / 100, STEP_S * 5)
    for _ in range(max(4, int(1.0 / period))):
        done = busy = joules = 0.0
        while done < work:
            watts = between(table, share, 2)
            done += step * at_cap / between(table, share, 1)
            busy += step
            joules += step * watts
            share = min(1.0, share - pace * (watts / AIM_W - 1) * step)
        rest = waiting * period
        share = min(1.0, share + pace * (1 - rest_watts / AIM_W) * rest)
        joules += rest * rest_watts
    return busy / work, joules / (busy + rest)


def series(sums):
    """[(period, share that waits, watts meanwhile, time of a product / at the cap, watts)] of the three files."""
    rows = []
    for name, beside, share in (("cap_pauses", "pauses", 0.25), ("cap_phases", "sums", 0.5), ("cap_thirds", None, None)):
        with open(os.path.join(ROOT, "data", "measurements", "h200", "pytorch", name + ".csv"), encoding="utf-8") as text:
            lines = list(csv.DictReader(text))
        for kind in {line.get("beside", beside) for line in lines}:
            kept = [line for line in lines if line.get("beside", beside) == kind]
            alone = [float(line["product_us"]) for line in kept if float(line["period_s"]) == 0]
            rows += [(float(line["period_s"]), float(line.get("share", share)), PAUSE_W if kind == "pauses" else sums,
                      float(line["product_us"]) * len(alone) / sum(alone), float(line["mean_W"]))
                     for line in kept if float(line["period_s"]) > 0]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sums", type=float, default=480)
    parser.add_argument("--paces", default="8,10,12,15,20")
    args = parser.parse_args()
    table = product_over_clock()
    held = sorted(table, key=lambda row: abs(row[2] - AIM_W))[:2]
    at_cap = held[0][1] + (held[1][1] - held[0][1]) * (AIM_W - held[0][2]) / (held[1][2] - held[0][2])
    rows = series(args.sums)
    for pace in map(float, args.paces.split(",")):
        said = [follow(table, pace, *row[:3], at_cap) for row in rows]
        off = [100 * math.log(time / row[3]) for (time, _), row in zip(said, rows)]
        power = [100 * math.log(watts / row[4]) for (_, watts), row in zip(said, rows)]
        rms = [math.sqrt(sum(e * e for e in errors) / len(errors)) for errors in (off, power)]
        print(f"pace {pace:g} a second, {len(rows)} rows: time {rms[0]:.2f} rms, {max(map(abs, off)):.1f} worst; power {rms[1]:.2f} rms, "
              f"{max(map(abs, power)):.1f} worst")


if __name__ == "__main__":
    main()
