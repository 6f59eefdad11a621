/* tool_subtitles.c - transcripts as SubRip and WebVTT. */
#include "tool/tool_subtitles.h"

#include <math.h>
#include <string.h>

uint32_t tool_shown_segments(const accel_transcripts *found, uint32_t i, const char *stamps) {
  return stamps && !strcmp(stamps, "word") ? 0 : found->segments[i];
}

/* 01:02:03,456 of SubRip, 01:02:03.456 of WebVTT. */
static void print_time(FILE *to, double seconds, char point) {
  const uint64_t ms = seconds > 0 ? (uint64_t)(seconds * 1000 + 0.5) : 0;
  fprintf(to, "%02u:%02u:%02u%c%03u", (unsigned)(ms / 3600000), (unsigned)(ms / 60000 % 60),
          (unsigned)(ms / 1000 % 60), point, (unsigned)(ms % 1000));
}

/* An empty line would end the cue, and "-->" begin another. */
static void print_part(FILE *to, const char *text) {
  for (; *text; ++text) {
    if (!strncmp(text, "-->", 3)) {
      fputs("->", to);
      text += 2;
    } else if (*text != '\r') {
      putc(*text == '\n' ? ' ' : *text, to);
    }
  }
}

static void print_cue_text(FILE *to, const char *text) {
  print_part(to, text + strspn(text, " \r\n"));
  fputs("\n\n", to);
}

/* Number and times of a cue. */
static void print_head(FILE *to, uint32_t number, double start, double end, double all, bool vtt) {
  if (isnan(start)) start = 0;
  if (isnan(end)) end = all;
  if (!vtt) fprintf(to, "%u\n", number);
  print_time(to, start, vtt ? '.' : ',');
  fputs(" --> ", to);
  print_time(to, end, vtt ? '.' : ',');
  putc('\n', to);
}

/* A segment's words, each behind the time at which it begins; players show them in turn. */
static void print_words(FILE *to, const accel_speech_segment *s) {
  for (uint32_t i = 0; i < s->n_words; ++i) {
    const accel_chunk *w = &s->words[i];
    const char *text = w->text + (i ? 0 : strspn(w->text, " \r\n"));
    if (i && w->start > s->start && w->start < s->end) {
      putc('<', to);
      print_time(to, w->start, '.');
      putc('>', to);
    }
    print_part(to, text);
  }
  fputs("\n\n", to);
}

void tool_subtitles(FILE *to, const accel_transcripts *found, bool vtt, const char *stamps) {
  const uint32_t segments = vtt ? found->segments[0] : tool_shown_segments(found, 0, stamps);
  uint32_t number = 0;
  if (vtt) fputs("WEBVTT\n\n", to);
  for (uint32_t k = 0; k < segments; ++k) {
    const accel_speech_segment *s = &found->segment[0][k];
    if (!s->text[strspn(s->text, " ")]) continue;
    print_head(to, ++number, s->start, s->end, found->seconds[0], vtt);
    if (s->n_words)
      print_words(to, s);
    else
      print_cue_text(to, s->text);
  }
  for (uint32_t k = 0; k < found->count[0] && !segments; ++k) {
    const accel_chunk *c = &found->chunk[0][k];
    print_head(to, ++number, c->start, c->end, found->seconds[0], vtt);
    print_cue_text(to, c->text);
  }
}
