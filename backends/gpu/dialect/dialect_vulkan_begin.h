/* dialect_vulkan_begin.h - from the lists to GLSL's globals.  Push constants: the element at which
 * each buffer begins in its aligned range, then the parameters. */
#define GPU_IN(i, T, n) \
  layout(set = 0, binding = i) restrict readonly buffer buffer_##n { T n[]; };
#define GPU_OVER(i, T, n) \
  layout(set = 0, binding = i) readonly buffer buffer_##n { T n[]; };
#define GPU_OUT(i, T, n) \
  layout(set = 0, binding = i) buffer buffer_##n { T n[]; };
#define GPU_AT(i, T, n)     int at_##n;
#define GPU_INT(n)          int n;
#define GPU_FLOAT(n)        float n;
#define GPU_SHARED(T, n, k) shared T n[k];
BUFFERS(GPU_IN, GPU_OVER, GPU_OUT)
layout(push_constant) uniform params_t{BUFFERS(GPU_AT, GPU_AT, GPU_AT) PARAMS(GPU_INT, GPU_FLOAT)} params;
SHARED(GPU_SHARED)
layout(local_size_x = LOCAL_SIZE) in;
void main() {
