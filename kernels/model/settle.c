/* What no tensor's shape tells: heads, window, GELU, RoPE period, norm epsilon.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "settle.h"

/* The decoders that are published, told apart by what their shapes say. */
static const struct {
  guint width, ffn, first_kernel; /* what they are known by */
  guint heads, window;
} published[] = {
  { 512, 2048, 7, 8, 250 }, /* kyutai/mimi; Pocket TTS, Phonon */
  { 128, 384, 3, 4, 50 },   /* Pocket TTS 18m, 7m and 2m of 2026-10 */
};

gboolean
mimi_settle (MimiNetwork *net, MimiGelu gelu, const gchar *path,
    const gchar *config, gchar **rules, gchar **warning, GError **error)
{
  guint i;

  (void)config;
  net->gelu = gelu;
  net->norm_eps = 1e-5;
  net->rope_theta = 10000;
  for (i = 0; i < G_N_ELEMENTS (published); i++) {
    if (published[i].width == net->width && published[i].ffn == net->ffn &&
        published[i].first_kernel == net->first_kernel) {
      net->heads = published[i].heads;
      net->window = published[i].window;
    }
  }
  if (!net->heads) {
    net->heads = MAX (1, net->width / 64);
    net->window = 250;
    *warning = g_strdup_printf ("%s: fallback", path);
  }
  net->head_dim = net->width / net->heads;
  *rules = g_strdup ("");
  (void)error;
  return TRUE;
}
