/* normalize.c - the normalizers of tokenizer.json, on code points that know where they come from.
 *
 * Removing a code point leaves the others' places alone.  Whatever adds, replaces or reorders goes
 * through transform(), which follows the `tokenizers` package's rule for alignments: see struct
 * accel__change.
 */
#include "text/text_internal.h"
#include "text/unicode.h"

/* One code point of the result.  change 0: takes the place of the next old one; 1: new, shares the
 * place of the one before; -k: takes the place of the next old one, and the k after it are gone. */
struct accel__change {
  uint32_t c;
  int32_t change;
  uint8_t combining;
};

static accel_status push_change(accel__encode_scratch *s, uint32_t c, int32_t change,
                                uint8_t combining) {
  if (s->change_n == s->change_capacity) {
    ACCEL_TRY(accel__grow(&s->change, &s->change_capacity, s->change_n + 1, sizeof *s->change));
  }
  s->change[s->change_n++] = (struct accel__change){c, change, combining};
  return ACCEL_OK;
}

static void swap_chars(accel__encode_scratch *s) {
  accel__chars kept = s->chars;
  s->chars = s->other;
  s->other = kept;
}

static accel_status transform(accel__encode_scratch *s) {
  const accel__chars *old = &s->chars;
  accel__chars *new = &s->other;
  if (old->n == 0) return ACCEL_OK;
  new->n = 0;
  ACCEL_TRY(accel__grow(&new->at, &new->capacity, s->change_n, sizeof *new->at));
  size_t at = 0;
  for (size_t i = 0; i < s->change_n; ++i) {
    const struct accel__change *change = &s->change[i];
    size_t place = change->change > 0 ? (at ? at - 1 : 0) : at;
    if (place >= old->n) place = old->n - 1;
    new->at[new->n++] = (accel__char){change->c, old->at[place].start, old->at[place].end};
    if (change->change <= 0) at += 1 + (size_t)-change->change;
  }
  swap_chars(s);
  return ACCEL_OK;
}

/* ---- one code point after the other ---- */

bool accel__is_white(uint32_t c) { return accel__unicode_is(c, ACCEL__UNI_WHITE); }

static void remove_flagged(accel__chars *chars, unsigned flag) {
  size_t kept = 0;
  for (size_t i = 0; i < chars->n; ++i) {
    if (!accel__unicode_is(chars->at[i].c, flag)) chars->at[kept++] = chars->at[i];
  }
  chars->n = kept;
}

static void clean_text(accel__chars *chars) {
  size_t kept = 0;
  for (size_t i = 0; i < chars->n; ++i) {
    accel__char at = chars->at[i];
    unsigned flags = accel__unicode(at.c)->flags;
    if (flags & ACCEL__UNI_CONTROL) continue;
    if (flags & ACCEL__UNI_WHITE) at.c = ' ';
    chars->at[kept++] = at;
  }
  chars->n = kept;
}

static accel_status space_chinese(accel__encode_scratch *s) {
  size_t found = 0;
  for (size_t i = 0; i < s->chars.n; ++i)
    found += s->chars.at[i].c >= 0x3400 && accel__unicode_is(s->chars.at[i].c, ACCEL__UNI_CJK);
  if (!found) return ACCEL_OK;
  accel__chars *new = &s->other;
  new->n = 0;
  ACCEL_TRY(accel__grow(&new->at, &new->capacity, s->chars.n + 2 * found, sizeof *new->at));
  for (size_t i = 0; i < s->chars.n; ++i) {
    accel__char at = s->chars.at[i], space = {' ', at.start, at.end};
    bool chinese = accel__unicode_is(at.c, ACCEL__UNI_CJK);
    if (chinese) new->at[new->n++] = space;
    new->at[new->n++] = at;
    if (chinese) new->at[new->n++] = space;
  }
  swap_chars(s);
  return ACCEL_OK;
}

static accel_status uppercase(accel__encode_scratch *s) {
  s->other.n = 0;
  for (size_t i = 0; i < s->chars.n; ++i) {
    uint32_t out[3];
    const accel__char at = s->chars.at[i];
    const bool small = at.c >= 'a' && at.c <= 'z'; /* the table begins behind ASCII */
    const size_t n = accel__unicode_upper(small ? at.c - 32 : at.c, out);
    for (size_t k = 0; k < n; ++k)
      ACCEL_TRY(accel__chars_push(&s->other, out[k], at.start, at.end));
  }
  swap_chars(s);
  return ACCEL_OK;
}

