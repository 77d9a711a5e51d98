"""Converter of the aiconfigurator tables (NVIDIA's TensorRT-LLM, vLLM, SGLang and NCCL operator measurements)."""
from measurement_csv import digits, optional, read, whole
from moe_tactics import TacticFiles

AIC = "aiconfigurator"
AIC_GPUS = ("a100_sxm", "h100_sxm", "h200_sxm")
SHORT_DTYPE = {"bfloat16": "bf16", "half": "fp16", "float16": "fp16", "fp8": "fp8", "int8": "int8"}
# Weight formats: (family, dtype text, scope). bf16 GEMM is the bare product; fp8 quantises x first.
GEMM_KIND = {
    "bfloat16": ("gemm", "bf16", "gemm"),
    "fp8": ("gemm", "fp8", "quantize+gemm"),
    "sq": ("gemm", "int8", "trt_plugin"),
    "int4_wo": ("gemm", "w4a16", "trt_plugin"),
    "int8_wo": ("gemm_other", "int8_wo", "trt_plugin"),
    "fp8_block": ("gemm_other", "fp8_block", "quantize+gemm"),
}


def aic_common(r):
    """Columns that every table of this source has."""
    watts = r.get("power_w") or ""
    clock = "steady" if watts else "burst"  # rows with power were timed sustained
    return {"watts": watts, "stack": r["stack"], "kernel": r.get("kernel") or "", "clock": clock}


def context_scope(stack, latent=False):
    """(append, scope) of a context attention row: the README's traps 4 and 5 of this source. Of latent rows of vLLM 0.14 nobody
    has looked."""
    if stack.startswith("trtllm"):
        return 1, "preprocess+append+attention"
    if stack == "vllm-0.24.0" or (stack == "vllm-0.14.0" and not latent):
        return 1, "kv_write+attention"
    return 0, "attention"


def context_data(stack):
    """vLLM 0.22's call neither writes the cache nor is there anything in it yet (collect_attn.py fills what lies before the
    new tokens): keys and values are zeros, but where the memory was used before. Boards read 430 to 520 W there."""
    return "zeros" if stack == "vllm-0.22.0" else ""


def encoder_scope(stack):
    """(append, scope): TensorRT-LLM's operator passes over QKV before the attention, though there is no cache to write."""
    return (1, "preprocess+attention") if stack.startswith("trtllm") else (0, "attention")


def kv_key(r):
    return "fp8" if r["kv_dtype"] == "fp8" else ""


def aic_gemm(root, out, gpu):
    for r, rid in read(root, AIC, f"gemm_{gpu}"):
        family, dtype, scope = GEMM_KIND[r["dtype"]]
        shape = {"M": whole(r["m"]), "N": whole(r["n"]), "K": whole(r["k"])}
        out.add((AIC, gpu, family), "gemm", dtype, shape, r["latency_us"], rid, scope=scope, **aic_common(r))
    for r, rid in read(root, AIC, f"mla_bmm_{gpu}"):
        # Absorbed MLA, a product per head: queries [tokens,128] x W_UK [128,512] before the attention, its result
        # [tokens,512] x W_UV [512,128] after it.
        n, k = (512, 128) if r["op_name"] == "mla_gen_pre" else (128, 512)
        shape = {"M": whole(r["num_tokens"]), "N": n, "K": k, "batch": whole(r["q_heads"])}
        scope = "quantize+bmm" if r["dtype"] == "fp8" else "bmm"
        out.add((AIC, gpu, "mla_bmm"), "gemm", SHORT_DTYPE[r["dtype"]], shape, r["latency_us"], rid, scope=scope,
                **aic_common(r))


