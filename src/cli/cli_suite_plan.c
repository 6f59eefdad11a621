/* cli_suite_plan.c - suites of accel bench: their file, the key models, and the cells of both. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_key_models.h"
#include "cli/cli_suite.h"
#include "shared/hash.h"

/* Scenarios, and how they are run unless the suite says otherwise. */
static const struct scenario {
  const char *name;
  uint32_t batch, iters, rounds, warmup;
  double load;
} scenarios[] = {{"single-stream", 1, 20, 5, 3, 0}, {"offline", 32, 5, 5, 2, 0},
                 {"server", 1, 100, 5, 6, 0.5},     {"batch-sweep", 0, 10, 3, 2, 0},
                 {"length-sweep", 1, 10, 3, 2, 0},  {"cold-start", 1, 1, 5, 1, 0},
                 {"warm-start", 1, 1, 5, 1, 0},     {"memory", 1, 1, 1, 1, 0}};
static const uint32_t batches[] = {1, 2, 4, 8, 16, 32}, lengths[] = {16, 32, 64, 128, 256, 512};

typedef struct suite_reader {
  cli_run *run;
  const char *path;      /* of the suite, for messages */
  const char *directory; /* where key models are looked for; NULL: the caches */
  bool key_models;
  const cJSON *root;
  char **device, **precision;
  uint32_t n_device, n_precision;
  suite_plan *plan;
} suite_reader;

/* ---- reading fields ---- */

static const cJSON *member(const cJSON *object, const char *name) {
  return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
}

static int wrong(const suite_reader *s, const char *field, const char *remedy) {
  return cli_error(s->run, ACCEL_ERROR_FORMAT, "%s: %s: %s", s->path, field, remedy);
}

/* Every member is one of `names` (between blanks). */
static int check_names(const suite_reader *s, const cJSON *object, const char *names) {
  for (const cJSON *item = object ? object->child : NULL; item; item = item->next) {
    char word[64];
    if (item->string && snprintf(word, sizeof word, " %s ", item->string) < (int)sizeof word &&
        strstr(names, word))
      continue;
    return wrong(s, item->string ? item->string : "a member",
                 "is no field of a suite: docs/benchmarks.md lists them");
  }
  return 0;
}

/* A whole number of the first of these objects that has it, else `otherwise`. */
static int read_count(const suite_reader *s, const cJSON *const objects[3], const char *name,
                      uint32_t otherwise, uint32_t *out) {
  *out = otherwise;
  for (int i = 0; i < 3; ++i) {
    const cJSON *item = member(objects[i], name);
    if (!item) continue;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1) || item->valuedouble > 1048576 ||
        item->valuedouble != floor(item->valuedouble))
      return wrong(s, name, "must be a whole number from 1 to 1048576");
    *out = (uint32_t)item->valuedouble;
    break;
  }
  return 0;
}

static int read_real(const suite_reader *s, const cJSON *object, const char *name, double otherwise,
                     double *out) {
  const cJSON *item = member(object, name);
  *out = otherwise;
  if (!item) return 0;
  if (!cJSON_IsNumber(item) || !(item->valuedouble > 0) || !isfinite(item->valuedouble))
    return wrong(s, name, "must be a number above 0");
  *out = item->valuedouble;
  return 0;
}

