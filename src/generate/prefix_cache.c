/* prefix_cache.c - the list of kept prompts: the longest common beginning, the one used longest
 * ago. */
#include "generate/prefix_cache.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = ACCEL__PIECE_TOKENS, MOST_PROMPTS = 256 };

/* Tokens of a prompt that are read whatever is kept: not fewer than many rows. */
static uint32_t least_read(const accel__stepper *model) {
  return model->few_rows ? model->few_rows + 1 : PIECE;
}

/* Of the first `n` tokens, those in front of the first picture that the two do not have alike. */
static uint32_t common_images(const accel__prefix *p, const accel__prompt_images *images,
                              uint32_t n) {
  const uint32_t there = images ? images->n : 0;
  for (uint32_t i = 0;; i++) {
    const uint32_t kept = i < p->n_images ? p->image[i].first : UINT32_MAX,
                   asked = i < there ? images->image[i].first : UINT32_MAX,
                   first = kept < asked ? kept : asked;
    if (first >= n) return n;
    if (kept != asked ||
        memcmp(p->image[i].digest, images->image[i].digest, sizeof p->image[i].digest))
      return first;
  }
}

/* The longest beginning of at most `n` tokens that no block of either goes beyond. */
static uint32_t common_cut(const accel__prefix *p, const accel__prompt_images *images, uint32_t n) {
  const accel__prompt_images kept = {.block = p->block, .n_blocks = p->n_blocks};
  for (uint32_t before = n + 1; n < before;) {
    before = n;
    n = accel__prompt_images_cut(images, accel__prompt_images_cut(&kept, n));
  }
  return n;
}

/* Tokens that both begin with, at most `most`. */
static uint32_t common(const accel__prefix *p, const accel__prefix_key *prompt, uint32_t most) {
  uint32_t n = 0;
  if (most > p->n) most = p->n;
  while (n < most && p->ids[n] == prompt->ids.id[n]) n++;
  return common_cut(p, prompt->images, common_images(p, prompt->images, n));
}

static void free_prefix(accel__prefix *p) {
  free(p->ids);
  free(p->image);
  free(p->block);
}

static void forget(accel__prefix_cache *c, uint32_t at) {
  accel__prefix *p = &c->kept[at];
  c->bytes -= p->bytes;
  c->model->drop(c->model->self, p->sequence);
  free_prefix(p);
  *p = c->kept[--c->n];
}

static uint32_t oldest(const accel__prefix_cache *c) {
  uint32_t at = 0;
  for (uint32_t i = 1; i < c->n; i++)
    if (c->kept[i].used < c->kept[at].used) at = i;
  return at;
}

bool accel__prefix_cache_shrink(accel__prefix_cache *c, uint64_t bytes) {
  const uint32_t before = c->n;
  while (c->n && c->bytes > bytes) forget(c, oldest(c));
  return c->n < before;
}

void accel__prefix_cache_free(accel__prefix_cache *c) {
  while (c->n) forget(c, c->n - 1);
  free(c->kept);
  c->kept = NULL;
  c->capacity = 0;
}

accel_status accel__prefix_cache_share(accel__prefix_cache *c, const accel__prefix_key *prompt,
                                       int32_t to, uint32_t *past_len, uint32_t *total_len) {
  const uint32_t least = least_read(c->model),
                 most = prompt->ids.n > least ? prompt->ids.n - least : 0;
  accel__prefix *best = NULL;
  uint32_t n = PIECE - 1; /* fewer are not worth it */
  *past_len = 0;
  for (uint32_t i = 0; i < c->n; i++) {
    const uint32_t here = common(&c->kept[i], prompt, most);
    if (here > n) best = &c->kept[i], n = here;
  }
  if (!best) return ACCEL_OK;
  best->used = ++c->uses;
  if (c->model->copy(c->model->self, best->sequence, to) != ACCEL_OK) {
    accel__clear_error(); /* then it is read */
    return ACCEL_OK;
  }
  if (n < best->n) ACCEL_TRY(c->model->truncate(c->model->self, to, n));
  *past_len = n;
  *total_len = best->total_len;
  return ACCEL_OK;
}

static accel_status copy_new(const accel__stepper *model, int32_t from, int32_t *sequence) {
  *sequence = model->number(model->self);
  if (*sequence < 0) return accel__no_memory(0);
  const accel_status status = model->copy(model->self, from, *sequence);
  if (status != ACCEL_OK) model->drop(model->self, *sequence);
  return status;
}

static bool reserve(accel__prefix_cache *c) {
  if (c->n < c->capacity) return true;
  const uint32_t capacity = c->capacity * 2 + 8;
  accel__prefix *kept = realloc(c->kept, capacity * sizeof *kept);
  if (!kept) return false;
  c->kept = kept;
  c->capacity = capacity;
  return true;
}

/* Whether one that is kept begins with all of these; it counts as used. */
static bool has(accel__prefix_cache *c, const accel__prefix_key *prompt) {
  for (uint32_t i = 0; i < c->n; i++)
    if (common(&c->kept[i], prompt, prompt->ids.n) == prompt->ids.n)
      return c->kept[i].used = ++c->uses, true;
  return false;
}

static uint64_t bytes_of(const accel__stepper *model, int32_t sequence, uint32_t n) {
  const accel__run_limits *l = &model->limits;
  const uint64_t bytes = model->bytes ? model->bytes(model->self, sequence) : 0,
                 counted = l->state_bytes ? accel__run_limits_need(l, n, 1) : 0;
  return bytes > counted ? bytes : counted;
}

/* What `p` is compared by.  false: no memory. */
static bool copy_key(const accel__prefix_key *from, accel__prefix *p) {
  const accel__prompt_images none = {0}, *images = from->images ? from->images : &none;
  p->ids = malloc(from->ids.n * sizeof *p->ids);
  p->image = calloc(images->n + 1u, sizeof *p->image);
  p->block = calloc(images->n_blocks + 1u, sizeof *p->block);
  if (!p->ids || !p->image || !p->block) return false;
  p->n = from->ids.n;
  p->n_images = images->n;
  p->n_blocks = images->n_blocks;
  memcpy(p->ids, from->ids.id, p->n * sizeof *p->ids);
  if (p->n_blocks) memcpy(p->block, images->block, p->n_blocks * sizeof *p->block);
  for (uint32_t i = 0; i < p->n_images; i++) {
    p->image[i].first = images->image[i].first;
    memcpy(p->image[i].digest, images->image[i].digest, sizeof p->image[i].digest);
  }
  return true;
}

void accel__prefix_cache_keep(accel__prefix_cache *c, const accel__prefix_key *prompt,
                              int32_t sequence, uint32_t total_len, uint64_t available) {
  const uint64_t most = c->most < available ? c->most : available;
  if (prompt->ids.n < 2 * PIECE || has(c, prompt) || !reserve(c)) return;
  accel__prefix p = {.total_len = total_len, .used = ++c->uses};
  if (!copy_key(prompt, &p) || copy_new(c->model, sequence, &p.sequence) != ACCEL_OK) {
    accel__clear_error(); /* then it is not kept */
    free_prefix(&p);
    return;
  }
  p.bytes = bytes_of(c->model, p.sequence, p.n);
  for (uint32_t i = c->n; i-- > 0;) /* what is part of it */
    if (common(&c->kept[i], prompt, p.n) == c->kept[i].n) forget(c, i);
  c->kept[c->n++] = p;
  c->bytes += p.bytes;
  if (c->n > MOST_PROMPTS) forget(c, oldest(c));
  accel__prefix_cache_shrink(c, most);
}
