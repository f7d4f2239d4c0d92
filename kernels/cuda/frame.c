/* What a frame needs: the state, the activations, and the kernels.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "shape.h"
#include "../engine/backend.h"

#include <string.h>

/* The image, embedded by fatbin.py. */
extern const guint8 mimi_cuda_image[];

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
 * GPUs; not on the smaller ones, nor before Ampere, which has none). With
 * the convolutions' two, at less precision, it is taken wherever there are any:
 * by the rates, not measured. */
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

  self->ring_blocks =
      mimi_cuda_count_blocks (n, MIMI_LONGEST_RUN * n->upsample);
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
  self->moments = take (
      length, (((n->width - 1) >> self->slice_log2) + 1) * MIMI_CUDA_TILE * 2);
  self->query = take (length, n->width * MIMI_CUDA_TILE);
  self->mixed = take (length, n->width * MIMI_CUDA_TILE);
  self->ffn = take (length, n->ffn * MIMI_CUDA_TILE);
  self->first = take (length, n->channels[0] * MIMI_CUDA_TILE);
  for (i = 0; i < n->stages; i++) {
    times *= n->ratios[i];
    wide = MAX (wide, get_tiles (times) * n->channels[i + 1]);
    hidden = MAX (hidden, get_tiles (times) * n->hidden[i]);
    /* Or, for residual.cu, what ELU makes of its input. */
    if (self->spread && !mimi_cuda_is_tail (self, i))
      hidden = MAX (hidden, get_tiles (times) * n->channels[i + 1]);
  }
  self->wide[0] = take (length, wide * MIMI_CUDA_TILE);
  self->wide[1] = take (length, wide * MIMI_CUDA_TILE);
  self->hidden = take (length, hidden * MIMI_CUDA_TILE);
}

/* Room for what blocks that share a layer leave for the last of them. */
static void
share (const MimiCudaFrame *self, guint taps, guint inputs, guint outputs,
    guint times, guint *sums, guint *areas)
{
  MimiCudaShares shares;

  mimi_cuda_share (self, taps, inputs, outputs, times, &shares);
  if (shares.ranks == 1)
    return;
  *sums = MAX (*sums, shares.areas * shares.ranks * MIMI_CUDA_SPLIT_SUMS);
  *areas = MAX (*areas, shares.areas);
}

static void
lay_out_shares (MimiCudaFrame *self)
{
  const MimiNetwork *n = self->network;
  guint sums, areas = n->heads, times = n->upsample, i;

  sums = n->heads * mimi_cuda_share_window (self).ranks *
         MIMI_CUDA_ATTENTION_SUMS (n->head_dim);
  share (self, 1, n->width, 3 * n->width, times, &sums, &areas);
  share (self, 1, n->width, n->width, times, &sums, &areas);
  share (self, 1, n->width, n->ffn, times, &sums, &areas);
  share (self, 1, n->ffn, n->width, times, &sums, &areas);
  share (self, n->first_kernel, n->width, n->channels[0], times, &sums, &areas);
  for (i = 0; i < n->stages; i++) {
    guint channels = n->channels[i + 1];
    share (
        self, 2, n->channels[i], channels * n->ratios[i], times, &sums, &areas);
    times *= n->ratios[i];
    share (
        self, n->residual_kernel, channels, n->hidden[i], times, &sums, &areas);
    share (self, 1, n->hidden[i], channels, times, &sums, &areas);
  }
  self->partial = take (&self->scratch_length, sums);
  self->arrived = take (&self->scratch_length, areas);
}

