#!/usr/bin/env python3
"""Takes out of recordings (`validate run`) what a later recording measured again, so that a case is on file once, with
the conditions it was measured under. Lines of other cases stay as they are, byte for byte.

usage: replaced_cases.py NEW.json OLD.json ...
"""
import json
import sys

KEYS = ("op", "dtype", "shape", "cache", "clock", "kernels", "study", "data")


def key_of(case):
    return tuple(case.get(key) for key in KEYS)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        again = {key_of(case) for case in json.load(file)["cases"]}
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        first = next(i for i, line in enumerate(lines) if line.startswith(' "cases": [')) + 1
        last = next(i for i in range(first, len(lines)) if lines[i] == " ]")
        cases = [line.rstrip(",") for line in lines[first:last]]
        kept = [line for line in cases if key_of(json.loads(line)) not in again]
        lines[first:last] = [line + "," for line in kept[:-1]] + kept[-1:]
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        print(f"{path}: {len(cases) - len(kept)} of {len(cases)} cases taken out")


if __name__ == "__main__":
    main()
