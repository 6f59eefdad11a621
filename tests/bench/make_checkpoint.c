/* make_checkpoint.c - writes a checkpoint of random bf16 weights for a config.json: to measure and
 * test models of any size.
 *
 *   make_checkpoint DIRECTORY [SEED]     DIRECTORY has config.json; DIRECTORY/model.safetensors is written
 *
 * Values are those of `accel ... --random-weights --seed SEED` (default 0), rounded to bf16.  The
 * file is written tensor by tensor, in pieces of 4 MiB, is never sparse, and is dropped from the
 * page cache behind the writer.  Weights that are derived from several tensors (weight_norm, folded
 * batch norm) are refused.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "dispatch/endpoint.h"
#include "formats/convert.h"
#include "models/model_build.h"
#include "program/program.h"
#include "tasks/open.h"
#include "weights/random.h"

enum { PIECE = 2 << 20 /* values */ };

typedef struct tensor {
  const char *name;
  uint32_t rank;
  int64_t dim[4];
  uint64_t n;
} tensor;

typedef struct list {
  tensor *item;
  uint32_t n, capacity;
} list;

static int add(list *l, const accel__source_weight *w, const char *name) {
  for (uint32_t i = 0; i < l->n; i++)
    if (!strcmp(l->item[i].name, name)) return 0; /* tied */
  if (l->n == l->capacity) {
    l->capacity = 2 * l->capacity + 64;
    tensor *more = realloc(l->item, l->capacity * sizeof *more);
    if (!more) return 1;
    l->item = more;
  }
  tensor *t = &l->item[l->n++];
  *t = (tensor){.name = name, .rank = w->rank, .n = 1};
  memcpy(t->dim, w->dim, sizeof t->dim);
  if (w->stored_rows > 0)
    t->dim[0] = w->stored_rows;
  else if (w->n_parts > 1)
    t->dim[0] /= w->n_parts;
  for (uint32_t d = 0; d < t->rank; d++) t->n *= (uint64_t)t->dim[d];
  return 0;
}

static int list_tensors(accel_endpoint *ep, list *l) {
  const uint32_t n = accel__program_view(ep->model->program)->n_weight;
  for (uint32_t i = 0; i < n; i++) {
    const accel__source_weight *w = accel__weight_source(ep->model->program, i);
    if (w->derive && !w->elementwise)
      return fprintf(stderr, "weight '%s' is derived\n", w->name), 1;
    for (uint32_t p = 0; p < (w->n_parts ? w->n_parts : 1); p++)
      if (add(l, w, !w->n_parts ? w->name : w->many ? w->many[p] : w->parts[p])) return 1;
  }
  return 0;
}

static int write_all(int fd, const void *bytes, size_t n) {
  for (size_t at = 0; at < n;) {
    const ssize_t put = write(fd, (const char *)bytes + at, n - at);
    if (put < 0) return perror("write"), 1;
    at += (size_t)put;
  }
  return 0;
}

static int write_header(int fd, const list *l) {
  accel__buffer b = {0};
  uint64_t at = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    const tensor *t = &l->item[i];
    accel__buffer_printf(&b, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[", i ? "," : "{", t->name);
    for (uint32_t d = 0; d < t->rank; d++)
      accel__buffer_printf(&b, "%s%lld", d ? "," : "", (long long)t->dim[d]);
    accel__buffer_printf(&b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                         (unsigned long long)(at + 2 * t->n));
    at += 2 * t->n;
  }
  accel__buffer_printf(&b, "}");
  while (b.n % 8) accel__buffer_printf(&b, " ");
  const uint64_t n = b.n;
  const int failed = b.failed || write_all(fd, &n, sizeof n) || write_all(fd, b.data, b.n);
  accel__buffer_free(&b);
  return failed;
}

static int write_tensor(int fd, const tensor *t, uint64_t seed, float *values, uint16_t *halves) {
  for (uint64_t at = 0, n; at < t->n; at += n) {
    n = t->n - at < PIECE ? t->n - at : PIECE;
    accel__random_weight(seed, t->name, t->rank, at, n, values);
    accel_f32_array_to_bf16(values, (size_t)n, halves);
    if (write_all(fd, halves, (size_t)n * 2)) return 1;
  }
  sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
  return 0;
}

static int write_file(const char *path, const list *l, uint64_t seed) {
  float *values = malloc(PIECE * sizeof *values);
  uint16_t *halves = malloc(PIECE * sizeof *halves);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), failed = 0;
  if (fd < 0) perror(path);
  if (fd < 0 || !values || !halves) failed = 1;
  if (!failed) failed = write_header(fd, l);
  for (uint32_t i = 0; !failed && i < l->n; i++)
    failed = write_tensor(fd, &l->item[i], seed, values, halves);
  if (fd >= 0) {
    if (fdatasync(fd)) failed = 1;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
  free(values);
  free(halves);
  return failed;
}

int main(int argc, char **argv) {
  if (argc < 2) return fprintf(stderr, "usage: make_checkpoint DIRECTORY [SEED]\n"), 2;
  const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  accel_init_params how = accel_init_params_default();
  const accel__registry_model *entry;
  accel_endpoint *ep;
  accel *ctx;
  list l = {0};
  char path[4096];
  how.random_weights = 1;
  snprintf(path, sizeof path, "%s/model.safetensors", argv[1]);
  if (accel_create(NULL, &ctx) != ACCEL_OK ||
      accel__open_dry(ctx, argv[1], &how, &entry, &ep) != ACCEL_OK)
    return fprintf(stderr, "%s\n", accel_last_error()), 1;
  const int failed = list_tensors(ep, &l) || write_file(path, &l, seed);
  accel__endpoint_free(ep);
  accel_destroy(&ctx);
  free(l.item);
  return failed;
}
