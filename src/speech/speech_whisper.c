/* speech_whisper.c - sounds through Whisper: features of each window, generate(), and the
 * transcript of its tokens. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "processing/processor.h"
#include "speech/speech.h"
#include "speech/whisper_generate.h"
#include "text/whisper_tokenizer.h"

/* Log-mel features of window i: padded to the encoder's length, or all of a longer sound. */
static accel_status load(void *user, uint32_t i, accel__whisper_features *out) {
  const accel__speech *s = user;
  const accel__window *w = &s->window[i];
  const accel__audio_options how = {.longest = s->params->chunk_length == 0 &&
                                               w->n > s->processor.max_samples};
  accel_tensors *made = NULL;
  ACCEL_TRY(accel__window_tensors(s, w, &how, &made));
  const accel_tensor *t = &made->item[0]; /* [1, mels, frames] */
  const size_t bytes = (size_t)(t->dim[1] * t->dim[2]) * sizeof(float);
  const int64_t hop = s->processor.spectrogram.hop,
                heard = (int64_t)((w->n + (uint64_t)hop - 1) / (uint64_t)hop);
  *out = (accel__whisper_features){malloc(bytes), t->dim[2], t->dim[2],
                                   heard < t->dim[2] ? heard : t->dim[2]};
  if (out->values) memcpy(out->values, t->data, bytes);
  accel__tensors_free(&made);
  return out->values ? ACCEL_OK : accel__no_memory(bytes);
}

/* <|startofprev|>, then the text with a space in front of it; special tokens have no business in
 * it. */
static accel_status encode_prompt(const accel__speech *s, accel__whisper_options *o) {
  const accel__tokenizer *tokenizer = accel__processor_for(s->ep)->tokenizer;
  static const char mark[] = "<|startofprev|>";
  const accel__encode_options how = {.add_special_tokens = false};
  const int32_t previous = accel__token_to_id(tokenizer, mark, sizeof mark - 1);
  accel__encoding enc = {0};
  accel__buffer text = {0};
  if (!s->params->prompt) return ACCEL_OK;
  if (previous < 0)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: the tokenizer has no %s, so prompts cannot be given", s->ep->name,
                       mark);
  const char *from = s->params->prompt, *end = from + strlen(from);
  while (from < end && strchr(" \t\r\n", *from)) from++;
  while (end > from && strchr(" \t\r\n", end[-1])) end--;
  accel__buffer_text(&text, " ");
  accel__buffer_bytes(&text, from, (size_t)(end - from));
  accel_status status = accel__buffer_status(&text);
  if (status == ACCEL_OK) status = accel__encode(tokenizer, text.data, text.n, NULL, 0, &how, &enc);
  int32_t *ids = status == ACCEL_OK ? accel__arena_array(s->arena, enc.n + 1, sizeof *ids) : NULL;
  if (status == ACCEL_OK && !ids) status = ACCEL_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; status == ACCEL_OK && i < enc.n; i++) {
    ids[i + 1] = enc.ids[i];
    if (accel__id_is_special(tokenizer, enc.ids[i]))
      status = accel__fail(ACCEL_ERROR_ARGUMENT, "the prompt holds the special token %s",
                           accel__id_to_token(tokenizer, enc.ids[i], NULL));
  }
  if (status == ACCEL_OK) {
    ids[0] = previous;
    o->prompt = (accel__ids){ids, (uint32_t)enc.n + 1};
  }
  accel__encoding_free(&enc);
  accel__buffer_free(&text);
  return status;
}

/* ---- results ---- */

static bool wants_words(const accel__speech *s) {
  return s->params->timestamps && !strcmp(s->params->timestamps, "word");
}

static accel_status copy_chunks(accel__speech *s, const accel__whisper_text *text,
                                const accel_chunk **out) {
  accel_chunk *list = accel__arena_array(s->arena, text->n, sizeof *list);
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < text->n; i++)
    list[i] = (accel_chunk){text->chunk[i].text, text->chunk[i].start, text->chunk[i].end};
  *out = list;
  return ACCEL_OK;
}

