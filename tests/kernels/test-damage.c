/* Checkpoints that are damaged, each in one way, or of networks that we do not
 * know.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "checkpoint.h"

#include <math.h>
#include <string.h>

static const gchar *const damaged[] = { "tiny-pocket", "tiny-phonon",
  "tiny-hfpocket", "tiny-rawnorm", "tinyfull-moshi", "tinyfull-hf",
  "tinyfull-csm" };

/* Tensors that may be missing: nobody needs them to decode. */
static gboolean
is_optional (const gchar *name)
{
  return strcmp (name, "__metadata__") == 0 ||
         g_str_has_suffix (name, "initialized") ||
         g_str_has_prefix (name, "flow_lm.");
}

/* Each tensor is missing once, has a dimension too many, other sizes, a dtype
 * that is no weight's. */
static void
damage_tensor (Checkpoint *c, const gchar *name)
{
  JsonObject *tensor = json_object_ref (checkpoint_get (c, name));
  JsonArray *shape =
      json_array_ref (json_object_get_array_member (tensor, "shape"));
  gchar *quoted = g_strdup_printf ("tensor '%s' ", name);
  guint n = json_array_get_length (shape), d;
  guint64 dims[4] = { 0 };

  json_object_remove_member (c->header, name);
  checkpoint_assert_bad (c, MIMI_ERROR_TENSOR, quoted, "is missing",
      "expected it with shape [", NULL);
  json_object_set_object_member (c->header, name, tensor);

  json_object_set_string_member (tensor, "dtype", "I32");
  checkpoint_assert_bad (c, MIMI_ERROR_TENSOR, quoted, "has dtype I32",
      "expected F32, F16 or BF16", NULL);
  json_object_set_string_member (tensor, "dtype", "F32");

  for (d = 0; d < n; d++)
    dims[d] = json_array_get_int_element (shape, d);
  dims[n] = 1;
  checkpoint_set_shape (c, name, n + 1, dims);
  checkpoint_assert_bad (
      c, MIMI_ERROR_TENSOR, quoted, "has shape [", "expected [", NULL);

  /* twice as many rows of half the length */
  for (d = n - 1; d > 0 && dims[d] % 2 != 0; d--)
    ;
  if (d > 0) {
    GError *error = NULL;

    dims[0] *= 2;
    dims[d] /= 2;
    checkpoint_set_shape (c, name, n, dims);
    g_assert_null (checkpoint_open (c, &error));
    g_assert_true (g_error_matches (error, MIMI_ERROR, MIMI_ERROR_TENSOR) ||
                   g_error_matches (error, MIMI_ERROR, MIMI_ERROR_UNSUPPORTED));
    g_error_free (error);
  }
  json_object_set_array_member (tensor, "shape", shape);
  g_free (quoted);
}

static void
test_each_tensor (void)
{
  guint i;

  for (i = 0; i < G_N_ELEMENTS (damaged); i++) {
    Checkpoint *c = checkpoint_load (damaged[i]);
    GList *names = json_object_get_members (c->header), *l;
    MimiModel *model;

    for (l = names; l; l = l->next) {
      gchar *name = g_strdup (l->data); /* removal frees the object's own */

      l->data = NULL;
      if (!is_optional (name))
        damage_tensor (c, name);
      g_free (name);
    }
    model = checkpoint_open (c, NULL);
    g_assert_nonnull (model);
    mimi_model_unref (model);
    g_list_free (names);
    checkpoint_free (c);
  }
}

/* Cut after every byte of the header, and in the data. */
static void
test_truncated (void)
{
  Checkpoint *c = checkpoint_load ("tiny-pocket");
  GBytes *bytes = checkpoint_write (c);
  gsize size, n;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  guint64 header;

  memcpy (&header, data, 8);
  for (n = 1; n < 8 + header + 64; n++)
    bytes_assert_bad (data, n, MIMI_ERROR_CORRUPT, NULL);
  for (n = 8 + header; n < size; n += (size - 8 - header) / 50)
    bytes_assert_bad (data, n, MIMI_ERROR_CORRUPT, "tensor '", NULL);
  bytes_assert_bad (data, size - 1, MIMI_ERROR_CORRUPT, "tensor '", NULL);
  g_bytes_unref (bytes);
  checkpoint_free (c);
}

