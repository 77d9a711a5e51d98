#!/bin/sh
# Refits the library families of data/calibration/<gpu>.json to published training rows; the machine scalars that were
# measured or published stay as they are. Held-out files are never read (validate fit refuses them). Error bands are
# found afterwards: tools/fit_bands.sh.
#
# usage: tools/fit_calibration.sh [GPU...]     (default: h200_sxm h100_sxm a100_sxm); build validate first
set -eu
cd -- "$(dirname -- "$0")/.."
validate=${PLUMBLINE_BUILD:-build}/bin/validate

kv='shape!~kv=fp8' more=''
# fit GPU FAMILY ROWS FREE [FILTERS...]: bf16 rows (random data, CUDA graphs) of $stacks: TensorRT-LLM, whose attention
# kernels the planner follows (model/stacks/trtllm/plan_prefill.cpp). Overlap (4) and the droop of prefill (measured on the
# H200) are not fitted.
fit() {
  gpu=$1 family=$2 file=$3 rows=data/measurements/aiconfigurator/$1/$3.train.csv free=$4
  shift 4
  # shellcheck disable=SC2086  # one more file or none
  "$validate" fit "$rows" $more --gpu "$gpu" --kernels library --family "$family" --free "$free" \
    --where "stack~$stacks" --where dtype=bf16 --where "$kv" "$@" \
    --source "aiconfigurator $gpu $file${more:+ and attention_encoder}" --out "data/calibration/$gpu.json"
}

# GEMM on cards with TMA. What belongs to the kernel and the chip is fitted on the H200, whose rows stand beside our own
# recordings of cuBLAS there (stacks count equally); the H100, the same chip, takes it over and has two numbers of its own:
# what a launch takes, and the share of its other memory that a walk over tiles reaches.
fit_gemm() {
  recorded='' weigh=--unbalanced
  case $1 in
    h200_sxm)
      recorded="data/measurements/h200/library.train.json data/measurements/h200/full.json"
      free="efficiency_fraction=.95:.9:1,fixed_s=8.8e-7:2e-7:4e-6,dram_share_fraction=.93:.7:1,exposed=2.2:.1:12,\
step_s=8e-8:1e-8:3e-7,sm_in_flight_B=26000:8000:200000" ;;
    h100_sxm)
      python3 tools/take_over_family.py h200_sxm h100_sxm library.gemm "the same kernels on the same chip (GH100)"
      python3 tools/take_over_family.py h200_sxm h100_sxm library.gemm_mma "the same kernels on the same chip (GH100)"
      python3 tools/take_over_family.py h200_sxm h100_sxm library.reduce "the same kernel on the same chip (GH100)"
      free="fixed_s=8.8e-7:2e-7:4e-6,dram_share_fraction=.9:.7:1" ;;
    *)
      weigh=
      free="fixed_s=3e-6:2e-7:6e-6,overlap=4:3:16,exposed=3:.1:8,dram_share_fraction=.9:.7:1,\
reduce.fixed_s=6e-7:1e-7:6e-6" ;;
  esac
  # shellcheck disable=SC2086  # two files; one option or none
  "$validate" fit "data/measurements/aiconfigurator/$1/gemm.train.csv" $recorded --gpu "$1" --kernels library \
    --family gemm --free "$free" --where stack~trtllm --where dtype=bf16 --min-us 4 $weigh \
    --source "aiconfigurator $1 gemm${recorded:+ and our recordings of cuBLAS}" --out "data/calibration/$1.json"
}

