/* model_builder.c - what the model files share: begin and end, config fields, activations,
 * labels. */
#include "modeling/model_builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_INPUTS = 16 }; /* of all entries together */

accel_status accel__refuse(const accel__build *b, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: %s",
                     b->file->name != NULL ? b->file->name : "config.json", text);
}

accel_status accel__build_begin(accel__build *b, const accel__model_request *request,
                                const char *architecture, accel__model *model, const char *prefix) {
  *b = (accel__build){.request = request,
                      .file = request->config,
                      .config = request->config->root,
                      .model = model,
                      .p = model->program,
                      .arena = accel__program_arena(model->program),
                      .prefix = prefix,
                      .space = -1,
                      .lengths = -1,
                      .input_ids = -1,
                      .token_type_ids = -1,
                      .position_ids = -1,
                      .total_len = -1,
                      .images.given = -1,
                      .images.given_at = -1,
                      .seq2seq.position_table = -1,
                      .seq2seq.memory_mask = -1};
  size_t n = strlen(architecture);
  b->is_base = n > 5 && strcmp(architecture + n - 5, "Model") == 0 &&
               !accel__ends_with(architecture, "LMHeadModel") &&
               !accel__ends_with(architecture, "MTModel");
  b->input = accel__arena_array(b->arena, MAX_INPUTS, sizeof *b->input);
  if (b->input == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  model->inputs = b->input;
  return ACCEL_OK;
}

bool accel__is_class(const accel__build *b, const char *suffix) {
  return accel__ends_with(b->model->architecture, suffix);
}

/* ---- config ---- */

accel_status accel__read_fields(const accel__build *b, const accel__field *fields, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const accel__field *f = &fields[i];
    const char *text = NULL;
    switch (f->kind) {
      case ACCEL__FIELD_INT:
        ACCEL_TRY(accel__json_int(b->file, b->config, f->key, f->min, f->max, f->out));
        break;
      case ACCEL__FIELD_NUMBER:
        ACCEL_TRY(accel__json_number(b->file, b->config, f->key, f->out));
        break;
      case ACCEL__FIELD_BOOL:
        ACCEL_TRY(accel__json_bool(b->file, b->config, f->key, f->out));
        break;
      case ACCEL__FIELD_STRING:
        ACCEL_TRY(accel__json_string(b->file, b->config, f->key, f->out));
        break;
      case ACCEL__FIELD_ACT:
        ACCEL_TRY(accel__json_string(b->file, b->config, f->key, &text));
        if (text != NULL) ACCEL_TRY(accel__activation_of(b, f->key, text, f->out));
        break;
    }
  }
  return ACCEL_OK;
}

typedef struct act_row {
  const char *name; /* key of transformers' ACT2FN */
  accel__activation value;
} act_row;
static const act_row act_rows[] = {
    {"gelu", {.act = ACCEL_PLUGIN_ACT_GELU}},
    {"gelu_10",
     {.act = ACCEL_PLUGIN_ACT_GELU,
      .then = ACCEL_PLUGIN_UNARY_CLAMP,
      .then_alpha = -10.0,
      .then_beta = 10.0}},
    {"gelu_fast", {.act = ACCEL_PLUGIN_ACT_GELU_TANH}},
    {"gelu_new", {.act = ACCEL_PLUGIN_ACT_GELU_TANH}},
    {"gelu_python", {.act = ACCEL_PLUGIN_ACT_GELU}},
    {"gelu_pytorch_tanh", {.act = ACCEL_PLUGIN_ACT_GELU_TANH}},
    {"gelu_python_tanh", {.act = ACCEL_PLUGIN_ACT_GELU_TANH}},
    {"gelu_accurate", {.act = ACCEL_PLUGIN_ACT_GELU_TANH}},
    {"hardswish", {.act = ACCEL_PLUGIN_ACT_HARDSWISH}},
    {"leaky_relu", {.act = ACCEL_PLUGIN_ACT_LEAKY_RELU, .alpha = 0.01}},
    {"linear", {.act = ACCEL_PLUGIN_ACT_NONE}},
    {"mish", {.act = ACCEL_PLUGIN_ACT_MISH}},
    {"quick_gelu", {.act = ACCEL_PLUGIN_ACT_GELU_QUICK}},
    {"relu", {.act = ACCEL_PLUGIN_ACT_RELU}},
    {"relu2", {.act = ACCEL_PLUGIN_ACT_RELU2}},
    {"relu6", {.act = ACCEL_PLUGIN_ACT_RELU6}},
    {"sigmoid", {.act = ACCEL_PLUGIN_ACT_SIGMOID}},
    {"silu", {.act = ACCEL_PLUGIN_ACT_SILU}},
    {"sqrtsoftplus", {.act = ACCEL_PLUGIN_ACT_SOFTPLUS, .then = ACCEL_PLUGIN_UNARY_SQRT}},
    {"swish", {.act = ACCEL_PLUGIN_ACT_SILU}},
    {"tanh", {.act = ACCEL_PLUGIN_ACT_TANH}},
};