/* Any byte of the header may become any other: that is an error or a
 * checkpoint, never anything else. */
static void
test_mutated (void)
{
  GRand *rand = g_rand_new_with_seed (1);
  Checkpoint *c = checkpoint_load ("tiny-hfpocket");
  GBytes *bytes = checkpoint_write (c);
  guint64 header;
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  guint round, opened = 0;

  memcpy (&header, data, 8);
  for (round = 0; round < 3000; round++) {
    guint8 *copy = g_memdup2 (data, size);
    guint changes = g_rand_int_range (rand, 1, 4), i;
    GError *error = NULL;
    MimiModel *model;

    for (i = 0; i < changes; i++)
      copy[g_rand_int_range (rand, 0, 8 + header)] =
          "\"{}[]:,0123456789eE.-abfFB_\\ \0\377"[g_rand_int_range (
              rand, 0, 31)];
    model = mimi_model_open_bytes ("test", copy, size, &error);
    if (model) {
      opened++;
      mimi_model_check_values (model, NULL);
      mimi_model_unref (model);
    } else {
      g_assert_true (error->domain == MIMI_ERROR);
      g_assert_true (g_str_has_prefix (error->message, "test: "));
      g_error_free (error);
    }
    g_free (copy);
  }
  g_test_message ("%u of %u still opened", opened, round);
  g_assert_cmpuint (opened, >, 0);
  g_assert_cmpuint (opened, <, round / 2);
  g_bytes_unref (bytes);
  checkpoint_free (c);
  g_rand_free (rand);
}

/* NaN and Inf in a weight are errors, in what is not the decoder's not. */
static void
test_values (void)
{
  static const struct {
    const gchar *checkpoint, *tensor;
    guint element;
    gfloat value;
    const gchar *says;
  } cases[] = {
    { "tiny-pocket", "mimi.decoder.model.5.convtr.weight", 1234, NAN,
        "holds NaN at element 1234" },
    { "tiny-pocket", "flow_lm.emb_std", 31, INFINITY,
        "holds Inf at element 31" },
    { "tiny-hfpocket",
        "decoder.decoder_transformer.layers.1.self_attn.q_proj.weight", 0,
        -INFINITY, "holds Inf at element 0" },
    { "tiny-rawnorm", "model.decoder.model.5.convtr.convtr.weight_v", 7, NAN,
        "holds NaN at element 7" },
    { "tinyfull-hf",
        "quantizer.acoustic_residual_vector_quantizer.layers.6.codebook."
        "embed_sum",
        2047, NAN, "holds NaN at element 2047" },
  };
  guint i;

  for (i = 0; i < G_N_ELEMENTS (cases); i++) {
    Checkpoint *c = checkpoint_load (cases[i].checkpoint);
    gfloat *data = (gfloat *)checkpoint_get_data (c, cases[i].tensor);
    GError *error = NULL;
    MimiModel *model;

    memcpy (data + cases[i].element, &cases[i].value, 4);
    model = checkpoint_open (c, &error);
    g_assert_no_error (error);
    g_assert_false (mimi_model_check_values (model, &error));
    error_assert (error, MIMI_ERROR_TENSOR, "test: tensor '", cases[i].tensor,
        cases[i].says, NULL);
    mimi_model_unref (model);
    checkpoint_free (c);
  }
}

/* A filter of zeros has no direction: 0/0. */
static void
test_zero_norm (void)
{
  const gchar *name = "model.decoder.model.8.convtr.convtr.weight_v";
  Checkpoint *c = checkpoint_load ("tiny-rawnorm");
  GError *error = NULL;
  MimiModel *model;

  memset (checkpoint_get_data (c, name), 0, 8 * 8 * 4);
  model = checkpoint_open (c, &error);
  g_assert_no_error (error);
  g_assert_false (mimi_model_check_values (model, &error));
  error_assert (error, MIMI_ERROR_TENSOR, name, "NaN", NULL);
  mimi_model_unref (model);
  checkpoint_free (c);
}

