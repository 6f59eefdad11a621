/* pack.c - padded [B,S] tensors in transformers' convention to packed rows, and results back to
 * [B,S,...] with zeros where padding was. */
#include "dispatch/pack.h"

#include <stdlib.h>
#include <string.h>

#include "dispatch/replicas.h"
#include "dispatch/videos.h"
#include "modeling/block_rows.h"
#include "modeling/default_row.h"
#include "models/model_build.h"

enum { MAX_INPUTS = ACCEL__MAX_INPUTS };

/* How the rows of one run lie in the padded tensors. */
typedef struct layout {
  int64_t batch, width;    /* B, S */
  int32_t *first, *length; /* [B] the run of ones of each row */
  uint64_t tokens;
} layout;

/* Names of the two sides of a model (accel__model_input.side). */
static const char *const ids_of[] = {"input_ids", "decoder_input_ids"},
                         *const mask_of[] = {"attention_mask", "decoder_attention_mask"},
                         *const positions_of[] = {"position_ids", "decoder_position_ids"};

static accel_status check_shape(const accel_endpoint *ep, const accel_tensor *t, const layout *l) {
  bool integers = t->dtype == ACCEL_I64 || t->dtype == ACCEL_I32 || t->dtype == ACCEL_BOOL ||
                  t->dtype == ACCEL_U8 || t->dtype == ACCEL_I8 ||
                  (t->dtype == ACCEL_F32 && accel__ends_with(t->name, "attention_mask"));
  if (!integers)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' must hold integers (int64 or int32)",
                       ep->name, t->name);
  if (!t->data)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' has no data", ep->name, t->name);
  /* position_ids may be [1,S] for the whole batch */
  if (t->rank == 2 && t->dim[1] == l->width &&
      (t->dim[0] == l->batch || (t->dim[0] == 1 && accel__ends_with(t->name, "position_ids"))))
    return ACCEL_OK;
  if (t->rank != 2)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: input '%s' has rank %u, expected [batch, sequence]", ep->name, t->name,
                       t->rank);
  return accel__fail(ACCEL_ERROR_ARGUMENT,
                     "%s: input '%s' is [%lld,%lld], expected [%lld,%lld] as the ids are", ep->name,
                     t->name, (long long)t->dim[0], (long long)t->dim[1], (long long)l->batch,
                     (long long)l->width);
}

/* Finds the one run of ones in row b. */
static accel_status scan_row(const accel_endpoint *ep, const accel_tensor *mask, layout *l,
                             int64_t b) {
  const char *name = mask->name;
  int64_t s = 0, width = l->width;
#define AT(i) (accel__tensor_int(mask, (uint64_t)(b * width + (i))))
  while (s < width && AT(s) == 0) s++;
  l->first[b] = (int32_t)s;
  while (s < width && AT(s) == 1) s++;
  l->length[b] = (int32_t)(s - l->first[b]);
  if (l->length[b] == 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s row %lld has no 1", ep->name, name,
                       (long long)b);
  while (s < width && AT(s) == 0) s++;
  if (s == width) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT,
                     "%s: %s row %lld is not one run of ones (value %lld at %lld); only left or "
                     "right padding is possible",
                     ep->name, name, (long long)b, (long long)AT(s), (long long)s);
#undef AT
}

static bool takes_tokens(const accel__model *m, uint32_t side) {
  for (uint32_t i = 0; i < m->n_inputs; i++)
    if (m->inputs[i].kind == ACCEL__INPUT_TOKENS && m->inputs[i].side == side) return true;
  return false;
}

