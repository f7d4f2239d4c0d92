/* Errors: which one, posted when, and what is left behind
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * With the fake decoder, which fails on demand.
 */
#include "fake.h"
#include "gstmimidec.h"
#include "steps.h"

#include <math.h>

static void
teardown (void)
{
  fail_unless_equals_int (fake_get_alive (), 0);
}

typedef struct {
  MimiError is;
  const gchar *domain;
  gint code;
} Mapping;

static const Mapping mappings[] = {
  { MIMI_ERROR_NOT_FOUND, "gst-resource-error-quark",
      GST_RESOURCE_ERROR_NOT_FOUND },
  { MIMI_ERROR_OPEN_READ, "gst-resource-error-quark",
      GST_RESOURCE_ERROR_OPEN_READ },
  { MIMI_ERROR_WRONG_TYPE, "gst-stream-error-quark",
      GST_STREAM_ERROR_WRONG_TYPE },
  { MIMI_ERROR_CORRUPT, "gst-stream-error-quark", GST_STREAM_ERROR_WRONG_TYPE },
  { MIMI_ERROR_TENSOR, "gst-stream-error-quark", GST_STREAM_ERROR_WRONG_TYPE },
  { MIMI_ERROR_CONFIG, "gst-library-error-quark", GST_LIBRARY_ERROR_SETTINGS },
  { MIMI_ERROR_UNSUPPORTED, "gst-library-error-quark",
      GST_LIBRARY_ERROR_SETTINGS },
  { MIMI_ERROR_NO_MEMORY, "gst-resource-error-quark",
      GST_RESOURCE_ERROR_NO_SPACE_LEFT },
  { MIMI_ERROR_NO_DEVICE, "gst-resource-error-quark",
      GST_RESOURCE_ERROR_NOT_FOUND },
  { MIMI_ERROR_DEVICE, "gst-library-error-quark", GST_LIBRARY_ERROR_FAILED },
  { MIMI_ERROR_INPUT, "gst-core-error-quark", GST_CORE_ERROR_NEGOTIATION },
};

static void
expect_mapped (GstElement *element, const Mapping *mapping)
{
  expect_error (element, g_quark_from_string (mapping->domain), mapping->code,
      "of the fake");
}

/* Ours is the first; the base class's general one follows. */
static void
expect_init_error (GstElement *element)
{
  expect_error (element, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT, NULL);
  expect_no_message (element);
}

GST_START_TEST (errors_of_opening)
{
  const Mapping *mapping = &mappings[__i__];

  for (FakeFault fault = FAKE_MODEL_OPEN; fault <= FAKE_STREAM_NEW; fault++) {
    GstElement *element = mimi_element_new ("model", "fake", NULL);

    fake_fail (fault, mapping->is);
    fail_unless_equals_int (gst_element_set_state (element, GST_STATE_PAUSED),
        GST_STATE_CHANGE_FAILURE);
    expect_mapped (element, mapping);
    expect_init_error (element);

    /* Not a dead end. */
    fake_fail (FAKE_NOTHING, 0);
    fail_unless_equals_int (gst_element_set_state (element, GST_STATE_PAUSED),
        GST_STATE_CHANGE_SUCCESS);
    mimi_element_free (element);
    fail_unless_equals_int (fake_get_alive (), 0);
  }
}
GST_END_TEST;

GST_START_TEST (errors_of_decoding)
{
  const Mapping *mapping = &mappings[__i__];
  GstHarness *h = mimi_harness_new ("model", "fake", NULL);

  gst_harness_set_src_caps_str (h, LATENT);
  push_rows (h, 1, NONE);
  fake_fail (FAKE_DECODE, mapping->is);
  fail_unless_equals_int (
      gst_harness_push (h, rows_new (1, NONE)), GST_FLOW_ERROR);
  expect_mapped (h->element, mapping);
  expect_no_message (h->element);
  pull_frames (h, 1, 1, 0);
  pull_nothing (h);
  mimi_harness_free (h);
}
GST_END_TEST;

