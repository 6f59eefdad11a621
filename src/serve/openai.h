/* openai.h - what the routes of OpenAI's API share: the fields of requests, messages, generations
 * that run, and the parts of answers.
 *
 * Functions that take a request and return false have answered it.
 */
#ifndef ACCEL_SERVE_OPENAI_H
#define ACCEL_SERVE_OPENAI_H

#include "serve/serve_reply.h"

/* ---- texts that grow (openai_text.c) ---- */

/* {0}: empty.  After a refused allocation `failed` stays set and appends do nothing. */
typedef struct openai_text {
  char *data; /* zero-terminated behind n bytes once something was added */
  size_t n, capacity;
  bool failed;
} openai_text;
void openai_add(openai_text *t, const char *bytes, size_t n);
void openai_add_text(openai_text *t, const char *text);
void openai_addf(openai_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Quoted and escaped. */
void openai_add_string(openai_text *t, const char *text);
void openai_add_base64(openai_text *t, const void *bytes, size_t n);
void openai_text_free(openai_text *t);

/* ---- fields of requests (openai_fields.c) ---- */

enum { OPENAI_CHAT = 1, OPENAI_COMPLETIONS = 2, OPENAI_EMBEDDINGS = 4, OPENAI_GENERATE = 3 };

/* Numbers that are absent are NaN, flags -1, everything else NULL.  Values belong to the body. */
typedef struct openai_fields {
  double temperature, top_p, min_p, typical_p, top_k, repetition_penalty, presence_penalty,
      frequency_penalty, n, best_of, seed, max_tokens, max_completion_tokens, min_tokens, priority,
      top_logprobs, completion_logprobs, dimensions, deadline_ms;
  int stream, logprobs, echo, parallel_tool_calls, ignore_eos, keep_stop, continue_final_message,
      add_generation_prompt;
  const cJSON *model, *messages, *prompt, *input, *stop, *stream_options, *response_format,
      *logit_bias, *tools, *tool_choice, *guided_json, *guided_regex, *guided_choice,
      *guided_grammar, *structured_outputs, *documents, *template_variables, *encoding_format,
      *pooling, *prompt_name, *modalities;
} openai_fields;

/* Reads the fields of a body that `route` (one of OPENAI_*) has: types and ranges of all of them are
 * checked here.  What is not known is named in the header x-accel-ignored; what would change the
 * meaning of the request and is not supported is 400. */
bool openai_read_fields(serve_request *request, const cJSON *body, unsigned route,
                        openai_fields *out);
/* A number inside of a field: the field's range holds for it, too. */
bool openai_check_number(serve_request *request, const char *field, double value);
/* A string, or NULL. */
const char *openai_string(const cJSON *item);

/* ---- settings of a generation (openai_settings.c) ---- */

enum { OPENAI_STOPS = 16, OPENAI_PROMPTS = 16 };

typedef struct openai_settings {
  accel_generate_params params; /* points into the others */
  const char *stop_item[OPENAI_STOPS];
  accel_strings stop;
  char *grammar, *config;
  const char *grammar_field; /* which field it is from; NULL: there is none */
  int32_t logprobs;          /* alternatives wanted; -1: none */
  int32_t priority;
  uint32_t deadline_ms;
  uint32_t n;         /* choices of each prompt */
  bool stream, usage; /* stream_options.include_usage */
} openai_settings;

/* Begins at {0}; freed also after a failure. */
bool openai_settings_make(serve_request *request, const openai_fields *fields,
                          openai_settings *out);
void openai_settings_free(openai_settings *s);
/* max_new_tokens where nothing was asked for: what the model's context leaves. */
void openai_limit_tokens(openai_settings *s, const serve_model *model);

/* ---- messages (openai_messages.c) ---- */

typedef struct openai_messages {
  char *json;          /* as chat templates read them, arguments of calls as objects */
  char *json_of_texts; /* the same, arguments as JSON in texts; NULL: there are none */
  accel_media *image;  /* [images] of data: URIs, in their order */
  uint32_t images;
} openai_messages;

/* Begins at {0}; freed also after a failure. */
bool openai_messages_read(serve_request *request, const cJSON *messages, openai_messages *out);
void openai_messages_free(openai_messages *m);

/* ---- running (openai_run.c) ---- */

/* One token of a sequence, copied. */
typedef struct openai_event {
  struct openai_event *next;
  uint32_t choice; /* number of the sequence among those of the request */
  int32_t id;
  float logprob;
  const char *finish; /* as accel_token_event's, a constant; NULL: more will come */
  uint32_t alternatives;
  const accel_token_logprob *alternative;
  const char *text;
} openai_event;

typedef struct openai_prompt {
  struct openai_job *job;
  uint32_t number;
  int32_t *ids; /* [n], malloc's */
  uint32_t n;
  char *text; /* malloc's, with images[n_images] in the place of ids; NULL: there are none */
  const accel_media *images;
  uint32_t n_images;
  accel_ticket *ticket;
  accel_generations *result;
} openai_prompt;

typedef struct openai_job {
  serve_request *request;
  const serve_model *model;
  openai_settings *settings;
  openai_prompt prompt[OPENAI_PROMPTS];
  uint32_t n_prompts;
  /* With settings->stream: begins the stream, and takes each token, on the handler's thread. */
  bool (*begin)(struct openai_job *job);
  bool (*take)(struct openai_job *job, const openai_event *event);
  void *user;
  /* private */
  double first_token_s; /* since the request came; 0: not known */
  struct openai_feed *feed;
} openai_job;

/* Tokens of a text in prompt number n_prompts, which counts up. */
bool openai_add_prompt(openai_job *job, const char *text, int special_tokens);
/* The same of a text, as the chat template has written it, with the pictures of the messages, which
 * must outlive the job. */
bool openai_add_pictured(openai_job *job, const char *text, const openai_messages *pictures);
/* The same of tokens; `ids` is a JSON array. */
bool openai_add_ids(openai_job *job, const cJSON *ids);
/* Runs all prompts to their end, and counts them for /metrics.  false: it was answered, or the
 * stream was ended. */
bool openai_run(openai_job *job);
void openai_job_free(openai_job *job);

/* ---- parts of answers (openai_answer.c) ---- */

typedef struct openai_head {
  char id[SERVE_ID];
  const char *object, *model;
  double created;
} openai_head;
/* Its id begins with `prefix`, "chatcmpl-". */
void openai_head_make(openai_head *head, const char *prefix, const char *object, const char *model);
/* {"id", "object", "created", "model"} */
cJSON *openai_head_json(const openai_head *head);
const char *openai_finish_reason(const char *finish);
cJSON *openai_usage_json(uint64_t prompt_tokens, uint64_t completion_tokens);
/* The text of one token, as it is behind others; malloc's, NULL: no memory. */
char *openai_token_text(const serve_model *model, int32_t id);
/* {"token", "logprob", "bytes", "top_logprobs"} as chats have it. */
cJSON *openai_logprob_json(const serve_model *model, int32_t id, float logprob,
                           const accel_token_logprob *alternative, uint32_t n);
/* Log probabilities that JSON can hold. */
double openai_finite(float logprob);
/* Answers with `json`, which has the choices and the usage, or ends the stream, whose last event it is
 * when the usage was asked for; it is deleted. */
void openai_finish(serve_request *request, const openai_settings *settings, cJSON *json);

#endif
