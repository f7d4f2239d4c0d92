/* What goes wrong with a GPU, one failure at a time.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Each case is a process of its own, with settings of the simulated driver (see
 * docs/cudasim.md): a program that was told to use the GPU gets one error that says what
 * to do, a program that lets us choose decodes on the CPU and is told why.
 */
#include "common.h"
#include "cudasim.h"

#include <dlfcn.h>
#include <string.h>

static const Network tiny = { "tiny-pocket", "tiny.f32", "tiny.oracle", NULL,
  40, 0, FALSE };

static MimiDecoder *
get_decoder (MimiBackend backend, gint device, GError **error)
{
  MimiDecoderOptions options = { backend, device, MIMI_PRECISION_FP32 };
  MimiModel *model = network_open (&tiny);
  MimiDecoder *decoder = mimi_decoder_get (model, &options, error);

  mimi_model_unref (model);
  return decoder;
}

static void
assert_says (const GError *error, gint code, const gchar *words)
{
  gchar **all = g_strsplit (words, "|", -1);
  guint i;

  g_assert_error (error, MIMI_ERROR, code);
  for (i = 0; all[i]; i++)
    if (!strstr (error->message, all[i]))
      g_error ("\"%s\" does not say \"%s\"", error->message, all[i]);
  g_test_message ("%s", error->message);
  g_strfreev (all);
}

/* Decodes with what `auto` gives, which must be the CPU, with a note. */
static void
assert_falls_back (const gchar *words)
{
  GError *error = NULL;
  MimiDecoder *decoder = get_decoder (MIMI_BACKEND_AUTO, -1, &error);
  MimiStream *stream;
  MimiDecoderInfo info;
  MimiModel *model = network_open (&tiny);
  MimiRows format;
  guint8 *rows = network_read_rows (&tiny, model, 2, &format);
  gfloat *oracle = network_read_oracle (&tiny, 2);
  gfloat *pcm = g_new (gfloat, 2 * SAMPLES);
  MimiResult result;
  gchar **all = g_strsplit (words, "|", -1);
  guint i;

  g_assert_no_error (error);
  mimi_decoder_get_info (decoder, &info);
  g_assert_cmpstr (info.backend, ==, "cpu");
  g_assert_nonnull (info.note);
  for (i = 0; all[i]; i++)
    g_assert_nonnull (strstr (info.note, all[i]));
  g_strfreev (all);

  stream = mimi_stream_new (decoder, 1, &error);
  g_assert_no_error (error);
  mimi_stream_set_rows (stream, &format, &error);
  mimi_stream_set_pcm (stream, MIMI_PCM_F32);
  mimi_stream_decode (stream, rows, 2, pcm, &result, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (snr (oracle, pcm, 2 * SAMPLES), >=, 100);
  mimi_stream_free (stream);
  mimi_decoder_unref (decoder);
  mimi_model_unref (model);
  g_free (pcm);
  g_free (oracle);
  g_free (rows);
}

/* The decoder cannot be had. */
typedef struct {
  const gchar *name, *settings;
  gint device, code;
  const gchar *words;
  gboolean lasts; /* and not the first time only */
} Opening;

static const Opening openings[] = {
  { "no-device", "CUDASIM_FAIL=no-device", -1, MIMI_ERROR_NO_DEVICE,
      "NVIDIA driver|nvidia-smi", TRUE },
  { "old-driver", "CUDASIM_FAIL=old-driver", -1, MIMI_ERROR_NO_DEVICE,
      "too old|CUDA 11.4|needs|or newer", TRUE },
  { "no-symbol", "CUDASIM_FAIL=symbol:cuGraphLaunch", -1, MIMI_ERROR_NO_DEVICE,
      "cuGraphLaunch|or newer", TRUE },
  { "no-words", "CUDASIM_FAIL=symbol:cuGetErrorString", -1,
      MIMI_ERROR_NO_DEVICE, "cuGetErrorString|or newer", TRUE },
  { "old-device", "CUDASIM_CC=70", -1, MIMI_ERROR_NO_DEVICE,
      "no usable GPU|7.0|7.5", TRUE },
  { "older-device", "CUDASIM_CC=61", -1, MIMI_ERROR_NO_DEVICE,
      "no usable GPU|6.1|7.5", TRUE },
  { "which-device", "CUDASIM_DEVICES=2", 3, MIMI_ERROR_NO_DEVICE,
      "no CUDA device 3|sees 2", FALSE },
  { "memory-1", "CUDASIM_FAIL=alloc:1", -1, MIMI_ERROR_NO_MEMORY,
      "cuMemAlloc|memory", FALSE },
  { "memory-2", "CUDASIM_FAIL=alloc:2", -1, MIMI_ERROR_NO_MEMORY, "memory",
      FALSE },
  { "memory-3", "CUDASIM_FAIL=alloc:3", -1, MIMI_ERROR_NO_MEMORY, "memory",
      FALSE },
  { "memory-4", "CUDASIM_FAIL=alloc:4", -1, MIMI_ERROR_NO_MEMORY, "memory",
      FALSE },
  { "memory-all", "CUDASIM_FAIL=alloc:1+", -1, MIMI_ERROR_NO_MEMORY, "memory",
      TRUE },
  /* one kernel of a capture: the rest is no graph to be used */
  { "launch-5", "CUDASIM_FAIL=launch:5", -1, MIMI_ERROR_DEVICE, "failed",
      FALSE },
  { "launch", "CUDASIM_FAIL=launch:1+", -1, MIMI_ERROR_DEVICE, "failed", TRUE },
  { "sync", "CUDASIM_FAIL=sync:1+", -1, MIMI_ERROR_DEVICE,
      "cuStreamSynchronize failed", TRUE },
};

/* Runs the test again in a process of its own, or says that this is the one;
 * `settings` are NAME=VALUE. */
static gboolean
in_subprocess (const gchar *settings)
{
  gchar **pair;

  if (!g_test_subprocess ()) {
    g_test_trap_subprocess (NULL, 0, 0);
    g_test_trap_assert_passed ();
    return FALSE;
  }
  pair = g_strsplit (settings, "=", 2);
  if (pair[0])
    g_setenv (pair[0], pair[1], TRUE);
  g_strfreev (pair);
  g_setenv ("CUDASIM_QUIET", "1", TRUE);
  return TRUE;
}

/* What the simulated driver counts; NULL: it was never loaded. */
static gboolean
get_counters (CudasimCounters *counters)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void (*get) (CudasimCounters *);

  if (!library)
    return FALSE;
  get = (void (*) (CudasimCounters *))dlsym (library, "cudasim_counters");
  get (counters);
  return TRUE;
}

