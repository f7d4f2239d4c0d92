/* What happens to the products of many tiles.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A lane has eight times in a row of an output, which it stores 16 bytes at once.
 * Only phases, which become times, and what moments are made of go through
 * shared memory once more.
 */
#pragma once

#include "batch.cuh"

/* A row of sums: of six phases, neighbours are in different banks. */
#define MANY_SUMS (MANY_COLUMNS + 6)
/* The same of a column, for moments. */
#define MANY_VALUES (MANY_ROWS + 1)

/* Eight times in a row, of which the first `n` exist. */
static __device__ void
load_times (const float *from, float (&v)[8])
{
  *(float4 *)v = *(const float4 *)from;
  *(float4 *)(v + 4) = *(const float4 *)(from + 4);
}

static __device__ void
store_times (float *to, const float (&v)[8], int n, bool aligned)
{
  if (n >= 8 && aligned) {
    *(float4 *)to = *(const float4 *)v;
    *(float4 *)(to + 4) = *(const float4 *)(v + 4);
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i < n)
        to[i] = v[i];
  }
}

/* Rotation: [pair of channels of a head][column] sine and cosine. */
static __device__ void
make_angles (const MimiGemmArgs &p, const ManyTile *tiles, float2 *angles)
{
  const unsigned pairs = p.head_dim / 2;
  for (unsigned i = threadIdx.x; i < pairs * MANY_COLUMNS; i += MANY_THREADS) {
    const unsigned pair = i / MANY_COLUMNS, column = i % MANY_COLUMNS;
    const ManyTile &at = tiles[column / TILE];
    const unsigned long long position =
        p.entries[at.index].frame * p.times + column % TILE;
    const int turn = (int)(position * __ldg (p.rope + pair) >> 32);
    sincospif (turn * 0x1p-31f, &angles[i].x, &angles[i].y);
  }
}

/* sums: [output][MANY_SUMS]; a row is channel n / ratio, phase n % ratio, and
 * phases become times, four of which a thread stores at once. */
static __device__ void
leave_phases (const MimiGemmArgs &p, const ManyTile *tiles, const float *sums,
    unsigned row0)
{
  const unsigned ratio = p.ratio, first = row0 / ratio;
  const unsigned last = min (row0 + MANY_ROWS, p.outputs) - 1;
  const unsigned times = min (p.times, TILE) * ratio, fours = (times + 3) / 4;
  const unsigned n = (last / ratio - first + 1) * MANY_TILES * fours;
  /* Exact for what there is to be divided. */
  const unsigned by_ratio = 65536 / ratio + 1, by_fours = (1 << 20) / fours + 1;
  const size_t plane = (size_t)p.outputs / ratio * TILE;

  for (unsigned i = threadIdx.x; i < n; i += MANY_THREADS) {
    const unsigned place = i * by_fours >> 20, u = (i - place * fours) * 4;
    const unsigned local = place % MANY_TILES, c = first + place / MANY_TILES;
    const unsigned begin = c * ratio; /* its first row */
    const ManyTile &at = tiles[local];
    if (!at.active)
      continue;
    float *to = p.out + (size_t)at.index * p.out_stride +
                (size_t)at.tile * p.outputs * TILE;
    const float bias = __ldg (p.bias + c);
    const bool whole =
        begin >= row0 && begin + ratio - 1 <= last && u + 4 <= times;
    const float *from = sums + (int)(begin - row0) * MANY_SUMS + local * TILE;
    float y[4];
    bool bad = false;
    to += u / TILE * plane + c * TILE + u % TILE;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const unsigned t = (u + j) * by_ratio >> 16, phase = u + j - t * ratio;
      const bool exists = whole || (begin + phase >= row0 &&
                                       begin + phase <= last && u + j < times);
      y[j] = (exists ? from[(int)(phase * MANY_SUMS + t)] : 0.0f) + bias;
      bad |= exists && overflows (y[j]);
      if (exists && !whole) {
        to[j] = y[j];
        if (p.elu_offset)
          to[p.elu_offset + j] = elu (y[j]);
      }
    }
    if (whole) {
      *(float4 *)to = *(const float4 *)y;
      if (p.elu_offset)
        *(float4 *)(to + p.elu_offset) =
            make_float4 (elu (y[0]), elu (y[1]), elu (y[2]), elu (y[3]));
    }
    if (bad)
      atomicOr (p.status + at.index, 1u);
  }
}

/* values: [column][MANY_VALUES] of the residual stream. */
static __device__ void
leave_moments (const MimiGemmArgs &p, const ManyTile *tiles,
    const float *values, unsigned row0)
{
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned slice = 1u << p.slice_log2;

  for (unsigned i = warp * 4; i < MANY_ROWS / 32 * MANY_COLUMNS;
       i += MANY_WARPS * 4) {
    const unsigned column = i % MANY_COLUMNS, local = i / MANY_COLUMNS * 32;
    const unsigned begin = row0 + local + lane / slice * slice;
    const unsigned here = min (p.outputs - min (begin, p.outputs - 1), slice);
    const ManyTile &at = tiles[column / TILE];
    const unsigned count[4] = { here, here, here, here };
    float value[4];
    float2 moments[4];

#pragma unroll
    for (int j = 0; j < 4; j++)
      value[j] = values[(column + j) * MANY_VALUES + local + lane];
    slice_moments (value, slice, count, p.outputs % slice == 0, moments);
    if (lane % slice == 0 && begin < p.outputs && at.active) {
      float2 *to = (float2 *)(p.moments + (size_t)at.index * p.out_stride) +
                   (begin >> p.slice_log2) * TILE + column % TILE;
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (column % TILE + j < p.times)
          to[j] = moments[j];
    }
  }
}

