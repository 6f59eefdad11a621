/* jinja_strings.h - work on strings that methods of str and filters share. */
#ifndef ACCEL_TEXT_JINJA_STRINGS_H
#define ACCEL_TEXT_JINJA_STRINGS_H

#include "text/jinja/jinja.h"

/* Takes white space, or the code points of `set`, off the ends. */
void accel__jinja_strip(accel__jinja_value *v, const accel__jinja_value *set, bool left,
                        bool right);
/* how: U upper, L lower, C capitalize, T title() of str, S swapcase, W title of jinja2 */
accel_status accel__jinja_case(accel__jinja *run, const accel__jinja_value *self, char how,
                               accel__jinja_value *out);
bool accel__jinja_is_case(const accel__jinja_value *v, bool upper); /* isupper, islower */
/* At most `most` times; negative: all. */
accel_status accel__jinja_replace(accel__jinja *run, const accel__jinja_value *self,
                                  const accel__jinja_value *from, const accel__jinja_value *to,
                                  int64_t most, accel__jinja_value *out);
accel_status accel__jinja_splitlines(accel__jinja *run, const accel__jinja_value *self, bool keep,
                                     accel__jinja_value *out);
accel_status accel__jinja_pad(accel__jinja *run, const accel__jinja_value *self, int64_t width,
                              char align, const accel__jinja_value *fill, accel__jinja_value *out);
accel_status accel__jinja_dict_items(accel__jinja *run, const accel__jinja_dict *dict,
                                     accel__jinja_value *out);

#endif
