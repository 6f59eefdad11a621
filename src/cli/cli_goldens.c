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

enum { DEEPEST = 12, LONGEST = 4096, WHOLE = 16 << 20, PART = 1 << 20 };

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

bool cli_model_hash(const char *directory, char out[17]) {
  struct dirent **list = NULL;
  uint64_t hash = ACCEL_HASH_SEED;
  const int n = scandir(directory, &list, NULL, alphasort);
  bool read = n >= 0;
  for (int i = 0; i < n; ++i) {
    const char *name = list[i]->d_name;
    char path[LONGEST];
    if (!is_golden(name) &&
        (ends_with(name, ".json") || ends_with(name, ".safetensors") || ends_with(name, ".bin"))) {
      snprintf(path, sizeof path, "%s/%s", directory, name);
      hash = accel_hash_text(hash, name);
      read = hash_file(path, false, &hash) && read;
    }
    free(list[i]);
  }
  free(list);
  snprintf(out, 17, "%016llx", (unsigned long long)hash);
  return read;
}

/* ---- names ---- */

bool cli_model_config(const char *directory, char **type, char **class_name) {
  char path[LONGEST], *text = NULL;
  size_t capacity = 0;
  snprintf(path, sizeof path, "%s/config.json", directory);
  FILE *f = fopen(path, "rb");
  const ssize_t n = f ? getdelim(&text, &capacity, 0, f) : -1;
  if (f) fclose(f);
  cJSON *config = n > 0 ? cJSON_Parse(text) : NULL;
  const char *said = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(config, "model_type")),
             *first = cJSON_GetStringValue(
                 cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(config, "architectures"), 0));
  *type = strdup(said ? said : "");
  *class_name = strdup(first ? first : "");
  cJSON_Delete(config);
  free(text);
  return *type && *class_name;
}

/* "org/name" of ".../models--org--name/snapshots/REVISION", else the path below `top` ("../x" stays
 * so), else the last name of `top`. */
static char *model_name(const char *top, const char *directory) {
  const char *hub = strstr(directory, "models--");
  const size_t n = strlen(top);
  char name[LONGEST];
  if (hub) {
    snprintf(name, sizeof name, "%.*s", (int)strcspn(hub + 8, "/"), hub + 8);
    char *dashes = strstr(name, "--");
    if (dashes) *dashes = '/', memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    return strdup(name);
  }
  if (!strncmp(directory, top, n)) directory += n;
  directory += strspn(directory, "/");
  if (*directory) return strdup(directory);
  char *real = realpath(top, NULL);
  const char *last = real ? strrchr(real, '/') : NULL;
  char *copy = strdup(last && last[1] ? last + 1 : top);
  free(real);
  return copy;
}

char *cli_golden_class(const char *file, char *own) {
  const char *dot = strchr(file, '.');
  const size_t n = dot ? strcspn(dot + 1, ".") : 0;
  if (!n || !isupper((unsigned char)dot[1])) return own;
  free(own);
  return strndup(dot + 1, n);
}

/* ---- collecting ---- */

typedef struct finder {
  const char *top;
  cli_goldens *out;
  bool by_lists;  /* what lists name; else all that is found */
  uint32_t lists; /* that were met */
  char *message;
  size_t size;
  char hashed[LONGEST], hash[17]; /* the model that was hashed last */
} finder;

static bool failed(finder *f, const char *path) {
  snprintf(f->message, f->size, "%s: %s", path, strerror(errno));
  return false;
}

static bool add(finder *f, const char *directory, const char *file, const char *architecture,
                const char *precision) {
  char path[LONGEST], *type = NULL, *own = NULL;
  uint64_t hash = ACCEL_HASH_SEED;
  cli_golden *grown = realloc(f->out->item, (f->out->n + 1) * sizeof *grown);
  if (!grown) return failed(f, directory);
  f->out->item = grown;
  cli_golden *g = &f->out->item[f->out->n];
  if (!cli_model_config(directory, &type, &own)) return failed(f, directory);
  snprintf(path, sizeof path, "%s/%s", directory, file);
  *g = (cli_golden){
      .path = strdup(path),
      .directory = strdup(directory),
      .model = model_name(f->top, directory),
      .model_type = type,
      .architecture = architecture ? strdup(architecture) : cli_golden_class(file, own),
      .precision = strdup(precision)};
  f->out->n++;
  if (architecture) free(own);
  if (!g->path || !g->directory || !g->model || !g->model_type || !g->architecture || !g->precision)
    return failed(f, directory);
  g->file = strrchr(g->path, '/') + 1;
  if (strcmp(f->hashed, directory) != 0) {
    if (!cli_model_hash(directory, f->hash)) return failed(f, directory);
    snprintf(f->hashed, sizeof f->hashed, "%s", directory);
  }
  snprintf(g->model_hash, sizeof g->model_hash, "%s", f->hash);
  if (!hash_file(path, true, &hash)) return failed(f, path);
  snprintf(g->hash, sizeof g->hash, "%016llx", (unsigned long long)hash);
  return true;
}

