/* http_form.h - the fields of a form: multipart/form-data, application/x-www-form-urlencoded. */
#ifndef ACCEL_SERVE_HTTP_FORM_H
#define ACCEL_SERVE_HTTP_FORM_H

#include "serve/serve.h"

enum { HTTP_FORM_MOST = 256 }; /* fields of a form */

/* Reads body[n], which has one more byte behind it and is written to: the fields lie in it, their
 * names, types and data zero-terminated.
 *
 * type: the value of Content-Type.  *part: malloc'd, [*n_part].  NULL: it went well; else why not, a
 * constant, and there is nothing to free.
 */
const char *http_form_parse(const char *type, char *body, size_t n, serve_part **part,
                            uint32_t *n_part);

#endif
