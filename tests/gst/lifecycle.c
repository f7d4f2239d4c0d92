/* States, sharing, threads and memory
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * With the plugin and its CPU backend.
 */
#include "decoding.h"

#include <math.h>

/* -------------------------------------------------------------- states --- */

/* GStreamer objects and buffers that are alive, as the leaks tracer knows. A
 * checker that sees all leaks sets GST_TRACERS to nothing: the tracer's own
 * would be in its way. */
static guint
get_live_objects (void)
{
  GList *tracers;
  GstStructure *info = NULL;
  const GValue *list;
  guint n;

  if (g_str_equal (g_getenv ("GST_TRACERS"), ""))
    return 0;
  tracers = gst_tracing_get_active_tracers ();

  for (GList *l = tracers; l != NULL; l = l->next)
    if (g_str_has_prefix (G_OBJECT_TYPE_NAME (l->data), "GstLeaks"))
      g_signal_emit_by_name (l->data, "get-live-objects", &info);
  g_list_free_full (tracers, gst_object_unref);
  fail_unless (info != NULL, "run with GST_TRACERS=leaks");
  list = gst_structure_get_value (info, "live-objects-list");
  n = gst_value_list_get_size (list);
  gst_structure_free (info);
  return n;
}

static void
play_once (GBytes *latents)
{
  GByteArray *pcm = decode_alone (
      "demo", LATENT, S16, g_bytes_get_data (latents, NULL), 2 * 128 + 5, 0);

  fail_unless_equals_int (pcm->len, 2 * 3840);
  g_byte_array_unref (pcm);
}

GST_START_TEST (a_hundred_lives_leave_nothing_behind)
{
  GBytes *latents = demo_latents (1);
  gchar *path = model_path ("demo");
  guint before;
  GstElement *element;

  play_once (latents); /* whatever is made once and kept */
  before = get_live_objects ();
  for (guint i = 0; i < 20; i++)
    play_once (latents);
  fail_unless_equals_int (get_live_objects (), before);

  element = mimi_element_new ("model", path, NULL);
  for (guint i = 0; i < 100; i++) {
    fail_unless_equals_int (gst_element_set_state (element, GST_STATE_PLAYING),
        GST_STATE_CHANGE_SUCCESS);
    fail_unless_equals_int (gst_element_set_state (element, GST_STATE_NULL),
        GST_STATE_CHANGE_SUCCESS);
  }
  mimi_element_free (element);
  fail_unless_equals_int (get_live_objects (), before);
  g_free (path);
  g_bytes_unref (latents);
}
GST_END_TEST;

GST_START_TEST (failures_leave_nothing_behind)
{
  guint before = get_live_objects ();

  for (guint i = 0; i < 10; i++) {
    GstElement *element = mimi_element_new ("model", "/nowhere", NULL);

    fail_unless_equals_int (gst_element_set_state (element, GST_STATE_PLAYING),
        GST_STATE_CHANGE_FAILURE);
    drop_messages (element);
    mimi_element_free (element);
  }
  for (guint i = 0; i < 10; i++) {
    GstHarness *h = decoder_new (
        "demo", "audio/x-mimi-latent,rate=24000,channels=1,dims=7", S16);

    drop_messages (h->element);
    mimi_harness_free (h);
  }
  fail_unless_equals_int (get_live_objects (), before);
}
GST_END_TEST;

GST_START_TEST (frames_without_audio_leave_nothing_behind)
{
  static const guint16 no_token[8] = { 65535 };
  static const gfloat bad[32] = { NAN };
  guint before = 0;

  for (guint i = 0; i < 5; i++) {
    GstHarness *h = decoder_new ("tinyfull-moshi", CODES, S16);

    push_chunks (h, no_token, sizeof no_token, 0);
    mimi_harness_free (h);

    h = decoder_new ("demo", LATENT, S16);
    g_object_set (h->element, "max-errors", 0, NULL);
    fail_unless_equals_int (
        gst_harness_push (h, buffer_of (bad, sizeof bad, 0)), GST_FLOW_ERROR);
    drop_messages (h->element);
    mimi_harness_free (h);
    if (i == 0)
      before = get_live_objects ();
  }
  fail_unless_equals_int (get_live_objects (), before);
}
GST_END_TEST;

GST_START_TEST (the_model_is_open_in_ready_and_ready_in_paused)
{
  gchar *path = model_path ("demo");
  GstElement *element = mimi_element_new ("model", path, NULL);
  gchar *backend;
  GstStructure *stats;
  guint streams;

  gst_element_set_state (element, GST_STATE_READY);
  fail_unless (get_stat (element, "weights-bytes") > 0);
  fail_unless (get_stat (element, "state-bytes") > 0);
  g_object_get (element, "active-backend", &backend, "stats", &stats, NULL);
  fail_unless_equals_string (backend, "cpu");
  gst_structure_get_uint (stats, "streams", &streams);
  fail_unless_equals_int (streams, 0);
  g_free (backend);
  gst_structure_free (stats);
  gst_element_set_state (element, GST_STATE_PAUSED);
  g_object_get (element, "stats", &stats, NULL);
  gst_structure_get_uint (stats, "streams", &streams);
  fail_unless_equals_int (streams, 1);
  gst_structure_free (stats);
  mimi_element_free (element);
  g_free (path);
}
GST_END_TEST;

/* ------------------------------------------------------------- sharing --- */

