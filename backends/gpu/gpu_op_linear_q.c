/* gpu_op_linear_q.c - products with activations of the weight's own kind of number: x is
 * quantised to signed bytes, in the weight's groups along k, or narrowed to halves
 * (kernels/codes.k), then multiplied by integer dot products (kernels/linear_dot*.k) or matrix
 * units (kernels/linear_matrix*.k).
 *
 * A row's result depends on nothing but the row, whatever else is in the batch: sums of bytes
 * are whole numbers and groups along k are added in order, and matrix units sum in the same order
 * for few rows and many. */
#include "gpu/gpu_op_linear_q.h"

enum {
  FEW_BYTES = 8,   /* rows up to which the kernels for few rows are taken, of signed bytes */
  FEW_HALVES = 16, /* the same of halves */
  SEGMENTS = 8     /* of k, summed apart by the kernels for few rows of halves */
};

/* ---- activations ---- */

typedef struct activations {
  gpu_binding codes, scales; /* m rows of w.row_words words, and a float for each row and group */
} activations;

static int32_t quantize(gpu_run *run, const kit_launch *l, const gpu_product *p,
                        const activations *a, accel_plugin_error *error) {
  const gpu_store store = p->w.w.store;
  const uint32_t kernel = store == GPU_STORE_F16    ? GPU_K_codes_f16
                          : store == GPU_STORE_BF16 ? GPU_K_codes_bf16
                                                    : GPU_K_codes_i8;
  const gpu_quantized want = gpu_quantized_of(run, p, kernel, a->codes);
  if (gpu_quantized_same(p->quantized, &want)) return ACCEL_PLUGIN_OK;
  gpu_call c = gpu_call_new(run, l, kernel);
  gpu_tensor(&c, p->x);
  gpu_bind(&c, a->codes);
  gpu_bind(&c, a->scales);
  const gpu_params_codes_i8 params = {
      .m = p->m,
      .k = p->k,
      .x_stride = p->x->row_stride,
      .row_words = p->w.w.row_words,
      .group_words = want.group,
  };
  gpu_set_codes_i8(&c, &params);
  const int64_t groups = kernel == GPU_K_codes_i8 ? p->w.w.groups_k : 1;
  const int32_t rc = gpu_dispatch_rows(&c, p->m * groups, error);
  if (!rc) *p->quantized = want;
  return rc;
}

/* ---- which kernel ---- */

/* The kernels for one kind of matrix unit, by store; 0: there is none. The last of the tiles are
 * those of I8 with groups along k. */
enum { I8_GROUPS = GPU_STORE_I8 + 1 };
typedef struct unit_kernels {
  uint32_t few[GPU_STORE_I8 + 1], tile[I8_GROUPS + 1];
  uint32_t large[I8_GROUPS + 1]; /* tiles of GPU_LARGE_ROWS each way */
} unit_kernels;

static bool has_groups(const gpu_product *p) { return p->w.w.groups_k > 1; }

static const unit_kernels *unit_of(const gpu_limits *l) {
  static const unit_kernels wave32 = {.few = {[GPU_STORE_F16] = GPU_K_linear_matrix_few32_f16,
                                              [GPU_STORE_BF16] = GPU_K_linear_matrix_few32_bf16},
                                      .tile = {[GPU_STORE_F16] = GPU_K_linear_matrix32_f16,
                                               [GPU_STORE_BF16] = GPU_K_linear_matrix32_bf16,
                                               [GPU_STORE_I8] = GPU_K_linear_matrix32_i8,
                                               [I8_GROUPS] = GPU_K_linear_matrix32_i8_groups},
                                      .large = {[GPU_STORE_F16] = GPU_K_linear_matrix32_128_f16,
                                                [GPU_STORE_BF16] = GPU_K_linear_matrix32_128_bf16,
                                                [GPU_STORE_I8] = GPU_K_linear_matrix32_128_i8,
                                                [I8_GROUPS] = GPU_K_linear_matrix32_128_i8_groups}};
  static const unit_kernels wave64 = {.few = {[GPU_STORE_F16] = GPU_K_linear_matrix_few64_f16,
                                              [GPU_STORE_BF16] = GPU_K_linear_matrix_few64_bf16},
                                      .tile = {[GPU_STORE_F16] = GPU_K_linear_matrix64_f16,
                                               [GPU_STORE_BF16] = GPU_K_linear_matrix64_bf16,
                                               [GPU_STORE_I8] = GPU_K_linear_matrix64_i8,
                                               [I8_GROUPS] = GPU_K_linear_matrix64_i8_groups}};
  static const unit_kernels wmma = {.few = {[GPU_STORE_F16] = GPU_K_linear_wmma_few_f16,
                                            [GPU_STORE_BF16] = GPU_K_linear_wmma_few_bf16},
                                    .tile = {[GPU_STORE_F16] = GPU_K_linear_wmma_f16,
                                             [GPU_STORE_BF16] = GPU_K_linear_wmma_bf16,
                                             [GPU_STORE_I8] = GPU_K_linear_wmma_i8,
                                             [I8_GROUPS] = GPU_K_linear_wmma_i8_groups}};
  static const unit_kernels cooperative = {
      .few = {[GPU_STORE_F16] = GPU_K_linear_cooperative_few_f16},
      .tile = {[GPU_STORE_F16] = GPU_K_linear_cooperative_f16,
               [GPU_STORE_I8] = GPU_K_linear_cooperative_i8}};
  return l->cooperative ? &cooperative : l->wmma ? &wmma : l->wave == 64 ? &wave64 : &wave32;
}

