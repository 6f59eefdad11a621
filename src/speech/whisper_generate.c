/* whisper_generate.c - sounds through Whisper side by side: encode a segment, generate it, judge
 * it, go on where it ended. */
#include "speech/whisper_generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "processing/processor.h"
#include "speech/whisper_align.h"
#include "models/model_build.h"

/* Fixed in generate(): seconds of a timestamp, frames of one, seconds of a frame. */
static const double TIMESTAMP = 0.02, FRAME = 0.01;
enum { STRIDE = 2, TOGETHER = 8 };

/* One sound on its way. */
typedef struct job {
  uint32_t number;
  bool active, timestamps, condition;
  accel__whisper_features sound;
  int64_t seek, span; /* frames: where the segment begins, and how many it has */
  accel__ids begin;   /* its own: the language may have been detected */
  int32_t detect;
  int64_t max_length; /* as generate() lets it grow */
  int32_t base;       /* sequence with the encoder's states of the segment; -1 none */
  float *input;       /* [mels, frames] of it */
  int32_t *prompt;    /* [n_prompt] */
  uint32_t n_prompt, attempt;
  double no_speech;
  accel__generate_config config;
  accel__request request;
  accel__whisper_segment *segment; /* [n] malloc'd; ids in the arena */
  uint32_t n, capacity;
} job;

typedef struct run {
  accel_endpoint *ep;
  const accel__whisper_plan *plan;
  accel__session *session;
  accel__model_stepper stepper;
  accel__engine engine;
  accel__arena *arena;
  uint32_t n, done;
} run;

/* ---- the plan ---- */

bool accel__is_whisper(const accel_endpoint *ep) {
  return !strcmp(ep->model->model_type, "whisper") && accel__model_entry_of(ep->model, "decode");
}

static void choose(double *own, double files) {
  if (isnan(*own)) *own = files;
}

static accel_status check_plan(const accel_endpoint *ep, const accel__whisper_plan *plan) {
  const accel__whisper_options *o = &plan->options;
  if (!isnan(o->no_speech) && isnan(o->logprob))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: no_speech_threshold needs logprob_threshold, with which it is combined",
                       ep->name);
  if (!isnan(o->no_speech) && plan->config.no_timestamps < 1)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no_speech_threshold needs no_timestamps_token_id",
                       plan->config.file);
  if (o->timestamps == 1 && plan->config.no_timestamps < 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: has no no_timestamps_token_id, so there are no timestamps",
                       plan->config.file);
  if (o->token_times) ACCEL_TRY(accel__align_check(ep));
  if (o->prompt_always && o->condition != 1)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: a prompt for all segments needs conditioning on what was said before",
                       ep->name);
  for (uint32_t i = 0; i < o->n_temperature; i++)
    if (!(o->temperature[i] >= 0 && o->temperature[i] <= 1000))
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: temperature %g; from 0 to 1000", ep->name,
                         o->temperature[i]);
  return ACCEL_OK;
}

/* [1, mels, frames] of the encoder's input. */
static accel_status read_shape(const accel_endpoint *ep, accel__whisper_plan *plan) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel__model_entry *e = accel__model_entry_of(ep->model, "encode");
  const accel_plugin_tensor *t = e && e->n_inputs ? &p->tensor[e->inputs[0].tensor] : NULL;
  if (!t || t->rank != 3)
    return accel__fail(ACCEL_ERROR_INTERNAL, "%s: no features to encode", ep->name);
  plan->mels = p->dim[t->dim[1]].c;
  plan->frames = p->dim[t->dim[2]].c;
  plan->positions = ep->model->max_positions;
  return ACCEL_OK;
}

