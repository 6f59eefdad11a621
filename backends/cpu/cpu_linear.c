/* cpu_linear.c - linear over packed panels: rows of x are converted to what the kernel reads, then
 * the product is cut into tasks. */
#include "cpu_linear.h"

#include <stdlib.h>
#include <string.h>

#include "cpu_blas.h"
#include "cpu_stream.h"

typedef struct job {
  cpu_gemm g[KIT_MAX_FUSED + 1]; /* of all nodes of the launch: they read the same x */
  int64_t panels_before[KIT_MAX_FUSED + 2];
  uint32_t n_gemm;
  cpu_linear_fn *run;
  cpu_convert_fn *convert; /* NULL: x is read as it is */
  const float *from;       /* x before conversion */
  int64_t from_ld;
  cpu_act_format x; /* after it */
  uint32_t convert_tasks;
  int64_t rows, panels, n, k; /* panels and columns of all */
  uint32_t row_blocks, panel_groups;
} job;

static void product_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  uint32_t r = index / j->panel_groups, p = index % j->panel_groups;
  const int64_t row = cpu_share(j->rows, r, j->row_blocks),
                row_end = cpu_share(j->rows, r + 1, j->row_blocks);
  (void)worker;
  for (uint32_t m = 0; m < j->n_gemm; m++) {
    const int64_t before = j->panels_before[m], all = j->panels_before[m + 1] - before;
    int64_t first = cpu_share(j->panels, p, j->panel_groups) - before,
            end = cpu_share(j->panels, p + 1, j->panel_groups) - before;
    if (first < 0) first = 0;
    if (end > all) end = all;
    if (first < end) j->run(&j->g[m], row, row_end, first, end);
  }
}

/* What a task of `rows` rows and `panels` panels costs, in units of one row times one panel: every
 * register tile costs a little more than its rows, a panel takes at least the time to fetch it from
 * memory, and the first panel of a task is not prefetched. */
static double task_cost(int64_t rows, int64_t panels, int64_t tile_rows) {
  const double tile = 0.25, first_panel = 0.2, fetched = 2.0 * (double)tile_rows;
  const double cost = (double)rows + tile * (double)((rows + tile_rows - 1) / tile_rows);
  return (cost > fetched ? cost : fetched) * ((double)panels + first_panel);
}

/* When the last worker is done with a grid of tasks, in rows of a panel.  claim: what taking a task
 * costs; held_up: the part of a task that a worker may come too late. */
static double grid_cost(const job *j, int64_t blocks, int64_t groups, int64_t tile_rows,
                        uint32_t workers, double claim, double held_up) {
  const int64_t rounds = (blocks * groups + workers - 1) / workers;
  return (claim + task_cost((j->rows + blocks - 1) / blocks, (j->panels + groups - 1) / groups,
                            tile_rows)) *
         ((double)rounds + held_up);
}

/* A grid of tasks, row blocks by groups of panels: the one that all workers finish together and
 * soonest.  `tall`: rows that a panel is worth fetching for; row blocks are not lower unless there
 * are too few panels for all workers. */
static void split_grid(job *j, int64_t tile_rows, int64_t tall, const kit_launch *l) {
  const double gflops = 50, claim_ns = 500; /* gflops: of one core, at least */
  const uint32_t workers = cpu_workers(l);
  const double cost = 2.0 * (double)j->rows * (double)j->n * (double)j->k / gflops, /* ns */
      row = cost / (double)(j->rows * j->panels);
  const bool brief = cost <= 1e6 * workers; /* hardly anybody is held up meanwhile */
  int64_t most = j->rows / tall;            /* row blocks */
  int64_t least_each = 1, most_each = 8;    /* tasks of a worker */
  double best = INFINITY;
  j->row_blocks = j->panel_groups = 1;
  if (cpu_tasks(l, j->rows * j->panels, row) < 2) return;
  /* fetching the panels is all there is */
  if (j->rows <= tile_rows) least_each = most_each = brief ? 1 : 4;
  if (j->panels < workers) most = (workers + j->panels - 1) / j->panels * most_each;
  if (most > j->rows) most = j->rows;
  if (most < 1) most = 1;
  for (int64_t each = least_each; each <= most_each; each++)
    for (int64_t blocks = 1; blocks <= most && blocks <= each * workers; blocks++) {
      int64_t groups = each * workers / blocks;
      if (groups > j->panels) groups = j->panels;
      const double time =
          grid_cost(j, blocks, groups, tile_rows, workers, claim_ns / row, brief ? 0 : 0.2);
      if (time >= best) continue;
      best = time;
      j->row_blocks = (uint32_t)blocks;
      j->panel_groups = (uint32_t)groups;
    }
}

