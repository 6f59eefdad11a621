/* model_stepper.c - one step: tokens of all sequences packed into one run, their last rows' logits
 * back. */
#include "generate/model_stepper.h"

#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "generate/step_images.h"
#include "modeling/default_row.h"
#include "processing/processor.h"
#include "models/model_build.h"

enum { MAX_INPUTS = ACCEL__MAX_INPUTS };

accel_status accel__can_generate(const accel_endpoint *ep) {
  if (accel__model_entry_of(ep->model, "decode")) return ACCEL_OK;
  return accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a %s does not generate text",
                                   ep->name, ep->model->architecture),
                       "use a checkpoint with a language model head (ForCausalLM, LMHeadModel, "
                       "ForConditionalGeneration)");
}

int64_t accel__context_length(const accel_endpoint *ep) {
  const accel__processor *p = accel__processor_for(ep);
  int64_t limit = ep->model->max_positions;
  if (p && p->asked_length && (limit <= 0 || p->asked_length < limit)) limit = p->asked_length;
  return limit;
}

/* The input that takes the tokens of a step; -1: none. */
static int ids_index(const accel__model_entry *e) {
  const int32_t input = accel__entry_input(e, "decoder_input_ids");
  return input >= 0 ? input : accel__entry_input(e, "input_ids");
}

static accel_status reserve(accel__model_stepper *s, uint32_t n, uint64_t tokens) {
  if (n > s->capacity) {
    uint32_t capacity = n + n / 2 + 8;
    int32_t *block = realloc(s->lengths, 5 * (size_t)capacity * sizeof *block);
    if (!block) return accel__no_memory(5 * (size_t)capacity * sizeof *block);
    s->lengths = block;
    s->past_len = block + capacity;
    s->sequence = block + 2 * (size_t)capacity;
    s->total_len = block + 3 * (size_t)capacity;
    s->rope_delta = block + 4 * (size_t)capacity;
    accel_plugin_adapter_use *adapter = realloc(s->adapter, capacity * sizeof *adapter);
    if (!adapter) return accel__no_memory(capacity * sizeof *adapter);
    s->adapter = adapter;
    s->capacity = capacity;
  }
  if (tokens > s->ids_capacity) {
    uint64_t capacity = tokens + tokens / 2 + 64;
    int32_t *ids = realloc(s->ids, capacity * sizeof *ids);
    if (!ids) return accel__no_memory(capacity * sizeof *ids);
    s->ids = ids;
    s->ids_capacity = capacity;
  }
  return ACCEL_OK;
}

/* What sequences hold are tokens alone, which come with every step, too. */
static bool feeds_again(const accel__model_stepper *s) {
  const accel__model *m = s->session->ep->model;
  return !m->is_encoder_decoder && !m->image_tokens;
}

/* A device was lost since the session began, and with it what cannot be fed again. */
static accel_status check_whole(const accel__model_stepper *s) {
  if (feeds_again(s) || s->session->ep->n_replaced == s->session->n_replaced) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_DEVICE_LOST,
                     "%s: what the session had read was lost with a device", s->session->ep->name);
}

static accel_status run_session(accel__model_stepper *s, uint32_t entry, accel__batch *batch,
                                const uint32_t *outputs, uint32_t n_outputs,
                                accel__result *results) {
  ACCEL_TRY(check_whole(s));
  ACCEL_TRY(accel__session_run(s->session, entry, batch, outputs, n_outputs, results));
  return check_whole(s);
}

