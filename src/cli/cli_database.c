/* cli_database.c - where the database is, and its rows as JSON Lines. */
#include "cli/cli_database.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench_exchange.h"

bool cli_make_directories(const char *path) {
  char part[CLI_PATH];
  for (size_t i = 1; path[i - 1]; ++i) {
    if (path[i] && path[i] != '/') continue;
    snprintf(part, sizeof part, "%.*s", (int)i, path);
    if (mkdir(part, 0777) && errno != EEXIST) return false;
  }
  return true;
}

/* "" where there is none. */
static int find_cache(cli_run *run, char into[CLI_PATH]) {
  const bool had = run->ctx != NULL;
  accel_cache_list *list = NULL;
  int code = had ? 0 : cli_context(run);
  into[0] = 0;
  if (code) return code;
  accel_status status = accel_cache_ls(run->ctx, &list);
  if (status != ACCEL_OK) code = cli_fail(run, status);
  if (!code && *list->directory) /* its folder "packed" is the cache of weights */
    snprintf(
        into, CLI_PATH, "%.*s",
        (int)(strrchr(list->directory, '/') ? strrchr(list->directory, '/') - list->directory : 0),
        list->directory);
  accel_cache_list_free(&list);
  if (!had) accel_destroy(&run->ctx);
  return code;
}

int cli_cache_directory(cli_run *run, char into[CLI_PATH]) {
  const int code = find_cache(run, into);
  if (code || *into) return code;
  return cli_error(run, ACCEL_ERROR_IO,
                   "there is no place for the database: none of ACCEL_CACHE_DIR, XDG_CACHE_HOME "
                   "and HOME is set; --db FILE names one");
}

int cli_database_find(cli_run *run, char into[CLI_PATH]) {
  char folder[CLI_PATH];
  if (run->value[OPT_DB]) {
    snprintf(into, CLI_PATH, "%s", run->value[OPT_DB]);
    return 0;
  }
  const int code = find_cache(run, folder);
  if (snprintf(into, CLI_PATH, "%s/bench.sqlite", folder) >= CLI_PATH || !*folder) into[0] = 0;
  return code;
}

int cli_database_open(cli_run *run, char path[CLI_PATH], bench_db *db, bool *open) {
  char message[1024];
  int code = cli_database_find(run, path);
  *open = false;
  if (code || !*path || access(path, F_OK)) {
    if (!code && run->value[OPT_DB])
      code = cli_error(run, ACCEL_ERROR_IO,
                       "--db %s: %s; accel bench MODEL --db FILE makes one, and without --db it is "
                       "bench.sqlite in the cache's directory",
                       path, strerror(errno));
    return code;
  }
  *open = bench_db_open(db, path, BENCH_DB_READ, message, sizeof message);
  return *open ? 0 : cli_error(run, ACCEL_ERROR_IO, "%s", message);
}

int cli_database(cli_run *run, char into[CLI_PATH]) {
  char folder[CLI_PATH - 32];
  if (run->value[OPT_DB]) {
    snprintf(into, CLI_PATH, "%s", run->value[OPT_DB]);
    return 0;
  }
  int code = cli_cache_directory(run, into);
  if (code) return code;
  snprintf(folder, sizeof folder, "%s", into);
  if (!cli_make_directories(folder))
    return cli_error(run, ACCEL_ERROR_IO, "%s: cannot be made: %s; --db FILE names another place",
                     folder, strerror(errno));
  snprintf(into, CLI_PATH, "%s/bench.sqlite", folder);
  return 0;
}

int cli_exchange(cli_run *run) {
  const bool out = run->value[OPT_EXPORT] != NULL;
  const char *name = run->value[out ? OPT_EXPORT : OPT_IMPORT];
  const bool standard = !strcmp(name, "-");
  char path[CLI_PATH], message[1024];
  bench_exchanged count;
  if (run->n_args || (out && run->value[OPT_IMPORT]))
    return cli_usage(run, "--export and --import go alone, and without MODEL");
  int code = cli_database(run, path);
  if (code) return code;
  FILE *file = standard ? (out ? stdout : stdin) : fopen(name, out ? "w" : "r");
  if (!file) return cli_error(run, ACCEL_ERROR_IO, "%s: %s", name, strerror(errno));
  bool done = out ? bench_export(path, file, &count, message, sizeof message)
                  : bench_import(path, file, name, &count, message, sizeof message);
  const bool written = !out || (fflush(file) == 0 && !ferror(file));
  if (!standard) fclose(file);
  if (!done) return cli_error(run, ACCEL_ERROR_IO, "%s", message);
  if (!written)
    return cli_error(run, ACCEL_ERROR_IO, "%s: cannot write: %s", name, strerror(errno));
  if (out)
    cli_note(run, "%s: %u runs and %u verdicts exported", path, count.runs, count.verdicts);
  else
    cli_note(run, "%s: %u runs and %u verdicts imported, %u were there already", path, count.runs,
             count.verdicts, count.known);
  return 0;
}
