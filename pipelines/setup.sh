# mimidec: what the scripts share: packages, the build, the environment
# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC2034,SC2119,SC2120
#
# To be sourced, with `top` set to the root of the repository. It defines
# functions and does nothing by itself; all of them print to stderr only,
# because the output of a script may be audio.

: "${top:?set top to the root of the repository first}"

build=${MIMIDEC_BUILD:-$top/build}
nvcc_dir=${MIMIDEC_NVCC_DIR:-$top/build-nvcc}
# nvcc, what it calls, and the headers that device code includes (cuda_bf16.h
# takes one from cccl).
nvcc_wheels='nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.*
  nvidia-cuda-crt==13.0.* nvidia-cuda-runtime==13.0.*
  nvidia-cuda-cccl==13.0.*'

# Debian's names. To build; to run pipelines; to draw; to test.
build_packages='gcc libc6-dev meson ninja-build pkg-config
  libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev
  libjson-glib-dev libyaml-dev'
run_packages='gstreamer1.0-tools gstreamer1.0-plugins-base
  gstreamer1.0-plugins-good gstreamer1.0-alsa'
draw_packages='python3 python3-numpy python3-matplotlib'
test_packages='python3-numpy python3-gi gir1.2-gstreamer-1.0
  gir1.2-gst-plugins-base-1.0 gstreamer1.0-plugins-bad valgrind
  clang libclang-rt-dev llvm shellcheck pyflakes3 procps'

# Debian's Python, which is the one that has Debian's modules; others may come
# first in PATH.
python=/usr/bin/python3
[ -x $python ] || python=python3

# What a raw file or pipe of latents holds, for gst-launch-1.0.
latents=audio/x-mimi-latent,rate=24000,channels=1,dims=32

# The checkpoint, where no option names another: what the element itself would
# take, else the small one that only speaks the demo's sentences.
demo_model=$top/pipelines/demo/mimi-demo.safetensors
model=${MIMIDEC_MODEL:-$demo_model}

# seconds FRAMES
seconds ()
{
  printf '%d.%02d\n' $(($1 * 8 / 100)) $(($1 * 8 % 100))
}

say ()
{
  printf '%s\n' "$*" >&2
}

die ()
{
  say "$(basename "$0"): $*"
  exit 1
}

# The comment that a script opens with, from its fifth line on, is its help.
print_help ()
{
  sed -n '5,/^[^#]/s/^# \{0,1\}//p' "$0"
}

