#!/usr/bin/env python3
"""Times and traces whole forwards and decode steps of transformers' models under PyTorch on the GPU of this machine.

    tools/trace_transformers.py --models data/models --out FOLDER [--only NAME,...] [--modes eager,sdpa,graph,compile]
                                [--seconds N] [--points few|all] [--device cuda|cpu --tiny]

A model is built from its config with random weights (real widths, the first LAYERS of its layers), in bf16. A run is one mode
at one point (phase, sequences, tokens). For each it writes, as one line of FOLDER/steps.jsonl:

  wall_us      one step, of a loop of steps without a synchronization between them: median, least and largest loop
  watts, sm_MHz   of a loop of about a second and a half, by the board's energy counter and sampled clocks
  launches     what one traced step ran on the GPU, in order, each as an index into `groups`
  groups       what launches alike have in common: kernel, operator (innermost), shapes, types, grid, block; how many, and
               the median, least and largest duration in microseconds
  experts_rows rows of each expert in the traced step, a list a layer of experts, most first (not in mode graph, compile)

Names and shapes are indices into the run's own `strings`. A traced step's durations are the device's; its host times are not
kept, since tracing slows the host. In mode `graph` the step is replayed from a CUDA graph with a static cache, in `compile`
torch.compile's default mode runs it. Keys and values of a context are random. A run that fails is written with its error.

Modes:  eager: attention written out; sdpa: scaled_dot_product_attention; both with a growing cache, launched one by one.
Needs torch, transformers, nvidia-ml-py. The seed is fixed.
"""
import argparse
import gzip
import json
import os
import statistics
import tempfile
import threading
import time
import traceback

import torch
from torch import nn
from torch.nn import functional

# name: (config file, layers kept, factory). Layers are cut so that a trace stays readable; widths stay.
MODELS = {
    "llama-3.1-8b": ("llama-3.1-8b.json", 8),
    "gemma-2-9b": ("gemma-2-9b.json", 8),
    "mixtral-8x7b": ("mixtral-8x7b.json", 8),
    "qwen3-30b-a3b": ("qwen3-30b-a3b.json", 8),
    "bert-large-uncased": ("bert-large-uncased.json", 24),
    "dit-xl-2-256": ("dit-xl-2-256.json", 28),
    "gpt2-xl": ("gpt2-xl.json", 12),
    "qwen3-8b": ("qwen3-8b.json", 8),
}
CAUSAL = [("prefill", 1, 128), ("prefill", 1, 700), ("prefill", 1, 2048), ("prefill", 1, 8192), ("prefill", 4, 512),
          ("prefill", 16, 384), ("decode", 1, 128), ("decode", 1, 1024), ("decode", 1, 8000), ("decode", 8, 2000),
          ("decode", 32, 1024), ("decode", 96, 512)]
FEW_CAUSAL = [("prefill", 1, 700), ("prefill", 4, 512), ("prefill", 1, 2048), ("decode", 1, 1024), ("decode", 32, 1024)]
ENCODER = [("encode", 1, 128), ("encode", 1, 384), ("encode", 8, 384), ("encode", 32, 128), ("encode", 16, 512), ("encode", 64, 384)]
DIFFUSION = [("denoise", 2, 256), ("denoise", 8, 256), ("denoise", 2, 1024), ("denoise", 32, 256)]


