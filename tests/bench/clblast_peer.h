/* clblast_peer.h - products by CLBlast on an OpenCL device, both libraries looked for at run
 * time. */
#ifndef ACCEL_TESTS_CLBLAST_PEER_H
#define ACCEL_TESTS_CLBLAST_PEER_H

#include <dlfcn.h>

#include "bench_timer.h"

#define OPENCL_FUNCTIONS(X)                                                                \
  X(int, clGetPlatformIDs, (unsigned, void **, unsigned *))                                \
  X(int, clGetDeviceIDs, (void *, uint64_t, unsigned, void **, unsigned *))                \
  X(void *, clCreateContext, (const intptr_t *, unsigned, void **, void *, void *, int *)) \
  X(void *, clCreateCommandQueue, (void *, void *, uint64_t, int *))                       \
  X(void *, clCreateBuffer, (void *, uint64_t, size_t, void *, int *))                     \
  X(int, clEnqueueReadBuffer,                                                              \
    (void *, void *, unsigned, size_t, size_t, void *, unsigned, void *, void *))          \
  X(int, clFinish, (void *))                                                               \
  X(int, clReleaseMemObject, (void *))
#define CLBLAST_FUNCTIONS(X)                                                                       \
  X(int, CLBlastSgemm,                                                                             \
    (int, int, int, size_t, size_t, size_t, float, void *, size_t, size_t, void *, size_t, size_t, \
     float, void *, size_t, size_t, void **, void *))                                              \
  X(int, CLBlastSgemv,                                                                             \
    (int, int, size_t, size_t, float, void *, size_t, size_t, void *, size_t, size_t, float,       \
     void *, size_t, size_t, void **, void *))
#define CLBLAST_POINTER(result, name, arguments) static result(*name) arguments;
#define CLBLAST_LOAD(result, name, arguments) \
  if (!(*(void **)&name = dlsym(library, #name))) return false;
OPENCL_FUNCTIONS(CLBLAST_POINTER)
CLBLAST_FUNCTIONS(CLBLAST_POINTER)

static struct { void *context, *queue; } clblast;

/* On the first device of the first platform: the OpenCL plugin's device 0 where there is one
 * driver. */
static inline bool clblast_open(void) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL), *platform = NULL, *device = NULL;
  int code = 0;
  if (!library) return false;
  OPENCL_FUNCTIONS(CLBLAST_LOAD)
  library = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  CLBLAST_FUNCTIONS(CLBLAST_LOAD)
  if (clGetPlatformIDs(1, &platform, NULL) ||
      clGetDeviceIDs(platform, 0xffffffffu, 1, &device, NULL))
    return false;
  clblast.context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  if (!code) clblast.queue = clCreateCommandQueue(clblast.context, device, 0, &code);
  return !code;
}

typedef struct clblast_peer {
  shape s;
  void *x, *y, **w; /* buffers; w[copies] */
  int64_t copies;
} clblast_peer;

static inline bool clblast_peer_make(clblast_peer *p, const float *source, const float *x, shape s,
                                     int64_t copies) {
  enum { COPY_HOST = 1 << 5 };
  int code = 0, worst = 0;
  *p = (clblast_peer){.s = s, .copies = copies, .w = calloc((size_t)copies, sizeof *p->w)};
  p->x = clCreateBuffer(clblast.context, COPY_HOST, (size_t)(s.m * s.k) * 4, (void *)(uintptr_t)x,
                        &worst);
  p->y = clCreateBuffer(clblast.context, 0, (size_t)(s.m * s.n) * 4, NULL, &code);
  for (int64_t c = 0; c < copies && !code; c++)
    p->w[c] = clCreateBuffer(clblast.context, COPY_HOST, (size_t)(s.n * s.k) * 4,
                             (void *)(uintptr_t)source, &code);
  return !code && !worst;
}

static inline void clblast_peer_free(clblast_peer *p) {
  for (int64_t c = 0; c < p->copies; c++)
    if (p->w[c]) clReleaseMemObject(p->w[c]);
  if (p->x) clReleaseMemObject(p->x);
  if (p->y) clReleaseMemObject(p->y);
  free(p->w);
}

/* Seconds a product by that clock; all are queued, then waited for.  NaN when one is refused. */
static inline double clblast_peer_time(clblast_peer *p, double time_now(void)) {
  enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };
  const size_t m = (size_t)p->s.m, n = (size_t)p->s.n, k = (size_t)p->s.k;
  int code = 0;
  double start = time_now();
  for (int64_t c = 0; c < p->copies && !code; c++)
    code = m == 1 ? CLBlastSgemv(ROW_MAJOR, AS_IS, n, k, 1.0f, p->w[c], 0, k, p->x, 0, 1, 0.0f,
                                 p->y, 0, 1, &clblast.queue, NULL)
                  : CLBlastSgemm(ROW_MAJOR, AS_IS, TRANSPOSED, m, n, k, 1.0f, p->x, 0, k, p->w[c],
                                 0, k, 0.0f, p->y, 0, n, &clblast.queue, NULL);
  clFinish(clblast.queue);
  return code ? (double)NAN : (time_now() - start) / (double)p->copies;
}

static inline void clblast_peer_read(const clblast_peer *p, float *y) {
  clEnqueueReadBuffer(clblast.queue, p->y, 1, 0, (size_t)(p->s.m * p->s.n) * 4, y, 0, NULL, NULL);
}

#endif
