/* pretokenize.c - the pre-tokenizers of tokenizer.json: cut splits into smaller ones, and change
 * their code points on the way. */
#include "text/text_internal.h"
#include "text/unicode.h"

static accel_status push_match(accel__encode_scratch *s, size_t n, bool match) {
  if (n == 0) return ACCEL_OK;
  if (s->match_n == s->match_capacity)
    ACCEL_TRY(accel__grow(&s->match, &s->match_capacity, s->match_n + 1, sizeof *s->match));
  s->match[s->match_n++] = (accel__match){n, match};
  return ACCEL_OK;
}

/* ---- patterns ---- */

static size_t string_match(const accel__pattern *p, const accel__char *chars, size_t n) {
  size_t i = 0;
  if (p->n > n) return 0;
  while (i < p->n && chars[i].c == p->string[i]) i++;
  return i == p->n ? i : 0;
}

accel_status accel__pattern_find(const accel__pattern *p, const accel__char *chars, size_t n,
                                 accel__encode_scratch *s) {
  s->match_n = s->regex.steps = 0;
  size_t from = 0;
  for (size_t i = 0; i < n;) {
    size_t length = 0;
    switch (p->kind) {
      case ACCEL__PATTERN_STRING:
        length = string_match(p, chars + i, n - i);
        break;
      case ACCEL__PATTERN_REGEX:
        ACCEL_TRY(accel__regex_match(p->regex, chars, n, i, &s->regex, &length));
        break;
      case ACCEL__PATTERN_KNOWN:
        length = p->known(chars + i, n - i);
        break;
    }
    if (length == 0) {
      i++;
      continue;
    }
    ACCEL_TRY(push_match(s, i - from, false));
    ACCEL_TRY(push_match(s, length, true));
    i += length;
    from = i;
  }
  return push_match(s, n - from, false);
}

/* ---- cutting ---- */

static accel_status push_split(accel__encode_scratch *s, size_t first, size_t n) {
  return accel__splits_push(&s->other_splits,
                            (accel__split){first, n, s->chars.at[first].start, -1});
}

/* s->match, which covers chars from `first` on, to splits. */
static accel_status cut(accel__encode_scratch *s, size_t first, accel__behavior behavior) {
  size_t open = first, at = first; /* [open, at) is not yet a split */
  for (size_t m = 0; m < s->match_n; ++m) {
    bool match = s->match[m].match, next = m + 1 < s->match_n && s->match[m + 1].match,
         joins = false;
    at += s->match[m].n;
    switch (behavior) { /* does the match, or what follows it, stay with what comes after it? */
      case ACCEL__SPLIT_REMOVED:
        if (match) open = at;
        break;
      case ACCEL__SPLIT_ISOLATED:
        break;
      case ACCEL__SPLIT_CONTIGUOUS:
        joins = m + 1 < s->match_n && next == match;
        break;
      case ACCEL__SPLIT_MERGED_WITH_PREVIOUS:
        joins = !match && next;
        break;
      case ACCEL__SPLIT_MERGED_WITH_NEXT:
        joins = match && m + 1 < s->match_n && !next;
        break;
    }
    if (joins || open == at) continue;
    ACCEL_TRY(push_split(s, open, at - open));
    open = at;
  }
  return ACCEL_OK;
}

static accel_status match_flag(accel__encode_scratch *s, const accel__split *split, unsigned flag,
                               uint32_t c) {
  s->match_n = 0;
  size_t from = 0;
  for (size_t i = 0; i < split->n; ++i) {
    uint32_t at = s->chars.at[split->first + i].c;
    if (!(flag ? accel__unicode_is(at, flag) : at == c)) continue;
    ACCEL_TRY(push_match(s, i - from, false));
    ACCEL_TRY(push_match(s, 1, true));
    from = i + 1;
  }
  return push_match(s, split->n - from, false);
}

static accel_status cut_bert(accel__encode_scratch *s, const accel__split *split) {
  size_t from = split->first, end = split->first + split->n;
  for (size_t i = from; i < end; ++i) {
    unsigned flags =
        accel__unicode(s->chars.at[i].c)->flags & (ACCEL__UNI_WHITE | ACCEL__UNI_PUNCT);
    if (!flags) continue;
    if (i > from) ACCEL_TRY(push_split(s, from, i - from));
    if (!(flags & ACCEL__UNI_WHITE)) ACCEL_TRY(push_split(s, i, 1));
    from = i + 1;
  }
  return end > from ? push_split(s, from, end - from) : ACCEL_OK;
}

