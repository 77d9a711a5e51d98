"""What all measurement converters share: the ops CSV, the split into train and held-out, number formats."""
import csv
import os
import zlib
from collections import defaultdict

COLUMNS = ["op", "dtype", "shape", "measured_us", "measured_W", "stack", "kernel", "clock", "scope", "id"]

# ---------------------------------------------------------------------------------------------- the split
# A row's side depends on its op and geometry alone: never on the GPU, stack, dtype, KV type or measured scope. So one
# shape is on the same side on every GPU and in every source.
NOT_GEOMETRY = {"append", "kv"}
# Keys that name the model a shape comes from (weight size, head layout, expert layout). One such group in ten is held
# out whole, with all its batch sizes and lengths: those rows test unseen models, the others unseen sizes.
GROUP_KEYS = {
    "gemm": ("N", "K", "batch"),
    "grouped_gemm": ("E", "N", "K"),
    "attention_prefill": ("Hq", "Hkv", "D", "Dv", "window"),
    "attention_fwd_bwd": ("Hq", "Hkv", "D"),
    "attention_decode": ("Hq", "Hkv", "D", "window"),
    "mla_decode": ("H",),
    "moe": ("H", "I", "E", "topk"),
}
ROWWISE = {"add", "scale", "gelu", "relu", "layernorm", "rmsnorm", "softmax", "swiglu", "rope", "embedding", "quantize"}
COLLECTIVES = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}


def crc(text):
    return zlib.crc32(text.encode("ascii"))


def is_held_out(op, shape):
    """`shape` is the dict of keys of one row."""
    geometry = {k: v for k, v in shape.items() if k not in NOT_GEOMETRY}
    canonical = op + "|" + ";".join(f"{k}={geometry[k]}" for k in sorted(geometry))
    if crc(canonical) % 5 == 0:
        return True
    if op in COLLECTIVES:
        return geometry["gpus"] == 4  # the count of GPUs between the trained 2 and 8 is a regime of its own
    keys = GROUP_KEYS.get(op, ("cols",) if op in ROWWISE else ())
    group = op + "|group|" + ";".join(f"{k}={geometry[k]}" for k in keys if k in geometry)
    return bool(keys) and crc(group) % 10 == 0


# ---------------------------------------------------------------------------------------------- reading and writing
class Output:
    """Rows by (source, gpu, family), written at the end."""

    def __init__(self):
        self.rows = defaultdict(list)

    def add(self, where, op, dtype, shape, us, row_id, watts="", stack="", kernel="", clock="burst", scope=""):
        """`where` = (source, gpu, family)."""
        text = ";".join(f"{k}={v}" for k, v in shape.items())
        side = "heldout" if is_held_out(op, shape) else "train"
        self.rows[(*where, side)].append([op, dtype, text, us, watts, stack, kernel, clock, scope, row_id])

    def write(self, root):
        for (source, gpu, family, side), rows in sorted(self.rows.items()):
            folder = os.path.join(root, source, gpu)
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, f"{family}.{side}.csv")
            with open(path + ".partial", "w", newline="", encoding="ascii") as f:
                writer = csv.writer(f, lineterminator="\n")
                writer.writerow(COLUMNS)
                writer.writerows(rows)
            os.replace(path + ".partial", path)


def read(root, source, name):
    """(row dict, id) of every row; the id drops the GPU that ends a file's name, as the output folder says it."""
    path = os.path.join(root, source, name + ".csv")
    table = name
    for gpu in ("_a100_sxm", "_h100_sxm", "_h200_sxm"):
        table = table.removesuffix(gpu)
    with open(path, newline="", encoding="utf-8") as f:
        for line, row in enumerate(csv.DictReader(f), start=2):
            yield row, f"{table}:{line}"


def whole(text):
    """Integer of a published size ("64", "64.0")."""
    value = float(text)
    if value != int(value):
        raise ValueError(f"size {text!r}: expected a whole number")
    return int(value)


def digits(value):
    return f"{value:.5g}" if value < 1e5 else f"{value:.0f}"


def optional(shape, **keys):
    """`shape` with the keys that are not 0 or empty."""
    shape.update({k: v for k, v in keys.items() if v})
    return shape
