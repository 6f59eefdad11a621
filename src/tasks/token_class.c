/* token_class.c - token-classification as transformers' TokenClassificationPipeline does it:
 * strategies none, simple, first, average, max. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/token_class.h"
#include "processing/processor.h"
#include "processing/scores.h"
#include "processing/result.h"

typedef enum strategy { NONE, SIMPLE, FIRST, AVERAGE, MAX } strategy;

/* A token, a word or a group on its way to an entity. */
typedef struct candidate {
  const char *entity; /* label */
  double score;
  const char *word;
  uint32_t first_token, last_token; /* of the piece: the tokens it was made of */
  uint32_t piece;                   /* of the text */
  int64_t start, end;
} candidate;

typedef struct tag_job {
  accel_endpoint *ep;
  accel__arena *arena;
  const accel__tokenizer *tokenizer;
  const accel__tokenizer_info *info;
  strategy how;
  const accel_strings *ignore;
  const char *const *texts;
  const accel__encoding *enc;
  bool windows; /* all pieces of a long text, not only the first */
  accel__piece_list pieces;
  candidate **found; /* [texts] growing lists */
  uint32_t *count;
} tag_job;

/* One piece's tokens: probabilities and where they lie. */
typedef struct piece_view {
  const accel__encoding *enc;
  size_t base; /* index of the piece's first token in the encoding's arrays */
  uint32_t n, labels;
  const float *score; /* [n, labels] */
  uint32_t number;    /* of the piece within its text */
  const char *text;
  const char **token; /* [n] the tokens' texts; NULL for special ones */
} piece_view;

/* ---- tokens and words ---- */

static size_t code_points(const char *text, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += (text[i] & 0xc0) != 0x80;
  return count;
}

/* The token as the vocabulary writes it; of an unknown one what the text says. */
static const char *token_text(const tag_job *job, const piece_view *v, uint32_t t) {
  const char *token = accel__id_to_token(job->tokenizer, v->enc->ids[v->base + t], NULL);
  accel__span at = v->enc->bytes[v->base + t];
  if (token && v->enc->ids[v->base + t] != job->info->unk) return token;
  return accel__arena_copy(job->arena, v->text + at.start, at.end - at.start);
}

/* Whether a token continues the word before it: transformers' rule, by lengths for tokenizers with
 * a subword prefix, by spaces for others. */
static bool is_subword(const tag_job *job, const piece_view *v, uint32_t t) {
  accel__span bytes = v->enc->bytes[v->base + t];
  size_t n;
  if (v->enc->ids[v->base + t] == job->info->unk) return false;
  if (*job->info->continuing_subword_prefix) {
    const char *token = accel__id_to_token(job->tokenizer, v->enc->ids[v->base + t], &n);
    return code_points(token, n) != code_points(v->text + bytes.start, bytes.end - bytes.start);
  }
  return bytes.start > 0 && v->text[bytes.start - 1] != ' ' && v->text[bytes.start] != ' ';
}

/* Tokens or words as one text: what the decoder makes of them. */
static accel_status join(const tag_job *job, const char *const *words, uint32_t n,
                         const char **out) {
  accel__buffer b = {0};
  accel_status status = accel__decode_tokens(job->tokenizer, words, n, &b);
  if (status == ACCEL_OK && !(*out = accel__arena_copy(job->arena, b.data ? b.data : "", b.n)))
    status = ACCEL_ERROR_OUT_OF_MEMORY;
  accel__buffer_free(&b);
  return status;
}

static const char *label(const tag_job *job, size_t i) { return job->ep->model->labels[i]; }

/* The label of word [first, last] under the strategy. */
static accel_status label_word(const tag_job *job, const piece_view *v, candidate *word) {
  const float *best = v->score + (size_t)word->first_token * v->labels;
  float *mean = NULL;
  if (job->how == MAX)
    for (uint32_t t = word->first_token; t <= word->last_token; t++) {
      const float *row = v->score + (size_t)t * v->labels;
      if (row[accel__argmax(row, v->labels)] > best[accel__argmax(best, v->labels)]) best = row;
    }
  if (job->how == AVERAGE) {
    mean = calloc(v->labels, sizeof *mean);
    if (!mean) return accel__no_memory(v->labels * sizeof *mean);
    for (uint32_t c = 0; c < v->labels; c++) {
      double sum = 0;
      for (uint32_t t = word->first_token; t <= word->last_token; t++)
        sum += v->score[(size_t)t * v->labels + c];
      mean[c] = (float)(sum / (word->last_token - word->first_token + 1));
    }
    best = mean;
  }
  size_t winner = accel__argmax(best, v->labels);
  word->entity = label(job, winner);
  word->score = best[winner];
  free(mean);
  return ACCEL_OK;
}

