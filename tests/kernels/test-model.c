/* From a checkpoint to a network and its weights: sizes, layouts, dtypes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "checkpoint.h"

#include <math.h>
#include <string.h>

static MimiModel *
open_named (const gchar *name)
{
  gchar *path = checkpoint_path (name);
  GError *error = NULL;
  MimiModel *model = mimi_model_open (path, NULL, &error);

  g_assert_no_error (error);
  mimi_model_check_values (model, &error);
  g_assert_no_error (error);
  g_free (path);
  return model;
}

/* ------------------------------------------------------------ networks --- */

static void
test_networks (void)
{
  static const struct {
    const gchar *name;
    MimiNetwork network;
    gboolean warns;
  } networks[] = {
    { "pocket18m-pocket",
        { .latent_dim = 32,
            .has_statistics = TRUE,
            .width = 128,
            .upsample = 16,
            .layers = 12,
            .heads = 4,
            .head_dim = 32,
            .ffn = 384,
            .window = 50,
            .gelu = MIMI_GELU_TANH,
            .norm_eps = 1e-5,
            .rope_theta = 10000,
            .first_kernel = 3,
            .residual_kernel = 3,
            .last_kernel = 3,
            .stages = 3,
            .ratios = { 6, 5, 4 },
            .channels = { 256, 128, 64, 32 },
            .hidden = { 64, 32, 16 } },
        FALSE },
    { "pocket2m-hfpocket",
        { .latent_dim = 32,
            .width = 128,
            .upsample = 16,
            .layers = 4,
            .heads = 4,
            .head_dim = 32,
            .ffn = 384,
            .window = 50,
            .gelu = MIMI_GELU_ERF,
            .norm_eps = 1e-5,
            .rope_theta = 10000,
            .first_kernel = 3,
            .residual_kernel = 3,
            .last_kernel = 3,
            .stages = 3,
            .ratios = { 6, 5, 4 },
            .channels = { 192, 96, 48, 24 },
            .hidden = { 48, 24, 12 } },
        FALSE },
    { "tiny-phonon",
        { .latent_dim = 32,
            .has_statistics = TRUE,
            .width = 64,
            .upsample = 16,
            .layers = 2,
            .heads = 1,
            .head_dim = 64,
            .ffn = 256,
            .window = 250,
            .gelu = MIMI_GELU_ERF,
            .norm_eps = 1e-5,
            .rope_theta = 10000,
            .first_kernel = 7,
            .residual_kernel = 3,
            .last_kernel = 3,
            .stages = 3,
            .ratios = { 6, 5, 4 },
            .channels = { 64, 32, 16, 8 },
            .hidden = { 16, 8, 4 } },
        TRUE },
    { "tinyfull-csm",
        { .codebooks = 8,
            .codebook_size = 64,
            .codebook_dim = 32,
            .width = 64,
            .upsample = 2,
            .layers = 3,
            .heads = 1,
            .head_dim = 64,
            .ffn = 256,
            .window = 250,
            .gelu = MIMI_GELU_ERF,
            .norm_eps = 1e-5,
            .rope_theta = 10000,
            .first_kernel = 7,
            .residual_kernel = 3,
            .last_kernel = 3,
            .stages = 4,
            .ratios = { 8, 6, 5, 4 },
            .channels = { 128, 64, 32, 16, 8 },
            .hidden = { 32, 16, 8, 4 } },
        TRUE },
  };
  guint i;

  for (i = 0; i < G_N_ELEMENTS (networks); i++) {
    MimiModel *model = open_named (networks[i].name);
    const MimiNetwork *net = mimi_model_get_network (model);

    g_test_message ("%s", mimi_model_describe (model));
    g_assert_cmpmem (net, sizeof *net, &networks[i].network, sizeof *net);
    g_assert_cmpint (
        mimi_model_get_warning (model) != NULL, ==, networks[i].warns);
    mimi_model_unref (model);
  }
}

/* ------------------------------------------------- layouts and dtypes --- */

static void
collect (
    const gchar *what G_GNUC_UNUSED, const MimiTensor *tensor, gpointer tensors)
{
  g_array_append_vals (tensors, tensor, 1);
}

typedef struct {
  GArray *expected; /* of MimiTensor */
  guint next;
  gdouble tolerance; /* of a relative difference; 0: the same bits */
} Comparison;

static void
compare (const gchar *what, const MimiTensor *tensor, gpointer user_data)
{
  Comparison *c = user_data;
  const MimiTensor *e = &g_array_index (c->expected, MimiTensor, c->next++);
  guint64 n = mimi_tensor_get_length (tensor), i;
  gfloat *a = g_new (gfloat, n), *b = g_new (gfloat, n);

  g_assert_cmpuint (tensor->n_dims, ==, e->n_dims);
  for (i = 0; i < e->n_dims; i++)
    g_assert_cmpuint (tensor->shape[i], ==, e->shape[i]);
  mimi_tensor_read (tensor, 0, n, a);
  mimi_tensor_read (e, 0, n, b);
  for (i = 0; i < n; i++) {
    if (fabs ((gdouble)a[i] - b[i]) > c->tolerance * fabs (b[i]))
      g_error ("%s [%u]: %g, expected %g", what, (guint)i, a[i], b[i]);
  }
  g_free (a);
  g_free (b);
}

