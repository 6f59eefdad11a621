/* safetensors.c - the strict reader of safetensors headers: one pass over the JSON, no tree, every
 * number checked. */
#include "weights/safetensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "safetensors data is little-endian and mapped as it is");

typedef struct reader {
  const uint8_t *start, *at, *end; /* of the JSON text */
  const char *path;
  const char *tensor, *field; /* being read; NULL none */
  accel__arena *arena;
  accel__buffer text; /* the string read last, decoded */
  accel__tensor_info *list;
  uint64_t (*offsets)[2]; /* beside list */
  uint32_t n, capacity;
  const char **metadata;
  uint32_t n_metadata, metadata_capacity;
  bool seen_metadata;
  accel__map names;
} reader;

/* ---- errors ---- */

/* Names come from the file: what a terminal would act on is shown as '?'. */
static void printable(char *out, size_t size, const char *name) {
  size_t i = 0;
  for (; name[i] && i + 1 < size; i++)
    out[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i];
  out[i] = 0;
}

static accel_status bad(const reader *r, const char *format, ...) ACCEL_PRINTF(2, 3);
static accel_status bad(const reader *r, const char *format, ...) {
  char what[256], name[160];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  if (!r->tensor)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: header, byte %zu: %s", r->path,
                       (size_t)(r->at - r->start), what);
  printable(name, sizeof name, r->tensor);
  if (!r->field) return accel__fail(ACCEL_ERROR_FORMAT, "%s: tensor '%s': %s", r->path, name, what);
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: tensor '%s': field '%s': %s", r->path, name, r->field,
                     what);
}

/* ---- JSON tokens ---- */

static void skip_space(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
    r->at++;
}

/* The next character that is no space, 0 at the end; not consumed. */
static int peek(reader *r) {
  skip_space(r);
  return r->at < r->end ? *r->at : 0;
}

static accel_status expect(reader *r, char c) {
  if (peek(r) != c)
    return r->at < r->end ? bad(r, "expected '%c'", c)
                          : bad(r, "expected '%c', the header ends", c);
  r->at++;
  return ACCEL_OK;
}

