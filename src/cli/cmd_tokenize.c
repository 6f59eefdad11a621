/* cmd_tokenize.c - accel tokenize: texts into token ids, and back. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli_print.h"

static int print_json(cli_run *run, const accel_token_ids *found) {
  cli_json json;
  int code = cli_json_begin(run, "accel.tokenize/1", &json);
  if (code) return code;
  cli_json_open(&json, "ids", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    cli_json_open(&json, NULL, '[');
    for (uint32_t k = 0; k < found->count[i]; ++k) cli_json_int(&json, NULL, found->ids[i][k]);
    cli_json_close(&json, ']');
  }
  cli_json_close(&json, ']');
  if (cli_flag(run, OPT_VERBOSE)) {
    cli_json_open(&json, "tokens", '[');
    for (uint32_t i = 0; i < found->n; ++i) {
      cli_json_open(&json, NULL, '[');
      for (uint32_t k = 0; k < found->count[i]; ++k)
        cli_json_text(&json, NULL, found->tokens[i][k]);
      cli_json_close(&json, ']');
    }
    cli_json_close(&json, ']');
    cli_json_open(&json, "offsets", '[');
    for (uint32_t i = 0; i < found->n; ++i) {
      cli_json_open(&json, NULL, '[');
      for (uint32_t k = 0; k < found->count[i]; ++k) {
        cli_json_open(&json, NULL, '[');
        cli_json_int(&json, NULL, found->start[i][k]);
        cli_json_int(&json, NULL, found->end[i][k]);
        cli_json_close(&json, ']');
      }
      cli_json_close(&json, ']');
    }
    cli_json_close(&json, ']');
  }
  return cli_json_end(run, &json);
}

static void print_table(const accel_token_ids *found) {
  cli_table table = {0};
  cli_table_row(&table, 4, (const char *[]){"text", "id", "span", "token"});
  for (uint32_t i = 0; i < found->n; ++i) {
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      char number[16], id[16], span[64], token[256];
      snprintf(number, sizeof number, "%u", i + 1);
      snprintf(id, sizeof id, "%d", found->ids[i][k]);
      snprintf(span, sizeof span, "%" PRId64 "-%" PRId64, found->start[i][k], found->end[i][k]);
      cli_table_row(&table, 4,
                    (const char *[]){number, id, span,
                                     cli_excerpt(found->tokens[i][k], 60, token, sizeof token)});
    }
  }
  cli_table_print(&table, "rrll");
}

static int encode(cli_run *run, accel_tokenizer *tokenizer, const cli_texts *texts) {
  accel_token_ids *found;
  accel_status status =
      accel_tokenize(tokenizer, texts->text, texts->n, !cli_flag(run, OPT_NO_SPECIAL), &found);
  if (status != ACCEL_OK) return cli_fail(run, status);
  int code = 0;
  if (cli_flag(run, OPT_JSON))
    code = print_json(run, found);
  else
    print_table(found);
  accel_token_ids_free(&found);
  return code;
}

/* Every text is decoded before any is printed. */
static int print_texts(cli_run *run, char *const *texts, uint32_t n) {
  if (!cli_flag(run, OPT_JSON)) {
    for (uint32_t i = 0; i < n; ++i) puts(texts[i]);
    return 0;
  }
  cli_json json;
  int code = cli_json_begin(run, "accel.tokenize/1", &json);
  if (code) return code;
  cli_json_open(&json, "texts", '[');
  for (uint32_t i = 0; i < n; ++i) cli_json_text(&json, NULL, texts[i]);
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static int decode(cli_run *run, accel_tokenizer *tokenizer, const cli_ids *ids) {
  char **texts = calloc(ids->n + 1, sizeof *texts);
  if (!texts) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < ids->n && status == ACCEL_OK; ++i)
    status = accel_detokenize(tokenizer, ids->ids[i], ids->count[i],
                              !cli_flag(run, OPT_KEEP_SPECIAL), &texts[i]);
  int code = status == ACCEL_OK ? print_texts(run, texts, ids->n) : cli_fail(run, status);
  for (uint32_t i = 0; i < ids->n; ++i) accel_string_free(&texts[i]);
  free(texts);
  return code;
}

int cmd_tokenize(cli_run *run) {
  static const char *const fields[] = {"text"};
  const char *decoded = run->value[OPT_DECODE];
  cli_texts texts = {0};
  cli_ids ids = {0};
  accel_tokenizer *tokenizer = NULL;
  if (decoded && (run->n_args > 1 || run->value[OPT_INPUT]))
    return cli_usage(run, "--decode takes no texts");
  int code = decoded ? cli_ids_read(run, decoded, &ids) : cli_texts_read(run, 1, fields, 1, &texts);
  if (!code) code = cli_context(run);
  if (!code) {
    accel_status status = accel_tokenizer_open(run->ctx, run->args[0], &tokenizer);
    if (status != ACCEL_OK) code = cli_fail(run, status);
  }
  if (!code) code = decoded ? decode(run, tokenizer, &ids) : encode(run, tokenizer, &texts);
  accel_tokenizer_close(&tokenizer);
  cli_texts_free(&texts);
  cli_ids_free(&ids);
  return code;
}
