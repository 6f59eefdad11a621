/* cmd_similarity.h - the cosine of every two embeddings, for accel embed and accel similarity. */
#ifndef ACCEL_CLI_SIMILARITY_H
#define ACCEL_CLI_SIMILARITY_H

#include "cli/cli_print.h"

/* [n, n], free() it; NULL when memory is out.  Needs one vector for each text. */
double *cli_similarity(const accel_embeddings *found);
void cli_json_similarity(cli_json *json, const double *cosine, uint32_t n);

#endif
