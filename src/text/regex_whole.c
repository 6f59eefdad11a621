/* regex_whole.c - expressions that must match the whole of a text.  The text gets a line feed in
 * front, so that what could match nothing at all may be asked for, and ^ holds where it begins. */
#include <stdlib.h>
#include <string.h>

#include "text/regex.h"
#include "text/text_internal.h"

accel_status accel__regex_compile_whole(accel__arena *arena, const char *expression,
                                        const accel__regex **out) {
  const char *whole = accel__arena_printf(arena, "\\n(?:%s)\\z", expression);
  return whole ? accel__regex_compile(arena, whole, out) : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__regex_match_whole(const accel__regex *regex, const char *text, bool *matches) {
  accel__chars chars = {.n = 0}, behind = {.n = 0};
  accel__regex_stack stack = {.at = NULL};
  size_t length = 0;
  accel_status status = accel__chars_push(&chars, '\n', 0, 0);
  if (status == ACCEL_OK) status = accel__chars_decode(&behind, text, strlen(text));
  for (size_t i = 0; status == ACCEL_OK && i < behind.n; i++)
    status = accel__chars_push(&chars, behind.at[i].c, 0, 0);
  if (status == ACCEL_OK) status = accel__regex_match(regex, chars.at, chars.n, 0, &stack, &length);
  *matches = status == ACCEL_OK && length == chars.n;
  free(behind.at);
  free(chars.at);
  free(stack.at);
  return status;
}
