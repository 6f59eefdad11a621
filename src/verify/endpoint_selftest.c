/* endpoint_selftest.c - endpoints tested against the reference plugin on seeded inputs, alone or
 * over a grid of hardware and precision. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "verify/endpoint_selftest.h"
#include "core/text.h"
#include "dispatch/locate.h"
#include "dispatch/pack.h"
#include "verify/compare.h"
#include "tasks/open.h"
#include "processing/result.h"
#include "shared/dim_expr.h"

/* Two sequences, one padded: rows, packing and masks all take part.  Short, for the reference is
 * slow at true shapes. */
enum { SEQUENCES = 2, WIDTH = 9, SHORT_LENGTH = 5, OUTPUTS_SHOWN = 3 };
static const uint64_t random_seed = 20260101;

enum { MAX_PROBED = 10, SIDE = 64 };

typedef struct probe_input {
  accel_tensor item[MAX_PROBED];
  accel_tensors list;
} probe_input;

static void free_input(probe_input *in) {
  for (uint32_t i = 0; i < in->list.n; i++) free(in->item[i].data);
}

static uint64_t next_random(uint64_t *state) {
  return *state = *state * 6364136223846793005u + 1442695040888963407u;
}

static accel_status add_tensor(probe_input *in, accel_tensor like) {
  like.data = malloc(accel__tensor_bytes(&like) + 1);
  if (!like.data) return accel__no_memory(0);
  in->item[in->list.n++] = like;
  return ACCEL_OK;
}

/* Ids away from the first few, which tend to be special tokens, and their mask: the second row is
 * padded. */
static accel_status add_ids(const accel__model *m, const accel__model_input *ids,
                            const char *mask_name, int64_t sequences, probe_input *in) {
  uint64_t state = random_seed;
  const int64_t low = ids->max > 16 ? 8 : 0, range = ids->max > low ? ids->max - low : 1;
  ACCEL_TRY(add_tensor(
      in,
      (accel_tensor){.name = ids->name, .dtype = ACCEL_I64, .rank = 2, .dim = {sequences, WIDTH}}));
  ACCEL_TRY(add_tensor(
      in,
      (accel_tensor){.name = mask_name, .dtype = ACCEL_I64, .rank = 2, .dim = {sequences, WIDTH}}));
  int64_t *id = in->item[in->list.n - 2].data, *mask = in->item[in->list.n - 1].data;
  for (int i = 0; i < sequences * WIDTH; i++) {
    mask[i] = i < WIDTH || i - WIDTH < SHORT_LENGTH;
    id[i] = low + (int64_t)((next_random(&state) >> 33) % (uint64_t)range);
    if (!mask[i] && m->pad_id >= 0) id[i] = m->pad_id;
  }
  return ACCEL_OK;
}

/* Every dim of the program for a small probe: `items` of whatever dim 0 of an input counts, SIDE of
 * the other symbols, as far as their bounds allow. */
static accel_status probe_dims(const accel__model *m, const accel_plugin_program *p, int64_t items,
                               int64_t **out) {
  int64_t *value = calloc((size_t)p->n_dim + p->n_symbol + 1, sizeof *value),
          *symbol = value + p->n_dim;
  if (!(*out = value)) return accel__no_memory(0);
  for (uint32_t i = 0; i < p->n_symbol; i++) {
    const accel_plugin_symbol *s = &p->symbol[i];
    symbol[i] = s->min > 1 ? 4 * s->min : s->typical < SIDE ? s->typical : SIDE;
    if (s->max > 0 && symbol[i] > s->max) symbol[i] = s->max;
  }
  /* the symbol behind dim 0, alone or times a constant */
  for (uint32_t i = 0; i < m->n_inputs; i++) {
    const accel_plugin_dim *d = &p->dim[p->tensor[m->inputs[i].tensor].dim[0]];
    while (d->op != ACCEL_PLUGIN_DIM_CONST && d->op != ACCEL_PLUGIN_DIM_SYMBOL)
      d = p->dim[d->a].op == ACCEL_PLUGIN_DIM_CONST ? &p->dim[d->b] : &p->dim[d->a];
    if (d->op == ACCEL_PLUGIN_DIM_SYMBOL) symbol[d->a] = items;
  }
  accel_dims_evaluate(p, symbol, value);
  return ACCEL_OK;
}

