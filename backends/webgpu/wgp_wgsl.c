/* wgp_wgsl.c - shaders that are WGSL, and what they bind.
 *
 * WebGPU lets no part of a buffer be bound twice in one dispatch when it may be written.  Kernels work
 * in place, and bindings begin at multiples of the device's alignment, so ranges do overlap: these
 * become one binding, and the text gets one name for the kernel's buffers that lie in it.  So do
 * neighbours, where a kernel has more buffers than the device allows. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/spirv/gpu_spirv.h"
#include "webgpu/wgp.h"

/* A kernel's text begins with a line for each of its buffers and one for its parameters (wgsl.py):
 * the number of a binding is two characters there, and a buffer is called B and a letter. */
#define DECLARED "@group(0) @binding("

uint64_t wgp_names_apart(uint32_t n) {
  uint64_t names = 0;
  for (uint32_t i = 0; i < n; i++) names |= (uint64_t)i << 4 * i;
  return names;
}

/* ---- text ---- */

/* Writes a number over the two characters behind DECLARED. */
static void put_binding(char *line, uint32_t number) {
  char *at = line + sizeof DECLARED - 1;
  at[0] = (char)(number < 10 ? ' ' : '0' + number / 10);
  at[1] = (char)('0' + number % 10);
}

static void rename_buffers(char *text, uint64_t names) {
  for (char *at = text; (at = strchr(at, 'B')); at++) {
    const bool begins = at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_');
    if (begins && at[1] >= 'a' && at[1] < 'a' + GPU_BINDINGS && at[2] == '[')
      at[1] = (char)('a' + wgp_name_of(names, (uint32_t)(at[1] - 'a')));
  }
}

/* Leaves the declarations of buffers that keep their names, numbered anew. */
static void share_names(char *text, uint32_t n_bind, uint64_t names) {
  char *line = text;
  uint32_t number = 0;
  for (uint32_t i = 0; i < n_bind; i++) {
    char *end = strchr(line, '\n');
    if (!end) return;
    if (wgp_name_of(names, i) == i)
      put_binding(line, number++);
    else
      memset(line, ' ', (size_t)(end - line));
    line = end + 1;
  }
  put_binding(line, number);
  rename_buffers(line, names);
}

WGPUShaderModule wgp_wgsl_module(const gpu_device *d, uint32_t kernel, uint64_t names) {
  char *text = gpu_shader_unpack(&gpu_wgsl[kernel]);
  if (!text) return NULL;
  share_names(text, gpu_kernels[kernel].n_bind, names);
  const WGPUShaderSourceWGSL source = {.chain = {.sType = WGPUSType_ShaderSourceWGSL},
                                       .code = {text, gpu_wgsl[kernel].bytes}};
  const WGPUShaderModuleDescriptor code = {.nextInChain = &source.chain};
  WGPUShaderModule module =
      d->f->DeviceCreateShaderModuleTrusted(d->handle, &code, WGPUShaderRuntimeChecks_None);
  free(text);
  return module;
}

/* ---- bindings ---- */

typedef struct range {
  const gpu_buffer *buffer;
  uint64_t begin, end;
  uint32_t name; /* the first buffer of the kernel that it is bound with */
} range;

static bool overlap(const range *a, const range *b) {
  return a->buffer == b->buffer && a->begin < b->end && b->begin < a->end;
}

/* Gives the ranges of two names the lower one and their union. */
static void unite(range *r, uint32_t n, uint32_t i, uint32_t k) {
  const range a = r[i], b = r[k];
  for (uint32_t m = 0; m < n; m++) {
    if (r[m].name != a.name && r[m].name != b.name) continue;
    r[m].name = a.name < b.name ? a.name : b.name;
    r[m].begin = a.begin < b.begin ? a.begin : b.begin;
    r[m].end = a.end > b.end ? a.end : b.end;
  }
}

/* Unites all ranges that overlap, directly or by others between them. */
static void join(range *r, uint32_t n) {
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 1; i < n; i++) {
      for (uint32_t k = 0; k < i; k++) {
        if (r[i].name == r[k].name || !overlap(&r[i], &r[k])) continue;
        unite(r, n, i, k);
        again = true;
      }
    }
  }
}

static uint32_t count(const range *r, uint32_t n) {
  uint32_t names = 0;
  for (uint32_t i = 0; i < n; i++) names += r[i].name == i;
  return names;
}

/* Unites the two of a buffer whose union is shortest; false: no two lie in `most` bytes of one. */
static bool join_nearest(range *r, uint32_t n, uint64_t most) {
  uint32_t best_i = 0, best_k = 0;
  uint64_t best = most + 1;
  for (uint32_t i = 1; i < n; i++) {
    for (uint32_t k = 0; k < i; k++) {
      if (r[i].name == r[k].name || r[i].buffer != r[k].buffer) continue;
      const uint64_t begin = r[i].begin < r[k].begin ? r[i].begin : r[k].begin,
                     end = r[i].end > r[k].end ? r[i].end : r[k].end;
      if (end - begin >= best) continue;
      best = end - begin;
      best_i = i;
      best_k = k;
    }
  }
  if (best > most) return false;
  unite(r, n, best_i, best_k);
  join(r, n);
  return true;
}

int32_t wgp_wgsl_bind(const gpu_device *d, const gpu_dispatch *what, wgp_binds *out,
                      accel_plugin_error *error) {
  range r[GPU_BINDINGS];
  const char *name = gpu_kernels[what->kernel].name;
  const uint64_t align = d->limits.align, most = d->limits.binding + align;
  const uint32_t n = what->n_bind, buffers = d->card->limits.maxStorageBuffersPerShaderStage;
  for (uint32_t i = 0; i < n; i++) {
    const gpu_binding *b = &what->bind[i];
    r[i] = (range){b->buffer, b->offset / align * align, b->offset + b->bytes, i};
  }
  join(r, n);
  while (count(r, n) > buffers)
    if (!join_nearest(r, n, most))
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                      "kernel %s: it binds %u ranges at once that do not lie together, the device "
                      "allows %u",
                      name, count(r, n), buffers);
  out->n = 0;
  out->names = 0;
  for (uint32_t i = 0; i < n; i++) {
    out->names |= (uint64_t)r[i].name << 4 * i;
    out->at[i] = (uint32_t)((what->bind[i].offset - r[i].begin) / 4);
    if (r[i].name != i) continue;
    if (r[i].end - r[i].begin > most)
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                      "kernel %s: %llu bytes of tensors that lie on one another are bound at once, "
                      "the device allows %llu: use a smaller batch",
                      name, (unsigned long long)(r[i].end - r[i].begin),
                      (unsigned long long)d->limits.binding);
    out->entry[out->n] = (WGPUBindGroupEntry){.binding = out->n,
                                              .buffer = r[i].buffer->handle,
                                              .offset = r[i].begin,
                                              .size = r[i].end - r[i].begin};
    out->n++;
  }
  return ACCEL_PLUGIN_OK;
}
