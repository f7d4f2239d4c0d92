/* Loads, stores, atomics, asynchronous copies
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The addresses of 32 lanes are checked together, by their smallest and
 * largest; only when that fails is each looked at alone, to say which one is
 * wrong. Loads of a warp are mostly of neighbours: one copy.
 */
#include "exec.h"

/* Addresses of all lanes; those that do not run get the first one's. */
INLINE void
get_addresses (SimWarp *w, const SimIns *i, u64 *a)
{
  if (i->wide) {
    const u64 *base = sim_row (w, i->o[1]);
    LANES a[l] = base[l] + (u64)i->imm;
  } else {
    const u32 *base = sim_row (w, i->o[1]);
    LANES a[l] = base[l] + (u32)i->imm;
  }
  if (!IS_FULL (w)) {
    u64 first = a[__builtin_ctz (w->mask)];
    LANES a[l] = w->lane[l] ? a[l] : first;
  }
}

typedef struct {
  u64 low, high; /* smallest and largest */
  u64 bits;      /* of all */
} Span;

INLINE Span
span_of (const u64 *a)
{
  /* Signed comparisons are what vector units have: addresses are small. */
  s64 low[8], high[8];
  u64 bits[8];
  for (guint l = 0; l < 8; l++) {
    low[l] = high[l] = (s64)a[l];
    bits[l] = a[l];
  }
  for (guint k = 8; k < SIM_LANES; k += 8)
    for (guint l = 0; l < 8; l++) {
      s64 v = (s64)a[k + l];
      low[l] = v < low[l] ? v : low[l];
      high[l] = v > high[l] ? v : high[l];
      bits[l] |= (u64)v;
    }
  Span s = { (u64)low[0], (u64)high[0], bits[0] };
  for (guint l = 1; l < 8; l++) {
    s.low = MIN (s.low, (u64)low[l]);
    s.high = MAX (s.high, (u64)high[l]);
    s.bits |= bits[l];
  }
  return s;
}

/* TRUE if all addresses + *bias are host addresses. */
INLINE gboolean
fast_span (SimWarp *w, const SimIns *i, const u64 *a, guint bytes, s64 *bias)
{
  Span s = span_of (a);
  if (s.bits & (bytes - 1))
    return FALSE;
  switch (i->space) {
    case PTX_SPACE_SHARED:
      *bias = (s64)(gintptr)w->block->shared;
      return s.high + bytes <= w->block->shared_size && s.low <= s.high;
    case PTX_SPACE_GENERIC:
      if (s.low - SIM_SHARED_BASE < w->block->shared_size) {
        *bias = (s64)(gintptr)w->block->shared - (s64)SIM_SHARED_BASE;
        return s.high + bytes <= SIM_SHARED_BASE + w->block->shared_size;
      }
      /* fall through */
    case PTX_SPACE_GLOBAL:
    case PTX_SPACE_CONST:
      *bias = sim_bias;
      if (s.low >= w->alloc_lo && s.high + bytes <= w->alloc_hi)
        return TRUE;
      SimAllocation *found = sim_find (s.low);
      if (!found)
        return FALSE;
      w->alloc_lo = found->address;
      w->alloc_hi = found->address + found->size;
      return s.high + bytes <= w->alloc_hi;
    default:
      return FALSE;
  }
}

INLINE void
watch (SimWarp *w, const SimIns *i, const u64 *a, SimAccess access,
    const guint8 *values)
{
  guint bytes = i->size * (guint)i->n;
  if (w->launch->count)
    sim_count_access (w, i, i->space, a, bytes, access != SIM_READ);
  if (w->checked)
    LANES
    {
      if (sim_on (w, l))
        sim_race (w, i, l, a[l], i->space, bytes, access,
            values ? values + l * bytes : NULL);
    }
}

/* One element of every lane; stride is what lies between neighbours of a
 * vector. */
INLINE u32
narrow (const guint8 *p, guint size, gboolean is_signed)
{
  u16 half;
  switch (size) {
    case 1:
      return is_signed ? (u32)(s8)*p : *p;
    case 2:
      memcpy (&half, p, 2);
      return is_signed ? (u32)(s16)half : half;
    default:
      return 0;
  }
}

