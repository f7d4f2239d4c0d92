/* A model's weights, laid out for the kernels, on the device.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "pack.h"

#include <math.h>
#include <string.h>

#define ALIGNMENT 256

/* Everything is put together on the host and goes up in one copy: until then
 * an address is an offset. */
typedef struct {
  guint8 *bytes;
  gsize length, room;
  gboolean failed; /* no memory; the sizes of arrays are the file's */
  MimiCudaStorage transformer, convolutions;
  gboolean matrix;
} Pack;

static CUdeviceptr
put (Pack *pack, gconstpointer data, gsize size)
{
  gsize offset = (pack->length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

  if (offset + size > pack->room) {
    gsize room = MAX (offset + size, 2 * pack->room);
    guint8 *bytes = g_try_realloc (pack->bytes, room);

    pack->failed |= bytes == NULL;
    pack->bytes = bytes ? bytes : pack->bytes;
    pack->room = bytes ? room : pack->room;
  }
  if (pack->failed)
    return 0;
  memset (pack->bytes + pack->length, 0, offset - pack->length);
  memcpy (pack->bytes + offset, data, size);
  pack->length = offset + size;
  return offset;
}

/* Zeroed; NULL, as whatever failed before: nothing more is put. */
static gpointer
new_array (Pack *pack, gsize n, gsize size)
{
  gpointer values = pack->failed ? NULL : g_try_malloc0_n (n, size);

  pack->failed |= values == NULL;
  return values;
}

static gfloat *
new_values (Pack *pack, gsize n)
{
  return new_array (pack, n, sizeof (gfloat));
}

static gfloat *
read_all (Pack *pack, const MimiTensor *tensor)
{
  guint64 n = mimi_tensor_get_length (tensor);
  gfloat *values = new_values (pack, n);

  if (values)
    mimi_tensor_read (tensor, 0, n, values);
  return values;
}

static CUdeviceptr
put_vector (Pack *pack, const MimiTensor *tensor)
{
  gfloat *values = read_all (pack, tensor);
  CUdeviceptr offset =
      put (pack, values, mimi_tensor_get_length (tensor) * sizeof *values);

  g_free (values);
  return offset;
}

static CUdeviceptr
put_pair (Pack *pack, const MimiTensor *a, const MimiTensor *b)
{
  guint64 n = mimi_tensor_get_length (a);
  gfloat *values = new_values (pack, 2 * n);
  CUdeviceptr offset;

  if (!values)
    return 0;
  mimi_tensor_read (a, 0, n, values);
  mimi_tensor_read (b, 0, n, values + n);
  offset = put (pack, values, 2 * n * sizeof *values);
  g_free (values);
  return offset;
}

/* The nearest bf16, ties to even; values are finite. */
static guint16
to_bf16 (gfloat x)
{
  guint32 bits;

  memcpy (&bits, &x, 4);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* The nearest tf32, ties away from zero: what tensor cores make of a float if
 * they are to round it. */
static gfloat
to_tf32 (gfloat x)
{
  guint32 bits;

  memcpy (&bits, &x, 4);
  bits = (bits + 0x1000) & 0xffffe000;
  memcpy (&x, &bits, 4);
  return x;
}

static CUdeviceptr
put_values (Pack *pack, MimiCudaStorage storage, gfloat *values, gsize n)
{
  CUdeviceptr offset;
  guint16 *halves;
  gsize i;

  if (pack->failed)
    return 0;
  if (storage == MIMI_CUDA_TF32)
    for (i = 0; i < n; i++)
      values[i] = to_tf32 (values[i]);
  if (storage != MIMI_CUDA_BF16)
    return put (pack, values, n * sizeof *values);
  halves = new_array (pack, n, sizeof *halves);
  for (i = 0; halves && i < n; i++)
    halves[i] = to_bf16 (values[i]);
  offset = put (pack, halves, n * sizeof *halves);
  g_free (halves);
  return offset;
}

/* Where a weight goes: see lanes.cuh and matrix.cuh. */
static gsize
place (const Pack *pack, gsize inputs, gsize outputs, gsize taps, gsize o,
    gsize i, gsize tap)
{
  gsize steps = (inputs + 7) / 8, lane, which;

  if (!pack->matrix)
    return (i * taps + tap) * ((outputs + 3) / 4 * 4) + o;
  lane = o % 8 * 4 + i % 4;
  which = o / 8 % 2 + i / 4 % 2 * 2;
  return ((((o / 16) * steps + i / 8) * taps + tap) * 32 + lane) * 4 + which;
}

static gsize
places (const Pack *pack, gsize inputs, gsize outputs, gsize taps)
{
  if (!pack->matrix)
    return (inputs + 3) / 4 * 4 * taps * ((outputs + 3) / 4 * 4);
  /* Whoever asks ahead, in steps of 32 inputs, asks for zeros at the end. */
  return ((outputs + 15) / 16 * ((inputs + 7) / 8) + 5) * taps * 128;
}

/* A linear layer or convolution, [output][input][tap] in the file. */
static CUdeviceptr
put_dense (Pack *pack, MimiCudaStorage storage, const MimiTensor *tensor)
{
  gsize outputs = tensor->shape[0], inputs = tensor->shape[1];
  gsize taps = tensor->n_dims > 2 ? tensor->shape[2] : 1;
  gsize n = places (pack, inputs, outputs, taps), o, i, tap;
  gfloat *from = read_all (pack, tensor), *to = new_values (pack, n), *w = from;
  CUdeviceptr offset;

  for (o = 0; o < outputs && !pack->failed; o++)
    for (i = 0; i < inputs; i++)
      for (tap = 0; tap < taps; tap++)
        to[place (pack, inputs, outputs, taps, o, i, tap)] = *w++;
  offset = put_values (pack, storage, to, n);
  g_free (from);
  g_free (to);
  return offset;
}

/* A transposed convolution whose kernel is twice its stride, [input][output]
 * [2 ratio] in the file, as a convolution of two taps: output `phase` of a
 * group of `ratio` is tap 1 of this input and tap 0 of the one before. */
static CUdeviceptr
put_transposed (Pack *pack, const MimiTensor *tensor)
{
  gsize inputs = tensor->shape[0], channels = tensor->shape[1];
  gsize ratio = tensor->shape[2] / 2, outputs = channels * ratio;
  gsize n = places (pack, inputs, outputs, 2), i, c, j;
  gfloat *from = read_all (pack, tensor), *to = new_values (pack, n), *w = from;
  CUdeviceptr offset;

  for (i = 0; i < inputs && !pack->failed; i++)
    for (c = 0; c < channels; c++)
      for (j = 0; j < 2 * ratio; j++)
        to[place (pack, inputs, outputs, 2, c * ratio + j % ratio, i,
            j < ratio ? 1 : 0)] = *w++;
  offset = put_values (pack, pack->convolutions, to, n);
  g_free (from);
  g_free (to);
  return offset;
}

/* A convolution may have no bias: the kernels always add one. */
static CUdeviceptr
put_bias (Pack *pack, const MimiTensor *bias, guint n)
{
  gfloat *zeros;
  CUdeviceptr offset;

  if (mimi_tensor_exists (bias))
    return put_vector (pack, bias);
  zeros = new_values (pack, n);
  offset = put (pack, zeros, n * sizeof *zeros);
  g_free (zeros);
  return offset;
}

static MimiCudaDense
put_conv (Pack *pack, const MimiConv *conv)
{
  MimiCudaDense dense = { put_dense (pack, pack->convolutions, &conv->weight),
    put_bias (pack, &conv->bias, conv->weight.shape[0]) };

  return dense;
}

/* Embeddings, [book][size][dim]: sum / max (usage, 1e-5). */
static CUdeviceptr
put_codebooks (Pack *pack, const MimiWeights *w, const MimiNetwork *n)
{
  gsize size = (gsize)n->codebook_size * n->codebook_dim;
  gfloat *all = new_values (pack, n->codebooks * size);
  gfloat *usage = new_values (pack, n->codebook_size);
  CUdeviceptr offset;
  guint i, j, k;

  for (i = 0; i < n->codebooks && !pack->failed; i++) {
    gfloat *book = all + i * size;
    mimi_tensor_read (&w->codebooks[i].sum, 0, size, book);
    mimi_tensor_read (&w->codebooks[i].usage, 0, n->codebook_size, usage);
    for (j = 0; j < n->codebook_size; j++)
      for (k = 0; k < n->codebook_dim; k++)
        book[j * n->codebook_dim + k] /= MAX (usage[j], 1e-5f);
  }
  offset = put (pack, all, n->codebooks * size * sizeof *all);
  g_free (usage);
  g_free (all);
  return offset;
}

/* Both projections side by side, [width][2 codebook_dim]: a network with one
 * book has zeros for the others. */
static CUdeviceptr
put_projections (Pack *pack, const MimiWeights *w, const MimiNetwork *n)
{
  guint dim = n->codebook_dim, c;
  gfloat *both = new_values (pack, (gsize)n->width * 2 * dim);
  CUdeviceptr offset;

  for (c = 0; both && c < n->width; c++) {
    gfloat *row = both + (gsize)c * 2 * dim;
    mimi_tensor_read (&w->first_proj, (guint64)c * dim, dim, row);
    if (mimi_tensor_exists (&w->rest_proj))
      mimi_tensor_read (&w->rest_proj, (guint64)c * dim, dim, row + dim);
  }
  offset = put (pack, both, (gsize)n->width * 2 * dim * sizeof *both);
  g_free (both);
  return offset;
}

/* How much pair i turns from one position to the next, theta^(-2 i / dim)
 * radians, in units of 2^-64 turns: position times this, modulo 2^64, is the
 * angle, at any position. */
static CUdeviceptr
put_rope (Pack *pack, const MimiNetwork *n)
{
  guint half = n->head_dim / 2, i;
  guint64 *steps = new_array (pack, half, sizeof *steps);
  CUdeviceptr offset;

  for (i = 0; steps && i < half; i++) {
    long double turns = powl (n->rope_theta, -2.0L * i / n->head_dim) /
                        6.283185307179586476925286766559L;
    steps[i] = (guint64)(turns * 18446744073709551616.0L);
  }
  offset = put (pack, steps, half * sizeof *steps);
  g_free (steps);
  return offset;
}

/* Kernels know one kind of weights for all layers: whether all are bf16. */
static gboolean
is_transformer_bf16 (const MimiWeights *w, const MimiNetwork *n)
{
  guint i;

  for (i = 0; i < n->layers; i++)
    if (w->layers[i].in_proj.dtype != MIMI_DTYPE_BF16 ||
        w->layers[i].out_proj.dtype != MIMI_DTYPE_BF16 ||
        w->layers[i].linear1.dtype != MIMI_DTYPE_BF16 ||
        w->layers[i].linear2.dtype != MIMI_DTYPE_BF16)
      return FALSE;
  return TRUE;
}

static gboolean
are_convolutions_bf16 (const MimiWeights *w, const MimiNetwork *n)
{
  guint i;

  for (i = 0; i < n->stages; i++)
    if (w->stages[i].up.weight.dtype != MIMI_DTYPE_BF16 ||
        w->stages[i].res1.weight.dtype != MIMI_DTYPE_BF16 ||
        w->stages[i].res2.weight.dtype != MIMI_DTYPE_BF16)
      return FALSE;
  return w->first.weight.dtype == MIMI_DTYPE_BF16;
}

static MimiCudaStorage
choose_storage (gboolean bf16, MimiPrecision precision, gboolean matrix)
{
  if (bf16 || precision == MIMI_PRECISION_BF16)
    return MIMI_CUDA_BF16;
  /* without tensor cores nothing is gained by it */
  return precision == MIMI_PRECISION_TF32 && matrix ? MIMI_CUDA_TF32
                                                    : MIMI_CUDA_F32;
}

static void
pack_all (Pack *pack, MimiCudaWeights *self, const MimiWeights *w,
    const MimiNetwork *n)
{
  guint i;

  if (mimi_tensor_exists (&w->emb_mean) && mimi_tensor_exists (&w->emb_std)) {
    self->mean = put_vector (pack, &w->emb_mean);
    self->std = put_vector (pack, &w->emb_std);
  }
  if (n->codebooks) {
    self->codebooks = put_codebooks (pack, w, n);
    self->projection = put_projections (pack, w, n);
  } else {
    self->projection = put_vector (pack, &w->latent_proj);
  }
  self->upsample = put_vector (pack, &w->upsample);
  self->rope = put_rope (pack, n);
  for (i = 0; i < n->layers; i++) {
    const MimiLayerWeights *from = &w->layers[i];
    MimiCudaLayer *to = &self->layers[i];

    to->norm1 = put_pair (pack, &from->norm1_weight, &from->norm1_bias);
    to->norm2 = put_pair (pack, &from->norm2_weight, &from->norm2_bias);
    to->qkv.weights = put_dense (pack, pack->transformer, &from->in_proj);
    to->out.weights = put_dense (pack, pack->transformer, &from->out_proj);
    to->out.bias = put_vector (pack, &from->scale1);
    to->ffn1.weights = put_dense (pack, pack->transformer, &from->linear1);
    to->ffn2.weights = put_dense (pack, pack->transformer, &from->linear2);
    to->ffn2.bias = put_vector (pack, &from->scale2);
    if (i > 0)
      self->layer_bytes = to->norm1 - self->layers[i - 1].norm1;
  }
  self->first = put_conv (pack, &w->first);
  for (i = 0; i < n->stages; i++) {
    const MimiStageWeights *from = &w->stages[i];

    self->stages[i].up.weights = put_transposed (pack, &from->up.weight);
    self->stages[i].up.bias =
        put_bias (pack, &from->up.bias, n->channels[i + 1]);
    self->stages[i].res1 = put_conv (pack, &from->res1);
    self->stages[i].res2 = put_conv (pack, &from->res2);
  }
  {
    guint length = n->channels[n->stages] * n->last_kernel;
    gfloat *last = new_values (pack, length + 1);
    if (last)
      mimi_tensor_read (&w->last.weight, 0, length, last);
    if (last && mimi_tensor_exists (&w->last.bias))
      mimi_tensor_read (&w->last.bias, 0, 1, last + length);
    self->last = put (pack, last, (length + 1) * sizeof *last);
    g_free (last);
  }
}

/* Turns every offset into an address. */
static void
relocate (MimiCudaWeights *self, const MimiNetwork *n)
{
  CUdeviceptr base = self->memory;
  guint i;

  self->mean += base;
  self->std += base;
  self->codebooks += base;
  self->projection += base;
  self->upsample += base;
  self->rope += base;
  for (i = 0; i < n->layers; i++) {
    MimiCudaLayer *layer = &self->layers[i];
    layer->norm1 += base;
    layer->norm2 += base;
    layer->qkv.weights += base;
    layer->out.weights += base;
    layer->out.bias += base;
    layer->ffn1.weights += base;
    layer->ffn2.weights += base;
    layer->ffn2.bias += base;
  }
  self->first.weights += base;
  self->first.bias += base;
  for (i = 0; i < n->stages; i++) {
    MimiCudaStage *stage = &self->stages[i];
    stage->up.weights += base;
    stage->up.bias += base;
    stage->res1.weights += base;
    stage->res1.bias += base;
    stage->res2.weights += base;
    stage->res2.bias += base;
  }
  self->last += base;
}

gboolean
mimi_cuda_weights_init (MimiCudaWeights *self, const MimiCuda *cuda,
    const MimiModel *model, MimiPrecision precision, gboolean matrix,
    GError **error)
{
  const MimiNetwork *network = mimi_model_get_network (model);
  const MimiWeights *weights = mimi_model_get_weights (model);
  Pack pack = {
    .transformer = choose_storage (
        is_transformer_bf16 (weights, network), MIMI_PRECISION_FP32, matrix),
    .convolutions = choose_storage (
        are_convolutions_bf16 (weights, network), precision, matrix),
    .matrix = matrix,
  };
  gboolean ok;

  memset (self, 0, sizeof *self);
  self->transformer = pack.transformer;
  self->convolutions = pack.convolutions;
  self->matrix = matrix;
  self->layers = g_new0 (MimiCudaLayer, network->layers);
  pack_all (&pack, self, weights, network);
  self->size = pack.length;

  ok = !pack.failed;
  if (!ok)
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY,
        "%s: no memory to lay its weights out", mimi_model_get_path (model));
  ok = ok && CHECK (cuda, error, MemAlloc, (&self->memory, self->size));
  if (ok)
    relocate (self, network);
  ok = ok &&
       mimi_cuda_upload (cuda, self->memory, pack.bytes, self->size, error);
  g_free (pack.bytes);
  if (!ok)
    mimi_cuda_weights_clear (self, cuda);
  return ok;
}

void
mimi_cuda_weights_clear (MimiCudaWeights *self, const MimiCuda *cuda)
{
  if (self->memory)
    cuda->MemFree (self->memory);
  g_clear_pointer (&self->layers, g_free);
  self->memory = 0;
}
