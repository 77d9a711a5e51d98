#!/bin/sh
# Refits NCCL's families of data/calibration/<gpu>.json to published training rows (nccl-tests, one node). A protocol's
# scalars are fitted to the rows that NCCL's cost model gives to it, one protocol after the other; the releases from 2.26
# on. Cards with multicast: rows of eight GPUs are priced with it (data/clusters). Held-out files are never read. Error
# bands are found afterwards: tools/fit_bands.sh.
#
# usage: tools/fit_collectives.sh [GPU...]     (default: h200_sxm h100_sxm a100_sxm); build validate first
set -eu
cd -- "$(dirname -- "$0")/.."
validate=${PLUMBLINE_BUILD:-build}/bin/validate

# fit GPU FAMILY FREE; rows of protocols that are fitted later are not modelled yet, which is exit code 3.
fit() {
  # shellcheck disable=SC2086  # one file or two
  "$validate" fit $rows --gpu "$1" --kernels library --family "$2" \
    --free "$3" --where 'stack!~nccl-2.23' --source "aiconfigurator $1 nccl$with" --out "data/calibration/$1.json" || [ $? = 3 ]
}

[ $# -gt 0 ] || set -- h200_sxm h100_sxm a100_sxm
for gpu; do
  rows=data/measurements/aiconfigurator/$gpu/nccl.train.csv with=''
  # the same chip and the same links, and the H200's rows alone are few
  if [ "$gpu" = h200_sxm ]; then
    rows="$rows data/measurements/aiconfigurator/h100_sxm/nccl.train.csv" with=' and h100_sxm nccl'
  fi
  fit "$gpu" nccl_ring_ll "fixed_s=4e-6:5e-7:2e-5,step_s=7e-7:1e-7:5e-6,per_cta_s=3e-7:1e-8:3e-6,overlap=1.2:1:8,\
link_share_fraction=.4:.05:1,exposed=.9:.01:8"
  fit "$gpu" nccl_ring_ll128 "fixed_s=1.2e-5:1e-6:5e-5,step_s=1e-6:1e-7:1e-5,overlap=1.2:1:8,\
link_share_fraction=.68:.1:1,exposed=.4:.01:3"
  [ "$gpu" = a100_sxm ] || fit "$gpu" nccl_nvls "fixed_s=2.5e-5:5e-6:1e-4,overlap=1:1:1,link_share_fraction=.47:.1:1,\
channel_B_per_s=3e9:5e8:1e11"
  fit "$gpu" nccl_ring_simple "fixed_s=1.3e-5:1e-6:5e-5,step_s=3e-6:1e-7:1e-5,overlap=1:1:1,\
link_share_fraction=.8:.2:1,exposed=.35:.01:3,channel_B_per_s=2.6e10:2e9:2e11"
  fit "$gpu" nccl_peer_ll "fixed_s=6e-6:1e-6:2e-5,overlap=1:1:1,link_share_fraction=.5:.5:.5,\
channel_B_per_s=6e9:1e9:5e10"
  fit "$gpu" nccl_peer_simple "fixed_s=1e-5:1e-6:3e-5,overlap=1:1:1,link_share_fraction=.73:.2:1,\
channel_B_per_s=2.6e10:2e9:2e11"
done
