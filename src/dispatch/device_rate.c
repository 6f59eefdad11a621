/* device_rate.c - a program of one linear layer, whose weights are larger than caches; its rows
 * come from memory where the layer is streamed. */
#include "dispatch/device_rate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/text.h"
#include "dispatch/rate_run.h"
#include "formats/weight_matrix.h"
#include "hardware/selftest_host.h"

enum {
  K = 2048,
  WEIGHT_BYTES =
      128 << 20, /* of the layer in memory: little of it is left in a cache from run to run */
  ROWS_BYTES = 64 << 20,   /* of the block that streamed rows come from */
  STAGING_SHARE = 4,       /* of a budget a plugin takes no more than so many parts for staging */
  MOST_STAGING = 64 << 20, /* more (of experts) makes segments no larger, and residents so many that
                              what is streamed is lost beside them */
  STREAM_TIMES = 3, /* times WEIGHT_BYTES are read in a run of the streamed layer, at least */
  MAX_SLOTS = 64,
  SEGMENT_STEP = 2 << 20, /* from a segment of the cache to the next */
  ROWS = 16,              /* of the run with several */
  MOST_TRIES = 4          /* where other work on the machine hides what is measured */
};
static const uint64_t least_ns = 30000000;  /* that runs of one kind are timed */
static const uint32_t pattern = 0x3c003c00; /* small numbers in every format */

/* ---- the program: y = x w, and softmax of that, as the format of a layer whose result is the
 * model's own is another ---- */

enum { DIM_T, DIM_K, DIM_N, DIMS };
enum { X, W, Y, P, TENSORS };
static const accel_plugin_symbol symbols[] = {{.name = "T", .min = 1, .max = ROWS, .typical = 1}};
static const accel_plugin_attr softmax_attrs[] = {
    {.key = ACCEL_PLUGIN_ATTR_AXIS, .type = ACCEL_PLUGIN_ATTR_I, .i = -1}};
static const int32_t linear_in[] = {X, W}, softmax_in[] = {Y}, y_out[] = {Y}, p_out[] = {P},
                     entry_nodes[] = {0, 1}, entry_in[] = {X};
static const accel_plugin_node nodes[] = {{.op = ACCEL_PLUGIN_OP_LINEAR,
                                           .version = 1,
                                           .n_in = 2,
                                           .n_out = 1,
                                           .in = linear_in,
                                           .out = y_out,
                                           .state = -1},
                                          {.op = ACCEL_PLUGIN_OP_SOFTMAX,
                                           .version = 1,
                                           .n_in = 1,
                                           .n_out = 1,
                                           .in = softmax_in,
                                           .out = p_out,
                                           .attr = softmax_attrs,
                                           .n_attr = 1,
                                           .state = -1}};
static const accel_plugin_entry entries[] = {{.name = "rate",
                                              .node = entry_nodes,
                                              .n_node = 2,
                                              .in = entry_in,
                                              .out = p_out,
                                              .n_in = 1,
                                              .n_out = 1}};

typedef struct rate_program {
  accel_plugin_program program;
  accel_plugin_dim dim[DIMS];
  accel_plugin_tensor tensor[TENSORS];
  accel_plugin_weight weight;
} rate_program;

