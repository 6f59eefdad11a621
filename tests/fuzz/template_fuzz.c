/* template_fuzz.c - a chat template (up to the first NUL byte) and messages (the rest, JSON;
 * standard ones when there are none): parse and render.  What must hold beside memory safety: a
 * failure leaves no text, the result is UTF-8, and rendering twice gives the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char standard[] =
      "[{\"role\":\"system\",\"content\":\"be\"},{\"role\":\"user\",\"content\":[{\"type\":"
      "\"text\",\"text\":\"a\"}]}]";
  static const struct tm now = {.tm_year = 124, .tm_mday = 1};
  const char *text = (const char *)data, *end = memchr(text ? text : "", 0, n), *json = standard;
  size_t text_n = end ? (size_t)(end - text) : n, json_n = strlen(standard);
  accel__chat_template *chat = NULL;
  accel__json_file file = {0};
  accel__buffer out[2] = {{0}};
  if (end && text_n + 1 < n) {
    json = end + 1;
    json_n = n - text_n - 1;
  }
  if (accel__chat_template_parse(n ? text : "", text_n, "fuzz", &chat) != ACCEL_OK) return 0;
  if (accel__json_parse(json, json_n, "messages", &file) == ACCEL_OK) {
    for (int i = 0; i < 2; ++i) {
      accel__chat_request how = {.messages = file.root, .add_generation_prompt = true, .now = &now};
      accel_status status = accel__chat_template_render(chat, &how, &out[i], NULL);
      if (status != ACCEL_OK && out[i].n) abort();
      if (status == ACCEL_OK && !accel__utf8_valid(out[i].data, out[i].n)) abort();
    }
    if (out[0].n != out[1].n || (out[0].n && memcmp(out[0].data, out[1].data, out[0].n) != 0))
      abort();
  }
  accel__buffer_free(&out[0]);
  accel__buffer_free(&out[1]);
  accel__json_free(&file);
  accel__chat_template_free(&chat);
  return 0;
}
