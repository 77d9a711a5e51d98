#!/usr/bin/env python3
"""What moving data takes by the bits that differ: copies of 512 MiB back to back, of values of several kinds, and the board's
energy counter. One JSON object a line: `case`, time of a copy, watts of a loop of 2 s behind 0.5 s of the same, and
`bits`: of two neighbouring words of 16 bits, how many differ in the mean.

usage: measure_moving.py OUT.jsonl      needs PyTorch and NVML; nvml_board.py lies beside it
"""
import json
import sys
import time

import torch

from nvml_board import Board

BYTES, SETTLE, SECONDS, REPEATS = 512 << 20, 0.5, 2.0, 2


def normal(dtype):
    size = BYTES // torch.empty(0, dtype=dtype).element_size()
    return torch.randn(size, device="cuda").to(dtype).view(torch.uint8)


KINDS = {
    "zeros": lambda: torch.zeros(BYTES, device="cuda", dtype=torch.uint8),
    "bf16 ternary": lambda: torch.randint(-1, 2, (BYTES // 2,), device="cuda").to(torch.bfloat16).view(torch.uint8),
    "bf16": lambda: normal(torch.bfloat16),
    "fp16": lambda: normal(torch.float16),
    "fp32": lambda: normal(torch.float32),
    "fp8": lambda: normal(torch.float8_e4m3fn),
    "random bits": lambda: torch.randint(0, 256, (BYTES,), device="cuda", dtype=torch.uint8),
}


def differing_bits(source):
    words = source[: 1 << 20].view(torch.int16).to(torch.int64) & 0xFFFF
    differ = words[1:] ^ words[:-1]
    return sum(((differ >> bit) & 1).float().mean().item() for bit in range(16))


def loop(copy, seconds):
    """Copies queued some ms ahead for so long; their number."""
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        for _ in range(32):
            copy()
        torch.cuda.synchronize()
        count += 32
    return count


def main():
    board = Board()
    target = torch.empty(BYTES, device="cuda", dtype=torch.uint8)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        put = lambda row: out.write(json.dumps(row) + "\n")
        put({"card": torch.cuda.get_device_name(), "uuid": board.uuid(), "torch": torch.__version__,
             "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        for repeat in range(REPEATS):
            for name, make in KINDS.items():
                source = make()
                copy = lambda: target.copy_(source)
                loop(copy, SETTLE)
                joules, begin = board.joules(), time.perf_counter()
                count = loop(copy, SECONDS)
                joules, seconds = board.joules() - joules, time.perf_counter() - begin
                put({"case": name, "repeat": repeat, "measured_us": 1e6 * seconds / count, "watts": joules / seconds,
                     "sm_MHz": board.sm_MHz(), "celsius": board.celsius(), "bits": differing_bits(source)})
        time.sleep(1)
        joules, begin = board.joules(), time.perf_counter()
        time.sleep(1)
        put({"case": "idle", "watts": (board.joules() - joules) / (time.perf_counter() - begin)})


main()
