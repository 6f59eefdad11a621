/* steps.c - reads the steps of a tokenizer.json: normalizer, pre-tokenizer, post-processor,
 * decoder. */
#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"

typedef const accel__json_file file_t;
typedef const accel__json json_t;

/* ---- helpers ---- */

static accel_status unsupported(file_t *file, const char *part, const char *what) {
  return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: field '%s' is '%s', which is not implemented",
                     file->name, part, what);
}

static accel_status malformed(file_t *file, const char *field, const char *expected) {
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s' must be %s", file->name, field, expected);
}

static accel_status type_of(file_t *file, json_t *object, const char *part, const char **type) {
  *type = NULL;
  ACCEL_TRY_AS(accel__json_string(file, object, "type", type), "%s", part);
  return *type
             ? ACCEL_OK
             : accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s.type' is missing", file->name, part);
}

static int name_index(const char *const *names, size_t n, const char *name) {
  for (size_t i = 0; i < n; ++i) {
    if (strcmp(names[i], name) == 0) return (int)i;
  }
  return -1;
}
#define COUNT(array) (sizeof(array) / sizeof *(array))

static accel_status code_points(accel__arena *arena, const char *text, const uint32_t **out,
                                size_t *n) {
  size_t length = strlen(text);
  uint32_t *to = accel__arena_array(arena, length + 1, sizeof *to);
  if (!to) return accel__no_memory(length * sizeof *to);
  *n = 0;
  for (size_t i = 0; i < length; ++*n) i += accel__utf8_decode(text + i, length - i, &to[*n]);
  *out = to;
  return ACCEL_OK;
}

static accel_status required_string(file_t *file, json_t *object, const char *key,
                                    const char **out) {
  ACCEL_TRY(accel__json_require(file, object, key));
  return accel__json_string(file, object, key, out);
}

/* A string of exactly one code point. */
static accel_status required_char(file_t *file, json_t *object, const char *key, uint32_t *out) {
  const char *text = NULL;
  ACCEL_TRY(required_string(file, object, key, &text));
  size_t n = strlen(text);
  if (n == 0 || accel__utf8_decode(text, n, out) != n) return malformed(file, key, "one character");
  return ACCEL_OK;
}

static accel_status copy_text(accel__tokenizer *t, const char *text, const char **out) {
  *out = accel__arena_string(&t->arena, text);
  return *out ? ACCEL_OK : accel__no_memory(strlen(text));
}

/* ---- patterns ---- */

accel_status accel__pattern_parse(accel__arena *arena, file_t *file, json_t *object,
                                  accel__pattern *out) {
  const char *string = NULL, *regex = NULL;
  *out = (accel__pattern){0};
  ACCEL_TRY(accel__json_string(file, object, "String", &string));
  ACCEL_TRY(accel__json_string(file, object, "Regex", &regex));
  if (string && *string) return code_points(arena, string, &out->string, &out->n);
  if (!regex)
    return malformed(file, "pattern",
                     "{\"String\": text} with some text, or {\"Regex\": expression}");
  out->known = accel__split_known(regex);
  out->kind = ACCEL__PATTERN_KNOWN;
  if (out->known) return ACCEL_OK;
  out->kind = ACCEL__PATTERN_REGEX;
  ACCEL_TRY_AS(accel__regex_compile(arena, regex, &out->regex), "%s", file->name);
  return ACCEL_OK;
}

static accel_status parse_pattern(accel__tokenizer *t, file_t *file, json_t *object,
                                  accel__pattern *out) {
  ACCEL_TRY(accel__json_require(file, object, "pattern"));
  return accel__pattern_parse(&t->arena, file, accel__json_get(object, "pattern"), out);
}

/* Walks a step, or the steps of a Sequence, nested ones too, without recursion: `key` holds a
 * sequence's members. */
typedef accel_status (*step_fn)(accel__tokenizer *t, file_t *file, json_t *object,
                                const char *type);
