/* cmd_new.c - accel new: writes tests, examples and skeletons of architectures from templates. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_database.h"
#include "cli/cli_key_models.h"
#include "cli/cli_new.h"
#include "cli/cli_print.h"
#include "cli/cli_templates.h"

/* ---- files ---- */

void new_files_add(cli_run *run, new_files *files, const char *name, char *text) {
  const char *folder = run->value[OPT_OUTPUT] ? run->value[OPT_OUTPUT] : ".";
  new_file *grown = text ? realloc(files->item, (files->n + 1) * sizeof *grown) : NULL;
  char *path = NULL;
  if (grown) files->item = grown;
  if (!grown || asprintf(&path, "%s/%s", folder, name) < 0) {
    free(text);
    files->no_memory = true;
    return;
  }
  grown[files->n++] = (new_file){.path = path, .text = text, .state = "written"};
}

void new_files_free(new_files *files) {
  for (uint32_t i = 0; i < files->n; ++i) free(files->item[i].path), free(files->item[i].text);
  free(files->item);
}

/* What is there is looked at before anything is written. */
static int look(cli_run *run, new_file *f) {
  char *there = NULL;
  if (access(f->path, F_OK)) return 0;
  if (cli_flag(run, OPT_MISSING)) {
    f->state = "kept";
    return 0;
  }
  const int code = cli_file_read(run, f->path, &there, NULL);
  if (code) return code;
  if (!strcmp(there, f->text)) f->state = "unchanged";
  free(there);
  if (!strcmp(f->state, "unchanged") || cli_flag(run, OPT_FORCE)) return 0;
  return cli_error(run, ACCEL_ERROR_IO,
                   "%s is there already and differs: --force overwrites it, --missing leaves it",
                   f->path);
}

static int write_one(cli_run *run, const new_file *f) {
  char folder[CLI_PATH];
  snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(f->path, '/') - f->path), f->path);
  FILE *to = cli_make_directories(folder) ? fopen(f->path, "w") : NULL;
  if (!to) return cli_error(run, ACCEL_ERROR_IO, "%s: %s", f->path, strerror(errno));
  bool failed = fputs(f->text, to) < 0;
  failed = fclose(to) != 0 || failed;
  return failed ? cli_error(run, ACCEL_ERROR_IO, "%s: cannot write: %s", f->path, strerror(errno))
                : 0;
}

int new_files_write(cli_run *run, new_files *files) {
  int code = files->no_memory ? cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory") : 0;
  for (uint32_t i = 0; !code && i < files->n; ++i) code = look(run, &files->item[i]);
  for (uint32_t i = 0; !code && i < files->n; ++i)
    if (!strcmp(files->item[i].state, "written")) code = write_one(run, &files->item[i]);
  return code;
}

/* ---- what --platform and --lang name ---- */

typedef struct plan {
  cli_run *run;
  bool test;
  char **platform; /* [n]; from --platform, one block; all: NULL */
  uint32_t n;
  char list[512];   /* "cpu", "amd" */
  char device[256]; /* of examples: "auto", or a chain */
  char suffix[256]; /* of names of files: "" for all */
} plan;

static bool append(char *to, size_t size, const char *before, const char *text, const char *after) {
  const size_t at = strlen(to);
  return snprintf(to + at, size - at, "%s%s%s", before, text, after) < (int)(size - at);
}

static int add_platform(plan *p, const char *name) {
  accel_registry_filter filter = accel_registry_filter_default();
  accel_strings *models = NULL;
  filter.hardware = name;
  const accel_status status = accel_registry_list(p->run->ctx, &filter, &models);
  accel_strings_free(&models);
  if (status != ACCEL_OK) return cli_fail(p->run, status);
  if (append(p->list, sizeof p->list, *p->list ? ", \"" : "\"", name, "\"") &&
      append(p->device, sizeof p->device, *p->device ? "," : "", name, "") &&
      append(p->suffix, sizeof p->suffix, "_", name, ""))
    return 0;
  return cli_usage(p->run, "--platform names too many");
}