# cuBLAS of 2023 and 2024 on Hopper, as PyTorch 2.1 called it: launches of at most 250 us, which the cap does not slow.
fit_few_tiles() {
  short=$(mktemp)
  awk -F, 'NR == 1 || ($4 >= 20 && $4 <= 250)' data/measurements/vidur/h100/gemm.train.csv >"$short"
  "$validate" fit "$short" --gpu h100_sxm --kernels library --family gemm_few_tiles \
    --free "fixed_s=2e-6:2e-7:6e-6,dram_share_fraction=.89:.7:1,overlap=6:2:16" \
    --source "vidur h100 gemm of at most 250 us" --out data/calibration/h100_sxm.json
  rm -f "$short"
  python3 tools/take_over_family.py h100_sxm h200_sxm library.gemm_few_tiles "the same kernels on the same chip (GH100)"
}

# vLLM's products of 8-bit floats and the launch that rounds their rows before: only the H100's rows hold them.
fit_scaled() {
  "$validate" fit data/measurements/aiconfigurator/h100_sxm/gemm.train.csv --gpu h100_sxm --kernels library \
    --family gemm_cutlass --free "fixed_s=6e-7:1e-8:4e-6,exposed=2.4:.3:8,step_s=8e-8:1e-8:3e-7,\
efficiency_fraction=.95:.7:1,dram_share_fraction=.9:.7:1,sm_in_flight_B=26000:8000:200000,start_clk=1000:10:6000,\
quantize_given.start_clk=600:10:4000,quantize_given.step_clk=900:100:3000,quantize_given.step_s=2e-7:1e-9:1e-6,\
quantize_given.fixed_s=6e-7:1e-8:3e-6" --where stack~vllm --where dtype=fp8 \
    --source "aiconfigurator h100_sxm gemm" --out data/calibration/h100_sxm.json
  for family in gemm_cutlass quantize_given; do
    python3 tools/take_over_family.py h100_sxm h200_sxm "library.$family" "the same kernels on the same chip (GH100)"
  done
}

