/* checkpoint.c - the tensors of a model: which files belong to it, their headers, reading or mapping
 * them, finding tensors by name. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file_pages.h"
#include "core/json.h"
#include "core/text.h"
#include "weights/safetensors.h"

enum { MAX_SHARDS = 10000, MAX_INDEX_BYTES = 256 << 20 };

typedef struct shard {
  const char *path;        /* arena memory */
  accel__file_state state; /* of the file whose header was read */
  int fd;                  /* -1: opened for each read */
  accel__file_pages pages; /* {0}: not mapped */
  accel__safetensors header;
} shard;

struct accel__checkpoint {
  accel__arena arena;
  char *path; /* as opened, for messages */
  shard *shard;
  uint32_t n_shard;
  accel__tensor_info *tensor;
  uint32_t n;
  accel__map names;
  uint64_t hash;
  bool bypass; /* the page cache */
  /* taken over: its arena holds names that tensors here refer to; its shards are among ours */
  accel__checkpoint *joined;
};

/* ---- files that are not ours ---- */

typedef struct foreign_format {
  const char *suffix, *reason, *remedy;
} foreign_format;

#define PICKLE "it is a pickle, and loading a pickle runs code from the file"
#define PICKLE_REMEDY                                                                        \
  "use a revision that has *.safetensors, or convert a copy you trust: python3 -c \"import " \
  "torch, safetensors.torch as s; "                                                          \
  "s.save_file({k: v.contiguous().clone() for k, v in torch.load('FILE', "                   \
  "weights_only=True).items()}, "                                                            \
  "'model.safetensors')\""
static const foreign_format foreign[] = {
    {".bin", PICKLE, PICKLE_REMEDY},
    {".pt", PICKLE, PICKLE_REMEDY},
    {".pth", PICKLE, PICKLE_REMEDY},
    {".ckpt", PICKLE, PICKLE_REMEDY},
    {".pkl", PICKLE, PICKLE_REMEDY},
    {".gguf", "GGUF holds another runtime's layout and quantisation",
     "use the repository the GGUF was made from: it has *.safetensors"},
    {".h5", "HDF5 is TensorFlow's layout", "use a revision that has *.safetensors"},
    {".msgpack", "msgpack is Flax's layout", "use a revision that has *.safetensors"},
    {".onnx", "ONNX is a fixed graph, not a checkpoint", "use the repository's *.safetensors"},
    {".npz", "npz is not a checkpoint of transformers", "use a revision that has *.safetensors"},
};

static const foreign_format *foreign_of(const char *name) {
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
    if (accel__ends_with(name, foreign[i].suffix)) return &foreign[i];
  }
  return NULL;
}

static accel_status refuse(const char *directory, const char *name, const foreign_format *format) {
  accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s%s%s is not read: %s", directory, *directory ? "/" : "",
              name, format->reason);
  return accel__remedy(ACCEL_ERROR_UNSUPPORTED, "%s", format->remedy);
}

/* ---- shards ---- */

/* The first bytes of the file: the length, and the JSON that it counts.  *bytes is malloc'd. */
static accel_status read_header(int fd, const shard *s, uint8_t **bytes, uint64_t *n) {
  uint8_t length[8] = {0};
  ACCEL_TRY(accel__file_read_at(fd, s->path, 0, length,
                                s->state.bytes < sizeof length ? 0 : sizeof length));
  ACCEL_TRY(accel__safetensors_header_length(length, s->state.bytes, s->path, n));
  *n += sizeof length;
  *bytes = accel__fault("allocation") ? NULL : malloc((size_t)*n);
  if (!*bytes) return accel__no_memory((size_t)*n);
  return accel__file_read_at(fd, s->path, 0, *bytes, (size_t)*n);
}

