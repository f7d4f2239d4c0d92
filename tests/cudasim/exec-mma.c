/* Products of small matrices, spread over the lanes of a warp
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Fragments as the PTX manual draws them: with g = lane / 4, t = lane % 4,
 * a register of A belongs to row g or g + 8, one of B to column g, one of C to
 * row g or g + 8 and columns 2 t, 2 t + 1. The sum is in float in the order
 * of k; hardware's differs (see docs/cudasim.md).
 */
#include "exec.h"

static gboolean
whole_warp (SimWarp *w, const SimIns *i)
{
  if (w->live != SIM_FULL) {
    sim_fault (w, i, -1, 0, CUDA_ERROR_LAUNCH_FAILED,
        "needs all 32 lanes of the warp");
    return FALSE;
  }
  return sim_gather (w, i, SIM_FULL);
}

/* Eight lanes, two quads. */
typedef f32 v8 __attribute__ ((vector_size (32), aligned (32), may_alias));
typedef s32 i8 __attribute__ ((vector_size (32)));

INLINE v8
fma8 (v8 a, v8 b, v8 c)
{
#ifdef __FMA__
  return (v8)_mm256_fmadd_ps ((__m256)a, (__m256)b, (__m256)c);
#else
  for (guint l = 0; l < 8; l++)
    c[l] = __builtin_fmaf (a[l], b[l], c[l]);
  return c;
#endif
}

/* In each quad, lane t everywhere. */
INLINE v8
spread (v8 x, guint t)
{
  s32 k = (s32)t;
  return __builtin_shuffle (x, (i8){ k, k, k, k, 4 + k, 4 + k, 4 + k, 4 + k });
}

/* What lane l needs of B for its columns 2 t + e: rows[8 t + 4 e + k], for
 * each k of a quad. */
INLINE void
columns (const f32 *rows, f32 out[4][2][8])
{
  for (guint e = 0; e < 2; e++)
    for (guint t = 0; t < 4; t++)
      for (guint k = 0; k < 4; k++)
        out[k][e][t] = out[k][e][t + 4] = rows[8 * t + 4 * e + k];
}

static f32
toward_zero (f64 x)
{
  f32 r = (f32)x;
  if (fabs ((f64)r) > fabs (x))
    r = nextafterf (r, 0.0f);
  return r;
}

/* Registers as floats: of A [half][group][lane], of B [group] spread by
 * columns(). A group is the registers (of 16 bits: halves of registers) that
 * belong to four k. */
typedef struct {
  f32 a[2][4][SIM_LANES] __attribute__ ((aligned (64)));
  f32 b[4][4][2][8] __attribute__ ((aligned (64)));
  guint k;
  guint8 group[16], lane[16]; /* of each k */
} Operands;

INLINE void
split (const u32 *row, guint type, f32 *low, f32 *high)
{
  LANES
  {
    low[l] = type == 1 ? sim_f32 (row[l] << 16) : HF (row[l] & 0xffff);
    high[l] = type == 1 ? sim_f32 (row[l] & 0xffff0000u) : HF (row[l] >> 16);
  }
}

INLINE void
take (SimWarp *w, const SimIns *i, Operands *o)
{
  guint per = i->sub ? 2 : 1, n = (guint)i->imm / 4 / per;
  const gint32 *x = i->x + 4;
  f32 b[2][SIM_LANES] __attribute__ ((aligned (64)));

  o->k = (guint)i->imm;
  for (guint r = 0; r < n; r++) {
    for (guint half = 0; half < 2; half++) {
      const u32 *row = sim_row (w, x[2 * r + half]);
      if (i->sub)
        split (row, i->sub, o->a[half][2 * r], o->a[half][2 * r + 1]);
      else
        LANES o->a[half][r][l] = sim_f32 (row[l] & 0xffffe000u);
    }
    const u32 *row = sim_row (w, x[2 * n + r]);
    if (i->sub) {
      split (row, i->sub, b[0], b[1]);
      columns (b[0], o->b[2 * r]);
      columns (b[1], o->b[2 * r + 1]);
    } else {
      LANES b[0][l] = sim_f32 (row[l] & 0xffffe000u);
      columns (b[0], o->b[r]);
    }
  }
  for (guint k = 0; k < o->k; k++) {
    o->group[k] = (guint8)(per == 2 ? k / 8 * 2 + (k & 1) : k / 4);
    o->lane[k] = (guint8)(per == 2 ? k % 8 / 2 : k % 4);
  }
}

INLINE v8
step (const f32 *a, guint lane)
{
  v8 x = *(const v8 *)(const void *)a;
  switch (lane) {
    case 0:
      return spread (x, 0);
    case 1:
      return spread (x, 1);
    case 2:
      return spread (x, 2);
    default:
      return spread (x, 3);
  }
}

/* Sums in double, and drops what does not fit: as if the tensor core cut its
 * sums. */
static void
product_truncated (const Operands *o, guint half, f32 *c0, f32 *c1)
{
  LANES
  {
    f64 sum[2] = { (f64)c0[l], (f64)c1[l] };
    for (guint k = 0; k < o->k; k++)
      for (guint e = 0; e < 2; e++)
        sum[e] += (f64)o->a[half][o->group[k]][(l & ~3u) + o->lane[k]] *
                  (f64)o->b[o->group[k]][o->lane[k]][e][l & 7];
    c0[l] = toward_zero (sum[0]);
    c1[l] = toward_zero (sum[1]);
  }
}