/* ---- x ---- */

static const cpu_linear *linear_at(const cpu_self *s, const kit_launch *l) {
  return &s->linear[s->linear_of[l->index]];
}
static const cpu_linear_kernel *kernel_of(const cpu_self *s, const cpu_linear *w) {
  return &s->kernels.linear[w->layout];
}
static cpu_act_format x_of(const cpu_self *s, const cpu_linear *w) {
  return cpu_act_format_beside(kernel_of(s, w)->x, w->k, w->format.group_k);
}

/* Floats as they are, further apart. */
static void copy_rows(const float *x, int64_t ldx, int64_t rows, int64_t k, void *y, int64_t ldy,
                      float *scale, float *zero) {
  (void)scale;
  (void)zero;
  for (int64_t i = 0; i < rows; i++)
    memcpy((float *)y + i * ldy, x + i * ldx, (size_t)k * sizeof *x);
}

/* What makes the rows that the kernel reads of rows ldx floats apart; NULL: it reads those.
 * Rows that alias in the first-level cache are copied. */
static cpu_convert_fn *convert_of(const cpu_self *s, const cpu_linear *w, int64_t rows,
                                  int64_t ldx) {
  const cpu_linear_kernel *kernel = kernel_of(s, w);
  if (kernel->x != CPU_ACT_F32) return s->kernels.convert[x_of(s, w)];
  return kernel->rows > CPU_WAYS && rows > CPU_WAYS && cpu_aliases_l1(ldx * (int64_t)sizeof(float))
             ? copy_rows
             : NULL;
}

/* Of rows of x as the kernel reads them: converted rows, then a scale and a zero for each that has
 * none in it. */
static uint64_t x_bytes(const cpu_self *s, const cpu_linear *w, int64_t rows, int64_t ldx) {
  const cpu_act_format x = x_of(s, w);
  const uint64_t row = (uint64_t)(cpu_act_row(x, w->k) * cpu_act_bytes(x)) + 2 * sizeof(float);
  return convert_of(s, w, rows, ldx) ? ((uint64_t)rows * row + 63) / 64 * 64 : 0;
}

/* Makes g read rows of x that are, or will be, converted into `scratch`. */
static void read_from(cpu_gemm *g, cpu_act_format x, int64_t rows, void *scratch) {
  g->x = scratch;
  g->ldx = cpu_act_row(x, g->k);
  if (cpu_act_blocked(x)) return;
  g->x_scale = (const float *)(const void *)((const char *)scratch +
                                             (uint64_t)(rows * g->ldx * cpu_act_bytes(x)));
  g->x_zero = g->x_scale + rows;
}

static void convert_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  const cpu_gemm *g = j->g;
  int64_t row = cpu_share(j->rows, index, j->convert_tasks),
          end = cpu_share(j->rows, index + 1, j->convert_tasks);
  (void)worker;
  cpu_convert_rows(j->convert, j->x, j->from + row * j->from_ld, j->from_ld, end - row, j->k,
                   (char *)g->x + row * g->ldx * cpu_act_bytes(j->x),
                   g->x_scale ? (float *)g->x_scale + row : NULL,
                   g->x_zero ? (float *)g->x_zero + row : NULL);
}

