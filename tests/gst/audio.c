/* What comes out: right, the same however it went in, the same each time
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * With the plugin and its CPU backend.
 */
#include "decoding.h"

#include <math.h>

/* ------------------------------------------------------------- goldens --- */

#define BOOK1 "audio/x-mimi,rate=24000,channels=1,codebooks=1"

typedef struct {
  const gchar *name, *model, *caps, *input;
  /* Against upstream's own output. Its float32 angles are most of the
   * difference, so the manifest's figures are of upstream against the oracle;
   * within 3 dB of them is what is asked. */
  gdouble snr;
} Golden;

static const Golden goldens[] = {
  { "tiny", "tiny-pocket", LATENT, "tiny.f32", 97.0 - 3 },
  { "tiny-erf", "tiny-hfpocket", LATENT, "tiny-erf.f32", 97.1 - 3 },
  { "pocket", "pocket-pocket", LATENT, "pocket.f32", 104.7 - 3 },
  { "pocket2m", "pocket2m-pocket", LATENT, "pocket2m.f32", 101.9 - 3 },
  { "tinyfull-1", "tinyfull-moshi", BOOK1, "tinyfull-1.u16", 107.0 - 3 },
  { "tinyfull-8", "tinyfull-moshi", CODES, "tinyfull-8.u16", 111.4 - 3 },
};

GST_START_TEST (goldens_of_upstream)
{
  const Golden *golden = &goldens[__i__];
  gchar *name = g_strconcat (golden->name, ".pcm.f32", NULL);
  GBytes *input = read_file ("MIMI_GOLDENS", golden->input);
  GBytes *output = read_file ("MIMI_GOLDENS", name);
  GByteArray *pcm = decode_alone (golden->model, golden->caps, F32,
      g_bytes_get_data (input, NULL), g_bytes_get_size (input), 0);
  gdouble snr;

  fail_unless_equals_int (pcm->len, g_bytes_get_size (output));
  snr = snr_f32 ((const gfloat *)pcm->data, g_bytes_get_data (output, NULL),
      pcm->len / sizeof (gfloat));
  fail_unless (snr >= golden->snr, "%s: %.1f dB", golden->name, snr);
  g_byte_array_unref (pcm);
  g_bytes_unref (input);
  g_bytes_unref (output);
  g_free (name);
}
GST_END_TEST;

/* ---------------------------------------------------------------- demo --- */

GST_START_TEST (sentences_of_the_demo)
{
  GBytes *latents = demo_latents (__i__);
  GBytes *speech = demo_speech (__i__);
  GByteArray *pcm = decode_alone ("demo", LATENT, S16,
      g_bytes_get_data (latents, NULL), g_bytes_get_size (latents), 0);

  expect_same_speech (pcm->data, pcm->len, speech);
  g_byte_array_unref (pcm);
  g_bytes_unref (latents);
  g_bytes_unref (speech);
}
GST_END_TEST;

GST_START_TEST (s16_is_the_float_clipped_and_rounded)
{
  /* This one is louder than full scale here and there. */
  GBytes *codes = read_file ("MIMI_GOLDENS", "tinyfull-8.u16");
  gconstpointer data = g_bytes_get_data (codes, NULL);
  gsize size = g_bytes_get_size (codes);
  GByteArray *s16 = decode_alone ("tinyfull-moshi", CODES, S16, data, size, 0);
  GByteArray *f32 = decode_alone ("tinyfull-moshi", CODES, F32, data, size, 0);
  const gfloat *x;
  const gint16 *y;
  guint clipped = 0;

  fail_unless_equals_int (f32->len, 2 * s16->len);
  x = (const gfloat *)f32->data;
  y = (const gint16 *)s16->data;
  for (gsize i = 0; i < s16->len / 2; i++) {
    gfloat value = CLAMP (x[i], -1.0f, 1.0f);

    clipped += value != x[i];
    fail_unless_equals_int (y[i], (gint)rintf (value * 32767.0f));
  }
  fail_unless (clipped > 0);
  g_byte_array_unref (s16);
  g_byte_array_unref (f32);
  g_bytes_unref (codes);
}
GST_END_TEST;

