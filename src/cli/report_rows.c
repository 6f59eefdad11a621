/* report_rows.c - which rows a report shows, and how they are named. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_goldens.h"
#include "cli/report.h"

/* ---- families ---- */

static const struct {
  const char *name, *title, *tasks;
} families[] = {
    {"embedding", "Embeddings", " feature-extraction "},
    {"text", "Classes, tokens and answers of texts",
     " text-classification token-classification question-answering fill-mask "},
    {"generation", "Language models", " text-generation "},
    {"text2text", "Text to text", " text2text-generation translation summarization "},
    {"vision", "Pictures",
     " image-classification image-feature-extraction object-detection image-segmentation "
     "depth-estimation "},
    {"multimodal", "Texts with pictures and videos",
     " zero-shot-image-classification image-to-text image-text-to-text video-classification "},
    {"speech", "Speech", " automatic-speech-recognition "},
    {"audio", "Sounds", " audio-classification zero-shot-audio-classification "},
    {"other", "Other models", ""}};
enum { FAMILIES = sizeof families / sizeof *families };

static int rank_of(const char *family) {
  int i = 0;
  while (i < FAMILIES - 1 && strcmp(families[i].name, family) != 0) ++i;
  return i;
}

const char *report_family_title(const char *family) { return families[rank_of(family)].title; }

static const char *family_of_task(const char *task) {
  char word[80];
  for (int i = 0; task && i < FAMILIES; ++i)
    if (snprintf(word, sizeof word, " %s ", task) < (int)sizeof word &&
        strstr(families[i].tasks, word))
      return families[i].name;
  return "other";
}

/* What the registry says of a model, else its config.json; `own` gets the registry's family. */
static const char *find_family(cli_run *run, const char *model, char own[64]) {
  const accel_registry_entry *entry;
  char *text = NULL, *type = NULL, *class_name = NULL;
  const char *family = "other";
  own[0] = 0;
  if (accel_registry_lookup(run->ctx, model, &entry) == ACCEL_OK)
    snprintf(own, 64, "%s", entry->family);
  if (accel_registry_json(run->ctx, model, &text) == ACCEL_OK) {
    cJSON *json = cJSON_Parse(text);
    family = family_of_task(cli_json_word(json, "task"));
    cJSON_Delete(json);
  } else if (cli_model_config(model, &type, &class_name) && *class_name) {
    family = family_of_task(accel_architecture_task(class_name));
  }
  accel_string_free(&text);
  free(type);
  free(class_name);
  return family;
}

/* ---- filters ---- */

typedef struct wanted {
  const char *model;     /* NULL: any */
  const char *family;    /* NULL: any */
  const char *family_of; /* the model whose registry family that is; "": of none */
  char **hardware;       /* [n_hardware]; 0: any */
  uint32_t n_hardware;
} wanted;

static bool is_model(const char *wish, const char *model) {
  const size_t n = strlen(wish), m = strlen(model);
  return m >= n && !strcmp(model + m - n, wish) && (m == n || model[m - n - 1] == '/');
}

static bool is_on(const bench_row *row, const wanted *w) {
  const char *device = row->text[ROW_DEVICE];
  bool found = !w->n_hardware;
  for (uint32_t i = 0; i < w->n_hardware; ++i) {
    const char *name = w->hardware[i];
    found |= !strcmp(name, row->text[ROW_HARDWARE]) || !strcmp(name, device) ||
             (strcspn(device, ":") == strlen(name) && !strncmp(name, device, strlen(name)));
  }
  return found;
}

static bool is_wanted(const bench_row *row, const void *what) {
  const wanted *w = what;
  if (w->model && !is_model(w->model, row->text[ROW_MODEL])) return false;
  if (w->family && !row->family) return false;
  return is_on(row, w);
}

/* Neighbours are of one model.  Without a context (csv, json) names are not looked up. */
static void name_families(report *r) {
  const char *wish = r->run->value[OPT_FAMILY], *family = "other";
  char own[64] = "";
  for (uint32_t i = 0; i < r->rows.n; ++i) {
    bench_row *row = &r->rows.row[i];
    if (!i || strcmp(row[-1].text[ROW_MODEL], row->text[ROW_MODEL]) != 0)
      family = find_family(r->run, row->text[ROW_MODEL], own);
    const bool taken = !wish || !strcmp(wish, family) || !strcmp(wish, own);
    row->family = taken ? family : NULL;
  }
}