accel_status accel__activation_of(const accel__build *b, const char *key, const char *name,
                                  accel__activation *out) {
  enum { COUNT = sizeof act_rows / sizeof *act_rows };
  char known[512] = "";
  size_t used = 0;
  for (size_t i = 0; i < COUNT; i++) {
    if (strcmp(act_rows[i].name, name) == 0) {
      *out = act_rows[i].value;
      return ACCEL_OK;
    }
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                             act_rows[i].name);
  }
  return accel__refuse(b, "field '%s': activation '%s' is not supported; known: %s", key, name,
                       known);
}

accel_status accel__refuse_variants(const accel__build *b) {
  bool decoder = false, cross = false;
  const accel__field fields[] = {ACCEL_FIELD_BOOL("is_decoder", &decoder),
                                 ACCEL_FIELD_BOOL("add_cross_attention", &cross)};
  ACCEL_TRY(accel__read_fields(b, fields, 2));
  if (decoder)
    return accel__refuse(
        b, "field 'is_decoder': true is not supported; this class is built as an encoder");
  if (cross) return accel__refuse(b, "field 'add_cross_attention': true is not supported");
  const accel__json *pruned = accel__json_get(b->config, "pruned_heads");
  if (pruned != NULL && pruned->child != NULL)
    return accel__refuse(b,
                         "field 'pruned_heads' is not empty; pruned checkpoints are not supported");
  return ACCEL_OK;
}

accel_status accel__refuse_relative_positions(const accel__build *b) {
  const char *positions = NULL;
  ACCEL_TRY(accel__json_string(b->file, b->config, "position_embedding_type", &positions));
  if (positions == NULL || strcmp(positions, "absolute") == 0) return ACCEL_OK;
  return accel__refuse(b, "field 'position_embedding_type': '%s' is not supported; known: absolute",
                       positions);
}

accel_status accel__divides(const accel__build *b, const char *small_key, int64_t small,
                            const char *large_key, int64_t large) {
  if (small > 0 && large % small == 0) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s' (%lld) does not divide '%s' (%lld)",
                     b->file->name != NULL ? b->file->name : "config.json", small_key,
                     (long long)small, large_key, (long long)large);
}

