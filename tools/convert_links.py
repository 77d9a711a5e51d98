#!/usr/bin/env python3
"""Turns recordings of collectives (data/measurements/h200/links, `probe --collectives`) into Plumbline's ops CSV, split
for good into train and held-out files: data/measurements/h200_links/h200_sxm/{nccl,own,host,p2p}.{train,heldout}.csv,
and what four GPUs of a node took when it had all been predicted, to which nothing is fitted, into
{nccl,own,host,p2p}_four.heldout.csv.

    tools/convert_links.py

Left out: what ran beside other work, at steady clocks, with programmatic dependent launch or with other CTAs than planned, and, of the
first day's file, our two-shot kernels from 8 MiB on, which have been rewritten since. `scope`: `aligned` where each
rank's part is whole 16-byte packs, else `ragged`. `id` is <file>:<line>.
"""
import csv
import os
import sys

from measurement_csv import Output

KERNELS = {"nccl": "nccl", "one_shot": "own", "two_shot": "own", "pull": "own", "push": "own"}
REWRITTEN = 8 << 20  # ops/plan/peer_plan.cpp, kInTurnBytes


def host_copy(row):
    """(operator, shape) of a pinned copy of each GPU, or of one each way at once by one GPU; None for all else. (Two GPUs,
    each with a port of its own, copy one way as fast as one; both ways at once the host is slower.)"""
    said = row["shape"] if "how=" in row["shape"] else row["shape"] + ";" + row["plan"].replace(" ", ";")
    facts = dict(part.split("=") for part in said.split(";") if part)
    if facts.get("host") != "pinned":
        return None
    if row["op"] in ("h2d", "d2h") and facts["how"] in ("alone", "all_gpus"):
        return row["op"], {"bytes": int(facts["bytes"])}
    if row["op"] == "h2d_d2h" and facts["how"] == "both":
        return "h2d", {"bytes": int(facts["bytes"]), "both": 1}
    return None


def peer_copy(row):
    """(operator, shape) of a copy engine's copy between two GPUs, alone or one each way at once; None for all else. A rank
    among others that do the same is the latter; one way alone takes 1 to 3 % less."""
    said = row["shape"] if "how=" in row["shape"] else row["shape"] + ";" + row["plan"].replace(" ", ";")
    facts = dict(part.split("=") for part in said.split(";") if part)
    return ("p2p_copy", {"bytes": int(facts["bytes"])}) if row["op"] == "p2p_copy" else None


def family_of(family, name):
    """(source, gpu, family) of a row of the recording `name`."""
    return "h200_links", "h200_sxm", family + ("_four" if name == "x4" else "")


def copies_by_engines(root, out):
    for name in ("x2", "x2_overlap", "x4_first", "x4"):
        with open(os.path.join(root, "h200", "links", name + ".csv"), newline="", encoding="ascii") as f:
            for line, row in enumerate(csv.DictReader(f), start=2):
                if row["kernel"] != "copy_engine" or row["status"] != "ok":
                    continue
                copy = host_copy(row) if name != "x4_first" else None
                if copy:
                    out.add(family_of("host", name), copy[0], "bf16", copy[1], row["measured_us"], f"{name}:{line}",
                            stack="cuda", kernel="copy_engine", scope="pinned")
                copy = peer_copy(row)
                if copy:
                    out.add(family_of("p2p", name), copy[0], "bf16", copy[1], row["measured_us"], f"{name}:{line}",
                            stack="cuda", kernel="copy_engine", scope="both" if "how=both" in row["shape"] + row["plan"] else "alone")


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "measurements")
    out = Output()
    for family in ("nccl", "own", "host", "p2p"):
        out.hold_out(family_of(family, "x4"))
    for name in ("x2", "x4_first", "x4"):
        with open(os.path.join(root, "h200", "links", name + ".csv"), newline="", encoding="ascii") as f:
            for line, row in enumerate(csv.DictReader(f), start=2):
                family = KERNELS.get(row["kernel"])
                if family is None or row["clock"] != "burst" or row["status"] != "ok" or row["plan"].endswith("alone"):
                    continue
                if row["op"] == "beside":
                    continue
                shape = dict(part.split("=") for part in row["shape"].split(";"))
                size, gpus = int(shape["bytes"]), int(shape["gpus"])
                if name == "x4_first" and family == "own" and row["kernel"] != "one_shot" and size >= REWRITTEN:
                    continue
                part = size if row["op"] == "all_reduce" else size // gpus
                out.add(family_of(family, name), row["op"], row["dtype"],
                        {"bytes": size, "gpus": gpus, "multicast": 0}, row["measured_us"], f"{name}:{line}",
                        stack=row["stack"] if family == "nccl" else "own " + row["kernel"], kernel=row["kernel"], scope="ragged" if part % 16 else "aligned")
    copies_by_engines(root, out)
    for (source, gpu, family, side), rows in sorted(out.write(root).items()):
        print(f"{source}/{gpu}/{family}.{side}.csv,{len(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
