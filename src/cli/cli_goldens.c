/* cli_goldens.c - walks a directory for goldens; what they and their models are made of, as hashes. */
#include "cli/cli_goldens.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/hash.h"

enum { DEEPEST = 12, WHOLE = 16 << 20, PART = 1 << 20 };

static bool ends_with(const char *text, const char *end) {
  const size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end);
}
static bool is_golden(const char *name) {
  return !strncmp(name, "golden", 6) && ends_with(name, ".safetensors");
}

/* ---- hashes ---- */

/* A file's size and bytes; of a long one its first and last MiB. */
static bool hash_file(const char *path, bool whole, uint64_t *hash) {
  static char block[65536];
  FILE *f = fopen(path, "rb");
  struct stat about;
  if (!f) return false;
  const bool known = !fstat(fileno(f), &about);
  const uint64_t bytes = known ? (uint64_t)about.st_size : 0;
  uint64_t at = 0;
  *hash = accel_hash(*hash, &bytes, sizeof bytes);
  for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) {
    *hash = accel_hash(*hash, block, n);
    at += n;
    if (whole || bytes <= WHOLE || at != PART) continue;
    if (fseeko(f, -(off_t)PART, SEEK_END)) break;
  }
  const bool read = known && !ferror(f);
  fclose(f);
  return read;
}

/* What a model's outputs come from: its JSON files and its weights. */
static bool hash_model(const char *directory, struct dirent **list, int n, char out[17]) {
  uint64_t hash = ACCEL_HASH_SEED;
  bool read = true;
  for (int i = 0; i < n; ++i) {
    const char *name = list[i]->d_name;
    char path[4096];
    if (is_golden(name) || (!ends_with(name, ".json") && !ends_with(name, ".safetensors") &&
                            !ends_with(name, ".bin")))
      continue;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    hash = accel_hash_text(hash, name);
    read = hash_file(path, false, &hash) && read;
  }
  snprintf(out, 17, "%016llx", (unsigned long long)hash);
  return read;
}

/* ---- names ---- */

/* "" without one. */
static char *model_type_of(const char *directory) {
  char path[4096], *text = NULL;
  size_t capacity = 0;
  snprintf(path, sizeof path, "%s/config.json", directory);
  FILE *f = fopen(path, "rb");
  const ssize_t n = f ? getdelim(&text, &capacity, 0, f) : -1;
  if (f) fclose(f);
  cJSON *config = n > 0 ? cJSON_Parse(text) : NULL;
  const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(config, "model_type"));
  char *copy = strdup(type ? type : "");
  cJSON_Delete(config);
  free(text);
  return copy;
}

/* "org/name" of ".../models--org--name/snapshots/REVISION", else the path below `top`, else the last
 * name of `top`. */
static char *model_name(const char *top, const char *directory) {
  const char *hub = strstr(directory, "models--"), *below = directory + strlen(top);
  char name[4096];
  if (hub) {
    snprintf(name, sizeof name, "%.*s", (int)strcspn(hub + 8, "/"), hub + 8);
    char *dashes = strstr(name, "--");
    if (dashes) *dashes = '/', memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    return strdup(name);
  }
  below += strspn(below, "/");
  if (*below) return strdup(below);
  char *real = realpath(top, NULL);
  const char *last = real ? strrchr(real, '/') : NULL;
  char *copy = strdup(last && last[1] ? last + 1 : top);
  free(real);
  return copy;
}

/* The second part of golden.BertModel.right.safetensors, where it begins with a capital. */
static char *architecture_of(const char *file) {
  const char *dot = strchr(file, '.');
  const size_t n = dot ? strcspn(dot + 1, ".") : 0;
  return n && isupper((unsigned char)dot[1]) ? strndup(dot + 1, n) : strdup("");
}

/* ---- the walk ---- */

static bool add(cli_goldens *to, const char *top, const char *directory, const char *file,
                const char *model_hash) {
  char path[4096];
  uint64_t hash = ACCEL_HASH_SEED;
  cli_golden *grown = realloc(to->item, (to->n + 1) * sizeof *grown);
  if (!grown) return false;
  to->item = grown;
  cli_golden *g = &to->item[to->n];
  snprintf(path, sizeof path, "%s/%s", directory, file);
  *g = (cli_golden){.path = strdup(path),
                    .directory = strdup(directory),
                    .model = model_name(top, directory),
                    .model_type = model_type_of(directory),
                    .architecture = architecture_of(file)};
  to->n++;
  if (!g->path || !g->directory || !g->model || !g->model_type || !g->architecture) return false;
  g->file = strrchr(g->path, '/') + 1;
  snprintf(g->model_hash, sizeof g->model_hash, "%s", model_hash);
  const bool read = hash_file(path, true, &hash);
  snprintf(g->hash, sizeof g->hash, "%016llx", (unsigned long long)hash);
  return read;
}

static bool walk(const char *top, const char *directory, int depth, cli_goldens *out) {
  struct dirent **list = NULL;
  const int n = scandir(directory, &list, NULL, alphasort);
  bool good = n >= 0 || depth > 0, config = false; /* a folder that may not be read is passed over */
  char model_hash[17] = "";
  for (int i = 0; i < n; ++i) config |= !strcmp(list[i]->d_name, "config.json");
  for (int i = 0; i < n && good; ++i) {
    const char *name = list[i]->d_name;
    char path[4096];
    struct stat about;
    if (name[0] == '.') continue;
    if (config && is_golden(name)) {
      if (!*model_hash) good = hash_model(directory, list, n, model_hash);
      good = good && add(out, top, directory, name, model_hash);
    } else if (depth < DEEPEST && snprintf(path, sizeof path, "%s/%s", directory, name) > 0 &&
               !stat(path, &about) && S_ISDIR(about.st_mode)) {
      good = walk(top, path, depth + 1, out);
    }
  }
  for (int i = 0; i < n; ++i) free(list[i]);
  free(list);
  return good;
}

bool cli_goldens_find(const char *directory, cli_goldens *out, const char **wrong) {
  char top[4096];
  snprintf(top, sizeof top, "%s", directory);
  for (size_t n = strlen(top); n > 1 && top[n - 1] == '/'; --n) top[n - 1] = 0;
  *out = (cli_goldens){0};
  errno = 0;
  const bool good = walk(top, top, 0, out);
  *wrong = good ? NULL : out->n ? out->item[out->n - 1].path : directory;
  return good;
}

void cli_goldens_free(cli_goldens *goldens) {
  for (uint32_t i = 0; i < goldens->n; ++i) {
    cli_golden *g = &goldens->item[i];
    free(g->path), free(g->directory), free(g->model), free(g->model_type), free(g->architecture);
  }
  free(goldens->item);
  *goldens = (cli_goldens){0};
}
