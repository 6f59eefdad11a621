/* vlk_stream.c - the commands of a run, in submissions that stay short, recorded once and submitted
 * again while they stay the same.
 *
 * A driver takes a card away from a program whose submission runs for seconds, and one long
 * submission freezes a desktop. So commands are submitted in batches of at most `quota` of work
 * (workgroups, and KiB copied), with the quota of a device led by its own clock toward TARGET_MS:
 * doubled while batches are shorter, halved when one was longer than twice of it.  Up to
 * VLK_IN_FLIGHT - 1 batches run while the next is being recorded.
 *
 * What a run asks is first written down (script); when a batch is due, its script is compared with
 * that of the commands it holds from an earlier run, and only a different one is recorded.  Data of
 * updates lies in a buffer beside the commands, so that other numbers in the same places are no
 * other commands.
 *
 * Between any two commands lies a barrier over all memory: that is what "as if each ended before
 * the next began" asks for, and dispatches that could overlap are rare in a program. */
#include <stdlib.h>
#include <string.h>

#include "vulkan/vlk.h"

static const double TARGET_MS = 50.0;
static const uint64_t LARGEST_QUOTA = 1ull << 40;
static const VkPipelineStageFlags WORK =
    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
static const VkAccessFlags WRITES = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                           READS = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;

/* ---- batches ---- */

/* A stream of copies on a queue that does nothing else. */
static bool only_copies(const gpu_stream *s) {
  return s->copies && s->device->card->copy_family >= 0;
}

static VkResult batch_new(const gpu_stream *s, vlk_batch *b) {
  gpu_device *d = s->device;
  VkCommandPoolCreateInfo pool = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
      .queueFamilyIndex =
          (uint32_t)(only_copies(s) ? d->card->copy_family : d->card->queue_family)};
  VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkQueryPoolCreateInfo times = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                 .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                 .queryCount = 2};
  VkResult result = b->pool ? VK_SUCCESS : d->CreateCommandPool(d->handle, &pool, NULL, &b->pool);
  if (result == VK_SUCCESS && !b->commands) {
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = b->pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    result = d->AllocateCommandBuffers(d->handle, &info, &b->commands);
  }
  if (result == VK_SUCCESS && !b->fence)
    result = d->CreateFence(d->handle, &fence, NULL, &b->fence);
  if (result == VK_SUCCESS && !b->times && d->ms_per_tick > 0 && !s->copies)
    result = d->CreateQueryPool(d->handle, &times, NULL, &b->times);
  return result;
}

static void batch_free(gpu_device *d, vlk_batch *b) {
  vlk_release(d, b->staging);
  free(b->script.data);
  free(b->known.data);
  for (uint32_t i = 0; i < b->n_sets; i++) d->DestroyDescriptorPool(d->handle, b->sets[i], NULL);
  free(b->sets);
  if (b->times) d->DestroyQueryPool(d->handle, b->times, NULL);
  if (b->marks) d->DestroyQueryPool(d->handle, b->marks, NULL);
  if (b->fence) d->DestroyFence(d->handle, b->fence, NULL);
  if (b->pool) d->DestroyCommandPool(d->handle, b->pool, NULL);
}

static void streams_free(gpu_device *d, gpu_stream *s) {
  for (gpu_stream *next; s; s = next) {
    next = s->next;
    for (int i = 0; i < VLK_IN_FLIGHT; i++) batch_free(d, &s->batch[i]);
    free(s->us);
    free(s);
  }
}

void vlk_streams_free(gpu_device *d) {
  streams_free(d, d->idle);
  streams_free(d, d->idle_copies);
  d->idle = d->idle_copies = NULL;
}

static VkResult sets_more(gpu_device *d, vlk_batch *b) {
  VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, VLK_SETS * GPU_BINDINGS};
  VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                     .maxSets = VLK_SETS,
                                     .poolSizeCount = 1,
                                     .pPoolSizes = &size};
  VkDescriptorPool *grown = realloc(b->sets, (b->n_sets + 1) * sizeof *grown);
  if (!grown) return VK_ERROR_OUT_OF_HOST_MEMORY;
  b->sets = grown;
  VkResult result = d->CreateDescriptorPool(d->handle, &info, NULL, &grown[b->n_sets]);
  if (result == VK_SUCCESS) b->n_sets++;
  return result;
}

