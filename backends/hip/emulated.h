/* emulated.h - what stands behind the dialect's words in the emulator's unit: buffers and shared arrays that check, and C's
 * functions over floats by the names the dialect has for them. */
#ifndef ACCEL_HIP_EMULATED_H
#define ACCEL_HIP_EMULATED_H

#include <math.h>
#include <string.h>

#include "hip/emulator.h"

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

/* One rounding where the processor multiplies and adds in one step, two elsewhere: MAD allows both. */
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

}  // namespace emulated

#endif
