/* cpu_moe_stream.h - experts that are read when they are routed.
 *
 * Slots of equal size hold one expert each, its packed matrices behind one another: those that were
 * used last, of all layers (LRU).  A launch uses the chosen experts that a slot has first, while the
 * others are being read, and then these in the order in which they were asked for, which is the
 * order in which they come.  An expert is read in parts through slots of the host's reader that are
 * for experts alone: rows that are packed, or in coded formats segments of the cache.
 *
 *   cpu_experts_begin: which are there; asks for the others
 *     cpu_experts_take    for each of the others
 *   cpu_experts_end
 *
 * One launch at a time, within the turn of its run.
 */
#ifndef ACCEL_CPU_MOE_STREAM_H
#define ACCEL_CPU_MOE_STREAM_H

#include "cpu.h"

typedef struct cpu_expert_slots {
  /* planned */
  uint64_t slot_bytes;  /* of the largest expert; 0: none is streamed */
  uint32_t n_expert, n; /* experts of all layers; slots */
  /* results of a pass with more pairs than CPU_MOE_PAIRS, so that prompts read experts once: bytes of
   * a pair; pairs that steps have at most; pairs there is memory for, or 0 */
  uint64_t pair_bytes, most_pairs, pairs;
  /* opened */
  const accel_plugin_host *host; /* of init */
  char *memory;                  /* [n][slot_bytes] */
  char *results;                 /* [pairs][pair_bytes] */
  struct cpu_expert_slot *slot;  /* [n] */
  int32_t *at;                   /* [n_expert] slot of each; -1: none */
  uint64_t clock;                /* uses so far */
  uint32_t first, ring;          /* slots [first, first + ring) of the reader */
  /* of the launch under way */
  const cpu_moe *moe;
  const int32_t *missing; /* [n_missing] that are read; `taken` of them have come */
  uint32_t n_missing, taken;
  uint32_t posted, next, used; /* parts of these; slot of the reader for the next; taken slots */
} cpu_expert_slots;

/* Of the endpoint's stream. */
cpu_expert_slots *cpu_stream_experts(const cpu_self *self);
/* Decides which experts of the endpoint are streamed, and the size of a slot; one slot. */
void cpu_expert_slots_plan(cpu_self *self, const uint8_t *row_dtype, cpu_expert_slots *out);
/* Memory for results, a part of the bytes, and as many more slots as the others allow, at most one
 * an expert; answers the bytes of slots, and in *results the others. */
uint64_t cpu_expert_slots_take(cpu_expert_slots *slots, uint64_t bytes, uint64_t *results);
/* Adds experts to the stream_ fields of an estimate. */
int32_t cpu_expert_slots_answer(const cpu_self *self, const cpu_expert_slots *slots,
                                accel_plugin_estimate *out, accel_plugin_error *error);
/* Memory of the slots; first, ring: slots of the reader. */
int32_t cpu_expert_slots_open(cpu_expert_slots *slots, const accel_plugin_host *host,
                              uint32_t first, uint32_t ring, accel_plugin_error *error);
void cpu_expert_slots_close(cpu_expert_slots *slots);

/* The i-th matrix of streamed experts; NULL: there are no more. */
cpu_experts *cpu_streamed_experts(cpu_self *self, uint32_t i);
/* Is the weight the matrices of such experts? */
bool cpu_experts_stream(const cpu_self *self, int32_t weight);

/* Puts the chosen experts, in ascending order, into the order in which they are to be used: first
 * *n_found that are in memory.  chosen[n] is kept by reference until cpu_experts_end. */
int32_t cpu_experts_begin(const cpu_self *self, const cpu_moe *moe, int32_t *chosen, int32_t n,
                          int32_t *n_found, accel_plugin_error *error);
/* Waits for the next expert of the others, in place of the one that was used longest ago. */
int32_t cpu_experts_take(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
/* Also after a failure; tells the host what was found and read. */
void cpu_experts_end(const cpu_self *self, int32_t n_found);
/* Memory of a pass's results, in place of the workspace: answers for how many pairs; 0: there is
 * none, and nothing is changed. */
int64_t cpu_experts_results(const cpu_self *self, int32_t **order, int32_t **place, float **down);
/* Panels of an expert's matrix, of streamed ones until another one is taken. */
const char *cpu_experts_panels(const cpu_self *self, const cpu_experts *matrix, int32_t expert);

#endif