static accel_status make_layout(const accel_endpoint *ep, const accel_tensors *inputs,
                                uint32_t side, layout *l) {
  const accel_tensor *ids = accel__find_tensor(inputs, ids_of[side]),
                     *mask = accel__find_tensor(inputs, mask_of[side]);
  if (!takes_tokens(ep->model, side)) return ACCEL_OK;
  /* those that are made of input_ids */
  bool alone = false; /* one token a row */
  for (uint32_t i = 0; side && !ids && i < ep->model->n_inputs; i++) {
    const accel__model_input *in = &ep->model->inputs[i];
    if (strcmp(in->name, ids_of[side]) || in->otherwise == ACCEL__DEFAULT_REQUIRED) continue;
    ids = accel__find_tensor(inputs, ids_of[0]);
    alone = in->otherwise == ACCEL__DEFAULT_START;
  }
  if (!ids || ids->rank != 2)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: input '%s' [batch, sequence] is missing or of another rank", ep->name,
                       ids_of[side]);
  l->batch = ids->dim[0];
  l->width = alone ? 1 : ids->dim[1];
  if (l->batch < 1 || l->width < 1 || l->width > INT32_MAX || l->batch > INT32_MAX / l->width)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' is [%lld,%lld]", ep->name,
                       ids_of[side], (long long)l->batch, (long long)l->width);
  l->first = calloc((size_t)l->batch * 2, sizeof *l->first);
  if (!l->first) return accel__no_memory((size_t)l->batch * 8);
  l->length = l->first + l->batch;
  if (mask) ACCEL_TRY(check_shape(ep, mask, l));
  for (int64_t b = 0; b < l->batch; b++) {
    l->length[b] = (int32_t)l->width;
    if (mask) ACCEL_TRY(scan_row(ep, mask, l, b));
    l->tokens += (uint64_t)l->length[b];
  }
  return ACCEL_OK;
}

/* The largest position id of the call, plus 1. */
static int32_t span_of(const accel_tensor *positions, const layout *l) {
  int64_t span = positions ? 0 : l->width;
  for (uint64_t i = 0; positions && i < (uint64_t)(positions->dim[0] * positions->dim[1]); i++)
    if (accel__tensor_int(positions, i) >= span) span = accel__tensor_int(positions, i) + 1;
  return span > INT32_MAX ? INT32_MAX : (int32_t)span;
}

/* What the class's forward would put in place of an absent input in row b of the padded tensor;
 * what lies outside of the mask is not looked at.  scratch[width]: the row's ids.  False: the rule
 * needs ids, and there are none. */
static bool default_row(accel__input_default rule, const accel_tensor *ids, const accel__model *m,
                        int32_t span, const layout *l, int64_t b, int32_t *scratch, int32_t *row) {
  int64_t real = 0; /* tokens that are no padding */
  for (int64_t s = 0; ids && s < l->width; s++) {
    const int64_t id = accel__tensor_int(ids, (uint64_t)(b * l->width + s));
    scratch[s] = (int32_t)id;
    real += id != m->pad_id;
  }
  accel__default_row_args of = {.ids = ids ? scratch : NULL,
                                .n = l->width,
                                .total_len = span,
                                .pad_id = (int32_t)m->pad_id,
                                .sequence = (int32_t)b,
                                .front = (int32_t)m->decoder_start_id};
  if (rule == ACCEL__DEFAULT_MASK_CUMSUM) of.position = -l->first[b];
  if (rule == ACCEL__DEFAULT_WRAPPED && ids) of.front = scratch[real > 0 ? real - 1 : 0];
  return accel__default_row(rule, &of, row);
}

/* ---- inputs handed on whole ---- */

static accel_status to_i32(const accel_endpoint *ep, const accel_tensor *t, uint64_t n,
                           int32_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    int64_t v = accel__tensor_int(t, i);
    if (v < INT32_MIN || v > INT32_MAX)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' holds %lld, which is outside int32",
                         ep->name, t->name, (long long)v);
    out[i] = (int32_t)v;
  }
  return ACCEL_OK;
}

/* The caller's tensor as the program's input wants it: used in place, or converted into *owned. */
static accel_status take_item(const accel_endpoint *ep, const accel__model_input *in,
                              const accel_tensor *t, void **owned, accel__item *item) {
  const int wanted = accel__program_view(ep->model->program)->tensor[in->tensor].dtype;
  if (!t) return ACCEL_OK;
  *item = (accel__item){.data = t->data, .rank = t->rank};
  memcpy(item->dim, t->dim, t->rank * sizeof *t->dim);
  uint64_t bytes = accel__tensor_bytes(t), n = 1;
  if (!t->data || bytes == UINT64_MAX || bytes > SIZE_MAX / 8)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' has no data, or a dim that cannot be",
                       ep->name, t->name);
  if ((int)t->dtype == wanted) return ACCEL_OK;
  for (uint32_t r = 0; r < t->rank; r++) n *= (uint64_t)t->dim[r];
  if (wanted == ACCEL_PLUGIN_I32 &&
      (t->dtype == ACCEL_F16 || t->dtype == ACCEL_BF16 || t->dtype == ACCEL_F64))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' must hold integers", ep->name,
                       t->name);
  item->data = *owned = malloc(n * 4 + 1);
  if (!*owned) return accel__no_memory(n * 4);
  if (wanted == ACCEL_PLUGIN_I32) return to_i32(ep, t, n, *owned);
  return accel__elements_to_f32((accel_plugin_dtype)t->dtype, t->data, n, *owned);
}

