/* Caps in and out, and what happens where they change
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * With the fake decoder: its network takes latents of 32 or 512 values and up
 * to 8 codebooks of 2048.
 */
#include "fake.h"
#include "gstmimicaps.h"
#include "gstmimidec.h"
#include "steps.h"

static GstHarness *h;

static void
setup (void)
{
  fake_init ();
  h = mimi_harness_new ("model", "fake", NULL);
}

static void
teardown (void)
{
  mimi_harness_free (h);
  fail_unless_equals_int (fake_get_alive (), 0);
}

/* -------------------------------------------------------------- accept --- */

static const MimiNetwork network = {
  .latent_dim = 32,
  .has_statistics = TRUE,
  .codebooks = 8,
  .codebook_size = 2048,
  .width = 512,
};

typedef struct {
  const gchar *caps;
  MimiRowFormat format;
  guint length;
  gboolean normalized;
} Good;

#define TENSOR "other/tensors,format=static,num_tensors=1,"

static const Good good[] = {
  { LATENT, MIMI_ROW_F32, 32, TRUE },
  { LATENT ",format=F32LE", MIMI_ROW_F32, 32, TRUE },
  { LATENT ",format=F16LE", MIMI_ROW_F16, 32, TRUE },
  { LATENT ",framerate=25/2", MIMI_ROW_F32, 32, TRUE },
  { LATENT ",normalized=true", MIMI_ROW_F32, 32, TRUE },
  { LATENT ",normalized=false", MIMI_ROW_F32, 32, FALSE },
  { "audio/x-mimi-latent,rate=24000,channels=1,dims=512", MIMI_ROW_F32, 512,
      FALSE },
  { CODES, MIMI_ROW_U16, 8, FALSE },
  { CODES ",format=U16LE,framerate=25/2,codebook-size=2048", MIMI_ROW_U16, 8,
      FALSE },
  { CODES ",format=S32LE", MIMI_ROW_S32, 8, FALSE },
  { CODES ",format=S64LE", MIMI_ROW_S64, 8, FALSE },
  { "audio/x-mimi,rate=24000,channels=1,codebooks=1", MIMI_ROW_U16, 1, FALSE },
  { TENSOR "types=float32,dimensions=32", MIMI_ROW_F32, 32, TRUE },
  { TENSOR "types=float32,dimensions=(string)32:1,framerate=25/2", MIMI_ROW_F32,
      32, TRUE },
  { TENSOR "types=float32,dimensions=(string)32:1:1", MIMI_ROW_F32, 32, TRUE },
  { TENSOR "types=float32,dimensions=(string)32:1:1:1,framerate=0/1",
      MIMI_ROW_F32, 32, TRUE },
  { TENSOR "types=float16,"
           "dimensions=(string)32:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1",
      MIMI_ROW_F16, 32, TRUE },
  { TENSOR "types=float32,dimensions=(string)32:1:1:0:0", MIMI_ROW_F32, 32,
      TRUE },
  { TENSOR "types=float32,dimensions=(string)1:32:1:1", MIMI_ROW_F32, 32,
      TRUE },
  { TENSOR "types=float32,dimensions=(string)32:10:1:1", MIMI_ROW_F32, 32,
      TRUE },
  { TENSOR "types=float32,dimensions=(string)512:1:1:1", MIMI_ROW_F32, 512,
      FALSE },
  { TENSOR "types=uint16,dimensions=(string)8:1:1:1", MIMI_ROW_U16, 8, FALSE },
  { TENSOR "types=int32,dimensions=(string)1:8:1:1", MIMI_ROW_S32, 8, FALSE },
  { TENSOR "types=int64,dimensions=(string)1:1:1:1", MIMI_ROW_S64, 1, FALSE },
};

GST_START_TEST (caps_that_are_understood)
{
  const Good *is = &good[__i__];
  GstCaps *caps = gst_caps_from_string (is->caps);
  MimiRows rows;
  GError *error = NULL;

  fail_unless (gst_mimi_caps_parse (
                   caps, &network, GST_MIMI_NORMALIZED_AUTO, &rows, &error),
      "%s: %s", is->caps, error != NULL ? error->message : "");
  fail_unless_equals_int (rows.format, is->format);
  fail_unless_equals_int (rows.length, is->length);
  fail_unless_equals_int (rows.normalized, is->normalized);
  gst_caps_unref (caps);

  /* And they come through the pad. */
  gst_harness_set_src_caps_str (h, is->caps);
  push_bytes (h, mimi_rows_get_size (&rows));
  fail_unless_equals_int (gst_harness_buffers_in_queue (h), 1);
}
GST_END_TEST;

