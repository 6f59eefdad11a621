/* sentencepiece.c - see sentencepiece.h. */
#include "text/sentencepiece.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/settings.h"
#include "text/text_internal.h"
#include "text/spm.h"

typedef const accel__json_file file_t;

/* ---- families of tokenizer classes ---- */

typedef enum layout {
  AS_IS,
  FAIRSEQ,   /* <s> <pad> </s> <unk>, pieces from 3 on, languages, <mask> */
  CAMEMBERT, /* five of its own, pieces from 1 on, <mask> */
  PEGASUS,   /* <pad> </s> masks, <unk_2>.., pieces from 2 on */
  T5,        /* pieces, <extra_id_N> down to 0 */
} layout;
typedef enum languages { NO_LANGUAGES, MBART, MBART50 } languages;

typedef struct family {
  const char *class; /* one of tokenizer_class.c */
  layout layout;
  languages languages;
} family;

static const family families[] = {
    {"T5Tokenizer", T5, NO_LANGUAGES},
    {"XLMRobertaTokenizer", FAIRSEQ, NO_LANGUAGES},
    {"MBartTokenizer", FAIRSEQ, MBART},
    {"MBart50Tokenizer", FAIRSEQ, MBART50},
    {"CamembertTokenizer", CAMEMBERT, NO_LANGUAGES},
    {"AlbertTokenizer", AS_IS, NO_LANGUAGES},
    {"DebertaV2Tokenizer", AS_IS, NO_LANGUAGES},
    {"PegasusTokenizer", PEGASUS, NO_LANGUAGES},
    {"LlamaTokenizer", AS_IS, NO_LANGUAGES},
    {"CodeLlamaTokenizer", AS_IS, NO_LANGUAGES},
    {"GemmaTokenizer", AS_IS, NO_LANGUAGES},
};
static const family no_family = {"", AS_IS, NO_LANGUAGES};
/* What transformers gives to classes without a converter. */
static const accel__tokenizer_class no_class = {
    .names = "",
    .tokens = {.own = {"<s>", "</s>", "<unk>"}},
    .unk = ACCEL__UNK_NAMED,
    .normalizers = {"@",
                    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
                    "\"\xE2\x96\x81\"}"},
    .decoders = {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xE2\x96\x81\"},"
                 "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}"}};

static const char mbart_codes[] =
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT "
    "lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK "
    "tr_TR vi_VN zh_CN";
static const char mbart50_codes[] =
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF "
    "pt_XX sv_SE sw_KE ta_IN "
    "te_IN th_TH tl_XX "
    "uk_UA ur_PK xh_ZA gl_ES sl_SI";

static const family *family_of(const accel__tokenizer_class *class) {
  for (size_t i = 0; class && i < sizeof families / sizeof *families; ++i) {
    if (accel__tokenizer_class_named(families[i].class) == class) return &families[i];
  }
  return &no_family;
}

/* ---- writing ---- */

typedef struct writer {
  const accel__spm *m;
  const family *f;
  const accel__tokenizer_class *class;
  bool bpe;
  file_t *config;
  accel__buffer *b;
  accel__vocab vocab; /* ids so far */
  accel__map special; /* contents already in added_tokens */
  accel__arena arena;
  size_t n;
  bool first;
} writer;

static void write_text(writer *w, const char *text) { accel__buffer_text(w->b, text); }

static void put_score(writer *w, double score) {
  char text[40];
  snprintf(text, sizeof text, "%.17g", score);
  char *point = strchr(text, *localeconv()->decimal_point);
  if (point) *point = '.';
  write_text(w, text);
}

/* One entry of the vocabulary: [text, score], or "text": id. */
static accel_status put_token(writer *w, const char *text, size_t n, double score) {
  if (w->bpe && accel__vocab_id(&w->vocab, text, n) >= 0) return w->n++, ACCEL_OK;
  ACCEL_TRY(accel__vocab_add(&w->vocab, text, n, (int32_t)w->n));
  write_text(w, w->n ? "," : "");
  if (!w->bpe) write_text(w, "[");
  accel__buffer_json_string(w->b, text, n);
  write_text(w, w->bpe ? ":" : ",");
  if (w->bpe) {
    accel__buffer_printf(w->b, "%zu", w->n);
  } else {
    put_score(w, score);
    write_text(w, "]");
  }
  w->n++;
  return w->n < ACCEL__TOKENS_MAX ? accel__buffer_status(w->b)
                                  : accel__spm_malformed(w->m->name, "more than 4194304 pieces");
}

