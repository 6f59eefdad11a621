/* marian_tokenizer.c - see marian_tokenizer.h. */
#include "text/marian_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "text/settings.h"
#include "text/spm.h"

enum {
  FILE_MAX = 256 << 20,
  LENGTH = 512, /* model_max_length of Marian's class */
  CODE_MAX = 16 /* bytes of a language's token */
};

typedef const accel__json_file file_t;
typedef const accel__json json_t;

/* Languages of M2M100's tokenizers, in the order of their tokens. */
static const char m2m100_codes[] =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu "
    "ha he hi hr ht hu hy id ig "
    "ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl "
    "ps pt ro ru sd si sk sl "
    "so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu";
static const char wmt21_codes[] = "en ha is ja cs ru zh de";

bool accel__is_m2m100(file_t *config) {
  json_t *class = accel__json_get(config->root, "tokenizer_class");
  return cJSON_IsString(class) && strcmp(class->valuestring, "M2M100Tokenizer") == 0;
}

/* ---- vocabularies ---- */

static accel_status read_vocab(accel__tokenizer *t, const char *directory, const char *name,
                               accel__vocab *out) {
  char *path = accel__path_join(&t->arena, directory, name);
  accel__mapping map = {0};
  if (!path) return accel__no_memory(strlen(directory));
  ACCEL_TRY(accel__file_load(path, &map));
  const char *text = (const char *)map.data;
  size_t skip = 0;
  while (skip < map.n && strchr(" \t\r\n", text[skip]) && text[skip]) skip++;
  accel_status status = ACCEL_OK;
  if (map.n > FILE_MAX)
    status = accel__fail(ACCEL_ERROR_FORMAT, "%s: larger than %d bytes", path, FILE_MAX);
  if (status == ACCEL_OK && (skip == map.n || text[skip] != '{'))
    status = accel__fail(ACCEL_ERROR_FORMAT, "%s: not a JSON object of tokens and ids", path);
  if (status == ACCEL_OK)
    status = accel__scan_vocab_object(&(accel__scan){.vocab = text + skip, .vocab_n = map.n - skip},
                                      path, out);
  if (status == ACCEL_OK) status = accel__vocab_finish(out);
  accel__file_unmap(&map);
  return status;
}

/* The next word of a list of codes as a token, "__en__"; 0 at the list's end. */
static int next_language(const char **codes, char out[CODE_MAX]) {
  const size_t n = strcspn(*codes, " ");
  const int length = n ? snprintf(out, CODE_MAX, "__%.*s__", (int)n, *codes) : 0;
  *codes += n + ((*codes)[n] == ' ');
  return length;
}

static accel_status language_codes(file_t *config, const char **codes) {
  const char *name = "m2m100";
  ACCEL_TRY(accel__json_string(config, config->root, "language_codes", &name));
  *codes = strcmp(name, "m2m100") == 0  ? m2m100_codes
           : strcmp(name, "wmt21") == 0 ? wmt21_codes
                                        : NULL;
  return *codes ? ACCEL_OK
                : accel__fail(ACCEL_ERROR_UNSUPPORTED,
                              "%s: field 'language_codes' is '%s', expected m2m100 or wmt21",
                              config->name, name);
}

/* Their tokens count on from the size of the vocabulary. */
static accel_status add_languages(accel__tokenizer *t, file_t *config) {
  const char *codes;
  char token[CODE_MAX];
  const size_t first = t->vocab.n;
  ACCEL_TRY(language_codes(config, &codes));
  for (size_t i = 0; next_language(&codes, token); ++i)
    ACCEL_TRY(accel__vocab_add(&t->vocab, token, strlen(token), (int32_t)(first + i)));
  return accel__vocab_finish(&t->vocab);
}

static accel_status read_vocabs(accel__tokenizer *t, accel__marian_kind kind, const char *directory,
                                file_t *config) {
  bool separate = false;
  ACCEL_TRY(read_vocab(t, directory, "vocab.json", &t->vocab));
  if (kind == ACCEL__M2M100) return add_languages(t, config);
  if (config->root) ACCEL_TRY(accel__json_bool(config, config->root, "separate_vocabs", &separate));
  return separate ? read_vocab(t, directory, "target_vocab.json", &t->target) : ACCEL_OK;
}

/* ---- pieces ---- */

static accel_status check_kind(const accel__spm *m) {
  const char *what = m->whitespace_is_suffix ? "'treat_whitespace_as_suffix'"
                     : m->byte_fallback      ? "'byte_fallback'"
                     : !m->escape            ? "'escape_whitespaces' false"
                                             : NULL;
  for (size_t i = 0; i < m->n && !what; ++i) {
    if (m->at[i].type == ACCEL__SPM_USER_DEFINED) what = "a piece defined by the user";
    if (m->at[i].type == ACCEL__SPM_UNUSED && m->kind == ACCEL__SPM_BPE)
      what = "an unused piece of a BPE model";
  }
  return what ? accel__fail(ACCEL_ERROR_UNSUPPORTED,
                            "%s: %s is not supported where vocab.json numbers the pieces", m->name,
                            what)
              : ACCEL_OK;
}

