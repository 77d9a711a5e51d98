#!/bin/sh
# process.sh PREDICT_MODEL [ROWS]: what a user waits for: one whole `llm` process, and an ops CSV of ROWS rows.
set -eu
program=$1 rows=${2:-1000000}
case $rows in ''|*[!0-9]*) echo "bench: expected a number of rows, found '$rows'" >&2; exit 2 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

now() { date +%s%N; }

one_llm() {
  "$program" llm --model llama-3.1-8b --gpu h200_sxm --phase decode --batch 64 --context 4096 --format json >/dev/null
}
one_llm  # a first run, so that the file cache is warm
run=0
while [ "$run" -lt 20 ]; do
  start=$(now)
  one_llm
  echo $(($(now) - start))
  run=$((run + 1))
done | sort -n | awk '{ t[NR] = $1 } END {
  printf "one llm process: median %.1f ms, fastest %.1f ms, slowest %.1f ms of %d\n",
         (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2e6, t[1] / 1e6, t[NR] / 1e6, NR }'

# Shapes that all differ, of the kinds that tables hold.
awk -v rows="$rows" 'BEGIN {
  print "op,dtype,shape"
  for (i = 0; i < rows; ++i) {
    a = 1 + i % 8192; b = 64 * (1 + int(i / 7) % 256); c = 64 * (1 + int(i / 3) % 256)
    k = i % 5
    if (k == 0) printf "gemm,bf16,M=%d;N=%d;K=%d\n", a, b, c
    else if (k == 1) printf "gemm,fp8,M=%d;N=%d;K=%d\n", a, c, b
    else if (k == 2) printf "attention_decode,bf16,B=%d;Hq=32;Hkv=8;D=128;S=%d\n", 1 + i % 256, b
    else if (k == 3) printf "attention_prefill,bf16,B=%d;Hq=32;Hkv=8;D=128;S=%d;causal=1\n", 1 + i % 8, b
    else printf "rmsnorm,bf16,rows=%d;cols=%d\n", a, b
  } }' >"$work/ops.csv"
start=$(now)
"$program" ops --gpu h200_sxm --in "$work/ops.csv" --out "$work/out.csv" &
pid=$!
peak=0
# The high-water mark of memory while it runs; the last look is at most 20 ms before its end.
while [ -r "/proc/$pid/status" ]; do
  seen=$(awk '/^VmHWM/ { print $2 }' "/proc/$pid/status" 2>/dev/null) || break
  [ -n "$seen" ] || break
  peak=$seen
  sleep 0.02
done
wait "$pid"
elapsed=$(($(now) - start))
written=$(($(wc -l <"$work/out.csv") - 1))
[ "$written" = "$rows" ] || { echo "bench: $rows rows in, $written out" >&2; exit 1; }
awk -v rows="$rows" -v ns="$elapsed" -v kb="$peak" 'BEGIN {
  printf "ops CSV: %d rows in %.2f s, %.0f rows/s, %.1f MiB at most\n", rows, ns / 1e9, rows / ns * 1e9, kb / 1024 }'
