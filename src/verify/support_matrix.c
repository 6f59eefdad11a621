/* support_matrix.c - asking every usable device about every model. */
#include "verify/support_matrix.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "dispatch/locate.h"
#include "dispatch/precision.h"
#include "models/model_build.h"
#include "processing/sentence_modules.h"
#include "tasks/open.h"
#include "weights/weights.h"

/* ---- listed ---- */

static void write_listed(const accel__registry_model *entry, accel__buffer *b) {
  accel__buffer_text(b, "\"listed\":{");
  for (uint32_t h = 0; h < accel__hardware_count; h++) {
    accel__buffer_printf(b, "%s\"%s\":{", h ? "," : "", accel__hardware_names[h]);
    for (uint32_t p = 0; p < accel__precision_count; p++)
      accel__buffer_printf(b, "%s\"%s\":%s", p ? "," : "", accel__precision_names[p],
                           entry->hardware >> h & entry->precision[h] >> p & 1 ? "true" : "false");
    accel__buffer_text(b, "}");
  }
  accel__buffer_text(b, "}");
}

/* ---- capable ---- */

/* The program of a model: from its local directory, else from the registry's configuration. */
static accel_status build(accel *ctx, const char *model, accel__model **out) {
  static const accel__pipeline_choice as_it_is;
  accel__arena arena = {0};
  accel__json_file config = {0};
  const accel__registry_model *entry;
  char *directory = NULL;
  accel__sentence_modules modules = {0};
  *out = NULL;
  accel_status status = accel__locate(ctx, model, &arena, &directory, &entry);
  if (status == ACCEL_OK) ACCEL_GOTO(accel__read_sentence_modules(directory, &arena, &modules));
  ACCEL_GOTO(
      accel__read_model_config(model, modules.transformer, &as_it_is, entry, &arena, &config));
  accel__model_request request = {.config = &config};
  status = accel__model_build(&request, out);
done:
  accel__json_free(&config);
  accel__arena_free(&arena);
  return status;
}

static void write_answer(const char *answer, const char *why, accel__buffer *b) {
  accel__buffer_printf(b, "{\"answer\":\"%s\",\"why\":", answer);
  accel__buffer_json_string(b, why, strlen(why));
  accel__buffer_text(b, "}");
}

/* The weakest of the entries' answers; verdict [n_entry] is room for them. */
static void ask(const accel__device *device, const accel_plugin_program *p,
                const accel_plugin_precision *precision, accel_plugin_verdict *verdict,
                accel__buffer *b) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  for (uint32_t i = 0; i < p->n_entry; i++)
    verdict[i] = (accel_plugin_verdict){.size = sizeof *verdict};
  int32_t rc = device->plugin->supports(device->index, p, precision, verdict, &error),
          answer = ACCEL_PLUGIN_NATIVE;
  const char *why = rc ? error.message : "";
  for (uint32_t i = 0; !rc && i < p->n_entry; i++) {
    if (verdict[i].answer == ACCEL_PLUGIN_NO)
      answer = ACCEL_PLUGIN_NO, why = verdict[i].why;
    else if (verdict[i].answer == ACCEL_PLUGIN_EMULATED && answer == ACCEL_PLUGIN_NATIVE)
      answer = ACCEL_PLUGIN_EMULATED, why = verdict[i].why;
  }
  write_answer(rc || answer == ACCEL_PLUGIN_NO ? "no"
               : answer == ACCEL_PLUGIN_NATIVE ? "native"
                                               : "emulated",
               why, b);
}

