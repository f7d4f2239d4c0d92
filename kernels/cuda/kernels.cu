/* The device code in one translation unit: one image, one module.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "input.cu"
#include "gemm.cu"
#include "attention.cu"
#include "output.cu"
