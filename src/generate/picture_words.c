/* picture_words.c - what processors write for pictures. */
#include "generate/picture_words.h"

#include <stdlib.h>
#include <string.h>

#include "core/json.h"

/* ---- the tokens ---- */

/* A string, or the content of an added token. */
static const char *text_of(const accel__json *value) {
  if (cJSON_IsObject(value)) value = cJSON_GetObjectItemCaseSensitive(value, "content");
  return cJSON_IsString(value) ? value->valuestring : NULL;
}

/* A token by the name of the tokenizer's attribute; NULL: the file has none. */
static const char *named(const accel__json *root, const char *name) {
  static const char *const places[] = {"extra_special_tokens", "model_specific_special_tokens"};
  const char *text = text_of(cJSON_GetObjectItemCaseSensitive(root, name));
  for (int i = 0; text == NULL && i < 2; i++)
    text = text_of(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, places[i]), name));
  return text;
}

/* Names of the tokenizer's attributes, and what they are where it has none; NULL: it must have
 * them. */
static const struct style {
  const char *name[3], *otherwise[3]; /* token, begin, end */
  bool begins;                        /* the place of a picture is `begin` */
} styles[] = {
    [ACCEL__PICTURE_GEMMA3] = {{"image_token", "boi_token", "eoi_token"}, {NULL}, true},
    [ACCEL__PICTURE_PALIGEMMA] = {{"image_token"}, {"<image>"}, false},
    [ACCEL__PICTURE_IDEFICS3] = {{"image_token", "fake_image_token", "global_image_token"},
                                 {"<image>", "<fake_token_around_image>", "<global-img>"},
                                 false},
    [ACCEL__PICTURE_INTERNVL] = {{"context_image_token", "start_image_token", "end_image_token"},
                                 {NULL},
                                 false},
    [ACCEL__PICTURE_FLORENCE2] = {{"image_token"}, {NULL}, false},
};

static accel_status keep(const char *text, char **out) {
  if ((*out = strdup(text)) != NULL) return ACCEL_OK;
  return accel__no_memory(strlen(text));
}

/* The image token's text is that of the model's id where no name says otherwise. */
static accel_status find_words(const accel__json_file *file, const accel__tokenizer *tokenizer,
                               const accel__image_tokens *image_tokens, accel__picture_words *out) {
  const struct style *style = &styles[out->style];
  char **const to[3] = {&out->token, &out->begin, &out->end};
  size_t n = 0;
  for (int i = 0; i < 3 && style->name[i] != NULL; i++) {
    const char *text = named(file->root, style->name[i]);
    if (text == NULL) text = style->otherwise[i];
    if (text == NULL && i == 0)
      text = accel__id_to_token(tokenizer, (int32_t)image_tokens->token, &n);
    if (text == NULL)
      return accel__remedy(
          accel__fail(ACCEL_ERROR_FORMAT, "%s: has no %s, which prompts with pictures need",
                      file->name, style->name[i]),
          "take tokenizer_config.json from the model's own repository");
    ACCEL_TRY(keep(text, to[i]));
  }
  const accel__tokenizer_info *info = accel__tokenizer_describe(tokenizer);
  const char *bos = accel__id_to_token(tokenizer, info->bos, &n);
  const char *eos = accel__id_to_token(tokenizer, info->eos, &n);
  ACCEL_TRY(keep(style->begins ? out->begin : out->token, &out->place));
  ACCEL_TRY(keep(bos != NULL ? bos : "", &out->bos));
  return keep(eos != NULL ? eos : "", &out->eos);
}

accel_status accel__picture_words_load(const char *directory, const accel__tokenizer *tokenizer,
                                       const accel__image_tokens *image_tokens,
                                       accel__picture_words *out) {
  accel__json_file file = {0};
  *out = (accel__picture_words){.style = image_tokens->style};
  if (out->style == ACCEL__PICTURE_TOKENS) return ACCEL_OK;
  accel_status status = accel__json_read_beside(directory, "tokenizer_config.json", 0, &file);
  if (status == ACCEL_OK && file.name == NULL) file.name = "tokenizer_config.json";
  if (status == ACCEL_OK) status = find_words(&file, tokenizer, image_tokens, out);
  accel__json_free(&file);
  if (status != ACCEL_OK) accel__picture_words_free(out);
  return status;
}

