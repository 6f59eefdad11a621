/* dialect_emulator_begin.h - from the lists to a function that runs one lane, and the entry of the
 * emulator's table. */
#define GPU_IN(i, T, n)       const buffer<const T> n(buffer_[i], #n);
#define GPU_OUT(i, T, n)      const buffer<T> n(buffer_[i], #n);
#define GPU_COUNT(i, T, n)    +1
#define GPU_INT(n)            int n;
#define GPU_FLOAT(n)          float n;
#define GPU_WORD(n)           +4
#define GPU_MEMBER(T, n, k)   T n[k];
#define GPU_ELEMENTS(T, n, k) +(k)
#define GPU_SHADOW(T, n, k)   emulated_shadow n[k];
#define GPU_SHARED(T, n, k) \
  const shared<T, (k)> n(static_cast<arrays *>(shared_)->n, reinterpret_cast<shadows *>(shadow_)->n, lane_->lane, #n);
#define GPU_NAME_(n)    #n
#define GPU_NAME(n)     GPU_NAME_(n)
#define GPU_JOIN_(a, b) a##b
#define GPU_JOIN(a, b)  GPU_JOIN_(a, b)
struct arguments {
  PARAMS(GPU_INT, GPU_FLOAT)
};
struct arrays {
  SHARED(GPU_MEMBER)
};
struct shadows {
  SHARED(GPU_SHADOW)
};
static void body(const emulated_lane *lane_, const emulated_buffer *buffer_, const void *params_, void *shared_,
                 emulated_shadow *shadow_);
extern "C" {
extern const emulated_kernel GPU_JOIN(accel_emulated_, NAME);
const emulated_kernel GPU_JOIN(accel_emulated_, NAME) = {GPU_NAME(NAME),
                                                         body,
                                                         LOCAL_SIZE,
                                                         0 BUFFERS(GPU_COUNT, GPU_COUNT, GPU_COUNT),
                                                         0 PARAMS(GPU_WORD, GPU_WORD),
                                                         sizeof(arrays),
                                                         0 SHARED(GPU_ELEMENTS)};
}
static void body(const emulated_lane *lane_, const emulated_buffer *buffer_, const void *params_, void *shared_,
                 emulated_shadow *shadow_) {
  const arguments &params = *static_cast<const arguments *>(params_);
  (void)lane_, (void)buffer_, (void)params, (void)shared_, (void)shadow_;
  BUFFERS(GPU_IN, GPU_IN, GPU_OUT)
  SHARED(GPU_SHARED)
