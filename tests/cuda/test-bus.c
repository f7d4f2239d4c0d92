/* What crosses the bus, to the byte, on a simulated GPU.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The simulator sees every access of a kernel to mapped host memory, and every
 * copy of the driver; the backend says how much it thinks it was. Both are held
 * against what a frame is: a row and its descriptor up, once, PCM down, and
 * nothing else. Of frames that follow each other in a launch, all rows but the
 * last come up twice where mimi_enter or mimi_enter_alone reads them, see input.cu.
 */
#include "common.h"
#include "cuda/kernels.h"
#include "cudasim.h"

#include <dlfcn.h>
#include <string.h>

#define MAX_STREAMS 7
#define DESCRIPTOR sizeof (MimiEntry)

static const Network latents = { "tiny-pocket", "tiny.f32", "tiny.oracle", NULL,
  40, 0, FALSE };
static const Network codes = { "tinyfull-moshi", "tinyfull-8.u16",
  "tinyfull.oracle", NULL, 140, 8, FALSE };

static void (*get_counters) (CudasimCounters *);
static gboolean is_old; /* of 7.5 */

typedef struct {
  MimiDecoder *decoder;
  MimiStream *streams[MAX_STREAMS];
  guint8 *data;
  MimiRows format;
} Crowd;

static void
crowd_init (Crowd *self, const Network *network, const MimiRows *format)
{
  MimiModel *model = network_open (network);
  GError *error = NULL;
  guint i;

  self->decoder =
      network_get_decoder (network, MIMI_BACKEND_CUDA, MIMI_PRECISION_FP32);
  self->data = network_read_rows (network, model, 16, &self->format);
  if (format) {
    self->format = *format;
    g_free (self->data);
    self->data = g_malloc0 (16 * mimi_rows_get_size (format));
  }
  for (i = 0; i < MAX_STREAMS; i++) {
    self->streams[i] = mimi_stream_new (self->decoder, 1, &error);
    g_assert_no_error (error);
    mimi_stream_set_rows (self->streams[i], &self->format, &error);
    g_assert_no_error (error);
  }
  mimi_model_unref (model);
}

static void
crowd_clear (Crowd *self)
{
  guint i;

  for (i = 0; i < MAX_STREAMS; i++)
    mimi_stream_free (self->streams[i]);
  mimi_decoder_unref (self->decoder);
  g_free (self->data);
}

/* A step of the first n streams, of which each has `row` bytes up and `pcm`
 * down. */
static void
step (Crowd *self, guint n, guint frame, gsize row, gsize pcm)
{
  static gfloat room[MAX_STREAMS][SAMPLES];
  gconstpointer rows[MAX_STREAMS];
  gpointer out[MAX_STREAMS];
  MimiResult results[MAX_STREAMS];
  CudasimCounters before, after;
  MimiDecoderInfo old, new;
  GError *error = NULL;
  guint entries = 1, i;
  guint64 up, down;

  while (entries < n)
    entries *= 2;
  up = n * row + entries * DESCRIPTOR;
  down = n * pcm;
  for (i = 0; i < n; i++) {
    rows[i] = self->data + (frame + i) * mimi_rows_get_size (&self->format);
    out[i] = room[i];
  }
  mimi_decoder_get_info (self->decoder, &old);
  get_counters (&before);
  mimi_streams_decode (
      self->streams, n, rows, (gpointer const *)out, results, &error);
  g_assert_no_error (error);
  get_counters (&after);
  mimi_decoder_get_info (self->decoder, &new);

  g_assert_cmpuint (after.mapped_read - before.mapped_read, ==, up);
  g_assert_cmpuint (after.mapped_again - before.mapped_again, ==, 0);
  g_assert_cmpuint (after.mapped_written - before.mapped_written, ==, down);
  g_assert_cmpuint (new.bytes_up - old.bytes_up, ==, up);
  g_assert_cmpuint (new.bytes_down - old.bytes_down, ==, down);

  g_assert_cmpuint (after.copies_up, ==, before.copies_up);
  g_assert_cmpuint (after.copies_down, ==, before.copies_down);
  g_assert_cmpuint (after.copies_across, ==, before.copies_across);
  g_assert_cmpuint (after.memsets, ==, before.memsets);
  g_assert_cmpuint (after.graph_launches - before.graph_launches, ==, 1);
  g_assert_cmpuint (after.waits - before.waits, ==, 1);
  g_assert_cmpuint (new.launches - old.launches, ==, 1);
  g_assert_cmpuint (new.waits - old.waits, ==, 1);
  g_assert_cmpuint (new.device_ns, ==, 0); /* nobody asked for it */
}

