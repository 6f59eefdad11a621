/* layers.c - what the model files share: checkpoint names, packed inputs, layers, heads and
 * outputs. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "modeling/model_builder.h"

enum { NAME_MAX_BYTES = 320 };

/* ---- names ---- */

static bool present(const accel__build *b, const char *name) {
  return accel__checkpoint_find(b->request->checkpoint, name) != NULL ||
         accel__import_find(b->request->import, name, NULL, NULL, NULL) ||
         accel__weight_deltas_replaced(b->request->deltas, name);
}

/* `name` or its old TensorFlow spelling (LayerNorm.gamma, LayerNorm.beta); false when neither is
 * there. */
static bool find_spelling(const accel__build *b, char *name) {
  if (present(b, name)) return true;
  const char *old = accel__ends_with(name, "LayerNorm.weight") ? "gamma"
                    : accel__ends_with(name, "LayerNorm.bias") ? "beta"
                                                               : NULL;
  if (old == NULL) return false;
  char *last = strrchr(name, '.') + 1, kept[8];
  snprintf(kept, sizeof kept, "%s", last);
  snprintf(last, 8, "%s", old);
  if (present(b, name)) return true;
  snprintf(last, 8, "%s", kept);
  return false;
}

/* Every `from` of the table in `name` becomes `to`. */
static void respell(const accel__rename *table, const char *name, char *out) {
  char part[NAME_MAX_BYTES];
  snprintf(out, NAME_MAX_BYTES, "%s", name);
  for (const accel__rename *r = table; r->from != NULL; r++) {
    size_t used = 0;
    const char *rest = out;
    for (const char *hit; (hit = strstr(rest, r->from)) != NULL; rest = hit + strlen(r->from))
      used += (size_t)snprintf(part + used, sizeof part - used, "%.*s%s", (int)(hit - rest), rest,
                               r->to);
    if (rest == out) continue;
    snprintf(part + used, sizeof part - used, "%s", rest);
    memcpy(out, part, sizeof part);
  }
}

/* `name` in `out`, as the checkpoint spells it; false when it has it under no known spelling. */
static bool find_respelled(const accel__build *b, const char *prefix, const char *name, char *out) {
  char full[NAME_MAX_BYTES];
  snprintf(full, sizeof full, "%.100s%.*s", prefix, NAME_MAX_BYTES - 101, name);
  snprintf(out, NAME_MAX_BYTES, "%s", full);
  if (find_spelling(b, out)) return true;
  for (size_t i = 0; i < sizeof b->spelling / sizeof *b->spelling; i++) {
    if (b->spelling[i] == NULL) continue;
    respell(b->spelling[i], full, out);
    if (find_spelling(b, out)) return true;
  }
  return false;
}

/* Writes the checkpoint's name of a canonical one to out; false: not there, out holds the canonical
 * spelling. */
static bool resolve(const accel__build *b, const char *unscoped, char *out) {
  char name[NAME_MAX_BYTES];
  snprintf(name, sizeof name, "%.60s%.*s", b->scope != NULL ? b->scope : "", NAME_MAX_BYTES - 61,
           unscoped);
  bool prefixed = !b->is_base && !b->in_head;
  if (b->request->checkpoint != NULL) {
    const char *form[3] = {prefixed ? b->prefix : "", prefixed ? "" : b->prefix,
                           b->other_prefix}; /* the class's own form first */
    for (int i = 0; i < 3 && form[i] != NULL; i++) {
      if (find_respelled(b, form[i], name, out)) return true;
    }
  }
  snprintf(out, NAME_MAX_BYTES, "%.100s%.*s", prefixed ? b->prefix : "", NAME_MAX_BYTES - 101,
           name);
  return b->request->checkpoint == NULL;
}

const char *accel__resolve(accel__build *b, const char *format, ...) {
  char name[NAME_MAX_BYTES], found[NAME_MAX_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name - 64, format, args);
  va_end(args);
  resolve(b, name, found);
  const char *copy = accel__arena_string(b->arena, found);
  if (copy == NULL) accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
  return copy != NULL ? copy : "";
}

bool accel__has(accel__build *b, const char *format, ...) {
  char name[NAME_MAX_BYTES], found[NAME_MAX_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name - 64, format, args);
  va_end(args);
  return resolve(b, name, found);
}

