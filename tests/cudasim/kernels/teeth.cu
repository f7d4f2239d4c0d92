/* Kernels that are wrong if they are told to be
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Each does the same thing rightly with bad = 0: the simulator has to be
 * content with that and to object to the other.
 */
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void
missing_barrier (float *x, int bad)
{
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  if (!bad)
    __syncthreads ();
  x[threadIdx.x] = s[63 - threadIdx.x];
}

/* The second barrier: nobody may write before all have read. */
extern "C" __global__ void
missing_second_barrier (float *x, int bad)
{
  __shared__ float s[64];
  for (int i = 0; i < 3; i++) {
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads ();
    x[threadIdx.x] = s[63 - threadIdx.x];
    if (!bad)
      __syncthreads ();
  }
}

extern "C" __global__ void
missing_syncwarp (float *x, int bad)
{
  __shared__ float s[32];
  s[threadIdx.x & 31] = x[threadIdx.x & 31];
  if (!bad)
    __syncwarp ();
  if (threadIdx.x < 32)
    x[threadIdx.x] = s[31 - threadIdx.x];
}

extern "C" __global__ void
race_between_blocks (float *x, int bad)
{
  x[blockIdx.x + gridDim.x] = bad ? x[(blockIdx.x + 1) % gridDim.x] : 1;
  x[blockIdx.x] = 2;
}

extern "C" __global__ void
race_of_writers (float *x, int bad)
{
  x[bad ? 0 : blockIdx.x] = blockIdx.x;
}

extern "C" __global__ void
race_in_block (float *x, int bad)
{
  x[threadIdx.x] = threadIdx.x;
  if (!bad)
    __syncthreads ();
  x[threadIdx.x + 64] = x[63 - threadIdx.x];
}

extern "C" __global__ void
lost_update (float *x, int bad)
{
  if (bad)
    *x += 1;
  else
    atomicAdd (x, 1.0f);
}

/* A flag without a fence, as in memory.cu. */
__device__ unsigned counter;

extern "C" __global__ void
missing_fence (float *x, int bad)
{
  if (threadIdx.x)
    return;
  x[blockIdx.x] = 1;
  if (!bad)
    __threadfence ();
  if (atomicInc (&counter, gridDim.x - 1) != gridDim.x - 1)
    return;
  if (!bad)
    __threadfence ();
  float s = 0;
  for (int i = 0; i < gridDim.x; i++)
    s += x[i];
  x[gridDim.x] = s;
}

extern "C" __global__ void
beyond_the_end (float *x, int bad)
{
  x[threadIdx.x + 64 + bad] = 1;
}

extern "C" __global__ void
before_the_start (float *x, int bad)
{
  x[(int)threadIdx.x - bad] = 1;
}

extern "C" __global__ void
far_away (float *x, int bad)
{
  x[threadIdx.x + (bad ? 1 << 30 : 0)] = 1;
}

extern "C" __global__ void
misaligned (float *x, int bad)
{
  *(float2 *)(x + bad) = make_float2 (1, 2);
}

