/* regex.c - compiles an expression to a small program and runs it by backtracking on an explicit
 * stack. */
#include "text/regex.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"
#include "text/unicode.h"

enum {
  PROGRAM_MAX = 4096,
  SETS_MAX = 512,
  ITEMS_MAX = 2048,
  DEPTH_MAX = 32,
  REPEAT_MAX = 1000,
  STEPS_FREE = 10000000,
  STEPS_A_CHAR = 1000,
  FOREVER = INT32_MAX
};

typedef enum op {
  OP_SET,    /* one code point of set a */
  OP_REPEAT, /* `least` to `most` code points of set a; b: how */
  OP_SPLIT,  /* try pc + a, then pc + b */
  OP_JUMP,   /* pc + a */
  /* does the program behind, up to its OP_ACCEPT, match here (b: must not)?  Goes on at pc + a,
   * same place */
  OP_LOOK,
  OP_ATOMIC, /* the program behind matches without coming back; goes on at pc + a behind it */
  OP_ACCEPT,
  OP_LINE_START,
  OP_LINE_END,
  OP_TEXT_START,
  OP_TEXT_END,
  OP_BOUNDARY,
  OP_NO_BOUNDARY,
} op;
enum { GREEDY, LAZY, POSSESSIVE };

typedef struct instruction { /* jumps are relative, so that code can be copied and moved */
  op op;
  int32_t a, b, least, most;
} instruction;

/* a range, or (low > high) a class: of these categories, or with that flag */
typedef struct set_item {
  uint32_t low, high, categories;
  unsigned flag;
  bool negated;
  bool bracketed; /* \w inside [...]: Oniguruma leaves six of Latin-1 out there */
} set_item;
typedef struct set {
  uint32_t first, n; /* items */
  bool negated;
  uint64_t ascii[2]; /* the answer for code points below 128 */
} set;

struct accel__regex {
  instruction *code;
  set *sets;
  set_item *items;
};

/* ---- compiling ---- */

typedef struct compiler {
  const char *begin, *at;
  instruction code[PROGRAM_MAX];
  set sets[SETS_MAX];
  set_item items[ITEMS_MAX];
  int32_t n;
  uint32_t set_n, item_n;
  int depth;
  bool fold; /* inside (?i:...) */
} compiler;

static accel_status refuse(const compiler *c, const char *what) {
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "regular expression '%s': %s at byte %zu is not implemented", c->begin, what,
                     (size_t)(c->at - c->begin));
}

static accel_status emit(compiler *c, instruction i) {
  if (c->n == PROGRAM_MAX) return refuse(c, "more than 4096 steps");
  c->code[c->n++] = i;
  return ACCEL_OK;
}

/* Puts an instruction in front of code[at..n). */
static accel_status insert(compiler *c, int32_t at, instruction i) {
  ACCEL_TRY(emit(c, i));
  memmove(c->code + at + 1, c->code + at, (size_t)(c->n - 1 - at) * sizeof *c->code);
  c->code[at] = i;
  return ACCEL_OK;
}

static accel_status add_item(compiler *c, set_item item) {
  if (c->item_n == ITEMS_MAX) return refuse(c, "more than 2048 ranges");
  c->items[c->item_n++] = item;
  return ACCEL_OK;
}

static bool ascii_letter(uint32_t x) { return (x | 32) - 'a' < 26; }

static accel_status add_range(compiler *c, uint32_t low, uint32_t high) {
  ACCEL_TRY(add_item(c, (set_item){.low = low, .high = high}));
  if (!c->fold) return ACCEL_OK;
  if (low != high || low >= 128) { /* only what is the same in both cases */
    for (uint32_t x = low; x <= high; ++x) {
      if ((1u << accel__unicode(x)->category) & 7u)
        return refuse(c, "ignoring the case of such a range");
    }
    return ACCEL_OK;
  }
  if (!ascii_letter(low)) return ACCEL_OK;
  /* long s, kelvin sign */
  uint32_t other = low ^ 32, more = (low | 32) == 's' ? 0x17F : (low | 32) == 'k' ? 0x212A : other;
  ACCEL_TRY(add_item(c, (set_item){.low = other, .high = other}));
  return more == other ? ACCEL_OK : add_item(c, (set_item){.low = more, .high = more});
}

