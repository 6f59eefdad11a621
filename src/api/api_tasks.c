/* api_tasks.c - the text tasks: argument checks, then tasks/. */
#include <math.h>
#include <string.h>

#include "api/api_check.h"
#include "tasks/classify.h"
#include "tasks/embed.h"
#include "tasks/fill_mask.h"
#include "tasks/qa.h"
#include "tasks/rerank.h"
#include "tasks/token_class.h"
#include "tasks/zero_shot.h"
#include "verify/endpoint_selftest.h"
#include "verify/verify.h"

accel_embed_params accel_embed_params_default(void) {
  return (accel_embed_params){
      .size = sizeof(accel_embed_params), .normalize = -1, .adapter_scale = 1};
}
accel_classify_params accel_classify_params_default(void) {
  return (accel_classify_params){
      .size = sizeof(accel_classify_params), .top_k = 1, .adapter_scale = 1};
}
accel_zero_shot_params accel_zero_shot_params_default(void) {
  return (accel_zero_shot_params){.size = sizeof(accel_zero_shot_params),
                                  .hypothesis = "This example is {}.",
                                  .adapter_scale = 1};
}
accel_classify_tokens_params accel_classify_tokens_params_default(void) {
  return (accel_classify_tokens_params){.size = sizeof(accel_classify_tokens_params),
                                        .aggregation = "none"};
}
accel_rerank_params accel_rerank_params_default(void) {
  return (accel_rerank_params){.size = sizeof(accel_rerank_params), .adapter_scale = 1};
}
accel_fill_params accel_fill_params_default(void) {
  return (accel_fill_params){.size = sizeof(accel_fill_params), .top_k = 5};
}
accel_qa_params accel_qa_params_default(void) {
  return (accel_qa_params){.size = sizeof(accel_qa_params),
                           .top_k = 1,
                           .doc_stride = 128,
                           .max_answer_len = 15,
                           .max_seq_len = 384,
                           .max_question_len = 64,
                           .align_to_words = 1};
}

accel_status accel_embed_with(accel_endpoint *endpoint, const char *const *texts, uint32_t n,
                              const accel_embed_params *params, accel_embeddings **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_embed_params, mine, params);
  ACCEL_TRY(accel__check_texts(__func__, "texts", texts, n));
  return accel__embed(endpoint, texts, n, &mine, out);
}

accel_status accel_embed(accel_endpoint *endpoint, const char *const *texts, uint32_t n,
                         accel_embeddings **out) {
  return accel_embed_with(endpoint, texts, n, NULL, out);
}

accel_status accel_classify(accel_endpoint *endpoint, const char *const *texts,
                            const char *const *pairs, uint32_t n,
                            const accel_classify_params *params, accel_classifications **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_classify_params, mine, params);
  ACCEL_TRY(accel__check_texts(__func__, "texts", texts, n));
  return accel__classify(endpoint, texts, pairs, n, &mine, out);
}

accel_status accel_zero_shot_classify(accel_endpoint *endpoint, const char *const *texts,
                                      uint32_t n, const char *const *labels, uint32_t n_labels,
                                      const accel_zero_shot_params *params,
                                      accel_classifications **out) {
  API_CALL(endpoint, out);
  API_NEED(labels);
  API_PARAMS(accel_zero_shot_params, mine, params);
  if (!mine.hypothesis) mine.hypothesis = accel_zero_shot_params_default().hypothesis;
  if (!n_labels) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no labels are given", __func__);
  if (!strstr(mine.hypothesis, "{}"))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: hypothesis \"%s\" has no {} for the label",
                       __func__, mine.hypothesis);
  if (n > UINT32_MAX / n_labels)
    return accel__fail(ACCEL_ERROR_LIMIT, "%s: %u texts with %u labels each are too many", __func__,
                       n, n_labels);
  ACCEL_TRY(accel__check_texts(__func__, "labels", labels, n_labels));
  ACCEL_TRY(accel__check_texts(__func__, "texts", texts, n));
  return accel__zero_shot_classify(endpoint, texts, n, labels, n_labels, &mine, out);
}

accel_status accel_rerank(accel_endpoint *endpoint, const char *query, const char *const *documents,
                          uint32_t n, const accel_rerank_params *params, accel_ranking **out) {
  API_CALL(endpoint, out);
  API_NEED(query);
  API_PARAMS(accel_rerank_params, mine, params);
  ACCEL_TRY(accel__check_texts(__func__, "documents", documents, n));
  return accel__rerank(endpoint, query, documents, n, &mine, out);
}

accel_status accel_classify_tokens(accel_endpoint *endpoint, const char *const *texts, uint32_t n,
                                   const accel_classify_tokens_params *params,
                                   accel_token_entities **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_classify_tokens_params, mine, params);
  ACCEL_TRY(accel__check_texts(__func__, "texts", texts, n));
  return accel__tokens(endpoint, texts, n, &mine, out);
}

accel_status accel_qa(accel_endpoint *endpoint, const char *const *questions,
                      const char *const *contexts, uint32_t n, const accel_qa_params *params,
                      accel_answers **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_qa_params, mine, params);
  ACCEL_TRY(accel__check_texts(__func__, "questions", questions, n));
  ACCEL_TRY(accel__check_texts(__func__, "contexts", contexts, n));
  return accel__qa(endpoint, questions, contexts, n, &mine, out);
}

accel_status accel_fill_mask(accel_endpoint *endpoint, const char *const *texts, uint32_t n,
                             const accel_fill_params *params, accel_fills **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_fill_params, mine, params);
  ACCEL_TRY(accel__check_texts(__func__, "texts", texts, n));
  return accel__fill_mask(endpoint, texts, n, &mine, out);
}

API_FREE_RESULT(accel_embeddings_free, accel_embeddings)
API_FREE_RESULT(accel_classifications_free, accel_classifications)
API_FREE_RESULT(accel_ranking_free, accel_ranking)
API_FREE_RESULT(accel_token_entities_free, accel_token_entities)
API_FREE_RESULT(accel_answers_free, accel_answers)
API_FREE_RESULT(accel_fills_free, accel_fills)
API_FREE_RESULT(accel_token_ids_free, accel_token_ids)
API_FREE_RESULT(accel_test_report_free, accel_test_report)

void accel_verify_report_free(accel_verify_report **report) {
  if (!report) return;
  accel__verify_report_free(*report);
  *report = NULL;
}

double accel_cosine(const float *a, const float *b, size_t n) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < n; i++) {
    dot += (double)a[i] * b[i];
    aa += (double)a[i] * a[i];
    bb += (double)b[i] * b[i];
  }
  return aa > 0 && bb > 0 ? dot / (sqrt(aa) * sqrt(bb)) : 0;
}

accel_status accel_verify(accel *ctx, const char *model, const accel_init_params *how,
                          const char *golden, accel_verify_report **out) {
  API_CALL(ctx, out);
  API_NEED(model);
  API_NEED(golden);
  API_PARAMS(accel_init_params, mine, how);
  return accel__verify(ctx, model, &mine, golden, out);
}

accel_status accel_run_precision_tests(accel *ctx, const char *model, const char *const *hardware,
                                       uint32_t n_hardware, const char *const *precisions,
                                       uint32_t n_precisions, accel_test_report **out) {
  API_CALL(ctx, out);
  API_NEED(model);
  if (hardware) ACCEL_TRY(accel__check_texts(__func__, "hardware", hardware, n_hardware));
  if (precisions) ACCEL_TRY(accel__check_texts(__func__, "precisions", precisions, n_precisions));
  return accel__precision_tests(ctx, model, hardware, n_hardware, precisions, n_precisions, out);
}
