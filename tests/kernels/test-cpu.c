/* The CPU backend by itself: long streams, overflow, denormals, threads, and
 * what a frame must not do.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "checkpoint.h"
#include "engine/backend.h"
#include "engine/state.h"

#include <math.h>
#include <string.h>
#ifdef __linux__
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#define FRAMES 100
#define SAMPLES (FRAMES * MIMI_FRAME_SAMPLES)

static const MimiBackendOps *cpu = &mimi_backend_cpu;

typedef struct {
  gpointer backend, slot;
  MimiNetwork net;
  MimiStepItem item;
  gfloat values[512];
  guint16 codes[MIMI_MAX_CODEBOOKS];
} Decoder;

static void
decoder_open (Decoder *d, const gchar *name, guint threads)
{
  const MimiDecoderOptions options = { MIMI_BACKEND_CPU, -1,
    MIMI_PRECISION_FP32 };
  gchar *path = checkpoint_path (name);
  GError *error = NULL;
  MimiModel *model = mimi_model_open (path, NULL, &error);

  g_assert_no_error (error);
  memset (d, 0, sizeof *d);
  d->net = *mimi_model_get_network (model);
  d->backend = cpu->open (model, &options, &error);
  g_assert_no_error (error);
  mimi_model_unref (model);
  d->slot = cpu->slot_new (d->backend, threads, &error);
  g_assert_no_error (error);
  d->item = (MimiStepItem){ .slot = d->slot,
    .kind = d->net.latent_dim ? MIMI_STEP_NORMALIZED : MIMI_STEP_CODES,
    .values = d->values,
    .codes = d->codes,
    .n_codes = d->net.codebooks,
    .format = MIMI_PCM_F32 };
  g_free (path);
}

static void
decoder_close (Decoder *d)
{
  cpu->slot_free (d->backend, d->slot);
  cpu->close (d->backend);
}

/* Made-up input of frame i. */
static void
fill (Decoder *d, guint i)
{
  GRand *random = g_rand_new_with_seed (i + 1);

  for (guint j = 0; j < G_N_ELEMENTS (d->values); j++)
    d->values[j] = (gfloat)g_rand_double_range (random, -1.7, 1.7);
  for (guint j = 0; j < d->net.codebooks; j++)
    d->codes[j] = (guint16)g_rand_int_range (random, 0, d->net.codebook_size);
  g_rand_free (random);
}

static gboolean
step (Decoder *d, gboolean reset, gfloat *pcm)
{
  GError *error = NULL;

  d->item.reset = reset;
  d->item.pcm = pcm;
  d->item.finite = TRUE;
  cpu->step (d->backend, &d->item, 1, &error);
  g_assert_no_error (error);
  return d->item.finite;
}

static gfloat *
decode (Decoder *d, guint frames, gboolean reset)
{
  gfloat *pcm = g_new (gfloat, frames * MIMI_FRAME_SAMPLES);

  for (guint i = 0; i < frames; i++) {
    fill (d, i);
    g_assert_true (step (d, reset && i == 0, pcm + i * MIMI_FRAME_SAMPLES));
  }
  return pcm;
}

static gdouble
get_snr (const gfloat *got, const gfloat *want, gsize n)
{
  gdouble signal = 0, noise = 1e-300;

  for (gsize i = 0; i < n; i++) {
    signal += (gdouble)want[i] * want[i];
    noise += ((gdouble)got[i] - want[i]) * ((gdouble)got[i] - want[i]);
  }
  return 10 * log10 (signal / noise);
}

/* -------------------------------------------------------------- tests --- */

/* What is heard depends on how far positions are from each other, not on where
 * they are; and on nothing older than all layers' windows. So a stream that has
 * run for a week must give what a fresh one gives, once both are past that. */
