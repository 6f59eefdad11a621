/* gpu_op_linear.c - linear: tiles for many rows, linear_few for a handful; a gated one goes through two
 * halves in the workspace.
 */
#include "gpu/gpu_op_linear.h"

enum { FEW = 8, SEGMENTS = 8, TILE = 64 };
/* Of panels: columns; panel_one.k's PANELS; panel.k's TILES and KC. */
enum { PANEL = 16, PANELS_ONE = 4, BLOCK_TILES = 20, PANEL_K = 128 };
enum {
  BIAS = GPU_LINEAR_BIAS,
  RESIDUAL = GPU_LINEAR_RESIDUAL,
  TRANS = 4,
  UP_PLUS_ONE = 8,
  OFFSETS = 16
}; /* flags of the kernels */

/* Large tiles read less, and pay when there are enough of them for every unit to have two, and most
 * of their rows are there.
 */
bool gpu_takes_large(const gpu_self *self, const gpu_product *p, int64_t n, int64_t columns) {
  const gpu_limits *limits = &self->limits;
  const int64_t rows = GPU_LARGE_ROWS, down = gpu_ceil_div(p->m, rows),
                across = gpu_ceil_div(n, columns);
  if (p->tile) return p->tile == GPU_LARGE_ROWS;
  return !limits->cpu && !limits->small_tiles && 4 * rows * down <= 5 * p->m &&
         4 * columns * across <= 5 * n &&
         down * across >= 2 * (int64_t)(limits->units ? limits->units : 16);
}

gpu_product gpu_bare_product(gpu_store store, int64_t n, int64_t k) {
  static const kit_tensor absent = {.id = -1};
  const uint32_t per = store == GPU_STORE_F32 ? 1 : store == GPU_STORE_I8 ? 4 : 2;
  gpu_product p = {.bias = &absent,
                   .residual = &absent,
                   .n = n,
                   .k = k,
                   .y_stride = n,
                   .act = ACCEL_PLUGIN_ACT_NONE};
  p.w.w = (gpu_weight){.n = n,
                       .k = k,
                       .store = store,
                       .scale_kind = store == GPU_STORE_I8 ? GPU_SCALE_F32 : GPU_SCALE_NONE,
                       .row_words = (uint32_t)k / per,
                       .group_k = (uint32_t)k,
                       .group_n = 1,
                       .groups_k = 1,
                       .outer = 1.0f};
  return p;
}

int32_t gpu_dispatch_way(gpu_call *c, const gpu_way *way, int64_t m, int64_t n,
                         accel_plugin_error *error) {
  const uint32_t *most = c->run->self->limits.groups;
  const int64_t across = gpu_ceil_div(n, way->columns), down = gpu_ceil_div(m, way->rows);
  return gpu_dispatch_grid(c, way->loops ? gpu_least(across, most[0]) : across,
                           gpu_least(down, most[1]), 1, error);
}

/* Over weights as they are stored; the kernel is that of fp32 ones. */
static gpu_way way_of(const gpu_self *self, const gpu_product *p, int64_t n) {
  const gpu_limits *limits = &self->limits;
  const bool behind_vulkan = limits->cpu && !limits->vector && !p->trans; /* a CPU */
  const bool waves =
      behind_vulkan && limits->broadcast == 8 && (p->w.w.groups_k == 1 || p->w.w.group_k % 8 == 0);
  if (waves && p->m == 1) return (gpu_way){GPU_K_linear_wave1_f32, 1, 64, false};
  if (waves && p->m <= 8) return (gpu_way){GPU_K_linear_wave8_f32, 8, 32, false};
  if (waves && p->m >= 32 && p->w.w.store == GPU_STORE_F32) /* worth its long compilation */
    return (gpu_way){GPU_K_linear_wave16x6_f32, 16, 48, false};
  if (waves) return (gpu_way){GPU_K_linear_wave16_f32, 16, 32, false};
  if (p->m <= FEW && !p->trans) return (gpu_way){GPU_K_linear_few_f32, 4, 8, true};
  if (behind_vulkan) return (gpu_way){GPU_K_linear_block_f32, 16, 128, false};
  if (gpu_takes_large(self, p, n, TILE))
    return (gpu_way){GPU_K_linear128_f32, GPU_LARGE_ROWS, TILE, false};
  return (gpu_way){GPU_K_linear_f32, TILE, TILE, false};
}

