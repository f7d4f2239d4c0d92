/* A tile's input, brought to shared memory by a whole block.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * [channel][24]: 8 columns of the past, of which the last are used, and 16 of
 * now. With a stride of 24 floats, 8 columns of 4 neighbouring channels are in
 * 32 different banks. Channels that do not exist are zero; columns that do not
 * exist hold anything finite, and nobody looks at what becomes of them.
 */
#pragma once

#include "common.cuh"

#define STAGED_PAST 8
#define STAGED_STRIDE (STAGED_PAST + TILE)

/* Four channels' worth of loads of a thread, which are on their way at once. */
struct Staged {
  static constexpr int N = 4, CHANNELS = N * MIMI_CUDA_THREADS / 4;
  float4 now[N];
  float gain[N], offset[N];

  static __device__ unsigned
  channel (int i)
  {
    return (threadIdx.x + i * MIMI_CUDA_THREADS) / 4;
  }

  /* What there is of four, without a branch if there are four. */
  template <typename Function>
  static __device__ void
  each (unsigned n, Function function)
  {
    if (n >= CHANNELS) {
#pragma unroll
      for (int i = 0; i < N; i++)
        function (i);
    } else {
#pragma unroll
      for (int i = 0; i < N; i++)
        if (i * CHANNELS / N < n)
          function (i);
    }
  }

  /* in: [channel][16]; of the `n` channels from `first` on */
  __device__ void
  load (const float *in, unsigned inputs, unsigned first, unsigned n)
  {
    each (n, [&] (int i) {
      now[i] =
          *(const float4 *)(in + min (first + channel (i), inputs - 1) * TILE +
                            threadIdx.x % 4 * 4);
    });
    ask_first ();
  }

  __device__ void
  load_norm (const float *norm, unsigned inputs, unsigned first, unsigned n)
  {
    each (n, [&] (int i) {
      const unsigned k = min (first + channel (i), inputs - 1);
      gain[i] = __ldg (norm + k);
      offset[i] = __ldg (norm + inputs + k);
    });
  }

  __device__ void
  normalise (const float (&mean)[4], const float (&scale)[4], unsigned n)
  {
    each (n, [&] (int i) {
#pragma unroll
      for (int j = 0; j < 4; j++)
        (&now[i].x)[j] =
            normalize ((&now[i].x)[j], mean[j], scale[j], gain[i], offset[i]);
    });
  }

  __device__ void
  apply_elu (unsigned n)
  {
    each (n, [&] (int i) {
#pragma unroll
      for (int j = 0; j < 4; j++)
        (&now[i].x)[j] = elu ((&now[i].x)[j]);
    });
  }

  /* Channels first0 + first and on, of n from first0 on. */
  __device__ void
  store (float *x, unsigned inputs, unsigned first0, unsigned n,
      unsigned first) const
  {
#pragma unroll
    for (int i = 0; i < N; i++) {
      const unsigned k = first + channel (i);
      if (k < n)
        *(float4 *)(x + k * STAGED_STRIDE + STAGED_PAST + threadIdx.x % 4 * 4) =
            first0 + k < inputs ? now[i] : make_float4 (0, 0, 0, 0);
    }
  }
};

/* Of the H columns before a tile those that are in the state. No kernel of this
 * launch writes them: this is done before the wait. */
template <int H>
static __device__ void
stage_history (const MimiEntry &entry, const Past &past, unsigned history,
    unsigned inputs, unsigned first, unsigned n, float *x)
{
  if (past.reach >= H)
    return;
  const float *kept = history_read (entry, history, inputs * H);
  for (unsigned k = threadIdx.x; k < n; k += MIMI_CUDA_THREADS) {
    const bool exists = first + k < inputs && remembers (entry);
#pragma unroll
    for (int j = 0; j < H; j++)
      if (j + past.reach < H)
        x[k * STAGED_STRIDE + STAGED_PAST - H + j] =
            exists ? kept[(first + k) * H + j + past.reach] : 0.0f;
  }
}

/* Leaves the last H of `columns` for the next launch, as the product saw them. */
template <int H>
static __device__ void
keep_history (const MimiEntry &entry, unsigned history, unsigned inputs,
    unsigned first, unsigned n, unsigned columns, const float *x)
{
  if (!entry.ends)
    return;
  float *kept = history_write (entry, history, inputs * H);
  for (unsigned k = threadIdx.x; k < n && first + k < inputs;
       k += MIMI_CUDA_THREADS)
#pragma unroll
    for (int j = 0; j < H; j++)
      kept[(first + k) * H + j] =
          x[k * STAGED_STRIDE + STAGED_PAST + columns - H + j];
}
