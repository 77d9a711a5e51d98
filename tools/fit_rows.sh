#!/bin/sh
# Fits the row-wise kernels of serving stacks (model/stacks/serving_rows) in data/calibration/h200_sxm.json to the training rows of
# data/measurements/h200_rows (tools/convert_rows.py), then hands them to the H100 and the A100. Held-out files are never read. Error
# bands are found afterwards: tools/fit_bands.sh.
#
# usage: tools/fit_rows.sh; build validate first
set -eu
cd -- "$(dirname -- "$0")/.."
validate=${PLUMBLINE_BUILD:-build}/bin/validate
usual="fixed_s=6e-7:1e-7:2e-6,start_clk=300:50:3000,overlap=4:2:12"

# fit FAMILY LIBRARY OPS [FREE]
fit() {
  "$validate" fit "data/measurements/h200_rows/h200_sxm/$2.train.csv" --gpu h200_sxm --kernels library --family "$1" --ops "$3" \
    --free "${4:-$usual}" --unbalanced --source "$2's kernels on an H200, $1" --out data/calibration/h200_sxm.json
  for card in h100_sxm a100_sxm; do
    tools/take_over_family.py h200_sxm $card "library.$1" "nobody measured these kernels there" cycles
  done
}

fit flashinfer_norm flashinfer rmsnorm
fit flashinfer_gated flashinfer swiglu
fit flashinfer_rope flashinfer rope
fit vllm_norm vllm rmsnorm
fit vllm_gated vllm swiglu
fit vllm_rope vllm rope
fit pytorch_gather pytorch embedding
fit pytorch_argmax pytorch argmax "$usual,counter_s=3e-6:5e-7:8e-6"
