/* Many streams in one launch, on a simulated GPU.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a stream gives may not depend on who else is in the batch: everything
 * here is compared bit for bit with the stream alone.
 */
#include "common.h"

#include <string.h>

#define STREAMS 7
#define FRAMES 24

static const Network tiny = { "tiny-pocket", "tiny.f32", "tiny.oracle", NULL,
  40, 0, FALSE };

static const MimiBackendOps *ops = &mimi_backend_cuda;
static gpointer cuda;
static guint latent;
static gfloat *rows;
/* Stream s begins with row s; alone[s] is what it gives by itself. */
static gfloat *alone[STREAMS];

static void
fill (MimiStepItem *item, gpointer slot, guint row, guint frame, gfloat *pcm)
{
  memset (item, 0, sizeof *item);
  item->slot = slot;
  item->reset = frame == 0;
  item->kind = MIMI_STEP_NORMALIZED;
  item->values = rows + row * latent;
  item->pcm = pcm;
  item->format = MIMI_PCM_F32;
  item->position = (guint64)frame * SAMPLES;
}

static gpointer
slot_new (void)
{
  GError *error = NULL;
  gpointer slot = ops->slot_new (cuda, 1, &error);

  g_assert_no_error (error);
  return slot;
}

static void
step (MimiStepItem *items, guint n)
{
  GError *error = NULL;
  gboolean ok = ops->step (cuda, items, n, &error);

  g_assert_no_error (error);
  g_assert_true (ok);
}

static void
assert_frame (guint stream, guint frame, const gfloat *pcm)
{
  if (memcmp (alone[stream] + frame * SAMPLES, pcm, SAMPLES * sizeof *pcm))
    g_error ("stream %u, frame %u: %.1f dB to the stream alone", stream, frame,
        snr (alone[stream] + frame * SAMPLES, pcm, SAMPLES));
}

/* Every size from 1 to 7, each stream as far as it has come by then: they
 * begin at different times, so that positions differ, and begin again at
 * different times too. */
static void
test_sizes (void)
{
  gfloat pcm[STREAMS][SAMPLES];
  gpointer slots[STREAMS];
  guint age[STREAMS] = { 0 }, round, s;

  for (s = 0; s < STREAMS; s++)
    slots[s] = slot_new ();
  for (round = 0; round < 3 * FRAMES; round++) {
    MimiStepItem items[STREAMS];
    guint n = 0, who[STREAMS];

    for (s = 0; s < STREAMS; s++) {
      /* stream s joins at round s and then skips every (s + 2)nd round */
      if (round < s || (round % (s + 2) == 1 && s > 0))
        continue;
      if (age[s] == FRAMES - 3 * s)
        age[s] = 0; /* an utterance ends in the middle of a batch */
      fill (&items[n], slots[s], s + age[s], age[s], pcm[n]);
      who[n++] = s;
    }
    step (items, n);
    while (n-- > 0) {
      g_assert_true (items[n].finite);
      assert_frame (who[n], age[who[n]], pcm[n]);
      age[who[n]]++;
    }
  }
  for (s = 0; s < STREAMS; s++)
    ops->slot_free (cuda, slots[s]);
}

/* A slot that is used again holds the last stream's state until its first
 * frame: nothing of it may be heard. */
static void
test_reuse (void)
{
  gfloat pcm[SAMPLES];
  MimiStepItem item;
  guint round, frame;

  for (round = 0; round < 3; round++) {
    gpointer slot = slot_new ();

    for (frame = 0; frame < 3 + round; frame++) {
      fill (&item, slot, round + frame, frame, pcm);
      step (&item, 1);
      assert_frame (round, frame, pcm);
    }
    ops->slot_free (cuda, slot);
  }
}

/* More streams than a batch of the largest size that is ready. */
static void
test_many (void)
{
  guint n = 20, s, frame;
  gpointer *slots = g_new (gpointer, n);
  MimiStepItem *items = g_new (MimiStepItem, n);
  gfloat *pcm = g_new (gfloat, n * SAMPLES);

  for (s = 0; s < n; s++)
    slots[s] = slot_new ();
  for (frame = 0; frame < 2; frame++) {
    for (s = 0; s < n; s++)
      fill (&items[s], slots[s], s % STREAMS + frame, frame, pcm + s * SAMPLES);
    step (items, n);
    for (s = 0; s < n; s++)
      assert_frame (s % STREAMS, frame, pcm + s * SAMPLES);
  }
  for (s = 0; s < n; s++)
    ops->slot_free (cuda, slots[s]);
  g_free (pcm);
  g_free (items);
  g_free (slots);
}

