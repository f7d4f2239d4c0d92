/* How a frame flows through the kernels.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "frame.h"

#include <string.h>

/* The image, embedded by fatbin.py. */
extern const guint8 mimi_cuda_image[];

/* %s: how the weights are stored; %u: channels of a head, taps. */
static const gchar *const kernel_names[MIMI_CUDA_N_KERNELS] = {
  [MIMI_CUDA_INPUT] = "mimi_input",
  [MIMI_CUDA_FRONT] = "mimi_front",
  [MIMI_CUDA_QKV] = "mimi_qkv",
  [MIMI_CUDA_ATTENTION] = "mimi_attention",
  [MIMI_CUDA_PROJECT] = "mimi_project",
  [MIMI_CUDA_EXPAND] = "mimi_expand",
  [MIMI_CUDA_FIRST] = "mimi_first",
  [MIMI_CUDA_UP] = "mimi_up",
  [MIMI_CUDA_RESIDUAL] = "mimi_residual",
  [MIMI_CUDA_SKIP] = "mimi_skip",
  [MIMI_CUDA_OUTPUT] = "mimi_output",
};

static gboolean
refuse (GError **error, const gchar *what, guint value, const gchar *can)
{
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_UNSUPPORTED,
      "the CUDA backend cannot decode this network: %s is %u, and it can do "
      "%s; use the CPU",
      what, value, can);
  return FALSE;
}

gboolean
mimi_cuda_frame_check (const MimiNetwork *n, GError **error)
{
  guint times = n->upsample, i;

  if (n->head_dim != 32 && n->head_dim != 64)
    return refuse (error, "the size of a head", n->head_dim, "32 and 64");
  if (n->window < 1 || n->window > MIMI_CUDA_MAX_WINDOW)
    return refuse (error, "the window", n->window, "1 to 512");
  if (n->first_kernel != 3 && n->first_kernel != 7)
    return refuse (error, "the first kernel", n->first_kernel, "3 and 7");
  if (n->residual_kernel != 3)
    return refuse (error, "the residual kernel", n->residual_kernel, "3");
  if (n->last_kernel != 3)
    return refuse (error, "the last kernel", n->last_kernel, "3");
  if (MIMI_CUDA_TILE % n->upsample)
    return refuse (
        error, "positions a frame", n->upsample, "1, 2, 4, 8 and 16");
  for (i = 0; i < n->stages; i++) {
    times *= n->ratios[i];
    if (times > MIMI_CUDA_TILE && times % MIMI_CUDA_TILE)
      return refuse (
          error, "times of a stage", times, "less than 16 or multiples of 16");
  }
  if (times != MIMI_FRAME_SAMPLES)
    return refuse (error, "samples a frame", times, "1920");
  return TRUE;
}

/* Three tf32 products cost three of one float32: it pays where the tensor cores
 * are more than five times as fast at it (A100, Hopper, Blackwell's data center
 * GPUs; not on the smaller ones, nor before Ampere, which has none). One product
 * pays wherever there are any. */
gboolean
mimi_cuda_frame_wants_matrix (
    const MimiCudaDevice *device, MimiPrecision precision)
{
  gint capability = device->major * 10 + device->minor;

  if (precision != MIMI_PRECISION_FP32)
    return capability >= 80;
  return capability == 80 || (capability >= 90 && capability < 120);
}

static guint
take (guint *length, guint n)
{
  guint offset = *length;

  *length += (n + 31) / 32 * 32; /* lines of 128 bytes */
  return offset;
}

static guint
get_tiles (guint times)
{
  return (times + MIMI_CUDA_TILE - 1) / MIMI_CUDA_TILE;
}

/* Two copies of every history: see common.cuh. */
static void
lay_out_state (MimiCudaFrame *self)
{
  const MimiNetwork *n = self->network;
  guint *length = &self->state_length, i;

  /* The oldest position that the first of a frame sees, up to the newest of
   * all, wherever the window begins in a block. */
  self->ring_blocks = (n->window - 1 + MIMI_CUDA_TILE - 1) / MIMI_CUDA_TILE + 1;
  self->front_history = take (length, 2 * n->width);
  self->rings = g_new (guint, n->layers);
  for (i = 0; i < n->layers; i++)
    self->rings[i] =
        take (length, 2 * n->width * self->ring_blocks * MIMI_CUDA_TILE);
  self->first_history = take (length, 2 * n->width * (n->first_kernel - 1));
  for (i = 0; i < n->stages; i++) {
    self->up_history[i] = take (length, 2 * n->channels[i]);
    self->res_history[i] =
        take (length, 2 * n->channels[i + 1] * (n->residual_kernel - 1));
  }
  self->last_history =
      take (length, 2 * n->channels[n->stages] * (n->last_kernel - 1));
}

