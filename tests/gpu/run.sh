#!/bin/bash
# mimidec: tests and measures the CUDA backend on a machine with a GPU
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: tests/gpu/run.sh [--build FOLDER] [--seconds N] [--small]
#
# Needs bash, a driver, and a FOLDER (build-carry) that tests/gpu/prepare.sh made somewhere
# else; without one it builds here, which needs what the README names. No GStreamer, no
# network. A Python with numpy, one with PyTorch, and compute-sanitizer are used where they
# are found. Ends after N seconds (345), whatever happens; a section that fails or takes too
# long does not keep the others from running. The last lines are a section for
# docs/measurements.md; it (report.md) and logs.tar.gz are also in $OUT, else in FOLDER/results.
#
#   --small  one small network, few frames: for the simulated GPU of tests/cudasim
# shellcheck disable=SC2317 # functions that section() calls, by their names
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top" || exit 1
. pipelines/setup.sh

begin=$SECONDS
folder=$top/build-carry total=345 small=no patience=1
while [ $# -gt 0 ]; do
  case $1 in
    --build) folder=$(cd "$2" && pwd) || exit 2; shift ;;
    --seconds) total=$2; shift ;;
    --small) small=yes patience=4 ;;
    -h | --help) print_help; exit 0 ;;
    *) print_help; exit 2 ;;
  esac
  shift
done

# ---------------------------------------------------------------- programs

# Without what prepare.sh made: all that a build takes, if this machine has it.
if [ ! -x "$folder/kernels/bench/mimi-bench" ] && [ ! -f "$folder/programs.tar.gz" ]; then
  say "no programs in $folder: building"
  tests/gpu/prepare.sh "$folder" || die 'cannot build here; run tests/gpu/prepare.sh elsewhere and copy its folder'
