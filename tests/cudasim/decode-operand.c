/* Writing instructions, and what operands and names stand for
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "decode.h"

static const gchar *const special_names[SIM_N_SR] = { "%tid.x", "%tid.y",
  "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z",
  "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid", "%nwarpid",
  "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt",
  "%lanemask_ge", "%clusterid.x", "%clusterid.y", "%clusterid.z",
  "%nclusterid.x", "%nclusterid.y", "%nclusterid.z", "%cluster_ctaid.x",
  "%cluster_ctaid.y", "%cluster_ctaid.z", "%cluster_nctaid.x",
  "%cluster_nctaid.y", "%cluster_nctaid.z", "%cluster_ctarank",
  "%cluster_nctarank", "%is_explicit_cluster", "%smid", "%nsmid", "%gridid",
  "%dynamic_smem_size", "%total_smem_size" };

void
decode_fail (Decoder *d, const gchar *format, ...)
{
  if (d->error)
    return;
  va_list args;
  va_start (args, format);
  gchar *text = g_strdup_vprintf (format, args);
  va_end (args);
  d->error = g_strdup_printf ("%s, PTX line %u: %s: %s", d->kernel->name,
      d->at ? d->at->line : 0, d->at && d->at->op ? d->at->op : "", text);
  g_free (text);
}

gint32
decode_temp (Decoder *d, guint width)
{
  guint8 w = (guint8)width;
  g_array_append_val (d->widths, w);
  return (gint32)(d->widths->len - 1) << 1;
}

gint32
decode_const (Decoder *d, guint width, guint64 bits)
{
  if (width == 4)
    bits &= 0xffffffffu;
  gint64 key = (gint64)(bits ^ (width == 8 ? 0x9e3779b97f4a7c15ull : 0));
  gpointer found = g_hash_table_lookup (d->constant_ids, &key);
  if (found)
    return (gint32)(GPOINTER_TO_INT (found) - 1) << 1 | 1;
  Constant c = { (guint8)width, bits };
  g_array_append_val (d->constants, c);
  gint64 *copy = g_memdup2 (&key, sizeof key);
  g_hash_table_insert (
      d->constant_ids, copy, GUINT_TO_POINTER (d->constants->len));
  return (gint32)(d->constants->len - 1) << 1 | 1;
}

SimIns *
decode_emit (Decoder *d, gint op)
{
  SimIns ins = { .o = { -1, -1, -1, -1 }, .target = -1 };
  ins.op = (guint16)op;
  ins.kind = sim_ops[op].kind;
  ins.line = d->at ? d->at->line : 0;
  g_array_append_val (d->code, ins);
  return &g_array_index (d->code, SimIns, d->code->len - 1);
}

void
decode_emit1 (Decoder *d, gint op, gint32 out, gint32 a)
{
  SimIns *ins = decode_emit (d, op);
  ins->o[0] = out;
  ins->o[1] = a;
  ins->has_out = TRUE;
}

void
decode_emit2 (Decoder *d, gint op, gint32 out, gint32 a, gint32 b)
{
  decode_emit1 (d, op, out, a);
  g_array_index (d->code, SimIns, d->code->len - 1).o[2] = b;
}

gint32 *
decode_array (Decoder *d, guint n)
{
  gint32 *array = g_new (gint32, n);
  g_ptr_array_add (d->kernel->arrays, array);
  return array;
}

gboolean
decode_has (Decoder *d, const gchar *part)
{
  for (guint i = 1; i < d->n_parts; i++)
    if (strcmp (d->parts[i], part) == 0)
      return TRUE;
  return FALSE;
}

gboolean
decode_type (const gchar *part, Type *type)
{
  static const struct {
    const gchar *name;
    Type type;
  } types[] = { { "b8", { 1, 0, 0 } }, { "u8", { 1, 0, 0 } },
    { "s8", { 1, 1, 0 } }, { "b16", { 2, 0, 0 } }, { "u16", { 2, 0, 0 } },
    { "s16", { 2, 1, 0 } }, { "f16", { 2, 0, 1 } }, { "bf16", { 2, 0, 1 } },
    { "b32", { 4, 0, 0 } }, { "u32", { 4, 0, 0 } }, { "s32", { 4, 1, 0 } },
    { "f32", { 4, 0, 1 } }, { "f16x2", { 4, 0, 0 } }, { "bf16x2", { 4, 0, 0 } },
    { "tf32", { 4, 0, 0 } }, { "b64", { 8, 0, 0 } }, { "u64", { 8, 0, 0 } },
    { "s64", { 8, 1, 0 } }, { "f64", { 8, 0, 1 } }, { "pred", { 4, 0, 0 } } };
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (strcmp (types[i].name, part) == 0) {
      *type = types[i].type;
      return TRUE;
    }
  return FALSE;
}

const PtxOperand *
decode_operand (Decoder *d, guint index)
{
  static const PtxOperand none = { PTX_SINK, 0, -1, -1, -1, NULL, 0, NULL, 0 };
  if (index < d->at->n_operands)
    return &d->at->operands[index];
  decode_fail (d, "operand %u is missing", index + 1);
  return &none;
}

static gint
param_index (const GPtrArray *params, const gchar *name)
{
  for (guint i = 0; i < params->len; i++)
    if (strcmp (((PtxVar *)params->pdata[i])->name, name) == 0)
      return (gint)i;
  return -1;
}

/* The address that a name stands for, in its space. */
gboolean
decode_symbol (
    Decoder *d, const PtxOperand *operand, guint64 *value, PtxSpace *space)
{
  Frame *f = d->frame;
  guint64 offset = (guint64)operand->bits;
  if (operand->var >= 0) {
    PtxVar *var = f->function->vars->pdata[operand->var];
    *space = var->space == PTX_SPACE_PARAM ? PTX_SPACE_LOCAL : var->space;
    *value = (guint64)f->vars[operand->var] + offset;
    return TRUE;
  }
  gint index = param_index (f->function->params, operand->name);
  if (index >= 0 && f->caller) {
    *space = PTX_SPACE_LOCAL;
    *value = (guint64)f->params[index] + offset;
    return TRUE;
  } else if (index >= 0) {
    PtxVar *var = f->function->params->pdata[index];
    *space = PTX_SPACE_PARAM;
    *value = var->offset + offset;
    return TRUE;
  }
  index = param_index (f->function->results, operand->name);
  if (index >= 0 && f->caller) {
    *space = PTX_SPACE_LOCAL;
    *value = (guint64)f->results[index] + offset;
    return TRUE;
  }
  PtxVar *var = sim_module_var (d->kernel->module, operand->name);
  if (!var)
    return FALSE;
  *space = var->space;
  *value = var->address + offset; /* .shared: the offset, set in advance */
  return TRUE;
}

