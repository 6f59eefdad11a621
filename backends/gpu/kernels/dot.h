/* dot.h - DOT4 by arithmetic, for APIs and devices without an instruction for it. */
#ifndef GPU_DOT_H
#define GPU_DOT_H

/* Byte j of a word as a signed number. */
#define GPU_BYTE(u, j) (AS_INT((u) << (24 - 8 * (j))) >> 24)

#if defined(GPU_VULKAN) && \
    defined(NATIVE) /* OpSDot of packed words: capabilities DotProduct and DotProductInput4x8BitPacked */
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [ 6019, 6018 ],
                  id = 4450) int gpu_sdot(uint a, uint b, spirv_literal int packed);
#define DOT4(a, b, c) (gpu_sdot(a, b, 0) + (c))
#endif

#ifndef DOT4
FUNCTION int gpu_dot4(uint a, uint b, int c) {
  return c + GPU_BYTE(a, 0) * GPU_BYTE(b, 0) + GPU_BYTE(a, 1) * GPU_BYTE(b, 1) + GPU_BYTE(a, 2) * GPU_BYTE(b, 2) +
         GPU_BYTE(a, 3) * GPU_BYTE(b, 3);
}
#define DOT4(a, b, c) gpu_dot4(a, b, c)
#endif

#endif
