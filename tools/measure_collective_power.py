#!/usr/bin/env python3
"""What two GPUs draw and take while they exchange by NCCL as PyTorch calls it, alone, waiting for the other, and beside kernels.

    tools/measure_collective_power.py OUT.jsonl [SECONDS [CASE,...]]

One process a GPU. One JSON object a line, of both ranks: `case`, `kind`, `bytes` (of the whole: what is gathered, or summed),
`call_us` (one behind the other on a stream), `ranks` (each: watts between two movements of the energy counter, clocks_MHz).
Cases: `idle`; `alone`; `waits` (the first rank is in an all-reduce that the second joins at the end: its watts); `beside`: so many
kernels on one stream and an exchange on another, both begun together, again and again: `kernels_us` without the exchange, `both_us`
with it, `exchange_us` by itself between events in both. Needs PyTorch and NVML; energy_edges.py lies beside it.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing

from energy_edges import EnergyEdges, now

MIB = 1 << 20


def exchange_of(kind, size, ranks=2):
    """A call, and what it holds: `size` bytes are gathered or summed."""
    whole = torch.zeros(size // 2, dtype=torch.bfloat16, device="cuda").normal_()
    part = torch.zeros(size // 2 // ranks, dtype=torch.bfloat16, device="cuda").normal_()
    calls = {"all_gather": lambda: dist.all_gather_into_tensor(whole, part), "all_reduce": lambda: dist.all_reduce(whole),
             "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole), "broadcast": lambda: dist.broadcast(whole, 0)}
    return calls[kind]


def kernels_of(kind):
    """One call of some 200 us: a product, or a pass over DRAM."""
    if kind == "product":
        a, b, c = [torch.randn(4096, 4096, device="cuda").to(torch.bfloat16) for _ in range(3)]
        return lambda: torch.mm(a, b, out=c)
    x, y, z = [torch.randn(4096 * 32768, device="cuda").to(torch.bfloat16) for _ in range(3)]
    return lambda: torch.add(x, y, out=z)


def timed(call, seconds, least=3):
    """Microseconds of a call, of as many as fill the time; the same number on both ranks."""
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(least):
        call()
    torch.cuda.synchronize()
    each = torch.tensor([(time.perf_counter() - begin) / least], device="cuda")
    dist.all_reduce(each, op=dist.ReduceOp.MAX)
    count = max(least, int(seconds / float(each)))
    torch.cuda.synchronize()
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    window = [now() + 0.25 * seconds]
    first.record()
    for i in range(count):
        call()
        if i % 16 == 15:
            torch.cuda.synchronize()
    last.record()
    torch.cuda.synchronize()
    window.append(now())
    return first.elapsed_time(last) / count * 1e3, window


class Beside:
    """Kernels on this stream and an exchange on another one, which begin together and are waited for."""

    def __init__(self, kernel, count, exchange):
        self.kernel, self.count, self.exchange, self.other = kernel, count, exchange, torch.cuda.Stream()
        self.marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def __call__(self):
        self.other.wait_stream(torch.cuda.current_stream())
        if self.exchange:
            with torch.cuda.stream(self.other):
                self.marks[0].record()
                self.exchange()
                self.marks[1].record()
        for _ in range(self.count):
            self.kernel()
        torch.cuda.current_stream().wait_stream(self.other)


def alone(seconds, line):
    for kind in ("all_gather", "reduce_scatter", "all_reduce", "broadcast"):
        for size in (16, 128, 512, 2048) if kind != "broadcast" else (128,):
            us, window = timed(exchange_of(kind, size * MIB), seconds)
            line("alone", window, kind=kind, bytes=size * MIB, call_us=round(us, 1))


def waits(rank, seconds, line):
    call = exchange_of("all_reduce", MIB)
    call()
    dist.barrier()
    torch.cuda.synchronize()
    begin = now()
    if rank == 0:
        call()
    time.sleep(seconds + 0.2)
    if rank > 0:
        call()
    line("waits", [begin + 0.1, begin + seconds + 0.2], kind="all_reduce", bytes=MIB)


def beside(seconds, line):
    for name in ("product", "pass"):
        kernel = kernels_of(name)
        count = 12
        without, window = timed(Beside(kernel, count, None), seconds)
        line("beside", window, kernel=name, count=count, kernels_us=round(without, 1))
        for kind in ("all_gather", "reduce_scatter", "all_reduce"):
            both = Beside(kernel, count, exchange_of(kind, 256 * MIB))
            us, window = timed(both, seconds)
            line("beside", window, kernel=name, count=count, kind=kind, bytes=256 * MIB, both_us=round(us, 1),
                 kernels_us=round(without, 1), exchange_us=round(both.marks[0].elapsed_time(both.marks[1]) * 1e3, 1))


def measure(rank, edges, seconds, cases, write):
    def line(case, window, **more):
        time.sleep(0.15)
        write({"case": case, **more}, edges.between(*window))
    time.sleep(0.3)
    begin = now()
    time.sleep(seconds)
    line("idle", [begin, now()])
    if "alone" in cases:
        alone(seconds, line)
    if "waits" in cases:
        waits(rank, seconds, line)
    if "beside" in cases:
        beside(seconds, line)


def work(rank, out, seconds, cases):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2, device_id=torch.device("cuda", rank))
    edges = EnergyEdges(rank)
    with open(out if rank == 0 else os.devnull, "a", encoding="utf-8", buffering=1) as file:

        def write(record, power):
            ranks = [None, None]
            dist.all_gather_object(ranks, power)
            file.write(json.dumps({**record, "ranks": ranks}) + "\n")
            if rank == 0:
                print(json.dumps({**record, "ranks": ranks}), flush=True)
        measure(rank, edges, seconds, cases, write)
    edges.stop()
    dist.destroy_process_group()


if __name__ == "__main__":
    more = sys.argv[2:] + ["0.8", "alone,waits,beside"][len(sys.argv) - 2:]
    torch.multiprocessing.spawn(work, (sys.argv[1], float(more[0]), more[1].split(",")), nprocs=2)
