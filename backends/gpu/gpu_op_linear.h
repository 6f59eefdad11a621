/* gpu_op_linear.h - one product y[m, n] = act(x w^T + bias) + residual, and its two ways: with fp32
 * activations (gpu_op_linear.c), or with activations in words of the weight's own kind (gpu_op_linear_q.c):
 * signed bytes for int8 weights, fp16 or bf16 for theirs, for devices with integer dot products or
 * matrix units. */
#ifndef ACCEL_GPU_OP_LINEAR_H
#define ACCEL_GPU_OP_LINEAR_H

#include "gpu/gpu_ops.h"

enum { GPU_LARGE_ROWS = 128 };                         /* of a large tile */
enum { GPU_LINEAR_BIAS = 1, GPU_LINEAR_RESIDUAL = 2 }; /* flags of all kernels of linear */

typedef struct gpu_product {
  const kit_tensor *x;
  gpu_matrix w;
  const kit_tensor *bias, *residual;
  gpu_binding y;
  gpu_binding words; /* workspace of gpu_activations_q_bytes */
  int64_t m, n, k, y_stride;
  int32_t act;
  float alpha;
  bool trans;
  uint32_t tile; /* 64: small tiles, GPU_LARGE_ROWS: large ones; 0: by size */
} gpu_product;

/* A kernel, and the rows and columns of the result that one of its groups has. */
typedef struct gpu_way {
  uint32_t kernel;
  int64_t rows, columns;
  /* over columns where the grid is cut; whatever has more rows than a grid loops over these */
  bool loops;
} gpu_way;
/* Groups for m rows and n columns. */
int32_t gpu_dispatch_way(gpu_call *c, const gpu_way *way, int64_t m, int64_t n,
                         accel_plugin_error *error);

/* Are n columns of the product taken by tiles of GPU_LARGE_ROWS x columns: as p->tile says, else by
 * its size? */
bool gpu_takes_large(const gpu_self *self, const gpu_product *p, int64_t n, int64_t columns);
/* x w^T with weights [n, k] in F32, F16, BF16, or I8 with a scale for each row: all but x, m and
 * the buffers. */
gpu_product gpu_bare_product(gpu_store store, int64_t n, int64_t k);
/* Of `variants` the one by which rows of k numbers are multiplied with this weight stored [n, k];
 * 0: none. */
uint32_t gpu_activations_q_variant(uint32_t variants, const gpu_weight *w, bool trans);
/* Workspace for m rows; 0 without such a variant. */
uint64_t gpu_activations_q_bytes(const gpu_self *self, const gpu_weight *w, bool trans, int64_t m);
int32_t gpu_activations_q_multiply(gpu_run *run, const kit_launch *l, const gpu_product *p,
                                   accel_plugin_error *error);
/* Either way, by what the run's endpoint takes; x within one binding. */
int32_t gpu_rows_multiply(gpu_run *run, const kit_launch *l, const gpu_product *p,
                          accel_plugin_error *error);

/* ---- gpu_choice.c ---- */

/* Is the variant, which is right, as fast as the plain kernels on this device?  1: yes, 0: no, -1:
 * it could not be measured.
 */
int gpu_variant_is_faster(gpu_self *self, const accel_plugin_host *host, uint32_t variant,
                          gpu_store store);
/* Are tiles of 128 rows as fast as those of 64 where products take them by their size? */
int gpu_large_tiles_are_faster(gpu_self *self, const accel_plugin_host *host);

#endif
