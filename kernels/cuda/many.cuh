/* Every dense layer once more, for many tiles, on tensor cores.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One stream is a matter of latency, many are one of instructions: a float that
 * is split for the tensor cores costs as much as half a product. So a warp takes
 * 16 or 32 outputs of two tiles, and splits each weight for 32 columns, each
 * input for all taps and outputs. Eight warps have 64 or 128 outputs of four
 * tiles, and what goes into them is brought to shared memory once, 32 channels at
 * a time, while the 32 before are multiplied.
 *
 * Column j of the warp's quarter h (of 8 columns) is time 4 (j % 4) + h of tile
 * j / 4: what a lane needs of a channel, for all taps, are neighbours in shared
 * memory, and its sums are eight times in a row.
 *
 * Sums are those of spread.cuh and gemm.cuh, part by part.
 */
#pragma once

#include "epilogue.cuh"
#include "moments.cuh"
#include "mma.cuh"

#define MANY_TILES MIMI_CUDA_MANY_TILES
#define MANY_ROWS MIMI_CUDA_MANY_ROWS
#define MANY_ACROSS (MANY_ROWS / 16) /* warps side by side along the outputs */
#define MANY_SLAB 32 /* channels that are in shared memory at once, twice */
#define MANY_COLUMNS (MANY_TILES * TILE)
#define MANY_PAST 8
#define MANY_STRIDE (MANY_PAST + TILE) /* of a channel */
#define MANY_PLANE (MANY_SLAB * MANY_STRIDE)
#define MANY_BUFFER (MANY_TILES * MANY_PLANE)
/* A row of sums: of six phases, neighbours are in different banks. */
#define MANY_SUMS (MANY_COLUMNS + 6)
/* The same of columns, for moments. */
#define MANY_VALUES (MANY_ROWS + 1)

static_assert (MANY_TILES == 4 && MANY_SLAB == 32 && WARPS == 8,
    "a thread brings two times four values");

/* Where one of the block's tiles is. */
struct ManyTile {
  unsigned index, tile; /* entry, and which of its tiles */
  bool active;

  __device__
  ManyTile (const MimiGemmArgs &p, unsigned local)
  {
    const unsigned place = blockIdx.y * MANY_TILES + local;
    index = place / p.tiles;
    tile = place % p.tiles;
    active = index < p.n_entries && p.entries[index].state != 0;
    if (!active)
      index = tile = 0; /* anything that can be read */
  }

  __device__ const float *
  in (const MimiGemmArgs &p) const
  {
    return p.in + (size_t)index * p.in_stride + (size_t)tile * p.inputs * TILE;
  }
};

/* What a thread brings of a slab: four times of one channel, for two tiles, and
 * what was before one tile, of one channel. */
