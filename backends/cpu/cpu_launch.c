/* cpu_launch.c - what the kit asks of a node, answered by the line of its op in the table
 * (cpu_ops.c).
 *
 * Ops without a line, and shapes that a launch does not take, go to the kit's scalar kernels; the
 * weights that those need row-major are kept so by cpu_weights.c. */
#include "cpu_launch.h"

#include "cpu_ops.h"

int32_t cpu_launch(void *self, const kit_launch *l, accel_plugin_error *error) {
  const cpu_op *op = cpu_op_of(l->node->op);
  return op->launch ? op->launch(self, l, error) : kit_scalar(l->node->op)(l, error);
}

/* self is NULL before there is an endpoint: then the kernels are those that one would use. */
uint64_t cpu_workspace(void *self, const kit_launch *shapes, uint32_t workers) {
  const cpu_self *s = self;
  const cpu_op *op = cpu_op_of(shapes->node->op);
  cpu_kernels kernels;
  if (!op->workspace) return 0;
  if (!s) cpu_kernels_of(cpu_isa_choose(NULL, 0), &kernels);
  return op->workspace(s, s ? &s->kernels : &kernels, shapes, workers);
}

bool cpu_strided(const accel_plugin_program *program, const accel_plugin_node *node,
                 uint32_t operand) {
  const cpu_op *op = cpu_op_of(node->op);
  (void)program;
  return operand < 32 && op->strided >> operand & 1 &&
         (!op->strided_when || op->strided_when(node));
}

bool cpu_fuse_parallel(void *self, const accel_plugin_program *program,
                       const accel_plugin_node *first, const accel_plugin_node *other) {
  const cpu_op *op = cpu_op_of(first->op);
  return self && op->fuse_parallel && op->fuse_parallel(self, program, first, other);
}

bool cpu_fuse_chain(void *self, const accel_plugin_program *program, const accel_plugin_node *first,
                    const accel_plugin_node *next) {
  const cpu_op *op = cpu_op_of(first->op);
  return self && op->fuse_chain && op->fuse_chain(self, program, first, next);
}

double cpu_limit_us(void *self, const kit_launch *l) {
  const cpu_self *s = self;
  const cpu_op *op = cpu_op_of(l->node->op);
  return s->limits && op->limit ? op->limit(s, l) : 0;
}
