/* model_stepper.c - one step: tokens of all sequences packed into one run, their last rows' logits back. */
#include "tasks/model_stepper.h"

#include <stdlib.h>
#include <string.h>

#include "tasks/processor.h"

accel_status accel__can_generate(const accel_endpoint *ep) {
  if (accel__model_entry_of(ep->model, "decode")) return ACCEL_OK;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a %s does not generate text", ep->name, ep->model->architecture),
      "use a checkpoint with a language model head (ForCausalLM, LMHeadModel, ForConditionalGeneration)");
}

int64_t accel__context_length(const accel_endpoint *ep) {
  const accel__processor *p = accel__processor_for(ep);
  int64_t limit = ep->model->max_positions;
  if (p && p->asked_length && (limit <= 0 || p->asked_length < limit)) limit = p->asked_length;
  return limit;
}

static int input_index(const accel__model_entry *e, const char *name) {
  for (uint32_t i = 0; i < e->n_inputs; i++)
    if (!strcmp(e->inputs[i].name, name)) return (int)i;
  return -1;
}

static accel_status reserve(accel__model_stepper *s, uint32_t n, uint64_t tokens) {
  if (n > s->room) {
    uint32_t room = n + n / 2 + 8;
    int32_t *block = realloc(s->lengths, 3 * (size_t)room * sizeof *block);
    if (!block) return accel__no_memory(3 * (size_t)room * sizeof *block);
    s->lengths = block;
    s->held = block + room;
    s->sequence = block + 2 * (size_t)room;
    s->room = room;
  }
  if (tokens > s->room_ids) {
    uint64_t room = tokens + tokens / 2 + 64;
    int32_t *ids = realloc(s->ids, room * sizeof *ids);
    if (!ids) return accel__no_memory(room * sizeof *ids);
    s->ids = ids;
    s->room_ids = room;
  }
  return ACCEL_OK;
}

static accel_status step(void *self, accel__step_item *items, uint32_t n) {
  accel__model_stepper *s = self;
  const accel__model_entry *e = &s->session->ep->model->entries[s->decode];
  const uint32_t logits = 0;
  uint64_t tokens = 0;
  for (uint32_t i = 0; i < n; i++) tokens += items[i].n;
  ACCEL_TRY(reserve(s, n, tokens));
  tokens = 0;
  for (uint32_t i = 0; i < n; i++) {
    s->lengths[i] = (int32_t)items[i].n;
    s->held[i] = (int32_t)items[i].held;
    s->sequence[i] = items[i].sequence;
    memcpy(s->ids + tokens, items[i].ids, items[i].n * sizeof *s->ids);
    tokens += items[i].n;
  }
  accel__batch batch = {.n = n,
                        .lengths = s->lengths,
                        .tokens = tokens,
                        .decoder_lengths = s->lengths,
                        .decoder_tokens = tokens,
                        .sequence = s->sequence,
                        .held = s->held};
  int input = input_index(e, s->encode >= 0 ? "decoder_input_ids" : "input_ids");
  if (input < 0) return accel__fail(ACCEL_ERROR_INTERNAL, "%s: entry 'decode' takes no ids", s->session->ep->name);
  batch.value[input] = s->ids;
  ACCEL_TRY(accel__session_run(s->session, s->decode, &batch, &logits, 1, &s->scores));
  for (uint32_t i = 0; i < n; i++) items[i].scores = (float *)s->scores.data + i * s->stepper.vocab; /* [n, vocab] */
  return ACCEL_OK;
}

/* Which input of entry "encode" `name` is. */
static accel_status encoder_input(const accel__model_stepper *s, const char *name, int *out) {
  const accel_endpoint *ep = s->session->ep;
  *out = input_index(&ep->model->entries[s->encode], name);
  if (*out >= 0) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: the encoder of a %s takes no '%s'", ep->name, ep->model->architecture, name);
}

static accel_status encode(void *self, int32_t sequence, const accel__encoder_input *in) {
  accel__model_stepper *s = self;
  const uint32_t hidden = 0;
  int32_t length = (int32_t)in->ids.n;
  int at;
  accel__result result = {0};
  accel__batch batch = {.n = 1, .lengths = &length, .tokens = in->ids.n, .sequence = &sequence};
  if (in->ids.n) {
    ACCEL_TRY(encoder_input(s, "input_ids", &at));
    batch.value[at] = in->ids.id;
  }
  for (uint32_t i = 0; i < in->n_tensors; i++) {
    const accel_tensor *t = &in->tensor[i];
    ACCEL_TRY(encoder_input(s, t->name, &at));
    batch.item[at] = (accel__item){.data = t->data, .rank = t->rank};
    memcpy(batch.item[at].dim, t->dim, t->rank * sizeof *t->dim);
  }
  accel_status status = accel__session_run(s->session, (uint32_t)s->encode, &batch, &hidden, 1, &result);
  free(result.data);
  return status;
}

static accel_status copy(void *self, int32_t from, int32_t to) {
  return accel__session_control(((accel__model_stepper *)self)->session, ACCEL_PLUGIN_SESSION_COPY, from, to);
}
static void drop(void *self, int32_t sequence) { accel__session_drop(((accel__model_stepper *)self)->session, sequence); }
static int32_t number(void *self) { return accel__session_number(((accel__model_stepper *)self)->session); }

accel_status accel__model_stepper_open(accel__session *session, accel__model_stepper *out) {
  accel_endpoint *ep = session->ep;
  ACCEL_TRY(accel__can_generate(ep));
  int32_t decoder = accel__endpoint_entry(ep, "decode");
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel_plugin_tensor *t = &p->tensor[p->entry[decoder].out[0]];
  const accel_plugin_dim *last = &p->dim[t->dim[t->rank - 1]];
  if (last->op != ACCEL_PLUGIN_DIM_CONST) return accel__fail(ACCEL_ERROR_INTERNAL, "%s: logits of no fixed width", ep->name);
  *out = (accel__model_stepper){
      .session = session,
      .decode = (uint32_t)decoder,
      .encode = accel__endpoint_entry(ep, "encode"),
      .stepper = {.self = out, .vocab = (size_t)last->c, .step = step, .copy = copy, .drop = drop, .number = number}};
  if (out->encode >= 0) out->stepper.encode = encode;
  return ACCEL_OK;
}

void accel__model_stepper_close(accel__model_stepper *s) {
  free(s->scores.data);
  free(s->ids);
  free(s->lengths);
  *s = (accel__model_stepper){0};
}