template <int TAPS, Prologue PROLOGUE> struct Feed {
  static constexpr int H = TAPS - 1;
  const MimiGemmArgs &p;
  const unsigned channel, quarter;
  unsigned from[2]; /* of `in`; ~0: there is no tile */
  float4 now[2];
  float gain, offset;

  const ManyTile which;
  const bool has_past;
  const bool remembered;
  const Past before;
  const float *kept;
  float past[H + 1];

  /* Eight lanes that store at once: four channels, two quarters of a tile; they
   * are in different banks. */
  __device__
  Feed (const MimiGemmArgs &args)
      : p (args), channel (threadIdx.x / 32 % 4 * 8 + threadIdx.x / 2 % 8),
        quarter (threadIdx.x % 2 + threadIdx.x % 32 / 16 * 2),
        which (p, threadIdx.x / 32 % MANY_TILES),
        has_past (H > 0 && threadIdx.x < MANY_TILES * 32 && which.active),
        remembered (H > 0 && remembers (p.entries[which.index])),
        before (p.entries[which.index], which.in (p), which.tile, p.tiles,
            p.times, p.inputs, p.in_stride),
        kept (H > 0 ? history_read (
                          p.entries[which.index], p.history, p.inputs * H)
                    : nullptr)
  {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const ManyTile at (p, threadIdx.x / 128 + 2 * i);
      from[i] = at.active ? at.in (p)-p.in + quarter * 4 : ~0u;
      now[i] = make_float4 (0, 0, 0, 0);
    }
  }

  __device__ void
  fetch (unsigned k0)
  {
    const unsigned k = min (k0 + channel, p.inputs - 1);
#pragma unroll
    for (int i = 0; i < 2; i++)
      if (from[i] != ~0u)
        now[i] = *(const float4 *)(p.in + from[i] + k * TILE);
    if (PROLOGUE == NORM) {
      gain = __ldg (p.norm + k);
      offset = __ldg (p.norm + p.inputs + k);
    }
    if (has_past) {
      const unsigned from = min (k0 + threadIdx.x % 32, p.inputs - 1);
      const float *old = kept + from * H + before.reach;
      before.template each<H> (from, [&] (int j, const float *place) {
        past[j] = *(H - j <= before.reach ? place : old + j);
      });
    }
    ask_first ();
  }

  /* x: [tile][channel][24], of which the first 8 are past
   * norms: mean and 1 / standard deviation of each column */
  __device__ void
  put (float *x, unsigned k0, const float (*norms)[MANY_COLUMNS])
  {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const unsigned tile = threadIdx.x / 128 + 2 * i;
      const unsigned column = tile * TILE + quarter * 4;
      float v[4] = { now[i].x, now[i].y, now[i].z, now[i].w };
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if (PROLOGUE == NORM)
          v[j] = normalize (
              v[j], norms[0][column + j], norms[1][column + j], gain, offset);
        if (PROLOGUE == ELU)
          v[j] = elu (v[j]);
      }
      if (k0 + MANY_SLAB > p.inputs && k0 + channel >= p.inputs)
        v[0] = v[1] = v[2] = v[3] = 0.0f;
      float *to = x + tile * MANY_PLANE + channel * MANY_STRIDE + MANY_PAST +
                  quarter * 4;
      *(float4 *)to = make_float4 (v[0], v[1], v[2], v[3]);
    }
    if (has_past) {
      const unsigned k = threadIdx.x % 32;
      float *to =
          x + threadIdx.x / 32 * MANY_PLANE + k * MANY_STRIDE + MANY_PAST - H;
#pragma unroll
      for (int j = 0; j < H; j++) {
        const bool made = H - j <= before.reach;
        if (PROLOGUE == ELU && made)
          past[j] = elu (past[j]);
        if (k0 + k >= p.inputs || (!made && !remembered))
          past[j] = 0.0f;
        to[j] = past[j];
      }
    }
  }

  /* Leaves a tile's last columns for the next launch, as the product sees
   * them. */
  __device__ void
  keep (const float *x, unsigned k0) const
  {
    const unsigned k = threadIdx.x % 32;

    if (!has_past || blockIdx.x > 0 || which.tile != p.tiles - 1 ||
        k0 + k >= p.inputs)
      return;
    const MimiEntry &entry = p.entries[which.index];
    if (!entry.ends)
      return;
    float *to = history_write (entry, p.history, p.inputs * H);
    x += threadIdx.x / 32 * MANY_PLANE + k * MANY_STRIDE + MANY_PAST +
         min (p.times, TILE) - H;
#pragma unroll
    for (int j = 0; j < H; j++)
      to[(k0 + k) * H + j] = x[j];
  }
};

/* A warp's 16 outputs of two tiles.
 * CLOSES: parts are added up by ranks, as spread.cuh does, in shared memory
 * EACH: a rank has one part */
template <typename Raw, int PRODUCTS, int TAPS, bool CLOSES, bool EACH,
    typename S>
struct ManyProduct {
  static constexpr int H = TAPS - 1, STEPS = MANY_SLAB / 8;
  static constexpr int VALUES = H + 4; /* of a channel, that a lane needs */
  /* Weights that are on their way, and steps without a branch between them: as
   * many as leave registers for two blocks a processor. */
  static constexpr int DEPTH = TAPS == 3 ? 1 : 2;
  static constexpr int UNROLL = TAPS == 2 || TAPS == 3 ? 1 : STEPS;
  const Raw *weights;  /* of this slab's first step */
  unsigned n;          /* from there on, steps times taps */
  unsigned left, subs; /* steps of the part, parts of the rank to come */
  Raw w[DEPTH];
  S sums[4];
  float total[4][4];
  float4 *all; /* [4][threads]: of ranks, for which there are no registers */

