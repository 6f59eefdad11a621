/* embed_registry.c - run at build time: checks registry/ against its schema and writes it as one C file.
 *
 *   embed_registry OUT.c REGISTRY_DIRECTORY
 *
 * Reads schema.json, hardware.json, families.json and models/ *.json there.  Besides the schema it holds that families,
 * tasks and names of hardware and precisions exist, that ids and aliases are given once, and that every entry has its
 * dimensions.  Messages go to stderr; exit 1 on any.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "registry/schema.h"

typedef struct registry_files {
  accel__arena arena;
  accel__json_file schema, hardware, families;
  accel__json_file *model;
  size_t n_model;
  accel__map names; /* folded id or alias -> file number */
} registry_files;

/* ---- reading and checking ---- */

static accel_status read_checked(registry_files *f, const char *directory, const char *name,
                                 const char *definition, accel__json_file *out) {
  const char *path = accel__path_join(&f->arena, directory, name);
  if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__json_read(path, 0, out));
  return definition ? accel__schema_check(f->schema.root, definition, out->root, path) : ACCEL_OK;
}

/* The keys of an object are the values of a schema's enum, and in the same number. */
static accel_status same_names(const registry_files *f, const accel__json *object,
                               const char *definition) {
  const accel__json *known = accel__json_get(
      accel__json_get(accel__json_get(f->schema.root, "definitions"), definition), "enum");
  if (cJSON_GetArraySize(known) == cJSON_GetArraySize(object))
    return ACCEL_OK; /* that each key is in the enum was checked */
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: definition '%s' and %s do not list the same names",
                     f->schema.name, definition, f->hardware.name);
}

static accel_status add_name(registry_files *f, const char *name, int64_t file) {
  int64_t other;
  char *folded = accel__arena_string(&f->arena, name);
  if (!folded) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (char *at = folded; *at; at++) *at = (char)tolower((unsigned char)*at);
  if (accel__map_get(&f->names, folded, strlen(folded), &other))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: name '%s' is taken already, in %s",
                       f->model[file].name, name, f->model[other].name);
  return accel__map_set(&f->names, folded, strlen(folded), file);
}

/* Does the entry, its family or the defaults say `key`? */
static bool says(const registry_files *f, const accel__json *entry, const accel__json *family,
                 const char *key) {
  return accel__json_get(entry, key) || accel__json_get(family, key) ||
         accel__json_get(accel__json_get(f->families.root, "defaults"), key);
}

static accel_status check_entry(registry_files *f, const accel__json *entry,
                                const char *family_name, int64_t file) {
  static const char *const needed[] = {"description",       "task",
                                       "architecture",      "embedding_dim",
                                       "sequence_length",   "model_precision",
                                       "default_batch_size"};
  const char *id = accel__json_get(entry, "id")->valuestring, *path = f->model[file].name;
  const accel__json *own = accel__json_get(entry, "family");
  const char *name = own ? own->valuestring : family_name;
  const accel__json *family =
      name ? accel__json_get(accel__json_get(f->families.root, "families"), name) : NULL;
  if (!family)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: entry '%s': family '%s' is not in families.json",
                       path, id, name ? name : "");
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    if (!says(f, entry, family, needed[i]))
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: entry '%s' lacks '%s'", path, id, needed[i]);
  }
  ACCEL_TRY(add_name(f, id, file));
  ACCEL_JSON_EACH(alias, accel__json_get(entry, "aliases"))
  ACCEL_TRY(add_name(f, alias->valuestring, file));
  return ACCEL_OK;
}

static accel_status check_models(registry_files *f) {
  for (size_t i = 0; i < f->n_model; i++) {
    const accel__json *family = accel__json_get(f->model[i].root, "family");
    ACCEL_JSON_EACH(entry, accel__json_get(f->model[i].root, "models"))
    ACCEL_TRY(check_entry(f, entry, family ? family->valuestring : NULL, (int64_t)i));
  }
  return ACCEL_OK;
}

static accel_status check_tasks(const registry_files *f) {
  const accel__json *tasks = accel__json_get(f->families.root, "tasks");
  ACCEL_JSON_EACH(family, accel__json_get(f->families.root, "families")) {
    const accel__json *task = accel__json_get(family, "task");
    if (task && !accel__json_get(tasks, task->valuestring))
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: family '%s': task '%s' is not in 'tasks'",
                         f->families.name, family->string, task->valuestring);
  }
  return ACCEL_OK;
}