/* An input handed on whole: noise, or ones where integers are wanted (masks, lengths, flags,
 * ids). */
static accel_status add_item(const accel_plugin_program *p, const accel__model_input *input,
                             const int64_t *dims, probe_input *in) {
  const accel_plugin_tensor *t = &p->tensor[input->tensor];
  accel_tensor like = {.name = input->name,
                       .dtype = t->dtype == ACCEL_PLUGIN_F32 ? ACCEL_F32 : ACCEL_I32,
                       .rank = t->rank};
  uint64_t state = random_seed, n = 1;
  for (uint32_t r = 0; r < t->rank; r++) n *= (uint64_t)(like.dim[r] = dims[t->dim[r]]);
  ACCEL_TRY(add_tensor(in, like));
  void *data = in->item[in->list.n - 1].data;
  for (uint64_t i = 0; i < n; i++) {
    if (t->dtype == ACCEL_PLUGIN_F32)
      ((float *)data)[i] = (float)((double)(next_random(&state) >> 40) / (double)(1 << 23) - 1.0);
    else
      ((int32_t *)data)[i] = 1;
  }
  return ACCEL_OK;
}

static accel_tensor *probed(probe_input *in, const char *name) {
  for (uint32_t i = 0; i < in->list.n; i++)
    if (!strcmp(in->item[i].name, name)) return &in->item[i];
  return NULL;
}

static bool reads(const accel__model *m, const char *argument) {
  for (uint32_t i = 0; i < m->n_inputs; i++)
    if (m->inputs[i].derived && !strcmp(m->inputs[i].derived->from, argument)) return true;
  return false;
}

/* Of a model whose text shows pictures: a square one for each sequence, of the pixels or patches
 * that there are, and one of its tokens. */
static accel_status add_pictures(const accel__model *m, int64_t sequences, probe_input *in) {
  const accel_tensor *ids = probed(in, "input_ids"), *pixels = probed(in, "pixel_values");
  if (!m->image_tokens || !ids || !pixels || in->list.n + 1 > MAX_PROBED) return ACCEL_OK;
  const int64_t width = m->image_tokens->width,
                side = m->image_tokens->flat ? (int64_t)sqrt((double)(pixels->dim[0] / sequences))
                                             : pixels->dim[pixels->rank - 1];
  int64_t *id = ids->data;
  for (int64_t i = 0; i < sequences * WIDTH; i++) {
    if (id[i] == m->image_tokens->token || id[i] == m->image_tokens->video_token) id[i] = 0;
    if (i % WIDTH == 1) id[i] = m->image_tokens->token;
  }
  if (!m->image_tokens->mrope_positions && !reads(m, m->image_tokens->sizes)) return ACCEL_OK;
  ACCEL_TRY(add_tensor(in, (accel_tensor){.name = m->image_tokens->sizes,
                                          .dtype = ACCEL_I64,
                                          .rank = 2,
                                          .dim = {sequences, width}}));
  int64_t *size = in->item[in->list.n - 1].data;
  for (int64_t i = 0; i < sequences * width; i++)
    size[i] = m->image_tokens->flat && i % width == 0 ? 1 : side;
  return ACCEL_OK;
}