  __device__
  ManyProduct (const MimiGemmArgs &p, unsigned row0, float *place)
      : n ((p.inputs + 7) / 8 * TAPS), left (p.part_rows / 8),
        subs (1u << p.subs_log2), sums{}, total{},
        all ((float4 *)place + threadIdx.x)
  {
    weights = (const Raw *)p.weights + threadIdx.x % 32 +
              (size_t)min (row0 / 16, p.stride / 16 - 1) * n * 32;
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
      w[i] = Raw{};
      load (w[i], i);
    }
    if (CLOSES)
#pragma unroll
      for (int h = 0; h < 4; h++)
        all[h * MIMI_CUDA_THREADS] = make_float4 (0, 0, 0, 0);
  }

  /* Beyond the last they stay what they are: they will meet zeros. */
  __device__ void
  load (Raw &to, unsigned at)
  {
    if (at < n)
      to = __ldg (weights + at * 32);
  }

  /* What a lane needs of a channel, for all taps. */
  static __device__ void
  fetch (const float *x, float (&to)[VALUES])
  {
    float v[12];
    if (H > 4)
      *(float4 *)(v + 4) = *(const float4 *)(x - 4);
    if (H == 1)
      to[0] = x[-1];
    else if (H > 1)
      *(float2 *)v = *(const float2 *)(x - H);
    *(float4 *)(v + 8) = *(const float4 *)x;
#pragma unroll
    for (int c = 0; c < VALUES; c++)
      if (c >= H)
        to[c] = v[8 + c - H];
      else if (H > 1)
        to[c] = v[c < 2 ? c : c + 2];
  }

  /* x: of the first of the warp's tiles. Channels that do not exist are zero, so
   * parts that do not exist change nothing. */
  __device__ void
  run (const float *x, unsigned part_steps, unsigned n_subs)
  {
    const unsigned lane = threadIdx.x % 32;

    x += lane / 16 * MANY_PLANE + lane % 4 * MANY_STRIDE + MANY_PAST +
         lane / 4 % 4 * 4;
    /* The usual case without a branch between the steps. */
    if (TAPS == 1 && part_steps % STEPS == 0)
      run_steps<STEPS> (x, part_steps, n_subs);
    else
      run_steps<1> (x, part_steps, n_subs);
    n -= min (n, STEPS * TAPS);
    weights += STEPS * TAPS * 32;
  }

  /* UNIT: steps that are of one part for sure */
  template <int UNIT>
  __device__ __forceinline__ void
  run_steps (const float *x, unsigned part_steps, unsigned n_subs)
  {
#pragma unroll UNROLL
    for (int s = 0; s < STEPS; s++) {
      float high[2][VALUES], low[2][VALUES];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        fetch (x + (s * 8 + i * 4) * MANY_STRIDE, low[i]);
#pragma unroll
        for (int c = 0; c < VALUES; c++) {
          high[i][c] = tf32 (low[i][c]);
          low[i][c] -= high[i][c];
        }
      }
#pragma unroll
      for (int tap = 0; tap < TAPS; tap++) {
        const int at = s * TAPS + tap;
        const Weights now =
            split_weights<PRODUCTS> (w[(TAPS % DEPTH ? at : tap) % DEPTH]);
        Inputs inputs[4];
        load (w[(TAPS % DEPTH ? at : tap) % DEPTH], at + DEPTH);
#pragma unroll
        for (int h = 0; h < 4; h++)
#pragma unroll
          for (int i = 0; i < 2; i++) {
            inputs[h].high[i] = high[i][h + tap];
            inputs[h].low[i] = low[i][h + tap];
          }
        add_products<PRODUCTS> (sums, now, inputs);
      }
      if ((s + 1) % UNIT == 0 && (left -= UNIT) == 0) {
        left = part_steps;
        end_part ();
        if (CLOSES && !EACH && --subs == 0) {
          subs = n_subs;
          close ();
        }
      }
    }
  }

  __device__ void
  end_part ()
  {
#pragma unroll
    for (int h = 0; h < 4; h++) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        total[h][i] = (EACH ? 0.0f : total[h][i]) + sums[h].get (i);
      sums[h] = S{};
    }
    if (EACH)
      close ();
  }

  /* What a rank of spread.cuh has, by itself first. */
  __device__ void
  close ()
  {
#pragma unroll
    for (int h = 0; h < 4; h++) {
      float4 &sum = all[h * MIMI_CUDA_THREADS];
      sum = make_float4 (sum.x + total[h][0], sum.y + total[h][1],
          sum.z + total[h][2], sum.w + total[h][3]);
      total[h][0] = total[h][1] = total[h][2] = total[h][3] = 0.0f;
    }
  }

  __device__ void
  finish ()
  {
    end_part ();
    if (!CLOSES)
      return;
    if (!EACH)
      close ();
#pragma unroll
    for (int h = 0; h < 4; h++)
      *(float4 *)total[h] = all[h * MIMI_CUDA_THREADS];
  }

  /* The lane's eight times of output 8 i + lane / 4. */
  __device__ void
  get (int i, float (&v)[8]) const
  {
#pragma unroll
    for (int h = 0; h < 4; h++)
#pragma unroll
      for (int j = 0; j < 2; j++)
        v[4 * j + h] = total[h][2 * i + j];
  }
};