typedef struct {
  const gchar *caps;
  const gchar *text; /* each of these words is in the message */
} Bad;

static const Bad bad[] = {
  { "audio/x-mimi-latent,rate=24000,channels=1,dims=64", "64|32" },
  { "audio/x-mimi,rate=24000,channels=1,codebooks=9", "9|8" },
  { LATENT ",format=S16LE", "format=S16LE|F32LE, F16LE" },
  { LATENT ",format=F64LE", "format=F64LE|F32LE, F16LE" },
  { CODES ",format=U32LE", "format=U32LE|U16LE, S32LE, S64LE" },
  { CODES ",format=F32LE", "format=F32LE|U16LE, S32LE, S64LE" },
  { CODES ",codebook-size=1024", "1024|2048" },
  { LATENT ",framerate=50/1", "framerate=50/1|25/2" },
  { "audio/x-mimi-latent,rate=24000,channels=1,dims=512,normalized=true",
      "normalized|512" },
  { TENSOR "types=float32,dimensions=(string)64:1:1:1", "64|32" },
  { TENSOR "types=float32,dimensions=(string)10:32", "10|32" },
  { TENSOR "types=uint16,dimensions=(string)9:1:1:1", "9|8" },
  { TENSOR "types=float32", "dimensions|tensor" },
  { TENSOR "types=float32,dimensions=(string)32:x", "32:x|32:1:1:1" },
  { TENSOR "types=float32,dimensions=(string)\"\"", "dimensions=|32" },
  { TENSOR "types=float32,dimensions=(string)0:32", "0:32|32:1:1:1" },
  { TENSOR "types=float32,dimensions=(string)32:0:1", "32:0:1|one" },
  { TENSOR "types=float32,dimensions=(string)-32", "-32|32:1:1:1" },
  { TENSOR "types=float32,dimensions=(string)99999999999999999999",
      "99999999999999999999|32:1:1:1" },
  { TENSOR "types=float32,dimensions=(string)\"32:1,32:1\"", "32|one" },
};

static void
expect_refusal (const Bad *is)
{
  expect_error (
      h->element, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, is->text);
  expect_no_message (h->element);
}

GST_START_TEST (caps_that_are_refused_with_a_reason)
{
  const Bad *is = &bad[__i__];

  gst_harness_push_event (h, gst_event_new_stream_start ("bad"));
  push_caps (h, is->caps);
  expect_refusal (is);
  /* Once, though the caps are sent again with the next event... */
  push_segment (h, GST_FORMAT_TIME, 1, 0, 0);
  expect_no_message (h->element);
  /* ... and again in another life. */
  gst_element_set_state (h->element, GST_STATE_READY);
  gst_element_set_state (h->element, GST_STATE_PLAYING);
  gst_harness_push_event (h, gst_event_new_stream_start ("again"));
  push_caps (h, is->caps);
  expect_refusal (is);
}
GST_END_TEST;

GST_START_TEST (caps_that_do_not_link)
{
  static const gchar *const caps[] = {
    "audio/x-mimi-latent,rate=48000,channels=1,dims=32",
    "audio/x-mimi-latent,rate=24000,channels=2,dims=32",
    "audio/x-mimi,rate=24000,channels=1,codebooks=33",
    TENSOR "types=float64,dimensions=32",
    "other/tensors,format=flexible,num_tensors=1,types=float32,dimensions=32",
    "other/tensors,format=static,num_tensors=2,types=float32,dimensions=32",
    "audio/x-raw,format=S16LE,rate=24000,channels=1",
  };
  GstPad *pad = gst_element_get_static_pad (h->element, "sink");

  for (guint i = 0; i < G_N_ELEMENTS (caps); i++) {
    GstCaps *c = gst_caps_from_string (caps[i]);

    fail_if (gst_pad_query_accept_caps (pad, c), "%s", caps[i]);
    gst_caps_unref (c);
  }
  gst_object_unref (pad);
}
GST_END_TEST;

