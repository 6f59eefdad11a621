/* document_questions.c - document-question-answering, as transformers' pipeline does it.
 *
 * LayoutLMv3 reads the question and the words of the page, in windows where they are many; the
 * answer is the span of words with the greatest product of start and end probabilities, of which
 * tokens of the question have none.  The best top_k spans of all windows are the answers, equal
 * texts among them.  Donut reads the page and writes the answer behind a prompt that asks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/document_questions.h"
#include "core/text.h"
#include "dispatch/pack.h"
#include "generate/image_text.h"
#include "processing/item_run.h"
#include "processing/media.h"
#include "processing/processor.h"
#include "processing/result.h"
#include "text/unicode.h"

/* ---- LayoutLMv3 ---- */

typedef struct boxes_of { /* of tokens that are no words */
  int32_t cls[4], sep[4], pad[4];
} boxes_of;

typedef struct reader {
  accel_endpoint *ep;
  const accel_document_params *params;
  const accel__tokenizer *tokenizer;
  accel__image_processor images;
  boxes_of special;
  uint32_t max_seq_len, doc_stride;
} reader;

typedef struct word_span {
  float score;
  uint32_t start, end; /* words */
} word_span;

/* The spans of one question, best first, top_k at most. */
typedef struct found {
  word_span *best;
  uint32_t n;
  double no_answer; /* the least score of none over the windows */
} found;

/* Four whole numbers; absent: zeros. */
static accel_status read_box(const accel__json_file *file, const char *key, int32_t box[4]) {
  const accel__json *list = NULL;
  int i = 0;
  if (!file->root) return ACCEL_OK;
  ACCEL_TRY(accel__json_array(file, file->root, key, &list));
  if (!list) return ACCEL_OK;
  ACCEL_JSON_EACH(item, list) {
    if (i == 4 || !cJSON_IsNumber(item) || item->valuedouble != item->valueint) i = 5;
    if (i < 4) box[i++] = item->valueint;
  }
  if (i == 4) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: %s must be four whole numbers", file->name, key);
}

static accel_status open_reader(reader *r) {
  accel__json_file file = {0};
  const char *directory;
  const accel_document_params *params = r->params;
  ACCEL_TRY(accel__processor_check(r->ep, "document-question-answering"));
  r->tokenizer = accel__processor_for(r->ep)->tokenizer;
  const uint32_t limit = accel__processor_for(r->ep)->max_length;
  r->max_seq_len = params->max_seq_len && params->max_seq_len < limit ? params->max_seq_len : limit;
  const uint32_t half = r->max_seq_len / 2;
  r->doc_stride = params->doc_stride ? params->doc_stride : half < 256 ? half : 256;
  ACCEL_TRY(accel__media_directory(r->ep, &directory));
  if (params->look) ACCEL_TRY(accel__image_processor_load(directory, &r->images));
  accel_status status = accel__json_read_beside(directory, "tokenizer_config.json", 0, &file);
  if (status == ACCEL_OK) status = read_box(&file, "cls_token_box", r->special.cls);
  if (status == ACCEL_OK) status = read_box(&file, "sep_token_box", r->special.sep);
  if (status == ACCEL_OK) status = read_box(&file, "pad_token_box", r->special.pad);
  accel__json_free(&file);
  return status;
}

static accel_status check_words(const reader *r, const accel_document_question *q, uint32_t i) {
  if (!q->n_words)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT,
                    "%s: question %u has no words of its page; a %s reads words, and there is no "
                    "OCR engine here (apply_ocr)",
                    r->ep->name, i, r->ep->model->architecture),
        "give the page's words and their boxes, or use a Donut, which reads pictures");
  for (uint32_t k = 0; k < 4 * q->n_words; k++)
    if (q->boxes[k] < 0 || q->boxes[k] > 1000)
      return accel__remedy(accel__fail(ACCEL_ERROR_ARGUMENT,
                                       "%s: question %u: the box of word %u holds %d; edges are "
                                       "from 0 to 1000",
                                       r->ep->name, i, k / 4, q->boxes[k]),
                           "scale boxes by the page's sides: 1000 * x / width, 1000 * y / height");
  if (r->params->look && !q->image)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: question %u has no picture to look at",
                       r->ep->name, i);
  return ACCEL_OK;
}

