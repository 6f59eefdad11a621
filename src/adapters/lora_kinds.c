/* lora_kinds.c - files whose modules are no plain LoRA: LoCon with a kernel between its factors, LoHa
 * and LoKr, in the names that LyCORIS and PEFT share, and DoRA.
 *
 *   LoCon  three convolutions behind each other: lora_down, lora_mid, lora_up
 *   LoHa   (hada_w1_a hada_w1_b) * (hada_w2_a hada_w2_b), element by element
 *   LoKr   the Kronecker product of lokr_w1 and lokr_w2, each whole or a product of _a and _b
 *
 * A kernel t [r, r, k, k] between two factors (Tucker's decomposition of convolutions) is multiplied
 * into the second one; the first then lies on its side.
 */
#include "adapters/adapters_internal.h"

static bool any(const accel__adapter_module *m, accel__lora_kind from, accel__lora_kind to) {
  for (int k = (int)from; k <= (int)to; k++)
    if (m->tensor[k]) return true;
  return false;
}

static accel_status bad(const accel__adapter *a, const accel__adapter_module *m, const char *why) {
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: '%.200s' %s", a->path, m->name, why);
}

static accel_status unclear(const accel__adapter *a, const accel__adapter_module *m,
                            const char *why) {
  accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: '%.200s' %s", a->path, m->name, why);
  return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                       "convert it to PEFT's names, or merge it with the program that made it");
}

static const char *missing(const accel__adapter_module *m, bool loha) {
  const accel__tensor_info *const *t = m->tensor;
  if (t[ACCEL__LORA_MID])
    return t[ACCEL__LORA_A] && t[ACCEL__LORA_B] ? NULL
                                                : "has a lora_mid, but no lora_down or lora_up";
  if (loha) {
    if (!t[ACCEL__LOHA_W1_A] || !t[ACCEL__LOHA_W1_B]) return "has only part of hada_w1";
    if (!t[ACCEL__LOHA_W2_A] || !t[ACCEL__LOHA_W2_B]) return "has only part of hada_w2";
    return !t[ACCEL__LOHA_T1] == !t[ACCEL__LOHA_T2] ? NULL : "has one of hada_t1 and hada_t2 alone";
  }
  if (t[ACCEL__LOKR_W1] ? any(m, ACCEL__LOKR_W1_A, ACCEL__LOKR_W1_B)
                        : !t[ACCEL__LOKR_W1_A] || !t[ACCEL__LOKR_W1_B])
    return "has no lokr_w1, or more than one";
  if (t[ACCEL__LOKR_W2] ? any(m, ACCEL__LOKR_W2_A, ACCEL__LOKR_T2)
                        : !t[ACCEL__LOKR_W2_A] || !t[ACCEL__LOKR_W2_B])
    return "has no lokr_w2, or more than one";
  return NULL;
}

accel_status accel__lora_kind_check(const accel__adapter *a, accel__adapter_module *m,
                                    bool *other) {
  const bool plain = any(m, ACCEL__LORA_A, ACCEL__LORA_B) || m->tensor[ACCEL__LORA_MID],
             loha = any(m, ACCEL__LOHA_W1_A, ACCEL__LOHA_T2),
             lokr = any(m, ACCEL__LOKR_W1, ACCEL__LOKR_T2);
  *other = loha || lokr || m->tensor[ACCEL__LORA_MID];
  if (m->tensor[ACCEL__LORA_DORA_SCALE] && a->scale != 1)
    return unclear(a, m,
                   "has a dora_scale, which programs take at a scale of 1 alike, and at no other");
  if (!*other) return ACCEL_OK;
  if (plain + loha + lokr > 1) return bad(a, m, "has matrices of LoRA, LoHa and LoKr side by side");
  if (m->tensor[ACCEL__LORA_DORA_SCALE] || m->tensor[ACCEL__LORA_MAGNITUDE])
    return unclear(a, m, "has magnitudes beside lora_mid, LoHa or LoKr, which is not supported");
  const char *why = missing(m, loha);
  if (why) return bad(a, m, why);
  /* the rank is of the factors; a LoKr of two whole ones is not scaled */
  const accel__tensor_info *ranked = plain                         ? m->tensor[ACCEL__LORA_A]
                                     : loha                        ? m->tensor[ACCEL__LOHA_W1_B]
                                     : m->tensor[ACCEL__LOKR_W1_B] ? m->tensor[ACCEL__LOKR_W1_B]
                                                                   : m->tensor[ACCEL__LOKR_W2_B];
  m->lora.rank = ranked ? ranked->dim[0] : 0;
  return ranked && (!ranked->rank || ranked->dim[0] < 1) ? bad(a, m, "has a matrix without rows")
                                                         : ACCEL_OK;
}

