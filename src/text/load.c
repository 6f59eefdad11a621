/* load.c - a tokenizer from tokenizer.json or vocab.txt, and what tokenizer_config.json and
 * special_tokens_map.json say of it. */
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "text/esm_tokenizer.h"
#include "text/text_internal.h"
#include "text/marian_tokenizer.h"
#include "text/merges.h"
#include "text/sentencepiece.h"
#include "text/settings.h"
#include "text/tiktoken.h"

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
  if (a->id >= ACCEL__TOKENS_MAX)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'added_tokens' leads to ids over %d",
                       file->name, ACCEL__TOKENS_MAX);
  t->added_n++;
  return accel__vocab_add(&t->added_vocab, content, a->content_n, a->id);
}

/* `named`: tokens of tokenizer_config.json, which come behind the file's own where it lacks them
 * (TokenizersBackend.__init__); NULL: none. */
static accel_status parse_added(accel__tokenizer *t, file_t *file, file_t *named) {
  json_t *array = NULL, *more = named ? accel__json_get(named->root, "added_tokens") : NULL;
  ACCEL_TRY(accel__json_array(file, file->root, "added_tokens", &array));
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
    if (accel__vocab_id(&t->added_vocab, content, strlen(content)) < 0)
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
 * t->vocab already. */
static accel_status build(accel__tokenizer *t, file_t *file, const accel__scan *scan,
                          file_t *named) {
  json_t *root = file->root, *model = accel__json_get(root, "model");
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
  ACCEL_TRY(accel__parse_normalizer(t, file, accel__json_get(root, "normalizer")));
  ACCEL_TRY(accel__parse_pre_tokenizer(t, file, accel__json_get(root, "pre_tokenizer")));
  t->bytes_last =
      t->pre_tokenizers && t->pre_tokenizer[t->pre_tokenizers - 1].kind == ACCEL__PRE_BYTE_LEVEL;
  ACCEL_TRY(accel__parse_post_processor(t, file, accel__json_get(root, "post_processor")));
  ACCEL_TRY(accel__parse_decoder(t, file, accel__json_get(root, "decoder")));
  ACCEL_TRY_AS(parse_truncation(t, file, accel__json_get(root, "truncation")), "truncation");
  ACCEL_TRY_AS(parse_padding(t, file, accel__json_get(root, "padding")), "padding");
  ACCEL_TRY(parse_added(t, file, named));
  count_tokens(t);
  t->info.continuing_subword_prefix = t->model.prefix;
  return ACCEL_OK;
}

/* settings: tokenizer_config.json, whose special tokens are added where the file lacks them; NULL:
 * none. */
static accel_status build_from_json(accel__tokenizer *t, const char *json, size_t n,
                                    json_t *settings) {
  accel__scan scan;
  accel__json_file file = {0}, named = {0};
  accel_status status = accel__scan_tokenizer(json, n, t->name, &scan);
  if (status == ACCEL_OK)
    status = accel__json_parse(scan.rest.data ? scan.rest.data : "", scan.rest.n, t->name, &file);
  if (status == ACCEL_OK && settings) status = accel__settings_tokens(settings, t->name, &named);
  if (status == ACCEL_OK) status = build(t, &file, &scan, &named);
  accel__json_free(&named);
  accel__json_free(&file);
  accel__buffer_free(&scan.rest);
  return status;
}

/* ---- special tokens by name ---- */

typedef struct special {
  const char *key;
  int32_t *id;
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
      {"cls_token", &info->cls, {"[CLS]", "<s>"}},
      {"sep_token", &info->sep, {"[SEP]", "</s>"}},
      {"pad_token", &info->pad, {"[PAD]", "<pad>"}},
      {"mask_token", &info->mask, {"[MASK]", "<mask>"}},
      {"unk_token", &info->unk, {"[UNK]", "<unk>"}},
      {"bos_token", &info->bos, {"<s>"}},
      {"eos_token", &info->eos, {"</s>"}},
  };
  for (size_t i = 0; i < sizeof specials / sizeof *specials; ++i) {
    int32_t *id = specials[i].id;
    *id = -1;
    named_special(t, map, specials[i].key, id);
    named_special(t, config, specials[i].key, id); /* wins */
    for (int k = 0; !config && !map && *id < 0 && k < 3 && specials[i].usual[k]; ++k) {
      *id = accel__token_to_id(t, specials[i].usual[k], strlen(specials[i].usual[k]));
    }
  }
  if (info->unk < 0 && t->model.unk >= 0) info->unk = t->model.unk;
}