/* x for all nodes of the launch at once. */
static void convert_rows(job *j, const kit_launch *l, void *scratch) {
  const double bytes_per_ns = 8;
  for (uint32_t m = 0; m < j->n_gemm; m++) read_from(&j->g[m], j->x, j->rows, scratch);
  j->convert_tasks = cpu_tasks(l, j->rows, (double)j->k * sizeof(float) / bytes_per_ns);
  cpu_parallel(l, j->convert_tasks, convert_task, j);
}

/* ---- the products ---- */

bool cpu_linear_fuse_parallel(const cpu_self *s, const accel_plugin_program *p,
                              const accel_plugin_node *first, const accel_plugin_node *other) {
  const int32_t a = s->linear_of[first - p->node], b = s->linear_of[other - p->node];
  return a >= 0 && b >= 0 && s->linear[a].layout == s->linear[b].layout &&
         s->linear[a].k == s->linear[b].k && x_of(s, &s->linear[a]) == x_of(s, &s->linear[b]);
}

bool cpu_linear_fuse_chain(const cpu_self *s, const accel_plugin_program *p,
                           const accel_plugin_node *first, const accel_plugin_node *next) {
  /* block after block of rows would read both matrices once each */
  return !s->stream && !cpu_blas_wanted(s->kernels.isa) && s->linear_of[first - p->node] >= 0 &&
         s->linear_of[next - p->node] >= 0;
}

static cpu_gemm gemm_of(const cpu_linear *w, const kit_launch *l) {
  const kit_tensor *x = &l->in[0];
  const float *bias = kit_f32(&l->in[2]);
  cpu_gemm g = {.n = w->n,
                .k = w->k,
                .x = kit_f32(x),
                .ldx = x->row_stride,
                .w = w->packed,
                .panel_bytes = (int64_t)w->panel_bytes,
                .group = w->format.group_k,
                .store = w->format.store,
                .scale = w->format.scale,
                .y = kit_f32(&l->out[0]),
                .ldy = w->n,
                .bias = bias,
                .residual = kit_f32(&l->in[3]),
                .ldr = w->n,
                .glu = w->glu != ACCEL_PLUGIN_GLU_NONE};
  g.act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  g.alpha = kit_act_alpha(l->node, g.act);
  switch (w->glu) {
    case ACCEL_PLUGIN_GLU_SEPARATE:
      g.bias_gate = kit_f32(&l->in[5]);
      break;
    case ACCEL_PLUGIN_GLU_GATE_FIRST:
      g.bias_gate = bias;
      g.bias = bias ? bias + w->n : NULL;
      break;
    case ACCEL_PLUGIN_GLU_GATE_LAST:
      g.bias_gate = bias ? bias + w->n : NULL;
      break;
    case ACCEL_PLUGIN_GLU_INTERLEAVED:
      g.bias = w->bias_up;
      g.bias_gate = w->bias_gate;
      break;
  }
  return g;
}

static void add_gemm(job *j, const cpu_self *s, const kit_launch *l) {
  const cpu_linear *w = linear_at(s, l);
  const uint32_t m = j->n_gemm++;
  j->g[m] = gemm_of(w, l);
  j->n += w->n;
  j->panels_before[m] = j->panels;
  j->panels += w->panels;
  j->panels_before[m + 1] = j->panels;
}

/* Whether weights are widened, to fp32 or from fp8 to bf16, before they are multiplied:
 * WIDENED_ROWS rows should share it.
 */
static bool widens_weights(const cpu_self *s, const cpu_linear *w) {
  const cpu_act_format x = kernel_of(s, w)->x;
  return (x == CPU_ACT_F32 && w->layout != CPU_LAYOUT_F32) ||
         (x == CPU_ACT_BF16 && (w->layout == CPU_LAYOUT_E4M3 || w->layout == CPU_LAYOUT_E5M2));
}
enum { WIDENED_ROWS = 140 };

