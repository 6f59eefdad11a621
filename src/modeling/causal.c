/* causal.c - token ids, heads and entries of decoders. */
#include "modeling/causal.h"

#include <math.h>
#include <stdio.h>

#include "modeling/vision.h"

/* ---- token ids ---- */

/* eos_token_id: one id or a list of them. */
static accel_status read_eos(accel__build *b, int64_t otherwise) {
  const accel__json *field = accel__json_get(b->config, "eos_token_id"), *list = NULL;
  bool many = field != NULL && cJSON_IsArray(field);
  int64_t one =
      cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(b->config, "eos_token_id")) ? -1 : otherwise;
  if (many)
    ACCEL_TRY(accel__json_array(b->file, b->config, "eos_token_id", &list));
  else
    ACCEL_TRY(accel__json_int(b->file, b->config, "eos_token_id", -1, ACCEL__MAX_VOCAB, &one));
  uint32_t n = many ? (uint32_t)cJSON_GetArraySize(list) : one >= 0 ? 1 : 0;
  int64_t *ids = accel__arena_array(b->arena, n + 1u, sizeof *ids);
  if (ids == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ids[0] = one;
  n = 0;
  ACCEL_JSON_EACH(item, list) {
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > ACCEL__MAX_VOCAB)
      return accel__refuse(b, "field 'eos_token_id': entry %u is no token id", n);
    ids[n++] = (int64_t)item->valuedouble;
  }
  b->model->eos_ids = ids;
  b->model->n_eos = many ? n : one >= 0 ? 1 : 0;
  return ACCEL_OK;
}

accel_status accel__read_token_ids(accel__build *b, int64_t bos, int64_t eos, int64_t pad) {
  accel__model *m = b->model;
  m->bos_id = bos;
  m->pad_id = pad;
  m->decoder_start_id = -1;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("bos_token_id", &m->bos_id, -1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("pad_token_id", &m->pad_id, -1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("decoder_start_token_id", &m->decoder_start_id, -1, ACCEL__MAX_VOCAB),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  int64_t *const id[] = {&m->bos_id, &m->pad_id, &m->decoder_start_id};
  /* null means none, absent the class's default */
  for (size_t i = 0; i < sizeof id / sizeof *id; i++)
    if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(b->config, fields[i].key))) *id[i] = -1;
  return read_eos(b, eos);
}

/* ---- states ---- */

int32_t accel__kv_state(accel__build *b, uint32_t layer, int64_t kv_heads, int64_t k_dim,
                        int64_t v_dim, int64_t window) {
  if (!b->decoding) return -1;
  if (b->kv_state == NULL)
    b->kv_state = accel__arena_array(b->arena, ACCEL__MAX_LAYERS, sizeof *b->kv_state);
  if (b->kv_state == NULL) {
    accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for states");
    return -1;
  }
  if (b->kv_state[layer] > 0) return b->kv_state[layer] - 1;
  char name[40];
  snprintf(name, sizeof name, "layers.%u.kv", layer);
  int32_t made = accel__state(b->p, &(accel_plugin_state){.name = name,
                                                          .kind = ACCEL_PLUGIN_STATE_KV,
                                                          .heads = (int32_t)kv_heads,
                                                          .k_dim = (int32_t)k_dim,
                                                          .v_dim = (int32_t)v_dim,
                                                          .window = (int32_t)window,
                                                          .share = -1});
  b->kv_state[layer] = made + 1;
  return made;
}

static int32_t layer_state(accel__build *b, uint32_t layer, const char *what,
                           accel_plugin_state state) {
  char name[48];
  if (!b->decoding) return -1;
  snprintf(name, sizeof name, "layers.%u.%s", layer, what);
  state.name = name;
  state.share = -1;
  return accel__state(b->p, &state);
}

int32_t accel__recurrent_state(accel__build *b, uint32_t layer, int64_t heads, int64_t k_dim,
                               int64_t v_dim) {
  return layer_state(b, layer, "ssm",
                     (accel_plugin_state){.kind = ACCEL_PLUGIN_STATE_SSM,
                                          .heads = (int32_t)heads,
                                          .k_dim = (int32_t)k_dim,
                                          .v_dim = (int32_t)v_dim});
}

