/* Configurations that describe a Mimi decoder.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "file.h"
#include "json.h"
#include "settle.h"

#include <math.h>
#include <string.h>

typedef struct {
  const gchar *path;
  JsonObject *block; /* the part that describes the decoder */
  MimiNetwork *network;
  GError **error;
} Config;

static gboolean G_GNUC_PRINTF (3, 4)
    fail (const Config *c, MimiError code, const gchar *format, ...)
{
  va_list args;
  gchar *message;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (c->error, MIMI_ERROR, code, "%s: %s", c->path, message);
  g_free (message);
  return FALSE;
}

/* ------------------------------------------------------------- looking --- */

static JsonObject *
get_object (JsonObject *object, const gchar *name)
{
  JsonNode *node = json_object_get_member (object, name);

  return node && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node)
                                               : NULL;
}

/* The value of the first of `names` ("a|b.c|d") that is there and not null;
 * `found` gets its name. Where an object "b" is there, it is asked alone: the
 * decoder's own part replaces the common one as a whole. */
static JsonNode *
lookup (JsonObject *block, const gchar *names, gchar *found, gsize found_size)
{
  gchar **alternatives = g_strsplit (names, "|", -1), **a;
  JsonNode *value = NULL;
  gboolean done = FALSE;

  for (a = alternatives; *a && !done; a++) {
    gchar **parts = g_strsplit (*a, ".", 2);
    JsonObject *object = parts[1] ? get_object (block, parts[0]) : block;

    if (object) {
      value = json_object_get_member (object, parts[parts[1] ? 1 : 0]);
      if (value && JSON_NODE_HOLDS_NULL (value))
        value = NULL;
      done = value || parts[1];
      g_strlcpy (found, *a, found_size);
    }
    g_strfreev (parts);
  }
  g_strfreev (alternatives);
  return value;
}

/* -1: not there; -2: not a whole number from 0 on, `error` is set. */
static gint64
get_count (const Config *c, const gchar *names, gchar *found, gsize found_size)
{
  JsonNode *node = lookup (c->block, names, found, found_size);
  gdouble value;

  if (!node)
    return -1;
  if (JSON_NODE_HOLDS_VALUE (node) &&
      (json_node_get_value_type (node) == G_TYPE_INT64 ||
          json_node_get_value_type (node) == G_TYPE_DOUBLE)) {
    value = json_node_get_double (node);
    if (value >= 0 && value < 1e9 && value == floor (value))
      return (gint64)value;
  }
  fail (c, MIMI_ERROR_CONFIG, "%s is not a whole number", found);
  return -2;
}

#define TRANSFORMER(hf, yaml, flat) \
  hf "|decoder_transformer." yaml "|transformer." yaml "|transformer_" flat
#define SEANET(hf, yaml) hf "|decoder_seanet." yaml "|seanet." yaml "|" yaml

/* --------------------------------------------------- against the tensors --- */

/* Numbers that shapes tell too. 0 in the network: it has no such thing. */
static const struct {
  const gchar *names;
  const gchar *what;
  gsize offset;
} counts[] = {
#define COUNT(field) offsetof (MimiNetwork, field)
  { TRANSFORMER ("hidden_size", "d_model", "d_model"), "a width of",
      COUNT (width) },
  { TRANSFORMER ("num_hidden_layers", "num_layers", "num_layers"),
      "a number of layers of", COUNT (layers) },
  { TRANSFORMER ("intermediate_size", "dim_feedforward", "dim_feedforward"),
      "a feed-forward width of", COUNT (ffn) },
  { SEANET ("kernel_size", "kernel_size"), "a first kernel of",
      COUNT (first_kernel) },
  { SEANET ("residual_kernel_size", "residual_kernel_size"),
      "residual kernels of", COUNT (residual_kernel) },
  { SEANET ("last_kernel_size", "last_kernel_size"), "a last kernel of",
      COUNT (last_kernel) },
  { "latent_dim|quantizer.dimension|quantizer_dimension", "latents of",
      COUNT (latent_dim) },
  { "latent_stride", "an upsampling of", COUNT (upsample) },
  { "num_quantizers", "a number of codebooks of", COUNT (codebooks) },
  { "codebook_size", "codebooks of", COUNT (codebook_size) },
  { "codebook_dim", "codebook entries of", COUNT (codebook_dim) },
#undef COUNT
};