static accel_status each_step(accel__tokenizer *t, file_t *file, json_t *object, const char *part,
                              const char *key, step_fn fn) {
  json_t *open[16];
  size_t depth = 0;
  json_t *at = object;
  while (at || depth > 0) {
    if (!at) {
      at = open[--depth]->next;
      continue;
    }
    const char *type;
    ACCEL_TRY(type_of(file, at, part, &type));
    if (strcmp(type, "Sequence") == 0) {
      json_t *members = NULL;
      ACCEL_TRY(accel__json_require(file, at, key));
      ACCEL_TRY(accel__json_array(file, at, key, &members));
      if (depth == COUNT(open)) return malformed(file, part, "sequences nested at most 16 deep");
      open[depth++] = at;
      at = members ? members->child : NULL;
      continue;
    }
    ACCEL_TRY_AS(fn(t, file, at, type), "%s of type %s", part, type);
    at = depth ? at->next : NULL;
  }
  return ACCEL_OK;
}

/* each_step leaves `object` itself for its siblings in the file when it is a Sequence; a copy of
 * the node has none. */
static accel_status steps(accel__tokenizer *t, file_t *file, json_t *object, const char *part,
                          const char *key, step_fn fn) {
  if (!object) return ACCEL_OK;
  accel__json alone = *object;
  alone.next = NULL;
  return each_step(t, file, &alone, part, key, fn);
}

static accel_status full(file_t *file, const char *part, size_t n) {
  return n < ACCEL__STEPS_MAX ? ACCEL_OK : malformed(file, part, "at most 64 steps");
}

/* ---- normalizer ---- */

static int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool accel__base64_decode(const char *text, size_t n, uint8_t *out, size_t *out_n) {
  *out_n = 0;
  uint32_t bits = 0;
  int have = 0;
  for (size_t i = 0; i < n && text[i] != '='; ++i) {
    int digit = base64_digit(text[i]);
    if (digit < 0) return false;
    bits = bits << 6 | (uint32_t)digit;
    if ((have += 6) >= 8) out[(*out_n)++] = (uint8_t)(bits >> (have -= 8));
  }
  return true;
}

/* Bytes of the trie (u32), the trie's u32 units, then the NUL-separated replacements; all
 * little-endian. */
bool accel__charsmap_set(accel__tokenizer *t, uint8_t *raw, size_t bytes, accel__normalizer *n,
                         accel_status *status) {
  *status = ACCEL_OK;
  if (bytes < 4) return false;
  uint32_t trie_bytes =
      (uint32_t)raw[0] | (uint32_t)raw[1] << 8 | (uint32_t)raw[2] << 16 | (uint32_t)raw[3] << 24;
  if (trie_bytes < 4 || trie_bytes % 4 || trie_bytes > bytes - 4) return false;
  uint32_t *trie = accel__arena_array(&t->arena, trie_bytes / 4, sizeof *trie);
  if (!trie) return *status = accel__no_memory(trie_bytes), true;
  for (size_t i = 0; i < trie_bytes / 4; ++i) {
    const uint8_t *b = raw + 4 + 4 * i;
    trie[i] = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
  }
  n->trie = trie;
  n->trie_n = trie_bytes / 4;
  n->replacements = (const char *)raw + 4 + trie_bytes;
  n->replacements_n = bytes - 4 - trie_bytes;
  raw[bytes] = 0; /* ends the last one */
  return true;
}

static accel_status parse_precompiled(accel__tokenizer *t, file_t *file, json_t *object,
                                      accel__normalizer *n) {
  const char *text = NULL;
  ACCEL_TRY(required_string(file, object, "precompiled_charsmap", &text));
  size_t length = strlen(text), bytes;
  uint8_t *raw = accel__arena_alloc(&t->arena, length / 4 * 3 + 8);
  if (!raw) return accel__no_memory(length);
  accel_status status;
  if (!accel__base64_decode(text, length, raw, &bytes) || bytes < 4)
    return malformed(file, "precompiled_charsmap", "base64 of a character map");
  if (!accel__charsmap_set(t, raw, bytes, n, &status))
    return malformed(file, "precompiled_charsmap", "a trie that fits into it");
  return status;
}

static accel_status parse_bert(file_t *file, json_t *object, accel__normalizer *n) {
  n->clean_text = n->handle_chinese_chars = n->lowercase = true;
  ACCEL_TRY(accel__json_bool(file, object, "clean_text", &n->clean_text));
  ACCEL_TRY(accel__json_bool(file, object, "handle_chinese_chars", &n->handle_chinese_chars));
  ACCEL_TRY(accel__json_bool(file, object, "lowercase", &n->lowercase));
  n->strip_accents = n->lowercase; /* null */
  return accel__json_bool(file, object, "strip_accents", &n->strip_accents);
}

