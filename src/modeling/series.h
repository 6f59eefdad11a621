/* series.h - what models of time series share: patches as inputs, residual blocks, quantiles of
 * the config. */
#ifndef ACCEL_MODELING_SERIES_H
#define ACCEL_MODELING_SERIES_H

#include "modeling/model_builder.h"

/* *f becomes b->model->forecasting; {0} but for its kind and one channel. */
accel_status accel__forecast_begin(accel__build *b, accel__forecaster kind, accel__forecasting **f);
/* From now on fields are read from the object `name` of the config, which must be there;
 * accel__enter_config(b, NULL) leaves it. */
accel_status accel__forecast_config(accel__build *b, const char *name);
/* "quantiles" of the config: levels between 0 and 1, in rising order. */
accel_status accel__forecast_quantiles(accel__build *b, accel__forecasting *f);
/* Input "patches" [B, N, 2 * patch]: values, then flags (b->series.patches). */
void accel__forecast_patches(accel__build *b, int64_t patch);
/* Input "patch_mask" int32 [B, n], 0 hides a row from attention; b->series.mask is it as [B * n]. */
void accel__forecast_mask(accel__build *b, accel__dim n);
/* output_layer(act(<inner>(x))) + residual_layer(x) below `name`. */
accel__tensor accel__residual_block(accel__build *b, accel__tensor x, int64_t hidden, int64_t out,
                                    const accel__activation *act, const char *name,
                                    const char *inner);

#endif
