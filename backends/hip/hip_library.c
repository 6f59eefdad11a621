/* hip_library.c - vendor libraries by name, and their functions into a table. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "hip/hip.h"

/* The first of `names` that is there; else `why` has those without a folder, and what folder others
 * are in: as short as that, the remedy behind it fits an error's message. */
static void *open_first(const char *const *names, char *why, size_t n) {
  const char *folder = NULL, *end = NULL;
  size_t used = (size_t)snprintf(why, n, "not found:");
  for (size_t i = 0; names[i]; i++) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library) return library;
    const char *said = dlerror();
    /* a file that is there but does not load is reported; absent ones are listed together */
    if (said && !strstr(said, "No such file")) {
      snprintf(why, n, "%s", said);
      return NULL;
    }
    if ((end = strrchr(names[i], '/'))) folder = names[i];
    if (!end && used < n)
      used += (size_t)snprintf(why + used, n - used, "%s %s", i ? "," : "", names[i]);
  }
  end = folder ? strrchr(folder, '/') : NULL;
  if (end && used < n)
    snprintf(why + used, n - used, ", also in %.*s", (int)(end - folder), folder);
  return NULL;
}

/* false: `why` names the first that is missing. */
static bool find_symbols(void *library, const hip_symbol *list, size_t n_list, void *table,
                         char *why, size_t n) {
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

bool hip_library_load(const hip_library *l, hip_runtime *r, void *vendor, char *why, size_t n) {
  char said[256];
  void *library = open_first(l->names, said, sizeof said);
  if (!library) {
    snprintf(why, n, "%s is not there (%s): %s", l->what, said, l->remedy);
    return false;
  }
  if (find_symbols(library, l->calls, l->n_calls, r, said, sizeof said) &&
      find_symbols(library, l->vendor_calls, l->n_vendor_calls, vendor, said, sizeof said))
    return true;
  snprintf(why, n, "%s is too old or damaged: %s", l->what, said);
  return false;
}

static const struct {
  const char *before, *after; /* around hip_rtc.code, where there is an `after` */
  size_t offset;
} rtc_calls[] = {
    {"CreateProgram", NULL, offsetof(hip_compiler, create)},
    {"DestroyProgram", NULL, offsetof(hip_compiler, destroy)},
    {"CompileProgram", NULL, offsetof(hip_compiler, compile)},
    {"GetProgramLogSize", NULL, offsetof(hip_compiler, log_size)},
    {"GetProgramLog", NULL, offsetof(hip_compiler, log)},
    {"Get", "Size", offsetof(hip_compiler, code_size)},
    {"Get", "", offsetof(hip_compiler, code)},
    {"GetErrorString", NULL, offsetof(hip_compiler, text)},
};

bool hip_rtc_load(const hip_rtc *rtc, hip_compiler *c, char *why, size_t n) {
  char said[256], name[64];
  if (!rtc) {
    snprintf(why, n, "there is none for this kind of device");
    return false;
  }
  void *library = open_first(rtc->names, said, sizeof said);
  bool complete = library;
  for (size_t i = 0; complete && i < sizeof rtc_calls / sizeof *rtc_calls; i++) {
    const char *after = rtc_calls[i].after;
    snprintf(name, sizeof name, "%s%s%s%s", rtc->prefix, rtc_calls[i].before,
             after ? rtc->code : "", after ? after : "");
    complete = find_symbols(library, &(hip_symbol){name, rtc_calls[i].offset, false}, 1, c, said,
                            sizeof said);
  }
  if (!complete) {
    snprintf(why, n, "%s: %s", rtc->what, said);
    return false;
  }
  int (*version)(int *, int *) = NULL;
  int major = 0, minor = 0;
  snprintf(name, sizeof name, "%sVersion", rtc->prefix);
  find_symbols(library, &(hip_symbol){name, 0, true}, 1, &version, said, sizeof said);
  if (version) version(&major, &minor);
  snprintf(c->what, sizeof c->what, "%s %d.%d", rtc->what, major, minor);
  return true;
}
