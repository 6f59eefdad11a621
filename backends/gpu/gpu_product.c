/* gpu_product.c - what both ways to compute a linear product share: its grid, the size of its
 * tiles, which weights are multiplied with quantised activations, and whether these are there. */
#include "gpu/gpu_product.h"

enum {
  LONGEST_K = 1 << 17, /* sums of more products of two signed bytes could pass 31 bits */
  GROUP_STEP = 32,     /* elements: kernels with groups along k end them at a step's end */
  LONGEST_GROUP = 2048 /* that 32 lanes of linear_dot_few.k take in one step */
};

/* Large tiles read less of x and w.  They are faster when every compute unit gets at least two of
 * them and at most a fifth of their rows and columns lies beyond the result. */
bool gpu_takes_large(const gpu_self *self, const gpu_product *p, int64_t n, int64_t columns) {
  const gpu_limits *limits = &self->limits;
  const int64_t rows = GPU_LARGE_ROWS, down = gpu_ceil_div(p->m, rows),
                across = gpu_ceil_div(n, columns);
  if (p->tile) return p->tile == GPU_LARGE_ROWS;
  return !limits->cpu && !limits->small_tiles && gpu_tiles_fit(p->m, rows) &&
         gpu_tiles_fit(n, columns) &&
         down * across >= 2 * (int64_t)(limits->units ? limits->units : 16);
}

uint32_t gpu_group_words(const gpu_weight *w) {
  return w->groups_k > 1 ? w->group_k / 4 : w->row_words;
}

gpu_product gpu_bare_product(gpu_store store, int64_t n, int64_t k, int64_t group_k) {
  static const kit_tensor absent = {.id = -1};
  gpu_product p = {.bias = &absent,
                   .residual = &absent,
                   .n = n,
                   .k = k,
                   .y_stride = n,
                   .act = ACCEL_PLUGIN_ACT_NONE};
  p.w.w = (gpu_weight){.n = n,
                       .k = k,
                       .store = store,
                       .scale_kind = store == GPU_STORE_I8 ? GPU_SCALE_F32 : GPU_SCALE_NONE,
                       .row_words = gpu_row_words(store, k),
                       .group_k = (uint32_t)group_k,
                       .group_n = 1,
                       .groups_k = (uint32_t)gpu_ceil_div(k, group_k),
                       .outer = 1.0f};
  return p;
}

int32_t gpu_dispatch_way(gpu_call *c, const gpu_way *way, int64_t m, int64_t n,
                         accel_plugin_error *error) {
  const uint32_t *most = c->run->self->limits.groups;
  const int64_t across = gpu_ceil_div(n, way->columns), down = gpu_ceil_div(m, way->rows);
  return gpu_dispatch_grid(c, way->loops ? gpu_least(across, most[0]) : across,
                           gpu_least(down, most[1]), 1, error);
}

static uint64_t aligned(uint64_t bytes) { return (bytes + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN; }

uint32_t gpu_activations_q_variant(uint32_t variants, const gpu_weight *w, bool trans) {
  if (trans || !w->k) return 0;
  if (w->store == GPU_STORE_F16) return variants & GPU_VARIANT_MATRIX_F16;
  if (w->store == GPU_STORE_BF16) return variants & GPU_VARIANT_MATRIX_BF16;
  if (w->store != GPU_STORE_I8 || w->scale_kind != GPU_SCALE_F32) return 0;
  if (w->groups_k > 1 ? w->group_k % GROUP_STEP || w->group_k > LONGEST_GROUP : w->k > LONGEST_K)
    return 0;
  return variants & GPU_VARIANT_MATRIX_I8 ? GPU_VARIANT_MATRIX_I8 : variants & GPU_VARIANT_INT_DOT;
}

uint64_t gpu_activations_q_scales(const gpu_weight *w, int64_t m) {
  return aligned((uint64_t)m * w->row_words * 4);
}

uint64_t gpu_activations_q_bytes(const gpu_self *self, const gpu_weight *w, bool trans, int64_t m) {
  return gpu_activations_q_variant(self->variants, w, trans)
             ? gpu_activations_q_scales(w, m) + aligned((uint64_t)m * w->groups_k * 4)
             : 0;
}

static bool same_place(gpu_binding a, gpu_binding b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.bytes == b.bytes;
}

gpu_quantized gpu_quantized_of(const gpu_run *run, const gpu_product *p, uint32_t kernel,
                               gpu_binding to) {
  return (gpu_quantized){.kernel = kernel,
                         .group = gpu_group_words(&p->w.w),
                         .rows = p->m,
                         .from = gpu_at(run, p->x),
                         .to = to};
}

bool gpu_quantized_same(const gpu_quantized *a, const gpu_quantized *b) {
  return a->kernel == b->kernel && a->group == b->group && a->rows == b->rows &&
         same_place(a->from, b->from) && same_place(a->to, b->to);
}