accel__tensor accel__weight_at(accel__build *b, accel_plugin_weight_use use, uint32_t rank,
                               const int64_t *dims, const char *name) {
  accel__weight_spec spec = {.name = accel__resolve(b, "%s", name), .use = use, .rank = rank};
  for (uint32_t i = 0; i < rank && i < 4; i++) spec.dim[i] = dims[i];
  return accel__weight(b->p, &spec);
}

/* ---- packed inputs ---- */

static void add_input(accel__build *b, const char *name, accel__tensor t, accel__input_kind kind,
                      accel__input_default otherwise, int64_t max) {
  b->input[b->model->n_inputs++] = (accel__model_input){
      .name = name, .tensor = t, .kind = kind, .otherwise = otherwise, .max = max, .side = b->side};
}

accel__tensor accel__add_item(accel__build *b, const char *name, accel_plugin_dtype dtype,
                              uint32_t rank, const accel__dim *dims,
                              accel__input_default otherwise) {
  accel__tensor t = accel__input(b->p, name, dtype, -1, rank, dims);
  add_input(b, name, t, ACCEL__INPUT_ITEM, otherwise, 0);
  return t;
}

accel__tensor accel__add_derived(accel__build *b, const char *name, uint32_t rank,
                                 const accel__dim *dims, const accel__derived *how) {
  accel__tensor t = accel__input(b->p, name, ACCEL_PLUGIN_I32, -1, rank, dims);
  add_input(b, name, t, ACCEL__INPUT_DERIVED, ACCEL__DEFAULT_REQUIRED, 0);
  b->input[b->model->n_inputs - 1].derived = how;
  return t;
}

static accel__tensor token_input(accel__build *b, const char *name, int64_t max,
                                 accel__input_default otherwise) {
  accel__tensor t = accel__input(b->p, name, ACCEL_PLUGIN_I32, b->space, 1, &b->T);
  add_input(b, name, t, ACCEL__INPUT_TOKENS, otherwise, max);
  return t;
}

void accel__add_tokens(accel__build *b, int64_t vocab) {
  const bool second = b->side == 1;
  const char *lengths = second ? "decoder_lengths" : "lengths";
  b->T = accel__symbol(b->p, second ? "Td" : "T", 1, 0, second ? 1 : 128);
  if (!second) b->B = accel__symbol(b->p, "B", 1, 0, 1);
  b->lengths = accel__input(b->p, lengths, ACCEL_PLUGIN_I32, -1, 1, &b->B);
  add_input(b, lengths, b->lengths, ACCEL__INPUT_LENGTHS, ACCEL__DEFAULT_REQUIRED, 0);
  b->space =
      accel__space_ragged(b->p, second ? "decoder_tokens" : "tokens", b->lengths, b->T, b->B);
  b->input_ids = token_input(b, second ? "decoder_input_ids" : "input_ids", vocab,
                             second ? b->seq2seq.ids_default : ACCEL__DEFAULT_REQUIRED);
  if (second) b->model->encoder_vocab_size = b->model->vocab_size;
  b->model->vocab_size = vocab;
}

void accel__add_token_types(accel__build *b, int64_t types) {
  b->token_type_ids = token_input(b, "token_type_ids", types, ACCEL__DEFAULT_ZEROS);
}

void accel__add_word_types(accel__build *b, int64_t vocab) {
  b->token_type_ids = token_input(b, "token_type_ids", vocab, ACCEL__DEFAULT_NONE);
}

void accel__add_positions(accel__build *b, int64_t max, accel__input_default otherwise,
                          int64_t offset) {
  b->position_ids =
      token_input(b, b->side == 1 ? "decoder_position_ids" : "position_ids", max, otherwise);
  b->position_offset = offset;
}

void accel__add_mrope_positions(accel__build *b) {
  b->position_ids = accel__input(b->p, "position_ids", ACCEL_PLUGIN_I32, -1, 2,
                                 (accel__dim[]){accel__const_dim(b->p, 3), b->T});
  add_input(b, "position_ids", b->position_ids, ACCEL__INPUT_MROPE, ACCEL__DEFAULT_ARANGE,
            INT32_MAX);
}

accel__tensor accel__add_sequence(accel__build *b) {
  return token_input(b, "sequence", INT32_MAX, ACCEL__DEFAULT_SEQUENCE);
}

accel__tensor accel__add_neighbour(accel__build *b, int64_t vocab, bool next) {
  return token_input(b, next ? "next_ids" : "previous_ids", vocab + 1,
                     next ? ACCEL__DEFAULT_NEXT : ACCEL__DEFAULT_PREVIOUS);
}

