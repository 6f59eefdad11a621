/* gpu_spirv.c - modules lie deflated in the plugins. */
#include "gpu/spirv/gpu_spirv.h"

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
