#!/bin/sh
# Finds the error bands of every card again: after scalars or terms of the model changed. Training rows only
# (data/studies/bands.json); prints how many held-out rows lie in the bands, here and on cards that take scalars over.
# All cards are fitted with what the others' files said before, side by side: about 3 minutes on two cores.
#
# usage: tools/fit_bands.sh [GPU...]     (default: h200_sxm h100_sxm a100_sxm); build validate first
set -eu
cd -- "$(dirname -- "$0")/.."
validate=${PLUMBLINE_BUILD:-build}/bin/validate
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

[ $# -gt 0 ] || set -- h200_sxm h100_sxm a100_sxm
for gpu; do
  "$validate" fit-bands data/studies/bands.json --gpu "$gpu" --out "$scratch/$gpu.json" >"$scratch/$gpu.log" 2>&1 &
  echo $! >"$scratch/$gpu.pid"
done
for gpu; do
  wait "$(cat "$scratch/$gpu.pid")" || { cat "$scratch/$gpu.log" >&2; exit 1; }
  echo "$gpu"
  cat "$scratch/$gpu.log"
done
for gpu; do cp "$scratch/$gpu.json" "data/calibration/$gpu.json"; done
# Held-out experts are whole models, and rows of one model err alike: their bands are of all bounds together,
# those of 8 bits from the rows of both formats (the same kernels; fewer models have run). Rows that may have run another
# case's tactics (scope rank0+shared_tactics, tools/moe_tactics.py) are not in a band.
for gpu; do
  [ "$gpu" != a100_sxm ] || continue
  for class in "moe bf16 bf16" "moe_8bit fp8 bf16,fp8"; do
    # shellcheck disable=SC2086  # three words
    set_of() { name=$1 formats=$2 dtypes=$3; } && set_of $class
    SHARE=0.05 FORMATS=$formats tools/class_bands.py "$gpu" "library.$name" "data/measurements/aiconfigurator/$gpu/moe.train.csv" -- \
      --where stack~trtllm --where scope=rank0 --where "dtype=$dtypes" --min-us 10
  done
done
# vLLM's prompts on the H200 were of caches that held zeros, which the list leaves out: the one evidence of their kernel there.
for class in "flash_prefill shape!~kv=fp8" "flash_prefill_8bit shape~kv=fp8"; do
  case " $* " in *" h200_sxm "*) ;; *) continue ;; esac
  SHARE=0.05 FORMATS=bf16 tools/class_bands.py h200_sxm "library.${class% *}" \
    data/measurements/aiconfigurator/h200_sxm/attention_prefill.train.csv -- \
    --where stack~vllm --where dtype=bf16 --where "${class#* }" --min-us 10
done
"$validate" fit-steps data/studies/bands.json --out data/steps/bands.json
"$validate" coverage data/studies/bands.json
"$validate" coverage data/studies/bands.json --by-distance