static accel_status add_class(compiler *c, uint32_t categories, unsigned flag, bool negated) {
  if (c->fold && categories && (categories & 7u) && (categories & 7u) != 7u)
    return refuse(c, "ignoring the case of a class of one case");
  return add_item(
      c,
      (set_item){.low = 1, .high = 0, .categories = categories, .flag = flag, .negated = negated});
}

/* The categories of "L", "Lu", ...; 0 when there is no such name. */
static uint32_t category_mask(const char *name, size_t n) {
  static const char names[] = ACCEL__CATEGORIES;
  uint32_t mask = 0;
  for (uint32_t i = 0; 2 * i + 1 < sizeof names; ++i) {
    if (n >= 1 && n <= 2 && names[2 * i] == name[0] && (n == 1 || names[2 * i + 1] == name[1]))
      mask |= 1u << i;
  }
  return mask;
}

static accel_status property(compiler *c, bool negated) { /* behind \p or \P */
  const char *end = *c->at == '{' ? strchr(c->at, '}') : NULL;
  uint32_t mask = end ? category_mask(c->at + 1, (size_t)(end - c->at - 1)) : 0;
  if (!mask) return refuse(c, "such a property");
  c->at = end + 1;
  return add_class(c, mask, 0, negated);
}

static bool hex_digits(compiler *c, int least, int most, uint32_t *out) {
  int n = 0;
  *out = 0;
  for (; n < most; ++n, ++c->at) {
    char d = *c->at;
    int digit = d >= '0' && d <= '9'   ? d - '0'
                : d >= 'a' && d <= 'f' ? d - 'a' + 10
                : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                       : -1;
    if (digit < 0) break;
    *out = *out * 16 + (uint32_t)digit;
  }
  return n >= least && *out < 0x110000;
}

/* Behind a backslash: a single code point into *out, or a class into the items (*is_class). */
static accel_status escape(compiler *c, uint32_t *out, bool *is_class) {
  static const char from[] = "nrtfv", to[] = "\n\r\t\f\v";
  char e = *c->at++;
  const char *found = e ? strchr(from, e) : NULL;
  *is_class = e && strchr("sSdDwWpP", e);
  if (found) return *out = (uint32_t)to[found - from], ACCEL_OK;
  switch (e) {
    case 's':
    case 'S':
      return add_class(c, 0, ACCEL__UNI_SPACE, e == 'S');
    case 'd':
    case 'D':
      return add_class(c, 1u << ACCEL__CATEGORY_ND, 0, e == 'D');
    case 'w':
    case 'W':
      return add_class(c, 0, ACCEL__UNI_WORD_ONIG, e == 'W');
    case 'p':
    case 'P':
      return property(c, e == 'P');
    case 'x':
      if (*c->at != '{')
        return hex_digits(c, 1, 2, out) && *out < 128 ? ACCEL_OK : refuse(c, "such a \\x");
      c->at++;
      return hex_digits(c, 1, 6, out) && *c->at++ == '}' ? ACCEL_OK : refuse(c, "such a \\x{...}");
    case 'u':
      return hex_digits(c, 4, 4, out) ? ACCEL_OK : refuse(c, "such a \\u");
    default:
      break;
  }
  if ((uint8_t)e < 128 && (ascii_letter((uint8_t)e) || (e >= '0' && e <= '9') || e == 0))
    return --c->at, refuse(c, "such an escape");
  c->at--;
  c->at += accel__utf8_decode(c->at, strlen(c->at), out);
  return ACCEL_OK;
}

/* One code point, escaped or not. */
static accel_status parse_code_point(compiler *c, uint32_t *out, bool *is_class) {
  *is_class = false;
  if (*c->at == '\\') return c->at++, escape(c, out, is_class);
  c->at += accel__utf8_decode(c->at, strlen(c->at), out);
  return ACCEL_OK;
}

static bool in_class(const set_item *item, uint32_t x, const accel__unicode_record *u) {
  if (item->flag == 0) return item->categories >> u->category & 1;
  if (item->bracketed && item->flag == ACCEL__UNI_WORD_ONIG && u->category == ACCEL__CATEGORY_NO &&
      x < 0x100)
    return false;
  return u->flags & item->flag;
}

