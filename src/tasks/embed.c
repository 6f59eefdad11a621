/* embed.c - texts to vectors: prompt, tokens, the program's "embed" entry (pooling and all) or per-token rows. */
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "tasks/pool.h"
#include "tasks/processor.h"
#include "tasks/tasks.h"

/* How this call turns hidden states into rows. */
typedef struct embed_plan {
  bool in_program;        /* the program's own head: entry "embed" */
  bool per_token;
  accel__pooling pooling; /* on the host, when neither */
  int normalize;          /* on the host: 1 yes */
  uint32_t skip;          /* prompt tokens left out of pooling */
} embed_plan;

typedef struct embed_job {
  const embed_plan *plan;
  accel_embeddings *result;
  float *data;
} embed_job;

/* ---- the prompt ---- */

static accel_status choose_prompt(const accel_endpoint *ep, const accel_embed_params *params, const char **prompt) {
  const accel__sentence_modules *m = &accel__processor_for(ep)->modules;
  const char *name = params->prompt_name ? params->prompt_name : m->default_prompt;
  *prompt = params->prompt;
  if (params->prompt || !name) return ACCEL_OK;
  for (uint32_t i = 0; i < m->n_prompts; i++)
    if (!strcmp(m->prompts[i].name, name)) return *prompt = m->prompts[i].text, ACCEL_OK;
  accel__buffer known = {0};
  for (uint32_t i = 0; i < m->n_prompts; i++) accel__buffer_printf(&known, " %s", m->prompts[i].name);
  accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no prompt named '%s'; known:%s", ep->name, name, known.data ? known.data : " none");
  accel__buffer_free(&known);
  return ACCEL_ERROR_ARGUMENT;
}

/* ASCII and beyond: Python's str.lower() is what sentence-transformers calls; tokenizers that lower-case do it anyway, so only ASCII is touched. */
static void lower_ascii(char *text) {
  for (; *text; text++)
    if (*text >= 'A' && *text <= 'Z') *text = (char)(*text - 'A' + 'a');
}

/* The texts with the prompt in front; the originals when there is nothing to change. */
static accel_status prepare_texts(const accel_endpoint *ep, const char *const *texts, uint32_t n, const char *prompt, accel__arena *arena,
                                  const char *const **out) {
  bool lower = accel__processor_for(ep)->modules.lower_case;
  *out = texts;
  if (!lower && (!prompt || !*prompt)) return ACCEL_OK;
  const char **made = accel__arena_array(arena, n, sizeof *made);
  if (!made) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    if (!texts[i]) return accel__fail(ACCEL_ERROR_ARGUMENT, "text %u is NULL", i);
    char *copy = accel__arena_printf(arena, "%s%s", prompt ? prompt : "", texts[i]);
    if (!copy) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (lower) lower_ascii(copy);
    made[i] = copy;
  }
  *out = made;
  return ACCEL_OK;
}

/* Tokens of the prompt alone, as sentence-transformers counts them: specials included but for the last. */
static accel_status count_prompt(const accel_endpoint *ep, const char *prompt, uint32_t *skip) {
  accel__encoding enc = {0};
  accel__encode_options how = {.add_special_tokens = true};
  ACCEL_TRY(accel__encode(accel__processor_for(ep)->tokenizer, prompt, strlen(prompt), NULL, 0, &how, &enc));
  *skip = enc.n ? (uint32_t)enc.n - 1 : 0;
  accel__encoding_free(&enc);
  return ACCEL_OK;
}

/* ---- the plan ---- */

static accel_status make_plan(const accel_endpoint *ep, const accel_embed_params *params, embed_plan *plan) {
  const accel__processor *p = accel__processor_for(ep);
  const accel__embed_head *head = &p->modules.head;
  bool own = head->n_pooling > 0;
  *plan = (embed_plan){.normalize = params->normalize > 0};
  int asked = params->pooling ? accel__pooling_by_name(params->pooling) : own ? (int)head->pooling[0] : ACCEL__POOL_NONE;
  if (asked < 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "unknown pooling '%s'; known: mean cls max mean_sqrt_len_tokens weightedmean lasttoken none", params->pooling);
  bool same_pooling = own && head->n_pooling == 1 && asked == (int)head->pooling[0];
  bool keeps_norm = !(head->normalize && params->normalize == 0);
  plan->pooling = (accel__pooling)asked;
  plan->per_token = asked == ACCEL__POOL_NONE;
  plan->in_program = own && p->modules.include_prompt && keeps_norm && (!params->pooling || same_pooling);
  if (plan->in_program) return ACCEL_OK;
  if (own && (head->n_dense || (head->n_pooling > 1 && !params->pooling)))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: its Dense layers or joined poolings cannot be combined with another pooling, normalize=0 or include_prompt=false", ep->name);
  if (head->normalize && params->normalize < 0 && !plan->per_token) plan->normalize = 1;
  return ACCEL_OK;
}

