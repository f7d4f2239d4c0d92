/* From tensors to dimensions: binds the decoder's weights to their names and
 * works out the network from their shapes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "network.h"
#include "tensor.h"

#include <string.h>

/* Everything a step of the binding needs. */
typedef struct {
  MimiNames *names;
  const MimiLayout *layout;
  MimiNetwork *network;
  MimiWeights *weights;
  GArray *bound, *derived;
  GError **error;
} Binder;

gchar *
mimi_shape_to_string (const guint64 *shape, guint n_dims)
{
  GString *text = g_string_new ("[");
  guint i;

  for (i = 0; i < n_dims; i++) {
    g_string_append (text, i ? ", " : "");
    if (shape[i])
      g_string_append_printf (text, "%" G_GUINT64_FORMAT, shape[i]);
    else
      g_string_append_c (text, '?');
  }
  g_string_append_c (text, ']');
  return g_string_free (text, FALSE);
}

static gboolean G_GNUC_PRINTF (3, 4)
    fail (Binder *b, MimiError code, const gchar *format, ...)
{
  va_list args;
  gchar *message;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (b->error, MIMI_ERROR, code, "%s: %s", b->names->path, message);
  g_free (message);
  return FALSE;
}

/* ---------------------------------------------------------- one tensor --- */

/* A shape that is expected: 0 stands for any size from 1 on. */
typedef struct {
  guint n_dims;
  guint64 dims[3];
} Shape;

#define SHAPE1(a) ((Shape){ 1, { (a) } })
#define SHAPE2(a, b) ((Shape){ 2, { (a), (b) } })
#define SHAPE3(a, b, c) ((Shape){ 3, { (a), (b), (c) } })

static gboolean
set_tensor (
    Binder *b, MimiTensor *tensor, const MimiEntry *entry, Shape expected)
{
  gboolean fits = entry->n_dims == expected.n_dims;
  MimiBound bound;
  guint i;

  if (strcmp (entry->dtype, "F32") == 0)
    tensor->dtype = MIMI_DTYPE_F32;
  else if (strcmp (entry->dtype, "F16") == 0)
    tensor->dtype = MIMI_DTYPE_F16;
  else if (strcmp (entry->dtype, "BF16") == 0)
    tensor->dtype = MIMI_DTYPE_BF16;
  else
    return fail (b, MIMI_ERROR_TENSOR,
        "tensor '%s' has dtype %s, expected F32, F16 or BF16", entry->name,
        entry->dtype);

  for (i = 0; fits && i < expected.n_dims; i++)
    fits = entry->shape[i] > 0 &&
           (expected.dims[i] == 0 || entry->shape[i] == expected.dims[i]);
  if (!fits) {
    gchar *is = mimi_shape_to_string (entry->shape, entry->n_dims);
    gchar *should = mimi_shape_to_string (expected.dims, expected.n_dims);

    fail (b, MIMI_ERROR_TENSOR, "tensor '%s' has shape %s, expected %s",
        entry->name, is, should);
    g_free (is);
    g_free (should);
    return FALSE;
  }
  tensor->n_dims = entry->n_dims;
  memcpy (tensor->shape, entry->shape, sizeof tensor->shape);
  tensor->file = entry->file;
  tensor->offset = entry->offset;

  bound.tensor = *tensor;
  bound.name = g_strdup (entry->name);
  g_array_append_val (b->bound, bound);
  return TRUE;
}

static gboolean
bind_tensor (Binder *b, MimiTensor *tensor, const gchar *scope,
    const gchar *name, guint index, const gchar *suffix, Shape expected)
{
  const MimiEntry *entry =
      mimi_names_find (b->names, scope, name, index, suffix);
  gchar *spelt, *shape;

  if (entry)
    return set_tensor (b, tensor, entry, expected);

  spelt = mimi_names_spell (b->names, scope, name, index, suffix);
  shape = mimi_shape_to_string (expected.dims, expected.n_dims);
  fail (b, MIMI_ERROR_TENSOR,
      "tensor '%s' is missing, expected it with shape %s (layout %s)", spelt,
      shape, b->layout->name);
  g_free (spelt);
  g_free (shape);
  return FALSE;
}

