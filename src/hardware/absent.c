/* absent.c - why hardware is not there, and what to do: one row for every kind of hardware without
 * a device. */
#include <errno.h>
#include <string.h>

#include "hardware/hardware_internal.h"
#include "registry/registry.h"

/* "DIR, DIR": where plugins were looked for. */
static void list_places(const accel__hardware *h, accel__buffer *out) {
  for (size_t i = 0; i < h->n_files; i++) {
    const char *path = h->file[i]->path, *slash = strrchr(path, '/');
    bool directory = !*h->file[i]->key;
    size_t n = directory || !slash ? strlen(path) : (size_t)(slash - path);
    if (out->data && memmem(out->data, out->n, path, n)) continue;
    accel__buffer_printf(out, "%s%.*s", out->n ? ", " : "", (int)n, path);
  }
}

/* The plugin's two facts; *why: what its file said, or that there is none. */
static accel_status plugin_facts(accel__hardware *h, const char *stem, accel__absence *a,
                                 const char **why) {
  accel__buffer places = {0};
  *why = "";
  a->compiled = a->loaded = 0;
  for (size_t i = 0; i < h->n_files; i++) {
    const accel__plugin_file *f = h->file[i];
    if (!accel__key_fits(f->key, stem)) continue;
    a->compiled = 1;
    if (f->verdict == ACCEL__VERDICT_GOOD)
      a->loaded = 1;
    else if (!**why && f->verdict != ACCEL__VERDICT_SHADOWED)
      ACCEL_FORMAT(*why, &h->arena, "%s: %s", f->path, f->why);
  }
  if (a->compiled) return ACCEL_OK;
  if (strcmp(stem, "cpu")) { /* not built, most likely; the report lists the places anyway */
    ACCEL_FORMAT(*why, &h->arena, "this build has no plugin for it (libaccel_%s.so)", stem);
    return ACCEL_OK;
  }
  list_places(h, &places);
  *why = accel__arena_printf(&h->arena, "no plugin for it: no libaccel_%s.so in %s", stem,
                             places.n ? places.data : "any place");
  accel_status status = places.failed || !*why ? accel__no_memory(places.n) : ACCEL_OK;
  accel__buffer_free(&places);
  return status;
}

/* Its plugin crashed, or never answered, when it was asked for devices. */
static bool ended_in_helper(const accel__hardware *h, const char *stem) {
  for (size_t i = 0; i < h->n_files; i++)
    if (accel__key_fits(h->file[i]->key, stem) &&
        (h->file[i]->verdict == ACCEL__VERDICT_CRASH || h->file[i]->verdict == ACCEL__VERDICT_HANG))
      return true;
  return false;
}

