/* fill_mask.c - fill-mask as transformers' FillMaskPipeline does it. */
#include <stdlib.h>
#include <string.h>

#include "tasks/fill_mask.h"
#include "processing/processor.h"
#include "processing/scores.h"
#include "processing/result.h"

typedef struct mask_place {
  uint32_t text, position; /* token of piece 0 */
} mask_place;

typedef struct fill_job {
  accel_endpoint *ep;
  accel__arena *arena;
  const accel__encoding *enc;
  const mask_place *mask; /* [n], by text */
  uint32_t n, top_k;
  const int32_t *target; /* [n_target] sorted ids; NULL: the whole vocabulary */
  uint32_t n_target;
  uint32_t *text, *count;
  const accel_fill **fill;
} fill_job;

/* ---- targets ---- */

static int ascending(const void *a, const void *b) {
  return *(const int32_t *)a < *(const int32_t *)b ? -1 : *(const int32_t *)a > *(const int32_t *)b;
}

/* A target's id: itself in the vocabulary, else the first token it gives. */
static accel_status target_id(const accel__tokenizer *tok, const char *target, int32_t *id) {
  *id = accel__token_to_id(tok, target, strlen(target));
  if (*id >= 0) return ACCEL_OK;
  accel__encoding enc = {0};
  accel__encode_options plain = {0};
  ACCEL_TRY(accel__encode(tok, target, strlen(target), NULL, 0, &plain, &enc));
  if (enc.n) *id = enc.ids[0];
  accel__encoding_free(&enc);
  return ACCEL_OK;
}

static accel_status read_targets(const accel__tokenizer *tok, const accel_strings *targets,
                                 fill_job *job) {
  int32_t *ids = accel__arena_array(job->arena, targets->n, sizeof *ids);
  uint32_t n = 0, unique = 0;
  if (!ids) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < targets->n; i++) {
    ACCEL_TRY(target_id(tok, targets->item[i], &ids[n]));
    n += ids[n] >= 0 && ids[n] < job->ep->model->vocab_size;
  }
  if (!n) return accel__fail(ACCEL_ERROR_ARGUMENT, "none of the targets has a token");
  qsort(ids, n, sizeof *ids, ascending);
  for (uint32_t i = 0; i < n; i++)
    if (!i || ids[i] != ids[unique - 1]) ids[unique++] = ids[i];
  job->target = ids;
  job->n_target = unique;
  return ACCEL_OK;
}

/* ---- answers ---- */

static accel_status decode(const fill_job *job, const int32_t *ids, size_t n, bool skip_special,
                           const char **out) {
  const accel__tokenizer *tok = accel__processor_for(job->ep)->tokenizer;
  accel__buffer b = {0};
  accel__buffer_text(&b, "");
  accel_status status =
      accel__decode(tok, ids, n, skip_special, accel__tokenizer_describe(tok)->clean_up, &b);
  if (status == ACCEL_OK && !(*out = accel__arena_copy(job->arena, b.data ? b.data : "", b.n)))
    status = ACCEL_ERROR_OUT_OF_MEMORY;
  accel__buffer_free(&b);
  return status;
}

/* The k best of the candidates, best first; ties to the lower id.  k is small: selection by
 * insertion. */
static uint32_t best_tokens(const fill_job *job, const float *probability, uint32_t k,
                            int32_t *best) {
  uint32_t candidates = job->target ? job->n_target : (uint32_t)job->ep->model->vocab_size, n = 0;
  for (uint32_t c = 0; c < candidates; c++) {
    int32_t id = job->target ? job->target[c] : (int32_t)c;
    uint32_t at = n;
    while (at > 0 && probability[best[at - 1]] < probability[id]) at--;
    if (at == k) continue;
    if (n < k) n++;
    memmove(best + at + 1, best + at, (n - at - 1) * sizeof *best);
    best[at] = id;
  }
  return n;
}

static accel_status fill_one(fill_job *job, uint32_t m, const float *logits, bool single) {
  const accel__encoding *enc = &job->enc[job->mask[m].text];
  size_t vocab = (size_t)job->ep->model->vocab_size;
  uint32_t k = job->top_k, at = job->mask[m].position;
  int32_t pad = accel__tokenizer_describe(accel__processor_for(job->ep)->tokenizer)->pad;
  float *probability = malloc(vocab * sizeof *probability);
  int32_t *best = malloc((k + 1) * sizeof *best), *ids = malloc(enc->n * sizeof *ids);
  accel_fill *list = accel__arena_array(job->arena, k, sizeof *list);
  accel_status status = ACCEL_OK;
  if (!probability || !best || !ids || !list)
    ACCEL_GOTO(accel__no_memory(vocab * sizeof *probability));
  accel__softmax(logits, vocab, probability);
  k = best_tokens(job, probability, k, best);
  memcpy(ids, enc->ids, enc->n * sizeof *ids);
  for (uint32_t i = 0; i < k; i++) {
    list[i] = (accel_fill){.score = probability[best[i]], .token = best[i]};
    ids[at] = best[i];
    ACCEL_GOTO(decode(job, &best[i], 1, false, &list[i].token_str));
    bool drop = best[i] == pad; /* the pipeline leaves padding out of the sequence */
    if (drop) memmove(ids + at, ids + at + 1, (enc->n - at - 1) * sizeof *ids);
    /* with several masks the others stay readable */
    ACCEL_GOTO(decode(job, ids, enc->n - drop, single, &list[i].sequence));
    if (drop) memcpy(ids, enc->ids, enc->n * sizeof *ids);
  }
  job->text[m] = job->mask[m].text;
  job->count[m] = k;
  job->fill[m] = list;
done:
  free(probability);
  free(best);
  free(ids);
  return status;
}

