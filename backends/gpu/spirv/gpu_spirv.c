/* gpu_spirv.c - shaders lie deflated in the plugins. */
#include "gpu/spirv/gpu_spirv.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

void *gpu_shader_unpack(const gpu_shader *s) {
  char *whole = malloc(s->bytes + (size_t)1);
  z_stream z = {.next_in = (Bytef *)(uintptr_t)s->deflated,
                .avail_in = s->n,
                .next_out = (Bytef *)whole,
                .avail_out = s->bytes};
  bool done = whole && inflateInit2(&z, -MAX_WBITS) == Z_OK;
  if (done) {
    done = inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_out == 0;
    inflateEnd(&z);
    whole[s->bytes] = 0;
  }
  if (done) return whole;
  free(whole);
  return NULL;
}

void gpu_shader_lacks(const gpu_shader *s, uint32_t local_size, uint32_t buffers, const char *api,
                      uint32_t kernel, char *why, size_t n) {
  const gpu_kernel *k = &gpu_kernels[kernel];
  *why = 0;
  if (!s->n)
    snprintf(why, n, "it is not made for %s", api);
  else if (k->local > local_size)
    snprintf(why, n, "its workgroups have %u invocations, the device allows %u", k->local,
             local_size);
  else if (k->n_bind > buffers)
    snprintf(why, n, "it reads %u buffers, the device allows %u", k->n_bind, buffers);
}
