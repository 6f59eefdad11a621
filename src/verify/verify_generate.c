/* verify_generate.c - goldens of mode "generate": prompts from padded tensors, the loop, sequences
 * in transformers' layout.
 *
 * Inputs: input_ids with attention_mask, tensors that the encoder takes as they are
 * (input_features, pixel_values), and, of encoder-decoders, decoder_input_ids without padding.
 */
#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "dispatch/videos.h"
#include "generate/image_prompt.h"
#include "models/model_build.h"
#include "verify/verify.h"
#include "speech/whisper_generate.h"

/* ---- arguments ---- */

/* Metadata fields that are arguments of generate, beside those in `args`. */
static const char *const fields[] = {"max_new_tokens", "max_length",    "min_new_tokens",
                                     "num_beams",      "do_sample",     "num_return_sequences",
                                     "length_penalty", "early_stopping"};

accel_status accel__verify_arguments(const accel__golden *g, accel__buffer *out) {
  const char *args = accel__checkpoint_metadata(g->file, "args");
  accel__json_file file = {0};
  accel__buffer_text(out, "{\"do_sample\": false");
  if (args) ACCEL_TRY(accel__json_parse(args, strlen(args), g->path, &file));
  ACCEL_JSON_EACH(item, file.root) {
    char *text = strcmp(item->string, "return_dict") ? cJSON_PrintUnformatted(item) : NULL;
    if (text) accel__buffer_printf(out, ", \"%s\": %s", item->string, text);
    cJSON_free(text);
  }
  accel__json_free(&file);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const char *value = accel__checkpoint_metadata(g->file, fields[i]);
    if (!value) continue;
    bool word =
        value[0] >= 'a' && value[0] <= 'z' && strcmp(value, "true") && strcmp(value, "false");
    accel__buffer_printf(out, word ? ", \"%s\": \"%s\"" : ", \"%s\": %s", fields[i],
                         !strcmp(value, "True")    ? "true"
                         : !strcmp(value, "False") ? "false"
                                                   : value);
  }
  accel__buffer_text(out, "}");
  return accel__buffer_status(out);
}

/* ---- prompts ---- */

typedef struct prompts {
  int64_t rows, width;
  accel__ids *ids;       /* [rows]; none where the encoder reads tensors alone */
  accel__ids *padding;   /* [rows] what is in front of the prompts of decoders */
  accel__ids *row;       /* [rows] as they are given, padding and all */
  uint32_t *start;       /* [rows] where the prompt begins in its row */
  accel__ids *decoder;   /* [rows] what the decoder begins with; none: its start token */
  accel_tensor **tensor; /* [rows][n_tensors] dims [1, ...] */
  uint32_t n_tensors;
  bool causal; /* no token types say otherwise */
} prompts;

static accel_status check_tensor(const accel__golden *g, const accel_tensor *t,
                                 const accel_tensor *like) {
  if (t->rank == 2 && (t->dtype == ACCEL_I64 || t->dtype == ACCEL_I32) && t->dim[0] > 0 &&
      t->dim[1] > 0 && t->dim[0] < INT32_MAX && t->dim[1] < INT32_MAX &&
      t->dim[0] == like->dim[0] && t->dim[1] == like->dim[1])
    return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s: tensor 'in.%s' must be int64 [batch, length], as input_ids is", g->path,
                     t->name);
}

/* Without a mask transformers takes padding tokens for padding, unless they end sequences, too. */
static bool attended(const accel_tensor *ids, const accel_tensor *mask,
                     const accel__generate_config *c, int64_t at) {
  if (mask) return accel__tensor_int(mask, (uint64_t)at) != 0;
  return c->pad < 0 || accel__is_eos(c, (int32_t)c->pad) ||
         accel__tensor_int(ids, (uint64_t)at) != c->pad;
}