static accel_status make_input(const accel__model *m, probe_input *in) {
  static const char *const masks[] = {"attention_mask", "decoder_attention_mask"};
  const accel_plugin_program *p = accel__program_view(m->program);
  bool tokens = false, alone = false; /* alone: the class takes no batch */
  int64_t *dims = NULL;
  accel_status status = ACCEL_OK;
  *in = (probe_input){.list = {.item = in->item}};
  for (uint32_t i = 0; i < m->n_inputs; i++) {
    tokens |= m->inputs[i].kind == ACCEL__INPUT_TOKENS;
    alone |= m->inputs[i].kind == ACCEL__INPUT_LAST_ROW && m->pad_id < 0;
  }
  const int64_t sequences = tokens && !alone ? SEQUENCES : 1;
  ACCEL_GOTO(probe_dims(m, p, sequences, &dims));
  for (uint32_t i = 0; i < m->n_inputs; i++) {
    const accel__model_input *input = &m->inputs[i];
    if (input->otherwise != ACCEL__DEFAULT_REQUIRED || in->list.n + 2 > MAX_PROBED) continue;
    if (input->kind == ACCEL__INPUT_TOKENS)
      ACCEL_GOTO(add_ids(m, input, masks[input->side], sequences, in));
    if (input->kind == ACCEL__INPUT_ITEM) ACCEL_GOTO(add_item(p, input, dims, in));
  }
  status = add_pictures(m, sequences, in);
done:
  free(dims);
  if (status != ACCEL_OK) free_input(in);
  return status;
}

/* "input_ids [2,9], pixel_values [2,3,64,64], seed 20260101" */
static char *describe_input(accel__arena *arena, const probe_input *in) {
  accel__buffer b = {0};
  for (uint32_t i = 0; i < in->list.n; i++) {
    const accel_tensor *t = &in->item[i];
    if (accel__ends_with(t->name, "attention_mask")) continue;
    accel__buffer_printf(&b, "%s [", t->name);
    for (uint32_t r = 0; r < t->rank; r++)
      accel__buffer_printf(&b, r ? ",%lld" : "%lld", (long long)t->dim[r]);
    accel__buffer_text(&b, "], ");
    if (t->dtype == ACCEL_I64 && t->dim[0] > 1)
      accel__buffer_printf(&b, "lengths %d and %d, ", WIDTH, SHORT_LENGTH);
  }
  accel__buffer_printf(&b, "seed %llu", (unsigned long long)random_seed);
  char *text = b.failed ? NULL : accel__arena_string(arena, b.data);
  accel__buffer_free(&b);
  return text;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static uint64_t elements_of(const accel_tensor *t) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < t->rank; i++) n *= (uint64_t)t->dim[i];
  return n;
}

/* "last_hidden_state [2,9,768] 0.12 -0.3 ..." */
static char *describe_output(accel__arena *arena, const accel_tensor *t) {
  accel__buffer b = {0};
  accel__buffer_printf(&b, "%s [", t->name);
  for (uint32_t i = 0; i < t->rank; i++)
    accel__buffer_printf(&b, i ? ",%lld" : "%lld", (long long)t->dim[i]);
  accel__buffer_text(&b, "]");
  for (uint64_t i = 0; i < OUTPUTS_SHOWN && i < elements_of(t); i++)
    accel__buffer_printf(&b, " %.6g", ((const float *)t->data)[i]);
  accel__buffer_text(&b, " ...");
  char *text = b.failed ? NULL : accel__arena_string(arena, b.data);
  accel__buffer_free(&b);
  return text;
}

/* All outputs as one comparison: the worst error, the lowest cosine. */
static accel_status compare_all(const accel_tensors *got, const accel_tensors *want,
                                const char *precision, accel_test_record *record) {
  record->passed = 1;
  record->cosine = 1;
  if (got->n != want->n)
    return accel__fail(ACCEL_ERROR_VERIFY, "%u outputs, the reference has %u", got->n, want->n);
  for (uint32_t i = 0; i < want->n; i++) {
    accel__difference d;
    double bound;
    if (elements_of(&got->item[i]) != elements_of(&want->item[i]))
      return accel__fail(ACCEL_ERROR_VERIFY, "output '%s' has another shape than the reference's",
                         want->item[i].name);
    accel__compare(got->item[i].data, want->item[i].data, NULL, elements_of(&want->item[i]), &d);
    record->passed &= accel__within_bounds(&d, precision, &bound);
    record->max_abs = fmax(record->max_abs, d.max_abs);
    record->max_rel = fmax(record->max_rel, d.max_rel);
    record->cosine = fmin(record->cosine, d.cosine);
  }
  if (record->passed) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_VERIFY, "differs from the reference: max_abs %.3g, cosine %.6f",
                     record->max_abs, record->cosine);
}

