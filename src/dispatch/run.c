/* run.c - one run of an entry: inputs checked and completed with their defaults, output sizes
 * worked out, the plugin called.
 */
#include <stdlib.h>
#include <string.h>

#include "dispatch/endpoint.h"

enum { MAX_INPUTS = 8, MAX_OUTPUTS = 256 };

/* ---- defaults of absent inputs, on packed rows ---- */

static void fill_positions(int32_t *out, const accel__batch *batch, uint32_t side) {
  const int32_t *lengths = accel__batch_lengths(batch, side);
  for (uint32_t b = 0; b < batch->n; b++) {
    const int32_t first =
        (batch->past_len ? batch->past_len[b] : 0) + (batch->rope_delta ? batch->rope_delta[b] : 0);
    for (int32_t i = 0; i < lengths[b]; i++) *out++ = first + i;
  }
}

/* Each sequence's own length, what a session holds of it and what is still to come included:
 * nothing depends on its company or on the pieces that it comes in. */
static void fill_span(int32_t *out, const accel__batch *batch, uint32_t side) {
  const int32_t *lengths = accel__batch_lengths(batch, side);
  for (uint32_t b = 0; b < batch->n; b++)
    for (int32_t i = 0; i < lengths[b]; i++)
      *out++ = batch->total_len ? batch->total_len[b]
                                : (batch->past_len ? batch->past_len[b] : 0) + lengths[b];
}

/* transformers' create_position_ids_from_input_ids: padding tokens keep pad_id and do not count,
 * but for those that a session holds. */
static void fill_roberta(int32_t *out, const int32_t *ids, const accel__batch *batch, uint32_t side,
                         int32_t pad_id) {
  const int32_t *lengths = accel__batch_lengths(batch, side);
  for (uint32_t b = 0; b < batch->n; b++) {
    int32_t seen = batch->past_len ? batch->past_len[b] : 0;
    for (int32_t i = 0; i < lengths[b]; i++, ids++)
      *out++ = *ids == pad_id ? pad_id : ++seen + pad_id;
  }
}

static const int32_t *ids_of(const accel__model_entry *e, const accel__batch *batch,
                             uint32_t side) {
  for (uint32_t i = 0; i < e->n_inputs; i++)
    if (!strcmp(e->inputs[i].name, side ? "decoder_input_ids" : "input_ids"))
      return batch->value[i];
  return NULL;
}

/* decoder_input_ids out of input_ids without padding: one row to the right, `start` (-1: the row's
 * last token) in front. */
static void fill_shifted(int32_t *out, const int32_t *ids, const accel__batch *batch,
                         int64_t start) {
  for (uint32_t b = 0; b < batch->n; b++) {
    const int32_t n = batch->lengths[b];
    *out++ = start >= 0 ? (int32_t)start : ids[n - 1];
    for (int32_t i = 0; i + 1 < n; i++) *out++ = ids[i];
    ids += n;
  }
}

/* Where each sequence's last eos lies among the rows. */
static accel_status fill_eos_rows(const accel_endpoint *ep, const int32_t *ids,
                                  const accel__batch *batch, int32_t *out) {
  int32_t row = 0;
  for (uint32_t b = 0; b < batch->n; b++) {
    out[b] = -1;
    for (int32_t i = 0; ids && i < batch->lengths[b]; i++, row++)
      for (uint32_t k = 0; k < ep->model->n_eos; k++)
        if (ids[row] == ep->model->eos_ids[k]) out[b] = row;
    if (out[b] < 0)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: sequence %u has no eos token, which %s classifies by", ep->name, b,
                         ep->model->architecture);
  }
  return ACCEL_OK;
}

/* Where each sequence's last token that is no padding lies among the rows; its first where all
 * are. */
static accel_status fill_last_rows(const accel_endpoint *ep, const int32_t *ids,
                                   const accel__batch *batch, int32_t *out) {
  int32_t row = 0;
  if (!ids) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input 'input_ids' is missing", ep->name);
  for (uint32_t b = 0; b < batch->n; b++) {
    out[b] = row;
    for (int32_t i = 0; i < batch->lengths[b]; i++, row++)
      if (ids[row] != ep->model->pad_id) out[b] = row;
  }
  return ACCEL_OK;
}