/* A network and a batch large enough for a warp a tile, whose launches have
 * another shape than a single stream's, and on 9.0 some are of other kernels:
 * those must take the weights as the single stream's do. */
static void
test_wide (gconstpointer precision)
{
  static const Network network = { "pocket2m-pocket", "pocket2m.f32",
    "pocket2m.oracle", NULL, 10, 0, FALSE };
  MimiDecoderOptions options = { MIMI_BACKEND_CUDA, -1,
    GPOINTER_TO_UINT (precision) };
  MimiModel *model = network_open (&network);
  /* 33 and more take the graph of 64: from 48 tiles on the transformer's
   * blocks fill a GPU of 132 processors. */
  guint n = 33, kinds = 3, s, frame;
  guint frames = options.precision == MIMI_PRECISION_FP32 ? 2 : 1;
  gpointer *slots = g_new (gpointer, n), self = cuda;
  MimiStepItem *items = g_new (MimiStepItem, n);
  gfloat *pcm = g_new (gfloat, n * SAMPLES), *own = rows;
  gfloat *want = g_new (gfloat, kinds * frames * SAMPLES);
  GError *error = NULL;
  MimiRows format;

  rows = (gfloat *)network_read_rows (&network, model, kinds + frames, &format);
  cuda = ops->open (model, &options, &error);
  g_assert_no_error (error);
  for (s = 0; s < kinds; s++) {
    slots[0] = slot_new ();
    for (frame = 0; frame < frames; frame++) {
      fill (&items[0], slots[0], s + frame, frame,
          want + (s * frames + frame) * SAMPLES);
      step (items, 1);
    }
    ops->slot_free (cuda, slots[0]);
  }
  for (s = 0; s < n; s++)
    slots[s] = slot_new ();
  for (frame = 0; frame < frames; frame++) {
    for (s = 0; s < n; s++)
      fill (&items[s], slots[s], s % kinds + frame, frame, pcm + s * SAMPLES);
    step (items, n);
    for (s = 0; s < n; s++)
      g_assert_cmpmem (pcm + s * SAMPLES, SAMPLES * sizeof *pcm,
          want + (s % kinds * frames + frame) * SAMPLES, SAMPLES * sizeof *pcm);
  }
  for (s = 0; s < n; s++)
    ops->slot_free (cuda, slots[s]);
  ops->close (cuda);
  cuda = self;
  g_free (rows);
  rows = own;
  mimi_model_unref (model);
  g_free (want);
  g_free (pcm);
  g_free (items);
  g_free (slots);
}

/* Values so large that the network overflows are found out, in the stream
 * that has them alone, and leave no trace. */
static void
test_overflow (void)
{
  gpointer a = slot_new (), b = slot_new ();
  gfloat pcm[2][SAMPLES], huge[64];
  MimiStepItem items[2];
  guint i;

  for (i = 0; i < latent; i++)
    huge[i] = i % 2 ? -3e38f : 3e38f;
  fill (&items[0], a, 0, 0, pcm[0]);
  items[0].values = huge;
  fill (&items[1], b, 1, 0, pcm[1]);
  step (items, 2);
  g_assert_false (items[0].finite);
  g_assert_true (items[1].finite);
  assert_frame (1, 0, pcm[1]);

  fill (&items[0], a, 0, 0, pcm[0]);
  fill (&items[1], b, 2, 1, pcm[1]);
  step (items, 2);
  g_assert_true (items[0].finite);
  assert_frame (0, 0, pcm[0]);
  assert_frame (1, 1, pcm[1]);

  /* and of a stream that is alone */
  fill (&items[0], a, 1, 0, pcm[0]);
  items[0].values = huge;
  step (items, 1);
  g_assert_false (items[0].finite);
  fill (&items[0], a, 2, 0, pcm[0]);
  step (items, 1);
  g_assert_true (items[0].finite);
  assert_frame (2, 0, pcm[0]);
  ops->slot_free (cuda, a);
  ops->slot_free (cuda, b);
}

