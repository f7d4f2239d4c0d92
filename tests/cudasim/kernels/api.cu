/* Small kernels for the tests of the driver API
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
__device__ int offset = 5;

extern "C" __global__ void __launch_bounds__ (256) add (int *x, int value)
{
  x[blockIdx.x * blockDim.x + threadIdx.x] += value;
}

extern "C" __global__ void
copy (int *to, const int *from)
{
  to[threadIdx.x] = from[threadIdx.x] + offset;
}

extern "C" __global__ void
same (int *to, const volatile int *from)
{
  __shared__ int seen[64];

  seen[threadIdx.x] = *from; /* all lanes the same word */
  if (seen[threadIdx.x] == -1)
    to[threadIdx.x] = 0; /* never: but the load is needed */
}
