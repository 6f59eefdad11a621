/* serve_gate_test.c - which heads the gate lets in, targets and their escapes, keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/http_gate.h"
#include "serve/http_keys.h"
#include "serve/http_target.h"
#include <unistd.h>

static const char *const hosts[] = {"models.example"}, *const origins[] = {"https://app.example"};
static const http_rules rules = {hosts, origins, 1, 1};

/* `lines`: "Name: value\n" each; a name and its value are what is before and behind ": ". */
static http_verdict judge_as(const char *method, const char *target, const char *version,
                             const char *lines) {
  http_field field[120];
  size_t n = 0;
  for (const char *at = lines; *at;) {
    const char *end = strchr(at, '\n'), *colon = strstr(at, ": ");
    assert_true(end && colon && colon < end && n < 120);
    field[n++] = (http_field){at, colon + 2, (size_t)(colon - at), (size_t)(end - colon - 2)};
    at = end + 1;
  }
  const http_head head = {method, target, version, field, n};
  return http_gate(&head, &rules, 1000);
}

static int judge(const char *lines) { return judge_as("POST", "/v1", "HTTP/1.1", lines).status; }

#define HOST "Host: 127.0.0.1:8000\n"

static void bodies(void **state) {
  (void)state;
  const http_verdict good = judge_as("POST", "/v1", "HTTP/1.1", HOST "Content-Length: 1000\n");
  assert_int_equal(good.status, 0);
  assert_int_equal(good.length, 1000);
  assert_false(good.chunked);
  const http_verdict chunked =
      judge_as("POST", "/v1", "HTTP/1.1", HOST "transfer-ENCODING: Chunked\n");
  assert_int_equal(chunked.status, 0);
  assert_true(chunked.chunked);
  assert_int_equal(judge(HOST "Content-Length: 1001\n"), 413);
  assert_int_equal(judge(HOST "Content-Length: 99999999999999999999\n"), 400);
  static const char *const bad[] = {"5x", "-1", "+5", "0x5", "5 5", "5,5", "", " 5"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    char lines[128];
    snprintf(lines, sizeof lines, HOST "Content-Length: %s\n", bad[i]);
    assert_int_equal(judge(lines), 400);
  }
  assert_int_equal(judge(HOST "Content-Length: 5\nContent-Length: 5\n"), 400);
  assert_int_equal(judge(HOST "Content-Length: 5\nContent-Length: 6\n"), 400);
  assert_int_equal(judge(HOST "Content-Length: 5\nTransfer-Encoding: chunked\n"), 400);
  assert_int_equal(judge(HOST "Transfer-Encoding: chunked\nTransfer-Encoding: chunked\n"), 400);
  assert_int_equal(judge(HOST "Transfer-Encoding: gzip, chunked\n"), 501);
  assert_int_equal(judge(HOST "Transfer-Encoding: identity\n"), 501);
  assert_int_equal(judge(HOST "Content-Length : 5\n"), 400); /* a space before the colon */
  assert_int_equal(judge(HOST "Content-Encoding: gzip\n"), 415);
  assert_int_equal(judge(HOST "Expect: 100-continue\n"), 0);
  assert_int_equal(judge(HOST "Expect: the-unexpected\n"), 417);
  assert_int_equal(judge_as("POST", "/", "HTTP/1.0", HOST "Transfer-Encoding: chunked\n").status,
                   400);
  assert_int_equal(judge_as("GET", "/", "HTTP/1.1", HOST "Content-Length: 5\n").status, 400);
  assert_int_equal(judge_as("GET", "/", "HTTP/1.1", HOST "Content-Length: 0\n").status, 0);
}

static void lines(void **state) {
  (void)state;
  assert_int_equal(judge(HOST "X-Tab: a\tb\n"), 0);
  assert_int_equal(judge(HOST "X-Bell: a\ab\n"), 400);
  assert_int_equal(judge(HOST "X\x01: a\n"), 400);
  assert_int_equal(judge(HOST "X Y: a\n"), 400);
  assert_int_equal(judge(HOST "X(Y): a\n"), 400);
  assert_int_equal(judge_as("POST", "/", "HTTP/1.1", HOST ": a\n").status, 400);
  assert_int_equal(judge_as("POST", "/", "HTTP/2.0", HOST).status, 505);
  assert_int_equal(judge_as("PO ST", "/", "HTTP/1.1", HOST).status, 400);
  assert_int_equal(judge_as("GET", "http://a/", "HTTP/1.1", HOST).status, 400);
  assert_int_equal(judge_as("GET", "*", "HTTP/1.1", HOST).status, 400);
  assert_int_equal(judge_as("GET", "/a b", "HTTP/1.1", HOST).status, 400);
  assert_int_equal(judge_as("GET", "/\xC3\xA4", "HTTP/1.1", HOST).status, 400);
  char *many = calloc(101, 8);
  for (int i = 0; i < 100; ++i) strcat(many, "a: b\n");
  char all[1024];
  snprintf(all, sizeof all, HOST "%s", many);
  assert_int_equal(judge(all), 431);
  free(many);
  char *target = malloc(8300);
  memset(target, 'a', 8300);
  target[0] = '/';
  target[8192] = 0;
  assert_true(http_target_valid(target));
  target[8192] = 'a';
  target[8193] = 0;
  assert_false(http_target_valid(target));
  free(target);
}

