/* Every instruction that works on registers alone, as an expression
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 *   OP1 (name, kind, result, a's type, expression)
 *   OP2, OP3 the same with b and c
 *
 * The name is the opcode with '.' as '_', without the modifiers that change
 * nothing here (see decode.c). f32, f64, s32, u32, s64, u64 are rows of that
 * type; values of 8 and 16 bits lie in rows of 32 bits whose upper half is
 * unspecified, so every use casts. pred is 0 or ~0. Included several times,
 * with the macros meaning an enumerator, a table entry or a function.
 */

/* ---- float ---- */
OP2 (add_f32, ALU, f32, f32, f32, a + b)
OP2 (sub_f32, ALU, f32, f32, f32, a - b)
OP2 (mul_f32, ALU, f32, f32, f32, a *b)
OP3 (fma_f32, FMA, f32, f32, f32, f32, __builtin_fmaf (a, b, c))
OP3 (mad_f32, FMA, f32, f32, f32, f32, __builtin_fmaf (a, b, c))
OP2 (add_sat_f32, ALU, f32, f32, f32, SAT (a + b))
OP2 (mul_sat_f32, ALU, f32, f32, f32, SAT (a *b))
OP3 (fma_sat_f32, FMA, f32, f32, f32, f32, SAT (__builtin_fmaf (a, b, c)))
OP2 (div_f32, SFU, f32, f32, f32, a / b)
OP1 (neg_f32, ALU, u32, u32, a ^ 0x80000000u)
OP1 (abs_f32, ALU, u32, u32, a & 0x7fffffffu)
OP2 (min_f32, ALU, f32, f32, f32, a < b || b != b ? a : b)
OP2 (max_f32, ALU, f32, f32, f32, a > b || b != b ? a : b)
OP2 (min_NaN_f32, ALU, f32, f32, f32, a != a ? a : b != b ? b : a < b ? a : b)
OP2 (max_NaN_f32, ALU, f32, f32, f32, a != a ? a : b != b ? b : a > b ? a : b)
OP2 (copysign_f32, ALU, u32, u32, u32, (b & 0x7fffffffu) | (a & 0x80000000u))
OP1 (sqrt_f32, SFU, f32, f32, __builtin_sqrtf (a))
OP1 (rsqrt_f32, SFU, f32, f32, 1.0f / __builtin_sqrtf (a))
OP1 (rcp_f32, SFU, f32, f32, 1.0f / a)
OP1 (ex2_f32, SFU, f32, f32, EX2 (a))
OP1 (lg2_f32, SFU, f32, f32, __builtin_log2f (a))
OP1 (sin_f32, SFU, f32, f32, __builtin_sinf (a))
OP1 (cos_f32, SFU, f32, f32, __builtin_cosf (a))
OP1 (tanh_f32, SFU, f32, f32, __builtin_tanhf (a))

OP2 (add_f64, F64, f64, f64, f64, a + b)
OP2 (sub_f64, F64, f64, f64, f64, a - b)
OP2 (mul_f64, F64, f64, f64, f64, a *b)
OP3 (fma_f64, F64, f64, f64, f64, f64, __builtin_fma (a, b, c))
OP3 (mad_f64, F64, f64, f64, f64, f64, __builtin_fma (a, b, c))
OP2 (div_f64, F64, f64, f64, f64, a / b)
OP1 (neg_f64, F64, u64, u64, a ^ 0x8000000000000000ull)
OP1 (abs_f64, F64, u64, u64, a & 0x7fffffffffffffffull)
OP2 (min_f64, F64, f64, f64, f64, a < b || b != b ? a : b)
OP2 (max_f64, F64, f64, f64, f64, a > b || b != b ? a : b)
OP2 (copysign_f64, F64, u64, u64, u64,
    (b & 0x7fffffffffffffffull) | (a & 0x8000000000000000ull))
OP1 (sqrt_f64, F64, f64, f64, __builtin_sqrt (a))
OP1 (rsqrt_f64, F64, f64, f64, 1.0 / __builtin_sqrt (a))
OP1 (rcp_f64, F64, f64, f64, 1.0 / a)

