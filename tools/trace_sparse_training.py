#!/usr/bin/env python3
"""A training iteration of a Llama-like model whose weights are 2:4 sparse as PyTorch trains them (torchao's SemiSparseLinear: each
forward pass prunes, both compressed copies are kept, the gradient passes the pruning unchanged), beside the dense one: wall,
peak memory and every launch, by PyTorch's profiler.

    tools/trace_sparse_training.py OUT.jsonl

`which`: dense, mlp (the feed-forward part's three weights sparse), all (attention's four too); one JSON object a line.
"""
import json
import sys
import tempfile
import time

import torch
from torch import nn
from torch.sparse import SparseSemiStructuredTensorCUSPARSELT as Compressed

FFN, ATTENTION = ("gate_proj", "up_proj", "down_proj"), ("q_proj", "k_proj", "v_proj", "o_proj")
SIZES = ((4, 4, 2048), (8, 2, 1024))  # layers, sequences, tokens


class Prune(torch.autograd.Function):
    @staticmethod
    def forward(_, weight):
        return Compressed.prune_dense_static_sort(weight.detach())

    @staticmethod
    def backward(_, gradient):
        return gradient


class SparseLinear(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, Prune.apply(self.weight), self.bias)


def build(which, layers):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=8,
                         head_dim=64, vocab_size=32000, max_position_embeddings=8192, tie_word_embeddings=True)
    model = LlamaForCausalLM(config).to(torch.bfloat16).cuda()
    for layer in model.model.layers:
        places = [(layer.mlp, name) for name in FFN] if which != "dense" else []
        places += [(layer.self_attn, name) for name in ATTENTION] if which == "all" else []
        for parent, name in places:
            dense = getattr(parent, name)
            sparse = SparseLinear(dense.in_features, dense.out_features, bias=False, device="cuda", dtype=torch.bfloat16)
            sparse.weight = dense.weight
            setattr(parent, name, sparse)
    return model


def launches_of(step):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        with open(file.name, encoding="utf-8") as text:
            events = json.load(text)["traceEvents"]
    ran = sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"])
    return [[e["name"][:300], e["args"].get("grid"), e["args"].get("block"), e["dur"]] for e in ran]


def run(which, layers, batch, prompt):
    torch.manual_seed(1)
    model = build(which, layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, 32000, (batch, prompt), device="cuda")

    def step():
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    for _ in range(6):
        loss = step()
    torch.cuda.synchronize()
    wall = (time.perf_counter() - begin) / 6
    row = {"which": which, "layers": layers, "batch": batch, "prompt": prompt, "wall_ms": wall * 1e3,
           "peak_B": torch.cuda.max_memory_allocated(), "loss": float(loss)}
    row["launches"] = launches_of(step)
    row["gpu_us"] = sum(launch[3] for launch in row["launches"])
    return row


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for which in ("dense", "mlp", "all"):
            for sizes in SIZES:
                out.write(json.dumps(run(which, *sizes)) + "\n")
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
