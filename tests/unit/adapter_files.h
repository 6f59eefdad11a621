/* adapter_files.h - for unit tests: adapters of a few tensors, written to temp_directory. */
#ifndef ACCEL_TESTS_ADAPTER_FILES_H
#define ACCEL_TESTS_ADAPTER_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/temp.h"
#include "weights/weights.h"

typedef struct given {
  const char *name;
  uint32_t rank;
  int64_t dim[2];
} given;

/* An adapter in temp_directory with these tensors, all of 0.5; `value` replaces the first. */
static inline const char *make_adapter(const char *config, const given *tensors, uint32_t n,
                                       float value) {
  static float values[8192];
  static unsigned turn;
  char name[64];
  accel__tensor_info t[8] = {{.name = NULL}};
  for (size_t i = 0; i < 8192; i++) values[i] = i ? 0.5f : value;
  for (uint32_t i = 0; i < n; i++) {
    t[i] = (accel__tensor_info){.name = tensors[i].name,
                                .dtype = ACCEL_PLUGIN_F32,
                                .rank = tensors[i].rank,
                                .dim = {tensors[i].dim[0], tensors[i].dim[1]},
                                .data = values};
    t[i].elements = (uint64_t)(t[i].dim[0] * (t[i].rank > 1 ? t[i].dim[1] : 1));
    t[i].bytes = 4 * t[i].elements;
  }
  snprintf(name, sizeof name, "adapter%u/adapter_config.json", turn);
  temp_text(name, config);
  snprintf(name, sizeof name, "adapter%u/adapter_model.safetensors", turn);
  assert_int_equal(accel__safetensors_write(temp_path(name), t, n, NULL, 0), ACCEL_OK);
  snprintf(name, sizeof name, "adapter%u", turn++);
  return temp_path(name);
}

#endif
