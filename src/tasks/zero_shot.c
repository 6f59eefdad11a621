/* zero_shot.c - zero-shot classification as transformers' ZeroShotClassificationPipeline does it:
 * a model of natural language inference says of each text and each label, made a sentence, how far
 * the sentence follows from the text. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tasks/zero_shot.h"
#include "processing/label_texts.h"
#include "processing/processor.h"
#include "processing/result.h"
#include "processing/scores.h"

typedef struct zero_shot_job {
  accel_endpoint *ep;
  uint32_t entailment, against; /* classes of the model */
  bool each;                    /* labels are scored by themselves */
  float *follows, *contradicts; /* [texts * labels] logits */
} zero_shot_job;

/* The first class whose name begins with "entail" in any letter case, else the last one; against it
 * stands the first class, or the last where the first is entailment. */
static void find_classes(zero_shot_job *job) {
  const accel__model *model = job->ep->model;
  const uint32_t last = (uint32_t)model->num_labels - 1;
  uint32_t i = 0;
  while (i < last && strncasecmp(model->labels[i], "entail", strlen("entail"))) i++;
  job->entailment = i;
  job->against = i ? 0 : last;
}

/* Pairs whose text is cut so that the sentence stays whole.  Where that would leave nothing of the
 * text they stay as long as they are, as in the pipeline, if the model has so many positions. */
static accel_status cut_texts(accel_endpoint *ep, const char *const *texts,
                              const char *const *pairs, uint32_t n, accel__encoding *enc) {
  const uint32_t most = accel__processor_for(ep)->max_length;
  const int64_t positions = ep->model->max_positions;
  accel__encode_options how = {.add_special_tokens = true};
  ACCEL_TRY(accel__encode_texts(ep, texts, pairs, n, &how, enc));
  how.truncation = ACCEL__TRUNCATE_ONLY_FIRST;
  how.max_length = most;
  for (uint32_t i = 0; i < n; i++) {
    if (enc[i].n <= most) continue;
    size_t of_text = 0;
    for (size_t t = 0; t < enc[i].n; t++) of_text += enc[i].sequence_ids[t] == 0;
    if (enc[i].n - of_text < most)
      ACCEL_TRY(accel__encode(accel__processor_for(ep)->tokenizer, texts[i], strlen(texts[i]),
                              pairs[i], strlen(pairs[i]), &how, &enc[i]));
    else if (positions > 0 && enc[i].n > (uint64_t)positions)
      return accel__remedy(
          accel__fail(ACCEL_ERROR_LIMIT,
                      "the label's sentence \"%.60s\" leaves no room for a text in the %u tokens "
                      "that the model takes",
                      pairs[i], most),
          "shorten the label or the hypothesis");
  }
  return ACCEL_OK;
}

static accel_status take_logits(void *user, const accel__piece_result *r) {
  zero_shot_job *job = user;
  /* [items, classes] */
  const float *logits =
      (const float *)r->results[0].data + (size_t)r->item * (size_t)job->ep->model->num_labels;
  job->follows[r->index] = logits[job->entailment];
  job->contradicts[r->index] = logits[job->against];
  return ACCEL_OK;
}

/* The labels of one text, best first; of equals the later one, as numpy's argsort has them from its
 * end. */
static accel_label_score *rank(const zero_shot_job *job, uint32_t text, const char *const *labels,
                               uint32_t n, accel__arena *arena) {
  const float *follows = job->follows + (size_t)text * n,
              *contradicts = job->contradicts + (size_t)text * n;
  float *score = accel__arena_array(arena, n, sizeof *score);
  accel_label_score *list = accel__arena_array(arena, n, sizeof *list);
  if (!score || !list) return NULL;
  if (!job->each) accel__softmax(follows, n, score);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = i;
    if (job->each) {
      float two[2] = {contradicts[i], follows[i]};
      accel__softmax(two, 2, two);
      score[i] = two[1];
    }
    while (at > 0 && list[at - 1].score <= (double)score[i]) at--;
    memmove(list + at + 1, list + at, (i - at) * sizeof *list);
    list[at] = (accel_label_score){.id = i, .label = labels[i], .score = score[i]};
  }
  return list;
}

