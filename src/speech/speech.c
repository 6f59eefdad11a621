/* speech.c - transformers' pipeline automatic-speech-recognition: sounds read, cut into windows
 * where that is asked for, and the labels of their frames read as text (CTC). */
#include "speech/speech.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "processing/item_run.h"
#include "processing/processor.h"
#include "processing/scores.h"
#include "processing/result.h"
#include "speech/whisper_generate.h"
#include "text/ctc.h"

/* ---- windows ---- */

/* Samples of one frame of labels (inputs_to_logits_ratio), of which windows are whole multiples; 1
 * of models that generate. */
static accel_status frame_samples(const accel_endpoint *ep, double *out) {
  const accel__json *strides = NULL;
  *out = 1;
  if (accel__is_whisper(ep) || accel__hears_whole(ep)) return ACCEL_OK;
  ACCEL_TRY(accel__json_array(&ep->config, ep->config.root, "conv_stride", &strides));
  if (!strides) *out = 320; /* the class's default: 5 2 2 2 2 2 2 */
  ACCEL_JSON_EACH(item, strides) *out *= item->valuedouble;
  return ACCEL_OK;
}

typedef struct cut {
  uint64_t length, left, right; /* samples; length 0: sounds stay whole */
} cut;

static accel_status read_cut(const accel__speech *s, cut *out) {
  const accel_transcribe_params *p = s->params;
  const double rate = s->processor.rate,
               left = isnan(p->stride_left) ? p->chunk_length / 6 : p->stride_left,
               right = isnan(p->stride_right) ? p->chunk_length / 6 : p->stride_right;
  double frame;
  *out = (cut){0};
  if (p->chunk_length == 0) return ACCEL_OK;
  ACCEL_TRY(frame_samples(s->ep, &frame));
  *out = (cut){(uint64_t)(nearbyint(p->chunk_length * rate / frame) * frame),
               (uint64_t)(nearbyint(left * rate / frame) * frame),
               (uint64_t)(nearbyint(right * rate / frame) * frame)};
  if (out->length > out->left + out->right) return ACCEL_OK;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_ARGUMENT, "a chunk of %g s has no room beside strides of %g and %g s",
                  p->chunk_length, left, right),
      "give a longer chunk, or shorter strides");
}

static uint64_t windows_of(const accel__sound *sound, const cut *c) {
  return c->length ? sound->frames / (c->length - c->left - c->right) + 1 : 1;
}

static accel_status cut_sounds(accel__speech *s) {
  cut c;
  uint64_t windows = 0;
  ACCEL_TRY(read_cut(s, &c));
  for (uint32_t i = 0; i < s->n; i++) windows += windows_of(&s->sound[i], &c);
  if (windows > UINT32_MAX)
    return accel__fail(ACCEL_ERROR_LIMIT, "the chunks are too short: there are %llu",
                       (unsigned long long)windows);
  s->window = accel__arena_array(s->arena, windows, sizeof *s->window);
  if (!s->window) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < s->n; i++) {
    const uint64_t all = s->sound[i].frames;
    bool last = !c.length;
    if (last) s->window[s->n_windows++] = (accel__window){.sound = i, .n = all};
    for (uint64_t from = 0; !last; from += c.length - c.left - c.right) {
      last = from + c.length >= all;
      accel__window w = {i, from, last ? all - from : c.length, from ? c.left : 0,
                         last ? 0 : c.right};
      if (w.n > w.left) s->window[s->n_windows++] = w;
    }
  }
  return ACCEL_OK;
}

accel_status accel__window_tensors(const accel__speech *s, const accel__window *w,
                                   const accel__audio_options *options, accel_tensors **out) {
  const accel__sound *whole = &s->sound[w->sound];
  const accel__sound part = {
      .samples = whole->samples + w->from, .frames = w->n, .rate = whole->rate};
  return accel__sound_tensors(&s->processor, &part, 1, options, s->ep->ctx->pool, out);
}

/* ---- labels of frames ---- */

/* Labels of the frames of a window that no neighbour has. */
typedef struct frame_labels {
  int64_t *ids; /* [n] */
  int64_t n;
} frame_labels;

typedef struct ctc_job {
  accel__speech *s;
  accel__tokenizer *tokenizer;
  double frame;         /* samples of one frame of labels */
  frame_labels *window; /* [s->n_windows] */
} ctc_job;

