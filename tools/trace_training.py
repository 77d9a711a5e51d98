#!/usr/bin/env python3
"""Times and traces whole eager training iterations of transformers' models under PyTorch on the GPUs of this machine.

    tools/trace_training.py --models data/models --out FOLDER [--gpus 1|2] [--only NAME,...] [--points FILE]
                            [--more FILE] [--until SECONDS] [--fake N] [--paced LIBRARY]
                            [--device cuda|cpu --tiny]

An iteration is forward, the loss as transformers computes it, backward, clip_grad_norm_ where the point says so, AdamW (or
SGD, Adafactor, Muon with AdamW) and zero_grad; of a point with `scaler` the loss is scaled (GradScaler). A model is built from
its config with random weights (real widths, the first LAYERS of its layers) in bf16, fp16 or fp32 (`dtype`), in fp32 under
bf16 autocast (fp16 where the point says `half`), or in fp32 with products in tf32 (`tf32`). With
`--gpus 2` one process a GPU runs it under DistributedDataParallel or FSDP (fully_shard of each layer). With `--fake N` one
GPU runs what one of N ranks runs, under PyTorch's fake process group: all but what travels. A point that is `paced` then has
in place of each exchange a kernel that holds the SMs which NCCL's would for a given time (tools/paced_exchange.py). For each
point it writes one line of FOLDER/steps.jsonl:

  wall_us      one iteration, of a loop without a synchronization but behind every second: median, least and largest pair
  watts, sm_MHz   of the same loop (by the board's energy counter and sampled clocks)
  power        the same stretch between two movements of that counter, as another process saw them (tools/energy_edges.py)
  issue_us     the host's time for each phase of an iteration that begins with an idle GPU, least of four
  host_us      what a launch of a narrow model's step takes this host (tools/measure_host.py), before and behind the loops
  memory       bytes allocated at rest and behind forward, backward and optimizer; the peak of each of them, and reserved

and one line of FOLDER/traces.jsonl.gz, the launches of one iteration of rank 0 behind two others:

  launches     in order, each an index into `groups`; `starts_ns` their starts, each behind the one before it
  groups       kernel, operator (innermost), shapes, types, strides, grid and block, phase of the iteration, stream; how many,
               and the median, least, largest and summed duration in microseconds
  experts_rows rows of each expert in an iteration, a list a layer of experts, most first

Single operators (FOLDER/operators.jsonl) are forward and backward of scaled_dot_product_attention by cuDNN and FlashAttention.
Needs torch, transformers, nvidia-ml-py. The seed is fixed. A point that fails is written with its error.
"""
import argparse
import concurrent.futures
import gc
import json
import multiprocessing
import os
import statistics
import tempfile
import time
import traceback

import torch

from energy_edges import EnergyEdges, now
from measure_host import Probe
from trace_training_attention import attention_operators
from trace_training_iteration import Iteration, build
from trace_training_launches import export_trace, summarize
from trace_training_models import MODELS, ONE, TWO, add_models, at
from trace_transformers import Board, routed, synchronize


