#!/bin/sh
# mimidec: fuzzes the reader with libFuzzer, under ASan and UBSan
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: tests/fuzz/run.sh [SECONDS]
#
# SECONDS (20) each for checkpoints and for configurations, from the corpus in
# tests/fuzz/seeds/. What is found stays in build-fuzz/found/; a file that made
# the reader fail is named crash-*, and the exit status is 1. 77: no clang.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top"
seconds=${1:-20}

clang=
for c in clang clang-14 clang-15 clang-16; do
  if command -v $c > /dev/null; then
    clang=$c
    break
  fi
done
if [ -z "$clang" ]; then
  echo 'fuzz: needs clang (apt-get install clang-14 libclang-rt-14-dev)'
  exit 77
fi

out=build-fuzz
mkdir -p "$out"
# UBSan stops at what it finds. glib's containers have what they hold checked.
flags="-g -O1 -std=gnu11 -fno-omit-frame-pointer -Ikernels
  -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all"
packages='glib-2.0 json-glib-1.0 yaml-0.1'
for target in model config; do
  # shellcheck disable=SC2046,SC2086
  $clang $flags $(pkg-config --cflags $packages) \
    "tests/fuzz/fuzz-$target.c" kernels/model/*.c \
    -o "$out/fuzz-$target" $(pkg-config --libs $packages) -lm
done

export G_SLICE=always-malloc
for target in model config; do
  mkdir -p "$out/found/$target"
  "$out/fuzz-$target" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -max_len=65536 -dict=tests/fuzz/words.dict \
    -artifact_prefix="$out/found/" -print_final_stats=1 -verbosity=1 \
    "$out/found/$target" "tests/fuzz/seeds/$target" > "$out/$target.log" 2>&1 ||
    {
      tail -n 60 "$out/$target.log"
      exit 1
    }
  grep -E '^stat::(number_of_executed|new)_units' "$out/$target.log" |
    sed "s/^stat::/fuzz-$target: /"
done
