/* processor.c - an endpoint's tokenizer and limits, and running many pieces in packed batches. */
#include "processing/processor.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "dispatch/planner.h"
#include "dispatch/replicas.h"
#include "processing/pipeline_index.h"

/* Rows of one run when no batch size was asked for: enough to fill every kernel, small enough to
 * stay near the cache; fewer when the outputs are wide (logits over a vocabulary). */
enum { TOKEN_BUDGET = 2048, MAX_OUTPUT_ELEMENTS = 16 << 20 };

/* ---- making it ---- */

static void free_processor(void *processor) {
  accel__processor *p = processor;
  if (!p) return;
  accel__tokenizer_free(&p->tokenizer);
  accel__arena_free(&p->arena);
  free(p);
}

static uint32_t smaller(uint32_t a, int64_t b) { return b > 0 && b < a ? (uint32_t)b : a; }

/* What a sequence may hold: what the user asks, or sentence-transformers' limit; never more than
 * the tokenizer and the positions allow. */
static uint32_t choose_max_length(const accel_endpoint *ep, const accel__processor *p,
                                  const accel_init_params *params) {
  uint32_t limit = ep->model->max_positions > 0 ? (uint32_t)ep->model->max_positions : 1u << 20;
  if (params->max_length) return smaller(params->max_length, limit);
  if (p->modules.max_seq_length) return smaller(limit, p->modules.max_seq_length);
  return p->tokenizer ? smaller(limit, accel__tokenizer_describe(p->tokenizer)->model_max_length)
                      : limit;
}

static accel_status open_tokenizer(accel_endpoint *ep, accel__processor *p) {
  const char *directory = p->modules.present ? p->modules.transformer : ep->directory;
  if (directory && accel__is_pipeline(directory)) {
    directory = accel__path_join(&p->arena, directory, "tokenizer");
    if (!directory) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  accel_status status = directory
                            ? accel__tokenizer_load(directory, &p->tokenizer)
                            : accel__fail(ACCEL_ERROR_NOT_FOUND,
                                          "%s: random weights come without a tokenizer", ep->name);
  if (status == ACCEL_OK)
    return p->modules.lower_case ? accel__tokenizer_lower_case(p->tokenizer) : ACCEL_OK;
  /* a model without a usable tokenizer still runs raw tensors; its text tasks explain themselves */
  if (status != ACCEL_ERROR_NOT_FOUND && status != ACCEL_ERROR_UNSUPPORTED) return status;
  p->no_tokenizer = accel__arena_string(&p->arena, accel__message());
  return p->no_tokenizer ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status describe(accel_endpoint *ep, const accel__processor *p,
                             const accel_init_params *params) {
  const accel__tokenizer_info *info = p->tokenizer ? accel__tokenizer_describe(p->tokenizer) : NULL;
  accel_strings *labels = accel__arena_alloc(&ep->arena, sizeof *labels);
  const char *task = accel__arena_string(&ep->arena, params->task         ? params->task
                                                     : p->modules.present ? "feature-extraction"
                                                                          : ep->model->task);
  const char *pooling = accel__pooling_names(&p->modules.head, &ep->arena);
  if (!labels || !task || !pooling) return ACCEL_ERROR_OUT_OF_MEMORY;
  *labels = (accel_strings){.n = (uint32_t)ep->model->num_labels, .item = ep->model->labels};
  if (!ep->model->labels) labels->n = 0;
  ep->processor_view = (accel_processor){.task = task,
                                         .tokenizer = info ? info->model_type : "",
                                         .vocab_size = ep->model->vocab_size,
                                         .max_length = p->max_length,
                                         .pad_id = ep->model->pad_id,
                                         .labels = labels,
                                         .pooling = pooling};
  return ACCEL_OK;
}

accel_status accel__processor_new(accel_endpoint *ep, const accel__sentence_modules *modules,
                                  const accel_init_params *params) {
  accel__processor *p = calloc(1, sizeof *p);
  if (!p) return accel__no_memory(sizeof *p);
  p->modules = *modules;
  p->batch_size = params->batch_size;
  p->asked_length = params->max_length;
  ep->processor = p;
  ep->processor_free = free_processor;
  ACCEL_TRY_AS(open_tokenizer(ep, p), "the tokenizer of %s", ep->name);
  p->max_length = choose_max_length(ep, p, params);
  return describe(ep, p, params);
}

accel__processor *accel__processor_for(const accel_endpoint *ep) { return ep->processor; }

accel_status accel__task_check(const accel_endpoint *ep, const char *task) {
  if (!strcmp(task, "feature-extraction") || !strcmp(task, ep->model->task)) return ACCEL_OK;
  return accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a %s does %s, not %s", ep->name,
                                   ep->model->architecture, ep->model->task, task),
                       "use a checkpoint with a head for %s", task);
}