void accel__add_total_len(accel__build *b) {
  b->total_len = token_input(b, "total_len", INT32_MAX, ACCEL__DEFAULT_TOTAL_LEN);
}

/* ---- layers ---- */

int64_t accel__columns(const accel__build *b, accel__tensor x) {
  int64_t n = 0;
  return accel__dim_value(b->p, accel__tensor_dim(b->p, x, -1), &n) ? n : 0;
}

accel__tensor accel__activate(accel__build *b, accel__tensor x, const accel__activation *act) {
  if (act->act != ACCEL_PLUGIN_ACT_NONE) {
    accel__attr attr[] = {ACCEL_I(KIND, act->act), ACCEL_F(ALPHA, act->alpha)};
    x = accel__node(b->p, ACCEL_PLUGIN_OP_UNARY, &x, 1, attr, act->alpha != 0 ? 2 : 1, NULL, 1);
  }
  if (act->then == 0) return x;
  accel__attr attr[] = {ACCEL_I(KIND, act->then), ACCEL_F(ALPHA, act->then_alpha),
                        ACCEL_F(BETA, act->then_beta)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_UNARY, &x, 1, attr,
                     act->then == ACCEL_PLUGIN_UNARY_CLAMP ? 3 : 1, NULL, 1);
}

/* What comes behind a linear whose activation is more than one op. */
static accel__tensor then(accel__build *b, accel__tensor y, const accel__activation *act,
                          accel__tensor residual) {
  y = accel__activate(
      b, y,
      &(accel__activation){
          .then = act->then, .then_alpha = act->then_alpha, .then_beta = act->then_beta});
  return residual < 0 ? y : accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, y, residual);
}

accel__tensor accel__dense_layer(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                 accel__tensor residual, const accel__activation *act,
                                 const char *format, ...) {
  static const accel__activation none = {0};
  char name[NAME_MAX_BYTES], full[NAME_MAX_BYTES + 16];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  if (act == NULL) act = &none;
  snprintf(full, sizeof full, "%s.weight", name);
  accel__tensor w = accel__weight_at(b, ACCEL_PLUGIN_USE_LINEAR, 2,
                                     (int64_t[]){out, accel__columns(b, x)}, full),
                c = -1;
  snprintf(full, sizeof full, "%s.bias", name);
  if (bias) c = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &out, full);
  accel__attr attr[] = {ACCEL_I(ACT, act->act), ACCEL_F(ACT_ALPHA, act->alpha)};
  uint32_t n = act->act == ACCEL_PLUGIN_ACT_NONE ? 0 : act->alpha == 0 ? 1 : 2;
  accel__tensor in[] = {x, w, c, act->then == 0 ? residual : -1};
  accel__tensor y = accel__node(b->p, ACCEL_PLUGIN_OP_LINEAR, in, 4, attr, n, NULL, 1);
  return act->then == 0 ? y : then(b, y, act, residual);
}

/* Rows `first` .. of `name`, which has `stored` rows, as a weight of its own. */
static accel__tensor weight_slice(accel__build *b, accel_plugin_weight_use use, uint32_t rank,
                                  const int64_t *dims, int64_t first, int64_t stored,
                                  const char *name) {
  const char *found = accel__resolve(b, "%s", name);
  accel__weight_spec spec = {
      .name = accel__arena_printf(b->arena, "%s.%lld", found, (long long)(first / dims[0])),
      .use = use,
      .rank = rank,
      .parts = {found},
      .n_parts = 1,
      .first_row = first,
      .stored_rows = stored};
  if (first % dims[0] != 0)
    spec.name = accel__arena_printf(b->arena, "%s.%lld-%lld", found, (long long)first,
                                    (long long)(first + dims[0]));
  for (uint32_t i = 0; i < rank; i++) spec.dim[i] = dims[i];
  return accel__weight(b->p, &spec);
}

accel__tensor accel__weight_rows(accel__build *b, accel_plugin_weight_use use, uint32_t rank,
                                 const int64_t *dims, uint32_t part, uint32_t parts,
                                 const char *name) {
  return weight_slice(b, use, rank, dims, part * dims[0], parts * dims[0], name);
}

