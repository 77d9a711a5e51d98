#!/usr/bin/env python3
"""Times and traces torch.compile's steps, CUDA graphs of them, and power of long loops, on the GPU of this machine.

    tools/trace_compiled.py --models data/models --out FOLDER [--seconds N] [--power N] [--device cuda|cpu --tiny]

Goes through TASKS in order until `--seconds` are over; each result is one line of FOLDER/compiled.jsonl, as
tools/trace_transformers.py writes them (models, points, measures and seed are its own), written as soon as it is there. Modes:

  sdpa, graph   as there, with the power of a loop of `--power` seconds, of which the last three fifths are read
  compile       torch.compile, default mode, static shapes and cache
  captured      what `compile` made, replayed from a CUDA graph
  overhead      torch.compile(mode="reduce-overhead"): PyTorch captures the graphs itself

`compile_s` is what the first call took; `experts_rows` are of a step of its own with the same tokens. A task that fails or compiles for more than a minute leaves a record with its error.
"""
import argparse
import json
import os
import signal
import time
import traceback

import torch

import diffusion_models
import trace_transformers as base

MODELS = {"sd3.5-large": ("sd3.5-large-transformer.json", 8), "flux.1-dev": ("flux.1-dev-transformer.json", 4)}
LAYERS = {"bert-large-uncased": 8, "dit-xl-2-256": 8}  # fewer than trace_transformers.py: Inductor's time goes with them
# (model, modes one after another on what one compilation made, point, whether power is read)
TASKS = [
    ("dit-xl-2-256", "sdpa,graph,compile,captured", ("denoise", 8, 256), True),
    ("bert-large-uncased", "compile,captured", ("encode", 16, 512), True),
    ("llama-3.1-8b", "graph,compile,captured", ("decode", 8, 2000), True),
    ("llama-3.1-8b", "sdpa,compile", ("prefill", 1, 2048), True),
    ("qwen3-30b-a3b", "graph,compile,captured", ("decode", 32, 1024), True),
    ("sd3.5-large", "sdpa,graph,compile", ("denoise", 2, 1024), True),
    ("qwen3-30b-a3b", "sdpa,compile", ("prefill", 4, 512), True),
    ("dit-xl-2-256", "sdpa,graph,compile,captured", ("denoise", 32, 256), True),
    ("bert-large-uncased", "sdpa,compile,captured", ("encode", 64, 384), True),
    ("flux.1-dev", "sdpa,compile", ("denoise", 1, 4096), True),
    ("llama-3.1-8b", "overhead", ("decode", 32, 1024), False),
    ("gemma-2-9b", "graph,compile,captured", ("decode", 32, 1024), True),
    ("llama-3.1-8b", "graph,compile,captured", ("decode", 96, 512), True),
    ("bert-large-uncased", "compile,captured", ("encode", 8, 384), False),
    ("dit-xl-2-256", "sdpa,compile,captured", ("denoise", 2, 1024), False),
    ("gemma-2-9b", "sdpa,compile", ("prefill", 1, 2048), True),
    ("sd3.5-large", "sdpa,graph,compile", ("denoise", 2, 4096), True),
    ("mixtral-8x7b", "sdpa,compile", ("prefill", 4, 512), True),
    ("mixtral-8x7b", "graph,compile,captured", ("decode", 8, 2000), True),
    ("qwen3-8b", "graph,compile,captured", ("decode", 32, 1024), True),
    ("qwen3-8b", "sdpa,compile", ("prefill", 4, 512), True),
    ("qwen3-30b-a3b", "compile,captured", ("decode", 8, 2000), False),
    ("gemma-2-9b", "compile,captured", ("decode", 8, 2000), False),
]