/* Reads the header of one file. */
static accel_status open_shard(accel__checkpoint *c, const char *path, shard *s) {
  int fd;
  uint8_t *bytes = NULL;
  uint64_t n = 0;
  s->path = accel__arena_string(&c->arena, path);
  if (!s->path) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__file_open(path, &fd, &s->state));
  accel_status status = read_header(fd, s, &bytes, &n);
  close(fd);
  if (status == ACCEL_OK)
    status = accel__safetensors_parse_header(bytes, n, s->state.bytes, path, &c->arena, &s->header);
  if (status == ACCEL_OK) {
    const uint64_t facts[4] = {s->state.bytes, s->state.modified, s->state.changed, s->state.inode};
    c->hash = accel__hash(facts, sizeof facts, c->hash);
    c->hash = accel__hash(bytes, s->header.data_start, c->hash);
  }
  free(bytes);
  return status;
}

static accel_status make_shards(accel__checkpoint *c, uint32_t n) {
  c->n_shard = n;
  c->shard = accel__arena_array(&c->arena, n, sizeof *c->shard);
  for (uint32_t f = 0; c->shard && f < n; f++) c->shard[f].fd = -1;
  return c->shard ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* Allocates for the tensors of all shards and their names. */
static accel_status make_tensors(accel__checkpoint *c) {
  size_t all = 0;
  for (uint32_t f = 0; f < c->n_shard; f++) all += c->shard[f].header.n;
  if (all > ACCEL__SAFETENSORS_MAX_TENSORS)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: more than %d tensors", c->path,
                       ACCEL__SAFETENSORS_MAX_TENSORS);
  c->tensor = accel__arena_array(&c->arena, all, sizeof *c->tensor);
  if (!c->tensor) return ACCEL_ERROR_OUT_OF_MEMORY;
  return accel__map_reserve(&c->names, all);
}

static accel_status add_tensor(accel__checkpoint *c, const accel__tensor_info *t, uint32_t file) {
  int64_t before;
  size_t length = strlen(t->name);
  if (accel__map_get(&c->names, t->name, length, &before))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: tensor '%.160s' is in %s and in %s", c->path,
                       t->name, c->shard[c->tensor[before].file].path, c->shard[file].path);
  ACCEL_TRY(accel__map_set(&c->names, t->name, length, c->n));
  c->tensor[c->n] = *t;
  c->tensor[c->n++].file = file;
  return ACCEL_OK;
}

static accel_status open_single(accel__checkpoint *c, const char *path) {
  ACCEL_TRY(make_shards(c, 1));
  ACCEL_TRY(open_shard(c, path, &c->shard[0]));
  ACCEL_TRY(make_tensors(c));
  for (uint32_t i = 0; i < c->shard[0].header.n; i++)
    ACCEL_TRY(add_tensor(c, &c->shard[0].header.tensor[i], 0));
  return ACCEL_OK;
}

/* ---- model.safetensors.index.json: {"weight_map": {tensor: file}} ---- */

typedef struct index_file {
  accel__json_file json;
  accel__map shard_of; /* tensor -> shard */
  accel__map files;    /* file name -> shard */
  const char **name;   /* [n] shard file names, in the order of first mention */
  uint32_t n;
} index_file;

/* A shard is a plain file name beside the index: nothing that leads elsewhere. */
static bool plain_file_name(const char *name) {
  return name[0] && name[0] != '.' && !strpbrk(name, "/\\") && strlen(name) < 256;
}

static accel_status add_to_index(index_file *index, const accel__json *item) {
  const char *path = index->json.name, *tensor = item->string, *file = item->valuestring;
  int64_t number;
  if (!cJSON_IsString(item))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'weight_map.%.160s' is no file name", path,
                       tensor);
  if (!plain_file_name(file))
    return accel__fail(
        ACCEL_ERROR_FORMAT,
        "%s: field 'weight_map.%.160s': '%.160s' is no plain file name beside the index", path,
        tensor, file);
  const foreign_format *format = foreign_of(file);
  if (format) return refuse(path, file, format);
  if (!accel__map_get(&index->files, file, strlen(file), &number)) {
    if (index->n == MAX_SHARDS)
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: more than %d shards", path, MAX_SHARDS);
    number = index->n;
    index->name[index->n++] = file;
    ACCEL_TRY(accel__map_set(&index->files, file, strlen(file), number));
  }
  int64_t before;
  if (accel__map_get(&index->shard_of, tensor, strlen(tensor), &before))
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: field 'weight_map': tensor '%.160s' is listed twice", path, tensor);
  return accel__map_set(&index->shard_of, tensor, strlen(tensor), number);
}