/* Half precision: computed in float and rounded once more. */
OP2 (add_bf16, ALU, u32, u32, u32, TO_BF (BF (a) + BF (b)))
OP2 (sub_bf16, ALU, u32, u32, u32, TO_BF (BF (a) - BF (b)))
OP2 (mul_bf16, ALU, u32, u32, u32, TO_BF (BF (a) * BF (b)))
OP3 (fma_bf16, ALU, u32, u32, u32, u32,
    TO_BF (__builtin_fmaf (BF (a), BF (b), BF (c))))
OP1 (neg_bf16, ALU, u32, u32, a ^ 0x8000u)
OP1 (abs_bf16, ALU, u32, u32, a & 0x7fffu)
OP2 (min_bf16, ALU, u32, u32, u32, TO_BF (MINF (BF (a), BF (b))))
OP2 (max_bf16, ALU, u32, u32, u32, TO_BF (MAXF (BF (a), BF (b))))
OP2 (add_f16, ALU, u32, u32, u32, TO_HF (HF (a) + HF (b)))
OP2 (sub_f16, ALU, u32, u32, u32, TO_HF (HF (a) - HF (b)))
OP2 (mul_f16, ALU, u32, u32, u32, TO_HF (HF (a) * HF (b)))
OP3 (fma_f16, ALU, u32, u32, u32, u32,
    TO_HF (__builtin_fmaf (HF (a), HF (b), HF (c))))
OP1 (neg_f16, ALU, u32, u32, a ^ 0x8000u)
OP1 (abs_f16, ALU, u32, u32, a & 0x7fffu)
OP2 (min_f16, ALU, u32, u32, u32, TO_HF (MINF (HF (a), HF (b))))
OP2 (max_f16, ALU, u32, u32, u32, TO_HF (MAXF (HF (a), HF (b))))
#define PAIR2(F, TO, e) \
  (TO (F (a) e F (b)) | (guint32)TO (F (a >> 16) e F (b >> 16)) << 16)
#define PAIR2F(F, TO, f) \
  (TO (f (F (a), F (b))) | (guint32)TO (f (F (a >> 16), F (b >> 16))) << 16)
#define PAIR3(F, TO) \
  (TO (__builtin_fmaf (F (a), F (b), F (c))) | \
      (guint32)TO (__builtin_fmaf (F (a >> 16), F (b >> 16), F (c >> 16))) \
          << 16)
OP2 (add_bf16x2, ALU, u32, u32, u32, PAIR2 (BF, TO_BF, +))
OP2 (sub_bf16x2, ALU, u32, u32, u32, PAIR2 (BF, TO_BF, -))
OP2 (mul_bf16x2, ALU, u32, u32, u32, PAIR2 (BF, TO_BF, *))
OP3 (fma_bf16x2, FMA, u32, u32, u32, u32, PAIR3 (BF, TO_BF))
OP1 (neg_bf16x2, ALU, u32, u32, a ^ 0x80008000u)
OP1 (abs_bf16x2, ALU, u32, u32, a & 0x7fff7fffu)
OP2 (min_bf16x2, ALU, u32, u32, u32, PAIR2F (BF, TO_BF, MINF))
OP2 (max_bf16x2, ALU, u32, u32, u32, PAIR2F (BF, TO_BF, MAXF))
OP2 (add_f16x2, ALU, u32, u32, u32, PAIR2 (HF, TO_HF, +))
OP2 (sub_f16x2, ALU, u32, u32, u32, PAIR2 (HF, TO_HF, -))
OP2 (mul_f16x2, ALU, u32, u32, u32, PAIR2 (HF, TO_HF, *))
OP3 (fma_f16x2, FMA, u32, u32, u32, u32, PAIR3 (HF, TO_HF))
OP1 (neg_f16x2, ALU, u32, u32, a ^ 0x80008000u)
OP1 (abs_f16x2, ALU, u32, u32, a & 0x7fff7fffu)
OP2 (min_f16x2, ALU, u32, u32, u32, PAIR2F (HF, TO_HF, MINF))
OP2 (max_f16x2, ALU, u32, u32, u32, PAIR2F (HF, TO_HF, MAXF))

