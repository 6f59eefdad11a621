/* load.c - a tokenizer from tokenizer.json or vocab.txt, and what tokenizer_config.json and
 * special_tokens_map.json say of it. */
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "text/character_tokenizer.h"
#include "text/esm_tokenizer.h"
#include "text/text_internal.h"
#include "text/marian_tokenizer.h"
#include "text/merges.h"
#include "text/sentencepiece.h"
#include "text/settings.h"
#include "text/tiktoken.h"
#include "text/tokenizer_class.h"

enum { FILE_MAX = 256 << 20 };

typedef const accel__json_file file_t;
typedef const accel__json json_t;

static accel_status kept_string(accel__tokenizer *t, const char *text, const char **out) {
  *out = accel__arena_string(&t->arena, text);
  return *out ? ACCEL_OK : accel__no_memory(strlen(text));
}

/* ---- model ---- */

static accel_status model_kind(accel__tokenizer *t, file_t *file, json_t *model,
                               const accel__scan *scan) {
  static const char *const names[] = {"WordPiece", "WordLevel", "BPE", "Unigram"};
  const char *type = NULL;
  ACCEL_TRY_AS(accel__json_string(file, model, "type", &type), "model");
  if (!type) { /* files from before there was a type */
    type = scan->merges                                         ? "BPE"
           : scan->vocab && *scan->vocab == '['                 ? "Unigram"
           : accel__json_get(model, "max_input_chars_per_word") ? "WordPiece"
                                                                : "WordLevel";
  }
  for (int i = 0; i < 4; ++i) {
    if (strcmp(type, names[i]) != 0) continue;
    t->model.kind = (accel__vocab_model_kind)i;
    t->info.model_type = names[i];
    return ACCEL_OK;
  }
  return accel__fail(
      ACCEL_ERROR_UNSUPPORTED,
      "%s: field 'model.type' is '%s', expected BPE, Unigram, WordLevel or WordPiece", file->name,
      type);
}

static accel_status model_fields(accel__tokenizer *t, file_t *file, json_t *model) {
  accel__vocab_model *m = &t->model;
  const char *unk = m->kind == ACCEL__VOCAB_MODEL_WORDPIECE   ? "[UNK]"
                    : m->kind == ACCEL__VOCAB_MODEL_WORDLEVEL ? "<unk>"
                                                              : NULL;
  const char *prefix = m->kind == ACCEL__VOCAB_MODEL_WORDPIECE ? "##" : "", *suffix = "";
  int64_t max_chars = 100;
  double dropout = 0;
  ACCEL_TRY(accel__json_string(file, model, "unk_token", &unk));
  ACCEL_TRY(accel__json_string(file, model, "continuing_subword_prefix", &prefix));
  ACCEL_TRY(accel__json_string(file, model, "end_of_word_suffix", &suffix));
  ACCEL_TRY(accel__json_int(file, model, "max_input_chars_per_word", 0, INT32_MAX, &max_chars));
  ACCEL_TRY(accel__json_bool(file, model, "fuse_unk", &m->fuse_unk));
  ACCEL_TRY(accel__json_bool(file, model, "byte_fallback", &m->byte_fallback));
  ACCEL_TRY(accel__json_bool(file, model, "ignore_merges", &m->ignore_merges));
  ACCEL_TRY(accel__json_number(file, model, "dropout", &dropout));
  if (dropout != 0) {
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: field 'model.dropout' is %g: ids would be random; set it to null",
                       file->name, dropout);
  }
  if (strlen(suffix) > 64)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: field 'model.end_of_word_suffix' is longer than 64 bytes", file->name);
  m->max_chars = (size_t)max_chars;
  m->prefix_n = strlen(prefix);
  m->suffix_n = strlen(suffix);
  m->prefix_hash = accel__hash_bytes(ACCEL__HASH_SEED, prefix, m->prefix_n);
  ACCEL_TRY(kept_string(t, prefix, &m->prefix));
  ACCEL_TRY(kept_string(t, suffix, &m->suffix));
  return unk ? kept_string(t, unk, &m->unk_token) : ACCEL_OK;
}

static void find_byte_tokens(accel__tokenizer *t) {
  static const char digits[] = "0123456789ABCDEF";
  for (int i = 0; i < 256; ++i) {
    const char token[] = {'<', '0', 'x', digits[i >> 4], digits[i & 15], '>'};
    t->model.byte_id[i] = accel__vocab_id(&t->vocab, token, sizeof token);
  }
}

static accel_status build_unigram(accel__tokenizer *t, file_t *file, json_t *model) {
  accel__vocab_model *m = &t->model;
  accel__vocab *v = &t->vocab;
  int64_t unk = -1;
  double least = 0;
  ACCEL_TRY(accel__json_int(file, model, "unk_id", 0, (int64_t)t->info.model_vocab_size - 1, &unk));
  m->unk = (int32_t)unk;
  if (m->piece_id) return ACCEL_OK; /* the pieces are not the vocabulary: marian.c made them */
  for (uint32_t i = 0; i < t->info.model_vocab_size; ++i)
    least = i == 0 || m->score[i] < least ? m->score[i] : least;
  m->unk_score = least - 10; /* kUnkPenalty of SentencePiece */
  accel__trie_string *strings = malloc((v->n ? v->n : 1) * sizeof *strings);
  if (!strings) return accel__no_memory(v->n * sizeof *strings);
  for (size_t i = 0; i < v->n; ++i)
    strings[i] = (accel__trie_string){
        .text = accel__vocab_text(v, &v->entry[i]), .n = v->entry[i].n, .value = v->entry[i].id};
  accel_status status = accel__trie_build(&m->trie, strings, v->n);
  free(strings);
  return status;
}

