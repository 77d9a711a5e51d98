#!/usr/bin/env python3
"""Finds what a stack's host takes, on training rows of whole models: least squares of measured / predicted - 1.

    tools/fit_stack_host.py STACK KEY[,KEY...] GPU:ROWS.train.csv... [--where COLUMN=VALUE]...

STACK is a file of data/stacks, KEY a time in it: host.each_launch, host.each_step, host.each_prompt, host.each_sequence,
collective_call.fixed, collective_call.more_than_two. How much a row grows with each is what `validate compare` says with
the time a little longer, so steps that do not wait for the host do not count for each_launch. Prints the times and what
the rows are off by before and after. Standard library only; `validate` must be built.
"""
import csv
import io
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
VALIDATE = os.path.join(ROOT, os.environ.get("PLUMBLINE_BUILD", "build"), "bin", "validate")


def predicted(stack, times, lists, where):
    """(measured, predicted) in microseconds of every row, with `times` in the stack."""
    changed = json.loads(json.dumps(stack))
    for key, value in times.items():
        part, name = key.split(".")
        entry = changed.setdefault(part, {"source": "being fitted"})
        if part == "collective_call":
            entry.setdefault("fixed", "0 us")
            entry.setdefault("more_than_two", "0 us")
        if value > 0:
            entry[name] = f"{value:.9g} us"
        elif part == "host":
            entry.pop(name, None)
    if "host" in changed and set(changed["host"]) == {"source"}:
        del changed["host"]
    out = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stack.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(changed, f)
        for gpu, rows in lists:
            command = [VALIDATE, "compare", rows, "--gpu", gpu, "--stack", path, "--format", "csv"]
            for condition in where:
                command += ["--where", condition]
            text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
            for row in csv.DictReader(io.StringIO(text)):
                if not row["error"]:
                    out.append((float(row["measured_us"]), float(row["predicted_us"])))
    return out


def solved(matrix, right):
    """By Gauss; a singular one throws ZeroDivisionError."""
    n = len(right)
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(n):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def off(pairs):
    errors = sorted(abs(100 * math.log(p / m)) for m, p in pairs)
    return f"{len(errors)} rows, median {errors[len(errors) // 2]:.1f} %, 90th percentile {errors[int(0.9 * len(errors))]:.1f} %"


def main(arguments):
    where = [arguments[i + 1] for i, a in enumerate(arguments[:-1]) if a == "--where"]
    plain = [a for i, a in enumerate(arguments) if a != "--where" and (i == 0 or arguments[i - 1] != "--where")]
    if len(plain) < 3:
        print("usage: fit_stack_host.py STACK KEY[,KEY...] GPU:ROWS... [--where COLUMN=VALUE]...", file=sys.stderr)
        return 2
    with open(plain[0], encoding="utf-8") as f:
        stack = json.load(f)
    keys = plain[1].split(",")
    lists = [tuple(each.split(":", 1)) for each in plain[2:]]
    times = {key: 1e-3 for key in keys}
    print("before:", off(predicted(stack, times, lists, where)))
    for key in keys:  # so that a step that can wait for the host does
        times[key] = 40.0 if key == "host.each_launch" else times[key]
    for _ in range(6):
        base = predicted(stack, times, lists, where)
        slopes = []
        for key in keys:
            longer = times | {key: 1.01 * times[key] + 1}
            grown = predicted(stack, longer, lists, where)
            slopes.append([(b - a) / (longer[key] - times[key]) / m for (m, a), (_, b) in zip(base, grown)])
        residuals = [(m - p) / m for m, p in base]
        matrix = [[sum(a * b for a, b in zip(x, y)) for y in slopes] for x in slopes]
        steps = solved(matrix, [sum(a * r for a, r in zip(x, residuals)) for x in slopes])
        times = {key: max(1e-3, times[key] + step) for key, step in zip(keys, steps)}
    print("after: ", off(predicted(stack, times, lists, where)))
    for key, value in times.items():
        print(f"{key}: {value:.4g} us")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
