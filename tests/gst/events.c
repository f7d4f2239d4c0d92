/* What the element does at each event and mark between utterances
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * With the fake decoder, whose output says how many frames its state is old.
 */
#include "fake.h"
#include "gstmimidec.h"
#include "steps.h"

#define MS GST_MSECOND

static GstHarness *h;

static void
setup (void)
{
  fake_init ();
  h = mimi_harness_new ("model", "fake", NULL);
  gst_harness_set_src_caps_str (h, LATENT);
}

static void
teardown (void)
{
  mimi_harness_free (h);
  fail_unless_equals_int (fake_get_alive (), 0);
}

/* ---------------------------------------------------------- timestamps --- */

GST_START_TEST (unstamped_buffers_follow_the_segment)
{
  for (guint i = 0; i < 3; i++) {
    push_rows (h, 1, NONE);
    pull_frames (h, 1, 1 + i, i * FRAME);
  }
}
GST_END_TEST;

GST_START_TEST (the_first_unstamped_buffer_is_at_the_segments_start)
{
  push_segment (h, GST_FORMAT_TIME, 1, 0, GST_SECOND);
  push_rows (h, 1, NONE);
  push_rows (h, 1, NONE);
  pull_frames (h, 1, 1, GST_SECOND);
  pull_frames (h, 1, 2, GST_SECOND + FRAME);
}
GST_END_TEST;

GST_START_TEST (jitter_within_the_tolerance_is_smoothed)
{
  push_rows (h, 1, 0);
  push_rows (h, 1, 85 * MS);
  push_rows (h, 1, 158 * MS);
  push_rows (h, 1, 240 * MS + 40 * MS);
  push_rows (h, 1, 1000 * MS);
  for (guint i = 0; i < 4; i++)
    pull_frames (h, 1, 1 + i, i * FRAME);
  /* Beyond it the sender is believed; the state is none of its business. */
  pull_frames (h, 1, 5, 1000 * MS);
}
GST_END_TEST;

GST_START_TEST (no_tolerance_copies_the_timestamps)
{
  g_object_set (h->element, "tolerance", (gint64)0, NULL);
  push_rows (h, 1, 0);
  push_rows (h, 1, 85 * MS);
  push_rows (h, 1, 158 * MS);
  pull_frames (h, 1, 1, 0);
  fail_if (pull_frames (h, 1, 2, 85 * MS) & GST_BUFFER_FLAG_DISCONT);
  pull_frames (h, 1, 3, 158 * MS);
}
GST_END_TEST;

GST_START_TEST (frames_may_be_split_and_joined)
{
  push_bytes (h, 100);
  pull_nothing (h);
  push_bytes (h, 28 + 128 + 1);
  pull_frames (h, 2, 1, 0);
  push_bytes (h, 127);
  pull_frames (h, 1, 3, 2 * FRAME);
  push_rows (h, 5, NONE);
  pull_frames (h, 5, 4, 3 * FRAME);
}
GST_END_TEST;

GST_START_TEST (a_large_buffer_is_decoded_in_portions)
{
  push_rows (h, 20, 500 * MS);
  pull_frames (h, 8, 1, 500 * MS);
  pull_frames (h, 8, 9, 500 * MS + 8 * FRAME);
  pull_frames (h, 4, 17, 500 * MS + 16 * FRAME);
  pull_nothing (h);
  fail_unless_equals_int (fake_get_largest_call (), 8);
}
GST_END_TEST;

GST_START_TEST (an_empty_buffer_is_nothing)
{
  push_rows (h, 1, NONE);
  fail_unless_equals_int (gst_harness_push (h, gst_buffer_new ()), GST_FLOW_OK);
  push_rows (h, 1, NONE);
  pull_frames (h, 1, 1, 0);
  pull_frames (h, 1, 2, FRAME);
  pull_nothing (h);
}
GST_END_TEST;

/* ---------------------------------------------------- utterance marks --- */

GST_START_TEST (discont_with_a_timestamp_starts_an_utterance)
{
  push_discont (h, 2, 0);
  push_rows (h, 1, NONE);
  push_discont (h, 2, 2000 * MS);
  push_rows (h, 1, NONE);
  pull_frames (h, 2, 1, 0);
  pull_frames (h, 1, 3, 160 * MS);
  fail_unless (pull_frames (h, 2, 1, 2000 * MS) & GST_BUFFER_FLAG_DISCONT);
  fail_if (pull_frames (h, 1, 3, 2160 * MS) & GST_BUFFER_FLAG_DISCONT);
}
GST_END_TEST;