static void
fail_from_now (const gchar *what)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  int (*set) (const char *, const char *) =
      (int (*) (const char *, const char *))dlsym (library, "cudasim_set");

  g_assert_cmpint (set ("fail", what), ==, 0);
}

static void
assert_nothing_left (void)
{
  CudasimCounters counters;

  if (!get_counters (&counters))
    return;
  g_assert_cmpuint (counters.live_allocations, ==, 0);
  g_assert_cmpuint (counters.live_host_allocations, ==, 0);
  g_assert_cmpuint (counters.leaks, ==, 0);
}

static void
test_opening (gconstpointer data)
{
  const Opening *opening = data;
  GError *error = NULL;

  if (!in_subprocess (opening->settings))
    return;
  g_assert_null (get_decoder (MIMI_BACKEND_CUDA, opening->device, &error));
  assert_says (error, opening->code, opening->words);
  g_clear_error (&error);
  assert_nothing_left ();

  /* Only the first time, for some: then auto has a GPU after all. */
  if (opening->lasts)
    assert_falls_back (opening->words);
}

/* A stream that works until its third frame. */
static void
test_running (gconstpointer failure)
{
  MimiStream *stream;
  MimiDecoder *decoder;
  MimiModel *model;
  MimiRows format;
  MimiResult result;
  GError *error = NULL;
  gfloat pcm[SAMPLES], *oracle;
  guint8 *rows;
  guint i, size;

  if (!in_subprocess (""))
    return;
  model = network_open (&tiny);
  rows = network_read_rows (&tiny, model, 6, &format);
  size = mimi_rows_get_size (&format);
  oracle = network_read_oracle (&tiny, 6);
  decoder = get_decoder (MIMI_BACKEND_CUDA, -1, &error);
  g_assert_no_error (error);
  stream = stream_new (decoder, &format);

  for (i = 0; i < 2; i++) {
    g_assert_true (
        mimi_stream_decode (stream, rows + i * size, 1, pcm, &result, &error));
    g_assert_cmpfloat (snr (oracle + i * SAMPLES, pcm, SAMPLES), >=, 90);
  }
  fail_from_now (failure);
  for (i = 2; i < 4; i++) {
    g_assert_false (
        mimi_stream_decode (stream, rows + i * size, 1, pcm, &result, &error));
    assert_says (error, MIMI_ERROR_DEVICE, "failed");
    g_clear_error (&error);
  }
  mimi_stream_free (stream);
  mimi_decoder_unref (decoder);
  mimi_model_unref (model);
  g_free (oracle);
  g_free (rows);
}