accel__tensor accel__causal_conv(accel__build *b, accel__tensor x, int64_t kernel, bool bias,
                                 const accel__activation *act, uint32_t layer, const char *name) {
  char full[80];
  const int64_t columns = accel__columns(b, x), dims[3] = {columns, 1, kernel},
                pads[2] = {kernel - 1, 0};
  snprintf(full, sizeof full, "layers.%u.%s.weight", layer, name);
  accel__tensor w = accel__weight_at(b, ACCEL_PLUGIN_USE_CONV, 3, dims, full), c = -1;
  snprintf(full, sizeof full, "layers.%u.%s.bias", layer, name);
  if (bias) c = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &columns, full);
  accel__attr attr[] = {ACCEL_I(GROUPS, columns), ACCEL_IV(PADS, pads, 2),
                        ACCEL_I(SPACE, b->space)};
  accel__with_state(b->p, layer_state(b, layer, "conv",
                                      (accel_plugin_state){.kind = ACCEL_PLUGIN_STATE_CONV,
                                                           .heads = 1,
                                                           .k_dim = (int32_t)columns,
                                                           .v_dim = 1,
                                                           .window = (int32_t)(kernel - 1)}));
  x = accel__node(b->p, ACCEL_PLUGIN_OP_CONV, (accel__tensor[]){x, w, c}, 3, attr, 3, NULL, 1);
  return accel__activate(b, x, act);
}

static accel_status minus_exp(const void *user, const float *const *parts,
                              const int64_t *part_elements, uint32_t n_parts, float *out) {
  (void)user, (void)n_parts;
  for (int64_t i = 0; i < part_elements[0]; i++) out[i] = -expf(parts[0][i]);
  return ACCEL_OK;
}

accel__tensor accel__decay_rates(accel__build *b, uint32_t rank, const int64_t *dims,
                                 uint32_t layer, const char *name) {
  const char *stored = accel__resolve(b, "layers.%u.%s", layer, name);
  accel__weight_spec spec = {.name = accel__arena_printf(b->arena, "%s.rate", stored),
                             .use = ACCEL_PLUGIN_USE_PLAIN,
                             .rank = rank,
                             .parts = {stored},
                             .n_parts = 1,
                             .derive = minus_exp,
                             .elementwise = true};
  for (uint32_t i = 0; i < rank; i++) spec.dim[i] = dims[i];
  return accel__weight(b->p, &spec);
}

/* ---- heads ---- */

static accel__tensor vocabulary(accel__build *b, const accel__causal *how, accel__tensor x) {
  b->in_head = true;
  x = accel__head_vocabulary(b, x, how->vocab, how->tied, how->embeddings, how->head,
                             how->head_bias);
  b->in_head = false;
  return accel__scaled(b, accel__softcap(b, x, how->softcap), how->scale);
}

/* The same layers over the states of a session; logits of the last new rows, and of all of them
 * when asked. */
static void decode_entry(accel__build *b, const accel__causal *how, const char *name,
                         const accel__model_input *inputs, uint32_t n_inputs) {
  b->decoding = true;
  accel__tensor x = how->hidden(b, how->config);
  /* [B,C] */
  accel__tensor last = accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_LAST, x, -1, b->space);
  accel__model_output outputs[2] = {
      {.name = "logits", .tensor = vocabulary(b, how, last)},
      {.name = "all_logits", .tensor = vocabulary(b, how, x), .asked = true}};
  b->decoding = false;
  accel__add_entry(b, name, inputs, n_inputs, outputs, 2);
}

/* Whether "forward" takes this input for what stands in pictures. */
static bool is_of_pictures(const accel__model_input *in) {
  return in->kind == ACCEL__INPUT_ITEM || in->kind == ACCEL__INPUT_DERIVED;
}

/* "image_features", the rows that pictures put into the text, side by side; and "decode_image",
 * which takes them. */
