/* The stages that raise the rate to 24 kHz, time-major.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "frame.h"

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
    .raw = s->res_raw[i] };

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
    .epilogue = MIMI_CPU_ELU };
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

void
mimi_cpu_stages (const MimiCpuFrame *f)
{
  guint times = f->net->upsample;

  for (guint i = 0; i < f->net->stages; i++)
    times = run_stage (f, i, times);
  mimi_cpu_last (f->slot, f->share);
  mimi_cpu_wait (f);
}