/* A layer of n columns.  *out must stay where it is. */
static void make_program(int64_t n, rate_program *out) {
  *out = (rate_program){
      .dim = {{.op = ACCEL_PLUGIN_DIM_SYMBOL}, {.c = K}, {.c = n}},
      .tensor = {{.name = "x", .kind = ACCEL_PLUGIN_TENSOR_INPUT, .dim = {DIM_T, DIM_K}},
                 {.name = "w", .kind = ACCEL_PLUGIN_TENSOR_WEIGHT, .dim = {DIM_N, DIM_K}},
                 {.name = "y", .kind = ACCEL_PLUGIN_TENSOR_VALUE, .dim = {DIM_T, DIM_N}},
                 {.name = "p", .kind = ACCEL_PLUGIN_TENSOR_VALUE, .dim = {DIM_T, DIM_N}}},
      .weight = {.name = "w", .rank = 2, .dim = {n, K}, .use = ACCEL_PLUGIN_USE_LINEAR}};
  out->dim[DIM_K].op = out->dim[DIM_N].op = ACCEL_PLUGIN_DIM_CONST;
  for (int i = 0; i < TENSORS; i++) {
    out->tensor[i].rank = 2;
    out->tensor[i].weight = i == W ? 0 : -1;
    out->tensor[i].space = -1;
  }
  out->program = (accel_plugin_program){ACCEL_PLUGIN_PROGRAM_SIZES,
                                        .hash = 0x72617465u ^ (uint64_t)n,
                                        .name = "rate",
                                        .n_symbol = 1,
                                        .n_dim = DIMS,
                                        .n_tensor = TENSORS,
                                        .n_node = 2,
                                        .n_entry = 1,
                                        .n_weight = 1,
                                        .n_stage = 1,
                                        .symbol = symbols,
                                        .dim = out->dim,
                                        .tensor = out->tensor,
                                        .node = nodes,
                                        .entry = entries,
                                        .weight = &out->weight};
}

/* ---- the host: weights are zero, rows come from one block of memory ---- */

typedef struct rate_host {
  accel__test_lent lent; /* first: the services of accel__test_host know no more */
  accel_plugin_weight_view view;
  const void *zeros;  /* [WEIGHT_BYTES] pages that take no memory */
  char *memory;       /* [ROWS_BYTES] */
  uint64_t row_bytes; /* 0: no rows, only segments of the cache */
  uint8_t row_dtype;
  const char *slot[MAX_SLOTS];
} rate_host;

static int32_t rows_open(void *self, uint32_t slots, uint64_t slot_bytes,
                         accel_plugin_error *error) {
  (void)self, (void)error;
  return slots <= MAX_SLOTS && slot_bytes <= ROWS_BYTES / 2 ? ACCEL_PLUGIN_OK
                                                            : ACCEL_PLUGIN_E_ARGUMENT;
}

/* Rows further on are those of the block's begin again. */
static int32_t rows_post(void *self, uint32_t slot, uint32_t index, int64_t first, int64_t rows,
                         accel_plugin_error *error) {
  rate_host *h = self;
  const uint64_t bytes = (uint64_t)rows * h->row_bytes, at = (uint64_t)first * h->row_bytes;
  (void)index, (void)error;
  if (slot >= MAX_SLOTS || bytes > ROWS_BYTES) return ACCEL_PLUGIN_E_ARGUMENT;
  h->slot[slot] = h->memory + at % (ROWS_BYTES - bytes + 1) / 64 * 64;
  return ACCEL_PLUGIN_OK;
}

static int32_t rows_wait(void *self, uint32_t slot, accel_plugin_rows *out,
                         accel_plugin_error *error) {
  const rate_host *h = self;
  (void)error;
  *out = (accel_plugin_rows){.dtype = h->row_dtype, .data = h->slot[slot]};
  return ACCEL_PLUGIN_OK;
}

static void rows_release(void *self, uint32_t slot) { (void)self, (void)slot; }

static int32_t rows_read(void *self, uint32_t index, int64_t first, int64_t rows, float *out,
                         accel_plugin_error *error) {
  (void)self, (void)index, (void)first, (void)error;
  memset(out, 0, (size_t)rows * K * sizeof *out);
  return ACCEL_PLUGIN_OK;
}

/* An entry of the cache whose segments are all there, to be streamed: parts of the block. */
static int32_t store_open(void *self, const char *key, const uint64_t *bytes, uint32_t n,
                          accel_plugin_store **out, accel_plugin_error *error) {
  (void)key, (void)bytes, (void)n, (void)error;
  *out = self;
  return ACCEL_PLUGIN_OK;
}

static int32_t store_get(void *self, accel_plugin_store *store, uint32_t index, void *out) {
  (void)self, (void)store, (void)index;
  return out ? ACCEL_PLUGIN_E_IO : ACCEL_PLUGIN_OK;
}

static int32_t store_put(void *self, accel_plugin_store *store, uint32_t index,
                         const accel_plugin_part *part, uint32_t n_part,
                         accel_plugin_error *error) {
  (void)self, (void)store, (void)index, (void)part, (void)n_part, (void)error;
  return ACCEL_PLUGIN_E_IO; /* a layer in memory is packed */
}

