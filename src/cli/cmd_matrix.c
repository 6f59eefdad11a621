/* cmd_matrix.c - accel matrix: which hardware and precisions models are listed for, what the
 * devices here can do, and what was verified. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench_machine.h"
#include "cli/cli_print.h"
#include "cli/cli_verified.h"
#include "tool/tool_markup.h"

static const char *const precisions[] = {"fp32", "fp16",  "bf16", "int8",
                                         "int4", "uint4", "fp8",  "fp4"};
enum { N = sizeof precisions / sizeof *precisions };
enum { CELL = VERIFIED_CELL };

static const cJSON *member(const cJSON *object, const char *name) {
  return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* ---- what was verified, model by model ---- */

typedef struct wanted {
  const char *model;  /* as the command line or the registry names it */
  bool is_directory;  /* rows name it by the end of its path */
  const char *where;  /* NULL: any, and any device */
  const char *device; /* and any precision where that is NULL */
  const char *precision;
} wanted;

static bool is_model(const char *given, bool directory, const char *stored) {
  const size_t n = strlen(given), m = strlen(stored);
  if (!directory) return !strcmp(given, stored);
  return n >= m && !strcmp(given + n - m, stored) && (n == m || given[n - m - 1] == '/');
}

static bool is_wanted(const bench_verdict_row *row, const void *what) {
  const wanted *w = what;
  return is_model(w->model, w->is_directory, row->model) &&
         (!w->where || (!strcmp(row->where, w->where) && !strcmp(row->device, w->device))) &&
         (!w->precision || !strcmp(row->precision, w->precision));
}

/* {device: {precision: cell}} as "verified", and of other machines as "verified_elsewhere". */
static void add_device(const bench_verdict_rows *rows, wanted w, cJSON *model) {
  const char *key = *w.where ? "verified_elsewhere" : "verified";
  char name[512];
  cJSON *devices = cJSON_GetObjectItemCaseSensitive(model, key), *cells;
  snprintf(name, sizeof name, "%s%s%s", w.device, *w.where ? " at " : "", w.where);
  if (!devices) devices = cJSON_AddObjectToObject(model, key);
  if (member(devices, name)) return;
  cells = cJSON_AddObjectToObject(devices, name);
  for (int p = 0; p < N; ++p) {
    w.precision = precisions[p];
    verified_set set = verified_choose(rows, is_wanted, &w);
    cJSON_AddItemToObject(cells, precisions[p], verified_cell(&set));
    free((void *)set.row);
  }
}

static void add_verified(const bench_verdict_rows *rows, cJSON *model) {
  char path[4096];
  wanted w = {.model = cli_json_word(model, "model")};
  snprintf(path, sizeof path, "%s/config.json", w.model);
  w.is_directory = !access(path, F_OK);
  verified_set set = verified_choose(rows, is_wanted, &w);
  for (uint32_t i = 0; i < set.n; ++i) {
    w.where = set.row[i]->where;
    w.device = set.row[i]->device;
    add_device(rows, w, model);
  }
  free((void *)set.row);
}

static void add_ratings(const bench_ratings *ratings, cJSON *model) {
  for (uint32_t i = 0; i < ratings->n; ++i) {
    const bench_rating *r = &ratings->item[i];
    if (strcmp(r->model, cli_json_word(model, "model")) != 0) continue;
    cJSON *all = cJSON_GetObjectItemCaseSensitive(model, "ratings"), *device;
    if (!all) all = cJSON_AddObjectToObject(model, "ratings");
    device = cJSON_GetObjectItemCaseSensitive(all, r->device);
    if (!device) device = cJSON_AddObjectToObject(all, r->device);
    verified_rate(cJSON_AddObjectToObject(device, r->precision), r);
  }
}

/* Models that were verified or profiled and that the registry does not know. */
static void add_unlisted(const char *name, cJSON *models) {
  const cJSON *m;
  cJSON_ArrayForEach(m, models) if (!strcmp(cli_json_word(m, "model"), name)) return;
  cJSON *model = cJSON_CreateObject();
  cJSON_AddStringToObject(model, "model", name);
  cJSON_AddItemToArray(models, model);
}

static void complete_models(const cli_run *run, const bench_verdict_rows *rows,
                            const bench_ratings *ratings, cJSON *root) {
  cJSON *models = cJSON_GetObjectItemCaseSensitive(root, "models"), *m;
  for (uint32_t i = 0; !run->n_args && i < rows->n; ++i)
    if (!i || strcmp(rows->row[i - 1].model, rows->row[i].model) != 0)
      add_unlisted(rows->row[i].model, models);
  for (uint32_t i = 0; !run->n_args && i < ratings->n; ++i)
    add_unlisted(ratings->item[i].model, models);
  cJSON_ArrayForEach(m, models) {
    add_verified(rows, m);
    add_ratings(ratings, m);
  }
}

