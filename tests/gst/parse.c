/* mimiparse: bytes to frames with timestamps
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "common.h"

#include <gst/app/app.h>

#define BOOKS(n) "audio/x-mimi,rate=24000,channels=1,codebooks=" #n
#define NONE GST_CLOCK_TIME_NONE

static GstHarness *h;

/* With a bus of its own, and whatever stream and segment a test begins. */
static void
setup (void)
{
  GstElement *element = gst_element_factory_make ("mimiparse", NULL);
  GstBus *bus = gst_bus_new ();

  fail_unless (element != NULL);
  gst_element_set_bus (element, bus);
  gst_object_unref (bus);
  h = gst_harness_new_with_element (element, "sink", "src");
  gst_object_unref (element);
}

static void
teardown (void)
{
  mimi_harness_free (h);
}

static void
push_segment (GstFormat format)
{
  GstSegment segment;

  gst_segment_init (&segment, format);
  gst_harness_push_event (h, gst_event_new_segment (&segment));
}

static void
begin (const gchar *caps, GstFormat format)
{
  gst_harness_push_event (h, gst_event_new_stream_start ("it"));
  push_caps (h, caps);
  push_segment (format);
}

/* Bytes that count up from `start`. */
static GstBuffer *
bytes_new (guint start, gsize size, GstClockTime pts)
{
  guint8 *data = g_malloc (size);
  GstBuffer *buffer = gst_buffer_new_wrapped (data, size);

  for (gsize i = 0; i < size; i++)
    data[i] = (guint8)(start + i);
  GST_BUFFER_PTS (buffer) = pts;
  return buffer;
}

static void
push (guint start, gsize size, GstClockTime pts)
{
  fail_unless_equals_int (
      gst_harness_push (h, bytes_new (start, size, pts)), GST_FLOW_OK);
}

/* The next buffer is one frame, and its bytes count up from `start`; returns
 * whether it is marked DISCONT. */
static gboolean
pull (guint start, gsize size, GstClockTime pts)
{
  GstBuffer *buffer = gst_harness_try_pull (h);
  GstMapInfo map;
  gboolean discont;

  fail_unless (buffer != NULL, "no frame with %u", start);
  gst_buffer_map (buffer, &map, GST_MAP_READ);
  fail_unless_equals_int (map.size, size);
  for (gsize i = 0; i < size; i++)
    fail_unless_equals_int (map.data[i], (guint8)(start + i));
  gst_buffer_unmap (buffer, &map);
  fail_unless_equals_uint64 (GST_BUFFER_PTS (buffer), pts);
  fail_unless_equals_uint64 (GST_BUFFER_DURATION (buffer), FRAME);
  discont = GST_BUFFER_IS_DISCONT (buffer);
  gst_buffer_unref (buffer);
  return discont;
}

static void
pull_nothing (void)
{
  fail_unless (gst_harness_try_pull (h) == NULL);
}

static void
expect_leftover (const gchar *text)
{
  expect_warning (h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, text);
}

/* -------------------------------------------------------------- frames --- */

static const struct {
  const gchar *caps;
  gsize size;
} rows[] = {
  { BOOKS (8), 16 },
  { BOOKS (8) ",format=S32LE", 32 },
  { BOOKS (32) ",format=S64LE,codebook-size=2048", 256 },
  { BOOKS (1), 2 },
  { LATENT, 128 },
  { LATENT ",format=F16LE,normalized=true", 64 },
  { "audio/x-mimi-latent,rate=24000,channels=1,dims=512", 2048 },
  { "other/tensors,format=static,num_tensors=1,types=int32,"
    "dimensions=(string)8:1:1:1,framerate=0/1",
      32 },
};

GST_START_TEST (any_split_gives_frames_that_are_80_ms_apart)
{
  static const gsize chunks[] = { 1, 7, 1000 };
  const gsize size = rows[__i__].size, all = 5 * size;
  GstCaps *caps;
  gint num, denom;

  for (guint c = 0; c < G_N_ELEMENTS (chunks); c++) {
    begin (rows[__i__].caps, GST_FORMAT_BYTES);
    for (gsize at = 0; at < all; at += chunks[c])
      push (at, MIN (chunks[c], all - at), at == 0 ? 0 : NONE);
    for (guint i = 0; i < 5; i++)
      pull (i * size, size, i * FRAME);
    pull_nothing ();
    caps = gst_pad_get_current_caps (h->sinkpad);
    fail_unless (gst_structure_get_fraction (
        gst_caps_get_structure (caps, 0), "framerate", &num, &denom));
    fail_unless (num == 25 && denom == 2);
    gst_caps_unref (caps);
    gst_element_set_state (h->element, GST_STATE_READY);
    gst_element_set_state (h->element, GST_STATE_PLAYING);
  }
}
GST_END_TEST;

