/* run.c - one run of an entry: inputs checked and completed with their defaults, output sizes
 * worked out, the plugin called.
 */
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "core/threads.h"
#include "dispatch/endpoint.h"
#include "dispatch/parts.h"
#include "dispatch/run_scratch.h"
#include "modeling/default_row.h"
#include "models/model_build.h"
#include "shared/dim_expr.h"

enum { MAX_INPUTS = ACCEL__MAX_INPUTS, MAX_OUTPUTS = 256 };

/* ---- defaults of absent inputs, on packed rows ---- */

static const int32_t *ids_of(const accel__model_entry *e, const accel__batch *batch,
                             uint32_t side) {
  for (uint32_t i = 0; i < e->n_inputs; i++)
    if (!strcmp(e->inputs[i].name, side ? "decoder_input_ids" : "input_ids"))
      return batch->value[i];
  return NULL;
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

/* An absent input of tokens, row by row.  A sequence's rows depend neither on its company nor on
 * the pieces it comes in: positions and lengths count what the session holds and what is still to
 * come. */
static accel_status default_tokens(const accel_endpoint *ep, const accel__model_entry *e,
                                   uint32_t input, const accel__batch *batch, int32_t *out) {
  const accel__model_input *in = &e->inputs[input];
  const bool shifts = accel__default_shifts(in->otherwise);
  const int32_t *lengths = accel__batch_lengths(batch, in->side),
                *ids = accel__default_needs_ids(in->otherwise)
                           ? ids_of(e, batch, shifts ? 0 : in->side)
                           : NULL;
  /* the decoder's ids are made of as many of the encoder's */
  bool made = !shifts || !batch->decoder_lengths || batch->decoder_lengths == batch->lengths;
  for (uint32_t b = 0; made && b < batch->n; b++) {
    const int32_t n = lengths[b], past = batch->past_len ? batch->past_len[b] : 0;
    accel__default_row_args row = {
        .ids = ids,
        .n = n,
        .position = past + (batch->rope_delta ? batch->rope_delta[b] : 0),
        .seen = past,
        .total_len = batch->total_len ? batch->total_len[b] : past + n,
        .pad_id = (int32_t)ep->model->pad_id,
        .sequence = (int32_t)b,
        .front = (int32_t)ep->model->decoder_start_id};
    if (in->otherwise == ACCEL__DEFAULT_WRAPPED && ids) row.front = ids[n - 1];
    made = accel__default_row(in->otherwise, &row, out);
    out += n;
    if (ids) ids += n;
  }
  return made ? ACCEL_OK
              : accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' is missing", ep->name, in->name);
}

static accel_status check_range(const accel_endpoint *ep, const accel__model_input *in,
                                const int32_t *value, uint64_t n) {
  const int32_t least = in->otherwise == ACCEL__DEFAULT_NONE ? -1 : 0;
  for (uint64_t i = 0; in->max && i < n; i++)
    if (value[i] < least || value[i] >= in->max)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: input '%s' holds %d at token %llu; it must be in [0, %lld)", ep->name,
                         in->name, value[i], (unsigned long long)i, (long long)in->max);
  return ACCEL_OK;
}

/* ---- dims ---- */

/* Every dim of the program from the shapes of the inputs that are there. */
static accel_status bind_dims(const accel_endpoint *ep, const accel_plugin_entry *entry,
                              const accel_plugin_view *in, accel__run_scratch *scratch) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  accel_dims_misfit m;
  if (accel_dims_bind(p, entry, in, scratch->symbol, scratch->dim, &m)) return ACCEL_OK;
  const char *name = p->tensor[entry->in[m.input]].name;
  if (m.expected == ACCEL_DIM_UNBOUND)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: input '%s': dim %u is %lld, which the model cannot take", ep->name,
                       name, m.axis, (long long)m.got);
  return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s': dim %u is %lld, expected %lld",
                     ep->name, name, m.axis, (long long)m.got, (long long)m.expected);
}

/* The dims of tensor `t` and *bytes of its elements. */
static accel_status sized(const accel_endpoint *ep, const accel_plugin_tensor *t,
                          const int64_t *dims, int64_t *shape, uint64_t *bytes) {
  *bytes = sizeof(float);
  for (uint32_t r = 0; r < t->rank; r++) {
    shape[r] = dims[t->dim[r]];
    if (shape[r] < 0)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: '%s': dim %u does not follow from the inputs, or is too large",
                         ep->name, t->name, r);
    if (__builtin_mul_overflow(*bytes, (uint64_t)shape[r], bytes) || *bytes > SIZE_MAX / 2)
      return accel__no_memory(SIZE_MAX);
  }
  return ACCEL_OK;
}

