/* Consecutive frames of a stream in one launch, on a simulated GPU.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * However rows are handed down, the PCM is the same, bit for bit: everything here
 * is compared with one launch a row.
 */
#include "common.h"

#include <math.h>
#include <string.h>

#define RUN MIMI_LONGEST_RUN

static const Network tiny = { "tiny-pocket", "tiny.f32", "tiny.oracle", NULL,
  45, 0, FALSE };
static const Network tinyfull = { "tinyfull-moshi", "tinyfull-8.u16",
  "tinyfull.oracle", NULL, 145, 8, FALSE };

/* A decoder, rows for it, and what they are one by one. */
typedef struct {
  MimiDecoder *decoder;
  MimiRows format;
  guint8 *rows;
  gsize row_size;
  guint n;
  gfloat *want;
} Case;

static guint64
count_launches (const Case *c)
{
  MimiDecoderInfo info;

  mimi_decoder_get_info (c->decoder, &info);
  return info.launches;
}

static void
decode (const Case *c, MimiStream *stream, guint row, guint n, gfloat *pcm,
    MimiResult *result)
{
  GError *error = NULL;
  gboolean ok = mimi_stream_decode (
      stream, c->rows + row * c->row_size, n, pcm, result, &error);

  g_assert_no_error (error);
  g_assert_true (ok);
}

/* Decodes c->rows one by one. */
static void
case_decode (Case *c)
{
  MimiStream *stream = stream_new (c->decoder, &c->format);
  MimiResult result;
  guint i;

  c->want = g_new (gfloat, c->n * SAMPLES);
  for (i = 0; i < c->n; i++) {
    guint64 before = count_launches (c);

    decode (c, stream, i, 1, c->want + i * SAMPLES, &result);
    g_assert_cmpuint (result.written, ==, 1);
    g_assert_cmpuint (count_launches (c) - before, <=, 1);
  }
  mimi_stream_free (stream);
}

/* n rows of a network; of latents as many as one likes. */
static void
case_open (
    Case *c, const Network *network, MimiPrecision precision, guint frames)
{
  MimiModel *model = network_open (network);
  GRand *random = g_rand_new_with_seed (7);
  guint i;

  c->decoder = network_get_decoder (network, MIMI_BACKEND_CUDA, precision);
  c->n = frames;
  c->rows = network_read_rows (
      network, model, network->codebooks ? frames : 1, &c->format);
  c->row_size = mimi_rows_get_size (&c->format);
  if (!network->codebooks) {
    c->rows = g_realloc (c->rows, frames * c->row_size);
    for (i = 0; i < frames * c->format.length; i++)
      ((gfloat *)c->rows)[i] = g_rand_double_range (random, -1.7, 1.7);
  }
  g_rand_free (random);
  mimi_model_unref (model);
}

static void
case_clear (Case *c)
{
  mimi_decoder_unref (c->decoder);
  g_free (c->rows);
  g_free (c->want);
}

static void
assert_frames (const Case *c, guint first, guint n, const gfloat *pcm)
{
  guint i;

  for (i = 0; i < n; i++)
    if (memcmp (c->want + (first + i) * SAMPLES, pcm + i * SAMPLES,
            SAMPLES * sizeof *pcm))
      g_error ("frame %u, the %uth of %u: %.1f dB to the frame alone",
          first + i, i, n,
          snr (c->want + (first + i) * SAMPLES, pcm + i * SAMPLES, SAMPLES));
}

/* Calls of these sizes, over and over; 0 ends the list. */
static void
check_chunks (const Case *c, const guint *sizes)
{
  MimiStream *stream = stream_new (c->decoder, &c->format);
  gfloat *pcm = g_new (gfloat, c->n * SAMPLES);
  guint done = 0, i = 0, n;

  for (; done < c->n; done += n) {
    guint64 before = count_launches (c);
    MimiResult result;

    n = MIN (sizes[i], c->n - done);
    i = sizes[i + 1] ? i + 1 : 0;
    decode (c, stream, done, n, pcm, &result);
    g_assert_cmpuint (result.written, ==, n);
    g_assert_cmpuint (count_launches (c) - before, ==, (n + RUN - 1) / RUN);
    assert_frames (c, done, n, pcm);
  }
  mimi_stream_free (stream);
  g_free (pcm);
}

typedef struct {
  Network network;
  MimiPrecision precision;
  guint frames;
} Kind;

