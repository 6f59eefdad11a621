/* hip_emulated.c - hip_runtime over the emulator: device memory is host memory, a launch is
 * complete when the call returns. Two devices, which schedule waves of 32 and of 64 lanes.
 * ACCEL_EMULATED_ORDER (forward, reverse, shuffled[:SEED]) sets the order of lanes; by default
 * every launch takes the next of the three. Streams that wait for each other too little are told
 * (hip_emulated_order.h); drop_wait:N leaves out the process's N-th wait of a stream for an event, for
 * the test of that. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip/hip_emulated_order.h"
#include "hip/hip_emulator.h"
#include "hip/hip.h"

enum { DEVICES = 2, INVALID = 1 };
static const uint32_t wave_of[DEVICES] = {32, 64};

extern const emulated_kernel *const emulated_kernels[]; /* made by unit.cmake; ends with NULL */

typedef struct stream {
  emulator *emulator;
  emulated_sequence *order;
  uint64_t bytes[GPU_BINDINGS];
  uint32_t whole; /* as of bounds */
  char why[240];
} stream;

static _Thread_local int current;
static atomic_uint launches, waits, host_waits;

static int init(unsigned flags) {
  (void)flags;
  return 0;
}
static int count(int *n) {
  *n = DEVICES;
  return 0;
}
static int device_name(char *name, int n, int device) {
  snprintf(name, (size_t)n, "HIP kernels emulated on the processor, waves of %u", wave_of[device]);
  return 0;
}
static int memory_free(size_t *unused, size_t *total) {
  accel_plugin_memory m = {0};
  if (kit_system_memory(&m, NULL)) return INVALID;
  *unused = m.free;
  *total = m.total;
  return 0;
}
static int device_memory(size_t *bytes, int device) {
  size_t unused;
  (void)device;
  return memory_free(&unused, bytes);
}
/* No card has it: the id is what comes after the colon of the device's name. */
static int device_address(char *id, int n, int device) {
  snprintf(id, (size_t)n, "%u", wave_of[device]);
  return 0;
}
static int attribute(int *value, int number, int device) {
  static const int values[HIP_ATTRIBUTES] = {
      [HIP_THREADS_PER_BLOCK] = 1024, [HIP_SHARED_BYTES] = 64 << 10, [HIP_GRID_X] = 0x7fffffff,
      [HIP_GRID_Y] = 65535,           [HIP_GRID_Z] = 65535,          [HIP_UNITS] = 1,
  };
  *value = number == HIP_WAVE ? (int)wave_of[device] : values[number];
  return 0;
}

static int allocate(uint64_t *address, size_t bytes) {
  void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!memory) return HIP_OUT_OF_MEMORY;
  memset(memory, 0xff, bytes); /* NaN until something is written */
  *address = (uint64_t)(uintptr_t)memory;
  return 0;
}
static int release(uint64_t address) {
  free((void *)(uintptr_t)address);
  return 0;
}
static int host_allocate(void **memory, size_t bytes, unsigned flags) {
  uint64_t address = 0;
  (void)flags;
  int code = allocate(&address, bytes);
  *memory = (void *)(uintptr_t)address;
  return code;
}
static int host_release(void *memory) {
  free(memory);
  return 0;
}
static int host_address(uint64_t *address, void *memory, unsigned flags) {
  (void)flags;
  *address = (uint64_t)(uintptr_t)memory;
  return 0;
}
/* Whether a copy may run beside what other streams do. */
static int copy_in_order(void *s, uint64_t to, uint64_t from, size_t bytes) {
  stream *on = s;
  emulated_sequence_next(on->order);
  return emulated_sequence_touch(on->order, EMULATED_COPY_FROM, from, bytes, "a copy", on->why,
                                 sizeof on->why) ||
                 emulated_sequence_touch(on->order, EMULATED_COPY_TO, to, bytes, "a copy", on->why,
                                         sizeof on->why)
             ? HIP_LAUNCH_FAILURE
             : 0;
}
static int to_device(uint64_t to, const void *from, size_t bytes, void *s) {
  const int code = copy_in_order(s, to, (uint64_t)(uintptr_t)from, bytes);
  if (code) return code;
  memcpy((void *)(uintptr_t)to, from, bytes);
  return 0;
}
static int from_device(void *to, uint64_t from, size_t bytes, void *s) {
  const int code = copy_in_order(s, (uint64_t)(uintptr_t)to, from, bytes);
  if (code) return code;
  memcpy(to, (const void *)(uintptr_t)from, bytes);
  return 0;
}
static int within(uint64_t to, uint64_t from, size_t bytes, void *s) {
  const int code = copy_in_order(s, to, from, bytes);
  if (code) return code;
  memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
  return 0;
}

