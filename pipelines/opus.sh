#!/bin/bash
# mimidec: latents to an Ogg/Opus file
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: PRODUCER | pipelines/opus.sh [--model FILE] [--caps CAPS]
#                                       [--bitrate BITS] FILE.opus
#
# Decodes latents (32 little-endian float32 for each 80 ms) from stdin and
# compresses the speech as it comes. Opus takes 24 kHz as it is: nothing is
# resampled.
#
#   --model FILE    the checkpoint, or the folder that holds it; default:
#                   $MIMIDEC_MODEL, else the small one of pipelines/demo
#   --caps CAPS     what the input is, when it is not such latents, e.g.
#                   audio/x-mimi,rate=24000,channels=1,codebooks=8
#   --bitrate BITS  bits a second; default: 32000
#   FILE.opus       what to write; - for stdout
#
# e.g. cat pipelines/demo/sentence-1.f32 | pipelines/opus.sh sentence-1.opus
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/pipelines/setup.sh"

bitrate=32000 input=$latents
while [ $# -gt 0 ]; do
  case $1 in
    --model) model=${2:?--model needs a file}; shift 2 ;;
    --caps) input=${2:?--caps needs caps}; shift 2 ;;
    --bitrate) bitrate=${2:?--bitrate needs a number}; shift 2 ;;
    -h | --help) print_help; exit 0 ;;
    -) break ;;
    -*) die "unknown option $1 (--help says what there is)" ;;
    *) break ;;
  esac
done
[ $# -eq 1 ] || die "name one file to write (--help says more)"
require_pipe
prepare

if [ "$1" = - ]; then
  set -- fdsink fd=3
else
  write_beside "$1"
  set -- filesink "location=$part"
fi
launch fdsrc fd=0 ! "$input" ! mimidec "model=$model" \
  ! opusenc "bitrate=$bitrate" ! oggmux ! "$@"
