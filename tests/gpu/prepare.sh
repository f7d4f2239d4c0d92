#!/bin/bash
# mimidec: what tests/gpu/run.sh needs on a machine that has nothing but a GPU
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: tests/gpu/prepare.sh [FOLDER [ARCHITECTURES]]
#
# Builds the CUDA backend, mimi-bench and tests without GStreamer, and puts them
# into FOLDER (build-carry) with every library that they load, checkpoints and what the
# oracle makes of them: less than 64 MiB, to be copied with the repository. Needs no GPU.
# ARCHITECTURES (75,80,86,89,90,100,120): those of the card make it smaller.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top"
. pipelines/setup.sh
case ${1:-} in -h | --help) print_help; exit 0 ;; esac
carry=${1:-$top/build-carry}
build=$top/build-gpu

install_packages "$build_packages python3-numpy binutils"
set -- -Dgstreamer=disabled -Dtests=enabled -Dcuda=enabled -Dbuildtype=release \
  "-Dcuda-architectures=${2:-}"
nvcc=$(fetch_nvcc) || die 'no nvcc, so no device code'
set -- "$@" "-Dnvcc=$nvcc"
[ -f "$build/build.ninja" ] && set -- --reconfigure "$@"
quietly meson setup "$build" "$@"

programs='kernels/bench/mimi-bench tests/cuda/test-cuda-oracle'
programs="$programs tests/cuda/test-cuda-batch tests/cuda/test-cuda-run tests/kernels/test-state"
windows='tiny-512 pocket2m-300 tinyfull-10' # which have a config.json of their own
oracles="tiny tiny-BF16 pocket2m pocket tinyfull tinyfull-5 $windows"
checkpoints='tests/kernels/tiny-pocket tests/kernels/tiny-pocket-BF16
  tests/kernels/pocket2m-pocket tests/kernels/tinyfull-moshi
  tests/kernels/tiny-rawnorm tests/kernels/tiny-hfpocket'
largest=tests/cuda/pocket-pocket
targets=$programs
for name in $oracles; do targets="$targets tests/cuda/$name.oracle"; done
for name in $checkpoints $largest; do targets="$targets $name.safetensors"; done
# shellcheck disable=SC2086 # a list of words
quietly ninja -C "$build" $targets

rm -rf "$carry"
mkdir -p "$carry/programs/lib" "$carry/programs/libc"
for file in $targets; do
  case " $programs " in
    *" $file "*) to=$carry/programs/$file ;;
    *) to=$carry/$file ;;
  esac
  mkdir -p "$(dirname "$to")"
  cp -L "$build/$file" "$to"
done
for name in $windows; do cp "$build/tests/cuda/$name.json" "$carry/tests/cuda"; done
for program in $programs; do
  strip "$carry/programs/$program"
  ldd "$carry/programs/$program"
done | awk '$2 == "=>" { print $3 } $1 ~ /ld-linux/ { print $1 }' | sort -u \
  | while read -r library; do
    # What belongs to libc is used only where the machine's own is too old.
    case $(basename "$library") in
      ld-linux* | libc.* | libm.* | libdl.* | libpthread.* | librt.*)
        cp -L "$library" "$carry/programs/libc/" ;;
      *) cp -L "$library" "$carry/programs/lib/" ;;
    esac
  done
tar -C "$carry/programs" -czf "$carry/programs.tar.gz" .
rm -rf "$carry/programs"
git rev-parse --short HEAD >"$carry/version" 2>/dev/null || echo unknown >"$carry/version"

# mebibytes: of the folder, in tenths
mebibytes ()
{
  du -sb "$carry" | awk '{ printf "%.1f\n", $1 / 1048576 }'
}

size=$(mebibytes)
if [ "${size%.*}" -ge 64 ]; then
  rm -f "$carry/$largest.safetensors"
  say "$size MiB: leaving out the largest checkpoint, which run.sh makes again if there is numpy"
fi
say "$carry: $(mebibytes) MiB"