static accel_status put_text(writer *w, const char *text, double score) {
  return put_token(w, text, strlen(text), score);
}

static const accel__json *settings_of(const writer *w) {
  return w->config ? w->config->root : NULL;
}

/* The text of a special token: what the settings say, or the class's own. */
static const char *special(const writer *w, const char *key, const char *own) {
  const accel__json *at = accel__json_get(settings_of(w), key);
  if (cJSON_IsObject(at)) at = accel__json_get(at, "content");
  return cJSON_IsString(at) ? at->valuestring : own;
}

static accel_status put_pieces(writer *w, size_t from) {
  for (size_t i = from; i < w->m->n; ++i)
    ACCEL_TRY(put_token(w, w->m->at[i].text, w->m->at[i].n, (double)w->m->at[i].score));
  return ACCEL_OK;
}

static accel_status each_code(writer *w, accel_status (*fn)(writer *, const char *)) {
  const char *lists[] = {w->f->languages ? mbart_codes : "",
                         w->f->languages == MBART50 ? mbart50_codes : ""};
  for (int k = 0; k < 2; ++k) {
    for (const char *at = lists[k]; *at; at += *at == ' ') {
      char code[8] = {0};
      size_t n = strcspn(at, " ");
      memcpy(code, at, n < 7 ? n : 7);
      ACCEL_TRY(fn(w, code));
      at += n;
    }
  }
  return ACCEL_OK;
}
static accel_status put_code(writer *w, const char *code) { return put_text(w, code, 0); }

static int64_t config_int(const writer *w, const char *key, int64_t standard) {
  const accel__json *at = w->config ? accel__json_get(w->config->root, key) : NULL;
  return cJSON_IsNumber(at) && at->valuedouble >= 0 && at->valuedouble <= 100000
             ? (int64_t)at->valuedouble
             : standard;
}

static accel_status put_vocab(writer *w) {
  const family *f = w->f;
  char text[32];
  switch (f->layout) {
    case AS_IS:
      return put_pieces(w, 0);
    case T5:
      ACCEL_TRY(put_pieces(w, 0));
      for (int64_t i = config_int(w, "extra_ids", 100); i-- > 0;) {
        snprintf(text, sizeof text, "<extra_id_%lld>", (long long)i);
        ACCEL_TRY(put_text(w, text, 0));
      }
      return ACCEL_OK;
    case FAIRSEQ:
      ACCEL_TRY(
          put_text(w, special(w, f->languages == MBART50 ? "cls_token" : "bos_token", "<s>"), 0));
      ACCEL_TRY(put_text(w, special(w, "pad_token", "<pad>"), 0));
      ACCEL_TRY(put_text(w, special(w, "eos_token", "</s>"), 0));
      ACCEL_TRY(put_text(w, special(w, "unk_token", "<unk>"), 0));
      ACCEL_TRY(put_pieces(w, 3));
      ACCEL_TRY(each_code(w, put_code));
      return put_text(w, special(w, "mask_token", "<mask>"), 0);
    case CAMEMBERT:
      ACCEL_TRY(put_text(w, "<s>NOTUSED", 0));
      ACCEL_TRY(put_text(w, special(w, "pad_token", "<pad>"), 0));
      ACCEL_TRY(put_text(w, "</s>NOTUSED", 0));
      ACCEL_TRY(put_text(w, special(w, "unk_token", "<unk>"), 0));
      ACCEL_TRY(put_text(w, "<unk>NOTUSED", -100));
      ACCEL_TRY(put_pieces(w, 1));
      return put_text(w, special(w, "mask_token", "<mask>"), 0);
    case PEGASUS:
      ACCEL_TRY(put_text(w, special(w, "pad_token", "<pad>"), 0));
      ACCEL_TRY(put_text(w, special(w, "eos_token", "</s>"), 0));
      ACCEL_TRY(put_text(w, special(w, "mask_token", "<mask_1>"), 0));
      ACCEL_TRY(put_text(w, special(w, "mask_token_sent", "<mask_2>"), 0));
      for (int64_t i = 2; i < config_int(w, "offset", 103); ++i) {
        snprintf(text, sizeof text, "<unk_%lld>", (long long)i);
        ACCEL_TRY(put_text(w, text, -100));
      }
      return put_pieces(w, 2);
  }
  return ACCEL_OK;
}

