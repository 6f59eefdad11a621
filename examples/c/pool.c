/* pool.c - several models under one memory budget: each is loaded when it is asked for, and the one
 * used longest ago makes room.
 *
 *   pool MIB MODEL...                          MODEL: a directory or an id of a model that embeds
 */
#include <accel/accel.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const text[] = {"A sentence that every model embeds."};

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

/* One request through the model's queue.  The reference keeps the model loaded meanwhile. */
static accel_status embed(accel_pool *pool, const char *model) {
  accel_pool_ref *ref = NULL;
  accel_ticket *ticket = NULL;
  accel_embeddings *found = NULL;
  accel_request r = accel_request_default(ACCEL_REQUEST_EMBED);
  r.texts = text;
  r.n = 1;
  accel_status status = accel_pool_acquire(pool, model, 60000, &ref);
  if (status == ACCEL_OK) status = accel_submit_request(accel_pool_ref_queue(ref), &r, &ticket);
  if (status == ACCEL_OK) status = accel_wait_embeddings(&ticket, -1, &found);
  if (status == ACCEL_OK)
    printf("%s: %u numbers on %s\n", model, found->dim,
           accel_placement(accel_pool_ref_endpoint(ref))->device);
  accel_embeddings_free(&found);
  accel_pool_release(&ref);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s MIB MODEL...\n", argv[0]);
    return 2;
  }
  accel *ctx = NULL;
  accel_pool *pool = NULL;
  accel_pool_params how = accel_pool_params_default();
  how.memory_limit = strtoull(argv[1], NULL, 10) << 20;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_pool_open(ctx, &how, &pool);
  for (int i = 2; i < argc && status == ACCEL_OK; i++)
    status = accel_pool_add(pool, argv[i], argv[i], NULL, 0);
  for (int round = 0; round < 2; round++)
    for (int i = 2; i < argc && status == ACCEL_OK; i++) status = embed(pool, argv[i]);

  accel_pool_stats stats = {.size = sizeof stats};
  if (status == ACCEL_OK) status = accel_pool_stats_of(pool, NULL, &stats);
  if (status == ACCEL_OK)
    printf("%u of %u loaded, %.1f MiB; %llu loads in %.3f s, %llu hits, %llu evictions\n",
           stats.loaded, stats.models, (double)stats.bytes / (1 << 20),
           (unsigned long long)stats.loads, stats.load_seconds, (unsigned long long)stats.hits,
           (unsigned long long)stats.evictions);
  const int code = status == ACCEL_OK ? 0 : report(status);
  accel_pool_close(&pool);
  accel_destroy(&ctx);
  return code;
}
