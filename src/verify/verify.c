/* verify.c - golden files: run their inputs, compare with their outputs.
 *
 * A golden is a safetensors file of `in.<forward argument>` and `out.<output field>` tensors, with
 * metadata `mode` ("forward"; "generate": verify_generate.c; "speech": verify_speech.c) and `args`
 * (JSON of other arguments), and optionally `mask.<output field>` (int64, 1 = compare here).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify.h"
#include "core/json.h"
#include "dispatch/pack.h"
#include "verify/compare.h"
#include "tasks/open.h"
#include "processing/media.h"
#include "processing/result.h"

/* ---- reading ---- */

static accel_status add_input(accel__arena *arena, accel__golden *g, const accel__tensor_info *t) {
  accel_tensor *in = &g->inputs.item[g->inputs.n];
  if (t->rank > ACCEL_MAX_RANK ||
      (t->dtype > ACCEL_PLUGIN_U8 && t->dtype != ACCEL_PLUGIN_F64 && t->dtype != ACCEL_PLUGIN_BOOL))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: tensor '%s' has a rank or dtype that no input has",
                       g->path, t->name);
  *in = (accel_tensor){.name = t->name + 3, .dtype = (accel_dtype)t->dtype, .rank = t->rank};
  memcpy(in->dim, t->dim, t->rank * sizeof *t->dim);
  in->data = accel__arena_alloc(arena, t->bytes + 1);
  if (!in->data) return ACCEL_ERROR_OUT_OF_MEMORY;
  g->inputs.n++;
  return accel__tensor_read(g->file, t, 0, t->bytes, in->data);
}

/* Outputs that a model lists once more as they are when an argument is false, by that argument:
 * "use_itm_head=false.itm_score" for "itm_score". */
static accel_status take_variant(accel__golden *g, const accel__model *model, const char *arg,
                                 accel__arena *arena) {
  for (uint32_t k = 0; k < g->n; k++) {
    const char *name = accel__arena_printf(arena, "%s=false.%s", arg, g->wanted[k]->name + 4);
    if (!name) return ACCEL_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < model->n_outputs; i++)
      if (!strcmp(model->outputs[i].name, name)) g->names[k] = name;
  }
  return ACCEL_OK;
}

/* Arguments that change nothing here, or choose outputs; others are usage errors by name. */
static accel_status check_args(accel__golden *g, const accel__model *model, accel__arena *arena) {
  static const char *const harmless[] = {"return_dict", "output_hidden_states", "use_cache"};
  const char *text = accel__checkpoint_metadata(g->file, "args");
  accel__json_file args = {0};
  if (!text) return ACCEL_OK;
  ACCEL_TRY(accel__json_parse(text, strlen(text), g->path, &args));
  accel_status status = ACCEL_OK;
  ACCEL_JSON_EACH(item, args.root) {
    bool known = false;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
      known |= item->string && !strcmp(item->string, harmless[i]);
    for (const char *const *own = model->args; own && *own; own++)
      known |= item->string && !strcmp(item->string, *own);
    if (known && cJSON_IsFalse(item) && status == ACCEL_OK)
      status = take_variant(g, model, item->string, arena);
    if (!known && status == ACCEL_OK)
      status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: metadata args: '%s' is not supported by %s",
                           g->path, item->string ? item->string : "?", model->architecture);
  }
  accel__json_free(&args);
  return status;
}

static accel_status read_golden(const char *path, accel__arena *arena, accel__golden *g) {
  *g = (accel__golden){.path = path};
  ACCEL_TRY(accel__checkpoint_open(path, &g->file));
  const char *mode = accel__checkpoint_metadata(g->file, "mode");
  g->generates = mode && !strcmp(mode, "generate");
  g->speaks = mode && !strcmp(mode, "speech");
  if (mode && !g->generates && !g->speaks && strcmp(mode, "forward"))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: metadata mode '%s' is not supported; known: forward, generate, speech",
                       path, mode);
  uint32_t all = accel__checkpoint_count(g->file);
  g->inputs.item = accel__arena_array(arena, all, sizeof *g->inputs.item);
  g->names = accel__arena_array(arena, all, sizeof *g->names);
  g->wanted = accel__arena_array(arena, all, sizeof *g->wanted);
  if (!g->inputs.item || !g->names || !g->wanted) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < all; i++) {
    const accel__tensor_info *t = accel__checkpoint_at(g->file, i);
    if (accel__starts_with(t->name, "in.")) {
      ACCEL_TRY(add_input(arena, g, t));
    } else if (accel__starts_with(t->name, "out.")) {
      g->names[g->n] = t->name + 4;
      g->wanted[g->n++] = t;
    } else if (!accel__starts_with(t->name, "mask.")) {
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: tensor '%s' begins with none of in. out. mask.",
                         path, t->name);
    }
  }
  return g->n ? ACCEL_OK
              : accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no out. tensor to compare with", path);
}

