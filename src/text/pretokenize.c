/* pretokenize.c - the pre-tokenizers of tokenizer.json: cut splits into smaller ones, and change
 * their code points on the way.  pretokenizers.def lists them. */
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

accel_status accel__push_split(accel__encode_scratch *s, size_t first, size_t n) {
  return accel__splits_push(&s->other_splits,
                            (accel__split){first, n, s->chars.at[first].start, -1});
}

accel_status accel__cut_matches(accel__encode_scratch *s, size_t first, accel__behavior behavior) {
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
    ACCEL_TRY(accel__push_split(s, open, at - open));
    open = at;
  }
  return ACCEL_OK;
}

accel_status accel__match_flag(accel__encode_scratch *s, const accel__split *split, unsigned flag) {
  s->match_n = 0;
  size_t from = 0;
  for (size_t i = 0; i < split->n; ++i) {
    if (!accel__unicode_is(s->chars.at[split->first + i].c, flag)) continue;
    ACCEL_TRY(push_match(s, i - from, false));
    ACCEL_TRY(push_match(s, 1, true));
    from = i + 1;
  }
  return push_match(s, split->n - from, false);
}

accel_status accel__match_char(accel__encode_scratch *s, const accel__split *split, uint32_t c) {
  s->match_n = 0;
  size_t from = 0;
  for (size_t i = 0; i < split->n; ++i) {
    if (s->chars.at[split->first + i].c != c) continue;
    ACCEL_TRY(push_match(s, i - from, false));
    ACCEL_TRY(push_match(s, 1, true));
    from = i + 1;
  }
  return push_match(s, split->n - from, false);
}

accel_status accel__cut_bert(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                             const accel__split *split) {
  (void)step;
  size_t from = split->first, end = split->first + split->n;
  for (size_t i = from; i < end; ++i) {
    unsigned flags =
        accel__unicode(s->chars.at[i].c)->flags & (ACCEL__UNI_WHITE | ACCEL__UNI_PUNCT);
    if (!flags) continue;
    if (i > from) ACCEL_TRY(accel__push_split(s, from, i - from));
    if (!(flags & ACCEL__UNI_WHITE)) ACCEL_TRY(accel__push_split(s, i, 1));
    from = i + 1;
  }
  return end > from ? accel__push_split(s, from, end - from) : ACCEL_OK;
}

/* \w+|[^\w\s]+ */
accel_status accel__cut_whitespace(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                                   const accel__split *split) {
  (void)step;
  enum { WORD = ACCEL__UNI_WORD, WHITE = ACCEL__UNI_WHITE };
  size_t end = split->first + split->n;
  for (size_t i = split->first; i < end;) {
    unsigned class = accel__unicode(s->chars.at[i].c)->flags & (WORD | WHITE);
    size_t from = i++;
    while (i < end && (accel__unicode(s->chars.at[i].c)->flags & (WORD | WHITE)) == class) i++;
    if (!(class & WHITE)) ACCEL_TRY(accel__push_split(s, from, i - from));
  }
  return ACCEL_OK;
}

accel_status accel__cut_fixed_length(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                                     const accel__split *split) {
  const size_t length = (size_t)step->length;
  for (size_t i = 0; i < split->n; i += length) {
    ACCEL_TRY(
        accel__push_split(s, split->first + i, split->n - i < length ? split->n - i : length));
  }
  return ACCEL_OK;
}

/* Where the script changes; code points of none stay with what is in front of them, and are lost
 * where that is nothing. */
accel_status accel__cut_unicode_scripts(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                                        const accel__split *split) {
  (void)step;
  size_t from = split->first, end = split->first + split->n;
  uint32_t last = 0;
  for (size_t i = from; i < end; ++i) {
    const uint32_t script = accel__unicode_script(s->chars.at[i].c);
    if (script == 0 || script == last) continue;
    if (last) ACCEL_TRY(accel__push_split(s, from, i - from));
    from = i;
    last = script;
  }
  return last ? accel__push_split(s, from, end - from) : ACCEL_OK;
}