accel__tensor accel__dense_slice(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                 int64_t first, int64_t stored, const char *format, ...) {
  char name[NAME_MAX_BYTES], full[NAME_MAX_BYTES + 16];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  snprintf(full, sizeof full, "%s.weight", name);
  int64_t dims[2] = {out, accel__columns(b, x)};
  accel__tensor w = weight_slice(b, ACCEL_PLUGIN_USE_LINEAR, 2, dims, first, stored, full), c = -1;
  snprintf(full, sizeof full, "%s.bias", name);
  if (bias) c = weight_slice(b, ACCEL_PLUGIN_USE_PLAIN, 1, dims, first, stored, full);
  return accel__linear(b->p, x, w, c, -1, ACCEL_PLUGIN_ACT_NONE);
}

accel__tensor accel__weight_blocks(accel__build *b, accel_plugin_weight_use use, uint32_t rank,
                                   const int64_t *dims, int64_t each, int64_t first, int64_t step,
                                   const char *name) {
  const char *found = accel__resolve(b, "%s", name);
  accel__weight_spec spec = {.name = accel__arena_printf(b->arena, "%s.%lld+%lld", found,
                                                         (long long)first, (long long)each),
                             .use = use,
                             .rank = rank,
                             .parts = {found},
                             .n_parts = 1,
                             .first_row = first,
                             .stored_rows = dims[0] / each * step,
                             .block_rows = each,
                             .block_step = step};
  for (uint32_t i = 0; i < rank; i++) spec.dim[i] = dims[i];
  return accel__weight(b->p, &spec);
}

accel__tensor accel__dense_blocks(accel__build *b, accel__tensor x, int64_t blocks, int64_t each,
                                  int64_t first, int64_t step, bool bias, const char *name) {
  char full[NAME_MAX_BYTES];
  int64_t dims[2] = {blocks * each, accel__columns(b, x)};
  snprintf(full, sizeof full, "%s.weight", name);
  accel__tensor w = accel__weight_blocks(b, ACCEL_PLUGIN_USE_LINEAR, 2, dims, each, first, step,
                                         full),
                c = -1;
  snprintf(full, sizeof full, "%s.bias", name);
  if (bias) c = accel__weight_blocks(b, ACCEL_PLUGIN_USE_PLAIN, 1, dims, each, first, step, full);
  return accel__linear(b->p, x, w, c, -1, ACCEL_PLUGIN_ACT_NONE);
}

/* Columns `first` .. of a stored matrix [in, stored] as rows. */
typedef struct transposed {
  int64_t in, out, first, stored;
} transposed;

static accel_status transpose(const void *user, const float *const *parts,
                              const int64_t *part_elements, uint32_t n_parts, float *out) {
  const transposed *t = user;
  (void)n_parts;
  if (part_elements[0] != t->in * t->stored)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "the checkpoint holds %lld values where [%lld,%lld] are due",
                       (long long)part_elements[0], (long long)t->in, (long long)t->stored);
  for (int64_t o = 0; o < t->out; o++)
    for (int64_t i = 0; i < t->in; i++) out[o * t->in + i] = parts[0][i * t->stored + t->first + o];
  return ACCEL_OK;
}

