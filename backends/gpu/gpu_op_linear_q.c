/* gpu_op_linear_q.c - products of words: x is turned into the weight's kind of number, a row at a time,
 * then multiplied by integer dot products (kernels/linear_dot*.k) or matrix units
 * (kernels/linear_matrix*.k).
 *
 * A row's numbers depend on nothing but the row: sums of codes are whole numbers, those of matrix
 * units run in the same order for few rows and many. */
#include "gpu/gpu_op_linear.h"

/* sums of more codes could pass 31 bits */
enum { FEW_CODES = 8, FEW_HALVES = 16, SEGMENTS = 8, LONGEST = 1 << 17 };

static uint64_t aligned(uint64_t bytes) { return (bytes + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN; }

uint32_t gpu_activations_q_variant(uint32_t all, const gpu_weight *w, bool trans) {
  if (trans || w->packed || !w->k) return 0;
  if (w->store == GPU_STORE_F16) return all & GPU_VARIANT_MATRIX_F16;
  if (w->store == GPU_STORE_BF16) return all & GPU_VARIANT_MATRIX_BF16;
  if (w->store != GPU_STORE_I8 || w->scale_kind != GPU_SCALE_F32 || w->groups_k != 1 ||
      w->k > LONGEST)
    return 0;
  return all & GPU_VARIANT_MATRIX_I8 ? GPU_VARIANT_MATRIX_I8 : all & GPU_VARIANT_INT_DOT;
}

static uint64_t words_part(const gpu_weight *w, int64_t m) {
  return aligned((uint64_t)m * w->row_words * 4);
}

uint64_t gpu_activations_q_bytes(const gpu_self *self, const gpu_weight *w, bool trans, int64_t m) {
  return gpu_activations_q_variant(self->variants, w, trans)
             ? words_part(w, m) + aligned((uint64_t)m * 4)
             : 0;
}

/* x as words, and behind them a factor for each row. */
static int32_t encode(gpu_run *run, const kit_launch *l, const gpu_product *p, gpu_binding words,
                      gpu_binding factors, accel_plugin_error *error) {
  const gpu_store store = p->w.w.store;
  const uint32_t kernel = store == GPU_STORE_F16    ? GPU_K_codes_f16
                          : store == GPU_STORE_BF16 ? GPU_K_codes_bf16
                                                    : GPU_K_codes_i8;
  if (gpu_keeps(run, p->x, p->m, kernel, words)) return ACCEL_PLUGIN_OK;
  gpu_call c = gpu_call_new(run, l, kernel);
  gpu_tensor(&c, p->x);
  gpu_bind(&c, words);
  gpu_bind(&c, factors);
  gpu_int(&c, p->m);
  gpu_int(&c, p->k);
  gpu_int(&c, p->x->row_stride);
  gpu_int(&c, p->w.w.row_words);
  return gpu_dispatch_rows(&c, p->m, error);
}

/* Of the kernels for the four kinds of matrix units, the device's. */
static uint32_t of_unit(const gpu_limits *l, uint32_t mfma, uint32_t mma, uint32_t wmma,
                        uint32_t cooperative) {
  return l->cooperative ? cooperative : l->wmma ? wmma : l->wave == 64 ? mfma : mma;
}

static gpu_way choose(const gpu_run *run, const gpu_product *p) {
  const uint32_t variant = gpu_activations_q_variant(run->self->variants, &p->w.w, p->trans);
  const gpu_limits *limits = &run->self->limits;
  const bool native = limits->int_dot_native;
  if (variant == GPU_VARIANT_MATRIX_F16 || variant == GPU_VARIANT_MATRIX_BF16) {
    const uint32_t bf16 = variant == GPU_VARIANT_MATRIX_BF16;
    if (p->m <= FEW_HALVES)
      return (gpu_way){
          bf16 + of_unit(limits, GPU_K_linear_matrix_few64_f16, GPU_K_linear_matrix_few32_f16,
                         GPU_K_linear_wmma_few_f16, GPU_K_linear_cooperative_few_f16),
          16, 16, true};
    return (gpu_way){bf16 + of_unit(limits, GPU_K_linear_matrix64_f16, GPU_K_linear_matrix32_f16,
                                    GPU_K_linear_wmma_f16, GPU_K_linear_cooperative_f16),
                     64, 64, false};
  }
  if (p->m <= FEW_CODES)
    return (gpu_way){native ? GPU_K_linear_dot_few_native : GPU_K_linear_dot_few, 4, 8, true};
  if (variant == GPU_VARIANT_MATRIX_I8)
    return (gpu_way){of_unit(limits, GPU_K_linear_matrix64_i8, GPU_K_linear_matrix32_i8,
                             GPU_K_linear_wmma_i8, GPU_K_linear_cooperative_i8),
                     64, 64, false};
  if (gpu_takes_large(run->self, p, p->n, 128))
    return (gpu_way){native ? GPU_K_linear_dot128_native : GPU_K_linear_dot128, 128, 128, false};
  return (gpu_way){native ? GPU_K_linear_dot_native : GPU_K_linear_dot, 64, 64, false};
}

static bool by_segments(uint32_t kernel) { return gpu_kernels[kernel].params_bytes == 40; }

/* Rows [first, first + count) of w: columns of the result. */
static int32_t multiply_part(gpu_run *run, const kit_launch *l, const gpu_product *p,
                             const gpu_way *how, gpu_binding words, gpu_binding factors,
                             gpu_binding part, int64_t first, int64_t count,
                             accel_plugin_error *error) {
  const gpu_weight *w = &p->w.w;
  gpu_call c = gpu_call_new(run, l, how->kernel);
  gpu_bind(&c, words);
  gpu_bind(&c, factors);
  gpu_matrix_bind(&c, &p->w, part);
  gpu_tensor(&c, p->bias);
  gpu_tensor(&c, p->residual);
  gpu_bind(&c, p->y);
  gpu_int(&c, p->m);
  gpu_int(&c, count);
  gpu_int(&c, w->row_words);
  gpu_int(&c, p->y_stride);
  gpu_int(&c, first);
  gpu_int(&c, w->group_n);
  gpu_int(&c, (kit_has(p->bias) ? GPU_LINEAR_BIAS : 0) |
                  (kit_has(p->residual) ? GPU_LINEAR_RESIDUAL : 0));
  gpu_int(&c, p->act);
  gpu_float(&c, (double)p->alpha);
  /* words of two */
  if (by_segments(how->kernel)) gpu_int(&c, gpu_ceil_div(gpu_ceil_div(p->k, SEGMENTS), 32) * 16);
  return gpu_dispatch_way(&c, how, p->m, count, error);
}

int32_t gpu_activations_q_multiply(gpu_run *run, const kit_launch *l, const gpu_product *p,
                                   accel_plugin_error *error) {
  const gpu_binding words = gpu_part(p->words, 0, (uint64_t)p->m * p->w.w.row_words * 4),
                    factors = gpu_part(p->words, words_part(&p->w.w, p->m), (uint64_t)p->m * 4);
  const gpu_way how = choose(run, p);
  int32_t rc = encode(run, l, p, words, factors, error);
  for (int64_t first = 0; !rc && first < p->w.w.n;) {
    gpu_binding part;
    const int64_t count = gpu_matrix_rows(run, &p->w, first, &part);
    rc = multiply_part(run, l, p, &how, words, factors, part, first, count, error);
    first += count;
  }
  return rc;
}