/* ---- views ---- */

static accel_status item_view(const accel_endpoint *ep, const accel__model_input *in,
                              const accel__item *item, accel_plugin_view *view) {
  if (!item->data && in->otherwise == ACCEL__DEFAULT_REQUIRED)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' is missing", ep->name, in->name);
  if (!item->data) { /* made by default_items, once the other inputs have given it a shape */
    for (uint32_t r = 0; r < view->rank; r++) view->dim[r] = ACCEL_DIM_UNBOUND;
    return ACCEL_OK;
  }
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
  return in->max > 0 ? check_range(ep, in, view->host, bytes / 4) : ACCEL_OK;
}

/* Absent position_ids [items, n] of a class whose ids come whole, too. */
static accel_status default_positions(const accel_endpoint *ep, uint32_t index,
                                      const accel_plugin_view *in, const accel_plugin_view *to,
                                      int32_t *out) {
  const accel__model_entry *e = &ep->model->entries[index];
  const int32_t at = accel__entry_input(e, "input_ids");
  for (int64_t k = 0; at >= 0 && in[at].host && k < to->dim[0]; k++) {
    const accel__default_row_args of = {.ids = (const int32_t *)in[at].host + k * to->dim[1],
                                        .n = to->dim[1],
                                        .pad_id = (int32_t)ep->model->pad_id};
    if (!accel__default_row(ACCEL__DEFAULT_ROBERTA, &of, out + k * to->dim[1])) break;
  }
  return check_range(ep, &e->inputs[accel__entry_input(e, "position_ids")], out,
                     (uint64_t)(to->dim[0] * to->dim[1]));
}

/* Absent ITEM inputs: zeros, ones or positions of the shape that the others give them. */
static accel_status default_items(const accel_endpoint *ep, uint32_t index, const int64_t *dims,
                                  int32_t **owned, accel_plugin_view *in) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel_plugin_entry *entry = &p->entry[index];
  for (uint32_t i = 0; i < entry->n_in; i++) {
    if (in[i].host) continue;
    const accel_plugin_tensor *t = &p->tensor[entry->in[i]];
    const bool ones = ep->model->entries[index].inputs[i].otherwise == ACCEL__DEFAULT_ONES;
    uint64_t bytes;
    ACCEL_TRY(sized(ep, t, dims, in[i].dim, &bytes));
    owned[i] = calloc(bytes + 1, 1);
    if (!owned[i]) return accel__no_memory(bytes);
    for (uint64_t k = 0; ones && k < bytes / sizeof **owned; k++) {
      if (t->dtype == ACCEL_PLUGIN_F32)
        ((float *)owned[i])[k] = 1.0f;
      else
        owned[i][k] = 1;
    }
    if (ep->model->entries[index].inputs[i].otherwise == ACCEL__DEFAULT_ROBERTA)
      ACCEL_TRY(default_positions(ep, index, in, &in[i], owned[i]));
    in[i].host = owned[i];
    in[i].capacity = bytes;
  }
  return ACCEL_OK;
}

/* How many integers input i takes when it is made here: a row of ids or positions that the batch
 * does not have, three lines of it for M-RoPE, or a row number a sequence. */
static uint64_t default_integers(const accel__model_input *in, const accel__batch *batch,
                                 uint32_t i) {
  if (batch->value[i]) return 0;
  if (accel__input_is_row(in->kind)) return batch->n;
  if (in->kind == ACCEL__INPUT_TOKENS) return accel__batch_tokens(batch, in->side);
  return in->kind == ACCEL__INPUT_MROPE ? 3 * accel__batch_tokens(batch, in->side) : 0;
}

/* Rows of ids or positions that the batch has, or their default: one line, three of M-RoPE. */
static accel_status token_view(accel_endpoint *ep, const accel__model_entry *e, uint32_t i,
                               const accel__batch *batch, accel__run_scratch *scratch,
                               accel_plugin_view *view) {
  const accel__model_input *in = &e->inputs[i];
  const uint64_t tokens = accel__batch_tokens(batch, in->side),
                 lines = in->kind == ACCEL__INPUT_MROPE ? 3 : 1;
  view->host = (void *)batch->value[i];
  if (!view->host) {
    int32_t *row = view->host = accel__run_scratch_rows(scratch, lines * tokens);
    ACCEL_TRY(default_tokens(ep, e, i, batch, row));
    for (uint64_t k = 1; k < lines; k++) memcpy(row + k * tokens, row, tokens * sizeof *row);
  }
  if (lines == 3) view->dim[0] = 3;
  view->dim[lines == 3] = (int64_t)tokens;
  view->capacity = lines * tokens * sizeof(int32_t);
  return check_range(ep, in, view->host, lines * tokens);
}

