/* florence_tasks.c - task tokens of Florence-2 and the answers to them. */
#include "generate/florence_tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "text/tokenizer.h"

/* ---- prompts ---- */

static const struct task {
  const char *token, *prompt; /* "%s" in it: what stands beside the token */
  accel__florence_answer answer;
} tasks[] = {
    {"<OCR>", "What is the text in the image?", ACCEL__FLORENCE_TEXT},
    {"<OCR_WITH_REGION>", "What is the text in the image, with regions?", ACCEL__FLORENCE_OCR},
    {"<CAPTION>", "What does the image describe?", ACCEL__FLORENCE_TEXT},
    {"<DETAILED_CAPTION>", "Describe in detail what is shown in the image.", ACCEL__FLORENCE_TEXT},
    {"<MORE_DETAILED_CAPTION>", "Describe with a paragraph what is shown in the image.",
     ACCEL__FLORENCE_TEXT},
    {"<OD>", "Locate the objects with category name in the image.", ACCEL__FLORENCE_BOXES},
    {"<DENSE_REGION_CAPTION>", "Locate the objects in the image, with their descriptions.",
     ACCEL__FLORENCE_BOXES},
    {"<REGION_PROPOSAL>", "Locate the region proposals in the image.", ACCEL__FLORENCE_PROPOSALS},
    {"<CAPTION_TO_PHRASE_GROUNDING>", "Locate the phrases in the caption: %s",
     ACCEL__FLORENCE_PHRASES},
    {"<REFERRING_EXPRESSION_SEGMENTATION>", "Locate %s in the image with mask",
     ACCEL__FLORENCE_POLYGONS},
    {"<REGION_TO_SEGMENTATION>", "What is the polygon mask of region %s", ACCEL__FLORENCE_POLYGONS},
    {"<OPEN_VOCABULARY_DETECTION>", "Locate %s in the image.", ACCEL__FLORENCE_EITHER},
    {"<REGION_TO_CATEGORY>", "What is the region %s?", ACCEL__FLORENCE_TEXT},
    {"<REGION_TO_DESCRIPTION>", "What does the region %s describe?", ACCEL__FLORENCE_TEXT},
    {"<REGION_TO_OCR>", "What text is in the region %s?", ACCEL__FLORENCE_TEXT},
};

/* Bytes of the white space, as Python counts it, that text .. end begins with: of one character. */
static size_t white(const char *text, const char *end) {
  uint32_t c = 0;
  if (text >= end) return 0;
  const size_t bytes = accel__utf8_decode(text, (size_t)(end - text), &c);
  return accel__is_white(c) || (c >= 0x1C && c <= 0x1F) ? bytes : 0;
}

static const char *find(const char *text, const char *end, const char *what) {
  const size_t n = strlen(what);
  for (; (size_t)(end - text) >= n; text++)
    if (!memcmp(text, what, n)) return text;
  return NULL;
}

/* Without every `what`. */
static accel_status without(const char *text, size_t n, const char *const *what, uint32_t n_what,
                            accel__buffer *out) {
  for (size_t i = 0, skip; i < n; i += skip ? skip : 1) {
    skip = 0;
    for (uint32_t k = 0; k < n_what && !skip; k++)
      if (strlen(what[k]) <= n - i && !strncmp(text + i, what[k], strlen(what[k])))
        skip = strlen(what[k]);
    if (!skip) accel__buffer_bytes(out, text + i, 1);
  }
  return accel__buffer_status(out);
}

/* Python's strip(): where the rest begins, and *n how long it is. */
static const char *stripped(const char *text, size_t *n) {
  const char *end = text + *n;
  for (size_t bytes; (bytes = white(text, end)) > 0;) text += bytes;
  while (end > text) {
    const char *last = end - 1;
    while (last > text && ((unsigned char)*last & 0xC0) == 0x80) last--;
    if (white(last, end) != (size_t)(end - last)) break;
    end = last;
  }
  *n = (size_t)(end - text);
  return text;
}