static accel_status default_tokens(const accel_endpoint *ep, const accel__model_entry *e,
                                   uint32_t input, const accel__batch *batch, int32_t *out) {
  const accel__model_input *in = &e->inputs[input];
  switch (in->otherwise) {
    case ACCEL__DEFAULT_ZEROS:
      memset(out, 0, accel__batch_tokens(batch, in->side) * sizeof *out);
      return ACCEL_OK;
    case ACCEL__DEFAULT_ARANGE:
    case ACCEL__DEFAULT_MASK_CUMSUM:
      fill_positions(out, batch, in->side);
      return ACCEL_OK;
    case ACCEL__DEFAULT_TOTAL_LEN:
      fill_span(out, batch, in->side);
      return ACCEL_OK;
    case ACCEL__DEFAULT_ROBERTA:
      if (!ids_of(e, batch, in->side)) break;
      fill_roberta(out, ids_of(e, batch, in->side), batch, in->side, (int32_t)ep->model->pad_id);
      return ACCEL_OK;
    case ACCEL__DEFAULT_SHIFTED:
    case ACCEL__DEFAULT_WRAPPED:
      if (!ids_of(e, batch, 0) ||
          (batch->decoder_lengths && batch->decoder_lengths != batch->lengths))
        break;
      fill_shifted(out, ids_of(e, batch, 0), batch,
                   in->otherwise == ACCEL__DEFAULT_SHIFTED ? ep->model->decoder_start_id : -1);
      return ACCEL_OK;
    default:
      break;
  }
  return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' is missing", ep->name, in->name);
}

static accel_status check_range(const accel_endpoint *ep, const accel__model_input *in,
                                const int32_t *value, uint64_t n) {
  for (uint64_t i = 0; in->max && i < n; i++)
    if (value[i] < 0 || value[i] >= in->max)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: input '%s' holds %d at token %llu; it must be in [0, %lld)", ep->name,
                         in->name, value[i], (unsigned long long)i, (long long)in->max);
  return ACCEL_OK;
}

/* ---- dims ---- */

static int64_t combine(accel_plugin_dim_op op, int64_t a, int64_t b) {
  switch (op) {
    case ACCEL_PLUGIN_DIM_ADD:
      return a + b;
    case ACCEL_PLUGIN_DIM_SUB:
      return a - b;
    case ACCEL_PLUGIN_DIM_MUL:
      return a * b;
    case ACCEL_PLUGIN_DIM_FLOORDIV:
      return b ? a / b : 0;
    case ACCEL_PLUGIN_DIM_CEILDIV:
      return b ? (a + b - 1) / b : 0;
    case ACCEL_PLUGIN_DIM_MIN:
      return a < b ? a : b;
    default:
      return a > b ? a : b;
  }
}

/* The dims that are constants or expressions, once those of symbols are known. */
static void expressions(const accel_plugin_program *p, int64_t *value) {
  for (uint32_t d = 0; d < p->n_dim; d++) {
    const accel_plugin_dim *e = &p->dim[d];
    if (e->op == ACCEL_PLUGIN_DIM_CONST)
      value[d] = e->c;
    else if (e->op != ACCEL_PLUGIN_DIM_SYMBOL)
      value[d] = combine(e->op, value[e->a], value[e->b]);
  }
}

void accel__dims_of_symbols(const accel_plugin_program *p, const int64_t *symbol, int64_t *value) {
  for (uint32_t d = 0; d < p->n_dim; d++)
    if (p->dim[d].op == ACCEL_PLUGIN_DIM_SYMBOL) value[d] = symbol[p->dim[d].a];
  expressions(p, value);
}