GST_START_TEST (discont_without_a_timestamp_keeps_the_timeline)
{
  push_rows (h, 1, 500 * MS);
  push_discont (h, 1, NONE);
  pull_frames (h, 1, 1, 500 * MS);
  fail_unless (pull_frames (h, 1, 1, 580 * MS) & GST_BUFFER_FLAG_DISCONT);
}
GST_END_TEST;

GST_START_TEST (discont_on_a_large_buffer_resets_once)
{
  push_rows (h, 1, 0);
  push_discont (h, 20, 1000 * MS);
  pull_frames (h, 1, 1, 0);
  pull_frames (h, 8, 1, 1000 * MS);
  pull_frames (h, 8, 9, 1000 * MS + 8 * FRAME);
  pull_frames (h, 4, 17, 1000 * MS + 16 * FRAME);
}
GST_END_TEST;

GST_START_TEST (stream_start_resets_and_restarts_the_timeline)
{
  push_rows (h, 3, NONE);
  gst_harness_push_event (h, gst_event_new_stream_start ("second"));
  push_rows (h, 1, NONE);
  pull_frames (h, 3, 1, 0);
  pull_frames (h, 1, 1, 0);
}
GST_END_TEST;

GST_START_TEST (stream_start_and_a_segment_place_the_utterance)
{
  push_rows (h, 3, NONE);
  gst_harness_push_event (h, gst_event_new_stream_start ("second"));
  push_segment (h, GST_FORMAT_TIME, 1, 0, 5 * GST_SECOND);
  push_rows (h, 1, NONE);
  pull_frames (h, 3, 1, 0);
  pull_frames (h, 1, 1, 5 * GST_SECOND);
}
GST_END_TEST;

static void
flush (void)
{
  gst_harness_push_event (h, gst_event_new_flush_start ());
  gst_harness_push_event (h, gst_event_new_flush_stop (FALSE));
  push_segment (h, GST_FORMAT_TIME, 1, 0, 0);
}

GST_START_TEST (flush_resets_and_drops_the_unfinished_frame)
{
  push_rows (h, 3, NONE);
  push_bytes (h, 100);
  flush ();
  push_rows (h, 1, 700 * MS);
  pull_frames (h, 3, 1, 0);
  pull_frames (h, 1, 1, 700 * MS);
  /* It was asked for, so there is nothing to warn about. */
  expect_no_message (h->element);
}
GST_END_TEST;

GST_START_TEST (flush_and_discont_together_reset_once)
{
  push_rows (h, 3, NONE);
  pull_frames (h, 3, 1, 0);
  flush ();
  push_discont (h, 1, 700 * MS);
  push_rows (h, 1, NONE);
  pull_frames (h, 1, 1, 700 * MS);
  pull_frames (h, 1, 2, 780 * MS);
  fail_unless_equals_int (get_stat (h->element, "resets"), 1);
}
GST_END_TEST;

GST_START_TEST (flush_before_any_output_drops_the_unfinished_frame)
{
  push_bytes (h, 100);
  flush ();
  push_rows (h, 1, 700 * MS);
  pull_frames (h, 1, 1, 700 * MS);
}
GST_END_TEST;

GST_START_TEST (stream_start_before_any_output_reports_the_unfinished_frame)
{
  push_bytes (h, 100);
  gst_harness_push_event (h, gst_event_new_stream_start ("second"));
  expect_warning (h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "100");
  push_rows (h, 1, NONE);
  pull_frames (h, 1, 1, 0);
}
GST_END_TEST;

GST_START_TEST (a_segment_neither_drains_nor_resets)
{
  push_rows (h, 1, NONE);
  push_bytes (h, 64);
  push_segment (h, GST_FORMAT_TIME, 1, 0, 10 * GST_SECOND);
  push_bytes (h, 64);
  pull_frames (h, 1, 1, 0);
  fail_unless_equals_int (gst_harness_buffers_in_queue (h), 0);
  push_rows (h, 1, 10 * GST_SECOND);
  pull_frames (h, 1, 3, 10 * GST_SECOND);
}
GST_END_TEST;

GST_START_TEST (equal_caps_change_nothing)
{
  push_rows (h, 1, NONE);
  push_bytes (h, 100);
  push_caps (h, LATENT);
  push_bytes (h, 28);
  pull_frames (h, 1, 1, 0);
  pull_frames (h, 1, 2, FRAME);
}
GST_END_TEST;