accel_status accel__florence_prompt(const char *text, accel__buffer *out,
                                    accel__florence_answer *answer) {
  *answer = ACCEL__FLORENCE_TEXT;
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
    const struct task *t = &tasks[i];
    const char *hole = strstr(t->prompt, "%s");
    accel__buffer rest = {0};
    if (!strstr(text, t->token)) continue;
    if (!hole && strcmp(text, t->token))
      return accel__remedy(
          accel__fail(ACCEL_ERROR_ARGUMENT, "prompt '%s': %s stands alone", text, t->token),
          "write the task token and nothing else");
    *answer = t->answer;
    if (!hole) {
      accel__buffer_text(out, t->prompt);
      return accel__buffer_status(out);
    }
    accel_status status = without(text, strlen(text), &t->token, 1, &rest);
    size_t n = rest.n;
    const char *input = stripped(rest.data ? rest.data : "", &n);
    accel__buffer_bytes(out, t->prompt, (size_t)(hole - t->prompt));
    accel__buffer_bytes(out, input, n);
    accel__buffer_text(out, hole + 2);
    accel__buffer_free(&rest);
    return status == ACCEL_OK ? accel__buffer_status(out) : status;
  }
  accel__buffer_text(out, text);
  return accel__buffer_status(out);
}

/* ---- processor_config.json ---- */

/* The pattern that every checkpoint has, and the processor where there is none. */
static const char ocr_pattern[] =
    "(.+?)<loc_(\\d+)><loc_(\\d+)><loc_(\\d+)><loc_(\\d+)><loc_(\\d+)><loc_(\\d+)><loc_(\\d+)><loc_"
    "("
    "\\d+)>";