static accel_status hand_out(const zero_shot_job *job, uint32_t n, const char *const *labels,
                             uint32_t n_labels, const accel__encoding *enc,
                             accel_classifications *result) {
  accel__arena *arena = accel__task_arena(result);
  const accel_label_score **score = accel__arena_array(arena, n, sizeof *score);
  const char **name = accel__arena_array(arena, n_labels, sizeof *name);
  uint32_t *count = accel__arena_array(arena, n, sizeof *count), truncated = 0;
  uint64_t tokens = 0;
  if (!score || !name || !count) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n_labels; i++)
    if (!(name[i] = accel__arena_string(arena, labels[i]))) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    bool cut = false;
    for (uint32_t k = 0; k < n_labels; k++) {
      const accel__encoding *e = &enc[(size_t)i * n_labels + k];
      tokens += e->n;
      cut = cut || e->pieces > 1;
    }
    truncated += cut;
    count[i] = n_labels;
    if (!(score[i] = rank(job, i, name, n_labels, arena))) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  *result = (accel_classifications){
      .n = n, .count = count, .score = score, .tokens = tokens, .truncated = truncated};
  return ACCEL_OK;
}

/* Each text beside each label's sentence: texts and pairs [n * n_labels]. */
static accel_status pair_up(const char *const *texts, uint32_t n, const char *const *labels,
                            uint32_t n_labels, const char *hypothesis, accel__arena *arena,
                            const char ***first, const char ***second) {
  const uint32_t all = n * n_labels;
  const char **a = accel__arena_array(arena, all, sizeof *a),
             **b = accel__arena_array(arena, all, sizeof *b);
  if (!a || !b) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < n_labels && n; k++)
    if (!(b[k] = accel__label_sentence(arena, hypothesis, labels[k])))
      return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < all; i++) {
    a[i] = texts[i / n_labels];
    b[i] = b[i % n_labels];
  }
  *first = a;
  *second = b;
  return ACCEL_OK;
}

accel_status accel__zero_shot_classify(accel_endpoint *ep, const char *const *texts, uint32_t n,
                                       const char *const *labels, uint32_t n_labels,
                                       const accel_zero_shot_params *params,
                                       accel_classifications **out) {
  accel_status status = ACCEL_OK;
  const uint32_t all = n * n_labels;
  accel__arena scratch = {0};
  const char **first, **second;
  accel_classifications *result = accel__task_result(sizeof *result);
  accel__encoding *enc = calloc((size_t)all + 1, sizeof *enc);
  zero_shot_job job = {.ep = ep, .each = params->multi_label || n_labels == 1};
  accel__piece_run run = {
      .entry = "forward", .what = "classifying", .n_outputs = 1, .take = take_logits, .user = &job};
  job.follows = accel__arena_array(&scratch, all, sizeof *job.follows);
  job.contradicts = accel__arena_array(&scratch, all, sizeof *job.contradicts);
  if (!result || !enc || !job.follows || !job.contradicts)
    ACCEL_GOTO(accel__no_memory(all * sizeof *enc));
  ACCEL_GOTO(accel__processor_check(ep, "text-classification"));
  find_classes(&job);
  ACCEL_GOTO(pair_up(texts, n, labels, n_labels, params->hypothesis, &scratch, &first, &second));
  ACCEL_GOTO(cut_texts(ep, first, second, all, enc));
  ACCEL_GOTO(accel__list_pieces(enc, all, false, &scratch, &run.pieces));
  ACCEL_GOTO(accel__adapt_pieces(ep, params->adapter, params->adapter_scale, &run.pieces));
  ACCEL_GOTO(accel__output_index(ep, "logits", &run.output[0]));
  ACCEL_GOTO(accel__run_pieces(ep, &run));
  ACCEL_GOTO(hand_out(&job, n, labels, n_labels, enc, result));
done:
  accel__encodings_free(enc, all);
  accel__arena_free(&scratch);
  *out = accel__task_finish(result, status);
  return status;
}
