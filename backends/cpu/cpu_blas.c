/* cpu_blas.c - linear by OpenBLAS, for processors that have no kernels of ours.
 *
 * libopenblas.so.0 is opened when an endpoint is, if the machine runs nothing newer than the plain
 * C kernels (or ACCEL_ISA=openblas asks for it) and the build did not leave it out
 * (ACCEL_WITH_OPENBLAS=OFF).  It is called from one thread; its own threads are switched off, which
 * holds for everything in the process that shares this library.  Its sums depend on the number of
 * rows, so results may differ from batch to batch in the last bits, unlike those of our kernels. */
#include "cpu_blas.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112, BLOCK = 256 /* rows at a time */ };

bool cpu_blas_wanted(cpu_isa isa) {
#if defined(CPU_WITH_OPENBLAS)
  const char *name = getenv("ACCEL_ISA");
  return isa == CPU_ISA_SCALAR && (!name || !*name || !strcmp(name, "openblas"));
#else
  (void)isa;
  return false;
#endif
}

cpu_sgemm_fn *cpu_blas_open(void) {
  cpu_sgemm_fn *sgemm = NULL;
  void (*set_threads)(int) = NULL;
  /* stays open: it has threads and exit handlers of its own */
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return NULL;
  *(void **)&sgemm = dlsym(library, "cblas_sgemm");
  *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
  if (set_threads) set_threads(1);
  return sgemm;
}

uint64_t cpu_blas_workspace(const kit_launch *shapes) {
  int64_t rows = kit_row_count(&shapes->out[0]);
  return (uint64_t)(rows < BLOCK ? rows : BLOCK) * (uint64_t)kit_cols(&shapes->out[0]) *
         sizeof(float);
}

/* Rows of `tile` to y: act(tile + bias) + residual. */
static void finish_rows(const cpu_kernels *k, const kit_launch *l, float *tile, int64_t row,
                        int64_t rows) {
  const float *bias = kit_f32(&l->in[2]), *residual = kit_f32(&l->in[3]);
  const int64_t n = kit_cols(&l->out[0]);
  int32_t act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  for (int64_t i = 0; i < rows; i++) {
    float *t = tile + i * n, *y = kit_f32(&l->out[0]) + (row + i) * n;
    if (bias) k->binary(ACCEL_PLUGIN_BINARY_ADD, t, 1, bias, 1, t, n);
    if (act != ACCEL_PLUGIN_ACT_NONE) k->activate(act, kit_act_alpha(l->node, act), t, t, n);
    if (residual)
      k->binary(ACCEL_PLUGIN_BINARY_ADD, t, 1, residual + (row + i) * n, 1, y, n);
    else
      memcpy(y, t, (size_t)n * sizeof *y);
  }
}

bool cpu_blas_takes(const accel_plugin_node *n) {
  return kit_attr_i(n, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE) == ACCEL_PLUGIN_GLU_NONE;
}

int32_t cpu_launch_blas(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *w = &l->in[1], *out = &l->out[0];
  const int64_t rows = kit_row_count(out), n = kit_cols(out), k = kit_cols(x);
  bool trans = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_TRANS, 0) != 0;
  if (!out->elements || k < 1 || n > INT_MAX || k > INT_MAX || x->row_stride > INT_MAX)
    return kit_scalar(ACCEL_PLUGIN_OP_LINEAR)(l, error);
  for (int64_t row = 0; row < rows; row += BLOCK) {
    int64_t m = rows - row < BLOCK ? rows - row : BLOCK;
    s->sgemm(ROW_MAJOR, PLAIN, trans ? PLAIN : TRANSPOSED, (int)m, (int)n, (int)k, 1.0f,
             kit_f32(x) + row * x->row_stride, (int)x->row_stride, kit_f32(w), (int)(trans ? n : k),
             0.0f, l->workspace, (int)n);
    finish_rows(&s->kernels, l, l->workspace, row, m);
  }
  return ACCEL_PLUGIN_OK;
}