[ $# -gt 0 ] || set -- h200_sxm h100_sxm a100_sxm
for gpu; do
  stacks=trtllm
  fit_gemm "$gpu"
  [ "$gpu" != h100_sxm ] || fit_few_tiles
  [ "$gpu" != h100_sxm ] || fit_scaled
  # mma.sync's kernels are another family: what of the softmax is not hidden, and a CTA's start
  prefill=attention_prefill chain=step_clk=700:10:4000
  [ "$gpu" != a100_sxm ] || prefill=attention_prefill_mma chain=exposed=.8:.05:3,start_clk=2000:100:20000
  fit "$gpu" "$prefill" attention_prefill "fixed_s=1e-5:2e-6:2e-5,$chain,\
attention_prepare.start_clk=3500:100:20000" --min-us 10 --where 'shape~append=1'
  # 8-bit caches, whose products are 8-bit too; rows of windows do not count: their masks cost more, which is no scalar
  if [ "$gpu" != a100_sxm ]; then
    kv=shape~kv=fp8
    fit "$gpu" attention_prefill_8bit attention_prefill "fixed_s=1e-5:2e-6:2e-5,step_clk=700:10:4000,\
attention_prepare_8bit.start_clk=3500:100:20000" --min-us 10 --where 'shape~append=1' --where 'shape!~window'
    kv='shape!~kv=fp8'
  fi
  # Decode. The H100 takes over what belongs to the kernel and the chip from the H200, and has two numbers of its own: what a launch
  # takes, and the share of its other memory that decode reaches.
  # the plain kernel's rows: one query head a KV head, or more than 32, from caches of both widths and all lengths
  plain=$(mktemp)
  python3 tools/decode_rows.py plain "data/measurements/aiconfigurator/$gpu/attention_decode.train.csv" >"$plain"
  single="fixed_s=3.3e-6:5e-7:1.5e-5,start_clk=8000:100:40000,step_clk=4200:50:20000,merge_clk=9000:100:40000,\
issue_start_clk=1400:10:9000,issue_step_clk=4200:10:20000"
  decode="fixed_s=3.8e-6:5e-7:1.5e-5,start_clk=7700:100:40000,step_clk=2000:50:9000,merge_clk=2500:10:40000,\
issue_start_clk=4700:100:20000,issue_step_clk=200:1:2000"
  if [ "$gpu" = h100_sxm ]; then
    for family in attention_decode attention_decode_single; do
      python3 tools/take_over_family.py h200_sxm h100_sxm "library.$family" "the same kernels on the same chip (GH100)"
    done
    single="fixed_s=4e-6:5e-7:1.5e-5,dram_share_fraction=.93:.7:1"
    decode="fixed_s=3.8e-6:5e-7:1.5e-5,dram_share_fraction=.93:.7:1"
  fi
  "$validate" fit "$plain" --gpu "$gpu" --kernels library --family attention_decode_single --free "$single" \
    --where stack~trtllm --where dtype=bf16 --min-us 5 --unbalanced --where 'shape!~window' \
    --source "aiconfigurator $gpu attention_decode" --out "data/calibration/$gpu.json"
  rm -f "$plain"
  # at most 16 query heads a KV head, on Hopper from 127 keys on; one query head a KV head always runs the plain kernel, few CTAs do too
  shortest=127
  if [ "$gpu" = a100_sxm ]; then shortest=1; fi
  fit "$gpu" attention_decode attention_decode "$decode" --min-us 5 --unbalanced \
    --where 'Hq/Hkv>=1.01' --where 'Hq/Hkv<=16' --where "S>=$shortest"
  # Hopper's kernel for fp8 caches, of all contexts and windows: what a CTA takes to start is seen in the shortest ones. Heads
  # above 128 in groups above 8 run twice as long as anything that its source tells
  if [ "$gpu" != a100_sxm ]; then
    wgmma=$(mktemp)
    python3 tools/decode_rows.py wgmma "data/measurements/aiconfigurator/$gpu/attention_decode.train.csv" >"$wgmma"
    "$validate" fit "$wgmma" --gpu "$gpu" --kernels library --family attention_decode_8bit \
      --free "fixed_s=1.2e-6:5e-7:1.5e-5,start_clk=7000:100:40000,step_clk=1000:50:9000,merge_clk=300:10:9000,\
dram_share_fraction=.95:.7:1" --where stack~trtllm \
      --where dtype=bf16 --min-us 5 --unbalanced --source "aiconfigurator $gpu attention_decode" \
      --out "data/calibration/$gpu.json"
    rm -f "$wgmma"
  fi
  # FlashAttention as vLLM calls it; each card has its own version of vLLM. On Hopper flash_prefill and flash_decode, which stand in
  # for encoders, backward passes and other libraries, stay as they were when prompts and encoders, and decode, were one family
  # each (2026-11-24); caches in pages have families of their own, and only the H100's rows hold the write of the cache (append=1),
  # which its prompts tell
  stacks=vllm
  if [ "$gpu" = a100_sxm ]; then
    # FlashAttention-2 on mma.sync over caches in pages, whose rows hold the write of the cache (flash_prefill_mma, whose keys lie
    # in one piece, stays as it was when one plan stood for both, 2026-11-21; the A100's flash_prefill, which stands in for its
    # backward pass, too). SMs of 100 KB hold one CTA: what its loads make it wait is of an RTX A6000
    fit "$gpu" flash_prefill_mma_paged attention_prefill "fixed_s=5e-6:1e-7:2e-5,start_clk=4000:100:40000,overlap=2.5:1.2:6,\
flash_cache_write.start_clk=6000:100:40000" --min-us 10 --where 'S>=2'
    fit "$gpu" flash_decode_mma attention_decode "fixed_s=5e-7:1e-7:2e-5,start_clk=4000:100:40000,overlap=3:1.2:8,\
flash_merge_mma.fixed_s=2e-6:3e-7:5e-6,flash_transpose.fixed_s=2e-6:3e-7:9e-6" --min-us 10 --unbalanced
    small=$(mktemp)
    "$validate" fit data/measurements/llmservingsim/a6000/attention_prefill.train.csv --gpu rtx_a6000 --kernels library \
      --calibration "data/calibration/$gpu.json" --family flash_prefill_mma_small --free step_clk=3000:10:20000 \
      --source "LLMServingSim RTX A6000 attention_prefill" --out "$small"
    python3 tools/share_small.py "$small" "data/calibration/$gpu.json"
    rm -f "$small"
  else
    write='' converts=''
    if [ "$gpu" = h100_sxm ]; then
      write=,flash_cache_write.fixed_s=8e-7:3e-7:9e-6,flash_cache_write.start_clk=3900:100:40000
      converts=,flash_cache_write.step_clk=4000:10:20000
    fi
    fit "$gpu" flash_prefill_paged attention_prefill "fixed_s=5e-6:1e-6:2e-5,step_clk=500:10:4000,start_clk=3500:100:40000,\
issue_start_clk=1500:10:40000$write" --min-us 10 --where 'D<=256'
    fit "$gpu" flash_decode_paged attention_decode "fixed_s=5e-6:1e-6:2e-5,step_clk=2200:10:6000,start_clk=4000:100:40000,\
issue_start_clk=1000:10:40000,issue_step_clk=300:10:4000" --min-us 5 --unbalanced --where 'Hq/Hkv<=16' --where 'S>=127' \
      --where 'D<=256'
    # queries, keys and values of 8 bits: their way through shared memory is the chain
    kv=shape~kv=fp8
    fit "$gpu" flash_prefill_8bit attention_prefill "fixed_s=5e-6:1e-6:2e-5,step_clk=2900:10:6000,start_clk=2000:100:40000,\
issue_start_clk=1500:10:40000,issue_step_clk=500:10:4000$converts" --min-us 10 --where 'D<=256'
    fit "$gpu" flash_decode_8bit attention_decode "fixed_s=5e-6:1e-6:2e-5,step_clk=2900:10:6000,start_clk=4800:100:40000,\
issue_start_clk=100:10:40000,issue_step_clk=1800:10:4000" --min-us 5 --unbalanced --where 'Hq/Hkv<=16' --where 'S>=127' \
      --where 'D<=256'
    kv='shape!~kv=fp8'
  fi
  stacks=trtllm
  # row-wise kernels: our own, measured on the H200; other cards take its scalars over (data/calibration, by hand)
  [ "$gpu" != h200_sxm ] || "$validate" fit data/measurements/own/h200_sxm/rowwise.train.csv --gpu "$gpu" \
    --kernels library --family rowwise --free "fixed_s=9e-7:1e-7:4e-6,overlap=6:2:16" --source "own row-wise kernels" \
    --out "data/calibration/$gpu.json"
  # the A100 rows are of a kernel that does not split the keys, and of Triton's (tools/fit_latent_triton.py): families of their own
  if [ "$gpu" = a100_sxm ]; then
    kv='op=mla_decode'
    fit "$gpu" mla_decode_mma mla_decode "fixed_s=3.6e-6:1e-6:9e-6,start_clk=4150:500:20000,step_clk=6500:2000:20000,exposed=1.4:1:2"
    kv='shape!~kv=fp8'
  fi
  [ "$gpu" = a100_sxm ] || fit "$gpu" mla_decode mla_decode "fixed_s=8e-6:5e-7:2e-5,overlap=4:2:16,\
efficiency_fraction=.8:.2:1,step_s=1e-6:2e-8:6e-6,per_cta_s=2.5e-6:1e-8:9e-6,in_flight_B=70000:4000:400000" --min-us 10
  # on wgmma the chain that transposes 8-bit values
  if [ "$gpu" != a100_sxm ]; then
    kv=shape~kv=fp8
    fit "$gpu" mla_decode_8bit mla_decode "fixed_s=5e-6:5e-7:2e-5,step_clk=3000:10:9000,per_cta_s=4e-6:1e-8:9e-6" --min-us 10
    kv='shape!~kv=fp8'
  fi
done

# Mixtures of experts and activations rounded in the call, on the H200; the H100 takes them over, and has two numbers of its own.
# Some of the rows fell back to a slow kernel (docs/calibration/experts_and_rounding.md): the fit's loss is absolute.
fit_calls() {
  gpu=$1 rows=data/measurements/aiconfigurator/$1
  fit_call() {
    family=$1 file=$2 dtype=$3 free=$4
    shift 4
    "$validate" fit "$rows/$file.train.csv" --gpu "$gpu" --kernels library --family "$family" --free "$free" --where stack~trtllm \
      --where "dtype=$dtype" --unbalanced --source "aiconfigurator $gpu $file" --out "data/calibration/$gpu.json" "$@"
  }
  if [ "$gpu" = h100_sxm ]; then
    for family in moe moe_block gemm_block quantize; do
      python3 tools/take_over_family.py h200_sxm h100_sxm "library.$family" "the same kernels on the same chip (GH100)"
    done
    fit_call moe moe bf16 "fixed_s=2.5e-6:2e-7:9e-6,dram_share_fraction=.95:.6:1" --min-us 10
    return
  fi
  fit_call moe moe bf16 "fixed_s=8.8e-7:2e-7:6e-6,per_cta_s=3e-7:1e-8:4e-6,step_s=8e-8:1e-8:5e-7,sm_in_flight_B=26000:8000:200000,\
exposed=2.2:.1:12,dram_share_fraction=.93:.6:1,efficiency_fraction=.95:.5:1" --min-us 4
  fit_call quantize gemm fp8 per_cta_s=5e-7:1e-8:5e-6 --where 'M<=512' --min-us 4
  fit_call gemm_block gemm_other fp8_block "fixed_s=1e-6:1e-8:9e-6,step_s=1.2e-7:1e-8:1e-6,\
sm_in_flight_B=80000:16000:220000,dram_share_fraction=.93:.6:1,efficiency_fraction=.75:.3:1,exposed=6:.1:30,quantize.step_clk=50:3:500" --min-us 4
  fit_call moe_block moe fp8_block "fixed_s=1e-6:2e-7:9e-6,per_cta_s=1.5e-6:1e-8:4e-6,efficiency_fraction=.5:.3:1,\
exposed=12:.1:30" --min-us 10
}
for gpu; do
  [ "$gpu" = a100_sxm ] || fit_calls "$gpu"
done

# Linear attention's prompts: Flash Linear Attention's launches by the H200's rows of TensorRT-LLM, which the H100 takes over;
# FlashInfer's kernel by the H100's of vLLM, the only ones.
fit_linear() {
  "$validate" fit "data/measurements/aiconfigurator/$1/linear_attention.train.csv" --gpu "$1" --kernels library --family "$2" \
    --free "$3" --where "stack~$4" --unbalanced --source "aiconfigurator $1 linear_attention" \
    --out "data/calibration/$1.json"
}
for gpu; do
  case $gpu in
    h200_sxm) fit_linear "$gpu" linear_chunk "fixed_s=1.2e-6:3e-7:4e-6,start_clk=4300:100:20000,exposed=.6:.1:1,\
linear_scan.step_clk=3300:300:9000" trtllm ;;
    h100_sxm)
      for family in linear_chunk linear_scan; do
        python3 tools/take_over_family.py h200_sxm h100_sxm "library.$family" "the same kernels on the same chip (GH100)"
      done
      fit_linear "$gpu" linear_flashinfer "fixed_s=2e-6:3e-7:6e-6,step_clk=5200:500:15000,overlap=3:1:16" vllm
      python3 tools/take_over_family.py h100_sxm h200_sxm library.linear_flashinfer "the same kernel on the same chip (GH100)" ;;
  esac
