/* A slot's state to and from the order that all backends share.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "state.h"
#include "../engine/state.h"

#include <string.h>

typedef struct {
  const MimiCudaFrame *frame;
  gfloat *own, *values;
  guint64 frames;
  guint copy;
  gboolean read;
} Move;

static void
move (const Move *m, gsize own, gsize value)
{
  if (m->read)
    m->values[value] = m->own[own];
  else
    m->own[own] = m->values[value];
}

/* [channel][time] here, in the copy that the next frame reads. */
static void
move_history (
    const Move *m, guint history, gsize at, guint channels, guint times)
{
  gsize own = history + (gsize)m->copy * channels * times;
  guint c, t;

  for (c = 0; c < channels; c++)
    for (t = 0; t < times; t++)
      move (m, own + c * times + t, at + t * channels + c);
}

/* The positions that the next frame can see; see attention.cu for the ring. */
static void
move_ring (const Move *m, const MimiStateLayout *at)
{
  const MimiNetwork *n = m->frame->network;
  guint blocks = m->frame->ring_blocks, dim = n->head_dim;
  guint past = n->window - 1, i, c;
  guint64 position = m->frames * n->upsample;

  for (i = 0; i < n->layers * past; i++) {
    guint layer = i / past, back = past - i % past;
    gsize keys = m->frame->rings[layer];
    gsize values = keys + (gsize)n->width * blocks * MIMI_CUDA_TILE;

    for (c = 0; c < n->width; c++) {
      gsize k = at->keys + (gsize)i * n->width + c;
      gsize v = at->values + (gsize)i * n->width + c;
      guint64 p = position - back;
      gsize block = (gsize)(c / dim) * blocks + p / MIMI_CUDA_TILE % blocks;

      if (back > position) {
        if (m->read)
          m->values[k] = m->values[v] = 0;
        continue;
      }
      move (m,
          keys + (block * dim + c % dim) * MIMI_CUDA_TILE + p % MIMI_CUDA_TILE,
          k);
      move (m,
          values + (block * MIMI_CUDA_TILE + p % MIMI_CUDA_TILE) * dim +
              c % dim,
          v);
    }
  }
}

static void
move_all (const Move *m)
{
  const MimiCudaFrame *f = m->frame;
  const MimiNetwork *n = f->network;
  MimiStateLayout at;
  guint i;

  mimi_state_lay_out (&at, n);
  move_history (m, f->front_history, at.front, n->width, 1);
  move_history (m, f->first_history, at.first, n->width, n->first_kernel - 1);
  for (i = 0; i < n->stages; i++) {
    move_history (m, f->up_history[i], at.up[i], n->channels[i], 1);
    move_history (m, f->res_history[i], at.res[i], n->channels[i + 1],
        n->residual_kernel - 1);
  }
  move_history (
      m, f->last_history, at.last, n->channels[n->stages], n->last_kernel - 1);
  move_ring (m, &at);
}

void
mimi_cuda_state_read (const MimiCudaFrame *frame, const gfloat *own,
    guint64 frames, guint copy, gfloat *values)
{
  Move m = { frame, (gfloat *)own, values, frames, copy, TRUE };

  move_all (&m);
}

void
mimi_cuda_state_write (const MimiCudaFrame *frame, gfloat *own, guint64 frames,
    guint copy, const gfloat *values)
{
  Move m = { frame, own, (gfloat *)values, frames, copy, FALSE };

  memset (own, 0, frame->state_length * sizeof *own);
  move_all (&m);
}