static void
lay_out_scratch (MimiCudaFrame *self)
{
  const MimiNetwork *n = self->network;
  guint *length = &self->scratch_length, wide = 0, hidden = 0;
  guint times = n->upsample, i;

  self->vector =
      take (length, MAX (n->width, MAX (n->latent_dim, 2 * n->codebook_dim)));
  self->residual = take (length, n->width * MIMI_CUDA_TILE);
  self->query = take (length, n->width * MIMI_CUDA_TILE);
  self->mixed = take (length, n->width * MIMI_CUDA_TILE);
  self->ffn = take (length, n->ffn * MIMI_CUDA_TILE);
  self->first = take (length, n->channels[0] * MIMI_CUDA_TILE);
  for (i = 0; i < n->stages; i++) {
    times *= n->ratios[i];
    wide = MAX (wide, get_tiles (times) * n->channels[i + 1]);
    hidden = MAX (hidden, get_tiles (times) * n->hidden[i]);
  }
  self->wide[0] = take (length, wide * MIMI_CUDA_TILE);
  self->wide[1] = take (length, wide * MIMI_CUDA_TILE);
  self->hidden = take (length, hidden * MIMI_CUDA_TILE);
}

/* See gemm.cu. */
static const gchar *
get_kind (const MimiCudaWeights *weights, MimiPrecision precision)
{
  if (!weights->matrix)
    return weights->bf16 ? "_bf16" : "_f32";
  if (weights->bf16)
    return "_bf16_matrix";
  return precision == MIMI_PRECISION_FP32 ? "_f32_matrix" : "_tf32_matrix";
}

static gboolean
load_kernels (MimiCudaFrame *self, const MimiCudaDevice *device,
    const gchar *kind, GError **error)
{
  const MimiCuda *cuda = self->cuda;
  CUresult result = cuda->ModuleLoadData (&self->module, mimi_cuda_image);
  guint i;

  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
      result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
        "this build has no code that %s (compute capability %d.%d) can run "
        "with this driver: install a newer driver, or build with another CUDA "
        "toolkit",
        device->name, device->major, device->minor);
    return FALSE;
  }
  if (!mimi_cuda_check (cuda, result, "cuModuleLoadData", error))
    return FALSE;
  for (i = 0; i < MIMI_CUDA_N_KERNELS; i++) {
    gchar name[64];
    gint length = g_snprintf (name, sizeof name, "%s", kernel_names[i]);

    if (i == MIMI_CUDA_ATTENTION)
      g_snprintf (
          name + length, sizeof name - length, "_%u", self->network->head_dim);
    else if (i == MIMI_CUDA_FIRST)
      g_snprintf (name + length, sizeof name - length, "%u%s",
          self->network->first_kernel, kind);
    else if (i != MIMI_CUDA_INPUT && i != MIMI_CUDA_FRONT &&
             i != MIMI_CUDA_OUTPUT)
      g_snprintf (name + length, sizeof name - length, "%s", kind);
    if (!CHECK (cuda, error, ModuleGetFunction,
            (&self->kernels[i], self->module, name)))
      return FALSE;
  }
  return TRUE;
}

gboolean
mimi_cuda_frame_init (MimiCudaFrame *self, const MimiCuda *cuda,
    const MimiCudaDevice *device, const MimiNetwork *network,
    const MimiCudaWeights *weights, MimiPrecision precision, GError **error)
{
  memset (self, 0, sizeof *self);
  self->cuda = cuda;
  self->network = network;
  self->weights = weights;
  self->processors = device->processors;
  self->overlap = device->major >= 9;
  lay_out_state (self);
  lay_out_scratch (self);
  self->row_bytes = MAX (
      MAX (network->width, network->latent_dim) * 4, MIMI_MAX_CODEBOOKS * 2);
  return load_kernels (self, device, get_kind (weights, precision), error);
}

void
mimi_cuda_frame_clear (MimiCudaFrame *self)
{
  if (self->module)
    self->cuda->ModuleUnload (self->module);
  g_clear_pointer (&self->rings, g_free);
  self->module = NULL;
}

/* ------------------------------------------------------------ launches --- */

typedef struct {
  const MimiCudaFrame *frame;
  const MimiCudaBatch *batch;
  CUstream stream;
  GError **error;
} Launch;

static gpointer
scratch (const Launch *l, guint offset)
{
  return (gpointer)(gsize)(l->batch->scratch + 4 * (gsize)offset);
}

static gconstpointer
address (CUdeviceptr pointer)
{
  return (gconstpointer)(gsize)pointer;
}