static accel_status build_model(accel__tokenizer *t, file_t *file, json_t *model,
                                const accel__scan *scan) {
  accel__vocab_model *m = &t->model;
  const char *field = m->kind == ACCEL__VOCAB_MODEL_UNIGRAM ? "an array" : "an object";
  if (t->vocab.n == 0 && scan->vocab &&
      *scan->vocab == (m->kind == ACCEL__VOCAB_MODEL_UNIGRAM ? '[' : '{')) {
    ACCEL_TRY(m->kind == ACCEL__VOCAB_MODEL_UNIGRAM
                  ? accel__scan_vocab_array(scan, t->name, &t->vocab, &m->score)
                  : accel__scan_vocab_object(scan, t->name, &t->vocab));
  }
  if (t->vocab.n == 0)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: field 'model.vocab' is missing or empty, expected %s", file->name,
                       field);
  ACCEL_TRY(accel__vocab_finish(&t->vocab));
  t->info.model_vocab_size = (uint32_t)t->vocab.n;
  if (m->kind == ACCEL__VOCAB_MODEL_UNIGRAM)
    t->info.model_vocab_size = (uint32_t)t->vocab.ids; /* equal tokens count twice there */
  m->unk = m->unk_token ? accel__vocab_id(&t->vocab, m->unk_token, strlen(m->unk_token)) : -1;
  if (m->byte_fallback) find_byte_tokens(t);
  if (m->kind == ACCEL__VOCAB_MODEL_UNIGRAM) return build_unigram(t, file, model);
  if (m->kind != ACCEL__VOCAB_MODEL_BPE) return ACCEL_OK;
  if (!scan->merges)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'model.merges' is missing", file->name);
  ACCEL_TRY(accel__scan_merges(scan, t->name, t));
  m->cuts_at_space = !m->crosses && !m->ignore_merges && m->prefix_n == 0 && m->suffix_n == 0 &&
                     accel__vocab_id(&t->vocab, "\xE2\x96\x81", 3) >= 0;
  return ACCEL_OK;
}

/* ---- added tokens ---- */

/* Ids are given as the package gives them: the model's where it has the token, else counting on
 * from the vocabulary's size; the file's own ids say the same wherever they make sense. */
static accel_status add_token(accel__tokenizer *t, file_t *file, json_t *item, int32_t *next_id) {
  accel__added *a = &t->added[t->added_n];
  const char *content = NULL;
  *a = (accel__added){.normalized = true};
  ACCEL_TRY(accel__json_require(file, item, "content"));
  ACCEL_TRY(accel__json_string(file, item, "content", &content));
  ACCEL_TRY(accel__json_bool(file, item, "single_word", &a->single_word));
  ACCEL_TRY(accel__json_bool(file, item, "lstrip", &a->lstrip));
  ACCEL_TRY(accel__json_bool(file, item, "rstrip", &a->rstrip));
  ACCEL_TRY(accel__json_bool(file, item, "normalized", &a->normalized));
  ACCEL_TRY(accel__json_bool(file, item, "special", &a->special));
  if (*content == 0) return ACCEL_OK;
  ACCEL_TRY(kept_string(t, content, &a->content));
  a->content_n = strlen(content);
  a->id = accel__vocab_id(&t->added_vocab, content, a->content_n);
  if (a->id < 0) a->id = accel__vocab_id(&t->vocab, content, a->content_n);
  if (a->id < 0) a->id = (*next_id)++;
  if (t->characters.class != ACCEL__CHARACTERS_NONE)
    ACCEL_TRY(accel__characters_listed_id(file, item, &a->id));
  if (a->id >= ACCEL__TOKENS_MAX)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'added_tokens' leads to ids over %d",
                       file->name, ACCEL__TOKENS_MAX);
  t->added_n++;
  return accel__vocab_add(&t->added_vocab, content, a->content_n, a->id);
}

/* array: the file's; `named`: tokens of tokenizer_config.json, which come behind them where the file
 * lacks them, or where added_tokens_decoder gives them other flags (TokenizersBackend.__init__);
 * NULL: none. */
