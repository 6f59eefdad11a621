/* api_rag.c - answers from documents: argument checks and the lock of each index, then rag/. */
#include "rag/rag_index.h"

#include <string.h>

#include "api/api_check.h"

accel_rag_params accel_rag_params_default(void) {
  return (accel_rag_params){.size = sizeof(accel_rag_params), .overlap = ACCEL_RAG_OVERLAP_DEFAULT};
}

accel_rag_search_params accel_rag_search_params_default(void) {
  return (accel_rag_search_params){.size = sizeof(accel_rag_search_params), .top_k = 5};
}

accel_status accel_rag_open(accel *ctx, const char *path, accel_endpoint *embedder,
                            const accel_rag_params *params, accel_rag **out) {
  API_CALL(ctx, out);
  API_NEED(path);
  API_PARAMS(accel_rag_params, mine, params);
  return accel__rag_open(ctx, path, embedder, &mine, out);
}

void accel_rag_close(accel_rag **rag) {
  if (!rag || !*rag) return;
  accel__rag_close(*rag);
  *rag = NULL;
}

accel_status accel_rag_describe(accel_rag *rag, accel_rag_info **out) {
  API_CALL(rag, out);
  API_LOCKED(rag, accel__rag_describe(rag, out));
}

/* Paths of documents: none is "". */
static accel_status check_paths(const char *caller, const char *const *paths, uint32_t n) {
  ACCEL_TRY(accel__check_texts(caller, "paths", paths, n));
  for (uint32_t i = 0; i < n; i++)
    if (!*paths[i]) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: paths[%u] is empty", caller, i);
  return ACCEL_OK;
}

accel_status accel_rag_add(accel_rag *rag, const char *const *paths, uint32_t n,
                           accel_rag_changes **out) {
  API_BEGIN();
  if (out) *out = NULL;
  API_NEED(rag);
  ACCEL_TRY(check_paths(__func__, paths, n));
  API_LOCKED(rag, accel__rag_add(rag, paths, n, out));
}

accel_status accel_rag_add_text(accel_rag *rag, const char *name, const char *text,
                                accel_rag_format format) {
  API_BEGIN();
  API_NEED(rag);
  API_NEED(name);
  API_NEED(text);
  if (!*name) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: 'name' is empty", __func__);
  if ((uint32_t)format > ACCEL_RAG_HTML)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: 'format' is %d", __func__, (int)format);
  API_LOCKED(rag, accel__rag_add_text(rag, name, text, format));
}

accel_status accel_rag_remove(accel_rag *rag, const char *const *paths, uint32_t n,
                              uint32_t *removed) {
  uint32_t count = 0;
  API_BEGIN();
  API_NEED(rag);
  ACCEL_TRY(check_paths(__func__, paths, n));
  if (!removed) removed = &count;
  *removed = 0;
  API_LOCKED(rag, accel__rag_remove(rag, paths, n, removed));
}

accel_status accel_rag_search(accel_rag *rag, const char *query,
                              const accel_rag_search_params *params, accel_rag_passages **out) {
  API_CALL(rag, out);
  API_NEED(query);
  API_PARAMS(accel_rag_search_params, mine, params);
  API_LOCKED(rag, accel__rag_search(rag, query, &mine, out));
}

accel_status accel_rag_answer_query(accel_rag *rag, accel_endpoint *generator, const char *question,
                                    const accel_rag_search_params *search,
                                    const accel_generate_params *generate, accel_rag_answer **out) {
  API_CALL(rag, out);
  API_NEED(generator);
  API_NEED(question);
  API_PARAMS(accel_rag_search_params, how, search);
  API_GENERATE_PARAMS(mine, generate);
  API_LOCKED(rag, accel__rag_answer(rag, generator, question, &how, &mine, out));
}

void accel_rag_answer_free(accel_rag_answer **answer) {
  if (!answer) return;
  accel__rag_answer_free(*answer);
  *answer = NULL;
}

API_FREE_RESULT(accel_rag_info_free, accel_rag_info)
API_FREE_RESULT(accel_rag_changes_free, accel_rag_changes)
API_FREE_RESULT(accel_rag_passages_free, accel_rag_passages)
