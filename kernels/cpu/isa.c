/* The kernels of one instruction set.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "kernels.h"
#include "simd.h"

#define MIMI_CPU_STRING_(x) #x
#define MIMI_CPU_STRING(x) MIMI_CPU_STRING_ (x)

const MimiCpuKernels MIMI_CPU_NAME (mimi_cpu_kernels) = {
  .name = MIMI_CPU_STRING (MIMI_CPU_ISA),
  .rows16 = TILE_ROWS,
  .frame = mimi_cpu_frame,
  .multiply = mimi_cpu_multiply,
  .read = mimi_cpu_read,
};
