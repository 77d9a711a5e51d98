#!/usr/bin/env python3
"""Times and traces whole eager training iterations of transformers' models under PyTorch on the GPUs of this machine.

    tools/trace_training.py --models data/models --out FOLDER [--gpus 1|2] [--only NAME,...] [--points FILE]
                            [--until SECONDS] [--fake N] [--paced LIBRARY]
                            [--device cuda|cpu --tiny]

An iteration is forward, the loss as transformers computes it, backward, clip_grad_norm_ where the point says so, AdamW (or
SGD, Adafactor) and zero_grad. A model is built from its config with random weights (real widths, the first LAYERS of its
layers) in bf16, fp16 or fp32 (`dtype`), in fp32 under bf16 autocast, or in fp32 with products in tf32 (`tf32`). With `--gpus 2` one process a GPU runs it under DistributedDataParallel or FSDP (fully_shard of
each layer). With `--fake N` one GPU runs what one of N ranks runs, under PyTorch's fake process group: all but what travels. A point that is
`paced` then has in place of each exchange a kernel that holds the SMs which NCCL's would for a given time
(tools/paced_exchange.py). For each point it writes one line of FOLDER/steps.jsonl:

  wall_us      one iteration, of a loop without a synchronization but behind every second: median, least and largest pair
  watts, sm_MHz   of the same loop (by the board's energy counter and sampled clocks)
  power        of one GPU: the same stretch between two movements of that counter, as another process saw them (tools/energy_edges.py)
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
import contextlib
import gzip
import json
import multiprocessing
import os
import statistics
import tempfile
import time
import traceback

import torch
from torch.nn import functional

from energy_edges import EnergyEdges, now
from measure_host import Probe
from trace_training_models import MODELS
from trace_transformers import Board, routed, synchronize



def at(model, batch, tokens, **flags):
    return {"model": model, "batch": batch, "tokens": tokens, "optimizer": "foreach", "clip": False, "recompute": False,
            "attention": "sdpa", "autocast": False, **flags}


ONE = [
    at("llama-3.2-1b", 4, 1024), at("llama-3.2-1b", 1, 2048), at("llama-3.2-1b", 8, 1024),
    at("llama-3.2-1b", 4, 1024, optimizer="fused", clip=True), at("llama-3.2-1b", 1, 8192),
    at("llama-3.2-1b", 4, 1024, recompute=True), at("llama-3.2-1b", 3, 700), at("llama-3.2-1b", 2, 4096),
    at("llama-3.2-1b", 4, 1024, autocast=True),
    at("gpt2-xl", 4, 1024), at("gpt2-xl", 16, 512, clip=True),
    at("bert-large-uncased", 16, 512), at("bert-large-uncased", 32, 128),
    at("qwen3-8b", 2, 2048), at("qwen3-8b", 4, 2048, recompute=True), at("qwen3-8b", 1, 1024, optimizer="fused"),
    at("llama-3.1-8b", 2, 2048), at("llama-3.1-8b", 1, 8192), at("llama-3.1-8b", 5, 600, clip=True),
    at("mixtral-8x7b", 2, 1024), at("mixtral-8x7b", 4, 2048),
    at("llama-3.2-1b", 8, 512), at("llama-3.2-1b", 2, 1024, attention="eager"), at("bert-large-uncased", 48, 384),
    at("llama-3.2-1b", 1, 8192, recompute=True, clip=True), at("llama-3.1-8b", 8, 1024), at("llama-3.2-1b", 1, 512),
]
TWO = [
    at("llama-3.2-1b", 4, 1024, spread="ddp"), at("llama-3.2-1b", 4, 1024, spread="fsdp"),
    at("llama-3.2-1b", 4, 1024, spread="fsdp", keep=True), at("llama-3.2-1b", 4, 1024, spread="ddp", view=True),
    at("llama-3.2-1b", 8, 1024, spread="ddp"), at("llama-3.2-1b", 8, 1024, spread="fsdp"),
    at("llama-3.1-8b", 2, 2048, spread="ddp"), at("llama-3.1-8b", 2, 2048, spread="fsdp"),
    at("llama-3.2-1b", 1, 2048, spread="ddp"), at("llama-3.2-1b", 1, 2048, spread="fsdp"),
    at("llama-3.1-8b", 4, 2048, spread="ddp"), at("llama-3.1-8b", 4, 2048, spread="fsdp", keep=True),
    at("llama-3.2-1b", 4, 1024, spread="none"),
]
# B, Hq, Hkv, D, S, causal
ATTENTION = [(4, 32, 8, 64, 1024, True), (1, 32, 8, 64, 8192, True), (8, 32, 8, 64, 512, True), (2, 32, 8, 128, 2048, True),
             (1, 32, 8, 128, 8192, True), (2, 32, 8, 64, 4096, True), (16, 16, 16, 64, 512, False), (1, 32, 32, 128, 2048, True),
             (4, 25, 25, 64, 1024, True), (2, 16, 16, 128, 4096, False), (3, 32, 8, 64, 700, True), (1, 32, 8, 128, 1024, True),
             (1, 32, 8, 64, 16384, True), (32, 16, 16, 64, 128, False)]


def build(name, args):
    """(model, config) with random weights on the device, fp32 where autocast casts them."""
    file, layers = MODELS[name]
    with open(os.path.join(args.models, file), encoding="utf-8") as text:
        config = json.load(text)
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM
    kind = config.pop("model_type")
    for key in ("transformers_version", "pad_token_id", "bos_token_id", "eos_token_id", "cache_implementation"):
        config.pop(key, None)
    if args.no_dropout:
        config.update({key: 0.0 for key in config if key.endswith(("pdrop", "dropout_prob", "dropout"))})
    small = {"hidden_size": 64, "n_embd": 64, "intermediate_size": 96, "num_attention_heads": 4, "n_head": 4,
             "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512, "num_local_experts": 8} if args.tiny else {}
    for key in ("num_hidden_layers", "n_layer"):
        small[key] = 2 if args.tiny else layers
    depth = next((config[key] for key in ("num_hidden_layers", "n_layer") if key in config), None)
    for key, value in config.items():  # lists that say something of each layer
        if isinstance(value, list) and len(value) == depth:
            config[key] = value[:small["num_hidden_layers"]]
    config.update({key: value for key, value in small.items() if key in config})
    made = AutoConfig.for_model(kind, **config)
    factory = AutoModelForMaskedLM if kind == "bert" else AutoModelForCausalLM
    torch.manual_seed(7)
    dtypes = {"fp16": torch.float16, "fp32": torch.float32}
    kind_of = torch.float32 if args.autocast or args.tf32 else dtypes.get(args.dtype, torch.bfloat16)
    with torch.device(args.device):
        model = factory.from_config(made, dtype=kind_of, attn_implementation="sdpa")
    return model.to(kind_of).train(), made


def layers_of(model):
    if hasattr(model, "bert"):
        return model.bert.encoder.layer
    return model.transformer.h if hasattr(model, "transformer") else model.model.layers


def spread(model, point, args):
    """The model under DDP, FSDP (fully_shard) or FSDP of PyTorch's first kind, as the point asks."""
    ranks = args.fake or args.gpus
    if point.get("spread") == "ddp":
        from torch.nn.parallel import DistributedDataParallel
        made = DistributedDataParallel(model, device_ids=[args.rank] if args.device == "cuda" else None,
                                       gradient_as_bucket_view=bool(point.get("view")))
        if args.fake:  # its exchanges have no result, which DDP waits for
            made.register_comm_hook(args.pace if point.get("paced") else None, type(args.pace).sum_bucket)
        return made
    if point.get("spread") == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        options = {"mesh": init_device_mesh(args.device, (ranks,)), "reshard_after_forward": not point.get("keep")}
        if point.get("masters"):
            options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in [*layers_of(model), model]:
            fully_shard(layer, **options)
            if point.get("paced"):
                args.pace.stands_in(layer)
    if point.get("spread") == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy
        return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({type(layers_of(model)[0])}),
                                        use_orig_params=True, device_id=args.rank)
    return model