static int choose_platforms(plan *p) {
  const char *given = p->run->value[OPT_PLATFORM];
  int code = p->run->ctx ? 0 : cli_context(p->run);
  if (given && strcmp(given, "all") != 0) {
    if (!code && !cli_split(given, &p->platform, &p->n))
      code = cli_error(p->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
    for (uint32_t i = 0; !code && i < p->n; ++i) {
      for (char *c = p->platform[i]; *c; ++c) *c = (char)tolower((unsigned char)*c);
      code = add_platform(p, p->platform[i]);
    }
    if (!code && !p->n) code = cli_usage(p->run, "--platform names none");
    return code;
  }
  for (int i = 0; !code && i < CLI_HARDWARE_KINDS; ++i)
    code = add_platform(p, cli_hardware_kinds[i]);
  snprintf(p->device, sizeof p->device, "auto");
  p->suffix[0] = 0;
  return code;
}

/* ---- tests and examples ---- */

static const struct {
  const char *lang, *end, *templates; /* of c and cpp the same */
} langs[] = {{"c", "c", "c"}, {"cpp", "cpp", "c"}, {"python", "py", "py"}};

static void add_file(const plan *p, const new_subject *s, size_t lang, new_files *files) {
  char name[600], target[600], from[32], kinds[80];
  const cli_example_kind *kind = cli_example_kind_of(s->kind);
  const char *input = p->run->value[OPT_INPUT]  ? p->run->value[OPT_INPUT]
                      : !strcmp(s->kind, "run") ? s->golden
                                                : kind->input;
  char *model = cli_literal(s->model), *golden = cli_literal(s->golden),
       *given = cli_literal(input);
  snprintf(name, sizeof name, "%s_%s%s.%s", p->test ? "test" : "example", s->word, p->suffix,
           langs[lang].end);
  snprintf(target, sizeof target, "%s", name);
  *strrchr(target, '.') = '_';
  snprintf(from, sizeof from, "%s.%s", p->test ? "test" : "example", langs[lang].templates);
  snprintf(kinds, sizeof kinds, " %s %s ", langs[lang].lang, s->kind);
  const cli_word words[] = {{"FILE", name},           {"TARGET", target},
                            {"CLASS", s->class_name}, {"MODEL", model},
                            {"GOLDEN", golden},       {"PLATFORMS", p->list},
                            {"DEVICE", p->device},    {"SUMMARY", kind->summary},
                            {"INPUT", given},         {"ARGUMENT", kind->argument}};
  new_files_add(p->run, files, name,
                model && golden && given
                    ? cli_template_fill(from, words, sizeof words / sizeof *words, kinds)
                    : NULL);
  free(model), free(golden), free(given);
}

static int add_files(plan *p, new_files *files) {
  const char *lang = p->run->value[OPT_LANG] ? p->run->value[OPT_LANG] : "c";
  new_subjects subjects;
  int code = new_subjects_choose(p->run, p->test, &subjects);
  if (!code) code = choose_platforms(p);
  for (uint32_t i = 0; !code && i < subjects.n; ++i)
    for (size_t l = 0; l < sizeof langs / sizeof *langs; ++l)
      if (!strcmp(lang, "all") || !strcmp(lang, langs[l].lang))
        add_file(p, &subjects.item[i], l, files);
  if (!code && subjects.n)
    new_files_add(p->run, files, "CMakeLists.txt",
                  cli_template_fill("project.cmake", NULL, 0, " "));
  if (!code && !subjects.n)
    code = cli_error(p->run, ACCEL_ERROR_NOT_FOUND, "nothing to write: no golden was found");
  new_subjects_free(&subjects);
  free(p->platform);
  return code;
}

/* ---- the command ---- */

static int report(cli_run *run, const new_files *files, const char *next) {
  cli_json json;
  if (!cli_flag(run, OPT_JSON)) {
    for (uint32_t i = 0; i < files->n; ++i)
      printf("%-9s %s\n", files->item[i].state, files->item[i].path);
    if (next) printf("next: %s\n", next);
    return 0;
  }
  const int code = cli_json_begin(run, "accel.new/1", &json);
  if (code) return code;
  cli_json_open(&json, "files", '[');
  for (uint32_t i = 0; i < files->n; ++i) {
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "path", files->item[i].path);
    cli_json_text(&json, "state", files->item[i].state);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  cli_json_text(&json, "next", next);
  return cli_json_end(run, &json);
}

/* Options that contradict each other, or say nothing. */
static int check_options(cli_run *run, const char *what) {
  const bool model = !strcmp(what, "model");
  const int named = cli_flag(run, OPT_MODEL) + cli_flag(run, OPT_FAMILY) +
                    cli_flag(run, OPT_FAMILIES) + cli_flag(run, OPT_KEY_MODELS);
  if (!model && strcmp(what, "test") != 0 && strcmp(what, "example") != 0)
    return cli_usage(run, "'%s' is none of test, example, model", what);
  if (cli_flag(run, OPT_FORCE) && cli_flag(run, OPT_MISSING))
    return cli_usage(run, "--force or --missing, not both");
  if (model &&
      (cli_flag(run, OPT_PLATFORM) || cli_flag(run, OPT_LANG) || cli_flag(run, OPT_FAMILIES) ||
       cli_flag(run, OPT_KEY_MODELS) || cli_flag(run, OPT_GOLDEN) || cli_flag(run, OPT_INPUT)))
    return cli_usage(run, "new model takes --model, --family, --output, --force and --missing");
  if (model && !cli_flag(run, OPT_MODEL))
    return cli_usage(run, "new model needs --model DIR, whose config.json says what the class is");
  if (!model && named != 1)
    return cli_usage(run, "one of --model, --family, --batch and --key-models");
  if (!strcmp(what, "test") && cli_flag(run, OPT_INPUT))
    return cli_usage(run, "--input goes with example");
  return 0;
}

int cmd_new(cli_run *run) {
  const char *what = run->args[0];
  new_files files = {0};
  char *next = NULL;
  plan p = {.run = run, .test = !strcmp(what, "test")};
  int code = check_options(run, what);
  if (code) return code;
  if (!strcmp(what, "model"))
    code = new_model(run, &files, &next);
  else
    code = add_files(&p, &files);
  if (!code) code = new_files_write(run, &files);
  if (!code) code = report(run, &files, next);
  new_files_free(&files);
  free(next);
  return code;
}
