/* Loads, stores, atomics, asynchronous copies
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "decode.h"

/* What the parts of ld, st, atom, red say. FALSE at an unknown one. */
typedef struct {
  PtxSpace space;
  guint vector;
  Type type;
  gboolean has_type, nc, hint;
  guint8 sem;
} Access;

static gboolean
parse_access (Decoder *d, Access *a, guint *unknown)
{
  static const gchar *const ignored[] = { "weak", "ca", "cg", "cs", "lu", "cv",
    "wb", "wt", "gpu", "sys", "unified", "noftz", "rn", NULL };
  *a = (Access){ .space = PTX_SPACE_GENERIC, .vector = 1 };
  for (guint i = 1; i < d->n_parts; i++) {
    const gchar *p = d->parts[i];
    if (strcmp (p, "global") == 0)
      a->space = PTX_SPACE_GLOBAL;
    else if (strcmp (p, "shared") == 0 || strcmp (p, "shared::cta") == 0)
      a->space = PTX_SPACE_SHARED;
    else if (strcmp (p, "shared::cluster") == 0)
      a->space = PTX_SPACE_CLUSTER;
    else if (strcmp (p, "local") == 0)
      a->space = PTX_SPACE_LOCAL;
    else if (strcmp (p, "param") == 0 || g_str_has_prefix (p, "param::"))
      a->space = PTX_SPACE_PARAM;
    else if (strcmp (p, "const") == 0)
      a->space = PTX_SPACE_CONST;
    else if (strcmp (p, "v2") == 0 || strcmp (p, "v4") == 0 ||
             strcmp (p, "v8") == 0)
      a->vector = (guint)(p[1] - '0');
    else if (strcmp (p, "volatile") == 0 || strcmp (p, "relaxed") == 0 ||
             strcmp (p, "mmio") == 0)
      a->sem |= SIM_SEM_STRONG;
    else if (strcmp (p, "acquire") == 0)
      a->sem |= SIM_SEM_STRONG | SIM_SEM_ACQUIRE;
    else if (strcmp (p, "release") == 0)
      a->sem |= SIM_SEM_STRONG | SIM_SEM_RELEASE;
    else if (strcmp (p, "acq_rel") == 0)
      a->sem |= SIM_SEM_STRONG | SIM_SEM_ACQUIRE | SIM_SEM_RELEASE;
    else if (strcmp (p, "cta") == 0)
      a->sem |= SIM_SEM_BLOCK;
    else if (strcmp (p, "cluster") == 0)
      a->sem |= SIM_SEM_CLUSTER;
    else if (strcmp (p, "nc") == 0)
      a->sem |= SIM_SEM_NC;
    else if (strcmp (p, "L2::cache_hint") == 0)
      a->hint = TRUE;
    else if (decode_type (p, &a->type))
      a->has_type = TRUE;
    else if (!g_strv_contains (ignored, p) && !g_str_has_prefix (p, "L1::") &&
             !g_str_has_prefix (p, "L2::") &&
             !g_str_has_prefix (p, "level::")) {
      if (*unknown)
        return FALSE;
      *unknown = i;
    }
  }
  return a->has_type;
}

static guint8
memory_kind (PtxSpace space, gboolean store)
{
  switch (space) {
    case PTX_SPACE_SHARED:
      return store ? SIM_KIND_STORE_SHARED : SIM_KIND_LOAD_SHARED;
    case PTX_SPACE_CLUSTER:
      return SIM_KIND_REMOTE;
    case PTX_SPACE_LOCAL:
      return SIM_KIND_LOCAL;
    case PTX_SPACE_PARAM:
      return SIM_KIND_PARAM;
    default:
      return store ? SIM_KIND_STORE_GLOBAL : SIM_KIND_LOAD_GLOBAL;
  }
}