class DiffusionBlock(nn.Module):
    """A block of DiT (adaLN-Zero), as its authors wrote it: two modulated layer norms, attention, a GELU MLP."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def attention(self, x, written_out):
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        if written_out:
            scores = (query * (width // self.heads) ** -0.5) @ key.transpose(-2, -1)
            mixed = scores.softmax(dim=-1) @ value
        else:
            mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.project(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x, condition, written_out):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(condition).chunk(6, dim=1)
        modulated = self.norm1(x) * (1 + scale1.unsqueeze(1)) + shift1.unsqueeze(1)
        x = x + gate1.unsqueeze(1) * self.attention(modulated, written_out)
        modulated = self.norm2(x) * (1 + scale2.unsqueeze(1)) + shift2.unsqueeze(1)
        return x + gate2.unsqueeze(1) * self.down(functional.gelu(self.up(modulated), approximate="tanh"))


class DiffusionTransformer(nn.Module):
    """DiT from a diffusers config: patches, timestep and label embedding, blocks, final layer."""

    def __init__(self, config, layers):
        super().__init__()
        heads, width = config["num_attention_heads"], config["num_attention_heads"] * config["attention_head_dim"]
        self.patch, self.channels = config["patch_size"], config["in_channels"]
        self.embed = nn.Conv2d(self.channels, width, self.patch, stride=self.patch)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(config["num_embeds_ada_norm"] + 1, width)
        self.blocks = nn.ModuleList(DiffusionBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.head = nn.Linear(width, self.patch * self.patch * config["out_channels"])
        self.written_out = False

    def forward(self, image, timestep, label):
        x = self.embed(image).flatten(2).transpose(1, 2)
        frequencies = torch.exp(torch.arange(128, device=image.device) * (-9.21 / 128))
        angles = timestep[:, None].float() * frequencies[None]
        wave = torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1).to(image.dtype)
        condition = self.time(wave) + self.label(label)
        for block in self.blocks:
            x = block(x, condition, self.written_out)
        shift, scale = self.modulation(condition).chunk(2, dim=1)
        return self.head(self.norm(x) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1))


class Board:
    """Energy and clocks by NVML; silent where there is no GPU."""

    def __init__(self, device):
        self.handle = None
        if device == "cuda":
            import pynvml
            pynvml.nvmlInit()
            self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)

    def facts(self):
        if not self.handle:
            return {}
        return {"driver": self.nvml.nvmlSystemGetDriverVersion(), "uuid": self.nvml.nvmlDeviceGetUUID(self.handle),
                "cap_W": self.nvml.nvmlDeviceGetEnforcedPowerLimit(self.handle) / 1e3}

    def loop(self, action, seconds):
        """Runs `action` for about `seconds`; the mean power in watts and the median SM clock in MHz of the later half."""
        if not self.handle:
            return None, None
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.4 * seconds:
            action()
        clocks, stop = [], threading.Event()

        def sample():
            while not stop.is_set():
                clocks.append(self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM))
                time.sleep(0.02)
        thread = threading.Thread(target=sample)
        thread.start()
        energy, begin = self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle), time.perf_counter()
        while time.perf_counter() - begin < 0.6 * seconds:
            action()
        elapsed = time.perf_counter() - begin
        joules = (self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle) - energy) / 1e3
        stop.set()
        thread.join()
        return joules / elapsed, statistics.median(clocks)


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def build(name, args):
    """(kind, model, config) with random weights on the device."""
    file, layers = MODELS[name]
    with open(os.path.join(args.models, file), encoding="utf-8") as text:
        config = json.load(text)
    dtype = torch.bfloat16
    torch.manual_seed(7)
    if config.get("_class_name") == "DiTTransformer2DModel":
        with torch.device(args.device):
            model = DiffusionTransformer(config, 2 if args.tiny else layers).to(dtype)
        return "diffusion", model.eval(), config
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM
    kind = config.pop("model_type")
    config.pop("transformers_version", None)
    for key in ("num_hidden_layers", "n_layer"):
        if key in config:
            config[key] = 2 if args.tiny else layers
    if args.tiny:
        for key, value in (("hidden_size", 64), ("n_embd", 64), ("intermediate_size", 96), ("moe_intermediate_size", 32),
                           ("num_attention_heads", 4), ("n_head", 4), ("num_key_value_heads", 2), ("head_dim", 16),
                           ("vocab_size", 512), ("num_experts", 8), ("num_local_experts", 8)):
            if key in config:
                config[key] = value
    for key in ("pad_token_id", "bos_token_id", "eos_token_id", "cache_implementation"):
        config.pop(key, None)
    made = AutoConfig.for_model(kind, **config)
    factory = AutoModelForMaskedLM if kind == "bert" else AutoModelForCausalLM
    with torch.device(args.device):
        model = factory.from_config(made, dtype=dtype, attn_implementation="sdpa")
    return ("encoder" if kind == "bert" else "causal"), model.to(dtype).eval(), made


class Steps:
    """What a run repeats: `fresh` brings the state to the point's start, `step` runs one step, at most `room` of them."""

    def __init__(self, kind, model, config, mode, point, device):
        self.model, self.config, self.mode, self.device = model, config, mode, device
        self.phase, self.batch, self.tokens = point
        self.room, self.cache, self.graph = 16, None, None
        static = mode in ("graph", "compile")
        if kind == "diffusion":
            side = config["patch_size"] * int(self.tokens ** 0.5)
            image = torch.randn(self.batch, config["in_channels"], side, side, device=device, dtype=torch.bfloat16)
            moment = torch.randint(0, 1000, (self.batch,), device=device)
            self.inputs = {"image": image, "timestep": moment, "label": torch.randint(0, 1000, (self.batch,), device=device)}
        elif kind == "encoder":
            ids = torch.randint(0, config.vocab_size, (self.batch, self.tokens), device=device)
            self.inputs = {"input_ids": ids}
        else:
            length = 1 if self.phase == "decode" else self.tokens
            past = self.tokens if self.phase == "decode" else 0
            ids = torch.randint(0, config.vocab_size, (self.batch, length), device=device)
            self.inputs = {"input_ids": ids, "use_cache": True, "logits_to_keep": 1}
            if static:
                self.inputs["position_ids"] = (torch.arange(length, device=device) + past)[None]
            self.past = past
            self.make_cache(static, length, past)
        self.forward = model.forward
        if mode == "compile":
            torch._dynamo.reset()
            self.forward = torch.compile(model.forward, dynamic=False)
        if mode == "graph":
            self.capture()

    def keys(self, layer):
        config = self.config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return torch.randn(self.batch, heads, self.past, width, device=self.device, dtype=torch.bfloat16)

    def fill(self):
        for layer in range(self.config.num_hidden_layers):
            self.cache.update(self.keys(layer), self.keys(layer), layer)

    def make_cache(self, static, length, past):
        from transformers import DynamicCache, StaticCache
        if static:
            self.cache = StaticCache(config=self.config, max_cache_len=past + (self.room if past else length))
            self.fill() if past else None
        else:
            self.cache = DynamicCache(config=self.config)
            self.fill() if past else None
        self.static = static
        self.inputs["past_key_values"] = self.cache

    def fresh(self):
        if self.cache is None:
            return
        if not self.static:
            self.make_cache(False, 0, self.past)
            return
        for layer in self.cache.layers:
            if getattr(layer, "is_initialized", False):
                layer.cumulative_length.fill_(self.past)

    def step(self):
        if self.graph is not None:
            self.graph.replay()
            return
        if self.cache is not None and self.phase == "prefill":
            self.fresh()
        with torch.no_grad():
            self.forward(**self.inputs)

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        self.fresh()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            if self.phase == "prefill":
                for layer in self.cache.layers if self.cache is not None else []:
                    layer.cumulative_length.fill_(0)
            with torch.no_grad():
                self.forward(**self.inputs)
        self.graph = graph

    def loop(self, count):
        self.fresh()
        for _ in range(count):
            self.step()


