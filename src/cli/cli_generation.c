/* cli_generation.c - what sub-commands that generate share: options, streaming, results. */
#include "cli/cli_generation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_print.h"

/* ---- options ---- */

static int read_stop(cli_run *run, cli_wishes *w) {
  const char *text = run->value[OPT_STOP];
  uint32_t n = 0;
  if (!text) return 0;
  if (*text == '[') w->stop_list = cJSON_Parse(text);
  int size = w->stop_list ? cJSON_GetArraySize(w->stop_list) : 1;
  w->stop = calloc((size_t)size + 1, sizeof *w->stop);
  if (!w->stop) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (const cJSON *item = w->stop_list ? w->stop_list->child : NULL; item; item = item->next) {
    if (!cJSON_IsString(item)) return cli_usage(run, "--stop: not an array of texts: %s", text);
    w->stop[n++] = item->valuestring;
  }
  if (!w->stop_list) w->stop[n++] = text;
  w->stop_strings = (accel_strings){.n = n, .item = w->stop};
  w->params.stop = &w->stop_strings;
  return 0;
}

static int read_config(cli_run *run, cli_wishes *w) {
  const char *text = run->value[OPT_GENERATION_CONFIG];
  if (!text) return 0;
  if (text[strspn(text, " \t\n")] != '{') {
    int code = cli_file_read(run, text, &w->config, NULL);
    if (code) return code;
    text = w->config;
  }
  w->params.config = text;
  return 0;
}