static void
test_chunks (gconstpointer data)
{
  static const guint odd[] = { 1, 2, 3, 4, 5, 6, 7, 8, 1, 7, 2, 0 };
  static const guint whole[] = { 1000, 0 };
  const Kind *kind = data;
  Case c;

  case_open (&c, &kind->network, kind->precision, kind->frames);
  case_decode (&c);
  if (c.n > RUN)
    check_chunks (&c, odd);
  check_chunks (&c, whole);
  case_clear (&c);
}

/* Runs long after the ring came round: with a window of 250 positions that is
 * after 16 frames, or after 125 with two positions a frame. */
static void
test_window (gconstpointer network)
{
  static const guint sizes[] = { 13, 8, 3, 8, 8, 1, 0 };
  Case c;

  case_open (
      &c, network, MIMI_PRECISION_FP32, ((const Network *)network)->frames);
  case_decode (&c);
  check_chunks (&c, sizes);
  case_clear (&c);
}

/* NaN, and values so large that the network overflows, wherever they are in a
 * run: silence in their place, and what follows is decoded from a fresh state. */
static void
test_bad (void)
{
  static const guint sizes[] = { 40, 3, 8 };
  guint overflowing[] = { 0, 5, 6, 13, 20, 23 }, nan[] = { 2, 12, 14, 22, 31 };
  Case c;
  MimiStreamStats want, got;
  MimiResult result;
  MimiStream *stream;
  gfloat *pcm;
  guint i, j, done;

  case_open (&c, &tiny, MIMI_PRECISION_FP32, 40);
  for (i = 0; i < G_N_ELEMENTS (overflowing); i++)
    for (j = 0; j < c.format.length; j++)
      ((gfloat *)c.rows)[overflowing[i] * c.format.length + j] =
          j % 2 ? -3e38f : 3e38f;
  for (i = 0; i < G_N_ELEMENTS (nan); i++)
    ((gfloat *)c.rows)[nan[i] * c.format.length + 3] = NAN;

  stream = stream_new (c.decoder, &c.format);
  pcm = g_new (gfloat, c.n * SAMPLES);
  c.want = g_new (gfloat, c.n * SAMPLES);
  mimi_stream_set_fade_in (stream, 3000);
  for (i = 0; i < c.n; i++)
    decode (&c, stream, i, 1, c.want + i * SAMPLES, &result);
  mimi_stream_get_stats (stream, &want);
  mimi_stream_free (stream);
  g_assert_cmpuint (want.concealed, ==, 11);
  for (j = 0; j < SAMPLES; j++) /* silence, and what comes after it is heard */
    g_assert_cmpfloat (c.want[13 * SAMPLES + j], ==, 0);
  g_assert_cmpfloat (c.want[16 * SAMPLES], !=, 0);

  for (i = 0; i < G_N_ELEMENTS (sizes); i++) {
    stream = stream_new (c.decoder, &c.format);
    mimi_stream_set_fade_in (stream, 3000);
    for (done = 0; done < c.n; done += sizes[i]) {
      guint n = MIN (sizes[i], c.n - done);

      memset (pcm, 0x55, n * SAMPLES * sizeof *pcm);
      decode (&c, stream, done, n, pcm, &result);
      g_assert_cmpuint (result.written, ==, n);
      assert_frames (&c, done, n, pcm);
    }
    mimi_stream_get_stats (stream, &got);
    g_assert_cmpuint (got.frames, ==, want.frames);
    g_assert_cmpuint (got.concealed, ==, want.concealed);
    g_assert_cmpuint (got.resets, ==, want.resets);
    mimi_stream_free (stream);
  }
  g_free (pcm);
  case_clear (&c);
}

/* Rows that say "no token yet" are none of a run's frames, and end none. */
static void
test_empty (void)
{
  Case c, all;
  MimiStream *stream;
  MimiResult result;
  gfloat *pcm;
  guint i, n = 0;

  case_open (&c, &tinyfull, MIMI_PRECISION_FP32, 11);
  case_decode (&c);
  all = c;
  all.rows = g_malloc (2 * c.n * c.row_size);
  for (i = 0; i < c.n; i++) {
    memcpy (all.rows + n++ * c.row_size, c.rows + i * c.row_size, c.row_size);
    if (i % 3 == 0)
      memset (all.rows + n++ * c.row_size, 0xff, c.row_size);
  }
  pcm = g_new (gfloat, n * SAMPLES);
  stream = stream_new (c.decoder, &c.format);
  decode (&all, stream, 0, n, pcm, &result);
  g_assert_cmpuint (result.written, ==, c.n);
  g_assert_cmpuint (result.skipped, ==, n - c.n);
  assert_frames (&c, 0, c.n, pcm);
  mimi_stream_free (stream);
  g_free (all.rows);
  g_free (pcm);
  case_clear (&c);
}

