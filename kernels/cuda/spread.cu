/* The dense layers' kernels for few tiles.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "spread.cuh"

#define SPREAD(name, kind, ...) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS, 2) \
      mimi_##name (const __grid_constant__ MimiGemmArgs p) \
  { \
    spread_##kind<__VA_ARGS__> (p); \
  }

#define SPREADS(name, kind, ...) \
  SPREAD (name##_f32, kind, uint4, 3, __VA_ARGS__) \
  SPREAD (name##_tf32, kind, uint4, 2, __VA_ARGS__) \
  SPREAD (name##_bf16, kind, uint2, 2, __VA_ARGS__)

SPREADS (spread_qkv, norm, QKV)
SPREADS (spread_expand, norm, GELU)
/* Taps, steps, groups of outputs: shape.c knows the groups. */
SPREADS (spread_project, parts, 1, 8, 1, true, RESIDUAL)
SPREADS (spread_first3, parts, 3, 1, 2, true, CONV)
SPREADS (spread_first7, parts, 7, 1, 2, true, CONV)
SPREADS (spread_up, parts, 2, 2, 3, true, UP)        /* of one tile */
SPREADS (spread_up_tiles, parts, 2, 4, 2, false, UP) /* of more */