def aic_attention(root, out, gpu):
    for r, rid in read(root, AIC, f"context_attention_{gpu}"):
        append, scope = context_scope(r["stack"])
        shape = {"B": whole(r["batch"]), "Hq": whole(r["q_heads"]), "Hkv": whole(r["kv_heads"]),
                 "D": whole(r["head_dim"]), "S": whole(r["q_len"]), "causal": 1}
        optional(shape, window=whole(r["window"]))
        shape["append"] = append
        optional(shape, kv=kv_key(r))
        out.add((AIC, gpu, "attention_prefill"), "attention_prefill", SHORT_DTYPE[r["dtype"]], shape, r["latency_us"],
                rid, scope=scope, data=context_data(r["stack"]), **aic_common(r))
    for r, rid in read(root, AIC, f"generation_attention_{gpu}"):
        shape = {"B": whole(r["batch"]), "Hq": whole(r["q_heads"]), "Hkv": whole(r["kv_heads"]),
                 "D": whole(r["head_dim"]), "S": whole(r["kv_len"])}
        # one run() of vLLM's collector calls attention for prompts and for decode; TensorRT-LLM's kernel appends on its way
        append, scope = context_scope(r["stack"]) if r["stack"].startswith("vllm") else (0, "attention")
        optional(shape, window=whole(r["window"]), append=append, kv=kv_key(r))
        out.add((AIC, gpu, "attention_decode"), "attention_decode", SHORT_DTYPE[r["dtype"]], shape, r["latency_us"],
                rid, scope=scope, **aic_common(r))
    if gpu == "a100_sxm":
        return  # no encoder table
    for r, rid in read(root, AIC, f"encoder_attention_{gpu}"):
        heads = whole(r["q_heads"])
        append, scope = encoder_scope(r["stack"])
        shape = {"B": whole(r["batch"]), "Hq": heads, "Hkv": heads, "D": whole(r["head_dim"]), "S": whole(r["q_len"]),
                 "causal": 0, "append": append}
        out.add((AIC, gpu, "attention_encoder"), "attention_prefill", SHORT_DTYPE[r["dtype"]], shape, r["latency_us"],
                rid, scope=scope, **aic_common(r))


def aic_mla(root, out, gpu):
    for r, rid in read(root, AIC, f"context_mla_{gpu}"):
        heads = whole(r["q_heads"])
        append, scope = context_scope(r["stack"], latent=True)
        shape = {"B": whole(r["batch"]), "Hq": heads, "Hkv": heads, "D": 192, "Dv": 128, "S": whole(r["q_len"]),
                 "causal": 1, "append": append}
        optional(shape, kv=kv_key(r))
        out.add((AIC, gpu, "mla_prefill"), "attention_prefill", SHORT_DTYPE[r["dtype"]], shape, r["latency_us"], rid,
                scope=scope, **aic_common(r))
    for r, rid in read(root, AIC, f"generation_mla_{gpu}"):
        shape = {"B": whole(r["batch"]), "H": whole(r["q_heads"]), "S": whole(r["kv_len"]), "Dc": 512, "Dr": 64}
        optional(shape, kv=kv_key(r))
        out.add((AIC, gpu, "mla_decode"), "mla_decode", SHORT_DTYPE[r["dtype"]], shape, r["latency_us"], rid,
                scope="attention", **aic_common(r))


def tuned_by_file(r):
    return r["stack"].startswith("trtllm-1.3") and r["dtype"] in ("bfloat16", "fp8")  # DeepGEMM's have no tactics


def model_of(r):
    return whole(r["hidden"]), whole(r["inter"]), whole(r["topk"]), whole(r["experts"])


def aic_moe(root, out, gpu):
    files = TacticFiles(model_of(r) for r, _ in read(root, AIC, f"moe_{gpu}") if tuned_by_file(r))
    for r, rid in read(root, AIC, f"moe_{gpu}"):
        alpha = 0 if r["distribution"] == "balanced" else round(100 * float(r["distribution"].split("_")[-1]))
        shape = {"T": whole(r["num_tokens"]), "H": whole(r["hidden"]), "I": whole(r["inter"]), "E": whole(r["experts"]),
                 "topk": whole(r["topk"]), "tp": whole(r["tp"]), "ep": whole(r["ep"]), "mats": whole(r["mats"]),
                 "alpha_pct": alpha}
        shared = tuned_by_file(r) and files.shared(*model_of(r), shape["tp"], shape["ep"])
        out.add((AIC, gpu, "moe"), "moe", SHORT_DTYPE.get(r["dtype"], r["dtype"]), shape, r["latency_us"], rid,
                scope="rank0+shared_tactics" if shared else "rank0", **aic_common(r))
    if gpu == "a100_sxm":
        return  # no quantisation table
    given = {}
    for r, rid in read(root, AIC, f"scale_matrix_{gpu}"):
        shape = {"rows": whole(r["m"]), "cols": whole(r["k"])}
        given[r["stack"], r["m"], r["k"]] = r["latency_us"]
        out.add((AIC, gpu, "quantize"), "quantize", "fp8", shape, r["latency_us"], rid, scope="static_scale",
                **aic_common(r))
    # What was timed is a call that finds its scale; the table has what is left of it without the call that is given one
    # (collector/{trtllm,vllm}/collect_computescale.py). TensorRT-LLM: one scale; vLLM: one a token.
    for r, rid in read(root, AIC, f"computescale_{gpu}"):
        without = given.get((r["stack"], r["m"], r["k"]))
        if without is None or float(r["latency_us"]) <= 0:
            continue  # the difference was cut off at zero
        shape = {"rows": whole(r["m"]), "cols": whole(r["k"])}
        optional(shape, block=1 if r["stack"].startswith("vllm") else 0)
        out.add((AIC, gpu, "quantize_dynamic"), "quantize_dynamic", "bf16", shape,
                digits(float(r["latency_us"]) + float(without)), rid, scope="derived: difference + given scale", **aic_common(r))


