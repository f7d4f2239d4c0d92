/* Rows from the host, and the way to the transformer's width.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Two kernels, or from 9.0 on one (mimi_enter) of a cluster for each entry.
 * Either way each byte crosses the bus upwards once, in the second once more where
 * the next frame is in the same launch.
 */
#include "cluster.cuh"
#include "moments.cuh"

#define ENTRY_WORDS (sizeof (MimiEntry) / 4)

/* What a thread needs to denormalise its first latent. */
static __device__ float
first_of (const float *values, unsigned n)
{
  return values && threadIdx.x < n ? __ldg (values + threadIdx.x) : 0.0f;
}

/* The vector to be projected: denormalised latents, or the sum of codebook
 * rows of the semantic book and of the acoustic ones. */
static __device__ void
make_vector (const MimiInputArgs &p, const MimiEntry &entry, const void *row,
    float *vector, float std, float mean)
{
  if (entry.kind == MIMI_CUDA_CODES) {
    const unsigned short *codes = (const unsigned short *)row;
    for (unsigned d = threadIdx.x; d < 2 * p.book_dim; d += blockDim.x) {
      const bool rest = d >= p.book_dim;
      const unsigned end = rest ? entry.n_codes : 1;
      float sum = 0.0f;
#pragma unroll 8
      for (unsigned i = rest; i < end; i++)
        sum += __ldg (p.codebooks +
                      ((size_t)i * p.book_size + codes[i]) * p.book_dim +
                      (rest ? d - p.book_dim : d));
      vector[d] = sum;
    }
  } else {
    const float *values = (const float *)row;
    const unsigned n = entry.kind == MIMI_CUDA_EMBEDDING ? p.width : p.latent;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
      if (entry.kind == MIMI_CUDA_NORMALIZED && i != threadIdx.x) {
        std = p.std[i];
        mean = p.mean[i];
      }
      vector[i] = entry.kind == MIMI_CUDA_NORMALIZED ? values[i] * std + mean
                                                     : values[i];
    }
  }
}

/* Projection and upsampling of 64 channels, or of fewer if there are not so
 * many left, and the moments of their slices. The upsampling is a depthwise
 * transposed convolution whose kernel is twice its stride, so each output sees
 * this frame's value and the last's. A warp takes eight channels. */
struct Front {
  static constexpr int N = 8, CHANNELS = N * WARPS;
  const MimiFrontArgs &p;
  const unsigned first, n; /* of its channels */
  float weight[N], filter[N][2];