/* ---- merges of a BPE model: every way to cut a piece into two others, in the order of the pieces
 * made ---- */

typedef struct cut {
  uint32_t left, right; /* ids */
  uint32_t left_n, right_n;
  uint32_t at; /* bytes */
} cut;

static int by_ids(const void *a, const void *b) {
  const cut *x = a, *y = b;
  if (x->left_n != y->left_n) return x->left_n < y->left_n ? -1 : 1;
  if (x->left != y->left) return x->left < y->left ? -1 : 1;
  return (x->right > y->right) - (x->right < y->right);
}

static accel_status put_merges_of(writer *w, const accel__vocab_entry *e) {
  cut cuts[256];
  size_t n = 0, chars = 0;
  const char *text = accel__vocab_text(&w->vocab, e);
  for (size_t i = 1; i < e->n && n < 256; ++i) {
    if (((uint8_t)text[i] & 0xC0) == 0x80) continue;
    chars++;
    int32_t left = accel__vocab_id(&w->vocab, text, i),
            right = accel__vocab_id(&w->vocab, text + i, e->n - i);
    if (left >= 0 && right >= 0)
      cuts[n++] = (cut){(uint32_t)left, (uint32_t)right, (uint32_t)chars, 0, (uint32_t)i};
  }
  qsort(cuts, n, sizeof *cuts, by_ids);
  for (size_t k = 0; k < n; ++k) {
    write_text(w, w->first ? "[" : ",[");
    w->first = false;
    accel__buffer_json_string(w->b, text, cuts[k].at);
    write_text(w, ",");
    accel__buffer_json_string(w->b, text + cuts[k].at, e->n - cuts[k].at);
    write_text(w, "]");
  }
  return accel__buffer_status(w->b);
}

static accel_status put_model(writer *w) {
  const bool bpe = w->bpe;
  accel__buffer_printf(w->b, "\"model\":{\"type\":\"%s\",\"byte_fallback\":%s,",
                       bpe ? "BPE" : "Unigram",
                       (w->class != &no_class ? bpe : w->m->byte_fallback) ? "true" : "false");
  if (bpe) write_text(w, "\"fuse_unk\":true,");
  if (bpe && w->class->unk == ACCEL__UNK_NAMED) {
    write_text(w, "\"unk_token\":");
    const char *unk = special(w, "unk_token", w->class->tokens.own[2]);
    accel__buffer_json_string(w->b, unk, strlen(unk));
    write_text(w, ",");
  }
  write_text(w, bpe ? "\"vocab\":{" : "\"vocab\":[");
  ACCEL_TRY(put_vocab(w));
  write_text(w, bpe ? "},\"merges\":[" : "]");
  w->first = true;
  for (size_t i = 0; bpe && i < w->vocab.n; ++i) ACCEL_TRY(put_merges_of(w, &w->vocab.entry[i]));
  if (bpe) {
    write_text(w, "]}");
    return accel__buffer_status(w->b);
  }
  const char *unk = special(w, "unk_token", w->class->tokens.own[2]);
  int32_t id = accel__vocab_id(&w->vocab, unk, strlen(unk));
  if (id < 0 || w->class == &no_class) id = (int32_t)w->m->unk_id;
  accel__buffer_printf(w->b, ",\"unk_id\":%d}", id);
  return accel__buffer_status(w->b);
}

/* ---- the rest ---- */