static accel_status fill_options(const accel_endpoint *ep, accel__whisper_plan *plan) {
  const accel__whisper_config *c = &plan->config;
  accel__whisper_options *o = &plan->options;
  const int64_t vocab = ep->model->vocab_size;
  int64_t start = plan->generate.config.decoder_start;
  if (start < 0) start = ep->model->decoder_start_id;
  if (start < 0 || start >= vocab)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: no decoder_start_token_id, or one beyond the vocabulary", c->file);
  if (o->timestamps < 0) o->timestamps = c->return_timestamps;
  if (o->condition < 0) o->condition = c->condition_on_previous;
  choose(&o->compression_ratio, c->compression_ratio);
  choose(&o->logprob, c->logprob);
  choose(&o->no_speech, c->no_speech);
  for (uint32_t i = 0; i < o->prompt.n; i++)
    if (o->prompt.id[i] < 0 || o->prompt.id[i] >= vocab)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: the prompt holds token %d; the model's are 0 to %lld", ep->name,
                         o->prompt.id[i], (long long)vocab - 1);
  for (int with = 0; with < 2; with++)
    ACCEL_TRY(accel__whisper_begin(c, o->language, o->task, with, start, &plan->generate.arena,
                                   &plan->begin[with], &plan->detect[with]));
  return check_plan(ep, plan);
}

accel_status accel__whisper_plan_make(const accel_endpoint *ep, const accel_generate_params *params,
                                      const accel__whisper_options *options,
                                      accel__whisper_plan *plan) {
  accel__json_file file = {0};
  *plan = (accel__whisper_plan){.options = *options};
  if (params->grammar_kind != ACCEL_GRAMMAR_NONE)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: transcripts take no grammar", ep->name);
  ACCEL_TRY(accel__generate_plan_make(ep, params, &plan->generate));
  ACCEL_TRY(accel__generation_file(ep->directory, &file));
  accel_status status =
      accel__whisper_config_read(file.root ? &file : NULL, &ep->config, ep->model->vocab_size,
                                 &plan->generate.arena, &plan->config);
  accel__json_free(&file);
  if (status == ACCEL_OK) status = read_shape(ep, plan);
  if (status == ACCEL_OK) status = fill_options(ep, plan);
  return status;
}

void accel__whisper_plan_free(accel__whisper_plan *plan) {
  accel__generate_plan_free(&plan->generate);
}

/* ---- what the encoder sees, and steps beside the engine ---- */

static accel_status encode_segment(run *r, job *j) {
  const accel__stepper *model = &r->stepper.stepper;
  const int64_t mels = r->plan->mels, frames = r->plan->frames;
  j->span = j->sound.frames - j->seek < frames ? j->sound.frames - j->seek : frames;
  memset(j->input, 0, (size_t)(mels * frames) * sizeof *j->input);
  for (int64_t m = 0; m < mels; m++)
    memcpy(j->input + m * frames, j->sound.values + m * j->sound.width + j->seek,
           (size_t)j->span * sizeof *j->input);
  const accel_tensor features = {"input_features", ACCEL_F32, 3, {1, mels, frames}, j->input};
  if ((j->base = model->number(model->self)) < 0) return accel__no_memory(0);
  const accel__encoder_input input = {.tensor = &features, .n_tensors = 1};
  const accel__encode_item item = {
      .sequence = j->base, .input = &input, .adapter = r->plan->generate.adapter};
  return model->encode(model->self, &item, 1);
}

static void drop_base(run *r, job *j) {
  if (j->base >= 0) r->stepper.stepper.drop(r->stepper.stepper.self, j->base);
  j->base = -1;
}

/* Scores after ids[n], the first the decoder reads; valid until the next step. */
static accel_status scores_after(run *r, const job *j, const int32_t *ids, uint32_t n,
                                 float **scores) {
  const accel__stepper *model = &r->stepper.stepper;
  accel__step_item item = {.sequence = model->number(model->self),
                           .ids = ids,
                           .n = n,
                           .adapter = r->plan->generate.adapter};
  if (item.sequence < 0) return accel__no_memory(0);
  accel_status status = model->copy(model->self, j->base, item.sequence);
  if (status == ACCEL_OK) status = model->step(model->self, &item, 1);
  model->drop(model->self, item.sequence);
  *scores = item.scores;
  return status;
}

