/* A kernel as an array of instructions: branches, inlined calls, constants
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "decode.h"

static gint
find_label (Frame *frame, const gchar *name, guint scope)
{
  for (;;) {
    for (guint i = 0; i < frame->function->labels->len; i++) {
      PtxLabel *label = &g_array_index (frame->function->labels, PtxLabel, i);
      if (label->scope == scope && strcmp (label->name, name) == 0)
        return (gint)i;
    }
    if (scope == 0)
      return -1;
    scope = g_array_index (frame->function->scopes, guint, scope);
  }
}

void
decode_branch (Decoder *d, gint32 pred, gboolean negate,
    const PtxOperand *label, gboolean uniform)
{
  gint index =
      find_label (d->frame, label->name ? label->name : "", d->at->scope);
  if (index < 0) {
    decode_fail (d, "label %s is unknown", label->name ? label->name : "?");
    return;
  }
  SimIns *ins = decode_emit (d, pred < 0 || uniform ? OP_bra_uni : OP_bra);
  if (pred >= 0) {
    ins->op = OP_bra;
    ins->o[1] = pred;
    ins->sub = (guint8)negate;
  }
  Fixup fixup = { d->code->len - 1, d->frame, index };
  g_array_append_val (d->fixups, fixup);
}

static gsize
align_up (gsize value, gsize align)
{
  return (value + align - 1) / align * align;
}

static void decode_body (Decoder *d, Frame *frame);

static Frame *
frame_new (Decoder *d, const PtxFunction *function, Frame *caller)
{
  Frame *f = g_new0 (Frame, 1);
  gint none = -1;
  f->function = function;
  f->caller = caller;
  f->reg_base = d->widths->len;
  for (guint i = 0; i < function->regs->len; i++)
    g_array_append_val (
        d->widths, g_array_index (function->regs, PtxReg, i).width);
  f->vars = g_new0 (gint64, function->vars->len + 1);
  for (guint i = 0; i < function->vars->len; i++) {
    PtxVar *var = function->vars->pdata[i];
    gsize *space = var->space == PTX_SPACE_SHARED ? &d->shared : &d->local;
    *space = align_up (*space, var->align);
    f->vars[i] = (gint64)*space;
    *space += var->size;
  }
  f->params = g_new0 (gint64, function->params->len + 1);
  f->results = g_new0 (gint64, function->results->len + 1);
  f->labels = g_new (gint, function->labels->len + 1);
  for (guint i = 0; i < function->labels->len; i++)
    f->labels[i] = -1;
  f->end = (gint)d->ends->len;
  g_array_append_val (d->ends, none);
  g_ptr_array_add (d->frames, f);
  return f;
}

static void
frame_free (gpointer data)
{
  Frame *f = data;
  g_free (f->vars);
  g_free (f->params);
  g_free (f->results);
  g_free (f->labels);
  g_free (f);
}

static void
bind (Decoder *d, const PtxOperand *list, const GPtrArray *formal, gint64 *into)
{
  guint n = list ? list->n_items : 0;
  if (n != formal->len) {
    decode_fail (d, "%u arguments for %u parameters", n, formal->len);
    return;
  }
  for (guint i = 0; i < n; i++) {
    const PtxOperand *item = &list->items[i];
    if (item->kind != PTX_NAME || item->var < 0)
      decode_fail (d, "arguments of calls must be .param variables");
    else
      into[i] = d->frame->vars[item->var];
  }
}

/* call (result), name, (arguments): the function is written out here. */
void
decode_call (Decoder *d)
{
  const PtxStatement *s = d->at;
  const PtxOperand *results = NULL, *arguments = NULL;
  guint i = 0;
  if (i < s->n_operands && s->operands[i].kind == PTX_LIST)
    results = &s->operands[i++];
  const PtxOperand *name = decode_operand (d, i++);
  if (i < s->n_operands && s->operands[i].kind == PTX_LIST)
    arguments = &s->operands[i];
  const PtxFunction *callee = NULL;
  GPtrArray *functions = d->kernel->module->ptx->functions;
  for (guint k = 0; k < functions->len && name->kind == PTX_NAME; k++) {
    PtxFunction *f = functions->pdata[k];
    if (f->has_body && strcmp (f->name, name->name) == 0)
      callee = f;
  }
  if (!callee) {
    decode_fail (d, "function %s is unknown",
        name->kind == PTX_NAME ? name->name : "by pointer");
    return;
  }
  for (Frame *f = d->frame; f; f = f->caller)
    if (f->function == callee) {
      decode_fail (d, "recursion in %s", callee->name);
      return;
    }
  Frame *caller = d->frame;
  Frame *frame = frame_new (d, callee, caller);
  bind (d, arguments, callee->params, frame->params);
  bind (d, results, callee->results, frame->results);
  d->kernel->n_calls++;
  decode_body (d, frame);
  g_array_index (d->ends, gint, frame->end) = (gint)d->code->len;
  d->frame = caller;
  d->at = s;
}

