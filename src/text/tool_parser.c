/* tool_parser.c - takes generated texts apart, piece by piece: what is text, and what is a call. */
#include <stdlib.h>
#include <string.h>

#include "text/tool_calls.h"

enum { HEAD_MAX = 1 << 16 /* bytes in which a call must have begun */ };

typedef enum state {
  IN_TEXT,
  IN_HEAD,       /* held[head..] may be a call */
  IN_ARGUMENTS,  /* held are the arguments' next bytes */
  IN_PARAMETERS, /* between parameters */
  IN_LITERALS,   /* likewise */
  IN_TAIL,       /* behind the arguments, before `close` */
  BETWEEN        /* behind a call: the next one, or the end of all */
} state;

struct accel_tool_parser {
  const accel_tools *tools;
  const accel__tool_family *family;
  accel__buffer held, piece, value;
  state state;
  size_t head;    /* IN_HEAD: where the trigger begins */
  bool inside;    /* IN_HEAD: behind another call, so that `begin` has been read */
  bool begun;     /* of a family whose calls are whole texts: it has begun otherwise */
  bool behind;    /* a call was the last that came */
  bool in_object; /* IN_TAIL: the object around the arguments is still open */
  accel__value_scan scan;
  const accel__tool *tool; /* of the call */
  uint32_t calls, parameters;
  accel_tool_fn fn;
  void *user;
};

/* What a step did. */
typedef enum progress { WAITS, GOES_ON } progress;

/* ---- pieces ---- */

static void tell(accel_tool_parser *p, accel_tool_event_kind kind, const char *text, size_t n) {
  if (!n && kind != ACCEL_TOOL_CALL) return;
  p->piece.n = 0;
  accel__buffer_bytes(&p->piece, text, n);
  if (p->piece.failed) return;
  p->behind = kind != ACCEL_TOOL_TEXT;
  const accel_tool_event event = {.size = sizeof event,
                                  .kind = kind,
                                  .call = p->calls - (kind != ACCEL_TOOL_TEXT),
                                  .text = p->piece.data};
  p->fn(p->user, &event);
}

static void drop(accel_tool_parser *p, size_t n) {
  memmove(p->held.data, p->held.data + n, p->held.n - n);
  p->held.n -= n;
  p->held.data[p->held.n] = 0;
}

static void tell_and_drop(accel_tool_parser *p, size_t n) {
  tell(p, ACCEL_TOOL_TEXT, p->held.data, n);
  drop(p, n);
}

/* ---- texts ---- */

static size_t without_blanks(const char *text, size_t n) {
  while (n && accel__is_blank(text[n - 1])) n--;
  return n;
}

/* Whole texts that are calls: the first character tells. */
static progress step_whole(accel_tool_parser *p) {
  const size_t at = accel__skip_blanks(p->held.data, p->held.n, 0);
  if (at == p->held.n) return WAITS;
  p->begun = true;
  if (p->held.data[at] != '{') return GOES_ON;
  p->head = at;
  p->state = IN_HEAD;
  return GOES_ON;
}

/* Text up to where a call may begin; blanks before that place wait with it. */
static progress step_text(accel_tool_parser *p) {
  const accel__tool_family *f = p->family;
  if (f->whole && !p->begun) return step_whole(p);
  char trigger[64];
  size_t n, where = p->held.n, end;
  const char *opening = accel__tool_trigger(f, &n);
  accel__scan found = ACCEL__SCAN_NO;
  if (!f->whole && n < sizeof trigger) {
    memcpy(trigger, opening, n);
    trigger[n] = 0;
    found = accel__scan_find(p->held.data, p->held.n, 0, trigger, &where, &end);
  }
  const size_t blanks = without_blanks(p->held.data, where);
  if (blanks) tell_and_drop(p, blanks);
  if (found != ACCEL__SCAN_YES) return WAITS;
  p->head = where - blanks;
  p->state = IN_HEAD;
  return GOES_ON;
}