static int read_models(cli_run *run, cJSON **root) {
  char *text = NULL;
  bench_verdict_rows rows;
  bench_ratings ratings = {0};
  int code = verified_rows_read(run, &rows);
  if (!code) code = verified_ratings_read(run, &ratings);
  if (!code) {
    const accel_status status =
        accel_matrix_json(run->ctx, run->n_args ? run->args[0] : NULL, &text);
    if (status != ACCEL_OK) code = cli_fail(run, status);
  }
  if (!code) {
    *root = cJSON_Parse(text);
    complete_models(run, &rows, &ratings, *root);
  }
  accel_string_free(&text);
  bench_ratings_free(&ratings);
  bench_verdict_rows_free(&rows);
  return code;
}

/* ---- the table of models ---- */

typedef struct table {
  cli_table cells;
  const char *name; /* of the model; "" once it was told */
  bool brief;       /* for a terminal: reasons stand below */
} table;

static void add_row(table *t, const char *kind, const char *where, const char *const *text) {
  const char *cells[3 + N] = {t->name, kind, where};
  for (int p = 0; p < N; ++p) cells[3 + p] = text[p];
  cli_table_row(&t->cells, 3 + N, cells);
  t->name = "";
}

/* "yes", "-", "native", "emulated", "no" of {"fp32": true or {"answer": ...}, ...} */
static void add_answers(table *t, const char *kind, const cJSON *places) {
  const cJSON *place;
  cJSON_ArrayForEach(place, places) {
    const char *text[N];
    for (int p = 0; p < N; ++p) {
      const cJSON *answer = member(place, precisions[p]);
      text[p] = *cli_json_word(answer, "answer") ? cli_json_word(answer, "answer")
                : cJSON_IsTrue(answer)           ? "yes"
                                                 : "-";
    }
    add_row(t, kind, place->string, text);
  }
}

/* Where, and when: "cpu (libaccel 0.1.0, 2026-11-25)". */
static void tell_place(const cJSON *place, char *into, size_t size) {
  const cJSON *cell, *newest = NULL;
  cJSON_ArrayForEach(cell, place) {
    if (*cli_json_word(cell, "time") &&
        (!newest || strcmp(cli_json_word(cell, "time"), cli_json_word(newest, "time")) > 0))
      newest = cell;
  }
  const char *build = *cli_json_word(newest, "where") ? cli_json_word(newest, "build") : "";
  snprintf(into, size, "%s (%s%s%.10s%s%s)", place->string, cli_json_word(newest, "driver"),
           *cli_json_word(newest, "driver") ? ", " : "", cli_json_word(newest, "time"),
           *build ? ", build " : "", build);
}

static void add_cells(table *t, const char *kind, const cJSON *places) {
  const cJSON *place;
  cJSON_ArrayForEach(place, places) {
    char text[N][CELL], where[512];
    const char *list[N];
    for (int p = 0; p < N; ++p)
      list[p] = verified_text(member(place, precisions[p]), t->brief, text[p], CELL);
    tell_place(place, where, sizeof where);
    add_row(t, kind, where, list);
  }
}

static void add_shares(table *t, const cJSON *devices) {
  const cJSON *device;
  cJSON_ArrayForEach(device, devices) {
    char text[N][64];
    const char *list[N];
    for (int p = 0; p < N; ++p) {
      const cJSON *rated = member(device, precisions[p]), *share = member(rated, "share");
      snprintf(text[p], sizeof text[p], "%s", rated ? cli_json_word(rated, "rating") : "-");
      if (share)
        snprintf(text[p], sizeof text[p], "%s (%.0f %%)", cli_json_word(rated, "rating"),
                 100 * share->valuedouble);
      list[p] = text[p];
    }
    add_row(t, "of the bound", device->string, list);
  }
}

static void fill_models(table *t, const cJSON *models) {
  const cJSON *m;
  const char *heading[N];
  memcpy((void *)heading, (const void *)precisions, sizeof heading);
  t->name = "model";
  add_row(t, "", "where", heading);
  cJSON_ArrayForEach(m, models) {
    t->name = cli_json_word(m, "model");
    add_answers(t, "listed", member(m, "listed"));
    add_answers(t, "capable here", member(m, "capable"));
    add_cells(t, "verified here", member(m, "verified"));
    add_cells(t, "verified elsewhere", member(m, "verified_elsewhere"));
    add_shares(t, member(m, "ratings"));
  }
}