static VkResult set_new(gpu_device *d, vlk_batch *b, uint32_t n_bind, VkDescriptorSet *out) {
  if (b->used == VLK_SETS) b->set++, b->used = 0;
  VkResult result = b->set < b->n_sets ? VK_SUCCESS : sets_more(d, b);
  if (result != VK_SUCCESS) return result;
  VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                      .descriptorPool = b->sets[b->set],
                                      .descriptorSetCount = 1,
                                      .pSetLayouts = &d->layout[n_bind].set};
  b->used++;
  return d->AllocateDescriptorSets(d->handle, &info, out);
}

static vlk_batch *current(gpu_stream *s) {
  return &s->batch[(s->first + s->n_flying) % VLK_IN_FLIGHT];
}

/* ---- waiting ---- */

static void learn(gpu_device *d, double ms, uint64_t work) {
  uint64_t quota = atomic_load(&d->quota), wanted = quota;
  if (ms > 2 * TARGET_MS && quota > 1)
    wanted = quota / 2;
  else if (ms < TARGET_MS / 2 && work >= quota / 2 && quota < LARGEST_QUOTA)
    wanted = quota * 2;
  if (wanted != quota)
    atomic_compare_exchange_strong(&d->quota, (unsigned long long *)&quota, wanted);
}

static bool ask_times(const gpu_device *d, VkQueryPool pool, uint32_t n, uint64_t *tick) {
  return pool && d->GetQueryPoolResults(d->handle, pool, 0, n, n * sizeof *tick, tick, sizeof *tick,
                                        VK_QUERY_RESULT_64_BIT) == VK_SUCCESS;
}

static double ms_between(const gpu_device *d, uint64_t from, uint64_t to) {
  const uint64_t mask =
      d->card->timestamp_bits < 64 ? (1ull << d->card->timestamp_bits) - 1 : UINT64_MAX;
  return (double)((to - from) & mask) * d->ms_per_tick;
}

/* What a batch of a profiled run did from each mark to the next; before its first one it went on
 * with the last of the batch before. */
static void read_marks(const gpu_stream *s, const vlk_batch *b, const uint64_t whole[2]) {
  uint64_t tick[VLK_COMMANDS], from = whole[0];
  if (b->n_marks && !ask_times(s->device, b->marks, b->n_marks, tick)) return;
  for (uint32_t i = 0; i <= b->n_marks; i++) {
    const uint64_t to = i < b->n_marks ? tick[i] : whole[1];
    if (b->mark + i > 0) gpu_add_us(s->us[b->mark + i - 1], 1e3 * ms_between(s->device, from, to));
    from = to;
  }
}

