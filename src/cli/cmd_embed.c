/* cmd_embed.c - accel embed: texts into vectors. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_task.h"
#include "cli/cmd_similarity.h"

/* The vector of text i, or a list of one for each of its tokens. */
static void json_vector(cli_json *json, const void *result, uint32_t i) {
  const accel_embeddings *found = result;
  if (!found->per_token) {
    cli_json_floats(json, NULL, found->data + (size_t)i * found->dim, found->dim);
    return;
  }
  cli_json_open(json, NULL, '[');
  for (uint64_t row = found->row_start[i]; row < found->row_start[i + 1]; ++row)
    cli_json_floats(json, NULL, found->data + row * found->dim, found->dim);
  cli_json_close(json, ']');
}

static void json_vectors(cli_json *json, const accel_embeddings *found) {
  cli_json_open(json, "embeddings", '[');
  for (uint32_t i = 0; i < found->n; ++i) json_vector(json, found, i);
  cli_json_close(json, ']');
}

static int print_json(cli_run *run, accel_endpoint *endpoint, const accel_embeddings *found,
                      const double *cosine) {
  cli_json json;
  int code = cli_json_begin(run, "accel.embed/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_streaming(&json, endpoint);
  cli_json_replicas(&json, endpoint);
  cli_json_int(&json, "dim", found->dim);
  cli_json_int(&json, "tokens", (int64_t)found->tokens);
  cli_json_int(&json, "truncated", found->truncated);
  cli_json_bool(&json, "per_token", found->per_token != 0);
  json_vectors(&json, found);
  if (cosine) cli_json_similarity(&json, cosine, found->n);
  return cli_json_end(run, &json);
}

static double length_of(const float *v, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += (double)v[i] * (double)v[i];
  return sqrt(sum);
}

static void print_table(const accel_embeddings *found, const cli_texts *texts) {
  cli_table table = {0};
  cli_table_row(&table, 4,
                (const char *[]){"", "text", found->per_token ? "tokens" : "length",
                                 found->per_token ? "first token's vector" : "vector"});
  for (uint32_t i = 0; i < found->n; ++i) {
    const float *v = found->data + (size_t)found->row_start[i] * found->dim;
    char number[16], text[256], size[32], head[160];
    snprintf(number, sizeof number, "%u", i + 1);
    if (found->per_token)
      snprintf(size, sizeof size, "%" PRIu64, found->row_start[i + 1] - found->row_start[i]);
    else
      snprintf(size, sizeof size, "%.4f", length_of(v, found->dim));
    bool none = found->row_start[i + 1] == found->row_start[i];
    cli_table_row(&table, 4,
                  (const char *[]){number, cli_excerpt(texts->text[i], 40, text, sizeof text), size,
                                   none ? "-" : cli_vector_head(v, found->dim, head, sizeof head)});
  }
  cli_table_print(&table, "rlrl");
}

static int write_tensors(cli_run *run, const accel_embeddings *found) {
  accel_tensor items[2] = {
      {.name = "embeddings",
       .dtype = ACCEL_F32,
       .rank = 2,
       .dim = {(int64_t)found->row_start[found->n], found->dim}},
      {.name = "row_start", .dtype = ACCEL_I64, .rank = 1, .dim = {(int64_t)found->n + 1}}};
  items[0].data = (void *)found->data;
  items[1].data = (void *)found->row_start;
  accel_tensors tensors = {.n = found->per_token ? 2 : 1, .item = items};
  accel_status status = accel_tensors_write(run->value[OPT_OUTPUT], &tensors);
  return status == ACCEL_OK ? 0 : cli_fail(run, status);
}

static int print_result(cli_run *run, accel_endpoint *endpoint, const accel_embeddings *found,
                        const cli_texts *texts) {
  if (found->truncated)
    cli_note(run, "%u of %u texts were cut at %" PRId64 " tokens", found->truncated, found->n,
             accel_processor_of(endpoint)->max_length);
  double *cosine = NULL;
  if (cli_flag(run, OPT_SIMILARITY)) {
    if (found->per_token)
      return cli_usage(run, "--similarity needs one vector for each text; choose a --pooling");
    cosine = cli_similarity(found);
    if (!cosine) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  }
  int code = run->value[OPT_OUTPUT] ? write_tensors(run, found) : 0;
  if (!code && cli_flag(run, OPT_JSON)) {
    code = print_json(run, endpoint, found, cosine);
  } else if (!code) {
    print_table(found, texts);
    if (cosine) {
      putchar('\n');
      cli_print_similarity(cosine, texts->text, texts->n);
    }
  }
  free(cosine);
  return code;
}

static accel_status vectors_of(const cli_run *run, accel_endpoint *endpoint,
                               const char *const *texts, uint32_t n, accel_embeddings **found) {
  accel_embed_params how = accel_embed_params_default();
  how.pooling = run->value[OPT_POOLING];
  how.prompt = run->value[OPT_PROMPT];
  how.prompt_name = run->value[OPT_PROMPT_NAME];
  how.truncation = run->value[OPT_TRUNCATION];
  if (run->value[OPT_NORMALIZE]) how.normalize = strcmp(run->value[OPT_NORMALIZE], "yes") == 0;
  return accel_embed_with(endpoint, texts, n, &how, found);
}

static int embed(cli_run *run, accel_endpoint *endpoint, const cli_texts *texts) {
  accel_embeddings *found;
  accel_status status = vectors_of(run, endpoint, texts->text, texts->n, &found);
  if (status != ACCEL_OK) return cli_fail(run, status);
  int code = print_result(run, endpoint, found, texts);
  accel_embeddings_free(&found);
  return code;
}

int cmd_embed(cli_run *run) { return cli_on_plain_texts(run, 1, "feature-extraction", embed); }

static accel_status call(cli_run *run, void *state, accel_endpoint *endpoint, const cli_rows *rows,
                         cli_found *found) {
  (void)state;
  return vectors_of(run, endpoint, rows->field[0], rows->n, &found->embeddings);
}

static void release(void *found) {
  accel_embeddings *embeddings = found;
  accel_embeddings_free(&embeddings);
}

const cli_task cli_task_embed = {.name = "embed",
                                 .command = "embed",
                                 .model_task = "feature-extraction",
                                 .field = {"text"},
                                 .window = 2048,
                                 .shard = 8192,
                                 .call = call,
                                 .print = json_vector,
                                 .release = release};