static accel_status same_model(const accel_endpoint *ep, const char *device, accel_endpoint **out) {
  accel_init_params how = {.size = sizeof how,
                           .device = device,
                           .random_weights = ep->checkpoint == NULL,
                           .seed = ep->seed,
                           .architecture = ep->model->architecture};
  return accel__open(ep->ctx, ep->name, &how, out);
}

/* One record of an endpoint that is open, against the reference's outputs. */
static accel_status test_endpoint(accel_endpoint *ep, const accel_tensors *want,
                                  accel__arena *arena, accel_test_record *record) {
  probe_input in;
  accel_tensors *got = NULL;
  accel_status status = ACCEL_OK;
  ACCEL_TRY(make_input(ep->model, &in));
  ACCEL_GOTO(accel__run_padded(ep, &in.list, NULL, 0, &got)); /* warm-up */
  accel__tensors_free(&got);
  double begin = now_ms();
  ACCEL_GOTO(accel__run_padded(ep, &in.list, NULL, 0, &got));
  record->ms = now_ms() - begin;
  record->device = accel__arena_string(arena, ep->placement.device);
  record->implementation_type = accel__arena_string(arena, ep->placement.implementation_type);
  record->input = describe_input(arena, &in);
  record->output = describe_output(arena, &got->item[0]);
  record->weights = ep->checkpoint ? "local"
                                   : accel__arena_printf(arena, "random, seed %llu, true shape",
                                                         (unsigned long long)ep->seed);
  status = record->output && record->input ? compare_all(got, want, ep->placement.precision, record)
                                           : ACCEL_ERROR_OUT_OF_MEMORY;
done:
  accel__tensors_free(&got);
  free_input(&in);
  return status;
}

static accel_status reference_outputs(accel_endpoint *reference, accel_tensors **out) {
  probe_input in;
  ACCEL_TRY(make_input(reference->model, &in));
  accel_status status = accel__run_padded(reference, &in.list, NULL, 0, out);
  free_input(&in);
  return status;
}

/* ---- the grid ---- */

typedef struct grid {
  accel *ctx;
  const char *model;
  const char *listed_as; /* what the registry knows it by: the name, else its directory */
  accel_test_report *report;
  accel__arena *arena;
  const char **keys, **values;
  accel_test_record *records;
  bool random;
  accel_tensors *want; /* the reference's outputs, made at the first combination that needs them */
} grid;

static void upper(char *text) {
  for (; *text; text++)
    if (*text >= 'a' && *text <= 'z') *text = (char)(*text - 'a' + 'A');
}

static accel_status put(grid *g, char *key, const char *value) {
  if (!key || !value) return ACCEL_ERROR_OUT_OF_MEMORY;
  g->keys[g->report->n] = key;
  g->values[g->report->n++] = value;
  return ACCEL_OK;
}

static accel_status need_reference(grid *g) {
  accel_endpoint *reference;
  accel_init_params how = {
      .size = sizeof how, .device = "reference", .random_weights = g->random, .seed = random_seed};
  if (g->want) return ACCEL_OK;
  ACCEL_TRY_AS(accel__open(g->ctx, g->model, &how, &reference), "the reference");
  accel_status status = reference_outputs(reference, &g->want);
  accel__close(&reference);
  return status;
}