/* Several streams' rows at once, of each another number, and a stream between
 * them that has but one: few launches, and everybody's own PCM. */
static void
test_together (void)
{
  enum { STREAMS = 4, ROUNDS = 5 };
  static const guint counts[STREAMS] = { 3, 1, 10, 5 };
  MimiStream *streams[STREAMS], *list[19];
  gconstpointer rows[19];
  gpointer pcm[19];
  MimiResult results[19];
  guint done[STREAMS] = { 0 }, round, s, i;
  gfloat *room = g_new (gfloat, 19 * SAMPLES);
  GError *error = NULL;
  Case c;

  case_open (&c, &tiny, MIMI_PRECISION_FP32, ROUNDS * 10);
  case_decode (&c);
  for (s = 0; s < STREAMS; s++)
    streams[s] = stream_new (c.decoder, &c.format);
  for (round = 0; round < ROUNDS; round++) {
    guint64 before = count_launches (&c);
    guint n = 0;

    if (round == 2) {
      mimi_stream_reset (streams[3]);
      done[3] = 0;
    }
    for (s = 0; s < STREAMS; s++)
      for (i = 0; i < counts[s]; i++, n++) {
        list[n] = streams[s];
        rows[n] = c.rows + (done[s] + i) * c.row_size;
        pcm[n] = room + n * SAMPLES;
      }
    g_assert_cmpuint (n, ==, 19);
    mimi_streams_decode (list, n, rows, (gpointer const *)pcm, results, &error);
    g_assert_no_error (error);
    /* 8 of the 10 rows of one stream, then the 2 that are left; batches of 8 */
    g_assert_cmpuint (count_launches (&c) - before, ==, 4);
    for (s = 0, n = 0; s < STREAMS; s++) {
      for (i = 0; i < counts[s]; i++)
        g_assert_cmpuint (results[n + i].written, ==, 1);
      assert_frames (&c, done[s], counts[s], room + n * SAMPLES);
      done[s] += counts[s];
      n += counts[s];
    }
  }
  list[1] = streams[1]; /* rows of the first on both sides of it */
  g_assert_false (mimi_streams_decode (
      list, 3, rows, (gpointer const *)pcm, results, &error));
  g_assert_error (error, MIMI_ERROR, MIMI_ERROR_INPUT);
  g_clear_error (&error);
  for (s = 0; s < STREAMS; s++)
    mimi_stream_free (streams[s]);
  g_free (room);
  case_clear (&c);
}

/* Saved after runs of odd and even length, and restored where other runs have
 * been: which copy of the histories is the right one is not the frame's number. */
static void
test_state (gconstpointer network)
{
  gfloat *pcm = g_new (gfloat, RUN * SAMPLES);
  gpointer blob, again;
  GError *error = NULL;
  MimiResult result;
  MimiStream *a, *b;
  gsize size;
  guint n, i;
  Case c;

  case_open (&c, network, MIMI_PRECISION_FP32, 3 * RUN);
  case_decode (&c);
  a = stream_new (c.decoder, &c.format);
  b = stream_new (c.decoder, &c.format);
  size = mimi_stream_get_state_size (a);
  blob = g_malloc0 (size);
  again = g_malloc0 (size);
  for (n = 1; n <= RUN; n++) {
    mimi_stream_reset (a);
    decode (&c, a, 0, n, pcm, &result);
    g_assert_true (mimi_stream_save (a, blob, &error));
    for (i = 0; i < n; i++) { /* the same, one by one */
      if (i == 0)
        mimi_stream_reset (b);
      decode (&c, b, i, 1, pcm, &result);
    }
    g_assert_true (mimi_stream_save (b, again, &error));
    g_assert_cmpmem (blob, size, again, size);
    decode (&c, b, 0, n / 2 + 1, pcm, &result);
    g_assert_true (mimi_stream_restore (b, blob, size, &error));
    decode (&c, b, n, RUN + 1 - n, pcm, &result);
    assert_frames (&c, n, RUN + 1 - n, pcm);
    decode (&c, a, n, 1, pcm, &result);
    assert_frames (&c, n, 1, pcm);
  }
  g_assert_no_error (error);
  mimi_stream_free (a);
  mimi_stream_free (b);
  g_free (blob);
  g_free (again);
  g_free (pcm);
  case_clear (&c);
}