/* Dim `d` of an input is `v`; where it is a multiple of a symbol, so the symbol is known, too. */
static void bind_dim(const accel_plugin_program *p, int32_t d, int64_t v, int64_t *value) {
  const accel_plugin_dim *e = &p->dim[d];
  value[d] = v;
  if (e->op != ACCEL_PLUGIN_DIM_MUL) return;
  const bool left = p->dim[e->a].op != ACCEL_PLUGIN_DIM_CONST,
             right = p->dim[e->b].op != ACCEL_PLUGIN_DIM_CONST;
  const int64_t factor = p->dim[left ? e->b : e->a].c;
  if (left != right && factor != 0) bind_dim(p, left ? e->a : e->b, v / factor, value);
}

/* Every dim of the program from the shapes of the inputs that are there; plugins check that all
 * inputs agree, here only sizes are wanted. */
static accel_status evaluate_dims(const accel_plugin_program *p, const accel_plugin_entry *entry,
                                  const accel_plugin_view *in, int64_t *value) {
  memset(value, 0, p->n_dim * sizeof *value);
  for (uint32_t i = 0; i < entry->n_in; i++) {
    const accel_plugin_tensor *t = &p->tensor[entry->in[i]];
    for (uint32_t r = 0; in[i].host && r < t->rank; r++)
      bind_dim(p, t->dim[r], in[i].dim[r], value);
  }
  expressions(p, value);
  return ACCEL_OK;
}

/* ---- views ---- */

static accel_status item_view(const accel_endpoint *ep, const accel__model_input *in,
                              const accel__item *item, accel_plugin_view *view) {
  if (!item->data && in->otherwise == ACCEL__DEFAULT_REQUIRED)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' is missing", ep->name, in->name);
  /* made by default_items, once the other inputs have given it a shape */
  if (!item->data) return ACCEL_OK;
  if (item->rank != view->rank)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' has rank %u, expected %u", ep->name,
                       in->name, item->rank, view->rank);
  uint64_t bytes = 4;
  for (uint32_t r = 0; r < item->rank; r++) {
    view->dim[r] = item->dim[r];
    if (item->dim[r] < 1 || __builtin_mul_overflow(bytes, (uint64_t)item->dim[r], &bytes))
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s': dim %u is %lld", ep->name, in->name,
                         r, (long long)item->dim[r]);
  }
  view->host = (void *)item->data;
  view->capacity = bytes;
  return ACCEL_OK;
}

/* Absent ITEM inputs: zeros or ones of the shape that the others give them. */
static accel_status default_items(const accel_endpoint *ep, uint32_t index, const int64_t *dims,
                                  int32_t **owned, accel_plugin_view *in) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel_plugin_entry *entry = &p->entry[index];
  for (uint32_t i = 0; i < entry->n_in; i++) {
    if (in[i].host) continue;
    const accel_plugin_tensor *t = &p->tensor[entry->in[i]];
    const bool ones = ep->model->entries[index].inputs[i].otherwise == ACCEL__DEFAULT_ONES;
    uint64_t n = 1;
    for (uint32_t r = 0; r < t->rank; r++) {
      in[i].dim[r] = dims[t->dim[r]];
      if (in[i].dim[r] < 0 || __builtin_mul_overflow(n, (uint64_t)in[i].dim[r], &n) ||
          n > SIZE_MAX / 8)
        return accel__no_memory(SIZE_MAX);
    }
    owned[i] = calloc(n + 1, sizeof **owned);
    if (!owned[i]) return accel__no_memory(n * sizeof **owned);
    for (uint64_t k = 0; ones && k < n; k++) {
      if (t->dtype == ACCEL_PLUGIN_F32)
        ((float *)owned[i])[k] = 1.0f;
      else
        owned[i][k] = 1;
    }
    in[i].host = owned[i];
    in[i].capacity = n * sizeof **owned;
  }
  return ACCEL_OK;
}

/* Rows of ids or positions that the batch has, or their default in *owned: one line, three of
 * PLACES. */