static int32_t wait_oldest(gpu_stream *s, accel_plugin_error *error) {
  gpu_device *d = s->device;
  vlk_batch *b = &s->batch[s->first];
  VkResult result = d->WaitForFences(d->handle, 1, &b->fence, VK_TRUE, d->timeout_ns);
  s->first = (s->first + 1) % VLK_IN_FLIGHT;
  s->n_flying--;
  if (result == VK_TIMEOUT) {
    kit_fail(error, ACCEL_PLUGIN_E_DEVICE_LOST, -1,
             "the Vulkan device did not answer within %llu s and counts as lost",
             (unsigned long long)(d->timeout_ns / 1000000000u));
    atomic_store(&d->lost, true);
  } else if (result != VK_SUCCESS) {
    vlk_fail(d, error, VK_ERROR_DEVICE_LOST, "waiting for the Vulkan device");
  }
  /* a lost device is done with its work; who knows what else is still going on */
  if (result != VK_SUCCESS) {
    if (result != VK_ERROR_DEVICE_LOST) atomic_store(&d->stuck, true);
    return ACCEL_PLUGIN_E_DEVICE_LOST;
  }
  uint64_t tick[2];
  if (ask_times(d, b->times, 2, tick)) {
    const double ms = ms_between(d, tick[0], tick[1]);
    s->ms += ms;
    learn(d, ms, b->work);
    if (s->n_us) read_marks(s, b, tick);
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- scripts ---- */

/* One command of a script: this, then n_bind VkDescriptorBufferInfo and n_words words, a vlk_move,
 * or (MARK) nothing.  No padding: scripts are compared as bytes. */
typedef struct vlk_step {
  uint32_t kernel; /* MOVE: a copy; MARK: a timestamp */
  uint32_t n_bind, n_words, groups[3];
} vlk_step;
typedef struct vlk_move {
  VkBuffer from, to;
  VkBufferCopy region;
} vlk_move;
enum { MOVE = GPU_KERNELS, MARK };
_Static_assert(sizeof(vlk_step) == 24 && sizeof(vlk_move) == 40, "no padding");

static void *script_add(vlk_script *s, const vlk_step *step, size_t rest) {
  const size_t n = sizeof *step + rest;
  if (n > s->room - s->n) {
    const size_t room = 2 * s->room + n + 4096;
    uint8_t *grown = realloc(s->data, room);
    if (!grown) return NULL;
    s->data = grown;
    s->room = room;
  }
  uint8_t *at = s->data + s->n;
  memcpy(at, step, sizeof *step);
  s->n += n;
  return at + sizeof *step;
}

/* ---- recording ---- */

/* Between what was asked so far and what comes, or (last) the host that reads. */
static void barrier(const gpu_stream *s, VkCommandBuffer commands, bool last) {
  const bool copies = only_copies(s);
  const VkPipelineStageFlags stages = copies ? VK_PIPELINE_STAGE_TRANSFER_BIT : WORK;
  const VkAccessFlags writes = copies ? VK_ACCESS_TRANSFER_WRITE_BIT : WRITES,
                      reads = copies ? VK_ACCESS_TRANSFER_READ_BIT : READS;
  const VkMemoryBarrier all = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
      .srcAccessMask = writes,
      .dstAccessMask = last ? (VkAccessFlags)VK_ACCESS_HOST_READ_BIT : reads | writes};
  s->device->CmdPipelineBarrier(commands, stages,
                                last ? (VkPipelineStageFlags)VK_PIPELINE_STAGE_HOST_BIT : stages, 0,
                                1, &all, 0, NULL, 0, NULL);
}

static VkResult start(gpu_device *d, vlk_batch *b) {
  VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VkResult result = VK_SUCCESS;
  for (uint32_t i = 0; result == VK_SUCCESS && i < b->n_sets && i <= b->set; i++)
    result = d->ResetDescriptorPool(d->handle, b->sets[i], 0);
  if (result == VK_SUCCESS) result = d->ResetCommandPool(d->handle, b->pool, 0);
  if (result == VK_SUCCESS) result = d->BeginCommandBuffer(b->commands, &info);
  if (result != VK_SUCCESS) return result;
  b->set = b->used = 0;
  if (b->marks) d->CmdResetQueryPool(b->commands, b->marks, 0, VLK_COMMANDS);
  if (!b->times) return result;
  d->CmdResetQueryPool(b->commands, b->times, 0, 2);
  d->CmdWriteTimestamp(b->commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, b->times, 0);
  return result;
}

static VkResult record_dispatch(gpu_device *d, vlk_batch *b, const vlk_step *step,
                                const void *rest) {
  const vlk_layout *layout = &d->layout[step->n_bind];
  const VkDescriptorBufferInfo *range = rest;
  VkWriteDescriptorSet write[GPU_BINDINGS];
  VkDescriptorSet set;
  VkResult result = set_new(d, b, step->n_bind, &set);
  if (result != VK_SUCCESS) return result;
  for (uint32_t i = 0; i < step->n_bind; i++)
    write[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                      .dstSet = set,
                                      .dstBinding = i,
                                      .descriptorCount = 1,
                                      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                      .pBufferInfo = &range[i]};
  d->UpdateDescriptorSets(d->handle, step->n_bind, write, 0, NULL);
  d->CmdBindPipeline(b->commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                     atomic_load(&d->pipeline[step->kernel]));
  d->CmdBindDescriptorSets(b->commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout->pipeline, 0, 1,
                           &set, 0, NULL);
  d->CmdPushConstants(b->commands, layout->pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                      4 * step->n_words, range + step->n_bind);
  d->CmdDispatch(b->commands, step->groups[0], step->groups[1], step->groups[2]);
  return VK_SUCCESS;
}

/* Each behind a barrier that also covers what was submitted before it. */
static VkResult record_script(const gpu_stream *s, vlk_batch *b) {
  gpu_device *d = s->device;
  VkResult result = start(d, b);
  uint32_t marks = 0;
  for (size_t at = 0; result == VK_SUCCESS && at < b->script.n;) {
    vlk_step step;
    memcpy(&step, b->script.data + at, sizeof step);
    const uint8_t *rest = b->script.data + at + sizeof step;
    if (step.kernel == MARK) {
      d->CmdWriteTimestamp(b->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, b->marks, marks++);
      at += sizeof step;
      continue;
    }
    barrier(s, b->commands, false);
    if (step.kernel == MOVE) {
      vlk_move move;
      memcpy(&move, rest, sizeof move);
      d->CmdCopyBuffer(b->commands, move.from, move.to, 1, &move.region);
      at += sizeof step + sizeof move;
    } else {
      result = record_dispatch(d, b, &step, rest);
      at += sizeof step + step.n_bind * sizeof(VkDescriptorBufferInfo) + 4 * (size_t)step.n_words;
    }
  }
  if (result != VK_SUCCESS) return result;
  barrier(s, b->commands, true);
  if (b->times)
    d->CmdWriteTimestamp(b->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, b->times, 1);
  return d->EndCommandBuffer(b->commands);
}

/* The commands of the script are in b->commands.  A buffer that was released since they were
 * recorded may have left its handle to another: then they are recorded anew. */
static VkResult prepare(const gpu_stream *s, vlk_batch *b) {
  gpu_device *d = s->device;
  const uint64_t released = atomic_load(&d->released);
  if (b->known.n && b->known_at == released && b->known.n == b->script.n &&
      !memcmp(b->known.data, b->script.data, b->script.n)) {
    atomic_fetch_add(&d->replayed, 1);
    return VK_SUCCESS;
  }
  b->known.n = 0;
  VkResult result = record_script(s, b);
  if (result != VK_SUCCESS) return result;
  vlk_script done = b->script;
  b->script = b->known;
  b->known = done;
  b->known_at = released;
  return VK_SUCCESS;
}

/* A batch that takes one more command. */
static int32_t next_batch(gpu_stream *s, vlk_batch **out, accel_plugin_error *error) {
  gpu_device *d = s->device;
  int32_t rc = atomic_load(&d->lost) ? vlk_lost(error) : ACCEL_PLUGIN_OK;
  if (!rc && !s->recording && s->n_flying == VLK_IN_FLIGHT - 1) rc = wait_oldest(s, error);
  if (rc) return rc;
  vlk_batch *b = *out = current(s);
  if (s->recording) return ACCEL_PLUGIN_OK;
  VkResult result = batch_new(s, b);
  if (result != VK_SUCCESS) return vlk_fail(d, error, result, "recording commands");
  b->script.n = 0;
  b->staged = b->commands_n = 0;
  b->work = 0;
  b->mark = s->n_us;
  b->n_marks = 0;
  s->recording = true;
  return ACCEL_PLUGIN_OK;
}

/* signal: a semaphore that gets this value when the batch has ended; NULL: none. */
static int32_t submit_signal(gpu_stream *s, VkSemaphore signal, uint64_t value,
                             accel_plugin_error *error) {
  gpu_device *d = s->device;
  vlk_batch *b = current(s);
  VkPipelineStageFlags stages[VLK_WAITS];
  s->recording = false;
  for (uint32_t i = 0; i < s->n_wait; i++)
    stages[i] = only_copies(s) ? VK_PIPELINE_STAGE_TRANSFER_BIT : WORK;
  const VkTimelineSemaphoreSubmitInfo values = {
      .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
      .waitSemaphoreValueCount = s->n_wait,
      .pWaitSemaphoreValues = s->wait_value,
      .signalSemaphoreValueCount = signal ? 1 : 0,
      .pSignalSemaphoreValues = &value};
  const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                             .pNext = s->n_wait || signal ? &values : NULL,
                             .waitSemaphoreCount = s->n_wait,
                             .pWaitSemaphores = s->wait,
                             .pWaitDstStageMask = stages,
                             .commandBufferCount = 1,
                             .pCommandBuffers = &b->commands,
                             .signalSemaphoreCount = signal ? 1 : 0,
                             .pSignalSemaphores = &signal};
  VkResult result = prepare(s, b);
  if (result == VK_SUCCESS) result = d->ResetFences(d->handle, 1, &b->fence);
  if (result == VK_SUCCESS) {
    pthread_mutex_lock(&d->queue_lock);
    result = d->QueueSubmit(s->copies ? d->copy_queue : d->queue, 1, &info, b->fence);
    pthread_mutex_unlock(&d->queue_lock);
  }
  if (result != VK_SUCCESS) return vlk_fail(d, error, result, "submitting commands");
  s->n_flying++;
  s->n_wait = 0;
  return ACCEL_PLUGIN_OK;
}