def optimizer_of(name, parameters):
    """AdamW, fused or as lists of tensors, or another of torch.optim by lists of tensors."""
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-5, foreach=True)
    if name == "sgd-momentum":
        return torch.optim.SGD(parameters, lr=1e-5, momentum=0.9, foreach=True)
    if name == "adafactor":
        return torch.optim.Adafactor(parameters, lr=1e-5, foreach=True)
    return torch.optim.AdamW(parameters, lr=1e-5, **({"fused": True} if name == "fused" else {"foreach": True}))


class Iteration:
    """What a point repeats. `marks`, where set, is called behind each phase with its name."""

    def __init__(self, model, config, point, args):
        self.plain, self.model, self.point, self.args = model, spread(model, point, args), point, args
        model.set_attn_implementation(point["attention"])
        if point["recompute"]:
            model.gradient_checkpointing_enable()
        else:
            model.gradient_checkpointing_disable()
        torch.manual_seed(11 + args.rank)
        shape = (point["batch"], point["tokens"])
        ids = torch.randint(0, config.vocab_size, shape, device=args.device)
        labels = ids
        if config.model_type == "bert":  # every seventh token is masked
            chosen = torch.arange(ids.numel(), device=args.device).reshape(shape) % 7 == 3
            labels = torch.where(chosen, ids, torch.full_like(ids, -100))
        self.inputs = {"input_ids": ids, "labels": labels}
        if config.model_type != "bert":
            self.inputs["use_cache"] = False
        self.parameters = list(self.model.parameters())
        self.optimizer = optimizer_of(point["optimizer"], self.parameters)
        self.marks = lambda name: None

    def fresh(self):
        pass

    @contextlib.contextmanager
    def phase(self, name):
        with torch.profiler.record_function("phase:" + name):
            yield
        self.marks(name)

    def exchanges(self, last):
        """Whether the backward pass of a micro-batch adds gradients up over ranks: that of the last one does."""
        kind = self.point.get("spread")
        if kind in ("ddp", "fsdp1") and not last:
            return self.model.no_sync()
        if kind == "fsdp":
            self.model.set_requires_gradient_sync(last)
        return contextlib.nullcontext()

    def step(self):
        parts = self.point.get("accumulate", 1)
        for part in range(parts):
            with self.exchanges(part == parts - 1):
                with self.phase("forward"):
                    with torch.autocast(self.args.device, torch.bfloat16, enabled=self.point["autocast"]):
                        loss = self.model(**self.inputs).loss
                with self.phase("backward"):
                    loss.backward()
        if self.point["clip"]:
            with self.phase("clip"):
                torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        with self.phase("optimizer"):
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)


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
    return {"wall_us": [round(statistics.median(late), 1), round(min(late), 1), round(max(late), 1)], "pairs": len(late), **by_edges,
            "watts": more["energy"], "sm_MHz": statistics.median(clocks) if clocks else None,
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


def export_trace(iteration, args, trace):
    """Writes the Chrome trace of one iteration behind two others to the file `trace` (rank 0; the others run along)."""
    if args.rank > 0:
        for _ in range(3):
            iteration.step()
        synchronize(args.device)
        return
    activities = [torch.profiler.ProfilerActivity.CPU]
    if args.device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, record_shapes=True,
                                schedule=torch.profiler.schedule(wait=0, warmup=2, active=1, repeat=1),
                                on_trace_ready=lambda profile: profile.export_chrome_trace(trace)) as profile:
        for _ in range(3):
            iteration.step()
            synchronize(args.device)  # so that no launch of another iteration runs while one is traced
            profile.step()


