/* rerank.h - accel_rerank: documents in the order in which they answer a query. Behind the public
 * functions of the same names (the public headers say what they do); arguments are already checked.
 */
#ifndef ACCEL_TASKS_RERANK_H
#define ACCEL_TASKS_RERANK_H

#include "processing/text_task.h"

/* Its first half; query, documents and params are not needed afterwards.  The result is an
 * accel_ranking. */
accel_status accel__rerank_prepare(accel_endpoint *ep, const char *query,
                                   const char *const *documents, uint32_t n,
                                   const accel_rerank_params *params, accel__text_task **out);
accel_status accel__rerank(accel_endpoint *ep, const char *query, const char *const *documents,
                           uint32_t n, const accel_rerank_params *params, accel_ranking **out);

#endif