/* What the products of a launch, which read the same x, have in common; x is converted into
 * `scratch` where the kernel wants that. */
static void prepare_products(job *j, const cpu_self *s, const cpu_linear *first,
                             const kit_launch *l, void *scratch) {
  j->run = kernel_of(s, first)->run;
  j->k = first->k;
  j->from = j->g[0].x;
  j->from_ld = j->g[0].ldx;
  j->convert = convert_of(s, first, j->rows, j->from_ld);
  j->x = x_of(s, first);
  if (j->convert) convert_rows(j, l, scratch);
}

static void multiply(job *j, const cpu_self *s, const cpu_linear *first, const kit_launch *l) {
  const cpu_linear_kernel *kernel = kernel_of(s, first);
  split_grid(j, kernel->rows, widens_weights(s, first) ? WIDENED_ROWS : 4 * kernel->rows, l);
  cpu_parallel(l, j->row_blocks * j->panel_groups, product_task, j);
}

static void run_products(job *j, const cpu_self *s, const cpu_linear *first, const kit_launch *l,
                         void *scratch) {
  prepare_products(j, s, first, l, scratch);
  multiply(j, s, first, l);
}

/* n columns of a product from `col` on, over their own panels and into y. */
static cpu_gemm columns_of(const cpu_gemm *whole, int64_t col, int64_t n, const void *panels,
                           float *y, int64_t ldy) {
  cpu_gemm g = *whole;
  g.w = panels;
  g.n = n;
  g.y = y;
  g.ldy = ldy;
  if (g.bias) g.bias += col;
  if (g.bias_gate) g.bias_gate += col;
  if (g.residual) g.residual += col;
  return g;
}

/* Products of weights that come in segments: one after the other, as they are read. */
static int32_t run_streamed(job *all, const cpu_self *s, const kit_launch *l,
                            accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  prepare_products(all, s, linear_at(s, l), l, l->workspace);
  for (uint32_t m = 0; !rc && m < all->n_gemm; m++) {
    const kit_launch *one = m ? &l->joined[m - 1] : l;
    const cpu_linear *w = linear_at(s, one);
    const int64_t width = cpu_linear_width(w, kernel_of(s, w)->cols);
    cpu_part part = {w->packed, 0, w->panels};
    for (uint32_t i = 0; !rc && i < (w->n_segment ? w->n_segment : 1); i++) {
      if (w->n_segment) rc = cpu_stream_take(s, w, i, one, &part, error);
      if (rc) break;
      const int64_t col = part.first * width, left = w->n - col;
      const int64_t n = part.n * width < left ? part.n * width : left;
      job j = *all;
      j.n_gemm = 1;
      j.g[0] = columns_of(&all->g[m], col, n, part.panels, all->g[m].y + col, all->g[m].ldy);
      j.n = n;
      j.panels = j.panels_before[1] = part.n;
      multiply(&j, s, w, one);
      if (w->n_segment) cpu_stream_done(s, w, i);
    }
  }
  return rc;
}

/* ---- two linears, the second over the result of the first ---- */

enum {
  BETWEEN_BYTES = 512 << 10,
  LEAST_ROWS = 56,
  MOST_ROWS = 64,
  STRIP_ROWS = 224,
  BLOCKS_EACH = 4,
  STRIP = 256
};

typedef struct chain {
  cpu_gemm g[2];
  cpu_linear_fn *run[2];
  cpu_convert_fn *convert[2];
  cpu_act_format x[2];
  uint64_t at[3]; /* bytes in a worker's scratch memory: x of each, what is between them */
  int64_t between_ld;
  int64_t panels[2], rows;
  /* columns of a panel of the first, when what is between is converted strip by strip; else 0 */
  int64_t width;
  uint32_t blocks;
  char *scratch; /* [workers][scratch_bytes] */
  uint64_t scratch_bytes;
} chain;

