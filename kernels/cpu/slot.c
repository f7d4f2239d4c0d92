/* A slot: one stream's state, and what its frames are computed in.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "cpu.h"

static void
lay_out_state (MimiCpuArena *arena, MimiCpuState *state, const MimiCpu *cpu)
{
  const MimiNetwork *net = &cpu->net;
  gsize start = arena->used;

  state->memory = mimi_cpu_arena_take (arena, 0);
  state->upsample = mimi_cpu_arena_take (arena, net->width);
  state->first =
      mimi_cpu_arena_take (arena, (net->first_kernel - 1) * net->width);
  for (guint i = 0; i < net->stages; i++) {
    state->up[i] = mimi_cpu_arena_take (arena, net->channels[i]);
    state->res[i] = mimi_cpu_arena_take (
        arena, (net->residual_kernel - 1) * net->channels[i + 1]);
  }
  state->last = mimi_cpu_arena_take (
      arena, (net->last_kernel - 1) * net->channels[net->stages]);
  state->memory_length = arena->used - start;
  state->ring_length = (gsize)net->layers * net->width * cpu->blocks * 16;
  state->keys = mimi_cpu_arena_take (arena, state->ring_length);
  state->values = mimi_cpu_arena_take (arena, state->ring_length);
}

/* See run_last_stage(). */
static void
lay_out_tile (MimiCpuArena *arena, MimiCpuScratch *s, const MimiNetwork *net,
    guint threads)
{
  guint out = net->channels[net->stages];
  guint times = MIMI_CPU_TILE_TIMES * net->ratios[net->stages - 1];

  s->tile_length =
      (3 * times + net->residual_kernel + net->last_kernel - 2) * out +
      times * net->hidden[net->stages - 1];
  s->tile_length = (s->tile_length + 15) / 16 * 16;
  s->tile = mimi_cpu_arena_take (arena, threads * s->tile_length);
}

/* What filter.c needs for a layer with so many inputs: room for each product of
 * a tile's groups. */
static gsize
filter_length (const MimiCpuMatrix *m)
{
  return m->filter ? ((gsize)m->k * MIMI_CPU_MAX_ROWS + 15) / 16 * 16 : 0;
}

static void
lay_out_scratch (
    MimiCpuArena *arena, MimiCpuScratch *s, const MimiCpu *cpu, guint threads)
{
  const MimiNetwork *net = &cpu->net;
  gsize times = net->upsample, raw = times * net->channels[0];

  s->embedding =
      mimi_cpu_arena_take (arena, MAX (net->latent_dim, 2 * net->codebook_dim));
  s->quantized = mimi_cpu_arena_take (arena, net->width);
  s->cosines = mimi_cpu_arena_take (arena, times * net->head_dim / 2);
  s->sines = mimi_cpu_arena_take (arena, times * net->head_dim / 2);
  s->x =
      mimi_cpu_arena_take (arena, (net->first_kernel - 1 + times) * net->width);
  s->normed = mimi_cpu_arena_take (arena, threads * times * net->width);
  if (cpu->wide) {
    s->first = mimi_cpu_arena_take (arena, net->width * MIMI_CPU_STRIDE16);
    s->raised =
        mimi_cpu_arena_take (arena, net->ratios[0] * net->channels[1] * times);
  }
  s->qkv = mimi_cpu_arena_take (arena, times * 3 * net->width);
  s->mixed = mimi_cpu_arena_take (arena, times * net->width);
  s->weights = mimi_cpu_arena_take (arena, (gsize)threads * cpu->blocks * 256);
  s->hidden = mimi_cpu_arena_take (arena, times * net->ffn);
  for (guint i = 0; i < net->stages; i++) {
    guint out = net->channels[i + 1];

    s->up[i] = mimi_cpu_arena_take (
        arena, (cpu->wide && i == 0 ? MIMI_CPU_STRIDE16 : 1 + times) *
                   net->channels[i]);
    times *= net->ratios[i];
    s->res[i] =
        mimi_cpu_arena_take (arena, (net->residual_kernel - 1 + times) * out);
    s->res_raw[i] = mimi_cpu_arena_take (arena, times * out);
    s->res_mid[i] = mimi_cpu_arena_take (arena, times * net->hidden[i]);
    raw = MAX (raw, times * out);
    s->filter_length =
        MAX (s->filter_length, filter_length (&cpu->stages[i].up));
    s->filter_length =
        MAX (s->filter_length, filter_length (&cpu->stages[i].res1));
  }
  s->filter = mimi_cpu_arena_take (arena, threads * s->filter_length);
  s->last = mimi_cpu_arena_take (
      arena, (net->last_kernel - 1 + times) * net->channels[net->stages]);
  lay_out_tile (arena, s, net, threads);
  s->raw = mimi_cpu_arena_take (arena, raw);
  s->turned =
      mimi_cpu_arena_take (arena, 16 * MAX (net->width, net->channels[0]));
  s->pcm = mimi_cpu_arena_take (arena, times);
}

gsize
mimi_cpu_state_size (const MimiCpu *cpu)
{
  MimiCpuArena arena = { 0 };
  MimiCpuState state;

  lay_out_state (&arena, &state, cpu);
  return arena.used * sizeof (gfloat);
}

MimiCpuSlot *
mimi_cpu_slot_new (const MimiCpu *cpu, guint threads, GError **error)
{
  MimiCpuSlot *slot = g_new0 (MimiCpuSlot, 1);

  slot->cpu = cpu;
  slot->threads = threads;
  lay_out_state (&slot->arena, &slot->state, cpu);
  lay_out_scratch (&slot->arena, &slot->scratch, cpu, threads);
  if (!mimi_cpu_arena_open (&slot->arena, FALSE, "a stream", error))
    goto failed;
  lay_out_state (&slot->arena, &slot->state, cpu);
  lay_out_scratch (&slot->arena, &slot->scratch, cpu, threads);
  if (threads > 1) {
    slot->team = mimi_cpu_team_new (threads, error);
    if (slot->team == NULL)
      goto failed;
  }
  return slot;

failed:
  mimi_cpu_slot_free (slot);
  return NULL;
}

void
mimi_cpu_slot_free (MimiCpuSlot *slot)
{
  mimi_cpu_team_free (slot->team);
  mimi_cpu_arena_close (&slot->arena);
  g_free (slot);
}
