/* http_gate.c - see http_gate.h. */
#include "serve/http_gate.h"

#include <string.h>
#include <strings.h>

#include "serve/http_target.h"

enum { MOST_FIELDS = 100 };

typedef struct text {
  const char *at;
  size_t n;
} text;

static bool is(text a, const char *b) { return a.n == strlen(b) && !strncasecmp(a.at, b, a.n); }

static bool token_byte(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(const char *name, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!token_byte((unsigned char)name[i])) return false;
  return n > 0;
}

/* Neither control characters, but for tabs, nor what begins another line. */
static bool is_value(const char *value, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const unsigned char c = (unsigned char)value[i];
    if ((c < ' ' && c != '\t') || c == 0x7F) return false;
  }
  return true;
}

/* How often a header is there; *value is the last one's. */
static size_t count(const http_head *head, const char *name, text *value) {
  size_t found = 0;
  *value = (text){"", 0};
  for (size_t i = 0; i < head->n; ++i) {
    const http_field *f = &head->field[i];
    if (!is((text){f->name, f->n_name}, name)) continue;
    *value = (text){f->value, f->n_value};
    ++found;
  }
  return found;
}

static http_verdict refuse(int status, const char *message) {
  return (http_verdict){.status = status, .message = message};
}

/* ---- lines ---- */

static http_verdict check_lines(const http_head *head) {
  static const char *const once[] = {"content-length",   "host",   "transfer-encoding",
                                     "content-type",     "origin", "authorization",
                                     "content-encoding", "expect"};
  text value;
  if (strcmp(head->version, "HTTP/1.1") && strcmp(head->version, "HTTP/1.0"))
    return refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  if (!is_token(head->method, strlen(head->method))) return refuse(400, "the method is no token");
  if (!http_target_valid(head->target))
    return refuse(400, "the request target must be a path of visible ASCII, up to 8192 bytes");
  if (head->n > MOST_FIELDS) return refuse(431, "more than 100 headers");
  for (size_t i = 0; i < head->n; ++i) {
    if (!is_token(head->field[i].name, head->field[i].n_name))
      return refuse(400, "the name of a header is no token");
    if (!is_value(head->field[i].value, head->field[i].n_value))
      return refuse(400, "the value of a header holds control characters");
  }
  for (size_t i = 0; i < sizeof once / sizeof once[0]; ++i)
    if (count(head, once[i], &value) > 1)
      return refuse(400, "a header that may come once came twice");
  return (http_verdict){0};
}

/* ---- the body's length ---- */

/* Digits alone, below 2^63. */
static bool read_length(text value, uint64_t *length) {
  *length = 0;
  if (!value.n || value.n > 18) return false;
  for (size_t i = 0; i < value.n; ++i) {
    if (value.at[i] < '0' || value.at[i] > '9') return false;
    *length = *length * 10 + (uint64_t)(value.at[i] - '0');
  }
  return true;
}

static http_verdict check_body(const http_head *head, uint64_t max_body) {
  http_verdict v = {0};
  text length, coding, value;
  const bool has_length = count(head, "content-length", &length),
             has_coding = count(head, "transfer-encoding", &coding);
  if (has_length && has_coding)
    return refuse(400, "Content-Length beside Transfer-Encoding: where the body ends is not clear");
  if (has_length && !read_length(length, &v.length))
    return refuse(400, "Content-Length is not a number of bytes");
  if (has_coding && !strcmp(head->version, "HTTP/1.0"))
    return refuse(400, "HTTP/1.0 has no Transfer-Encoding");
  if (has_coding && !is(coding, "chunked"))
    return refuse(501, "of transfer encodings only chunked is known");
  if (count(head, "content-encoding", &value) && !is(value, "identity"))
    return refuse(415, "compressed bodies are not taken");
  if (count(head, "expect", &value) && !is(value, "100-continue"))
    return refuse(417, "of expectations only 100-continue is known");
  if ((v.length || has_coding) && strcmp(head->method, "POST"))
    return refuse(400, "only POST has a body here");
  if (v.length > max_body) return refuse(413, "the body is larger than this route takes");
  v.chunked = has_coding;
  return v;
}

/* ---- browsers: DNS rebinding, pages of other origins ---- */

/* "NAME" or "NAME:PORT", "[ADDRESS]:PORT": the name; n is 0 when it is none. */
static text host_name(text host) {
  size_t n = 0, end;
  if (host.n && host.at[0] == '[') {
    for (n = 1; n < host.n && host.at[n] != ']'; ++n)
      if (!strchr("0123456789abcdefABCDEF:.", host.at[n])) return (text){"", 0};
    if (n >= host.n || n == 1) return (text){"", 0};
    end = ++n;
  } else {
    for (; n < host.n && host.at[n] != ':'; ++n)
      if (host.at[n] != '.' && host.at[n] != '-' && host.at[n] != '_' &&
          !(token_byte((unsigned char)host.at[n]) && !strchr("!#$%&'*+^`|~", host.at[n])))
        return (text){"", 0};
    end = n;
  }
  if (end < host.n && host.at[end] == ':') {
    for (++end; end < host.n; ++end)
      if (host.at[end] < '0' || host.at[end] > '9') return (text){"", 0};
  }
  return end == host.n ? (text){host.at, n} : (text){"", 0};
}

/* An address in figures can not be a name that is bound anew to another address. */
static bool is_address(text name) {
  if (name.at[0] == '[') return true;
  size_t dots = 0;
  for (size_t i = 0; i < name.n; ++i) {
    if (name.at[i] == '.')
      ++dots;
    else if (name.at[i] < '0' || name.at[i] > '9')
      return false;
  }
  return dots == 3;
}

static bool listed(text what, const char *const *list, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!strcmp(list[i], "*") || is(what, list[i])) return true;
  return false;
}

static bool host_allowed(text name, const http_rules *rules) {
  return is(name, "localhost") || is_address(name) || listed(name, rules->host, rules->n_host);
}

/* "http://HOST" of the request's own Host. */
static bool same_origin(text origin, text host) {
  const size_t scheme = origin.n > 7 && !strncasecmp(origin.at, "http://", 7)    ? 7
                        : origin.n > 8 && !strncasecmp(origin.at, "https://", 8) ? 8
                                                                                 : 0;
  return scheme && origin.n - scheme == host.n && !strncasecmp(origin.at + scheme, host.at, host.n);
}

static http_verdict check_browser(const http_head *head, const http_rules *rules) {
  http_verdict v = {0};
  text host, origin;
  if (!count(head, "host", &host)) return refuse(400, "there is no Host header");
  const text name = host_name(host);
  if (!name.n) return refuse(400, "the Host header is malformed");
  if (!host_allowed(name, rules))
    return refuse(403,
                  "this server does not go by the name in the Host header: --allow-host adds it");
  if (!count(head, "origin", &origin) || same_origin(origin, host)) return v;
  if (!listed(origin, rules->origin, rules->n_origin))
    return refuse(403, "pages of this origin may not call here: --allow-origin adds it");
  v.cross_origin = true;
  return v;
}

http_verdict http_gate(const http_head *head, const http_rules *rules, uint64_t max_body) {
  http_verdict v = check_lines(head);
  if (v.status) return v;
  v = check_body(head, max_body);
  if (v.status) return v;
  const http_verdict browser = check_browser(head, rules);
  if (browser.status) return browser;
  v.cross_origin = browser.cross_origin;
  return v;
}
