/* Blocks that share a sum, on any GPU.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Each block leaves what it has in global memory, and whoever comes last goes
 * on with all of it. Nobody waits for anybody, so it does not matter which of
 * them run at the same time, nor in what order.
 */
#pragma once

#include "common.cuh"

/* Whether this block is the last of `n`: then what every one of them wrote
 * before can be read. All threads of the block take part in both halves, and may
 * do something between them. The counter goes back to zero with the last, so the
 * next launch finds it as this one did. */
struct Arrival {
  unsigned *const arrived;
  const unsigned n;
  unsigned before;

  __device__
  Arrival (unsigned *counter, unsigned all)
      : arrived (counter), n (all), before (0)
  {
  }

  /* The barrier puts the block's writes before the fence, the fence puts them
   * before the count. */
  __device__ void
  count ()
  {
    __syncthreads ();
    if (threadIdx.x == 0) {
      __threadfence ();
      before = atomicInc (arrived, n - 1);
    }
  }

  __device__ bool
  is_last () const
  {
    __shared__ bool last;

    if (threadIdx.x == 0) {
      __threadfence ();
      last = before == n - 1;
    }
    __syncthreads ();
    return last;
  }
};
