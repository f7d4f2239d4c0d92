/* One frame, from a row of input to PCM, as every thread of a team runs it.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <math.h>

#include "frame.h"

void
mimi_cpu_trace (const MimiCpuFrame *f, const gchar *name, gint number,
    const gchar *suffix, const gfloat *x, guint times, guint channels)
{
  gchar stage[48];

  if (f->slot->trace == NULL || f->share.thread != 0)
    return;
  if (number < 0)
    g_snprintf (stage, sizeof stage, "%s", name);
  else
    g_snprintf (stage, sizeof stage, "%s%d%s", name, number, suffix);
  f->slot->trace (stage, x, times, channels, f->slot->trace_data);
}

void
mimi_cpu_trace16 (const MimiCpuFrame *f, const gchar *name, gint number,
    const gchar *suffix, const gfloat *x, guint channels)
{
  gfloat *turned = f->scratch->turned;

  if (f->slot->trace == NULL || f->share.thread != 0)
    return;
  for (guint c = 0; c < channels; c++)
    for (guint t = 0; t < 16; t++)
      turned[t * channels + c] = x[c * 16 + t];
  mimi_cpu_trace (f, name, number, suffix, turned, 16, channels);
}

/* Cosines and sines of this frame's positions. The angle of the first is formed
 * in double from its absolute position, the others by turning it on, in double
 * too: right for streams that run for weeks. */
static void
find_angles (const MimiCpuFrame *f)
{
  const MimiCpu *cpu = f->cpu;
  guint pairs = f->net->head_dim / 2, n = f->net->upsample;
  guint step = cpu->wide ? 1 : pairs;

  for (guint i = 0; i < pairs; i++) {
    gdouble angle = (gdouble)f->state->position * cpu->frequencies[i];
    gdouble c = cos (angle), s = sin (angle);
    const gdouble *turn = cpu->turns + (gsize)i * n * 2;
    gsize at = cpu->wide ? (gsize)i * n : i;

    for (guint t = 0; t < n; t++, turn += 2, at += step) {
      f->scratch->cosines[at] = (gfloat)(c * turn[0] - s * turn[1]);
      f->scratch->sines[at] = (gfloat)(s * turn[0] + c * turn[1]);
    }
  }
}

static void
add_row (gfloat *sum, const gfloat *row, guint n)
{
  for (guint i = 0; i < n; i++)
    sum[i] += row[i];
}

/* The row of input -> quantized [width]. */
static void
embed (const MimiCpuFrame *f, const MimiStepItem *item)
{
  const MimiCpu *cpu = f->cpu;
  gfloat *x = f->scratch->embedding;
  MimiCpuGemm gemm = { .x = x, .rows = 1, .y = f->scratch->quantized };
  guint dim = f->net->codebook_dim;

  switch (item->kind) {
    case MIMI_STEP_EMBEDDING:
      mimi_cpu_copy (f->scratch->quantized, item->values, f->net->width);
      return;
    case MIMI_STEP_CODES:
      memset (x, 0, 2 * dim * sizeof (gfloat));
      for (guint i = 0; i < item->n_codes; i++)
        add_row (i == 0 ? x : x + dim,
            cpu->books[i] + (gsize)item->codes[i] * dim, dim);
      gemm.w = &cpu->code_proj;
      break;
    case MIMI_STEP_NORMALIZED:
      for (guint i = 0; i < f->net->latent_dim; i++)
        x[i] = item->values[i] * cpu->std[i] + cpu->mean[i];
      gemm.w = &cpu->latent_proj;
      break;
    case MIMI_STEP_LATENT:
      mimi_cpu_copy (x, item->values, f->net->latent_dim);
      gemm.w = &cpu->latent_proj;
      break;
  }
  mimi_cpu_gemm (&gemm, (MimiCpuShare){ 0, 1 });
}

void
mimi_cpu_frame (MimiCpuSlot *slot, MimiStepItem *item, guint thread)
{
  const MimiCpuFrame frame = { slot, slot->cpu, &slot->cpu->net, &slot->state,
    &slot->scratch, { thread, slot->threads } };
  const MimiCpuFrame *f = &frame;

  if (thread == 0) {
    mimi_cpu_recall (f);
    find_angles (f);
    embed (f, item);
  }
  mimi_cpu_wait (f);
  mimi_cpu_trace (
      f, "quantized", -1, "", f->scratch->quantized, 1, f->net->width);
  if (f->cpu->wide)
    mimi_cpu_layers16 (f);
  else
    mimi_cpu_layers (f);
  mimi_cpu_stages (f);
  if (thread != 0)
    return;
  mimi_cpu_remember (f);
  /* what later frames are made of, and what is heard of this one; keys and
   * values were looked at where they were written */
  mimi_cpu_judge (
      f, mimi_cpu_check (slot->state.memory, slot->state.memory_length) +
             mimi_cpu_check (f->scratch->pcm, MIMI_FRAME_SAMPLES));
}
