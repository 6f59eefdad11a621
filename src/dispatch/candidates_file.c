/* candidates_file.c - reads what is known of a model's candidates (candidates_file.h). */
#include "dispatch/candidates_file.h"

#include <math.h>
#include <string.h>

#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "shared/candidates_name.h"

enum { MAX_FILE = 1 << 22, MAX_ITEMS = 4096 };
static const char again[] = "write it anew with `accel choose`";

/* ---- where it is ---- */

static char *weights_of(accel_endpoint *ep) {
  return ep->checkpoint
             ? accel__arena_string(&ep->arena, "local")
             : accel__arena_printf(&ep->arena, "random, seed %llu", (unsigned long long)ep->seed);
}

/* Beside the folder of packed weights. */
static accel_status default_path(accel_endpoint *ep, const char *weights, const char **out) {
  const accel__cache *cache = accel__context_cache(ep->ctx, false);
  const char *packed = cache->directory, *end = packed ? strrchr(packed, '/') : NULL;
  char name[ACCEL_CANDIDATES_NAME];
  if (!end)
    return accel__fail(ACCEL_ERROR_NOT_FOUND,
                       "no figures of this model were found: there is no "
                       "directory for caches");
  accel_candidates_name(ep->name, weights, name);
  *out = accel__arena_printf(&ep->arena, "%.*s/%s/%s", (int)(end - packed), packed,
                             ACCEL_CANDIDATES_FOLDER, name);
  return *out ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status open_file(accel_endpoint *ep, const char *given, const char *weights,
                              accel__json_file *file) {
  const char *path = given;
  if (given && given[strspn(given, " \t\r\n")] == '{')
    return accel__json_parse(given, strlen(given), "candidates", file);
  if (!given) ACCEL_TRY(default_path(ep, weights, &path));
  accel_status status = accel__json_read(path, MAX_FILE, file);
  return status == ACCEL_ERROR_NOT_FOUND && !given
             ? accel__fail(status, "nothing is stored of %s: accel choose MODEL --store does it",
                           ep->name)
             : status;
}

/* ---- what it says ---- */

static accel_status text_of(const accel__json_file *file, const accel__json *object,
                            const char *key, accel__arena *arena, const char **out) {
  const char *text = "";
  ACCEL_TRY(accel__json_string(file, object, key, &text));
  *out = accel__arena_string(arena, text);
  return *out ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* `key` must be `own`. */
static accel_status must_be(const accel__json_file *file, const char *key, const char *own) {
  const char *given = "";
  ACCEL_TRY(accel__json_string(file, file->root, key, &given));
  if (!strcmp(given, own)) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_FORMAT, "%s: %s is '%s', here it is '%s'", file->name, key, given, own);
  return accel__remedy(ACCEL_ERROR_FORMAT, "%s", again);
}

static accel_status check_head(accel_endpoint *ep, const accel__json_file *file,
                               const char *weights) {
  int64_t threads = 0;
  const uint32_t own = accel__pool_size(ep->ctx->pool);
  if (!cJSON_IsObject(file->root))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: expected an object", file->name);
  ACCEL_TRY(must_be(file, "schema", ACCEL_CANDIDATES_SCHEMA));
  ACCEL_TRY(must_be(file, "model", ep->name));
  ACCEL_TRY(must_be(file, "weights", weights));
  ACCEL_TRY(must_be(file, "build", ACCEL_BUILD_ID));
  ACCEL_TRY(accel__json_int(file, file->root, "threads", 0, 4096, &threads));
  if (threads == own) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_FORMAT, "%s: threads is %d, here there are %u", file->name, (int)threads,
              own);
  return accel__remedy(ACCEL_ERROR_FORMAT, "%s", again);
}