static void
test_week (gconstpointer name)
{
  const guint64 week = 7 * 24 * 3600 * G_GUINT64_CONSTANT (25) / 2 + 3;
  const gsize tail = 40 * MIMI_FRAME_SAMPLES;
  MimiStateLayout layout;
  gfloat *young, *old, *nothing;
  Decoder d;

  decoder_open (&d, name, 1);
  young = decode (&d, FRAMES, TRUE);
  mimi_state_lay_out (&layout, &d.net);
  nothing = g_new0 (gfloat, layout.length);
  g_assert_true (cpu->state_write (d.backend, d.slot, week, nothing, NULL));
  old = decode (&d, FRAMES, FALSE);
  g_assert_cmpfloat (
      get_snr (old + SAMPLES - tail, young + SAMPLES - tail, tail), >, 100);
  g_free (young);
  g_free (old);
  g_free (nothing);
  decoder_close (&d);
}

/* Values that overflow are told, and leave nothing behind. */
static void
test_overflow (gconstpointer name)
{
  static const gfloat sizes[] = { 1e10f, 1e19f, 1e25f, 1e30f, 3e38f };
  gfloat pcm[MIMI_FRAME_SAMPLES], *want, *got;
  guint told = 0;
  Decoder d;

  decoder_open (&d, name, 1);
  want = decode (&d, 20, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    g_free (decode (&d, 3, TRUE));
    for (guint j = 0; j < G_N_ELEMENTS (d.values); j++)
      d.values[j] = j % 3 ? sizes[i] : -sizes[i];
    if (!step (&d, FALSE, pcm))
      told++;
    else
      for (guint j = 0; j < MIMI_FRAME_SAMPLES; j++)
        g_assert_true (isfinite (pcm[j]));
    got = decode (&d, 20, TRUE);
    g_assert_cmpmem (got, 20 * sizeof pcm, want, 20 * sizeof pcm);
    g_free (got);
  }
  g_assert_cmpuint (told, >=, 3);
  g_free (want);
  decoder_close (&d);
}

/* Denormal input decodes like silence, and the caller's arithmetic is as it
 * was. */
static void
test_denormals (gconstpointer name)
{
  gfloat tiny[MIMI_FRAME_SAMPLES], none[MIMI_FRAME_SAMPLES];
  volatile gfloat least = 1e-40f;
  Decoder d;
#if defined(__SSE__)
  guint before = _mm_getcsr ();
#endif

  decoder_open (&d, name, 1);
  for (guint j = 0; j < G_N_ELEMENTS (d.values); j++)
    d.values[j] = 1e-41f;
  g_assert_true (step (&d, TRUE, tiny));
  memset (d.values, 0, sizeof d.values);
  g_assert_true (step (&d, TRUE, none));
  g_assert_cmpmem (tiny, sizeof tiny, none, sizeof none);
  g_assert_true (least * 0.5f > 0);
#if defined(__SSE__)
  /* but for the flags of what has happened */
  g_assert_cmphex (_mm_getcsr () & ~0x3fu, ==, before & ~0x3fu);
#endif
  decoder_close (&d);
}

/* Any number of threads gives the same bits, and teams come and go. */
static void
test_threads (gconstpointer name)
{
  static const guint counts[] = { 2, 3, 5, 64 };
  gfloat *want, *got;
  GError *error = NULL;
  Decoder d;

  decoder_open (&d, name, 1);
  want = decode (&d, 20, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++) {
    cpu->slot_free (d.backend, d.slot);
    d.slot = cpu->slot_new (d.backend, counts[i], &error);
    g_assert_no_error (error);
    d.item.slot = d.slot;
    got = decode (&d, i < 3 ? 20 : 2, TRUE);
    g_assert_cmpmem (got,
        (i < 3 ? 20 : 2) * MIMI_FRAME_SAMPLES * sizeof (gfloat), want,
        (i < 3 ? 20 : 2) * MIMI_FRAME_SAMPLES * sizeof (gfloat));
    g_free (got);
  }
  g_free (want);
  decoder_close (&d);
}

typedef struct {
  Decoder decoder;
  gfloat *pcm;
} Other;

static gpointer
run_other (gpointer data)
{
  Other *other = data;

  other->pcm = decode (&other->decoder, 60, TRUE);
  return NULL;
}

