/* cli_database.h - the database of what was measured, as options name it. */
#ifndef ACCEL_CLI_DATABASE_H
#define ACCEL_CLI_DATABASE_H

#include "bench/bench_db.h"
#include "cli/cli.h"

enum { CLI_PATH = 4096 };

/* The directory that caches are kept in ($ACCEL_CACHE_DIR, $XDG_CACHE_HOME/accel), without an end
 * '/'.  Leaves no context and no thread behind unless there was one.  0 or an exit code. */
int cli_cache_directory(cli_run *run, char into[CLI_PATH]);
/* --db, else bench.sqlite in that directory, which is made.  0 or an exit code. */
int cli_database(cli_run *run, char into[CLI_PATH]);
/* The same without making anything: "" where there is no place for it.  It may be absent. */
int cli_database_find(cli_run *run, char into[CLI_PATH]);
/* Opens it for reading, path in `path`.  *open false with 0: there is none, which is no error
 * unless --db names it: nothing was measured here.  Else an exit code. */
int cli_database_open(cli_run *run, char path[CLI_PATH], bench_db *db, bool *open);
/* mkdir -p of a directory.  false: errno says why. */
bool cli_make_directories(const char *path);
/* accel bench --export, --import */
int cli_exchange(cli_run *run);

#endif
