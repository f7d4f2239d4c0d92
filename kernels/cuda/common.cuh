/* What several kernels need.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "kernels.h"

#define TILE MIMI_CUDA_TILE
#define FULL_WARP 0xffffffffu
#define WARPS (MIMI_CUDA_THREADS / 32)
#define PARTS MIMI_CUDA_PARTS

/* A layer's memory of its last inputs, its history, is kept twice: the first
 * frame of a run reads one copy, the last writes the other, and they take turns
 * from launch to launch, so no block has to wait for another. */
static __device__ const float *
history_read (const MimiEntry &entry, unsigned offset, unsigned length)
{
  return (const float *)entry.state + offset + entry.copy * length;
}

static __device__ float *
history_write (const MimiEntry &entry, unsigned offset, unsigned length)
{
  return (float *)entry.state + offset + (entry.copy ^ 1) * length;
}

/* Whether there is anything in the histories: not if the run began afresh. */
static __device__ bool
remembers (const MimiEntry &entry)
{
  return entry.frame > entry.follows;
}

/* The columns before a tile that this launch has made: those of the tile before,
 * or of the entries before, where they are of the same run. What lies before them
 * is in the history. */
struct Past {
  const float *tile; /* the tile before */
  unsigned columns;  /* of a tile */
  unsigned stride;   /* from the tile before to the one before that */
  int reach;         /* columns that were made, or more than anybody wants */

  /* in: the tile, [channel][16]; entries are entry_stride apart */
  __device__
  Past (const MimiEntry &entry, const float *in, unsigned tile, unsigned tiles,
      unsigned times, unsigned inputs, unsigned entry_stride)
      : tile (tile > 0
                  ? in - (size_t)inputs * TILE
                  : in - entry_stride + (size_t)(tiles - 1) * inputs * TILE),
        columns (min (times, TILE)), stride (entry_stride),
        reach (tile > 0 ? TILE : (int)(entry.follows * columns))
  {
  }

  /* Column j of the last H of channel k. */
  template <int H>
  __device__ const float *
  find (unsigned k, unsigned j) const
  {
    const unsigned back = H - 1 - j, entries = back / columns;
    return tile + k * TILE - entries * stride + columns - 1 -
           (back - entries * columns);
  }

  /* Calls function (j, place) for the last H columns of channel k; they are that
   * many and only if `reach` says so. */
  template <int H, typename Function>
  __device__ void
  each (unsigned k, Function function) const
  {
    const float *row = tile + k * TILE;
    unsigned left = columns;
#pragma unroll
    for (int j = H - 1; j >= 0; j--) {
      if (left == 0) { /* fewer columns than taps: one more entry back */
        row -= stride;
        left = columns;
      }
      left--;
      function (j, row + left);
    }
  }
};

/* Without a branch (one would serialise the lanes of every epilogue), and
 * keeping NaN. exp (x) - 1 is, down to -1, x + x^2 p (x), within 1.3e-7 of itself
 * (p is fitted at Chebyshev's points); below, nothing cancels. */
static __device__ float
elu (float x)
{
  const float low = fminf (x, 0.0f);
  float p = 0.000137540439f;
  p = fmaf (p, low, 0.00132510928f);
  p = fmaf (p, low, 0.00830142666f);
  p = fmaf (p, low, 0.0416593477f);
  p = fmaf (p, low, 0.166666046f);
  p = fmaf (p, low, 0.5f);
  const float near = fmaf (p, low * low, low);
  const float far = exp2f (low * 1.44269504f) - 1.0f;
  return x <= 0.0f ? low > -1.0f ? near : far : x;
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

/* Copies 16 or 8 bytes of global memory to shared memory, while the thread goes on. */
static __device__ void
copy_to_shared (float *to, const float4 *from)
{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   (unsigned)__cvta_generic_to_shared (to)),
               "l"(from)
               : "memory");
#endif
}

static __device__ void
copy_to_shared (float *to, const float2 *from)
{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(
                   (unsigned)__cvta_generic_to_shared (to)),
               "l"(from)
               : "memory");
#endif
}

/* Until all that this thread copies has come. */
static __device__ void
wait_for_copies ()
{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* Has something computed here and not where it is used: before the wait there is
 * time. */
static __device__ void
settle (unsigned &x)
{
  asm volatile("" : "+r"(x));
}

static __device__ void
settle (float &x)
{
  asm volatile("" : "+f"(x));
}

static __device__ void
settle (size_t &x)
{
  asm volatile("" : "+l"(x));
}

template <typename T>
static __device__ void
settle (T *&x)
{
  asm volatile("" : "+l"(x));
}

/* Four at once, where nvcc makes four accesses of a float4 whose parts it knows. */
static __device__ void
store_four (float *to, const float (&x)[4])
{
  __stcg ((float4 *)to, make_float4 (x[0], x[1], x[2], x[3]));
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
 * the one before has ended too. Without it both are nothing.
 *
 * A kernel lets the next begin when it has itself waited: as it begins would be
 * sooner, but then three of them share the processors, and two blocks of the one
 * that all wait for may meet on one of them while others have nothing to do. */
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

/* Whether that is waited for: what is asked for before comes early, and else only
 * in front of what is needed sooner. */
#if __CUDA_ARCH__ >= 900
#define WAITS true
#else
#define WAITS false
#endif