/* Fade-in and 16 bits are done on the GPU: as engine/pcm.c does them. */
static void
test_pcm (void)
{
  gpointer slot = slot_new ();
  gfloat want[SAMPLES], got[SAMPLES];
  gint16 want16[SAMPLES], got16[SAMPLES];
  guint64 fades[] = { 0, 1, 120, 2500, G_MAXUINT64 };
  MimiStepItem item;
  guint i, frame, j;

  for (i = 0; i < G_N_ELEMENTS (fades); i++)
    for (frame = 0; frame < 2; frame++) {
      const gfloat *plain = alone[0] + frame * SAMPLES;

      /* from a fresh state each time: frame 1 of a stream alone needs 0 */
      for (j = 0; j <= frame; j++) {
        fill (&item, slot, j, j, got);
        item.fade_in = fades[i];
        step (&item, 1);
      }
      item.pcm = want;
      mimi_pcm_write (&item, plain);
      for (j = 0; j < SAMPLES; j++)
        g_assert_cmpfloat_with_epsilon (got[j], want[j], 1e-6);

      for (j = 0; j <= frame; j++) {
        fill (&item, slot, j, j, (gfloat *)got16);
        item.format = MIMI_PCM_S16;
        item.fade_in = fades[i];
        step (&item, 1);
      }
      item.pcm = want16;
      mimi_pcm_write (&item, plain);
      for (j = 0; j < SAMPLES; j++)
        g_assert_cmpint (ABS (got16[j] - want16[j]), <=, fades[i] ? 1 : 0);
    }
  ops->slot_free (cuda, slot);
}

typedef struct {
  guint stream, failures;
} Decode;

static gpointer
decode (gpointer data)
{
  Decode *self = data;
  gpointer slot = slot_new ();
  gfloat pcm[SAMPLES];
  MimiStepItem item;
  guint frame;

  for (frame = 0; frame < 10; frame++) {
    fill (&item, slot, self->stream + frame, frame, pcm);
    step (&item, 1);
    if (memcmp (
            alone[self->stream] + frame * SAMPLES, pcm, SAMPLES * sizeof *pcm))
      self->failures++;
  }
  ops->slot_free (cuda, slot);
  return NULL;
}

/* Threads that know nothing of each other share launches. */
static void
test_threads (void)
{
  GThread *threads[STREAMS];
  Decode decodes[STREAMS];
  guint s;

  for (s = 0; s < STREAMS; s++) {
    decodes[s] = (Decode){ s, 0 };
    threads[s] = g_thread_new ("decode", decode, &decodes[s]);
  }
  for (s = 0; s < STREAMS; s++) {
    g_thread_join (threads[s]);
    g_assert_cmpuint (decodes[s].failures, ==, 0);
  }
}

static void
set_up (void)
{
  MimiDecoderOptions options = { MIMI_BACKEND_CUDA, -1, MIMI_PRECISION_FP32 };
  MimiModel *model = network_open (&tiny);
  GError *error = NULL;
  MimiRows format;
  gpointer slot;
  guint s, frame;

  rows = (gfloat *)network_read_rows (&tiny, model, STREAMS + FRAMES, &format);
  latent = mimi_model_get_network (model)->latent_dim;
  cuda = ops->open (model, &options, &error);
  g_assert_no_error (error);
  mimi_model_unref (model);

  slot = slot_new ();
  for (s = 0; s < STREAMS; s++) {
    alone[s] = g_new (gfloat, FRAMES * SAMPLES);
    for (frame = 0; frame < FRAMES; frame++) {
      MimiStepItem item;

      fill (&item, slot, s + frame, frame, alone[s] + frame * SAMPLES);
      step (&item, 1);
    }
  }
  ops->slot_free (cuda, slot);
}

int
main (int argc, char **argv)
{
  guint s;
  int status;

  g_test_init (&argc, &argv, NULL);
  set_up ();
  g_test_add_func ("/cuda/batch/sizes", test_sizes);
  g_test_add_func ("/cuda/batch/reuse", test_reuse);
  g_test_add_func ("/cuda/batch/many", test_many);
  g_test_add_data_func ("/cuda/batch/wide/fp32",
      GUINT_TO_POINTER (MIMI_PRECISION_FP32), test_wide);
  g_test_add_data_func ("/cuda/batch/wide/tf32",
      GUINT_TO_POINTER (MIMI_PRECISION_TF32), test_wide);
  g_test_add_data_func ("/cuda/batch/wide/bf16",
      GUINT_TO_POINTER (MIMI_PRECISION_BF16), test_wide);
  g_test_add_func ("/cuda/batch/overflow", test_overflow);
  g_test_add_func ("/cuda/batch/pcm", test_pcm);
  g_test_add_func ("/cuda/batch/threads", test_threads);
  status = g_test_run ();
  ops->close (cuda);
  for (s = 0; s < STREAMS; s++)
    g_free (alone[s]);
  g_free (rows);
  return status;
}