accel_status accel__cut_split(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                              const accel__split *split) {
  ACCEL_TRY(accel__pattern_find(&step->pattern, s->chars.at + split->first, split->n, s));
  for (size_t i = 0; step->invert && i < s->match_n; ++i) s->match[i].match = !s->match[i].match;
  return accel__cut_matches(s, split->first, step->behavior);
}

accel_status accel__cut_whitespace_split(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                                         const accel__split *split) {
  (void)step;
  ACCEL_TRY(accel__match_flag(s, split, ACCEL__UNI_WHITE));
  return accel__cut_matches(s, split->first, ACCEL__SPLIT_REMOVED);
}

accel_status accel__cut_delimiter(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                                  const accel__split *split) {
  ACCEL_TRY(accel__match_char(s, split, step->c));
  return accel__cut_matches(s, split->first, ACCEL__SPLIT_REMOVED);
}

accel_status accel__cut_punctuation(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                                    const accel__split *split) {
  ACCEL_TRY(accel__match_flag(s, split, ACCEL__UNI_PUNCT));
  return accel__cut_matches(s, split->first, step->behavior);
}

accel_status accel__cut_digits(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                               const accel__split *split) {
  ACCEL_TRY(accel__match_flag(s, split, ACCEL__UNI_NUMERIC));
  return accel__cut_matches(
      s, split->first, step->individual_digits ? ACCEL__SPLIT_ISOLATED : ACCEL__SPLIT_CONTIGUOUS);
}

typedef accel_status cut_fn(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                            const accel__split *split);

static void swap_splits(accel__encode_scratch *s) {
  accel__splits kept = s->splits;
  s->splits = s->other_splits;
  s->other_splits = kept;
}

/* Every split that is not a token yet, by `cut`. */
static accel_status cut_all(const accel__pre_tokenizer *step, accel__encode_scratch *s,
                            cut_fn *cut) {
  s->other_splits.n = 0;
  for (size_t i = 0; i < s->splits.n; ++i) {
    accel__split split = s->splits.at[i];
    ACCEL_TRY(split.id >= 0 ? accel__splits_push(&s->other_splits, split) : cut(step, s, &split));
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

accel_status accel__metaspace(const accel__pre_tokenizer *step, bool last,
                              accel__encode_scratch *s) {
  (void)last;
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
    ACCEL_TRY(accel__match_char(s, &split, step->c));
    ACCEL_TRY(accel__cut_matches(s, split.first, ACCEL__SPLIT_MERGED_WITH_NEXT));
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

accel_status accel__byte_level(const accel__pre_tokenizer *step, bool last,
                               accel__encode_scratch *s) {
  if (step->add_prefix_space) ACCEL_TRY(prefix_spaces(s));
  if (step->use_regex) {
    static const accel__pre_tokenizer gpt2 = {
        .kind = ACCEL__PRE_SPLIT,
        .behavior = ACCEL__SPLIT_ISOLATED,
        .pattern = {.kind = ACCEL__PATTERN_KNOWN, .known = accel__split_gpt2}};
    ACCEL_TRY(cut_all(&gpt2, s, accel__cut_split));
  }
  return last ? ACCEL_OK : to_bytes(s);
}

accel_status accel__pre_tokenize(const accel__pre_tokenizer *steps, size_t n,
                                 accel__encode_scratch *s) {
  for (size_t i = 0; i < n; ++i) {
    switch (steps[i].kind) {
#define PRE_CUTS(function)    cut_all(&steps[i], s, function)
#define PRE_CHANGES(function) function(&steps[i], i + 1 == n, s)
#define ACCEL_PRE_TOKENIZER(kind, name, parameters, work) \
  case ACCEL__PRE_##kind:                                 \
    ACCEL_TRY(work);                                      \
    break;
#include "text/pretokenizers.def"
    }
  }
  return ACCEL_OK;
}