/* Only ordinary pieces are found in a text. */
static accel_status make_pieces(accel__tokenizer *t, const accel__spm *m, int32_t unk) {
  accel__vocab_model *to = &t->model;
  int32_t *ids = accel__arena_array(&t->arena, m->n, sizeof *ids);
  accel__trie_string *strings = malloc(m->n * sizeof *strings);
  size_t n = 0;
  float least = 0;
  to->score = calloc(m->n, sizeof *to->score);
  accel_status status =
      ids && strings && to->score ? ACCEL_OK : accel__no_memory(m->n * sizeof *strings);
  for (size_t i = 0; i < m->n && status == ACCEL_OK; ++i) {
    const accel__spm_piece *p = &m->at[i];
    ids[i] = unk;
    if (p->type != ACCEL__SPM_NORMAL || p->n == 0) continue;
    int32_t id = accel__vocab_id(&t->vocab, p->text, p->n);
    if (id >= 0) ids[i] = id;
    to->score[i] = (double)p->score;
    least = n == 0 || p->score < least ? p->score : least;
    strings[n++] = (accel__trie_string){.text = p->text, .n = p->n, .value = (int32_t)i};
  }
  to->piece_id = ids;
  t->by_pairs = m->kind == ACCEL__SPM_BPE;
  to->unk_score = (double)(least - 10.0f); /* kUnkPenalty of SentencePiece */
  if (status == ACCEL_OK) status = accel__trie_build(&to->trie, strings, n);
  free(strings);
  return status;
}

static accel_status make_normalizer(accel__tokenizer *t, const accel__spm *m,
                                    accel__normalizer *to) {
  *to = (accel__normalizer){.kind = ACCEL__NORMALIZE_SENTENCEPIECE,
                            .dummy_prefix = m->dummy_prefix,
                            .remove_extra = m->remove_extra};
  if (m->charsmap_n == 0) return ACCEL_OK;
  uint8_t *raw = accel__arena_alloc(&t->arena, m->charsmap_n + 1);
  accel_status status;
  if (!raw) return accel__no_memory(m->charsmap_n);
  memcpy(raw, m->charsmap, m->charsmap_n);
  if (!accel__charsmap_set(t, raw, m->charsmap_n, to, &status))
    return accel__spm_malformed(m->name, "its character map has no trie");
  return status;
}

/* ---- the rest, as a tokenizer.json ---- */

typedef struct writer {
  accel__buffer *b;
  bool first;
} writer;

static void put_added(writer *w, const char *text) {
  accel__buffer_text(w->b, w->first ? "{\"content\":" : ",{\"content\":");
  w->first = false;
  accel__buffer_json_string(w->b, text, strlen(text));
  accel__buffer_text(w->b, ",\"special\":true,\"normalized\":false}");
}

/* Texts, or {"content": text}, of a list. */
static void put_listed(writer *w, json_t *list, bool is_object) {
  ACCEL_JSON_EACH(item, list) {
    json_t *text = cJSON_IsObject(item) ? accel__json_get(item, "content") : item;
    if (is_object && !cJSON_IsTrue(accel__json_get(item, "special"))) continue;
    if (cJSON_IsString(text) && *text->valuestring) put_added(w, text->valuestring);
  }
}

/* Languages as special tokens, which sets a text's apart. */
static accel_status put_languages(writer *w, file_t *config) {
  const char *codes;
  char token[CODE_MAX];
  ACCEL_TRY(language_codes(config, &codes));
  while (next_language(&codes, token)) put_added(w, token);
  return ACCEL_OK;
}

/* The template of one text (pair: of two), between the source's language, where there is one, and
 * the end. */
static void put_template(accel__buffer *b, bool pair, bool language) {
  static const char end[] = "{\"SpecialToken\":{\"id\":\"E\",\"type_id\":0}}]";
  accel__buffer_text(b, language ? "[{\"SpecialToken\":{\"id\":\"L\",\"type_id\":0}}," : "[");
  accel__buffer_text(b, "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},");
  if (pair) accel__buffer_text(b, "{\"Sequence\":{\"id\":\"B\",\"type_id\":0}},");
  accel__buffer_text(b, end);
}

