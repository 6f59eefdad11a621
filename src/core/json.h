/* json.h - reading JSON files (config.json, tokenizer.json, the registry) with errors that name
 * file, field and remedy.
 *
 * Nodes are cJSON's, so its readers (cJSON_IsString, valuedouble, ...) work on them, but they are
 * built here, in one pass over a private copy of the text: cJSON's own parser takes more than JSON
 * ("01", "1.", control characters), counts neither lines nor nesting, cuts strings at "\u0000",
 * reads numbers by the program's locale and allocates three times a node.  Never cJSON_Delete, add
 * or detach: all memory belongs to the accel__json_file and is valid until accel__json_free.
 * Limits: the caller's byte cap, nesting 256; NaN and Infinity (which Python writes) read as
 * numbers; duplicate keys: the last wins, as in Python (accel__json_get and the typed members see
 * to that; ACCEL_JSON_EACH shows all of them in order); a "\u0000" is refused because it would cut
 * strings short; a number's valuestring is its text as written (it goes on behind it, NaN and
 * Infinity have none); text must be UTF-8, a byte order mark is skipped.
 */
#ifndef ACCEL_CORE_JSON_H
#define ACCEL_CORE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "core/arena.h"
#include "core/status.h"

typedef cJSON accel__json;
typedef struct accel__json_file {
  accel__json *root;
  char *name; /* for messages: the file's path, or what the caller called it */
  char *text; /* private: strings of the nodes lie in it */
  accel__arena arena;
} accel__json_file; /* {0} is empty */

/* Errors are ACCEL_ERROR_FORMAT: "NAME: line 3, column 14: expected ',' or '}'" (columns count
 * bytes). */
accel_status accel__json_parse(const char *text, size_t n, const char *name, accel__json_file *out);
/* ACCEL_ERROR_NOT_FOUND when the file is absent.  max_bytes 0: 256 MiB. */
accel_status accel__json_read(const char *path, size_t max_bytes, accel__json_file *out);
/* The same of file `name` of `directory`: an empty *out (root NULL) and ACCEL_OK when it, or the
 * directory (NULL), is absent. */
accel_status accel__json_read_beside(const char *directory, const char *name, size_t max_bytes,
                                     accel__json_file *out);
/* The settings of one part ("image_processor", "feature_extractor") of a model's processor: *at is
 * that member of processor_config.json in `directory` (transformers 5 writes one file for all
 * parts), or else the root of preprocessor_config.json. The caller frees `file`, after errors too.
 * ACCEL_ERROR_NOT_FOUND when neither file is there. */
accel_status accel__json_read_processor(const char *directory, const char *part,
                                        accel__json_file *file, const accel__json **at);
/* What transformers goes by when a processor's file does not name its class: *class_name is what of
 * usual[n], pairs of a model_type and a class, belongs to the model_type of config.json in
 * `directory`; NULL: nothing does. */
accel_status accel__json_usual_class(const char *directory, const char *const (*usual)[2], size_t n,
                                     const char **class_name);
void accel__json_free(accel__json_file *file);

/* Member of an object; NULL when absent, null, or `object` is no object (or NULL).  Linear: iterate
 * large objects instead. */
const accel__json *accel__json_get(const accel__json *object, const char *key);
bool accel__json_is_null_or_absent(const accel__json *object, const char *key);

/* Typed members.  Absent or null: *out is left as it is (the default) and ACCEL_OK returned.
 * Another type, a fraction where an integer is due (beyond 2^53 none is exact), or a value outside
 * [min, max]: ACCEL_ERROR_FORMAT naming file, field, value and what was expected. */
accel_status accel__json_int(const accel__json_file *file, const accel__json *object,
                             const char *key, int64_t min, int64_t max, int64_t *out);
accel_status accel__json_number(const accel__json_file *file, const accel__json *object,
                                const char *key, double *out);
accel_status accel__json_bool(const accel__json_file *file, const accel__json *object,
                              const char *key, bool *out);
/* lives with the file */
accel_status accel__json_string(const accel__json_file *file, const accel__json *object,
                                const char *key, const char **out);
accel_status accel__json_object(const accel__json_file *file, const accel__json *object,
                                const char *key, const accel__json **out);
accel_status accel__json_array(const accel__json_file *file, const accel__json *object,
                               const char *key, const accel__json **out);
/* As above, but absence is an error too. */
accel_status accel__json_require(const accel__json_file *file, const accel__json *object,
                                 const char *key);

#define ACCEL_JSON_EACH(item, parent) \
  for (const accel__json *item = (parent) ? (parent)->child : NULL; item; item = item->next)

#endif
