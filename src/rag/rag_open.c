/* rag_open.c - opening an index: its file, its embedder, and whether the two belong together. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "dispatch/precision_profile.h"
#include "processing/processor.h"
#include "processing/result.h"
#include "rag/rag_index.h"
#include "shared/hash.h"
#include "tasks/embed.h"

enum { MIN_TOKENS = 16, USUAL_TOKENS = 256 };

/* ---- the embedder ---- */

accel_status accel__rag_embed(accel_endpoint *embedder, const char *prompt,
                              const char *const *texts, uint32_t n, uint32_t *dim, float **vectors,
                              uint64_t *tokens) {
  accel_embed_params how = {
      .size = sizeof how, .normalize = -1, .prompt = prompt, .adapter_scale = 1};
  accel_embeddings *found = NULL;
  /* as accel similarity has it: the mean of the tokens where the model says nothing of pooling */
  if (!accel__processor_for(embedder)->modules.present && accel__embeds_rows(embedder))
    how.pooling = "mean";
  ACCEL_TRY(accel__embed(embedder, texts, n, &how, &found));
  accel_status status = ACCEL_OK;
  const size_t bytes = (size_t)n * found->dim * sizeof(float);
  if (found->per_token)
    status = accel__fail(ACCEL_ERROR_UNSUPPORTED,
                         "%s: it makes a vector of each token, not one of a text", embedder->name);
  float *copy = status == ACCEL_OK ? malloc(bytes + 1) : NULL;
  if (status == ACCEL_OK && !copy) status = accel__no_memory(bytes);
  if (status == ACCEL_OK) {
    memcpy(copy, found->data, bytes);
    accel__rag_normalize(copy, n, found->dim);
    *dim = found->dim;
    *vectors = copy;
    *tokens += found->tokens;
  }
  accel__task_free(found);
  return status;
}

/* The text of the first of names[n] that the model has a prompt of; of none its default. */
static const char *prompt_of(const accel_endpoint *ep, const char *const *names, uint32_t n) {
  const accel__sentence_modules *m = &accel__processor_for(ep)->modules;
  for (uint32_t k = 0; k <= n; k++) {
    const char *name = k < n ? names[k] : m->default_prompt;
    for (uint32_t i = 0; name && i < m->n_prompts; i++)
      if (!strcmp(m->prompts[i].name, name)) return m->prompts[i].text;
  }
  return "";
}

/* How an index names its embedder: the whole path of a directory, else the id. */
static const char *name_of(const accel_endpoint *ep, accel__arena *arena) {
  char *path = accel__is_directory(ep->name) ? realpath(ep->name, NULL) : NULL;
  const char *name = accel__arena_string(arena, path ? path : ep->name);
  free(path);
  return name;
}

/* What tells embedders apart, wherever their files are: the model, how it makes one vector of a text,
 * and adapters that are merged into it. */
static accel_status identity_of(const accel_endpoint *ep, uint64_t *out) {
  const accel__sentence_modules *m = &accel__processor_for(ep)->modules;
  const uint64_t ways[] = {m->present,       m->head.normalize,         m->head.n_dense,
                           m->lower_case,    (uint64_t)m->truncate_dim, m->include_prompt,
                           m->head.n_pooling};
  const char *adapters = strchr(ep->placement.weights, ',');
  uint64_t model, h;
  ACCEL_TRY(accel__model_identity(ep, &model));
  h = accel_hash(ACCEL_HASH_SEED, &model, sizeof model);
  h = accel_hash(h, ways, sizeof ways);
  for (uint32_t i = 0; i < m->head.n_pooling; i++) {
    const uint64_t mode = (uint64_t)m->head.pooling[i];
    h = accel_hash(h, &mode, sizeof mode);
  }
  *out = accel_hash_text(h, adapters ? adapters : "");
  return ACCEL_OK;
}

/* ---- settings ---- */