GST_START_TEST (every_utterance_fades_in)
{
  const guint n = 120; /* 5 ms */
  GBytes *latents = demo_latents (2);
  gconstpointer data = g_bytes_get_data (latents, NULL);
  const gsize size = 10 * 128;
  GstHarness *h = decoder_new ("demo", LATENT, F32);
  GByteArray *plain = decode (h, data, size, 0);
  const gfloat *x = (const gfloat *)plain->data;

  g_object_set (h->element, "fade-in", 5 * GST_MSECOND, NULL);
  for (guint utterance = 0; utterance < 2; utterance++) {
    GByteArray *faded;
    const gfloat *y;

    g_signal_emit_by_name (h->element, "reset");
    faded = decode (h, data, size, 0);
    y = (const gfloat *)faded->data;
    fail_unless (y[0] == 0);
    for (guint i = 0; i < n; i++)
      fail_unless (fabsf (y[i] - x[i] * i / (n - 1)) <= 1e-6f * fabsf (x[i]),
          "sample %u is %g; it was %g", i, y[i], x[i]);
    fail_unless (memcmp (x + n - 1, y + n - 1, plain->len - (n - 1) * 4) == 0);
    g_byte_array_unref (faded);
  }
  g_byte_array_unref (plain);
  mimi_harness_free (h);
  g_bytes_unref (latents);
}
GST_END_TEST;

/* --------------------------------------------------------------- input --- */

static const gsize chunks[] = { 1, 37, 128, 384, 4096 };

GST_START_TEST (any_split_of_the_bytes_gives_the_same)
{
  GBytes *latents = demo_latents (3);
  gconstpointer data = g_bytes_get_data (latents, NULL);
  gsize size = g_bytes_get_size (latents);
  GByteArray *whole = decode_alone ("demo", LATENT, F32, data, size, 0);
  GByteArray *split =
      decode_alone ("demo", LATENT, F32, data, size, chunks[__i__]);

  expect_same_bytes (whole, split);
  g_byte_array_unref (whole);
  g_byte_array_unref (split);
  g_bytes_unref (latents);
}
GST_END_TEST;

/* A float32 with a short mantissa as binary16; exact for what we give it. */
static guint16
to_half (gfloat value)
{
  guint32 bits;
  gint exponent;

  memcpy (&bits, &value, sizeof bits);
  exponent = (gint)(bits >> 23 & 255) - 127;
  if (exponent < -14)
    return bits >> 16 & 0x8000;
  return (bits >> 16 & 0x8000) | (exponent + 15) << 10 | (bits >> 13 & 0x3ff);
}

GST_START_TEST (half_floats_and_tensors_are_the_same_latents)
{
  static const struct {
    const gchar *caps;
    gboolean half;
  } kinds[] = {
    { LATENT ",format=F16LE", TRUE },
    { "other/tensors,format=static,num_tensors=1,types=float16,"
      "dimensions=(string)32:1:1:1,framerate=25/2",
        TRUE },
    { "other/tensors,format=static,num_tensors=1,types=float32,"
      "dimensions=(string)32:1:1:1,framerate=25/2",
        FALSE },
  };
  GBytes *latents = demo_latents (4);
  gsize size = g_bytes_get_size (latents), n = size / 4;
  guint32 *bits = g_memdup2 (g_bytes_get_data (latents, NULL), size);
  guint16 *halves = g_new (guint16, n);
  GByteArray *expected;

  for (gsize i = 0; i < n; i++) {
    gfloat value;

    bits[i] &= 0xffffe000; /* ten bits of mantissa */
    memcpy (&value, bits + i, sizeof value);
    halves[i] = to_half (value);
    if ((halves[i] & 0x7fff) == 0)
      bits[i] &= 0x80000000;
  }
  expected = decode_alone ("demo", LATENT, F32, bits, size, 0);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    GByteArray *pcm = decode_alone ("demo", kinds[i].caps, F32,
        kinds[i].half ? (gpointer)halves : bits,
        kinds[i].half ? size / 2 : size, 37);

    expect_same_bytes (expected, pcm);
    g_byte_array_unref (pcm);
  }
  g_byte_array_unref (expected);
  g_free (bits);
  g_free (halves);
  g_bytes_unref (latents);
}
GST_END_TEST;

GST_START_TEST (vectors_of_the_networks_width_are_taken)
{
  static const struct {
    const gchar *model, *caps, *wrong;
  } cases[] = {
    { "tiny-pocket", "audio/x-mimi-latent,rate=24000,channels=1,dims=64",
        "audio/x-mimi-latent,rate=24000,channels=1,dims=63" },
    { "tinyfull-moshi", "audio/x-mimi-latent,rate=24000,channels=1,dims=64",
        "audio/x-mimi-latent,rate=24000,channels=1,dims=32" },
  };
  gfloat *rows = g_new (gfloat, 5 * 64);

  for (guint i = 0; i < 5 * 64; i++)
    rows[i] = sinf (i);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    GstHarness *h = decoder_new (cases[i].model, cases[i].caps, F32);
    GByteArray *pcm = decode (h, rows, 5 * 64 * 4, 0);

    fail_unless_equals_int (pcm->len, 5 * 7680);
    g_byte_array_unref (pcm);
    gst_harness_set_src_caps_str (h, cases[i].wrong);
    expect_error (h->element, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, "64");
    mimi_harness_free (h);
  }
  g_free (rows);
}
GST_END_TEST;