/* The likeliest language after the start token. */
static accel_status detect_language(run *r, job *j) {
  const accel__whisper_config *c = &r->plan->config;
  float *scores;
  if (j->detect < 0) return ACCEL_OK;
  int32_t *ids = accel__arena_array(r->arena, j->begin.n, sizeof *ids), best = c->language[0].id;
  if (!ids) return ACCEL_ERROR_OUT_OF_MEMORY;
  memcpy(ids, j->begin.id, j->begin.n * sizeof *ids);
  ACCEL_TRY(scores_after(r, j, ids, 1, &scores));
  for (uint32_t i = 0; i < c->n_languages; i++) {
    const int32_t id = c->language[i].id;
    if (scores[id] > scores[best] || (scores[id] == scores[best] && id < best)) best = id;
  }
  ids[j->detect] = best;
  j->begin.id = ids;
  j->detect = -1;
  return ACCEL_OK;
}

/* How likely the start of the transcript was followed by "no speech". */
static accel_status hear_silence(run *r, job *j) {
  const size_t vocab = r->stepper.stepper.vocab;
  float *scores;
  j->no_speech = NAN;
  if (isnan(r->plan->options.no_speech)) return ACCEL_OK;
  ACCEL_TRY(scores_after(r, j, j->prompt, j->n_prompt - j->begin.n + 1, &scores));
  j->no_speech = exp(scores[r->plan->config.no_timestamps - 1] - accel__log_sum_exp(scores, vocab));
  return ACCEL_OK;
}

/* ---- prompts ---- */

/* Ids of a segment as part of the past: the second of two timestamps at its end belongs to what
 * comes. */
static uint32_t past_length(const run *r, accel__ids ids) {
  const int64_t begin = r->plan->config.no_timestamps;
  return begin >= 0 && ids.n > 2 && ids.id[ids.n - 2] > begin ? ids.n - 1 : ids.n;
}

static int64_t start_of_previous(const accel__whisper_plan *plan) {
  const accel__ids suppress = plan->generate.config.suppress;
  if (plan->config.prev_sot >= 0) return plan->config.prev_sot;
  /* as the class has it for older files */
  return suppress.n >= 2 ? suppress.id[suppress.n - 2] : -1;
}

/* The past of the sound: the prompt where it counts as its beginning, then all segments; its end is
 * kept. */
static accel_status past_of(run *r, const job *j, int32_t **out, uint32_t *n) {
  const accel__whisper_options *o = &r->plan->options;
  const uint32_t most = (uint32_t)(r->plan->positions / 2 - 1);
  accel__ids first = o->prompt_always ? (accel__ids){0} : o->prompt;
  if (first.n && first.id[0] == r->plan->config.prev_sot)
    first = (accel__ids){first.id + 1, first.n - 1};
  uint64_t all = first.n;
  for (uint32_t i = 0; i < j->n; i++) all += j->segment[i].ids.n;
  int32_t *ids = *out = malloc((all + 1) * sizeof *ids);
  if (!ids) return accel__no_memory(all * sizeof *ids);
  *n = past_length(r, first);
  if (*n) memcpy(ids, first.id, *n * sizeof *ids);
  for (uint32_t i = 0; i < j->n; i++) {
    const uint32_t more = past_length(r, j->segment[i].ids);
    memcpy(ids + *n, j->segment[i].ids.id, more * sizeof *ids);
    *n += more;
  }
  if (*n > most) {
    memmove(ids, ids + *n - most, most * sizeof *ids);
    *n = most;
  }
  return ACCEL_OK;
}

