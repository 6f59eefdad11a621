/* ort_context.c - see ort_context.h. */
#include "onnxruntime/ort_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/hash.h"

/* What the libraries are: their versions, and Qualcomm's by the file. */
static uint64_t hash_library(const ort_endpoint *e) {
  const ort_library *ort = e->ort;
  uint64_t h = accel_hash(ACCEL_HASH_SEED, ort->version, strlen(ort->version) + 1);
  struct stat file;
  if (!stat(ort->qnn, &file)) {
    const int64_t facts[] = {file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec};
    h = accel_hash(h, facts, sizeof facts);
  }
  return accel_hash(h, e->device->info.arch, strlen(e->device->info.arch) + 1);
}

void ort_context_key(const ort_endpoint *e, const char *what, const kit_graph *g,
                     const ort_bytes *text, char key[ORT_CONTEXT_KEY]) {
  uint64_t h = accel_hash(hash_library(e), text->data, text->n);
  for (uint32_t i = 0; i < g->n_node; i++)
    if (g->node[i].op == KIT_GRAPH_CONSTANT) h = accel_hash(h, g->node[i].data, g->node[i].bytes);
  snprintf(key, ORT_CONTEXT_KEY, "%s-%016llx", what, (unsigned long long)h);
}

bool ort_context_get(const ort_endpoint *e, const char *key, ort_bytes *out) {
  const accel_plugin_host *host = e->host;
  uint64_t n = 0;
  *out = (ort_bytes){0};
  if (!host || !host->cache_get || host->cache_get(host->self, key, NULL, &n) || !n) return false;
  out->data = malloc(n);
  out->n = n;
  if (out->data && !host->cache_get(host->self, key, out->data, &n)) return true;
  free(out->data);
  *out = (ort_bytes){0};
  return false;
}

bool ort_context_begin(const ort_endpoint *e, ort_context *c) {
  *c = (ort_context){0};
  if (!e->host || !e->host->cache_put) return false;
  snprintf(c->folder, sizeof c->folder, "/tmp/accel-context-XXXXXX");
  if (!mkdtemp(c->folder)) {
    c->folder[0] = 0;
    return false;
  }
  snprintf(c->path, sizeof c->path, "%s/context.onnx", c->folder);
  return true;
}

OrtStatus *ort_context_ask(const ort_library *ort, OrtSessionOptions *options,
                           const ort_context *c) {
  OrtStatus *status = ort->AddSessionConfigEntry(options, "ep.context_enable", "1");
  if (!status) status = ort->AddSessionConfigEntry(options, "ep.context_embed_mode", "1");
  if (!status) status = ort->AddSessionConfigEntry(options, "ep.context_file_path", c->path);
  return status;
}

void ort_context_put(const ort_endpoint *e, const char *key, const void *data, uint64_t n) {
  const accel_plugin_part part = {.data = data, .n = n};
  if (e->host && e->host->cache_put) (void)e->host->cache_put(e->host->self, key, &part, 1);
}

static void put(const ort_endpoint *e, const char *key, const char *path) {
  FILE *f = fopen(path, "rb");
  struct stat about;
  if (!f) return;
  char *data =
      !fstat(fileno(f), &about) && about.st_size > 0 ? malloc((size_t)about.st_size) : NULL;
  if (data && fread(data, 1, (size_t)about.st_size, f) == (size_t)about.st_size)
    ort_context_put(e, key, data, (uint64_t)about.st_size);
  free(data);
  fclose(f);
}

void ort_context_end(const ort_endpoint *e, const char *key, bool good, const ort_context *c) {
  if (!*c->folder) return;
  if (good) put(e, key, c->path);
  unlink(c->path);
  rmdir(c->folder);
}
