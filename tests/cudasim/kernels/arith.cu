/* One result for each kind of instruction, to be compared with plain C
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <cuda_bf16.h>

/* out is [case][n]: the test knows the same cases by the same numbers. */
extern "C" __global__ void
floats (const float *a, const float *b, const float *c, float *out, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float x = a[i], y = b[i], z = c[i], r;
  int k = 0;
#define OUT(e) out[k++ * n + i] = (e)
  OUT (x + y);
  OUT (__fsub_rn (__fmul_rn (x, y), z));
  OUT (fmaf (x, y, z));
  OUT (x / y);
  OUT (sqrtf (fabsf (x)));
  OUT (1.0f / x);
  OUT (rsqrtf (fabsf (x)));
  OUT (fminf (x, y));
  OUT (fmaxf (x, z));
  OUT (expf (x));
  OUT (exp2f (x));
  OUT (expm1f (x));
  OUT (logf (fabsf (x)));
  OUT (sinf (x * 100));
  OUT (cosf (x * 1e6f));
  OUT (sinpif (x));
  OUT (tanhf (x));
  OUT (erff (x));
  OUT (floorf (x * 10));
  OUT (rintf (x * 10));
  OUT (truncf (x * 10));
  OUT (ceilf (x * 10));
  OUT (copysignf (x, y));
  OUT (x > y ? x : z);
  OUT (__expf (x));
  OUT (__fdividef (x, y));
  OUT (__saturatef (x));
  OUT (powf (fabsf (x), y));
  OUT ((float)(int)(x * 1000));
  OUT ((float)__float2int_rn (x * 1000));
  OUT ((float)__float2int_rd (x * 1000));
  OUT ((float)(short)__float2int_rn (x * 40000));
  OUT ((float)(unsigned)fabsf (x * 1e9f));
  OUT ((float)(long long)(x * 1e12f));
  OUT (__bfloat162float (__float2bfloat16 (x)));
  OUT ((float)((double)x * (double)y + 1e-9));
  OUT (__fadd_rz (x, y));
  OUT (__fmul_rd (x, y));
  OUT (__fmaf_ru (x, y, z));
  OUT (__fsqrt_rn (y * y));
  r = 0;
  for (int j = 0; j < (i & 15); j++)
    r = r * x + (j & 1 ? y : z);
  OUT (r);
  OUT (x != x || y > 1e30f ? 1.0f : 2.0f);
  OUT (fmodf (x * 100, fabsf (y) + 1));
  OUT (__int_as_float (__float_as_int (x) & 0xffffe000));
#undef OUT
}

extern "C" __global__ void
integers (const int *a, const int *b, long long *out, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  int x = a[i], y = b[i], k = 0;
  unsigned ux = (unsigned)x, uy = (unsigned)y;
  long long lx = ((long long)x << 20) ^ y, ly = ((long long)y << 3) + 1;
  short sx = (short)x, sy = (short)y;
  unsigned char cx = (unsigned char)x;
#define OUT(e) out[k++ * n + i] = (long long)(e)
  OUT (x + y);
  OUT (x * y);
  OUT (__mulhi (x, y));
  OUT (__umulhi (ux, uy));
  OUT (__mul64hi (lx, ly));
  OUT ((long long)x * y);
  OUT ((unsigned long long)ux * uy + 5);
  OUT (x / (y | 1));
  OUT (x % (y | 1));
  OUT (ux / (uy | 1));
  OUT (ux % (uy | 1));
  OUT (lx / ly);
  OUT (lx % ly);
  OUT ((unsigned long long)lx / (unsigned long long)ly);
  OUT (x << (y & 31));
  OUT (x >> (y & 31));
  OUT (ux >> (y & 31));
  OUT (lx << (y & 63));
  OUT (lx >> (y & 63));
  OUT ((x & y) | (x ^ ~y));
  OUT (__popc (ux));
  OUT (__popcll ((unsigned long long)lx));
  OUT (__clz (x));
  OUT (__clzll (lx));
  OUT (__brev (ux));
  OUT (__ffs (x));
  OUT (__byte_perm (ux, uy, 0x5410));
  OUT (__byte_perm (ux, uy, 0x7362));
  OUT (__byte_perm (ux, uy, uy & 0x7777));
  OUT (__funnelshift_l (ux, uy, 9));
  OUT (__funnelshift_r (ux, uy, uy));
  OUT (min (x, y));
  OUT (max (ux, uy));
  OUT (abs (x));
  OUT (sx * sy);
  OUT ((short)(sx + sy));
  OUT ((unsigned char)(cx + 200));
  OUT ((signed char)x);
  OUT (x < y ? lx : ly);
  OUT (ux < uy);
  OUT ((ux >> 5) & 0x3ff);
  OUT ((x << 12) >> 20);
  OUT (__usad (ux, uy, 3));
  OUT (((ux & 0xff00) | (uy & 0x00ff)) ^ 0x1234);
  switch (x & 7) {
    case 0:
      k = k;
      OUT (11);
      break;
    case 1:
      OUT (y);
      break;
    case 2:
      OUT (x - y);
      break;
    case 5:
      OUT (x * 3);
      break;
    default:
      OUT (-1);
  }
#undef OUT
}

