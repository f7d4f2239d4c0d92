#!/bin/bash
# mimidec: runs the element's tests under valgrind
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: tests/valgrind.sh [TEST...]
#
# Invalid accesses, decisions on uninitialised values and definite leaks fail
# the test that has them. Without names: the tests with the fake decoder, whole,
# and a choice of those that decode, for which valgrind is fifty times slower.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
. pipelines/setup.sh
. tests/plugins.sh
case ${1:-} in -h | --help) print_help; exit 0 ;; esac
command -v valgrind >/dev/null || { say 'no valgrind here'; exit 77; }

folder=$top/build-valgrind
[ -f "$folder/build.ninja" ] \
  || meson setup "$folder" -Dtests=enabled -Dcuda=disabled >&2
nice ninja -C "$folder" >&2

# One process, so that what is left at its end is looked at once; GLib's own
# slices and caches are in the way of finding leaks.
export CK_FORK=no CK_DEFAULT_TIMEOUT=0 G_SLICE=always-malloc GST_REGISTRY_FORK=no
export GST_TRACERS=
export GST_PLUGIN_SYSTEM_PATH=$folder/plugins
use_plugins "$folder/plugins"
export GST_CHECKS_IGNORE=a_second_element_costs_its_state_only

# run NAMES [PATTERNS]: tests of the element, of each those that match.
run ()
{
  names=$1
  if [ -n "${2:-}" ]; then export GST_CHECKS="$2"; else unset GST_CHECKS; fi
  # shellcheck disable=SC2086 # a list of words
  nice meson test -C "$folder" --no-rebuild --print-errorlogs \
    --num-processes "$(nproc)" --timeout-multiplier 20 \
    --logbase "valgrind-${names%% *}" \
    --wrapper "valgrind --quiet --error-exitcode=99 --leak-check=full \
      --show-leak-kinds=definite --errors-for-leak-kinds=definite \
      --num-callers=30" $names
}

if [ $# -gt 0 ]; then
  run "$*"
  exit
fi
run 'caps events faults parse properties'
# Enough to go through opening, decoding, concealing and changing caps.
run 'audio codes lifecycle launch' "$(printf '%s,' \
  'rows_without*' 'an_unfinished_row*' 'too_many_codebooks*' 'vectors_of_the_networks_width*' \
  'without_statistics*' 'a_bad_half_float*' 'the_model_is_open_in_ready*' \
  'another_model_is_not_shared' 'the_first_error_says*')"
run models
