/* api_detect.c - public detection. */
#include <stdlib.h>
#include <string.h>

#include "api/api_check.h"
#include "dispatch/locate.h"
#include "verify/support_matrix.h"

accel_status accel_detect(accel *ctx, int refresh, accel_devices **out) {
  accel__hardware *hardware;
  API_CALL(ctx, out);
  ACCEL_TRY(accel__context_hardware(ctx, &hardware));
  return accel__hardware_detect(hardware, refresh != 0, out);
}

void accel_devices_free(accel_devices **devices) { accel__devices_free(devices); }

accel_status accel_detect_json(accel *ctx, int refresh, char **json) {
  accel__hardware *hardware;
  API_CALL(ctx, json);
  ACCEL_TRY(accel__context_hardware(ctx, &hardware));
  return accel__detect_json(hardware, refresh != 0, json);
}

accel_status accel_find_model(accel *ctx, const char *model, char **directory) {
  API_CALL(ctx, directory);
  API_NEED(model);
  accel__arena arena = {0};
  char *found = NULL;
  accel_status status = accel__locate(ctx, model, &arena, &found, NULL);
  if (status == ACCEL_OK && !(*directory = strdup(found))) status = accel__no_memory(strlen(found));
  accel__arena_free(&arena);
  return status;
}

accel_status accel_matrix_json(accel *ctx, const char *model, char **json) {
  API_CALL(ctx, json);
  return accel__matrix_json(ctx, model, json);
}
