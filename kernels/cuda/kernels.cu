/* The device code in one translation unit: one image, one module.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "alone.cu"
#include "input.cu"
#include "gemm.cu"
#include "attention.cu"
#include "split_attention.cu"
#include "attend.cu"
#include "output.cu"
#include "split.cu"
#include "split_up.cu"
#include "whole.cu"

/* On tensor cores. */
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
#include "many.cu"
#endif

/* For few streams, on what has clusters. */
#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
#include "spread.cu"
#include "residual.cu"
#include "tail.cu"
#include "layer.cu"
#endif
