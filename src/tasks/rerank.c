/* rerank.c - how well documents answer a query: cross-encoders (a head with one label over query
 * and document) as sentence-transformers' CrossEncoder.rank has them, and language models that are
 * asked for "yes" or "no" as the Qwen3-Reranker model card does it.
 *
 * The card's prompt: a fixed head, "<Instruct>: ...\n<Query>: ...\n<Document>: ..." cut to what the
 * length leaves, a fixed tail; the score is log p(yes) - log p(no) behind the last token, which
 * sigmoid makes the card's probability (and CrossEncoder's, whose LogitScore module is that
 * difference).  What comes before the document is read once and copied.
 */
#include <stdlib.h>
#include <string.h>

#include "tasks/rerank.h"
#include "generate/generate_config.h"
#include "generate/model_stepper.h"
#include "tasks/pool_rows.h"
#include "processing/result.h"

enum { CARD_LENGTH = 8192, MAX_TOKEN = 1 << 24 };
static const char card_head[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. "
    "Note that the answer "
    "can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
static const char card_tail[] = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
static const char card_instruction[] =
    "Given a web search query, retrieve relevant passages that answer the query";

/* "yes" and "no", or what a LogitScore module of modules.json names; no -1: the score is yes' logit
 * alone. */
typedef struct answers {
  int64_t yes, no;
} answers;

typedef struct rerank_task {
  accel__text_task task;
  accel_endpoint *ep;
  uint32_t n, top_k, truncated;
  int function;         /* accel_plugin_act: from a logit to a score */
  float *logit;         /* [n] */
  accel__encoding *enc; /* [n] pairs, for cross-encoders */
  /* [n + 1] prompts, for language models; the last is what comes before any document */
  accel__ids *prompt;
  answers answers;
  accel__arena scratch;
} rerank_task;

/* ---- cross-encoders ---- */

static accel_status take_logit(void *user, const accel__piece_result *r) {
  rerank_task *t = user;
  t->logit[r->index] = ((const float *)r->results[0].data)[r->item]; /* [items, 1] */
  return ACCEL_OK;
}

static accel_status prepare_pairs(rerank_task *t, const char *query, const char *const *documents) {
  const uint32_t n = t->n;
  const char **queries = accel__arena_array(&t->scratch, n, sizeof *queries);
  if (!queries) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++) queries[i] = query;
  accel__encode_options how = {.add_special_tokens = true,
                               .truncation = ACCEL__TRUNCATE_LONGEST_FIRST,
                               .max_length = accel__processor_for(t->ep)->max_length};
  ACCEL_TRY(accel__encode_texts(t->ep, queries, documents, n, &how, t->enc));
  for (uint32_t i = 0; i < n; i++) t->truncated += t->enc[i].pieces > 1;
  ACCEL_TRY(accel__list_pieces(t->enc, n, false, &t->scratch, &t->task.run.pieces));
  return accel__output_index(t->ep, "logits", &t->task.run.output[0]);
}

/* ---- language models ---- */

static accel_status read_logit_score(const char *directory, const accel__json *module,
                                     accel__arena *arena, answers *out) {
  const accel__json *path = accel__json_get(module, "path");
  accel__json_file file = {0};
  char *name = accel__arena_printf(arena, "%s/%s/config.json", directory,
                                   path && cJSON_IsString(path) ? path->valuestring : ".");
  if (!name) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (path && cJSON_IsString(path) &&
      (path->valuestring[0] == '/' || strstr(path->valuestring, "..")))
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s/modules.json: path '%s' leaves the model's directory", directory,
                       path->valuestring);
  ACCEL_TRY(accel__json_read(name, 1 << 20, &file));
  out->no = -1;
  accel_status status = accel__json_require(&file, file.root, "true_token_id");
  if (status == ACCEL_OK)
    status = accel__json_int(&file, file.root, "true_token_id", 0, MAX_TOKEN, &out->yes);
  if (status == ACCEL_OK)
    status = accel__json_int(&file, file.root, "false_token_id", 0, MAX_TOKEN, &out->no);
  accel__json_free(&file);
  return status;
}

