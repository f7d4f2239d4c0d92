/* How a frame flows through the kernels.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "shape.h"

const gchar *const mimi_cuda_kernel_names[MIMI_CUDA_N_KERNELS] = {
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
  [MIMI_CUDA_ENTER] = "mimi_enter",
  [MIMI_CUDA_SPREAD_QKV] = "mimi_spread_qkv",
  [MIMI_CUDA_SPREAD_ATTENTION] = "mimi_spread_attention",
  [MIMI_CUDA_SPREAD_PROJECT] = "mimi_spread_project",
  [MIMI_CUDA_SPREAD_EXPAND] = "mimi_spread_expand",
  [MIMI_CUDA_SPREAD_FIRST] = "mimi_spread_first",
  [MIMI_CUDA_SPREAD_UP] = "mimi_spread_up",
  [MIMI_CUDA_SPREAD_UP_TILES] = "mimi_spread_up_tiles",
  [MIMI_CUDA_SPREAD_RESIDUAL] = "mimi_spread_residual",
  [MIMI_CUDA_SPREAD_RESIDUAL_HALF] = "mimi_spread_residual_half",
  [MIMI_CUDA_SPREAD_TAIL] = "mimi_spread_tail",
  [MIMI_CUDA_LAYERS] = "mimi_layers",
  [MIMI_CUDA_MANY_QKV] = "mimi_many_qkv",
  [MIMI_CUDA_MANY_PROJECT] = "mimi_many_project",
  [MIMI_CUDA_MANY_EXPAND] = "mimi_many_expand",
  [MIMI_CUDA_MANY_FIRST] = "mimi_many_first",
  [MIMI_CUDA_MANY_UP] = "mimi_many_up",
  [MIMI_CUDA_MANY_RESIDUAL] = "mimi_many_residual",
  [MIMI_CUDA_MANY_SKIP] = "mimi_many_skip",
  [MIMI_CUDA_MANY_BLOCK] = "mimi_many_block",
  [MIMI_CUDA_SPLIT_QKV] = "mimi_split_qkv",
  [MIMI_CUDA_SPLIT_ATTENTION] = "mimi_split_attention",
  [MIMI_CUDA_SPLIT_PROJECT] = "mimi_split_project",
  [MIMI_CUDA_SPLIT_EXPAND] = "mimi_split_expand",
  [MIMI_CUDA_SPLIT_FIRST] = "mimi_split_first",
  [MIMI_CUDA_SPLIT_UP] = "mimi_split_up",
  [MIMI_CUDA_SPLIT_UP24] = "mimi_split_up24",
  [MIMI_CUDA_SPLIT_UP40] = "mimi_split_up40",
  [MIMI_CUDA_SPLIT_RESIDUAL] = "mimi_split_residual",
  [MIMI_CUDA_SPLIT_SKIP] = "mimi_split_skip",
  [MIMI_CUDA_SPLIT_BLOCK] = "mimi_split_block",
  [MIMI_CUDA_SPLIT_TAIL] = "mimi_split_tail",
  [MIMI_CUDA_ENTER_ALONE] = "mimi_enter_alone",
};

typedef struct {
  const MimiCudaFrame *frame;
  const MimiCudaBatch *batch;
  CUstream stream;
  GError **error;
  guint n_launched;
  gboolean was_apart; /* the launch before: see keep_apart() */
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

typedef struct {
  guint x, y, z;
  guint cluster;  /* blocks along x, or 0 */
  guint shared;   /* bytes */
  gboolean apart; /* gains if no two of its blocks meet */
  guint threads;  /* 0: MIMI_CUDA_THREADS */
} Shape;

/* A little more than half of a processor's shared memory. */
static guint
get_half (const MimiCudaFrame *f)
{
  return (guint)f->shared / 2 + 1024;
}

/* While a launch overlaps with the one before, its first blocks find some
 * processors fuller than others, and two of them may share one though others
 * stay empty: then it takes as long as those two. Blocks that ask for more than half
 * of a processor's shared memory cannot meet; nor can they with the launch
 * before if that one asks for as much, which would cost more. */
static void
keep_apart (Launch *l, Shape *shape)
{
  gboolean apart =
      shape->apart && !l->was_apart &&
      shape->x * shape->y * shape->z <= (guint)l->frame->processors;

  if (apart)
    shape->shared = MAX (shape->shared, get_half (l->frame));
  l->was_apart = apart;
}

