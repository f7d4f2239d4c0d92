/* Decoders, and how they are shared.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "notes.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>
#include <utime.h>

static void
test_shared (void)
{
  gchar *folder = folder_new ();
  gchar *path = g_build_filename (folder, "model.safetensors", NULL);
  gchar *other = g_build_filename (folder, "other.safetensors", NULL);
  gchar *link = g_build_filename (folder, "link", NULL);
  gchar *config = g_build_filename (folder, "mine.json", NULL);
  Checkpoint *c = checkpoint_load ("tiny-pocket");
  MimiDecoder *a, *b;
  MimiDecoderInfo info;
  MimiStream *stream;
  struct utimbuf times = { 1000, 1000 };
  gint opened = notes.opened;

  checkpoint_save (c, path);
  checkpoint_save (c, other);
  g_assert_cmpint (symlink ("model.safetensors", link), ==, 0);
  file_write (folder, "mine.json", "{\"num_attention_heads\":2}");

  a = notes_get_decoder (path, NULL);
  b = notes_get_decoder (path, NULL);
  g_assert_true (a == b);
  mimi_decoder_unref (b);
  b = notes_get_decoder (folder, NULL);
  g_assert_true (a == b);
  mimi_decoder_unref (b);
  b = notes_get_decoder (link, NULL);
  g_assert_true (a == b);
  g_assert_cmpint (notes.opened, ==, opened + 1);
  g_assert_cmpuint (mimi_decoder_get_network (a)->width, ==, 64);

  stream = mimi_stream_new (b, 1, NULL);
  mimi_decoder_unref (b);
  mimi_decoder_get_info (a, &info);
  g_assert_cmpstr (info.backend, ==, "fake");
  g_assert_cmpuint (info.weights_bytes, ==, 1000);
  g_assert_cmpuint (info.streams, ==, 1);
  g_assert_null (info.note);

  /* the same bytes in another file, another view of them, a newer file */
  b = notes_get_decoder (other, NULL);
  g_assert_true (a != b);
  mimi_decoder_unref (b);
  b = notes_get_decoder (path, config);
  g_assert_true (a != b);
  g_assert_cmpuint (mimi_decoder_get_network (b)->heads, ==, 2);
  mimi_decoder_unref (b);
  g_assert_cmpint (utime (path, &times), ==, 0);
  b = notes_get_decoder (path, NULL);
  g_assert_true (a != b);
  mimi_decoder_unref (b);
  g_assert_cmpint (notes.opened, ==, opened + 4);
  g_assert_cmpint (notes.open, ==, 1);

  /* a stream keeps its decoder */
  mimi_decoder_unref (a);
  g_assert_cmpint (notes.open, ==, 1);
  mimi_stream_free (stream);
  g_assert_cmpint (notes.open, ==, 0);
  g_assert_cmpint (notes.slots, ==, 0);
  checkpoint_free (c);
  g_free (path);
  g_free (other);
  g_free (link);
  g_free (config);
  folder_remove (folder);
}

static gpointer
get_in_thread (gpointer path)
{
  MimiModel *model = notes_open_model (path, NULL);
  GError *error = NULL;
  MimiDecoder *decoder = mimi_decoder_get (model, &notes_options, &error);

  mimi_model_unref (model);
  g_assert_true ((decoder == NULL) == (error != NULL));
  if (error)
    error_assert (error, MIMI_ERROR_NO_MEMORY, "no memory", NULL);
  return decoder;
}

/* Many ask at once: one opens it. */
static void
test_concurrent (void)
{
  gchar *path = checkpoint_path ("tiny-pocket");
  gint opened = notes.opened;
  GThread *threads[16];
  gpointer first = NULL;
  guint i;

  notes.delay = 100000;
  for (i = 0; i < 16; i++)
    threads[i] = g_thread_new ("get", get_in_thread, path);
  for (i = 0; i < 16; i++) {
    gpointer decoder = g_thread_join (threads[i]);

    g_assert_nonnull (decoder);
    g_assert_true (!first || first == decoder);
    first = decoder;
  }
  g_assert_cmpint (notes.opened, ==, opened + 1);
  for (i = 0; i < 16; i++)
    mimi_decoder_unref (first);
  g_assert_cmpint (notes.open, ==, 0);

  /* they share a failure, and the next one tries again */
  notes.fails = TRUE;
  for (i = 0; i < 16; i++)
    threads[i] = g_thread_new ("get", get_in_thread, path);
  for (i = 0; i < 16; i++)
    g_assert_null (g_thread_join (threads[i]));
  notes.fails = FALSE;
  notes.delay = 0;
  mimi_decoder_unref (notes_get_decoder (path, NULL));
  g_free (path);
}

