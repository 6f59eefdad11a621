/* cmd_matrix.c - accel matrix: which hardware and precisions models are listed for, and what the
 * devices here can do. */
#include <cjson/cJSON.h>
#include <string.h>

#include "cli/cli_print.h"

enum { MAX_PRECISIONS = 16 };

/* A row of "yes", "-", "native", "emulated", "no" for {"fp32": true or {"answer": ...}, ...};
 * columns named by the first row's keys. */
static void add_row(cli_table *table, const char *model, const char *kind, const char *where,
                    const cJSON *answers, const char *const *names, uint32_t n) {
  const char *cells[3 + MAX_PRECISIONS] = {model, kind, where};
  for (uint32_t i = 0; i < n; ++i) {
    const cJSON *answer = cJSON_GetObjectItemCaseSensitive(answers, names[i]);
    const cJSON *word = cJSON_GetObjectItemCaseSensitive(answer, "answer");
    cells[3 + i] = word ? cJSON_GetStringValue(word) : cJSON_IsTrue(answer) ? "yes" : "-";
  }
  cli_table_row(table, 3 + n, cells);
}

static void print_reasons(const cJSON *capable) {
  for (const cJSON *device = capable ? capable->child : NULL; device; device = device->next) {
    for (const cJSON *p = device->child; p; p = p->next) {
      const char *why = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(p, "why"));
      if (why && *why) printf("  %s, %s: %s\n", device->string, p->string, why);
    }
  }
}

static void print_models(const cJSON *models, bool verbose) {
  static const char *const names[] = {"fp32", "fp16",  "bf16", "int8",
                                      "int4", "uint4", "fp8",  "fp4"};
  enum { N = sizeof names / sizeof names[0] };
  cli_table table = {0};
  const char *heading[3 + N] = {"model", "", "where"};
  memcpy(heading + 3, names, sizeof names);
  cli_table_row(&table, 3 + N, heading);
  for (const cJSON *m = models ? models->child : NULL; m; m = m->next) {
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "model"));
    const cJSON *listed = cJSON_GetObjectItemCaseSensitive(m, "listed"),
                *capable = cJSON_GetObjectItemCaseSensitive(m, "capable");
    for (const cJSON *h = listed ? listed->child : NULL; h; h = h->next) {
      add_row(&table, name, "listed", h->string, h, names, N);
      name = "";
    }
    for (const cJSON *d = capable ? capable->child : NULL; d; d = d->next)
      add_row(&table, "", "capable here", d->string, d, names, N);
  }
  cli_table_print(&table, "lll");
  for (const cJSON *m = models ? models->child : NULL; m; m = m->next) {
    const char *why = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "why"));
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "model"));
    if (why) printf("%s: not asked of the devices: %s\n", name, why);
    if (verbose) print_reasons(cJSON_GetObjectItemCaseSensitive(m, "capable"));
  }
}

int cmd_matrix(cli_run *run) {
  int code = cli_context(run);
  if (code) return code;
  char *text;
  accel_status status = accel_matrix_json(run->ctx, run->n_args ? run->args[0] : NULL, &text);
  if (status != ACCEL_OK) return cli_fail(run, status);
  if (cli_flag(run, OPT_JSON)) {
    code = cli_json_whole(run, text);
  } else {
    cJSON *root = cJSON_Parse(text);
    print_models(cJSON_GetObjectItemCaseSensitive(root, "models"), cli_flag(run, OPT_VERBOSE));
    cJSON_Delete(root);
  }
  accel_string_free(&text);
  return code;
}
