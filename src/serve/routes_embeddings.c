/* routes_embeddings.c - POST /v1/embeddings. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/openai.h"

enum { INPUTS = 2048 };

typedef struct inputs {
  serve_request *request;
  const serve_model *model;
  const char *text[INPUTS];
  char *made[INPUTS]; /* of those that were tokens */
  uint32_t n;
} inputs;

/* ---- inputs ---- */

static bool refuse(const inputs *in, const char *what) {
  serve_fail(in->request, 400, "input", NULL, "input: %s", what);
  return false;
}

/* Tokens of this model's vocabulary, which are read as the text they spell. */
static bool add_tokens(inputs *in, const cJSON *list) {
  const accel_processor *p = accel_processor_of(in->model->endpoint);
  accel_tokenizer *tokenizer = accel_tokenizer_of(in->model->endpoint);
  const cJSON *item;
  uint32_t n = 0;
  if (!tokenizer) return refuse(in, "the model has no tokenizer");
  int32_t *ids = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *ids);
  bool ok = ids != NULL;
  cJSON_ArrayForEach(item, list) {
    const double id = cJSON_IsNumber(item) ? item->valuedouble : -1;
    ok = ok && id >= 0 && id < (double)p->vocab_size && id == floor(id);
    if (ok) ids[n++] = (int32_t)id;
  }
  if (!ok) {
    free(ids);
    return refuse(in,
                  "an array of tokens has something beyond the model's vocabulary (clients that "
                  "count with another tokenizer can send texts)");
  }
  const accel_status status = accel_detokenize(tokenizer, ids, n, 1, &in->made[in->n]);
  free(ids);
  if (status != ACCEL_OK) {
    serve_fail_with(in->request, status, "input");
    return false;
  }
  in->text[in->n] = in->made[in->n];
  in->n++;
  return true;
}

static bool add_input(inputs *in, const cJSON *item) {
  if (in->n == INPUTS) return refuse(in, "more than 2048 elements");
  if (cJSON_IsArray(item) && cJSON_IsNumber(item->child)) return add_tokens(in, item);
  if (!cJSON_IsString(item))
    return refuse(in, "expected a string, an array of strings, or an array of tokens");
  if (!*item->valuestring) return refuse(in, "an empty string");
  in->text[in->n++] = item->valuestring;
  return true;
}

static bool add_inputs(inputs *in, const cJSON *input) {
  const cJSON *item;
  if (!cJSON_IsArray(input) || cJSON_IsNumber(input->child)) return add_input(in, input);
  cJSON_ArrayForEach(item, input) if (!add_input(in, item)) return false;
  return in->n || refuse(in, "an empty array");
}

/* ---- answers ---- */

typedef struct vectors {
  bool base64;
  uint32_t dimensions; /* the first of each, 0: all */
} vectors;

/* The first numbers of a vector, at length 1 where the whole vector had it (as of models that were
 * trained for shorter vectors). */
static void shorten(const float *from, uint32_t dim, uint32_t n, float *to) {
  double whole = 0, part = 0;
  for (uint32_t i = 0; i < dim; i++) whole += (double)from[i] * from[i];
  for (uint32_t i = 0; i < n; i++) part += (double)from[i] * from[i];
  const bool scale = n < dim && part > 0 && fabs(whole - 1) < 1e-3;
  for (uint32_t i = 0; i < n; i++) to[i] = scale ? (float)(from[i] / sqrt(part)) : from[i];
}

static void add_vector(openai_text *out, const float *v, uint32_t n, bool base64) {
  if (base64) {
    openai_add_text(out, "\"");
    openai_add_base64(out, v, n * sizeof *v);
    openai_add_text(out, "\"");
    return;
  }
  openai_add_text(out, "[");
  for (uint32_t i = 0; i < n; i++) openai_addf(out, "%s%.9g", i ? "," : "", (double)v[i]);
  openai_add_text(out, "]");
}

