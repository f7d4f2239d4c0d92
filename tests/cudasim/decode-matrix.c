/* mma.sync, ldmatrix, stmatrix
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "decode.h"

/* mma: x is D, A, B, C. sub: 0 tf32, 1 bf16, 2 f16 with float sums; imm is
 * K. */
static void
decode_mma (Decoder *d)
{
  static const struct {
    const gchar *shape;
    guint k;
  } shapes[] = { { "m16n8k4", 4 }, { "m16n8k8", 8 }, { "m16n8k16", 16 } };
  guint k = 0;
  guint8 type = decode_has (d, "tf32") ? 0 : decode_has (d, "bf16") ? 1 : 2;
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    if (decode_has (d, shapes[i].shape))
      k = shapes[i].k;
  const gchar *last = d->parts[d->n_parts - 1];
  if (!k || !decode_has (d, "sync") || !decode_has (d, "row") ||
      !decode_has (d, "col") || strcmp (last, "f32") != 0 ||
      (type == 2 && !decode_has (d, "f16")) || (type == 0 && k > 8) ||
      (type != 0 && k < 8)) {
    decode_fail (d, "matrix product unknown to the simulator");
    return;
  }
  guint per = type == 0 ? 1 : 2;
  guint n[4] = { 4, 16 * k / 32 / per, 8 * k / 32 / per, 4 };
  gint32 *x = decode_array (d, 4 + n[1] + n[2] + 4);
  guint at = 0;
  for (guint i = 0; i < 4; i++) {
    const PtxOperand *list = decode_operand (d, i);
    const PtxOperand *items = list->kind == PTX_LIST ? list->items : list;
    guint got = list->kind == PTX_LIST ? list->n_items : 1;
    if (got != n[i]) {
      decode_fail (d, "operand %u has %u registers, not %u", i + 1, got, n[i]);
      return;
    }
    for (guint j = 0; j < n[i]; j++)
      x[at++] =
          i == 0 ? decode_dst (d, &items[j], 4) : decode_src (d, &items[j], 4);
  }
  SimIns *ins = decode_emit (d, OP_mma);
  ins->x = x;
  ins->nx = (guint8)at;
  ins->x_out = 4;
  ins->sub = type;
  ins->imm = k;
}

static void
decode_ldmatrix (Decoder *d, gboolean store)
{
  guint n = decode_has (d, "x4") ? 4 : decode_has (d, "x2") ? 2 : 1;
  const PtxOperand *list = decode_operand (d, store ? 1 : 0);
  const PtxOperand *items = list->kind == PTX_LIST ? list->items : list;
  guint got = list->kind == PTX_LIST ? list->n_items : 1;
  if (!decode_has (d, "m8n8") || !decode_has (d, "b16") || got != n) {
    decode_fail (d, "form unknown to the simulator");
    return;
  }
  gint32 *x = decode_array (d, n);
  for (guint i = 0; i < n; i++)
    x[i] = store ? decode_src (d, &items[i], 4) : decode_dst (d, &items[i], 4);
  SimIns *ins = decode_emit (d, store ? OP_stmatrix : OP_ldmatrix);
  ins->x = x;
  ins->nx = ins->n = (guint8)n;
  ins->x_out = store ? 0 : (guint8)n;
  ins->sub = decode_has (d, "trans");
  ins->size = 16;
  decode_address (d, ins, decode_operand (d, store ? 0 : 1), PTX_SPACE_SHARED);
}

gboolean
decode_matrix (Decoder *d, const gchar *base)
{
  if (strcmp (base, "mma") == 0)
    decode_mma (d);
  else if (strcmp (base, "ldmatrix") == 0)
    decode_ldmatrix (d, FALSE);
  else if (strcmp (base, "stmatrix") == 0)
    decode_ldmatrix (d, TRUE);
  else
    return FALSE;
  return TRUE;
}