done

# The convolutions before them, on the H200; the H100 takes them over.
fit_conv() {
  "$validate" fit data/measurements/aiconfigurator/h200_sxm/convolution.train.csv --gpu h200_sxm --kernels library --family "$1" \
    --free "$2" --where "kernel=$3" --where "$4" --unbalanced --source "aiconfigurator h200_sxm convolution" \
    --out data/calibration/h200_sxm.json
}
for gpu; do
  case $gpu in
    h200_sxm)
      fit_conv linear_conv "fixed_s=2e-6:8.9e-7:6e-6,start_clk=215:20:2000,step_clk=75:1:1000,overlap=3:1:16" causal_conv1d_fn 'S>=2'
      fit_conv linear_conv_step "fixed_s=1e-6:8.8e-7:6e-6,start_clk=70:5:2000,overlap=2:1:16" causal_conv1d_update 'S<=1' ;;
    h100_sxm)
      for family in linear_conv linear_conv_step; do
        python3 tools/take_over_family.py h200_sxm h100_sxm "library.$family" "the same kernels on the same chip (GH100)"
      done ;;
  esac
done

# Mamba-2, Kimi delta attention, lightning attention and steps of one token, by our own recordings on an H200; the H100 takes
# them over.
fit_states() {
  "$validate" fit data/measurements/h200_linear/h200_sxm/recurrence.train.csv --gpu h200_sxm --kernels library --family "$1" \
    --free "$2" --where "kernel=$3" --where "$4" --unbalanced --source "h200_linear recurrence" --out data/calibration/h200_sxm.json
}
for gpu; do
  case $gpu in
    h200_sxm)
      fit_states linear_ssd "fixed_s=1.5e-6:9e-7:1.2e-5,start_clk=1700:100:9000,step_clk=2100:100:9000" mamba2 'S>=2'
      fit_states linear_kda "start_clk=12000:1000:40000" kda 'S>=2'
      fit_states linear_gla "fixed_s=1.5e-6:9e-7:6e-6,start_clk=8000:500:30000,step_clk=1300:50:9000" lightning 'S>=2'
      fit_states linear_step_ssd "fixed_s=2e-6:5e-7:5e-6,step_clk=600:50:5000" mamba2 'S<=1'
      fit_states linear_step_delta "fixed_s=2e-6:5e-7:5e-6,step_clk=720:50:5000" gated_delta_net,kda 'S<=1'
      fit_states linear_step_gla "fixed_s=3e-6:5e-7:9e-6,step_clk=145:20:5000" lightning 'S<=1' ;;
    h100_sxm)
      for family in linear_ssd linear_ssd_state linear_kda linear_gla linear_step_ssd linear_step_delta linear_step_gla; do
        python3 tools/take_over_family.py h200_sxm h100_sxm "library.$family" "the same kernels on the same chip (GH100)"
      done ;;
  esac
