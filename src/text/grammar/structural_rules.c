/* structural_rules.c - structural tags, as xgrammar and vLLM have them: texts in which some parts are
 * free and others constrained.
 *
 * A format is an object with a type: any_text, const_string, json_schema, regex, sequence, or,
 * optional, tag, triggered_tags, tags_with_separator.  All of them become one rule, from state to
 * state; schemas are rules of their own.
 *
 * Free text does not contain the texts that end it, or those that trigger a tag: it is read by the
 * automaton of Aho and Corasick over code points, whose matches are left out. */
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "text/grammar/sources.h"
#include "text/grammar/vocabulary.h"

enum {
  DEPTH_MAX = 32,    /* formats inside of formats */
  EXCLUDED_MAX = 64, /* texts that a free text must not contain */
  POINTS_MAX = 256   /* code points of all of them, and nodes */
};

typedef struct builder {
  accel__rules *rules;
  accel__rule *r; /* rule 0 */
  accel__json_parts parts;
  const accel__json *special; /* texts of special tokens, or NULL */
  unsigned depth;
} builder;

/* Texts that a free text does not contain. */
typedef struct excluded {
  const char *text[EXCLUDED_MAX];
  uint32_t n;
} excluded;

static accel_status bad(const char *where, const char *what) {
  return accel__fail(ACCEL_ERROR_ARGUMENT, "structural tag: %s: %s", where, what);
}

static const char *text_of(const accel__json *node) {
  return cJSON_IsString(node) ? node->valuestring : NULL;
}

/* ---- literal texts ---- */

/* The first text of `special` that `text` begins with; NULL. */
static const char *special_at(const builder *b, const char *text) {
  ACCEL_JSON_EACH(item, b->special) {
    const char *s = text_of(item);
    if (s && *s && accel__starts_with(text, s)) return s;
  }
  return NULL;
}

/* A text, in which special tokens may be the tokens or be spelled out. */
static uint32_t add_literal(builder *b, uint32_t from, const char *text) {
  while (*text) {
    const char *special = special_at(b, text);
    if (special) {
      const uint32_t next = accel__rule_text(b->r, from, ACCEL__SPECIAL_TOKEN);
      accel__rule_empty(b->r, from, next);
      from = accel__rule_text(b->r, next, special);
      text += strlen(special);
    } else {
      from = accel__rule_literal(b->r, from, text++, 1);
    }
  }
  return from;
}

/* ---- free texts ---- */

typedef struct search {
  uint32_t point[POINTS_MAX]; /* [points] the different code points of all texts */
  uint32_t points;
  /* [n][points] node that a point leads to; 0: the root */
  uint16_t next[POINTS_MAX][POINTS_MAX];
  uint16_t fail[POINTS_MAX];  /* node of the longest end that begins a text, too */
  uint16_t order[POINTS_MAX]; /* nodes by depth */
  uint32_t depth[POINTS_MAX], state[POINTS_MAX];
  bool found[POINTS_MAX]; /* a text ends here */
  uint32_t n;
} search;

static uint32_t number_of(search *s, uint32_t point) {
  uint32_t i = 0;
  while (i < s->points && s->point[i] != point) i++;
  if (i == s->points && i < POINTS_MAX) s->point[s->points++] = point;
  return i;
}

static accel_status add_pattern(search *s, const char *text) {
  uint32_t node = 0;
  for (size_t i = 0, n = strlen(text); i < n;) {
    uint32_t point;
    i += accel__utf8_decode(text + i, n - i, &point);
    const uint32_t number = number_of(s, point);
    if (number == POINTS_MAX || s->n == POINTS_MAX)
      return accel__fail(ACCEL_ERROR_LIMIT,
                         "structural tag: the texts that end a free text have more than %d "
                         "characters",
                         POINTS_MAX);
    uint16_t *next = &s->next[node][number];
    if (!*next) {
      s->depth[s->n] = s->depth[node] + 1;
      *next = (uint16_t)s->n++;
    }
    node = *next;
  }
  s->found[node] = node != 0;
  return ACCEL_OK;
}

/* From children to steps: where there is no child, the node's longest end says what follows. */
static void link_nodes(search *s) {
  uint32_t n = 0;
  for (uint32_t depth = 0; n < s->n; depth++)
    for (uint32_t i = 0; i < s->n; i++)
      if (s->depth[i] == depth) s->order[n++] = (uint16_t)i;
  for (uint32_t i = 0; i < s->n; i++) {
    const uint16_t node = s->order[i];
    s->found[node] |= s->found[s->fail[node]];
    for (uint32_t k = 0; k < s->points; k++) {
      uint16_t *next = &s->next[node][k];
      const uint16_t other = node ? s->next[s->fail[node]][k] : 0;
      if (*next)
        s->fail[*next] = other;
      else
        *next = other;
    }
  }
}