accel_status accel__derive_item(const accel_endpoint *ep, const accel__derived *d,
                                const accel_tensors *inputs, void **owned, accel__item *item) {
  const accel_tensor *from = accel__find_tensor(inputs, d->from),
                     *shape = accel__find_tensor(inputs, d->shape_of);
  if ((!from && !d->optional) || !shape)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' is missing", ep->name,
                       shape ? d->from : d->shape_of);
  const bool integers = from && (from->dtype == ACCEL_I64 || from->dtype == ACCEL_I32 ||
                                 (d->optional && from->dtype == ACCEL_BOOL));
  if (from && (!from->data || (!integers && !d->look)))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' must hold integers", ep->name,
                       d->from);
  uint64_t n = from != NULL;
  for (uint32_t r = 0; from && r < from->rank; r++)
    if (from->dim[r] < 0 || __builtin_mul_overflow(n, (uint64_t)from->dim[r], &n) || n > UINT32_MAX)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' has a dim that cannot be", ep->name,
                         d->from);
  accel__arena arena = {0};
  accel_status status = ACCEL_OK;
  int32_t *rows = NULL;
  int64_t count = 0, *values = NULL;
  if (d->look) {
    float *numbers = from->data;
    if (from->dtype != ACCEL_F32) {
      if (!(numbers = accel__arena_array(&arena, n + 1, sizeof *numbers)))
        ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
      ACCEL_GOTO(accel__elements_to_f32((accel_plugin_dtype)from->dtype, from->data, n, numbers));
    }
    ACCEL_GOTO(d->look(d->user, numbers, from->dim, from->rank, &arena, &rows, &count));
  } else {
    if (from && !(values = accel__arena_array(&arena, n + 1, sizeof *values)))
      ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
    for (uint64_t i = 0; i < n; i++) values[i] = accel__tensor_int(from, i);
    ACCEL_GOTO(d->make(d->user, values, n, shape->dim, shape->rank, &arena, &rows, &count));
  }
  *owned = malloc((size_t)count * sizeof *rows + 1);
  if (!*owned) ACCEL_GOTO(accel__no_memory((size_t)count * sizeof *rows));
  memcpy(*owned, rows, (size_t)count * sizeof *rows);
  *item = (accel__item){.data = *owned, .rank = 1, .dim = {count}};
  if (d->lines)
    *item = (accel__item){.data = *owned, .rank = 2, .dim = {d->lines, count / d->lines}};
done:
  accel__arena_free(&arena);
  return status;
}

/* ---- tokens ---- */

static accel_status pack_input(const accel_endpoint *ep, const accel__model_input *in,
                               const accel_tensors *inputs, const layout *l, int32_t *out) {
  const accel_tensor *t = accel__find_tensor(inputs, in->name),
                     *ids = accel__find_tensor(
                         inputs, ids_of[accel__default_shifts(in->otherwise) ? 0 : in->side]);
  if (!t && in->otherwise == ACCEL__DEFAULT_REQUIRED)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' is missing", ep->name, in->name);
  if (t) ACCEL_TRY(check_shape(ep, t, l));
  const accel_tensor *positions = in->otherwise == ACCEL__DEFAULT_TOTAL_LEN
                                      ? accel__find_tensor(inputs, positions_of[in->side])
                                      : NULL;
  if (positions) ACCEL_TRY(check_shape(ep, positions, l));
  int32_t *row = malloc(2 * (size_t)l->width * sizeof *row), span = span_of(positions, l);
  if (!row) return accel__no_memory(2 * (size_t)l->width * sizeof *row);
  for (int64_t b = 0; b < l->batch; b++) {
    if (!t && !default_row(in->otherwise, ids, ep->model, span, l, b, row + l->width, row)) {
      free(row);
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' is missing", ep->name, in->name);
    }
    for (int64_t s = l->first[b]; s < l->first[b] + l->length[b]; s++) {
      int64_t v =
          t ? accel__tensor_int(t, (uint64_t)((t->dim[0] == 1 ? 0 : b) * l->width + s)) : row[s];
      /* -1 fails the range check by name */
      *out++ = v < INT32_MIN || v > INT32_MAX ? -1 : (int32_t)v;
    }
  }
  free(row);
  return ACCEL_OK;
}

