#!/bin/sh
# The compiler for tests/fuzz/libfuzzer.sh: what libFuzzer needs to see where the code goes is built into assayd and into nothing
# else, so that the dependencies are compiled as ever. All of these flags are stable.
rustc=$1
shift
case " $* " in
  *" --crate-name assayd "*)
    exec "$rustc" "$@" --cfg fuzzing -C passes=sancov-module \
      -C llvm-args=-sanitizer-coverage-level=4 \
      -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
      -C llvm-args=-sanitizer-coverage-pc-table \
      -C llvm-args=-sanitizer-coverage-trace-compares
    ;;
  *) exec "$rustc" "$@" ;;
esac
