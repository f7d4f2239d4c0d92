/* Whole utterances through the element
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "decoding.h"

#define WAV_HEADER 44

gchar *
model_path (const gchar *name)
{
  if (g_str_equal (name, "demo"))
    return file_path ("MIMI_DEMO", "mimi-demo.safetensors");
  return file_path ("MIMI_CHECKPOINTS", name);
}

GstHarness *
decoder_new (const gchar *model, const gchar *caps, const gchar *format)
{
  gchar *path = model_path (model);
  GstHarness *h = mimi_harness_new (
      "model", path, "backend", 2, "fade-in", (guint64)0, NULL);

  g_free (path);
  gst_harness_set_sink_caps_str (h, format);
  gst_harness_set_src_caps_str (h, caps);
  return h;
}

GByteArray *
decode (GstHarness *h, gconstpointer data, gsize size, gsize chunk)
{
  push_chunks (h, data, size, chunk);
  return pull_bytes (h);
}

GByteArray *
decode_alone (const gchar *model, const gchar *caps, const gchar *format,
    gconstpointer data, gsize size, gsize chunk)
{
  GstHarness *h = decoder_new (model, caps, format);
  GByteArray *pcm = decode (h, data, size, chunk);

  mimi_harness_free (h);
  return pcm;
}

GBytes *
demo_latents (guint sentence)
{
  gchar *name = g_strdup_printf ("sentence-%u.f32", sentence);
  GBytes *bytes = read_file ("MIMI_DEMO", name);

  g_free (name);
  return bytes;
}

GBytes *
demo_speech (guint sentence)
{
  gchar *name = g_strdup_printf ("sentence-%u.wav", sentence);
  GBytes *file = read_file ("MIMI_DEMO", name);
  GBytes *samples = g_bytes_new_from_bytes (
      file, WAV_HEADER, g_bytes_get_size (file) - WAV_HEADER);

  g_bytes_unref (file);
  g_free (name);
  return samples;
}

void
expect_same_bytes (const GByteArray *a, const GByteArray *b)
{
  fail_unless (a->len > 0);
  fail_unless_equals_int (a->len, b->len);
  fail_unless (memcmp (a->data, b->data, a->len) == 0, "the PCM differs");
}

void
expect_same_speech (gconstpointer a, gsize a_size, GBytes *b)
{
  const gint16 *is = a;
  const gint16 *should_be;
  gsize size;

  should_be = g_bytes_get_data (b, &size);
  fail_unless_equals_int (a_size, size);
  for (gsize i = 0; i < size / 2; i++)
    fail_unless (ABS (is[i] - should_be[i]) <= 1,
        "sample %" G_GSIZE_FORMAT " is %d instead of %d", i, is[i],
        should_be[i]);
}