/* Rows [first, first + count) of w: columns of the result. */
static int32_t multiply_part(gpu_run *run, const kit_launch *l, const gpu_product *p,
                             gpu_binding part, int64_t first, int64_t count,
                             accel_plugin_error *error) {
  const int64_t n = p->trans ? p->n : count;
  const gpu_way way = way_of(run->self, p, n);
  gpu_call c = gpu_call_new(run, l, way.kernel + p->w.w.store);
  gpu_tensor(&c, p->x);
  gpu_matrix_bind(&c, &p->w, part);
  gpu_tensor(&c, p->bias);
  gpu_tensor(&c, p->residual);
  gpu_bind(&c, p->y);
  gpu_int(&c, p->m);
  gpu_int(&c, n);
  gpu_int(&c, p->k);
  gpu_int(&c, p->x->row_stride);
  gpu_int(&c, p->y_stride);
  gpu_int(&c, p->trans ? 0 : first);
  gpu_int(&c, gpu_ceil_div(gpu_ceil_div(p->k, SEGMENTS), 32) * 32);
  gpu_int(&c, (kit_has(p->bias) ? BIAS : 0) | (kit_has(p->residual) ? RESIDUAL : 0) |
                  (p->trans ? TRANS : 0));
  gpu_int(&c, p->act);
  gpu_float(&c, (double)p->alpha);
  gpu_matrix_params(&c, &p->w, first);
  return gpu_dispatch_way(&c, &way, p->m, n, error);
}

/* ---- panels, on CPU devices behind OpenCL (kernels/panel.k) ---- */

/* The register tile that a vector width has room for. */
typedef struct panel_tile {
  uint32_t kernel, packing; /* of fp32 weights, and of x */
  int64_t rows, panels;
} panel_tile;
static panel_tile tile_of(const gpu_limits *limits) {
  static const panel_tile wide = {GPU_K_panel14_f32, GPU_K_panel_x14, 14, 2},
                          half = {GPU_K_panel4_f32, GPU_K_panel_x4, 4, 1};
  return limits->vector >= 16 ? wide : half;
}

/* Where x is packed; one row is read as it is. */
static uint64_t packed_bytes(const gpu_limits *limits, int64_t m, int64_t k) {
  const panel_tile tile = tile_of(limits);
  return m > 1 ? (uint64_t)(gpu_ceil_div(m, tile.rows) * tile.rows * k) * 4 : 0;
}

static int32_t pack_x(gpu_run *run, const kit_launch *l, const gpu_product *p, gpu_binding packed,
                      accel_plugin_error *error) {
  const panel_tile tile = tile_of(&run->self->limits);
  if (gpu_keeps(run, p->x, p->m, tile.packing, packed)) return ACCEL_PLUGIN_OK;
  const int64_t tiles = gpu_ceil_div(p->m, tile.rows);
  gpu_call c = gpu_call_new(run, l, tile.packing);
  gpu_tensor(&c, p->x);
  gpu_bind(&c, packed);
  gpu_int(&c, p->m);
  gpu_int(&c, p->k);
  gpu_int(&c, p->x->row_stride);
  return gpu_dispatch_grid(&c, gpu_ceil_div(p->k, PANEL_K), tiles, 1, error);
}

/* What panel_one.k and panel.k have in common. */
static gpu_call panel_call(gpu_run *run, const kit_launch *l, const gpu_product *p, uint32_t kernel,
                           gpu_binding x, int64_t block) {
  const gpu_weight *w = &p->w.w;
  gpu_call c = gpu_call_new(run, l, kernel + w->store);
  gpu_bind(&c, x);
  gpu_bind(&c, gpu_memory_at(w->packed));
  gpu_bind(&c, w->factors ? gpu_memory_at(w->factors) : gpu_none(run));
  gpu_tensor(&c, p->bias);
  gpu_tensor(&c, p->residual);
  gpu_bind(&c, p->y);
  gpu_int(&c, p->m);
  gpu_int(&c, p->n);
  gpu_int(&c, p->k);
  gpu_int(&c, p->y_stride);
  gpu_int(&c, w->panel_words);
  gpu_int(&c, w->group_k);
  gpu_int(&c, w->groups_k);
  gpu_int(&c, block);
  gpu_int(&c, (kit_has(p->bias) ? BIAS : 0) | (kit_has(p->residual) ? RESIDUAL : 0) |
                  (w->offsets ? OFFSETS : 0));
  gpu_int(&c, p->act);
  gpu_float(&c, (double)p->alpha);
  return c;
}

