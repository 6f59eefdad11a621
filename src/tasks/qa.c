/* qa.c - extractive question answering, as transformers 4.57's QuestionAnsweringPipeline does it
 * (transformers 5 dropped that pipeline).
 *
 * Each pair is cut into windows of max_seq_len tokens that overlap by doc_stride; start and end
 * logits of tokens outside the context, except [CLS], become -10000, and each goes through a
 * softmax over the window; a span's score is the product; spans are at most max_answer_len tokens
 * long.  The best top_k spans of each window (2 top_k + 10 when they are widened to words, for then
 * several become one) are turned into text, and equal texts, in any letter case and at any place,
 * are one answer with the scores added.  Where a context has fewer than top_k spans there are fewer
 * answers; the pipeline then fills up with spans of score 0. */
#include <stdlib.h>
#include <string.h>

#include "tasks/qa.h"
#include "processing/processor.h"
#include "processing/scores.h"
#include "processing/result.h"
#include "text/unicode.h"

typedef struct span_answer {
  double score;
  uint32_t window, rank; /* number of the window in its context; place among its spans, 0 best */
  int64_t start, end;    /* code points in the context */
  accel__span bytes;
} span_answer;

typedef struct qa_job {
  accel_endpoint *ep;
  const accel_qa_params *params;
  const char *const *contexts;
  const accel__encoding *enc;
  accel__piece_list windows;
  uint32_t max_seq_len, doc_stride;
  int32_t cls;         /* id of the [CLS] token; -1: none */
  span_answer **found; /* [n] growing */
  uint32_t *count;
  double *no_answer; /* [n] the lowest score of the empty answer over the windows */
} qa_job;

/* ---- one window ---- */

typedef struct window {
  const accel__encoding *enc;
  size_t base;
  uint32_t n;
  float *start, *end; /* [n] probabilities */
} window;

static bool in_context(const window *w, uint32_t t) {
  return w->enc->sequence_ids[w->base + t] == 1;
}

/* Probabilities over the window; tokens that cannot be part of an answer are pushed out of the
 * softmax, the first token ([CLS]) is not. */
static void probabilities(const qa_job *job, window *w, const float *start, const float *end) {
  for (uint32_t t = 0; t < w->n; t++) {
    bool possible = in_context(w, t) || (job->cls >= 0 && w->enc->ids[w->base + t] == job->cls);
    w->start[t] = possible ? start[t] : -10000.0f;
    w->end[t] = possible ? end[t] : -10000.0f;
  }
  accel__softmax(w->start, w->n, w->start);
  accel__softmax(w->end, w->n, w->end);
}

static void insert_best(span_answer *best, uint32_t *n, uint32_t k, span_answer one) {
  uint32_t at = *n;
  while (at > 0 && best[at - 1].score < one.score) at--;
  if (at == k) return;
  if (*n < k) ++*n;
  memmove(best + at + 1, best + at, (*n - at - 1) * sizeof *best);
  best[at] = one;
}

/* The characters of span [s, e], widened to whole words when asked. */
static void locate(const qa_job *job, const window *w, uint32_t s, uint32_t e, span_answer *a) {
  size_t first = w->base + s, last = w->base + e;
  if (job->params->align_to_words) {
    const int32_t *word = w->enc->word_ids;
    size_t low = w->base, high = w->base + w->n;
    while (first > low && w->enc->sequence_ids[first - 1] == 1 && word[first - 1] == word[first])
      first--;
    while (last + 1 < high && w->enc->sequence_ids[last + 1] == 1 && word[last + 1] == word[last])
      last++;
  }
  a->start = w->enc->chars[first].start;
  a->end = w->enc->chars[last].end;
  a->bytes = (accel__span){w->enc->bytes[first].start, w->enc->bytes[last].end};
}

/* The best spans of a window, in the context, no longer than max_answer_len tokens. */
static uint32_t best_spans(const qa_job *job, const window *w, uint32_t number, uint32_t k,
                           span_answer *best) {
  uint32_t n = 0;
  for (uint32_t s = 0; s < w->n; s++) {
    if (!in_context(w, s)) continue;
    for (uint32_t e = s; e < w->n && e < s + job->params->max_answer_len && in_context(w, e); e++) {
      float score = w->start[s] * w->end[e];
      if (n == k && score <= best[n - 1].score) continue;
      span_answer one = {.score = score, .window = number};
      locate(job, w, s, e, &one);
      insert_best(best, &n, k, one);
    }
  }
  for (uint32_t i = 0; i < n; i++) best[i].rank = i;
  return n;
}

static accel_status keep(qa_job *job, uint32_t text, const span_answer *list, uint32_t n) {
  span_answer *grown = realloc(job->found[text], (job->count[text] + n + 1) * sizeof *grown);
  if (!grown) return accel__no_memory((job->count[text] + n) * sizeof *grown);
  job->found[text] = grown;
  memcpy(grown + job->count[text], list, n * sizeof *list);
  job->count[text] += n;
  return ACCEL_OK;
}

