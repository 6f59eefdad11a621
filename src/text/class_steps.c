/* class_steps.c - see tokenizer_class.h: what a class makes of the settings, as steps of a
 * tokenizer.json and as templates. */
#include <stdio.h>
#include <string.h>

#include "text/tokenizer_class.h"
#include "text/whisper_languages.h"

typedef const accel__json json_t;
typedef const accel__tokenizer_class class_t;

static bool flag(json_t *settings, const char *key, bool usual) {
  json_t *at = accel__json_get(settings, key);
  return cJSON_IsBool(at) ? cJSON_IsTrue(at) : usual;
}

static const char *boolean(bool yes) { return yes ? "true" : "false"; }

/* ---- steps ---- */

typedef struct writer {
  class_t *class;
  json_t *settings;
  const char *charsmap;
  size_t charsmap_n;
  bool space; /* add_prefix_space */
  accel__buffer *b;
  bool first;
} writer;

static void put_step(writer *w, const char *text) {
  if (!w->first) accel__buffer_text(w->b, ",");
  w->first = false;
  const char *scheme = w->class->schemes[w->space];
  if (w->class->legacy_prefix && w->space && flag(w->settings, "legacy", false)) scheme = "always";
  for (; *text; ++text) {
    if (*text == 1)
      accel__buffer_text(w->b, boolean(w->space));
    else if (*text == 2)
      accel__buffer_text(w->b, scheme);
    else
      accel__buffer_bytes(w->b, text, 1);
  }
}

