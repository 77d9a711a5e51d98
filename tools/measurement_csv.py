"""What all measurement converters share: the ops CSV, the split into train and held-out, number formats."""
import csv
import io
import os
import subprocess
import zlib
from collections import defaultdict

COLUMNS = ["op", "dtype", "shape", "measured_us", "measured_W", "stack", "kernel", "clock", "scope", "id"]
# Whole models, as `validate compare` reads them: flags of `predict-model llm` by their long names.
RUN_COLUMNS = ["model", "phase", "batch", "prompt", "context", "output", "dtype", "kv-dtype", "stack", "measured_ms",
               "version", "scope", "id"]
SIDE_COLUMNS = RUN_COLUMNS[:6] + ["gpus"]  # what the side of a run depends on

# ---------------------------------------------------------------------------------------------- the split


def sides(rows, columns=("op", "shape")):
    """True for each of `rows` that is held out: (op, shape text), or what else `columns` says. The rule (data/measurements/README.md) stands in
    validate/record/held_out.cpp alone; this asks the program, so `validate` must be built."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    program = os.path.join(root, os.environ.get("PLUMBLINE_BUILD", "build"), "bin", "validate")
    answer = subprocess.run([program, "sides", "-"], input=table.getvalue(), stdout=subprocess.PIPE, text=True, check=True)
    return [row["side"] == "heldout" for row in csv.DictReader(io.StringIO(answer.stdout))]


def shape_text(shape):
    return ";".join(f"{k}={v}" for k, v in shape.items())


# ---------------------------------------------------------------------------------------------- reading and writing
class Output:
    """Rows by (source, gpu, family), written at the end."""

    def __init__(self):
        self.rows, self.runs, self.held = [], [], set()

    def add_run(self, where, run):
        """A whole model, by RUN_COLUMNS, and `gpus` where there are several; `where` = (source, gpu, family)."""
        self.runs.append((where, {column: str(run.get(column, "")) for column in RUN_COLUMNS + ["gpus"]}))

    def add(self, where, op, dtype, shape, us, row_id, watts="", stack="", kernel="", clock="burst", scope="", data=""):
        """`where` = (source, gpu, family). `data`: what the operands hold, where it is no random numbers."""
        self.rows.append((where, [op, dtype, shape_text(shape), us, watts, stack, kernel, clock, scope, row_id, data]))

    def hold_out(self, where):
        """All rows of the family are held out, whatever the rule says of their shapes: they say so (`held_out`)."""
        self.held.add(where)

    def write(self, root):
        """Writes all files; returns the rows of each, by (source, gpu, family, side)."""
        files, headers = defaultdict(list), {}
        for (where, row), held_out in zip(self.rows, sides([(row[0], row[2]) for _, row in self.rows])):
            files[(*where, "heldout" if held_out or where in self.held else "train")].append(row)
        told = {where for where, row in self.rows if row[-1]}  # whose files say what operands hold
        for where, row in self.rows:
            headers[where] = COLUMNS + (["data"] if where in told else [])
            if where in self.held:
                row[len(headers[where]):] = ["yes"]
                headers[where] = headers[where] + ["held_out"]
        several = {where for where, run in self.runs if run["gpus"]}
        runs = sides([[run[column] for column in SIDE_COLUMNS] for _, run in self.runs], SIDE_COLUMNS)
        for (where, run), held_out in zip(self.runs, runs):
            columns = RUN_COLUMNS + (["gpus"] if where in several else [])
            headers[where] = columns
            if where in several:
                run["gpus"] = run["gpus"] or "1"
            files[(*where, "heldout" if held_out else "train")].append([run[column] for column in columns])
        for (source, gpu, family, side), rows in sorted(files.items()):
            folder = os.path.join(root, source, gpu)
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, f"{family}.{side}.csv")
            with open(path + ".partial", "w", newline="", encoding="ascii") as f:
                writer = csv.writer(f, lineterminator="\n")
                columns = headers[(source, gpu, family)]
                writer.writerow(columns)
                writer.writerows(row[:len(columns)] for row in rows)
            os.replace(path + ".partial", path)
        return files


def read(root, source, name):
    """(row dict, id) of every row; the id drops the GPU that ends a file's name, as the output folder says it."""
    path = os.path.join(root, source, name + ".csv")
    table = name
    for gpu in ("_a100_sxm", "_h100_sxm", "_h200_sxm"):
        table = table.removesuffix(gpu)
    with open(path, newline="", encoding="utf-8") as f:
        for line, row in enumerate(csv.DictReader(f), start=2):
            yield row, f"{table}:{line}"


def crc(text):
    return zlib.crc32(text.encode("ascii"))


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