/* What leads from a node: points of the texts by themselves, all others to the root. */
static void add_steps(builder *b, const search *s, uint32_t node) {
  accel__code_set others = {.n = 0};
  accel__code_set_invert(&others);
  for (uint32_t k = 0; k < s->points; k++) {
    const uint32_t next = s->next[node][k];
    if (!next) continue;
    char bytes[4];
    const size_t n = accel__utf8_encode(s->point[k], bytes);
    accel__code_set_remove(&others, s->point[k], s->point[k]);
    if (!s->found[next])
      accel__rule_empty(b->r, accel__rule_literal(b->r, s->state[node], bytes, n), s->state[next]);
  }
  accel__rule_code_set(b->r, s->state[node], &others, ACCEL__SPELL_PLAIN, s->state[0]);
}

/* Any text without the excluded ones. */
static accel_status add_free(builder *b, uint32_t from, const excluded *without, uint32_t *to) {
  search *s = calloc(1, sizeof *s);
  if (!s) return accel__no_memory(sizeof *s);
  accel_status status = ACCEL_OK;
  s->n = 1;
  for (uint32_t i = 0; i < without->n && status == ACCEL_OK; i++)
    status = add_pattern(s, without->text[i]);
  if (status == ACCEL_OK) {
    link_nodes(s);
    *to = accel__rule_state(b->r);
    for (uint32_t i = 0; i < s->n; i++) s->state[i] = accel__rule_state(b->r);
    accel__rule_empty(b->r, from, s->state[0]);
    for (uint32_t i = 0; i < s->n && b->rules->status == ACCEL_OK; i++) {
      if (s->found[i]) continue;
      add_steps(b, s, i);
      accel__rule_empty(b->r, s->state[i], *to);
    }
    status = b->rules->status;
  }
  free(s);
  return status;
}

static accel_status exclude(excluded *e, const char *text) {
  if (!text || !*text || !accel__utf8_valid(text, strlen(text)))
    return bad("a text that ends free text", "expected a string that is not empty");
  if (e->n == EXCLUDED_MAX) return bad("a free text", "too many texts that it must not contain");
  e->text[e->n++] = text;
  return ACCEL_OK;
}

static accel_status exclude_all(excluded *e, const accel__json *list) {
  if (cJSON_IsString(list)) return exclude(e, list->valuestring);
  ACCEL_JSON_EACH(item, list) ACCEL_TRY(exclude(e, text_of(item)));
  return ACCEL_OK;
}

/* ---- formats ---- */

/* `outside`: what free text in it must not contain, as the end of the tag around it. */
static accel_status add_format(builder *b, const accel__json *node, const excluded *outside,
                               uint32_t from, uint32_t *to);

static accel_status add_schema(builder *b, const accel__json *node, uint32_t from, uint32_t *to) {
  const accel__json *schema = accel__json_get(node, "json_schema");
  accel__rule *made;
  if (!schema) return bad("json_schema", "the field json_schema is missing");
  ACCEL_TRY(accel__schema_add(&b->parts, schema, &made));
  *to = accel__rule_state(b->r);
  accel__rule_call(b->r, from, made, *to);
  return b->rules->status;
}

static accel_status add_regex(builder *b, const accel__json *node, uint32_t from, uint32_t *to) {
  const char *pattern = text_of(accel__json_get(node, "pattern"));
  if (!pattern) return bad("regex", "the field pattern is no string");
  const accel__regex_source source = {pattern, strlen(pattern), ACCEL__SPELL_PLAIN, false};
  return accel__regex_part(b->r, from, &source, to);
}

static accel_status add_sequence(builder *b, const accel__json *node, const excluded *outside,
                                 uint32_t from, uint32_t *to) {
  const accel__json *elements = accel__json_get(node, "elements");
  if (!cJSON_IsArray(elements)) return bad("sequence", "the field elements is no array");
  ACCEL_JSON_EACH(item, elements) {
    uint32_t next;
    ACCEL_TRY(add_format(b, item, outside, from, &next));
    from = next;
  }
  *to = from;
  return ACCEL_OK;
}