static gboolean
check_counts (const Config *c)
{
  gchar found[64];
  guint i;

  for (i = 0; i < G_N_ELEMENTS (counts); i++) {
    guint is = *(const guint *)((const guint8 *)c->network + counts[i].offset);
    gint64 said = get_count (c, counts[i].names, found, sizeof found);

    if (said == -2)
      return FALSE;
    if (said >= 0 && is != 0 && said != is)
      return fail (c, MIMI_ERROR_CONFIG,
          "%s is %" G_GINT64_FORMAT
          ", and the checkpoint's tensors have %s %u; it describes another "
          "model",
          found, said, counts[i].what, is);
  }
  return TRUE;
}

static gboolean
check_ratios (const Config *c)
{
  const MimiNetwork *net = c->network;
  gchar found[64];
  JsonNode *node = lookup (
      c->block, SEANET ("upsampling_ratios", "ratios"), found, sizeof found);
  JsonArray *array;
  guint i;

  if (!node)
    return TRUE;
  if (!JSON_NODE_HOLDS_ARRAY (node))
    return fail (c, MIMI_ERROR_CONFIG, "%s is not a list", found);
  array = json_node_get_array (node);
  if (json_array_get_length (array) != net->stages)
    return fail (c, MIMI_ERROR_CONFIG,
        "%s has %u ratios, and the checkpoint's tensors have %u", found,
        json_array_get_length (array), net->stages);
  for (i = 0; i < net->stages; i++) {
    JsonNode *ratio = json_array_get_element (array, i);

    if (!JSON_NODE_HOLDS_VALUE (ratio) ||
        json_node_get_value_type (ratio) != G_TYPE_INT64)
      return fail (c, MIMI_ERROR_CONFIG, "%s holds no whole number", found);
    if (json_node_get_int (ratio) != net->ratios[i])
      return fail (c, MIMI_ERROR_CONFIG,
          "number %u of %s is %" G_GINT64_FORMAT
          ", and the checkpoint's tensors have %u",
          i, found, json_node_get_int (ratio), net->ratios[i]);
  }
  return TRUE;
}

/* After the last stage there are as many channels as there are filters. */
static gboolean
check_filters (const Config *c)
{
  gchar found[64];
  gint64 said =
      get_count (c, SEANET ("num_filters", "n_filters"), found, sizeof found);

  if (said == -2)
    return FALSE;
  if (said >= 0 && said != c->network->channels[c->network->stages])
    return fail (c, MIMI_ERROR_CONFIG,
        "%s is %" G_GINT64_FORMAT
        ", and the checkpoint's tensors end in %u channels",
        found, said, c->network->channels[c->network->stages]);
  return TRUE;
}

/* Choices of which we know one, the published one. */
static const struct {
  const gchar *names, *only;
} choices[] = {
  { "sampling_rate|sample_rate", "24000" },
  { "audio_channels|channels", "1" },
  { "num_semantic_quantizers", "1" },
  { SEANET ("num_residual_layers", "n_residual_layers"), "1" },
  { "use_causal_conv", "true" },
  { "use_conv_shortcut", "false" },
  { SEANET ("pad_mode", "pad_mode"), "\"constant\"" },
  { "rope_parameters.rope_type", "\"default\"" },
};

static gboolean
check_choices (const Config *c)
{
  gchar found[64];
  guint i;

  for (i = 0; i < G_N_ELEMENTS (choices); i++) {
    JsonNode *node = lookup (c->block, choices[i].names, found, sizeof found);
    gchar *text;
    gboolean ok;

    if (!node)
      continue;
    text = json_to_string (node, FALSE);
    ok = strcmp (text, choices[i].only) == 0 ||
         fail (c, MIMI_ERROR_UNSUPPORTED, "%s is %s, supported is %s", found,
             text, choices[i].only);
    g_free (text);
    if (!ok)
      return FALSE;
  }
  return TRUE;
}

/* ------------------------------------------------ beyond the tensors --- */

