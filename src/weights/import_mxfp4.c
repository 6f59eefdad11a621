/* import_mxfp4.c - MXFP4 as gpt-oss publishes its experts: x_blocks U8 [E, N, K/32, 16], the 32
 * E2M1 codes of a group, low nibble first; x_scales U8 [E, N, K/32], E8M0.  The weight x is the
 * matrix [E*N, K] (transformers shows it as [E, K, N]).
 */

#include "weights/import_family.h"

enum { GROUP = 32 };

static accel_status configure(accel__import *import) { return (void)import, ACCEL_OK; }

static accel_status visit(accel__import *import, const accel__tensor_info *t) {
  const size_t stem = accel__import_stem(t->name, "_blocks");
  if (!stem) return ACCEL_OK;
  accel__import_entry e = {
      .codes = t, .bits = 4, .as_stored = true, .read = accel__import_read_scales};
  ACCEL_TRY(accel__import_need(import, t, stem, "_scales", &e.scale));
  ACCEL_TRY(accel__import_type(import, t, ACCEL_PLUGIN_U8));
  ACCEL_TRY(accel__import_type(import, e.scale, ACCEL_PLUGIN_U8));
  if (t->rank != 4 && t->rank != 3)
    return accel__import_shape(import, t, 4, (int64_t[]){-1, -1, -1, GROUP / 2});
  if (t->dim[t->rank - 1] != GROUP / 2 || t->elements == 0)
    return accel__import_bad(
        import, t, "groups of %d bytes are due in its last dim, and at least one", GROUP / 2);
  ACCEL_TRY(accel__import_shape(import, e.scale, t->rank - 1, t->dim));
  const int64_t groups = t->dim[t->rank - 2];
  e.n = (int64_t)(t->elements / (GROUP / 2)) / groups;
  e.k = groups * GROUP;
  e.format = (accel_plugin_format){.store = ACCEL_PLUGIN_E2M1,
                                   .scale = ACCEL_PLUGIN_E8M0,
                                   .zero = ACCEL_PLUGIN_NO_DTYPE,
                                   .outer = ACCEL_PLUGIN_NO_DTYPE,
                                   .group_k = GROUP,
                                   .group_n = 1};
  return accel__import_add(import, &e, t->name, stem, "");
}

const accel__import_family accel__import_mxfp4 = {
    .method = "mxfp4", .configure = configure, .visit = visit};
