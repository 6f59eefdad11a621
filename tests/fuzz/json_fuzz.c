/* json_fuzz.c - any bytes: the reader must not fault, and what it takes is JSON that cJSON's own
 * parser reads as the same tree. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A defect: stop, so that the fuzzer keeps the input. */
static void require(bool holds) {
  if (!holds) __builtin_trap();
}

/* Strings are valid UTF-8, links are whole; returns whether a number is there that JSON cannot
 * write. */
static bool check(const cJSON *node) {
  bool unusual = cJSON_IsNumber(node) && !isfinite(node->valuedouble);
  const cJSON *last = NULL;
  if (cJSON_IsString(node))
    require(accel__utf8_valid(node->valuestring, strlen(node->valuestring)));
  ACCEL_JSON_EACH(child, node) {
    require(last ? child->prev == last && last->next == child : child == node->child);
    if (cJSON_IsObject(node)) require(accel__utf8_valid(child->string, strlen(child->string)));
    unusual |= check(child);
    last = child;
  }
  if (node->child) require(node->child->prev == last);
  return unusual;
}

static bool same(const cJSON *a, const cJSON *b) {
  if ((a->type & 0xFF) != (b->type & 0xFF)) return false;
  if (cJSON_IsNumber(a)) return a->valuedouble == b->valuedouble && a->valueint == b->valueint;
  if (cJSON_IsString(a)) return !strcmp(a->valuestring, b->valuestring);
  const cJSON *x = a->child, *y = b->child;
  for (; x && y; x = x->next, y = y->next) {
    if (cJSON_IsObject(a) && strcmp(x->string, y->string)) return false;
    if (!same(x, y)) return false;
  }
  return !x && !y;
}

/* Typed access to every member of an object, under every type. */
static void access_members(const accel__json_file *file) {
  ACCEL_JSON_EACH(member, file->root) {
    int64_t i = 0;
    double d;
    bool b;
    const char *s, *key = member->string;
    const cJSON *node;
    if (!key) return;
    require(accel__json_int(file, file->root, key, -1000, 1000, &i) != ACCEL_OK ||
            (i >= -1000 && i <= 1000));
    accel__json_number(file, file->root, key, &d);
    accel__json_bool(file, file->root, key, &b);
    accel__json_string(file, file->root, key, &s);
    accel__json_object(file, file->root, key, &node);
    accel__json_array(file, file->root, key, &node);
    accel__json_require(file, file->root, key);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  accel__json_file file;
  if (accel__json_parse((const char *)data, size, "fuzz", &file) != ACCEL_OK) {
    require(!file.root && accel__message()[0]);
    return 0;
  }
  bool unusual = check(file.root), long_number = false;
  /* cJSON cuts numbers at 63 characters */
  for (size_t i = 0, run = 0; i < size && !long_number; i++) {
    run = data[i] && strchr("0123456789+-.eE", data[i]) ? run + 1 : 0;
    long_number = run > 60;
  }
  if (size < 4096) access_members(&file);
  if (!unusual && !long_number) {
    /* cJSON skips it before long texts only */
    size_t mark = size >= 3 && !memcmp(data, "\xEF\xBB\xBF", 3) ? 3 : 0;
    cJSON *theirs = cJSON_ParseWithLength((const char *)data + mark, size - mark);
    require(theirs && same(file.root, theirs));
    cJSON_Delete(theirs);
  }
  accel__json_free(&file);
  return 0;
}
