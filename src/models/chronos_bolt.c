/* chronos_bolt.c - Chronos-Bolt (chronos-forecasting's ChronosBoltModelForForecasting): a T5 whose
 * encoder reads patches of a series, and whose decoder's one row becomes quantiles of all values of
 * the horizon.  Scaling and patches are the task's (tasks/forecast_bolt.c): the program takes
 * "patches" [B, N, 2 * input_patch_size], values and then 1 where they were observed, and
 * "patch_mask" [B, N, or N + 1 with the REG token], 1 where a patch has some. */
#include "modeling/series.h"
#include "modeling/vision.h"
#include "models/t5.h"

typedef struct bolt_config {
  accel__t5 t5;
  accel__forecasting *f;
} bolt_config;

static accel_status read_chronos(accel__build *b, bolt_config *c) {
  accel__forecasting *f = c->f;
  int64_t start = 0;
  bool is_encoder_decoder = true;
  ACCEL_TRY(accel__json_bool(b->file, b->config, "is_encoder_decoder", &is_encoder_decoder));
  if (!is_encoder_decoder)
    return accel__refuse(b, "field 'is_encoder_decoder': false is not supported");
  ACCEL_TRY(accel__forecast_config(b, "chronos_config"));
  const accel__field fields[] = {
      ACCEL_FIELD_INT("context_length", &f->context, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("prediction_length", &f->horizon, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("input_patch_size", &f->patch, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("input_patch_stride", &f->stride, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("use_reg_token", &f->reg_token),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  const int64_t needed[] = {f->context, f->horizon, f->patch, f->stride};
  for (int i = 0; i < 4; i++)
    if (needed[i] == 0)
      return accel__refuse(b, "field 'chronos_config' has no '%s'", fields[i].key);
  ACCEL_TRY(accel__forecast_quantiles(b, f));
  ACCEL_TRY(accel__enter_config(b, NULL));
  c->t5.vocab = f->reg_token ? 2 : 1; /* whatever the config says */
  start = b->model->decoder_start_id;
  if (start < 0 || start >= c->t5.vocab)
    return accel__refuse(b, "field 'decoder_start_token_id' (%lld) is not one of %lld rows",
                         (long long)start, (long long)c->t5.vocab);
  return ACCEL_OK;
}

/* A row of "shared", once for each item: [B, hidden]. */
static accel__tensor special_row(accel__build *b, const bolt_config *c, int64_t row) {
  accel__tensor table = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 2,
                                         (int64_t[]){c->t5.vocab, c->t5.hidden}, "shared.weight");
  return accel__broadcast(b, accel__slice(b->p, table, 0, row, row + 1), 2,
                          (accel__dim[]){b->B, accel__const_dim(b->p, c->t5.hidden)});
}

static accel__tensor encoder(accel__build *b, const bolt_config *c) {
  accel__program *p = b->p;
  const accel__forecasting *f = c->f;
  accel__forecast_patches(b, f->patch);
  accel__dim n = accel__tensor_dim(p, b->series.patches, 1),
             hidden = accel__const_dim(p, c->t5.hidden);
  if (f->reg_token) n = accel__dim_op(p, ACCEL_PLUGIN_DIM_ADD, n, accel__const_dim(p, 1));
  accel__forecast_mask(b, n);
  accel__at(p, 0, "input_patch_embedding");
  accel__tensor x = accel__residual_block(b, b->series.patches, c->t5.inner, c->t5.hidden,
                                          &c->t5.act, "input_patch_embedding", "hidden_layer");
  if (f->reg_token) {
    accel__tensor reg = accel__reshape(p, special_row(b, c, 1), 3,
                                       (accel__dim[]){b->B, accel__const_dim(p, 1), hidden});
    x = accel__concat(b, 1, 2, (accel__tensor[]){x, reg});
  }
  x = accel__items_to_rows(b, x, "patches");
  b->seq2seq.memory_mask = b->series.mask;
  return accel__t5_encoder(b, &c->t5, x);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  bolt_config c = {.t5 = accel__t5_defaults};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  ACCEL_TRY(accel__t5_read(&b, &c.t5));
  ACCEL_TRY(accel__forecast_begin(&b, ACCEL__FORECAST_BOLT, &c.f));
  ACCEL_TRY(read_chronos(&b, &c));
  accel__tensor memory = encoder(&b, &c);
  b.seq2seq.idle[0].space = b.space;
  b.space = accel__space_fixed(b.p, "start", accel__const_dim(b.p, 1), b.B);
  accel__tensor x =
      accel__t5_decoder(&b, &c.t5, special_row(&b, &c, model->decoder_start_id), memory);
  model->n_outputs = 0; /* the class returns no hidden states */
  x = accel__residual_block(&b, x, c.t5.inner, (int64_t)c.f->n_quantiles * c.f->horizon, &c.t5.act,
                            "output_patch_embedding", "hidden_layer");
  x = accel__reshape(b.p, x, 3,
                     (accel__dim[]){b.B, accel__const_dim(b.p, c.f->n_quantiles),
                                    accel__const_dim(b.p, c.f->horizon)});
  accel__add_output(&b, "quantile_preds", x, 0);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"ChronosBoltModelForForecasting", NULL};
const accel__architecture accel__model_chronos_bolt = {
    .model_type = "chronos_bolt", .classes = classes, .build = build};
