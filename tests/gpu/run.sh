#!/bin/bash
# mimidec: builds and tests the CUDA backend on a machine with a real GPU
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: tests/gpu/run.sh [BUILD]
#
# On a bare CUDA machine (Debian 12 or Ubuntu, root for apt-get): installs what
# the build needs, builds, then with the real driver
#   - every network against the oracle, at every precision
#   - batches bit for bit, saving and restoring
#   - compute-sanitizer, memcheck and racecheck, where there is one
#   - mimi-bench for each network, state on the device and passed at every frame
# What it prints, with date and card, belongs into docs/measurements.md.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top"
. pipelines/setup.sh
case ${1:-} in -h | --help) print_help; exit 0 ;; esac
build=${1:-$top/build-gpu}
status=0

# step NAME COMMAND...: goes on after a failure, and remembers it
step ()
{
  name=$1
  shift
  printf '\n== %s\n' "$name"
  if timeout 150 "$@"; then
    printf '== %s: ok\n' "$name"
  else
    printf '== %s: FAILED\n' "$name"
    status=1
  fi
}

install_packages "$build_packages $test_packages"
set -- --reconfigure
[ -d "$build" ] || set --
if nvcc=$(fetch_nvcc); then
  meson setup "$build" "$@" -Dtests=enabled -Dcuda=enabled -Dnvcc="$nvcc"
else
  meson setup "$build" "$@" -Dtests=enabled -Dcuda=enabled
fi
ninja -C "$build"

date -u
nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader \
  || true

export MIMI_TEST_CUDA=1
export MIMI_TEST_CHECKPOINTS=$build/tests/kernels
export MIMI_TEST_ORACLES=$build/tests/cuda
export MIMI_TEST_GOLDENS=$top/tests/reference/goldens
step oracle "$build/tests/cuda/test-cuda-oracle"
step batch "$build/tests/cuda/test-cuda-batch"
step state "$build/tests/kernels/test-state"

if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    step "$tool" compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$build/tests/cuda/test-cuda-batch" -p /cuda/batch/reuse
  done
else
  echo "no compute-sanitizer here"
fi

for model in "$build"/tests/cuda/pocket-pocket.safetensors \
  "$build"/tests/kernels/pocket18m-pocket.safetensors \
  "$build"/tests/kernels/pocket2m-pocket.safetensors; do
  for where in device host; do
    step "$(basename "$model"), state on the $where" \
      "$build/kernels/bench/mimi-bench" --backend cuda --frames 300 \
      --state "$where" "$model"
  done
done
exit $status