/* Five frames of a stream in one call: a launch, in which four rows are read by
 * whoever has the next one too. */
static void
test_run (gconstpointer network)
{
  enum { N = 5, ENTRIES = 8 };
  Crowd crowd;
  CudasimCounters before, after;
  MimiDecoderInfo old, new;
  MimiResult result;
  GError *error = NULL;
  gsize row, up, again;
  gint16 pcm[N * SAMPLES];

  crowd_init (&crowd, network, NULL);
  row = mimi_rows_get_size (&crowd.format);
  mimi_stream_set_pcm (crowd.streams[0], MIMI_PCM_S16);
  mimi_decoder_get_info (crowd.decoder, &old);
  get_counters (&before);
  mimi_stream_decode (crowd.streams[0], crowd.data, N, pcm, &result, &error);
  g_assert_no_error (error);
  get_counters (&after);
  mimi_decoder_get_info (crowd.decoder, &new);
  /* Codes, without clusters, go by way of mimi_input. */
  again = network == &codes && is_old ? 0 : (N - 1) * row;
  up = N * row + again + ENTRIES * DESCRIPTOR;
  g_assert_cmpuint (after.mapped_read - before.mapped_read, ==, up);
  g_assert_cmpuint (after.mapped_again - before.mapped_again, ==, again);
  g_assert_cmpuint (new.bytes_up - old.bytes_up, ==, up);
  g_assert_cmpuint (
      after.mapped_written - before.mapped_written, ==, sizeof pcm);
  g_assert_cmpuint (new.bytes_down - old.bytes_down, ==, sizeof pcm);
  g_assert_cmpuint (after.graph_launches - before.graph_launches, ==, 1);
  g_assert_cmpuint (after.waits - before.waits, ==, 1);
  g_assert_cmpuint (new.launches - old.launches, ==, 1);
  crowd_clear (&crowd);
}

/* Every batch size, in both formats of PCM, with a new utterance in between. */
static void
check_steps (const Network *network, const MimiRows *format, gsize row)
{
  Crowd crowd;
  guint n, i;

  crowd_init (&crowd, network, format);
  g_assert_cmpuint (mimi_rows_get_size (&crowd.format), ==, row);
  for (n = 1; n <= MAX_STREAMS; n++) {
    for (i = 0; i < n; i++)
      mimi_stream_set_pcm (
          crowd.streams[i], n % 2 ? MIMI_PCM_F32 : MIMI_PCM_S16);
    if (n == 4)
      mimi_stream_reset (crowd.streams[1]);
    step (&crowd, n, n, row, SAMPLES * (n % 2 ? 4 : 2));
  }
  crowd_clear (&crowd);
}

/* 128 bytes of latents up; 3,840 or 7,680 bytes of PCM down. */
static void
test_latents (void)
{
  check_steps (&latents, NULL, 32 * sizeof (gfloat));
}

/* Eight codebooks of sixteen bits. */
static void
test_codes (void)
{
  check_steps (&codes, NULL, 8 * sizeof (guint16));
}

/* A vector as it leaves the quantizer. */
static void
test_embedding (void)
{
  MimiRows rows = { MIMI_ROW_F32, 64, FALSE };

  check_steps (&latents, &rows, 64 * sizeof (gfloat));
}

