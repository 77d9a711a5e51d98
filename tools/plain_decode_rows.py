#!/usr/bin/env python3
"""Rows of decode attention that TensorRT-LLM's plain kernel takes whatever the batch: one query head a KV head, or more than 32.

usage: plain_decode_rows.py ROWS.csv > OUT.csv
"""
import csv
import sys

rows = csv.DictReader(open(sys.argv[1]))
writer = csv.DictWriter(sys.stdout, rows.fieldnames, lineterminator="\n")
writer.writeheader()
for row in rows:
    shape = dict(part.split("=") for part in row["shape"].split(";"))
    heads = int(shape["Hq"]) / int(shape["Hkv"])
    if heads <= 1 or heads > 32:
        writer.writerow(row)