/* Items first .. first+n of the tensors that the model takes whole. */
static accel_status slice(const accel_endpoint *ep, const accel__golden *g, int64_t first,
                          int64_t n, accel_tensor *row, uint32_t *count) {
  *count = 0;
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    const accel_tensor *t = &g->inputs.item[i];
    int64_t from, rows;
    if (!accel__takes_whole(ep, t->name)) continue;
    ACCEL_TRY(accel__image_slice(ep, g->inputs.item, g->inputs.n, t->name, first, n, &from, &rows));
    if (t->rank < 1 || from + rows > t->dim[0] || (t->dtype != ACCEL_F32 && t->dtype != ACCEL_I64))
      return accel__fail(ACCEL_ERROR_FORMAT,
                         "%s: tensor 'in.%s' must be fp32 (int64) with %lld rows", g->path, t->name,
                         (long long)(from + rows));
    size_t bytes = t->dtype == ACCEL_I64 ? 8 : 4;
    for (uint32_t d = 1; d < t->rank; d++) bytes *= (size_t)t->dim[d];
    row[*count] = *t;
    row[*count].dim[0] = rows;
    row[(*count)++].data = (char *)t->data + (size_t)from * bytes;
  }
  return ACCEL_OK;
}

/* The tensors of each row: item b, or as many pictures as fill the row's image tokens. */
static accel_status read_tensors(const accel_endpoint *ep, const accel__golden *g,
                                 accel__arena *arena, prompts *p) {
  const accel__image_tokens *image_tokens = ep->model->image_tokens;
  for (int64_t b = 0, next = 0; b < p->rows; b++) {
    int64_t n = image_tokens ? 0 : 1, tokens = 0, rows = 0;
    for (uint32_t i = 0; image_tokens && i < p->ids[b].n; i++)
      tokens +=
          p->ids[b].id[i] == image_tokens->token || p->ids[b].id[i] == image_tokens->video_token;
    for (int64_t one; rows < tokens; rows += one, n++)
      ACCEL_TRY(accel__image_rows(ep, g->inputs.item, g->inputs.n, next + n, &one));
    if (!(p->tensor[b] = accel__arena_array(arena, g->inputs.n, sizeof **p->tensor)))
      return ACCEL_ERROR_OUT_OF_MEMORY;
    ACCEL_TRY(slice(ep, g, next, n, p->tensor[b], &p->n_tensors));
    next += n;
  }
  return ACCEL_OK;
}

/* Prompts of ids; those of row b end where its attention does. */
static accel_status read_ids(const accel_endpoint *ep, const accel__golden *g,
                             const accel__generate_config *c, const accel_tensor *ids,
                             const accel_tensor *mask, accel__arena *arena, prompts *out) {
  ACCEL_TRY(check_tensor(g, ids, ids));
  if (mask) ACCEL_TRY(check_tensor(g, mask, ids));
  int32_t *all = accel__arena_array(arena, (size_t)(out->rows * out->width), sizeof *all);
  if (!all) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t b = 0; b < out->rows; b++) {
    int64_t first = 0, end, row = b * out->width;
    while (first < out->width && !attended(ids, mask, c, row + first)) first++;
    for (end = first; end < out->width && attended(ids, mask, c, row + end);) end++;
    for (int64_t i = 0; i < out->width; i++) {
      const int64_t id = accel__tensor_int(ids, (uint64_t)(row + i));
      all[row + i] = id < 0 || id > INT32_MAX ? -1 : (int32_t)id;
    }
    for (int64_t i = end; i < out->width; i++)
      if (attended(ids, mask, c, row + i) || !ep->model->is_encoder_decoder)
        return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: row %lld: %s", g->path, (long long)b,
                           ep->model->is_encoder_decoder ? "attention_mask is not one run of ones"
                                                         : "decoders are padded at the left");
    out->ids[b] = (accel__ids){all + row + first, (uint32_t)(end - first)};
    out->row[b] = (accel__ids){all + row, (uint32_t)out->width};
    out->start[b] = (uint32_t)first;
    if (!ep->model->is_encoder_decoder) out->padding[b] = (accel__ids){all + row, (uint32_t)first};
  }
  return ACCEL_OK;
}

