/* fit.c - how much memory a model takes, and whether it is there. */
#include "dispatch/fit.h"
#include "core/size.h"
#include "dispatch/parts.h"
#include "dispatch/services.h"
#include "models/model_build.h"
#include "shared/dim_expr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

accel_status accel__device_supports(const accel__device *device, const accel_plugin_program *p,
                                    const accel_plugin_precision *precision) {
  accel_plugin_verdict *verdict = calloc(p->n_entry, sizeof *verdict);
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  if (!verdict) return accel__no_memory(p->n_entry * sizeof *verdict);
  for (uint32_t i = 0; i < p->n_entry; i++) verdict[i].size = sizeof *verdict;
  accel_status status = ACCEL_OK;
  if (device->plugin->supports(device->index, p, precision, verdict, &error) != ACCEL_PLUGIN_OK)
    status = accel__fail(ACCEL_ERROR_PRECISION, "%s", error.message);
  for (uint32_t i = 0; status == ACCEL_OK && i < p->n_entry; i++)
    if (verdict[i].answer == ACCEL_PLUGIN_NO)
      status = accel__fail(ACCEL_ERROR_PRECISION, "%s", verdict[i].why);
  free(verdict);
  return status;
}

accel_status accel__ask_supports(accel_endpoint *ep, const accel__device *device,
                                 const accel_plugin_precision *precision) {
  return device->parts
             ? accel__parts_supports(ep, device, precision)
             : accel__device_supports(device, accel__program_view(ep->model->program), precision);
}

accel_status accel__endpoint_source(accel_endpoint *ep, const accel_plugin_precision *precision,
                                    accel__arena *arena, accel__source **out) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  accel__source_weight *weights = accel__arena_array(arena, p->n_weight, sizeof *weights);
  if (!weights) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < p->n_weight; i++)
    weights[i] = *accel__weight_source(ep->model->program, i);
  const accel__source_from from = {.checkpoint = ep->checkpoint,
                                   .import = ep->import,
                                   .deltas = ep->adapters ? ep->adapters->deltas : NULL,
                                   .pool = ep->ctx->pool,
                                   .seed = ep->seed};
  return accel__source_new(weights, p->n_weight, &from, precision->format, out);
}

/* ---- the work as symbols and outputs ---- */

static void set_symbol(const accel_plugin_program *p, int32_t dim, uint64_t value,
                       int64_t *symbol) {
  if (dim >= 0 && p->dim[dim].op == ACCEL_PLUGIN_DIM_SYMBOL) symbol[p->dim[dim].a] = (int64_t)value;
}

/* Rows and items of every row space: tokens of ragged ones, sequences of all. */
static void work_symbols(const accel_plugin_program *p, const accel__fit_work *work,
                         int64_t *symbol) {
  const uint64_t rows = work->rows && work->rows < work->tokens ? work->rows : work->tokens;
  for (uint32_t i = 0; i < p->n_space; i++) {
    if (work->batch) set_symbol(p, p->space[i].items, work->batch, symbol);
    if (rows && p->space[i].lengths >= 0) set_symbol(p, p->space[i].rows, rows, symbol);
  }
}

void accel__fit_symbols(const accel_plugin_program *p, const accel__fit_work *work,
                        int64_t *symbol) {
  work_symbols(p, work, symbol);
  for (uint32_t i = 0; work->side && i < p->n_symbol; i++)
    if (!strcmp(p->symbol[i].name, "H") || !strcmp(p->symbol[i].name, "W") ||
        !strcmp(p->symbol[i].name, "L"))
      symbol[i] = work->side;
}

/* A dim that is a constant or a symbol; others, which no output of ours has, count as one. */
static uint64_t dim_value(const accel_plugin_program *p, int32_t dim, const int64_t *symbol) {
  const accel_plugin_dim *d = &p->dim[dim];
  if (d->op == ACCEL_PLUGIN_DIM_CONST) return (uint64_t)d->c;
  if (d->op != ACCEL_PLUGIN_DIM_SYMBOL) return 1;
  int64_t value = symbol[d->a] ? symbol[d->a] : p->symbol[d->a].typical;
  return value > 0 ? (uint64_t)value : 1;
}

