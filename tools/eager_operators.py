#!/usr/bin/env python3
"""Holds the launches of an eager training iteration (`--stack hf-sdpa`) against the operators that PyTorch's dispatcher runs for the
same model of transformers, without a GPU: the model stands on the device `meta`, so that shapes and types are real and nothing
is computed.

    tools/eager_operators.py [--predict build/bin/predict-model] [--batch 8] [--tokens 512] [--layers 2] [--differ] [--record FILE.csv]
                             [--autocast] CONFIG.json ...

For each model, pass and group (matrix, attention, element_wise, loss, reductions): operators of at least 2 MB that PyTorch
dispatches beside the launches that are predicted, and the bytes that both move in GB. A line is marked where bytes differ by
more than 4 % or a count by more than one a layer. `--differ` prints them by size. Needs torch and transformers 5.17.
`--autocast`: parameters in fp32 under torch.autocast in bf16. Autocast has no lists for `meta`, so that the model stands on fake
CUDA tensors, as in tools/count_kept.py, which needs a C++ compiler too.
"""
import argparse
import collections
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trace_training_iteration import SEQUENCES

LARGE = 2e6  # bytes: tables of angles are smaller
SILENT = re.compile(r"^(view|_unsafe_view|t|transpose|permute|expand|slice|select|unsqueeze|squeeze|detach|empty|empty_like|alias|"
                    r"as_strided|split|split_with_sizes|chunk|unbind|_reshape_alias|new_empty|new_empty_strided|empty_strided|unfold|diagonal|"
                    r"lift_fresh|device|_local_scalar_dense|real|imag|view_as_complex|view_as_real|is_same_size|resize_)$")
MATRIX = re.compile(r"^(mm|addmm|bmm|baddbmm|_grouped_mm|convolution|convolution_backward)$")
REDUCED = re.compile(r"^(sum|mean|native_layer_norm_backward(_rows)?|amax|max|var_mean|native_group_norm_backward|_fused_rms_norm_backward)$")
TWICE = re.compile(r"^(slice_backward|select_backward|constant_pad_nd|masked_fill|native_layer_norm_backward|index_add|scatter)$")