static void
fill (MimiStepItem *item, const Case *c, gpointer slot, guint row, gfloat *pcm)
{
  *item = (MimiStepItem){
    .slot = slot,
    .reset = row == 0,
    .kind = MIMI_STEP_NORMALIZED,
    .values = (gfloat *)(c->rows + row * c->row_size),
    .pcm = pcm,
    .format = MIMI_PCM_F32,
  };
}

/* What streams do not ask of a backend: utterances that end among a slot's items,
 * and rows of different kinds. More slots than frames, so that a launch has more
 * than one run's room, and kernels for many tiles. */
static void
test_items (gconstpointer data)
{
  enum { SLOTS = 33, LENGTH = 9, USED = 4 };
  static const Network pocket2m = { "pocket2m-pocket", "pocket2m.f32", NULL,
    NULL, 0, 0, FALSE };
  const MimiBackendOps *ops = &mimi_backend_cuda;
  MimiDecoderOptions options = { MIMI_BACKEND_CUDA, -1,
    GPOINTER_TO_UINT (data) };
  MimiModel *model = network_open (&pocket2m);
  GError *error = NULL;
  gpointer cuda = ops->open (model, &options, &error), slots[SLOTS];
  MimiStepItem items[USED * LENGTH];
  gfloat *pcm = g_new (gfloat, USED * LENGTH * SAMPLES), *latents;
  MimiDecoderInfo before = { 0 }, after = { 0 };
  guint i, s, n;
  Case c;

  g_assert_no_error (error);
  case_open (&c, &pocket2m, options.precision, LENGTH);
  c.want = g_new (gfloat, c.n * SAMPLES);
  for (s = 0; s < SLOTS; s++) {
    slots[s] = ops->slot_new (cuda, 1, &error);
    g_assert_no_error (error);
  }
  for (i = 0; i < c.n; i++) {
    fill (&items[0], &c, slots[0], i, c.want + i * SAMPLES);
    ops->step (cuda, items, 1, &error);
  }
  ops->get_info (cuda, &before);
  /* the whole, of which the last is one too many; then two utterances; the whole
   * again; one row */
  n = 0;
  for (i = 0; i < LENGTH; i++, n++)
    fill (&items[n], &c, slots[0], i, pcm + n * SAMPLES);
  for (i = 0; i < LENGTH; i++, n++)
    fill (&items[n], &c, slots[1], i < 5 ? i : i - 5, pcm + n * SAMPLES);
  for (i = 0; i < LENGTH; i++, n++)
    fill (&items[n], &c, slots[2], i, pcm + n * SAMPLES);
  fill (&items[n], &c, slots[3], 0, pcm + n * SAMPLES);
  ops->step (cuda, items, ++n, &error);
  g_assert_no_error (error);
  ops->get_info (cuda, &after);
  g_assert_cmpuint (after.launches - before.launches, ==, 2);
  assert_frames (&c, 0, LENGTH, pcm);
  assert_frames (&c, 0, 5, pcm + LENGTH * SAMPLES);
  assert_frames (&c, 0, LENGTH - 5, pcm + (LENGTH + 5) * SAMPLES);
  assert_frames (&c, 0, LENGTH, pcm + 2 * LENGTH * SAMPLES);
  assert_frames (&c, 0, 1, pcm + 3 * LENGTH * SAMPLES);

  /* nobody else waits, and there is room for more */
  before = after;
  for (i = 0; i < LENGTH; i++)
    fill (&items[i], &c, slots[3], i, pcm + i * SAMPLES);
  ops->step (cuda, items, LENGTH, &error);
  g_assert_no_error (error);
  ops->get_info (cuda, &after);
  g_assert_cmpuint (
      after.launches - before.launches, ==, (LENGTH + RUN - 1) / RUN);
  assert_frames (&c, 0, LENGTH, pcm);

  /* every second row already denormalised, here with nothing to undo */
  latents = (gfloat *)c.rows;
  for (i = 0; i < 4; i++) {
    fill (&items[i], &c, slots[0], i, c.want + i * SAMPLES);
    items[i].kind = i % 2 ? MIMI_STEP_LATENT : MIMI_STEP_NORMALIZED;
    ops->step (cuda, items + i, 1, &error);
  }
  for (i = 0; i < 4; i++) {
    fill (&items[i], &c, slots[0], i, pcm + i * SAMPLES);
    items[i].kind = i % 2 ? MIMI_STEP_LATENT : MIMI_STEP_NORMALIZED;
    items[i].values = latents + i * c.format.length;
  }
  ops->get_info (cuda, &before);
  ops->step (cuda, items, 4, &error);
  g_assert_no_error (error);
  ops->get_info (cuda, &after);
  g_assert_cmpuint (after.launches - before.launches, ==, 4);
  assert_frames (&c, 0, 4, pcm);

  for (s = 0; s < SLOTS; s++)
    ops->slot_free (cuda, slots[s]);
  ops->close (cuda);
  mimi_model_unref (model);
  g_free (pcm);
  case_clear (&c);
}

