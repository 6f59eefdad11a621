/* source.c - hands weights out in the format asked for: from the mapping as they are, converted, joined, derived, or random
 * from a seed. */
#include "weights/source.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/text.h"
#include "formats/bf16.h"
#include "formats/fp16.h"
#include "weights/random.h"

enum {
  MAX_PARTS = 4,
  MAX_LISTED = 20,
  MAX_LISTED_BYTES = 700, /* of wrong tensors in one message */
  CHUNK = 16384           /* elements converted at a time */
};

typedef struct slot {
  uint64_t elements, bytes;
  const accel__tensor_info *part[MAX_PARTS];
  accel__tensor_info slice; /* behind part[0] when the weight is some rows of it */
  uint32_t n_parts, users;
  const void *data; /* valid while users > 0 */
  void *buffer;     /* behind data when it is ours */
} slot;

struct accel__source {
  const accel__source_weight *weight;
  accel_plugin_format *format;
  slot *slot;
  uint32_t n;
  const accel__checkpoint *checkpoint; /* NULL: random */
  uint64_t seed;
  pthread_mutex_t lock; /* users, data, buffer of every slot */
};

/* ---- checking ---- */

/* Collects complaints: the first MAX_LISTED in words while there is room, the others counted. */
typedef struct complaints {
  accel__buffer text;
  uint32_t n, listed;
  bool missing;
} complaints;

static void complain(complaints *c, const char *format, ...) ACCEL_PRINTF(2, 3);
static void complain(complaints *c, const char *format, ...) {
  char line[400];
  va_list arguments;
  c->n++;
  if (c->listed == MAX_LISTED || c->text.n > MAX_LISTED_BYTES) return;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  accel__buffer_printf(&c->text, "%s%s", c->listed++ ? "; " : "", line);
}

static void shape_text(char *out, size_t size, uint32_t rank, const int64_t *dim) {
  size_t at = 0;
  out[0] = 0;
  for (uint32_t d = 0; d < rank && at < size; d++)
    at += (size_t)snprintf(out + at, size - at, d ? ",%" PRId64 : "%" PRId64, dim[d]);
}

static const char *part_name(const accel__source_weight *w, uint32_t part) { return w->n_parts ? w->parts[part] : w->name; }

/* Product of the dims after the first; dims of a file cannot overflow (elements were checked), except beside a zero. */
static uint64_t row_elements(uint32_t rank, const int64_t *dim) {
  uint64_t product = 1;
  for (uint32_t d = 1; d < rank; d++) product *= (uint64_t)dim[d];
  return product;
}

static bool plain_dtype(accel_plugin_dtype dtype) {
  return dtype == ACCEL_PLUGIN_F32 || dtype == ACCEL_PLUGIN_F16 || dtype == ACCEL_PLUGIN_BF16 || dtype == ACCEL_PLUGIN_F64;
}

static void check_shape(const accel__source_weight *w, const slot *s, complaints *c) {
  char wanted[120], found[120];
  uint64_t elements = 0;
  bool fits = true;
  for (uint32_t p = 0; p < s->n_parts; p++) {
    const accel__tensor_info *t = s->part[p];
    elements += t->elements;
    if (w->rank && row_elements(t->rank, t->dim) != row_elements(w->rank, w->dim)) fits = false;
    if (s->n_parts == 1 && t->rank && w->rank && t->dim[0] != w->dim[0]) fits = false;
  }
  if (fits && elements == s->elements) return;
  shape_text(wanted, sizeof wanted, w->rank, w->dim);
  for (uint32_t p = 0; p < s->n_parts; p++) {
    shape_text(found, sizeof found, s->part[p]->rank, s->part[p]->dim);
    if (s->n_parts == 1)
      complain(c, "'%.160s' is [%s], the model needs [%s]", s->part[p]->name, found, wanted);
    else
      complain(c, "'%.160s' is [%s], a part of '%.100s' [%s]", s->part[p]->name, found, w->name, wanted);
  }
}