def timed_loops(steps, count, device, loops=5):
    times = []
    for _ in range(loops):
        steps.fresh()
        synchronize(device)
        begin = time.perf_counter()
        for _ in range(count):
            steps.step()
        synchronize(device)
        times.append((time.perf_counter() - begin) / count * 1e6)
    return [statistics.median(times), min(times), max(times)]


def routed(model, steps):
    """Rows of each expert of every layer in one step, most first: random weights route unevenly."""
    rows, hooks = [], []

    def note(module, inputs):
        chosen = next(t for t in inputs if torch.is_tensor(t) and not t.is_floating_point())
        rows.append(sorted(torch.bincount(chosen.flatten()).tolist(), reverse=True))
    for module in model.modules():
        if type(module).__name__.endswith("Experts"):
            hooks.append(module.register_forward_pre_hook(note))
    if hooks:
        steps.fresh()
        steps.step()
        steps.step()
    for hook in hooks:
        hook.remove()
    return rows[len(rows) // 2:]


def traced(steps, device):
    """The Chrome trace of one step as PyTorch's profiler writes it."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    steps.fresh()
    steps.step()
    synchronize(device)
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        steps.step()
        synchronize(device)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        with open(file.name, encoding="utf-8", errors="replace") as text:
            return json.load(text)["traceEvents"]


def summary(events):
    """launches, groups and strings of a trace (see above)."""
    operators, strings, index = {}, [], {}

    def named(text):
        if text not in index:
            index[text] = len(strings)
            strings.append(text)
        return index[text]
    for event in events:
        if event.get("cat") == "cpu_op":
            operators[event["args"].get("External id")] = event
    device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    device.sort(key=lambda e: e["ts"])
    groups, order, launches = {}, {}, []
    for event in device:
        args = event["args"]
        operator = operators.get(args.get("External id"))
        about = operator["args"] if operator else {}
        key = (named(event["name"][:240]), named(operator["name"] if operator else ""),
               named(json.dumps(about.get("Input Dims", []))), named(json.dumps(about.get("Input type", []))),
               named(json.dumps(about.get("Input Strides", []))),
               named(json.dumps([args.get("grid"), args.get("block"), args.get("bytes")])))
        if key not in groups:
            groups[key] = []
            order[key] = len(order)
        launches.append(order[key])
        groups[key].append(event["dur"])
    rows = [list(key) + [len(groups[key]), round(statistics.median(groups[key]), 3), round(min(groups[key]), 3),
                         round(max(groups[key]), 3)] for key in order]
    return {"launches": launches, "groups": rows, "strings": strings,
            "busy_us": round(sum(e["dur"] for e in device), 2),
            "span_us": round(device[-1]["ts"] + device[-1]["dur"] - device[0]["ts"], 2) if device else None}


def run(kind, model, config, mode, point, board, args):
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager" if mode == "eager" else "sdpa")
    else:
        model.written_out = mode == "eager"
    steps = Steps(kind, model, config, mode, point, args.device)
    begin = time.perf_counter()
    steps.loop(3)
    synchronize(args.device)
    steps.loop(2)
    synchronize(args.device)
    warm = time.perf_counter() - begin
    wall = timed_loops(steps, 3 if warm > 3 and mode != "compile" else 12, args.device)
    watts, clock = (None, None)
    if args.seconds > 0:
        def some():
            steps.loop(12)
            synchronize(args.device)
        watts, clock = board.loop(some, args.seconds)
    record = {"wall_us": [round(t, 2) for t in wall], "watts": watts, "sm_MHz": clock,
              "peak_bytes": torch.cuda.max_memory_allocated() if args.device == "cuda" else None}
    record.update(summary(traced(steps, args.device)))
    if mode in ("eager", "sdpa"):
        rows = routed(model, steps)
        if rows:
            record["experts_rows"] = [[count for count in layer if count] for layer in rows]
    return record


def points_of(kind, config, args):
    if kind == "diffusion":
        return DIFFUSION if args.points == "all" else DIFFUSION[1:3]
    if kind == "encoder":
        return ENCODER if args.points == "all" else ENCODER[2:5]
    most = getattr(config, "max_position_embeddings", None) or 1 << 30
    return [point for point in (CAUSAL if args.points == "all" else FEW_CAUSAL) if point[2] < most]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="data/models")
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default=",".join(list(MODELS)[:6]))
    parser.add_argument("--modes", default="eager,sdpa,graph")
    parser.add_argument("--points", default="all", choices=["few", "all"])
    parser.add_argument("--seconds", type=float, default=1.2)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--until", type=float, default=1e9, help="begin no run after this many seconds")
    args = parser.parse_args()
    import transformers
    begin, board = time.perf_counter(), Board(args.device)
    os.makedirs(args.out, exist_ok=True)
    machine = {"torch": torch.__version__, "transformers": transformers.__version__, "date": time.strftime("%Y-%m-%d"),
               "gpu": torch.cuda.get_device_name(0) if args.device == "cuda" else "cpu", **board.facts()}
    with gzip.open(os.path.join(args.out, "steps.jsonl.gz"), "at", encoding="utf-8") as out:
        for name in args.only.split(","):
            if time.perf_counter() - begin > args.until:
                break
            kind, model, config = build(name, args)
            layers = config["num_layers"] if kind == "diffusion" else MODELS[name][1]
            for mode in args.modes.split(","):
                for point in points_of(kind, config, args):
                    if time.perf_counter() - begin > args.until:
                        break
                    if args.device == "cuda":
                        torch.cuda.empty_cache()
                        torch.cuda.reset_peak_memory_stats()
                    record = {"model": name, "layers": layers, "mode": mode, "phase": point[0], "batch": point[1],
                              "tokens": point[2], "dtype": "bf16", **machine}
                    if kind == "causal":
                        record["experts"] = getattr(config, "_experts_implementation", None)
                    try:
                        record.update(run(kind, model, config, mode, point, board, args))
                    except Exception as error:  # the other runs go on; the record says what failed
                        record["error"] = f"{type(error).__name__}: {str(error)[:300]}"
                        if os.environ.get("TRACE_VERBOSE"):
                            traceback.print_exc()
                    print(f"{time.perf_counter() - begin:6.1f} s {name} {mode} {point} {record.get('wall_us')} us, "
                          f"{len(record.get('launches', []))} launches, busy {record.get('busy_us')}, {record.get('watts')} W "
                          f"{record.get('error', '')}", flush=True)
                    out.write(json.dumps(record, separators=(",", ":")) + "\n")
                    out.flush()
            del model


if __name__ == "__main__":
    main()
