"""One training iteration of a model of transformers, as a point of tools/trace_training.py asks for it."""
import contextlib

import torch

from trace_training_models import DEPTHS, ENCODERS, config_of

# encoder and decoder, which read as many tokens
SEQUENCES = ("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "marian", "plbart", "blenderbot", "m2m_100")


def build(name, args):
    """(model, config) with random weights on the device, fp32 where autocast casts them."""
    config, layers = config_of(name, args.models)
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
    kind = config.pop("model_type")
    for key in ("transformers_version", "pad_token_id", "bos_token_id", "eos_token_id", "cache_implementation"):
        config.pop(key, None)
    if kind in SEQUENCES:  # labels are shifted behind a token of padding
        config["pad_token_id"] = config["decoder_start_token_id"] = 0
    if kind == "esm":  # counts the tokens that are none
        config["pad_token_id"] = 1
    if args.no_dropout:
        config.update({key: 0.0 for key in config if key.endswith(("pdrop", "dropout_prob", "dropout", "dropout_rate"))})
    small = {"hidden_size": 64, "n_embd": 64, "intermediate_size": 96, "num_attention_heads": 4, "n_head": 4,
             "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512, "num_local_experts": 8, "d_model": 64, "d_ff": 96,
             "d_kv": 16, "num_heads": 4} if args.tiny else {}
    for key in DEPTHS:
        small[key] = args.tiny or layers
    depth = next((config[key] for key in DEPTHS if key in config), None)
    for key, value in config.items():  # lists that say something of each layer
        if isinstance(value, list) and len(value) == depth:
            config[key] = value[:small["num_hidden_layers"]]
    config.update({key: value for key, value in small.items() if key in config})
    made = AutoConfig.for_model(kind, **config)
    factory = (AutoModelForMaskedLM if kind in ENCODERS else AutoModelForSeq2SeqLM if kind in SEQUENCES
               else AutoModelForCausalLM)
    torch.manual_seed(7)
    dtypes = {"fp16": torch.float16, "fp32": torch.float32}
    kind_of = torch.float32 if args.autocast or args.tf32 else dtypes.get(args.dtype, torch.bfloat16)
    with torch.device(args.device):
        try:
            model = factory.from_config(made, dtype=kind_of, attn_implementation="sdpa")
        except ValueError as refusal:  # a family without a fused attention runs as it is written
            if "attention implementation" not in str(refusal):
                raise
            model = factory.from_config(made, dtype=kind_of, attn_implementation="eager")
    return model.to(kind_of).train(), made


def layers_of(model):
    """What transformers can compute again by itself: a model's layers, of an encoder-decoder those of both stacks."""
    from transformers.modeling_layers import GradientCheckpointingLayer
    found = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
    inner = {id(part) for layer in found for part in layer.modules() if part is not layer}
    return [layer for layer in found if id(layer) not in inner]


def spread(model, point, args):
    """The model under DDP (beside ZeRO-1 too), FSDP (fully_shard) or FSDP of PyTorch's first kind, as the point asks."""
    ranks = args.fake or args.gpus
    if point.get("spread") in ("ddp", "zero1"):
        from torch.nn.parallel import DistributedDataParallel
        made = DistributedDataParallel(model, device_ids=[args.rank] if args.device == "cuda" else None,
                                       gradient_as_bucket_view=bool(point.get("view")))
        if args.fake:  # its exchanges have no result, which DDP waits for
            made.register_comm_hook(args.pace if point.get("paced") else None, type(args.pace).sum_bucket)
        return made
    if point.get("spread") == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        options = {"mesh": init_device_mesh(args.device, (ranks,)), "reshard_after_forward": not point.get("keep")}
        if point.get("masters"):
            options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in [*layers_of(model), model]:
            fully_shard(layer, **options)
            if point.get("paced"):
                args.pace.stands_in(layer)
    return flat_shards(model, point, args) if point.get("spread") == "fsdp1" else model


def flat_shards(model, point, args):
    """PyTorch's first FSDP: each layer's parameters are one flat tensor."""
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    keeps = ShardingStrategy.SHARD_GRAD_OP if point.get("keep") else ShardingStrategy.FULL_SHARD
    options = {"sharding_strategy": keeps, "device_id": args.rank if args.device == "cuda" else None}
    if point.get("masters"):
        options["mixed_precision"] = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    policy = ModuleWrapPolicy({type(layer) for layer in layers_of(model)})
    return FullyShardedDataParallel(model, auto_wrap_policy=policy, use_orig_params=True, **options)


class Several:
    """Optimizers that step one behind the other."""

    def __init__(self, *all):
        self.all = all

    def step(self):
        for each in self.all:
            each.step()

    def zero_grad(self, **how):
        for each in self.all:
            each.zero_grad(**how)


def muon_of(model):
    """Muon of the layers' matrices and AdamW of all else, as Muon's documentation asks."""
    matrices = [p for layer in layers_of(model) for p in layer.parameters() if p.ndim == 2]
    known = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in known]
    return Several(torch.optim.Muon(matrices, lr=1e-5), torch.optim.AdamW(rest, lr=1e-5, foreach=True))


