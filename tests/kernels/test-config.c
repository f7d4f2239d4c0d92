/* What shapes do not tell: config.json, YAML, the table, the fallback.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "checkpoint.h"

#include <glib/gstdio.h>
#include <string.h>

/* A folder with a checkpoint model.safetensors, and one configuration. */
typedef struct {
  gchar *folder, *path;
} Place;

static Place
place_new (const gchar *checkpoint)
{
  Place p = { folder_new () };
  gchar *from = checkpoint_path (checkpoint), *real = realpath (from, NULL);

  p.path = g_build_filename (p.folder, "model.safetensors", NULL);
  {
    /* a copy: beside a link, what lies beside its target counts too */
    gchar *data;
    gsize size;

    g_assert_true (g_file_get_contents (real, &data, &size, NULL));
    g_assert_true (g_file_set_contents (p.path, data, size, NULL));
    g_free (data);
  }
  free (real);
  g_free (from);
  return p;
}

static void
place_free (Place *p)
{
  folder_remove (p->folder);
  g_free (p->path);
}

typedef struct {
  guint heads, window;
  MimiGelu gelu;
  gdouble theta, eps;
  gboolean warns;
  const gchar *says; /* part of the description */
} Expected;

static void
assert_network (const gchar *path, const gchar *config, Expected e)
{
  GError *error = NULL;
  MimiModel *model = mimi_model_open (path, config, &error);
  const MimiNetwork *net;

  g_assert_no_error (error);
  net = mimi_model_get_network (model);
  g_assert_cmpuint (net->heads, ==, e.heads);
  g_assert_cmpuint (net->head_dim, ==, net->width / e.heads);
  g_assert_cmpuint (net->window, ==, e.window);
  g_assert_cmpint (net->gelu, ==, e.gelu);
  g_assert_cmpfloat (net->rope_theta, ==, e.theta ? e.theta : 10000);
  g_assert_cmpfloat (net->norm_eps, ==, e.eps ? e.eps : 1e-5);
  g_assert_cmpint (mimi_model_get_warning (model) != NULL, ==, e.warns);
  if (e.says && !strstr (mimi_model_describe (model), e.says))
    g_error ("'%s' does not say '%s'", mimi_model_describe (model), e.says);
  mimi_model_unref (model);
}

/* Opens tiny (width 64, 2 layers) with `text` beside it in a file `name`. */
static void
assert_beside (const gchar *name, const gchar *text, Expected e)
{
  Place p = place_new ("tiny-pocket");

  file_write (p.folder, name, text);
  assert_network (p.path, NULL, e);
  place_free (&p);
}

/* The same, which has to fail; beside the checkpoint and named. */
static void
assert_wrong (
    const gchar *text, gint code, const gchar *says, const gchar *also)
{
  Place p = place_new ("tiny-pocket");
  gchar *config = g_build_filename (p.folder, "config.json", NULL);
  GError *error = NULL;

  file_write (p.folder, "config.json", text);
  g_assert_null (mimi_model_open (p.path, NULL, &error));
  error_assert (error, code, config, says, also, NULL);
  error = NULL;
  g_assert_null (mimi_model_open (p.path, config, &error));
  error_assert (error, code, config, says, also, NULL);
  g_free (config);
  place_free (&p);
}

