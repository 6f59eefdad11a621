/* speculate.c - prompt lookup, and how many guesses pay. */
#include "generate/speculate.h"

#include <math.h>
#include <stdlib.h>

#include "generate/assistant_draft.h"

void accel__step_cost_note(accel__step_cost *c, uint32_t sequences, uint32_t rows, double ms) {
  const double share = 0.2; /* of the newest */
  if (rows == sequences) {
    if (c->sequences != sequences || c->plain <= 0) {
      c->plain = ms;
      c->sequences = sequences;
      if (c->more <= 0) c->more = 0.25 * ms; /* until one is measured */
    }
    c->plain += share * (ms - c->plain);
  } else if (c->sequences == sequences && rows > sequences) {
    const double each = (ms - c->plain) / (rows - sequences), more = each < 0          ? 0
                                                                     : each < c->plain ? each
                                                                                       : c->plain;
    c->measured++; /* the mean of the first ones and of what was presumed */
    c->more += fmax(share, 1.0 / (c->measured + 1)) * (more - c->more);
  }
}

static double chance(const accel__odds *o) {
  return (o->right + o->prior) / (o->right + o->wrong + 1.0);
}

static void note_odds(accel__odds *o, uint32_t right, bool wrong) {
  const double keep = 0.9; /* of the older ones, with each step */
  o->right = keep * o->right + right;
  o->wrong = keep * o->wrong + wrong;
}

uint32_t accel__speculate_count(accel__guess_record *r, const accel__step_cost *cost, double each,
                                uint32_t most) {
  enum { FIRST_PAUSE = 16, LONGEST_PAUSE = 512 };
  if (cost->plain <= 0 || !most) return 0;
  const double next = chance(r->next), row = cost->more + each;
  double best = cost->sequences / cost->plain, expected = 0, right = chance(&r->first);
  uint32_t count = 0;
  for (uint32_t k = 1; k <= most; k++) {
    expected += right; /* the chance that guesses up to this one are */
    const double rate = (cost->sequences + expected) / (cost->plain + k * row);
    if (rate > best) best = rate, count = k;
    right *= next;
  }
  if (count) return r->pause = 0, count;
  if (!r->pause) r->pause = FIRST_PAUSE, r->waited = 0;
  if (++r->waited <= r->pause) return 0;
  r->waited = 0;
  r->pause = r->pause < LONGEST_PAUSE ? 2 * r->pause : LONGEST_PAUSE;
  return 1;
}

void accel__speculate_note(accel__guess_record *r, uint32_t made, uint32_t right) {
  if (!made) return;
  note_odds(&r->first, right > 0, !right);
  if (right && made > 1) note_odds(r->next, right - 1, right < made);
}

uint32_t accel__lookup(accel__ids where, accel__ids ids, uint32_t ngram, uint32_t *n) {
  uint32_t at = 0;
  *n = 0;
  for (uint32_t end = where.n; end > 0 && *n < ngram; end--) {
    uint32_t length = 0;
    while (length < ngram && length < end && length < ids.n &&
           where.id[end - 1 - length] == ids.id[ids.n - 1 - length])
      length++;
    if (length > *n) *n = length, at = end;
  }
  return at;
}

/* ---- of a request ---- */

accel_status accel__speculation_begin(accel__request *r) {
  /* of an assistant; behind one token, two, three, four */
  static const double prior[ACCEL__NGRAM + 1] = {0.6, 0.15, 0.5, 0.7, 0.8}, next[2] = {0.6, 0.8};
  accel__speculation *s = calloc(1, sizeof *s);
  if (!s) return accel__no_memory(sizeof *s);
  for (int i = 0; i < 2; i++) s->next[i].prior = next[i];
  for (int i = 0; i <= ACCEL__NGRAM; i++)
    s->record[i] = (accel__guess_record){.first.prior = prior[i], .next = &s->next[i > 0]};
  r->progress.speculation = s;
  return ACCEL_OK;
}

void accel__speculation_end(accel__request *r) {
  accel__speculation *s = r->progress.speculation;
  if (s) accel__assistant_free(&s->draft);
  free(s);
  r->progress.speculation = NULL;
}

/* Of ids[n ..), the guesses that may come as far as it is known: nothing ends the sequence, and the
 * grammar goes on. */
static uint32_t allowed(const accel__request *r, const accel__hypothesis *h, uint32_t n) {
  const accel__constraint *c = r->progress.constraint;
  uint32_t match = h->match;
  for (uint32_t i = 0; i < n; i++) {
    const int32_t token = h->ids[h->n + i];
    if (accel__is_eos(r->options.config, token)) return i;
    if (!c) continue;
    if (accel__matcher_advance(c->matcher, match, token, &match) != ACCEL_OK) {
      accel__clear_error();
      return i;
    }
    if (match == ACCEL__MATCH_FAILED) return i;
  }
  return n;
}

/* What stood behind the longest n-gram, in the sequence or in what an encoder has read. */
static void look_up(accel__engine *e, accel__request *r, accel__hypothesis *h, uint32_t most) {
  accel__speculation *s = r->progress.speculation;
  const uint32_t ngram = r->options.speculate.ngram;
  accel__ids where = {h->ids, h->n - 1};
  uint32_t length, other = 0, at = accel__lookup(where, (accel__ids){h->ids, h->n}, ngram, &length);
  const bool own = length == ngram || !r->input.encodes;
  const uint32_t there =
      own ? 0 : accel__lookup(r->input.encoder.ids, (accel__ids){h->ids, h->n}, ngram, &other);
  if (other > length) where = r->input.encoder.ids, length = other, at = there;
  if (!length) return;
  h->ngram = length < ACCEL__NGRAM ? length : ACCEL__NGRAM;
  const uint32_t k = accel__speculate_count(&s->record[h->ngram], &e->cost, 0, most);
  /* behind the end of the sequence are the guesses before */
  for (uint32_t i = 0; i < k && (where.id == h->ids || at + i < where.n); i++)
    h->ids[h->n + h->drafted++] = where.id[at + i];
  h->drafted = allowed(r, h, h->drafted);
}

void accel__speculate(accel__engine *e, accel__request *r, accel__hypothesis *h, uint32_t most) {
  accel__speculation *s = r->progress.speculation;
  const accel__speculate_options *how = &r->options.speculate;
  h->drafted = h->ngram = 0;
  if (!s || s->off || h->n - h->past_len != 1) return;
  const uint32_t left = r->options.new_tokens - (h->n - r->input.prompt.n);
  if (most > how->most) most = how->most;
  if (most > left - 1) most = left - 1;
  if (!most || accel__hypothesis_reserve(h, h->n + most) != ACCEL_OK) return;
  if (!how->assistant) {
    look_up(e, r, h, most);
    return;
  }
  most = accel__speculate_count(&s->record[0], &e->cost, accel__assistant_ms(s->draft), most);
  if (!most || accel__assistant_guess(e, r, h, most) == ACCEL_OK) return;
  accel__clear_error(); /* the request goes on without it */
  s->off = true;
  h->drafted = 0;
}

void accel__speculation_checked(accel__request *r, accel__hypothesis *h, uint32_t made,
                                uint32_t right) {
  accel__speculate_note(&r->progress.speculation->record[h->ngram], made, right);
  h->draft_tokens += made;
  h->accepted_tokens += right;
}
