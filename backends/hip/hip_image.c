/* hip_image.c - the kernels in the plugin's file: ACCEL_HIP_IMAGE (hipcc's bundle or nvcc's fatbin,
 * when a compiler was there) and ACCEL_HIP_SOURCE (their text), both by the assembler's incbin. */
#include "hip/hip.h"

#ifdef ACCEL_HIP_IMAGE
__asm__(
    ".section .rodata\n.balign 4096\n.hidden accel_hip_image\naccel_hip_image:\n.incbin "
    "\"" ACCEL_HIP_IMAGE "\"\n.byte 0\n.text\n");
extern const char accel_hip_image[];
const void *hip_image(void) { return accel_hip_image; }
#else
const void *hip_image(void) { return NULL; }
#endif

#ifdef ACCEL_HIP_SOURCE
__asm__(".section .rodata\n.hidden accel_hip_source\naccel_hip_source:\n.incbin \"" ACCEL_HIP_SOURCE
        "\"\n.byte 0\n.text\n");
extern const char accel_hip_source[];
const char *hip_source(void) { return accel_hip_source; }
#else
const char *hip_source(void) { return ""; }
#endif

const char *const hip_built_for = ACCEL_HIP_BUILT_FOR;