GST_START_TEST (the_signal_resets)
{
  push_rows (h, 2, NONE);
  g_signal_emit_by_name (h->element, "reset");
  g_signal_emit_by_name (h->element, "reset");
  push_rows (h, 2, NONE);
  pull_frames (h, 2, 1, 0);
  pull_frames (h, 2, 1, 2 * FRAME);
  fail_unless_equals_int (get_stat (h->element, "resets"), 1);
}
GST_END_TEST;

/* ----------------------------------------------------------------- GAP --- */

GST_START_TEST (a_gap_is_forwarded_and_changes_nothing)
{
  /* With plc the same: a lost latent is not concealed by guessing. */
  g_object_set (h->element, "plc", (gboolean)__i__, NULL);
  push_rows (h, 1, 0);
  drop_events (h);
  gst_harness_push_event (h, gst_event_new_gap (80 * MS, 500 * MS));
  gst_event_unref (pull_event_of (h, GST_EVENT_GAP));
  push_rows (h, 1, NONE);
  push_rows (h, 1, 660 * MS);
  pull_frames (h, 1, 1, 0);
  pull_frames (h, 1, 2, 80 * MS);
  pull_frames (h, 1, 3, 660 * MS);
}
GST_END_TEST;

GST_START_TEST (a_gap_resets_where_that_is_wanted)
{
  push_rows (h, 2, 0);
  gst_harness_push_event (h, gst_event_new_gap (160 * MS, 500 * MS));
  g_object_set (h->element, "reset-on-gap", TRUE, NULL);
  push_rows (h, 1, 660 * MS);
  gst_harness_push_event (h, gst_event_new_gap (740 * MS, 500 * MS));
  push_rows (h, 1, 1240 * MS);
  pull_frames (h, 2, 1, 0);
  pull_frames (h, 1, 3, 660 * MS);
  pull_frames (h, 1, 1, 1240 * MS);
}
GST_END_TEST;

GST_START_TEST (a_gap_may_come_first)
{
  drop_events (h);
  gst_harness_push_event (h, gst_event_new_gap (0, 500 * MS));
  gst_event_unref (pull_event_of (h, GST_EVENT_CAPS));
  gst_event_unref (pull_event_of (h, GST_EVENT_GAP));
  push_rows (h, 1, 500 * MS);
  pull_frames (h, 1, 1, 500 * MS);
}
GST_END_TEST;

/* ----------------------------------------------------------------- EOS --- */

GST_START_TEST (eos_is_forwarded)
{
  push_rows (h, 1, NONE);
  drop_events (h);
  gst_harness_push_event (h, gst_event_new_eos ());
  gst_event_unref (pull_event_of (h, GST_EVENT_EOS));
  pull_frames (h, 1, 1, 0);
}
GST_END_TEST;

GST_START_TEST (eos_without_input_is_no_error)
{
  gst_harness_push_event (h, gst_event_new_eos ());
  gst_event_unref (pull_event_of (h, GST_EVENT_EOS));
}
GST_END_TEST;

GST_START_TEST (an_unfinished_frame_at_eos_is_reported)
{
  push_rows (h, 1, NONE);
  push_bytes (h, 127);
  gst_harness_push_event (h, gst_event_new_eos ());
  gst_event_unref (pull_event_of (h, GST_EVENT_EOS));
  pull_frames (h, 1, 1, 0);
  pull_nothing (h);
  expect_warning (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "127 bytes");
}
GST_END_TEST;

GST_START_TEST (an_unfinished_frame_at_a_discont_is_reported)
{
  push_rows (h, 1, NONE);
  push_bytes (h, 1);
  push_discont (h, 1, NONE);
  pull_frames (h, 1, 1, 0);
  pull_frames (h, 1, 1, FRAME);
  expect_warning (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "1 bytes");
}
GST_END_TEST;

GST_START_TEST (input_without_output_is_an_error_at_eos)
{
  push_bytes (h, 127);
  gst_harness_push_event (h, gst_event_new_eos ());
  expect_warning (h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "127");
  expect_error (h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, NULL);
}
GST_END_TEST;

/* ------------------------------------------------- rates and segments --- */