/* A convolution's weight, plain or as weight_g and weight_v. */
static gboolean
bind_conv_weight (Binder *b, MimiTensor *weight, const gchar *name, guint index,
    Shape expected)
{
  MimiDerived derived = { MIMI_DERIVED_NORM, weight };
  MimiTensor *g = &derived.parts[0], *v = &derived.parts[1];

  if (mimi_names_find (b->names, "", name, index, ".weight") ||
      !(mimi_names_find (b->names, "", name, index, ".weight_g") ||
          mimi_names_find (b->names, "", name, index, ".weight_v")))
    return bind_tensor (b, weight, "", name, index, ".weight", expected);

  if (!bind_tensor (b, v, "", name, index, ".weight_v", expected) ||
      !bind_tensor (
          b, g, "", name, index, ".weight_g", SHAPE3 (v->shape[0], 1, 1)))
    return FALSE;
  *weight = *v;
  weight->dtype = MIMI_DTYPE_F32;
  weight->file = NULL;
  g_array_append_val (b->derived, derived);
  return TRUE;
}

static gboolean
bind_conv (Binder *b, MimiConv *conv, const gchar *name, guint index,
    Shape expected, gboolean transposed)
{
  return bind_conv_weight (b, &conv->weight, name, index, expected) &&
         bind_tensor (b, &conv->bias, "", name, index, ".bias",
             SHAPE1 (conv->weight.shape[transposed ? 1 : 0]));
}

/* Whether `value`, which is called `what`, is in 1..max. */
static gboolean
check_limit (Binder *b, const gchar *what, guint64 value, guint64 max)
{
  if (value >= 1 && value <= max)
    return TRUE;
  return fail (b, MIMI_ERROR_UNSUPPORTED,
      "%s is %" G_GUINT64_FORMAT ", supported is 1 to %" G_GUINT64_FORMAT, what,
      value, max);
}

/* ------------------------------------------------------------ the parts --- */

static gboolean
bind_codebooks (Binder *b)
{
  const MimiLayout *l = b->layout;
  MimiNetwork *net = b->network;
  gint last = mimi_names_get_last (b->names, l->rest_book);
  guint i;

  net->codebooks = last + 2;
  if (net->codebooks > MIMI_MAX_CODEBOOKS)
    return fail (b, MIMI_ERROR_UNSUPPORTED,
        "has %u codebooks, supported are at most %d", net->codebooks,
        MIMI_MAX_CODEBOOKS);

  for (i = 0; i < net->codebooks; i++) {
    MimiCodebook *book = &b->weights->codebooks[i];
    const gchar *scope = i == 0 ? l->first_book : l->rest_book;
    guint index = i == 0 ? 0 : i - 1;

    if (!bind_tensor (b, &book->sum, scope, l->sum, index, "",
            SHAPE2 (net->codebook_size, net->codebook_dim)))
      return FALSE;
    net->codebook_size = book->sum.shape[0];
    net->codebook_dim = book->sum.shape[1];
    if (!check_limit (b, "the number of entries of a codebook",
            net->codebook_size, 65535) ||
        !check_limit (b, "the length of a codebook's entries",
            net->codebook_dim, MIMI_MAX_CHANNELS) ||
        !bind_tensor (b, &book->usage, scope, l->usage, index, "",
            SHAPE1 (net->codebook_size)))
      return FALSE;
  }
  return bind_tensor (b, &b->weights->first_proj, "", l->first_proj, 0, "",
             SHAPE3 (net->width, net->codebook_dim, 1)) &&
         (net->codebooks == 1 ||
             bind_tensor (b, &b->weights->rest_proj, "", l->rest_proj, 0, "",
                 SHAPE3 (net->width, net->codebook_dim, 1)));
}