static int32_t submit(gpu_stream *s, accel_plugin_error *error) {
  return submit_signal(s, VK_NULL_HANDLE, 0, error);
}

static int32_t added(gpu_stream *s, vlk_batch *b, uint64_t work, accel_plugin_error *error) {
  b->work += work;
  b->commands_n++;
  return b->work >= atomic_load(&s->device->quota) || b->commands_n >= VLK_COMMANDS
             ? submit(s, error)
             : ACCEL_PLUGIN_OK;
}

/* Offsets of descriptors are multiples of the device's alignment; what is between goes to the
 * kernel as elements. */
static void describe(const gpu_device *d, const gpu_dispatch *what, VkDescriptorBufferInfo *range,
                     uint32_t *words) {
  uint64_t align = d->card->properties.limits.minStorageBufferOffsetAlignment;
  for (uint32_t i = 0; i < what->n_bind; i++) {
    const gpu_binding *b = &what->bind[i];
    uint64_t extra = align ? b->offset % align : 0;
    range[i] = (VkDescriptorBufferInfo){b->buffer->handle, b->offset - extra, b->bytes + extra};
    words[i] = (uint32_t)(extra / 4);
  }
  memcpy(words + what->n_bind, what->params, what->params_bytes);
}

int32_t vlk_dispatch(gpu_stream *s, const gpu_dispatch *what, accel_plugin_error *error) {
  gpu_device *d = s->device;
  const vlk_step step = {what->kernel,
                         what->n_bind,
                         what->n_bind + what->params_bytes / 4,
                         {what->groups[0], what->groups[1], what->groups[2]}};
  VkDescriptorBufferInfo range[GPU_BINDINGS];
  uint32_t words[GPU_PARAMS / 4];
  VkPipeline pipeline;
  vlk_batch *b;
  int32_t rc = vlk_pipeline(d, what->kernel, &pipeline, error);
  if (!rc) rc = next_batch(s, &b, error);
  if (rc) return rc;
  const size_t ranges = step.n_bind * sizeof *range;
  char *rest = script_add(&b->script, &step, ranges + 4 * (size_t)step.n_words);
  if (!rest) return kit_no_memory(error, b->script.n);
  describe(d, what, range, words);
  memcpy(rest, range, ranges);
  memcpy(rest + ranges, words, 4 * (size_t)step.n_words);
  return added(s, b, (uint64_t)what->groups[0] * what->groups[1] * what->groups[2] + 1, error);
}