def shared_optimizer(name, parameters):
    """AdamW or SGD of this rank's parameters, which are then broadcast (ZeroRedundancyOptimizer beside DDP)."""
    from torch.distributed.optim import ZeroRedundancyOptimizer
    options = {"optimizer_class": torch.optim.AdamW, "fused" if name == "fused" else "foreach": True}
    if name.startswith("sgd"):
        options = {"optimizer_class": torch.optim.SGD, "foreach": True, "momentum": 0.9 if name == "sgd-momentum" else 0}
    return ZeroRedundancyOptimizer(parameters, lr=1e-5, **options)


def optimizer_of(name, parameters, shared=False):
    """AdamW, fused, as lists of tensors or a tensor at a time (`loop`), or another of torch.optim by lists of tensors; a tensor
    at a time Adafactor as it comes by itself, and bitsandbytes' AdamW8bit. `shared`: between the ranks (ZeRO-1)."""
    if shared:
        return shared_optimizer(name, parameters)
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-5, foreach=True)
    if name == "sgd-momentum":
        return torch.optim.SGD(parameters, lr=1e-5, momentum=0.9, foreach=True)
    if name == "adafactor":
        return torch.optim.Adafactor(parameters, lr=1e-5)
    if name == "adam8bit":
        import bitsandbytes
        return bitsandbytes.optim.AdamW8bit(parameters, lr=1e-5)
    how = {"fused": {"fused": True}, "loop": {"foreach": False}}.get(name, {"foreach": True})
    return torch.optim.AdamW(parameters, lr=1e-5, **how)


class Iteration:
    """What a point repeats. `marks`, where set, is called behind each phase with its name."""

    def __init__(self, model, config, point, args):
        self.plain, self.model, self.point, self.args = model, spread(model, point, args), point, args
        model.set_attn_implementation(point["attention"])
        for part in model.modules():  # T5's two stacks have configs of their own, of the same class, which that leaves alone
            if hasattr(part, "config"):
                part.config._attn_implementation = point["attention"]
        if point["recompute"]:
            model.gradient_checkpointing_enable()
        else:
            model.gradient_checkpointing_disable()
        torch.manual_seed(11 + args.rank)
        shape = (point["batch"], point["tokens"])
        ids = torch.randint(0, config.vocab_size, shape, device=args.device)
        labels = ids
        if config.model_type in ENCODERS:
            chosen = torch.arange(ids.numel(), device=args.device).reshape(shape) % 7 == 3
            labels = torch.where(chosen, ids, torch.full_like(ids, -100))
        self.inputs = {"input_ids": ids, "labels": labels}
        if config.model_type not in ENCODERS:
            self.inputs["use_cache"] = False
        self.parameters = list(self.model.parameters())
        muon = point["optimizer"] == "muon"
        shared = point.get("spread") == "zero1"
        self.optimizer = muon_of(model) if muon else optimizer_of(point["optimizer"], self.parameters, shared)
        self.type = torch.float16 if point.get("half") else torch.bfloat16  # of autocast
        self.scaler = torch.amp.GradScaler(args.device, enabled=bool(point.get("scaler")))
        self.marks = lambda name: None

    def fresh(self):
        pass

    @contextlib.contextmanager
    def phase(self, name):
        with torch.profiler.record_function("phase:" + name):
            yield
        self.marks(name)

    def exchanges(self, last):
        """Whether the backward pass of a micro-batch adds gradients up over ranks: that of the last one does."""
        kind = self.point.get("spread")
        if kind in ("ddp", "zero1", "fsdp1") and not last:
            return self.model.no_sync()
        if kind == "fsdp":
            self.model.set_requires_gradient_sync(last)
        return contextlib.nullcontext()

    def step(self):
        parts = self.point.get("accumulate", 1)
        for part in range(parts):
            with self.exchanges(part == parts - 1):
                with self.phase("forward"):
                    with torch.autocast(self.args.device, self.type, enabled=self.point["autocast"]):
                        loss = self.model(**self.inputs).loss
                with self.phase("backward"):
                    self.scaler.scale(loss).backward()
        if self.point["clip"]:
            with self.phase("clip"):
                self.scaler.unscale_(self.optimizer)
                torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        with self.phase("optimizer"):
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad(set_to_none=True)
