/* A residual block of many tiles in one kernel.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * y = elu (x + skip (elu (residual (elu (x))))): four warps have all channels of
 * four tiles. What goes into the first convolution is in shared memory, all of
 * it, and so are the hidden channels: neither is brought, or goes through ELU,
 * more than once. A warp makes 16 outputs of two tiles at a time.
 */
#pragma once

#include "leave.cuh"

/* The warp's part of 32 outputs: products with all channels of x. */
template <typename Raw, int PRODUCTS, int TAPS>
using BlockProduct = ManyProduct<Raw, PRODUCTS, TAPS, 1, HELD, ThreeSums>;

template <typename Product>
static __device__ void
run_all (Product &product, const MimiGemmArgs &p, const float *x)
{
#pragma unroll 1
  for (unsigned k0 = 0; k0 < p.inputs; k0 += MANY_SLAB, x += MANY_BUFFER)
    product.run (x, p.part_rows / 8, 1);
  product.finish (1);
}

/* Grid: (1, tiles of all entries / 4).
 * Shared memory: slabs of inputs, then of hidden channels. */
template <typename Raw, int PRODUCTS>
static __device__ void
many_block (const MimiGemmArgs &p, const MimiGemmArgs &q)
{
  extern __shared__ __align__ (16) float shared[];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned first = warp % 2 * 16, tile0 = warp / 2 * 2;
  const unsigned n_slabs = (p.inputs + MANY_SLAB - 1) / MANY_SLAB;
  float *hidden = shared + n_slabs * MANY_BUFFER;

  wait_for_inputs ();
  launch_dependents ();
  __shared__ ManyTile tiles[MANY_TILES];
  if (!find_tiles (p, tiles))
    return;

  {
    Feed<3, ELU> feed (p, tiles);
    for (unsigned i = 0; i < n_slabs; i++)
      feed.fetch (shared + i * MANY_BUFFER, i * MANY_SLAB);
    for (unsigned i = 0; i < n_slabs; i++)
      feed.put (shared + i * MANY_BUFFER, NULL);
    __syncthreads ();
    for (unsigned i = 0; i < n_slabs; i++)
      feed.keep (shared + i * MANY_BUFFER, i * MANY_SLAB);
  }

  const unsigned local = tile0 + lane % 4 / 2, t0 = lane % 2 * 8;
  const ManyTile &at = tiles[local];
  const unsigned own = local * MANY_PLANE + MANY_PAST + t0; /* its columns */
  const float *in = at.in (p) + t0;
  float *out = q.out + (in - p.in);
  bool bad = false;

#pragma unroll 1
  for (unsigned row0 = first; row0 < (q.inputs + 31) / 32 * 32; row0 += 32) {
    BlockProduct<Raw, PRODUCTS, 3> product (p, row0, 1, NULL);
    float bias[2], v[2][8];
#pragma unroll
    for (int i = 0; i < 2; i++)
      bias[i] = __ldg (p.bias + min (row0 + i * 8 + lane / 4, p.outputs - 1));
    run_all (product, p, shared + tile0 * MANY_PLANE);
    product.get (0, v);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const unsigned row = row0 + i * 8 + lane / 4;
      const bool exists = row < p.outputs;
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float y = v[i][j] + bias[i];
        bad |= exists && overflows (y);
        v[i][j] = exists ? elu (y) : 0.0f;
      }
      store_times (hidden + row / MANY_SLAB * MANY_BUFFER +
                       row % MANY_SLAB * MANY_STRIDE + own,
          v[i], 8, true);
    }
  }
  __syncthreads ();

#pragma unroll 1
  for (unsigned row0 = first; row0 < q.outputs; row0 += 32) {
    BlockProduct<Raw, PRODUCTS, 1> product (q, row0, 1, NULL);
    float bias[2], old[2][8], v[2][8];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const unsigned row = min (row0 + i * 8 + lane / 4, q.outputs - 1);
      bias[i] = __ldg (q.bias + row);
      load_times (in + row * TILE, old[i]);
    }
    ask_first ();
    run_all (product, q, hidden + tile0 * MANY_PLANE);
    product.get (0, v);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const unsigned row = row0 + i * 8 + lane / 4;
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float y = old[i][j] + v[i][j] + bias[i];
        bad |= row < q.outputs && overflows (y);
        v[i][j] = elu (y);
      }
      if (at.active && row < q.outputs)
        store_times (out + row * TILE, v[i], 8, true);
    }
  }
  if (bad && at.active)
    atomicOr (p.status + at.index, 1u);
}
