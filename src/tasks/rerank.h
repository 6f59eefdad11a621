/* rerank.h - accel_rerank: documents in the order in which they answer a query. Behind the public
 * functions of the same names (the public headers say what they do); arguments are already checked.
 */
#ifndef ACCEL_TASKS_RERANK_H
#define ACCEL_TASKS_RERANK_H

#include "dispatch/endpoint.h"

accel_status accel__rerank(accel_endpoint *ep, const char *query, const char *const *documents,
                           uint32_t n, const accel_rerank_params *params, accel_ranking **out);

#endif