is_installed ()
{
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

is_available ()
{
  apt-cache show "$1" >/dev/null 2>&1
}

as_root ()
{
  if [ "$(id -u)" -eq 0 ]; then
    env "$@"
  elif command -v sudo >/dev/null; then
    sudo env "$@"
  else
    say "needs root or sudo to run: $*"
    return 1
  fi
}

apt_get ()
{
  quietly as_root DEBIAN_FRONTEND=noninteractive apt-get -qq \
    -o DPkg::Lock::Timeout=300 "$@"
}

# Without Debian's package database, all that can be done is to see whether
# the things themselves are there.
check_foreign_system ()
{
  absent=
  for command in cc meson ninja pkg-config gst-launch-1.0; do
    command -v $command >/dev/null || absent="$absent $command"
  done
  if command -v pkg-config >/dev/null; then
    for module in gstreamer-1.0 gstreamer-audio-1.0 json-glib-1.0 yaml-0.1; do
      pkg-config --exists $module || absent="$absent $module"
    done
  fi
  [ -n "$absent" ] || return 0
  say "This is not Debian, and these are missing:$absent"
  say "Install what your system calls (Debian's names):"
  # shellcheck disable=SC2086 # a list of words
  say "$(printf '  %s\n' $1)"
  exit 1
}

# install_packages LIST: installs those that are missing, and asks nobody
# (neither root nor the network) when none is. A caller that says where a build
# is (a test) has what it needs.
install_packages ()
{
  [ -z "${MIMIDEC_BUILD:-}" ] || return 0
  if ! command -v apt-get >/dev/null; then
    check_foreign_system "$1"
    return
  fi
  missing=
  for package in $1; do
    is_installed "$package" || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  say "Installing (this takes a minute):$missing"
  apt_get update || say "apt-get update failed; trying with the lists as they are"
  # shellcheck disable=SC2086 # a list of words
  apt_get install -y --no-install-recommends $missing \
    || die "could not install:$missing"
}

# install_optional PACKAGE: succeeds when it is there afterwards.
install_optional ()
{
  command -v apt-get >/dev/null || return 1
  is_installed "$1" && return
  is_available "$1" || return 1
  apt_get install -y --no-install-recommends "$1"
}

# MIMIDEC_NVCC names another one: that of CUDA 12, for a driver older than 580.
find_nvcc ()
{
  if [ -n "${MIMIDEC_NVCC:-}" ]; then
    command -v "$MIMIDEC_NVCC" || { say "MIMIDEC_NVCC: no program $MIMIDEC_NVCC"; return 1; }
    return
  fi
  for nvcc in "$nvcc_dir"/nvidia/cu13/bin/nvcc /usr/local/cuda/bin/nvcc; do
    [ ! -x "$nvcc" ] || { echo "$nvcc"; return; }
  done
  command -v nvcc
}

# fetch_nvcc: prints the path of an nvcc, taken from PyPI (100 MB to load) when
# the machine has none. Fails, with a message, when there is none to be had: the
# plugin is then built without its CUDA backend.
fetch_nvcc ()
{
  find_nvcc && return
  [ -z "${MIMIDEC_NVCC:-}" ] || return 1
  say "Fetching nvcc from PyPI into $nvcc_dir"
  rm -rf "$nvcc_dir" "$nvcc_dir.part"
  # shellcheck disable=SC2086 # a list of words
  if install_optional python3-pip \
    && "$python" -m pip --disable-pip-version-check --no-input install -q \
      --root-user-action ignore --no-deps --no-compile \
      --target "$nvcc_dir.part" $nvcc_wheels >&2 \
    && mv "$nvcc_dir.part" "$nvcc_dir" && find_nvcc; then
    return
  fi
  rm -rf "$nvcc_dir.part"
  say "No nvcc (no network, or no wheel for this machine): the plugin is built for the CPU only"
  return 1
}

# A driver is there, so a CUDA backend could be used.
has_nvidia_gpu ()
{
  [ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || [ -e /dev/nvhost-gpu ]
}

# Runs a command and shows what it printed only if it failed.
quietly ()
{
  quiet_log=$(mktemp)
  "$@" >"$quiet_log" 2>&1 || {
    cat "$quiet_log" >&2
    rm -f "$quiet_log"
    return 1
  }
  rm -f "$quiet_log"
}

# configure_build [MESON OPTION...]
configure_build ()
{
  if [ ! -f "$build/build.ninja" ]; then
    say "Configuring in $build"
    quietly meson setup "$build" "$top" "$@"
  elif [ $# -gt 0 ]; then
    quietly meson configure "$build" "$@"
  fi
}

# compile_build [TARGET...]: those, or all.
compile_build ()
{
  say "Building"
  quietly meson compile -C "$build" "$@"
}

# Lets GStreamer find what was built.
use_plugin ()
{
  export GST_PLUGIN_PATH="$build/gst${GST_PLUGIN_PATH:+:$GST_PLUGIN_PATH}"
  # A registry of our own: the user's is not touched, and what it remembers
  # about another build is not believed.
  export GST_REGISTRY="$build/gst-registry.bin"
}

# A card that ALSA knows, or a sound server.
has_sound ()
{
  [ -z "${PULSE_SERVER:-}" ] || return 0
  for path in /dev/snd/pcm*p \
    "${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/pulse/native" \
    "${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/pipewire-0"; do
    [ ! -e "$path" ] || return 0
  done
  return 1
}

# For a script that reads latents from stdin.
require_pipe ()
{
  [ ! -t 0 ] || die "feed latents to stdin, as in: cat x.f32 | $0 (--help says more)"
}

# prepare [LIST]: what the scripts that decode have in common: installs (the
# packages of the list too), builds, and lets GStreamer find the plugin.
prepare ()
{
  install_packages "$build_packages $run_packages ${1:-}"
  if [ -z "${MIMIDEC_BUILD:-}" ]; then
    options=()
    if has_nvidia_gpu && nvcc=$(fetch_nvcc); then
      options=("-Dnvcc=$nvcc")
    fi
    configure_build "${options[@]}" || die 'cannot configure the build'
    compile_build gstmimi mimi-bench || die 'the build failed'
  fi
  use_plugin
  # Also scans the plugin, so that no later run pays for that.
  gst-inspect-1.0 mimidec >/dev/null || die 'GStreamer cannot load mimidec'
}

# write_beside FILE: sets $part, the name to write under until the script ends.
# Then it takes FILE's place, unless nothing was written: a run that came to
# nothing leaves what was there. What is no regular file (a FIFO, say) is written
# to as it is.
write_beside ()
{
  target=$1
  part=$1
  [ ! -e "$1" ] || [ -f "$1" ] || return 0
  part=$1.part
  trap 'if [ -s "$part" ]; then mv -- "$part" "$target"; else rm -f -- "$part"; fi' EXIT
}

# launch_for SECONDS WORDS...: gst-launch-1.0, interrupted after so long (0:
# never), that speaks up when something is wrong (-q would hide warnings too) and
# not otherwise. A pipeline that writes to stdout finds it at descriptor 3. What
# filters the warnings outlives an interruption from the keyboard, to which
# gst-launch-1.0 answers by finishing its files. Its process id goes to the file
# $pid_file, if that is set, for somebody else to interrupt it.
launch_for ()
{
  {
    # shellcheck disable=SC2016 # for the inner shell to expand
    timeout --foreground --signal=INT "$1" \
      sh -c 'echo $$ >"$0"; exec gst-launch-1.0 -e "$@"' \
      "${pid_file:-/dev/null}" "${@:2}" \
      | (trap '' INT; exec sed -un '/^WARNING/p' >&2)
  } 3>&1
}

launch ()
{
  launch_for 0 "$@"
}
