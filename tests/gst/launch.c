/* Pipelines with the elements that users put around this one
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * With the plugin and its CPU backend. A pipeline whose elements are not
 * installed is left out.
 */
#include "decoding.h"

#include <gst/app/app.h>
#include <unistd.h>

/* Substitutes %latents, %model and %file in a launch line. */
static GstElement *
launch (const gchar *line, const gchar *file)
{
  gchar *model = model_path ("demo");
  gchar *latents = file_path ("MIMI_DEMO", "sentence-1.f32");
  GString *text = g_string_new (line);
  GError *error = NULL;
  GstElement *pipeline;

  g_string_replace (text, "%model", model, 0);
  g_string_replace (text, "%latents", latents, 0);
  g_string_replace (text, "%file", file != NULL ? file : "", 0);
  pipeline = gst_parse_launch_full (
      text->str, NULL, GST_PARSE_FLAG_FATAL_ERRORS, &error);
  fail_unless (pipeline != NULL, "%s: %s", text->str,
      error != NULL ? error->message : "");
  g_string_free (text, TRUE);
  g_free (latents);
  g_free (model);
  return pipeline;
}

/* Plays to the end; returns what was posted first of EOS and errors. */
static GstMessage *
play (GstElement *pipeline)
{
  GstBus *bus = gst_element_get_bus (pipeline);
  GstMessage *message;

  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (
      bus, 30 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  gst_object_unref (bus);
  fail_unless (message != NULL, "no end");
  return message;
}

static void
play_to_eos (GstElement *pipeline)
{
  GstMessage *message = play (pipeline);
  GError *error = NULL;

  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
    gst_message_parse_error (message, &error, NULL);
  fail_unless (error == NULL, "%s", error != NULL ? error->message : "");
  gst_message_unref (message);
}

static void
finish (GstElement *pipeline)
{
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (pipeline);
}

static gboolean
have (const gchar *elements)
{
  gchar **names = g_strsplit (elements, " ", -1);
  gboolean all = TRUE;

  for (guint i = 0; names[i] != NULL; i++) {
    GstElementFactory *factory = gst_element_factory_find (names[i]);

    if (factory == NULL)
      all = FALSE;
    else
      gst_object_unref (factory);
  }
  g_strfreev (names);
  return all;
}

/* All that an appsink named "out" has got. */
static GByteArray *
pull_samples (GstElement *pipeline)
{
  GstElement *sink = gst_bin_get_by_name (GST_BIN (pipeline), "out");
  GByteArray *bytes = g_byte_array_new ();
  GstSample *sample;

  while ((sample = gst_app_sink_try_pull_sample (GST_APP_SINK (sink), 0))) {
    GstMapInfo map;
    GstBuffer *buffer = gst_sample_get_buffer (sample);

    gst_buffer_map (buffer, &map, GST_MAP_READ);
    g_byte_array_append (bytes, map.data, map.size);
    gst_buffer_unmap (buffer, &map);
    gst_sample_unref (sample);
  }
  gst_object_unref (sink);
  return bytes;
}

/* ------------------------------------------------- the sentence, exactly --- */

#define DECODE "mimidec model=%model backend=cpu fade-in=0"
/* It must not wait for somebody to pull before it lets EOS through. */
#define SINK "appsink name=out sync=false wait-on-eos=false"
#define OUT " ! audio/x-raw,format=S16LE ! " SINK
#define SHORT "audio/x-mimi-latent,rate=24000,channels=1,dims=32"

static const struct {
  const gchar *needs, *line;
} exact[] = {
  { "filesrc", "filesrc location=%latents ! " SHORT " ! " DECODE OUT },
  { "filesrc",
      "filesrc location=%latents blocksize=100 ! " SHORT " ! " DECODE OUT },
  { "filesrc", "filesrc location=%latents ! " SHORT
               ",format=F32LE,normalized=true,framerate=25/2 ! " DECODE OUT },
  { "filesrc",
      "filesrc location=%latents ! other/tensors,format=static,num_tensors=1,"
      "types=float32,dimensions=32:1:1:1,framerate=25/2 ! " DECODE OUT },
  { "filesrc",
      "filesrc location=%latents ! other/tensors,num_tensors=1,types=float32,"
      "dimensions=32 ! " DECODE OUT },
  { "filesrc queue identity", "filesrc location=%latents ! " SHORT
                              " ! queue ! identity ! " DECODE " ! queue" OUT },
  { "filesrc clocksync",
      "filesrc location=%latents ! " SHORT " ! " DECODE
      " ! audio/x-raw,format=S16LE ! clocksync sync=false ! " SINK },
  { "filesrc gdppay gdpdepay", "filesrc location=%latents ! " SHORT
                               " ! gdppay ! gdpdepay ! " DECODE OUT },
  { "filesrc audioconvert audioresample",
      "filesrc location=%latents ! " SHORT " ! " DECODE
      " ! audioconvert ! audioresample ! "
      "audio/x-raw,format=S16LE,rate=24000,channels=1 ! " SINK },
};

GST_START_TEST (lines_that_give_the_sentence)
{
  GBytes *speech = demo_speech (1);
  GstElement *pipeline;
  GByteArray *pcm;

  if (!have (exact[__i__].needs)) {
    GST_WARNING ("left out, for want of one of %s", exact[__i__].needs);
    return;
  }
  pipeline = launch (exact[__i__].line, NULL);
  play_to_eos (pipeline);
  pcm = pull_samples (pipeline);
  expect_same_speech (pcm->data, pcm->len, speech);
  finish (pipeline);
  g_byte_array_unref (pcm);
  g_bytes_unref (speech);
}
GST_END_TEST;

GST_START_TEST (a_wav_file)
{
  GBytes *speech = demo_speech (1);
  gchar *name, *data;
  gsize size;
  GstElement *pipeline;
  gint fd = g_file_open_tmp ("mimidec-XXXXXX.wav", &name, NULL);

  close (fd);
  pipeline = launch ("filesrc location=%latents ! " SHORT " ! " DECODE
                     " ! wavenc ! filesink location=%file",
      name);
  play_to_eos (pipeline);
  finish (pipeline);
  fail_unless (g_file_get_contents (name, &data, &size, NULL));
  fail_unless (memcmp (data, "RIFF", 4) == 0);
  expect_same_speech (data + 44, size - 44, speech);
  unlink (name);
  g_free (name);
  g_free (data);
  g_bytes_unref (speech);
}
GST_END_TEST;

GST_START_TEST (latents_on_a_pipe)
{
  GBytes *latents = demo_latents (1);
  GBytes *speech = demo_speech (1);
  GstElement *pipeline, *source;
  GByteArray *pcm;
  gint fds[2];

  /* The sentence is smaller than what a pipe holds. */
  fail_unless_equals_int (pipe (fds), 0);
  fail_unless_equals_int (write (fds[1], g_bytes_get_data (latents, NULL),
                              g_bytes_get_size (latents)),
      g_bytes_get_size (latents));
  close (fds[1]);
  pipeline = launch ("fdsrc name=in ! " SHORT " ! " DECODE OUT, NULL);
  source = gst_bin_get_by_name (GST_BIN (pipeline), "in");
  g_object_set (source, "fd", fds[0], NULL);
  gst_object_unref (source);
  play_to_eos (pipeline);
  pcm = pull_samples (pipeline);
  expect_same_speech (pcm->data, pcm->len, speech);
  finish (pipeline);
  close (fds[0]);
  g_byte_array_unref (pcm);
  g_bytes_unref (latents);
  g_bytes_unref (speech);
}
GST_END_TEST;

/* ------------------------------------------------------- other encoders --- */

static const struct {
  const gchar *needs, *line;
} encoders[] = {
  { "opusenc oggmux", "opusenc ! oggmux" },
  { "opusenc rtpopuspay", "opusenc ! rtpopuspay" },
  { "audioconvert audioresample voaacenc aacparse mpegtsmux",
      "audioconvert ! audioresample ! audio/x-raw,rate=48000 ! voaacenc ! "
      "aacparse ! mpegtsmux" },
  { "audioconvert flacenc", "audioconvert ! flacenc" },
};

GST_START_TEST (lines_into_encoders)
{
  gchar *line;
  GstElement *pipeline;

  if (!have (encoders[__i__].needs)) {
    GST_WARNING ("left out, for want of one of %s", encoders[__i__].needs);
    return;
  }
  line = g_strconcat ("filesrc location=%latents ! " SHORT " ! " DECODE " ! ",
      encoders[__i__].line, " ! " SINK, NULL);
  pipeline = launch (line, NULL);
  play_to_eos (pipeline);
  finish (pipeline);
  g_free (line);
}
GST_END_TEST;

/* -------------------------------------------------- errors for a person --- */

GST_START_TEST (the_first_error_says_what_is_wrong)
{
  static const struct {
    const gchar *line, *text;
    GQuark (*domain) (void);
    gint code;
  } cases[] = {
    { "filesrc location=%latents ! "
      "audio/x-mimi-latent,rate=24000,channels=1,dims=64 ! mimidec "
      "model=%model ! fakesink",
        "64", gst_core_error_quark, GST_CORE_ERROR_NEGOTIATION },
    { "filesrc location=%latents ! " CODES " ! mimidec model=%model ! fakesink",
        "code", gst_core_error_quark, GST_CORE_ERROR_NEGOTIATION },
    { "filesrc location=%latents ! " SHORT " ! mimidec ! fakesink",
        "MIMIDEC_MODEL", gst_resource_error_quark,
        GST_RESOURCE_ERROR_NOT_FOUND },
    { "filesrc location=%latents ! " SHORT
      " ! mimidec model=/nowhere ! fakesink",
        "/nowhere", gst_resource_error_quark, GST_RESOURCE_ERROR_NOT_FOUND },
    { "filesrc location=%latents ! mimidec model=%model ! fakesink", NULL,
        gst_core_error_quark, GST_CORE_ERROR_NEGOTIATION },
  };
  GstElement *pipeline = launch (cases[__i__].line, NULL);
  GstMessage *message = play (pipeline);
  GError *error = NULL;

  fail_unless_equals_int (GST_MESSAGE_TYPE (message), GST_MESSAGE_ERROR);
  gst_message_parse_error (message, &error, NULL);
  fail_unless (error->domain == cases[__i__].domain () &&
                   error->code == cases[__i__].code,
      "%s %d: %s", g_quark_to_string (error->domain), error->code,
      error->message);
  fail_unless (cases[__i__].text == NULL ||
                   strstr (error->message, cases[__i__].text) != NULL,
      "%s", error->message);
  g_error_free (error);
  gst_message_unref (message);
  finish (pipeline);
}
GST_END_TEST;

/* ----------------------------------------------------- a live assistant --- */

/* The next buffer has this timestamp and holds these frames of the speech. */
static void
expect_speech (
    GstElement *sink, GstClockTime pts, const gint16 *speech, guint frames)
{
  GstSample *sample =
      gst_app_sink_try_pull_sample (GST_APP_SINK (sink), 10 * GST_SECOND);
  GstBuffer *buffer;
  GstMapInfo map;

  fail_unless (
      sample != NULL, "nothing at %" GST_TIME_FORMAT, GST_TIME_ARGS (pts));
  buffer = gst_sample_get_buffer (sample);
  fail_unless_equals_uint64 (GST_BUFFER_PTS (buffer), pts);
  gst_buffer_map (buffer, &map, GST_MAP_READ);
  fail_unless_equals_int (map.size, frames * FRAME_SAMPLES * 2);
  for (guint i = 0; i < frames * FRAME_SAMPLES; i++)
    fail_unless (ABS (((gint16 *)map.data)[i] - speech[i]) <= 1);
  gst_buffer_unmap (buffer, &map);
  gst_sample_unref (sample);
}

static void
say (GstElement *source, GBytes *latents, guint frames, GstClockTime pts)
{
  const guint8 *data = g_bytes_get_data (latents, NULL);

  for (guint i = 0; i < frames; i++) {
    GstBuffer *buffer =
        buffer_of (data + i * 128, 128, i == 0 ? pts : GST_CLOCK_TIME_NONE);

    if (i == 0)
      GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
    fail_unless_equals_int (
        gst_app_src_push_buffer (GST_APP_SRC (source), buffer), GST_FLOW_OK);
  }
}

GST_START_TEST (a_burst_a_barge_in_and_another_burst)
{
  GBytes *latents[2] = { demo_latents (1), demo_latents (2) };
  GBytes *speech[2] = { demo_speech (1), demo_speech (2) };
  GstElement *pipeline =
      launch ("appsrc name=in is-live=true format=time min-latency=80000000 "
              "caps=\"" SHORT "\" ! " DECODE
              " ! audio/x-raw,format=S16LE ! appsink name=out sync=false",
          NULL);
  GstElement *source = gst_bin_get_by_name (GST_BIN (pipeline), "in");
  GstElement *sink = gst_bin_get_by_name (GST_BIN (pipeline), "out");
  const gint16 *one = g_bytes_get_data (speech[0], NULL);
  const gint16 *two = g_bytes_get_data (speech[1], NULL);

  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  say (source, latents[0], 8, GST_SECOND);
  for (guint i = 0; i < 8; i++)
    expect_speech (sink, GST_SECOND + i * FRAME, one + i * FRAME_SAMPLES, 1);

  fail_unless (gst_element_send_event (source, gst_event_new_flush_start ()));
  fail_unless (
      gst_element_send_event (source, gst_event_new_flush_stop (FALSE)));

  say (source, latents[1], 8, 5 * GST_SECOND);
  for (guint i = 0; i < 8; i++)
    expect_speech (
        sink, 5 * GST_SECOND + i * FRAME, two + i * FRAME_SAMPLES, 1);
  gst_app_src_end_of_stream (GST_APP_SRC (source));
  gst_object_unref (source);
  gst_object_unref (sink);
  finish (pipeline);
  for (guint i = 0; i < 2; i++) {
    g_bytes_unref (latents[i]);
    g_bytes_unref (speech[i]);
  }
}
GST_END_TEST;

GST_START_TEST (an_appsrc_that_counts_bytes)
{
  GBytes *latents = demo_latents (1);
  GBytes *speech = demo_speech (1);
  GstElement *pipeline =
      launch ("appsrc name=in caps=\"" SHORT "\" ! " DECODE OUT, NULL);
  GstElement *source = gst_bin_get_by_name (GST_BIN (pipeline), "in");
  GByteArray *pcm;

  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  gst_app_src_push_buffer (
      GST_APP_SRC (source), gst_buffer_new_wrapped_bytes (latents));
  gst_app_src_end_of_stream (GST_APP_SRC (source));
  play_to_eos (pipeline);
  pcm = pull_samples (pipeline);
  expect_same_speech (pcm->data, pcm->len, speech);
  gst_object_unref (source);
  finish (pipeline);
  g_byte_array_unref (pcm);
  g_bytes_unref (latents);
  g_bytes_unref (speech);
}
GST_END_TEST;

static Suite *
launch_suite (void)
{
  Suite *suite = suite_create ("launch");
  TCase *tcase = tcase_create ("all");

  suite_add_tcase (suite, tcase);
  tcase_add_loop_test (
      tcase, lines_that_give_the_sentence, 0, G_N_ELEMENTS (exact));
  tcase_add_test (tcase, a_wav_file);
  tcase_add_test (tcase, latents_on_a_pipe);
  tcase_add_loop_test (tcase, lines_into_encoders, 0, G_N_ELEMENTS (encoders));
  tcase_add_loop_test (tcase, the_first_error_says_what_is_wrong, 0, 5);
  tcase_add_test (tcase, a_burst_a_barge_in_and_another_burst);
  tcase_add_test (tcase, an_appsrc_that_counts_bytes);
  return suite;
}

GST_CHECK_MAIN (launch);
