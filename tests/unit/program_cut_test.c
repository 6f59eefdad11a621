/* program_cut_test.c - programs cut between stages: what goes where, odd programs, and every
 * program of the fixtures cut everywhere. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "models/model_build.h"
#include "program/cut.h"

/* ---- a small decoder ---- */

typedef struct decoder {
  accel__program *p;
  accel__dim T, B, C;
  int32_t space, state;
  accel__tensor lengths, ids, table, x;
} decoder;

static accel__tensor weight(decoder *d, const char *name, int64_t n, int64_t k) {
  return accel__weight(d->p,
                       &(accel__weight_spec){
                           .name = name, .use = ACCEL_PLUGIN_USE_LINEAR, .rank = 2, .dim = {n, k}});
}

/* Stage 0: x = table[ids]. */
static decoder begin(void) {
  decoder d = {.p = accel__program_new("test")};
  assert_non_null(d.p);
  d.T = accel__symbol(d.p, "T", 1, 512, 16);
  d.B = accel__symbol(d.p, "B", 1, 0, 1);
  d.C = accel__const_dim(d.p, 8);
  d.lengths = accel__input(d.p, "lengths", ACCEL_PLUGIN_I32, -1, 1, &d.B);
  d.space = accel__space_ragged(d.p, "tokens", d.lengths, d.T, d.B);
  d.ids = accel__input(d.p, "ids", ACCEL_PLUGIN_I32, d.space, 1, &d.T);
  d.table = weight(&d, "table", 31, 8);
  accel__at(d.p, 0, "embeddings");
  d.x = accel__gather(d.p, d.table, d.ids);
  return d;
}

static accel__tensor layer(decoder *d, uint32_t stage, const char *name, accel__tensor x) {
  accel__at(d->p, stage, "layers.%u", stage - 1);
  return accel__linear(d->p, x, weight(d, name, 8, 8), -1, x, ACCEL_PLUGIN_ACT_NONE);
}

static const accel_plugin_program *finish(decoder *d, const accel__tensor *out, uint32_t n) {
  accel__entry(d->p, "forward", (accel__tensor[]){d->lengths, d->ids}, 2, out, n);
  if (accel__program_finish(d->p) != ACCEL_OK) fail_msg("%s", accel__message());
  return accel__program_view(d->p);
}

static bool has_weight(const accel__part *part, const char *name) {
  for (uint32_t i = 0; i < part->program.n_weight; i++)
    if (!strcmp(part->program.weight[i].name, name)) return true;
  return false;
}

static void test_what_goes_where(void **state) {
  (void)state;
  decoder d = begin();
  accel__tensor one = layer(&d, 1, "w1", d.x), two = layer(&d, 2, "w2", one);
  accel__at(d.p, 3, "head");
  accel__tensor logits = accel__linear(d.p, two, d.table, -1, -1, ACCEL_PLUGIN_ACT_NONE); /* tied */
  const accel_plugin_program *p = finish(&d, (accel__tensor[]){one, logits, one}, 3);
  assert_int_equal(accel__program_layers(d.p), 2);
  accel__arena arena = {0};
  accel__part part[2];
  const uint32_t last[2] = {1, 3};
  assert_int_equal(accel__program_cut(p, last, 2, &arena, part), ACCEL_OK);
  assert_int_equal(part[0].first_stage, 0);
  assert_int_equal(part[0].last_stage, 1);
  assert_int_equal(part[1].first_stage, 2);
  assert_true(has_weight(&part[0], "table") && has_weight(&part[0], "w1"));
  assert_true(has_weight(&part[1], "table") && has_weight(&part[1], "w2"));
  assert_false(has_weight(&part[0], "w2") || has_weight(&part[1], "w1"));
  for (int k = 0; k < 2; k++) {
    for (uint32_t i = 0; i < part[k].program.n_weight; i++)
      assert_string_equal(part[k].program.weight[i].name, p->weight[part[k].weight[i]].name);
    assert_int_not_equal(part[k].program.hash, p->hash);
  }
  assert_int_not_equal(part[0].program.hash, part[1].program.hash);
  /* `one` is an output twice over, and crosses */
  const accel_plugin_entry *first = &part[0].program.entry[0], *second = &part[1].program.entry[0];
  assert_int_equal(first->n_out, 3);
  assert_int_equal(part[0].entry[0].out[0], 0);
  assert_int_equal(part[0].entry[0].out[1], 2);
  assert_int_equal(part[0].entry[0].out[2], -1);
  assert_int_equal(first->out[2], one);
  assert_int_equal(second->in[0], one);
  assert_int_equal(part[1].entry[0].in[0], -1);
  assert_int_equal(second->n_out, 1);
  assert_int_equal(part[1].entry[0].out[0], 1);
  /* lengths, which tell the rows of its space, are repeated, ids are not */
  assert_int_equal(second->n_in, 2);
  assert_int_equal(second->in[1], d.lengths);
  assert_int_equal(part[1].program.tensor[one].kind, ACCEL_PLUGIN_TENSOR_INPUT);
  accel__arena_free(&arena);
  accel__program_free(&d.p);
}

