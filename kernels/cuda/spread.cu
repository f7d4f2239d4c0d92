/* The dense layers' kernels for few tiles.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "spread.cuh"

#define SPREAD(name, ...) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS, 2) \
      mimi_##name (const __grid_constant__ MimiGemmArgs p) \
  { \
    spread<__VA_ARGS__> (p); \
  }

#define SPREADS(name, ...) \
  SPREAD (name##_f32, uint4, 3, __VA_ARGS__) \
  SPREAD (name##_tf32, uint4, 2, __VA_ARGS__) \
  SPREAD (name##_bf16, uint2, 2, __VA_ARGS__)

SPREADS (spread_qkv, 1, true, NORM, QKV)
SPREADS (spread_project, 1, true, AS_IS, RESIDUAL)
SPREADS (spread_expand, 1, true, NORM, GELU)
SPREADS (spread_first3, 3, true, AS_IS, CONV)
SPREADS (spread_first7, 7, true, AS_IS, CONV)
SPREADS (spread_up, 2, true, AS_IS, UP)        /* of one tile */
SPREADS (spread_up_tiles, 2, false, AS_IS, UP) /* of more */