static bool is_chain(const kit_launch *l) {
  return l->n_fused == 1 && l->joined[0].in[0].id == l->out[0].id;
}

/* Whether the second reads x by blocks: then a strip of columns of the first is enough to
 * convert. */
static bool by_strips(const cpu_self *s, const cpu_linear *next) {
  return cpu_act_blocked(x_of(s, next));
}

/* Floats from a row to the next of what is between. */
static int64_t between_ld(const cpu_linear *first) { return cpu_act_row(CPU_ACT_F32, first->n); }

/* A worker's scratch memory for blocks of so many rows, ldx floats apart. */
static void lay_out(chain *c, const cpu_self *s, const cpu_linear *first, const cpu_linear *next,
                    int64_t rows, int64_t ldx, bool strips) {
  const int64_t between = strips ? STRIP : between_ld(first);
  c->at[1] = x_bytes(s, first, rows, ldx);
  c->at[2] = c->at[1] + x_bytes(s, next, rows, between);
  c->scratch_bytes = c->at[2] + (uint64_t)(rows * between) * sizeof(float);
}

/* Rows of a block: its part of what is between stays in the second-level cache until it is read,
 * but not fewer than are worth fetching, or widening, the weights for.  0: too few rows in all to
 * give every worker some such blocks. */
static int64_t block_rows(const cpu_self *s, const cpu_linear *first, const cpu_linear *next,
                          int64_t rows, int64_t ldx, uint32_t workers) {
  const int64_t tile = kernel_of(s, first)->rows,
                limit = by_strips(s, next) ? STRIP_ROWS : MOST_ROWS,
                least = widens_weights(s, next) ? WIDENED_ROWS : LEAST_ROWS;
  chain one;
  lay_out(&one, s, first, next, 16, ldx, by_strips(s, next));
  int64_t most = BETWEEN_BYTES / (int64_t)(one.scratch_bytes / 16 + 1);
  most = most < least ? least : most > limit ? limit : most;
  most = (most + tile - 1) / tile * tile;
  return rows / most < (int64_t)workers * BLOCKS_EACH ? 0 : most;
}

uint64_t cpu_linear_workspace(const cpu_self *s, const cpu_kernels *kernels, const kit_launch *l,
                              uint32_t workers) {
  if (!s || s->linear_of[l->index] < 0)
    return cpu_blas_wanted(kernels->isa) ? cpu_blas_workspace(l) : 0;
  const cpu_linear *first = linear_at(s, l);
  const int64_t rows = kit_row_count(&l->out[0]), ldx = l->in[0].row_stride;
  if (!is_chain(l)) return x_bytes(s, first, rows, ldx);
  const cpu_linear *next = linear_at(s, l->joined);
  const int64_t most = block_rows(s, first, next, rows, ldx, workers);
  chain c;
  lay_out(&c, s, first, next, most ? most : rows, ldx, most && by_strips(s, next));
  return c.scratch_bytes * (most ? workers : 1);
}

/* Makes g read `rows` rows of x, at stride ldx. */
static void read_rows(const chain *c, int m, cpu_gemm *g, const float *x, int64_t ldx, int64_t rows,
                      void *scratch) {
  g->x = x;
  g->ldx = ldx;
  if (!c->convert[m]) return;
  read_from(g, c->x[m], rows, scratch);
  cpu_convert_rows(c->convert[m], c->x[m], x, ldx, rows, g->k, scratch, (float *)g->x_scale,
                   (float *)g->x_zero);
}

/* The first linear of a block of rows STRIP columns at a time, each converted at once to what the
 * second one reads. */