static accel_status add_choice(builder *b, const accel__json *node, const excluded *outside,
                               uint32_t from, uint32_t *to) {
  const accel__json *elements = accel__json_get(node, "elements");
  if (!cJSON_IsArray(elements) || !elements->child)
    return bad("or", "the field elements is no array, or an empty one");
  *to = accel__rule_state(b->r);
  ACCEL_JSON_EACH(item, elements) {
    /* a state of its own: what repeats in one alternative must not lead into the others */
    const uint32_t begin = accel__rule_state(b->r);
    uint32_t end;
    accel__rule_empty(b->r, from, begin);
    ACCEL_TRY(add_format(b, item, outside, begin, &end));
    accel__rule_empty(b->r, end, *to);
  }
  return b->rules->status;
}

/* begin, content, and one of the ends. */
static accel_status add_tag(builder *b, const accel__json *node, uint32_t from, uint32_t *to) {
  const char *begin = text_of(accel__json_get(node, "begin"));
  const accel__json *content = accel__json_get(node, "content"),
                    *end = accel__json_get(node, "end");
  excluded inside = {.n = 0};
  uint32_t at;
  if (!begin || !content || !(cJSON_IsString(end) || cJSON_IsArray(end)))
    return bad("tag", "begin, content and end are expected");
  if (!(cJSON_IsString(end) && !*end->valuestring)) ACCEL_TRY(exclude_all(&inside, end));
  ACCEL_TRY(add_format(b, content, &inside, add_literal(b, from, begin), &at));
  *to = accel__rule_state(b->r);
  if (cJSON_IsString(end)) accel__rule_empty(b->r, add_literal(b, at, end->valuestring), *to);
  ACCEL_JSON_EACH(item, cJSON_IsArray(end) ? end : NULL)
  accel__rule_empty(b->r, add_literal(b, at, item->valuestring), *to);
  return b->rules->status;
}

static accel_status add_tags(builder *b, const accel__json *tags, uint32_t from, uint32_t *to) {
  if (!cJSON_IsArray(tags) || !tags->child)
    return bad("tags", "expected an array of tags that is not empty");
  *to = accel__rule_state(b->r);
  ACCEL_JSON_EACH(tag, tags) {
    uint32_t end;
    ACCEL_TRY(add_tag(b, tag, from, &end));
    accel__rule_empty(b->r, end, *to);
  }
  return b->rules->status;
}

static bool is_set(const accel__json *node, const char *name) {
  return cJSON_IsTrue(accel__json_get(node, name));
}

/* Free text, and tags wherever a trigger comes. */
static accel_status add_triggered(builder *b, const accel__json *node, const excluded *outside,
                                  uint32_t from, uint32_t *to) {
  const accel__json *triggers = accel__json_get(node, "triggers");
  excluded without = outside ? *outside : (excluded){.n = 0};
  const uint32_t again = accel__rule_state(b->r);
  uint32_t text, behind;
  if (!cJSON_IsArray(triggers) || !triggers->child)
    return bad("triggered_tags", "the field triggers is no array, or an empty one");
  ACCEL_TRY(exclude_all(&without, triggers));
  ACCEL_TRY(exclude_all(&without, accel__json_get(node, "excludes")));
  accel__rule_empty(b->r, from, again);
  ACCEL_TRY(add_free(b, again, &without, &text));
  ACCEL_TRY(add_tags(b, accel__json_get(node, "tags"), text, &behind));
  *to = accel__rule_state(b->r);
  if (!is_set(node, "at_least_one")) accel__rule_empty(b->r, text, *to);
  if (is_set(node, "stop_after_first")) {
    accel__rule_empty(b->r, behind, *to);
    return b->rules->status;
  }
  if (!is_set(node, "at_least_one")) {
    accel__rule_empty(b->r, behind, again);
    return b->rules->status;
  }
  /* behind the first tag the text may end, wherever it is free */
  uint32_t more, last;
  const uint32_t loop = accel__rule_state(b->r);
  accel__rule_empty(b->r, behind, loop);
  ACCEL_TRY(add_free(b, loop, &without, &more));
  ACCEL_TRY(add_tags(b, accel__json_get(node, "tags"), more, &last));
  accel__rule_empty(b->r, last, loop);
  accel__rule_empty(b->r, more, *to);
  return b->rules->status;
}

