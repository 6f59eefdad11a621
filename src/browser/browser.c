/* browser.c - what the ES module calls inside the WebAssembly module: one request at a time, JSON
 * in, JSON out, over the public interface.
 *
 * accel_browser_call({"call": NAME, ...}) answers {"result": ...} or {"error": {"code", "name",
 * "message", "remedy"}}.  Texts and scores travel as JSON; pictures go in, and vectors come out, as
 * offsets in the module's memory.  The worker of accel.mjs is the only caller, so nothing here is
 * locked.  Tokens and progress leave through accel_browser_event while a call runs.
 */
#include <cjson/cJSON.h>
#include <emscripten.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"

enum { MOST_ENDPOINTS = 16 };

static accel *context;
static accel_endpoint *endpoints[MOST_ENDPOINTS];
static accel_embeddings *vectors; /* of the last call; read by the page before its next one */
static atomic_int cancelled;      /* set by the page, where memory is shared */

/* The worker's function of this name, on the thread that is in accel_browser_call. */
EM_JS(void, accel_browser_event, (const char *json), { Module["onEvent"](UTF8ToString(json)); });

static void tell(cJSON *event) {
  char *text = cJSON_PrintUnformatted(event);
  if (text) accel_browser_event(text);
  free(text);
  cJSON_Delete(event);
}

static void on_progress(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)user;
  cJSON *event = cJSON_CreateObject();
  cJSON_AddStringToObject(event, "event", "progress");
  cJSON_AddStringToObject(event, "what", what);
  cJSON_AddNumberToObject(event, "done", (double)done);
  cJSON_AddNumberToObject(event, "total", (double)total);
  tell(event);
}

static int on_token(void *user, const accel_token_event *token) {
  (void)user;
  cJSON *event = cJSON_CreateObject();
  cJSON_AddStringToObject(event, "event", "token");
  cJSON_AddNumberToObject(event, "prompt", token->prompt);
  cJSON_AddNumberToObject(event, "sequence", token->sequence);
  cJSON_AddNumberToObject(event, "id", token->id);
  cJSON_AddStringToObject(event, "text", token->text);
  if (token->finish) cJSON_AddStringToObject(event, "finish", token->finish);
  tell(event);
  return 0;
}

static int is_cancelled(void *user) {
  (void)user;
  return atomic_load_explicit(&cancelled, memory_order_relaxed);
}

/* ---- reading requests ---- */

static const char *text_of(const cJSON *request, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(request, key);
  return cJSON_IsString(item) ? item->valuestring : NULL;
}

static double number_of(const cJSON *request, const char *key, double otherwise) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(request, key);
  return cJSON_IsNumber(item) ? item->valuedouble
         : cJSON_IsBool(item) ? cJSON_IsTrue(item)
                              : otherwise;
}

/* The endpoint that the request names; NULL: there is none. */
static accel_endpoint *endpoint_of(const cJSON *request) {
  const double number = number_of(request, "endpoint", -1);
  return number >= 0 && number < MOST_ENDPOINTS ? endpoints[(int)number] : NULL;
}

/* Texts of the array `key`; NULL without memory or where the array is empty or no array of texts. */
static const char **texts_of(const cJSON *request, const char *key, uint32_t *n) {
  const cJSON *array = cJSON_GetObjectItemCaseSensitive(request, key), *item;
  const char **texts = calloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *texts);
  *n = 0;
  cJSON_ArrayForEach(item, array) {
    if (texts && cJSON_IsString(item)) texts[(*n)++] = item->valuestring;
  }
  if (texts && *n == (uint32_t)cJSON_GetArraySize(array) && *n) return texts;
  free(texts);
  return NULL;
}

/* ---- answers ---- */

