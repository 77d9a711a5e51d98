#!/bin/sh
# Refits the families of data/calibration/h200_sxm.json that PyTorch's own kernels are priced with, to the training rows of
# data/measurements/h200_pytorch (tools/convert_pytorch_operators.py). Held-out files are never read. Error bands are found
# afterwards: tools/fit_bands.sh.
#
# usage: tools/fit_pytorch.sh; build validate first
set -eu
cd -- "$(dirname -- "$0")/.."
validate=${PLUMBLINE_BUILD:-build}/bin/validate

# fit FAMILY ROWS FREE [FILTERS...]; ROWS: one name or more, with commas between them
fit() {
  family=$1 rows='' free=$3
  for name in $(echo "$2" | tr , ' '); do rows="$rows data/measurements/h200_pytorch/h200_sxm/$name.train.csv"; done
  shift 3
  # shellcheck disable=SC2086 # paths without blanks
  "$validate" fit $rows --gpu h200_sxm --kernels library --family "$family" --free "$free" \
    --source "PyTorch 2.11 on an H200, ${family}" --out data/calibration/h200_sxm.json "$@"
}

fit grouped_mm grouped_gemm "fixed_s=3e-6:2e-7:1e-5,efficiency_fraction=.95:.8:1,dram_share_fraction=.9:.5:1,\
step_s=4e-7:1e-8:2e-6,per_cta_s=3e-7:1e-9:3e-6,exposed=2:.1:12"
# the H100 takes these over (tools/take_over_family.py), but for its memory's share:
#   validate fit data/measurements/h100_pytorch/h100_sxm/grouped_gemm.train.csv --gpu h100_sxm --kernels library --family grouped_mm \
#     --free dram_share_fraction=.8:.5:1 --source "PyTorch 2.11 on an H100, grouped_mm" --out data/calibration/h100_sxm.json
fit cudnn_prefill attention,attention_drawn,attention_drawn_second "fixed_s=3e-6:1e-7:2e-5,step_clk=500:10:4000,start_clk=2000:100:40000" \
  --where kernel=cudnn --where op=attention_prefill --min-us 4
fit cudnn_decode attention "fixed_s=4e-6:1e-6:2e-5,start_clk=3000:100:40000,step_clk=700:10:9000,\
dram_share_fraction=.97:.6:1" --where kernel=cudnn --where op=attention_decode --min-us 4 --unbalanced
# cudnn_rows: its passes' recorded launches less the gap inside and their bytes, by hand
fit cudnn_backward attention_backward,attention_drawn,attention_drawn_second "fixed_s=2e-6:1e-7:1e-5,step_clk=1900:10:6000,start_clk=8000:100:60000" \
  --where kernel=cudnn --where op=attention_backward
# FlashAttention-2's passes: not weighed by size, as a mean over rows is what is asked. The forward pass's scalars lie in a flat valley: from
# another start the search comes to fixed_s 1.35e-6, start_clk 5207, exposed .553, overlap 1.31, at the same loss of 13.4. The backward pass
# comes to the same ones from three starts.
fit flash_second attention,attention_drawn,attention_drawn_third,attention_drawn_fourth "fixed_s=1.9e-6:1e-7:1e-5,\
start_clk=4800:100:40000,exposed=.63:.1:1.5,overlap=1.39:1:4" --where kernel=flash --where op=attention_prefill --min-us 4 --unbalanced
fit flash_second_backward attention_drawn,attention_drawn_third,attention_drawn_fourth "fixed_s=1e-6:1e-7:1e-5,\
start_clk=6000:100:40000,exposed=.5:.1:1.5,overlap=1.2:1:4" --where kernel=flash --where op=attention_backward --min-us 4 --unbalanced
# memory-efficient kernels
fit efficient attention_drawn_fourth "fixed_s=2e-6:1e-7:1e-5,start_clk=3000:100:40000,exposed=.3:.05:1.5" \
  --where kernel=efficient --where op=attention_prefill --min-us 4
fit efficient_backward attention_drawn_fourth "fixed_s=2e-6:1e-7:1e-5,start_clk=6000:100:60000,exposed=.3:.05:1.5" \
  --where kernel=efficient --where op=attention_backward --where dtype=bf16,fp16 --min-us 4
fit efficient_backward_fp32 attention_drawn_fourth "fixed_s=2e-6:1e-7:1e-5,start_clk=6000:100:60000,exposed=.3:.05:1.5" \
  --where kernel=efficient --where op=attention_backward --where dtype=fp32 --min-us 4
# products of one row whose row of weights or of the result is no whole number of 16 bytes: what a launch takes once, the
# same for all kernels; their clocks are in the planner
fit gemv products,products_drawn,products_second,products_third,one_row "fixed_s=1.9e-6:1e-7:4e-6" \
  --where kernel=gemv --unbalanced
# products of 2:4 sparse weights and the launch that compresses them. What an SM has in flight is the ring's (five stages), and
# neither that nor a step's chain binds
fit gemm_sparse24 sparse "fixed_s=2e-6:1e-7:8e-6,overlap=12:1:32,merge_clk=15000:100:60000" --where op=gemm_sparse24 --where dtype=bf16 \
  --unbalanced
fit sparsify24 sparse "fixed_s=2e-6:1e-7:8e-6,step_clk=1700:100:4000,step_s=5e-6:1e-7:3e-5,overlap=4:1:16" --where op=sparsify24 \
  --unbalanced
