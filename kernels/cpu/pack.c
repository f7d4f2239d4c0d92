/* Lays the model's weights out for the kernels.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <math.h>
#include <string.h>

#include "cpu.h"

/* Where w[n][k] lies in a tensor: n and k each have an outer and an inner
 * index. */
typedef struct {
  guint n_inner, k_inner;
  gint64 base, n_outer_step, n_inner_step, k_outer_step, k_inner_step;
} Order;

/* Where row n starts, and where k lies in a row. */
static gsize
find_row (Order o, guint n)
{
  return o.base + n / o.n_inner * o.n_outer_step +
         n % o.n_inner * o.n_inner_step;
}

static gint64
find_in_row (Order o, guint k)
{
  return k / o.k_inner * o.k_outer_step + k % o.k_inner * o.k_inner_step;
}

/* Linear layers [n][k]; and convolutions [out][in][taps] with k = [in][tap],
 * which is the same. */
static Order
linear_order (guint k)
{
  return (Order){ 1, k, 0, k, 0, 0, 1 };
}

/* Convolutions [out][in][taps] with k = [tap][in]. */
static Order
conv_order (guint in, guint taps)
{
  return (Order){ 1, in, 0, (gint64)in * taps, 0, 1, taps };
}

/* Transposed convolutions [in][out][2 ratio] are causal convolutions of two
 * taps: y[t ratio + j] = x[t - 1] w[..][j + ratio] + x[t] w[..][j]. n is
 * [j][out]; k is [previous, this][in], or [in][previous, this] if wide. */
static Order
transposed_order (guint in, guint out, guint ratio, gboolean wide)
{
  gint64 step = (gint64)out * 2 * ratio;

  if (wide)
    return (Order){ out, 2, ratio, 1, 2 * ratio, step, -(gint64)ratio };
  return (Order){ out, in, ratio, 1, 2 * ratio, -(gint64)ratio, step };
}

/* Panels of 16, or of `rows` for the layers of 16 positions: sixes, and where
 * they would waste more than padding by one, one or two fours. */
static void
divide (MimiCpuMatrix *m, guint rows)
{
  m->fours = 0;
  m->sixes = (m->n + rows - 1) / rows;
  if (rows == 6 && m->n > 2) {
    guint left = (m->n + m->n % 2) % 6;

    m->fours = left == 4 ? 1 : left == 2 ? 2 : 0;
    m->sixes = (m->n + m->n % 2 - 4 * m->fours) / 6;
  }
}

/* For `rows`: panels of 16 for products of at most two positions, which wait for
 * memory: bfloat16 stays so, half the bytes, and is widened on the way, which
 * is exact. Elsewhere memory is no limit, and widening would cost time. */
#define FEW 0

static void
put (MimiCpuMatrix *m, gsize index, gfloat value)
{
  guint32 bits;

  if (m->bf16) {
    memcpy (&bits, &value, sizeof bits);
    ((guint16 *)m->panels)[index] = (guint16)(bits >> 16);
  } else {
    ((gfloat *)m->panels)[index] = value;
  }
}

static void
pack_values (MimiCpuArena *arena, MimiCpuMatrix *m, guint rows, guint n,
    guint k, const gfloat *values, Order o)
{
  guint whole;
  gsize size;

  m->n = n;
  m->k = k;
  m->few = rows == FEW;
  rows = rows == FEW ? 16 : rows;
  divide (m, rows);
  whole = m->sixes * rows;
  size = (gsize)(whole + 4 * m->fours) * k;
  m->panels = mimi_cpu_arena_take (arena, m->bf16 ? (size + 1) / 2 : size);
  if (m->panels == NULL || values == NULL)
    return;
  for (guint i = 0; i < n; i++) {
    guint height = i < whole ? rows : 4;
    guint at = i < whole ? i % rows : (i - whole) % 4;
    gsize panel = (gsize)(i - at) * k;
    const gfloat *row = values + find_row (o, i);

    for (guint j = 0; j < k; j++) {
      guint in_block = m->few ? j % MIMI_CPU_BLOCK_K : j;
      gsize block =
          m->few ? mimi_cpu_few_index (m, i / 16, j - in_block) : panel;

      put (m, block + (gsize)in_block * height + at, row[find_in_row (o, j)]);
    }
  }
}

/* How large it is a file says: NULL where there is no memory. */
static gfloat *
new_values (MimiCpuArena *arena, gsize n)
{
  gfloat *values = g_try_new (gfloat, n);

  arena->failed |= values == NULL;
  return values;
}