static accel_status put_added(writer *w, const char *text, size_t n, bool is_special, bool lstrip) {
  int64_t known;
  if (n == 0 || accel__map_get(&w->special, text, n, &known)) return ACCEL_OK;
  char *kept = accel__arena_copy(&w->arena, text, n);
  if (!kept) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__map_set(&w->special, kept, n, 1));
  write_text(w, w->first ? "{\"content\":" : ",{\"content\":");
  w->first = false;
  accel__buffer_json_string(w->b, text, n);
  accel__buffer_printf(w->b, ",\"special\":%s,\"normalized\":false,\"lstrip\":%s}",
                       is_special ? "true" : "false", lstrip ? "true" : "false");
  return accel__buffer_status(w->b);
}

static accel_status put_special_code(writer *w, const char *code) {
  return put_added(w, code, strlen(code), true, false);
}

static void put_flag(writer *w, const accel__json *item, const char *name) {
  const accel__json *at = accel__json_get(item, name);
  accel__buffer_printf(w->b, ",\"%s\":%s", name, cJSON_IsTrue(at) ? "true" : "false");
}

/* {"content": ..., "lstrip": ...} */
static accel_status put_flagged(writer *w, const accel__json *item, bool is_special) {
  static const char *const flags[] = {"normalized", "lstrip", "rstrip", "single_word"};
  const accel__json *content = accel__json_get(item, "content");
  int64_t known;
  if (!cJSON_IsString(content) || !*content->valuestring) return ACCEL_OK;
  size_t n = strlen(content->valuestring);
  if (accel__map_get(&w->special, content->valuestring, n, &known)) return ACCEL_OK;
  ACCEL_TRY(accel__map_set(&w->special, content->valuestring, n, 1));
  write_text(w, w->first ? "{\"content\":" : ",{\"content\":");
  w->first = false;
  accel__buffer_json_string(w->b, content->valuestring, n);
  is_special = is_special || cJSON_IsTrue(accel__json_get(item, "special"));
  accel__buffer_printf(w->b, ",\"special\":%s", is_special ? "true" : "false");
  for (int i = 0; i < 4; ++i) put_flag(w, item, flags[i]);
  write_text(w, "}");
  return accel__buffer_status(w->b);
}

/* added_tokens_decoder: {"32000": {"content": ..., "lstrip": ...}} */
static accel_status put_decoder_tokens(writer *w) {
  ACCEL_JSON_EACH(item, accel__json_get(settings_of(w), "added_tokens_decoder"))
  ACCEL_TRY(put_flagged(w, item, false));
  return ACCEL_OK;
}

/* A special token by name, with the flags that the settings give it. */
static accel_status put_named(writer *w, const char *key, const char *text, bool lstrip) {
  const accel__json *said = accel__json_get(settings_of(w), key);
  return cJSON_IsObject(said) ? put_flagged(w, said, true)
                              : put_added(w, text, strlen(text), true, lstrip);
}

/* What else the settings call special: members "..._token", and lists. */
static accel_status put_others(writer *w) {
  const accel__json *root = settings_of(w);
  ACCEL_JSON_EACH(member, root) {
    if (cJSON_IsString(member) && accel__ends_with(member->string, "_token"))
      ACCEL_TRY(put_added(w, member->valuestring, strlen(member->valuestring), true, false));
  }
  ACCEL_JSON_EACH(item, accel__extra_tokens(root)) {
    if (cJSON_IsString(item))
      ACCEL_TRY(put_added(w, item->valuestring, strlen(item->valuestring), true, false));
    else
      ACCEL_TRY(put_flagged(w, item, false));
  }
  return ACCEL_OK;
}

