/* Rows, masks and the arithmetic that ops.h is written in
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A row has one value for each lane. A full warp writes rows directly; a
 * partial one blends, so that lanes that do not run keep theirs: that is also
 * what makes it safe for registers to share rows.
 */
#pragma once

#include <math.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "ops-list.h"

typedef guint8 u8;
typedef gint8 s8;
typedef guint16 u16;
typedef gint16 s16;
typedef guint32 u32;
typedef gint32 s32;
typedef guint64 u64;
typedef gint64 s64;
typedef gfloat f32;
typedef gdouble f64;

#define INLINE static inline __attribute__ ((always_inline, unused))

/* The row of an operand code. */
INLINE void *
sim_row (const SimWarp *w, gint32 code)
{
  return __builtin_assume_aligned (w->base[code & 1] + (code >> 1), 64);
}

#define LANES for (guint l = 0; l < SIM_LANES; l++)
#define IVDEP _Pragma ("GCC ivdep")
#define IS_FULL(w) __builtin_expect ((w)->mask == SIM_FULL, 1)

INLINE gboolean
sim_on (const SimWarp *w, guint lane)
{
  return w->mask >> lane & 1;
}

INLINE f32
sim_f32 (u32 bits)
{
  f32 value;
  memcpy (&value, &bits, 4);
  return value;
}

INLINE u32
sim_bits (f32 value)
{
  u32 bits;
  memcpy (&bits, &value, 4);
  return bits;
}

#define SAT(x) sim_saturate (x)
INLINE f32
sim_saturate (f32 x)
{
  return x > 0 ? (x < 1 ? x : 1) : 0;
}

#define MINF(a, b) sim_minf (a, b)
#define MAXF(a, b) sim_maxf (a, b)
INLINE f32
sim_minf (f32 a, f32 b)
{
  return a < b || b != b ? a : b;
}
INLINE f32
sim_maxf (f32 a, f32 b)
{
  return a > b || b != b ? a : b;
}

#define BF(x) sim_f32 ((u32)(x) << 16)
#define TO_BF(x) sim_to_bf (x)
#define TO_BF_RZ(x) ((u32)(sim_bits (x) >> 16))
INLINE u32
sim_to_bf (f32 x)
{
  u32 bits = sim_bits (x);
  u32 even = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return x != x ? 0x7fff : even;
}

#define HF(x) sim_half (x)
#define TO_HF(x) sim_to_half (x)
INLINE f32
sim_half (u32 h)
{
  u32 exponent = h >> 10 & 31, fraction = h & 1023, sign = (h & 0x8000) << 16;
  if (exponent == 31)
    return sim_f32 (sign | 0x7f800000 | fraction << 13);
  if (exponent)
    return sim_f32 (sign | (exponent + 112) << 23 | fraction << 13);
  f32 tiny = (f32)fraction * 0x1p-24f;
  return sign ? -tiny : tiny;
}
INLINE u32
sim_to_half (f32 x)
{
  u32 bits = sim_bits (x), sign = bits >> 16 & 0x8000;
  u32 magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return 0x7fff;
  if (magnitude >= 0x477ff000)
    return sign | 0x7c00;
  if (magnitude < 0x38800000) /* denormal: units of 2^-24, half to even */
    return sign | (u32)__builtin_rintf (sim_f32 (magnitude) * 0x1p24f);
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return sign | (magnitude - 0x38000000) >> 13;
}

/* TF32 has 10 bits of fraction. */
#define TO_TF32_RNA(x) sim_tf32 (sim_bits (x), 0x1000)
#define TO_TF32_RN(x) sim_tf32 (sim_bits (x), 0xfff + (sim_bits (x) >> 13 & 1))
#define TO_TF32_RZ(x) sim_tf32 (sim_bits (x), 0)
INLINE u32
sim_tf32 (u32 bits, u32 round)
{
  u32 special = (bits & 0x7f800000) == 0x7f800000;
  return special ? bits : (bits + round) & 0xffffe000u;
}

/* 2^x to 1 ulp: the fraction by a polynomial, the integer into the exponent in
 * two halves so that denormals come out. */
#define EX2(x) sim_ex2 (x)
INLINE f32
sim_ex2 (f32 x)
{
  f32 t = x < -200.0f ? -200.0f : x > 200.0f ? 200.0f : x;
  f32 n = __builtin_rintf (t);
  f64 r = (f64)(t - n);
  f64 p = 1.3215486790144307e-6;
  p = p * r + 1.5252733804059841e-5;
  p = p * r + 1.5403530393381606e-4;
  p = p * r + 1.3333558146428443e-3;
  p = p * r + 9.618129107628477e-3;
  p = p * r + 5.550410866482158e-2;
  p = p * r + 2.402265069591007e-1;
  p = p * r + 6.931471805599453e-1;
  p = p * r + 1.0;
  u64 bits = (u64)((s64)(s32)n + 1023) << 52;
  f64 scale;
  memcpy (&scale, &bits, 8);
  return x != x ? x : (f32)(p * scale);
}

