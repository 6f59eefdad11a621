/* size.h - sizes as people write them.  Header-only: the accel tool, which links the public
 * interface alone, reads them too.
 */
#ifndef ACCEL_CORE_SIZE_H
#define ACCEL_CORE_SIZE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* "1536", "20G", "1.5M": bytes, K M G T being powers of 1024 (also "KB", "KiB").  false: not such a
 * text, or too large. */
static inline bool accel__parse_bytes(const char *text, uint64_t *bytes) {
  static const char units[] = "KMGT";
  const char *end = text;
  double n = 0, place = 1;
  if (*text < '0' || *text > '9') return false;
  for (; *end >= '0' && *end <= '9'; end++) n = 10 * n + (*end - '0');
  if (*end == '.')
    for (end++; *end >= '0' && *end <= '9'; end++) n += (*end - '0') * (place /= 10);
  while (*end == ' ') end++;
  const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end) : NULL;
  if (unit) {
    n *= (double)(UINT64_C(1) << 10 * (unit - units + 1));
    end++;
    if (*end == 'i') end++;
  }
  if (*end == 'B' || *end == 'b') end++;
  if (*end || !(n < 9e18)) return false;
  *bytes = (uint64_t)n;
  return true;
}

#endif