static gfloat *
read_tensor (MimiCpuArena *arena, const MimiTensor *t)
{
  guint64 n = mimi_tensor_get_length (t);
  gfloat *values = new_values (arena, n);

  if (values)
    mimi_tensor_read (t, 0, n, values);
  return values;
}

static void
pack_tensor (MimiCpuArena *arena, MimiCpuMatrix *m, guint rows, guint n,
    guint k, const MimiTensor *t, Order order)
{
  gfloat *values = arena->base ? read_tensor (arena, t) : NULL;

  m->bf16 = rows == FEW && t->dtype == MIMI_DTYPE_BF16;
  pack_values (arena, m, rows, n, k, values, order);
  g_free (values);
}

/* A filter of 2 outputs has half as many weights again for 2 taps and a third
 * for 3, one of 4 outputs has 2.5 times and twice as many. Of few positions each
 * weight comes from memory, so that the smaller one pays; of one or two, none. */
static MimiCpuFilter
choose_filter (guint taps, guint times)
{
  if (times <= 2 || taps < 2 || taps > 3)
    return MIMI_CPU_DIRECT;
  if (taps == 2)
    return times <= 16 ? MIMI_CPU_F22 : MIMI_CPU_F42;
  return times <= 16 ? MIMI_CPU_F23 : MIMI_CPU_F43;
}

/* A convolution of `taps`, k = [tap][in], or its filter's products. */
static void
pack_filter (MimiCpuArena *arena, MimiCpuMatrix *m, guint rows,
    MimiCpuFilter filter, guint n, guint in, guint taps, const MimiTensor *t,
    Order o)
{
  guint products = mimi_cpu_filter_products (filter);
  gfloat *values = NULL, *sums = NULL;

  if (filter == MIMI_CPU_DIRECT) {
    pack_tensor (arena, m, rows, n, in * taps, t, o);
    return;
  }
  if (arena->base) {
    values = read_tensor (arena, t);
    sums = new_values (arena, (gsize)n * products * in);
    for (gsize i = 0; i < (gsize)n * in && !arena->failed; i++) {
      guint row = i / in, c = i % in;
      gfloat g[3];

      for (guint tap = 0; tap < taps; tap++)
        g[tap] = values[find_row (o, row) + find_in_row (o, tap * in + c)];
      for (guint p = 0; p < products; p++)
        sums[((gsize)row * products + p) * in + c] =
            mimi_cpu_filter_weight (filter, p, g);
    }
  }
  m->filter = filter;
  pack_values (
      arena, m, rows, n, products * in, sums, linear_order (products * in));
  g_free (values);
  g_free (sums);
}

static gfloat *
pack_vector (MimiCpuArena *arena, const MimiTensor *t)
{
  gfloat *v;

  if (!mimi_tensor_exists (t))
    return NULL;
  v = mimi_cpu_arena_take (arena, mimi_tensor_get_length (t));
  if (v)
    mimi_tensor_read (t, 0, mimi_tensor_get_length (t), v);
  return v;
}

/* A bias for each of `repeat` copies of the outputs. */
static gfloat *
pack_bias (
    MimiCpuArena *arena, const MimiTensor *t, guint channels, guint repeat)
{
  gfloat *bias;

  if (!mimi_tensor_exists (t))
    return NULL;
  bias = mimi_cpu_arena_take (arena, (channels * repeat + 15) / 16 * 16);
  if (bias)
    for (guint i = 0; i < repeat; i++)
      mimi_tensor_read (t, 0, channels, bias + (gsize)i * channels);
  return bias;
}

static void
pack_conv (MimiCpuArena *arena, MimiCpuMatrix *m, guint rows, guint out,
    guint in, guint taps, MimiCpuFilter filter, const MimiConv *conv)
{
  pack_filter (arena, m, rows, filter, out, in, taps, &conv->weight,
      conv_order (in, taps));
  m->bias = pack_bias (arena, &conv->bias, out, 1);
}

