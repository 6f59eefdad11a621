/* dialect_table_begin.h - what the host has to know of a kernel, read by embed.cmake: the lists
 * counted, and the names of parameters. */
#define GPU_COUNT(i, T, n) +1
#define GPU_WORD(n) +4
#define GPU_INT(n) (i n)
#define GPU_FLOAT(n) (f n)
@params PARAMS(GPU_INT, GPU_FLOAT)
@table LOCAL_SIZE, 0 BUFFERS(GPU_COUNT, GPU_COUNT, GPU_COUNT), 0 PARAMS(GPU_WORD, GPU_WORD)
