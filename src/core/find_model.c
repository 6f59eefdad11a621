/* find_model.c - where a model lives on this machine: a directory, our own model folder, the
 * Hugging Face hub cache. Nothing is fetched. */
#include "core/find_model.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"

typedef struct model_name {
  char *repository; /* "org/name" or "name" */
  char *revision;   /* NULL: none given */
} model_name;

/* Letters, digits, '-', '_', '.', one '/' at most; no part empty or beginning with a dot: nothing
 * that could leave the cache. */
static bool valid_repository(const char *name) {
  uint32_t slashes = 0;
  for (const char *at = name; *at; at++) {
    bool first = at == name || at[-1] == '/';
    if (*at == '/' && (first || !at[1] || ++slashes > 1)) return false;
    if (*at == '.' && first) return false;
    if (*at != '/' && !strchr("-_.", *at) && !(*at >= '0' && *at <= '9') &&
        !((*at | 0x20) >= 'a' && (*at | 0x20) <= 'z'))
      return false;
  }
  return *name && strlen(name) < 200;
}

/* Branches may hold slashes ("refs/pr/3") but lead nowhere else. */
static bool valid_revision(const char *name) {
  return *name && *name != '/' && *name != '.' && !strstr(name, "..") && !strchr(name, '\\') &&
         strlen(name) < 200;
}

static accel_status split_name(const char *model, accel__arena *arena, model_name *out) {
  const char *at = strchr(model, '@');
  out->repository = accel__arena_copy(arena, model, at ? (size_t)(at - model) : strlen(model));
  out->revision = at ? accel__arena_string(arena, at + 1) : NULL;
  if (!out->repository || (at && !out->revision)) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (valid_repository(out->repository) && (!out->revision || valid_revision(out->revision)))
    return ACCEL_OK;
  accel__fail(
      ACCEL_ERROR_NOT_FOUND,
      "model '%s': no such directory, and no name of the form org/name or org/name@revision",
      model);
  return accel__remedy(ACCEL_ERROR_NOT_FOUND,
                       "give a directory with config.json, or a Hugging Face model id");
}

/* <cache>/models/org/name; a revision other than main has a folder org/name@revision of its own. */
static char *below(accel__arena *arena, const char *cache, const model_name *name) {
  bool plain = !name->revision || strcmp(name->revision, "main") == 0;
  return accel__arena_printf(arena, "%s/models/%s%s%s", cache, name->repository, plain ? "" : "@",
                             plain ? "" : name->revision);
}

/* In ACCEL_CACHE_DIR when that has it, else in the standard cache. */
static char *own_directory(accel__arena *arena, const model_name *name) {
  char *cache, *found;
  if (accel__cache_directory(arena, &cache) != ACCEL_OK) return NULL;
  found = below(arena, cache, name);
  if ((found && accel__is_directory(found)) || accel__standard_cache(arena, &cache) != ACCEL_OK)
    return found;
  return below(arena, cache, name);
}

/* HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub: the first
 * that is set. */
static char *hub_directory(accel__arena *arena) {
  static const struct {
    const char *variable, *below;
  } places[] = {{"HF_HUB_CACHE", ""},
                {"HF_HOME", "/hub"},
                {"XDG_CACHE_HOME", "/huggingface/hub"},
                {"HOME", "/.cache/huggingface/hub"}};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const char *value = accel__env(places[i].variable);
    if (value) return accel__arena_printf(arena, "%s%s", value, places[i].below);
  }
  return NULL;
}

/* models--org--name */
static char *hub_repository(accel__arena *arena, const char *hub, const char *repository) {
  const char *slash = strchr(repository, '/');
  if (!slash) return accel__arena_printf(arena, "%s/models--%s", hub, repository);
  return accel__arena_printf(arena, "%s/models--%.*s--%s", hub, (int)(slash - repository),
                             repository, slash + 1);
}

/* The commit in refs/<revision>; NULL when there is none. */
static char *read_reference(accel__arena *arena, const char *repository, const char *revision) {
  char *bytes, *commit = NULL;
  size_t n;
  char *path = accel__arena_printf(arena, "%s/refs/%s", repository, revision);
  if (!path || accel__file_read(path, 4096, &bytes, &n) != ACCEL_OK) return NULL;
  while (n && (unsigned char)bytes[n - 1] <= ' ') n--;
  bytes[n] = 0;
  if (n && strspn(bytes, "0123456789abcdef") == n) commit = accel__arena_copy(arena, bytes, n);
  free(bytes);
  return commit;
}

/* The only snapshot there is: a repository fetched by commit has no refs/main. */
static char *only_snapshot(accel__arena *arena, const char *snapshots) {
  char **names;
  size_t n;
  if (accel__list_directory(snapshots, arena, &names, &n) != ACCEL_OK || n != 1) return NULL;
  return names[0];
}

/* The snapshot directory of a revision (a branch, a tag or a commit); NULL when it is not there. */
static char *hub_snapshot(accel__arena *arena, const char *hub, const model_name *name) {
  char *repository = hub_repository(arena, hub, name->repository);
  if (!repository || !accel__is_directory(repository)) return NULL;
  char *snapshots = accel__path_join(arena, repository, "snapshots");
  const char *commit = read_reference(arena, repository, name->revision ? name->revision : "main");
  if (!commit) commit = name->revision;
  if (!commit && snapshots) commit = only_snapshot(arena, snapshots);
  char *directory = commit && snapshots && !strchr(commit, '/')
                        ? accel__path_join(arena, snapshots, commit)
                        : NULL;
  return directory && accel__is_directory(directory) ? directory : NULL;
}

accel_status accel__find_model(const char *model, accel__arena *arena, char **directory) {
  model_name name;
  *directory = NULL;
  if (accel__is_directory(model)) {
    *directory = accel__arena_string(arena, model);
    return *directory ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  }
  ACCEL_TRY(split_name(model, arena, &name));
  char *own = own_directory(arena, &name), *hub = hub_directory(arena);
  if (own && accel__is_directory(own))
    *directory = own;
  else if (hub)
    *directory = hub_snapshot(arena, hub, &name);
  if (*directory) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_NOT_FOUND,
              "model '%s' is not on this machine: looked for %s, and in the Hugging Face cache %s",
              model, own ? own : "(no cache directory)", hub ? hub : "(no home directory)");
  return accel__remedy(ACCEL_ERROR_NOT_FOUND, "hf download %s%s%s", name.repository,
                       name.revision ? " --revision " : "", name.revision ? name.revision : "");
}