static accel_status lowercase(accel__encode_scratch *s) {
  size_t two = 0;
  for (size_t i = 0; i < s->chars.n; ++i) {
    uint32_t c = s->chars.at[i].c;
    if (c < 0x80)
      s->chars.at[i].c = c - 'A' < 26 ? c + 32 : c;
    else if (c == 0x130)
      two++;
    else
      s->chars.at[i].c = c + (uint32_t)accel__unicode(c)->lower;
  }
  if (!two) return ACCEL_OK;
  accel__chars *new = &s->other;
  new->n = 0;
  for (size_t i = 0; i < s->chars.n; ++i) {
    uint32_t out[2];
    accel__char at = s->chars.at[i];
    size_t n = at.c == 0x130 ? accel__unicode_lower(at.c, out) : 1;
    ACCEL_TRY(accel__chars_push(new, n == 2 ? out[0] : at.c, at.start, at.end));
    if (n == 2) ACCEL_TRY(accel__chars_push(new, out[1], at.start, at.end));
  }
  swap_chars(s);
  return ACCEL_OK;
}

static void strip(accel__chars *chars, bool left, bool right) {
  size_t first = 0, end = chars->n;
  while (left && first < end && accel__is_white(chars->at[first].c)) first++;
  while (right && end > first && accel__is_white(chars->at[end - 1].c)) end--;
  for (size_t i = first; i < end; ++i) chars->at[i - first] = chars->at[i];
  chars->n = end - first;
}

static bool nmt_removes(uint32_t c) {
  return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
         c == 0x9F;
}
static bool nmt_space(uint32_t c) {
  return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
         c == 0xFFFD;
}

static void nmt(accel__chars *chars) {
  size_t kept = 0;
  for (size_t i = 0; i < chars->n; ++i) {
    accel__char at = chars->at[i];
    if (nmt_removes(at.c)) continue;
    if (nmt_space(at.c)) at.c = ' ';
    chars->at[kept++] = at;
  }
  chars->n = kept;
}

/* ---- normal forms ---- */

/* Could decomposition change this text at all? */
static bool is_plain(const accel__chars *chars) {
  for (size_t i = 0; i < chars->n; ++i) {
    uint32_t c = chars->at[i].c;
    if (c < 0xA0) continue;
    const accel__unicode_record *u = accel__unicode(c);
    if ((u->flags & (ACCEL__UNI_DECOMPOSES | ACCEL__UNI_COMPOSES)) || u->combining ||
        (c >= 0x1100 && c < 0xD7B0))
      return false;
  }
  return true;
}

/* Stable sort of a short run of marks by combining class. */
static void sort_marks(struct accel__change *run, size_t n) {
  for (size_t i = 1; i < n; ++i) {
    struct accel__change mark = run[i];
    size_t j = i;
    for (; j > 0 && run[j - 1].combining > mark.combining; --j) run[j] = run[j - 1];
    run[j] = mark;
  }
}

/* Counting sort for long runs, so that a text of nothing but marks costs no quadratic time. */
static accel_status sort_long_run(accel__encode_scratch *s, size_t from) {
  size_t n = s->change_n - from;
  ACCEL_TRY(accel__grow(&s->change, &s->change_capacity, s->change_n + n, sizeof *s->change));
  struct accel__change *run = s->change + from, *copy = s->change + s->change_n;
  size_t place[257] = {0};
  for (size_t i = 0; i < n; ++i) place[run[i].combining + 1]++;
  for (size_t k = 1; k < 257; ++k) place[k] += place[k - 1];
  for (size_t i = 0; i < n; ++i) copy[i] = run[i];
  for (size_t i = 0; i < n; ++i) run[place[copy[i].combining]++] = copy[i];
  return ACCEL_OK;
}

static accel_status end_run(accel__encode_scratch *s, size_t from) {
  if (s->change_n - from < 2) return ACCEL_OK;
  if (s->change_n - from > 32) return sort_long_run(s, from);
  sort_marks(s->change + from, s->change_n - from);
  return ACCEL_OK;
}