GST_START_TEST (the_caps_query_gives_the_template)
{
  GstPad *pad = gst_element_get_static_pad (h->element, "sink");
  GstCaps *filter = gst_caps_from_string (CODES ",format=S32LE");
  GstCaps *caps = gst_pad_query_caps (pad, NULL);
  GstCaps *template = gst_pad_get_pad_template_caps (pad);

  fail_unless (gst_caps_is_equal (caps, template));
  gst_caps_unref (caps);
  gst_caps_unref (template);
  caps = gst_pad_query_caps (pad, filter);
  fail_unless (
      gst_caps_is_equal (caps, filter), "%s", gst_caps_to_string (caps));
  gst_caps_unref (caps);
  gst_caps_unref (filter);
  gst_object_unref (pad);
}
GST_END_TEST;

GST_START_TEST (no_caps_is_an_error)
{
  gst_harness_push_event (h, gst_event_new_stream_start ("no caps"));
  push_segment (h, GST_FORMAT_TIME, 1, 0, 0);
  fail_unless_equals_int (
      gst_harness_push (h, rows_new (1, 0)), GST_FLOW_NOT_NEGOTIATED);
  expect_error (h->element, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
      "Put its caps before mimidec");
}
GST_END_TEST;

/* -------------------------------------------------------------- change --- */

static void
push_codes (guint codebooks, const guint16 *firsts, guint n, GstClockTime pts)
{
  guint16 *rows = g_new0 (guint16, n * codebooks);

  for (guint i = 0; i < n; i++)
    rows[i * codebooks] = firsts[i];
  fail_unless_equals_int (
      gst_harness_push (h, buffer_of (rows, n * codebooks * 2, pts)),
      GST_FLOW_OK);
  g_free (rows);
}

GST_START_TEST (new_caps_drop_and_report_the_unfinished_frame)
{
  static const guint16 zeros[2];

  gst_harness_set_src_caps_str (h, LATENT);
  push_rows (h, 2, NONE);
  push_bytes (h, 64);
  gst_harness_set_src_caps_str (h, CODES);
  expect_warning (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "64 bytes");
  push_codes (8, zeros, 2, NONE);
  pull_frames (h, 2, 1, 0);
  pull_frames (h, 2, 1, 2 * FRAME);
  pull_nothing (h);
}
GST_END_TEST;

GST_START_TEST (new_caps_twice_with_an_unfinished_frame)
{
  static const guint16 zeros[1];

  gst_harness_set_src_caps_str (h, LATENT);
  push_bytes (h, 64);
  gst_harness_set_src_caps_str (h, CODES);
  expect_warning (h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "64");
  gst_harness_set_src_caps_str (h, LATENT ",format=F16LE");
  gst_harness_set_src_caps_str (h, CODES);
  push_codes (8, zeros, 1, NONE);
  pull_frames (h, 1, 1, 0);
}
GST_END_TEST;

GST_START_TEST (a_flush_before_new_caps_leaves_nothing_to_drop)
{
  static const guint16 zeros[1];

  gst_harness_set_src_caps_str (h, LATENT);
  push_bytes (h, 64);
  gst_harness_push_event (h, gst_event_new_flush_start ());
  gst_harness_push_event (h, gst_event_new_flush_stop (TRUE));
  gst_harness_set_src_caps_str (h, CODES);
  push_segment (h, GST_FORMAT_TIME, 1, 0, 0);
  push_codes (8, zeros, 1, NONE);
  pull_frames (h, 1, 1, 0);
}
GST_END_TEST;

GST_START_TEST (another_number_of_codebooks_resets)
{
  static const guint16 zeros[3];

  gst_harness_set_src_caps_str (h, CODES);
  push_codes (8, zeros, 3, NONE);
  gst_harness_set_src_caps_str (
      h, "audio/x-mimi,rate=24000,channels=1,codebooks=4");
  push_codes (4, zeros, 3, NONE);
  gst_harness_set_src_caps_str (h, CODES);
  push_codes (8, zeros, 3, NONE);
  for (guint i = 0; i < 3; i++)
    pull_frames (h, 3, 1, i * 3 * FRAME);
}
GST_END_TEST;