static bool in_set(const set *s, const set_item *items, uint32_t x) {
  const accel__unicode_record *u = accel__unicode(x);
  for (uint32_t i = s->first; i < s->first + s->n; ++i) {
    const set_item *item = &items[i];
    bool in = item->low <= item->high ? x >= item->low && x <= item->high
                                      : in_class(item, x, u) != item->negated;
    if (in) return !s->negated;
  }
  return s->negated;
}

/* Makes a set of the items from `first` on, and the instruction that takes one of it. */
static accel_status emit_set(compiler *c, uint32_t first, bool negated) {
  if (c->set_n == SETS_MAX) return refuse(c, "more than 512 sets");
  set *s = &c->sets[c->set_n++];
  *s = (set){.first = first, .n = c->item_n - first, .negated = negated};
  for (uint32_t x = 0; x < 128; ++x)
    s->ascii[x >> 6] |= (uint64_t)in_set(s, c->items, x) << (x & 63);
  return emit(c, (instruction){.op = OP_SET, .a = (int32_t)c->set_n - 1});
}

static accel_status bracket(compiler *c) { /* behind [ */
  uint32_t first = c->item_n;
  bool negated = *c->at == '^', empty = true;
  c->at += negated;
  for (; *c->at != ']' || empty; empty = false) {
    uint32_t low = 0, high;
    bool is_class = false;
    if (*c->at == 0) return refuse(c, "a class without ]");
    if (*c->at == '[' || strncmp(c->at, "&&", 2) == 0) return refuse(c, "a class inside a class");
    ACCEL_TRY(parse_code_point(c, &low, &is_class));
    if (is_class) {
      c->items[c->item_n - 1].bracketed = true;
      continue;
    }
    high = low;
    if (*c->at == '-' && c->at[1] != ']' && c->at[1] != 0) {
      c->at++;
      ACCEL_TRY(parse_code_point(c, &high, &is_class));
      if (is_class || high < low) return refuse(c, "such a range");
    }
    ACCEL_TRY(add_range(c, low, high));
  }
  c->at++;
  return emit_set(c, first, negated);
}

static accel_status alternation(compiler *c, size_t *least);

/* A sub-program between `op` and OP_ACCEPT. */
static accel_status wrap(compiler *c, int32_t start, op kind, int32_t negated) {
  ACCEL_TRY(emit(c, (instruction){.op = OP_ACCEPT}));
  return insert(c, start, (instruction){.op = kind, .a = c->n - start + 1, .b = negated});
}

static accel_status group(compiler *c, size_t *least) { /* behind ( */
  static const struct {
    const char *text;
    int kind; /* 0 plain, 1 ahead, 2 not ahead, 3 atomic, 4 ignoring case */
  } kinds[] = {{"?:", 0}, {"?=", 1}, {"?!", 2}, {"?>", 3}, {"?i:", 4}};
  int kind = -1;
  int32_t start = c->n;
  for (size_t i = 0; kind < 0 && i < sizeof kinds / sizeof *kinds; ++i) {
    if (!accel__starts_with(c->at, kinds[i].text)) continue;
    kind = kinds[i].kind;
    c->at += strlen(kinds[i].text);
  }
  if (kind < 0 && *c->at == '?') return refuse(c, "such a group");
  if (++c->depth > DEPTH_MAX) return refuse(c, "nesting deeper than 32");
  bool fold = c->fold;
  c->fold = fold || kind == 4;
  ACCEL_TRY(alternation(c, least));
  c->fold = fold;
  c->depth--;
  if (*c->at != ')') return refuse(c, "a group without )");
  c->at++;
  if (kind == 3) return wrap(c, start, OP_ATOMIC, 0);
  if (kind != 1 && kind != 2) return ACCEL_OK;
  *least = 0;
  return wrap(c, start, OP_LOOK, kind == 2);
}