/* Slots of one backend are used by several threads at once. */
static void
test_slots (gconstpointer name)
{
  GThread *threads[4];
  Other others[4];
  gfloat *want;
  Decoder d;

  decoder_open (&d, name, 1);
  want = decode (&d, 60, TRUE);
  for (guint i = 0; i < 4; i++) {
    others[i].decoder = d;
    others[i].decoder.item.values = others[i].decoder.values;
    others[i].decoder.item.codes = others[i].decoder.codes;
    others[i].decoder.slot = others[i].decoder.item.slot =
        cpu->slot_new (d.backend, 1, NULL);
    threads[i] = g_thread_new ("other", run_other, &others[i]);
  }
  for (guint i = 0; i < 4; i++) {
    g_thread_join (threads[i]);
    g_assert_cmpmem (others[i].pcm, 60 * MIMI_FRAME_SAMPLES * sizeof (gfloat),
        want, 60 * MIMI_FRAME_SAMPLES * sizeof (gfloat));
    g_free (others[i].pcm);
    cpu->slot_free (d.backend, others[i].decoder.slot);
  }
  g_free (want);
  decoder_close (&d);
}

/* With one thread a frame enters the kernel for nothing, not even for memory:
 * a process that may only read, write and exit decodes. */
static void
test_no_calls (gconstpointer name)
{
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
  gfloat pcm[MIMI_FRAME_SAMPLES];
  Decoder d;
  gint status;
  pid_t child;

  decoder_open (&d, name, 1);
  fill (&d, 1);
  child = fork ();
  if (child == 0) {
    gboolean finite = step (&d, TRUE, pcm);

    if (prctl (PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
      syscall (SYS_exit, 77);
    for (guint i = 0; i < 50; i++)
      finite = step (&d, i == 25, pcm) && finite;
    syscall (SYS_exit, finite ? 0 : 1);
  }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  if (WIFEXITED (status) && WEXITSTATUS (status) == 77)
    g_test_skip ("no seccomp here");
  else
    g_assert_true (WIFEXITED (status) && WEXITSTATUS (status) == 0);
  decoder_close (&d);
#else
  (void)name;
  g_test_skip ("needs Linux without AddressSanitizer");
#endif
}

static void
test_unknown_instructions (void)
{
  const MimiDecoderOptions options = { MIMI_BACKEND_CPU, -1,
    MIMI_PRECISION_FP32 };
  gchar *path = checkpoint_path ("tiny-pocket");
  gchar *before = g_strdup (g_getenv ("MIMIDEC_CPU"));
  MimiModel *model = mimi_model_open (path, NULL, NULL);
  GError *error = NULL;

  g_setenv ("MIMIDEC_CPU", "z80", TRUE);
  g_assert_null (cpu->open (model, &options, &error));
  g_assert_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE);
  g_assert_nonnull (strstr (error->message, "z80"));
  g_error_free (error);
  if (before)
    g_setenv ("MIMIDEC_CPU", before, TRUE);
  else
    g_unsetenv ("MIMIDEC_CPU");
  mimi_model_unref (model);
  g_free (before);
  g_free (path);
}

int
main (int argc, char **argv)
{
  static const struct {
    const gchar *name;
    GTestDataFunc func;
    gboolean codes;
  } tests[] = { { "week", test_week, TRUE },
    { "overflow", test_overflow, FALSE },
    { "denormals", test_denormals, FALSE }, { "threads", test_threads, TRUE },
    { "slots", test_slots, TRUE }, { "no-calls", test_no_calls, TRUE } };

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++) {
    gchar *path = g_strdup_printf ("/cpu/%s/tiny", tests[i].name);

    g_test_add_data_func (path, "tiny-pocket", tests[i].func);
    g_free (path);
    path = g_strdup_printf ("/cpu/%s/pocket2m", tests[i].name);
    g_test_add_data_func (path, "pocket2m-pocket", tests[i].func);
    g_free (path);
    if (tests[i].codes && tests[i].func != test_week) {
      path = g_strdup_printf ("/cpu/%s/tinyfull", tests[i].name);
      g_test_add_data_func (path, "tinyfull-moshi", tests[i].func);
      g_free (path);
    }
  }
  g_test_add_func ("/cpu/unknown-instructions", test_unknown_instructions);
  return g_test_run ();
}
