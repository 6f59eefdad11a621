/* conformance_cases.c - the golden cases: safetensors files whose metadata says what they are
 * (tests/goldens/make_op_goldens.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "core/json.h"
#include "unit/tensor_bytes.h"
#include "weights/weights.h"

uint32_t conf_op_number(const char *name) {
#define ACCEL_OP(NAME, number, operands, outputs, attributes, text) \
  if (strcmp(name, #NAME) == 0) return number;
#include "accel/ops.def"
  return 0;
}

static int attr_number(const char *key) {
#define ACCEL_ATTR(NAME, number, spelled, type, text) \
  if (strcmp(key, spelled) == 0) return number;
#include "accel/ops.def"
  return 0;
}

static accel_plugin_attr_type attr_type(int number) {
  enum {
    I = ACCEL_PLUGIN_ATTR_I,
    F = ACCEL_PLUGIN_ATTR_F,
    IV = ACCEL_PLUGIN_ATTR_IV,
    D = ACCEL_PLUGIN_ATTR_D
  };
  switch (number) {
#define ACCEL_ATTR(NAME, which, spelled, type, text) \
  case which:                                        \
    return (accel_plugin_attr_type)type;
#include "accel/ops.def"
  }
  return (accel_plugin_attr_type)I;
}

conf_case *conf_add(conf_cases *cases, const char *name, const char *op) {
  if (cases->n == cases->room) {
    uint32_t room = cases->room * 2 + 64;
    conf_case *at = realloc(cases->at, room * sizeof *at);
    if (!at) return NULL;
    cases->at = at;
    cases->room = room;
  }
  conf_case *c = &cases->at[cases->n++];
  memset(c, 0, sizeof *c);
  c->name = accel__arena_string(&cases->arena, name);
  c->op = conf_op_number(op);
  c->op_name = accel__arena_string(&cases->arena, op);
  for (int i = 0; i < CONF_OPERANDS; i++) c->space[i] = -1, c->role[i] = '-';
  c->state.share = -1;
  return c;
}

void conf_cases_free(conf_cases *cases) {
  for (uint32_t i = 0; i < cases->n_file; i++) accel__checkpoint_close(&cases->file[i]);
  free(cases->at);
  accel__arena_free(&cases->arena);
}

static int64_t *numbers(conf_cases *cases, const accel__json *list, uint32_t *n) {
  *n = (uint32_t)cJSON_GetArraySize(list);
  int64_t *v = accel__arena_alloc(&cases->arena, (*n + 1) * sizeof *v);
  uint32_t i = 0;
  if (v) ACCEL_JSON_EACH(item, list) v[i++] = (int64_t)item->valuedouble;
  return v;
}

static const char *read_attrs(conf_cases *cases, conf_case *c, const accel__json *object) {
  ACCEL_JSON_EACH(item, object) {
    if (c->n_attr == CONF_ATTRS) return "too many attributes";
    int key = attr_number(item->string);
    if (!key) return "an attribute that ops.def does not know";
    accel__attr *a = &c->attr[c->n_attr];
    *a = (accel__attr){.key = (accel_plugin_attr_key)key,
                       .type = attr_type(key),
                       .i = (int64_t)item->valuedouble,
                       .f = item->valuedouble};
    c->attr_dims[c->n_attr++] = a->type == ACCEL_PLUGIN_ATTR_D;
    if (a->type == ACCEL_PLUGIN_ATTR_D) a->v = numbers(cases, accel__json_get(item, "dims"), &a->n);
    if (a->type == ACCEL_PLUGIN_ATTR_IV) a->v = numbers(cases, item, &a->n);
  }
  return NULL;
}

static bool find_tensor(const accel__checkpoint *file, const char *c, uint32_t run,
                        const char *part, uint32_t k, conf_tensor *out) {
  char name[160];
  snprintf(name, sizeof name, "%s/%u/%s%u", c, run, part, k);
  const accel__tensor_info *t = accel__checkpoint_find(file, name);
  *out = (conf_tensor){0};
  if (!t || t->rank > ACCEL_PLUGIN_MAX_RANK) return false;
  out->present = true;
  out->dtype = t->dtype;
  out->rank = t->rank;
  out->elements = (int64_t)t->elements;
  out->data = stored(file, t);
  memcpy(out->dim, t->dim, sizeof out->dim);
  return true;
}

static const char *read_spaces(conf_case *c, const accel__json *object) {
  ACCEL_JSON_EACH(item, accel__json_get(object, "spaces")) {
    if (c->n_space == CONF_SPACES) return "too many row spaces";
    c->spaces[c->n_space].ragged = accel__json_get(item, "ragged") != NULL;
    if (!c->spaces[c->n_space].ragged) {
      c->spaces[c->n_space].rows = (int64_t)accel__json_get(item, "rows")->valuedouble;
      c->spaces[c->n_space].items = (int64_t)accel__json_get(item, "items")->valuedouble;
    }
    c->n_space++;
  }
  uint32_t i = 0;
  ACCEL_JSON_EACH(item, accel__json_get(object, "space")) {
    if (i < CONF_OPERANDS) c->space[i++] = item->valueint;
  }
  return NULL;
}

static void read_state(conf_case *c, const accel__json *state) {
  if (!state) return;
  c->has_state = true;
  c->state = (accel_plugin_state){.name = "state",
                                  .kind = accel__json_get(state, "kind")->valueint,
                                  .heads = accel__json_get(state, "heads")->valueint,
                                  .k_dim = accel__json_get(state, "k_dim")->valueint,
                                  .v_dim = accel__json_get(state, "v_dim")->valueint,
                                  .window = accel__json_get(state, "window")->valueint,
                                  .share = -1};
}

static const char *read_run(const accel__checkpoint *file, conf_case *c, uint32_t run) {
  conf_run *r = &c->run[run];
  for (uint32_t i = 0; i < c->n_operand; i++) {
    if (c->role[i] == '-') continue;
    if (!find_tensor(file, c->name, c->role[i] == 'i' ? run : 0, "in", i, &r->in[i]))
      return "an operand is missing";
  }
  for (uint32_t k = 0; k < 2; k++)
    if (c->wanted[k] && !find_tensor(file, c->name, run, "out", k, &r->out[k]))
      return "an output is missing";
  for (uint32_t s = 0; s < c->n_space; s++) {
    conf_tensor t;
    if (!c->spaces[s].ragged) continue;
    if (!find_tensor(file, c->name, run, "len", s, &t)) return "lengths are missing";
    r->lengths[s] = t.data;
    r->items[s] = t.elements;
  }
  return NULL;
}

static const char *read_case(conf_cases *cases, const accel__checkpoint *file,
                             const accel__json *object) {
  conf_case *c = conf_add(cases, accel__json_get(object, "name")->valuestring,
                          accel__json_get(object, "op")->valuestring);
  if (!c) return "no memory";
  const char *roles = accel__json_get(object, "roles")->valuestring;
  c->n_operand = (uint32_t)strlen(roles);
  c->n_run = (uint32_t)accel__json_get(object, "runs")->valueint;
  if (!c->op || c->n_operand > CONF_OPERANDS || c->n_run > CONF_RUNS)
    return "an unknown op, too many operands or runs";
  memcpy(c->role, roles, c->n_operand);
  uint32_t i = 0;
  ACCEL_JSON_EACH(item, accel__json_get(object, "uses")) {
    if (i < CONF_OPERANDS) c->use[i++] = (uint32_t)item->valueint;
  }
  i = 0;
  ACCEL_JSON_EACH(item, accel__json_get(object, "outputs")) {
    if (i < 2) c->wanted[i++] = item->valueint != 0;
  }
  const char *why = read_attrs(cases, c, accel__json_get(object, "attrs"));
  if (!why) why = read_spaces(c, object);
  read_state(c, accel__json_get(object, "state"));
  i = 0;
  ACCEL_JSON_EACH(ids, accel__json_get(object, "sequences")) {
    if (i == CONF_RUNS) break;
    ACCEL_JSON_EACH(id, ids) {
      if (c->run[i].n_sequence < CONF_SEQUENCES)
        c->run[i].sequence[c->run[i].n_sequence++] = id->valueint;
    }
    i++;
  }
  for (i = 0; !why && i < c->n_run; i++) why = read_run(file, c, i);
  return why;
}

static const char *load_file(const char *path, conf_cases *out) {
  static char text[600];
  accel__checkpoint *file;
  if (accel__checkpoint_open(path, &file) != ACCEL_OK) {
    snprintf(text, sizeof text, "%s", accel__message());
    return text;
  }
  out->file[out->n_file++] = file;
  const char *meta = accel__checkpoint_metadata(file, "cases");
  accel__json_file json = {0};
  if (!meta || accel__json_parse(meta, strlen(meta), path, &json) != ACCEL_OK) {
    snprintf(text, sizeof text, "%s: no cases in its metadata", path);
    return text;
  }
  const char *why = NULL;
  ACCEL_JSON_EACH(item, json.root) {
    if (!why) why = read_case(out, file, item);
  }
  accel__json_free(&json);
  if (why)
    snprintf(text, sizeof text, "%s: case %s: %s", path, out->n ? out->at[out->n - 1].name : "?",
             why);
  return why ? text : NULL;
}

/* Every op of ops.def has its file, and every attribute a case: adding one without goldens fails
 * here. */