static int32_t multiply_packed(gpu_run *run, const kit_launch *l, const gpu_product *p,
                               accel_plugin_error *error) {
  const panel_tile tile = tile_of(&run->self->limits);
  const int64_t panels = gpu_ceil_div(p->n, PANEL), tiles = gpu_ceil_div(p->m, tile.rows);
  if (p->m == 1) {
    gpu_call c = panel_call(run, l, p, GPU_K_panel_one_f32, gpu_at(run, p->x), 1);
    return gpu_dispatch_grid(&c, gpu_ceil_div(panels, PANELS_ONE), 1, 1, error);
  }
  const gpu_binding x = gpu_part(p->words, 0, packed_bytes(&run->self->limits, p->m, p->k));
  const int32_t rc = pack_x(run, l, p, x, error);
  if (rc) return rc;
  const int64_t blocks = gpu_ceil_div(tiles, BLOCK_TILES),
                block = gpu_ceil_div(tiles, blocks) * tile.rows;
  gpu_call c = panel_call(run, l, p, tile.kernel, x, block);
  return gpu_dispatch_grid(&c, gpu_ceil_div(panels, tile.panels), gpu_ceil_div(p->m, block), 1,
                           error);
}

int32_t gpu_rows_multiply(gpu_run *run, const kit_launch *l, const gpu_product *p,
                          accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  if (p->w.w.packed && !p->trans) return multiply_packed(run, l, p, error);
  if (gpu_activations_q_variant(run->self->variants, &p->w.w, p->trans) && !p->w.plain.bytes)
    return gpu_activations_q_multiply(run, l, p, error);
  for (int64_t first = 0; !rc && first < p->w.w.n;) {
    gpu_binding part;
    const int64_t count = gpu_matrix_rows(run, &p->w, first, &part);
    if (p->trans && count < p->w.w.n)
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_LIMIT,
                             "a weight stored [k, n] must fit one binding of %llu bytes",
                             (unsigned long long)run->self->limits.binding);
    rc = multiply_part(run, l, p, part, first, count, error);
    first += count;
  }
  return rc;
}

static int32_t combine(gpu_run *run, const kit_launch *l, int64_t glu, gpu_binding h,
                       accel_plugin_error *error) {
  const kit_tensor *residual = &l->in[3], *out = &l->out[0];
  const int64_t n = kit_cols(out), m = kit_row_count(out);
  const int32_t act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  const bool between = glu == ACCEL_PLUGIN_GLU_INTERLEAVED,
             apart = glu == ACCEL_PLUGIN_GLU_SEPARATE, last = glu == ACCEL_PLUGIN_GLU_GATE_LAST;
  gpu_call c = gpu_call_new(run, l, GPU_K_glu);
  gpu_bind(&c, h);
  gpu_tensor(&c, residual);
  gpu_tensor(&c, out);
  gpu_int(&c, m * n);
  gpu_int(&c, n);
  gpu_int(&c, apart ? n : 2 * n);
  gpu_int(&c, between ? 2 : 1);
  gpu_int(&c, apart ? m * n : last ? n : 0); /* SEPARATE: all of up, then all of gate */
  gpu_int(&c, apart ? 0 : last ? 0 : between ? 1 : n);
  gpu_int(&c, (kit_has(residual) ? RESIDUAL : 0) |
                  (act == ACCEL_PLUGIN_ACT_SWIGLU_OAI ? UP_PLUS_ONE : 0));
  gpu_int(&c, act);
  gpu_float(&c, (double)kit_act_alpha(l->node, act));
  return gpu_dispatch_items(&c, m * n, error);
}

/* Rows [first, first + count) of a tensor of rows. */
static kit_tensor rows_of(const kit_tensor *t, int64_t first, int64_t count) {
  kit_tensor part = *t;
  if (!kit_has(t)) return part;
  part.rank = 2;
  part.dim[0] = count;
  part.dim[1] = kit_cols(t);
  part.elements = count * part.dim[1];
  part.offset += (uint64_t)(first * t->row_stride) * 4;
  return part;
}

