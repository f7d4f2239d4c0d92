#!/bin/bash
# mimidec: installs what tests need, builds, and runs all of them
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: tests/run.sh [--werror] [--quick] [--no-cuda]
#
#   --werror   warnings of the compiler are errors
#   --quick    no sanitizers, no valgrind, no fuzzer
#   --no-cuda  do not look for nvcc, nor fetch it from PyPI
#
# The last line is alone `N passed, N failed`, and `, N skipped` when a check
# could not run here; the exit status is 0 when nothing failed. Needs no GPU,
# and no network beyond Debian's packages and PyPI's.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top" || exit 1
. pipelines/setup.sh

werror=false quick=no cuda=yes
for argument in "$@"; do
  case $argument in
    --werror) werror=true ;;
    --quick) quick=yes ;;
    --no-cuda) cuda=no ;;
    -h | --help) print_help; exit 0 ;;
    *) print_help; exit 2 ;;
  esac
done

passed=0 failed=0 skipped=0 failures=

# Whatever ends the run, the counts are its last line.
finish ()
{
  trap - EXIT
  [ -z "$failures" ] || printf '\nfailed:%s\n' "$failures"
  summary="$passed passed, $failed failed"
  [ "$skipped" -eq 0 ] || summary="$summary, $skipped skipped"
  printf '\n%s\n' "$summary"
  [ "$failed" -eq 0 ]
  exit
}
trap 'failed=$((failed + 1)) failures="$failures setup"; finish' EXIT

# At a terminal the checks stay in its foreground, for Ctrl-C to reach them.
if [ -t 0 ]; then foreground=--foreground; else foreground=; fi

# check SECONDS NAME COMMAND...: one check, stopped after so many seconds.
# Status 77 means that it could not run here.
check ()
{
  limit=$1 name=$2
  shift 2
  printf '\n== %s\n' "$name"
  begin=$(date +%s)
  status=0
  # shellcheck disable=SC2086 # one option or none
  timeout $foreground --kill-after=30 "$limit" "$@" 2>&1 || status=$?
  took=$(($(date +%s) - begin))
  case $status in
    0) passed=$((passed + 1)) result=passed ;;
    77) skipped=$((skipped + 1)) result=skipped ;;
    *) failed=$((failed + 1)) failures="$failures $name" result="failed ($status)" ;;
  esac
  printf '== %s: %s, %s s\n' "$name" "$result" "$took"
}

install_packages "$build_packages $run_packages $draw_packages $test_packages"
# Only Debian 12 has the version whose taste .clang-format describes.
install_optional clang-format-14 || say 'no clang-format-14 here'

set -- -Dtests=enabled -Dwerror=$werror
if [ "$cuda" = yes ] && nvcc=$(fetch_nvcc); then
  set -- "$@" -Dnvcc="$nvcc"
fi

check 300 style tests/style.sh

printf '\n== build\n'
if configure_build "$@" && compile_build; then
  rm -f "$build/meson-logs/testlog.json"
  status=0
  # shellcheck disable=SC2086 # one option or none
  timeout $foreground --kill-after=30 2400 \
    nice meson test -C "$build" --print-errorlogs --num-processes "$(nproc)" \
    2>&1 || status=$?
  if "$python" tests/results.py "$build" >"$build/counts"; then
    read -r ok bad skip names <"$build/counts"
    # Stopped or broken, and not by a test that failed.
    [ "$status" -eq 0 ] || [ "$bad" -ne 0 ] || bad=1 names=meson-test
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    failures="$failures${names:+ $names}"
  else
    failed=$((failed + 1)) failures="$failures meson-test"
  fi
  if [ "$quick" = no ]; then
    check 400 fuzz tests/fuzz/run.sh
    check 1200 sanitize tests/sanitize.sh
    check 1200 valgrind tests/valgrind.sh
  fi
else
  failed=$((failed + 1)) failures="$failures build"
fi
finish
