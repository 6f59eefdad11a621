/* http_form.c - see http_form.h. */
#include "serve/http_form.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "serve/http_target.h"

static const char no_memory[] = "out of memory";

typedef struct reader {
  char *at, *end; /* what is not read yet; *end may be written */
  char mark[76];  /* "\r\n--BOUNDARY" */
  size_t n_mark;
  serve_part *part;
  uint32_t n;
} reader;

static char *find(const reader *r, char *from, const char *what, size_t n) {
  return from <= r->end ? memmem(from, (size_t)(r->end - from), what, n) : NULL;
}

static const char *add(reader *r, serve_part part) {
  if (r->n == HTTP_FORM_MOST) return "the form has more than 256 fields";
  if (!r->part) r->part = malloc(HTTP_FORM_MOST * sizeof *r->part);
  if (!r->part) return no_memory;
  r->part[r->n++] = part;
  return NULL;
}

static const char *skip_spaces(const char *at) { return at + strspn(at, " \t"); }

/* ---- parameters of a header's value: `; name="some \"text\""` ---- */

/* At `at`: *name and *value, zero-terminated in place.  Returns what is behind the ';' that follows,
 * or the end of the text; NULL: malformed. */
static char *read_parameter(char *at, char **name, char **value) {
  *name = at += strspn(at, " \t");
  at += strcspn(at, "=; \t");
  if (at == *name || *at != '=') return NULL;
  *at++ = 0;
  char *end = *value = at;
  if (*at != '"') {
    end = at += strcspn(at, "; \t");
  } else {
    for (++at; *at && *at != '"'; ++at) {
      if (*at == '\\' && (at[1] == '"' || at[1] == '\\')) ++at;
      *end++ = *at;
    }
    if (!*at++) return NULL;
  }
  at += strspn(at, " \t");
  if (*at && *at != ';') return NULL;
  if (*at) ++at;
  *end = 0;
  return at;
}

/* ---- multipart ---- */

/* "\r\n--BOUNDARY" of the header's value. */
static const char *read_boundary(reader *r, const char *type) {
  static const char allowed[] =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'()+_,-./:=? ";
  const char *why = "multipart/form-data needs a boundary of 1 to 70 characters";
  char *copy = strdup(type), *name, *value = NULL, *found = NULL;
  if (!copy) return no_memory;
  char *at = copy + strcspn(copy, ";");
  if (*at) ++at;
  while (at && *at && !found) {
    at = read_parameter(at, &name, &value);
    if (at && !strcasecmp(name, "boundary")) found = value;
  }
  const size_t n = found ? strlen(found) : 0;
  if (n && n <= 70 && strspn(found, allowed) == n && found[n - 1] != ' ') {
    memcpy(r->mark, "\r\n--", 4);
    memcpy(r->mark + 4, found, n + 1);
    r->n_mark = 4 + n;
    why = NULL;
  }
  free(copy);
  return why;
}

/* `form-data; name="x"; filename="y"` */
static const char *read_disposition(char *value, serve_part *part) {
  char *at = value + strcspn(value, "; \t"), *name, *text;
  if ((size_t)(at - value) != 9 || strncasecmp(value, "form-data", 9))
    return "the Content-Disposition of a field is not form-data";
  at += strspn(at, " \t");
  if (*at && *at++ != ';') return "a Content-Disposition is malformed";
  while (at && *at) {
    at = read_parameter(at, &name, &text);
    if (at && !strcasecmp(name, "name")) part->name = text;
    if (at && !strcasecmp(name, "filename")) part->file_name = text;
  }
  return at ? NULL : "a Content-Disposition is malformed";
}

/* One line of a field's head, zero-terminated. */
static const char *read_field_line(char *line, serve_part *part) {
  char *colon = strchr(line, ':');
  if (!colon || colon == line) return "a line of a field's head is no header";
  *colon = 0;
  char *value = colon + 1 + strspn(colon + 1, " \t");
  if (!strcasecmp(line, "content-disposition")) return read_disposition(value, part);
  if (!strcasecmp(line, "content-type")) part->type = value;
  if (!strcasecmp(line, "content-transfer-encoding") && strcasecmp(value, "binary") &&
      strcasecmp(value, "8bit") && strcasecmp(value, "7bit"))
    return "fields are taken as they are: no Content-Transfer-Encoding";
  return NULL;
}

