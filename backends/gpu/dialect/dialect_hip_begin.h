/* dialect_hip_begin.h - from the lists to the kernel's head: addresses of the bindings, then the
 * parameters as one struct. */
#define GPU_IN(i, T, n)     const T *__restrict__ n,
#define GPU_OVER(i, T, n)   const T *n,
#define GPU_OUT(i, T, n)    T *n,
#define GPU_INT(n)          int n;
#define GPU_FLOAT(n)        float n;
#define GPU_SHARED(T, n, k) __shared__ T n[k];
#define GPU_JOIN_(a, b)     a##b
#define GPU_JOIN(a, b)      GPU_JOIN_(a, b)
struct GPU_JOIN(NAME, _params) {
  PARAMS(GPU_INT, GPU_FLOAT)
};
extern "C" __global__ void __launch_bounds__(LOCAL_SIZE)
    NAME(BUFFERS(GPU_IN, GPU_OVER, GPU_OUT) GPU_JOIN(NAME, _params) params) {
  SHARED(GPU_SHARED)
