/* ocl_cpu.c - how the op layer uses the kernels of CPUs behind OpenCL: products with packed weights
 * (kernels/panel*.k); attention and norms differ from the GPUs' in the kernel alone. */
#include "opencl/cpu/ocl_cpu.h"

#include "gpu/gpu_product.h"
#include "opencl/cpu/ocl_cpu_pack.h"
#include "opencl/ocl_cpu_params.h" /* by embed.cmake */

/* PANELS_ONE: panel_one.k's PANELS; BLOCK_TILES and PANEL_K: panel.k's TILES and KC. */
enum { PANELS_ONE = 4, BLOCK_TILES = 20, PANEL_K = 128, OFFSETS = 16 };

/* The language's own prefetch does nothing on PoCL; its compiler is clang. */
const char ocl_cpu_prefetch[] =
    "#ifdef __has_builtin\n"
    "#if __has_builtin(__builtin_prefetch)\n"
    "#define ocl_prefetch(p) __builtin_prefetch((const void *)(size_t)(p))\n"
    "#endif\n"
    "#endif\n"
    "#ifndef ocl_prefetch\n"
    "#define ocl_prefetch(p)\n"
    "#endif\n";

/* Sums of rows x 16 panels columns that the vector registers have room for. */
typedef struct register_tile {
  uint32_t kernel, packing; /* of fp32 weights, and of x */
  int64_t rows, panels;
} register_tile;

static const register_tile *tile_of(const gpu_self *self) {
  static const register_tile wide = {GPU_KERNELS + OCL_CPU_K_panel14_f32,
                                     GPU_KERNELS + OCL_CPU_K_panel_x14, 14, 2},
                             narrow = {GPU_KERNELS + OCL_CPU_K_panel4_f32,
                                       GPU_KERNELS + OCL_CPU_K_panel_x4, 4, 1};
  return self->limits.cpu_kernels->vector >= 16 ? &wide : &narrow;
}

/* Where x is packed; one row is read as it is. */
static uint64_t packed_bytes(const gpu_self *self, const gpu_weight *w, int64_t m) {
  const int64_t rows = tile_of(self)->rows;
  return m > 1 ? (uint64_t)(gpu_ceil_div(m, rows) * rows * w->k) * 4 : 0;
}

static int32_t pack_x(gpu_run *run, const kit_launch *l, const gpu_product *p, gpu_binding packed,
                      accel_plugin_error *error) {
  const register_tile *tile = tile_of(run->self);
  const gpu_quantized want = gpu_quantized_of(run, p, tile->packing, packed);
  if (gpu_quantized_same(p->quantized, &want)) return ACCEL_PLUGIN_OK;
  gpu_call c = gpu_call_new(run, l, tile->packing);
  gpu_tensor(&c, p->x);
  gpu_bind(&c, packed);
  const ocl_cpu_params_panel_x14 params = {
      .m = p->m,
      .k = p->k,
      .x_stride = p->x->row_stride,
  };
  ocl_cpu_set_panel_x14(&c, &params);
  const int32_t rc =
      gpu_dispatch_grid(&c, gpu_ceil_div(p->k, PANEL_K), gpu_ceil_div(p->m, tile->rows), 1, error);
  if (!rc) *p->quantized = want;
  return rc;
}

/* A call of panel_one.k or panel.k, whose parameters are the same. */
static gpu_call panel_call(gpu_run *run, const kit_launch *l, const gpu_product *p, uint32_t kernel,
                           gpu_binding x, int64_t block) {
  const gpu_weight *w = &p->w.w;
  const struct gpu_packed *packed = w->packed;
  gpu_call c = gpu_call_new(run, l, kernel + w->store);
  gpu_bind(&c, x);
  gpu_bind(&c, gpu_memory_at(packed->codes));
  gpu_bind(&c, packed->factors ? gpu_memory_at(packed->factors) : gpu_none(run));
  gpu_tensor(&c, p->bias);
  gpu_tensor(&c, p->residual);
  gpu_bind(&c, p->y);
  const ocl_cpu_params_panel14 params = {
      .m = p->m,
      .n = p->n,
      .k = p->k,
      .y_stride = p->y_stride,
      .panel_words = packed->panel_words,
      .group_k = w->group_k,
      .groups_k = w->groups_k,
      .block = block,
      .flags = (kit_has(p->bias) ? GPU_LINEAR_BIAS : 0) |
               (kit_has(p->residual) ? GPU_LINEAR_RESIDUAL : 0) | (packed->offsets ? OFFSETS : 0),
      .act = p->act,
      .alpha = (double)p->alpha,
  };
  ocl_cpu_set_panel14(&c, &params);
  return c;
}

static int32_t multiply(gpu_run *run, const kit_launch *l, const gpu_product *p,
                        accel_plugin_error *error) {
  const register_tile *tile = tile_of(run->self);
  const int64_t panels = gpu_ceil_div(p->n, OCL_CPU_PANEL), tiles = gpu_ceil_div(p->m, tile->rows);
  if (p->m == 1) {
    gpu_call c = panel_call(run, l, p, GPU_KERNELS + OCL_CPU_K_panel_one_f32, gpu_at(run, p->x), 1);
    return gpu_dispatch_grid(&c, gpu_ceil_div(panels, PANELS_ONE), 1, 1, error);
  }
  const gpu_binding x = gpu_part(p->activations_q, 0, packed_bytes(run->self, &p->w.w, p->m));
  const int32_t rc = pack_x(run, l, p, x, error);
  if (rc) return rc;
  const int64_t blocks = gpu_ceil_div(tiles, BLOCK_TILES),
                block = gpu_ceil_div(tiles, blocks) * tile->rows;
  gpu_call c = panel_call(run, l, p, tile->kernel, x, block);
  return gpu_dispatch_grid(&c, gpu_ceil_div(panels, tile->panels), gpu_ceil_div(p->m, block), 1,
                           error);
}

#define CPU_KERNELS(floats)                                                                  \
  {                                                                                          \
    .kernels = ocl_cpu_kernels, .attention_rows = GPU_KERNELS + OCL_CPU_K_attention_cpu,     \
    .norm_rows = GPU_KERNELS + OCL_CPU_K_norm_cpu, .vector = (floats), .pack = ocl_cpu_pack, \
    .packed_free = ocl_cpu_packed_free, .packed_workspace = packed_bytes,                    \
    .packed_multiply = multiply                                                              \
  }

const gpu_cpu_kernels *ocl_cpu_kernels_for(uint32_t vector) {
  static const gpu_cpu_kernels wide = CPU_KERNELS(16), narrow = CPU_KERNELS(8);
  return !vector ? NULL : vector >= 16 ? &wide : &narrow;
}