static accel_status keep_labels(const ctc_job *j, const accel__window *w,
                                const accel_tensor *logits, frame_labels *to) {
  int64_t frames = logits->dim[1], first = 0;
  const int64_t labels = logits->dim[2];
  if (j->s->params->chunk_length > 0) { /* overlaps in frames (rescale_stride) */
    const double all = nearbyint((double)w->n / j->frame);
    first = (int64_t)nearbyint((double)w->left / (double)w->n * all);
    const int64_t end = (int64_t)(all - nearbyint((double)w->right / (double)w->n * all));
    if (end < frames) frames = end;
  }
  if (frames <= first) return ACCEL_OK;
  to->ids = malloc((size_t)(frames - first) * sizeof *to->ids);
  if (!to->ids) return accel__no_memory((size_t)(frames - first) * sizeof *to->ids);
  for (int64_t f = first; f < frames; f++)
    to->ids[to->n++] =
        (int64_t)accel__argmax((const float *)logits->data + f * labels, (size_t)labels);
  return ACCEL_OK;
}

/* The labels of n windows, one behind the other. */
static accel_status join_windows(const frame_labels *window, uint32_t n, frame_labels *out) {
  size_t all = 0;
  for (uint32_t i = 0; i < n; i++) all += (size_t)window[i].n;
  *out = (frame_labels){.ids = malloc((all + 1) * sizeof *out->ids)};
  if (!out->ids) return accel__no_memory(all * sizeof *out->ids);
  for (uint32_t i = 0; i < n; i++) {
    if (window[i].n)
      memcpy(out->ids + out->n, window[i].ids, (size_t)window[i].n * sizeof *out->ids);
    out->n += window[i].n;
  }
  return ACCEL_OK;
}

static accel_status read_labels(const ctc_job *j, const frame_labels *labels, uint32_t sound) {
  accel__speech *s = j->s;
  const char *stamps = s->params->timestamps;
  const double seconds = j->frame / s->processor.rate;
  accel__ctc_text found;
  ACCEL_TRY(accel__ctc_decode(j->tokenizer, labels->ids, labels->n,
                              stamps && !strcmp(stamps, "word"), s->arena, &found));
  s->text[sound] = found.text;
  s->n_chunks[sound] = stamps ? found.n : 0;
  accel_chunk *list = accel__arena_array(s->arena, s->n_chunks[sound], sizeof *list);
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < s->n_chunks[sound]; i++)
    list[i] = (accel_chunk){found.piece[i].text, (double)found.piece[i].begin * seconds,
                            (double)found.piece[i].end * seconds};
  s->chunk[sound] = list;
  return ACCEL_OK;
}

static accel_status run_window(void *user, accel_endpoint *ep, uint32_t i, void **found) {
  static const char *const names[] = {"logits"};
  const accel__speech *s = ((const ctc_job *)user)->s;
  accel_tensors *in = NULL, *out = NULL;
  accel_status status = accel__window_tensors(s, &s->window[i], NULL, &in);
  if (status == ACCEL_OK) status = accel__run_padded(ep, in, names, 1, &out);
  accel__tensors_free(&in);
  *found = out;
  return status;
}

static accel_status take_window(void *user, uint32_t i, void *found) {
  const ctc_job *j = user;
  accel_tensors *out = found;
  const accel_status status = keep_labels(j, &j->s->window[i], &out->item[0], &j->window[i]);
  accel__tensors_free(&out);
  return status;
}

static uint64_t samples_of(void *user, uint32_t i) {
  return ((const ctc_job *)user)->s->window[i].n;
}

static accel_status read_windows(const ctc_job *j) {
  const accel__speech *s = j->s;
  for (uint32_t first = 0, end; first < s->n_windows; first = end) {
    frame_labels labels;
    for (end = first + 1; end < s->n_windows && s->window[end].sound == s->window[first].sound;)
      end++;
    accel_status status = join_windows(j->window + first, end - first, &labels);
    if (status == ACCEL_OK) status = read_labels(j, &labels, s->window[first].sound);
    free(labels.ids);
    ACCEL_TRY(status);
  }
  return ACCEL_OK;
}

static accel_status run_windows(ctc_job *j) {
  const uint32_t n = j->s->n_windows;
  j->window = calloc((size_t)n + 1, sizeof *j->window);
  if (!j->window) return accel__no_memory(n * sizeof *j->window);
  accel_status status = accel__run_items(j->s->ep, &(accel__item_run){.n = n,
                                                                      .what = "transcribing",
                                                                      .cost = samples_of,
                                                                      .run = run_window,
                                                                      .take = take_window,
                                                                      .user = j});
  if (status == ACCEL_OK) status = read_windows(j);
  for (uint32_t i = 0; i < n; i++) free(j->window[i].ids);
  free(j->window);
  return status;
}

