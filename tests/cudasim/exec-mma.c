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

static void
unpack (f32 out[2], u32 bits, guint type)
{
  if (type == 1) {
    out[0] = BF (bits);
    out[1] = sim_f32 (bits & 0xffff0000u);
  } else {
    out[0] = HF (bits & 0xffff);
    out[1] = HF (bits >> 16);
  }
}

static f32
toward_zero (f64 x)
{
  f32 r = (f32)x;
  if (fabs ((f64)r) > fabs (x))
    r = nextafterf (r, 0.0f);
  return r;
}

static void
multiply (f32 c[16][8], f32 a[16][16], f32 b[16][8], guint k, gboolean truncate)
{
  if (truncate) {
    for (guint m = 0; m < 16; m++)
      for (guint n = 0; n < 8; n++) {
        f64 sum = (f64)c[m][n];
        for (guint j = 0; j < k; j++)
          sum += (f64)a[m][j] * (f64)b[j][n];
        c[m][n] = toward_zero (sum);
      }
    return;
  }
  for (guint m = 0; m < 16; m++) {
    f32 sum[8];
    memcpy (sum, c[m], sizeof sum);
    for (guint j = 0; j < k; j++)
      for (guint n = 0; n < 8; n++)
        sum[n] = __builtin_fmaf (a[m][j], b[j][n], sum[n]);
    memcpy (c[m], sum, sizeof sum);
  }
}

void
DO (mma) (SimWarp *w, const SimIns *i)
{
  f32 a[16][16] __attribute__ ((aligned (64)));
  f32 b[16][8] __attribute__ ((aligned (64)));
  f32 c[16][8] __attribute__ ((aligned (64)));
  guint k = (guint)i->imm, per = i->sub ? 2 : 1;
  guint na = k / 2 / per, nb = k / 4 / per;
  const gint32 *x = i->x + 4;

  if (!whole_warp (w, i))
    return;
  for (guint r = 0; r < na; r++) {
    const u32 *row = sim_row (w, x[r]);
    LANES
    {
      guint m = l / 4 + 8 * (r & 1), col = (l % 4) * per + 4 * per * (r / 2);
      if (i->sub)
        unpack (&a[m][col], row[l], i->sub);
      else
        a[m][col] = sim_f32 (row[l] & 0xffffe000u);
    }
  }
  for (guint r = 0; r < nb; r++) {
    const u32 *row = sim_row (w, x[na + r]);
    LANES
    {
      guint j = (l % 4) * per + 4 * per * r, n = l / 4;
      if (i->sub) {
        f32 pair[2];
        unpack (pair, row[l], i->sub);
        b[j][n] = pair[0];
        b[j + 1][n] = pair[1];
      } else {
        b[j][n] = sim_f32 (row[l] & 0xffffe000u);
      }
    }
  }
  for (guint r = 0; r < 4; r++) {
    const f32 *row = sim_row (w, x[na + nb + r]);
    LANES c[l / 4 + 8 * (r / 2)][2 * (l % 4) + (r & 1)] = row[l];
  }
  multiply (c, a, b, k, sim_config.mma_truncates);
  for (guint r = 0; r < 4; r++) {
    f32 *row = sim_row (w, i->x[r]);
    LANES row[l] = c[l / 4 + 8 * (r / 2)][2 * (l % 4) + (r & 1)];
  }
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
