/* precision_profile.c - precisions by kind of layer (precision_profile.h). */
#include "dispatch/precision_profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/precision.h"
#include "models/model_build.h"

enum { MAX_FILE = 1 << 20 };
static const char schema[] = "accel.precision_profile/1";
static const char again[] = "write it anew with `accel tune`";

/* ---- reading ---- */

/* Refuses members of `object` that are not of known[n]; `at` is where it stands, "" or "model.". */
static accel_status only(const accel__json_file *file, const accel__json *object, const char *at,
                         const char *const *known, size_t n) {
  ACCEL_JSON_EACH(member, object) {
    size_t i = 0;
    while (i < n && strcmp(member->string, known[i])) i++;
    if (i < n) continue;
    const char *near = accel__nearest(member->string, known, n);
    accel__fail(ACCEL_ERROR_FORMAT, "%s: member '%s%s' is unknown", file->name, at, member->string);
    return near ? accel__remedy(ACCEL_ERROR_FORMAT, "did you mean '%s%s'?", at, near)
                : accel__remedy(ACCEL_ERROR_FORMAT, "leave it out");
  }
  return ACCEL_OK;
}

static accel_status text_of(const accel__json_file *file, const accel__json *object,
                            const char *key, const char **out) {
  *out = NULL;
  ACCEL_TRY(accel__json_require(file, object, key));
  return accel__json_string(file, object, key, out);
}

static accel_status precision_of(const accel__json_file *file, const char *at, const char *given,
                                 const char **out) {
  *out = accel__registry_precision_name(given);
  if (*out) return ACCEL_OK;
  accel__precision_unknown(given, "");
  return accel__wrap(ACCEL_ERROR_FORMAT, "%s: %s", file->name, at);
}

static accel_status read_schema(const accel__json_file *file) {
  const char *given;
  if (!cJSON_IsObject(file->root))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: expected an object", file->name);
  ACCEL_TRY(text_of(file, file->root, "schema", &given));
  if (!strcmp(given, schema)) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_FORMAT, "%s: schema is '%s', expected '%s'", file->name, given, schema);
  return accel__remedy(ACCEL_ERROR_FORMAT, "%s", again);
}

