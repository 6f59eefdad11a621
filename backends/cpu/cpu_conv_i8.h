/* cpu_conv_i8.h - convolutions of images over int8 weights; cpu_conv.c calls it. */
#ifndef ACCEL_CPU_CONV_I8_H
#define ACCEL_CPU_CONV_I8_H

#include "cpu.h"

/* A convolution of images: what cpu_conv.c hands to cpu_conv_i8.c. */
typedef struct cpu_conv_call {
  const cpu_kernels *kernels;
  const cpu_conv *w;
  kit_plane plane;
  int64_t count, channels, outputs; /* images; of an image */
  /* [count][channels][in], [outputs] or NULL, like y or NULL */
  const float *x, *bias, *residual;
  float *y;                                   /* [count][outputs][out] */
  cpu_codes x_codes, residual_codes, y_codes; /* where they are codes: cpu_image */
  bool x_positive, residual_positive;         /* codes without zeros */
  int64_t line;                               /* pixels of a line of y */
  int32_t act;
  float alpha;
  /* of the max pool that runs with it (kit_backend.fuse_chain), whose result y is then; or NULL */
  const kit_plane *pool;
} cpu_conv_call;

/* An image as codes, channels last, where its fp32 elements would be: x = (code - zero[pixel]) *
 * scale[pixel], codes of the kind that the int8 kernel of linears reads. */
typedef struct cpu_image {
  float *scale, *zero; /* [pixels] */
  uint8_t *codes;      /* [pixels][channels] */
} cpu_image;
static inline int64_t cpu_image_floats(int64_t pixels, int64_t channels) {
  return 2 * pixels + (pixels * channels + 3) / 4;
}
static inline cpu_image cpu_image_at(const void *images, int64_t index, int64_t pixels,
                                     int64_t channels) {
  float *codes = (float *)images + index * cpu_image_floats(pixels, channels),
        *scale = codes + (pixels * channels + 3) / 4;
  return (cpu_image){.scale = scale, .zero = scale + pixels, .codes = (uint8_t *)codes};
}

/* The scale and zero of codes 0..most that reach as far as any of lines [first, end) of an image,
 * `wide` pixels each, whose own may differ from line to line; NaN where one of theirs is. */
void cpu_image_join(cpu_image x, int64_t wide, int most, int64_t first, int64_t end, float *scale,
                    float *zero);

/* w is CPU_CONV_I8.  An image's result depends neither on the others nor on the number of
 * threads. */
void cpu_conv_i8(const cpu_conv_call *call, const kit_launch *launch);
/* Bytes of workspace; reads no operands, only shapes. */
uint64_t cpu_conv_i8_workspace(const cpu_conv_call *call, uint32_t workers);

#endif
