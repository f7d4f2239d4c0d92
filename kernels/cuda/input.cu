/* Rows from the host, and the way to the transformer's width.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "common.cuh"

/* Takes the entries and rows out of host memory, once: these are all the bytes
 * that cross the bus upwards. Denormalises latents, or adds up the codebook
 * rows of the semantic book and of the acoustic ones.
 * Grid: (entries); one block an entry. */
extern "C" __global__ void
__launch_bounds__ (MIMI_CUDA_THREADS)
    mimi_input (const __grid_constant__ MimiInputArgs p)
{
  launch_dependents ();
  wait_for_inputs ();
  const MimiEntry entry = p.from[blockIdx.x];
  const void *row = (const char *)p.rows + (size_t)blockIdx.x * p.row_bytes;
  float *vector = p.vector + (size_t)blockIdx.x * p.vector_stride;

  if (threadIdx.x == 0) {
    p.entries[blockIdx.x] = entry;
    p.status[blockIdx.x] = 0;
  }
  if (entry.state == 0)
    return;

  if (entry.kind == MIMI_CUDA_CODES) {
    const unsigned short *codes = (const unsigned short *)row;
    for (unsigned d = threadIdx.x; d < 2 * p.book_dim; d += blockDim.x) {
      const bool rest = d >= p.book_dim;
      const unsigned end = rest ? entry.n_codes : 1;
      float sum = 0.0f;
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
      const float x = values[i];
      vector[i] =
          entry.kind == MIMI_CUDA_NORMALIZED ? x * p.std[i] + p.mean[i] : x;
    }
  }
}

/* Projection and upsampling: a depthwise transposed convolution whose kernel
 * is twice its stride, so each output sees this frame's value and the last's.
 * Grid: (channels / 8, entries); a warp a channel. */
extern "C" __global__ void
__launch_bounds__ (MIMI_CUDA_THREADS)
    mimi_front (const __grid_constant__ MimiFrontArgs p)
{
  launch_dependents ();
  wait_for_inputs ();
  const MimiEntry entry = p.entries[blockIdx.y];
  const unsigned lane = threadIdx.x & 31;
  const unsigned c = blockIdx.x * (MIMI_CUDA_THREADS / 32) + threadIdx.x / 32;
  const float *vector = p.vector + (size_t)blockIdx.y * p.vector_stride;

  if (entry.state == 0 || c >= p.width)
    return;

  float now = 0.0f;
  if (entry.kind == MIMI_CUDA_EMBEDDING) {
    now = vector[c];
  } else {
    for (unsigned k = lane; k < p.length; k += 32)
      now += __ldg (p.projection + c * p.length + k) * vector[k];
#pragma unroll
    for (unsigned other = 16; other > 0; other >>= 1)
      now += __shfl_xor_sync (FULL_WARP, now, other);
  }

  const float before =
      entry.frame == 0 ? 0.0f : history_read (entry, p.history, p.width)[c];
  if (lane == 0)
    history_write (entry, p.history, p.width)[c] = now;
  if (lane < p.times) {
    const float *filter = p.upsample + c * 2 * p.times;
    p.out[(size_t)blockIdx.y * p.out_stride + c * TILE + lane] =
        now * __ldg (filter + lane) + before * __ldg (filter + p.times + lane);
  }
}
