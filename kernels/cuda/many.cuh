/* Every dense layer once more, for many tiles, on tensor cores.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Four warps have 64 outputs of four tiles, 32 of two tiles each. feed.cuh brings
 * what goes into their products, batch.cuh makes those, leave.cuh says what becomes
 * of them.
 */
#pragma once

#include "leave.cuh"

/* Grid: (outputs / 64, tiles of all entries / 4).
 * Shared memory: two slabs of inputs, then sums, or values, or angles; and sums of
 * ranks, or mean and 1 / deviation of columns. */
template <typename Raw, int PRODUCTS, int TAPS, Prologue PROLOGUE,
    Epilogue EPILOGUE, typename S>
static __device__ void
many (const MimiGemmArgs &p)
{
  extern __shared__ __align__ (16) float shared[];
  static_assert (2 * MANY_BUFFER >= MANY_ROWS * MANY_SUMS &&
                 2 * MANY_BUFFER >= MANY_COLUMNS * MANY_VALUES &&
                 2 * MANY_BUFFER >= 2 * 32 * MANY_COLUMNS);
  constexpr int GROUPS = 2;
  constexpr unsigned ACROSS = MANY_ROWS / 16 / GROUPS; /* warps, of all rows */
  /* A residual block's parts are no ranks', nor are those behind a norm. */
  constexpr Totals TOTALS = PROLOGUE == NORM                      ? HELD
                            : PROLOGUE == ELU || EPILOGUE == SKIP ? EACH
                                                                  : RANKS;
  float *totals = shared + 2 * MANY_BUFFER, *norms = totals;
  const unsigned warp = threadIdx.x / 32;
  const unsigned row0 = blockIdx.x * MANY_ROWS;
  const unsigned first = warp % ACROSS * 16 * GROUPS; /* the warp's rows */
  const unsigned tile0 = warp / ACROSS * 2;           /* and tiles */
  /* Ranks of one part are as good as one rank, and that is in registers. */
  const unsigned subs = p.subs_log2 ? 1u << p.subs_log2 : ~0u;

  ManyProduct<Raw, PRODUCTS, TAPS, GROUPS, TOTALS, S> product (
      p, row0 + first, subs, totals);
  wait_for_inputs ();
  /* Who comes next may read its entry before it waits. */
  launch_dependents ();

  __shared__ ManyTile tiles[MANY_TILES];
  if (!find_tiles (p, tiles))
    return;

  {
    Feed<TAPS, PROLOGUE> feed (p, tiles);
    feed.fetch (shared, 0);
    if (PROLOGUE == NORM) {
      make_norms (p, tiles, norms);
      __syncwarp ();
    }
    feed.put (shared, norms);
    __syncthreads ();
    float *x = shared;
#pragma unroll 1
    for (unsigned k0 = 0; k0 < p.inputs; k0 += MANY_SLAB) {
      float *other = x == shared ? shared + MANY_BUFFER : shared;
      const bool more = k0 + MANY_SLAB < p.inputs;
      if (more)
        feed.fetch (other, k0 + MANY_SLAB);
      feed.keep (x, k0);
      product.run (x + tile0 * MANY_PLANE, p.part_rows / 8, subs);
      if (more)
        feed.put (other, norms);
      __syncthreads ();
      x = other;
    }
    product.finish (subs);
  }

  if (EPILOGUE == QKV && row0 < p.outputs / 3 * 2) {
    make_angles (p, tiles, (float2 *)shared);
    __syncthreads ();
  }
  leave<EPILOGUE, GROUPS> (p, tiles, product, shared, row0, first, tile0);
}
