/* A window of keys and values in shared memory.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "common.cuh"

/* Keys and values of this block's window in shared memory: those of earlier
 * launches are asked for before the kernel waits. Keys
 * [block][half][dim / 2][16], the halves 16 banks apart; values
 * [position][dim]. */
template <int DIM> struct Window {
  static constexpr unsigned HALF = DIM / 2 * TILE + TILE, KEYS = 2 * HALF;
  static constexpr unsigned VALUES = TILE * DIM;
  static constexpr unsigned PIECES = DIM * TILE / 4; /* of 16 bytes */
  float *keys, *values;

  static __device__ unsigned
  key_place (unsigned d, unsigned column)
  {
    return d / (DIM / 2) * HALF + d % (DIM / 2) * TILE + column;
  }

  __device__ void
  begin (const float *k, const float *v, unsigned block, unsigned slot) const
  {
    for (unsigned i = threadIdx.x; i < PIECES; i += MIMI_CUDA_THREADS) {
      copy_to_shared (keys + block * KEYS + key_place (i / 4, i % 4 * 4),
          (const float4 *)(k + slot * DIM * TILE + i * 4));
      copy_to_shared (values + block * VALUES + i * 4,
          (const float4 *)(v + slot * DIM * TILE + i * 4));
    }
  }
};
