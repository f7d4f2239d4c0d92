#!/bin/sh
# Scanning the plugin must look for no driver, nor may loading it need one
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# usage: scan.sh PLUGIN_FOLDER: wants an element in a fresh registry
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
GST_PLUGIN_PATH=$1
GST_REGISTRY=$folder/registry
# In this process, so that what the loader says is to be seen.
GST_REGISTRY_FORK=no
export GST_PLUGIN_PATH GST_REGISTRY GST_REGISTRY_FORK

# LD_DEBUG lists each library that the loader looks for, also in vain.
LD_DEBUG=files,libs LD_DEBUG_OUTPUT=$folder/loader \
  gst-inspect-1.0 mimidec >"$folder/inspect"
cat "$folder"/loader.* >"$folder/log"
grep -q libgstmimi "$folder/log" || {
  echo 'the plugin was not loaded, or LD_DEBUG does not work'
  exit 1
}
if grep -E 'libgstmimi.*(cuda|nvidia|nvrtc)' "$folder/log"; then
  exit 1
fi
# Other plugins may look for a driver; ours must need nothing of it.
if readelf -d "$1/libgstmimi.so" | grep -E 'NEEDED.*(cuda|nvidia|nvrtc)'; then
  echo 'the plugin is linked with a driver'
  exit 1
fi
# Alone: no plugin but ours, so whoever looks for a driver is ours.
rm -f "$folder"/loader.* "$GST_REGISTRY"
GST_PLUGIN_SYSTEM_PATH='' LD_DEBUG=files,libs LD_DEBUG_OUTPUT=$folder/loader \
  gst-inspect-1.0 mimidec >"$folder/inspect"
if cat "$folder"/loader.* | grep -E 'cuda|nvidia|nvrtc'; then
  echo 'scanning the plugin looks for a driver'
  exit 1
fi

# What a user reads.
for word in active-backend backend config cuda-device-id fade-in model \
  normalized precision stats threads reset; do
  grep -q "$word" "$folder/inspect" || {
    echo "gst-inspect-1.0 does not show $word"
    exit 1
  }
done
grep -q 'Rank *primary' "$folder/inspect"
grep -q 'Klass *Codec/Decoder/Audio' "$folder/inspect"
grep -q 'License *LGPL' "$folder/inspect"
grep -q 'Name *mimi$' "$folder/inspect"
gst-inspect-1.0 mimiparse | grep -q 'Klass *Codec/Parser/Audio'