/* A JSON array of what stands between commas. */
static int choices_of(cli_run *run, const char *text, char **out) {
  cJSON *list = cJSON_CreateArray();
  for (const char *at = text; list && at; at = *at == ',' ? at + 1 : NULL) {
    const size_t n = strcspn(at, ",");
    char *one = strndup(at, n);
    cJSON *item = one ? cJSON_CreateString(one) : NULL;
    free(one);
    if (!item || !cJSON_AddItemToArray(list, item)) {
      cJSON_Delete(item);
      cJSON_Delete(list);
      return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
    }
    at += n;
  }
  *out = list ? cJSON_PrintUnformatted(list) : NULL;
  cJSON_Delete(list);
  return *out ? 0 : cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

/* The text of option `id`, in the file that it names where it is one. */
static int read_source(cli_run *run, cli_wishes *w, int id) {
  const char *text = run->value[id];
  w->params.grammar = text;
  if (id == OPT_ANY_JSON) w->params.grammar = NULL;
  int code = 0;
  if (id == OPT_CHOICES && *text != '[') code = choices_of(run, text, &w->grammar);
  if (id == OPT_GRAMMAR || (id == OPT_JSON_SCHEMA && text[strspn(text, " \t\n")] != '{'))
    code = cli_file_read(run, text, &w->grammar, NULL);
  if (w->grammar) w->params.grammar = w->grammar;
  return code;
}

static int read_grammar(cli_run *run, cli_wishes *w) {
  static const struct {
    int option;
    accel_grammar_kind kind;
  } kinds[] = {{OPT_JSON_SCHEMA, ACCEL_GRAMMAR_JSON_SCHEMA},
               {OPT_REGEX, ACCEL_GRAMMAR_REGEX},
               {OPT_GRAMMAR, ACCEL_GRAMMAR_TEXT},
               {OPT_CHOICES, ACCEL_GRAMMAR_CHOICES},
               {OPT_ANY_JSON, ACCEL_GRAMMAR_JSON}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    const int option = kinds[i].option;
    if (option == OPT_ANY_JSON ? !cli_flag(run, option) : !run->value[option]) continue;
    if (w->params.grammar_kind != ACCEL_GRAMMAR_NONE)
      return cli_usage(run,
                       "--json-schema, --regex, --grammar, --choices, --any-json: one of them");
    w->params.grammar_kind = kinds[i].kind;
    int code = read_source(run, w, kinds[i].option);
    if (code) return code;
  }
  return 0;
}

int cli_wishes_read(cli_run *run, cli_wishes *w) {
  *w = (cli_wishes){.params = accel_generate_params_default()};
  accel_generate_params *p = &w->params;
  p->max_new_tokens = (int32_t)cli_count(run, OPT_MAX_NEW_TOKENS, p->max_new_tokens);
  p->min_new_tokens = (int32_t)cli_count(run, OPT_MIN_NEW_TOKENS, p->min_new_tokens);
  p->temperature = cli_number(run, OPT_TEMPERATURE, p->temperature);
  p->top_k = (int32_t)cli_count(run, OPT_TOP_K, p->top_k);
  p->top_p = cli_number(run, OPT_TOP_P, p->top_p);
  p->min_p = cli_number(run, OPT_MIN_P, p->min_p);
  p->typical_p = cli_number(run, OPT_TYPICAL_P, p->typical_p);
  p->repetition_penalty = cli_number(run, OPT_REPETITION_PENALTY, p->repetition_penalty);
  p->presence_penalty = cli_number(run, OPT_PRESENCE_PENALTY, p->presence_penalty);
  p->frequency_penalty = cli_number(run, OPT_FREQUENCY_PENALTY, p->frequency_penalty);
  p->no_repeat_ngram_size = (int32_t)cli_count(run, OPT_NO_REPEAT_NGRAM, p->no_repeat_ngram_size);
  p->num_beams = (uint32_t)cli_count(run, OPT_BEAMS, 0);
  p->num_return_sequences = (uint32_t)cli_count(run, OPT_SEQUENCES, 0);
  p->seed = (uint64_t)cli_count(run, OPT_SEED, 0);
  p->logprobs = (int32_t)cli_count(run, OPT_LOGPROBS, p->logprobs);
  p->no_special_tokens = cli_flag(run, OPT_NO_SPECIAL);
  p->keep_special_tokens = cli_flag(run, OPT_KEEP_SPECIAL);
  if (run->value[OPT_SPECULATE] && !strcmp(run->value[OPT_SPECULATE], "lookup"))
    p->prompt_lookup_num_tokens = (uint32_t)cli_count(run, OPT_DRAFT_TOKENS, 10);
  int code = read_stop(run, w);
  if (!code) code = read_grammar(run, w);
  return code ? code : read_config(run, w);
}

int cli_wishes_assistant(cli_run *run, cli_wishes *w) {
  const char *model = run->value[OPT_SPECULATE];
  if (!model || w->params.prompt_lookup_num_tokens) return 0;
  const int code = cli_open(run, model, NULL, &w->assistant);
  w->params.assistant_model = w->assistant;
  w->params.num_assistant_tokens = (uint32_t)cli_count(run, OPT_DRAFT_TOKENS, 0);
  return code;
}

void cli_wishes_free(cli_wishes *w) {
  accel_cleanup(&w->assistant);
  free(w->config);
  free(w->grammar);
  free(w->stop);
  cJSON_Delete(w->stop_list);
}

/* ---- results ---- */

static double per_second(uint64_t n, double ms) {
  return ms > 0 ? 1e3 * (double)n / ms : (double)NAN;
}

/* Tokens that came after the first one of each sequence. */
static uint64_t decoded(const accel_generations *g) {
  uint64_t first = 0;
  for (uint32_t i = 0; i < g->n; ++i) first += g->item[i].n > 0;
  return g->new_tokens - first;
}

static void json_logprobs(cli_json *json, const accel_generation *one) {
  if (!one->logprob) return;
  cli_json_floats(json, "logprobs", one->logprob, one->n);
  if (!one->alternatives) return;
  cli_json_open(json, "top_logprobs", '[');
  for (uint32_t t = 0; t < one->n; ++t) {
    cli_json_open(json, NULL, '[');
    for (uint32_t k = 0; k < one->alternatives; ++k) {
      const accel_token_logprob *a = &one->alternative[(size_t)t * one->alternatives + k];
      if (a->id < 0) break;
      cli_json_open(json, NULL, '{');
      cli_json_int(json, "id", a->id);
      cli_json_float(json, "logprob", a->logprob);
      cli_json_close(json, '}');
    }
    cli_json_close(json, ']');
  }
  cli_json_close(json, ']');
}

static int print_json(cli_run *run, accel_endpoint *endpoint, const char *schema,
                      const accel_generations *found) {
  cli_json json;
  int code = cli_json_begin(run, schema, &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_streaming(&json, endpoint);
  cli_json_replicas(&json, endpoint);
  cli_json_int(&json, "prompt_tokens", (int64_t)found->prompt_tokens);
  cli_json_int(&json, "new_tokens", (int64_t)found->new_tokens);
  cli_json_double(&json, "prefill_ms", found->prefill_ms);
  cli_json_double(&json, "decode_ms", found->decode_ms);
  cli_json_double(&json, "prefill_tokens_per_s",
                  per_second(found->prompt_tokens, found->prefill_ms));
  cli_json_double(&json, "decode_tokens_per_s", per_second(decoded(found), found->decode_ms));
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    const accel_generation *one = &found->item[i];
    cli_json_open(&json, NULL, '{');
    cli_json_int(&json, "prompt", one->prompt);
    cli_json_int(&json, "sequence", one->sequence);
    cli_json_text(&json, "text", one->text);
    cli_json_open(&json, "ids", '[');
    for (uint32_t t = 0; t < one->n; ++t) cli_json_int(&json, NULL, one->ids[t]);
    cli_json_close(&json, ']');
    cli_json_text(&json, "finish", one->finish);
    if (one->error) cli_json_text(&json, "error", one->error);
    cli_json_int(&json, "prompt_tokens", one->prompt_tokens);
    if (one->draft_tokens) cli_json_int(&json, "draft_tokens", one->draft_tokens);
    if (one->draft_tokens) cli_json_int(&json, "accepted_tokens", one->accepted_tokens);
    cli_json_double(&json, "score", one->score);
    json_logprobs(&json, one);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

/* One text is printed as it is; of several each is headed by its number. */
static void print_texts(const accel_generations *found, bool streamed) {
  bool any = false;
  for (uint32_t i = 0; i < found->n && !streamed; ++i) {
    const accel_generation *one = &found->item[i];
    if (one->error) continue;
    if (found->n > 1) printf("%s[%u.%u] ", any ? "\n" : "", one->prompt + 1, one->sequence + 1);
    any = true;
    if (*one->text || found->n == 1)
      cli_print_text(one->text);
    else /* no tokenizer: the ids */
      for (uint32_t t = 0; t < one->n; ++t) printf("%s%d", t ? " " : "", one->ids[t]);
  }
  if (any || streamed) putchar('\n');
}

/* A line for each prompt that failed; the exit code of the first. */
static int print_errors(const cli_run *run, const accel_generations *found) {
  int code = 0;
  for (uint32_t i = 0; i < found->n; ++i) {
    const accel_generation *one = &found->item[i];
    if (!one->error) continue;
    const int own = cli_error(run, one->status, "[%u] %s", one->prompt + 1, one->error);
    if (!code) code = own;
  }
  return code;
}

/* ---- rows ---- */

int cli_wishes_begin(cli_run *run, void **wishes) {
  cli_wishes *w = malloc(sizeof *w);
  if (!w) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  *wishes = w;
  const int code = cli_wishes_read(run, w);
  w->params.continue_on_error = 1;
  return code ? code : cli_wishes_assistant(run, w);
}

void cli_wishes_end(void *wishes) {
  if (wishes) cli_wishes_free(wishes);
  free(wishes);
}

void cli_json_generated(cli_json *json, const void *result, uint32_t i) {
  const accel_generations *found = result;
  cli_json_open(json, NULL, '[');
  for (uint32_t k = 0; k < found->n; ++k) {
    const accel_generation *one = &found->item[k];
    if (one->prompt != i) continue;
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "text", one->text);
    cli_json_text(json, "finish", one->finish);
    cli_json_int(json, "prompt_tokens", one->prompt_tokens);
    cli_json_int(json, "new_tokens", one->n);
    cli_json_double(json, "score", one->score);
    json_logprobs(json, one);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

const char *cli_generation_failed(const void *result, uint32_t i) {
  const accel_generations *found = result;
  for (uint32_t k = 0; k < found->n; ++k)
    if (found->item[k].prompt == i && found->item[k].error) return found->item[k].error;
  return NULL;
}

void cli_free_generations(void *found) {
  accel_generations *generations = found;
  accel_generations_free(&generations);
}

/* ---- streaming ---- */

static int on_token(void *user, const accel_token_event *event) {
  bool *streamed = user;
  *streamed = true;
  cli_progress_end();
  cli_print_text(event->text);
  fflush(stdout);
  return 0;
}

int cli_wishes_stream(cli_run *run, cli_wishes *w, uint32_t prompts) {
  bool one = prompts == 1 && w->params.num_return_sequences <= 1, json = cli_flag(run, OPT_JSON);
  if (cli_flag(run, OPT_STREAM) && (!one || json))
    return cli_usage(run, "--stream prints one text, and no JSON");
  if (!one || json || w->params.num_beams > 1 ||
      !(cli_flag(run, OPT_STREAM) || isatty(STDOUT_FILENO)))
    return 0;
  w->params.on_token = on_token;
  w->params.on_token_user = &w->streamed;
  return 0;
}

static void say_guesses(cli_run *run, const accel_generations *found) {
  uint64_t made = 0, right = 0;
  for (uint32_t i = 0; i < found->n; ++i) {
    made += found->item[i].draft_tokens;
    right += found->item[i].accepted_tokens;
  }
  if (made) cli_note(run, "%" PRIu64 " of %" PRIu64 " guessed tokens were right", right, made);
}

int cli_generations_print(cli_run *run, accel_endpoint *endpoint, const cli_wishes *w,
                          const char *schema, const accel_generations *found) {
  const int failed = print_errors(run, found);
  if (cli_flag(run, OPT_JSON)) {
    const int code = print_json(run, endpoint, schema, found);
    return code ? code : failed;
  }
  print_texts(found, w->streamed);
  cli_note(run,
           "%" PRIu64 " tokens read in %.0f ms (%.0f/s), %" PRIu64 " generated in %.0f ms (%.1f/s)",
           found->prompt_tokens, found->prefill_ms,
           per_second(found->prompt_tokens, found->prefill_ms), found->new_tokens, found->decode_ms,
           found->decode_ms > 0 ? per_second(decoded(found), found->decode_ms) : 0);
  say_guesses(run, found);
  cli_say_streaming(run, endpoint);
  cli_say_replicas(run, endpoint);
  const int code = cli_flush(run);
  return code ? code : failed;
}
