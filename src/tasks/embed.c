/* embed.c - texts to vectors: prompt, tokens, the program's "embed" entry (pooling and all) or
 * per-token rows. */
#include <stdlib.h>
#include <string.h>

#include "tasks/embed.h"
#include "core/text.h"
#include "tasks/pool_rows.h"
#include "processing/result.h"

/* A Dense layer on the host. */
typedef struct host_dense {
  const accel__dense *layer;
  float *weight, *bias; /* [out, in], [out] or NULL */
} host_dense;

/* How this call turns hidden states into rows. */
typedef struct embed_plan {
  bool in_program; /* the program's own head: entry "embed" */
  bool per_token;
  bool normalize;      /* on the host */
  bool normalize_kept; /* once more, as fewer columns are kept */
  uint32_t skip;       /* prompt tokens left out of pooling */
  /* the head on the host, for what the program's own cannot do: another pooling, no normalisation,
   * a prompt that is left out
   */
  accel__pooling pooling[6];
  uint32_t n_pooling;
  const host_dense *dense;
  uint32_t n_dense;
  uint32_t hidden; /* of the model */
  uint32_t dim;    /* of a row as it is computed */
  uint32_t kept;   /* of its columns, in the result: truncate_dim of the model */
  uint32_t widest; /* row on the way there */
} embed_plan;

typedef struct embed_task {
  accel__text_task task;
  accel_endpoint *ep;
  embed_plan plan;
  uint32_t n;
  float *data;          /* of the result */
  accel__encoding *enc; /* [n] */
  accel__arena scratch;
} embed_task;

/* ---- the prompt ---- */

/* sentence-transformers gives every model the prompts "query" and "document", empty unless it has
 * its own. */
static bool always_there(const char *name) {
  return !strcmp(name, "query") || !strcmp(name, "document");
}

static accel_status choose_prompt(const accel_endpoint *ep, const accel_embed_params *params,
                                  const char **prompt) {
  const accel__sentence_modules *m = &accel__processor_for(ep)->modules;
  const char *name = params->prompt_name ? params->prompt_name : m->default_prompt;
  *prompt = params->prompt;
  if (params->prompt || !name) return ACCEL_OK;
  for (uint32_t i = 0; i < m->n_prompts; i++)
    if (!strcmp(m->prompts[i].name, name)) return *prompt = m->prompts[i].text, ACCEL_OK;
  if (m->present && always_there(name)) return *prompt = "", ACCEL_OK;
  accel__buffer known = {0};
  for (uint32_t i = 0; i < m->n_prompts; i++)
    accel__buffer_printf(&known, " %s", m->prompts[i].name);
  accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no prompt named '%s'; known:%s", ep->name, name,
              known.data ? known.data : " none");
  accel__buffer_free(&known);
  return ACCEL_ERROR_ARGUMENT;
}

/* The texts with the prompt in front; the originals when there is none. */
static accel_status prepend(const char *prompt, const char *const *texts, uint32_t n,
                            accel__arena *arena, const char *const **out) {
  *out = texts;
  if (!prompt || !*prompt) return ACCEL_OK;
  const char **made = accel__arena_array(arena, n, sizeof *made);
  if (!made) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    if (!texts[i]) return accel__fail(ACCEL_ERROR_ARGUMENT, "text %u is NULL", i);
    if (!(made[i] = accel__arena_printf(arena, "%s%s", prompt, texts[i])))
      return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  *out = made;
  return ACCEL_OK;
}

/* Tokens of the prompt alone as sentence-transformers counts them: with special tokens, but for one
 * at the end. */
static accel_status count_prompt(const accel_endpoint *ep, const char *prompt,
                                 const accel__encode_options *how, uint32_t *skip) {
  const accel__tokenizer *tok = accel__processor_for(ep)->tokenizer;
  accel__encoding enc = {0};
  ACCEL_TRY(accel__encode(tok, prompt, strlen(prompt), NULL, 0, how, &enc));
  *skip = (uint32_t)enc.n;
  if (enc.n && accel__id_is_special(tok, enc.ids[enc.n - 1])) --*skip;
  accel__encoding_free(&enc);
  return ACCEL_OK;
}

/* ---- the plan ---- */