static accel_status parse_added(accel__tokenizer *t, file_t *file, json_t *array, file_t *named) {
  json_t *more = named ? accel__json_get(named->root, "added_tokens") : NULL;
  size_t n = 0;
  ACCEL_JSON_EACH(item, array) n++;
  ACCEL_JSON_EACH(item, more) n++;
  if (n > ACCEL__TOKENS_MAX)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'added_tokens' has more than %d tokens",
                       file->name, ACCEL__TOKENS_MAX);
  t->added = accel__arena_array(&t->arena, n, sizeof *t->added);
  if (!t->added) return accel__no_memory(n * sizeof *t->added);
  int32_t next_id = (int32_t)t->info.model_vocab_size;
  ACCEL_JSON_EACH(item, array)
  ACCEL_TRY_AS(add_token(t, file, item, &next_id), "added_tokens[%zu]", t->added_n);
  ACCEL_JSON_EACH(item, more) {
    const char *content = accel__json_get(item, "content")->valuestring;
    if (accel__vocab_id(&t->added_vocab, content, strlen(content)) < 0 ||
        cJSON_IsTrue(accel__json_get(item, "listed")))
      ACCEL_TRY(add_token(t, named, item, &next_id));
  }
  return accel__added_build(t);
}

/* ---- truncation and padding as tokenizer.json has them ---- */

static accel_status parse_truncation(accel__tokenizer *t, file_t *file, json_t *object) {
  if (!object) return ACCEL_OK;
  int64_t length = 512, stride = 0;
  const char *strategy = "LongestFirst", *direction = "Right";
  ACCEL_TRY(accel__json_int(file, object, "max_length", 0, INT32_MAX, &length));
  ACCEL_TRY(accel__json_int(file, object, "stride", 0, INT32_MAX, &stride));
  ACCEL_TRY(accel__json_string(file, object, "strategy", &strategy));
  ACCEL_TRY(accel__json_string(file, object, "direction", &direction));
  t->info.file_truncates = true;
  t->info.file_max_length = (uint32_t)length;
  t->info.file_stride = (uint32_t)stride;
  t->info.truncate_left = strcmp(direction, "Left") == 0;
  t->info.file_truncation = ACCEL__TRUNCATE_LONGEST_FIRST;
  if (strcmp(strategy, "OnlyFirst") == 0)
    t->info.file_truncation = ACCEL__TRUNCATE_ONLY_FIRST;
  else if (strcmp(strategy, "OnlySecond") == 0)
    t->info.file_truncation = ACCEL__TRUNCATE_ONLY_SECOND;
  else if (strcmp(strategy, "LongestFirst") != 0)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: field 'truncation.strategy' is '%s'",
                       file->name, strategy);
  return ACCEL_OK;
}

static accel_status parse_padding(accel__tokenizer *t, file_t *file, json_t *object) {
  if (!object) return ACCEL_OK;
  int64_t type = 0, multiple = 0, fixed = 0;
  const char *direction = "Right";
  json_t *strategy = accel__json_get(object, "strategy");
  if (cJSON_IsObject(strategy))
    ACCEL_TRY(accel__json_int(file, strategy, "Fixed", 0, INT32_MAX, &fixed));
  ACCEL_TRY(accel__json_int(file, object, "pad_type_id", 0, INT32_MAX, &type));
  ACCEL_TRY(accel__json_int(file, object, "pad_to_multiple_of", 0, INT32_MAX, &multiple));
  ACCEL_TRY(accel__json_string(file, object, "direction", &direction));
  t->info.file_pads = true;
  t->info.file_pad_length = (uint32_t)fixed;
  t->info.file_pad_multiple = (uint32_t)multiple;
  t->info.pad_type_id = (uint32_t)type;
  t->info.pad_left = strcmp(direction, "Left") == 0;
  return ACCEL_OK;
}

/* ---- tokenizer.json ---- */

static void count_tokens(accel__tokenizer *t) {
  size_t shared = 0;
  for (size_t i = 0; i < t->added_vocab.n; ++i) {
    const accel__vocab_entry *e = &t->added_vocab.entry[i];
    shared += accel__vocab_id(&t->vocab, accel__vocab_text(&t->added_vocab, e), e->n) >= 0;
  }
  t->info.vocab_size = t->info.model_vocab_size + (uint32_t)(t->added_vocab.n - shared);
  size_t ids = t->vocab.ids > t->added_ids ? t->vocab.ids : t->added_ids;
  t->info.max_id = ids ? (uint32_t)ids - 1 : 0;
}

/* The file without vocabulary and merges is in `file`; both are in `scan`, or the vocabulary is in
 * t->vocab already.  made: model, normalizer, pre-tokenizer, decoder and added tokens in their place
 * of the file's, or NULL. */