/* See gemm.cu and spread.cu: how the weights are stored and multiplied. */
static const gchar *
get_kind (const MimiCudaFrame *self, MimiCudaKernel kernel)
{
  static const gchar *const kinds[] = {
    [MIMI_CUDA_F32] = "f32",
    [MIMI_CUDA_TF32] = "tf32",
    [MIMI_CUDA_BF16] = "bf16",
  };

  switch (kernel) {
    case MIMI_CUDA_QKV:
    case MIMI_CUDA_PROJECT:
    case MIMI_CUDA_EXPAND:
    case MIMI_CUDA_SPREAD_QKV:
    case MIMI_CUDA_SPREAD_PROJECT:
    case MIMI_CUDA_SPREAD_EXPAND:
    case MIMI_CUDA_MANY_QKV:
    case MIMI_CUDA_MANY_PROJECT:
    case MIMI_CUDA_MANY_EXPAND:
    case MIMI_CUDA_SPLIT_QKV:
    case MIMI_CUDA_SPLIT_PROJECT:
    case MIMI_CUDA_SPLIT_EXPAND:
    case MIMI_CUDA_LAYERS:
      return kinds[self->weights->transformer];
    default:
      return kinds[self->weights->convolutions];
  }
}

static gchar *
get_name (const MimiCudaFrame *self, MimiCudaKernel kernel)
{
  const gchar *name = mimi_cuda_kernel_names[kernel];
  const gchar *kind = get_kind (self, kernel);
  const gchar *suffix = "";

  if (kernel < MIMI_CUDA_ENTER && self->weights->matrix)
    suffix = "_matrix";
  switch (kernel) {
    case MIMI_CUDA_INPUT:
    case MIMI_CUDA_FRONT:
    case MIMI_CUDA_OUTPUT:
    case MIMI_CUDA_ENTER:
    case MIMI_CUDA_ENTER_ALONE:
      return g_strdup (name);
    case MIMI_CUDA_ATTENTION:
      return g_strdup_printf ("%s_%u%s", name, self->network->head_dim,
          self->attends_matrix ? suffix : "");
    case MIMI_CUDA_SPREAD_ATTENTION:
    case MIMI_CUDA_SPLIT_ATTENTION:
      return g_strdup_printf ("%s_%u", name, self->network->head_dim);
    case MIMI_CUDA_FIRST:
    case MIMI_CUDA_SPREAD_FIRST:
    case MIMI_CUDA_MANY_FIRST:
    case MIMI_CUDA_SPLIT_FIRST:
      return g_strdup_printf (
          "%s%u_%s%s", name, self->network->first_kernel, kind, suffix);
    case MIMI_CUDA_LAYERS:
      return g_strdup_printf ("%s_%u_%u_%s", name, self->network->width,
          self->network->head_dim, kind);
    default:
      return g_strdup_printf ("%s_%s%s", name, kind, suffix);
  }
}

/* Loads the image, and asks for which GPUs the code is that the driver took: an
 * image may have been built for older ones than this, and then has neither what
 * waits for the kernels before, nor clusters, nor tensor cores. */
static gboolean
load_module (MimiCudaFrame *self, const MimiCudaDevice *device, GError **error)
{
  const MimiCuda *cuda = self->cuda;
  CUresult result = cuda->ModuleLoadData (&self->module, mimi_cuda_image);
  CUfunction any;
  gint made_for = 0;

  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
      result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
        "this build has no code that %s (compute capability %d.%d) can run "
        "with this driver: install a newer driver, or build with another CUDA "
        "toolkit",
        device->name, device->major, device->minor);
    return FALSE;
  }
  if (!mimi_cuda_check (cuda, result, "cuModuleLoadData", error) ||
      !CHECK (cuda, error, ModuleGetFunction,
          (&any, self->module, mimi_cuda_kernel_names[MIMI_CUDA_INPUT])) ||
      !CHECK (cuda, error, FuncGetAttribute,
          (&made_for, CU_FUNC_ATTRIBUTE_PTX_VERSION, any)))
    return FALSE;
  self->overlap = made_for >= 90;
  self->spread = made_for >= 90 && self->weights->matrix;
  if (self->weights->matrix && made_for < 80) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_UNSUPPORTED,
        "this build has only code of compute capability %d.%d for %s (%d.%d), "
        "which cannot use its tensor cores: build with "
        "-Dcuda-architectures=%d%d, or use the CPU",
        made_for / 10, made_for % 10, device->name, device->major,
        device->minor, device->major, device->minor);
    return FALSE;
  }
  return TRUE;
}

