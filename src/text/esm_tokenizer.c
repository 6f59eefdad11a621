/* esm_tokenizer.c - transformers' EsmTokenizer: a text is cut at every token of the vocabulary, the
 * longest that begins at a place; what lies between are words, which the vocabulary does not have. */
#include "text/esm_tokenizer.h"

#include <string.h>

enum { MAX_TOKENS = 4096, MAX_BYTES = 64 }; /* ESM's vocabularies have 33 tokens */

static const accel__class_tokens esm_class = {
    .own = {NULL, "<eos>", "<unk>", NULL, "<pad>", "<cls>", "<mask>"}};

bool accel__is_esm(const accel__json_file *settings) {
  const accel__json *class = accel__json_get(settings->root, "tokenizer_class");
  return cJSON_IsString(class) && accel__starts_with(class->valuestring, "Esm");
}

/* A token with what regular expressions give a meaning escaped. */
static void put_token(accel__buffer *pattern, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++)
    accel__buffer_printf(pattern, strchr("\\.[]{}()*+?^$|", text[i]) ? "\\%c" : "%c", text[i]);
}

/* All tokens as alternatives, long ones first. */
static accel_status put_pattern(const accel__tokenizer *t, accel__buffer *b) {
  accel__buffer pattern = {0};
  bool some = false;
  for (size_t n = MAX_BYTES; n > 0; n--)
    for (size_t i = 0; i < t->vocab.n; i++) {
      const accel__vocab_entry *e = &t->vocab.entry[i];
      if (e->n != n) continue;
      if (some) accel__buffer_text(&pattern, "|");
      put_token(&pattern, accel__vocab_text(&t->vocab, e), n);
      some = true;
    }
  const accel_status status = accel__buffer_status(&pattern);
  if (status == ACCEL_OK) accel__buffer_json_string(b, pattern.data ? pattern.data : "", pattern.n);
  accel__buffer_free(&pattern);
  return status;
}

static void put_special(accel__buffer *b, const char *text) {
  accel__buffer_text(b, "{\"SpecialToken\":{\"id\":");
  accel__buffer_json_string(b, text, strlen(text));
  accel__buffer_text(b, ",\"type_id\":0}}");
}

/* <cls> A <eos>, and of a pair <cls> A <eos> B <eos> */
static accel_status put_template(const accel__tokenizer *t, const char *const edge[2],
                                 accel__buffer *b) {
  accel__buffer_text(b, "\"post_processor\":{\"type\":\"TemplateProcessing\"");
  for (int pair = 0; pair < 2; pair++) {
    accel__buffer_printf(b, ",\"%s\":[", pair ? "pair" : "single");
    put_special(b, edge[0]);
    for (int k = 0; k <= pair; k++) {
      accel__buffer_printf(b, ",{\"Sequence\":{\"id\":\"%c\",\"type_id\":0}},", "AB"[k]);
      put_special(b, edge[1]);
    }
    accel__buffer_text(b, "]");
  }
  accel__buffer_text(b, ",\"special_tokens\":{");
  for (int i = 0; i < 2; i++) {
    const int32_t id = accel__vocab_id(&t->vocab, edge[i], strlen(edge[i]));
    if (id < 0)
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: no line is '%s', the %s", t->name, edge[i],
                         i ? "eos_token" : "cls_token");
    if (i) accel__buffer_text(b, ",");
    accel__buffer_json_string(b, edge[i], strlen(edge[i]));
    accel__buffer_text(b, ":{\"id\":");
    accel__buffer_json_string(b, edge[i], strlen(edge[i]));
    accel__buffer_printf(b, ",\"ids\":[%d],\"tokens\":[", id);
    accel__buffer_json_string(b, edge[i], strlen(edge[i]));
    accel__buffer_text(b, "]}");
  }
  accel__buffer_text(b, "}},");
  return ACCEL_OK;
}

accel_status accel__esm_json(const accel__tokenizer *t, const accel__json_file *settings,
                             accel__buffer *b) {
  const accel__json *root = settings->root;
  const char *unk = accel__special_text(root, NULL, "unk_token", esm_class.own[2]);
  const char *const edge[2] = {accel__special_text(root, NULL, "cls_token", esm_class.own[5]),
                               accel__special_text(root, NULL, "eos_token", esm_class.own[1])};
  if (t->vocab.n > MAX_TOKENS)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: %zu tokens; at most %d of EsmTokenizer",
                       t->name, t->vocab.n, MAX_TOKENS);
  accel__buffer_text(b, "{");
  ACCEL_TRY(accel__put_added_tokens(root, NULL, &esm_class, b));
  accel__buffer_text(b,
                     "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                     "\"Split\",\"pattern\":{\"Regex\":");
  ACCEL_TRY(put_pattern(t, b));
  accel__buffer_text(
      b, "},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"WhitespaceSplit\"}]},");
  ACCEL_TRY(put_template(t, edge, b));
  accel__buffer_text(b, "\"model\":{\"type\":\"WordLevel\",\"unk_token\":");
  accel__buffer_json_string(b, unk, strlen(unk));
  accel__buffer_text(b, "}}");
  return accel__buffer_status(b);
}