static accel_status build(accel__tokenizer *t, file_t *file, file_t *made, const accel__scan *scan,
                          file_t *named) {
  json_t *root = file->root, *top = made ? made->root : root, *added = NULL;
  json_t *model = accel__json_get(top, "model");
  const char *version = "1.0";
  if (!cJSON_IsObject(root) || !cJSON_IsObject(model))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'model' must be an object", file->name);
  ACCEL_TRY(accel__json_string(file, root, "version", &version));
  if (strcmp(version, "1.0") != 0)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: field 'version' is '%s', expected 1.0",
                       file->name, version);
  ACCEL_TRY(model_kind(t, file, model, scan));
  ACCEL_TRY_AS(model_fields(t, file, model), "model");
  ACCEL_TRY(build_model(t, file, model, scan));
  ACCEL_TRY(accel__parse_normalizer(t, file, accel__json_get(top, "normalizer")));
  ACCEL_TRY(accel__parse_pre_tokenizer(t, file, accel__json_get(top, "pre_tokenizer")));
  t->bytes_last =
      t->pre_tokenizers && t->pre_tokenizer[t->pre_tokenizers - 1].kind == ACCEL__PRE_BYTE_LEVEL;
  ACCEL_TRY(accel__parse_post_processor(t, file, accel__json_get(root, "post_processor")));
  ACCEL_TRY(accel__parse_decoder(t, file, accel__json_get(top, "decoder")));
  ACCEL_TRY_AS(parse_truncation(t, file, accel__json_get(root, "truncation")), "truncation");
  ACCEL_TRY_AS(parse_padding(t, file, accel__json_get(root, "padding")), "padding");
  ACCEL_TRY(accel__json_array(file, top, "added_tokens", &added));
  ACCEL_TRY(parse_added(t, file, added, named));
  count_tokens(t);
  t->info.continuing_subword_prefix = t->model.prefix;
  return ACCEL_OK;
}

/* ---- what a class makes anew ---- */

/* The step of a type in a tokenizer.json's part, or in its sequence; NULL: none. */
static json_t *step_of(json_t *part, const char *members, const char *type) {
  json_t *is = accel__json_get(part, "type");
  if (cJSON_IsString(is) && strcmp(is->valuestring, type) == 0) return part;
  ACCEL_JSON_EACH(step, accel__json_get(part, members)) {
    is = accel__json_get(step, "type");
    if (cJSON_IsString(is) && strcmp(is->valuestring, type) == 0) return step;
  }
  return NULL;
}

/* Whether the file's vocabulary is of the kind that the class takes. */
static bool fits(const accel__tokenizer_class *class, json_t *root, const accel__scan *scan) {
  json_t *type = accel__json_get(accel__json_get(root, "model"), "type");
  if (!scan->vocab) return false;
  if (cJSON_IsString(type)) return strcmp(type->valuestring, class->model) == 0;
  return strcmp(class->model, "Unigram") == 0 ? *scan->vocab == '['
         : strcmp(class->model, "BPE") == 0   ? scan->merges != NULL
                                              : *scan->vocab == '{' && !scan->merges;
}

static accel_status class_json(const accel__tokenizer_class *class, json_t *settings, json_t *root,
                               accel__json_file *out) {
  json_t *map = step_of(accel__json_get(root, "normalizer"), "normalizers", "Precompiled");
  json_t *charsmap = accel__json_get(map, "precompiled_charsmap");
  const char *text = cJSON_IsString(charsmap) ? charsmap->valuestring : NULL;
  json_t *listed = accel__json_get(settings, "added_tokens_decoder")
                       ? NULL
                       : accel__json_get(root, "added_tokens");
  accel__buffer b = {0};
  accel__buffer_text(&b, "{");
  accel_status status =
      accel__put_class(class, settings, listed, text, text ? strlen(text) : 0, &b);
  accel__buffer_text(&b, "}}");
  if (status == ACCEL_OK) status = accel__buffer_status(&b);
  if (status == ACCEL_OK) status = accel__json_parse(b.data, b.n, "tokenizer_config.json", out);
  accel__buffer_free(&b);
  return status;
}

/* The files beside a tokenizer.json: what tokenizer_config.json and the others say together, and
 * the root of config.json. */
typedef struct companions {
  json_t *settings, *model;
} companions;

static accel_status build_parsed(accel__tokenizer *t, file_t *file, const accel__scan *scan,
                                 const companions *with) {
  accel__json_file named = {0}, made = {0};
  json_t *root = file->root, *settings = with->settings;
  const bool byte_level =
      step_of(accel__json_get(root, "pre_tokenizer"), "pretokenizers", "ByteLevel") ||
      step_of(accel__json_get(root, "decoder"), "decoders", "ByteLevel");
  const accel__tokenizer_class *class =
      accel__auto_tokenizer_class(settings, with->model, byte_level);
  accel_status status;
  if (class && fits(class, root, scan)) {
    status = class_json(class, settings, root, &made);
    if (status == ACCEL_OK) status = build(t, file, &made, scan, NULL);
    if (status == ACCEL_OK) status = accel__finish_class(t, class, settings);
    t->class = class;
  } else {
    status = accel__settings_tokens(settings, t->name, &named);
    if (status == ACCEL_OK) status = build(t, file, NULL, scan, &named);
  }
  accel__json_free(&made);
  accel__json_free(&named);
  return status;
}

/* with: NULL, no other file counts. */
static accel_status build_from_json(accel__tokenizer *t, const char *json, size_t n,
                                    const companions *with) {
  accel__scan scan;
  accel__json_file file = {0};
  accel_status status = accel__scan_tokenizer(json, n, t->name, &scan);
  if (status == ACCEL_OK)
    status = accel__json_parse(scan.rest.data ? scan.rest.data : "", scan.rest.n, t->name, &file);
  if (status == ACCEL_OK)
    status = with ? build_parsed(t, &file, &scan, with) : build(t, &file, NULL, &scan, NULL);
  accel__json_free(&file);
  accel__buffer_free(&scan.rest);
  return status;
}

