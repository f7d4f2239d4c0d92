/* What mimidec takes and gives
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "gstmimicaps.h"

#include <string.h>

#define MAX_LENGTH 65535

GstStaticPadTemplate gst_mimi_sink_template = GST_STATIC_PAD_TEMPLATE ("sink",
    GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_MIMI_INPUT_CAPS));

GstStaticPadTemplate gst_mimi_src_template =
    GST_STATIC_PAD_TEMPLATE ("src", GST_PAD_SRC, GST_PAD_ALWAYS,
        GST_STATIC_CAPS ("audio/x-raw, format = (string) { S16LE, F32LE }, "
                         "rate = (int) 24000, channels = (int) 1, "
                         "layout = (string) interleaved"));

typedef struct {
  const gchar *name;
  MimiRowFormat format;
} Format;

static const Format latent_formats[] = { { "F32LE", MIMI_ROW_F32 },
  { "F16LE", MIMI_ROW_F16 }, { NULL, 0 } };
static const Format code_formats[] = { { "U16LE", MIMI_ROW_U16 },
  { "S32LE", MIMI_ROW_S32 }, { "S64LE", MIMI_ROW_S64 }, { NULL, 0 } };
static const Format tensor_formats[] = { { "float32", MIMI_ROW_F32 },
  { "float16", MIMI_ROW_F16 }, { "uint16", MIMI_ROW_U16 },
  { "int32", MIMI_ROW_S32 }, { "int64", MIMI_ROW_S64 }, { NULL, 0 } };

#define FAIL(error, ...) \
  (g_set_error ( \
       error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, __VA_ARGS__), \
      FALSE)

/* The field `name` as one of `formats`; the first of them is the default. */
static gboolean
parse_format (const GstStructure *s, const gchar *name, const Format *formats,
    MimiRowFormat *format, GError **error)
{
  const gchar *value = gst_structure_get_string (s, name);
  GString *known;

  *format = formats->format;
  if (!gst_structure_has_field (s, name))
    return TRUE;
  for (const Format *f = formats; f->name != NULL; f++) {
    if (g_strcmp0 (value, f->name) == 0) {
      *format = f->format;
      return TRUE;
    }
  }

  known = g_string_new (formats->name);
  for (const Format *f = formats + 1; f->name != NULL; f++)
    g_string_append_printf (known, ", %s", f->name);
  g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
      "The caps say %s=%s; %s can have %s.", name,
      value != NULL ? value : "(not a string)", gst_structure_get_name (s),
      known->str);
  g_string_free (known, TRUE);
  return FALSE;
}

/* A field that must be there and be an integer from 1 to MAX_LENGTH. */
static gboolean
parse_length (
    const GstStructure *s, const gchar *name, guint *length, GError **error)
{
  gint value;

  if (!gst_structure_get_int (s, name, &value))
    return FAIL (error, "The caps do not say how many %s a frame has.", name);
  if (value < 1)
    return FAIL (
        error, "The caps say %s=%d; it must be at least 1.", name, value);
  if (value > MAX_LENGTH)
    return FAIL (error, "The caps say %s=%d; no network has more than %d.",
        name, value, MAX_LENGTH);
  *length = value;
  return TRUE;
}

/* NNStreamer writes the innermost dimension first and pads with ones: "32",
 * "32:1", "32:1:1:1" up to a rank of 16; newer versions end the list with
 * zeros. The first dimension that is not 1 is the row ("1:32" is what a
 * [1, 32, 1] array of torch becomes), the others count rows. */