/* Room for passages in what the embedder reads at once. */
static accel_status check_tokens(const accel_rag *r) {
  const accel__rag_settings *s = &r->settings;
  const accel__processor *p = accel__processor_for(r->embedder);
  uint32_t prompt = 0;
  if (s->chunk_tokens < MIN_TOKENS || s->chunk_tokens > p->max_length)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT,
                    "passages of %u tokens: %s reads %u at most, and %u at least", s->chunk_tokens,
                    r->embedder->name, p->max_length, (unsigned)MIN_TOKENS),
        "--chunk-tokens N (accel_rag_params.chunk_tokens) within these");
  if (s->overlap >= s->chunk_tokens / 2)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT, "an overlap of %u tokens in passages of %u", s->overlap,
                    s->chunk_tokens),
        "--overlap N (accel_rag_params.overlap) below half of --chunk-tokens");
  ACCEL_TRY(
      accel__count_tokens(p->tokenizer, s->document_prompt, strlen(s->document_prompt), &prompt));
  if (prompt > s->chunk_tokens / 3)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "the prompt of documents has %u tokens, more than a third of a passage's %u",
                       prompt, s->chunk_tokens);
  return ACCEL_OK;
}

/* The settings of a new index. */
static accel_status choose_settings(accel_rag *r, const accel_rag_params *params) {
  static const char *const documents[] = {"document", "passage", "corpus"}, *const queries[] = {
                                                                                "query"};
  const accel__processor *p = accel__processor_for(r->embedder);
  accel__rag_settings *s = &r->settings;
  const uint32_t usual = p->max_length < USUAL_TOKENS ? p->max_length : USUAL_TOKENS;
  s->chunk_tokens = params->chunk_tokens ? params->chunk_tokens : usual;
  s->overlap = params->overlap != ACCEL_RAG_OVERLAP_DEFAULT ? params->overlap : s->chunk_tokens / 8;
  s->document_prompt = accel__arena_string(&r->arena, params->document_prompt
                                                          ? params->document_prompt
                                                          : prompt_of(r->embedder, documents, 3));
  s->query_prompt = accel__arena_string(
      &r->arena, params->query_prompt ? params->query_prompt : prompt_of(r->embedder, queries, 1));
  s->embedder = name_of(r->embedder, &r->arena);
  if (!s->embedder || !s->document_prompt || !s->query_prompt) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(identity_of(r->embedder, &s->identity));
  ACCEL_TRY(check_tokens(r));
  float *vector = NULL;
  uint64_t tokens = 0;
  ACCEL_TRY(accel__rag_embed(r->embedder, s->document_prompt, (const char *const[]){"a"}, 1,
                             &s->dim, &vector, &tokens));
  free(vector);
  return ACCEL_OK;
}

/* What was asked of an index that is there already. */
static accel_status compare_settings(accel_rag *r, const accel_rag_params *params) {
  accel__rag_settings *s = &r->settings;
  const char *what = NULL;
  if (params->chunk_tokens && params->chunk_tokens != s->chunk_tokens) what = "chunk_tokens";
  if (params->overlap != ACCEL_RAG_OVERLAP_DEFAULT && params->overlap != s->overlap)
    what = "overlap";
  if (params->document_prompt && strcmp(params->document_prompt, s->document_prompt))
    what = "document_prompt";
  if (what)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT,
                    "%s: %s is not what it was made with (chunk_tokens %u, overlap %u, "
                    "document_prompt \"%s\")",
                    r->store.path, what, s->chunk_tokens, s->overlap, s->document_prompt),
        "leave it out, or make another index");
  if (params->query_prompt) s->query_prompt = accel__arena_string(&r->arena, params->query_prompt);
  return s->query_prompt ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status compare_embedder(const accel_rag *r) {
  uint64_t identity;
  ACCEL_TRY(identity_of(r->embedder, &identity));
  if (identity == r->settings.identity) return ACCEL_OK;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_ARGUMENT,
                  "%s: it was made with the embedder '%s'; '%s' is another model, or that one with "
                  "other weights",
                  r->store.path, r->settings.embedder, r->embedder->name),
      "give the embedder it was made with, or make another index");
}