done

# A scale for each token, by vLLM's rows of the H200; the H100 takes it over, and has a number of its own: what a launch takes.
for gpu; do
  case $gpu in
    h200_sxm)
      "$validate" fit data/measurements/aiconfigurator/h200_sxm/quantize_dynamic.train.csv --gpu h200_sxm --kernels library \
        --family quantize_token --free "fixed_s=1.1e-6:3e-7:6e-6,start_clk=300:20:4000,step_clk=1000:100:5000,overlap=3:1:16,\
step_s=3e-7:1e-8:3e-6" --where stack~vllm --unbalanced --source "aiconfigurator h200_sxm quantize_dynamic" \
        --out data/calibration/h200_sxm.json ;;
    h100_sxm)
      python3 tools/take_over_family.py h200_sxm h100_sxm library.quantize_token "the same kernel on the same chip (GH100)"
      "$validate" fit data/measurements/aiconfigurator/h100_sxm/quantize_dynamic.train.csv --gpu h100_sxm --kernels library \
        --family quantize_token --free "fixed_s=5e-7:1e-8:3e-6" --where stack~vllm --unbalanced \
        --source "aiconfigurator h100_sxm quantize_dynamic" --out data/calibration/h100_sxm.json ;;
  esac
done

# One chip, one set of scalars, when both cards have just been fitted.
case " $* " in *h200_sxm*h100_sxm* | *h100_sxm*h200_sxm*)
  for family in prefill prepare prefill_8bit prepare_8bit decode_8bit; do
    python3 tools/share_family.py "library.attention_$family" h200_sxm h100_sxm
  done ;;
