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

/* What denormalises latent i. */
struct Scale {
  float std, mean;

  __device__
  Scale (const MimiInputArgs &p, unsigned i)
      : std (p.std && i < p.latent ? __ldg (p.std + i) : 1.0f),
        mean (p.mean && i < p.latent ? __ldg (p.mean + i) : 0.0f)
  {
  }

  __device__ float
  apply (const MimiEntry &entry, float x) const
  {
    return entry.kind == MIMI_CUDA_NORMALIZED ? fmaf (x, std, mean) : x;
  }
};

/* Floats of a row. */
static __device__ unsigned
get_length (const MimiInputArgs &p, const MimiEntry &entry)
{
  return entry.kind == MIMI_CUDA_EMBEDDING ? p.width : p.latent;
}

/* The vector to be projected, of codes: the sums of codebook rows, of the semantic
 * book and of the acoustic ones. */
static __device__ void
add_codebooks (const MimiInputArgs &p, const MimiEntry &entry,
    const unsigned short *codes, float *vector)
{
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
}

/* Projection and upsampling of 64 channels, or of fewer if there are not so
 * many left, and the moments of their slices. The upsampling is a depthwise
 * transposed convolution whose kernel is twice its stride, so each output sees
 * this frame's value and the last's. A warp projects eight channels, with 32
 * inputs at a time; then four of its lanes have each of them, with four times. */
struct Front {
  static constexpr unsigned N = 8, CHANNELS = N * WARPS, STRIDE = TILE + 4;
  const MimiFrontArgs &p;
  const unsigned first, n; /* of its channels */
  const unsigned row;      /* of them, the lane's */
  float weight[N];
  float4 filter[2];

