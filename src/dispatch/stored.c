/* stored.c - the formats of a checkpoint that is quantised already. */
#include "dispatch/stored.h"

#include <string.h>

#include "dispatch/precision.h"
#include "dispatch/precision_profile.h"

const char *accel__stored_precision(const accel_endpoint *ep) {
  return ep->import ? accel__import_precision(ep->import) : NULL;
}

const char *accel__default_precision(const accel_endpoint *ep) {
  const char *own = accel__stored_precision(ep);
  return own ? own : "fp32";
}

/* The table of int8 tells which weights may be in codes: those that it gives a scale. */
static accel_status stored_formats(const accel_endpoint *ep, accel__arena *arena,
                                   accel_plugin_precision *out) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel__source_from from = {.checkpoint = ep->checkpoint,
                                   .import = ep->import,
                                   .deltas = ep->adapters ? ep->adapters->deltas : NULL};
  accel_plugin_precision coded;
  ACCEL_TRY(accel__precision_for(p, "int8", NULL, 0, arena, &coded));
  accel_plugin_format *format = accel__arena_array(arena, p->n_weight, sizeof *format);
  if (!format) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < p->n_weight; i++) {
    format[i] = coded.format[i];
    if (format[i].scale != ACCEL_PLUGIN_NO_DTYPE)
      accel__source_stored(accel__weight_source(ep->model->program, i), &from, &format[i]);
  }
  out->format = format;
  return ACCEL_OK;
}

accel_status accel__endpoint_precision(const accel_endpoint *ep, const char *name,
                                       const char *const *keep_fp32, uint32_t n_keep,
                                       accel__arena *arena, accel_plugin_precision *out) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel__precision_profile *profile = ep->precision_profile;
  const char *own = accel__stored_precision(ep);
  ACCEL_TRY(accel__precision_for(p, name, keep_fp32, n_keep, arena, out));
  ACCEL_TRY(accel__precision_set_kv(out, ep->kv_cache));
  if (own && !strcmp(own, name)) ACCEL_TRY(stored_formats(ep, arena, out));
  return profile && !strcmp(profile->precision, name)
             ? accel__precision_by_kind(p, profile, keep_fp32, n_keep, arena, out)
             : ACCEL_OK;
}