/* What the decoder begins a segment with: the past or the prompt, then the first tokens. */
static accel_status make_prompt(run *r, job *j) {
  const accel__whisper_options *o = &r->plan->options;
  const bool conditioned = j->condition && (j->n || (o->prompt.n && !o->prompt_always));
  const int64_t previous = start_of_previous(r->plan);
  int32_t *past = NULL;
  uint32_t n_past = 0, n = 0;
  if (conditioned) ACCEL_TRY(past_of(r, j, &past, &n_past));
  free(j->prompt);
  j->prompt = malloc(((size_t)n_past + o->prompt.n + 1 + j->begin.n) * sizeof *j->prompt);
  if (!j->prompt) {
    free(past);
    return accel__no_memory(n_past * sizeof *past);
  }
  if (o->prompt.n && (!conditioned || o->prompt_always)) {
    memcpy(j->prompt, o->prompt.id, o->prompt.n * sizeof *past);
    n = o->prompt.n;
  } else if (conditioned && previous >= 0) {
    j->prompt[n++] = (int32_t)previous;
  }
  if (n_past) memcpy(j->prompt + n, past, n_past * sizeof *past);
  memcpy(j->prompt + n + n_past, j->begin.id, j->begin.n * sizeof *past);
  j->n_prompt = n + n_past + j->begin.n;
  free(past);
  return ACCEL_OK;
}

/* How many tokens may come after the prompt. */
static accel_status most_new_tokens(const run *r, job *j, uint32_t *out) {
  const accel__generate_config *c = &r->plan->generate.config;
  const int64_t positions = r->plan->positions, half = positions / 2 - 1;
  int64_t most = positions - j->n_prompt;
  if (c->max_new_tokens >= 0) {
    if (c->max_new_tokens > most)
      return accel__remedy(
          accel__fail(
              ACCEL_ERROR_LIMIT,
              "%s: max_new_tokens is %lld after %u tokens of prompt; the model has room for %lld",
              r->ep->name, (long long)c->max_new_tokens, j->n_prompt, (long long)positions),
          "shorten the prompt, or ask for fewer new tokens");
    most = c->max_new_tokens;
  } else if (j->max_length >= 0) {
    j->max_length += half < j->n_prompt ? half : j->n_prompt;
    if (j->max_length > positions) j->max_length = positions;
    most = j->max_length - j->n_prompt;
  }
  if (most < 1)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_LIMIT, "%s: a prompt of %u tokens leaves no room for a transcript",
                    r->ep->name, j->n_prompt),
        "shorten the prompt");
  *out = (uint32_t)most;
  return ACCEL_OK;
}

/* ---- one attempt at a segment ---- */

static double temperature_of(const run *r, const job *j) {
  const accel__whisper_options *o = &r->plan->options;
  return o->n_temperature ? o->temperature[j->attempt] : 0;
}

static accel_status begin_attempt(run *r, job *j) {
  const accel__whisper_options *o = &r->plan->options;
  const double temperature = temperature_of(r, j);
  uint32_t new_tokens = j->request.options.new_tokens;
  if (j->attempt == 0) ACCEL_TRY(most_new_tokens(r, j, &new_tokens));
  j->config = r->plan->generate.config;
  j->config.do_sample = temperature > 0;
  j->config.temperature = temperature > 0 ? temperature : 1;
  if (j->config.do_sample) j->config.num_beams = 1;
  j->config.num_return = 1;
  j->config.seed += (uint64_t)j->seek * 64 + j->attempt; /* chance of its own for every attempt */
  if (j->timestamps) {
    j->config.first_timestamp = r->plan->config.no_timestamps + 1;
    j->config.max_initial_timestamp = r->plan->config.max_initial_timestamp;
  }
  j->request = (accel__request){.options.config = &j->config,
                                .input.prompt = {j->prompt, j->n_prompt},
                                .input.encodes = true,
                                .options.new_tokens = new_tokens,
                                .options.want_sum = !isnan(o->logprob),
                                .input.number = j->number,
                                .options.on_token = o->on_token,
                                .options.on_token_user = o->on_token_user,
                                .start.sequence = j->base,
                                .start.forks = true};
  ACCEL_TRY(accel__request_begin(&j->request));
  accel__engine_join(&r->engine, &j->request);
  return ACCEL_OK;
}

