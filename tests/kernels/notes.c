/* A backend that only takes notes, in the place of the CPU's.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "notes.h"

#include <math.h>
#include <string.h>

Notes notes;

static gpointer
fake_open (MimiModel *model, const MimiDecoderOptions *options, GError **error)
{
  g_assert_nonnull (mimi_model_get_weights (model));
  g_assert_cmpint (options->cuda_device, ==, -1);
  g_atomic_int_inc (&notes.opened);
  g_usleep (notes.delay);
  if (notes.fails) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY, "no memory");
    return NULL;
  }
  g_atomic_int_inc (&notes.open);
  return &notes;
}

static void
fake_close (gpointer self)
{
  g_assert_true (self == &notes);
  g_atomic_int_add (&notes.open, -1);
}

static void
fake_get_info (gpointer self G_GNUC_UNUSED, MimiDecoderInfo *info)
{
  info->backend = "fake";
  info->weights_bytes = 1000;
  info->state_bytes = 10;
}

/* A slot counts the frames of an utterance. */
static gpointer
fake_slot_new (gpointer self G_GNUC_UNUSED, guint threads, GError **error)
{
  if (threads == 99) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY, "no memory");
    return NULL;
  }
  g_assert_cmpuint (threads, >=, 1);
  g_atomic_int_inc (&notes.slots);
  return g_new0 (guint, 1);
}

static void
fake_slot_free (gpointer self G_GNUC_UNUSED, gpointer slot)
{
  g_atomic_int_add (&notes.slots, -1);
  g_free (slot);
}

static gboolean
step_one (MimiStepItem *items, GError **error)
{
  guint *count = items->slot, i;
  gfloat samples[MIMI_FRAME_SAMPLES], sum;

  g_assert_cmpuint ((guintptr)items->pcm % sizeof (gfloat), ==, 0);
  *count = items->reset ? 0 : *count + 1;
  if (items->kind == MIMI_STEP_CODES) {
    memcpy (notes.codes, items->codes, sizeof (guint16) * items->n_codes);
    for (sum = 0, i = 0; i < items->n_codes; i++)
      sum += items->codes[i];
  } else {
    sum = items->values[0];
    if (sum == 666) {
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_DEVICE, "it burns");
      return FALSE;
    }
  }
  for (i = 0; i < MIMI_FRAME_SAMPLES; i++)
    samples[i] = (sum + *count) / 1024;
  items->finite = !(fabsf (sum) > 1e30f);
  mimi_pcm_write (items, samples);
  notes.last = *items;
  return TRUE;
}

static gboolean
fake_step (
    gpointer self G_GNUC_UNUSED, MimiStepItem *items, guint n, GError **error)
{
  guint i;

  g_assert_cmpuint (n, >=, 1);
  notes.steps++;
  for (i = 0; i < n; i++)
    if (!step_one (&items[i], error))
      return FALSE;
  return TRUE;
}

const MimiBackendOps notes_backend = { "fake", fake_open, fake_close,
  fake_get_info, fake_slot_new, fake_slot_free, fake_step, NULL };

const MimiDecoderOptions notes_options = { MIMI_BACKEND_CPU, -1,
  MIMI_PRECISION_FP32 };

MimiModel *
notes_open_model (const gchar *path, const gchar *config)
{
  GError *error = NULL;
  MimiModel *model = mimi_model_open (path, config, &error);

  g_assert_no_error (error);
  return model;
}

MimiDecoder *
notes_get_decoder (const gchar *path, const gchar *config)
{
  MimiModel *model = notes_open_model (path, config);
  GError *error = NULL;
  MimiDecoder *decoder = mimi_decoder_get (model, &notes_options, &error);

  g_assert_no_error (error);
  mimi_model_unref (model);
  return decoder;
}