static accel_status take_window(void *user, const accel__piece_result *r) {
  qa_job *job = user;
  uint32_t text = job->windows.text[r->index], number = job->windows.number[r->index],
           top = job->params->top_k ? job->params->top_k : 1;
  window w = {.enc = &job->enc[text], .base = job->enc[text].start[number], .n = r->tokens};
  uint64_t spans = (uint64_t)r->tokens * r->tokens,
           k = job->params->align_to_words ? 2 * (uint64_t)top + 10 : top;
  if (k > spans) k = spans;
  span_answer *best = malloc((k + 1) * sizeof *best);
  float *scratch = malloc(((size_t)r->tokens * 2 + 1) * sizeof *scratch);
  accel_status status =
      best && scratch ? ACCEL_OK : accel__no_memory(r->tokens * 2 * sizeof *scratch);
  if (status == ACCEL_OK) {
    w.start = scratch;
    w.end = scratch + r->tokens;
    probabilities(job, &w, (const float *)r->results[0].data + r->row,
                  (const float *)r->results[1].data + r->row);
    float empty = w.start[0] * w.end[0];
    if (empty < job->no_answer[text]) job->no_answer[text] = empty;
    status = keep(job, text, best, best_spans(job, &w, number, (uint32_t)k, best));
  }
  free(best);
  free(scratch);
  return status;
}

/* ---- answers ---- */

static int best_first(const void *a, const void *b) {
  const span_answer *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->window != y->window ? (x->window < y->window ? -1 : 1)
         : x->rank < y->rank    ? -1
                                : x->rank > y->rank;
}

/* Windows in the order of the context (they are not run in that order), each one's spans best
 * first. */
static int found_first(const void *a, const void *b) {
  const span_answer *x = a, *y = b;
  if (x->window != y->window) return x->window < y->window ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The next code points in lower case, and how many bytes they take; final sigma counts as sigma, as
 * it does within Python's lower(). */
static size_t lower_next(const char *text, size_t n, uint32_t out[2], size_t *n_out) {
  uint32_t c;
  size_t bytes = accel__utf8_decode(text, n, &c);
  *n_out = accel__unicode_lower(c < 0x110000 ? c : 0xFFFD, out);
  if (out[0] == 0x3C2) out[0] = 0x3C3;
  return bytes ? bytes : 1;
}

/* Equal but for the letter case; texts whose case pairs differ in the number of code points are
 * compared one for one. */
static bool same_text(const char *a, size_t na, const char *b, size_t nb) {
  size_t i = 0, j = 0;
  while (i < na && j < nb) {
    uint32_t x[2] = {0}, y[2] = {0};
    size_t nx, ny;
    i += lower_next(a + i, na - i, x, &nx);
    j += lower_next(b + j, nb - j, y, &ny);
    if (nx != ny || x[0] != y[0] || x[1] != y[1]) return false;
  }
  return i == na && j == nb;
}

/* Equal texts become one answer: the first one's place, the scores added. */
static uint32_t merge_same(const char *context, span_answer *list, uint32_t n) {
  uint32_t kept = 0;
  if (n) qsort(list, n, sizeof *list, found_first);
  for (uint32_t i = 0; i < n; i++) {
    const accel__span at = list[i].bytes;
    uint32_t k = 0;
    while (k < kept &&
           !same_text(context + list[k].bytes.start, list[k].bytes.end - list[k].bytes.start,
                      context + at.start, at.end - at.start))
      k++;
    if (k < kept)
      list[k].score += list[i].score;
    else
      list[kept++] = list[i];
  }
  return kept;
}

static accel_status hand_out(qa_job *job, uint32_t n, accel_answers *result) {
  accel__arena *arena = accel__task_arena(result);
  const accel_answer **answer = accel__arena_array(arena, n, sizeof *answer);
  uint32_t *count = accel__arena_array(arena, n, sizeof *count),
           top = job->params->top_k ? job->params->top_k : 1;
  if (!answer || !count) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    span_answer none = {.score = job->no_answer[i], .window = UINT32_MAX};
    job->count[i] = merge_same(job->contexts[i], job->found[i], job->count[i]);
    if (job->params->handle_impossible_answer) ACCEL_TRY(keep(job, i, &none, 1));
    if (job->count[i]) qsort(job->found[i], job->count[i], sizeof **job->found, best_first);
    count[i] = job->count[i] < top ? job->count[i] : top;
    accel_answer *list = accel__arena_array(arena, count[i], sizeof *list);
    if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < count[i]; k++) {
      const span_answer *a = &job->found[i][k];
      list[k] = (accel_answer){.score = a->score,
                               .start = a->start,
                               .end = a->end,
                               .answer = accel__arena_copy(arena, job->contexts[i] + a->bytes.start,
                                                           a->bytes.end - a->bytes.start)};
      if (!list[k].answer) return ACCEL_ERROR_OUT_OF_MEMORY;
    }
    answer[i] = list;
  }
  *result = (accel_answers){.n = n, .count = count, .answer = answer};
  return ACCEL_OK;
}