/* One that is not of positive numbers in their order is none. */
static accel_status read_figure(const accel__json_file *file, const accel__json *object,
                                const char *key, accel__figure *out) {
  const accel__json *figure = NULL;
  const char *source = "";
  accel__figure f = {0};
  *out = f;
  ACCEL_TRY(accel__json_object(file, object, key, &figure));
  ACCEL_TRY(accel__json_string(file, figure, "source", &source));
  ACCEL_TRY(accel__json_number(file, figure, "value", &f.value));
  f.low = f.high = f.value;
  ACCEL_TRY(accel__json_number(file, figure, "low", &f.low));
  ACCEL_TRY(accel__json_number(file, figure, "high", &f.high));
  f.source = !strcmp(source, "rows")         ? ACCEL__FIGURE_ROWS
             : !strcmp(source, "prediction") ? ACCEL__FIGURE_PREDICTION
                                             : ACCEL__FIGURE_NONE;
  if (f.low > 0 && f.low <= f.value && f.value <= f.high && isfinite(f.high)) *out = f;
  return ACCEL_OK;
}

static accel_status read_item(const accel__json_file *file, const accel__json *object,
                              accel__arena *arena, accel__known *out) {
  const char *golden;
  out->cosine = (double)NAN;
  ACCEL_TRY(text_of(file, object, "device", arena, &out->device));
  ACCEL_TRY(text_of(file, object, "driver", arena, &out->driver));
  ACCEL_TRY(text_of(file, object, "id", arena, &out->id));
  ACCEL_TRY(text_of(file, object, "precision", arena, &out->precision));
  ACCEL_TRY(text_of(file, object, "golden", arena, &golden));
  ACCEL_TRY(accel__json_number(file, object, "cosine", &out->cosine));
  out->golden = !strcmp(golden, "pass") ? 1 : !strcmp(golden, "fail") ? -1 : 0;
  for (int m = 0; m < ACCEL__METRIC_COUNT; m++)
    ACCEL_TRY(read_figure(file, object, accel__metric_names[m], &out->figure[m]));
  return ACCEL_OK;
}

static accel_status read_notes(const accel__json_file *file, accel__arena *arena,
                               const char **out) {
  const accel__json *notes = NULL;
  accel__buffer text = {0};
  ACCEL_TRY(accel__json_array(file, file->root, "notes", &notes));
  accel__buffer_text(&text, "");
  ACCEL_JSON_EACH(note, notes)
  if (cJSON_IsString(note))
    accel__buffer_printf(&text, "%s%s", text.n ? "; " : "", note->valuestring);
  *out = text.failed ? NULL : accel__arena_string(arena, text.data);
  accel__buffer_free(&text);
  return *out ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status read_all(accel_endpoint *ep, const accel__json_file *file,
                             accel__candidates_file *out) {
  const accel__json *list = NULL, *of = NULL;
  uint32_t n = 0;
  ACCEL_TRY(accel__json_array(file, file->root, "candidates", &list));
  ACCEL_TRY(accel__json_object(file, file->root, "of", &of));
  ACCEL_JSON_EACH(item, list) n += cJSON_IsObject(item) && n < MAX_ITEMS;
  out->item = accel__arena_array(&ep->arena, n, sizeof *out->item);
  if (!out->item) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(item, list)
  if (cJSON_IsObject(item) && out->n < n)
    ACCEL_TRY(read_item(file, item, &ep->arena, &out->item[out->n++]));
  for (int m = 0; m < ACCEL__METRIC_COUNT; m++)
    ACCEL_TRY(text_of(file, of, accel__metric_names[m], &ep->arena, &out->of[m]));
  return read_notes(file, &ep->arena, &out->notes);
}

accel_status accel__candidates_read(accel_endpoint *ep, const char *given,
                                    accel__candidates_file *out) {
  accel__json_file file = {0};
  const char *weights = weights_of(ep);
  *out = (accel__candidates_file){0};
  if (!weights) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (given && !*given) return accel__fail(ACCEL_ERROR_NOT_FOUND, "no figures were given");
  accel_status status = open_file(ep, given, weights, &file);
  if (status == ACCEL_OK) status = check_head(ep, &file, weights);
  if (status == ACCEL_OK) status = read_all(ep, &file, out);
  accel__json_free(&file);
  return status;
}

const accel__known *accel__candidates_find(const accel__candidates_file *file,
                                           const accel_device_info *device, const char *precision) {
  for (uint32_t i = 0; i < file->n; i++) {
    const accel__known *k = &file->item[i];
    if (!strcmp(k->device, device->name) && !strcmp(k->driver, device->driver) &&
        !strcmp(k->id, device->id) && !strcmp(k->precision, precision))
      return k;
  }
  return NULL;
}