static void
decode_statement (Decoder *d)
{
  const PtxStatement *s = d->at;
  gchar **parts = g_strsplit (s->op, ".", -1);
  gchar **outer = d->parts;
  guint outer_n = d->n_parts;
  d->parts = parts;
  d->n_parts = g_strv_length (parts);
  const gchar *base = parts[0];
  gint skip = -1;

  if (strcmp (base, "bra") == 0) {
    gint32 pred = s->guard >= 0 ? decode_reg (d, s->guard) : -1;
    decode_branch (
        d, pred, s->guard_not, decode_operand (d, 0), decode_has (d, "uni"));
  } else {
    if (s->guard >= 0) { /* branch around it */
      SimIns *ins = decode_emit (d, OP_bra);
      ins->o[1] = decode_reg (d, s->guard);
      ins->sub = (guint8)!s->guard_not;
      ins->n = 1; /* no branch in machine code */
      skip = (gint)d->code->len - 1;
    }
    if (strcmp (base, "call") == 0)
      decode_call (d);
    else if (strcmp (base, "ret") == 0 && d->frame->caller) {
      decode_emit (d, OP_bra_uni);
      Fixup fixup = { d->code->len - 1, d->frame, -1 };
      g_array_append_val (d->fixups, fixup);
    } else if (!decode_register (d, base) && !decode_memory (d, base) &&
               !decode_matrix (d, base) && !decode_control (d, base))
      decode_fail (d, "this form is unknown to the simulator");
    if (skip >= 0)
      g_array_index (d->code, SimIns, skip).target = (gint32)d->code->len;
  }
  g_strfreev (parts);
  d->parts = outer;
  d->n_parts = outer_n;
}

static void
decode_body (Decoder *d, Frame *frame)
{
  d->frame = frame;
  for (guint i = 0; i < frame->function->body->len && !d->error; i++) {
    const PtxStatement *s =
        &g_array_index (frame->function->body, PtxStatement, i);
    d->at = s;
    if (s->label >= 0)
      frame->labels[s->label] = (gint)d->code->len;
    else
      decode_statement (d);
    d->frame = frame;
  }
}

static void
place_constants (Decoder *d, guint32 *offsets)
{
  gsize size = 0;
  for (guint i = 0; i < d->constants->len; i++) {
    offsets[i] = (guint32)size;
    size += g_array_index (d->constants, Constant, i).width * SIM_LANES;
  }
  d->kernel->consts = g_aligned_alloc (MAX (size, 64), 1, 64);
  for (guint i = 0; i < d->constants->len; i++) {
    Constant *c = &g_array_index (d->constants, Constant, i);
    for (guint l = 0; l < SIM_LANES; l++)
      memcpy (
          d->kernel->consts + offsets[i] + l * c->width, &c->bits, c->width);
  }
}

/* After registers have rows (sim_allocate), constants get theirs. */
static void
fix_constants (Decoder *d)
{
  SimKernel *k = d->kernel;
  gint32 zero = decode_const (d, 8, 0);
  guint32 *offsets = g_new (guint32, d->constants->len);
  place_constants (d, offsets);
  for (guint i = 0; i < k->n_code; i++) {
    SimIns *ins = &k->code[i];
    for (guint j = 0; j < 4; j++) {
      if (ins->o[j] < 0)
        ins->o[j] = zero;
      if (ins->o[j] & 1)
        ins->o[j] = (gint32)(offsets[ins->o[j] >> 1] << 1 | 1);
    }
    for (guint j = 0; j < ins->nx; j++)
      if (ins->x[j] & 1)
        ins->x[j] = (gint32)(offsets[ins->x[j] >> 1] << 1 | 1);
  }
  g_free (offsets);
}

