/* rag_document_test.c - files to lines: what each format gives, and what may be in a document whatever
 * the bytes; passages, whatever the text. */
#include <stdio.h>

#include "rag/rag_chunks.h"
#include "test_endpoint.h"

typedef struct sample {
  accel_rag_format format;
  const char *file, *lines; /* lines as "FIRST-LAST:LEVEL TEXT", without empty ones */
  const char *title;
} sample;

static const sample samples[] = {
    {ACCEL_RAG_TEXT, "a\r\nb\rc\n\nd", "1-1:0 a|2-2:0 b|3-3:0 c|5-5:0 d|", NULL},
    {ACCEL_RAG_TEXT, "\xef\xbb\xbf# no heading", "1-1:0 # no heading|", NULL},
    {ACCEL_RAG_MARKDOWN, "# A\n#B\n### C ###\n####### D\n#\t\n#  E #f #\n",
     "1-1:1 A|2-2:0 #B|3-3:3 C|4-4:0 ####### D|5-5:0 #\t|6-6:1 E #f|", "A"},
    {ACCEL_RAG_MARKDOWN, "Head\n====\ntext\nmore\n---\n\nSub\n---\n",
     "1-2:1 Head|3-3:0 text|4-4:0 more|5-5:0 ---|7-8:2 Sub|", "Head"},
    {ACCEL_RAG_MARKDOWN, "```\n# code\n~~~\n````\n# A\n~~~x\n# b\n~~~\n    # C\n",
     "1-1:0 ```|2-2:0 # code|3-3:0 ~~~|4-4:0 ````|5-5:1 A|6-6:0 ~~~x|7-7:0 # b|8-8:0 ~~~|9-9:0     "
     "# C|",
     "A"},
    {ACCEL_RAG_MARKDOWN, "---\nx: 1\ntitle: 'T  t'\n---\nbody\n", "5-5:0 body|", "T t"},
    {ACCEL_RAG_HTML, "a<br>b<p>c\nd</p>e", "1-1:0 a|1-1:0 b|1-2:0 c d|2-2:0 e|", NULL},
    {ACCEL_RAG_HTML, "<H1 class='>'>A<i>b</i></H1><x-y>c</x-y>", "1-1:1 Ab|1-1:0 c|", "Ab"},
    {ACCEL_RAG_HTML, "<title>x &lt; y</title><p>a &amp;&#65;&#x42;&#150;&nbsp;&bogus; &#0;&#xD800;",
     "1-1:0 a &AB\u2013 &bogus; \uFFFD\uFFFD|", "x < y"},
    {ACCEL_RAG_HTML, "<style>p</style>a<!-- <p>b --><script>if (1 < 2) '</p>'</script>c <3 d",
     "1-1:0 ac <3 d|", NULL},
    {ACCEL_RAG_HTML, "<pre>\nx\n  y\n</pre>z", "2-2:0 x|3-3:0   y|4-4:0 z|", NULL},
    {ACCEL_RAG_HTML, "<table><tr><td>1<td>2<tr><th>3</table><ul><li>a<li>b</ul>",
     "1-1:0 1 | 2|1-1:0 3|1-1:0 - a|1-1:0 - b|", NULL},
    {ACCEL_RAG_HTML, "<svg><text>no</text></svg>yes<script>lost", "1-1:0 yes|", NULL},
    {ACCEL_RAG_HTML, "a < b <", "1-1:0 a < b <|", NULL},
    {ACCEL_RAG_HTML, "<a title=\"x", "", NULL},
    {ACCEL_RAG_HTML, "&amp", "1-1:0 &amp|", NULL}};

static void test_samples(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    accel__document d;
    accel__buffer lines = {0};
    assert_ok(
        accel__document_parse(samples[i].file, strlen(samples[i].file), samples[i].format, &d));
    for (uint32_t k = 0; k < d.n; k++)
      if (d.line[k].end > d.line[k].start)
        accel__buffer_printf(&lines, "%u-%u:%u %.*s|", d.line[k].first, d.line[k].last,
                             d.line[k].heading, (int)(d.line[k].end - d.line[k].start),
                             d.text.data + d.line[k].start);
    assert_string_equal(lines.n ? lines.data : "", samples[i].lines);
    if (samples[i].title)
      assert_string_equal(d.title, samples[i].title);
    else
      assert_null(d.title);
    accel__buffer_free(&lines);
    accel__document_free(&d);
  }
}

static void test_names_of_characters_are_sorted(void **state) {
  static const char *const names[] = {
#define ENTITY(name, code) name,
#include "rag/html_entities.def"
  };
  (void)state;
  for (size_t i = 1; i < sizeof names / sizeof *names; i++)
    assert_true(strcmp(names[i - 1], names[i]) < 0);
}

static void test_names_of_files(void **state) {
  accel_rag_format format;
  (void)state;
  assert_true(accel__document_format("a/b.HTML", &format) && format == ACCEL_RAG_HTML);
  assert_true(accel__document_format("b.md", &format) && format == ACCEL_RAG_MARKDOWN);
  assert_false(accel__document_format("b.mdx", &format));
  assert_false(accel__document_format("md", &format));
}