/* ---- places in time, height and width ---- */

accel_status accel__mrope_positions(const accel_endpoint *ep, const accel_tensors *inputs,
                                    const accel__mrope_input *tokens, int32_t *out,
                                    int32_t *rope_delta) {
  const accel__image_tokens *image_tokens = ep->model->image_tokens;
  const accel_tensor *t = accel__find_tensor(inputs, image_tokens->sizes),
                     *steps = accel__find_tensor(inputs, ACCEL__TIME_STEPS);
  accel__mrope_input what = *tokens;
  if (!t || !t->data || (t->dtype != ACCEL_I64 && t->dtype != ACCEL_I32) || t->rank != 2 ||
      t->dim[1] != image_tokens->width || t->dim[0] < 0 || t->dim[0] > INT32_MAX)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' must hold integers [pictures, %lld]",
                       ep->name, image_tokens->sizes, (long long)image_tokens->width);
  const uint64_t n = (uint64_t)(t->dim[0] * t->dim[1]);
  int64_t *sizes = malloc((n + 1) * sizeof *sizes);
  if (!sizes) return accel__no_memory(n * sizeof *sizes);
  for (uint64_t i = 0; i < n; i++) sizes[i] = accel__tensor_int(t, i);
  what.sizes = sizes;
  what.pictures = (uint64_t)t->dim[0];
  if (steps && steps->dtype == ACCEL_F32 && steps->rank == 1 && steps->dim[0] == t->dim[0])
    what.steps = steps->data;
  accel_status status = image_tokens->mrope_positions(image_tokens->user, &what, out, rope_delta);
  free(sizes);
  return status;
}

/* What processors say of a token: 0 text, 1 a picture, 2 a video. */
static int64_t type_of(const accel__image_tokens *image_tokens, int64_t id) {
  if (image_tokens->blocks == ACCEL__BLOCKS_PREFIX) return 0;
  return id == image_tokens->token ? 1 : id == image_tokens->video_token ? 2 : 0;
}

accel_status accel__check_token_types(const accel_endpoint *ep, const accel_tensor *ids,
                                      const accel_tensor *types) {
  layout l = {.batch = ids->dim[0], .width = ids->dim[1]};
  ACCEL_TRY(check_shape(ep, types, &l));
  for (int64_t i = 0; i < l.batch * l.width; i++) {
    const int64_t is = accel__tensor_int(types, (uint64_t)i),
                  due = type_of(ep->model->image_tokens, accel__tensor_int(ids, (uint64_t)i));
    if (is != due)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: %s row %lld holds %lld at %lld, where input_ids give %lld", ep->name,
                         types->name, (long long)(i / l.width), (long long)is,
                         (long long)(i % l.width), (long long)due);
  }
  return ACCEL_OK;
}

static bool places_pictures(const accel__model *m) {
  return m->image_tokens && m->image_tokens->mrope_positions;
}

/* position_ids [3,B,S], or [4,B,S] with those of the text in front. */
static accel_status given_places(const accel_endpoint *ep, const accel_tensor *t, const layout *l,
                                 int32_t *out) {
  if (!t->data || (t->dtype != ACCEL_I64 && t->dtype != ACCEL_I32) || t->rank != 3 ||
      (t->dim[0] != 3 && t->dim[0] != 4) || t->dim[1] != l->batch || t->dim[2] != l->width)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "%s: input 'position_ids' must hold integers [3,%lld,%lld], [4,%lld,%lld] or [%lld,%lld]",
        ep->name, (long long)l->batch, (long long)l->width, (long long)l->batch,
        (long long)l->width, (long long)l->batch, (long long)l->width);
  for (int64_t k = t->dim[0] - 3; k < t->dim[0]; k++)
    for (int64_t b = 0; b < l->batch; b++)
      for (int64_t s = l->first[b]; s < l->first[b] + l->length[b]; s++) {
        const int64_t v = accel__tensor_int(t, (uint64_t)((k * l->batch + b) * l->width + s));
        *out++ = v < 0 || v > INT32_MAX ? -1 : (int32_t)v;
      }
  return ACCEL_OK;
}