static gboolean
launch (const Launch *l, MimiCudaKernel kernel, guint x, guint y, guint z,
    gpointer args)
{
  const MimiCuda *cuda = l->frame->cuda;
  gpointer list[] = { args };
  CUlaunchAttribute overlap = {
    .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
    .value.programmatic = 1,
  };
  CUlaunchConfig config = {
    .grid = { x, y, z },
    .block = { MIMI_CUDA_THREADS, 1, 1 },
    .stream = l->stream,
    .attributes = &overlap,
    /* The first kernel has nobody to overlap with. */
    .n_attributes = l->frame->overlap && kernel != MIMI_CUDA_INPUT,
  };

  return mimi_cuda_check (cuda,
      cuda->LaunchKernelEx (&config, l->frame->kernels[kernel], list, NULL),
      kernel_names[kernel], l->error);
}

/* The shape of a dense layer's launch.
 *
 * Rows a block: the most that still give a single stream blocks for half of
 * the GPU and more. It must not depend on the batch, since lanes that share a
 * row's channels sum in another order.
 * Split: a warp a tile, which reads weights once for eight tiles, as soon as
 * that fills the GPU; until then all warps of a block share one tile. */
static gboolean
launch_gemm (const Launch *l, MimiCudaKernel kernel, MimiGemmArgs *args)
{
  guint processors = l->frame->processors, entries = l->batch->entries;
  gboolean matrix = l->frame->weights->matrix;
  /* matrix.cuh has no room for 32 outputs of more than two taps. */
  guint least = matrix ? 4 : 3;
  guint most = !matrix                                                     ? 6
               : kernel == MIMI_CUDA_FIRST || kernel == MIMI_CUDA_RESIDUAL ? 4
                                                                           : 5;
  guint tiles, blocks;

  args->entries = address (l->batch->device_entry);
  args->status = (gpointer)address (l->batch->status);
  args->in_stride = args->out_stride = l->frame->scratch_length;
  args->n_entries = entries;
  args->tiles = get_tiles (args->times);
  if (matrix) {
    args->stride = (args->outputs + 15) / 16 * 16;
    args->part_rows = (args->inputs + 63) / 64 * 8;
  } else {
    args->stride = (args->outputs + 3) / 4 * 4;
    args->part_rows = (args->inputs + 7) / 8;
  }

  for (args->rows_log2 = most; args->rows_log2 > least; args->rows_log2--) {
    blocks = ((args->outputs - 1) >> args->rows_log2) + 1;
    if (blocks * args->tiles * 5 >= processors * 3)
      break;
  }
  blocks = ((args->outputs - 1) >> args->rows_log2) + 1;
  tiles = args->tiles * entries;
  args->split = blocks * (tiles / 8) >= 2 * processors ? 1 : 8;
  return launch (
      l, kernel, blocks, args->split == 1 ? (tiles + 7) / 8 : tiles, 1, args);
}

static MimiGemmArgs
dense (const Launch *l, const MimiCudaDense *weights, guint in, guint inputs,
    guint out, guint outputs, guint times)
{
  MimiGemmArgs args = {
    .weights = address (weights->weights),
    .bias = address (weights->bias),
    .in = scratch (l, in),
    .out = scratch (l, out),
    .inputs = inputs,
    .outputs = outputs,
    .times = times,
    .ratio = 1,
  };

  return args;
}

static gboolean
launch_front (const Launch *l)
{
  const MimiCudaFrame *f = l->frame;
  const MimiNetwork *n = f->network;
  const MimiCudaWeights *w = f->weights;
  MimiInputArgs input = {
    .from = address (l->batch->host_entry),
    .rows = address (l->batch->host_rows),
    .entries = (gpointer)address (l->batch->device_entry),
    .status = (gpointer)address (l->batch->status),
    .vector = scratch (l, f->vector),
    .mean = address (w->mean),
    .std = address (w->std),
    .codebooks = address (w->codebooks),
    .row_bytes = f->row_bytes,
    .vector_stride = f->scratch_length,
    .latent = n->latent_dim,
    .width = n->width,
    .book_size = n->codebook_size,
    .book_dim = n->codebook_dim,
  };
  MimiFrontArgs front = {
    .entries = input.entries,
    .vector = input.vector,
    .projection = address (w->projection),
    .upsample = address (w->upsample),
    .out = scratch (l, f->residual),
    .vector_stride = f->scratch_length,
    .out_stride = f->scratch_length,
    .width = n->width,
    .length = n->codebooks ? 2 * n->codebook_dim : n->latent_dim,
    .times = n->upsample,
    .history = f->front_history,
  };

  return launch (l, MIMI_CUDA_INPUT, l->batch->entries, 1, 1, &input) &&
         launch (l, MIMI_CUDA_FRONT, (n->width + 7) / 8, l->batch->entries, 1,
             &front);
}

