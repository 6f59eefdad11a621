/* openvino_places.h - where OpenVINO's C library may be, for the plugin and for detection. */
#ifndef ACCEL_SHARED_OPENVINO_PLACES_H
#define ACCEL_SHARED_OPENVINO_PLACES_H

#include <glob.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { ACCEL_OPENVINO_PATH = 512 };

#define ACCEL_OPENVINO_REMEDY                                                         \
  "pip install openvino, into the active virtual environment, or name the folder of " \
  "libopenvino_c.so in ACCEL_OPENVINO_DIR"

/* The last of the files that match FOLDER/<inside>/libopenvino_c.so*: pip's has the version behind
 * its name, and no other. */
static inline bool accel_openvino_in(const char *folder, const char *inside, char *out) {
  char pattern[ACCEL_OPENVINO_PATH];
  glob_t found = {0};
  const int n =
      snprintf(pattern, sizeof pattern, "%s/%slibopenvino_c.so*", folder ? folder : "", inside);
  bool yes = folder && n > 0 && (size_t)n < sizeof pattern && glob(pattern, 0, NULL, &found) == 0 &&
             found.gl_pathc > 0;
  if (yes) {
    const int m = snprintf(out, ACCEL_OPENVINO_PATH, "%s", found.gl_pathv[found.gl_pathc - 1]);
    yes = m > 0 && m < ACCEL_OPENVINO_PATH;
  }
  globfree(&found);
  return yes;
}

/* The file to load, or the plain name for the loader's own search.  directory: ACCEL_OPENVINO_DIR,
 * which is the only place when it is given; environment: VIRTUAL_ENV; home: HOME.  Each may be
 * NULL. */
static inline void accel_openvino_find(const char *directory, const char *environment,
                                       const char *home, char *out) {
  static const char *const under[] = {"", "libs/", "openvino/libs/", "runtime/lib/intel64/"};
  if (directory && *directory) {
    for (size_t i = 0; i < sizeof under / sizeof *under; i++)
      if (accel_openvino_in(directory, under[i], out)) return;
    snprintf(out, ACCEL_OPENVINO_PATH, "%s/libopenvino_c.so", directory);
    return;
  }
  if (accel_openvino_in(environment, "lib/python3*/site-packages/openvino/libs/", out) ||
      accel_openvino_in(home, ".local/lib/python3*/site-packages/openvino/libs/", out) ||
      accel_openvino_in("/usr/local", "lib/python3*/dist-packages/openvino/libs/", out) ||
      accel_openvino_in("/opt/intel", "openvino*/runtime/lib/intel64/", out))
    return;
  snprintf(out, ACCEL_OPENVINO_PATH, "libopenvino_c.so");
}

#endif
