/* library.c - vendor libraries by name, and their functions into a table. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "hip/hip.h"

void *hip_library(const char *const *names, char *why, size_t n) {
  size_t used = (size_t)snprintf(why, n, "not found:");
  for (size_t i = 0; names[i]; i++) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library) return library;
    const char *said = dlerror();
    /* a file that is there and does not load is the news; absent ones are listed */
    if (said && !strstr(said, "No such file")) {
      snprintf(why, n, "%s", said);
      return NULL;
    }
    if (used < n) used += (size_t)snprintf(why + used, n - used, "%s %s", i ? "," : "", names[i]);
  }
  return NULL;
}

bool hip_symbols(void *library, const hip_symbol *list, size_t n_list, void *table, char *why, size_t n) {
  for (size_t i = 0; i < n_list; i++) {
    void *symbol = dlsym(library, list[i].name);
    if (!symbol && !list[i].optional) {
      snprintf(why, n, "the library has no %s", list[i].name);
      return false;
    }
    memcpy((char *)table + list[i].offset, &symbol, sizeof symbol);
  }
  return true;
}
