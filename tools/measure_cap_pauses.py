#!/usr/bin/env python3
"""Over how long does a card's regulator take the mean that it holds at the cap?

Products run back to back for three quarters of a period and a kernel of one thread spins for the last quarter, over
periods from 20 ms to 4 s. Where the regulator looks back over whole periods, products run faster than without pauses:
what the pause leaves of the cap is theirs. Where it forgets a pause, they take what they take without one.

    measure_cap_pauses.py > pauses.csv
    measure_cap_pauses.py --passes > phases.csv    in place of pauses half of a period are sums of columns, far below the cap
    measure_cap_pauses.py [--passes] --share 0.5 --periods 0.03,0.1 > other.csv    other shares and periods (s)
"""
import argparse
import time

import pynvml
import torch

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--passes", action="store_true")
PARSER.add_argument("--share", type=float)
PARSER.add_argument("--periods", default="0.02,0.06,0.2,0.6,2,4")
ARGUMENTS = PARSER.parse_args()
PERIODS_S = (0, *map(float, ARGUMENTS.periods.split(",")))
PASSES = ARGUMENTS.passes
WAITING = ARGUMENTS.share or (0.5 if PASSES else 0.25)
LEAST_S = 4.0
PASS_S = 41.5e-6


def rest(period, columns):
    """What fills the rest of a period."""
    if not period:
        return
    if not PASSES:
        torch.cuda._sleep(int(period * WAITING * 1.8e9))
        return
    for _ in range(round(period * WAITING / PASS_S)):
        torch.sum(columns, 0)


def run(period, tensors, product_s, board):
    """(seconds of a product, share that waited, mean W, mean MHz that the board says) over all but the first second."""
    a, b, out, columns = tensors
    work = max(1, round((period * (1 - WAITING) or 0.1) / product_s))
    begin, rows, clocks, first = time.perf_counter(), [], [], None
    while time.perf_counter() - begin < max(LEAST_S, 3 * period):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        marks[0].record()
        for _ in range(work):
            torch.mm(a, b, out=out)
        marks[1].record()
        rest(period, columns)
        marks[2].record()
        clocks.append(pynvml.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_SM))
        if len(rows) > 1:  # two periods are queued at most, so that none waits for the host
            rows[-2][2].synchronize()
        rows.append(marks)
        if first is None and time.perf_counter() - begin > max(1.0, period):
            rows[-1][2].synchronize()
            first = len(rows), time.perf_counter(), pynvml.nvmlDeviceGetTotalEnergyConsumption(board)
    torch.cuda.synchronize()
    joules = (pynvml.nvmlDeviceGetTotalEnergyConsumption(board) - first[2]) / 1e3
    took = time.perf_counter() - first[1]
    kept = rows[first[0]:]
    busy = sum(m[0].elapsed_time(m[1]) for m in kept)
    idle = sum(m[1].elapsed_time(m[2]) for m in kept)
    return busy / len(kept) / work / 1e3, idle / (busy + idle), joules / took, sum(clocks) / len(clocks)


def main():
    pynvml.nvmlInit()
    board = pynvml.nvmlDeviceGetHandleByIndex(0)
    torch.manual_seed(0)
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    columns = torch.randn(16384, 3072, device="cuda", dtype=torch.bfloat16)
    torch.mm(a, b, out=out)
    torch.cuda.synchronize()
    tensors = a, b, out, columns
    print("card,period_s,product_us,waited,mean_W,said_MHz")
    name = torch.cuda.get_device_name()
    product_s = 1.65e-3
    for period in PERIODS_S:
        took, waited, watts, clock = run(period, tensors, product_s, board)
        if not period:
            product_s = took
        print(f"{name},{period},{took * 1e6:.1f},{waited:.3f},{watts:.1f},{clock:.0f}", flush=True)
    took, waited, watts, clock = run(0, tensors, product_s, board)
    print(f"{name},0,{took * 1e6:.1f},{waited:.3f},{watts:.1f},{clock:.0f}", flush=True)


if __name__ == "__main__":
    main()
