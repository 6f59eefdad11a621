/* weight_formats.h - weights that benches compare with ggml's: a name, ggml's type that is nearest,
 * and the format. */
#ifndef ACCEL_TESTS_WEIGHT_FORMATS_H
#define ACCEL_TESTS_WEIGHT_FORMATS_H

#include "formats/weight_matrix.h"

static const struct weight_format {
  const char *name, *peer;
  accel_plugin_format format;
} weight_formats[] = {
    {"fp32",
     "F32",
     {ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0}},
    {"fp16",
     "F16",
     {ACCEL_PLUGIN_F16, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0}},
    {"bf16",
     "BF16",
     {ACCEL_PLUGIN_BF16, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0,
      0}},
    {"fp8",
     "Q8_0",
     {ACCEL_PLUGIN_E4M3, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 1}},
    {"int8",
     "Q8_0",
     {ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 1}},
    {"int4",
     "Q4_0",
     {ACCEL_PLUGIN_I4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 64, 1}},
    {"int4-32",
     "Q4_0",
     {ACCEL_PLUGIN_I4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 32, 1}},
    {"uint4",
     "Q4_0",
     {ACCEL_PLUGIN_U4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_U8, ACCEL_PLUGIN_NO_DTYPE, 64, 1}},
    {"fp4-mx",
     "Q4_0",
     {ACCEL_PLUGIN_E2M1, ACCEL_PLUGIN_E8M0, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 32, 1}},
    {"fp4-nv",
     "Q4_0",
     {ACCEL_PLUGIN_E2M1, ACCEL_PLUGIN_E4M3, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_F32, 16, 1}},
};
enum { WEIGHT_FORMATS = sizeof weight_formats / sizeof *weight_formats };

#endif