static void
pack_layer (MimiCpuArena *arena, MimiCpuLayer *layer,
    const MimiLayerWeights *from, const MimiNetwork *net, guint rows)
{
  guint width = net->width, ffn = net->ffn;

  layer->norm1_weight = pack_vector (arena, &from->norm1_weight);
  layer->norm1_bias = pack_vector (arena, &from->norm1_bias);
  layer->norm2_weight = pack_vector (arena, &from->norm2_weight);
  layer->norm2_bias = pack_vector (arena, &from->norm2_bias);
  layer->scale1 = pack_vector (arena, &from->scale1);
  layer->scale2 = pack_vector (arena, &from->scale2);
  pack_tensor (arena, &layer->in_proj, rows, 3 * width, width, &from->in_proj,
      linear_order (width));
  pack_tensor (arena, &layer->out_proj, rows, width, width, &from->out_proj,
      linear_order (width));
  pack_tensor (arena, &layer->linear1, rows, ffn, width, &from->linear1,
      linear_order (width));
  pack_tensor (arena, &layer->linear2, rows, width, ffn, &from->linear2,
      linear_order (ffn));
}

/* The embeddings, and both projections side by side. */
static void
pack_codebooks (MimiCpu *cpu, const MimiWeights *w)
{
  MimiCpuArena *arena = &cpu->arena;
  const MimiNetwork *net = &cpu->net;
  guint dim = net->codebook_dim, width = net->width;
  gboolean filling = arena->base != NULL;
  gfloat *proj = NULL;

  for (guint i = 0; i < net->codebooks; i++) {
    gfloat *usage = NULL;

    cpu->books[i] = pack_vector (arena, &w->codebooks[i].sum);
    if (!filling)
      continue;
    usage = read_tensor (arena, &w->codebooks[i].usage);
    for (guint row = 0; usage && row < net->codebook_size; row++)
      for (guint c = 0; c < dim; c++)
        cpu->books[i][(gsize)row * dim + c] /= MAX (usage[row], 1e-5f);
    g_free (usage);
  }
  if (filling) {
    proj = new_values (arena, (gsize)width * 2 * dim);
    for (guint n = 0; proj && n < width; n++) {
      gfloat *row = proj + (gsize)n * 2 * dim;

      memset (row + dim, 0, dim * sizeof *row);
      mimi_tensor_read (&w->first_proj, (guint64)n * dim, dim, row);
      if (mimi_tensor_exists (&w->rest_proj))
        mimi_tensor_read (&w->rest_proj, (guint64)n * dim, dim, row + dim);
    }
  }
  cpu->code_proj.bf16 = w->first_proj.dtype == MIMI_DTYPE_BF16 &&
                        (!mimi_tensor_exists (&w->rest_proj) ||
                            w->rest_proj.dtype == MIMI_DTYPE_BF16);
  pack_values (arena, &cpu->code_proj, FEW, width, 2 * dim, proj,
      linear_order (2 * dim));
  g_free (proj);
}

static void
pack_upsample (MimiCpu *cpu, const MimiWeights *w)
{
  guint width = cpu->net.width, taps = 2 * cpu->net.upsample;
  gfloat *values;

  cpu->upsample = mimi_cpu_arena_take (&cpu->arena, (gsize)taps * width);
  if (cpu->upsample == NULL)
    return;
  values = read_tensor (&cpu->arena, &w->upsample);
  if (values == NULL)
    return;
  if (cpu->wide)
    memcpy (cpu->upsample, values, (gsize)taps * width * sizeof (gfloat));
  else
    for (guint c = 0; c < width; c++)
      for (guint t = 0; t < taps; t++)
        cpu->upsample[(gsize)t * width + c] = values[(gsize)c * taps + t];
  g_free (values);
}

static void
pack_last (MimiCpu *cpu, const MimiWeights *w)
{
  guint taps = cpu->net.last_kernel, in = cpu->net.channels[cpu->net.stages];
  gfloat *values;

  cpu->last = mimi_cpu_arena_take (&cpu->arena, (gsize)taps * in);
  if (cpu->last == NULL)
    return;
  values = read_tensor (&cpu->arena, &w->last.weight);
  if (values == NULL)
    return;
  for (guint c = 0; c < in; c++)
    for (guint t = 0; t < taps; t++)
      cpu->last[(gsize)t * in + c] = values[(gsize)c * taps + t];
  g_free (values);
  if (mimi_tensor_exists (&w->last.bias))
    mimi_tensor_read (&w->last.bias, 0, 1, &cpu->last_bias);
}

#define HIDDEN -1e30f /* a score whose weight comes out as nothing */

/* Key j of a block `distance` positions older than query t's is t - j further
 * back. */