/* decoder_input_ids as generate takes them: the start token goes in front of all rows, unless some
 * row has it, or the model is Donut. */
static accel_status read_decoder_ids(const accel_endpoint *ep, const accel__golden *g,
                                     const accel__generate_config *c, const accel_tensor *t,
                                     accel__arena *arena, prompts *out) {
  const int64_t start = c->decoder_start >= 0 ? c->decoder_start : ep->model->decoder_start_id;
  bool begins = false;
  ACCEL_TRY(check_tensor(g, t, t));
  if (t->dim[0] != out->rows)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: tensor 'in.%s' has %lld rows, the others %lld",
                       g->path, t->name, (long long)t->dim[0], (long long)out->rows);
  for (int64_t b = 0; b < out->rows; b++)
    begins |= accel__tensor_int(t, (uint64_t)(b * t->dim[1])) == start;
  const int64_t front = begins || ep->model->generation.answer_prefix ? 0 : 1,
                width = t->dim[1] + front;
  int32_t *all = accel__arena_array(arena, (size_t)(out->rows * width), sizeof *all);
  if (!all) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t b = 0; b < out->rows; b++) {
    int32_t *row = all + b * width;
    if (front) row[0] = (int32_t)start;
    for (int64_t i = 0; i < t->dim[1]; i++) {
      const int64_t id = accel__tensor_int(t, (uint64_t)(b * t->dim[1] + i));
      row[front + i] = id < 0 || id > INT32_MAX ? -1 : (int32_t)id;
    }
    out->decoder[b] = (accel__ids){row, (uint32_t)width};
  }
  return ACCEL_OK;
}

static accel_status read_prompts(const accel_endpoint *ep, const accel__golden *g,
                                 const accel__generate_config *c, accel__arena *arena,
                                 prompts *out) {
  const accel_tensor *ids = accel__find_tensor(&g->inputs, "input_ids"),
                     *mask = accel__find_tensor(&g->inputs, "attention_mask"), *any = ids,
                     *decoder = ep->model->is_encoder_decoder &&
                                        (ids || accel__generates_from_pictures(ep))
                                    ? accel__find_tensor(&g->inputs, "decoder_input_ids")
                                    : NULL;
  bool typed = false;
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    const accel_tensor *t = &g->inputs.item[i];
    bool taken = accel__takes_whole(ep, t->name);
    const accel__image_tokens *image_tokens = ep->model->image_tokens;
    const bool blocks = image_tokens && image_tokens->blocks != ACCEL__BLOCKS_NONE &&
                        !strcmp(t->name, "token_type_ids"),
               places = image_tokens && image_tokens->mrope_positions &&
                        !strcmp(t->name, "mm_token_type_ids");
    if (ids && ids->rank == 2 && (blocks || places)) {
      typed |= blocks;
      ACCEL_TRY(accel__check_token_types(ep, ids, t));
      continue;
    }
    const bool masks = t == mask && (ids || accel__model_leaves_unread(ep->model, t->name));
    if (t != ids && !masks && t != decoder && !taken)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' is not supported in generation",
                         g->path, t->name);
    if (!any && taken) any = t;
  }
  if (!any)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: tensor 'in.input_ids' is missing", g->path);
  if (any->rank < 1 || any->dim[0] < 1 || any->dim[0] > INT32_MAX)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: tensor 'in.%s' has no rows", g->path, any->name);
  *out = (prompts){
      .rows = any->dim[0], .causal = !typed, .width = ids && ids->rank == 2 ? ids->dim[1] : 0};
  out->ids = accel__arena_array(arena, (size_t)out->rows, sizeof *out->ids);
  out->padding = accel__arena_array(arena, (size_t)out->rows, sizeof *out->padding);
  out->row = accel__arena_array(arena, (size_t)out->rows, sizeof *out->row);
  out->start = accel__arena_array(arena, (size_t)out->rows, sizeof *out->start);
  out->tensor = accel__arena_array(arena, (size_t)out->rows, sizeof *out->tensor);
  out->decoder = accel__arena_array(arena, (size_t)out->rows, sizeof *out->decoder);
  if (!out->ids || !out->padding || !out->row || !out->start || !out->tensor || !out->decoder)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  if (decoder) ACCEL_TRY(read_decoder_ids(ep, g, c, decoder, arena, out));
  if (ids) ACCEL_TRY(read_ids(ep, g, c, ids, mask, arena, out));
  return read_tensors(ep, g, arena, out);
}