static void store_close(void *self, accel_plugin_store *store) { (void)self, (void)store; }

static int32_t store_stream(void *self, accel_plugin_store *store, accel_plugin_error *error) {
  (void)self, (void)store, (void)error;
  return ACCEL_PLUGIN_OK;
}

static int32_t store_post(void *self, uint32_t slot, uint32_t index, accel_plugin_error *error) {
  rate_host *h = self;
  (void)error;
  if (slot >= MAX_SLOTS) return ACCEL_PLUGIN_E_ARGUMENT;
  h->slot[slot] = h->memory + (uint64_t)index * SEGMENT_STEP % (ROWS_BYTES / 2);
  return ACCEL_PLUGIN_OK;
}

static accel_plugin_host make_host(rate_host *h, const accel_plugin_host *base) {
  h->lent = (accel__test_lent){.base = base, .weight = &h->view, .n_weight = 1};
  h->view = (accel_plugin_weight_view){
      .data = h->zeros, .scale = h->memory, .zero = h->memory, .outer = h->memory};
  accel_plugin_host host = accel__test_host(&h->lent);
  host.rows_open = rows_open;
  host.rows_post = rows_post;
  host.rows_wait = rows_wait;
  host.rows_release = rows_release;
  host.rows_read = rows_read;
  host.store_open = store_open;
  host.store_get = store_get;
  host.store_put = store_put;
  host.store_close = store_close;
  host.store_stream = store_stream;
  host.store_post = store_post;
  return host;
}

/* ---- runs ---- */

typedef struct measuring {
  accel__rate_run run;
  accel_plugin_host host;
  rate_program p;
  float *x, *y; /* [ROWS] rows */
} measuring;

/* Seconds of a run of so many rows; 0: it fails. */
static double time_run(const measuring *m, int64_t rows) {
  const int64_t n = m->p.weight.dim[0];
  const accel_plugin_view in = {.size = sizeof in,
                                .dtype = ACCEL_PLUGIN_F32,
                                .rank = 2,
                                .host = m->x,
                                .capacity = (uint64_t)rows * K * sizeof(float),
                                .dim = {rows, K}},
                          out = {.size = sizeof out,
                                 .dtype = ACCEL_PLUGIN_F32,
                                 .host = m->y,
                                 .capacity = (uint64_t)(rows * n) * sizeof(float)};
  return accel__rate_time(&m->run, 0, &in, &out, least_ns);
}

static bool open_layer(measuring *m, int64_t n) {
  m->x = calloc((size_t)ROWS * K, sizeof(float));
  m->y = malloc((size_t)(ROWS * n) * sizeof(float));
  return m->x && m->y && accel__rate_open(&m->run);
}

static void close_layer(measuring *m) {
  accel__rate_close(&m->run);
  free(m->x);
  free(m->y);
  m->x = m->y = NULL;
}

/* A layer of n columns at the precision; false: the device has none. */
static bool set_precision(measuring *m, const char *precision, int64_t n, accel__arena *arena) {
  make_program(n, &m->p);
  m->run.program = &m->p.program;
  m->run.host = &m->host;
  return accel__rate_prepare(&m->run, precision, arena);
}

/* Columns whose weights, as the format has them, are WEIGHT_BYTES. */
static int64_t columns(const measuring *m) {
  return WEIGHT_BYTES / (int64_t)accel_row_bytes(m->run.options.precision.format[0].store, K);
}

static bool ask_estimate(measuring *m, accel_plugin_estimate *e) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  *e = (accel_plugin_estimate){.size = sizeof *e};
  return m->run.device->plugin->estimate(m->run.device->index, &m->p.program, &m->run.options, e,
                                         &error) == ACCEL_PLUGIN_OK;
}