GST_START_TEST (caps_that_say_the_same_in_other_words_change_nothing)
{
  gst_harness_set_src_caps_str (h, LATENT);
  push_rows (h, 1, NONE);
  push_bytes (h, 64);
  gst_harness_set_src_caps_str (
      h, LATENT ",format=F32LE,framerate=25/2,normalized=true");
  push_bytes (h, 64);
  gst_harness_set_src_caps_str (
      h, TENSOR "types=float32,dimensions=(string)32:1:1:1");
  push_rows (h, 1, NONE);
  pull_frames (h, 1, 1, 0);
  pull_frames (h, 1, 2, FRAME);
  pull_frames (h, 1, 3, 2 * FRAME);
}
GST_END_TEST;

GST_START_TEST (after_refused_caps_good_ones_work)
{
  gst_harness_set_src_caps_str (h, LATENT);
  push_rows (h, 1, NONE);
  push_caps (h, "audio/x-mimi-latent,rate=24000,channels=1,dims=64");
  expect_error (h->element, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, "64");
  gst_harness_set_src_caps_str (h, LATENT ",format=F16LE");
  push_bytes (h, 64);
  pull_frames (h, 1, 1, 0);
  pull_frames (h, 1, 1, FRAME);
}
GST_END_TEST;

/* The base class takes these for the caps that it has, and does not ask. */
GST_START_TEST (after_refused_caps_those_before_work)
{
  guint i;

  gst_harness_set_src_caps_str (h, LATENT);
  push_rows (h, 1, NONE);
  for (i = 0; i < 2; i++) {
    push_bytes (h, 64);
    push_caps (h, "audio/x-mimi-latent,rate=24000,channels=1,dims=64");
    expect_error (h->element, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, "64");
    expect_warning (h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE,
        "unfinished|64 bytes");
    gst_harness_set_src_caps_str (h, LATENT);
    push_rows (h, 1, NONE);
  }
  pull_frames (h, 1, 1, 0);
  pull_frames (h, 1, 1, FRAME);
  pull_frames (h, 1, 1, 2 * FRAME);
}
GST_END_TEST;

/* ------------------------------------------------- rows without a token --- */

GST_START_TEST (rows_without_a_token_give_no_audio)
{
  static const guint16 firsts[] = { 65535, 65535, 0, 0, 65535, 0 };

  gst_harness_set_src_caps_str (h, CODES);
  push_codes (8, firsts, 6, 500 * GST_MSECOND);
  pull_frames (h, 3, 1, 500 * GST_MSECOND);
  fail_unless_equals_int (get_stat (h->element, "skipped"), 3);
  fail_unless_equals_int (get_stat (h->element, "frames"), 3);
}
GST_END_TEST;

GST_START_TEST (a_buffer_without_audio_keeps_its_timestamp_for_the_next)
{
  static const guint16 none[] = { 65535, 65535 };
  static const guint16 zeros[2];

  gst_harness_set_src_caps_str (h, CODES);
  push_codes (8, none, 2, 500 * GST_MSECOND);
  pull_nothing (h);
  push_codes (8, zeros, 2, NONE);
  push_codes (8, none, 1, 5000 * GST_MSECOND);
  push_codes (8, zeros, 1, 5160 * GST_MSECOND);
  pull_frames (h, 2, 1, 500 * GST_MSECOND);
  pull_frames (h, 1, 3, 5160 * GST_MSECOND);
  /* A flush forgets it. */
  push_codes (8, none, 1, 9000 * GST_MSECOND);
  gst_harness_push_event (h, gst_event_new_flush_start ());
  gst_harness_push_event (h, gst_event_new_flush_stop (TRUE));
  push_segment (h, GST_FORMAT_TIME, 1, 0, 0);
  push_codes (8, zeros, 1, NONE);
  pull_frames (h, 1, 1, 0);
}
GST_END_TEST;

/* -------------------------------------------------------------- output --- */

