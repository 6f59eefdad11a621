/* pairs.c - SentencePiece's own BPE: symbols begin as code points, and of two neighbours whose text
 * is a piece those of the highest score are joined, leftmost first, until none are left (Sennrich
 * et al. 2016; order and ties as in bpe_model.cc of google/sentencepiece).  A code point that is no
 * piece may still be part of one. */
#include "text/text_internal.h"

struct accel__joint {
  double score;
  uint32_t at, n; /* the left symbol; code points of both */
  int32_t piece;
};
struct accel__piece {
  uint32_t prev, next; /* symbols begin at code points and are named by them; NONE at the ends */
  uint32_t n;          /* code points; 0: joined to its left neighbour */
  int32_t piece;       /* -1: unknown */
};

enum { NONE = UINT32_MAX };

/* ---- the queue: a binary heap, highest score first, then leftmost ---- */

static bool before(const struct accel__joint *a, const struct accel__joint *b) {
  return a->score != b->score ? a->score > b->score : a->at < b->at;
}

static accel_status push(accel__encode_scratch *s, size_t *n, struct accel__joint new) {
  ACCEL_TRY(accel__grow(&s->joint, &s->joint_capacity, *n + 1, sizeof *s->joint));
  size_t i = (*n)++;
  for (; i > 0 && before(&new, &s->joint[(i - 1) / 2]); i = (i - 1) / 2)
    s->joint[i] = s->joint[(i - 1) / 2];
  s->joint[i] = new;
  return ACCEL_OK;
}

static struct accel__joint pop(accel__encode_scratch *s, size_t *n) {
  struct accel__joint top = s->joint[0], last = s->joint[--*n];
  size_t i = 0;
  for (size_t child = 1; child < *n; child = 2 * i + 1) {
    if (child + 1 < *n && before(&s->joint[child + 1], &s->joint[child])) child++;
    if (!before(&s->joint[child], &last)) break;
    s->joint[i] = s->joint[child];
    i = child;
  }
  s->joint[i] = last;
  return top;
}

/* ---- symbols ---- */

/* The piece that these code points spell; -1 none. */
static int32_t piece_of(const accel__vocab_model *m, const accel__char *chars, size_t n) {
  uint32_t node = 0;
  for (size_t i = 0; i < n; ++i)
    if ((node = accel__trie_step(&m->trie, node, chars[i].c)) == 0) return -1;
  return m->trie.value[node];
}

static accel_status push_pair(const accel__vocab_model *m, const accel__char *chars,
                              accel__encode_scratch *s, size_t *heap, uint32_t left,
                              uint32_t right) {
  if (left == NONE || right == NONE) return ACCEL_OK;
  const uint32_t n = s->piece[left].n + s->piece[right].n;
  const int32_t piece = piece_of(m, chars + left, n);
  return piece < 0 ? ACCEL_OK
                   : push(s, heap, (struct accel__joint){m->score[piece], left, n, piece});
}

static accel_status join_all(const accel__vocab_model *m, const accel__char *chars, size_t n,
                             accel__encode_scratch *s) {
  size_t heap = 0;
  for (size_t i = 0; i + 1 < n; ++i)
    ACCEL_TRY(push_pair(m, chars, s, &heap, (uint32_t)i, (uint32_t)i + 1));
  while (heap > 0) {
    const struct accel__joint top = pop(s, &heap);
    struct accel__piece *left = &s->piece[top.at];
    /* changed since */
    if (left->n == 0 || left->next == NONE || left->n + s->piece[left->next].n != top.n) continue;
    struct accel__piece *right = &s->piece[left->next];
    left->n = top.n;
    left->piece = top.piece;
    left->next = right->next;
    right->n = 0;
    if (left->next != NONE) s->piece[left->next].prev = top.at;
    ACCEL_TRY(push_pair(m, chars, s, &heap, left->prev, top.at));
    ACCEL_TRY(push_pair(m, chars, s, &heap, top.at, left->next));
  }
  return ACCEL_OK;
}

accel_status accel__pairs_tokenize(const accel__tokenizer *t, const accel__char *chars, size_t n,
                                   int32_t word, accel__encode_scratch *s, accel__tokens *out) {
  const accel__vocab_model *m = &t->model;
  ACCEL_TRY(accel__grow(&s->piece, &s->piece_capacity, n + 1, sizeof *s->piece));
  for (size_t i = 0; i < n; ++i)
    s->piece[i] =
        (struct accel__piece){i ? (uint32_t)i - 1 : NONE, i + 1 < n ? (uint32_t)i + 1 : NONE, 1,
                              piece_of(m, chars + i, 1)};
  ACCEL_TRY(join_all(m, chars, n, s));
  for (size_t i = 0, end; i < n; i = end) {
    end = i + s->piece[i].n;
    if (s->piece[i].piece >= 0) {
      ACCEL_TRY(
          accel__tokens_push(t, out, m->piece_id[s->piece[i].piece], chars + i, end - i, word));
      continue;
    }
    /* unknown ones in a row are one */
    while (end < n && s->piece[end].piece < 0) end += s->piece[end].n;
    ACCEL_TRY(accel__unknown_piece(t, chars + i, end - i, word, s, out));
  }
  return ACCEL_OK;
}