#define PRODUCT(K, PER) \
  INLINE void product_##K##_##PER ( \
      const Operands *o, guint half, f32 *c0, f32 *c1) \
  { \
    v8 sum[2][4]; \
    for (guint q = 0; q < 4; q++) { \
      sum[0][q] = *(v8 *)(void *)(c0 + 8 * q); \
      sum[1][q] = *(v8 *)(void *)(c1 + 8 * q); \
    } \
    _Pragma ("GCC unroll 16") for (guint k = 0; k < K; k++) \
    { \
      const guint g = PER == 2 ? k / 8 * 2 + (k & 1) : k / 4; \
      const guint t = PER == 2 ? k % 8 / 2 : k % 4; \
      v8 b0 = *(const v8 *)(const void *)o->b[g][t][0]; \
      v8 b1 = *(const v8 *)(const void *)o->b[g][t][1]; \
      for (guint q = 0; q < 4; q++) { \
        v8 a = step (o->a[half][g] + 8 * q, t); \
        sum[0][q] = fma8 (a, b0, sum[0][q]); \
        sum[1][q] = fma8 (a, b1, sum[1][q]); \
      } \
    } \
    for (guint q = 0; q < 4; q++) { \
      *(v8 *)(void *)(c0 + 8 * q) = sum[0][q]; \
      *(v8 *)(void *)(c1 + 8 * q) = sum[1][q]; \
    } \
  }
PRODUCT (4, 1)
PRODUCT (8, 1)
PRODUCT (8, 2)
PRODUCT (16, 2)

void
DO (mma) (SimWarp *w, const SimIns *i)
{
  Operands o;
  f32 c[2][SIM_LANES] __attribute__ ((aligned (64)));
  f32 d[4][SIM_LANES] __attribute__ ((aligned (64)));
  guint per = i->sub ? 2 : 1;
  const gint32 *from = i->x + 4 + 3 * (guint)i->imm / 4 / per;

  if (!whole_warp (w, i))
    return;
  take (w, i, &o);
  for (guint half = 0; half < 2; half++) {
    memcpy (c[0], sim_row (w, from[2 * half]), SIM_ROW);
    memcpy (c[1], sim_row (w, from[2 * half + 1]), SIM_ROW);
    if (sim_config.mma_truncates)
      product_truncated (&o, half, c[0], c[1]);
    else if (per == 1 && o.k == 4)
      product_4_1 (&o, half, c[0], c[1]);
    else if (per == 1)
      product_8_1 (&o, half, c[0], c[1]);
    else if (o.k == 8)
      product_8_2 (&o, half, c[0], c[1]);
    else
      product_16_2 (&o, half, c[0], c[1]);
    memcpy (d[2 * half], c[0], SIM_ROW);
    memcpy (d[2 * half + 1], c[1], SIM_ROW);
  }
  for (guint r = 0; r < 4; r++)
    memcpy (sim_row (w, i->x[r]), d[r], SIM_ROW);
}

static gboolean
matrix_rows (
    SimWarp *w, const SimIns *i, guint8 *rows[SIM_LANES], gboolean write)
{
  if (!whole_warp (w, i))
    return FALSE;
  u64 addresses[SIM_LANES];
  LANES
  {
    u64 address = i->wide ? ((const u64 *)sim_row (w, i->o[1]))[l]
                          : ((const u32 *)sim_row (w, i->o[1]))[l];
    addresses[l] = address + (u64)i->imm;
  }
  for (guint l = 0; l < 8u * i->n; l++) {
    rows[l] = sim_resolve (w, i, l, addresses[l], PTX_SPACE_SHARED, 16, write);
    if (!rows[l])
      return FALSE;
    if (w->checked)
      sim_race_shared (w, i, w->block, l, (u32)addresses[l], 16,
          write ? SIM_WRITE : SIM_READ, NULL);
  }
  if (w->launch->count) {
    for (guint l = 8u * i->n; l < SIM_LANES; l++)
      addresses[l] = addresses[l - 8];
    sim_count_access (w, i, PTX_SPACE_SHARED, addresses, 16, write);
  }
  return TRUE;
}

void
DO (ldmatrix) (SimWarp *w, const SimIns *i)
{
  guint8 *rows[SIM_LANES];
  u32 value[4][SIM_LANES];
  if (!matrix_rows (w, i, rows, FALSE))
    return;
  for (guint m = 0; m < i->n; m++)
    LANES
    {
      if (i->sub) {
        u16 low, high;
        memcpy (&low, rows[8 * m + 2 * (l % 4)] + 2 * (l / 4), 2);
        memcpy (&high, rows[8 * m + 2 * (l % 4) + 1] + 2 * (l / 4), 2);
        value[m][l] = low | (u32)high << 16;
      } else {
        memcpy (&value[m][l], rows[8 * m + l / 4] + 4 * (l % 4), 4);
      }
    }
  for (guint m = 0; m < i->n; m++)
    sim_put32 (w, i->x[m], value[m]);
}

void
DO (stmatrix) (SimWarp *w, const SimIns *i)
{
  guint8 *rows[SIM_LANES];
  if (!matrix_rows (w, i, rows, TRUE))
    return;
  for (guint m = 0; m < i->n; m++) {
    const u32 *value = sim_row (w, i->x[m]);
    LANES
    {
      if (i->sub) {
        memcpy (rows[8 * m + 2 * (l % 4)] + 2 * (l / 4), &value[l], 2);
        memcpy (rows[8 * m + 2 * (l % 4) + 1] + 2 * (l / 4),
            (const guint8 *)&value[l] + 2, 2);
      } else {
        memcpy (rows[8 * m + l / 4] + 4 * (l % 4), &value[l], 4);
      }
    }
  }
}
