#!/bin/sh
# The accuracy tables of the README: held-out rows only, each card with its own calibration. Build validate first.
set -eu
cd -- "$(dirname -- "$0")/.."
validate=${PLUMBLINE_BUILD:-build}/bin/validate
rows=data/measurements

# show GPU OP FILE KERNELS [FILTERS...]: one line, the "all" row of the op or its only size class.
show() {
  gpu=$1 op=$2 file=$3 kernels=$4
  shift 4
  "$validate" --against "$rows/$file.heldout.csv" --gpu "$gpu" --kernels "$kernels" --format csv "$@" |
    python3 -c '
import csv, sys
lines = [r for r in csv.DictReader(sys.stdin) if r["op"] == sys.argv[1]]
best = max(lines, key=lambda r: int(r["count"]))
print("| {} | {} | {} | {} | {:.1f} | {:.1f} | {:+.1f} | {:.0f} | {:.0f} |".format(
    sys.argv[2], sys.argv[1], sys.argv[3], best["count"], 100 * float(best["median_abs_ln"]), 100 * float(best["p90_abs_ln"]),
    100 * float(best["bias_median_ln"]), 100 * float(best["within_band"]), 100 * float(best["roofline_median_abs_ln"])))' "$op" "$gpu" "$kernels, $label"
}

echo "| GPU | operator | kernels, measured by | rows | median % | p90 % | bias % | in band % | roofline % |"
echo "|---|---|---|--:|--:|--:|--:|--:|--:|"
label="TensorRT-LLM"
for gpu in h100_sxm h200_sxm a100_sxm; do
  set -- --where stack~trtllm --where dtype=bf16 --min-us 10
  show "$gpu" gemm "aiconfigurator/$gpu/gemm" library "$@"
  set -- "$@" --where 'shape!~kv=fp8'
  show "$gpu" attention_prefill "aiconfigurator/$gpu/attention_prefill" library "$@"
  show "$gpu" attention_decode "aiconfigurator/$gpu/attention_decode" library "$@" --where 'Hq/Hkv<=16' --where 'S>=127'
  [ "$gpu" = a100_sxm ] || show "$gpu" mla_decode "aiconfigurator/$gpu/mla_decode" library "$@"
done
label="vLLM"
for gpu in h100_sxm h200_sxm; do
  set -- --where stack~vllm --where dtype=bf16 --min-us 10 --where 'shape!~kv=fp8'
  show "$gpu" attention_prefill "aiconfigurator/$gpu/attention_prefill" library "$@"
  show "$gpu" attention_decode "aiconfigurator/$gpu/attention_decode" library "$@" --where 'Hq/Hkv<=16' --where 'S>=127'
done
label="vLLM, sustained"
show h200_sxm gemm aiconfigurator/h200_sxm/gemm library --where clock=steady --where dtype=bf16 --min-us 10
label="us, cuBLAS 13"
show h200_sxm gemm own/h200_sxm/library library --min-us 10
# cards without a calibration of their own: nothing was fitted on them
label="InferSim"
show h800 attention_decode infersim/h800/attention_decode library --min-us 10
show h800 mla_decode infersim/h800/mla_decode library --min-us 10
show h800 grouped_gemm infersim/h800/grouped_gemm library --min-us 10
label="DeepBench"
show v100_sxm gemm deepbench/v100/gemm library --min-us 10

# our own kernels and the library's beside them, on the card (data/measurements/h200)
echo
echo "| operator | kernels | cases | median % | p90 % | bias % | MAPE % | roofline MAPE % | in band % |"
echo "|---|---|--:|--:|--:|--:|--:|--:|--:|"
for kernels in own library; do
  "$validate" --replay "$rows/h200/full.json" --kernels "$kernels" --where study=heldout --format json 2>/dev/null |
    python3 -c '
import json, sys
best = {}
for c in json.load(sys.stdin)["classes"]:
    if c["op"] not in best or c["count"] > best[c["op"]]["count"]: best[c["op"]] = c
for op, c in sorted(best.items()):
    print("| {} | {} | {} | {:.1f} | {:.1f} | {:+.1f} | {:.1f} | {:.1f} | {:.0f} |".format(
        op, sys.argv[1], c["count"], 100 * c["median_abs_ln"], 100 * c["p90_abs_ln"], 100 * c["bias_median_ln"],
        100 * c["mape"], 100 * c["roofline_mape"], 100 * c["within_band"]))' "$kernels"
done
