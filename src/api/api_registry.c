/* api_registry.c - public questions to the registry. */
#include <string.h>

#include "api/api_check.h"
#include "dispatch/context.h"

accel_registry_filter accel_registry_filter_default(void) {
  return (accel_registry_filter){.size = sizeof(accel_registry_filter)};
}

/* The context's registry, arguments checked. */
#define API_REGISTRY(registry) \
  accel__registry *registry;   \
  API_BEGIN();                 \
  API_NEED(ctx);               \
  ACCEL_TRY(accel__context_registry(ctx, &registry))

accel_status accel_registry_lookup(accel *ctx, const char *model,
                                   const accel_registry_entry **out) {
  API_OUT(out);
  API_REGISTRY(registry);
  API_NEED(model);
  const accel__registry_model *found;
  ACCEL_TRY(accel__registry_lookup(registry, model, &found));
  *out = &found->entry;
  return ACCEL_OK;
}

accel_status accel_registry_json(accel *ctx, const char *model, char **json) {
  API_OUT(json);
  API_REGISTRY(registry);
  return accel__registry_json(registry, model, json);
}

accel_status accel_registry_list(accel *ctx, const accel_registry_filter *filter,
                                 accel_strings **models) {
  API_OUT(models);
  API_REGISTRY(registry);
  API_PARAMS(accel_registry_filter, mine, filter);
  return accel__registry_list(registry, &mine, models);
}

accel_status accel_registry_add(accel *ctx, const char *json) {
  API_REGISTRY(registry);
  API_NEED(json);
  return accel__registry_add(registry, json, strlen(json), "accel_registry_add");
}

accel_status accel_is_hardware_supported(accel *ctx, const char *model, const char *hardware,
                                         int *supported) {
  API_NEED(supported);
  *supported = 0;
  API_REGISTRY(registry);
  API_NEED(model);
  API_NEED(hardware);
  return accel__registry_hardware_supported(registry, model, hardware, supported);
}

accel_status accel_is_precision_supported(accel *ctx, const char *model, const char *hardware,
                                          const char *precision, int *supported) {
  API_NEED(supported);
  *supported = 0;
  API_REGISTRY(registry);
  API_NEED(model);
  API_NEED(hardware);
  API_NEED(precision);
  return accel__registry_precision_supported(registry, model, hardware, precision, supported);
}

accel_status accel_get_dependencies(accel *ctx, const char *model, const char *hardware,
                                    const char *precision, accel_strings **out) {
  API_OUT(out);
  API_REGISTRY(registry);
  API_NEED(model);
  return accel__registry_dependencies(registry, model, hardware, precision, out);
}

accel_status accel_set_precision_profile(accel *ctx, const char *model, const char *hardware,
                                         const char *const *precisions, const int *supported,
                                         uint32_t n, int merge) {
  API_REGISTRY(registry);
  API_NEED(model);
  API_NEED(hardware);
  if (n) API_NEED(precisions && supported);
  return accel__registry_set_profile(registry, model, hardware, precisions, supported, n,
                                     merge != 0);
}