accel_status accel__processor_check(const accel_endpoint *ep, const char *task) {
  const accel__processor *p = ep->processor;
  ACCEL_TRY(accel__task_check(ep, task));
  if (p->tokenizer) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: no tokenizer for text: %s", ep->name,
                     p->no_tokenizer);
}

/* ---- tokenizing ---- */

typedef struct encode_job {
  const accel__tokenizer *tokenizer;
  const char *const *texts, *const *pairs;
  const accel__encode_options *how;
  accel__encoding *out;
  _Atomic int failed;
  pthread_mutex_t lock;
  uint32_t first; /* lowest failing text */
  accel_status status;
  char message[1024];
} encode_job;

static void encode_one(void *arg, uint32_t i, uint32_t worker) {
  encode_job *job = arg;
  (void)worker;
  const char *text = job->texts[i], *pair = job->pairs ? job->pairs[i] : NULL;
  accel_status status = text ? accel__encode(job->tokenizer, text, strlen(text), pair,
                                             pair ? strlen(pair) : 0, job->how, &job->out[i])
                             : accel__fail(ACCEL_ERROR_ARGUMENT, "the text is NULL");
  if (status == ACCEL_OK) return;
  pthread_mutex_lock(&job->lock);
  if (job->status == ACCEL_OK || i < job->first) {
    job->first = i;
    job->status = status;
    strncpy(job->message, accel__message(), sizeof job->message - 1);
  }
  pthread_mutex_unlock(&job->lock);
}

accel_status accel__choose_truncation(const accel_endpoint *ep, const char *truncation,
                                      uint32_t max_length, accel__encode_options *out) {
  static const char *const names[] = {
      [ACCEL__TRUNCATE_NONE] = "do_not_truncate",
      [ACCEL__TRUNCATE_LONGEST_FIRST] = "longest_first",
      [ACCEL__TRUNCATE_ONLY_FIRST] = "only_first",
      [ACCEL__TRUNCATE_ONLY_SECOND] = "only_second",
  };
  const uint32_t own = accel__processor_for(ep)->max_length,
                 positions = ep->model->max_positions > 0 ? (uint32_t)ep->model->max_positions : 0;
  int kind = ACCEL__TRUNCATE_LONGEST_FIRST;
  for (int i = 0; truncation; i++) {
    if (i == 4)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "unknown truncation '%s'; known: longest_first only_first only_second "
                         "do_not_truncate",
                         truncation);
    if (!strcmp(names[kind = i], truncation)) break;
  }
  *out = (accel__encode_options){.add_special_tokens = true,
                                 .truncation = (accel__truncation)kind,
                                 .max_length = max_length ? smaller(max_length, positions) : own};
  if (kind == ACCEL__TRUNCATE_NONE) out->max_length = positions;
  return ACCEL_OK;
}

static accel_status check_lengths(const accel__encoding *enc, uint32_t n, uint32_t most) {
  for (uint32_t i = 0; most && i < n; i++)
    if (enc[i].n > most)
      return accel__remedy(
          accel__fail(ACCEL_ERROR_LIMIT,
                      "text %u has %zu tokens, the model takes %u, and truncation is off", i,
                      enc[i].n, most),
          "shorten the text or leave truncation at longest_first");
  return ACCEL_OK;
}

