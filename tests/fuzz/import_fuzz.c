/* import_fuzz.c - quantised checkpoints: the configuration up to the first NUL, then the bytes of a
 * safetensors file. Whatever they are, every weight that is found can be read and turned into
 * numbers, or the refusal has a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weights/import_family.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort(); /* a finding */
}

static void read_entry(const accel__import *import, const accel__import_entry *e) {
  accel__quantised q;
  accel_plugin_format format;
  int64_t n, k;
  require(accel__import_find(import, e->name, &format, &n, &k));
  if (accel__import_read(import, e->name, &q) != ACCEL_OK) {
    require(accel__message()[0] != '\0' && q.block == NULL);
    return;
  }
  require(q.n == n && q.k == k && accel_format_equal(&q.format, &format));
  float *row = malloc((size_t)(k ? k : 1) * sizeof *row);
  for (int64_t r = 0; row && r < n && r < 64; r++) accel__dequantise_rows(&q, r, 1, row);
  if (row && n > 64) accel__dequantise_rows(&q, n - 1, 1, row);
  free(row);
  accel__quantised_free(&q);
}

static void open_and_read(const accel__json_file *config, const char *path) {
  accel__checkpoint *checkpoint;
  accel__import *import;
  if (accel__checkpoint_open(path, &checkpoint) != ACCEL_OK) return;
  if (accel__import_open(config, checkpoint, &import) != ACCEL_OK) {
    require(import == NULL && accel__message()[0] != '\0');
  } else if (import) {
    require(import->n > 0 && import->precision != NULL && import->n_notes > 0);
    for (uint32_t i = 0; i < import->n; i++) read_entry(import, import->entry[i]);
  }
  accel__import_free(&import);
  accel__checkpoint_close(&checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *end = memchr(data, 0, size);
  accel__json_file config = {0};
  char path[64];
  if (!end || accel__json_parse((const char *)data, (size_t)(end - data), "config.json", &config) !=
                  ACCEL_OK)
    return 0;
  const size_t rest = size - (size_t)(end + 1 - data);
  int file = memfd_create("model", 0);
  require(file >= 0 && write(file, end + 1, rest) == (ssize_t)rest);
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  open_and_read(&config, path);
  close(file);
  accel__json_free(&config);
  return 0;
}