def size_of(tensor):
    """Bytes that it holds, each element of an expanded one once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        count *= size if stride else 1
    return count * tensor.element_size()


class Seen(TorchDispatchMode):
    """Notes (pass, operator, bytes read, bytes written, shapes) of what is dispatched."""

    def __init__(self):
        super().__init__()
        self.rows, self.phase = [], "forward"

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__.split(".")[0]
        if name in ("_local_scalar_dense", "equal", "is_nonzero") and args[0].device.type != "cpu":
            return True
        if name == "_local_scalar_dense" and isinstance(args[0], FakeTensor):  # LayerDrop's question: no layer is left out
            return False if args[0].dtype == torch.bool else 1
        given = [t for t in tree_leaves((args, kwargs or {})) if isinstance(t, torch.Tensor)]
        made = func(*args, **(kwargs or {}))
        if name == "clone" or not SILENT.match(name):
            results = [t for t in tree_leaves(made) if isinstance(t, torch.Tensor)]
            read = sum(size_of(t) for t in given)
            if name in ("copy_", "fill_", "zero_"):
                read = sum(size_of(t) for t in given[1:])
            if name in ("new_zeros", "zeros_like", "ones_like", "new_full"):  # the tensor lends its type alone
                read = 0
            if name == "native_layer_norm_backward" and not args[7][1]:  # without weights: the kernel by rows alone
                name = "native_layer_norm_backward_rows"
            shapes = [tuple(t.shape) for t in given]
            if name == "stack" and args[1:] and args[1] % (given[0].dim() + 1) < given[0].dim():
                name = "cat"  # in front of the last dimension it is one, seen otherwise
            if name == "cat" and len({t.dtype for t in given}) > 1:  # types differ: a copy of each part
                for t in given:
                    self.note("copy_", size_of(t), t.numel() * results[0].element_size(), [tuple(t.shape)])
                return made
            self.note(name, read, sum(size_of(t) for t in results), shapes)
        return made

    def note(self, name, read, write, shapes):
        if name == "embedding":
            read = write
        if name == "index":  # rows that are gathered, each as often as it is asked for
            read = write
        if name == "_safe_softmax":  # softmax, which rows see nothing, and zeros in their place
            self.rows += [(self.phase, name, write, write, shapes), (self.phase, name, write, write / 4, shapes),
                          (self.phase, "amax", write / 4, 0, shapes)]
            read = write
        if name == "_softmax_backward_data":  # the product of both, then what is left of it
            self.rows.append((self.phase, name, read, write, shapes))
        if name == "nll_loss_forward":  # one logit a row
            read = 0
        if name == "nll_loss_backward":  # zeros, and one a row
            read = 0
        if name == "masked_fill":  # a copy, and what fills it
            self.rows.append((self.phase, "clone", write, write, shapes))
            read = write / 2
        if name == "stack" and shapes and len(shapes[0]) > 3:  # five dimensions and more: a copy of each part
            self.rows += [(self.phase, name, read / len(shapes), write / len(shapes), shapes)] * (len(shapes) - 1)
            read, write = read / len(shapes), write / len(shapes)
        if name in ("slice_backward", "select_backward"):  # zeros, and a part that is copied
            self.rows.append((self.phase, "zeros", 0, write, shapes))
            write = read
        if name == "native_layer_norm_backward":  # one kernel by rows, one by columns
            self.rows.append((self.phase, name, read, write, shapes))
            write = 0
        self.rows.append((self.phase, name, read, write, shapes))


class Dropout(torch.autograd.Function):
    """Stands for native_dropout: one kernel each way and a mask of bytes."""

    @staticmethod
    def forward(ctx, given, seen):
        ctx.seen = seen
        size = given.numel() * given.element_size()
        seen.rows.append((seen.phase, "native_dropout", size, size + given.numel(), [tuple(given.shape)]))
        return torch.empty_like(given)

    @staticmethod
    def backward(ctx, gradient):
        size = gradient.numel() * gradient.element_size()
        ctx.seen.rows.append((ctx.seen.phase, "native_dropout_backward", size + gradient.numel(), size, [tuple(gradient.shape)]))
        return torch.empty_like(gradient), None


class Attention(torch.autograd.Function):
    """Stands for cuDNN's kernels: their results lie as the projections' do."""

    @staticmethod
    def forward(ctx, query, key, value, seen):
        ctx.save_for_backward(query, key, value)
        ctx.seen = seen
        batch, heads, tokens, _ = query.shape
        made = torch.empty_like(query)  # its layout is the queries'
        if value.shape[-1] != query.shape[-1]:
            made = query.new_empty(batch, tokens, heads, value.shape[-1]).transpose(1, 2)
        seen.rows.append((seen.phase, "attention", 0, 0, [tuple(query.shape), tuple(key.shape)]))
        return made

    @staticmethod
    def backward(ctx, gradient):
        ctx.seen.rows.append((ctx.seen.phase, "attention", 0, 0, []))
        return (*[torch.empty_like(t) for t in ctx.saved_tensors], None)


def written_out(query, key, value, bias, share, scale):
    """_scaled_dot_product_attention_math() of aten/src/ATen/native/transformers/attention.cpp, in fp32."""
    kind, root = query.dtype, (query.shape[-1] ** -0.5 if scale is None else scale) ** 0.5
    query, key, value = (t.to(torch.float32) for t in (query, key, value))
    weights = torch.ops.aten._safe_softmax(torch.matmul(query * root, key.transpose(-2, -1) * root) + bias, -1)
    weights = torch.nn.functional.dropout(weights, share, True)
    weights.detach().to(kind)  # which it returns as well
    return torch.matmul(weights, value).to(kind)


def attention_of(seen):
    def attend(*given, **named):  # autocast leaves alone what an operator of its lists calls
        if not torch.is_autocast_enabled("cuda"):
            return choose(*given, **named)
        cast = [t.to(torch.bfloat16) for t in given]
        with torch.autocast("cuda", enabled=False):
            return choose(*cast, **named)

    def choose(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if attn_mask is not None and attn_mask.requires_grad and attn_mask.stride(-1) != 1:
            return written_out(query, key, value, attn_mask, dropout_p, scale)
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, query.new_zeros(()), query.new_zeros(()))
        if key.shape[1] == 1 < query.shape[1] and not enable_gqa:  # one head of keys that is broadcast is no fused kernel's
            return written_out(query, key, value, attn_mask, dropout_p, scale)
        return Attention.apply(query, key, value, seen)
    return attend


def cut(config, layers):
    """The first layers of a config, and what it says layer by layer."""
    depth = next((config[k] for k in ("num_hidden_layers", "n_layer", "n_layers", "num_layers") if k in config), None)
    made = dict(config)
    for key, value in config.items():
        if key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers"):
            made[key] = layers
        if isinstance(value, list) and depth and len(value) == depth:
            made[key] = value[:layers]
    return made


def made_from(config):
    """(transformers' config, its class of models, whether that finds masked tokens)"""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
    config = dict(config)
    kind = config.pop("model_type")
    for key in ("transformers_version", "pad_token_id", "bos_token_id", "eos_token_id", "cache_implementation", "auto_map",
                "quantization_config", "torch_dtype", "dtype"):
        config.pop(key, None)
    if kind in SEQUENCES:  # labels are shifted behind a token of padding
        config.setdefault("pad_token_id", 0)
        config.setdefault("decoder_start_token_id", 0)
    if kind == "esm":  # counts the tokens that are none
        config["pad_token_id"] = 1
    made = AutoConfig.for_model(kind, **config)
    factory = AutoModelForMaskedLM if type(made) in AutoModelForMaskedLM._model_mapping.keys() and kind in (
        "bert", "roberta", "albert", "distilbert", "modernbert", "electra", "deberta-v2", "esm") else AutoModelForCausalLM
    if kind in SEQUENCES:  # encoder and decoder read as many tokens
        factory = AutoModelForSeq2SeqLM
    if getattr(made, "pad_token_id", None) is not None and factory is not AutoModelForSeq2SeqLM and kind != "esm":
        made.pad_token_id = None
    return made, factory, factory is AutoModelForMaskedLM


def split_heads(self, fused):
    """FalconAttention._split_heads() of transformers 5.17 with indices that lie on the GPU, as no driver can bring them there."""
    place = torch.zeros(1, dtype=torch.long, device=fused.device)
    batch, tokens, _ = fused.shape
    if self.new_decoder_architecture:
        parts = fused.view(batch, tokens, -1, self.num_heads // self.num_kv_heads + 2, self.head_dim)
        query = parts[:, :, :, :-2]
        picked = (torch.ops.aten.index.Tensor(parts, [None, None, None, place]) for _ in range(2))
        return [x.flatten(2, 3) for x in (query, *(torch.broadcast_to(x, query.shape) for x in picked))]
    if not self.multi_query:
        return fused.view(batch, tokens, self.num_heads, 3, self.head_dim).unbind(-2)
    parts = fused.view(batch, tokens, self.num_heads + 2, self.head_dim)
    return (parts[..., :-2, :], *(torch.ops.aten.index.Tensor(parts, [None, None, place]) for _ in range(2)))


def built(made, factory, device, kind):
    if device == "cuda" and made.model_type == "falcon":
        from transformers.models.falcon.modeling_falcon import FalconAttention
        FalconAttention._split_heads = split_heads
    with torch.device(device):
        try:
            return factory.from_config(made, dtype=kind, attn_implementation="sdpa").to(kind).train()
        except ValueError as refusal:  # a family without a fused attention runs as it is written
            if "attention implementation" not in str(refusal):
                raise
            return factory.from_config(made, dtype=kind, attn_implementation="eager").to(kind).train()


def dispatched(config, batch, tokens, autocast=False):
    """Rows of an iteration of the model."""
    made, factory, masked = made_from(config)
    device, kind, fake, cast = "meta", torch.bfloat16, contextlib.nullcontext(), contextlib.nullcontext
    if autocast:
        from torch._subclasses.fake_tensor import FakeTensorMode
        device, kind, fake = "cuda", torch.float32, FakeTensorMode(allow_non_fake_inputs=True)
        cast = lambda: torch.autocast("cuda", dtype=torch.bfloat16)
    functional = torch.nn.functional
    seen = Seen()
    held, dropout = functional.scaled_dot_product_attention, functional.dropout
    functional.scaled_dot_product_attention = attention_of(seen)
    functional.dropout = lambda x, p=0.5, training=True, inplace=False: Dropout.apply(x, seen) if training and p > 0 else x
    try:
        with fake:
            model = built(made, factory, device, kind)
            ids = torch.zeros(batch, tokens, dtype=torch.long, device=device)
            with seen:
                flags = {} if masked else {"use_cache": False}
                with cast():
                    loss = model(input_ids=ids, labels=ids, **flags).loss
                seen.phase = "backward"
                loss.backward()
    finally:
        functional.scaled_dot_product_attention, functional.dropout = held, dropout
    return seen.rows, getattr(made, "vocab_size", None)


def group_of_operator(name, shapes, vocabulary):
    if name == "attention":
        return "attention"
    if MATRIX.match(name):
        return "matrix"
    if re.search("^_log_softmax|nll_loss|cross_entropy", name):
        return "loss"
    if REDUCED.match(name):
        return "reductions"
    if any(s and s[-1] == vocabulary for s in shapes) and not name.startswith("embedding"):
        return "loss"
    tied = name == "add" and shapes and len(shapes[0]) == 2 and shapes[0][0] == vocabulary
    return "other" if tied or name.startswith("embedding") else "element_wise"


def predicted(program, config, batch, tokens, autocast=False):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        run = subprocess.run([program, "llm", "--model", file.name, "--gpu", "h200", "--phase", "train", "--stack", "hf-sdpa",
                              "--batch", str(batch), "--prompt", str(tokens), "--format", "json",
                              *(["--grad-dtype", "fp32"] if autocast else [])], capture_output=True, text=True)
    if not run.stdout:
        raise RuntimeError(run.stderr.strip()[:200])
    rows = []
    for op in json.loads(run.stdout)["ops"]:
        if op["pass"] not in ("forward", "backward"):
            continue
        keys = dict(pair.split("=", 1) for pair in op["shape"].split(";") if "=" in pair)
        number = {k: float(v) for k, v in keys.items() if re.fullmatch(r"[0-9.e+]+", v)}
        read, write = number.get("read", 0), number.get("write", 0)
        if op["op"] == "embedding":
            read = write = 2 * number["rows"] * number["cols"]
        elif "log_softmax" in op["name"]:  # which reads a row three times, its gradient one of the two twice
            read *= 1 / 3 if op["pass"] == "forward" else 2 / 3
        elif op["op"] != "custom" and "rows" in number and "cols" in number:
            write = (4 if op["dtype"] == "fp32" else 2) * number["rows"] * number["cols"]
            read = 2 * write if op["op"] == "add" or op["pass"] == "backward" else write
        rows += [(op["pass"], op["name"], op["op"], op["shape"], read, write)] * int(op["count"])
    return rows


def group_of_launch(name, op, shape):
    if op.startswith("attention"):
        return "attention"
    if re.search("norm.(d_bias_|places$|d_places_(?!sum))", name):  # a table, and its gradient
        return "other"
    if name.endswith((".all", ".d_sum_bias", "moe_combine.sum")):
        return "reductions"
    if op in ("gemm", "grouped_gemm") or name in ("conv1d.taps", "conv1d.d_dw"):
        return "matrix"
    if name.startswith("loss_"):
        return "loss"
    if re.match(r"embedding\.(words|places|types|gather|positions|past|d_)", name) and not re.search("drop|mask|scale|norm", name):
        return "other"
    if re.search(r"lm_head.*(cap|tanh|scale|d_from_fp32|\.bias)", name):
        return "loss"
    if re.search(r"in_flight=(3600|7200|1950|3900|20000|40000)", shape) or ("threads=512" in shape and re.search(r"[._](mean|sum)$", name)) or "sum_keys" in name or "sum_values" in name:
        return "reductions"
    return "element_wise"


def compare(path, args):
    with open(path, encoding="utf-8") as text:
        config = cut(json.load(text), args.layers)
    ours = predicted(args.predict, config, args.batch, args.tokens, args.autocast)
    theirs, vocabulary = dispatched(config, args.batch, args.tokens, args.autocast)
    table = collections.defaultdict(lambda: [0, 0, 0.0, 0.0])
    sizes = collections.defaultdict(lambda: ([], []))
    for phase, name, read, write, shapes in theirs:
        group = group_of_operator(name, shapes, vocabulary)
        if group != "other" and read + write >= LARGE or group == "attention":
            row = table[(phase, group)]
            row[0], row[2] = row[0] + 1, row[2] + (read + write) / 1e9
            sizes[(phase, group, round((read + write) / 1e6, 1))][0].append(f"{name}{shapes}")
    for phase, name, op, shape, read, write in ours:
        group = group_of_launch(name, op, shape)
        if group == "other" or group == "attention" and not re.search("attention(_by_mask)?$", name):
            continue
        if read + write >= LARGE or group in ("attention", "matrix"):
            row = table[(phase, group)]
            row[1], row[3] = row[1] + 1, row[3] + (read + write) / 1e9
            sizes[(phase, group, round((read + write) / 1e6, 1))][1].append(name)
    for (phase, group, size), (a, b) in sorted(sizes.items()):
        if args.differ and group not in ("attention", "matrix") and len(a) != len(b):
            print(f"  {phase} {group} {size} MB: {dict(collections.Counter(a))} | {dict(collections.Counter(b))}")
    bad = 0
    for (phase, group), (a, b, c, d) in sorted(table.items()):
        if args.record and a > 0:
            with open(args.record, "a", encoding="utf-8") as out:
                out.write(f"{os.path.basename(path)[:-5]},{args.layers},{args.batch},{args.tokens},{phase},{group},{a},{c:.4f}\n")
        bytes_differ = group not in ("matrix", "attention") and abs(c - d) > 0.04 * max(c, d) and abs(c - d) > 0.01
        counts_differ = abs(a - b) > args.layers
        mark = "  <--" if bytes_differ or counts_differ else ""
        bad += bool(mark)
        if mark or args.all:
            print(f"{os.path.basename(path)[:-5]:24s} {phase:8s} {group:12s} operators {a:5d} launches {b:5d}  GB {c:8.3f} {d:8.3f}{mark}")
    if not bad:
        print(f"{os.path.basename(path)[:-5]:24s} alike")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configs", nargs="+")
    parser.add_argument("--predict", default="build/bin/predict-model")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--differ", action="store_true", help="print operators and launches of sizes that the other side lacks")
    parser.add_argument("--record", default="", help="appends what PyTorch dispatched to this CSV (tests/model/eager_operators.csv)")
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    if args.autocast:
        import count_kept
        if "COUNT_KEPT_STUB" not in os.environ:
            count_kept.with_stub()
        count_kept.patch()
    for path in args.configs:
        try:
            compare(path, args)
        except Exception as error:  # the other models go on
            print(f"{os.path.basename(path)[:-5]:24s} {type(error).__name__}: {str(error)[:220]}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