def loop(iteration, board, seconds, args):
    """Pairs of iterations for about `seconds` (least three), with power and clock of the later two thirds."""
    times, more = [], {"energy": None}
    begin = time.perf_counter()

    def pair():
        start = time.perf_counter()
        iteration.step()
        iteration.step()
        synchronize(args.device)
        times.append((time.perf_counter() - start) / 2 * 1e6)
    pair()
    # ranks run the same number of pairs: the first pair's time of the slowest says how many
    longest = torch.tensor([times[0]], device=args.device)
    if args.gpus > 1:
        torch.distributed.all_reduce(longest, op=torch.distributed.ReduceOp.MAX)
    pairs = max(3, min(60, int(seconds * 1e6 / (2 * float(longest)))))
    for _ in range(pairs // 3):
        pair()
    clocks = []
    energy = board.nvml.nvmlDeviceGetTotalEnergyConsumption(board.handle) if board.handle else 0
    middle, window = time.perf_counter(), [now()]
    for _ in range(pairs - pairs // 3):
        pair()
        if board.handle:  # just behind a pair the clock is still its own
            clocks.append(board.nvml.nvmlDeviceGetClockInfo(board.handle, board.nvml.NVML_CLOCK_SM))
    elapsed = time.perf_counter() - middle
    if board.handle:
        more["energy"] = (board.nvml.nvmlDeviceGetTotalEnergyConsumption(board.handle) - energy) / 1e3 / elapsed
    window.append(now())
    by_edges = {"power": args.edges.between(*window)} if args.edges else {}
    late = times[1:]
    return {"wall_us": [round(statistics.median(late), 1), round(min(late), 1), round(max(late), 1)], "pairs": len(late),
            **by_edges, "watts": more["energy"], "sm_MHz": statistics.median(clocks) if clocks else None,
            "loop_s": round(time.perf_counter() - begin, 3), "read_s": round(elapsed, 3)}


def issue_times(iteration, args):
    """Microseconds of each phase on the host alone, of the iteration whose sum is least."""
    found = []
    for _ in range(4):
        synchronize(args.device)
        marks = [("", time.perf_counter())]
        iteration.marks = lambda name: marks.append((name, time.perf_counter()))
        iteration.step()
        times = {}
        for (_, before), (name, end) in zip(marks, marks[1:]):  # of micro-batches their sum
            times[name] = round(times.get(name, 0) + (end - before) * 1e6, 1)
        found.append(times)
    iteration.marks = lambda name: None
    return min(found, key=lambda times: sum(times.values()))


def memory_of(iteration, args):
    if args.device != "cuda":
        return {}
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    found = {"rest": torch.cuda.memory_allocated(), "behind": {}, "peak": {}}

    def mark(name):
        found["behind"][name] = torch.cuda.memory_allocated()
        found["peak"][name] = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    iteration.marks = mark
    iteration.step()
    iteration.marks = lambda name: None
    torch.cuda.synchronize()
    found["max_allocated"] = max(found["peak"].values())
    found["reserved"] = torch.cuda.max_memory_reserved()
    return found


def run_point(held, point, board, args):
    """One line of steps.jsonl, and the file of its trace."""
    distributed = point.get("spread", "none") != "none"
    key = tuple(point.get(name, False) for name in ("model", "autocast", "tf32", "no_dropout", "masters", "dtype"))
    if distributed or held.get("key") != key:
        held.clear()
        gc.collect()
        args.autocast, args.tf32, args.no_dropout, args.dtype = key[1] or key[4], key[2], key[3], key[5]
        torch.backends.cuda.matmul.allow_tf32 = args.tf32
        held["model"], held["config"] = build(point["model"], args)
        held["key"] = None if distributed else key
    for parameter in held["model"].parameters():
        parameter.grad = None
    del parameter  # the last one, whole, when fully_shard puts a share in its place
    gc.collect()
    if args.device == "cuda":
        torch.cuda.empty_cache()
    iteration = Iteration(held["model"], held["config"], point, args)
    begin = time.perf_counter()
    for _ in range(2):
        iteration.step()
    synchronize(args.device)
    record = {"warm_s": round(time.perf_counter() - begin, 2)}
    probes = [args.probe.take()[0]] if args.probe else []
    record.update(loop(iteration, board, args.seconds, args))
    if args.probe:
        record["issue_us"] = issue_times(iteration, args)
        record["host_us"] = [round(each * 1e6, 2) for each in (*probes, args.probe.take()[0])]
    trace = tempfile.NamedTemporaryFile(suffix=".json", delete=False).name
    export_trace(iteration, args, trace)
    record["memory"] = memory_of(iteration, args)
    record["parameters"] = sum(p.numel() for p in held["model"].parameters())
    rows = routed(held["model"], iteration) if point["model"] in ("mixtral-8x7b", "qwen3-30b-a3b") else []
    if rows:
        record["experts_rows"] = [[count for count in layer if count] for layer in rows]
    record["watts_of_all"] = [record["watts"]]
    if args.gpus > 1:
        both = [None] * args.gpus
        shown = ("watts", "power", "wall_us", "memory", "sm_MHz", "issue_us", "host_us")
        torch.distributed.all_gather_object(both, {key: record[key] for key in shown if key in record})
        record["watts_of_all"] = [each["watts"] for each in both]
        record["ranks"] = both
    if distributed:
        held.clear()
    return record, trace


def join_ranks(rank, args):
    """The process group: of the ranks that run here, or a fake one of those that do not."""
    if args.gpus > 1:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", str(args.port))
        backend = "nccl" if args.device == "cuda" else "gloo"
        where = {"device_id": torch.device("cuda", rank)} if args.device == "cuda" else {}
        torch.distributed.init_process_group(backend, rank=rank, world_size=args.gpus, **where)
    elif args.fake:
        from torch.testing._internal.distributed.fake_pg import FakeStore
        torch.distributed.init_process_group("fake", rank=0, world_size=args.fake, store=FakeStore())
        from paced_exchange import PacedExchanges
        args.pace = PacedExchanges(args.paced, args.fake)


def machine_of(rank, board, args):
    import transformers
    cuda = args.device == "cuda"
    machine = {"torch": torch.__version__, "transformers": transformers.__version__, "date": time.strftime("%Y-%m-%d"),
               "gpu": torch.cuda.get_device_name(rank) if cuda else "cpu", **board.facts()}
    machine["nccl"] = ".".join(map(str, torch.cuda.nccl.version())) if cuda else ""
    return machine


def points_of(args):
    """What is recorded, in order; "operators" stands for attention by itself."""
    wanted = args.only.split(",") if args.only else list(MODELS)
    points = ONE if args.gpus == 1 else TWO
    if args.points:  # lists of model, batch, tokens and an object of what differs
        with open(args.points, encoding="utf-8") as text:
            points = [at(*point[:3], **point[3]) for point in json.load(text)]
    points = [p for p in points if p["model"] in wanted][:args.most]
    points.insert(0 if args.operators_first else min(22, len(points)), "operators")
    return points


def is_late(args, begin):
    """Whether the time is over for any rank."""
    late = torch.tensor([float(time.perf_counter() - begin[0] > args.until)])
    if args.gpus > 1:
        late = late.to(args.device)
        torch.distributed.all_reduce(late, op=torch.distributed.ReduceOp.MAX)
    return float(late) > 0


class Lines:
    """What rank 0 writes: steps.jsonl, and by a process beside it traces.jsonl.gz."""

    def __init__(self, args, begin):
        self.args, self.begin, self.pending = args, begin, []
        self.pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        self.steps = open(os.path.join(args.out, "steps.jsonl"), "a", encoding="utf-8")

    def add(self, point, record, trace):
        self.steps.write(json.dumps(record) + "\n")
        self.steps.flush()
        peak = record.get("memory", {}).get("max_allocated", 0) / 1e9
        print(f"{time.perf_counter() - self.begin[0]:6.1f} s {point} {record.get('wall_us')} us, {record.get('watts')} W, "
              f"{peak:.3f} GB {record.get('error', '')}", flush=True)
        if trace and os.path.getsize(trace):
            about = {**point, "gpus": self.args.gpus, "fake": self.args.fake, "machine": record["machine"],
                     "layers": record["layers"], "wall_us": record["wall_us"]}
            self.pending.append(self.pool.submit(summarize, trace, about, os.path.join(self.args.out, "traces.jsonl.gz")))

    def finish(self):
        for future in self.pending:
            try:
                print(future.result(timeout=60), flush=True)
            except Exception as error:
                print(f"trace: {type(error).__name__}: {error}", flush=True)
        self.pool.shutdown()
        self.steps.close()


def record_point(held, point, board, machine, args):
    """(line of steps.jsonl, file of its trace or nothing)"""
    record, trace = {**point, "layers": args.tiny or MODELS[point["model"]][1], "gpus": args.gpus,
                     **({"fake": args.fake} if args.fake else {}), "machine": machine}, None
    try:
        more, trace = run_point(held, point, board, args)
        record.update(more)
    except Exception as error:  # the other points go on; the record says what failed
        record["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        held.clear()
        if os.environ.get("TRACE_VERBOSE"):
            traceback.print_exc()
    return record, trace


def work(rank, args, begin):
    """One rank's whole recording."""
    args.rank = rank
    if args.more:
        add_models(args.more)
    torch.set_num_threads(4)
    if args.device == "cuda":
        torch.cuda.set_device(rank)
    join_ranks(rank, args)
    board = Board(args.device)
    if board.handle and args.gpus > 1:
        board.handle = board.nvml.nvmlDeviceGetHandleByIndex(rank)
    machine = machine_of(rank, board, args)
    os.makedirs(args.out, exist_ok=True)
    real = args.device == "cuda" and not args.fake
    args.probe = Probe(args.device) if real else None
    args.edges = EnergyEdges(rank) if real else None
    held, lines = {}, Lines(args, begin) if rank == 0 else None
    for point in points_of(args):
        if is_late(args, begin):
            break
        if point == "operators":
            if args.gpus == 1 and not args.no_operators:
                held.clear()
                with open(os.path.join(args.out, "operators.jsonl"), "a", encoding="utf-8") as out:
                    attention_operators(out, args, begin[0] + args.until)
            continue
        record, trace = record_point(held, point, board, machine, args)
        if lines:
            lines.add(point, record, trace)
        if args.gpus > 1 and "error" in record:
            break  # the ranks may no longer be at the same collective
    if lines:
        lines.finish()
    if args.edges:
        args.edges.stop()
    if args.gpus > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="data/models")
    parser.add_argument("--out", required=True)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--points", default="", help="a JSON file of points in place of trace_training_models.py's")
    parser.add_argument("--more", default="", help="a JSON file of models beside trace_training_models.py's: name: [config, layers kept]")
    parser.add_argument("--only", default="")
    parser.add_argument("--most", type=int, default=1000, help="points")
    parser.add_argument("--seconds", type=float, default=2.2, help="of each point's loop")
    parser.add_argument("--until", type=float, default=1e9, help="begin no point after this many seconds")
    parser.add_argument("--operators-first", action="store_true")
    parser.add_argument("--no-operators", action="store_true")
    parser.add_argument("--fake", type=int, default=0, help="ranks of a fake process group")
    parser.add_argument("--paced", default="", help="the library of tools/paced_exchange.cu")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--port", type=int, default=29511)
    parser.add_argument("--tiny", action="store_const", const=2, default=0, help="narrow models of two layers")
    args = parser.parse_args()
    args.autocast = False
    begin = [time.perf_counter()]
    if args.gpus == 1:
        work(0, args, begin)
        return
    import torch.multiprocessing
    torch.multiprocessing.spawn(work, (args, begin), nprocs=args.gpus)


if __name__ == "__main__":
    main()
