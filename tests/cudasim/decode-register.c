/* Instructions that only touch registers
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "decode.h"

static void
emit_table (Decoder *d, gint op)
{
  const SimOp *o = &sim_ops[op];
  gint32 src[3] = { -1, -1, -1 };
  if (d->at->n_operands != 1u + o->n) {
    decode_fail (d, "%u operands, expected %u", d->at->n_operands, 1u + o->n);
    return;
  }
  gboolean preds = g_str_has_suffix (o->name, "_pred");
  for (guint i = 0; i < o->n; i++)
    src[i] = preds ? decode_pred (d, decode_operand (d, i + 1))
                   : decode_src (d, decode_operand (d, i + 1), o->width[i + 1]);
  gint32 out = decode_dst (d, decode_operand (d, 0), o->width[0]);
  SimIns *ins = decode_emit (d, op);
  ins->o[0] = out;
  memcpy (&ins->o[1], src, sizeof src);
  ins->has_out = TRUE;
}

/* The opcode without what makes no difference here, '.' as '_'. .ftz is among
 * it: denormals are kept. */
static gchar *
plain_name (Decoder *d, gboolean keep_rounding)
{
  static const gchar *const ignored[] = { "ftz", "approx", "full", "sync",
    "aligned", "satfinite", NULL };
  GString *name = g_string_new (d->parts[0]);
  for (guint i = 1; i < d->n_parts; i++) {
    const gchar *p = d->parts[i];
    if (g_strv_contains (ignored, p) ||
        (!keep_rounding && strcmp (p, "rn") == 0))
      continue;
    g_string_append_printf (name, "_%s", p);
  }
  return g_string_free (name, FALSE);
}

/* The bits of the type only: selp.f32 is selp.b32. */
static gint
find_by_size (Decoder *d, const gchar *base)
{
  Type type;
  gchar name[64];
  if (!decode_type (d->parts[d->n_parts - 1], &type))
    return -1;
  g_snprintf (name, sizeof name, "%s_b%u", base, type.size * 8);
  return sim_op_find (name);
}

static void
decode_setp (Decoder *d)
{
  Type type;
  const gchar *bool_op = NULL;
  gchar name[64];
  const gchar *t = d->parts[d->n_parts - 1];
  if (d->n_parts < 3 || !decode_type (t, &type)) {
    decode_fail (d, "comparison not understood");
    return;
  }
  for (guint i = 2; i + 1 < d->n_parts; i++)
    if (strcmp (d->parts[i], "ftz") != 0)
      bool_op = d->parts[i];
  g_snprintf (name, sizeof name, "setp_%s_%s", d->parts[1], t);
  gint op = sim_op_find (name);
  if (op < 0) {
    decode_fail (d, "comparison unknown to the simulator");
    return;
  }
  const PtxOperand *dst = decode_operand (d, 0);
  gint32 a = decode_src (d, decode_operand (d, 1), sim_ops[op].width[1]);
  gint32 b = decode_src (d, decode_operand (d, 2), sim_ops[op].width[2]);
  gint32 p = decode_dst (d, dst, 4);
  if (!bool_op && dst->pair < 0) {
    decode_emit2 (d, op, p, a, b);
    return;
  }
  gint32 result = decode_temp (d, 4);
  decode_emit2 (d, op, result, a, b);
  gint32 opposite = decode_temp (d, 4);
  decode_emit1 (d, OP_not_pred, opposite, result);
  if (bool_op) {
    g_snprintf (name, sizeof name, "%s_pred", bool_op);
    gint combine = sim_op_find (name);
    gint32 c = decode_pred (d, decode_operand (d, 3));
    if (combine < 0)
      decode_fail (d, "comparison unknown to the simulator");
    else {
      decode_emit2 (d, combine, p, result, c);
      if (dst->pair >= 0)
        decode_emit2 (d, combine, decode_reg (d, dst->pair), opposite, c);
    }
  } else {
    decode_emit1 (d, OP_mov_b32, p, result);
    decode_emit1 (d, OP_mov_b32, decode_reg (d, dst->pair), opposite);
  }
}

/* set.cmp.dtype.stype: 1.0 or all ones, else 0. */
static void
decode_set (Decoder *d)
{
  gchar name[64];
  guint n = d->n_parts;
  gint op = -1;
  if (n >= 4) {
    g_snprintf (name, sizeof name, "setp_%s_%s", d->parts[1], d->parts[n - 1]);
    op = sim_op_find (name);
  }
  if (op < 0 || decode_has (d, "and") || decode_has (d, "or") ||
      decode_has (d, "xor")) {
    decode_fail (d, "comparison unknown to the simulator");
    return;
  }
  gint32 a = decode_src (d, decode_operand (d, 1), sim_ops[op].width[1]);
  gint32 b = decode_src (d, decode_operand (d, 2), sim_ops[op].width[2]);
  gint32 p = decode_temp (d, 4);
  decode_emit2 (d, op, p, a, b);
  gboolean is_float = strcmp (d->parts[n - 2], "f32") == 0;
  gint32 out = decode_dst (d, decode_operand (d, 0), 4);
  decode_emit2 (d, OP_selp_b32, out,
      decode_const (d, 4, is_float ? 0x3f800000 : 0xffffffff),
      decode_const (d, 4, 0));
  g_array_index (d->code, SimIns, d->code->len - 1).o[3] = p;
}

