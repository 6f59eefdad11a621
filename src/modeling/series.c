/* series.c - what models of time series share. */
#include "modeling/series.h"

#include "modeling/vision.h"

accel_status accel__forecast_begin(accel__build *b, accel__forecaster kind,
                                   accel__forecasting **f) {
  *f = accel__arena_alloc(b->arena, sizeof **f);
  if (*f == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  **f = (accel__forecasting){.kind = kind, .channels = 1};
  b->model->forecasting = *f;
  return ACCEL_OK;
}

accel_status accel__forecast_config(accel__build *b, const char *name) {
  const accel__json *object = NULL;
  ACCEL_TRY(accel__json_object(b->file, b->config, name, &object));
  if (object == NULL) return accel__refuse(b, "field '%s' is missing", name);
  return accel__enter_config(b, name);
}

accel_status accel__forecast_quantiles(accel__build *b, accel__forecasting *f) {
  const accel__json *list = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, "quantiles", &list));
  if (list == NULL) return ACCEL_OK; /* the class's default */
  const int n = cJSON_GetArraySize(list);
  double *levels = accel__arena_array(b->arena, (size_t)n + 1, sizeof *levels);
  if (levels == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  f->quantiles = levels;
  f->n_quantiles = 0;
  ACCEL_JSON_EACH(item, list) {
    const double level = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(level > 0 && level < 1) || (f->n_quantiles > 0 && level <= levels[f->n_quantiles - 1]))
      return accel__refuse(
          b, "field 'quantiles': entry %u is not a level between 0 and 1 above the one before",
          f->n_quantiles);
    levels[f->n_quantiles++] = level;
  }
  if (f->n_quantiles == 0) return accel__refuse(b, "field 'quantiles' is empty");
  return ACCEL_OK;
}

void accel__forecast_patches(accel__build *b, int64_t patch) {
  b->B = accel__symbol(b->p, "B", 1, 0, 1);
  accel__dim dims[3] = {b->B, accel__symbol(b->p, "N", 1, 0, 16),
                        accel__const_dim(b->p, 2 * patch)};
  b->series.patches =
      accel__add_item(b, "patches", ACCEL_PLUGIN_F32, 3, dims, ACCEL__DEFAULT_REQUIRED);
}

void accel__forecast_mask(accel__build *b, accel__dim n) {
  accel__dim dims[2] = {b->B, n}, rows = accel__dim_op(b->p, ACCEL_PLUGIN_DIM_MUL, b->B, n);
  b->series.mask = accel__add_item(b, "patch_mask", ACCEL_PLUGIN_I32, 2, dims, ACCEL__DEFAULT_ONES);
  b->series.mask = accel__reshape(b->p, b->series.mask, 1, &rows);
}

accel__tensor accel__residual_block(accel__build *b, accel__tensor x, int64_t hidden, int64_t out,
                                    const accel__activation *act, const char *name,
                                    const char *inner) {
  accel__tensor y = accel__dense_layer(b, x, hidden, true, -1, act, "%s.%s", name, inner);
  accel__tensor residual = accel__dense_layer(b, x, out, true, -1, NULL, "%s.residual_layer", name);
  return accel__dense_layer(b, y, out, true, residual, NULL, "%s.output_layer", name);
}