/* emb_mean and emb_std, which the language model's part of the file holds. */
static gboolean
bind_statistics (Binder *b)
{
  static const gchar *const heads[] = { "flow_lm.", "model.flow_lm.", "" };
  static const gchar *const means[] = { "emb_mean", "latent_mean" };
  static const gchar *const stds[] = { "emb_std", "latent_std" };
  guint i, j;

  for (i = 0; i < G_N_ELEMENTS (heads); i++) {
    for (j = 0; j < G_N_ELEMENTS (means); j++) {
      gchar *mean_name = g_strconcat (heads[i], means[j], NULL);
      gchar *std_name = g_strconcat (heads[i], stds[j], NULL);
      const MimiEntry *mean =
          g_hash_table_lookup (b->names->entries, mean_name);
      const MimiEntry *std = g_hash_table_lookup (b->names->entries, std_name);

      g_free (mean_name);
      g_free (std_name);
      if (!mean || !std)
        continue;
      b->network->has_statistics = TRUE;
      return set_tensor (b, &b->weights->emb_mean, mean,
                 SHAPE1 (b->network->latent_dim)) &&
             set_tensor (
                 b, &b->weights->emb_std, std, SHAPE1 (b->network->latent_dim));
    }
  }
  return TRUE;
}

/* What turns a row of input into a vector of `width`. */
static gboolean
bind_front (Binder *b)
{
  const MimiLayout *l = b->layout;
  MimiNetwork *net = b->network;
  gboolean codes = mimi_names_get_last (b->names, l->first_book) >= 0 ||
                   mimi_names_get_last (b->names, l->rest_book) >= 0 ||
                   mimi_names_find (b->names, "", l->first_proj, 0, "");

  if (codes && !bind_codebooks (b))
    return FALSE;
  if (codes && !mimi_names_find (b->names, "", l->latent_proj, 0, ""))
    return TRUE;
  if (!l->latent_proj)
    return bind_codebooks (b);

  if (!bind_tensor (b, &b->weights->latent_proj, "", l->latent_proj, 0, "",
          SHAPE3 (net->width, 0, 1)))
    return FALSE;
  net->latent_dim = b->weights->latent_proj.shape[1];
  return check_limit (
             b, "the length of a latent", net->latent_dim, MIMI_MAX_CHANNELS) &&
         bind_statistics (b);
}

static gboolean
bind_upsample (Binder *b)
{
  MimiTensor *up = &b->weights->upsample;
  MimiNetwork *net = b->network;

  if (!bind_conv_weight (b, up, b->layout->upsample, 0, SHAPE3 (0, 1, 0)) ||
      !check_limit (b, "the width", up->shape[0], MIMI_MAX_CHANNELS) ||
      !check_limit (
          b, "the kernel of the upsampling", up->shape[2], MIMI_MAX_KERNEL))
    return FALSE;
  if (up->shape[2] % 2 != 0)
    return fail (b, MIMI_ERROR_UNSUPPORTED,
        "the upsampling has %" G_GUINT64_FORMAT
        " taps, expected twice its stride",
        up->shape[2]);
  net->width = up->shape[0];
  net->upsample = up->shape[2] / 2;
  return TRUE;
}

/* q, k and v; transformers keeps them apart. */
static gboolean
bind_in_proj (Binder *b, MimiTensor *in_proj, guint layer)
{
  const MimiLayout *l = b->layout;
  guint width = b->network->width;
  MimiDerived derived = { MIMI_DERIVED_IN_PROJ, in_proj };
  MimiTensor *q = &derived.parts[0];

  if (l->in_proj)
    return bind_tensor (
        b, in_proj, l->layer, l->in_proj, layer, "", SHAPE2 (3 * width, width));

  if (!bind_tensor (
          b, q, l->layer, l->q_proj, layer, "", SHAPE2 (width, width)) ||
      !bind_tensor (
          b, q + 1, l->layer, l->k_proj, layer, "", SHAPE2 (width, width)) ||
      !bind_tensor (
          b, q + 2, l->layer, l->v_proj, layer, "", SHAPE2 (width, width)))
    return FALSE;
  if (q[0].dtype != q[1].dtype || q[0].dtype != q[2].dtype)
    return fail (b, MIMI_ERROR_UNSUPPORTED,
        "layer %u has q, k and v of different dtypes", layer);
  *in_proj = *q;
  in_proj->shape[0] = 3 * width;
  in_proj->file = NULL;
  g_array_append_val (b->derived, derived);
  return TRUE;
}