accel_status accel__encode_texts(accel_endpoint *ep, const char *const *texts,
                                 const char *const *pairs, uint32_t n,
                                 const accel__encode_options *how, accel__encoding *out) {
  const accel__tokenizer *tokenizer = accel__processor_for(ep)->tokenizer;
  accel__encode_options mine = *how;
  mine.truncate_left = accel__tokenizer_describe(tokenizer)->truncate_left;
  encode_job job = {
      .tokenizer = tokenizer, .texts = texts, .pairs = pairs, .how = &mine, .out = out};
  pthread_mutex_init(&job.lock, NULL);
  accel__pool_run(ep->ctx->pool, n, encode_one, &job);
  pthread_mutex_destroy(&job.lock);
  if (job.status != ACCEL_OK) return accel__fail(job.status, "text %u: %s", job.first, job.message);
  return how->truncation == ACCEL__TRUNCATE_NONE ? check_lengths(out, n, how->max_length)
                                                 : ACCEL_OK;
}

void accel__encodings_free(accel__encoding *encodings, uint32_t n) {
  for (uint32_t i = 0; encodings && i < n; i++) accel__encoding_free(&encodings[i]);
  free(encodings);
}

accel_status accel__list_pieces(const accel__encoding *enc, uint32_t n, bool all,
                                accel__arena *arena, accel__piece_list *out) {
  size_t total = 0, at = 0;
  for (uint32_t i = 0; i < n; i++) total += all ? enc[i].pieces : 1;
  *out = (accel__piece_list){.n = (uint32_t)total,
                             .piece = accel__arena_array(arena, total, sizeof *out->piece),
                             .text = accel__arena_array(arena, total, sizeof *out->text),
                             .number = accel__arena_array(arena, total, sizeof *out->number)};
  if (!out->piece || !out->text || !out->number) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t p = 0; p < (all ? enc[i].pieces : 1); p++, at++) {
      size_t start = enc[i].start[p];
      out->piece[at] = (accel__piece){.ids = enc[i].ids + start,
                                      .type_ids = enc[i].type_ids + start,
                                      .n = (uint32_t)(enc[i].start[p + 1] - start)};
      out->text[at] = i;
      out->number[at] = p;
    }
  return ACCEL_OK;
}

accel_status accel__adapt_pieces(const accel_endpoint *ep, const accel_adapter *adapter,
                                 double scale, accel__piece_list *pieces) {
  accel_plugin_adapter_use use;
  ACCEL_TRY(accel__run_adapter_use(ep, adapter, scale, &use));
  for (uint32_t i = 0; i < pieces->n; i++) pieces->piece[i].adapter = use;
  return ACCEL_OK;
}

/* ---- running ---- */

typedef struct sized {
  uint32_t n, index;
} sized;

static int longer_first(const void *a, const void *b) {
  const sized *x = a, *y = b;
  if (x->n != y->n) return x->n < y->n ? 1 : -1;
  return x->index < y->index ? -1 : 1;
}

static uint64_t token_budget(const accel_endpoint *ep, uint32_t entry, const uint32_t *outputs,
                             uint32_t n_outputs) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  uint64_t columns = 1;
  for (uint32_t k = 0; k < n_outputs; k++) {
    const accel_plugin_tensor *t = &p->tensor[p->entry[entry].out[outputs[k]]];
    const accel_plugin_dim *last = t->rank ? &p->dim[t->dim[t->rank - 1]] : NULL;
    if (last && last->op == ACCEL_PLUGIN_DIM_CONST && (uint64_t)last->c > columns)
      columns = (uint64_t)last->c;
  }
  uint64_t budget = MAX_OUTPUT_ELEMENTS / columns;
  return budget < 1 ? 1 : budget < TOKEN_BUDGET ? budget : TOKEN_BUDGET;
}

/* Without a memory limit what the kernels like, or all when a batch size was asked for; under one no
 * more than there is memory for, and where the run reads weights from files no less, so that one
 * pass over them serves as many pieces as can be. */
