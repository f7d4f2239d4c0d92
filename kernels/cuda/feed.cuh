/* What goes into the products of many tiles: brought to shared memory.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A block has 64 outputs of four tiles, and what goes into them is brought once,
 * 32 channels at a time, while the 32 before are multiplied; a warp brings a
 * tile. It needs no registers on the way; where it is normalised, or goes through
 * ELU, each thread does that in place with what it has brought itself.
 */
#pragma once

#include "epilogue.cuh"
#include "moments.cuh"

#define MANY_TILES MIMI_CUDA_MANY_TILES
#define MANY_ROWS MIMI_CUDA_MANY_ROWS
#define MANY_THREADS MIMI_CUDA_MANY_THREADS
#define MANY_WARPS (MANY_THREADS / 32)
#define MANY_COLUMNS (MANY_TILES * TILE)
#define MANY_SLAB \
  MIMI_CUDA_MANY_SLAB /* channels that are there at once, twice */
#define MANY_PAST 8
#define MANY_STRIDE (MANY_PAST + TILE) /* of a channel */
#define MANY_PLANE (MANY_SLAB * MANY_STRIDE)
#define MANY_BUFFER (MANY_TILES * MANY_PLANE)

static_assert (MANY_SLAB == 32 && MANY_WARPS == MANY_TILES,
    "a warp brings a tile, a lane the past of a channel");

/* Where one of the block's tiles is. */
struct ManyTile {
  unsigned index, tile; /* entry, and which of its tiles */
  bool active;

  ManyTile () = default;
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

/* The block's tiles, for all threads: to find out costs a trip to L2. Returns
 * whether there is any. */
static __device__ bool
find_tiles (const MimiGemmArgs &p, ManyTile *tiles)
{
  bool any = false;
  if (threadIdx.x < MANY_TILES)
    tiles[threadIdx.x] = ManyTile (p, threadIdx.x);
  __syncthreads ();
#pragma unroll
  for (int i = 0; i < MANY_TILES; i++)
    any |= tiles[i].active;
  return any;
}

/* 16 bytes on their way, zeros if there are none to be had. */
static __device__ void
bring (float *to, const float *from, bool exists)
{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   (unsigned)__cvta_generic_to_shared (to)),
               "l"(from), "r"(exists ? 16 : 0)
               : "memory");
#endif
}

static __device__ void
bring_one (float *to, const float *from, bool exists)
{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                   (unsigned)__cvta_generic_to_shared (to)),
               "l"(from), "r"(exists ? 4 : 0)
               : "memory");
#endif
}

/* What a thread brings of a slab: four times of every eighth channel, and what
 * was before the tile, of one channel. */
