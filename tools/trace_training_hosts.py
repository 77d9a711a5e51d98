#!/usr/bin/env python3
"""Records what the host takes for each phase of training iterations that have next to no work for the GPU.

    tools/trace_training_hosts.py --models data/models --out HOSTS.jsonl [--points FILE] [--more MODELS.json] [--until SECONDS]
                                  [--device cuda|cpu]

A model of transformers keeps its depth and its modules, and its widths become so small that the GPU is always done before the
host: what a phase takes is the host's alone. An iteration is tools/trace_training.py's. Replicas run under PyTorch's fake
process group, so that all is there but what travels. FILE holds lists of model, layers and an object of what differs, as
trace_training.py's points do. Hosts that are shared change their speed by half within seconds, so that a launch of the narrow
model (tools/measure_host.py) is taken in front of and behind each iteration. A line a point:

  phases_us   by phase, the host's time in each of the iterations, of micro-batches their sum
  host_us     a launch of the narrow model, in front of the first iteration and behind each
  counts      with --counts, of one iteration by phase: launches (calls of the driver that launch a kernel, a copy or a fill), operators
              (aten's, with those inside others), nodes (of autograd), modules (whose forward was called)
  tensors, parameters   of the model

Needs torch and transformers. Random weights; the seed is fixed.
"""
import argparse
import collections
import gc
import json
import time

import torch

from measure_host import Probe, facts
from paced_exchange import PacedExchanges
from trace_training_iteration import Iteration, build
from trace_training_models import add_models, at
from trace_transformers import synchronize

LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync", "cudaMemsetAsync")
ITERATIONS = 8

POINTS = [
    ["llama-3.2-1b", 16, {}], ["llama-3.2-1b", 4, {}], ["gpt2", 12, {}], ["bert-base-uncased", 12, {}], ["qwen3-0.6b", 12, {}],
    ["gemma-3-1b", 12, {}], ["opt-13b", 6, {}], ["qwen1.5-moe-a2.7b", 3, {}],
    ["llama-3.2-1b", 16, {"recompute": True}], ["gpt2", 12, {"recompute": True}], ["gemma-3-1b", 12, {"recompute": True}],
    ["llama-3.2-1b", 16, {"spread": "fsdp"}], ["llama-3.2-1b", 4, {"spread": "fsdp"}], ["gpt2", 12, {"spread": "fsdp"}],
    ["bert-base-uncased", 12, {"spread": "fsdp"}], ["gemma-3-1b", 12, {"spread": "fsdp"}],
    ["llama-3.2-1b", 16, {"spread": "fsdp", "keep": True}], ["gpt2", 12, {"spread": "fsdp", "recompute": True}],
    ["llama-3.2-1b", 16, {"spread": "fsdp", "recompute": True}],
    ["llama-3.2-1b", 16, {"spread": "ddp"}], ["bert-base-uncased", 12, {"spread": "ddp"}],
    ["llama-3.2-1b", 16, {"optimizer": "fused", "clip": True}], ["gpt2", 12, {"optimizer": "fused", "clip": True}],
    ["llama-3.2-1b", 16, {"spread": "fsdp", "optimizer": "fused", "clip": True}], ["llama-3.2-1b", 16, {"optimizer": "sgd-momentum"}],
    ["qwen3-0.6b", 12, {"recompute": True, "clip": True}], ["bert-base-uncased", 12, {"autocast": True}],
    ["llama-3.2-1b", 16, {"attention": "eager"}], ["mistral-7b-v0.1", 6, {}], ["llama-3.2-1b", 16, {"spread": "fsdp", "masters": True}],
    ["bert-base-uncased", 12, {"recompute": True}], ["mistral-7b-v0.1", 8, {"spread": "fsdp", "accumulate": 2}],
]


def phases_of(iteration, device):
    """Microseconds of each phase on the host, of an iteration that begins with an idle GPU."""
    synchronize(device)
    marks = [("", time.perf_counter())]
    iteration.marks = lambda name: marks.append((name, time.perf_counter()))
    iteration.step()
    iteration.marks = lambda name: None
    synchronize(device)
    times = collections.Counter()
    for (_, before), (name, end) in zip(marks, marks[1:]):
        times[name] += (end - before) * 1e6
    return times