static gboolean
launch (Launch *l, MimiCudaKernel kernel, Shape shape, gpointer args)
{
  const MimiCuda *cuda = l->frame->cuda;
  CUfunction function = l->frame->kernels[kernel];
  gpointer list[] = { args };
  CUlaunchAttribute attributes[2];
  CUlaunchConfig config = {
    .grid = { shape.x, shape.y, shape.z },
    .block = { shape.threads ? shape.threads : MIMI_CUDA_THREADS, 1, 1 },
    .stream = l->stream,
    .attributes = attributes,
  };

  keep_apart (l, &shape);
  config.shared = shape.shared;
  /* More than 48 KiB, with the little that kernels have by themselves. As much
   * for every batch: it is the function's, and older graphs have it too. */
  if (shape.shared > 40 * 1024 &&
      !CHECK (cuda, l->error, FuncSetAttribute,
          (function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
              (gint)MAX (shape.shared, get_half (l->frame)))))
    return FALSE;
  if (shape.cluster)
    attributes[config.n_attributes++] = (CUlaunchAttribute){
      .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
      .value.cluster = { shape.cluster, 1, 1 },
    };
  /* The first kernel has nobody to overlap with. Nor has the second, where the
   * others read the entries, which the first writes, before they wait, unless it
   * reads its own later and lets nobody begin until then. */
  if (l->frame->overlap &&
      l->n_launched > (l->frame->spread && kernel != MIMI_CUDA_LAYERS &&
                                  kernel != MIMI_CUDA_SPREAD_QKV
                              ? 1
                              : 0))
    attributes[config.n_attributes++] = (CUlaunchAttribute){
      .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
      .value.programmatic = 1,
    };
  l->n_launched++;
  return mimi_cuda_check (cuda,
      cuda->LaunchKernelEx (&config, function, list, NULL),
      mimi_cuda_kernel_names[kernel], l->error);
}

/* Without tensor cores: the blocks of split.cuh share a layer of few tiles, and
 * warps take the tiles of many. */
static gboolean
launch_lanes (Launch *l, MimiCudaKernel kernel, MimiGemmArgs *args)
{
  const MimiCudaFrame *f = l->frame;
  guint tiles = args->tiles * l->batch->entries;
  guint blocks = divide_up (args->outputs, 64);
  MimiCudaKernel split = mimi_cuda_get_split_kernel (kernel);
  MimiCudaShares shares;

  if (args->ranks > 0) /* as whole.cu has it, or would have */
    shares = (MimiCudaShares){ args->ranks, args->part_rows, 0, 0, 0 };
  else
    mimi_cuda_share (f, mimi_cuda_get_taps (f, kernel), args->inputs,
        args->outputs, args->times, &shares);
  args->stride = (args->outputs + 3) / 4 * 4;
  args->rows_log2 = 6;
  args->part_rows = shares.part_rows;
  args->ranks = shares.ranks;
  args->tiles_log2 = shares.tiles_log2;
  args->partial = scratch (l, f->partial);
  args->arrived = scratch (l, f->arrived);
  if (shares.areas && !mimi_cuda_fills (f, blocks, tiles, 1)) {
    if (shares.columns)
      return launch (l,
          shares.columns == 24 ? MIMI_CUDA_SPLIT_UP24 : MIMI_CUDA_SPLIT_UP40,
          (Shape){ args->times / shares.columns,
              args->outputs / MIMI_CUDA_COLUMNS_ROWS (shares.columns),
              l->batch->entries, 0, MIMI_CUDA_COLUMNS_BYTES (shares.columns) },
          args);
    return launch (l, split,
        (Shape){ shares.ranks,
            divide_up (args->outputs, 64 >> shares.tiles_log2),
            tiles >> shares.tiles_log2, 0,
            mimi_cuda_get_split_shared (shares.part_rows, shares.tiles_log2) },
        args);
  }
  args->split = 1;
  return launch (l, kernel, (Shape){ blocks, divide_up (tiles, 8), 1 }, args);
}

/* What all kernels want to know of a layer. */
static void
complete_args (const Launch *l, MimiGemmArgs *args)
{
  const MimiCudaFrame *f = l->frame;

  args->entries = address (l->batch->device_entry);
  args->status = (gpointer)address (l->batch->status);
  args->in_stride = args->out_stride = f->scratch_length;
  args->n_entries = l->batch->entries;
  args->tiles = divide_up (args->times, MIMI_CUDA_TILE);
  args->moments = scratch (l, f->moments);
  args->slice_log2 = f->slice_log2;
  args->second = l->n_launched == 1;
}