# What a row of the gated delta rule is given (collector/trtllm/collect_gdn.py, collector/vllm/collect_gdn.py): TensorRT-LLM's
# prompts begin without a state and leave none; vLLM's states are bf16 here.
LINEAR_SCOPE = {
    ("trtllm", "chunk_gated_delta_rule"): ("chunks", {"carry": 0}),
    ("vllm", "chunk_gated_delta_rule"): ("chunks, as vLLM 0.22 calls them", {"state_dtype": "bf16"}),
    ("vllm", "chunk_gated_delta_rule_flashinfer"): ("chunks", {"state_dtype": "bf16"}),
    ("vllm", "fused_recurrent_gated_delta_rule_pac"): ("gates, q and k normalized, step", {"state_dtype": "bf16"}),
}


def aic_linear(root, out, gpu):
    """Prompts and steps of the gated delta rule. Left out: steps of TensorRT-LLM's kernel, whose states come in bf16 and go
    in fp32 (nine rows a card)."""
    if gpu == "a100_sxm":
        return  # no table
    for r, rid in read(root, AIC, f"gdn_{gpu}"):
        known = LINEAR_SCOPE.get((r["stack"].split("-")[0], r["kernel"]))
        if known is None:
            continue
        scope, keys = known
        shape = {"kind": "gated_delta_net", "B": whole(r["batch"]), "S": whole(r["seq_len"]), "H": whole(r["num_v_heads"]),
                 "D": whole(r["head_v_dim"]), "state": whole(r["head_k_dim"])}
        shape |= ({"groups": whole(r["num_k_heads"])} if whole(r["num_k_heads"]) > 1 else {}) | keys
        out.add((AIC, gpu, "linear_attention"), "recurrence", "bf16", shape, r["latency_us"], rid, scope=scope,
                **aic_common(r))


def aic_convolutions(root, out, gpu):
    """Short convolutions before linear attention, as TensorRT-LLM runs them (collector/trtllm/collect_mamba2.py,
    collect_gdn.py): Mamba-2's x, B and C side by side; of the gated delta rule the collector has keys alone. Left out:
    vLLM's, whose prompts are timed with the host."""
    if gpu == "a100_sxm":
        return  # no table
    for table in ("mamba2", "gdn"):
        for r, rid in read(root, AIC, f"{table}_{gpu}"):
            if not r["kernel"].startswith("causal_conv1d") or not r["stack"].startswith("trtllm"):
                continue
            channels = (whole(r["num_k_heads"]) * whole(r["head_k_dim"]) if table == "gdn" else
                        whole(r["nheads"]) * whole(r["head_dim"]) + 2 * whole(r["n_groups"]) * whole(r["d_state"]))
            shape = {"B": whole(r["batch"]), "S": whole(r["seq_len"]), "channels": channels, "width": whole(r["d_conv"])}
            out.add((AIC, gpu, "convolution"), "causal_conv", "bf16", shape, r["latency_us"], rid,
                    scope="convolution, silu, state", **aic_common(r))


def aic_collectives(root, out):
    for r, rid in read(root, AIC, "nccl"):
        op = "all_to_all" if r["op_name"] == "alltoall" else r["op_name"]
        shape = {"bytes": whole(r["bytes"]), "gpus": whole(r["num_gpus"])}
        out.add((AIC, r["gpu"], "nccl"), op, SHORT_DTYPE[r["dtype"]], shape, r["latency_us"], rid, stack=r["lib"],
                kernel="nccl", scope="node")
    for r, rid in read(root, AIC, "custom_allreduce"):
        shape = {"bytes": 2 * whole(r["elements"]), "gpus": whole(r["num_gpus"])}  # all rows are bfloat16
        out.add((AIC, r["gpu"], "all_reduce"), "all_reduce", SHORT_DTYPE[r["dtype"]], shape, r["latency_us"], rid,
                stack=r["stack"], kernel=r["kernel"], scope="node")


