/* weights.c - what init does with the weights.
 *
 * Matrices of linear nodes are mapped, packed into panels in one huge-page friendly block and unmapped, one after the other,
 * so the peak while loading is the final size and one tensor.  All others (embeddings, norms, biases, convolutions) stay
 * where the core mapped them until cleanup.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu.h"

enum { HUGE_PAGE = 2 << 20 };

/* ---- which weights are packed ---- */

static int32_t weight_of(const accel_plugin_program *p, const accel_plugin_node *n, uint32_t operand) {
  int32_t t = kit_operand(n, operand);
  return t >= 0 && p->tensor[t].kind == ACCEL_PLUGIN_TENSOR_WEIGHT ? p->tensor[t].weight : -1;
}

/* The packing a linear node asks for; false when its matrices are not weights of rank 2 (the scalar kernel then runs it). */
static bool describe(const accel_plugin_program *p, const accel_plugin_node *n, cpu_linear *out) {
  if (n->op != ACCEL_PLUGIN_OP_LINEAR) return false;
  int32_t glu = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE),
          trans = kit_attr_i(n, ACCEL_PLUGIN_ATTR_TRANS, 0) != 0;
  int32_t w = weight_of(p, n, 1), gate = glu == ACCEL_PLUGIN_GLU_SEPARATE ? weight_of(p, n, 4) : -1;
  if (w < 0 || p->weight[w].rank != 2 || (glu == ACCEL_PLUGIN_GLU_SEPARATE && (gate < 0 || p->weight[gate].rank != 2)))
    return false;
  const int64_t *dim = p->weight[w].dim;
  *out = (cpu_linear){
      .w = w, .gate = gate, .bias = -1, .glu = glu, .trans = trans, .n = dim[trans ? 1 : 0], .k = dim[trans ? 0 : 1]};
  if (gate >= 0 && memcmp(p->weight[gate].dim, dim, 2 * sizeof *dim)) return false;
  if (glu > ACCEL_PLUGIN_GLU_SEPARATE) out->n /= 2;
  if (glu == ACCEL_PLUGIN_GLU_INTERLEAVED && kit_operand(n, 2) >= 0) {
    out->bias = weight_of(p, n, 2);
    if (out->bias < 0) return false;
  }
  return true;
}

static bool same(const cpu_linear *a, const cpu_linear *b) {
  return a->w == b->w && a->gate == b->gate && a->bias == b->bias && a->glu == b->glu && a->trans == b->trans;
}

/* Columns of the result in one panel. */
static int64_t width_of(const cpu_kernels *k, const cpu_linear *l) {
  return l->glu == ACCEL_PLUGIN_GLU_NONE ? k->panel_cols : k->panel_cols / 2;
}

static int32_t plan(cpu_self *s, accel_plugin_error *error) {
  const accel_plugin_program *p = s->program;
  s->weight = calloc(p->n_weight + 1, sizeof *s->weight);
  s->linear = calloc(p->n_node + 1, sizeof *s->linear);
  s->linear_of = malloc((p->n_node + 1) * sizeof *s->linear_of);
  if (!s->weight || !s->linear || !s->linear_of) return kit_no_memory(error, p->n_node * sizeof *s->linear);
  for (uint32_t i = 0; i < p->n_node; i++) {
    cpu_linear l;
    bool packed = !(s->sgemm && cpu_blas_takes(&p->node[i])) && describe(p, &p->node[i], &l);
    s->linear_of[i] = -1;
    for (uint32_t k = 0; k < p->node[i].n_in; k++)
      if (!packed || (k != 1 && k != 4)) {
        int32_t w = weight_of(p, &p->node[i], k);
        if (w >= 0) s->weight[w].raw = true;
      }
    if (!packed) continue;
    uint32_t at = 0;
    while (at < s->n_linear && !same(&s->linear[at], &l)) at++;
    l.panels = (l.n + width_of(&s->kernels, &l) - 1) / width_of(&s->kernels, &l);
    if (at == s->n_linear) s->linear[s->n_linear++] = l;
    s->linear_of[i] = (int32_t)at;
  }
  for (uint32_t i = 0; i < p->n_entry; i++) /* weights that are outputs themselves */
    for (uint32_t k = 0; k < p->entry[i].n_out; k++) {
      const accel_plugin_tensor *t = &p->tensor[p->entry[i].out[k]];
      if (t->kind == ACCEL_PLUGIN_TENSOR_WEIGHT) s->weight[t->weight].raw = true;
    }
  return ACCEL_PLUGIN_OK;
}