static int32_t add_move(gpu_stream *s, vlk_batch *b, const vlk_move *move, uint64_t work,
                        accel_plugin_error *error) {
  static const vlk_step step = {.kernel = MOVE};
  char *rest = script_add(&b->script, &step, sizeof *move);
  if (!rest) return kit_no_memory(error, b->script.n);
  memcpy(rest, move, sizeof *move);
  return added(s, b, work, error);
}

int32_t vlk_copy(gpu_stream *s, const gpu_binding *to, const gpu_binding *from,
                 accel_plugin_error *error) {
  const vlk_move move = {
      from->buffer->handle, to->buffer->handle, {from->offset, to->offset, to->bytes}};
  vlk_batch *b;
  int32_t rc = next_batch(s, &b, error);
  return rc ? rc : add_move(s, b, &move, to->bytes / 1024 + 1, error);
}

int32_t vlk_update(gpu_stream *s, const gpu_binding *to, const void *from,
                   accel_plugin_error *error) {
  vlk_batch *b;
  int32_t rc = next_batch(s, &b, error);
  if (!rc && b->staged + to->bytes > VLK_UPDATES) { /* the next batch has room */
    rc = submit(s, error);
    if (!rc) rc = next_batch(s, &b, error);
  }
  if (!rc && !b->staging) rc = vlk_alloc(s->device, VLK_UPDATES, true, &b->staging, NULL, error);
  if (rc) return rc;
  const vlk_move move = {
      b->staging->handle, to->buffer->handle, {b->staged, to->offset, to->bytes}};
  memcpy((char *)b->staging->mapped + b->staged, from, (size_t)to->bytes);
  b->staged += (uint32_t)(to->bytes + 15) / 16 * 16;
  return add_move(s, b, &move, 1, error);
}

