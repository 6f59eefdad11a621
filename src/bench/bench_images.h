/* bench_images.h - pipelines that make pictures, for bench_run.c: a call of accel_text_to_image(), and
 * the seeded inputs of their parts (UNets, transformers, autoencoders), which are models of their
 * own. */
#ifndef ACCEL_BENCH_BENCH_IMAGES_H
#define ACCEL_BENCH_BENCH_IMAGES_H

#include <cjson/cJSON.h>

#include "bench/bench_inputs.h"

/* Is `config` that of a pipeline of diffusers? */
bool bench_images_made(const cJSON *config);
/* The same of a model by its directory or id. */
bool bench_images_made_by(accel *ctx, const char *model);

/* One call: params->batch pictures of one prompt.  The result's sides become those of the pictures.
 * step_ms: of one run of the model itself, the mean but the first's; decode_ms: behind the last. */
accel_status bench_images_run(accel_endpoint *endpoint, const bench_params *params,
                              bench_result *result, double *all_ms, double *step_ms,
                              double *decode_ms);

/* Does the model take what diffusers' parts take ("sample" or "hidden_states")? */
bool bench_part_known(const accel_strings *inputs);
/* A picture's side, in latents where the part takes these. */
uint32_t bench_part_side(const cJSON *config, const accel_strings *inputs, bench_kind *kind);
/* Inputs of `n` pictures with that side. */
accel_status bench_part_inputs(const cJSON *config, const bench_params *params,
                               const accel_strings *inputs, int64_t n, int64_t side,
                               bench_inputs *out);

#endif
