/* cli_new_model.c - accel new model: the skeleton of an architecture, by a model's config.json. */
#include <ctype.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_goldens.h"
#include "cli/cli_new.h"
#include "cli/cli_print.h"
#include "cli/cli_templates.h"

/* ---- the fields of config.json as C ---- */

/* Fields that every configuration has and the library reads itself, or that say nothing of layers. */
static bool is_common(const char *name) {
  static const char *const common[] = {"architectures", "model_type", "transformers_version",
                                       "torch_dtype",   "dtype",      "_name_or_path"};
  for (size_t i = 0; i < sizeof common / sizeof *common; ++i)
    if (!strcmp(common[i], name)) return true;
  return strstr(name, "token_id") != NULL;
}

static bool is_identifier(const char *name) {
  static const char *const keywords =
      " auto break case const default do double else enum float for "
      "goto if int long register return short signed static struct "
      "switch union unsigned void volatile while inline restrict ";
  char word[80];
  if (snprintf(word, sizeof word, " %s ", name) >= (int)sizeof word || strstr(keywords, word))
    return false;
  if (!islower((unsigned char)name[0])) return false;
  for (const char *c = name; *c; ++c)
    if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && *c != '_') return false;
  return true;
}

typedef struct fields {
  FILE *members, *defaults, *rows;
  int indent; /* of defaults behind the first */
  bool any;
} fields;

static void add_field(fields *f, const cJSON *item) {
  const char *name = item->string;
  const double value = item->valuedouble;
  if (is_common(name) || !is_identifier(name) || !(cJSON_IsBool(item) || cJSON_IsNumber(item)))
    return;
  if (f->any) fprintf(f->defaults, ",\n%*s", f->indent, "");
  if (cJSON_IsBool(item)) {
    fprintf(f->members, "  bool %s;\n", name);
    fprintf(f->defaults, ".%s = %s", name, cJSON_IsTrue(item) ? "true" : "false");
    fprintf(f->rows, "      ACCEL_FIELD_BOOL(\"%s\", &c->%s),\n", name, name);
  } else if (cJSON_IsNumber(item) && value == floor(value) && value >= 0 && value < 1e9) {
    fprintf(f->members, "  int64_t %s;\n", name);
    fprintf(f->defaults, ".%s = %.0f", name, value);
    fprintf(f->rows, "      ACCEL_FIELD_INT(\"%s\", &c->%s, 0, 1000000000),\n", name, name);
  } else {
    char text[40];
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value) snprintf(text, sizeof text, "%.17g", value);
    fprintf(f->members, "  double %s;\n", name);
    fprintf(f->defaults, ".%s = %s", name, text);
    fprintf(f->rows, "      ACCEL_FIELD_NUMBER(\"%s\", &c->%s),\n", name, name);
  }
  f->any = true;
}

/* *text[3]: members, defaults, rows; free() each.  false: no memory, or no field at all. */
static bool write_fields(const cJSON *config, const char *stem, char *text[3]) {
  size_t size[3];
  const cJSON *item;
  FILE *to[3];
  bool good = true;
  for (int i = 0; i < 3; ++i) good = (to[i] = open_memstream(&text[i], &size[i])) != NULL && good;
  fields f = {to[0], to[1], to[2], (int)(strlen("  *c = (_config){") + strlen(stem)), false};
  if (good) cJSON_ArrayForEach(item, config) add_field(&f, item);
  for (int i = 0; i < 3; ++i) good = to[i] && fclose(to[i]) == 0 && good;
  return good && f.any;
}

/* ---- the two files ---- */

/* "mega-Net" -> "mega_net" */
static void stem_of(const char *type, char into[64]) {
  snprintf(into, 64, "%s%s", isdigit((unsigned char)type[0]) ? "model_" : "", type);
  for (char *c = into; *c; ++c)
    *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '_';
}

static int number_of(const cJSON *config, const char *first, const char *second, int otherwise) {
  const char *const names[] = {first, second};
  for (int i = 0; i < 2; ++i) {
    const double n = cli_json_number(config, names[i]);
    if (isfinite(n) && n >= 1 && n < 1e9) return (int)n;
  }
  return otherwise;
}

