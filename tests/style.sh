#!/bin/bash
# mimidec: checks how the sources are written
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: tests/style.sh
#
# clang-format over C and CUDA (version 14 only: every version formats a
# little differently), shellcheck over scripts, pyflakes over Python, the licence
# line in each file, and the links between the pages of documentation. A tool that is missing is reported; then the exit
# status is 77 if nothing else was wrong.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
. pipelines/setup.sh
case ${1:-} in -h | --help) print_help; exit 0 ;; esac

status=0
missing=

# sources ENDINGS: the repository's files with these endings, as in 'c|h'
sources ()
{
  find . \( -name 'build*' -o -name '_*' -o -name .git -o -name shared \) \
    -type d -prune -o -type f -regextype egrep -regex ".*\.($1)" -print | sort
}

if command -v clang-format-14 >/dev/null; then
  sources 'c|h|cu|cuh' \
    | xargs -r clang-format-14 --dry-run -Werror || status=1
else
  missing="$missing clang-format-14"
fi

scripts=$(sources sh; echo .ci/run)
if command -v shellcheck >/dev/null; then
  # shellcheck disable=SC2086 # a list of words
  shellcheck -x -P SCRIPTDIR $scripts || status=1
else
  missing="$missing shellcheck"
fi

if command -v pyflakes3 >/dev/null; then
  sources py | xargs -r pyflakes3 || status=1
else
  missing="$missing pyflakes3"
fi

for file in $(sources 'c|h|cu|cuh|sh|py') .ci/run; do
  head -n 3 "$file" | grep -q 'SPDX-License-Identifier: LGPL-2.1-or-later' || {
    say "$file: no SPDX line at its top"
    status=1
  }
done

# links PAGE: where its links lead to
links ()
{
  sed -nE 's/^\[[^]]*\]: *([^ #]+).*/\1/p' "$1"
  grep -oE '\]\([^)# ]+' "$1" | sed 's/^](//'
}

for page in $(sources md); do
  for target in $(links "$page" | grep -v ://); do
    [ -e "$(dirname "$page")/$target" ] || {
      say "$page: a link to $target, which is not there"
      status=1
    }
  done
done

[ "$status" -ne 0 ] || [ -z "$missing" ] || {
  say "not checked, for want of:$missing"
  exit 77
}
exit "$status"
