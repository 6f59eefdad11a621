/* hip_prelude.h - before the kernels of a unit for HIP or CUDA: what the two spell differently.
 * hipcc, nvcc, hiprtc and NVRTC read it; the run-time compilers have no headers and need none. */
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

/* *at where ok, else 0 (EARLY): NVIDIA's compiler would move an ordinary load to where its word is
 * used, behind the products that it should pass. */
#if defined(__CUDACC__)
#define ACCEL_EARLY(T, letter)                                   \
  static __device__ inline T accel_early(bool ok, const T *at) { \
    T word;                                                      \
    asm volatile(                                                \
        "{ .reg .pred ok; setp.ne.u32 ok, %2, 0; mov.b32 %0, 0;" \
        " @ok ld.global.nc.b32 %0, [%1]; }"                      \
        : "=" letter(word)                                       \
        : "l"(at), "r"(static_cast<uint>(ok)));                  \
    return word;                                                 \
  }
#else
#define ACCEL_EARLY(T, letter) \
  static __device__ inline T accel_early(bool ok, const T *at) { return ok ? *at : T(0); }
#endif
ACCEL_EARLY(uint, "r")
ACCEL_EARLY(float, "f")

/* Four words from *at on, a multiple of 16 bytes, by one load (EARLY4). */
static __device__ inline void accel_early4(bool ok, const uint *at, uint *to) {
#if defined(__CUDACC__)
  asm volatile(
      "{ .reg .pred ok; setp.ne.u32 ok, %5, 0;"
      " mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
      " @ok ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
      : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
      : "l"(at), "r"(static_cast<uint>(ok)));
#else
  for (int i = 0; i < 4; i++) to[i] = ok ? at[i] : 0u;
#endif
}

#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || \
    defined(__gfx942__) || defined(__gfx950__)
#define ACCEL_MFMA 1
#endif

/* c + four products of signed bytes (DOT4). */
static __device__ inline int accel_dot4(uint a, uint b, int c) {
#if defined(__CUDACC__)
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
  return c;
#elif defined(ACCEL_MFMA) || defined(__gfx906__) || defined(__gfx1011__) || \
    defined(__gfx1012__) || defined(__gfx1030__) || defined(__gfx1031__) || \
    defined(__gfx1032__) || defined(__gfx1033__) || defined(__gfx1034__) || \
    defined(__gfx1035__) || defined(__gfx1036__)
  return __builtin_amdgcn_sdot4(static_cast<int>(a), static_cast<int>(b), c, false);
#elif defined(__GFX11__) || defined(__GFX12__)
  return __builtin_amdgcn_sudot4(true, static_cast<int>(a), true, static_cast<int>(b), c, false);
#else
  for (int j = 0; j < 32; j += 8)
    c += (static_cast<int>(a << (24 - j)) >> 24) * (static_cast<int>(b << (24 - j)) >> 24);
  return c;
#endif
}

/* MATRIX_MULTIPLY of kernels/matrix_unit.h for its three units and stores 1, 2, 3: c += a b, by the
 * wave's matrix unit.  Where the architecture has none, c stays as it is: such a kernel is not
 * chosen there, and its trial would fail (gpu/gpu_variants.c).
 */
#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define ACCEL_MMA(T, letter, instruction, at, b0)                                              \
  asm volatile(                                                                                \
      "mma.sync.aligned." instruction " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
      : "+" letter(c[at]), "+" letter(c[at + 1]), "+" letter(c[at + 2]), "+" letter(c[at + 3]) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[b0]), "r"(b[b0 + 1]))
#else
#define ACCEL_MMA(T, letter, instruction, at, b0) (void)a, (void)b, (void)c
#endif
#define ACCEL_MATRIX_32(store, T, letter, instruction)                                        \
  static __device__ inline void accel_matrix_32_##store(T *c, const uint *a, const uint *b) { \
    ACCEL_MMA(T, letter, instruction, 0, 0);                                                  \
    ACCEL_MMA(T, letter, instruction, 4, 2);                                                  \
  }
ACCEL_MATRIX_32(1, float, "f", "m16n8k16.row.col.f32.f16.f16.f32")
ACCEL_MATRIX_32(2, float, "f", "m16n8k16.row.col.f32.bf16.bf16.f32")
ACCEL_MATRIX_32(3, int, "r", "m16n8k32.row.col.s32.s8.s8.s32")