/* x += scale1 * attention (norm (x)); x += scale2 * ffn (norm (x)) */
static gboolean
launch_layer (const Launch *l, guint i)
{
  const MimiCudaFrame *f = l->frame;
  const MimiNetwork *n = f->network;
  const MimiCudaLayer *w = &f->weights->layers[i];
  MimiGemmArgs qkv = dense (
      l, &w->qkv, f->residual, n->width, f->query, 3 * n->width, n->upsample);
  MimiGemmArgs out = dense (
      l, &w->out, f->mixed, n->width, f->residual, n->width, n->upsample);
  MimiGemmArgs ffn1 =
      dense (l, &w->ffn1, f->residual, n->width, f->ffn, n->ffn, n->upsample);
  MimiGemmArgs ffn2 =
      dense (l, &w->ffn2, f->ffn, n->ffn, f->residual, n->width, n->upsample);
  MimiAttentionArgs attention = {
    .entries = address (l->batch->device_entry),
    .query = scratch (l, f->query),
    .out = scratch (l, f->mixed),
    .stride = f->scratch_length,
    .heads = n->heads,
    .times = n->upsample,
    .window = n->window,
    .ring = f->rings[i],
    .ring_blocks = f->ring_blocks,
  };

  qkv.norm = address (w->norm1);
  ffn1.norm = address (w->norm2);
  qkv.norm_eps = ffn1.norm_eps = n->norm_eps;
  qkv.rope = address (f->weights->rope);
  qkv.ring = f->rings[i];
  qkv.ring_blocks = f->ring_blocks;
  qkv.head_dim = n->head_dim;
  ffn1.gelu_tanh = n->gelu == MIMI_GELU_TANH;

  return launch_gemm (l, MIMI_CUDA_QKV, &qkv) &&
         launch (l, MIMI_CUDA_ATTENTION, n->heads,
             (n->upsample + MIMI_CUDA_QUERIES - 1) / MIMI_CUDA_QUERIES,
             l->batch->entries, &attention) &&
         launch_gemm (l, MIMI_CUDA_PROJECT, &out) &&
         launch_gemm (l, MIMI_CUDA_EXPAND, &ffn1) &&
         launch_gemm (l, MIMI_CUDA_PROJECT, &ffn2);
}

/* Transposed convolution, then y = elu (x + skip (elu (residual (elu (x))))).
 * Every buffer that ends a stage holds what ELU made of it: only the next
 * convolution reads it. */
static gboolean
launch_stage (const Launch *l, guint i, guint from, guint to, guint *times)
{
  const MimiCudaFrame *f = l->frame;
  const MimiNetwork *n = f->network;
  const MimiCudaStage *w = &f->weights->stages[i];
  guint channels = n->channels[i + 1], later = *times * n->ratios[i];
  MimiGemmArgs up = dense (
      l, &w->up, from, n->channels[i], to, channels * n->ratios[i], *times);
  MimiGemmArgs res1 =
      dense (l, &w->res1, to, channels, f->hidden, n->hidden[i], later);
  MimiGemmArgs res2 =
      dense (l, &w->res2, f->hidden, n->hidden[i], to, channels, later);

  up.ratio = n->ratios[i];
  up.history = f->up_history[i];
  res1.history = f->res_history[i];
  *times = later;
  return launch_gemm (l, MIMI_CUDA_UP, &up) &&
         launch_gemm (l, MIMI_CUDA_RESIDUAL, &res1) &&
         launch_gemm (l, MIMI_CUDA_SKIP, &res2);
}

gboolean
mimi_cuda_frame_launch (const MimiCudaFrame *self, const MimiCudaBatch *batch,
    CUstream stream, GError **error)
{
  Launch l = { self, batch, stream, error };
  const MimiNetwork *n = self->network;
  guint times = n->upsample, from = self->first, i;
  MimiGemmArgs first = dense (&l, &self->weights->first, self->residual,
      n->width, self->first, n->channels[0], times);
  MimiOutputArgs output = {
    .entries = address (batch->device_entry),
    .status = address (batch->status),
    .weights = address (self->weights->last),
    .pcm = (gpointer)address (batch->host_pcm),
    .overflow = (gpointer)address (batch->host_overflow),
    .in_stride = self->scratch_length,
    .pcm_bytes = MIMI_CUDA_PCM_BYTES,
    .inputs = n->channels[n->stages],
    .history = self->last_history,
  };

  if (!launch_front (&l))
    return FALSE;
  for (i = 0; i < n->layers; i++)
    if (!launch_layer (&l, i))
      return FALSE;
  first.history = self->first_history;
  if (!launch_gemm (&l, MIMI_CUDA_FIRST, &first))
    return FALSE;
  for (i = 0; i < n->stages; i++) {
    guint to = self->wide[i % 2];
    if (!launch_stage (&l, i, from, to, &times))
      return FALSE;
    from = to;
  }
  output.in = scratch (&l, from);
  return launch (&l, MIMI_CUDA_OUTPUT, MIMI_FRAME_SAMPLES / 64, batch->entries,
      1, &output);
}
