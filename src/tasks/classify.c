/* classify.c - text-classification as transformers' TextClassificationPipeline does it. */
#include <stdlib.h>
#include <string.h>

#include "tasks/processor.h"
#include "tasks/scores.h"
#include "tasks/tasks.h"

typedef enum score_function { NONE, SIGMOID, SOFTMAX } score_function;

typedef struct classify_job {
  accel_endpoint *ep;
  accel__arena *arena;
  score_function function;
  uint32_t top_k;
  uint32_t *count;
  const accel_label_score **score;
} classify_job;

/* Named, or as the config's problem_type and number of labels say. */
static accel_status choose_function(const accel_endpoint *ep, const char *name, score_function *out) {
  const char *problem = ep->model->problem_type;
  if (!name) {
    if (problem && !strcmp(problem, "regression"))
      *out = NONE;
    else
      *out = (problem && !strcmp(problem, "multi_label_classification")) || ep->model->num_labels == 1 ? SIGMOID : SOFTMAX;
    return ACCEL_OK;
  }
  if (!strcmp(name, "softmax"))
    *out = SOFTMAX;
  else if (!strcmp(name, "sigmoid"))
    *out = SIGMOID;
  else if (!strcmp(name, "none"))
    *out = NONE;
  else
    return accel__fail(ACCEL_ERROR_ARGUMENT, "unknown function '%s'; known: softmax sigmoid none", name);
  return ACCEL_OK;
}

static int best_first(const void *a, const void *b) {
  const accel_label_score *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->id < y->id ? -1 : x->id > y->id;
}

static accel_status take_logits(void *user, const accel__piece_result *r) {
  classify_job *job = user;
  uint32_t n = (uint32_t)job->ep->model->num_labels;
  const float *logits = (const float *)r->results[0].data + (size_t)r->item * n; /* [items, labels] */
  accel_label_score *list = accel__arena_array(job->arena, n, sizeof *list);
  float *score = malloc(n * sizeof *score);
  if (!list || !score) {
    free(score);
    return accel__no_memory(n * sizeof *list);
  }
  if (job->function == SOFTMAX) accel__softmax(logits, n, score);
  for (uint32_t i = 0; i < n; i++) {
    double s = job->function == SOFTMAX ? score[i] : job->function == SIGMOID ? accel__sigmoid(logits[i]) : logits[i];
    list[i] = (accel_label_score){.id = i, .label = accel__arena_string(job->arena, job->ep->model->labels[i]), .score = s};
  }
  free(score);
  qsort(list, n, sizeof *list, best_first);
  job->score[r->index] = list;
  job->count[r->index] = job->top_k && job->top_k < n ? job->top_k : n;
  return ACCEL_OK;
}

accel_status accel__classify(accel_endpoint *ep, const char *const *texts, const char *const *pairs, uint32_t n,
                             const accel_classify_params *params, accel_classifications **out) {
  accel_status status = ACCEL_OK;
  accel_classifications *result = accel__task_result(sizeof *result);
  accel__encoding *enc = calloc((size_t)n + 1, sizeof *enc);
  accel__arena scratch = {0};
  accel__piece_list pieces;
  classify_job job = {.ep = ep, .top_k = params->top_k};
  uint32_t output;
  if (!result || !enc) ACCEL_GOTO(accel__no_memory(n * sizeof *enc));
  ACCEL_GOTO(accel__processor_check(ep, "text-classification"));
  ACCEL_GOTO(choose_function(ep, params->function, &job.function));
  job.arena = accel__task_arena(result);
  job.count = accel__arena_array(job.arena, n, sizeof *job.count);
  job.score = accel__arena_array(job.arena, n, sizeof *job.score);
  if (!job.count || !job.score) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
  accel__encode_options how = {.add_special_tokens = true,
                               .truncation = ACCEL__TRUNCATE_LONGEST_FIRST,
                               .max_length = accel__processor_for(ep)->max_length};
  ACCEL_GOTO(accel__encode_texts(ep, texts, pairs, n, &how, enc));
  ACCEL_GOTO(accel__list_pieces(enc, n, false, &scratch, &pieces));
  ACCEL_GOTO(accel__output_index(ep, "logits", &output));
  ACCEL_GOTO(accel__run_pieces(ep, "forward", &output, 1, pieces.piece, pieces.n, "classifying", take_logits, &job));
  *result = (accel_classifications){.n = n, .count = job.count, .score = job.score};
done:
  accel__arena_free(&scratch);
  accel__encodings_free(enc, n);
  if (status != ACCEL_OK) accel__task_free(result), result = NULL;
  *out = result;
  return status;
}