accel_status accel__piece_budget(accel_endpoint *ep, const accel__piece_run *run, uint32_t shortest,
                                 uint64_t all, uint64_t *tokens) {
  const uint32_t entry = (uint32_t)accel__endpoint_entry(ep, run->entry);
  const accel__fit_run fit = {entry, run->output, run->n_outputs};
  const uint64_t usual = accel__processor_for(ep)->batch_size
                             ? all
                             : token_budget(ep, entry, run->output, run->n_outputs);
  bool streams;
  const bool limited = accel__endpoint_limits(ep, &streams).run_bytes != 0;
  *tokens = (streams && limited) || all < usual ? all : usual;
  return *tokens ? accel__plan_rows(ep, &fit, shortest ? shortest : 1, tokens) : ACCEL_OK;
}

static int input_index(const accel_endpoint *ep, const char *name) {
  for (uint32_t i = 0; i < ep->model->n_inputs; i++)
    if (!strcmp(ep->model->inputs[i].name, name)) return (int)i;
  return -1;
}

/* Of a piece that has no memory even alone. */
static accel_status name_limit(accel_endpoint *ep, uint64_t tokens, accel_status status) {
  if (status != ACCEL_ERROR_OUT_OF_MEMORY || !accel__endpoint_limits(ep, NULL).run_bytes)
    return status;
  return accel__remedy(status,
                       "under this memory limit there is memory for %llu tokens at once: cut texts "
                       "there (--max-length, accel_init_params.max_length) or raise the limit",
                       (unsigned long long)tokens);
}

typedef struct run_buffers {
  int32_t *lengths, *ids, *types;
  accel_plugin_adapter_use *adapter; /* of as many pieces as lengths */
} run_buffers;

static accel_status open_buffers(run_buffers *to, uint32_t pieces, uint64_t tokens) {
  *to = (run_buffers){.lengths = malloc(pieces * sizeof *to->lengths),
                      .ids = malloc(tokens * sizeof *to->ids),
                      .types = malloc(tokens * sizeof *to->types),
                      .adapter = malloc(pieces * sizeof *to->adapter)};
  return to->lengths && to->ids && to->types && to->adapter
             ? ACCEL_OK
             : accel__no_memory(tokens * sizeof *to->ids * 2);
}

static void close_buffers(run_buffers *of) {
  free(of->adapter);
  free(of->types);
  free(of->ids);
  free(of->lengths);
}

/* Whether transformers' tokenizer of the model makes token_type_ids: not where there is one type,
 * nor where types are words of the vocabulary. */
static bool reads_types(const accel__model_input *in) {
  return in->max > 1 && in->otherwise == ACCEL__DEFAULT_ZEROS;
}

/* Packs pieces order[0..k) into one batch. */
static void pack(const accel_endpoint *ep, const accel__piece *pieces, const sized *order,
                 uint32_t k, const run_buffers *to, accel__batch *batch) {
  uint64_t t = 0;
  bool types = true;
  for (uint32_t i = 0; i < k; i++) {
    const accel__piece *p = &pieces[order[i].index];
    to->lengths[i] = (int32_t)p->n;
    to->adapter[i] = p->adapter;
    memcpy(to->ids + t, p->ids, p->n * sizeof *to->ids);
    if (p->type_ids) memcpy(to->types + t, p->type_ids, p->n * sizeof *to->types);
    types &= p->type_ids != NULL;
    t += p->n;
  }
  *batch = (accel__batch){.n = k, .lengths = to->lengths, .tokens = t, .adapter = to->adapter};
  batch->value[input_index(ep, "input_ids")] = to->ids;
  int type_input = input_index(ep, "token_type_ids");
  if (types && type_input >= 0 && reads_types(&ep->model->inputs[type_input]))
    batch->value[type_input] = to->types;
}

/* The pieces of a call, longest first. */
typedef struct pieces_call {
  accel_endpoint *ep;
  const accel__piece_run *run;
  sized *order;
  uint64_t budget;
  pthread_mutex_t take; /* one piece at a time is handed over */
  atomic_bool final;    /* a hand-over has failed half-way */
} pieces_call;

