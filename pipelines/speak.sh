#!/bin/bash
# mimidec: latents from another process to the speaker
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: PRODUCER | pipelines/speak.sh [--model FILE] [--caps CAPS]
#                                        [--out FILE.wav]
#
# Speaks latents (32 little-endian float32 for each 80 ms) as they arrive on
# stdin: the first sound comes with the first frame, and a producer that pauses
# makes a pause and no more. All of it is one utterance. Where there is no sound
# card the speech goes to a file.
#
#   --model FILE    the checkpoint, or the folder that holds it; default:
#                   $MIMIDEC_MODEL, else the small one of pipelines/demo
#   --caps CAPS     what the input is, when it is not such latents, e.g.
#                   audio/x-mimi,rate=24000,channels=1,codebooks=8
#   --out FILE.wav  to this file, sound card or not; default: speech.wav in the
#                   current folder
#
# e.g. cat pipelines/demo/sentence-1.f32 | pipelines/speak.sh
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/pipelines/setup.sh"

out='' input=$latents
while [ $# -gt 0 ]; do
  case $1 in
    --model) model=${2:?--model needs a file}; shift 2 ;;
    --caps) input=${2:?--caps needs caps}; shift 2 ;;
    --out) out=${2:?--out needs a file}; shift 2 ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument $1 (--help says what there is)" ;;
  esac
done
require_pipe
prepare

if [ -z "$out" ] && ! has_sound; then
  out=speech.wav
  say "There is no sound card here: writing $out"
fi
if [ -n "$out" ]; then
  write_beside "$out"
  set -- wavenc ! filesink "location=$part"
else
  # Unsynchronised, the card itself sets the pace, and a late frame is played
  # when it comes instead of being dropped.
  set -- audioconvert ! audioresample ! autoaudiosink sync=false
fi
launch fdsrc fd=0 ! "$input" ! mimidec "model=$model" ! "$@"