/* Narrows part 0 to the weight's rows; false with a complaint when it has others. */
static bool take_rows(const accel__source_weight *w, slot *s, complaints *c) {
  const accel__tensor_info *t = s->part[0];
  char found[120];
  if (t->rank == 0 || w->rank == 0 || t->dim[0] != w->stored_rows || w->first_row < 0 || w->dim[0] > w->stored_rows ||
      w->first_row > w->stored_rows - w->dim[0]) {
    shape_text(found, sizeof found, t->rank, t->dim);
    complain(c, "'%.160s' is [%s], the model needs %" PRId64 " rows", t->name, found, w->stored_rows);
    return false;
  }
  uint64_t per_row = row_elements(t->rank, t->dim), skip = (uint64_t)w->first_row * per_row,
           bits = accel__dtype_bits(t->dtype);
  s->slice = *t;
  s->slice.dim[0] = w->dim[0];
  s->slice.elements = (uint64_t)w->dim[0] * per_row;
  s->slice.bytes = s->slice.elements * bits / 8;
  s->slice.data = (const unsigned char *)t->data + skip * bits / 8;
  s->part[0] = &s->slice;
  return true;
}

static accel_status find_parts(const accel__source *source, const accel__source_weight *w, slot *s, complaints *c) {
  bool all = true;
  s->n_parts = w->n_parts ? w->n_parts : 1;
  for (uint32_t p = 0; p < s->n_parts; p++) {
    const char *name = part_name(w, p);
    s->part[p] = accel__checkpoint_find(source->checkpoint, name);
    if (!s->part[p]) {
      complain(c, "'%.160s' is missing", name);
      c->missing = true;
      all = false;
    } else if (!plain_dtype(s->part[p]->dtype)) {
      accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: tensor '%s' is stored as %s: checkpoints quantised this way are not read",
                  accel__checkpoint_file(source->checkpoint, s->part[p]->file), name, accel__dtype_name(s->part[p]->dtype));
      return accel__remedy(ACCEL_ERROR_UNSUPPORTED, "use the unquantised checkpoint the model was made from");
    }
  }
  if (all && w->stored_rows > 0 && s->n_parts == 1) all = take_rows(w, s, c);
  if (all && !w->derive) check_shape(w, s, c);
  return ACCEL_OK;
}

static accel_status check_weight(const accel__source_weight *w, const accel_plugin_format *format, slot *s) {
  uint64_t bits;
  if (!w->name || w->rank > 4 || w->n_parts > MAX_PARTS)
    return accel__fail(ACCEL_ERROR_INTERNAL, "weight '%s': bad rank or number of parts", w->name ? w->name : "?");
  if (format->store != ACCEL_PLUGIN_F32 && format->store != ACCEL_PLUGIN_F16 && format->store != ACCEL_PLUGIN_BF16)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "weight '%s': format %s is not made on load yet", w->name,
                       accel__dtype_name((accel_plugin_dtype)format->store));
  s->elements = 1;
  for (uint32_t d = 0; d < w->rank; d++) {
    if (w->dim[d] < 0 || __builtin_mul_overflow(s->elements, (uint64_t)w->dim[d], &s->elements))
      return accel__fail(ACCEL_ERROR_FORMAT, "weight '%s': dim %u is out of range", w->name, d);
  }
  if (__builtin_mul_overflow(s->elements, accel__dtype_bits((accel_plugin_dtype)format->store), &bits) ||
      bits / 8 > INT64_MAX)
    return accel__fail(ACCEL_ERROR_FORMAT, "weight '%s': too large", w->name);
  s->bytes = bits / 8;
  return ACCEL_OK;
}

static accel_status report(const accel__source *s, complaints *c) {
  accel_status status = accel__buffer_status(&c->text);
  if (status != ACCEL_OK || !c->n) return status;
  if (c->n > c->listed) accel__buffer_printf(&c->text, "; and %u more", c->n - c->listed);
  accel__fail(ACCEL_ERROR_FORMAT, "%s does not hold this model: %s", accel__checkpoint_file(s->checkpoint, 0), c->text.data);
  return accel__remedy(ACCEL_ERROR_FORMAT,
                       c->missing ? "config.json and the weights must be of the same model, and every shard must be there"
                                  : "config.json and the weights must be of the same model");
}

static accel_status check_all(accel__source *s) {
  complaints c = {0};
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < s->n && status == ACCEL_OK; i++) {
    status = check_weight(&s->weight[i], &s->format[i], &s->slot[i]);
    if (status == ACCEL_OK && s->checkpoint) status = find_parts(s, &s->weight[i], &s->slot[i], &c);
  }
  if (status == ACCEL_OK) status = report(s, &c);
  accel__buffer_free(&c.text);
  return status;
}

