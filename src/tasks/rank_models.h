/* rank_models.h - models of a group of ranks (dispatch/ranks.h): opening them on all, and following
 * rank 0. */
#ifndef ACCEL_TASKS_RANK_MODELS_H
#define ACCEL_TASKS_RANK_MODELS_H

#include "dispatch/ranks.h"

/* Rank 0: the others open the model as this endpoint was opened; their failure is this one's. */
accel_status accel__ranks_open(accel_endpoint *ep, const char *model,
                               const accel_init_params *params);
/* Ranks behind 0: does what rank 0 says, until it leaves (ACCEL_OK) or is lost. */
accel_status accel__ranks_follow(accel *ctx);

#endif