/* Three lines of positions for packed ids: as the pictures have it, as given, or the default of one
 * in all three. */
static accel_status pack_places(const accel_endpoint *ep, const accel__model_input *in,
                                const accel_tensors *inputs, const layout *l, const int32_t *ids,
                                int32_t *out) {
  const accel_tensor *given = accel__find_tensor(inputs, in->name),
                     *types = accel__find_tensor(inputs, "mm_token_type_ids");
  const bool pictures =
      places_pictures(ep->model) && accel__find_tensor(inputs, ep->model->image_tokens->sizes);
  const accel__mrope_input tokens = {
      .ids = ids, .lengths = l->length, .n = (uint32_t)l->batch, .tokens = l->tokens};
  if (types && places_pictures(ep->model))
    ACCEL_TRY(accel__check_token_types(ep, accel__find_tensor(inputs, "input_ids"), types));
  /* checks the counts, whatever is given */
  if (pictures) ACCEL_TRY(accel__mrope_positions(ep, inputs, &tokens, out, NULL));
  if (given && given->rank != 2) return given_places(ep, given, l, out);
  if (pictures && !given) return ACCEL_OK;
  ACCEL_TRY(pack_input(ep, in, inputs, l, out));
  for (int k = 1; k < 3; k++) memcpy(out + (uint64_t)k * l->tokens, out, l->tokens * sizeof *out);
  return ACCEL_OK;
}

/* A part of the blocks that token_type_ids name: none where they are absent. */
static accel_status pack_blocks(const accel_endpoint *ep, const accel__model_input *in,
                                const accel_tensors *inputs, const layout *l, void **owned,
                                accel__item *item) {
  accel__block_tokens t = {.lengths = l->length, .n = (uint32_t)l->batch, .tokens = l->tokens};
  int32_t *types = NULL, *values = NULL;
  accel_status status = ACCEL_OK;
  int64_t n = 0;
  if (accel__find_tensor(inputs, in->name) != NULL) {
    if (!(types = malloc(l->tokens * sizeof *types)))
      return accel__no_memory(l->tokens * sizeof *types);
    t.types = types;
    ACCEL_GOTO(pack_input(ep, in, inputs, l, types));
  }
  status = accel__blocks_make(ep->model->image_tokens, &t, in->part, &values, &n);
  if (status == ACCEL_OK) *item = (accel__item){.data = *owned = values, .rank = 1, .dim = {n}};
done:
  free(types);
  return status;
}

/* The packed row of side 1 that lies where each row of input_ids has its last eos. */
static accel_status eos_rows(const accel_endpoint *ep, const accel_tensors *inputs, const layout *l,
                             int32_t *out) {
  const accel_tensor *ids = accel__find_tensor(inputs, "input_ids");
  int32_t start = 0;
  for (int64_t b = 0; b < l[1].batch; start += l[1].length[b++]) {
    int64_t last = -1;
    for (int64_t s = 0; s < l[0].width; s++)
      for (uint32_t k = 0; k < ep->model->n_eos; k++)
        if (accel__tensor_int(ids, (uint64_t)(b * l[0].width + s)) == ep->model->eos_ids[k])
          last = s;
    last -= l[1].first[b];
    if (last < 0 || last >= l[1].length[b])
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: input_ids row %lld has no eos token, which %s classifies by",
                         ep->name, (long long)b, ep->model->architecture);
    out[b] = start + (int32_t)last;
  }
  return ACCEL_OK;
}

/* The packed row of each row's last token that is not pad_token_id, found as
 * GenericForSequenceClassification does: by the id, wherever the mask is.  Without a pad_token_id
 * that class reads the last column, be it padding; packed rows have none: the last token that the
 * mask shows. */