/* A timestamp behind what was asked before it.  Without a clock nothing is told. */
int32_t vlk_mark(gpu_stream *s, double *us, accel_plugin_error *error) {
  static const vlk_step step = {.kernel = MARK};
  static const VkQueryPoolCreateInfo marks = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                              .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                              .queryCount = VLK_COMMANDS};
  gpu_device *d = s->device;
  vlk_batch *b;
  if (d->ms_per_tick <= 0) return ACCEL_PLUGIN_OK;
  int32_t rc = next_batch(s, &b, error);
  if (rc) return rc;
  if (s->n_us == s->room_us) {
    const uint32_t room = s->room_us * 2 + 64;
    double **list = realloc(s->us, room * sizeof *list);
    if (!list) return kit_no_memory(error, room * sizeof *list);
    s->us = list;
    s->room_us = room;
  }
  const VkResult result =
      b->marks ? VK_SUCCESS : d->CreateQueryPool(d->handle, &marks, NULL, &b->marks);
  if (result != VK_SUCCESS) return vlk_fail(d, error, result, "making a query pool");
  if (!script_add(&b->script, &step, 0)) return kit_no_memory(error, b->script.n);
  s->us[s->n_us++] = us;
  b->n_marks++;
  return added(s, b, 0, error);
}

/* ---- runs ---- */

static int32_t begin(gpu_device *d, const accel_plugin_host *host, bool copies, gpu_stream **out,
                     accel_plugin_error *error) {
  gpu_stream **idle = copies ? &d->idle_copies : &d->idle;
  *out = NULL;
  if (atomic_load(&d->lost)) return vlk_lost(error);
  pthread_mutex_lock(&d->stream_lock);
  gpu_stream *s = *idle;
  if (s) *idle = s->next;
  pthread_mutex_unlock(&d->stream_lock);
  if (!s) s = calloc(1, sizeof *s);
  if (!s) return kit_no_memory(error, sizeof *s);
  s->device = d;
  s->host = host;
  s->ms = 0;
  s->n_us = 0;
  s->copies = copies;
  s->n_wait = 0;
  s->first = 0; /* the same batches for the same commands, run after run */
  *out = s;
  return ACCEL_PLUGIN_OK;
}

int32_t vlk_begin(gpu_device *d, const accel_plugin_host *host, gpu_stream **out,
                  accel_plugin_error *error) {
  return begin(d, host, false, out, error);
}

int32_t vlk_begin_copies(gpu_device *d, const accel_plugin_host *host, gpu_stream **out,
                         accel_plugin_error *error) {
  return begin(d, host, true, out, error);
}

int32_t vlk_end(gpu_stream *s, bool abandon, double *device_ms, accel_plugin_error *error) {
  gpu_device *d = s->device;
  int32_t rc = ACCEL_PLUGIN_OK;
  if (s->recording && !abandon) rc = submit(s, error);
  s->recording = false;
  while (s->n_flying) {
    int32_t waited = wait_oldest(s, rc ? NULL : error);
    if (!rc) rc = waited;
  }
  if (!rc) vlk_cache_save(d, s->host);
  if (device_ms) *device_ms = s->ms;
  s->host = NULL;
  gpu_stream **idle = s->copies ? &d->idle_copies : &d->idle;
  pthread_mutex_lock(&d->stream_lock);
  s->next = *idle;
  *idle = s;
  pthread_mutex_unlock(&d->stream_lock);
  return rc;
}

