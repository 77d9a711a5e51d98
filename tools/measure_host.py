#!/usr/bin/env python3
"""Measures what this machine's host takes for a launch of a framework, and writes it as a host file (docs/predict-model.md,
`--host`); or records host-bound steps of whole models, each beside the host's own measure of that moment.

    tools/measure_host.py --out HOST.json [--name NAME]
    tools/measure_host.py --steps FOLDER --models data/models [--only NAME,...] [--until SECONDS] [--seconds N] [--few]

The measure is one decode step of a Llama of transformers that is too narrow for the GPU to matter (4 layers of 64), launched
one by one: its time over its launches, the median of loops of 12 steps. It runs the same Python, dispatcher and driver that a
wide model's step runs, and nothing of the wide model. Beside it, for what they tell of the host: a bare element-wise launch,
a product, and a loop of Python alone.

With --steps each run is five loops of steps, and before, between and behind them the measure is taken: `probe_us` are the six
times a launch, `add_us`, `mm_us` and `python_ns` the other three (median of the six). Hosts that are shared change their speed
by half within minutes: a figure of another hour says little. With --seconds a loop of that length behind them gives the board's
power, and its host is measured before and behind it. A model of another name has its first 8 layers. Launches are counted by PyTorch's profiler in a step of its own.
Needs torch and transformers. Random weights; the seed is fixed.
"""
import argparse
import json
import os
import statistics
import time
import types

import torch

import trace_transformers as tracing

# Steps that wait for the host on an H200; tokens are a decode step's context, a prefill's prompt.
POINTS = {"causal": [("decode", 1, 1024), ("decode", 8, 2000), ("prefill", 1, 128), ("decode", 4, 700), ("decode", 1, 128),
                     ("decode", 16, 512), ("prefill", 1, 350)],
          "encoder": [("encode", 1, 128), ("encode", 1, 384), ("encode", 4, 128), ("encode", 8, 128), ("encode", 2, 512)],
          "diffusion": [("denoise", 2, 256), ("denoise", 4, 256)]}
ORDER = ["llama-3.1-8b", "bert-large-uncased", "qwen3-8b", "dit-xl-2-256", "gemma-2-9b", "gpt2-xl", "qwen3-30b-a3b",
         "mixtral-8x7b"]


def timed(action, count, device):
    tracing.synchronize(device)
    begin = time.perf_counter()
    for _ in range(count):
        action()
    tracing.synchronize(device)
    return (time.perf_counter() - begin) / count


def launches_of(steps, device):
    """Kernels, copies and fills of one step, by the profiler; of a CPU the operators, so that the tool can be tried there."""
    steps.fresh()
    steps.step()
    kinds = [torch.profiler.ProfilerActivity.CUDA if device == "cuda" else torch.profiler.ProfilerActivity.CPU]
    tracing.synchronize(device)
    with torch.profiler.profile(activities=kinds) as profile:
        steps.step()
        tracing.synchronize(device)
    events = profile.profiler.kineto_results.events()
    if device != "cuda":
        return len(events)
    return sum(1 for e in events if e.device_type() == torch.autograd.DeviceType.CUDA)


class Probe:
    """The host's measure, ready to be taken at any moment."""

    def __init__(self, device):
        from transformers import AutoConfig, AutoModelForCausalLM
        self.device = device
        config = AutoConfig.for_model("llama", hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
                                      num_key_value_heads=2, head_dim=16, vocab_size=512, max_position_embeddings=4096)
        torch.manual_seed(7)
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
        self.steps = tracing.Steps("causal", model.eval(), model.config, "sdpa", ("decode", 1, 64), device)
        self.launches = launches_of(self.steps, device)
        self.small = torch.ones(64, 64, device=device, dtype=torch.bfloat16)
        self.product = torch.empty_like(self.small)
        for _ in range(3):
            self.take()

    def take(self):
        """Seconds a launch of the small model, of an addition, of a product; seconds of a turn of an empty Python call."""
        self.steps.fresh()
        step = timed(self.steps.step, 12, self.device) / self.launches
        add = timed(lambda: self.small.add_(0), 300, self.device)
        product = timed(lambda: torch.mm(self.small, self.small, out=self.product), 300, self.device)
        nothing = types.SimpleNamespace(call=lambda x: x)
        begin = time.perf_counter()
        for i in range(20000):
            nothing.call(i)
        return step, add, product, (time.perf_counter() - begin) / 20000


def facts(device):
    import transformers
    processor = ""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as text:
            processor = next((line.split(":", 1)[1].strip() for line in text if line.startswith("model name")), "")
    return {"torch": torch.__version__, "transformers": transformers.__version__, "date": time.strftime("%Y-%m-%d"),
            "processor": processor, "cores": os.cpu_count(),
            "gpu": torch.cuda.get_device_name(0) if device == "cuda" else "cpu", **tracing.Board(device).facts()}


