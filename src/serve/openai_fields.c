/* openai_fields.c - every field of OpenAI's requests in one table: on which routes it is known, what
 * it holds, in which range, and where it goes. */
#include <math.h>
#include <string.h>

#include "serve/openai.h"

typedef enum field_kind {
  NUMBER,  /* double; low and high bound it */
  INTEGER, /* double without a fraction */
  FLAG,    /* int */
  STRING,  /* const cJSON *, as all below */
  OBJECT,  /* low and high bound numbers in it */
  ARRAY,   /* low and high bound its length */
  ANY,
  SILENT, /* says nothing about the answer */
  REFUSED /* changes what is asked for, and is not supported */
} field_kind;

typedef struct field {
  const char *name;
  unsigned routes;
  field_kind kind;
  double low, high;
  size_t at;          /* in openai_fields */
  const char *remedy; /* REFUSED: what to do instead */
} field;

enum {
  CHAT = OPENAI_CHAT,
  TEXT = OPENAI_COMPLETIONS,
  VECTOR = OPENAI_EMBEDDINGS,
  BOTH = 3,
  ALL = 7
};
#define IN(member) offsetof(openai_fields, member), NULL
#define LARGEST    9007199254740991.0 /* whole numbers that JSON's readers agree on */

static const field fields[] = {
    /* what is asked */
    {"model", ALL, STRING, 0, 0, IN(model)},
    {"messages", CHAT, ARRAY, 1, 100000, IN(messages)},
    {"prompt", TEXT, ANY, 0, 0, IN(prompt)},
    {"input", VECTOR, ANY, 0, 0, IN(input)},
    {"tools", CHAT, ARRAY, 0, 1024, IN(tools)},
    {"tool_choice", CHAT, ANY, 0, 0, IN(tool_choice)},
    {"parallel_tool_calls", CHAT, FLAG, 0, 1, IN(parallel_tool_calls)},
    {"modalities", CHAT, ARRAY, 0, 8, IN(modalities)},
    {"documents", CHAT, ARRAY, 0, 100000, IN(documents)},
    {"chat_template_kwargs", CHAT, OBJECT, -LARGEST, LARGEST, IN(template_variables)},
    {"add_generation_prompt", CHAT, FLAG, 0, 1, IN(add_generation_prompt)},
    {"continue_final_message", CHAT, FLAG, 0, 1, IN(continue_final_message)},
    {"echo", TEXT, FLAG, 0, 1, IN(echo)},
    /* how it is chosen */
    {"temperature", BOTH, NUMBER, 0, 2, IN(temperature)},
    {"top_p", BOTH, NUMBER, 0, 1, IN(top_p)},
    {"min_p", BOTH, NUMBER, 0, 1, IN(min_p)},
    {"typical_p", BOTH, NUMBER, 0, 1, IN(typical_p)},
    {"top_k", BOTH, INTEGER, -1, 1000000, IN(top_k)},
    {"repetition_penalty", BOTH, NUMBER, 0.01, 10, IN(repetition_penalty)},
    {"presence_penalty", BOTH, NUMBER, -2, 2, IN(presence_penalty)},
    {"frequency_penalty", BOTH, NUMBER, -2, 2, IN(frequency_penalty)},
    {"logit_bias", BOTH, OBJECT, -100, 100, IN(logit_bias)},
    {"seed", BOTH, INTEGER, -LARGEST, LARGEST, IN(seed)},
    {"n", BOTH, INTEGER, 1, 128, IN(n)},
    {"best_of", TEXT, INTEGER, 1, 128, IN(best_of)},
    /* where it ends */
    {"max_tokens", BOTH, INTEGER, 1, 2147483647, IN(max_tokens)},
    {"max_completion_tokens", CHAT, INTEGER, 1, 2147483647, IN(max_completion_tokens)},
    {"min_tokens", BOTH, INTEGER, 0, 2147483647, IN(min_tokens)},
    {"stop", BOTH, ANY, 0, OPENAI_STOPS, IN(stop)},
    {"include_stop_str_in_output", BOTH, FLAG, 0, 1, IN(keep_stop)},
    {"ignore_eos", BOTH, FLAG, 0, 1, IN(ignore_eos)},
    /* what it must be */
    {"response_format", BOTH, OBJECT, -LARGEST, LARGEST, IN(response_format)},
    {"guided_json", BOTH, ANY, 0, 0, IN(guided_json)},
    {"guided_regex", BOTH, STRING, 0, 0, IN(guided_regex)},
    {"guided_choice", BOTH, ARRAY, 1, 100000, IN(guided_choice)},
    {"guided_grammar", BOTH, STRING, 0, 0, IN(guided_grammar)},
    {"structured_outputs", BOTH, OBJECT, -LARGEST, LARGEST, IN(structured_outputs)},
    /* how it is answered */
    {"stream", BOTH, FLAG, 0, 1, IN(stream)},
    {"stream_options", BOTH, OBJECT, -LARGEST, LARGEST, IN(stream_options)},
    {"logprobs", CHAT, FLAG, 0, 1, IN(logprobs)},
    {"top_logprobs", CHAT, INTEGER, 0, 20, IN(top_logprobs)},
    {"logprobs", TEXT, INTEGER, 0, 20, IN(completion_logprobs)},
    {"encoding_format", VECTOR, STRING, 0, 0, IN(encoding_format)},
    {"dimensions", VECTOR, INTEGER, 1, 1048576, IN(dimensions)},
    {"pooling", VECTOR, STRING, 0, 0, IN(pooling)},
    {"prompt_name", VECTOR, STRING, 0, 0, IN(prompt_name)},
    /* when it runs */
    {"priority", ALL, INTEGER, -2147483647, 2147483647, IN(priority)},
    {"deadline_ms", ALL, INTEGER, 0, 4294967295, IN(deadline_ms)},
    /* what says nothing about the answer */
    {"user", ALL, SILENT, 0, 0, 0, NULL},
    {"metadata", ALL, SILENT, 0, 0, 0, NULL},
    {"store", ALL, SILENT, 0, 0, 0, NULL},
    {"service_tier", ALL, SILENT, 0, 0, 0, NULL},
    {"safety_identifier", ALL, SILENT, 0, 0, 0, NULL},
    {"prompt_cache_key", ALL, SILENT, 0, 0, 0, NULL},
    {"prompt_cache_retention", ALL, SILENT, 0, 0, 0, NULL},
    {"prediction", CHAT, SILENT, 0, 0, 0, NULL},
    /* what cannot be done */
    {"chat_template", CHAT, REFUSED, 0, 0, 0,
     "the model's own template is used; its variables go to chat_template_kwargs"},
    {"functions", CHAT, REFUSED, 0, 0, 0, "use tools"},
    {"function_call", CHAT, REFUSED, 0, 0, 0, "use tool_choice"},
    {"audio", CHAT, REFUSED, 0, 0, 0, "answers are texts"},
    {"web_search_options", CHAT, REFUSED, 0, 0, 0, "nothing is fetched from the network"},
    {"suffix", TEXT, REFUSED, 0, 0, 0,
     "write the model's own tokens for infilling into the prompt"},
    {"use_beam_search", BOTH, REFUSED, 0, 0, 0,
     "the library searches with beams, the server does not"},
    {"prompt_logprobs", BOTH, REFUSED, 0, 0, 0, "only generated tokens have log probabilities"},
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* What a field is on routes that do not have it. */
static void clear(const field *f, openai_fields *out) {
  void *at = (char *)out + f->at;
  if (f->kind == NUMBER || f->kind == INTEGER) *(double *)at = NAN;
  if (f->kind == FLAG) *(int *)at = -1;
}

static const field *find(const char *name, unsigned route) {
  for (size_t i = 0; i < FIELDS; i++)
    if ((fields[i].routes & route) && !strcmp(fields[i].name, name)) return &fields[i];
  return NULL;
}

const char *openai_string(const cJSON *item) {
  return cJSON_IsString(item) ? item->valuestring : NULL;
}

bool openai_check_number(serve_request *request, const char *name, double value) {
  const field *f = find(name, ALL);
  if (!f || (value >= f->low && value <= f->high)) return true;
  serve_fail(request, 400, name, NULL, "%s: %.15g is not between %.15g and %.15g", name, value,
             f->low, f->high);
  return false;
}

/* An object, array or any item, where it is one. */
static const cJSON *take_item(serve_fields *from, const field *f) {
  const cJSON *item = field_item(from, f->name);
  if (!item) return NULL;
  if (f->kind == OBJECT && !cJSON_IsObject(item)) field_wrong(from, f->name, "must be an object");
  if (f->kind == ARRAY && !cJSON_IsArray(item)) field_wrong(from, f->name, "must be an array");
  const int n = f->kind == ARRAY ? cJSON_GetArraySize(item) : 0;
  if (f->kind == ARRAY && (n < f->low || n > f->high))
    field_wrong(from, f->name, "must have %.15g to %.15g elements", f->low, f->high);
  return item;
}

static void take(serve_fields *from, const field *f, openai_fields *out) {
  void *at = (char *)out + f->at;
  const cJSON *item = field_item(from, f->name);
  switch (f->kind) {
    case NUMBER:
      *(double *)at = field_number(from, f->name, f->low, f->high, (double)NAN);
      break;
    case INTEGER:
      *(double *)at =
          item ? (double)field_integer(from, f->name, (int64_t)f->low, (int64_t)f->high, 0)
               : (double)NAN;
      break;
    case FLAG:
      *(int *)at = item ? field_flag(from, f->name, false) : -1;
      break;
    case STRING:
      *(const cJSON **)at = field_text(from, f->name, NULL) ? item : NULL;
      break;
    case OBJECT:
    case ARRAY:
    case ANY:
      *(const cJSON **)at = take_item(from, f);
      break;
    case SILENT:
      break;
    case REFUSED:
      if (item) field_wrong(from, f->name, "is not supported; %s", f->remedy);
      break;
  }
}

bool openai_read_fields(serve_request *request, const cJSON *body, unsigned route,
                        openai_fields *out) {
  serve_fields from;
  fields_of_object(&from, request, body);
  from.flat = true;
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < FIELDS; i++)
    if (fields[i].routes & route)
      take(&from, &fields[i], out);
    else
      clear(&fields[i], out);
  const bool good = fields_end(&from);
  fields_free(&from);
  return good;
}
