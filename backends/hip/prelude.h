/* prelude.h - before the kernels of a unit for HIP or CUDA: what the two spell differently.  hipcc, nvcc, hiprtc and NVRTC
 * read it; the run-time compilers have no headers and need none. */
#if !defined(__CUDACC__) && !defined(__HIPCC_RTC__)
#include <hip/hip_runtime.h>
#endif

typedef unsigned int uint;

static __device__ inline float accel_as_float(uint x) { return __uint_as_float(x); }
static __device__ inline float accel_as_float(int x) { return __int_as_float(x); }
static __device__ inline uint accel_as_uint(float x) { return __float_as_uint(x); }
static __device__ inline uint accel_as_uint(int x) { return static_cast<uint>(x); }
static __device__ inline int accel_as_int(float x) { return __float_as_int(x); }
static __device__ inline int accel_as_int(uint x) { return static_cast<int>(x); }

#if defined(__CUDACC__)
static __device__ inline float accel_half(uint x) {
  float y;
  asm("{ .reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h; }" : "=f"(y) : "r"(x));
  return y;
}
static __device__ inline uint accel_to_half(float x) {
  uint y;
  asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h; }" : "=r"(y) : "f"(x));
  return y;
}
#else
static __device__ inline float accel_half(uint x) {
  return static_cast<float>(__builtin_bit_cast(_Float16, static_cast<unsigned short>(x)));
}
static __device__ inline uint accel_to_half(float x) { return __builtin_bit_cast(unsigned short, static_cast<_Float16>(x)); }
#endif
