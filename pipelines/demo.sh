#!/bin/bash
# mimidec: from nothing to speech: installs, builds, decodes, draws, plays
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: pipelines/demo.sh [--model FILE] [--out NAME] [--no-play] [LATENTS...]
#
# Decodes files of latents (32 float32 a frame), each as an utterance of its
# own, into one WAV, draws it, plays it where there is a sound card, and says
# how fast that was. What it needs and does not find is installed with apt; the
# plugin is built in build/.
#
#   LATENTS      files to decode; default: the eight sentences of
#                pipelines/demo
#   --model FILE the checkpoint, or the folder that holds it; default: the
#                small one of pipelines/demo, which speaks these sentences only
#   --out NAME   write NAME.wav and NAME.png; default: build/demo
#   --no-play    only write the files
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/pipelines/setup.sh"

model=$demo_model
out=$build/demo play=yes
while [ $# -gt 0 ]; do
  case $1 in
    --model) model=${2:?--model needs a file}; shift 2 ;;
    --out) out=${2:?--out needs a name}; shift 2 ;;
    --no-play) play=no; shift ;;
    -h | --help) print_help; exit 0 ;;
    --) shift; break ;;
    -*) die "unknown option $1 (--help says what there is)" ;;
    *) break ;;
  esac
done

texts=()
if [ $# -eq 0 ]; then
  set -- "$top"/pipelines/demo/sentence-?.f32
  mapfile -t texts <"$top/pipelines/demo/sentences.txt"
fi
for file in "$@"; do
  [ -r "$file" ] || die "cannot read $file"
done

prepare "$draw_packages"

# An element for each utterance; all of them share the model's weights.
branches=() parts=() frames=0
for file in "$@"; do
  count=$(($(wc -c <"$file") / 128))
  [ $count -gt 0 ] || die "$file holds not one frame of 128 bytes"
  frames=$((frames + count))
  branches+=(filesrc "location=$file" ! "$latents" ! mimidec "model=$model" ! c.)
  parts+=(--part "$(seconds $count)" "${texts[${#parts[@]} / 3]:-$(basename "$file")}")
done
mkdir -p "$(dirname "$out")"
part=$out.wav.part
trap 'rm -f "$part"' EXIT
begin=$(date +%s%N)
launch "${branches[@]}" \
  concat name=c ! audio/x-raw,format=S16LE ! wavenc ! filesink "location=$part"
took=$((($(date +%s%N) - begin) / 1000000 + 1))
mv "$part" "$out.wav"

length=$(seconds "$frames")
spoken="$# utterance$([ $# -eq 1 ] || echo s), $length s"
speed=$((frames * 80 * 10 / took))
speed=$((speed / 10)).$((speed % 10))
"$python" "$top/pipelines/draw.py" "$out.wav" "$out.png" "${parts[@]}" \
  --title "mimidec: $spoken, decoded $speed times faster than real time"

echo
echo "Speech:  $out.wav ($spoken, 24 kHz)"
echo "Picture: $out.png"
echo "Speed:   $speed times faster than real time: $length s of speech took $((took / 1000)).$(printf %03d $((took % 1000))) s,"
echo "         from the start of gst-launch-1.0 to its end, opening the model included"
if [ $play = no ]; then
  :
elif ! has_sound; then
  echo "Sound:   there is no sound card here; play the WAV on a machine that has one"
else
  echo "Sound:   playing"
  launch filesrc "location=$out.wav" ! wavparse ! audioconvert \
    ! audioresample ! autoaudiosink || echo "         that did not work; play the WAV instead"
fi
if [ ${#texts[@]} -gt 0 ]; then
  echo
  echo "The same with Kyutai's Pocket TTS, which says whatever you like (it installs"
  echo "pocket-tts from PyPI and loads the checkpoint from Hugging Face, some GB in all):"
  echo "  ./pipelines/kyutai.sh 'Hello world, this is a real checkpoint speaking.'"
fi