static uint64_t tensor_bytes(const accel_plugin_program *p, int32_t tensor, const int64_t *symbol) {
  const accel_plugin_tensor *t = &p->tensor[tensor];
  uint64_t n = 4;
  for (uint32_t r = 0; r < t->rank; r++) n *= dim_value(p, t->dim[r], symbol);
  return n;
}

/* Rows of the first ragged space. */
static uint64_t tokens_of(const accel_plugin_program *p, const int64_t *symbol) {
  for (uint32_t i = 0; i < p->n_space; i++)
    if (p->space[i].lengths >= 0) return dim_value(p, p->space[i].rows, symbol);
  return 0;
}

/* A tensor may have two names: the last hidden state is asked for under one of them only. */
static bool needs_asking(const accel__model_entry *e, accel__tensor t) {
  for (uint32_t k = 0; k < e->n_outputs; k++)
    if (e->outputs[k].tensor == t && !e->outputs[k].asked) return false;
  return true;
}

/* Entries that a generation runs, or all of a model that does not generate. */
static bool is_planned(const accel__model *m, const accel__model_entry *e) {
  return !accel__model_entry_of(m, "decode") || strcmp(e->name, "forward");
}

static const accel_plugin_program *program_of(const accel__fit_subject *s) {
  return s->part ? &s->part->program : accel__program_view(s->ep->model->program);
}

/* Marks the outputs that need no asking, of the planned entries, and of parts what other parts
 * read; returns the bytes of those of the first of them. */
static uint64_t planned_outputs(const accel__fit_subject *s, const int64_t *symbol,
                                uint8_t *wanted) {
  const accel_plugin_program *p = program_of(s);
  const accel__model *model = s->ep->model;
  uint64_t bytes = 0;
  bool first = true;
  for (uint32_t e = 0; e < model->n_entries; e++) {
    const accel__part_entry *map = s->part ? &s->part->entry[e] : NULL;
    if (map && map->index < 0) continue;
    const accel_plugin_entry *entry = &p->entry[map ? (uint32_t)map->index : e];
    const bool planned = is_planned(model, &model->entries[e]);
    for (uint32_t i = 0; i < entry->n_out; i++, wanted++) {
      *wanted =
          planned && ((map && map->out[i] < 0) || !needs_asking(&model->entries[e], entry->out[i]));
      if (*wanted && first) bytes += tensor_bytes(p, entry->out[i], symbol);
    }
    first &= !planned;
  }
  return bytes;
}

/* Marks the outputs of one run, and of parts what later ones read; returns the bytes of both. */
static uint64_t run_outputs(const accel__fit_subject *s, const accel__fit_run *run,
                            const int64_t *symbol, uint8_t *wanted) {
  const accel_plugin_program *p = program_of(s);
  const accel__part_entry *map = s->part ? &s->part->entry[run->entry] : NULL;
  uint64_t bytes = 0;
  if (map && map->index < 0) return 0;
  const uint32_t index = map ? (uint32_t)map->index : run->entry;
  for (uint32_t e = 0; e < index; e++) wanted += p->entry[e].n_out;
  for (uint32_t i = 0; i < p->entry[index].n_out; i++) {
    const int64_t output = map ? map->out[i] : (int64_t)i;
    wanted[i] = output < 0;
    for (uint32_t k = 0; k < run->n_outputs; k++) wanted[i] |= output == run->outputs[k];
    if (wanted[i]) bytes += tensor_bytes(p, p->entry[index].out[i], symbol);
  }
  return bytes;
}

/* Marks what the work gives; returns the host memory that takes. */
static uint64_t work_outputs(const accel__fit_subject *s, const accel__fit_work *work,
                             const int64_t *symbol, uint8_t *wanted) {
  if (work->run) return run_outputs(s, work->run, symbol, wanted);
  return 2 * planned_outputs(s, symbol, wanted); /* packed, and as the caller gets them */
}