static accel_status input_view(accel_endpoint *ep, const accel__model_entry *e, uint32_t i,
                               const accel__batch *batch, accel__run_scratch *scratch,
                               accel_plugin_view *view) {
  const accel__model_input *in = &e->inputs[i];
  const accel_plugin_tensor *t = &accel__program_view(ep->model->program)->tensor[in->tensor];
  *view = (accel_plugin_view){.size = sizeof *view, .dtype = t->dtype, .rank = t->rank};
  if (in->kind == ACCEL__INPUT_ITEM || in->kind == ACCEL__INPUT_DERIVED ||
      in->kind == ACCEL__INPUT_BLOCKS)
    return item_view(ep, in, &batch->item[i], view);
  if (in->kind == ACCEL__INPUT_TOKENS || in->kind == ACCEL__INPUT_MROPE)
    return token_view(ep, e, i, batch, scratch, view);
  view->dim[0] = (int64_t)batch->n;
  if (in->kind == ACCEL__INPUT_LENGTHS) {
    view->host = (void *)accel__batch_lengths(batch, in->side);
  } else if (accel__input_is_row(in->kind) && !batch->value[i]) {
    int32_t *row = view->host = accel__run_scratch_rows(scratch, batch->n);
    ACCEL_TRY((in->kind == ACCEL__INPUT_EOS_ROW ? fill_eos_rows : fill_last_rows)(
        ep, ids_of(e, batch, 0), batch, row));
  } else {
    view->host = (void *)batch->value[i];
  }
  view->capacity = view->dim[0] * sizeof(int32_t);
  return ACCEL_OK;
}