static void make_strips(const chain *c, const cpu_gemm *first, cpu_gemm *next, int64_t rows,
                        float *strip, void *scratch) {
  const int64_t panels = STRIP / c->width;
  read_from(next, c->x[1], rows, scratch);
  float *scale = cpu_act_scales(scratch, next->k), *zero = scale + cpu_act_blocks(c->x[1], next->k);
  for (int64_t p = 0, col = 0; p < c->panels[0]; p += panels, col += STRIP) {
    const cpu_gemm g = columns_of(first, col, first->n - col < STRIP ? first->n - col : STRIP,
                                  (const char *)first->w + p * first->panel_bytes, strip, STRIP);
    c->run[0](&g, 0, rows, 0, c->panels[0] - p < panels ? c->panels[0] - p : panels);
    const int64_t block = col / cpu_act_block(c->x[1]);
    c->convert[1](strip, STRIP, rows, g.n, (char *)scratch + col, next->ldx, scale + block,
                  zero + block * cpu_act_zeros(c->x[1]));
  }
}

static void chain_task(void *arg, uint32_t index, uint32_t worker) {
  const chain *c = arg;
  char *scratch = c->scratch + worker * c->scratch_bytes;
  float *between = (float *)(void *)(scratch + c->at[2]);
  const int64_t row = cpu_share(c->rows, index, c->blocks),
                rows = cpu_share(c->rows, index + 1, c->blocks) - row;
  cpu_gemm g[2] = {c->g[0], c->g[1]};
  g[0].y = between;
  g[0].ldy = c->between_ld;
  g[1].y += row * g[1].ldy;
  for (int m = 0; m < 2; m++)
    if (g[m].residual) g[m].residual += row * g[m].ldr;
  read_rows(c, 0, &g[0], (const float *)g[0].x + row * g[0].ldx, g[0].ldx, rows, scratch);
  if (c->width) {
    make_strips(c, &g[0], &g[1], rows, between, scratch + c->at[1]);
  } else {
    c->run[0](&g[0], 0, rows, 0, c->panels[0]);
    read_rows(c, 1, &g[1], between, g[0].ldy, rows, scratch + c->at[1]);
  }
  c->run[1](&g[1], 0, rows, 0, c->panels[1]);
}

/* Few rows: one after the other, each on all threads. */
static void one_by_one(const cpu_self *s, const kit_launch *l, const chain *c) {
  job j = {.rows = c->rows};
  float *between = (float *)(void *)(c->scratch + c->at[2]);
  add_gemm(&j, s, l);
  j.g[0].y = between;
  j.g[0].ldy = c->between_ld;
  run_products(&j, s, linear_at(s, l), l, c->scratch);
  j = (job){.rows = c->rows};
  add_gemm(&j, s, l->joined);
  j.g[0].x = between;
  j.g[0].ldx = c->between_ld;
  run_products(&j, s, linear_at(s, l->joined), l, c->scratch + c->at[1]);
}

static void launch_chain(const cpu_self *s, const kit_launch *l) {
  const uint32_t workers = cpu_workers(l);
  const cpu_linear *first = linear_at(s, l), *next = linear_at(s, l->joined);
  const int64_t rows = kit_row_count(&l->out[0]), ldx = l->in[0].row_stride,
                most = block_rows(s, first, next, rows, ldx, workers);
  const bool strips = most && by_strips(s, next);
  chain c = {.rows = rows, .scratch = l->workspace, .between_ld = between_ld(first)};
  lay_out(&c, s, first, next, most ? most : rows, ldx, strips);
  if (strips) c.width = kernel_of(s, first)->cols / (first->glu == ACCEL_PLUGIN_GLU_NONE ? 1 : 2);
  if (!most) {
    one_by_one(s, l, &c);
    return;
  }
  for (int m = 0; m < 2; m++) {
    const kit_launch *one = m ? l->joined : l;
    const cpu_linear *w = linear_at(s, one);
    c.g[m] = gemm_of(w, one);
    c.run[m] = kernel_of(s, w)->run;
    c.x[m] = x_of(s, w);
    c.convert[m] = convert_of(s, w, most, m ? c.between_ld : ldx);
    c.panels[m] = w->panels;
  }
  const int64_t blocks = (rows + most - 1) / most;
  c.blocks = (uint32_t)((blocks + workers - 1) / workers * workers);
  cpu_parallel(l, c.blocks, chain_task, &c);
}

