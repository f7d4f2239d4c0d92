/* All layers of a small transformer in one launch, from 9.0 on.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Layers so small take less time than it takes to go from one kernel to the
 * next, five times each. Here a cluster of eight blocks goes through all of
 * them, and whatever leaves a block goes by way of shared memory:
 *
 *   x       each block owns two times of the residual stream, in registers. It
 *           normalises them and sends them to all blocks
 *   qkv     a block makes 16 channels of queries, keys and values, and sends
 *           them to the blocks of its head: those share the queries
 *   mixed   what its queries find, in a block, is multiplied with what of `out`
 *           has its channels, and the sums go to the owners of their times
 *   hidden  so with the FFN: a block makes a share of its channels, and
 *           multiplies them
 *
 * Five cluster barriers a layer; the weights of each product are on their way
 * since two or three before it. Every sum is made in the order in which the
 * kernels of a layer each make it (spread.cuh, attention.cu, moments.cuh), so
 * that it has the same bits.
 */
#include "layer.cuh"

/* One block's share of all layers. */
template <int WIDTH, int DIM, typename Raw, int PRODUCTS>
struct Layers : LayersBlock<WIDTH, DIM> {
  using Base = LayersBlock<WIDTH, DIM>;
  using Base::ffn1, Base::window, Base::blocks, Base::overflow;
  using Base::in_layer, Base::send;
  using Base::p, Base::room, Base::rank, Base::lane, Base::warp, Base::head;
  using Base::rank0, Base::query0, Base::attends, Base::expands, Base::qkv;
  using typename Base::Pair;
  static constexpr unsigned SHARE = Base::SHARE, TAKEN = Base::TAKEN,
                            STEPS = Base::STEPS, HIDDEN = Base::HIDDEN;

  /* Weights of products to come. */
  Raw a[4 * STEPS], out[DIM / 8], ffn2[4 * STEPS];

  __device__
  Layers (const MimiLayersArgs &args, float *shared)
      : Base (args, shared)
  {
  }

  /* Weights, of a product to come: of a group of 16 outputs, from a step of 8
   * channels on. */
  template <unsigned N>
  __device__ void
  load (const void *of_first, unsigned layer, unsigned group, unsigned steps,
      unsigned step, Raw (&to)[N])
  {
    const Raw *from = in_layer (
        (const Raw *)of_first + (group * steps + step) * 32 + lane, layer);
#pragma unroll
    for (unsigned i = 0; i < N; i++)
      load_now (from + i * 32, to[i]);
  }

  __device__ void
  load_pair (
      const Pair &pair, const void *of_first, unsigned layer, unsigned group)
  {
    if (pair.exists)
      load (of_first, layer, group, WIDTH / 8, pair.last * 4 * STEPS, a);
  }

  __device__ void
  load_qkv (unsigned layer)
  {
    load_pair (qkv, p.qkv, layer, qkv.group * (WIDTH / 16) + rank);
  }

  __device__ void
  load_ffn1 (unsigned layer)
  {
    load_pair (ffn1, p.ffn1, layer, rank * (HIDDEN / 16) + ffn1.group);
  }

  __device__ void
  load_out (unsigned layer)
  {
    if (attends && warp < WIDTH / 16)
      load (p.out, layer, warp, WIDTH / 8, head * (DIM / 8), out);
  }

  __device__ void
  load_ffn2 (unsigned layer)
  {
    if (expands && warp < WIDTH / 16)
      load (p.ffn2, layer, warp, p.ffn / 8, rank * 4 * STEPS, ffn2);
  }

  /* x times 16 outputs: one warp has the first four parts of the channels,
   * another the last four, for both halves of the times. Each finishes one half
   * with the other's parts of it.
   * value: of output lane / 4 and 8 more, times 2 (lane % 4) and 1 more of the
   * warp's half, the first if it has the first parts */
  __device__ void
  multiply_pair (const Pair &pair, float (&value)[2][2])
  {
    const float *own =
        room.x[pair.last * 8 + lane / 4] + pair.last * 32 * STEPS + lane % 4;
    const float *others =
        pair.last ? own - 8 * (WIDTH + 4) : own + 8 * (WIDTH + 4);
    float2 (*const handed)[8][32] = room.handed[pair.group];
    float sum[4][4];

    if (pair.exists)
#pragma unroll
      for (unsigned part = 0; part < 4; part++) {
        Sums sums[2] = {};
#pragma unroll
        for (unsigned s = part * STEPS; s < (part + 1) * STEPS; s++) {
          const Inputs in[] = { split_inputs (own[s * 8], own[s * 8 + 4]),
            split_inputs (others[s * 8], others[s * 8 + 4]) };
          add_products<PRODUCTS> (sums, split_weights<PRODUCTS> (a[s]), in);
        }
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
          sum[part][i] = sums[0].large[i] + sums[0].small[i];
#pragma unroll
        for (unsigned i = 0; i < 2; i++)
          handed[!pair.last][part * 2 + i][lane] =
              make_float2 (sums[1].large[2 * i] + sums[1].small[2 * i],
                  sums[1].large[2 * i + 1] + sums[1].small[2 * i + 1]);
      }
    __syncthreads ();
    if (!pair.exists)
      return;
    float2 theirs[4][2];
#pragma unroll
    for (unsigned part = 0; part < 4; part++)
#pragma unroll
      for (unsigned i = 0; i < 2; i++)
        theirs[part][i] = handed[pair.last][part * 2 + i][lane];
#pragma unroll
    for (unsigned i = 0; i < 2; i++) { /* in order, whoever has which */
      value[i][0] = value[i][1] = 0.0f;
      if (pair.last)
        add_parts (theirs, i, value[i]);
#pragma unroll
      for (unsigned part = 0; part < 4; part++)
#pragma unroll
        for (unsigned j = 0; j < 2; j++)
          value[i][j] += sum[part][2 * i + j];
      if (!pair.last)
        add_parts (theirs, i, value[i]);
    }
  }

