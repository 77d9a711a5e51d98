#!/usr/bin/env python3
"""Launches of a prompt, a decode step and the two passes of training of transformers' models on the GPU of this machine.

    tools/trace_families.py MODELS.json OUT.jsonl.gz [--until SECONDS] [--device cuda|cpu]

MODELS.json is a list of names and configs (data/measurements/h200/pytorch_families/models.json); weights are random, in bf16.
Attention is scaled_dot_product_attention, or written out where the family has no other. A line a model: `launches` of one
step each behind a first one (step, kernel, operator, shapes, grid, block, microseconds on the device), their number and sum.
Steps: prefill of 1 x 1024 tokens with a growing cache, decode of 8 sequences behind 513 tokens each, forward and backward of
2 x 1024 tokens with transformers' own loss. Needs torch and transformers 5.17.
"""
import argparse
import gzip
import json
import os
import tempfile
import time

import torch
from torch.profiler import ProfilerActivity, profile, record_function

STEPS = ("prefill", "decode", "forward", "backward")


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def build(config, device):
    from transformers import AutoConfig, AutoModelForCausalLM
    config = dict(config)
    kind = config.pop("model_type")
    for key in ("transformers_version", "pad_token_id", "bos_token_id", "eos_token_id", "torch_dtype", "architectures"):
        config.pop(key, None)
    made = AutoConfig.for_model(kind, **config)
    if getattr(made, "pad_token_id", None) is not None:
        made.pad_token_id = None
    torch.manual_seed(7)
    with torch.device(device):
        try:
            model = AutoModelForCausalLM.from_config(made, dtype=torch.bfloat16, attn_implementation="sdpa")
        except ValueError as refusal:
            if "attention implementation" not in str(refusal):
                raise
            model = AutoModelForCausalLM.from_config(made, dtype=torch.bfloat16, attn_implementation="eager")
    return model.to(torch.bfloat16)


def traced(call, device):
    """Launches of what `call` runs, each with the step whose mark it was launched in."""
    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
    path = tempfile.NamedTemporaryFile(suffix=".json", delete=False).name
    with profile(activities=kinds, record_shapes=True) as recorded:
        call()
        synchronize(device)
    recorded.export_chrome_trace(path)
    with open(path, encoding="utf-8", errors="replace") as text:
        events = json.load(text)["traceEvents"]
    os.unlink(path)
    operators = {e["args"].get("External id"): e for e in events if e.get("cat") == "cpu_op"}
    calls = {e["args"].get("correlation"): e["ts"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    marks = [(e["ts"], e["ts"] + e["dur"], e["name"][5:]) for e in events
             if e.get("cat") == "user_annotation" and e["name"].startswith("step:")]
    on_device = ("kernel", "gpu_memcpy", "gpu_memset") if device == "cuda" else ("cpu_op",)
    rows = []
    for e in sorted((e for e in events if e.get("cat") in on_device), key=lambda e: e["ts"]):
        about = e["args"]
        operator = operators.get(about.get("External id"))
        at = calls.get(about.get("correlation"), e["ts"])
        step = next((name for begin, end, name in marks if begin <= at <= end), "")
        shapes = json.dumps(operator["args"].get("Input Dims", []))[:200] if operator else ""
        rows.append([step, e["name"][:160], operator["name"] if operator else "", shapes, about.get("grid"),
                     about.get("block"), round(e["dur"], 2)])
    return rows


def inference(model, tiny, device):
    tokens, batch, context = (16, 2, 8) if tiny else (1024, 8, 512)
    ids = torch.randint(0, 1000, (1, tokens), device=device)
    many, one = (torch.randint(0, 1000, (batch, n), device=device) for n in (context, 1))
    model.eval()
    with torch.no_grad():
        model(ids, use_cache=True, logits_to_keep=1)
        cache = model(many, use_cache=True, logits_to_keep=1).past_key_values
        model(one, past_key_values=cache, use_cache=True)
        synchronize(device)

        def steps():
            with record_function("step:prefill"):
                model(ids, use_cache=True, logits_to_keep=1)
            synchronize(device)
            with record_function("step:decode"):
                model(one, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return traced(steps, device)


def training(model, tiny, device):
    ids = torch.randint(0, 1000, (2, 16 if tiny else 1024), device=device)
    model.train()

    def iteration():
        with record_function("step:forward"):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
            synchronize(device)
        with record_function("step:backward"):
            loss.backward()
            synchronize(device)
    iteration()
    model.zero_grad(set_to_none=True)
    return traced(iteration, device)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models")
    parser.add_argument("out")
    parser.add_argument("--until", type=float, default=1e9, help="begin no model after this many seconds")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    begin = time.perf_counter()
    with open(args.models, encoding="utf-8") as text:
        models = json.load(text)
    for name, config in models:
        if time.perf_counter() - begin > args.until:
            break
        record = {"model": name, "torch": torch.__version__}
        try:
            model = build(config, args.device)
            rows = [*inference(model, args.device == "cpu", args.device), *training(model, args.device == "cpu", args.device)]
            record.update(launches=rows, busy_us={s: round(sum(r[6] for r in rows if r[0] == s), 1) for s in STEPS},
                          counts={s: sum(r[0] == s for r in rows) for s in STEPS})
        except Exception as error:  # the other models go on; the record says what failed
            record["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        model = None
        if args.device == "cuda":
            torch.cuda.empty_cache()
        with gzip.open(args.out, "at", encoding="utf-8") as out:  # a member a model: whole when the run is cut off
            out.write(json.dumps(record, separators=(",", ":")) + "\n")
        print(f"{time.perf_counter() - begin:5.1f} s {name} {record.get('busy_us')} {record.get('error', '')}", flush=True)


if __name__ == "__main__":
    main()