#define FUNNEL_L(lo, hi, n) \
  ((u32)((((u64)(hi) << 32 | (lo)) << ((n)&63)) >> 32))
#define FUNNEL_R(lo, hi, n) ((u32)(((u64)(hi) << 32 | (lo)) >> ((n)&63)))

#define BREV(x) sim_brev (x)
INLINE u32
sim_brev (u32 x)
{
  x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
  x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
  return __builtin_bswap32 (x);
}

/* Bit field of `len` bits from `pos`. */
INLINE u64
sim_bfe (u64 a, u32 pos, u32 len, u32 width, gboolean is_signed)
{
  u64 field = pos >= width ? 0 : a >> pos;
  u32 there = pos >= width ? 0 : width - pos;
  u32 top = len < there ? pos + len - 1 : width - 1;
  u64 sign = is_signed && len ? (a >> (top & 63) & 1) : 0;
  if (len >= 64 && there >= 64)
    return field;
  u32 keep = len < there ? len : there;
  u64 mask = keep >= 64 ? ~(u64)0 : ((u64)1 << keep) - 1;
  field &= mask;
  return len == 0 ? 0 : sign ? field | ~mask : field;
}
#define BFE_U(a, p, n, w) ((u32)sim_bfe (a, p, n, 32, FALSE))
#define BFE_S(a, p, n, w) ((u32)sim_bfe (a, p, n, 32, TRUE))
#define BFE_U64(a, p, n) sim_bfe (a, p, n, 64, FALSE)
#define BFE_S64(a, p, n) sim_bfe (a, p, n, 64, TRUE)

#define PRMT(a, b, c) sim_prmt (a, b, c)
INLINE u32
sim_prmt (u32 a, u32 b, u32 c)
{
  u64 both = (u64)b << 32 | a;
  u32 result = 0;
  for (guint i = 0; i < 4; i++) {
    u32 select = c >> (4 * i) & 15;
    u32 byte = (u32)(both >> (8 * (select & 7))) & 255;
    if (select & 8)
      byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}

/* Float to integer: saturating, NaN to 0. */
#define F_S32(x) sim_to_s32 (x)
INLINE s32
sim_to_s32 (f64 x)
{
  f64 t = x < -2147483648.0  ? -2147483648.0
          : x > 2147483647.0 ? 2147483647.0
                             : x;
  return x != x ? 0 : (s32)t;
}
#define F_RANGE(x, lo, hi) sim_to_range (x, lo, hi)
INLINE s64
sim_to_range (f64 x, f64 lo, f64 hi)
{
  return x != x ? 0 : (s64)(x < lo ? lo : x > hi ? hi : x);
}
#define F_U32(x) ((u32)F_RANGE (x, 0, 4294967295.0))
#define F_S16(x) ((s32)F_RANGE (x, -32768, 32767))
#define F_U16(x) ((u32)F_RANGE (x, 0, 65535))
#define F_S8(x) ((s32)F_RANGE (x, -128, 127))
#define F_U8(x) ((u32)F_RANGE (x, 0, 255))
#define F_S64(x) sim_to_s64 (x)
#define F_U64(x) sim_to_u64 (x)
INLINE s64
sim_to_s64 (f64 x)
{
  return x != x        ? 0
         : x >= 0x1p63 ? G_MAXINT64
         : x < -0x1p63 ? G_MININT64
                       : (s64)x;
}
INLINE u64
sim_to_u64 (f64 x)
{
  return !(x > 0) ? 0 : x >= 0x1p64 ? G_MAXUINT64 : (u64)x;
}

/* A predicate's row as a bit for each lane. */
INLINE u32
sim_bits_of (const u32 *row)
{
  u32 bits = 0;
#ifdef __SSE2__
  for (guint l = 0; l < SIM_LANES; l += 4)
    bits |= (u32)_mm_movemask_ps (_mm_load_ps ((const float *)&row[l])) << l;
#else
  LANES bits |= (row[l] >> 31) << l;
#endif
  return bits;
}

/* Writes a row of 32 or 64 bits where lanes run. */
INLINE void
sim_put32 (SimWarp *w, gint32 code, const u32 *value)
{
  u32 *d = sim_row (w, code);
  if (IS_FULL (w))
    memcpy (d, value, SIM_ROW);
  else
    LANES d[l] = w->lane[l] ? value[l] : d[l];
}
INLINE void
sim_put64 (SimWarp *w, gint32 code, const u64 *value)
{
  u64 *d = sim_row (w, code);
  if (IS_FULL (w))
    memcpy (d, value, 2 * SIM_ROW);
  else
    LANES d[l] = w->lane[l] ? value[l] : d[l];
}

/* The functions of ops-special.h; SIM_VARIANT names the instruction set that
 * the file is compiled for. */
#define SIM_NAME__(variant, name) sim_##variant##_##name
#define SIM_NAME_(variant, name) SIM_NAME__ (variant, name)
#define DO(name) SIM_NAME_ (SIM_VARIANT, name)
#define OPX(name, kind) void DO (name) (SimWarp * w, const SimIns *i);
#include "ops-special.h"
