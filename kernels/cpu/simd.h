/* Vectors of float32, as wide as the instruction set that is compiled for.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * GCC's and clang's vector types give arithmetic, comparisons and bit tricks
 * for every width in plain C; the few operations that they do not know (fused
 * multiply-add, broadcasts from memory, partial stores) are one line for each
 * instruction set. The kernels are written once against this file and are
 * compiled once for each instruction set (meson.build).
 *
 *   VL    floats a vector: 16 (AVX-512), 8 (AVX2), 4 (NEON, plain C)
 *   VG    vectors in a group of 16 floats, the unit of every packed layout
 */
#pragma once

#include <glib.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define VL 16
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define VL 8
#elif defined(__aarch64__)
#include <arm_neon.h>
#define VL 4
#else
#define VL 4
#endif

#define VG (16 / VL)

/* Height of the tiles: as many sums as the registers hold beside a group of
 * weights or positions and one broadcast value. */
#if VL == 16
#define TILE_ROWS 16
#elif VL == 8 || defined(__aarch64__)
#define TILE_ROWS 6
#else
#define TILE_ROWS 2
#endif

typedef gfloat vf __attribute__ ((vector_size (VL * 4), may_alias));
typedef int32_t vi __attribute__ ((vector_size (VL * 4), may_alias));
typedef uint32_t vu __attribute__ ((vector_size (VL * 4), may_alias));
typedef gfloat vf_unaligned
    __attribute__ ((vector_size (VL * 4), may_alias, aligned (4)));
typedef uint16_t vh_unaligned
    __attribute__ ((vector_size (VL * 2), may_alias, aligned (2)));

#define INLINE static inline __attribute__ ((always_inline, unused))

/* A tile is a function of its own: within a larger one, registers are spilled. */
#define TILE_FUNCTION static __attribute__ ((noinline, unused)) void

/* Loops over the registers of a tile: they must disappear. */
#if defined(__clang__)
#define UNROLL _Pragma ("clang loop unroll(full)")
#else
#define UNROLL _Pragma ("GCC unroll 32")
#endif

INLINE vf
v_load (const gfloat *p)
{
  return *(const vf_unaligned *)p;
}

INLINE void
v_store (gfloat *p, vf x)
{
  *(vf_unaligned *)p = x;
}

INLINE vf
v_set1 (gfloat x)
{
#if VL == 16
  return _mm512_set1_ps (x);
#elif VL == 8
  return _mm256_set1_ps (x);
#else
  return (vf){ x, x, x, x };
#endif
}

/* a * b + c, rounded once where the machine can. */
INLINE vf
v_fma (vf a, vf b, vf c)
{
#if VL == 16
  return _mm512_fmadd_ps (a, b, c);
#elif VL == 8
  return _mm256_fmadd_ps (a, b, c);
#elif defined(__aarch64__)
  return vfmaq_f32 (c, a, b);
#else
  return a * b + c;
#endif
}

/* x > 0 ? a : b; b where x is NaN. */
INLINE vf
v_if_positive (vf x, vf a, vf b)
{
#if VL == 16
  return _mm512_mask_blend_ps (
      _mm512_cmp_ps_mask (x, _mm512_setzero_ps (), _CMP_GT_OQ), b, a);
#elif VL == 8
  return _mm256_blendv_ps (
      b, a, _mm256_cmp_ps (x, _mm256_setzero_ps (), _CMP_GT_OQ));
#else
  vi mask = x > (vf){ 0 };
  return (vf)(((vi)a & mask) | ((vi)b & ~mask));
#endif
}

/* The larger of x and a bound; NaN stays NaN, so that it is seen at the end. */
INLINE vf
v_at_least (vf x, vf bound)
{
#if VL == 16
  return _mm512_max_ps (bound, x);
#elif VL == 8
  return _mm256_max_ps (bound, x);
#else
  vi mask = x < bound;
  return (vf)(((vi)bound & mask) | ((vi)x & ~mask));
#endif
}

INLINE vf
v_at_most (vf x, vf bound)
{
#if VL == 16
  return _mm512_min_ps (bound, x);
#elif VL == 8
  return _mm256_min_ps (bound, x);
#else
  vi mask = x > bound;
  return (vf)(((vi)bound & mask) | ((vi)x & ~mask));
#endif
}

