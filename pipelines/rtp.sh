#!/bin/bash
# mimidec: speech over the network in RTP, as Opus or as codes
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: PRODUCER | pipelines/rtp.sh send [--undecoded] [--model FILE] [--caps CAPS]
#                                         [HOST [PORT]]
#        pipelines/rtp.sh receive [--undecoded] [--model FILE] [--out FILE.wav]
#                                 [--seconds N] [--latency MS] [PORT]
#        pipelines/rtp.sh loopback [--undecoded] [--model FILE] [--caps CAPS]
#                                  [--out FILE.wav] [--latency MS] FILE [PORT]
#
# send      decodes latents (32 little-endian float32 for each 80 ms) from stdin
#           and sends them in real time, 20 ms a packet (RFC 7587, payload 96);
#           HOST is 127.0.0.1 and PORT is 5004 by default
# receive   plays what arrives at PORT, until interrupted
# loopback  both on this machine, for a file of latents
#
#   --undecoded     send the latents or codes themselves, a frame a packet, and
#                   decode where they are received: 8 codebooks are 1.6 kbit/s,
#                   Opus is 64. Say it on both sides
#   --model FILE    the checkpoint, or the folder that holds it; default:
#                   $MIMIDEC_MODEL, else the small one of pipelines/demo
#   --caps CAPS     what the input is, when it is not such latents, e.g.
#                   audio/x-mimi,rate=24000,channels=1,codebooks=8
#   --out FILE.wav  write what is received instead of playing it; default where
#                   there is no sound card: received.wav
#   --seconds N     receive for so long, then stop
#   --latency MS    wait so long for packets that are late; default: 100, and
#                   1000 for loopback, where nobody listens
#
# e.g. pipelines/rtp.sh loopback --out r.wav pipelines/demo/sentence-1.f32
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/pipelines/setup.sh"

# Packets leave by the clock, so what comes faster than real time waits. Caps are
# in the packets of undecoded frames, each second again, for who listens later.
send ()
{
  if [ "$undecoded" = yes ]; then
    set -- "$@" ! "$input" ! mimiparse ! rtpgstpay pt=96 config-interval=1
  else
    set -- "$@" ! "$input" ! mimidec "model=$model" \
      ! opusenc frame-size=20 ! rtpopuspay pt=96
  fi
  launch "$@" ! udpsink "host=$host" "port=$port" sync=true
}

receive ()
{
  if [ -z "$out" ] && ! has_sound; then
    out=received.wav
    say "There is no sound card here: writing $out"
  fi
  if [ -n "$out" ]; then
    set -- wavenc ! filesink "location=$out"
  else
    set -- audioconvert ! audioresample ! autoaudiosink
  fi
  # What is late by more than the latency is lost. opusdec conceals it; mimidec
  # begins afresh after it.
  if [ "$undecoded" = yes ]; then
    packets=media=application,encoding-name=X-GST,clock-rate=90000
    set -- rtpgstdepay ! mimidec "model=$model" ! "$@"
  else
    packets=media=audio,encoding-name=OPUS,clock-rate=48000
    set -- rtpopusdepay ! opusdec plc=true \
      ! audio/x-raw,rate=24000,channels=1 ! "$@"
  fi
  # At the end of its time it is interrupted, which finishes the file.
  status=0
  launch_for "$duration" udpsrc "port=$port" \
    "caps=application/x-rtp,payload=96,$packets" \
    ! rtpjitterbuffer latency="${latency:-100}" do-lost=true ! "$@" || status=$?
  [ $status -eq 124 ] || return $status
}

# Interrupts what `receive` runs in the background, once.
stop_receiver ()
{
  if [ -s "$pid_file" ]; then
    kill -INT "$(cat "$pid_file")" 2>/dev/null || true
  fi
  rm -f "$pid_file"
}

is_bound ()
{
  grep -q "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$port") " /proc/net/udp /proc/net/udp6
}

case ${1:-} in
  send | receive | loopback) action=$1 ;;
  -h | --help) print_help; exit 0 ;;
  *) die "say send, receive or loopback first (--help says more)" ;;
esac
shift
host=127.0.0.1 port=5004 input=$latents out='' duration=0 latency='' undecoded=no
while [ $# -gt 0 ]; do
  case $1 in
    --undecoded) undecoded=yes; shift ;;
    --model) model=${2:?--model needs a file}; shift 2 ;;
    --caps) input=${2:?--caps needs caps}; shift 2 ;;
    --out) out=${2:?--out needs a file}; shift 2 ;;
    --latency) latency=${2:?--latency needs a number}; shift 2 ;;
    --seconds) duration=${2:?--seconds needs a number}; shift 2 ;;
    -h | --help) print_help; exit 0 ;;
    -*) die "unknown option $1 (--help says what there is)" ;;
    *) break ;;
  esac
done

case $action in
  send)
    require_pipe
    host=${1:-$host} port=${2:-$port}
    prepare
    send fdsrc fd=0
    ;;
  receive)
    port=${1:-$port}
    prepare
    receive
    ;;
  loopback)
    [ $# -eq 1 ] || [ $# -eq 2 ] || die "name one file of latents or codes"
    port=${2:-$port}
    [ -r "$1" ] || die "cannot read $1"
    prepare
    ! is_bound || die "port $port is in use"
    latency=${latency:-1000}
    pid_file=$(mktemp)
    trap stop_receiver EXIT
    receive &
    receiver=$!
    while ! is_bound; do
      kill -0 $receiver 2>/dev/null || die 'the receiver did not start'
      sleep 0.1
    done
    pid_file='' send filesrc "location=$1"
    # What was sent last waits in the jitter buffer, and takes its time to play.
    sleep $((latency / 1000 + 2))
    stop_receiver
    wait $receiver
    ;;
esac
