/* How each public layout names the decoder's tensors.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "layout.h"

#include <string.h>

/* clang-format off */

/* Kyutai's module tree. */
#define KYUTAI                                                                 \
  .latent_proj = "quantizer.output_proj.weight",                               \
  .first_proj = "quantizer.rvq_first.output_proj.weight",                      \
  .rest_proj = "quantizer.rvq_rest.output_proj.weight",                        \
  .first_book = "quantizer.rvq_first.vq.layers.#._codebook.",                  \
  .rest_book = "quantizer.rvq_rest.vq.layers.#._codebook.",                    \
  .sum = "embedding_sum|embed_sum|embed_avg",                                  \
  .usage = "cluster_usage|cluster_size",                                       \
  .transformer = "decoder_transformer.",                                       \
  .layer = "decoder_transformer.transformer.layers.#.",                        \
  .out_proj = "self_attn.out_proj.weight|self_attn.out_projs.0.weight",        \
  .norm1 = "norm1.", .norm2 = "norm2.",                                        \
  .linear1 = "linear1.weight", .linear2 = "linear2.weight",                    \
  .scale1 = "layer_scale_1.scale", .scale2 = "layer_scale_2.scale",            \
  .seanet = "decoder.model."

#define FOLDED                                                                 \
  KYUTAI,                                                                      \
  .upsample = "upsample.convtr.convtr|upsample.convtr",                        \
  .in_proj = "self_attn.in_proj.weight|self_attn.in_proj_weight|"              \
             "self_attn.in_projs.0.weight",                                    \
  .conv = "decoder.model.#.conv", .convtr = "decoder.model.#.convtr",          \
  .res1 = "decoder.model.#.block.1.conv",                                      \
  .res2 = "decoder.model.#.block.3.conv"

/* While training, each convolution sits one module deeper. */
#define WRAPPED                                                                \
  KYUTAI,                                                                      \
  .upsample = "upsample.convtr.convtr.convtr|upsample.convtr.convtr",          \
  .in_proj = "self_attn.in_proj_weight|self_attn.in_proj.weight|"              \
             "self_attn.in_projs.0.weight",                                    \
  .conv = "decoder.model.#.conv.conv",                                         \
  .convtr = "decoder.model.#.convtr.convtr",                                   \
  .res1 = "decoder.model.#.block.1.conv.conv",                                 \
  .res2 = "decoder.model.#.block.3.conv.conv"

#define TRANSFORMERS                                                           \
  .first_proj =                                                                \
      "quantizer.semantic_residual_vector_quantizer.output_proj.weight",       \
  .rest_proj =                                                                 \
      "quantizer.acoustic_residual_vector_quantizer.output_proj.weight",       \
  .first_book =                                                                \
      "quantizer.semantic_residual_vector_quantizer.layers.#.codebook.",       \
  .rest_book =                                                                 \
      "quantizer.acoustic_residual_vector_quantizer.layers.#.codebook.",       \
  .sum = "embed_sum|embedding_sum|embed_avg",                                  \
  .usage = "cluster_usage|cluster_size",                                       \
  .q_proj = "self_attn.q_proj.weight", .k_proj = "self_attn.k_proj.weight",    \
  .v_proj = "self_attn.v_proj.weight", .out_proj = "self_attn.o_proj.weight",  \
  .norm1 = "input_layernorm.", .norm2 = "post_attention_layernorm.",           \
  .linear1 = "mlp.fc1.weight", .linear2 = "mlp.fc2.weight",                    \
  .scale1 = "self_attn_layer_scale.scale", .scale2 = "mlp_layer_scale.scale"

static const MimiLayout layouts[] = {
  { "pocket", "mimi.", MIMI_GELU_TANH, FOLDED },
  { "phonon", "mimi.model.", MIMI_GELU_ERF, WRAPPED },
  { "phonon", "mimi.model.", MIMI_GELU_ERF, FOLDED },
  { "moshi", "|mimi.", MIMI_GELU_ERF, WRAPPED },
  { "training", "model.", MIMI_GELU_ERF, WRAPPED },
  { "moshi", "|model.", MIMI_GELU_ERF, FOLDED },
  { "hf", "|codec_model.|audio_encoder.|mimi.|model.", MIMI_GELU_ERF,
    TRANSFORMERS,
    .upsample = "upsample.conv",
    .transformer = "decoder_transformer.",
    .layer = "decoder_transformer.layers.#.",
    .seanet = "decoder.layers.",
    .conv = "decoder.layers.#.conv", .convtr = "decoder.layers.#.conv",
    .res1 = "decoder.layers.#.block.1.conv",
    .res2 = "decoder.layers.#.block.3.conv" },
  { "hfpocket", "|codec_model.|audio_encoder.|mimi.|model.", MIMI_GELU_ERF,
    TRANSFORMERS,
    .latent_proj = "latent_proj.weight",
    .upsample = "decoder.upsample.conv",
    .transformer = "decoder.decoder_transformer.",
    .layer = "decoder.decoder_transformer.layers.#.",
    .seanet = "decoder.decoder_seanet.",
    .conv = "decoder.decoder_seanet.layers.#.conv",
    .convtr = "decoder.decoder_seanet.layers.#.conv",
    .res1 = "decoder.decoder_seanet.layers.#.block.1.conv",
    .res2 = "decoder.decoder_seanet.layers.#.block.3.conv" },
};