/* One "7": "name" of id2label into labels[0..n). */
static accel_status read_label(const accel__build *b, const accel__json *item, const char **labels,
                               int64_t n) {
  long long index = -1;
  char rest;
  const char *file = b->file->name != NULL ? b->file->name : "config.json";
  if (item->string == NULL || sscanf(item->string, "%lld%c", &index, &rest) != 1 || index < 0 ||
      index >= n || labels[index] != NULL) {
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: field 'id2label': key '%s' is not one of 0..%lld, each once", file,
                       item->string != NULL ? item->string : "", (long long)n - 1);
  }
  if (!cJSON_IsString(item))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'id2label': label %lld is no string", file,
                       index);
  labels[index] = accel__arena_string(b->arena, item->valuestring);
  return labels[index] != NULL ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__read_labels(accel__build *b) {
  static const char *const unlabelled[] = {"ForMaskedLM", "ForCausalLM", "LMHeadModel",
                                           "ForConditionalGeneration", "MTModel"};
  bool labelled = !b->is_base; /* labels left by another head are not its business */
  for (size_t i = 0; i < sizeof unlabelled / sizeof *unlabelled; i++)
    labelled = labelled && !accel__is_class(b, unlabelled[i]);
  if (!labelled) return ACCEL_OK;
  int64_t n = b->default_labels > 0 ? b->default_labels : 2, counted = 0;
  const accel__json *map = NULL;
  const char *problem = NULL;
  ACCEL_TRY(accel__json_int(b->file, b->config, "num_labels", 1, ACCEL__MAX_LABELS, &n));
  ACCEL_TRY(accel__json_object(b->file, b->config, "id2label", &map));
  ACCEL_TRY(accel__json_string(b->file, b->config, "problem_type", &problem));
  ACCEL_JSON_EACH(item, map) counted++;
  if (counted > 0) n = counted; /* as transformers: the map decides */
  if (n > ACCEL__MAX_LABELS)
    return accel__refuse(b, "field 'id2label' has %lld labels, at most %d", (long long)n,
                         ACCEL__MAX_LABELS);
  const char **labels = accel__arena_array(b->arena, (size_t)n, sizeof *labels);
  if (labels == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(item, map) ACCEL_TRY(read_label(b, item, labels, n));
  for (int64_t i = 0; i < n; i++) {
    if (labels[i] == NULL) labels[i] = accel__arena_printf(b->arena, "LABEL_%lld", (long long)i);
    if (labels[i] == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  static const char *const problems[] = {"regression", "single_label_classification",
                                         "multi_label_classification"};
  for (size_t i = 0; problem != NULL && i < 3; i++) {
    if (strcmp(problems[i], problem) == 0) b->model->problem_type = problems[i];
  }
  if (problem != NULL && b->model->problem_type == NULL) {
    return accel__refuse(b,
                         "field 'problem_type': '%s' is unknown; known: regression, "
                         "single_label_classification, multi_label_classification",
                         problem);
  }
  b->model->labels = labels;
  b->model->num_labels = n;
  return ACCEL_OK;
}

/* ---- the embed entry ---- */

/* sum over the sequence / sqrt(its length) */
static accel__tensor mean_sqrt_length(accel__build *b, accel__tensor x) {
  accel__program *p = b->p;
  accel__attr to_float = ACCEL_I(DTYPE, ACCEL_PLUGIN_F32);
  accel__tensor n = accel__node(p, ACCEL_PLUGIN_OP_CAST, &b->lengths, 1, &to_float, 1, NULL, 1);
  accel__tensor root = accel__unary(p, ACCEL_PLUGIN_UNARY_SQRT, n);
  /* [B,1] */
  accel__tensor column = accel__reshape(p, root, 2, (accel__dim[]){b->B, accel__const_dim(p, 1)});
  return accel__binary(p, ACCEL_PLUGIN_BINARY_DIV,
                       accel__reduce_rows(p, ACCEL_PLUGIN_REDUCE_SUM, x, -1, b->space), column);
}

/* Weights 1, 2, 3 ... along each sequence, from the position ids. */
static accel__tensor weighted_mean(accel__build *b, accel__tensor x) {
  accel__program *p = b->p;
  if (b->position_ids < 0)
    return accel__program_fail(p, ACCEL_ERROR_UNSUPPORTED,
                               "weightedmean pooling needs position_ids, which this model has not");
  accel__attr to_float = ACCEL_I(DTYPE, ACCEL_PLUGIN_F32);
  accel__tensor position =
      accel__node(p, ACCEL_PLUGIN_OP_CAST, &b->position_ids, 1, &to_float, 1, NULL, 1);
  accel__attr shift[] = {ACCEL_I(KIND, ACCEL_PLUGIN_UNARY_AFFINE), ACCEL_F(ALPHA, 1.0),
                         ACCEL_F(BETA, 1.0 - (double)b->position_offset)};
  /* [T] */
  accel__tensor weight = accel__node(p, ACCEL_PLUGIN_OP_UNARY, &position, 1, shift, 3, NULL, 1);
  return accel__reduce_rows(p, ACCEL_PLUGIN_REDUCE_MEAN, x, weight, b->space);
}

static accel__tensor pool(accel__build *b, accel__tensor x, accel__pooling how) {
  switch (how) {
    case ACCEL__POOL_CLS:
      return accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_FIRST, x, -1, b->space);
    case ACCEL__POOL_MEAN:
      return accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_MEAN, x, -1, b->space);
    case ACCEL__POOL_MAX:
      return accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_MAX, x, -1, b->space);
    case ACCEL__POOL_LAST:
      return accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_LAST, x, -1, b->space);
    case ACCEL__POOL_MEAN_SQRT_LEN:
      return mean_sqrt_length(b, x);
    case ACCEL__POOL_WEIGHTED_MEAN:
      return weighted_mean(b, x);
    default:
      return accel__program_fail(b->p, ACCEL_ERROR_ARGUMENT, "embed head: pooling %d is unknown",
                                 (int)how);
  }
}

static accel__tensor embed_dense(accel__build *b, accel__tensor x, const accel__dense *d) {
  accel__program *p = b->p;
  if (accel__columns(b, x) != d->in) {
    return accel__program_fail(p, ACCEL_ERROR_FORMAT,
                               "layer '%s' takes %lld columns, but %lld come to it", d->weight,
                               (long long)d->in, (long long)accel__columns(b, x));
  }
  accel__tensor bias = -1;
  if (d->bias)
    bias = accel__weight(
        p, &(accel__weight_spec){
               .name = d->bias_name, .use = ACCEL_PLUGIN_USE_PLAIN, .rank = 1, .dim = {d->out}});
  if (d->norms) {
    accel__tensor gain = accel__weight(
        p, &(accel__weight_spec){
               .name = d->weight, .use = ACCEL_PLUGIN_USE_PLAIN, .rank = 1, .dim = {d->out}});
    return accel__layer_norm(p, x, gain, bias, -1, ACCEL__TORCH_NORM_EPS);
  }
  accel__tensor w = accel__weight(
      p, &(accel__weight_spec){
             .name = d->weight, .use = ACCEL_PLUGIN_USE_LINEAR, .rank = 2, .dim = {d->out, d->in}});
  return accel__linear(p, x, w, bias, -1, (accel_plugin_act)d->activation);
}