static void test_inputs_that_bind(void **state) {
  (void)state;
  accel__program *p = accel__program_new("sounds");
  const int64_t stride = 2;
  accel__dim one = accel__const_dim(p, 1), four = accel__const_dim(p, 4);
  accel__dim L = accel__symbol(p, "L", 8, 0, 32);
  accel__tensor sound =
      accel__input(p, "sound", ACCEL_PLUGIN_F32, -1, 3, (accel__dim[]){one, four, L});
  accel__tensor kernel = accel__weight(
      p, &(accel__weight_spec){
             .name = "kernel", .use = ACCEL_PLUGIN_USE_CONV, .rank = 3, .dim = {4, 4, 3}});
  accel__at(p, 0, "patches");
  accel__tensor first = accel__node(p, ACCEL_PLUGIN_OP_CONV, (accel__tensor[]){sound, kernel}, 2,
                                    &ACCEL_IV(STRIDE, &stride, 1), 1, NULL, 1);
  accel__at(p, 1, "layers.0");
  accel__tensor out = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, first, first);
  accel__entry(p, "forward", &sound, 1, &out, 1);
  if (accel__program_finish(p) != ACCEL_OK) fail_msg("%s", accel__message());
  accel__arena arena = {0};
  accel__part part[2];
  const uint32_t last[2] = {0, 1};
  assert_int_equal(accel__program_cut(accel__program_view(p), last, 2, &arena, part), ACCEL_OK);
  /* L does not follow from half of it: the sound comes along for its shape */
  const accel_plugin_entry *second = &part[1].program.entry[0];
  assert_int_equal(second->n_in, 2);
  assert_int_equal(second->in[0], first);
  assert_int_equal(second->in[1], sound);
  accel__arena_free(&arena);
  accel__program_free(&p);
}

/* ---- odd programs ---- */

static void test_stages_that_go_back(void **state) {
  (void)state;
  decoder d = begin();
  accel__tensor one = layer(&d, 2, "w1", d.x), two = layer(&d, 1, "w2", one),
                three = layer(&d, 3, "w3", two);
  const accel_plugin_program *p = finish(&d, &three, 1);
  accel__arena arena = {0};
  accel__part part[2];
  uint32_t stage[8];
  assert_true(p->n_node == 4);
  assert_int_equal(accel__program_node_stages(p, stage), ACCEL_OK);
  const uint32_t expected[4] = {0, 2, 2, 3};
  assert_memory_equal(stage, expected, sizeof expected);
  const uint32_t last[2] = {2, 3}, empty[3] = {0, 1, 3};
  assert_int_equal(accel__program_cut(p, last, 2, &arena, part), ACCEL_OK);
  assert_true(has_weight(&part[0], "w2") && has_weight(&part[1], "w3"));
  assert_int_equal(accel__program_validate(&part[1].program), ACCEL_OK);
  /* nothing counts to stage 1 */
  accel__part three_parts[3];
  assert_int_equal(accel__program_cut(p, empty, 3, &arena, three_parts), ACCEL_ERROR_UNSUPPORTED);
  assert_non_null(strstr(accel__message(), "stages 1 to 1"));
  accel__arena_free(&arena);
  accel__program_free(&d.p);
}

