/* The stages that raise the rate to 24 kHz, time-major.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <string.h>

#include "frame.h"

static gfloat *
find_scratch (const MimiCpuFrame *f)
{
  return f->scratch->filter + f->scratch->filter_length * f->share.thread;
}

/* One stage: transposed convolution, residual block. In: ELU of the input in
 * scratch->up[i]; out: ELU of the output, in the next stage's input. */
static guint
run_stage (const MimiCpuFrame *f, guint i, guint times)
{
  const MimiCpuStage *stage = &f->cpu->stages[i];
  const MimiCpuScratch *s = f->scratch;
  guint in = f->net->channels[i], out = f->net->channels[i + 1];
  guint halo = f->net->residual_kernel - 1, ratio = f->net->ratios[i];
  gfloat *next = i + 1 < f->net->stages
                     ? s->up[i + 1] + out
                     : s->last + (f->net->last_kernel - 1) * out;
  gfloat *raw = f->slot->trace ? s->raw : NULL;
  MimiCpuGemm gemm = { .w = &stage->up,
    .x = s->up[i],
    .x_stride = in,
    .rows = times,
    .y = s->res[i] + halo * out,
    .y_stride = ratio * out,
    .epilogue = MIMI_CPU_ELU,
    .raw = s->res_raw[i],
    .scratch = find_scratch (f) };

  if (i > 0 || !f->cpu->wide) {
    mimi_cpu_gemm (&gemm, f->share);
    mimi_cpu_wait (f);
  }
  times *= ratio;
  mimi_cpu_trace (f, "convtr", 2 + 3 * i, "", s->res_raw[i], times, out);
  gemm = (MimiCpuGemm){ .w = &stage->res1,
    .x = s->res[i],
    .x_stride = out,
    .rows = times,
    .y = s->res_mid[i],
    .y_stride = f->net->hidden[i],
    .epilogue = MIMI_CPU_ELU,
    .scratch = find_scratch (f) };
  mimi_cpu_gemm (&gemm, f->share);
  mimi_cpu_wait (f);
  gemm = (MimiCpuGemm){ .w = &stage->res2,
    .x = s->res_mid[i],
    .x_stride = f->net->hidden[i],
    .rows = times,
    .y = next,
    .y_stride = out,
    .epilogue = MIMI_CPU_ADD_ELU,
    .raw = raw,
    .residual = s->res_raw[i] };
  mimi_cpu_gemm (&gemm, f->share);
  mimi_cpu_wait (f);
  mimi_cpu_trace (f, "resblock", 3 + 3 * i, "", raw, times, out);
  return times;
}

/* Threads divide the last stage at multiples of so many positions of its input,
 * so that groups of filter.c begin where they do for one thread. */
#define GROUP MIMI_CPU_MAX_OUTPUTS

/* The buffers of a tile, for one thread. */
typedef struct {
  gfloat *elu, *raw, *mid, *out;
} Tile;

static Tile
find_tile (const MimiCpuFrame *f, guint i)
{
  guint out = f->net->channels[i + 1];
  guint times = MIMI_CPU_TILE_TIMES * f->net->ratios[i];
  gfloat *base = f->scratch->tile + f->scratch->tile_length * f->share.thread;
  Tile tile;

  tile.elu = base;
  base += (f->net->residual_kernel - 1 + times) * out;
  tile.raw = base;
  base += times * out;
  tile.mid = base;
  base += times * f->net->hidden[i];
  tile.out = base;
  return tile;
}