GST_START_TEST (timestamps_of_the_input_go_on)
{
  begin (BOOKS (8), GST_FORMAT_TIME);
  push (0, 40, 500 * GST_MSECOND);
  push (40, 24, NONE);
  for (guint i = 0; i < 4; i++)
    pull (i * 16, 16, 500 * GST_MSECOND + i * FRAME);
  push (64, 32, 5 * GST_SECOND);
  pull (64, 16, 5 * GST_SECOND);
  pull (80, 16, 5 * GST_SECOND + FRAME);
}
GST_END_TEST;

/* ----------------------------------------------------- unfinished frames --- */

GST_START_TEST (an_unfinished_frame_at_the_end_is_reported)
{
  begin (BOOKS (8), GST_FORMAT_BYTES);
  push (0, 16 + 9, NONE);
  gst_harness_push_event (h, gst_event_new_eos ());
  pull (0, 16, 0);
  pull_nothing ();
  expect_leftover ("at the end|9 bytes|16");
}
GST_END_TEST;

GST_START_TEST (new_caps_drop_and_report_the_unfinished_frame)
{
  begin (BOOKS (8), GST_FORMAT_BYTES);
  push (0, 16 + 9, NONE);
  push_caps (h, BOOKS (4));
  expect_leftover ("where the caps changed|9 bytes|16");
  push (100, 16, NONE);
  pull (0, 16, 0);
  fail_unless (pull (100, 8, FRAME));
  fail_if (pull (108, 8, 2 * FRAME));
  pull_nothing ();
}
GST_END_TEST;

GST_START_TEST (caps_of_equal_rows_drop_nothing)
{
  begin (BOOKS (8), GST_FORMAT_BYTES);
  push (0, 16 + 9, NONE);
  push_caps (h, BOOKS (8) ",codebook-size=2048");
  push (25, 7, NONE);
  pull (0, 16, 0);
  pull (16, 16, FRAME);
}
GST_END_TEST;

GST_START_TEST (a_discont_drops_and_reports_the_unfinished_frame)
{
  GstBuffer *buffer = bytes_new (100, 32, NONE);

  begin (BOOKS (8), GST_FORMAT_BYTES);
  push (0, 16 + 9, NONE);
  GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
  fail_unless_equals_int (gst_harness_push (h, buffer), GST_FLOW_OK);
  pull (0, 16, 0);
  expect_leftover ("9 bytes|16");
  fail_unless (pull (100, 16, FRAME));
  pull (116, 16, 2 * FRAME);
  pull_nothing ();
}
GST_END_TEST;

GST_START_TEST (the_mark_of_an_utterance_is_kept)
{
  GstBuffer *buffer = bytes_new (100, 32, 5 * GST_SECOND);

  begin (BOOKS (8), GST_FORMAT_TIME);
  push (0, 32, GST_SECOND);
  GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
  fail_unless_equals_int (gst_harness_push (h, buffer), GST_FLOW_OK);
  pull (0, 16, GST_SECOND);
  fail_if (pull (16, 16, GST_SECOND + FRAME));
  fail_unless (pull (100, 16, 5 * GST_SECOND));
  fail_if (pull (116, 16, 5 * GST_SECOND + FRAME));
}
GST_END_TEST;

static void
flush (void)
{
  gst_harness_push_event (h, gst_event_new_flush_start ());
  gst_harness_push_event (h, gst_event_new_flush_stop (TRUE));
  push_segment (GST_FORMAT_BYTES);
}

GST_START_TEST (a_flush_forgets_the_unfinished_frame)
{
  GstBuffer *buffer = bytes_new (100, 16, NONE);

  begin (BOOKS (8), GST_FORMAT_BYTES);
  push (0, 16 + 9, NONE);
  pull (0, 16, 0);
  flush ();
  GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
  fail_unless_equals_int (gst_harness_push (h, buffer), GST_FLOW_OK);
  fail_unless (pull (100, 16, 0));
  pull_nothing ();
  /* Nor is anything left to be dropped. */
  push (0, 9, NONE);
  push_caps (h, BOOKS (4));
  expect_leftover ("9 bytes|16");
  flush ();
  push (100, 16, NONE);
  pull (100, 8, 0);
  pull (108, 8, FRAME);
  pull_nothing ();
}
GST_END_TEST;

/* --------------------------------------------------------------- seeks --- */

GST_START_TEST (positions_are_exact)
{
  gint64 bytes = 0, time = 0;

  begin (BOOKS (8), GST_FORMAT_BYTES);
  push (0, 160, NONE);
  fail_unless (gst_pad_peer_query_convert (h->sinkpad, GST_FORMAT_TIME,
      10030 * GST_MSECOND, GST_FORMAT_BYTES, &bytes));
  fail_unless_equals_int64 (bytes, 125 * 16);
  fail_unless (gst_pad_peer_query_convert (
      h->sinkpad, GST_FORMAT_BYTES, 125 * 16 + 7, GST_FORMAT_TIME, &time));
  fail_unless_equals_int64 (time, 10 * GST_SECOND);
}
GST_END_TEST;