def summarize(trace, record, out):
    """Runs in a process of its own: a line of traces.jsonl.gz from the file `trace`, which it removes."""
    with open(trace, encoding="utf-8", errors="replace") as text:
        events = json.load(text)["traceEvents"]
    os.unlink(trace)
    operators, calls, phases, strings, index = {}, {}, [], [], {}

    def named(text):
        if text not in index:
            index[text] = len(strings)
            strings.append(text)
        return index[text]
    for event in events:
        kind = event.get("cat")
        if kind == "cpu_op":
            operators[event["args"].get("External id")] = event
        elif kind in ("cuda_runtime", "cuda_driver"):
            calls[event["args"].get("correlation")] = event["ts"]
        elif kind == "user_annotation" and event["name"].startswith("phase:"):
            phases.append((event["ts"], event["ts"] + event["dur"], event["name"][6:]))
    device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    if not device and record["machine"]["gpu"] == "cpu":  # a dry run: operators stand for launches
        device = [e for e in events if e.get("cat") == "cpu_op"]
    device.sort(key=lambda e: e["ts"])
    groups, order, launches, starts, last = {}, {}, [], [], None
    for event in device:
        args = event["args"]
        operator = operators.get(args.get("External id"))
        about = operator["args"] if operator else {}
        called = calls.get(args.get("correlation"), event["ts"] if record["machine"]["gpu"] == "cpu" else -1)
        phase = next((name for begin, end, name in phases if begin <= called <= end), "")
        key = (named(event["name"][:240]), named(operator["name"] if operator else ""),
               named(json.dumps(about.get("Input Dims", []))[:2000]), named(json.dumps(about.get("Input type", []))[:1000]),
               named(json.dumps(about.get("Input Strides", []))[:2000]),
               named(json.dumps([args.get("grid"), args.get("block"), args.get("bytes")])), named(phase),
               args.get("stream", 0))
        if key not in groups:
            groups[key] = []
            order[key] = len(order)
        launches.append(order[key])
        starts.append(round((event["ts"] - (event["ts"] if last is None else last)) * 1e3))
        last = event["ts"]
        groups[key].append(event["dur"])
    rows = [list(key) + [len(groups[key]), round(statistics.median(groups[key]), 3), round(min(groups[key]), 3),
                         round(max(groups[key]), 3), round(sum(groups[key]), 3)] for key in order]
    record = {**record, "launches": launches, "starts_ns": starts, "groups": rows, "strings": strings,
              "busy_us": round(sum(e["dur"] for e in device), 2),
              "span_us": round(device[-1]["ts"] + device[-1]["dur"] - device[0]["ts"], 2) if device else None,
              "phases_us": {name: round(end - begin, 1) for begin, end, name in phases}}
    with gzip.open(out, "at", encoding="utf-8") as file:
        file.write(json.dumps(record, separators=(",", ":")) + "\n")
    return f"{record['model']} {record['batch']}x{record['tokens']}: {len(launches)} launches, busy {record['busy_us']} us"


