#!/bin/bash
# mimidec: any text, spoken by Kyutai's Pocket TTS and decoded here
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: pipelines/kyutai.sh [--language NAME | --config YAML] [--voice VOICE] TEXT
#
# Does what demo.sh does with a real checkpoint: installs the Python package
# pocket-tts from PyPI into build-kyutai/ (some GB, because PyTorch comes with
# it), lets it load Kyutai's checkpoint from Hugging Face (a few hundred MB, once)
# and turn the text into latents, and gives both to demo.sh.
#
#   --language NAME  a model of pocket-tts: english (default), french,
#                    english_2m_2026-10 ...
#   --config YAML    a configuration of pocket-tts, for weights of your own
#   --voice VOICE    a voice of pocket-tts, or a WAV file, whose voice is taken;
#                    default: the language's own
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/pipelines/setup.sh"

source=() voice=()
while [ $# -gt 0 ]; do
  case $1 in
    --language | --config)
      source=("$1" "${2:?$1 needs a name}")
      shift 2
      ;;
    --voice) voice=(--voice "${2:?--voice needs a name}"); shift 2 ;;
    -h | --help) print_help; exit 0 ;;
    -*) die "unknown option $1 (--help says what there is)" ;;
    *) break ;;
  esac
done
[ $# -eq 1 ] || die "name one text to say (--help says more)"

dir=$top/build-kyutai
if [ ! -x "$dir/bin/pocket-tts" ]; then
  say "Installing pocket-tts into $dir (some GB, once)"
  install_packages "python3 python3-venv"
  "$python" -m venv "$dir"
  "$dir/bin/pip" --disable-pip-version-check -q install 'pocket-tts>=4.0.1'
fi
say "Making latents"
rm -f "$dir"/latents-*.f32
"$dir/bin/python" "$top/pipelines/latents.py" "$1" "${source[@]}" \
  "${voice[@]}" --output "$dir/latents-%d.f32" \
  --checkpoint "$dir/checkpoint.safetensors"
exec "$top/pipelines/demo.sh" --model "$dir/checkpoint.safetensors" \
  --out "$dir/speech" "$dir"/latents-*.f32