static void
pack_masks (MimiCpu *cpu)
{
  const gint window = (gint)cpu->net.window, oldest = (gint)cpu->blocks - 1;
  const gint distances[3] = { 0, oldest * 16, (oldest - 1) * 16 };
  gfloat *mask = mimi_cpu_arena_take (&cpu->arena, 3 * 256);

  cpu->masks = mask;
  if (mask == NULL)
    return;
  for (gint b = 0; b < 3; b++)
    for (gint j = 0; j < 16; j++)
      for (gint t = 0; t < 16; t++) {
        gint back = distances[b] + t - j;

        *mask++ = back >= 0 && back < window ? G_MAXFLOAT : HIDDEN;
      }
  /* the first query sees furthest back */
  cpu->skip = (guint)MAX (oldest * 16 - (window - 1), 0) / 4 * 4;
}

static void
pack_all (MimiCpu *cpu, const MimiWeights *w)
{
  const MimiNetwork *net = &cpu->net;
  MimiCpuArena *arena = &cpu->arena;
  guint rows = cpu->wide ? cpu->kernels->rows16 : net->upsample <= 2 ? FEW : 16;
  guint times = net->upsample;

  cpu->mean = pack_vector (arena, &w->emb_mean);
  cpu->std = pack_vector (arena, &w->emb_std);
  if (net->latent_dim)
    pack_tensor (arena, &cpu->latent_proj, FEW, net->width, net->latent_dim,
        &w->latent_proj, linear_order (net->latent_dim));
  if (net->codebooks)
    pack_codebooks (cpu, w);
  pack_upsample (cpu, w);
  for (guint i = 0; i < net->layers; i++)
    pack_layer (arena, &cpu->layers[i], &w->layers[i], net, rows);
  if (cpu->wide) {
    guint k = net->width * net->first_kernel;

    pack_tensor (arena, &cpu->first, rows, net->channels[0], k,
        &w->first.weight, linear_order (k));
    cpu->first.bias = pack_bias (arena, &w->first.bias, net->channels[0], 1);
  } else {
    pack_conv (arena, &cpu->first, rows, net->channels[0], net->width,
        net->first_kernel, MIMI_CPU_DIRECT, &w->first);
  }
  for (guint i = 0; i < net->stages; i++) {
    MimiCpuStage *stage = &cpu->stages[i];
    const MimiStageWeights *from = &w->stages[i];
    guint in = net->channels[i], out = net->channels[i + 1];
    guint ratio = net->ratios[i];

    gboolean wide = cpu->wide && i == 0;

    pack_filter (arena, &stage->up, i == 0 ? rows : 16,
        wide ? MIMI_CPU_DIRECT : choose_filter (2, times), out * ratio, in, 2,
        &from->up.weight, transposed_order (in, out, ratio, wide));
    stage->up.bias = pack_bias (arena, &from->up.bias, out, ratio);
    times *= ratio;
    pack_conv (arena, &stage->res1, 16, net->hidden[i], out,
        net->residual_kernel, choose_filter (net->residual_kernel, times),
        &from->res1);
    pack_conv (arena, &stage->res2, 16, out, net->hidden[i], 1, MIMI_CPU_DIRECT,
        &from->res2);
  }
  pack_last (cpu, w);
  if (cpu->wide)
    pack_masks (cpu);
}

gboolean
mimi_cpu_pack (MimiCpu *cpu, MimiModel *model, GError **error)
{
  const MimiWeights *w = mimi_model_get_weights (model);
  guint pairs = cpu->net.head_dim / 2;

  cpu->layers = g_new0 (MimiCpuLayer, cpu->net.layers);
  cpu->frequencies = g_new (gdouble, pairs);
  cpu->turns = g_new (gdouble, pairs * cpu->net.upsample * 2);
  for (guint i = 0, at = 0; i < pairs; i++) {
    cpu->frequencies[i] =
        pow (cpu->net.rope_theta, -2.0 * i / cpu->net.head_dim);
    for (guint t = 0; t < cpu->net.upsample; t++) {
      cpu->turns[at++] = cos (t * cpu->frequencies[i]);
      cpu->turns[at++] = sin (t * cpu->frequencies[i]);
    }
  }
  pack_all (cpu, w);
  if (!mimi_cpu_arena_open (&cpu->arena, TRUE, "the weights", error))
    return FALSE;
  pack_all (cpu, w);
  if (!cpu->arena.failed)
    return TRUE;
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY,
      "%s: no memory to lay its weights out", mimi_model_get_path (model));
  return FALSE;
}

void
mimi_cpu_unpack (MimiCpu *cpu)
{
  mimi_cpu_arena_close (&cpu->arena);
  g_free (cpu->layers);
  g_free (cpu->frequencies);
  g_free (cpu->turns);
}