/* ---- which elements count ---- */

static double element(const accel_tensor *t, uint64_t i) {
  if (t->dtype == ACCEL_I64) return (double)((const int64_t *)t->data)[i];
  if (t->dtype == ACCEL_I32) return ((const int32_t *)t->data)[i];
  if (t->dtype == ACCEL_F32) return ((const float *)t->data)[i];
  return ((const uint8_t *)t->data)[i];
}

/* mask[n] for an output: the golden's own; else rows whose attention_mask is 0 are left out where
 * the second dim is the mask's. *out is NULL when everything counts. */
static accel_status output_mask(const accel__golden *g, const accel__tensor_info *want,
                                accel__arena *arena, uint8_t **out) {
  const char *name = accel__arena_printf(arena, "mask.%s", want->name + 4);
  const accel__tensor_info *own = name ? accel__checkpoint_find(g->file, name) : NULL;
  const accel_tensor *attended = accel__find_tensor(&g->inputs, "attention_mask");
  *out = NULL;
  bool by_rows = attended && attended->rank == 2 && want->rank >= 2 &&
                 want->dim[0] == attended->dim[0] && want->dim[1] == attended->dim[1];
  if (!own && !by_rows) return ACCEL_OK;
  uint8_t *mask = accel__arena_alloc(arena, want->elements + 1);
  if (!name || !mask) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (own && (own->dtype != ACCEL_PLUGIN_I64 || !own->elements || want->elements % own->elements))
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: tensor '%s' must be int64 and of the leading dims of '%s'", g->path,
                       name, want->name);
  int64_t *kept = own ? accel__arena_alloc(arena, own->bytes) : NULL;
  if (own && !kept) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (own) ACCEL_TRY(accel__tensor_read(g->file, own, 0, own->bytes, kept));
  uint64_t rows = own ? own->elements : (uint64_t)(want->dim[0] * want->dim[1]),
           row = rows ? want->elements / rows : 0;
  for (uint64_t i = 0; i < want->elements; i++)
    mask[i] = own ? kept[i / row] != 0 : element(attended, i / row) != 0;
  *out = mask;
  return ACCEL_OK;
}

/* ---- comparing ---- */

static accel_status compare_output(const accel__golden *g, uint32_t k, const accel_tensor *got,
                                   const char *precision, accel__arena *arena,
                                   accel_verify_output *to) {
  const accel__tensor_info *want = g->wanted[k];
  uint8_t *mask;
  float *reference = accel__arena_array(arena, want->elements + 1, sizeof *reference);
  accel__difference d;
  if (!reference) return ACCEL_ERROR_OUT_OF_MEMORY;
  *to = (accel_verify_output){.name = want->name + 4, .note = ""};
  bool same = got->rank == want->rank;
  for (uint32_t a = 0; same && a < want->rank; a++) same = got->dim[a] == want->dim[a];
  if (!same) {
    to->note = "shape differs from the golden's";
    to->max_abs = INFINITY;
    return ACCEL_OK;
  }
  ACCEL_TRY(accel__tensor_to_f32(g->file, want, 0, want->elements, reference));
  ACCEL_TRY(output_mask(g, want, arena, &mask));
  accel__compare(got->data, reference, mask, want->elements, &d);
  to->max_abs = d.max_abs;
  to->max_rel = d.max_rel;
  to->cosine = d.cosine;
  to->compared = d.compared;
  to->passed = accel__within_bounds(&d, precision, &to->bound);
  if (d.nan)
    to->note = "NaN";
  else if (d.infinity)
    to->note = "infinities differ";
  return ACCEL_OK;
}

/* When tokens begin; of other tokens, as other precisions than fp32 may choose them, nothing is
 * asked. */