def modules_called(iteration):
    """By phase, how many modules' forward an iteration calls."""
    found, phase, begun = collections.Counter(), ["forward"], []
    iteration.marks = lambda name: phase.__setitem__(0, "backward" if name == "forward" else "forward")
    for module in iteration.plain.modules():
        begun.append(module.register_forward_pre_hook(lambda *_: found.update(phase)))
    iteration.step()
    iteration.marks = lambda name: None
    for hook in begun:
        hook.remove()
    return found


def counts_of(iteration, device):
    """By phase: launches, operators of aten, nodes of autograd and modules of one iteration."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    synchronize(device)
    with torch.profiler.profile(activities=kinds) as profile:
        iteration.step()
        synchronize(device)
    events = [(e.name(), e.start_ns(), e.start_ns() + e.duration_ns()) for e in profile.profiler.kineto_results.events()
              if e.device_type() == torch.autograd.DeviceType.CPU]
    phases = sorted((begin, end, name[6:]) for name, begin, end in events if name.startswith("phase:"))
    found = {name: collections.Counter() for _, _, name in phases}
    for name, begin, _ in events:
        kind = ("launches" if name in LAUNCHES else "operators" if name.startswith("aten::") else
                "nodes" if name.startswith("autograd::engine::evaluate_function") else "")
        phase = next((called for start, end, called in phases if start <= begin <= end), None)
        if kind and phase:
            found[phase][kind] += 1
    for phase, count in modules_called(iteration).items():
        found[phase]["modules"] = count
    return found


def record(point, layers, probe, args):
    args.tiny, args.autocast = layers, point["autocast"] or point.get("masters", False)
    model, config = build(point["model"], args)
    line = {**point, "layers": layers, "tensors": sum(1 for _ in model.parameters()),
            "parameters": sum(p.numel() for p in model.parameters())}
    iteration = Iteration(model, config, point, args)
    for _ in range(2):
        iteration.step()
    line["host_us"], phases = [probe.take()[0] * 1e6], collections.defaultdict(list)
    for _ in range(ITERATIONS):
        for name, us in phases_of(iteration, args.device).items():
            phases[name].append(round(us, 1))
        line["host_us"].append(probe.take()[0] * 1e6)
    line["host_us"] = [round(us, 2) for us in line["host_us"]]
    line["phases_us"] = phases
    return {**line, "counts": counts_of(iteration, args.device)} if args.counts else line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="data/models")
    parser.add_argument("--out", required=True)
    parser.add_argument("--points", default="")
    parser.add_argument("--more", default="")
    parser.add_argument("--counts", action="store_true", help="what an iteration calls, too")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--until", type=float, default=1e9)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    args.no_dropout, args.dtype, args.tf32, args.rank, args.gpus, args.fake = False, None, False, 0, 1, 2
    if args.more:
        add_models(args.more)
    begin, points = time.perf_counter(), POINTS
    if args.points:
        with open(args.points, encoding="utf-8") as text:
            points = json.load(text)
    torch.set_num_threads(4)
    from torch.testing._internal.distributed.fake_pg import FakeStore
    torch.distributed.init_process_group("fake", rank=0, world_size=args.fake, store=FakeStore())
    args.pace = PacedExchanges("", args.fake)
    machine, probe = facts(args.device), Probe(args.device)
    with open(args.out, "a", encoding="utf-8") as out:
        for model, layers, flags in points:
            if time.perf_counter() - begin > args.until:
                break
            point = at(model, 1, args.tokens, **flags)
            try:
                line = record(point, layers, probe, args)
            except Exception as error:  # the other points go on; the record says what failed
                line = {**point, "layers": layers, "error": f"{type(error).__name__}: {str(error)[:300]}"}
            out.write(json.dumps({**line, "machine": machine}) + "\n")
            out.flush()
            print(f"{time.perf_counter() - begin:5.1f} s {model} {layers} {flags} {line.get('error', '')} {line.get('counts')}", flush=True)
            gc.collect()


if __name__ == "__main__":
    main()