/* mov, with {a, b} on either side as packing and unpacking. */
static void
decode_mov (Decoder *d)
{
  Type type;
  const PtxOperand *dst = decode_operand (d, 0), *src = decode_operand (d, 1);
  if (!decode_type (d->parts[d->n_parts - 1], &type)) {
    decode_fail (d, "type not understood");
    return;
  }
  guint width = type.size == 8 ? 8 : 4;
  if (src->kind == PTX_LIST) {
    guint part = type.size / MAX (src->n_items, 1);
    gint32 v[4] = { 0, 0, 0, 0 };
    if (src->n_items != 2 && src->n_items != 4) {
      decode_fail (d, "vector not understood");
      return;
    }
    for (guint i = 0; i < src->n_items; i++)
      v[i] = decode_src (d, &src->items[i], 4);
    gint32 out = decode_dst (d, dst, width);
    if (src->n_items == 2 && part == 4) {
      decode_emit2 (d, OP_pack_b64_b32, out, v[0], v[1]);
    } else if (src->n_items == 2 && part == 2) {
      decode_emit2 (d, OP_pack_b32_b16, out, v[0], v[1]);
    } else if (src->n_items == 4 && part == 2) {
      gint32 low = decode_temp (d, 4), high = decode_temp (d, 4);
      decode_emit2 (d, OP_pack_b32_b16, low, v[0], v[1]);
      decode_emit2 (d, OP_pack_b32_b16, high, v[2], v[3]);
      decode_emit2 (d, OP_pack_b64_b32, out, low, high);
    } else {
      decode_fail (d, "vector not understood");
    }
  } else if (dst->kind == PTX_LIST) {
    guint part = type.size / MAX (dst->n_items, 1);
    gint32 in = decode_src (d, src, width);
    gint32 half[2] = { in, in };
    if (type.size == 8) {
      for (gint i = 0; i < 2; i++) {
        gint32 h = decode_temp (d, 4);
        decode_emit1 (d, i ? OP_high_b32_b64 : OP_low_b32_b64, h, in);
        half[i] = h;
      }
    }
    if (!((part == 4 && dst->n_items == 2) ||
            (part == 2 && dst->n_items == 4) ||
            (part == 2 && dst->n_items == 2))) {
      decode_fail (d, "vector not understood");
      return;
    }
    for (guint i = 0; i < dst->n_items; i++) {
      if (dst->items[i].kind == PTX_SINK)
        continue;
      gint32 out = decode_dst (d, &dst->items[i], 4);
      if (part == 4)
        decode_emit1 (d, OP_mov_b32, out, half[i]);
      else
        decode_emit1 (
            d, i & 1 ? OP_high_b16_b32 : OP_low_b16_b32, out, half[i / 2]);
    }
  } else {
    gint32 in = strcmp (d->parts[d->n_parts - 1], "pred") == 0
                    ? decode_pred (d, src)
                    : decode_src (d, src, width);
    decode_emit1 (d, width == 8 ? OP_mov_b64 : OP_mov_b32,
        decode_dst (d, dst, width), in);
  }
}

static void
decode_cvt (Decoder *d)
{
  Type to, from;
  guint n = d->n_parts;
  if (n < 3 || !decode_type (d->parts[n - 2], &to) ||
      !decode_type (d->parts[n - 1], &from)) {
    /* cvt.rn.bf16x2.f32 has a type that is no scalar; cvt.pack none of it */
    decode_fail (d, "conversion not understood");
    return;
  }
  GString *name = g_string_new ("cvt");
  gboolean to_int = from.is_float && !to.is_float && to.size <= 8 &&
                    strchr ("us", d->parts[n - 2][0]);
  for (guint i = 1; i < n; i++) {
    const gchar *p = d->parts[i];
    if (strcmp (p, "ftz") == 0 || strcmp (p, "satfinite") == 0 ||
        (to_int && strcmp (p, "sat") == 0))
      continue;
    g_string_append_printf (name, "_%s", p);
  }
  gint op = sim_op_find (name->str);
  g_string_free (name, TRUE);
  if (op < 0) {
    decode_fail (d, "conversion unknown to the simulator");
    return;
  }
  /* A source narrower than its register: take the low half. */
  gint32 a = decode_src (d, decode_operand (d, 1), sim_ops[op].width[1]);
  gint32 b = -1;
  if (sim_ops[op].n == 2)
    b = decode_src (d, decode_operand (d, 2), sim_ops[op].width[2]);
  const PtxOperand *dst = decode_operand (d, 0);
  gint32 out = decode_dst (d, dst, sim_ops[op].width[0]);
  decode_emit2 (d, op, out, a, b);
}

