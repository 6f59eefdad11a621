/* added.c - added and special tokens: found in the text before (or, when `normalized`, after)
 * normalisation. */
#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"
#include "text/unicode.h"

/* The longest added token that starts at chars[0], or -1; its length in code points in *n. */
static int32_t longest(const accel__trie *trie, const accel__char *chars, size_t left, size_t *n) {
  int32_t found = -1;
  uint32_t node = 0;
  for (size_t i = 0; i < left; ++i) {
    node = accel__trie_step(trie, node, chars[i].c);
    if (!node) break;
    if (trie->value[node] < 0) continue;
    found = trie->value[node];
    *n = i + 1;
  }
  return found;
}

static bool is_word(uint32_t c) { return accel__unicode_is(c, ACCEL__UNI_WORD); }

/* Whether the match chars[at..end) counts: not if special tokens are ignored, and for single_word
 * only between characters that are no word characters. */
static bool accepted(const accel__added *added, bool ignore_special, const accel__char *chars,
                     size_t n, size_t at, size_t end) {
  if (ignore_special && added->special) return false;
  if (!added->single_word) return true;
  return (at == 0 || !is_word(chars[at - 1].c)) && (end == n || !is_word(chars[end].c));
}

static accel_status push(accel__splits *out, const accel__char *chars, size_t first, size_t from,
                         size_t to, int32_t id) {
  return accel__splits_push(out, (accel__split){first + from, to - from, chars[from].start, id});
}

accel_status accel__added_split(const accel__tokenizer *t, const accel__trie *trie,
                                bool ignore_special, const accel__char *chars, size_t n,
                                size_t first, accel__splits *out) {
  const int32_t empty = trie == &t->normalized_trie ? t->empty_added - 1 : -1;
  /* transformers' slow tokenizers then look for no added token at all */
  const bool none = ignore_special && t->characters.class != ACCEL__CHARACTERS_NONE;
  if (none) return n ? push(out, chars, first, 0, n, -1) : ACCEL_OK;
  size_t from = 0, matched = SIZE_MAX; /* start of the text not pushed yet; end of the last match */
  for (size_t i = 0; (trie->n && i < n) || (empty >= 0 && i <= n);) {
    const bool begins = i < n && trie->n && accel__trie_begins(trie, chars[i].c);
    if (!begins && empty < 0) {
      i++;
      continue;
    }
    size_t length = 0;
    int32_t index = begins ? longest(trie, chars + i, n - i, &length) : -1;
    const size_t start = i;
    size_t at = i, end = i + length;
    /* a token whose normalized form is empty matches wherever no other token does */
    if (index < 0 && start != matched) index = empty;
    /* the text of a refused match is not searched again */
    i = length ? end : i + 1;
    if (length) matched = end;
    if (index < 0 || !accepted(&t->added[index], ignore_special, chars, n, at, end)) continue;
    const accel__added *added = &t->added[index];
    while (added->lstrip && at > from && accel__is_white(chars[at - 1].c)) at--;
    while (added->rstrip && end < n && accel__is_white(chars[end].c)) end++;
    if (added->lstrip && at < from) at = from; /* the token before took these spaces */
    if (from < at) ACCEL_TRY(push(out, chars, first, from, at, -1));
    if (at < end) ACCEL_TRY(push(out, chars, first, at, end, added->id));
    from = end;
  }
  return from < n ? push(out, chars, first, from, n, -1) : ACCEL_OK;
}

static accel_status normalized_form(accel__tokenizer *t, accel__added *added,
                                    accel__encode_scratch *s) {
  added->match = added->content;
  added->match_n = added->content_n;
  if (!added->normalized || t->normalizers == 0) return ACCEL_OK;
  ACCEL_TRY(accel__chars_decode(&s->chars, added->content, added->content_n));
  ACCEL_TRY(accel__normalize(t->normalizer, t->normalizers, s));
  size_t bytes;
  ACCEL_TRY(accel__chars_utf8(s, s->chars.at, s->chars.n, &bytes));
  added->match = accel__arena_copy(&t->arena, s->utf8, bytes);
  added->match_n = bytes;
  return added->match ? ACCEL_OK : accel__no_memory(bytes);
}