static accel_status find_answers(const accel_endpoint *ep, accel__arena *arena, answers *out) {
  const accel__tokenizer *tok = accel__processor_for(ep)->tokenizer;
  accel__json_file file;
  *out = (answers){accel__token_to_id(tok, "yes", 3), accel__token_to_id(tok, "no", 2)};
  accel_status status = accel__json_read_beside(ep->directory, "modules.json", 1 << 20, &file);
  ACCEL_JSON_EACH(module, status == ACCEL_OK ? file.root : NULL) {
    const accel__json *type = accel__json_get(module, "type");
    if (status == ACCEL_OK && type && cJSON_IsString(type) &&
        accel__ends_with(type->valuestring, ".LogitScore"))
      status = read_logit_score(ep->directory, module, arena, out);
  }
  accel__json_free(&file);
  ACCEL_TRY(status);
  int64_t most = out->yes > out->no ? out->yes : out->no;
  if (out->yes < 0 || accel__token_to_id(tok, "<|im_start|>", 12) < 0)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: no reranker of the Qwen3-Reranker kind: its tokenizer has no '%s'",
                       ep->name, out->yes < 0 ? "yes" : "<|im_start|>");
  if (most >= ep->model->vocab_size)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: token %lld of its answers is beyond the vocabulary of %lld", ep->name,
                       (long long)most, (long long)ep->model->vocab_size);
  return ACCEL_OK;
}

/* The whole prompts as tokens: list[n], all in arena memory; list[n] is what comes before any
 * document. */
static accel_status make_prompts(rerank_task *t, const char *query, const char *const *documents,
                                 uint32_t n, const char *instruction, accel__arena *arena,
                                 accel__ids *list) {
  accel_endpoint *ep = t->ep;
  const accel__processor *p = accel__processor_for(ep);
  const char *const fixed[2] = {card_head, card_tail};
  accel__encoding ends[2] = {{0}, {0}}, *enc = calloc((size_t)n + 1, sizeof *enc);
  const char **texts = accel__arena_array(arena, (size_t)n + 1, sizeof *texts);
  accel_status status = ACCEL_OK;
  if (!enc || !texts) ACCEL_GOTO(accel__no_memory(n * sizeof *enc));
  for (uint32_t i = 0; i <= n; i++) {
    texts[i] = accel__arena_printf(arena, "<Instruct>: %s\n<Query>: %s\n<Document>:%s%s",
                                   instruction ? instruction : card_instruction, query,
                                   i < n ? " " : "", i < n ? documents[i] : "");
    if (!texts[i]) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
  }
  accel__encode_options how = {.add_special_tokens = false};
  ACCEL_GOTO(accel__encode_texts(ep, fixed, NULL, 2, &how, ends));
  uint32_t length = p->asked_length || p->max_length < CARD_LENGTH ? p->max_length : CARD_LENGTH;
  size_t around = ends[0].n + ends[1].n;
  if (length <= around)
    ACCEL_GOTO(accel__fail(ACCEL_ERROR_LIMIT,
                           "%s: %u tokens leave no room beside the %zu of the prompt", ep->name,
                           length, around));
  how = (accel__encode_options){.add_special_tokens = true,
                                .truncation = ACCEL__TRUNCATE_LONGEST_FIRST,
                                .max_length = length - (uint32_t)around};
  ACCEL_GOTO(accel__encode_texts(ep, texts, NULL, n + 1, &how, enc));
  for (uint32_t i = 0; i <= n; i++) {
    size_t all = ends[0].n + enc[i].n + (i < n ? ends[1].n : 0);
    int32_t *ids = accel__arena_array(arena, all, sizeof *ids);
    if (!ids) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
    memcpy(ids, ends[0].ids, ends[0].n * sizeof *ids);
    if (enc[i].n) memcpy(ids + ends[0].n, enc[i].ids, enc[i].n * sizeof *ids);
    if (i < n) memcpy(ids + ends[0].n + enc[i].n, ends[1].ids, ends[1].n * sizeof *ids);
    list[i] = (accel__ids){ids, (uint32_t)all};
    t->truncated += i < n && enc[i].pieces > 1;
  }
done:
  accel__encodings_free(enc, n + 1);
  for (int i = 0; i < 2; i++) accel__encoding_free(&ends[i]);
  return status;
}

