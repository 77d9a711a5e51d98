#!/usr/bin/env python3
"""Trains Llama-3.2-1B's shape by PyTorch from the weights and tokens that tools/own_losses.cpp wrote, and prints its losses beside
ours: fp32 weights under bf16 autocast, torch.optim.AdamW (fused), clip_grad_norm_ at 1, the same rate and betas, every parameter decayed.

usage: compare_losses.py FOLDER OURS.csv [SEQUENCES LENGTH RATE] [--wide-stream]   (on one GPU; torch and transformers)

The residual stream is bf16, as ours is: what is looked up is cast. Under autocast transformers leaves it in fp32, as its table is
(--wide-stream).
"""
import csv
import sys

import numpy
import torch
import transformers

LAYERS, HIDDEN, HEADS, KV_HEADS, WIDTH, INNER, VOCABULARY = 16, 2048, 32, 8, 64, 8192, 128256


def model_of(folder):
    """Parameters in the order of kernels/run/iteration_places.hpp: table, each layer's norm, qkv, output, norm, gate and up, down,
    the last norm."""
    config = transformers.LlamaConfig(
        hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=WIDTH,
        intermediate_size=INNER, vocab_size=VOCABULARY, rope_theta=500000.0, rms_norm_eps=1e-5, tie_word_embeddings=True, use_cache=False)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config)
    raw = torch.from_numpy(numpy.fromfile(f"{folder}/weights.bf16", dtype=numpy.int16)).view(torch.bfloat16).cuda().float()
    at = 0

    def take(into, rows, columns=None):
        nonlocal at
        count = rows * (columns or 1)
        piece = raw[at:at + count]
        at += count
        into.data.copy_(piece.view(rows, columns) if columns else piece)

    take(model.model.embed_tokens.weight, VOCABULARY, HIDDEN)
    for layer in model.model.layers:
        take(layer.input_layernorm.weight, HIDDEN)
        take(layer.self_attn.q_proj.weight, HEADS * WIDTH, HIDDEN)
        take(layer.self_attn.k_proj.weight, KV_HEADS * WIDTH, HIDDEN)
        take(layer.self_attn.v_proj.weight, KV_HEADS * WIDTH, HIDDEN)
        take(layer.self_attn.o_proj.weight, HIDDEN, HEADS * WIDTH)
        take(layer.post_attention_layernorm.weight, HIDDEN)
        take(layer.mlp.gate_proj.weight, INNER, HIDDEN)
        take(layer.mlp.up_proj.weight, INNER, HIDDEN)
        take(layer.mlp.down_proj.weight, HIDDEN, INNER)
    take(model.model.norm.weight, HIDDEN)
    if at != raw.numel():
        sys.exit(f"{folder}/weights.bf16: expected {at} elements, found {raw.numel()}")
    return model.train()


def main():
    wide = "--wide-stream" in sys.argv
    given = [each for each in sys.argv[1:] if each != "--wide-stream"]
    if len(given) not in (2, 5):
        sys.exit(__doc__)
    folder, ours = given[:2]
    sequences, length, rate = (int(given[2]), int(given[3]), float(given[4])) if len(given) == 5 else (4, 2048, 2e-5)
    with open(ours, encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    model = model_of(folder)
    if not wide:
        model.model.embed_tokens.register_forward_hook(lambda module, given, found: found.to(torch.bfloat16))
    tokens = torch.from_numpy(numpy.fromfile(f"{folder}/tokens.int32", dtype=numpy.int32)).long().cuda().view(sequences, length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    print("iteration,ours,pytorch,difference_percent,our_norm,pytorch_norm")
    worst = 0
    for row in rows:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        theirs, mine = loss.item(), float(row["loss"])
        worst = max(worst, abs(mine / theirs - 1))
        print(f"{row['iteration']},{mine:.6f},{theirs:.6f},{100 * (mine / theirs - 1):.3f},{row['norm']},{norm.item():.6f}", flush=True)
    print(f"largest difference {100 * worst:.2f} %", file=sys.stderr)


if __name__ == "__main__":
    main()
