/* openai_fields.c - every field of OpenAI's requests in one table: on which routes it is known, what
 * it holds, in which range, and where it goes. */
#include <math.h>
#include <stdio.h>
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

static const field *find(const char *name, unsigned route) {
  for (size_t i = 0; i < FIELDS; i++)
    if ((fields[i].routes & route) && !strcmp(fields[i].name, name)) return &fields[i];
  return NULL;
}

const char *openai_string(const cJSON *item) {
  return cJSON_IsString(item) ? item->valuestring : NULL;
}

static bool in_range(serve_request *request, const field *f, double value) {
  if (value >= f->low && value <= f->high) return true;
  serve_fail(request, 400, f->name, NULL, "%s: %.15g is not between %.15g and %.15g", f->name,
             value, f->low, f->high);
  return false;
}

bool openai_check_number(serve_request *request, const char *name, double value) {
  const field *f = find(name, ALL);
  return !f || in_range(request, f, value);
}

static bool wrong(serve_request *request, const field *f, const char *kind) {
  serve_fail(request, 400, f->name, NULL, "%s: expected %s", f->name, kind);
  return false;
}

static bool take_number(serve_request *request, const field *f, const cJSON *item, double *out) {
  if (!cJSON_IsNumber(item)) return wrong(request, f, "a number");
  *out = item->valuedouble;
  if (f->kind == INTEGER && *out != floor(*out)) return wrong(request, f, "a whole number");
  return in_range(request, f, *out);
}

static bool take(serve_request *request, const field *f, const cJSON *item, openai_fields *out) {
  void *at = (char *)out + f->at;
  switch (f->kind) {
    case NUMBER:
    case INTEGER:
      return take_number(request, f, item, at);
    case FLAG:
      if (!cJSON_IsBool(item)) return wrong(request, f, "true or false");
      *(int *)at = cJSON_IsTrue(item);
      return true;
    case STRING:
      if (!cJSON_IsString(item)) return wrong(request, f, "a string");
      break;
    case OBJECT:
      if (!cJSON_IsObject(item)) return wrong(request, f, "an object");
      break;
    case ARRAY:
      if (!cJSON_IsArray(item)) return wrong(request, f, "an array");
      if (!in_range(request, f, cJSON_GetArraySize(item))) return false;
      break;
    case ANY:
      break;
    case SILENT:
      return true;
    case REFUSED:
      serve_fail(request, 400, f->name, NULL, "%s is not supported; %s", f->name, f->remedy);
      return false;
  }
  *(const cJSON **)at = item;
  return true;
}

/* Adds a name to a header's value; characters that a header may not have become '?'. */
static void note(char *list, size_t size, const char *name) {
  size_t n = strlen(list);
  if (n && n + 3 < size) n += (size_t)snprintf(list + n, size - n, ", ");
  for (; *name && n + 1 < size; name++)
    list[n++] = (*name > ' ' && *name < 0x7F && *name != ',') ? *name : '?';
  list[n] = 0;
}

static void clear(openai_fields *out) {
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < FIELDS; i++) {
    if (fields[i].kind == NUMBER || fields[i].kind == INTEGER)
      *(double *)((char *)out + fields[i].at) = NAN;
    if (fields[i].kind == FLAG) *(int *)((char *)out + fields[i].at) = -1;
  }
}

bool openai_read_fields(serve_request *request, const cJSON *body, unsigned route,
                        openai_fields *out) {
  char ignored[512] = "";
  const cJSON *item;
  clear(out);
  cJSON_ArrayForEach(item, body) {
    if (!item->string || cJSON_IsNull(item)) continue;
    const field *f = find(item->string, route);
    if (!f)
      note(ignored, sizeof ignored, item->string);
    else if (!take(request, f, item, out))
      return false;
  }
  if (*ignored) serve_add_header(request, "x-accel-ignored", ignored);
  return true;
}
