/* core_status_test.c - messages, the cause chain, remedies, the status list, and the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/status.h"
#include "core/text.h"

static accel_status inner(void) {
  accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s' is %d", "config.json", "hidden_size", -1);
  return accel__remedy(ACCEL_ERROR_FORMAT, "download it again");
}
static accel_status middle(void) {
  ACCEL_TRY(inner());
  return ACCEL_OK;
}
static accel_status outer(void) {
  ACCEL_TRY_AS(middle(), "loading %s", "DIR");
  return ACCEL_OK;
}
static accel_status one_exit(int *freed) {
  accel_status status = ACCEL_OK;
  ACCEL_GOTO(inner());
  status = ACCEL_OK;
done:
  ++*freed;
  return status;
}

static void test_chain(void **state) {
  (void)state;
  accel__clear_error();
  assert_string_equal(accel__message(), "");
  assert_string_equal(accel__remedy_text(), "");
  assert_int_equal(outer(), ACCEL_ERROR_FORMAT);
  assert_string_equal(accel__message(), "loading DIR: config.json: field 'hidden_size' is -1");
  assert_string_equal(accel__remedy_text(), "download it again");
  assert_int_equal(accel__wrap(ACCEL_ERROR_IO, "model %d", 7), ACCEL_ERROR_IO);
  assert_string_equal(accel__message(),
                      "model 7: loading DIR: config.json: field 'hidden_size' is -1");
  assert_string_equal(accel__remedy_text(), "download it again");
  int freed = 0;
  assert_int_equal(one_exit(&freed), ACCEL_ERROR_FORMAT);
  assert_int_equal(freed, 1);
}

static void test_a_failure_drops_the_older_one(void **state) {
  (void)state;
  inner();
  assert_int_equal(accel__fail(ACCEL_ERROR_IO, "new"), ACCEL_ERROR_IO);
  assert_string_equal(accel__message(), "new");
  assert_string_equal(accel__remedy_text(), "");
  accel__remedy(ACCEL_ERROR_IO, "do this");
  assert_int_equal(accel__no_memory(123456), ACCEL_ERROR_OUT_OF_MEMORY);
  assert_string_equal(accel__message(), "out of memory: the system refused 123456 bytes");
  assert_string_equal(accel__remedy_text(), "");
  accel__clear_error();
  assert_int_equal(accel__wrap(ACCEL_ERROR_LIMIT, "link"), ACCEL_ERROR_LIMIT);
  assert_string_equal(accel__message(), "link: a stated limit was exceeded");
}

static void test_arguments_may_be_the_message_itself(void **state) {
  (void)state;
  accel__fail(ACCEL_ERROR_IO, "cause");
  accel__remedy(ACCEL_ERROR_IO, "help");
  accel__fail(ACCEL_ERROR_IO, "again %s and %s", accel__message(), accel__message());
  assert_string_equal(accel__message(), "again cause and cause");
  accel__wrap(ACCEL_ERROR_IO, "(%s)", accel__message());
  assert_string_equal(accel__message(), "(again cause and cause): again cause and cause");
  accel__remedy(ACCEL_ERROR_IO, "help");
  accel__remedy(ACCEL_ERROR_IO, "more %s", accel__remedy_text());
  assert_string_equal(accel__remedy_text(), "more help");
}

static void test_long_messages_are_cut_between_code_points(void **state) {
  (void)state;
  char text[3001];
  for (size_t shift = 0; shift < 3; shift++) { /* U+20AC, three bytes each, at every alignment */
    memset(text, 'x', shift);
    for (size_t i = shift; i + 3 <= 3000; i += 3) memcpy(text + i, "\xE2\x82\xAC", 4);
    accel__fail(ACCEL_ERROR_IO, "%s", text);
    size_t n = strlen(accel__message());
    assert_in_range(n, 1018, 1023);
    assert_true(accel__utf8_valid(accel__message(), n));
    assert_string_equal(accel__message() + n - 3, "...");
    accel__wrap(ACCEL_ERROR_IO, "a link");
    assert_true(accel__starts_with(accel__message(), "a link: "));
    assert_true(accel__utf8_valid(accel__message(), strlen(accel__message())));
    accel__remedy(ACCEL_ERROR_IO, "%s", text);
    assert_true(accel__utf8_valid(accel__remedy_text(), strlen(accel__remedy_text())));
    assert_in_range(strlen(accel__remedy_text()), 506, 511);
  }
}

