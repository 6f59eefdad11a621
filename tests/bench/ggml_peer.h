/* ggml_peer.h - products by one of ggml's backends, through the public functions of a shared
 * library that is named at run time: the CPU's, Vulkan's, ... */
#ifndef ACCEL_TESTS_GGML_PEER_H
#define ACCEL_TESTS_GGML_PEER_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "bench_timer.h"

typedef struct ggml_room {
  size_t bytes;
  void *memory;
  bool no_alloc;
} ggml_room; /* its struct ggml_init_params */

/* A library's functions as pointers of their names: GGML_POINTER defines, GGML_LOAD (with `library`
 * and `path`) finds. */
#define GGML_FUNCTIONS(X)                                                   \
  X(void *, ggml_init, (ggml_room))                                         \
  X(void, ggml_free, (void *))                                              \
  X(void *, ggml_new_tensor_2d, (void *, int, int64_t, int64_t))            \
  X(void *, ggml_mul_mat, (void *, void *, void *))                         \
  X(void *, ggml_new_graph_custom, (void *, size_t, bool))                  \
  X(void, ggml_build_forward_expand, (void *, void *))                      \
  X(size_t, ggml_quantize_chunk,                                            \
    (int, const float *, void *, int64_t, int64_t, int64_t, const float *)) \
  X(void, ggml_backend_free, (void *))                                      \
  X(void *, ggml_backend_alloc_ctx_tensors_from_buft, (void *, void *))     \
  X(void, ggml_backend_buffer_free, (void *))                               \
  X(void, ggml_backend_tensor_set, (void *, const void *, size_t, size_t))  \
  X(void, ggml_backend_tensor_get, (const void *, void *, size_t, size_t))  \
  X(int, ggml_backend_graph_compute, (void *, void *))
#define GGML_POINTER(result, name, arguments) static result(*name) arguments;
#define GGML_LOAD(result, name, arguments)        \
  if (!(*(void **)&name = dlsym(library, #name))) \
    return fprintf(stderr, "%s has no %s\n", path, #name), NULL;
GGML_FUNCTIONS(GGML_POINTER)

/* The library, whose functions above are found; NULL with the reason printed. */
static inline void *ggml_open(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), NULL;
  GGML_FUNCTIONS(GGML_LOAD)
  return library;
}

/* enum ggml_type of a name; -1: not one of these. */
static inline int ggml_type_of(const char *name) {
  static const struct {
    const char *name;
    int type;
  } types[] = {{"F32", 0}, {"F16", 1}, {"BF16", 30}, {"Q8_0", 8}, {"Q4_0", 2}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, name)) return types[i].type;
  return -1;
}

typedef struct ggml_peer {
  void *weights, *rest, *weight_buffer, *rest_buffer, *graph, *backend, *last;
  int64_t copies;
  double bytes; /* of one matrix */
} ggml_peer;

/* One graph of `copies` products x [s.m][s.k] source[s.n][s.k]^T, each with a copy of its own of
 * the weights in `type`; copies 0: as many as fill `fill` bytes.  Weights lie in buffers of type
 * `kind`, all else in `plain`.  The peer owns `backend`. */
static inline bool ggml_peer_make(ggml_peer *p, void *backend, void *plain, void *kind, int type,
                                  const float *source, const float *x, shape s, int64_t copies,
                                  uint64_t fill) {
  char *quantised = malloc((size_t)(s.n * s.k) * 4);
  const size_t bytes = ggml_quantize_chunk(type, source, quantised, 0, s.n, s.k, NULL);
  *p = (ggml_peer){.backend = backend,
                   .bytes = (double)bytes,
                   .copies = copies ? copies : (int64_t)fill / (int64_t)bytes + 1};
  const size_t room = (size_t)(p->copies + 8) * 1024;
  p->weights = ggml_init((ggml_room){room, NULL, true});
  p->rest = ggml_init((ggml_room){room + (size_t)p->copies * 256 + (1 << 20), NULL, true});
  void *in = ggml_new_tensor_2d(p->rest, 0, s.k, s.m), **w = malloc((size_t)p->copies * sizeof *w);
  p->graph = ggml_new_graph_custom(p->rest, (size_t)p->copies + 8, false);
  for (int64_t c = 0; c < p->copies; c++) w[c] = ggml_new_tensor_2d(p->weights, type, s.k, s.n);
  p->weight_buffer = ggml_backend_alloc_ctx_tensors_from_buft(p->weights, kind);
  for (int64_t c = 0; c < p->copies; c++)
    ggml_build_forward_expand(p->graph, p->last = ggml_mul_mat(p->rest, w[c], in));
  p->rest_buffer = ggml_backend_alloc_ctx_tensors_from_buft(p->rest, plain);
  bool made = p->weight_buffer && p->rest_buffer && p->backend;
  for (int64_t c = 0; made && c < p->copies; c++)
    ggml_backend_tensor_set(w[c], quantised, 0, bytes);
  if (made) ggml_backend_tensor_set(in, x, 0, (size_t)(s.m * s.k) * 4);
  free(quantised);
  free(w);
  return made;
}

static inline void ggml_peer_free(ggml_peer *p) {
  if (p->backend) ggml_backend_free(p->backend);
  if (p->weight_buffer) ggml_backend_buffer_free(p->weight_buffer);
  if (p->rest_buffer) ggml_backend_buffer_free(p->rest_buffer);
  if (p->weights) ggml_free(p->weights);
  if (p->rest) ggml_free(p->rest);
}

/* Seconds a product by that clock. */
static inline double ggml_peer_time(ggml_peer *p, double time_now(void)) {
  double start = time_now();
  ggml_backend_graph_compute(p->backend, p->graph);
  return (time_now() - start) / (double)p->copies;
}

#endif