/* ---------------------------------------------------- normalised or not --- */

GST_START_TEST (caps_then_property_say_what_is_normalised)
{
  GBytes *latents = read_file ("MIMI_GOLDENS", "tiny.f32");
  gconstpointer data = g_bytes_get_data (latents, NULL);
  const gsize size = 5 * 128;
  GByteArray *yes = decode_alone (
      "tiny-pocket", LATENT ",normalized=true", F32, data, size, 0);
  GByteArray *no = decode_alone (
      "tiny-pocket", LATENT ",normalized=false", F32, data, size, 0);
  GByteArray *automatic =
      decode_alone ("tiny-pocket", LATENT, F32, data, size, 0);
  gchar *path = model_path ("tiny-pocket");
  GstHarness *h;
  GByteArray *pcm;

  fail_if (memcmp (yes->data, no->data, yes->len) == 0);
  expect_same_bytes (yes, automatic);

  h = mimi_harness_new (
      "model", path, "normalized", 2, "fade-in", (guint64)0, NULL);
  gst_harness_set_sink_caps_str (h, F32);
  gst_harness_set_src_caps_str (h, LATENT);
  pcm = decode (h, data, size, 0);
  expect_same_bytes (no, pcm);
  g_byte_array_unref (pcm);
  gst_harness_set_src_caps_str (h, LATENT ",normalized=true");
  pcm = decode (h, data, size, 0);
  expect_same_bytes (yes, pcm);
  g_byte_array_unref (pcm);
  mimi_harness_free (h);

  g_byte_array_unref (yes);
  g_byte_array_unref (no);
  g_byte_array_unref (automatic);
  g_free (path);
  g_bytes_unref (latents);
}
GST_END_TEST;

GST_START_TEST (without_statistics_normalised_latents_are_an_error)
{
  GstHarness *h = decoder_new ("tiny-hfpocket", LATENT ",normalized=true", F32);

  expect_error (h->element, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, "emb_");
  mimi_harness_free (h);
}
GST_END_TEST;

/* ---------------------------------------------------------- utterances --- */

typedef void (*Mark) (GstHarness *h, GstBuffer *first);

static void
mark_discont (GstHarness *h, GstBuffer *first)
{
  (void)h;
  GST_BUFFER_FLAG_SET (first, GST_BUFFER_FLAG_DISCONT);
}

static void
mark_flush (GstHarness *h, GstBuffer *first)
{
  GstSegment segment;

  (void)first;
  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_harness_push_event (h, gst_event_new_flush_start ());
  gst_harness_push_event (h, gst_event_new_flush_stop (FALSE));
  gst_harness_push_event (h, gst_event_new_segment (&segment));
}

static void
mark_stream_start (GstHarness *h, GstBuffer *first)
{
  (void)first;
  gst_harness_push_event (h, gst_event_new_stream_start ("next"));
}

static void
mark_signal (GstHarness *h, GstBuffer *first)
{
  (void)first;
  g_signal_emit_by_name (h->element, "reset");
}

static void
mark_restart (GstHarness *h, GstBuffer *first)
{
  (void)first;
  gst_element_set_state (h->element, GST_STATE_NULL);
  gst_element_set_state (h->element, GST_STATE_PLAYING);
  gst_harness_push_event (h, gst_event_new_stream_start ("next"));
  gst_harness_set_src_caps_str (h, LATENT);
}

static const Mark marks[] = { mark_discont, mark_flush, mark_stream_start,
  mark_signal, mark_restart };

static GByteArray *
utterance (GstHarness *h, GBytes *latents, Mark mark)
{
  GstBuffer *buffer = buffer_of (g_bytes_get_data (latents, NULL),
      g_bytes_get_size (latents), GST_CLOCK_TIME_NONE);

  if (mark != NULL)
    mark (h, buffer);
  fail_unless_equals_int (gst_harness_push (h, buffer), GST_FLOW_OK);
  return pull_bytes (h);
}

GST_START_TEST (an_utterance_sounds_the_same_after_another)
{
  GstHarness *h = decoder_new ("demo", LATENT, F32);
  GBytes *a = demo_latents (5), *b = demo_latents (6);
  GByteArray *first = utterance (h, a, NULL);
  GByteArray *other = utterance (h, b, marks[__i__]);
  GByteArray *again = utterance (h, a, marks[__i__]);
  GByteArray *glued = utterance (h, b, NULL);

  expect_same_bytes (first, again);
  /* And the test would notice a state that was kept. */
  fail_if (memcmp (other->data, glued->data, other->len) == 0);
  g_byte_array_unref (first);
  g_byte_array_unref (other);
  g_byte_array_unref (again);
  g_byte_array_unref (glued);
  g_bytes_unref (a);
  g_bytes_unref (b);
  mimi_harness_free (h);
}
GST_END_TEST;

