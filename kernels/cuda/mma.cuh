/* Products of small tiles on tensor cores, in float32 as nearly as is wanted.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A float is split into two tf32 numbers, of 11 bits each: x = high + low. The
 * products of the low halves with each other are left out, the others make
 *   3 products  float32 weights
 *   2 products  bf16 weights, which are tf32 numbers already: exact in them;
 *               or float32 weights rounded to tf32, for precision tf32
 * Large and small products are summed apart.
 *
 * Weights of a product: [16 outputs][8 inputs][tap][lane], four a lane, zero
 * where there are none.
 */
#pragma once

#include "common.cuh"

/* The nearest tf32 (ties away): hardware ignores the bits that are cleared. */
static __device__ float
tf32 (float x)
{
  return __uint_as_float ((__float_as_uint (x) + 0x1000u) & 0xffffe000u);
}

/* c += a b, a [16][8], b [8][8]: lane l holds rows l / 4 and 8 more, and
 * columns l % 4 and 4 more of a, the transpose of that of b, and columns
 * 2 (l % 4) and 1 more of c. */
static __device__ void
multiply (float (&c)[4], const float (&a)[4], const float (&b)[2])
{
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint (a[0])), "r"(__float_as_uint (a[1])),
      "r"(__float_as_uint (a[2])), "r"(__float_as_uint (a[3])),
      "r"(__float_as_uint (b[0])), "r"(__float_as_uint (b[1])));
#endif
}

static __device__ void
unpack (const uint4 &raw, float (&a)[4])
{
  a[0] = __uint_as_float (raw.x);
  a[1] = __uint_as_float (raw.y);
  a[2] = __uint_as_float (raw.z);
  a[3] = __uint_as_float (raw.w);
}

static __device__ void
unpack (const uint2 &raw, float (&a)[4])
{
  a[0] = __uint_as_float (raw.x << 16);
  a[1] = __uint_as_float (raw.x & 0xffff0000u);
  a[2] = __uint_as_float (raw.y << 16);
  a[3] = __uint_as_float (raw.y & 0xffff0000u);
}

/* Eight channels of a tap, for 8 times. */
struct Inputs {
  float high[2], low[2];
};

static __device__ Inputs
split_inputs (float upper, float lower)
{
  Inputs x;
  x.high[0] = tf32 (upper);
  x.high[1] = tf32 (lower);
  x.low[0] = upper - x.high[0];
  x.low[1] = lower - x.high[1];
  return x;
}

/* Four weights of a lane: rest only where there are 3 products. */
struct Weights {
  float a[4], rest[4];
};

template <int PRODUCTS, typename Raw>
static __device__ Weights
split_weights (const Raw &raw)
{
  Weights w;
  unpack (raw, w.a);
#pragma unroll
  for (int j = 0; j < 4; j++)
    if (PRODUCTS > 2) {
      w.rest[j] = w.a[j] - tf32 (w.a[j]);
      w.a[j] = tf32 (w.a[j]);
    }
  return w;
}

/* 16 outputs x 8 times. */
struct Sums {
  float large[4], small[4];

  /* Of a lane's output i of two: both times. */
  __device__ float2
  get_two (int i) const
  {
    return make_float2 (
        large[2 * i] + small[2 * i], large[2 * i + 1] + small[2 * i + 1]);
  }

  __device__ float
  get (int i) const
  {
    return large[i] + small[i];
  }
};

/* The same, each product in a chain of its own: a warp with few outputs waits for
 * the longest. */
struct ThreeSums {
  float large[4], small[4], least[4];

  __device__ float
  get (int i) const
  {
    return large[i] + (small[i] + least[i]);
  }

  __device__ float2
  get_two (int i) const
  {
    return make_float2 (get (2 * i), get (2 * i + 1));
  }
};

static __device__ void
multiply_rest (Sums &sums, const float (&a)[4], const float (&b)[2])
{
  multiply (sums.small, a, b);
}

static __device__ void
multiply_rest (ThreeSums &sums, const float (&a)[4], const float (&b)[2])
{
  multiply (sums.least, a, b);
}

/* The products with the first m of M groups of times. Those that add to the same
 * sums are as far apart as can be. */
template <int PRODUCTS, typename S, int M>
static __device__ void
add_products (S (&sums)[M], const Weights &w, const Inputs (&x)[M], int m = M)
{
#pragma unroll
  for (int product = 0; product < PRODUCTS; product++)
#pragma unroll
    for (int h = 0; h < M; h++)
      if (h < m) {
        if (product == 0)
          multiply (sums[h].large, w.a, x[h].high);
        else if (product == 1)
          multiply (sums[h].small, w.a, x[h].low);
        else
          multiply_rest (sums[h], w.rest, x[h].high);
      }
}