/* \w+|[^\w\s]+ */
static accel_status cut_words(accel__encode_scratch *s, const accel__split *split) {
  enum { WORD = ACCEL__UNI_WORD, WHITE = ACCEL__UNI_WHITE };
  size_t end = split->first + split->n;
  for (size_t i = split->first; i < end;) {
    unsigned class = accel__unicode(s->chars.at[i].c)->flags & (WORD | WHITE);
    size_t from = i++;
    while (i < end && (accel__unicode(s->chars.at[i].c)->flags & (WORD | WHITE)) == class) i++;
    if (!(class & WHITE)) ACCEL_TRY(push_split(s, from, i - from));
  }
  return ACCEL_OK;
}

static accel_status cut_fixed(accel__encode_scratch *s, const accel__split *split, size_t length) {
  for (size_t i = 0; i < split->n; i += length) {
    ACCEL_TRY(push_split(s, split->first + i, split->n - i < length ? split->n - i : length));
  }
  return ACCEL_OK;
}

/* Where the script changes; code points of none stay with what is in front of them, and are lost
 * where that is nothing. */
static accel_status cut_scripts(accel__encode_scratch *s, const accel__split *split) {
  size_t from = split->first, end = split->first + split->n;
  uint32_t last = 0;
  for (size_t i = from; i < end; ++i) {
    const uint32_t script = accel__unicode_script(s->chars.at[i].c);
    if (script == 0 || script == last) continue;
    if (last) ACCEL_TRY(push_split(s, from, i - from));
    from = i;
    last = script;
  }
  return last ? push_split(s, from, end - from) : ACCEL_OK;
}

static accel_status cut_split(accel__encode_scratch *s, const accel__split *split,
                              const accel__pre_tokenizer *step) {
  ACCEL_TRY(accel__pattern_find(&step->pattern, s->chars.at + split->first, split->n, s));
  for (size_t i = 0; step->invert && i < s->match_n; ++i) s->match[i].match = !s->match[i].match;
  return cut(s, split->first, step->behavior);
}

static accel_status cut_one(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                            const accel__split *split) {
  switch (step->kind) {
    case ACCEL__PRE_BERT:
      return cut_bert(s, split);
    case ACCEL__PRE_WHITESPACE:
      return cut_words(s, split);
    case ACCEL__PRE_FIXED_LENGTH:
      return cut_fixed(s, split, step->length);
    case ACCEL__PRE_UNICODE_SCRIPTS:
      return cut_scripts(s, split);
    case ACCEL__PRE_SPLIT:
      return cut_split(s, split, step);
    case ACCEL__PRE_WHITESPACE_SPLIT:
      ACCEL_TRY(match_flag(s, split, ACCEL__UNI_WHITE, 0));
      return cut(s, split->first, ACCEL__SPLIT_REMOVED);
    case ACCEL__PRE_DELIMITER:
      ACCEL_TRY(match_flag(s, split, 0, step->c));
      return cut(s, split->first, ACCEL__SPLIT_REMOVED);
    case ACCEL__PRE_PUNCTUATION:
      ACCEL_TRY(match_flag(s, split, ACCEL__UNI_PUNCT, 0));
      return cut(s, split->first, step->behavior);
    case ACCEL__PRE_DIGITS:
      ACCEL_TRY(match_flag(s, split, ACCEL__UNI_NUMERIC, 0));
      return cut(s, split->first,
                 step->individual_digits ? ACCEL__SPLIT_ISOLATED : ACCEL__SPLIT_CONTIGUOUS);
    case ACCEL__PRE_METASPACE:
    case ACCEL__PRE_BYTE_LEVEL:
      break; /* below */
  }
  return ACCEL_OK;
}

static void swap_splits(accel__encode_scratch *s) {
  accel__splits kept = s->splits;
  s->splits = s->other_splits;
  s->other_splits = kept;
}

static accel_status cut_all(const accel__pre_tokenizer *step, accel__encode_scratch *s) {
  s->other_splits.n = 0;
  for (size_t i = 0; i < s->splits.n; ++i) {
    accel__split split = s->splits.at[i];
    ACCEL_TRY(split.id >= 0 ? accel__splits_push(&s->other_splits, split)
                            : cut_one(step, s, &split));
  }
  swap_splits(s);
  return ACCEL_OK;
}

/* ---- those that change code points: every split is copied to s->other, changed, and cut there
 * ---- */

static accel_status copy_chars(accel__encode_scratch *s, const accel__split *split) {
  accel__chars *out = &s->other;
  ACCEL_TRY(accel__grow(&out->at, &out->capacity, out->n + split->n + 1, sizeof *out->at));
  for (size_t i = 0; i < split->n; ++i) out->at[out->n + i] = s->chars.at[split->first + i];
  out->n += split->n;
  return ACCEL_OK;
}

