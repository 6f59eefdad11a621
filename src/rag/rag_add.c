/* rag_add.c - bringing an index up to date: which documents there are, which of them changed, and
 * reading, cutting and embedding these. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "dispatch/context.h"
#include "processing/processor.h"
#include "processing/result.h"
#include "rag/rag_index.h"

enum { MAX_DEPTH = 64, BATCH = 256 };

/* Documents to look at. */
typedef struct walk {
  accel__arena arena;
  char **path;
  uint32_t n, capacity;
  uint32_t skipped;
} walk;

typedef struct work {
  accel_rag *r;
  accel_rag_changes *changes; /* a result with an arena */
  accel_rag_problem *problem;
  uint32_t problems; /* room for them */
  bool reading;      /* a failure now is the document's, not the index's */
} work;

/* ---- which documents there are ---- */

static accel_status take_path(walk *w, const char *path) {
  if (w->n == w->capacity) {
    const uint32_t capacity = w->capacity ? 2 * w->capacity : 64;
    char **more = realloc(w->path, capacity * sizeof *more);
    if (!more) return accel__no_memory(capacity * sizeof *more);
    w->path = more;
    w->capacity = capacity;
  }
  w->path[w->n] = accel__arena_string(&w->arena, path);
  return w->path[w->n++] ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status walk_folder(walk *w, const char *folder, int depth) {
  accel_rag_format format;
  char **names;
  size_t n;
  ACCEL_TRY(accel__list_directory(folder, &w->arena, &names, &n));
  for (size_t i = 0; i < n; i++) {
    struct stat is;
    if (names[i][0] == '.') continue;
    const char *path = accel__path_join(&w->arena, folder, names[i]);
    if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (lstat(path, &is)) continue; /* gone meanwhile */
    if (S_ISDIR(is.st_mode) && depth < MAX_DEPTH)
      ACCEL_TRY(walk_folder(w, path, depth + 1));
    else if (S_ISREG(is.st_mode) && accel__document_format(path, &format))
      ACCEL_TRY(take_path(w, path));
    else
      w->skipped++;
  }
  return ACCEL_OK;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_once(walk *w) {
  uint32_t kept = 0;
  if (w->n) qsort(w->path, w->n, sizeof *w->path, by_text);
  for (uint32_t i = 0; i < w->n; i++)
    if (!kept || strcmp(w->path[kept - 1], w->path[i])) w->path[kept++] = w->path[i];
  w->n = kept;
}

/* ---- problems ---- */

/* Keeps this thread's failure as one of the file. */
static accel_status keep_problem(work *w, const char *path, accel_status status) {
  accel_rag_changes *c = w->changes;
  accel__arena *arena = accel__task_arena(c);
  if (c->n_problem == w->problems) {
    const uint32_t more = w->problems ? 2 * w->problems : 8;
    accel_rag_problem *list = accel__arena_array(arena, more, sizeof *list);
    if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (c->n_problem) memcpy(list, w->problem, c->n_problem * sizeof *list);
    w->problem = list;
    w->problems = more;
  }
  const char *remedy = accel__remedy_text();
  char *message = *remedy ? accel__arena_printf(arena, "%s (%s)", accel__message(), remedy)
                          : accel__arena_string(arena, accel__message());
  char *name = accel__arena_string(arena, path);
  if (!message || !name) return ACCEL_ERROR_OUT_OF_MEMORY;
  w->problem[c->n_problem++] = (accel_rag_problem){name, message, status};
  c->problem = w->problem;
  return ACCEL_OK;
}

/* Whether a failure is the document's own, so that the others can go on. */
static bool of_the_document(const work *w, accel_status status) {
  return w->reading && (status == ACCEL_ERROR_IO || status == ACCEL_ERROR_FORMAT ||
                        status == ACCEL_ERROR_LIMIT || status == ACCEL_ERROR_NOT_FOUND);
}

/* ---- one document ---- */

/* What is embedded of a passage. */
static const char *passage_text(const accel__document *d, const accel__chunk *chunk,
                                accel__arena *arena) {
  const char *heading = chunk->with_heading ? chunk->heading : "";
  return accel__arena_printf(arena, "%s%s%.*s", heading, *heading ? "\n" : "",
                             (int)(chunk->end - chunk->start), d->text.data + chunk->start);
}

static accel_status embed_batch(work *w, const accel__document *d, const accel__chunk *chunk,
                                uint32_t n, float *vectors) {
  const accel__rag_settings *s = &w->r->settings;
  const char *texts[BATCH];
  accel__arena arena = {0};
  float *found = NULL;
  uint32_t dim = 0;
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++)
    if (!(texts[i] = passage_text(d, &chunk[i], &arena))) status = ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK)
    status = accel__rag_embed(w->r->embedder, s->document_prompt, texts, n, &dim, &found,
                              &w->changes->tokens);
  if (status == ACCEL_OK && dim != s->dim)
    status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: vectors of %u numbers, the index has %u",
                         w->r->embedder->name, dim, s->dim);
  if (status == ACCEL_OK) memcpy(vectors, found, (size_t)n * dim * sizeof *found);
  free(found);
  accel__arena_free(&arena);
  return status;
}

