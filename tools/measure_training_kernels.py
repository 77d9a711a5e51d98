#!/usr/bin/env python3
"""Times single kernels of training iterations under PyTorch on the GPU of this machine, and what gradient checkpointing takes the host.

    tools/measure_training_kernels.py --out FILE.jsonl [--most SECONDS]

A line a case, with the part that it is of:
  adam       lists of tensors of 134 million elements in rows of 4096, by events: the steps of torch.optim's AdamW that divide or take a
             root, and the fused update, over states of which a share of the rows (`drawn`) has had a gradient and the others are zero
  optimizer  the fused update and torch.optim's passes over lists by their CTAs of 65536 elements, by the profiler, L2 written over before
             each
  adam behind products   the fused update 30 times behind a second of products that are held at the cap
  grouped    torch._grouped_mm and its two gradients by the rows of each expert: all the same, drawn at random, or unlike by exp(0.8 N(0, 1))
  attention  scaled_dot_product_attention and its gradient, launch by launch (tools/trace_attention.py)
  host       forward and backward pass of narrow models of 16 layers, with and without gradient checkpointing, milliseconds
  layernorm  by rows and columns, by the profiler
`us` are single runs, `MHz` the clock behind them. Cases that begin later than --most are left out. Needs torch, transformers, nvidia-ml-py.
"""
import argparse
import json
import time

import torch

import trace_attention

STEP = {"lr": 1e-5, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.01, "eps": 1e-8, "amsgrad": False, "maximize": False,
        "grad_scale": None, "found_inf": None}
EXPERTS = [(128, 4096, 3072, [("even", rows) for rows in (32, 64, 96, 128, 129, 160, 192, 256, 257, 384, 512, 1024)]
            + [(kind, rows) for kind in ("binomial", "skewed") for rows in (128, 192, 512)]),
           (60, 2048, 2816, [("even", 128), ("even", 136), ("even", 256), ("even", 544), ("skewed", 136), ("skewed", 544)]),
           (8, 4096, 28672, [("even", 256), ("even", 512), ("even", 960), ("even", 2048)])]
ENCODERS = [(32, 16, 16, 64, 128), (64, 16, 16, 64, 128), (64, 12, 12, 64, 256), (16, 16, 16, 64, 256), (16, 16, 16, 64, 384), (32, 12, 12, 64, 512)]
DECODERS = [(16, 32, 8, 128, 256), (16, 28, 4, 128, 256), (16, 16, 16, 64, 256), (8, 64, 8, 128, 512)]
NARROW = {"llama": {"num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "num_hidden_layers": 16, "hidden_size": 64,
                    "num_attention_heads": 4},
          "gpt2": {"n_layer": 16, "n_embd": 64, "n_head": 4}}


class Recorder:
    def __init__(self, args):
        import pynvml
        pynvml.nvmlInit()
        self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
        self.out, self.most, self.begin = open(args.out, "a", encoding="utf-8"), args.most, time.perf_counter()

    def late(self):
        return time.perf_counter() - self.begin > self.most

    def write(self, **line):
        self.out.write(json.dumps({**line, "at_s": round(time.perf_counter() - self.begin, 2)}) + "\n")
        self.out.flush()

    def timed(self, call, repeats=7):
        """Microseconds of each of so many calls behind two others, and the clock."""
        for _ in range(2):
            call()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
        marks[0].record()
        for mark in marks[1:]:
            call()
            mark.record()
        torch.cuda.synchronize()
        times = [round(a.elapsed_time(b) * 1e3, 2) for a, b in zip(marks, marks[1:])]
        return {"us": times, "MHz": self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM)}


def states(drawn, dtype, rows=32768, columns=4096):
    """Weights, gradients and moments of which a share of the rows has had gradients."""
    generator = torch.Generator(device="cuda").manual_seed(1)
    seen = (torch.rand(rows, device="cuda", generator=generator) < drawn).to(dtype)[:, None]
    weights = torch.randn(rows, columns, device="cuda").mul_(0.02).to(dtype)
    gradient = torch.randn(rows, columns, device="cuda").mul_(1e-4).to(dtype) * seen
    return [weights], [gradient], [gradient * 0.1], [gradient * gradient * 0.001]