/* The same for tensor cores. */
static void
complete_matrix_args (MimiGemmArgs *args, guint subs_log2)
{
  args->subs_log2 = subs_log2;
  args->stride = (args->outputs + 15) / 16 * 16;
  args->part_rows = divide_up (args->inputs, 64u << subs_log2) * 8;
}

/* many: by many.cuh in any case, where there are tensor cores. */
static gboolean
launch_gemm (
    Launch *l, MimiCudaKernel kernel, MimiGemmArgs *args, gboolean many)
{
  const MimiCudaFrame *f = l->frame;
  guint tiles, steps, shared;
  gdouble cost;
  MimiCudaKernel spread;
  Shape shape;

  complete_args (l, args);
  if (!f->weights->matrix)
    return launch_lanes (l, kernel, args);
  spread = mimi_cuda_get_spread_kernel (f, kernel, args->tiles);
  complete_matrix_args (args, mimi_cuda_choose_subs (spread, args->inputs));
  tiles = args->tiles * l->batch->entries;

  shape = (Shape){ 0, tiles, 1 };
  steps = args->part_rows / 8 * mimi_cuda_get_taps (f, kernel);
  if (spread == MIMI_CUDA_N_KERNELS) {
    args->rows_log2 =
        kernel == MIMI_CUDA_PROJECT
            ? f->slice_log2
            : mimi_cuda_choose_rows (f, kernel, args->outputs, args->tiles);
    args->split = 8;
    shape.x = divide_up (args->outputs, 1u << args->rows_log2);
    steps <<= args->rows_log2 - 4;
  } else {
    MimiCudaBlock block;

    /* spread.cuh takes channels in eights. */
    many |= args->inputs % 8 ||
            !mimi_cuda_get_block (spread, mimi_cuda_get_taps (f, kernel),
                args->part_rows, args->subs_log2, &block);
    if (!many) {
      shape.x = divide_up (args->outputs, block.rows);
      shape.shared = block.shared;
      shape.apart = !block.cluster;
      if (block.cluster) {
        shape.cluster = MIMI_CUDA_RANKS;
        shape.x *= MIMI_CUDA_RANKS;
      } else {
        steps *= 2;
      }
    }
  }
  cost = mimi_cuda_cost_many (f, mimi_cuda_get_taps (f, kernel), args->inputs,
      args->outputs, tiles, &shared);
  if (many || cost < mimi_cuda_cost_few (f, shape.x * tiles, steps))
    return launch (l, mimi_cuda_get_many_kernel (kernel),
        (Shape){ divide_up (args->outputs, MIMI_CUDA_MANY_ROWS),
            divide_up (tiles, MIMI_CUDA_MANY_TILES), 1, 0, shared, TRUE,
            MIMI_CUDA_MANY_THREADS },
        args);
  return launch (
      l, spread == MIMI_CUDA_N_KERNELS ? kernel : spread, shape, args);
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

/* Rows from the host, to the transformer's width. */
static gboolean
launch_front (Launch *l)
{
  const MimiCudaFrame *f = l->frame;
  const MimiNetwork *n = f->network;
  const MimiCudaWeights *w = f->weights;
  guint entries = l->batch->entries;
  guint slices = ((n->width - 1) >> f->slice_log2) + 1;
  guint length = MAX (n->width, MAX (n->latent_dim, 2 * n->codebook_dim));
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
    .moments = scratch (l, f->moments),
    .vector_stride = f->scratch_length,
    .out_stride = f->scratch_length,
    .width = n->width,
    .length = n->codebooks ? 2 * n->codebook_dim : n->latent_dim,
    .times = n->upsample,
    .slice_log2 = f->slice_log2,
    .history = f->front_history,
  };

  if (f->spread || f->alone) {
    MimiEnterArgs both = { input, front };

    /* The vector, in shared memory, then the row, and both once more. */
    both.input.vector_stride = divide_up (length, 4) * 4;
    /* A larger batch may have empty places. */
    if (entries == 1 && !n->codebooks)
      both.input.usual_bytes = MIN (n->latent_dim * sizeof (gfloat), 896);
    if (f->alone)
      return launch (l, MIMI_CUDA_ENTER_ALONE, (Shape){ 1, entries, 1 }, &both);
    return launch (l, MIMI_CUDA_ENTER,
        (Shape){ MIMI_CUDA_RANKS, entries, 1, MIMI_CUDA_RANKS,
            2 * (both.input.vector_stride * sizeof (gfloat) + f->row_bytes) },
        &both);
  }
  return launch (l, MIMI_CUDA_INPUT, (Shape){ entries, 1, 1 }, &input) &&
         launch (l, MIMI_CUDA_FRONT, (Shape){ slices, entries, 1 }, &front);
}