static accel_status begin_segment(run *r, job *j) {
  ACCEL_TRY(encode_segment(r, j));
  ACCEL_TRY(detect_language(r, j));
  ACCEL_TRY(make_prompt(r, j));
  ACCEL_TRY(hear_silence(r, j));
  j->attempt = 0;
  return begin_attempt(r, j);
}

/* Bytes of the tokens against their bytes once compressed, as generate() writes them down. */
static accel_status compression_of(const int32_t *ids, uint32_t n, int64_t vocab, double *out) {
  const uint32_t width = (uint32_t)(log2((double)vocab) / 8) + 1;
  const uLong bytes = (uLong)n * width;
  uLongf packed = compressBound(bytes);
  Bytef *raw = malloc(bytes + packed + 1);
  if (!raw) return accel__no_memory(bytes);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < width; k++) raw[i * width + k] = (Bytef)((uint32_t)ids[i] >> 8 * k);
  const int rc = compress(raw + bytes, &packed, raw, bytes);
  free(raw);
  if (rc != Z_OK) return accel__no_memory(packed);
  *out = (double)bytes / (double)packed;
  return ACCEL_OK;
}

/* Of trailing padding only an end of text stays. */
static uint32_t unpadded(const accel__generate_config *c, const int32_t *ids, uint32_t n) {
  uint32_t padding = 0;
  if (!n || c->pad < 0 || ids[n - 1] != c->pad) return n;
  for (uint32_t i = 0; i < n; i++) padding += ids[i] == c->pad;
  return n - padding + accel__is_eos(c, (int32_t)c->pad);
}

static accel_status judge(const run *r, const job *j, const accel__hypothesis *h,
                          const int32_t *ids, uint32_t n, accel__whisper_segment *out, bool *again,
                          bool *skip) {
  const accel__whisper_options *o = &r->plan->options;
  *again = *skip = false;
  out->compression_ratio = out->logprob = NAN;
  if (!isnan(o->compression_ratio)) {
    ACCEL_TRY(compression_of(ids, n, r->ep->model->vocab_size, &out->compression_ratio));
    *again |= out->compression_ratio > o->compression_ratio;
  }
  if (!isnan(o->logprob)) {
    out->logprob = j->config.num_beams > 1 ? (double)h->score : h->sum / (n ? n : 1);
    *again |= out->logprob < o->logprob;
  }
  out->no_speech = j->no_speech;
  if (!isnan(o->no_speech) && out->logprob < o->logprob && j->no_speech > o->no_speech) {
    *again = false;
    *skip = true;
  }
  return ACCEL_OK;
}

/* ---- segments ---- */

/* `like` has all ids of the run, of which ids[n] are a part, and their times. */
static accel_status add_segment(run *r, job *j, const accel__whisper_segment *like, double start,
                                double end, const int32_t *ids, uint32_t n) {
  if (j->n == j->capacity) {
    uint32_t capacity = 2 * j->capacity + 8;
    accel__whisper_segment *more = realloc(j->segment, capacity * sizeof *more);
    if (!more) return accel__no_memory(capacity * sizeof *more);
    j->segment = more;
    j->capacity = capacity;
  }
  int32_t *copy = accel__arena_array(r->arena, n, sizeof *copy);
  if (!copy) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (n) memcpy(copy, ids, n * sizeof *copy);
  j->segment[j->n] = *like;
  j->segment[j->n].start = start;
  j->segment[j->n].end = end;
  if (like->times) j->segment[j->n].times = like->times + (ids - like->ids.id);
  j->segment[j->n++].ids = (accel__ids){copy, n};
  return ACCEL_OK;
}