static void put_charsmap(writer *w) {
  if (!w->charsmap) return;
  put_step(w, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
  accel__buffer_bytes(w->b, w->charsmap, w->charsmap_n);
  accel__buffer_text(w->b, "\"}");
}

/* Accents and case, as the settings of ALBERT, RemBERT and DeBERTa ask. */
static void put_case(writer *w) {
  const bool albert = strcmp(w->class->names, "AlbertTokenizer") == 0,
             rembert = strcmp(w->class->names, "RemBertTokenizer") == 0;
  if ((albert || rembert) && !flag(w->settings, "keep_accents", rembert))
    put_step(w, "{\"type\":\"NFKD\"},{\"type\":\"StripAccents\"}");
  if (flag(w->settings, "do_lower_case", albert)) put_step(w, "{\"type\":\"Lowercase\"}");
}

static void put_bert(writer *w) {
  const bool lower = flag(w->settings, "do_lower_case", true);
  put_step(w, "{\"type\":\"BertNormalizer\",\"clean_text\":");
  accel__buffer_printf(w->b,
                       "%s,\"handle_chinese_chars\":%s,\"strip_accents\":%s,\"lowercase\":%s}",
                       boolean(flag(w->settings, "clean_text", true)),
                       boolean(flag(w->settings, "tokenize_chinese_chars", true)),
                       boolean(flag(w->settings, "strip_accents", lower)), boolean(lower));
}

static void put_marked(writer *w, const char *step) {
  switch (*step) {
    case '@':
      put_charsmap(w);
      return;
    case '%':
      put_case(w);
      return;
    case '#':
      put_bert(w);
      return;
    case '&':
      if (w->charsmap) put_step(w, step + 1);
      return;
    case '!':
      if (!w->charsmap) put_step(w, step + 1);
      return;
    case '+':
      if (w->space) put_step(w, step + 1);
      return;
    case '^':
      if (flag(w->settings, "split_by_punct", false)) put_step(w, step + 1);
      return;
    default:
      put_step(w, step);
  }
}

static void put_sequence(writer *w, const char *part, const char *members, const char *const *steps,
                         size_t n) {
  accel__buffer_printf(w->b, "\"%s\":{\"type\":\"Sequence\",\"%s\":[", part, members);
  w->first = true;
  for (size_t i = 0; i < n && steps[i]; ++i) put_marked(w, steps[i]);
  accel__buffer_text(w->b, "]},");
}

accel_status accel__put_class_steps(class_t *class, json_t *settings, const char *charsmap,
                                    size_t n, accel__buffer *b) {
  writer w = {.class = class,
              .settings = settings,
              .charsmap = charsmap,
              .charsmap_n = n,
              .space = flag(settings, "add_prefix_space", class->prefix_space),
              .b = b};
#define PUT(part, members, steps) \
  put_sequence(&w, part, members, class->steps, sizeof class->steps / sizeof *class->steps)
  PUT("normalizer", "normalizers", normalizers);
  PUT("pre_tokenizer", "pretokenizers", pre_tokenizers);
  PUT("decoder", "decoders", decoders);
#undef PUT
  return accel__buffer_status(b);
}

static void put_model(class_t *class, json_t *settings, accel__buffer *b) {
  accel__buffer_printf(b, "\"type\":\"%s\"%s", class->model, class->fields ? class->fields : "");
  if (strcmp(class->model, "Unigram") == 0) {
    accel__buffer_printf(b, ",\"unk_id\":%d", class->unk < 0 ? 0 : class->unk);
  } else if (class->unk == ACCEL__UNK_NAMED) {
    const char *unk = accel__special_text(settings, NULL, "unk_token", class->tokens.own[2]);
    accel__buffer_text(b, ",\"unk_token\":");
    accel__buffer_json_string(b, unk, strlen(unk));
  }
}

accel_status accel__put_class(class_t *class, json_t *settings, json_t *listed,
                              const char *charsmap, size_t n, accel__buffer *b) {
  ACCEL_TRY(accel__put_added_tokens(settings, listed, &class->tokens, b));
  ACCEL_TRY(accel__put_class_steps(class, settings, charsmap, n, b));
  accel__buffer_text(b, "\"model\":{");
  put_model(class, settings, b);
  return accel__buffer_status(b);
}

/* ---- the unknown token of Unigram models ---- */

static void find_unknown(accel__tokenizer *t, class_t *class, json_t *settings) {
  accel__vocab_model *m = &t->model;
  if (m->kind != ACCEL__VOCAB_MODEL_UNIGRAM || class->unk != ACCEL__UNK_NAMED) return;
  const char *unk = accel__special_text(settings, NULL, "unk_token", class->tokens.own[2]);
  m->unk = accel__vocab_id(&t->vocab, unk, strlen(unk));
  /* DeBERTa looks for the token with the score 0 */
  const bool scored = class->unk_else > 0 && m->unk >= 0 && m->score[m->unk] != 0;
  if (m->unk >= 0 && !scored) return;
  json_t *said = class->unk_else > 0 ? accel__json_get(settings, "unk_id") : NULL;
  const double id = cJSON_IsNumber(said) ? said->valuedouble : class->unk_else;
  m->unk = id >= 0 && id < t->info.model_vocab_size ? (int32_t)id : -1;
}

/* ---- post-processors ---- */

static int32_t id_of(const accel__tokenizer *t, const char *text) {
  return text ? accel__token_to_id(t, text, strlen(text)) : -1;
}

/* src_lang; SeamlessM4T's may lack the lines at its ends, which are put there in text[64]. */
static const char *language_of(class_t *class, json_t *settings, char *text) {
  if (strcmp(class->names, "SeamlessM4TTokenizer") != 0)
    return accel__special_text(settings, NULL, "src_lang",
                               strcmp(class->names, "NllbTokenizer") ? "en_XX" : "eng_Latn");
  const char *said = accel__special_text(settings, NULL, "src_lang", "eng");
  snprintf(text, 64, strstr(said, "__") ? "%.60s" : "__%.56s__", said);
  return text;
}

/* The token that a letter of a template stands for, which may be put into text[64]; NULL: none. */
static const char *token_of(char letter, class_t *class, json_t *settings, char *text) {
  static const char letters[] = "be?s?c";
  const char *at = strchr(letters, letter);
  if (letter == 'L') return language_of(class, settings, text);
  if (!at) return NULL;
  const int i = (int)(at - letters);
  const bool null =
      cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(settings, accel__named_token_keys[i]));
  return null ? NULL
              : accel__special_text(settings, NULL, accel__named_token_keys[i],
                                    class->tokens.own[i]);
}

static accel_status push(accel__tokenizer *t, accel__template *to, const char *token, int type) {
  const int32_t id = id_of(t, token);
  return id < 0 ? ACCEL_OK : accel__template_push_id(t, to, id, type);
}

/* <|startoftranscript|>, the language and the task that the settings name, <|notimestamps|>. */
static accel_status push_prompt(accel__tokenizer *t, accel__template *to, json_t *settings) {
  json_t *language = accel__json_get(settings, "language"),
         *task = accel__json_get(settings, "task");
  ACCEL_TRY(push(t, to, "<|startoftranscript|>", 0));
  if (cJSON_IsString(language)) {
    char token[24];
    const char *code = accel__language_code(language->valuestring);
    snprintf(token, sizeof token, "<|%.16s|>", code ? code : language->valuestring);
    ACCEL_TRY(push(t, to, token, 0));
  }
  if (cJSON_IsString(task))
    ACCEL_TRY(push(
        t, to, strcmp(task->valuestring, "transcribe") ? "<|translate|>" : "<|transcribe|>", 0));
  return flag(settings, "predict_timestamps", false) ? ACCEL_OK
                                                     : push(t, to, "<|notimestamps|>", 0);
}

