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
    float old)
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
    return { gelu (y, p.gelu_tanh), y };
  if (EPILOGUE == CONV || EPILOGUE == SKIP)
    return { elu (y), y };
  return { y, y };
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
