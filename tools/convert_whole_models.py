"""Published runs of whole models, as rows that `validate compare` reads; data/measurements/README.md has their assumptions."""
from measurement_csv import digits, read, whole


def per_second(batch, output, rate):
    """Milliseconds of a batch's whole answers, from the output tokens a second of all of it."""
    return digits(1e3 * batch * output / rate)


def azure_models(root, out):
    """TensorRT-LLM's own benchmark of a static batch. On the A100 page alone the data type is printed."""
    models = {"e2e:Mistral (7B)": ("mistral-7b-v0.1", ""), "e2e:LLAMA 3 (8B)": ("llama-3.1-8b", ""),
              "e2e:LLAMA 3 (70B)": ("llama-3.1-70b", 8)}
    for r, rid in read(root, "azure_guide", "results"):
        if r["op"] not in models or "datatype float16" not in r["note"]:
            continue
        model, gpus = models[r["op"]]
        batch, prompt, output = whole(r["m"]), 128, 8
        out.add_run(("azure_guide", "a100_sxm", "steps"),
                    {"model": model, "phase": "generate", "batch": batch, "prompt": prompt, "output": output, "gpus": gpus,
                     "dtype": "fp16", "stack": "trt-llm", "measured_ms": per_second(batch, output, float(r["value"])),
                     "scope": "derived from output tokens/s", "id": rid})


def fastertransformer(root, out):
    """GPT: a whole answer of a batch. BERT: a forward of the encoder, nothing padded."""
    models = {"GPT-1.3B": "megatron-gpt-1.3b", "GPT-20B": "megatron-gpt-20b", "GPT-89B": "megatron-gpt-89b"}
    for r, rid in read(root, "fastertransformer", "gpt_a100"):
        if r["impl"] != "FasterTransformer" or r["pp"] != "1":
            continue
        out.add_run(("fastertransformer", "a100_sxm", "gpt"),
                    {"model": models[r["model"]], "phase": "generate", "batch": whole(r["batch"]), "prompt": whole(r["input_len"]),
                     "output": whole(r["output_len"]), "gpus": "" if r["tp"] == "1" else whole(r["tp"]), "dtype": r["dtype"],
                     "stack": "faster-transformer", "measured_ms": r["latency_ms"], "id": rid})
    for r, rid in read(root, "fastertransformer", "bert_encoder"):
        if r["impl"] != "FT" or r["precision"] != "FP16":
            continue
        out.add_run(("fastertransformer", "a100_sxm", "bert"),
                    {"model": "bert-base-uncased", "phase": "prefill", "batch": whole(r["batch"]), "prompt": whole(r["seq_len"]),
                     "dtype": "fp16", "stack": "faster-transformer", "measured_ms": r["latency_ms"], "scope": r["framework"],
                     "id": rid})


def splitwise(root, out):
    """vLLM of 2023: prompts, and steps in the middle of answers that were written to their end."""
    models = {"bloom-176b": "bloom-176b", "llama2-70b": "llama-2-70b"}
    cards = {"a100-80gb": "a100_sxm", "h100-80gb": "h100_sxm"}
    for r, rid in read(root, "splitwise", "llm_phase_latency"):
        prompt, batch, tokens = whole(r["prompt_size"]), whole(r["batch_size"]), whole(r["token_size"])
        run = {"model": models[r["model"]], "batch": batch, "gpus": whole(r["tensor_parallel"]), "dtype": r["dtype"],
               "stack": "vllm-2023", "id": rid}
        where = ("splitwise", cards[r["hardware"]], "steps")
        if tokens == 128 and batch * prompt <= 2560:  # vLLM's own limit on the tokens of a step
            out.add_run(where, run | {"phase": "prefill", "prompt": prompt, "measured_ms": r["prompt_ms"], "scope": "first token"})
        whole_answer = float(r["prompt_ms"]) + (tokens - 1) * float(r["token_ms"])
        if abs(float(r["e2e_ms"]) - whole_answer) <= 0.05 * whole_answer:
            out.add_run(where, run | {"phase": "decode", "context": prompt + tokens // 2, "measured_ms": r["token_ms"],
                                      "scope": "mean of an answer"})


def tensorrt_llm(root, out):
    """A whole answer of a full batch (from the rate of output tokens a GPU), or the first token."""
    models = {"GPT-J 6B": "gpt-j-6b", "LLaMA 7B": "llama-2-7b", "LLaMA 70B": "llama-2-70b", "Falcon 180B": "falcon-180b"}
    for r, rid in read(root, "tensorrt_llm", "throughput_latency_v0.5_v0.6"):
        batch, prompt, output, gpus = whole(r["batch"]), whole(r["isl"]), whole(r["osl"]), whole(r["tp"])
        run = {"model": models[r["model"]], "batch": batch, "prompt": prompt, "gpus": "" if gpus == 1 else gpus,
               "dtype": r["dtype"], "kv-dtype": "fp8", "stack": "trt-llm-2023", "version": r["version"], "id": rid}
        if r["metric"] == "first_token_ms":
            run |= {"phase": "prefill", "measured_ms": r["value"], "scope": "first token"}
        else:
            run |= {"phase": "generate", "output": output, "scope": "derived from output tokens/s",
                    "measured_ms": per_second(batch, output, gpus * float(r["value"]))}
        out.add_run(("tensorrt_llm", "h100_sxm", "steps"), run)
