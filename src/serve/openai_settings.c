/* openai_settings.c - from the fields of a request to the parameters of a generation. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "serve/openai.h"

/* ---- what a text must be ---- */

/* Keeps a grammar; a second one is refused.  text: malloc's, taken over. */
static bool set_grammar(serve_request *request, openai_settings *out, const char *field,
                        accel_grammar_kind kind, char *text) {
  if (!text) {
    serve_fail(request, 500, NULL, NULL, "out of memory");
    return false;
  }
  if (out->grammar_field) {
    serve_fail(request, 400, field, NULL, "%s and %s both say what the text must be; give one",
               out->grammar_field, field);
    free(text);
    return false;
  }
  out->grammar = text;
  out->grammar_field = field;
  out->params.grammar = text;
  out->params.grammar_kind = kind;
  return true;
}

/* A schema is JSON, or a string with JSON in it; other grammars are strings. */
static char *grammar_text(const cJSON *item) {
  return cJSON_IsString(item) ? strdup(item->valuestring) : cJSON_PrintUnformatted(item);
}

static bool take_response_format(serve_request *request, const cJSON *format,
                                 openai_settings *out) {
  const char *field = "response_format",
             *type = openai_string(cJSON_GetObjectItemCaseSensitive(format, "type"));
  if (!type) {
    serve_fail(request, 400, field, NULL, "response_format.type: expected a string");
    return false;
  }
  if (!strcmp(type, "text")) return true;
  if (!strcmp(type, "json_object"))
    return set_grammar(request, out, field, ACCEL_GRAMMAR_JSON_SCHEMA,
                       strdup("{\"type\":\"object\"}"));
  if (!strcmp(type, "structural_tag"))
    return set_grammar(request, out, field, ACCEL_GRAMMAR_STRUCTURAL_TAG,
                       cJSON_PrintUnformatted(format));
  if (strcmp(type, "json_schema") != 0) {
    serve_fail(request, 400, field, NULL,
               "response_format.type: '%s' is none of text, json_object, json_schema, "
               "structural_tag",
               type);
    return false;
  }
  const cJSON *described = cJSON_GetObjectItemCaseSensitive(format, "json_schema"),
              *schema = cJSON_GetObjectItemCaseSensitive(described, "schema");
  if (!schema || cJSON_IsNull(schema))
    return set_grammar(request, out, field, ACCEL_GRAMMAR_JSON_SCHEMA,
                       strdup("{\"type\":\"object\"}"));
  return set_grammar(request, out, field, ACCEL_GRAMMAR_JSON_SCHEMA, grammar_text(schema));
}

/* vLLM's older names, one field each. */
static bool take_guided(serve_request *request, const openai_fields *f, openai_settings *out) {
  if (f->guided_json && !set_grammar(request, out, "guided_json", ACCEL_GRAMMAR_JSON_SCHEMA,
                                     grammar_text(f->guided_json)))
    return false;
  if (f->guided_regex && !set_grammar(request, out, "guided_regex", ACCEL_GRAMMAR_REGEX,
                                      grammar_text(f->guided_regex)))
    return false;
  if (f->guided_choice && !set_grammar(request, out, "guided_choice", ACCEL_GRAMMAR_CHOICES,
                                       cJSON_PrintUnformatted(f->guided_choice)))
    return false;
  return !f->guided_grammar || set_grammar(request, out, "guided_grammar", ACCEL_GRAMMAR_TEXT,
                                           grammar_text(f->guided_grammar));
}

/* And the newer ones, members of one object. */
static bool take_structured(serve_request *request, const cJSON *object, openai_settings *out) {
  static const struct {
    const char *name;
    accel_grammar_kind kind;
    bool text; /* a string in any case */
  } members[] = {{"json", ACCEL_GRAMMAR_JSON_SCHEMA, false},
                 {"regex", ACCEL_GRAMMAR_REGEX, true},
                 {"choice", ACCEL_GRAMMAR_CHOICES, false},
                 {"grammar", ACCEL_GRAMMAR_TEXT, true},
                 {"structural_tag", ACCEL_GRAMMAR_STRUCTURAL_TAG, false}};
  const char *field = "structured_outputs";
  const cJSON *item;
  cJSON_ArrayForEach(item, object) {
    size_t i = 0;
    if (!item->string || cJSON_IsNull(item)) continue;
    while (i < sizeof members / sizeof *members && strcmp(members[i].name, item->string) != 0) i++;
    if (i == sizeof members / sizeof *members || (members[i].text && !cJSON_IsString(item))) {
      serve_fail(request, 400, field, NULL, "structured_outputs.%s is not supported", item->string);
      return false;
    }
    if (!set_grammar(request, out, field, members[i].kind, grammar_text(item))) return false;
  }
  return true;
}

/* ---- where a text ends, and what is likely ---- */

static bool add_stop(serve_request *request, const cJSON *item, openai_settings *out) {
  const char *text = openai_string(item);
  if (text && *text && out->stop.n < OPENAI_STOPS) {
    out->stop_item[out->stop.n++] = text;
    return true;
  }
  serve_fail(request, 400, "stop", NULL, "stop: expected at most %d strings, none of them empty",
             OPENAI_STOPS);
  return false;
}

static bool take_stop(serve_request *request, const cJSON *stop, openai_settings *out) {
  const cJSON *item;
  if (!stop) return true;
  if (cJSON_IsArray(stop)) {
    cJSON_ArrayForEach(item, stop) if (!add_stop(request, item, out)) return false;
  } else if (!add_stop(request, stop, out)) {
    return false;
  }
  out->stop.item = out->stop_item;
  if (out->stop.n) out->params.stop = &out->stop;
  return true;
}

