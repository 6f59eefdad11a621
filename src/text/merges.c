/* merges.c - see merges.h. */
#include "text/merges.h"

#include <string.h>

#include "text/internal.h"

#define BYTE_LEVEL(prefix, regex) \
  "{\"type\":\"ByteLevel\",\"add_prefix_space\":" prefix ",\"trim_offsets\":true,\"use_regex\":" regex "}"
#define SPLIT(expression, behavior, invert) \
  "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" expression "\"},\"behavior\":\"" behavior "\",\"invert\":" invert "}"

typedef struct kind {
  const char *classes[8];
  const char *unk, *bos, *eos, *pad, *mask; /* NULL: none */
  const char *model;                        /* fields */
  const char *normalizer,
      *pre_tokenizer; /* '@' in the latter: ByteLevel with the add_prefix_space of tokenizer_config.json */
  bool roberta;       /* <s> A </s> </s> B </s>, with the class's own tokens */
} kind;

static const kind kinds[] = {
    {{"Roberta", "Bart", "Longformer", "LED", "Mvp", "Luke"},
     "<unk>",
     "<s>",
     "</s>",
     "<pad>",
     "<mask>",
     "",
     "null",
     "@",
     true},
    {{"Qwen2"},
     "<|endoftext|>",
     NULL,
     "<|endoftext|>",
     "<|endoftext|>",
     NULL,
     "",
     "{\"type\":\"NFC\"}",
     "{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT(
         "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
         "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"
         "\\\\s+(?!\\\\S)|\\\\s+",
         "Isolated", "false") "," BYTE_LEVEL("false", "false") "]}",
     false},
    {{"CLIP"},
     "<|endoftext|>",
     "<|startoftext|>",
     "<|endoftext|>",
     "<|endoftext|>",
     NULL,
     "\"end_of_word_suffix\":\"</w>\",\"unk_token\":\"<|endoftext|>\",",
     "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+\"},"
     "\"content\":\" \"},"
     "{\"type\":\"Lowercase\"}]}",
     "{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT("<\\\\|startoftext\\\\|>|<\\\\|endoftext\\\\|>|'s|'t|'re|'ve|'m|'ll|"
                                                        "'d|[\\\\p{L}]+|[\\\\p{N}]|[^\\\\s\\\\p{L}\\\\p{N}]+",
                                                        "Removed", "true") "," BYTE_LEVEL("false", "true") "]}",
     true},
    {{NULL}, "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, NULL, "", "null", "@", false}, /* GPT-2, and the rest
                                                                                                      */
};

static const kind *kind_of(const accel__json *config) {
  const accel__json *class = accel__json_get(config, "tokenizer_class");
  const kind *k = kinds;
  for (; k->classes[0]; ++k) {
    for (int i = 0; i < 8 && k->classes[i]; ++i) {
      if (cJSON_IsString(class) && accel__starts_with(class->valuestring, k->classes[i])) return k;
    }
  }
  return k;
}

static const char *special(const accel__json *config, const char *key, const char *own) {
  const accel__json *at = accel__json_get(config, key);
  if (cJSON_IsObject(at)) at = accel__json_get(at, "content");
  return cJSON_IsString(at) ? at->valuestring : own;
}

static void put_string(accel__buffer *b, const char *text) { accel__buffer_json_string(b, text, strlen(text)); }

/* The lines of merges.txt as strings; a first line "#version" is none. */
static accel_status put_merges(accel__buffer *b, const char *at, size_t n, const char *name) {
  const char *end = at + n;
  bool first = true;
  for (size_t line = 1; at < end; ++line) {
    const char *feed = memchr(at, '\n', (size_t)(end - at)), *stop = feed ? feed : end;
    size_t length = (size_t)(stop - at);
    if (length && at[length - 1] == '\r') length--;
    bool version = line == 1 && length >= 8 && memcmp(at, "#version", 8) == 0;
    if (length && !version) {
      if (!memchr(at, ' ', length) || !accel__utf8_valid(at, length))
        return accel__fail(ACCEL_ERROR_FORMAT, "%s: line %zu does not hold two tokens", name, line);
      accel__buffer_text(b, first ? "" : ",");
      first = false;
      accel__buffer_json_string(b, at, length);
    }
    at = feed ? feed + 1 : end;
  }
  return accel__buffer_status(b);
}