static gboolean
launch_attention (Launch *l, MimiAttentionArgs *args)
{
  const MimiCudaFrame *f = l->frame;
  guint entries = l->batch->entries;
  guint blocks = args->heads * divide_up (args->times, 8);

  if (!f->weights->matrix) {
    MimiCudaWindow window = mimi_cuda_share_window (f);

    args->partial = scratch (l, f->partial);
    args->arrived = scratch (l, f->arrived);
    args->share = window.share;
    return launch (l, MIMI_CUDA_SPLIT_ATTENTION,
        (Shape){ window.ranks, args->heads, entries }, args);
  }
  if (!f->attends_matrix)
    return launch (l, MIMI_CUDA_ATTENTION,
        (Shape){
            args->heads, divide_up (args->times, MIMI_CUDA_QUERIES), entries },
        args);
  /* Two blocks fit a processor. */
  if (f->spread &&
      blocks * MIMI_CUDA_RANKS * entries <= 2 * (guint)f->processors)
    return launch (l, MIMI_CUDA_SPREAD_ATTENTION,
        (Shape){ blocks * MIMI_CUDA_RANKS, entries, 1, MIMI_CUDA_RANKS }, args);
  return launch (l, MIMI_CUDA_ATTENTION, (Shape){ blocks, entries, 1 }, args);
}

static MimiOutputArgs
get_output (const Launch *l, guint from)
{
  const MimiCudaFrame *f = l->frame;
  MimiOutputArgs args = {
    .entries = address (l->batch->device_entry),
    .status = address (l->batch->status),
    .in = scratch (l, from),
    .weights = address (f->weights->last),
    .pcm = (gpointer)address (l->batch->host_pcm),
    .overflow = (gpointer)address (l->batch->host_overflow),
    .in_stride = f->scratch_length,
    .pcm_bytes = MIMI_CUDA_PCM_BYTES,
    .inputs = f->network->channels[f->network->stages],
    .history = f->last_history,
  };

  return args;
}

/* x += scale1 * attention (norm (x)); x += scale2 * ffn (norm (x)) */
static gboolean
launch_layer (Launch *l, guint i)
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

  return launch_gemm (l, MIMI_CUDA_QKV, &qkv, FALSE) &&
         launch_attention (l, &attention) &&
         launch_gemm (l, MIMI_CUDA_PROJECT, &out, FALSE) &&
         launch_gemm (l, MIMI_CUDA_EXPAND, &ffn1, FALSE) &&
         launch_gemm (l, MIMI_CUDA_PROJECT, &ffn2, FALSE);
}

/* All layers at once. */
static gboolean
launch_layers (Launch *l)
{
  const MimiCudaFrame *f = l->frame;
  const MimiNetwork *n = f->network;
  const MimiCudaLayer *w = f->weights->layers;
  MimiLayersArgs args = {
    .entries = address (l->batch->device_entry),
    .status = (gpointer)address (l->batch->status),
    .residual = scratch (l, f->residual),
    .qkv = address (w->qkv.weights),
    .out = address (w->out.weights),
    .ffn1 = address (w->ffn1.weights),
    .ffn2 = address (w->ffn2.weights),
    .norm1 = address (w->norm1),
    .norm2 = address (w->norm2),
    .scale1 = address (w->out.bias),
    .scale2 = address (w->ffn2.bias),
    .rope = address (f->weights->rope),
    .layer_bytes = f->weights->layer_bytes,
    .ring = f->rings[0],
    .ring_floats = n->layers > 1 ? f->rings[1] - f->rings[0] : 0,
    .ring_blocks = f->ring_blocks,
    .window = n->window,
    .n_layers = n->layers,
    .ffn = n->ffn,
    .stride = f->scratch_length,
    .gelu_tanh = n->gelu == MIMI_GELU_TANH,
    .norm_eps = n->norm_eps,
  };

  return launch (l, MIMI_CUDA_LAYERS,
      (Shape){ MIMI_CUDA_RANKS, l->batch->entries, 1, MIMI_CUDA_RANKS,
          f->layers_shared },
      &args);
}

/* How a stage's residual block is launched. */
typedef struct {
  MimiCudaKernel kernel; /* MIMI_CUDA_N_KERNELS: one for each product */
  Shape shape;
  guint part_rows1, part_rows2, ranks;
} Block;