/* ---- runs with inputs of their own ---- */

/* Views of the inputs of an entry that say their shapes; what is absent tells nothing. */
static void describe_inputs(const accel_plugin_program *p, const accel__model_entry *e,
                            const accel__batch *batch, accel_plugin_view *in) {
  for (uint32_t i = 0; i < e->n_inputs; i++) {
    const accel__model_input *input = &e->inputs[i];
    const uint32_t rank = p->tensor[input->tensor].rank;
    in[i] = (accel_plugin_view){.size = sizeof *in, .rank = (uint8_t)rank};
    for (uint32_t r = 0; r < rank; r++) in[i].dim[r] = ACCEL_DIM_UNBOUND;
    if (input->kind == ACCEL__INPUT_TOKENS)
      in[i].dim[0] = (int64_t)accel__batch_tokens(batch, input->side);
    else if (input->kind == ACCEL__INPUT_ITEM && batch->item[i].rank == rank)
      memcpy(in[i].dim, batch->item[i].dim, rank * sizeof *in[i].dim);
    else if (input->kind == ACCEL__INPUT_LENGTHS || accel__input_is_row(input->kind))
      in[i].dim[0] = batch->n;
  }
}

accel_status accel__fit_call_symbols(const accel_endpoint *ep, const accel_plugin_program *to,
                                     const accel__fit_call *call, int64_t *symbol) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel_plugin_entry *entry = &p->entry[call->run.entry];
  accel_dims_misfit m;
  accel_plugin_view in[ACCEL__MAX_INPUTS];
  accel__arena arena = {0};
  int64_t *whole = accel__arena_array(&arena, p->n_symbol + 1, sizeof *whole),
          *dim = accel__arena_array(&arena, p->n_dim + 1, sizeof *dim);
  accel_status status = whole && dim ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) {
    describe_inputs(p, &ep->model->entries[call->run.entry], call->batch, in);
    if (!accel_dims_bind(p, entry, in, whole, dim, &m))
      status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s': dim %u is %lld, expected %lld",
                           ep->name, p->tensor[entry->in[m.input]].name, m.axis, (long long)m.got,
                           (long long)m.expected);
  }
  for (uint32_t i = 0; status == ACCEL_OK && i < to->n_symbol; i++) {
    symbol[i] = 0;
    for (uint32_t k = 0; k < p->n_symbol; k++)
      if (whole[k] > 0 && !strcmp(p->symbol[k].name, to->symbol[i].name)) symbol[i] = whole[k];
  }
  accel__arena_free(&arena);
  return status;
}

/* What one subject is asked: the plugin's estimate, or of several calls the most of each. */
typedef struct inquiry {
  const accel__fit_subject *s;
  const accel__fit_work *work;
  accel_plugin_options options; /* symbol and wanted are the next two */
  int64_t *symbol;
  uint8_t *wanted; /* [n_out] */
  uint32_t n_out;
} inquiry;

static accel_status ask_once(const inquiry *q, accel_plugin_estimate *out) {
  const accel__device *device = q->s->device;
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  *out = (accel_plugin_estimate){.size = sizeof *out};
  return device->plugin->estimate(device->index, program_of(q->s), &q->options, out, &error) ==
                 ACCEL_PLUGIN_OK
             ? ACCEL_OK
             : accel__fail(ACCEL_ERROR_PRECISION, "%s", error.message);
}

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

static accel_status ask_plugin(inquiry *q, accel__fit *out) {
  const accel__fit_work *work = q->work;
  accel_plugin_estimate all = {.size = sizeof all};
  if (!work->n_call) return ask_once(q, &out->estimate);
  out->staging = 0;
  for (uint32_t i = 0; i < work->n_call && i < ACCEL__FIT_CALLS; i++) {
    accel_plugin_estimate one;
    ACCEL_TRY(accel__fit_call_symbols(q->s->ep, program_of(q->s), &work->call[i], q->symbol));
    memset(q->wanted, 0, q->n_out);
    const uint64_t results = run_outputs(q->s, &work->call[i].run, q->symbol, q->wanted);
    ACCEL_TRY(ask_once(q, &one));
    out->call_scratch[i] = one.scratch;
    out->staging = most(out->staging, results);
    one.scratch = most(one.scratch, all.scratch);
    one.host_staging = most(one.host_staging, all.host_staging);
    one.peak_load = most(one.peak_load, all.peak_load);
    all = one;
  }
  out->staging += work->host;
  out->estimate = all;
  return ACCEL_OK;
}