def adam(recorder):
    steps = [torch.tensor(5.0, device="cuda")]
    for dtype, shares in ((torch.bfloat16, (1.0, 0.0, 0.06, 0.23, 0.5)), (torch.float32, (1.0, 0.0))):
        for drawn in shares:
            weights, gradients, means, variances = states(drawn, dtype)
            root = variances[0].sqrt()
            below, divided = [root / 0.07 + 1e-8], [root.clone()]
            calls = {"sqrt": lambda: torch._foreach_sqrt(variances), "div_": lambda: torch._foreach_div_(divided, [1.0001]),
                     "addcdiv_": lambda: torch._foreach_addcdiv_(weights, means, below, [-1e-5]),
                     "fused": lambda: torch._fused_adamw_(weights, gradients, means, variances, [], steps, **STEP)}
            for name, call in calls.items():
                recorder.write(part="adam", op=name, dtype=str(dtype), drawn=drawn, elements=weights[0].numel(), **recorder.timed(call))
    factor = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    for drawn in (0.0, 1.0):
        weights, gradients, means, variances = states(drawn, torch.bfloat16)
        end = time.perf_counter() + 0.9
        while time.perf_counter() < end:
            for _ in range(8):
                torch.mm(factor, factor)
            torch.cuda.synchronize()
        for _ in range(8):
            torch.mm(factor, factor)
        times = recorder.timed(lambda: torch._fused_adamw_(weights, gradients, means, variances, [], steps, **STEP), 30)
        recorder.write(part="adam behind products", drawn=drawn, elements=weights[0].numel(), **times)


def optimizer(recorder):
    flush = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
    step = {name: value for name, value in STEP.items() if name not in ("grad_scale", "found_inf")}
    for dtype in (torch.bfloat16, torch.float32):
        for chunks in (1, 8, 33, 66, 99, 132, 133, 165, 198, 231, 264, 265, 297, 320):
            w, g, m = [(torch.randn(chunks * 65536, device="cuda") * 1e-2).to(dtype) for _ in range(3)]
            v, steps = (g.float() ** 2 * 1e-1).to(dtype), [torch.tensor(5.0, device="cuda")]
            root = v.sqrt() / 0.07 + 1e-8
            calls = {"fused": lambda: torch._fused_adamw_([w], [g], [m], [v], [], steps, **step),
                     "lerp_": lambda: torch._foreach_lerp_([m], [g], 0.1), "mul_": lambda: torch._foreach_mul_([w], 0.99999),
                     "addcmul_": lambda: torch._foreach_addcmul_([v], [g], [g], value=1e-6), "sqrt": lambda: torch._foreach_sqrt([v]),
                     "div_": lambda: torch._foreach_div_([root], [1.0001]), "addcdiv_": lambda: torch._foreach_addcdiv_([w], [m], [root], [-1e-5])}
            for name, call in calls.items():
                if name in ("fused", "addcdiv_", "lerp_") or chunks in (33, 132, 264, 320):
                    recorder.write(part="optimizer", op=name, dtype=str(dtype), chunks=chunks, us=behind_writes(call, flush))


def behind_writes(call, flush):
    """Microseconds of the kernel of a call whose operands L2 does not hold, three times."""
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(3):
            flush.fill_(1)
            call()
        torch.cuda.synchronize()
    return [round(event.device_time, 2) for event in profile.events() if "multi_tensor" in event.name and event.device_time > 0]


def rows_of(kind, experts, mean):
    if kind == "even":
        return [mean] * experts
    generator = torch.Generator().manual_seed(3)
    if kind == "binomial":
        return torch.bincount(torch.randint(0, experts, (mean * experts,), generator=generator), minlength=experts).tolist()
    share = torch.exp(0.8 * torch.randn(experts, generator=generator))
    rows = (share / share.sum() * mean * experts).floor().long()
    rows[0] += mean * experts - int(rows.sum())
    return rows.tolist()


