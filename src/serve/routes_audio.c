/* routes_audio.c - OpenAI's /v1/audio/transcriptions and /v1/audio/translations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/serve_reply.h"
#include "tool/tool_subtitles.h"

/* One request. */
typedef struct hearing {
  serve_request *request;
  const serve_model *model;
  const char *format; /* json, text, srt, verbose_json, vtt */
  bool translates, words, segments, stream;
  accel_media sound;
  double temperature;
  accel_transcribe_params how;
  accel_generate_params generate;
  /* of a stream */
  bool begun;
  char *said; /* what the client was sent, malloc'd */
  size_t n_said;
} hearing;

/* ---- the request ---- */

static void read_file(serve_fields *f, hearing *h) {
  uint32_t n = 0;
  const serve_part *part = f->failed ? NULL : serve_form(f->request, &n);
  for (uint32_t i = 0; i < n; ++i) {
    if (strcmp(part[i].name, "file") != 0 || !part[i].file_name) continue;
    field_media_bytes(f, "file", part[i].data, part[i].n, SERVE_SOUND, &h->sound);
    return;
  }
  field_wrong(f, "file", "must be a sound, as a part of multipart/form-data with a file name");
}

/* timestamp_granularities[]; clients send the name with the brackets, and some without. */
static void read_granularities(serve_fields *f, hearing *h) {
  static const char *const names[] = {"timestamp_granularities[]", "timestamp_granularities"};
  bool given = false, single;
  for (int k = 0; k < 2; ++k) {
    uint32_t n;
    const char *const *list = field_texts(f, names[k], &n, &single);
    given |= n > 0;
    for (uint32_t i = 0; list && i < n; ++i) {
      const bool word = !strcmp(list[i], "word");
      h->words |= word;
      h->segments |= !word;
      if (!word && strcmp(list[i], "segment") != 0) field_wrong(f, names[k], "is word or segment");
    }
  }
  if (given && strcmp(h->format, "verbose_json") != 0)
    field_wrong(f, names[0], "goes with response_format verbose_json");
  h->segments |= !given;
}

static void choose_timestamps(hearing *h) {
  accel_transcribe_params *p = &h->how;
  const bool verbose = !strcmp(h->format, "verbose_json");
  if (!strcmp(h->format, "json") || !strcmp(h->format, "text")) return;
  p->timestamps = h->words ? "word" : "auto";
  if (!verbose) return;
  /* figures of each segment: thresholds that nothing passes */
  p->logprob_threshold = -1e30;
  p->compression_ratio_threshold = 1e30;
  p->no_speech_threshold = 1;
}

static void read_wish(serve_fields *f, hearing *h) {
  static const char *const hearers[] = {"automatic-speech-recognition", NULL};
  accel_transcribe_params *p = &h->how;
  *p = accel_transcribe_params_default();
  h->generate = accel_generate_params_default();
  read_file(f, h);
  h->format = field_choice(f, "response_format", "json|text|srt|verbose_json|vtt", "json");
  read_granularities(f, h);
  p->language = field_text(f, "language", NULL);
  p->prompt = field_text(f, "prompt", NULL);
  if (p->language && !*p->language) p->language = NULL;
  if (p->prompt && !*p->prompt) p->prompt = NULL;
  h->temperature = field_number(f, "temperature", 0, 1, 0);
  h->stream = field_flag(f, "stream", false);
  if (h->stream && strcmp(h->format, "json") != 0 && strcmp(h->format, "text") != 0)
    field_wrong(f, "stream", "goes with response_format json or text");
  for (const char *const *name = (const char *const[]){"include[]", "include", NULL}; *name; ++name)
    if (field_item(f, *name)) field_wrong(f, *name, "log probabilities of tokens are not given");
  if (h->translates) p->task = "translate";
  if (h->temperature > 0) p->temperature = &h->temperature, p->n_temperature = 1;
  p->max_seconds = SERVE_MAX_SECONDS;
  choose_timestamps(h);
  h->generate.on_token = serve_stop_when_gone;
  h->generate.on_token_user = h->request;
  p->generate = &h->generate;
  h->model = fields_model(f, hearers);
}

/* ---- a stream ---- */

/* Sends `text` as it goes on behind what was sent. */
static bool send_delta(hearing *h, const char *text) {
  if (!h->n_said) text += strspn(text, " ");
  const size_t n = strlen(text);
  if (!n) return true;
  char *more = realloc(h->said, h->n_said + n + 1);
  if (!more) return false;
  h->said = more;
  memcpy(more + h->n_said, text, n + 1);
  h->n_said += n;
  if (!h->begun && !serve_begin(h->request, "text/event-stream")) return false;
  h->begun = true;
  cJSON *event = cJSON_CreateObject();
  cJSON_AddStringToObject(event, "type", "transcript.text.delta");
  cJSON_AddStringToObject(event, "delta", text);
  return serve_write_event(h->request, event);
}

static int send_segment(void *user, uint32_t sound, uint32_t index,
                        const accel_speech_segment *segment) {
  (void)sound, (void)index;
  return !send_delta(user, segment->text);
}

static cJSON *usage_of(const accel_transcripts *found) {
  cJSON *usage = cJSON_CreateObject();
  cJSON_AddStringToObject(usage, "type", "duration");
  cJSON_AddNumberToObject(usage, "seconds", ceil(found->seconds[0]));
  return usage;
}