/* Without two timestamps in a row all of it is one segment. */
static accel_status one_segment(run *r, job *j, const accel__whisper_segment *like,
                                const int32_t *ids, uint32_t n, int64_t begin) {
  const double offset = (double)j->seek * TIMESTAMP / STRIDE;
  double last = (double)(int64_t)((float)j->span * (float)FRAME / (float)TIMESTAMP);
  uint32_t i = n;
  while (i > 0 && ids[i - 1] < begin) i--;
  if (i > 0 && ids[i - 1] != begin) last = ids[i - 1] - begin;
  j->seek += j->span;
  return add_segment(r, j, like, offset, offset + last * TIMESTAMP, ids, n);
}

/* Cuts ids[n] where two timestamps meet, and moves on to the end of what is finished. */
static accel_status take_segments(run *r, job *j, const accel__whisper_segment *like,
                                  const int32_t *ids, uint32_t n) {
  const int64_t begin =
      r->plan->config.no_timestamps >= 0 ? r->plan->config.no_timestamps + 1 : INT32_MAX;
  const double offset = (double)j->seek * TIMESTAMP / STRIDE;
  /* nothing is said after it */
  const bool single = n >= 2 && ids[n - 2] < begin && ids[n - 1] >= begin;
  uint32_t from = 0, last_cut = 0;
  for (uint32_t i = 1; i < n; i++)
    if (ids[i - 1] >= begin && ids[i] >= begin) last_cut = i;
  if (!last_cut) return one_segment(r, j, like, ids, n, begin);
  for (uint32_t i = 1; i <= n; i++) {
    const bool cut = i < n && ids[i - 1] >= begin && ids[i] >= begin,
               last = single ? i == n : i == last_cut;
    if (!cut && !last) continue;
    /* both of the last pair stay */
    const uint32_t to = last && !single ? i + 1 : i, at = last && !single ? to - 2 : to - 1;
    ACCEL_TRY(add_segment(r, j, like, offset + (double)(ids[from] - begin) * TIMESTAMP,
                          offset + (double)(ids[at] - begin) * TIMESTAMP, ids + from, to - from));
    from = to;
    if (last) break;
  }
  const int64_t done = single ? j->span : (ids[last_cut - 1] - begin) * STRIDE;
  j->seek += done > 0 ? done : j->span; /* never again the same */
  return ACCEL_OK;
}

/* The same, and those who listen are told. */
static accel_status tell_segments(run *r, job *j, const accel__whisper_segment *like,
                                  const int32_t *ids, uint32_t n) {
  const accel__whisper_options *o = &r->plan->options;
  uint32_t i = j->n;
  ACCEL_TRY(take_segments(r, j, like, ids, n));
  for (; o->on_segment && i < j->n; i++)
    ACCEL_TRY(o->on_segment(o->on_segment_user, j->number, i, &j->segment[i]));
  return ACCEL_OK;
}

/* ---- one sound ---- */

/* When each of the n tokens after the prompt begins. */
static accel_status tell_times(run *r, const job *j, const int32_t *ids, uint32_t n,
                               const float **out) {
  const float offset = (float)((double)j->seek * TIMESTAMP / STRIDE);
  const int64_t heard = j->sound.heard == INT64_MAX ? INT64_MAX : j->sound.heard - j->seek;
  float *times = accel__arena_array(r->arena, n, sizeof *times);
  if (!times) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__align(&r->stepper, j->base, ids, j->request.input.prompt.n, n - 1, heard,
                         &r->plan->generate.adapter, times));
  for (uint32_t i = 0; i < n; i++) times[i] += offset;
  *out = times;
  return ACCEL_OK;
}