static accel_status atom(compiler *c, size_t *least) {
  uint32_t first = c->item_n, x = 0;
  bool is_class = false;
  char a = *c->at;
  *least = 0;
  if (a == '(') return c->at++, group(c, least);
  if (a == '^') return c->at++, emit(c, (instruction){.op = OP_LINE_START});
  if (a == '$') return c->at++, emit(c, (instruction){.op = OP_LINE_END});
  if (a == '\\' && c->at[1] && strchr("AzbB", c->at[1])) {
    op kind = c->at[1] == 'A'   ? OP_TEXT_START
              : c->at[1] == 'z' ? OP_TEXT_END
              : c->at[1] == 'b' ? OP_BOUNDARY
                                : OP_NO_BOUNDARY;
    return c->at += 2, emit(c, (instruction){.op = kind});
  }
  *least = 1;
  if (a == '[') return c->at++, bracket(c);
  if (a == '.') {
    c->at++;
    ACCEL_TRY(add_item(c, (set_item){.low = '\n', .high = '\n'}));
    return emit_set(c, first, true);
  }
  if (strchr("*+?{", a)) return refuse(c, "a quantifier of nothing");
  ACCEL_TRY(parse_code_point(c, &x, &is_class));
  if (!is_class) ACCEL_TRY(add_range(c, x, x));
  return emit_set(c, first, false);
}

/* {m}, {m,}, {m,n}, {,n} at c->at; false when it is something else. */
static bool counts(compiler *c, int32_t *least, int32_t *most) {
  char *at = (char *)c->at + 1;
  bool open = *at == ',';
  *least = open ? 0 : (int32_t)strtol(at, &at, 10);
  *most = *least;
  if (*at == ',') {
    at++;
    *most = *at == '}' && !open ? FOREVER : (int32_t)strtol(at, &at, 10);
  }
  if (*at != '}' || at == c->at + 1 || *least < 0 || *least > REPEAT_MAX || *most < *least ||
      (*most > REPEAT_MAX && *most != FOREVER))
    return false;
  c->at = at + 1;
  return true;
}

/* code[start..n) `least` to `most` times. */
static accel_status repeat(compiler *c, int32_t start, int32_t least, int32_t most, int how,
                           size_t body_least) {
  int32_t n = c->n - start, first = how == LAZY;
  if (n == 1 && c->code[start].op == OP_SET) {
    c->code[start] = (instruction){OP_REPEAT, c->code[start].a, how, least, most};
    return ACCEL_OK;
  }
  if (most == FOREVER && body_least == 0) return refuse(c, "repeating something that may be empty");
  instruction body[64]; /* the copy is taken out, then written as often as needed */
  if (n > 64) return refuse(c, "repeating more than 64 steps");
  memcpy(body, c->code + start, (size_t)n * sizeof *body);
  c->n = start;
  for (int32_t i = 0; i < least; ++i) {
    for (int32_t k = 0; k < n; ++k) ACCEL_TRY(emit(c, body[k]));
  }
  int32_t optional = most == FOREVER ? 1 : most - least;
  for (int32_t i = 0; i < optional; ++i) {
    int32_t enter = 1, leave = most == FOREVER ? n + 2 : (n + 1) * (optional - i);
    ACCEL_TRY(emit(c, first ? (instruction){.op = OP_SPLIT, .a = leave, .b = enter}
                            : (instruction){.op = OP_SPLIT, .a = enter, .b = leave}));
    for (int32_t k = 0; k < n; ++k) ACCEL_TRY(emit(c, body[k]));
    if (most == FOREVER) ACCEL_TRY(emit(c, (instruction){.op = OP_JUMP, .a = -(n + 1)}));
  }
  return how == POSSESSIVE ? wrap(c, start, OP_ATOMIC, 0) : ACCEL_OK;
}

static accel_status quantified(compiler *c, size_t *least) {
  int32_t start = c->n, low = 1, high = 1;
  ACCEL_TRY(atom(c, least));
  bool braces = *c->at == '{';
  if (*c->at == 0 || !strchr("?*+{", *c->at)) return ACCEL_OK;
  if (braces) {
    if (!counts(c, &low, &high)) return refuse(c, "such a count");
  } else {
    low = *c->at == '+';
    high = *c->at == '?' ? 1 : FOREVER;
    c->at++;
  }
  int how = *c->at == '?' ? LAZY : *c->at == '+' && !braces ? POSSESSIVE : GREEDY;
  c->at += how != GREEDY;
  if (*c->at && strchr("?*+{", *c->at)) return refuse(c, "a quantifier of a quantifier");
  ACCEL_TRY(repeat(c, start, low, high, how, *least));
  *least *= (size_t)low;
  return ACCEL_OK;
}

