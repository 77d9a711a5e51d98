#!/usr/bin/env python3
"""What a stack's call of a collective takes beside NCCL (`collective_call` of data/stacks): one time of two ranks, and a
longer one of more. Prints what the rows of data/measurements/h200_nccl say under the stack's own, under the best for
their training side, and, one size after the other, under the best for all rows of the other sizes. NCCL's own families are
fitted to other rows (tools/fit_collectives.sh).

    tools/fit_collective_call.py [STACK=nccl]      build predict-model first

The stack lends its present call alone, which is taken off its predictions. Standard library only.
"""
import csv
import io
import json
import math
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
ROWS = os.path.join(ROOT, "data", "measurements", "h200_nccl", "h200_sxm")


def microseconds(text):
    number, unit = text.split()
    return float(number) * {"us": 1, "ns": 1e-3, "ms": 1e3}[unit]


def taken(call, ranks):
    return call[0] + (call[1] if ranks > 2 else 0)


def rows_of(side, stack, call):
    """(bytes, ranks, measured, NCCL alone) of each row; microseconds."""
    path = os.path.join(ROWS, f"nccl.{side}.csv")
    program = os.path.join(ROOT, os.environ.get("PLUMBLINE_BUILD", "build"), "bin", "predict-model")
    answer = subprocess.run([program, "ops", "--gpu", "h200_sxm", "--stack", stack, "--in", path],
                            stdout=subprocess.PIPE, text=True, check=True)
    rows = []
    for row in csv.DictReader(io.StringIO(answer.stdout)):
        shape = dict(part.split("=") for part in row["shape"].split(";"))
        ranks = int(shape["gpus"])
        alone = float(row["latency_us"]) - taken(call, ranks)
        rows.append((int(shape["bytes"]), ranks, float(row["measured_us"]), alone))
    return rows


def error(row, call):
    return math.log((row[3] + taken(call, row[1])) / row[2])


def fitted(rows):
    """Least sum of absolute errors over a grid of 0.05 us, the sizes weighing alike."""
    best = None
    for fixed in range(0, 121):
        for more in range(0, 81):
            call = (fixed * 0.05, more * 0.05)
            loss = sum(abs(error(row, call)) for row in rows)
            if best is None or loss < best[0]:
                best = (loss, call)
    return best[1]


def spread(errors):
    ordered = sorted(abs(e) for e in errors)
    return f"n={len(ordered)} median {100 * ordered[len(ordered) // 2]:.1f} % p90 {100 * ordered[int(0.9 * (len(ordered) - 1))]:.1f} %"


def main(arguments):
    stack = arguments[0] if arguments else "nccl"
    with open(os.path.join(ROOT, "data", "stacks", stack + ".json"), encoding="utf-8") as f:
        now = json.load(f)["collective_call"]
    call = (microseconds(now["fixed"]), microseconds(now["more_than_two"]))
    train, held_out = rows_of("train", stack, call), rows_of("heldout", stack, call)
    for label, of in (("below 1 MiB", lambda r: r[0] < 1 << 20), ("from 1 MiB on", lambda r: r[0] >= 1 << 20)):
        print(f"as it stands, {label}: {spread([error(r, call) for r in train + held_out if of(r)])}")
    found = fitted(train)
    print(f"fixed {found[0]:.2f} us, more than two {found[1]:.2f} us: training rows {spread([error(r, found) for r in train])}, "
          f"held out {spread([error(r, found) for r in held_out])}")
    all_rows = train + held_out
    for label, of in (("below 1 MiB", lambda r: r[0] < 1 << 20), ("from 1 MiB on", lambda r: r[0] >= 1 << 20)):
        print(f"  all rows {label}: {spread([error(r, found) for r in all_rows if of(r)])}")
    left_out_by_size = {}
    for size in sorted({row[0] for row in all_rows}):
        without = fitted([row for row in all_rows if row[0] != size])
        left_out = left_out_by_size[size] = [error(row, without) for row in all_rows if row[0] == size]
        print(f"  without {size}: fixed {without[0]:.2f}, more than two {without[1]:.2f}: {spread(left_out)}")
    for label, of in (("below 1 MiB", lambda s: s < 1 << 20), ("from 1 MiB on", lambda s: s >= 1 << 20)):
        errors = [e for size, left_out in left_out_by_size.items() if of(size) for e in left_out]
        print(f"  each size by a fit without it, {label}: {spread(errors)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
