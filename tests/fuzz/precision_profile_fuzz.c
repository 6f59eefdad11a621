/* precision_profile_fuzz.c - precision profiles: whatever the bytes, a refusal with a message, or a
 * profile whose text is read as the same profile again. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/precision_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort(); /* a finding */
}

static void require_same(const char *a, const char *b) {
  require((a == NULL) == (b == NULL));
  if (a) require(!strcmp(a, b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  accel__arena arena = {0};
  accel__precision_profile first, again;
  accel__buffer text = {0};
  if (accel__precision_profile_parse((const char *)data, size, "fuzz", &arena, &first) ==
      ACCEL_OK) {
    accel__precision_profile_write(&first, NULL, &text);
    require(accel__buffer_status(&text) == ACCEL_OK);
    require(accel__precision_profile_parse(text.data, text.n, "again", &arena, &again) == ACCEL_OK);
    require_same(first.architecture, again.architecture);
    require_same(first.device, again.device);
    require_same(first.precision, again.precision);
    require(first.weights == again.weights);
    for (int i = 0; i < ACCEL__KIND_COUNT; i++) require_same(first.kind[i], again.kind[i]);
  } else {
    require(accel__message()[0] != '\0');
  }
  accel__buffer_free(&text);
  accel__arena_free(&arena);
  return 0;
}