template <int TAPS, Prologue PROLOGUE> struct Feed {
  static constexpr int H = TAPS - 1, N = MANY_SLAB / 8;
  const MimiGemmArgs &p;
  const ManyTile &at;
  const unsigned channel, quarter;
  const float *from;
  float gain[N], offset[N];

  const bool has_past;
  const bool remembered;
  const Past before;
  const float *kept;
  const float *one; /* if only one: of channel 0, and how far the next is */
  unsigned step;

  /* Eight lanes that store at once: four channels, two quarters of a tile; they
   * are in different banks. */
  __device__
  Feed (const MimiGemmArgs &args, const ManyTile *tiles)
      : p (args), at (tiles[threadIdx.x / 32]), channel (threadIdx.x / 2 % 8),
        quarter (threadIdx.x % 2 + threadIdx.x % 32 / 16 * 2),
        from (at.in (p) + channel * TILE + quarter * 4),
        has_past (H > 0 && at.active),
        remembered (H > 0 && remembers (p.entries[at.index])),
        before (p.entries[at.index], at.in (p), at.tile, p.tiles, p.times,
            p.inputs, p.in_stride),
        kept (H > 0
                  ? history_read (p.entries[at.index], p.history, p.inputs * H)
                  : nullptr)
  {
    one = before.reach ? before.tile + before.columns - 1 : kept;
    step = before.reach ? TILE : 1;
  }

  /* The thread's first four values; and where the H values before its tile go. */
  __device__ float *
  own (float *x) const
  {
    return x + threadIdx.x / 32 * MANY_PLANE + channel * MANY_STRIDE +
           MANY_PAST + quarter * 4;
  }

  __device__ float *
  past (float *x) const
  {
    return x + threadIdx.x / 32 * MANY_PLANE + threadIdx.x % 32 * MANY_STRIDE +
           MANY_PAST - H;
  }

  /* x: [tile][channel][24], of which the first 8 are past */
  __device__ void
  fetch (float *x, unsigned k0)
  {
    const float *source = from + k0 * TILE;
#pragma unroll
    for (int i = 0; i < N; i++) {
      bring (own (x) + 8 * i * MANY_STRIDE, source + 8 * i * TILE,
          at.active && k0 + channel + 8 * i < p.inputs);
      if (PROLOGUE == NORM) {
        const unsigned k = k0 + channel + 8 * i;
        const float *norm = p.norm + min (k, p.inputs - 1);
        gain[i] = k < p.inputs ? __ldg (norm) : 0.0f; /* zero stays zero */
        offset[i] = k < p.inputs ? __ldg (norm + p.inputs) : 0.0f;
      }
    }
    if (has_past) {
      const unsigned k = k0 + threadIdx.x % 32, last = min (k, p.inputs - 1);
      if (H == 1)
        bring_one (past (x), one + last * step,
            k < p.inputs && (remembered || step > 1));
      else
        before.template each<H> (last, [&] (int j, const float *place) {
          const bool made = H - j <= before.reach;
          bring_one (past (x) + j,
              made ? place : kept + last * H + before.reach + j,
              k < p.inputs && (made || remembered));
        });
    }
    ask_first ();
  }

  /* norms: mean and 1 / standard deviation of each column */
  __device__ void
  put (float *x, const float *norms)
  {
    wait_for_copies ();
    if (PROLOGUE != AS_IS) {
      float mean[4], scale[4];
      if (PROLOGUE == NORM) {
        norms += threadIdx.x / 32 * TILE + quarter * 4;
        *(float4 *)mean = *(const float4 *)norms;
        *(float4 *)scale = *(const float4 *)(norms + MANY_COLUMNS);
      }
#pragma unroll
      for (int i = 0; i < N; i++) {
        float4 *to = (float4 *)(own (x) + 8 * i * MANY_STRIDE);
        float v[4];
        *(float4 *)v = *to;
#pragma unroll
        for (int j = 0; j < 4; j++)
          v[j] = PROLOGUE == NORM
                     ? normalize (v[j], mean[j], scale[j], gain[i], offset[i])
                     : elu (v[j]);
        *to = *(const float4 *)v;
      }
    }
    if (PROLOGUE == ELU && has_past) /* the history has been through it */
#pragma unroll
      for (int j = 0; j < H; j++)
        if (H - j <= before.reach)
          past (x)[j] = elu (past (x)[j]);
  }

  /* Leaves a tile's last columns for the next launch, as the product sees
   * them. */
  __device__ void
  keep (const float *x, unsigned k0) const
  {
    const unsigned k = threadIdx.x % 32;

    if (!has_past || blockIdx.x > 0 || at.tile != p.tiles - 1 ||
        k0 + k >= p.inputs)
      return;
    const MimiEntry &entry = p.entries[at.index];
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

/* Mean and 1 / standard deviation of the block's columns: a warp has a tile. */
static __device__ void
make_norms (const MimiGemmArgs &p, const ManyTile *tiles, float *norms)
{
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const ManyTile at = tiles[warp];
  float mean[4], scale[4];

  if (!at.active)
    return;
  join_moments<2> ((const float2 *)(p.moments + (size_t)at.index * p.in_stride),
      p.inputs, p.slice_log2, p.norm_eps, mean, scale);
#pragma unroll
  for (int j = 0; j < 4; j++)
    if (lane < 4) {
      norms[warp * TILE + lane * 4 + j] = mean[j];
      norms[MANY_COLUMNS + warp * TILE + lane * 4 + j] = scale[j];
    }
}
