/* api_tokenizer.c - the tokenizer by itself: text to ids with offsets, and back. */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "api/api_check.h"
#include "dispatch/locate.h"
#include "processing/processor.h"
#include "processing/result.h"

/* The public handle is the tokenizer itself. */
static accel__tokenizer *inner(accel_tokenizer *tokenizer) { return (accel__tokenizer *)tokenizer; }

accel_status accel_tokenizer_open(accel *ctx, const char *path_or_model, accel_tokenizer **out) {
  API_CALL(ctx, out);
  API_NEED(path_or_model);
  accel__arena arena = {0};
  accel__tokenizer *tokenizer = NULL;
  const char *path;
  accel_status status = accel__locate_file(ctx, path_or_model, &arena, &path);
  if (status == ACCEL_OK) status = accel__tokenizer_load(path, &tokenizer);
  if (status == ACCEL_OK) *out = (accel_tokenizer *)tokenizer;
  accel__arena_free(&arena);
  return status;
}

accel_tokenizer *accel_tokenizer_of(const accel_endpoint *endpoint) {
  const accel__processor *p = endpoint ? accel__processor_for(endpoint) : NULL;
  return p ? (accel_tokenizer *)p->tokenizer : NULL;
}

void accel_tokenizer_close(accel_tokenizer **tokenizer) {
  if (!tokenizer) return;
  accel__tokenizer *t = inner(*tokenizer);
  accel__tokenizer_free(&t);
  *tokenizer = NULL;
}

/* The arrays of a result, filled text by text. */
typedef struct id_lists {
  uint32_t *count;
  const int32_t **ids;
  const char *const **tokens;
  const int64_t **start, **end;
} id_lists;

static accel_status new_lists(accel__arena *arena, uint32_t n, accel_token_ids *result,
                              id_lists *lists) {
  *lists = (id_lists){.count = accel__arena_array(arena, n, sizeof(uint32_t)),
                      .ids = accel__arena_array(arena, n, sizeof(void *)),
                      .tokens = accel__arena_array(arena, n, sizeof(void *)),
                      .start = accel__arena_array(arena, n, sizeof(void *)),
                      .end = accel__arena_array(arena, n, sizeof(void *))};
  if (!lists->count || !lists->ids || !lists->tokens || !lists->start || !lists->end)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  *result = (accel_token_ids){.n = n,
                              .count = lists->count,
                              .ids = lists->ids,
                              .tokens = lists->tokens,
                              .start = lists->start,
                              .end = lists->end};
  return ACCEL_OK;
}

static accel_status store(const accel__tokenizer *tokenizer, const accel__encoding *enc,
                          accel__arena *arena, uint32_t i, id_lists *lists) {
  int32_t *ids = accel__arena_array(arena, enc->n, sizeof *ids);
  const char **tokens = accel__arena_array(arena, enc->n, sizeof *tokens);
  int64_t *start = accel__arena_array(arena, enc->n, sizeof *start),
          *end = accel__arena_array(arena, enc->n, sizeof *end);
  if (!ids || !tokens || !start || !end) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (size_t t = 0; t < enc->n; t++) {
    ids[t] = enc->ids[t];
    /* lives with the tokenizer: copied */
    tokens[t] = accel__id_to_token(tokenizer, enc->ids[t], NULL);
    tokens[t] = accel__arena_string(arena, tokens[t] ? tokens[t] : "");
    start[t] = enc->chars[t].start;
    end[t] = enc->chars[t].end;
    if (!tokens[t]) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  lists->count[i] = (uint32_t)enc->n;
  lists->ids[i] = ids;
  lists->tokens[i] = tokens;
  lists->start[i] = start;
  lists->end[i] = end;
  return ACCEL_OK;
}

accel_status accel_tokenize(accel_tokenizer *tokenizer, const char *const *texts, uint32_t n,
                            int add_special_tokens, accel_token_ids **out) {
  API_CALL(tokenizer, out);
  ACCEL_TRY(accel__check_texts(__func__, "texts", texts, n));
  accel_token_ids *result = accel__task_result(sizeof *result);
  accel__encoding enc = {0};
  accel__encode_options how = {.add_special_tokens = add_special_tokens != 0};
  id_lists lists;
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__arena *arena = accel__task_arena(result);
  accel_status status = new_lists(arena, n, result, &lists);
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    status = accel__encode(inner(tokenizer), texts[i], strlen(texts[i]), NULL, 0, &how, &enc);
    if (status == ACCEL_OK) status = store(inner(tokenizer), &enc, arena, i, &lists);
  }
  accel__encoding_free(&enc);
  if (status == ACCEL_OK)
    *out = result;
  else
    accel__task_free(result);
  return status;
}

/* A C string of the buffer's own memory, or a copy in which each NUL is C0 80. */
static accel_status write_nul(accel__buffer *buffer, char **text) {
  if (!memchr(buffer->data, 0, buffer->n)) {
    *text = buffer->data;
    *buffer = (accel__buffer){0};
    return ACCEL_OK;
  }
  accel__buffer out = {0};
  for (size_t i = 0; i < buffer->n; i++)
    accel__buffer_bytes(&out, buffer->data[i] ? &buffer->data[i] : "\xC0\x80",
                        buffer->data[i] ? 1 : 2);
  accel_status status = accel__buffer_status(&out);
  if (status == ACCEL_OK)
    *text = out.data;
  else
    accel__buffer_free(&out);
  return status;
}

accel_status accel_detokenize(accel_tokenizer *tokenizer, const int32_t *ids, uint32_t n,
                              int skip_special_tokens, char **text) {
  API_CALL(tokenizer, text);
  if (n) API_NEED(ids);
  accel__buffer buffer = {0};
  accel__buffer_text(&buffer, ""); /* no ids give an empty string, not NULL */
  accel_status status =
      accel__decode(inner(tokenizer), ids, n, skip_special_tokens != 0,
                    accel__tokenizer_describe(inner(tokenizer))->clean_up, &buffer);
  if (status == ACCEL_OK) status = accel__buffer_status(&buffer);
  if (status == ACCEL_OK) status = write_nul(&buffer, text);
  accel__buffer_free(&buffer);
  return status;
}