/* The second launch of a call fails: what the first gave is there. */
static void
test_runs (void)
{
  MimiStream *stream;
  MimiDecoder *decoder;
  MimiModel *model;
  MimiRows format;
  MimiResult result;
  GError *error = NULL;
  guint n = 2 * MIMI_LONGEST_RUN;
  gfloat *pcm, *oracle;
  guint8 *rows;

  if (!in_subprocess (""))
    return;
  pcm = g_new (gfloat, n * SAMPLES);
  model = network_open (&tiny);
  rows = network_read_rows (&tiny, model, n, &format);
  oracle = network_read_oracle (&tiny, MIMI_LONGEST_RUN);
  decoder = get_decoder (MIMI_BACKEND_CUDA, -1, &error);
  g_assert_no_error (error);
  stream = stream_new (decoder, &format);
  fail_from_now ("sync:2");
  g_assert_false (mimi_stream_decode (stream, rows, n, pcm, &result, &error));
  assert_says (error, MIMI_ERROR_DEVICE, "failed");
  g_assert_cmpuint (result.written, ==, MIMI_LONGEST_RUN);
  g_assert_cmpfloat (snr (oracle, pcm, MIMI_LONGEST_RUN * SAMPLES), >=, 90);
  g_clear_error (&error);
  mimi_stream_free (stream);
  mimi_decoder_unref (decoder);
  mimi_model_unref (model);
  g_free (oracle);
  g_free (rows);
  g_free (pcm);
}

static gint opened; /* streams */

static gpointer
decode_until_failure (gpointer decoder)
{
  GError *error = NULL;
  MimiStream *stream = mimi_stream_new (decoder, 1, &error);
  MimiModel *model = network_open (&tiny);
  MimiRows format;
  MimiResult result;
  gfloat pcm[SAMPLES];
  guint8 *rows = network_read_rows (&tiny, model, 1, &format);
  guint i;

  g_assert_no_error (error);
  g_atomic_int_inc (&opened);
  mimi_stream_set_rows (stream, &format, &error);
  mimi_stream_set_pcm (stream, MIMI_PCM_F32);
  for (i = 0; i < 100000; i++)
    if (!mimi_stream_decode (stream, rows, 1, pcm, &result, &error))
      break;
  g_assert_error (error, MIMI_ERROR, MIMI_ERROR_DEVICE);
  g_error_free (error);
  mimi_stream_free (stream);
  mimi_model_unref (model);
  g_free (rows);
  return NULL;
}

/* The device is lost while several threads wait for each other's launches: all
 * of them hear of it. */
