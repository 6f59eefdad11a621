/* cli_new_subjects.c - whom accel new writes for: models with their classes and goldens. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli_goldens.h"
#include "cli/cli_key_models.h"
#include "cli/cli_new.h"

static bool is_directory(const char *path) {
  struct stat about;
  return !stat(path, &about) && S_ISDIR(about.st_mode);
}

static char *absolute(const char *path) {
  char *real = realpath(path, NULL);
  return real ? real : strdup(path);
}

/* "org/All-MiniLM" -> "all_minilm" */
static char *word_of(const char *name) {
  size_t n = strlen(name);
  while (n > 1 && name[n - 1] == '/') --n;
  size_t begin = n;
  while (begin && name[begin - 1] != '/') --begin;
  char *word = strndup(name + begin, n - begin);
  for (char *c = word; word && *c; ++c)
    *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '_';
  return word;
}

static int no_memory(cli_run *run) {
  return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

/* Takes all strings of `s`, of which one with the same name of files is there already once; false:
 * one is NULL, or there is no memory. */
static bool add(new_subjects *out, new_subject s) {
  bool known = false;
  for (uint32_t i = 0; s.word && i < out->n; ++i) known |= !strcmp(out->item[i].word, s.word);
  const bool whole = s.word && s.class_name && s.model && s.golden;
  new_subject *grown = whole && !known ? realloc(out->item, (out->n + 1) * sizeof *grown) : NULL;
  if (grown) {
    out->item = grown;
    grown[out->n++] = s;
    return true;
  }
  free(s.word), free(s.class_name), free(s.model), free(s.golden);
  return whole && known;
}

/* ---- one model ---- */

/* The golden that --golden names, or the first of the model's own; "" where there is none. */
static int find_golden(cli_run *run, const char *directory, char **golden, char **class_name) {
  const char *named = run->value[OPT_GOLDEN], *top = named ? named : directory;
  cli_goldens found;
  char message[1024];
  if (named && !is_directory(named)) {
    const char *file = strrchr(named, '/') ? strrchr(named, '/') + 1 : named;
    struct stat about;
    if (stat(named, &about))
      return cli_error(run, ACCEL_ERROR_IO, "%s: %s", named, strerror(errno));
    *golden = absolute(named);
    *class_name = cli_golden_class(file, *class_name);
    return 0;
  }
  if (!cli_goldens_find(top, &found, message, sizeof message)) {
    cli_goldens_free(&found);
    return cli_error(run, ACCEL_ERROR_IO, "%s", message);
  }
  char *own = absolute(directory);
  for (uint32_t i = 0; own && i < found.n && !*golden; ++i) {
    char *its = absolute(found.item[i].directory);
    if (its && !strcmp(its, own)) {
      *golden = absolute(found.item[i].path);
      free(*class_name);
      *class_name = strdup(found.item[i].architecture);
    }
    free(its);
  }
  free(own);
  cli_goldens_free(&found);
  return 0;
}

static const char *kind_of(const char *type, const char *class_name) {
  for (int i = 0; i < CLI_KEY_MODELS; ++i)
    if (cli_has_type(cli_key_models[i].types, type) && !strcmp(cli_key_models[i].kind, "translate"))
      return cli_key_models[i].kind;
  return cli_task_kind(accel_architecture_task(class_name));
}

static int choose_model(cli_run *run, const char *model, bool golden_needed, new_subjects *out) {
  char *directory = NULL, *type = NULL, *class_name = NULL, *golden = NULL;
  int code = cli_context(run);
  if (code) return code;
  const accel_status status = accel_find_model(run->ctx, model, &directory);
  if (status != ACCEL_OK) return cli_fail(run, status);
  if (!cli_model_config(directory, &type, &class_name)) {
    code = no_memory(run);
  } else if (!*class_name) {
    code = cli_error(run, ACCEL_ERROR_FORMAT,
                     "%s/config.json: field 'architectures' is missing, or there is no such file",
                     directory);
  } else {
    const char *kind = kind_of(type, class_name);
    code = find_golden(run, directory, &golden, &class_name);
    if (!code && !golden && golden_needed)
      code =
          cli_error(run, ACCEL_ERROR_NOT_FOUND,
                    "%s: no golden*.safetensors: name one with --golden FILE (docs/verify.md says "
                    "how they are made)",
                    directory);
    char *place = is_directory(model) ? absolute(model) : strdup(model);
    const new_subject s = {.word = place ? word_of(place) : NULL,
                           .class_name = class_name,
                           .model = place,
                           .golden = golden ? golden : strdup(""),
                           .kind = kind};
    if (code)
      free(s.word), free(s.class_name), free(s.model), free(s.golden);
    else if (!add(out, s))
      code = no_memory(run);
    class_name = NULL;
  }
  free(class_name), free(type);
  accel_string_free(&directory);
  return code;
}

/* ---- families ---- */

/* Of a class of models the golden of the model with the shortest name. */
static const cli_golden *choose_golden(const cli_goldens *all, const char *types) {
  const cli_golden *best = NULL;
  for (uint32_t i = 0; i < all->n; ++i) {
    const cli_golden *g = &all->item[i];
    if (*g->precision || !cli_has_type(types, g->model_type)) continue;
    if (!best || strlen(g->model) < strlen(best->model)) best = g;
  }
  return best;
}

/* NULL: it is none of the thirteen classes. */
static const cli_key_model *find_key_model(const char *name) {
  for (int i = 0; i < CLI_KEY_MODELS; ++i)
    if (!strcasecmp(cli_key_models[i].word, name) || !strcasecmp(cli_key_models[i].name, name))
      return &cli_key_models[i];
  return NULL;
}

/* A family that is none of the thirteen is one by its model_type, and its example takes tensors.
 * Tests, and examples on tensors, take the model that the golden belongs to. */
static bool add_family(const cli_key_model *key, const char *name, const cli_golden *golden,
                       bool needed, new_subjects *out) {
  const bool own = golden && (needed || !key || !strcmp(key->kind, "run"));
  return add(out, (new_subject){.word = word_of(key ? key->word : name),
                                .class_name = strdup(golden ? golden->architecture : key->name),
                                .model = own ? absolute(golden->directory) : strdup(key->id),
                                .golden = golden ? absolute(golden->path) : strdup(""),
                                .kind = key ? key->kind : "run"});
}

static int choose_family(cli_run *run, const char *name, const cli_goldens *goldens, bool needed,
                         new_subjects *out) {
  const cli_key_model *key = find_key_model(name);
  char types[80];
  snprintf(types, sizeof types, " %.70s ", name);
  const cli_golden *golden = choose_golden(goldens, key ? key->types : types);
  if (!golden && (needed || !key))
    return cli_error(
        run, ACCEL_ERROR_NOT_FOUND,
        "family '%s': no golden of it below %s: name a directory with --golden DIR, or "
        "a model with --model",
        name, run->value[OPT_GOLDEN] ? run->value[OPT_GOLDEN] : ".");
  return add_family(key, name, golden, needed, out) ? 0 : no_memory(run);
}

static int choose_key_models(cli_run *run, const cli_goldens *goldens, bool needed,
                             new_subjects *out) {
  int code = 0;
  for (int i = 0; !code && i < CLI_KEY_MODELS; ++i) {
    const cli_key_model *key = &cli_key_models[i];
    if (needed && !choose_golden(goldens, key->types))
      cli_note(run, "%s: left out: no golden of it below %s", key->name,
               run->value[OPT_GOLDEN] ? run->value[OPT_GOLDEN] : ".");
    else
      code = choose_family(run, key->word, goldens, needed, out);
  }
  return code;
}

int new_subjects_choose(cli_run *run, bool goldens_needed, new_subjects *out) {
  const char *families =
      run->value[OPT_FAMILIES] ? run->value[OPT_FAMILIES] : run->value[OPT_FAMILY];
  cli_goldens goldens = {0};
  char message[1024], **name = NULL;
  uint32_t n = 0;
  int code = 0;
  *out = (new_subjects){0};
  if (run->value[OPT_MODEL]) return choose_model(run, run->value[OPT_MODEL], goldens_needed, out);
  if ((goldens_needed || run->value[OPT_GOLDEN]) &&
      !cli_goldens_find(run->value[OPT_GOLDEN] ? run->value[OPT_GOLDEN] : ".", &goldens, message,
                        sizeof message))
    code = cli_error(run, ACCEL_ERROR_IO, "%s", message);
  if (!code && families && !cli_split(families, &name, &n)) code = no_memory(run);
  for (uint32_t i = 0; !code && i < n; ++i)
    code = choose_family(run, name[i], &goldens, goldens_needed, out);
  if (!code && cli_flag(run, OPT_KEY_MODELS))
    code = choose_key_models(run, &goldens, goldens_needed, out);
  free(name);
  cli_goldens_free(&goldens);
  return code;
}

void new_subjects_free(new_subjects *subjects) {
  for (uint32_t i = 0; i < subjects->n; ++i) {
    new_subject *s = &subjects->item[i];
    free(s->word), free(s->class_name), free(s->model), free(s->golden);
  }
  free(subjects->item);
}