/* Columns `first` .. of the stored [columns of x, stored] `found` as a weight [out, ..]. */
static accel__tensor transposed_weight(accel__build *b, accel__tensor x, int64_t out, int64_t first,
                                       int64_t stored, const char *found) {
  transposed *t = accel__arena_alloc(b->arena, sizeof *t);
  if (t == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for '%s'", found);
  *t = (transposed){.in = accel__columns(b, x), .out = out, .first = first, .stored = stored};
  return accel__weight(
      b->p, &(accel__weight_spec){
                .name = accel__arena_printf(b->arena, "%s.%lld", found, (long long)first),
                .use = ACCEL_PLUGIN_USE_LINEAR,
                .rank = 2,
                .dim = {out, t->in},
                .parts = {found},
                .n_parts = 1,
                .derive = transpose,
                .derive_user = t,
                .first_row = first,
                .transposed_rows = stored});
}

accel__tensor accel__product_transposed(accel__build *b, accel__tensor x, int64_t out,
                                        const char *name) {
  accel__tensor w = transposed_weight(b, x, out, 0, out, accel__resolve(b, "%s", name));
  return accel__linear(b->p, x, w, -1, -1, ACCEL_PLUGIN_ACT_NONE);
}

accel__tensor accel__dense_transposed(accel__build *b, accel__tensor x, int64_t out, int64_t first,
                                      int64_t stored, accel__tensor residual,
                                      const accel__activation *act, const char *name) {
  static const accel__activation none = {0};
  accel__tensor w =
      transposed_weight(b, x, out, first, stored, accel__resolve(b, "%s.weight", name));
  char full[NAME_MAX_BYTES];
  snprintf(full, sizeof full, "%s.bias", name);
  accel__tensor c = weight_slice(b, ACCEL_PLUGIN_USE_PLAIN, 1, &out, first, stored, full);
  if (act == NULL) act = &none;
  accel__attr attr[] = {ACCEL_I(ACT, act->act), ACCEL_F(ACT_ALPHA, act->alpha)};
  uint32_t n = act->act == ACCEL_PLUGIN_ACT_NONE ? 0 : act->alpha == 0 ? 1 : 2;
  accel__tensor in[] = {x, w, c, act->then == 0 ? residual : -1};
  accel__tensor y = accel__node(b->p, ACCEL_PLUGIN_OP_LINEAR, in, 4, attr, n, NULL, 1);
  return act->then == 0 ? y : then(b, y, act, residual);
}

accel__tensor accel__position_table(accel__build *b, int64_t rows, int64_t width, int64_t first,
                                    const char *name) {
  char full[NAME_MAX_BYTES];
  snprintf(full, sizeof full, "%s.weight", name);
  return weight_slice(b, ACCEL_PLUGIN_USE_EMBEDDING, 2, (int64_t[]){rows, width}, first,
                      first + rows, full);
}

accel__tensor accel__dense_rows(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                uint32_t part, uint32_t parts, const char *format, ...) {
  char name[NAME_MAX_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  return accel__dense_slice(b, x, out, bias, part * out, parts * out, "%s", name);
}

/* accel__gated_fused, or with GATE_LAST accel__gated_fused_last. */
static accel__tensor gated_fused(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                 const accel__activation *act, int glu, const char *format,
                                 va_list args) {
  char name[NAME_MAX_BYTES], full[NAME_MAX_BYTES + 16];
  vsnprintf(name, sizeof name, format, args);
  int64_t dims[2] = {2 * out, accel__columns(b, x)};
  snprintf(full, sizeof full, "%s.weight", name);
  accel__tensor w = accel__weight_at(b, ACCEL_PLUGIN_USE_LINEAR, 2, dims, full), c = -1;
  snprintf(full, sizeof full, "%s.bias", name);
  if (bias) c = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, dims, full);
  if (act->then == 0) {
    accel__attr attr[] = {ACCEL_I(ACT, act->act), ACCEL_I(GLU, glu),
                          ACCEL_F(ACT_ALPHA, act->alpha)};
    return accel__node(b->p, ACCEL_PLUGIN_OP_LINEAR, (accel__tensor[]){x, w, c}, 3, attr,
                       act->alpha != 0 ? 3 : 2, NULL, 1);
  }
  accel__tensor both = accel__linear(b->p, x, w, c, -1, ACCEL_PLUGIN_ACT_NONE), /* [T,2*out] */
      half[2] = {accel__slice(b->p, both, 1, 0, out), accel__slice(b->p, both, 1, out, 2 * out)};
  const int gate = glu == ACCEL_PLUGIN_GLU_GATE_LAST;
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, accel__activate(b, half[gate], act),
                       half[1 - gate]);
}

accel__tensor accel__gated_fused(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                 const accel__activation *act, const char *format, ...) {
  va_list args;
  va_start(args, format);
  x = gated_fused(b, x, out, bias, act, ACCEL_PLUGIN_GLU_GATE_FIRST, format, args);
  va_end(args);
  return x;
}

accel__tensor accel__gated_fused_last(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                      const accel__activation *act, const char *format, ...) {
  va_list args;
  va_start(args, format);
  x = gated_fused(b, x, out, bias, act, ACCEL_PLUGIN_GLU_GATE_LAST, format, args);
  va_end(args);
  return x;
}