static accel_status store(work *w, const char *path, const accel__rag_file *file,
                          const accel__document *d, const accel__chunks *chunks) {
  accel_rag *r = w->r;
  const uint32_t dim = r->settings.dim;
  const size_t bytes = (size_t)chunks->n * dim * sizeof(float);
  float *vectors = malloc(bytes + 1);
  accel_status status = vectors ? ACCEL_OK : accel__no_memory(bytes);
  for (uint32_t i = 0; i < chunks->n && status == ACCEL_OK; i += BATCH) {
    const uint32_t n = chunks->n - i < BATCH ? chunks->n - i : BATCH;
    status = embed_batch(w, d, &chunks->item[i], n, vectors + (size_t)i * dim);
  }
  if (status == ACCEL_OK)
    status = accel__rag_file_replace(&r->store, path, file, d, chunks, vectors, dim);
  free(vectors);
  return status;
}

/* The document in the place of the one of that path. */
static accel_status write_document(work *w, const char *path, const accel__rag_file *file,
                                   const char *bytes, accel_rag_format format) {
  const accel__processor *p = accel__processor_for(w->r->embedder);
  const accel__rag_settings *s = &w->r->settings;
  accel__document d = {0};
  accel__chunks chunks = {0};
  uint32_t prompt;
  ACCEL_TRY(
      accel__count_tokens(p->tokenizer, s->document_prompt, strlen(s->document_prompt), &prompt));
  const accel__chunking how = {.tokenizer = p->tokenizer,
                               .tokens = s->chunk_tokens,
                               .overlap = s->overlap,
                               .taken = prompt + accel__special_token_count(p->tokenizer, false)};
  w->reading = true;
  accel_status status = accel__document_parse(bytes, (size_t)file->bytes, format, &d);
  if (status == ACCEL_OK) w->reading = false;
  if (status == ACCEL_OK) status = accel__chunks_make(&d, &how, &chunks);
  if (status == ACCEL_OK) status = store(w, path, file, &d, &chunks);
  if (status == ACCEL_OK) w->changes->passages += chunks.n;
  accel__chunks_free(&chunks);
  accel__document_free(&d);
  return status;
}

static void count_document(work *w, const accel__rag_file *known) {
  w->changes->changed += known->id != 0;
  w->changes->added += known->id == 0;
}

static accel_status refresh(work *w, const char *path) {
  accel__rag_file known, now = {0};
  accel__file_state state;
  char *bytes = NULL;
  size_t n;
  int fd;
  accel_rag_format format = ACCEL_RAG_TEXT;
  w->reading = false;
  ACCEL_TRY(accel__rag_file_find(&w->r->store, path, &known));
  w->reading = true;
  ACCEL_TRY(accel__file_open(path, &fd, &state));
  close(fd);
  w->changes->unchanged++;
  if (known.id && known.bytes == state.bytes && known.modified == state.modified) return ACCEL_OK;
  w->changes->unchanged--;
  ACCEL_TRY(accel__file_read(path, ACCEL__DOCUMENT_BYTES, &bytes, &n));
  w->reading = false;
  now = (accel__rag_file){.bytes = n, .modified = state.modified, .hash = accel__hash(bytes, n, 0)};
  accel_status status;
  if (known.id && known.bytes == n && known.hash == now.hash) {
    status = accel__rag_file_touch(&w->r->store, known.id, now.modified);
    w->changes->unchanged += status == ACCEL_OK;
  } else {
    accel__document_format(path, &format);
    status = write_document(w, path, &now, bytes, format);
    if (status == ACCEL_OK) count_document(w, &known);
  }
  free(bytes);
  return status;
}

/* ---- all documents ---- */

/* Removes what the index has of a path, or below it, and `there` has not. */
static accel_status remove_missing(work *w, const char *path, const walk *there) {
  accel__arena arena = {0};
  char **known;
  uint32_t n;
  accel_status status = accel__rag_files_below(&w->r->store, path, &arena, &known, &n);
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    if (there->n && bsearch(&known[i], there->path, there->n, sizeof *there->path, by_text))
      continue;
    status = accel__rag_file_remove(&w->r->store, known[i]);
    w->changes->removed += status == ACCEL_OK;
  }
  accel__arena_free(&arena);
  return status;
}

/* The whole path of what may not be there any more: as realpath() gives it of the folder that is. */
static char *whole_path(const char *path) {
  char *whole = realpath(path, NULL);
  if (whole || errno != ENOENT) return whole;
  char *copy = strdup(path), *slash = copy ? strrchr(copy, '/') : NULL;
  if (slash) *slash = '\0';
  char *folder = !copy ? NULL : realpath(slash == copy ? "/" : slash ? copy : ".", NULL);
  accel__buffer b = {0};
  if (folder)
    accel__buffer_printf(&b, "%s/%s", strcmp(folder, "/") ? folder : "", slash ? slash + 1 : path);
  free(folder);
  free(copy);
  return b.data;
}

