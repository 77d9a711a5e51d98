#!/usr/bin/env python3
"""Counts what an eager training iteration of transformers allocates, on fake CUDA tensors: no GPU and no driver is needed.

    tools/count_kept.py MODEL BATCH TOKENS ['{"autocast": true, ...}'] [--more MODELS.json]

Needs torch and transformers, a C++ compiler, and a torch built for CUDA. Prints bytes at rest, behind each phase and their
peaks, each storage a multiple of 512 as the caching allocator rounds it; cuBLAS's workspaces (2 x 32 MiB on Hopper) come on
top. scaled_dot_product_attention is taken as cuDNN's; values that programs ask of tensors are made up (see Ledger).
Of some forty iterations recorded on an H200 the peak is within 0.6 % of torch.cuda.max_memory_allocated. Autograd adds up gradients
of fake tensors out of place, so that a tied embedding under autocast counts once too often where that is the peak.
"""
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import types
import weakref

HERE = os.path.dirname(os.path.abspath(__file__))


def with_stub():
    """Starts this program again with tools/no_driver.cpp as its driver."""
    import importlib.util
    torch_lib = os.path.join(os.path.dirname(importlib.util.find_spec("torch").origin), "lib", "libcaffe2_nvrtc.so")
    names = subprocess.run(["nm", "-D", torch_lib], capture_output=True, text=True, check=True).stdout.split("\n")
    wanted = {n.split()[1].split("@")[0] for n in names if n.strip().startswith("U cu")} - {"cuDevicePrimaryCtxGetState"}
    folder = tempfile.mkdtemp()
    library = os.path.join(folder, "libcuda.so.1")
    rest = os.path.join(folder, "rest.c")
    with open(rest, "w", encoding="utf-8") as out:
        out.writelines(f"int {name}() {{ return 0; }}\n" for name in sorted(wanted))
    subprocess.run(["cc", "-c", "-fPIC", rest, "-o", rest + ".o"], check=True)
    subprocess.run(["c++", "-std=c++17", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", os.path.join(HERE, "no_driver.cpp"),
                    rest + ".o", "-o", library], check=True)
    environment = {**os.environ, "LD_PRELOAD": library, "LD_LIBRARY_PATH": folder, "COUNT_KEPT_STUB": library}
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


if __name__ == "__main__" and "COUNT_KEPT_STUB" not in os.environ:
    with_stub()
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch
from torch._subclasses.fake_tensor import FakeTensorMode, FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