static accel_status refuse(const accel__speech *s, const char *what) {
  return accel__fail(ACCEL_ERROR_ARGUMENT,
                     "%s: %s is for models that generate (Whisper); a %s labels frames",
                     s->ep->name, what, s->ep->model->architecture);
}

accel_status accel__speech_by_ctc(accel__speech *s) {
  const accel_transcribe_params *p = s->params;
  ctc_job job = {.s = s};
  if (p->language) return refuse(s, "language");
  if (p->task) return refuse(s, "task");
  if (p->prompt) return refuse(s, "prompt");
  if (p->timestamps && !strcmp(p->timestamps, "segment")) return refuse(s, "timestamps 'segment'");
  ACCEL_TRY(accel__characters_load(s->ep->directory, &job.tokenizer));
  accel_status status = frame_samples(s->ep, &job.frame);
  if (status == ACCEL_OK) status = run_windows(&job);
  accel__tokenizer_free(&job.tokenizer);
  return status;
}

/* ---- the task ---- */

static accel_status allocate_results(accel__speech *s) {
  s->text = accel__arena_array(s->arena, s->n, sizeof *s->text);
  s->language = accel__arena_array(s->arena, s->n, sizeof *s->language);
  s->n_chunks = accel__arena_array(s->arena, s->n, sizeof *s->n_chunks);
  s->n_segments = accel__arena_array(s->arena, s->n, sizeof *s->n_segments);
  s->n_ids = accel__arena_array(s->arena, s->n, sizeof *s->n_ids);
  s->chunk = accel__arena_array(s->arena, s->n, sizeof *s->chunk);
  s->segment = accel__arena_array(s->arena, s->n, sizeof *s->segment);
  s->ids = accel__arena_array(s->arena, s->n, sizeof *s->ids);
  s->seconds = accel__arena_array(s->arena, s->n, sizeof *s->seconds);
  s->sound = accel__arena_array(s->arena, s->n, sizeof *s->sound);
  s->told = accel__arena_array(s->arena, s->n, sizeof *s->told);
  return s->text && s->language && s->n_chunks && s->n_segments && s->n_ids && s->chunk &&
                 s->segment && s->ids && s->seconds && s->sound && s->told
             ? ACCEL_OK
             : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status read_sounds(accel__speech *s, const accel_media *sounds) {
  const char *directory;
  ACCEL_TRY(accel__task_check(s->ep, "automatic-speech-recognition"));
  ACCEL_TRY(accel__media_directory(s->ep, &directory));
  ACCEL_TRY(accel__audio_processor_load(directory, &s->processor));
  ACCEL_TRY(allocate_results(s));
  for (uint32_t i = 0; i < s->n; i++) {
    ACCEL_TRY(
        accel__media_sound(&sounds[i], s->processor.rate, s->params->max_seconds, &s->sound[i]));
    if (!s->sound[i].frames)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: has no samples", sounds[i].name);
    s->seconds[i] = (double)s->sound[i].frames / s->processor.rate;
  }
  return cut_sounds(s);
}

accel_status accel__transcribe(accel_endpoint *ep, const accel_media *sounds, uint32_t n,
                               const accel_transcribe_params *params, accel_transcripts **out) {
  accel_transcripts *result = accel__task_result(sizeof *result);
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_transcribe_params mine = *params;
  if (mine.timestamps && !strcmp(mine.timestamps, "auto"))
    mine.timestamps = accel__hears_whole(ep) ? NULL : accel__is_whisper(ep) ? "segment" : "word";
  accel__speech s = {.ep = ep, .params = &mine, .n = n, .arena = accel__task_arena(result)};
  accel_status status = read_sounds(&s, sounds);
  if (status == ACCEL_OK)
    status = accel__is_whisper(ep)    ? accel__speech_by_whisper(&s)
             : accel__hears_whole(ep) ? accel__speech_by_generation(&s)
                                      : accel__speech_by_ctc(&s);
  for (uint32_t i = 0; s.sound && i < n; i++) accel__sound_free(&s.sound[i]);
  accel__audio_processor_free(&s.processor);
  *result = (accel_transcripts){.n = n,
                                .text = s.text,
                                .count = s.n_chunks,
                                .chunk = s.chunk,
                                .language = s.language,
                                .segments = s.n_segments,
                                .segment = s.segment,
                                .n_ids = s.n_ids,
                                .ids = s.ids,
                                .seconds = s.seconds};
  *out = accel__task_finish(result, status);
  return status;
}
