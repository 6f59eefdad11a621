/* seq2seq.c - sides, cross attention, heads and entries of encoder-decoders. */
#include "modeling/seq2seq.h"

#include <stdio.h>
#include <string.h>

/* ---- sides ---- */

void accel__use_side(accel__build *b, uint32_t side) {
  if (b->side == side) return;
  b->seq2seq.idle[b->side] =
      (accel__side){b->T, b->space, b->lengths, b->input_ids, b->position_ids, b->total_len};
  const accel__side *s = &b->seq2seq.idle[side];
  b->T = s->T;
  b->space = s->space;
  b->lengths = s->lengths;
  b->input_ids = s->input_ids;
  b->position_ids = s->position_ids;
  b->total_len = s->total_len;
  b->side = side;
  b->output_path = side == 0 ? "encoder_" : "decoder_";
}

void accel__add_decoder_tokens(accel__build *b, int64_t vocab, accel__input_default otherwise) {
  b->seq2seq.idle[1] = (accel__side){
      .T = -1, .space = -1, .lengths = -1, .input_ids = -1, .position_ids = -1, .total_len = -1};
  accel__use_side(b, 1);
  b->seq2seq.ids_default = otherwise;
  b->model->is_encoder_decoder = true;
  accel__add_tokens(b, vocab);
}

void accel__add_eos_row(accel__build *b) {
  b->seq2seq.eos_row = accel__input(b->p, "eos_row", ACCEL_PLUGIN_I32, -1, 1, &b->B);
  b->input[b->model->n_inputs++] = (accel__model_input){
      .name = "eos_row", .tensor = b->seq2seq.eos_row, .kind = ACCEL__INPUT_EOS_ROW, .side = 1};
}

/* ---- cross attention ---- */

/* The state of a layer's cross attention, made when it is first asked for. */
static int32_t cross_state(accel__build *b, const accel__seq2seq *how, uint32_t layer) {
  char name[40];
  if (b->seq2seq.cross == NULL) {
    b->seq2seq.cross =
        accel__arena_array(b->arena, (size_t)how->layers + 1, sizeof *b->seq2seq.cross);
    if (b->seq2seq.cross == NULL)
      return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for states");
    for (int64_t i = 0; i <= how->layers; i++) b->seq2seq.cross[i] = -1;
  }
  if (b->seq2seq.cross[layer] >= 0) return b->seq2seq.cross[layer];
  snprintf(name, sizeof name, "layers.%u.cross", layer);
  return b->seq2seq.cross[layer] =
             accel__state(b->p, &(accel_plugin_state){.name = name,
                                                      .kind = ACCEL_PLUGIN_STATE_CROSS_KV,
                                                      .heads = (int32_t)how->heads,
                                                      .k_dim = (int32_t)how->head_dim,
                                                      .v_dim = (int32_t)how->head_dim,
                                                      .share = -1});
}

accel__tensor accel__cross_attend(accel__build *b, const accel__seq2seq *how, accel__tensor q,
                                  accel__tensor memory, uint32_t layer, double scale) {
  accel__attention spec = accel__attention_of(b, how->heads);
  accel__keys keys = {-1, -1};
  spec.scale = scale;
  if (memory >= 0) {
    keys = how->keys(b, how->config, memory, layer);
    spec.kv_space = b->seq2seq.idle[0].space;
    spec.mask = b->seq2seq.memory_mask;
  } else {
    spec.state = cross_state(b, how, layer);
    spec.state_static = true;
  }
  return accel__attend(b, q, keys.k, keys.v, &spec);
}

/* ---- entries ---- */

/* without: an input that is left out; NULL: none. */
static uint32_t inputs_of_side(const accel__build *b, uint32_t side, const char *without,
                               accel__model_input *out) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->model->n_inputs; i++)
    if (b->input[i].side == side && b->input[i].kind != ACCEL__INPUT_EOS_ROW &&
        (without == NULL || strcmp(b->input[i].name, without) != 0))
      out[n++] = b->input[i];
  return n;
}