/* Loads of less than a register: `sub` says that the sign is extended. */
static void
decode_load (Decoder *d)
{
  Access a;
  guint unknown = 0;
  if (!parse_access (d, &a, &unknown) || unknown) {
    decode_fail (d, "load unknown to the simulator");
    return;
  }
  const PtxOperand *dst = decode_operand (d, 0);
  const PtxOperand *items = dst->kind == PTX_LIST ? dst->items : dst;
  guint n = dst->kind == PTX_LIST ? dst->n_items : 1;
  guint width = a.type.size == 8 ? 8 : 4;
  gint32 *x = decode_array (d, n);
  gint32 *wide = g_newa (gint32, n);

  if (n != a.vector) {
    decode_fail (d, "%u registers for a vector of %u", n, a.vector);
    return;
  }
  for (guint i = 0; i < n; i++) {
    wide[i] = -1;
    if (items[i].kind == PTX_REG && width == 4 &&
        decode_width (d, &items[i]) == 8) {
      wide[i] = decode_dst (d, &items[i], 8);
      x[i] = decode_temp (d, 4);
    } else {
      x[i] = decode_dst (d, &items[i], width);
    }
  }
  SimIns *ins = decode_emit (d, OP_ld);
  ins->x = x;
  ins->nx = ins->x_out = (guint8)n;
  ins->n = (guint8)n;
  ins->size = (guint8)a.type.size;
  ins->sub = (guint8)a.type.is_signed;
  ins->sem = a.sem;
  decode_address (d, ins, decode_operand (d, 1), a.space);
  /* decode_address may not emit, so ins is still valid */
  ins->kind = memory_kind (ins->space, FALSE);
  if (ins->space == PTX_SPACE_PARAM && ins->o[1] & 1) {
    ins->op = OP_ld_param;
    if ((gsize)ins->imm + n * a.type.size > d->kernel->param_bytes)
      decode_fail (d, "beyond the parameters");
  }
  if (a.sem & SIM_SEM_ACQUIRE && a.space == PTX_SPACE_PARAM)
    decode_fail (d, "load unknown to the simulator");
  for (guint i = 0; i < n; i++)
    if (wide[i] >= 0)
      decode_emit1 (
          d, a.type.is_signed ? OP_cvt_s64_s32 : OP_cvt_u64_u32, wide[i], x[i]);
}

static void
decode_store (Decoder *d)
{
  Access a;
  guint unknown = 0;
  if (!parse_access (d, &a, &unknown) || unknown) {
    decode_fail (d, "store unknown to the simulator");
    return;
  }
  const PtxOperand *src = decode_operand (d, 1);
  const PtxOperand *items = src->kind == PTX_LIST ? src->items : src;
  guint n = src->kind == PTX_LIST ? src->n_items : 1;
  gint32 *x = decode_array (d, n);
  if (n != a.vector) {
    decode_fail (d, "%u registers for a vector of %u", n, a.vector);
    return;
  }
  for (guint i = 0; i < n; i++)
    x[i] = decode_src (d, &items[i], a.type.size == 8 ? 8 : 4);
  SimIns *ins = decode_emit (d, OP_st);
  ins->x = x;
  ins->nx = ins->n = (guint8)n;
  ins->size = (guint8)a.type.size;
  ins->sem = a.sem;
  decode_address (d, ins, decode_operand (d, 0), a.space);
  ins->kind = memory_kind (ins->space, TRUE);
}

static void
decode_atomic (Decoder *d, gboolean has_result)
{
  static const gchar *const names[] = { "add", "min", "max", "and", "or", "xor",
    "exch", "cas", "inc", "dec", NULL };
  Access a;
  guint unknown = 0, op = 0;
  if (!parse_access (d, &a, &unknown) || !unknown || a.type.size < 4 ||
      a.vector != 1) {
    decode_fail (d, "atomic unknown to the simulator");
    return;
  }
  while (names[op] && strcmp (names[op], d->parts[unknown]) != 0)
    op++;
  const gchar *type = d->parts[d->n_parts - 1];
  if (!names[op] || strcmp (type, "f16x2") == 0 ||
      strcmp (type, "bf16x2") == 0) {
    decode_fail (d, "atomic unknown to the simulator");
    return;
  }
  guint width = a.type.size, first = has_result ? 1 : 0;
  gint32 b = decode_src (d, decode_operand (d, first + 1), width);
  gint32 c = -1;
  if (op == SIM_ATOM_CAS)
    c = decode_src (d, decode_operand (d, first + 2), width);
  gint32 out = has_result ? decode_dst (d, decode_operand (d, 0), width) : -1;
  SimIns *ins = decode_emit (d, OP_atom);
  ins->o[0] = out;
  ins->o[2] = b;
  ins->o[3] = c;
  ins->has_out = has_result;
  ins->size = (guint8)width;
  ins->n = 1;
  ins->sub = (guint8)op;
  ins->sem = a.sem | SIM_SEM_STRONG;
  /* x_out doubles as the type: 1 signed, 2 float */
  ins->target = a.type.is_float ? 2 : a.type.is_signed;
  decode_address (d, ins, decode_operand (d, first), a.space);
}