GST_START_TEST (errors_of_caps)
{
  GstHarness *h = mimi_harness_new ("model", "fake", NULL);

  fake_fail (FAKE_SET_ROWS, MIMI_ERROR_INPUT);
  gst_harness_push_event (h, gst_event_new_stream_start ("bad"));
  push_caps (h, LATENT);
  expect_error (
      h->element, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, "of the fake");
  mimi_harness_free (h);
}
GST_END_TEST;

GST_START_TEST (no_model_is_an_error_that_says_where_to_get_one)
{
  static const gchar *const models[] = { NULL, "" };

  for (guint i = 0; i < G_N_ELEMENTS (models); i++) {
    GstElement *element = mimi_element_new ("model", models[i], NULL);

    g_unsetenv ("MIMIDEC_MODEL");
    fail_unless_equals_int (gst_element_set_state (element, GST_STATE_READY),
        GST_STATE_CHANGE_FAILURE);
    expect_error (element, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
        "kyutai/pocket-tts-without-voice-cloning");
    expect_init_error (element);

    g_setenv ("MIMIDEC_MODEL", "", TRUE);
    fail_unless_equals_int (gst_element_set_state (element, GST_STATE_READY),
        GST_STATE_CHANGE_FAILURE);
    expect_error (element, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
        "MIMIDEC_MODEL");
    expect_init_error (element);
    mimi_element_free (element);
  }
}
GST_END_TEST;

GST_START_TEST (a_guessed_network_is_warned_about)
{
  GstElement *element = mimi_element_new ("model", "fake", NULL);

  fake_set_warning ("heads are guessed");
  gst_element_set_state (element, GST_STATE_READY);
  expect_warning (element, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
      "heads are guessed");
  mimi_element_free (element);
}
GST_END_TEST;

/* ------------------------------------------------------------ bad rows --- */

/* Rows of zeros but for the bad ones. */
static GstBuffer *
rows_with_bad (guint n, guint first_bad, guint n_bad)
{
  GstBuffer *buffer = rows_new (n, NONE);
  GstMapInfo map;

  gst_buffer_map (buffer, &map, GST_MAP_READWRITE);
  for (guint i = 0; i < n_bad; i++)
    ((gfloat *)map.data)[(first_bad + i) * 32] =
        i % 2 ? (gfloat)G_MAXDOUBLE : (gfloat)NAN;
  gst_buffer_unmap (buffer, &map);
  return buffer;
}

static void
expect_frames (GstHarness *h, const gchar *ages)
{
  GByteArray *bytes = pull_bytes (h);
  const gint16 *samples = (const gint16 *)bytes->data;

  fail_unless_equals_int (bytes->len, strlen (ages) * 3840);
  for (guint i = 0; ages[i] != '\0'; i++)
    fail_unless_equals_int (samples[i * FRAME_SAMPLES], ages[i] - '0');
  g_byte_array_unref (bytes);
}

GST_START_TEST (a_bad_row_is_silence_and_a_warning)
{
  GstHarness *h = mimi_harness_new ("model", "fake", NULL);

  gst_harness_set_src_caps_str (h, LATENT);
  gst_harness_push (h, rows_with_bad (5, 2, 1));
  expect_frames (h, "12012");
  expect_warning (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "a bad row");
  expect_no_message (h->element);
  fail_unless_equals_int (get_stat (h->element, "concealed"), 1);
  fail_unless_equals_int (get_stat (h->element, "frames"), 5);
  push_rows (h, 2, NONE);
  expect_frames (h, "34");
  mimi_harness_free (h);
}
GST_END_TEST;

GST_START_TEST (a_run_of_bad_rows_is_one_warning)
{
  GstHarness *h = mimi_harness_new ("model", "fake", NULL);

  gst_harness_set_src_caps_str (h, LATENT);
  for (guint run = 0; run < 2; run++) {
    for (guint i = 0; i < 20; i++)
      fail_unless_equals_int (
          gst_harness_push (h, rows_with_bad (1, 0, 1)), GST_FLOW_OK);
    expect_frames (h, "00000000000000000000");
    expect_warning (
        h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "a bad row");
    expect_no_message (h->element);
    push_rows (h, 1, NONE);
    expect_frames (h, "1");
  }
  fail_unless_equals_int (get_stat (h->element, "concealed"), 40);
  mimi_harness_free (h);
}
GST_END_TEST;