/* ---- special tokens by name ---- */

typedef struct special {
  const char *key;
  int32_t *id;
  int named;            /* its place in accel__named_token_keys */
  const char *usual[3]; /* tried when no file names one */
} special;

/* "cls_token": "[CLS]", or {"content": "[CLS]", ...} */
static void named_special(const accel__tokenizer *t, json_t *object, const char *key, int32_t *id) {
  json_t *at = accel__json_get(object, key);
  if (cJSON_IsObject(at)) at = accel__json_get(at, "content");
  if (!cJSON_IsString(at)) return;
  int32_t found = accel__token_to_id(t, at->valuestring, strlen(at->valuestring));
  if (found >= 0) *id = found;
}

static void find_specials(accel__tokenizer *t, json_t *config, json_t *map) {
  accel__tokenizer_info *info = &t->info;
  const special specials[] = {
      {"cls_token", &info->cls, 5, {"[CLS]", "<s>"}},
      {"sep_token", &info->sep, 3, {"[SEP]", "</s>"}},
      {"pad_token", &info->pad, 4, {"[PAD]", "<pad>"}},
      {"mask_token", &info->mask, 6, {"[MASK]", "<mask>"}},
      {"unk_token", &info->unk, 2, {"[UNK]", "<unk>"}},
      {"bos_token", &info->bos, 0, {"<s>"}},
      {"eos_token", &info->eos, 1, {"</s>"}},
  };
  for (size_t i = 0; i < sizeof specials / sizeof *specials; ++i) {
    int32_t *id = specials[i].id;
    *id = -1;
    named_special(t, map, specials[i].key, id);
    named_special(t, config, specials[i].key, id); /* wins */
    const char *own = t->class ? t->class->tokens.own[specials[i].named] : NULL;
    if (own && *id < 0 && !cJSON_GetObjectItemCaseSensitive(config, specials[i].key))
      *id = accel__token_to_id(t, own, strlen(own));
    for (int k = 0; !config && !map && *id < 0 && k < 3 && specials[i].usual[k]; ++k) {
      *id = accel__token_to_id(t, specials[i].usual[k], strlen(specials[i].usual[k]));
    }
  }
  if (info->unk < 0 && t->model.unk >= 0) info->unk = t->model.unk;
}

static accel_status read_config(accel__tokenizer *t, file_t *config) {
  double length = 0;
  bool for_bpe = false, masked = false;
  const char *padding = NULL, *truncation = NULL;
  json_t *names = NULL;
  ACCEL_TRY(accel__json_number(config, config->root, "model_max_length", &length));
  ACCEL_TRY(accel__json_string(config, config->root, "padding_side", &padding));
  ACCEL_TRY(accel__json_string(config, config->root, "truncation_side", &truncation));
  ACCEL_TRY(
      accel__json_bool(config, config->root, "clean_up_tokenization_spaces", &t->info.clean_up));
  ACCEL_TRY(accel__json_bool(config, config->root, "split_special_tokens", &t->split_special));
  ACCEL_TRY(accel__json_bool(
      config, config->root,
      "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", &for_bpe));
  /* meant for WordPiece's texts */
  if (t->model.kind == ACCEL__VOCAB_MODEL_BPE && !for_bpe) t->info.clean_up = false;
  t->info.model_max_length = length >= 1 && length < 1e9 ? (uint32_t)length : 0;
  t->info.pad_left =
      padding ? strcmp(padding, "left") == 0 : t->info.pad_left || (t->class && t->class->left);
  if (truncation) t->info.truncate_left = strcmp(truncation, "left") == 0;
  ACCEL_TRY(accel__json_array(config, config->root, "model_input_names", &names));
  ACCEL_JSON_EACH(item, names)
  masked = masked || (cJSON_IsString(item) && !strcmp(item->valuestring, "attention_mask"));
  t->info.no_mask = names && !masked;
  return ACCEL_OK;
}

const char *accel__special_text(json_t *config, json_t *map, const char *key, const char *usual) {
  json_t *at = accel__json_get(config, key);
  if (!at) at = accel__json_get(map, key);
  if (cJSON_IsObject(at)) at = accel__json_get(at, "content");
  return cJSON_IsString(at) ? at->valuestring : usual;
}

/* ---- vocab.txt ---- */

static accel_status read_vocab_text(accel__tokenizer *t, const accel__mapping *map) {
  const char *at = (const char *)map->data, *end = at + map->n;
  for (int32_t id = 0; at < end; ++id) {
    const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
    size_t n = (size_t)(stop - at);
    if (n > 0 && at[n - 1] == '\r') n--;
    if (id >= ACCEL__TOKENS_MAX)
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: more than %d lines", map->path,
                         ACCEL__TOKENS_MAX);
    if (!accel__utf8_valid(at, n))
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: line %d is not UTF-8", map->path, id + 1);
    ACCEL_TRY(accel__vocab_add(&t->vocab, at, n, id));
    at = newline ? newline + 1 : end;
  }
  return ACCEL_OK;
}

/* The tokenizer.json that the class would write for this directory, vocabulary and post-processor
 * left out. */