static gboolean
bind_layer (Binder *b, MimiLayerWeights *w, guint layer)
{
  const MimiLayout *l = b->layout;
  MimiNetwork *net = b->network;
  guint d = net->width;

  if (!bind_tensor (b, &w->linear1, l->layer, l->linear1, layer, "",
          SHAPE2 (net->ffn, d)) ||
      !check_limit (
          b, "the feed-forward width", w->linear1.shape[0], MIMI_MAX_FFN))
    return FALSE;
  net->ffn = w->linear1.shape[0];

  return bind_tensor (b, &w->norm1_weight, l->layer, l->norm1, layer, "weight",
             SHAPE1 (d)) &&
         bind_tensor (b, &w->norm1_bias, l->layer, l->norm1, layer, "bias",
             SHAPE1 (d)) &&
         bind_in_proj (b, &w->in_proj, layer) &&
         bind_tensor (b, &w->out_proj, l->layer, l->out_proj, layer, "",
             SHAPE2 (d, d)) &&
         bind_tensor (b, &w->norm2_weight, l->layer, l->norm2, layer, "weight",
             SHAPE1 (d)) &&
         bind_tensor (b, &w->norm2_bias, l->layer, l->norm2, layer, "bias",
             SHAPE1 (d)) &&
         bind_tensor (b, &w->linear2, l->layer, l->linear2, layer, "",
             SHAPE2 (d, net->ffn)) &&
         bind_tensor (
             b, &w->scale1, l->layer, l->scale1, layer, "", SHAPE1 (d)) &&
         bind_tensor (
             b, &w->scale2, l->layer, l->scale2, layer, "", SHAPE1 (d));
}

static gboolean
bind_transformer (Binder *b)
{
  const MimiEntry *projection =
      mimi_names_find (b->names, b->layout->transformer,
          "input_proj.weight|output_projs.0.weight|output_proj.weight", 0, "");
  guint i, n = MAX (1, mimi_names_get_last (b->names, b->layout->layer) + 1);

  if (projection)
    return fail (b, MIMI_ERROR_UNSUPPORTED,
        "tensor '%s' projects to a transformer of another width; no published "
        "decoder has it, and it is not supported",
        projection->name);
  if (!check_limit (b, "the number of layers", n, MIMI_MAX_LAYERS))
    return FALSE;
  b->network->layers = n;
  b->weights->layers = g_new0 (MimiLayerWeights, n);
  for (i = 0; i < n; i++) {
    if (!bind_layer (b, &b->weights->layers[i], i))
      return FALSE;
  }
  return TRUE;
}

/* One ratio: a transposed convolution and a residual block. */
static gboolean
bind_stage (Binder *b, guint stage)
{
  const MimiLayout *l = b->layout;
  MimiNetwork *net = b->network;
  MimiStageWeights *w = &b->weights->stages[stage];
  guint index = 3 * stage + 2;
  guint64 kernel, channels;

  if (!bind_conv (b, &w->up, l->convtr, index,
          SHAPE3 (net->channels[stage], 0, 0), TRUE))
    return FALSE;
  kernel = w->up.weight.shape[2];
  channels = w->up.weight.shape[1];
  if (!check_limit (b, "a stage's kernel", kernel, MIMI_MAX_KERNEL) ||
      !check_limit (b, "a stage's channels", channels, MIMI_MAX_CHANNELS))
    return FALSE;
  if (kernel % 2 != 0)
    return fail (b, MIMI_ERROR_UNSUPPORTED,
        "stage %u upsamples with %" G_GUINT64_FORMAT
        " taps, expected twice its stride",
        stage, kernel);
  net->ratios[stage] = kernel / 2;
  net->channels[stage + 1] = channels;

  if (!bind_conv (b, &w->res1, l->res1, index + 1,
          SHAPE3 (0, channels, net->residual_kernel), FALSE) ||
      !check_limit (b, "a residual block's channels", w->res1.weight.shape[0],
          MIMI_MAX_CHANNELS) ||
      !check_limit (b, "a residual block's kernel", w->res1.weight.shape[2],
          MIMI_MAX_KERNEL))
    return FALSE;
  net->hidden[stage] = w->res1.weight.shape[0];
  net->residual_kernel = w->res1.weight.shape[2];
  return bind_conv (b, &w->res2, l->res2, index + 1,
      SHAPE3 (channels, net->hidden[stage], 1), FALSE);
}

