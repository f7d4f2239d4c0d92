/* The plugin `mimi`
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

/**
 * plugin-mimi:
 * @title: mimi
 *
 * Neural speech: decodes the latents and codes of the Mimi codec, as speech
 * models of the Pocket TTS and Moshi families send them, to 24 kHz PCM.
 *
 * Since: 0.1
 */

#include "gstmimidec.h"
#include "gstmimiparse.h"

/* mimidec is there on every machine: which backend it gets, and whether
 * there is a GPU, is only found out when one is opened. Scanning the
 * plugin must touch no driver. */
static gboolean
plugin_init (GstPlugin *plugin)
{
  return GST_ELEMENT_REGISTER (mimidec, plugin) &&
         GST_ELEMENT_REGISTER (mimiparse, plugin);
}

GST_PLUGIN_DEFINE (GST_VERSION_MAJOR, GST_VERSION_MINOR, mimi,
    "Decoder of Mimi speech latents and codes", plugin_init, PACKAGE_VERSION,
    "LGPL", PACKAGE, PACKAGE_ORIGIN)
