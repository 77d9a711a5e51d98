#!/bin/sh
# Refits the families of data/calibration/<gpu>.json that collectives are priced with. Held-out files are never read. Error
# bands are found afterwards: tools/fit_bands.sh.
#   NCCL's      to published training rows (nccl-tests, one node): a protocol's scalars to the rows that NCCL's cost model
#               gives to it, one protocol after the other; the releases from 2.26 on. Cards with multicast: rows of
#               eight GPUs are priced with it (data/clusters). Exchanges of H100 and H200, one chip, also to own recordings
#               of two H200 (data/measurements/h200_links): a captured call goes another way than a queued one
#   stacks'     all-reduce kernels of TensorRT-LLM (1.3) and vLLM, to published rows
#   DeepEP's    to published rows of the H100
#   host, p2p   copies between host and GPU, and between GPUs by copy engines, to own recordings
#   ours        to own recordings of two H200; what links carry and what one more peer adds are not fitted
#
# usage: tools/fit_collectives.sh [GPU...]     (default: h200_sxm h100_sxm a100_sxm); build validate first
set -eu
cd -- "$(dirname -- "$0")/.."
validate=${PLUMBLINE_BUILD:-build}/bin/validate

# fit GPU FAMILY FREE FLAGS...; rows of protocols that are fitted later are not modelled yet, which is exit code 3.
fit() {
  card=$1 family=$2 free=$3
  shift 3
  # shellcheck disable=SC2086  # one file or more
  "$validate" fit $rows --gpu "$card" --family "$family" --free "$free" --source "$with" \
    --out "data/calibration/$card.json" "$@" || [ $? = 3 ]
}

nccl() {
  gpu=$1 family=$2 free=$3
  fit "$gpu" "$family" "$free" --kernels library --where 'stack!~nccl-2.23' --where 'scope!~ragged'
}

# ragged FAMILY OP START FLAGS...: what a channel moves element by element, of parts that are no whole 16 bytes. The H100,
# the same chip, takes it over by hand.
ragged() {
  family=$1 op=$2 start=$3
  shift 3
  fit h200_sxm "$family" "element_B_per_s=$start:2e9:2e11" --kernels library --ops "$op" --where scope=ragged "$@"
}

# ours FAMILY FREE KERNEL FLAGS...
ours() {
  family=$1 free=$2 kernel=$3
  shift 3
  fit h200_sxm "$family" "$free" --kernels own --where "kernel=$kernel" --where scope=aligned "$@"
}

# by_elements FAMILY KERNEL FLAGS...: what a turn takes of parts that are no whole 16 bytes
by_elements() {
  family=$1 kernel=$2
  shift 2
  fit h200_sxm "$family" 'counter_s=1e-6:1e-7:1e-5' --kernels own --where "kernel=$kernel" --where scope=ragged "$@"
}

# DeepEP's kernels, to rows of the H100; the H200 has the same chip and the same links. Those between nodes take the NVLinks'
# share as it was found inside one.
experts() {
  rows=data/measurements/aiconfigurator/h100_sxm/experts.train.csv with="aiconfigurator h100_sxm wideep_deepep"
  message='step_s=1e-6:1e-8:2e-5,channel_B_per_s=5e9:5e8:1e11'
  inside="$message,fixed_s=9e-6:1e-6:1e-4,link_share_fraction=.7:.2:1,overlap=3:1:8,counter_s=1e-7:1e-10:1e-5"
  for op in dispatch combine; do
    move "$1" "deepep_low_$op" "moe_$op" deepep_ll 'gpus<=8' "$inside"
    move "$1" "deepep_$op" "moe_$op" deepep_normal 'gpus<=8' "$inside,exposed=1:.01:10"
    move "$1" "deepep_low_${op}_network" "moe_$op" deepep_ll 'gpus>=9' \
      'fixed_s=1.5e-5:1e-6:1e-4,counter_s=1e-6:1e-8:1e-4,link_share_fraction=.9:.2:1,overlap=3:1:8'
    move "$1" "deepep_${op}_network" "moe_$op" deepep_normal 'gpus>=9' \
      "$message,fixed_s=3e-5:1e-6:1e-4,counter_s=2e-5:1e-6:1e-4,exposed=1:.01:10,overlap=1:1:1"
  done
}

# move GPU FAMILY OP KERNEL RANKS FREE
move() {
  fit "$1" "$2" "$6" --kernels library --ops "$3" --where "kernel=$4" --where "$5"
}