accel__tensor accel__gated_layer(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                 const accel__activation *act, const char *path, const char *gate,
                                 const char *up) {
  if (act->then != 0) { /* not expressible as one linear */
    accel__tensor g = accel__dense_layer(b, x, out, bias, -1, act, "%s.%s", path, gate);
    return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, g,
                         accel__dense_layer(b, x, out, bias, -1, NULL, "%s.%s", path, up));
  }
  char name[NAME_MAX_BYTES];
  int64_t dims[2] = {out, accel__columns(b, x)};
  accel__tensor in[6] = {x, -1, -1, -1, -1, -1};
  for (int i = 0; i < 2; i++) { /* up: w, bias; gate: w_gate, bias_gate */
    snprintf(name, sizeof name, "%s.%s.weight", path, i == 0 ? up : gate);
    in[i == 0 ? 1 : 4] = accel__weight_at(b, ACCEL_PLUGIN_USE_LINEAR, 2, dims, name);
    snprintf(name, sizeof name, "%s.%s.bias", path, i == 0 ? up : gate);
    if (bias) in[i == 0 ? 2 : 5] = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, dims, name);
  }
  accel__attr attr[] = {ACCEL_I(ACT, act->act), ACCEL_I(GLU, ACCEL_PLUGIN_GLU_SEPARATE),
                        ACCEL_F(ACT_ALPHA, act->alpha)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_LINEAR, in, 6, attr, act->alpha != 0 ? 3 : 2, NULL, 1);
}

accel__tensor accel__norm_layer(accel__build *b, accel__tensor x, accel__tensor residual,
                                double eps, bool bias, const char *format, ...) {
  char name[NAME_MAX_BYTES], full[NAME_MAX_BYTES + 16];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  int64_t n = accel__columns(b, x);
  snprintf(full, sizeof full, "%s.weight", name);
  accel__tensor gamma = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &n, full), beta = -1;
  snprintf(full, sizeof full, "%s.bias", name);
  if (bias) beta = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &n, full);
  return accel__layer_norm(b->p, x, gamma, beta, residual, eps);
}

accel__tensor accel__merge_images(accel__build *b, accel__tensor x) {
  return b->images.merge != NULL && !b->images.text_only
             ? b->images.merge(b, b->images.merge_user, x)
             : x;
}

accel__tensor accel__add_images(accel__build *b, accel__tensor x, uint32_t layers) {
  return b->images.add != NULL && !b->images.text_only
             ? b->images.add(b, b->images.merge_user, x, layers)
             : x;
}

accel__tensor accel__embedding(accel__build *b, accel__tensor idx, int64_t rows, int64_t width,
                               const char *name) {
  return accel__scaled_embedding(b, idx, rows, width, 0, name);
}

accel__tensor accel__scaled_embedding(accel__build *b, accel__tensor idx, int64_t rows,
                                      int64_t width, double scale, const char *name) {
  char full[NAME_MAX_BYTES];
  snprintf(full, sizeof full, "%s.weight", name);
  accel__tensor table =
      accel__weight_at(b, ACCEL_PLUGIN_USE_EMBEDDING, 2, (int64_t[]){rows, width}, full);
  accel__attr attr[] = {ACCEL_I(AXIS, 0), ACCEL_F(SCALE, scale)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_GATHER, (accel__tensor[]){table, idx}, 2, attr,
                     scale != 0 ? 2 : 1, NULL, 1);
}

static accel__tensor rms(accel__build *b, accel__tensor x, double eps, double offset,
                         const char *format, va_list args) {
  char name[NAME_MAX_BYTES], full[NAME_MAX_BYTES + 16];
  vsnprintf(name, sizeof name, format, args);
  snprintf(full, sizeof full, "%s.weight", name);
  int64_t n = accel__columns(b, x);
  accel__tensor gamma = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &n, full);
  accel__attr attr[] = {ACCEL_I(NORM_KIND, ACCEL_PLUGIN_NORM_RMS), ACCEL_F(EPS, eps),
                        ACCEL_F(GAMMA_OFFSET, offset)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_NORM, (accel__tensor[]){x, gamma}, 2, attr,
                     offset != 0 ? 3 : 2, NULL, 1);
}

accel__tensor accel__rms_layer(accel__build *b, accel__tensor x, double eps, double offset,
                               const char *format, ...) {
  va_list args;
  va_start(args, format);
  x = rms(b, x, eps, offset, format, args);
  va_end(args);
  return x;
}

accel__tensor accel__rms_heads(accel__build *b, accel__tensor x, int64_t heads, double eps,
                               double offset, const char *format, ...) {
  accel__dim rows = accel__tensor_dim(b->p, x, 0), all = accel__tensor_dim(b->p, x, 1);
  accel__dim d = accel__const_dim(b->p, accel__columns(b, x) / heads);
  /* [T,heads,D] */
  x = accel__reshape(b->p, x, 3, (accel__dim[]){rows, accel__const_dim(b->p, heads), d});
  va_list args;
  va_start(args, format);
  x = rms(b, x, eps, offset, format, args);
  va_end(args);
  return accel__reshape(b->p, x, 2, (accel__dim[]){rows, all});
}