/* What looked like a call is none: its first character is text, and so on from there. */
static progress no_call(accel_tool_parser *p) {
  p->state = IN_TEXT;
  p->inside = false;
  tell_and_drop(p, p->head < p->held.n ? p->head + 1 : p->held.n);
  return GOES_ON;
}

/* ---- heads ---- */

/* The length of a name without what is no part of it: an id or the number of the call. */
static size_t without_number(const accel__tool_family *f, const char *name, size_t n) {
  size_t where, end;
  if (f->id_open && accel__scan_find(name, n, 0, f->id_open, &where, &end) == ACCEL__SCAN_YES)
    return where;
  const size_t m = f->number_open ? strlen(f->number_open) : 0;
  size_t i = n;
  while (m && i && name[i - 1] >= '0' && name[i - 1] <= '9') i--;
  return i < n && i >= m && !memcmp(name + i - m, f->number_open, m) ? i - m : n;
}

/* Name and place of the arguments behind `open`, where the name stands by itself. */
static accel__scan scan_named(accel_tool_parser *p, size_t at, accel__call_head *out) {
  const char *text = p->held.data, *name_end = p->family->name_end;
  const size_t n = p->held.n;
  size_t where, end;
  if (!name_end[strspn(name_end, " \n")]) { /* a line end, or what comes next */
    where = at + strcspn(text + at, "< \t\r\n");
    if (where == n) return ACCEL__SCAN_MORE;
    end = accel__skip_blanks(text, n, where);
  } else {
    const accel__scan found = accel__scan_find(text, n, at, name_end, &where, &end);
    if (found == ACCEL__SCAN_NO) return n - at > 128 ? found : ACCEL__SCAN_MORE;
    if (found == ACCEL__SCAN_MORE) return found;
  }
  const size_t from = accel__skip_blanks(text, where, at);
  *out = (accel__call_head){.name = text + from, .arguments = end};
  out->name_n = without_number(p->family, out->name, without_blanks(out->name, where - from));
  if (p->family->style != ACCEL__TOOLS_NAMED) return ACCEL__SCAN_YES;
  out->arguments = accel__skip_blanks(text, n, end);
  if (out->arguments == n) return ACCEL__SCAN_MORE;
  return text[out->arguments] == '{' ? ACCEL__SCAN_YES : ACCEL__SCAN_NO;
}

static accel__scan scan_head(accel_tool_parser *p, accel__call_head *out) {
  const accel__tool_family *f = p->family;
  size_t at = p->head;
  accel__scan found = ACCEL__SCAN_YES;
  if (!p->inside)
    found = accel__scan_literal(p->held.data, p->held.n, accel__tool_text(f->begin), &at);
  if (found == ACCEL__SCAN_YES)
    found = accel__scan_literal(p->held.data, p->held.n, accel__tool_text(f->open), &at);
  if (found != ACCEL__SCAN_YES) return found;
  return f->style == ACCEL__TOOLS_JSON ? accel__scan_call(p->held.data, p->held.n, at, out)
                                       : scan_named(p, at, out);
}

/* Arguments of an object that is all there: an object, or a string with one in it. */
static void tell_whole(accel_tool_parser *p, const accel__call_head *head) {
  const char *from = p->held.data + head->arguments;
  const size_t n = head->end - head->arguments;
  accel__json_file file = {0};
  if (!head->arguments) {
    tell(p, ACCEL_TOOL_ARGUMENTS, "{}", 2);
  } else if (*from == '"' && accel__json_parse(from, n, "arguments", &file) == ACCEL_OK) {
    tell(p, ACCEL_TOOL_ARGUMENTS, file.root->valuestring, strlen(file.root->valuestring));
  } else {
    tell(p, ACCEL_TOOL_ARGUMENTS, from, n);
  }
  accel__json_free(&file);
}

