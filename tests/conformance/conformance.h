/* conformance.h - the parts of the conformance program: cases (goldens or random), programs built
 * from them, runs on a plugin, comparison. */
#ifndef ACCEL_TESTS_CONFORMANCE_H
#define ACCEL_TESTS_CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/plugin.h"
#include "core/arena.h"
#include "core/threads.h"
#include "program/program.h"

enum { CONF_OPERANDS = 16, CONF_RUNS = 4, CONF_SPACES = 2, CONF_ATTRS = 20, CONF_SEQUENCES = 8 };

typedef struct conf_tensor {
  bool present;
  accel_plugin_dtype dtype;
  uint32_t rank;
  int64_t dim[ACCEL_PLUGIN_MAX_RANK], elements;
  const void *data; /* F32 or I32, row-major */
} conf_tensor;

typedef struct conf_run {
  /* out absent in random cases: the reference plugin says what is right */
  conf_tensor in[CONF_OPERANDS], out[2];
  const int32_t *lengths[CONF_SPACES];
  int64_t items[CONF_SPACES];
  int32_t sequence[CONF_SEQUENCES];
  uint32_t n_sequence;
} conf_run;

typedef struct conf_case {
  const char *name, *op_name;
  uint32_t op;
  accel__attr attr[CONF_ATTRS];
  bool attr_dims[CONF_ATTRS]; /* values of .v are numbers, to become dims */
  uint32_t n_attr, n_operand, n_space, n_run;
  char role[CONF_OPERANDS]; /* i input, w weight, c constant, - absent */
  uint32_t use[CONF_OPERANDS];
  int32_t space[CONF_OPERANDS];
  struct {
    bool ragged;
    int64_t rows, items;
  } spaces[CONF_SPACES];
  bool wanted[2];
  bool has_state;
  accel_plugin_state state;
  conf_run run[CONF_RUNS];
} conf_case;

typedef struct conf_cases {
  conf_case *at;
  uint32_t n, room;
  accel__arena arena;
  struct accel__checkpoint *file[ACCEL_PLUGIN_OP_COUNT]; /* the cases point into their mappings */
  uint32_t n_file;
} conf_cases;
void conf_cases_free(conf_cases *cases);

/* conformance_cases.c: goldens of a directory; conformance_random.c: seeded cases with the shapes
 * of real models.  Return an error text or NULL. */
const char *conf_load(const char *directory, conf_cases *out);
const char *conf_random(uint64_t seed, conf_cases *out);
conf_case *conf_add(conf_cases *cases, const char *name, const char *op);
uint32_t conf_op_number(const char *name); /* 0: unknown */

/* conformance_plugin.c: a loaded plugin, and the host it is given. */
typedef struct conf_plugin {
  const accel_plugin *table;
  uint32_t device;
  accel__pool *pool;
  accel_plugin_host host;
  char warning[300]; /* the last one of the plugin */
  void *held;        /* a buffer, so that the device stays open from case to case, or NULL */
  bool near;         /* rows alone need not give the bits of a batch */
} conf_plugin;
const char *conf_plugin_open(const char *path, uint32_t device, uint32_t threads,
                             conf_plugin *out); /* reason why not, or NULL */
void conf_plugin_close(conf_plugin *plugin);

/* conformance_precision.c: the formats a precision gives the weights of a program, and weights in
 * them. */
typedef struct conf_weights {
  uint32_t n;
  accel_plugin_format *format;
  accel_plugin_weight_view *view;
  void **memory;
} conf_weights;
const char *conf_precision_at(uint32_t i); /* all of formats.def; NULL: there are no more */
bool conf_precision(const char *name, accel_plugin_precision *out); /* false: unknown name */
const char *conf_weights_new(const accel_plugin_program *p, const accel_plugin_precision *precision,
                             const float *const *values, conf_weights *out);
void conf_weights_free(conf_weights *w);

/* conformance_run.c */
/* NO: supports says so, and init refuses it */
typedef enum conf_verdict { CONF_PASS, CONF_FAIL, CONF_NO } conf_verdict;
typedef struct conf_result {
  conf_verdict verdict;
  char why[400];
} conf_result;
/* Runs a case at a precision.  Expected: the goldens at fp32, else what `reference` (may be NULL
 * when goldens do) computes.
 */
conf_result conf_run_case(const conf_case *c, const char *precision, conf_plugin *plugin,
                          conf_plugin *reference);
/* Programs no plugin may accept: unknown op, unknown attribute, an index out of range.  Empty text:
 * all refused. */
conf_result conf_refusals(conf_plugin *plugin);

#endif