def run_point(held, point, board, args):
    """One line of steps.jsonl, and the file of its trace."""
    import gc
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
        torch.distributed.all_gather_object(both, {key: record[key] for key in ("watts", "wall_us", "memory", "sm_MHz", "issue_us", "host_us") if key in record})
        record["watts_of_all"] = [each["watts"] for each in both]
        record["ranks"] = both
    if distributed:
        held.clear()
    return record, trace


def attention_operators(out, args, until):
    """Forward and backward of scaled_dot_product_attention, each launch's duration, from operands that rotate."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backends = [("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)]
    if args.device == "cpu":
        backends = [("math", SDPBackend.MATH)]
    for shape in ATTENTION[:2] if args.tiny else ATTENTION:
        for name, backend in backends:
            if time.perf_counter() > until:
                return
            batch, heads, kv_heads, width, tokens, causal = shape
            if args.tiny:
                tokens = 64
            record = {"op": "sdpa", "by": name, "shape": {"B": batch, "Hq": heads, "Hkv": kv_heads, "D": width, "S": tokens,
                                                          "causal": int(causal)}}
            try:
                record["kernels"] = attention_launches(batch, heads, kv_heads, width, tokens, causal, backend, args)
            except Exception as error:
                record["error"] = f"{type(error).__name__}: {str(error)[:300]}"
            out.write(json.dumps(record) + "\n")
            out.flush()


def attention_launches(batch, heads, kv_heads, width, tokens, causal, backend, args):
    from torch.nn.attention import sdpa_kernel

    def operand(count):  # [B, S, H, D] seen as [B, H, S, D], as a projection leaves it
        made = torch.randn(batch, tokens, count, width, device=args.device, dtype=torch.bfloat16)
        return made.transpose(1, 2).requires_grad_()
    flush = torch.empty(1 << (28 if args.device == "cuda" else 10), dtype=torch.int8, device=args.device)
    query, key, value = operand(heads), operand(kv_heads), operand(kv_heads)
    upstream = torch.randn(batch, tokens, heads, width, device=args.device, dtype=torch.bfloat16).transpose(1, 2)

    def once():
        flush.zero_()
        with sdpa_kernel([backend]):
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, enable_gqa=heads != kv_heads)
        flush.zero_()
        torch.autograd.grad(mixed, (query, key, value), upstream)
    for _ in range(3):
        once()
    synchronize(args.device)
    activity = torch.profiler.ProfilerActivity.CUDA if args.device == "cuda" else torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity]) as profile:
        for _ in range(5):
            once()
        synchronize(args.device)
    found = {}
    for event in profile.events():
        duration = event.device_time if args.device == "cuda" else event.cpu_time
        if duration > 0:
            found.setdefault(event.name[:200], []).append(round(duration, 3))
    return {kernel: [len(times), statistics.median(times), min(times), max(times)] for kernel, times in found.items()}


def work(rank, args, begin):
    """One rank's whole recording."""
    args.rank = rank
    torch.set_num_threads(4)
    if args.device == "cuda":
        torch.cuda.set_device(rank)
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
    import transformers
    board = Board(args.device)
    if board.handle and args.gpus > 1:
        board.handle = board.nvml.nvmlDeviceGetHandleByIndex(rank)
    machine = {"torch": torch.__version__, "transformers": transformers.__version__, "date": time.strftime("%Y-%m-%d"),
               "gpu": torch.cuda.get_device_name(rank) if args.device == "cuda" else "cpu", **board.facts()}
    machine["nccl"] = ".".join(map(str, torch.cuda.nccl.version())) if args.device == "cuda" else ""
    os.makedirs(args.out, exist_ok=True)
    wanted = args.only.split(",") if args.only else list(MODELS)
    points = ONE if args.gpus == 1 else TWO
    if args.points:  # lists of model, batch, tokens and an object of what differs
        with open(args.points, encoding="utf-8") as text:
            points = [at(*point[:3], **point[3]) for point in json.load(text)]
    points = [p for p in points if p["model"] in wanted][:args.most]
    points.insert(0 if args.operators_first else min(22, len(points)), "operators")
    pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) if rank == 0 else None
    real = args.device == "cuda" and not args.fake
    args.probe = Probe(args.device) if real else None
    args.edges = EnergyEdges(rank) if real and args.gpus == 1 else None
    pending, held = [], {}
    lines = open(os.path.join(args.out, "steps.jsonl"), "a", encoding="utf-8") if rank == 0 else None
    for point in points:
        late = torch.tensor([float(time.perf_counter() - begin[0] > args.until)])
        if args.gpus > 1:
            late = late.to(args.device)
            torch.distributed.all_reduce(late, op=torch.distributed.ReduceOp.MAX)
        if float(late) > 0:
            break
        if point == "operators":
            if args.gpus == 1 and not args.no_operators:
                held.clear()
                with open(os.path.join(args.out, "operators.jsonl"), "a", encoding="utf-8") as out:
                    attention_operators(out, args, begin[0] + args.until)
            continue
        record, trace = {**point, "layers": 2 if args.tiny else MODELS[point["model"]][1], "gpus": args.gpus,
                         **({"fake": args.fake} if args.fake else {}), "machine": machine}, None
        try:
            more, trace = run_point(held, point, board, args)
            record.update(more)
        except Exception as error:  # the other points go on; the record says what failed
            record["error"] = f"{type(error).__name__}: {str(error)[:300]}"
            held.clear()
            if os.environ.get("TRACE_VERBOSE"):
                traceback.print_exc()
        if rank == 0:
            lines.write(json.dumps(record) + "\n")
            lines.flush()
            peak = record.get("memory", {}).get("max_allocated", 0) / 1e9
            print(f"{time.perf_counter() - begin[0]:6.1f} s {point} {record.get('wall_us')} us, {record.get('watts')} W, "
                  f"{peak:.3f} GB {record.get('error', '')}", flush=True)
            if trace and os.path.getsize(trace):
                pending.append(pool.submit(summarize, trace, {**point, "gpus": args.gpus, "fake": args.fake, "machine": machine,
                                                              "layers": record["layers"], "wall_us": record["wall_us"]},
                                           os.path.join(args.out, "traces.jsonl.gz")))
        if args.gpus > 1 and "error" in record:
            break  # the ranks may no longer be at the same collective
    for future in pending:
        try:
            print(future.result(timeout=60), flush=True)
        except Exception as error:
            print(f"trace: {type(error).__name__}: {error}", flush=True)
    if pool:
        pool.shutdown()
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
    parser.add_argument("--points", default="", help="a JSON file of points in place of the list above")
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
    parser.add_argument("--tiny", action="store_true")
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