accel_status accel__source_new(const accel__source_weight *weights, uint32_t n, const accel__checkpoint *checkpoint,
                               uint64_t seed, const accel_plugin_format *formats, accel__source **out) {
  *out = NULL;
  accel__source *s = calloc(1, sizeof *s);
  if (!s) return accel__no_memory(sizeof *s);
  pthread_mutex_init(&s->lock, NULL);
  s->weight = weights;
  s->n = n;
  s->checkpoint = checkpoint;
  s->seed = seed;
  s->slot = calloc(n ? n : 1, sizeof *s->slot);
  s->format = calloc(n ? n : 1, sizeof *s->format);
  accel_status status = s->slot && s->format ? ACCEL_OK : accel__no_memory(n * sizeof *s->slot);
  if (status == ACCEL_OK && n) memcpy(s->format, formats, n * sizeof *formats);
  if (status == ACCEL_OK) status = check_all(s);
  if (status != ACCEL_OK) accel__source_free(&s);
  *out = s;
  return status;
}

/* ---- buffers: of their own pages, so that freeing one really shrinks the process ---- */

static accel_status buffer_new(uint64_t bytes, void **out) {
  if (accel__fault("weight_buffer")) return accel__no_memory(bytes);
  void *found = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return accel__no_memory(bytes);
  *out = found;
  return ACCEL_OK;
}

static void buffer_free(void **buffer, uint64_t bytes) {
  if (*buffer) munmap(*buffer, bytes ? bytes : 1);
  *buffer = NULL;
}

void accel__source_free(accel__source **s) {
  if (!*s) return;
  for (uint32_t i = 0; (*s)->slot && i < (*s)->n; i++) buffer_free(&(*s)->slot[i].buffer, (*s)->slot[i].bytes);
  pthread_mutex_destroy(&(*s)->lock);
  free((*s)->slot);
  free((*s)->format);
  free(*s);
  *s = NULL;
}

/* ---- values ---- */

/* fp32 -> store, count elements. */
static void encode(accel_plugin_dtype store, const float *from, uint64_t count, void *out) {
  if (store == ACCEL_PLUGIN_F32) {
    memcpy(out, from, count * sizeof *from);
  } else if (store == ACCEL_PLUGIN_F16) {
    for (uint64_t i = 0; i < count; i++) ((uint16_t *)out)[i] = accel_f32_to_fp16(from[i]);
  } else {
    for (uint64_t i = 0; i < count; i++) ((uint16_t *)out)[i] = accel_f32_to_bf16(from[i]);
  }
}

/* Bytes of one element of the three formats that are made here. */
static uint64_t store_bytes(accel_plugin_dtype store) { return store == ACCEL_PLUGIN_F32 ? 4 : 2; }

static accel_status convert_part(const accel__tensor_info *t, accel_plugin_dtype store, unsigned char *out) {
  float chunk[CHUNK];
  if (t->dtype == store) {
    if (t->bytes) memcpy(out, t->data, t->bytes);
    return ACCEL_OK;
  }
  for (uint64_t at = 0; at < t->elements; at += CHUNK) {
    uint64_t count = t->elements - at < CHUNK ? t->elements - at : CHUNK;
    ACCEL_TRY(accel__tensor_to_f32(t, at, count, chunk));
    encode(store, chunk, count, out + at * store_bytes(store));
  }
  return ACCEL_OK;
}

static accel_status join_parts(const slot *s, accel_plugin_dtype store, unsigned char *out) {
  for (uint32_t p = 0; p < s->n_parts; p++) {
    ACCEL_TRY(convert_part(s->part[p], store, out));
    out += s->part[p]->elements * store_bytes(store);
  }
  return ACCEL_OK;
}

static accel_status derive(const accel__source_weight *w, const slot *s, accel_plugin_dtype store, void *out) {
  const float *part[MAX_PARTS] = {NULL};
  int64_t elements[MAX_PARTS] = {0};
  void *buffer[MAX_PARTS + 1] = {NULL};
  accel_status status = ACCEL_OK;
  for (uint32_t p = 0; p < s->n_parts; p++) {
    ACCEL_GOTO(buffer_new(s->part[p]->elements * sizeof(float), &buffer[p]));
    ACCEL_GOTO(accel__tensor_to_f32(s->part[p], 0, s->part[p]->elements, buffer[p]));
    part[p] = buffer[p];
    elements[p] = (int64_t)s->part[p]->elements;
  }
  float *result = out;
  if (store != ACCEL_PLUGIN_F32) {
    ACCEL_GOTO(buffer_new(s->elements * sizeof(float), &buffer[MAX_PARTS]));
    result = buffer[MAX_PARTS];
  }
  ACCEL_GOTO(w->derive(w->derive_user, part, elements, s->n_parts, result));
  if (store != ACCEL_PLUGIN_F32) encode(store, result, s->elements, out);
done:
  for (uint32_t p = 0; p < s->n_parts; p++) buffer_free(&buffer[p], s->part[p]->elements * sizeof(float));
  buffer_free(&buffer[MAX_PARTS], s->elements * sizeof(float));
  return status == ACCEL_OK ? status : accel__wrap(status, "weight '%s'", w->name);
}

