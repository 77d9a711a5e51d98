#!/bin/sh
# Mutants: small wrong changes, one a patch, that a unit test of the changed floor must notice.
#
#   tests/mutants/run.sh [PATCH...]        applies each to a copy of the checkout, builds that floor's test program, wants it
#                                          red; all patches when none is named. Some seconds a mutant, minutes for the first.
#   tests/mutants/run.sh --check           only: does each patch still apply? (ctest runs this)
#
# A patch begins with two lines, `floor: ops` and `what: ...`. Replays of recordings, goldens and sweeps do not count: they
# notice that something changed, and not what. Says killed (with the first red test) or SURVIVED for each, a sum at the end;
# non-zero when one survives or does not apply. PLUMBLINE_MUTANTS names the folder of the copy (default: build-mutants).
set -eu
here=$(dirname -- "$(readlink -f -- "$0")")
root=$(readlink -f -- "$here/../..")
work=${PLUMBLINE_MUTANTS:-$root/build-mutants}
tree=$work/tree

# Suites that are no unit tests of their floor.
not_units() {
  case $1 in
    model) echo 'Golden*:OwnSweep*:OwnRegret*' ;;
    validate) echo 'AccuracyGate*:Coverage*:StepGate*:RecordedH200*:Measurements*:Readme*' ;;
    *) echo 'None' ;;
  esac
}

field() { sed -n "s/^$1: //p" "$2" | head -n 1; }

applies() { patch -p1 -d "$1" --dry-run -s -f <"$2" >/dev/null 2>&1; }

check() {
  bad=0
  for each in "$@"; do
    case $(field floor "$each") in
      arch|ops|model|validate) ;;
      *) echo "$each: expected a floor" >&2; bad=1 ;;
    esac
    [ -n "$(field what "$each")" ] || { echo "$each: expected a line 'what: ...'" >&2; bad=1; }
    applies "$root" "$each" || { echo "$each: does not apply to the sources as they are" >&2; bad=1; }
  done
  echo "$# mutants"
  return $bad
}

copy_tree() {
  mkdir -p "$tree"
  (cd "$root" && git ls-files -z | tar --null -T - -cf -) | tar -C "$tree" -xf -
  cmake -S "$tree" -B "$work/build" -G Ninja -DPLUMBLINE_TESTS=ON -DPLUMBLINE_VALIDATE=ON -DPLUMBLINE_CUDA=OFF \
    "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG -w" >"$work/configure.log" 2>&1
}

# Builds the floor's tests and runs its units, with one seed for all; the first red test, or nothing when all are green.
first_red() {
  ninja -C "$work/build" "$1_tests" >"$work/build.log" 2>&1 || { echo "(does not compile)"; return; }
  timeout 240 "$work/build/bin/$1_tests" --gtest_brief=1 --gtest_fail_fast "--gtest_filter=-$(not_units "$1")" \
    >"$work/tests.log" 2>&1 && return
  red=$(sed -n 's/^\[  FAILED  \] \([^ ,]*\).*/\1/p' "$work/tests.log" | head -n 1)
  echo "${red:-(no red test named)}"
}

if [ "${1:-}" = --check ]; then
  shift
  [ $# -gt 0 ] || set -- "$here"/*/*.patch
  check "$@"
  exit
fi
[ $# -gt 0 ] || set -- "$here"/*/*.patch
mkdir -p "$work"
copy_tree
export RC_PARAMS=seed=1
for floor in arch ops model validate; do
  grep -qsxF "floor: $floor" "$@" || continue
  red=$(first_red "$floor")
  [ -z "$red" ] || { echo "$floor is red without a mutant: $red" >&2; exit 2; }
done
killed=0 survived=0
for each in "$@"; do
  each=$(readlink -f -- "$each")
  floor=$(field floor "$each")
  name=$(basename "$(dirname "$each")")/$(basename "$each" .patch)
  if ! applies "$tree" "$each"; then
    echo "DOES NOT APPLY $name"
    survived=$((survived + 1))
    continue
  fi
  patch -p1 -d "$tree" -s -f --no-backup-if-mismatch <"$each"
  red=$(first_red "$floor")
  patch -p1 -R -d "$tree" -s -f --no-backup-if-mismatch <"$each"
  case $red in
    '') echo "SURVIVED  $floor $name: $(field what "$each")"; survived=$((survived + 1)) ;;
    '('*) echo "UNCLEAR   $floor $name: $red, see $work"; survived=$((survived + 1)) ;;
    *) echo "killed    $floor $name: $red"; killed=$((killed + 1)) ;;
  esac
done
echo "$killed killed, $survived not"
[ "$survived" = 0 ]
