/* vendors.c - what vendors' libraries say, asked through accel-probe, one process for each. */
#include <stdlib.h>
#include <string.h>

#include "hardware/hardware_internal.h"
#include "registry/registry.h"

static const struct {
  const char *name, *question; /* question: the helper's word; NULL: not asked there */
} kinds[ACCEL__SOURCES] = {[ACCEL__SOURCE_HIP] = {"hip", "hip"},
                           [ACCEL__SOURCE_HSA] = {"hsa", "hsa"},
                           [ACCEL__SOURCE_SYSFS] = {"sysfs", NULL},
                           [ACCEL__SOURCE_SMI] = {"rocm-smi", NULL},
                           [ACCEL__SOURCE_CUDA_AMD] = {"cuda-amd", NULL},
                           [ACCEL__SOURCE_CUDA] = {"cuda", "cuda"},
                           [ACCEL__SOURCE_OPENCL] = {"opencl", "opencl"},
                           [ACCEL__SOURCE_VULKAN] = {"vulkan", "vulkan"},
                           [ACCEL__SOURCE_OPENVINO] = {"openvino", "openvino"},
                           [ACCEL__SOURCE_QUALCOMM] = {"qualcomm", "qualcomm"},
                           [ACCEL__SOURCE_WEBGPU] = {"webgpu", "webgpu"}};

static const char *copy_of(accel__arena *arena, const accel__json *object, const char *key,
                           accel_status *status) {
  const accel__json *item = accel__json_get(object, key);
  const char *text = cJSON_IsString(item) && item->valuestring ? item->valuestring : "";
  const char *copy = *text ? accel__arena_string(arena, text) : "";
  if (!copy) *status = ACCEL_ERROR_OUT_OF_MEMORY;
  return accel__or_empty(copy);
}

static uint64_t count_of(const accel__json *object, const char *key) {
  const accel__json *item = accel__json_get(object, key);
  return cJSON_IsNumber(item) && item->valuedouble > 0 && item->valuedouble < 1e18
             ? (uint64_t)item->valuedouble
             : 0;
}

static accel_status read_report(accel__arena *arena, const accel__json *root, accel__source *s) {
  const accel__json *devices = accel__json_get(root, "devices");
  accel_status status = ACCEL_OK;
  size_t n = 0;
  s->library = copy_of(arena, root, "library", &status);
  s->version = copy_of(arena, root, "version", &status);
  s->driver = copy_of(arena, root, "driver", &status);
  s->error = copy_of(arena, root, "error", &status);
  s->remedy = copy_of(arena, root, "remedy", &status);
  ACCEL_JSON_EACH(item, devices) n++;
  if (n > ACCEL__MAX_DEVICES) n = ACCEL__MAX_DEVICES;
  ACCEL_ALLOC(s->gpu, arena, n);
  ACCEL_JSON_EACH(item, devices) {
    if (s->n == n) break;
    accel__gpu *g = &s->gpu[s->n++];
    g->name = copy_of(arena, item, "name", &status);
    g->arch = copy_of(arena, item, "arch", &status);
    g->id = copy_of(arena, item, "id", &status);
    g->uuid = copy_of(arena, item, "uuid", &status);
    g->platform = copy_of(arena, item, "platform", &status);
    g->driver = copy_of(arena, item, "driver", &status);
    g->type = copy_of(arena, item, "type", &status);
    g->units = (uint32_t)count_of(item, "units");
    g->wave = (uint32_t)count_of(item, "wave");
    g->vram_total = count_of(item, "memory_total");
  }
  return status;
}

static accel_status ask(accel__hardware *h, const char *question, accel__source *s) {
  accel__json_file json = {0};
  accel__verdict verdict;
  const char *why;
  s->asked = true;
  ACCEL_TRY(
      accel__ask_probe(h, (const char *const[]){"vendor", question, NULL}, &json, &verdict, &why));
  accel_status status = ACCEL_OK;
  if (verdict == ACCEL__VERDICT_GOOD) {
    status = read_report(&h->arena, json.root, s);
  } else {
    s->error = why;
    s->ended = verdict != ACCEL__VERDICT_HELPER;
    s->remedy = s->ended ? "the vendor's library failed: reinstall or update its driver" : "";
  }
  accel__json_free(&json);
  return status;
}