accel__tensor accel__scaled(accel__build *b, accel__tensor x, double factor) {
  if (factor == 0 || factor == 1) return x;
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_UNARY_AFFINE), ACCEL_F(ALPHA, factor)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_UNARY, &x, 1, attr, 2, NULL, 1);
}

accel__tensor accel__clamped(accel__build *b, accel__tensor x, double limit) {
  const accel__activation clamp = {
      .then = ACCEL_PLUGIN_UNARY_CLAMP, .then_alpha = -limit, .then_beta = limit};
  return limit == 0 ? x : accel__activate(b, x, &clamp);
}

accel__tensor accel__softcap(accel__build *b, accel__tensor x, double cap) {
  if (cap == 0) return x;
  x = accel__unary(b->p, ACCEL_PLUGIN_ACT_TANH, accel__scaled(b, x, 1.0 / cap));
  return accel__scaled(b, x, cap);
}

accel__attention accel__attention_of(const accel__build *b, int64_t heads) {
  return (accel__attention){.heads = heads,
                            .kv_heads = heads,
                            .left = -1,
                            .right = -1,
                            .bias = -1,
                            .positions = -1,
                            .q_positions = -1,
                            .mask = -1,
                            .sinks = -1,
                            .q_space = b->space,
                            .kv_space = b->space,
                            .state = -1};
}

accel__tensor accel__attend(accel__build *b, accel__tensor q, accel__tensor k, accel__tensor v,
                            const accel__attention *how) {
  double scale = how->scale;
  if (scale == 0.0) {
    int64_t columns =
        q >= 0 ? accel__columns(b, q) / how->heads : accel__columns(b, k) / how->kv_heads;
    scale = 1.0 / sqrt((double)columns);
  }
  accel__attr attr[17] = {ACCEL_I(HEADS, how->heads), ACCEL_I(KV_HEADS, how->kv_heads),
                          ACCEL_F(SCALE, scale), ACCEL_I(Q_SPACE, how->q_space),
                          ACCEL_I(KV_SPACE, how->kv_space)};
  uint32_t n = 5;
  if (how->causal) attr[n++] = ACCEL_I(CAUSAL, 1);
  if (how->left >= 0) attr[n++] = ACCEL_I(WINDOW_LEFT, how->left);
  if (how->right >= 0) attr[n++] = ACCEL_I(WINDOW_RIGHT, how->right);
  if (how->softcap > 0) attr[n++] = ACCEL_F(SOFTCAP, how->softcap);
  if (how->bias_kind != ACCEL_PLUGIN_BIAS_NONE) attr[n++] = ACCEL_I(BIAS_KIND, how->bias_kind);
  if (how->period > 0) attr[n++] = ACCEL_I(BIAS_PERIOD, how->period);
  if (how->buckets > 0) attr[n++] = ACCEL_I(NUM_BUCKETS, how->buckets);
  if (how->max_distance > 0) attr[n++] = ACCEL_I(MAX_DISTANCE, how->max_distance);
  if (how->state >= 0 && how->state_static) attr[n++] = ACCEL_I(STATE_STATIC, 1);
  if (how->n_probs) attr[n++] = ACCEL_IV(PROBS, how->probs, how->n_probs);
  accel__tensor out[2] = {-1, -1};
  const accel__tensor at = how->q_positions >= 0 ? how->q_positions : how->positions;
  accel__with_state(b->p, how->state);
  accel__node(b->p, ACCEL_PLUGIN_OP_ATTENTION,
              (accel__tensor[]){q, k, v, how->bias, at, how->positions, how->mask, how->sinks}, 8,
              attr, n, out, how->n_probs ? 2 : 1);
  if (how->n_probs) *how->probabilities = out[1];
  return out[0];
}

accel__tensor accel__self_attention(accel__build *b, accel__tensor q, accel__tensor k,
                                    accel__tensor v, int64_t heads, double scale) {
  accel__attention how = accel__attention_of(b, heads);
  how.scale = scale;
  return accel__attend(b, q, k, v, &how);
}

accel__tensor accel__window_attention(accel__build *b, accel__tensor q, accel__tensor k,
                                      accel__tensor v, int64_t heads, int64_t window) {
  accel__attention how = accel__attention_of(b, heads);
  how.left = how.right = window;
  return accel__attend(b, q, k, v, &how);
}