/* Classes whose padding_side is "left" where the file does not say. */
static bool pads_left(json_t *config) {
  static const char *const classes[] = {"Gemma", "Siglip2", "Llama", "CodeLlama"};
  json_t *class = accel__json_get(config, "tokenizer_class");
  for (size_t i = 0; cJSON_IsString(class) && i < sizeof classes / sizeof *classes; ++i)
    if (accel__starts_with(class->valuestring, classes[i])) return true;
  return false;
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
      padding ? strcmp(padding, "left") == 0 : t->info.pad_left || pads_left(config->root);
  if (truncation) t->info.truncate_left = strcmp(truncation, "left") == 0;
  ACCEL_TRY(accel__json_array(config, config->root, "model_input_names", &names));
  ACCEL_JSON_EACH(item, names)
  masked = masked || (cJSON_IsString(item) && !strcmp(item->valuestring, "attention_mask"));
  t->info.no_mask = names && !masked;
  return ACCEL_OK;
}

/* BERT's normalizer as its tokenizer's class makes it of tokenizer_config.json. */
static accel_status read_bert(file_t *config, accel__normalizer *n) {
  n->clean_text = n->handle_chinese_chars = n->lowercase = true;
  ACCEL_TRY(accel__json_bool(config, config->root, "do_lower_case", &n->lowercase));
  ACCEL_TRY(
      accel__json_bool(config, config->root, "tokenize_chinese_chars", &n->handle_chinese_chars));
  n->strip_accents = n->lowercase; /* null */
  return accel__json_bool(config, config->root, "strip_accents", &n->strip_accents);
}

/* Classes that do so whatever tokenizer.json says. */
static accel_status read_bert_settings(accel__tokenizer *t, file_t *config) {
  static const char *const classes[] = {"Bert",  "DistilBert", "Electra",
                                        "MPNet", "MobileBert", "Funnel"};
  json_t *class = accel__json_get(config->root, "tokenizer_class");
  bool own = false;
  for (size_t i = 0; cJSON_IsString(class) && i < sizeof classes / sizeof *classes; ++i)
    own = own || (accel__starts_with(class->valuestring, classes[i]) &&
                  accel__starts_with(class->valuestring + strlen(classes[i]), "Tokenizer"));
  if (!own || t->normalizers != 1 || t->normalizer[0].kind != ACCEL__NORMALIZE_BERT)
    return ACCEL_OK;
  return read_bert(config, &t->normalizer[0]);
}

const char *accel__special_text(json_t *config, json_t *map, const char *key, const char *usual) {
  json_t *at = accel__json_get(config, key);
  if (!at) at = accel__json_get(map, key);
  if (cJSON_IsObject(at)) at = accel__json_get(at, "content");
  return cJSON_IsString(at) ? at->valuestring : usual;
}

/* Classes of transformers that set a post-processor of their own whatever tokenizer_config.json
 * says. */
static bool has_own_post_processor(json_t *config) {
  static const char *const words[] = {"T5",         "XLM",     "MBart",   "Mbart",   "Camembert",
                                      "Deberta",    "Pegasus", "Nllb",    "Bert",    "Albert",
                                      "Roberta",    "Bart",    "Electra", "MPNet",   "Funnel",
                                      "Longformer", "BigBird", "Barthez", "Whisper", "CLIP"};
  json_t *class = accel__json_get(config, "tokenizer_class");
  for (size_t i = 0; cJSON_IsString(class) && i < sizeof words / sizeof *words; ++i) {
    if (strstr(class->valuestring, words[i])) return true;
  }
  return false;
}

/* The tokens of beginning and end of classes that have others than <s> and </s>; NULL: none. */
static void own_edges(json_t *config, bool merges, const char *own[2]) {
  static const struct {
    const char *class, *bos, *eos;
  } known[] = {{"Gemma", "<bos>", "<eos>"},
               {"Qwen2", NULL, "<|endoftext|>"},
               {"GPT2", "<|endoftext|>", "<|endoftext|>"},
               {"CodeGen", "<|endoftext|>", "<|endoftext|>"}};
  json_t *class = accel__json_get(config, "tokenizer_class");
  own[0] = merges ? "<|endoftext|>" : "<s>";
  own[1] = merges ? "<|endoftext|>" : "</s>";
  for (size_t i = 0; cJSON_IsString(class) && i < sizeof known / sizeof *known; ++i) {
    if (!accel__starts_with(class->valuestring, known[i].class)) continue;
    own[0] = known[i].bos;
    own[1] = known[i].eos;
  }
}