[ $# -gt 0 ] || set -- h200_sxm h100_sxm a100_sxm
for gpu; do
  published=data/measurements/aiconfigurator/$gpu
  rows=$published/nccl.train.csv with="aiconfigurator $gpu nccl"
  # the same chip and the same links, and the H200's rows alone are few
  if [ "$gpu" = h200_sxm ]; then
    rows="$rows data/measurements/aiconfigurator/h100_sxm/nccl.train.csv" with="$with and h100_sxm nccl"
  fi
  nccl "$gpu" nccl_ring_ll "fixed_s=3.5e-6:5e-7:2e-5,step_s=8e-7:1e-7:5e-6,per_cta_s=2.5e-7:1e-8:3e-6,counter_s=3e-8:1e-9:5e-7,\
channel_B_per_s=1.1e10:1e9:1e11,element_B_per_s=3e10:1e9:1e12,link_share_fraction=.4:.4:.4,overlap=1:1:1"
  nccl "$gpu" nccl_ring_ll128 "fixed_s=1.2e-5:1e-6:5e-5,step_s=1e-6:1e-7:1e-5,overlap=1.2:1:8,\
link_share_fraction=.68:.1:1,exposed=.4:.01:3"
  [ "$gpu" = a100_sxm ] || nccl "$gpu" nccl_nvls "fixed_s=2.5e-5:5e-6:1e-4,overlap=1:1:1,link_share_fraction=.47:.1:1,\
channel_B_per_s=3e9:5e8:1e11"
  nccl "$gpu" nccl_ring_simple "fixed_s=1.3e-5:1e-6:5e-5,step_s=3e-6:1e-7:1e-5,overlap=1:1:1,\
link_share_fraction=.8:.2:1,exposed=.35:.01:3,channel_B_per_s=2.6e10:2e9:2e11"
  both="$published/nccl.train.csv data/measurements/h200_links/h200_sxm/nccl.train.csv"
  if [ "$gpu" = h200_sxm ]; then
    rows=$both with="aiconfigurator $gpu nccl and own recordings of two H200"
  fi
  nccl "$gpu" nccl_peer_ll "fixed_s=6e-6:1e-6:2e-5,overlap=1:1:1,link_share_fraction=.5:.5:.5,\
channel_B_per_s=6e9:1e9:5e10"
  if [ "$gpu" = h100_sxm ]; then
    rows=$both with="aiconfigurator $gpu nccl and own recordings of two H200"
  fi
  nccl "$gpu" nccl_peer_simple "fixed_s=6.4e-6:1e-6:3e-5,step_s=4e-6:1e-7:2e-5,per_cta_s=3.7e-7:1e-9:2e-6,overlap=1.5:1:8,\
link_share_fraction=.8:.2:1,exposed=2:.01:8,channel_B_per_s=9e10:5e9:3e11"
  if [ "$gpu" = h200_sxm ]; then
    rows=data/measurements/h200_links/h200_sxm/nccl.train.csv with='own recordings of two H200'
    ragged nccl_ring_simple all_gather 2.2e10 --min-us 20
    ragged nccl_peer_simple all_to_all 1.1e10
  fi
  rows=$published/all_reduce.train.csv with="aiconfigurator $gpu custom_allreduce"
  kernel="fixed_s=3e-6:5e-7:2e-5,step_s=1e-7:1e-8:2e-6,overlap=1:1:1,link_share_fraction=.65:.1:1"
  fit "$gpu" trtllm_all_reduce "$kernel,channel_B_per_s=2e10:2e9:5e11" --kernels library --where stack~trtllm-1 --where stack!~1.2.0
  fit "$gpu" vllm_one_stage "$kernel" --kernels library --where 'kernel=vLLM_custom_graph'
  fit "$gpu" vllm_two_stages "fixed_s=6e-6:5e-7:2e-5,overlap=1:1:1,link_share_fraction=.65:.1:1" --kernels library --where 'kernel=vLLM_custom_graph'
  [ "$gpu" = a100_sxm ] || experts "$gpu"
  [ "$gpu" = h200_sxm ] || continue
  rows=data/measurements/h200_links/h200_sxm/host.train.csv with='own recordings of two H200'
  fit h200_sxm copy_engine 'fixed_s=1.8e-6:1e-7:1e-5,step_s=6e-7:1e-8:5e-6,exposed=.1:.01:1,overlap=1:1:1' --kernels library
  rows=data/measurements/h200_links/h200_sxm/p2p.train.csv with='own recordings of three pairs of H200'
  fit h200_sxm copy_engine 'link_share_fraction=.88:.5:1' --kernels library
  rows=data/measurements/h200_links/h200_sxm/own.train.csv with='own recordings of two H200'
  chain='overlap=1.5:1:8,channel_B_per_s=2e10:2e9:2e11'
  ours peer_one_shot "fixed_s=1.3e-6:2e-7:1e-5,$chain" one_shot
  ours peer_two_shot "fixed_s=3.7e-6:2e-7:1e-5,$chain" two_shot
  ours peer_pull "fixed_s=3.5e-6:2e-7:1e-5,$chain" pull
  by_elements peer_two_shot two_shot
  by_elements peer_pull pull
  ours peer_push "fixed_s=3e-6:2e-7:1e-5,$chain" push --ops all_gather
  ours peer_scatter "fixed_s=3.5e-6:2e-7:1e-5,$chain" push --ops all_to_all
done