static void image_entries(accel__build *b, const accel__causal *how) {
  accel__program *p = b->p;
  accel__build_images *images = &b->images;
  accel__model_input *in = accel__arena_array(b->arena, 2 * b->model->n_inputs + 2, sizeof *in),
                     *text = in + b->model->n_inputs;
  uint32_t n = 0, n_text = 0;
  if (in == NULL || images->n_rows == 0 || images->rows[0] < 0) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for inputs of pictures");
    return;
  }
  for (uint32_t i = 0; i < b->model->n_inputs; i++) {
    const accel__model_input *each = &b->model->inputs[i];
    *(is_of_pictures(each) ? &in[n++] : &text[n_text++]) = *each;
  }
  accel__at(p, 0, "embeddings");
  const accel__model_output features = {
      .name = "image_features",
      .tensor = images->n_rows == 1 ? images->rows[0]
                                    : accel__concat(b, 1, images->n_rows, images->rows)};
  accel__add_entry(b, "image_features", in, n, &features, 1);
  const int64_t width = images->n_rows * accel__columns(b, images->rows[0]);
  const accel__dim dims[2] = {accel__symbol(p, "picture_rows", 1, 0, 64),
                              accel__const_dim(p, width)};
  images->given = accel__input(p, "image_features", ACCEL_PLUGIN_F32, -1, 2, dims);
  images->given_at = accel__input(p, "image_positions", ACCEL_PLUGIN_I32, -1, 1, dims);
  text[n_text++] = (accel__model_input){
      .name = "image_features", .tensor = images->given, .kind = ACCEL__INPUT_ITEM};
  text[n_text++] = (accel__model_input){
      .name = "image_positions", .tensor = images->given_at, .kind = ACCEL__INPUT_ITEM};
  decode_entry(b, how, "decode_image", text, n_text);
  images->given = images->given_at = -1;
}

/* "decode"; and, of a model whose forward takes pictures behind its tokens, two entries more. */
static void decode_entries(accel__build *b, const accel__causal *how) {
  uint32_t tokens = 0;
  while (tokens < b->model->n_inputs && !is_of_pictures(&b->model->inputs[tokens])) tokens++;
  b->images.text_only = true;
  decode_entry(b, how, "decode", b->model->inputs, tokens);
  b->images.text_only = false;
  if (tokens < b->model->n_inputs) image_entries(b, how);
}

/* Logits of each sequence's last token that is no padding (GenericForSequenceClassification). */
static void classify(accel__build *b, const accel__causal *how, accel__tensor x,
                     accel__tensor last_row) {
  accel__tensor last = accel__gather(b->p, x, last_row); /* [B,C] */
  const char *name = how->score != NULL ? how->score : "score";
  accel__add_output(b, "logits",
                    accel__dense_layer(b, last, b->model->num_labels, false, -1, NULL, "%s", name),
                    0);
}

accel_status accel__causal_build(accel__build *b, const accel__causal *how) {
  accel__tensor last_row = -1;
  if (accel__is_class(b, "ForSequenceClassification")) {
    last_row = accel__input(b->p, "last_row", ACCEL_PLUGIN_I32, -1, 1, &b->B);
    b->input[b->model->n_inputs++] =
        (accel__model_input){.name = "last_row", .tensor = last_row, .kind = ACCEL__INPUT_LAST_ROW};
  }
  accel__tensor x = how->hidden(b, how->config);
  b->in_head = true;
  if (b->is_base) {
    accel__add_output(b, "last_hidden_state", x, 0);
  } else if (last_row >= 0) {
    classify(b, how, x, last_row);
  } else if (accel__is_class(b, "ForTokenClassification")) {
    accel__head_tokens(b, x, how->token_head != NULL ? how->token_head : "score");
  } else if (accel__is_class(b, "ForQuestionAnswering")) {
    accel__head_spans(b, x, "qa_outputs");
  } else {
    accel__add_output(b, "logits", vocabulary(b, how, x), 0);
    decode_entries(b, how);
  }
  b->in_head = false;
  return accel__build_end(b, x);
}