/* One session's sequences: the prompts, and the one that has read what comes before the
 * documents. */
typedef struct readers {
  accel__session *session;
  const accel__stepper *model;
  int32_t start;
  accel__ids before;
  uint32_t most; /* tokens of a step */
} readers;

/* Reads ids[past_len .. n) of a sequence but for at most r->most of them, which are left in *item. */
static accel_status read_most(const readers *r, int32_t sequence, accel__ids ids, uint32_t past_len,
                              accel__step_item *item) {
  for (;; past_len += r->most) {
    uint32_t rest = ids.n - past_len;
    *item = (accel__step_item){.sequence = sequence,
                               .ids = ids.id + past_len,
                               .n = rest < r->most ? rest : r->most,
                               .past_len = past_len,
                               .total_len = ids.n};
    if (rest <= r->most) return ACCEL_OK;
    ACCEL_TRY(r->model->step(r->model->self, item, 1));
  }
}

/* A sequence that has read as much of `ids` as the common start gives; what that is does not depend
 * on the other prompts. */
static accel_status admit(const readers *r, accel__ids ids, int32_t *sequence, uint32_t *past_len) {
  uint32_t same = 0;
  while (same < r->before.n && same + 1 < ids.n && r->before.id[same] == ids.id[same]) same++;
  *past_len = same;
  if ((*sequence = r->model->number(r->model->self)) < 0) return accel__no_memory(0);
  if (!same) return ACCEL_OK;
  ACCEL_TRY(r->model->copy(r->model->self, r->start, *sequence));
  if (same == r->before.n) return ACCEL_OK;
  accel_status status =
      accel__session_control(r->session, ACCEL_PLUGIN_SESSION_TRUNCATE, *sequence, same);
  if (status != ACCEL_ERROR_UNSUPPORTED) return status;
  accel__clear_error(); /* states that cannot go back begin anew */
  *past_len = 0;
  return accel__session_control(r->session, ACCEL_PLUGIN_SESSION_RESET, *sequence, 0);
}

/* Prompts that are read in the same step, the last of those that were begun. */
typedef struct together {
  uint32_t n, tokens;
  uint64_t states; /* bytes, with those of the common start */
} together;

static uint64_t states_of(const readers *r, uint32_t tokens) {
  const accel__run_limits *l = &r->model->limits;
  return l->state_bytes ? accel__run_limits_need(l, tokens, 1) : 0;
}

/* Reads those that wait, which end before prompt `end`. */
static accel_status step_items(rerank_task *t, const readers *r, const answers *a,
                               accel__step_item *item, uint32_t end, together *group) {
  const uint32_t n = group->n, first = end - n;
  *group = (together){.states = states_of(r, r->before.n)};
  if (!n) return ACCEL_OK;
  ACCEL_TRY(r->model->step(r->model->self, item, n));
  for (uint32_t i = 0; i < n; i++) {
    t->logit[first + i] = item[i].scores[a->yes] - (a->no < 0 ? 0 : item[i].scores[a->no]);
    r->model->drop(r->model->self, item[i].sequence);
  }
  accel__report_progress(t->ep->ctx, "ranking", end, t->n);
  return ACCEL_OK;
}

