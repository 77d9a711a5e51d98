#!/usr/bin/env python3
"""One call of each kernel of PyTorch that an eager step or iteration is made of, for `ncu` to count what they execute.

    ncu --profile-from-start off --nvtx --clock-control none --csv --page raw --log-file LOG --metrics METRICS \\
        python3 tools/count_pytorch.py
    tools/count_pytorch.py --convert LOG > counts.csv

Each case stands in an NVTX range of its name and shape. Operands are random normal. METRICS are those of COLUMNS. The
second form writes one line a launch; it needs no PyTorch.
"""
import csv
import math
import re
import sys

# Our column -> the profiler's metric; amounts of the whole launch.
COLUMNS = {
    "warp_instructions": "smsp__inst_executed.sum",
    "xu_instructions": "smsp__inst_executed_pipe_xu.sum",
    "lsu_instructions": "smsp__inst_executed_pipe_lsu.sum",
    "dram_read_B": "dram__bytes_read.sum",
    "dram_write_B": "dram__bytes_write.sum",
    "l2_sectors": "lts__t_sectors.sum",
    "profiled_ns": "gpu__time_duration.sum",
}
SCALE = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "us": 1e3}


def convert(log):
    with open(log, encoding="utf-8") as text:
        rows = list(csv.reader(line for line in text if not line.startswith("==")))
    names, units = rows[0], rows[1]
    at = {name: i for i, name in enumerate(names)}
    marked = next(i for i, name in enumerate(names) if "Push/Pop_Range" in name)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["case", "shape", "kernel", "grid", "block", "registers", *COLUMNS])
    for row in rows[2:]:
        case, shape = re.search(r"\b(\w+) ((?:rows=\d+;cols=\d+)|(?:n=\d+))", row[marked]).groups()
        size = lambda column: math.prod(int(x) for x in re.findall(r"\d+", row[at[column]]))
        amounts = []
        for metric in COLUMNS.values():
            value = float(row[at[metric]].replace(",", "")) * SCALE.get(units[at[metric]], 1)
            amounts.append(f"{value:.10g}")
        kernel = re.sub(r"\(anonymous namespace\)::|<unnamed>::|void |at::", "", row[at["Kernel Name"]])[:80]
        out.writerow([case, shape, kernel, size("Grid Size"), size("Block Size"),
                      row[at["launch__registers_per_thread"]], *amounts])


if sys.argv[1:2] == ["--convert"]:
    convert(sys.argv[2])
    sys.exit()

import torch
from torch.nn import functional

DEVICE = "cpu" if "--cpu" in sys.argv else "cuda"
aten = torch.ops.aten


def make(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device=DEVICE).to(dtype)


def element_wise(rows, cols):
    a, b, up = make(rows, cols), make(rows, cols), make(rows, cols)
    wide, column, row = make(rows, cols, dtype=torch.float32), make(rows, 1, dtype=torch.float32), make(cols)
    yield "add", lambda: a + b
    yield "add_", lambda: a.add_(b)
    yield "mul", lambda: a * b
    yield "mul_scalar", lambda: a * 0.5
    yield "neg", lambda: -a
    yield "silu", lambda: functional.silu(a)
    yield "silu_backward", lambda: aten.silu_backward(up, a)
    yield "gelu_erf", lambda: functional.gelu(a)
    yield "gelu_tanh", lambda: functional.gelu(a, approximate="tanh")
    yield "gelu_erf_backward", lambda: aten.gelu_backward(up, a)
    yield "gelu_tanh_backward", lambda: aten.gelu_backward(up, a, approximate="tanh")
    yield "tanh", lambda: torch.tanh(a)
    yield "pow3", lambda: torch.pow(a, 3.0)
    yield "relu", lambda: torch.relu(a)
    yield "clone", lambda: a.clone()
    yield "fill", lambda: a.zero_()
    yield "to_fp32", lambda: a.float()
    yield "to_bf16", lambda: wide.bfloat16()
    yield "square_fp32", lambda: wide.pow(2)
    yield "mul_fp32", lambda: wide * wide
    yield "add_fp32", lambda: wide + wide
    yield "times_column_fp32", lambda: wide * column
    yield "times_row", lambda: row * a
    yield "bias", lambda: a + row
    yield "strided_copy", lambda: a.t().contiguous()
    yield "cat_last", lambda: torch.cat((a, b), -1)
    yield "halves", lambda: torch.cat((-a[..., cols // 2:], a[..., :cols // 2]), -1)
    yield "mean_fp32", lambda: wide.mean(-1, keepdim=True)
    yield "sum_columns_fp32", lambda: wide.sum(0)
    yield "sum_columns", lambda: a.sum(0)
    yield "sum_rows_fp32", lambda: wide.sum(-1)
    yield "dropout", lambda: aten.native_dropout(a, 0.1, True)
    yield "softmax_fp32", lambda: torch.softmax(wide, -1)
    yield "softmax", lambda: torch.softmax(a, -1)
    soft = torch.softmax(wide, -1)
    yield "softmax_backward_fp32", lambda: aten._softmax_backward_data(soft, wide, -1, torch.float32)
    log = torch.log_softmax(wide, -1)
    yield "log_softmax_fp32", lambda: torch.log_softmax(wide, -1)
    yield "log_softmax_backward_fp32", lambda: aten._log_softmax_backward_data(wide, log, -1, torch.float32)
    weight, bias = make(cols), make(cols)
    yield "layer_norm", lambda: aten.native_layer_norm(a, (cols,), weight, bias, 1e-5)
    out, mean, rstd = aten.native_layer_norm(a, (cols,), weight, bias, 1e-5)
    yield "layer_norm_backward", lambda: aten.native_layer_norm_backward(up, a, (cols,), mean, rstd, weight, bias,
                                                                       [True, True, True])
    index = torch.randint(0, rows, (rows,), device=DEVICE)
    yield "embedding", lambda: functional.embedding(index, a)
    yield "embedding_backward", lambda: aten.embedding_dense_backward(up, index, rows, -1, False)


def optimizers(count):
    for fused in (False, True):
        weights = [torch.nn.Parameter(make(count // 4)) for _ in range(4)]
        for w in weights:
            w.grad = torch.randn_like(w)
        optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=fused or None, foreach=not fused)
        optimizer.step()
        yield "adamw_fused" if fused else "adamw_foreach", optimizer.step
    weights[0].grad = torch.randn_like(weights[0])
    yield "clip_grad_norm", lambda: torch.nn.utils.clip_grad_norm_(weights, 1.0)


def run(name, call):
    if DEVICE == "cpu":
        print(name, type(call()).__name__)
        return
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    torch.cuda.nvtx.range_push(name)
    call()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    torch.cuda.profiler.stop()


def main():
    torch.manual_seed(1)
    sizes = ((64, 64),) if DEVICE == "cpu" else ((4096, 4096), (4096, 1024), (1000, 14336))
    for rows, cols in sizes:
        for name, call in element_wise(rows, cols):
            run(f"{name} rows={rows};cols={cols}", call)
    count = 1 << (12 if DEVICE == "cpu" else 26)
    for name, call in optimizers(count):
        run(f"{name} n={count}", call)


if __name__ == "__main__":
    main()
