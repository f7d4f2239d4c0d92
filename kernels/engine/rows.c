/* From the caller's rows to what a backend takes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "rows.h"
#include "../model/tensor.h"

#include <math.h>
#include <string.h>

static gboolean
is_latent (const MimiRows *rows)
{
  return rows->format == MIMI_ROW_F32 || rows->format == MIMI_ROW_F16;
}

gsize
mimi_rows_get_size (const MimiRows *rows)
{
  static const guint8 sizes[] = { [MIMI_ROW_F32] = 4,
    [MIMI_ROW_F16] = 2,
    [MIMI_ROW_U16] = 2,
    [MIMI_ROW_S32] = 4,
    [MIMI_ROW_S64] = 8 };

  return (gsize)rows->length * sizes[rows->format];
}

static gboolean
check_codes (const MimiRows *rows, const MimiNetwork *net, GError **error)
{
  if (net->codebooks == 0) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "the input has codes (%u a frame), and this checkpoint has no "
        "codebooks: it decodes latents of %u or %u values",
        rows->length, net->latent_dim, net->width);
    return FALSE;
  }
  if (rows->length < 1 || rows->length > net->codebooks) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "the input has %u codes a frame, and this checkpoint has %u codebooks",
        rows->length, net->codebooks);
    return FALSE;
  }
  return TRUE;
}

gboolean
mimi_rows_check (const MimiRows *rows, const MimiNetwork *net,
    MimiStepKind *kind, GError **error)
{
  if (!is_latent (rows)) {
    *kind = MIMI_STEP_CODES;
    return check_codes (rows, net, error);
  }
  if (net->latent_dim > 0 && rows->length == net->latent_dim) {
    *kind = rows->normalized ? MIMI_STEP_NORMALIZED : MIMI_STEP_LATENT;
    if (!rows->normalized || net->has_statistics)
      return TRUE;
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "the latents are normalised, and this checkpoint does not hold the "
        "statistics to undo it (tensors 'flow_lm.emb_mean' and "
        "'flow_lm.emb_std'): use the whole TTS checkpoint, or send latents "
        "that are already denormalised and say so (normalized=false)");
    return FALSE;
  }
  if (rows->length == net->width) {
    *kind = MIMI_STEP_EMBEDDING;
    return TRUE;
  }
  if (net->latent_dim > 0)
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "the input has latents of %u values, and this checkpoint takes %u, or "
        "%u as they leave the quantizer",
        rows->length, net->latent_dim, net->width);
  else
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "the input has latents of %u values, and this checkpoint takes up to "
        "%u codes, or %u values as they leave the quantizer",
        rows->length, net->codebooks, net->width);
  return FALSE;
}

static MimiRowState
read_latent (const MimiRows *rows, gconstpointer row, gfloat *values,
    gchar *reason, gsize reason_size)
{
  gfloat zero = 0;
  guint i;

  if (rows->format == MIMI_ROW_F32) {
    memcpy (values, row, rows->length * sizeof *values);
  } else {
    for (i = 0; i < rows->length; i++) {
      guint16 half;

      memcpy (&half, (const guint8 *)row + 2 * i, 2);
      values[i] = mimi_half_to_float (half);
    }
  }
  for (i = 0; i < rows->length; i++)
    zero += values[i] * 0;
  if (zero == 0)
    return MIMI_ROW_GOOD;
  for (i = 0; i < rows->length && isfinite (values[i]); i++)
    ;
  g_snprintf (reason, reason_size, "value %u of the latent is %s", i,
      isnan (values[i]) ? "NaN" : "infinite");
  return MIMI_ROW_BAD;
}

/* Code `i` of a row. "No token yet" is -1, in U16 65535. */
static gint64
get_code (MimiRowFormat format, const guint8 *row, guint i)
{
  guint16 u16;
  gint32 s32;
  gint64 s64;

  switch (format) {
    case MIMI_ROW_U16:
      memcpy (&u16, row + 2 * i, 2);
      return u16 == G_MAXUINT16 ? -1 : u16;
    case MIMI_ROW_S32:
      memcpy (&s32, row + 4 * i, 4);
      return s32;
    default:
      memcpy (&s64, row + 8 * i, 8);
      return s64;
  }
}

MimiRowState
mimi_rows_read (const MimiRows *rows, const MimiNetwork *net, gconstpointer row,
    gfloat *values, guint16 *codes, gchar *reason, gsize reason_size)
{
  MimiRowState state = MIMI_ROW_GOOD;
  guint i;

  if (is_latent (rows))
    return read_latent (rows, row, values, reason, reason_size);

  for (i = 0; i < rows->length; i++) {
    gint64 code = get_code (rows->format, row, i);

    if (code == -1)
      return MIMI_ROW_EMPTY;
    if ((code < 0 || code >= net->codebook_size) && state == MIMI_ROW_GOOD) {
      g_snprintf (reason, reason_size,
          "code %" G_GINT64_FORMAT " of codebook %u is not in 0..%u", code, i,
          net->codebook_size - 1);
      state = MIMI_ROW_BAD;
    }
    codes[i] = code;
  }
  return state;
}
