/* Every property: its default, what it does, and when
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * With the fake decoder, which says what it was asked for.
 */
#include "fake.h"
#include "gstmimidec.h"
#include "steps.h"

static GstElement *element;

static void
setup (void)
{
  fake_init ();
  element = mimi_element_new ("model", "fake", NULL);
}

static void
teardown (void)
{
  mimi_element_free (element);
  fail_unless_equals_int (fake_get_alive (), 0);
}

static void
go (GstState state)
{
  fail_unless_equals_int (
      gst_element_set_state (element, state), GST_STATE_CHANGE_SUCCESS);
}

typedef struct {
  const gchar *name, *value;
  GParamFlags when;
} Property;

static const Property properties[] = {
  { "model", NULL, GST_PARAM_MUTABLE_READY },
  { "config", NULL, GST_PARAM_MUTABLE_READY },
  { "backend", "auto", GST_PARAM_MUTABLE_READY },
  { "active-backend", NULL, 0 },
  { "cuda-device-id", "-1", GST_PARAM_MUTABLE_READY },
  { "precision", "fp32", GST_PARAM_MUTABLE_READY },
  { "threads", "1", GST_PARAM_MUTABLE_READY },
  { "normalized", "auto", GST_PARAM_MUTABLE_READY },
  { "fade-in", "5000000", GST_PARAM_MUTABLE_PLAYING },
  { "reset-on-gap", "false", GST_PARAM_MUTABLE_PLAYING },
  { "tolerance", "40000000", 0 },
};

GST_START_TEST (names_defaults_and_when_they_may_change)
{
  const Property *is = &properties[__i__];
  GParamSpec *spec =
      g_object_class_find_property (G_OBJECT_GET_CLASS (element), is->name);
  GstElement *other = mimi_element_new ("model", NULL, NULL);
  GValue value = G_VALUE_INIT;
  gchar *text;

  fail_unless (spec != NULL, "%s", is->name);
  g_value_init (&value, spec->value_type);
  g_object_get_property (G_OBJECT (other), is->name, &value);
  text = gst_value_serialize (&value);
  fail_unless_equals_string (text, is->value);
  fail_unless ((spec->flags & (GST_PARAM_MUTABLE_READY |
                                  GST_PARAM_MUTABLE_PLAYING)) == is->when);
  fail_unless (strlen (g_param_spec_get_blurb (spec)) > 10);
  g_free (text);
  g_value_unset (&value);
  mimi_element_free (other);
}
GST_END_TEST;

GST_START_TEST (what_is_set_can_be_read)
{
  gchar *model, *config;
  gint backend, device, precision, normalized;
  guint threads;
  guint64 fade_in;
  gboolean reset_on_gap;

  g_object_set (element, "model", "a", "config", "b", "cuda-device-id", 3,
      "threads", 4, "fade-in", (guint64)7, "reset-on-gap", TRUE, NULL);
  gst_util_set_object_arg (G_OBJECT (element), "backend", "cuda");
  gst_util_set_object_arg (G_OBJECT (element), "precision", "bf16");
  gst_util_set_object_arg (G_OBJECT (element), "normalized", "no");
  g_object_get (element, "model", &model, "config", &config, "cuda-device-id",
      &device, "threads", &threads, "fade-in", &fade_in, "reset-on-gap",
      &reset_on_gap, "backend", &backend, "precision", &precision, "normalized",
      &normalized, NULL);
  fail_unless_equals_string (model, "a");
  fail_unless_equals_string (config, "b");
  fail_unless_equals_int (backend, MIMI_BACKEND_CUDA);
  fail_unless_equals_int (device, 3);
  fail_unless_equals_int (precision, MIMI_PRECISION_BF16);
  fail_unless_equals_int (threads, 4);
  fail_unless_equals_int (normalized, GST_MIMI_NORMALIZED_NO);
  fail_unless_equals_uint64 (fade_in, 7);
  fail_unless (reset_on_gap);
  g_free (model);
  g_free (config);

  go (GST_STATE_PAUSED);
  expect_warning (
      element, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, "fp32");
  fail_unless_equals_int (fake_get_options ()->backend, MIMI_BACKEND_CUDA);
  fail_unless_equals_int (fake_get_options ()->cuda_device, 3);
  fail_unless_equals_int (fake_get_options ()->precision, MIMI_PRECISION_BF16);
  fail_unless_equals_int (fake_get_threads (), 4);
}
GST_END_TEST;