static accel_status decompose(accel__encode_scratch *s, bool compatible) {
  s->change_n = 0;
  size_t run = 0; /* first mark since the last starter */
  for (size_t i = 0; i < s->chars.n; ++i) {
    uint32_t parts[ACCEL__UNICODE_DECOMPOSED_MAX];
    size_t n = accel__unicode_decompose(s->chars.at[i].c, compatible, parts);
    for (size_t j = 0; j < n; ++j) {
      uint8_t combining = accel__unicode(parts[j])->combining;
      if (combining == 0) ACCEL_TRY(end_run(s, run));
      ACCEL_TRY(push_change(s, parts[j], j > 0, combining));
      if (combining == 0) run = s->change_n;
    }
  }
  return end_run(s, run);
}

/* Canonical composition of s->change in place (UAX 15): a mark joins the last starter unless one of
 * its own class or higher lies between.  The starter swallows the place of what it absorbs. */
static void compose(accel__encode_scratch *s) {
  struct accel__change *at = s->change;
  size_t n = 0, starter = SIZE_MAX;
  int last = -1; /* combining class of the mark before; -1: directly after the starter */
  for (size_t i = 0; i < s->change_n; ++i) {
    struct accel__change next = at[i];
    if (starter != SIZE_MAX && last < (int)next.combining) {
      uint32_t composed = accel__unicode_compose(at[starter].c, next.c);
      if (composed) {
        at[starter].c = composed;
        at[starter].change += next.change - 1;
        continue;
      }
    }
    if (next.combining == 0) {
      starter = n;
      last = -1;
    } else if (starter != SIZE_MAX) {
      last = next.combining;
    }
    at[n++] = next;
  }
  s->change_n = n;
}

static accel_status normal_form(accel__encode_scratch *s, bool compatible, bool composed) {
  if (is_plain(&s->chars)) return ACCEL_OK;
  ACCEL_TRY(decompose(s, compatible));
  if (composed) compose(s);
  return transform(s);
}

static accel_status bert(const accel__normalizer *step, accel__encode_scratch *s) {
  if (step->clean_text) clean_text(&s->chars);
  if (step->handle_chinese_chars) ACCEL_TRY(space_chinese(s));
  if (step->strip_accents) {
    ACCEL_TRY(normal_form(s, false, false));
    remove_flagged(&s->chars, ACCEL__UNI_NONSPACING);
  }
  return step->lowercase ? lowercase(s) : ACCEL_OK;
}

/* ---- SentencePiece's precompiled character map ---- */

static bool is_hangul_l(uint32_t c) {
  return (c >= 0x1100 && c <= 0x115F) || (c >= 0xA960 && c <= 0xA97C);
}
static bool is_hangul_v(uint32_t c) {
  return (c >= 0x1160 && c <= 0x11A7) || (c >= 0xD7B0 && c <= 0xD7C6);
}
static bool is_hangul_t(uint32_t c) {
  return (c >= 0x11A8 && c <= 0x11FF) || (c >= 0xD7CB && c <= 0xD7FB);
}
static bool is_syllable(uint32_t c) { return c >= 0xAC00 && c <= 0xD7A3; }

static bool hangul_joins(uint32_t a, uint32_t b) {
  if (is_hangul_l(a)) return is_hangul_l(b) || is_hangul_v(b) || is_syllable(b);
  bool open = is_hangul_v(a) || (is_syllable(a) && (a - 0xAC00) % 28 == 0);
  return (open && is_hangul_v(b)) || ((open || is_hangul_t(a) || is_syllable(a)) && is_hangul_t(b));
}

/* Length of the grapheme cluster that starts at chars[0] (UAX 29, as far as clusters under 6 bytes
 * can tell). */