/* clang-format on */

/* ----------------------------------------------------------- spelling --- */

/* Appends the alternative that begins at `name`, '#' replaced by `index`. */
static void
append_alternative (GString *out, const gchar *name, guint index)
{
  for (; *name && *name != '|'; name++) {
    if (*name == '#')
      g_string_append_printf (out, "%u", index);
    else
      g_string_append_c (out, *name);
  }
}

static const gchar *
next_alternative (const gchar *name)
{
  const gchar *bar = strchr (name, '|');

  return bar ? bar + 1 : NULL;
}

/* The whole name with the alternative that begins at `name`; free it. */
static gchar *
spell (const MimiNames *names, const gchar *scope, const gchar *name,
    guint index, const gchar *suffix)
{
  GString *spelt = g_string_new (names->prefix);

  append_alternative (spelt, scope, index);
  append_alternative (spelt, name, index);
  g_string_append (spelt, suffix);
  return g_string_free (spelt, FALSE);
}

const MimiEntry *
mimi_names_find (MimiNames *names, const gchar *scope, const gchar *name,
    guint index, const gchar *suffix)
{
  const MimiEntry *entry = NULL;

  for (; name && !entry; name = next_alternative (name)) {
    gchar *spelt = spell (names, scope, name, index, suffix);

    entry = g_hash_table_lookup (names->entries, spelt);
    g_free (spelt);
  }
  if (entry)
    g_hash_table_add (names->used, entry->name);
  return entry;
}

gchar *
mimi_names_spell (const MimiNames *names, const gchar *scope, const gchar *name,
    guint index, const gchar *suffix)
{
  const gchar *n;
  guint i;

  for (n = name; n; n = next_alternative (n)) {
    for (i = 0; i < 64; i++) {
      gchar *sibling = spell (names, scope, n, i, suffix);
      gboolean there = g_hash_table_contains (names->entries, sibling);

      g_free (sibling);
      if (there)
        return spell (names, scope, n, index, suffix);
    }
  }
  return spell (names, scope, name, index, suffix);
}

gint
mimi_names_get_last (const MimiNames *names, const gchar *scope)
{
  gsize length = strchr (scope, '#') - scope;
  gchar *head = g_strdup_printf ("%s%.*s", names->prefix, (int)length, scope);
  GHashTableIter iter;
  gpointer name;
  gint last = -1;

  g_hash_table_iter_init (&iter, names->entries);
  while (g_hash_table_iter_next (&iter, &name, NULL)) {
    const gchar *number;
    gint n = 0;

    if (!g_str_has_prefix (name, head))
      continue;
    number = (const gchar *)name + strlen (head);
    while (g_ascii_isdigit (*number) && n < 100000)
      n = 10 * n + *number++ - '0';
    if (*number == '.')
      last = MAX (last, n);
  }
  g_free (head);
  return last;
}

const gchar *
mimi_names_find_unused (const MimiNames *names)
{
  static const gchar *const kinds[] = { ".weight", ".bias", ".scale", "_weight",
    "_bias", ".weight_g", ".weight_v" };
  gchar *transformer =
      g_strconcat (names->prefix, names->layout->transformer, NULL);
  gchar *seanet = g_strconcat (names->prefix, names->layout->seanet, NULL);
  const gchar *unused = NULL;
  GHashTableIter iter;
  gpointer name;
  guint i;

  g_hash_table_iter_init (&iter, names->entries);
  while (g_hash_table_iter_next (&iter, &name, NULL)) {
    if (g_hash_table_contains (names->used, name) ||
        !(g_str_has_prefix (name, transformer) ||
            g_str_has_prefix (name, seanet)))
      continue;
    for (i = 0; i < G_N_ELEMENTS (kinds); i++) {
      /* the least, so that the message does not depend on the hash */
      if (g_str_has_suffix (name, kinds[i]) &&
          (!unused || strcmp (name, unused) < 0))
        unused = name;
    }
  }
  g_free (transformer);
  g_free (seanet);
  return unused;
}