static void browsers(void **state) {
  (void)state;
  static const char *const good[] = {"localhost",      "LOCALHOST:1",      "127.0.0.1",
                                     "192.168.1.5:80", "[::1]:8000",       "[2001:db8::1]",
                                     "models.example", "models.example:9", "Models.Example"};
  static const char *const
      bad[] = {"evil.example", "models.example.evil.com", "127.0.0.1.evil.com", "1.2.3",
               "localhost.evil.com"},
      *const malformed[] = {"",   "a b",    "a/b",           "a@localhost", "[::1", "localhost:80x",
                            "[]", "[::1]x", "localhost:1:2", "a\\b"};
  char text[128];
  for (size_t i = 0; i < sizeof good / sizeof good[0]; ++i) {
    snprintf(text, sizeof text, "Host: %s\n", good[i]);
    assert_int_equal(judge(text), 0);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    snprintf(text, sizeof text, "Host: %s\n", bad[i]);
    assert_int_equal(judge(text), 403);
  }
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; ++i) {
    snprintf(text, sizeof text, "Host: %s\n", malformed[i]);
    if (judge(text) != 400) fail_msg("Host '%s' -> %d", malformed[i], judge(text));
  }
  assert_int_equal(judge("X: y\n"), 400);
  assert_int_equal(judge(HOST HOST), 400);
  assert_int_equal(judge(HOST "Origin: http://127.0.0.1:8000\n"), 0);
  assert_int_equal(judge(HOST "Origin: http://127.0.0.1:9000\n"), 403);
  assert_int_equal(judge(HOST "Origin: null\n"), 403);
  assert_int_equal(judge(HOST "Origin: https://evil.example\n"), 403);
  assert_int_equal(judge(HOST "Origin: https://app.example\n"), 0);
  assert_true(judge_as("POST", "/", "HTTP/1.1", HOST "Origin: https://app.example\n").cross_origin);
}

static void targets(void **state) {
  (void)state;
  char *text = http_target_path("/v1/models/a%2Fb%20c?x=1");
  assert_string_equal(text, "/v1/models/a/b c");
  free(text);
  static const char *const bad[] = {"/a%", "/a%2", "/a%zz", "/a%00b", "/%-1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) assert_null(http_target_path(bad[i]));
  static const char query[] = "/p?a=1&b=x+y%26&c&=d&a=2#a=3";
  static const char *const found[][2] = {{"a", "1"}, {"b", "x y&"}, {"c", ""}};
  for (size_t i = 0; i < sizeof found / sizeof found[0]; ++i) {
    text = http_target_query(query, found[i][0]);
    assert_string_equal(text, found[i][1]);
    free(text);
  }
  assert_null(http_target_query(query, "d"));
  assert_null(http_target_query("/p", "a"));
  assert_null(http_target_query("/p?a=%0", "a"));
}

static void keys(void **state) {
  (void)state;
  char path[] = "/tmp/accel-keys-XXXXXX", why[160];
  http_keys k;
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  static const char text[] = "# keys\n\n0123456789abcdef\r\nfedcba9876543210xyz\n";
  assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
  assert_true(http_keys_read(path, &k, why, sizeof why));
  assert_int_equal(k.n, 2);
  assert_true(http_keys_match(&k, "Bearer 0123456789abcdef"));
  assert_true(http_keys_match(&k, "bearer  fedcba9876543210xyz"));
  static const char *const wrong[] = {"Bearer 0123456789abcde",
                                      "Bearer 0123456789abcdef0",
                                      "Bearer ",
                                      "Basic 0123456789abcdef",
                                      "0123456789abcdef",
                                      "",
                                      NULL};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
    assert_false(http_keys_match(&k, wrong[i]));
  http_keys_free(&k);
  assert_int_equal(ftruncate(fd, 0), 0);
  assert_false(http_keys_read(path, &k, why, sizeof why));
  assert_non_null(strstr(why, "no key"));
  assert_int_equal(pwrite(fd, "short\n", 6, 0), 6);
  assert_false(http_keys_read(path, &k, why, sizeof why));
  assert_non_null(strstr(why, "line 1"));
  close(fd);
  unlink(path);
  assert_false(http_keys_read(path, &k, why, sizeof why));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bodies), cmocka_unit_test(lines),
                                     cmocka_unit_test(browsers), cmocka_unit_test(targets),
                                     cmocka_unit_test(keys)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
