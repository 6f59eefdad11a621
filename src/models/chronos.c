/* chronos.c - what a T5 of Chronos says of itself: how values become tokens, and how its answers are
 * drawn (chronos-forecasting's ChronosConfig). */
#include <string.h>

#include "modeling/series.h"
#include "modeling/vision.h"
#include "models/t5.h"

static accel_status read_classes(accel__build *b) {
  const char *tokenizer = "MeanScaleUniformBins", *type = "seq2seq";
  const accel__field fields[] = {ACCEL_FIELD_STRING("tokenizer_class", &tokenizer),
                                 ACCEL_FIELD_STRING("model_type", &type)};
  ACCEL_TRY(accel__read_fields(b, fields, 2));
  if (strcmp(tokenizer, "MeanScaleUniformBins") != 0)
    return accel__refuse(
        b, "field 'tokenizer_class': '%s' is not supported; known: MeanScaleUniformBins",
        tokenizer);
  if (strcmp(type, "seq2seq") != 0)
    return accel__refuse(b,
                         "field 'model_type' of 'chronos_config': '%s' is not supported; known: "
                         "seq2seq",
                         type);
  return ACCEL_OK;
}

static accel_status read_limits(accel__build *b, accel__forecasting *f) {
  const accel__json *limits = NULL;
  ACCEL_TRY(accel__json_object(b->file, b->config, "tokenizer_kwargs", &limits));
  if (limits == NULL) return accel__refuse(b, "field 'tokenizer_kwargs' is missing");
  f->tokens.low = f->tokens.high = 0;
  ACCEL_TRY(accel__json_number(b->file, limits, "low_limit", &f->tokens.low));
  ACCEL_TRY(accel__json_number(b->file, limits, "high_limit", &f->tokens.high));
  if (f->tokens.low < f->tokens.high) return ACCEL_OK;
  return accel__refuse(b, "field 'tokenizer_kwargs': 'low_limit' must be below 'high_limit'");
}

static accel_status check(accel__build *b, const accel__forecasting *f, const accel__t5 *c) {
  if (f->context == 0 || f->horizon == 0 || f->tokens.n == 0)
    return accel__refuse(
        b, "field 'chronos_config' needs context_length, prediction_length and n_tokens");
  if (f->tokens.n > c->vocab || f->tokens.n - f->tokens.special < 3)
    return accel__refuse(b,
                         "field 'n_tokens' (%lld) must be above 'n_special_tokens' (%lld) and at "
                         "most 'vocab_size' (%lld)",
                         (long long)f->tokens.n, (long long)f->tokens.special, (long long)c->vocab);
  if (f->tokens.pad >= f->tokens.special || f->tokens.eos >= f->tokens.special)
    return accel__refuse(b,
                         "fields 'pad_token_id' and 'eos_token_id' must be below "
                         "'n_special_tokens' (%lld)",
                         (long long)f->tokens.special);
  if (!(f->tokens.temperature > 0) || !(f->tokens.top_p > 0 && f->tokens.top_p <= 1))
    return accel__refuse(b, "field 'temperature' or 'top_p' is out of range");
  return ACCEL_OK;
}

accel_status accel__chronos_read(accel__build *b, const accel__t5 *c) {
  accel__forecasting *f;
  ACCEL_TRY(accel__forecast_begin(b, ACCEL__FORECAST_TOKENS, &f));
  ACCEL_TRY(accel__forecast_config(b, "chronos_config"));
  f->tokens.eos = 1;
  f->tokens.special = 2;
  f->tokens.use_eos = true;
  f->tokens.samples = 20;
  f->tokens.top_k = 50;
  f->tokens.temperature = f->tokens.top_p = 1.0;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("context_length", &f->context, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("prediction_length", &f->horizon, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("n_tokens", &f->tokens.n, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("n_special_tokens", &f->tokens.special, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("pad_token_id", &f->tokens.pad, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("eos_token_id", &f->tokens.eos, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("num_samples", &f->tokens.samples, 1, 1 << 16),
      ACCEL_FIELD_INT("top_k", &f->tokens.top_k, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_NUMBER("temperature", &f->tokens.temperature),
      ACCEL_FIELD_NUMBER("top_p", &f->tokens.top_p),
      ACCEL_FIELD_BOOL("use_eos_token", &f->tokens.use_eos),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(read_classes(b));
  ACCEL_TRY(read_limits(b, f));
  ACCEL_TRY(check(b, f, c));
  b->model->task = "time-series-forecasting";
  return accel__enter_config(b, NULL);
}