#if defined(ACCEL_MFMA)
typedef float accel_f4 __attribute__((ext_vector_type(4)));
typedef int accel_i4 __attribute__((ext_vector_type(4)));
typedef uint accel_u2 __attribute__((ext_vector_type(2)));
typedef _Float16 accel_h4 __attribute__((ext_vector_type(4)));
typedef short accel_s4 __attribute__((ext_vector_type(4)));
#define ACCEL_MFMA_HALVES(V, builtin)                                          \
  accel_f4 v = {c[0], c[1], c[2], c[3]};                                       \
  const accel_u2 x = {a[0], a[1]}, y = {b[0], b[1]};                           \
  v = builtin(__builtin_bit_cast(V, x), __builtin_bit_cast(V, y), v, 0, 0, 0); \
  for (int i = 0; i < 4; i++) c[i] = v[i]
#endif

/* RDNA3's WMMA: accel_matrix_11_<store>. */
#if defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) || \
    defined(__gfx1103__) || defined(__gfx1150__) || defined(__gfx1151__) || \
    defined(__gfx1152__) || defined(__gfx1153__)
typedef float accel_f8 __attribute__((ext_vector_type(8)));
typedef int accel_i8 __attribute__((ext_vector_type(8)));
typedef uint accel_u8 __attribute__((ext_vector_type(8)));
typedef int accel_w4 __attribute__((ext_vector_type(4)));
typedef _Float16 accel_h16 __attribute__((ext_vector_type(16)));
typedef short accel_s16 __attribute__((ext_vector_type(16)));
#define ACCEL_WMMA_HALVES(V, builtin)                                  \
  accel_f8 v = {c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]};       \
  const accel_u8 x = {a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]}; \
  const accel_u8 y = {b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]}; \
  v = builtin(__builtin_bit_cast(V, x), __builtin_bit_cast(V, y), v);  \
  for (int i = 0; i < 8; i++) c[i] = v[i]
static __device__ inline void accel_matrix_11_1(float *c, const uint *a, const uint *b) {
  ACCEL_WMMA_HALVES(accel_h16, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32);
}
static __device__ inline void accel_matrix_11_2(float *c, const uint *a, const uint *b) {
  ACCEL_WMMA_HALVES(accel_s16, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32);
}
static __device__ inline void accel_matrix_11_3(int *c, const uint *a, const uint *b) {
  accel_i8 v = {c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]};
  for (int i = 0; i < 8; i += 4) {
    const accel_w4 x = {static_cast<int>(a[i]), static_cast<int>(a[i + 1]),
                        static_cast<int>(a[i + 2]), static_cast<int>(a[i + 3])};
    const accel_w4 y = {static_cast<int>(b[i]), static_cast<int>(b[i + 1]),
                        static_cast<int>(b[i + 2]), static_cast<int>(b[i + 3])};
    v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, x, true, y, v, false);
  }
  for (int i = 0; i < 8; i++) c[i] = v[i];
}
#else
static __device__ inline void accel_matrix_11_1(float *c, const uint *a, const uint *b) {
  (void)a, (void)b, (void)c;
}
static __device__ inline void accel_matrix_11_2(float *c, const uint *a, const uint *b) {
  (void)a, (void)b, (void)c;
}
static __device__ inline void accel_matrix_11_3(int *c, const uint *a, const uint *b) {
  (void)a, (void)b, (void)c;
}
#endif

static __device__ inline void accel_matrix_64_1(float *c, const uint *a, const uint *b) {
#if defined(ACCEL_MFMA)
  ACCEL_MFMA_HALVES(accel_h4, __builtin_amdgcn_mfma_f32_16x16x16f16);
#else
  (void)a, (void)b, (void)c;
#endif
}
static __device__ inline void accel_matrix_64_2(float *c, const uint *a, const uint *b) {
#if defined(ACCEL_MFMA) && !defined(__gfx908__)
  ACCEL_MFMA_HALVES(accel_s4, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k);
#else
  (void)a, (void)b, (void)c;
#endif
}
static __device__ inline void accel_matrix_64_3(int *c, const uint *a, const uint *b) {
#if defined(__gfx908__) || defined(__gfx90a__)
  accel_i4 v = {c[0], c[1], c[2], c[3]};
  for (int i = 0; i < 2; i++)
    v = __builtin_amdgcn_mfma_i32_16x16x16i8(static_cast<int>(a[i]), static_cast<int>(b[i]), v, 0,
                                             0, 0);
  for (int i = 0; i < 4; i++) c[i] = v[i];
#else
  (void)a, (void)b, (void)c;
#endif
}

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
static __device__ inline uint accel_to_half(float x) {
  return __builtin_bit_cast(unsigned short, static_cast<_Float16>(x));
}
#endif
