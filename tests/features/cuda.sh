#!/usr/bin/env bash
# Type-checks the build with `--features cuda`. Without a CUDA toolkit a stand-in for nvcc makes empty kernels: Rust is checked,
# nothing can run.
set -euo pipefail
cd "$(dirname "$0")/../.."
if command -v nvcc >/dev/null; then
  exec cargo check --locked --lib --features cuda
fi
echo "there is no nvcc here: checking the Rust side with a stand-in"
bin=$PWD/target/stand-in/bin
mkdir -p "$bin"
cp tests/features/nvcc "$bin/nvcc"
# A target folder of its own: kernels made by the stand-in must never be taken for real ones.
PATH=$bin:$PATH CUDA_HOME=$PWD/target/stand-in CUDA_COMPUTE_CAP=80 CUDARC_CUDA_VERSION=12060 \
  cargo check --locked --lib --features cuda --target-dir target/stand-in/target