static void
test_threads (void)
{
  GThread *threads[5];
  GError *error = NULL;
  MimiDecoder *decoder;
  guint i;

  if (!in_subprocess (""))
    return;
  decoder = get_decoder (MIMI_BACKEND_CUDA, -1, &error);
  g_assert_no_error (error);
  for (i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("decode", decode_until_failure, decoder);
  while (g_atomic_int_get (&opened) < (gint)G_N_ELEMENTS (threads))
    g_usleep (1000);
  g_usleep (100000);
  fail_from_now ("sync:3+");
  for (i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  mimi_decoder_unref (decoder);
}

/* A stream more than the memory holds: an error for it, none for the others. */
static void
test_full (void)
{
  MimiStream *streams[100];
  MimiDecoder *decoder;
  MimiModel *model;
  MimiRows format;
  MimiResult result;
  GError *error = NULL;
  gfloat pcm[SAMPLES], *oracle;
  guint8 *rows;
  guint n;

  if (!in_subprocess (""))
    return;
  decoder = get_decoder (MIMI_BACKEND_CUDA, -1, &error);
  g_assert_no_error (error);
  for (n = 0; n < G_N_ELEMENTS (streams); n++) {
    if (n == 5)
      fail_from_now ("alloc:1+");
    streams[n] = mimi_stream_new (decoder, 1, &error);
    if (!streams[n])
      break;
  }
  assert_says (error, MIMI_ERROR_NO_MEMORY, "memory");
  g_clear_error (&error);
  g_assert_cmpuint (n, >=, 5);
  g_assert_cmpuint (n, <, G_N_ELEMENTS (streams));

  model = network_open (&tiny);
  rows = network_read_rows (&tiny, model, 1, &format);
  oracle = network_read_oracle (&tiny, 1);
  while (n-- > 0) {
    mimi_stream_set_rows (streams[n], &format, &error);
    mimi_stream_set_pcm (streams[n], MIMI_PCM_F32);
    g_assert_true (
        mimi_stream_decode (streams[n], rows, 1, pcm, &result, &error));
    g_assert_cmpfloat (snr (oracle, pcm, SAMPLES), >=, 100);
    mimi_stream_free (streams[n]);
  }
  mimi_decoder_unref (decoder);
  mimi_model_unref (model);
  g_free (oracle);
  g_free (rows);
  assert_nothing_left ();
}

/* In the steady state a frame is one launch and one wait; nothing is copied by
 * the driver, nothing allocated. */
static void
test_steady (void)
{
  MimiStream *stream;
  MimiDecoder *decoder;
  MimiModel *model;
  MimiRows format;
  MimiResult result;
  GError *error = NULL;
  CudasimCounters before, after;
  gfloat pcm[SAMPLES];
  guint8 *rows;
  guint i, kernels;

  if (!in_subprocess (""))
    return;
  model = network_open (&tiny);
  rows = network_read_rows (&tiny, model, 8, &format);
  decoder = get_decoder (MIMI_BACKEND_CUDA, -1, &error);
  g_assert_no_error (error);
  stream = mimi_stream_new (decoder, 1, &error);
  mimi_stream_set_rows (stream, &format, &error);
  /* From 9.0 on, what docs/cuda.md lists, with all layers in one: this GPU and
   * this network are such. */
  kernels = 3 + 2 * mimi_model_get_network (model)->stages;

  g_assert_true (get_counters (&before));
  for (i = 0; i < 8; i++) {
    if (i == 4)
      mimi_stream_reset (stream); /* an utterance's end costs nothing */
    g_assert_true (mimi_stream_decode (stream,
        rows + i * mimi_rows_get_size (&format), 1, pcm, &result, &error));
  }
  g_assert_true (get_counters (&after));
  g_assert_cmpuint (after.graph_launches - before.graph_launches, ==, 8);
  g_assert_cmpuint (after.launches - before.launches, ==, 8 * kernels);
  g_assert_cmpuint (after.waits - before.waits, ==, 8);
  g_assert_cmpuint (after.allocations, ==, before.allocations);
  g_assert_cmpuint (after.copies_up, ==, before.copies_up);
  g_assert_cmpuint (after.copies_down, ==, before.copies_down);
  g_assert_cmpuint (after.memsets, ==, before.memsets);
  g_assert_cmpuint (after.faults, ==, 0);

  mimi_stream_free (stream);
  mimi_decoder_unref (decoder);
  mimi_model_unref (model);
  g_free (rows);
  assert_nothing_left ();
}

/* LD_LIBRARY_PATH leads nowhere. */
static void
test_no_library (void)
{
  GError *error = NULL;

  g_assert_null (get_decoder (MIMI_BACKEND_CUDA, -1, &error));
  assert_says (error, MIMI_ERROR_NO_DEVICE,
      "no NVIDIA driver|libcuda.so.1|or newer|use the CPU");
  g_clear_error (&error);
  assert_falls_back ("no NVIDIA driver");
}

int
main (int argc, char **argv)
{
  static const gchar *const running[] = { "launch:1+", "sync:1+", "sticky:1",
    "lost:1" };
  guint i;

  g_test_init (&argc, &argv, NULL);
  if (g_getenv ("MIMI_TEST_NO_LIBRARY")) {
    g_test_add_func ("/cuda/no-library", test_no_library);
    return g_test_run ();
  }
  for (i = 0; i < G_N_ELEMENTS (openings); i++) {
    gchar *path = g_strdup_printf ("/cuda/opening/%s", openings[i].name);
    g_test_add_data_func (path, &openings[i], test_opening);
    g_free (path);
  }
  for (i = 0; i < G_N_ELEMENTS (running); i++) {
    gchar *path = g_strdup_printf ("/cuda/running/%s", running[i]);
    g_test_add_data_func (path, running[i], test_running);
    g_free (path);
  }
  g_test_add_func ("/cuda/running/runs", test_runs);
  g_test_add_func ("/cuda/running/threads", test_threads);
  g_test_add_func ("/cuda/running/full", test_full);
  g_test_add_func ("/cuda/running/steady", test_steady);
  return g_test_run ();
}
