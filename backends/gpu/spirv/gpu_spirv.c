/* gpu_spirv.c - modules lie deflated in the plugins. */
#include "gpu/spirv/gpu_spirv.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

uint32_t *gpu_spirv_unpack(uint32_t kernel) {
  const gpu_spirv_module *m = &gpu_spirv[kernel];
  uint32_t *words = malloc(m->bytes);
  z_stream z = {.next_in = (Bytef *)(uintptr_t)m->deflated,
                .avail_in = m->n,
                .next_out = (Bytef *)words,
                .avail_out = m->bytes};
  bool whole = words && inflateInit2(&z, -MAX_WBITS) == Z_OK;
  if (whole) {
    whole = inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_out == 0;
    inflateEnd(&z);
  }
  if (whole) return words;
  free(words);
  return NULL;
}

void gpu_spirv_lacks(uint32_t local_size, uint32_t buffers, const char *api, uint32_t kernel,
                     char *why, size_t n) {
  const gpu_kernel *k = &gpu_kernels[kernel];
  *why = 0;
  if (!gpu_spirv[kernel].n)
    snprintf(why, n, "it is not made for %s", api);
  else if (k->local > local_size)
    snprintf(why, n, "its workgroups have %u invocations, the device allows %u", k->local,
             local_size);
  else if (k->n_bind > buffers)
    snprintf(why, n, "it reads %u buffers, the device allows %u", k->n_bind, buffers);
}
