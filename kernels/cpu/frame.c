/* One frame, from a row of input to PCM, as every thread of a team runs it.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Every step is shared out (MimiCpuShare), and a wait stands wherever a step
 * reads what another thread may have written. Small steps are done by thread 0.
 */
#include <math.h>

#include "kernels.h"
#include "simd.h"

typedef struct {
  MimiCpuSlot *slot;
  const MimiCpu *cpu;
  const MimiNetwork *net;
  MimiCpuState *state;
  MimiCpuScratch *scratch;
  MimiCpuShare share;
} Frame;

static void
wait_all (const Frame *f)
{
  if (f->share.threads > 1)
    mimi_cpu_team_wait (f->slot->team);
}

static void
trace (const Frame *f, const gchar *name, gint number, const gchar *suffix,
    const gfloat *x, guint times, guint channels)
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

static void
copy (gfloat *to, const gfloat *from, gsize n)
{
  memcpy (to, from, n * sizeof (gfloat));
}

/* Cosines and sines of this frame's positions. The angle of the first is
 * formed in double from the absolute position, the others by turning it on:
 * right for streams that run for weeks. */
static void
find_angles (const Frame *f)
{
  guint pairs = f->net->head_dim / 2;

  for (guint i = 0; i < pairs; i++)
    for (guint t = 0; t < f->net->upsample; t++) {
      gdouble a = (gdouble)(f->state->position + t) * f->cpu->frequencies[i];

      f->scratch->cosines[t * pairs + i] = (gfloat)cos (a);
      f->scratch->sines[t * pairs + i] = (gfloat)sin (a);
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
embed (const Frame *f, const MimiStepItem *item)
{
  const MimiCpu *cpu = f->cpu;
  gfloat *x = f->scratch->embedding;
  MimiCpuGemm gemm = { .x = x, .rows = 1, .y = f->scratch->quantized };
  guint dim = f->net->codebook_dim;

  if (f->share.thread != 0)
    return;
  find_angles (f);
  switch (item->kind) {
    case MIMI_STEP_EMBEDDING:
      copy (f->scratch->quantized, item->values, f->net->width);
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
      copy (x, item->values, f->net->latent_dim);
      gemm.w = &cpu->latent_proj;
      break;
  }
  mimi_cpu_gemm (&gemm, (MimiCpuShare){ 0, 1 });
}

/* The depthwise transposed convolution: position t of the frame is this
 * vector times one set of factors and the previous one times another. */
static void
upsample (const Frame *f, gfloat *x)
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
run_layer (const Frame *f, guint index, gfloat *x)
{
  const MimiCpuLayer *layer = &f->cpu->layers[index];
  const MimiCpuScratch *s = f->scratch;
  guint width = f->net->width, rows = f->net->upsample;
  gfloat eps = (gfloat)f->net->norm_eps, bad;
  MimiCpuGemm gemm = { .rows = rows };

  bad = mimi_cpu_layer_norm (x, rows, width, layer->norm1_weight,
      layer->norm1_bias, eps, s->normed, f->share);
  wait_all (f);
  gemm.w = &layer->in_proj;
  gemm.x = s->normed;
  gemm.x_stride = width;
  gemm.y = s->qkv;
  gemm.y_stride = 3 * width;
  gemm.epilogue = MIMI_CPU_STORE;
  mimi_cpu_gemm (&gemm, f->share);
  wait_all (f);
  bad += mimi_cpu_attention (f->slot, index, f->share);
  wait_all (f);
  gemm.w = &layer->out_proj;
  gemm.x = s->mixed;
  gemm.y = x;
  gemm.y_stride = width;
  gemm.epilogue = MIMI_CPU_SCALE_ADD;
  gemm.scale = layer->scale1;
  mimi_cpu_gemm (&gemm, f->share);
  wait_all (f);
  trace (f, "layer", index, "-attention", x, rows, width);

  bad += mimi_cpu_layer_norm (x, rows, width, layer->norm2_weight,
      layer->norm2_bias, eps, s->normed, f->share);
  wait_all (f);
  gemm.w = &layer->linear1;
  gemm.x = s->normed;
  gemm.y = s->hidden;
  gemm.y_stride = f->net->ffn;
  gemm.epilogue =
      f->net->gelu == MIMI_GELU_TANH ? MIMI_CPU_GELU_TANH : MIMI_CPU_GELU_ERF;
  mimi_cpu_gemm (&gemm, f->share);
  wait_all (f);
  gemm.w = &layer->linear2;
  gemm.x = s->hidden;
  gemm.x_stride = f->net->ffn;
  gemm.y = x;
  gemm.y_stride = width;
  gemm.epilogue = MIMI_CPU_SCALE_ADD;
  gemm.scale = layer->scale2;
  mimi_cpu_gemm (&gemm, f->share);
  wait_all (f);
  trace (f, "layer", index, "-ffn", x, rows, width);
  if (!(bad == 0))
    g_atomic_int_set (&f->slot->bad, TRUE);
}

/* One stage of SEANet: transposed convolution, residual block. In: ELU of the
 * input in scratch->up[i]; out: ELU of the output, in the next stage's input. */
static guint
run_stage (const Frame *f, guint i, guint times)
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

  mimi_cpu_gemm (&gemm, f->share);
  wait_all (f);
  times *= ratio;
  trace (f, "convtr", 2 + 3 * i, "", s->res_raw[i], times, out);
  gemm = (MimiCpuGemm){ .w = &stage->res1,
    .x = s->res[i],
    .x_stride = out,
    .rows = times,
    .y = s->res_mid[i],
    .y_stride = f->net->hidden[i],
    .epilogue = MIMI_CPU_ELU };
  mimi_cpu_gemm (&gemm, f->share);
  wait_all (f);
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
  wait_all (f);
  trace (f, "resblock", 3 + 3 * i, "", raw, times, out);
  return times;
}

/* Puts every layer's memory in front of its input. */
static void
recall (const Frame *f)
{
  const MimiNetwork *net = f->net;
  const MimiCpuState *state = f->state;
  const MimiCpuScratch *s = f->scratch;

  copy (s->x, state->first, (net->first_kernel - 1) * net->width);
  for (guint i = 0; i < net->stages; i++) {
    copy (s->up[i], state->up[i], net->channels[i]);
    copy (s->res[i], state->res[i],
        (net->residual_kernel - 1) * net->channels[i + 1]);
  }
  copy (s->last, state->last,
      (net->last_kernel - 1) * net->channels[net->stages]);
}

/* Keeps the last inputs of every layer for the next frame. */
static void
remember (const Frame *f)
{
  const MimiNetwork *net = f->net;
  MimiCpuState *state = f->state;
  const MimiCpuScratch *s = f->scratch;
  guint times = net->upsample;

  copy (state->upsample, s->quantized, net->width);
  copy (state->first, s->x + times * net->width,
      (net->first_kernel - 1) * net->width);
  for (guint i = 0; i < net->stages; i++) {
    guint out = net->channels[i + 1];

    copy (state->up[i], s->up[i] + (gsize)times * net->channels[i],
        net->channels[i]);
    times *= net->ratios[i];
    copy (state->res[i], s->res[i] + (gsize)times * out,
        (net->residual_kernel - 1) * out);
  }
  copy (state->last, s->last + (gsize)times * net->channels[net->stages],
      (net->last_kernel - 1) * net->channels[net->stages]);
  state->position += net->upsample;
}

void
mimi_cpu_frame (MimiCpuSlot *slot, MimiStepItem *item, guint thread)
{
  const MimiNetwork *net = &slot->cpu->net;
  MimiCpuScratch *s = &slot->scratch;
  const Frame frame = { slot, slot->cpu, net, &slot->state, s,
    { thread, slot->threads } };
  const Frame *f = &frame;
  gfloat *x = s->x + (net->first_kernel - 1) * net->width;
  guint times = net->upsample;
  gfloat *raw = slot->trace ? s->raw : NULL;
  MimiCpuGemm first = { .w = &slot->cpu->first,
    .x = s->x,
    .x_stride = net->width,
    .rows = times,
    .y = s->up[0] + net->channels[0],
    .y_stride = net->channels[0],
    .epilogue = MIMI_CPU_ELU,
    .raw = raw };

  if (thread == 0)
    recall (f);
  embed (f, item);
  wait_all (f);
  trace (f, "quantized", -1, "", s->quantized, 1, net->width);
  upsample (f, x);
  wait_all (f);
  trace (f, "upsampled", -1, "", x, times, net->width);
  for (guint i = 0; i < net->layers; i++)
    run_layer (f, i, x);
  mimi_cpu_gemm (&first, f->share);
  wait_all (f);
  trace (f, "conv0", -1, "", raw, times, net->channels[0]);
  for (guint i = 0; i < net->stages; i++)
    times = run_stage (f, i, times);
  mimi_cpu_last (slot, f->share);
  wait_all (f);
  if (thread != 0)
    return;
  remember (f);
  if (!(mimi_cpu_check (slot->state.memory, slot->state.memory_length) +
              mimi_cpu_check (s->pcm, MIMI_FRAME_SAMPLES) ==
          0))
    slot->bad = TRUE;
}