/* Eight times in a row, of which the first `n` exist. */
static __device__ void
load_times (const float *from, float (&v)[8])
{
  *(float4 *)v = *(const float4 *)from;
  *(float4 *)(v + 4) = *(const float4 *)(from + 4);
}

static __device__ void
store_times (float *to, const float (&v)[8], int n, bool aligned)
{
  if (n >= 8 && aligned) {
    *(float4 *)to = *(const float4 *)v;
    *(float4 *)(to + 4) = *(const float4 *)(v + 4);
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i < n)
        to[i] = v[i];
  }
}

/* Rotation: [pair of channels of a head][column] sine and cosine. */
static __device__ void
make_angles (const MimiGemmArgs &p, float2 *angles)
{
  const unsigned pairs = p.head_dim / 2;
  for (unsigned i = threadIdx.x; i < pairs * MANY_COLUMNS;
       i += MIMI_CUDA_THREADS) {
    const unsigned pair = i / MANY_COLUMNS, column = i % MANY_COLUMNS;
    const ManyTile at (p, column / TILE);
    const unsigned long long position =
        p.entries[at.index].frame * p.times + column % TILE;
    const int turn = (int)(position * __ldg (p.rope + pair) >> 32);
    sincospif (turn * 0x1p-31f, &angles[i].x, &angles[i].y);
  }
}

/* sums: [output][MANY_SUMS]; a row is channel n / ratio, phase n % ratio, and
 * phases become times: neighbours in time are written by neighbours. */
static __device__ void
leave_phases (const MimiGemmArgs &p, const float *sums, unsigned row0)
{
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned channels = p.outputs / p.ratio, first = row0 / p.ratio;
  const unsigned last = min (row0 + MANY_ROWS, p.outputs) - 1;
  const unsigned n = (last / p.ratio - first + 1) * MANY_TILES;
  const unsigned reciprocal = 65536 / p.ratio + 1;
  const unsigned times = min (p.times, TILE) * p.ratio;

  for (unsigned i = warp; i < n; i += WARPS) {
    const ManyTile at (p, i % MANY_TILES);
    const unsigned c = first + i / MANY_TILES;
    const float bias = __ldg (p.bias + c);
    float *out = p.out + (size_t)at.index * p.out_stride + c * TILE;
    bool bad = false;

    if (!at.active)
      continue;
    for (unsigned u = lane; u < times; u += 32) {
      const unsigned t = u * reciprocal >> 16;
      const unsigned row = c * p.ratio + u - t * p.ratio;
      if (row < row0 || row > last)
        continue;
      const float y =
          sums[(row - row0) * MANY_SUMS + i % MANY_TILES * TILE + t] + bias;
      float *to = out +
                  (size_t)(at.tile * p.ratio + u / TILE) * channels * TILE +
                  u % TILE;
      *to = y;
      if (p.elu_offset)
        to[p.elu_offset] = elu (y);
      bad |= overflows (y);
    }
    if (bad)
      atomicOr (p.status + at.index, 1u);
  }
}

