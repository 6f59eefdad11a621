/* marian.c - see marian.h. */
#include "text/marian.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "text/spm.h"

enum { FILE_MAX = 256 << 20, LENGTH = 512 }; /* model_max_length of the class */

typedef const accel__json_file file_t;
typedef const accel__json json_t;

/* ---- vocabularies ---- */

static accel_status read_vocab(accel__tokenizer *t, const char *directory, const char *name, accel__vocab *out) {
  char *path = accel__path_join(&t->arena, directory, name);
  accel__mapping map = {0};
  if (!path) return accel__no_memory(strlen(directory));
  ACCEL_TRY(accel__file_map(path, &map));
  const char *text = (const char *)map.data;
  size_t skip = 0;
  while (skip < map.n && strchr(" \t\r\n", text[skip]) && text[skip]) skip++;
  accel_status status = ACCEL_OK;
  if (map.n > FILE_MAX) status = accel__fail(ACCEL_ERROR_FORMAT, "%s: larger than %d bytes", path, FILE_MAX);
  if (status == ACCEL_OK && (skip == map.n || text[skip] != '{'))
    status = accel__fail(ACCEL_ERROR_FORMAT, "%s: not a JSON object of tokens and ids", path);
  const accel__scan scan = {.vocab = text + skip, .vocab_n = map.n - skip};
  if (status == ACCEL_OK) status = accel__scan_vocab_object(&scan, path, out);
  if (status == ACCEL_OK) status = accel__vocab_finish(out);
  accel__file_unmap(&map);
  return status;
}

static accel_status read_vocabs(accel__tokenizer *t, const char *directory, file_t *config) {
  bool separate = false;
  if (config->root) ACCEL_TRY(accel__json_bool(config, config->root, "separate_vocabs", &separate));
  ACCEL_TRY(read_vocab(t, directory, "vocab.json", &t->vocab));
  return separate ? read_vocab(t, directory, "target_vocab.json", &t->target) : ACCEL_OK;
}

/* ---- pieces ---- */

static accel_status check_kind(const accel__spm *m) {
  const char *what = m->kind != ACCEL__SPM_UNIGRAM ? "a BPE model"
                     : m->whitespace_is_suffix     ? "'treat_whitespace_as_suffix'"
                     : !m->escape                  ? "'escape_whitespaces' false"
                                                   : NULL;
  for (size_t i = 0; i < m->n && !what; ++i)
    if (m->at[i].type == ACCEL__SPM_USER_DEFINED) what = "a piece defined by the user";
  return what ? accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: %s is not supported in Marian's source.spm", m->name, what)
              : ACCEL_OK;
}

/* Only ordinary pieces are found in a text. */
static accel_status make_pieces(accel__tokenizer *t, const accel__spm *m, int32_t unk) {
  accel__model *to = &t->model;
  int32_t *ids = accel__arena_array(&t->arena, m->n, sizeof *ids);
  accel__trie_string *strings = malloc(m->n * sizeof *strings);
  size_t n = 0;
  float least = 0;
  to->score = calloc(m->n, sizeof *to->score);
  accel_status status = ids && strings && to->score ? ACCEL_OK : accel__no_memory(m->n * sizeof *strings);
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
  to->unk_score = (double)(least - 10.0f); /* kUnkPenalty of SentencePiece */
  if (status == ACCEL_OK) status = accel__trie_build(&to->trie, strings, n);
  free(strings);
  return status;
}

static accel_status make_normalizer(accel__tokenizer *t, const accel__spm *m, accel__normalizer *to) {
  *to = (accel__normalizer){
      .kind = ACCEL__NORMALIZE_SENTENCEPIECE, .dummy_prefix = m->dummy_prefix, .remove_extra = m->remove_extra};
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

static accel_status put_json(accel__tokenizer *t, file_t *config, file_t *map, accel__buffer *b) {
  static const char *const names[][2] = {{"unk_token", "<unk>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}};
  const char *text[3];
  int32_t id[3];
  writer w = {.b = b, .first = true};
  accel__buffer_text(b, "{\"version\":\"1.0\",\"added_tokens\":[");
  for (int i = 0; i < 3; ++i) {
    text[i] = accel__special_text(config->root, map->root, names[i][0], names[i][1]);
    id[i] = accel__vocab_id(&t->vocab, text[i], strlen(text[i]));
    if (id[i] < 0 && i < 2)
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: vocab.json beside it lacks '%s', the %s", t->name, text[i], names[i][0]);
    put_added(&w, text[i]);
  }
  put_listed(&w, accel__json_get(config->root, "additional_special_tokens"), false);
  put_listed(&w, accel__json_get(map->root, "additional_special_tokens"), false);
  put_listed(&w, accel__json_get(config->root, "added_tokens_decoder"), true);
  accel__buffer_printf(b,
                       "],\"model\":{\"type\":\"Unigram\",\"unk_id\":%d},\"post_processor\":{\"type\":"
                       "\"TemplateProcessing\",\"special_tokens\":{\"E\":{\"ids\":[%d]}},\"single\":[",
                       id[0], id[1]);
  static const char a[] = "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},",
                    eos[] = "{\"SpecialToken\":{\"id\":\"E\",\"type_id\":0}}]";
  accel__buffer_printf(b, "%s%s,\"pair\":[%s{\"Sequence\":{\"id\":\"B\",\"type_id\":0}},%s}}", a, eos, a, eos);
  return accel__buffer_status(b);
}

accel_status accel__marian_read(accel__tokenizer *t, const uint8_t *spm, size_t n, const char *directory, file_t *config,
                                file_t *map, accel__normalizer *normalizer, accel__buffer *json) {
  accel__spm m;
  accel_status status = accel__spm_read(spm, n, t->name, &m);
  if (status == ACCEL_OK) status = check_kind(&m);
  if (status == ACCEL_OK) status = read_vocabs(t, directory, config);
  if (status == ACCEL_OK) status = put_json(t, config, map, json);
  const char *unk = accel__special_text(config->root, map->root, "unk_token", "<unk>");
  if (status == ACCEL_OK) status = make_pieces(t, &m, accel__vocab_id(&t->vocab, unk, strlen(unk)));
  if (status == ACCEL_OK) status = make_normalizer(t, &m, normalizer);
  accel__spm_free(&m);
  return status;
}

void accel__marian_finish(accel__tokenizer *t, const accel__normalizer *normalizer) {
  t->normalizer[t->normalizers++] = *normalizer;
  t->decoder[t->decoders++] = (accel__decoder){.kind = ACCEL__DECODE_SENTENCEPIECE};
  t->codes = true;
}

void accel__marian_defaults(accel__tokenizer *t) {
  accel__tokenizer_info *info = &t->info;
  if (info->eos < 0) info->eos = accel__token_to_id(t, "</s>", 4);
  if (info->pad < 0) info->pad = accel__token_to_id(t, "<pad>", 5);
  if (info->model_max_length == 0) info->model_max_length = LENGTH;
}