static accel_status source_language(const accel__tokenizer *t, file_t *config, int32_t *id) {
  const char *source = "en";
  char token[64];
  ACCEL_TRY(accel__json_string(config, config->root, "src_lang", &source));
  snprintf(token, sizeof token, "__%.40s__", source);
  *id = accel__vocab_id(&t->vocab, token, strlen(token));
  return *id >= 0 ? ACCEL_OK
                  : accel__fail(ACCEL_ERROR_FORMAT,
                                "%s: field 'src_lang' is '%.40s', which is none of the languages",
                                config->name, source);
}

static accel_status put_json(accel__tokenizer *t, accel__marian_kind kind, file_t *config,
                             file_t *map, accel__buffer *b) {
  static const char *const names[][2] = {{"unk_token", "<unk>"},
                                         {"eos_token", "</s>"},
                                         {"pad_token", "<pad>"},
                                         {"bos_token", "<s>"},
                                         {"sep_token", "</s>"}};
  const bool many = kind == ACCEL__M2M100;
  const char *text[5];
  int32_t id[5], language = -1;
  writer w = {.b = b, .first = true};
  accel__buffer_text(b, "{\"version\":\"1.0\",\"added_tokens\":[");
  for (int i = 0; i < (many ? 5 : 3); ++i) {
    text[i] = accel__special_text(config->root, map->root, names[i][0], names[i][1]);
    id[i] = accel__vocab_id(&t->vocab, text[i], strlen(text[i]));
    if (id[i] < 0 && i < 2)
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: vocab.json beside it lacks '%s', the %s", t->name,
                         text[i], names[i][0]);
    if (!many || id[i] >= 0) put_added(&w, text[i]);
  }
  put_listed(&w, accel__extra_tokens(config->root), false);
  if (!accel__json_get(config->root, "extra_special_tokens"))
    put_listed(&w, accel__json_get(map->root, "additional_special_tokens"), false);
  put_listed(&w, accel__json_get(config->root, "added_tokens_decoder"), true);
  if (many) ACCEL_TRY(put_languages(&w, config));
  if (many) ACCEL_TRY(source_language(t, config, &language));
  accel__buffer_printf(
      b,
      "],\"model\":{\"type\":\"Unigram\",\"unk_id\":%d},\"post_processor\":{\"type\":"
      "\"TemplateProcessing\",\"special_tokens\":{\"E\":{\"ids\":[%d]},\"L\":{\"ids\":[%d]}},"
      "\"single\":",
      id[0], id[1], many ? language : 0);
  put_template(b, false, many);
  accel__buffer_text(b, ",\"pair\":");
  put_template(b, true, many);
  accel__buffer_text(b, "}}");
  return accel__buffer_status(b);
}

accel_status accel__marian_read(accel__tokenizer *t, accel__marian_kind kind,
                                const accel__marian_files *files, accel__normalizer *normalizer,
                                accel__buffer *json) {
  file_t *config = files->config, *map = files->special_map;
  accel__spm m;
  accel_status status = accel__spm_read(files->spm, files->spm_n, t->name, &m);
  if (status == ACCEL_OK) status = check_kind(&m);
  if (status == ACCEL_OK) status = read_vocabs(t, kind, files->directory, config);
  if (status == ACCEL_OK) status = put_json(t, kind, config, map, json);
  const char *unk = accel__special_text(config->root, map->root, "unk_token", "<unk>");
  if (status == ACCEL_OK) status = make_pieces(t, &m, accel__vocab_id(&t->vocab, unk, strlen(unk)));
  if (status == ACCEL_OK) status = make_normalizer(t, &m, normalizer);
  accel__spm_free(&m);
  return status;
}

void accel__marian_finish(accel__tokenizer *t, accel__marian_kind kind,
                          const accel__normalizer *normalizer) {
  t->normalizer[t->normalizers++] = *normalizer;
  t->decoder[t->decoders++] = (accel__decoder){.kind = ACCEL__DECODE_SENTENCEPIECE,
                                               .text = kind == ACCEL__MARIAN ? " " : ""};
  t->codes = kind == ACCEL__MARIAN;
  if (t->by_pairs) t->model.kind = ACCEL__VOCAB_MODEL_PAIRS;
}

static void usual(const accel__tokenizer *t, const char *text, int32_t *id) {
  if (*id < 0) *id = accel__token_to_id(t, text, strlen(text));
}

void accel__marian_defaults(accel__tokenizer *t, accel__marian_kind kind) {
  accel__tokenizer_info *info = &t->info;
  usual(t, "</s>", &info->eos);
  usual(t, "<pad>", &info->pad);
  if (kind == ACCEL__M2M100) {
    usual(t, "<s>", &info->bos);
    usual(t, "</s>", &info->sep);
  } else if (info->model_max_length == 0) {
    info->model_max_length = LENGTH;
  }
}