/* Tokens (none, simple) or words (first, average, max) of a piece with their labels. */
static accel_status gather(const tag_job *job, const piece_view *v, candidate *list, uint32_t *n) {
  *n = 0;
  for (uint32_t t = 0; t < v->n; t++) {
    if (v->enc->special[v->base + t]) continue;
    accel__span at = v->enc->chars[v->base + t];
    bool joins = job->how >= FIRST && *n > 0 && is_subword(job, v, t);
    if (!(v->token[t] = token_text(job, v, t))) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (!joins) list[(*n)++] = (candidate){.first_token = t, .start = at.start, .piece = v->number};
    list[*n - 1].last_token = t;
    list[*n - 1].end = at.end;
  }
  for (uint32_t i = 0; i < *n; i++) {
    uint32_t first = list[i].first_token;
    ACCEL_TRY(label_word(job, v, &list[i]));
    if (job->how >= FIRST)
      ACCEL_TRY(join(job, v->token + first, list[i].last_token - first + 1, &list[i].word));
    else if (!(list[i].word = accel__arena_string(job->arena, v->token[first])))
      return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  return ACCEL_OK;
}

/* ---- groups ---- */

static const char *tag_of(const char *entity) {
  return accel__starts_with(entity, "B-") || accel__starts_with(entity, "I-") ? entity + 2 : entity;
}

/* "B-PER" -> "PER": everything behind the first dash, as group_sub_entities names a group. */
static const char *group_name(const char *entity) {
  return strchr(entity, '-') ? strchr(entity, '-') + 1 : entity;
}

/* Neighbours of one tag become one entity, unless the later one begins a new one (B-). */
static accel_status group(const tag_job *job, const char **words, candidate *list, uint32_t *n) {
  uint32_t groups = 0;
  for (uint32_t i = 0; i < *n; i++) words[i] = list[i].word;
  for (uint32_t i = 0; i < *n;) {
    uint32_t k = i + 1;
    double sum = list[i].score;
    while (k < *n && !strcmp(tag_of(list[k].entity), tag_of(list[k - 1].entity)) &&
           !accel__starts_with(list[k].entity, "B-"))
      sum += list[k++].score;
    candidate one = {.entity = group_name(list[i].entity),
                     .score = sum / (k - i),
                     .first_token = list[i].first_token,
                     .last_token = list[k - 1].last_token,
                     .piece = list[i].piece,
                     .start = list[i].start,
                     .end = list[k - 1].end};
    ACCEL_TRY(join(job, words + i, k - i, &one.word));
    list[groups++] = one;
    i = k;
  }
  *n = groups;
  return ACCEL_OK;
}

static bool ignored(const tag_job *job, const char *entity) {
  if (!job->ignore) return !strcmp(entity, "O");
  for (uint32_t i = 0; i < job->ignore->n; i++)
    if (!strcmp(job->ignore->item[i], entity)) return true;
  return false;
}

/* ---- pieces ---- */

static accel_status keep(tag_job *job, uint32_t text, const candidate *list, uint32_t n) {
  candidate *grown = realloc(job->found[text], (job->count[text] + n + 1) * sizeof *grown);
  if (!grown) return accel__no_memory((job->count[text] + n) * sizeof *grown);
  job->found[text] = grown;
  for (uint32_t i = 0; i < n; i++)
    if (!ignored(job, list[i].entity)) grown[job->count[text]++] = list[i];
  return ACCEL_OK;
}

static accel_status take_logits(void *user, const accel__piece_result *r) {
  tag_job *job = user;
  uint32_t labels = (uint32_t)job->ep->model->num_labels, text = job->pieces.text[r->index], n = 0;
  const float *logits = (const float *)r->results[0].data + r->row * labels; /* [tokens, labels] */
  float *score = malloc(((size_t)r->tokens * labels + 1) * sizeof *score);
  candidate *list = malloc((r->tokens + 1) * sizeof *list);
  /* first the tokens' texts, then the words' */
  const char **words = calloc(r->tokens + 1, sizeof *words);
  accel_status status =
      score && list && words ? ACCEL_OK : accel__no_memory(r->tokens * sizeof *list);
  if (status == ACCEL_OK) {
    for (uint32_t t = 0; t < r->tokens; t++)
      accel__softmax(logits + (size_t)t * labels, labels, score + (size_t)t * labels);
    const accel__encoding *enc = &job->enc[text];
    uint32_t number = job->pieces.number[r->index];
    piece_view v = {.enc = enc,
                    .base = enc->start[number],
                    .n = r->tokens,
                    .labels = labels,
                    .score = score,
                    .number = number,
                    .text = job->texts[text],
                    .token = words};
    status = gather(job, &v, list, &n);
    if (status == ACCEL_OK && job->how != NONE) status = group(job, words, list, &n);
    if (status == ACCEL_OK) status = keep(job, text, list, n);
  }
  free(words);
  free(score);
  free(list);
  return status;
}

/* By start; of equal starts in the order of the text's pieces, which are not run in that order. */
static int by_start(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  if (x->piece != y->piece) return x->piece < y->piece ? -1 : 1;
  return x->first_token < y->first_token ? -1 : x->first_token > y->first_token;
}

/* Pieces of a long text overlap: of overlapping entities the longer stays, of equally long ones the
 * more certain. */

static uint32_t drop_overlaps(candidate *list, uint32_t n) {
  uint32_t kept = 0;
  if (!n) return 0;
  qsort(list, n, sizeof *list, by_start);
  for (uint32_t i = 1; i < n; i++) {
    candidate *last = &list[kept];
    int64_t length = list[i].end - list[i].start, before = last->end - last->start;
    if (list[i].start >= last->start && list[i].start < last->end) {
      if (length > before || (length == before && list[i].score > last->score)) *last = list[i];
    } else {
      list[++kept] = list[i];
    }
  }
  return kept + 1;
}

static accel_status hand_out(tag_job *job, uint32_t n, accel_token_entities *result) {
  const accel_token_entity **entity = accel__arena_array(job->arena, n, sizeof *entity);
  uint32_t *count = accel__arena_array(job->arena, n, sizeof *count);
  if (!entity || !count) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    if (job->windows && job->enc[i].pieces > 1)
      job->count[i] = drop_overlaps(job->found[i], job->count[i]);
    accel_token_entity *list = accel__arena_array(job->arena, job->count[i], sizeof *list);
    if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < job->count[i]; k++) {
      const candidate *c = &job->found[i][k];
      list[k] = (accel_token_entity){.entity = accel__arena_string(job->arena, c->entity),
                                     .score = c->score,
                                     .word = c->word,
                                     .index = job->how == NONE ? (int64_t)c->first_token : -1,
                                     .start = c->start,
                                     .end = c->end};
    }
    entity[i] = list;
    count[i] = job->count[i];
  }
  *result = (accel_token_entities){.n = n, .count = count, .entity = entity};
  return ACCEL_OK;
}