/* Something that is no Mimi's: no error beside, an error where it is named. */
static void
assert_other (const gchar *name, const gchar *text)
{
  /* only config.json surely means the checkpoint beside it */
  gboolean unreadable = strcmp (name, "config.json") == 0 &&
                        (*text != '{' || strchr (text, '[') ||
                            !strchr (text, '}') || strstr (text, "Infinity"));
  Place p = place_new ("tiny-pocket");
  gchar *config = g_build_filename (p.folder, name, NULL);
  GError *error = NULL;
  MimiModel *model;

  file_write (p.folder, name, text);
  model = mimi_model_open (p.path, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (mimi_model_get_warning (model));
  if (unreadable)
    g_assert_nonnull (strstr (mimi_model_get_warning (model), config));
  mimi_model_unref (model);
  g_assert_null (mimi_model_open (p.path, config, &error));
  error_assert (error, MIMI_ERROR_CONFIG, config, NULL);
  g_free (config);
  place_free (&p);
}

/* ----------------------------------------------------------- the rules --- */

static void
test_table (void)
{
  gchar *p18 = checkpoint_path ("pocket18m-pocket");
  gchar *p2 = checkpoint_path ("pocket2m-hfpocket");

  assert_network (p18, NULL,
      (Expected){ 4, 50, MIMI_GELU_TANH, .says = "table of published" });
  assert_network (p2, NULL,
      (Expected){ 4, 50, MIMI_GELU_ERF, .says = "table of published" });
  g_free (p18);
  g_free (p2);
}

static void
test_fallback (void)
{
  gchar *tiny = checkpoint_path ("tiny-pocket");
  gchar *full = checkpoint_path ("tinyfull-moshi");

  assert_network (tiny, NULL,
      (Expected){ 1, 250, MIMI_GELU_TANH, .warns = TRUE,
          .says = "heads, window by the fallback" });
  assert_network (
      full, NULL, (Expected){ 1, 250, MIMI_GELU_ERF, .warns = TRUE });
  g_free (tiny);
  g_free (full);
}

static void
test_demo (void)
{
  assert_network (g_getenv ("MIMI_TEST_DEMO"), NULL,
      (Expected){ 2, 250, MIMI_GELU_ERF, .says = "config.json" });
}

/* --------------------------------------------------------- transformers --- */

#define TINY \
  "\"hidden_size\":64,\"num_hidden_layers\":2,\"intermediate_size\":256," \
  "\"upsampling_ratios\":[6,5,4],\"num_filters\":8,\"kernel_size\":7," \
  "\"latent_dim\":32,\"latent_stride\":16,\"sampling_rate\":24000"
#define ATTENTION \
  "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"head_dim\":16," \
  "\"sliding_window\":33,\"hidden_act\":\"gelu\",\"norm_eps\":1e-6," \
  "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5000.0}"
#define ALL \
  (Expected) \
  { \
    4, 33, MIMI_GELU_ERF, 5000, 1e-6, FALSE, "config.json" \
  }

static void
test_transformers (void)
{
  assert_beside ("config.json",
      "{\"model_type\":\"pocket_tts_audio_tokenizer\"," TINY "," ATTENTION "}",
      ALL);
  assert_beside (
      "config.json", "{\"model_type\":\"mimi\"," TINY "," ATTENTION "}", ALL);
  /* without a model type, and only some of it */
  assert_beside ("config.json", "{" ATTENTION "}", ALL);
  assert_beside ("config.json", "{\"num_attention_heads\":2}",
      (Expected){ 2, 250, MIMI_GELU_TANH, .warns = TRUE });
  assert_beside ("config.json", "{\"head_dim\":16,\"sliding_window\":9}",
      (Expected){ 4, 9, MIMI_GELU_TANH });
  /* what the class takes a GELU to be that is not said */
  assert_beside ("config.json",
      "{\"model_type\":\"mimi\",\"num_attention_heads\":2,"
      "\"sliding_window\":9}",
      (Expected){ 2, 9, MIMI_GELU_ERF });
  assert_beside ("config.json",
      "{\"model_type\":\"mimi\",\"hidden_act\":\"gelu_pytorch_tanh\","
      "\"num_attention_heads\":2,\"sliding_window\":9,\"head_dim\":null,"
      "\"rope_theta\":20000}",
      (Expected){ 2, 9, MIMI_GELU_TANH, 20000 });
}

/* A language model's, which describes its codec in a part of its own. */
static void
test_nested (void)
{
  static const gchar *const parts[] = { "codec_config", "audio_encoder_config",
    "audio_tokenizer", "mimi" };
  guint i;

  for (i = 0; i < G_N_ELEMENTS (parts); i++) {
    gchar *text = g_strdup_printf (
        "{\"model_type\":\"csm\",\"hidden_size\":2048,"
        "\"num_attention_heads\":32,\"vocab_size\":4,"
        "\"%s\":{\"model_type\":\"mimi\"," TINY "," ATTENTION "}}",
        parts[i]);

    assert_beside ("config.json", text, ALL);
    g_free (text);
  }
}

static void
test_other (void)
{
  assert_other ("config.json",
      "{\"model_type\":\"pocket_tts\",\"hidden_size\":1024,"
      "\"num_attention_heads\":16,\"hidden_act\":\"gelu_pytorch_tanh\"}");
  assert_other ("config.json",
      "{\"dim\":4096,\"num_heads\":32,\"mimi_name\":\"tokenizer-e351c8d8\"}");
  assert_other ("config.json", "{}");
  assert_other ("config.json", "{\"mimi\":7,\"model_type\":8}");
  assert_other ("config.json", "[1,2]");
  assert_other ("config.json", "");
  assert_other ("config.json", "{\"hidden_size\":");
  assert_other ("config.json", "{\"a\":Infinity}");
  assert_other ("config.json", "\377\376{}");
  assert_other ("any.yaml", "a: [1, 2");
  assert_other ("any.yaml", "- 1\n- 2\n");
  assert_other ("any.yml", "flow_lm: {dtype: float32}\n");
}

static void
test_contradictions (void)
{
  static const struct {
    const gchar *text, *says, *also;
  } wrong[] = {
    { "{\"model_type\":\"mimi\",\"hidden_size\":512}", "hidden_size is 512",
        "64" },
    { "{\"model_type\":\"mimi\",\"num_hidden_layers\":8}",
        "num_hidden_layers is 8", "2" },
    { "{\"model_type\":\"mimi\",\"intermediate_size\":2048}",
        "intermediate_size is 2048", "256" },
    { "{\"model_type\":\"mimi\",\"upsampling_ratios\":[8,6,5,4]}",
        "upsampling_ratios has 4", "3" },
    { "{\"model_type\":\"mimi\",\"upsampling_ratios\":[6,4,5]}",
        "number 1 of upsampling_ratios is 4", "5" },
    { "{\"model_type\":\"mimi\",\"upsampling_ratios\":7}",
        "upsampling_ratios is not a list", "" },
    { "{\"model_type\":\"mimi\",\"num_filters\":64}", "num_filters is 64",
        "8 channels" },
    { "{\"model_type\":\"mimi\",\"kernel_size\":3}", "kernel_size is 3", "7" },
    { "{\"model_type\":\"mimi\",\"latent_dim\":64}", "latent_dim is 64", "32" },
    { "{\"model_type\":\"mimi\",\"num_attention_heads\":5}",
        "num_attention_heads is 5", "64" },
    { "{\"model_type\":\"mimi\",\"num_attention_heads\":64}",
        "num_attention_heads is 64", "even" },
    { "{\"model_type\":\"mimi\",\"num_attention_heads\":0}",
        "num_attention_heads is 0", "64" },
    { "{\"model_type\":\"mimi\",\"num_attention_heads\":-8}",
        "num_attention_heads is not a whole number", "" },
    { "{\"model_type\":\"mimi\",\"num_attention_heads\":\"8\"}",
        "num_attention_heads is not a whole number", "" },
    { "{\"model_type\":\"mimi\",\"num_attention_heads\":2,\"head_dim\":64}",
        "2 heads of head_dim 64", "64" },
    { "{\"model_type\":\"mimi\",\"num_attention_heads\":4,"
      "\"num_key_value_heads\":2}",
        "num_key_value_heads is 2", "4" },
    { "{\"model_type\":\"mimi\",\"sliding_window\":0}", "sliding_window is 0",
        "" },
    { "{\"model_type\":\"mimi\",\"sliding_window\":1000000}",
        "sliding_window is 1000000", "65536" },
    { "{\"model_type\":\"mimi\",\"norm_eps\":-1}", "norm_eps", "" },
    { "{\"model_type\":\"mimi\",\"rope_theta\":\"x\"}", "rope_theta", "" },
  };
  static const struct {
    const gchar *text, *says, *also;
  } unsupported[] = {
    { "{\"model_type\":\"mimi\",\"hidden_act\":\"silu\"}", "'silu'", "gelu" },
    { "{\"model_type\":\"mimi\",\"sampling_rate\":48000}", "48000", "24000" },
    { "{\"model_type\":\"mimi\",\"use_causal_conv\":false}",
        "use_causal_conv is false", "true" },
    { "{\"model_type\":\"mimi\",\"pad_mode\":\"replicate\"}", "replicate",
        "constant" },
    { "{\"model_type\":\"mimi\",\"rope_parameters\":{\"rope_type\":\"yarn\"}}",
        "yarn", "default" },
  };
  guint i;

  for (i = 0; i < G_N_ELEMENTS (wrong); i++)
    assert_wrong (
        wrong[i].text, MIMI_ERROR_CONFIG, wrong[i].says, wrong[i].also);
  for (i = 0; i < G_N_ELEMENTS (unsupported); i++)
    assert_wrong (unsupported[i].text, MIMI_ERROR_UNSUPPORTED,
        unsupported[i].says, unsupported[i].also);
}

/* ------------------------------------------------- pocket-tts and Phonon --- */

#define YAML \
  "# a comment\n" \
  "weights_path: hf://kyutai/pocket-tts/languages/english/x\n" \
  "replace_characters:\n  '\xe2\x80\x99': \"'\"\n" \
  "flow_lm:\n  transformer:\n    d_model: 1024\n    num_heads: 16\n" \
  "    num_layers: 6\n" \
  "mimi:\n  dtype: float32\n  sample_rate: 24000\n  channels: 1\n" \
  "  frame_rate: 12.5\n" \
  "  seanet:\n    dimension: 512\n    n_filters: 64\n" \
  "    n_residual_layers: 1\n    ratios:\n    - 6\n    - 5\n    - 4\n" \
  "    kernel_size: 7\n    pad_mode: constant\n" \
  "  transformer:\n    d_model: 512\n    num_heads: 8\n    num_layers: 2\n" \
  "    layer_scale: 0.01\n    context: 250\n    dim_feedforward: 2048\n" \
  "    max_period: 777\n" \
  "  quantizer:\n    dimension: 32\n    output_dimension: 512\n"
#define YAML_DECODER \
  "  decoder_seanet:\n    n_filters: %u\n    ratios: [6, 5, 4]\n" \
  "    kernel_size: 7\n    n_residual_layers: 1\n" \
  "  decoder_transformer:\n    d_model: 64\n    num_heads: 2\n" \
  "    num_layers: 2\n    context: 50\n    dim_feedforward: 256\n"

static void
test_yaml (void)
{
  gchar *good = g_strdup_printf (YAML YAML_DECODER, 8);
  gchar *bad = g_strdup_printf (YAML YAML_DECODER, 24);
  Place p = place_new ("tiny-pocket");
  GError *error = NULL;
  gchar *named;

  /* the decoder's own parts go before the common ones, as a whole */
  assert_beside ("english.yaml", good,
      (Expected){ 2, 50, MIMI_GELU_TANH, .says = "english.yaml" });
  assert_beside ("model.yml", good,
      (Expected){ 2, 50, MIMI_GELU_TANH, .says = "model.yml" });

  /* one of many: the one that agrees with the tensors */
  file_write (p.folder, "a.yaml", bad);
  g_assert_null (mimi_model_open (p.path, NULL, &error));
  error_assert (error, MIMI_ERROR_CONFIG, "a.yaml",
      "decoder_seanet.n_filters is 24", "8 channels", NULL);
  file_write (p.folder, "b.yaml", YAML);
  file_write (p.folder, "c.yaml", good);
  assert_network (
      p.path, NULL, (Expected){ 2, 50, MIMI_GELU_TANH, .says = "c.yaml" });
  error = NULL;
  named = g_build_filename (p.folder, "b.yaml", NULL);
  g_assert_null (mimi_model_open (p.path, named, &error));
  error_assert (error, MIMI_ERROR_CONFIG, "b.yaml",
      "transformer.d_model is 512", "64", NULL);
  g_free (named);
  place_free (&p);
  g_free (good);
  g_free (bad);
}

static void
test_phonon (void)
{
  assert_beside ("config.json",
      "{\"flow_lm\":{\"d_model\":768,\"num_heads\":12},\"temp\":0.7,"
      "\"speaker_mimi\":{\"prefix\":\"speaker_mimi\","
      "\"mimi\":{\"transformer_num_heads\":8}},"
      "\"mimi\":{\"channels\":1,\"sample_rate\":24000,\"frame_rate\":12.5,"
      "\"dimension\":64,\"quantizer_dimension\":32,\"n_filters\":8,"
      "\"n_residual_layers\":1,\"ratios\":[6,5,4],\"kernel_size\":7,"
      "\"last_kernel_size\":3,\"residual_kernel_size\":3,"
      "\"transformer_d_model\":64,\"transformer_num_heads\":2,"
      "\"transformer_num_layers\":2,\"transformer_context\":77,"
      "\"transformer_max_period\":9000.0,"
      "\"transformer_dim_feedforward\":256}}",
      (Expected){ 2, 77, MIMI_GELU_TANH, 9000 });
}

static void
test_hostile (void)
{
  GString *deep = g_string_new ("{\"a\":");
  GString *yaml = g_string_new ("a: ");
  guint i;

  for (i = 0; i < 100000; i++) {
    g_string_append_c (deep, '[');
    g_string_append_c (yaml, '[');
  }
  assert_other ("config.json", deep->str);
  assert_other ("a.yaml", yaml->str);
  assert_other ("a.yaml",
      "a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\nd: [*c,*c]\n");
  assert_other ("a.yaml", "? [a]\n: b\n");
  assert_other ("a.yaml", "a: 1\na: 2\n");
  assert_other ("a.yaml", "\t\t");
  g_string_assign (yaml, "model_type: mimi\na: [");
  for (i = 0; i < 100000; i++)
    g_string_append (yaml, "{},");
  g_string_append (yaml, "0]\n");
  assert_other ("a.yaml", yaml->str);
  g_string_free (deep, TRUE);
  g_string_free (yaml, TRUE);
}

/* The `config` that is named is the only one that counts. */
static void
test_named (void)
{
  Place p = place_new ("tiny-pocket");
  gchar *named = g_build_filename (p.folder, "mine", NULL);
  GError *error = NULL;

  file_write (p.folder, "config.json",
      "{\"model_type\":\"mimi\",\"hidden_"
      "size\":1}");
  file_write (p.folder, "mine", "  {" ATTENTION "}");
  assert_network (p.path, named,
      (Expected){ 4, 33, MIMI_GELU_ERF, 5000, 1e-6, .says = "mine" });
  file_write (p.folder, "mine", "num_attention_heads: 2\nsliding_window: 5\n");
  assert_network (
      p.path, named, (Expected){ 2, 5, MIMI_GELU_TANH, .says = "mine" });

  /* it is right, and of no help */
  file_write (
      p.folder, "mine", "{\"head_dim\":null,\"upsampling_ratios\":[6,5,4]}");
  g_assert_null (mimi_model_open (p.path, named, &error));
  error_assert (error, MIMI_ERROR_CONFIG, named, "tells nothing", NULL);
  error = NULL;
  g_remove (named);
  g_assert_null (mimi_model_open (p.path, named, &error));
  error_assert (error, MIMI_ERROR_NOT_FOUND, named, NULL);
  error = NULL;
  g_assert_null (mimi_model_open (p.path, p.folder, &error));
  error_assert (error, MIMI_ERROR_OPEN_READ, p.folder, "a folder", NULL);
  g_free (named);
  place_free (&p);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/config/table", test_table);
  g_test_add_func ("/config/fallback", test_fallback);
  g_test_add_func ("/config/demo", test_demo);
  g_test_add_func ("/config/transformers", test_transformers);
  g_test_add_func ("/config/nested", test_nested);
  g_test_add_func ("/config/other", test_other);
  g_test_add_func ("/config/contradictions", test_contradictions);
  g_test_add_func ("/config/yaml", test_yaml);
  g_test_add_func ("/config/phonon", test_phonon);
  g_test_add_func ("/config/hostile", test_hostile);
  g_test_add_func ("/config/named", test_named);
  return g_test_run ();
}