/* A finished request: again, or segments. */
static accel_status end_attempt(run *r, job *j) {
  accel__request *q = &j->request;
  accel__whisper_segment like = {.temperature = temperature_of(r, j)};
  bool again, skip;
  ACCEL_TRY(accel__failure_raise(&q->outcome.failure));
  const accel__hypothesis *h = &q->outcome.done[0];
  if (h->finish == ACCEL__FINISH_CANCELLED)
    return accel__fail(ACCEL_ERROR_CANCELLED, "the transcription was cancelled");
  const int32_t *ids = h->ids + q->input.prompt.n;
  like.score = h->score;
  const uint32_t all = h->n - q->input.prompt.n;
  uint32_t n = unpadded(&j->config, ids, all);
  like.ids = (accel__ids){ids, n};
  ACCEL_TRY(judge(r, j, h, ids, n, &like, &again, &skip));
  like.ended = n && accel__is_eos(&j->config, ids[n - 1]);
  if (like.ended) n--;
  j->condition = r->plan->options.condition == 1 && like.temperature < 0.5;
  again &= j->attempt + 1 < r->plan->options.n_temperature;
  if (r->plan->options.token_times && !skip && !again)
    ACCEL_TRY(tell_times(r, j, h->ids, all, &like.times));
  if (skip)
    j->seek += j->span;
  else if (!again)
    ACCEL_TRY(tell_segments(r, j, &like, ids, n));
  accel__request_end(q, &r->stepper.stepper);
  if (again) {
    j->attempt++;
    return begin_attempt(r, j);
  }
  drop_base(r, j);
  return j->seek < j->sound.frames ? begin_segment(r, j) : ACCEL_OK;
}

static accel_status begin_job(run *r, job *j, accel__whisper_load load, void *user) {
  const accel__whisper_plan *plan = r->plan;
  ACCEL_TRY(load(user, j->number, &j->sound));
  const bool longer = j->sound.width > plan->frames;
  j->timestamps = plan->options.timestamps == 1 || longer;
  if (j->timestamps && plan->config.no_timestamps < 0)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: a sound longer than the encoder's input needs timestamps, and %s has "
                       "no no_timestamps_token_id",
                       r->ep->name, plan->config.file);
  j->begin = plan->begin[j->timestamps];
  j->detect = plan->detect[j->timestamps];
  j->max_length = plan->generate.config.max_length;
  j->condition = plan->options.condition == 1;
  j->input = malloc((size_t)(plan->mels * plan->frames) * sizeof *j->input);
  if (!j->input) return accel__no_memory((size_t)(plan->mels * plan->frames) * sizeof *j->input);
  return j->sound.frames > 0 ? begin_segment(r, j) : ACCEL_OK;
}

static accel_status end_job(run *r, job *j, accel__whisper_transcript *out) {
  uint32_t n = 0, at = 0;
  for (uint32_t i = 0; i < j->n; i++) n += j->segment[i].ids.n;
  const bool timed = r->plan->options.token_times;
  int32_t *ids = accel__arena_array(r->arena, n, sizeof *ids);
  float *times = accel__arena_array(r->arena, timed ? n : 0, sizeof *times);
  accel__whisper_segment *list = accel__arena_array(r->arena, j->n, sizeof *list);
  if (!ids || !list || !times) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (j->n) memcpy(list, j->segment, j->n * sizeof *list);
  for (uint32_t i = 0; i < j->n; at += list[i++].ids.n) {
    if (list[i].ids.n) memcpy(ids + at, list[i].ids.id, list[i].ids.n * sizeof *ids);
    if (list[i].ids.n && timed) memcpy(times + at, list[i].times, list[i].ids.n * sizeof *times);
  }
  *out = (accel__whisper_transcript){.segment = list,
                                     .n = j->n,
                                     .ids = {ids, n},
                                     .times = timed ? times : NULL,
                                     .begin = j->begin};
  for (uint32_t i = 0; i < j->begin.n && !out->language; i++)
    out->language = accel__whisper_language_of(&r->plan->config, j->begin.id[i]);
  return ACCEL_OK;
}

