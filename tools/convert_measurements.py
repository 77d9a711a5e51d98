#!/usr/bin/env python3
"""Converts published GPU measurements into Plumbline's ops CSV, split for good into train and held-out files.

    tools/convert_measurements.py SOURCE_DIR [OUTPUT_DIR=data/measurements]

SOURCE_DIR holds one folder per source (aiconfigurator/, neusight/, ...), each with the CSV files that
data/measurements/README.md describes. Output: OUTPUT_DIR/<source>/<gpu>/<family>.{train,heldout}.csv. Running it twice
on the same input gives the same bytes. Standard library only, and `validate` (built first) for the side of each row.

Numbers are copied as text, exactly as published. Where a source gives only a rate, the time is derived from it with
five digits (marked `derived` in the scope column). `id` is <source file>:<line> of the published row.
"""
import os
import shutil
import sys
from collections import defaultdict

from convert_aiconfigurator import aiconfigurator
from convert_whole_models import azure_models, fastertransformer, splitwise, tensorrt_llm
from measurement_csv import Output, crc, digits, read, whole

# ---------------------------------------------------------------------------------------------- smaller sources
def azure_guide(root, out):
    azure_models(root, out)
    gpus = {"A100-SXM4-80GB": "a100_sxm", "H100-SXM5-80GB": "h100_sxm"}
    messages = defaultdict(int)
    for r, rid in read(root, "azure_guide", "results"):
        gpu = gpus[r["gpu"]]
        if r["op"] == "gemm":
            m, n, k = whole(r["m"]), whole(r["n"]), whole(r["k"])
            us = 2.0 * m * n * k / (float(r["value"]) * 1e6)
            out.add(("azure_guide", gpu, "gemm"), "gemm", r["dtype"], {"M": m, "N": n, "K": k}, digits(us), rid,
                    stack="cublaslt", scope="derived from TFLOP/s")
        elif r["op"] == "allreduce_busbw_8gpu":
            # The printed labels (1K, 2K, ... 8G, with 65K, 132K, 524K between) are 2^10, 2^11, ... 2^33 in order.
            size = 1024 << messages[gpu]
            messages[gpu] += 1
            if float(r["value"]) >= 1:  # below, two printed digits are too few
                us = 2 * 7 / 8 * size / (float(r["value"]) * 1e3)
                out.add(("azure_guide", gpu, "nccl"), "all_reduce", "fp32", {"bytes": size, "gpus": 8}, digits(us), rid,
                        stack="nccl-tests", kernel="nccl", scope="derived from busbw")


def h200_nccl(root, out):
    for r, rid in read(root, "h200_nccl", "nccl"):
        shape = {"bytes": whole(r["bytes"]), "gpus": whole(r["gpus"]), "multicast": 0}
        out.add(("h200_nccl", "h200_sxm", "nccl"), r["op"], "bf16", shape, r["median_us"], rid,
                stack="torch-2.11-nccl-2.28", kernel="nccl", scope="node")


def deepbench(root, out):
    dtypes = {"fp32": "fp32", "fp16_tc": "fp16"}
    for r, rid in read(root, "deepbench", "gemm"):
        # Column-major C[m,n] is row-major y[n,m]: our M is its n.
        shape = {"M": whole(r["n"]), "N": whole(r["m"]), "K": whole(r["k"])}
        out.add(("deepbench", "v100", "gemm"), "gemm", dtypes[r["dtype"]], shape, r["latency_us"], rid,
                stack="cublas-2017-2019", kernel="cublas_" + r["transA"] + r["transB"], scope="gemm")


def grouped(groups, rows, n, k):
    """Every group has exactly `rows` rows: each of `rows` tokens goes to all groups."""
    return {"E": groups, "topk": groups, "T": rows, "N": n, "K": k}


def deepgemm(root, out):
    for r, rid in read(root, "deepgemm", "h800_fp8_initial"):
        m, n, k = whole(r["m_per_group"]), whole(r["n"]), whole(r["k"])
        common = {"stack": "deepgemm-" + r["readme_commit"], "kernel": "deepgemm_" + r["kind"]}
        if r["kind"] == "dense":
            out.add(("deepgemm", "h800", "gemm"), "gemm", "fp8", {"M": m, "N": n, "K": k}, r["latency_us"], rid,
                    scope="gemm", **common)
        else:
            out.add(("deepgemm", "h800", "grouped_gemm"), "grouped_gemm", "fp8", grouped(whole(r["groups"]), m, n, k),
                    r["latency_us"], rid, scope="gemm", **common)


def flash_attention(root, out):
    gpus = {"A100-SXM-80GB": "a100_sxm", "H100-SXM": "h100_sxm"}
    for r, rid in read(root, "flash_attention", "attention_tflops"):
        heads = whole(r["heads"])
        shape = {"B": whole(r["batch"]), "Hq": heads, "Hkv": heads, "D": whole(r["head_dim"]),
                 "S": whole(r["seq_len"]), "causal": whole(r["causal"])}
        common = {"stack": "flash-attention", "kernel": r["kernel"], "scope": "derived from TFLOP/s"}
        op = "attention_prefill" if r["pass"] == "fwd" else "attention_fwd_bwd"
        if op == "attention_prefill":
            shape["append"] = 0
        out.add(("flash_attention", gpus[r["gpu"]], op), op, r["dtype"], shape, r["latency_us"], rid, **common)