/* Tags and nothing else, with a separator between them. */
static accel_status add_separated(builder *b, const accel__json *node, uint32_t from,
                                  uint32_t *to) {
  const char *separator = text_of(accel__json_get(node, "separator"));
  const uint32_t again = accel__rule_state(b->r);
  uint32_t behind;
  if (!separator) return bad("tags_with_separator", "the field separator is no string");
  accel__rule_empty(b->r, from, again);
  ACCEL_TRY(add_tags(b, accel__json_get(node, "tags"), again, &behind));
  *to = accel__rule_state(b->r);
  accel__rule_empty(b->r, behind, *to);
  if (!is_set(node, "at_least_one")) accel__rule_empty(b->r, from, *to);
  if (!is_set(node, "stop_after_first"))
    accel__rule_empty(b->r, add_literal(b, behind, separator), again);
  return b->rules->status;
}

static accel_status add_optional(builder *b, const accel__json *node, const excluded *outside,
                                 uint32_t from, uint32_t *to) {
  const uint32_t begin = accel__rule_state(b->r);
  uint32_t end;
  accel__rule_empty(b->r, from, begin);
  ACCEL_TRY(add_format(b, accel__json_get(node, "content"), outside, begin, &end));
  *to = accel__rule_state(b->r);
  accel__rule_empty(b->r, end, *to);
  accel__rule_empty(b->r, from, *to);
  return b->rules->status;
}

static accel_status add_any_text(builder *b, const accel__json *node, const excluded *outside,
                                 uint32_t from, uint32_t *to) {
  excluded without = outside ? *outside : (excluded){.n = 0};
  ACCEL_TRY(exclude_all(&without, accel__json_get(node, "excludes")));
  return add_free(b, from, &without, to);
}

static accel_status add_by_type(builder *b, const accel__json *node, const excluded *outside,
                                uint32_t from, uint32_t *to) {
  const char *type = text_of(accel__json_get(node, "type")),
             *value = text_of(accel__json_get(node, "value"));
  if (!type) return bad("a format", "its type is missing");
  if (!strcmp(type, "any_text")) return add_any_text(b, node, outside, from, to);
  if (!strcmp(type, "json_schema")) return add_schema(b, node, from, to);
  if (!strcmp(type, "regex")) return add_regex(b, node, from, to);
  if (!strcmp(type, "sequence")) return add_sequence(b, node, outside, from, to);
  if (!strcmp(type, "or")) return add_choice(b, node, outside, from, to);
  if (!strcmp(type, "optional")) return add_optional(b, node, outside, from, to);
  if (!strcmp(type, "tag")) return add_tag(b, node, from, to);
  if (!strcmp(type, "triggered_tags")) return add_triggered(b, node, outside, from, to);
  if (!strcmp(type, "tags_with_separator")) return add_separated(b, node, from, to);
  if (strcmp(type, "const_string") != 0)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_UNSUPPORTED, "structural tag: format '%s' is not supported", type),
        "docs/constrained.md has those that are");
  if (!value) return bad("const_string", "the field value is no string");
  *to = add_literal(b, from, value);
  return b->rules->status;
}

static accel_status add_format(builder *b, const accel__json *node, const excluded *outside,
                               uint32_t from, uint32_t *to) {
  if (!cJSON_IsObject(node)) return bad("a format", "expected an object with a type");
  if (b->depth == DEPTH_MAX)
    return accel__fail(ACCEL_ERROR_LIMIT, "structural tag: more than %d formats inside each other",
                       DEPTH_MAX);
  b->depth++;
  const accel_status status = add_by_type(b, node, outside, from, to);
  b->depth--;
  return status;
}

accel_status accel__structural_rules(accel__rules *rules, const char *text, size_t n) {
  builder b = {.rules = rules, .parts = {.rules = rules}};
  accel__json_file file = {0};
  uint32_t end = 0;
  accel_status status = accel__json_parse(text, n, "structural tag", &file);
  if (status == ACCEL_ERROR_FORMAT) status = accel__wrap(ACCEL_ERROR_ARGUMENT, "grammar");
  b.r = accel__rules_add(rules, "the structural tag", 18);
  if (status == ACCEL_OK) status = rules->status;
  if (status == ACCEL_OK) {
    b.special = accel__json_get(file.root, "special_tokens");
    status = add_format(&b, accel__json_get(file.root, "format"), NULL, 0, &end);
  }
  if (status == ACCEL_OK) accel__rule_empty(b.r, end, 1);
  accel__json_free(&file);
  return status == ACCEL_OK ? rules->status : status;
}
