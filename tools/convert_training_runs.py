"""Published training runs as rows that `validate compare` reads: llm-foundry, torchtitan, Megatron-Bridge.

data/measurements/README.md has what each table says, what is taken for granted beside it, and which rows are left out.
Rows that the product cannot express are printed with their reason, never dropped silently.

usage: convert_training_runs.py SOURCE_DIR [OUTPUT_DIR]; `validate` must be built, as it alone knows the split.
"""
import csv
import os
import sys

from measurement_csv import read, sides, whole

COLUMNS = ["model", "phase", "stack", "gpus", "tp", "pp", "cp", "dp", "ep", "sp", "zero", "batch", "prompt", "micro-batch", "schedule",
           "vp", "dtype", "grad-dtype", "recompute", "recompute-layers", "overlap", "measured_tokens_per_s_per_gpu", "version", "scope", "id"]
SIDE_COLUMNS = ["model", "phase", "gpus", "batch", "prompt"]  # what the side of a run depends on


def llm_foundry(root, out, left):
    """Composer and FSDP. FULL_SHARD is zero 3; SHARD_GRAD_OP, which keeps parameters gathered between the passes, zero 2."""
    cards = {"a100_80gb": "a100_sxm", "h100_80gb": "h100_sxm"}
    for r, rid in read(root, "llm_foundry", "mpt_training"):
        # gradients are reduced in fp32 by Composer's mixed precision DEFAULT, in bf16 by PURE
        out.append((("llm_foundry", cards[r["gpu"]], "iterations"),
                    {"model": r["model"] + "-foundry", "stack": "llm-foundry", "gpus": r["num_gpus"], "dp": r["num_gpus"],
                     "zero": {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}[r["sharding"]], "batch": r["global_batch"],
                     "prompt": r["seq_len"], "micro-batch": r["micro_batch"], "dtype": "bf16",
                     "grad-dtype": {"DEFAULT": "fp32", "PURE": "bf16"}[r["mp_mode"]],
                     "recompute": "full" if r["act_ckpt"] == "True" else "none",
                     "measured_tokens_per_s_per_gpu": r["tokens_per_s_gpu"], "scope": r["precision"], "id": rid}))


def torchtitan(root, out, left):
    """FSDP2, tensor parallelism with sequences split, torch.compile; without it operators of the source one by one."""
    for r, rid in read(root, "torchtitan", "training"):
        gpus, tensor = whole(r["num_gpus"]), 8 if "TP8" in r["parallelism"] else 1
        replicas = gpus // tensor
        compiled = r["torch_compile"] == "True"
        out.append((("torchtitan", "h100_96gb", "iterations"),
                    {"model": "llama-3.1-8b", "stack": "torchtitan" if compiled else "hf-sdpa", "gpus": gpus, "tp": tensor,
                     "dp": replicas, "sp": 1 if tensor > 1 else "", "zero": 3, "batch": replicas * whole(r["local_batch"]),
                     "prompt": r["seq_len"], "micro-batch": r["local_batch"], "dtype": "bf16" if r["dtype"] == "bf16" else "fp8",
                     "grad-dtype": "fp32" if compiled else "", "recompute": "products" if compiled else "full",
                     "overlap": "iteration" if "async" in r["parallelism"] else "",
                     "measured_tokens_per_s_per_gpu": r["tokens_per_s_per_gpu"], "scope": r["parallelism"] + ", " + r["dtype"],
                     "id": rid}))


def megatron_bridge(root, out, left):
    """Megatron-Core with Transformer Engine, distributed optimizer."""
    models = {"LLAMA3_8B": "llama-3.1-8b", "LLAMA3_70B": "llama-3.1-70b", "LLAMA3.1_405B": "llama-3.1-405b",
              "Qwen3_30B_a3B": "qwen3-30b-a3b"}
    for r, rid in read(root, "megatron_bridge", "training"):
        if r["task"] == "LoRA":
            left.append((rid, "LoRA: adapters are not modelled"))
            continue
        if r["model"] not in models:
            left.append((rid, r["model"] + ": tokens that are dropped are not modelled"))
            continue
        gpus, tp, pp, cp, vp = (whole(r[k] or "1") for k in ("num_gpus", "tp", "pp", "cp", "vp"))
        ep = whole(r["ep"] or "1")
        fsdp = r["fsdp"] not in ("", "0")
        again = 5 if r["model"] == "LLAMA3_8B" else 0  # recompute_num_layers of its recipe in fp8
        out.append((("megatron_bridge", "h100_sxm", "iterations"),
                    {"model": models[r["model"]], "stack": "megatron-bridge", "gpus": gpus, "tp": tp, "pp": pp,
                     "cp": cp if cp > 1 else "", "dp": gpus // (tp * pp * cp), "ep": ep if ep > 1 else "", "sp": 1 if tp > 1 else "",
                     "zero": 3 if fsdp else 1, "batch": r["gbs"], "prompt": r["seq_len"], "micro-batch": r["mbs"],
                     "schedule": "interleaved" if vp > 1 else "1f1b", "vp": vp if vp > 1 else "", "dtype": "fp8", "grad-dtype": "bf16",
                     "recompute": "full" if again else "none", **({"recompute-layers": again} if again else {}),
                     "measured_tokens_per_s_per_gpu": r["tokens_per_s_per_gpu"], "version": r["release"],
                     "scope": r["task"] + ", " + r["precision"], "id": rid}))


def write(target, rows):
    """One file of each side, by (source, gpu, family); returns the rows of each."""
    held = sides([[str(dict(row, phase="train")[column]) for column in SIDE_COLUMNS] for _, row in rows], SIDE_COLUMNS)
    files = {}
    for ((source, gpu, family), row), held_out in zip(rows, held):
        path = os.path.join(target, source, gpu, f"{family}.{'heldout' if held_out else 'train'}.csv")
        files.setdefault(path, []).append(dict(row, phase="train"))
    for path, of_file in sorted(files.items()):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".partial", "w", newline="", encoding="ascii") as f:
            columns = [c for c in COLUMNS if c != "recompute-layers" or any(c in row for row in of_file)]
            writer = csv.DictWriter(f, columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(of_file)
        os.replace(path + ".partial", path)
    return {path: len(of_file) for path, of_file in sorted(files.items())}


def main(arguments):
    if len(arguments) not in (1, 2) or not os.path.isdir(arguments[0]):
        print("usage: convert_training_runs.py SOURCE_DIR [OUTPUT_DIR]; SOURCE_DIR must be a folder", file=sys.stderr)
        return 2
    rows, left = [], []
    for source in (llm_foundry, torchtitan, megatron_bridge):
        source(arguments[0], rows, left)
    for path, number in write(arguments[1] if len(arguments) == 2 else os.path.join("data", "measurements"), rows).items():
        print(f"{path},{number}")
    for rid, reason in left:
        print(f"left out: {rid}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
