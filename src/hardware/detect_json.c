/* detect_json.c - {"schema":"accel.detect/1"}: the capability dictionary, devices, plugins, AMD's
 * sources, environment. docs/detect.md. */
#include <errno.h>
#include <string.h>

#include "core/config.h"
#include "core/cpu_info.h"
#include "core/file.h"
#include "hardware/hardware_internal.h"

/* ---- a small writer: comma where one is due ---- */

static void comma(accel__buffer *b) {
  if (b->n && b->data[b->n - 1] != '{' && b->data[b->n - 1] != '[' && b->data[b->n - 1] != ':')
    accel__buffer_text(b, ",");
}
static void key(accel__buffer *b, const char *name) {
  comma(b);
  accel__buffer_printf(b, "\"%s\":", name);
}
static void put_text(accel__buffer *b, const char *name, const char *text) {
  if (name)
    key(b, name);
  else
    comma(b);
  if (text)
    accel__buffer_json_string(b, text, strlen(text));
  else
    accel__buffer_text(b, "null");
}
static void put_text_or_null(accel__buffer *b, const char *name, const char *text) {
  put_text(b, name, text && *text ? text : NULL);
}
static void put_number(accel__buffer *b, const char *name, uint64_t n) {
  key(b, name);
  accel__buffer_printf(b, "%llu", (unsigned long long)n);
}
static void put_bool(accel__buffer *b, const char *name, bool value) {
  key(b, name);
  accel__buffer_text(b, value ? "true" : "false");
}
/* 1 true, 0 false, -1 null: not reached */
static void put_fact(accel__buffer *b, const char *name, int value) {
  key(b, name);
  accel__buffer_text(b, value < 0 ? "null" : value ? "true" : "false");
}
static void open_object(accel__buffer *b, const char *name) {
  if (name)
    key(b, name);
  else
    comma(b);
  accel__buffer_text(b, "{");
}
static void open_list(accel__buffer *b, const char *name) {
  key(b, name);
  accel__buffer_text(b, "[");
}

/* ---- the dictionary of the systems we follow, then ours ---- */

static bool is_installed(const accel__source *s) { return *s->library && !*s->error; }

static void put_capabilities(accel__buffer *b, const accel__hardware *h) {
  const accel__vendors *v = h->vendors;
  const accel__source *cuda = &v->source[ACCEL__SOURCE_CUDA],
                      *opencl = &v->source[ACCEL__SOURCE_OPENCL];
  const accel__source *vulkan = &v->source[ACCEL__SOURCE_VULKAN];
  /* a processor is always there; devices[] says whether its plugin serves */
  put_bool(b, "cpu", true);
  put_bool(b, "cuda", cuda->n > 0);
  put_text_or_null(b, "cuda_version", cuda->version);
  put_number(b, "cuda_devices", cuda->n);
  put_bool(b, "mps", false);
  put_bool(b, "openvino", is_installed(&v->source[ACCEL__SOURCE_OPENVINO]));
  put_bool(b, "qualcomm", is_installed(&v->source[ACCEL__SOURCE_QUALCOMM]));
  put_bool(b, "amd", v->amd_n > 0);
  put_text_or_null(b, "amd_version", v->amd_version);
  put_number(b, "amd_devices", v->amd_n);
  put_bool(b, "opencl", opencl->n > 0);
  put_text_or_null(b, "opencl_version", opencl->version);
  put_number(b, "opencl_devices", opencl->n);
  put_bool(b, "vulkan", vulkan->n > 0);
  put_text_or_null(b, "vulkan_version", vulkan->version);
  put_number(b, "vulkan_devices", vulkan->n);
  put_bool(b, "webgpu", is_installed(&v->source[ACCEL__SOURCE_WEBGPU]));
  put_bool(b, "webnn", false);
}

static void put_cpu(accel__buffer *b) {
  accel__cpu_info cpu;
  accel__cpu_detect(&cpu);
  open_object(b, "processor");
  put_text(b, "vendor", cpu.vendor);
  put_text(b, "model", cpu.model);
  put_text(b, "features", cpu.features);
  put_number(b, "logical", cpu.logical);
  put_number(b, "physical", cpu.physical);
  put_number(b, "affinity", cpu.affinity);
  if (cpu.cgroup_cpus > 0) {
    key(b, "cgroup_cpus");
    accel__buffer_printf(b, "%.2f", cpu.cgroup_cpus);
  }
  put_number(b, "memory_total", cpu.memory_total);
  put_number(b, "memory_available", cpu.memory_available);
  accel__buffer_text(b, "}");
}