static void fill_random(const accel__source_weight *w, const slot *s, uint64_t seed, accel_plugin_dtype store,
                        unsigned char *out) {
  float chunk[CHUNK];
  for (uint64_t at = 0; at < s->elements; at += CHUNK) {
    uint64_t count = s->elements - at < CHUNK ? s->elements - at : CHUNK;
    accel__random_weight(seed, w->name, w->rank, at, count, chunk);
    encode(store, chunk, count, out + at * store_bytes(store));
  }
}

static void forget_parts(const accel__source *source, const slot *s) {
  for (uint32_t p = 0; source->checkpoint && p < s->n_parts; p++) accel__checkpoint_forget(source->checkpoint, s->part[p]);
}

/* Usable in place: one part, stored as wanted, aligned to its type. */
static bool direct(const accel__source *source, const accel__source_weight *w, const slot *s, accel_plugin_dtype store) {
  return source->checkpoint && !w->derive && s->n_parts == 1 && s->part[0]->dtype == store &&
         (uintptr_t)s->part[0]->data % store_bytes(store) == 0;
}

static accel_status open_slot(accel__source *source, uint32_t index) {
  slot *s = &source->slot[index];
  const accel__source_weight *w = &source->weight[index];
  accel_plugin_dtype store = (accel_plugin_dtype)source->format[index].store;
  if (direct(source, w, s, store)) {
    s->data = s->part[0]->data;
    return ACCEL_OK;
  }
  ACCEL_TRY(buffer_new(s->bytes, &s->buffer));
  accel_status status = ACCEL_OK;
  if (!source->checkpoint)
    fill_random(w, s, source->seed, store, s->buffer);
  else if (w->derive)
    status = derive(w, s, store, s->buffer);
  else
    status = join_parts(s, store, s->buffer);
  forget_parts(source, s);
  if (status != ACCEL_OK) buffer_free(&s->buffer, s->bytes);
  s->data = s->buffer;
  return status;
}

accel_status accel__source_map(accel__source *s, uint32_t index, accel_plugin_weight_view *out) {
  *out = (accel_plugin_weight_view){0};
  if (index >= s->n) return accel__fail(ACCEL_ERROR_ARGUMENT, "weight %u of %u", index, s->n);
  pthread_mutex_lock(&s->lock);
  slot *found = &s->slot[index];
  accel_status status = found->users ? ACCEL_OK : open_slot(s, index);
  if (status == ACCEL_OK) {
    found->users++;
    out->data = found->data;
  }
  pthread_mutex_unlock(&s->lock);
  return status;
}

void accel__source_unmap(accel__source *s, uint32_t index) {
  if (index >= s->n) return;
  pthread_mutex_lock(&s->lock);
  slot *found = &s->slot[index];
  if (found->users && --found->users == 0) {
    if (!found->buffer) forget_parts(s, found);
    buffer_free(&found->buffer, found->bytes);
    found->data = NULL;
  }
  pthread_mutex_unlock(&s->lock);
}

uint64_t accel__source_bytes(const accel__source *s) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < s->n; i++) all += s->slot[i].bytes;
  return all;
}

accel_status accel__source_unexpected(const accel__source *s, accel__arena *arena, const char ***names, uint32_t *n) {
  uint32_t count = s->checkpoint ? accel__checkpoint_count(s->checkpoint) : 0;
  accel__map used = {0};
  *n = 0;
  *names = accel__arena_array(arena, count, sizeof **names);
  accel_status status = *names ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; s->checkpoint && i < s->n; i++) {
    for (uint32_t p = 0; p < s->slot[i].n_parts && status == ACCEL_OK; p++)
      status = accel__map_set(&used, s->slot[i].part[p]->name, strlen(s->slot[i].part[p]->name), 1);
  }
  for (uint32_t i = 0; i < count && status == ACCEL_OK; i++) {
    const char *name = accel__checkpoint_at(s->checkpoint, i)->name;
    int64_t one;
    if (!accel__map_get(&used, name, strlen(name), &one)) (*names)[(*n)++] = name;
  }
  accel__map_free(&used);
  return status;
}