static void answer(const inputs *in, const accel_embeddings *e, const vectors *how) {
  const uint32_t dim = how->dimensions ? how->dimensions : e->dim;
  float *row = malloc(dim * sizeof *row);
  openai_text out = {0};
  openai_add_text(&out, "{\"object\":\"list\",\"data\":[");
  for (uint32_t i = 0; row && i < e->n; i++) {
    shorten(e->data + (size_t)i * e->dim, e->dim, dim, row);
    openai_addf(&out, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i ? "," : "", i);
    add_vector(&out, row, dim, how->base64);
    openai_add_text(&out, "}");
  }
  openai_add_text(&out, "],\"model\":");
  openai_add_string(&out, in->model->name);
  openai_addf(&out, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}}",
              (unsigned long long)e->tokens, (unsigned long long)e->tokens);
  if (row && !out.failed) {
    serve_answer(in->request, 200, "application/json", out.data, out.n);
  } else {
    openai_text_free(&out);
    serve_fail(in->request, 500, NULL, NULL, "out of memory");
  }
  free(row);
}

static void run(inputs *in, const openai_fields *f, const vectors *how) {
  accel_embed_params params = accel_embed_params_default();
  params.pooling = openai_string(f->pooling);
  params.prompt_name = openai_string(f->prompt_name);
  serve_use_adapter(&params, in->model);
  accel_request what = accel_request_default(ACCEL_REQUEST_EMBED);
  what.texts = in->text;
  what.n = in->n;
  what.embed = &params;
  if (!isnan(f->priority)) what.priority = (int32_t)f->priority;
  if (!isnan(f->deadline_ms)) what.deadline_ms = (uint32_t)f->deadline_ms;
  accel_ticket *ticket = NULL;
  accel_embeddings *found = NULL;
  accel_status status = serve_submit(in->request, in->model->queue, &what, &ticket);
  if (status == ACCEL_OK) {
    serve_wait(in->request, ticket);
    status = accel_wait_embeddings(&ticket, -1, &found);
  }
  if (status != ACCEL_OK) {
    serve_fail_with(in->request, status, "input");
  } else if (found->per_token) {
    serve_fail(in->request, 400, "pooling", NULL,
               "%s gives a vector for each token; say how they become one, \"pooling\": \"mean\"",
               in->model->name);
  } else if (how->dimensions > found->dim) {
    serve_fail(in->request, 400, "dimensions", NULL, "dimensions: %u of vectors of %u",
               how->dimensions, found->dim);
  } else {
    const serve_counts counts = {.prompt_tokens = found->tokens};
    serve_count(in->request, &counts);
    answer(in, found, how);
  }
  accel_embeddings_free(&found);
}

static bool read_format(serve_request *request, const openai_fields *f, vectors *out) {
  const char *format = openai_string(f->encoding_format);
  out->base64 = format && !strcmp(format, "base64");
  out->dimensions = isnan(f->dimensions) ? 0 : (uint32_t)f->dimensions;
  if (!format || out->base64 || !strcmp(format, "float")) return true;
  serve_fail(request, 400, "encoding_format", NULL,
             "encoding_format: '%s' is neither float nor base64", format);
  return false;
}

void route_embeddings(serve_request *request) {
  static const char *const tasks[] = {"feature-extraction", "sentence-similarity", NULL};
  openai_fields fields;
  vectors how;
  const cJSON *body = serve_json(request);
  if (!body || !openai_read_fields(request, body, OPENAI_EMBEDDINGS, &fields)) return;
  if (!read_format(request, &fields, &how)) return;
  inputs *in = calloc(1, sizeof *in);
  if (!in) {
    serve_fail(request, 500, NULL, NULL, "out of memory");
    return;
  }
  in->request = request;
  /* one that is named may be of any task: language models and masked ones are trained to embed, too */
  const char *name = openai_string(fields.model);
  in->model = serve_take_model(request, name, name && *name ? NULL : tasks);
  if (in->model && add_inputs(in, fields.input)) run(in, &fields, &how);
  for (uint32_t i = 0; i < in->n; i++) accel_string_free(&in->made[i]);
  free(in);
}