accel__tensor accel__first_rows(accel__build *b, accel__tensor x) {
  return accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_FIRST, x, -1, b->space);
}

/* ---- outputs and heads ---- */

void accel__add_output(accel__build *b, const char *name, accel__tensor t, uint32_t flags) {
  if (accel__program_failed(b->p)) return;
  uint32_t n = b->model->n_outputs;
  if (n == b->cap_output) {
    uint32_t capacity = n == 0 ? 32 : n * 2;
    accel__model_output *bigger = accel__arena_array(b->arena, capacity, sizeof *bigger);
    if (bigger == NULL) {
      accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for outputs");
      return;
    }
    if (n > 0) memcpy(bigger, b->output, n * sizeof *bigger);
    b->output = bigger;
    b->cap_output = capacity;
  }
  b->output[n] = (accel__model_output){.name = accel__arena_string(b->arena, name),
                                       .tensor = t,
                                       .asked = (flags & ACCEL__OUTPUT_ON_REQUEST) != 0,
                                       .squeeze = (flags & ACCEL__OUTPUT_SQUEEZE) != 0};
  if (b->output[n].name == NULL)
    accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for outputs");
  b->model->n_outputs++;
}

void accel__add_hidden(accel__build *b, accel__tensor x) {
  char name[80];
  if (b->decoding) return;
  snprintf(name, sizeof name, "%.40shidden_states.%u", b->output_path != NULL ? b->output_path : "",
           b->n_hidden++);
  accel__add_output(b, name, x, ACCEL__OUTPUT_ON_REQUEST);
}

void accel__head_tokens(accel__build *b, accel__tensor x, const char *name) {
  accel__add_output(b, "logits",
                    accel__dense_layer(b, x, b->model->num_labels, true, -1, NULL, "%s", name), 0);
}

void accel__head_sequence(accel__build *b, accel__tensor pooled, const char *name) {
  accel__head_tokens(b, pooled, name);
}

void accel__head_spans(accel__build *b, accel__tensor x, const char *name) {
  if (b->model->num_labels != 2) {
    accel__program_fail(b->p, ACCEL_ERROR_UNSUPPORTED,
                        "question answering needs num_labels 2 (start, end); the config has %lld",
                        (long long)b->model->num_labels);
    return;
  }
  accel__tensor both = accel__dense_layer(b, x, 2, true, -1, NULL, "%s", name); /* [..,2] */
  const int32_t last = (int32_t)accel__rank(b->p, x) - 1;
  accel__add_output(b, "start_logits", accel__slice(b->p, both, last, 0, 1), ACCEL__OUTPUT_SQUEEZE);
  accel__add_output(b, "end_logits", accel__slice(b->p, both, last, 1, 2), ACCEL__OUTPUT_SQUEEZE);
}

void accel__head_words(accel__build *b, accel__tensor x) {
  if (accel__is_class(b, "ForTokenClassification"))
    accel__head_tokens(b, x, "classifier");
  else
    accel__head_spans(b, x, "qa_outputs");
}

accel__tensor accel__head_vocabulary(accel__build *b, accel__tensor x, int64_t vocab, bool tied,
                                     const char *embeddings, const char *decoder,
                                     const char *bias) {
  char name[NAME_MAX_BYTES];
  int64_t dims[2] = {vocab, accel__columns(b, x)};
  snprintf(name, sizeof name, "%s.weight", decoder);
  /* transformers ties unless the checkpoint brings a decoder of its own */
  bool own = !tied || (b->request->checkpoint != NULL && accel__has(b, "%s", name));
  accel__tensor w;
  if (own) {
    w = accel__weight_at(b, ACCEL_PLUGIN_USE_HEAD, 2, dims, name);
  } else {
    bool in_head = b->in_head;
    b->in_head = false;
    snprintf(name, sizeof name, "%s.weight", embeddings);
    w = accel__weight_at(b, ACCEL_PLUGIN_USE_EMBEDDING, 2, dims, name);
    b->in_head = in_head;
  }
  accel__tensor c = -1;
  if (bias != NULL) {
    snprintf(name, sizeof name, "%s.bias", decoder);
    /* what the forward pass adds, unless tied to `bias` */
    bool has_own = b->request->checkpoint != NULL && accel__has(b, "%s", name);
    c = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &vocab, has_own ? name : bias);
  }
  return accel__linear(b->p, x, w, c, -1, ACCEL_PLUGIN_ACT_NONE);
}
