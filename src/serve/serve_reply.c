/* serve_reply.c - answers as text, counts of work, texts that are too long. */
#include "serve/serve_reply.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

bool reply_begin(serve_request *request, serve_reply *reply) {
  *reply = (serve_reply){0};
  reply->to = open_memstream(&reply->text, &reply->n);
  if (!reply->to) serve_fail(request, 500, NULL, NULL, "out of memory");
  return reply->to != NULL;
}

void reply_end(serve_request *request, serve_reply *reply, const char *type) {
  const bool whole = !ferror(reply->to);
  if (fclose(reply->to) == 0 && whole && reply->text) {
    serve_answer(request, 200, type, reply->text, reply->n);
    return;
  }
  free(reply->text);
  serve_fail(request, 500, NULL, NULL, "out of memory");
}

const char *reply_id(const char *prefix, char into[SERVE_ID]) {
  unsigned char bytes[12] = {0};
  if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != sizeof bytes) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    memcpy(bytes, &now.tv_nsec, sizeof now.tv_nsec);
  }
  int n = snprintf(into, SERVE_ID, "%.20s", prefix);
  for (size_t i = 0; i < sizeof bytes; i++)
    n += snprintf(into + n, SERVE_ID - (size_t)n, "%02x", bytes[i]);
  return into;
}

cJSON *exact_number(double value) {
  char text[32];
  if (!isfinite(value)) return cJSON_CreateNull();
  for (int digits = 15; digits <= 17; ++digits) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  return cJSON_CreateRaw(text);
}

void add_exact(cJSON *object, const char *name, double value) {
  cJSON_AddItemToObject(object, name, exact_number(value));
}

void reply_floats(FILE *to, const float *values, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    putc(i ? ',' : '[', to);
    if (isfinite(values[i]))
      fprintf(to, "%.9g", (double)values[i]);
    else
      fputs("null", to);
  }
  fputs(n ? "]" : "[]", to);
}

const serve_model *fields_model(serve_fields *f, const char *const *tasks) {
  const char *name = field_text(f, "model", NULL);
  if (f->failed) return NULL;
  const serve_model *model = serve_take_model(f->request, name, name && *name ? NULL : tasks);
  f->failed = !model;
  return model;
}

void fields_no_adapter(serve_fields *f, const serve_model *model) {
  if (model->adapter)
    field_wrong(f, "model", "this route runs without adapters: ask for the model alone");
}

static void number_header(serve_request *request, const char *name, const char *format,
                          uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, format, value);
  serve_add_header(request, name, text);
}

void work_count(serve_request *request, const serve_work *work) {
  const serve_counts counts = {.prompt_tokens = work->tokens};
  serve_add_header(request, "x-compute-type", work->model->device);
  number_header(request, "x-compute-tokens", "%" PRIu64, work->tokens);
  number_header(request, "x-compute-characters", "%" PRIu64, work->characters);
  number_header(request, "x-total-time", "%" PRIu64, (uint64_t)(1000 * serve_age(request)));
  serve_count(request, &counts);
}

uint64_t count_characters(const char *const *texts, uint32_t n) {
  uint64_t characters = 0;
  for (uint32_t i = 0; i < n; ++i)
    for (const char *s = texts[i]; *s; ++s) characters += (*s & 0xC0) != 0x80;
  return characters;
}

serve_cutting fields_cutting(serve_fields *f) {
  serve_cutting how = {.truncate = field_flag(f, "truncate", false)};
  const char *direction = field_choice(f, "truncation_direction", "Right|right|Left|left", "right");
  how.left = *direction == 'L' || *direction == 'l';
  return how;
}

bool cutting_allowed(serve_fields *f, const serve_cutting *how, uint32_t cut, const char *name,
                     const serve_model *model) {
  if (!cut || (how->truncate && !how->left)) return true;
  f->failed = true;
  if (how->truncate)
    serve_fail(f->request, 400, "truncation_direction", NULL,
               "%u texts are longer than the model takes, and texts are cut at their ends only: "
               "truncation_direction must be \"Right\"",
               cut);
  else
    serve_fail(f->request, 413, name, "context_length_exceeded",
               "`%s`: %u texts have more than the %" PRId64
               " tokens that the model takes; shorten them, or set `truncate`",
               name, cut, accel_processor_of(model->endpoint)->max_length);
  return false;
}

bool serve_queued(serve_request *request, const serve_model *model, accel_request *what,
                  accel_ticket **ticket) {
  const accel_status status = serve_submit(request, model->queue, what, ticket);
  if (status == ACCEL_OK)
    serve_wait(request, *ticket);
  else
    serve_fail_with(request, status, NULL);
  return status == ACCEL_OK;
}

int serve_stop_when_gone(void *user, const accel_token_event *event) {
  (void)event;
  return serve_gone(user);
}