  /* Asks for all that does not depend on the entry. */
  __device__
  Front (const MimiFrontArgs &args, unsigned first_channel, unsigned most)
      : p (args), first (first_channel), n (min (most, args.width - first))
  {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < N; i++) {
      weight[i] = __ldg (
          p.projection + channel (i) * p.length + min (lane, p.length - 1));
#pragma unroll
      for (int j = 0; j < 2; j++)
        filter[i][j] = __ldg (p.upsample + (channel (i) * 2 + j) * p.times +
                              min (lane, p.times - 1));
    }
  }

  __device__ unsigned
  row (int i) const
  {
    return threadIdx.x / 32 + i * WARPS;
  }

  __device__ unsigned
  channel (int i) const
  {
    return first + min (row (i), n - 1);
  }

  __device__ void
  project (const MimiEntry &entry, const float *vector, float (&to)[N]) const
  {
    const unsigned lane = threadIdx.x % 32;
    const float x = lane < p.length ? vector[lane] : 0.0f;

    if (entry.kind == MIMI_CUDA_EMBEDDING) {
#pragma unroll
      for (int i = 0; i < N; i++)
        to[i] = vector[channel (i)];
      return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
      to[i] = weight[i] * x;
#pragma unroll 4
    for (unsigned k = lane + 32; k < p.length; k += 32)
#pragma unroll
      for (int i = 0; i < N; i++)
        to[i] += __ldg (p.projection + channel (i) * p.length + k) * vector[k];
#pragma unroll
    for (unsigned other = 16; other > 0; other >>= 1)
#pragma unroll
      for (int i = 0; i < N; i++)
        to[i] += __shfl_xor_sync (FULL_WARP, to[i], other);
  }

  /* vector: of this frame; last: of the frame before, where the entry follows it
   * (its projection is made again); values: [64 channels][17] of shared memory */
  __device__ void
  finish (const MimiEntry &entry, unsigned index, const float *vector,
      const float *last, float (*values)[TILE + 1])
  {
    const unsigned lane = threadIdx.x % 32;
    const unsigned rows = 1u << p.slice_log2, slice0 = first >> p.slice_log2;
    const float *history = history_read (entry, p.history, p.width);
    float *kept = history_write (entry, p.history, p.width);
    float *out = p.out + (size_t)index * p.out_stride;
    float2 *moments = (float2 *)(p.moments + (size_t)index * p.out_stride);
    float now[N], before[N];

    if (entry.follows) {
      project (entry, last, before);
    } else {
#pragma unroll
      for (int i = 0; i < N; i++)
        before[i] = remembers (entry) ? history[channel (i)] : 0.0f;
    }
    project (entry, vector, now);
#pragma unroll
    for (int i = 0; i < N; i++) {
      const float y = now[i] * filter[i][0] + before[i] * filter[i][1];
      if (row (i) < n && lane == 0 && entry.ends)
        kept[channel (i)] = now[i];
      if (row (i) < n && lane < p.times)
        out[channel (i) * TILE + lane] = y;
      if (lane < TILE) /* times that do not exist have moments of zeros */
        values[row (i)][lane] = lane < p.times ? y : 0.0f;
    }
    __syncthreads ();
    constexpr int M = CHANNELS * TILE / MIMI_CUDA_THREADS;
    float value[M];
    unsigned exist[M];
    float2 both[M];
#pragma unroll
    for (int j = 0; j < M; j++) {
      const unsigned at = threadIdx.x + j * MIMI_CUDA_THREADS;
      const unsigned done = at / (rows * TILE) * rows;
      value[j] = values[done + at % rows][at / rows % TILE];
      exist[j] = done < n ? min (rows, n - done) : rows;
    }
    slice_moments (value, rows, exist, n % rows == 0, both);
#pragma unroll
    for (int j = 0; j < M; j++) {
      const unsigned at = threadIdx.x + j * MIMI_CUDA_THREADS;
      if (at % rows == 0 && at / (rows * TILE) * rows < n)
        moments[slice0 * TILE + at / rows] = both[j];
    }
  }
};

/* Grid: (entries); one block an entry. */
extern "C" __global__ void
__launch_bounds__ (MIMI_CUDA_THREADS)
    mimi_input (const __grid_constant__ MimiInputArgs p)
{
  launch_dependents ();
  wait_for_inputs ();
  __shared__ __align__ (16) unsigned received[ENTRY_WORDS];
  const unsigned *from = (const unsigned *)(p.from + blockIdx.x);

  if (threadIdx.x < ENTRY_WORDS)
    ((unsigned *)(p.entries + blockIdx.x))[threadIdx.x] =
        received[threadIdx.x] = from[threadIdx.x];
  if (threadIdx.x == 0)
    p.status[blockIdx.x] = 0;
  __syncthreads ();
  const MimiEntry &entry = *(const MimiEntry *)received;
  if (entry.state != 0)
    make_vector (p, entry,
        (const char *)p.rows + (size_t)blockIdx.x * p.row_bytes,
        p.vector + (size_t)blockIdx.x * p.vector_stride,
        first_of (p.std, p.latent), first_of (p.mean, p.latent));
}

/* Grid: (slices, entries). */
extern "C" __global__ void
__launch_bounds__ (MIMI_CUDA_THREADS)
    mimi_front (const __grid_constant__ MimiFrontArgs p)
{
  __shared__ float values[Front::CHANNELS][TILE + 1];

  launch_dependents ();
  Front front (p, blockIdx.x << p.slice_log2, 1u << p.slice_log2);
  wait_for_inputs ();
  const MimiEntry entry = p.entries[blockIdx.y];
  const float *vector = p.vector + (size_t)blockIdx.y * p.vector_stride;
  if (entry.state != 0)
    front.finish (entry, blockIdx.y, vector, vector - p.vector_stride, values);
}