static int by_family(const void *a, const void *b) {
  const bench_row *x = *(const bench_row *const *)a, *y = *(const bench_row *const *)b;
  const int order = rank_of(x->family) - rank_of(y->family);
  return order ? order : (x > y) - (x < y); /* rows are by case */
}

static bool find_newest(report *r) {
  r->newest = malloc((r->rows.n + (size_t)1) * sizeof *r->newest);
  if (!r->newest) return false;
  for (uint32_t i = 0; i < r->rows.n; ++i)
    if (i + 1 == r->rows.n || !bench_row_same_case(&r->rows.row[i], &r->rows.row[i + 1]))
      r->newest[r->n_newest++] = &r->rows.row[i];
  if (r->n_newest) qsort((void *)r->newest, r->n_newest, sizeof *r->newest, by_family);
  return true;
}

int report_select(report *r) {
  const char *hardware = r->run->value[OPT_HARDWARE];
  wanted w = {.model = r->run->value[OPT_MODEL], .family = r->run->value[OPT_FAMILY]};
  if (hardware && strcmp(hardware, "all") != 0 && !cli_split(hardware, &w.hardware, &w.n_hardware))
    return cli_error(r->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  r->n_all = r->rows.n;
  name_families(r);
  bench_rows_keep(&r->rows, is_wanted, &w);
  free(w.hardware);
  return find_newest(r) ? 0 : cli_error(r->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

static bool same_model(const report *r, uint32_t i, uint32_t k) {
  return !strcmp(r->newest[i]->text[ROW_MODEL], r->newest[k]->text[ROW_MODEL]);
}

void report_model_range(const report *r, uint32_t i, uint32_t *begin, uint32_t *end) {
  *begin = i;
  *end = i + 1;
  while (*begin > 0 && same_model(r, i, *begin - 1)) --*begin;
  while (*end < r->n_newest && same_model(r, i, *end)) ++*end;
}

const bench_row *report_first_of_case(const report *r, const bench_row *row) {
  while (row > r->rows.row && bench_row_same_case(row, row - 1)) --row;
  return row;
}

/* ---- names ---- */

const char *report_model(const bench_row *row, char into[96]) {
  const char *model = row->text[ROW_MODEL], *end = model + strlen(model);
  int slashes = 0;
  for (const char *at = end; at > model && slashes < 2; --at)
    if (at[-1] == '/' && ++slashes == 2) model = at;
  snprintf(into, 96, "%.90s", model);
  return into;
}

static void read_lengths(const bench_row *row, uint32_t *least, uint32_t *most) {
  const char *at = row->text[ROW_LENGTHS];
  *least = UINT32_MAX;
  *most = 0;
  while (*at) {
    char *end;
    const unsigned long value = strtoul(at, &end, 10);
    if (end == at) break;
    if (value < *least) *least = (uint32_t)value;
    if (value > *most) *most = (uint32_t)value;
    at = end + (*end == ',');
  }
  if (!*most) *least = 0;
}

uint32_t report_length(const bench_row *row) {
  uint32_t least, most;
  read_lengths(row, &least, &most);
  return least == most ? most : 0;
}

const char *report_case(const bench_row *row, char into[160]) {
  uint32_t least, most;
  char lengths[48], more[64] = "";
  const double threads = row->number[ROW_THREADS], new_tokens = row->number[ROW_NEW_TOKENS];
  read_lengths(row, &least, &most);
  snprintf(lengths, sizeof lengths, "%u", most);
  if (least != most) snprintf(lengths, sizeof lengths, "%u to %u", least, most);
  if (new_tokens > 0) snprintf(more, sizeof more, ", %.0f new tokens", new_tokens);
  snprintf(into, 160, "%s%s%s, batch %.0f of %s%s%s, %.0f thread%s", row->text[ROW_SCENARIO],
           *row->text[ROW_SCENARIO] ? ": " : "", row->text[ROW_TASK], row->number[ROW_BATCH],
           lengths, row->number[ROW_TOKENS] > 0 ? " tokens" : "", more, threads,
           threads == 1 ? "" : "s");
  return into;
}

const char *report_device(const bench_row *row, bool precision, char into[160]) {
  const char *where = row->text[ROW_WHERE];
  const bool software = !strcmp(row->text[ROW_TYPE], "software");
  snprintf(into, 160, "%.40s%s%s%s%s%.60s%s", row->text[ROW_DEVICE], precision ? ", " : "",
           precision ? row->text[ROW_PRECISION] : "", software ? ", software" : "",
           *where ? "; measured elsewhere (" : "", where, *where ? ")" : "");
  return into;
}

const char *report_number(double value, char into[32]) {
  const double size = fabs(value);
  const int places = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 0.1 ? 3 : 5;
  char digits[32];
  if (!isfinite(value)) {
    snprintf(into, 32, "-");
    return into;
  }
  snprintf(digits, sizeof digits, "%.*f", places, value);
  const size_t n = strcspn(digits, ".");
  size_t at = 0;
  for (size_t i = 0; digits[i] && at + 2 < 32; ++i) { /* 1,234,567 */
    if (i && i < n && n > 4 && (n - i) % 3 == 0) into[at++] = ',';
    into[at++] = digits[i];
  }
  into[at] = 0;
  return into;
}

/* ---- figures ---- */

bool report_less_is_better(const report *r) { return strcmp(r->metric, "throughput") != 0; }

double report_metric(const report *r, const bench_row *row, const char **unit) {
  const double *n = row->number;
  *unit = "ms";
  if (!strcmp(r->metric, "latency")) return n[ROW_MEDIAN_MS];
  if (!strcmp(r->metric, "load")) return n[ROW_LOAD_MS];
  *unit = "J";
  if (!strcmp(r->metric, "energy")) return n[ROW_ENERGY_J];
  *unit = "MiB";
  if (!strcmp(r->metric, "memory")) return n[ROW_PEAK_RSS] / (1 << 20);
  *unit = "new tokens/s";
  if (isfinite(n[ROW_DECODE_PER_S])) return n[ROW_DECODE_PER_S];
  *unit = n[ROW_TOKENS] > 0 ? "tokens/s" : "items/s";
  return n[ROW_TOKENS] > 0 ? n[ROW_PREFILL_PER_S] : n[ROW_ITEMS_PER_S];
}

int report_colour(const report *r, const bench_row *row) {
  const char *seen[TOOL_COLOURS];
  int n = 0;
  for (uint32_t i = 0; i < r->n_newest && n < TOOL_COLOURS; ++i) {
    const char *device = r->newest[i]->text[ROW_DEVICE];
    int at = 0;
    while (at < n && strcmp(seen[at], device) != 0) ++at;
    if (at == n) seen[n++] = device;
  }
  for (int i = 0; i < n; ++i)
    if (!strcmp(seen[i], row->text[ROW_DEVICE])) return i;
  return TOOL_COLOURS - 1;
}

bool report_is_start(const bench_row *row) { return strstr(row->text[ROW_SCENARIO], "-start"); }

bool report_is_steady(const bench_row *row) {
  const char *scenario = row->text[ROW_SCENARIO];
  return !report_is_start(row) && strcmp(scenario, "server") != 0 &&
         strcmp(scenario, "memory") != 0;
}

bool report_counts(const report *r, const bench_row *row) {
  const bool of_runs = !strcmp(r->metric, "throughput") || !strcmp(r->metric, "latency") ||
                       !strcmp(r->metric, "energy");
  return !of_runs || report_is_steady(row);
}

int report_scenario_rank(const report *r, const bench_row *row) {
  const char *scenario = row->text[ROW_SCENARIO];
  if (!strcmp(scenario, strcmp(r->metric, "load") != 0 ? r->metric : "warm-start")) return 0;
  return !*scenario ? 1 : !strcmp(scenario, "single-stream") ? 2 : 3;
}