/* ---- events between the streams of one run ---- */

bool vlk_own_memory(uint32_t index) {
  char why[200];
  const vlk_loader *l = vlk_load(why, sizeof why);
  if (!l || index >= l->n_card) return false;
  const VkPhysicalDeviceType type = l->card[index].properties.deviceType;
  return type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ||
         type == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU || type == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

int32_t vlk_event_new(gpu_device *d, gpu_event **out, accel_plugin_error *error) {
  static const VkSemaphoreTypeCreateInfo counts = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  static const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                             .pNext = &counts};
  *out = calloc(1, sizeof **out);
  if (!*out) return kit_no_memory(error, sizeof **out);
  if (!d->card->has_timeline) return ACCEL_PLUGIN_OK;
  const VkResult result = d->CreateSemaphore(d->handle, &info, NULL, &(*out)->semaphore);
  if (result == VK_SUCCESS) return ACCEL_PLUGIN_OK;
  free(*out);
  *out = NULL;
  return vlk_fail(d, error, result, "making a semaphore");
}

void vlk_event_free(gpu_device *d, gpu_event *e) {
  if (e && e->semaphore && !atomic_load(&d->stuck))
    d->DestroySemaphore(d->handle, e->semaphore, NULL);
  free(e);
}

int32_t vlk_record(gpu_stream *s, gpu_event *e, accel_plugin_error *error) {
  vlk_batch *b;
  int32_t rc = next_batch(s, &b, error);
  if (!rc) rc = submit_signal(s, e->semaphore, e->value + 1, error);
  if (!rc) e->value++;
  return rc;
}

int32_t vlk_wait(gpu_stream *s, gpu_event *e, accel_plugin_error *error) {
  vlk_batch *b;
  int32_t rc = ACCEL_PLUGIN_OK;
  if (!e->semaphore || !e->value) return s->recording ? submit(s, error) : ACCEL_PLUGIN_OK;
  if (s->n_wait == VLK_WAITS) rc = next_batch(s, &b, error);
  if (!rc && s->recording) rc = submit(s, error);
  if (rc) return rc;
  s->wait[s->n_wait] = e->semaphore;
  s->wait_value[s->n_wait++] = e->value;
  return rc;
}

/* Without semaphores that count nobody can be asked, and all that was submitted is waited for. */
static VkResult wait_for_all(gpu_device *d, bool wait) {
  if (!wait) return VK_TIMEOUT;
  pthread_mutex_lock(&d->queue_lock);
  const VkResult result = d->DeviceWaitIdle(d->handle);
  pthread_mutex_unlock(&d->queue_lock);
  return result;
}

static VkResult wait_for(gpu_device *d, const gpu_event *e, bool wait) {
  const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                    .semaphoreCount = 1,
                                    .pSemaphores = &e->semaphore,
                                    .pValues = &e->value};
  uint64_t value = 0;
  if (wait) return d->WaitSemaphoresKHR(d->handle, &info, d->timeout_ns);
  const VkResult result = d->GetSemaphoreCounterValueKHR(d->handle, e->semaphore, &value);
  return result != VK_SUCCESS || value >= e->value ? result : VK_TIMEOUT;
}

int32_t vlk_reached(gpu_device *d, gpu_event *e, bool wait, bool *out, accel_plugin_error *error) {
  *out = !e->value;
  if (*out) return ACCEL_PLUGIN_OK;
  if (atomic_load(&d->lost)) return vlk_lost(error);
  const VkResult result = e->semaphore ? wait_for(d, e, wait) : wait_for_all(d, wait);
  *out = result == VK_SUCCESS;
  if (*out || (result == VK_TIMEOUT && !wait)) return ACCEL_PLUGIN_OK;
  if (result != VK_TIMEOUT) return vlk_fail(d, error, result, "waiting for an event");
  atomic_store(&d->lost, true);
  atomic_store(&d->stuck, true);
  return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_LOST, -1,
                  "the Vulkan device did not answer within %llu s and counts as lost",
                  (unsigned long long)(d->timeout_ns / 1000000000u));
}