/* "cpu,vulkan:0" of an option, else the suite's list, else one word; free() the list. */
static int read_words(suite_reader *s, cli_option_id option, const char *name,
                      const char *otherwise, char ***list, uint32_t *n) {
  const char *from = s->run->value[option];
  const cJSON *items = from ? NULL : member(s->root, name), *item;
  char text[1024] = "";
  if (items && (!cJSON_IsArray(items) || !cJSON_GetArraySize(items)))
    return wrong(s, name, "must be a list of names");
  cJSON_ArrayForEach(item, items) {
    const char *word = cJSON_GetStringValue(item);
    if (!word || strlen(text) + strlen(word) + 2 > sizeof text)
      return wrong(s, name, "must be a list of names");
    strcat(strcat(text, word), ",");
    otherwise = text;
  }
  if (!cli_split(from ? from : otherwise, list, n))
    return cli_error(s->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  return 0;
}

/* ---- cells ---- */

const char *suite_cell_name(const suite_cell *c, char *into, size_t size) {
  char more[64] = "";
  if (!strcmp(c->scenario, "batch-sweep") || c->batch > 1)
    snprintf(more, sizeof more, ", batch %u", c->batch);
  else if (c->length)
    snprintf(more, sizeof more, ", length %u", c->length);
  snprintf(into, size, "%s, %s, %s: %s%s", c->model, c->device, c->precision, c->scenario, more);
  return into;
}

const char *suite_cell_figure(const suite_cell *c) {
  return strstr(c->scenario, "-start") ? "load" : "latency";
}

/* Rounds and iters are no part of it: they say how well a cell is known. */
static void name_cell(const cli_run *run, suite_cell *c) {
  char text[256];
  uint64_t hash = ACCEL_HASH_SEED;
  const char *const words[] = {c->model, c->device, c->precision, c->task, c->scenario};
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i) {
    hash = accel_hash_text(hash, words[i]);
    hash = accel_hash_text(hash, "|");
  }
  snprintf(text, sizeof text, "%d|%u|%u|%u|%.17g|%.17g|%.24s|%.12s", c->random_weights, c->batch,
           c->length, c->new_tokens, c->load, c->p99_ms,
           run->value[OPT_THREADS] ? run->value[OPT_THREADS] : "0",
           run->value[OPT_MODE] ? run->value[OPT_MODE] : "");
  hash = accel_hash_text(hash, text);
  snprintf(c->key, sizeof c->key, "%016llx", (unsigned long long)hash);
}

/* The cell of `like` on every device at every precision. */
static int add_cells(const suite_reader *s, const suite_cell *like) {
  suite_plan *plan = s->plan;
  for (uint32_t d = 0; d < s->n_device; ++d)
    for (uint32_t p = 0; p < s->n_precision; ++p) {
      if (plan->n == plan->capacity) {
        const uint32_t more = plan->capacity ? 2 * plan->capacity : 64;
        suite_cell *grown = realloc(plan->cell, more * sizeof *grown);
        if (!grown) return cli_error(s->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
        plan->cell = grown;
        plan->capacity = more;
      }
      suite_cell *c = &plan->cell[plan->n++];
      *c = *like;
      c->model = strdup(like->model);
      c->task = strdup(like->task);
      c->device = strdup(s->device[d]);
      c->precision = strdup(s->precision[p]);
      if (!c->model || !c->task || !c->device || !c->precision)
        return cli_error(s->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
      name_cell(s->run, c);
    }
  return 0;
}

/* A cell for each number of the list `name` of the scenario, else of the usual one. */
static int add_sweep(const suite_reader *s, const cJSON *object, const char *name,
                     const uint32_t *usual, uint32_t n, suite_cell *like) {
  const cJSON *list = member(object, name), *item;
  uint32_t *const field = !strcmp(name, "batches") ? &like->batch : &like->length;
  int code = 0;
  for (uint32_t i = 0; !list && i < n && !code; ++i) {
    *field = usual[i];
    code = add_cells(s, like);
  }
  if (list && (!cJSON_IsArray(list) || !cJSON_GetArraySize(list)))
    return wrong(s, name, "must be a list of whole numbers");
  cJSON_ArrayForEach(item, list) {
    if (code) break;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1) || item->valuedouble > 1048576)
      return wrong(s, name, "must be a list of whole numbers from 1 to 1048576");
    *field = (uint32_t)item->valuedouble;
    code = add_cells(s, like);
  }
  return code;
}