/* Shared memory for all layers in one cluster, if their sizes are among those of
 * layer.cu and the GPU has as much. */
static guint
get_layers_shared (const MimiCudaFrame *self)
{
  const MimiNetwork *n = self->network;
  guint keys =
      ((n->window + MIMI_CUDA_TILE - 2) / MIMI_CUDA_TILE + 1) * MIMI_CUDA_TILE;
  guint groups =
      64 / n->head_dim; /* of queries, of which each has its scores */
  guint shared = MIMI_CUDA_LAYERS_ROOM +
                 keys * (groups * MIMI_CUDA_QUERIES + 2 * n->head_dim + 2) * 4;
  guint share = n->width / 2; /* of the FFN, that a block can make */

  if (!self->spread || n->upsample != MIMI_CUDA_TILE ||
      n->window > MIMI_CUDA_LAYERS_WINDOW || shared > (guint)self->shared)
    return 0;
  if (!(n->width == 128 && n->head_dim == 32) &&
      !(n->width == 64 && n->head_dim == 64))
    return 0;
  /* As many parts as there, of as many channels as those of the width. */
  if (n->ffn % share || n->ffn > 8 * share || n->ffn <= (n->width - 64) * 4)
    return 0;
  return shared;
}

static gboolean
find_kernels (MimiCudaFrame *self, GError **error)
{
  const MimiCuda *cuda = self->cuda;
  guint i;
  gboolean ok = TRUE;

  for (i = 0; i < MIMI_CUDA_N_KERNELS && ok; i++) {
    gboolean wanted = i < MIMI_CUDA_ENTER       ? TRUE
                      : i < MIMI_CUDA_LAYERS    ? self->spread
                      : i == MIMI_CUDA_LAYERS   ? self->layers_shared > 0
                      : i < MIMI_CUDA_SPLIT_QKV ? self->weights->matrix
                                                : !self->weights->matrix;
    gchar *name;

    if (!wanted)
      continue;
    name = get_name (self, i);
    ok = CHECK (cuda, error, ModuleGetFunction,
        (&self->kernels[i], self->module, name));
    g_free (name);
  }
  return ok;
}

gboolean
mimi_cuda_frame_init (MimiCudaFrame *self, const MimiCuda *cuda,
    const MimiCudaDevice *device, const MimiNetwork *network,
    const MimiCudaWeights *weights, GError **error)
{
  memset (self, 0, sizeof *self);
  self->cuda = cuda;
  self->network = network;
  self->weights = weights;
  self->processors = device->processors;
  self->shared = device->shared;
  if (!load_module (self, device, error))
    return FALSE;
  self->slice_log2 = mimi_cuda_choose_slice (self);
  self->layers_shared = get_layers_shared (self);
  self->attends_matrix = weights->matrix && !self->layers_shared;
  self->alone = !weights->matrix && !network->codebooks &&
                network->latent_dim <= MIMI_CUDA_ALONE_LATENTS &&
                network->latent_dim % 4 == 0 &&
                network->upsample == MIMI_CUDA_TILE && network->width % 64 == 0;
  lay_out_state (self);
  lay_out_scratch (self);
  if (!weights->matrix)
    lay_out_shares (self);
  self->row_bytes = MAX (
      MAX (network->width, network->latent_dim) * 4, MIMI_MAX_CODEBOOKS * 2);
  return find_kernels (self, error);
}

void
mimi_cuda_frame_clear (MimiCudaFrame *self)
{
  if (self->module)
    self->cuda->ModuleUnload (self->module);
  g_clear_pointer (&self->rings, g_free);
  self->module = NULL;
}
