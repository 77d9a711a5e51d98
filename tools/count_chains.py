#!/usr/bin/env python3
"""What a kernel's main loop takes, followed through its SASS: the stalls that the compiler set, waits for answers, one instruction a
clock and scheduler, and units that the warps of a scheduler share. How docs/calibration/other_cards.md counted chains.

usage: count_chains.py CUBIN [--function PART] [--warps N] [--units sm_80|sm_89|sm_90] [--fill CLK] [--skip-masks] [--repeat N,N]

Compile the kernel with nvcc -cubin -arch=... first; nvdisasm must be on the path. Prints the loops that hold products, innermost first,
and the clocks of a turn with N warps on a scheduler, for each of them. --fill: clocks of shared memory that copies take a turn
(wgmma). --repeat: turns of inner loops, innermost first. Inner loops that are not named are gone through once; polls of barriers and
code behind them find what they wait for. --skip-masks: forward branches over code without products, exponentials and barriers are
taken (masks of the diagonal); else they are not.
"""
import argparse
import re
import subprocess

BRANCH = re.compile(r"BRA(?:\.[A-Z.]+)? (?:!?U?P\d, )?`\((\.L_x_\d+)\)")
# clocks that a product of 16 x 8 x 16 (or 32 of 8 bits) takes one scheduler's units
PRODUCT_CLK = {"sm_80": 8, "sm_89": 16, "sm_90": 8}
WORK = ("HMMA", "QMMA", "HGMMA", "QGMMA", "MUFU", "BAR", "LDSM", "LDGSTS")
PRODUCTS = ("HMMA", "QMMA", "HGMMA", "QGMMA")
ANSWERS = (("LDSM", 33), ("LDS", 28), ("ATOMS", 60), ("SHFL", 25), ("MUFU", 22), ("LDGSTS", 20), ("ST", 15), ("HMMA", 33),
           ("SYNCS", 20), ("LDC", 40), ("LD.", 38), ("LDG", 280), ("R2UR", 12))


def opcode(text):
    words = text.split()
    return words[1] if text.startswith("@") else words[0]


def answer_clk(op):
    return next((clk for start, clk in ANSWERS if op.startswith(start)), 14)


def load(cubin, part):
    """(text, stall, scoreboard written, scoreboard read, scoreboards waited for) of each instruction; labels."""
    lines = subprocess.run(["nvdisasm", "-hex", "-c", cubin], capture_output=True, text=True, check=True).stdout.splitlines()
    code, labels, text, inside = [], {}, None, False
    for line in lines:
        if line.startswith(".text."):
            inside = part in line
        if not inside:
            continue
        if m := re.match(r"^(\.L_x_\d+):", line):
            labels[m.group(1)] = len(code)
        elif m := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?) ;\s+/\* 0x[0-9a-f]{16} \*/", line):
            text = m.group(1)
        elif text and (m := re.match(r"\s+/\* 0x([0-9a-f]{16}) \*/", line)):
            control = int(m.group(1), 16) >> 41
            code.append((text, control & 15, control >> 5 & 7, control >> 8 & 7, control >> 11 & 63))
            text = None
    return code, labels


def loops(code, labels):
    last = max(i for i, c in enumerate(code) if opcode(c[0]) == "EXIT")
    found = [(labels[m.group(1)], i) for i, c in enumerate(code[:last]) if (m := BRANCH.search(c[0])) and labels[m.group(1)] <= i]
    return sorted((x for x in found if products(code, x) >= 2), key=lambda x: x[1] - x[0])


def products(code, loop):
    return sum(opcode(c[0]).startswith(PRODUCTS) for c in code[loop[0]:loop[1] + 1])


def way(code, labels, loop, turns, skip_masks):
    left, path, i = dict(turns), [], loop[0]
    while True:
        path.append(i)
        if i == loop[1]:
            return path
        if m := BRANCH.search(code[i][0]):
            to, asked = labels[m.group(1)], code[i][0].startswith("@") or ", `" in code[i][0] or ".U" in code[i][0].split()[0]
            if loop[0] <= to <= i and left.get(i, 0) > 0:
                left[i] -= 1
                left.update({j: n for j, n in turns.items() if to <= j < i})
                i = to
                continue
            between = [opcode(c[0]) for c in code[i + 1:to]]
            mask = skip_masks and len(between) >= 16 and not any(op.startswith(WORK) for op in between)
            if i < to and (not asked or (mask and to <= loop[1])):
                i = to
                continue
        i += 1