/* Anything: each lane on its own. */
static void
load_slow (SimWarp *w, const SimIns *i, const u64 *a)
{
  guint bytes = i->size * (guint)i->n;
  LANES
  {
    if (!sim_on (w, l))
      continue;
    const guint8 *p = sim_resolve (w, i, l, a[l], i->space, bytes, FALSE);
    if (!p)
      return;
    for (guint e = 0; e < i->n; e++) {
      if (i->size == 8) {
        u64 *d = sim_row (w, i->x[e]);
        memcpy (&d[l], p + 8 * e, 8);
      } else {
        u32 *d = sim_row (w, i->x[e]);
        if (i->size == 4)
          memcpy (&d[l], p + 4 * e, 4);
        else
          d[l] = narrow (p + i->size * e, i->size, i->sub);
      }
    }
  }
}

INLINE void
load_words (SimWarp *w, const SimIns *i, const u64 *a, s64 bias)
{
  u32 value[4][SIM_LANES] __attribute__ ((aligned (64)));
  const guint8 *p = (const guint8 *)(gintptr)((s64)a[0] + bias);
  u64 apart = a[31] - a[0], step = 4u * i->n;
  gboolean line = apart == 31 * step, same = apart == 0;
  if (line || same) {
    u64 wrong = 0, each = line ? step : 0;
    LANES wrong |= a[l] ^ (a[0] + l * each);
    line &= !wrong;
    same &= !wrong;
  }
  if (i->n == 1) {
    if (line) {
      memcpy (value[0], p, SIM_ROW);
    } else if (same) {
      u32 v;
      memcpy (&v, p, 4);
      LANES value[0][l] = v;
    } else {
      LANES value[0][l] = *(const u32 *)(gintptr)((s64)a[l] + bias);
    }
    sim_put32 (w, i->x[0], value[0]);
  } else if (i->n == 2) {
    LANES
    {
      const u32 *q = (const u32 *)(gintptr)((s64)a[l] + bias);
      value[0][l] = q[0];
      value[1][l] = q[1];
    }
    sim_put32 (w, i->x[0], value[0]);
    sim_put32 (w, i->x[1], value[1]);
  } else {
    if (same) {
      const u32 *q = (const u32 *)(const void *)p;
      for (guint e = 0; e < 4; e++)
        LANES value[e][l] = q[e];
    } else {
      for (guint l = 0; l < SIM_LANES; l += 4) { /* 4 x 4 transposes */
        const u32 *q0 = (const u32 *)(gintptr)((s64)a[l] + bias);
        const u32 *q1 = (const u32 *)(gintptr)((s64)a[l + 1] + bias);
        const u32 *q2 = (const u32 *)(gintptr)((s64)a[l + 2] + bias);
        const u32 *q3 = (const u32 *)(gintptr)((s64)a[l + 3] + bias);
#ifdef __SSE2__
        __m128 r0 = _mm_loadu_ps ((const float *)q0);
        __m128 r1 = _mm_loadu_ps ((const float *)q1);
        __m128 r2 = _mm_loadu_ps ((const float *)q2);
        __m128 r3 = _mm_loadu_ps ((const float *)q3);
        _MM_TRANSPOSE4_PS (r0, r1, r2, r3);
        _mm_store_ps ((float *)&value[0][l], r0);
        _mm_store_ps ((float *)&value[1][l], r1);
        _mm_store_ps ((float *)&value[2][l], r2);
        _mm_store_ps ((float *)&value[3][l], r3);
#else
        for (guint e = 0; e < 4; e++) {
          value[e][l] = q0[e];
          value[e][l + 1] = q1[e];
          value[e][l + 2] = q2[e];
          value[e][l + 3] = q3[e];
        }
#endif
      }
    }
    for (guint e = 0; e < 4; e++)
      sim_put32 (w, i->x[e], value[e]);
  }
}