/* ---- windows ---- */

/* Empty questions and contexts are errors, as in the pipeline. */
static accel_status check_texts(const char *const *questions, const char *const *contexts,
                                uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (!*questions[i]) return accel__fail(ACCEL_ERROR_ARGUMENT, "question %u is empty", i);
    if (!*contexts[i]) return accel__fail(ACCEL_ERROR_ARGUMENT, "context %u is empty", i);
  }
  return ACCEL_OK;
}

/* Cuts each question behind its first `limit` tokens; the copies live in `arena`. */
static accel_status cut_questions(accel_endpoint *ep, const char *const *questions, uint32_t n,
                                  uint32_t limit, accel__arena *arena, const char *const **out) {
  const char **made = accel__arena_array(arena, n, sizeof *made);
  accel__encoding enc = {0};
  accel__encode_options plain = {0};
  accel_status status = made ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    status = accel__encode(accel__processor_for(ep)->tokenizer, questions[i], strlen(questions[i]),
                           NULL, 0, &plain, &enc);
    made[i] = questions[i];
    if (status == ACCEL_OK && enc.n > limit &&
        !(made[i] = accel__arena_copy(arena, questions[i], enc.bytes[limit - 1].end)))
      status = ACCEL_ERROR_OUT_OF_MEMORY;
  }
  accel__encoding_free(&enc);
  *out = made;
  return status;
}

/* Window: max_seq_len, at most the model's limit; 0: that limit.  Overlap: doc_stride, at most half
 * a window. */
static accel_status choose_window(qa_job *job) {
  uint32_t limit = accel__processor_for(job->ep)->max_length;
  job->max_seq_len = job->params->max_seq_len && job->params->max_seq_len < limit
                         ? job->params->max_seq_len
                         : limit;
  job->doc_stride = job->params->doc_stride < job->max_seq_len / 2 ? job->params->doc_stride
                                                                   : job->max_seq_len / 2;
  if (!job->params->max_answer_len)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "max_answer_len is 0; it must be at least 1");
  return ACCEL_OK;
}

accel_status accel__qa(accel_endpoint *ep, const char *const *questions,
                       const char *const *contexts, uint32_t n, const accel_qa_params *params,
                       accel_answers **out) {
  accel_status status = ACCEL_OK;
  accel__arena scratch = {0};
  accel_answers *result = accel__task_result(sizeof *result);
  accel__encoding *enc = calloc((size_t)n + 1, sizeof *enc);
  qa_job job = {.ep = ep, .params = params, .contexts = contexts, .enc = enc};
  job.found = calloc((size_t)n + 1, sizeof *job.found);
  job.count = accel__arena_array(&scratch, n, sizeof *job.count);
  job.no_answer = accel__arena_array(&scratch, n, sizeof *job.no_answer);
  if (!result || !enc || !job.found || !job.count || !job.no_answer)
    ACCEL_GOTO(accel__no_memory(n * sizeof *enc));
  for (uint32_t i = 0; i < n; i++) job.no_answer[i] = 1000000; /* transformers' start value */
  ACCEL_GOTO(accel__processor_check(ep, "question-answering"));
  ACCEL_GOTO(check_texts(questions, contexts, n));
  ACCEL_GOTO(choose_window(&job));
  job.cls = accel__tokenizer_describe(accel__processor_for(ep)->tokenizer)->cls;
  ACCEL_GOTO(cut_questions(ep, questions, n,
                           params->max_question_len ? params->max_question_len : 64, &scratch,
                           &questions));
  accel__encode_options how = {.add_special_tokens = true,
                               .truncation = ACCEL__TRUNCATE_ONLY_SECOND,
                               .max_length = job.max_seq_len,
                               .stride = job.doc_stride};
  ACCEL_GOTO(accel__encode_texts(ep, questions, contexts, n, &how, enc));
  ACCEL_GOTO(accel__list_pieces(enc, n, true, &scratch, &job.windows));
  accel__piece_run run = {.entry = "forward",
                          .what = "answering",
                          .n_outputs = 2,
                          .pieces = job.windows,
                          .take = take_window,
                          .user = &job};
  ACCEL_GOTO(accel__output_index(ep, "start_logits", &run.output[0]));
  ACCEL_GOTO(accel__output_index(ep, "end_logits", &run.output[1]));
  ACCEL_GOTO(accel__run_pieces(ep, &run));
  ACCEL_GOTO(hand_out(&job, n, result));
done:
  for (uint32_t i = 0; job.found && i < n; i++) free(job.found[i]);
  free(job.found);
  accel__encodings_free(enc, n);
  accel__arena_free(&scratch);
  *out = accel__task_finish(result, status);
  return status;
}