accel_status accel__model_stepper_run(accel__model_stepper *s, uint32_t entry,
                                      const accel__step_item *items, uint32_t n,
                                      const uint32_t *outputs, uint32_t n_outputs,
                                      accel__result *results) {
  const accel__model_entry *e = &s->session->ep->model->entries[entry];
  uint64_t tokens = 0;
  for (uint32_t i = 0; i < n; i++) tokens += items[i].n;
  ACCEL_TRY(reserve(s, n, tokens));
  tokens = 0;
  for (uint32_t i = 0; i < n; i++) {
    s->lengths[i] = (int32_t)items[i].n;
    s->past_len[i] = (int32_t)items[i].past_len;
    s->sequence[i] = items[i].sequence;
    s->total_len[i] =
        (int32_t)(items[i].total_len ? items[i].total_len : items[i].past_len + items[i].n);
    s->rope_delta[i] = items[i].rope_delta;
    s->adapter[i] = items[i].adapter;
    memcpy(s->ids + tokens, items[i].ids, items[i].n * sizeof *s->ids);
    tokens += items[i].n;
  }
  accel__batch batch = {.n = n,
                        .lengths = s->lengths,
                        .tokens = tokens,
                        .decoder_lengths = s->lengths,
                        .decoder_tokens = tokens,
                        .sequence = s->sequence,
                        .past_len = s->past_len,
                        .total_len = s->total_len,
                        .rope_delta = s->rope_delta,
                        .adapter = s->adapter};
  const int input = ids_index(e);
  if (input < 0)
    return accel__fail(ACCEL_ERROR_INTERNAL, "%s: entry '%s' takes no ids", s->session->ep->name,
                       e->name);
  batch.value[input] = s->ids;
  if (!accel__step_has_images(items, n))
    return run_session(s, entry, &batch, outputs, n_outputs, results);
  void *owned[MAX_INPUTS] = {0};
  accel_status status = accel__step_images(s->session->ep, e, items, n, &batch, owned);
  if (status == ACCEL_OK) status = run_session(s, entry, &batch, outputs, n_outputs, results);
  for (uint32_t i = 0; i < MAX_INPUTS; i++) free(owned[i]);
  return status;
}

/* Scores of several rows of some items: of all rows of all of them. */
static accel_status run_rows(accel__model_stepper *s, accel__step_item *items, uint32_t n) {
  const uint32_t logits = (uint32_t)s->all_logits;
  uint64_t row = 0;
  if (s->all_logits < 0)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: no scores of several rows",
                       s->session->ep->name);
  ACCEL_TRY(accel__model_stepper_run(s, s->decode, items, n, &logits, 1, &s->scores));
  for (uint32_t i = 0; i < n; i++) { /* [tokens, vocab] */
    row += items[i].n;
    items[i].scores =
        (float *)s->scores.data + (row - (items[i].rows ? items[i].rows : 1)) * s->stepper.vocab;
  }
  return ACCEL_OK;
}

static accel_status run_items(accel__model_stepper *s, accel__step_item *items, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (items[i].rows > 1) return run_rows(s, items, n);
  const uint32_t logits = 0;
  const uint32_t entry = accel__step_shows_images(items, n) ? s->decode_image : s->decode;
  ACCEL_TRY(accel__model_stepper_run(s, entry, items, n, &logits, 1, &s->scores));
  /* [n, vocab] */
  for (uint32_t i = 0; i < n; i++) items[i].scores = (float *)s->scores.data + i * s->stepper.vocab;
  return ACCEL_OK;
}

/* Reads the held tokens of a sequence anew, under its present span. */
static accel_status renew(accel__model_stepper *s, const accel__step_item *item) {
  accel__step_item piece = {
      .sequence = item->sequence, .total_len = item->total_len, .adapter = item->adapter};
  ACCEL_TRY(accel__session_control(s->session, ACCEL_PLUGIN_SESSION_RESET, item->sequence, 0));
  for (; piece.past_len < item->past_len; piece.past_len += piece.n) {
    const uint32_t rest = item->past_len - piece.past_len;
    piece.ids = item->ids - rest;
    piece.n = rest < ACCEL__STEP_TOKENS ? rest : ACCEL__STEP_TOKENS;
    ACCEL_TRY(run_items(s, &piece, 1));
  }
  return ACCEL_OK;
}