static void
run_tile (const MimiCpuFrame *f, guint i, const Tile *tile, guint row,
    guint rows, gfloat *pcm)
{
  const MimiCpuShare alone = { 0, 1 };
  const MimiCpuStage *stage = &f->cpu->stages[i];
  guint in = f->net->channels[i], out = f->net->channels[i + 1];
  guint halo = f->net->residual_kernel - 1, ratio = f->net->ratios[i];
  guint last_halo = f->net->last_kernel - 1, times = rows * ratio;
  MimiCpuGemm gemm = { .w = &stage->up,
    .x = f->scratch->up[i] + row * in,
    .x_stride = in,
    .rows = rows,
    .y = tile->elu + halo * out,
    .y_stride = ratio * out,
    .epilogue = MIMI_CPU_ELU,
    .raw = tile->raw,
    .scratch = find_scratch (f) };

  mimi_cpu_gemm (&gemm, alone);
  gemm = (MimiCpuGemm){ .w = &stage->res1,
    .x = tile->elu,
    .x_stride = out,
    .rows = times,
    .y = tile->mid,
    .y_stride = f->net->hidden[i],
    .epilogue = MIMI_CPU_ELU,
    .scratch = find_scratch (f) };
  mimi_cpu_gemm (&gemm, alone);
  gemm = (MimiCpuGemm){ .w = &stage->res2,
    .x = tile->mid,
    .x_stride = f->net->hidden[i],
    .rows = times,
    .y = tile->out + last_halo * out,
    .y_stride = out,
    .epilogue = MIMI_CPU_ADD_ELU,
    .residual = tile->raw };
  mimi_cpu_gemm (&gemm, alone);
  if (pcm)
    mimi_cpu_last (f->cpu, tile->out, times, pcm);
  memmove (tile->elu, tile->elu + times * out, halo * out * sizeof (gfloat));
  memmove (
      tile->out, tile->out + times * out, last_halo * out * sizeof (gfloat));
}

/* The last stage and the last convolution, tile by tile. */
static void
run_last_stage (const MimiCpuFrame *f, guint i, guint times)
{
  const MimiNetwork *net = f->net;
  const MimiCpuScratch *s = f->scratch;
  guint out = net->channels[i + 1], ratio = net->ratios[i];
  gsize halo = (net->residual_kernel - 1) * out;
  gsize last_halo = (net->last_kernel - 1) * out;
  Tile tile = find_tile (f, i);
  guint row, end;

  mimi_cpu_share (&f->share, (times + GROUP - 1) / GROUP, &row, &end);
  row *= GROUP;
  end = MIN (end * GROUP, times);
  if (row < end) {
    /* what the convolutions need of another thread's positions is computed
     * again, in whole groups; further back lies nothing that reaches this
     * thread's */
    guint positions = net->residual_kernel + net->last_kernel - 2 + GROUP;
    guint before = positions / ratio + 1;

    before = MIN ((before + GROUP - 1) / GROUP * GROUP, row);
    if (row == before) {
      mimi_cpu_copy (tile.elu, s->res[i], halo);
      mimi_cpu_copy (tile.out, s->last, last_halo);
    } else {
      memset (tile.elu, 0, halo * sizeof (gfloat));
      memset (tile.out, 0, last_halo * sizeof (gfloat));
    }
    if (before)
      run_tile (f, i, &tile, row - before, before, NULL);
  }
  for (; row < end; row += MIMI_CPU_TILE_TIMES)
    run_tile (f, i, &tile, row, MIN (MIMI_CPU_TILE_TIMES, end - row),
        s->pcm + row * ratio);
  if (end == times) {
    mimi_cpu_copy (s->res[i] + (gsize)times * ratio * out, tile.elu, halo);
    mimi_cpu_copy (s->last + (gsize)times * ratio * out, tile.out, last_halo);
  }
}

void
mimi_cpu_stages (const MimiCpuFrame *f)
{
  guint times = f->net->upsample, last = f->net->stages - 1, first, end;
  /* a trace wants to see what lies between */
  gboolean fused = f->slot->trace == NULL && last > 0;

  for (guint i = 0; i < f->net->stages; i++)
    if (fused && i == last)
      run_last_stage (f, i, times);
    else
      times = run_stage (f, i, times);
  if (!fused) {
    mimi_cpu_share (&f->share, times, &first, &end);
    mimi_cpu_last (f->cpu,
        f->scratch->last + (gsize)first * f->net->channels[last + 1],
        end - first, f->scratch->pcm + first);
  }
  mimi_cpu_wait (f);
}