static accel_status read_index(accel__checkpoint *c, const char *path, index_file *index) {
  const accel__json *map = NULL;
  ACCEL_TRY(accel__json_read(path, MAX_INDEX_BYTES, &index->json));
  ACCEL_TRY(accel__json_require(&index->json, index->json.root, "weight_map"));
  ACCEL_TRY(accel__json_object(&index->json, index->json.root, "weight_map", &map));
  index->name = accel__arena_array(&c->arena, MAX_SHARDS, sizeof *index->name);
  if (!index->name) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(item, map) ACCEL_TRY(add_to_index(index, item));
  return index->n ? ACCEL_OK
                  : accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'weight_map' is empty", path);
}

static accel_status open_listed(accel__checkpoint *c, const char *directory,
                                const index_file *index) {
  ACCEL_TRY(make_shards(c, index->n));
  for (uint32_t f = 0; f < index->n; f++) {
    const char *path = accel__path_join(&c->arena, directory, index->name[f]);
    if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
    accel_status status = open_shard(c, path, &c->shard[f]);
    if (status == ACCEL_ERROR_NOT_FOUND) {
      accel__fail(status, "%s: field 'weight_map': shard '%s' is not in %s", index->json.name,
                  index->name[f], directory);
      return accel__remedy(status, "fetch the missing file: the model is incomplete");
    }
    if (status != ACCEL_OK) return status;
  }
  return make_tensors(c);
}

/* The index decides which shard a listed tensor comes from; tensors it does not list are taken as
 * they are. */
static accel_status take_listed(accel__checkpoint *c, const index_file *index) {
  for (uint32_t f = 0; f < c->n_shard; f++) {
    for (uint32_t i = 0; i < c->shard[f].header.n; i++) {
      const accel__tensor_info *t = &c->shard[f].header.tensor[i];
      int64_t listed;
      if (accel__map_get(&index->shard_of, t->name, strlen(t->name), &listed) && listed != f)
        continue;
      ACCEL_TRY(add_tensor(c, t, f));
    }
  }
  ACCEL_JSON_EACH(item, accel__json_get(index->json.root, "weight_map")) {
    int64_t found;
    if (accel__map_get(&c->names, item->string, strlen(item->string), &found)) continue;
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: field 'weight_map': tensor '%.160s' is not in '%.160s'",
                       index->json.name, item->string, item->valuestring);
  }
  return ACCEL_OK;
}

static char *directory_of(accel__arena *arena, const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? accel__arena_copy(arena, path, slash == path ? 1 : (size_t)(slash - path))
               : accel__arena_string(arena, ".");
}

static accel_status open_sharded(accel__checkpoint *c, const char *path) {
  index_file index = {0};
  const char *directory = directory_of(&c->arena, path);
  accel_status status = directory ? read_index(c, path, &index) : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = open_listed(c, directory, &index);
  if (status == ACCEL_OK) status = take_listed(c, &index);
  accel__map_free(&index.shard_of);
  accel__map_free(&index.files);
  accel__json_free(&index.json);
  return status;
}

/* ---- directories ---- */

/* The only name with this suffix; several: an error that lists them. */
static accel_status only_one(const char *directory, char **names, size_t n, const char *suffix,
                             const char **out) {
  const char *other = NULL;
  *out = NULL;
  for (size_t i = 0; i < n; i++) {
    if (!accel__ends_with(names[i], suffix)) continue;
    if (*out)
      other = names[i];
    else
      *out = names[i];
  }
  if (!other) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_ARGUMENT,
              "%s: which of its checkpoints is meant? It has %s, %s and no model%s", directory,
              *out, other, suffix);
  return accel__remedy(ACCEL_ERROR_ARGUMENT, "name one of the files, or keep one in the directory");
}

