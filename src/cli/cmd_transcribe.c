/* cmd_transcribe.c - accel transcribe: sounds to text, subtitles or JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/tool_subtitles.h"
#include "tool/tool_wav.h"
#include "cli/cli_task.h"

/* What is asked for, with the memory behind it. */
typedef struct wishes {
  accel_transcribe_params how;
  accel_generate_params generate;
  double temperature[64];
  accel_media *media;
  uint32_t n;
  char *piped; /* what "-" gave */
} wishes;

/* ---- inputs ---- */

/* A WAV header in front of raw 16-bit samples. */
static int wrap_samples(cli_run *run, wishes *w, uint32_t rate, size_t n) {
  if (n > UINT32_MAX - TOOL_WAV_HEADER)
    return cli_error(run, ACCEL_ERROR_LIMIT, "-: more than 4 GiB of samples");
  unsigned char *wav = malloc(TOOL_WAV_HEADER + n);
  if (!wav) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  tool_wav_header(wav, rate, (uint32_t)n);
  memcpy(wav + TOOL_WAV_HEADER, w->piped, n);
  free(w->piped);
  w->piped = (char *)wav;
  return 0;
}

/* "-" is a file on stdin, or raw samples of --pcm. */
static int read_stdin(cli_run *run, wishes *w, accel_media *to) {
  size_t n = 0;
  if (w->piped) return cli_usage(run, "- is given twice");
  int code = cli_file_read(run, "-", &w->piped, &n);
  if (code) return code;
  const int64_t rate = cli_count(run, OPT_PCM, 0);
  if (rate && n % 2)
    return cli_error(run, ACCEL_ERROR_FORMAT, "-: %zu bytes are no 16-bit samples", n);
  if (rate && (code = wrap_samples(run, w, (uint32_t)rate, n))) return code;
  *to = (accel_media){.name = "stdin", .data = w->piped, .n = rate ? n + 44 : n};
  return 0;
}

static int read_media(cli_run *run, wishes *w) {
  bool piped = false;
  w->n = (uint32_t)run->n_args - 1;
  w->media = cli_media((const char *const *)run->args + 1, w->n);
  if (!w->media) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; i < w->n; ++i) {
    if (strcmp(w->media[i].name, "-") != 0) continue;
    int code = read_stdin(run, w, &w->media[i]);
    if (code) return code;
    piped = true;
  }
  return !piped && cli_flag(run, OPT_PCM)
             ? cli_usage(run, "--pcm is for samples from stdin: give - as the sound")
             : 0;
}

/* ---- options ---- */

static int read_numbers(cli_run *run, const char *option, const char *text, double *to,
                        uint32_t most, uint32_t *n) {
  for (const char *at = text; *at;) {
    char *end;
    const double x = strtod(at, &end);
    if (end == at || (*end && *end != ',') || *n == most)
      return cli_usage(run, "%s: '%s' is no list of at most %u numbers, such as 0,0.2,0.4", option,
                       text, most);
    to[(*n)++] = x;
    at = *end ? end + 1 : end;
  }
  return 0;
}

static int read_lists(cli_run *run, wishes *w) {
  accel_transcribe_params *p = &w->how;
  double stride[2];
  uint32_t n = 0;
  int code = 0;
  if (run->value[OPT_TEMPERATURES])
    code = read_numbers(run, "--temperatures", run->value[OPT_TEMPERATURES], w->temperature, 64,
                        &p->n_temperature);
  if (!code && run->value[OPT_CHUNK_STRIDE])
    code = read_numbers(run, "--chunk-stride", run->value[OPT_CHUNK_STRIDE], stride, 2, &n);
  if (n) {
    p->stride_left = stride[0];
    p->stride_right = stride[n - 1];
  }
  p->temperature = w->temperature;
  return code;
}