INLINE vf
v_sqrt (vf x)
{
#if VL == 16
  return _mm512_sqrt_ps (x);
#elif VL == 8
  return _mm256_sqrt_ps (x);
#elif defined(__aarch64__)
  return vsqrtq_f32 (x);
#else
  for (int i = 0; i < VL; i++)
    x[i] = __builtin_sqrtf (x[i]);
  return x;
#endif
}

/* The sum of all lanes, always in the same order: halves, quarters, ... */
INLINE gfloat
v_sum (vf x)
{
#if VL == 16
  __m256 h = _mm256_add_ps (_mm512_castps512_ps256 (x),
      _mm256_castpd_ps (_mm512_extractf64x4_pd (_mm512_castps_pd (x), 1)));
#elif VL == 8
  __m256 h = x;
#endif
#if VL >= 8
  __m128 q =
      _mm_add_ps (_mm256_castps256_ps128 (h), _mm256_extractf128_ps (h, 1));
  return (q[0] + q[2]) + (q[1] + q[3]);
#else
  return (x[0] + x[2]) + (x[1] + x[3]);
#endif
}

/* The first n floats of x, 0 < n <= VL. */
INLINE void
v_store_part (gfloat *p, vf x, guint n)
{
#if VL == 16
  _mm512_mask_storeu_ps (p, (__mmask16)(0xffffu >> (16 - n)), x);
#else
  if (n == VL) {
    v_store (p, x);
    return;
  }
#if VL == 8
  if (n >= 4) {
    _mm_storeu_ps (p, _mm256_castps256_ps128 (x));
    x = _mm256_permute2f128_ps (x, x, 1);
    p += 4;
    n -= 4;
  }
#endif
  for (guint i = 0; i < n; i++)
    p[i] = x[i];
#endif
}

INLINE vf
v_load_part (const gfloat *p, guint n)
{
#if VL == 16
  return _mm512_maskz_loadu_ps ((__mmask16)(0xffffu >> (16 - n)), p);
#else
  vf x = { 0 };

  if (n == VL)
    return v_load (p);
#if VL == 8
  if (n == 4)
    return _mm256_zextps128_ps256 (_mm_loadu_ps (p));
#endif
  for (guint i = 0; i < n; i++)
    x[i] = p[i];
  return x;
#endif
}

/* VL bfloat16 numbers, widened: exact. */
INLINE vf
v_load_bf16 (const uint16_t *p)
{
#if VL == 16
  return (vf)_mm512_slli_epi32 (
      _mm512_cvtepu16_epi32 (_mm256_loadu_si256 ((const __m256i *)p)), 16);
#elif VL == 8
  return (vf)_mm256_slli_epi32 (
      _mm256_cvtepu16_epi32 (_mm_loadu_si128 ((const __m128i *)p)), 16);
#elif defined(__aarch64__)
  return (vf)vshll_n_u16 (vld1_u16 (p), 16);
#else
  return (vf)(__builtin_convertvector(*(const vh_unaligned *)p, vu) << 16);
#endif
}

/* Weights are asked for twice: from memory into the second cache long before
 * their use, and from there into the first. Either alone is a fifth slower. */
#define NEAR_AHEAD 256 /* floats */
#define FAR_AHEAD 2048

INLINE void
v_prefetch (const gfloat *p)
{
  __builtin_prefetch (p + NEAR_AHEAD, 0, 3);
  __builtin_prefetch (p + FAR_AHEAD, 0, 2);
}

/* Half a group, 8 floats: VH vectors vh. */
#if VL == 16
#define VH 1
typedef __m256 vh;

INLINE vh
h_load (const gfloat *p)
{
  return _mm256_loadu_ps (p);
}

INLINE void
h_store (gfloat *p, vh x)
{
  _mm256_storeu_ps (p, x);
}

INLINE vh
h_set1 (gfloat x)
{
  return _mm256_set1_ps (x);
}

INLINE vh
h_fma (vh a, vh b, vh c)
{
  return _mm256_fmadd_ps (a, b, c);
}
#else
#define VH (8 / VL)
typedef vf vh;
#define h_load v_load
#define h_store v_store
#define h_set1 v_set1
#define h_fma v_fma
#endif
