/* Every dense layer: linear, convolution, transposed convolution.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One template around two ways to multiply (lanes.cuh: float32 anywhere;
 * matrix.cuh: tensor cores). A block computes `rows` outputs: with lanes of eight
 * tiles (split 1: a warp a tile, weights shared through L1; for batches), with
 * tensor cores of one (split 8: its eight warps share the input channels; for few
 * tiles where there are no clusters). For few tiles there are split.cuh, and from
 * 9.0 on spread.cuh, for many tiles on tensor cores many.cuh. Everywhere the
 * channels are summed in the same parts, each in the same order, and the parts in
 * order: a stream's output does not depend on who else is in the batch, bit for
 * bit.
 *
 * Fused in front: LayerNorm or ELU, as the input is staged. Fused behind:
 * everything up to the next product's input (epilogue.cuh).
 */
#pragma once

#include "epilogue.cuh"
#include "moments.cuh"

/* A warp stages SLAB channels at a time: 8 columns of the past, 16 of now. A row
 * of 24 floats: 8 columns of 4 neighbouring rows are in 32 different banks. */
#define PAST 8
#define SLAB_STRIDE (PAST + TILE)

static_assert (WARPS == PARTS, "a warp sums one part, or all of them");

/* Stages the warp's next channels, k0 up to `end` at most, through the
 * prologue; channels that do not exist become zero. Columns that do not exist
 * hold anything finite, and nobody looks at what becomes of them.
 * mean, scale: of the lane's four columns, for LayerNorm */
template <int TAPS, int SLAB, Prologue PROLOGUE>
static __device__ void
stage (const MimiGemmArgs &p, const MimiEntry &entry, const float *in,
    unsigned tile, unsigned k0, unsigned end, const float (&mean)[4],
    const float (&scale)[4], float *x)
{
  constexpr int H = TAPS - 1, LEAD = (H + 3) / 4 * 4;
  const unsigned lane = threadIdx.x % 32, t = lane % 4 * 4;
  constexpr int N = SLAB / 8;
  float now[N][4], past[LEAD + 1];

  /* Everything is asked for before anything is used. Now: 8 channels at a
   * time, 4 lanes each. */
#pragma unroll
  for (int i = 0; i < N; i++) {
    const unsigned k = min (k0 + i * 8 + lane / 4, p.inputs - 1);
    *(float4 *)now[i] = *(const float4 *)(in + k * TILE + t);
  }
  if (H == 0)
    ask_first ();
  /* The past: what this launch has made of it, or else the history; zeros
   * complete the four columns that are read at once. */
  if (H > 0 && (SLAB == 32 || lane < SLAB)) {
    const unsigned k = min (k0 + lane, p.inputs - 1);
    const Past before (
        entry, in, tile, p.tiles, p.times, p.inputs, p.in_stride);
    const float *kept =
        history_read (entry, p.history, p.inputs * H) + k * H + before.reach;
#pragma unroll
    for (int j = 0; j < LEAD - H; j++)
      past[j] = 0.0f;
    before.each<H> (k, [&] (int j, const float *place) {
      past[LEAD - H + j] = *(H - j <= before.reach ? place : kept + j);
    });
    ask_first ();
#pragma unroll
    for (int j = 0; j < LEAD; j++) {
      const bool made = LEAD - j <= before.reach;
      if (PROLOGUE == ELU && made)
        past[j] = elu (past[j]);
      x[lane * SLAB_STRIDE + PAST - LEAD + j] =
          k0 + lane < end && (made || remembers (entry)) ? past[j] : 0.0f;
    }
  }
#pragma unroll
  for (int i = 0; i < N; i++) {
    const unsigned k = min (k0 + i * 8 + lane / 4, p.inputs - 1);
    float gain = 1.0f, offset = 0.0f;
    if (PROLOGUE == NORM) {
      gain = __ldg (p.norm + k);
      offset = __ldg (p.norm + p.inputs + k);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
      if (PROLOGUE == NORM)
        now[i][j] = normalize (now[i][j], mean[j], scale[j], gain, offset);
      if (PROLOGUE == ELU)
        now[i][j] = elu (now[i][j]);
      if (k0 + i * 8 + lane / 4 >= end)
        now[i][j] = 0.0f;
    }
    *(float4 *)(x + (i * 8 + lane / 4) * SLAB_STRIDE + PAST + t) =
        *(float4 *)now[i];
  }
}