def infersim_attention(root, out):
    for r, rid in read(root, "infersim", "mha_decode"):
        hq, hkv, d = map(int, r["config"].split("-"))
        shape = {"B": whole(r["batch_size"]), "Hq": hq, "Hkv": hkv, "D": d, "S": whole(r["kv_len"])}
        out.add(("infersim", "h800", "attention_decode"), "attention_decode", "bf16", shape, r["latency_us"], rid,
                stack="infersim", kernel="fa3_or_flashinfer", scope="attention")
    for r, rid in read(root, "infersim", "mla_decode"):
        shape = {"B": whole(r["batch_size"]), "H": 128, "S": whole(r["kv_len"]), "Dc": 512, "Dr": 64}
        out.add(("infersim", "h800", "mla_decode"), "mla_decode", "bf16", shape, r["latency_us"], rid,
                stack="infersim", kernel="flash_mla", scope="attention")
    for r, rid in read(root, "infersim", "mla_prefill"):
        shape = {"B": 1, "Hq": 128, "Hkv": 128, "D": 192, "Dv": 128, "S": whole(r["seq_len"]), "causal": 1, "append": 0}
        out.add(("infersim", "h800", "mla_prefill"), "attention_prefill", "bf16", shape, r["latency_us"], rid,
                stack="infersim", kernel="fa3_or_flashinfer", scope="attention")


def infersim(root, out):
    for r, rid in read(root, "infersim", "gemm"):
        shape = {"M": whole(r["m"]), "N": whole(r["n"]), "K": whole(r["k"])}
        out.add(("infersim", "h800", "gemm"), "gemm", "fp8", shape, r["latency_us"], rid, stack="infersim",
                kernel="deepgemm", scope="gemm")
    for name in ("grouped_gemm_decode", "grouped_gemm_prefill"):
        for r, rid in read(root, "infersim", name):
            experts, rows = whole(r["num_local_experts"]), whole(r["tokens_per_expert"])
            hidden, inter = whole(r["hidden_size"]), whole(r["intermediate_size"])
            if rows < 2:
                continue  # masked row counts were drawn around the mean: about half of these experts got none
            for part, n, k in (("up_proj", 2 * inter, hidden), ("down_proj", hidden, inter)):
                out.add(("infersim", "h800", "grouped_gemm"), "grouped_gemm", "fp8", grouped(experts, rows, n, k),
                        r[part + "_us"], rid, stack="infersim", kernel=name + "_" + part, scope="gemm")
    infersim_attention(root, out)