static accel_status read_models(registry_files *f, const char *directory) {
  char **names;
  size_t n;
  const char *folder = accel__path_join(&f->arena, directory, "models");
  if (!folder) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__list_directory(folder, &f->arena, &names, &n));
  f->model = accel__arena_array(&f->arena, n, sizeof *f->model);
  if (!f->model) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < n; i++) {
    if (accel__ends_with(names[i], ".json"))
      ACCEL_TRY(read_checked(f, folder, names[i], "models_file", &f->model[f->n_model++]));
  }
  return ACCEL_OK;
}

static accel_status read_registry(registry_files *f, const char *directory) {
  ACCEL_TRY(read_checked(f, directory, "schema.json", NULL, &f->schema));
  ACCEL_TRY(accel__schema_check_itself(f->schema.root, f->schema.name));
  ACCEL_TRY(read_checked(f, directory, "hardware.json", "hardware_file", &f->hardware));
  ACCEL_TRY(read_checked(f, directory, "families.json", "families_file", &f->families));
  ACCEL_TRY(same_names(f, accel__json_get(f->hardware.root, "hardware"), "hardware_name"));
  ACCEL_TRY(same_names(f, accel__json_get(f->hardware.root, "precisions"), "precision_name"));
  ACCEL_TRY(check_tasks(f));
  ACCEL_TRY(read_models(f, directory));
  return check_models(f);
}

/* ---- composing ---- */

static accel_status print_json(accel__buffer *b, const accel__json *json) {
  char *text = cJSON_PrintUnformatted(json);
  if (!text) return accel__no_memory(1);
  accel__buffer_text(b, text);
  cJSON_free(text);
  return ACCEL_OK;
}

static accel_status print_member(accel__buffer *b, const accel__json *object, const char *key) {
  accel__buffer_printf(b, "%s\"%s\":", b->n > 1 ? "," : "", key);
  return print_json(b, accel__json_get(object, key));
}

/* The entries of every file, each with its family. */
static accel_status print_models(accel__buffer *b, const registry_files *f) {
  const char *comma = "";
  accel__buffer_text(b, ",\"models\":[");
  for (size_t i = 0; i < f->n_model; i++) {
    const accel__json *family = accel__json_get(f->model[i].root, "family");
    ACCEL_JSON_EACH(entry, accel__json_get(f->model[i].root, "models")) {
      cJSON *copy = cJSON_Duplicate(entry, true);
      if (copy && family && !accel__json_get(copy, "family"))
        cJSON_AddStringToObject(copy, "family", family->valuestring);
      accel__buffer_text(b, comma);
      accel_status status = copy ? print_json(b, copy) : accel__no_memory(sizeof *copy);
      cJSON_Delete(copy);
      if (status != ACCEL_OK) return status;
      comma = ",";
    }
  }
  accel__buffer_text(b, "]");
  return ACCEL_OK;
}

static accel_status compose(accel__buffer *b, const registry_files *f) {
  accel__buffer_text(b, "{");
  ACCEL_TRY(print_member(b, f->hardware.root, "hardware"));
  ACCEL_TRY(print_member(b, f->hardware.root, "precisions"));
  ACCEL_TRY(print_member(b, f->families.root, "tasks"));
  ACCEL_TRY(print_member(b, f->families.root, "defaults"));
  ACCEL_TRY(print_member(b, f->families.root, "families"));
  ACCEL_TRY(print_models(b, f));
  accel__buffer_text(b, ",\"schema\":");
  ACCEL_TRY(print_json(b, f->schema.root));
  accel__buffer_text(b, "}");
  return accel__buffer_status(b);
}

/* ---- writing C ---- */

/* Names and aliases of an object's members: `aliases` is a member of each, or each itself is the
 * list. */
