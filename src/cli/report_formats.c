/* report_formats.c - a report as HTML, Markdown, plain tables, JSON and CSV. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/bench_machine.h"
#include "cli/report.h"
#include "tool/tool_markup.h"

enum { UNFOLDED = 30 }; /* rows of a table that is seen at once */

static bool is_shown(const char *view, const report_section *s) {
  return !view || !strcmp(view, s->name);
}

/* Why there is nothing to see, or NULL. */
static const char *nothing(const report *r) {
  if (r->n_newest || (r->n_verdicts && !r->run->value[OPT_MODEL] && !r->run->value[OPT_FAMILY]))
    return NULL;
  if (r->n_all) return "No run passes --model, --family and --hardware.";
  return "Nothing was measured yet.";
}

static const char *const how_to_fill[][2] = {
    {"accel bench MODEL --store", "times a model; --profile adds rooflines and ratings"},
    {"accel verify --all DIR", "compares models with goldens on every device: the matrix"},
    {"accel bench --import FILE", "adds what another machine exported"}};
enum { WAYS = sizeof how_to_fill / sizeof *how_to_fill };

uint32_t report_cut(cli_table *table) {
  const uint32_t most = REPORT_MOST_ROWS + 1, all = table->rows;
  if (all <= most) return 0;
  for (uint32_t i = most * table->columns; i < all * table->columns; ++i) free(table->cell[i]);
  table->rows = most;
  return all - most;
}

/* ---- HTML ---- */

static void paragraph(report *r, const char *class_name, const char *text) {
  fprintf(r->to, "<p%s%s%s>", class_name ? " class=\"" : "", class_name ? class_name : "",
          class_name ? "\"" : "");
  tool_markup_text(r->to, text);
  fputs("</p>\n", r->to);
}

/* Empties the table. */
static void html_section(report *r, const report_section *s, cli_table *table) {
  fprintf(r->to, "<section id=\"%s\">\n<h2>%s</h2>\n", s->name, s->title);
  paragraph(r, "soft", s->says);
  if (s->charts) s->charts(r);
  const uint32_t rows = table->rows - 1, left = report_cut(table);
  const bool folded = !s->unfolded || rows > UNFOLDED;
  if (folded)
    fprintf(r->to, "<details>\n<summary>%u row%s as a table</summary>\n", (unsigned)rows,
            rows == 1 ? "" : "s");
  cli_table_html(r->to, table, s->align);
  if (left)
    fprintf(r->to, "<p class=\"soft\">%u more rows: accel report --format csv.</p>\n",
            (unsigned)left);
  fputs(folded ? "</details>\n</section>\n" : "</section>\n", r->to);
}

