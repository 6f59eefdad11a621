/* schema.h - checks JSON against a JSON Schema (draft-07), the part of it that registry/schema.json
 * uses.
 *
 * Keywords: $ref (to "#/definitions/..."), type (one name), enum (strings), required, properties,
 * propertyNames, additionalProperties, items, minimum, maximum, minLength, maxLength, minItems,
 * maxItems, pattern (POSIX extended). Annotations are skipped; any other keyword is refused by
 * accel__schema_check_itself, so nothing in a schema is silently not checked.
 */
#ifndef ACCEL_REGISTRY_SCHEMA_H
#define ACCEL_REGISTRY_SCHEMA_H

#include "core/json.h"
#include "core/status.h"

/* definition: a name in the schema's "definitions".  ACCEL_ERROR_FORMAT naming file, field
 * ("models[3].id"), what it is and what was expected. */
accel_status accel__schema_check(const accel__json *schema, const char *definition,
                                 const accel__json *value, const char *file);
/* Every keyword known, every $ref there. */
accel_status accel__schema_check_itself(const accel__json *schema, const char *file);

#endif