def unit(text, op, units, share):
    """Which unit of the scheduler an instruction takes, and for how long."""
    if "GMMA" in op:  # of a warpgroup: the SM's units; operands come by shared memory, of which copies take a share
        m, n, k = map(int, re.search(r"GMMA\.(\d+)x(\d+)x(\d+)", text).groups())
        narrow = op.startswith("Q")
        clk = 2 * m * n * k / (8192 if narrow else 4096)
        rows = m * k if "gdesc" in text.split(" ", 1)[1].split(",")[1] else 0
        return "tensor", max(clk, (rows + n * k) * (1 if narrow else 2) / 128 + share * clk)
    if op.startswith(("HMMA", "QMMA")):
        return "tensor", PRODUCT_CLK[units]
    if op.startswith(("MUFU", "I2F", "F2I")) or (op.startswith("F2FP") and "E4M3" in text):
        return "exponentials", 8
    if op.startswith("F2FP"):
        return "conversions", 2
    if op.startswith(("LDSM", "LDGSTS")):
        return "memory", 16 if ".4" in op or op.startswith("LDGSTS") else 8
    if op.startswith(("LDS", "STS", "SHFL", "ATOMS", "STSM")):
        return "memory", 4
    return None, 1


class Warp:
    def __init__(self):
        self.clk, self.at, self.boards, self.group, self.turns = 0, 0, [0] * 6, 0, []


def turn_clk(code, path, warps, units, fill):
    of_products = sum(unit(code[i][0], opcode(code[i][0]), units, 0)[1] for i in path if "GMMA" in opcode(code[i][0]))
    share = fill / of_products / warps if of_products else 0
    all_warps, free, issued, counted = [Warp() for _ in range(warps)], {}, 0, 14
    while len(all_warps[0].turns) < counted:
        w = min(all_warps, key=lambda x: x.clk)
        text, stall, writes, reads, waits = code[path[w.at]]
        op = opcode(text)
        name, busy = unit(text, op, units, share)
        clk = max([w.clk, issued] + [w.boards[k] for k in range(6) if waits >> k & 1])
        if "DEPBAR" in op and "gsb" in text:
            clk = max(clk, w.group)
        if name and "GMMA" not in op:
            clk = max(clk, free.get(name, 0))
        if clk > w.clk:  # another warp may be earlier
            w.clk = clk
            continue
        if "GMMA" in op:  # asynchronous: it queues
            free[name] = max(clk, free.get(name, 0)) + busy
            w.group = free[name] + 30
        elif name:
            free[name] = clk + busy
        if writes < 6:
            w.boards[writes] = max(w.boards[writes], clk + answer_clk(op))
        if reads < 6:
            w.boards[reads] = max(w.boards[reads], clk + (busy if name and "GMMA" not in op else 0) + 8)
        issued = clk + 1
        w.clk = clk + max(1, stall) + (30 if op.startswith("BAR") else 0)
        w.at += 1
        if w.at == len(path):
            w.at = 0
            w.turns.append(w.clk)
    begin, end = all_warps[0].turns[3], all_warps[0].turns[-1]
    turns = sum(begin < t <= end for w in all_warps for t in w.turns)
    return (end - begin) * warps / turns


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("cubin")
    parser.add_argument("--function", default="")
    parser.add_argument("--warps", type=int, default=1)
    parser.add_argument("--units", default="sm_80", choices=PRODUCT_CLK)
    parser.add_argument("--fill", type=float, default=0)
    parser.add_argument("--skip-masks", action="store_true")
    parser.add_argument("--repeat", default="")
    args = parser.parse_args()
    code, labels = load(args.cubin, args.function)
    found = loops(code, labels)
    repeat = [int(n) for n in args.repeat.split(",") if n]
    for loop in found[:8]:
        inner = [x for x in found if x[0] >= loop[0] and x[1] < loop[1]]
        turns = {x[1]: n - 1 for x, n in zip(inner, repeat)}
        path = way(code, labels, loop, turns, args.skip_masks)
        clk = turn_clk(code, path, args.warps, args.units, args.fill)
        ops = [opcode(code[i][0]) for i in path]
        print(f"{loop[0]}-{loop[1]}: {len(path)} instructions of {loop[1] - loop[0] + 1}, products "
              f"{sum(op.startswith(PRODUCTS) for op in ops)}, exponentials {sum(op.startswith('MUFU') for op in ops)}: "
              f"{clk:.0f} clk, {clk / args.warps:.0f} a warp")


main()
