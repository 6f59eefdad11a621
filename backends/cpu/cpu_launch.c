/* cpu_launch.c - from an op to the function that runs it, and how work is split over the host's
 * threads.
 *
 * Ops without a vector form here (or shapes a vector form does not take) go to the kit's scalar
 * kernels; the linear matrices that those would need row-major are kept so by cpu_weights.c. */
#include "cpu.h"
#include "cpu_ops.h"

enum { TASKS_PER_WORKER = 4 };
/* nanoseconds: a few times what waking the other threads costs */
static const double WORTH_SPLITTING = 8000.0;

uint32_t cpu_workers(const kit_launch *l) {
  return l->host && l->host->parallel && l->host->workers ? l->host->workers(l->host->self) : 1;
}

void cpu_parallel(const kit_launch *l, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  if (n > 1 && cpu_workers(l) > 1) {
    l->host->parallel(l->host->self, n, fn, arg);
    return;
  }
  for (uint32_t i = 0; i < n; i++) fn(arg, i, 0);
}

uint32_t cpu_tasks(const kit_launch *l, int64_t rows, double cost) {
  uint32_t workers = cpu_workers(l);
  double all = cost * (double)rows;
  if (workers < 2 || rows < 2 || all < WORTH_SPLITTING) return 1;
  uint32_t n = all > 16 * WORTH_SPLITTING * workers ? workers * TASKS_PER_WORKER : workers;
  return (int64_t)n < rows ? n : (uint32_t)rows;
}

int32_t cpu_launch(void *self, const kit_launch *l, accel_plugin_error *error) {
  const cpu_self *s = self;
  switch (l->node->op) {
    case ACCEL_PLUGIN_OP_LINEAR:
      return cpu_launch_linear(s, l, error);
    case ACCEL_PLUGIN_OP_MATMUL:
      return cpu_launch_matmul(s, l, error);
    case ACCEL_PLUGIN_OP_ATTENTION:
      return cpu_launch_attention(s, l, error);
    case ACCEL_PLUGIN_OP_NORM:
      return cpu_launch_norm(s, l, error);
    case ACCEL_PLUGIN_OP_SOFTMAX:
      return cpu_launch_softmax(s, l, error);
    case ACCEL_PLUGIN_OP_UNARY:
      return cpu_launch_unary(s, l, error);
    case ACCEL_PLUGIN_OP_BINARY:
      return cpu_launch_binary(s, l, error);
    case ACCEL_PLUGIN_OP_GATHER:
      return cpu_launch_gather(s, l, error);
    case ACCEL_PLUGIN_OP_REDUCE:
      return cpu_launch_reduce(s, l, error);
    case ACCEL_PLUGIN_OP_ROPE:
      return cpu_launch_rope(s, l, error);
  }
  return cpu_launch_op(s, l, error);
}

uint64_t cpu_workspace(void *self, const kit_launch *shapes, uint32_t workers) {
  cpu_kernels kernels;
  if (self)
    kernels = ((const cpu_self *)self)->kernels;
  else
    cpu_kernels_of(cpu_isa_choose(NULL, 0), &kernels);
  if (shapes->node->op == ACCEL_PLUGIN_OP_ATTENTION)
    return cpu_attention_workspace(&kernels, shapes, workers);
  const bool packed = self && shapes->node->op == ACCEL_PLUGIN_OP_LINEAR &&
                      ((const cpu_self *)self)->linear_of[shapes->index] >= 0;
  if (shapes->node->op == ACCEL_PLUGIN_OP_LINEAR && !packed && cpu_blas_wanted(kernels.isa))
    return cpu_blas_workspace(shapes);
  if (shapes->node->op == ACCEL_PLUGIN_OP_LINEAR)
    return cpu_linear_workspace(self, shapes, workers);
  if (shapes->node->op == ACCEL_PLUGIN_OP_MATMUL)
    return cpu_matmul_workspace(&kernels, shapes, workers);
  if (shapes->node->op == ACCEL_PLUGIN_OP_ROPE) return cpu_rope_workspace(shapes, workers);
  return cpu_op_workspace(self, &kernels, shapes, workers);
}

bool cpu_strided(const accel_plugin_program *program, const accel_plugin_node *node,
                 uint32_t operand) {
  (void)program;
  switch (node->op) {
    case ACCEL_PLUGIN_OP_CONV: /* rows */
      return operand == 0 &&
             (node->state >= 0 || kit_attr_i(node, ACCEL_PLUGIN_ATTR_SPACE, -1) >= 0);
    case ACCEL_PLUGIN_OP_LINEAR:
      return operand == 0;
    case ACCEL_PLUGIN_OP_ATTENTION:
      return operand <= 2; /* q, k, v */
    case ACCEL_PLUGIN_OP_ROPE:
      return operand == 0;
  }
  return false;
}

bool cpu_fuse_parallel(void *self, const accel_plugin_program *program,
                       const accel_plugin_node *first, const accel_plugin_node *other) {
  return self && first->op == ACCEL_PLUGIN_OP_LINEAR &&
         cpu_linear_fuse_parallel(self, program, first, other);
}

bool cpu_fuse_chain(void *self, const accel_plugin_program *program, const accel_plugin_node *first,
                    const accel_plugin_node *next) {
  if (!self || first->op != ACCEL_PLUGIN_OP_LINEAR || next->op != ACCEL_PLUGIN_OP_LINEAR)
    return self && cpu_conv_fuse_chain(self, program, first, next);
  return cpu_linear_fuse_chain(self, program, first, next);
}
