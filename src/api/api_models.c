/* api_models.c - what models can be run at all. */
#include <stdlib.h>
#include <string.h>

#include "api/api_check.h"
#include "models/model_build.h"

accel_status accel_architectures(accel_strings **out) {
  API_BEGIN();
  API_OUT(out);
  uint32_t n;
  const char *const *names = accel__model_architectures(&n);
  size_t size = sizeof(accel_strings) + n * sizeof *names;
  accel_strings *strings = malloc(size);
  if (!strings) return accel__no_memory(size);
  const char **item = (const char **)(strings + 1);
  for (uint32_t i = 0; i < n; i++) item[i] = names[i];
  *strings = (accel_strings){.n = n, .item = item};
  *out = strings;
  return ACCEL_OK;
}

const char *accel_architecture_task(const char *architecture) {
  uint32_t n;
  const char *const *names = accel__model_architectures(&n);
  for (uint32_t i = 0; architecture && i < n; i++)
    if (strcmp(names[i], architecture) == 0) return accel__model_task(architecture);
  return NULL;
}