static progress step_head(accel_tool_parser *p) {
  accel__call_head head;
  const accel__scan found = p->held.n - p->head > HEAD_MAX ? ACCEL__SCAN_NO : scan_head(p, &head);
  if (found == ACCEL__SCAN_MORE) return WAITS;
  p->tool = found == ACCEL__SCAN_YES ? accel__tools_find(p->tools, head.name, head.name_n) : NULL;
  if (!p->tool) return no_call(p);
  p->calls++;
  p->begun = true;
  tell(p, ACCEL_TOOL_CALL, head.name, head.name_n);
  p->scan = (accel__value_scan){.depth = 0};
  p->parameters = 0;
  p->in_object = p->family->style == ACCEL__TOOLS_JSON && !head.whole;
  p->state = head.whole                                    ? IN_TAIL
             : p->family->style == ACCEL__TOOLS_PARAMETERS ? IN_PARAMETERS
             : p->family->style == ACCEL__TOOLS_LITERALS   ? IN_LITERALS
                                                           : IN_ARGUMENTS;
  if (head.whole) tell_whole(p, &head);
  drop(p, head.whole ? head.object_end : head.arguments);
  return GOES_ON;
}

/* ---- arguments ---- */

static progress step_arguments(accel_tool_parser *p) {
  size_t used = 0;
  const accel__scan found = accel__scan_value(&p->scan, p->held.data, p->held.n, &used);
  tell(p, ACCEL_TOOL_ARGUMENTS, p->held.data, used);
  drop(p, used);
  if (found == ACCEL__SCAN_MORE) return WAITS;
  p->state = found == ACCEL__SCAN_YES ? IN_TAIL : IN_TEXT;
  p->inside = false;
  return GOES_ON;
}

/* Is the parameter a string, or not described? */
static bool is_text(const accel_tool_parser *p, const char *name, size_t n) {
  ACCEL_JSON_EACH(item, accel__json_get(p->tool->parameters, "properties")) {
    if (!item->string || strlen(item->string) != n || memcmp(item->string, name, n) != 0) continue;
    return accel__tool_is_text(item);
  }
  return true;
}

static void begin_parameter(accel_tool_parser *p, const char *name, size_t n) {
  p->value.n = 0;
  accel__buffer_text(&p->value, p->parameters++ ? ", " : "{");
  accel__buffer_json_string(&p->value, name, n);
  accel__buffer_text(&p->value, ": ");
}

static void tell_parameter(accel_tool_parser *p, const char *name, size_t name_n, const char *value,
                           size_t n) {
  accel__json_file file = {0};
  begin_parameter(p, name, name_n);
  if (!is_text(p, name, name_n) && accel__json_parse(value, n, "value", &file) == ACCEL_OK)
    accel__buffer_bytes(&p->value, value, n);
  else
    accel__buffer_json_string(&p->value, value, n);
  accel__json_free(&file);
  if (!p->value.failed) tell(p, ACCEL_TOOL_ARGUMENTS, p->value.data, p->value.n);
}

static void end_parameters(accel_tool_parser *p) {
  if (p->parameters)
    tell(p, ACCEL_TOOL_ARGUMENTS, "}", 1);
  else
    tell(p, ACCEL_TOOL_ARGUMENTS, "{}", 2);
}

/* The end of parameters at `begin`: YES, where `close` is there. */
static progress leave_parameters(accel_tool_parser *p, accel__scan found, size_t begin,
                                 size_t behind) {
  end_parameters(p);
  drop(p, found == ACCEL__SCAN_YES ? behind : begin);
  p->state = found == ACCEL__SCAN_YES ? BETWEEN : IN_TEXT;
  return GOES_ON;
}

/* Where the name of a parameter ends, and its value begins: behind one line end, where the
 * description has it. */
static bool find_value(const char *text, size_t n, size_t at, const char *name_end, size_t *where,
                       size_t *value) {
  size_t m = strlen(name_end);
  const bool line = name_end[m - 1] == '\n';
  char marker[64];
  m -= line;
  if (m >= sizeof marker) m = sizeof marker - 1;
  memcpy(marker, name_end, m);
  marker[m] = 0;
  if (accel__scan_find(text, n, at, marker, where, value) != ACCEL__SCAN_YES) return false;
  if (line && *value < n && text[*value] == '\n') ++*value;
  return true;
}