/* Loads, runs and compares one combination; the record is kept whatever comes out once it ran. */
static accel_status run_combination(grid *g, const char *hardware, const char *precision) {
  accel_endpoint *ep;
  accel_init_params how = {.size = sizeof how,
                           .device = hardware,
                           .precision = precision,
                           .random_weights = g->random,
                           .seed = random_seed};
  ACCEL_TRY(accel__open(g->ctx, g->model, &how, &ep));
  accel_test_record *record = &g->records[g->report->n_records];
  char *platform = accel__arena_printf(g->arena, "%s (%s)", hardware, precision);
  if (platform) upper(strchr(platform, '('));
  *record = (accel_test_record){.platform = platform,
                                .hardware = accel__arena_string(g->arena, hardware),
                                .precision = accel__arena_string(g->arena, precision)};
  accel_status status = need_reference(g);
  if (status == ACCEL_OK) status = test_endpoint(ep, g->want, g->arena, record);
  if (record->output) g->report->n_records++;
  accel__close(&ep);
  return status;
}

static const char *word_for(grid *g, accel_status status) {
  return status == ACCEL_OK ? "Success"
                            : accel__arena_printf(g->arena, "Error: %s", accel__message());
}

static bool hardware_available(accel *ctx, const char *name) {
  accel__hardware *hardware;
  accel__choice choice = {0};
  bool found = accel__context_hardware(ctx, &hardware) == ACCEL_OK &&
               accel__hardware_choose(hardware, name, &choice) == ACCEL_OK;
  accel__choice_free(&choice);
  return found;
}

/* What sums up a hardware's results so far: a success, else the first error, else what there is. */
static const char *sum_up(const char *sum, const char *value) {
  if (!sum || !strcmp(value, "Success")) return value;
  bool open = strcmp(sum, "Success") && !accel__starts_with(sum, "Error");
  return open && accel__starts_with(value, "Error") ? value : sum;
}

/* All precisions on one hardware; its own key sums them up. */
static accel_status test_hardware(grid *g, const char *hardware, const char *const *precisions,
                                  uint32_t n) {
  accel__registry *registry;
  bool available = hardware_available(g->ctx, hardware);
  const char *sum = NULL;
  uint32_t index = g->report->n;
  ACCEL_TRY(accel__context_registry(g->ctx, &registry));
  ACCEL_TRY(put(g, accel__arena_printf(g->arena, "%s_test", hardware), "Hardware not available"));
  for (uint32_t i = 0; i < n; i++) {
    const char *value = "Hardware not available";
    int listed = 0;
    if (available) {
      ACCEL_TRY(accel__registry_precision_supported(registry, g->listed_as, hardware, precisions[i],
                                                    &listed));
      value = listed ? word_for(g, run_combination(g, hardware, precisions[i]))
                     : "Precision not supported";
      if (!value) return ACCEL_ERROR_OUT_OF_MEMORY;
    }
    sum = sum_up(sum, value);
    ACCEL_TRY(put(g, accel__arena_printf(g->arena, "%s_%s_test", hardware, precisions[i]), value));
    accel__report_progress(g->ctx, "testing", g->report->n, 0);
    ACCEL_TRY(accel__check_cancelled(g->ctx));
  }
  if (sum) g->values[index] = sum;
  return ACCEL_OK;
}