/* After a lost part was placed anew: feeds the tokens of sequences that were forgotten again. */
static accel_status renew_lost(accel__model_stepper *s, const accel__step_item *items, uint32_t n) {
  for (uint32_t i = 0; s->session->ep->n_replaced && i < n; i++) {
    uint64_t length;
    if (!items[i].past_len) continue;
    ACCEL_TRY(accel__session_length(s->session, items[i].sequence, &length));
    if (length != items[i].past_len) ACCEL_TRY(renew(s, &items[i]));
  }
  return ACCEL_OK;
}

static accel_status forget(accel__model_stepper *s, const accel__step_item *items, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    ACCEL_TRY(accel__session_control(s->session, ACCEL_PLUGIN_SESSION_RESET, items[i].sequence, 0));
  return ACCEL_OK;
}

static bool can_renew(const accel__model_stepper *s, const accel__step_item *items, uint32_t n) {
  bool known = feeds_again(s);
  for (uint32_t i = 0; known && i < n; i++) known = !items[i].past_len || items[i].past_total_len;
  return known;
}

/* run_items; what a device that is lost meanwhile held is computed anew by another.  Another thread
 * may have lost it, and placed it anew, before, during or after the run here. */
static accel_status run_surely(accel__model_stepper *s, accel__step_item *items, uint32_t n) {
  enum { TRIES = 8 };
  accel_endpoint *ep = s->session->ep;
  if (!can_renew(s, items, n)) return run_items(s, items, n);
  for (uint32_t i = 0;; i++) {
    const uint32_t seen = ep->n_replaced;
    accel_status status = renew_lost(s, items, n);
    if (status == ACCEL_OK) status = run_items(s, items, n);
    if (status == ACCEL_OK && ep->n_replaced == seen) return ACCEL_OK;
    if ((status != ACCEL_OK && status != ACCEL_ERROR_DEVICE_LOST) || i == TRIES) return status;
    if (status != ACCEL_OK) ACCEL_TRY(accel__endpoint_replace_lost(ep));
    ACCEL_TRY(forget(s, items, n));
  }
}

static accel_status step(void *self, accel__step_item *items, uint32_t n) {
  accel__model_stepper *s = self;
  const int64_t turn = s->session->ep->model->generation.recompute_kv_above;
  for (uint32_t i = 0; turn > 0 && i < n; i++)
    if (items[i].past_len && items[i].past_total_len &&
        (items[i].past_total_len > turn) != (items[i].total_len > turn))
      ACCEL_TRY(renew(s, &items[i]));
  return run_surely(s, items, n);
}

/* Every tensor given is an input of the entry, or what one follows from. */
static accel_status check_tensors(const accel__model_stepper *s, const accel__model_entry *e,
                                  const accel__encoder_input *given) {
  const accel_endpoint *ep = s->session->ep;
  for (uint32_t i = 0; i < given->n_tensors; i++) {
    bool known = accel__model_leaves_unread(ep->model, given->tensor[i].name);
    for (uint32_t k = 0; k < e->n_inputs; k++)
      known |= !strcmp(given->tensor[i].name,
                       e->inputs[k].derived ? e->inputs[k].derived->from : e->inputs[k].name);
    if (!known)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: the encoder of a %s takes no '%s'", ep->name,
                         ep->model->architecture, given->tensor[i].name);
  }
  return ACCEL_OK;
}

/* The tokens of all items into s->ids, and what a batch says of them. */
static accel_status read_items(accel__model_stepper *s, const accel__encode_item *items, uint32_t n,
                               accel__batch *batch) {
  uint64_t tokens = 0;
  for (uint32_t i = 0; i < n; i++) tokens += items[i].input->ids.n;
  ACCEL_TRY(reserve(s, n, tokens));
  int32_t *at = s->ids;
  for (uint32_t i = 0; i < n; i++) {
    const accel__ids ids = items[i].input->ids;
    s->lengths[i] = (int32_t)ids.n;
    s->past_len[i] = 0;
    s->sequence[i] = items[i].sequence;
    s->adapter[i] = items[i].adapter;
    if (ids.n) memcpy(at, ids.id, ids.n * sizeof *at);
    at += ids.n;
  }
  *batch = (accel__batch){.n = n,
                          .lengths = s->lengths,
                          .tokens = tokens,
                          .sequence = s->sequence,
                          .past_len = s->past_len,
                          .adapter = s->adapter};
  return ACCEL_OK;
}

