/* Loads, stores, atomics, lanes, divergence, calls
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

__device__ unsigned counter;
__device__ float table[4] = { 1.5f, -2, 3, 4 };
__device__ const float *pointer = table + 1;
__constant__ short constants[8] = { 10, -11, 12, -13, 14, -15, 16, -17 };

struct Params {
  const float *in[2];
  float *out;
  int n, which;
};

/* Vectors, bytes, constants, pointers chosen at run time, locals. */
extern "C" __global__ void
mixed (Params p)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float local[8];
  const float *in = p.in[(i + p.which) & 1];
  if (i >= p.n)
    return;
  float4 v = ((const float4 *)in)[i];
  float2 w = ((const float2 *)in)[i];
  const signed char *bytes = (const signed char *)in;
  const unsigned short *halves = (const unsigned short *)in;
  for (int j = 0; j < 8; j++)
    local[j] = v.x * j + v.y;
  local[i & 7] += v.z;
  float r = local[(i * 3) & 7] + local[i & 7] * v.w + w.x - w.y;
  r += bytes[i] + halves[i] + constants[i & 7] + *pointer;
  ((float2 *)p.out)[i] = make_float2 (r, (float)((const double *)in)[i]);
}

/* All ways to add up, by blocks of 64. */
extern "C" __global__ void
sums (const int *in, int *out, int n)
{
  __shared__ int shared[64];
  __shared__ int total;
  int i = blockIdx.x * 64 + threadIdx.x;
  int x = i < n ? in[i] : 0;
  shared[threadIdx.x] = x;
  if (threadIdx.x == 0)
    total = 0;
  __syncthreads ();
  atomicAdd (&total, x);
  for (int d = 32; d; d >>= 1) {
    if (threadIdx.x < d)
      shared[threadIdx.x] += shared[threadIdx.x + d];
    __syncthreads ();
  }
  int y = x;
  for (int d = 16; d; d >>= 1)
    y += __shfl_xor_sync (~0u, y, d);
  int scan = x;
  for (int d = 1; d < 32; d <<= 1) {
    int z = __shfl_up_sync (~0u, scan, d);
    if ((threadIdx.x & 31) >= d)
      scan += z;
  }
  int last = __shfl_sync (~0u, scan, 31);
  int down = __shfl_down_sync (~0u, x, 5, 8);
  if (threadIdx.x == 0) {
    out[blockIdx.x * 8] = shared[0];
    out[blockIdx.x * 8 + 1] = total;
    out[blockIdx.x * 8 + 4] = __popc (__ballot_sync (1, x > 0));
  }
  int any = __syncthreads_or (x > 995), all = __syncthreads_and (x >= 0);
  int count = __syncthreads_count (x & 1);
  unsigned ballot = __ballot_sync (~0u, x & 1);
  if (threadIdx.x == 32) {
    out[blockIdx.x * 8 + 2] = y;
    out[blockIdx.x * 8 + 3] = last;
    out[blockIdx.x * 8 + 5] = count;
    out[blockIdx.x * 8 + 6] = any * 2 + all;
    out[blockIdx.x * 8 + 7] = ballot;
  }
  atomicAdd (out + gridDim.x * 8, down);
  atomicMax (out + gridDim.x * 8 + 1, x);
  atomicInc ((unsigned *)out + gridDim.x * 8 + 2, 1000000);
  if (atomicCAS (out + gridDim.x * 8 + 3, 0, i + 1) == 0)
    atomicExch (out + gridDim.x * 8 + 4, 7);
}

__device__ __noinline__ int
collatz (int x, int *steps)
{
  while (x != 1 && *steps < 500) {
    x = x & 1 ? 3 * x + 1 : x / 2;
    ++*steps;
  }
  return x;
}

/* Lanes go all ways, and meet again. */
extern "C" __global__ void
diverge (const int *in, int *out)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x, steps = 0, r = 0;
  int x = in[i];
  collatz (x, &steps);
  for (int j = 0; j < (x & 15); j++) {
    if (j == (x >> 4 & 7))
      continue;
    switch ((x + j) % 5) {
      case 0:
        r += 3;
        break;
      case 1:
        r ^= j;
      case 2:
        r -= x & 3;
        break;
      case 3:
        if (r > 100)
          goto out;
        r *= 2;
        break;
      default:
        r++;
    }
  }
out:
  __syncwarp ();
  r += __popc (__activemask ());
  __syncthreads ();
  out[i] = r * 1000 + steps;
}

/* The last block to come adds up what the others left. */
extern "C" __global__ void
last_block (const float *in, float *part, float *out)
{
  __shared__ bool last;
  __shared__ float sum[32];
  sum[threadIdx.x] = in[blockIdx.x * 32 + threadIdx.x];
  __syncthreads ();
  if (threadIdx.x == 0) {
    float s = 0;
    for (int i = 0; i < 32; i++)
      s += sum[i];
    part[blockIdx.x] = s;
    __threadfence ();
    last = atomicInc (&counter, gridDim.x - 1) == gridDim.x - 1;
    __threadfence ();
  }
  __syncthreads ();
  if (last && threadIdx.x == 0) {
    float s = 0;
    for (int i = 0; i < gridDim.x; i++)
      s += part[i];
    *out = s;
  }
}

/* Block 0 waits for all others, which may come later. */
extern "C" __global__ void
flags (int *flag, int *data)
{
  if (threadIdx.x)
    return;
  if (blockIdx.x) {
    data[blockIdx.x] = blockIdx.x * 3;
    __threadfence ();
    atomicExch (&flag[blockIdx.x], 1);
    return;
  }
  int s = 0;
  for (int b = 1; b < gridDim.x; b++) {
    while (((volatile int *)flag)[b] == 0)
      ;
    __threadfence ();
    s += data[b];
  }
  data[0] = s;
}
