/* Everything that has 16 positions a frame, [channel][16]: upsampling,
 * transformer, first convolution, first transposed convolution.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "frame.h"
#include "vmath.h"

/* The depthwise transposed convolution: a channel's 16 positions are its value
 * times one set of factors and its previous value times another. */
static void
upsample (const MimiCpuFrame *f, gfloat *x)
{
  guint first, end;

  mimi_cpu_share (&f->share, f->net->width, &first, &end);
  for (guint c = first; c < end; c++) {
    const gfloat *w = f->cpu->upsample + c * 32;
    vf now = v_set1 (f->scratch->quantized[c]);
    vf before = v_set1 (f->state->upsample[c]);

    UNROLL for (guint v = 0; v < VG; v++) v_store (x + c * 16 + v * VL,
        v_fma (now, v_load (w + v * VL), before * v_load (w + 16 + v * VL)));
  }
}

static void
run_layer (const MimiCpuFrame *f, guint index, gfloat *x)
{
  const MimiCpuLayer *layer = &f->cpu->layers[index];
  const MimiCpuScratch *s = f->scratch;
  guint width = f->net->width;
  gfloat eps = (gfloat)f->net->norm_eps, bad;
  /* each thread norms all for itself: cheaper than waiting for the others */
  gfloat *normed = s->normed + (gsize)f->share.thread * width * 16;
  MimiCpuGemm16 gemm = { .x_stride = 16, .taps = 1, .y_stride = 16 };

  bad = mimi_cpu_layer_norm16 (
      x, width, layer->norm1_weight, layer->norm1_bias, eps, normed);
  gemm.w = &layer->in_proj;
  gemm.x = normed;
  gemm.y = s->qkv;
  gemm.epilogue = MIMI_CPU_STORE;
  mimi_cpu_gemm16 (&gemm, f->share);
  mimi_cpu_wait (f);
  bad += mimi_cpu_attention16 (f->slot, index, f->share);
  mimi_cpu_wait (f);
  gemm.w = &layer->out_proj;
  gemm.x = s->mixed;
  gemm.y = x;
  gemm.epilogue = MIMI_CPU_SCALE_ADD;
  gemm.scale = layer->scale1;
  mimi_cpu_gemm16 (&gemm, f->share);
  mimi_cpu_wait (f);
  mimi_cpu_trace16 (f, "layer", index, "-attention", x, width);

  bad += mimi_cpu_layer_norm16 (
      x, width, layer->norm2_weight, layer->norm2_bias, eps, normed);
  gemm.w = &layer->linear1;
  gemm.x = normed;
  gemm.y = s->hidden;
  gemm.epilogue =
      f->net->gelu == MIMI_GELU_TANH ? MIMI_CPU_GELU_TANH : MIMI_CPU_GELU_ERF;
  mimi_cpu_gemm16 (&gemm, f->share);
  mimi_cpu_wait (f);
  gemm.w = &layer->linear2;
  gemm.x = s->hidden;
  gemm.y = x;
  gemm.epilogue = MIMI_CPU_SCALE_ADD;
  gemm.scale = layer->scale2;
  mimi_cpu_gemm16 (&gemm, f->share);
  mimi_cpu_wait (f);
  mimi_cpu_trace16 (f, "layer", index, "-ffn", x, width);
  mimi_cpu_judge (f, bad);
}

/* [ratio][channel][16] -> [16 ratio][channel], as it is and as ELU. */
static void
spread (const MimiCpuFrame *f, const gfloat *from, gfloat *raw, gfloat *elu)
{
  guint channels = f->net->channels[1], ratio = f->net->ratios[0], first, end;

  mimi_cpu_share (&f->share, (channels + 15) / 16, &first, &end);
  for (guint c = first * 16; c < MIN (end * 16, channels); c += 16) {
    guint valid = MIN (16, channels - c);

    for (guint j = 0; j < ratio; j++) {
      const gfloat *block = from + ((gsize)j * channels + c) * 16;
      gfloat turned[16 * 16] __attribute__ ((aligned (64)));

      for (guint i = 0; i < valid; i++)
        for (guint t = 0; t < 16; t++)
          turned[t * 16 + i] = block[i * 16 + t];
      for (guint t = 0; t < 16; t++) {
        gsize at = ((gsize)t * ratio + j) * channels + c;

        for (guint v = 0; v * VL < valid; v++) {
          guint part = MIN (VL, valid - v * VL);
          vf x = v_load (turned + t * 16 + v * VL);

          v_store_part (raw + at + v * VL, x, part);
          v_store_part (elu + at + v * VL, v_elu (x), part);
        }
      }
    }
  }
}

void
mimi_cpu_layers16 (const MimiCpuFrame *f)
{
  const MimiNetwork *net = f->net;
  MimiCpuScratch *s = f->scratch;
  gfloat *raw = f->slot->trace ? s->raw : NULL;
  MimiCpuGemm16 gemm = { .w = &f->cpu->first,
    .x = s->first + MIMI_CPU_HALO16 - (net->first_kernel - 1),
    .x_stride = MIMI_CPU_STRIDE16,
    .taps = net->first_kernel,
    .y = s->up[0] + MIMI_CPU_HALO16,
    .y_stride = MIMI_CPU_STRIDE16,
    .epilogue = MIMI_CPU_ELU,
    .raw = raw };

  upsample (f, s->x);
  mimi_cpu_wait (f);
  mimi_cpu_trace16 (f, "upsampled", -1, "", s->x, net->width);
  for (guint i = 0; i < net->layers; i++)
    run_layer (f, i, s->x);

  if (f->share.thread == 0)
    for (guint c = 0; c < net->width; c++)
      mimi_cpu_copy (s->first + c * MIMI_CPU_STRIDE16 + MIMI_CPU_HALO16,
          s->x + c * 16, 16);
  mimi_cpu_wait (f);
  mimi_cpu_gemm16 (&gemm, f->share);
  mimi_cpu_wait (f);
  mimi_cpu_trace16 (f, "conv0", -1, "", raw, net->channels[0]);

  gemm = (MimiCpuGemm16){ .w = &f->cpu->stages[0].up,
    .x = s->up[0] + MIMI_CPU_HALO16 - 1,
    .x_stride = MIMI_CPU_STRIDE16,
    .taps = 2,
    .y = s->raised,
    .y_stride = 16,
    .epilogue = MIMI_CPU_STORE };
  mimi_cpu_gemm16 (&gemm, f->share);
  mimi_cpu_wait (f);
  spread (f, s->raised, s->res_raw[0],
      s->res[0] + (net->residual_kernel - 1) * net->channels[1]);
  mimi_cpu_wait (f);
}