static int hex_digit(uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* XXXX of \uXXXX; -1 when it is not four hex digits. */
static int32_t read_hex4(reader *r) {
  if (r->end - r->at < 4) return -1;
  int32_t value = 0;
  for (int i = 0; i < 4; i++) {
    int digit = hex_digit(r->at[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  r->at += 4;
  return value;
}

static accel_status read_unicode_escape(reader *r) {
  int32_t code = read_hex4(r);
  if (code < 0) return bad(r, "\\u without four hex digits");
  if (code == 0) return bad(r, "NUL in a string");
  if (code >= 0xdc00 && code <= 0xdfff) return bad(r, "low surrogate on its own");
  if (code >= 0xd800 && code <= 0xdbff) {
    if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
      return bad(r, "high surrogate on its own");
    r->at += 2;
    int32_t low = read_hex4(r);
    if (low < 0xdc00 || low > 0xdfff) return bad(r, "high surrogate on its own");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  char utf8[4];
  accel__buffer_bytes(&r->text, utf8, accel__utf8_encode((uint32_t)code, utf8));
  return ACCEL_OK;
}

static accel_status read_escape(reader *r) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (r->at >= r->end) return bad(r, "string without an end");
  uint8_t c = *r->at++;
  if (c == 'u') return read_unicode_escape(r);
  const char *found = c ? strchr(from, c) : NULL;
  if (!found) return bad(r, "unknown escape in a string");
  accel__buffer_bytes(&r->text, &to[found - from], 1);
  return ACCEL_OK;
}

/* Decodes a string into r->text. */
static accel_status read_string(reader *r) {
  if (peek(r) != '"') return bad(r, "expected a string");
  r->at++;
  r->text.n = 0;
  accel__buffer_bytes(&r->text, "", 0);
  for (;;) {
    const uint8_t *run = r->at;
    while (r->at < r->end && *r->at >= 0x20 && *r->at != '"' && *r->at != '\\') r->at++;
    if (r->at > run) accel__buffer_bytes(&r->text, run, (size_t)(r->at - run));
    if (r->at >= r->end) return bad(r, "string without an end");
    uint8_t c = *r->at++;
    if (c == '"') return accel__buffer_status(&r->text);
    if (c < 0x20) return bad(r, "control character in a string");
    ACCEL_TRY(read_escape(r));
  }
}

/* The string read last, kept. */
static accel_status keep(reader *r, const char **out) {
  *out = accel__arena_copy(r->arena, r->text.n ? r->text.data : "", r->text.n);
  return *out ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* A whole number as the format has them: digits, no sign, no fraction, no exponent. */
static accel_status read_u64(reader *r, uint64_t *out) {
  int c = peek(r);
  if (c == '-') return bad(r, "negative number");
  if (c < '0' || c > '9') return bad(r, "expected a whole number");
  const uint8_t *first = r->at;
  uint64_t value = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
        __builtin_add_overflow(value, (uint64_t)(*r->at - '0'), &value))
      return bad(r, "number beyond 64 bits");
  }
  if (*first == '0' && r->at - first > 1) return bad(r, "number with a leading zero");
  if (r->at < r->end && (*r->at == '.' || *r->at == 'e' || *r->at == 'E'))
    return bad(r, "expected a whole number");
  *out = value;
  return ACCEL_OK;
}

static void skip_digits(reader *r) {
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
}

static accel_status skip_number(reader *r) {
  if (r->at < r->end && *r->at == '-') r->at++;
  const uint8_t *first = r->at;
  skip_digits(r);
  if (r->at == first) return bad(r, "expected a value");
  if (r->at < r->end && *r->at == '.') r->at++, skip_digits(r);
  if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
    r->at++;
    if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
    skip_digits(r);
  }
  return ACCEL_OK;
}

static accel_status skip_word(reader *r, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
    return bad(r, "expected a value");
  r->at += n;
  return ACCEL_OK;
}

/* After an item: true when another one follows.  Consumes ',' or `close`. */
static accel_status next_item(reader *r, char close, bool *more) {
  int c = peek(r);
  if (c != ',' && c != close)
    return r->at < r->end ? bad(r, "expected ',' or '%c'", close)
                          : bad(r, "the header ends inside a value");
  r->at++;
  *more = c == ',';
  return ACCEL_OK;
}

/* After an opening bracket: true when it closes at once (consumed). */
static bool closes(reader *r, char close) {
  if (peek(r) != close) return false;
  r->at++;
  return true;
}

static accel_status skip_value(reader *r, int depth) {
  if (depth > ACCEL__SAFETENSORS_MAX_DEPTH)
    return bad(r, "nested deeper than %d", ACCEL__SAFETENSORS_MAX_DEPTH);
  int c = peek(r);
  if (c == '"') return read_string(r);
  if (c == 't') return skip_word(r, "true");
  if (c == 'f') return skip_word(r, "false");
  if (c == 'n') return skip_word(r, "null");
  if (c != '{' && c != '[') return skip_number(r);
  char close = c == '{' ? '}' : ']';
  r->at++;
  bool more = !closes(r, close);
  while (more) {
    if (c == '{') {
      ACCEL_TRY(read_string(r));
      ACCEL_TRY(expect(r, ':'));
    }
    ACCEL_TRY(skip_value(r, depth + 1));
    ACCEL_TRY(next_item(r, close, &more));
  }
  return ACCEL_OK;
}

/* ---- one tensor ---- */

static accel_status read_dtype(reader *r, accel__tensor_info *t) {
  ACCEL_TRY(read_string(r));
  if (accel__dtype_from_name(r->text.n ? r->text.data : "", &t->dtype)) return ACCEL_OK;
  char name[40];
  printable(name, sizeof name, r->text.n ? r->text.data : "");
  return bad(r, "'%s' is no dtype of the format", name);
}

static accel_status read_shape(reader *r, accel__tensor_info *t) {
  ACCEL_TRY(expect(r, '['));
  t->elements = 1;
  bool more = !closes(r, ']');
  while (more) {
    uint64_t dim;
    ACCEL_TRY(read_u64(r, &dim));
    if (t->rank == ACCEL__SAFETENSORS_MAX_RANK)
      return bad(r, "more than %d dims", ACCEL__SAFETENSORS_MAX_RANK);
    if (dim > INT64_MAX || __builtin_mul_overflow(t->elements, dim, &t->elements))
      return bad(r, "more elements than 64 bits can count");
    t->dim[t->rank++] = (int64_t)dim;
    ACCEL_TRY(next_item(r, ']', &more));
  }
  return ACCEL_OK;
}

static accel_status read_offsets(reader *r, uint64_t *offsets) {
  ACCEL_TRY(expect(r, '['));
  ACCEL_TRY(read_u64(r, &offsets[0]));
  ACCEL_TRY(expect(r, ','));
  ACCEL_TRY(read_u64(r, &offsets[1]));
  return peek(r) == ']' ? expect(r, ']') : bad(r, "expected exactly two numbers");
}

/* elements * bits: whole bytes, and just those the offsets name. */
static accel_status check_bytes(reader *r, accel__tensor_info *t, const uint64_t *offsets) {
  uint64_t bits;
  r->field = "shape";
  if (__builtin_mul_overflow(t->elements, accel__dtype_bits(t->dtype), &bits))
    return bad(r, "more bytes than 64 bits can count");
  if (bits % 8)
    return bad(r, "%" PRIu64 " elements of %s do not fill whole bytes", t->elements,
               accel__dtype_name(t->dtype));
  t->bytes = bits / 8;
  r->field = "data_offsets";
  if (offsets[1] < offsets[0])
    return bad(r, "ends at %" PRIu64 ", before it begins at %" PRIu64, offsets[1], offsets[0]);
  if (offsets[1] - offsets[0] != t->bytes)
    return bad(r, "%" PRIu64 " bytes, but shape and dtype %s need %" PRIu64,
               offsets[1] - offsets[0], accel__dtype_name(t->dtype), t->bytes);
  r->field = NULL;
  return ACCEL_OK;
}

static accel_status read_tensor(reader *r, accel__tensor_info *t, uint64_t *offsets) {
  enum { DTYPE, SHAPE, OFFSETS, KNOWN };
  static const char *const known[KNOWN] = {"dtype", "shape", "data_offsets"};
  bool seen[KNOWN] = {false};
  ACCEL_TRY(expect(r, '{'));
  bool more = !closes(r, '}');
  while (more) {
    int which = 0;
    ACCEL_TRY(read_string(r));
    while (which < KNOWN && (r->text.n != strlen(known[which]) ||
                             memcmp(r->text.data, known[which], r->text.n) != 0))
      which++;
    ACCEL_TRY(expect(r, ':'));
    if (which < KNOWN) {
      r->field = known[which];
      if (seen[which]) return bad(r, "given twice");
      seen[which] = true;
    }
    if (which == DTYPE)
      ACCEL_TRY(read_dtype(r, t));
    else if (which == SHAPE)
      ACCEL_TRY(read_shape(r, t));
    else if (which == OFFSETS)
      ACCEL_TRY(read_offsets(r, offsets));
    else
      ACCEL_TRY(skip_value(r, 2));
    r->field = NULL;
    ACCEL_TRY(next_item(r, '}', &more));
  }
  for (int i = 0; i < KNOWN; i++) {
    if (!seen[i]) return bad(r, "field '%s' is missing", known[i]);
  }
  return check_bytes(r, t, offsets);
}

/* ---- the header ---- */

static accel_status grow(void **array, uint32_t *capacity, size_t size) {
  uint32_t wanted = *capacity ? *capacity * 2 : 64;
  void *bigger = realloc(*array, wanted * size);
  if (!bigger) return accel__no_memory(wanted * size);
  *array = bigger;
  *capacity = wanted;
  return ACCEL_OK;
}

static accel_status add_tensor(reader *r, const char *name) {
  int64_t before;
  if (accel__map_get(&r->names, name, strlen(name), &before)) return bad(r, "listed twice");
  if (r->n == ACCEL__SAFETENSORS_MAX_TENSORS)
    return bad(r, "more than %d tensors", ACCEL__SAFETENSORS_MAX_TENSORS);
  ACCEL_TRY(accel__map_set(&r->names, name, strlen(name), r->n));
  if (r->n == r->capacity) {
    uint32_t capacity = r->capacity;
    void *offsets = r->offsets, *list = r->list;
    ACCEL_TRY(grow(&offsets, &capacity, sizeof *r->offsets));
    r->offsets = offsets;
    ACCEL_TRY(grow(&list, &r->capacity, sizeof *r->list));
    r->list = list;
  }
  accel__tensor_info *t = &r->list[r->n];
  *t = (accel__tensor_info){.name = name};
  ACCEL_TRY(read_tensor(r, t, r->offsets[r->n]));
  r->n++;
  return ACCEL_OK;
}

static accel_status read_metadata(reader *r) {
  if (r->seen_metadata) return bad(r, "'__metadata__' given twice");
  r->seen_metadata = true;
  if (peek(r) == 'n') return skip_word(r, "null");
  ACCEL_TRY(expect(r, '{'));
  bool more = !closes(r, '}');
  while (more) {
    while (r->metadata_capacity < 2 * (r->n_metadata + 1)) {
      void *list = r->metadata;
      ACCEL_TRY(grow(&list, &r->metadata_capacity, sizeof *r->metadata));
      r->metadata = list;
    }
    const char **pair = &r->metadata[2 * r->n_metadata];
    ACCEL_TRY(read_string(r));
    ACCEL_TRY(keep(r, &pair[0]));
    ACCEL_TRY(expect(r, ':'));
    if (peek(r) != '"') return bad(r, "'__metadata__' holds something that is no string");
    ACCEL_TRY(read_string(r));
    ACCEL_TRY(keep(r, &pair[1]));
    r->n_metadata++;
    if (r->n_metadata > ACCEL__SAFETENSORS_MAX_TENSORS)
      return bad(r, "more than %d pairs in '__metadata__'", ACCEL__SAFETENSORS_MAX_TENSORS);
    ACCEL_TRY(next_item(r, '}', &more));
  }
  return ACCEL_OK;
}

static accel_status read_header(reader *r) {
  if (r->at >= r->end || *r->at != '{') return bad(r, "does not begin with '{'");
  r->at++;
  bool more = !closes(r, '}');
  while (more) {
    const char *name;
    ACCEL_TRY(read_string(r));
    ACCEL_TRY(keep(r, &name));
    ACCEL_TRY(expect(r, ':'));
    if (strcmp(name, "__metadata__") == 0) {
      ACCEL_TRY(read_metadata(r));
    } else {
      r->tensor = name;
      ACCEL_TRY(add_tensor(r, name));
      r->tensor = NULL;
    }
    ACCEL_TRY(next_item(r, '}', &more));
  }
  skip_space(r);
  return r->at == r->end ? ACCEL_OK : bad(r, "something follows the object");
}

/* ---- the data ---- */

typedef struct placed {
  uint64_t begin, end;
  uint32_t index;
} placed;

static int by_offset(const void *left, const void *right) {
  const placed *a = left, *b = right;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->end != b->end) return a->end < b->end ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

/* Sorted by offset the tensors must tile the data; that order is the order of the result. */
static accel_status place(reader *r, placed *order, uint64_t data_start, uint64_t data_bytes,
                          accel__tensor_info *out) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < r->n; i++) order[i] = (placed){r->offsets[i][0], r->offsets[i][1], i};
  qsort(order, r->n, sizeof *order, by_offset);
  for (uint32_t i = 0; i < r->n; i++) {
    out[i] = r->list[order[i].index];
    r->tensor = out[i].name;
    r->field = "data_offsets";
    if (order[i].end > data_bytes)
      return bad(r, "ends at byte %" PRIu64 " of the data, which has only %" PRIu64 " (truncated?)",
                 order[i].end, data_bytes);
    if (order[i].begin < at) return bad(r, "overlaps tensor '%.80s'", out[i - 1].name);
    if (order[i].begin > at)
      return bad(r, "leaves bytes %" PRIu64 " to %" PRIu64 " of the data to no tensor", at,
                 order[i].begin);
    out[i].offset = data_start + order[i].begin;
    at = order[i].end;
  }
  r->tensor = r->field = NULL;
  if (at != data_bytes)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: %" PRIu64 " bytes of data belong to no tensor",
                       r->path, data_bytes - at);
  return ACCEL_OK;
}