/* ---- passages ---- */

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* Words, sentences, lines and headings by chance; sometimes without any space. */
static void write_text(accel__buffer *b, uint32_t seed) {
  static const char *const parts[] = {"cat ",
                                      "the ",
                                      "mat. ",
                                      "\n",
                                      "\n\n",
                                      "\n# Head\n",
                                      "\n## Sub\n",
                                      "x",
                                      "語",
                                      "  \n    code\n",
                                      "a-very-long-word-without-any-space-in-it",
                                      "\u0301",
                                      "\xff",
                                      "```\n",
                                      "? ",
                                      "\t"};
  const uint32_t n = next(&seed) % 600, kinds = 1 + next(&seed) % 16;
  for (uint32_t i = 0; i < n; i++) accel__buffer_text(b, parts[next(&seed) % kinds]);
  accel__buffer_text(b, "");
}

/* Every letter, but those of headings, is in a passage; none is too long. */
static void check_passages(const accel__document *d, const accel__chunking *how) {
  accel__chunks chunks;
  assert_ok(accel__chunks_make(d, how, &chunks));
  char *covered = calloc(d->text.n + 1, 1);
  for (uint32_t i = 0; i < chunks.n; i++) {
    const accel__chunk *c = &chunks.item[i];
    uint32_t tokens;
    assert_true(c->start < c->end && c->end <= d->text.n && c->first_line <= c->last_line);
    assert_true(c->first_line >= 1);
    assert_true(accel__utf8_valid(d->text.data + c->start, c->end - c->start));
    assert_ok(
        accel__count_tokens(how->tokenizer, d->text.data + c->start, c->end - c->start, &tokens));
    assert_in_range(tokens, 1,
                    how->tokens - how->taken + 1); /* a cut inside of a word may make one more */
    assert_in_range(c->end - c->start, 1, 128 * how->tokens);
    memset(covered + c->start, 1, c->end - c->start);
    if (i) assert_true(chunks.item[i - 1].start < c->start && chunks.item[i - 1].end <= c->end);
  }
  for (uint32_t k = 0; k < d->n; k++)
    for (uint32_t at = d->line[k].start; !d->line[k].heading && at < d->line[k].end; at++)
      if (d->text.data[at] >= 'a' && d->text.data[at] <= 'z') assert_true(covered[at]);
  free(covered);
  accel__chunks_free(&chunks);
}

static void test_passages_of_any_text(void **state) {
  accel__tokenizer *tokenizer;
  (void)state;
  assert_ok(accel__tokenizer_load(ACCEL_FIXTURES "/tasks/st_mean", &tokenizer));
  for (uint32_t seed = 1; seed < 200; seed++) {
    const accel__chunking how = {
        .tokenizer = tokenizer, .tokens = 16 + seed % 50, .overlap = seed % 8, .taken = 2};
    accel__buffer text = {0};
    accel__document d;
    write_text(&text, seed * 7919);
    assert_ok(accel__document_parse(text.data, text.n, (accel_rag_format)(seed % 3), &d));
    check_passages(&d, &how);
    accel__document_free(&d);
    accel__buffer_free(&text);
  }
  accel__tokenizer_free(&tokenizer);
}

static void test_passages_end_where_the_text_does(void **state) {
  static const char text[] =
      "# One\n\nthe cat sat on the mat the cat sat. the cat sat on the mat\n\nthe old cat sat "
      "on\n\n"
      "## Two\n\n## Three\nthe mat\n";
  static const char *const want[] = {
      "3-3 One: the cat sat on the mat the cat sat.", "3-3 One: sat. the cat sat on the mat",
      "3-5 One: on the mat\n\nthe old cat sat on", "7-7 One: Two", "10-10 One > Three: the mat"};
  accel__tokenizer *tokenizer;
  accel__document d;
  accel__chunks chunks;
  (void)state;
  assert_ok(accel__tokenizer_load(ACCEL_FIXTURES "/tasks/st_mean", &tokenizer));
  const accel__chunking how = {.tokenizer = tokenizer, .tokens = 22, .overlap = 4, .taken = 2};
  assert_ok(accel__document_parse(text, strlen(text), ACCEL_RAG_MARKDOWN, &d));
  assert_ok(accel__chunks_make(&d, &how, &chunks));
  assert_int_equal(chunks.n, sizeof want / sizeof *want);
  for (uint32_t i = 0; i < chunks.n; i++) {
    const accel__chunk *c = &chunks.item[i];
    accel__buffer b = {0};
    accel__buffer_printf(&b, "%u-%u %s: %.*s", c->first_line, c->last_line, c->heading,
                         (int)(c->end - c->start), d.text.data + c->start);

    assert_string_equal(b.data, want[i]);
    accel__buffer_free(&b);
  }
  accel__chunks_free(&chunks);
  accel__document_free(&d);
  accel__tokenizer_free(&tokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_samples), cmocka_unit_test(test_names_of_characters_are_sorted),
      cmocka_unit_test(test_names_of_files), cmocka_unit_test(test_passages_of_any_text),
      cmocka_unit_test(test_passages_end_where_the_text_does)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