static gint32
special_register (Decoder *d, const gchar *name)
{
  for (gint i = 0; i < SIM_N_SR; i++)
    if (strcmp (special_names[i], name) == 0) {
      if (d->special[i] < 0)
        d->special[i] = decode_temp (d, 4) >> 1;
      return d->special[i] << 1;
    }
  return -1;
}

/* A .local variable: its name is an offset, which cvta.local completes. */
static gboolean
is_depot (Decoder *d, const PtxOperand *operand)
{
  return operand->var >= 0 &&
         ((PtxVar *)d->frame->function->vars->pdata[operand->var])->space ==
             PTX_SPACE_LOCAL;
}

guint
decode_width (Decoder *d, const PtxOperand *operand)
{
  if (operand->kind == PTX_REG || operand->kind == PTX_ADDR)
    return operand->reg < 0
               ? 8
               : g_array_index (d->frame->function->regs, PtxReg, operand->reg)
                     .width;
  return 0;
}

gint32
decode_reg (Decoder *d, gint reg)
{
  return (gint32)(d->frame->reg_base + (guint)reg) << 1;
}

gint32
decode_src (Decoder *d, const PtxOperand *operand, guint width)
{
  gint32 code;
  guint64 value;
  PtxSpace space;

  switch (operand->kind) {
    case PTX_REG:
      code = decode_reg (d, operand->reg);
      if (operand->negate) {
        gint32 temp = decode_temp (d, 4);
        decode_emit1 (d, OP_not_pred, temp, code);
        return temp;
      }
      if (decode_width (d, operand) == 8 && width == 4) {
        gint32 temp = decode_temp (d, 4);
        decode_emit1 (d, OP_low_b32_b64, temp, code);
        return temp;
      }
      if (decode_width (d, operand) != width)
        decode_fail (d, "a register of %u bytes where %u are expected",
            decode_width (d, operand), width);
      return code;
    case PTX_INT:
    case PTX_F32:
    case PTX_F64:
      return decode_const (d, width, (guint64)operand->bits);
    case PTX_NAME:
      if (operand->name[0] == '%') {
        code = special_register (d, operand->name);
        if (code >= 0)
          return code;
        if (g_str_has_prefix (operand->name, "%clock") ||
            strcmp (operand->name, "%globaltimer") == 0) {
          gint32 temp = decode_temp (d, width);
          decode_emit1 (d, OP_clock, temp, decode_const (d, 4, 0));
          g_array_index (d->code, SimIns, d->code->len - 1).size =
              (guint8)width;
          return temp;
        }
        if (strcmp (operand->name, "%envreg0") == 0)
          return decode_const (d, width, 0);
        decode_fail (d, "register %s is unknown", operand->name);
        return 0;
      }
      if (decode_symbol (d, operand, &value, &space)) {
        /* A parameter's address keeps its window: it may be chosen at run
         * time and loaded from later. */
        if (space == PTX_SPACE_PARAM)
          value += SIM_PARAM_BASE;
        else if (space == PTX_SPACE_LOCAL && !is_depot (d, operand))
          value += SIM_LOCAL_BASE;
        return decode_const (d, width, value);
      }
      decode_fail (d, "name %s is unknown", operand->name);
      return 0;
    default:
      decode_fail (d, "operand not understood");
      return 0;
  }
}

