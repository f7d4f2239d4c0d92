/* What no tensor's shape tells: heads, window, GELU, RoPE period, norm epsilon.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "settle.h"
#include "config.h"

#include <stdlib.h>
#include <string.h>

/* The decoders that are published, told apart by what their shapes say. */
static const struct {
  guint width, ffn, first_kernel; /* what they are known by */
  guint heads, window;
} published[] = {
  { 512, 2048, 7, 8, 250 }, /* kyutai/mimi; Pocket TTS, Phonon */
  { 128, 384, 3, 4, 50 },   /* Pocket TTS 18m, 7m and 2m of 2026-10 */
};

#define MAX_CANDIDATES 64

/* ------------------------------------------------------ beside the file --- */

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *)a, *(const gchar *const *)b);
}

static gboolean
is_yaml (const gchar *name)
{
  return g_str_has_suffix (name, ".yaml") || g_str_has_suffix (name, ".yml");
}

/* Adds to `candidates` what in `folder` may describe the decoder in a file
 * called `stem`.*: config.json, stem.json, stem.yaml, any other YAML. */
static void
list_candidates (const gchar *folder, const gchar *stem, GPtrArray *candidates)
{
  const gchar *first[] = { "config.json", NULL, NULL, NULL };
  gchar *own[] = { g_strconcat (stem, ".json", NULL),
    g_strconcat (stem, ".yaml", NULL), g_strconcat (stem, ".yml", NULL) };
  GPtrArray *others = g_ptr_array_new_with_free_func (g_free);
  GDir *dir = g_dir_open (folder, 0, NULL);
  const gchar *name;
  guint i;

  for (i = 0; i < 3; i++)
    first[i + 1] = own[i];
  while (dir && (name = g_dir_read_name (dir))) {
    if (is_yaml (name) && strcmp (name, own[1]) && strcmp (name, own[2]))
      g_ptr_array_add (others, g_strdup (name));
  }
  g_clear_pointer (&dir, g_dir_close);
  g_ptr_array_sort (others, compare_names);

  for (i = 0; i < 4 + others->len && candidates->len < MAX_CANDIDATES; i++) {
    gchar *path = g_build_filename (
        folder, i < 4 ? first[i] : g_ptr_array_index (others, i - 4), NULL);

    if (g_file_test (path, G_FILE_TEST_IS_REGULAR))
      g_ptr_array_add (candidates, path);
    else
      g_free (path);
  }
  g_ptr_array_unref (others);
  for (i = 0; i < 3; i++)
    g_free (own[i]);
}

/* What may describe the checkpoint `path`, best first. Beside a link comes
 * before beside the file that it leads to. */
static GPtrArray *
find_candidates (const gchar *path)
{
  GPtrArray *candidates = g_ptr_array_new_with_free_func (g_free);
  gchar *target = realpath (path, NULL);
  const gchar *places[2] = { path, target };
  gchar *last = NULL;
  guint i;

  for (i = 0; i < 2 && places[i]; i++) {
    gchar *folder = g_path_get_dirname (places[i]);
    gchar *stem = g_path_get_basename (places[i]);

    if (g_str_has_suffix (stem, ".safetensors"))
      stem[strlen (stem) - strlen (".safetensors")] = '\0';
    if (g_strcmp0 (folder, last) != 0)
      list_candidates (folder, stem, candidates);
    g_free (stem);
    g_free (last);
    last = folder;
  }
  g_free (last);
  free (target);
  return candidates;
}

/* Takes the first that describes a Mimi decoder and agrees with the tensors.
 * `used` gets its name, `warning` why one was passed over. FALSE if those that
 * describe a Mimi decoder all contradict the tensors. */
static gboolean
apply_beside (const gchar *path, MimiNetwork *net, guint *says, gchar **used,
    gchar **warning, GError **error)
{
  GPtrArray *candidates = find_candidates (path);
  GError *wrong = NULL;
  guint i;

  for (i = 0; i < candidates->len && !*used; i++) {
    const gchar *name = g_ptr_array_index (candidates, i);
    GError *err = NULL;

    switch (mimi_config_apply (name, FALSE, net, says, &err)) {
      case MIMI_CONFIG_APPLIED:
        *used = g_strdup (name);
        break;
      case MIMI_CONFIG_WRONG:
        if (!wrong)
          wrong = g_steal_pointer (&err);
        break;
      case MIMI_CONFIG_UNREADABLE:
        if (!is_yaml (name) && !*warning)
          *warning = g_strdup_printf ("%s (passed over)", err->message);
        break;
      case MIMI_CONFIG_OTHER:
        break;
    }
    g_clear_error (&err);
  }
  g_ptr_array_unref (candidates);
  if (wrong && !*used) {
    g_propagate_error (error, wrong);
    return FALSE;
  }
  g_clear_error (&wrong);
  return TRUE;
}