def rounded(n):
    return -(-n // 512) * 512 if n else 0

class Ledger(TorchDispatchMode):
    """Bytes of storages alive, as the caching allocator counts them (each a multiple of 512)."""
    def __init__(self):
        super().__init__()
        self.live, self.peak, self.seen = 0, 0, {}
        self.top = None; self.op = None; self.trace = None
    def track(self, t, why):
        s = t.untyped_storage()
        key = s._cdata
        if key in self.seen: return
        n = rounded(s.nbytes())
        self.seen[key] = (n, why)
        self.live += n
        if self.trace is not None: self.trace.append((self.live, n, why))
        def gone(key=key):
            n, why = self.seen.pop(key)
            self.live -= n
            if self.trace is not None: self.trace.append((self.live, -n, why))
        weakref.finalize(s, gone)
        if self.live > self.peak:
            self.peak = self.live
            self.top = (why, t.shape, t.dtype)
    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            cuda, logic = args[0].device.type == 'cuda', args[0].dtype == torch.bool
            return (True if cuda else False) if logic else (0 if cuda else 1)
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._softmax_backward_data.default:  # its product of gradient and result lives inside (SoftMax.cu)
            inside = rounded(args[0].numel() * torch.promote_types(args[0].dtype, args[1].dtype).itemsize)
            self.peak = max(self.peak, self.live + inside + rounded(out.numel() * out.itemsize))
        for t in tree_iter(out):
            if isinstance(t, torch.Tensor) and t.device.type == "cuda":
                self.track(t, str(func))
        return out
    def reset(self):
        self.peak = self.live; self.top = None

def patch():
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    import torch.amp.autocast_mode as am
    am.torch.cuda.is_bf16_supported = lambda *a, **k: True
    import transformers.masking_utils as mu
    mu.find_packed_sequence_indices = lambda *a, **k: None
    import transformers.utils.import_utils as iu
    off = lambda *a, **k: False
    for m in list(sys.modules.values()):
        if m is not None and getattr(m, "__name__", "").startswith("transformers") and "is_tracing" in getattr(m, "__dict__", {}):
            m.is_tracing = off
    import torch._subclasses.fake_tensor as ft
    ft.init_gpu_context = lambda d: None
    torch._C._ensureCUDADeviceGuardSet()
    ctypes.CDLL(os.environ["COUNT_KEPT_STUB"]).set_devices(64)
    torch.cuda._lazy_init = lambda: None
    import transformers.modeling_utils as mtu
    mtu.get_torch_context_manager_or_global_device = lambda: torch.device("meta")
    torch.cuda.is_available = lambda: True
    torch.cuda.get_device_capability = lambda *a: (9, 0)
    torch.cuda.current_device = lambda: 0
    torch.cuda.device_count = lambda: 1
    torch.cuda.is_current_stream_capturing = lambda: False
    torch.cuda._is_compiled = lambda: True
    torch.nn.functional.scaled_dot_product_attention = sdpa
    torch.nn.functional.grouped_mm = grouped_mm
    torch._C._select_conv_backend = lambda *a, **k: torch._C._ConvBackend.CudaDepthwise2d  # asks the driver
    torch._C._conv_determine_backend_memory_format = lambda *a: torch.contiguous_format
    mtu.PreTrainedModel.to = to
    mtu.PreTrainedModel.warn_if_padding_and_no_attention_mask = lambda *a, **k: None
    torch.jit.script = lambda function: function  # DeBERTa's indices: the same operators without it
    plain = torch.tensor
    def tensor(data, *, device=None, **how):
        where = device
        if where is None:
            modes = [m for m in torch.overrides._get_current_function_mode_stack() if isinstance(m, torch.utils._device.DeviceContext)]
            where = modes[-1].device if modes else "cpu"
        made = plain(data, device="cpu", **how)
        if torch.device(where).type == "cuda":
            return torch.empty(made.shape, dtype=made.dtype, device=where)
        if isinstance(made, FakeTensor):  # a number that DeBERTa brings to the GPU
            made.constant = None
        return made
    torch.tensor = tensor

def sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if torch.is_autocast_enabled("cuda"):
        dt = torch.get_autocast_dtype("cuda")
        query, key, value = (x.to(dt) if x.is_floating_point() else x for x in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point(): attn_mask = attn_mask.to(dt)
    with torch.autocast("cuda", enabled=False):
        if query.dtype == torch.float32:
            return attention_fp32(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        need = torch.is_grad_enabled()
        bias = attn_mask
        if key.shape[1] == 1 < query.shape[1] and not enable_gqa:  # one head of keys that is broadcast: no fused kernel's
            if bias is not None and bias.dtype == torch.bool:
                bias = torch.where(bias, query.new_zeros(()), query.new_zeros(()))
            math = torch.ops.aten._scaled_dot_product_attention_math
            return math(query, key, value, bias, dropout_p, is_causal and bias is None, scale=scale)[0]
        if bias is not None and bias.dtype == torch.bool:
            # convert_boolean_attn_mask
            bias = torch.where(attn_mask, 0.0, float("-inf")).to(query.dtype) if True else bias
        hd = query.shape[-1]
        if attn_mask is not None and attn_mask.requires_grad and attn_mask.stride(-1) == 1:  # not cuDNN's (sdp_utils_cpp.h)
            return attention_fp32(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        if attn_mask is not None and attn_mask.requires_grad:  # no fused kernel's
            math = torch.ops.aten._scaled_dot_product_attention_math
            return math(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)[0]
        flash = attn_mask is None and (FLASH or hd > 256 or hd % 8)
        if bias is not None:
            b = query.shape[0]
            bias = bias.expand(b, query.shape[1], query.shape[2], key.shape[2])
        if flash:
            pad = (-hd) % 8
            if pad: query, key, value = (torch.nn.functional.pad(x, (0, pad)) for x in (query, key, value))
            if enable_gqa and False: pass
            out = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale or hd ** -0.5)[0]
            return out[..., :hd] if pad else out
        out = torch.ops.aten._scaled_dot_product_cudnn_attention(query, key, value, bias, need, dropout_p, is_causal, False, scale=scale)[0]
        return out
class ProductOfEach(torch.autograd.Function):
    """Experts' product in fp32, of which PyTorch has no grouped kernel: one product an expert (GroupedBlas.cpp), of equal rows here."""

    @staticmethod
    def each(first, second, made):
        for a, b in zip(first, second):
            torch.mm(a, b)
        return made

    @staticmethod
    def forward(ctx, rows, weights):
        ctx.save_for_backward(rows, weights)
        experts = weights.shape[0]
        parts = rows[: len(rows) // experts * experts].view(experts, -1, rows.shape[1])
        return ProductOfEach.each(parts, weights, rows.new_empty(len(rows), weights.shape[2]))

    @staticmethod
    def backward(ctx, gradient):
        rows, weights = ctx.saved_tensors
        experts, whole = weights.shape[0], len(rows) // weights.shape[0] * weights.shape[0]
        given, read = (x[:whole].reshape(experts, -1, x.shape[1]) for x in (gradient, rows))
        dw = ProductOfEach.each(read.transpose(1, 2), given, torch.empty_like(weights))
        return ProductOfEach.each(given, weights.transpose(1, 2), torch.empty_like(rows)), dw

def grouped_mm(rows, weights, *, offs=None, **named):
    if rows.dtype == torch.bfloat16:
        return torch._grouped_mm(rows, weights, offs=offs, **named)
    with torch.autocast("cuda", enabled=False):
        return ProductOfEach.apply(rows, weights)
FLASH = False
def to(self, kind):
    if not isinstance(kind, torch.dtype): return self
    for m in self.modules():
        for n, b in m._buffers.items():
            if b is not None and b.is_floating_point(): m._buffers[n] = b.to(kind)
        for n, b in m._parameters.items():
            if b is not None and b.is_floating_point() and b.dtype != kind:
                print("cast", n, b.shape, file=sys.stderr); m._parameters[n] = torch.nn.Parameter(b.data.to(kind))
    return self
def attention_fp32(q, k, v, m, p, c, s, g):
    if g and q.shape[1] != k.shape[1]:
        return torch.ops.aten._scaled_dot_product_attention_math(q, k, v, m, p, c, scale=s, enable_gqa=g)[0]
    return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, m.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2]) if m is not None else None, torch.is_grad_enabled(), p, c, scale=s)[0]

def simulate(point, trace=False):
    import trace_training_iteration as tti
    args = types.SimpleNamespace(models=os.path.join(HERE, "..", "data", "models"), no_dropout=point.get("no_dropout", False), tiny=0,
        autocast=point.get("autocast", False), tf32=point.get("tf32", False), dtype=point.get("dtype"), device="cuda", fake=0, gpus=1, rank=0)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        ledger = Ledger()
        with ledger:
            model, config = tti.build(point["model"], args)
            if config.model_type == "falcon":
                from eager_operators import split_heads
                from transformers.models.falcon.modeling_falcon import FalconAttention
                FalconAttention._split_heads = split_heads
            it = tti.Iteration(model, config, point, args)
            for p in model.parameters(): ledger.track(p, "param")
            for p in model.buffers(): ledger.track(p, "buffer") if p.device.type == "cuda" else None
            it.step()
            gc.collect()
            found = {"rest": ledger.live, "behind": {}, "peak": {}, "at": {}}
            def mark(name):
                found["behind"][name] = ledger.live
                found["peak"][name] = ledger.peak
                found["at"][name] = str(ledger.top)
                ledger.reset()
            it.marks = mark
            if trace: ledger.trace = []
            ledger.reset()
            it.step()
            it.marks = lambda n: None
            found["max_allocated"] = max(found["peak"].values())
    return (found, ledger) if trace else found

def main():
    patch()
    import trace_training_models
    if "--more" in sys.argv:
        trace_training_models.add_models(sys.argv[sys.argv.index("--more") + 1])
    flags = json.loads(sys.argv[4]) if len(sys.argv) > 4 and sys.argv[4].startswith("{") else {}
    print(json.dumps(simulate(trace_training_models.at(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), **flags)), indent=1))


if __name__ == "__main__":
    main()