static gboolean
take_heads (const Config *c, guint *says)
{
  MimiNetwork *net = c->network;
  gchar found[64], other[64];
  gint64 heads = get_count (c,
      TRANSFORMER ("num_attention_heads", "num_heads", "num_heads"), found,
      sizeof found);
  gint64 dim = get_count (c, "head_dim", other, sizeof other);
  gint64 groups = get_count (c, "num_key_value_heads", other, sizeof other);

  if (heads == -2 || dim == -2 || groups == -2)
    return FALSE;
  if (heads == -1 && dim > 0 && net->width % dim == 0)
    heads = net->width / dim;
  if (heads == -1)
    return TRUE;
  if (heads < 1 || net->width % heads != 0 || net->width / heads % 2 != 0 ||
      net->width / heads > MIMI_MAX_HEAD_DIM)
    return fail (c, MIMI_ERROR_CONFIG,
        "%s is %" G_GINT64_FORMAT
        ", which does not divide the width of the checkpoint's tensors, %u, "
        "into heads of an even size up to %d",
        found, heads, net->width, MIMI_MAX_HEAD_DIM);
  if (dim != -1 && dim * heads != net->width)
    return fail (c, MIMI_ERROR_CONFIG,
        "%" G_GINT64_FORMAT " heads of head_dim %" G_GINT64_FORMAT
        " make no width of %u, which the checkpoint's tensors have",
        heads, dim, net->width);
  if (groups != -1 && groups != heads)
    return fail (c, MIMI_ERROR_CONFIG,
        "num_key_value_heads is %" G_GINT64_FORMAT
        ", supported is as many as num_attention_heads, %" G_GINT64_FORMAT,
        groups, heads);
  net->heads = heads;
  *says |= MIMI_SAYS_HEADS;
  return TRUE;
}

static gboolean
take_window (const Config *c, guint *says)
{
  gchar found[64];
  gint64 window =
      get_count (c, TRANSFORMER ("sliding_window", "context", "context"), found,
          sizeof found);

  if (window == -2)
    return FALSE;
  if (window == -1)
    return TRUE;
  if (window < 1 || window > MIMI_MAX_WINDOW)
    return fail (c, MIMI_ERROR_CONFIG,
        "%s is %" G_GINT64_FORMAT ", supported is 1 to %d", found, window,
        MIMI_MAX_WINDOW);
  c->network->window = window;
  *says |= MIMI_SAYS_WINDOW;
  return TRUE;
}

static gboolean
take_gelu (const Config *c, guint *says)
{
  static const gchar *const erf[] = { "gelu", "gelu_python", NULL };
  static const gchar *const tanh[] = { "gelu_pytorch_tanh", "gelu_new",
    "gelu_fast", "gelu_python_tanh", "gelu_accurate", NULL };
  gchar found[64];
  JsonNode *node = lookup (c->block, "hidden_act", found, sizeof found);
  const gchar *name = node && JSON_NODE_HOLDS_VALUE (node) &&
                              json_node_get_value_type (node) == G_TYPE_STRING
                          ? json_node_get_string (node)
                          : NULL;
  JsonNode *type = json_object_get_member (c->block, "model_type");

  if (name && g_strv_contains (erf, name)) {
    c->network->gelu = MIMI_GELU_ERF;
  } else if (name && g_strv_contains (tanh, name)) {
    c->network->gelu = MIMI_GELU_TANH;
  } else if (node) {
    return fail (c, MIMI_ERROR_UNSUPPORTED,
        "hidden_act is %s%s%s, supported are gelu and gelu_pytorch_tanh",
        name ? "'" : "", name ? name : "no name", name ? "'" : "");
  } else if (get_object (c->block, "transformer") || type) {
    /* what the program that reads this kind of file takes it to be */
    c->network->gelu = type && strcmp (json_node_get_string (type), "mimi") == 0
                           ? MIMI_GELU_ERF
                           : MIMI_GELU_TANH;
  } else {
    return TRUE;
  }
  *says |= MIMI_SAYS_GELU;
  return TRUE;
}

static gboolean
take_number (const Config *c, const gchar *names, gdouble min, gdouble max,
    gdouble *value, MimiSays what, guint *says)
{
  gchar found[64];
  JsonNode *node = lookup (c->block, names, found, sizeof found);
  gdouble said = -1;

  if (!node)
    return TRUE;
  if (JSON_NODE_HOLDS_VALUE (node) &&
      (json_node_get_value_type (node) == G_TYPE_INT64 ||
          json_node_get_value_type (node) == G_TYPE_DOUBLE))
    said = json_node_get_double (node);
  if (!(said >= min && said <= max))
    return fail (c, MIMI_ERROR_CONFIG, "%s is not a number from %g to %g",
        found, min, max);
  *value = said;
  *says |= what;
  return TRUE;
}

/* -------------------------------------------------------- which part --- */

