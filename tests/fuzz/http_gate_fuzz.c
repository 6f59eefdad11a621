/* http_gate_fuzz.c - any head: METHOD TARGET VERSION, then lines "name:value".  The gate must not
 * fault, and what it lets in has one length, one host, and tokens for names. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "serve/http_gate.h"
#include "serve/http_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) __builtin_trap();
}

static size_t count(const http_head *head, const char *name) {
  size_t n = 0;
  for (size_t i = 0; i < head->n; ++i)
    n += head->field[i].n_name == strlen(name) &&
         !strncasecmp(head->field[i].name, name, head->field[i].n_name);
  return n;
}

static void check_taken(const http_head *head, const http_verdict *v) {
  require(count(head, "host") == 1 && count(head, "content-length") <= 1 &&
          count(head, "transfer-encoding") <= 1);
  require(!(v->chunked && count(head, "content-length")));
  require(v->length <= 1000 && (!v->length || !strcmp(head->method, "POST")));
  require(http_target_valid(head->target));
  for (size_t i = 0; i < head->n; ++i) {
    const http_field *f = &head->field[i];
    require(f->n_name && !memchr(f->name, ' ', f->n_name) && !memchr(f->value, '\n', f->n_value) &&
            !memchr(f->value, '\r', f->n_value) && !memchr(f->value, 0, f->n_value));
  }
  char *path = http_target_path(head->target), *value = http_target_query(head->target, "a");
  require(!path || path[0] == '/');
  free(path);
  free(value);
}

/* Cuts the next word of *at at `end`, zero-terminated; "" at the end. */
static char *cut(char **at, char end) {
  char *begin = *at, *found = strchr(begin, end);
  *at = found ? found + 1 : begin + strlen(begin);
  if (found) *found = 0;
  return begin;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const hosts[] = {"models.example"}, *const origins[] = {"https://app.example"};
  const http_rules rules = {hosts, origins, 1, 1};
  http_field field[128];
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  char *end = text + size;
  char *at = memchr(text, '\n', size);
  if (at) *at++ = 0;
  char *words = text;
  http_head head = {
      .method = cut(&words, ' '), .target = cut(&words, ' '), .version = words, .field = field};
  while (at && at < end && head.n < 128) {
    char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    char *colon = memchr(at, ':', (size_t)(stop - at));
    if (!colon) colon = stop;
    char *value = colon < stop ? colon + 1 : stop;
    field[head.n++] = (http_field){at, value, (size_t)(colon - at), (size_t)(stop - value)};
    at = stop < end ? stop + 1 : end;
  }
  const http_verdict v = http_gate(&head, &rules, 1000);
  require(v.status ? v.message && v.status >= 400 && v.status < 600 : !v.message);
  if (!v.status) check_taken(&head, &v);
  free(text);
  return 0;
}