static cJSON *labels(const accel_classifications *found) {
  cJSON *items = cJSON_CreateArray();
  for (uint32_t i = 0; i < found->n; i++) {
    cJSON *item = cJSON_CreateArray();
    for (uint32_t k = 0; k < found->count[i]; k++) {
      cJSON *one = cJSON_CreateObject();
      cJSON_AddStringToObject(one, "label", found->score[i][k].label);
      cJSON_AddNumberToObject(one, "score", found->score[i][k].score);
      cJSON_AddItemToArray(item, one);
    }
    cJSON_AddItemToArray(items, item);
  }
  return items;
}

/* How a call that classifies ends; `input` is what it allocated for its request. */
static accel_status classified(accel_status status, accel_classifications *found, void *input,
                               cJSON **result) {
  if (status == ACCEL_OK) *result = labels(found);
  accel_classifications_free(&found);
  free(input);
  return status;
}

typedef accel_status (*call_fn)(const cJSON *request, cJSON **result);

/* A request that the module itself should not have sent. */
static accel_status malformed(void) { return ACCEL_ERROR_ARGUMENT; }

static accel_status call_detect(const cJSON *request, cJSON **result) {
  char *json = NULL;
  (void)request;
  const accel_status status = accel_detect_json(context, 0, &json);
  if (status == ACCEL_OK) *result = cJSON_Parse(json);
  accel_string_free(&json);
  return status;
}

static accel_status call_open(const cJSON *request, cJSON **result) {
  accel_init_params how = accel_init_params_default();
  const char *model = text_of(request, "model");
  uint32_t number = 0;
  while (number < MOST_ENDPOINTS && endpoints[number]) number++;
  if (!model || number == MOST_ENDPOINTS) return malformed();
  how.device = text_of(request, "device");
  how.precision = text_of(request, "precision");
  how.task = text_of(request, "task");
  how.architecture = text_of(request, "architecture");
  const accel_status status = accel_init(context, model, &how, &endpoints[number]);
  if (status != ACCEL_OK) return status;
  const accel_placement_report *placement = accel_placement(endpoints[number]);
  *result = cJSON_CreateObject();
  cJSON_AddNumberToObject(*result, "endpoint", number);
  cJSON_AddStringToObject(*result, "placement", placement->label);
  cJSON_AddNumberToObject(*result, "threads", accel_thread_count(context));
  return ACCEL_OK;
}

static accel_status call_close(const cJSON *request, cJSON **result) {
  const double number = number_of(request, "endpoint", -1);
  if (!endpoint_of(request)) return malformed();
  accel_cleanup(&endpoints[(int)number]);
  *result = cJSON_CreateObject();
  return ACCEL_OK;
}

static accel_status call_embed(const cJSON *request, cJSON **result) {
  accel_embed_params how = accel_embed_params_default();
  uint32_t n;
  const char **texts = texts_of(request, "texts", &n);
  if (!texts || !endpoint_of(request)) return free(texts), malformed();
  how.pooling = text_of(request, "pooling");
  how.normalize = (int32_t)number_of(request, "normalize", -1);
  how.prompt = text_of(request, "prompt");
  how.prompt_name = text_of(request, "prompt_name");
  accel_embeddings_free(&vectors);
  const accel_status status = accel_embed_with(endpoint_of(request), texts, n, &how, &vectors);
  free(texts);
  if (status != ACCEL_OK) return status;
  *result = cJSON_CreateObject();
  cJSON_AddNumberToObject(*result, "data", (double)(uintptr_t)vectors->data);
  cJSON_AddNumberToObject(*result, "dim", vectors->dim);
  cJSON_AddBoolToObject(*result, "per_token", vectors->per_token);
  cJSON_AddNumberToObject(*result, "tokens", (double)vectors->tokens);
  cJSON *rows = cJSON_AddArrayToObject(*result, "row_start");
  for (uint32_t i = 0; i <= vectors->n; i++)
    cJSON_AddItemToArray(rows, cJSON_CreateNumber((double)vectors->row_start[i]));
  return ACCEL_OK;
}

