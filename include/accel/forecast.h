/**
 * @file forecast.h
 * Forecasts of time series: Chronos, Chronos-Bolt, TimesFM and PatchTST.
 *
 * Include accel/accel.h, which includes this file.  What comes out is what the models' own Python
 * gives: chronos-forecasting's predict_quantiles() for the Chronos models, transformers' forward for
 * TimesFmModelForPrediction and PatchTSTForPrediction.
 */
#ifndef ACCEL_FORECAST_H
#define ACCEL_FORECAST_H

#include "accel/inference.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One series: values at equal distances in time, the latest last. */
typedef struct accel_series {
  const float *values; /**< [n]; NaN: missing */
  uint64_t n;          /**< at least 1; of more than the model reads, the latest count */
} accel_series;

/** How far, and what of the distribution of each value. */
typedef struct accel_forecast_params {
  /** sizeof(accel_forecast_params). */
  uint32_t size;
  /** Values to forecast; 0: as many as the model gives in one run.  Chronos and Chronos-Bolt go on
   *  for more, on what they have forecast; the others refuse more. */
  uint32_t horizon;
  /** [n_quantiles] levels between 0 and 1.  NULL: 0.1, 0.2 .. 0.9, or those of the model.  TimesFM
   *  has those of its config alone, PatchTST none. */
  const double *quantiles;
  /** Levels; 0 with quantiles NULL. */
  uint32_t n_quantiles;
  /** Chronos: paths drawn for each series; 0: the model's own number. */
  uint32_t samples;
  /** Chronos: as torch.manual_seed(seed) before predict(); its low 32 bits count. */
  uint64_t seed;
  /** Chronos: NaN: the model's own; else above 0. */
  double temperature;
  /** Chronos: NaN: the model's own; else above 0, to 1. */
  double top_p;
  /** Chronos: -1: the model's own; 0: all tokens. */
  int64_t top_k;
  /** TimesFM: 0 of up to daily values, 1 of weekly and monthly ones, 2 of rarer ones. */
  uint32_t frequency;
} accel_forecast_params;

/** The forecast of one series. */
typedef struct accel_forecast {
  /** [horizon]: the mean of the samples (Chronos), the median (Chronos-Bolt), the model's own answer
   *  (TimesFM, PatchTST). */
  const float *mean;
  const float *quantiles; /**< [horizon, n_quantiles]; NULL: the model gives none */
  const float *samples;   /**< [n_samples, horizon] of Chronos; NULL: the model draws none */
} accel_forecast;

/** Forecasts in the order of the series. */
typedef struct accel_forecasts {
  uint32_t n;                /**< series */
  uint32_t horizon;          /**< values of each */
  uint32_t n_quantiles;      /**< levels */
  uint32_t n_samples;        /**< paths of each; 0: none are drawn */
  const double *levels;      /**< [n_quantiles] */
  const accel_forecast *item; /**< [n] */
} accel_forecasts;

/** The model's own horizon, quantiles, samples; seed 0. */
ACCEL_API accel_forecast_params accel_forecast_params_default(void);

/**
 * Forecasts series: pipeline time-series-forecasting.
 *
 * A series' forecast does not depend on the others but for PatchTST, whose num_input_channels
 * consecutive series are forecast together, and for Chronos, whose paths are drawn by one generator.
 *
 * @param series [n]
 * @param params NULL: the defaults.
 * @param out freed with accel_forecasts_free().
 * @return ACCEL_ERROR_UNSUPPORTED: the model forecasts nothing.  ACCEL_ERROR_ARGUMENT: a series
 *         without values, with infinite ones, or with missing ones where the model takes none
 *         (TimesFM); a horizon or levels that the model does not give; of PatchTST, series that are
 *         shorter than context_length, or not a multiple of its channels.  ACCEL_ERROR_NONFINITE.
 */
ACCEL_API accel_status accel_forecast_series(accel_endpoint *endpoint, const accel_series *series,
                                             uint32_t n, const accel_forecast_params *params,
                                             accel_forecasts **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_forecasts_free(accel_forecasts **forecasts);

#ifdef __cplusplus
}
#endif

#endif