/* The weights of Dense and LayerNorm as fp32. */
static accel_status load_dense(const accel_endpoint *ep, const accel__embed_head *head,
                               accel__arena *arena, embed_plan *plan) {
  host_dense *list = accel__arena_array(arena, head->n_dense, sizeof *list);
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (head->n_dense && !ep->checkpoint)
    return accel__fail(
        ACCEL_ERROR_UNSUPPORTED,
        "%s: with random weights its Dense layers only work with its own pooling and normalisation",
        ep->name);
  for (uint32_t i = 0; i < head->n_dense; i++) {
    const accel__dense *d = &head->dense[i];
    const uint64_t elements = (uint64_t)(d->norms ? d->out : d->in * d->out);
    const accel__tensor_info *weight = accel__checkpoint_find(ep->checkpoint, d->weight),
                             *bias = d->bias ? accel__checkpoint_find(ep->checkpoint, d->bias_name)
                                             : NULL;
    list[i] = (host_dense){
        .layer = d,
        .weight = accel__arena_array(arena, (size_t)elements, sizeof(float)),
        .bias = d->bias ? accel__arena_array(arena, (size_t)d->out, sizeof(float)) : NULL};
    if (!list[i].weight || (d->bias && !list[i].bias)) return ACCEL_ERROR_OUT_OF_MEMORY;
    /* the program has been built from these tensors: they are there, and of this size */
    if (!weight || weight->elements != elements ||
        (d->bias && (!bias || bias->elements != (uint64_t)d->out)))
      return accel__fail(ACCEL_ERROR_INTERNAL,
                         "%s: tensor '%s' is not what the program was built from", ep->name,
                         d->weight);
    ACCEL_TRY(accel__tensor_to_f32(ep->checkpoint, weight, 0, weight->elements, list[i].weight));
    if (bias)
      ACCEL_TRY(accel__tensor_to_f32(ep->checkpoint, bias, 0, bias->elements, list[i].bias));
    if (plan->widest < (uint32_t)d->out) plan->widest = (uint32_t)d->out;
    plan->dim = (uint32_t)d->out;
  }
  plan->dense = list;
  plan->n_dense = head->n_dense;
  return ACCEL_OK;
}

/* The head on the host: the model's own, or one pooling in its place. */
static accel_status plan_host(const accel_endpoint *ep, const accel__embed_head *head, int asked,
                              accel__arena *arena, embed_plan *plan) {
  bool own = asked < 0;
  plan->n_pooling = own ? head->n_pooling : 1;
  for (uint32_t i = 0; i < plan->n_pooling; i++)
    plan->pooling[i] = own ? head->pooling[i] : (accel__pooling)asked;
  plan->dim = plan->widest = plan->hidden * plan->n_pooling;
  if (own) return load_dense(ep, head, arena, plan);
  if (!head->n_dense) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "%s: its Dense layers belong to its own pooling, no other can be asked for",
                     ep->name);
}

/* The width of what the program's own head gives. */
static uint32_t program_dim(const accel_endpoint *ep) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel_plugin_tensor *out = &p->tensor[p->entry[accel__endpoint_entry(ep, "embed")].out[0]];
  return (uint32_t)p->dim[out->dim[1]].c;
}

static accel_status plan_rows(const accel_endpoint *ep, const accel_embed_params *params,
                              accel__arena *arena, embed_plan *plan) {
  const accel__embed_head *head = &accel__processor_for(ep)->modules.head;
  bool own = head->n_pooling > 0;
  int asked = params->pooling ? accel__pooling_by_name(params->pooling)
              : own           ? -1
                              : ACCEL__POOL_NONE;
  if (params->pooling && asked < 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "unknown pooling '%s'; known: mean cls max mean_sqrt_len_tokens "
                       "weightedmean lasttoken none",
                       params->pooling);
  /* what it does anyway */
  if (own && head->n_pooling == 1 && asked == (int)head->pooling[0]) asked = -1;
  plan->hidden = (uint32_t)ep->model->hidden_size;
  plan->per_token = asked == ACCEL__POOL_NONE;
  plan->normalize = params->normalize > 0 ||
                    (params->normalize < 0 && own && head->normalize && !plan->per_token);
  plan->in_program = asked < 0 && !plan->skip && !(head->normalize && params->normalize == 0);
  if (plan->in_program) {
    plan->dim = program_dim(ep);
    plan->normalize = plan->normalize && !head->normalize;
    return ACCEL_OK;
  }
  plan->dim = plan->hidden;
  return plan->per_token ? ACCEL_OK : plan_host(ep, head, asked, arena, plan);
}

