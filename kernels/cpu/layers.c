/* Upsampling, transformer and first convolution, time-major: for networks of
 * few positions a frame.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "frame.h"

/* The depthwise transposed convolution: position t of the frame is this
 * vector times one set of factors and the previous one times another. */
static void
upsample (const MimiCpuFrame *f, gfloat *x)
{
  guint width = f->net->width, n = f->net->upsample, first, end;

  mimi_cpu_share (&f->share, n, &first, &end);
  for (guint t = first; t < end; t++)
    for (guint c = 0; c < width; c++)
      x[t * width + c] =
          f->scratch->quantized[c] * f->cpu->upsample[t * width + c] +
          f->state->upsample[c] * f->cpu->upsample[(t + n) * width + c];
}

static void
run_layer (const MimiCpuFrame *f, guint index, gfloat *x)
{
  const MimiCpuLayer *layer = &f->cpu->layers[index];
  const MimiCpuScratch *s = f->scratch;
  guint width = f->net->width, rows = f->net->upsample;
  gfloat eps = (gfloat)f->net->norm_eps, bad;
  MimiCpuGemm gemm = { .rows = rows };

  bad = mimi_cpu_layer_norm (x, rows, width, layer->norm1_weight,
      layer->norm1_bias, eps, s->normed, f->share);
  mimi_cpu_wait (f);
  gemm.w = &layer->in_proj;
  gemm.x = s->normed;
  gemm.x_stride = width;
  gemm.y = s->qkv;
  gemm.y_stride = 3 * width;
  gemm.epilogue = MIMI_CPU_STORE;
  mimi_cpu_gemm (&gemm, f->share);
  mimi_cpu_wait (f);
  bad += mimi_cpu_attention (f->slot, index, f->share);
  mimi_cpu_wait (f);
  gemm.w = &layer->out_proj;
  gemm.x = s->mixed;
  gemm.y = x;
  gemm.y_stride = width;
  gemm.epilogue = MIMI_CPU_SCALE_ADD;
  gemm.scale = layer->scale1;
  mimi_cpu_gemm (&gemm, f->share);
  mimi_cpu_wait (f);
  mimi_cpu_trace (f, "layer", index, "-attention", x, rows, width);

  bad += mimi_cpu_layer_norm (x, rows, width, layer->norm2_weight,
      layer->norm2_bias, eps, s->normed, f->share);
  mimi_cpu_wait (f);
  gemm.w = &layer->linear1;
  gemm.x = s->normed;
  gemm.y = s->hidden;
  gemm.y_stride = f->net->ffn;
  gemm.epilogue =
      f->net->gelu == MIMI_GELU_TANH ? MIMI_CPU_GELU_TANH : MIMI_CPU_GELU_ERF;
  mimi_cpu_gemm (&gemm, f->share);
  mimi_cpu_wait (f);
  gemm.w = &layer->linear2;
  gemm.x = s->hidden;
  gemm.x_stride = f->net->ffn;
  gemm.y = x;
  gemm.y_stride = width;
  gemm.epilogue = MIMI_CPU_SCALE_ADD;
  gemm.scale = layer->scale2;
  mimi_cpu_gemm (&gemm, f->share);
  mimi_cpu_wait (f);
  mimi_cpu_trace (f, "layer", index, "-ffn", x, rows, width);
  mimi_cpu_judge (f, bad);
}

void
mimi_cpu_layers (const MimiCpuFrame *f)
{
  const MimiNetwork *net = f->net;
  MimiCpuScratch *s = f->scratch;
  gfloat *x = s->x + (net->first_kernel - 1) * net->width;
  guint times = net->upsample;
  MimiCpuGemm first = { .w = &f->cpu->first,
    .x = s->x,
    .x_stride = net->width,
    .rows = times,
    .y = s->up[0] + net->channels[0],
    .y_stride = net->channels[0],
    .epilogue = MIMI_CPU_ELU,
    .raw = f->slot->trace ? s->raw : NULL };

  upsample (f, x);
  mimi_cpu_wait (f);
  mimi_cpu_trace (f, "upsampled", -1, "", x, times, net->width);
  for (guint i = 0; i < net->layers; i++)
    run_layer (f, i, x);
  mimi_cpu_gemm (&first, f->share);
  mimi_cpu_wait (f);
  mimi_cpu_trace (f, "conv0", -1, "", s->raw, times, net->channels[0]);
}
