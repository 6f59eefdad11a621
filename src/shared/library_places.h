/* library_places.h - where vendors' libraries that pip installs may be, for plugins and for
 * detection. */
#ifndef ACCEL_SHARED_LIBRARY_PLACES_H
#define ACCEL_SHARED_LIBRARY_PLACES_H

#include <glob.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { ACCEL_LIBRARY_PATH = 512 };

/* The last of the files that match a pattern (glob); out[ACCEL_LIBRARY_PATH]. */
static inline bool accel_library_matching(const char *pattern, char *out) {
  glob_t found = {0};
  bool yes = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0;
  if (yes) {
    const int n = snprintf(out, ACCEL_LIBRARY_PATH, "%s", found.gl_pathv[found.gl_pathc - 1]);
    yes = n > 0 && n < ACCEL_LIBRARY_PATH;
  }
  globfree(&found);
  return yes;
}

/* The last of the files that match FOLDER/<inside><file>*: pip's libraries have the version behind
 * their name, and often no other name.  folder NULL: none. */
static inline bool accel_library_in(const char *folder, const char *inside, const char *file,
                                    char *out) {
  char pattern[2 * ACCEL_LIBRARY_PATH];
  const int n = snprintf(pattern, sizeof pattern, "%s/%s%s*", folder ? folder : "", inside, file);
  return folder && n > 0 && (size_t)n < sizeof pattern && accel_library_matching(pattern, out);
}

/* The file in folder `inside` of the Python packages of the active environment (VIRTUAL_ENV), of
 * the user (HOME) or of the system.  environment and home may be NULL. */
static inline bool accel_library_of_python(const char *environment, const char *home,
                                           const char *inside, const char *file, char *out) {
  char from[ACCEL_LIBRARY_PATH];
  const struct {
    const char *folder, *packages;
  } places[] = {{environment, "lib/python3*/site-packages/"},
                {home, ".local/lib/python3*/site-packages/"},
                {"/usr/local", "lib/python3*/dist-packages/"},
                {"/usr/lib", "python3/dist-packages/"}};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const int n = snprintf(from, sizeof from, "%s%s", places[i].packages, inside);
    if (n > 0 && (size_t)n < sizeof from && accel_library_in(places[i].folder, from, file, out))
      return true;
  }
  return false;
}

#endif