void
DO (ld) (SimWarp *w, const SimIns *i)
{
  u64 a[SIM_LANES] __attribute__ ((aligned (64)));
  s64 bias;
  guint bytes = i->size * (guint)i->n;

  get_addresses (w, i, a);
  if (fast_span (w, i, a, bytes, &bias)) {
    if (i->size == 4 && i->n <= 4) {
      load_words (w, i, a, bias);
    } else if (i->size == 8) {
      u64 value[SIM_LANES];
      for (guint e = 0; e < i->n; e++) {
        LANES value[l] = *(const u64 *)(gintptr)((s64)a[l] + bias + 8 * e);
        sim_put64 (w, i->x[e], value);
      }
    } else {
      u32 value[SIM_LANES];
      for (guint e = 0; e < i->n; e++) {
        LANES
        {
          const guint8 *p =
              (const guint8 *)(gintptr)((s64)a[l] + bias + i->size * e);
          if (i->size == 4)
            memcpy (&value[l], p, 4);
          else
            value[l] = narrow (p, i->size, i->sub);
        }
        sim_put32 (w, i->x[e], value);
      }
    }
  } else {
    load_slow (w, i, a);
  }
  if ((w->checked || w->launch->count) && w->stop != SIM_STOP_FAULT)
    watch (w, i, a, SIM_READ, NULL);
  if (i->sem & SIM_SEM_STRONG && w->launch->check)
    LANES
    {
      if (sim_on (w, l))
        sim_race_sync (w, i, l, a[l]);
    }
}

void
DO (st) (SimWarp *w, const SimIns *i)
{
  u64 a[SIM_LANES] __attribute__ ((aligned (64)));
  s64 bias;
  guint bytes = i->size * (guint)i->n;
  gboolean fast;

  get_addresses (w, i, a);
  fast = fast_span (w, i, a, bytes, &bias);
  if (fast && !w->launch->check && i->size == 4 && i->n == 1 && IS_FULL (w)) {
    u64 wrong = 0;
    LANES wrong |= a[l] ^ (a[0] + 4 * l);
    const u32 *v = sim_row (w, i->x[0]);
    if (!wrong)
      memcpy ((void *)(gintptr)((s64)a[0] + bias), v, SIM_ROW);
    else
      LANES *(u32 *)(gintptr)((s64)a[l] + bias) = v[l];
    if (w->launch->count)
      watch (w, i, a, SIM_WRITE, NULL);
    return;
  }

  guint8 values[SIM_LANES][32] __attribute__ ((aligned (64)));
  guint8 *at[SIM_LANES];
  for (guint e = 0; e < i->n; e++)
    if (i->size == 8) {
      const u64 *v = sim_row (w, i->x[e]);
      LANES memcpy (values[l] + 8 * e, &v[l], 8);
    } else {
      const u32 *v = sim_row (w, i->x[e]);
      LANES memcpy (values[l] + i->size * e, &v[l], i->size);
    }
  gboolean check = w->launch->check;
  if (i->sem & SIM_SEM_STRONG && check)
    LANES
    {
      if (sim_on (w, l))
        sim_race_sync (w, i, l, a[l]);
    }
  if (w->launch->count)
    sim_count_access (w, i, i->space, a, bytes, TRUE);
  LANES
  {
    if (!sim_on (w, l))
      continue;
    at[l] = fast ? (guint8 *)(gintptr)((s64)a[l] + bias)
                 : sim_resolve (w, i, l, a[l], i->space, bytes, TRUE);
    if (!at[l])
      return;
    if (check)
      sim_race (w, i, l, a[l], i->space, bytes, SIM_WRITE, values[l]);
    memcpy (at[l], values[l], bytes);
  }
}

void
DO (ld_param) (SimWarp *w, const SimIns *i)
{
  for (guint e = 0; e < i->n; e++) {
    const guint8 *p = w->launch->params + i->imm + i->size * e;
    if (i->size == 8) {
      u64 v, value[SIM_LANES];
      memcpy (&v, p, 8);
      LANES value[l] = v;
      sim_put64 (w, i->x[e], value);
    } else {
      u32 v, value[SIM_LANES];
      if (i->size == 4)
        memcpy (&v, p, 4);
      else
        v = narrow (p, i->size, i->sub);
      LANES value[l] = v;
      sim_put32 (w, i->x[e], value);
    }
  }
}

