/* routes_sparse.c - TEI's /embed_sparse: the SPLADE vector of a text, from a head for masked tokens:
 * of each token of the vocabulary the largest log(1 + relu(logit)) over the text's tokens. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/serve_reply.h"

typedef struct sparse_wish {
  const serve_model *model;
  accel_tokenizer *tokenizer;
  const char *const *texts;
  uint32_t n;
  serve_cutting cutting;
} sparse_wish;

static void read_wish(serve_fields *f, sparse_wish *w) {
  enum { MOST = 1024 }; /* texts: each runs by itself */
  static const char *const masked[] = {"fill-mask", NULL};
  bool single;
  w->texts = field_texts(f, "inputs", &w->n, &single);
  if (!f->failed && (!w->n || w->n > MOST))
    field_wrong(f, "inputs", "must be a text, or a list of 1 to %d", MOST);
  w->cutting = fields_cutting(f);
  if (field_item(f, "prompt_name")) field_wrong(f, "prompt_name", "sparse vectors have no prompts");
  w->model = fields_model(f, masked);
  if (f->failed) return;
  fields_no_adapter(f, w->model);
  w->tokenizer = accel_tokenizer_of(w->model->endpoint);
  if (strcmp(w->model->task, "fill-mask") != 0 || !w->tokenizer)
    field_wrong(f, "model", "%s has no head for masked tokens; a model for fill-mask does it",
                w->model->name);
}

/* Tokens of text i, cut to the model's length as tokenizers cut: what is put behind a text stays. */
static uint32_t cut_tokens(const accel_token_ids *found, uint32_t i, uint32_t most, int64_t *ids) {
  uint32_t n = found->count[i], behind = 0;
  const uint32_t all = n;
  while (behind < n && !found->end[i][n - 1 - behind]) ++behind;
  if (n > most) n = most;
  if (behind > n) behind = n;
  for (uint32_t k = 0; k < n; ++k) ids[k] = found->ids[i][k < n - behind ? k : all - (n - k)];
  return n;
}

/* [1, tokens, vocabulary] of the ids, through the queue; NULL: an error has been answered. */
static accel_tensors *run_ids(serve_fields *f, const sparse_wish *w, int64_t *ids, uint32_t n) {
  accel_tensor item = {"input_ids", ACCEL_I64, 2, {1, n}, ids};
  const accel_tensors inputs = {1, &item};
  accel_request what = accel_request_default(ACCEL_REQUEST_RUN);
  accel_tensors *found = NULL;
  accel_ticket *ticket = NULL;
  what.inputs = &inputs;
  if (!serve_queued(f->request, w->model, &what, &ticket)) return NULL;
  const accel_status status = accel_wait(&ticket, -1, &found);
  if (status != ACCEL_OK) serve_fail_with(f->request, status, "inputs");
  return found;
}

/* The largest logit of each of the vocabulary's tokens; best[vocab] is 0 before. */
static void take_largest(const accel_tensor *logits, float *best) {
  const int64_t rows = logits->dim[1], vocab = logits->dim[2];
  const float *value = logits->data;
  for (int64_t r = 0; r < rows; ++r, value += vocab)
    for (int64_t v = 0; v < vocab; ++v)
      if (value[v] > best[v]) best[v] = value[v];
}

/* false: out of memory. */
static bool write_vector(FILE *to, const accel_tensor *logits) {
  const char *between = "";
  float *best = calloc((size_t)logits->dim[2] + 1, sizeof *best);
  if (!best) return false;
  take_largest(logits, best);
  putc('[', to);
  for (int64_t v = 0; v < logits->dim[2]; ++v) {
    if (best[v] <= 0) continue;
    fprintf(to, "%s{\"index\":%lld,\"value\":%.9g}", between, (long long)v,
            (double)(float)log1p((double)best[v]));
    between = ",";
  }
  putc(']', to);
  free(best);
  return true;
}

/* Every text by itself; false: an error has been answered. */
static bool write_all(serve_fields *f, const sparse_wish *w, const accel_token_ids *tokens,
                      FILE *to, uint64_t *count) {
  const uint32_t most = (uint32_t)accel_processor_of(w->model->endpoint)->max_length;
  putc('[', to);
  for (uint32_t i = 0; i < w->n; ++i) {
    int64_t *ids = malloc(((size_t)tokens->count[i] + 1) * sizeof *ids);
    const uint32_t n = ids ? cut_tokens(tokens, i, most, ids) : 0;
    accel_tensors *found = ids ? run_ids(f, w, ids, n) : NULL;
    free(ids);
    if (ids && !found) return false;
    if (i) putc(',', to);
    const bool whole = found && write_vector(to, &found->item[0]);
    accel_tensors_free(&found);
    *count += n;
    if (whole) continue;
    serve_fail(f->request, 500, NULL, NULL, "out of memory");
    return false;
  }
  putc(']', to);
  return true;
}

static bool fits(serve_fields *f, const sparse_wish *w, const accel_token_ids *tokens) {
  uint32_t cut = 0;
  for (uint32_t i = 0; i < w->n; ++i)
    cut += tokens->count[i] > accel_processor_of(w->model->endpoint)->max_length;
  return cutting_allowed(f, &w->cutting, cut, "inputs", w->model);
}

void route_embed_sparse(serve_request *request) {
  serve_fields f;
  serve_reply reply;
  sparse_wish w = {0};
  accel_token_ids *tokens = NULL;
  fields_of_json(&f, request);
  read_wish(&f, &w);
  if (fields_end(&f)) {
    const accel_status status = accel_tokenize(w.tokenizer, w.texts, w.n, 1, &tokens);
    if (status != ACCEL_OK) serve_fail_with(request, status, "inputs");
  }
  if (tokens && fits(&f, &w, tokens) && reply_begin(request, &reply)) {
    serve_work work = {w.model, 0, count_characters(w.texts, w.n)};
    if (write_all(&f, &w, tokens, reply.to, &work.tokens)) {
      work_count(request, &work);
      reply_end(request, &reply, "application/json");
    } else {
      fclose(reply.to);
      free(reply.text);
    }
  }
  accel_token_ids_free(&tokens);
  fields_free(&f);
}