static void test_control_bytes_do_not_reach_a_terminal(void **state) {
  (void)state;
  accel__fail(ACCEL_ERROR_IO, "a\x1b[31mred\x7f\r\nb\tc");
  assert_string_equal(accel__message(), "a?[31mred??\nb\tc");
}

static void *in_thread(void *arg) {
  *(bool *)arg = accel__message()[0] == 0;
  accel__fail(ACCEL_ERROR_IO, "of the thread");
  *(bool *)arg = *(bool *)arg && !strcmp(accel__message(), "of the thread");
  return NULL;
}
static void test_each_thread_has_its_own(void **state) {
  (void)state;
  bool good = false;
  pthread_t thread;
  accel__fail(ACCEL_ERROR_IO, "of main");
  assert_int_equal(pthread_create(&thread, NULL, in_thread, &good), 0);
  pthread_join(thread, NULL);
  assert_true(good);
  assert_string_equal(accel__message(), "of main");
}

static void test_status_list(void **state) {
  (void)state;
  assert_string_equal(accel_status_name(ACCEL_OK), "OK");
  assert_string_equal(accel_status_name(ACCEL_ERROR_FORMAT), "ERROR_FORMAT");
  assert_string_equal(accel_status_name((accel_status)-12345), "UNKNOWN");
  assert_string_equal(accel_status_text(ACCEL_ERROR_FORMAT), "a file is malformed");
  assert_string_equal(accel_status_text((accel_status)-12345), "unknown status");
  assert_int_equal(accel_status_exit_code(ACCEL_OK), 0);
  assert_int_equal(accel_status_exit_code(ACCEL_ERROR_ARGUMENT), 2);
  assert_int_equal(accel_status_exit_code(ACCEL_ERROR_VERIFY), 6);
  assert_int_equal(accel_status_exit_code((accel_status)-12345), 1);
  static const int numbers[] = {
#define NUMBER(name, number, exit_code, text) number,
      ACCEL_STATUS_LIST(NUMBER)};
  /* every name and number once, exit codes as documented */
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    for (size_t j = 0; j < i; j++) {
      assert_int_not_equal(numbers[i], numbers[j]);
      assert_string_not_equal(accel_status_name((accel_status)numbers[i]),
                              accel_status_name((accel_status)numbers[j]));
    }
    assert_in_range(accel_status_exit_code((accel_status)numbers[i]), 0, 6);
  }
}

/* ---- log ---- */

typedef struct heard {
  int calls;
  accel_log_level level;
  char text[4096];
} heard;
static void hear(void *user, accel_log_level level, const char *message) {
  heard *h = user;
  h->calls++;
  h->level = level;
  snprintf(h->text, sizeof h->text, "%s", message);
}

static void test_log(void **state) {
  (void)state;
  heard h = {0};
  accel__log log = {hear, &h, ACCEL_LOG_WARNING};
  accel__logf(&log, ACCEL_LOG_WARNING, "%s %d", "answer", 42);
  assert_int_equal(h.calls, 1);
  assert_int_equal(h.level, ACCEL_LOG_WARNING);
  assert_string_equal(h.text, "answer 42");
  accel__logf(&log, ACCEL_LOG_INFO, "too quiet");
  accel__logf(NULL, ACCEL_LOG_ERROR, "nobody");
  accel__logf(&(accel__log){NULL, &h, ACCEL_LOG_DEBUG}, ACCEL_LOG_ERROR, "nobody");
  assert_int_equal(h.calls, 1);
  char text[5001];
  for (size_t i = 0; i + 4 <= 5000; i += 4) memcpy(text + i, "\xF0\x9F\x98\x80", 5);
  accel__logf(&log, ACCEL_LOG_ERROR, "%s", text);
  assert_int_equal(strlen(h.text), 2044 + 3);
  assert_true(accel__utf8_valid(h.text, strlen(h.text)));
  assert_true(accel__ends_with(h.text, "..."));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chain),
      cmocka_unit_test(test_a_failure_drops_the_older_one),
      cmocka_unit_test(test_arguments_may_be_the_message_itself),
      cmocka_unit_test(test_long_messages_are_cut_between_code_points),
      cmocka_unit_test(test_control_bytes_do_not_reach_a_terminal),
      cmocka_unit_test(test_each_thread_has_its_own),
      cmocka_unit_test(test_status_list),
      cmocka_unit_test(test_log),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