static void
decode_async (Decoder *d)
{
  if (decode_has (d, "commit_group") || decode_has (d, "wait_group") ||
      decode_has (d, "wait_all")) {
    gboolean commit = decode_has (d, "commit_group");
    SimIns *ins =
        decode_emit (d, commit ? OP_cp_async_commit : OP_cp_async_wait);
    ins->sub = decode_has (d, "wait_all");
    if (decode_has (d, "wait_group"))
      ins->imm = decode_operand (d, 0)->bits;
    return;
  }
  if (!decode_has (d, "global") || decode_has (d, "bulk") ||
      decode_has (d, "mbarrier") ||
      !(decode_has (d, "shared") || decode_has (d, "shared::cta"))) {
    decode_fail (d, "asynchronous copy unknown to the simulator");
    return;
  }
  const PtxOperand *dst = decode_operand (d, 0), *src = decode_operand (d, 1);
  gint32 *x = decode_array (d, 2);
  gint64 size = decode_operand (d, 2)->bits;
  x[0] = decode_const (d, 4, (guint64)size);
  if (d->at->n_operands > 3) {
    const PtxOperand *copy = decode_operand (d, 3);
    if (copy->kind == PTX_REG && decode_width (d, copy) == 8)
      ; /* a cache policy */
    else
      x[0] = decode_src (d, copy, 4);
  }
  SimIns dst_ins = { .o = { -1, -1, -1, -1 } };
  decode_address (d, &dst_ins, dst, PTX_SPACE_SHARED);
  if (src->kind != PTX_ADDR || src->reg < 0 || decode_width (d, src) != 8) {
    decode_fail (d, "asynchronous copy unknown to the simulator");
    return;
  }
  x[1] = decode_src (d,
      &(PtxOperand){ .kind = PTX_REG, .reg = src->reg, .pair = -1, .var = -1 },
      8);
  SimIns *ins = decode_emit (d, OP_cp_async);
  ins->o[1] = dst_ins.o[1];
  ins->wide = dst_ins.wide;
  ins->imm = dst_ins.imm;
  ins->space = PTX_SPACE_SHARED;
  ins->size = (guint8)size;
  ins->target = (gint32)src->bits;
  ins->x = x;
  ins->nx = 2;
  if (size != 4 && size != 8 && size != 16)
    decode_fail (d, "copies have 4, 8 or 16 bytes");
}

static void
decode_window (Decoder *d, gint op)
{
  PtxSpace space = decode_has (d, "global") ? PTX_SPACE_GLOBAL
                   : decode_has (d, "shared") || decode_has (d, "shared::cta")
                       ? PTX_SPACE_SHARED
                   : decode_has (d, "shared::cluster") ? PTX_SPACE_CLUSTER
                   : decode_has (d, "local")           ? PTX_SPACE_LOCAL
                   : decode_has (d, "const")           ? PTX_SPACE_CONST
                   : decode_has (d, "param")           ? PTX_SPACE_PARAM
                                                       : PTX_SPACE_GENERIC;
  gboolean wide = decode_width (d, decode_operand (d, 1)) == 8;
  gint32 a = decode_src (d, decode_operand (d, 1), wide ? 8 : 4);
  gint32 b = -1;
  if (op == OP_mapa)
    b = decode_src (d, decode_operand (d, 2), 4);
  gint32 out =
      decode_dst (d, decode_operand (d, 0), op == OP_mapa && wide ? 8 : 4);
  SimIns *ins = decode_emit (d, op);
  ins->o[0] = out;
  ins->o[1] = a;
  ins->o[2] = b;
  ins->has_out = TRUE;
  ins->wide = wide;
  ins->space = space;
  ins->kind = SIM_KIND_ALU;
}

gboolean
decode_memory (Decoder *d, const gchar *base)
{
  if (strcmp (base, "ld") == 0 || strcmp (base, "ldu") == 0)
    decode_load (d);
  else if (strcmp (base, "st") == 0)
    decode_store (d);
  else if (strcmp (base, "atom") == 0)
    decode_atomic (d, TRUE);
  else if (strcmp (base, "red") == 0 && !decode_has (d, "async"))
    decode_atomic (d, FALSE);
  else if (strcmp (base, "cp") == 0 && decode_has (d, "async") &&
           !decode_has (d, "prefetch"))
    decode_async (d);
  else if (strcmp (base, "isspacep") == 0)
    decode_window (d, OP_isspacep);
  else if (strcmp (base, "mapa") == 0)
    decode_window (d, OP_mapa);
  else if (strcmp (base, "getctarank") == 0)
    decode_window (d, OP_getctarank);
  else if (strcmp (base, "createpolicy") == 0)
    decode_emit1 (d, OP_mov_b64, decode_dst (d, decode_operand (d, 0), 8),
        decode_const (d, 8, 0));
  else if (g_str_has_prefix (base, "prefetch") ||
           strcmp (base, "applypriority") == 0 ||
           strcmp (base, "discard") == 0 ||
           (strcmp (base, "cp") == 0 && decode_has (d, "prefetch")))
    decode_emit (d, OP_nop);
  else
    return FALSE;
  return TRUE;
}