def llmcompass(root, out):
    where = ("llmcompass", "a100")
    for r, rid in read(root, "llmcompass", "ops"):
        m, n = whole(r["m"]), whole(r["n"])
        op = {"matmul": "gemm"}.get(r["op"], r["op"])
        if op == "gemm":
            shape = {"M": m, "N": n, "K": whole(r["k"])}
        elif op == "gelu":
            shape = {"rows": m // 1024, "cols": 1024}  # a vector of m elements, m a multiple of 1024
        else:
            shape = {"rows": m, "cols": n}
        family = "gemm" if op == "gemm" else "vector"
        out.add((*where, family), op, r["dtype"], shape, r["latency_us"], rid, stack="pytorch-eager",
                scope="op+launch")


# ---------------------------------------------------------------------------------------------- bulky sources
# Neusight: eager launches (20-50 us) hide kernels below about 100 us. One shape in three, to keep the folder small.
NEUSIGHT_FLOOR_US = 100.0
NEUSIGHT_VECTOR = {"add": "add", "mulu": "scale", "gelu": "gelu", "relu": "relu", "ln": "layernorm",
                   "softmax": "softmax"}


def neusight_keep(r, op, shape):
    text = op + "|thin|" + ";".join(f"{k}={v}" for k, v in shape.items())
    return float(r["latency_us"]) >= NEUSIGHT_FLOOR_US and crc(text) % 3 == 0


def neusight(root, out):
    for r, rid in read(root, "neusight", "gemm_fp32"):
        shape = {"M": whole(r["m"]), "N": whole(r["n"]), "K": whole(r["k"])}
        if whole(r["batch"]) > 1:
            shape["batch"] = whole(r["batch"])
        if neusight_keep(r, "gemm", shape):
            out.add(("neusight", r["gpu"].lower().replace("-", "_"), "gemm"), "gemm", "fp32", shape, r["latency_us"],
                    rid, stack="pytorch-2.1", kernel=r["kernel"], scope="op+launch")
    for r, rid in read(root, "neusight", "vector_fp32"):
        op = NEUSIGHT_VECTOR.get(r["op"])
        shape = {"rows": whole(r["rows"]), "cols": whole(r["cols"])}
        if op and neusight_keep(r, op, shape):
            out.add(("neusight", r["gpu"].lower().replace("-", "_"), "vector"), op, "fp32", shape, r["latency_us"], rid,
                    stack="pytorch-2.1", kernel=r["kernel"], scope="op+launch")


VIDUR_FLOOR_US = 20.0  # times are whole microseconds
VIDUR_OPS = {"norm": "rmsnorm", "act": "swiglu", "add": "add", "rope": "rope", "embedding": "embedding"}


def vidur(root, out):
    for r, rid in read(root, "vidur", "mlp_ops"):
        if float(r["latency_us"]) < VIDUR_FLOOR_US:
            continue
        common = {"stack": "vidur", "kernel": r["op"], "scope": r["model"]}
        m, n = whole(r["m"]), whole(r["n"])
        if r["kind"] == "gemm":
            out.add(("vidur", r["gpu"], "gemm"), "gemm", "fp16", {"M": m, "N": n, "K": whole(r["k"])}, r["latency_us"],
                    rid, **common)
            continue
        op = VIDUR_OPS[r["kind"]]
        shape = {"tokens": m, "heads": n // 128, "D": 128} if op == "rope" else {"rows": m, "cols": n}
        out.add(("vidur", r["gpu"], "vector"), op, "fp16", shape, r["latency_us"], rid, **common)


SERVINGSIM_FLOOR_US = 50.0
# hidden, intermediate, query heads, KV heads (width 128), vocabulary: the models' config.json.
SERVINGSIM_MODELS = {"Llama-3.1-8B": (4096, 14336, 32, 8, 128256), "Llama-3.1-70B": (8192, 28672, 64, 8, 128256)}


def servingsim_layer(layer, tokens, tp, model):
    """(op, shape) of one profiled layer, or None where its scope is not clear (norms, rope, attention block)."""
    hidden, inter, hq, hkv, vocab = model
    widths = {"q_proj": (hq * 128 // tp, hidden), "k_proj": (hkv * 128 // tp, hidden),
              "v_proj": (hkv * 128 // tp, hidden), "o_proj": (hidden, hq * 128 // tp),
              "gate_proj": (inter // tp, hidden), "up_proj": (inter // tp, hidden),
              "down_proj": (hidden, inter // tp), "lm_head": (vocab // tp, hidden)}
    if layer in widths:
        n, k = widths[layer]
        return "gemm", {"M": tokens, "N": n, "K": k}
    return None


def llmservingsim(root, out):
    gpus = {"A6000": "a6000", "H100": "h100"}
    for r, rid in read(root, "llmservingsim", "layers_v0"):
        model = SERVINGSIM_MODELS.get(r["model"])
        if not model or float(r["latency_us"]) < SERVINGSIM_FLOOR_US:
            continue
        work = servingsim_layer(r["layer_name"], whole(r["tokens"]), whole(r["tp"]), model)
        if work:
            out.add(("llmservingsim", gpus[r["gpu"]], "gemm"), work[0], "bf16", work[1], r["latency_us"], rid,
                    stack="vllm", kernel=r["layer_name"], scope=r["model"])
    for r, rid in read(root, "llmservingsim", "attention_v0"):
        if r["is_prefill"] != "True" or float(r["latency_us"]) < SERVINGSIM_FLOOR_US:
            continue  # decode rows: kv_len is neither per sequence nor the sum (see README)
        shape = {"B": whole(r["batch"]), "Hq": whole(r["q_heads"]), "Hkv": whole(r["kv_heads"]),
                 "D": whole(r["head_dim"]), "S": whole(r["q_len"]), "causal": 1, "Skv": whole(r["kv_len"]), "append": 0}
        out.add(("llmservingsim", gpus[r["gpu"]], "attention_prefill"), "attention_prefill", "bf16", shape,
                r["latency_us"], rid, stack="vllm", kernel=r["backend"], scope=r["model"])


SOURCES = (aiconfigurator, azure_guide, deepbench, deepgemm, fastertransformer, flash_attention, h200_nccl, infersim,
           llmcompass, llmservingsim, neusight, splitwise, tensorrt_llm, vidur)


def main(arguments):
    if len(arguments) not in (1, 2) or not os.path.isdir(arguments[0]):
        print("usage: convert_measurements.py SOURCE_DIR [OUTPUT_DIR]; SOURCE_DIR must be a folder", file=sys.stderr)
        return 2
    root = arguments[0]
    target = arguments[1] if len(arguments) == 2 else os.path.join("data", "measurements")
    out = Output()
    for source in SOURCES:
        source(root, out)
    for source in SOURCES:  # files of an earlier version of this script must not survive
        shutil.rmtree(os.path.join(target, source.__name__), ignore_errors=True)
    files = out.write(target)
    for (source, gpu, family, side), rows in sorted(files.items()):
        print(f"{source}/{gpu}/{family}.{side}.csv,{len(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