/* One scenario of one model; `model` has what the model's entry says. */
static int add_scenario(const suite_reader *s, const cJSON *given, const cJSON *entry,
                        const suite_cell *model) {
  const char *name = cJSON_IsString(given) ? given->valuestring : cli_json_word(given, "scenario");
  const cJSON *const from[3] = {given, entry, s->root};
  const bool transcribes = !strcmp(model->task, "transcribe");
  suite_cell c = *model;
  size_t k = 0;
  while (k < sizeof scenarios / sizeof *scenarios && strcmp(scenarios[k].name, name) != 0) ++k;
  if (k == sizeof scenarios / sizeof *scenarios)
    return wrong(s, "scenarios",
                 "each is single-stream, offline, server, batch-sweep, length-sweep, cold-start, "
                 "warm-start or memory, or an object whose \"scenario\" is");
  c.scenario = scenarios[k].name;
  c.load = scenarios[k].load;
  const bool by_batch = !strcmp(c.scenario, "batch-sweep"),
             by_length = !strcmp(c.scenario, "length-sweep");
  int code = check_names(s, cJSON_IsObject(given) ? given : NULL,
                         " scenario batch batches lengths load p99_ms rounds iters warmup ");
  if (!code) code = read_count(s, from, "rounds", scenarios[k].rounds, &c.rounds);
  if (!code) code = read_count(s, from, "iters", scenarios[k].iters, &c.iters);
  if (!code) code = read_count(s, from, "warmup", scenarios[k].warmup, &c.warmup);
  if (!code) code = read_count(s, from, "batch", scenarios[k].batch, &c.batch);
  if (!code && c.load > 0) code = read_real(s, given, "load", c.load, &c.load);
  if (!code && c.load > 0) code = read_real(s, given, "p99_ms", 0, &c.p99_ms);
  if (c.load > 0 && c.warmup < 4) c.warmup = 4; /* they tell what can be served */
  if (code || (transcribes && (by_batch || by_length || c.batch > 1))) return code;
  if (by_batch) return add_sweep(s, given, "batches", batches, 6, &c);
  if (by_length) return add_sweep(s, given, "lengths", lengths, 6, &c);
  return add_cells(s, &c);
}

/* ---- models ---- */

/* Where a key model is: below the directory under its whole name or the end of it, else where
 * models are kept.  false: nowhere. */
static bool find_key_model(const suite_reader *s, const char *name, char *into, size_t size) {
  const char *const parts[] = {name, strrchr(name, '/') ? strrchr(name, '/') + 1 : name};
  char config[8192], *found = NULL;
  for (int i = 0; s->directory && i < 2; ++i) {
    snprintf(into, size, "%s/%s", s->directory, parts[i]);
    snprintf(config, sizeof config, "%s/config.json", into);
    if (!access(config, F_OK)) return true;
  }
  snprintf(into, size, "%s", name);
  const bool here = !s->directory && accel_find_model(s->run->ctx, name, &found) == ACCEL_OK;
  accel_string_free(&found);
  return here;
}

static int add_model(const suite_reader *s, const cJSON *entry) {
  const char *name = cJSON_IsString(entry) ? entry->valuestring : cli_json_word(entry, "model"),
             *task = cli_json_word(entry, "task");
  const cJSON *const from[3] = {entry, s->root, NULL}, *random = member(entry, "random_weights"),
                     *one;
  char where[4096];
  suite_cell c = {.task = (char *)(*task ? task : "encode")};
  if (!*name) return wrong(s, "models", "each is a name, or an object with a \"model\"");
  if (strcmp(c.task, "encode") != 0 && strcmp(c.task, "generate") != 0 &&
      strcmp(c.task, "transcribe") != 0)
    return wrong(s, "task", "encode, generate or transcribe");
  int code = check_names(s, cJSON_IsObject(entry) ? entry : NULL,
                         " model task length new_tokens random_weights rounds iters warmup batch ");
  if (!code) code = read_count(s, from, "length", 0, &c.length);
  if (!code && strcmp(c.task, "encode") != 0)
    code = read_count(s, from, "new_tokens", 32, &c.new_tokens);
  if (code) return code;
  c.random_weights = cJSON_IsTrue(random) || cli_flag(s->run, OPT_RANDOM_WEIGHTS);
  c.model = (char *)name;
  if (s->key_models && find_key_model(s, name, where, sizeof where)) {
    c.model = where;
  } else if (s->key_models && !c.random_weights) {
    cli_note(s->run, "%s: not here; left out", name);
    return 0;
  }
  cJSON_ArrayForEach(one, member(s->root, "scenarios")) {
    code = add_scenario(s, one, cJSON_IsObject(entry) ? entry : NULL, &c);
    if (code) return code;
  }
  return 0;
}

