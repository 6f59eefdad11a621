/* gpu_product.h - one product y[m, n] = act(x w^T + bias) + residual, as the two ways to compute
 * it and the benchmark of kernels describe it: with fp32 activations (gpu_op_linear.c), or with
 * activations quantised or narrowed to the weight's own kind of number (gpu_op_linear_q.c):
 * signed bytes for int8 weights, fp16 or bf16 for theirs, on devices with integer dot products
 * or matrix units. */
#ifndef ACCEL_GPU_PRODUCT_H
#define ACCEL_GPU_PRODUCT_H

#include "gpu/gpu_layer.h"

enum { GPU_LARGE_ROWS = 128 };                         /* rows of a large tile of the result */
enum { GPU_LINEAR_BIAS = 1, GPU_LINEAR_RESIDUAL = 2 }; /* flags of all kernels of linear */

/* Which activations lie in a launch's workspace as codes, halves (gpu_op_linear_q.c) or packed
 * (opencl/cpu): its other products of the same x read them there. */
typedef struct gpu_quantized {
  uint32_t kernel; /* that wrote them; 0: there are none yet */
  uint32_t group;  /* words of a row that share a scale */
  int64_t rows;
  gpu_binding from, to;
} gpu_quantized;

typedef struct gpu_product {
  const kit_tensor *x;
  gpu_matrix w;
  const kit_tensor *bias, *residual; /* kit_has is false where there is none */
  gpu_binding y;
  /* workspace of gpu_activations_q_bytes, or of gpu_cpu_kernels.packed_workspace */
  gpu_binding activations_q;
  gpu_quantized *quantized;  /* what lies there: the launch's, kept from product to product */
  int64_t m, n, k, y_stride; /* in elements */
  int32_t act;
  float alpha;
  bool trans;    /* w is stored [k, n] */
  uint32_t tile; /* 64: small tiles, GPU_LARGE_ROWS: large ones; 0: by size */
} gpu_product;

/* The kernel that computes a product, and the rows and columns of the result that one of its
 * workgroups has. */
typedef struct gpu_way {
  uint32_t kernel;
  int64_t rows, columns;
  /* The kernel loops over columns where the grid is cut to the device's limit.  All kernels loop
   * over rows beyond it. */
  bool loops;
} gpu_way;

/* Dispatches a call over as many workgroups as m rows and n columns of the result need. */
int32_t gpu_dispatch_way(gpu_call *c, const gpu_way *way, int64_t m, int64_t n,
                         accel_plugin_error *error);

/* Whether at most a fifth of such tiles along `size` lies beyond it. */
static inline bool gpu_tiles_fit(int64_t size, int64_t tile) {
  return 4 * tile * gpu_ceil_div(size, tile) <= 5 * size;
}

/* Whether n columns of the product are computed in tiles of GPU_LARGE_ROWS x `columns`: as p->tile
 * says, or by the product's size when that is 0. */
bool gpu_takes_large(const gpu_self *self, const gpu_product *p, int64_t n, int64_t columns);

/* x w^T with a weight of shape [n, k] stored as F32, F16, BF16, or I8 with a scale for each
 * `group_k` elements of a row (k: one for each row). The caller adds x, m and the buffers. */
gpu_product gpu_bare_product(gpu_store store, int64_t n, int64_t k, int64_t group_k);

/* Words of a row of w that share a scale of it, and of x's codes for it: all that a row has where
 * w has no groups along k. */
uint32_t gpu_group_words(const gpu_weight *w);

/* The bit of `variants` whose kernels multiply activations of the weight's own kind with this
 * weight; 0: none of them does. */
uint32_t gpu_activations_q_variant(uint32_t variants, const gpu_weight *w, bool trans);
/* Bytes of gpu_product.activations_q for m rows; 0 where no such variant is used. */
uint64_t gpu_activations_q_bytes(const gpu_self *self, const gpu_weight *w, bool trans, int64_t m);
/* Where the scales of x [m, groups along k of w] begin in it: bytes behind m rows of codes. */
uint64_t gpu_activations_q_scales(const gpu_weight *w, int64_t m);

/* p->x as `kernel` writes it at `to`. */
gpu_quantized gpu_quantized_of(const gpu_run *run, const gpu_product *p, uint32_t kernel,
                               gpu_binding to);
bool gpu_quantized_same(const gpu_quantized *a, const gpu_quantized *b);

#endif
