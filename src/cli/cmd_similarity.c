/* cmd_similarity.c - accel similarity: compares texts by the cosine of their embeddings. */
#include "cli/cmd_similarity.h"

#include <stdlib.h>

double *cli_similarity(const accel_embeddings *found) {
  double *cosine = malloc(((size_t)found->n * found->n + 1) * sizeof *cosine);
  for (uint32_t i = 0; cosine && i < found->n; ++i) {
    for (uint32_t j = 0; j <= i; ++j) {
      double c = accel_cosine(found->data + (size_t)i * found->dim,
                              found->data + (size_t)j * found->dim, found->dim);
      cosine[(size_t)i * found->n + j] = cosine[(size_t)j * found->n + i] = c;
    }
  }
  return cosine;
}

void cli_json_similarity(cli_json *json, const double *cosine, uint32_t n) {
  cli_json_open(json, "similarity", '[');
  for (uint32_t i = 0; i < n; ++i) {
    cli_json_open(json, NULL, '[');
    for (uint32_t j = 0; j < n; ++j) cli_json_double(json, NULL, cosine[(size_t)i * n + j]);
    cli_json_close(json, ']');
  }
  cli_json_close(json, ']');
}

static int print_result(cli_run *run, accel_endpoint *endpoint, const accel_embeddings *found,
                        const cli_texts *texts) {
  double *cosine = cli_similarity(found);
  int code = cosine ? 0 : cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  cli_json json;
  if (!code && cli_flag(run, OPT_JSON) &&
      !(code = cli_json_begin(run, "accel.similarity/1", &json))) {
    cli_json_placement(&json, accel_placement(endpoint));
    cli_json_open(&json, "texts", '[');
    for (uint32_t i = 0; i < texts->n; ++i) cli_json_text(&json, NULL, texts->text[i]);
    cli_json_close(&json, ']');
    cli_json_similarity(&json, cosine, found->n);
    code = cli_json_end(run, &json);
  } else if (!code) {
    cli_print_similarity(cosine, texts->text, texts->n);
  }
  free(cosine);
  return code;
}

static int compare(cli_run *run, accel_endpoint *endpoint, const cli_texts *texts) {
  accel_embed_params how = accel_embed_params_default();
  how.pooling = run->value[OPT_POOLING];
  how.prompt = run->value[OPT_PROMPT];
  how.prompt_name = run->value[OPT_PROMPT_NAME];
  accel_embeddings *found;
  accel_status status = accel_embed_with(endpoint, texts->text, texts->n, &how, &found);
  if (status == ACCEL_OK && found->per_token) { /* no modules.json */
    accel_embeddings_free(&found);
    how.pooling = "mean";
    cli_note(run, "the model says nothing of pooling; taking the mean of the tokens");
    status = accel_embed_with(endpoint, texts->text, texts->n, &how, &found);
  }
  if (status != ACCEL_OK) return cli_fail(run, status);
  int code = print_result(run, endpoint, found, texts);
  accel_embeddings_free(&found);
  return code;
}

int cmd_similarity(cli_run *run) {
  static const char *const fields[] = {"text"};
  cli_texts texts;
  accel_endpoint *endpoint = NULL;
  int code = cli_texts_read(run, 1, fields, 1, &texts);
  if (code) return code;
  if (texts.n < 2) code = cli_usage(run, "two or more texts are needed");
  if (!code) code = cli_open(run, run->args[0], "feature-extraction", &endpoint);
  if (!code) code = compare(run, endpoint, &texts);
  accel_cleanup(&endpoint);
  cli_texts_free(&texts);
  return code;
}