  /* Asks for all that does not depend on the entry. */
  __device__
  Front (const MimiFrontArgs &args, unsigned first_channel, unsigned most)
      : p (args), first (first_channel), n (min (most, args.width - first)),
        row (threadIdx.x / 4)
  {
    const unsigned lane = threadIdx.x % 32, t = lane % 4 * 4;
    const float *upsample = p.upsample + channel (row) * 2 * p.times;
#pragma unroll
    for (int i = 0; i < N; i++)
      weight[i] = __ldg (p.projection + channel (warp_row (i)) * p.length +
                         min (lane, p.length - 1));
#pragma unroll
    for (int j = 0; j < 2; j++)
      if (p.times == TILE) {
        filter[j] = __ldg ((const float4 *)(upsample + j * TILE + t));
      } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
          (&filter[j].x)[i] =
              __ldg (upsample + j * p.times + min (t + i, p.times - 1));
      }
  }

  static __device__ unsigned
  warp_row (int i)
  {
    return threadIdx.x / 32 * N + i;
  }

  __device__ unsigned
  channel (unsigned row) const
  {
    return first + min (row, n - 1);
  }

  /* Of the lane's channel. */
  __device__ float
  project (const MimiEntry &entry, const float *vector) const
  {
    const unsigned lane = threadIdx.x % 32;
    const float x = lane < p.length ? vector[lane] : 0.0f;
    float sum[N];

    if (entry.kind == MIMI_CUDA_EMBEDDING)
      return vector[channel (row)];
#pragma unroll
    for (int i = 0; i < N; i++)
      sum[i] = weight[i] * x;
#pragma unroll 4
    for (unsigned k = lane + 32; k < p.length; k += 32) {
      const float y = vector[k];
#pragma unroll
      for (int i = 0; i < N; i++)
        sum[i] = fmaf (y,
            __ldg (p.projection + channel (warp_row (i)) * p.length + k),
            sum[i]);
    }
    /* Two lanes share what both have of two channels, until each has one. */
#pragma unroll
    for (unsigned half = N / 2, other = 16; half > 0; half /= 2, other /= 2) {
      const bool upper = lane & other;
#pragma unroll
      for (int i = 0; i < half; i++) {
        const float mine = upper ? sum[half + i] : sum[i];
        const float yours = upper ? sum[i] : sum[half + i];
        sum[i] = mine + __shfl_xor_sync (FULL_WARP, yours, other);
      }
    }
#pragma unroll
    for (unsigned other = 2; other > 0; other /= 2)
      sum[0] += __shfl_xor_sync (FULL_WARP, sum[0], other);
    return sum[0];
  }

  /* What this launch does not make: the frame before's projection, if the entry
   * follows none. */
  __device__ float
  recall (const MimiEntry &entry) const
  {
    return !entry.follows && remembers (entry)
               ? history_read (entry, p.history, p.width)[channel (row)]
               : 0.0f;
  }

  /* vector: of this frame; last: of the frame before, where the entry follows it
   * (its projection is made again); values: [64 channels][20] of shared memory */
  __device__ void
  finish (const MimiEntry &entry, unsigned index, const float *vector,
      const float *last, float before, float (*values)[STRIDE])
  {
    const unsigned lane = threadIdx.x % 32, t = lane % 4 * 4;
    const unsigned rows = 1u << p.slice_log2, slice0 = first >> p.slice_log2;
    float *out = p.out + (size_t)index * p.out_stride + channel (row) * TILE;
    float2 *moments = (float2 *)(p.moments + (size_t)index * p.out_stride);
    float4 y;

    if (entry.follows)
      before = project (entry, last);
    const float now = project (entry, vector);
#pragma unroll
    for (int i = 0; i < 4; i++) /* times that do not exist have moments of 0 */
      (&y.x)[i] = t + i < p.times ? fmaf (now, (&filter[0].x)[i],
                                        before * (&filter[1].x)[i])
                                  : 0.0f;
    *(float4 *)place (values, row, t) = y;
    __syncthreads ();
    if (row < n) {
      *(float4 *)(out + t) = y;
      if (lane % 4 == 0 && entry.ends)
        history_write (entry, p.history, p.width)[first + row] = now;
    }
    /* As slice_moments() has it: a lane has four neighbours of a slice, at one
     * time, and eight lanes (or four) the slice. */
    const unsigned sharers = rows / 4, at = threadIdx.x / sharers;
    const unsigned slice = at / TILE, begin = slice * rows;
    const int exist = begin < n ? min (rows, n - begin) : rows;
    const int k = threadIdx.x % sharers * 4;
    const bool full = n % rows == 0;
    float2 m[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float v = *place (values, begin + k + i, at % TILE);
      m[i] = make_float2 (k + i < exist ? v : 0.0f, 0.0f);
    }
    join (m[0], m[1], k, 1, exist, full);
    join (m[2], m[3], k + 2, 1, exist, full);
    join (m[0], m[2], k, 2, exist, full);
#pragma unroll
    for (int half = 4; half < 32; half *= 2) {
      const float2 other =
          make_float2 (__shfl_xor_sync (FULL_WARP, m[0].x, half / 4),
              __shfl_xor_sync (FULL_WARP, m[0].y, half / 4));
      if (half < rows)
        join (m[0], other, k & -half, half, exist, full);
    }
    if (k == 0 && begin < n)
      moments[(slice0 + slice) * TILE + at % TILE] = m[0];
  }

  /* own: the first of `half` channels that m is of; the other's are those that
   * they share twice as many with; n exist, or all of them */
  static __device__ void
  join (float2 &m, const float2 &other, int own, int half, int n, bool full)
  {
    if (full)
      join_two (m, other, half, half);
    else
      join_two (m, other, min (max (n - own, 0), half),
          min (max (n - (own ^ half), 0), half));
  }

  /* Where a value is in shared memory: its four times are elsewhere in each eight
   * rows, so that every fourth row at one time is in another bank. */
  static __device__ float *
  place (float (*values)[STRIDE], unsigned row, unsigned t)
  {
    return values[row] + (t + row / 8 * 4) % TILE;
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
  const Scale scale (p, threadIdx.x);

  if (threadIdx.x < ENTRY_WORDS)
    ((unsigned *)(p.entries + blockIdx.x))[threadIdx.x] =
        received[threadIdx.x] = from[threadIdx.x];
  if (threadIdx.x == 0)
    p.status[blockIdx.x] = 0;
  __syncthreads ();
  const MimiEntry &entry = *(const MimiEntry *)received;
  const char *row = (const char *)p.rows + (size_t)blockIdx.x * p.row_bytes;
  float *vector = p.vector + (size_t)blockIdx.x * p.vector_stride;
  if (entry.state == 0)
    return;
  if (entry.kind == MIMI_CUDA_CODES)
    add_codebooks (p, entry, (const unsigned short *)row, vector);
  else
    for (unsigned i = threadIdx.x; i < get_length (p, entry); i += blockDim.x)
      vector[i] = (i == threadIdx.x ? scale : Scale (p, i))
                      .apply (entry, ((const float *)row)[i]);
}

/* Grid: (slices, entries). */
extern "C" __global__ void
__launch_bounds__ (MIMI_CUDA_THREADS)
    mimi_front (const __grid_constant__ MimiFrontArgs p)
{
  __shared__ __align__ (16) float values[Front::CHANNELS][Front::STRIDE];

  launch_dependents ();
  Front front (p, blockIdx.x << p.slice_log2, 1u << p.slice_log2);
  wait_for_inputs ();
  const MimiEntry entry = p.entries[blockIdx.y];
  const float *vector = p.vector + (size_t)blockIdx.y * p.vector_stride;
  if (entry.state != 0)
    front.finish (entry, blockIdx.y, vector, vector - p.vector_stride,
        front.recall (entry), values);
}

