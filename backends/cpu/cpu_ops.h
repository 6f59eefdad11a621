/* cpu_ops.h - convolutions and the other ops that are no matrix products of the token rows: what
 * cpu_conv_weights.c packs at init and the launches of cpu_conv.c, cpu_image.c, cpu_scan.c, cpu_moe.c, cpu_shape.c,
 * cpu_elementwise.c and cpu_select.c. */
#ifndef ACCEL_CPU_OPS_H
#define ACCEL_CPU_OPS_H

#include "cpu.h"

/* ---- launches ---- */

/* Spatial dims of in[0] and out[0]; the kernel from w's dims, or the attribute when w is NULL. */
cpu_plane cpu_plane_of(const kit_launch *launch, const kit_tensor *w);

/* Runs the ops of these files, and by the kit's scalar kernels what none of them takes. */
int32_t cpu_launch_op(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
uint64_t cpu_op_workspace(const cpu_self *self, const cpu_kernels *kernels,
                          const kit_launch *shapes, uint32_t workers);

/* A convolution of images: what cpu_conv.c hands to cpu_conv_i8.c. */
typedef struct cpu_conv_call {
  const cpu_kernels *kernels;
  const cpu_conv *w;
  cpu_plane plane;
  int64_t count, channels, outputs; /* images; of an image */
  /* [count][channels][in], [outputs] or NULL, like y or NULL */
  const float *x, *bias, *residual;
  float *y;                                   /* [count][outputs][out] */
  cpu_codes x_codes, residual_codes, y_codes; /* where they are codes: cpu_image */
  bool x_positive, residual_positive;         /* codes without zeros */
  int64_t line;                               /* pixels of a line of y */
  int32_t act;
  float alpha;
  /* of the max pool that runs with it (backend->follows), whose result y is then; or NULL */
  const cpu_plane *pool;
} cpu_conv_call;

/* An image as codes, channels last, where its fp32 elements would be: x = (code - zero[pixel]) *
 * scale[pixel], codes of the kind that the int8 kernel of linears reads. */
typedef struct cpu_image {
  float *scale, *zero; /* [pixels] */
  uint8_t *codes;      /* [pixels][channels] */
} cpu_image;
static inline int cpu_codes_most(cpu_x x) { return x == CPU_X_U7B ? 127 : 255; }
static inline uint8_t cpu_codes_flip(cpu_x x) { return x == CPU_X_S8B ? 0x80 : 0; }
static inline int64_t cpu_image_floats(int64_t pixels, int64_t channels) {
  return 2 * pixels + (pixels * channels + 3) / 4;
}
static inline cpu_image cpu_image_at(const void *images, int64_t index, int64_t pixels,
                                     int64_t channels) {
  float *scale = (float *)images + index * cpu_image_floats(pixels, channels);
  return (cpu_image){
      .scale = scale, .zero = scale + pixels, .codes = (uint8_t *)(scale + 2 * pixels)};
}

/* w is CPU_CONV_I8.  An image's result depends neither on the others nor on the number of
 * threads. */
void cpu_conv_i8(const cpu_conv_call *call, const kit_launch *launch);
/* A max pool over a convolution's codes runs with it: its lines are never coded. */
bool cpu_conv_fuse_chain(const cpu_self *self, const accel_plugin_program *program,
                         const accel_plugin_node *first, const accel_plugin_node *next);
/* shapes alone count */
uint64_t cpu_conv_i8_workspace(const cpu_conv_call *call, uint32_t workers);

int32_t cpu_launch_conv(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
int32_t cpu_launch_conv_transpose(const cpu_self *self, const kit_launch *launch,
                                  accel_plugin_error *error);
int32_t cpu_launch_pool(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
uint64_t cpu_pool_workspace(const kit_launch *shapes, uint32_t workers);
int32_t cpu_launch_resize(const cpu_self *self, const kit_launch *launch,
                          accel_plugin_error *error);
uint64_t cpu_resize_workspace(const kit_launch *shapes, uint32_t workers);
int32_t cpu_launch_group_norm(const cpu_self *self, const kit_launch *launch,
                              accel_plugin_error *error);
int32_t cpu_launch_scan(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
uint64_t cpu_scan_workspace(const cpu_kernels *kernels, const kit_launch *shapes, uint32_t workers);
int32_t cpu_launch_moe(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
uint64_t cpu_moe_workspace(const kit_launch *shapes);
int32_t cpu_launch_move(const cpu_self *self, const kit_launch *launch,
                        accel_plugin_error *error); /* transpose, slice, broadcast */
int32_t cpu_launch_concat(const cpu_self *self, const kit_launch *launch,
                          accel_plugin_error *error);
int32_t cpu_launch_pad(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
int32_t cpu_launch_cast(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
int32_t cpu_launch_topk(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
uint64_t cpu_topk_workspace(const kit_launch *shapes, uint32_t workers);
int32_t cpu_launch_scatter(const cpu_self *self, const kit_launch *launch,
                           accel_plugin_error *error);
/* What cpu_rows.c leaves: any broadcasting, pow and where; sine and cosine; other axes and kinds. */
int32_t cpu_launch_nest(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
int32_t cpu_launch_wave(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
int32_t cpu_launch_softmax_axis(const cpu_self *self, const kit_launch *launch,
                                accel_plugin_error *error);
int32_t cpu_launch_fold(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
int32_t cpu_launch_gather_axis(const cpu_self *self, const kit_launch *launch,
                               accel_plugin_error *error);
/* self: NULL before there is an endpoint; then what its forms may need at most. */
uint64_t cpu_conv_workspace(const cpu_self *self, const cpu_kernels *kernels,
                            const kit_launch *shapes, uint32_t workers);

#endif