/* Saving and restoring is a copy of the state each, and counted. */
static void
test_state (void)
{
  Crowd crowd;
  MimiDecoderInfo info, old, new;
  CudasimCounters before, after;
  GError *error = NULL;
  gpointer blob;

  crowd_init (&crowd, &latents, NULL);
  mimi_stream_set_pcm (crowd.streams[0], MIMI_PCM_F32);
  step (&crowd, 1, 0, 128, 7680);
  blob = g_malloc (mimi_stream_get_state_size (crowd.streams[0]));
  mimi_decoder_get_info (crowd.decoder, &info);
  old = info;
  get_counters (&before);
  g_assert_true (mimi_stream_save (crowd.streams[0], blob, &error));
  g_assert_true (mimi_stream_restore (crowd.streams[0], blob,
      mimi_stream_get_state_size (crowd.streams[0]), &error));
  get_counters (&after);
  mimi_decoder_get_info (crowd.decoder, &new);
  g_assert_cmpuint (after.copies_up - before.copies_up, ==, 1);
  g_assert_cmpuint (after.copies_down - before.copies_down, ==, 1);
  g_assert_cmpuint (after.bytes_up - before.bytes_up, ==, info.state_bytes);
  g_assert_cmpuint (after.bytes_down - before.bytes_down, ==, info.state_bytes);
  g_assert_cmpuint (new.bytes_up - old.bytes_up, ==, info.state_bytes);
  g_assert_cmpuint (new.bytes_down - old.bytes_down, ==, info.state_bytes);
  g_assert_cmpuint (new.waits - old.waits, ==, 2);
  g_assert_cmpuint (new.launches, ==, old.launches);
  g_free (blob);
  crowd_clear (&crowd);
}

/* A decoder that was asked to says how long the device took; it is another one
 * than that of those who did not ask. */
static void
test_timed (void)
{
  MimiDecoderOptions options = { MIMI_BACKEND_CUDA, -1, MIMI_PRECISION_FP32,
    TRUE };
  MimiModel *model = network_open (&latents);
  MimiDecoder *plain =
      network_get_decoder (&latents, MIMI_BACKEND_CUDA, MIMI_PRECISION_FP32);
  GError *error = NULL;
  MimiDecoder *timed = mimi_decoder_get (model, &options, &error);
  MimiDecoderInfo info;
  MimiStream *stream;
  MimiResult result;
  MimiRows format;
  guint8 *rows;
  gfloat pcm[2][SAMPLES];
  guint64 warm;
  gint64 start = 0;
  guint i;

  g_assert_no_error (error);
  g_assert_true (timed != plain);
  rows = network_read_rows (&latents, model, 1, &format);
  mimi_decoder_get_info (timed, &info);
  warm = info.device_ns;
  g_assert_cmpuint (warm, >, 0);
  for (i = 0; i < 2; i++) {
    stream = mimi_stream_new (i ? timed : plain, 1, &error);
    mimi_stream_set_rows (stream, &format, &error);
    mimi_stream_set_pcm (stream, MIMI_PCM_F32);
    start = g_get_monotonic_time ();
    mimi_stream_decode (stream, rows, 1, pcm[i], &result, &error);
    g_assert_no_error (error);
    mimi_stream_free (stream);
  }
  g_assert_cmpmem (pcm[0], sizeof pcm[0], pcm[1], sizeof pcm[1]);
  mimi_decoder_get_info (timed, &info);
  g_assert_cmpuint (info.device_ns, >, warm);
  /* it did not take longer than the wait for it; a clock ticks in whole
   * microseconds */
  g_assert_cmpuint (info.device_ns - warm, <=,
      1000 * (guint64)(g_get_monotonic_time () - start + 2));
  mimi_decoder_unref (plain);
  mimi_decoder_unref (timed);
  mimi_model_unref (model);
  g_free (rows);
}

int
main (int argc, char **argv)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW);
  int (*set) (const char *, const char *);

  g_test_init (&argc, &argv, NULL);
  g_assert_nonnull (library);
  get_counters =
      (void (*) (CudasimCounters *))dlsym (library, "cudasim_counters");
  set = (int (*) (const char *, const char *))dlsym (library, "cudasim_set");
  g_assert_nonnull (get_counters);
  g_assert_cmpint (set ("count", "1"), ==, 0);
  is_old = g_strcmp0 (g_getenv ("CUDASIM_CC"), "75") == 0;
  g_test_add_func ("/cuda/bus/latents", test_latents);
  g_test_add_func ("/cuda/bus/codes", test_codes);
  g_test_add_func ("/cuda/bus/embedding", test_embedding);
  g_test_add_data_func ("/cuda/bus/run/latents", &latents, test_run);
  g_test_add_data_func ("/cuda/bus/run/codes", &codes, test_run);
  g_test_add_func ("/cuda/bus/state", test_state);
  g_test_add_func ("/cuda/bus/timed", test_timed);
  return g_test_run ();
}