static accel_status parse_content(accel__tokenizer *t, file_t *file, json_t *object,
                                  const char *key, accel__normalizer *n) {
  const char *text = NULL;
  ACCEL_TRY(required_string(file, object, key, &text));
  return code_points(&t->arena, text, &n->content, &n->content_n);
}

static accel_status add_normalizer(accel__tokenizer *t, file_t *file, json_t *object,
                                   const char *type) {
  static const char *const types[] = {
      "BertNormalizer", "Strip", "StripAccents", "NFC",     "NFD",     "NFKC",     "NFKD",
      "Lowercase",      "Nmt",   "Precompiled",  "Replace", "Prepend", "ByteLevel"};
  int kind = strcmp(type, "Bert") == 0 ? 0 : name_index(types, COUNT(types), type);
  if (kind < 0) return unsupported(file, "normalizer.type", type);
  ACCEL_TRY(full(file, "normalizer", t->normalizers));
  accel__normalizer *n = &t->normalizer[t->normalizers++];
  n->kind = (accel__normalizer_kind)kind;
  n->left = n->right = true;
  ACCEL_TRY(accel__json_bool(file, object, "strip_left", &n->left));
  ACCEL_TRY(accel__json_bool(file, object, "strip_right", &n->right));
  switch (n->kind) {
    case ACCEL__NORMALIZE_BERT:
      return parse_bert(file, object, n);
    case ACCEL__NORMALIZE_PRECOMPILED:
      return parse_precompiled(t, file, object, n);
    case ACCEL__NORMALIZE_PREPEND:
      return parse_content(t, file, object, "prepend", n);
    case ACCEL__NORMALIZE_REPLACE:
      ACCEL_TRY(parse_content(t, file, object, "content", n));
      return parse_pattern(t, file, object, &n->pattern);
    default:
      return ACCEL_OK;
  }
}

accel_status accel__parse_normalizer(accel__tokenizer *t, file_t *file, json_t *object) {
  t->normalizer = accel__arena_array(&t->arena, ACCEL__STEPS_MAX, sizeof *t->normalizer);
  if (!t->normalizer) return accel__no_memory(ACCEL__STEPS_MAX * sizeof *t->normalizer);
  return steps(t, file, object, "normalizer", "normalizers", add_normalizer);
}

/* ---- pre-tokenizer ---- */

static accel_status parse_behavior(file_t *file, json_t *object, accel__behavior *out) {
  static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                      "Contiguous"};
  const char *name = NULL;
  ACCEL_TRY(accel__json_string(file, object, "behavior", &name));
  if (!name) return ACCEL_OK;
  int found = name_index(names, COUNT(names), name);
  if (found < 0) return unsupported(file, "pre_tokenizer.behavior", name);
  *out = (accel__behavior)found;
  return ACCEL_OK;
}

static accel_status parse_prepend(file_t *file, json_t *object, accel__prepend *out) {
  static const char *const names[] = {"always", "first", "never"};
  const char *name = NULL;
  bool prefix = true;
  ACCEL_TRY(accel__json_bool(file, object, "add_prefix_space", &prefix));
  ACCEL_TRY(accel__json_string(file, object, "prepend_scheme", &name));
  int found = name ? name_index(names, COUNT(names), name) : 0;
  if (found < 0) return unsupported(file, "prepend_scheme", name);
  *out = prefix ? (accel__prepend)found : ACCEL__PREPEND_NEVER;
  return ACCEL_OK;
}