/* Columns are cut off behind the model's own modules, and before a normalisation that the caller
 * asks for. */
static accel_status make_plan(const accel_endpoint *ep, const accel_embed_params *params,
                              accel__arena *arena, embed_plan *plan) {
  const int64_t most = accel__processor_for(ep)->modules.truncate_dim;
  ACCEL_TRY(plan_rows(ep, params, arena, plan));
  const bool cut = most > 0 && most < plan->dim && !plan->per_token;
  plan->kept = cut ? (uint32_t)most : plan->dim;
  plan->normalize_kept = cut && params->normalize > 0;
  return ACCEL_OK;
}

/* ---- results ---- */

/* What is kept of a row as it was computed; row may be `to`. */
static void hand_row(const embed_plan *plan, float *row, float *to) {
  if (plan->normalize) accel__normalize_row(row, plan->dim);
  if (row != to) memcpy(to, row, plan->kept * sizeof *to);
  if (plan->normalize_kept) accel__normalize_row(to, plan->kept);
}

/* One sequence's rows [tokens, hidden] to one row [kept]: pooling, Dense layers. */
static accel_status pool_piece(const embed_plan *plan, const float *rows, uint32_t tokens,
                               float *to) {
  float *work = malloc(2 * (size_t)plan->widest * sizeof *work), *x = work,
        *y = work + plan->widest;
  if (!work) return accel__no_memory(plan->widest * sizeof *work);
  for (uint32_t i = 0; i < plan->n_pooling; i++)
    accel__pool_rows(plan->pooling[i], rows, tokens, plan->skip, plan->hidden,
                     x + (size_t)i * plan->hidden);
  for (uint32_t i = 0; i < plan->n_dense; i++) {
    const host_dense *d = &plan->dense[i];
    accel__dense_row(d->layer, d->weight, d->bias, x, y);
    float *kept = x;
    x = y;
    y = kept;
  }
  hand_row(plan, x, to);
  free(work);
  return ACCEL_OK;
}

static accel_status take_piece(void *user, const accel__piece_result *r) {
  embed_task *t = user;
  const embed_plan *plan = &t->plan;
  const accel_embeddings *result = t->task.result;
  const uint64_t first = result->row_start[r->index],
                 rows = result->row_start[r->index + 1] - first;
  float *to = t->data + first * plan->kept;
  float *from = r->results[0].data;
  if (plan->in_program) {
    hand_row(plan, from + (size_t)r->item * plan->dim, to);
  } else if (plan->per_token) {
    for (uint64_t i = 0; i < rows; i++)
      hand_row(plan, from + (r->row + i) * plan->dim, to + i * plan->kept);
  } else {
    ACCEL_TRY(pool_piece(plan, from + r->row * plan->hidden, r->tokens, to));
  }
  return ACCEL_OK;
}

/* Sizes the result for the texts. */
static accel_status lay_out(const embed_plan *plan, const accel__encoding *enc, uint32_t n,
                            accel_embeddings *result, float **data) {
  uint64_t *start = accel__arena_array(accel__task_arena(result), (size_t)n + 1, sizeof *start);
  if (!start) return ACCEL_ERROR_OUT_OF_MEMORY;
  result->dim = plan->kept;
  for (uint32_t i = 0; i < n; i++) {
    if (!enc[i].n) return accel__fail(ACCEL_ERROR_ARGUMENT, "text %u gives no tokens", i);
    if (!plan->per_token && plan->skip >= enc[i].n)
      return accel__fail(
          ACCEL_ERROR_ARGUMENT,
          "text %u: the prompt fills all of its %zu tokens and leaves nothing to pool", i,
          enc[i].n);
    start[i + 1] = start[i] + (plan->per_token ? enc[i].n : 1);
    result->tokens += enc[i].n;
    result->truncated += enc[i].pieces > 1;
  }
  *data = accel__arena_array(accel__task_arena(result), start[n] * result->dim, sizeof **data);
  if (!*data) return ACCEL_ERROR_OUT_OF_MEMORY;
  result->n = n;
  result->per_token = plan->per_token;
  result->row_start = start;
  result->data = *data;
  return ACCEL_OK;
}

