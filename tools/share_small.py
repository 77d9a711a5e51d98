#!/usr/bin/env python3
"""FlashAttention-2's kernel over pages where SMs hold one of its CTAs: the scalars of the card whose SMs hold two, and the wait of a
step that was fitted on the card whose SMs hold one. And what stands in for decode by other kernels, which the card does not
run: the kernel's start, and a launch as its merge's.

usage: share_small.py FITTED.json CALIBRATION.json
"""
import json
import pathlib
import sys

fitted, path = sys.argv[1], pathlib.Path(sys.argv[2])
wait = json.loads(pathlib.Path(fitted).read_text())["families"]["library"]["flash_prefill_mma_small"]["step_clk"]
calibration = json.loads(path.read_text())
library = calibration["families"]["library"]
for large, small in (("flash_prefill_mma_paged", "flash_prefill_mma_small"), ("flash_decode_mma", "flash_decode_mma_small")):
    source = f"taken over from {path.stem} library.{large}: the same kernel"
    library[small] = {name: {"value": scalar["value"], "source": source} for name, scalar in library[large].items()}
    library[small]["step_clk"] = wait
library["flash_decode"] |= {
    "fixed_s": {"value": library["flash_merge_mma"]["fixed_s"]["value"],
                "source": "as library.flash_merge_mma's: what a launch of FlashAttention takes here, without the write of the cache"},
    "start_clk": {"value": library["flash_decode_mma"]["start_clk"]["value"],
                  "source": "as library.flash_decode_mma's: a CTA's way to its first keys and from its last"}}
beside = path.with_suffix(".json.partial")
beside.write_text(json.dumps(calibration, indent=2) + "\n")
beside.rename(path)
