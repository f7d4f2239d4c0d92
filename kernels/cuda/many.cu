/* The dense layers' kernels for many tiles.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "block.cuh"
#include "many.cuh"

/* Some blocks a processor: while one waits for what it needs first, or finishes,
 * the others multiply. Three have registers enough where 9.0's code is made; other
 * code would spill. */
#if __CUDA_ARCH__ == 900
#define MOST 3
#else
#define MOST 2
#endif

#define MANY(name, taps, prologue, epilogue, sums, blocks, raw, products) \
  extern "C" __global__ void __launch_bounds__ (MANY_THREADS, blocks) \
      mimi_##name (const __grid_constant__ MimiGemmArgs p) \
  { \
    many<raw, products, taps, prologue, epilogue, sums> (p); \
  }

#define MANIES(name, ...) \
  MANY (name##_f32, __VA_ARGS__, uint4, 3) \
  MANY (name##_tf32, __VA_ARGS__, uint4, 2) \
  MANY (name##_bf16, __VA_ARGS__, uint2, 2)

MANIES (many_qkv, 1, NORM, QKV, Sums, MOST)
MANIES (many_project, 1, AS_IS, RESIDUAL, Sums, MOST)
MANIES (many_expand, 1, NORM, GELU, Sums, MOST)
MANIES (many_first3, 3, AS_IS, CONV, Sums, 2)
MANIES (many_first7, 7, AS_IS, CONV, Sums, 2)
MANIES (many_up, 2, AS_IS, UP, Sums, MOST)
MANIES (many_residual, 3, ELU, CONV, ThreeSums, 2)
MANIES (many_skip, 1, AS_IS, SKIP, ThreeSums, 2)

#define BLOCK(name, raw, products) \
  extern "C" __global__ void __launch_bounds__ (MANY_THREADS, 3) \
      mimi_many_block_##name (const __grid_constant__ MimiManyBlockArgs p) \
  { \
    many_block<raw, products> (p.residual, p.skip); \
  }

BLOCK (f32, uint4, 3)
BLOCK (tf32, uint4, 2)
BLOCK (bf16, uint2, 2)