/* ---- results ---- */

static accel_status take_piece(void *user, const accel__piece_result *r) {
  embed_job *job = user;
  const uint32_t dim = job->result->dim;
  const uint64_t first = job->result->row_start[r->index], rows = job->result->row_start[r->index + 1] - first;
  float *to = job->data + first * dim;
  const float *from = r->results[0].data;
  if (job->plan->in_program) memcpy(to, from + (size_t)r->item * dim, dim * sizeof *to);
  else if (job->plan->per_token) memcpy(to, from + r->row * dim, rows * dim * sizeof *to);
  else accel__pool_rows(job->plan->pooling, from + r->row * dim, r->tokens, job->plan->skip < r->tokens ? job->plan->skip : 0, dim, to);
  for (uint64_t i = 0; job->plan->normalize && i < rows; i++) accel__normalize_row(to + i * dim, dim);
  return ACCEL_OK;
}

/* Sizes the result for the texts. */
static accel_status lay_out(accel_endpoint *ep, const embed_plan *plan, const accel__encoding *enc, uint32_t n, accel_embeddings *result,
                            float **data) {
  uint64_t *start = accel__arena_array(accel__task_arena(result), (size_t)n + 1, sizeof *start);
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  if (!start) return ACCEL_ERROR_OUT_OF_MEMORY;
  result->dim = (uint32_t)ep->model->hidden_size;
  if (plan->in_program) {
    const accel_plugin_tensor *out = &p->tensor[p->entry[accel__endpoint_entry(ep, "embed")].out[0]];
    result->dim = (uint32_t)p->dim[out->dim[1]].c;
  }
  for (uint32_t i = 0; i < n; i++) {
    if (!enc[i].n) return accel__fail(ACCEL_ERROR_ARGUMENT, "text %u gives no tokens", i);
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

static accel_status run_embed(accel_endpoint *ep, const embed_plan *plan, const accel__piece *pieces, uint32_t n, embed_job *job) {
  uint32_t output = 0;
  if (!plan->in_program) ACCEL_TRY(accel__output_index(ep, "last_hidden_state", &output));
  return accel__run_pieces(ep, plan->in_program ? "embed" : "forward", &output, 1, pieces, n, "embedding", take_piece, job);
}

accel_status accel__embed(accel_endpoint *ep, const char *const *texts, uint32_t n, const accel_embed_params *params, accel_embeddings **out) {
  accel_status status = ACCEL_OK;
  accel__arena scratch = {0};
  embed_plan plan;
  const char *prompt = NULL;
  accel__encode_options how = {.add_special_tokens = true, .truncation = ACCEL__TRUNCATE_LONGEST_FIRST, .max_length = accel__processor_for(ep)->max_length};
  accel_embeddings *result = accel__task_result(sizeof *result);
  accel__encoding *enc = calloc((size_t)n + 1, sizeof *enc);
  accel__piece_list pieces;
  if (!result || !enc) ACCEL_GOTO(accel__no_memory(n * sizeof *enc));
  ACCEL_GOTO(accel__processor_check(ep, "feature-extraction"));
  ACCEL_GOTO(make_plan(ep, params, &plan));
  ACCEL_GOTO(choose_prompt(ep, params, &prompt));
  if (prompt && *prompt && !accel__processor_for(ep)->modules.include_prompt) ACCEL_GOTO(count_prompt(ep, prompt, &plan.skip));
  ACCEL_GOTO(prepare_texts(ep, texts, n, prompt, &scratch, &texts));
  how.truncate_left = accel__tokenizer_describe(accel__processor_for(ep)->tokenizer)->truncate_left;
  ACCEL_GOTO(accel__encode_texts(ep, texts, NULL, n, &how, enc));
  embed_job job = {.plan = &plan, .result = result};
  ACCEL_GOTO(lay_out(ep, &plan, enc, n, result, &job.data));
  ACCEL_GOTO(accel__list_pieces(enc, n, false, &scratch, &pieces));
  ACCEL_GOTO(run_embed(ep, &plan, pieces.piece, n, &job));
done:
  accel__encodings_free(enc, n);
  accel__arena_free(&scratch);
  if (status != ACCEL_OK) accel__task_free(result), result = NULL;
  *out = result;
  return status;
}