static void tile(report *r, double number, const char *of, const char *class_name) {
  fprintf(r->to, "<div class=\"tile %s\"><b>%.0f</b>%s</div>\n", class_name, number, of);
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static uint32_t count_distinct(const report *r, bench_row_text column) {
  const char **list = malloc((r->n_newest + (size_t)1) * sizeof *list);
  uint32_t n = 0;
  for (uint32_t i = 0; list && i < r->n_newest; ++i) list[i] = r->newest[i]->text[column];
  if (list && r->n_newest) qsort((void *)list, r->n_newest, sizeof *list, by_text);
  for (uint32_t i = 0; list && i < r->n_newest; ++i) n += !i || strcmp(list[i - 1], list[i]) != 0;
  free((void *)list);
  return n;
}

static void html_tiles(report *r) {
  uint32_t slower = 0, faster = 0, elsewhere = 0;
  for (uint32_t i = 0; i < r->shifts.n; ++i) {
    slower += r->shifts.item[i].verdict == BENCH_SLOWER;
    faster += r->shifts.item[i].verdict == BENCH_FASTER;
  }
  for (uint32_t i = 0; i < r->rows.n; ++i) elsewhere += *r->rows.row[i].text[ROW_WHERE] != 0;
  fputs("<div class=\"tiles\">\n", r->to);
  tile(r, count_distinct(r, ROW_MODEL), "models timed", "");
  tile(r, count_distinct(r, ROW_DEVICE), "devices", "");
  tile(r, r->rows.n, "runs", "");
  if (elsewhere) tile(r, elsewhere, "of them elsewhere", "");
  tile(r, r->n_verdicts, "goldens verified", "");
  if (r->n_verdicts) tile(r, r->n_passed, "of them pass", "");
  tile(r, slower + r->regressions.n, "regressions", slower + r->regressions.n ? "fail" : "");
  if (faster) tile(r, faster, "figures faster", "faster");
  fputs("</div>\n", r->to);
}

static void html_head(report *r, const char *view) {
  bench_machine here;
  char text[1200], day[32];
  const time_t now = time(NULL);
  struct tm t;
  gmtime_r(&now, &t);
  strftime(day, sizeof day, "%Y-%m-%d %H:%M UTC", &t);
  bench_machine_read(&here);
  snprintf(text, sizeof text,
           "%s. accel %s, build %s, on %s: %s, %u processors, %.1f GiB. Every number was measured, "
           "none is an estimate. What was measured elsewhere says so; all else ran on this "
           "machine.",
           day, accel_version(), bench_build_id(), here.host, here.cpu, here.cores,
           (double)here.memory / (1 << 30));
  paragraph(r, NULL, text);
  if (!view) html_tiles(r);
}

static void html_nothing(report *r, const char *why) {
  paragraph(r, NULL, why);
  fputs("<ul>\n", r->to);
  for (int i = 0; i < WAYS; ++i)
    fprintf(r->to, "<li><code>%s</code>: %s</li>\n", how_to_fill[i][0], how_to_fill[i][1]);
  fputs("</ul>\n", r->to);
}

static void html_links(report *r, const cli_table *tables) {
  fputs("<nav>\n<ul>\n", r->to);
  for (size_t i = 0; i < report_section_count; ++i)
    if (tables[i].rows > 1)
      fprintf(r->to, "<li><a href=\"#%s\">%s</a></li>\n", report_sections[i].name,
              report_sections[i].title);
  fputs("</ul>\n</nav>\n", r->to);
}

enum { MOST_SECTIONS = 16 };

int report_html(report *r, const char *view) {
  const char *why = nothing(r);
  cli_table tables[MOST_SECTIONS] = {{0}};
  for (size_t i = 0; !why && i < report_section_count; ++i)
    if (is_shown(view, &report_sections[i])) report_sections[i].fill(r, &tables[i]);
  cli_html_begin(r->to, "accel report");
  html_head(r, view);
  if (why)
    html_nothing(r, why);
  else if (!view)
    html_links(r, tables);
  for (size_t i = 0; i < report_section_count; ++i) {
    if (tables[i].rows > 1) html_section(r, &report_sections[i], &tables[i]);
    cli_table_empty(&tables[i]);
  }
  fputs("<footer>\n<p>Database: ", r->to);
  tool_markup_text(r->to, *r->path ? r->path : "none");
  fputs("</p>\n</footer>\n", r->to);
  cli_html_end(r->to);
  return 0;
}

/* ---- Markdown and plain text ---- */

static void say_nothing(report *r, const char *why) {
  fprintf(r->to, "%s\n\n", why);
  for (int i = 0; i < WAYS; ++i)
    fprintf(r->to, "- `%s`: %s\n", how_to_fill[i][0], how_to_fill[i][1]);
}

/* The section's table, where it is shown and has a row below its heading. */
static bool fill_section(report *r, const char *view, const report_section *s, cli_table *table) {
  *table = (cli_table){0};
  if (is_shown(view, s)) s->fill(r, table);
  if (table->rows >= 2) return true;
  cli_table_empty(table);
  return false;
}

int report_markdown(report *r, const char *view) {
  const char *why = nothing(r);
  fputs("# accel report\n\n", r->to);
  if (why) say_nothing(r, why);
  for (size_t i = 0; !why && i < report_section_count; ++i) {
    const report_section *s = &report_sections[i];
    cli_table table;
    if (!fill_section(r, view, s, &table)) continue;
    fprintf(r->to, "## %s\n\n%s\n\n", s->title, s->says);
    cli_table_markdown(r->to, &table, s->align);
    fputc('\n', r->to);
  }
  return 0;
}

int report_plain(report *r, const char *view) {
  const char *why = nothing(r);
  if (why) say_nothing(r, why);
  for (size_t i = 0; !why && i < report_section_count; ++i) {
    const report_section *s = &report_sections[i];
    cli_table table;
    if (!fill_section(r, view, s, &table)) continue;
    if (!view) printf("%s%s\n", i ? "\n" : "", s->title);
    cli_table_print(&table, s->align);
  }
  return 0;
}

/* ---- JSON and CSV ---- */

static void json_run(cli_json *json, const bench_row *row) {
  cli_json_open(json, NULL, '{');
  for (int i = 0; i < BENCH_ROW_TEXTS; ++i)
    cli_json_text(json, bench_row_text_names[i], row->text[i]);
  if (row->family) cli_json_text(json, "family", row->family);
  for (int i = 0; i < BENCH_ROW_NUMBERS; ++i)
    cli_json_double(json, bench_row_number_names[i], row->number[i]);
  cli_json_close(json, '}');
}

static void json_shift(cli_json *json, const bench_shift *s) {
  cli_json_open(json, NULL, '{');
  cli_json_text(json, "verdict", bench_shift_word(s->verdict));
  cli_json_text(json, "model", s->after->text[ROW_MODEL]);
  cli_json_text(json, "device", s->after->text[ROW_DEVICE]);
  cli_json_text(json, "precision", s->after->text[ROW_PRECISION]);
  cli_json_double(json, "run_before", s->before->number[ROW_ID]);
  cli_json_double(json, "run_after", s->after->number[ROW_ID]);
  cli_json_text(json, "build_before", s->before->text[ROW_BUILD]);
  cli_json_text(json, "build_after", s->after->text[ROW_BUILD]);
  cli_json_text(json, "what", s->what);
  cli_json_int(json, "rounds_before", s->n_before);
  cli_json_int(json, "rounds_after", s->n_after);
  cli_json_double(json, "ms_before", s->ms_before);
  cli_json_double(json, "ms_after", s->ms_after);
  cli_json_double(json, "ratio", s->ratio);
  cli_json_double(json, "ratio_low", s->low);
  cli_json_double(json, "ratio_high", s->high);
  cli_json_double(json, "p", s->p);
  cli_json_double(json, "false_alarms", s->alarms);
  cli_json_close(json, '}');
}

void report_shifts_json(cli_json *json, const bench_shifts *shifts) {
  cli_json_open(json, "changes", '[');
  for (uint32_t i = 0; i < shifts->n; ++i) json_shift(json, &shifts->item[i]);
  cli_json_close(json, ']');
}

static void json_regressions(cli_json *json, const bench_regressions *list) {
  cli_json_open(json, "regressions", '[');
  for (uint32_t i = 0; i < list->n; ++i) {
    const bench_regression *g = &list->item[i];
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "model", g->model);
    cli_json_text(json, "golden", g->golden);
    cli_json_text(json, "device", g->device);
    cli_json_text(json, "precision", g->precision);
    cli_json_text(json, "reason", g->reason);
    cli_json_text(json, "build", g->build);
    cli_json_text(json, "passed", g->passed);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

int report_json(report *r) {
  cli_json json = {.to = r->to};
  cli_json_open(&json, NULL, '{');
  cli_json_text(&json, "schema", "accel.report/1");
  cli_json_text(&json, "database", *r->path ? r->path : NULL);
  cli_json_text(&json, "says", nothing(r));
  cli_json_open(&json, "runs", '[');
  for (uint32_t i = 0; i < r->rows.n; ++i) json_run(&json, &r->rows.row[i]);
  cli_json_close(&json, ']');
  report_shifts_json(&json, &r->shifts);
  json_regressions(&json, &r->regressions);
  char *matrix = r->matrix ? cJSON_PrintUnformatted(r->matrix) : NULL;
  if (matrix) cli_json_raw(&json, "matrix", matrix);
  free(matrix);
  cli_json_close(&json, '}');
  fputc('\n', r->to);
  return 0;
}

static void csv_text(FILE *to, const char *text) {
  const bool quoted = strpbrk(text, ",\"\r\n") != NULL;
  if (quoted) fputc('"', to);
  for (; *text; ++text) {
    if (*text == '"') fputc('"', to);
    fputc(*text, to);
  }
  if (quoted) fputc('"', to);
}

int report_csv(report *r) {
  for (int i = 0; i < BENCH_ROW_TEXTS; ++i) fprintf(r->to, "%s,", bench_row_text_names[i]);
  fputs("family", r->to);
  for (int i = 0; i < BENCH_ROW_NUMBERS; ++i) fprintf(r->to, ",%s", bench_row_number_names[i]);
  fputc('\n', r->to);
  for (uint32_t k = 0; k < r->rows.n; ++k) {
    const bench_row *row = &r->rows.row[k];
    for (int i = 0; i < BENCH_ROW_TEXTS; ++i) {
      csv_text(r->to, row->text[i]);
      fputc(',', r->to);
    }
    csv_text(r->to, row->family ? row->family : "");
    for (int i = 0; i < BENCH_ROW_NUMBERS; ++i) {
      if (isfinite(row->number[i]))
        fprintf(r->to, ",%.17g", row->number[i]);
      else
        fputc(',', r->to);
    }
    fputc('\n', r->to);
  }
  return 0;
}