static accel_status sequence(compiler *c, size_t *least) {
  *least = 0;
  while (*c->at && *c->at != '|' && *c->at != ')') {
    size_t more = 0;
    ACCEL_TRY(quantified(c, &more));
    *least += more;
  }
  return ACCEL_OK;
}

static accel_status alternation(compiler *c, size_t *least) {
  int32_t start = c->n, jumps[128];
  size_t n = 0, more = 0;
  ACCEL_TRY(sequence(c, least));
  while (*c->at == '|') {
    c->at++;
    if (n == 128) return refuse(c, "more than 128 alternatives");
    ACCEL_TRY(insert(c, start, (instruction){.op = OP_SPLIT, .a = 1, .b = c->n - start + 2}));
    jumps[n++] = c->n;
    ACCEL_TRY(emit(c, (instruction){.op = OP_JUMP}));
    start = c->n;
    ACCEL_TRY(sequence(c, &more));
    *least = more < *least ? more : *least;
  }
  for (size_t i = 0; i < n; ++i) c->code[jumps[i]].a = c->n - jumps[i];
  return ACCEL_OK;
}

static accel_status compile(compiler *c) {
  size_t least = 0;
  ACCEL_TRY(alternation(c, &least));
  if (*c->at) return refuse(c, "a ) without (");
  if (least == 0) return refuse(c, "matching nothing, which ends");
  return emit(c, (instruction){.op = OP_ACCEPT});
}

accel_status accel__regex_compile(accel__arena *arena, const char *expression,
                                  const accel__regex **out) {
  compiler *c = calloc(1, sizeof *c);
  if (!c) return accel__no_memory(sizeof *c);
  c->begin = c->at = expression;
  accel_status status = compile(c);
  accel__regex *r = status == ACCEL_OK ? accel__arena_alloc(arena, sizeof *r) : NULL;
  if (r) {
    r->code = accel__arena_array(arena, (size_t)c->n, sizeof *r->code);
    r->sets = accel__arena_array(arena, c->set_n, sizeof *r->sets);
    r->items = accel__arena_array(arena, c->item_n, sizeof *r->items);
  }
  if (status == ACCEL_OK && (!r || !r->code || !r->sets || !r->items))
    status = accel__no_memory(sizeof *c);
  if (status == ACCEL_OK) {
    memcpy(r->code, c->code, (size_t)c->n * sizeof *r->code);
    memcpy(r->sets, c->sets, c->set_n * sizeof *r->sets);
    memcpy(r->items, c->items, c->item_n * sizeof *r->items);
    *out = r;
  }
  free(c);
  return status;
}

/* ---- matching ---- */

/* Where to go on when the present way fails.  A repeat keeps the places it may still end at: [low,
 * at], or for lazy ones its count. */
struct accel__regex_point {
  int32_t pc;
  bool repeat;
  size_t at, low;
};

typedef struct matcher {
  const accel__regex *regex;
  const accel__char *chars;
  size_t n;
  accel__regex_stack *stack;
  size_t top, steps_max;
} matcher;

static bool takes(const matcher *m, int32_t index, uint32_t x) {
  const set *s = &m->regex->sets[index];
  return x < 128 ? s->ascii[x >> 6] >> (x & 63) & 1 : in_set(s, m->regex->items, x);
}

static accel_status push(matcher *m, struct accel__regex_point point) {
  ACCEL_TRY(accel__grow(&m->stack->at, &m->stack->capacity, m->top + 1, sizeof *m->stack->at));
  m->stack->at[m->top++] = point;
  return ACCEL_OK;
}

static bool is_word(const matcher *m, size_t at) { /* \w, as for \b */
  return at < m->n && accel__unicode_is(m->chars[at].c, ACCEL__UNI_WORD_ONIG);
}

static bool holds(const matcher *m, op kind, size_t at) {
  bool boundary = is_word(m, at) != (at > 0 && is_word(m, at - 1));
  switch (kind) {
    case OP_LINE_START:
      return at == 0 || (m->chars[at - 1].c == '\n' && at < m->n);
    case OP_LINE_END:
      return at == m->n || m->chars[at].c == '\n';
    case OP_TEXT_START:
      return at == 0;
    case OP_TEXT_END:
      return at == m->n;
    case OP_BOUNDARY:
      return boundary;
    default:
      return !boundary;
  }
}

