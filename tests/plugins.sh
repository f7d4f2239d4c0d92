# mimidec: what the scripts that run the tests under a checker share
# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
#
# To be sourced.

# use_plugins FOLDER: makes a folder of links to the plugins that the tests use.
# With a checker the registry is made in the test's own process, where some of
# the others drag in drivers, and leaks that are none of ours.
use_plugins ()
{
  local installed name
  installed=$(pkg-config --variable=pluginsdir gstreamer-1.0)
  mkdir -p "$1"
  for name in app audioconvert audioparsers audioresample coreelements \
    coretracers flac gdp mpegtsmux ogg opus rtp voaacenc wavenc; do
    [ ! -e "$installed/libgst$name.so" ] \
      || ln -sf "$installed/libgst$name.so" "$1"
  done
}