static accel_status write_capable(accel *ctx, const accel__choice *devices, const char *model,
                                  accel__buffer *b) {
  accel__model *built;
  if (build(ctx, model, &built) != ACCEL_OK) { /* not an error of the table: a cell that says why */
    accel__buffer_text(b, "\"capable\":null,\"why\":");
    accel__buffer_json_string(b, accel__message(), strlen(accel__message()));
    accel__clear_error();
    return ACCEL_OK;
  }
  const accel_plugin_program *program = accel__program_view(built->program);
  accel__arena arena = {0};
  accel_plugin_precision *how = accel__arena_array(&arena, accel__precision_count, sizeof *how);
  accel_plugin_verdict *verdict = accel__arena_array(&arena, program->n_entry, sizeof *verdict);
  accel_status status = how && verdict ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t p = 0; p < accel__precision_count && status == ACCEL_OK; p++)
    status = accel__precision_for(program, accel__precision_names[p], NULL, 0, &arena, &how[p]);
  accel__buffer_printf(b, "\"architecture\":\"%s\",\"capable\":{", built->architecture);
  for (uint32_t d = 0; d < devices->n && status == ACCEL_OK; d++) {
    accel__buffer_printf(b, "%s\"%s\":{", d ? "," : "", devices->device[d]->info.name);
    for (uint32_t p = 0; p < accel__precision_count; p++) {
      accel__buffer_printf(b, "%s\"%s\":", p ? "," : "", accel__precision_names[p]);
      ask(devices->device[d], program, &how[p], verdict, b);
    }
    accel__buffer_text(b, "}");
  }
  accel__buffer_text(b, "}");
  accel__arena_free(&arena);
  accel__model_free(&built);
  return status;
}

/* ---- the table ---- */

static accel_status write_model(accel *ctx, accel__registry *registry, const accel__choice *devices,
                                const char *model, accel__buffer *b) {
  const accel__registry_model *entry;
  accel__buffer_text(b, "{\"model\":");
  accel__buffer_json_string(b, model, strlen(model));
  accel__buffer_text(b, ",");
  ACCEL_TRY(accel__registry_lookup(registry, model, &entry));
  write_listed(entry, b);
  accel__buffer_text(b, ",");
  ACCEL_TRY(write_capable(ctx, devices, model, b));
  accel__buffer_text(b, "}");
  return ACCEL_OK;
}

accel_status accel__all_devices(accel *ctx, accel__choice *out) {
  accel__hardware *hardware;
  accel_devices *found;
  accel__buffer names = {0};
  ACCEL_TRY(accel__context_hardware(ctx, &hardware));
  ACCEL_TRY(accel__hardware_detect(hardware, false, &found));
  for (uint32_t i = 0; i < found->n; i++)
    if (found->item[i].usable == 1)
      accel__buffer_printf(&names, "%s%s", names.n ? "," : "", found->item[i].name);
  accel__devices_free(&found);
  accel_status status = accel__buffer_status(&names);
  if (status == ACCEL_OK)
    status = accel__hardware_choose(hardware, names.data ? names.data : "cpu", out);
  accel__buffer_free(&names);
  return status;
}

accel_status accel__matrix_json(accel *ctx, const char *model, char **json) {
  accel__registry *registry;
  accel__choice devices = {0};
  accel_strings *models = NULL;
  accel__buffer b = {0};
  accel_status status = ACCEL_OK;
  ACCEL_GOTO(accel__context_registry(ctx, &registry));
  ACCEL_GOTO(accel__all_devices(ctx, &devices));
  if (!model) ACCEL_GOTO(accel__registry_list(registry, NULL, &models));
  accel__buffer_text(&b, "{\"schema\":\"accel.matrix/1\",\"models\":[");
  for (uint32_t i = 0; i < (model ? 1 : models->n); i++) {
    if (i) accel__buffer_text(&b, ",");
    ACCEL_GOTO(write_model(ctx, registry, &devices, model ? model : models->item[i], &b));
    ACCEL_GOTO(accel__check_cancelled(ctx));
  }
  accel__buffer_text(&b, "]}");
  ACCEL_GOTO(accel__buffer_status(&b));
  *json = b.data;
done:
  if (status != ACCEL_OK) accel__buffer_free(&b);
  accel__choice_free(&devices);
  free(models);
  return status;
}