/* ---- the task ---- */

/* Rows of the last layer: the base class gives them under their name; a class with a head lists them
 * as the last of its hidden states, the same tensor in front of the head. */
static accel_status find_rows(const accel_endpoint *ep, uint32_t *index) {
  const accel__model *m = ep->model;
  accel_status status = accel__output_index(ep, "last_hidden_state", index);
  for (uint32_t i = m->n_outputs; status != ACCEL_OK && !m->is_encoder_decoder && i-- > 0;)
    if (accel__starts_with(m->outputs[i].name, "hidden_states.")) {
      accel__clear_error();
      *index = i;
      status = ACCEL_OK;
    }
  return status;
}

bool accel__embeds_rows(const accel_endpoint *ep) {
  uint32_t index;
  const bool found = find_rows(ep, &index) == ACCEL_OK;
  if (!found) accel__clear_error();
  return found;
}

static accel_status choose_run(embed_task *t) {
  accel__piece_run *run = &t->task.run;
  run->entry = t->plan.in_program ? "embed" : "forward";
  if (t->plan.in_program) return ACCEL_OK;
  const accel_status status = find_rows(t->ep, &run->output[0]);
  return status == ACCEL_OK ? status
                            : accel__remedy(status, "open it with task \"feature-extraction\"");
}

static accel_status prepare(embed_task *t, const char *const *texts,
                            const accel_embed_params *params) {
  accel_endpoint *ep = t->ep;
  const char *prompt = NULL;
  accel__encode_options how;
  ACCEL_TRY(accel__processor_check(ep, "feature-extraction"));
  ACCEL_TRY(accel__choose_truncation(ep, params->truncation, params->max_length, &how));
  ACCEL_TRY(choose_prompt(ep, params, &prompt));
  if (prompt && *prompt && !accel__processor_for(ep)->modules.include_prompt)
    ACCEL_TRY(count_prompt(ep, prompt, &how, &t->plan.skip));
  ACCEL_TRY(make_plan(ep, params, &t->scratch, &t->plan));
  ACCEL_TRY(prepend(prompt, texts, t->n, &t->scratch, &texts));
  ACCEL_TRY(accel__encode_texts(ep, texts, NULL, t->n, &how, t->enc));
  ACCEL_TRY(lay_out(&t->plan, t->enc, t->n, t->task.result, &t->data));
  ACCEL_TRY(accel__list_pieces(t->enc, t->n, false, &t->scratch, &t->task.run.pieces));
  ACCEL_TRY(accel__adapt_pieces(ep, params->adapter, params->adapter_scale, &t->task.run.pieces));
  return choose_run(t);
}

static accel_status finish(accel__text_task *task) { return (void)task, ACCEL_OK; }

static void free_task(accel__text_task *task) {
  embed_task *t = (embed_task *)task;
  accel__encodings_free(t->enc, t->n);
  accel__arena_free(&t->scratch);
  free(t);
}

accel_status accel__embed_prepare(accel_endpoint *ep, const char *const *texts, uint32_t n,
                                  const accel_embed_params *params, accel__text_task **out) {
  *out = NULL;
  embed_task *t = calloc(1, sizeof *t);
  if (!t) return accel__no_memory(sizeof *t);
  *t = (embed_task){
      .task = {.kind = ACCEL__TEXT_EMBEDDINGS,
               .run = {.what = "embedding", .n_outputs = 1, .take = take_piece, .user = t},
               .finish = finish,
               .free = free_task,
               .result = accel__task_result(sizeof(accel_embeddings))},
      .ep = ep,
      .n = n,
      .enc = calloc((size_t)n + 1, sizeof *t->enc)};
  const accel_status status =
      t->task.result && t->enc ? prepare(t, texts, params) : accel__no_memory(n * sizeof *t->enc);
  return accel__text_task_made(&t->task, status, out);
}

accel_status accel__embed(accel_endpoint *ep, const char *const *texts, uint32_t n,
                          const accel_embed_params *params, accel_embeddings **out) {
  accel__text_task *task;
  const accel_status status = accel__embed_prepare(ep, texts, n, params, &task);
  return accel__text_task_run(ep, status, task, (void **)out);
}
