/* The dense layers' kernels: one name for each prologue and epilogue.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "lanes.cuh"
#include "matrix.cuh"

/* Blocks of a processor. On 8.6 and 8.9, whose tensor cores float32 is not given
 * to, ptxas would spill a register of the last. */
#if __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890
#define UP_MATRIX_BLOCKS 1
#else
#define UP_MATRIX_BLOCKS 2
#endif
#define KERNEL_BLOCKS(taps) (taps > 3 ? 1 : 2)
#define MATRIX_BLOCKS(taps) \
  (taps == 2 ? UP_MATRIX_BLOCKS : KERNEL_BLOCKS (taps))

#define KERNEL(name, blocks, prologue, epilogue, ...) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS, blocks) \
      mimi_##name (const __grid_constant__ MimiGemmArgs p) \
  { \
    gemm<__VA_ARGS__, prologue, epilogue> (p); \
  }

/* Float32 and bf16 weights without tensor cores; with them, also weights that
 * are rounded to tf32. */
#define KERNELS(name, t, in, out, sums) \
  KERNEL (name##_f32, KERNEL_BLOCKS (t), in, out, Lanes<float, t>) \
  KERNEL (name##_bf16, KERNEL_BLOCKS (t), in, out, Lanes<unsigned short, t>) \
  KERNEL (name##_f32_matrix, MATRIX_BLOCKS (t), in, out, \
      Matrix<uint4, 3, t, sums>) \
  KERNEL (name##_tf32_matrix, KERNEL_BLOCKS (t), in, out, \
      Matrix<uint4, 2, t, sums>) \
  KERNEL (name##_bf16_matrix, KERNEL_BLOCKS (t), in, out, \
      Matrix<uint2, 2, t, sums>)

KERNELS (qkv, 1, NORM, QKV, Sums) /* keys and values go into the ring */
KERNELS (
    project, 1, AS_IS, RESIDUAL, Sums) /* out of attention, out of the FFN */
KERNELS (expand, 1, NORM, GELU, Sums)  /* into the FFN */
KERNELS (first3, 3, AS_IS, CONV, Sums) /* the first convolution, either size */
KERNELS (first7, 7, AS_IS, CONV, Sums)
KERNELS (up, 2, AS_IS, UP, Sums)            /* transposed convolution */
KERNELS (residual, 3, ELU, CONV, ThreeSums) /* residual block, first half */
KERNELS (skip, 1, AS_IS, SKIP, ThreeSums)   /* and second */