/* Why cells are as they are: of those that fail always, with --verbose of all others, too. */
static void print_reasons(const char *model, const cJSON *places, bool verbose) {
  const cJSON *place, *p;
  cJSON_ArrayForEach(place, places) cJSON_ArrayForEach(p, place) {
    char text[CELL];
    const char *why = cli_json_word(p, "why"), *state = cli_json_word(p, "state");
    const bool fails = !strcmp(state, "fail");
    if (verbose && *why) printf("  %s, %s: %s\n", place->string, p->string, why);
    if (fails || (verbose && *cli_json_word(p, "reason")))
      printf("%s, %s, %s: %s\n", model, place->string, p->string,
             verified_text(p, false, text, sizeof text));
  }
}

static void print_why(const cJSON *models, bool verbose) {
  const cJSON *m;
  cJSON_ArrayForEach(m, models) {
    const char *why = cli_json_word(m, "why"), *name = cli_json_word(m, "model");
    if (*why) printf("%s: not asked of the devices: %s\n", name, why);
    if (verbose) print_reasons(name, member(m, "capable"), true);
    print_reasons(name, member(m, "verified"), verbose);
    print_reasons(name, member(m, "verified_elsewhere"), verbose);
  }
}

/* ---- the tables of classes and tasks ---- */

#define LEGEND \
  "pass(error): the largest difference to the goldens at fp32; cos: the least cosine at others"

/* What the table's cells leave out. */
static void print_details(const cJSON *root) {
  const cJSON *row, *cell;
  puts(LEGEND);
  /* a kind of hardware without a plugin is the same in every row */
  cJSON_ArrayForEach(cell, member(cJSON_GetArrayItem(member(root, "rows"), 0), "cells")) {
    if (!strcmp(cli_json_word(cell, "state"), "unsupported") && !*cli_json_word(cell, "device"))
      printf("%s: %s\n", cell->string, cli_json_word(cell, "reason"));
  }
  cJSON_ArrayForEach(row, member(root, "rows")) {
    cJSON_ArrayForEach(cell, member(row, "cells")) {
      char text[CELL];
      if (*cli_json_word(cell, "device") || *cli_json_word(cell, "rating"))
        printf("%s, %s: %s\n", cli_json_word(row, "name"), cell->string,
               verified_long_text(cell, text, sizeof text));
    }
  }
}

/* ---- the command ---- */

static int print_json(cli_run *run, const cJSON *root) {
  char *text = cJSON_PrintUnformatted(root);
  const int code =
      text ? cli_json_whole(run, text) : cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  free(text);
  return code;
}

static void print_table(const cli_run *run, const cJSON *root) {
  const bool view = member(root, "view") != NULL;
  table t = {.brief = !cli_flag(run, OPT_HTML) && !cli_flag(run, OPT_MARKDOWN)};
  if (view)
    verified_view_table(root, t.brief, &t.cells);
  else
    fill_models(&t, member(root, "models"));
  if (cli_flag(run, OPT_HTML)) {
    bench_machine here;
    char note[1024];
    bench_machine_read(&here);
    snprintf(note, sizeof note,
             "accel %s, build %s, on %s (%s). What is not said to be elsewhere "
             "was run on this machine. " LEGEND
             "; the precisions named are those at which every golden passes.",
             accel_version(), bench_build_id(), here.host, here.cpu);
    cli_html_begin(stdout, "accel matrix");
    fputs("<p>", stdout);
    tool_markup_text(stdout, note);
    fputs("</p>\n", stdout);
    cli_table_html(stdout, &t.cells, "");
    cli_html_end(stdout);
  } else if (cli_flag(run, OPT_MARKDOWN)) {
    cli_table_markdown(stdout, &t.cells, "lll");
  } else {
    cli_table_print(&t.cells, "lll");
    if (view)
      print_details(root);
    else
      print_why(member(root, "models"), cli_flag(run, OPT_VERBOSE));
  }
}

int cmd_matrix(cli_run *run) {
  const char *view = run->value[OPT_VIEW] ? run->value[OPT_VIEW] : "models";
  const bool models = !strcmp(view, "models");
  cJSON *root = NULL;
  if (run->n_args && !models) return cli_usage(run, "--view %s is without MODEL", view);
  if (cli_flag(run, OPT_JSON) + cli_flag(run, OPT_HTML) + cli_flag(run, OPT_MARKDOWN) > 1)
    return cli_usage(run, "one of --json, --markdown and --html");
  int code = cli_context(run);
  if (code) return code;
  if (models) {
    code = read_models(run, &root);
  } else {
    root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "accel.matrix/1");
    code = verified_view(run, view, root);
  }
  if (!code && cli_flag(run, OPT_JSON))
    code = print_json(run, root);
  else if (!code)
    print_table(run, root);
  cJSON_Delete(root);
  return code;
}