/* Splinter's question_token and a full stop. */
static accel_status push_question(accel__tokenizer *t, accel__template *to, json_t *settings,
                                  int type) {
  const char *question = accel__special_text(settings, NULL, "question_token", "[QUESTION]");
  ACCEL_TRY(push(t, to, question, type));
  return push(t, to, ".", type);
}

static accel_status set_template(accel__tokenizer *t, accel__template *to, const char *words,
                                 class_t *class, json_t *settings) {
  to->n = to->added = 0;
  for (const char *at = words; *at; at += *at == ' ') {
    const char letter = *at;
    char text[64];
    const int type = at[1] == ':' ? at[2] - '0' : 0;
    if (letter == 'A' || letter == 'B')
      ACCEL_TRY(accel__template_push_text(t, to, letter == 'B', type));
    else if (letter == 'W')
      ACCEL_TRY(push_prompt(t, to, settings));
    else if (letter == 'Q')
      ACCEL_TRY(push_question(t, to, settings, type));
    else if (letter == 'L' && id_of(t, token_of(letter, class, settings, text)) < 0 &&
             t->model.unk >= 0)
      ACCEL_TRY(accel__template_push_id(t, to, t->model.unk, type));
    else
      ACCEL_TRY(push(t, to, token_of(letter, class, settings, text), type));
    at += strcspn(at, " ");
  }
  return ACCEL_OK;
}

static accel_status set_templates(accel__tokenizer *t, const char *single, const char *pair,
                                  class_t *class, json_t *settings) {
  t->bare = t->roberta = false;
  t->trims = 0;
  ACCEL_TRY(set_template(t, &t->single, single, class, settings));
  return set_template(t, &t->pair, pair, class, settings);
}

accel_status accel__finish_class(accel__tokenizer *t, class_t *class, json_t *settings) {
  find_unknown(t, class, settings);
  if (!class->single) return ACCEL_OK;
  const char *single = class->single, *pair = class->pair;
  if (*single == 'L' && strcmp(class->names, "NllbTokenizer") == 0 &&
      flag(settings, "legacy_behaviour", false))
    single = "A e L", pair = "A B e L";
  json_t *side = accel__json_get(settings, "padding_side");
  if (strcmp(class->names, "SplinterTokenizer") == 0 && cJSON_IsString(side) &&
      strcmp(side->valuestring, "left") == 0)
    pair = "c A s B:1 Q:0 s:1";
  ACCEL_TRY(set_templates(t, single, pair, class, settings));
  t->roberta = class->roberta;
  const bool trims = class->trims == 2 ? flag(settings, "trim_offsets", true) : class->trims;
  if (trims)
    t->trim_prefix_space[t->trims++] = class->trim_space == 2
                                           ? flag(settings, "add_prefix_space", class->prefix_space)
                                           : class->trim_space;
  return ACCEL_OK;
}

accel_status accel__apply_bos_eos(accel__tokenizer *t, class_t *class,
                                  const accel__json_file *settings, bool merges) {
  static const accel__tokenizer_class of_merges = {.tokens = {.own = {"<|endoftext|>",
                                                                      "<|endoftext|>"}}},
                                      of_pieces = {.tokens = {.own = {"<s>", "</s>"}}};
  json_t *root = settings->root;
  const bool code = class && strcmp(class->names, "CodeLlamaTokenizer") == 0;
  bool bos = code, eos = false;
  const bool stated = cJSON_GetObjectItemCaseSensitive(root, "add_bos_token") ||
                      cJSON_GetObjectItemCaseSensitive(root, "add_eos_token");
  const bool neox = class && strcmp(class->names, "GPTNeoXTokenizer") == 0;
  if ((!stated && !code) || (class && class->single && !code && !neox)) return ACCEL_OK;
  ACCEL_TRY(accel__json_bool(settings, root, "add_bos_token", &bos));
  ACCEL_TRY(accel__json_bool(settings, root, "add_eos_token", &eos));
  if (!class) class = merges ? &of_merges : &of_pieces;
  static const char *const words[2][2][2] = {
      {{"A", "A B:1"}, {"A e", "A e B:1 e:1"}},
      {{"b A", "b A b:1 B:1"}, {"b A e", "b A e b:1 B:1 e:1"}}};
  return set_templates(t, words[bos][eos][0], words[bos][eos][1], class, root);
}
