/* Blocks that work together, from 9.0 on.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The blocks of a cluster can write into each other's shared memory once all
 * of them have begun: each arrives as it begins and waits before it writes,
 * and a second arrival, which releases, and wait, which acquires, come between
 * what is written and its reading. Nobody reads another's memory, so a block
 * may end without waiting for the others.
 */
#pragma once

#include "common.cuh"

static __device__ void
cluster_begin ()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

static __device__ void
cluster_arrive ()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

static __device__ void
cluster_wait ()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* Where a place in shared memory is in the block of another rank. */
static __device__ unsigned
remote (const void *place, unsigned rank)
{
  unsigned there = (unsigned)__cvta_generic_to_shared (place);
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(there) : "r"(rank));
#endif
  return there;
}

static __device__ void
store_remote (unsigned place, float x)
{
#if __CUDA_ARCH__ >= 900
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(place), "f"(x)
               : "memory");
#endif
}

static __device__ void
store_remote (unsigned place, float x, float y)
{
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(place), "f"(x), "f"(y)
      : "memory");
#endif
}

/* To that place in the block of rank `to`: its own, if it is `own`. (The brace has
 * no line of its own: so ends a kernel, for tests/cuda/mutate.py.) */
static __device__ void
store_at (float2 *place, unsigned to, unsigned own, float2 v)
{
#if __CUDA_ARCH__ >= 900
  const unsigned here = (unsigned)__cvta_generic_to_shared (place);
  asm volatile("{\n\t"
               ".reg .pred mine;\n\t"
               "setp.eq.u32 mine, %0, %1;\n\t"
               "@mine st.shared.v2.f32 [%2], {%4, %5};\n\t"
               "@!mine st.shared::cluster.v2.f32 [%3], {%4, %5}; }" ::"r"(to),
               "r"(own), "r"(here), "r"(remote (place, to)), "f"(v.x), "f"(v.y)
               : "memory");
#endif
}
