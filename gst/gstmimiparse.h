/* mimiparse: the element
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <gst/base/gstbaseparse.h>

G_BEGIN_DECLS

#define GST_TYPE_MIMI_PARSE (gst_mimi_parse_get_type ())
G_DECLARE_FINAL_TYPE (
    GstMimiParse, gst_mimi_parse, GST, MIMI_PARSE, GstBaseParse)

struct _GstMimiParse {
  GstBaseParse parent;
  GstPadChainFunction base_chain; /* of the parent's sink pad */

  /* Of the streaming thread. */
  gsize row_size;   /* bytes; 0 before caps */
  gsize leftover;   /* bytes of an unfinished row, waiting for the rest */
  gsize obsolete;   /* of these, in front, that will not be finished */
  GstCaps *refused; /* an error was posted about these */
};

GST_ELEMENT_REGISTER_DECLARE (mimiparse);

G_END_DECLS
