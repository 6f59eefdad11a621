/* api_documents.c - questions about documents: argument checks, then tasks/. */
#include "api/api_check.h"
#include "generate/generation.h"
#include "tasks/document_questions.h"

accel_document_params accel_document_params_default(void) {
  return (accel_document_params){
      .size = sizeof(accel_document_params), .top_k = 1, .max_answer_len = 15};
}

static accel_status check_question(const char *caller, const accel_document_question *q,
                                   uint32_t i) {
  if (!q->question)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: questions[%u].question is NULL", caller, i);
  if (q->image) ACCEL_TRY(accel__check_media(caller, "questions[].image", q->image, 1));
  if (q->n_words && (!q->words || !q->boxes))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: questions[%u].%s is NULL", caller, i,
                       q->words ? "boxes" : "words");
  return accel__check_texts(caller, "questions[].words", q->words, q->n_words);
}

accel_status accel_answer_documents(accel_endpoint *endpoint,
                                    const accel_document_question *questions, uint32_t n,
                                    const accel_document_params *params,
                                    accel_document_answers **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_document_params, mine, params);
  API_GENERATE_PARAMS(generate, mine.generate);
  if (n) API_NEED(questions);
  for (uint32_t i = 0; i < n; i++) ACCEL_TRY(check_question(__func__, &questions[i], i));
  if (!mine.top_k || !mine.max_answer_len)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s is 0; it must be at least 1", __func__,
                       mine.top_k ? "max_answer_len" : "top_k");
  mine.generate = &generate;
  return accel__answer_documents(endpoint, questions, n, &mine, out);
}

API_FREE_RESULT(accel_document_answers_free, accel_document_answers)

accel_status accel_document_json(accel_endpoint *endpoint, const char *text, char **json) {
  API_CALL(endpoint, json);
  API_NEED(text);
  return accel__document_json(endpoint, text, json);
}
