/* api_endpoint.c - initialising, running and cleaning up endpoints. */
#include <stdlib.h>
#include <string.h>

#include "api/api_check.h"
#include "core/block_cache.h"
#include "dispatch/pack.h"
#include "dispatch/precision_profile.h"
#include "dispatch/replicas.h"
#include "dispatch/run_adapter.h"
#include "dispatch/services.h"
#include "tasks/open.h"
#include "processing/result.h"
#include "verify/endpoint_selftest.h"
#include "verify/fit_report.h"
#include "verify/step_report.h"

accel_init_params accel_init_params_default(void) {
  return (accel_init_params){.size = sizeof(accel_init_params),
                             .device = "cpu",
                             .prefix_cache_bytes = ACCEL_PREFIX_CACHE_BYTES};
}

accel_status accel_init(accel *ctx, const char *model, const accel_init_params *params,
                        accel_endpoint **out) {
  API_CALL(ctx, out);
  API_NEED(model);
  API_PARAMS(accel_init_params, mine, params);
  return accel__open(ctx, model, &mine, out);
}

accel_status accel_check_model(accel *ctx, const char *model, const accel_init_params *params) {
  API_BEGIN();
  API_NEED(ctx);
  API_NEED(model);
  API_PARAMS(accel_init_params, mine, params);
  return accel__check_model(ctx, model, &mine);
}

void accel_cleanup(accel_endpoint **endpoint) {
  if (endpoint && *endpoint) accel__close(endpoint);
}

const accel_placement_report *accel_placement(const accel_endpoint *endpoint) {
  return endpoint ? &endpoint->placement : NULL;
}
const accel_processor *accel_processor_of(const accel_endpoint *endpoint) {
  return endpoint ? &endpoint->processor_view : NULL;
}
uint32_t accel_batch_size_of(const accel_endpoint *endpoint) {
  return endpoint ? endpoint->batch_size : 0;
}
accel_handler accel_handler_of(const accel_endpoint *endpoint) {
  return endpoint ? accel_run : NULL;
}

accel_status accel_trim(accel_endpoint *endpoint) {
  uint64_t released;
  API_BEGIN();
  API_NEED(endpoint);
  accel__block_cache_trim();
  for (uint32_t i = accel__replicas_count(endpoint); i-- > 1;)
    ACCEL_TRY(accel__endpoint_trim(accel__replica(endpoint, i), &released));
  return accel__endpoint_trim(endpoint, &released);
}

accel_status accel_set_profile(accel_endpoint *endpoint, accel_profile_fn fn, void *user) {
  API_BEGIN();
  API_NEED(endpoint);
  accel__set_profile(endpoint, fn, user);
  return ACCEL_OK;
}

accel_status accel_streaming(const accel_endpoint *endpoint, accel_stream_stats *out) {
  API_BEGIN();
  API_NEED(endpoint);
  API_NEED(out);
  /* counts and a lock are all that changes */
  const accel_stream_stats now = accel__streaming_stats((accel_endpoint *)(uintptr_t)endpoint);
  API_FILL(out, now);
}

accel_status accel_stream_read(accel_endpoint *endpoint, uint64_t *bytes, double *seconds) {
  API_BEGIN();
  API_NEED(endpoint);
  API_NEED(bytes);
  API_NEED(seconds);
  return accel__stream_read(endpoint, bytes, seconds);
}

/* ---- raw tensors ---- */

accel_status accel_run_named(accel_endpoint *endpoint, const accel_tensors *inputs,
                             const char *const *names, uint32_t n, accel_tensors **outputs) {
  API_CALL(endpoint, outputs);
  ACCEL_TRY(accel__check_tensors(__func__, inputs));
  if (names) ACCEL_TRY(accel__check_texts(__func__, "names", names, n));
  return accel__run_padded(endpoint, inputs, names, n, outputs);
}

accel_status accel_run(accel_endpoint *endpoint, const accel_tensors *inputs,
                       accel_tensors **outputs) {
  return accel_run_named(endpoint, inputs, NULL, 0, outputs);
}

void accel_tensors_free(accel_tensors **tensors) { accel__tensors_free(tensors); }

/* A string list in one block, as all of them are; the items' strings live elsewhere, or, `more`
 * bytes, behind the list. */
static accel_strings *new_strings(uint32_t n, size_t more, const char ***items) {
  accel_strings *list = malloc(sizeof *list + n * sizeof **items + more);
  if (!list) accel__no_memory(n * sizeof **items + more);
  *items = list ? (const char **)(list + 1) : NULL;
  if (list) *list = (accel_strings){.n = n, .item = *items};
  return list;
}