static Block
choose_block (const Launch *l, guint i, guint times)
{
  const MimiCudaFrame *f = l->frame;
  guint channels = f->network->channels[i + 1], hidden = f->network->hidden[i];
  guint tiles = times / MIMI_CUDA_TILE * l->batch->entries;
  guint groups = divide_up (hidden, 16), shared;
  Block b = {
    .kernel = MIMI_CUDA_N_KERNELS,
    .part_rows1 = divide_up (channels, 64) * 8,
    .part_rows2 = divide_up (hidden, 64) * 8,
    .ranks = groups > 4   ? 8
             : groups > 2 ? 4
                          : groups,
  };
  gboolean is_tail = mimi_cuda_is_tail (f, i);
  Block in_one = b;
  gdouble many, one;

  /* In one launch for few tiles, or in one or two for many, and then the output. */
  if (!f->spread || times % MIMI_CUDA_TILE)
    return b;
  many = mimi_cuda_cost_many (
             f, f->network->residual_kernel, channels, hidden, tiles, NULL) +
         mimi_cuda_cost_many (f, 1, hidden, channels, tiles, NULL);
  one = mimi_cuda_cost_block (f, channels, hidden, tiles);
  if (one < many) {
    many = one;
    in_one.kernel = MIMI_CUDA_MANY_BLOCK;
    in_one.shape = (Shape){ 1, divide_up (tiles, MIMI_CUDA_MANY_TILES), 1, 0,
      MIMI_CUDA_MANY_BLOCK_BYTES (channels, hidden), TRUE,
      MIMI_CUDA_MANY_THREADS };
  }
  if (is_tail ? many + mimi_cuda_cost_output (l->batch->entries) <
                    mimi_cuda_cost_tail (f, tiles)
              : many < mimi_cuda_cost_few (
                           f, b.ranks * tiles, b.part_rows1 / 8 * 3 + 2))
    return in_one;
  shared = 8 * (b.part_rows1 + b.part_rows2) * STAGED_BYTES +
           8 * 32 * 20 * sizeof (gfloat);
  if (is_tail) {
    b.kernel = MIMI_CUDA_SPREAD_TAIL;
    b.shape = (Shape){ times / MIMI_CUDA_TILE, l->batch->entries, 1, 0,
      MIMI_CUDA_TAIL_BYTES, TRUE };
  } else if (shared <= MOST_SHARED) {
    b.kernel = MIMI_CUDA_SPREAD_RESIDUAL;
    b.shape = (Shape){ b.ranks, tiles, 1, b.ranks, shared };
    /* Sums are the same whatever columns they are of. */
    if (2 * b.ranks * tiles <= (guint)f->processors) {
      b.kernel = MIMI_CUDA_SPREAD_RESIDUAL_HALF;
      b.shape.y *= 2;
    }
  }
  return b;
}