/* Activations larger than a binding are cut by rows. */
static int32_t multiply(gpu_run *run, const kit_launch *l, const gpu_product *p,
                        accel_plugin_error *error) {
  const int64_t widest = p->y_stride > p->x->row_stride ? p->y_stride : p->x->row_stride;
  const int64_t most = widest ? (int64_t)(run->self->limits.binding / 4) / widest : p->m;
  int32_t rc = ACCEL_PLUGIN_OK;
  /* one row too large is refused there */
  if (most >= p->m || most < 1) return gpu_rows_multiply(run, l, p, error);
  for (int64_t first = 0; !rc && first < p->m; first += most) {
    gpu_product part = *p;
    part.m = gpu_least(most, p->m - first);
    const kit_tensor x = rows_of(p->x, first, part.m),
                     residual = rows_of(p->residual, first, part.m);
    part.x = &x;
    part.residual = &residual;
    part.y =
        gpu_part(p->y, (uint64_t)(first * p->y_stride) * 4, (uint64_t)(part.m * p->y_stride) * 4);
    rc = gpu_rows_multiply(run, l, &part, error);
  }
  return rc;
}

/* The two halves of a gated one. */
static uint64_t halves_bytes(const kit_launch *l) {
  const int64_t glu = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE);
  const uint64_t bytes = glu == ACCEL_PLUGIN_GLU_NONE ? 0 : (uint64_t)l->out[0].elements * 8;
  return (bytes + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN;
}

/* x as words or packed for operand `w`; an estimate knows no device yet, and takes none. */
static uint64_t words_bytes(const gpu_self *self, const kit_launch *l, int w) {
  if (!self || !kit_has(&l->in[w]) || l->in[w].weight < 0) return 0;
  const gpu_weight *weight = &self->weight[l->in[w].weight];
  const bool trans = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_TRANS, 0) != 0;
  const int64_t m = kit_row_count(&l->out[0]);
  return weight->packed && !trans ? packed_bytes(&self->limits, m, weight->k)
                                  : gpu_activations_q_bytes(self, weight, trans, m);
}

uint64_t gpu_workspace_linear(const gpu_self *self, const kit_launch *l) {
  const uint64_t first = words_bytes(self, l, 1), second = words_bytes(self, l, 4);
  return halves_bytes(l) + (first > second ? first : second);
}

GPU_OP(linear) {
  static const kit_tensor absent = {.id = -1};
  const kit_tensor *out = &l->out[0];
  const int64_t glu = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE),
                n = kit_cols(out);
  const uint64_t half = (uint64_t)out->elements * 4;
  gpu_product p = {
      .x = &l->in[0],
      .w = gpu_matrix_of(run, &l->in[1]),
      .bias = &l->in[2],
      .residual = &l->in[3],
      .y = gpu_at(run, out),
      .m = kit_row_count(out),
      .n = n,
      .k = kit_cols(&l->in[0]),
      .y_stride = n,
      .act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE),
      .trans = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_TRANS, 0) != 0};
  p.alpha = kit_act_alpha(l->node, p.act);
  const uint64_t at = halves_bytes(l);
  if (l->workspace_bytes > at) p.words = gpu_workspace_at(l, at, l->workspace_bytes - at);
  if (glu == ACCEL_PLUGIN_GLU_NONE) return multiply(run, l, &p, error);
  const gpu_binding h = gpu_workspace_at(l, 0, 2 * half);
  const bool apart = glu == ACCEL_PLUGIN_GLU_SEPARATE;
  p.residual = &absent;
  p.act = ACCEL_PLUGIN_ACT_NONE;
  p.y = apart ? gpu_part(h, 0, half) : h;
  p.n = p.y_stride = apart ? n : 2 * n;
  int32_t rc = multiply(run, l, &p, error);
  if (!rc && apart) {
    p.w = gpu_matrix_of(run, &l->in[4]);
    p.bias = &l->in[5];
    p.y = gpu_part(h, half, half);
    rc = multiply(run, l, &p, error);
  }
  return rc ? rc : combine(run, l, glu, h, error);
}
