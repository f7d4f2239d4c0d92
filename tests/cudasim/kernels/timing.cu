/* Kernels whose time can be told with a pencil
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Each is there with N and 2 N of something: the difference is what N of it
 * take.
 */

/* A thread's own place, behind what is read. */
static __device__ float *
own (float *x)
{
  return x + (12 << 20) + blockIdx.x * blockDim.x + threadIdx.x;
}

#define EACH(name) \
  extern "C" __global__ void name##_1 (float *x) \
  { \
    name<128> (x); \
  } \
  extern "C" __global__ void name##_2 (float *x) \
  { \
    name<256> (x); \
  }

/* N products, each waits for the one before. */
template <int N>
static __device__ void
chain (float *x)
{
  float a = x[0], b = x[1], y = x[2];
#pragma unroll
  for (int i = 0; i < N; i++)
    y = fmaf (y, a, b);
  *own (x) = y;
}
EACH (chain)

/* N products, eight at a time. */
template <int N>
static __device__ void
apart (float *x)
{
  float a = x[0], b = x[1], y[8];
#pragma unroll
  for (int i = 0; i < 8; i++)
    y[i] = x[2 + i];
#pragma unroll
  for (int i = 0; i < N; i++)
    y[i % 8] = fmaf (y[i % 8], a, b);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; i++)
    sum += y[i];
  *own (x) = sum;
}
EACH (apart)

/* N exclusive ors, eight at a time: half the lanes a cycle. */
template <int N>
static __device__ void
integers (float *x)
{
  unsigned *u = (unsigned *)x, a = u[0], y[8];
#pragma unroll
  for (int i = 0; i < 8; i++)
    y[i] = u[2 + i];
#pragma unroll
  for (int i = 0; i < N; i++)
    asm("shf.l.wrap.b32 %0, %0, %0, %1;" : "+r"(y[i % 8]) : "r"(a));
  unsigned sum = 0;
#pragma unroll
  for (int i = 0; i < 8; i++)
    sum ^= y[i];
  *own (x) = sum;
}
EACH (integers)

template <int N, int APART>
static __device__ void
products (float *x)
{
  float c[APART][4];
  unsigned a = __float_as_uint (x[0]), b = __float_as_uint (x[1]);
#pragma unroll
  for (int i = 0; i < APART * 4; i++)
    c[i / 4][i % 4] = x[i];
#pragma unroll
  for (int i = 0; i < N; i++) {
    float (&d)[4] = c[i % APART];
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a), "r"(b));
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < APART * 4; i++)
    sum += c[i / 4][i % 4];
  *own (x) = sum;
}
template <int N>
static __device__ void
product_chain (float *x)
{
  products<N, 1> (x);
}
template <int N>
static __device__ void
products_apart (float *x)
{
  products<N, 8> (x);
}
EACH (product_chain)
EACH (products_apart)

/* N barriers. */
template <int N>
static __device__ void
barriers (float *x)
{
#pragma unroll
  for (int i = 0; i < N; i++)
    __syncthreads ();
  *own (x) = 1;
}
EACH (barriers)

/* N loads, each of the address that the one before found, as far apart as the
 * first word says. */
template <int N>
static __device__ void
loads (float *x)
{
  __shared__ volatile int s[1024];
  int apart = ((int *)x)[0];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x)
    s[i] = i;
  __syncthreads ();
  int at = threadIdx.x % 32 * apart;
#pragma unroll
  for (int i = 0; i < N; i++)
    at = s[at];
  *own (x) = at;
}
EACH (loads)

/* Each block reads N KiB of its own. */
template <int N>
static __device__ void
reads (float *x)
{
  const float4 *at = (const float4 *)x + (blockIdx.x * N * 64);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < N * 64 / 256; i++) {
    float4 v = __ldg (at + i * 256 + threadIdx.x);
    sum += v.x + v.y + v.z + v.w;
  }
  if (sum == 1)
    *own (x) = sum;
}
EACH (reads)

#if __CUDA_ARCH__ >= 900
/* N words of each thread to the next block. */
template <int N>
static __device__ void
sends (float *x)
{
  extern __shared__ float s[];
  unsigned there = (unsigned)__cvta_generic_to_shared (s + threadIdx.x);
  asm("mapa.shared::cluster.u32 %0, %0, %1;"
      : "+r"(there)
      : "r"((blockIdx.x + 1) % 2));
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#pragma unroll
  for (int i = 0; i < N / 8; i++)
    asm volatile(
        "st.shared::cluster.f32 [%0], %1;" ::"r"(there + i * 1024), "f"(1.0f)
        : "memory");
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  *own (x) = s[threadIdx.x];
}
EACH (sends)

/* Does some work before it waits for the launch before, and some after. */
template <int EARLY, int LATE>
static __device__ void
waits (float *x)
{
  asm volatile("griddepcontrol.launch_dependents;");
  float y = threadIdx.x;
#pragma unroll
  for (int i = 0; i < EARLY; i++)
    asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(y));
  asm volatile("griddepcontrol.wait;" ::: "memory");
#pragma unroll
  for (int i = 0; i < LATE; i++)
    asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(y));
  *own (x) = y;
}
extern "C" __global__ void
waits_early (float *x)
{
  waits<2048, 128> (x);
}
extern "C" __global__ void
waits_late (float *x)
{
  waits<128, 2048> (x);
}
#endif