static gboolean
bind_seanet (Binder *b)
{
  const MimiLayout *l = b->layout;
  MimiNetwork *net = b->network;
  MimiWeights *w = b->weights;
  gchar *scope = g_strndup (l->conv, strchr (l->conv, '#') + 1 - l->conv);
  gint last = mimi_names_get_last (b->names, scope);
  guint i;

  g_free (scope);
  /* Modules: 0, then for each stage ELU, 3s+2, 3s+3, and after the last of
   * them ELU and the last convolution. */
  last += last % 3 == 0 && last > 0 ? 2 : 0; /* it is missing, to be named */
  net->stages = MAX (0, last - 2) / 3;
  if (last < 5 || last % 3 != 2 || net->stages > MIMI_MAX_STAGES)
    return fail (b, MIMI_ERROR_UNSUPPORTED,
        "its convolutions end at module %d, which fits no number of stages "
        "from 1 to %d with one residual block each",
        last, MIMI_MAX_STAGES);

  if (!bind_conv (b, &w->first, l->conv, 0, SHAPE3 (0, net->width, 0), FALSE) ||
      !check_limit (b, "the number of channels", w->first.weight.shape[0],
          MIMI_MAX_CHANNELS) ||
      !check_limit (b, "the first convolution's kernel",
          w->first.weight.shape[2], MIMI_MAX_KERNEL))
    return FALSE;
  net->channels[0] = w->first.weight.shape[0];
  net->first_kernel = w->first.weight.shape[2];

  for (i = 0; i < net->stages; i++) {
    if (!bind_stage (b, i))
      return FALSE;
  }
  if (!bind_conv (b, &w->last, l->conv, last,
          SHAPE3 (1, net->channels[net->stages], 0), FALSE) ||
      !check_limit (b, "the last convolution's kernel", w->last.weight.shape[2],
          MIMI_MAX_KERNEL))
    return FALSE;
  net->last_kernel = w->last.weight.shape[2];
  return TRUE;
}

static gboolean
check_frame (Binder *b)
{
  const MimiNetwork *net = b->network;
  guint64 samples = net->upsample;
  guint i;

  for (i = 0; i < net->stages; i++)
    samples *= net->ratios[i];
  if (samples == MIMI_FRAME_SAMPLES)
    return TRUE;
  return fail (b, MIMI_ERROR_UNSUPPORTED,
      "its kernels make a frame of %" G_GUINT64_FORMAT
      " samples, expected %d (80 ms at 24 kHz)",
      samples, MIMI_FRAME_SAMPLES);
}

/* Each size may be within its limit and their product be out of all reason: a
 * file with holes is as large as it likes. */
static gboolean
check_weights (Binder *b)
{
  guint64 bytes = 0;
  guint i;

  for (i = 0; i < b->bound->len; i++) {
    const MimiTensor *t = &g_array_index (b->bound, MimiBound, i).tensor;

    bytes += mimi_tensor_get_length (t) * mimi_dtype_get_size (t->dtype);
  }
  if (bytes <= MIMI_MAX_WEIGHTS)
    return TRUE;
  return fail (b, MIMI_ERROR_UNSUPPORTED,
      "its decoder has %" G_GUINT64_FORMAT
      " bytes of weights, supported are at most %" G_GUINT64_FORMAT,
      bytes, MIMI_MAX_WEIGHTS);
}

gboolean
mimi_network_bind (MimiNames *names, MimiNetwork *network, MimiWeights *weights,
    GArray *bound, GArray *derived, GError **error)
{
  Binder b = { names, names->layout, network, weights, bound, derived, error };
  const gchar *unused;

  if (!bind_upsample (&b) || !bind_front (&b) || !bind_transformer (&b) ||
      !bind_seanet (&b) || !check_frame (&b) || !check_weights (&b))
    return FALSE;

  unused = mimi_names_find_unused (names);
  if (!unused)
    return TRUE;
  return fail (&b, MIMI_ERROR_UNSUPPORTED,
      "tensor '%s' belongs to the decoder and no published decoder has it: "
      "this network is not supported",
      unused);
}