/* One device is never both ROCm's and CUDA's: what a CUDA layer calls AMD or Radeon moves to a
 * source of its own. */
static accel_status part_cuda(accel__arena *arena, accel__source *cuda, accel__source *amd) {
  uint32_t kept = 0;
  amd->asked = true;
  amd->library = cuda->library;
  amd->version = cuda->version;
  amd->error = cuda->error;
  amd->remedy = cuda->remedy;
  ACCEL_ALLOC(amd->gpu, arena, cuda->n);
  for (uint32_t i = 0; i < cuda->n; i++) {
    if (accel__name_is_amd(cuda->gpu[i].name)) {
      amd->gpu[amd->n] = cuda->gpu[i];
      amd->gpu[amd->n++].arch = ""; /* "sm_80" is the layer's pretence */
    } else {
      cuda->gpu[kept++] = cuda->gpu[i];
    }
  }
  cuda->n = kept;
  return ACCEL_OK;
}

accel_status accel__ask_vendors(accel__hardware *h, bool refresh) {
  accel__vendors *v;
  if (h->vendors && !refresh) return ACCEL_OK;
  ACCEL_ALLOC(v, &h->arena, 1);
  v->arena = &h->arena;
  v->amd_source = -1;
  v->amd_version = v->amd_driver = "";
  for (int i = 0; i < ACCEL__SOURCES; i++) {
    accel__source *s = &v->source[i];
    s->name = kinds[i].name;
    s->library = s->version = s->driver = s->error = s->remedy = "";
    if (kinds[i].question) ACCEL_TRY(ask(h, kinds[i].question, s));
  }
  ACCEL_TRY(
      part_cuda(&h->arena, &v->source[ACCEL__SOURCE_CUDA], &v->source[ACCEL__SOURCE_CUDA_AMD]));
  ACCEL_TRY(accel__amd_sysfs(h, v));
  ACCEL_TRY(accel__amd_smi(h, v));
  ACCEL_TRY(accel__amd_access(h, v));
  ACCEL_TRY(accel__amd_conclude(h, v));
  ACCEL_TRY(accel__variables(h, v));
  h->vendors = v;
  return ACCEL_OK;
}

/* ---- versions ---- */

/* "amd" and the registry's other names for their aliases; a plugin's own name as it is. */
static accel_status hardware_named(accel__hardware *h, const char *text, const char **name) {
  const char *listed = accel__registry_hardware_name(text);
  *name = listed ? listed : text;
  if (listed) return ACCEL_OK;
  ACCEL_TRY(accel__search_plugins(h));
  return accel__is_plugin_name(h, text)
             ? ACCEL_OK
             : accel__fail(ACCEL_ERROR_ARGUMENT, "'%s' is no hardware that is known", text);
}

accel_status accel__runtime_version(accel__hardware *h, const char *hardware, char **version,
                                    char **driver) {
  static const struct {
    const char *hardware;
    accel__source_kind kind;
  } asked[] = {{"cuda", ACCEL__SOURCE_CUDA},
               {"opencl", ACCEL__SOURCE_OPENCL},
               {"vulkan", ACCEL__SOURCE_VULKAN}};
  const char *v = "", *d = "", *name;
  size_t k = 0;
  pthread_mutex_lock(&h->lock);
  accel_status status = hardware_named(h, hardware, &name);
  const bool amd = status == ACCEL_OK && !strcmp(name, "amd");
  while (k < sizeof asked / sizeof *asked && strcmp(asked[k].hardware, name)) k++;
  const bool known = amd || k < sizeof asked / sizeof *asked;
  if (known) status = accel__ask_vendors(h, false);
  if (known && status == ACCEL_OK) {
    const accel__source *s = &h->vendors->source[amd ? ACCEL__SOURCE_HIP : asked[k].kind];
    v = accel__or_empty(amd ? h->vendors->amd_version : s->version);
    d = accel__or_empty(amd ? h->vendors->amd_driver : s->driver);
  }
  *version = strdup(v);
  *driver = strdup(d);
  pthread_mutex_unlock(&h->lock);
  if (status == ACCEL_OK && *version && *driver) return ACCEL_OK;
  free(*version);
  free(*driver);
  *version = *driver = NULL;
  return status == ACCEL_OK ? accel__no_memory(0) : status;
}