/* One line end at each side of a value belongs to the markup, where the description has it. */
static progress step_parameters(accel_tool_parser *p) {
  const accel__tool_family *f = p->family;
  const char *text = p->held.data;
  const size_t n = p->held.n, begin = accel__skip_blanks(text, n, 0);
  size_t at = begin, name_end = n, value = n, value_end, end, other, other_value;
  accel__scan found = accel__scan_literal(text, n, f->parameter_open, &at);
  if (found == ACCEL__SCAN_NO) {
    at = begin;
    found = accel__scan_literal(text, n, f->close, &at);
    return found == ACCEL__SCAN_MORE ? WAITS : leave_parameters(p, found, begin, at);
  }
  if (found == ACCEL__SCAN_MORE) return WAITS;
  bool there = find_value(text, n, at, f->parameter_name_end, &name_end, &value);
  if (f->parameter_json_end &&
      find_value(text, n, at, f->parameter_json_end, &other, &other_value) && other < name_end)
    there = true, name_end = other, value = other_value;
  if (!there) return WAITS;
  if (accel__scan_find(text, n, value, f->parameter_close, &value_end, &end) != ACCEL__SCAN_YES)
    return WAITS;
  if (*f->parameter_close == '\n' && value_end > value && text[value_end - 1] == '\n') value_end--;
  tell_parameter(p, text + at, name_end - at, text + value, value_end - value);
  drop(p, end);
  return GOES_ON;
}

static progress step_literals(accel_tool_parser *p) {
  const accel__tool_family *f = p->family;
  const char *text = p->held.data;
  const size_t n = p->held.n, begin = accel__skip_blanks(text, n, 0);
  size_t at = begin, name_end, value, end;
  accel__scan found = accel__scan_literal(text, n, f->close, &at);
  if (found == ACCEL__SCAN_YES) return leave_parameters(p, found, begin, at);
  if (found == ACCEL__SCAN_MORE) return WAITS;
  at = begin;
  if (p->parameters) found = accel__scan_literal(text, n, f->parameter_separator, &at);
  if (p->parameters && found == ACCEL__SCAN_MORE) return WAITS;
  if (p->parameters && found == ACCEL__SCAN_NO) return leave_parameters(p, found, begin, at);
  if (accel__scan_find(text, n, at, f->parameter_name_end, &name_end, &value) != ACCEL__SCAN_YES)
    return WAITS;
  found = accel__literal_end(text, n, value, f->quote, &end);
  if (found == ACCEL__SCAN_MORE) return WAITS;
  if (found == ACCEL__SCAN_NO) return leave_parameters(p, found, begin, at);
  begin_parameter(p, text + at, without_blanks(text + at, name_end - at));
  if (!accel__literal_json(text + value, end - value, f->quote, &p->value))
    accel__buffer_json_string(&p->value, text + value, end - value);
  if (!p->value.failed) tell(p, ACCEL_TOOL_ARGUMENTS, p->value.data, p->value.n);
  drop(p, end);
  return GOES_ON;
}

/* ---- ends of calls ---- */

/* Members behind the arguments, up to the object's end. */
static accel__scan skip_object(const char *text, size_t n, size_t *at) {
  accel__value_scan s = {.depth = 1, .close = {'}'}};
  size_t used = 0;
  const accel__scan found = accel__scan_value(&s, text + *at, n - *at, &used);
  if (found == ACCEL__SCAN_YES) *at += used;
  return found;
}

static progress step_tail(accel_tool_parser *p) {
  size_t at = 0;
  accel__scan found = ACCEL__SCAN_YES;
  if (p->in_object) found = skip_object(p->held.data, p->held.n, &at);
  if (found == ACCEL__SCAN_MORE && p->held.n < HEAD_MAX) return WAITS;
  if (found == ACCEL__SCAN_YES) {
    drop(p, at);
    p->in_object = false;
    at = 0;
    found = accel__scan_literal(p->held.data, p->held.n, p->family->close, &at);
    if (found == ACCEL__SCAN_MORE) return WAITS;
  }
  if (found == ACCEL__SCAN_YES) drop(p, at);
  p->state = found == ACCEL__SCAN_YES ? BETWEEN : IN_TEXT;
  p->inside = false;
  return GOES_ON;
}

