/* verify_speech.c - goldens of mode "speech": padded texts through a model that speaks, drawn from as
 * transformers draws after torch.manual_seed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "processing/media.h"
#include "speech/speak.h"
#include "verify/verify.h"

/* ---- what is asked for ---- */

static accel_status read_args(const accel__golden *g, accel_text_to_speech_params *p) {
  const char *text = accel__checkpoint_metadata(g->file, "args");
  accel__json_file args = {0};
  int64_t seed = 0, speaker = -1;
  *p = (accel_text_to_speech_params){
      .speaking_rate = NAN, .noise_scale = NAN, .noise_scale_duration = NAN};
  if (text) ACCEL_TRY(accel__json_parse(text, strlen(text), g->path, &args));
  accel_status status = accel__json_int(&args, args.root, "seed", 0, UINT32_MAX, &seed);
  if (status == ACCEL_OK)
    status = accel__json_int(&args, args.root, "speaker_id", 0, INT32_MAX, &speaker);
  if (status == ACCEL_OK)
    status = accel__json_number(&args, args.root, "speaking_rate", &p->speaking_rate);
  ACCEL_JSON_EACH(item, args.root)
  if (status == ACCEL_OK && strcmp(item->string, "seed") && strcmp(item->string, "speaker_id") &&
      strcmp(item->string, "speaking_rate"))
    status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: metadata args: '%s' is not supported in speech",
                         g->path, item->string);
  accel__json_free(&args);
  p->seed = (uint64_t)seed;
  p->speaker = (int32_t)speaker;
  return status;
}

/* The tensor as one value an element, [rows, width]; *out NULL when the golden has none. */
static accel_status read_integers(const accel__golden *g, const char *name, accel__arena *arena,
                                  const accel_tensor **at, int64_t **out) {
  const accel_tensor *t = accel__find_tensor(&g->inputs, name);
  *out = NULL;
  *at = t;
  if (!t) return ACCEL_OK;
  if (t->rank != 2 || (t->dtype != ACCEL_I64 && t->dtype != ACCEL_I32) || t->dim[0] < 1 ||
      t->dim[1] < 1)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: tensor 'in.%s' must be int64 [batch, length]",
                       g->path, name);
  const size_t n = (size_t)(t->dim[0] * t->dim[1]);
  if (!(*out = accel__arena_array(arena, n, sizeof **out))) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < n; i++)
    (*out)[i] =
        t->dtype == ACCEL_I64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
  return ACCEL_OK;
}

static accel_status read_batch(const accel__golden *g, bool forced, accel__arena *arena,
                               accel__speak_batch *out) {
  int64_t *ids, *attended;
  const accel_tensor *t, *mask_of;
  ACCEL_TRY(read_integers(g, "input_ids", arena, &t, &ids));
  ACCEL_TRY(read_integers(g, "attention_mask", arena, &mask_of, &attended));
  if (!ids)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: tensor 'in.input_ids' is missing", g->path);
  if (mask_of && (mask_of->dim[0] != t->dim[0] || mask_of->dim[1] != t->dim[1]))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: 'in.attention_mask' is not as large as input_ids",
                       g->path);
  if (g->inputs.n != (mask_of ? 2u : 1u))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: speech takes in.input_ids and in.attention_mask alone", g->path);
  const size_t n = (size_t)(t->dim[0] * t->dim[1]);
  int32_t *narrow = accel__arena_array(arena, n, sizeof *narrow);
  float *mask = accel__arena_array(arena, n, sizeof *mask),
        *durations = accel__arena_array(arena, n, sizeof *durations);
  if (!narrow || !mask || !durations) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < n; i++) {
    narrow[i] = ids[i] < 0 || ids[i] > INT32_MAX ? -1 : (int32_t)ids[i];
    mask[i] = !attended || attended[i] != 0 ? 1.0f : 0.0f;
  }
  *out = (accel__speak_batch){
      .rows = t->dim[0], .width = t->dim[1], .ids = narrow, .mask = attended ? mask : NULL};
  const accel__tensor_info *own = forced ? accel__checkpoint_find(g->file, "out.duration") : NULL;
  if (!own) return ACCEL_OK;
  if (own->elements != n)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: 'out.duration' is not as large as input_ids",
                       g->path);
  out->durations = durations;
  return accel__tensor_to_f32(g->file, own, 0, n, durations);
}

/* ---- what came out ---- */

static accel_tensor field(const accel__spoken *s, const accel__speak_batch *b, const char *name) {
  const int64_t rows = b->rows;
  accel_tensor t = {.name = name, .dtype = ACCEL_F32, .rank = 2, .dim = {rows, b->width}};
  if (!strcmp(name, "waveform")) {
    t.dim[1] = s->samples;
    t.data = s->waveform.data;
  } else if (!strcmp(name, "spectrogram")) {
    t.rank = 3;
    t.dim[1] = s->spectrogram.dim[1];
    t.dim[2] = s->frames;
    t.data = s->spectrogram.data;
  } else if (!strcmp(name, "sequence_lengths")) {
    t.rank = 1;
    t.data = s->row_frames; /* filled anew by collect */
  } else if (!strcmp(name, "log_duration")) {
    t.data = s->log_durations;
  } else if (!strcmp(name, "duration")) {
    t.data = s->durations;
  }
  return t;
}

static accel_status collect(const accel_endpoint *ep, const accel__golden *g,
                            const accel__spoken *s, const accel__speak_batch *b,
                            accel__arena *arena, accel_tensors **out) {
  accel_tensor *like = accel__arena_array(arena, g->n, sizeof *like);
  if (!like) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < g->n; k++) {
    like[k] = field(s, b, g->names[k]);
    if (!like[k].data)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: speech has no output '%s'", g->path,
                         g->names[k]);
  }
  ACCEL_TRY(accel__tensors_new(like, g->n, out));
  for (uint32_t k = 0; k < g->n; k++) {
    float *to = (*out)->item[k].data;
    if (like[k].data != (void *)s->row_frames) {
      memcpy(to, like[k].data, accel__tensor_bytes(&like[k]));
      continue;
    }
    for (int64_t i = 0; i < b->rows; i++)
      to[i] = (float)(s->row_frames[i] * ep->model->speaking->hop);
  }
  return ACCEL_OK;
}

accel_status accel__verify_speech(accel_endpoint *ep, const accel__golden *g, accel_tensors **out) {
  accel_text_to_speech_params params;
  accel__arena arena = {0};
  accel__generator generator;
  accel__speak_batch batch;
  accel__spoken spoken = {0};
  *out = NULL;
  accel_status status = read_args(g, &params);
  if (status == ACCEL_OK) status = accel__speak_params(ep, &params);
  if (status == ACCEL_OK)
    status = read_batch(g, strcmp(ep->placement.precision, "fp32") != 0, &arena, &batch);
  accel__generator_seed(&generator, params.seed);
  if (status == ACCEL_OK) status = accel__speak(ep, &params, &batch, true, &generator, &spoken);
  if (status == ACCEL_OK) status = collect(ep, g, &spoken, &batch, &arena, out);
  accel__spoken_free(&spoken);
  accel__arena_free(&arena);
  return status;
}
