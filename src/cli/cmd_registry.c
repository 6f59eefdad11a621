/* cmd_registry.c - accel registry: the models known by name. */
#include <cjson/cJSON.h>
#include <inttypes.h>

#include "cli/cli_print.h"

static int show_json(cli_run *run, const char *model) {
  char *text;
  accel_status status = accel_registry_json(run->ctx, model, &text);
  if (status != ACCEL_OK) return cli_fail(run, status);
  cli_json json;
  int code = cli_json_begin(run, "accel.registry/1", &json);
  if (!code) {
    cli_json_raw(&json, "entry", text);
    code = cli_json_end(run, &json);
  }
  accel_string_free(&text);
  return code;
}

static void print_list(const char *name, const accel_strings *list) {
  if (!list || !list->n) return;
  printf("%-16s", name);
  for (uint32_t i = 0; i < list->n; ++i) printf("%s%s", i ? ", " : "", list->item[i]);
  putchar('\n');
}

/* {"cpu": {"fp32": true, ...}, ...} of the entry as a table. */
static void print_precisions(const char *entry) {
  cJSON *root = cJSON_Parse(entry);
  const cJSON *all = cJSON_GetObjectItemCaseSensitive(root, "precision_compatibility");
  cli_table table = {0};
  cli_table_row(&table, 2, (const char *[]){"hardware", "precisions"});
  for (const cJSON *hardware = all ? all->child : NULL; hardware; hardware = hardware->next) {
    char names[256] = "";
    size_t at = 0;
    for (const cJSON *p = hardware->child; p && at + 32 < sizeof names; p = p->next) {
      if (cJSON_IsTrue(p))
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%.24s", at ? " " : "", p->string);
    }
    if (at) cli_table_row(&table, 2, (const char *[]){hardware->string, names});
  }
  putchar('\n');
  cli_table_print(&table, "ll");
  cJSON_Delete(root);
}

static int show_entry(cli_run *run, const char *model) {
  const accel_registry_entry *e;
  accel_status status = accel_registry_lookup(run->ctx, model, &e);
  if (status != ACCEL_OK) return cli_fail(run, status);
  if (cli_flag(run, OPT_JSON)) return show_json(run, model);
  printf("%-16s%s\n%-16s%s\n%-16s%s, %s\n", "model", e->model, "description", e->description,
         "family", e->family, e->architecture);
  printf("%-16s%" PRId64 "\n%-16s%" PRId64 "\n", "embedding_dim", e->embedding_dim,
         "sequence_length", e->sequence_length);
  printf("%-16s%s\n%-16s%" PRId64 "\n", "model_precision", e->model_precision, "batch_size",
         e->default_batch_size);
  print_list("aliases", e->aliases);
  print_list("hardware", e->hardware);
  char *text;
  status = accel_registry_json(run->ctx, model, &text);
  if (status != ACCEL_OK) return cli_fail(run, status);
  print_precisions(text);
  accel_string_free(&text);
  return 0;
}

static int print_models(cli_run *run, const accel_strings *models) {
  cli_table table = {0};
  cli_table_row(&table, 5, (const char *[]){"model", "family", "dim", "length", "description"});
  for (uint32_t i = 0; i < models->n; ++i) {
    const accel_registry_entry *e;
    accel_status status = accel_registry_lookup(run->ctx, models->item[i], &e);
    if (status != ACCEL_OK) return cli_fail(run, status);
    char dim[24], length[24];
    snprintf(dim, sizeof dim, "%" PRId64, e->embedding_dim);
    snprintf(length, sizeof length, "%" PRId64, e->sequence_length);
    cli_table_row(&table, 5, (const char *[]){e->model, e->family, dim, length, e->description});
  }
  cli_table_print(&table, "llrrl");
  return 0;
}

/* {"models": [...]} or {"architectures": [...]} */
static int json_names(cli_run *run, const char *key, const accel_strings *names) {
  cli_json json;
  int code = cli_json_begin(run, "accel.registry/1", &json);
  if (code) return code;
  cli_json_strings(&json, key, names);
  return cli_json_end(run, &json);
}

static int show_architectures(cli_run *run) {
  accel_strings *names;
  int code = 0;
  accel_status status = accel_architectures(&names);
  if (status != ACCEL_OK) return cli_fail(run, status);
  if (cli_flag(run, OPT_JSON)) code = json_names(run, "architectures", names);
  for (uint32_t i = 0; i < names->n && !cli_flag(run, OPT_JSON); ++i) puts(names->item[i]);
  accel_strings_free(&names);
  return code;
}

int cmd_registry(cli_run *run) {
  if (cli_flag(run, OPT_ARCHITECTURES)) return show_architectures(run);
  int code = cli_context(run);
  if (code) return code;
  if (run->n_args) return show_entry(run, run->args[0]);
  accel_registry_filter filter = accel_registry_filter_default();
  filter.family = run->value[OPT_FAMILY];
  filter.hardware = run->value[OPT_HARDWARE];
  filter.precision = run->value[OPT_PRECISION];
  filter.text = run->value[OPT_SEARCH];
  accel_strings *models;
  accel_status status = accel_registry_list(run->ctx, &filter, &models);
  if (status != ACCEL_OK) return cli_fail(run, status);
  if (cli_flag(run, OPT_JSON))
    code = json_names(run, "models", models);
  else
    code = print_models(run, models);
  accel_strings_free(&models);
  return code;
}