/* Whether both hold the same numbers. Statistics, which not all layouts have,
 * come first and are passed over where one has none. */
static void
assert_same (const gchar *name, const gchar *other, gdouble tolerance)
{
  MimiModel *a = open_named (name), *b = open_named (other);
  Comparison c = { g_array_new (FALSE, FALSE, sizeof (MimiTensor)), 0,
    tolerance };

  weights_foreach (a, collect, c.expected);
  if (mimi_model_get_network (a)->has_statistics &&
      !mimi_model_get_network (b)->has_statistics)
    c.next = 2;
  weights_foreach (b, compare, &c);
  g_assert_cmpuint (c.next, ==, c.expected->len);
  g_array_unref (c.expected);
  mimi_model_unref (a);
  mimi_model_unref (b);
}

static void
test_layouts (void)
{
  assert_same ("tiny-pocket", "tiny-phonon", 0);
  assert_same ("tiny-pocket", "tiny-hfpocket", 0);
  assert_same ("tiny-pocket-BF16", "tiny-hfpocket-BF16", 0);
  assert_same ("pocket2m-pocket", "pocket2m-hfpocket", 0);
  assert_same ("tinyfull-moshi", "tinyfull-hf", 0);
  assert_same ("tinyfull-moshi", "tinyfull-csm", 0);
  /* two roundings to float32, of g and of 0.37 v */
  assert_same ("tiny-pocket", "tiny-rawnorm", 0x1p-22);
  assert_same ("pocket2m-pocket", "pocket2m-rawnorm", 0x1p-22);
  assert_same ("tinyfull-moshi", "tinyfull-rawnorm", 0x1p-22);
}

static void
test_dtypes (void)
{
  assert_same ("tiny-pocket", "tiny-pocket-BF16", 0x1p-8);
  /* halves are subnormal below 2^-14: relative errors grow there */
  assert_same ("tiny-pocket", "tiny-pocket-F16", 0x1p-3);
}

static void
assert_dtype (const gchar *what, const MimiTensor *tensor, gpointer user_data)
{
  if (tensor->dtype != *(MimiDtype *)user_data)
    g_error ("%s has dtype %d", what, tensor->dtype);
}

/* Storage stays what it is in the file, where it is put together too. */
static void
test_storage (void)
{
  MimiDtype bf16 = MIMI_DTYPE_BF16, f16 = MIMI_DTYPE_F16;
  MimiModel *model = open_named ("tiny-hfpocket-BF16");

  weights_foreach (model, assert_dtype, &bf16);
  mimi_model_unref (model);
  model = open_named ("tiny-pocket-F16");
  weights_foreach (model, assert_dtype, &f16);
  mimi_model_unref (model);
}

/* Names that some of moshi's releases have. */
static void
test_aliases (void)
{
  static const gchar *const parts[][2] = {
    { "embedding_sum", "embed_avg" },
    { "embedding_sum", "embed_sum" },
    { "cluster_usage", "cluster_size" },
    { "in_proj_weight", "in_projs.0.weight" },
    { "in_proj_weight", "in_proj.weight" },
    { "out_proj.weight", "out_projs.0.weight" },
  };
  guint i;

  for (i = 0; i < G_N_ELEMENTS (parts); i++) {
    Checkpoint *c = checkpoint_load ("tinyfull-moshi");
    GList *names = json_object_get_members (c->header), *l;
    GError *error = NULL;
    MimiModel *model;
    guint renamed = 0;

    for (l = names; l; l = l->next) {
      const gchar *name = l->data, *at = strstr (name, parts[i][0]);

      /* the quantizer's own projections have no other name */
      if (at && !g_str_has_prefix (name, "quantizer.rvq_first.output") &&
          !g_str_has_prefix (name, "quantizer.rvq_rest.output")) {
        gchar *new_name = g_strdup_printf ("%.*s%s%s", (int)(at - name), name,
            parts[i][1], at + strlen (parts[i][0]));

        checkpoint_rename (c, name, new_name);
        g_free (new_name);
        renamed++;
      }
    }
    g_assert_cmpuint (renamed, >=, 3);
    model = checkpoint_open (c, &error);
    g_assert_no_error (error);
    mimi_model_unref (model);
    g_list_free (names);
    checkpoint_free (c);
  }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/networks", test_networks);
  g_test_add_func ("/model/layouts", test_layouts);
  g_test_add_func ("/model/dtypes", test_dtypes);
  g_test_add_func ("/model/storage", test_storage);
  g_test_add_func ("/model/aliases", test_aliases);
  return g_test_run ();
}
