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
 * before can be read. All threads of the block take part. The counter goes back
 * to zero with the last, so the next launch finds it as this one did. */
static __device__ bool
comes_last (unsigned *arrived, unsigned n)
{
  __shared__ bool last;

  /* The barrier puts the block's writes before the fence, the fence puts them
   * before the count. */
  __syncthreads ();
  if (threadIdx.x == 0) {
    __threadfence ();
    last = atomicInc (arrived, n - 1) == n - 1;
    __threadfence ();
  }
  __syncthreads ();
  return last;
}