static size_t grapheme(const accel__char *chars, size_t n) {
  int first = accel__unicode(chars[0].c)->grapheme, before = first;
  bool pictograph = first == ACCEL__GRAPHEME_PICTOGRAPH;
  size_t i = 1;
  for (; i < n; ++i) {
    uint32_t a = chars[i - 1].c, b = chars[i].c;
    int next = accel__unicode(b)->grapheme;
    bool joins;
    if (before == ACCEL__GRAPHEME_CONTROL || next == ACCEL__GRAPHEME_CONTROL)
      joins = a == '\r' && b == '\n';
    else if (next == ACCEL__GRAPHEME_EXTEND || next == ACCEL__GRAPHEME_ZWJ ||
             before == ACCEL__GRAPHEME_PREPEND)
      joins = true;
    else if (next == ACCEL__GRAPHEME_PICTOGRAPH)
      joins = before == ACCEL__GRAPHEME_ZWJ && pictograph;
    else
      joins = hangul_joins(a, b);
    if (!joins) break;
    if (next != ACCEL__GRAPHEME_EXTEND && next != ACCEL__GRAPHEME_ZWJ)
      pictograph = next == ACCEL__GRAPHEME_PICTOGRAPH;
    before = next;
  }
  return i;
}

const char *accel__mapped(const accel__normalizer *step, const accel__char *chars, size_t n,
                          size_t *taken) {
  const char *found = NULL;
  size_t node = 0;
  uint32_t unit = step->trie[0];
  node ^= (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
  for (size_t i = 0; i < n; ++i) {
    char bytes[4];
    size_t length = accel__utf8_encode(chars[i].c, bytes);
    for (size_t j = 0; j < length; ++j) {
      uint32_t byte = (uint8_t)bytes[j];
      if (byte == 0) return found;
      node ^= byte;
      if (node >= step->trie_n) return found;
      unit = step->trie[node];
      if ((unit & (1u << 31 | 0xFF)) != byte) return found;
      node ^= (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
      if (!(unit >> 8 & 1)) continue;
      if (node >= step->trie_n) return found;
      size_t at = step->trie[node] & 0x7FFFFFFF;
      const char *text = at < step->replacements_n ? step->replacements + at : NULL;
      if (!taken || !text) return text ? text : found;
      if (j + 1 < length) continue; /* a map of ours ends with whole code points */
      found = text;
      *taken = i + 1;
    }
  }
  return found;
}

/* Puts `text` in place of `old_n` code points; the rule for places is the package's own, oddities
 * included. */
static accel_status replace_mapped(accel__encode_scratch *s, const char *text, size_t old_n) {
  size_t before = s->change_n, n = 0;
  for (size_t i = 0; text[i]; ++n) {
    uint32_t c;
    size_t left = 1;
    while (left < 4 && text[i + left]) left++;
    i += accel__utf8_decode(text + i, left, &c);
    ACCEL_TRY(push_change(s, c, 0, 0));
  }
  for (size_t i = old_n; i < n; ++i) s->change[before + i].change = 1;
  if (n < old_n && s->change_n) s->change[s->change_n - 1].change -= (int32_t)(old_n - n);
  return ACCEL_OK;
}

static accel_status precompiled(const accel__normalizer *step, accel__encode_scratch *s) {
  s->change_n = 0;
  bool modified = false;
  for (size_t i = 0; i < s->chars.n;) {
    const accel__char *at = s->chars.at + i;
    size_t n = grapheme(at, s->chars.n - i), bytes = 0;
    for (size_t j = 0; j < n && bytes < 6; ++j) bytes += accel__utf8_length(at[j].c);
    const char *text = bytes < 6 ? accel__mapped(step, at, n, NULL) : NULL;
    if (text) {
      modified = true;
      ACCEL_TRY(replace_mapped(s, text, n));
    }
    for (size_t j = 0; !text && j < n; ++j) {
      const char *part = accel__mapped(step, at + j, 1, NULL);
      modified = modified || part;
      ACCEL_TRY(part ? replace_mapped(s, part, 1) : push_change(s, at[j].c, 0, 0));
    }
    i += n;
  }
  return modified ? transform(s) : ACCEL_OK;
}

/* ---- replace, prepend, bytes ---- */

static accel_status replace(const accel__normalizer *step, accel__encode_scratch *s) {
  ACCEL_TRY(accel__pattern_find(&step->pattern, s->chars.at, s->chars.n, s));
  accel__chars *new = &s->other;
  new->n = 0;
  size_t at = 0;
  for (size_t m = 0; m < s->match_n; at += s->match[m++].n) {
    const accel__char *from = s->chars.at + at;
    size_t n = s->match[m].n;
    for (size_t i = 0; !s->match[m].match && i < n; ++i)
      ACCEL_TRY(accel__chars_push(new, from[i].c, from[i].start, from[i].end));
    /* all share the place of the last one replaced */
    for (size_t i = 0; s->match[m].match && i < step->content_n; ++i) {
      ACCEL_TRY(accel__chars_push(new, step->content[i], from[n - 1].start, from[n - 1].end));
    }
  }
  swap_chars(s);
  return ACCEL_OK;
}

static accel_status prepend(const accel__normalizer *step, accel__encode_scratch *s) {
  if (s->chars.n == 0 || step->content_n == 0) return ACCEL_OK;
  accel__chars *new = &s->other;
  new->n = 0;
  for (size_t i = 0; i < step->content_n; ++i) {
    ACCEL_TRY(accel__chars_push(new, step->content[i], s->chars.at[0].start, s->chars.at[0].end));
  }
  for (size_t i = 0; i < s->chars.n; ++i)
    ACCEL_TRY(accel__chars_push(new, s->chars.at[i].c, s->chars.at[i].start, s->chars.at[i].end));
  swap_chars(s);
  return ACCEL_OK;
}

/* GPT-2's printable stand-ins: bytes that are printable in Latin-1 stand for themselves, the others
 * follow from U+0100 on.
 */
static bool byte_prints(unsigned b) {
  return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

uint32_t accel__byte_to_char(uint8_t byte) {
  if (byte_prints(byte)) return byte;
  return 0x100u + (byte < 0x21 ? byte : byte < 0xA1 ? 0x21u + byte - 0x7F : 0x43u);
}

int accel__char_to_byte(uint32_t c) {
  if (c < 0x100) return byte_prints(c) ? (int)c : -1;
  uint32_t i = c - 0x100;
  return i < 0x21 ? (int)i : i < 0x43 ? (int)(i - 0x21 + 0x7F) : i == 0x43 ? 0xAD : -1;
}

static accel_status byte_level(accel__encode_scratch *s) {
  accel__chars *new = &s->other;
  new->n = 0;
  for (size_t i = 0; i < s->chars.n; ++i) {
    char bytes[4];
    size_t n = accel__utf8_encode(s->chars.at[i].c, bytes);
    for (size_t j = 0; j < n; ++j) {
      ACCEL_TRY(accel__chars_push(new, accel__byte_to_char((uint8_t)bytes[j]), s->chars.at[i].start,
                                  s->chars.at[i].end));
    }
  }
  swap_chars(s);
  return ACCEL_OK;
}

static accel_status normalize_step(const accel__normalizer *step, accel__encode_scratch *s) {
  switch (step->kind) {
    case ACCEL__NORMALIZE_BERT:
      return bert(step, s);
    case ACCEL__NORMALIZE_STRIP:
      return strip(&s->chars, step->left, step->right), ACCEL_OK;
    case ACCEL__NORMALIZE_STRIP_ACCENTS:
      return remove_flagged(&s->chars, ACCEL__UNI_MARK), ACCEL_OK;
    case ACCEL__NORMALIZE_NFC:
      return normal_form(s, false, true);
    case ACCEL__NORMALIZE_NFD:
      return normal_form(s, false, false);
    case ACCEL__NORMALIZE_NFKC:
      return normal_form(s, true, true);
    case ACCEL__NORMALIZE_NFKD:
      return normal_form(s, true, false);
    case ACCEL__NORMALIZE_LOWERCASE:
      return lowercase(s);
    case ACCEL__NORMALIZE_UPPERCASE:
      return uppercase(s);
    case ACCEL__NORMALIZE_NMT:
      return nmt(&s->chars), ACCEL_OK;
    case ACCEL__NORMALIZE_PRECOMPILED:
      return precompiled(step, s);
    case ACCEL__NORMALIZE_REPLACE:
      return replace(step, s);
    case ACCEL__NORMALIZE_PREPEND:
      return prepend(step, s);
    case ACCEL__NORMALIZE_BYTE_LEVEL:
      return byte_level(s);
    case ACCEL__NORMALIZE_SENTENCEPIECE:
      return accel__spm_normalize(step, s);
  }
  return ACCEL_OK;
}

accel_status accel__normalize(const accel__normalizer *steps, size_t n, accel__encode_scratch *s) {
  for (size_t i = 0; i < n; ++i) ACCEL_TRY(normalize_step(&steps[i], s));
  return ACCEL_OK;
}
