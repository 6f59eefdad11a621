/* ocl_cpu_pack.c - packs a weight in panels of 16 columns when it is loaded: for each panel and k
 * the 16 columns' codes (four-bit ones as 8 bytes, column j in the low and j + 8 in the high half
 * of byte j), and for each panel and group 16 factors, then 16 offsets. */
#include "opencl/cpu/ocl_cpu_pack.h"

#include <stdlib.h>
#include <string.h>

#include "formats/weight_matrix.h"

enum { PANEL = OCL_CPU_PANEL };

/* Codes of row r of the panel. */
static void pack_row(const gpu_weight *w, const void *row, uint8_t flip, int r, void *panel) {
  switch (gpu_store_bits[w->store]) {
    case 32:
      for (int64_t k = 0; k < w->k; k++)
        memcpy((uint32_t *)panel + k * PANEL + r, (const char *)row + 4 * k, 4);
      break;
    case 16:
      for (int64_t k = 0; k < w->k; k++)
        memcpy((uint16_t *)panel + k * PANEL + r, (const char *)row + 2 * k, 2);
      break;
    case 8:
      for (int64_t k = 0; k < w->k; k++)
        ((uint8_t *)panel)[k * PANEL + r] = ((const uint8_t *)row)[k];
      break;
    case 4:
      for (int64_t k = 0; k < w->k; k++) {
        const uint8_t code = (((const uint8_t *)row)[k / 2] >> (k % 2 ? 4 : 0) & 15) ^ flip;
        ((uint8_t *)panel)[k * (PANEL / 2) + r % 8] |= (uint8_t)(code << (r < 8 ? 0 : 4));
      }
      break;
  }
}

/* Factor and offset of every group of a panel. */
static void pack_factors(const gpu_weight_source *s, const gpu_weight *w, int64_t panel,
                         float *to) {
  const accel_plugin_format *f = s->format;
  for (int64_t g = 0; g < w->groups_k; g++)
    for (int64_t r = 0; r < PANEL; r++) {
      const int64_t row = panel * PANEL + r, group = row / w->group_n * w->groups_k + g;
      float *pair = to + g * 2 * PANEL + r;
      pair[0] = pair[PANEL] = 0.0f;
      if (row >= w->n) continue;
      const float zero =
          (f->zero == ACCEL_PLUGIN_NO_DTYPE ? 0.0f
                                            : accel_scale_at(f->zero, s->view->zero, group)) +
          (f->store == ACCEL_PLUGIN_I4 ? 8.0f : 0.0f);
      pair[0] = accel_scale_at(f->scale, s->view->scale, group) * w->outer;
      pair[PANEL] = -zero * pair[0];
      if (zero != 0.0f) w->packed->offsets = true;
    }
}

static uint64_t factor_bytes(const gpu_weight *w) { return (uint64_t)w->groups_k * 2 * PANEL * 4; }

static int32_t load_factors(const gpu_weight_source *s, const gpu_weight *w, int64_t panels,
                            accel_plugin_error *error) {
  const uint64_t each = factor_bytes(w);
  int32_t rc = gpu_pool_take(&s->self->pool, (uint64_t)panels * each, &w->packed->factors, error);
  for (int64_t p = 0; !rc && p < panels; p++) {
    pack_factors(s, w, p, (float *)s->staging);
    rc = gpu_upload(s->self, w->packed->factors, (uint64_t)p * each, s->staging, each, error);
  }
  return rc;
}

static int32_t load_codes(const gpu_weight_source *s, const gpu_weight *w, int64_t panels,
                          accel_plugin_error *error) {
  const accel_plugin_format *f = s->format;
  const uint64_t each = (uint64_t)w->packed->panel_words * 4, row = accel_row_bytes(f->store, w->k);
  int32_t rc = gpu_pool_take(&s->self->pool, (uint64_t)panels * each, &w->packed->codes, error);
  for (int64_t p = 0; !rc && p < panels; p++) {
    memset(s->staging, 0, each);
    for (int r = 0; r < PANEL && p * PANEL + r < w->n; r++)
      pack_row(w, (const char *)s->view->data + (uint64_t)(p * PANEL + r) * row,
               f->store == ACCEL_PLUGIN_I4 ? 8 : 0, r, s->staging);
    rc = gpu_upload(s->self, w->packed->codes, (uint64_t)p * each, s->staging, each, error);
  }
  return rc;
}

/* A panel must fit the staging buffer, and all of them one allocation; a format that is turned into
 * fp32 for the device is not packed. */
int32_t ocl_cpu_pack(const gpu_weight_source *s, gpu_weight *w, accel_plugin_error *error) {
  const int64_t panels = gpu_ceil_div(w->n, PANEL);
  const uint64_t words = (uint64_t)w->k * PANEL * gpu_store_bits[w->store] / 32;
  gpu_store given;
  if (!w->n || !w->k || !gpu_store_of(s->format->store, &given) || given != w->store ||
      words * 4 > GPU_STAGING || factor_bytes(w) > GPU_STAGING ||
      words * 4 * (uint64_t)panels > s->self->limits.buffer)
    return ACCEL_PLUGIN_OK;
  w->packed = calloc(1, sizeof *w->packed);
  if (!w->packed) return kit_no_memory(error, sizeof *w->packed);
  w->packed->panel_words = (uint32_t)words;
  const int32_t rc = load_codes(s, w, panels, error);
  return rc || !w->scale_kind ? rc : load_factors(s, w, panels, error);
}

void ocl_cpu_packed_free(gpu_self *self, gpu_weight *w) {
  gpu_pool_give(&self->pool, w->packed->codes);
  gpu_pool_give(&self->pool, w->packed->factors);
  free(w->packed);
  w->packed = NULL;
}
