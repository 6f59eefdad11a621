/* unigram.c - the segmentation of highest likelihood (Kudo 2018), Viterbi over the code points of a
 * split. */
#include "text/text_internal.h"

struct accel__best {
  double score;
  uint32_t from; /* char where the last piece of the best path to here begins */
  uint32_t next; /* on the best path of all: char where the piece that begins here ends */
  int32_t id;
  bool reached;
};

enum { UNKNOWN = -2 }; /* in place of a piece's number */

/* SentencePiece keeps sums in fp32, but compares a new one before it is rounded. */
static void offer(struct accel__best *end, double score, bool single, size_t from, int32_t id) {
  if (end->reached && !(score > end->score)) return;
  *end = (struct accel__best){single ? (double)(float)score : score, (uint32_t)from, 0, id, true};
}

static accel_status no_unknown(const accel__tokenizer *t) {
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s: field 'model.unk_id' is absent, and the text holds an unknown character",
                     t->name);
}

static accel_status viterbi(const accel__tokenizer *t, const accel__char *chars, size_t n,
                            accel__encode_scratch *s) {
  const accel__vocab_model *m = &t->model;
  const bool single_sums = m->piece_id != NULL;
  const int32_t unknown = m->piece_id ? UNKNOWN : m->unk;
  ACCEL_TRY(accel__grow(&s->best, &s->best_capacity, n + 1, sizeof *s->best));
  for (size_t i = 0; i <= n; ++i) s->best[i] = (struct accel__best){0};
  for (size_t i = 0; i < n; ++i) {
    double here = s->best[i].score;
    bool single = false;
    uint32_t node = 0;
    for (size_t j = i; j < n && (node = accel__trie_step(&m->trie, node, chars[j].c)) != 0; ++j) {
      int32_t id = m->trie.value[node];
      if (id < 0) continue;
      offer(&s->best[j + 1], m->score[id] + here, single_sums, i, id);
      single = single || j == i;
    }
    if (single) continue;
    if (m->unk < 0 && (!s->best[i + 1].reached || m->unk_score + here > s->best[i + 1].score))
      return no_unknown(t);
    double score = m->unk_score + here;
    offer(&s->best[i + 1], single_sums ? (double)(float)score : score, single_sums, i, unknown);
  }
  return ACCEL_OK;
}

accel_status accel__unknown_piece(const accel__tokenizer *t, const accel__char *chars, size_t n,
                                  int32_t word, accel__encode_scratch *s, accel__tokens *out) {
  const accel__vocab_model *m = &t->model;
  size_t bytes;
  ACCEL_TRY(accel__chars_utf8(s, chars, n, &bytes));
  int32_t id = accel__vocab_id(&t->vocab, s->utf8, bytes);
  if (id >= 0) return accel__tokens_push(t, out, id, chars, n, word);
  bool spell = m->byte_fallback;
  for (size_t i = 0; spell && i < bytes; ++i) spell = m->byte_id[(uint8_t)s->utf8[i]] >= 0;
  for (size_t i = 0; spell && i < bytes; ++i)
    ACCEL_TRY(accel__tokens_push(t, out, m->byte_id[(uint8_t)s->utf8[i]], chars, n, word));
  if (spell) return ACCEL_OK;
  size_t before = out->n;
  ACCEL_TRY(accel__tokens_push(t, out, m->unk, chars, n, word));
  /* its text is the piece */
  if (t->trims) accel__count_spaces(s->utf8, bytes, &out->at[before].lead, &out->at[before].trail);
  return ACCEL_OK;
}

accel_status accel__unigram_tokenize(const accel__tokenizer *t, const accel__char *chars, size_t n,
                                     int32_t word, accel__encode_scratch *s, accel__tokens *out) {
  const int32_t *piece_id = t->model.piece_id, unknown = piece_id ? UNKNOWN : t->model.unk;
  ACCEL_TRY(viterbi(t, chars, n, s));
  for (size_t end = n; end > 0; end = s->best[end].from)
    s->best[s->best[end].from].next = (uint32_t)end;
  for (size_t i = 0; i < n;) {
    size_t from = i;
    int32_t id = s->best[s->best[i].next].id;
    i = s->best[i].next;
    if (id != unknown) {
      ACCEL_TRY(
          accel__tokens_push(t, out, piece_id ? piece_id[id] : id, chars + from, i - from, word));
      continue;
    }
    /* unknown pieces in a row are one */
    while (i < n && s->best[s->best[i].next].id == id) i = s->best[i].next;
    ACCEL_TRY(accel__unknown_piece(t, chars + from, i - from, word, s, out));
  }
  return ACCEL_OK;
}