static bool is_padded(const accel__encode_item *items, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (items[i].input->row.n > items[i].input->ids.n) return true;
  return false;
}

/* What the class's forward puts in place of an absent input of tokens, over each item's padded row;
 * *owned: [tokens], to be freed. */
static accel_status fill_padded(const accel__model_stepper *s, const accel__model_input *in,
                                const accel__encode_item *items, uint32_t n, uint64_t tokens,
                                void **owned) {
  uint32_t width = 0;
  for (uint32_t i = 0; i < n; i++) {
    const accel__encoder_input *input = items[i].input;
    const uint32_t whole = input->row.n ? input->row.n : input->ids.n;
    width = whole > width ? whole : width;
  }
  int32_t *out = *owned = malloc((tokens + width) * sizeof *out), *row = out ? out + tokens : NULL;
  if (!out) return accel__no_memory((tokens + width) * sizeof *out);
  for (uint32_t i = 0; i < n; i++) {
    const accel__encoder_input *input = items[i].input;
    const accel__ids whole = input->row.n ? input->row : input->ids;
    const accel__default_row_args of = {.ids = whole.id,
                                        .n = whole.n,
                                        .total_len = (int32_t)width,
                                        .pad_id = (int32_t)s->session->ep->model->pad_id,
                                        .sequence = (int32_t)i};
    if (!accel__default_row(in->otherwise, &of, row))
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' is missing", s->session->ep->name,
                         in->name);
    if (input->ids.n) memcpy(out, row + input->row_start, input->ids.n * sizeof *out);
    out += input->ids.n;
  }
  return ACCEL_OK;
}

static accel_status encode(void *self, const accel__encode_item *items, uint32_t n) {
  accel__model_stepper *s = self;
  const accel__model_entry *e = &s->session->ep->model->entries[s->encode];
  const accel__encoder_input *in = items[0].input; /* of several none has tensors */
  const uint32_t first = 0;
  const int32_t ids = accel__entry_input(e, "input_ids");
  void *owned[MAX_INPUTS] = {0};
  accel__result result = {0};
  accel__batch batch;
  ACCEL_TRY(read_items(s, items, n, &batch));
  accel_status status = check_tensors(s, e, in);
  if (status == ACCEL_OK && batch.tokens && ids < 0)
    status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: the encoder of a %s takes no 'input_ids'",
                         s->session->ep->name, s->session->ep->model->architecture);
  if (ids >= 0 && batch.tokens) batch.value[ids] = s->ids;
  const bool padded = batch.tokens && is_padded(items, n);
  for (uint32_t i = 0; i < e->n_inputs && i < MAX_INPUTS && status == ACCEL_OK; i++) {
    const accel__model_input *input = &e->inputs[i];
    if (input->kind == ACCEL__INPUT_ITEM || input->kind == ACCEL__INPUT_DERIVED)
      status = accel__given_item(s->session->ep, input, in->tensor, in->n_tensors, &owned[i],
                                 &batch.item[i]);
    if (padded && input->kind == ACCEL__INPUT_TOKENS && (int32_t)i != ids) {
      status = fill_padded(s, input, items, n, batch.tokens, &owned[i]);
      batch.value[i] = owned[i];
    }
  }
  if (status == ACCEL_OK) status = run_session(s, (uint32_t)s->encode, &batch, &first, 1, &result);
  for (uint32_t i = 0; i < MAX_INPUTS; i++) free(owned[i]);
  free(result.data);
  return status;
}

static accel_status encode_image(void *self, struct accel__prompt_images *images,
                                 struct accel__prompt_image *image,
                                 const accel_plugin_adapter_use *adapter) {
  accel__model_stepper *s = self;
  return accel__encode_image(s->session->ep, (uint32_t)s->image_features, images, image, adapter);
}