static bool is_blank_text(const char *text) { return !text[strspn(text, " \n")]; }

static progress step_between(accel_tool_parser *p) {
  const accel__tool_family *f = p->family;
  const bool section = accel__tool_has_section(f);
  size_t at = 0, begin = accel__skip_blanks(p->held.data, p->held.n, 0);
  p->state = IN_TEXT;
  p->inside = false;
  if (!section && !f->whole) return GOES_ON;
  if (begin == p->held.n) {
    p->state = BETWEEN;
    return WAITS;
  }
  at = begin;
  accel__scan found =
      section ? accel__scan_literal(p->held.data, p->held.n, accel__tool_text(f->end), &at)
              : ACCEL__SCAN_NO;
  if (found == ACCEL__SCAN_YES) {
    drop(p, at);
    return GOES_ON;
  }
  at = begin;
  const bool more = found == ACCEL__SCAN_MORE;
  found = accel__scan_literal(p->held.data, p->held.n, f->separator, &at);
  if (more || found == ACCEL__SCAN_MORE) {
    p->state = BETWEEN;
    return WAITS;
  }
  const bool object = section && (f->style == ACCEL__TOOLS_JSON ? p->held.data[begin] == '{'
                                                                : p->held.data[begin] != '<');
  if (found == ACCEL__SCAN_NO ||
      (is_blank_text(f->separator) && !*accel__tool_text(f->open) && !object))
    return GOES_ON;
  p->head = at;
  p->inside = true;
  p->state = IN_HEAD;
  return GOES_ON;
}

/* ---- all of it ---- */

static progress step(accel_tool_parser *p) {
  switch (p->state) {
    case IN_TEXT:
      return p->held.n ? step_text(p) : WAITS;
    case IN_HEAD:
      return step_head(p);
    case IN_ARGUMENTS:
      return step_arguments(p);
    case IN_PARAMETERS:
      return step_parameters(p);
    case IN_LITERALS:
      return step_literals(p);
    case IN_TAIL:
      return step_tail(p);
    case BETWEEN:
      return step_between(p);
  }
  return WAITS;
}

static accel_status status_of(const accel_tool_parser *p) {
  ACCEL_TRY(accel__buffer_status(&p->held));
  ACCEL_TRY(accel__buffer_status(&p->piece));
  return accel__buffer_status(&p->value);
}

accel_status accel__tool_parser_new(const accel_tools *tools, accel_tool_parser **out) {
  accel_tool_parser *p = calloc(1, sizeof *p);
  if (!p) return accel__no_memory(sizeof *p);
  p->tools = tools;
  p->family = tools->family;
  *out = p;
  return ACCEL_OK;
}

accel_status accel__tool_parser_feed(accel_tool_parser *p, const char *text, size_t n,
                                     accel_tool_fn fn, void *user) {
  p->fn = fn;
  p->user = user;
  if (!n) return status_of(p);
  accel__buffer_bytes(&p->held, text, n);
  while (!p->held.failed && step(p) == GOES_ON) continue;
  return status_of(p);
}

accel_status accel__tool_parser_end(accel_tool_parser *p, accel_tool_fn fn, void *user) {
  p->fn = fn;
  p->user = user;
  if (p->state == IN_HEAD && p->inside && p->head >= p->held.n) p->held.n = 0; /* a separator */
  while (!p->held.failed && p->held.n && p->state == IN_HEAD && no_call(p) == GOES_ON)
    while (step(p) == GOES_ON) continue;
  const size_t blanks = p->held.n ? accel__skip_blanks(p->held.data, p->held.n, 0) : 0;
  if (p->state == IN_TEXT && p->held.n && !(p->behind && blanks == p->held.n))
    tell_and_drop(p, p->held.n);
  return status_of(p);
}

void accel__tool_parser_free(accel_tool_parser *p) {
  if (!p) return;
  accel__buffer_free(&p->held);
  accel__buffer_free(&p->piece);
  accel__buffer_free(&p->value);
  free(p);
}