GST_START_TEST (the_environment_names_the_model)
{
  g_object_set (element, "model", NULL, NULL);
  g_setenv ("MIMIDEC_MODEL", "fake", TRUE);
  go (GST_STATE_READY);
  fail_unless_equals_int (fake_get_opened (), 1);
  g_unsetenv ("MIMIDEC_MODEL");
}
GST_END_TEST;

GST_START_TEST (a_change_in_ready_opens_again)
{
  go (GST_STATE_READY);
  fail_unless_equals_int (fake_get_opened (), 1);
  g_object_set (element, "cuda-device-id", 2, NULL);
  go (GST_STATE_PAUSED);
  fail_unless_equals_int (fake_get_opened (), 2);
  fail_unless_equals_int (fake_get_options ()->cuda_device, 2);
  /* The old one is gone: one model handle (unreferenced), one decoder, one
   * stream. */
  fail_unless_equals_int (fake_get_alive (), 2);
  go (GST_STATE_READY);
  go (GST_STATE_PAUSED);
  fail_unless_equals_int (fake_get_opened (), 2);
}
GST_END_TEST;

GST_START_TEST (a_change_while_playing_waits)
{
  go (GST_STATE_PLAYING);
  g_object_set (element, "cuda-device-id", 2, "threads", 3, NULL);
  fail_unless_equals_int (fake_get_opened (), 1);
  go (GST_STATE_READY);
  fail_unless_equals_int (fake_get_opened (), 1);
  go (GST_STATE_PAUSED);
  fail_unless_equals_int (fake_get_opened (), 2);
  fail_unless_equals_int (fake_get_options ()->cuda_device, 2);
  fail_unless_equals_int (fake_get_threads (), 3);
}
GST_END_TEST;

static void
count (GObject *object, GParamSpec *spec, gpointer data)
{
  (void)object;
  (void)spec;
  ++*(guint *)data;
}

GST_START_TEST (active_backend_says_what_decodes)
{
  gchar *name;
  guint notified = 0;

  g_signal_connect (
      element, "notify::active-backend", G_CALLBACK (count), &notified);
  g_object_get (element, "active-backend", &name, NULL);
  fail_unless (name == NULL);
  go (GST_STATE_READY);
  fail_unless_equals_int (notified, 1);
  g_object_get (element, "active-backend", &name, NULL);
  fail_unless_equals_string (name, "cpu");
  g_free (name);
  go (GST_STATE_NULL);
  fail_unless_equals_int (notified, 2);
  g_object_get (element, "active-backend", &name, NULL);
  fail_unless (name == NULL);
}
GST_END_TEST;

GST_START_TEST (fade_in_is_taken_at_a_fresh_state)
{
  GstHarness *h = mimi_harness_new ("model", "fake", NULL);

  gst_harness_set_src_caps_str (h, LATENT);
  push_rows (h, 1, NONE);
  fail_unless_equals_uint64 (fake_get_fade_in (), 120);
  g_object_set (h->element, "fade-in", (guint64)0, NULL);
  push_rows (h, 1, NONE);
  fail_unless_equals_uint64 (fake_get_fade_in (), 120);
  push_discont (h, 1, NONE);
  fail_unless_equals_uint64 (fake_get_fade_in (), 0);
  g_object_set (h->element, "fade-in", GST_SECOND, NULL);
  g_signal_emit_by_name (h->element, "reset");
  push_rows (h, 1, NONE);
  fail_unless_equals_uint64 (fake_get_fade_in (), 24000);
  mimi_harness_free (h);
}
GST_END_TEST;