/* Large tiles read a half of x and w, and are worth it when most compute units get one and little
 * of them lies beyond the result. */
static bool takes_large_matrix(const gpu_limits *limits, const gpu_product *p) {
  enum { TILE = GPU_LARGE_ROWS, SHARED_BYTES = 2 * 2 * TILE * 20 * 4 };
  const int64_t down = gpu_ceil_div(p->m, TILE), across = gpu_ceil_div(p->n, TILE);
  if (limits->local_bytes < SHARED_BYTES) return false;
  if (p->tile) return p->tile == TILE;
  return gpu_tiles_fit(p->m, TILE) && gpu_tiles_fit(p->n, TILE) &&
         2 * down * across >= (int64_t)(limits->units ? limits->units : 16);
}

static gpu_way way_of_matrix(const gpu_limits *limits, const gpu_product *p) {
  const unit_kernels *unit = unit_of(limits);
  const uint32_t store = has_groups(p) ? (uint32_t)I8_GROUPS : (uint32_t)p->w.w.store;
  if (unit->large[store] && takes_large_matrix(limits, p))
    return (gpu_way){unit->large[store], GPU_LARGE_ROWS, GPU_LARGE_ROWS, false};
  return (gpu_way){unit->tile[store], 64, 64, false};
}

/* Of codes, by dot products. */
static gpu_way way_of_dot(const gpu_run *run, const gpu_product *p) {
  const bool native = run->self->limits.int_dot_native, groups = has_groups(p);
  if (p->m <= FEW_BYTES && groups)
    return (gpu_way){native ? GPU_K_linear_dot_few_groups_native : GPU_K_linear_dot_few_groups, 4,
                     8, true};
  if (p->m <= FEW_BYTES)
    return (gpu_way){native ? GPU_K_linear_dot_few_native : GPU_K_linear_dot_few, 4, 8, true};
  if (groups)
    return (gpu_way){native ? GPU_K_linear_dot_groups_native : GPU_K_linear_dot_groups, 64, 64,
                     false};
  if (gpu_takes_large(run->self, p, p->n, 128))
    return (gpu_way){native ? GPU_K_linear_dot128_native : GPU_K_linear_dot128, 128, 128, false};
  return (gpu_way){native ? GPU_K_linear_dot_native : GPU_K_linear_dot, 64, 64, false};
}

static gpu_way way_of(const gpu_run *run, const gpu_product *p) {
  const uint32_t variant = gpu_activations_q_variant(run->self->variants, &p->w.w, p->trans);
  const gpu_limits *limits = &run->self->limits;
  const bool halves = variant == GPU_VARIANT_MATRIX_F16 || variant == GPU_VARIANT_MATRIX_BF16;
  if (halves && p->m <= FEW_HALVES)
    return (gpu_way){unit_of(limits)->few[p->w.w.store], 16, 16, true};
  const bool tiles = variant == GPU_VARIANT_MATRIX_I8 && p->m > FEW_BYTES &&
                     !(limits->cooperative && has_groups(p)); /* which have no scale for a column */
  return halves || tiles ? way_of_matrix(limits, p) : way_of_dot(run, p);
}

/* ---- the product ---- */

/* The columns of the result that rows [first, first + count) of the weight make; `rows` binds
 * them. */
static int32_t multiply_part(gpu_run *run, const kit_launch *l, const gpu_product *p,
                             const activations *a, gpu_binding rows, int64_t first, int64_t count,
                             accel_plugin_error *error) {
  const gpu_weight *w = &p->w.w;
  const gpu_way way = way_of(run, p);
  gpu_call c = gpu_call_new(run, l, way.kernel);
  gpu_bind(&c, a->codes);
  gpu_bind(&c, a->scales);
  gpu_matrix_bind(&c, &p->w, rows);
  gpu_tensor(&c, p->bias);
  gpu_tensor(&c, p->residual);
  gpu_bind(&c, p->y);
  const gpu_params_linear_dot params = {
      .m = p->m,
      .n = count,
      .words = w->row_words,
      .y_stride = p->y_stride,
      .y_first = first,
      .group_n = w->group_n,
      .flags = (kit_has(p->bias) ? GPU_LINEAR_BIAS : 0) |
               (kit_has(p->residual) ? GPU_LINEAR_RESIDUAL : 0),
      .act = p->act,
      .alpha = (double)p->alpha,
      /* a segment in words of two halves, a multiple of 16 of them */
      .segment = gpu_ceil_div(gpu_ceil_div(p->k, SEGMENTS), 32) * 16,
      .group_words = gpu_group_words(w),
      .groups_k = w->groups_k,
  };
  gpu_set_linear_dot(&c, &params);
  return gpu_dispatch_way(&c, &way, p->m, count, error);
}

int32_t gpu_linear_q_multiply(gpu_run *run, const kit_launch *l, const gpu_product *p,
                              accel_plugin_error *error) {
  const gpu_weight *w = &p->w.w;
  const activations a = {.codes = gpu_part(p->activations_q, 0, (uint64_t)p->m * w->row_words * 4),
                         .scales = gpu_part(p->activations_q, gpu_activations_q_scales(w, p->m),
                                            (uint64_t)p->m * w->groups_k * 4)};
  int32_t rc = quantize(run, l, p, &a, error);
  for (int64_t first = 0; !rc && first < w->n;) {
    gpu_binding rows;
    const int64_t count = gpu_matrix_rows(run, &p->w, first, &rows);
    rc = multiply_part(run, l, p, &a, rows, first, count, error);
    first += count;
  }
  return rc;
}