/* Takes as much as may be (as little, when lazy) and notes the other lengths. */
static accel_status run_repeat(matcher *m, int32_t pc, size_t *at, bool *ok) {
  const instruction *i = &m->regex->code[pc];
  size_t from = *at, most = i->b == LAZY ? (size_t)i->least : (size_t)i->most, end = *at;
  while (end < m->n && end - from < most && takes(m, i->a, m->chars[end].c)) end++;
  *ok = end - from >= (size_t)i->least;
  *at = end;
  m->stack->steps += (end - from) / 8;
  if (!*ok || i->b == POSSESSIVE) return ACCEL_OK;
  if (i->b == LAZY) return push(m, (struct accel__regex_point){pc, true, end, end - from});
  size_t low = from + (size_t)i->least;
  return end > low ? push(m, (struct accel__regex_point){pc, true, end - 1, low}) : ACCEL_OK;
}

/* Back to the last point noted above `base`; false when there is none. */
static accel_status backtrack(matcher *m, size_t base, int32_t *pc, size_t *at, bool *ok) {
  *ok = false;
  while (m->top > base) {
    struct accel__regex_point point = m->stack->at[--m->top];
    const instruction *i = &m->regex->code[point.pc];
    *pc = point.repeat ? point.pc + 1 : point.pc;
    *at = point.at;
    *ok = true;
    if (!point.repeat) return ACCEL_OK;
    if (i->b == GREEDY)
      return point.at > point.low
                 ? push(m, (struct accel__regex_point){point.pc, true, point.at - 1, point.low})
                 : ACCEL_OK;
    /* lazy: one more */
    *ok = point.low < (size_t)i->most && point.at < m->n && takes(m, i->a, m->chars[point.at].c);
    if (!*ok) continue;
    ++*at;
    return push(m, (struct accel__regex_point){point.pc, true, point.at + 1, point.low + 1});
  }
  return ACCEL_OK;
}

/* Runs from pc at `at` to OP_ACCEPT; *ok says whether it got there, *end where.  Recursion only for
 * nested sub-programs, at most 32. */
static accel_status match_program(matcher *m, int32_t pc, size_t at, bool *ok, size_t *end) {
  size_t base = m->top, inner = 0;
  for (;;) {
    const instruction *i = &m->regex->code[pc];
    if (++m->stack->steps > m->steps_max) {
      return accel__fail(
          ACCEL_ERROR_LIMIT,
          "a regular expression of the tokenizer takes more than %zu steps on this text",
          m->steps_max);
    }
    *ok = true;
    switch (i->op) {
      case OP_ACCEPT:
        m->top = base;
        *end = at;
        return ACCEL_OK;
      case OP_SET:
        *ok = at < m->n && takes(m, i->a, m->chars[at].c);
        at++;
        pc++;
        break;
      case OP_REPEAT:
        ACCEL_TRY(run_repeat(m, pc, &at, ok));
        pc++;
        break;
      case OP_SPLIT:
        ACCEL_TRY(push(m, (struct accel__regex_point){pc + i->b, false, at, 0}));
        pc += i->a;
        break;
      case OP_JUMP:
        pc += i->a;
        break;
      case OP_LOOK:
      case OP_ATOMIC:
        ACCEL_TRY(match_program(m, pc + 1, at, ok, &inner));
        if (i->op == OP_ATOMIC && *ok) at = inner;
        if (i->op == OP_LOOK) *ok = *ok != (i->b != 0);
        pc += i->a;
        break;
      default:
        *ok = holds(m, i->op, at);
        pc++;
        break;
    }
    if (*ok) continue;
    ACCEL_TRY(backtrack(m, base, &pc, &at, ok));
    if (!*ok) return ACCEL_OK;
  }
}

accel_status accel__regex_match(const accel__regex *regex, const accel__char *chars, size_t n,
                                size_t at, accel__regex_stack *stack, size_t *length) {
  matcher m = {regex, chars, n, stack, 0, STEPS_FREE + STEPS_A_CHAR * n};
  bool ok = false;
  size_t end = at;
  ACCEL_TRY(match_program(&m, 0, at, &ok, &end));
  *length = ok ? end - at : 0;
  return ACCEL_OK;
}