static accel_status last_rows(const accel_endpoint *ep, const accel_tensors *inputs,
                              const layout *l, int32_t *out) {
  const accel_tensor *ids = accel__find_tensor(inputs, "input_ids");
  const int64_t pad = ep->model->pad_id;
  int32_t start = 0;
  if (pad < 0 && l->batch > 1)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT,
                    "%s: %lld sequences at once, but no pad_token_id by which %s finds their ends",
                    ep->name, (long long)l->batch, ep->model->architecture),
        "run them one by one, or give config.json a pad_token_id");
  for (int64_t b = 0; b < l->batch; start += l->length[b++]) {
    int64_t last = pad < 0 ? l->first[b] + l->length[b] - 1 : 0;
    for (int64_t s = 0; pad >= 0 && s < l->width; s++)
      if (accel__tensor_int(ids, (uint64_t)(b * l->width + s)) != pad) last = s;
    last -= l->first[b];
    if (last < 0 || last >= l->length[b])
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: input_ids row %lld: %s classifies by the last token that is not "
                         "pad_token_id %lld, and "
                         "attention_mask leaves that out",
                         ep->name, (long long)b, ep->model->architecture, (long long)pad);
    out[b] = start + (int32_t)last;
  }
  return ACCEL_OK;
}

/* ---- results ---- */

/* The layout of a result's rows: that of the side whose lengths its space carries; NULL when its
 * rows are no tokens. */
static const layout *layout_of(const accel_endpoint *ep, const accel__model_output *o,
                               const layout *sides) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const int32_t space = p->tensor[o->tensor].space,
                lengths = space >= 0 ? p->space[space].lengths : -1;
  for (uint32_t i = 0; lengths >= 0 && i < ep->model->n_inputs; i++)
    if (ep->model->inputs[i].tensor == lengths) return &sides[ep->model->inputs[i].side];
  return NULL;
}

/* Rows of a ragged result to [B,S,...]; other results as they are; squeeze drops a last dim of
 * 1. */
static void result_shape(const accel__model_output *o, const accel__result *r, const layout *l,
                         accel_tensor *like) {
  uint32_t rank = 0;
  *like = (accel_tensor){.name = o->name, .dtype = (accel_dtype)r->dtype};
  if (l) {
    like->dim[rank++] = l->batch;
    like->dim[rank++] = l->width;
  }
  for (uint32_t a = l ? 1 : 0; a < r->rank && rank < ACCEL_MAX_RANK; a++)
    like->dim[rank++] = r->dim[a];
  like->rank = o->squeeze && like->dim[rank - 1] == 1 ? rank - 1 : rank;
}

static void unpack(const accel__result *r, const accel_tensor *to, const layout *l) {
  if (!l) {
    memcpy(to->data, r->data, r->bytes);
    return;
  }
  size_t row = l->tokens ? r->bytes / l->tokens : 0;
  const char *from = r->data;
  for (int64_t b = 0; b < l->batch; b++) {
    memcpy((char *)to->data + (size_t)(b * l->width + l->first[b]) * row, from,
           (size_t)l->length[b] * row);
    from += (size_t)l->length[b] * row;
  }
}

/* The entry that takes what is given: "forward", or, where one of pixel_values and input_ids is
 * left out and the class runs without, the one of the other alone. */
static const accel__model_entry *entry_for(const accel_endpoint *ep, const accel_tensors *inputs) {
  static const char *const without[][2] = {{"pixel_values", "forward_text"},
                                           {"input_ids", "forward_image"}};
  for (int i = 0; i < 2; i++) {
    const accel__model_entry *e = accel__model_entry_of(ep->model, without[i][1]);
    if (e && !accel__find_tensor(inputs, without[i][0])) return e;
  }
  return accel__model_entry_of(ep->model, "forward");
}

