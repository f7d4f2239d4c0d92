/* The dense layers' kernels for few tiles, without tensor cores.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "split.cuh"

#define SPLIT(name, weight, ...) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS, 2) \
      mimi_##name (const __grid_constant__ MimiGemmArgs p) \
  { \
    split<weight, __VA_ARGS__> (p); \
  }

#define SPLITS(name, ...) \
  SPLIT (name##_f32, float, __VA_ARGS__) \
  SPLIT (name##_bf16, unsigned short, __VA_ARGS__)

SPLITS (split_qkv, 1, NORM, QKV)
SPLITS (split_project, 1, AS_IS, RESIDUAL)
SPLITS (split_expand, 1, NORM, GELU)
SPLITS (split_first3, 3, AS_IS, CONV)
SPLITS (split_first7, 7, AS_IS, CONV)
SPLITS (split_up, 2, AS_IS, UP)
SPLITS (split_residual, 3, ELU, CONV)
SPLITS (split_skip, 1, AS_IS, SKIP)
