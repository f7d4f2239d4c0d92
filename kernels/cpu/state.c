/* A slot's state to and from the order that all backends share.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <string.h>

#include "../engine/state.h"
#include "cpu.h"

/* Either way between `own` and `common`, n floats. */
static void
move (gfloat *own, gfloat *common, gsize n, gboolean read)
{
  if (read)
    memcpy (common, own, n * sizeof *own);
  else
    memcpy (own, common, n * sizeof *own);
}

static void
move_memories (MimiCpuSlot *slot, gfloat *values, gboolean read)
{
  const MimiNetwork *net = &slot->cpu->net;
  MimiCpuState *state = &slot->state;
  guint past = net->first_kernel - 1;
  MimiStateLayout at;

  mimi_state_lay_out (&at, net);
  move (state->upsample, values + at.front, net->width, read);
  move (state->first, values + at.first, past * net->width, read);
  for (guint i = 0; i < net->stages; i++) {
    move (state->up[i], values + at.up[i], net->channels[i], read);
    move (state->res[i], values + at.res[i],
        (net->residual_kernel - 1) * net->channels[i + 1], read);
  }
  move (state->last, values + at.last,
      (net->last_kernel - 1) * net->channels[net->stages], read);
}

/* The positions that the next frame can see. */
static void
move_ring (MimiCpuSlot *slot, gfloat *values, gboolean read)
{
  const MimiNetwork *net = &slot->cpu->net;
  guint dim = net->head_dim, past = net->window - 1;
  MimiStateLayout at;

  mimi_state_lay_out (&at, net);
  for (guint i = 0; i < net->layers * past; i++) {
    guint layer = i / past, back = past - i % past;
    gfloat *k = values + at.keys + (gsize)i * net->width;
    gfloat *v = values + at.values + (gsize)i * net->width;

    if (back > slot->state.position) {
      if (read) {
        memset (k, 0, net->width * sizeof *k);
        memset (v, 0, net->width * sizeof *v);
      }
      continue;
    }
    for (guint c = 0; c < net->width; c++) {
      guint64 p = slot->state.position - back;
      gsize head = (gsize)layer * net->heads + c / dim;
      gsize block = head * slot->cpu->blocks + p / 16 % slot->cpu->blocks;
      gsize place = (block * dim + c % dim) * 16 + p % 16;

      move (slot->state.keys + place, k + c, 1, read);
      move (slot->state.values + place, v + c, 1, read);
    }
  }
}

void
mimi_cpu_state_read (MimiCpuSlot *slot, gfloat *values)
{
  move_memories (slot, values, TRUE);
  move_ring (slot, values, TRUE);
}

void
mimi_cpu_state_write (MimiCpuSlot *slot, guint64 frames, const gfloat *values)
{
  MimiCpuState *state = &slot->state;

  state->position = frames * slot->cpu->net.upsample;
  memset (state->keys, 0, state->ring_length * sizeof (gfloat));
  memset (state->values, 0, state->ring_length * sizeof (gfloat));
  move_memories (slot, (gfloat *)values, FALSE);
  move_ring (slot, (gfloat *)values, FALSE);
}
