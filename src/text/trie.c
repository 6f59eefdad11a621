/* trie.c - a read-only trie over code points.  Nodes are numbered breadth first, so the children of
 * a node lie side by side and an edge is found by binary search; built level by level from the
 * sorted strings. */
#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"

static int by_text(const void *a, const void *b) {
  const accel__trie_string *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  size_t n = x->n < y->n ? x->n : y->n;
  int order = n ? memcmp(x->text, y->text, n) : 0;
  if (order == 0) order = (x->n > y->n) - (x->n < y->n);
  return order ? order : (x->value > y->value) - (x->value < y->value);
}

/* The first 8 bytes as a number that sorts as they do (a string and the same with NULs behind it
 * are told apart by by_text).
 */
static uint64_t first_bytes(const accel__trie_string *s) {
  uint64_t key = 0;
  for (size_t i = 0; i < 8; ++i) key = key << 8 | (i < s->n ? (uint8_t)s->text[i] : 0);
  return key;
}

/* A node being built: the strings [first, end) pass through it, having used up `depth` bytes. */
typedef struct range {
  size_t first, end, depth;
} range;

static accel_status push_node(accel__trie *t, size_t *capacity, range **open, size_t *open_capacity,
                              uint32_t label, range r) {
  size_t labels = *capacity, values = *capacity, firsts = *capacity;
  if (t->n + 2 > *capacity) {
    ACCEL_TRY(accel__grow(&t->label, &labels, t->n + 2, sizeof *t->label));
    ACCEL_TRY(accel__grow(&t->value, &values, t->n + 2, sizeof *t->value));
    ACCEL_TRY(accel__grow(&t->first, &firsts, t->n + 2, sizeof *t->first));
    *capacity = labels;
  }
  ACCEL_TRY(accel__grow(open, open_capacity, t->n + 1, sizeof **open));
  t->label[t->n] = label;
  t->value[t->n] = -1;
  (*open)[t->n++] = r;
  return ACCEL_OK;
}

/* Children of the node that `r` stands for: one per code point that follows. */
static accel_status push_children(accel__trie *t, size_t *capacity, range **open,
                                  size_t *open_capacity, const accel__trie_string *s, range r) {
  for (size_t i = r.first; i < r.end;) {
    uint32_t c, other;
    size_t length = accel__utf8_decode(s[i].text + r.depth, s[i].n - r.depth, &c);
    size_t end = i + 1;
    while (end < r.end && s[end].n >= r.depth + length &&
           memcmp(s[end].text + r.depth, s[i].text + r.depth, length) == 0) {
      if (accel__utf8_decode(s[end].text + r.depth, s[end].n - r.depth, &other) != length) break;
      end++;
    }
    ACCEL_TRY(push_node(t, capacity, open, open_capacity, c, (range){i, end, r.depth + length}));
    i = end;
  }
  return ACCEL_OK;
}

static accel_status build(accel__trie *t, const accel__trie_string *s, size_t n, range **open) {
  size_t capacity = 0, open_capacity = 0;
  ACCEL_TRY(push_node(t, &capacity, open, &open_capacity, 0, (range){0, n, 0}));
  for (size_t node = 0; node < t->n; ++node) {
    range r = (*open)[node];
    t->first[node] = (uint32_t)t->n;
    /* ends here */
    while (r.first < r.end && s[r.first].n == r.depth) t->value[node] = s[r.first++].value;
    ACCEL_TRY(push_children(t, &capacity, open, &open_capacity, s, r));
  }
  t->first[t->n] = (uint32_t)t->n;
  t->value[0] = -1; /* the empty string */
  for (uint32_t i = t->first[0]; i < t->first[1]; ++i) {
    if (t->label[i] < 128)
      t->ascii[t->label[i] >> 6] |= (uint64_t)1 << (t->label[i] & 63);
    else
      t->others = true;
  }
  return ACCEL_OK;
}

accel_status accel__trie_build(accel__trie *t, accel__trie_string *strings, size_t n) {
  *t = (accel__trie){0};
  if (n == 0) return ACCEL_OK;
  for (size_t i = 0; i < n; ++i) strings[i].key = first_bytes(&strings[i]);
  qsort(strings, n, sizeof *strings, by_text);
  range *open = NULL;
  accel_status status = build(t, strings, n, &open);
  free(open);
  if (status != ACCEL_OK) accel__trie_free(t);
  return status;
}

uint32_t accel__trie_step(const accel__trie *t, uint32_t node, uint32_t c) {
  if (t->n == 0) return 0;
  uint32_t low = t->first[node], high = t->first[node + 1];
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (t->label[middle] < c)
      low = middle + 1;
    else
      high = middle;
  }
  return low < t->first[node + 1] && t->label[low] == c ? low : 0;
}

size_t accel__trie_bytes(const accel__trie *t) {
  return t->n * (sizeof *t->first + sizeof *t->label + sizeof *t->value);
}

void accel__trie_free(accel__trie *t) {
  free(t->first);
  free(t->label);
  free(t->value);
  *t = (accel__trie){0};
}
