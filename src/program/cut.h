/* cut.h - a finished program cut between stages into parts, each a program of its own that a plugin
 * can be handed: the placement of one model over several devices.
 *
 * Nodes go with their stages; states go with their nodes; a weight is in every part that uses it,
 * so a tied one is in several.  Symbols, dims and row spaces are repeated in each part, and so are
 * the inputs that bind them or tell lengths.  A value that a later part reads is an output of the
 * part that computes it and an input of those that read it.  Parts run one after the other give the
 * numbers of the whole.
 *
 * A node counts to the stage of the latest node that it needs, whatever its own number says, and
 * all nodes of a state to one stage: so every program can be cut anywhere, unless a part is left
 * empty.
 */
#ifndef ACCEL_PROGRAM_CUT_H
#define ACCEL_PROGRAM_CUT_H

#include "program/program.h"

/* How an entry of the whole program meets a part. */
typedef struct accel__part_entry {
  int32_t index; /* in part.program.entry; -1: the part has no node of this entry */
  /* For each input of the part's entry: which input of the whole's entry it is; -1: a value of an
   * earlier part, under the same tensor index. */
  const int32_t *in;
  /* For each output: which output of the whole's entry; -1: a value that later parts read. */
  const int32_t *out;
  bool has_state; /* a node of the part's entry has a state */
} accel__part_entry;

/* Some stages of a program.  Tables that parts share lie in the whole program, which must outlive
 * the part; the others in the arena. */
typedef struct accel__part {
  uint32_t first_stage, last_stage;
  /* Tensors have the indices of the whole program; those that the part has nothing to do with are
   * values that no node computes. */
  accel_plugin_program program;
  const uint32_t *weight;         /* [program.n_weight] index in the whole */
  const uint32_t *node;           /* [program.n_node] index in the whole */
  const accel__part_entry *entry; /* [n_entry of the whole] */
} accel__part;

/* The stage each node counts to, stage[n_node]. */
accel_status accel__program_node_stages(const accel_plugin_program *p, uint32_t *stage);

/* Parts 0 .. n-1: part k has the stages after last[k-1] up to last[k]; last[n-1] is the program's
 * last stage.  ACCEL_ERROR_UNSUPPORTED names a part that has no node. */
accel_status accel__program_cut(const accel_plugin_program *p, const uint32_t *last, uint32_t n,
                                accel__arena *arena, accel__part *part);

#endif