static void write_names(accel__buffer *c, const char *what, const accel__json *object,
                        bool nested) {
  uint32_t names = 0, aliases = 0;
  accel__buffer_printf(c, "const char *const accel__%s_names[] = {", what);
  ACCEL_JSON_EACH(member, object)
  accel__buffer_printf(c, "%s\"%s\"", names++ ? ", " : "", member->string);
  accel__buffer_printf(c,
                       "};\nconst uint32_t accel__%s_count = %u;\nconst accel__registry_alias "
                       "accel__%s_aliases[] = {",
                       what, names, what);
  names = 0;
  ACCEL_JSON_EACH(member, object) {
    accel__buffer_printf(c, "%s{\"%s\", %u}", aliases++ ? ", " : "", member->string, names);
    ACCEL_JSON_EACH(alias, nested ? accel__json_get(member, "aliases") : member) {
      accel__buffer_printf(c, ", {\"%s\", %u}", alias->valuestring, names);
      aliases++;
    }
    names++;
  }
  accel__buffer_printf(c, "};\nconst uint32_t accel__%s_alias_count = %u;\n", what, aliases);
}

/* Bytes as numbers: string literals have a limit in standard C. */
static void write_bytes(accel__buffer *c, const accel__buffer *data) {
  accel__buffer_text(c, "const char accel__registry_data[] = {");
  for (size_t i = 0; i < data->n; i++) {
    unsigned byte = (unsigned char)data->data[i];
    accel__buffer_printf(c, byte < 0x80 ? "%s%u," : "%s'\\x%02x',", i % 32 ? "" : "\n", byte);
  }
  accel__buffer_printf(c, "\n0};\nconst size_t accel__registry_data_bytes = %zu;\n", data->n);
}

/* An alias must mean one thing. */
static accel_status check_aliases(const accel__json *object, bool nested, const char *file) {
  accel__map seen = {0};
  accel_status status = ACCEL_OK;
  int64_t other;
  ACCEL_JSON_EACH(member, object) {
    if (accel__map_get(&seen, member->string, strlen(member->string), &other))
      status =
          accel__fail(ACCEL_ERROR_FORMAT, "%s: name '%s' is given twice", file, member->string);
    if (status == ACCEL_OK)
      status = accel__map_set(&seen, member->string, strlen(member->string), 1);
  }
  ACCEL_JSON_EACH(member, object) {
    ACCEL_JSON_EACH(alias, nested ? accel__json_get(member, "aliases") : member) {
      const char *name = alias->valuestring;
      if (status == ACCEL_OK && accel__map_get(&seen, name, strlen(name), &other))
        status = accel__fail(ACCEL_ERROR_FORMAT, "%s: alias '%s' is given twice", file, name);
      if (status == ACCEL_OK) status = accel__map_set(&seen, name, strlen(name), 1);
    }
  }
  accel__map_free(&seen);
  return status;
}

static accel_status write_c(const registry_files *f, const char *path) {
  accel__buffer data = {0}, c = {0};
  const accel__json *hardware = accel__json_get(f->hardware.root, "hardware"),
                    *precisions = accel__json_get(f->hardware.root, "precisions");
  const accel__json *tasks = accel__json_get(f->families.root, "tasks");
  ACCEL_TRY(check_aliases(hardware, true, f->hardware.name));
  ACCEL_TRY(check_aliases(precisions, true, f->hardware.name));
  ACCEL_TRY(check_aliases(tasks, false, f->families.name));
  accel_status status = compose(&data, f);
  if (status == ACCEL_OK) {
    accel__buffer_text(&c,
                       "/* Made by tools/embed_registry.c from registry/: do not edit. "
                       "*/\n#include \"registry/registry_internal.h\"\n\n");
    write_names(&c, "hardware", hardware, true);
    write_names(&c, "precision", precisions, true);
    write_names(&c, "task", tasks, false);
    write_bytes(&c, &data);
    status = accel__buffer_status(&c);
  }
  if (status == ACCEL_OK) status = accel__file_write(path, c.data, c.n);
  accel__buffer_free(&data);
  accel__buffer_free(&c);
  return status;
}

int main(int argc, char **argv) {
  registry_files f = {0};
  if (argc != 3) {
    fprintf(stderr, "usage: embed_registry OUT.c REGISTRY_DIRECTORY\n");
    return 2;
  }
  accel_status status = read_registry(&f, argv[2]);
  if (status == ACCEL_OK) status = write_c(&f, argv[1]);
  if (status != ACCEL_OK) fprintf(stderr, "embed_registry: %s\n", accel__message());
  for (size_t i = 0; i < f.n_model; i++) accel__json_free(&f.model[i]);
  accel__json_free(&f.schema);
  accel__json_free(&f.hardware);
  accel__json_free(&f.families);
  accel__map_free(&f.names);
  accel__arena_free(&f.arena);
  return status == ACCEL_OK ? 0 : 1;
}