static accel_status check_embedder(const accel_endpoint *ep) {
  const accel__processor *p = accel__processor_for(ep);
  if (!p || !p->tokenizer)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: an embedder needs a tokenizer: %s", ep->name,
                       p && p->no_tokenizer ? p->no_tokenizer : "it has none");
  return accel__processor_check(ep, "feature-extraction");
}

static accel_status settle(accel_rag *r, const accel_rag_params *params) {
  bool found;
  ACCEL_TRY(accel__rag_settings_read(&r->store, &r->arena, &r->settings, &found));
  if (!found && !r->embedder)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_FORMAT, "%s: it is empty, and no index", r->store.path),
        "make one: accel rag index FOLDER --index FILE --model EMBEDDER");
  if (!found) {
    ACCEL_TRY(choose_settings(r, params));
    ACCEL_TRY(accel__rag_settings_write(&r->store, &r->settings));
    ACCEL_TRY(accel__rag_settings_read(&r->store, &r->arena, &r->settings, &found));
  }
  ACCEL_TRY(compare_settings(r, params));
  if (!r->embedder) return ACCEL_OK;
  ACCEL_TRY(compare_embedder(r));
  return check_tokens(r);
}

accel_status accel__rag_open(accel *ctx, const char *path, accel_endpoint *embedder,
                             const accel_rag_params *params, accel_rag **out) {
  if (embedder) ACCEL_TRY(check_embedder(embedder));
  accel_rag *r = calloc(1, sizeof *r);
  if (!r) return accel__no_memory(sizeof *r);
  r->ctx = ctx;
  r->embedder = embedder;
  pthread_mutex_init(&r->lock, NULL);
  accel_status status =
      accel__rag_store_open(path, params->create != 0 && embedder != NULL, &r->store);
  if (status == ACCEL_OK) status = settle(r, params);
  if (status == ACCEL_OK)
    *out = r;
  else
    accel__rag_close(r);
  return status;
}

void accel__rag_close(accel_rag *r) {
  accel__rag_vectors_free(&r->vectors);
  accel__rag_store_close(&r->store);
  accel__arena_free(&r->arena);
  pthread_mutex_destroy(&r->lock);
  free(r);
}

/* ---- describing ---- */

static accel_status fill_info(const accel_rag *r, accel__arena *arena, accel_rag_info *info) {
  const accel__rag_settings *s = &r->settings;
  char **paths;
  accel_strings *documents = accel__arena_alloc(arena, sizeof *documents);
  if (!documents) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__rag_files_below(&r->store, "", arena, &paths, &documents->n));
  const int64_t passages = accel__rag_number(&r->store, "SELECT count(*) FROM passage");
  if (passages < 0) return accel__rag_store_fail(&r->store, sqlite3_errcode(r->store.db));
  documents->item = (const char *const *)paths;
  *info = (accel_rag_info){.embedder = accel__arena_string(arena, s->embedder),
                           .dim = s->dim,
                           .chunk_tokens = s->chunk_tokens,
                           .overlap = s->overlap,
                           .document_prompt = accel__arena_string(arena, s->document_prompt),
                           .query_prompt = accel__arena_string(arena, s->query_prompt),
                           .passages = (uint64_t)passages,
                           .documents = documents};
  return info->embedder && info->document_prompt && info->query_prompt ? ACCEL_OK
                                                                       : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__rag_describe(accel_rag *r, accel_rag_info **out) {
  accel_rag_info *info = accel__task_result(sizeof *info);
  if (!info) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = accel__rag_begin(&r->store, false);
  if (status == ACCEL_OK)
    status = accel__rag_end(&r->store, fill_info(r, accel__task_arena(info), info));
  *out = accel__task_finish(info, status);
  return status;
}