/* ---- matrices ---- */

typedef struct factor {
  int64_t rows, columns;
  uint32_t rank;
  float *left, *right; /* [rows, rank], [rank, columns] */
} factor;

/* right[i, r, kernel] = sum over j of t[i, j, kernel] b[j, r] */
static accel_status unfold(const accel__adapter *a, const accel__adapter_module *m,
                           const accel__tensor_info *t, const accel__tensor_info *b,
                           accel__arena *arena, factor *f) {
  const int64_t r = f->rank, kernel = t->rank == 4 ? t->dim[2] * t->dim[3] : 0;
  float *core, *in;
  if (kernel < 1 || t->dim[0] != r || t->dim[1] != r || f->columns % kernel)
    return bad(a, m, "has a kernel that does not fit its other matrices");
  const int64_t width = f->columns / kernel;
  ACCEL_TRY(accel__adapter_matrix(a, m->name, t, (int64_t[]){r, r * kernel}, arena, &core));
  ACCEL_TRY(accel__adapter_matrix(a, m->name, b, (int64_t[]){r, width}, arena, &in));
  f->right = accel__arena_array(arena, (size_t)(r * f->columns), sizeof *f->right);
  if (!f->right) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < r; i++)
    for (int64_t c = 0; c < width; c++)
      for (int64_t k = 0; k < kernel; k++) {
        double sum = 0;
        for (int64_t j = 0; j < r; j++)
          sum += (double)core[(i * r + j) * kernel + k] * (double)in[j * width + c];
        f->right[(i * width + c) * kernel + k] = (float)sum;
      }
  return ACCEL_OK;
}

/* Tensors a, b and, where there is one, t as a product of f->rows and f->columns. */
static accel_status read_factor(const accel__adapter *a, const accel__adapter_module *m,
                                accel__lora_kind first, accel__lora_kind second,
                                const accel__tensor_info *t, accel__arena *arena, factor *f) {
  const accel__tensor_info *l = m->tensor[first], *b = m->tensor[second];
  float *side;
  if (!b->rank || b->dim[0] < 1 || b->dim[0] > UINT32_MAX)
    return bad(a, m, "has a matrix without rows");
  f->rank = (uint32_t)b->dim[0];
  if (!t) {
    ACCEL_TRY(accel__adapter_matrix(a, m->name, l, (int64_t[]){f->rows, f->rank}, arena, &f->left));
    return accel__adapter_matrix(a, m->name, b, (int64_t[]){f->rank, f->columns}, arena, &f->right);
  }
  ACCEL_TRY(accel__adapter_matrix(a, m->name, l, (int64_t[]){f->rank, f->rows}, arena, &side));
  f->left = accel__arena_array(arena, (size_t)f->rows * f->rank, sizeof *f->left);
  if (!f->left) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t r = 0; r < f->rows; r++)
    for (uint32_t j = 0; j < f->rank; j++) f->left[r * f->rank + j] = side[j * f->rows + r];
  return unfold(a, m, t, b, arena, f);
}

static accel_status multiplied(const factor *f, accel__arena *arena, float **out) {
  float *x = accel__arena_array(arena, (size_t)(f->rows * f->columns), sizeof *x);
  if (!x) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t r = 0; r < f->rows; r++)
    for (int64_t c = 0; c < f->columns; c++) {
      double sum = 0;
      for (uint32_t j = 0; j < f->rank; j++)
        sum += (double)f->left[r * f->rank + j] * (double)f->right[j * f->columns + c];
      x[r * f->columns + c] = (float)sum;
    }
  *out = x;
  return ACCEL_OK;
}

