/* serve_page.h - the page at "/", embedded from src/serve/page at build (cmake/serve.cmake). */
#ifndef ACCEL_SERVE_PAGE_H
#define ACCEL_SERVE_PAGE_H

#include <stddef.h>

typedef struct serve_page_file {
  const char *name; /* "index.html" */
  const char *text;
} serve_page_file;
extern const serve_page_file serve_page_files[];
extern const size_t serve_page_file_count;

#endif