/* Adds what is at a path to the walk; *root gets its whole path. */
static accel_status look(work *w, walk *all, const char *path, char **root) {
  *root = whole_path(path);
  if (!*root) return accel__file_refused(path, "find", errno ? errno : ENOENT);
  if (accel__is_directory(*root)) return walk_folder(all, *root, 0);
  if (!access(*root, F_OK)) return take_path(all, *root);
  accel__arena arena = {0};
  char **known;
  uint32_t n;
  accel_status status = accel__rag_files_below(&w->r->store, *root, &arena, &known, &n);
  accel__arena_free(&arena);
  if (status == ACCEL_OK && !n)
    status = accel__fail(ACCEL_ERROR_NOT_FOUND, "%s: it is not there, nor in the index", path);
  return status;
}

static accel_status refresh_all(work *w, const walk *all) {
  for (uint32_t i = 0; i < all->n; i++) {
    ACCEL_TRY(accel__check_cancelled(w->r->ctx));
    accel__report_progress(w->r->ctx, "indexing", i, all->n);
    const accel_status status = refresh(w, all->path[i]);
    if (status == ACCEL_OK) continue;
    if (!of_the_document(w, status)) return status;
    ACCEL_TRY(keep_problem(w, all->path[i], status));
  }
  accel__report_progress(w->r->ctx, "indexing", all->n, all->n);
  return ACCEL_OK;
}

static accel_status need_embedder(const accel_rag *r) {
  if (r->embedder) return ACCEL_OK;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_ARGUMENT, "%s: it was opened without an embedder", r->store.path),
      "open it with the embedder '%s'", r->settings.embedder);
}

/* The file of vectors of a large index.  It is a copy: an index without it is whole. */
static void keep_vectors(accel_rag *r) {
  if (accel__rag_number(&r->store, "SELECT count(*) FROM passage") < ACCEL__RAG_VECTORS_KEPT)
    return;
  accel_status status = accel__rag_begin(&r->store, false);
  if (status == ACCEL_OK)
    status =
        accel__rag_end(&r->store, accel__rag_vectors_read(&r->store, r->settings.dim, &r->vectors));
  if (status == ACCEL_OK) status = accel__rag_vectors_keep(&r->store, &r->vectors);
  if (status != ACCEL_OK)
    accel__logf(&r->ctx->log, ACCEL_LOG_WARNING, "searches will begin more slowly: %s",
                accel__message());
  accel__clear_error();
}

accel_status accel__rag_add(accel_rag *r, const char *const *paths, uint32_t n,
                            accel_rag_changes **out) {
  ACCEL_TRY(need_embedder(r));
  walk all = {0};
  work w = {.r = r, .changes = accel__task_result(sizeof(accel_rag_changes))};
  char **root = calloc((size_t)n + 1, sizeof *root);
  accel_status status = w.changes && root ? ACCEL_OK : accel__no_memory(n * sizeof *root);
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++)
    status = look(&w, &all, paths[i], &root[i]);
  if (status == ACCEL_OK) {
    sort_once(&all);
    w.changes->skipped = all.skipped;
    status = refresh_all(&w, &all);
  }
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) status = remove_missing(&w, root[i], &all);
  if (status == ACCEL_OK) keep_vectors(r);
  for (uint32_t i = 0; root && i < n; i++) free(root[i]);
  free(root);
  free(all.path);
  accel__arena_free(&all.arena);
  if (out)
    *out = accel__task_finish(w.changes, status);
  else
    accel__task_free(w.changes);
  return status;
}

accel_status accel__rag_add_text(accel_rag *r, const char *name, const char *text,
                                 accel_rag_format format) {
  ACCEL_TRY(need_embedder(r));
  work w = {.r = r, .changes = accel__task_result(sizeof(accel_rag_changes))};
  if (!w.changes) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__rag_file known;
  const size_t n = strlen(text);
  const accel__rag_file now = {.bytes = n, .hash = accel__hash(text, n, (uint64_t)format)};
  accel_status status = accel__rag_file_find(&r->store, name, &known);
  if (status == ACCEL_OK && (!known.id || known.bytes != n || known.hash != now.hash))
    status = write_document(&w, name, &now, text, format);
  accel__task_free(w.changes);
  return status;
}

accel_status accel__rag_remove(accel_rag *r, const char *const *paths, uint32_t n,
                               uint32_t *removed) {
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    accel__arena arena = {0};
    char **known, *whole = NULL;
    uint32_t count = 0;
    status = accel__rag_files_below(&r->store, paths[i], &arena, &known, &count);
    if (status == ACCEL_OK && !count && (whole = whole_path(paths[i])))
      status = accel__rag_files_below(&r->store, whole, &arena, &known, &count);
    if (status == ACCEL_OK && !count)
      status = accel__fail(ACCEL_ERROR_NOT_FOUND, "%s: the index has no such document", paths[i]);
    for (uint32_t k = 0; k < count && status == ACCEL_OK; k++, *removed += 1)
      status = accel__rag_file_remove(&r->store, known[k]);
    free(whole);
    accel__arena_free(&arena);
  }
  return status;
}
