/* config_lists.c - see config_lists.h. */
#include "modeling/config_lists.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

accel_status accel__read_list(const accel__build *b, const char *key, int64_t n,
                              const accel__json **out) {
  ACCEL_TRY(accel__json_array(b->file, b->config, key, out));
  if (*out == NULL || cJSON_GetArraySize(*out) == n) return ACCEL_OK;
  return accel__refuse(b, "field '%s' has %d entries, expected %lld", key, cJSON_GetArraySize(*out),
                       (long long)n);
}

accel_status accel__read_ints(const accel__build *b, const char *key, int64_t n, int64_t min,
                              int64_t max, int64_t *io) {
  const accel__json *list = NULL;
  ACCEL_TRY(accel__read_list(b, key, n, &list));
  int64_t i = 0;
  ACCEL_JSON_EACH(item, list) {
    double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    if (!(v >= (double)min && v <= (double)max) || v != floor(v))
      return accel__refuse(b, "field '%s': entry %lld is no integer from %lld to %lld", key,
                           (long long)i, (long long)min, (long long)max);
    io[i++] = (int64_t)v;
  }
  return ACCEL_OK;
}

accel_status accel__read_some_ints(const accel__build *b, const char *key, int64_t max,
                                   int64_t most, int64_t *n, int64_t *io) {
  const accel__json *list = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, key, &list));
  if (list != NULL) *n = cJSON_GetArraySize(list);
  if (*n < 1 || *n > max)
    return accel__refuse(b, "field '%s' has %lld entries, 1 to %lld are possible", key,
                         (long long)*n, (long long)max);
  return accel__read_ints(b, key, *n, 1, most, io);
}

accel_status accel__read_size2(const accel__build *b, const char *key, int64_t min, int64_t max,
                               accel__size2 *io) {
  const accel__json *value = accel__json_get(b->config, key);
  int64_t both[2] = {io->h, io->w};
  if (value != NULL && cJSON_IsArray(value)) {
    ACCEL_TRY(accel__read_ints(b, key, 2, min, max, both));
  } else {
    ACCEL_TRY(accel__json_int(b->file, b->config, key, min, max, &both[0]));
    if (value != NULL && !cJSON_IsNull(value)) both[1] = both[0];
  }
  *io = (accel__size2){.h = both[0], .w = both[1]};
  return ACCEL_OK;
}

accel_status accel__read_stages(const accel__build *b, const char *stem, const char *stage,
                                int64_t stages, int64_t asked[ACCEL__MAX_MAPS], int64_t *n) {
  const accel__json *names = NULL, *indices = NULL;
  const size_t length = strlen(stage);
  ACCEL_TRY(accel__json_array(b->file, b->config, "out_features", &names));
  ACCEL_TRY(accel__json_array(b->file, b->config, "out_indices", &indices));
  const char *key = names != NULL ? "out_features" : "out_indices";
  *n = 0;
  ACCEL_JSON_EACH(item, names != NULL ? names : indices) {
    long long at = -1;
    const char *name = cJSON_IsString(item) ? item->valuestring : "";
    if (cJSON_IsNumber(item)) at = (long long)item->valuedouble;
    if (cJSON_IsNumber(item) && at < 0) at += stages + 1;
    if (strcmp(name, stem) == 0) at = 0;
    if (strncmp(name, stage, length) == 0) sscanf(name + length, "%lld", &at);
    if (at < 0 || at > stages || *n == ACCEL__MAX_MAPS || (*n > 0 && at <= asked[*n - 1]))
      return accel__refuse(b, "field '%s' names a stage that is not there, or not in order", key);
    asked[(*n)++] = at;
  }
  return ACCEL_OK;
}

accel_status accel__enter_config(accel__build *b, const char *key) {
  static const accel__json empty = {.type = cJSON_Object};
  b->config = b->file->root;
  if (key == NULL) return ACCEL_OK;
  const accel__json *inner = NULL;
  ACCEL_TRY(accel__json_object(b->file, b->config, key, &inner));
  b->config = inner != NULL ? inner : &empty;
  return ACCEL_OK;
}