static gboolean
parse_dimensions (const GstStructure *s, guint *length, GError **error)
{
  const gchar *text = gst_structure_get_string (s, "dimensions");
  gchar **parts;
  gint number;
  gboolean ended = FALSE, valid = TRUE;
  guint64 row = 1;

  /* `dimensions=32` in a launch line is an integer. */
  if (text == NULL && gst_structure_get_int (s, "dimensions", &number))
    return parse_length (s, "dimensions", length, error);
  if (text == NULL)
    return FAIL (error, "The caps do not say the tensor's dimensions.");

  parts = g_strsplit (text, ":", -1);
  valid = parts[0] != NULL;
  for (gchar **part = parts; *part != NULL && valid; part++) {
    guint64 value;

    valid = g_ascii_string_to_unsigned (
        g_strstrip (*part), 10, 0, MAX_LENGTH, &value, NULL);
    if (valid && value == 0)
      ended = TRUE;
    valid = valid && !(ended && (value != 0 || part == parts));
    if (valid && row == 1 && value > 1)
      row = value;
  }
  g_strfreev (parts);
  if (!valid)
    return FAIL (error,
        "The caps say dimensions=%s; one tensor as in 32:1:1:1 is expected.",
        text);
  *length = (guint)row;
  return TRUE;
}

static gboolean
check_framerate (const GstStructure *s, GError **error)
{
  gint num, denom;

  /* 0/1 is how a tensor stream says that it has none. */
  if (!gst_structure_get_fraction (s, "framerate", &num, &denom) || num == 0)
    return TRUE;
  if (gst_util_fraction_compare (num, denom, 25, 2) != 0)
    return FAIL (error,
        "The caps say framerate=%d/%d; Mimi has 25/2, a frame each 80 ms.", num,
        denom);
  return TRUE;
}

static gboolean
check_codebook_size (
    const GstStructure *s, const MimiNetwork *network, GError **error)
{
  gint size;

  if (!gst_structure_get_int (s, "codebook-size", &size) ||
      network->codebooks == 0 || (guint)size == network->codebook_size)
    return TRUE;
  return FAIL (error,
      "The caps say codebook-size=%d; the model's codebooks have %u entries.",
      size, network->codebook_size);
}

static gboolean
is_latent (MimiRowFormat format)
{
  return format == MIMI_ROW_F32 || format == MIMI_ROW_F16;
}

/* What the caps say, else what the property says. */
static gboolean
parse_normalized (const GstStructure *s, const MimiNetwork *network,
    GstMimiNormalized policy, MimiRows *rows, GError **error)
{
  gboolean said = FALSE;
  gboolean is_said = gst_structure_get_boolean (s, "normalized", &said);

  if (!is_latent (rows->format))
    return TRUE;
  if (rows->length != network->latent_dim) {
    /* A vector as it leaves the quantizer: there is nothing to undo. */
    if (said && rows->length == network->width)
      return FAIL (error,
          "The caps say normalized=true and %u values a frame; only latents "
          "of %u values are normalised.",
          rows->length, network->latent_dim);
    return TRUE;
  }
  if (is_said)
    rows->normalized = said;
  else if (policy == GST_MIMI_NORMALIZED_AUTO)
    rows->normalized = network->has_statistics;
  else
    rows->normalized = policy == GST_MIMI_NORMALIZED_YES;
  return TRUE;
}

gboolean
gst_mimi_caps_parse (const GstCaps *caps, const MimiNetwork *network,
    GstMimiNormalized normalized, MimiRows *rows, GError **error)
{
  const GstStructure *s = gst_caps_get_structure (caps, 0);

  memset (rows, 0, sizeof *rows);
  if (gst_structure_has_name (s, "audio/x-mimi-latent")) {
    if (!parse_format (s, "format", latent_formats, &rows->format, error) ||
        !parse_length (s, "dims", &rows->length, error))
      return FALSE;
  } else if (gst_structure_has_name (s, "audio/x-mimi")) {
    if (!parse_format (s, "format", code_formats, &rows->format, error) ||
        !parse_length (s, "codebooks", &rows->length, error) ||
        !check_codebook_size (s, network, error))
      return FALSE;
  } else {
    if (!parse_format (s, "types", tensor_formats, &rows->format, error) ||
        !parse_dimensions (s, &rows->length, error))
      return FALSE;
  }
  return check_framerate (s, error) &&
         parse_normalized (s, network, normalized, rows, error);
}