static int stream_free(void *s) {
  emulator_free(((stream *)s)->emulator);
  emulated_sequence_free(((stream *)s)->order);
  free(s);
  return 0;
}
static int stream_new(void **out, unsigned flags) {
  (void)flags;
  stream *s = calloc(1, sizeof *s);
  if (!s) return HIP_OUT_OF_MEMORY;
  s->emulator = emulator_new();
  s->order = emulated_sequence_new();
  if (!s->emulator || !s->order) {
    stream_free(s);
    return HIP_OUT_OF_MEMORY;
  }
  *out = s;
  return 0;
}
static int stream_wait(void *s) {
  emulated_sequence_through(((stream *)s)->order);
  return 0;
}
static int stream_after(void *s, void *event, unsigned flags) {
  static const char drop[] = "drop_wait:";
  const char *env = getenv("ACCEL_EMULATED_ORDER");
  const unsigned turn = atomic_fetch_add(&waits, 1) + 1;
  (void)flags;
  if (env && !strncmp(env, drop, sizeof drop - 1) &&
      strtoul(env + sizeof drop - 1, NULL, 10) == turn)
    return 0;
  emulated_sequence_after(((stream *)s)->order, event);
  return 0;
}
static int event_new(void **event, unsigned flags) {
  (void)flags;
  *event = emulated_place_new();
  return *event ? 0 : HIP_OUT_OF_MEMORY;
}
static int event_free(void *event) {
  emulated_place_free(event);
  return 0;
}
static int event_record(void *event, void *s) {
  emulated_sequence_record(((stream *)s)->order, event);
  return 0;
}
static int event_wait(void *event) {
  static const char drop[] = "drop_host_wait:";
  const char *env = getenv("ACCEL_EMULATED_ORDER");
  const unsigned turn = atomic_fetch_add(&host_waits, 1) + 1;
  if (!env || strncmp(env, drop, sizeof drop - 1) ||
      strtoul(env + sizeof drop - 1, NULL, 10) != turn)
    emulated_place_through(event);
  return 0;
}
/* Never by itself: who asks has to be ready to wait. */
static int event_reached(void *event) {
  return emulated_place_is_through(event) ? 0 : HIP_NOT_READY;
}
static int event_ms(float *ms, void *first, void *last) {
  (void)first, (void)last;
  *ms = 0.0f; /* no device, no device time */
  return INVALID;
}

static int module_load(void **module, const void *image) {
  (void)image;
  *module = NULL;
  return 0;
}
static int module_free(void *module) {
  (void)module;
  return 0;
}
static int function(void **out, void *module, const char *name) {
  (void)module;
  for (int i = 0; emulated_kernels[i]; i++)
    if (!strcmp(emulated_kernels[i]->name, name)) {
      *out = (void *)(uintptr_t)emulated_kernels[i];
      return 0;
    }
  return INVALID;
}

static void bounds(void *s, const uint64_t *bytes, uint32_t n, uint32_t whole) {
  ((stream *)s)->whole = whole;
  for (uint32_t i = 0; i < n && i < GPU_BINDINGS; i++) ((stream *)s)->bytes[i] = bytes[i];
}
static const char *detail(void *s) { return ((stream *)s)->why; }
static int host_writes(const void *memory, uint64_t bytes, char *why, size_t n) {
  return emulated_host_writes((uint64_t)(uintptr_t)memory, bytes, why, n);
}