/* Words of segment i. */
static accel_status take_words(accel__speech *s, const accel__whisper_transcript *said, uint32_t i,
                               double precision, accel_speech_segment *to) {
  const accel__whisper_segment *from = &said->segment[i], *last = i ? from - 1 : NULL;
  accel__whisper_text text;
  accel__whisper_piece piece = {
      .ids = from->ids.id, .n = from->ids.n, .times = from->times, .language = said->language};
  if (!from->times) return ACCEL_OK;
  if (last && last->ids.n) piece.before = (double)last->times[last->ids.n - 1];
  ACCEL_TRY(accel__whisper_text_of(accel__processor_for(s->ep)->tokenizer, &piece, 1, true,
                                   precision, s->arena, &text));
  to->n_words = text.n;
  return copy_chunks(s, &text, &to->words);
}

/* All of it but the words. */
static accel_status spell_segment(accel__speech *s, const accel__whisper_segment *from,
                                  accel_speech_segment *to) {
  const accel__tokenizer *tokenizer = accel__processor_for(s->ep)->tokenizer;
  *to = (accel_speech_segment){.start = from->start,
                               .end = from->end,
                               .n = from->ids.n,
                               .ids = from->ids.id,
                               .temperature = from->temperature,
                               .logprob = from->logprob,
                               .compression_ratio = from->compression_ratio,
                               .no_speech = from->no_speech};
  return accel__whisper_spell(tokenizer, from->ids.id, from->ids.n, s->arena, &to->text);
}

static accel_status take_segments(accel__speech *s, const accel__whisper_transcript *said,
                                  double precision, uint32_t sound) {
  accel_speech_segment *list = accel__arena_array(s->arena, said->n, sizeof *list);
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < said->n; i++) {
    ACCEL_TRY(spell_segment(s, &said->segment[i], &list[i]));
    ACCEL_TRY(take_words(s, said, i, precision, &list[i]));
  }
  s->segment[sound] = list;
  s->n_segments[sound] = said->n;
  return ACCEL_OK;
}

/* Ids of all windows of a sound, one after the other. */
static accel_status take_ids(accel__speech *s, const accel__whisper_transcript *said,
                             uint32_t windows, uint32_t sound) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < windows; i++) n += said[i].ids.n;
  int32_t *ids = accel__arena_array(s->arena, n, sizeof *ids);
  if (!ids) return ACCEL_ERROR_OUT_OF_MEMORY;
  s->ids[sound] = ids;
  s->n_ids[sound] = n;
  for (uint32_t i = 0; i < windows; ids += said[i++].ids.n)
    if (said[i].ids.n) memcpy(ids, said[i].ids.id, said[i].ids.n * sizeof *ids);
  return ACCEL_OK;
}

static accel_status take_text(accel__speech *s, const accel__window *w,
                              const accel__whisper_transcript *said, uint32_t windows,
                              double precision) {
  const bool cut = s->params->chunk_length > 0, stamps = s->params->timestamps != NULL,
             words = wants_words(s);
  const double rate = s->processor.rate;
  accel__whisper_text text;
  accel__whisper_piece *piece = accel__arena_array(s->arena, windows, sizeof *piece);
  if (!piece) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < windows; i++)
    piece[i] = (accel__whisper_piece){.ids = said[i].ids.id,
                                      .n = said[i].ids.n,
                                      .times = said[i].times,
                                      .language = words ? said[i].language : NULL,
                                      .window = cut,
                                      .length = (double)w[i].n / rate,
                                      .left = (double)w[i].left / rate,
                                      .right = (double)w[i].right / rate};
  ACCEL_TRY(accel__whisper_text_of(accel__processor_for(s->ep)->tokenizer, piece, windows, stamps,
                                   precision, s->arena, &text));
  s->text[w->sound] = text.text;
  s->n_chunks[w->sound] = stamps ? text.n : 0;
  s->language[w->sound] = said->language;
  return copy_chunks(s, &text, &s->chunk[w->sound]);
}