static accel_status run_prompts(rerank_task *t, readers *r, const answers *a,
                                const accel__ids *list, accel__step_item *item) {
  const accel__run_limits *l = &r->model->limits;
  together group;
  r->most = l->step_tokens ? l->step_tokens : ACCEL__STEP_TOKENS;
  r->before = list[t->n];
  if ((r->start = r->model->number(r->model->self)) < 0) return accel__no_memory(0);
  ACCEL_TRY(read_most(r, r->start, r->before, 0, item));
  ACCEL_TRY(r->model->step(r->model->self, item, 1));
  group = (together){.states = states_of(r, r->before.n)};
  for (uint32_t i = 0; i < t->n; i++) {
    int32_t sequence;
    uint32_t past_len;
    if (group.states + states_of(r, list[i].n) > l->state_bytes)
      ACCEL_TRY(step_items(t, r, a, item, i, &group));
    ACCEL_TRY(admit(r, list[i], &sequence, &past_len));
    if (group.tokens + list[i].n - past_len > r->most)
      ACCEL_TRY(step_items(t, r, a, item, i, &group));
    ACCEL_TRY(read_most(r, sequence, list[i], past_len, &item[group.n]));
    group.states += states_of(r, list[i].n);
    group.tokens += item[group.n++].n;
  }
  return step_items(t, r, a, item, t->n, &group);
}

static accel_status prepare_prompts(rerank_task *t, const char *query, const char *const *documents,
                                    const char *instruction) {
  t->prompt = accel__arena_array(&t->scratch, (size_t)t->n + 1, sizeof *t->prompt);
  if (!t->prompt) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(find_answers(t->ep, &t->scratch, &t->answers));
  return make_prompts(t, query, documents, t->n, instruction, &t->scratch, t->prompt);
}

static accel_status ask(accel__text_task *task) {
  rerank_task *t = (rerank_task *)task;
  accel__model_stepper stepper = {0};
  readers r = {.model = &stepper.stepper};
  accel__step_item *item = accel__arena_array(&t->scratch, t->n, sizeof *item);
  accel_status status = item ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = accel__session_open(t->ep, &r.session);
  if (status == ACCEL_OK) status = accel__model_stepper_open(r.session, &stepper);
  if (status == ACCEL_OK) status = run_prompts(t, &r, &t->answers, t->prompt, item);
  accel__model_stepper_close(&stepper);
  accel__session_close(&r.session);
  return status;
}

/* ---- scores ---- */

/* The activation that the model's files name: config_sentence_transformers.json, where there is a
 * modules.json, then config.json in its two spellings.  A class that is not torch's is passed over,
 * as CrossEncoder does with code it does not trust. */
static accel_status own_function(const accel_endpoint *ep, int *out) {
  accel__json_file file = {0}, modules;
  const accel__json *newer = accel__json_get(ep->config.root, "sentence_transformers");
  const accel__json *candidate[3] = {
      NULL, accel__json_get(newer, "activation_fn"),
      accel__json_get(ep->config.root, "sbert_ce_default_activation_function")};
  accel_status status = accel__json_read_beside(ep->directory, "modules.json", 1 << 20, &modules);
  if (status == ACCEL_OK && modules.root)
    status =
        accel__json_read_beside(ep->directory, "config_sentence_transformers.json", 1 << 20, &file);
  if (status == ACCEL_OK) candidate[0] = accel__json_get(file.root, "activation_fn");
  *out = ACCEL_PLUGIN_ACT_SIGMOID;
  /* the first that is there is the last to count */
  for (int i = 2; i >= 0 && status == ACCEL_OK; i--) {
    const char *name =
        candidate[i] && cJSON_IsString(candidate[i]) ? candidate[i]->valuestring : NULL;
    if (!name || !accel__starts_with(name, "torch.")) continue;
    if ((*out = accel__torch_activation(name)) < 0)
      status = accel__fail(
          ACCEL_ERROR_UNSUPPORTED,
          "%s: activation_fn '%s' is not supported; known: Sigmoid Identity Tanh ReLU GELU SiLU",
          i ? ep->config.name : file.name, name);
  }
  accel__json_free(&file);
  accel__json_free(&modules);
  return status;
}