static accel_status read_rules(const accel__json_file *file, accel__arena *arena,
                               accel__florence_rules *out) {
  const accel__json *rules = NULL, *ocr = NULL, *phrases = NULL, *list = NULL;
  const char *pattern = NULL;
  ACCEL_TRY(accel__json_object(file, file->root, "post_processor_config", &rules));
  if (rules != NULL) {
    ACCEL_TRY(accel__json_object(file, rules, "ocr", &ocr));
    ACCEL_TRY(accel__json_object(file, rules, "phrase_grounding", &phrases));
  }
  if (ocr != NULL) {
    ACCEL_TRY(accel__json_string(file, ocr, "PATTERN", &pattern));
    ACCEL_TRY(accel__json_number(file, ocr, "AREA_THRESHOLD", &out->area_threshold));
  }
  if (pattern != NULL && strcmp(pattern, ocr_pattern) != 0)
    return accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED,
                                     "%s: field 'post_processor_config.ocr.PATTERN' is not the one "
                                     "that Florence-2 has; others are not supported",
                                     file->name),
                         "leave the field out, or take the text as it is");
  if (phrases != NULL)
    ACCEL_TRY(accel__json_array(file, phrases, "banned_grounding_tokens", &list));
  const int n = list != NULL ? cJSON_GetArraySize(list) : 0;
  if ((out->banned = accel__arena_array(arena, (size_t)n + 1, sizeof *out->banned)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(item, list) {
    if (!cJSON_IsString(item))
      return accel__fail(
          ACCEL_ERROR_FORMAT,
          "%s: field 'post_processor_config.phrase_grounding.banned_grounding_tokens' holds what "
          "is "
          "no text",
          file->name);
    if ((out->banned[out->n_banned++] = accel__arena_string(arena, item->valuestring)) == NULL)
      return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  return ACCEL_OK;
}

accel_status accel__florence_rules_read(const char *directory, accel__arena *arena,
                                        accel__florence_rules *out) {
  accel__json_file file;
  *out = (accel__florence_rules){0};
  accel_status status = accel__json_read_beside(directory, "processor_config.json", 0, &file);
  if (status == ACCEL_OK && file.root != NULL) status = read_rules(&file, arena, out);
  accel__json_free(&file);
  return status;
}

/* ---- answers ---- */

/* An answer on its way. */
typedef struct reader {
  const accel__florence_rules *rules;
  int32_t width, height;
  accel__arena *arena;
  accel_region *region;
  uint32_t n, capacity;
} reader;

/* Bytes of the token <loc_N> at the beginning of text .. end, 0: it is another one. */
static size_t location(const char *text, const char *end, int64_t *value) {
  const char *at = text + 5;
  if (end - text < 7 || strncmp(text, "<loc_", 5) != 0) return 0;
  *value = 0;
  while (at < end && *at >= '0' && *at <= '9') {
    if (*value < INT32_MAX) *value = *value * 10 + (*at - '0');
    at++;
  }
  return at > text + 5 && at < end && *at == '>' ? (size_t)(at + 1 - text) : 0;
}

static size_t tag(const char *text, const char *end, const char *what) {
  const size_t n = strlen(what);
  return (size_t)(end - text) >= n && !strncmp(text, what, n) ? n : 0;
}

/* A location, and of polygons their separators, beginnings and ends. */
static size_t mark(const char *text, const char *end, bool polygons) {
  int64_t value;
  size_t n = location(text, end, &value);
  if (n == 0 && polygons) n = tag(text, end, "<sep>");
  if (n == 0 && polygons) n = tag(text, end, "<poly>");
  return n == 0 && polygons ? tag(text, end, "</poly>") : n;
}

/* How far marks follow one another from `text` on; *n: how many. */
static const char *marks(const char *text, const char *end, bool polygons, uint32_t *n) {
  *n = 0;
  for (size_t bytes; text < end && (bytes = mark(text, end, polygons)) > 0; text += bytes) (*n)++;
  return text;
}

/* The middle of a bin in pixels, in single precision as torch has it. */
static int32_t pixels(int64_t bin, int32_t side) {
  const float at = ((float)bin + 0.5f) * (float)((double)side / 1000.0);
  return at < 2147483520.0f ? (int32_t)at : INT32_MAX;
}

static accel_status add_region(reader *r, accel_region_kind kind, const char *label,
                               accel_region **out) {
  if (r->n == r->capacity) {
    const uint32_t capacity = 2 * r->capacity + 16;
    accel_region *more = accel__arena_array(r->arena, capacity, sizeof *more);
    if (more == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (r->n > 0) memcpy(more, r->region, r->n * sizeof *more);
    r->region = more;
    r->capacity = capacity;
  }
  *out = &r->region[r->n++];
  **out = (accel_region){.kind = kind, .label = label};
  return ACCEL_OK;
}

/* One more outline of the numbers of the locations in text .. end, an even number of them. */
static accel_status add_outline(reader *r, accel_region *to, uint32_t n_outlines, const char *text,
                                const char *end) {
  uint32_t n;
  marks(text, end, false, &n);
  n -= n % 2;
  int32_t *outline = accel__arena_array(r->arena, (size_t)n + 1, sizeof *outline);
  if (to->n == 0) { /* `n_outlines` are to come */
    to->count = accel__arena_array(r->arena, n_outlines, sizeof *to->count);
    to->outline = accel__arena_array(r->arena, n_outlines, sizeof *to->outline);
  }
  if (outline == NULL || to->count == NULL || to->outline == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    int64_t bin = 0;
    text += location(text, end, &bin);
    outline[i] = pixels(bin, i % 2 ? r->height : r->width);
  }
  ((uint32_t *)to->count)[to->n] = n; /* ours until they are handed out */
  ((const int32_t **)to->outline)[to->n++] = outline;
  return ACCEL_OK;
}

/* A copy of text .. end without white space around it, and with `ascii` without other letters. */
static char *label_of(reader *r, const char *text, const char *end, bool ascii) {
  size_t n = (size_t)(end - text), kept = 0;
  text = stripped(text, &n);
  char *label = accel__arena_array(r->arena, n + 1, 1);
  for (size_t i = 0; label != NULL && i < n; i++)
    if (!ascii || (unsigned char)text[i] < 0x80) label[kept++] = text[i];
  if (label != NULL) label[kept] = 0;
  return label;
}

/* Where a phrase's words end: in front of its first location (or <poly>), unless a line ends
 * between its words and that.  NULL: nowhere. */
static const char *words_end(const char *text, const char *end, bool polygons) {
  for (size_t bytes; (bytes = white(text, end)) > 0;) text += bytes;
  for (; text < end; text++) {
    if (tag(text, end, "<loc_") || (polygons && tag(text, end, "<poly>"))) return text;
    if (*text == '\n') return NULL;
  }
  return NULL;
}

static bool is_banned(const accel__florence_rules *rules, const char *label) {
  for (uint32_t i = 0; i < rules->n_banned; i++)
    if (!strcmp(rules->banned[i], label)) return true;
  return false;
}

/* Each four locations of text .. end are a box; what is left over is none. */
static accel_status boxes(reader *r, accel__florence_answer kind, const char *phrase,
                          const char *text, const char *end) {
  const char *stop = kind == ACCEL__FLORENCE_PROPOSALS ? phrase : words_end(phrase, end, false);
  if (stop == NULL) return ACCEL_OK;
  if (kind == ACCEL__FLORENCE_PHRASES) {
    const char *whole = label_of(r, phrase, stop, false);
    if (whole == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (is_banned(r->rules, whole)) return ACCEL_OK;
  }
  const char *label = label_of(r, phrase, stop, true);
  if (label == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (;;) {
    const char *last = text;
    int64_t bin;
    accel_region *region;
    for (int i = 0; i < 4; i++) {
      const size_t bytes = location(last, end, &bin);
      if (bytes == 0) return ACCEL_OK;
      last += bytes;
    }
    ACCEL_TRY(add_region(r, ACCEL_REGION_BOX, label, &region));
    ACCEL_TRY(add_outline(r, region, 1, text, last));
    text = last;
  }
}

/* Runs of locations in text .. end that a <sep>, or the end, follows: one outline each. */
static accel_status outlines(reader *r, const char *label, const char *text, const char *end) {
  accel_region *region = NULL;
  for (const char *at = text; at < end;) {
    uint32_t n;
    const char *last = marks(at, end, false, &n);
    const size_t separator = tag(last, end, "<sep>");
    if (n > 0 && (separator || last == end)) {
      if (region == NULL) ACCEL_TRY(add_region(r, ACCEL_REGION_POLYGON, label, &region));
      ACCEL_TRY(add_outline(r, region, (uint32_t)((end - text) / 7) + 1, at, last));
      at = last + separator;
    } else {
      at = n > 0 ? last : at + 1;
    }
  }
  return ACCEL_OK;
}

/* phrase .. end: words, if any, and the marks behind them.  What stands between <poly> and </poly>
 * is an instance, without these all of it. */
static accel_status polygons(reader *r, const char *phrase, const char *end) {
  int64_t bin;
  const char *words = phrase + location(phrase, end, &bin), *stop = words_end(words, end, true);
  if (stop == NULL) return ACCEL_OK;
  char *label = label_of(r, words, stop, false);
  if (label == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  const char *open = find(phrase, end, "<poly>");
  if (open == NULL || find(phrase, end, "</poly>") == NULL) return outlines(r, label, phrase, end);
  for (; open != NULL; open = find(open, end, "<poly>")) {
    open += strlen("<poly>");
    const char *close = find(open, end, "</poly>");
    if (close == NULL) break;
    ACCEL_TRY(outlines(r, label, open, close));
    open = close;
  }
  return ACCEL_OK;
}

/* Phrases: words without a '<' and at least four marks behind them; of proposals and masks the
 * marks alone. */
static accel_status phrases(reader *r, accel__florence_answer kind, bool alone, const char *text,
                            const char *end) {
  const bool outlined = kind == ACCEL__FLORENCE_POLYGONS;
  for (const char *at = text; at < end;) {
    uint32_t n;
    const char *words = at, *first = at, *last;
    if (!alone) {
      while (words < end && *words == '<') words++;
      for (first = words; first < end && *first != '<';) first++;
    }
    last = marks(first, end, outlined, &n);
    if (n >= 4) {
      ACCEL_TRY(outlined ? polygons(r, words, last) : boxes(r, kind, words, first, last));
      at = last;
    } else if (alone) {
      at = n > 0 ? last : at + 1;
    } else {
      at = first > at ? first : at + 1;
    }
  }
  return ACCEL_OK;
}

/* Does the quadrangle cover less than its least share of the picture?  By the terms that the
 * processor sums: the one that closes the outline is not among them. */
static bool too_small(const reader *r, const int32_t *x) {
  double twice = 0;
  for (int i = 0; i < 3; i++)
    twice += (double)x[2 * i] * x[2 * i + 3] - (double)x[2 * i + 2] * x[2 * i + 1];
  return r->rules->area_threshold > 0 &&
         0.5 * fabs(twice) < (double)r->width * r->height * r->rules->area_threshold;
}

/* Each text on one line with eight locations behind it. */
static accel_status quads(reader *r, const char *text, const char *end) {
  const char *words = text;
  for (const char *at = text; at < end;) {
    const char *last = at;
    int64_t bin;
    size_t bytes = 1;
    int n = 0;
    for (; n < 8 && (bytes = location(last, end, &bin)) > 0; n++) last += bytes;
    if (*at == '\n') {
      words = ++at;
    } else if (n < 8 || at == words) {
      at++;
    } else {
      accel_region *region;
      char *label = label_of(r, words, at, false);
      if (label == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
      ACCEL_TRY(add_region(r, ACCEL_REGION_QUAD, label, &region));
      ACCEL_TRY(add_outline(r, region, 1, at, last));
      if (too_small(r, region->outline[0])) r->n--;
      words = at = last;
    }
  }
  return ACCEL_OK;
}

accel_status accel__florence_read(accel__florence_answer kind, const accel__florence_rules *rules,
                                  const char *text, int32_t width, int32_t height,
                                  accel__arena *arena, accel_region_answer *out) {
  static const char *const ends[] = {"<s>", "</s>", "<pad>"};
  const uint32_t n_ends = kind == ACCEL__FLORENCE_TEXT ? 2 : 3;
  reader r = {.rules = rules, .width = width, .height = height, .arena = arena};
  accel__buffer plain = {0};
  accel_status status = without(text, strlen(text), ends, n_ends, &plain);
  const char *begin = plain.data != NULL ? plain.data : "", *end = begin + plain.n;
  const bool either = kind == ACCEL__FLORENCE_EITHER,
             shaped = either && find(begin, end, "<poly>") != NULL;
  if (either) kind = shaped ? ACCEL__FLORENCE_POLYGONS : ACCEL__FLORENCE_BOXES;
  const bool alone =
      kind == ACCEL__FLORENCE_PROPOSALS || (kind == ACCEL__FLORENCE_POLYGONS && !either);
  if (status == ACCEL_OK && kind == ACCEL__FLORENCE_OCR)
    status = quads(&r, begin, end);
  else if (status == ACCEL_OK && kind != ACCEL__FLORENCE_TEXT)
    status = phrases(&r, kind, alone, begin, end);
  if (status == ACCEL_OK) {
    *out = (accel_region_answer){.text = label_of(&r, begin, end, false),
                                 .n = r.n,
                                 .region = r.region,
                                 .height = height,
                                 .width = width};
    if (out->text == NULL) status = ACCEL_ERROR_OUT_OF_MEMORY;
  }
  accel__buffer_free(&plain);
  return status;
}