/* What a language model adds is neither read nor checked. */
static void
test_others (void)
{
  Checkpoint *c = checkpoint_load ("tiny-pocket");
  GError *error = NULL;
  MimiModel *model;
  guint i;

  for (i = 0; i < 200; i++) {
    gchar *name = g_strdup_printf ("flow_lm.transformer.layers.%u.weight", i);

    checkpoint_add (c, name, i % 2 ? "F8_E4M3" : "F64", 100, i % 2 ? 1 : 8);
    memset (checkpoint_get_data (c, name), 0xff, 100); /* NaN */
    g_free (name);
  }
  checkpoint_add (c, "mimi.encoder.model.0.conv.weight", "F32", 100, 4);
  checkpoint_add (
      c, "mimi.encoder_transformer.transformer.layers.0.x", "I8", 100, 1);
  checkpoint_add (c, "speaker_mimi.decoder.model.0.conv.weight", "F32", 9, 4);
  model = checkpoint_open (c, &error);
  g_assert_no_error (error);
  mimi_model_check_values (model, &error);
  g_assert_no_error (error);
  mimi_model_unref (model);
  checkpoint_free (c);
}

/* The statistics are only needed where latents come normalised. */
static void
test_statistics (void)
{
  Checkpoint *c = checkpoint_load ("tiny-pocket");
  guint64 shape[2] = { 16, 2 };
  MimiModel *model;

  g_assert_nonnull ((model = checkpoint_open (c, NULL)));
  g_assert_true (mimi_model_get_network (model)->has_statistics);
  mimi_model_unref (model);

  checkpoint_set_shape (c, "flow_lm.emb_std", 2, shape);
  checkpoint_assert_bad (c, MIMI_ERROR_TENSOR, "flow_lm.emb_std", NULL);
  json_object_remove_member (c->header, "flow_lm.emb_std");
  g_assert_nonnull ((model = checkpoint_open (c, NULL)));
  g_assert_false (mimi_model_get_network (model)->has_statistics);
  mimi_model_unref (model);
  checkpoint_free (c);
}

/* ------------------------------------------- networks that we do not know --- */

static void
test_unknown (void)
{
  Checkpoint *c = checkpoint_load ("tiny-pocket");

  /* parts that nobody would apply */
  checkpoint_add (c, "mimi.decoder.model.3.shortcut.conv.weight", "F32", 4, 4);
  checkpoint_assert_bad (c, MIMI_ERROR_UNSUPPORTED,
      "mimi.decoder.model.3.shortcut.conv.weight", NULL);
  json_object_remove_member (
      c->header, "mimi.decoder.model.3.shortcut.conv.weight");
  checkpoint_add (c,
      "mimi.decoder_transformer.transformer.layers.0.linear1.bias", "F32", 256,
      4);
  checkpoint_assert_bad (c, MIMI_ERROR_UNSUPPORTED, "linear1.bias", NULL);
  json_object_remove_member (
      c->header, "mimi.decoder_transformer.transformer.layers.0.linear1.bias");
  checkpoint_add (c, "mimi.decoder_transformer.input_proj.weight", "F32", 4, 4);
  checkpoint_assert_bad (c, MIMI_ERROR_UNSUPPORTED,
      "mimi.decoder_transformer.input_proj.weight", NULL);
  json_object_remove_member (
      c->header, "mimi.decoder_transformer.input_proj.weight");

  /* all of the last convolution is missing */
  checkpoint_rename (c, "mimi.decoder.model.11.conv.weight", "x");
  checkpoint_rename (c, "mimi.decoder.model.11.conv.bias", "y");
  checkpoint_assert_bad (c, MIMI_ERROR_TENSOR,
      "'mimi.decoder.model.11.conv.weight' is missing", NULL);
  checkpoint_free (c);
}

