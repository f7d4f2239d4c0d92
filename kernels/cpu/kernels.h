/* The kernels, each compiled once for each instruction set.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * All of them are called by every thread of a team with its number; each does
 * its share, and nobody waits: the caller does (frame.h).
 */
#pragma once

#include "cpu.h"

#define MIMI_CPU_JOIN_(name, isa) name##_##isa
#define MIMI_CPU_JOIN(name, isa) MIMI_CPU_JOIN_ (name, isa)
#define MIMI_CPU_NAME(name) MIMI_CPU_JOIN (name, MIMI_CPU_ISA)

typedef struct {
  guint thread, threads;
} MimiCpuShare;

/* This thread's part [*first, *end) of n equal pieces of work. */
static inline void
mimi_cpu_share (const MimiCpuShare *share, guint n, guint *first, guint *end)
{
  *first = (guint)((guint64)n * share->thread / share->threads);
  *end = (guint)((guint64)n * (share->thread + 1) / share->threads);
}

/* What becomes of a sum. */
typedef enum {
  MIMI_CPU_STORE,     /* y = sum + bias */
  MIMI_CPU_GELU_ERF,  /* y = gelu (sum) */
  MIMI_CPU_GELU_TANH, /* y = gelu (sum) */
  MIMI_CPU_SCALE_ADD, /* y += scale * sum */
  MIMI_CPU_ELU,       /* y = elu (sum + bias) */
  MIMI_CPU_ADD_ELU    /* y = elu (residual + sum + bias) */
} MimiCpuEpilogue;

/* y[t][n] = epilogue (sum over k of x[t x_stride + k] w[n][k]): a linear layer,
 * or a causal convolution whose rows x overlap. */
typedef struct {
  const MimiCpuMatrix *w;
  const gfloat *x;
  gsize x_stride;
  guint rows;
  MimiCpuEpilogue epilogue;
  gfloat *y;
  gsize y_stride;
  gfloat *raw;            /* as y, before ELU; or NULL */
  const gfloat *residual; /* as y */
  const gfloat *scale;    /* [n] */
  gfloat *scratch; /* with a filter: this thread's, see mimi_cpu_filter() */
} MimiCpuGemm;

#define mimi_cpu_gemm MIMI_CPU_NAME (mimi_cpu_gemm)
void mimi_cpu_gemm (const MimiCpuGemm *gemm, MimiCpuShare share);

/* The same for 16 positions, [channel][16]: y[n][t] = epilogue (sum over
 * channel and tap of x[channel x_stride + tap + t] w[n][channel taps + tap]).
 */
typedef struct {
  const MimiCpuMatrix *w;
  const gfloat *x;
  gsize x_stride;
  guint taps;
  MimiCpuEpilogue epilogue;
  gfloat *y;
  gsize y_stride;
  gfloat *raw;         /* [n][16], before ELU; or NULL */
  const gfloat *scale; /* [n] */
} MimiCpuGemm16;

#define mimi_cpu_gemm16 MIMI_CPU_NAME (mimi_cpu_gemm16)
void mimi_cpu_gemm16 (const MimiCpuGemm16 *gemm, MimiCpuShare share);

#define mimi_cpu_layer_norm MIMI_CPU_NAME (mimi_cpu_layer_norm)
/* Rows of `width`; returns NaN if a row overflowed, else 0. */
gfloat mimi_cpu_layer_norm (const gfloat *x, guint rows, guint width,
    const gfloat *weight, const gfloat *bias, gfloat eps, gfloat *y,
    MimiCpuShare share);

#define mimi_cpu_attention MIMI_CPU_NAME (mimi_cpu_attention)
/* qkv -> mixed; writes the new keys and values into the ring. Returns NaN if
 * a key or a value is not finite, else 0. */
gfloat mimi_cpu_attention (MimiCpuSlot *slot, guint layer, MimiCpuShare share);

#define mimi_cpu_layer_norm16 MIMI_CPU_NAME (mimi_cpu_layer_norm16)
gfloat mimi_cpu_layer_norm16 (const gfloat *x, guint width,
    const gfloat *weight, const gfloat *bias, gfloat eps, gfloat *y);

#define mimi_cpu_attention16 MIMI_CPU_NAME (mimi_cpu_attention16)
gfloat mimi_cpu_attention16 (
    MimiCpuSlot *slot, guint layer, MimiCpuShare share);

#define mimi_cpu_last MIMI_CPU_NAME (mimi_cpu_last)
/* The last convolution: x, rows after what it remembers, to one sample each. */
void mimi_cpu_last (
    const MimiCpu *cpu, const gfloat *x, guint rows, gfloat *pcm);

#define mimi_cpu_check MIMI_CPU_NAME (mimi_cpu_check)
/* 0 if all are finite, else NaN. */
gfloat mimi_cpu_check (const gfloat *x, gsize n);

#define mimi_cpu_frame MIMI_CPU_NAME (mimi_cpu_frame)
void mimi_cpu_frame (MimiCpuSlot *slot, MimiStepItem *item, guint thread);

#define mimi_cpu_multiply MIMI_CPU_NAME (mimi_cpu_multiply)
gdouble mimi_cpu_multiply (guint64 flops);

#define mimi_cpu_read MIMI_CPU_NAME (mimi_cpu_read)
gfloat mimi_cpu_read (const gfloat *data, gsize n);