/* Of a warp's 16 GROUPS outputs of two tiles.
 * shared: for phases, or values, or with the angles in it */
template <Epilogue EPILOGUE, int GROUPS, typename Product>
static __device__ void
leave (const MimiGemmArgs &p, const ManyTile *tiles, const Product &product,
    float *shared, unsigned row0, unsigned first, unsigned tile0)
{
  const unsigned lane = threadIdx.x % 32;
  const unsigned local = tile0 + lane % 4 / 2, t0 = lane % 2 * 8;
  const int columns = min (p.times, TILE) - t0; /* that exist, or fewer */
  const ManyTile &at = tiles[local];
  float *out = p.out + (size_t)at.index * p.out_stride;
  float old[2 * GROUPS][8] = {};
  float both[2][8];
  bool bad = false;

  if (EPILOGUE == RESIDUAL || EPILOGUE == SKIP) {
#pragma unroll
    for (int i = 0; i < 2 * GROUPS; i++) {
      const unsigned row = row0 + first + i * 8 + lane / 4;
      if (at.active && row < p.outputs)
        load_times (
            out + ((size_t)at.tile * p.outputs + row) * TILE + t0, old[i]);
    }
    ask_first ();
  }
#pragma unroll
  for (int i = 0; i < 2 * GROUPS; i++) {
    const unsigned here = first + i * 8 + lane / 4;
    const unsigned row = row0 + here;
    const bool exists = at.active && row < p.outputs;
    float y[8];
    if (i % 2 == 0)
      product.get (i / 2, both);
    const float (&v)[8] = both[i % 2];
    if (EPILOGUE == UP) {
#pragma unroll
      for (int j = 0; j < 8; j += 2)
        *(float2 *)(shared + here * MANY_SUMS + local * TILE + t0 + j) =
            make_float2 (v[j], v[j + 1]);
      continue;
    }
    float *to = out + ((size_t)at.tile * p.outputs + row) * TILE;
    bool aligned = true;
    unsigned step = 0; /* from one time to the next, if not one */
    if (EPILOGUE == QKV) {
      const unsigned width = p.outputs / 3, which = row / width;
      const unsigned c = row % width, head = c / p.head_dim;
      const unsigned d = c % p.head_dim;
      if (which < 2) {
        const float2 *angle =
            (const float2 *)shared + d / 2 * MANY_COLUMNS + local * TILE + t0;
#pragma unroll
        for (int j = 0; j < 8; j++) {
          const float partner = __shfl_xor_sync (FULL_WARP, v[j], 4);
          const float sine = d % 2 ? angle[j].x : -angle[j].x;
          y[j] = fmaf (partner, sine, v[j] * angle[j].y);
          bad |= exists && j < columns && overflows (y[j]);
        }
      } else {
#pragma unroll
        for (int j = 0; j < 8; j++) {
          y[j] = v[j];
          bad |= exists && j < columns && overflows (y[j]);
        }
      }
      if (which > 0) {
        const MimiEntry &entry = p.entries[at.index];
        const unsigned long long position = entry.frame * p.times;
        const unsigned slot = (unsigned)(position / TILE % p.ring_blocks);
        const unsigned column = (unsigned)(position % TILE);
        to = (float *)entry.state + p.ring +
             (which == 2 ? width * p.ring_blocks * TILE : 0) +
             (head * p.ring_blocks + slot) * p.head_dim * TILE +
             (which == 1 ? d * TILE + column : column * p.head_dim + d);
        aligned = column == 0;
        step = which == 2 ? p.head_dim : 0;
      }
    } else {
      Place place = {};
      if (EPILOGUE != GELU)
        place.bias = __ldg (p.bias + min (row, p.outputs - 1));
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const Output o = complete<EPILOGUE> (p, place, v[j], 0.0f, old[i][j]);
        bad |= exists && j < columns && overflows (o.before);
        y[j] = o.value;
      }
    }
    if (EPILOGUE == RESIDUAL) {
#pragma unroll
      for (int j = 0; j < 8; j++)
        shared[(local * TILE + t0 + j) * MANY_VALUES + here] = y[j];
    }
    if (!exists)
      continue;
    if (EPILOGUE == QKV && step) {
#pragma unroll
      for (int j = 0; j < 8; j++)
        if (j < columns)
          to[(t0 + j) * step] = y[j];
    } else {
      store_times (to + t0, y, columns, aligned);
    }
  }
  if (bad)
    atomicOr (p.status + at.index, 1u);
  if (EPILOGUE == RESIDUAL || EPILOGUE == UP)
    __syncthreads ();
  if (EPILOGUE == RESIDUAL)
    leave_moments (p, tiles, shared, row0);
  if (EPILOGUE == UP)
    leave_phases (p, tiles, shared, row0);
}