static accel_status finish(reader *r, uint64_t data_bytes, accel__safetensors *out) {
  out->n = r->n;
  out->tensor = accel__arena_array(r->arena, r->n, sizeof *out->tensor);
  out->n_metadata = r->n_metadata;
  out->metadata = accel__arena_array(r->arena, 2 * (size_t)r->n_metadata, sizeof *out->metadata);
  if (!out->tensor || !out->metadata) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (r->n_metadata)
    memcpy(out->metadata, r->metadata, 2 * (size_t)r->n_metadata * sizeof *out->metadata);
  placed *order = malloc((r->n ? r->n : 1) * sizeof *order);
  if (!order) return accel__no_memory(r->n * sizeof *order);
  accel_status status = place(r, order, out->data_start, data_bytes, out->tensor);
  free(order);
  return status;
}

static accel_status header_length(const uint8_t *bytes, uint64_t file_bytes, const char *path,
                                  uint64_t *length) {
  uint64_t value = 0;
  if (file_bytes < 8)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: %" PRIu64 " bytes, too short for a safetensors file (truncated?)", path,
                       file_bytes);
  for (int i = 0; i < 8; i++) value |= (uint64_t)bytes[i] << (8 * i);
  if (value > ACCEL__SAFETENSORS_MAX_HEADER)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: header length %" PRIu64
                       " is beyond the format's limit of %d bytes (no safetensors file?)",
                       path, value, ACCEL__SAFETENSORS_MAX_HEADER);
  if (value > file_bytes - 8)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: header length %" PRIu64 ", but only %" PRIu64
                       " bytes follow (truncated?)",
                       path, value, file_bytes - 8);
  *length = value;
  return ACCEL_OK;
}