GST_START_TEST (max_errors_limits_a_run_of_bad_rows)
{
  GstHarness *h = mimi_harness_new ("model", "fake", "max-errors", 3, NULL);

  gst_harness_set_src_caps_str (h, LATENT);
  gst_harness_push (h, rows_with_bad (4, 1, 3));
  expect_warning (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "a bad row");
  push_rows (h, 1, NONE);
  for (guint i = 0; i < 3; i++)
    fail_unless_equals_int (
        gst_harness_push (h, rows_with_bad (1, 0, 1)), GST_FLOW_OK);
  expect_warning (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "a bad row");
  expect_no_message (h->element);
  fail_unless_equals_int (
      gst_harness_push (h, rows_with_bad (1, 0, 1)), GST_FLOW_ERROR);
  expect_error (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "a bad row");
  mimi_harness_free (h);
}
GST_END_TEST;

GST_START_TEST (max_errors_counts_rows_not_buffers)
{
  /* a good row ends a run, in a buffer as between buffers */
  for (guint whole = 0; whole < 2; whole++) {
    GstHarness *h = mimi_harness_new ("model", "fake", "max-errors", 1, NULL);

    gst_harness_set_src_caps_str (h, LATENT);
    for (guint i = 0; i < 5; i++) {
      GstBuffer *buffer = rows_with_bad (2, 1, 1);

      if (whole)
        buffer = gst_buffer_append (buffer, rows_with_bad (2, 1, 1));
      fail_unless_equals_int (gst_harness_push (h, buffer), GST_FLOW_OK);
      expect_warning (
          h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "a bad row");
    }
    fail_unless_equals_int (get_stat (h->element, "concealed"), whole ? 10 : 5);
    fail_unless_equals_int (
        gst_harness_push (h, rows_with_bad (2, 0, 2)), GST_FLOW_ERROR);
    expect_error (
        h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "a bad row");
    mimi_harness_free (h);
  }
}
GST_END_TEST;

GST_START_TEST (a_code_out_of_range_is_a_bad_row)
{
  static const guint16 codes[3 * 8] = { [8] = 2048 };
  GstHarness *h = mimi_harness_new ("model", "fake", NULL);

  gst_harness_set_src_caps_str (h, CODES);
  gst_harness_push (h, buffer_of (codes, sizeof codes, 0));
  expect_frames (h, "101");
  expect_warning (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "a bad row");
  mimi_harness_free (h);
}
GST_END_TEST;

static Suite *
faults_suite (void)
{
  Suite *suite = suite_create ("faults");
  TCase *tcase = tcase_create ("all");

  tcase_add_checked_fixture (tcase, fake_init, teardown);
  suite_add_tcase (suite, tcase);
  tcase_add_loop_test (tcase, errors_of_opening, 0, G_N_ELEMENTS (mappings));
  tcase_add_loop_test (tcase, errors_of_decoding, 0, G_N_ELEMENTS (mappings));
  tcase_add_test (tcase, errors_of_caps);
  tcase_add_test (tcase, no_model_is_an_error_that_says_where_to_get_one);
  tcase_add_test (tcase, a_guessed_network_is_warned_about);
  tcase_add_test (tcase, a_bad_row_is_silence_and_a_warning);
  tcase_add_test (tcase, a_run_of_bad_rows_is_one_warning);
  tcase_add_test (tcase, max_errors_limits_a_run_of_bad_rows);
  tcase_add_test (tcase, max_errors_counts_rows_not_buffers);
  tcase_add_test (tcase, a_code_out_of_range_is_a_bad_row);
  return suite;
}

int
main (int argc, char **argv)
{
  gst_check_init (&argc, &argv);
  GST_ELEMENT_REGISTER (mimidec, NULL);
  return gst_check_run_suite (faults_suite (), "faults", __FILE__);
}