/* The words of a text, each with a NUL behind it. */
static void split_words(const char *text, accel__buffer *out) {
  size_t n = strlen(text), from = 0;
  for (size_t at = 0; at <= n;) {
    const size_t space = at < n ? accel__space_at(text + at, n - at) : 1;
    if (!space) {
      at++;
      continue;
    }
    if (at > from) {
      accel__buffer_bytes(out, text + from, at - from);
      accel__buffer_bytes(out, "", 1);
    }
    from = at += space;
  }
}

static accel_status encode(const reader *r, const accel_document_question *q,
                           accel__encoding *out) {
  accel__buffer asked = {0}, words = {0};
  const accel__encode_options how = {.add_special_tokens = true,
                                     .words = true,
                                     .truncation = ACCEL__TRUNCATE_ONLY_SECOND,
                                     .max_length = r->max_seq_len,
                                     .stride = r->doc_stride};
  split_words(q->question, &asked);
  for (uint32_t i = 0; i < q->n_words; i++)
    accel__buffer_bytes(&words, q->words[i], strlen(q->words[i]) + 1);
  accel_status status = accel__buffer_status(&asked);
  if (status == ACCEL_OK) status = accel__buffer_status(&words);
  if (status == ACCEL_OK)
    status = accel__encode(r->tokenizer, asked.data ? asked.data : "", asked.n, words.data, words.n,
                           &how, out);
  accel__buffer_free(&asked);
  accel__buffer_free(&words);
  return status;
}

static const int32_t *box_of(const reader *r, const accel_document_question *q,
                             const accel__encoding *enc, size_t t) {
  const accel__tokenizer_info *info = accel__tokenizer_describe(r->tokenizer);
  if (enc->sequence_ids[t] == 0) return r->special.pad; /* the question */
  if (enc->sequence_ids[t] == 1) return q->boxes + 4 * (size_t)enc->word_ids[t];
  if (enc->ids[t] == info->cls) return r->special.cls;
  if (enc->ids[t] == info->pad && info->pad != info->sep) return r->special.pad;
  return r->special.sep;
}

/* Logits of the n tokens from `base` on, into score[2 n]. */
static accel_status run_window(const reader *r, const accel_document_question *q,
                               const accel__encoding *enc, size_t base, uint32_t n,
                               const accel_tensors *pixels, float *score) {
  static const char *const names[] = {"start_logits", "end_logits"};
  int32_t *boxes = malloc(((size_t)n * 4 + 1) * sizeof *boxes);
  accel_tensors *got = NULL;
  if (!boxes) return accel__no_memory((size_t)n * 4 * sizeof *boxes);
  for (uint32_t t = 0; t < n; t++)
    memcpy(boxes + 4 * (size_t)t, box_of(r, q, enc, base + t), 4 * sizeof *boxes);
  accel_tensor item[4] = {
      {.name = "input_ids", .dtype = ACCEL_I32, .rank = 2, .dim = {1, n}, .data = enc->ids + base},
      {.name = "token_type_ids",
       .dtype = ACCEL_I32,
       .rank = 2,
       .dim = {1, n},
       .data = enc->type_ids + base},
      {.name = "bbox", .dtype = ACCEL_I32, .rank = 3, .dim = {1, n, 4}, .data = boxes}};
  if (pixels) item[3] = pixels->item[0];
  accel_status status =
      accel__run_padded(r->ep, &(accel_tensors){pixels ? 4 : 3, item}, names, 2, &got);
  for (int k = 0; status == ACCEL_OK && k < 2; k++) /* those of patches, if any, lie behind */
    memcpy(score + (size_t)k * n, got->item[k].data, n * sizeof *score);
  accel__tensors_free(&got);
  free(boxes);
  return status;
}