/* ---- the answer ---- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* What others have taken is gone; 0 goes on meaning that nothing is known. */
static void take_from(uint64_t *bytes, uint64_t taken) {
  if (*bytes) *bytes = *bytes > taken ? *bytes - taken : 1;
}

static accel_status ask_memory(const accel__fit_subject *s, accel__fit *out) {
  accel__hardware *hardware;
  ACCEL_TRY(accel__context_hardware(s->ep->ctx, &hardware));
  out->memory.size = sizeof out->memory;
  if (accel__device_memory(hardware, s->device, &out->memory) != ACCEL_OK) {
    out->memory = (accel_plugin_memory){0}; /* not known: nothing is refused for it */
    accel__clear_error();
  }
  ACCEL_TRY(accel__context_memory_limit(s->ep->ctx, &out->limit));
  take_from(&out->memory.free, s->taken);
  take_from(&out->memory.budget, s->taken);
  take_from(&out->limit, s->taken);
  if (s->device->facts.type == ACCEL_PLUGIN_DEVICE_CPU) {
    take_from(&out->memory.free, s->host_taken);
    take_from(&out->memory.budget, s->host_taken);
  }
  return ACCEL_OK;
}

static void compare_with_free(accel__fit *f) {
  const accel_plugin_estimate *e = &f->estimate;
  uint64_t ready = f->memory.budget ? f->memory.budget : f->memory.free,
           own = e->weights - least(e->in_file, e->weights);
  f->state = e->state_fixed + e->state_per_token * f->tokens;
  f->total = own + e->scratch + f->state + f->staging + e->host_staging + f->tables;
  f->peak = e->peak_load - least(e->in_file, e->peak_load);
  if (f->peak < f->total) f->peak = f->total;
  /* a limit does not count what the process has beside the model */
  const uint64_t whole = f->peak - least(f->tables, f->peak);
  bool limited = f->limit && whole > f->limit;
  if (f->limit && (!ready || f->peak <= ready)) f->whole = whole;
  f->fits = !limited && (!ready || f->peak <= ready);
  if (!f->limit || (ready && ready < f->limit)) f->limit = ready;
}

/* What the process has beside the weights of a streaming endpoint. */
static uint64_t beside_weights(const accel__fit *f) {
  const accel_plugin_estimate *e = &f->estimate;
  return e->scratch + f->state + f->staging + e->host_staging;
}

/* KV pages beside those that were planned for: one page of a streaming endpoint a sequence, or an
 * eighth of the limit where that can be spared. */
static uint64_t state_in_reserve(const accel__fit *f, uint32_t batch, uint64_t spare) {
  enum { SHARE = 8 };
  const uint64_t per_token = f->estimate.state_per_token, share = spare / SHARE,
                 rows = f->estimate.stream_host ? ACCEL__PAGE_ROWS : ACCEL__STREAM_PAGE_ROWS,
                 page = (batch ? batch : 1) * rows * per_token;
  return !per_token ? 0 : page > share ? page : share;
}

/* Bytes of $ACCEL_STREAM_WEIGHTS, by which tests stream models that fit; false: it is not set. */
static bool is_forced(uint64_t *more) {
  const char *text = accel__env("ACCEL_STREAM_WEIGHTS");
  return text && *text && accel__parse_bytes(text, more);
}

/* What weights may take of the limit, when the model is to be streamed; 0: it is not. */
static uint64_t stream_budget(accel__fit *f, uint64_t limit, uint32_t batch) {
  const uint64_t least = f->estimate.stream_least, beside = beside_weights(f);
  uint64_t more;
  if (!least) return 0;
  f->streaming.least = beside + state_in_reserve(f, batch, 0) + least;
  if (is_forced(&more)) return least + more;
  if (f->fits || limit < f->streaming.least) return 0;
  return limit - beside - state_in_reserve(f, batch, limit - beside - least);
}

