/* assistant_draft.c - the small model's session: what it has read, what it guesses next. */
#include "generate/assistant_draft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate/model_stepper.h"
#include "processing/processor.h"

/* What it has read of one sequence: ids[past_len) of the request's, or guesses from `base` on. */
typedef struct follower {
  int32_t sequence; /* of the small model; -1: none yet */
  uint32_t past_len, base;
  int32_t guess[ACCEL__MOST_DRAFTS];
} follower;

typedef struct accel__assistant_draft {
  accel__session *session;
  accel__model_stepper stepper;
  follower *of;    /* by number of the request's sequence */
  size_t vocab;    /* of the large model */
  float *scores;   /* [vocab] */
  int64_t context; /* tokens that the small model can take; 0: any */
  double ms;
} accel__assistant_draft;

/* ---- can it guess ---- */

/* Tokens that the two tokenizers call differently; a few hundred of them are compared. */
static int32_t differing_token(const accel__tokenizer *a, const accel__tokenizer *b) {
  const uint32_t n = accel__tokenizer_describe(a)->max_id + 1, step = n / 512 + 1;
  for (uint32_t id = 0; id < n; id += step) {
    size_t x = 0, y = 0;
    const char *one = accel__id_to_token(a, (int32_t)id, &x),
               *other = accel__id_to_token(b, (int32_t)id, &y);
    if (!one != !other || (one && (x != y || memcmp(one, other, x)))) return (int32_t)id;
  }
  return -1;
}

accel_status accel__assistant_check(const accel_endpoint *ep, const accel_endpoint *assistant) {
  const accel__tokenizer *mine = accel__processor_for(ep)->tokenizer,
                         *its = accel__processor_for(assistant)->tokenizer;
  ACCEL_TRY(accel__can_generate(assistant));
  if (assistant->model->is_encoder_decoder || ep->model->is_encoder_decoder)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: assistant_model is for decoders; a %s reads its text with an encoder",
                       ep->name,
                       (ep->model->is_encoder_decoder ? ep : assistant)->model->architecture);
  if (accel__fixed_state(assistant))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: assistant_model %s: its state '%s' cannot go back to fewer tokens",
                       ep->name, assistant->name, accel__fixed_state(assistant));
  const int32_t id = mine && its ? differing_token(mine, its) : -1;
  if (id >= 0)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_UNSUPPORTED,
                    "%s: assistant_model %s has another vocabulary: token %d is not the same",
                    ep->name, assistant->name, id),
        "take a smaller model of the same family, or prompt_lookup_num_tokens");
  return ACCEL_OK;
}

/* ---- life ---- */

void accel__assistant_free(accel__assistant_draft **draft) {
  accel__assistant_draft *d = *draft;
  *draft = NULL;
  if (!d) return;
  accel__model_stepper_close(&d->stepper);
  accel__session_close(&d->session);
  free(d->of);
  free(d->scores);
  free(d);
}

static accel_status open_draft(accel_endpoint *ep, uint32_t sequences, size_t vocab,
                               accel__assistant_draft **out) {
  accel__assistant_draft *d = calloc(1, sizeof *d);
  if (!d) return accel__no_memory(sizeof *d);
  d->vocab = vocab;
  d->context = accel__context_length(ep);
  d->of = calloc(sequences, sizeof *d->of);
  d->scores = malloc(vocab * sizeof *d->scores);
  for (uint32_t i = 0; d->of && i < sequences; i++) d->of[i].sequence = -1;
  accel_status status = d->of && d->scores ? ACCEL_OK : accel__no_memory(vocab * sizeof *d->scores);
  if (status == ACCEL_OK) status = accel__session_open(ep, &d->session);
  if (status == ACCEL_OK) status = accel__model_stepper_open(d->session, &d->stepper);
  if (status == ACCEL_OK)
    *out = d;
  else
    accel__assistant_free(&d);
  return status;
}

double accel__assistant_ms(const accel__assistant_draft *d) { return d ? d->ms : 0; }

/* ---- guesses ---- */

/* It keeps what the request has, too, but for the last token. */
static accel_status go_back(accel__assistant_draft *d, follower *f, const accel__hypothesis *h) {
  const accel__stepper *model = &d->stepper.stepper;
  if (f->sequence < 0) {
    f->sequence = model->number(model->self);
    f->past_len = f->base = 0;
    return f->sequence < 0 ? accel__no_memory(0) : ACCEL_OK;
  }
  uint32_t same = f->past_len < f->base ? f->past_len : f->base;
  while (same < f->past_len && same < h->n && h->ids[same] == f->guess[same - f->base]) same++;
  if (same > h->n - 1) same = h->n - 1;
  if (same == f->past_len) return ACCEL_OK;
  f->past_len = same;
  return model->truncate(model->self, f->sequence, same);
}

/* Reads what is new; the scores of the token behind it are in d->scores. */
static accel_status read_on(accel__assistant_draft *d, follower *f, const accel__hypothesis *h) {
  const accel__stepper *model = &d->stepper.stepper;
  const uint32_t most = model->limits.step_tokens ? model->limits.step_tokens : ACCEL__STEP_TOKENS;
  accel__step_item item = {.sequence = f->sequence};
  const double begin = accel__now_ms();
  const bool brief = h->n - f->past_len <= 2;
  for (; f->past_len < h->n; f->past_len += item.n) {
    const uint32_t rest = h->n - f->past_len;
    item.ids = h->ids + f->past_len;
    item.past_len = f->past_len;
    item.n = rest < most ? rest : most;
    item.total_len = h->n;
    ACCEL_TRY(model->step(model->self, &item, 1));
  }
  const double ms = accel__now_ms() - begin;
  if (brief) d->ms = d->ms > 0 ? d->ms + 0.2 * (ms - d->ms) : ms;
  const size_t n = model->vocab < d->vocab ? model->vocab : d->vocab;
  memcpy(d->scores, item.scores, n * sizeof *d->scores);
  for (size_t i = n; i < d->vocab; i++) d->scores[i] = -INFINITY;
  return ACCEL_OK;
}

accel_status accel__assistant_guess(accel__engine *e, accel__request *r, accel__hypothesis *h,
                                    uint32_t most) {
  accel__speculation *s = r->progress.speculation;
  if (!s->draft)
    ACCEL_TRY(open_draft(r->options.speculate.assistant, r->options.config->num_return,
                         e->model->vocab, &s->draft));
  accel__assistant_draft *d = s->draft;
  follower *f = &d->of[h->number];
  accel__hypothesis ahead = *h; /* as it may come to be; its ids are those of h */
  ACCEL_TRY(go_back(d, f, h));
  f->base = h->n;
  for (h->drafted = 0; h->drafted < most; h->drafted++) {
    int64_t token;
    float raw;
    if (d->context > 0 && ahead.n > d->context) return ACCEL_OK;
    ACCEL_TRY(read_on(d, f, &ahead));
    ACCEL_TRY(accel__sample_choose(e, r, &ahead, d->scores, &token, &raw));
    if (accel__is_eos(r->options.config, (int32_t)token)) return ACCEL_OK;
    f->guess[h->drafted] = ahead.ids[ahead.n++] = (int32_t)token;
    ACCEL_TRY(accel__request_match(r, &ahead, (int32_t)token));
  }
  return ACCEL_OK;
}