/* Puts a tensor of zeros of another shape in the place of one. */
static void
replace (Checkpoint *c, const gchar *tensor, guint64 x, guint64 y, guint64 z)
{
  guint64 shape[3] = { x, y, z };

  json_object_remove_member (c->header, tensor);
  checkpoint_add (c, tensor, "F32", x * y * z, 4);
  checkpoint_set_shape (c, tensor, 3, shape);
}

/* Sizes that make no frame of 1920 samples, or that are beyond the limits. */
static void
test_sizes (void)
{
  const gchar *up = "mimi.upsample.convtr.convtr.weight";
  Checkpoint *c = checkpoint_load ("tiny-pocket");

  replace (c, up, 64, 1, 16);
  checkpoint_assert_bad (c, MIMI_ERROR_UNSUPPORTED, "a frame of 960 samples",
      "expected 1920", NULL);
  replace (c, up, 64, 1, 31);
  checkpoint_assert_bad (c, MIMI_ERROR_UNSUPPORTED, "31 taps", NULL);
  replace (c, up, 64, 1, 128);
  checkpoint_assert_bad (
      c, MIMI_ERROR_UNSUPPORTED, "upsampling is 128", "1 to 64", NULL);
  replace (c, up, 64, 1, 32);
  replace (c, "mimi.decoder.model.5.convtr.weight", 32, 16, 11);
  checkpoint_assert_bad (c, MIMI_ERROR_UNSUPPORTED, "11 taps", NULL);
  replace (c, "mimi.decoder.model.5.convtr.weight", 32, 16, 12);
  checkpoint_assert_bad (
      c, MIMI_ERROR_UNSUPPORTED, "a frame of 2304 samples", NULL);
  checkpoint_free (c);

  c = checkpoint_load ("tinyfull-moshi");
  checkpoint_add (c, "quantizer.rvq_rest.vq.layers.40._codebook.embedding_sum",
      "F32", 1, 4);
  checkpoint_assert_bad (
      c, MIMI_ERROR_UNSUPPORTED, "has 42 codebooks", "at most 32", NULL);
  checkpoint_free (c);
}

static void
test_no_decoder (void)
{
  Checkpoint *c = checkpoint_load ("tiny-pocket");
  GList *names = json_object_get_members (c->header), *l;

  for (l = names; l; l = l->next) {
    if (g_str_has_prefix (l->data, "mimi.decoder.")) {
      gchar *name = g_strconcat ("vocoder.", l->data, NULL);

      checkpoint_rename (c, l->data, name);
      g_free (name);
    } else if (g_str_has_prefix (l->data, "mimi.")) {
      json_object_remove_member (c->header, l->data);
    }
  }
  checkpoint_assert_bad (c, MIMI_ERROR_WRONG_TYPE, "no Mimi decoder",
      "'mimi.decoder.model.0.conv.weight' (pocket)",
      "'decoder.layers.0.conv.weight' (hf)",
      "the nearest is 'vocoder.mimi.decoder.model.0.conv.weight'", NULL);
  g_list_free (names);
  checkpoint_free (c);

  bytes_assert_bad (
      "\2\0\0\0\0\0\0\0{}", 10, MIMI_ERROR_WRONG_TYPE, "nearest is none", NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/damage/each-tensor", test_each_tensor);
  g_test_add_func ("/damage/truncated", test_truncated);
  g_test_add_func ("/damage/mutated", test_mutated);
  g_test_add_func ("/damage/values", test_values);
  g_test_add_func ("/damage/zero-norm", test_zero_norm);
  g_test_add_func ("/damage/others", test_others);
  g_test_add_func ("/damage/statistics", test_statistics);
  g_test_add_func ("/damage/unknown", test_unknown);
  g_test_add_func ("/damage/sizes", test_sizes);
  g_test_add_func ("/damage/no-decoder", test_no_decoder);
  return g_test_run ();
}
