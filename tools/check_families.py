#!/usr/bin/env python3
"""Holds what predict-model reads of configurations against the modules that transformers builds of them, on the meta device:
variants of the default configuration of each family, one key changed at a time (sizes doubled, halved or one more, switches
turned, keys left out), drawn at random; with --changes several at once.

    tools/check_families.py DEFAULTS.json [--count N] [--seed X] [--only TYPE,...] [--keys KEY,...] [--changes N] [--program PROGRAM]

DEFAULTS.json has `models`: by type a `config`, a `class_name` and `params` (tests/ops/hf_families.json has the form). Prints a
line a variant that is read wrongly, and in the end how many were right (to 0.1 %), refused, wrong, and how many transformers
itself does not build. Exit code 1 when one is wrong. Needs torch and transformers.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

NO_SIZES = ("token_id", "_idx", "initializer", "dropout", "transformers_version", "return_", "output_", "id2label", "label2id",
            "use_cache", "chunk_size_feed")


def module_parameters(class_name, config):
    """Parameters of the module, shared tensors once; None where it cannot be built."""
    import torch
    import transformers
    kept = {k: v for k, v in config.items() if k not in ("architectures", "transformers_version", "model_type")}
    try:
        made = transformers.AutoConfig.for_model(config["model_type"], **json.loads(json.dumps(kept)))
        with torch.device("meta"):
            model = getattr(transformers, class_name)(made)
        model.tie_weights()
    except Exception:  # of any kind: the class refuses the variant
        return None
    return sum(tensor.numel() for tensor in {id(t): t for t in model.parameters()}.values())


def read_parameters(program, config):
    """(parameters, "") or (None, why it was refused)."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump(config, file)
    try:
        done = subprocess.run([program, "llm", "--model", file.name, "--gpu", "h200", "--phase", "prefill", "--prompt", "16",
                               "--format", "json"], capture_output=True, text=True, check=False)
    finally:
        os.unlink(file.name)
    if done.returncode > 1:
        return None, done.stderr.strip()
    return json.loads(done.stdout)["params"], ""


def judged(program, config, real):
    """("right", "refused" or "wrong", parameters read or None, why it was refused), to 0.1 %."""
    read, why = read_parameters(program, config)
    if read is None:
        return "refused", None, why
    return "right" if abs(read / real - 1) <= 1e-3 else "wrong", read, ""


def variants(config, rng):
    """(key, value before, value after), of the outer keys and of those of nested configurations; None: left out."""
    places = [("", config)] + [(k + "/", v) for k, v in config.items() if isinstance(v, dict) and k.endswith("_config")]
    for place, inner in places:
        for key, value in inner.items():
            if any(word in key for word in NO_SIZES) or key.startswith("_"):
                continue
            if isinstance(value, bool):
                yield place + key, value, not value
            elif isinstance(value, int) and value > 0:
                yield place + key, value, rng.choice([2 * value, max(1, value // 2), value + 1, None])


def changed(config, changes):
    out = json.loads(json.dumps(config))
    for key, _, after in changes:
        *outer, inner = key.split("/")
        target = out[outer[0]] if outer else out
        if after is None:
            target.pop(inner, None)
        else:
            target[inner] = after
    return out


def told(changes):
    return ", ".join(f"{key} {before} -> {'left out' if after is None else after}" for key, before, after in changes)


def drawn(families, args, rng):
    """(family, changes) of --count variants."""
    out = []
    for name, family in families.items():
        if args.only and name not in args.only.split(","):
            continue
        each = [v for v in variants(family["config"], rng) if not args.keys or v[0] in args.keys.split(",")]
        rng.shuffle(each)
        out += [(name, each[i:i + args.changes]) for i in range(0, len(each), args.changes)]
    rng.shuffle(out)
    return out[:args.count]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("defaults")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--keys", default="")
    parser.add_argument("--changes", type=int, default=1)
    parser.add_argument("--program", default="build/bin/predict-model")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    with open(args.defaults, encoding="utf-8") as file:
        families = json.load(file)["models"]
    rng = random.Random(args.seed)
    counts = {"right": 0, "refused": 0, "wrong": 0, "not built": 0}
    for name, changes in drawn(families, args, rng):
        config = changed(families[name]["config"], changes)
        real = module_parameters(families[name]["class_name"], config)
        if real is None:
            counts["not built"] += 1
            continue
        verdict, read, why = judged(args.program, config, real)
        counts[verdict] += 1
        if verdict == "wrong":
            print(f"{name} {told(changes)}: {100 * (read / real - 1):+.2f} %, {read:.0f} read, {real} are", flush=True)
        if verdict == "refused" and os.environ.get("CHECK_FAMILIES_REFUSALS"):
            print(f"{name} {told(changes)}: {why}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.items()) + f" (seed {args.seed})")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