def aic_experts(root, out):
    """DeepEP's dispatch and combine. `tokens` of one rank; gpus = 8 a node. Low latency: one kernel each, by the profiler.
    High throughput: on `sms` SMs; a token's experts lie on at most four nodes (the collector's rule); several nodes: the
    notifying kernel and the moving one add up, on one node both are in the one time."""
    for r, rid in read(root, AIC, "wideep_deepep_ll"):
        shape = exchange_shape(r)
        for op, dtype in (("dispatch", "fp8"), ("combine", "bf16")):
            out.add((AIC, r["gpu"], "experts"), "moe_" + op, dtype, shape, r[op + "_avg_t_us"], rid, stack=r["stack"],
                    kernel="deepep_ll", scope="kernel")
    for r, rid in read(root, AIC, "wideep_deepep_normal"):
        nodes = whole(r["node_num"])
        for op, dtype in (("dispatch", "fp8"), ("combine", "bf16")):
            shape = exchange_shape(r) | {"sms": whole(r[op + "_sms"])}
            optional(shape, nodes=4 if nodes > 4 else 0)
            time = r[op + "_transmit_us"]
            if nodes > 1:
                time = digits(float(time) + float(r[op + "_notify_us"]))
            out.add((AIC, r["gpu"], "experts"), "moe_" + op, dtype, shape, time, rid, stack=r["stack"],
                    kernel="deepep_normal", scope="call" if nodes == 1 else "notify+kernel")


def exchange_shape(r):
    return {"tokens": whole(r["num_token"]), "cols": whole(r["hidden_size"]), "topk": whole(r["num_topk"]),
            "experts": whole(r["num_experts"]), "gpus": 8 * whole(r["node_num"])}


AIC_MODELS = {"Qwen/Qwen3-32B": "qwen3-32b", "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
              "openai/gpt-oss-120b": "gpt-oss-120b"}
AIC_STACKS = {"trtllm": "trt-llm", "vllm": "vllm", "sglang": "sglang"}


def aic_serving(root, out):
    """Served models on one GPU. While a request waits and writes, each of the `concurrency` others is read once and
    writes as much: that is one prefill of all of them and its decode steps, whatever the order."""
    for r, rid in read(root, "aiconfigurator", "e2e_serving_agg"):
        ranks = [whole(r[key] or 1) for key in ("tp", "pp", "attn_dp")] + [max(1, whole(r["moe_tp"] or 1)),
                                                                          max(1, whole(r["moe_ep"] or 1))]
        # nvidia/Llama-3.1-8B-Instruct-FP8: TTFT falls as concurrency grows, so not all of it was in flight
        if max(ranks) > 1 or not r["concurrency"] or r["model"] not in AIC_MODELS:
            continue
        output = whole(r["osl"])
        total = float(r["ttft_ms"]) + (output - 1) * float(r["tpot_ms"])
        if float(r["ttft_ms"]) > 0.5 * total:
            continue  # the first token took longer than all others: requests queued, fewer ran than the row says
        # "fp4" of gpt-oss is its published mxfp4; no precision is bf16
        dtype = "" if r["precision"] == "fp4" else r["precision"] or "bf16"
        out.add_run(("aiconfigurator", r["system"], "steps"),
                    {"model": AIC_MODELS[r["model"]], "phase": "generate", "batch": whole(r["concurrency"]),
                     "prompt": whole(r["isl"]), "output": output, "dtype": dtype, "stack": AIC_STACKS[r["backend"]],
                     "measured_ms": digits(total), "version": r["backend_version"], "id": rid,
                     "scope": "derived from TTFT and TPOT of a served run"})


def aiconfigurator(root, out):
    for gpu in AIC_GPUS:
        for convert in (aic_gemm, aic_attention, aic_mla, aic_moe, aic_linear, aic_convolutions):
            convert(root, out, gpu)
    aic_collectives(root, out)
    aic_experts(root, out)
    aic_serving(root, out)