static void add_registry(cli_run *run, new_files *files, const cJSON *config, const char *stem,
                         const char *class_name) {
  char dim[24], length[24], id[96], name[128];
  const char *given = run->value[OPT_MODEL];
  const bool hub = strchr(given, '/') && given[0] != '/' && given[0] != '.' && access(given, F_OK);
  char *text = cJSON_PrintUnformatted(config);
  snprintf(dim, sizeof dim, "%d", number_of(config, "hidden_size", "d_model", 1));
  snprintf(length, sizeof length, "%d",
           number_of(config, "max_position_embeddings", "n_positions", 512));
  snprintf(id, sizeof id, "%s%.80s", hub ? "" : "examples/", hub ? given : stem);
  snprintf(name, sizeof name, "registry/models/%s.json", stem);
  const cli_word words[] = {{"FAMILY", run->value[OPT_FAMILY]},
                            {"ID", id},
                            {"CLASS", class_name},
                            {"DIM", dim},
                            {"LENGTH", length},
                            {"CONFIG", text ? text : "{}"}};
  new_files_add(run, files, name,
                cli_template_fill("model.json", words, sizeof words / sizeof *words, " "));
  cJSON_free(text);
}

static int add_files(cli_run *run, new_files *files, const cJSON *config, const char *type,
                     const char *class_name, char **next) {
  char stem[64], name[128], *text[3] = {NULL, NULL, NULL};
  int code = 0;
  stem_of(type, stem);
  snprintf(name, sizeof name, "src/models/%s.c", stem);
  if (write_fields(config, stem, text)) {
    const cli_word words[] = {{"STEM", stem},       {"CLASS", class_name}, {"TYPE", type},
                              {"MEMBERS", text[0]}, {"DEFAULTS", text[1]}, {"FIELDS", text[2]}};
    new_files_add(run, files, name,
                  cli_template_fill("model.c", words, sizeof words / sizeof *words, " "));
    if (run->value[OPT_FAMILY]) add_registry(run, files, config, stem, class_name);
    if (asprintf(next, "echo 'ACCEL_MODEL(%s, \"%s\")' >> src/models/models.def", stem, type) < 0)
      *next = NULL;
  } else {
    code = cli_error(run, ACCEL_ERROR_FORMAT,
                     "%s: its config.json has no field that a skeleton could read",
                     run->value[OPT_MODEL]);
  }
  for (int i = 0; i < 3; ++i) free(text[i]);
  return code;
}

/* ---- what it is for ---- */

/* Is a class of this name built already? */
static bool is_known(const char *class_name) { return accel_architecture_task(class_name) != NULL; }

static int check_family(cli_run *run) {
  const char *family = run->value[OPT_FAMILY];
  char *text;
  if (!family) return 0;
  const accel_status status = accel_registry_json(run->ctx, NULL, &text);
  if (status != ACCEL_OK) return cli_fail(run, status);
  cJSON *root = cJSON_Parse(text);
  accel_string_free(&text);
  const bool known =
      cJSON_HasObjectItem(cJSON_GetObjectItemCaseSensitive(root, "families"), family);
  cJSON_Delete(root);
  return known ? 0
               : cli_error(run, ACCEL_ERROR_ARGUMENT,
                           "the registry has no family '%s'; accel registry lists them", family);
}

int new_model(cli_run *run, new_files *files, char **next) {
  char *directory = NULL, *type = NULL, *class_name = NULL, path[4200], *text = NULL;
  int code = cli_context(run);
  if (!code) code = check_family(run);
  if (code) return code;
  const accel_status status = accel_find_model(run->ctx, run->value[OPT_MODEL], &directory);
  if (status != ACCEL_OK) return cli_fail(run, status);
  snprintf(path, sizeof path, "%s/config.json", directory);
  if (!cli_model_config(directory, &type, &class_name))
    code = cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  else if (!*type || !*class_name || strpbrk(type, "\"\\\n") || strpbrk(class_name, "\"\\\n*/"))
    code = cli_error(run, ACCEL_ERROR_FORMAT,
                     "%s: fields 'model_type' and 'architectures' say what to write, and one is "
                     "missing",
                     path);
  else if (is_known(class_name))
    code = cli_error(run, ACCEL_ERROR_ARGUMENT, "%s is built already: accel test %s runs it",
                     class_name, run->value[OPT_MODEL]);
  else
    code = cli_file_read(run, path, &text, NULL);
  cJSON *config = text ? cJSON_Parse(text) : NULL;
  if (!code) code = add_files(run, files, config, type, class_name, next);
  cJSON_Delete(config);
  free(text), free(type), free(class_name);
  accel_string_free(&directory);
  return code;
}
