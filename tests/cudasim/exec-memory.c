/* Loads, stores, atomics, asynchronous copies
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The addresses of 32 lanes are checked together, against the allocation that
 * the first is in; only when that fails is each looked at alone, to say which
 * one is wrong. Loads of a warp are mostly of neighbours: one copy.
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

/* Where the lanes' accesses lie: offsets from a host address. */
typedef struct {
  guint8 *base;
  u32 offset[SIM_LANES] __attribute__ ((aligned (64)));
} Places;

/* All in [low, low + limit), aligned to a power of two? */
INLINE gboolean
within (Places *p, const u64 *a, u64 low, u64 limit, guint bytes)
{
  u64 high = 0;
  u32 bits = 0, top = 0;
  LANES
  {
    u64 d = a[l] - low;
    high |= d;
    p->offset[l] = (u32)d;
  }
  LANES
  {
    bits |= p->offset[l];
    top = p->offset[l] > top ? p->offset[l] : top;
  }
  return !(high >> 32) && !(bits & (bytes - 1)) && (u64)top + bytes <= limit;
}

/* The window or allocation that the first lane is in has to hold them all;
 * what this cannot place is looked at lane by lane. */
INLINE gboolean
place (SimWarp *w, const SimIns *i, const u64 *a, guint bytes, Places *p)
{
  u64 first = a[0], window = first >> 40;
  SimBlock *b = w->block;
  switch (i->space) {
    case PTX_SPACE_SHARED:
      p->base = b->shared;
      return within (p, a, 0, b->shared_size, bytes);
    case PTX_SPACE_PARAM:
    case PTX_SPACE_GENERIC:
      if (window == SIM_SHARED_BASE >> 40) {
        p->base = b->shared;
        return within (p, a, SIM_SHARED_BASE, b->shared_size, bytes);
      }
      if (window == SIM_PARAM_BASE >> 40 && i->op == OP_ld) {
        p->base = w->launch->params;
        return within (
            p, a, SIM_PARAM_BASE, w->launch->kernel->param_bytes, bytes);
      }
      /* fall through */
    case PTX_SPACE_GLOBAL:
    case PTX_SPACE_CONST:
      if (first - w->alloc_lo >= w->alloc_hi - w->alloc_lo) {
        SimAllocation *found = sim_find (first);
        if (!found)
          return FALSE;
        w->alloc_lo = found->address;
        w->alloc_hi = found->address + found->size;
      }
      p->base = sim_host (w->alloc_lo);
      return within (p, a, w->alloc_lo, w->alloc_hi - w->alloc_lo, bytes);
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

/* Are all at offset[0] + l * step? */
INLINE gboolean
is_line (const u32 *offset, u32 step)
{
  u32 wrong = 0;
  LANES wrong |= offset[l] ^ (offset[0] + l * step);
  return !wrong;
}

INLINE void
load_words (SimWarp *w, const SimIns *i, const Places *p)
{
  u32 value[4][SIM_LANES] __attribute__ ((aligned (64)));
  const guint8 *base = p->base;
  const u32 *o = p->offset;
  u32 apart = o[31] - o[0];
  gboolean same = apart == 0 && is_line (o, 0);

  if (same) {
    const u32 *q = (const u32 *)(const void *)(base + o[0]);
    for (guint e = 0; e < i->n; e++) {
      u32 v = q[e];
      LANES value[e][l] = v;
    }
  } else if (i->n == 1) {
    if (apart == 31 * 4 && is_line (o, 4))
      memcpy (value[0], base + o[0], SIM_ROW);
    else
      LANES memcpy (&value[0][l], base + o[l], 4);
  } else if (i->n == 2) {
    LANES
    {
      u32 pair[2];
      memcpy (pair, base + o[l], 8);
      value[0][l] = pair[0];
      value[1][l] = pair[1];
    }
  } else {
    for (guint l = 0; l < SIM_LANES; l += 4) { /* 4 x 4 transposes */
#ifdef __SSE2__
      __m128 r0 = _mm_loadu_ps ((const float *)(const void *)(base + o[l]));
      __m128 r1 = _mm_loadu_ps ((const float *)(const void *)(base + o[l + 1]));
      __m128 r2 = _mm_loadu_ps ((const float *)(const void *)(base + o[l + 2]));
      __m128 r3 = _mm_loadu_ps ((const float *)(const void *)(base + o[l + 3]));
      _MM_TRANSPOSE4_PS (r0, r1, r2, r3);
      _mm_store_ps ((float *)&value[0][l], r0);
      _mm_store_ps ((float *)&value[1][l], r1);
      _mm_store_ps ((float *)&value[2][l], r2);
      _mm_store_ps ((float *)&value[3][l], r3);
#else
      for (guint k = l; k < l + 4; k++)
        for (guint e = 0; e < 4; e++)
          memcpy (&value[e][k], base + o[k] + 4 * e, 4);
#endif
    }
  }
  for (guint e = 0; e < i->n; e++)
    sim_put32 (w, i->x[e], value[e]);
}

INLINE void
load_others (SimWarp *w, const SimIns *i, const Places *p)
{
  for (guint e = 0; e < i->n; e++) {
    if (i->size == 8) {
      u64 value[SIM_LANES] __attribute__ ((aligned (64)));
      LANES memcpy (&value[l], p->base + p->offset[l] + 8 * e, 8);
      sim_put64 (w, i->x[e], value);
    } else {
      u32 value[SIM_LANES] __attribute__ ((aligned (64)));
      LANES
      {
        const guint8 *q = p->base + p->offset[l] + i->size * e;
        if (i->size == 4)
          memcpy (&value[l], q, 4);
        else
          value[l] = narrow (q, i->size, i->sub);
      }
      sim_put32 (w, i->x[e], value);
    }
  }
}

void
DO (ld) (SimWarp *w, const SimIns *i)
{
  u64 a[SIM_LANES] __attribute__ ((aligned (64)));
  Places p;

  get_addresses (w, i, a);
  if (!place (w, i, a, i->size * (guint)i->n, &p))
    load_slow (w, i, a);
  else if (i->size == 4 && i->n <= 4)
    load_words (w, i, &p);
  else
    load_others (w, i, &p);
  if ((w->checked || w->launch->count) && w->stop != SIM_STOP_FAULT)
    watch (w, i, a, SIM_READ, NULL);
  if (i->sem & SIM_SEM_STRONG && w->launch->check)
    LANES
    {
      if (sim_on (w, l))
        sim_race_sync (w, i, l, a[l]);
    }
}

/* A warp's words, without checks. */
INLINE void
store_words (SimWarp *w, const SimIns *i, const Places *p)
{
  const u32 *o = p->offset;
  const u32 *v[4];
  for (guint e = 0; e < i->n; e++)
    v[e] = sim_row (w, i->x[e]);
  if (i->n == 1 && IS_FULL (w) && is_line (o, 4)) {
    memcpy (p->base + o[0], v[0], SIM_ROW);
    return;
  }
  LANES
  {
    if (!sim_on (w, l))
      continue;
    guint8 *q = p->base + o[l];
    switch (i->n) {
      case 1:
        memcpy (q, &v[0][l], 4);
        break;
      case 2: {
        u32 pair[2] = { v[0][l], v[1][l] };
        memcpy (q, pair, 8);
        break;
      }
      default: {
        u32 four[4] = { v[0][l], v[1][l], v[2][l], v[3][l] };
        memcpy (q, four, 16);
      }
    }
  }
}

void
DO (st) (SimWarp *w, const SimIns *i)
{
  u64 a[SIM_LANES] __attribute__ ((aligned (64)));
  Places p;
  guint bytes = i->size * (guint)i->n;
  gboolean check = w->launch->check;

  get_addresses (w, i, a);
  gboolean placed = place (w, i, a, bytes, &p);
  if (w->launch->count)
    sim_count_access (w, i, i->space, a, bytes, TRUE);
  if (placed && !check && i->size == 4 && i->n <= 4) {
    store_words (w, i, &p);
    return;
  }

  guint8 values[SIM_LANES][32] __attribute__ ((aligned (64)));
  for (guint e = 0; e < i->n; e++)
    if (i->size == 8) {
      const u64 *v = sim_row (w, i->x[e]);
      LANES memcpy (values[l] + 8 * e, &v[l], 8);
    } else {
      const u32 *v = sim_row (w, i->x[e]);
      LANES memcpy (values[l] + i->size * e, &v[l], i->size);
    }
  if (i->sem & SIM_SEM_STRONG && check)
    LANES
    {
      if (sim_on (w, l))
        sim_race_sync (w, i, l, a[l]);
    }
  LANES
  {
    if (!sim_on (w, l))
      continue;
    guint8 *at = placed ? p.base + p.offset[l]
                        : sim_resolve (w, i, l, a[l], i->space, bytes, TRUE);
    if (!at)
      return;
    if (check)
      sim_race (w, i, l, a[l], i->space, bytes, SIM_WRITE, values[l]);
    memcpy (at, values[l], bytes);
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
    sim_count_access (w, i, PTX_SPACE_GLOBAL, a, i->size, FALSE);
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
