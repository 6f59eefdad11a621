/* cmd_forecast.c - accel forecast: goes on with time series. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli_print.h"
#include "cli/cli_series.h"

enum { CELL = 24 };

/* ---- results ---- */

typedef struct row {
  const char **cell; /* [columns] */
  char (*text)[CELL];
  uint32_t columns;
} row;

static bool make_row(row *r, uint32_t columns) {
  *r = (row){.cell = malloc(columns * sizeof *r->cell),
             .text = malloc(columns * sizeof *r->text),
             .columns = columns};
  for (uint32_t i = 0; r->cell && r->text && i < columns; i++) r->cell[i] = r->text[i];
  return r->cell && r->text;
}

static void fill(row *r, const accel_forecasts *found, uint32_t i, uint32_t t) {
  const accel_forecast *one = &found->item[i];
  snprintf(r->text[1], CELL, "%u", t + 1);
  snprintf(r->text[2], CELL, "%g", (double)one->mean[t]);
  for (uint32_t k = 0; k < found->n_quantiles; k++)
    snprintf(r->text[3 + k], CELL, "%g",
             (double)one->quantiles[(size_t)t * found->n_quantiles + k]);
}

static int print_table(cli_run *run, const accel_forecasts *found, const cli_series *given) {
  cli_table table = {0};
  row r;
  char *align = malloc(found->n_quantiles + 4u);
  const bool enough = make_row(&r, found->n_quantiles + 3) && align;
  if (enough) {
    memset(align, 'r', r.columns);
    align[0] = 'l';
    align[r.columns] = 0;
    r.cell[0] = "series";
    snprintf(r.text[1], CELL, "step");
    snprintf(r.text[2], CELL, "mean");
    for (uint32_t k = 0; k < found->n_quantiles; k++)
      snprintf(r.text[3 + k], CELL, "%g", found->levels[k]);
    cli_table_row(&table, r.columns, r.cell);
  }
  for (uint32_t i = 0; enough && i < found->n; i++)
    for (uint32_t t = 0; t < found->horizon; t++) {
      r.cell[0] = t ? "" : given->name[i];
      fill(&r, found, i, t);
      cli_table_row(&table, r.columns, r.cell);
    }
  if (enough) cli_table_print(&table, align);
  free(align);
  free(r.text);
  free((void *)r.cell);
  return enough ? 0 : cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

static void json_forecast(cli_json *json, const accel_forecasts *found, const char *name,
                          uint32_t i) {
  const accel_forecast *one = &found->item[i];
  cli_json_open(json, NULL, '{');
  cli_json_text(json, "series", name);
  cli_json_floats(json, "mean", one->mean, found->horizon);
  if (one->quantiles) {
    cli_json_open(json, "quantiles", '[');
    for (uint32_t t = 0; t < found->horizon; t++)
      cli_json_floats(json, NULL, one->quantiles + (size_t)t * found->n_quantiles,
                      found->n_quantiles);
    cli_json_close(json, ']');
  }
  if (one->samples) {
    cli_json_open(json, "samples", '[');
    for (uint32_t s = 0; s < found->n_samples; s++)
      cli_json_floats(json, NULL, one->samples + (size_t)s * found->horizon, found->horizon);
    cli_json_close(json, ']');
  }
  cli_json_close(json, '}');
}

static int print_json(cli_run *run, accel_endpoint *endpoint, const accel_forecasts *found,
                      const cli_series *given) {
  cli_json json;
  int code = cli_json_begin(run, "accel.forecast/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_open(&json, "levels", '[');
  for (uint32_t k = 0; k < found->n_quantiles; k++) cli_json_double(&json, NULL, found->levels[k]);
  cli_json_close(&json, ']');
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; i++) json_forecast(&json, found, given->name[i], i);
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

/* ---- the call ---- */

/* "0.1,0.5": levels to be freed. */
static int read_levels(cli_run *run, double **levels, uint32_t *n) {
  char **list, *end;
  *levels = NULL;
  *n = 0;
  if (!run->value[OPT_QUANTILES]) return 0;
  if (!cli_split(run->value[OPT_QUANTILES], &list, n))
    return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  *levels = malloc((*n + 1) * sizeof **levels);
  bool good = *levels && *n;
  for (uint32_t i = 0; good && i < *n; i++) {
    (*levels)[i] = strtod(list[i], &end);
    good = !*end;
  }
  free(list);
  return good ? 0
              : cli_usage(run, "--quantiles is a list of levels such as 0.1,0.5,0.9, not '%s'",
                          run->value[OPT_QUANTILES]);
}

static int forecast(cli_run *run, accel_endpoint *endpoint, const cli_series *given) {
  accel_forecast_params how = accel_forecast_params_default();
  accel_forecasts *found;
  double *levels;
  int code = read_levels(run, &levels, &how.n_quantiles);
  how.quantiles = levels;
  how.horizon = (uint32_t)cli_count(run, OPT_HORIZON, how.horizon);
  how.samples = (uint32_t)cli_count(run, OPT_SAMPLES, how.samples);
  how.seed = (uint64_t)cli_count(run, OPT_SEED, 0);
  how.temperature = cli_number(run, OPT_TEMPERATURE, how.temperature);
  how.top_p = cli_number(run, OPT_TOP_P, how.top_p);
  how.top_k = cli_count(run, OPT_TOP_K, how.top_k);
  how.frequency = (uint32_t)cli_count(run, OPT_FREQUENCY, how.frequency);
  if (!code) {
    accel_status status = accel_forecast_series(endpoint, given->series, given->n, &how, &found);
    if (status != ACCEL_OK) code = cli_fail(run, status);
  }
  free(levels);
  if (code) return code;
  code = cli_flag(run, OPT_JSON) ? print_json(run, endpoint, found, given)
                                 : print_table(run, found, given);
  accel_forecasts_free(&found);
  return code;
}

int cmd_forecast(cli_run *run) {
  cli_series given;
  accel_endpoint *endpoint = NULL;
  int code = cli_series_read(run, 1, &given);
  if (!code) code = cli_open(run, run->args[0], "time-series-forecasting", &endpoint);
  if (!code) code = forecast(run, endpoint, &given);
  accel_cleanup(&endpoint);
  cli_series_free(&given);
  return code;
}