/* What tokens outside of the words have is pushed out of the softmax, but for [CLS]; then the
 * probability that there is no answer, the first token's, is put aside. */
static float probabilities(const reader *r, const accel__encoding *enc, size_t base, uint32_t n,
                           float *score) {
  const int32_t cls = accel__tokenizer_describe(r->tokenizer)->cls;
  float none = 1;
  for (int k = 0; k < 2; k++, score += n) {
    float most = -INFINITY, sum = 0;
    for (uint32_t t = 0; t < n; t++) {
      if (enc->sequence_ids[base + t] != 1 && (cls < 0 || enc->ids[base + t] != cls))
        score[t] = -10000.0f;
      most = score[t] > most ? score[t] : most;
    }
    for (uint32_t t = 0; t < n; t++) sum += score[t] = expf(score[t] - most);
    for (uint32_t t = 0; t < n; t++) score[t] /= sum;
    none *= score[0];
    score[0] = 0;
  }
  return none;
}

static void keep(found *f, uint32_t top, word_span one) {
  uint32_t at = f->n;
  while (at > 0 && f->best[at - 1].score < one.score) at--;
  if (at == top) return;
  if (f->n < top) f->n++;
  memmove(f->best + at + 1, f->best + at, (f->n - at - 1) * sizeof *f->best);
  f->best[at] = one;
}

/* The best spans of a window: its own top_k first, of which those that begin or end at no word fall
 * away, then those among all. */
static accel_status take_window(const reader *r, const accel__encoding *enc, size_t base,
                                uint32_t n, const float *score, found *f) {
  const uint32_t top = r->params->top_k;
  found own = {.best = malloc(((size_t)top + 1) * sizeof *own.best)};
  if (!own.best) return accel__no_memory((size_t)top * sizeof *own.best);
  for (uint32_t s = 0; s < n; s++)
    for (uint32_t e = s; score[s] > 0 && e < n && e - s < r->params->max_answer_len; e++) {
      const word_span one = {score[s] * score[n + e], s, e};
      if (one.score > 0 && (own.n < top || one.score > own.best[top - 1].score))
        keep(&own, top, one);
    }
  for (uint32_t i = 0; i < own.n; i++) {
    const int32_t first = enc->word_ids[base + own.best[i].start],
                  last = enc->word_ids[base + own.best[i].end];
    if (first >= 0 && last >= 0)
      keep(f, top, (word_span){own.best[i].score, (uint32_t)first, (uint32_t)last});
  }
  free(own.best);
  return ACCEL_OK;
}

static accel_status look_at(const reader *r, const accel_document_question *q,
                            accel_tensors **out) {
  accel__image image;
  if (!r->params->look) return ACCEL_OK;
  ACCEL_TRY(accel__media_image(q->image, &image));
  accel_status status = accel__image_tensors(&r->images, &image, 1, r->ep->ctx->pool, NULL, out);
  accel__image_free(&image);
  return status;
}

static accel_status find_spans(const reader *r, const accel_document_question *q, found *f) {
  accel__encoding enc = {0};
  accel_tensors *pixels = NULL;
  float *score = NULL;
  accel_status status = encode(r, q, &enc);
  f->no_answer = 1000000; /* transformers' start value */
  if (status == ACCEL_OK) status = look_at(r, q, &pixels);
  if (status == ACCEL_OK && !(score = malloc((2 * enc.start[enc.pieces] + 1) * sizeof *score)))
    status = accel__no_memory(2 * enc.start[enc.pieces] * sizeof *score);
  for (size_t p = 0; status == ACCEL_OK && p < enc.pieces; p++) {
    const size_t base = enc.start[p];
    const uint32_t n = (uint32_t)(enc.start[p + 1] - base);
    if ((status = run_window(r, q, &enc, base, n, pixels, score)) != ACCEL_OK) break;
    const float none = probabilities(r, &enc, base, n, score);
    if (none < f->no_answer) f->no_answer = none;
    status = take_window(r, &enc, base, n, score, f);
  }
  free(score);
  accel__tensors_free(&pixels);
  accel__encoding_free(&enc);
  return status;
}

