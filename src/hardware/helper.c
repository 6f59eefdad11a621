/* helper.c - finding accel-probe, asking it, and turning its crashes and silences into
 * sentences. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "hardware/hardware_internal.h"

#ifndef ACCEL_PROBE_FROM_LIB
#define ACCEL_PROBE_FROM_LIB "../libexec/accel/accel-probe"
#endif
#ifndef ACCEL_PROBE_PATH
#define ACCEL_PROBE_PATH ""
#endif

static bool runnable(const char *path) {
  return path && *path && access(path, X_OK) == 0 && !accel__is_directory(path);
}

const char *accel__find_probe(accel__hardware *h) {
  if (h->probe) return h->probe;
  const char *named = accel__env("ACCEL_PROBE");
  char *directory = NULL, *beside = NULL;
  if (named) {
    h->probe = runnable(named) ? accel__arena_string(&h->arena, named) : "";
    return accel__or_empty(h->probe);
  }
  if (accel__library_directory(&h->arena, &directory) == ACCEL_OK && directory)
    beside = accel__path_join(&h->arena, directory, ACCEL_PROBE_FROM_LIB);
  if (runnable(beside))
    h->probe = beside;
  else if (runnable(ACCEL_PROBE_PATH))
    h->probe = ACCEL_PROBE_PATH;
  else
    h->probe = "";
  return h->probe;
}

/* The helper's last "# stage" line, so that a crash has a place; "" when it said nothing. */
static void last_stage(const accel__spawned *s, char *out, size_t n) {
  *out = 0;
  for (const char *line = s->out.data; line && *line;) {
    const char *end = strchr(line, '\n');
    size_t length = end ? (size_t)(end - line) : strlen(line);
    if (length > 2 && line[0] == '#') accel__clean_copy(out, n, line + 2, length - 2);
    line = end ? end + 1 : NULL;
  }
}

/* The last thing it wrote to stderr, for a crash: often the driver's own words. */
static void last_words(const accel__spawned *s, char *out, size_t n) {
  *out = 0;
  if (!s->err.n) return;
  size_t end = s->err.n;
  while (end > 0 && (s->err.data[end - 1] == '\n' || s->err.data[end - 1] == ' ')) end--;
  size_t start = end;
  while (start > 0 && s->err.data[start - 1] != '\n' && end - start < n - 1) start--;
  accel__clean_copy(out, n, s->err.data + start, end - start);
}

static const char *find_object(const accel__spawned *s) {
  for (const char *line = s->out.data; line && *line;) {
    if (*line == '{') return line;
    line = strchr(line, '\n');
    if (line) line++;
  }
  return NULL;
}

static accel_status judge(accel__hardware *h, const accel__spawned *s, accel__json_file *json,
                          accel__verdict *verdict, const char **why) {
  char stage[160], words[200];
  last_stage(s, stage, sizeof stage);
  last_words(s, words, sizeof words);
  const char *at = *stage ? accel__arena_printf(&h->arena, " while %s", stage) : "";
  const char *said = *words ? accel__arena_printf(&h->arena, "; its last words: %s", words) : "";
  *verdict = ACCEL__VERDICT_CRASH;
  if (s->timed_out) {
    *verdict = ACCEL__VERDICT_HANG;
    ACCEL_FORMAT(*why, &h->arena, "hung for %lld s in the probe%s and was stopped",
                 (long long)(s->waited_ms + 500) / 1000, accel__or_empty(at));
    return ACCEL_OK;
  }
  if (s->signal) {
    ACCEL_FORMAT(*why, &h->arena, "crashed in the probe (signal %d, %s)%s%s", s->signal,
                 strsignal(s->signal), accel__or_empty(at), accel__or_empty(said));
    return ACCEL_OK;
  }
  const char *text = find_object(s);
  if (!text || (s->exit_code != 0 && s->exit_code != -1)) {
    ACCEL_FORMAT(*why, &h->arena, "ended the probe (exit code %d)%s%s", s->exit_code,
                 accel__or_empty(at), accel__or_empty(said));
    return ACCEL_OK;
  }
  accel_status status = accel__json_parse(text, strlen(text), "accel-probe's answer", json);
  if (status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
  if (status != ACCEL_OK) {
    ACCEL_FORMAT(*why, &h->arena, "the probe's answer cannot be read%s: %s", accel__or_empty(at),
                 accel__message());
    accel__clear_error();
    return ACCEL_OK;
  }
  *verdict = ACCEL__VERDICT_GOOD;
  return ACCEL_OK;
}

accel_status accel__ask_probe(accel__hardware *h, const char *const *words, accel__json_file *json,
                              accel__verdict *verdict, const char **why) {
  const char *argv[8] = {accel__find_probe(h)};
  accel__spawned s;
  memset(json, 0, sizeof *json);
  *verdict = ACCEL__VERDICT_HELPER;
  *why = "";
  if (!*argv[0]) {
    const char *named = accel__env("ACCEL_PROBE");
    if (named)
      ACCEL_FORMAT(*why, &h->arena, "not touched: ACCEL_PROBE names %s, which cannot be run",
                   named);
    else
      *why =
          "not touched: the helper program accel-probe is missing (reinstall, or name it in "
          "ACCEL_PROBE)";
    return ACCEL_OK;
  }
  for (size_t i = 0; words[i] && i + 2 < sizeof argv / sizeof *argv; i++) argv[i + 1] = words[i];
  accel_status status = accel__spawn(argv, h->timeout_ms, &s);
  if (status == ACCEL_OK) {
    status = judge(h, &s, json, verdict, why);
  } else if (status != ACCEL_ERROR_OUT_OF_MEMORY) {
    *why = accel__arena_printf(&h->arena, "not touched: %s", accel__message());
    status = *why ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
    accel__clear_error();
  }
  accel__spawned_free(&s);
  return status;
}