esac

# What a card has no rows of its own for.
take() { python3 tools/take_over_family.py "$@"; }
mma_families='mla_decode_mma mla_decode_triton flash_prefill_mma flash_prefill_mma_paged flash_prefill_mma_small flash_decode_mma flash_decode_mma_small flash_transpose
flash_merge_mma'
for gpu; do
  case $gpu in
    h200_sxm)
      take h100_sxm h200_sxm library.flash_append "rows of this card leave the append out"
      take h100_sxm h200_sxm library.flash_cache_write "rows of this card leave the append out"
      take a100_sxm h200_sxm library.attention_prefill_mma "kernels for mma.sync, which this card's library does not run"
      for family in $mma_families; do
        take a100_sxm h200_sxm "library.$family" "kernels for mma.sync, which this card's library does not run" cycles
      done ;;
    h100_sxm)
      take h200_sxm h100_sxm library.rowwise "the project's row-wise kernels on the same chip (GH100)"
      take a100_sxm h100_sxm library.attention_prefill_mma "kernels for mma.sync, which this card's library does not run"
      for family in $mma_families; do
        take a100_sxm h100_sxm "library.$family" "kernels for mma.sync, which this card's library does not run" cycles
      done ;;
    a100_sxm)
      take h100_sxm a100_sxm library.attention_prefill "kernels for wgmma, which this card does not run"
      take h100_sxm a100_sxm library.flash_append "rows of this card leave the append out"
      take h200_sxm a100_sxm library.rowwise "fixed time and overlap of the project's row-wise kernels there"
      take h100_sxm a100_sxm library.mla_decode "the measured A100 rows are of a kernel that does not split the keys" ;;
  esac