/* lora_down's kernel is 1 x 1; lora_mid's is the base's. */
static accel_status make_locon(const accel__adapter *a, const accel__adapter_module *m,
                               accel__arena *arena, accel__weight_delta *d) {
  factor f = {.rows = d->rows, .columns = d->columns, .rank = (uint32_t)m->lora.rank};
  ACCEL_TRY(accel__adapter_matrix(a, m->name, m->tensor[ACCEL__LORA_B], (int64_t[]){f.rows, f.rank},
                                  arena, &f.left));
  ACCEL_TRY(unfold(a, m, m->tensor[ACCEL__LORA_MID], m->tensor[ACCEL__LORA_A], arena, &f));
  accel__adapter_scale(f.left, f.rows * f.rank, a->scale * m->lora.scaling);
  d->left = f.left;
  d->right = f.right;
  d->rank = f.rank;
  return ACCEL_OK;
}

static accel_status make_loha(const accel__adapter *a, const accel__adapter_module *m,
                              accel__arena *arena, accel__weight_delta *d) {
  factor one = {.rows = d->rows, .columns = d->columns}, two = one;
  ACCEL_TRY(read_factor(a, m, ACCEL__LOHA_W1_A, ACCEL__LOHA_W1_B, m->tensor[ACCEL__LOHA_T1], arena,
                        &one));
  ACCEL_TRY(read_factor(a, m, ACCEL__LOHA_W2_A, ACCEL__LOHA_W2_B, m->tensor[ACCEL__LOHA_T2], arena,
                        &two));
  accel__adapter_scale(one.left, one.rows * one.rank, a->scale * m->lora.scaling);
  d->left = one.left;
  d->right = one.right;
  d->rank = one.rank;
  d->left2 = two.left;
  d->right2 = two.right;
  d->rank2 = two.rank;
  return ACCEL_OK;
}

/* One side of a Kronecker product, whole. */
static accel_status read_side(const accel__adapter *a, const accel__adapter_module *m,
                              accel__lora_kind whole, accel__lora_kind first,
                              accel__lora_kind second, const accel__tensor_info *t,
                              accel__arena *arena, factor *f, float **out) {
  if (m->tensor[whole])
    return accel__adapter_matrix(a, m->name, m->tensor[whole], (int64_t[]){f->rows, f->columns},
                                 arena, out);
  ACCEL_TRY(read_factor(a, m, first, second, t, arena, f));
  return multiplied(f, arena, out);
}

static accel_status make_lokr(const accel__adapter *a, const accel__adapter_module *m,
                              accel__arena *arena, accel__weight_delta *d) {
  const accel__tensor_info *rows = m->tensor[ACCEL__LOKR_W1] ? m->tensor[ACCEL__LOKR_W1]
                                                             : m->tensor[ACCEL__LOKR_W1_A],
                           *columns =
                               m->tensor[ACCEL__LOKR_W1] ? rows : m->tensor[ACCEL__LOKR_W1_B];
  float *left, *right;
  if (rows->rank != 2 || columns->rank != 2 || rows->dim[0] < 1 || columns->dim[1] < 1 ||
      d->rows % rows->dim[0] || d->columns % columns->dim[1])
    return bad(a, m, "has a lokr_w1 that does not divide the weight it changes");
  factor outer = {.rows = rows->dim[0], .columns = columns->dim[1]},
         inner = {.rows = d->rows / outer.rows, .columns = d->columns / outer.columns};
  ACCEL_TRY(read_side(a, m, ACCEL__LOKR_W1, ACCEL__LOKR_W1_A, ACCEL__LOKR_W1_B, NULL, arena, &outer,
                      &left));
  ACCEL_TRY(read_side(a, m, ACCEL__LOKR_W2, ACCEL__LOKR_W2_A, ACCEL__LOKR_W2_B,
                      m->tensor[ACCEL__LOKR_T2], arena, &inner, &right));
  accel__adapter_scale(left, outer.rows * outer.columns, a->scale * m->lora.scaling);
  d->left = left;
  d->right = right;
  d->block_rows = inner.rows;
  d->block_columns = inner.columns;
  return ACCEL_OK;
}

accel_status accel__lora_kind_delta(const accel__adapter *a, const accel__adapter_module *m,
                                    accel__arena *arena, accel__weight_delta *delta) {
  if (m->tensor[ACCEL__LORA_MID]) return make_locon(a, m, arena, delta);
  return m->tensor[ACCEL__LOHA_W1_A] ? make_loha(a, m, arena, delta)
                                     : make_lokr(a, m, arena, delta);
}
