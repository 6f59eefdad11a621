/* ops.c - ops.def as tables: operand lists, attribute lists, and the names of enumerated values. */
#include <ctype.h>
#include <string.h>

#include "program/program_internal.h"

typedef struct op_row {
  int op;
  const char *name, *operands, *attributes;
  uint32_t outputs;
} op_row;
static const op_row op_rows[] = {
#define ACCEL_OP(name, number, operands, outputs, attributes, text) \
  {number, #name, operands, attributes, outputs},
#include "accel/ops.def"
};

typedef struct attr_row {
  int key, type;
  const char *name;
} attr_row;
static const attr_row attr_rows[] = {
#define ACCEL_ATTR(name, number, key, type, text) {number, ACCEL_PLUGIN_ATTR_##type, key},
#include "accel/ops.def"
};

typedef struct value_row {
  const char *group;
  int64_t value;
  const char *name;
} value_row;
static const value_row value_rows[] = {
#define ACCEL_ACT(name, number, key, text)         {"ACT", number, key},
#define ACCEL_UNARY(name, number, key, text)       {"UNARY", number, key},
#define ACCEL_BINARY(name, number, key, text)      {"BINARY", number, key},
#define ACCEL_KIND(group, name, number, key, text) {#group, number, key},
#include "accel/ops.def"
    {"DTYPE", ACCEL_PLUGIN_F32, "f32"},
    {"DTYPE", ACCEL_PLUGIN_I32, "i32"},
};

static const op_row *find_op(int op) {
  for (size_t i = 0; i < sizeof op_rows / sizeof *op_rows; i++) {
    if (op_rows[i].op == op) return &op_rows[i];
  }
  return NULL;
}

const char *accel__op_name(int op) {
  const op_row *row = find_op(op);
  return row ? row->name : "?";
}

/* Copies the next word of *text to out[n]; false at the end of the list. */
static bool next_word(const char **text, char *out, size_t n) {
  while (**text == ' ') ++*text;
  size_t used = 0;
  while (**text != '\0' && **text != ' ') {
    if (used + 1 < n) out[used++] = **text;
    ++*text;
  }
  out[used] = '\0';
  return used > 0;
}

bool accel__op_signature(int op, accel__signature *out) {
  const op_row *row = find_op(op);
  if (row == NULL) return false;
  memset(out, 0, sizeof *out);
  for (size_t i = 0; row->name[i] != '\0' && i + 1 < sizeof out->name; i++)
    out->name[i] = (char)tolower((unsigned char)row->name[i]);
  out->attributes = row->attributes;
  out->n_outputs = row->outputs;
  const char *text = row->operands;
  char word[18];
  while (out->n_operands < 16 && next_word(&text, word, sizeof word)) {
    accel__operand *operand = &out->operand[out->n_operands++];
    size_t n = strlen(word);
    operand->optional = word[n - 1] == '?';
    operand->many = word[n - 1] == '*';
    if (operand->optional || operand->many) word[--n] = '\0';
    memcpy(operand->name, word, n < sizeof operand->name ? n + 1 : sizeof operand->name);
    operand->name[sizeof operand->name - 1] = '\0';
    if (!operand->optional) out->n_required = out->n_operands;
  }
  return true;
}

const char *accel__attr_name(int key) {
  for (size_t i = 0; i < sizeof attr_rows / sizeof *attr_rows; i++) {
    if (attr_rows[i].key == key) return attr_rows[i].name;
  }
  return NULL;
}

int accel__attr_type(int key) {
  for (size_t i = 0; i < sizeof attr_rows / sizeof *attr_rows; i++) {
    if (attr_rows[i].key == key) return attr_rows[i].type;
  }
  return 0;
}

bool accel__op_takes(int op, int key) {
  const op_row *row = find_op(op);
  const char *name = accel__attr_name(key);
  if (row == NULL || name == NULL) return false;
  const char *text = row->attributes;
  char word[32];
  while (next_word(&text, word, sizeof word)) {
    if (strcmp(word, name) == 0) return true;
  }
  return false;
}

/* The groups an attribute's values come from: up to two (a unary's kind may also be an
 * activation). */
static const char *value_group(int op, int key) {
  switch (key) {
    case ACCEL_PLUGIN_ATTR_ACT:
      return "ACT";
    case ACCEL_PLUGIN_ATTR_GLU:
      return "GLU";
    case ACCEL_PLUGIN_ATTR_BIAS_KIND:
      return "BIAS";
    case ACCEL_PLUGIN_ATTR_ROPE_STYLE:
      return "ROPE";
    case ACCEL_PLUGIN_ATTR_NORM_KIND:
      return "NORM";
    case ACCEL_PLUGIN_ATTR_DTYPE:
      return "DTYPE";
    case ACCEL_PLUGIN_ATTR_KIND:
      break;
    default:
      return NULL;
  }
  switch (op) {
    case ACCEL_PLUGIN_OP_UNARY:
      return "UNARY";
    case ACCEL_PLUGIN_OP_BINARY:
      return "BINARY";
    case ACCEL_PLUGIN_OP_REDUCE:
      return "REDUCE";
    case ACCEL_PLUGIN_OP_POOL:
      return "POOL";
    case ACCEL_PLUGIN_OP_RESIZE:
      return "RESIZE";
    case ACCEL_PLUGIN_OP_PAD:
      return "PAD";
    default:
      return NULL;
  }
}

bool accel__attr_is_enum(int op, int key) { return value_group(op, key) != NULL; }

static const char *value_name(const char *group, int64_t value) {
  for (size_t i = 0; i < sizeof value_rows / sizeof *value_rows; i++) {
    if (value_rows[i].value == value && strcmp(value_rows[i].group, group) == 0)
      return value_rows[i].name;
  }
  return NULL;
}

const char *accel__enum_name(int op, int key, int64_t value) {
  const char *group = value_group(op, key);
  if (group == NULL) return NULL;
  const char *name = value_name(group, value);
  if (name == NULL && strcmp(group, "UNARY") == 0) name = value_name("ACT", value);
  return name;
}
