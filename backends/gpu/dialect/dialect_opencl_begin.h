/* dialect_opencl_begin.h - from the lists to the kernel's head: every buffer comes with the element
 * it begins at, as OpenCL 1.2 binds whole allocations. */
#define GPU_IN(i, T, n) global const T *restrict base_##n, int at_##n,
#define GPU_OVER(i, T, n) global const T *base_##n, int at_##n,
#define GPU_OUT(i, T, n) global T *base_##n, int at_##n,
#define GPU_IN_AT(i, T, n) global const T *restrict n = base_##n + at_##n;
#define GPU_OVER_AT(i, T, n) global const T *n = base_##n + at_##n;
#define GPU_OUT_AT(i, T, n) global T *n = base_##n + at_##n;
#define GPU_INT(n) int n;
#define GPU_FLOAT(n) float n;
#define GPU_SHARED(T, n, k) local T n[k];
#define GPU_JOIN_(a, b) a##b
#define GPU_JOIN(a, b) GPU_JOIN_(a, b)
typedef struct {
  PARAMS(GPU_INT, GPU_FLOAT)
} GPU_JOIN(NAME, _params);
kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void NAME(BUFFERS(GPU_IN, GPU_OVER, GPU_OUT)
                                                                             GPU_JOIN(NAME, _params) params) {
  BUFFERS(GPU_IN_AT, GPU_OVER_AT, GPU_OUT_AT)
  SHARED(GPU_SHARED)