/* The first block of the cluster fetches entry and row, and shares them out, what
 * is not codes as it is to be projected; and where the entry follows another, that
 * one's row too, though it crosses the bus again: another cluster has it, and
 * waiting for that one would be a launch more. It lets the next kernel begin when
 * the entry is there: that one's weights were in the way of the history.
 * Grid: (8, entries); a cluster an entry. */
extern "C" __global__ void
__launch_bounds__ (MIMI_CUDA_THREADS)
    mimi_enter (const __grid_constant__ MimiEnterArgs args)
{
#if __CUDA_ARCH__ >= 900
  __shared__ __align__ (16) unsigned received[ENTRY_WORDS];
  __shared__ __align__ (16) float values[Front::CHANNELS][Front::STRIDE];
  /* The vector, then the row, then the same of the frame before. */
  extern __shared__ __align__ (16) float vector[];

  const MimiInputArgs &p = args.input;
  const unsigned rank = blockIdx.x, index = blockIdx.y, tid = threadIdx.x;
  float *row = vector + p.vector_stride, *last = row + p.row_bytes / 4;
  float *last_row = last + p.vector_stride;
  const unsigned *from = (const unsigned *)(p.from + index);
  const unsigned *from_row =
      (const unsigned *)((const char *)p.rows + (size_t)index * p.row_bytes);
  /* The first warp has the entry, the others the row, whose kind is in the entry.
   * The only row of a step is asked for before that is known, as one of the usual
   * kind: the bus takes a microsecond each time. */
  const unsigned usual = (p.usual_bytes + 3) / 4, at = tid - 32;
  unsigned word = 0;

  cluster_begin ();
  if (rank == 0 && tid < ENTRY_WORDS)
    word = from[tid];
  else if (rank == 0 && at < usual)
    word = from_row[at];
  ask_first ();
  const Scale scale (p, at);
  Front front (args.front, min (rank * Front::CHANNELS, args.front.width - 1),
      Front::CHANNELS);
  if (rank == 0) {
    if (tid < ENTRY_WORDS)
      received[tid] = word;
    __syncthreads ();
    const MimiEntry &entry = *(const MimiEntry *)received;
    const bool is_codes = entry.kind == MIMI_CUDA_CODES;
    const unsigned words = entry.state == 0 ? 0
                           : is_codes       ? (entry.n_codes + 1) / 2
                                            : get_length (p, entry);
    /* Both rows at once: they are of one kind. */
    const unsigned all = entry.follows ? 2 * words : words;
    launch_dependents ();
    cluster_wait ();
    if (tid < ENTRY_WORDS)
      for (unsigned other = 1; other < MIMI_CUDA_RANKS; other++)
        store_remote (remote (received + tid, other), __uint_as_float (word));
    if (tid < ENTRY_WORDS)
      ((unsigned *)(p.entries + index))[tid] = word;
    if (tid == 0)
      p.status[index] = 0;
    for (unsigned i = at; tid >= 32 && i < all; i += MIMI_CUDA_THREADS - 32) {
      const bool older = i >= words;
      const unsigned k = older ? i - words : i;
      float *to = is_codes ? older ? last_row : row : older ? last : vector;
      if (i >= usual)
        word = (older ? from_row - p.row_bytes / 4 : from_row)[k];
      float x = __uint_as_float (word);
      if (!is_codes)
        x = (k == at ? scale : Scale (p, k)).apply (entry, x);
      for (unsigned other = 0; other < MIMI_CUDA_RANKS; other++)
        store_remote (remote (to + k, other), x);
    }
  } else {
    launch_dependents ();
    cluster_wait ();
  }
  cluster_arrive ();
  cluster_wait ();

  const MimiEntry entry = *(const MimiEntry *)received;
  if (entry.state == 0)
    return;
  const float before = front.recall (entry);
  if (entry.kind == MIMI_CUDA_CODES) {
    add_codebooks (p, entry, (const unsigned short *)row, vector);
    if (entry.follows)
      add_codebooks (p, entry, (const unsigned short *)last_row, last);
    __syncthreads ();
  }
  if (rank * Front::CHANNELS < args.front.width)
    front.finish (entry, index, vector, last, before, values);
  for (unsigned first = (rank + MIMI_CUDA_RANKS) * Front::CHANNELS;
       first < args.front.width; first += MIMI_CUDA_RANKS * Front::CHANNELS) {
    __syncthreads ();
    Front more (args.front, first, Front::CHANNELS);
    more.finish (entry, index, vector, last, more.recall (entry), values);
  }
#endif
}