/* The first block of the cluster fetches entry and row, and shares them out; and
 * where the entry follows another, that one's row too, though it crosses the bus
 * again: another cluster has it, and waiting for that one would be a launch more.
 * Grid: (8, entries); a cluster an entry. */
extern "C" __global__ void
__launch_bounds__ (MIMI_CUDA_THREADS)
    mimi_enter (const __grid_constant__ MimiEnterArgs args)
{
#if __CUDA_ARCH__ >= 900
  __shared__ __align__ (16) unsigned received[ENTRY_WORDS];
  __shared__ float values[Front::CHANNELS][TILE + 1];
  /* The vector, then the row, then the same of the frame before. */
  extern __shared__ __align__ (16) float vector[];

  const MimiInputArgs &p = args.input;
  const unsigned rank = blockIdx.x, index = blockIdx.y, tid = threadIdx.x;
  unsigned *row = (unsigned *)(vector + p.vector_stride);
  const unsigned *from = (const unsigned *)(p.from + index);
  const unsigned *from_row =
      (const unsigned *)((const char *)p.rows + (size_t)index * p.row_bytes);

  launch_dependents ();
  cluster_begin ();
  Front front (args.front, min (rank * Front::CHANNELS, args.front.width - 1),
      Front::CHANNELS);
  const float std = first_of (p.std, p.latent);
  const float mean = first_of (p.mean, p.latent);
  float *last = vector + p.vector_stride + p.row_bytes / 4;
  unsigned *last_row = (unsigned *)(last + p.vector_stride);
  if (rank == 0) {
    /* The row's kind is in the entry. The only row of a step is asked for before
     * that is known, as one of the usual kind: the bus takes a microsecond each
     * time. */
    const unsigned usual = (p.usual_bytes + 3) / 4;
    unsigned word = 0;
    if (tid < ENTRY_WORDS)
      word = from[tid];
    else if (tid >= 32 && tid - 32 < usual)
      word = from_row[tid - 32];
    if (tid < ENTRY_WORDS)
      received[tid] = word;
    __syncthreads ();
    const MimiEntry &entry = *(const MimiEntry *)received;
    const unsigned words = entry.state == 0                    ? 0
                           : entry.kind == MIMI_CUDA_EMBEDDING ? p.width
                           : entry.kind == MIMI_CUDA_CODES
                               ? (entry.n_codes + 1) / 2
                               : p.latent;
    cluster_wait ();
    if (tid < ENTRY_WORDS)
      for (unsigned other = 1; other < MIMI_CUDA_RANKS; other++)
        store_remote (remote (received + tid, other), __uint_as_float (word));
    if (tid < ENTRY_WORDS)
      ((unsigned *)(p.entries + index))[tid] = word;
    if (tid == 0)
      p.status[index] = 0;
    if (tid >= 32 && tid - 32 < min (usual, words))
      for (unsigned other = 0; other < MIMI_CUDA_RANKS; other++)
        store_remote (remote (row + tid - 32, other), __uint_as_float (word));
    /* Both at once: they are of one kind. */
    const unsigned all = entry.follows ? 2 * words : words;
    for (unsigned i = usual + tid; i < all; i += MIMI_CUDA_THREADS) {
      const bool older = i >= words;
      unsigned *to = older ? last_row + i - words : row + i;
      word = older ? (from_row - p.row_bytes / 4)[i - words] : from_row[i];
      for (unsigned other = 0; other < MIMI_CUDA_RANKS; other++)
        store_remote (remote (to, other), __uint_as_float (word));
    }
  } else {
    cluster_wait ();
  }
  cluster_arrive ();
  cluster_wait ();

  const MimiEntry entry = *(const MimiEntry *)received;
  if (entry.state == 0)
    return;
  make_vector (p, entry, row, vector, std, mean);
  if (entry.follows)
    make_vector (p, entry, last_row, last, std, mean);
  __syncthreads ();
  if (rank * Front::CHANNELS < args.front.width)
    front.finish (entry, index, vector, last, values);
  for (unsigned first = (rank + MIMI_CUDA_RANKS) * Front::CHANNELS;
       first < args.front.width; first += MIMI_CUDA_RANKS * Front::CHANNELS) {
    __syncthreads ();
    Front (args.front, first, Front::CHANNELS)
        .finish (entry, index, vector, last, values);
  }
#endif
}