/* diffusers' weights under their plain name; those of half precision where there are no others.
 * Moving averages that a training kept (non_ema) are never meant. */
static const char *const diffusers_names[] = {"diffusion_pytorch_model.safetensors",
                                              "diffusion_pytorch_model.fp16.safetensors"};

static bool has_name(char **names, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(names[i], name) == 0) return true;
  }
  return false;
}

static accel_status nothing_to_read(const char *directory, char **names, size_t n) {
  for (size_t f = 0; f < sizeof foreign / sizeof *foreign; f++) {
    for (size_t i = 0; i < n; i++) {
      if (accel__ends_with(names[i], foreign[f].suffix) &&
          strcmp(names[i], "training_args.bin") != 0)
        return refuse(directory, names[i], &foreign[f]);
    }
  }
  accel__fail(ACCEL_ERROR_NOT_FOUND,
              "%s: no model.safetensors, model.safetensors.index.json or other *.safetensors there",
              directory);
  return accel__remedy(ACCEL_ERROR_NOT_FOUND, "fetch the weights: the model is incomplete");
}

/* Names of the files of a variant, as transformers and diffusers write them. */
static const struct {
  const char *before, *after;
  bool is_index;
} variant_names[] = {{"model.", ".safetensors", false},
                     {"model.safetensors.index.", ".json", true},
                     {"diffusion_pytorch_model.", ".safetensors", false},
                     {"diffusion_pytorch_model.safetensors.index.", ".json", true}};

/* Opens a directory's files of the variant, if it has such: *found. */
static accel_status open_of_variant(accel__checkpoint *c, const char *directory,
                                    const char *variant, char **names, size_t n, bool *found) {
  for (size_t i = 0; i < sizeof variant_names / sizeof *variant_names && !*found; i++) {
    const char *name = accel__arena_printf(&c->arena, "%s%s%s", variant_names[i].before, variant,
                                           variant_names[i].after);
    if (!name) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (!has_name(names, n, name)) continue;
    const char *path = accel__path_join(&c->arena, directory, name);
    if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
    *found = true;
    return variant_names[i].is_index ? open_sharded(c, path) : open_single(c, path);
  }
  return ACCEL_OK;
}

static accel_status open_directory(accel__checkpoint *c, const char *directory, const char *variant,
                                   bool *found) {
  char **names;
  size_t n;
  const char *single = "model.safetensors", *index = "model.safetensors.index.json";
  ACCEL_TRY(accel__list_directory(directory, &c->arena, &names, &n));
  if (variant) ACCEL_TRY(open_of_variant(c, directory, variant, names, n, found));
  if (*found) return ACCEL_OK;
  if (!has_name(names, n, single)) {
    single = NULL;
    for (size_t i = 0; i < sizeof diffusers_names / sizeof *diffusers_names && !single; i++)
      if (has_name(names, n, diffusers_names[i])) single = diffusers_names[i];
    if (!single && !has_name(names, n, index))
      ACCEL_TRY(only_one(directory, names, n, ".safetensors.index.json", &index));
    if (!single && !index) ACCEL_TRY(only_one(directory, names, n, ".safetensors", &single));
  }
  if (!single && !index) return nothing_to_read(directory, names, n);
  const char *path = accel__path_join(&c->arena, directory, single ? single : index);
  if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
  return single ? open_single(c, path) : open_sharded(c, path);
}

static accel_status open_any(accel__checkpoint *c, const char *path, const char *variant,
                             bool *found) {
  c->path = accel__arena_string(&c->arena, path);
  if (!c->path) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (accel__is_directory(path)) return open_directory(c, path, variant, found);
  if (accel__ends_with(path, ".index.json")) return open_sharded(c, path);
  const foreign_format *format = foreign_of(path);
  return format ? refuse("", path, format) : open_single(c, path);
}

