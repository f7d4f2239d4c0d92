/* Clusters, and kernels that start before the one before has ended
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

/* Each block sends its sum to all of its cluster, which add them up. */
extern "C" __global__ void
exchange (const float *in, float *out)
{
  __shared__ float sums[8];
  __shared__ float mine;
  cg::cluster_group cluster = cg::this_cluster ();
  float x = in[blockIdx.x * 32 + threadIdx.x];
  for (int d = 16; d; d >>= 1)
    x += __shfl_xor_sync (~0u, x, d);
  cluster.sync (); /* all have begun */
  if (threadIdx.x < cluster.num_blocks ())
    *cluster.map_shared_rank (sums + cluster.block_rank (), threadIdx.x) = x;
  if (threadIdx.x == 0)
    mine = x;
  cluster.sync ();
  float s = 0;
  for (int i = 0; i < cluster.num_blocks (); i++)
    s += sums[i];
  float next = *cluster.map_shared_rank (
      &mine, (cluster.block_rank () + 1) % cluster.num_blocks ());
  out[blockIdx.x * 32 + threadIdx.x] = s * 1000 + next;
  cluster.sync (); /* none goes while others read */
}

__device__ static void
wait ()
{
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

__device__ static void
trigger ()
{
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/* x = x * w + 1; w may be read before the wait. */
extern "C" __global__ void
dependent (float *x, const float *w)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  trigger ();
  float weight = w[i];
  wait ();
  x[i] = x[i] * weight + 1;
}