  static __device__ void
  add_parts (const float2 (&parts)[4][2], unsigned i, float (&value)[2])
  {
#pragma unroll
    for (unsigned part = 0; part < 4; part++) {
      value[0] += parts[part][i].x;
      value[1] += parts[part][i].y;
    }
  }

  /* Queries to the blocks that take them, keys and values to all of the head's.
   * value: of channels lane / 4 and 8 more, two times */
  __device__ void
  make_qkv (float (&value)[2][2])
  {
    multiply_pair (qkv, value);
    if (!qkv.exists)
      return;
    const unsigned t = qkv.last * 8 + lane % 4 * 2;
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
      const unsigned d = rank % SHARE * 16 + lane / 4 + 8 * i;
#pragma unroll
      for (unsigned j = 0; j < 2; j++) {
        const float partner = __shfl_xor_sync (FULL_WARP, value[i][j], 4);
        const float2 turn = qkv.group == 2
                                ? make_float2 (0, 1)
                                : room.turns[qkv.last][i * 2 + j][lane];
        value[i][j] = fmaf (partner, turn.x, value[i][j] * turn.y);
        overflow |= overflows (value[i][j]);
      }
      if (qkv.group == 0) {
        const float unit = 1.44269504f * rsqrtf ((float)DIM);
        store_remote (
            remote (&room.query[t % TAKEN / 4][d][t % 4], rank0 + t / TAKEN),
            unit * value[i][0], unit * value[i][1]);
      } else if (qkv.group == 1) {
        float *place = window.keys + blocks * Window<DIM>::KEYS +
                       Window<DIM>::key_place (d, t);
        *(float2 *)place = make_float2 (value[i][0], value[i][1]);
#pragma unroll
        for (unsigned j = 1; j < SHARE; j++)
          store_remote (remote (place, rank0 + (rank + j) % SHARE), value[i][0],
              value[i][1]);
      } else {
        float *place =
            window.values + blocks * Window<DIM>::VALUES + t * DIM + d;
        place[0] = value[i][0];
        place[DIM] = value[i][1];
#pragma unroll
        for (unsigned j = 1; j < SHARE; j++) {
          const unsigned there = remote (place, rank0 + (rank + j) % SHARE);
          store_remote (there, value[i][0]);
          store_remote (there + DIM * sizeof (float), value[i][1]);
        }
      }
    }
  }

  __device__ void
  project_mixed ()
  {
    if (warp >= WIDTH / 16)
      return;
#pragma unroll
    for (unsigned which = 0; which < DIM / 32; which++) {
      float sum[4] = {};
#pragma unroll
      for (unsigned part = 4 * which; part < 4 * which + 4; part++) {
        const float2 *at = room.mixed[lane / 4 % TAKEN] + part * 8 + lane % 4;
        Inputs in[] = { { { at[0].x, at[4].x }, { at[0].y, at[4].y } } };
        Sums sums[1] = {};
        add_products<PRODUCTS> (sums, split_weights<PRODUCTS> (out[part]), in);
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
          sum[i] += sums[0].large[i] + sums[0].small[i];
      }
      if (lane % 4 * 2 < TAKEN)
        send (sum, head * (DIM / 32) + which, query0 + lane % 4 * 2);
    }
  }

  __device__ void
  make_hidden ()
  {
    float value[2][2];

    multiply_pair (ffn1, value);
    if (ffn1.exists)
#pragma unroll
      for (unsigned i = 0; i < 2; i++)
#pragma unroll
        for (unsigned j = 0; j < 2; j++) {
          overflow |= overflows (value[i][j]);
          room.hidden[ffn1.last * 8 + lane % 4 * 2 + j]
                     [ffn1.group * 16 + lane / 4 + 8 * i] =
              split (gelu (value[i][j], p.gelu_tanh));
        }
    __syncthreads ();
  }

  __device__ void
  project_hidden ()
  {
    float sum[2][4] = {};

    if (warp >= WIDTH / 16)
      return;
#pragma unroll
    for (unsigned part = 0; part < 4; part++) {
      Sums sums[2] = {};
#pragma unroll
      for (unsigned s = part * STEPS; s < (part + 1) * STEPS; s++) {
        Inputs in[2];
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
          const float2 *at = room.hidden[h * 8 + lane / 4] + s * 8 + lane % 4;
          in[h] = { { at[0].x, at[4].x }, { at[0].y, at[4].y } };
        }
        add_products<PRODUCTS> (sums, split_weights<PRODUCTS> (ffn2[s]), in);
      }
#pragma unroll
      for (unsigned h = 0; h < 2; h++)
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
          sum[h][i] += sums[h].large[i] + sums[h].small[i];
    }