static int read_wishes(cli_run *run, wishes *w, const char *task) {
  accel_transcribe_params *p = &w->how;
  const char *condition = run->value[OPT_CONDITION];
  *w = (wishes){.how = accel_transcribe_params_default(),
                .generate = accel_generate_params_default()};
  if (task && strcmp(task, "transcribe") != 0 && strcmp(task, "translate") != 0)
    return cli_usage(run, "--task: transcribe or translate, not %s", task);
  p->timestamps = run->value[OPT_TIMESTAMPS];
  if (cli_flag(run, OPT_WORD_TIMESTAMPS)) {
    if (p->timestamps && strcmp(p->timestamps, "word") != 0)
      return cli_usage(run, "--word-timestamps beside --timestamps %s", p->timestamps);
    p->timestamps = "word";
  }
  if (p->timestamps && !strcmp(p->timestamps, "none")) p->timestamps = NULL;
  p->language = run->value[OPT_LANGUAGE];
  p->task = task;
  p->prompt = run->value[OPT_PROMPT];
  p->prompt_all_segments = cli_flag(run, OPT_PROMPT_ALL);
  if (condition) p->condition_on_previous = !strcmp(condition, "yes");
  p->chunk_length = cli_number(run, OPT_CHUNK_LENGTH, 0);
  p->compression_ratio_threshold = cli_number(run, OPT_COMPRESSION_RATIO, (double)NAN);
  p->logprob_threshold = cli_number(run, OPT_LOGPROB_THRESHOLD, (double)NAN);
  p->no_speech_threshold = cli_number(run, OPT_NO_SPEECH, (double)NAN);
  w->generate.max_new_tokens =
      (int32_t)cli_count(run, OPT_MAX_NEW_TOKENS, w->generate.max_new_tokens);
  w->generate.num_beams = (uint32_t)cli_count(run, OPT_BEAMS, 0);
  w->generate.seed = (uint64_t)cli_count(run, OPT_SEED, 0);
  p->generate = &w->generate;
  return read_lists(run, w);
}

static void free_wishes(wishes *w) {
  free(w->media);
  free(w->piped);
}

/* ---- results ---- */

static void json_times(cli_json *json, double start, double end) {
  cli_json_open(json, "timestamp", '[');
  cli_json_double(json, NULL, start);
  cli_json_double(json, NULL, end);
  cli_json_close(json, ']');
}

static void json_ids(cli_json *json, const int32_t *ids, uint32_t n) {
  cli_json_open(json, "ids", '[');
  for (uint32_t i = 0; i < n; ++i) cli_json_int(json, NULL, ids[i]);
  cli_json_close(json, ']');
}

