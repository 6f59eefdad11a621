/* variables.c - the vendors' visibility and override variables: what is set, what that does here,
 * what is wrong with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "core/file.h"
#include "hardware/hardware_internal.h"

static const struct {
  const char *name, *hardware;
} shown[] = {{"HIP_VISIBLE_DEVICES", "amd"},
             {"ROCR_VISIBLE_DEVICES", "amd"},
             {"GPU_DEVICE_ORDINAL", "amd"},
             {"HSA_OVERRIDE_GFX_VERSION", "amd"},
             {"ROCM_PATH", "amd"},
             {"HIP_PATH", "amd"},
             {"CUDA_VISIBLE_DEVICES", "cuda"},
             {"CUDA_DEVICE_ORDER", "cuda"},
             {"VK_DRIVER_FILES", "vulkan"},
             {"VK_ICD_FILENAMES", "vulkan"},
             {"VK_LOADER_DRIVERS_SELECT", "vulkan"},
             {"OCL_ICD_VENDORS", "opencl"},
             {"OCL_ICD_FILENAMES", "opencl"},
             {"POCL_CACHE_DIR", "opencl"},
             {"LD_LIBRARY_PATH", ""}};
enum { SHOWN = sizeof shown / sizeof *shown };

static const char *sentence_of(const char *name) {
  for (size_t i = 0; i < accel__config_count; i++)
    if (!strcmp(accel__config_table[i].name, name)) return accel__config_table[i].sentence;
  return "";
}

static bool is_visibility(const char *name) {
  return accel__ends_with(name, "_VISIBLE_DEVICES") || !strcmp(name, "GPU_DEVICE_ORDINAL");
}

static accel_status judge_visibility(accel__hardware *h, const accel__vendors *v,
                                     accel__variable *x) {
  bool cuda = !strcmp(x->name, "CUDA_VISIBLE_DEVICES");
  const char *hip = accel__env_raw("HIP_VISIBLE_DEVICES");
  if (!*x->value) {
    x->warning = true;
    x->verdict =
        cuda ? "set but empty: CUDA shows no device at all; unset it to see them"
             : "set but empty: versions of ROCm read that differently; unset it, or name devices";
  } else if (cuda && hip && *hip && v->amd_source >= 0) {
    x->warning = strcmp(hip, x->value) != 0;
    ACCEL_FORMAT(x->verdict, &h->arena, "on AMD cards HIP_VISIBLE_DEVICES=%s wins over it", hip);
  } else if (!strncmp(x->value, "-1", 2)) {
    x->verdict = "hides every device";
  } else if (!strcmp(x->name, "HIP_VISIBLE_DEVICES") && accel__env_raw("ROCR_VISIBLE_DEVICES")) {
    ACCEL_FORMAT(x->verdict, &h->arena,
                 "HIP shows only %s, counted among what ROCR_VISIBLE_DEVICES leaves", x->value);
  } else {
    ACCEL_FORMAT(x->verdict, &h->arena, "only %s %s shown%s", x->value,
                 strchr(x->value, ',') ? "are" : "is",
                 cuda ? "; HIP obeys it, too, unless HIP_VISIBLE_DEVICES is set" : "");
  }
  return ACCEL_OK;
}

/* "gfx1031" -> 10, 3, 1: the last two characters are minor and stepping in hexadecimal. */
static bool read_gfx(const char *arch, unsigned part[3]) {
  size_t n = strlen(arch);
  if (strncmp(arch, "gfx", 3) || n < 6 || n > 8) return false;
  char major[4] = "", minor[2] = {arch[n - 2], 0}, step[2] = {arch[n - 1], 0};
  memcpy(major, arch + 3, n - 5);
  part[0] = (unsigned)strtoul(major, NULL, 10);
  part[1] = (unsigned)strtoul(minor, NULL, 16);
  part[2] = (unsigned)strtoul(step, NULL, 16);
  return true;
}

/* What replacing one gfx version by another means for a card; sysfs alone still tells the true
 * one. */
static void judge_card(accel__buffer *b, const accel__gpu *g, const unsigned as[3], bool *warning) {
  unsigned is[3];
  if (!read_gfx(g->arch, is)) return;
  const char *text;
  if (is[0] == as[0] && is[1] == as[1] && is[2] == as[2]) {
    text = "its own version: the variable is not needed";
  } else if (is[0] == as[0] && is[1] == as[1]) {
    text =
        "a sister chip: not supported by AMD, works for many users; trust only what passes the "
        "self-test";
  } else {
    *warning = true;
    text = is[0] == as[0]
               ? "another line of the same generation: faults and wrong numbers are likely"
               : "another generation: hangs of the whole machine have been reported; unset it";
  }
  accel__buffer_printf(b, "%s%s (%s) runs as gfx%u%x%x: %s", b->n ? "; " : "",
                       *g->id ? g->id : g->name, g->arch, as[0], as[1], as[2], text);
}

static accel_status judge_override(accel__hardware *h, const accel__vendors *v,
                                   accel__variable *x) {
  unsigned as[3];
  char rest;
  const accel__source *kernel = &v->source[ACCEL__SOURCE_SYSFS];
  accel__buffer b = {0};
  if (!*x->value) {
    x->warning = true;
    x->verdict = "set but empty: that breaks the ROCm runtime; unset it";
    return ACCEL_OK;
  }
  if (sscanf(x->value, "%u.%u.%u%c", &as[0], &as[1], &as[2], &rest) != 3) {
    x->warning = true;
    x->verdict = "not a version such as 10.3.0; unset it";
    return ACCEL_OK;
  }
  for (uint32_t i = 0; i < kernel->n; i++) judge_card(&b, &kernel->gpu[i], as, &x->warning);
  accel_status status = accel__buffer_status(&b);
  if (status == ACCEL_OK)
    x->verdict =
        b.n ? accel__arena_string(&h->arena, b.data)
            : "no AMD card whose true version is known: nothing to judge; libaccel never sets it";
  accel__buffer_free(&b);
  return x->verdict ? status : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__variables(accel__hardware *h, accel__vendors *v) {
  ACCEL_ALLOC(v->variable, &h->arena, SHOWN);
  for (size_t i = 0; i < SHOWN; i++) {
    accel__variable *x = &v->variable[v->n_variables++];
    const char *value = accel__env_raw(shown[i].name);
    *x = (accel__variable){.name = shown[i].name,
                           .hardware = shown[i].hardware,
                           .verdict = sentence_of(shown[i].name)};
    if (!value) continue;
    char clean[1024];
    accel__clean_copy(clean, sizeof clean, value, sizeof clean);
    x->value = accel__arena_string(&h->arena, clean);
    if (!x->value) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (is_visibility(x->name))
      ACCEL_TRY(judge_visibility(h, v, x));
    else if (!strcmp(x->name, "HSA_OVERRIDE_GFX_VERSION"))
      ACCEL_TRY(judge_override(h, v, x));
  }
  return ACCEL_OK;
}
