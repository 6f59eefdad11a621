/* verify_whisper.c - goldens of Whisper's generate: arguments of its own, features in, sequences
 * out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "processing/media.h"
#include "verify/verify.h"
#include "speech/whisper_generate.h"

/* ---- arguments ---- */

typedef struct arguments {
  accel__json_file file; /* all of them */
  accel__buffer rest;    /* those of every generate, as a JSON object */
  accel__whisper_options options;
  double temperature[64];
  int32_t prompt[1024];
} arguments;

static accel_status read_list(const accel__golden *g, const char *key, uint32_t most, double *out,
                              uint32_t *n, const accel__json *root) {
  const accel__json *value = accel__json_get(root, key);
  const bool list = cJSON_IsArray(value);
  for (const accel__json *item = list ? value->child : value; item;
       item = list ? item->next : NULL) {
    if (!cJSON_IsNumber(item) || *n == most)
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: argument '%s': expected at most %u numbers",
                         g->path, key, most);
    out[(*n)++] = item->valuedouble;
  }
  return ACCEL_OK;
}

static accel_status read_flag(const arguments *a, const char *key, int32_t *out) {
  bool value = false;
  if (!accel__json_get(a->file.root, key)) return ACCEL_OK;
  ACCEL_TRY(accel__json_bool(&a->file, a->file.root, key, &value));
  *out = value;
  return ACCEL_OK;
}

static accel_status read_options(const accel__golden *g, arguments *a) {
  accel__whisper_options *o = &a->options;
  const accel__json *root = a->file.root;
  double ids[1024];
  const char *type = NULL;
  *o = (accel__whisper_options){.timestamps = -1,
                                .condition = -1,
                                .compression_ratio = NAN,
                                .logprob = NAN,
                                .no_speech = NAN};
  ACCEL_TRY(accel__json_string(&a->file, root, "language", &o->language));
  ACCEL_TRY(accel__json_string(&a->file, root, "task", &o->task));
  ACCEL_TRY(accel__json_string(&a->file, root, "prompt_condition_type", &type));
  o->prompt_always = type && !strcmp(type, "all-segments");
  ACCEL_TRY(read_flag(a, "return_timestamps", &o->timestamps));
  ACCEL_TRY(read_flag(a, "condition_on_prev_tokens", &o->condition));
  ACCEL_TRY(accel__json_bool(&a->file, root, "return_token_timestamps", &o->token_times));
  ACCEL_TRY(
      accel__json_number(&a->file, root, "compression_ratio_threshold", &o->compression_ratio));
  ACCEL_TRY(accel__json_number(&a->file, root, "logprob_threshold", &o->logprob));
  ACCEL_TRY(accel__json_number(&a->file, root, "no_speech_threshold", &o->no_speech));
  ACCEL_TRY(read_list(g, "temperature", 64, a->temperature, &o->n_temperature, root));
  ACCEL_TRY(read_list(g, "prompt_ids", 1024, ids, &o->prompt.n, root));
  for (uint32_t i = 0; i < o->prompt.n; i++)
    a->prompt[i] = ids[i] >= 0 && ids[i] <= INT32_MAX ? (int32_t)ids[i] : -1;
  o->prompt.id = a->prompt;
  o->temperature = a->temperature;
  return ACCEL_OK;
}

static accel_status read_arguments(const accel__golden *g, arguments *a) {
  static const char *const own[] = {"language",
                                    "task",
                                    "return_timestamps",
                                    "return_token_timestamps",
                                    "condition_on_prev_tokens",
                                    "compression_ratio_threshold",
                                    "logprob_threshold",
                                    "no_speech_threshold",
                                    "temperature",
                                    "prompt_ids",
                                    "prompt_condition_type",
                                    "return_segments"};
  accel__buffer all = {0};
  accel_status status = accel__verify_arguments(g, &all);
  if (status == ACCEL_OK) status = accel__json_parse(all.data, all.n, g->path, &a->file);
  accel__buffer_free(&all);
  if (status == ACCEL_OK) status = read_options(g, a);
  ACCEL_JSON_EACH(item, a->file.root) {
    bool mine = false;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mine |= !strcmp(item->string, own[i]);
    char *text = mine ? NULL : cJSON_PrintUnformatted(item);
    if (text)
      accel__buffer_printf(&a->rest, "%s\"%s\":%s", a->rest.n ? "," : "{", item->string, text);
    cJSON_free(text);
  }
  accel__buffer_text(&a->rest, a->rest.n ? "}" : "{}");
  return status == ACCEL_OK ? accel__buffer_status(&a->rest) : status;
}

/* ---- features ---- */

typedef struct features {
  const accel_tensor *values; /* [rows, mels, frames] */
  const accel_tensor *mask;   /* [rows, frames]; NULL: not given */
  bool masked;                /* frames outside it do not count */
} features;

static accel_status read_features(const accel__golden *g, const accel__whisper_plan *plan,
                                  features *out) {
  const accel_tensor *x = out->values = accel__find_tensor(&g->inputs, "input_features"),
                     *mask = out->mask = accel__find_tensor(&g->inputs, "attention_mask");
  for (uint32_t i = 0; i < g->inputs.n; i++)
    if (&g->inputs.item[i] != x && &g->inputs.item[i] != mask)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: input '%s' is not supported in Whisper's generation", g->path,
                         g->inputs.item[i].name);
  if (!x || x->dtype != ACCEL_F32 || x->rank != 3 || x->dim[0] < 1 || x->dim[1] != plan->mels ||
      x->dim[2] < 1)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: tensor 'in.input_features' must be fp32 [rows, %lld, frames]", g->path,
                       (long long)plan->mels);
  if (mask && (mask->rank != 2 || mask->dim[0] != x->dim[0] || mask->dim[1] != x->dim[2] ||
               (mask->dtype != ACCEL_I64 && mask->dtype != ACCEL_I32)))
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: tensor 'in.attention_mask' must be int64 [rows, frames]", g->path);
  /* generate() looks at the mask of long sounds in batches alone */
  out->masked = mask && x->dim[2] > plan->frames && x->dim[0] > 1;
  return ACCEL_OK;
}