static void json_chunks(cli_json *json, const char *name, const accel_chunk *chunk, uint32_t n) {
  cli_json_open(json, name, '[');
  for (uint32_t i = 0; i < n; ++i) {
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "text", chunk[i].text);
    json_times(json, chunk[i].start, chunk[i].end);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void json_segments(cli_json *json, const accel_speech_segment *segment, uint32_t n,
                          bool words) {
  cli_json_open(json, "segments", '[');
  for (uint32_t i = 0; i < n; ++i) {
    const accel_speech_segment *s = &segment[i];
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "text", s->text);
    json_times(json, s->start, s->end);
    json_ids(json, s->ids, s->n);
    cli_json_double(json, "temperature", s->temperature);
    cli_json_double(json, "avg_logprob", s->logprob);
    cli_json_double(json, "compression_ratio", s->compression_ratio);
    cli_json_double(json, "no_speech_prob", s->no_speech);
    if (words) json_chunks(json, "words", s->words, s->n_words);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void json_transcript(cli_json *json, const accel_transcripts *found, uint32_t i,
                            const char *stamps) {
  const bool words = stamps && !strcmp(stamps, "word");
  cli_json_open(json, NULL, '{');
  cli_json_text(json, "text", found->text[i]);
  cli_json_double(json, "seconds", found->seconds[i]);
  if (stamps) json_chunks(json, "chunks", found->chunk[i], found->count[i]);
  if (found->ids[i]) {
    if (found->language[i]) cli_json_text(json, "language", found->language[i]);
    json_ids(json, found->ids[i], found->n_ids[i]);
    if (found->segment[i]) json_segments(json, found->segment[i], found->segments[i], words);
  }
  cli_json_close(json, '}');
}

static int print_json(cli_run *run, const accel_endpoint *endpoint, const accel_transcripts *found,
                      const char *stamps) {
  cli_json json;
  int code = cli_json_begin(run, "accel.transcribe/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) json_transcript(&json, found, i, stamps);
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static void print_line(double start, double end, double all, const char *text) {
  printf("  %8.3f %8.3f  %s\n", isnan(start) ? 0 : start, isnan(end) ? all : end,
         text + strspn(text, " "));
}

static void print_text(const accel_transcripts *found, const char *stamps) {
  for (uint32_t i = 0; i < found->n; ++i) {
    const uint32_t segments = tool_shown_segments(found, i, stamps);
    puts(found->text[i] + strspn(found->text[i], " "));
    for (uint32_t k = 0; stamps && k < segments; ++k) {
      const accel_speech_segment *s = &found->segment[i][k];
      print_line(s->start, s->end, found->seconds[i], s->text);
    }
    for (uint32_t k = 0; k < found->count[i] && !segments; ++k) {
      const accel_chunk *c = &found->chunk[i][k];
      print_line(c->start, c->end, found->seconds[i], c->text);
    }
  }
}

int cmd_transcribe(cli_run *run) {
  accel_endpoint *endpoint = NULL;
  accel_transcripts *found = NULL;
  wishes w;
  const char *format = run->value[OPT_FORMAT] ? run->value[OPT_FORMAT] : "txt";
  const bool vtt = !strcmp(format, "vtt"), subtitles = vtt || !strcmp(format, "srt");
  int code = read_wishes(run, &w, run->value[OPT_TASK]);
  if (!code) code = read_media(run, &w);
  if (!code && !subtitles && strcmp(format, "txt") != 0 && strcmp(format, "json") != 0)
    code = cli_usage(run, "--format of a transcript: txt, srt, vtt or json, not %s", format);
  if (!code && subtitles && w.n != 1) code = cli_usage(run, "--format %s is for one sound", format);
  if (!code) code = cli_open(run, run->args[0], "automatic-speech-recognition", &endpoint);
  if (!code && subtitles && !w.how.timestamps) w.how.timestamps = "auto";
  if (!code) {
    accel_status status = accel_transcribe(endpoint, w.media, w.n, &w.how, &found);
    if (status != ACCEL_OK)
      code = cli_fail(run, status);
    else if (cli_flag(run, OPT_JSON) || !strcmp(format, "json"))
      code = print_json(run, endpoint, found, w.how.timestamps);
    else if (subtitles)
      tool_subtitles(stdout, found, vtt, w.how.timestamps);
    else
      print_text(found, w.how.timestamps);
  }
  accel_transcripts_free(&found);
  accel_cleanup(&endpoint);
  free_wishes(&w);
  return code;
}

/* ---- rows ---- */

/* What a row's result is printed with, beside what was found. */
typedef struct row_results {
  accel_transcripts *found;
  const char *stamps;
} row_results;

static int begin(cli_run *run, void **state) {
  wishes *w = malloc(sizeof *w);
  if (!w) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  *state = w;
  return read_wishes(run, w, NULL);
}

static accel_status call(cli_run *run, void *state, accel_endpoint *endpoint, const cli_rows *rows,
                         cli_found *found) {
  const wishes *w = state;
  (void)run;
  row_results *results = calloc(1, sizeof *results);
  accel_media *media = cli_row_media(rows);
  accel_status status = ACCEL_ERROR_OUT_OF_MEMORY;
  if (results && media)
    status = accel_transcribe(endpoint, media, rows->n, &w->how, &results->found);
  free(media);
  if (status != ACCEL_OK) {
    free(results);
    return status;
  }
  results->stamps = w->how.timestamps;
  found->own = results;
  return ACCEL_OK;
}

static void print(cli_json *json, const void *found, uint32_t i) {
  const row_results *results = found;
  json_transcript(json, results->found, i, results->stamps);
}

static void release(void *found) {
  row_results *results = found;
  accel_transcripts_free(&results->found);
  free(results);
}

const cli_task cli_task_transcribe = {.name = "transcribe",
                                      .command = "transcribe",
                                      .model_task = "automatic-speech-recognition",
                                      .field = {"audio"},
                                      .window = 8,
                                      .shard = 64,
                                      .begin = begin,
                                      .call = call,
                                      .print = print,
                                      .release = release,
                                      .end = free};
