/* A tile's input in shared memory, split for tensor cores.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Every value is there as two tf32 numbers, which are made once, by who stages
 * it, and not by each warp that multiplies it. What a lane of multiply() needs
 * of a column lies side by side: high and low of channel lane % 4, and of the
 * channel 4 further. So that is one load of 16 bytes, without conflicts at any
 * column, since eight lanes read two columns:
 *   [8 channels][column][4 pairs of channels]
 * The columns are those of the past, H of them, then 16 of now. Their number is
 * odd where single channels are written too: neighbouring steps of 8 channels
 * are in different banks. Columns that do not exist hold anything finite.
 * Channels come in eights.
 */
#pragma once

#include "mma.cuh"

template <int H> struct Pairs {
  static constexpr unsigned COLUMNS = MIMI_CUDA_PAIRS_COLUMNS (H);
  float4 *x;

  /* For column `column`, lane / 4 further in each lane. */
  __device__ Inputs
  get (unsigned step, unsigned column) const
  {
    const unsigned lane = threadIdx.x % 32;
    const float4 v = x[(step * COLUMNS + column) * 4 + lane];
    return { { v.x, v.z }, { v.y, v.w } };
  }

  __device__ float2 *
  at (unsigned channel, unsigned column) const
  {
    return (float2 *)(x + (channel / 8 * COLUMNS + column) * 4 + channel % 4) +
           channel / 4 % 2;
  }

  __device__ void
  put (unsigned channel, unsigned column, float v) const
  {
    const float high = tf32 (v);
    *at (channel, column) = make_float2 (high, v - high);
  }

  /* What was put there: nothing is lost by splitting. */
  __device__ float
  whole (unsigned channel, unsigned column) const
  {
    const float2 v = *at (channel, column);
    return v.x + v.y;
  }
};

/* Where a lane's share of 8 channels x 16 times begins: it has channel lane % 4
 * and 4 more, times lane / 4 and 8 more, which is what multiply() wants of it. */
static __device__ const float *
get_share (const float *in, unsigned channel)
{
  return in + (channel + threadIdx.x % 4) * TILE + threadIdx.x % 32 / 4;
}

struct Unit {
  float v[2][2], gain[2], offset[2];

  __device__ void
  load (const float *share)
  {
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        v[i][h] = share[4 * i * TILE + 8 * h];
  }

  __device__ void
  load_norm (const float *norm, unsigned inputs, unsigned channel)
  {
    norm += min (channel, inputs - 8) + threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      gain[i] = __ldg (norm + 4 * i);
      offset[i] = __ldg (norm + inputs + 4 * i);
    }
  }

  /* mean, scale: of time lane / 4, and 8 more */
  __device__ void
  normalise (const float (&mean)[2], const float (&scale)[2])
  {
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        v[i][h] = normalize (v[i][h], mean[h], scale[h], gain[i], offset[i]);
  }

  template <int H>
  __device__ void
  store (const Pairs<H> &x, unsigned step) const
  {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const Inputs in = split_inputs (v[0][h], v[1][h]);
      x.x[(step * Pairs<H>::COLUMNS + H + 8 * h) * 4 + threadIdx.x % 32] =
          make_float4 (in.high[0], in.low[0], in.high[1], in.low[1]);
    }
  }
};

/* The H columns before a tile, of the n channels from `first` on. Those that are
 * in the state no kernel of this launch writes: they are asked for before the
 * wait; those that this launch has made, after it. All is done by n_threads, of
 * which this is one. It has N of them on their way, as many as networks like
 * ours need. */
template <int H, int N> struct PairPast {
  const Past &past;
  const unsigned inputs, first, n, thread, n_threads;
  const float *kept; /* NULL if there are none */
  float v[N];

  __device__
  PairPast (const MimiEntry &entry, const Past &columns, unsigned history,
      unsigned all, unsigned from, unsigned length, unsigned own,
      unsigned threads)
      : past (columns), inputs (all), first (from), n (length), thread (own),
        n_threads (threads),
        kept (remembers (entry)
                  ? history_read (entry, history, all * H) + from * H
                  : NULL)
  {
  }

  /* Column i % H of channel i / H: is it there, and made by this launch, or is
   * it not? */
  __device__ bool
  has (unsigned i, bool made) const
  {
    return i < n * H && (H - (int)(i % H) <= past.reach) == made;
  }

  __device__ float
  get (unsigned i, bool made) const
  {
    if (first + i / H >= inputs || (!made && kept == NULL))
      return 0.0f;
    return made ? *past.find<H> (first + i / H, i % H) : kept[i + past.reach];
  }

  __device__ void
  load (bool made)
  {
#pragma unroll
    for (int i = 0; i < N; i++) {
      const unsigned at = thread + i * n_threads;
      if (has (at, made))
        v[i] = get (at, made);
    }
    ask_first ();
  }

  __device__ void
  store (bool made, const Pairs<H> &x) const
  {
#pragma unroll
    for (int i = 0; i < N; i++) {
      const unsigned at = thread + i * n_threads;
      if (has (at, made))
        x.put (at / H, at % H, v[i]);
    }
    for (unsigned at = thread + N * n_threads; at < n * H; at += n_threads)
      if (has (at, made))
        x.put (at / H, at % H, get (at, made));
  }
};

/* Leaves the last H of `columns` for the next launch. */
template <int H>
static __device__ void
keep_pairs (const MimiEntry &entry, unsigned history, unsigned inputs,
    unsigned first, unsigned n, unsigned thread, unsigned n_threads,
    unsigned columns, const Pairs<H> &x)
{
  if (!entry.ends)
    return;
  float *kept = history_write (entry, history, inputs * H);
  for (unsigned k = thread; k < n && first + k < inputs; k += n_threads)
#pragma unroll
    for (int j = 0; j < H; j++)
      kept[(first + k) * H + j] = x.whole (k, columns + j);
}
