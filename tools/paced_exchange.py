"""Stands in for what NCCL does on one GPU's SMs while ranks exchange: a kernel of as many CTAs and threads that moves the bytes
this rank reads and writes and ends no earlier than the exchange would (tools/paced_exchange.cu). With it a step of one of N ranks
runs on one GPU (tools/trace_training.py --fake N --paced LIBRARY), and shows what an exchange beside compute takes from it.

The times are given, not measured: FIXED_us + bytes sent / RATE, of two H200 (NCCL 2.28.9, rings of 24 channels, 544 threads).
"""
import ctypes

import torch
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

FIXED_us, RATE_GB_per_s, CTAS, THREADS = 30.0, 265.0, 24, 544


class PacedExchanges:
    def __init__(self, library, ranks):
        self.library, self.ranks, self.stream = ctypes.CDLL(library) if library else None, ranks, None
        if self.library:
            self.library.paced_exchange.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double, ctypes.c_int,
                                                ctypes.c_int, ctypes.c_void_p]

    def travel(self, read, written, sent):
        """On the current stream: reads one array, writes as much of the other, for as long as `sent` bytes would take."""
        moved = min(read.numel() * read.element_size(), written.numel() * written.element_size())
        self.library.paced_exchange(read.data_ptr(), written.data_ptr(), moved, FIXED_us + sent / RATE_GB_per_s / 1e3, CTAS, THREADS,
                                    torch.cuda.current_stream().cuda_stream)

    @staticmethod
    def sum_bucket(pace, bucket):
        """DistributedDataParallel's communication hook: an all-reduce in place on a stream of its own, or (None) nothing."""
        array = bucket.buffer()
        if pace is None:
            done = torch.futures.Future()
            done.set_result(array)
            return done
        if pace.stream is None:
            pace.stream = torch.cuda.Stream(priority=-1)
        pace.stream.wait_stream(torch.cuda.current_stream())
        done = torch.futures.Future(devices=[array.device])
        with torch.cuda.stream(pace.stream):
            size = array.numel() * array.element_size()
            pace.travel(array, array, 2 * size * (pace.ranks - 1) / pace.ranks)
            done.set_result(array)
        return done

    def stands_in(self, module):
        """For a module of fully_shard."""
        module.set_custom_all_gather(PacedAllGather(self))
        module.set_custom_reduce_scatter(PacedReduceScatter(self))


class PacedAllGather(AllGather):
    def __init__(self, pace):
        self.pace = pace

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        sent = input_tensor.numel() * input_tensor.element_size() * (self.pace.ranks - 1)
        self.pace.travel(input_tensor, output_tensor, sent)


class PacedReduceScatter(ReduceScatter):
    def __init__(self, pace):
        self.pace = pace

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        sent = output_tensor.numel() * output_tensor.element_size() * (self.pace.ranks - 1)
        self.pace.travel(input_tensor, output_tensor, sent)