static accel_status new_grid(grid *g, uint32_t combinations) {
  g->arena = accel__task_arena(g->report);
  g->keys = accel__arena_array(g->arena, combinations, sizeof *g->keys);
  g->values = accel__arena_array(g->arena, combinations, sizeof *g->values);
  g->records = accel__arena_array(g->arena, combinations, sizeof *g->records);
  g->report->key = g->keys;
  g->report->value = g->values;
  g->report->record = g->records;
  return g->keys && g->values && g->records ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* Finds the model: its files, or at least its entry in the registry. */
static accel_status find(grid *g) {
  char *directory;
  accel__registry *registry;
  const accel__registry_model *entry;
  accel_status found = accel__locate(g->ctx, g->model, g->arena, &directory, NULL);
  if (found != ACCEL_OK && found != ACCEL_ERROR_NOT_FOUND) return found;
  g->random = found != ACCEL_OK;
  g->listed_as = g->model;
  ACCEL_TRY(accel__context_registry(g->ctx, &registry));
  accel_status status = accel__registry_lookup(registry, g->model, &entry);
  if (status != ACCEL_ERROR_UNKNOWN_MODEL || g->random) return status;
  g->listed_as = directory;
  return accel__registry_lookup(registry, directory, &entry);
}

/* Canonical names, so that keys read "amd_fp16_test" whatever alias was given; unknown ones are
 * refused. */
static accel_status canonical(const char *(*name_of)(const char *), const char *what,
                              const char *const *given, uint32_t n, accel__arena *arena,
                              const char ***out) {
  *out = accel__arena_array(arena, n, sizeof **out);
  if (!*out) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    (*out)[i] = name_of(given[i]);
    if (!(*out)[i]) return accel__fail(ACCEL_ERROR_ARGUMENT, "unknown %s '%s'", what, given[i]);
  }
  return ACCEL_OK;
}

accel_status accel__precision_tests(accel *ctx, const char *model, const char *const *hardware,
                                    uint32_t n_hardware, const char *const *precisions,
                                    uint32_t n_precisions, accel_test_report **out) {
  static const char *const all_hardware[] = {"cpu", "cuda", "amd", "openvino", "apple"},
                           *const all_precisions[] = {"fp32", "fp16", "bf16", "int8", "int4"};
  if (!hardware) hardware = all_hardware, n_hardware = 5;
  if (!precisions) precisions = all_precisions, n_precisions = 5;
  grid g = {.ctx = ctx, .model = model, .report = accel__task_result(sizeof(accel_test_report))};
  const char **names, **kinds;
  accel_status status = ACCEL_OK;
  if (!g.report) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_GOTO(new_grid(&g, n_hardware * (n_precisions + 1)));
  ACCEL_GOTO(
      canonical(accel__registry_hardware_name, "hardware", hardware, n_hardware, g.arena, &names));
  ACCEL_GOTO(canonical(accel__registry_precision_name, "precision", precisions, n_precisions,
                       g.arena, &kinds));
  ACCEL_GOTO(find(&g));
  for (uint32_t i = 0; i < n_hardware; i++)
    ACCEL_GOTO(test_hardware(&g, names[i], kinds, n_precisions));
  *out = g.report;
  g.report = NULL;
done:
  accel__tensors_free(&g.want);
  accel__task_free(g.report);
  return status;
}

accel_status accel__self_test(accel_endpoint *ep, accel_test_report **out) {
  grid g = {
      .ctx = ep->ctx, .model = ep->name, .report = accel__task_result(sizeof(accel_test_report))};
  accel_endpoint *reference = NULL;
  accel_status status = ACCEL_OK;
  if (!g.report) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_GOTO(new_grid(&g, 1));
  ACCEL_GOTO(same_model(ep, "reference", &reference));
  ACCEL_GOTO(reference_outputs(reference, &g.want));
  const char *hardware = accel__registry_hardware_name(ep->placed.plugin->name);
  if (!hardware) hardware = ep->placed.plugin->name;
  accel_test_record *record = &g.records[0];
  *record = (accel_test_record){
      .platform = ep->placement.label, .hardware = hardware, .precision = ep->placement.precision};
  status = test_endpoint(ep, g.want, g.arena, record);
  if (record->output) g.report->n_records = 1;
  const char *word = word_for(&g, status);
  status =
      put(&g, accel__arena_printf(g.arena, "%s_%s_test", hardware, ep->placement.precision), word);
  if (status == ACCEL_OK) *out = g.report, g.report = NULL;
done:
  if (reference) accel__close(&reference);
  accel__tensors_free(&g.want);
  accel__task_free(g.report);
  return status;
}