#define ATOMIC_INT(T, S) \
  static T atomic_##T (guint op, guint type, T old, T b, T c) \
  { \
    switch (op) { \
      case 0: \
        return old + b; \
      case 1: \
        return type ? ((S)old < (S)b ? old : b) : MIN (old, b); \
      case 2: \
        return type ? ((S)old > (S)b ? old : b) : MAX (old, b); \
      case 3: \
        return old & b; \
      case 4: \
        return old | b; \
      case 5: \
        return old ^ b; \
      case 6: \
        return b; \
      case 7: \
        return old == b ? c : old; \
      case 8: \
        return old >= b ? 0 : old + 1; \
      default: \
        return old == 0 || old > b ? b : old - 1; \
    } \
  }
ATOMIC_INT (u32, s32)
ATOMIC_INT (u64, s64)

void
DO (atom) (SimWarp *w, const SimIns *i)
{
  u64 a[SIM_LANES];
  get_addresses (w, i, a);
  if (w->launch->count)
    sim_count_access (w, i, i->space, a, i->size, TRUE);
  LANES
  {
    if (!sim_on (w, l))
      continue;
    guint8 *p = sim_resolve (w, i, l, a[l], i->space, i->size, TRUE);
    if (!p)
      return;
    if (w->launch->check) {
      sim_race (w, i, l, a[l], i->space, i->size, SIM_ATOMIC, NULL);
      sim_race_sync (w, i, l, a[l]);
    }
    if (i->size == 8) {
      u64 old, now;
      u64 b = ((const u64 *)sim_row (w, i->o[2]))[l];
      u64 c = ((const u64 *)sim_row (w, i->o[3]))[l];
      memcpy (&old, p, 8);
      if (i->target == 2 && i->sub == 0) {
        f64 x, y;
        memcpy (&x, &old, 8);
        memcpy (&y, &b, 8);
        x += y;
        memcpy (&now, &x, 8);
      } else {
        now = atomic_u64 (i->sub, (guint)i->target, old, b, c);
      }
      memcpy (p, &now, 8);
      if (i->has_out)
        ((u64 *)sim_row (w, i->o[0]))[l] = old;
    } else {
      u32 old, now;
      u32 b = ((const u32 *)sim_row (w, i->o[2]))[l];
      u32 c = ((const u32 *)sim_row (w, i->o[3]))[l];
      memcpy (&old, p, 4);
      if (i->target == 2 && i->sub == 0)
        now = sim_bits (sim_f32 (old) + sim_f32 (b));
      else
        now = atomic_u32 (i->sub, (guint)i->target, old, b, c);
      memcpy (p, &now, 4);
      if (i->has_out)
        ((u32 *)sim_row (w, i->o[0]))[l] = old;
    }
  }
}

void
DO (isspacep) (SimWarp *w, const SimIns *i)
{
  u32 value[SIM_LANES];
  LANES
  {
    u64 a = i->wide ? ((const u64 *)sim_row (w, i->o[1]))[l]
                    : ((const u32 *)sim_row (w, i->o[1]))[l];
    u64 window = a >> 40;
    gboolean is;
    switch (i->space) {
      case PTX_SPACE_SHARED:
        is = window == SIM_SHARED_BASE >> 40 &&
             (a - SIM_SHARED_BASE) >> SIM_RANK_SHIFT == 0;
        break;
      case PTX_SPACE_CLUSTER:
        is = window == SIM_SHARED_BASE >> 40;
        break;
      case PTX_SPACE_LOCAL:
        is = window == SIM_LOCAL_BASE >> 40;
        break;
      case PTX_SPACE_PARAM:
        is = window == SIM_PARAM_BASE >> 40;
        break;
      default:
        is = window >= SIM_GLOBAL_BASE >> 40;
    }
    value[l] = is ? ~0u : 0;
  }
  sim_put32 (w, i->o[0], value);
}

