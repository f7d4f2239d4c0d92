#!/bin/bash
# mimidec: builds with AddressSanitizer and UBSan, and runs the tests with them
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: tests/sanitize.sh [TEST...]
#
# Stray accesses, leaks and undefined behaviour fail the test that has them.
# Without names: all tests but those that start programs of others (which were
# not built with the sanitizers), and the two longest, whose networks
# cpu-goldens-large decodes too.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
. pipelines/setup.sh
. tests/plugins.sh
case ${1:-} in -h | --help) print_help; exit 0 ;; esac

folder=$top/build-sanitize
[ -f "$folder/build.ninja" ] \
  || meson setup "$folder" -Dtests=enabled -Dcuda=disabled \
    -Db_sanitize=address,undefined -Db_lundef=false >&2
nice ninja -C "$folder" >&2

# In the tests' own process: the scanner of plugins has no sanitizer in it.
export GST_REGISTRY_FORK=no G_SLICE=always-malloc GST_TRACERS=
use_plugins "$folder/plugins"
export GST_PLUGIN_SYSTEM_PATH=$folder/plugins
export ASAN_OPTIONS=detect_leaks=1:fast_unwind_on_malloc=0:malloc_context_size=8:strict_string_checks=1:abort_on_error=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export LSAN_OPTIONS=suppressions="$top/tests/lsan.supp":print_suppressions=0
# What a process of ASan's weighs says nothing.
export GST_CHECKS_IGNORE=a_second_element_costs_its_state_only

if [ $# -eq 0 ]; then
  # shellcheck disable=SC2046 # one word a test
  set -- $(meson test -C "$folder" --list --no-suite pipelines --no-suite soak 2>/dev/null \
    | sed 's/.* \/ //; s/ *$//' | grep -vxE 'scan|codes-.*|cpu-oracle-pocket(18m)?')
fi
nice meson test -C "$folder" --no-rebuild --print-errorlogs \
  --num-processes "$(nproc)" --timeout-multiplier 5 "$@"
