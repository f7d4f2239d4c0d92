/* What happens to a product's outputs: everything up to the next input.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "common.cuh"

enum Prologue { AS_IS, NORM, ELU };
enum Epilogue { QKV, RESIDUAL, GELU, CONV, UP, SKIP };

static __device__ float
gelu (float x, bool tanh_form)
{
  if (tanh_form) /* 1/2 (1 + tanh u) is the logistic function of 2 u */
    return x / (1.0f + expf (-1.5957691216f * fmaf (0.044715f * x * x, x, x)));
  return 0.5f * x * (1.0f + erff (x * 0.70710678f));
}

/* What is known of output n of time t before its sum is. */
struct Place {
  float *to;
  float bias; /* what is added to the sum, or multiplied with it */
  float sine, cosine;
};

template <Epilogue EPILOGUE>
static __device__ Place
find_place (const MimiGemmArgs &p, const MimiEntry &entry, unsigned index,
    unsigned tile, unsigned n, unsigned t)
{
  float *out = p.out + (size_t)index * p.out_stride;
  Place place = { out + ((size_t)tile * p.outputs + n) * TILE + t, 0, 0, 1 };

  if (EPILOGUE == QKV) {
    const unsigned width = p.outputs / 3, which = n / width;
    const unsigned c = n % width, head = c / p.head_dim, d = c % p.head_dim;
    const unsigned long long position = entry.frame * p.times + t;
    if (which < 2) {
      /* The angle as a fraction of a turn, exact at any position. */
      const int turn = (int)(position * __ldg (p.rope + d / 2) >> 32);
      sincospif (turn * 0x1p-31f, &place.sine, &place.cosine);
      place.sine = d % 2 ? place.sine : -place.sine;
    }
    if (which > 0) {
      const unsigned slot = (unsigned)(position / TILE % p.ring_blocks);
      const unsigned column = (unsigned)(position % TILE);
      float *block = (float *)entry.state + p.ring +
                     (which == 2 ? width * p.ring_blocks * TILE : 0) +
                     (head * p.ring_blocks + slot) * p.head_dim * TILE;
      place.to =
          block + (which == 1 ? d * TILE + column : column * p.head_dim + d);
    }
  } else if (EPILOGUE == UP) {
    /* Row n is channel n / ratio, phase n % ratio. */
    const unsigned c = n / p.ratio, channels = p.outputs / p.ratio;
    const unsigned time = (tile * TILE + t) * p.ratio + n % p.ratio;
    place.to =
        out + ((size_t)(time / TILE) * channels + c) * TILE + time % TILE;
    place.bias = __ldg (p.bias + c);
  } else if (EPILOGUE != GELU) {
    place.bias = __ldg (p.bias + n);
  }
  return place;
}

/* Of four times from t0 on, of which all belong to one tile. A division of 64 bits
 * is dear: where the ring goes on is known from where the first is. */
template <Epilogue EPILOGUE>
static __device__ void
find_places (const MimiGemmArgs &p, const MimiEntry &entry, unsigned index,
    unsigned tile, unsigned n, unsigned t0, Place (&place)[4])
{
  place[0] = find_place<EPILOGUE> (p, entry, index, tile, n, t0);
#pragma unroll
  for (unsigned i = 1; i < 4; i++)
    place[i] = place[0];
  if (EPILOGUE == UP) {
    const unsigned channels = p.outputs / p.ratio;
    const unsigned time = (tile * TILE + t0) * p.ratio + n % p.ratio;
#pragma unroll
    for (unsigned i = 1; i < 4; i++) {
      const unsigned later = time + i * p.ratio;
      place[i].to +=
          (int)((later / TILE - time / TILE) * channels * TILE + later % TILE) -
          (int)(time % TILE);
    }
  } else if (EPILOGUE == QKV) {
    const unsigned width = p.outputs / 3, which = n / width;
    const unsigned d = n % width % p.head_dim;
    const unsigned long long position = entry.frame * p.times + t0;
    if (which < 2) {
      const unsigned long long step = __ldg (p.rope + d / 2);
      unsigned long long angle = position * step;
#pragma unroll
      for (unsigned i = 1; i < 4; i++) {
        angle += step;
        sincospif (
            (int)(angle >> 32) * 0x1p-31f, &place[i].sine, &place[i].cosine);
        place[i].sine = d % 2 ? place[i].sine : -place[i].sine;
      }
    }
    if (which == 0) {
#pragma unroll
      for (unsigned i = 1; i < 4; i++)
        place[i].to += i;
    } else {
      const unsigned column = (unsigned)(position % TILE);
      const float *ring =
          (const float *)entry.state + p.ring +
          (which == 2 ? width * p.ring_blocks * TILE : 0) +
          n % width / p.head_dim * p.ring_blocks * p.head_dim * TILE;
      const int block = (int)(p.head_dim * TILE);
      const bool newest =
          place[0].to - ring >= (int)(p.ring_blocks - 1) * block;
      const int next = newest ? -(int)(p.ring_blocks - 1) * block : block;
#pragma unroll
      for (unsigned i = 1; i < 4; i++) {
        const bool beyond = column + i >= TILE;
        place[i].to +=
            (beyond ? next : 0) +
            (int)(beyond ? i - TILE : i) * (int)(which == 1 ? 1 : p.head_dim);
      }
    }
  } else {
#pragma unroll
    for (unsigned i = 1; i < 4; i++)
      place[i].to += i;
  }
}

template <Epilogue EPILOGUE>
static __device__ void
settle (Place &place)
{
  settle (place.to);
  if (EPILOGUE == QKV) {
    settle (place.sine);
    settle (place.cosine);
  } else if (EPILOGUE != GELU) {
    settle (place.bias);
  }
}

/* An output, and what it was before its activation. */
struct Output {
  float value, before;
};

/* partner: the sum of output n ^ 1, for rotation; old: what is in its place,
 * where the layer adds to it */
template <Epilogue EPILOGUE>
static __device__ Output
complete (const MimiGemmArgs &p, const Place &place, float sum, float partner,
    float old, bool gelu_tanh)
{
  float y = sum;

  if (EPILOGUE ==
      QKV) /* which product is rounded must not be a kernel's choice */
    y = fmaf (partner, place.sine, sum * place.cosine);
  else if (EPILOGUE == RESIDUAL)
    y = fmaf (place.bias, sum, old);
  else if (EPILOGUE == CONV || EPILOGUE == UP)
    y = sum + place.bias;
  else if (EPILOGUE == SKIP)
    y = old + sum + place.bias;
  if (EPILOGUE == GELU)
    return { gelu (y, gelu_tanh), y };
  if (EPILOGUE == CONV || EPILOGUE == SKIP)
    return { elu (y), y };
  return { y, y };
}

template <Epilogue EPILOGUE>
static __device__ Output
complete (const MimiGemmArgs &p, const Place &place, float sum, float partner,
    float old)
{
  return complete<EPILOGUE> (p, place, sum, partner, old, p.gelu_tanh);
}

/* Puts an output where it belongs. Returns what it was before its activation. */
template <Epilogue EPILOGUE>
static __device__ float
finish (const MimiGemmArgs &p, unsigned index, const Place &place, float sum,
    float partner, float old)
{
  const Output y = complete<EPILOGUE> (p, place, sum, partner, old);

  *place.to = y.value;
#if __CUDA_ARCH__ >= 900 /* where there is a kernel that reads it */
  if (EPILOGUE == UP && p.elu_offset)
    place.to[p.elu_offset] = elu (y.before);
#endif
  if (overflows (y.before))
    atomicOr (p.status + index, 1u);
  return y.before;
}