void
mimi_names_clear (MimiNames *names)
{
  g_clear_pointer (&names->used, g_hash_table_unref);
  g_clear_pointer (&names->prefix, g_free);
}

/* ---------------------------------------------------------- detection --- */

/* Tensors that tell a layout; most of them have to be there. */
static const gchar *const probe_suffixes[] = { ".weight", ".weight_v",
  ".bias" };

static guint
count_probes (MimiNames *names)
{
  const MimiLayout *l = names->layout;
  guint i, n = 0;

  for (i = 0; i < G_N_ELEMENTS (probe_suffixes); i++) {
    n += mimi_names_find (names, "", l->conv, 0, probe_suffixes[i]) != NULL;
    n += mimi_names_find (names, "", l->convtr, 2, probe_suffixes[i]) != NULL;
    n += mimi_names_find (names, "", l->res1, 3, probe_suffixes[i]) != NULL;
    n += mimi_names_find (names, "", l->upsample, 0, probe_suffixes[i]) != NULL;
  }
  n += mimi_names_find (names, l->layer, l->norm1, 0, "weight") != NULL;
  n += mimi_names_find (names, l->layer, l->linear1, 0, "") != NULL;
  return n;
}

#define MIN_PROBES 4 /* of 9 */

/* Length of the end that `a` and `b` have in common. */
static guint
common_end (const gchar *a, const gchar *b)
{
  const gchar *x = a + strlen (a), *y = b + strlen (b);
  guint n = 0;

  while (x > a && y > b && *--x == *--y)
    n++;
  return n;
}

/* Updates `nearest` to the name that ends most like `wanted`, if its end is
 * longer than `best`. */
static void
find_nearest (const MimiNames *names, const gchar *wanted,
    const gchar **nearest, guint *best)
{
  GHashTableIter iter;
  gpointer name;

  g_hash_table_iter_init (&iter, names->entries);
  while (g_hash_table_iter_next (&iter, &name, NULL)) {
    guint n = common_end (name, wanted);

    /* the least of several, so that the hash does not matter */
    if (n > *best || (n == *best && *nearest && strcmp (name, *nearest) < 0)) {
      *best = n;
      *nearest = name;
    }
  }
}

static void
set_unknown_error (const MimiNames *names, GError **error)
{
  GString *wanted = g_string_new (NULL);
  const gchar *nearest = NULL;
  guint best = strlen (".weight"), i;

  for (i = 0; i < G_N_ELEMENTS (layouts); i++) {
    gsize start;

    g_string_append (wanted, i ? ", '" : "'");
    start = wanted->len;
    append_alternative (wanted, layouts[i].prefixes, 0);
    append_alternative (wanted, layouts[i].conv, 0);
    g_string_append (wanted, ".weight");
    find_nearest (names, wanted->str + start, &nearest, &best);
    g_string_append_printf (wanted, "' (%s)", layouts[i].name);
  }
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_WRONG_TYPE,
      "%s: holds no Mimi decoder among its %u tensors: looked for names like "
      "%s; the nearest is %s%s%s",
      names->path, g_hash_table_size (names->entries), wanted->str,
      nearest ? "'" : "none", nearest ? nearest : "", nearest ? "'" : "");
  g_string_free (wanted, TRUE);
}

gboolean
mimi_names_detect (MimiNames *names, GError **error)
{
  const MimiLayout *layout = NULL;
  gchar *prefix = NULL;
  guint i, best = MIN_PROBES - 1;

  names->used = g_hash_table_new (g_str_hash, g_str_equal);
  for (i = 0; i < G_N_ELEMENTS (layouts); i++) {
    gchar **prefixes = g_strsplit (layouts[i].prefixes, "|", -1), **p;

    for (p = prefixes; *p; p++) {
      guint n;

      names->layout = &layouts[i];
      names->prefix = *p;
      n = count_probes (names);
      if (n > best) {
        best = n;
        layout = names->layout;
        g_free (prefix);
        prefix = g_strdup (*p);
      }
    }
    g_strfreev (prefixes);
  }
  g_hash_table_remove_all (names->used);
  names->layout = layout;
  names->prefix = prefix;
  if (layout)
    return TRUE;
  set_unknown_error (names, error);
  return FALSE;
}