static accel_status copy_prefixed(accel__encode_scratch *s, const accel__split *split,
                                  uint32_t prefix) {
  accel__char first = s->chars.at[split->first];
  if (prefix) ACCEL_TRY(accel__chars_push(&s->other, prefix, first.start, first.end));
  return copy_chars(s, split);
}

static void swap_chars(accel__encode_scratch *s) {
  accel__chars kept = s->chars;
  s->chars = s->other;
  s->other = kept;
}

static bool wants_prefix(const accel__pre_tokenizer *step, const accel__encode_scratch *s,
                         const accel__split *split) {
  uint32_t first = s->chars.at[split->first].c;
  if (first == step->c || (first == ' ' && step->c)) return false;
  return step->prepend == ACCEL__PREPEND_ALWAYS ||
         (step->prepend == ACCEL__PREPEND_FIRST && split->shift == 0);
}

static accel_status metaspace(const accel__pre_tokenizer *step, accel__encode_scratch *s) {
  s->other.n = 0;
  for (size_t i = 0; i < s->splits.n; ++i) {
    accel__split *split = &s->splits.at[i];
    size_t first = s->other.n;
    ACCEL_TRY(copy_prefixed(s, split, split->id < 0 && wants_prefix(step, s, split) ? step->c : 0));
    for (size_t j = first; split->id < 0 && j < s->other.n; ++j) {
      if (s->other.at[j].c == ' ') s->other.at[j].c = step->c;
    }
    split->first = first;
    split->n = s->other.n - first;
  }
  swap_chars(s);
  if (!step->split) return ACCEL_OK;
  s->other_splits.n = 0;
  for (size_t i = 0; i < s->splits.n; ++i) {
    accel__split split = s->splits.at[i];
    if (split.id >= 0) {
      ACCEL_TRY(accel__splits_push(&s->other_splits, split));
      continue;
    }
    ACCEL_TRY(match_flag(s, &split, 0, step->c));
    ACCEL_TRY(cut(s, split.first, ACCEL__SPLIT_MERGED_WITH_NEXT));
  }
  swap_splits(s);
  return ACCEL_OK;
}

static accel_status prefix_spaces(accel__encode_scratch *s) {
  s->other.n = 0;
  for (size_t i = 0; i < s->splits.n; ++i) {
    accel__split *split = &s->splits.at[i];
    size_t first = s->other.n;
    ACCEL_TRY(
        copy_prefixed(s, split, split->id < 0 && s->chars.at[split->first].c != ' ' ? ' ' : 0));
    split->first = first;
    split->n = s->other.n - first;
  }
  swap_chars(s);
  return ACCEL_OK;
}

static accel_status to_bytes(accel__encode_scratch *s) {
  s->other.n = 0;
  for (size_t i = 0; i < s->splits.n; ++i) {
    accel__split *split = &s->splits.at[i];
    size_t first = s->other.n;
    if (split->id >= 0) ACCEL_TRY(copy_chars(s, split));
    for (size_t j = 0; split->id < 0 && j < split->n; ++j) {
      accel__char at = s->chars.at[split->first + j];
      char bytes[4];
      size_t n = accel__utf8_encode(at.c, bytes);
      for (size_t k = 0; k < n; ++k)
        ACCEL_TRY(
            accel__chars_push(&s->other, accel__byte_to_char((uint8_t)bytes[k]), at.start, at.end));
    }
    split->first = first;
    split->n = s->other.n - first;
  }
  swap_chars(s);
  return ACCEL_OK;
}

static accel_status byte_level(const accel__pre_tokenizer *step, bool last,
                               accel__encode_scratch *s) {
  if (step->add_prefix_space) ACCEL_TRY(prefix_spaces(s));
  if (step->use_regex) {
    static const accel__pre_tokenizer gpt2 = {
        .kind = ACCEL__PRE_SPLIT,
        .behavior = ACCEL__SPLIT_ISOLATED,
        .pattern = {.kind = ACCEL__PATTERN_KNOWN, .known = accel__split_gpt2}};
    ACCEL_TRY(cut_all(&gpt2, s));
  }
  return last ? ACCEL_OK : to_bytes(s);
}

accel_status accel__pre_tokenize(const accel__pre_tokenizer *steps, size_t n,
                                 accel__encode_scratch *s) {
  for (size_t i = 0; i < n; ++i) {
    switch (steps[i].kind) {
      case ACCEL__PRE_METASPACE:
        ACCEL_TRY(metaspace(&steps[i], s));
        break;
      case ACCEL__PRE_BYTE_LEVEL:
        ACCEL_TRY(byte_level(&steps[i], i + 1 == n, s));
        break;
      default:
        ACCEL_TRY(cut_all(&steps[i], s));
        break;
    }
  }
  return ACCEL_OK;
}
