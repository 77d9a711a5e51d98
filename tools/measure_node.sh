#!/bin/sh
# What a node of four or eight H200 is asked for: collectives and links (some five minutes), then whole tensor-parallel
# steps of Llama-3.1-70B (some four minutes), each into a file of its own. Both were predicted before any such run:
# data/studies/steps.tp<N>.predicted.csv, data/studies/collectives.predicted.csv. Four have been run (2026-11-28), eight
# not. NCCL runs without NVLink multicast (NCCL_NVLS_ENABLE=0: a shared host's switches are left alone), so that its
# rings are what is measured. Not part of it: iterations of training by data-parallel ranks (tools/trace_training.py
# --gpus N), and, since we have no program for it yet, the exchange of a layer of experts with unequal parts.
#
# usage: tools/measure_node.sh 4|8 FOLDER [links|steps]    VALIDATE (build/bin/validate) and NCCL (libnccl.so.2) name the programs
set -eu
cd -- "$(dirname -- "$0")/.."
validate=${VALIDATE:-build/bin/validate}
gpus=${1:-} out=${2:-} only=${3:-}
case $gpus in 4|8) ;; *) sed -n '/^# usage/s/^# //p' "$0" >&2; exit 2 ;; esac
[ -d "$out" ] || { echo "measure_node.sh: '$out' is no folder" >&2; exit 2; }
case $only in ''|links|steps) ;; *) echo "measure_node.sh: '$only' is neither links nor steps" >&2; exit 2 ;; esac
export NCCL_NVLS_ENABLE=0

if [ "$only" != steps ]; then "$validate" run --gpus "$gpus" ${NCCL:+--nccl "$NCCL"} --out "$out/x$gpus.csv"; fi
if [ "$only" != links ]; then "$validate" step --study "data/studies/steps.tp$gpus.csv" --out "$out/steps.tp$gpus.json"; fi