/* ---- lists ---- */

/* MODEL GOLDEN [ARCHITECTURE [PRECISION]]; false: no such line. */
static bool split(char *line, char *field[4]) {
  char *save;
  uint32_t n = 0;
  line[strcspn(line, "\r\n")] = 0;
  for (char *word = strtok_r(line, " \t", &save); word && n < 4;
       word = strtok_r(NULL, " \t", &save))
    field[n++] = word;
  return n > 1 && is_golden(field[1]);
}

static bool is_comment(const char *line) {
  return line[0] == '#' || line[strspn(line, " \t\r\n")] == 0;
}

/* A list of something else is passed over. */
static bool take_list(finder *f, const char *folder, const char *name) {
  char path[LONGEST], directory[2 * LONGEST], *line = NULL;
  size_t capacity = 0;
  uint32_t number = 0;
  bool good = true, one = false;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *from = fopen(path, "r");
  while (from && good && getline(&line, &capacity, from) >= 0) {
    char *field[4] = {NULL, NULL, NULL, ""};
    ++number;
    if (is_comment(line)) continue;
    if (!split(line, field)) {
      if (!one) break;
      snprintf(f->message, f->size, "%s: line %u: expected MODEL GOLDEN [ARCHITECTURE [PRECISION]]",
               path, number);
      good = false;
      break;
    }
    if (!one) f->lists++;
    one = true;
    if (!f->by_lists) break;
    snprintf(directory, sizeof directory, "%s/%s", folder, field[0]);
    good = add(f, directory, field[1], field[2], field[3]);
  }
  free(line);
  if (!from) return failed(f, path);
  fclose(from);
  return good;
}

/* ---- the walk ---- */

static bool take_entry(finder *f, const char *directory, const char *name, bool model) {
  if (ends_with(name, ".list")) return take_list(f, directory, name);
  return f->by_lists || !model || !is_golden(name) || add(f, directory, name, NULL, "");
}

static bool walk(finder *f, const char *directory, int depth) {
  struct dirent **list = NULL;
  const int n = scandir(directory, &list, NULL, alphasort);
  bool good = true, model = false;
  if (n < 0) return depth > 0 || failed(f, directory); /* what may not be read is passed over */
  for (int i = 0; i < n; ++i) model |= !strcmp(list[i]->d_name, "config.json");
  for (int i = 0; i < n && good; ++i) {
    const char *name = list[i]->d_name;
    char path[LONGEST];
    struct stat about;
    if (name[0] == '.') continue;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path ||
        stat(path, &about))
      continue;
    if (!S_ISDIR(about.st_mode))
      good = take_entry(f, directory, name, model);
    else if (depth < DEEPEST)
      good = walk(f, path, depth + 1);
  }
  for (int i = 0; i < n; ++i) free(list[i]);
  free(list);
  return good;
}

static int by_path(const void *a, const void *b) {
  const cli_golden *x = a, *y = b;
  const int order = strcmp(x->path, y->path);
  return order ? order : strcmp(x->architecture, y->architecture);
}

static void free_golden(cli_golden *g) {
  free(g->path), free(g->directory), free(g->model), free(g->model_type), free(g->architecture);
  free(g->precision);
}

/* In the order of their paths, each once. */
static void sort(cli_goldens *all) {
  uint32_t n = 0;
  if (all->n) qsort(all->item, all->n, sizeof *all->item, by_path);
  for (uint32_t i = 0; i < all->n; ++i) {
    if (n && !by_path(&all->item[n - 1], &all->item[i]))
      free_golden(&all->item[i]);
    else
      all->item[n++] = all->item[i];
  }
  all->n = n;
}

bool cli_goldens_find(const char *directory, cli_goldens *out, char *message, size_t size) {
  char top[LONGEST];
  finder f = {.top = top, .out = out, .message = message, .size = size, .by_lists = true};
  snprintf(top, sizeof top, "%s", directory);
  for (size_t n = strlen(top); n > 1 && top[n - 1] == '/'; --n) top[n - 1] = 0;
  *out = (cli_goldens){0};
  if (!walk(&f, top, 0)) return false;
  if (!f.lists) {
    f.by_lists = false;
    if (!walk(&f, top, 0)) return false;
  }
  sort(out);
  return true;
}

void cli_goldens_free(cli_goldens *goldens) {
  for (uint32_t i = 0; i < goldens->n; ++i) free_golden(&goldens->item[i]);
  free(goldens->item);
  *goldens = (cli_goldens){0};
}