/* ---- interface ---- */

accel_status accel__checkpoint_open_variant(const char *path, const char *variant, bool *found,
                                            accel__checkpoint **out) {
  *out = NULL;
  *found = false;
  accel__checkpoint *c = calloc(1, sizeof *c);
  if (!c) return accel__no_memory(sizeof *c);
  accel_status status = open_any(c, path, variant, found);
  if (status != ACCEL_OK) accel__checkpoint_close(&c);
  *out = c;
  return status;
}

accel_status accel__checkpoint_open_headers(const char *path, accel__checkpoint **out) {
  bool found;
  return accel__checkpoint_open_variant(path, NULL, &found, out);
}

accel_status accel__no_variant(const char *path, const char *variant) {
  return accel__remedy(
      accel__fail(ACCEL_ERROR_NOT_FOUND, "%s: no weights of the variant '%s' are there", path,
                  variant),
      "fetch model.VARIANT.safetensors or diffusion_pytorch_model.VARIANT.safetensors, or name no "
      "variant");
}

accel_status accel__checkpoint_empty(const char *path, accel__checkpoint **out) {
  accel__checkpoint *c = *out = calloc(1, sizeof *c);
  if (!c) return accel__no_memory(sizeof *c);
  c->path = accel__arena_string(&c->arena, path);
  if (c->path) return ACCEL_OK;
  accel__checkpoint_close(out);
  return ACCEL_ERROR_OUT_OF_MEMORY;
}

static void close_file(shard *s) {
  accel__file_pages_close(&s->pages);
  if (s->fd >= 0) close(s->fd);
  s->fd = -1;
}

/* *fd is one of the file in the state of its header. */
static accel_status open_same(const shard *s, int *fd) {
  accel__file_state now;
  ACCEL_TRY(accel__file_open(s->path, fd, &now));
  const accel_status status = accel__file_same(s->path, &now, &s->state);
  if (status == ACCEL_OK) return ACCEL_OK;
  close(*fd);
  *fd = -1;
  return status;
}

accel_status accel__checkpoint_read(accel__checkpoint *c) {
  for (uint32_t f = 0; c && f < c->n_shard; f++) {
    accel__file_pages_close(&c->shard[f].pages);
    if (c->shard[f].fd < 0) ACCEL_TRY(open_same(&c->shard[f], &c->shard[f].fd));
  }
  return ACCEL_OK;
}

/* Address space that is taken by the files would be missing for what is made of them. */
static bool room_to_map(const accel__checkpoint *c) {
  const uint64_t left = accel__address_space_left();
  uint64_t bytes = 0;
  if (accel__fault("address_space")) return false;
  for (uint32_t f = 0; f < c->n_shard; f++) bytes += c->shard[f].state.bytes;
  return left == UINT64_MAX || bytes <= left / 2;
}

/* Maps a file that is in the state of its header, where it can be kept so. */
static accel_status map_shard(shard *s) {
  accel__file_state now;
  if (s->pages.data || !accel__file_lease(s->fd)) return ACCEL_OK;
  accel_status status = accel__file_look(s->fd, s->path, &now);
  if (status == ACCEL_OK) status = accel__file_same(s->path, &now, &s->state);
  if (status != ACCEL_OK || !accel__file_pages_map(s->fd, (size_t)s->state.bytes, &s->pages))
    accel__file_lease_end(s->fd);
  return status;
}

accel_status accel__checkpoint_map(accel__checkpoint *c) {
  if (!c) return ACCEL_OK;
  ACCEL_TRY(accel__checkpoint_read(c));
  if (!room_to_map(c)) return ACCEL_OK;
  for (uint32_t f = 0; f < c->n_shard; f++) ACCEL_TRY(map_shard(&c->shard[f]));
  return ACCEL_OK;
}

accel_status accel__checkpoint_bypass(accel__checkpoint *c) {
  c->bypass = true;
  return accel__checkpoint_read(c);
}