static const char *read_field_head(reader *r, serve_part *part) {
  enum { MOST = 8192 };
  for (;;) {
    char *line = r->at, *end = find(r, line, "\r\n", 2);
    if (!end || end - line > MOST) return "the head of a field has no end";
    r->at = end + 2;
    if (end == line) break;
    *end = 0;
    if (strlen(line) != (size_t)(end - line)) return "the head of a field holds NUL";
    const char *why = read_field_line(line, part);
    if (why) return why;
  }
  return part->name ? NULL : "a field has no name";
}

/* The next delimiter at or behind `from`; *after: behind its line, NULL: it is the last one. */
static char *find_mark(const reader *r, char *from, char **after) {
  for (char *at = from; (at = find(r, at, r->mark, r->n_mark)) != NULL; ++at) {
    char *rest = at + r->n_mark;
    *after = NULL;
    if (r->end - rest >= 2 && rest[0] == '-' && rest[1] == '-') return at;
    while (rest < r->end && (*rest == ' ' || *rest == '\t')) ++rest;
    *after = rest + 2;
    if (r->end - rest >= 2 && rest[0] == '\r' && rest[1] == '\n') return at;
  }
  return NULL;
}

static const char *read_multipart(reader *r, const char *type) {
  const char *why = read_boundary(r, type);
  if (why) return why;
  char *after, *first = r->at;
  /* the first delimiter may have no line before it */
  const size_t n = r->n_mark - 2;
  if ((size_t)(r->end - first) >= n && !memcmp(first, r->mark + 2, n)) {
    char *rest = first + n;
    while (rest < r->end && (*rest == ' ' || *rest == '\t')) ++rest;
    const bool line = r->end - rest >= 2 && rest[0] == '\r' && rest[1] == '\n';
    const bool last = r->end - rest >= 2 && rest[0] == '-' && rest[1] == '-';
    if (!line && !last) return "the form does not begin with its boundary";
    after = line ? rest + 2 : NULL;
  } else if (!find_mark(r, first, &after)) {
    return "the boundary of the form is not in it";
  }
  while (after) {
    serve_part part = {0};
    r->at = after;
    why = read_field_head(r, &part);
    if (why) return why;
    /* an empty field's delimiter begins with the line end of its head */
    char *data = r->at, *end = find_mark(r, data - 2, &after);
    if (!end) return "the form ends without its boundary";
    part.data = data;
    part.n = end > data ? (size_t)(end - data) : 0;
    data[part.n] = 0;
    why = add(r, part);
    if (why) return why;
  }
  return NULL;
}

/* ---- urlencoded ---- */

static const char *read_urlencoded(reader *r) {
  while (r->at < r->end) {
    char *end = memchr(r->at, '&', (size_t)(r->end - r->at));
    if (!end) end = r->end;
    char *equals = memchr(r->at, '=', (size_t)(end - r->at));
    char *name = r->at, *value = equals ? equals + 1 : end;
    r->at = end < r->end ? end + 1 : end;
    if (end == name) continue;
    /* the value first: what ends the name may be what it begins behind */
    if (!http_decode(value, (size_t)(end - value), true, value) ||
        !http_decode(name, (size_t)((equals ? equals : end) - name), true, name))
      return "an escape of the form is malformed";
    const char *why = add(r, (serve_part){.name = name, .data = value, .n = strlen(value)});
    if (why) return why;
  }
  return NULL;
}

const char *http_form_parse(const char *type, char *body, size_t n, serve_part **part,
                            uint32_t *n_part) {
  static const char other[] =
      "the body must be a form: multipart/form-data or application/x-www-form-urlencoded";
  reader r = {.at = body, .end = body + n};
  const char *why = other, *media = skip_spaces(type);
  const size_t n_media = strcspn(media, "; \t");
  if (n_media == 19 && !strncasecmp(media, "multipart/form-data", 19))
    why = read_multipart(&r, type);
  else if (n_media == 33 && !strncasecmp(media, "application/x-www-form-urlencoded", 33))
    why = read_urlencoded(&r);
  if (!why && !r.n) why = "the form has no fields";
  if (why) {
    free(r.part);
    return why;
  }
  *part = r.part;
  *n_part = r.n;
  return NULL;
}
