/* The dense layers' kernels for many tiles.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "many.cuh"

/* Two blocks a processor: while one waits for what it needs first, or finishes,
 * the other multiplies. */
#define MANY(name, taps, prologue, epilogue, sums, raw, products) \
  extern "C" __global__ void __launch_bounds__ ( \
      MIMI_CUDA_THREADS, epilogue == CONV && prologue == AS_IS ? 1 : 2) \
      mimi_##name (const __grid_constant__ MimiGemmArgs p) \
  { \
    many<raw, products, taps, prologue, epilogue, sums> (p); \
  }

#define MANIES(name, ...) \
  MANY (name##_f32, __VA_ARGS__, uint4, 3) \
  MANY (name##_tf32, __VA_ARGS__, uint4, 2) \
  MANY (name##_bf16, __VA_ARGS__, uint2, 2)

MANIES (many_qkv, 1, NORM, QKV, Sums)
MANIES (many_project, 1, AS_IS, RESIDUAL, Sums)
MANIES (many_expand, 1, NORM, GELU, Sums)
MANIES (many_first3, 3, AS_IS, CONV, Sums)
MANIES (many_first7, 7, AS_IS, CONV, Sums)
MANIES (many_up, 2, AS_IS, UP, Sums)
MANIES (many_residual, 3, ELU, CONV, ThreeSums)
MANIES (many_skip, 1, AS_IS, SKIP, ThreeSums)