static gboolean
has_any (JsonObject *object, const gchar *const *names)
{
  for (; *names; names++) {
    if (json_object_has_member (object, *names))
      return TRUE;
  }
  return FALSE;
}

/* -1: it does not say; else whether `object` calls itself a Mimi. */
static gint
has_type (JsonObject *object)
{
  JsonNode *type = json_object_get_member (object, "model_type");
  const gchar *name;

  if (!type || !JSON_NODE_HOLDS_VALUE (type) ||
      json_node_get_value_type (type) != G_TYPE_STRING)
    return type ? FALSE : -1;
  name = json_node_get_string (type);
  return strcmp (name, "mimi") == 0 || strcmp (name, "mimi_decoder") == 0 ||
         g_str_has_prefix (name, "pocket_tts_audio_tokenizer");
}

static JsonObject *
find_block (JsonObject *root, gboolean named)
{
  static const gchar *const parts[] = { "codec_config", "audio_encoder_config",
    "audio_tokenizer_config", "audio_tokenizer", "mimi_config", "mimi" };
  static const gchar *const own[] = { "transformer_num_heads",
    "transformer_context", "upsampling_ratios", NULL };
  static const gchar *const attention[] = { "num_attention_heads", "head_dim",
    "sliding_window", "hidden_act", NULL };
  gint type = has_type (root);
  guint i;

  if (type == TRUE)
    return root;
  for (i = 0; i < G_N_ELEMENTS (parts); i++) {
    JsonObject *part = get_object (root, parts[i]);

    if (part && has_type (part) != FALSE)
      return part;
  }
  if (type == FALSE)
    return NULL;
  if (has_any (root, own) ||
      (get_object (root, "transformer") && get_object (root, "seanet")))
    return root;
  /* Words that language models use as well. */
  if (has_any (root, attention) &&
      (named || !json_object_has_member (root, "vocab_size")))
    return root;
  return NULL;
}

static JsonNode *
parse (MimiFile *file, GError **error)
{
  gchar *text;
  GError *err = NULL;
  JsonNode *root;
  gsize start = 0;

  if (file->size > MIMI_MAX_CONFIG) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_CONFIG,
        "%s: has %" G_GUINT64_FORMAT " bytes, a configuration has at most %u",
        file->path, file->size, MIMI_MAX_CONFIG);
    return NULL;
  }
  text = mimi_file_read_all (file, error);
  if (!text)
    return NULL;
  while (start < file->size && g_ascii_isspace (text[start]))
    start++;
  if (start < file->size && text[start] == '{')
    root = mimi_json_parse (text, file->size, MIMI_MAX_CONFIG_DEPTH, &err);
  else
    root = mimi_yaml_parse (text, file->size, MIMI_MAX_CONFIG_DEPTH, &err);
  g_free (text);
  if (!root) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_CONFIG,
        "%s: is not a configuration: %s", file->path, err->message);
    g_error_free (err);
  }
  return root;
}

MimiConfigResult
mimi_config_apply (const gchar *path, gboolean named, MimiNetwork *network,
    guint *says, GError **error)
{
  MimiNetwork changed = *network;
  Config c = { .path = path, .network = &changed, .error = error };
  MimiConfigResult result = MIMI_CONFIG_WRONG;
  MimiFile *file = mimi_file_open (path, error);
  JsonNode *root = file ? parse (file, error) : NULL;

  *says = 0;
  if (file)
    mimi_file_free (file);
  if (!root)
    return MIMI_CONFIG_UNREADABLE;

  c.block = find_block (json_node_get_object (root), named);
  if (!c.block) {
    result = MIMI_CONFIG_OTHER;
  } else if (check_counts (&c) && check_ratios (&c) && check_filters (&c) &&
             check_choices (&c) && take_heads (&c, says) &&
             take_window (&c, says) && take_gelu (&c, says) &&
             take_number (&c,
                 "rope_parameters.rope_theta|rope_theta|decoder_transformer."
                 "max_period|transformer.max_period|transformer_max_period",
                 1, 1e12, &changed.rope_theta, MIMI_SAYS_THETA, says) &&
             take_number (&c, "norm_eps", 1e-12, 1e-1, &changed.norm_eps,
                 MIMI_SAYS_EPS, says)) {
    *network = changed;
    result = MIMI_CONFIG_APPLIED;
  }
  json_node_unref (root);
  return result;
}