GST_START_TEST (bytes_segments_work)
{
  GstHarness *first = h;

  h = mimi_harness_new ("model", "fake", NULL);
  gst_harness_push_event (h, gst_event_new_stream_start ("bytes"));
  push_caps (h, LATENT);
  push_segment (h, GST_FORMAT_BYTES, 1, 0, 0);
  push_rows (h, 2, NONE);
  pull_frames (h, 2, 1, 0);
  /* estimate_rate is lost between two starts unless start() sets it. */
  gst_element_set_state (h->element, GST_STATE_READY);
  gst_element_set_state (h->element, GST_STATE_PLAYING);
  gst_harness_push_event (h, gst_event_new_stream_start ("again"));
  push_caps (h, LATENT);
  push_segment (h, GST_FORMAT_BYTES, 1, 0, 0);
  push_rows (h, 1, NONE);
  pull_frames (h, 1, 1, 0);
  mimi_harness_free (h);
  h = first;
}
GST_END_TEST;

/* As concat and two filesrc: the second segment starts at the byte after the
 * first file, and each file's first buffer is stamped with 0. */
GST_START_TEST (files_follow_each_other_without_loss)
{
  const GstSegment *segment;
  GstEvent *event;

  drop_events (h);
  push_segment (h, GST_FORMAT_BYTES, 1, 0, 0);
  push_discont (h, 2, 0);
  push_bytes (h, 64);
  pull_frames (h, 2, 1, 0);
  push_segment (h, GST_FORMAT_BYTES, 1, 0, 2 * 128 + 64);
  push_discont (h, 3, 0);
  expect_warning (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "64 bytes");
  push_rows (h, 1, NONE);
  pull_frames (h, 3, 1, 2 * FRAME);
  pull_frames (h, 1, 4, 5 * FRAME);
  for (guint i = 0; i < 2; i++) {
    event = pull_event_of (h, GST_EVENT_SEGMENT);
    gst_event_parse_segment (event, &segment);
    fail_unless_equals_int (segment->format, GST_FORMAT_TIME);
    fail_unless_equals_uint64 (segment->start, 0);
    gst_event_unref (event);
  }
}
GST_END_TEST;

GST_START_TEST (backwards_each_group_is_decoded_forwards)
{
  push_segment (h, GST_FORMAT_TIME, -1, 0, 0);
  push_discont (h, 1, 1000 * MS);
  push_rows (h, 1, 1080 * MS);
  push_discont (h, 1, 500 * MS);
  push_rows (h, 1, 580 * MS);
  gst_harness_push_event (h, gst_event_new_eos ());
  pull_frames (h, 1, 2, 1080 * MS);
  pull_frames (h, 1, 1, 1000 * MS);
  pull_frames (h, 1, 2, 580 * MS);
  pull_frames (h, 1, 1, 500 * MS);
}
GST_END_TEST;

GST_START_TEST (trick_mode_without_audio_gives_gaps)
{
  push_segment (h, GST_FORMAT_TIME, 1, GST_SEGMENT_FLAG_TRICKMODE_NO_AUDIO, 0);
  push_rows (h, 1, 0);
  pull_nothing (h);
  gst_event_unref (pull_event_of (h, GST_EVENT_GAP));
}
GST_END_TEST;

static GstPadProbeReturn
flush_from_below (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  (void)pad;
  (void)info;
  (void)data;
  gst_harness_push_event (h, gst_event_new_flush_start ());
  return GST_PAD_PROBE_DROP;
}

GST_START_TEST (a_flush_ends_a_large_buffer_early)
{
  GstPad *pad = gst_element_get_static_pad (h->element, "src");

  gst_pad_add_probe (
      pad, GST_PAD_PROBE_TYPE_BUFFER, flush_from_below, NULL, NULL);
  /* The first portion is dropped by the probe, the next finds the pad
   * flushing: nothing after that may be decoded. */
  fail_unless_equals_int (
      gst_harness_push (h, rows_new (1000, 0)), GST_FLOW_FLUSHING);
  fail_unless (get_stat (h->element, "frames") <= 32);
  gst_object_unref (pad);
}
GST_END_TEST;

/* ------------------------------------------------------------- queries --- */

GST_START_TEST (latency_is_that_of_upstream)
{
  GstQuery *query = gst_query_new_latency ();
  GstClockTime min, max;
  gboolean live;

  for (guint i = 0; i < 2; i++) {
    gst_harness_set_upstream_latency (h, 80 * MS);
    fail_unless_equals_uint64 (gst_harness_query_latency (h), 80 * MS);
    fail_unless (gst_pad_peer_query (h->sinkpad, query));
    gst_query_parse_latency (query, &live, &min, &max);
    fail_unless_equals_uint64 (min, 80 * MS);
    gst_element_set_state (h->element, GST_STATE_READY);
    gst_element_set_state (h->element, GST_STATE_PLAYING);
  }
  gst_query_unref (query);
}
GST_END_TEST;

