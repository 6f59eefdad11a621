/* cpu_file_blocks.c - see cpu_file_blocks.h. */
#include "cpu_file_blocks.h"

#include <stdatomic.h>

#include "cpu_weights.h"

enum { FILE_BLOCK = 512 << 10 }; /* bytes of panels at most, unless one is larger */

/* A range in blocks, each of which a task reads and packs while it is in the caches. */
typedef struct file_blocks {
  const cpu_load *load;
  const cpu_linear *l;
  const cpu_range *range;
  int64_t panels;    /* of a block */
  atomic_int failed; /* a block has, and told it */
  int32_t rc;        /* of that block, with error */
  accel_plugin_error *error;
} file_blocks;

static int64_t file_block_end(const file_blocks *b, int64_t index) {
  return (index + 1) * b->panels < b->range->n ? (index + 1) * b->panels : b->range->n;
}

static void file_block_task(void *arg, uint32_t index, uint32_t worker) {
  file_blocks *b = arg;
  (void)worker;
  if (atomic_load(&b->failed)) return;
  accel_plugin_host alone = *b->load->host;
  alone.parallel = NULL; /* the blocks are */
  cpu_load load = *b->load;
  load.host = &alone;
  const int64_t begin = index * b->panels;
  const cpu_range range = {.unit = b->range->unit,
                           .first = b->range->first + begin,
                           .n = file_block_end(b, index) - begin,
                           .to = b->range->to + (uint64_t)begin * b->l->panel_bytes};
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  const int32_t rc = cpu_pack_rows(&load, b->l, 0, &range, &error);
  if (!rc || atomic_exchange(&b->failed, 1)) return;
  b->rc = kit_fail(b->error, rc, error.node, "%s", error.message);
}

int32_t cpu_pack_from_file(const cpu_load *load, const cpu_linear *l, const cpu_range *range,
                           accel_plugin_error *error) {
  const accel_plugin_host *host = load->host;
  const uint32_t all = host->parallel && host->workers ? host->workers(host->self) : 1,
                 workers = all ? all : 1;
  const int64_t most = FILE_BLOCK / (int64_t)l->panel_bytes, share = range->n / (4 * workers),
                panels = share < most ? share : most;
  file_blocks b = {
      .load = load, .l = l, .range = range, .panels = panels > 1 ? panels : 1, .error = error};
  const uint32_t tasks = (uint32_t)((range->n + b.panels - 1) / b.panels);
  if (workers > 1 && tasks > 1)
    host->parallel(host->self, tasks, file_block_task, &b);
  else
    for (uint32_t i = 0; i < tasks; i++) file_block_task(&b, i, 0);
  return b.rc;
}

bool cpu_lies_in_file(const cpu_load *load, const cpu_linear *l) {
  return load->in_file && !l->trans && load->in_file[l->w] &&
         (l->gate < 0 || load->in_file[l->gate]);
}