static void choose_order(emulated_launch *l) {
  unsigned turn = atomic_fetch_add(&launches, 1);
  const char *env = getenv("ACCEL_EMULATED_ORDER");
  l->order = (emulated_order)(turn % 3);
  l->seed = turn;
  if (!env) return;
  if (!strncmp(env, "forward", 7)) l->order = EMULATED_FORWARD;
  if (!strncmp(env, "reverse", 7)) l->order = EMULATED_REVERSE;
  if (!strncmp(env, "shuffled", 8)) {
    l->order = EMULATED_SHUFFLED;
    if (env[8] == ':') l->seed = (uint32_t)strtoul(env + 9, NULL, 10) + turn;
  }
}

static int launch(void *f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                  unsigned block_y, unsigned block_z, unsigned shared_bytes, void *s,
                  void **arguments, void **extra) {
  const emulated_kernel *k = f;
  stream *to = s;
  emulated_buffer buffer[GPU_BINDINGS];
  (void)shared_bytes, (void)extra;
  if (block_x != k->local_size || block_y != 1 || block_z != 1 || k->n_bind > GPU_BINDINGS)
    return INVALID;
  for (uint32_t i = 0; i < k->n_bind; i++) {
    uint64_t address;
    memcpy(&address, arguments[i], sizeof address);
    buffer[i] = (emulated_buffer){(void *)(uintptr_t)address, to->bytes[i]};
  }
  emulated_sequence_next(to->order);
  for (uint32_t i = 0; i < k->n_bind; i++)
    if (!(to->whole >> i & 1) &&
        emulated_sequence_touch(to->order, EMULATED_KERNEL, (uint64_t)(uintptr_t)buffer[i].data,
                                buffer[i].bytes, k->name, to->why, sizeof to->why))
      return HIP_LAUNCH_FAILURE;
  emulated_launch l = {.kernel = k,
                       .groups = {grid_x, grid_y, grid_z},
                       .buffer = buffer,
                       .params = arguments[k->n_bind],
                       .wave = wave_of[current]};
  choose_order(&l);
  return emulator_run(to->emulator, &l, to->why, sizeof to->why) ? HIP_LAUNCH_FAILURE : 0;
}

static int retain(int device, void **context) {
  (void)device;
  *context = NULL;
  return 0;
}
static void drop(int device, void *context) { (void)device, (void)context; }
static int enter(int device, void *context, void **before) {
  (void)context;
  *before = (void *)(intptr_t)current;
  current = device;
  return 0;
}
static void leave(int device, void *before) {
  (void)device;
  current = (int)(intptr_t)before;
}
static const char *text(int code) {
  return code == HIP_OUT_OF_MEMORY ? "out of memory" : code == INVALID ? "invalid value" : "failed";
}
static void arch(int device, char *out, size_t n) { snprintf(out, n, "wave%u", wave_of[device]); }

static bool load(hip_runtime *r, char *why, size_t n) {
  (void)why, (void)n;
  *r = (hip_runtime){.init = init,
                     .count = count,
                     .device_name = device_name,
                     .device_memory = device_memory,
                     .device_address = device_address,
                     .attribute = attribute,
                     .memory_free = memory_free,
                     .allocate = allocate,
                     .release = release,
                     .host_allocate = host_allocate,
                     .host_release = host_release,
                     .host_address = host_address,
                     .to_device = to_device,
                     .from_device = from_device,
                     .within = within,
                     .stream_new = stream_new,
                     .stream_free = stream_free,
                     .stream_wait = stream_wait,
                     .stream_after = stream_after,
                     .event_new = event_new,
                     .event_free = event_free,
                     .event_record = event_record,
                     .event_wait = event_wait,
                     .event_reached = event_reached,
                     .event_ms = event_ms,
                     .module_load = module_load,
                     .module_free = module_free,
                     .function = function,
                     .launch = launch,
                     .retain = retain,
                     .drop = drop,
                     .enter = enter,
                     .leave = leave,
                     .text = text,
                     .arch = arch,
                     .api = "hip-emulated",
                     .bounds = bounds,
                     .detail = detail,
                     .host_writes = host_writes};
  for (int i = 0; i < HIP_ATTRIBUTES; i++) r->attribute_number[i] = i;
  snprintf(r->what, sizeof r->what, "emulator " ACCEL_VERSION);
  return true;
}

const hip_vendor hip_plugin_vendor = {
    .device_type = ACCEL_PLUGIN_DEVICE_SOFTWARE,
    .load = load,
};
