/* cmd_cache.c - accel cache: what the cache of packed weights holds, and making room. */
#include <string.h>
#include <time.h>

#include "cli/cli_print.h"

static void when(int64_t seconds, char *into, size_t size) {
  time_t t = (time_t)seconds;
  struct tm utc;
  if (!gmtime_r(&t, &utc) || !strftime(into, size, "%Y-%m-%dT%H:%M:%SZ", &utc))
    snprintf(into, size, "?");
}

static int print_json(cli_run *run, const accel_cache_list *list) {
  cli_json json;
  char used[40];
  int code = cli_json_begin(run, "accel.cache/1", &json);
  if (code) return code;
  cli_json_text(&json, "directory", list->directory);
  cli_json_int(&json, "bytes", (int64_t)list->bytes);
  cli_json_int(&json, "limit_bytes", (int64_t)list->limit);
  cli_json_open(&json, "entries", '[');
  for (uint32_t i = 0; i < list->n; ++i) {
    when(list->entry[i].used, used, sizeof used);
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "file", list->entry[i].file);
    cli_json_text(&json, "label", list->entry[i].label);
    cli_json_int(&json, "bytes", (int64_t)list->entry[i].bytes);
    cli_json_text(&json, "last_use", used);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static void print_table(const accel_cache_list *list) {
  static const char *const head[] = {"entry", "size", "last use", "belongs to"};
  cli_table table = {0};
  char all[32], limit[32];
  if (!*list->directory) {
    puts("there is no place for a cache: none of ACCEL_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    return;
  }
  printf("%s: %u entr%s, %s of at most %s\n", list->directory, list->n, list->n == 1 ? "y" : "ies",
         cli_bytes(list->bytes, all, sizeof all), cli_bytes(list->limit, limit, sizeof limit));
  if (!list->n) return;
  putchar('\n');
  cli_table_row(&table, 4, head);
  for (uint32_t i = 0; i < list->n; ++i) {
    const accel_cache_entry *e = &list->entry[i];
    char size[32], used[40];
    when(e->used, used, sizeof used);
    const char *row[] = {e->file, cli_bytes(e->bytes, size, sizeof size), used,
                         *e->label ? e->label : "(not complete)"};
    cli_table_row(&table, 4, row);
  }
  cli_table_print(&table, "lrll");
}

static int list(cli_run *run) {
  accel_cache_list *found;
  accel_status status = accel_cache_ls(run->ctx, &found);
  if (status != ACCEL_OK) return cli_fail(run, status);
  int code = 0;
  if (cli_flag(run, OPT_JSON))
    code = print_json(run, found);
  else
    print_table(found);
  accel_cache_list_free(&found);
  return code;
}

/* Without --all and --max: down to the limit in force. */
static int prune(cli_run *run) {
  accel_cache_list *before;
  accel_status status = accel_cache_ls(run->ctx, &before);
  if (status != ACCEL_OK) return cli_fail(run, status);
  uint64_t keep = cli_flag(run, OPT_ALL) ? 0 : before->limit, bytes;
  uint32_t n;
  cli_size(run, OPT_MAX, &keep);
  accel_cache_list_free(&before);
  status = accel_cache_prune(run->ctx, keep, &n, &bytes);
  if (status != ACCEL_OK) return cli_fail(run, status);
  if (!cli_flag(run, OPT_JSON)) {
    char freed[32];
    printf("removed %u entr%s, %s\n", n, n == 1 ? "y" : "ies",
           cli_bytes(bytes, freed, sizeof freed));
    return 0;
  }
  cli_json json;
  int code = cli_json_begin(run, "accel.cache/1", &json);
  if (code) return code;
  cli_json_int(&json, "removed", n);
  cli_json_int(&json, "freed_bytes", (int64_t)bytes);
  return cli_json_end(run, &json);
}

int cmd_cache(cli_run *run) {
  const char *verb = run->args[0];
  bool lists = !strcmp(verb, "ls");
  if (!lists && strcmp(verb, "prune")) return cli_usage(run, "'%s' is neither ls nor prune", verb);
  if (lists && (cli_flag(run, OPT_ALL) || run->value[OPT_MAX]))
    return cli_usage(run, "--all and --max go with prune");
  if (cli_flag(run, OPT_ALL) && run->value[OPT_MAX])
    return cli_usage(run, "give --all or --max, not both");
  int code = cli_context(run);
  if (code) return code;
  return lists ? list(run) : prune(run);
}