static gpointer
churn (gpointer path)
{
  guint i;

  for (i = 0; i < 200; i++) {
    MimiDecoder *decoder = notes_get_decoder (path, NULL);

    g_assert_cmpint (g_atomic_int_get (&notes.open), >=, 1);
    mimi_decoder_unref (mimi_decoder_ref (decoder));
    mimi_decoder_unref (decoder);
  }
  return NULL;
}

static void
test_churn (void)
{
  gchar *path = checkpoint_path ("tiny-pocket");
  GThread *threads[4];
  guint i;

  for (i = 0; i < 4; i++)
    threads[i] = g_thread_new ("churn", churn, path);
  for (i = 0; i < 4; i++)
    g_thread_join (threads[i]);
  g_assert_cmpint (notes.open, ==, 0);
  g_free (path);
}

/* NaN in a weight is found before a backend sees it. */
static void
test_values (void)
{
  Checkpoint *c = checkpoint_load ("tiny-pocket");
  gint opened = notes.opened;
  GError *error = NULL;
  MimiDecoder *decoder, *other;
  MimiModel *model;

  /* bytes in memory have no identity to share by */
  model = checkpoint_open (c, &error);
  decoder = mimi_decoder_get (model, &notes_options, &error);
  other = mimi_decoder_get (model, &notes_options, &error);
  g_assert_no_error (error);
  g_assert_true (decoder != other);
  mimi_decoder_unref (decoder);
  mimi_decoder_unref (other);
  mimi_model_unref (model);
  g_assert_cmpint (notes.opened, ==, opened + 2);

  memset (checkpoint_get_data (c, "mimi.decoder.model.0.conv.bias"), 0xff, 4);
  model = checkpoint_open (c, &error);
  g_assert_null (mimi_decoder_get (model, &notes_options, &error));
  error_assert (error, MIMI_ERROR_TENSOR, "mimi.decoder.model.0.conv.bias",
      "NaN at element 0", NULL);
  g_assert_cmpint (notes.opened, ==, opened + 2);
  mimi_model_unref (model);
  checkpoint_free (c);
}

/* Without a GPU: CUDA is refused, `auto` takes the CPU and says why. */
static void
test_no_gpu (void)
{
  gchar *path = checkpoint_path ("tiny-pocket");
  MimiModel *model = notes_open_model (path, NULL);
  MimiDecoderOptions options = { MIMI_BACKEND_CUDA, 3, MIMI_PRECISION_TF32 };
  MimiDecoderInfo info;
  GError *error = NULL;
  MimiDecoder *decoder = mimi_decoder_get (model, &options, &error);

  if (decoder) {
    g_test_skip ("there is a GPU");
    mimi_decoder_unref (decoder);
  } else {
    error_assert (error, MIMI_ERROR_NO_DEVICE, "CUDA", NULL);
    error = NULL;
    options.backend = MIMI_BACKEND_AUTO;
    decoder = mimi_decoder_get (model, &options, &error);
    g_assert_no_error (error);
    mimi_decoder_get_info (decoder, &info);
    g_assert_cmpstr (info.backend, ==, "fake");
    g_assert_nonnull (info.note);
    mimi_decoder_unref (decoder);
  }
  mimi_model_unref (model);
  g_free (path);
}

int
main (int argc, char **argv)
{
  int status;

  g_test_init (&argc, &argv, NULL);
  mimi_decoder_replace_backend (&notes_backend);
  g_test_add_func ("/decoder/shared", test_shared);
  g_test_add_func ("/decoder/concurrent", test_concurrent);
  g_test_add_func ("/decoder/churn", test_churn);
  g_test_add_func ("/decoder/values", test_values);
  g_test_add_func ("/decoder/no-gpu", test_no_gpu);
  status = g_test_run ();
  g_assert_cmpint (notes.open, ==, 0);
  g_assert_cmpint (notes.slots, ==, 0);
  return status;
}