static const char *text_of(const accel_transcripts *found) {
  return found->text[0] + strspn(found->text[0], " ");
}

/* What segments have not told, then the whole. */
static void end_stream(hearing *h, const accel_transcripts *found) {
  const char *text = text_of(found);
  if (!h->n_said || !strncmp(text, h->said, h->n_said)) send_delta(h, text + h->n_said);
  if (!h->begun && !serve_begin(h->request, "text/event-stream")) return;
  cJSON *event = cJSON_CreateObject();
  cJSON_AddStringToObject(event, "type", "transcript.text.done");
  cJSON_AddStringToObject(event, "text", text);
  cJSON_AddItemToObject(event, "usage", usage_of(found));
  serve_write_event(h->request, event);
  serve_end(h->request);
}

/* ---- other answers ---- */

static void add_times(cJSON *item, double start, double end, double all) {
  add_exact(item, "start", isnan(start) ? 0 : start);
  add_exact(item, "end", isnan(end) ? all : end);
}

static void add_words(cJSON *answer, const accel_transcripts *found) {
  cJSON *list = cJSON_AddArrayToObject(answer, "words");
  for (uint32_t i = 0; i < found->count[0]; ++i) {
    const accel_chunk *c = &found->chunk[0][i];
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "word", c->text + strspn(c->text, " "));
    add_times(item, c->start, c->end, found->seconds[0]);
    cJSON_AddItemToArray(list, item);
  }
}

static void add_segments(cJSON *answer, const accel_transcripts *found) {
  cJSON *list = cJSON_AddArrayToObject(answer, "segments");
  for (uint32_t i = 0; i < found->segments[0]; ++i) {
    const accel_speech_segment *s = &found->segment[0][i];
    cJSON *item = cJSON_CreateObject();
    cJSON_AddNumberToObject(item, "id", i);
    cJSON_AddNumberToObject(item, "seek", nearbyint(s->start * 100)); /* frames of 10 ms */
    add_times(item, s->start, s->end, found->seconds[0]);
    cJSON_AddStringToObject(item, "text", s->text);
    cJSON_AddItemToObject(item, "tokens", cJSON_CreateIntArray(s->ids, (int)s->n));
    cJSON_AddNumberToObject(item, "temperature", s->temperature);
    add_exact(item, "avg_logprob", s->logprob);
    add_exact(item, "compression_ratio", s->compression_ratio);
    add_exact(item, "no_speech_prob", s->no_speech);
    cJSON_AddItemToArray(list, item);
  }
}

static cJSON *verbose_of(const hearing *h, const accel_transcripts *found) {
  cJSON *answer = cJSON_CreateObject();
  cJSON_AddStringToObject(answer, "task", h->translates ? "translate" : "transcribe");
  cJSON_AddItemToObject(
      answer, "language",
      found->language[0] ? cJSON_CreateString(found->language[0]) : cJSON_CreateNull());
  add_exact(answer, "duration", found->seconds[0]);
  cJSON_AddStringToObject(answer, "text", text_of(found));
  if (h->words || !found->segments[0]) add_words(answer, found);
  if (h->segments) add_segments(answer, found);
  cJSON_AddItemToObject(answer, "usage", usage_of(found));
  return answer;
}

static void answer_text(const hearing *h, const accel_transcripts *found) {
  const bool vtt = !strcmp(h->format, "vtt");
  serve_reply reply;
  if (!reply_begin(h->request, &reply)) return;
  if (!strcmp(h->format, "text"))
    fprintf(reply.to, "%s\n", text_of(found));
  else
    tool_subtitles(reply.to, found, vtt, h->how.timestamps);
  reply_end(h->request, &reply, vtt ? "text/vtt; charset=utf-8" : "text/plain; charset=utf-8");
}

static void answer(hearing *h, const accel_transcripts *found) {
  cJSON *json;
  if (h->stream) {
    end_stream(h, found);
  } else if (!strcmp(h->format, "json")) {
    json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "text", text_of(found));
    cJSON_AddItemToObject(json, "usage", usage_of(found));
    serve_answer_json(h->request, 200, json);
  } else if (!strcmp(h->format, "verbose_json")) {
    serve_answer_json(h->request, 200, verbose_of(h, found));
  } else {
    answer_text(h, found);
  }
}

static void hear(serve_request *request, bool translates) {
  serve_fields f;
  hearing h = {.request = request, .translates = translates};
  accel_transcripts *found = NULL;
  fields_of_form(&f, request);
  read_wish(&f, &h);
  if (h.stream) h.how.on_segment = send_segment, h.how.on_segment_user = &h;
  if (fields_end(&f)) {
    serve_use_adapter(&h.generate, h.model);
    const accel_status status = accel_transcribe(h.model->endpoint, &h.sound, 1, &h.how, &found);
    if (status == ACCEL_OK) {
      const serve_counts counts = {.generated_tokens = found->n_ids[0]};
      answer(&h, found);
      serve_count(request, &counts);
    } else {
      serve_fail_with(request, status, "file"); /* of a stream its last event */
    }
  }
  accel_transcripts_free(&found);
  free(h.said);
  fields_free(&f);
}

void route_transcriptions(serve_request *request) { hear(request, false); }

void route_translations(serve_request *request) { hear(request, true); }