static accel_status wordpiece_json(const accel__tokenizer_class *class, json_t *settings,
                                   accel__buffer *b) {
  accel__buffer_text(b, "{");
  ACCEL_TRY(accel__put_class(class, settings, NULL, NULL, 0, b));
  accel__buffer_text(b, "}}");
  return accel__buffer_status(b);
}

static accel_status build_from_vocab_text(accel__tokenizer *t, const accel__mapping *map,
                                          file_t *settings) {
  accel__buffer b = {0};
  accel__json_file file = {0};
  const accel__scan none = {0};
  const bool esm = accel__is_esm(settings);
  if (!esm && (!t->class || strcmp(t->class->model, "WordPiece") != 0))
    t->class = accel__tokenizer_class_named("BertTokenizer");
  accel_status status = read_vocab_text(t, map);
  if (status == ACCEL_OK)
    status = esm ? accel__esm_json(t, settings, &b) : wordpiece_json(t->class, settings->root, &b);
  if (status == ACCEL_OK) status = accel__json_parse(b.data, b.n, t->name, &file);
  if (status == ACCEL_OK) status = build(t, &file, NULL, &none, NULL);
  if (status == ACCEL_OK && !esm) status = accel__finish_class(t, t->class, settings->root);
  accel__json_free(&file);
  accel__buffer_free(&b);
  return status;
}

/* A SentencePiece model with vocab.json, and perhaps target_vocab.json, beside it. */
static accel_status build_from_marian(accel__tokenizer *t, accel__marian_kind kind,
                                      const accel__mapping *map, const char *directory,
                                      file_t *config, file_t *special_map) {
  accel__buffer b = {0};
  accel__json_file file = {0};
  const accel__scan none = {0};
  accel__normalizer normalizer;
  const accel__marian_files files = {.spm = map->data,
                                     .spm_n = map->n,
                                     .directory = directory,
                                     .config = config,
                                     .special_map = special_map};
  accel_status status = accel__marian_read(t, kind, &files, &normalizer, &b);
  if (status == ACCEL_OK) status = accel__json_parse(b.data, b.n, t->name, &file);
  if (status == ACCEL_OK) status = build(t, &file, NULL, &none, NULL);
  if (status == ACCEL_OK) accel__marian_finish(t, kind, &normalizer);
  accel__json_free(&file);
  accel__buffer_free(&b);
  return status;
}

/* A SentencePiece model, or what else is called *.model: a tiktoken vocabulary. */
static accel_status build_from_model(accel__tokenizer *t, const accel__mapping *map,
                                     file_t *given) {
  accel__buffer b = {0};
  const char *text = (const char *)map->data;
  if (accel__is_tiktoken(text, map->n)) t->class = NULL; /* it has a post-processor of its own */
  accel_status status =
      accel__is_tiktoken(text, map->n)
          ? accel__tiktoken_json(text, map->n, t->name, given, &b)
          : accel__sentencepiece_json(map->data, map->n, t->name, t->class, given, &b);
  if (status == ACCEL_OK) status = build_from_json(t, b.data, b.n, NULL);
  if (status == ACCEL_OK && t->class) status = accel__finish_class(t, t->class, given->root);
  accel__buffer_free(&b);
  return status;
}

/* merges.txt, with vocab.json beside it. */
static accel_status build_from_merges(accel__tokenizer *t, const accel__mapping *map,
                                      const char *directory, file_t *settings) {
  accel__buffer b = {0};
  accel__mapping vocab = {0};
  char *path = accel__path_join(&t->arena, directory, "vocab.json");
  if (!path) return accel__no_memory(strlen(directory));
  accel_status status = accel__file_load(path, &vocab);
  if (status == ACCEL_OK && vocab.n > FILE_MAX)
    status = accel__fail(ACCEL_ERROR_FORMAT, "%s: larger than %d bytes", path, FILE_MAX);
  if (!t->class || strcmp(t->class->model, "BPE") != 0)
    t->class = accel__tokenizer_class_named("GPT2Tokenizer");
  if (status == ACCEL_OK)
    status = accel__merges_json((const char *)vocab.data, vocab.n, (const char *)map->data, map->n,
                                t->name, t->class, settings->root, &b);
  if (status == ACCEL_OK) status = build_from_json(t, b.data, b.n, NULL);
  if (status == ACCEL_OK) status = accel__finish_class(t, t->class, settings->root);
  accel__file_unmap(&vocab);
  accel__buffer_free(&b);
  return status;
}

/* vocab.json without merges. */
static accel_status build_from_characters(accel__tokenizer *t, const accel__mapping *map,
                                          file_t *settings) {
  accel__buffer b = {0};
  accel__json_file file = {0};
  const accel__scan none = {0};
  accel_status status = accel__characters_read(t, (const char *)map->data, map->n, settings, &b);
  if (status == ACCEL_OK) status = accel__json_parse(b.data, b.n, t->name, &file);
  if (status == ACCEL_OK) status = build(t, &file, NULL, &none, NULL);
  if (status == ACCEL_OK) status = accel__characters_finish(t);
  accel__json_free(&file);
  accel__buffer_free(&b);
  return status;
}

/* ---- the whole ---- */

