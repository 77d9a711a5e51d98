#!/usr/bin/env python3
"""Draws whole variants of the families' default configurations, several keys at once, as transformers would write them: the
configuration class makes what follows from them (lists of layers, widths). Holds what predict-model reads against the module
that transformers builds of each on the meta device.

    tools/draw_variants.py FAMILIES.json [--count N] [--seed X] [--only TYPE,...] [--record FILE] [--program PROGRAM]

FAMILIES.json has `models`: by type a `config`, a `class_name` and `params` (tests/ops/hf_families.json). Prints a line a
variant that is read wrongly or refused, in the end how many of each. --record writes those that are right in the form of
tests/ops/hf_variants.json. Exit code 1 when one is wrong. Needs torch and transformers.
"""
import argparse
import json
import os
import random
import sys
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_families import judged, module_parameters  # noqa: E402

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers")
# Words of a key -> what it may become; the first that fits counts. A function gets the old value and the generator.
DRAWS = (
    (("head_dim", "d_kv", "kv_channels"), lambda v, r: r.choice([32, 64, 96, 128, 192])),
    (("rope_head_dim", "nope_head_dim"), lambda v, r: r.choice([32, 64, 128])),
    (("lora_rank",), lambda v, r: r.choice([64, 128, 256, 512])),
    (("key_value_heads", "kv_heads"), lambda v, r: r.choice([1, 2, 4, v])),
    (("attention_heads", "n_head", "num_heads"), lambda v, r: r.choice([v, 2 * v, max(1, v // 2)])),
    (("per_tok", "topk", "moe_k"), lambda v, r: r.choice([1, 2, 4])),
    (("n_group", "topk_group"), lambda v, r: v),
    (("experts",), lambda v, r: r.choice([4, 8, 16])),
    (("dense_replace", "dense_layers"), lambda v, r: r.choice([0, 1, 2])),
    (("intermediate_size", "ffn_dim", "d_ff", "n_inner"), lambda v, r: r.choice([v, 2 * v, 768, 1280])),
    (("vocab_size",), lambda v, r: r.choice([v, 32000, 50304, 151936])),
    (("sliding_window",), lambda v, r: r.choice([128, 512, 1024, v])),
    (("state", "conv_kernel", "d_conv"), lambda v, r: r.choice([v, 2 * v])),
    (("multiplier", "factor", "token", "_id", "chunk", "position", "max_", "hidden_size", "d_model", "n_embd"), None),
)


def new_value(key, value, rng):
    if key in LAYERS:
        return rng.choice([2, 3, 4, 6, 8])
    if isinstance(value, bool):
        return rng.random() < 0.5
    if not isinstance(value, int) or value <= 0:
        return value
    for words, draw in DRAWS:
        if any(word in key for word in words):
            return draw(value, rng) if draw else value
    return value


SWITCHES = ("bias", "tie_word", "qk_norm", "qk_layernorm", "use_sliding", "parallel", "use_qkv", "norm_topk", "affine", "multi_query",
            "mup", "gated", "layer_norm_before", "use_post_norm", "expert_bias", "attn_output_gate", "add_")


def drawn_changes(config, rng):
    """Keys to say otherwise: a few that change arithmetic, and always fewer layers."""
    able = [k for k, v in config.items() if k not in LAYERS and not k.startswith("is_") and
            ((isinstance(v, bool) and any(s in k for s in SWITCHES)) or (not isinstance(v, bool) and isinstance(v, int) and v > 0))]
    chosen = rng.sample(able, min(len(able), rng.randint(1, 5)))
    changes = {k: new_value(k, config[k], rng) for k in chosen}
    for key in LAYERS:
        if isinstance(config.get(key), int):
            changes[key] = new_value(key, config[key], rng)
    return changes


def whole_config(transformers, model_type, changes, inner):
    """As the class writes it, or None where it refuses."""
    try:
        keywords = {inner: changes} if inner else changes
        return json.loads(json.dumps(transformers.AutoConfig.for_model(model_type, **keywords).to_dict(), default=str))
    except Exception:  # of any kind
        return None


# What no reader asks for: left out of recorded variants.
UNREAD = ("transformers_version", "output_hidden_states", "return_dict", "chunk_size_feed_forward", "id2label", "label2id", "_name_or_path",
          "output_attentions", "initializer_range", "problem_type")


def stripped(value):
    if not isinstance(value, dict):
        return value
    return {k: stripped(v) for k, v in value.items()
            if v is not None and k not in UNREAD and not k.endswith(("token_id", "dropout", "_pdrop"))}


def difference(base, config):
    change = {k: v for k, v in stripped(config).items() if base.get(k, "absent") != v}
    without = [k for k in base if config.get(k) is None and base[k] is not None]
    return change, without


def expressible(base, change):
    """Whether laying `change` over `base` gives the variant: objects in it lose none of their keys."""
    return all(not isinstance(v, dict) or not isinstance(base.get(k), dict) or set(stripped(base[k])) <= set(v) for k, v in change.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--record", default="")
    parser.add_argument("--program", default="build/bin/predict-model")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import transformers
    with open(args.families, encoding="utf-8") as file:
        families = json.load(file)["models"]
    names = [n for n in families if not args.only or n in args.only.split(",")]
    rng = random.Random(args.seed)
    counts = {"right": 0, "refused": 0, "wrong": 0, "not built": 0}
    rows = []
    for number in range(args.count):
        name = names[number % len(names)]
        base = families[name]["config"]
        inner = "text_config" if isinstance(base.get("text_config"), dict) else ""
        changes = drawn_changes(base[inner] if inner else base, rng)
        config = whole_config(transformers, name, changes, inner)
        if not config:
            counts["not built"] += 1
            continue
        config = {k: v for k, v in config.items() if v is not None}
        config["architectures"] = [families[name]["class_name"]]
        left_out = rng.sample(sorted(k for k in config if k in base and config[k] == base[k] and
                                     k not in ("model_type", "architectures", "text_config")), 1) if rng.random() < 0.3 else []
        for key in left_out:
            config.pop(key)
        real = module_parameters(families[name]["class_name"], config)
        if not real:
            counts["not built"] += 1
            continue
        verdict, read, why = judged(args.program, config, real)
        counts[verdict] += 1
        if verdict == "right":
            change, without = difference(base, config)
            if expressible(base, change):
                rows.append({"type": name, "change": change, "without": without, "params": real})
        else:
            what = why.split(".json: ")[-1] if read is None else f"{100 * (read / real - 1):+.2f} %"
            print(f"{verdict} {name} {json.dumps(changes)} without {left_out}: {what}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.items()) + f" (seed {args.seed})")
    if args.record:
        with open(args.record, "w", encoding="utf-8") as file:
            file.write('{"source": "tools/draw_variants.py --seed %d --count %d, transformers %s",\n"variants": [\n' %
                       (args.seed, args.count, transformers.__version__))
            file.write(",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]}\n")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