static accel_status compare_times(const accel__golden *g, uint32_t k, const accel_tensor *got,
                                  const char *precision, accel__arena *arena,
                                  accel_verify_output *to) {
  ACCEL_TRY(compare_output(g, k, got, precision, arena, to));
  to->passed |= strcmp(precision, "fp32") != 0;
  return ACCEL_OK;
}

/* Outputs of a generation by their names, in the golden's order. */
static accel_status compare_generated(accel_endpoint *ep, const accel__golden *g,
                                      accel_verify_output *outputs, accel__arena *arena,
                                      accel__arena *scratch, accel_tensors **out) {
  const char *precision = ep->placement.precision;
  accel_status status = accel__verify_generate(ep, g, out);
  const accel_tensors *got = *out;
  for (uint32_t k = 0; k < g->n && status == ACCEL_OK; k++) {
    outputs[k] = (accel_verify_output){.name = g->names[k], .note = ""};
    if (!strcmp(g->names[k], "sequences"))
      status =
          accel__verify_sequences(g, g->wanted[k], &got->item[0], precision, arena, &outputs[k]);
    else if (!strcmp(g->names[k], "sequences_scores"))
      status = compare_output(g, k, &got->item[1], precision, scratch, &outputs[k]);
    else if (!strcmp(g->names[k], "token_timestamps") && got->n > 2)
      status = compare_times(g, k, &got->item[2], precision, scratch, &outputs[k]);
    else
      status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: generation has no output '%s'", g->path,
                           g->names[k]);
  }
  return status;
}

static accel_status compare_forward(accel_endpoint *ep, const accel__golden *g,
                                    accel_verify_output *outputs, accel__arena *scratch,
                                    accel_tensors **out) {
  accel_status status = g->speaks ? accel__verify_speech(ep, g, out)
                                  : accel__run_padded(ep, &g->inputs, g->names, g->n, out);
  const accel_tensors *got = *out;
  for (uint32_t k = 0; k < g->n && status == ACCEL_OK; k++)
    status = compare_output(g, k, &got->item[k], ep->placement.precision, scratch, &outputs[k]);
  return status;
}

static accel_status fill_report(accel_endpoint *ep, const accel__golden *g,
                                accel_verify_report *report) {
  accel__arena *arena = accel__task_arena(report), scratch = {0};
  accel_verify_output *outputs = accel__arena_array(arena, g->n, sizeof *outputs);
  if (!outputs) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_tensors *got = NULL;
  accel_status status = g->generates ? compare_generated(ep, g, outputs, arena, &scratch, &got)
                                     : compare_forward(ep, g, outputs, &scratch, &got);
  report->got = got;
  report->passed = 1;
  for (uint32_t k = 0; k < g->n && status == ACCEL_OK; k++) {
    outputs[k].name = accel__arena_string(arena, outputs[k].name);
    report->passed &= outputs[k].passed;
  }
  report->n = g->n;
  report->output = outputs;
  report->architecture = accel__arena_string(arena, ep->model->architecture);
  report->device = accel__arena_string(arena, ep->placement.device);
  report->precision = accel__arena_string(arena, ep->placement.precision);
  report->golden = accel__arena_string(arena, g->path);
  accel__arena_free(&scratch);
  return status;
}

void accel__verify_report_free(accel_verify_report *report) {
  accel_tensors *got = report ? (accel_tensors *)report->got : NULL;
  accel__tensors_free(&got);
  accel__task_free(report);
}

accel_status accel__verify(accel *ctx, const char *model, const accel_init_params *how,
                           const char *path, accel_verify_report **out) {
  accel__arena arena = {0};
  accel__golden g = {0};
  accel_endpoint *ep = NULL;
  accel_verify_report *report = accel__task_result(sizeof *report);
  accel_status status = ACCEL_OK;
  if (!report) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_GOTO(read_golden(path, &arena, &g));
  ACCEL_GOTO(accel__open(ctx, model, how, &ep));
  if (!g.generates && !g.speaks) ACCEL_GOTO(check_args(&g, ep->model, &arena));
  ACCEL_GOTO(fill_report(ep, &g, report));
  *out = report;
  report = NULL;
  if (!(*out)->passed)
    status = accel__fail(ACCEL_ERROR_VERIFY, "%s: %s on %s at %s is outside the bounds", path,
                         (*out)->architecture, (*out)->device, (*out)->precision);
done:
  accel__verify_report_free(report);
  if (ep) accel__close(&ep);
  accel__checkpoint_close(&g.file);
  accel__arena_free(&arena);
  return status;
}
