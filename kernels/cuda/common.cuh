/* What several kernels need.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "kernels.h"

#define TILE MIMI_CUDA_TILE
#define FULL_WARP 0xffffffffu
#define WARPS (MIMI_CUDA_THREADS / 32)
#define PARTS MIMI_CUDA_PARTS

/* A layer's memory of its last inputs is kept twice: frame f reads the copy of
 * parity f & 1 and writes the other, so no block has to wait for another. */
static __device__ const float *
history_read (const MimiEntry &entry, unsigned offset, unsigned length)
{
  return (const float *)entry.state + offset + (entry.frame & 1) * length;
}

static __device__ float *
history_write (const MimiEntry &entry, unsigned offset, unsigned length)
{
  return (float *)entry.state + offset + (~entry.frame & 1) * length;
}

/* Without a branch (one would serialise the lanes of every epilogue), and
 * keeping NaN. */
static __device__ float
elu (float x)
{
  const float below = expm1f (fminf (x, 0.0f));
  return x <= 0.0f ? below : x;
}

static __device__ bool
overflows (float x)
{
  return !(fabsf (x) <= MIMI_CUDA_HUGE);
}

/* Keeps the compiler from moving loads down to where their values are used: a
 * warp runs in order, and would wait for one after the other. */
static __device__ void
ask_first ()
{
  asm volatile("" ::: "memory");
}

/* Makes sure that loads have been made, of whose values `mix` is made, before
 * what follows: ptxas takes read-only loads past griddepcontrol.wait to where
 * their values are used, and they were to be on their way while others still
 * run. Does nothing, since `never` is what its name says. */
static __device__ void
hold (unsigned mix, bool never, unsigned *place)
{
  if ((mix == 0) & never)
    atomicOr (place, 1u);
}

/* Programmatic dependent launch, sm_90 and later: a kernel's blocks may start
 * while those before it still run, and may touch nothing that any of them
 * writes until they have waited. Every kernel must wait, so that the one before
 * the one before has ended too. Without it both are nothing. */
static __device__ void
launch_dependents ()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

static __device__ void
wait_for_inputs ()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