/* The list with strings of its own, in place of the one given, which is freed. */
static accel_strings *own_strings(accel_strings *from) {
  const char **items;
  size_t bytes = 0;
  for (uint32_t i = 0; i < from->n; i++) bytes += strlen(from->item[i]) + 1;
  accel_strings *list = new_strings(from->n, bytes, &items);
  char *at = list ? (char *)(items + from->n) : NULL;
  for (uint32_t i = 0; list && i < from->n; i++) {
    items[i] = strcpy(at, from->item[i]);
    at += strlen(at) + 1;
  }
  free(from);
  return list;
}

static accel_status names_of(const accel__model *m, accel_strings **inputs,
                             accel_strings **outputs) {
  const char **in, **out;
  uint32_t n = 0;
  accel_strings *a = new_strings(m->n_inputs + 1, 0, &in), *b = new_strings(m->n_outputs, 0, &out);
  if (!a || !b) {
    free(a);
    free(b);
    return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  for (uint32_t i = 0; i < m->n_inputs; i++) {
    const accel__model_input *input = &m->inputs[i];
    const char *name = input->derived ? input->derived->from : input->name;
    if (input->kind == ACCEL__INPUT_LENGTHS || accel__input_is_row(input->kind)) continue;
    if (!n || strcmp(in[n - 1], name)) in[n++] = name; /* several may follow from one argument */
  }
  in[n++] = "attention_mask";
  a->n = n;
  for (uint32_t i = 0; i < m->n_outputs; i++) out[i] = m->outputs[i].name;
  *inputs = a;
  *outputs = b;
  return ACCEL_OK;
}

accel_status accel_endpoint_io(const accel_endpoint *endpoint, accel_strings **inputs,
                               accel_strings **outputs) {
  API_BEGIN();
  API_OUT(inputs);
  API_OUT(outputs);
  API_NEED(endpoint);
  return names_of(endpoint->model, inputs, outputs); /* they live with the endpoint's model */
}

accel_status accel_model_io(accel *ctx, const char *model, const char *architecture,
                            accel_strings **inputs, accel_strings **outputs) {
  const accel__registry_model *entry;
  accel_endpoint *ep;
  API_BEGIN();
  API_OUT(inputs);
  API_OUT(outputs);
  API_NEED(ctx);
  API_NEED(model);
  ACCEL_TRY(accel__open_shape(ctx, model, architecture, NULL, &entry, &ep));
  accel_status status = names_of(ep->model, inputs, outputs);
  if (status == ACCEL_OK) {
    *inputs = own_strings(*inputs);
    *outputs = own_strings(*outputs);
    if (!*inputs || !*outputs) {
      accel_strings_free(inputs);
      accel_strings_free(outputs);
      status = ACCEL_ERROR_OUT_OF_MEMORY;
    }
  }
  accel__endpoint_free(ep);
  return status;
}

accel_plan_params accel_plan_params_default(void) {
  return (accel_plan_params){.size = sizeof(accel_plan_params), .device = "cpu"};
}

accel_status accel_plan_steps(accel *ctx, const char *model, const accel_plan_params *params,
                              accel_profile_fn fn, void *user) {
  API_BEGIN();
  API_NEED(ctx);
  API_NEED(model);
  API_NEED(fn);
  API_PARAMS(accel_plan_params, mine, params);
  return accel__step_report(ctx, model, &mine, fn, user);
}

void accel_strings_free(accel_strings **strings) {
  if (!strings) return;
  free(*strings);
  *strings = NULL;
}

/* ---- looking inside ---- */

accel_status accel_program_dump(accel_endpoint *endpoint, const char *format, char **out) {
  API_CALL(endpoint, out);
  bool dot = format && !strcmp(format, "dot");
  if (format && !dot && strcmp(format, "text"))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: format '%s' is not text or dot", __func__,
                       format);
  accel__buffer text = {0};
  (dot ? accel__program_dot : accel__program_text)(accel__program_view(endpoint->model->program),
                                                   &text);
  accel_status status = accel__buffer_status(&text);
  if (status == ACCEL_OK)
    *out = text.data;
  else
    accel__buffer_free(&text);
  return status;
}

accel_status accel_precision_profile_json(const accel_endpoint *endpoint, char **json) {
  accel__buffer text = {0};
  API_CALL(endpoint, json);
  if (endpoint->placed.parts)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a precision profile is for one device",
                       endpoint->name);
  const accel_status status = accel__precision_profile_of(endpoint, &text);
  if (status == ACCEL_OK)
    *json = text.data;
  else
    accel__buffer_free(&text);
  return status;
}

accel_status accel_self_test(accel_endpoint *endpoint, accel_test_report **out) {
  API_CALL(endpoint, out);
  return accel__self_test(endpoint, out);
}

/* ---- adapters ---- */

accel_status accel_adapter_load(accel_endpoint *endpoint, const char *path, accel_adapter **out) {
  API_CALL(endpoint, out);
  API_NEED(path);
  return accel__run_adapter_load(endpoint, path, out);
}

void accel_adapter_free(accel_adapter **adapter) {
  if (adapter) accel__run_adapter_free(adapter);
}
