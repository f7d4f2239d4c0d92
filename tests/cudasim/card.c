/* Cards, and what an instruction costs on one
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * docs/cuda.md, "The prediction", says where each number is from.
 */
#include "config.h"
#include "timing.h"

#include <string.h>

static const SimCard cards[] = {
  { "H200", 90, 132, 1980, 406, 1, 2800, 228 * 1024, 2048, { 1300, 1400 },
      { 350, 800 } },
  { "L4", 89, 58, 2040, 1024, 1, 1100, 100 * 1024, 1536, { 940, 1120 },
      { 940, 1120 } },
  { "RTX4060", 89, 24, 2100, 2048, 1, 450, 100 * 1024, 1536, { 830, 1120 },
      { 830, 1120 } },
};

const SimCard *
sim_card_find (const gchar *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (cards); i++)
    if (g_ascii_strcasecmp (cards[i].name, name) == 0)
      return &cards[i];
  return NULL;
}

/* With CUDASIM_PROCESSORS a part of the card, and as much of its L2. */
const SimCard *
sim_card (void)
{
  static SimCard part;
  const SimCard *card = sim_config.card;

  if (!card)
    card = &cards[sim_config.capability < 90];
  if (!sim_config.processors || sim_config.processors == card->processors)
    return card;
  part = *card;
  part.processors = sim_config.processors;
  part.l2 = MAX (1, card->l2 * sim_config.processors / card->processors);
  return &part;
}

static gboolean
begins (const gchar *name, const gchar *const *with)
{
  for (guint i = 0; with[i]; i++)
    if (g_str_has_prefix (name, with[i]))
      return TRUE;
  return FALSE;
}

/* Moves, halves and signs: registers and modifiers in machine code. */
static gboolean
vanishes (const SimIns *ins, const gchar *name)
{
  static const gchar *const those[] = { "mov_", "pack_", "low_", "high_",
    "neg_f32", "abs_f32", "not_pred", "and_pred", "or_pred", "cvt_u64_u32",
    "cvt_u32_u64", "cvt_s32_s64", "cvt_u32_s64", "cvt_s32_u64", "cvt_u32_u16",
    "cvt_u16_u32", "cvt_s32_u32", "cvt_u32_s32", NULL };
  return ins->kind == SIM_KIND_PARAM || ins->op == OP_nop ||
         (ins->op == OP_bra && ins->n) || begins (name, those);
}

static SimCost
cost_of_arithmetic (const SimIns *ins, const SimCard *card, const gchar *name)
{
  static const gchar *const floats[] = { "add_f32", "sub_f32", "mul_f32",
    "fma_f32", "mad_f32", "add_sat_f32", "mul_sat_f32", "fma_sat_f32",
    "add_bf16", "sub_bf16", "mul_bf16", "fma_bf16", "add_f16", "sub_f16",
    "mul_f16", "fma_f16", NULL };
  static const gchar *const products[] = { "mul_lo", "mul_hi", "mul_wide",
    "mad_lo", "mad_hi", "mad_wide", NULL };
  static const gchar *const sums[] = { "add_u", "add_s32", "add_s64", "sub_u",
    "sub_s32", "sub_s64", NULL };
  const SimOp *op = &sim_ops[ins->op];
  SimCost c = { FALSE, PIPE_ALU, CAUSE_MATH, 1, 2, 4 };
  if (begins (name, sums)) {
    c.pipe = PIPE_EITHER;
  } else if (begins (name, floats)) {
    c.pipe = PIPE_FMA;
    c.busy = card->fma;
  } else if (begins (name, products)) {
    c.pipe = PIPE_FMA;
  } else if (g_str_has_prefix (name, "cvt_r") &&
             g_str_has_suffix (name, "_f32") && !strstr (name, "tf32") &&
             !strstr (name, "f16")) {
    c.pipe = PIPE_XU;
    c.busy = 8;
  }
  /* Of 64 bits, twice; an addition takes in the product before it. */
  if ((op->width[0] == 8 || op->width[1] == 8) &&
      !g_str_has_prefix (name, "add_") && !g_str_has_prefix (name, "mul_wide"))
    c.slots = 2;
  if (g_str_has_prefix (name, "mul_wide"))
    c.is_free = TRUE;
  return c;
}

SimCost
sim_cost (const SimIns *ins, const SimCard *card)
{
  const gchar *name = sim_ops[ins->op].name;
  SimCost c = { FALSE, PIPE_NONE, CAUSE_MATH, 1, 1, 4 };
  if (vanishes (ins, name)) {
    c.is_free = TRUE;
    c.latency = 0;
    return c;
  }
  switch ((SimKind)ins->kind) {
    case SIM_KIND_ALU:
    case SIM_KIND_FMA:
    case SIM_KIND_MOVE:
      c = cost_of_arithmetic (ins, card, name);
      break;
    case SIM_KIND_F64:
      c = (SimCost){ FALSE, PIPE_XU, CAUSE_MATH, 1, 16, 8 };
      break;
    case SIM_KIND_SFU:
      c = (SimCost){ FALSE, PIPE_XU, CAUSE_SFU, 1, 8, 24 };
      break;
    case SIM_KIND_MMA: {
      /* m16n8k4 of tf32, and m16n8k8 of 16 bits, are half the work */
      gboolean is_half = ins->imm <= (ins->sub == 0 ? 4 : 8);
      c = (SimCost){ FALSE, PIPE_TENSOR, CAUSE_MMA, 1,
        (guint16)(is_half ? card->mma / 2 : card->mma), 33 };
      break;
    }
    case SIM_KIND_SHUFFLE:
      c = (SimCost){ FALSE, PIPE_LSU, CAUSE_SHUFFLE, 1, 1, 24 };
      break;
    case SIM_KIND_LOAD_SHARED:
    case SIM_KIND_STORE_SHARED:
    case SIM_KIND_LOCAL:
      c = (SimCost){ FALSE, PIPE_LSU, CAUSE_SHARED, 1, 1, 29 };
      break;
    case SIM_KIND_LOAD_GLOBAL:
    case SIM_KIND_STORE_GLOBAL:
    case SIM_KIND_ASYNC:
      c = (SimCost){ FALSE, PIPE_LSU, CAUSE_L2, 1, 1, 270 };
      break;
    case SIM_KIND_ATOMIC:
      c = (SimCost){ FALSE, PIPE_LSU, CAUSE_L2, 1, 1, 300 };
      break;
    case SIM_KIND_REMOTE:
      c = (SimCost){ FALSE, PIPE_LSU, CAUSE_REMOTE, 1, 1, 200 };
      break;
    case SIM_KIND_FENCE:
      c = (SimCost){ FALSE, PIPE_NONE, CAUSE_FENCE, 1, 1, 100 };
      break;
    case SIM_KIND_CONTROL:
    case SIM_KIND_BARRIER:
    case SIM_KIND_PARAM:
    case SIM_N_KINDS:
      break;
  }
  return c;
}