static accel_status call_classify(const cJSON *request, cJSON **result) {
  accel_classify_params how = accel_classify_params_default();
  accel_classifications *found = NULL;
  uint32_t n;
  const char **texts = texts_of(request, "texts", &n);
  if (!texts || !endpoint_of(request)) return free(texts), malformed();
  how.top_k = (uint32_t)number_of(request, "top_k", how.top_k);
  how.function = text_of(request, "function_to_apply");
  const accel_status status = accel_classify(endpoint_of(request), texts, NULL, n, &how, &found);
  return classified(status, found, texts, result);
}

/* "images": [{"name", "data": offset, "bytes"}] */
static accel_status call_classify_images(const cJSON *request, cJSON **result) {
  accel_classify_params how = accel_classify_params_default();
  accel_classifications *found = NULL;
  const cJSON *images = cJSON_GetObjectItemCaseSensitive(request, "images"), *item;
  const uint32_t n = (uint32_t)cJSON_GetArraySize(images);
  accel_media *media = calloc(n + 1, sizeof *media);
  uint32_t i = 0;
  if (!media || !n || !endpoint_of(request)) return free(media), malformed();
  cJSON_ArrayForEach(item, images) {
    media[i].name = text_of(item, "name");
    media[i].data = (const void *)(uintptr_t)number_of(item, "data", 0);
    media[i++].n = (size_t)number_of(item, "bytes", 0);
  }
  how.top_k = (uint32_t)number_of(request, "top_k", how.top_k);
  how.function = text_of(request, "function_to_apply");
  const accel_status status = accel_classify_images(endpoint_of(request), media, n, &how, &found);
  return classified(status, found, media, result);
}

static cJSON *generated(const accel_generations *found) {
  cJSON *answer = cJSON_CreateObject(), *items = cJSON_AddArrayToObject(answer, "sequences");
  for (uint32_t i = 0; i < found->n; i++) {
    const accel_generation *g = &found->item[i];
    cJSON *one = cJSON_CreateObject(), *ids = cJSON_AddArrayToObject(one, "ids");
    cJSON_AddNumberToObject(one, "prompt", g->prompt);
    cJSON_AddStringToObject(one, "text", g->text);
    cJSON_AddStringToObject(one, "finish", g->finish);
    for (uint32_t k = 0; k < g->n; k++) cJSON_AddItemToArray(ids, cJSON_CreateNumber(g->ids[k]));
    cJSON_AddItemToArray(items, one);
  }
  cJSON_AddNumberToObject(answer, "prompt_tokens", (double)found->prompt_tokens);
  cJSON_AddNumberToObject(answer, "new_tokens", (double)found->new_tokens);
  cJSON_AddNumberToObject(answer, "prefill_ms", found->prefill_ms);
  cJSON_AddNumberToObject(answer, "decode_ms", found->decode_ms);
  return answer;
}

/* "config" holds any fields of transformers' GenerationConfig. */
static accel_status call_generate(const cJSON *request, cJSON **result) {
  accel_generate_params how = accel_generate_params_default();
  accel_generations *found = NULL;
  uint32_t n;
  const char **texts = texts_of(request, "texts", &n);
  if (!texts || !endpoint_of(request)) return free(texts), malformed();
  const cJSON *config = cJSON_GetObjectItemCaseSensitive(request, "config");
  char *fields = config ? cJSON_PrintUnformatted(config) : NULL;
  how.config = fields;
  how.max_new_tokens = (int32_t)number_of(request, "max_new_tokens", how.max_new_tokens);
  how.seed = (uint64_t)number_of(request, "seed", 0);
  if (number_of(request, "stream", 0)) how.on_token = on_token;
  const accel_status status = accel_generate(endpoint_of(request), texts, n, &how, &found);
  if (status == ACCEL_OK) *result = generated(found);
  accel_generations_free(&found);
  free(fields);
  free(texts);
  return status;
}