class SeparateProjections(base.DiffusionBlock):
    """DiT's block with a product each for queries, keys and values, as diffusers has it (its authors have one for the three)."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        del self.qkv
        self.query, self.key, self.value = (torch.nn.Linear(width, width) for _ in range(3))

    def attention(self, x, written_out):
        shape = (x.shape[0], -1, self.heads, x.shape[2] // self.heads)
        query, key, value = (f(x).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return self.project(mixed.transpose(1, 2).reshape(x.shape))


class Overtime(Exception):
    pass


def stop(*_):
    raise Overtime("the time of one run was over")


def build(name, args):
    """As trace_transformers.build, for its models and those of MODELS."""
    if name not in MODELS:
        if name in LAYERS:
            base.MODELS[name] = (base.MODELS[name][0], LAYERS[name])
        base.DiffusionBlock = SeparateProjections
        return base.build(name, args)
    file, layers = MODELS[name]
    with open(os.path.join(args.models, file), encoding="utf-8") as text:
        config = json.load(text)
    if args.tiny:
        config.update({"num_attention_heads": 2, "joint_attention_dim": 32, "pooled_projection_dim": 16})
        layers = 2
    torch.manual_seed(7)
    with torch.device(args.device):
        model = diffusion_models.JointTransformer(config, layers).to(torch.bfloat16)
    return "joint", model.eval(), config


class Steps(base.Steps):
    """What one compilation made stays for the mode behind it (`made`)."""

    def __init__(self, kind, model, config, mode, point, device, made=None):
        if mode == "captured":
            self.__dict__.update(made.__dict__)
            self.mode = mode
            self.capture()
            return
        if kind != "joint":
            super().__init__(kind, model, config, "compile" if mode == "overhead" else mode, point, device)
            self.mode = mode
        else:
            self.model, self.config, self.mode, self.device = model, config, mode, device
            self.phase, self.batch, self.tokens = point
            self.room, self.cache, self.graph = 16, None, None
            self.inputs = model.example(self.batch, self.tokens, device, torch.bfloat16)
            self.forward = model.forward
            if mode == "graph":
                self.capture()
        if mode in ("compile", "overhead"):
            torch._dynamo.reset()
            self.forward = torch.compile(model.forward, dynamic=False,
                                         mode="reduce-overhead" if mode == "overhead" else None)

    def step(self):
        if self.mode == "overhead":
            torch.compiler.cudagraph_mark_step_begin()
        super().step()


def power(board, steps, wall_us, args):
    """Mean power and median clock of a loop of args.power seconds, in bursts of about 0.2 s."""
    count = max(1, min(12, int(0.2e6 / wall_us)))

    def some():
        steps.loop(count)
        base.synchronize(args.device)
    return board.loop(some, args.power)


def measure(steps, board, wanted, args):
    device = args.device
    begin = time.perf_counter()
    steps.loop(1)
    base.synchronize(device)
    first = time.perf_counter() - begin
    steps.loop(3)
    base.synchronize(device)
    wall = base.timed_loops(steps, 2 if device == "cpu" else 12, device)
    record = {"wall_us": [round(t, 2) for t in wall], "compile_s": round(first, 2), "watts": None, "sm_MHz": None}
    if wanted and args.power > 0:
        record["watts"], record["sm_MHz"] = power(board, steps, wall[0], args)
        record["power_loop_s"] = args.power
        if board.handle:
            record["temperature_C"] = board.nvml.nvmlDeviceGetTemperature(board.handle, 0)
    record["peak_bytes"] = torch.cuda.max_memory_allocated() - args.resident if device == "cuda" else None
    record.update(base.summary(base.traced(steps, device)))
    return record


def run_task(task, built, board, machine, out, begin, args):
    name, modes, point, wanted = task
    if args.tiny:
        point = (point[0], min(point[1], 2), min(point[2], 64))
    if name not in built:
        built[name] = build(name, args)
    kind, model, config = built[name]
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("sdpa")
    layers = MODELS[name][1] if name in MODELS else base.MODELS[name][1]
    made, rows = None, None
    if any(type(m).__name__.endswith("Experts") for m in model.modules()):
        torch.manual_seed(11)
        rows = base.routed(model, Steps(kind, model, config, "sdpa", point, args.device))
    for mode in modes.split(","):
        left = args.seconds - (time.perf_counter() - begin)
        if left < (20 if mode in ("compile", "overhead") and not args.tiny else 4):
            return
        if args.tiny and args.device == "cpu" and mode in ("graph", "captured", "overhead"):
            continue
        record = {"model": name, "layers": layers, "mode": mode, "phase": point[0], "batch": point[1], "tokens": point[2],
                  "dtype": "bf16", **machine}
        if kind == "causal":
            record["experts"] = getattr(config, "_experts_implementation", None)
        if rows:
            record["experts_rows"] = [[count for count in layer if count] for layer in rows]
        if args.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            args.resident = sum(p.numel() * p.element_size() for n, (_, m, _) in built.items() if n != name
                                for p in m.parameters())
        signal.alarm(int(min(60, max(8, left))))
        torch.manual_seed(11)
        steps = None
        try:
            if mode == "captured" and made is None:
                raise RuntimeError("nothing was compiled")
            steps = Steps(kind, model, config, mode, point, args.device, made)
            record.update(measure(steps, board, wanted, args))
        except BaseException as error:  # the other tasks go on; the record says what failed
            record["error"] = f"{type(error).__name__}: {str(error)[:400]}"
            if isinstance(error, KeyboardInterrupt):
                raise
            if os.environ.get("TRACE_VERBOSE"):
                traceback.print_exc()
        finally:
            signal.alarm(0)
        made = steps if mode == "compile" and "error" not in record else None
        print(f"{time.perf_counter() - begin:6.1f} s {name} {mode} {point} {record.get('wall_us')} us, first "
              f"{record.get('compile_s')} s, {len(record.get('launches', []))} launches, busy {record.get('busy_us')}, "
              f"{record.get('watts')} W {record.get('sm_MHz')} {record.get('error', '')}", flush=True)
        out.write(json.dumps(record, separators=(",", ":")) + "\n")
        out.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="data/models")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=250, help="begin nothing that would end after this many seconds")
    parser.add_argument("--power", type=float, default=2.5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", default="", help="tasks of these models alone")
    parser.add_argument("--from-task", type=int, default=0)
    args = parser.parse_args()
    import transformers
    begin, board = time.perf_counter(), base.Board(args.device)
    os.makedirs(args.out, exist_ok=True)
    machine = {"torch": torch.__version__, "transformers": transformers.__version__, "date": time.strftime("%Y-%m-%d"),
               "gpu": torch.cuda.get_device_name(0) if args.device == "cuda" else "cpu", **board.facts()}
    signal.signal(signal.SIGALRM, stop)
    built = {}
    with open(os.path.join(args.out, "compiled.jsonl"), "a", encoding="utf-8") as out:
        for task in TASKS[args.from_task:]:
            if args.only and task[0] not in args.only.split(","):
                continue
            if time.perf_counter() - begin > args.seconds - 6:
                break
            try:
                run_task(task, built, board, machine, out, begin, args)
            except Exception as error:  # a model that cannot be built
                print(f"{time.perf_counter() - begin:6.1f} s {task[0]}: {type(error).__name__}: {str(error)[:300]}", flush=True)


if __name__ == "__main__":
    main()