/* add_bos_token and add_eos_token, where they stand, replace the post-processor
 * (TokenizersBackend.update_post_processor).
 */
static accel_status apply_bos_eos(accel__tokenizer *t, file_t *config, bool merges) {
  json_t *class = accel__json_get(config->root, "tokenizer_class");
  bool bos = cJSON_IsString(class) && accel__starts_with(class->valuestring, "CodeLlama"),
       eos = false;
  bool stated = bos || cJSON_GetObjectItemCaseSensitive(config->root, "add_bos_token") ||
                cJSON_GetObjectItemCaseSensitive(config->root, "add_eos_token");
  if (!stated || has_own_post_processor(config->root)) return ACCEL_OK;
  ACCEL_TRY(accel__json_bool(config, config->root, "add_bos_token", &bos));
  ACCEL_TRY(accel__json_bool(config, config->root, "add_eos_token", &eos));
  const char *own[2];
  own_edges(config->root, merges, own);
  const char *begin = accel__special_text(config->root, NULL, "bos_token", own[0]);
  const char *end = accel__special_text(config->root, NULL, "eos_token", own[1]);
  return accel__set_bos_eos(t, bos && begin ? accel__token_to_id(t, begin, strlen(begin)) : -1,
                            eos && end ? accel__token_to_id(t, end, strlen(end)) : -1);
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

/* Classes over vocab.txt: BERT's kind, and MPNet's, which parts the texts of a pair by two
 * tokens. */
static const accel__class_tokens text_classes[] = {
    {.own = {NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
    {.own = {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"}, .mask_takes_space = true}};

static void put_text_normalizer(accel__buffer *b, const accel__normalizer *n) {
  accel__buffer_printf(
      b,
      "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":%s,"
      "\"strip_accents\":%s,\"lowercase\":%s},",
      n->handle_chinese_chars ? "true" : "false", n->strip_accents ? "true" : "false",
      n->lowercase ? "true" : "false");
}

/* The tokenizer.json that transformers' BertTokenizer or MPNetTokenizer would write for this
 * directory, vocabulary left out.
 */
static accel_status bert_json(const accel__tokenizer *t, file_t *settings, accel__buffer *b) {
  json_t *root = settings->root, *class = accel__json_get(root, "tokenizer_class");
  const int k = cJSON_IsString(class) && accel__starts_with(class->valuestring, "MPNet") ? 1 : 0;
  accel__normalizer n = {0};
  ACCEL_TRY(read_bert(settings, &n));
  const char *unk = accel__special_text(root, NULL, "unk_token", text_classes[k].own[2]);
  const char *edge[2] = {accel__special_text(root, NULL, "sep_token", text_classes[k].own[3]),
                         accel__special_text(root, NULL, "cls_token", text_classes[k].own[5])};
  accel__buffer_text(b, "{");
  ACCEL_TRY(accel__put_added_tokens(root, &text_classes[k], b));
  put_text_normalizer(b, &n);
  accel__buffer_printf(
      b, "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":{\"type\":\"%s\"",
      k ? "RobertaProcessing" : "BertProcessing");
  if (k) accel__buffer_text(b, ",\"trim_offsets\":true,\"add_prefix_space\":false");
  for (int i = 0; i < 2; ++i) {
    int32_t id = accel__vocab_id(&t->vocab, edge[i], strlen(edge[i]));
    if (id < 0)
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: no line is '%s', the %s", t->name, edge[i],
                         i ? "cls_token" : "sep_token");
    accel__buffer_printf(b, ",\"%s\":[\"\",%d]", i ? "cls" : "sep", id);
  }
  accel__buffer_text(b,
                     "},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
                     "\"model\":{\"type\":"
                     "\"WordPiece\",\"unk_token\":");
  accel__buffer_json_string(b, unk, strlen(unk));
  accel__buffer_text(b, ",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100}}");
  return accel__buffer_status(b);
}

static accel_status build_from_vocab_text(accel__tokenizer *t, const accel__mapping *map,
                                          file_t *settings) {
  accel__buffer b = {0};
  accel__json_file file = {0};
  const accel__scan none = {0};
  accel_status status = read_vocab_text(t, map);
  if (status == ACCEL_OK)
    status =
        accel__is_esm(settings) ? accel__esm_json(t, settings, &b) : bert_json(t, settings, &b);
  if (status == ACCEL_OK) status = accel__json_parse(b.data, b.n, t->name, &file);
  if (status == ACCEL_OK) status = build(t, &file, &none, NULL);
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
  if (status == ACCEL_OK) status = build(t, &file, &none, NULL);
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
  accel_status status = accel__is_tiktoken(text, map->n)
                            ? accel__tiktoken_json(text, map->n, t->name, given, &b)
                            : accel__sentencepiece_json(map->data, map->n, t->name, given, &b);
  if (status == ACCEL_OK) status = build_from_json(t, b.data, b.n, NULL);
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
  if (status == ACCEL_OK)
    status = accel__merges_json((const char *)vocab.data, vocab.n, (const char *)map->data, map->n,
                                t->name, settings, &b);
  if (status == ACCEL_OK) status = build_from_json(t, b.data, b.n, NULL);
  accel__file_unmap(&vocab);
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
  /* tokenizer_config.json, special_tokens_map.json; of all files together */
  accel__json_file config, special_map, settings;
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
  if (accel__ends_with(path, ".json")) {
    ACCEL_TRY(build_from_json(t, (const char *)map->data, map->n, config->root));
    if (config->root) ACCEL_TRY(read_config(t, config));
    if (config->root) ACCEL_TRY(read_bert_settings(t, config));
    json_t *class = accel__json_get(config->root, "tokenizer_class");
    if (cJSON_IsString(class) && accel__starts_with(class->valuestring, "Siglip2"))
      ACCEL_TRY(accel__tokenizer_lower_case(t));
    find_specials(t, config->root, files->special_map.root);
    return ACCEL_OK;
  }
  ACCEL_TRY(accel__tokenizer_settings(directory, config, &files->special_map,
                                      accel__ends_with(path, ".model"), &files->settings));
  const bool merges = accel__ends_with(path, "merges.txt");
  ACCEL_TRY(merges                           ? build_from_merges(t, map, directory, settings)
            : accel__ends_with(path, ".txt") ? build_from_vocab_text(t, map, settings)
                                             : build_from_model(t, map, settings));
  ACCEL_TRY(read_config(t, settings));
  if (t->bare) ACCEL_TRY(apply_bos_eos(t, settings, merges));
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
  static const char *const names[] = {"tokenizer.json", "vocab.txt",
                                      "merges.txt",     "tokenizer.model",
                                      "spiece.model",   "sentencepiece.bpe.model",
                                      "spm.model",      "sentencepiece.model",
                                      "source.spm",     "tiktoken.model"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    *path = accel__path_join(arena, given, names[i]);
    if (!*path || !*directory) return accel__no_memory(strlen(given));
    if (accel__file_exists(*path)) return ACCEL_OK;
  }
  accel__fail(
      ACCEL_ERROR_NOT_FOUND,
      "%s: neither tokenizer.json, vocab.txt, merges.txt nor a SentencePiece model is there",
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

accel_status accel__tokenizer_lower_case(accel__tokenizer *t) {
  for (size_t i = 0; i < t->normalizers; ++i) {
    if (t->normalizer[i].kind == ACCEL__NORMALIZE_LOWERCASE) return ACCEL_OK;
  }
  if (t->normalizers == ACCEL__STEPS_MAX)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'normalizer' has no room for another step",
                       t->name);
  memmove(t->normalizer + 1, t->normalizer, t->normalizers * sizeof *t->normalizer);
  t->normalizer[0] = (accel__normalizer){.kind = ACCEL__NORMALIZE_LOWERCASE};
  t->normalizers++;
  return ACCEL_OK;
}

bool accel__id_is_added(const accel__tokenizer *t, int32_t id) {
  return id >= 0 && (size_t)id < t->added_ids && t->added_by_id[id] > 0;
}

bool accel__id_is_special(const accel__tokenizer *t, int32_t id) {
  return id >= 0 && (size_t)id < t->added_ids && t->added_by_id[id] &&
         t->added[t->added_by_id[id] - 1].special;
}