static accel_status output_views(const accel_endpoint *ep, const accel_plugin_entry *entry,
                                 const int64_t *dims, const uint32_t *outputs, uint32_t n,
                                 accel__result *results, accel_plugin_view *views) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  for (uint32_t i = 0; i < entry->n_out; i++)
    views[i] = (accel_plugin_view){.size = sizeof *views, .dtype = p->tensor[entry->out[i]].dtype};
  for (uint32_t k = 0; k < n; k++) {
    const accel_plugin_tensor *t = &p->tensor[entry->out[outputs[k]]];
    accel__result *r = &results[k];
    *r = (accel__result){
        .dtype = t->dtype, .rank = t->rank, .data = r->data, .capacity = r->capacity};
    ACCEL_TRY(sized(ep, t, dims, r->dim, &r->bytes));
    if (!r->data || r->bytes > r->capacity) {
      free(r->data);
      r->data = malloc(r->bytes ? r->bytes : 1);
      r->capacity = r->data ? r->bytes : 0;
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
    return accel__fail(status, "%s on %s: at '%s': %s", ep->name, ep->placed_on->info.name, at,
                       error->message);
  return accel__fail(status, "%s on %s: %s", ep->name, ep->placed_on->info.name, error->message);
}

accel__run_limits accel__endpoint_limits(accel_endpoint *ep, bool *streams) {
  pthread_rwlock_rdlock(&ep->in_use);
  const accel__run_limits limits = ep->placed.limits;
  if (streams) *streams = ep->placed.streaming.budget != 0;
  pthread_rwlock_unlock(&ep->in_use);
  return limits;
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
  for (uint32_t i = 0; batch->adapter && i < batch->n && !run.adapter; i++)
    if (batch->adapter[i].adapter) run.adapter = batch->adapter;
  if (run.adapter) run.n_adapter = batch->n;
  accel__pool_turn turn;
  *error = (accel_plugin_error){.size = sizeof *error, .node = -1};
  pthread_rwlock_rdlock(&ep->in_use);
  *used = ep->placed.handle;
  const bool streams = ep->placed.streaming.budget != 0;
  if (streams) accel__run_clock_begin(&ep->run_clock);
  if (ep->placed.rows) accel__row_stream_mark(ep->placed.rows);
  if (ep->placed.parts) accel__parts_mark_rows(ep->placed.parts);
  /* a card takes no place among the threads from the processor that works beside it */
  const bool own = ep->first_replica && ep->placed.device_info.type != ACCEL_PLUGIN_DEVICE_CPU;
  if (!own) accel__pool_enter(ep->ctx->pool, 0, &turn);
  int32_t rc = ep->placed.plugin->handler(ep->placed.handle, batch->session, &run, in, e->n_in, out,
                                          e->n_out, error);
  if (!own) accel__pool_leave(&turn);
  if (streams) accel__run_clock_end(&ep->run_clock);
  pthread_rwlock_unlock(&ep->in_use);
  return rc;
}

/* Under "auto" a result that is not finite is computed once more in fp32; what was lost with a
 * device is computed by another.  Sessions are seen to by whoever can feed them again. */
static accel_status call_plugin(accel_endpoint *ep, uint32_t entry, const accel__batch *batch,
                                const accel_plugin_view *in, accel_plugin_view *out) {
  const accel_plugin_endpoint *used;
  accel_plugin_error error;
  int32_t rc = call_once(ep, entry, batch, in, out, &used, &error);
  if (rc == ACCEL_PLUGIN_E_NONFINITE && !batch->session &&
      accel__endpoint_fall_back(ep, used) == ACCEL_OK)
    rc = call_once(ep, entry, batch, in, out, &used, &error);
  if (rc == ACCEL_PLUGIN_OK) return ACCEL_OK;
  accel_status status = plugin_failed(ep, rc, &error);
  if (status != ACCEL_ERROR_DEVICE_LOST || batch->session ||
      (status = accel__endpoint_replace_lost(ep)) != ACCEL_OK)
    return status;
  rc = call_once(ep, entry, batch, in, out, &used, &error);
  return rc == ACCEL_PLUGIN_OK ? ACCEL_OK : plugin_failed(ep, rc, &error);
}

/* Tests: a run that began then takes a tenth longer, busy as if it computed. */
static void lengthen(uint64_t begin) {
  const uint64_t now = accel__now_ns(), end = now + (now - begin) / 10;
  while (accel__now_ns() < end) {
  }
}

accel_status accel__endpoint_run(accel_endpoint *ep, uint32_t entry, const accel__batch *batch,
                                 const uint32_t *outputs, uint32_t n_outputs,
                                 accel__result *results) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel_plugin_entry *e = &p->entry[entry];
  accel_plugin_view in[MAX_INPUTS], out[MAX_OUTPUTS];
  int32_t *owned[MAX_INPUTS] = {0};
  accel_status status = ACCEL_OK;
  const uint64_t slow_since = accel__fault("run_slow") ? accel__now_ns() : 0;
  if (e->n_in > MAX_INPUTS || e->n_out > MAX_OUTPUTS)
    return accel__fail(ACCEL_ERROR_LIMIT, "%s: entry '%s' has %u inputs and %u outputs", ep->name,
                       e->name, e->n_in, e->n_out);
  const accel__model_entry *model_entry = &ep->model->entries[entry];
  uint64_t integers = 0;
  accel__run_scratch *scratch = accel__run_scratch_take(ep);
  if (!scratch) return accel__no_memory(p->n_dim * sizeof *scratch->dim);
  for (uint32_t i = 0; i < e->n_in; i++)
    integers += default_integers(&model_entry->inputs[i], batch, i);
  if (!accel__run_scratch_reserve(scratch, integers))
    ACCEL_GOTO(accel__no_memory(integers * sizeof *scratch->row));

  for (uint32_t i = 0; i < e->n_in; i++)
    ACCEL_GOTO(input_view(ep, model_entry, i, batch, scratch, &in[i]));
  ACCEL_GOTO(bind_dims(ep, e, in, scratch));
  ACCEL_GOTO(default_items(ep, entry, scratch->dim, owned, in));
  ACCEL_GOTO(output_views(ep, e, scratch->dim, outputs, n_outputs, results, out));
  ACCEL_GOTO(accel__check_cancelled(ep->ctx));
  status = call_plugin(ep, entry, batch, in, out);
  /* what is kept for later gives way to what is wanted now */
  if ((status == ACCEL_ERROR_OUT_OF_MEMORY || status == ACCEL_ERROR_LIMIT) &&
      accel__endpoint_release_parked(ep)) {
    accel__clear_error();
    status = call_plugin(ep, entry, batch, in, out);
  }
done:
  for (uint32_t i = 0; i < MAX_INPUTS; i++) free(owned[i]);
  accel__run_scratch_give(ep, scratch);
  if (slow_since) lengthen(slow_since);
  return status;
}