/* The encoder once, its keys and values into the states. */
static void encode_entry(accel__build *b, const accel__seq2seq *how) {
  accel__model_input inputs[8];
  accel__model_output *outputs =
      accel__arena_array(b->arena, (size_t)how->layers + 1, sizeof *outputs);
  if (outputs == NULL) {
    accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for entry 'encode'");
    return;
  }
  accel__use_side(b, 0);
  accel__tensor memory = how->encoder(b, how->config);
  outputs[0] = (accel__model_output){.name = "encoder_last_hidden_state", .tensor = memory};
  for (uint32_t i = 0; i < (uint32_t)how->layers; i++) {
    accel__keys keys = how->keys(b, how->config, memory, i);
    accel__attention spec = accel__attention_of(b, how->heads);
    spec.state = cross_state(b, how, i);
    accel__tensor kept = accel__attend(b, -1, keys.k, keys.v, &spec);
    outputs[i + 1] = (accel__model_output){
        .name = accel__arena_printf(b->arena, "cross.%u", i), .tensor = kept, .asked = true};
  }
  accel__add_entry(b, "encode", inputs, inputs_of_side(b, 0, how->encode_without, inputs), outputs,
                   (uint32_t)how->layers + 1);
}

static void decode_entry(accel__build *b, const accel__seq2seq *how) {
  accel__model_input inputs[8];
  accel__use_side(b, 1);
  accel__tensor x = how->decoder(b, how->config, -1);
  /* [B,C] */
  accel__tensor last = accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_LAST, x, -1, b->space);
  accel__model_output outputs[2] = {
      {.name = "logits", .tensor = how->logits(b, how->config, last)},
      {.name = "all_logits", .tensor = how->logits(b, how->config, x), .asked = true}};
  accel__add_entry(b, "decode", inputs, inputs_of_side(b, 1, NULL, inputs), outputs, 2);
}

/* ---- heads ---- */

accel_status accel__encoder_build(accel__build *b, const accel__seq2seq *how,
                                  const char *token_head) {
  accel__tensor x = how->encoder(b, how->config);
  b->in_head = true;
  if (accel__is_class(b, "ForTokenClassification"))
    accel__head_tokens(b, x, token_head);
  else
    accel__add_output(b, "last_hidden_state", x, 0);
  b->in_head = false;
  return accel__build_end(b, x);
}

static void sequence_head(accel__build *b, const accel__seq2seq *how, accel__tensor x) {
  static const accel__activation tanh_act = {.act = ACCEL_PLUGIN_ACT_TANH};
  x = accel__gather(b->p, x, b->seq2seq.eos_row); /* [B,C] */
  x = accel__dense_layer(b, x, how->hidden, true, -1, &tanh_act, "classification_head.dense");
  x = accel__dense_layer(b, x, b->model->num_labels, true, -1, NULL,
                         "classification_head.out_proj");
  accel__add_output(b, "logits", x, 0);
}

accel_status accel__seq2seq_build(accel__build *b, const accel__seq2seq *how) {
  accel__use_side(b, 0);
  b->output_path = "encoder_";
  accel__tensor memory = how->encoder(b, how->config);
  b->n_hidden = 0;
  accel__use_side(b, 1);
  accel__tensor x = how->decoder(b, how->config, memory);
  b->in_head = true;
  bool words = false;
  if (b->is_base)
    accel__add_output(b, "last_hidden_state", x, 0);
  else if (accel__is_class(b, "ForSequenceClassification"))
    sequence_head(b, how, x);
  else if (accel__is_class(b, "ForQuestionAnswering"))
    accel__head_spans(b, x, "qa_outputs");
  else
    words = true;
  b->in_head = false;
  if (words) accel__add_output(b, "logits", how->logits(b, how->config, x), 0);
  if (how->output_encoded != NULL)
    how->output_encoded(b, how->config);
  else
    accel__add_output(b, "encoder_last_hidden_state", memory, 0);
  b->decoding = true;
  if (words) {
    encode_entry(b, how);
    decode_entry(b, how);
  }
  b->decoding = false;
  return accel__build_end(b, x);
}