fi
out=${OUT:-$folder/results}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/bin"
rm -f "$out"/*.log "$out/logs.tar.gz" "$out/report.md"

programs=$folder
if [ -f "$folder/programs.tar.gz" ]; then
  programs=$work/programs
  mkdir "$programs"
  tar -C "$programs" -xzf "$folder/programs.tar.gz" || die 'cannot unpack the programs'
fi

# works COMMAND...: exits well, and says nothing.
works ()
{
  timeout 30 "$@" >/dev/null 2>&1
}

# A program with the libraries that came with it, and their libc if this
# machine's is too old for them: $work/bin/NAME.
wrap ()
{
  path=$programs/$1
  {
    echo '#!/bin/sh'
    if [ ! -d "$programs/lib" ]; then
      echo "exec '$path' \"\$@\""
    elif works env LD_LIBRARY_PATH="$programs/lib" "$path" --help; then
      echo "LD_LIBRARY_PATH='$programs/lib'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec '$path' \"\$@\""
    else
      echo "exec $(echo "$programs"/libc/ld-linux*) --library-path '$programs/libc:$programs/lib'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} '$path' \"\$@\""
    fi
  } >"$work/bin/$(basename "$1")"
  chmod +x "$work/bin/$(basename "$1")"
}

for program in kernels/bench/mimi-bench tests/cuda/test-cuda-oracle \
  tests/cuda/test-cuda-batch tests/cuda/test-cuda-run tests/kernels/test-state; do
  wrap $program
done
bench=$work/bin/mimi-bench

# The first Python that can import MODULE.
find_python ()
{
  for candidate in python3 python /usr/bin/python3 /usr/local/bin/python3 \
    /opt/conda/bin/python /opt/venv/bin/python ${MIMIDEC_TORCH_PYTHON:-}; do
    works "$candidate" -c "import $1" && { command -v "$candidate"; return; }
  done
  return 1
}

numpy=$(find_python numpy) || numpy=
torch=$(find_python torch,numpy) || torch=
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) || sanitizer=

# checkpoint NAME: where it is; made if there is numpy.
checkpoint ()
{
  for path in "$folder/tests/cuda/$1.safetensors" \
    "$folder/tests/kernels/$1.safetensors" "$work/$1.safetensors"; do
    [ ! -s "$path" ] || { echo "$path"; return; }
  done
  [ -n "$numpy" ] || return 1
  set -- "$1" "${1%%-*}" "${1#*-}"
  [ $((total - SECONDS + begin)) -gt 20 ] || return 1
  timeout 60 "$numpy" tests/reference/make_checkpoint.py "$2" "${3%-BF16}" "$work/$1.safetensors" \
    --dtype "$([ "${3%-BF16}" = "$3" ] && echo F32 || echo BF16)" >&2 \
    && echo "$work/$1.safetensors"
}

export MIMI_TEST_CUDA=1
export MIMI_TEST_CHECKPOINTS=$folder/tests/kernels
export MIMI_TEST_ORACLES=$folder/tests/cuda
export MIMI_TEST_GOLDENS=$top/tests/reference/goldens

# ---------------------------------------------------------------- sections

status=0
names=()
declare -A result

# section NAME SECONDS COMMAND...: a program, or one of the functions below; what
# it prints is kept in NAME.log.
section ()
{
  name=$1 limit=$(($2 * patience))
  shift 2
  names+=("$name")
  left=$((total - (SECONDS - begin) - 5))
  if [ $left -lt 3 ]; then
    result[$name]='no time left'
    return
  fi
  [ "$limit" -le $left ] || limit=$left
  printf '\n== %s\n' "$name"
  start=$SECONDS
  # shellcheck disable=SC2016 # for the inner shell
  timeout --kill-after=3 "$limit" bash -c '"$@"' section "$@" 2>&1 \
    | tee "$out/$name.log"
  code=${PIPESTATUS[0]}
  took=$((SECONDS - start))
  case $code in
    0) result[$name]="ok, $took s" ;;
    124 | 137) result[$name]="stopped after $took s" status=1 ;;
    *) result[$name]="FAILED ($code), $took s" status=1 ;;
  esac
  printf '== %s: %s\n' "$name" "${result[$name]}"
}

# absent NAME WHY
absent ()
{
  names+=("$1")
  result[$1]="not here: $2"
  printf '\n== %s: %s\n' "$1" "${result[$1]}"
}

describe ()
{
  uname -srm
  nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,memory.total,power.limit \
    --format=csv,noheader 2>/dev/null || echo 'no nvidia-smi'
  nvidia-smi 2>/dev/null | grep -o 'CUDA Version: [0-9.]*'
  grep -m1 'model name' /proc/cpuinfo
  echo "numpy: ${numpy:-none}; torch: ${torch:-none}; compute-sanitizer: ${sanitizer:-none}"
  "$bench" --backend cuda --batch 1 --frames 1 "$small_model"
}

# sanitize TOOL: a few frames of a stream alone, then several in a launch.
sanitize ()
{
  head -c 384 "tests/reference/goldens/$network.f32" >"$work/few.f32"
  "$sanitizer" --tool "$1" --target-processes all --error-exitcode 9 \
    "$bench" --backend cuda -i "$work/few.f32" -o "$work/pcm.f32" "$model" || return
  "$sanitizer" --tool "$1" --target-processes all --error-exitcode 9 \
    "$bench" --backend cuda --batch 3 --frames 1 "$small_model"
}

# measure OPTION...: of mimi-bench; the last is the model.
measure ()
{
  "$bench" --backend cuda --frames "$frames" --seconds "$seconds" "$@"
}

# compare OPTION...: of torch_step.py.
compare ()
{
  "$torch" tests/gpu/torch_step.py --device "$device" --steps "$frames" \
    --seconds "$seconds" "$@"
}

others='pocket18m-pocket pocket2m-pocket full-moshi' network=pocket
sizes=1,2,4,8,16,32,64,128,256,512,1024 few_sizes=1,64,1024 host_sizes=1,16
threads=1,16,256
seconds=0.7 frames=1000 device=cuda
gates='pocket pocket18m pocket2m tiny tinyfull demo --frames 750' only='' only_batch=''
only_run='-p /cuda/run/bad -p /cuda/run/together -p /cuda/run/state -p /cuda/run/window -p /cuda/run/threads'
golden_names='tiny tiny-erf pocket pocket18m pocket2m tinyfull-8'
if [ $small = yes ]; then
  others='' network=tiny sizes=1,3 few_sizes=1 host_sizes=1 threads=3 seconds=0.1 frames=2
  device=cpu gates='tiny --frames 4 --precision fp32,bf16' only='-p /cuda/fp32/tiny-pocket'
  only_batch='-p /cuda/batch/reuse' only_run='-p /cuda/run/together' golden_names=tiny
fi
model=$(checkpoint $network-pocket) || model=
small_model=$(checkpoint tiny-pocket)
export bench work network model small_model numpy torch sanitizer frames seconds device
export -f describe sanitize measure compare

section card 40 describe
# What prepare.sh leaves out, some only where all would be too much; gates are below.
[ -e "$folder/tests/cuda/pocket-pocket.safetensors" ] || only="$only -s /cuda/fp32/pocket-pocket"
[ -e "$folder/tests/cuda/pocket18m.oracle" ] || only="$only -s /cuda/fp32/pocket18m-pocket
  -s /cuda/tf32/pocket18m -s /cuda/bf16/pocket18m"
[ -e "$folder/tests/cuda/broad-50.oracle" ] || only="$only -s /cuda/broad"
# shellcheck disable=SC2086 # a list of words
section oracle 60 "$work/bin/test-cuda-oracle" $only
# shellcheck disable=SC2086 # a list of words
section batch 40 "$work/bin/test-cuda-batch" $only_batch
# shellcheck disable=SC2086 # a list of words
section runs 40 "$work/bin/test-cuda-run" $only_run
section state 30 "$work/bin/test-state"
if [ -n "$model" ]; then
  section bench-fp32 70 measure --batch $sizes "$model"
  section bench-threads 30 measure --batch $threads --apart "$model"
  section bench-state 30 measure --batch $host_sizes --state device,host "$model"
  section bench-runs 25 measure --batch $host_sizes --chunk 8 "$model"
else
  absent bench-fp32 "no $network-pocket.safetensors, and no numpy to make it"
fi

if [ -n "$torch" ] && [ -n "$model" ]; then
  if [ $small = no ]; then
    section torch-fp32 100 compare "$model" --batch 1 --budget 90
    section torch-batch 30 compare "$model" --batch 16,64,256 --modes eager,graphed --budget 25
    section torch-tf32 30 compare "$model" --precision tf32 --modes graphed
    section torch-exact 25 "$torch" tests/gpu/torch_step.py "$small_model" --check \
      --modes eager,graphed
  else
    section torch-fp32 60 compare "$model" --modes eager,host
    section torch-exact 60 "$torch" tests/gpu/torch_step.py "$small_model" --check --frames 4 \
      --modes eager
  fi
else
  absent torch-fp32 'no Python with torch and numpy'
fi

for precision in tf32 bf16; do
  [ -z "$model" ] || section bench-$precision 25 measure --batch $few_sizes \
    --precision $precision "$model"
done
for tool in memcheck racecheck; do
  if [ -n "$sanitizer" ]; then section $tool 45 sanitize $tool
  else absent $tool 'no compute-sanitizer'; fi
done
if [ -n "$numpy" ]; then
  # shellcheck disable=SC2086 # a list of words
  section gates 90 "$numpy" tests/cuda/check_cuda.py "$bench" gates $gates --table
  # shellcheck disable=SC2086 # a list of words
  section goldens 40 "$numpy" tests/cuda/check_cuda.py "$bench" goldens $golden_names
else
  absent gates 'no Python with numpy'
fi
for name in $others; do
  if path=$(checkpoint "$name"); then
    section "bench-${name%%-*}" 25 measure --batch $few_sizes "$path"
  else
    absent "bench-${name%%-*}" 'no numpy or no time to make its checkpoint'
  fi
done

# ------------------------------------------------------------------ report

# table NAME TITLE: the tables of a section's log.
table ()
{
  if [ -s "$out/$1.log" ] && grep -q '^|' "$out/$1.log"; then
    printf '\n%s\n\n' "$2"
    grep '^|' "$out/$1.log"
  fi
}

fence='```'
card=$(sed -n 's/^decodes on *cuda, \(.*\); weights.*/\1/p' "$out/card.log" 2>/dev/null | head -n 1)
{
  printf '## %s, %s\n\n' "$(date -u +%Y-%m-%d)" "${card:-no GPU}"
  printf 'mimidec %s, %s s.\n\n' \
    "$(cat "$folder/version" 2>/dev/null || git rev-parse --short HEAD 2>/dev/null)" \
    $((SECONDS - begin))
  printf '%s\n%s\n%s\n\n' "$fence" "$(grep -v '^|\|^$\|^model\|^warning' "$out/card.log" 2>/dev/null)" "$fence"
  printf '| section | result |\n|---|---|\n'
  for name in "${names[@]}"; do printf '| %s | %s |\n' "$name" "${result[$name]}"; done
  table bench-fp32 "mimi-bench, $network, fp32"
  table bench-threads 'Each stream in a thread of its own, as elements are'
  table bench-state 'State on the device, and passed in and out at every frame'
  table bench-runs 'Eight frames of each stream a step'
  table torch-fp32 "PyTorch, the same step of the same checkpoint, fp32"
  table torch-batch 'PyTorch, batches, fp32'
  table torch-tf32 'PyTorch, tf32 allowed'
  table bench-tf32 "mimi-bench, $network, tf32"
  table bench-bf16 "mimi-bench, $network, bf16"
  for name in $others; do table "bench-${name%%-*}" "mimi-bench, ${name%%-*}, fp32"; done
  table gates 'SNR against the float64 oracle'
} >"$out/report.md"
printf '\n'
cat "$out/report.md"
# Two files are easier to bring back than thirty.
(cd "$out" && tar -czf logs.tar.gz ./*.log && rm ./*.log)
exit $status