static accel_status choose_outputs(const accel_endpoint *ep, const accel__model_entry *e,
                                   const char *const *names, uint32_t n, uint32_t *chosen,
                                   uint32_t *n_chosen) {
  *n_chosen = 0;
  for (uint32_t i = 0; !names && i < e->n_outputs; i++)
    if (!e->outputs[i].asked) chosen[(*n_chosen)++] = i;
  for (uint32_t k = 0; names && k < n; k++) {
    uint32_t i = 0;
    while (i < e->n_outputs && strcmp(e->outputs[i].name, names[k])) i++;
    if (i == e->n_outputs)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s has no output '%s'", ep->name,
                         ep->model->architecture, names[k]);
    for (uint32_t earlier = 0; earlier < k; earlier++)
      if (chosen[earlier] == i)
        return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: output '%s' is named twice", ep->name,
                           names[k]);
    chosen[(*n_chosen)++] = i;
  }
  return ACCEL_OK;
}

static accel_status check_names(const accel_endpoint *ep, const accel_tensors *inputs) {
  for (uint32_t i = 0; i < inputs->n; i++) {
    const char *name = inputs->item[i].name;
    bool known = accel__model_takes(ep->model, name) || accel__takes_of_videos(ep->model, name) ||
                 accel__model_leaves_unread(ep->model, name);
    for (uint32_t side = 0; side < 2; side++)
      known |= takes_tokens(ep->model, side) && !strcmp(name, mask_of[side]);
    if (!known)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s takes no input '%s'", ep->name,
                         ep->model->architecture, name);
    if (inputs->item[i].rank > ACCEL_MAX_RANK)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' has rank %u", ep->name, name,
                         inputs->item[i].rank);
  }
  return ACCEL_OK;
}

static accel_status collect(const accel_endpoint *ep, const accel__model_entry *e,
                            const uint32_t *chosen, uint32_t n, const accel__result *results,
                            const layout *sides, accel_tensors **outputs) {
  accel_tensor *like = calloc(n + 1, sizeof *like);
  if (!like) return accel__no_memory(n * sizeof *like);
  const accel__model_output *o = e->outputs;
  for (uint32_t k = 0; k < n; k++)
    result_shape(&o[chosen[k]], &results[k], layout_of(ep, &o[chosen[k]], sides), &like[k]);
  accel_status status = accel__tensors_new(like, n, outputs);
  for (uint32_t k = 0; status == ACCEL_OK && k < n; k++)
    unpack(&results[k], &(*outputs)->item[k], layout_of(ep, &o[chosen[k]], sides));
  free(like);
  return status;
}

/* Input i of the entry into the batch; packed[i]: its memory, to be freed. */
static accel_status pack_one(const accel_endpoint *ep, const accel__model_entry *e, uint32_t i,
                             const accel_tensors *inputs, const layout *l, void **packed,
                             accel__batch *batch) {
  const accel__model_input *in = &e->inputs[i];
  if (in->kind == ACCEL__INPUT_ITEM)
    return take_item(ep, in, accel__find_tensor(inputs, in->name), &packed[i], &batch->item[i]);
  if (in->kind == ACCEL__INPUT_DERIVED)
    return accel__derive_item(ep, in->derived, inputs, &packed[i], &batch->item[i]);
  if (in->kind == ACCEL__INPUT_LENGTHS) return ACCEL_OK;
  if (in->kind == ACCEL__INPUT_BLOCKS)
    return pack_blocks(ep, in, inputs, &l[in->side], &packed[i], &batch->item[i]);
  const layout *side = &l[in->side];
  const bool row = accel__input_is_row(in->kind);
  const uint64_t values = row                              ? (uint64_t)side->batch
                          : in->kind == ACCEL__INPUT_MROPE ? 3 * side->tokens
                                                           : side->tokens;
  packed[i] = malloc(values * sizeof(int32_t));
  if (!packed[i]) return accel__no_memory(values * sizeof(int32_t));
  batch->value[i] = packed[i];
  if (row)
    return (in->kind == ACCEL__INPUT_EOS_ROW ? eos_rows : last_rows)(ep, inputs, l, packed[i]);
  if (in->kind == ACCEL__INPUT_TOKENS) return pack_input(ep, in, inputs, side, packed[i]);
  uint32_t ids = 0;
  while (strcmp(e->inputs[ids].name, "input_ids")) ids++; /* stands before its positions */
  return pack_places(ep, in, inputs, side, packed[ids], packed[i]);
}

