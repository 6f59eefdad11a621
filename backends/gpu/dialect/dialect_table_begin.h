/* dialect_table_begin.h - the lists counted: what the host has to know of a kernel, read by embed.cmake. */
#define GPU_COUNT(i, T, n) +1
#define GPU_WORD(n) +4
@table LOCAL_SIZE, 0 BUFFERS(GPU_COUNT, GPU_COUNT, GPU_COUNT), 0 PARAMS(GPU_WORD, GPU_WORD)
