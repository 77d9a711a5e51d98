#!/bin/sh
# Finds the error bands of every card again: after scalars or terms of the model changed. Training rows only
# (data/studies/bands.json); prints how many held-out rows lie in the bands, here and on cards that take scalars over.
# All cards are fitted with what the others' files said before, side by side: 2 minutes on two free cores.
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