GST_START_TEST (only_a_seek_to_the_beginning_is_estimated)
{
  gint64 position = 0;
  GstEvent *event;

  push_segment (h, GST_FORMAT_BYTES, 1, 0, 0);
  push_rows (h, 25, NONE);
  fail_unless (gst_pad_peer_query_convert (
      h->sinkpad, GST_FORMAT_BYTES, 2560, GST_FORMAT_TIME, &position));

  while ((event = gst_harness_try_pull_upstream_event (h)) != NULL)
    gst_event_unref (event);
  gst_harness_push_upstream_event (
      h, gst_event_new_seek (1, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH,
             GST_SEEK_TYPE_SET, GST_SECOND, GST_SEEK_TYPE_NONE, -1));
  event = gst_harness_try_pull_upstream_event (h);
  fail_unless (GST_EVENT_TYPE (event) == GST_EVENT_SEEK);
  gst_event_unref (event);
  fail_unless (gst_harness_try_pull_upstream_event (h) == NULL);
}
GST_END_TEST;

static Suite *
events_suite (void)
{
  Suite *suite = suite_create ("events");
  TCase *tcase = tcase_create ("all");

  tcase_add_checked_fixture (tcase, setup, teardown);
  suite_add_tcase (suite, tcase);
  tcase_add_test (tcase, unstamped_buffers_follow_the_segment);
  tcase_add_test (tcase, the_first_unstamped_buffer_is_at_the_segments_start);
  tcase_add_test (tcase, jitter_within_the_tolerance_is_smoothed);
  tcase_add_test (tcase, no_tolerance_copies_the_timestamps);
  tcase_add_test (tcase, frames_may_be_split_and_joined);
  tcase_add_test (tcase, a_large_buffer_is_decoded_in_portions);
  tcase_add_test (tcase, an_empty_buffer_is_nothing);
  tcase_add_test (tcase, discont_with_a_timestamp_starts_an_utterance);
  tcase_add_test (tcase, discont_without_a_timestamp_keeps_the_timeline);
  tcase_add_test (tcase, discont_on_a_large_buffer_resets_once);
  tcase_add_test (tcase, stream_start_resets_and_restarts_the_timeline);
  tcase_add_test (tcase, stream_start_and_a_segment_place_the_utterance);
  tcase_add_test (tcase, flush_resets_and_drops_the_unfinished_frame);
  tcase_add_test (tcase, flush_and_discont_together_reset_once);
  tcase_add_test (tcase, flush_before_any_output_drops_the_unfinished_frame);
  tcase_add_test (
      tcase, stream_start_before_any_output_reports_the_unfinished_frame);
  tcase_add_test (tcase, a_segment_neither_drains_nor_resets);
  tcase_add_test (tcase, equal_caps_change_nothing);
  tcase_add_test (tcase, the_signal_resets);
  tcase_add_loop_test (tcase, a_gap_is_forwarded_and_changes_nothing, 0, 2);
  tcase_add_test (tcase, a_gap_resets_where_that_is_wanted);
  tcase_add_test (tcase, a_gap_may_come_first);
  tcase_add_test (tcase, eos_is_forwarded);
  tcase_add_test (tcase, eos_without_input_is_no_error);
  tcase_add_test (tcase, an_unfinished_frame_at_eos_is_reported);
  tcase_add_test (tcase, an_unfinished_frame_at_a_discont_is_reported);
  tcase_add_test (tcase, input_without_output_is_an_error_at_eos);
  tcase_add_test (tcase, bytes_segments_work);
  tcase_add_test (tcase, files_follow_each_other_without_loss);
  tcase_add_test (tcase, backwards_each_group_is_decoded_forwards);
  tcase_add_test (tcase, trick_mode_without_audio_gives_gaps);
  tcase_add_test (tcase, a_flush_ends_a_large_buffer_early);
  tcase_add_test (tcase, latency_is_that_of_upstream);
  tcase_add_test (tcase, only_a_seek_to_the_beginning_is_estimated);
  return suite;
}

int
main (int argc, char **argv)
{
  gst_check_init (&argc, &argv);
  GST_ELEMENT_REGISTER (mimidec, NULL);
  return gst_check_run_suite (events_suite (), "events", __FILE__);
}