#pragma unroll
    for (unsigned h = 0; h < 2; h++)
      send (sum[h], rank, h * 8 + lane % 4 * 2);
  }

  /* Between arriving and waiting is the time to ask for what comes later: what
   * a barrier releases, all that came before, has to have arrived. */
  __device__ void
  run (unsigned layer)
  {
    const bool more = layer + 1 < p.n_layers;
    const unsigned n_expand = p.ffn / HIDDEN;
    float value[2][2];

    this->normalise (MIMI_CUDA_RANKS);
    cluster_arrive ();
    this->load_norm (p.norm2, layer);
    this->load_scale (p.scale1, layer);
    if (layer > 0)
      load_out (layer);
    cluster_wait ();
    if (attends)
      make_qkv (value);
    wait_for_copies ();
    cluster_arrive ();
    load_ffn1 (layer);
    this->keep (layer, value);
    cluster_wait ();
    if (attends) {
      this->attend ();
      project_mixed ();
    }
    cluster_arrive ();
    load_ffn2 (layer);
    if (more)
      this->load_window (layer + 1);
    cluster_wait ();
    this->add (WIDTH / 32);
    this->normalise (n_expand);
    cluster_arrive ();
    this->load_scale (p.scale2, layer);
    if (more)
      this->load_norm (p.norm1, layer + 1);
    cluster_wait ();
    if (expands) {
      make_hidden ();
      project_hidden ();
    }
    cluster_arrive ();
    if (more)
      load_qkv (layer + 1);
    cluster_wait ();
    this->add (n_expand);
  }
};

/* The block's entry, asked for again where it is needed: registers are few. */
static __device__ unsigned
get_index ()
{
  unsigned index;
  asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(index));
  return index;
}

/* Where the residual stream has what a thread owns, an even time and the next. */
static __device__ float2 *
get_stream (const MimiLayersArgs &p)
{
  return (float2 *)(p.residual + (size_t)get_index () * p.stride +
                    threadIdx.x * TILE + 2 * blockIdx.x);
}

/* Grid: (8, entries); a cluster an entry. */
template <int WIDTH, int DIM, typename Raw, int PRODUCTS>
static __device__ void
layers (const MimiLayersArgs &p)
{
  extern __shared__ __align__ (16) float shared[];
  Layers<WIDTH, DIM, Raw, PRODUCTS> all (p, shared);

  cluster_begin ();
  all.load_qkv (0);
  all.load_out (0);
  all.load_norm (p.norm1, 0);
  wait_for_inputs ();
  /* Those that follow read the entries before they wait: none may begin before
   * the kernel in front, which writes them, has ended. */
  launch_dependents ();
  const MimiEntry entry = p.entries[get_index ()];
  if (entry.state == 0) {
    cluster_wait ();
    return;
  }
  if (all.owns) {
    const float2 now = *get_stream (p);
    all.y[0] = now.x;
    all.y[1] = now.y;
  }
  all.begin_frame (entry);
  all.load_window (0);
  cluster_wait ();
#pragma unroll 1
  for (unsigned layer = 0; layer < p.n_layers; layer++)
    all.run (layer);
  if (all.owns)
    *get_stream (p) = make_float2 (all.y[0], all.y[1]);
  if (all.overflow)
    atomicOr (p.status + get_index (), 1u);
}

#define LAYERS(width, dim, name, ...) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS, 1) \
      mimi_layers_##width##_##dim##_##name ( \
          const __grid_constant__ MimiLayersArgs p) \
  { \
    layers<width, dim, __VA_ARGS__> (p); \
  }

LAYERS (128, 32, f32, uint4, 3)
LAYERS (128, 32, bf16, uint2, 2)
LAYERS (64, 64, f32, uint4, 3) /* the networks of most tests */
LAYERS (64, 64, bf16, uint2, 2)
