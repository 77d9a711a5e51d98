#!/bin/sh
# Refits the library families of data/calibration/<gpu>.json to published training rows; the machine scalars that were
# measured or published stay as they are. Held-out files are never read (validate --fit refuses them). Error bands are
# found afterwards: tools/fit_bands.sh.
#
# usage: tools/fit_calibration.sh [GPU...]     (default: h200_sxm h100_sxm a100_sxm); build validate first
set -eu
cd -- "$(dirname -- "$0")/.."
validate=${PLUMBLINE_BUILD:-build}/bin/validate

# fit GPU FAMILY ROWS FREE [FILTERS...]: bf16 rows (random data, CUDA graphs) of $stacks. Attention on Hopper is fitted on
# two stacks, which count equally: their kernels differ by a third, and "library" is neither one's; prefill only on rows
# whose scope is a serving stack's, cache append included. GEMM is cuBLAS in both, but only TensorRT-LLM fills its weights
# with random numbers.
fit() {
  gpu=$1 family=$2 file=$3 rows=data/measurements/aiconfigurator/$1/$3.train.csv free=$4
  shift 4
  "$validate" --fit "$rows" --gpu "$gpu" --kernels library --family "$family" --free "$free" \
    --where "stack~$stacks" --where dtype=bf16 --where 'shape!~kv=fp8' "$@" \
    --source "aiconfigurator $gpu $file" --out "data/calibration/$gpu.json"
}

[ $# -gt 0 ] || set -- h200_sxm h100_sxm a100_sxm
for gpu; do
  stacks=trtllm
  fit "$gpu" gemm gemm "fixed_s=1.2e-6:2e-7:4e-6,overlap=6:3:16,exposed=.7:.1:8,per_cta_s=4e-7:1e-8:3e-6,\
dram_share_fraction=.9:.7:1,machine.tensor_burst_fraction=.8:.5:.99,machine.regulator_lag_s=.03:.005:.5,\
reduce.fixed_s=1.5e-6:3e-7:6e-6" --min-us 5
  [ "$gpu" = a100_sxm ] || stacks=-  # every stack has a dash before its version
  fit "$gpu" attention_prefill attention_prefill "fixed_s=5e-6:5e-7:1.5e-5,overlap=4:2:16,\
efficiency_fraction=.75:.3:1,exposed=.2:.01:4,per_cta_s=3e-6:1e-7:9e-6,step_s=5e-7:2e-8:4e-6" --min-us 10 --where 'shape~append=1'
  # at most 16 query heads a KV head, at least 127 cached tokens: beyond, the stack falls to another, slow kernel
  decode="fixed_s=8e-6:5e-7:1.5e-5,overlap=4:2:16,step_s=8e-7:2e-8:4e-6,per_cta_s=2e-6:1e-8:9e-6,\
in_flight_B=38000:4000:400000,translation_s=2e-5:1e-6:6e-5"
  fit "$gpu" attention_decode attention_decode "$decode,combine.fixed_s=1e-6:1e-7:6e-6" --min-us 10 --unbalanced \
    --where 'Hq/Hkv>=1.01' --where 'Hq/Hkv<=16' --where 'S>=127'
  fit "$gpu" attention_decode_single attention_decode "$decode" --min-us 10 --unbalanced \
    --where 'Hq/Hkv<=1' --where 'S>=127'
  # row-wise kernels: our own, measured on the H200; other cards take its scalars over (data/calibration, by hand)
  [ "$gpu" != h200_sxm ] || for set in own library; do
    "$validate" --fit data/measurements/own/h200_sxm/rowwise.train.csv --gpu "$gpu" --kernels $set --family rowwise \
      --free "fixed_s=9e-7:1e-7:4e-6,overlap=6:2:16" --source "own row-wise kernels" \
      --out "data/calibration/$gpu.json"
  done
  stacks=trtllm
  # the A100 rows are of a fallback kernel that does not split the keys: they say nothing of the card
  [ "$gpu" = a100_sxm ] || fit "$gpu" mla_decode mla_decode "fixed_s=8e-6:5e-7:2e-5,overlap=4:2:16,\
efficiency_fraction=.8:.2:1,step_s=1e-6:2e-8:6e-6,per_cta_s=2.5e-6:1e-8:9e-6,in_flight_B=70000:4000:400000" --min-us 10
done

# What a card has no rows of its own for.
take() { python3 tools/take_over_family.py "$@"; }
for gpu; do
  case $gpu in
    h100_sxm) take h200_sxm h100_sxm library.rowwise "the project's row-wise kernels on the same chip (GH100)" ;;
    a100_sxm)
      take h200_sxm a100_sxm library.rowwise "fixed time and overlap of the project's row-wise kernels there"
      take h100_sxm a100_sxm library.mla_decode "the measured A100 rows are of a kernel that does not split the keys" ;;
  esac
done