/* Pooling, dense layers, normalisation: [T,C] -> [B,dim]. */
static accel__tensor build_embed(accel__build *b, accel__tensor hidden) {
  const accel__embed_head *head = b->request->embed;
  accel__program *p = b->p;
  accel__tensor pooled[6];
  uint32_t n = head->n_pooling > 6 ? 6 : head->n_pooling;
  for (uint32_t i = 0; i < n; i++) pooled[i] = pool(b, hidden, head->pooling[i]);
  accel__attr axis = ACCEL_I(AXIS, 1);
  accel__tensor x =
      n == 1 ? pooled[0] : accel__node(p, ACCEL_PLUGIN_OP_CONCAT, pooled, n, &axis, 1, NULL, 1);
  for (uint32_t i = 0; i < head->n_dense; i++) x = embed_dense(b, x, &head->dense[i]);
  if (head->normalize) { /* torch.nn.functional.normalize: x / max(|x|, 1e-12) */
    accel__attr l2[] = {ACCEL_I(NORM_KIND, ACCEL_PLUGIN_NORM_L2), ACCEL_F(EPS, 1e-12)};
    x = accel__node(p, ACCEL_PLUGIN_OP_NORM, &x, 1, l2, 2, NULL, 1);
  }
  accel__name(p, x, "embeddings");
  return x;
}

void accel__add_entry(accel__build *b, const char *name, const accel__model_input *inputs,
                      uint32_t n_inputs, const accel__model_output *outputs, uint32_t n_outputs) {
  accel__model_input *in = accel__arena_array(b->arena, n_inputs, sizeof *in);
  accel__model_output *out = accel__arena_array(b->arena, n_outputs, sizeof *out);
  if (in == NULL || out == NULL) {
    accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for entry '%s'", name);
    return;
  }
  if (n_inputs > 0) memcpy(in, inputs, n_inputs * sizeof *in);
  if (n_outputs > 0) memcpy(out, outputs, n_outputs * sizeof *out);
  b->more[b->n_more++] = (accel__model_entry){
      .name = name, .inputs = in, .n_inputs = n_inputs, .outputs = out, .n_outputs = n_outputs};
}

static bool program_entry(accel__build *b, const accel__model_entry *e) {
  accel__tensor *tensors =
      accel__arena_array(b->arena, e->n_inputs + e->n_outputs, sizeof *tensors);
  if (tensors == NULL) return false;
  for (uint32_t i = 0; i < e->n_inputs; i++) tensors[i] = e->inputs[i].tensor;
  for (uint32_t i = 0; i < e->n_outputs; i++) tensors[e->n_inputs + i] = e->outputs[i].tensor;
  if (!accel__program_failed(b->p))
    accel__entry(b->p, e->name, tensors, e->n_inputs, tensors + e->n_inputs, e->n_outputs);
  return true;
}

accel_status accel__build_end(accel__build *b, accel__tensor hidden) {
  accel__model *m = b->model;
  const accel__embed_head *head = b->request->embed;
  accel__model_entry *entries = accel__arena_array(b->arena, b->n_more + 2, sizeof *entries);
  accel__model_output *embeddings = accel__arena_alloc(b->arena, sizeof *embeddings);
  if (entries == NULL || embeddings == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  m->outputs = b->output;
  entries[m->n_entries++] = (accel__model_entry){.name = "forward",
                                                 .inputs = m->inputs,
                                                 .n_inputs = m->n_inputs,
                                                 .outputs = m->outputs,
                                                 .n_outputs = m->n_outputs};
  if (head != NULL && head->n_pooling > 0) {
    accel__at(b->p, b->n_hidden, "embed");
    *embeddings = (accel__model_output){.name = "embeddings", .tensor = build_embed(b, hidden)};
    entries[m->n_entries++] = (accel__model_entry){.name = "embed",
                                                   .inputs = m->inputs,
                                                   .n_inputs = m->n_inputs,
                                                   .outputs = embeddings,
                                                   .n_outputs = 1};
  }
  for (uint32_t i = 0; i < b->n_more; i++) entries[m->n_entries++] = b->more[i];
  m->entries = entries;
  for (uint32_t i = 0; i < m->n_entries; i++)
    if (!program_entry(b, &entries[i])) return ACCEL_ERROR_OUT_OF_MEMORY;
  return accel__program_finish(b->p);
}