extern "C" __global__ void
beyond_shared (float *x, int bad)
{
  extern __shared__ float s[];
  s[threadIdx.x + bad] = 1;
  __syncthreads ();
  x[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void
beyond_local (float *x, int bad)
{
  float local[4];
  for (int i = 0; i < 4; i++)
    local[i] = x[i];
  x[threadIdx.x] = local[(threadIdx.x & 3) + bad * 4];
}

/* x[128...] has never been written to. */
extern "C" __global__ void
uninitialised (float *x, int bad)
{
  x[threadIdx.x] = x[threadIdx.x + (bad ? 128 : 0)];
}

extern "C" __global__ void
uninitialised_shared (float *x, int bad)
{
  __shared__ float s[64];
  if (threadIdx.x || !bad)
    s[threadIdx.x] = 1;
  __syncthreads ();
  x[threadIdx.x] = s[63 - threadIdx.x];
}

extern "C" __global__ void
divergent_barrier (float *x, int bad)
{
  if (bad ? threadIdx.x & 1 : 1)
    __syncthreads ();
  x[threadIdx.x] = 1;
}

/* Half of the block waits here, the other half there. */
extern "C" __global__ void
different_barriers (float *x, int bad)
{
  if (threadIdx.x < 32)
    asm volatile("bar.sync 1, 64;" ::: "memory");
  else
    asm volatile("bar.sync %0, 64;" ::"r"(1 + bad) : "memory");
  x[threadIdx.x] = 1;
}

extern "C" __global__ void
barrier_in_one_warp (float *x, int bad)
{
  if (threadIdx.x < 32 || !bad)
    asm volatile("bar.sync 1, 64;" ::: "memory");
  x[threadIdx.x] = 1;
}

extern "C" __global__ void
shuffle_of_absent (float *x, int bad)
{
  if (threadIdx.x < 16)
    x[threadIdx.x] =
        __shfl_xor_sync (bad ? 0xffffffff : 0xffff, x[threadIdx.x], 1);
}

extern "C" __global__ void
shuffle_from_absent (float *x, int bad)
{
  if (threadIdx.x < 16)
    x[threadIdx.x] = __shfl_sync (0xffff, x[threadIdx.x], bad ? 20 : 3);
}

extern "C" __global__ void
missing_async_wait (float *x, int bad)
{
  __shared__ __align__ (16) float s[64];
  if (threadIdx.x < 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (unsigned)__cvta_generic_to_shared (s + 4 * threadIdx.x)),
        "l"(x + 4 * threadIdx.x));
    asm volatile("cp.async.commit_group;");
    if (!bad)
      asm volatile("cp.async.wait_group 0;" ::: "memory");
  }
  __syncthreads ();
  x[64 + threadIdx.x] = s[threadIdx.x];
  __syncthreads ();
  if (bad)
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

extern "C" __global__ void
no_coherence (float *x, int bad)
{
  float r;
  x[threadIdx.x] = 1;
  __syncthreads ();
  if (bad)
    asm volatile("ld.global.nc.f32 %0, [%1];"
                 : "=f"(r)
                 : "l"(x + 63 - threadIdx.x));
  else
    asm volatile("ld.global.f32 %0, [%1];"
                 : "=f"(r)
                 : "l"(x + 63 - threadIdx.x));
  x[64 + threadIdx.x] = r;
}

extern "C" __global__ void
endless (float *x, int bad)
{
  while (bad && ((volatile float *)x)[0] != 77)
    ;
  x[threadIdx.x] = 77;
}

extern "C" __global__ void
half_a_warp_multiplies (float *x, int bad)
{
#if __CUDA_ARCH__ >= 800
  float d[4] = { 0, 0, 0, 0 };
  unsigned a = 0, b = 0;
  if (threadIdx.x < (bad ? 16 : 32))
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %4}, {%5}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a), "r"(b));
  x[threadIdx.x] = d[0];
#endif
}

extern "C" __global__ void
stack_trap (float *x, int bad)
{
  if (bad)
    __trap ();
  x[threadIdx.x] = 1;
}

#if __CUDA_ARCH__ >= 900
/* A remote store before the block is known to have begun is another matter:
 * here the barrier after it is missing. */
extern "C" __global__ void
missing_cluster_barrier (float *x, int bad)
{
  __shared__ float s;
  cg::cluster_group c = cg::this_cluster ();
  c.sync ();
  if (threadIdx.x == 0)
    *c.map_shared_rank (&s, c.block_rank () ^ 1) = c.block_rank ();
  if (!bad)
    c.sync ();
  else
    __syncthreads ();
  x[blockIdx.x * 32 + threadIdx.x] = s;
  c.sync ();
}

extern "C" __global__ void
leaves_the_cluster (float *x, int bad)
{
  __shared__ float s;
  cg::cluster_group c = cg::this_cluster ();
  if (threadIdx.x == 0)
    s = 1;
  c.sync ();
  x[blockIdx.x * 32 + threadIdx.x] =
      *c.map_shared_rank (&s, c.block_rank () ^ 1);
  if (!bad)
    c.sync ();
}

/* An arrival without release orders nothing. */
extern "C" __global__ void
relaxed_arrival (float *x, int bad)
{
  __shared__ float s;
  cg::cluster_group c = cg::this_cluster ();
  c.sync ();
  if (threadIdx.x == 0)
    *c.map_shared_rank (&s, c.block_rank () ^ 1) = c.block_rank ();
  if (bad)
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  else
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
  x[blockIdx.x * 32 + threadIdx.x] = s;
  c.sync ();
}

__device__ static void
wait ()
{
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

extern "C" __global__ void
early_read (float *x, int bad)
{
  asm volatile("griddepcontrol.launch_dependents;");
  if (!bad)
    wait ();
  float r = x[threadIdx.x];
  if (bad)
    wait ();
  x[threadIdx.x] = r + 1;
}

extern "C" __global__ void
no_wait (float *x, int bad)
{
  asm volatile("griddepcontrol.launch_dependents;");
  if (!bad)
    wait ();
  x[threadIdx.x] += 1;
}

/* Reads x, writes x + 64; the next launch writes x before its wait. */
extern "C" __global__ void
early_write (float *x, int bad)
{
  asm volatile("griddepcontrol.launch_dependents;");
  if (!bad)
    wait ();
  x[threadIdx.x + 128] = 1;
  if (bad)
    wait ();
  x[threadIdx.x + 64] = x[threadIdx.x] + x[threadIdx.x + 128];
}
#endif