static void put_added(accel__buffer *b, const char *text, bool lstrip, bool *first) {
  if (!text || !*text) return;
  accel__buffer_text(b, *first ? "{\"content\":" : ",{\"content\":");
  *first = false;
  put_string(b, text);
  accel__buffer_printf(b, ",\"special\":true,\"normalized\":false,\"lstrip\":%s}", lstrip ? "true" : "false");
}

static void put_decoder_tokens(accel__buffer *b, const accel__json *config, bool *first) {
  static const char *const flags[] = {"special", "normalized", "lstrip", "rstrip", "single_word"};
  ACCEL_JSON_EACH(item, accel__json_get(config, "added_tokens_decoder")) {
    const accel__json *content = accel__json_get(item, "content");
    if (!cJSON_IsString(content) || !*content->valuestring) continue;
    accel__buffer_text(b, *first ? "{\"content\":" : ",{\"content\":");
    *first = false;
    put_string(b, content->valuestring);
    for (int i = 0; i < 5; ++i)
      accel__buffer_printf(b, ",\"%s\":%s", flags[i], cJSON_IsTrue(accel__json_get(item, flags[i])) ? "true" : "false");
    accel__buffer_text(b, "}");
  }
}

/* Special tokens that added_tokens_decoder has already keep its flags: a repeated content changes nothing but them. */
static void put_added_tokens(accel__buffer *b, const kind *k, const accel__json *config) {
  bool first = true;
  accel__buffer_text(b, "\"added_tokens\":[");
  put_decoder_tokens(b, config, &first);
  if (!accel__json_get(config, "added_tokens_decoder")) {
    put_added(b, special(config, "bos_token", k->bos), false, &first);
    put_added(b, special(config, "eos_token", k->eos), false, &first);
    put_added(b, special(config, "unk_token", k->unk), false, &first);
    put_added(b, special(config, "pad_token", k->pad), false, &first);
    put_added(b, special(config, "mask_token", k->mask), false, &first);
  }
  accel__buffer_text(b, "],");
}

static accel_status put_roberta(accel__buffer *b, const kind *k, const accel__json_file *config, const accel__json *vocab,
                                const char *name) {
  const accel__json *root = config ? config->root : NULL;
  const char *text[2] = {special(root, "sep_token", special(root, "eos_token", k->eos)),
                         special(root, "cls_token", special(root, "bos_token", k->bos))};
  accel__buffer_text(b,
                     "\"post_processor\":{\"type\":\"RobertaProcessing\",\"trim_offsets\":true,\"add_prefix_space\":false");
  for (int i = 0; i < 2; ++i) {
    const accel__json *id = accel__json_get(vocab, text[i]);
    if (!cJSON_IsNumber(id)) return accel__fail(ACCEL_ERROR_FORMAT, "%s: vocab.json beside it lacks '%s'", name, text[i]);
    accel__buffer_text(b, i ? ",\"cls\":[" : ",\"sep\":[");
    put_string(b, text[i]);
    accel__buffer_printf(b, ",%d]", id->valueint);
  }
  accel__buffer_text(b, "},");
  return accel__buffer_status(b);
}

accel_status accel__merges_json(const char *vocab, size_t vocab_n, const char *merges, size_t merges_n, const char *name,
                                const accel__json_file *config, accel__buffer *b) {
  const accel__json *root = config ? config->root : NULL;
  const kind *k = kind_of(root);
  bool prefix = cJSON_IsTrue(accel__json_get(root, "add_prefix_space"));
  accel__buffer_text(b, "{\"version\":\"1.0\",");
  put_added_tokens(b, k, root);
  if (k->roberta) {
    accel__json_file file = {0};
    ACCEL_TRY(accel__json_parse(vocab, vocab_n, "vocab.json", &file));
    accel_status status = put_roberta(b, k, config, file.root, name);
    accel__json_free(&file);
    ACCEL_TRY(status);
  }
  accel__buffer_printf(b, "\"normalizer\":%s,\"pre_tokenizer\":%s,\"decoder\":%s,\"model\":{\"type\":\"BPE\",%s\"merges\":[",
                       k->normalizer,
                       strcmp(k->pre_tokenizer, "@") ? k->pre_tokenizer
                       : prefix                      ? BYTE_LEVEL("true", "true")
                                                     : BYTE_LEVEL("false", "true"),
                       BYTE_LEVEL("true", "true"), k->model);
  ACCEL_TRY(put_merges(b, merges, merges_n, name));
  accel__buffer_text(b, "],\"vocab\":");
  accel__buffer_bytes(b, vocab, vocab_n);
  accel__buffer_text(b, "}}");
  return accel__buffer_status(b);
}
