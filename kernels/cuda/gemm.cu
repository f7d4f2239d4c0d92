/* The dense layers' kernels: one name for each prologue and epilogue.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "lanes.cuh"
#include "matrix.cuh"

#define KERNEL(name, product, type, taps, prologue, epilogue) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS, \
      taps > 3 ? 1 : 2) mimi_##name (const __grid_constant__ MimiGemmArgs p) \
  { \
    gemm<product<type, taps>, prologue, epilogue> (p); \
  }

/* Float32 and bf16 weights, without and with tensor cores. */
#define KERNELS(name, taps, prologue, epilogue) \
  KERNEL (name##_f32, Lanes, float, taps, prologue, epilogue) \
  KERNEL (name##_bf16, Lanes, unsigned short, taps, prologue, epilogue) \
  KERNEL (name##_f32_matrix, Matrix, uint4, taps, prologue, epilogue) \
  KERNEL (name##_bf16_matrix, Matrix, uint2, taps, prologue, epilogue)

KERNELS (qkv, 1, NORM, QKV)           /* keys and values go into the ring */
KERNELS (project, 1, AS_IS, RESIDUAL) /* out of attention, out of the FFN */
KERNELS (expand, 1, NORM, GELU)       /* into the FFN */
KERNELS (first3, 3, AS_IS, CONV)      /* the first convolution, either size */
KERNELS (first7, 7, AS_IS, CONV)
KERNELS (up, 2, AS_IS, UP)       /* transposed convolution */
KERNELS (residual, 3, ELU, CONV) /* residual block, first half */
KERNELS (skip, 1, AS_IS, SKIP)   /* and second */
