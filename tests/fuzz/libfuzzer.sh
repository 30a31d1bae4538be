#!/usr/bin/env bash
# Builds the libFuzzer targets of fuzz/ with the stable compiler and runs each for some seconds, guided by coverage.
# usage: tests/fuzz/libfuzzer.sh [SECONDS [TARGET…]]
# The corpus and what was found are kept in target/fuzz; ASSAYD_FUZZ_SEED=N takes another way through it. Exit code 69: it cannot be done on this machine, and why is said.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:-12}
shift || true
unable() { printf 'NOT RUN: %s\n' "$*"; exit 69; }

command -v c++ >/dev/null || unable "libFuzzer is C++, and there is no C++ compiler (c++)"
[[ $(rustc -vV) == *"host: x86_64-"*linux* ]] || unable "only tried on x86_64 Linux"

work=$PWD/target/fuzz
mkdir -p "$work"
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

# The dependencies at the versions, with the features and by the profiles of `cargo test`: where that has run they are built.
cp Cargo.lock fuzz/Cargo.lock
if ! cargo fetch --manifest-path fuzz/Cargo.toml >"$work/fetch.log" 2>&1; then
  tail -n 5 "$work/fetch.log"
  unable "the crate libfuzzer-sys cannot be had"
fi
if ! CARGO_INCREMENTAL=0 RUSTC_WRAPPER="$PWD/tests/fuzz/coverage.sh" \
  cargo build --manifest-path fuzz/Cargo.toml --target-dir target "${targets[@]/#/--bin=}" 2>"$work/build.log"; then
  tail -n 20 "$work/build.log" | cut -c1-300
  unable "the targets do not build here; all is in target/fuzz/build.log"
fi

# The first corpus: the recordings that tests/fuzz.rs mutates.
if [ ! -d "$work/seeds" ]; then
  ASSAYD_FUZZ_SEEDS="$work/seeds" ASSAYD_FUZZ_ROUNDS=0 cargo test --quiet --test fuzz >/dev/null
fi

failed=()
for target in "${targets[@]}"; do
  mkdir -p "$work/corpus/$target" "$work/found/$target" "$work/seeds/$target"
  log=$work/$target.log
  if "target/debug/$target" "$work/corpus/$target" "$work/seeds/$target" \
    -seed="${ASSAYD_FUZZ_SEED:-1}" -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=3072 -print_final_stats=1 \
    -artifact_prefix="$work/found/$target/" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    cover=$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1)
    printf '%-16s %8s runs, %s\n' "$target" "$runs" "$cover"
  else
    failed+=("$target")
    printf '%-16s FAILED\n' "$target"
    grep -E "panicked|ERROR|^[^#]*assert|Test unit written" -A 3 "$log" | head -n 30
  fi
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "broken laws: ${failed[*]}; the bytes are in target/fuzz/found. Again: target/debug/TARGET FILE"
  exit 1
fi