static accel_status read_model(const accel__json_file *file, accel__arena *arena,
                               accel__precision_profile *out) {
  static const char *const known[] = {"architecture", "weights"};
  const accel__json *model = NULL;
  const char *architecture, *weights;
  ACCEL_TRY(accel__json_require(file, file->root, "model"));
  ACCEL_TRY(accel__json_object(file, file->root, "model", &model));
  ACCEL_TRY(only(file, model, "model.", known, 2));
  ACCEL_TRY(text_of(file, model, "architecture", &architecture));
  ACCEL_TRY(text_of(file, model, "weights", &weights));
  if (strlen(weights) != 16 || strspn(weights, "0123456789abcdef") != 16) {
    accel__fail(ACCEL_ERROR_FORMAT, "%s: model.weights is '%s', expected 16 hexadecimal digits",
                file->name, weights);
    return accel__remedy(ACCEL_ERROR_FORMAT, "%s", again);
  }
  out->weights = strtoull(weights, NULL, 16);
  out->architecture = accel__arena_string(arena, architecture);
  return out->architecture ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status read_kinds(const accel__json_file *file, accel__precision_profile *out) {
  const accel__json *kinds = NULL;
  char at[64];
  ACCEL_TRY(accel__json_object(file, file->root, "kinds", &kinds));
  ACCEL_TRY(only(file, kinds, "kinds.", accel__layer_kinds, ACCEL__KIND_COUNT));
  for (int i = 0; i < ACCEL__KIND_COUNT; i++) {
    const char *given = NULL;
    ACCEL_TRY(accel__json_string(file, kinds, accel__layer_kinds[i], &given));
    if (!given) continue;
    snprintf(at, sizeof at, "kinds.%s", accel__layer_kinds[i]);
    ACCEL_TRY(precision_of(file, at, given, &out->kind[i]));
    if (!strcmp(out->kind[i], out->precision)) out->kind[i] = NULL;
  }
  return ACCEL_OK;
}

static accel_status read_all(const accel__json_file *file, accel__arena *arena,
                             accel__precision_profile *out) {
  static const char *const known[] = {"schema", "model", "device", "precision", "kinds", "tuned"};
  const char *device, *precision;
  const accel__json *tuned;
  ACCEL_TRY(read_schema(file));
  ACCEL_TRY(only(file, file->root, "", known, sizeof known / sizeof *known));
  ACCEL_TRY(read_model(file, arena, out));
  ACCEL_TRY(text_of(file, file->root, "device", &device));
  ACCEL_TRY(text_of(file, file->root, "precision", &precision));
  ACCEL_TRY(precision_of(file, "precision", precision, &out->precision));
  ACCEL_TRY(read_kinds(file, out));
  ACCEL_TRY(accel__json_object(file, file->root, "tuned", &tuned));
  if (!*device) return accel__fail(ACCEL_ERROR_FORMAT, "%s: device is empty", file->name);
  out->device = accel__arena_string(arena, device);
  return out->device ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__precision_profile_parse(const char *text, size_t n, const char *name,
                                            accel__arena *arena, accel__precision_profile *out) {
  accel__json_file file = {0};
  *out = (accel__precision_profile){.name = accel__arena_string(arena, name)};
  if (!out->name) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = accel__json_parse(text, n, name, &file);
  if (status == ACCEL_OK) status = read_all(&file, arena, out);
  accel__json_free(&file);
  return status;
}

accel_status accel__precision_profile_read(const char *what, accel__arena *arena,
                                           accel__precision_profile *out) {
  accel__json_file file = {0};
  if (what[strspn(what, " \t\r\n")] == '{')
    return accel__precision_profile_parse(what, strlen(what), "precision_profile", arena, out);
  *out = (accel__precision_profile){.name = accel__arena_string(arena, what)};
  if (!out->name) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = accel__json_read(what, MAX_FILE, &file);
  if (status == ACCEL_OK) status = read_all(&file, arena, out);
  accel__json_free(&file);
  return status;
}

/* ---- writing ---- */

static void write_member(accel__buffer *b, const char *before, const char *key, const char *value) {
  accel__buffer_printf(b, "%s\"%s\": ", before, key);
  accel__buffer_json_string(b, value, strlen(value));
}

void accel__precision_profile_write(const accel__precision_profile *p,
                                    const bool listed[ACCEL__KIND_COUNT], accel__buffer *out) {
  write_member(out, "{\n  ", "schema", schema);
  write_member(out, ",\n  \"model\": {", "architecture", p->architecture);
  accel__buffer_printf(out, ", \"weights\": \"%016" PRIx64 "\"}", p->weights);
  write_member(out, ",\n  ", "device", p->device);
  write_member(out, ",\n  ", "precision", p->precision);
  accel__buffer_text(out, ",\n  \"kinds\": {");
  const char *before = "";
  for (int i = 0; i < ACCEL__KIND_COUNT; i++) {
    if (!p->kind[i] && !(listed && listed[i])) continue;
    write_member(out, before, accel__layer_kinds[i], p->kind[i] ? p->kind[i] : p->precision);
    before = ", ";
  }
  accel__buffer_text(out, "}\n}\n");
}

void accel__precision_profile_kinds(const accel__precision_profile *p, accel__buffer *out) {
  accel__buffer_text(out, "");
  for (int i = 0; i < ACCEL__KIND_COUNT; i++)
    if (p->kind[i])
      accel__buffer_printf(out, "%s%s=%s", out->n ? "," : "", accel__layer_kinds[i], p->kind[i]);
}

/* ---- whose it is ---- */

/* A tensor's facts, and its first and last bytes. */
static accel_status hash_tensor(const accel__checkpoint *c, const accel__tensor_info *t,
                                uint64_t *h) {
  enum { SOME = 256 };
  char some[SOME];
  const uint64_t n = t->bytes < SOME ? t->bytes : SOME;
  const uint64_t facts[] = {(uint64_t)t->dtype, t->rank, t->elements, t->bytes};
  *h = accel__hash(t->name, strlen(t->name), *h);
  *h = accel__hash(facts, sizeof facts, *h);
  *h = accel__hash(t->dim, t->rank * sizeof *t->dim, *h);
  ACCEL_TRY(accel__tensor_read(c, t, 0, n, some));
  *h = accel__hash(some, (size_t)n, *h);
  ACCEL_TRY(accel__tensor_read(c, t, t->bytes - n, n, some));
  *h = accel__hash(some, (size_t)n, *h);
  return ACCEL_OK;
}

accel_status accel__model_identity(const accel_endpoint *ep, uint64_t *out) {
  char *config = ep->config.root ? cJSON_PrintUnformatted(ep->config.root) : NULL;
  uint64_t h = config ? accel__hash(config, strlen(config), 6) : 6;
  cJSON_free(config);
  if (ep->config.root && !config) return accel__no_memory(0);
  if (!ep->checkpoint) h = accel__hash(&ep->seed, sizeof ep->seed, h);
  for (uint32_t i = 0; ep->checkpoint && i < accel__checkpoint_count(ep->checkpoint); i++)
    ACCEL_TRY(hash_tensor(ep->checkpoint, accel__checkpoint_at(ep->checkpoint, i), &h));
  *out = h;
  return ACCEL_OK;
}

accel_status accel__precision_profile_check(const accel__precision_profile *profile,
                                            const accel_endpoint *ep) {
  uint64_t weights;
  const char *own = ep->model->architecture;
  if (strcmp(profile->architecture, own)) {
    accel__fail(ACCEL_ERROR_ARGUMENT, "%s: model.architecture is %s, but %s is a %s", profile->name,
                profile->architecture, ep->name, own);
    return accel__remedy(ACCEL_ERROR_ARGUMENT, "make a profile of its own with `accel tune %s`",
                         ep->name);
  }
  ACCEL_TRY(accel__model_identity(ep, &weights));
  if (profile->weights == weights) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_ARGUMENT,
              "%s: model.weights is %016" PRIx64 ", but those of %s are %016" PRIx64
              ": it was made for another checkpoint",
              profile->name, profile->weights, ep->name, weights);
  return accel__remedy(ACCEL_ERROR_ARGUMENT, "make a profile of its own with `accel tune %s`",
                       ep->name);
}

/* ---- what it means ---- */

accel_status accel__precision_by_kind(const accel_plugin_program *program,
                                      const accel__precision_profile *profile,
                                      const char *const *keep_fp32, uint32_t n_keep,
                                      accel__arena *arena, accel_plugin_precision *out) {
  accel_plugin_format *format = accel__arena_array(arena, program->n_weight, sizeof *format);
  uint8_t *role;
  if (!format) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__weight_roles(program, arena, &role));
  memcpy(format, out->format, program->n_weight * sizeof *format);
  for (int k = 0; k < ACCEL__KIND_COUNT; k++) {
    accel_plugin_precision own;
    if (!profile->kind[k]) continue;
    ACCEL_TRY(accel__precision_for(program, profile->kind[k], keep_fp32, n_keep, arena, &own));
    for (uint32_t i = 0; i < program->n_weight; i++)
      if ((int)accel__weight_kind(&program->weight[i], role[i]) == k) format[i] = own.format[i];
  }
  out->format = format;
  return ACCEL_OK;
}

accel_status accel__precision_profile_of(const accel_endpoint *ep, accel__buffer *out) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  accel__precision_profile profile = {0};
  bool listed[ACCEL__KIND_COUNT + 1] = {0};
  accel__arena arena = {0};
  uint8_t *role;
  if (ep->precision_profile) profile = *ep->precision_profile;
  profile.architecture = ep->model->architecture;
  profile.device = ep->placed.plugin->name;
  profile.precision = ep->placed.precision.name;
  accel_status status = accel__model_identity(ep, &profile.weights);
  if (status == ACCEL_OK) status = accel__weight_roles(p, &arena, &role);
  for (uint32_t i = 0; status == ACCEL_OK && i < p->n_weight; i++)
    listed[accel__weight_kind(&p->weight[i], role[i])] = true;
  accel__arena_free(&arena);
  ACCEL_TRY(status);
  accel__precision_profile_write(&profile, listed, out);
  return accel__buffer_status(out);
}