static accel_status add_pre_tokenizer(accel__tokenizer *t, file_t *file, json_t *object,
                                      const char *type) {
  static const char *const types[] = {
#define ACCEL_PRE_TOKENIZER(kind, name, parameters, work) name,
#include "text/pretokenizers.def"
  };
  const int kind = name_index(types, COUNT(types), type);
  if (kind < 0) return unsupported(file, "pre_tokenizer.type", type);
  ACCEL_TRY(full(file, "pre_tokenizer", t->pre_tokenizers));
  accel__pre_tokenizer *p = &t->pre_tokenizer[t->pre_tokenizers++];
  *p = (accel__pre_tokenizer){.kind = (accel__pre_tokenizer_kind)kind,
                              .behavior = ACCEL__SPLIT_ISOLATED};
  switch (p->kind) { /* reads the parameters of its line */
#define PRE_FLAG(member, value) \
  p->member = value;            \
  ACCEL_TRY(accel__json_bool(file, object, #member, &p->member));
#define PRE_NUMBER(member, value, min, max) \
  p->member = value;                        \
  ACCEL_TRY(accel__json_int(file, object, #member, min, max, &p->member));
#define PRE_BEHAVIOR         ACCEL_TRY(parse_behavior(file, object, &p->behavior));
#define PRE_PATTERN          ACCEL_TRY(parse_pattern(t, file, object, &p->pattern));
#define PRE_CHARACTER(field) ACCEL_TRY(required_char(file, object, field, &p->c));
#define PRE_PREPEND          ACCEL_TRY(parse_prepend(file, object, &p->prepend));
#define ACCEL_PRE_TOKENIZER(kind, name, parameters, work) \
  case ACCEL__PRE_##kind:                                 \
    parameters return ACCEL_OK;
#include "text/pretokenizers.def"
  }
  return ACCEL_OK;
}

accel_status accel__parse_pre_tokenizer(accel__tokenizer *t, file_t *file, json_t *object) {
  t->pre_tokenizer = accel__arena_array(&t->arena, ACCEL__STEPS_MAX, sizeof *t->pre_tokenizer);
  if (!t->pre_tokenizer) return accel__no_memory(ACCEL__STEPS_MAX * sizeof *t->pre_tokenizer);
  return steps(t, file, object, "pre_tokenizer", "pretokenizers", add_pre_tokenizer);
}

/* ---- post-processor ---- */

static accel_status push_piece(accel__tokenizer *t, accel__template *to, int sequence,
                               int32_t type_id, const int32_t *ids, size_t n) {
  if (!to->piece) to->piece = accel__arena_array(&t->arena, ACCEL__TEMPLATE_MAX, sizeof *to->piece);
  if (!to->piece) return accel__no_memory(ACCEL__TEMPLATE_MAX * sizeof *to->piece);
  if (to->n == ACCEL__TEMPLATE_MAX) {
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: field 'post_processor' has more than %d pieces in a template", t->name,
                       ACCEL__TEMPLATE_MAX);
  }
  to->piece[to->n++] = (accel__template_piece){sequence, type_id, ids, n};
  if (sequence < 0) to->added += (uint32_t)n;
  return ACCEL_OK;
}

/* special_tokens[name].ids */
static accel_status special_ids(accel__tokenizer *t, file_t *file, json_t *specials,
                                const char *name, const int32_t **ids, size_t *n) {
  json_t *entry = accel__json_get(specials, name), *array = NULL;
  if (!entry)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: field 'special_tokens' lacks '%s', which a template uses", file->name,
                       name);
  ACCEL_TRY(accel__json_require(file, entry, "ids"));
  ACCEL_TRY(accel__json_array(file, entry, "ids", &array));
  *n = 0;
  ACCEL_JSON_EACH(item, array)++ *n;
  int32_t *to = accel__arena_array(&t->arena, *n, sizeof *to);
  if (!to) return accel__no_memory(*n * sizeof *to);
  *ids = to;
  ACCEL_JSON_EACH(item, array) {
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble >= ACCEL__TOKENS_MAX) {
      return malformed(file, "special_tokens.ids", "ids from 0 to 4194303");
    }
    *to++ = (int32_t)item->valuedouble;
  }
  return ACCEL_OK;
}

static accel_status parse_template_piece(accel__tokenizer *t, file_t *file, json_t *piece,
                                         json_t *specials, bool pair, accel__template *to) {
  json_t *token = accel__json_get(piece, "SpecialToken"),
         *sequence = accel__json_get(piece, "Sequence");
  json_t *at = token ? token : sequence;
  const char *id = NULL;
  int64_t type_id = 0;
  if (!at)
    return malformed(file, "post_processor",
                     "templates of {\"SpecialToken\": ...} and {\"Sequence\": ...}");
  ACCEL_TRY(required_string(file, at, "id", &id));
  ACCEL_TRY(accel__json_int(file, at, "type_id", 0, INT32_MAX, &type_id));
  if (token) {
    const int32_t *ids = NULL;
    size_t n = 0;
    ACCEL_TRY(special_ids(t, file, specials, id, &ids, &n));
    return push_piece(t, to, -1, (int32_t)type_id, ids, n);
  }
  bool second = strcmp(id, "B") == 0;
  if (!second && strcmp(id, "A") != 0) return malformed(file, "Sequence.id", "\"A\" or \"B\"");
  if (second && !pair)
    return malformed(file, "post_processor.single", "a template without sequence B");
  return push_piece(t, to, second, (int32_t)type_id, NULL, 0);
}

static accel_status parse_template(accel__tokenizer *t, file_t *file, json_t *object) {
  json_t *single = NULL, *pair = NULL, *specials = accel__json_get(object, "special_tokens");
  ACCEL_TRY(accel__json_require(file, object, "single"));
  ACCEL_TRY(accel__json_require(file, object, "pair"));
  ACCEL_TRY(accel__json_array(file, object, "single", &single));
  ACCEL_TRY(accel__json_array(file, object, "pair", &pair));
  ACCEL_JSON_EACH(piece, single)
  ACCEL_TRY(parse_template_piece(t, file, piece, specials, false, &t->single));
  ACCEL_JSON_EACH(piece, pair)
  ACCEL_TRY(parse_template_piece(t, file, piece, specials, true, &t->pair));
  return ACCEL_OK;
}

/* ["[SEP]", 102] */
static accel_status token_pair(accel__tokenizer *t, file_t *file, json_t *object, const char *key,
                               const int32_t **id) {
  json_t *array = NULL;
  ACCEL_TRY(accel__json_require(file, object, key));
  ACCEL_TRY(accel__json_array(file, object, key, &array));
  json_t *number = array && array->child ? array->child->next : NULL;
  if (!number || !cJSON_IsNumber(number) || number->valuedouble < 0 ||
      number->valuedouble >= ACCEL__TOKENS_MAX) {
    return malformed(file, key, "[token, id]");
  }
  int32_t *to = accel__arena_array(&t->arena, 1, sizeof *to);
  if (!to) return accel__no_memory(sizeof *to);
  *to = (int32_t)number->valuedouble;
  *id = to;
  return ACCEL_OK;
}

/* BertProcessing: cls A sep B sep.  RobertaProcessing: cls A sep sep B sep, all of type 0. */
static accel_status parse_cls_sep(accel__tokenizer *t, file_t *file, json_t *object, bool roberta) {
  const int32_t *cls = NULL, *sep = NULL;
  ACCEL_TRY(token_pair(t, file, object, "cls", &cls));
  ACCEL_TRY(token_pair(t, file, object, "sep", &sep));
  accel__template *both[] = {&t->single, &t->pair};
  for (int i = 0; i < 2; ++i) {
    ACCEL_TRY(push_piece(t, both[i], -1, 0, cls, 1));
    ACCEL_TRY(push_piece(t, both[i], 0, 0, NULL, 0));
    ACCEL_TRY(push_piece(t, both[i], -1, 0, sep, 1));
  }
  if (roberta) ACCEL_TRY(push_piece(t, &t->pair, -1, 0, sep, 1));
  ACCEL_TRY(push_piece(t, &t->pair, 1, roberta ? 0 : 1, NULL, 0));
  t->roberta = roberta;
  return push_piece(t, &t->pair, -1, roberta ? 0 : 1, sep, 1);
}

static accel_status parse_trim(accel__tokenizer *t, file_t *file, json_t *object) {
  bool trim = true, prefix = true;
  ACCEL_TRY(accel__json_bool(file, object, "trim_offsets", &trim));
  ACCEL_TRY(accel__json_bool(file, object, "add_prefix_space", &prefix));
  if (!trim) return ACCEL_OK;
  if (t->trims == COUNT(t->trim_prefix_space))
    return malformed(file, "post_processor", "trimming offsets at most 4 times");
  t->trim_prefix_space[t->trims++] = prefix;
  return ACCEL_OK;
}

static accel_status add_post_processor(accel__tokenizer *t, file_t *file, json_t *object,
                                       const char *type) {
  static const char *const types[] = {"TemplateProcessing", "BertProcessing", "RobertaProcessing",
                                      "ByteLevel"};
  int kind = name_index(types, COUNT(types), type);
  if (kind < 0) return unsupported(file, "post_processor.type", type);
  if (kind >= 2) ACCEL_TRY(parse_trim(t, file, object));
  if (kind == 3) return ACCEL_OK;
  if (t->single.n || t->pair.n)
    return unsupported(file, "post_processor", "a Sequence with several templates");
  return kind == 0 ? parse_template(t, file, object) : parse_cls_sep(t, file, object, kind == 2);
}

accel_status accel__parse_post_processor(accel__tokenizer *t, file_t *file, json_t *object) {
  ACCEL_TRY(steps(t, file, object, "post_processor", "processors", add_post_processor));
  t->bare = object == NULL;
  if (t->single.n == 0) ACCEL_TRY(push_piece(t, &t->single, 0, 0, NULL, 0));
  if (t->pair.n) return ACCEL_OK;
  ACCEL_TRY(push_piece(t, &t->pair, 0, 0, NULL, 0));
  return push_piece(t, &t->pair, 1, 1, NULL, 0);
}

accel_status accel__template_push_text(accel__tokenizer *t, accel__template *to, bool second,
                                       int32_t type) {
  return push_piece(t, to, second, type, NULL, 0);
}

accel_status accel__template_push_id(accel__tokenizer *t, accel__template *to, int32_t id,
                                     int32_t type) {
  int32_t *ids = accel__arena_array(&t->arena, 1, sizeof *ids);
  if (!ids) return accel__no_memory(sizeof *ids);
  *ids = id;
  return push_piece(t, to, -1, type, ids, 1);
}

/* ---- decoder ---- */

static accel_status decoder_text(accel__tokenizer *t, file_t *file, json_t *object, const char *key,
                                 const char *standard, const char **out) {
  const char *text = standard;
  ACCEL_TRY(accel__json_string(file, object, key, &text));
  return copy_text(t, text, out);
}

static accel_status add_decoder(accel__tokenizer *t, file_t *file, json_t *object,
                                const char *type) {
  static const char *const types[] = {"WordPiece", "ByteLevel", "Metaspace", "BPEDecoder",  "CTC",
                                      "Replace",   "Fuse",      "Strip",     "ByteFallback"};
  int kind = name_index(types, COUNT(types), type);
  int64_t start = 0, stop = 0;
  if (kind < 0) return unsupported(file, "decoder.type", type);
  ACCEL_TRY(full(file, "decoder", t->decoders));
  accel__decoder *d = &t->decoder[t->decoders++];
  *d = (accel__decoder){
      .kind = (accel__decoder_kind)kind, .clean_up = true, .text = "", .other = ""};
  ACCEL_TRY(accel__json_bool(file, object, "cleanup", &d->clean_up));
  switch (d->kind) {
    case ACCEL__DECODE_WORDPIECE:
      return decoder_text(t, file, object, "prefix", "##", &d->text);
    case ACCEL__DECODE_BPE:
      return decoder_text(t, file, object, "suffix", "</w>", &d->text);
    case ACCEL__DECODE_CTC:
      ACCEL_TRY(decoder_text(t, file, object, "pad_token", "<pad>", &d->text));
      return decoder_text(t, file, object, "word_delimiter_token", "|", &d->other);
    case ACCEL__DECODE_METASPACE:
      ACCEL_TRY(parse_prepend(file, object, &d->prepend));
      return required_char(file, object, "replacement", &d->c);
    case ACCEL__DECODE_REPLACE:
      ACCEL_TRY(decoder_text(t, file, object, "content", "", &d->other));
      return parse_pattern(t, file, object, &d->pattern);
    case ACCEL__DECODE_STRIP:
      ACCEL_TRY(accel__json_int(file, object, "start", 0, INT32_MAX, &start));
      ACCEL_TRY(accel__json_int(file, object, "stop", 0, INT32_MAX, &stop));
      d->start = (size_t)start;
      d->stop = (size_t)stop;
      return required_char(file, object, "content", &d->c);
    default:
      return ACCEL_OK;
  }
}

accel_status accel__parse_decoder(accel__tokenizer *t, file_t *file, json_t *object) {
  t->decoder = accel__arena_array(&t->arena, ACCEL__STEPS_MAX, sizeof *t->decoder);
  if (!t->decoder) return accel__no_memory(ACCEL__STEPS_MAX * sizeof *t->decoder);
  return steps(t, file, object, "decoder", "decoders", add_decoder);
}