static gboolean
apply_named (const gchar *config, MimiNetwork *net, guint *says, GError **error)
{
  MimiConfigResult result = mimi_config_apply (config, TRUE, net, says, error);

  if (result == MIMI_CONFIG_APPLIED && *says != 0)
    return TRUE;
  if (result == MIMI_CONFIG_APPLIED || result == MIMI_CONFIG_OTHER)
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_CONFIG,
        "%s: %s: expected transformers' config.json of a mimi or "
        "pocket_tts_audio_tokenizer model, or one with a part 'codec_config' "
        "or 'mimi', or a YAML of pocket-tts",
        config,
        *says == 0 && result == MIMI_CONFIG_APPLIED
            ? "tells nothing that the tensors do not"
            : "does not describe a Mimi decoder");
  return FALSE;
}

/* ------------------------------------------------------------- settling --- */

/* Names of the bits of `says`, "heads, window". */
static gchar *
spell (guint says)
{
  static const gchar *const names[] = { "heads", "window", "GELU",
    "RoPE period", "norm epsilon" };
  GString *text = g_string_new (NULL);
  guint i;

  for (i = 0; i < G_N_ELEMENTS (names); i++) {
    if (says & 1u << i)
      g_string_append_printf (text, "%s%s", text->len ? ", " : "", names[i]);
  }
  return g_string_free (text, FALSE);
}

static gboolean
apply_published (MimiNetwork *net, guint said)
{
  guint i;

  for (i = 0; i < G_N_ELEMENTS (published); i++) {
    if (published[i].width != net->width || published[i].ffn != net->ffn ||
        published[i].first_kernel != net->first_kernel)
      continue;
    if (!(said & MIMI_SAYS_HEADS))
      net->heads = published[i].heads;
    if (!(said & MIMI_SAYS_WINDOW))
      net->window = published[i].window;
    return TRUE;
  }
  return FALSE;
}

static void
apply_fallback (MimiNetwork *net, guint said)
{
  if (!(said & MIMI_SAYS_HEADS))
    net->heads = net->width % 64 == 0 ? net->width / 64 : 1;
  if (!(said & MIMI_SAYS_WINDOW))
    net->window = 250;
}

/* Adds to `warning`, which may be NULL, that `names` were assumed. */
static void
warn_of_fallback (const MimiNetwork *net, const gchar *path, const gchar *names,
    gchar **warning)
{
  gchar *before = *warning;

  *warning = g_strdup_printf (
      "%s%s%s: neither a configuration nor the table of published decoders "
      "tells %s of a network of width %u with a feed-forward width of %u and a "
      "first kernel of %u: assumed %u heads and a window of %u positions. If "
      "it sounds wrong, name its config.json",
      before ? before : "", before ? "; " : "", path, names, net->width,
      net->ffn, net->first_kernel, net->heads, net->window);
  g_free (before);
}

static gboolean
check_heads (const MimiNetwork *net, const gchar *path, GError **error)
{
  if (net->head_dim % 2 == 0 && net->head_dim <= MIMI_MAX_HEAD_DIM)
    return TRUE;
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_UNSUPPORTED,
      "%s: width %u and %u heads make heads of %u, supported are even sizes up "
      "to %d; name the config.json that tells the heads",
      path, net->width, net->heads, net->head_dim, MIMI_MAX_HEAD_DIM);
  return FALSE;
}

gboolean
mimi_settle (MimiNetwork *net, MimiGelu gelu, const gchar *path,
    gboolean beside, const gchar *config, gchar **rules, gchar **warning,
    GError **error)
{
  const guint needed = MIMI_SAYS_HEADS | MIMI_SAYS_WINDOW;
  gchar *used = g_strdup (config), *names;
  GString *text;
  guint said = 0;

  net->gelu = gelu;
  net->norm_eps = 1e-5;
  net->rope_theta = 10000;
  if (config
          ? !apply_named (config, net, &said, error)
          : beside && !apply_beside (path, net, &said, &used, warning, error)) {
    g_free (used);
    return FALSE;
  }

  text = g_string_new (NULL);
  if (used) {
    names = spell (said);
    g_string_append_printf (text, "%s from %s; ", names, used);
    g_free (names);
  }
  if ((said & needed) != needed) {
    names = spell (needed & ~said);
    if (apply_published (net, said)) {
      g_string_append_printf (
          text, "%s from the table of published decoders; ", names);
    } else {
      apply_fallback (net, said);
      warn_of_fallback (net, path, names, warning);
      g_string_append_printf (text, "%s by the fallback; ", names);
    }
    g_free (names);
  }
  if (!(said & MIMI_SAYS_GELU))
    g_string_append (text, "GELU as this layout usually has it; ");
  net->head_dim = net->width / net->heads;
  g_string_append_printf (text,
      "heads %u of %u, window %u, GELU %s, RoPE period %g, norm epsilon %g",
      net->heads, net->head_dim, net->window,
      net->gelu == MIMI_GELU_TANH ? "tanh" : "erf", net->rope_theta,
      net->norm_eps);
  *rules = g_string_free (text, FALSE);
  g_free (used);
  return check_heads (net, path, error);
}