accel_status accel__checkpoint_open(const char *path, accel__checkpoint **out) {
  ACCEL_TRY(accel__checkpoint_open_headers(path, out));
  accel_status status = accel__checkpoint_read(*out);
  if (status != ACCEL_OK) accel__checkpoint_close(out);
  return status;
}

/* Grows c's shards and tensors by another's, whose names get the prefix. */
static accel_status append(accel__checkpoint *c, const accel__checkpoint *other,
                           const char *prefix) {
  uint32_t before = c->n_shard;
  shard *shards = accel__arena_array(&c->arena, (size_t)before + other->n_shard, sizeof *shards);
  accel__tensor_info *tensors =
      accel__arena_array(&c->arena, (size_t)c->n + other->n, sizeof *tensors);
  if (!shards || !tensors) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (before) memcpy(shards, c->shard, before * sizeof *shards);
  memcpy(shards + before, other->shard, other->n_shard * sizeof *shards);
  if (c->n) memcpy(tensors, c->tensor, c->n * sizeof *tensors);
  c->shard = shards;
  c->tensor = tensors;
  c->n_shard = before + other->n_shard;
  for (uint32_t i = 0; i < other->n; i++) {
    accel__tensor_info t = other->tensor[i];
    t.name = accel__arena_printf(&c->arena, "%s%s", prefix, t.name);
    if (!t.name) return ACCEL_ERROR_OUT_OF_MEMORY;
    ACCEL_TRY(add_tensor(c, &t, before + t.file));
  }
  c->hash = accel__hash(&other->hash, sizeof other->hash, c->hash);
  return ACCEL_OK;
}

accel_status accel__checkpoint_join(accel__checkpoint *c, accel__checkpoint **other,
                                    const char *prefix) {
  accel__checkpoint *o = *other;
  *other = NULL;
  uint32_t before = c->n_shard;
  accel_status status = append(c, o, prefix);
  if (c->n_shard != before) o->n_shard = 0; /* its files are ours now */
  while (o->joined) {                       /* o had joined others: ours, too */
    accel__checkpoint *inner = o->joined;
    o->joined = inner->joined;
    inner->joined = c->joined;
    c->joined = inner;
  }
  o->joined = c->joined;
  c->joined = o;
  return status;
}

void accel__checkpoint_close(accel__checkpoint **c) {
  if (!*c) return;
  accel__checkpoint_close(&(*c)->joined);
  for (uint32_t f = 0; (*c)->shard && f < (*c)->n_shard; f++) close_file(&(*c)->shard[f]);
  accel__map_free(&(*c)->names);
  accel__arena_free(&(*c)->arena);
  free(*c);
  *c = NULL;
}

uint32_t accel__checkpoint_count(const accel__checkpoint *c) { return c->n; }

const accel__tensor_info *accel__checkpoint_at(const accel__checkpoint *c, uint32_t i) {
  return i < c->n ? &c->tensor[i] : NULL;
}

const accel__tensor_info *accel__checkpoint_find(const accel__checkpoint *c, const char *name) {
  int64_t i;
  return accel__map_get(&c->names, name, strlen(name), &i) ? &c->tensor[i] : NULL;
}

const char *accel__checkpoint_metadata(const accel__checkpoint *c, const char *key) {
  for (uint32_t f = 0; f < c->n_shard; f++) {
    const accel__safetensors *header = &c->shard[f].header;
    for (uint32_t i = 0; i < header->n_metadata; i++) {
      if (strcmp(header->metadata[2 * i], key) == 0) return header->metadata[2 * i + 1];
    }
  }
  return NULL;
}

const char *accel__checkpoint_file(const accel__checkpoint *c, uint32_t file) {
  return file < c->n_shard ? c->shard[file].path : NULL;
}

const accel__file_state *accel__checkpoint_file_state(const accel__checkpoint *c, uint32_t file) {
  return file < c->n_shard ? &c->shard[file].state : NULL;
}

uint64_t accel__checkpoint_hash(const accel__checkpoint *c) { return c->hash; }