/* Weights that are quantised once must have a place. */
static bool is_kept(accel_endpoint *ep, const accel__device *device, accel__fit *f) {
  const accel_plugin_estimate *e = &f->estimate;
  char why[256];
  if (!e->stream_store ||
      accel__cache_can_hold(ep, device->plugin, e->stream_key, e->stream_store, why, sizeof why))
    return true;
  snprintf(f->not_kept, sizeof f->not_kept,
           "quantised weights are streamed from the cache of packed weights: %s", why);
  f->streaming.least = 0;
  return false;
}

/* Asks again for the options as they are now, of weights that stream. */
static accel_status ask_streaming(inquiry *q, accel__fit *f) {
  const accel_plugin_options *options = &q->options;
  const accel_plugin_estimate *e = &f->estimate;
  ACCEL_TRY(ask_plugin(q, f));
  f->streaming.budget = options->stream_budget;
  f->streaming.host_budget = options->stream_host_budget;
  f->streaming.resident = e->stream_resident;
  f->streaming.staging = e->stream_staging;
  f->streaming.read = e->stream_read;
  f->streaming.experts = e->stream_experts;
  f->streaming.routed = e->stream_routed;
  f->streaming.missed = e->stream_missed;
  f->streaming.host = e->stream_host;
  f->streaming.disk = e->stream_disk;
  return ACCEL_OK;
}

/* Host memory that weights may take: what is free beside what software devices take of it, or
 * ACCEL_HOST_MEM_LIMIT; of what is free an eighth is left where they do not all lie there. */
static accel_status host_memory(const accel__fit_subject *s, const accel__fit *f, uint64_t *all,
                                uint64_t *some) {
  enum { LEFT = 8 };
  const char *text = accel__env("ACCEL_HOST_MEM_LIMIT");
  accel__hardware *hardware;
  uint64_t limit = 0;
  ACCEL_TRY(accel__context_hardware(s->ep->ctx, &hardware));
  if (text && *text && (!accel__parse_bytes(text, &limit) || !limit))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "ACCEL_HOST_MEM_LIMIT: '%s' is no size such as 4G",
                       text);
  const uint64_t there = accel__host_memory(hardware),
                 device = s->device->facts.type == ACCEL_PLUGIN_DEVICE_SOFTWARE ? f->total : 0;
  *all = there;
  take_from(all, s->host_taken);
  take_from(all, device);
  *some = *all - *all / LEFT;
  if (!limit) return ACCEL_OK;
  take_from(&limit, s->host_taken);
  if (!there || limit < *all) *all = limit;
  if (!there || limit < *some) *some = limit;
  return ACCEL_OK;
}

/* Weights that are not in device memory must have room in the host's; those that have none are read
 * from files.  *out becomes `whole`, and says why, where they cannot be. */
static accel_status check_host_memory(inquiry *q, const accel__fit *whole, accel__fit *out) {
  const accel__fit_subject *s = q->s;
  const double mb = 1.0 / (1 << 20);
  uint64_t there = 0, some = 0;
  const uint64_t host = out->estimate.stream_host, least = out->estimate.stream_host_least;
  if (!host) return ACCEL_OK;
  ACCEL_TRY(host_memory(s, out, &there, &some));
  uint64_t more;
  if (is_forced(&more) && accel__env("ACCEL_HOST_MEM_LIMIT"))
    some += least; /* as with what is forced on the device */
  else if (!there || host <= there)
    return ACCEL_OK;
  if (least && least <= some) {
    q->options.stream_host_budget = some;
    ACCEL_TRY(ask_streaming(q, out));
    if (is_kept(s->ep, s->device, out)) return ACCEL_OK;
  }
  char why[sizeof out->not_kept];
  memcpy(why, out->not_kept, sizeof why);
  *out = *whole;
  out->fits = false;
  memcpy(out->not_kept, why, sizeof why);
  if (*why) return ACCEL_OK;
  if (least)
    snprintf(out->not_kept, sizeof out->not_kept,
             "weights beside those in device memory take %.1f MiB of host memory, or %.1f MiB at "
             "least, and %.1f MiB are there: free some, or use a smaller precision",
             mb * (double)host, mb * (double)least, mb * (double)there);
  else
    snprintf(out->not_kept, sizeof out->not_kept,
             "weights beside those in device memory take %.1f MiB of host memory, and %.1f MiB are "
             "there: free some, or use a smaller precision",
             mb * (double)host, mb * (double)there);
  return ACCEL_OK;
}