static accel_status with_remedy(accel_status status) {
  if (status != ACCEL_ERROR_FORMAT) return status;
  return accel__remedy(status, "the file is damaged or was not fetched completely; fetch it again");
}

accel_status accel__safetensors_header_length(const uint8_t bytes[8], uint64_t file_bytes,
                                              const char *path, uint64_t *length) {
  return with_remedy(header_length(bytes, file_bytes, path, length));
}

accel_status accel__safetensors_parse_header(const uint8_t *bytes, uint64_t n, uint64_t file_bytes,
                                             const char *path, accel__arena *arena,
                                             accel__safetensors *out) {
  uint64_t length = 0;
  *out = (accel__safetensors){0};
  accel_status status = header_length(bytes, file_bytes, path, &length);
  if (status == ACCEL_OK && length > n - 8)
    return accel__fail(ACCEL_ERROR_INTERNAL, "%s: %" PRIu64 " bytes are no whole header", path, n);
  if (status == ACCEL_OK) {
    reader r = {.start = bytes + 8,
                .at = bytes + 8,
                .end = bytes + 8 + length,
                .path = path,
                .arena = arena};
    if (!accel__utf8_valid((const char *)r.start, (size_t)length))
      status = bad(&r, "not UTF-8");
    else
      status = read_header(&r);
    out->data_start = 8 + length;
    if (status == ACCEL_OK) status = finish(&r, file_bytes - out->data_start, out);
    accel__buffer_free(&r.text);
    accel__map_free(&r.names);
    free(r.list);
    free(r.offsets);
    free(r.metadata);
  }
  return with_remedy(status);
}