/* ---- sequences in transformers' layout ---- */

/* What fills rows that ended early.  Beam search takes a padding token 0 for none. */
static int64_t filler(const accel__generate_config *c) {
  if (c->num_beams > 1 && !c->eos.n) return -1;
  if (c->pad > 0 || (c->pad == 0 && c->num_beams <= 1)) return c->pad;
  return c->eos.n ? c->eos.id[0] : -1;
}

static accel_status lay_out(const accel_endpoint *ep, const accel__golden *g,
                            const accel__generate_config *c, const accel__request *requests,
                            uint32_t n, const prompts *p, accel_tensors **out) {
  const accel_tensor *given = accel__find_tensor(&g->inputs, "input_ids");
  int64_t before = ep->model->is_encoder_decoder ? requests[0].input.prompt.n : p->width,
          longest = 0, rows = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < requests[i].outcome.n_done; k++, rows++) {
      if (ep->model->is_encoder_decoder && requests[i].input.prompt.n != before)
        return accel__fail(ACCEL_ERROR_ARGUMENT,
                           "%s: row %u: what a decoder begins with may not be padded", g->path, i);
      int64_t generated = requests[i].outcome.done[k].n - requests[i].input.prompt.n;
      longest = generated > longest ? generated : longest;
    }
  accel_tensor like[2] = {
      {.name = "sequences", .dtype = ACCEL_I64, .rank = 2, .dim = {rows, before + longest}},
      {.name = "sequences_scores", .dtype = ACCEL_F32, .rank = 1, .dim = {rows}}};
  ACCEL_TRY(accel__tensors_new(like, 2, out));
  int64_t *row = (*out)->item[0].data;
  float *score = (*out)->item[1].data;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < requests[i].outcome.n_done; k++, row += before + longest) {
      const accel__hypothesis *h = &requests[i].outcome.done[k];
      int64_t generated = h->n - requests[i].input.prompt.n;
      for (int64_t s = 0; s < before; s++)
        row[s] = ep->model->is_encoder_decoder
                     ? requests[i].input.prompt.id[s]
                     : accel__tensor_int(given, (uint64_t)(i * p->width + s));
      for (int64_t s = 0; s < longest; s++)
        row[before + s] = s < generated ? h->ids[requests[i].input.prompt.n + s] : filler(c);
      *score++ = h->score;
    }
  return ACCEL_OK;
}