void accel__checkpoint_forget(const accel__checkpoint *c, const accel__tensor_info *t) {
  enum { FOLIO = 2 << 20 };
  const shard *s = &c->shard[t->file];
  accel__file_pages_forget(&s->pages, (size_t)t->offset, (size_t)t->bytes);
  if (!c->bypass || s->fd < 0) return;
  /* A folio goes when all of it is named: with what lies before, which was read before.  One that
   * reaches beyond the end goes with what comes next. */
  const uint64_t begin = t->offset / FOLIO * FOLIO, before = begin < FOLIO ? begin : FOLIO;
  (void)posix_fadvise(s->fd, (off_t)(begin - before),
                      (off_t)(t->offset + t->bytes - begin + before), POSIX_FADV_DONTNEED);
}

void accel__checkpoint_forget_all(const accel__checkpoint *c) {
  for (uint32_t f = 0; c->bypass && f < c->n_shard; f++)
    if (c->shard[f].fd >= 0) (void)posix_fadvise(c->shard[f].fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* ---- bytes of tensors ---- */

static accel_status read_bytes(const shard *s, uint64_t offset, uint64_t n, void *out) {
  int fd = s->fd;
  accel__file_state now;
  if (fd < 0) ACCEL_TRY(open_same(s, &fd));
  const accel_status status = accel__file_read_at(fd, s->path, offset, out, (size_t)n);
  accel__failure failure;
  if (status != ACCEL_OK) accel__failure_keep(&failure, status);
  /* a writer changes the times before the bytes, so looking afterwards sees what happened before
   * and while they were read */
  accel_status same = accel__file_look(fd, s->path, &now);
  if (same == ACCEL_OK) same = accel__file_same(s->path, &now, &s->state);
  if (s->fd < 0) close(fd);
  return same != ACCEL_OK || status == ACCEL_OK ? same : accel__failure_raise(&failure);
}

accel_status accel__tensor_read(const accel__checkpoint *c, const accel__tensor_info *t,
                                uint64_t first, uint64_t n, void *out) {
  const shard *s = &c->shard[t->file];
  if (first > t->bytes || n > t->bytes - first)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "tensor '%s': bytes %" PRIu64 " + %" PRIu64 " of %" PRIu64, t->name, first,
                       n, t->bytes);
  if (n) ACCEL_TRY_AS(read_bytes(s, t->offset + first, n, out), "tensor '%.160s'", t->name);
  return ACCEL_OK;
}

accel_status accel__tensor_lend(const accel__checkpoint *c, const accel__tensor_info *t,
                                uint64_t first, uint64_t n, accel__lent *out) {
  *out = (accel__lent){.own = accel__fault("allocation") ? NULL : malloc((size_t)n + 1)};
  if (!out->own) return accel__no_memory((size_t)n);
  out->data = out->own;
  const accel_status status = accel__tensor_read(c, t, first, n, out->own);
  if (status != ACCEL_OK) accel__tensor_return(out);
  return status;
}

const void *accel__tensor_pages(const accel__checkpoint *c, const accel__tensor_info *t,
                                uint64_t first, uint64_t n) {
  const shard *s = &c->shard[t->file];
  const uint64_t element = accel__dtype_bits(t->dtype) / 8;
  if (!s->pages.data || first > t->bytes || n > t->bytes - first) return NULL;
  const uint8_t *at = s->pages.data + t->offset + first;
  const bool aligned = (uintptr_t)at % (element ? element : 1) == 0;
  return aligned && accel__file_leased(s->fd) ? at : NULL;
}

accel_status accel__tensor_borrow(const accel__checkpoint *c, const accel__tensor_info *t,
                                  uint64_t first, uint64_t n, accel__lent *out) {
  *out = (accel__lent){.data = accel__tensor_pages(c, t, first, n)};
  return out->data ? ACCEL_OK : accel__tensor_lend(c, t, first, n, out);
}

void accel__tensor_return(accel__lent *lent) {
  free(lent->own);
  *lent = (accel__lent){0};
}
