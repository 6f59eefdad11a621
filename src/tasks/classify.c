/* classify.c - text-classification as transformers' TextClassificationPipeline does it. */
#include <stdlib.h>
#include <string.h>

#include "tasks/classify.h"
#include "processing/scores.h"
#include "processing/result.h"

typedef struct classify_task {
  accel__text_task task;
  accel_endpoint *ep;
  accel__score_function function;
  uint32_t n, top_k, truncated;
  uint64_t tokens;
  uint32_t *count;
  const accel_label_score **score;
  accel__encoding *enc; /* [n] */
  accel__arena scratch;
} classify_task;

static accel_status take_logits(void *user, const accel__piece_result *r) {
  classify_task *t = user;
  const uint32_t n = (uint32_t)t->ep->model->num_labels;
  /* [items, labels] */
  const float *logits = (const float *)r->results[0].data + (size_t)r->item * n;
  t->count[r->index] = t->top_k;
  return accel__rank_labels(logits, t->ep->model->labels, n, t->function,
                            accel__task_arena(t->task.result), &t->score[r->index],
                            &t->count[r->index]);
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

static accel_status finish(accel__text_task *task) {
  classify_task *t = (classify_task *)task;
  *(accel_classifications *)task->result = (accel_classifications){.n = t->n,
                                                                   .count = t->count,
                                                                   .score = t->score,
                                                                   .tokens = t->tokens,
                                                                   .truncated = t->truncated};
  return ACCEL_OK;
}

static void free_task(accel__text_task *task) {
  classify_task *t = (classify_task *)task;
  accel__arena_free(&t->scratch);
  accel__encodings_free(t->enc, t->n);
  free(t);
}

static accel_status prepare(classify_task *t, const char *const *texts, const char *const *pairs,
                            const accel_classify_params *params) {
  accel_endpoint *ep = t->ep;
  const uint32_t n = t->n;
  ACCEL_TRY(accel__processor_check(ep, "text-classification"));
  ACCEL_TRY(accel__choose_function(ep->model, params->function, &t->function));
  accel__arena *arena = accel__task_arena(t->task.result);
  t->count = accel__arena_array(arena, n, sizeof *t->count);
  t->score = accel__arena_array(arena, n, sizeof *t->score);
  if (!t->count || !t->score) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__encode_options how;
  ACCEL_TRY(accel__choose_truncation(ep, params->truncation, params->max_length, &how));
  ACCEL_TRY(real_pairs(pairs, n, &t->scratch, &pairs));
  ACCEL_TRY(accel__encode_texts(ep, texts, pairs, n, &how, t->enc));
  for (uint32_t i = 0; i < n; i++) {
    t->tokens += t->enc[i].n;
    t->truncated += t->enc[i].pieces > 1;
  }
  ACCEL_TRY(accel__list_pieces(t->enc, n, false, &t->scratch, &t->task.run.pieces));
  ACCEL_TRY(accel__adapt_pieces(ep, params->adapter, params->adapter_scale, &t->task.run.pieces));
  return accel__output_index(ep, "logits", &t->task.run.output[0]);
}

accel_status accel__classify_prepare(accel_endpoint *ep, const char *const *texts,
                                     const char *const *pairs, uint32_t n,
                                     const accel_classify_params *params, accel__text_task **out) {
  *out = NULL;
  classify_task *t = calloc(1, sizeof *t);
  if (!t) return accel__no_memory(sizeof *t);
  *t = (classify_task){.task = {.kind = ACCEL__TEXT_CLASSIFICATIONS,
                                .run = {.entry = "forward",
                                        .what = "classifying",
                                        .n_outputs = 1,
                                        .take = take_logits,
                                        .user = t},
                                .finish = finish,
                                .free = free_task,
                                .result = accel__task_result(sizeof(accel_classifications))},
                       .ep = ep,
                       .n = n,
                       .top_k = params->top_k,
                       .enc = calloc((size_t)n + 1, sizeof *t->enc)};
  const accel_status status = t->task.result && t->enc ? prepare(t, texts, pairs, params)
                                                       : accel__no_memory(n * sizeof *t->enc);
  return accel__text_task_made(&t->task, status, out);
}

accel_status accel__classify(accel_endpoint *ep, const char *const *texts, const char *const *pairs,
                             uint32_t n, const accel_classify_params *params,
                             accel_classifications **out) {
  accel__text_task *task;
  const accel_status status = accel__classify_prepare(ep, texts, pairs, n, params, &task);
  return accel__text_task_run(ep, status, task, (void **)out);
}
