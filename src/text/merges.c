/* merges.c - see merges.h. */
#include "text/merges.h"

#include <string.h>

#include "text/text_internal.h"
#include "text/settings.h"

#define BYTE_LEVEL(prefix, regex)                        \
  "{\"type\":\"ByteLevel\",\"add_prefix_space\":" prefix \
  ",\"trim_offsets\":true,\"use_regex\":" regex "}"
#define SPLIT(expression, behavior, invert)                                                 \
  "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" expression "\"},\"behavior\":\"" behavior \
  "\",\"invert\":" invert "}"

typedef struct kind {
  const char *classes[8];
  accel__class_tokens tokens;
  const char *model; /* fields */
  /* '@' in the latter: ByteLevel with add_prefix_space as the settings have it */
  const char *normalizer, *pre_tokenizer;
  bool roberta; /* <s> A </s> </s> B </s>, with the class's own tokens */
} kind;

static const kind kinds[] = {
    {{"Roberta", "Bart", "Longformer", "LED", "Mvp", "Luke"},
     {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
     "",
     "null",
     "@",
     true},
    {{"Qwen2"},
     {.own = {NULL, "<|endoftext|>", "<|endoftext|>", NULL, "<|endoftext|>"}, .plain = true},
     "",
     "{\"type\":\"NFC\"}",
     "{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT(
         "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
         "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"
         "\\\\s+(?!\\\\S)|\\\\s+",
         "Isolated", "false") ",@]}",
     false},
    {{"CLIP"},
     {.own = {"<|startoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, "<|endoftext|>"}},
     "\"end_of_word_suffix\":\"</w>\",\"unk_token\":\"<|endoftext|>\",",
     "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":"
     "{\"Regex\":\"\\\\s+\"},"
     "\"content\":\" \"},"
     "{\"type\":\"Lowercase\"}]}",
     "{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT(
         "<\\\\|startoftext\\\\|>|<\\\\|endoftext\\\\|>|'s|'t|'re|'ve|'m|'ll|"
         "'d|[\\\\p{L}]+|[\\\\p{N}]|[^\\\\s\\\\p{L}\\\\p{N}]+",
         "Removed", "true") "," BYTE_LEVEL("false", "true") "]}",
     true},
    /* GPT-2, and the rest */
    {{NULL}, {.own = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}}, "", "null", "@", false},
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

static void put_string(accel__buffer *b, const char *text) {
  accel__buffer_json_string(b, text, strlen(text));
}

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

static accel_status put_roberta(accel__buffer *b, const kind *k, const accel__json_file *config,
                                const accel__json *vocab, const char *name) {
  const accel__json *root = config ? config->root : NULL;
  /* else the tokens of beginning and end stand there (CLIP) */
  const bool separates = k->tokens.own[3] != NULL;
  const char *text[2] = {separates ? special(root, "sep_token", k->tokens.own[3])
                                   : special(root, "eos_token", k->tokens.own[1]),
                         separates ? special(root, "cls_token", k->tokens.own[5])
                                   : special(root, "bos_token", k->tokens.own[0])};
  accel__buffer_text(b,
                     "\"post_processor\":{\"type\":\"RobertaProcessing\",\"trim_offsets\":true,"
                     "\"add_prefix_space\":false");
  for (int i = 0; i < 2; ++i) {
    const accel__json *id = accel__json_get(vocab, text[i]);
    if (!cJSON_IsNumber(id))
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: vocab.json beside it lacks '%s'", name, text[i]);
    accel__buffer_text(b, i ? ",\"cls\":[" : ",\"sep\":[");
    put_string(b, text[i]);
    accel__buffer_printf(b, ",%d]", id->valueint);
  }
  accel__buffer_text(b, "},");
  return accel__buffer_status(b);
}

/* '@': ByteLevel, which splits words itself where it stands alone. */
static void put_pre_tokenizer(accel__buffer *b, const char *text, bool prefix) {
  const char *at = strchr(text, '@'), *flag = prefix ? "true" : "false";
  if (at) accel__buffer_bytes(b, text, (size_t)(at - text));
  if (at) accel__buffer_printf(b, BYTE_LEVEL("%s", "%s"), flag, at == text ? "true" : "false");
  accel__buffer_text(b, at ? at + 1 : text);
}

accel_status accel__merges_json(const char *vocab, size_t vocab_n, const char *merges,
                                size_t merges_n, const char *name, const accel__json_file *config,
                                accel__buffer *b) {
  const accel__json *root = config ? config->root : NULL;
  const kind *k = kind_of(root);
  accel__buffer_text(b, "{\"version\":\"1.0\",");
  ACCEL_TRY(accel__put_added_tokens(root, &k->tokens, b));
  if (k->roberta) {
    accel__json_file file = {0};
    ACCEL_TRY(accel__json_parse(vocab, vocab_n, "vocab.json", &file));
    accel_status status = put_roberta(b, k, config, file.root, name);
    accel__json_free(&file);
    ACCEL_TRY(status);
  }
  accel__buffer_printf(b, "\"normalizer\":%s,\"pre_tokenizer\":", k->normalizer);
  put_pre_tokenizer(b, k->pre_tokenizer, cJSON_IsTrue(accel__json_get(root, "add_prefix_space")));
  accel__buffer_printf(b, ",\"decoder\":%s,\"model\":{\"type\":\"BPE\",%s\"merges\":[",
                       BYTE_LEVEL("true", "true"), k->model);
  ACCEL_TRY(put_merges(b, merges, merges_n, name));
  accel__buffer_text(b, "],\"vocab\":");
  accel__buffer_bytes(b, vocab, vocab_n);
  accel__buffer_text(b, "}}");
  return accel__buffer_status(b);
}