def write_host(args):
    probe = Probe(args.device)
    taken = [probe.take()[0] for _ in range(15)]
    each = statistics.median(taken)
    about = facts(args.device)
    launch = f"{each * 1e6:.1f} us"
    source = (f"tools/measure_host.py, {about['date']}: {probe.launches} launches a step of a narrow Llama, {len(taken)} loops, "
              f"{min(taken) * 1e6:.1f} to {max(taken) * 1e6:.1f} us a launch; {about['processor']}, {about['gpu']}, "
              f"PyTorch {about['torch']}, transformers {about['transformers']}")
    host = {"schema": 1, "name": args.name, "narrow_launch": launch, "source": source}
    with open(args.out, "w", encoding="utf-8") as file:
        file.write(json.dumps(host, indent=2) + "\n")
    print(f"{launch} a launch: {args.out}")


def power_of(probe, steps, board, args):
    """The later half of a loop of that many seconds, and the host's measure before and behind it."""
    before = probe.take()[0]

    def some():
        steps.loop(8)
        tracing.synchronize(args.device)
    watts, clock = board.loop(some, args.seconds)
    return {"watts": watts, "sm_MHz": clock, "power_probe_us": [round(t * 1e6, 3) for t in (before, probe.take()[0])]}


def record_run(probe, steps, device):
    steps.loop(3)
    tracing.synchronize(device)
    warm = timed(steps.step, 2, device)
    count = max(4, min(12, int(0.1 / warm)))
    taken, loops = [probe.take()], []
    for _ in range(5):
        steps.fresh()
        loops.append(timed(steps.step, count, device))
        taken.append(probe.take())
    columns = list(zip(*taken))
    return {"wall_us": [round(t * 1e6, 2) for t in loops], "steps_a_loop": count,
            "probe_us": [round(t * 1e6, 3) for t in columns[0]],
            "add_us": round(statistics.median(columns[1]) * 1e6, 3), "mm_us": round(statistics.median(columns[2]) * 1e6, 3),
            "python_ns": round(statistics.median(columns[3]) * 1e9, 1), "launches": launches_of(steps, device)}


def record_steps(args):
    begin, about = time.perf_counter(), facts(args.device)
    probe, board = Probe(args.device), tracing.Board(args.device)
    about["probe_launches"] = probe.launches
    os.makedirs(args.steps, exist_ok=True)
    with open(os.path.join(args.steps, "host.jsonl"), "a", encoding="utf-8") as out:
        for name in args.only.split(","):
            if time.perf_counter() - begin > args.until:
                break
            tracing.MODELS.setdefault(name, (name + ".json", 8))
            kind, model, config = tracing.build(name, args)
            layers = config["num_layers"] if kind == "diffusion" else tracing.MODELS[name][1]
            for point in POINTS[kind][:2] if args.few else POINTS[kind]:
                if point[2] >= (getattr(config, "max_position_embeddings", None) or 1 << 30):
                    continue
                for mode in ("sdpa", "eager"):
                    if time.perf_counter() - begin > args.until:
                        break
                    record = {"model": name, "layers": layers, "mode": mode, "phase": point[0], "batch": point[1],
                              "tokens": point[2], "dtype": "bf16", **about}
                    try:
                        if hasattr(model, "set_attn_implementation"):
                            model.set_attn_implementation(mode)
                        else:
                            model.written_out = mode == "eager"
                        steps = tracing.Steps(kind, model, config, mode, point, args.device)
                        record.update(record_run(probe, steps, args.device))
                        if args.seconds > 0:
                            record.update(power_of(probe, steps, board, args))
                    except Exception as error:  # the other runs go on; the record says what failed
                        record["error"] = f"{type(error).__name__}: {str(error)[:300]}"
                    print(f"{time.perf_counter() - begin:6.1f} s {name} {mode} {point} {record.get('wall_us')} us, probe "
                          f"{record.get('probe_us')}, {record.get('launches')} launches {record.get('error', '')}", flush=True)
                    out.write(json.dumps(record, separators=(",", ":")) + "\n")
                    out.flush()
            del model
            if args.device == "cuda":
                torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="the host file to write")
    parser.add_argument("--name", default="this-host")
    parser.add_argument("--steps", help="the folder to record steps in")
    parser.add_argument("--models", default="data/models")
    parser.add_argument("--only", default=",".join(ORDER))
    parser.add_argument("--until", type=float, default=1e9, help="begin no run after this many seconds")
    parser.add_argument("--seconds", type=float, default=0, help="of a loop for the board's power")
    parser.add_argument("--few", action="store_true", help="two points a model")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    if not args.out and not args.steps:
        parser.error("expected --out or --steps")
    if args.out:
        write_host(args)
    if args.steps:
        record_steps(args)


if __name__ == "__main__":
    main()