gint32
decode_pred (Decoder *d, const PtxOperand *operand)
{
  if (operand->kind == PTX_INT)
    return decode_const (d, 4, operand->bits ? ~(guint64)0 : 0);
  return decode_src (d, operand, 4);
}

gint32
decode_dst (Decoder *d, const PtxOperand *operand, guint width)
{
  if (operand->kind == PTX_SINK)
    return decode_temp (d, width);
  if (operand->kind != PTX_REG || operand->negate) {
    decode_fail (d, "the result must be a register");
    return 0;
  }
  if (decode_width (d, operand) != width)
    decode_fail (d, "a result of %u bytes into a register of %u", width,
        decode_width (d, operand));
  return decode_reg (d, operand->reg);
}

void
decode_address (
    Decoder *d, SimIns *ins, const PtxOperand *operand, PtxSpace space)
{
  ins->space = (guint8)space;
  if (operand->kind != PTX_ADDR) {
    decode_fail (d, "an address expected");
  } else if (operand->reg >= 0) {
    ins->o[1] = decode_reg (d, operand->reg);
    ins->wide = decode_width (d, operand) == 8;
    ins->imm = operand->bits;
  } else {
    PtxSpace found = space;
    guint64 value = (guint64)operand->bits;
    if (operand->name && !decode_symbol (d, operand, &value, &found))
      decode_fail (d, "name %s is unknown", operand->name);
    ins->o[1] = decode_const (d, 8, 0);
    ins->wide = TRUE;
    ins->imm = (gint64)value;
    if (space == PTX_SPACE_PARAM || space == PTX_SPACE_CONST)
      ins->space = (guint8)found;
  }
}