/* ---- devices and plugins ---- */

static void put_device(accel__buffer *b, const accel__hardware *h, const accel__entry *e) {
  const accel_device_info *d = &e->device.info;
  open_object(b, NULL);
  put_text(b, "name", d->name);
  put_text(b, "hardware", d->hardware);
  put_text(b, "plugin", d->plugin);
  put_text(b, "implementation_type", d->implementation_type);
  put_text(b, "description", d->description);
  put_text(b, "arch", d->arch);
  put_text(b, "driver", d->driver);
  put_text(b, "id", d->id);
  put_text(b, "type", d->type);
  put_fact(b, "compiled", d->compiled);
  put_fact(b, "loaded", d->loaded);
  put_fact(b, "found", d->found);
  put_fact(b, "tested", d->tested);
  put_bool(b, "usable", d->usable);
  put_bool(b, "is_amd", d->is_amd);
  put_text(b, "reason", d->reason);
  put_text(b, "remedy", d->remedy);
  put_number(b, "memory_total", d->memory_total);
  put_number(b, "memory_free", d->memory_free);
  if (e->file) {
    open_object(b, "self_test");
    for (int p = 0; p < ACCEL__PROOFS; p++) {
      if (e->proof[p] == ACCEL__PROOF_UNTRIED && p >= ACCEL__PROOFS_DETECTED) continue;
      if (e->proof[p] == ACCEL__PROOF_UNTRIED)
        put_text(b, accel__proof_precision[p], "not run");
      else
        put_text(b, accel__proof_precision[p],
                 e->proof[p] == ACCEL__PROOF_PASS ? "pass" : e->proof_why[p]);
    }
    accel__buffer_text(b, "}");
  }
  if (e->device.card) { /* other ways to the same card */
    open_list(b, "routes");
    for (size_t i = 0; i < h->n_entries; i++)
      if (h->entry[i]->device.card == e->device.card)
        put_text(b, NULL, h->entry[i]->device.info.name);
    accel__buffer_text(b, "]");
  }
  accel__buffer_text(b, "}");
}

static void put_plugin(accel__buffer *b, const accel__plugin_file *f) {
  open_object(b, NULL);
  put_text(b, "path", f->path);
  put_text(b, "verdict", accel__verdict_name(f->verdict));
  put_text(b, "reason", f->why);
  if (f->verdict == ACCEL__VERDICT_GOOD) {
    put_text(b, "name", f->name);
    put_text(b, "implementation_type", f->implementation_type);
    put_text(b, "version", f->version);
    put_text(b, "build_id", f->build_id);
    put_number(b, "devices", f->n);
    put_text(b, "opened", f->trusted ? "in this process" : "in the helper program");
  }
  accel__buffer_text(b, "}");
}

/* ---- what vendors say ---- */

static void put_gpu(accel__buffer *b, const accel__gpu *g) {
  open_object(b, NULL);
  put_text(b, "name", g->name);
  put_text(b, "arch", g->arch);
  put_text(b, "id", g->id);
  put_text(b, "uuid", g->uuid);
  put_text(b, "type", g->type);
  if (g->platform && *g->platform) put_text(b, "platform", g->platform);
  if (g->driver && *g->driver) put_text(b, "driver", g->driver);
  put_number(b, "memory_total", g->vram_total);
  if (g->vram_used) put_number(b, "memory_used", g->vram_used);
  if (g->gtt_total) put_number(b, "gtt_total", g->gtt_total);
  if (g->gtt_total) put_number(b, "gtt_used", g->gtt_used);
  if (g->units) put_number(b, "units", g->units);
  if (g->wave) put_number(b, "wave", g->wave);
  if (g->hidden) put_bool(b, "hidden", true);
  accel__buffer_text(b, "}");
}

static void put_source(accel__buffer *b, const accel__source *s) {
  open_object(b, NULL);
  put_text(b, "source", s->name);
  put_bool(b, "answered", !*s->error);
  put_text(b, "library", s->library);
  put_text(b, "version", s->version);
  if (*s->driver) put_text(b, "driver", s->driver);
  put_text(b, "reason", s->error);
  put_text(b, "remedy", s->remedy);
  open_list(b, "devices");
  for (uint32_t i = 0; i < s->n; i++) put_gpu(b, &s->gpu[i]);
  accel__buffer_text(b, "]}");
}

