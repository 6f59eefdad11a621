/* device_parts_fuzz.c - the spelling of a placement over several devices: whatever the bytes, parts
 * that follow one another without gaps and lie inside of the text, or a refusal with a message. */
#include <stdint.h>
#include <stdlib.h>

#include "hardware/device_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort(); /* a finding */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  /* a copy of just this size, so that a byte read beyond it is found */
  char *text = malloc(size ? size : 1);
  if (!text) return 0;
  for (size_t i = 0; i < size; i++) text[i] = (char)data[i];
  accel__parts_spelling s;
  if (accel__parts_parse(text, size, &s) == ACCEL_OK) {
    require(s.n != 1 && s.n <= ACCEL__MAX_PARTS);
    int32_t next = 0;
    for (uint32_t i = 0; i < s.n; i++) {
      const accel__part_spelling *p = &s.part[i];
      require(p->n_name > 0 && p->name >= text && p->name + p->n_name <= text + size);
      require((p->first < 0) == (p->last < 0) && (p->first < 0) == (s.part[0].first < 0));
      require(p->first < 0 || (p->first == next && p->last >= p->first));
      next = p->last + 1;
    }
  } else {
    require(accel__message()[0] != '\0');
  }
  free(text);
  return 0;
}
