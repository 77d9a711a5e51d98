#!/bin/sh
# Finds the error bands of every card again: after scalars or terms of the model changed. Training rows only
# (data/studies/bands.json); prints how many held-out rows lie in the bands.
#
# usage: tools/fit_bands.sh [GPU...]     (default: h200_sxm h100_sxm a100_sxm); build validate first
set -eu
cd -- "$(dirname -- "$0")/.."
validate=${PLUMBLINE_BUILD:-build}/bin/validate

[ $# -gt 0 ] || set -- h200_sxm h100_sxm a100_sxm
for gpu; do
  echo "$gpu"
  "$validate" fit-bands data/studies/bands.json --gpu "$gpu" --out "data/calibration/$gpu.json"
done
"$validate" fit-steps data/studies/bands.json --out data/steps/bands.json
"$validate" coverage data/studies/bands.json