/* y = elu (x + skip (elu (residual (elu (x))))), out of *from. */
static gboolean
launch_residual (Launch *l, guint i, guint *from, guint times, const Block *b)
{
  const MimiCudaFrame *f = l->frame;
  const MimiNetwork *n = f->network;
  const MimiCudaStage *w = &f->weights->stages[i];
  guint channels = n->channels[i + 1], entries = l->batch->entries;
  guint tiles = times / MIMI_CUDA_TILE;
  guint other = f->wide[*from == f->wide[0]];
  MimiGemmArgs res1 =
      dense (l, &w->res1, *from, channels, f->hidden, n->hidden[i], times);
  MimiGemmArgs res2 =
      dense (l, &w->res2, f->hidden, n->hidden[i], *from, channels, times);
  MimiTailArgs args = {
    .block = {
      .entries = address (l->batch->device_entry),
      .status = (gpointer)address (l->batch->status),
      .weights1 = res1.weights,
      .weights2 = res2.weights,
      .bias1 = res1.bias,
      .bias2 = res2.bias,
      .in = res1.in,
      .elu = scratch (l, f->hidden),
      .out = scratch (l, other),
      .stride = f->scratch_length,
      .channels = channels,
      .hidden = n->hidden[i],
      .tiles = tiles,
      .part_rows1 = b->part_rows1,
      .part_rows2 = b->part_rows2,
      .ranks = b->ranks,
      .history = f->res_history[i],
    },
    .output = get_output (l, 0),
  };

  if (b->kernel != MIMI_CUDA_N_KERNELS && b->kernel != MIMI_CUDA_MANY_BLOCK) {
    gboolean is_tail = b->kernel == MIMI_CUDA_SPREAD_TAIL;

    *from = is_tail ? 0 : other; /* the PCM has been written */
    return launch (l, b->kernel, b->shape,
        is_tail ? (gpointer)&args : (gpointer)&args.block);
  }
  res1.history = f->res_history[i];
  if (!f->weights->matrix && times % MIMI_CUDA_TILE == 0) {
    gboolean is_tail = i + 1 == n->stages;
    guint columns = is_tail ? 32 : 16;

    if (n->hidden[i] <= 1024 / columns && channels <= 2048 / columns) {
      /* Eight parts, and four. */
      res1.ranks = res2.ranks = 1;
      res1.part_rows = args.block.part_rows1 =
          divide_up (divide_up (channels, 8), 2) * 2;
      res2.part_rows = args.block.part_rows2 =
          divide_up (divide_up (n->hidden[i], 4), 4) * 4;
      if (!mimi_cuda_fills (f, 1, tiles * entries, 2)) {
        *from = is_tail ? 0 : other;
        return launch (l,
            is_tail ? MIMI_CUDA_SPLIT_TAIL : MIMI_CUDA_SPLIT_BLOCK,
            (Shape){ is_tail ? times / 24 : tiles, entries, 1, 0,
                MIMI_CUDA_WHOLE_BYTES (columns) },
            &args);
      }
    }
  }
  if (b->kernel == MIMI_CUDA_MANY_BLOCK) {
    MimiManyBlockArgs both = { res1, res2 };

    both.skip.out = scratch (l, other);
    *from = other;
    complete_args (l, &both.residual);
    complete_args (l, &both.skip);
    complete_matrix_args (&both.residual, 0);
    complete_matrix_args (&both.skip, 0);
    return launch (l, b->kernel, b->shape, &both);
  }
  return launch_gemm (l, MIMI_CUDA_RESIDUAL, &res1, f->spread) &&
         launch_gemm (l, MIMI_CUDA_SKIP, &res2, f->spread);
}

/* Transposed convolution, then the residual block. Every buffer that ends a
 * stage holds what ELU made of it: only the next convolution reads it. */
static gboolean
launch_stage (Launch *l, guint i, guint *from, guint *times)
{
  const MimiCudaFrame *f = l->frame;
  const MimiNetwork *n = f->network;
  guint to = f->wide[*from == f->wide[0]];
  MimiGemmArgs up = dense (l, &f->weights->stages[i].up, *from, n->channels[i],
      to, n->channels[i + 1] * n->ratios[i], *times);

  Block block = choose_block (l, i, *times * n->ratios[i]);

  up.ratio = n->ratios[i];
  up.history = f->up_history[i];
  if (block.kernel == MIMI_CUDA_SPREAD_RESIDUAL ||
      block.kernel == MIMI_CUDA_SPREAD_RESIDUAL_HALF)
    up.elu_offset = f->hidden - to;
  *from = to;
  *times *= n->ratios[i];
  return launch_gemm (l, MIMI_CUDA_UP, &up, FALSE) &&
         launch_residual (l, i, from, *times, &block);
}

gboolean
mimi_cuda_frame_launch (const MimiCudaFrame *self, const MimiCudaBatch *batch,
    CUstream stream, GError **error)
{
  Launch l = {
    .frame = self, .batch = batch, .stream = stream, .error = error
  };
  const MimiNetwork *n = self->network;
  guint times = n->upsample, from = self->first, i;
  MimiGemmArgs first = dense (&l, &self->weights->first, self->residual,
      n->width, self->first, n->channels[0], times);
  MimiOutputArgs output;

  if (!launch_front (&l))
    return FALSE;
  if (self->layers_shared && batch->entries == 1) {
    if (!launch_layers (&l))
      return FALSE;
  } else {
    for (i = 0; i < n->layers; i++)
      if (!launch_layer (&l, i))
        return FALSE;
  }
  first.history = self->first_history;
  if (!launch_gemm (&l, MIMI_CUDA_FIRST, &first, FALSE))
    return FALSE;
  for (i = 0; i < n->stages; i++)
    if (!launch_stage (&l, i, &from, &times))
      return FALSE;
  if (from == 0)
    return TRUE;
  output = get_output (&l, from);
  return launch (&l, MIMI_CUDA_OUTPUT,
      (Shape){ MIMI_FRAME_SAMPLES / 64, batch->entries, 1 }, &output);
}