static accel_status hand_over(pieces_call *c, const accel__batch *batch, const sized *order,
                              const accel__result *results) {
  accel_status status = ACCEL_OK;
  uint64_t row = 0;
  pthread_mutex_lock(&c->take);
  for (uint32_t i = 0; i < batch->n && status == ACCEL_OK; i++) {
    accel__piece_result one = {
        .index = order[i].index, .item = i, .tokens = order[i].n, .row = row, .results = results};
    status = c->run->take(c->run->user, &one);
    row += order[i].n;
  }
  if (status != ACCEL_OK) atomic_store(&c->final, true);
  pthread_mutex_unlock(&c->take);
  return status;
}

/* Pieces [first, first + n) of the order, in one run of a replica. */
static accel_status run_range(void *user, accel_endpoint *ep, uint32_t first, uint32_t n) {
  pieces_call *c = user;
  const accel__piece_run *run = c->run;
  const sized *order = c->order + first;
  accel__result results[2] = {0};
  accel__batch batch;
  run_buffers to;
  uint64_t tokens = 0;
  for (uint32_t i = 0; i < n; i++) tokens += order[i].n;
  accel_status status = open_buffers(&to, n + 1, tokens + 1);
  if (status == ACCEL_OK) {
    pack(ep, run->pieces.piece, order, n, &to, &batch);
    status = accel__endpoint_run(ep, (uint32_t)accel__endpoint_entry(ep, run->entry), &batch,
                                 run->output, run->n_outputs, results);
  }
  if (status == ACCEL_OK) status = hand_over(c, &batch, order, results);
  for (uint32_t k = 0; k < run->n_outputs; k++) free(results[k].data);
  close_buffers(&to);
  return n == 1 ? name_limit(ep, c->budget, status) : status;
}

static uint64_t tokens_of(void *user, uint32_t item) {
  return ((const pieces_call *)user)->order[item].n;
}

static void tell_done(void *user, uint32_t done) {
  const pieces_call *c = user;
  accel__report_progress(c->ep->ctx, c->run->what, done, c->run->pieces.n);
}

accel_status accel__run_pieces(accel_endpoint *ep, const accel__piece_run *run) {
  const accel__piece_list *pieces = &run->pieces;
  const uint32_t n = pieces->n;
  pieces_call c = {.ep = ep, .run = run};
  uint32_t shortest = UINT32_MAX;
  uint64_t all = 0;
  if (!n) return ACCEL_OK;
  c.order = malloc((size_t)n * sizeof *c.order);
  if (!c.order) return accel__no_memory(n * sizeof *c.order);
  for (uint32_t i = 0; i < n; i++) {
    c.order[i] = (sized){.n = pieces->piece[i].n, .index = i};
    if (pieces->piece[i].n < shortest) shortest = pieces->piece[i].n;
    all += pieces->piece[i].n;
  }
  accel_status status = accel__piece_budget(ep, run, shortest, all, &c.budget);
  qsort(c.order, n, sizeof *c.order, longer_first);
  pthread_mutex_init(&c.take, NULL);
  if (status == ACCEL_OK)
    status =
        accel__share_work(ep, &(accel__work){.kind = ACCEL__WORK_TEXTS,
                                             .n = n,
                                             .cost = tokens_of,
                                             .most = c.budget ? c.budget : 1,
                                             .most_items = accel__processor_for(ep)->batch_size,
                                             .run = run_range,
                                             .tell = tell_done,
                                             .final = &c.final,
                                             .user = &c});
  pthread_mutex_destroy(&c.take);
  free(c.order);
  return status;
}

accel_status accel__output_index(const accel_endpoint *ep, const char *name, uint32_t *index) {
  for (uint32_t i = 0; i < ep->model->n_outputs; i++)
    if (!strcmp(ep->model->outputs[i].name, name)) return *index = i, ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: %s has no output '%s'", ep->name,
                     ep->model->architecture, name);
}