static accel_status call_verify(const cJSON *request, cJSON **result) {
  accel_init_params how = accel_init_params_default();
  accel_verify_report *report = NULL;
  const char *model = text_of(request, "model"), *golden = text_of(request, "golden");
  if (!model || !golden) return malformed();
  how.device = text_of(request, "device");
  how.precision = text_of(request, "precision");
  how.architecture = text_of(request, "architecture");
  accel_status status = accel_verify(context, model, &how, golden, &report);
  if (report) {
    *result = cJSON_CreateObject();
    cJSON_AddBoolToObject(*result, "pass", report->passed);
    cJSON_AddStringToObject(*result, "precision", report->precision);
    cJSON *outputs = cJSON_AddArrayToObject(*result, "outputs");
    for (uint32_t i = 0; i < report->n; i++) {
      const accel_verify_output *o = &report->output[i];
      cJSON *one = cJSON_CreateObject();
      cJSON_AddStringToObject(one, "name", o->name);
      cJSON_AddNumberToObject(one, "max_abs", o->max_abs);
      cJSON_AddNumberToObject(one, "cosine", o->cosine);
      cJSON_AddNumberToObject(one, "bound", o->bound);
      cJSON_AddBoolToObject(one, "pass", o->passed);
      cJSON_AddStringToObject(one, "note", o->note);
      cJSON_AddItemToArray(outputs, one);
    }
    status = ACCEL_OK;
  }
  accel_verify_report_free(&report);
  return status;
}

static const struct {
  const char *name;
  call_fn run;
} calls[] = {{"detect", call_detect},     {"open", call_open},
             {"close", call_close},       {"embed", call_embed},
             {"classify", call_classify}, {"classify_images", call_classify_images},
             {"generate", call_generate}, {"verify", call_verify}};

/* ---- what the worker calls ---- */

/* Makes the context; 0, or an accel_status.  threads 0: as many as the browser says it has. */
EMSCRIPTEN_KEEPALIVE int accel_browser_create(int threads);
/* As the head of this file says; the answer is freed by the caller.  NULL: no memory. */
EMSCRIPTEN_KEEPALIVE char *accel_browser_call(const char *json);
/* Where the page writes 1 to have a call end with ACCEL_ERROR_CANCELLED; the next call clears it. */
EMSCRIPTEN_KEEPALIVE atomic_int *accel_browser_cancel(void);

int accel_browser_create(int threads) {
  accel_params params = accel_params_default();
  params.threads = threads > 0 ? (uint32_t)threads : 0;
  params.no_cache = 1;
  params.progress = on_progress;
  params.cancel = is_cancelled;
  return accel_create(&params, &context);
}

atomic_int *accel_browser_cancel(void) { return &cancelled; }

static cJSON *failure(accel_status status) {
  cJSON *error = cJSON_CreateObject();
  const char *message = accel_last_error(), *remedy = accel_last_remedy();
  cJSON_AddNumberToObject(error, "code", status);
  cJSON_AddStringToObject(error, "name", accel_status_name(status));
  cJSON_AddStringToObject(error, "message",
                          message && *message ? message : accel_status_text(status));
  cJSON_AddStringToObject(error, "remedy", remedy ? remedy : "");
  return error;
}

char *accel_browser_call(const char *json) {
  cJSON *request = cJSON_Parse(json), *result = NULL, *answer = cJSON_CreateObject();
  const char *name = text_of(request, "call");
  accel_status status = malformed();
  atomic_store(&cancelled, 0);
  for (size_t i = 0; name && i < sizeof calls / sizeof *calls; i++)
    if (!strcmp(name, calls[i].name)) status = calls[i].run(request, &result);
  if (status == ACCEL_OK)
    cJSON_AddItemToObject(answer, "result", result);
  else
    cJSON_AddItemToObject(answer, "error", failure(status));
  char *text = cJSON_PrintUnformatted(answer);
  cJSON_Delete(answer);
  cJSON_Delete(request);
  return text;
}