static accel_status take_all(accel__speech *s, const accel__whisper_plan *plan,
                             const accel__whisper_transcript *said) {
  /* as the pipeline has it: seconds of the extractor's chunk over the encoder's positions */
  const double precision =
      (double)s->processor.max_samples / s->processor.rate / ((double)plan->frames / 2);
  for (uint32_t first = 0, next; first < s->n_windows; first = next) {
    const uint32_t sound = s->window[first].sound;
    for (next = first + 1; next < s->n_windows && s->window[next].sound == sound;) next++;
    ACCEL_TRY(take_ids(s, said + first, next - first, sound));
    ACCEL_TRY(take_text(s, &s->window[first], said + first, next - first, precision));
    if (s->params->chunk_length == 0) ACCEL_TRY(take_segments(s, said + first, precision, sound));
  }
  return ACCEL_OK;
}

/* ---- the way ---- */

/* Who listens counts sounds, not windows. */
static int tell(void *user, const accel_token_event *event) {
  const accel__speech *s = user;
  accel_token_event mine = *event;
  mine.prompt = s->window[event->prompt].sound;
  return s->params->generate->on_token(s->params->generate->on_token_user, &mine);
}

/* A sound that had to be begun anew tells nothing twice. */
static accel_status tell_segment(void *user, uint32_t sound, uint32_t index,
                                 const accel__whisper_segment *segment) {
  accel__speech *s = user;
  const accel_transcribe_params *p = s->params;
  accel_speech_segment told;
  if (index < s->told[sound]) return ACCEL_OK;
  ACCEL_TRY(spell_segment(s, segment, &told));
  s->told[sound] = index + 1;
  if (!p->on_segment(p->on_segment_user, sound, index, &told)) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_CANCELLED, "the transcription was cancelled");
}

static accel_status check(const accel__speech *s, const accel__whisper_plan *plan) {
  const accel__audio_processor *p = &s->processor;
  const char *stamps = s->params->timestamps;
  if (stamps && !strcmp(stamps, "char"))
    return accel__remedy(accel__fail(ACCEL_ERROR_ARGUMENT,
                                     "%s: Whisper tells no timestamps of characters", s->ep->name),
                         "ask for timestamps of words or segments");
  if (p->kind != ACCEL__EXTRACT_WHISPER || p->bank.mels != plan->mels ||
      accel__spectrogram_frames(&p->spectrogram, p->max_samples) - 1 != plan->frames)
    return accel__fail(
        ACCEL_ERROR_FORMAT,
        "%s: the feature extractor gives %d mels and %lld frames; the encoder takes %lld and %lld",
        s->ep->name, p->bank.mels,
        (long long)accel__spectrogram_frames(&p->spectrogram, p->max_samples) - 1,
        (long long)plan->mels, (long long)plan->frames);
  return ACCEL_OK;
}

accel_status accel__speech_by_whisper(accel__speech *s) {
  const accel_transcribe_params *p = s->params;
  const accel_generate_params none = accel__generate_defaults();
  accel__whisper_options options = {.language = p->language,
                                    .task = p->task,
                                    .timestamps = p->timestamps ? 1 : -1,
                                    .prompt_always = p->prompt_all_segments > 0,
                                    .condition = p->condition_on_previous,
                                    .compression_ratio = p->compression_ratio_threshold,
                                    .logprob = p->logprob_threshold,
                                    .no_speech = p->no_speech_threshold,
                                    .temperature = p->temperature,
                                    .n_temperature = p->n_temperature,
                                    .token_times = wants_words(s),
                                    .together = accel__processor_for(s->ep)->batch_size};
  accel__whisper_plan plan = {0};
  if (p->generate && p->generate->on_token) {
    options.on_token = tell;
    options.on_token_user = s;
  }
  if (p->on_segment && p->chunk_length == 0) { /* then windows are sounds */
    options.on_segment = tell_segment;
    options.on_segment_user = s;
  }
  ACCEL_TRY(accel__processor_check(s->ep, "automatic-speech-recognition"));
  ACCEL_TRY(encode_prompt(s, &options));
  accel__whisper_transcript *said = accel__arena_array(s->arena, s->n_windows, sizeof *said);
  accel_status status =
      said ? accel__whisper_plan_make(s->ep, p->generate ? p->generate : &none, &options, &plan)
           : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = check(s, &plan);
  if (status == ACCEL_OK)
    status = accel__whisper_run(s->ep, &plan, load, s, s->n_windows, s->arena, said);
  if (status == ACCEL_OK) status = take_all(s, &plan, said);
  accel__whisper_plan_free(&plan);
  return status;
}
