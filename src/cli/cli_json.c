/* cli_json.c - writes JSON. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/cli_print.h"
#include "tool/tool_markup.h"

static void write_string(FILE *to, const char *text) {
  fputc('"', to);
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    int n = tool_utf8_length(s);
    if (s[0] == 0xC0 && s[1] == 0x80) { /* how libaccel spells U+0000 */
      fputs("\\u0000", to);
      s += 2;
    } else if (!n) {
      fputs("\xEF\xBF\xBD", to);
      ++s;
    } else if (*s == '"' || *s == '\\') {
      fprintf(to, "\\%c", *s++);
    } else if (*s == '\n') {
      fputs("\\n", to), ++s;
    } else if (*s < 0x20 || *s == 0x7F) {
      fprintf(to, "\\u%04x", *s++);
    } else {
      fwrite(s, 1, (size_t)n, to), s += n;
    }
  }
  fputc('"', to);
}

static void member(cli_json *json, const char *key) {
  if (json->some[json->depth]) fputs(json->depth <= 1 ? ",\n " : ", ", json->to);
  json->some[json->depth] = true;
  if (!key) return;
  write_string(json->to, key);
  fputs(": ", json->to);
}

void cli_json_key(cli_json *json, const char *key) {
  member(json, key);
  json->some[json->depth] = false; /* no comma in front of what comes */
}

void cli_json_open(cli_json *json, const char *key, char bracket) {
  member(json, key);
  fputc(bracket, json->to);
  if (json->depth + 1 < CLI_JSON_DEPTH) json->some[++json->depth] = false;
}

void cli_json_close(cli_json *json, char bracket) {
  fputc(bracket, json->to);
  if (json->depth) --json->depth;
}

void cli_json_text(cli_json *json, const char *key, const char *value) {
  if (!value) {
    cli_json_null(json, key);
    return;
  }
  member(json, key);
  write_string(json->to, value);
}

void cli_json_int(cli_json *json, const char *key, int64_t value) {
  member(json, key);
  fprintf(json->to, "%" PRId64, value);
}

void cli_json_bool(cli_json *json, const char *key, bool value) {
  member(json, key);
  fputs(value ? "true" : "false", json->to);
}

void cli_json_null(cli_json *json, const char *key) {
  member(json, key);
  fputs("null", json->to);
}

void cli_json_double(cli_json *json, const char *key, double value) {
  member(json, key);
  if (isfinite(value))
    fprintf(json->to, "%.17g", value);
  else
    fputs("null", json->to);
}

void cli_json_float(cli_json *json, const char *key, float value) {
  member(json, key);
  if (isfinite(value))
    fprintf(json->to, "%.9g", (double)value);
  else
    fputs("null", json->to);
}

void cli_json_floats(cli_json *json, const char *key, const float *values, uint64_t n) {
  cli_json_open(json, key, '[');
  for (uint64_t i = 0; i < n; ++i) cli_json_float(json, NULL, values[i]);
  cli_json_close(json, ']');
}

void cli_json_strings(cli_json *json, const char *key, const accel_strings *strings) {
  cli_json_open(json, key, '[');
  for (uint32_t i = 0; strings && i < strings->n; ++i) cli_json_text(json, NULL, strings->item[i]);
  cli_json_close(json, ']');
}

void cli_json_raw(cli_json *json, const char *key, const char *text) {
  member(json, key);
  fputs(text, json->to);
}

/* Nothing for a model on one device. */
static void parts_json(cli_json *json, const accel_placement_report *p) {
  if (!p->n_part) return;
  cli_json_open(json, "parts", '[');
  for (uint32_t i = 0; i < p->n_part; ++i) {
    const accel_placement_part *part = &p->part[i];
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "device", part->device);
    cli_json_text(json, "implementation_type", part->implementation_type);
    cli_json_int(json, "first_layer", part->first_layer);
    cli_json_int(json, "last_layer", part->last_layer);
    cli_json_int(json, "first_stage", part->first_stage);
    cli_json_int(json, "last_stage", part->last_stage);
    cli_json_int(json, "weights_bytes", (int64_t)part->weights);
    cli_json_bool(json, "streams", part->streams != 0);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

/* What "auto" saw; nothing where it had no choice. */
static void choice_json(cli_json *json, const accel_placement_report *p) {
  if (!p->chosen_by) return;
  cli_json_text(json, "chosen_by", p->chosen_by);
  cli_json_text(json, "chosen_why", p->chosen_why);
  cli_json_text(json, "metric", p->metric);
  cli_json_open(json, "candidates", '[');
  for (uint32_t i = 0; i < p->n_candidate; ++i) {
    const accel_placement_candidate *c = &p->candidate[i];
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "device", c->device);
    cli_json_text(json, "precision", c->precision);
    cli_json_text(json, "source", c->source);
    cli_json_double(json, "value", c->value);
    cli_json_double(json, "low", c->low);
    cli_json_double(json, "high", c->high);
    cli_json_double(json, "cosine", c->cosine);
    cli_json_text(json, "reason", c->reason);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

void cli_json_placement(cli_json *json, const accel_placement_report *p) {
  cli_json_text(json, "model", p->model);
  cli_json_text(json, "device", p->device);
  cli_json_text(json, "precision", p->precision);
  cli_json_text(json, "implementation_type", p->implementation_type);
  cli_json_bool(json, "is_amd", p->is_amd != 0);
  cli_json_bool(json, "listed", p->listed != 0);
  cli_json_text(json, "wanted_device", p->wanted_device);
  cli_json_text(json, "wanted_precision", p->wanted_precision);
  cli_json_text(json, "weights", p->weights);
  cli_json_strings(json, "reasons", p->reasons);
  if (p->precision_profile) {
    cli_json_text(json, "precision_profile", p->precision_profile);
    cli_json_text(json, "precision_kinds", p->precision_kinds);
  }
  parts_json(json, p);
  choice_json(json, p);
}

/* Where --json wants its result: a file, or stdout. */
static int json_target(cli_run *run, cli_json *json) {
  const char *where = run->value[OPT_JSON];
  *json = (cli_json){.to = stdout};
  if (!where || strcmp(where, "1") == 0 || strcmp(where, "-") == 0) return 0;
  json->path = where;
  json->to = fopen(where, "w");
  return json->to ? 0 : cli_error(run, ACCEL_ERROR_IO, "%s: %s", where, strerror(errno));
}

static int json_finish(cli_run *run, cli_json *json) {
  if (!json->path) return cli_flush(run);
  bool failed = ferror(json->to) != 0;
  failed = fclose(json->to) != 0 || failed;
  return failed
             ? cli_error(run, ACCEL_ERROR_IO, "%s: cannot write: %s", json->path, strerror(errno))
             : 0;
}

int cli_json_begin(cli_run *run, const char *schema, cli_json *json) {
  int code = json_target(run, json);
  if (code) return code;
  cli_progress_end();
  cli_json_open(json, NULL, '{');
  cli_json_text(json, "schema", schema);
  return 0;
}

int cli_json_end(cli_run *run, cli_json *json) {
  cli_json_close(json, '}');
  fputc('\n', json->to);
  return json_finish(run, json);
}

int cli_json_whole(cli_run *run, const char *text) {
  cli_json json;
  int code = json_target(run, &json);
  if (code) return code;
  size_t n = strlen(text);
  fputs(text, json.to);
  if (!n || text[n - 1] != '\n') fputc('\n', json.to);
  return json_finish(run, &json);
}

const char *cli_json_word(const cJSON *object, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
  return text ? text : "";
}

double cli_json_number(const cJSON *object, const char *name) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}