/* Memory of this process that belongs to it alone, in bytes. */
static gint64
get_private_memory (void)
{
  gchar *text, *line;
  gint64 kilobytes = 0;

  fail_unless (
      g_file_get_contents ("/proc/self/smaps_rollup", &text, NULL, NULL));
  line = strstr (text, "Anonymous:");
  fail_unless (line != NULL);
  kilobytes = g_ascii_strtoll (line + strlen ("Anonymous:"), NULL, 10);
  g_free (text);
  return kilobytes * 1024;
}

static gboolean
is_shared (GstElement *element)
{
  GstStructure *stats;
  gboolean shared = FALSE;

  g_object_get (element, "stats", &stats, NULL);
  fail_unless (gst_structure_get_boolean (stats, "shared", &shared));
  gst_structure_free (stats);
  return shared;
}

GST_START_TEST (a_second_element_costs_its_state_only)
{
  GstHarness *h[2];
  gint64 memory[3], weights, state;

  memory[0] = get_private_memory ();
  for (guint i = 0; i < 2; i++) {
    h[i] = decoder_new ("pocket-pocket", LATENT, F32);
    memory[i + 1] = get_private_memory ();
  }
  weights = get_stat (h[0]->element, "weights-bytes");
  fail_unless (weights > 20000000, "weights are %" G_GINT64_FORMAT, weights);
  fail_unless (is_shared (h[0]->element) && is_shared (h[1]->element));
  /* its state, what frames are computed in, and GStreamer's own */
  state = get_stat (h[0]->element, "state-bytes");
  fail_unless (memory[2] - memory[1] < 4 * state,
      "the second cost %" G_GINT64_FORMAT ", its state is %" G_GINT64_FORMAT,
      memory[2] - memory[1], state);
  mimi_harness_free (h[1]);
  fail_if (is_shared (h[0]->element));
  mimi_harness_free (h[0]);
}
GST_END_TEST;

GST_START_TEST (another_model_is_not_shared)
{
  GstHarness *a = decoder_new ("demo", LATENT, F32);
  GstHarness *b = decoder_new ("tiny-pocket", LATENT, F32);

  fail_if (is_shared (a->element));
  fail_if (is_shared (b->element));
  mimi_harness_free (a);
  mimi_harness_free (b);
}
GST_END_TEST;

/* ------------------------------------------------------------- threads --- */

#define INSTANCES 8

static gpointer
decode_sentence (gpointer data)
{
  guint sentence = GPOINTER_TO_UINT (data);
  GBytes *latents = demo_latents (sentence);
  GBytes *speech = demo_speech (sentence);
  GstHarness *h = decoder_new ("demo", LATENT, S16);

  for (guint i = 0; i < 2; i++) {
    GByteArray *pcm = decode (h, g_bytes_get_data (latents, NULL),
        g_bytes_get_size (latents), 128 * (1 + sentence));

    expect_same_speech (pcm->data, pcm->len, speech);
    g_byte_array_unref (pcm);
    g_signal_emit_by_name (h->element, "reset");
  }
  mimi_harness_free (h);
  g_bytes_unref (latents);
  g_bytes_unref (speech);
  return NULL;
}

GST_START_TEST (eight_instances_at_once)
{
  GThread *threads[INSTANCES];

  for (guint i = 0; i < INSTANCES; i++)
    threads[i] =
        g_thread_new ("decode", decode_sentence, GUINT_TO_POINTER (i + 1));
  for (guint i = 0; i < INSTANCES; i++)
    g_thread_join (threads[i]);
}
GST_END_TEST;

static gpointer
push_until_it_stops (gpointer data)
{
  GstHarness *h = data;
  GstFlowReturn ret;

  do {
    GstBuffer *buffer = gst_buffer_new_allocate (NULL, 100 * 128, NULL);

    gst_buffer_memset (buffer, 0, 0, 100 * 128);
    ret = gst_harness_push (h, buffer);
  } while (ret == GST_FLOW_OK);
  return GINT_TO_POINTER (ret);
}

GST_START_TEST (a_state_change_ends_decoding)
{
  for (guint i = 0; i < 10; i++) {
    GstHarness *h = decoder_new ("demo", LATENT, S16);
    GThread *thread;

    gst_harness_set_drop_buffers (h, TRUE);
    thread = g_thread_new ("push", push_until_it_stops, h);
    while (get_stat (h->element, "frames") < 3)
      g_thread_yield ();
    fail_unless_equals_int (gst_element_set_state (h->element, GST_STATE_NULL),
        GST_STATE_CHANGE_SUCCESS);
    fail_unless_equals_int (
        GPOINTER_TO_INT (g_thread_join (thread)), GST_FLOW_FLUSHING);
    mimi_harness_free (h);
  }
}
GST_END_TEST;

static Suite *
lifecycle_suite (void)
{
  Suite *suite = suite_create ("lifecycle");
  TCase *tcase = tcase_create ("all");

  suite_add_tcase (suite, tcase);
  tcase_add_test (tcase, a_hundred_lives_leave_nothing_behind);
  tcase_add_test (tcase, failures_leave_nothing_behind);
  tcase_add_test (tcase, frames_without_audio_leave_nothing_behind);
  tcase_add_test (tcase, the_model_is_open_in_ready_and_ready_in_paused);
  tcase_add_test (tcase, a_second_element_costs_its_state_only);
  tcase_add_test (tcase, another_model_is_not_shared);
  tcase_add_test (tcase, eight_instances_at_once);
  tcase_add_test (tcase, a_state_change_ends_decoding);
  return suite;
}

int
main (int argc, char **argv)
{
  g_setenv ("GST_TRACERS", "leaks", FALSE);
  gst_check_init (&argc, &argv);
  return gst_check_run_suite (lifecycle_suite (), "lifecycle", __FILE__);
}