/* values: [column][MANY_VALUES] of the residual stream. */
static __device__ void
leave_moments (const MimiGemmArgs &p, const float *values, unsigned row0)
{
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned slice = 1u << p.slice_log2;

  for (unsigned i = warp * 4; i < MANY_ROWS / 32 * MANY_COLUMNS;
       i += WARPS * 4) {
    const unsigned column = i % MANY_COLUMNS, local = i / MANY_COLUMNS * 32;
    const unsigned begin = row0 + local + lane / slice * slice;
    const unsigned here = min (p.outputs - min (begin, p.outputs - 1), slice);
    const ManyTile at (p, column / TILE);
    const unsigned count[4] = { here, here, here, here };
    float value[4];
    float2 moments[4];

#pragma unroll
    for (int j = 0; j < 4; j++)
      value[j] = values[(column + j) * MANY_VALUES + local + lane];
    slice_moments (value, slice, count, p.outputs % slice == 0, moments);
    if (lane % slice == 0 && begin < p.outputs && at.active) {
      float2 *to = (float2 *)(p.moments + (size_t)at.index * p.out_stride) +
                   (begin >> p.slice_log2) * TILE + column % TILE;
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (column % TILE + j < p.times)
          to[j] = moments[j];
    }
  }
}

/* Grid: (outputs / 64, tiles of all entries / 4). */
template <typename Raw, int PRODUCTS, int TAPS, Prologue PROLOGUE,
    Epilogue EPILOGUE, typename S>
