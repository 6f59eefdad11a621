/* cpu_moe_hits.h - how many of the experts that rows are routed to an LRU cache holds, when routers
 * like all experts alike.
 *
 * That is not the share of all experts that there are slots for.  A row passes the layers in order,
 * so between two uses of an expert whole rounds of the other layers pass, one for each row: it is
 * still there when these and its own layer used fewer other experts than there are slots.  With few
 * experts a layer that goes by steps: slots for less than one row's experts find nothing, and 39 of 64
 * (8 layers of 8, 2 a row) find 56 %, not 61 %. */
#ifndef ACCEL_CPU_MOE_HITS_H
#define ACCEL_CPU_MOE_HITS_H

#include <stdint.h>

typedef struct cpu_moe_layer {
  double experts, chosen; /* chosen of a row, 1 to experts */
  double bytes;           /* of those chosen */
} cpu_moe_layer;

/* Bytes that one row after the other misses, on average, with so many slots for all layers. */
double cpu_moe_missed(const cpu_moe_layer *layer, uint32_t n, uint32_t slots);

#endif
