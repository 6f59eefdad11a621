/* cpu_launch.c - what the kit asks of a node, answered by the line of its op in the table
 * (cpu_ops.c).
 *
 * Ops without a line, and shapes that a launch does not take, go to the kit's scalar kernels; the
 * weights that those need row-major are kept so by cpu_weights.c. */
#include "cpu_launch.h"

#include "cpu_ops.h"

/* Builds with -DACCEL_BREAK_KERNEL (tests of accel verify --all): every second number that the op
 * gives is four times too large.  Softmax, linear and layer norm would be found by the self-test of
 * detection, and the device not be used at all. */
#ifdef CPU_BREAK_OP
#ifndef CPU_BREAK_NORM
#define CPU_BREAK_NORM -1
#endif
static void break_result(const kit_launch *l) {
  const kit_tensor *y = &l->out[0];
  const int64_t norm = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_NORM_KIND, ACCEL_PLUGIN_NORM_LAYER);
  if (l->node->op != CPU_BREAK_OP || y->dtype != ACCEL_PLUGIN_F32 ||
      (CPU_BREAK_NORM >= 0 && norm != CPU_BREAK_NORM))
    return;
  for (int64_t i = 1; i < y->elements; i += 2) kit_f32(y)[i] *= 4;
}
#else
static void break_result(const kit_launch *l) { (void)l; }
#endif

int32_t cpu_launch(void *self, const kit_launch *l, accel_plugin_error *error) {
  const cpu_op *op = cpu_op_of(l->node->op);
  const uint32_t mode = cpu_float_mode_flush();
  const int32_t rc = op->launch ? op->launch(self, l, error) : kit_scalar(l->node->op)(l, error);
  cpu_float_mode_restore(mode);
  if (rc == ACCEL_PLUGIN_OK) break_result(l);
  return rc;
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
