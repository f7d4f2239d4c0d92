/* What the causal convolutions remember: from the slot's state to the columns
 * before their inputs, and back after the frame.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "frame.h"

/* The last `n` of each channel's positions in rows of MIMI_CPU_STRIDE16. */
static void
recall16 (gfloat *rows, const gfloat *memory, guint channels, guint n)
{
  for (guint c = 0; c < channels; c++)
    for (guint i = 0; i < n; i++)
      rows[c * MIMI_CPU_STRIDE16 + MIMI_CPU_HALO16 - n + i] =
          memory[i * channels + c];
}

static void
remember16 (const gfloat *rows, gfloat *memory, guint channels, guint n)
{
  for (guint c = 0; c < channels; c++)
    for (guint i = 0; i < n; i++)
      memory[i * channels + c] =
          rows[c * MIMI_CPU_STRIDE16 + MIMI_CPU_STRIDE16 - n + i];
}

void
mimi_cpu_recall (const MimiCpuFrame *f)
{
  const MimiNetwork *net = f->net;
  const MimiCpuState *state = f->state;
  const MimiCpuScratch *s = f->scratch;

  if (f->cpu->wide) {
    recall16 (s->first, state->first, net->width, net->first_kernel - 1);
    recall16 (s->up[0], state->up[0], net->channels[0], 1);
  } else {
    mimi_cpu_copy (s->x, state->first, (net->first_kernel - 1) * net->width);
    mimi_cpu_copy (s->up[0], state->up[0], net->channels[0]);
  }
  for (guint i = 0; i < net->stages; i++) {
    if (i > 0)
      mimi_cpu_copy (s->up[i], state->up[i], net->channels[i]);
    mimi_cpu_copy (s->res[i], state->res[i],
        (net->residual_kernel - 1) * net->channels[i + 1]);
  }
  mimi_cpu_copy (s->last, state->last,
      (net->last_kernel - 1) * net->channels[net->stages]);
}

void
mimi_cpu_remember (const MimiCpuFrame *f)
{
  const MimiNetwork *net = f->net;
  MimiCpuState *state = f->state;
  const MimiCpuScratch *s = f->scratch;
  guint times = net->upsample;

  mimi_cpu_copy (state->upsample, s->quantized, net->width);
  if (f->cpu->wide) {
    remember16 (s->first, state->first, net->width, net->first_kernel - 1);
    remember16 (s->up[0], state->up[0], net->channels[0], 1);
  } else {
    mimi_cpu_copy (state->first, s->x + times * net->width,
        (net->first_kernel - 1) * net->width);
    mimi_cpu_copy (
        state->up[0], s->up[0] + times * net->channels[0], net->channels[0]);
  }
  for (guint i = 0; i < net->stages; i++) {
    guint out = net->channels[i + 1];

    if (i > 0)
      mimi_cpu_copy (state->up[i], s->up[i] + (gsize)times * net->channels[i],
          net->channels[i]);
    times *= net->ratios[i];
    mimi_cpu_copy (state->res[i], s->res[i] + (gsize)times * out,
        (net->residual_kernel - 1) * out);
  }
  mimi_cpu_copy (state->last,
      s->last + (gsize)times * net->channels[net->stages],
      (net->last_kernel - 1) * net->channels[net->stages]);
  state->position += net->upsample;
}