void accel__picture_words_free(accel__picture_words *w) {
  free(w->place);
  free(w->token);
  free(w->begin);
  free(w->end);
  free(w->bos);
  free(w->eos);
  *w = (accel__picture_words){0};
}

/* ---- one picture ---- */

static void repeat(accel__buffer *out, const char *token, int64_t times) {
  for (int64_t i = 0; i < times; i++) accel__buffer_text(out, token);
}

static void gemma3(const accel__picture_words *w, const accel__picture_parts *parts, int64_t rows,
                   accel__buffer *out) {
  for (uint32_t i = 0; i < parts->n; i++) {
    if (parts->n > 1)
      accel__buffer_text(out, i == 0   ? "Here is the original image "
                              : i == 1 ? " and here are some crops to help you see better "
                                       : " ");
    accel__buffer_text(out, "\n\n");
    accel__buffer_text(out, w->begin);
    repeat(out, w->token, rows);
    accel__buffer_text(out, w->end);
    accel__buffer_text(out, "\n\n");
  }
}

static void idefics3(const accel__picture_words *w, const accel__picture_parts *parts, int64_t rows,
                     accel__buffer *out) {
  for (int32_t i = 0; i < parts->rows * parts->cols; i++) {
    accel__buffer_text(out, w->begin);
    accel__buffer_printf(out, "<row_%d_col_%d>", i / parts->cols + 1, i % parts->cols + 1);
    repeat(out, w->token, rows);
    if ((i + 1) % parts->cols == 0) accel__buffer_text(out, "\n");
  }
  if (parts->rows > 0) accel__buffer_text(out, "\n");
  accel__buffer_text(out, w->begin);
  accel__buffer_text(out, w->end);
  repeat(out, w->token, rows);
  accel__buffer_text(out, w->begin);
}

static void one_picture(const accel__picture_words *w, const accel__picture_parts *parts,
                        int64_t rows, accel__buffer *out) {
  switch (w->style) {
    case ACCEL__PICTURE_GEMMA3:
      gemma3(w, parts, rows, out);
      break;
    case ACCEL__PICTURE_IDEFICS3:
      idefics3(w, parts, rows, out);
      break;
    case ACCEL__PICTURE_INTERNVL:
      accel__buffer_text(out, w->begin);
      repeat(out, w->token, rows * parts->n);
      accel__buffer_text(out, w->end);
      break;
    default:
      repeat(out, w->token, rows * parts->n);
  }
}

/* ---- the text ---- */

uint32_t accel__picture_places(const accel__picture_words *w, const char *text) {
  uint32_t n = 0;
  while ((text = strstr(text, w->place)) != NULL) n++, text += strlen(w->place);
  return n;
}

accel_status accel__picture_words_write(const accel__picture_words *w, const char *text,
                                        const accel__picture_parts *parts, uint32_t n, int64_t rows,
                                        accel__buffer *out) {
  const bool paligemma = w->style == ACCEL__PICTURE_PALIGEMMA;
  uint32_t i = 0;
  if (w->style == ACCEL__PICTURE_FLORENCE2) {
    while (i < n) one_picture(w, &parts[i++], rows, out);
    accel__buffer_printf(out, "%s%s%s", w->bos, text, w->eos);
    return accel__buffer_status(out);
  }
  if (paligemma && strstr(text, w->place) == NULL)
    while (i < n) one_picture(w, &parts[i++], rows, out);
  for (const char *at; i < n && (at = strstr(text, w->place)) != NULL;
       text = at + strlen(w->place)) {
    accel__buffer_bytes(out, text, (size_t)(at - text));
    one_picture(w, &parts[i++], rows, out);
  }
  if (paligemma) accel__buffer_text(out, w->bos); /* between pictures and words */
  accel__buffer_text(out, text);
  if (paligemma) accel__buffer_text(out, "\n");
  return accel__buffer_status(out);
}
