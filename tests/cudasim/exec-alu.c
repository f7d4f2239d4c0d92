/* The instructions of ops.h, and the table of all of them
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Compiled once for each instruction set (SIM_VARIANT is its name): all the
 * loops over lanes become vector code.
 */
#include "exec.h"

#define RESULT_f32(e) (e)
#define RESULT_f64(e) (e)
#define RESULT_u32(e) (e)
#define RESULT_s32(e) (e)
#define RESULT_u64(e) (e)
#define RESULT_s64(e) (e)
typedef u32 pred;
#define RESULT_pred(e) (-(u32) !!(e))

#define OP1(name, kind, D, A, expr) \
  static void do_##name (SimWarp *w, const SimIns *i) \
  { \
    const A *pa = sim_row (w, i->o[1]); \
    BODY1 (D, A, expr) \
  }
#define OP2(name, kind, D, A, B, expr) \
  static void do_##name (SimWarp *w, const SimIns *i) \
  { \
    const A *pa = sim_row (w, i->o[1]); \
    const B *pb = sim_row (w, i->o[2]); \
    BODY2 (D, A, B, expr) \
  }
#define OP3(name, kind, D, A, B, C, expr) \
  static void do_##name (SimWarp *w, const SimIns *i) \
  { \
    const A *pa = sim_row (w, i->o[1]); \
    const B *pb = sim_row (w, i->o[2]); \
    const C *pc = sim_row (w, i->o[3]); \
    BODY3 (D, A, B, C, expr) \
  }
/* The result may be the row of an operand: each lane reads before it writes,
 * which ivdep promises to the compiler. */
#define RUN(D, load, expr) \
  D *out = sim_row (w, i->o[0]); \
  if (IS_FULL (w)) { \
    IVDEP LANES \
    { \
      load; \
      out[l] = (D)RESULT_##D (expr); \
    } \
  } else { \
    D value[SIM_LANES] __attribute__ ((aligned (64))); \
    LANES \
    { \
      load; \
      value[l] = (D)RESULT_##D (expr); \
    } \
    LANES out[l] = w->lane[l] ? value[l] : out[l]; \
  }
#define BODY1(D, A, expr) RUN (D, const A a = pa[l], expr)
#define BODY2(D, A, B, expr) RUN (D, const A a = pa[l]; const B b = pb[l], expr)
#define BODY3(D, A, B, C, expr) \
  RUN (D, const A a = pa[l]; const B b = pb[l]; const C c = pc[l], expr)

#include "ops.h"

#define TABLE_(variant) sim_exec_##variant
#define TABLE(variant) TABLE_ (variant)

const SimExec TABLE (SIM_VARIANT)[SIM_N_OPS] = {
#define OP1(name, ...) [OP_##name] = do_##name,
#define OP2(name, ...) [OP_##name] = do_##name,
#define OP3(name, ...) [OP_##name] = do_##name,
#include "ops.h"
#define OPX(name, ...) [OP_##name] = DO (name),
#include "ops-special.h"
};
