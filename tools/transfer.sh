#!/bin/sh
# What a card without measurements can expect: each of A100, H100 and H200 in turn is predicted from other cards' scalars
# (fractions of datasheet peaks), with nothing that was measured on it but what its memory gives to a stream of reads; Hopper's from
# each other, and its products and attention from the A100 alone (prompts, decode, 8-bit caches, groups above 16). Prints a table;
# with a file name, writes every row:
# gpu,op,dtype,shape,clock,measured_us,predicted_us. Build validate first.
#
# usage: tools/transfer.sh [OUT.csv]
set -eu
cd -- "$(dirname -- "$0")/.."
validate=${PLUMBLINE_BUILD:-build}/bin/validate
out=${1:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rows=data/measurements/aiconfigurator

# The H100 without what its file took over from the H200: machine scalars of the A100 where they are no H100's, no energies
# (none were measured elsewhere), the GEMM families fitted on H100 rows alone.
python3 - "$scratch/h100_alone.json" <<'PYTHON'
import json
import sys

h100, a100 = (json.load(open(f"data/calibration/{g}.json")) for g in ("h100_sxm", "a100_sxm"))
own = ("dram_read_fraction", "dram_write_fraction", "tensor_steady_fraction")
h100["machine"] = {k: h100["machine"][k] if k in own else v for k, v in a100["machine"].items()}
h100.pop("power", None)
library = h100["families"]["library"]
for name in ("gemm", "gemm_mma"):
    for scalar in ("clock_droop_fraction", "tensor_burst_fraction", "tensor_steady_fraction"):
        library.get(name, {}).pop(scalar, None)
library["gemm"]["efficiency_fraction"]["value"] = 1.0
json.dump(h100, open(sys.argv[1], "w"), indent=2)
PYTHON
"$validate" fit $rows/h100_sxm/gemm.train.csv --gpu h100_sxm --kernels library --family gemm \
  --calibration "$scratch/h100_alone.json" --where stack~trtllm --where dtype=bf16 --min-us 4 --unbalanced \
  --free "fixed_s=1e-6:2e-7:4e-6,dram_share_fraction=.9:.7:1,exposed=2:.1:12,step_s=9e-8:1e-8:3e-7,\
sm_in_flight_B=30000:8000:200000,reduce.fixed_s=6e-7:1e-7:6e-6,machine.tensor_burst_fraction=.8:.5:.99,\
machine.regulator_lag_s=.03:.005:.5" --source "H100 rows alone" --out "$scratch/h100_alone.json" >"$scratch/log"

# The A100 without what was fitted on its rows: the prefill of mma.sync, which Hopper's files take over from it.
python3 - "$scratch/h200_alone.json" <<'PYTHON'
import json
import sys

h200 = json.load(open("data/calibration/h200_sxm.json"))
h200["families"]["library"].pop("attention_prefill_mma", None)
json.dump(h200, open(sys.argv[1], "w"), indent=2)
PYTHON

# The A100 for Hopper: its kernels for wgmma were taken over from the H100, so its own prompts' by mma.sync stand in (what a block
# takes is counted then). How fast a stream reads is the memory's, which the A100's descriptor has of its own, too.
# The A100's rows tell a CTA's start and the pass over new tokens as one sum. Kernels for wgmma stay on their SM, so that all of
# it is the pass here: found again on its training rows, and in seconds, being a chain of answers from memory. Its decode rows lie
# in L2 and say nothing of memory: what a walk over tiles leaves of a stream its products say.
python3 - "$scratch/a100_pass.json" <<'PYTHON'
import json
import sys

a100 = json.load(open("data/calibration/a100_sxm.json"))
library = a100["families"]["library"]
library["attention_prefill_mma"]["start_clk"]["value"] = 0.0
library["attention_decode"]["dram_share_fraction"] = library["gemm"]["dram_share_fraction"]
json.dump(a100, open(sys.argv[1], "w"), indent=2)
PYTHON
"$validate" fit $rows/a100_sxm/attention_prefill.train.csv --gpu a100_sxm --kernels library --family attention_prefill_mma \
  --calibration "$scratch/a100_pass.json" --where stack~trtllm --where dtype=bf16 --where 'shape!~kv=fp8' --min-us 10 \
  --free "fixed_s=1e-5:2e-6:2e-5,exposed=.8:.05:3,attention_prepare.start_clk=3000:100:20000" \
  --source "A100 rows, all of the start in the pass" --out "$scratch/a100_pass.json" >"$scratch/log"
python3 - "$scratch" <<'PYTHON'
import json
import sys

CLOCKS = 1980 / 1410  # of Hopper and of the A100, data/gpus
for gpu in ("h100_sxm", "h200_sxm"):
    a100, own = (json.load(open(name)) for name in (f"{sys.argv[1]}/a100_pass.json", f"data/calibration/{gpu}.json"))
    for scalar in ("dram_read_fraction", "dram_write_fraction"):
        a100["machine"][scalar] = own["machine"][scalar]
    library = a100["families"]["library"]
    library["attention_prefill"] = library["attention_prefill_mma"]
    library["attention_prepare"]["start_clk"]["value"] *= CLOCKS
    json.dump(a100, open(f"{sys.argv[1]}/a100_for_{gpu}.json", "w"), indent=2)
PYTHON

# predict GPU FILE CALIBRATION [FILTERS...]: GPU's rows, appended to $scratch/$group.csv
predict() {
  gpu=$1 file=$2 calibration=$3
  shift 3
  for part in train heldout; do
    "$validate" compare "$rows/$gpu/$file.$part.csv" --gpu "$gpu" --kernels library --calibration "$calibration" \
      --where stack~trtllm --where dtype=bf16 --min-us 10 --rows "$scratch/rows.csv" "$@" >"$scratch/log"
    cat "$scratch/rows.csv" >>"$scratch/$group.csv"
  done
}

group=all
for gpu in a100_sxm h100_sxm h200_sxm; do
  from=$scratch/h200_alone.json
  [ "$gpu" != h200_sxm ] || from=$scratch/h100_alone.json
  predict $gpu gemm "$from"
  predict "$gpu" attention_prefill "$from" --where 'shape!~kv=fp8'
  predict "$gpu" attention_decode "$from" --where 'shape!~kv=fp8' --where 'Hq/Hkv<=16' --where 'S>=127'
done

for gpu in h100_sxm h200_sxm; do
  from=$scratch/a100_for_$gpu.json
  group=products predict "$gpu" gemm "$from"
  group=prompts predict "$gpu" attention_prefill "$from" --where 'shape!~kv=fp8'
  group=prompts8 predict "$gpu" attention_prefill "$from" --where 'shape~kv=fp8'
  group=decode predict "$gpu" attention_decode "$from" --where 'shape!~kv=fp8' --where 'Hq/Hkv<=16' --where 'S>=127'
  group=decode8 predict "$gpu" attention_decode "$from" --where 'shape~kv=fp8' --where 'Hq/Hkv<=16' --where 'S>=127'
  group=wide predict "$gpu" attention_decode "$from" --where 'shape!~kv=fp8' --where 'Hq/Hkv>=16.01' --where 'S>=127'
done

python3 - "$scratch" "$out" <<'PYTHON'
import csv
import math
import statistics
import sys

columns = "gpu,op,dtype,shape,clock,measured_us,predicted_us".split(",")


def read(group):
    """Rows of a file that holds several tables, one behind the other."""
    header, rows = None, []
    for line in csv.reader(open(f"{sys.argv[1]}/{group}.csv")):
        if header is None or line == header:
            header = line
            continue
        row = dict(zip(header, line))
        if row["predicted_us"] and not row["error"]:
            rows.append(row)
    return rows


def table(name, rows):
    errors = [math.log(float(r["predicted_us"]) / float(r["measured_us"])) for r in rows]
    if not errors:
        return
    size = sorted(map(abs, errors))
    print(f"| {name} | {len(errors)} | {100 * statistics.median(size):.1f} | "
          f"{100 * size[int(0.9 * (len(size) - 1))]:.1f} | {100 * statistics.median(errors):+.1f} |")


from_all = read("all")
groups = {"products": "gemm", "prompts": "attention_prefill", "prompts8": "attention_prefill, 8-bit caches",
          "decode": "attention_decode", "decode8": "attention_decode, 8-bit caches", "wide": "attention_decode, groups above 16"}
from_a100 = {group: read(group) for group in groups}
if sys.argv[2]:
    with open(sys.argv[2], "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for rows in (from_all, *from_a100.values()):
            writer.writerows([row[c] for c in columns] for row in rows)
print("| left out | operator | rows | median % | p90 % | bias % |")
print("|---|---|--:|--:|--:|--:|")
for gpu in ("a100_sxm", "h100_sxm", "h200_sxm"):
    for op in sorted({r["op"] for r in from_all}):
        table(f"{gpu} | {op}", [r for r in from_all if r["gpu"] == gpu and r["op"] == op])
for gpu in ("h100_sxm", "h200_sxm"):
    for group, name in groups.items():
        table(f"{gpu}, from the A100 | {name}", [r for r in from_a100[group] if r["gpu"] == gpu])
PYTHON