/* The same place in the shared memory of another block of the cluster. */
void
DO (mapa) (SimWarp *w, const SimIns *i)
{
  const u32 *rank = sim_row (w, i->o[2]);
  guint n = w->block->cluster->n_blocks;
  u64 wide[SIM_LANES];
  u32 value[SIM_LANES];
  LANES
  {
    u64 a = i->wide ? ((const u64 *)sim_row (w, i->o[1]))[l]
                    : ((const u32 *)sim_row (w, i->o[1]))[l];
    if (sim_on (w, l) && rank[l] >= n) {
      sim_fault (w, i, (gint)l, a, CUDA_ERROR_ILLEGAL_ADDRESS,
          "block %u of a cluster of %u", rank[l], n);
      return;
    }
    u64 offset = a & ((1u << SIM_RANK_SHIFT) - 1);
    value[l] = (u32)offset | (rank[l] + 1) << SIM_RANK_SHIFT;
    wide[l] =
        value[l] + (i->space == PTX_SPACE_GENERIC ? SIM_SHARED_BASE : (u64)0);
  }
  if (i->wide)
    sim_put64 (w, i->o[0], wide);
  else
    sim_put32 (w, i->o[0], value);
}

void
DO (getctarank) (SimWarp *w, const SimIns *i)
{
  u32 value[SIM_LANES];
  LANES
  {
    u64 a = i->wide ? ((const u64 *)sim_row (w, i->o[1]))[l]
                    : ((const u32 *)sim_row (w, i->o[1]))[l];
    u32 rank = (u32)a >> SIM_RANK_SHIFT;
    value[l] = rank ? rank - 1 : w->block->rank;
  }
  sim_put32 (w, i->o[0], value);
}

/* The copy happens at the wait, the latest legal moment; until then the
 * destination holds NaN. */
void
DO (cp_async) (SimWarp *w, const SimIns *i)
{
  u64 a[SIM_LANES];
  SimAsync c = { .mask = w->mask, .size = i->size, .group = w->async_group };
  const u32 *copy = sim_row (w, i->x[0]);
  const u64 *src = sim_row (w, i->x[1]);

  get_addresses (w, i, a);
  c.line = i->line;
  SimIns from = *i;
  from.space = PTX_SPACE_GLOBAL;
  from.n = 1;
  LANES
  {
    if (!sim_on (w, l))
      continue;
    c.dst[l] = (u32)a[l];
    c.src[l] = src[l] + (u64)(s64)i->target;
    c.copy[l] = (guint8)MIN (copy[l], i->size);
    guint8 *p = sim_resolve (w, i, l, a[l], PTX_SPACE_SHARED, i->size, TRUE);
    if (!p)
      return;
    if (c.copy[l] && !sim_resolve (w, &from, l, c.src[l], PTX_SPACE_GLOBAL,
                         c.copy[l] == i->size ? i->size : 1, FALSE))
      return;
    memset (p, 0xff, i->size);
    if (w->checked) {
      sim_race_shared (w, i, w->block, l, c.dst[l], i->size, SIM_ISSUE, NULL);
      if (c.copy[l])
        sim_race (
            w, &from, l, c.src[l], PTX_SPACE_GLOBAL, c.copy[l], SIM_READ, NULL);
    }
  }
  if (w->launch->count) {
    LANES a[l] = c.src[w->lane[l] ? l : (guint)__builtin_ctz (w->mask)];
    sim_count_access (w, &from, PTX_SPACE_GLOBAL, a, i->size, FALSE);
  }
  if (!w->async)
    w->async = g_array_new (FALSE, FALSE, sizeof (SimAsync));
  g_array_append_val (w->async, c);
}

void
DO (cp_async_commit) (SimWarp *w, const SimIns *i)
{
  (void)i;
  w->async_group++;
}

void
DO (cp_async_wait) (SimWarp *w, const SimIns *i)
{
  if (i->sub) /* wait_all commits first */
    w->async_group++;
  guint pending = i->sub ? 0 : (guint)i->imm, done = 0;
  for (guint k = 0; w->async && k < w->async->len; k++) {
    SimAsync *c = &g_array_index (w->async, SimAsync, k);
    if (w->async_group - c->group <= pending)
      break;
    LANES
    {
      if (!(c->mask >> l & 1))
        continue;
      guint8 *p = w->block->shared + c->dst[l];
      memset (p, 0, c->size);
      memcpy (p, sim_host (c->src[l]), c->copy[l]);
      if (w->checked)
        sim_race_shared (w, i, w->block, l, c->dst[l], c->size, SIM_LAND, NULL);
    }
    done = k + 1;
  }
  if (done)
    g_array_remove_range (w->async, 0, done);
}