/* Bits in, bits out: every PTX form that C does not make by itself. */
extern "C" __global__ void
forms (const unsigned *a, const unsigned *b, unsigned *out, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  unsigned x = a[i], y = b[i], r;
  unsigned long long w;
  unsigned short h;
  int k = 0;
#define OUT(e) out[k++ * n + i] = (e)
  asm("bfe.u32 %0, %1, %2, %3;"
      : "=r"(r)
      : "r"(x), "r"(y & 63), "r"(y >> 8 & 63));
  OUT (r);
  asm("bfe.s32 %0, %1, %2, %3;"
      : "=r"(r)
      : "r"(x), "r"(y & 63), "r"(y >> 8 & 63));
  OUT (r);
  asm("bfi.b32 %0, %1, %2, %3, %4;"
      : "=r"(r)
      : "r"(x), "r"(y), "r"(y & 63), "r"(x >> 8 & 63));
  OUT (r);
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(x), "r"(y), "r"(i));
  OUT (r);
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(r) : "r"(x), "r"(y), "r"(i));
  OUT (r);
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(0xba98));
  OUT (r);
  asm("bfind.u32 %0, %1;" : "=r"(r) : "r"(x));
  OUT (r);
  asm("{.reg .pred p, q; setp.lt.and.u32 p|q, %1, %2, 1; selp.u32 %0, 1, 2, p; "
      "@q add.u32 %0, %0, 10;}"
      : "=r"(r)
      : "r"(x), "r"(y));
  OUT (r);
  asm("{.reg .b32 t; mov.b64 {t, %0}, %1;}"
      : "=r"(r)
      : "l"((unsigned long long)x << 32 | y));
  OUT (r);
  asm("mov.b64 %0, {%1, %2};" : "=l"(w) : "r"(x), "r"(y));
  OUT ((unsigned)(w >> 16));
  asm("{.reg .b16 l, m; mov.b32 {l, m}, %1; mov.b32 %0, {m, l};}"
      : "=r"(r)
      : "r"(x));
  OUT (r);
  asm("cvt.sat.u8.s32 %0, %1;" : "=r"(r) : "r"((int)x >> 20));
  OUT (r & 255);
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(r) : "f"(__int_as_float (x)));
  OUT (r);
  asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(r) : "f"(__int_as_float (x)));
  OUT (r);
  asm("shf.l.clamp.b32 %0, %1, %2, %3;"
      : "=r"(r)
      : "r"(x), "r"(y), "r"(y & 63));
  OUT (r);
  asm("set.lt.u32.f32 %0, %1, %2;"
      : "=r"(r)
      : "f"(__int_as_float (x)), "f"(__int_as_float (y)));
  OUT (r);
  asm("{.reg .pred p0; testp.finite.f32 p0, %1; selp.u32 %0, 1, 0, p0;}"
      : "=r"(r)
      : "f"(__int_as_float (x)));
  OUT (r);
  asm("shr.s16 %0, %1, %2;" : "=h"(h) : "h"((unsigned short)x), "r"(y & 31));
  OUT (h);
  asm("mul.hi.u16 %0, %1, %2;"
      : "=h"(h)
      : "h"((unsigned short)x), "h"((unsigned short)y));
  OUT (h);
  asm("mul.hi.s16 %0, %1, %2;"
      : "=h"(h)
      : "h"((unsigned short)x), "h"((unsigned short)y));
  OUT (h);
#undef OUT
}