/* A model too large for the user's limit, or for the memory of a device whose weights can come from
 * the host's: plans to stream it, when the plugin can and the limit allows it. */
static accel_status plan_streaming(inquiry *q, uint64_t limit, accel__fit *f) {
  const accel__fit_subject *s = q->s;
  const accel__device *device = s->device;
  const accel__streaming *loaded = q->work->loaded;
  accel_plugin_options *options = &q->options;
  const accel_plugin_estimate *e = &f->estimate;
  options->stream_budget =
      loaded ? loaded->budget : stream_budget(f, limit, options->max_sequences);
  options->stream_host_budget = loaded ? loaded->host_budget : 0;
  const accel__fit whole = *f;
  const bool copied = loaded ? loaded->copied : e->stream_host != 0;
  uint64_t forced;
  if (!loaded && (!f->fits || is_forced(&forced)) && !is_kept(s->ep, device, f))
    options->stream_budget = 0;
  if (loaded) f->streaming.least = loaded->least;
  if (!options->stream_budget) return ACCEL_OK;
  ACCEL_TRY(ask_streaming(q, f));
  f->streaming.copied = copied;
  const uint64_t takes = beside_weights(f) + e->stream_resident + e->stream_staging;
  f->total = f->peak = takes + f->tables;
  f->fits = !loaded || !limit || takes <= limit;
  return loaded ? ACCEL_OK : check_host_memory(q, &whole, f);
}

/* What the plugin is told of the weights: which lie in the file, and the dtypes of their rows. */
static void describe_weights(const accel__fit_subject *s, uint8_t *in_file, uint8_t *row_dtype) {
  const accel_plugin_program *p = program_of(s);
  for (uint32_t i = 0; i < p->n_weight; i++) {
    const uint32_t weight = s->part ? s->part->weight[i] : i;
    in_file[i] = accel__source_in_file(s->source, weight);
    row_dtype[i] = (uint8_t)accel__source_row_dtype(s->source, weight);
  }
}

accel_status accel__fit_subject_estimate(const accel__fit_subject *s, const accel__fit_work *work,
                                         accel__fit *out) {
  const accel__device *device = s->device;
  const accel_plugin_program *p = program_of(s);
  accel__arena arena = {0};
  uint32_t n_out = 0;
  for (uint32_t i = 0; i < p->n_entry; i++) n_out += p->entry[i].n_out;
  int64_t *symbol = accel__arena_array(&arena, p->n_symbol + 1, sizeof *symbol);
  uint8_t *wanted = accel__arena_alloc(&arena, n_out + 1),
          *in_file = accel__arena_alloc(&arena, p->n_weight + 1),
          *row_dtype = accel__arena_alloc(&arena, p->n_weight + 1);
  *out = (accel__fit){.estimate = {.size = sizeof out->estimate}};
  accel_status status =
      symbol && wanted && in_file && row_dtype ? ask_memory(s, out) : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) {
    accel__fit_symbols(p, work, symbol);
    out->tokens = (work->tokens ? work->tokens : tokens_of(p, symbol)) + work->more;
    out->of_process = device->facts.type == ACCEL_PLUGIN_DEVICE_CPU;
    out->tables = out->of_process ? work->tables : 0;
    out->staging = work_outputs(s, work, symbol, wanted);
    if (work->limit) {
      out->limit = work->limit;
      take_from(&out->limit, s->taken);
    }
    const uint64_t given = out->limit;
    uint64_t forced;
    /* devices that are no processor are asked always, for their weights may come from host memory */
    const bool streams =
        work->run ? work->loaded->budget != 0 : !out->of_process || given || is_forced(&forced);
    describe_weights(s, in_file, row_dtype);
    inquiry q = {.s = s,
                 .work = work,
                 .options = {.size = sizeof q.options,
                             .max_sequences = work->batch,
                             .precision = *s->precision,
                             .host = &s->ep->host,
                             .symbol = symbol,
                             .wanted = wanted,
                             .in_file = in_file,
                             .row_dtype = streams ? row_dtype : NULL},
                 .symbol = symbol,
                 .wanted = wanted,
                 .n_out = n_out};
    status = ask_plugin(&q, out);
    if (status == ACCEL_OK) compare_with_free(out);
    if (status == ACCEL_OK && !work->run)
      status = plan_streaming(&q, given || out->estimate.stream_host ? out->limit : 0, out);
    if (!given && !out->streaming.budget) out->streaming.least = 0; /* no limit to be raised */
  }
  accel__arena_free(&arena);
  return status;
}