/* Grid: (outputs / rows, tiles of all entries / (8 / split)). */
template <typename Product, Prologue PROLOGUE, Epilogue EPILOGUE>
static __device__ void
gemm (const MimiGemmArgs &p)
{
  constexpr int H = Product::TAPS - 1, SLAB = Product::SLAB;
  constexpr int WARP_FLOATS = Product::SUMS + Product::ROWS * TILE;
  /* What a rank of spread.cuh has is added up by itself first. */
  constexpr bool CLOSES =
      EPILOGUE == RESIDUAL || EPILOGUE == CONV || EPILOGUE == UP;
  __shared__ __align__ (16) float shared[WARPS * WARP_FLOATS];

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned rows = 1u << p.rows_log2;
  const unsigned n_tiles = WARPS / p.split;
  const unsigned n_parts = Product::count_parts (p) / p.split;
  const unsigned local = warp / p.split, part0 = warp % p.split * n_parts;
  const unsigned column = blockIdx.y * n_tiles + local;
  const unsigned index = column / p.tiles, tile = column % p.tiles;
  const bool inside = index < p.n_entries;

  /* Weights are nobody's output: they are on their way before the kernels
   * that came before have ended. */
  launch_dependents ();
  Product product (p, part0);
  wait_for_inputs ();

  const MimiEntry entry = p.entries[inside ? index : 0];
  const bool active = inside && entry.state != 0;
  const float *in = p.in + (size_t)(inside ? index : 0) * p.in_stride +
                    (size_t)tile * p.inputs * TILE;
  /* Known once or each time: as it leaves ptxas registers enough. */
#if __CUDA_ARCH__ == 900
  const unsigned hoisted = min (p.times, TILE);
#define GEMM_COLUMNS hoisted
#else
#define GEMM_COLUMNS min (p.times, TILE)
#endif

  float mean[4] = {}, scale[4] = {};
  if (PROLOGUE == NORM && active)
    join_moments<2> ((const float2 *)(p.moments + (size_t)index * p.in_stride),
        p.inputs, p.slice_log2, p.norm_eps, mean, scale);

  float *x = shared + warp * WARP_FLOATS;
  for (unsigned part = part0; active && part < part0 + n_parts; part++) {
    const unsigned begin = part * p.part_rows;
    const unsigned end = min (begin + p.part_rows, p.inputs);

    product.begin (part);
    for (unsigned k0 = begin; k0 < end; k0 += SLAB) {
      __syncwarp ();
      stage<Product::TAPS, SLAB, PROLOGUE> (
          p, entry, in, tile, k0, end, mean, scale, x);
      __syncwarp ();
      /* Whoever has a channel's last columns leaves them for the next launch,
       * as the product saw them. */
      if (H > 0 && blockIdx.x == 0 && tile == p.tiles - 1 && entry.ends &&
          k0 + lane < end && (SLAB == 32 || lane < SLAB)) {
        float *kept = history_write (entry, p.history, p.inputs * H);
#pragma unroll
        for (int j = 0; j < H; j++)
          kept[(k0 + lane) * H + j] =
              x[lane * SLAB_STRIDE + PAST + GEMM_COLUMNS - H + j];
      }
      product.add (x, k0, min (end - k0, SLAB));
    }
    product.end (part, x + Product::SUMS);
    if (CLOSES && (part + 1) % (1u << p.subs_log2) == 0)
      product.close (x + Product::SUMS, part < part0 + (1u << p.subs_log2));
  }
  __syncwarp ();
  if (active && !CLOSES)
    product.leave (x + Product::SUMS);
  __syncthreads ();

  for (unsigned i = threadIdx.x; i < n_tiles * rows * TILE;
       i += MIMI_CUDA_THREADS) {
    const unsigned j = i >> (p.rows_log2 + 4); /* which of the block's tiles */
    unsigned t = i % TILE, n = i / TILE % rows;
    /* Values are stored along dim, the rest along time. */
    if (EPILOGUE == QKV && blockIdx.x * rows >= p.outputs / 3 * 2) {
      t = i / rows % TILE;
      n = i % rows;
    }
    const unsigned place = blockIdx.y * n_tiles + j;
    const unsigned who = place / p.tiles, row = blockIdx.x * rows + n;
    if (who >= p.n_entries || row >= p.outputs || t >= GEMM_COLUMNS)
      continue;
    const MimiEntry target = p.entries[who];
    if (target.state == 0)
      continue;
    float sum = 0.0f, partner = 0.0f, old = 0.0f;
    for (unsigned s = 0; s < p.split; s++) {
      const float *sums =
          shared + (j * p.split + s) * WARP_FLOATS + Product::SUMS + t;
      sum += sums[n * TILE];
      if (EPILOGUE == QKV)
        partner += sums[(n ^ 1) * TILE];
    }
    const Place to =
        find_place<EPILOGUE> (p, target, who, place % p.tiles, row, t);
    if (EPILOGUE == RESIDUAL || EPILOGUE == SKIP)
      old = *to.to;
    const float y = finish<EPILOGUE> (p, who, to, sum, partner, old);
    if (EPILOGUE == RESIDUAL)
      shared[j * p.split * WARP_FLOATS + Product::SUMS + n * TILE + t] = y;
  }

  /* A block's rows are one slice or two: a warp takes the moments of two times
   * or more of each tile. */
  if (EPILOGUE == RESIDUAL) {
    __syncthreads ();
    const unsigned slice = 1u << p.slice_log2;
    for (unsigned i = threadIdx.x; i < n_tiles * rows * TILE;
         i += MIMI_CUDA_THREADS) {
      const unsigned j = i >> (p.rows_log2 + 4), t = i / slice % TILE;
      const unsigned done = i / (slice * TILE) * slice % rows;
      const unsigned row0 = blockIdx.x * rows + done;
      const unsigned who = blockIdx.y * n_tiles + j; /* one tile an entry */
      const float value[] = { shared[j * p.split * WARP_FLOATS + Product::SUMS +
                                     (done + i % slice) * TILE + t] };
      float2 moments[1];
      slice_moments (value, slice,
          { min (p.outputs - min (row0, p.outputs - 1), slice) },
          p.outputs % slice == 0, moments);
      if (i % slice == 0 && row0 < p.outputs && who < p.n_entries &&
          p.entries[who].state != 0)
        ((float2 *)(p.moments +
                    (size_t)who *
                        p.out_stride))[(row0 >> p.slice_log2) * TILE + t] =
            moments[0];
    }
  }
}