static void
expect_output (const gchar *format, gsize size)
{
  GstCaps *caps = gst_pad_get_current_caps (h->sinkpad);
  GstStructure *s = gst_caps_get_structure (caps, 0);
  GstBuffer *buffer = gst_harness_try_pull (h);

  fail_unless_equals_string (gst_structure_get_string (s, "format"), format);
  fail_unless_equals_string (
      gst_structure_get_string (s, "layout"), "interleaved");
  fail_unless (gst_caps_is_fixed (caps));
  fail_unless_equals_int (gst_buffer_get_size (buffer), size);
  gst_buffer_unref (buffer);
  gst_caps_unref (caps);
}

GST_START_TEST (s16_unless_downstream_wants_floats)
{
  gst_harness_set_src_caps_str (h, LATENT);
  push_rows (h, 1, NONE);
  expect_output ("S16LE", 3840);
}
GST_END_TEST;

GST_START_TEST (downstream_chooses_the_format)
{
  gst_harness_set_sink_caps_str (h, "audio/x-raw,format=F32LE");
  gst_harness_set_src_caps_str (h, LATENT);
  push_rows (h, 1, NONE);
  expect_output ("F32LE", 7680);
}
GST_END_TEST;

GST_START_TEST (downstream_may_change_its_mind)
{
  gst_harness_set_src_caps_str (h, LATENT);
  push_rows (h, 1, NONE);
  expect_output ("S16LE", 3840);
  gst_harness_set_sink_caps_str (h, "audio/x-raw,format=F32LE");
  push_rows (h, 2, NONE);
  expect_output ("F32LE", 15360);
  gst_harness_set_sink_caps_str (h, "audio/x-raw,format=S16LE");
  push_rows (h, 1, NONE);
  expect_output ("S16LE", 3840);
}
GST_END_TEST;

GST_START_TEST (downstream_that_takes_neither_is_not_negotiated)
{
  gst_harness_set_sink_caps_str (h, "audio/x-raw,format=S32LE");
  gst_harness_set_src_caps_str (h, LATENT);
  fail_unless_equals_int (
      gst_harness_push (h, rows_new (1, 0)), GST_FLOW_NOT_NEGOTIATED);
  gst_harness_set_sink_caps_str (h, "audio/x-raw,format=S16LE");
  push_rows (h, 1, NONE);
  expect_output ("S16LE", 3840);
}
GST_END_TEST;

static Suite *
caps_suite (void)
{
  Suite *suite = suite_create ("caps");
  TCase *tcase = tcase_create ("all");

  tcase_add_checked_fixture (tcase, setup, teardown);
  suite_add_tcase (suite, tcase);
  tcase_add_loop_test (tcase, caps_that_are_understood, 0, G_N_ELEMENTS (good));
  tcase_add_loop_test (
      tcase, caps_that_are_refused_with_a_reason, 0, G_N_ELEMENTS (bad));
  tcase_add_test (tcase, caps_that_do_not_link);
  tcase_add_test (tcase, the_caps_query_gives_the_template);
  tcase_add_test (tcase, no_caps_is_an_error);
  tcase_add_test (tcase, new_caps_drop_and_report_the_unfinished_frame);
  tcase_add_test (tcase, new_caps_twice_with_an_unfinished_frame);
  tcase_add_test (tcase, a_flush_before_new_caps_leaves_nothing_to_drop);
  tcase_add_test (tcase, another_number_of_codebooks_resets);
  tcase_add_test (tcase, caps_that_say_the_same_in_other_words_change_nothing);
  tcase_add_test (tcase, after_refused_caps_good_ones_work);
  tcase_add_test (tcase, after_refused_caps_those_before_work);
  tcase_add_test (tcase, rows_without_a_token_give_no_audio);
  tcase_add_test (
      tcase, a_buffer_without_audio_keeps_its_timestamp_for_the_next);
  tcase_add_test (tcase, s16_unless_downstream_wants_floats);
  tcase_add_test (tcase, downstream_chooses_the_format);
  tcase_add_test (tcase, downstream_may_change_its_mind);
  tcase_add_test (tcase, downstream_that_takes_neither_is_not_negotiated);
  return suite;
}

int
main (int argc, char **argv)
{
  gst_check_init (&argc, &argv);
  GST_ELEMENT_REGISTER (mimidec, NULL);
  return gst_check_run_suite (caps_suite (), "caps", __FILE__);
}