static accel_status create(const char *name, accel__tokenizer **out) {
  static _Atomic uint64_t serial;
  accel__tokenizer *t = calloc(1, sizeof *t);
  if (!t) return accel__no_memory(sizeof *t);
  t->serial = ++serial;
  t->name = accel__arena_string(&t->arena, name);
  const accel_status status =
      t->name ? accel__vocabulary_new(&t->vocabulary) : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status != ACCEL_OK) {
    accel__tokenizer_free(&t);
    return status;
  }
  *out = t;
  return ACCEL_OK;
}

accel_status accel__tokenizer_parse(const char *json, size_t n, const char *name,
                                    accel__tokenizer **out) {
  accel__tokenizer *t = NULL;
  *out = NULL;
  ACCEL_TRY(create(name, &t));
  accel_status status = build_from_json(t, json, n, NULL);
  if (status == ACCEL_OK) find_specials(t, NULL, NULL);
  if (status != ACCEL_OK) accel__tokenizer_free(&t);
  *out = t;
  return status;
}

typedef struct beside {
  /* tokenizer_config.json, special_tokens_map.json; of all files together; config.json */
  accel__json_file config, special_map, settings, model;
} beside;

static accel_status build_from_file(accel__tokenizer *t, const accel__mapping *map,
                                    const char *path, const char *directory, beside *files) {
  file_t *config = &files->config, *settings = &files->settings;
  const accel__marian_kind kind = accel__is_m2m100(config) ? ACCEL__M2M100 : ACCEL__MARIAN;
  const bool numbered =
      accel__ends_with(path, ".spm") || (accel__ends_with(path, ".model") && kind == ACCEL__M2M100);
  if (numbered) {
    ACCEL_TRY(build_from_marian(t, kind, map, directory, config, &files->special_map));
    if (config->root) ACCEL_TRY(read_config(t, config));
    find_specials(t, config->root, files->special_map.root);
    accel__marian_defaults(t, kind);
    return ACCEL_OK;
  }
  const bool characters = accel__ends_with(path, "vocab.json"),
             whole = accel__ends_with(path, ".json") && !characters;
  ACCEL_TRY(accel__json_read_beside(directory, "config.json", 0, &files->model));
  ACCEL_TRY(accel__tokenizer_settings(directory, config, &files->special_map, &files->model,
                                      accel__ends_with(path, ".model"), &files->settings));
  if (whole) {
    const companions with = {.settings = settings->root, .model = files->model.root};
    ACCEL_TRY(build_from_json(t, (const char *)map->data, map->n, &with));
    ACCEL_TRY(read_config(t, settings));
    const bool said = config->root || files->special_map.root;
    find_specials(t, said || t->class ? settings->root : NULL, NULL);
    return ACCEL_OK;
  }
  json_t *class = accel__json_get(settings->root, "tokenizer_class");
  t->class = cJSON_IsString(class) ? accel__tokenizer_class_named(class->valuestring) : NULL;
  const bool merges = accel__ends_with(path, "merges.txt");
  ACCEL_TRY(characters                       ? build_from_characters(t, map, settings)
            : merges                         ? build_from_merges(t, map, directory, settings)
            : accel__ends_with(path, ".txt") ? build_from_vocab_text(t, map, settings)
                                             : build_from_model(t, map, settings));
  ACCEL_TRY(read_config(t, settings));
  if ((t->bare && !characters) || t->class)
    ACCEL_TRY(accel__apply_bos_eos(t, t->class, settings, merges));
  find_specials(t, settings->root->child ? settings->root : NULL, NULL);
  return ACCEL_OK;
}

static accel_status load_file(accel__tokenizer *t, const char *path, const char *directory) {
  beside files = {0};
  accel__mapping map = {0};
  accel_status status =
      accel__json_read_beside(directory, "tokenizer_config.json", 0, &files.config);
  if (status == ACCEL_OK)
    status = accel__json_read_beside(directory, "special_tokens_map.json", 0, &files.special_map);
  if (status == ACCEL_OK) status = accel__file_load(path, &map);
  if (status == ACCEL_OK && map.n > FILE_MAX)
    status = accel__fail(ACCEL_ERROR_FORMAT, "%s: larger than %d bytes", path, FILE_MAX);
  if (status == ACCEL_OK) status = build_from_file(t, &map, path, directory, &files);
  accel__file_unmap(&map);
  accel__json_free(&files.config);
  accel__json_free(&files.special_map);
  accel__json_free(&files.settings);
  accel__json_free(&files.model);
  return status;
}