static accel_status names_of(accel__arena *arena, const accel__gpu *gpu, uint32_t n,
                             const char **out) {
  accel__buffer b = {0};
  for (uint32_t i = 0; i < n; i++)
    accel__buffer_printf(&b, "%s%s%s", i ? ", " : "", gpu[i].name,
                         !strcmp(gpu[i].type, "software") ? " (software)" : "");
  *out = accel__arena_string(arena, b.n ? b.data : "");
  accel__buffer_free(&b);
  return *out ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* ---- AMD ---- */

static bool is_hidden(const accel__vendors *v) { return v->amd_source >= 0 && v->amd_n == 0; }

/* The first thing that keeps a card which the kernel shows from programs. */
static accel_status amd_obstacle(accel__hardware *h, const accel__vendors *v, const char **reason,
                                 const char **remedy) {
  const accel__source *hip = &v->source[ACCEL__SOURCE_HIP];
  for (uint32_t i = 0; i < v->n_access; i++) {
    const accel__access *a = &v->access[i];
    if (!a->error) continue;
    ACCEL_FORMAT(*reason, &h->arena, "%s: %s%s%s", a->path, strerror(a->error),
                 *a->group ? "; it belongs to the group " : "", a->group);
    *remedy = a->remedy;
    return ACCEL_OK;
  }
  if (!*hip->error) return ACCEL_OK;
  ACCEL_FORMAT(*reason, &h->arena, "the HIP runtime is missing or fails: %s", hip->error);
  *remedy = hip->remedy;
  return ACCEL_OK;
}

static accel_status amd_nowhere(accel__hardware *h, const accel__vendors *v, accel__absence *a) {
  const accel__source *kernel = &v->source[ACCEL__SOURCE_SYSFS],
                      *hip = &v->source[ACCEL__SOURCE_HIP];
  if (*kernel->error) {
    ACCEL_FORMAT(a->reason, &h->arena, "no AMD GPU found: %s%s%s", kernel->error,
                 *hip->error ? "; HIP: " : "", hip->error);
    a->remedy = kernel->remedy;
  } else {
    a->reason = "no AMD GPU found: the amdgpu driver is loaded and shows no card";
    a->remedy = "see the kernel's messages (dmesg) about amdgpu";
  }
  return ACCEL_OK;
}

static accel_status explain_amd(accel__hardware *h, const accel__vendors *v, const char *plugin_why,
                                accel__absence *a) {
  const char *cards = "", *reason = "", *remedy = "";
  a->found = v->amd_n > 0;
  if (is_hidden(v)) {
    a->reason =
        "every AMD GPU is hidden by ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or "
        "CUDA_VISIBLE_DEVICES";
    a->remedy = "unset the variable, or name the devices in it; accel detect shows its value";
    return ACCEL_OK;
  }
  if (!a->found) return amd_nowhere(h, v, a);
  ACCEL_TRY(names_of(&h->arena, v->amd, v->amd_n, &cards));
  ACCEL_TRY(amd_obstacle(h, v, &reason, &remedy));
  if (!*plugin_why) plugin_why = a->loaded ? "the plugin lists no device" : "";
  ACCEL_FORMAT(a->reason, &h->arena, "%s (seen by %s) cannot be used: %s%s%s", cards,
               v->source[v->amd_source].name, reason, *reason && *plugin_why ? "; " : "",
               plugin_why);
  a->remedy = *remedy       ? remedy
              : a->compiled ? "see the plugin's reason"
                            : "install or build the ROCm plugin";
  return ACCEL_OK;
}

/* ---- the others ---- */

static accel_status explain_source(accel__hardware *h, const accel__source *s, const char *title,
                                   const char *plugin_why, accel__absence *a) {
  const char *cards = "";
  bool library = *s->library && !*s->error;
  ACCEL_TRY(names_of(&h->arena, s->gpu, s->n, &cards));
  a->found = s->n > 0;
  if (s->n > 0) {
    ACCEL_FORMAT(a->reason, &h->arena, "%s cannot be used: %s", cards,
                 *plugin_why ? plugin_why : "the plugin lists no device");
    a->remedy = a->compiled ? "see the plugin's reason" : "install or build the plugin";
  } else if (library) {
    ACCEL_FORMAT(a->reason, &h->arena, "%s is loaded, but lists no device%s%s", s->library,
                 *plugin_why ? "; " : "", plugin_why);
    a->remedy = *s->remedy ? s->remedy : "install the card's driver";
  } else {
    ACCEL_FORMAT(a->reason, &h->arena, s->ended ? "%s fails here: %s%s%s" : "no %s here: %s%s%s",
                 title, s->error, *plugin_why ? "; " : "", plugin_why);
    a->remedy = s->remedy;
  }
  return ACCEL_OK;
}

/* "cuda" asked for on a machine with an AMD card. */
static accel_status point_to_amd(accel__hardware *h, const accel__vendors *v, accel__absence *a) {
  const char *cards = "";
  if (!v->amd_n) return ACCEL_OK;
  ACCEL_TRY(names_of(&h->arena, v->amd, v->amd_n, &cards));
  ACCEL_FORMAT(a->reason, &h->arena, "%s; the GPU here is AMD's (%s): its device is rocm:0",
               a->reason, cards);
  a->remedy = "use --device rocm:0 (accel detect says whether it is usable)";
  return ACCEL_OK;
}

/* Its plugin is ONNX Runtime's, and the provider a package beside that. */
static accel_status explain_qualcomm(accel__hardware *h, const accel__source *s,
                                     const char *plugin_why, accel__absence *a) {
  a->found = *s->library && !*s->error;
  if (a->found)
    ACCEL_FORMAT(a->reason, &h->arena, "QNN's provider is installed (%s), but %s", s->library,
                 *plugin_why ? plugin_why : "the plugin lists no device of it");
  else
    ACCEL_FORMAT(a->reason, &h->arena,
                 "no Qualcomm NPU through ONNX Runtime here: %s%s%s (an Adreno GPU is reached "
                 "through opencl or vulkan)",
                 s->error, a->compiled ? "" : "; ", a->compiled ? "" : plugin_why);
  a->remedy = *s->remedy ? s->remedy : "pip install -U onnxruntime onnxruntime-qnn";
  return ACCEL_OK;
}

/* The plugin that serves a kind of hardware. */
static const char *plugin_of(const char *hardware) {
  if (!strcmp(hardware, "qualcomm")) return "onnxruntime"; /* its provider QNN */
  if (!strcmp(hardware, "apple")) return "webgpu";         /* wgpu-native reaches Metal */
  return accel__stem_of(hardware);
}

#ifdef __EMSCRIPTEN__
/* In a page there is the processor and, of what the browser offers, WebGPU. */
static accel_status explain_in_page(accel__hardware *h, const char *hardware, accel__absence *a) {
  a->remedy = "use cpu";
  if (!strcmp(hardware, "webgpu")) {
    const char *why;
    ACCEL_TRY(plugin_facts(h, hardware, a, &why));
    a->reason = why;
    if (a->compiled) return ACCEL_OK;
    a->reason = "WebGPU is reached through memory that workers share, and this page shares none";
    a->remedy =
        "send the headers Cross-Origin-Opener-Policy: same-origin and "
        "Cross-Origin-Embedder-Policy: require-corp";
  } else if (!strcmp(hardware, "webnn"))
    a->reason = "navigator.ml is not used: on Linux no browser has an implementation behind it";
  else
    ACCEL_FORMAT(a->reason, &h->arena, "a web page reaches no hardware of the kind '%s'", hardware);
  return ACCEL_OK;
}
#endif

accel_status accel__explain_absence(accel__hardware *h, const char *hardware, accel__absence *out) {
  const accel__vendors *v = h->vendors;
  const accel__source *s = v->source;
  const char *why = "";
  *out = (accel__absence){.reason = "", .remedy = ""};
#ifdef __EMSCRIPTEN__
  return explain_in_page(h, hardware, out);
#endif
  ACCEL_TRY(plugin_facts(h, plugin_of(hardware), out, &why));
  if (!strcmp(hardware, "amd")) return explain_amd(h, v, why, out);
  if (!strcmp(hardware, "cuda")) {
    ACCEL_TRY(explain_source(h, &s[ACCEL__SOURCE_CUDA], "NVIDIA GPU driver", why, out));
    return point_to_amd(h, v, out);
  }
  if (!strcmp(hardware, "opencl"))
    return explain_source(h, &s[ACCEL__SOURCE_OPENCL], "OpenCL loader", why, out);
  if (!strcmp(hardware, "vulkan"))
    return explain_source(h, &s[ACCEL__SOURCE_VULKAN], "Vulkan loader", why, out);
  if (!strcmp(hardware, "openvino") || !strcmp(hardware, "webgpu")) {
    const bool ov = *hardware == 'o';
    const accel__source *from = &s[ov ? ACCEL__SOURCE_OPENVINO : ACCEL__SOURCE_WEBGPU];
    const bool said = out->compiled && *from->error; /* the plugin looks for the same file */
    ACCEL_TRY(explain_source(h, from, ov ? "OpenVINO" : "wgpu-native", said ? "" : why, out));
    if (ov && !*from->error && ended_in_helper(h, hardware))
      out->remedy =
          "OpenVINO asks OpenCL's drivers for GPUs, also where the processor alone is wanted: "
          "repair or remove the one that fails (its file in /etc/OpenCL/vendors), or name a folder "
          "without it in OCL_ICD_VENDORS";
    return ACCEL_OK;
  }
  if (!strcmp(hardware, "qualcomm"))
    return explain_qualcomm(h, &s[ACCEL__SOURCE_QUALCOMM], why, out);
  if (!strcmp(hardware, "apple")) {
    out->reason =
        "Apple's GPUs are reached through macOS, by Metal below the webgpu plugin, and this "
        "system is not macOS";
    out->remedy = "use cpu; on a Mac, webgpu (untested: docs/webgpu.md)";
  } else if (!strcmp(hardware, "webnn")) {
    out->reason = "WebNN is an interface of web browsers; a native program has no WebNN to call";
    out->remedy = "use cpu";
  } else {
    out->found = !strcmp(hardware, "cpu"); /* a processor is always there */
    ACCEL_FORMAT(out->reason, &h->arena, "%s", *why ? why : "the plugin lists no device");
    out->remedy = "reinstall libaccel, or name the plugins' directory in ACCEL_PLUGIN_PATH";
  }
  return ACCEL_OK;
}

static bool has_device(const accel__hardware *h, const char *hardware) {
  for (size_t i = 0; i < h->n_entries; i++)
    if (!strcmp(h->entry[i]->device.info.hardware, hardware) &&
        h->entry[i]->device.facts.type != ACCEL_PLUGIN_DEVICE_SOFTWARE)
      return true;
  /* PoCL is OpenCL all the same; an emulator of HIP is no AMD card */
  for (size_t i = 0; i < h->n_entries; i++)
    if (!strcmp(h->entry[i]->stem, accel__stem_of(hardware))) return true;
  return false;
}

accel_status accel__absent_rows(accel__hardware *h) {
  size_t capacity = 0;
  for (uint32_t i = 0; i < accel__hardware_count; i++) {
    const char *hardware = accel__hardware_names[i];
    accel__absence absence;
    accel__entry *e;
    if (has_device(h, hardware)) continue;
    ACCEL_TRY(accel__explain_absence(h, hardware, &absence));
    ACCEL_ALLOC(e, &h->arena, 1);
    e->stem = accel__stem_of(hardware);
    e->device.plugin_path = "";
    e->device.info = (accel_device_info){.name = e->stem,
                                         .hardware = hardware,
                                         .plugin = "",
                                         .implementation_type = "",
                                         .description = "",
                                         .arch = "",
                                         .driver = "",
                                         .id = "",
                                         .type = "other",
                                         .compiled = absence.compiled,
                                         .loaded = absence.compiled ? absence.loaded : -1,
                                         .found = absence.found,
                                         .tested = -1,
                                         .is_amd = !strcmp(hardware, "amd") && absence.found,
                                         .reason = absence.reason,
                                         .remedy = absence.remedy};
    if (!strcmp(hardware, "amd") && h->vendors->amd_n) {
      const accel__gpu *g = &h->vendors->amd[0];
      e->device.info.description = g->name;
      e->device.info.arch = g->arch;
      e->device.info.id = g->id;
      e->device.info.type = g->type;
      e->device.info.memory_total = g->vram_total;
    }
    ACCEL_PUSH(&h->arena, h->absent, h->n_absent, capacity, e);
  }
  return ACCEL_OK;
}