/* ---- integer ---- */
#define ADD_SUB(t, r, w) \
  OP2 (add_##t, ALU, r, r, r, a + b) \
  OP2 (sub_##t, ALU, r, r, r, a - b)
ADD_SUB (u32, u32, 0)
ADD_SUB (s32, u32, 0)
ADD_SUB (u16, u32, 0)
ADD_SUB (s16, u32, 0)
ADD_SUB (u64, u64, 0)
ADD_SUB (s64, u64, 0)
#undef ADD_SUB
OP2 (add_sat_s32, ALU, s32, s32, s32,
    (s32)CLAMP ((s64)a + b, G_MININT32, G_MAXINT32))
OP2 (sub_sat_s32, ALU, s32, s32, s32,
    (s32)CLAMP ((s64)a - b, G_MININT32, G_MAXINT32))
OP2 (mul_lo_s32, ALU, u32, u32, u32, a *b)
OP2 (mul_lo_u32, ALU, u32, u32, u32, a *b)
OP2 (mul_lo_s16, ALU, u32, u32, u32, a *b)
OP2 (mul_lo_u16, ALU, u32, u32, u32, a *b)
OP2 (mul_lo_s64, ALU, u64, u64, u64, a *b)
OP2 (mul_lo_u64, ALU, u64, u64, u64, a *b)
OP2 (mul_hi_s32, ALU, s32, s32, s32, (s32)(((s64)a * b) >> 32))
OP2 (mul_hi_u32, ALU, u32, u32, u32, (u32)(((u64)a * b) >> 32))
OP2 (mul_hi_s16, ALU, s32, s32, s32, ((s32)(s16)a * (s16)b) >> 16)
OP2 (mul_hi_u16, ALU, u32, u32, u32, ((u32)(u16)a * (u16)b) >> 16)
OP2 (mul_hi_s64, ALU, s64, s64, s64, (s64)(((__int128)a * b) >> 64))
OP2 (mul_hi_u64, ALU, u64, u64, u64, (u64)(((unsigned __int128)a * b) >> 64))
OP2 (mul_wide_s32, ALU, s64, s32, s32, (s64)a *b)
OP2 (mul_wide_u32, ALU, u64, u32, u32, (u64)a *b)
OP2 (mul_wide_s16, ALU, s32, s32, s32, (s32)(s16)a *(s16)b)
OP2 (mul_wide_u16, ALU, u32, u32, u32, (u32)(u16)a *(u16)b)
OP2 (mul24_lo_s32, ALU, u32, s32, s32, (u32)((a << 8 >> 8) * (b << 8 >> 8)))
OP2 (mul24_lo_u32, ALU, u32, u32, u32, (a & 0xffffff) * (b & 0xffffff))
OP3 (mad_lo_s32, ALU, u32, u32, u32, u32, a *b + c)
OP3 (mad_lo_u32, ALU, u32, u32, u32, u32, a *b + c)
OP3 (mad_lo_s16, ALU, u32, u32, u32, u32, a *b + c)
OP3 (mad_lo_u16, ALU, u32, u32, u32, u32, a *b + c)
OP3 (mad_lo_s64, ALU, u64, u64, u64, u64, a *b + c)
OP3 (mad_lo_u64, ALU, u64, u64, u64, u64, a *b + c)
OP3 (mad_hi_s32, ALU, u32, s32, s32, u32, (u32)(((s64)a * b) >> 32) + c)
OP3 (mad_hi_u32, ALU, u32, u32, u32, u32, (u32)(((u64)a * b) >> 32) + c)
OP3 (mad_wide_s32, ALU, u64, s32, s32, u64, (u64)((s64)a *b) + c)
OP3 (mad_wide_u32, ALU, u64, u32, u32, u64, (u64)a *b + c)
OP3 (mad_wide_s16, ALU, u32, s32, s32, u32, (u32)((s32)(s16)a *(s16)b) + c)
OP3 (mad_wide_u16, ALU, u32, u32, u32, u32, (u32)(u16)a *(u16)b + c)
OP3 (sad_s32, ALU, u32, s32, s32, u32,
    c + (a > b ? (u32)a - (u32)b : (u32)b - (u32)a))
OP3 (sad_u32, ALU, u32, u32, u32, u32, c + (a > b ? a - b : b - a))
/* Division by zero gives all ones, the rest is the dividend. */
OP2 (div_s32, ALU, s32, s32, s32,
    b == 0 ? -1 : (b == -1 ? (s32)(0u - (u32)a) : a / b))
OP2 (div_u32, ALU, u32, u32, u32, b == 0 ? ~0u : a / b)
OP2 (div_s64, ALU, s64, s64, s64,
    b == 0 ? -1 : (b == -1 ? (s64)(0ull - (u64)a) : a / b))
OP2 (div_u64, ALU, u64, u64, u64, b == 0 ? ~0ull : a / b)
OP2 (div_s16, ALU, s32, s32, s32, (s16)b == 0 ? -1 : (s16)a / (s16)b)
OP2 (div_u16, ALU, u32, u32, u32, (u16)b == 0 ? 0xffffu : (u16)a / (u16)b)
OP2 (rem_s32, ALU, s32, s32, s32, b == 0 ? a : (b == -1 ? 0 : a % b))
OP2 (rem_u32, ALU, u32, u32, u32, b == 0 ? a : a % b)
OP2 (rem_s64, ALU, s64, s64, s64, b == 0 ? a : (b == -1 ? 0 : a % b))
OP2 (rem_u64, ALU, u64, u64, u64, b == 0 ? a : a % b)
OP2 (rem_s16, ALU, s32, s32, s32, (s16)b == 0 ? a : (s16)a % (s16)b)
OP2 (rem_u16, ALU, u32, u32, u32, (u16)b == 0 ? a : (u16)a % (u16)b)
OP1 (neg_s32, ALU, u32, u32, 0u - a)
OP1 (neg_s16, ALU, u32, u32, 0u - a)
OP1 (neg_s64, ALU, u64, u64, 0ull - a)
OP1 (abs_s32, ALU, u32, s32, a < 0 ? 0u - (u32)a : (u32)a)
OP1 (abs_s16, ALU, s32, s32, (s16)a < 0 ? -(s32)(s16)a : (s16)a)
OP1 (abs_s64, ALU, u64, s64, a < 0 ? 0ull - (u64)a : (u64)a)
#define MIN_MAX(t, r, cast) \
  OP2 (min_##t, ALU, r, r, r, (cast)a < (cast)b ? a : b) \
  OP2 (max_##t, ALU, r, r, r, (cast)a > (cast)b ? a : b)
MIN_MAX (s32, s32, s32)
MIN_MAX (u32, u32, u32)
MIN_MAX (s64, s64, s64)
MIN_MAX (u64, u64, u64)
MIN_MAX (s16, s32, s16)
MIN_MAX (u16, u32, u16)
#undef MIN_MAX

/* ---- bits ---- */
OP2 (and_b32, ALU, u32, u32, u32, a &b)
OP2 (or_b32, ALU, u32, u32, u32, a | b)
OP2 (xor_b32, ALU, u32, u32, u32, a ^ b)
OP1 (not_b32, ALU, u32, u32, ~a)
OP2 (and_b16, ALU, u32, u32, u32, a &b)
OP2 (or_b16, ALU, u32, u32, u32, a | b)
OP2 (xor_b16, ALU, u32, u32, u32, a ^ b)
OP1 (not_b16, ALU, u32, u32, ~a)
OP2 (and_pred, ALU, u32, u32, u32, a &b)
OP2 (or_pred, ALU, u32, u32, u32, a | b)
OP2 (xor_pred, ALU, u32, u32, u32, a ^ b)
OP1 (not_pred, ALU, u32, u32, ~a)
OP2 (and_b64, ALU, u64, u64, u64, a &b)
OP2 (or_b64, ALU, u64, u64, u64, a | b)
OP2 (xor_b64, ALU, u64, u64, u64, a ^ b)
OP1 (not_b64, ALU, u64, u64, ~a)
OP1 (cnot_b32, ALU, u32, u32, a == 0)
/* Shifts clamp; the amount is always 32 bits. */
OP2 (shl_b16, ALU, u32, u32, u32, b > 15 ? 0 : a << (b & 31))
OP2 (shl_b32, ALU, u32, u32, u32, b > 31 ? 0 : a << (b & 31))
OP2 (shl_b64, ALU, u64, u64, u32, b > 63 ? 0 : a << (b & 63))
#define SHR_U(t, r, cast, max) \
  OP2 (shr_##t, ALU, r, r, u32, b > max ? 0 : (r)((cast)a >> (b & max)))
#define SHR_S(t, r, cast, max) \
  OP2 (shr_##t, ALU, r, r, u32, (r)((cast)a >> (b > max ? max : b)))
SHR_U (u16, u32, u16, 15)
SHR_U (b16, u32, u16, 15)
SHR_S (s16, s32, s16, 15)
SHR_U (u32, u32, u32, 31)
SHR_U (b32, u32, u32, 31)
SHR_S (s32, s32, s32, 31)
SHR_U (u64, u64, u64, 63)
SHR_U (b64, u64, u64, 63)
SHR_S (s64, s64, s64, 63)
#undef SHR_U
#undef SHR_S
OP3 (shf_l_wrap_b32, ALU, u32, u32, u32, u32, FUNNEL_L (a, b, c & 31))
OP3 (shf_r_wrap_b32, ALU, u32, u32, u32, u32, FUNNEL_R (a, b, c & 31))
OP3 (shf_l_clamp_b32, ALU, u32, u32, u32, u32, FUNNEL_L (a, b, c > 32 ? 32 : c))
OP3 (shf_r_clamp_b32, ALU, u32, u32, u32, u32, FUNNEL_R (a, b, c > 32 ? 32 : c))
OP1 (popc_b32, ALU, u32, u32, (u32)__builtin_popcount (a))
OP1 (popc_b64, ALU, u32, u64, (u32)__builtin_popcountll (a))
OP1 (clz_b32, ALU, u32, u32, a ? (u32)__builtin_clz (a) : 32)
OP1 (clz_b64, ALU, u32, u64, a ? (u32)__builtin_clzll (a) : 64)
OP1 (brev_b32, ALU, u32, u32, BREV (a))
OP1 (brev_b64, ALU, u64, u64, (u64)BREV ((u32)a) << 32 | BREV ((u32)(a >> 32)))
OP1 (bfind_u32, ALU, u32, u32, a ? 31 - (u32)__builtin_clz (a) : ~0u)
OP1 (bfind_s32, ALU, u32, u32,
    (a ^ (u32)((s32)a >> 31))
        ? 31 - (u32)__builtin_clz (a ^ (u32)((s32)a >> 31))
        : ~0u)
OP1 (bfind_u64, ALU, u32, u64, a ? 63 - (u32)__builtin_clzll (a) : ~0u)
OP1 (bfind_shiftamt_u32, ALU, u32, u32, a ? (u32)__builtin_clz (a) : ~0u)
OP1 (bfind_shiftamt_u64, ALU, u32, u64, a ? (u32)__builtin_clzll (a) : ~0u)
OP3 (bfe_u32, ALU, u32, u32, u32, u32, BFE_U (a, b & 255, c & 255, 32))
OP3 (bfe_s32, ALU, u32, u32, u32, u32, BFE_S (a, b & 255, c & 255, 32))
OP3 (bfe_u64, ALU, u64, u64, u32, u32, BFE_U64 (a, b & 255, c & 255))
OP3 (bfe_s64, ALU, u64, u64, u32, u32, BFE_S64 (a, b & 255, c & 255))
OP3 (prmt_b32, ALU, u32, u32, u32, u32, PRMT (a, b, c))

/* ---- select, move ---- */
OP3 (selp_b16, ALU, u32, u32, u32, u32, c ? a : b)
OP3 (selp_b32, ALU, u32, u32, u32, u32, c ? a : b)
OP3 (selp_b64, ALU, u64, u64, u64, u32, c ? a : b)
OP3 (slct_b32_s32, ALU, u32, u32, u32, s32, c >= 0 ? a : b)
OP3 (slct_b32_f32, ALU, u32, u32, u32, f32, c >= 0 ? a : b)
OP1 (mov_b32, MOVE, u32, u32, a)
OP1 (mov_b64, MOVE, u64, u64, a)
OP2 (pack_b32_b16, MOVE, u32, u32, u32, (a & 0xffff) | b << 16)
OP2 (pack_b64_b32, MOVE, u64, u32, u32, a | (u64)b << 32)
OP1 (low_b32_b64, MOVE, u32, u64, (u32)a)
OP1 (high_b32_b64, MOVE, u32, u64, (u32)(a >> 32))
OP1 (low_b16_b32, MOVE, u32, u32, a & 0xffff)
OP1 (high_b16_b32, MOVE, u32, u32, a >> 16)

/* ---- compare ---- */
#define SETP(cmp, t, r, expr) OP2 (setp_##cmp##_##t, ALU, pred, r, r, expr)
#define ORDER(t, r, cast) \
  SETP (eq, t, r, (cast)a == (cast)b) \
  SETP (ne, t, r, (cast)a != (cast)b) \
  SETP (lt, t, r, (cast)a < (cast)b) \
  SETP (le, t, r, (cast)a <= (cast)b) \
  SETP (gt, t, r, (cast)a > (cast)b) \
  SETP (ge, t, r, (cast)a >= (cast)b)
#define ORDER_U(t, r, cast) \
  ORDER (t, r, cast) \
  SETP (lo, t, r, (cast)a < (cast)b) \
  SETP (ls, t, r, (cast)a <= (cast)b) \
  SETP (hi, t, r, (cast)a > (cast)b) \
  SETP (hs, t, r, (cast)a >= (cast)b)
ORDER (s32, s32, s32)
ORDER_U (u32, u32, u32)
ORDER (s64, s64, s64)
ORDER_U (u64, u64, u64)
ORDER (s16, u32, s16)
ORDER_U (u16, u32, u16)
SETP (eq, b16, u32, (u16)a == (u16)b)
SETP (ne, b16, u32, (u16)a != (u16)b)
SETP (eq, b32, u32, a == b)
SETP (ne, b32, u32, a != b)
SETP (eq, b64, u64, a == b)
SETP (ne, b64, u64, a != b)
/* Ordered comparisons are false with a NaN, the others true. C's != is true,
 * so `ne` has to ask for order besides. */
#define ORDER_F(t, r, F) \
  SETP (eq, t, r, F (a) == F (b)) \
  SETP (ne, t, r, F (a) < F (b) || F (a) > F (b)) \
  SETP (lt, t, r, F (a) < F (b)) \
  SETP (le, t, r, F (a) <= F (b)) \
  SETP (gt, t, r, F (a) > F (b)) \
  SETP (ge, t, r, F (a) >= F (b)) \
  SETP (equ, t, r, !(F (a) < F (b) || F (a) > F (b))) \
  SETP (neu, t, r, F (a) != F (b)) \
  SETP (ltu, t, r, !(F (a) >= F (b))) \
  SETP (leu, t, r, !(F (a) > F (b))) \
  SETP (gtu, t, r, !(F (a) <= F (b))) \
  SETP (geu, t, r, !(F (a) < F (b))) \
  SETP (num, t, r, F (a) == F (a) && F (b) == F (b)) \
  SETP (nan, t, r, F (a) != F (a) || F (b) != F (b))
ORDER_F (f32, f32, )
ORDER_F (f64, f64, )
ORDER_F (bf16, u32, BF)
ORDER_F (f16, u32, HF)
#undef ORDER
#undef ORDER_U
#undef ORDER_F
#undef SETP
OP1 (testp_finite_f32, ALU, pred, f32, __builtin_isfinite (a))
OP1 (testp_infinite_f32, ALU, pred, f32, __builtin_isinf (a) != 0)
OP1 (testp_number_f32, ALU, pred, f32, a == a)
OP1 (testp_notanumber_f32, ALU, pred, f32, a != a)

/* ---- convert: cvt_<to>_<from> ---- */
#define CVT(to, rt, from, rf) \
  OP1 (cvt_##to##_##from, ALU, rt, rf, (rt)(to)(from)a)
#define CVT_ALL(from, rf) \
  CVT (u8, u32, from, rf) \
  CVT (s8, s32, from, rf) \
  CVT (u16, u32, from, rf) \
  CVT (s16, s32, from, rf) \
  CVT (u32, u32, from, rf) \
  CVT (s32, s32, from, rf) \
  CVT (u64, u64, from, rf) \
  CVT (s64, s64, from, rf) \
  OP1 (cvt_rn_f32_##from, ALU, f32, rf, (f32)(from)a) \
  OP1 (cvt_rn_f64_##from, F64, f64, rf, (f64)(from)a)
CVT_ALL (u8, u32)
CVT_ALL (s8, u32)
CVT_ALL (u16, u32)
CVT_ALL (s16, u32)
CVT_ALL (u32, u32)
CVT_ALL (s32, s32)
CVT_ALL (u64, u64)
CVT_ALL (s64, s64)
#undef CVT
#undef CVT_ALL
#define CVT_SAT(to, rt, from, rf, lo, hi) \
  OP1 (cvt_sat_##to##_##from, ALU, rt, rf, \
      (rt)(to)(((s64)(from)a) < (lo)        ? (lo) \
               : ((s64)(from)a) > (s64)(hi) ? (s64)(hi) \
                                            : ((s64)(from)a)))
#define CVT_SAT_ALL(from, rf) \
  CVT_SAT (u8, u32, from, rf, 0, 255) \
  CVT_SAT (s8, s32, from, rf, -128, 127) \
  CVT_SAT (u16, u32, from, rf, 0, 65535) \
  CVT_SAT (s16, s32, from, rf, -32768, 32767) \
  CVT_SAT (u32, u32, from, rf, 0, G_MAXUINT32) \
  CVT_SAT (s32, s32, from, rf, G_MININT32, G_MAXINT32)
CVT_SAT_ALL (s16, s32)
CVT_SAT_ALL (s32, s32)
CVT_SAT_ALL (s64, s64)
CVT_SAT_ALL (u16, u32)
CVT_SAT_ALL (u32, u32)
#undef CVT_SAT
#undef CVT_SAT_ALL
/* To integer: out of range saturates, NaN is 0. */
#define CVT_INT(mode, round) \
  OP1 (cvt_##mode##_s32_f32, ALU, s32, f32, F_S32 (round##f (a))) \
  OP1 (cvt_##mode##_u32_f32, ALU, u32, f32, F_U32 (round##f (a))) \
  OP1 (cvt_##mode##_s16_f32, ALU, s32, f32, F_S16 (round##f (a))) \
  OP1 (cvt_##mode##_u16_f32, ALU, u32, f32, F_U16 (round##f (a))) \
  OP1 (cvt_##mode##_s8_f32, ALU, s32, f32, F_S8 (round##f (a))) \
  OP1 (cvt_##mode##_u8_f32, ALU, u32, f32, F_U8 (round##f (a))) \
  OP1 (cvt_##mode##_s64_f32, ALU, s64, f32, F_S64 (round##f (a))) \
  OP1 (cvt_##mode##_u64_f32, ALU, u64, f32, F_U64 (round##f (a))) \
  OP1 (cvt_##mode##_s32_f64, F64, s32, f64, F_S32 (round (a))) \
  OP1 (cvt_##mode##_u32_f64, F64, u32, f64, F_U32 (round (a))) \
  OP1 (cvt_##mode##_s64_f64, F64, s64, f64, F_S64 (round (a))) \
  OP1 (cvt_##mode##_u64_f64, F64, u64, f64, F_U64 (round (a))) \
  OP1 (cvt_##mode##_f32_f32, ALU, f32, f32, round##f (a)) \
  OP1 (cvt_##mode##_f64_f64, F64, f64, f64, round (a))
CVT_INT (rni, __builtin_rint)
CVT_INT (rzi, __builtin_trunc)
CVT_INT (rmi, __builtin_floor)
CVT_INT (rpi, __builtin_ceil)
#undef CVT_INT
OP1 (cvt_sat_f32_f32, ALU, f32, f32, SAT (a))
OP1 (cvt_f32_f32, ALU, f32, f32, a)
OP1 (cvt_f64_f32, F64, f64, f32, a)
OP1 (cvt_rn_f32_f64, F64, f32, f64, (f32)a)
OP1 (cvt_f32_f16, ALU, f32, u32, HF (a))
OP1 (cvt_f32_bf16, ALU, f32, u32, BF (a))
OP1 (cvt_rn_f16_f32, ALU, u32, f32, TO_HF (a))
OP1 (cvt_rn_bf16_f32, ALU, u32, f32, TO_BF (a))
OP1 (cvt_rz_bf16_f32, ALU, u32, f32, TO_BF_RZ (a))
OP2 (cvt_rn_bf16x2_f32, ALU, u32, f32, f32, (u32)TO_BF (a) << 16 | TO_BF (b))
OP2 (cvt_rz_bf16x2_f32, ALU, u32, f32, f32,
    (u32)TO_BF_RZ (a) << 16 | TO_BF_RZ (b))
OP2 (cvt_rn_f16x2_f32, ALU, u32, f32, f32, (u32)TO_HF (a) << 16 | TO_HF (b))
OP1 (cvt_rna_tf32_f32, ALU, u32, f32, TO_TF32_RNA (a))
OP1 (cvt_rn_tf32_f32, ALU, u32, f32, TO_TF32_RN (a))
OP1 (cvt_rz_tf32_f32, ALU, u32, f32, TO_TF32_RZ (a))

#undef PAIR2
#undef PAIR2F
#undef PAIR3
#undef OP1
#undef OP2
#undef OP3