static accel_status put_added_tokens(writer *w) {
  const family *f = w->f;
  const char *named[ACCEL__NAMED_TOKENS];
  for (int k = 0; k < ACCEL__NAMED_TOKENS; ++k)
    named[k] = special(w, accel__named_token_keys[k], w->class->tokens.own[k]);
  write_text(w, "\"added_tokens\":[");
  w->first = true;
  ACCEL_TRY(put_decoder_tokens(w));
  for (size_t i = 0; i < w->m->n; ++i) {
    const accel__spm_piece *p = &w->m->at[i];
    bool is_special = p->type == ACCEL__SPM_CONTROL;
    for (int k = 0; k < ACCEL__NAMED_TOKENS; ++k)
      is_special = is_special ||
                   (named[k] && strlen(named[k]) == p->n && memcmp(named[k], p->text, p->n) == 0);
    if (p->type == ACCEL__SPM_CONTROL || p->type == ACCEL__SPM_USER_DEFINED)
      ACCEL_TRY(put_added(w, p->text, p->n, is_special, false));
  }
  for (int k = 0; k < ACCEL__NAMED_TOKENS - 1; ++k) {
    if (named[k]) ACCEL_TRY(put_named(w, accel__named_token_keys[k], named[k], false));
  }
  ACCEL_TRY(each_code(w, put_special_code));
  char text[32];
  for (int64_t i = f->layout == T5 ? config_int(w, "extra_ids", 100) : 0; i-- > 0;) {
    snprintf(text, sizeof text, "<extra_id_%lld>", (long long)i);
    ACCEL_TRY(put_added(w, text, strlen(text), true, false));
  }
  for (int64_t i = 2; f->layout == PEGASUS && i < config_int(w, "offset", 103); ++i) {
    snprintf(text, sizeof text, "<unk_%lld>", (long long)i);
    ACCEL_TRY(put_added(w, text, strlen(text), true, false));
  }
  if (f->layout == PEGASUS) ACCEL_TRY(put_added(w, "<mask_1>", 8, true, false));
  const int mask = ACCEL__NAMED_TOKENS - 1;
  if (named[mask])
    ACCEL_TRY(put_named(w, accel__named_token_keys[mask], named[mask],
                        w->class->tokens.mask_takes_space));
  ACCEL_TRY(put_others(w));
  write_text(w, "],");
  return accel__buffer_status(w->b);
}

static void put_base64(accel__buffer *b, const uint8_t *data, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < n; i += 3) {
    uint32_t bits = (uint32_t)data[i] << 16 | (i + 1 < n ? (uint32_t)data[i + 1] << 8 : 0) |
                    (i + 2 < n ? data[i + 2] : 0);
    char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                    i + 1 < n ? digits[bits >> 6 & 63] : '=', i + 2 < n ? digits[bits & 63] : '='};
    accel__buffer_bytes(b, four, 4);
  }
}

static accel_status put_steps(writer *w) {
  accel__buffer charsmap = {0};
  if (w->m->charsmap_n) put_base64(&charsmap, w->m->charsmap, w->m->charsmap_n);
  accel_status status = accel__buffer_status(&charsmap);
  if (status == ACCEL_OK)
    status = accel__put_class_steps(w->class, settings_of(w), charsmap.n ? charsmap.data : NULL,
                                    charsmap.n, w->b);
  accel__buffer_free(&charsmap);
  return status;
}

static accel_status put_all(writer *w) {
  write_text(w, "{\"version\":\"1.0\",");
  ACCEL_TRY(put_model(w));
  write_text(w, ",");
  ACCEL_TRY(put_steps(w));
  ACCEL_TRY(put_added_tokens(w));
  write_text(w, "\"truncation\":null}");
  return accel__buffer_status(w->b);
}

accel_status accel__sentencepiece_json(const uint8_t *data, size_t n, const char *name,
                                       const accel__tokenizer_class *class, file_t *config,
                                       accel__buffer *out) {
  accel__spm m;
  const family *f = family_of(class);
  writer w = {
      .m = &m, .f = f, .class = f == &no_family ? &no_class : class, .config = config, .b = out};
  accel_status status = accel__spm_read(data, n, name, &m);
  w.bpe = m.kind == ACCEL__SPM_BPE;
  if (status == ACCEL_OK && f != &no_family && (strcmp(class->model, "BPE") == 0) != w.bpe)
    status = accel__fail(ACCEL_ERROR_UNSUPPORTED,
                         "%s: a %s model, which its tokenizer class does not take", name,
                         w.bpe ? "BPE" : "Unigram");
  if (status == ACCEL_OK) status = put_all(&w);
  accel__vocab_free(&w.vocab);
  accel__map_free(&w.special);
  accel__arena_free(&w.arena);
  accel__spm_free(&m);
  return status;
}
