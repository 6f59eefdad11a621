/* regex.h - the regular expressions of tokenizer files: the part of Oniguruma's syntax that they
 * use, over code points.
 *
 * Understood: literals; . (any but a line feed); \s \S \d \D \w \W \p{X} \P{X} (general categories,
 * one or two letters); \n \r \t \f \v \xHH \x{H..} \uHHHH; [...] with ranges, classes inside,
 * negation; (...), (?:...), (?i:...) (groups capture nothing), (?>...), | ; greedy, lazy (?) and
 * possessive (+) quantifiers ? * + {m} {m,} {m,n} {,n}; (?=...) (?!...) ; ^ $ (line ends), \A \z \b
 * \B. Anything else is refused by name, as is an expression that could match nothing at all.
 * Classes mean what the generated Unicode tables say.  Matching backtracks on a stack of its own,
 * within a budget of steps.
 */
#ifndef ACCEL_TEXT_REGEX_H
#define ACCEL_TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "core/arena.h"
#include "core/status.h"

struct accel__char;
typedef struct accel__regex accel__regex; /* lives in the arena; read-only, shared by threads */

/* ACCEL_ERROR_UNSUPPORTED names the construct and its place in the expression. */
accel_status accel__regex_compile(accel__arena *arena, const char *expression,
                                  const accel__regex **out);

/* Backtracking points of one thread; {0} is empty. */
typedef struct accel__regex_stack {
  struct accel__regex_point *at;
  size_t capacity;
  size_t steps; /* taken so far; set to 0 before a text is searched */
} accel__regex_stack;

/* Does a match begin at chars[at] of n?  *length is 0 when not.  ACCEL_ERROR_LIMIT when searching
 * the text takes more than 10 million steps and 1,000 a code point. */
accel_status accel__regex_match(const accel__regex *regex, const struct accel__char *chars,
                                size_t n, size_t at, accel__regex_stack *stack, size_t *length);

/* ---- whole texts, as Python's re.fullmatch takes them ---- */

/* Also of expressions that match an empty text. */
accel_status accel__regex_compile_whole(accel__arena *arena, const char *expression,
                                        const accel__regex **out);
/* Does all of `text` (UTF-8, with no line feed) match?  `regex`: of accel__regex_compile_whole. */
accel_status accel__regex_match_whole(const accel__regex *regex, const char *text, bool *matches);

#endif