static accel_status take_logits(void *user, const accel__piece_result *r) {
  fill_job *job = user;
  size_t vocab = (size_t)job->ep->model->vocab_size;
  uint32_t first = 0, end;
  while (first < job->n && job->mask[first].text != r->index) first++;
  for (end = first; end < job->n && job->mask[end].text == r->index;) end++;
  for (uint32_t m = first; m < end; m++) {
    /* [tokens, vocab] */
    const float *row = (const float *)r->results[0].data + (r->row + job->mask[m].position) * vocab;
    ACCEL_TRY(fill_one(job, m, row, end - first == 1));
  }
  return ACCEL_OK;
}

/* Every mask token of every text; a text without one is an error. */
static accel_status find_masks(accel_endpoint *ep, const accel__encoding *enc, uint32_t n,
                               accel__arena *arena, const mask_place **out, uint32_t *count) {
  const accel__tokenizer *tok = accel__processor_for(ep)->tokenizer;
  int32_t mask = accel__tokenizer_describe(tok)->mask;
  size_t tokens = 0;
  if (mask < 0)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: its tokenizer has no mask token", ep->name);
  for (uint32_t i = 0; i < n; i++) tokens += enc[i].n;
  mask_place *list = accel__arena_array(arena, tokens, sizeof *list);
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  *count = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t before = *count;
    for (uint32_t t = 0; t < enc[i].n; t++)
      if (enc[i].ids[t] == mask) list[(*count)++] = (mask_place){.text = i, .position = t};
    if (*count == before)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "text %u has no mask token (%s)", i,
                         accel__id_to_token(tok, mask, NULL));
  }
  *out = list;
  return ACCEL_OK;
}

accel_status accel__fill_mask(accel_endpoint *ep, const char *const *texts, uint32_t n,
                              const accel_fill_params *params, accel_fills **out) {
  accel_status status = ACCEL_OK;
  accel_fills *result = accel__task_result(sizeof *result);
  accel__encoding *enc = calloc((size_t)n + 1, sizeof *enc);
  accel__arena scratch = {0};
  accel__piece_list pieces;
  fill_job job = {.ep = ep, .enc = enc, .top_k = params->top_k ? params->top_k : 5};
  uint32_t output;
  if (!result || !enc) ACCEL_GOTO(accel__no_memory(n * sizeof *enc));
  ACCEL_GOTO(accel__processor_check(ep, "fill-mask"));
  job.arena = accel__task_arena(result);
  accel__encode_options how;
  ACCEL_GOTO(accel__choose_truncation(ep, params->truncation, params->max_length, &how));
  ACCEL_GOTO(accel__encode_texts(ep, texts, NULL, n, &how, enc));
  ACCEL_GOTO(find_masks(ep, enc, n, job.arena, &job.mask, &job.n));
  if (params->targets && params->targets->n)
    ACCEL_GOTO(read_targets(accel__processor_for(ep)->tokenizer, params->targets, &job));
  uint32_t most = job.target ? job.n_target : (uint32_t)ep->model->vocab_size;
  if (job.top_k > most) job.top_k = most;
  job.text = accel__arena_array(job.arena, job.n, sizeof *job.text);
  job.count = accel__arena_array(job.arena, job.n, sizeof *job.count);
  job.fill = accel__arena_array(job.arena, job.n, sizeof *job.fill);
  if (!job.text || !job.count || !job.fill) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
  ACCEL_GOTO(accel__list_pieces(enc, n, false, &scratch, &pieces));
  ACCEL_GOTO(accel__output_index(ep, "logits", &output));
  const accel__piece_run run = {.entry = "forward",
                                .what = "filling",
                                .output = {output},
                                .n_outputs = 1,
                                .pieces = pieces,
                                .take = take_logits,
                                .user = &job};
  ACCEL_GOTO(accel__run_pieces(ep, &run));
  *result = (accel_fills){.n = job.n, .text = job.text, .count = job.count, .fill = job.fill};
done:
  accel__arena_free(&scratch);
  accel__encodings_free(enc, n);
  *out = accel__task_finish(result, status);
  return status;
}