/* A sequence that was forgotten is fed again by the next step, and so is its copy. */
static accel_status copy(void *self, int32_t from, int32_t to) {
  accel__model_stepper *s = self;
  const accel_status status =
      accel__session_control(s->session, ACCEL_PLUGIN_SESSION_COPY, from, to);
  if (status != ACCEL_ERROR_ARGUMENT || !s->session->ep->n_replaced || !feeds_again(s))
    return status;
  accel__clear_error();
  return ACCEL_OK;
}
/* Likewise of a sequence that was forgotten. */
static accel_status cut(void *self, int32_t sequence, uint32_t keep) {
  accel__model_stepper *s = self;
  const accel_status status =
      accel__session_control(s->session, ACCEL_PLUGIN_SESSION_TRUNCATE, sequence, keep);
  if (status != ACCEL_ERROR_ARGUMENT || !s->session->ep->n_replaced || !feeds_again(s))
    return status;
  accel__clear_error();
  return ACCEL_OK;
}

static uint64_t bytes(void *self, int32_t sequence) {
  uint64_t n = 0;
  if (accel__session_bytes(((accel__model_stepper *)self)->session, sequence, &n) == ACCEL_OK)
    return n;
  accel__clear_error();
  return 0;
}

static void drop(void *self, int32_t sequence) {
  accel__session_drop(((accel__model_stepper *)self)->session, sequence);
}
static int32_t number(void *self) {
  return accel__session_number(((accel__model_stepper *)self)->session);
}

const char *accel__fixed_state(const accel_endpoint *ep) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  for (uint32_t i = 0; i < p->n_state; i++)
    if (p->state[i].kind != ACCEL_PLUGIN_STATE_KV &&
        p->state[i].kind != ACCEL_PLUGIN_STATE_CROSS_KV)
      return p->state[i].name;
  return NULL;
}

bool accel__rotates_by_length(const accel_endpoint *ep) {
  const accel__model_entry *e = accel__model_entry_of(ep->model, "decode");
  for (uint32_t i = 0; e && i < e->n_inputs; i++)
    if (e->inputs[i].otherwise == ACCEL__DEFAULT_TOTAL_LEN) return true;
  return false;
}

accel_status accel__model_stepper_open(accel__session *session, accel__model_stepper *out) {
  accel_endpoint *ep = session->ep;
  ACCEL_TRY(accel__can_generate(ep));
  int32_t decoder = accel__endpoint_entry(ep, "decode");
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel_plugin_tensor *t = &p->tensor[p->entry[decoder].out[0]];
  const accel_plugin_dim *last = &p->dim[t->dim[t->rank - 1]];
  if (last->op != ACCEL_PLUGIN_DIM_CONST)
    return accel__fail(ACCEL_ERROR_INTERNAL, "%s: logits of no fixed width", ep->name);
  *out = (accel__model_stepper){
      .session = session,
      .decode = (uint32_t)decoder,
      .all_logits = accel__entry_output(&ep->model->entries[decoder], "all_logits"),
      .encode = accel__endpoint_entry(ep, "encode"),
      .image_features = accel__endpoint_entry(ep, "image_features"),
      .decode_image = (uint32_t)accel__endpoint_entry(ep, "decode_image"),
      .stepper = {.self = out,
                  .vocab = (size_t)last->c,
                  .limits = accel__endpoint_limits(ep, NULL),
                  .few_rows = ep->placed.device_info.few_rows,
                  .step = step,
                  .copy = copy,
                  .bytes = bytes,
                  .drop = drop,
                  .number = number}};
  if (!accel__fixed_state(ep)) out->stepper.truncate = cut;
  if (out->encode >= 0) out->stepper.encode = encode;
  if (out->image_features >= 0) out->stepper.encode_image = encode_image;
  return ACCEL_OK;
}

void accel__model_stepper_close(accel__model_stepper *s) {
  free(s->scores.data);
  free(s->ids);
  free(s->lengths);
  free(s->adapter);
  *s = (accel__model_stepper){0};
}
