/* What the rows of an input file are, by its name and the network.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "bench.h"

gboolean
bench_find_rows (const BenchOptions *options, const MimiNetwork *net,
    const gchar *input, MimiRows *rows, GError **error)
{
  static const struct {
    const gchar *suffix;
    MimiRowFormat format;
  } formats[] = { { ".f32", MIMI_ROW_F32 }, { ".f16", MIMI_ROW_F16 },
    { ".u16", MIMI_ROW_U16 }, { ".s32", MIMI_ROW_S32 },
    { ".s64", MIMI_ROW_S64 } };
  guint i;

  *rows = (MimiRows){ .normalized = FALSE };
  if (input == NULL) {
    rows->format = net->latent_dim ? MIMI_ROW_F32 : MIMI_ROW_U16;
  } else {
    for (i = 0; i < G_N_ELEMENTS (formats); i++)
      if (g_str_has_suffix (input, formats[i].suffix))
        break;
    if (i == G_N_ELEMENTS (formats)) {
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
          "%s: the name must end in .f32 or .f16 (latents), or .u16, .s32 or "
          ".s64 (codes)",
          input);
      return FALSE;
    }
    rows->format = formats[i].format;
  }
  if (rows->format == MIMI_ROW_F32 || rows->format == MIMI_ROW_F16) {
    rows->length = net->latent_dim ? net->latent_dim : net->width;
    if (options->dims)
      rows->length = (guint)options->dims;
    rows->normalized = rows->length == net->latent_dim && net->has_statistics &&
                       !options->denormalized;
  } else {
    rows->length = MIN (8, net->codebooks);
    if (options->codebooks)
      rows->length = (guint)options->codebooks;
  }
  return TRUE;
}

gpointer
bench_make_rows (const MimiRows *rows, const MimiNetwork *net, guint n)
{
  gsize length = (gsize)n * rows->length;
  gfloat *latents = g_new (gfloat, length);
  guint16 *codes = (guint16 *)latents;
  GRand *random = g_rand_new_with_seed (1);

  for (gsize i = 0; i < length; i++)
    if (rows->format == MIMI_ROW_F32)
      latents[i] = (gfloat)g_rand_double_range (random, -1.7, 1.7);
    else
      codes[i] = (guint16)g_rand_int_range (random, 0, net->codebook_size);
  g_rand_free (random);
  return latents;
}