GST_START_TEST (stats_are_complete)
{
  static const gchar *const numbers[] = { "frames", "resets", "concealed",
    "skipped", "decode-time-median", "decode-time-p99", "decode-time-max",
    "state-bytes", "weights-bytes" };
  GstHarness *h = mimi_harness_new ("model", "fake", NULL);
  GstStructure *stats = NULL;
  gboolean shared = TRUE;
  guint streams;

  gst_harness_set_src_caps_str (h, LATENT);
  push_rows (h, 20, NONE);
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    get_stat (h->element, numbers[i]);
  fail_unless_equals_int (get_stat (h->element, "frames"), 20);
  fail_unless_equals_int (get_stat (h->element, "weights-bytes"), 1000);
  fail_unless_equals_int (get_stat (h->element, "state-bytes"), 100);
  g_object_get (h->element, "stats", &stats, NULL);
  fail_unless (gst_structure_get_boolean (stats, "shared", &shared));
  fail_if (shared);
  fail_unless (gst_structure_get_uint (stats, "streams", &streams));
  fail_unless_equals_int (streams, 1);
  fail_unless_equals_string (
      gst_structure_get_string (stats, "backend"), "cpu");
  fail_unless_equals_string (
      gst_structure_get_string (stats, "device"), "fake");
  gst_structure_free (stats);

  /* They can still be read when it is over, and start again after that. */
  gst_element_set_state (h->element, GST_STATE_NULL);
  fail_unless_equals_int (get_stat (h->element, "frames"), 20);
  fail_unless_equals_int (get_stat (h->element, "weights-bytes"), 0);
  gst_element_set_state (h->element, GST_STATE_PLAYING);
  fail_unless_equals_int (get_stat (h->element, "frames"), 0);
  mimi_harness_free (h);
}
GST_END_TEST;

static gboolean stop;

static gpointer
use_properties (gpointer data)
{
  GObject *object = data;

  while (!g_atomic_int_get (&stop)) {
    GstStructure *stats;
    gchar *backend;

    g_object_get (object, "stats", &stats, "active-backend", &backend, NULL);
    gst_structure_free (stats);
    g_free (backend);
    g_object_set (object, "fade-in", (guint64)0, "model", "fake", NULL);
    g_signal_emit_by_name (object, "reset");
  }
  return NULL;
}

GST_START_TEST (properties_may_be_used_from_any_thread)
{
  GstHarness *h = mimi_harness_new ("model", "fake", NULL);
  GThread *threads[2];

  g_atomic_int_set (&stop, FALSE);
  for (guint i = 0; i < 2; i++)
    threads[i] = g_thread_new ("properties", use_properties, h->element);
  for (guint i = 0; i < 20; i++) {
    gst_harness_set_src_caps_str (h, LATENT);
    push_rows (h, 40, NONE);
    gst_element_set_state (h->element, GST_STATE_NULL);
    gst_element_set_state (h->element, GST_STATE_PLAYING);
    gst_harness_push_event (h, gst_event_new_stream_start ("again"));
  }
  g_atomic_int_set (&stop, TRUE);
  for (guint i = 0; i < 2; i++)
    g_thread_join (threads[i]);
  mimi_harness_free (h);
}
GST_END_TEST;

static Suite *
properties_suite (void)
{
  Suite *suite = suite_create ("properties");
  TCase *tcase = tcase_create ("all");

  tcase_add_checked_fixture (tcase, setup, teardown);
  suite_add_tcase (suite, tcase);
  tcase_add_loop_test (tcase, names_defaults_and_when_they_may_change, 0,
      G_N_ELEMENTS (properties));
  tcase_add_test (tcase, what_is_set_can_be_read);
  tcase_add_test (tcase, the_environment_names_the_model);
  tcase_add_test (tcase, a_change_in_ready_opens_again);
  tcase_add_test (tcase, a_change_while_playing_waits);
  tcase_add_test (tcase, active_backend_says_what_decodes);
  tcase_add_test (tcase, fade_in_is_taken_at_a_fresh_state);
  tcase_add_test (tcase, stats_are_complete);
  tcase_add_test (tcase, properties_may_be_used_from_any_thread);
  return suite;
}

int
main (int argc, char **argv)
{
  gst_check_init (&argc, &argv);
  GST_ELEMENT_REGISTER (mimidec, NULL);
  return gst_check_run_suite (properties_suite (), "properties", __FILE__);
}