static int read_suite(suite_reader *s) {
  const cJSON *models = member(s->root, "models"), *list = member(s->root, "scenarios"), *entry;
  if (strcmp(cli_json_word(s->root, "schema"), "accel.suite/1") != 0)
    return wrong(s, "schema", "must be \"accel.suite/1\"");
  if (!cJSON_IsArray(models) || !cJSON_IsArray(list) || !cJSON_GetArraySize(list))
    return wrong(s, "models, scenarios", "must be lists");
  int code = check_names(s, s->root,
                         " schema models devices precisions scenarios rounds iters warmup length ");
  if (!code) code = read_words(s, OPT_DEVICE, "devices", "cpu", &s->device, &s->n_device);
  if (!code)
    code = read_words(s, OPT_PRECISION, "precisions", "fp32", &s->precision, &s->n_precision);
  cJSON_ArrayForEach(entry, models) if (!code) code = add_model(s, entry);
  if (!code && !s->plan->n)
    code = cli_error(s->run, ACCEL_ERROR_NOT_FOUND,
                     "%s: none of its models is here: accel bench --suite key-models DIR names a "
                     "directory, --random-weights builds them without files",
                     s->path);
  return code;
}

/* The suite of key-models: a model of each class that matrices name, and the one most asked for, in
 * all scenarios. */
static cJSON *key_models_suite(void) {
  cJSON *root = cJSON_CreateObject(), *models = cJSON_AddArrayToObject(root, "models"),
        *list = cJSON_AddArrayToObject(root, "scenarios");
  cJSON_AddStringToObject(root, "schema", "accel.suite/1");
  cJSON_AddItemToArray(models, cJSON_CreateString("sentence-transformers/all-MiniLM-L6-v2"));
  for (int i = 0; i < CLI_KEY_MODELS; ++i) {
    const cli_key_model *key = &cli_key_models[i];
    cJSON *model = cJSON_CreateObject();
    cJSON_AddStringToObject(model, "model", key->id);
    if (*key->task) cJSON_AddStringToObject(model, "task", key->task);
    if (*key->task) cJSON_AddNumberToObject(model, "new_tokens", 32);
    cJSON_AddItemToArray(models, model);
  }
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; ++i)
    cJSON_AddItemToArray(list, cJSON_CreateString(scenarios[i].name));
  return root;
}

/* The plan needs a context to find models, which is gone when cells are run in children. */
int suite_plan_make(cli_run *run, const char *name, const char *directory, suite_plan *out) {
  suite_reader s = {.run = run,
                    .path = name,
                    .directory = directory,
                    .key_models = !strcmp(name, "key-models"),
                    .plan = out};
  char *text = NULL;
  *out = (suite_plan){0};
  if (!s.key_models && directory)
    return cli_usage(run, "a directory goes with --suite key-models; a file names its models");
  int code = s.key_models ? 0 : cli_file_read(run, name, &text, NULL);
  if (code) return code;
  cJSON *root = s.key_models ? key_models_suite() : cJSON_Parse(text);
  s.root = root;
  code = root ? cli_context(run) : cli_error(run, ACCEL_ERROR_FORMAT, "%s: no JSON", name);
  if (!code) code = read_suite(&s);
  accel_destroy(&run->ctx);
  cJSON_Delete(root);
  free(s.device);
  free(s.precision);
  free(text);
  return code;
}

void suite_plan_free(suite_plan *plan) {
  for (uint32_t i = 0; i < plan->n; ++i) {
    suite_cell *c = &plan->cell[i];
    free(c->model), free(c->device), free(c->precision), free(c->task);
  }
  free(plan->cell);
  *plan = (suite_plan){0};
}
