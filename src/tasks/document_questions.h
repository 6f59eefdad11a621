/* document_questions.h - document-question-answering: what pages say. */
#ifndef ACCEL_TASKS_DOCUMENT_QUESTIONS_H
#define ACCEL_TASKS_DOCUMENT_QUESTIONS_H

#include "dispatch/endpoint.h"

/* Behind the public functions of the same names (the public headers say what they do); arguments
 * are already checked. */
accel_status accel__answer_documents(accel_endpoint *ep, const accel_document_question *questions,
                                     uint32_t n, const accel_document_params *params,
                                     accel_document_answers **out);
accel_status accel__document_json(const accel_endpoint *ep, const char *text, char **json);

/* The answer in what a Donut has written (question and marks included), as transformers' pipeline
 * finds it: between the first <s_answer> that is closed in its line and the last </s_answer> there,
 * without space around.  False: there is none. */
bool accel__donut_answer(const char *text, const char **answer, size_t *n);
/* Bytes of text[n] without the white space (Python's str.strip) around. */
void accel__strip(const char **text, size_t *n);
/* Length of the white space that text[n] begins with: one code point; 0 none. */
size_t accel__space_at(const char *text, size_t n);

#endif