/* The file to read, and the directory whose other files go with it. */
static accel_status locate(accel__arena *arena, const char *given, char **path, char **directory) {
  if (!accel__is_directory(given)) {
    const char *slash = strrchr(given, '/');
    *path = accel__arena_string(arena, given);
    *directory = slash ? accel__arena_copy(arena, given, (size_t)(slash - given) + 1)
                       : accel__arena_string(arena, ".");
    return *path && *directory ? ACCEL_OK : accel__no_memory(strlen(given));
  }
  *directory = accel__arena_string(arena, given);
  static const char *const names[] = {
      "tokenizer.json",  "vocab.txt",           "merges.txt",
      "tokenizer.model", "spiece.model",        "sentencepiece.bpe.model",
      "spm.model",       "sentencepiece.model", "source.spm",
      "tiktoken.model",  "vocab.json"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    *path = accel__path_join(arena, given, names[i]);
    if (!*path || !*directory) return accel__no_memory(strlen(given));
    if (accel__file_exists(*path)) return ACCEL_OK;
  }
  accel__fail(
      ACCEL_ERROR_NOT_FOUND,
      "%s: neither tokenizer.json, vocab.txt, merges.txt, vocab.json nor a SentencePiece model is "
      "there",
      given);
  return accel__remedy(
      ACCEL_ERROR_NOT_FOUND,
      "save the tokenizer with transformers' save_pretrained, which writes tokenizer.json");
}

accel_status accel__tokenizer_load(const char *directory_or_file, accel__tokenizer **out) {
  accel__tokenizer *t = NULL;
  char *path = NULL, *directory = NULL;
  *out = NULL;
  accel__arena arena = {0};
  accel_status status = locate(&arena, directory_or_file, &path, &directory);
  if (status == ACCEL_OK) status = create(path, &t);
  if (status == ACCEL_OK) status = load_file(t, path, directory);
  accel__arena_free(&arena);
  if (status != ACCEL_OK) accel__tokenizer_free(&t);
  *out = t;
  return status;
}

void accel__tokenizer_free(accel__tokenizer **tokenizer) {
  if (!tokenizer || !*tokenizer) return;
  accel__tokenizer *t = *tokenizer;
  accel__vocab_free(&t->vocab);
  accel__vocab_free(&t->added_vocab);
  accel__vocab_free(&t->target);
  accel__trie_free(&t->raw_trie);
  accel__trie_free(&t->normalized_trie);
  accel__trie_free(&t->model.trie);
  accel__vocabulary_free(t->vocabulary);
  free(t->model.merge);
  free(t->model.score);
  accel__arena_free(&t->arena);
  free(t);
  *tokenizer = NULL;
}

size_t accel__tokenizer_bytes(const accel__tokenizer *t) {
  const accel__vocab_model *m = &t->model;
  size_t bytes = sizeof *t + t->arena.bytes + m->merges * sizeof *m->merge +
                 (m->score ? t->info.model_vocab_size : 0) * sizeof *m->score;
  const accel__vocab *const vocabs[] = {&t->vocab, &t->added_vocab, &t->target};
  const accel__trie *const tries[] = {&t->raw_trie, &t->normalized_trie, &m->trie};
  for (int i = 0; i < 3; ++i) bytes += accel__vocab_bytes(vocabs[i]) + accel__trie_bytes(tries[i]);
  return bytes + accel__vocabulary_bytes(t->vocabulary);
}

const accel__tokenizer_info *accel__tokenizer_describe(const accel__tokenizer *t) {
  return &t->info;
}

int32_t accel__token_to_id(const accel__tokenizer *t, const char *token, size_t n) {
  int32_t id = accel__vocab_id(&t->added_vocab, token, n);
  return id >= 0 ? id : accel__vocab_id(&t->vocab, token, n);
}

const char *accel__id_to_token(const accel__tokenizer *t, int32_t id, size_t *n) {
  size_t length = 0;
  const char *text = NULL;
  if (id >= 0 && (size_t)id < t->added_ids && t->added_by_id[id]) {
    const accel__added *a = &t->added[t->added_by_id[id] - 1];
    text = a->shown;
    length = a->shown_n;
  } else {
    const accel__vocab *v = t->target.n ? &t->target : &t->vocab;
    const accel__vocab_entry *e = accel__vocab_token(v, id);
    if (e) {
      text = accel__vocab_text(v, e);
      length = e->n;
    }
  }
  if (n) *n = length;
  return text;
}

static accel_status normalize_first(accel__tokenizer *t, accel__normalizer_kind kind) {
  for (size_t i = 0; i < t->normalizers; ++i) {
    if (t->normalizer[i].kind == kind) return ACCEL_OK;
  }
  if (t->normalizers == ACCEL__STEPS_MAX)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'normalizer' has no room for another step",
                       t->name);
  memmove(t->normalizer + 1, t->normalizer, t->normalizers * sizeof *t->normalizer);
  t->normalizer[0] = (accel__normalizer){.kind = kind};
  t->normalizers++;
  return ACCEL_OK;
}

accel_status accel__tokenizer_lower_case(accel__tokenizer *t) {
  return normalize_first(t, ACCEL__NORMALIZE_LOWERCASE);
}

accel_status accel__tokenizer_upper_case(accel__tokenizer *t) {
  return normalize_first(t, ACCEL__NORMALIZE_UPPERCASE);
}

bool accel__id_is_added(const accel__tokenizer *t, int32_t id) {
  return id >= 0 && (size_t)id < t->added_ids && t->added_by_id[id] > 0;
}

bool accel__id_is_special(const accel__tokenizer *t, int32_t id) {
  return id >= 0 && (size_t)id < t->added_ids && t->added_by_id[id] &&
         t->added[t->added_by_id[id] - 1].special;
}