static accel_status token_view(accel_endpoint *ep, const accel__model_entry *e, uint32_t i,
                               const accel__batch *batch, int32_t **owned,
                               accel_plugin_view *view) {
  const accel__model_input *in = &e->inputs[i];
  const uint64_t tokens = accel__batch_tokens(batch, in->side),
                 lines = in->kind == ACCEL__INPUT_MROPE ? 3 : 1;
  view->host = (void *)batch->value[i];
  if (!view->host) {
    view->host = *owned = malloc(lines * tokens * sizeof **owned);
    if (!*owned) return accel__no_memory(lines * tokens * sizeof **owned);
    ACCEL_TRY(default_tokens(ep, e, i, batch, *owned));
    for (uint64_t k = 1; k < lines; k++)
      memcpy(*owned + k * tokens, *owned, tokens * sizeof **owned);
  }
  if (lines == 3) view->dim[0] = 3;
  view->dim[lines == 3] = (int64_t)tokens;
  view->capacity = lines * tokens * sizeof(int32_t);
  return check_range(ep, in, view->host, lines * tokens);
}

static accel_status input_view(accel_endpoint *ep, const accel__model_entry *e, uint32_t i,
                               const accel__batch *batch, int32_t **owned,
                               accel_plugin_view *view) {
  const accel__model_input *in = &e->inputs[i];
  const accel_plugin_tensor *t = &accel__program_view(ep->model->program)->tensor[in->tensor];
  *view = (accel_plugin_view){.size = sizeof *view, .dtype = t->dtype, .rank = t->rank};
  if (in->kind == ACCEL__INPUT_ITEM || in->kind == ACCEL__INPUT_DERIVED)
    return item_view(ep, in, &batch->item[i], view);
  if (in->kind == ACCEL__INPUT_TOKENS || in->kind == ACCEL__INPUT_MROPE)
    return token_view(ep, e, i, batch, owned, view);
  view->dim[0] = (int64_t)batch->n;
  if (in->kind == ACCEL__INPUT_LENGTHS) {
    view->host = (void *)accel__batch_lengths(batch, in->side);
  } else if (accel__input_is_row(in->kind) && !batch->value[i]) {
    *owned = malloc(batch->n * sizeof **owned);
    if (!*owned) return accel__no_memory(batch->n * sizeof **owned);
    ACCEL_TRY((in->kind == ACCEL__INPUT_EOS_ROW ? fill_eos_rows : fill_last_rows)(
        ep, ids_of(e, batch, 0), batch, *owned));
    view->host = *owned;
  } else {
    view->host = (void *)batch->value[i];
  }
  view->capacity = view->dim[0] * sizeof(int32_t);
  return ACCEL_OK;
}

static accel_status output_views(const accel_plugin_program *p, const accel_plugin_entry *entry,
                                 const int64_t *dims, const uint32_t *outputs, uint32_t n,
                                 accel__result *results, accel_plugin_view *views) {
  for (uint32_t i = 0; i < entry->n_out; i++)
    views[i] = (accel_plugin_view){.size = sizeof *views, .dtype = p->tensor[entry->out[i]].dtype};
  for (uint32_t k = 0; k < n; k++) {
    const accel_plugin_tensor *t = &p->tensor[entry->out[outputs[k]]];
    accel__result *r = &results[k];
    *r = (accel__result){
        .dtype = t->dtype, .rank = t->rank, .bytes = 4, .data = r->data, .room = r->room};
    for (uint32_t a = 0; a < t->rank; a++) {
      r->dim[a] = dims[t->dim[a]];
      if (__builtin_mul_overflow(r->bytes, (uint64_t)r->dim[a], &r->bytes))
        return accel__no_memory(SIZE_MAX);
    }
    if (!r->data || r->bytes > r->room) {
      free(r->data);
      r->data = malloc(r->bytes ? r->bytes : 1);
      r->room = r->data ? r->bytes : 0;
      if (!r->data) return accel__no_memory(r->bytes);
    }
    accel_plugin_view *v = &views[outputs[k]];
    v->host = r->data;
    v->capacity = r->bytes;
    v->rank = (uint8_t)r->rank;
    memcpy(v->dim, r->dim, sizeof v->dim);
  }
  return ACCEL_OK;
}