/* Words first .. last with spaces between. */
static const char *join(accel__arena *arena, const accel_document_question *q, uint32_t first,
                        uint32_t last) {
  accel__buffer text = {0};
  for (uint32_t i = first; i <= last; i++) {
    if (i > first) accel__buffer_text(&text, " ");
    accel__buffer_text(&text, q->words[i]);
  }
  const char *copy = accel__buffer_status(&text) == ACCEL_OK
                         ? accel__arena_copy(arena, text.data ? text.data : "", text.n)
                         : NULL;
  accel__buffer_free(&text);
  return copy;
}

static accel_status hand_out(const reader *r, const accel_document_question *q, const found *f,
                             accel__arena *arena, uint32_t *count,
                             const accel_document_answer **out) {
  const uint32_t top = r->params->top_k;
  accel_document_answer *list = accel__arena_array(arena, (size_t)f->n + 1, sizeof *list);
  uint32_t n = 0;
  bool none = r->params->handle_impossible_answer != 0;
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i <= f->n && n < top; i++) {
    if (none && (i == f->n || f->best[i].score < f->no_answer)) {
      list[n++] = (accel_document_answer){.score = f->no_answer, .answer = ""};
      none = false;
    }
    if (i == f->n || n == top) break;
    const word_span *s = &f->best[i];
    list[n] = (accel_document_answer){.score = (double)s->score,
                                      .start = s->start,
                                      .end = s->end,
                                      .answer = join(arena, q, s->start, s->end)};
    if (!list[n++].answer) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  *count = n;
  *out = list;
  return ACCEL_OK;
}

/* The questions of a call. */
typedef struct asking {
  reader reader;
  const accel_document_question *question;
  accel__arena *arena; /* of the result */
  uint32_t *count;
  const accel_document_answer **answer;
} asking;

static void free_spans(found *f) {
  if (f) free(f->best);
  free(f);
}

static accel_status run_question(void *user, accel_endpoint *ep, uint32_t i, void **out) {
  const asking *a = user;
  const uint32_t top = a->reader.params->top_k;
  reader here = a->reader;
  found *f = calloc(1, sizeof *f);
  here.ep = ep;
  if (f) f->best = malloc(((size_t)top + 1) * sizeof *f->best);
  accel_status status = f && f->best ? find_spans(&here, &a->question[i], f)
                                     : accel__no_memory((size_t)top * sizeof *f->best);
  if (status == ACCEL_OK)
    *out = f;
  else
    free_spans(f);
  return status;
}

static accel_status take_spans(void *user, uint32_t i, void *out) {
  asking *a = user;
  found *f = out;
  const accel_status status =
      hand_out(&a->reader, &a->question[i], f, a->arena, &a->count[i], &a->answer[i]);
  free_spans(f);
  return status;
}

static uint64_t words_of(void *user, uint32_t i) {
  return ((const asking *)user)->question[i].n_words;
}

static accel_status find_answers(accel_endpoint *ep, const accel_document_question *questions,
                                 uint32_t n, const accel_document_params *params,
                                 accel__arena *arena, uint32_t *count,
                                 const accel_document_answer **answer) {
  asking a = {.reader = {.ep = ep, .params = params},
              .question = questions,
              .arena = arena,
              .count = count,
              .answer = answer};
  ACCEL_TRY(open_reader(&a.reader));
  for (uint32_t i = 0; i < n; i++) ACCEL_TRY(check_words(&a.reader, &questions[i], i));
  return accel__run_items(
      ep, &(accel__item_run){
              .n = n, .cost = words_of, .run = run_question, .take = take_spans, .user = &a});
}

/* ---- Donut ---- */