/* A convolution's state that two stages use keeps their nodes together. */
static accel__tensor stateful(decoder *d, uint32_t stage, const char *name, accel__tensor x,
                              int32_t kept) {
  accel__at(d->p, stage, "layers.%u", stage - 1);
  accel__tensor kernel = accel__weight(
      d->p, &(accel__weight_spec){
                .name = name, .use = ACCEL_PLUGIN_USE_CONV, .rank = 3, .dim = {8, 1, 4}});
  const accel__tensor in[] = {x, kernel};
  const int64_t pads[2] = {3, 0};
  const accel__attr attr[] = {ACCEL_I(GROUPS, 8), ACCEL_IV(PADS, pads, 2),
                              ACCEL_I(SPACE, d->space)};
  accel__with_state(d->p, kept);
  return accel__node(d->p, ACCEL_PLUGIN_OP_CONV, in, 2, attr, 3, NULL, 1);
}

static void test_states(void **state) {
  (void)state;
  decoder d = begin();
  const accel_plugin_state one = {.name = "one",
                                  .kind = ACCEL_PLUGIN_STATE_CONV,
                                  .heads = 1,
                                  .k_dim = 8,
                                  .v_dim = 1,
                                  .window = 3,
                                  .share = -1};
  accel_plugin_state other = one;
  const int32_t a = accel__state(d.p, &one);
  other.name = "other";
  const int32_t b = accel__state(d.p, &other);
  accel__tensor x = stateful(&d, 1, "k1", d.x, a);
  x = stateful(&d, 2, "k2", x, b);
  x = layer(&d, 3, "w3", x);
  if (accel__program_failed(d.p)) { /* says what the op wants */
    accel__program_finish(d.p);
    fail_msg("%s", accel__message());
  }
  const accel_plugin_program *p = finish(&d, &x, 1);
  accel__arena arena = {0};
  accel__part part[2];
  const uint32_t last[2] = {1, 3};
  assert_int_equal(accel__program_cut(p, last, 2, &arena, part), ACCEL_OK);
  for (int k = 0; k < 2; k++) {
    assert_int_equal(part[k].program.n_state, 1);
    assert_string_equal(part[k].program.state[0].name, k ? "other" : "one");
    assert_true(part[k].entry[0].has_state);
    assert_int_equal(accel__program_validate(&part[k].program), ACCEL_OK);
  }
  accel__arena_free(&arena);
  accel__program_free(&d.p);
  /* the second user of `one` pulls the first to its stage, and with it all that is between */
  d = begin();
  const int32_t shared = accel__state(d.p, &one);
  x = stateful(&d, 1, "k1", d.x, shared);
  x = layer(&d, 2, "w2", x);
  x = stateful(&d, 3, "k3", x, shared);
  p = finish(&d, &x, 1);
  uint32_t stage[8];
  const uint32_t expected[4] = {0, 3, 3, 3};
  assert_int_equal(accel__program_node_stages(p, stage), ACCEL_OK);
  assert_memory_equal(stage, expected, sizeof expected);
  accel__program_free(&d.p);
}

static void test_refused(void **state) {
  (void)state;
  decoder d = begin();
  accel__tensor out = layer(&d, 1, "w1", d.x);
  const accel_plugin_program *p = finish(&d, &out, 1);
  const uint32_t wrong[][2] = {{1, 1}, {1, 0}, {0, 0}, {0, 2}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    accel__arena arena = {0};
    accel__part part[2];
    assert_int_equal(accel__program_cut(p, wrong[i], 2, &arena, part), ACCEL_ERROR_ARGUMENT);
    accel__arena_free(&arena);
  }
  accel__program_free(&d.p);
}