/* Of inputs whose names were checked. */
static accel_status run_padded(accel_endpoint *ep, const accel_tensors *inputs,
                               const char *const *names, uint32_t n_names,
                               accel_tensors **outputs) {
  const accel__model_entry *e = entry_for(ep, inputs);
  accel_status status = ACCEL_OK;
  layout l[2] = {{0}};
  void *packed[MAX_INPUTS] = {0};
  uint32_t n = names && n_names > e->n_outputs ? n_names : e->n_outputs, n_chosen = 0;
  uint32_t *chosen = calloc(n + 1, sizeof *chosen);
  accel__result *results = calloc(n + 1, sizeof *results);
  *outputs = NULL;
  if (!chosen || !results) ACCEL_GOTO(accel__no_memory(n * sizeof *results));
  for (uint32_t side = 0; side < 2; side++) ACCEL_GOTO(make_layout(ep, inputs, side, &l[side]));
  if (l[0].batch && l[1].batch && l[0].batch != l[1].batch)
    ACCEL_GOTO(accel__fail(ACCEL_ERROR_ARGUMENT,
                           "%s: input '%s' has %lld rows, expected the %lld of '%s'", ep->name,
                           ids_of[1], (long long)l[1].batch, (long long)l[0].batch, ids_of[0]));
  ACCEL_GOTO(choose_outputs(ep, e, names, n_names, chosen, &n_chosen));

  accel__batch batch = {.n = (uint32_t)(l[0].batch ? l[0].batch : l[1].batch),
                        .lengths = l[0].length,
                        .tokens = l[0].tokens,
                        .decoder_lengths = l[1].length,
                        .decoder_tokens = l[1].tokens};
  for (uint32_t i = 0; i < e->n_inputs; i++)
    ACCEL_GOTO(pack_one(ep, e, i, inputs, l, packed, &batch));
  ACCEL_GOTO(accel__endpoint_run(ep, (uint32_t)(e - ep->model->entries), &batch, chosen, n_chosen,
                                 results));
  ACCEL_GOTO(collect(ep, e, chosen, n_chosen, results, l, outputs));
done:
  for (uint32_t i = 0; i < MAX_INPUTS; i++) free(packed[i]);
  for (uint32_t k = 0; results && k < n_chosen; k++) free(results[k].data);
  free(results);
  free(chosen);
  for (uint32_t side = 0; side < 2; side++) free(l[side].first);
  return status;
}

/* One call, which goes to the replica that is done with it first. */
typedef struct padded_call {
  const accel_tensors *inputs;
  const char *const *names;
  uint32_t n_names;
  accel_tensors **outputs;
} padded_call;

static accel_status run_call(void *user, accel_endpoint *ep, uint32_t first, uint32_t n) {
  const padded_call *c = user;
  accel__arena arena = {0};
  accel_tensors joined;
  const bool videos = accel__shows_videos(ep->model, c->inputs);
  accel_status status = check_names(ep, c->inputs);
  (void)first, (void)n;
  if (status == ACCEL_OK && videos)
    status = accel__join_videos(ep, c->inputs, true, &arena, &joined);
  if (status == ACCEL_OK)
    status = run_padded(ep, videos ? &joined : c->inputs, c->names, c->n_names, c->outputs);
  accel__arena_free(&arena);
  return status;
}

/* Of the input with the most: a token, a row of features or a pixel each. */
static uint64_t units_of(void *user, uint32_t item) {
  const padded_call *c = user;
  uint64_t most = 1;
  (void)item;
  for (uint32_t i = 0; i < c->inputs->n; i++) {
    const accel_tensor *t = &c->inputs->item[i];
    uint64_t units = 1;
    for (uint32_t r = 0; r < t->rank; r++) units *= t->dim[r] > 0 ? (uint64_t)t->dim[r] : 1;
    if (units > most) most = units;
  }
  return most;
}

accel_status accel__run_padded(accel_endpoint *ep, const accel_tensors *inputs,
                               const char *const *names, uint32_t n_names,
                               accel_tensors **outputs) {
  *outputs = NULL;
  return accel__share_work(ep,
                           &(accel__work){.kind = ACCEL__WORK_RUNS,
                                          .n = 1,
                                          .cost = units_of,
                                          .run = run_call,
                                          .user = &(padded_call){inputs, names, n_names, outputs}});
}