static void
resolve_branches (Decoder *d)
{
  for (guint i = 0; i < d->fixups->len; i++) {
    Fixup *f = &g_array_index (d->fixups, Fixup, i);
    gint pc = f->label < 0 ? g_array_index (d->ends, gint, f->frame->end)
                           : f->frame->labels[f->label];
    if (pc < 0)
      decode_fail (d, "a branch leads nowhere");
    g_array_index (d->code, SimIns, f->ins).target = pc;
  }
}

SimKernel *
sim_decode (SimModule *module, const PtxFunction *function)
{
  SimKernel *k = g_new0 (SimKernel, 1);
  Decoder d = { 0 };

  k->name = g_strdup (function->name);
  k->module = module;
  k->function = function;
  k->max_threads = function->max_threads ? function->max_threads : 1024;
  k->arrays = g_ptr_array_new_with_free_func (g_free);
  d.kernel = k;
  d.code = g_array_new (FALSE, TRUE, sizeof (SimIns));
  d.widths = g_array_new (FALSE, TRUE, 1);
  d.constants = g_array_new (FALSE, TRUE, sizeof (Constant));
  d.constant_ids =
      g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  d.fixups = g_array_new (FALSE, TRUE, sizeof (Fixup));
  d.ends = g_array_new (FALSE, TRUE, sizeof (gint));
  d.frames = g_ptr_array_new_with_free_func (frame_free);
  for (guint i = 0; i < SIM_N_SR; i++)
    d.special[i] = -1;

  /* Shared variables of the module lie before the kernel's own; those without
   * a size share the place after all of them. */
  for (guint i = 0; i < module->ptx->vars->len; i++) {
    PtxVar *var = module->ptx->vars->pdata[i];
    if (var->space == PTX_SPACE_SHARED && var->size) {
      d.shared = align_up (d.shared, var->align);
      var->address = d.shared;
      d.shared += var->size;
    }
  }
  gsize shared = d.shared;
  for (guint i = 0; i < function->vars->len; i++) {
    PtxVar *var = function->vars->pdata[i];
    if (var->space == PTX_SPACE_SHARED)
      shared = align_up (shared, var->align) + var->size;
  }
  for (guint i = 0; i < module->ptx->vars->len; i++) {
    PtxVar *var = module->ptx->vars->pdata[i];
    if (var->space == PTX_SPACE_SHARED && !var->size)
      var->address = align_up (shared, MAX (var->align, 16));
  }
  for (guint i = 0; i < function->params->len; i++) {
    PtxVar *var = function->params->pdata[i];
    k->param_bytes = var->offset + var->size;
  }

  decode_body (&d, frame_new (&d, function, NULL));
  d.at = NULL;
  decode_emit (&d, OP_exit);
  if (!d.error && d.shared != shared)
    decode_fail (&d, "a called function has .shared variables of its own");
  if (!d.error)
    resolve_branches (&d);
  if (d.error) {
    k->error = d.error;
  } else {
    const SimExec *table = sim_exec_table ();
    k->n_code = d.code->len;
    k->code = (SimIns *)(void *)g_array_free (d.code, FALSE);
    d.code = NULL;
    k->executed = g_new0 (guint64, k->n_code);
    for (guint i = 0; i < k->n_code; i++) {
      k->code[i].exec = table[k->code[i].op];
      k->uses_wait |= k->code[i].op == OP_grid_wait;
      k->uses_trigger |= k->code[i].op == OP_grid_trigger;
    }
    for (guint i = 0; i < SIM_N_SR; i++)
      if (d.special[i] >= 0)
        k->special[k->n_special++] =
            (SimSpecialRow){ i, (guint32)d.special[i] };
    sim_allocate (k, (guint8 *)d.widths->data, d.widths->len);
    fix_constants (&d);
    k->local_bytes = align_up (d.local, 16);
    k->shared_bytes = d.shared;
  }
  if (d.code)
    g_array_unref (d.code);
  g_array_unref (d.widths);
  g_array_unref (d.constants);
  g_hash_table_unref (d.constant_ids);
  g_array_unref (d.fixups);
  g_array_unref (d.ends);
  g_ptr_array_unref (d.frames);
  return k;
}

void
sim_kernel_free (SimKernel *k)
{
  if (!k)
    return;
  g_free (k->name);
  g_free (k->error);
  g_free (k->code);
  g_free (k->executed);
  g_aligned_free (k->consts);
  g_ptr_array_unref (k->arrays);
  g_free (k);
}