static accel_status run(accel_endpoint *ep, const accel__golden *g,
                        const accel__generate_plan *plan, const accel_generate_params *params,
                        accel__arena *arena, accel_tensors **out) {
  accel__session *session = NULL;
  accel__model_stepper stepper = {0};
  accel__engine engine = {.model = &stepper.stepper};
  accel__request *requests = NULL;
  prompts p = {0};
  accel_status status = read_prompts(ep, g, &plan->config, arena, &p);
  if (status != ACCEL_OK) return status;
  uint32_t n = (uint32_t)p.rows;
  if (!(requests = calloc(n, sizeof *requests))) return accel__no_memory(n * sizeof *requests);
  for (uint32_t i = 0; i < n; i++) {
    const accel__encoder_input prompt = {.ids = p.ids[i],
                                         .tensor = p.tensor[i],
                                         .n_tensors = p.n_tensors,
                                         .causal = p.causal,
                                         .row = p.row[i],
                                         .row_start = p.start[i]};
    requests[i].input.padding = p.padding[i];
    if (p.n_tensors && !p.decoder[i].n)
      ACCEL_GOTO(accel__pictured_request(ep, plan, params, &prompt, i, 0, &requests[i]));
    else if (ep->model->is_encoder_decoder)
      ACCEL_GOTO(
          accel__generate_encoded(ep, plan, params, &prompt, p.decoder[i], i, 0, &requests[i]));
    else
      ACCEL_GOTO(accel__generate_request(ep, plan, params, p.ids[i], i, 0, &requests[i]));
  }
  ACCEL_GOTO(accel__session_open(ep, &session));
  ACCEL_GOTO(accel__model_stepper_open(session, &stepper));
  ACCEL_GOTO(accel__generate_run(ep, &engine, requests, n));
  status = lay_out(ep, g, &plan->config, requests, n, &p, out);
done:
  for (uint32_t i = 0; i < n; i++) accel__request_end(&requests[i], NULL);
  free(requests);
  accel__engine_free(&engine);
  accel__model_stepper_close(&stepper);
  accel__session_close(&session);
  return status;
}

accel_status accel__verify_generate(accel_endpoint *ep, const accel__golden *g,
                                    accel_tensors **out) {
  accel__arena arena = {0};
  accel__buffer config = {0};
  accel__generate_plan plan = {0};
  accel_generate_params params = accel__generate_defaults();
  *out = NULL;
  if (accel__is_whisper(ep)) return accel__verify_whisper(ep, g, out);
  accel__golden shown = *g;
  accel_status status = accel__verify_arguments(g, &config);
  if (status == ACCEL_OK && accel__shows_videos(ep->model, &g->inputs))
    status = accel__join_videos(ep, &g->inputs, false, &arena, &shown.inputs);
  params.config = config.data;
  if (status == ACCEL_OK) status = accel__generate_plan_make(ep, &params, &plan);
  if (status == ACCEL_OK) status = run(ep, &shown, &plan, &params, &arena, out);
  accel__generate_plan_free(&plan);
  accel__buffer_free(&config);
  accel__arena_free(&arena);
  return status;
}

/* ---- comparing ---- */

accel_status accel__verify_sequences(const accel__golden *g, const accel__tensor_info *want,
                                     const accel_tensor *got, const char *precision,
                                     accel__arena *arena, accel_verify_output *to) {
  bool exact = !strcmp(precision, "fp32");
  if (want->dtype != ACCEL_PLUGIN_I64 || want->rank != 2)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: tensor 'out.sequences' must be int64 [rows, length]", g->path);
  int64_t *wanted = accel__arena_alloc(arena, want->bytes + 1);
  if (!wanted) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__tensor_read(g->file, want, 0, want->bytes, wanted));
  int64_t width = want->dim[1] < got->dim[1] ? want->dim[1] : got->dim[1], least = width;
  uint64_t different = 0;
  bool same = want->dim[0] == got->dim[0] && want->dim[1] == got->dim[1];
  for (int64_t b = 0; b < want->dim[0] && b < got->dim[0]; b++) {
    const int64_t *x = (const int64_t *)got->data + b * got->dim[1], *y = wanted + b * want->dim[1];
    int64_t s = 0;
    while (s < width && x[s] == y[s]) s++;
    least = s < least ? s : least;
    for (; s < width; s++) different += x[s] != y[s];
  }
  to->compared = want->elements;
  to->max_abs = (double)different; /* tokens that differ */
  to->bound = 0;
  to->cosine = want->elements ? 1 - (double)different / (double)want->elements : 1;
  to->passed = !exact || (same && !different);
  to->note = same && !different
                 ? ""
                 : accel__arena_printf(
                       arena, "%s[%lld,%lld]; the first %lld of %lld tokens agree in every row",
                       same ? "" : "got ", (long long)got->dim[0], (long long)got->dim[1],
                       (long long)least, (long long)want->dim[1]);
  return to->note ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}