GST_START_TEST (a_bad_latent_is_silence_and_the_rest_a_new_utterance)
{
  static const gfloat poison[] = { NAN, INFINITY, -INFINITY, 3e38f };
  GBytes *latents = demo_latents (7);
  const guint8 *data = g_bytes_get_data (latents, NULL);
  gfloat *bad = g_memdup2 (data, 20 * 128);
  GByteArray *before = decode_alone ("demo", LATENT, S16, data, 7 * 128, 0);
  GByteArray *after =
      decode_alone ("demo", LATENT, S16, data + 8 * 128, 12 * 128, 0);
  GstHarness *h = decoder_new ("demo", LATENT, S16);
  GByteArray *pcm;

  bad[7 * 32 + 31] = poison[__i__];
  pcm = decode (h, bad, 20 * 128, 0);
  expect_warning (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "silence");
  expect_no_message (h->element);
  fail_unless_equals_int (pcm->len, 20 * 3840);
  fail_unless (memcmp (pcm->data, before->data, before->len) == 0);
  for (guint i = 0; i < 3840; i++)
    fail_unless_equals_int (pcm->data[7 * 3840 + i], 0);
  fail_unless (memcmp (pcm->data + 8 * 3840, after->data, after->len) == 0);
  fail_unless_equals_int (get_stat (h->element, "concealed"), 1);
  fail_unless_equals_int (get_stat (h->element, "frames"), 20);
  g_byte_array_unref (pcm);
  g_byte_array_unref (before);
  g_byte_array_unref (after);
  g_free (bad);
  mimi_harness_free (h);
  g_bytes_unref (latents);
}
GST_END_TEST;

GST_START_TEST (a_bad_half_float_is_noticed_too)
{
  static const guint16 poison[] = { 0x7e00, 0x7c00, 0xfc00, 0xfe01 };
  GstHarness *h = decoder_new ("demo", LATENT ",format=F16LE", S16);
  guint16 rows[3 * 32] = { [32] = poison[__i__] };
  GByteArray *pcm = decode (h, rows, sizeof rows, 0);

  fail_unless_equals_int (pcm->len, 3 * 3840);
  expect_warning (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "silence");
  fail_unless (memcmp (pcm->data, pcm->data + 2 * 3840, 3840) == 0);
  g_byte_array_unref (pcm);
  mimi_harness_free (h);
}
GST_END_TEST;

GST_START_TEST (the_pcm_does_not_depend_on_threads)
{
  GBytes *latents = demo_latents (8);
  gconstpointer data = g_bytes_get_data (latents, NULL);
  gsize size = g_bytes_get_size (latents);
  GByteArray *one = decode_alone ("demo", LATENT, F32, data, size, 0);
  gchar *path = model_path ("demo");
  GstHarness *h = mimi_harness_new (
      "model", path, "threads", 3, "fade-in", (guint64)0, NULL);
  GByteArray *three;

  gst_harness_set_sink_caps_str (h, F32);
  gst_harness_set_src_caps_str (h, LATENT);
  three = decode (h, data, size, 0);
  expect_same_bytes (one, three);
  g_byte_array_unref (one);
  g_byte_array_unref (three);
  g_free (path);
  mimi_harness_free (h);
  g_bytes_unref (latents);
}
GST_END_TEST;

static Suite *
audio_suite (void)
{
  Suite *suite = suite_create ("audio");
  TCase *tcase = tcase_create ("all");

  suite_add_tcase (suite, tcase);
  tcase_add_loop_test (tcase, goldens_of_upstream, 0, G_N_ELEMENTS (goldens));
  tcase_add_loop_test (tcase, sentences_of_the_demo, 1, 9);
  tcase_add_test (tcase, s16_is_the_float_clipped_and_rounded);
  tcase_add_test (tcase, every_utterance_fades_in);
  tcase_add_loop_test (
      tcase, any_split_of_the_bytes_gives_the_same, 0, G_N_ELEMENTS (chunks));
  tcase_add_test (tcase, half_floats_and_tensors_are_the_same_latents);
  tcase_add_test (tcase, vectors_of_the_networks_width_are_taken);
  tcase_add_test (tcase, caps_then_property_say_what_is_normalised);
  tcase_add_test (tcase, without_statistics_normalised_latents_are_an_error);
  tcase_add_loop_test (tcase, an_utterance_sounds_the_same_after_another, 0,
      G_N_ELEMENTS (marks));
  tcase_add_loop_test (
      tcase, a_bad_latent_is_silence_and_the_rest_a_new_utterance, 0, 4);
  tcase_add_loop_test (tcase, a_bad_half_float_is_noticed_too, 0, 4);
  tcase_add_test (tcase, the_pcm_does_not_depend_on_threads);
  return suite;
}

GST_CHECK_MAIN (audio);