/* A plugin's failure as a status of ours: the codes are the same numbers. */
static accel_status plugin_failed(const accel_endpoint *ep, int32_t rc,
                                  const accel_plugin_error *error) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const char *at = error->node >= 0 && (uint32_t)error->node < p->n_node
                       ? p->tensor[p->node[error->node].out[0]].name
                       : NULL;
  accel_status status = rc <= ACCEL_PLUGIN_E_ARGUMENT && rc >= ACCEL_PLUGIN_E_DRIVER
                            ? (accel_status)rc
                            : ACCEL_ERROR_INTERNAL;
  if (at)
    return accel__fail(status, "%s on %s: at '%s': %s", ep->name, ep->placement.device, at,
                       error->message);
  return accel__fail(status, "%s on %s: %s", ep->name, ep->placement.device, error->message);
}

static int32_t call_once(accel_endpoint *ep, uint32_t entry, const accel__batch *batch,
                         const accel_plugin_view *in, accel_plugin_view *out,
                         const accel_plugin_endpoint **used, accel_plugin_error *error) {
  const accel_plugin_entry *e = &accel__program_view(ep->model->program)->entry[entry];
  accel_plugin_run run = {.size = sizeof run, .entry = entry, .host = &ep->host};
  if (batch->session) {
    run.sequence = batch->sequence;
    run.n_sequence = batch->n;
  }
  accel__pool_turn turn;
  *error = (accel_plugin_error){.size = sizeof *error, .node = -1};
  pthread_rwlock_rdlock(&ep->in_use);
  *used = ep->handle;
  accel__pool_enter(ep->ctx->pool, 0, &turn);
  int32_t rc =
      ep->plugin->handler(ep->handle, batch->session, &run, in, e->n_in, out, e->n_out, error);
  accel__pool_leave(&turn);
  pthread_rwlock_unlock(&ep->in_use);
  return rc;
}

/* Under "auto" a result that is not finite is computed once more in fp32. */
static accel_status call_plugin(accel_endpoint *ep, uint32_t entry, const accel__batch *batch,
                                const accel_plugin_view *in, accel_plugin_view *out) {
  const accel_plugin_endpoint *used;
  accel_plugin_error error;
  int32_t rc = call_once(ep, entry, batch, in, out, &used, &error);
  if (rc == ACCEL_PLUGIN_E_NONFINITE && !batch->session &&
      accel__endpoint_fall_back(ep, used) == ACCEL_OK)
    rc = call_once(ep, entry, batch, in, out, &used, &error);
  return rc == ACCEL_PLUGIN_OK ? ACCEL_OK : plugin_failed(ep, rc, &error);
}

accel_status accel__endpoint_run(accel_endpoint *ep, uint32_t entry, const accel__batch *batch,
                                 const uint32_t *outputs, uint32_t n_outputs,
                                 accel__result *results) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel_plugin_entry *e = &p->entry[entry];
  accel_plugin_view in[MAX_INPUTS], out[MAX_OUTPUTS];
  int32_t *owned[MAX_INPUTS] = {0};
  accel_status status = ACCEL_OK;
  if (e->n_in > MAX_INPUTS || e->n_out > MAX_OUTPUTS)
    return accel__fail(ACCEL_ERROR_LIMIT, "%s: entry '%s' has %u inputs and %u outputs", ep->name,
                       e->name, e->n_in, e->n_out);
  int64_t *dims = malloc((p->n_dim + 1) * sizeof *dims);
  if (!dims) return accel__no_memory(p->n_dim * sizeof *dims);

  for (uint32_t i = 0; i < e->n_in; i++)
    ACCEL_GOTO(input_view(ep, &ep->model->entries[entry], i, batch, &owned[i], &in[i]));
  ACCEL_GOTO(evaluate_dims(p, e, in, dims));
  ACCEL_GOTO(default_items(ep, entry, dims, owned, in));
  ACCEL_GOTO(output_views(p, e, dims, outputs, n_outputs, results, out));
  ACCEL_GOTO(accel__check_cancelled(ep->ctx));
  status = call_plugin(ep, entry, batch, in, out);
done:
  for (uint32_t i = 0; i < MAX_INPUTS; i++) free(owned[i]);
  free(dims);
  return status;
}
