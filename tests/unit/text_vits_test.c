/* text_vits_test.c - texts to the ids that transformers' VitsTokenizer gives for them (ids of
 * fixtures/models/vits*: spoken.json). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/json.h"
#include "text/tokenizer.h"

static void check(const char *name) {
  char directory[512], path[600];
  accel__json_file file = {0};
  accel__tokenizer *t;
  accel__encoding enc = {0};
  uint32_t texts = 0;
  snprintf(directory, sizeof directory, "%s/models/%s", ACCEL_FIXTURES, name);
  snprintf(path, sizeof path, "%s/spoken.json", directory);
  assert_int_equal(accel__json_read(path, 0, &file), ACCEL_OK);
  assert_int_equal(accel__tokenizer_load(directory, &t), ACCEL_OK);
  ACCEL_JSON_EACH(pair, accel__json_get(file.root, "ids")) {
    const accel__json *want = pair->child->next;
    const char *text = pair->child->valuestring;
    uint32_t i = 0;
    print_message("%s: '%s'\n", name, text);
    assert_int_equal(accel__encode(t, text, strlen(text), NULL, 0, NULL, &enc), ACCEL_OK);
    assert_int_equal(enc.n, cJSON_GetArraySize(want));
    ACCEL_JSON_EACH(id, want) assert_int_equal(enc.ids[i++], (int)id->valuedouble);
    texts++;
  }
  assert_true(texts > 5);
  accel__encoding_free(&enc);
  accel__tokenizer_free(&t);
  accel__json_free(&file);
}

/* Blanks, lower case, characters that the vocabulary has not. */
static void test_plain(void **state) {
  (void)state;
  check("vits");
}

/* The padding token is a letter, at which texts are cut. */
static void test_letter(void **state) {
  (void)state;
  check("vits_speakers");
}

/* Neither blanks nor normalisation. */
static void test_bare(void **state) {
  (void)state;
  check("vits_deterministic");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain), cmocka_unit_test(test_letter),
                                     cmocka_unit_test(test_bare)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