/* ---- what the instructions allow ---- */

typedef struct repeated {
  cpu_linear_fn *run;
  cpu_gemm g; /* of as many panels as the cache holds */
  int64_t rows, panels, floats;
  float *y; /* [threads][floats] */
} repeated;

static void repeat_product(const void *arg, uint32_t i) {
  const repeated *r = arg;
  cpu_gemm g = r->g;
  g.y = r->y + i * r->floats;
  r->run(&g, 0, r->rows, 0, r->panels);
}

/* Of few rows: more are held against the rate of multiply-adds. */
double cpu_linear_limit(const cpu_self *s, const kit_launch *l) {
  enum { ROWS = 16, CACHED = 256 << 10 };
  const int64_t rows = kit_row_count(&l->out[0]);
  if (s->linear_of[l->index] < 0 || rows < 1 || rows > ROWS) return 0;
  const cpu_linear *w = linear_at(s, l);
  const cpu_linear_kernel *kernel = kernel_of(s, w);
  const int64_t ldx = cpu_act_row(CPU_ACT_F32, w->k);
  if (!w->packed || w->panel_bytes > 4 * CACHED) return 0;
  repeated r = {.run = kernel->run,
                .g = gemm_of(w, l),
                .rows = rows,
                .panels = CACHED / (int64_t)w->panel_bytes};
  if (r.panels < 1) r.panels = 1;
  if (r.panels > w->panels) r.panels = w->panels;
  r.floats = (rows * w->n + 15) / 16 * 16;
  r.g.residual = NULL;
  float *x = malloc((size_t)(rows * ldx) * sizeof *x);
  void *scratch = kit_alloc_pages(x_bytes(s, w, rows, ldx) + 64);
  r.y = malloc((size_t)(cpu_workers(l) * r.floats) * sizeof *r.y);
  double us = 0;
  if (x && scratch && r.y) {
    for (int64_t i = 0; i < rows * ldx; i++) x[i] = (float)(i % 17) / 17.0f;
    r.g.x = x;
    r.g.ldx = ldx;
    cpu_convert_fn *make = convert_of(s, w, rows, ldx);
    if (make) {
      read_from(&r.g, x_of(s, w), rows, scratch);
      cpu_convert_rows(make, x_of(s, w), x, ldx, rows, w->k, scratch, (float *)r.g.x_scale,
                       (float *)r.g.x_zero);
    }
    const int64_t key[CPU_LIMIT_KEY] = {
        ACCEL_PLUGIN_OP_LINEAR, w->layout, w->glu, r.g.act, rows, w->k, r.panels};
    us = cpu_limit(s->limits, l, key, repeat_product, &r) * (double)w->panels /
         (double)(r.panels * cpu_workers(l));
  }
  free(x);
  free(scratch);
  free(r.y);
  return us;
}

/* ---- launching ---- */

int32_t cpu_launch_linear(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  if (s->linear_of[l->index] < 0 && s->sgemm && cpu_blas_takes(l->node))
    return cpu_launch_blas(s, l, error);
  if (s->linear_of[l->index] < 0) return kit_scalar(ACCEL_PLUGIN_OP_LINEAR)(l, error);
  if (!l->out[0].elements) return ACCEL_PLUGIN_OK;
  if (is_chain(l)) {
    launch_chain(s, l);
    return ACCEL_PLUGIN_OK;
  }
  job j = {.rows = kit_row_count(&l->out[0])};
  add_gemm(&j, s, l);
  for (uint32_t m = 0; m < l->n_fused; m++) add_gemm(&j, s, &l->joined[m]);
  if (s->stream) return run_streamed(&j, s, l, error);
  run_products(&j, s, linear_at(s, l), l, l->workspace);
  return ACCEL_PLUGIN_OK;
}
