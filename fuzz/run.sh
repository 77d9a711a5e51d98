#!/bin/sh
# run.sh BUILD SECONDS: runs each fuzzer of BUILD/bin that long from seeds out of data/, two at a time. What it finds
# stays in BUILD/corpus (the next run goes on from there) and BUILD/crashes; non-zero when one crashes, hangs or leaks.
# PLUMBLINE_FUZZ_SEED: what the fuzzers draw from; without it each run draws anew.
set -eu
build=$1 seconds=$2
data=$(dirname -- "$(readlink -f -- "$0")")/../data
seeds=$build/seeds
rm -rf "$seeds"
mkdir -p "$build/crashes"

# seed FUZZER FOLDER PATTERN: whole JSON files; of CSV files a few lines, as small seeds mutate better.
seed() {
  mkdir -p "$seeds/$1" "$build/corpus/$1"
  [ -d "$data/$2" ] || return 0
  find "$data/$2" -name "$3" | while IFS= read -r file; do
    name=$(printf '%s' "$file" | cksum | cut -d ' ' -f 1)-$(basename "$file")
    case $file in
      *.csv) grep -v '^#' "$file" | head -n 12 >"$seeds/$1/$name" || true ;;
      *) cp "$file" "$seeds/$1/$name" ;;
    esac
  done
}
seed descriptor_fuzz gpus '*.json'
seed descriptor_fuzz clusters '*.json'
seed descriptor_fuzz calibration '*.json'
seed config_fuzz models '*.json'
seed csv_fuzz measurements '*.csv'

# one FUZZER: quiet when all is well but for its last line.
one() {
  name=$(basename "$1")
  mkdir -p "$seeds/$name" "$build/corpus/$name"
  if "$1" -seed="${PLUMBLINE_FUZZ_SEED:-0}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$build/crashes/$name-" "$build/corpus/$name" "$seeds/$name" >"$build/$name.log" 2>&1; then
    printf '%-16s %s, %s seeds\n' "$name" "$(sed -n 's/^Done \(.*\)/\1/p' "$build/$name.log")" \
      "$(find "$seeds/$name" -type f | wc -l)"
  else
    printf '%s FAILED; to see it again: %s %s/crashes/%s-...\n' "$name" "$1" "$build" "$name"
    tail -n 60 "$build/$name.log"
    return 1
  fi
}

found=0 failed=0 pids=''
for fuzzer in "$build"/bin/*_fuzz; do
  [ -x "$fuzzer" ] || continue
  found=$((found + 1))
  one "$fuzzer" &
  pids="$pids $!"
  if [ $((found % 2)) = 0 ]; then
    for pid in $pids; do wait "$pid" || failed=1; done
    pids=''
  fi
done
for pid in $pids; do wait "$pid" || failed=1; done
if [ "$found" = 0 ]; then
  echo "fuzz: no fuzzers in $build/bin" >&2
  exit 2
fi
exit "$failed"