static __device__ void
many (const MimiGemmArgs &p)
{
  /* Two slabs of inputs; then sums, or values, or angles. */
  constexpr unsigned MOST = 2 * MANY_BUFFER;
  static_assert (MOST >= MANY_ROWS * MANY_SUMS &&
                 MOST >= MANY_COLUMNS * MANY_VALUES &&
                 MOST >= 2 * 32 * MANY_COLUMNS);
  __shared__ __align__ (16) float shared[MOST];
  __shared__ __align__ (16) float norms[2][MANY_COLUMNS];
  /* A residual block's parts are no ranks', but its sums are many. */
  constexpr bool EACH = PROLOGUE == ELU || EPILOGUE == SKIP;
  constexpr bool CLOSES =
      EACH || EPILOGUE == RESIDUAL || EPILOGUE == CONV || EPILOGUE == UP;
  __shared__ __align__ (16) float ranks[CLOSES ? MANY_ROWS * MANY_COLUMNS : 4];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned row0 = blockIdx.x * MANY_ROWS;
  const unsigned first = warp % MANY_ACROSS * 16; /* the warp's rows */
  const unsigned tile0 = warp / MANY_ACROSS * 2;  /* and tiles */

  ManyProduct<Raw, PRODUCTS, TAPS, CLOSES, EACH, S> product (
      p, row0 + first, ranks);
  wait_for_inputs ();
  /* Who comes next may read its entry before it waits. */
  launch_dependents ();

  bool any = false;
#pragma unroll
  for (int j = 0; j < MANY_TILES; j++)
    any |= ManyTile (p, j).active;
  if (!any)
    return;

  if (PROLOGUE == NORM) {
    const ManyTile at (p, warp % MANY_TILES);
    if (warp < MANY_TILES && at.active) {
      float mean[4], scale[4];
      join_moments<2> (
          (const float2 *)(p.moments + (size_t)at.index * p.in_stride),
          p.inputs, p.slice_log2, p.norm_eps, mean, scale);
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (lane < 4) {
          norms[0][warp * TILE + lane * 4 + j] = mean[j];
          norms[1][warp * TILE + lane * 4 + j] = scale[j];
        }
    }
    __syncthreads ();
  }

  {
    Feed<TAPS, PROLOGUE> feed (p);
    feed.fetch (0);
    feed.put (shared, 0, norms);
    __syncthreads ();
    float *x = shared;
#pragma unroll 1
    for (unsigned k0 = 0; k0 < p.inputs; k0 += MANY_SLAB) {
      float *other = x == shared ? shared + MANY_BUFFER : shared;
      const bool more = k0 + MANY_SLAB < p.inputs;
      if (more && PROLOGUE != ELU)
        feed.fetch (k0 + MANY_SLAB);
      feed.keep (x, k0);
      product.run (x + tile0 * MANY_PLANE, p.part_rows / 8, 1u << p.subs_log2);
      if (more && PROLOGUE == ELU) /* registers are few */
        feed.fetch (k0 + MANY_SLAB);
      if (more)
        feed.put (other, k0 + MANY_SLAB, norms);
      __syncthreads ();
      x = other;
    }
    product.finish ();
  }

  if (EPILOGUE == QKV && row0 < p.outputs / 3 * 2) {
    make_angles (p, (float2 *)shared);
    __syncthreads ();
  }

  const unsigned local = tile0 + lane % 4 / 2, t0 = lane % 2 * 8;
  const int columns = min (p.times, TILE) - t0; /* that exist, or fewer */
  const ManyTile at (p, local);
  float *out = p.out + (size_t)at.index * p.out_stride;
  float old[2][8] = {};
  bool bad = false;

  if (EPILOGUE == RESIDUAL || EPILOGUE == SKIP) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const unsigned row = row0 + first + i * 8 + lane / 4;
      if (at.active && row < p.outputs)
        load_times (
            out + ((size_t)at.tile * p.outputs + row) * TILE + t0, old[i]);
    }
    ask_first ();
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const unsigned here = first + i * 8 + lane / 4;
    const unsigned row = row0 + here;
    const bool exists = at.active && row < p.outputs;
    float v[8], y[8];
    product.get (i, v);

    if (EPILOGUE == UP) {
#pragma unroll
      for (int j = 0; j < 8; j += 2)
        *(float2 *)(shared + here * MANY_SUMS + local * TILE + t0 + j) =
            make_float2 (v[j], v[j + 1]);
      continue;
    }
    float *to = out + ((size_t)at.tile * p.outputs + row) * TILE;
    bool aligned = true;
    unsigned step = 0; /* from one time to the next, if not one */
    if (EPILOGUE == QKV) {
      const unsigned width = p.outputs / 3, which = row / width;
      const unsigned c = row % width, head = c / p.head_dim;
      const unsigned d = c % p.head_dim;
      if (which < 2) {
        const float2 *angle =
            (const float2 *)shared + d / 2 * MANY_COLUMNS + local * TILE + t0;
#pragma unroll
        for (int j = 0; j < 8; j++) {
          const float partner = __shfl_xor_sync (FULL_WARP, v[j], 4);
          const float sine = d % 2 ? angle[j].x : -angle[j].x;
          y[j] = fmaf (partner, sine, v[j] * angle[j].y);
          bad |= exists && j < columns && overflows (y[j]);
        }
      } else {
#pragma unroll
        for (int j = 0; j < 8; j++) {
          y[j] = v[j];
          bad |= exists && j < columns && overflows (y[j]);
        }
      }
      if (which > 0) {
        const MimiEntry &entry = p.entries[at.index];
        const unsigned long long position = entry.frame * p.times;
        const unsigned slot = (unsigned)(position / TILE % p.ring_blocks);
        const unsigned column = (unsigned)(position % TILE);
        to = (float *)entry.state + p.ring +
             (which == 2 ? width * p.ring_blocks * TILE : 0) +
             (head * p.ring_blocks + slot) * p.head_dim * TILE +
             (which == 1 ? d * TILE + column : column * p.head_dim + d);
        aligned = column == 0;
        step = which == 2 ? p.head_dim : 0;
      }
    } else {
      Place place = {};
      if (EPILOGUE != GELU)
        place.bias = __ldg (p.bias + min (row, p.outputs - 1));
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const Output o = complete<EPILOGUE> (p, place, v[j], 0.0f, old[i][j]);
        bad |= exists && j < columns && overflows (o.before);
        y[j] = o.value;
      }
    }
    if (EPILOGUE == RESIDUAL) {
#pragma unroll
      for (int j = 0; j < 8; j++)
        shared[(local * TILE + t0 + j) * MANY_VALUES + here] = y[j];
    }
    if (!exists)
      continue;
    if (EPILOGUE == QKV && step) {
#pragma unroll
      for (int j = 0; j < 8; j++)
        if (j < columns)
          to[(t0 + j) * step] = y[j];
    } else {
      store_times (to + t0, y, columns, aligned);
    }
  }
  if (bad)
    atomicOr (p.status + at.index, 1u);
  if (EPILOGUE == RESIDUAL || EPILOGUE == UP)
    __syncthreads ();
  if (EPILOGUE == RESIDUAL)
    leave_moments (p, shared, row0);
  if (EPILOGUE == UP)
    leave_phases (p, shared, row0);
}
