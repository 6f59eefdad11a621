/* cmd_doctor.c - accel doctor: whether this machine, and a model on it, will run; what is in the
 * way, and the command that mends it. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_doctor.h"
#include "cli/cli_print.h"

static const struct {
  const char *name;
  doctor_check *run;
  int code;
  bool with_model;
} checks[] = {
#define CHECK(function, name, code, with_model) {name, doctor_##function, code, with_model},
#include "cli/doctor.def"
};
static const char *const remedies[] = {
#define REMEDY(id, command) command,
#include "cli/doctor.def"
};
static const char *const states[] = {"ok", "warn", "fail"};

/* ---- lines ---- */

static bool is_plain(const char *word) {
  return *word && strspn(word,
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,."
                         "/-") == strlen(word);
}

static void put_word(FILE *to, const char *word) {
  if (is_plain(word)) {
    fputs(word, to);
    return;
  }
  fputc('\'', to);
  for (; *word; ++word) fputs(*word == '\'' ? "'\\''" : (const char[]){*word, 0}, to);
  fputc('\'', to);
}

char *doctor_command(doctor_remedy remedy, const char *word, const char *second) {
  char *text = NULL;
  size_t size;
  if (remedy >= REMEDY_NONE) return NULL;
  FILE *to = open_memstream(&text, &size);
  if (!to) return NULL;
  for (const char *s = remedies[remedy]; *s; ++s) {
    if (!strncmp(s, "{}", 2) && word)
      put_word(to, word), s += 1;
    else if (!strncmp(s, "{2}", 3) && second)
      put_word(to, second), s += 2;
    else
      fputc(*s, to);
  }
  return fclose(to) == 0 ? text : (free(text), NULL);
}

void doctor_say(doctor *d, doctor_state state, const char *what, char *command, const char *format,
                ...) {
  va_list args;
  doctor_line *grown = realloc(d->line, (d->n + 1) * sizeof *grown);
  if (grown) {
    d->line = grown;
    doctor_line *line = &d->line[d->n++];
    *line = (doctor_line){.check = d->check, .state = state, .code = d->code, .command = command};
    line->what = strdup(what);
    va_start(args, format);
    if (vasprintf(&line->why, format, args) < 0) line->why = NULL;
    va_end(args);
  } else {
    free(command);
  }
  d->no_memory |= !grown || !d->line[d->n - 1].what || !d->line[d->n - 1].why;
}

static void free_lines(doctor *d) {
  for (uint32_t i = 0; i < d->n; ++i)
    free(d->line[i].what), free(d->line[i].why), free(d->line[i].command);
  free(d->line);
}

static uint32_t count(const doctor *d, doctor_state state) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->n; ++i) n += d->line[i].state == state;
  return n;
}

/* Of the first line that fails; what keeps a model from running counts before files of the tool. */
static int exit_code(const doctor *d) {
  int code = 0;
  for (uint32_t i = 0; i < d->n && code <= 1; ++i)
    if (d->line[i].state == DOCTOR_FAIL && d->line[i].code > code) code = d->line[i].code;
  return code;
}

/* ---- what is asked about ---- */

bool doctor_considers(const doctor *d, const accel_device_info *device) {
  if (!device->usable) return false;
  if (d->run->value[OPT_DEVICE]) return d->chosen.name && !strcmp(device->name, d->chosen.name);
  return (strcmp(device->type, "software") != 0 || cli_flag(d->run, OPT_ALLOW_SOFTWARE)) &&
         strcmp(device->hardware, "reference") != 0;
}

static int look_at_machine(doctor *d) {
  char *text;
  accel_strings *models = NULL;
  accel_registry_filter filter = accel_registry_filter_default();
  filter.precision = d->precision;
  if (accel_registry_list(d->run->ctx, &filter, &models) != ACCEL_OK) /* no such precision */
    return cli_fail(d->run, ACCEL_ERROR_ARGUMENT);
  accel_strings_free(&models);
  accel_status status = accel_detect_json(d->run->ctx, 0, &text);
  if (status == ACCEL_OK) {
    d->machine = cJSON_Parse(text);
    accel_string_free(&text);
    status = accel_detect(d->run->ctx, 0, &d->devices);
  }
  return status == ACCEL_OK ? 0 : cli_fail(d->run, status);
}

/* ---- results ---- */

static int print_json(const doctor *d) {
  cli_json json;
  int code = cli_json_begin(d->run, "accel.doctor/1", &json);
  if (code) return code;
  cli_json_text(&json, "model", d->model);
  cli_json_text(&json, "device", d->chosen.name);
  cli_json_text(&json, "wanted_device",
                d->run->value[OPT_DEVICE] ? d->run->value[OPT_DEVICE] : "auto");
  cli_json_text(&json, "precision", d->precision);
  for (int s = 0; s < 3; ++s) cli_json_int(&json, states[s], count(d, (doctor_state)s));
  cli_json_int(&json, "exit_code", exit_code(d));
  cli_json_open(&json, "lines", '[');
  for (uint32_t i = 0; i < d->n; ++i) {
    const doctor_line *line = &d->line[i];
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "check", line->check);
    cli_json_text(&json, "state", states[line->state]);
    cli_json_text(&json, "what", line->what);
    cli_json_text(&json, "why", line->why);
    cli_json_text(&json, "command", line->command);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(d->run, &json);
}

/* On a terminal in its width and colours; elsewhere a line is a line. */
static void print_line(const doctor_line *line) {
  static const char *const colours[] = {"\033[32m", "\033[33m", "\033[1;31m"};
  const bool colour = cli_colour(stdout);
  printf("%s%-4s%s  %-14s ", colour ? colours[line->state] : "", states[line->state],
         colour ? "\033[0m" : "", line->what);
  if (isatty(STDOUT_FILENO)) {
    const int indent = 7 + (int)(strlen(line->what) > 14 ? strlen(line->what) : 14);
    cli_print_wrapped(line->why, indent, cli_columns(stdout) - indent - 1);
    if (line->command) printf("%*s-> %s\n", indent, "", line->command);
  } else {
    printf("%s%s%s\n", line->why, line->command ? "  -> " : "", line->command ? line->command : "");
  }
}

static void print_lines(const doctor *d) {
  for (uint32_t i = 0; i < d->n; ++i) print_line(&d->line[i]);
  printf("\n%u ok, %u to look at, %u in the way\n", count(d, DOCTOR_OK), count(d, DOCTOR_WARN),
         count(d, DOCTOR_FAIL));
}

int cmd_doctor(cli_run *run) {
  doctor d = {.run = run, .model = run->n_args ? run->args[0] : NULL};
  const char *precision = run->value[OPT_PRECISION];
  if (precision && strcmp(precision, "auto") != 0) d.precision = precision;
  int code = cli_context(run);
  if (!code) code = look_at_machine(&d);
  for (size_t i = 0; !code && i < sizeof checks / sizeof *checks; ++i) {
    if (checks[i].with_model && !d.model) continue;
    d.check = checks[i].name;
    d.code = checks[i].code;
    checks[i].run(&d);
  }
  if (!code && d.no_memory) code = cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  if (!code && cli_flag(run, OPT_JSON))
    code = print_json(&d);
  else if (!code)
    print_lines(&d);
  if (!code) code = exit_code(&d);
  free_lines(&d);
  accel_devices_free(&d.devices);
  cJSON_Delete(d.machine);
  return code;
}
