/* grammar.c - compiling sources of every kind, and the life of a grammar. */
#include "text/grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/text.h"
#include "text/grammar/matcher.h"
#include "text/grammar/sources.h"

/* ---- choices ---- */

static accel_status add_choice(accel__rule *r, const accel__json *item, uint32_t number) {
  if (!cJSON_IsString(item) || !*item->valuestring)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "choices: element %u is no text, or an empty one",
                       number);
  accel__rule_empty(r, accel__rule_text(r, 0, item->valuestring), 1);
  return r ? r->rules->status : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__choice_rules(accel__rules *rules, const char *text, size_t n) {
  accel__json_file file = {0};
  accel_status status = accel__json_parse(text, n, "choices", &file);
  accel__rule *r = accel__rules_add(rules, "the choices", 11);
  uint32_t number = 0;
  if (status == ACCEL_ERROR_FORMAT) status = accel__wrap(ACCEL_ERROR_ARGUMENT, "grammar");
  if (status == ACCEL_OK && (!cJSON_IsArray(file.root) || !file.root->child))
    status =
        accel__remedy(accel__fail(ACCEL_ERROR_ARGUMENT, "choices: not a JSON array with texts"),
                      "write them as [\"yes\", \"no\"]");
  ACCEL_JSON_EACH(item, status == ACCEL_OK ? file.root : NULL)
  if (status == ACCEL_OK) status = add_choice(r, item, number++);
  accel__json_free(&file);
  return status;
}

/* ---- compiling ---- */

static accel_status read_source(accel_grammar_kind kind, const char *text, size_t n,
                                accel__rules *rules) {
  switch (kind) {
    case ACCEL_GRAMMAR_JSON_SCHEMA:
      return accel__schema_rules(rules, text, n);
    case ACCEL_GRAMMAR_REGEX:
      return accel__regex_rules(rules, text, n);
    case ACCEL_GRAMMAR_TEXT:
      return accel__text_rules(rules, text, n);
    case ACCEL_GRAMMAR_CHOICES:
      return accel__choice_rules(rules, text, n);
    case ACCEL_GRAMMAR_JSON:
      return accel__json_rules(rules);
    case ACCEL_GRAMMAR_STRUCTURAL_TAG:
      return accel__structural_rules(rules, text, n);
    default:
      return accel__fail(ACCEL_ERROR_ARGUMENT, "grammar: kind %d is none", (int)kind);
  }
}

static accel_status check_source(const char *text, size_t n) {
  if (n > ACCEL__GRAMMAR_SOURCE_MAX)
    return accel__fail(ACCEL_ERROR_LIMIT, "grammar: a text of %zu bytes; at most %d", n,
                       ACCEL__GRAMMAR_SOURCE_MAX);
  if (n && !accel__utf8_valid(text, n))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "grammar: the text is not UTF-8");
  return ACCEL_OK;
}

accel_status accel__grammar_compile(accel_grammar_kind kind, const char *text, size_t n,
                                    accel__grammar **out) {
  accel__rules rules = {0};
  *out = NULL;
  ACCEL_TRY(check_source(text, n));
  accel__grammar *g = calloc(1, sizeof *g);
  if (!g) return accel__no_memory(sizeof *g);
  pthread_mutex_init(&g->lock, NULL);
  atomic_init(&g->references, 1);
  accel_status status = read_source(kind, text, n, &rules);
  if (status == ACCEL_OK) status = accel__automaton_make(&rules, &g->automaton);
  accel__rules_free(&rules);
  if (status == ACCEL_OK)
    *out = g;
  else
    accel__grammar_release(&g);
  return status;
}

accel__grammar *accel__grammar_share(accel__grammar *g) {
  atomic_fetch_add(&g->references, 1);
  return g;
}

void accel__grammar_release(accel__grammar **grammar) {
  accel__grammar *g = *grammar;
  *grammar = NULL;
  if (!g || atomic_fetch_sub(&g->references, 1) > 1) return;
  accel__masks_free(g);
  accel__automaton_free(&g->automaton);
  pthread_mutex_destroy(&g->lock);
  free(g);
}

size_t accel__grammar_states(const accel__grammar *g) { return g->automaton.n_states; }

size_t accel__grammar_bytes(accel__grammar *g) {
  pthread_mutex_lock(&g->lock);
  const size_t masks = g->mask_bytes;
  pthread_mutex_unlock(&g->lock);
  return sizeof *g + accel__automaton_bytes(&g->automaton) + masks +
         g->automaton.n_states * (sizeof *g->plain_step + sizeof(accel__state_mask *));
}
