/* library_places.h - where libraries are that are found at run time and may come from pip: OpenVINO's
 * C library, wgpu-native's and ONNX Runtime's, for their plugins and for detection. */
#ifndef ACCEL_SHARED_LIBRARY_PLACES_H
#define ACCEL_SHARED_LIBRARY_PLACES_H

#include <glob.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { ACCEL_LIBRARY_PATH = 512 };

typedef struct accel_library_places {
  const char *file;           /* its plain name, for the loader's own search and for messages */
  const char *pattern;        /* of the names that it has elsewhere, for glob */
  const char *under[4];       /* folders of it in the one that the user names; NULL: no more */
  const char *in_python;      /* its folder under site-packages, with a slash behind it */
  const char *root, *in_root; /* the vendor's own place, or NULL: a folder, and a pattern in it */
} accel_library_places;

/* What the environment says; each may be NULL. */
typedef struct accel_library_wish {
  const char *directory;   /* the plugin's own variable: the only place when it is given */
  const char *environment; /* VIRTUAL_ENV */
  const char *home;        /* HOME */
} accel_library_wish;

static const accel_library_places accel_openvino_places = {
    .file = "libopenvino_c.so",
    .pattern = "libopenvino_c.so*", /* pip's has the version behind its name, and no other */
    .under = {"", "libs/", "openvino/libs/", "runtime/lib/intel64/"},
    .in_python = "openvino/libs/",
    .root = "/opt/intel",
    .in_root = "openvino*/runtime/lib/intel64/"};

#define ACCEL_OPENVINO_REMEDY                                                         \
  "pip install openvino, into the active virtual environment, or name the folder of " \
  "libopenvino_c.so in ACCEL_OPENVINO_DIR"

static const accel_library_places accel_webgpu_places = {
    .file = "libwgpu_native.so",
    .pattern = "libwgpu_native*.so", /* pip's is libwgpu_native-release.so */
    .under = {"", "resources/", "wgpu/resources/", "lib/"},
    .in_python = "wgpu/resources/"};

/* Of wgpu-native's versions the one whose C structures are known, the highest byte of
 * wgpuGetVersion(). */
enum { ACCEL_WEBGPU_VERSION = 29 };

#define ACCEL_WEBGPU_REMEDY                                                               \
  "pip install wgpu==0.32.0, into the active virtual environment, or name the folder of " \
  "libwgpu_native.so in ACCEL_WEBGPU_DIR"

static const accel_library_places accel_onnxruntime_places = {
    .file = "libonnxruntime.so.1",
    .pattern = "libonnxruntime.so*",
    .under = {"", "onnxruntime/capi/", "lib/"},
    .in_python = "onnxruntime/capi/",
    .root = "/usr",
    .in_root = "lib/*/"};

#define ACCEL_ONNXRUNTIME_REMEDY                                                         \
  "pip install onnxruntime, into the active virtual environment, or name the folder of " \
  "libonnxruntime.so in ACCEL_ONNXRUNTIME_DIR"
#define ACCEL_QNN_REMEDY                                                                       \
  "pip install onnxruntime onnxruntime-qnn, into the active virtual environment, or name the " \
  "folder of both in ACCEL_ONNXRUNTIME_DIR"

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

/* The last of the files that match FOLDER/<inside><between><pattern>. */
static inline bool accel_library_in(const accel_library_places *places, const char *folder,
                                    const char *inside, const char *between, char *out) {
  char pattern[ACCEL_LIBRARY_PATH];
  const int n = snprintf(pattern, sizeof pattern, "%s/%s%s%s", folder ? folder : "", inside,
                         between, places->pattern);
  return folder && n > 0 && (size_t)n < sizeof pattern && accel_library_matching(pattern, out);
}

/* The file to load, or the plain name for the loader's own search.  out[ACCEL_LIBRARY_PATH] */
static inline void accel_library_find(const accel_library_places *places,
                                      const accel_library_wish *wish, char *out) {
  if (wish->directory && *wish->directory) {
    for (size_t i = 0; i < sizeof places->under / sizeof *places->under && places->under[i]; i++)
      if (accel_library_in(places, wish->directory, places->under[i], "", out)) return;
    snprintf(out, ACCEL_LIBRARY_PATH, "%s/%s", wish->directory, places->file);
    return;
  }
  if (accel_library_in(places, wish->environment, "lib/python3*/site-packages/", places->in_python,
                       out) ||
      accel_library_in(places, wish->home, ".local/lib/python3*/site-packages/", places->in_python,
                       out) ||
      accel_library_in(places, "/usr/local", "lib/python3*/dist-packages/", places->in_python,
                       out) ||
      (places->root && accel_library_in(places, places->root, places->in_root, "", out)))
    return;
  snprintf(out, ACCEL_LIBRARY_PATH, "%s", places->file);
}

/* Patterns (glob) of the providers' libraries beside that library: pip's packages onnxruntime_*,
 * or its own folder.  which: "*", or the name of one provider.  i: 0, 1; false: there is no more. */
static inline bool accel_onnxruntime_providers(const char *library, const char *which, size_t i,
                                               char *out) {
  static const char *const beside[] = {"../../onnxruntime_*/", ""};
  const char *slash = strrchr(library, '/');
  if (!slash || i >= sizeof beside / sizeof *beside) return false;
  const int n = snprintf(out, ACCEL_LIBRARY_PATH, "%.*s/%slibonnxruntime_providers_%s.so",
                         (int)(slash - library), library, beside[i], which);
  return n > 0 && n < ACCEL_LIBRARY_PATH;
}

#endif
