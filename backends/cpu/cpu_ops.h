/* cpu_ops.h - the table of ops: what the plugin knows of each, one line an op. */
#ifndef ACCEL_CPU_OPS_H
#define ACCEL_CPU_OPS_H

#include "cpu.h"

/* A line of the table; members that are NULL or 0 mean that the op has none of it. */
typedef struct cpu_op {
  cpu_launch_fn *launch;       /* runs a node; NULL: the kit's scalar kernel does */
  cpu_workspace_fn *workspace; /* bytes of scratch memory that `launch` needs */
  /* Bit i: the rows of operand i may lie further apart than they are long (kit_backend.strided);
   * only for the nodes that strided_when answers true for, where it is set. */
  uint32_t strided;
  bool (*strided_when)(const accel_plugin_node *node);
  cpu_fuse_fn *fuse_parallel; /* kit_backend.fuse_parallel, for nodes of this op as the first */
  cpu_fuse_fn *fuse_chain;    /* kit_backend.fuse_chain, likewise */
  cpu_limit_fn *limit;        /* kit_backend.limit_us */
  /* Whether operand `operand` of the node is packed at init by the op's own code, so that nobody
   * keeps its rows as they are.  Linear's operands are packed by cpu_weights.c. */
  bool (*packs)(const accel_plugin_program *program, const accel_plugin_node *node,
                uint32_t operand);
} cpu_op;

/* Never NULL: ops without a line have an empty one. */
const cpu_op *cpu_op_of(uint32_t op);

#endif