done

# cuBLASLt in other types, by our own recordings of it on the H200; the H100 takes them over. (gemm_lanes is counted, not fitted.)
fit_types() {
  rows=data/measurements/h200_pytorch/h200_sxm
  drawn=$rows/products_drawn.train.csv
  test "$1" = gemm_xmma && drawn="$drawn $rows/products_second.train.csv"
  # shellcheck disable=SC2086 # paths without blanks
  "$validate" fit $rows/types.train.csv $drawn --gpu h200_sxm --kernels library --family "$1" --free "$2" \
    --where "$3" --min-us "$4" --unbalanced --source "PyTorch 2.11 on H200s, types and drawn products" \
    --out data/calibration/h200_sxm.json
}
for gpu; do
  case $gpu in
    h200_sxm)
      # the other scalars of gemm_scaled are of types.train.csv alone, without start_clk
      fit_types gemm_scaled "start_clk=1000:1:6000" kernel=fp8_row 7
      # the other scalars of gemm_xmma were found before rows outside were asked for and queues shared
      fit_types gemm_xmma "fixed_s=1e-6:2e-7:6e-6,overlap=3.5:3:12,sm_in_flight_B=58000:8000:200000" dtype=tf32 7
      fit_types gemm_int8 "fixed_s=1e-6:2e-7:6e-6,overlap=3.5:1.5:8,step_clk=100:1:400,exposed=3:.1:12,efficiency_fraction=.95:.8:1" \
        dtype=int8 6 ;;
    h100_sxm)
      for family in gemm_scaled gemm_xmma gemm_int8 gemm_lanes; do
        python3 tools/take_over_family.py h200_sxm h100_sxm "library.$family" "the same kernels on the same chip (GH100)"
      done ;;
  esac
done