/* {"50256": -100} as GenerationConfig's sequence_bias. */
static bool take_bias(serve_request *request, const cJSON *bias, openai_settings *out) {
  openai_text text = {0};
  const cJSON *item;
  if (!bias || !bias->child) return true;
  openai_add_text(&text, "{\"sequence_bias\":[");
  cJSON_ArrayForEach(item, bias) {
    char *end = NULL;
    const long id = item->string ? strtol(item->string, &end, 10) : -1;
    if (!end || end == item->string || *end || id < 0 || id > INT32_MAX || !cJSON_IsNumber(item)) {
      serve_fail(request, 400, "logit_bias", NULL,
                 "logit_bias: expected numbers by token ids, {\"42\": -100}");
      openai_text_free(&text);
      return false;
    }
    if (!openai_check_number(request, "logit_bias", item->valuedouble)) {
      openai_text_free(&text);
      return false;
    }
    openai_addf(&text, "%s[[%ld],%.17g]", item == bias->child ? "" : ",", id, item->valuedouble);
  }
  openai_add_text(&text, "]}");
  if (text.failed) {
    serve_fail(request, 500, NULL, NULL, "out of memory");
    openai_text_free(&text);
    return false;
  }
  out->config = text.data;
  out->params.config = out->config;
  return true;
}

/* ---- all of it ---- */

static int32_t whole(double value, int32_t absent) {
  return isnan(value) ? absent : (int32_t)value;
}

/* Without a seed every request is another. */
static uint64_t any_seed(void) {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) seed = 0;
  return seed ? seed : 1;
}

static void take_numbers(const openai_fields *f, accel_generate_params *p) {
  const double most = !isnan(f->max_completion_tokens) ? f->max_completion_tokens : f->max_tokens;
  p->max_new_tokens = whole(most, -1);
  p->min_new_tokens = whole(f->min_tokens, -1);
  p->temperature = f->temperature;
  p->top_p = f->top_p;
  p->min_p = f->min_p;
  p->typical_p = f->typical_p;
  p->top_k = isnan(f->top_k) ? -1 : f->top_k < 0 ? 0 : (int32_t)f->top_k;
  p->repetition_penalty = f->repetition_penalty;
  if (!isnan(f->presence_penalty)) p->presence_penalty = f->presence_penalty;
  if (!isnan(f->frequency_penalty)) p->frequency_penalty = f->frequency_penalty;
  p->seed = isnan(f->seed) ? any_seed() : (uint64_t)(int64_t)f->seed;
  p->ignore_eos = f->ignore_eos > 0;
  p->keep_stop = f->keep_stop > 0;
}

/* Several choices are sampled, as one alone would be by the clients' default of 1. */
static bool take_choices(serve_request *request, const openai_fields *f, openai_settings *out) {
  out->n = isnan(f->n) ? 1 : (uint32_t)f->n;
  if (!isnan(f->best_of) && f->best_of != out->n) {
    serve_fail(request, 400, "best_of", NULL, "best_of: only the value of n, %u, is supported",
               out->n);
    return false;
  }
  if (out->n == 1) return true;
  if (f->temperature == 0) {
    serve_fail(request, 400, "n", NULL, "n: temperature 0 gives one choice, not %u", out->n);
    return false;
  }
  out->params.do_sample = 1;
  out->params.num_return_sequences = out->n;
  return true;
}

static bool take_logprobs(serve_request *request, const openai_fields *f, openai_settings *out) {
  out->logprobs = -1;
  if (f->logprobs > 0) out->logprobs = whole(f->top_logprobs, 0);
  if (!isnan(f->completion_logprobs)) out->logprobs = (int32_t)f->completion_logprobs;
  out->params.logprobs = out->logprobs;
  if (f->logprobs > 0 || isnan(f->top_logprobs) || f->top_logprobs == 0) return true;
  serve_fail(request, 400, "top_logprobs", NULL, "top_logprobs: logprobs must be true for it");
  return false;
}

bool openai_settings_make(serve_request *request, const openai_fields *f, openai_settings *out) {
  const cJSON *item;
  out->params = accel_generate_params_default();
  out->params.no_special_tokens = 1;
  out->stream = f->stream > 0;
  out->usage = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(f->stream_options, "include_usage"));
  out->priority = whole(f->priority, 0);
  out->deadline_ms = isnan(f->deadline_ms) ? 0 : (uint32_t)f->deadline_ms;
  cJSON_ArrayForEach(item, f->modalities) {
    if (openai_string(item) && !strcmp(item->valuestring, "text")) continue;
    serve_fail(request, 400, "modalities", NULL, "modalities: answers are texts");
    return false;
  }
  take_numbers(f, &out->params);
  if (f->response_format && !take_response_format(request, f->response_format, out)) return false;
  if (f->structured_outputs && !take_structured(request, f->structured_outputs, out)) return false;
  return take_guided(request, f, out) && take_stop(request, f->stop, out) &&
         take_bias(request, f->logit_bias, out) && take_choices(request, f, out) &&
         take_logprobs(request, f, out);
}

void openai_settings_free(openai_settings *s) {
  free(s->grammar);
  free(s->config);
}

void openai_limit_tokens(openai_settings *s, const serve_model *model) {
  enum { KNOWN = 1 << 24 }; /* larger contexts are files that do not say theirs */
  const int64_t most = accel_processor_of(model->endpoint)->max_length;
  if (s->params.max_new_tokens < 0 && most > 0 && most <= KNOWN)
    s->params.max_new_tokens = INT32_MAX;
}
