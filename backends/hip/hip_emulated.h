/* hip_emulated.h - what stands behind the dialect's words in the emulator's unit: buffers and
 * shared arrays that check, and C's functions over floats by the names the dialect has for them. */
#ifndef ACCEL_HIP_EMULATED_H
#define ACCEL_HIP_EMULATED_H

#include <math.h>
#include <string.h>

#include "hip/hip_emulator.h"

namespace emulated {

typedef unsigned int uint;

template <class T, class F>
static inline T same_bits(F x) {
  static_assert(sizeof(T) == sizeof(F), "a word each");
  T y;
  memcpy(&y, &x, sizeof y);
  return y;
}
static inline float as_float(uint x) { return same_bits<float>(x); }
static inline float as_float(int x) { return same_bits<float>(x); }
static inline uint as_uint(float x) { return same_bits<uint>(x); }
static inline uint as_uint(int x) { return same_bits<uint>(x); }
static inline int as_int(float x) { return same_bits<int>(x); }
static inline int as_int(uint x) { return same_bits<int>(x); }

/* One rounding where the processor multiplies and adds in one step, two elsewhere: MAD allows
 * both. */
static inline float mad(float a, float b, float c) {
#ifdef __FMA__
  return fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
static inline float exp(float x) { return expf(x); }
static inline float log(float x) { return logf(x); }
static inline float sqrt(float x) { return sqrtf(x); }
static inline float fabs(float x) { return fabsf(x); }
static inline float floor(float x) { return floorf(x); }
static inline float ceil(float x) { return ceilf(x); }
static inline float fmin(float x, float y) { return x < y || y != y ? x : y; }
static inline float fmax(float x, float y) { return x > y || y != y ? x : y; }
static inline float pow(float x, float y) { return powf(x, y); }
static inline int abs(int x) { return x < 0 ? -x : x; }
static inline int min(int x, int y) { return x < y ? x : y; }
static inline int max(int x, int y) { return x > y ? x : y; }

static inline void minimum_at(int &to, int v) {
  if (v < to) to = v;
}

template <class T>
class buffer {
 public:
  buffer(const emulated_buffer &b, const char *name)
      : data_(static_cast<T *>(b.data)), n_(b.bytes / sizeof(T)), name_(name) {}
  /* A negative int and a wrapped uint are both far outside. */
  template <class I>
  T &at(I i, const char *file, int line) const {
    if (static_cast<uint64_t>(static_cast<int64_t>(i)) >= n_)
      emulated_outside(name_, static_cast<int64_t>(i), n_, file, line);
    return data_[i];
  }

 private:
  T *data_;
  uint64_t n_;
  const char *name_;
};

/* A shared element on its way: reading and writing are told apart. */
template <class T>
class element {
 public:
  element(T *data, emulated_shadow *s, uint32_t me, const char *name, uint64_t index)
      : data_(data), shadow_(s), me_(me), name_(name), index_(index) {}
  element(const element &) = default;
  operator T() const {
    emulated_read(shadow_, me_, name_, index_);
    return *data_;
  }
  const element &operator=(T v) const {
    emulated_write(shadow_, me_, name_, index_);
    *data_ = v;
    return *this;
  }
  const element &operator=(const element &other) const { return *this = static_cast<T>(other); }
  const element &operator+=(T v) const { return *this = *this + v; }
  const element &operator-=(T v) const { return *this = *this - v; }
  const element &operator*=(T v) const { return *this = *this * v; }
  const element &operator/=(T v) const { return *this = *this / v; }
  const element &operator|=(T v) const { return *this = static_cast<T>(*this) | v; }

 private:
  T *data_;
  emulated_shadow *shadow_;
  uint32_t me_;
  const char *name_;
  uint64_t index_;
};

template <class T, uint64_t N>
class shared {
 public:
  shared(T *data, emulated_shadow *shadow, int lane, const char *name)
      : data_(data), shadow_(shadow), me_(static_cast<uint32_t>(lane) + 1), name_(name) {}
  template <class I>
  element<T> operator[](I i) const {
    uint64_t at = static_cast<uint64_t>(static_cast<int64_t>(i));
    if (at >= N) emulated_outside(name_, static_cast<int64_t>(i), N, nullptr, 0);
    return element<T>(data_ + at, shadow_ + at, me_, name_, at);
  }

 private:
  T *data_;
  emulated_shadow *shadow_;
  uint32_t me_;
  const char *name_;
};

/* ---- matrix units: c += a b of 16 x 16 by a wave's lanes, by the layouts that AMD's CDNA
 * instruction set (MFMA 16x16x16) and RDNA3 (WMMA 16x16x16) and NVIDIA's PTX (mma.sync m16n8k16,
 * m16n8k32) document, and the matrices of Vulkan ---- */

static inline float half_value(uint h) { /* of 16 bits */
  const uint sign = (h & 0x8000u) << 16, m = h & 0x7fffu;
  if (m < 0x400u)
    return same_bits<float>(same_bits<uint>(static_cast<float>(m) * 5.9604644775390625e-8f) | sign);
  return same_bits<float>(((m << 13) + (m >= 0x7c00u ? 0x70000000u : 0x38000000u)) | sign);
}
/* Number `part` of a register. */
template <int STORE>
static inline float part_of(uint u, int part) {
  if (STORE == 1) return half_value(u >> (16 * part) & 0xffffu);
  if (STORE == 2) return same_bits<float>(u >> (16 * part) << 16);
  return static_cast<float>(same_bits<int>(u << (24 - 8 * part)) >> 24);
}

typedef const uint32_t (*registers)[EMULATED_REGISTERS]; /* a and behind them b, of each lane */

/* A[i][k] and B[k][j], of which lane and register they come.  MFMA: lane 16 (k / per) + row, `per`
 * numbers of a lane following each other; mma: lane 4 (row % 8) + (k % half) / per, rows and
 * columns from 8 on and the upper half of k in further registers; WMMA: lane `row` has all of it,
 * lane 16 + row must have the same. */
template <int UNIT, int STORE>
struct unit;
template <int STORE>
struct unit<64, STORE> {
  enum {
    WAVE = 64,
    REGISTERS = 2,
    STEPS = STORE == 3 ? 2 : 1,
    PER = STORE == 3 ? 4 : 2,
    IN_LANE = 4,
    K = 16
  };
  static float a(registers r, int step, int i, int k) {
    return at(r, STORE == 3 ? step : 0, i, k, 0);
  }
  static float b(registers r, int step, int k, int j) {
    return at(r, STORE == 3 ? step : 0, j, k, REGISTERS);
  }
  static float at(registers r, int first, int row, int k, int from) {
    const int in = k % IN_LANE;
    return part_of<STORE>(r[16 * (k / IN_LANE) + row][from + first + in / PER], in % PER);
  }
  static int row(int lane, int i) { return 4 * (lane / 16) + i; }
  static int column(int lane, int) { return lane % 16; }
};
template <int STORE>
struct unit<32, STORE> {
  enum { WAVE = 32, REGISTERS = 4, STEPS = 1, PER = STORE == 3 ? 4 : 2, K = STORE == 3 ? 32 : 16 };
  static float a(registers r, int, int i, int k) {
    return part_of<STORE>(r[4 * (i % 8) + k % (K / 2) / PER][i / 8 + 2 * (k / (K / 2))], k % PER);
  }
  static float b(registers r, int, int k, int j) { /* columns from 8 on: the second instruction */
    return part_of<STORE>(r[4 * (j % 8) + k % (K / 2) / PER][REGISTERS + 2 * (j / 8) + k / (K / 2)],
                          k % PER);
  }
  static int row(int lane, int i) { return lane / 4 + 8 * (i % 4 / 2); }
  static int column(int lane, int i) { return 8 * (i / 4) + 2 * (lane % 4) + i % 2; }
};

template <int STORE>
struct unit<11, STORE> {
  enum { WAVE = 32, REGISTERS = 8, STEPS = 1, PER = STORE == 3 ? 4 : 2, K = 8 * PER };
  static float a(registers r, int, int i, int k) { return at(r, i, k, 0); }
  static float b(registers r, int, int k, int j) { return at(r, j, k, REGISTERS); }
  static float at(registers r, int row, int k, int from) {
    const uint32_t word = r[row][from + k / PER];
    return word == r[16 + row][from + k / PER] ? part_of<STORE>(word, k % PER) : NAN;
  }
  static int row(int lane, int i) { return lane / 16 + 2 * i; }
  static int column(int lane, int) { return lane % 16; }
};

/* Cooperative matrices, whose layout is the driver's: rows of words or results, half of one in each
 * lane. */
template <int STORE>
struct unit<1, STORE> {
  enum { WAVE = 32, REGISTERS = 4, STEPS = 1, PER = STORE == 3 ? 4 : 2, K = 8 * PER };
  static float a(registers r, int, int i, int k) { return at(r, i, k, 0); }
  static float b(registers r, int, int k, int j) { return at(r, j, k, REGISTERS); }
  static float at(registers r, int row, int k, int from) {
    const int word = k / PER;
    return part_of<STORE>(r[2 * row + word / REGISTERS][from + word % REGISTERS], k % PER);
  }
  static int row(int lane, int) { return lane / 2; }
  static int column(int lane, int i) { return lane % 2 * 8 + i; }
};

template <int UNIT, int STORE, class T>
static inline void emulated_matrix(const emulated_lane *lane, T *c, const uint *a, const uint *b,
                                   const char *file, int line) {
  typedef unit<UNIT, STORE> u;
  enum { WAVE = u::WAVE };
  uint32_t mine[2 * u::REGISTERS];
  for (int i = 0; i < u::REGISTERS; i++) {
    mine[i] = a[i];
    mine[u::REGISTERS + i] = b[i];
  }
  const registers all = emulated_exchange(WAVE, mine, 2 * u::REGISTERS, file, line);
  const int l = lane->lane % WAVE;
  for (int i = 0; i < 256 / WAVE; i++)
    for (int s = 0; s < u::STEPS; s++)
      for (int k = 0; k < u::K; k++)
        c[i] += static_cast<T>(u::a(all, s, u::row(l, i), k) * u::b(all, s, k, u::column(l, i)));
  emulated_exchanged(file, line);
}

}  // namespace emulated

#endif