static void put_access(accel__buffer *b, const accel__access *a) {
  open_object(b, NULL);
  put_text(b, "path", a->path);
  put_bool(b, "usable", a->error == 0);
  put_text(b, "reason", a->error ? strerror(a->error) : "");
  put_number(b, "errno", (uint64_t)a->error);
  put_text(b, "group", a->group);
  put_text(b, "remedy", a->remedy);
  accel__buffer_text(b, "}");
}

static void put_amd(accel__buffer *b, const accel__vendors *v) {
  open_object(b, "amd_details");
  put_text_or_null(b, "version", v->amd_version);
  put_text_or_null(b, "driver", v->amd_driver);
  put_text(b, "believed", v->amd_source >= 0 ? v->source[v->amd_source].name : NULL);
  open_list(b, "devices");
  for (uint32_t i = 0; i < v->amd_n; i++) put_gpu(b, &v->amd[i]);
  accel__buffer_text(b, "]");
  open_list(b, "sources");
  for (int i = ACCEL__SOURCE_HIP; i <= ACCEL__SOURCE_CUDA_AMD; i++) put_source(b, &v->source[i]);
  accel__buffer_text(b, "]");
  open_list(b, "differences");
  for (uint32_t i = 0; i < v->n_differences; i++) put_text(b, NULL, v->difference[i]);
  accel__buffer_text(b, "]");
  open_list(b, "access");
  for (uint32_t i = 0; i < v->n_access; i++) put_access(b, &v->access[i]);
  accel__buffer_text(b, "]}");
}

static void put_variable(accel__buffer *b, const accel__variable *x) {
  open_object(b, NULL);
  put_text(b, "name", x->name);
  put_text(b, "value", x->value);
  put_text_or_null(b, "hardware", x->hardware);
  put_text(b, "verdict", x->verdict);
  put_bool(b, "warning", x->warning);
  accel__buffer_text(b, "}");
}

/* Variables of libaccel's own, null where they are not set. */
static void put_settings(accel__buffer *b) {
  open_object(b, "settings");
  for (size_t i = 0; i < accel__config_count; i++)
    if (!strncmp(accel__config_table[i].name, "ACCEL_", 6))
      put_text_or_null(b, accel__config_table[i].name, accel__env_raw(accel__config_table[i].name));
  accel__buffer_text(b, "}");
}

static void write_json(accel__buffer *b, accel__hardware *h) {
  const accel__vendors *v = h->vendors;
  open_object(b, NULL);
  put_text(b, "schema", "accel.detect/1");
  put_text(b, "version", ACCEL_VERSION_STRING);
  put_capabilities(b, h);
  open_list(b, "devices");
  for (size_t i = 0; i < h->n_entries; i++) put_device(b, h, h->entry[i]);
  for (size_t i = 0; i < h->n_absent; i++) put_device(b, h, h->absent[i]);
  accel__buffer_text(b, "]");
  open_list(b, "plugins");
  for (size_t i = 0; i < h->n_files; i++) put_plugin(b, h->file[i]);
  accel__buffer_text(b, "]");
  put_cpu(b);
  put_amd(b, v);
  open_list(b, "vendors");
  for (int i = ACCEL__SOURCE_CUDA; i < ACCEL__SOURCES; i++) put_source(b, &v->source[i]);
  accel__buffer_text(b, "]");
  open_list(b, "environment");
  for (uint32_t i = 0; i < v->n_variables; i++) put_variable(b, &v->variable[i]);
  accel__buffer_text(b, "]");
  put_settings(b);
  put_text(b, "probe", accel__find_probe(h));
  accel__buffer_text(b, "}");
}

accel_status accel__detect_json(accel__hardware *h, bool refresh, char **json) {
  accel__buffer b = {0};
  *json = NULL;
  pthread_mutex_lock(&h->lock);
  accel_status status = accel__detect_all(h, refresh);
  if (status == ACCEL_OK) {
    write_json(&b, h);
    status = accel__buffer_status(&b);
  }
  pthread_mutex_unlock(&h->lock);
  if (status == ACCEL_OK)
    *json = b.data;
  else
    accel__buffer_free(&b);
  return status;
}