static accel_status ask(accel_endpoint *ep, const accel_document_question *questions, uint32_t n,
                        const accel_document_params *params, accel__arena *arena,
                        accel_generations **out) {
  static const accel__task_settings task = {.max_new_tokens = 256, .forced_bos = -1};
  accel_generate_params how = params->generate ? *params->generate : accel__generate_defaults();
  accel_image_prompt *prompts = accel__arena_array(arena, (size_t)n + 1, sizeof *prompts);
  if (!prompts) return ACCEL_ERROR_OUT_OF_MEMORY;
  how.keep_special_tokens = 1;
  for (uint32_t i = 0; i < n; i++) {
    if (!questions[i].image)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: question %u has no picture; a Donut reads one",
                         ep->name, i);
    prompts[i] = (accel_image_prompt){
        ACCEL_PROMPT_TEXT,
        accel__arena_printf(arena, "<s_docvqa><s_question>%s</s_question><s_answer>",
                            questions[i].question),
        questions[i].image, 1};
    if (!prompts[i].text) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  return accel__generate_images_for(ep, &task, prompts, n, &how, out);
}

/* Without what the tokenizer calls its end and its padding. */
static accel_status remove_tokens(const accel_endpoint *ep, const char *text, accel__buffer *out) {
  const accel__tokenizer *tokenizer = accel__processor_for(ep)->tokenizer;
  const accel__tokenizer_info *info = accel__tokenizer_describe(tokenizer);
  const int32_t id[2] = {info->eos, info->pad};
  for (const char *at = text; *at;) {
    size_t skip = 0;
    for (int k = 0; k < 2 && !skip; k++) {
      size_t n = 0;
      const char *token = accel__id_to_token(tokenizer, id[k], &n);
      if (token && n && !strncmp(at, token, n)) skip = n;
    }
    if (!skip) accel__buffer_bytes(out, at, 1);
    at += skip ? skip : 1;
  }
  accel__buffer_bytes(out, "", 1);
  return accel__buffer_status(out);
}

static accel_status write_answers(accel_endpoint *ep, const accel_document_question *questions,
                                  uint32_t n, const accel_document_params *params,
                                  accel__arena *arena, uint32_t *count,
                                  const accel_document_answer **answer) {
  accel_generations *said = NULL;
  accel_status status = ask(ep, questions, n, params, arena, &said);
  for (uint32_t i = 0; i < n; i++) count[i] = 0;
  for (uint32_t k = 0; status == ACCEL_OK && k < said->n; k++) {
    const accel_generation *g = &said->item[k];
    accel__buffer text = {0};
    const char *at;
    size_t bytes;
    if (count[g->prompt]) continue; /* the pipeline looks at the first sequence */
    accel_document_answer *one = accel__arena_alloc(arena, sizeof *one);
    status = one ? remove_tokens(ep, g->text, &text) : ACCEL_ERROR_OUT_OF_MEMORY;
    if (status == ACCEL_OK) {
      *one = (accel_document_answer){.score = NAN, .start = -1, .end = -1};
      if (accel__donut_answer(text.data, &at, &bytes) &&
          !(one->answer = accel__arena_copy(arena, at, bytes)))
        status = ACCEL_ERROR_OUT_OF_MEMORY;
      answer[g->prompt] = one;
      count[g->prompt] = 1;
    }
    accel__buffer_free(&text);
  }
  accel__task_free(said);
  return status;
}

/* ---- both ---- */

accel_status accel__answer_documents(accel_endpoint *ep, const accel_document_question *questions,
                                     uint32_t n, const accel_document_params *params,
                                     accel_document_answers **out) {
  accel_document_answers *result = accel__task_result(sizeof *result);
  accel_status status = ACCEL_OK;
  if (!result) ACCEL_GOTO(accel__no_memory(sizeof *result));
  accel__arena *arena = accel__task_arena(result);
  uint32_t *count = accel__arena_array(arena, (size_t)n + 1, sizeof *count);
  const accel_document_answer **answer = accel__arena_array(arena, (size_t)n + 1, sizeof *answer);
  if (!count || !answer) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
  ACCEL_GOTO((ep->model->generation.answer_prefix ? write_answers : find_answers)(
      ep, questions, n, params, arena, count, answer));
  *result = (accel_document_answers){.n = n, .count = count, .answer = answer};
done:
  *out = accel__task_finish(result, status);
  return status;
}