static const char *check_coverage(const conf_cases *cases, const char *op, uint32_t number,
                                  const char *attributes) {
  static char text[200];
  char list[400];
  snprintf(list, sizeof list, "%s", attributes);
  char *rest = list;
  for (char *key; (key = strsep(&rest, " ")) != NULL;) {
    bool found = *key == 0;
    for (uint32_t i = 0; !found && i < cases->n; i++)
      for (uint32_t k = 0; cases->at[i].op == number && k < cases->at[i].n_attr; k++)
        found |= (int)cases->at[i].attr[k].key == attr_number(key);
    if (found) continue;
    snprintf(text, sizeof text,
             "no golden case of %s has attribute '%s': extend tests/goldens/make_op_goldens.py", op,
             key);
    return text;
  }
  return NULL;
}

const char *conf_load(const char *directory, conf_cases *out) {
  static const char *const op[] = {
#define ACCEL_OP(NAME, number, operands, outputs, attributes, text) #NAME,
#include "accel/ops.def"
  };
  const char *why = NULL;
  for (size_t i = 0; !why && i < sizeof op / sizeof *op; i++) {
    char path[512], lower[64];
    size_t n = strlen(op[i]);
    for (size_t k = 0; k <= n && k < sizeof lower; k++)
      lower[k] = (char)(op[i][k] >= 'A' && op[i][k] <= 'Z' ? op[i][k] + 32 : op[i][k]);
    snprintf(path, sizeof path, "%s/%s.safetensors", directory, lower);
    why = load_file(path, out);
  }
#define ACCEL_OP(NAME, number, operands, outputs, attributes, text) \
  if (!why) why = check_coverage(out, #NAME, number, attributes);
#include "accel/ops.def"
  return why;
}