static accel_status choose_function(const accel_endpoint *ep, const char *name, int *out) {
  if (!name) return own_function(ep, out);
  if (strcmp(name, "sigmoid") && strcmp(name, "none"))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "unknown function '%s'; known: sigmoid none", name);
  *out = strcmp(name, "none") ? ACCEL_PLUGIN_ACT_SIGMOID : ACCEL_PLUGIN_ACT_NONE;
  return ACCEL_OK;
}

static int best_first(const void *a, const void *b) {
  const accel_ranked *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->document < y->document ? -1 : 1;
}

static accel_status prepare(rerank_task *t, const char *query, const char *const *documents,
                            const accel_rerank_params *params) {
  accel_endpoint *ep = t->ep;
  ACCEL_TRY(choose_function(ep, params->function, &t->function));
  if (accel__endpoint_entry(ep, "decode") >= 0) {
    if (ep->model->is_encoder_decoder)
      return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a %s is no reranker", ep->name,
                         ep->model->architecture);
    ACCEL_TRY(accel__processor_check(ep, ep->model->task));
    if (t->n) t->task.run_alone = ask;
    return t->n ? prepare_prompts(t, query, documents, params->instruction) : ACCEL_OK;
  }
  ACCEL_TRY(accel__processor_check(ep, "text-classification"));
  if (params->instruction)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: a %s takes no instruction", ep->name,
                       ep->model->architecture);
  if (ep->model->num_labels != 1)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: its head has %lld labels; a reranker's has one",
                    ep->name, (long long)ep->model->num_labels),
        "accel classify (accel_classify) gives all labels of a pair");
  return prepare_pairs(t, query, documents);
}

static accel_status finish(accel__text_task *task) {
  rerank_task *t = (rerank_task *)task;
  const uint32_t n = t->n;
  accel_ranked *item = accel__arena_array(accel__task_arena(task->result), n, sizeof *item);
  if (!item) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++)
    item[i] =
        (accel_ranked){.document = i, .score = (float)accel__activated(t->function, t->logit[i])};
  qsort(item, n, sizeof *item, best_first);
  *(accel_ranking *)task->result = (accel_ranking){
      .n = t->top_k && t->top_k < n ? t->top_k : n, .item = item, .truncated = t->truncated};
  return ACCEL_OK;
}

static void free_task(accel__text_task *task) {
  rerank_task *t = (rerank_task *)task;
  accel__encodings_free(t->enc, t->n);
  accel__arena_free(&t->scratch);
  free(t->logit);
  free(t);
}

accel_status accel__rerank_prepare(accel_endpoint *ep, const char *query,
                                   const char *const *documents, uint32_t n,
                                   const accel_rerank_params *params, accel__text_task **out) {
  *out = NULL;
  rerank_task *t = calloc(1, sizeof *t);
  if (!t) return accel__no_memory(sizeof *t);
  *t = (rerank_task){.task = {.kind = ACCEL__TEXT_RANKING,
                              .run = {.entry = "forward",
                                      .what = "ranking",
                                      .n_outputs = 1,
                                      .take = take_logit,
                                      .user = t},
                              .finish = finish,
                              .free = free_task,
                              .result = accel__task_result(sizeof(accel_ranking))},
                     .ep = ep,
                     .n = n,
                     .top_k = params->top_k,
                     .function = ACCEL_PLUGIN_ACT_SIGMOID,
                     .logit = calloc((size_t)n + 1, sizeof *t->logit),
                     .enc = calloc((size_t)n + 1, sizeof *t->enc)};
  const accel_status status = t->task.result && t->logit && t->enc
                                  ? prepare(t, query, documents, params)
                                  : accel__no_memory(n * sizeof *t->enc);
  return accel__text_task_made(&t->task, status, out);
}

accel_status accel__rerank(accel_endpoint *ep, const char *query, const char *const *documents,
                           uint32_t n, const accel_rerank_params *params, accel_ranking **out) {
  accel__text_task *task;
  const accel_status status = accel__rerank_prepare(ep, query, documents, n, params, &task);
  return accel__text_task_run(ep, status, task, (void **)out);
}