static accel_status load(void *user, uint32_t sound, accel__whisper_features *out) {
  const features *f = user;
  const int64_t width = f->values->dim[2], size = f->values->dim[1] * width;
  *out = (accel__whisper_features){malloc((size_t)size * sizeof(float)), width, width, INT64_MAX};
  if (!out->values) return accel__no_memory((size_t)size * sizeof(float));
  memcpy(out->values, (const float *)f->values->data + sound * size, (size_t)size * sizeof(float));
  if (!f->mask) return ACCEL_OK;
  out->heard = 0;
  for (int64_t i = 0; i < width; i++)
    out->heard += f->mask->dtype == ACCEL_I64 ? ((const int64_t *)f->mask->data)[sound * width + i]
                                              : ((const int32_t *)f->mask->data)[sound * width + i];
  if (f->masked) out->frames = out->heard;
  return out->heard >= 0 && out->heard <= width
             ? ACCEL_OK
             : accel__fail(ACCEL_ERROR_FORMAT, "in.attention_mask of row %u is no mask", sound);
}

/* ---- sequences ---- */

static const accel__tensor_info *wanted(const accel__golden *g, const char *name) {
  for (uint32_t i = 0; i < g->n; i++)
    if (!strcmp(g->names[i], name)) return g->wanted[i];
  return NULL;
}

/* Whether the golden's rows have their first tokens: its first one is the start token then. */
static bool has_begin(const accel__golden *g, const accel__whisper_plan *plan) {
  const accel__tensor_info *t = wanted(g, "sequences");
  if (!t || t->dtype != ACCEL_PLUGIN_I64 || t->elements == 0) return false;
  int64_t first;
  return accel__tensor_read(g->file, t, 0, sizeof first, &first) == ACCEL_OK &&
         first == plan->begin[0].id[0];
}

static int64_t row_length(const accel__whisper_transcript *t, bool begin) {
  return (int64_t)t->ids.n + (begin ? t->begin.n + (t->n && t->segment[t->n - 1].ended) : 0);
}

static accel_status lay_out(const accel__golden *g, const accel__whisper_plan *plan,
                            const accel__whisper_transcript *said, int64_t rows,
                            accel_tensors **out) {
  const accel__generate_config *c = &plan->generate.config;
  const bool begin = has_begin(g, plan);
  const int64_t eos = c->eos.n ? c->eos.id[0] : 0, pad = c->pad >= 0 ? c->pad : eos;
  int64_t width = 0;
  for (int64_t b = 0; b < rows; b++)
    width = row_length(&said[b], begin) > width ? row_length(&said[b], begin) : width;
  accel_tensor like[3] = {
      {.name = "sequences", .dtype = ACCEL_I64, .rank = 2, .dim = {rows, width}},
      {.name = "sequences_scores", .dtype = ACCEL_F32, .rank = 1, .dim = {rows}},
      {.name = "token_timestamps", .dtype = ACCEL_F32, .rank = 2, .dim = {rows, width}}};
  ACCEL_TRY(accel__tensors_new(like, plan->options.token_times && !begin ? 3 : 2, out));
  int64_t *to = (*out)->item[0].data;
  for (int64_t b = 0; b < rows; b++) {
    int64_t *end = to + width;
    const accel__whisper_transcript *t = &said[b];
    for (uint32_t i = 0; begin && i < t->begin.n; i++) *to++ = t->begin.id[i];
    for (uint32_t i = 0; i < t->ids.n; i++) *to++ = t->ids.id[i];
    if (begin && t->n && t->segment[t->n - 1].ended) *to++ = eos;
    while (to < end) *to++ = pad;
    ((float *)(*out)->item[1].data)[b] = t->n ? t->segment[0].score : 0;
    for (int64_t i = 0; (*out)->n > 2 && i < width; i++) /* the last one is repeated */
      ((float *)(*out)->item[2].data)[b * width + i] =
          t->ids.n ? t->times[i < t->ids.n ? i : t->ids.n - 1] : 0;
  }
  return ACCEL_OK;
}

accel_status accel__verify_whisper(accel_endpoint *ep, const accel__golden *g,
                                   accel_tensors **out) {
  accel__arena arena = {0};
  accel__whisper_plan plan = {0};
  accel_generate_params params = accel__generate_defaults();
  features f;
  arguments *a = calloc(1, sizeof *a);
  *out = NULL;
  if (!a) return accel__no_memory(sizeof *a);
  accel_status status = read_arguments(g, a);
  params.config = a->rest.data;
  if (status == ACCEL_OK) status = accel__whisper_plan_make(ep, &params, &a->options, &plan);
  if (status == ACCEL_OK) status = read_features(g, &plan, &f);
  if (status == ACCEL_OK) {
    const uint32_t rows = (uint32_t)f.values->dim[0];
    accel__whisper_transcript *said = accel__arena_array(&arena, rows, sizeof *said);
    status = said ? accel__whisper_run(ep, &plan, load, &f, rows, &arena, said)
                  : ACCEL_ERROR_OUT_OF_MEMORY;
    if (status == ACCEL_OK) status = lay_out(g, &plan, said, rows, out);
  }
  accel__whisper_plan_free(&plan);
  accel__json_free(&a->file);
  accel__buffer_free(&a->rest);
  free(a);
  accel__arena_free(&arena);
  return status;
}