static void
decode_cvta (Decoder *d)
{
  guint64 window = 0;
  Type type;
  gboolean to = decode_has (d, "to");
  if (decode_has (d, "shared") || decode_has (d, "shared::cta") ||
      decode_has (d, "shared::cluster"))
    window = SIM_SHARED_BASE;
  else if (decode_has (d, "local"))
    window = SIM_LOCAL_BASE;
  else if (!decode_has (d, "global") && !decode_has (d, "const") &&
           !decode_has (d, "param"))
    decode_fail (d, "space unknown to the simulator");
  if (!decode_type (d->parts[d->n_parts - 1], &type) || type.size != 8)
    decode_fail (d, "generic addresses have 64 bits");
  gint32 a = decode_src (d, decode_operand (d, 1), 8);
  gint32 out = decode_dst (d, decode_operand (d, 0), 8);
  if (window)
    decode_emit2 (
        d, to ? OP_sub_u64 : OP_add_u64, out, a, decode_const (d, 8, window));
  else
    decode_emit1 (d, OP_mov_b64, out, a);
}

/* Four operands, or an immediate that selects: into x. */
static void
decode_extra (Decoder *d, gint op, guint width, guint n_in)
{
  gint32 *x = decode_array (d, n_in);
  for (guint i = 0; i < n_in; i++)
    x[i] = decode_src (d, decode_operand (d, i + 1), i < 2 ? width : 4);
  gint32 out = decode_dst (d, decode_operand (d, 0), width);
  SimIns *ins = decode_emit (d, op);
  ins->o[0] = out;
  ins->has_out = TRUE;
  ins->x = x;
  ins->nx = (guint8)n_in;
}

static gint
rounding (Decoder *d)
{
  return decode_has (d, "rz")   ? 1
         : decode_has (d, "rm") ? 2
         : decode_has (d, "rp") ? 3
                                : 0;
}

/* add, sub, mul, fma, div, sqrt, rcp with .rz, .rm or .rp. */
static void
decode_rounded (Decoder *d, const gchar *base)
{
  static const gchar *const names[] = { "add", "sub", "mul", "fma", "div",
    "sqrt", "rcp", "mad", NULL };
  guint which = 0;
  Type type;
  while (names[which] && strcmp (names[which], base) != 0)
    which++;
  if (!names[which] || decode_has (d, "sat") ||
      !decode_type (d->parts[d->n_parts - 1], &type) || !type.is_float ||
      type.size < 4) {
    decode_fail (d, "rounding unknown to the simulator");
    return;
  }
  guint n = d->at->n_operands - 1;
  gint32 src[3] = { -1, -1, -1 };
  for (guint i = 0; i < n && i < 3; i++)
    src[i] = decode_src (d, decode_operand (d, i + 1), type.size);
  gint32 out = decode_dst (d, decode_operand (d, 0), type.size);
  SimIns *ins = decode_emit (d, OP_rounded);
  ins->o[0] = out;
  memcpy (&ins->o[1], src, sizeof src);
  ins->has_out = TRUE;
  ins->sub = (guint8)(which << 2 | (guint)rounding (d));
  ins->size = (guint8)type.size;
}

/* add.cc, addc, sub.cc, subc, mad.lo.cc, madc...: the carry is a register of
 * the warp's that only they see. */
gboolean
decode_register (Decoder *d, const gchar *base)
{
  gint op;
  if (strcmp (base, "setp") == 0) {
    decode_setp (d);
  } else if (strcmp (base, "set") == 0) {
    decode_set (d);
  } else if (strcmp (base, "mov") == 0) {
    decode_mov (d);
  } else if (strcmp (base, "cvt") == 0) {
    decode_cvt (d);
  } else if (strcmp (base, "cvta") == 0) {
    decode_cvta (d);
  } else if (strcmp (base, "lop3") == 0) {
    decode_extra (d, OP_lop3, 4, 4);
  } else if (strcmp (base, "bfi") == 0) {
    gboolean wide = strcmp (d->parts[d->n_parts - 1], "b64") == 0;
    decode_extra (d, wide ? OP_bfi_b64 : OP_bfi_b32, wide ? 8 : 4, 4);
  } else if (strcmp (base, "selp") == 0) {
    op = find_by_size (d, base);
    if (op < 0)
      return FALSE;
    emit_table (d, op);
  } else if (rounding (d) && strcmp (base, "cvt") != 0) {
    decode_rounded (d, base);
  } else {
    gchar *name = plain_name (d, FALSE);
    op = sim_op_find (name);
    g_free (name);
    if (op < 0 || sim_ops[op].n == 0)
      return FALSE;
    emit_table (d, op);
  }
  return TRUE;
}