/* ---- memory ---- */

static uint64_t aligned(uint64_t bytes) { return (bytes + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN; }

/* Bytes of one linear in the arena; places its parts when base is given. */
static uint64_t place(const cpu_self *s, cpu_linear *l, char *base) {
  uint64_t panels = aligned((uint64_t)l->panels * (uint64_t)l->k * (uint64_t)s->kernels.panel_cols * sizeof(float));
  uint64_t bias = l->bias >= 0 ? aligned((uint64_t)l->n * sizeof(float)) : 0;
  if (base) {
    l->packed = (float *)base;
    if (bias) {
      l->bias_up = (float *)(base + panels);
      l->bias_gate = (float *)(base + panels + bias);
    }
  }
  return panels + 2 * bias;
}

static int32_t make_arena(cpu_self *s, const accel_plugin_host *host, accel_plugin_error *error) {
  uint64_t all = 0, at = 0;
  for (uint32_t i = 0; i < s->n_linear; i++) all += place(s, &s->linear[i], NULL);
  if (!all) all = KIT_ALIGN;
  uint64_t unit = all >= HUGE_PAGE ? HUGE_PAGE : KIT_ALIGN;
  all = (all + unit - 1) / unit * unit;
  s->arena = kit_fault(host, "allocation") ? NULL : aligned_alloc(unit, all);
  if (!s->arena) return kit_no_memory(error, all);
#if defined(MADV_HUGEPAGE)
  if (unit == HUGE_PAGE) (void)madvise(s->arena, all, MADV_HUGEPAGE); /* advice only */
#endif
  for (uint32_t i = 0; i < s->n_linear; i++) at += place(s, &s->linear[i], (char *)s->arena + at);
  return ACCEL_PLUGIN_OK;
}

/* ---- packing ---- */

typedef struct packing {
  const cpu_self *s;
  const cpu_linear *l;
  const float *w, *gate; /* gate may lie in w */
  int64_t row_step;      /* rows of w from one column of the result to the next */
  uint32_t tasks;
} packing;

/* Columns [col, col + count) of one matrix into a panel at column `at`; missing ones become zeros. */
static void pack_columns(const packing *p, const float *w, int64_t col, int64_t count, float *panel, int64_t at) {
  const cpu_kernels *k = &p->s->kernels;
  const cpu_linear *l = p->l;
  const int64_t stored = l->n * (l->glu > ACCEL_PLUGIN_GLU_SEPARATE ? 2 : 1);
  for (int64_t c = 0; c < count; c += k->vector) {
    int64_t have = l->n - (col + c) < k->vector ? l->n - (col + c) : k->vector;
    float *to = panel + at + c;
    if (have < 0) have = 0;
    if (!l->trans) {
      k->pack(have ? w + (col + c) * p->row_step * l->k : w, p->row_step * l->k, have, l->k, to, k->panel_cols);
      continue;
    }
    for (int64_t j = 0; j < l->k; j++)
      for (int64_t i = 0; i < k->vector; i++)
        to[j * k->panel_cols + i] = i < have ? w[j * stored + (col + c + i) * p->row_step] : 0.0f;
  }
}

static void pack_task(void *arg, uint32_t index, uint32_t worker) {
  const packing *p = arg;
  const cpu_kernels *k = &p->s->kernels;
  const int64_t width = width_of(k, p->l), size = p->l->k * k->panel_cols;
  (void)worker;
  for (int64_t i = cpu_share(p->l->panels, index, p->tasks); i < cpu_share(p->l->panels, index + 1, p->tasks); i++) {
    pack_columns(p, p->w, i * width, width, p->l->packed + i * size, 0);
    if (p->l->glu) pack_columns(p, p->gate, i * width, width, p->l->packed + i * size, width);
  }
}

static const float *readable(const void *data, uint64_t bytes, float **copy, accel_plugin_error *error) {
  *copy = NULL;
  if ((uintptr_t)data % sizeof(float) == 0) return data;
  *copy = malloc(bytes ? bytes : 1);
  if (*copy)
    memcpy(*copy, data, bytes);
  else
    kit_no_memory(error, bytes);
  return *copy;
}

/* A weight as fp32 rows while it is packed. */
typedef struct source {
  accel_plugin_weight_view view;
  const float *data;
  float *copy;
} source;

static int32_t source_open(const cpu_self *s, const accel_plugin_host *host, int32_t index, source *out,
                           accel_plugin_error *error) {
  int32_t rc = host->weight_map(host->self, (uint32_t)index, &out->view, error);
  if (rc) return rc;
  out->data =
      readable(out->view.data, (uint64_t)kit_weight_elements(&s->program->weight[index]) * sizeof(float), &out->copy, error);
  if (out->data) return ACCEL_PLUGIN_OK;
  host->weight_unmap(host->self, (uint32_t)index);
  return ACCEL_PLUGIN_E_HOST_MEMORY;
}

static void source_close(const accel_plugin_host *host, int32_t index, source *s) {
  free(s->copy);
  host->weight_unmap(host->self, (uint32_t)index);
}

static void run_packing(packing *p, const accel_plugin_host *host) {
  uint32_t workers = host->parallel && host->workers ? host->workers(host->self) : 1;
  p->tasks = workers > 1 && p->l->panels > 1 ? workers * 4 : 1;
  if ((int64_t)p->tasks > p->l->panels) p->tasks = (uint32_t)p->l->panels;
  if (p->tasks > 1)
    host->parallel(host->self, p->tasks, pack_task, p);
  else if (p->tasks)
    pack_task(p, 0, 0);
}

static int32_t pack_linear(const cpu_self *s, cpu_linear *l, const accel_plugin_host *host, accel_plugin_error *error) {
  source w, gate, bias;
  int32_t rc = source_open(s, host, l->w, &w, error);
  if (rc) return rc;
  packing p = {.s = s, .l = l, .w = w.data, .row_step = l->glu == ACCEL_PLUGIN_GLU_INTERLEAVED ? 2 : 1};
  const int64_t half = l->trans ? l->n : l->n * l->k; /* from the first half of the columns to the second */
  switch (l->glu) {
    case ACCEL_PLUGIN_GLU_GATE_FIRST:
      p.gate = w.data;
      p.w = w.data + half;
      break;
    case ACCEL_PLUGIN_GLU_GATE_LAST:
      p.gate = w.data + half;
      break;
    case ACCEL_PLUGIN_GLU_INTERLEAVED:
      p.gate = w.data;
      p.w = w.data + (l->trans ? 1 : l->k);
      break;
    case ACCEL_PLUGIN_GLU_SEPARATE:
      rc = source_open(s, host, l->gate, &gate, error);
      if (!rc) p.gate = gate.data;
      break;
  }
  if (!rc) run_packing(&p, host);
  if (!rc && l->glu == ACCEL_PLUGIN_GLU_SEPARATE) source_close(host, l->gate, &gate);
  source_close(host, l->w, &w);
  if (!rc && l->bias >= 0) {
    rc = source_open(s, host, l->bias, &bias, error);
    for (int64_t i = 0; !rc && i < l->n; i++) {
      l->bias_gate[i] = bias.data[2 * i];
      l->bias_up[i] = bias.data[2 * i + 1];
    }
    if (!rc) source_close(host, l->bias, &bias);
  }
  return rc;
}

/* ---- open and close ---- */

static int32_t keep_raw(cpu_self *s, uint32_t i, const accel_plugin_host *host, accel_plugin_error *error) {
  cpu_weight *w = &s->weight[i];
  accel_plugin_weight_view view;
  int32_t rc = host->weight_map(host->self, i, &view, error);
  if (rc) return rc;
  w->mapped = true;
  w->data = readable(view.data, (uint64_t)kit_weight_elements(&s->program->weight[i]) * sizeof(float), &w->copy, error);
  if (!w->data) return ACCEL_PLUGIN_E_HOST_MEMORY;
  if (w->copy) {
    host->weight_unmap(host->self, i);
    w->mapped = false;
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t load(cpu_self *s, const accel_plugin_host *host, accel_plugin_error *error) {
  int32_t rc = plan(s, error);
  if (!rc) rc = make_arena(s, host, error);
  for (uint32_t i = 0; !rc && i < s->n_linear; i++) {
    if (host->cancelled && host->cancelled(host->self))
      return kit_fail(error, ACCEL_PLUGIN_E_CANCELLED, -1, "cancelled while loading");
    if (host->progress) host->progress(host->self, s->program->weight[s->linear[i].w].stage, s->program->n_stage);
    rc = pack_linear(s, &s->linear[i], host, error);
  }
  for (uint32_t i = 0; !rc && i < s->program->n_weight; i++)
    if (s->weight[i].raw) rc = keep_raw(s, i, host, error);
  if (rc) cpu_unmap(s, host);
  return rc;
}

int32_t cpu_open(kit_open *open, void **self, accel_plugin_error *error) {
  char refused[160];
  cpu_isa isa = cpu_isa_choose(refused, sizeof refused);
  if (refused[0]) return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "%s", refused);
  const accel_plugin_host *host = open->options->host;
  if (open->program->n_weight && (!host || !host->weight_map || !host->weight_unmap))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "the host gives no weights (weight_map is NULL)");
  cpu_self *s = calloc(1, sizeof *s);
  if (!s) return kit_no_memory(error, sizeof *s);
  *self = s;
  s->program = open->program;
  cpu_kernels_of(isa, &s->kernels);
  if (cpu_blas_wanted(isa)) s->sgemm = cpu_blas_open();
  if (!s->sgemm && getenv("ACCEL_ISA") && !strcmp(getenv("ACCEL_ISA"), "openblas"))
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                    "ACCEL_ISA is 'openblas', but libopenblas.so.0 is missing; install it or unset ACCEL_ISA");
  return load(s, host, error);
}

void cpu_unmap(cpu_self *s, const accel_plugin_host *host) {
  for (uint32_t i = 0; s && s->weight && host && host->weight_unmap && i < s->program->n_weight; i++) {
    if (s->weight[i].mapped) host->weight_unmap(host->self, i);
    s->weight[i].mapped = false;
  }
}

void cpu_close(void *self) {
  cpu_self *s = self;
  if (!s) return;
  for (uint32_t i = 0; s->weight && i < s->program->n_weight; i++) free(s->weight[i].copy);
  free(s->weight);
  free(s->linear);
  free(s->linear_of);
  free(s->arena);
  free(s);
}

void *cpu_weight_data(void *self, uint32_t index) {
  const cpu_self *s = self;
  return (void *)s->weight[index].data; /* NULL: packed only */
}

/* Kept as mapped or packed: the matrix's own bytes, but for the rounding up of its columns to whole panels. */
uint64_t cpu_weight_bytes(const accel_plugin_program *program, uint32_t index, const accel_plugin_format *format) {
  return kit_format_bytes(&program->weight[index], format);
}