static void free_job(run *r, job *j) {
  if (j->active) accel__request_end(&j->request, &r->stepper.stepper);
  drop_base(r, j);
  free(j->sound.values);
  free(j->input);
  free(j->prompt);
  free(j->segment);
  *j = (job){.base = -1};
}

/* ---- all of them ---- */

static void report(const run *r, const job *jobs, uint32_t together) {
  double done = r->done;
  for (uint32_t i = 0; i < together; i++)
    if (jobs[i].active) done += (double)jobs[i].seek / (double)jobs[i].sound.frames;
  accel__report_progress(r->ep->ctx, "transcribing", (uint64_t)(1000 * done),
                         1000 * (uint64_t)r->n);
}

/* Sounds take the places of jobs[together] as these come free. */
static accel_status run_jobs(run *r, job *jobs, uint32_t together, accel__whisper_load load,
                             void *user, accel__whisper_transcript *out) {
  uint32_t next = 0;
  while (r->done < r->n) {
    for (uint32_t i = 0; i < together; i++) {
      job *j = &jobs[i];
      if (!j->active && next < r->n) {
        j->number = next++;
        j->active = true;
        ACCEL_TRY(begin_job(r, j, load, user));
      } else if (j->active && j->request.outcome.finished) {
        ACCEL_TRY(end_attempt(r, j));
      } else {
        continue;
      }
      report(r, jobs, together);
      if (j->seek < j->sound.frames) continue;
      ACCEL_TRY(end_job(r, j, &out[j->number]));
      free_job(r, j);
      r->done++;
    }
    if (r->engine.active) accel__engine_step(&r->engine);
  }
  report(r, jobs, 0);
  return ACCEL_OK;
}

static accel_status attempt(accel_endpoint *ep, const accel__whisper_plan *plan,
                            accel__whisper_load load, void *user, uint32_t n, accel__arena *arena,
                            accel__whisper_transcript *out) {
  uint32_t together = plan->options.together ? plan->options.together : TOGETHER;
  if (together > n) together = n;
  run r = {.ep = ep, .plan = plan, .arena = arena, .n = n};
  job *jobs = calloc((size_t)together + 1, sizeof *jobs);
  accel_status status = jobs ? ACCEL_OK : accel__no_memory(together * sizeof *jobs);
  for (uint32_t i = 0; jobs && i < together; i++) jobs[i].base = -1;
  if (status == ACCEL_OK) status = accel__session_open(ep, &r.session);
  if (status == ACCEL_OK) status = accel__model_stepper_open(r.session, &r.stepper);
  r.engine.model = &r.stepper.stepper;
  if (status == ACCEL_OK) status = run_jobs(&r, jobs, together, load, user, out);
  if (status != ACCEL_OK) r.engine.active = NULL;
  for (uint32_t i = 0; jobs && r.session && i < together; i++) free_job(&r, &jobs[i]);
  free(jobs);
  accel__engine_free(&r.engine);
  accel__model_stepper_close(&r.stepper);
  accel__session_close(&r.session);
  return status;
}

accel_status accel__whisper_run(accel_endpoint *ep, const accel__whisper_plan *plan,
                                accel__whisper_load load, void *user, uint32_t n,
                                accel__arena *arena, accel__whisper_transcript *out) {
  const accel_plugin_endpoint *used = ep->placed.handle;
  accel_status status = attempt(ep, plan, load, user, n, arena, out);
  /* under "auto" once more in fp32; on another device where one was lost */
  if ((status == ACCEL_ERROR_NONFINITE && ep->may_fall_back &&
       accel__endpoint_fall_back(ep, used) == ACCEL_OK) ||
      (status == ACCEL_ERROR_DEVICE_LOST && accel__endpoint_replace_lost(ep) == ACCEL_OK))
    status = attempt(ep, plan, load, user, n, arena, out);
  return status;
}