static accel_status read_params(const accel_classify_tokens_params *params, tag_job *job) {
  static const char *const names[] = {"none", "simple", "first", "average", "max"};
  const char *name = params->aggregation ? params->aggregation : "none";
  job->ignore = params->ignore_labels;
  for (int i = 0; i < 5; i++)
    if (!strcmp(names[i], name)) {
      job->how = (strategy)i;
      if (params->stride && job->how == NONE)
        return accel__fail(ACCEL_ERROR_ARGUMENT,
                           "stride needs an aggregation strategy: simple, first, average or max");
      return ACCEL_OK;
    }
  return accel__fail(ACCEL_ERROR_ARGUMENT,
                     "unknown aggregation '%s'; known: none simple first average max", name);
}

accel_status accel__tokens(accel_endpoint *ep, const char *const *texts, uint32_t n,
                           const accel_classify_tokens_params *params, accel_token_entities **out) {
  accel_status status = ACCEL_OK;
  accel__arena scratch = {0};
  accel_token_entities *result = accel__task_result(sizeof *result);
  accel__encoding *enc = calloc((size_t)n + 1, sizeof *enc);
  tag_job job = {.ep = ep, .texts = texts, .enc = enc};
  uint32_t output;
  job.found = calloc((size_t)n + 1, sizeof *job.found);
  job.count = accel__arena_array(&scratch, n, sizeof *job.count);
  if (!result || !enc || !job.found || !job.count) ACCEL_GOTO(accel__no_memory(n * sizeof *enc));
  ACCEL_GOTO(accel__processor_check(ep, "token-classification"));
  ACCEL_GOTO(read_params(params, &job));
  job.arena = accel__task_arena(result);
  job.tokenizer = accel__processor_for(ep)->tokenizer;
  job.info = accel__tokenizer_describe(job.tokenizer);
  accel__encode_options how = {.add_special_tokens = true,
                               .truncation = ACCEL__TRUNCATE_LONGEST_FIRST,
                               .max_length = accel__processor_for(ep)->max_length,
                               .stride = params->stride};
  ACCEL_GOTO(accel__encode_texts(ep, texts, NULL, n, &how, enc));
  /* without a stride longer texts are cut, as the pipeline does */
  job.windows = params->stride > 0;
  ACCEL_GOTO(accel__list_pieces(enc, n, job.windows, &scratch, &job.pieces));
  ACCEL_GOTO(accel__output_index(ep, "logits", &output));
  const accel__piece_run run = {.entry = "forward",
                                .what = "tagging",
                                .output = {output},
                                .n_outputs = 1,
                                .pieces = job.pieces,
                                .take = take_logits,
                                .user = &job};
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
