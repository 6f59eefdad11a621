/* handshake.h - opening one plugin file: what makes it a plugin of ours, or the reason why not.
 *
 * Shared by the library and the helper program accel-probe.  Nothing is ever closed again: a
 * plugin's code stays until the process ends (drivers do not survive being unloaded).
 */
#ifndef ACCEL_HARDWARE_HANDSHAKE_H
#define ACCEL_HARDWARE_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "accel/plugin.h"
#include "core/status.h"

#ifndef ACCEL_SANITIZER
#define ACCEL_SANITIZER 0 /* set by the build to the accel_plugin_sanitizer it is made with */
#endif

/* of a plugin file; accel__verdict_name gives the JSON word */
typedef enum accel__verdict {
  /* a file of the right name, not opened yet */
  ACCEL__VERDICT_UNSEEN = 0,
  ACCEL__VERDICT_GOOD = 1, /* probed or opened, table accepted */
  /* the dynamic loader refused it; the reason is its sentence */
  ACCEL__VERDICT_DLOPEN = 2,
  /* no accel_plugin_query: something else of this name */
  ACCEL__VERDICT_SYMBOL = 3,
  ACCEL__VERDICT_ABI = 4, /* made for another plugin interface */
  ACCEL__VERDICT_SANITIZER = 5,
  /* a short table, or a required function missing */
  ACCEL__VERDICT_TABLE = 6,
  /* asked for its devices it failed or answered nonsense */
  ACCEL__VERDICT_DEVICES = 7,
  ACCEL__VERDICT_CRASH = 8, /* in the helper program */
  ACCEL__VERDICT_HANG = 9,
  /* accel-probe could not be run, so the file was not touched */
  ACCEL__VERDICT_HELPER = 10,
  /* an earlier file gave a plugin of this name */
  ACCEL__VERDICT_SHADOWED = 11,
  /* a searched directory that is not there */
  ACCEL__VERDICT_ABSENT = 12
} accel__verdict;
const char *accel__verdict_name(accel__verdict verdict); /* "good", "dlopen" ... */

/* dlopens `path` (RTLD_NOW | RTLD_LOCAL, absolute or with a slash), asks accel_plugin_query and
 * checks the answer.  On GOOD *out is the plugin's table, what it lacks zeroed.  Else `why` (n
 * bytes) says what is wrong and what would help. */
accel__verdict accel__handshake(const char *path, const accel_plugin_host *host, accel_plugin *out,
                                char *why, size_t n);
/* Checks a table alone, as handshake does with the query's answer (NULL: refused by the plugin). */
accel__verdict accel__check_table(const accel_plugin *table, accel_plugin *out, char *why,
                                  size_t n);

enum { ACCEL__MAX_DEVICES = 64 }; /* of one plugin; more are ignored */
/* The plugin's devices in out[ACCEL__MAX_DEVICES]; strings are terminated and valid UTF-8
 * afterwards.  GOOD or DEVICES. */
accel__verdict accel__plugin_devices(const accel_plugin *plugin, const accel_plugin_host *host,
                                     accel_plugin_device *out, uint32_t *n, char *why,
                                     size_t why_n);

/* Copies src into dst[n], cut at n - 1 bytes, bytes that are not UTF-8 or are control characters
 * replaced by '?'. */
void accel__clean_copy(char *dst, size_t n, const char *src, size_t src_n);

#endif