static accel_status index_by_id(accel__tokenizer *t) {
  for (size_t i = 0; i < t->added_n; ++i) {
    if ((size_t)t->added[i].id >= t->added_ids) t->added_ids = (size_t)t->added[i].id + 1;
  }
  t->added_by_id = accel__arena_array(&t->arena, t->added_ids, sizeof *t->added_by_id);
  if (!t->added_by_id) return accel__no_memory(t->added_ids * sizeof *t->added_by_id);
  for (size_t i = 0; i < t->added_n; ++i) t->added_by_id[t->added[i].id] = (uint32_t)i + 1;
  /* Of tokens with one id the last counts; as in Hugging Face's tokenizers it is skipped if any of
   * them is special, and shown normalized if any of them is normalized. */
  for (size_t i = 0; i < t->added_n; ++i) {
    const accel__added *a = &t->added[i];
    accel__added *counts = &t->added[t->added_by_id[a->id] - 1];
    counts->skipped |= a->special;
    if (!counts->shown || a->normalized) counts->shown = a->match, counts->shown_n = a->match_n;
  }
  return ACCEL_OK;
}

static accel_status build_trie(const accel__tokenizer *t, bool normalized, accel__trie *out) {
  if (t->added_n == 0) return ACCEL_OK;
  accel__trie_string *strings = calloc(t->added_n, sizeof *strings);
  if (!strings) return accel__no_memory(t->added_n * sizeof *strings);
  size_t n = 0;
  for (size_t i = 0; i < t->added_n; ++i) {
    const accel__added *added = &t->added[i];
    if (added->normalized != normalized || t->added_by_id[added->id] != i + 1 ||
        added->match_n == 0)
      continue;
    /* Of those that normalization made equal the first wins, special ones before others; the trie
     * keeps the highest. */
    size_t rank = added->special ? i : t->added_n + i;
    strings[n++] = (accel__trie_string){
        .text = added->match, .n = added->match_n, .value = (int32_t)(2 * t->added_n - 1 - rank)};
  }
  accel_status status = accel__trie_build(out, strings, n);
  for (size_t i = 0; status == ACCEL_OK && i < out->n; ++i) {
    size_t rank = 2 * t->added_n - 1 - (size_t)(out->value[i] < 0 ? 0 : out->value[i]);
    if (out->value[i] >= 0) out->value[i] = (int32_t)(rank % t->added_n);
  }
  free(strings);
  return status;
}

/* Index + 1 of the token whose normalized form is empty, 0: none.  Special ones come first, then
 * the lowest index. */
static int32_t empty_one(const accel__tokenizer *t) {
  int32_t found = 0;
  for (size_t i = t->added_n; i-- > 0;) {
    const accel__added *added = &t->added[i];
    if (!added->normalized || t->added_by_id[added->id] != i + 1 || added->match_n) continue;
    if (!found || added->special || !t->added[found - 1].special) found = (int32_t)i + 1;
  }
  return found;
}

accel_status accel__added_build(accel__tokenizer *t) {
  accel__encoding memory = {.scratch = calloc(1, sizeof *memory.scratch)};
  accel_status status = memory.scratch ? ACCEL_OK : accel__no_memory(sizeof *memory.scratch);
  for (size_t i = 0; status == ACCEL_OK && i < t->added_n; ++i)
    status = normalized_form(t, &t->added[i], memory.scratch);
  accel__encoding_free(&memory);
  ACCEL_TRY(status);
  ACCEL_TRY(index_by_id(t));
  t->empty_added = empty_one(t);
  ACCEL_TRY(build_trie(t, false, &t->raw_trie));
  return build_trie(t, true, &t->normalized_trie);
}