def grouped(recorder):
    for experts, k, n, cases in EXPERTS:
        weights = torch.randn(experts, n, k, device="cuda", dtype=torch.bfloat16).mul_(0.02).transpose(1, 2)
        for kind, mean in cases:
            if recorder.late():
                return
            rows = rows_of(kind, experts, mean)
            ends = torch.tensor(rows, device="cuda").cumsum(0).to(torch.int32)
            x, y = [torch.randn(sum(rows), columns, device="cuda", dtype=torch.bfloat16) for columns in (k, n)]
            calls = {"product": lambda: torch._grouped_mm(x, weights, offs=ends),
                     "dx": lambda: torch._grouped_mm(y, weights.transpose(1, 2), offs=ends),
                     "dw": lambda: torch._grouped_mm(y.transpose(0, 1), x, offs=ends)}
            for name, call in calls.items():
                recorder.write(part="grouped", what=name, E=experts, K=k, N=n, kind=kind, rows=mean if kind == "even" else rows,
                               **recorder.timed(call, 6))


def attention(recorder):
    cases = [(case, 0, dropout) for case in ENCODERS for dropout in (0.1, 0.0)] + [(case, 1, 0.0) for case in DECODERS]
    for case, causal, dropout in cases:
        if recorder.late():
            return
        found = trace_attention.launches((*case, causal, 0, "bf16", dropout), "cuda")
        recorder.write(part="attention", case=case, causal=causal, dropout=dropout, found=found)


def passes(model, tokens):
    """Milliseconds of a forward and a backward pass, each behind a synchronization."""
    marks = []

    def mark():
        torch.cuda.synchronize()
        marks.append(time.perf_counter())
    mark()
    loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    mark()
    loss.backward()
    mark()
    for parameter in model.parameters():
        parameter.grad = None
    return [round((b - a) * 1e3, 2) for a, b in zip(marks, marks[1:])]


def host(recorder):
    from transformers import AutoConfig, AutoModelForCausalLM
    for kind, sizes in NARROW.items():
        config = AutoConfig.for_model(kind, vocab_size=512, **sizes)
        with torch.device("cuda"):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").train()
        tokens = torch.randint(0, 512, (1, 64), device="cuda")
        for turn in range(8):
            found = {}
            for mode in ("plain", "default", "reentrant", "not reentrant"):
                how = {} if mode == "default" else {"gradient_checkpointing_kwargs": {"use_reentrant": mode == "reentrant"}}
                model.gradient_checkpointing_disable() if mode == "plain" else model.gradient_checkpointing_enable(**how)
                found[mode] = [passes(model, tokens) for _ in range(3 if turn == 0 else 2)][-2:]
            recorder.write(part="host", model=kind, layers=16, turn=turn, forward_backward_ms=found)
            if recorder.late():
                return


def layernorm(recorder):
    cases = {(columns, rows): torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
             for columns in (768, 1024, 2048, 4096, 8192) for rows in (1, 8, 32, 128, 512, 2048)}
    weights = {columns: torch.ones(columns, device="cuda", dtype=torch.bfloat16) for columns, _ in cases}

    def all_of_them(repeats):
        for _ in range(repeats):
            for (columns, _), x in cases.items():
                torch.nn.functional.layer_norm(x, (columns,), weights[columns], weights[columns])
        torch.cuda.synchronize()
    all_of_them(2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        all_of_them(5)
    kernels = sorted((e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA and "layer_norm" in e.name),
                     key=lambda e: e.time_range.start)
    for i, (columns, rows) in enumerate(cases):
        recorder.write(part="layernorm", cols=columns, rows=rows, us=sorted(round(e.device_time, 2) for e in kernels[i::len(cases)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--most", type=float, default=120, help="seconds")
    args = parser.parse_args()
    torch.manual_seed(5)
    recorder = Recorder(args)
    recorder.write(part="start", gpu=torch.cuda.get_device_name(0), torch=torch.__version__)
    for part in (adam, optimizer, grouped, attention, host, layernorm):
        part(recorder)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
