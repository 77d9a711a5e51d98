"""What tools/trace_training.py trains: models, and the points that it records on one GPU and on two where it is given no others."""
import json
import os

# name: (config file, layers kept). Layers are cut so that a trace stays readable; widths stay.
MODELS = {
    "llama-3.2-1b": ("llama-3.2-1b.json", 16),
    "llama-3.1-8b": ("llama-3.1-8b.json", 4),
    "qwen3-8b": ("qwen3-8b.json", 4),
    "gpt2-xl": ("gpt2-xl.json", 12),
    "bert-large-uncased": ("bert-large-uncased.json", 24),
    "mixtral-8x7b": ("mixtral-8x7b.json", 2),
    "gpt2": ("gpt2.json", 12),
    "gpt2-medium": ("gpt2-medium.json", 24),
    "bert-base-uncased": ("bert-base-uncased.json", 12),
    "llama-3.2-3b": ("llama-3.2-3b.json", 8),
    "mistral-7b-v0.1": ("mistral-7b-v0.1.json", 4),
    "qwen3-1.7b": ("qwen3-1.7b.json", 14),
    "qwen2.5-7b": ("qwen2.5-7b.json", 4),
    "qwen3-30b-a3b": ("qwen3-30b-a3b.json", 3),
    "gemma-2b": ("gemma-2b.json", 6),
    "olmo-2-13b": ("olmo-2-13b.json", 3),
    "starcoder2-7b": ("starcoder2-7b.json", 4),
    "gemma-2-9b": ("gemma-2-9b.json", 4),
    "gemma-3-1b": ("gemma-3-1b.json", 12),
    "olmo-3-7b": ("olmo-3-7b.json", 4),
    "phi-3.5-mini": ("phi-3.5-mini.json", 6),
    "phi-4-mini": ("phi-4-mini.json", 6),
    "smollm2-360m": ("smollm2-360m.json", 16),
    "tinyllama-1.1b": ("tinyllama-1.1b.json", 11),
    "codellama-34b": ("codellama-34b.json", 2),
    "llama-2-7b": ("llama-2-7b.json", 4),
    "mistral-nemo-12b": ("mistral-nemo-12b.json", 3),
    "qwen2-0.5b": ("qwen2-0.5b.json", 12),
    "qwen3-0.6b": ("qwen3-0.6b.json", 14),
    "redpajama-incite-3b": ("redpajama-incite-3b.json", 8),
    "gpt-bigcode-1b": ("gpt-bigcode-1b.json", 12),
    "opt-13b": ("opt-13b.json", 3),
    "qwen2.5-3b": ("qwen2.5-3b.json", 8),
    "qwen2.5-72b": ("qwen2.5-72b.json", 2),
    "falcon-40b": ("falcon-40b.json", 2),
    "gemma-2-27b": ("gemma-2-27b.json", 3),
    "llama-2-13b": ("llama-2-13b.json", 4),
    "phi-4": ("phi-4.json", 4),
    "qwen3-14b": ("qwen3-14b.json", 4),
    "olmo-2-32b": ("olmo-2-32b.json", 3),
    "arctic-embed-m": ("arctic-embed-m.json", 12),
    "mixtral-8x22b": ("mixtral-8x22b.json", 1),
    "aya-23-8b": ("aya-23-8b.json", 3),
    "qwen1.5-moe-a2.7b": ("qwen1.5-moe-a2.7b.json", 3),
    "qwen3-32b": ("qwen3-32b.json", 2),
    "llama-3.1-70b": ("llama-3.1-70b.json", 2),
    "phi-2": ("phi-2.json", 8),
    "gpt-j-6b": ("gpt-j-6b.json", 4),
    "opt-66b": ("opt-66b.json", 2),
    "qwen3-235b-a22b": ("qwen3-235b-a22b.json", 1),
    "gpt-oss-20b": ("gpt-oss-20b.json", 2),
}

# how a config calls its layers; kept as many of each
DEPTHS = ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers")
# trained to find masked tokens, whatever class their config names: every seventh, with no cache to leave out
ENCODERS = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert", "electra": "Electra",
            "distilbert": "DistilBert", "albert": "Albert", "modernbert": "ModernBert", "deberta-v2": "DebertaV2",
            "esm": "Esm"}


def add_models(path):
    """Models beside these: a JSON file of name: [config, layers kept]."""
    with open(path, encoding="utf-8") as text:
        MODELS.update(json.load(text))


def config_of(name, folder):
    """(its config, with all of its layers, and how many of them are kept)"""
    config, layers = MODELS[name]
    if isinstance(config, str):
        with open(os.path.join(folder, config), encoding="utf-8") as text:
            config = json.load(text)
    return dict(config), layers


def at(model, batch, tokens, **flags):
    return {"model": model, "batch": batch, "tokens": tokens, "optimizer": "foreach", "clip": False, "recompute": False,
            "attention": "sdpa", "autocast": False, **flags}


ONE = [
    at("llama-3.2-1b", 4, 1024), at("llama-3.2-1b", 1, 2048), at("llama-3.2-1b", 8, 1024),
    at("llama-3.2-1b", 4, 1024, optimizer="fused", clip=True), at("llama-3.2-1b", 1, 8192),
    at("llama-3.2-1b", 4, 1024, recompute=True), at("llama-3.2-1b", 3, 700), at("llama-3.2-1b", 2, 4096),
    at("llama-3.2-1b", 4, 1024, autocast=True),
    at("gpt2-xl", 4, 1024), at("gpt2-xl", 16, 512, clip=True),
    at("bert-large-uncased", 16, 512), at("bert-large-uncased", 32, 128),
    at("qwen3-8b", 2, 2048), at("qwen3-8b", 4, 2048, recompute=True), at("qwen3-8b", 1, 1024, optimizer="fused"),
    at("llama-3.1-8b", 2, 2048), at("llama-3.1-8b", 1, 8192), at("llama-3.1-8b", 5, 600, clip=True),
    at("mixtral-8x7b", 2, 1024), at("mixtral-8x7b", 4, 2048),
    at("llama-3.2-1b", 8, 512), at("llama-3.2-1b", 2, 1024, attention="eager"), at("bert-large-uncased", 48, 384),
    at("llama-3.2-1b", 1, 8192, recompute=True, clip=True), at("llama-3.1-8b", 8, 1024), at("llama-3.2-1b", 1, 512),
]
TWO = [
    at("llama-3.2-1b", 4, 1024, spread="ddp"), at("llama-3.2-1b", 4, 1024, spread="fsdp"),
    at("llama-3.2-1b", 4, 1024, spread="fsdp", keep=True), at("llama-3.2-1b", 4, 1024, spread="ddp", view=True),
    at("llama-3.2-1b", 8, 1024, spread="ddp"), at("llama-3.2-1b", 8, 1024, spread="fsdp"),
    at("llama-3.1-8b", 2, 2048, spread="ddp"), at("llama-3.1-8b", 2, 2048, spread="fsdp"),
    at("llama-3.2-1b", 1, 2048, spread="ddp"), at("llama-3.2-1b", 1, 2048, spread="fsdp"),
    at("llama-3.1-8b", 4, 2048, spread="ddp"), at("llama-3.1-8b", 4, 2048, spread="fsdp", keep=True),
    at("llama-3.2-1b", 4, 1024, spread="none"),
]