/* In a file, as an application seeks: what comes out begins with the frame that
 * is there at that time, and says so. */
GST_START_TEST (a_seek_lands_on_a_frame)
{
  gchar *path = file_path ("MIMI_GOLDENS", "tinyfull-8.u16");
  gchar *line = g_strdup_printf ("filesrc location=%s blocksize=100 ! " BOOKS (
                                     8) " ! mimiparse ! "
                                        "appsink name=out sync=false",
      path);
  GBytes *codes = read_file ("MIMI_GOLDENS", "tinyfull-8.u16");
  const guint8 *data = g_bytes_get_data (codes, NULL);
  GstElement *pipeline = gst_parse_launch (line, NULL);
  GstElement *sink = gst_bin_get_by_name (GST_BIN (pipeline), "out");
  GstSample *sample;
  GstBuffer *buffer;
  gint64 duration = 0;

  gst_element_set_state (pipeline, GST_STATE_PAUSED);
  gst_element_get_state (pipeline, NULL, NULL, 10 * GST_SECOND);
  fail_unless (
      gst_element_query_duration (pipeline, GST_FORMAT_TIME, &duration));
  fail_unless_equals_int64 (duration, 170 * FRAME);
  fail_unless (gst_element_seek_simple (pipeline, GST_FORMAT_TIME,
      GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_KEY_UNIT, 12 * FRAME + FRAME / 3));
  gst_element_get_state (pipeline, NULL, NULL, 10 * GST_SECOND);
  sample = gst_app_sink_try_pull_preroll (GST_APP_SINK (sink), 10 * GST_SECOND);
  fail_unless (sample != NULL);
  buffer = gst_sample_get_buffer (sample);
  fail_unless_equals_int (gst_buffer_memcmp (buffer, 0, data + 12 * 16, 16), 0);
  fail_unless_equals_int (gst_buffer_get_size (buffer), 16);
  fail_unless_equals_uint64 (GST_BUFFER_PTS (buffer), 12 * FRAME);
  fail_unless (GST_BUFFER_IS_DISCONT (buffer));
  gst_sample_unref (sample);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (sink);
  gst_object_unref (pipeline);
  g_bytes_unref (codes);
  g_free (line);
  g_free (path);
}
GST_END_TEST;

/* -------------------------------------------------------------- errors --- */

GST_START_TEST (caps_that_say_too_little_or_nonsense)
{
  static const struct {
    const gchar *caps, *text;
  } bad[] = {
    { BOOKS (8) ",format=F32LE", "format=F32LE|U16LE, S32LE, S64LE" },
    { BOOKS (8) ",framerate=50/1", "framerate=50/1|25/2" },
    { "audio/x-mimi-latent,rate=24000,channels=1,dims=2000000000",
        "dims=2000000000" },
    { "other/tensors,format=static,num_tensors=1,types=int32,"
      "dimensions=(string)a",
        "dimensions=a" },
  };

  begin (bad[__i__].caps, GST_FORMAT_BYTES);
  expect_error (
      h->element, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, bad[__i__].text);
  /* Good ones after them work. */
  push_caps (h, BOOKS (8));
  push (0, 16, NONE);
  pull (0, 16, 0);
}
GST_END_TEST;

GST_START_TEST (no_caps_is_an_error)
{
  gst_harness_push_event (h, gst_event_new_stream_start ("it"));
  push_segment (GST_FORMAT_BYTES);
  fail_unless_equals_int (
      gst_harness_push (h, bytes_new (0, 16, NONE)), GST_FLOW_NOT_NEGOTIATED);
  expect_error (h->element, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
      "audio/x-mimi,rate=24000");
}
GST_END_TEST;

static Suite *
parse_suite (void)
{
  Suite *suite = suite_create ("parse");
  TCase *tcase = tcase_create ("all");

  tcase_add_checked_fixture (tcase, setup, teardown);
  suite_add_tcase (suite, tcase);
  tcase_add_loop_test (tcase, any_split_gives_frames_that_are_80_ms_apart, 0,
      G_N_ELEMENTS (rows));
  tcase_add_test (tcase, timestamps_of_the_input_go_on);
  tcase_add_test (tcase, an_unfinished_frame_at_the_end_is_reported);
  tcase_add_test (tcase, new_caps_drop_and_report_the_unfinished_frame);
  tcase_add_test (tcase, caps_of_equal_rows_drop_nothing);
  tcase_add_test (tcase, a_discont_drops_and_reports_the_unfinished_frame);
  tcase_add_test (tcase, the_mark_of_an_utterance_is_kept);
  tcase_add_test (tcase, a_flush_forgets_the_unfinished_frame);
  tcase_add_test (tcase, positions_are_exact);
  tcase_add_test (tcase, a_seek_lands_on_a_frame);
  tcase_add_loop_test (tcase, caps_that_say_too_little_or_nonsense, 0, 4);
  tcase_add_test (tcase, no_caps_is_an_error);
  return suite;
}

GST_CHECK_MAIN (parse);