/* ---- programs of models ---- */

/* What holds of every cut: parts are valid, each node that an entry needs is in one of them, and
 * what a part reads an earlier one gives. */
static void check_parts(const accel_plugin_program *p, const accel__part *part, uint32_t n) {
  uint32_t *seen = calloc(p->n_node + 1u, sizeof *seen);
  uint8_t *given = malloc(p->n_tensor + 1u);
  for (uint32_t k = 0; k < n; k++) {
    if (accel__program_validate(&part[k].program) != ACCEL_OK) fail_msg("%s", accel__message());
    for (uint32_t i = 0; i < part[k].program.n_node; i++) seen[part[k].node[i]]++;
  }
  for (uint32_t e = 0; e < p->n_entry; e++) {
    uint32_t outputs = 0;
    memset(given, 0, p->n_tensor);
    for (uint32_t i = 0; i < p->entry[e].n_node; i++)
      assert_int_equal(seen[p->entry[e].node[i]], 1);
    for (uint32_t k = 0; k < n; k++) {
      const accel__part_entry *map = &part[k].entry[e];
      if (map->index < 0) continue;
      const accel_plugin_entry *own = &part[k].program.entry[map->index];
      assert_string_equal(own->name, p->entry[e].name);
      for (uint32_t i = 0; i < own->n_in; i++)
        assert_true(map->in[i] < 0 ? given[own->in[i]] : own->in[i] == p->entry[e].in[map->in[i]]);
      for (uint32_t i = 0; i < own->n_out; i++) {
        given[own->out[i]] |= map->out[i] < 0;
        outputs += map->out[i] >= 0;
      }
    }
    assert_int_equal(outputs, p->entry[e].n_out);
  }
  free(seen);
  free(given);
}

static uint32_t cut_everywhere(const char *path) {
  accel__arena arena = {0};
  accel__json_file config = {0};
  accel__model *model = NULL;
  uint32_t cuts = 0;
  if (accel__json_read(path, 1 << 22, &config) != ACCEL_OK) return 0;
  const accel__model_request request = {.config = &config};
  if (accel__model_build(&request, &model) == ACCEL_OK) {
    const accel_plugin_program *p = accel__program_view(model->program);
    assert_true(accel__program_layers(model->program) < p->n_stage);
    for (uint32_t s = 0; s + 1 < p->n_stage; s++) {
      accel__part part[3];
      const uint32_t two[2] = {s, p->n_stage - 1}, three[3] = {s, s + 1, p->n_stage - 1};
      if (accel__program_cut(p, two, 2, &arena, part) == ACCEL_OK) check_parts(p, part, 2), cuts++;
      if (s + 2 < p->n_stage && accel__program_cut(p, three, 3, &arena, part) == ACCEL_OK)
        check_parts(p, part, 3), cuts++;
    }
  }
  accel__model_free(&model);
  accel__json_free(&config);
  accel__arena_free(&arena);
  return cuts;
}

static void test_models(void **state) {
  (void)state;
  DIR *folder = opendir(ACCEL_FIXTURES "/models");
  uint32_t models = 0, cuts = 0;
  assert_non_null(folder);
  for (struct dirent *e; (e = readdir(folder)) != NULL;) {
    char path[1024];
    snprintf(path, sizeof path, "%s/models/%s/config.json", ACCEL_FIXTURES, e->d_name);
    const uint32_t n = cut_everywhere(path);
    models += n > 0;
    cuts += n;
  }
  closedir(folder);
  print_message("%u cuts of %u models\n", cuts, models);
  assert_true(models > 100 && cuts > 3 * models);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_goes_where),
                                     cmocka_unit_test(test_inputs_that_bind),
                                     cmocka_unit_test(test_stages_that_go_back),
                                     cmocka_unit_test(test_states),
                                     cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_models)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