accel_status accel__fit_estimate(accel_endpoint *ep, const accel__device *device,
                                 const accel_plugin_precision *precision,
                                 const accel__source *source, const accel__fit_work *work,
                                 accel__fit *out) {
  if (device->parts) return accel__parts_estimate(ep, device, precision, source, work, out);
  return accel__fit_subject_estimate(
      &(accel__fit_subject){.ep = ep, .device = device, .precision = precision, .source = source},
      work, out);
}

static uint64_t mebibytes(uint64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; }

/* The first part that does not fit. */
static accel_status check_parts(const accel__fit *f, const char *precision) {
  const double mb = 1.0 / (1 << 20);
  const accel__fit_part *p = f->part;
  while (p->fits) p++;
  return accel__fail(ACCEL_ERROR_DOES_NOT_FIT,
                     "layers %u to %u need %.1f MiB on %s at %s (weights %.1f), but %.1f MiB are "
                     "there; give that part fewer layers",
                     p->first_layer, p->last_layer, mb * (double)p->total, p->device->info.name,
                     precision, mb * (double)p->weights, mb * (double)p->limit);
}

accel_status accel__fit_check(const accel__fit *f, const char *device, const char *precision,
                              const char *other) {
  const double mb = 1.0 / (1 << 20);
  if (f->fits) return ACCEL_OK;
  if (f->n_part) return check_parts(f, precision);
  char option[480] = "", instead[96] = "";
  if (*f->not_kept && f->whole)
    snprintf(option, sizeof option, "; %s; with --memory %lluM they stay in memory", f->not_kept,
             (unsigned long long)mebibytes(f->whole));
  else if (*f->not_kept)
    snprintf(option, sizeof option, "; %s", f->not_kept);
  else if (f->streaming.least)
    snprintf(option, sizeof option,
             "; with --memory %lluM it runs, its weights being %s in each run",
             (unsigned long long)mebibytes(f->streaming.least),
             f->estimate.stream_host ? "copied from host memory" : "read again");
  else if (f->whole)
    snprintf(option, sizeof option, "; --memory %lluM is enough (%s weights here are not streamed)",
             (unsigned long long)mebibytes(f->whole), precision);
  if (other)
    snprintf(instead, sizeof instead, "; with --precision %s it fits in what is there", other);
  return accel__fail(ACCEL_ERROR_DOES_NOT_FIT,
                     "needs %.1f MiB on %s at %s (weights %.1f, %.1f more while loading, scratch "
                     "%.1f, state %.1f), but %.1f "
                     "MiB are there%s%s",
                     mb * (double)f->peak, device, precision, mb * (double)f->estimate.weights,
                     mb * (double)(f->estimate.peak_load - f->estimate.weights),
                     mb * (double)f->estimate.scratch, mb * (double)f->state, mb * (double)f->limit,
                     option, instead);
}