/* false: other work on the machine hid what is to be measured. */
static bool measure_resident(measuring *m, const char *precision, accel__device_rate *out) {
  accel__arena arena = {0};
  accel_plugin_estimate e;
  int64_t n = K;
  bool clear = true, ready = set_precision(m, precision, n, &arena);
  if (ready) ready = set_precision(m, precision, n = columns(m), &arena);
  if (ready && ask_estimate(m, &e) && open_layer(m, n)) {
    const double one = time_run(m, 1), several = time_run(m, ROWS);
    if (one > 0) out->resident = (double)e.weights / one;
    if (one > 0 && several > one) out->row_seconds = (several - one) / (ROWS - 1) / (double)(n * K);
    clear = one == 0 || several == 0 || several > one;
  }
  close_layer(m);
  accel__arena_free(&arena);
  return clear;
}

/* A layer of which most is streamed within the budget; false: there is none. */
static bool set_streamed(measuring *m, const char *precision, const rate_host *h, uint64_t budget,
                         accel__arena *arena, accel_plugin_estimate *e) {
  const uint64_t all = STREAM_TIMES * (uint64_t)ROWS_BYTES + budget;
  if (!set_precision(m, precision, K, arena)) return false;
  const uint64_t row =
      h->row_bytes ? h->row_bytes : accel_row_bytes(m->run.options.precision.format[0].store, K);
  if (!set_precision(m, precision, (int64_t)(all / row), arena)) return false;
  m->run.options.row_dtype = &h->row_dtype;
  m->run.options.stream_budget = budget;
  if (!ask_estimate(m, e) || !e->stream_least) return false;
  if (e->stream_least <= budget) return true;
  /* it counts memory for quantising all of the matrix, as its entry of the cache already is */
  m->run.options.stream_budget = e->stream_least;
  return ask_estimate(m, e);
}

/* false: as above. */
static bool measure_streamed(measuring *m, const char *precision, const rate_host *h,
                             uint64_t staging, accel__device_rate *out) {
  accel__arena arena = {0};
  bool clear = true;
  accel_plugin_estimate e;
  const uint64_t budget = STAGING_SHARE * (staging < MOST_STAGING ? staging : MOST_STAGING);
  if (out->resident > 0 && set_streamed(m, precision, h, budget, &arena, &e) &&
      open_layer(m, m->p.weight.dim[0])) {
    const double all = time_run(m, 1), seconds = all - (double)e.stream_resident / out->resident;
    if (seconds > 0) out->streamed = (double)e.stream_read / seconds;
    clear = all == 0 || seconds > 0;
  }
  close_layer(m);
  accel__arena_free(&arena);
  return clear;
}

/* Again where other work hid something, a few times. */
static void measure_rates(measuring *m, const char *precision, const rate_host *h, uint64_t staging,
                          accel__device_rate *out) {
  bool clear = false;
  for (int i = 0; i < MOST_TRIES && !clear; i++) {
    *out = (accel__device_rate){0};
    clear = measure_resident(m, precision, out);
    if (staging) clear = measure_streamed(m, precision, h, staging, out) && clear;
  }
}

void accel__device_rate_measure(const accel__device *device, const char *precision,
                                uint8_t row_dtype, uint64_t staging, accel__pool *pool,
                                const accel_plugin_host *host, accel__device_rate *out) {
  rate_host h = {
      .row_dtype = row_dtype,
      .row_bytes = row_dtype == ACCEL_PLUGIN_NO_DTYPE ? 0 : accel_row_bytes(row_dtype, K)};
  measuring *m = calloc(1, sizeof *m);
  *out = (accel__device_rate){0};
  void *zeros =
      mmap(NULL, WEIGHT_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  h.zeros = zeros;
  h.memory = aligned_alloc(4096, ROWS_BYTES);
  for (uint64_t i = 0; h.memory && i < ROWS_BYTES; i += sizeof pattern)
    memcpy(h.memory + i, &pattern, sizeof pattern);
  if (m && h.memory && zeros != MAP_FAILED) {
    accel__pool_turn turn;
    m->run.device = device;
    m->host = make_host(&h, host);
    accel__pool_enter(pool, UINT32_MAX, &turn);
    measure_rates(m, precision, &h, staging, out);
    accel__pool_leave(&turn);
    accel__clear_error();
  }
  if (zeros != MAP_FAILED) munmap(zeros, WEIGHT_BYTES);
  free(h.memory);
  free(m);
}
