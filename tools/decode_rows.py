#!/usr/bin/env python3
"""Rows of decode attention that one of TensorRT-LLM's kernels takes whatever the batch.

usage: decode_rows.py plain|wgmma ROWS.csv > OUT.csv

plain: one query head a KV head, or more than 32. wgmma: 2 to 32 of them and an fp8 cache on Hopper.
"""
import csv
import sys


def plain(heads, shape):
    return heads <= 1 or heads > 32


def wgmma(heads, shape):
    return shape.get("kv") == "fp8" and 1 < heads <= 32


keeps = {"plain": plain, "wgmma": wgmma}[sys.argv[1]]
rows = csv.DictReader(open(sys.argv[2]))
writer = csv.DictWriter(sys.stdout, rows.fieldnames, lineterminator="\n")
writer.writeheader()
for row in rows:
    shape = dict(part.split("=") for part in row["shape"].split(";"))
    if keeps(int(shape["Hq"]) / int(shape["Hkv"]), shape):
        writer.writerow(row)