typedef struct {
  const Case *c;
  guint size;
} Worker;

static gpointer
work (gpointer data)
{
  const Worker *self = data;
  MimiStream *stream = stream_new (self->c->decoder, &self->c->format);
  gfloat *pcm = g_new (gfloat, self->size * SAMPLES);
  MimiResult result;
  guint done, n;

  for (done = 0; done < self->c->n; done += n) {
    n = MIN (self->size, self->c->n - done);
    decode (self->c, stream, done, n, pcm, &result);
    assert_frames (self->c, done, n, pcm);
  }
  g_free (pcm);
  mimi_stream_free (stream);
  return NULL;
}

/* Threads that hand down runs, and some that do not, share launches. */
static void
test_threads (void)
{
  Worker workers[5];
  GThread *threads[5];
  Case c;
  guint i;

  case_open (&c, &tiny, MIMI_PRECISION_FP32, 20);
  case_decode (&c);
  for (i = 0; i < 5; i++) {
    workers[i] = (Worker){ &c, 1 + 3 * i };
    threads[i] = g_thread_new ("work", work, &workers[i]);
  }
  for (i = 0; i < 5; i++)
    g_thread_join (threads[i]);
  case_clear (&c);
}

int
main (int argc, char **argv)
{
  static const Kind kinds[] = {
    { { "tiny-pocket", "tiny.f32", NULL, NULL, 0, 0, FALSE },
        MIMI_PRECISION_FP32, 40 },
    { { "tiny-pocket", "tiny.f32", NULL, NULL, 0, 0, FALSE },
        MIMI_PRECISION_TF32, 20 },
    { { "tiny-pocket", "tiny.f32", NULL, NULL, 0, 0, FALSE },
        MIMI_PRECISION_BF16, 20 },
    { { "tiny-pocket-BF16", "tiny.f32", NULL, NULL, 0, 0, FALSE },
        MIMI_PRECISION_FP32, 20 },
    { { "tinyfull-moshi", "tinyfull-8.u16", NULL, NULL, 0, 8, FALSE },
        MIMI_PRECISION_FP32, 20 },
    { { "pocket2m-pocket", "pocket2m.f32", NULL, NULL, 0, 0, FALSE },
        MIMI_PRECISION_FP32, 17 },
    { { "pocket18m-pocket", "pocket18m.f32", NULL, NULL, 0, 0, FALSE },
        MIMI_PRECISION_FP32, 11 },
    { { "pocket-pocket", "pocket.f32", NULL, NULL, 0, 0, FALSE },
        MIMI_PRECISION_FP32, 3 },
  };
  static const gchar *const precisions[] = { "fp32", "tf32", "bf16" };
  guint i;

  g_test_init (&argc, &argv, NULL);
  for (i = 0; i < G_N_ELEMENTS (kinds); i++) {
    gchar *path = g_strdup_printf ("/cuda/run/chunks/%s/%s",
        precisions[kinds[i].precision], kinds[i].network.name);

    g_test_add_data_func (path, &kinds[i], test_chunks);
    g_free (path);
  }
  g_test_add_data_func ("/cuda/run/window/tiny", &tiny, test_window);
  g_test_add_data_func ("/cuda/run/window/tinyfull", &tinyfull, test_window);
  g_test_add_func ("/cuda/run/bad", test_bad);
  g_test_add_func ("/cuda/run/empty", test_empty);
  g_test_add_func ("/cuda/run/together", test_together);
  g_test_add_data_func ("/cuda/run/state/tiny", &tiny, test_state);
  g_test_add_data_func ("/cuda/run/state/tinyfull", &tinyfull, test_state);
  for (i = 0; i < 3; i++) {
    gchar *path = g_strdup_printf ("/cuda/run/items/%s", precisions[i]);

    g_test_add_data_func (path, GUINT_TO_POINTER (i), test_items);
    g_free (path);
  }
  g_test_add_func ("/cuda/run/threads", test_threads);
  return g_test_run ();
}
