/* classify.c - text-classification as transformers' TextClassificationPipeline does it. */
#include <stdlib.h>
#include <string.h>

#include "tasks/classify.h"
#include "processing/processor.h"
#include "processing/scores.h"
#include "processing/result.h"

typedef struct classify_job {
  accel_endpoint *ep;
  accel__arena *arena;
  accel__score_function function;
  uint32_t top_k;
  uint32_t *count;
  const accel_label_score **score;
} classify_job;

static accel_status take_logits(void *user, const accel__piece_result *r) {
  classify_job *job = user;
  const uint32_t n = (uint32_t)job->ep->model->num_labels;
  /* [items, labels] */
  const float *logits = (const float *)r->results[0].data + (size_t)r->item * n;
  job->count[r->index] = job->top_k;
  return accel__rank_labels(logits, job->ep->model->labels, n, job->function, job->arena,
                            &job->score[r->index], &job->count[r->index]);
}

/* The pairs without empty ones: the pipeline takes those for no pair at all. */
static accel_status real_pairs(const char *const *pairs, uint32_t n, accel__arena *arena,
                               const char *const **out) {
  const char **list = pairs ? accel__arena_array(arena, n, sizeof *list) : NULL;
  if (pairs && !list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; pairs && i < n; i++) list[i] = pairs[i] && *pairs[i] ? pairs[i] : NULL;
  *out = list;
  return ACCEL_OK;
}

accel_status accel__classify(accel_endpoint *ep, const char *const *texts, const char *const *pairs,
                             uint32_t n, const accel_classify_params *params,
                             accel_classifications **out) {
  accel_status status = ACCEL_OK;
  accel_classifications *result = accel__task_result(sizeof *result);
  accel__encoding *enc = calloc((size_t)n + 1, sizeof *enc);
  accel__arena scratch = {0};
  accel__piece_list pieces;
  classify_job job = {.ep = ep, .top_k = params->top_k};
  uint32_t output;
  if (!result || !enc) ACCEL_GOTO(accel__no_memory(n * sizeof *enc));
  ACCEL_GOTO(accel__processor_check(ep, "text-classification"));
  ACCEL_GOTO(accel__choose_function(ep->model, params->function, &job.function));
  job.arena = accel__task_arena(result);
  job.count = accel__arena_array(job.arena, n, sizeof *job.count);
  job.score = accel__arena_array(job.arena, n, sizeof *job.score);
  if (!job.count || !job.score) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
  accel__encode_options how = {.add_special_tokens = true,
                               .truncation = ACCEL__TRUNCATE_LONGEST_FIRST,
                               .max_length = accel__processor_for(ep)->max_length};
  ACCEL_GOTO(real_pairs(pairs, n, &scratch, &pairs));
  ACCEL_GOTO(accel__encode_texts(ep, texts, pairs, n, &how, enc));
  ACCEL_GOTO(accel__list_pieces(enc, n, false, &scratch, &pieces));
  ACCEL_GOTO(accel__output_index(ep, "logits", &output));
  ACCEL_GOTO(
      accel__run_pieces(ep, "forward", &output, 1, &pieces, "classifying", take_logits, &job));
  *result = (accel_classifications){.n = n, .count = job.count, .score = job.score};
done:
  accel__arena_free(&scratch);
  accel__encodings_free(enc, n);
  *out = accel__task_finish(result, status);
  return status;
}
