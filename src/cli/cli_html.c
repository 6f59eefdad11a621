/* cli_html.c - pages of HTML: one style for all, and tables. */
#include <string.h>

#include "cli/cli_print.h"
#include "tool/tool_markup.h"

enum { LONG = 48 }; /* bytes of a cell that is not cut into lines */

/* Colours of series keep apart for the colour-blind, on light and on dark pages. */
static const char style[] =
    ":root { color-scheme: light dark; --text: #1c1c1a; --soft: #5c5b57; --page: #fbfbf9; --card: "
    "#ffffff; --line: #dcdbd6; --grid: #ecebe6; --link: #1f5fb0; --pass: #d9f2dc; --fail: #f9d2d0; "
    "--stale: #f6ecc4; --none: #f1f0ec; --c0: #2a78d6; --c1: #d9480f; --c2: #138a61; --c3: "
    "#8a5cd6; --c4: #b8860b; --c5: #c2437d; --c6: #0b8793; --c7: #6b6a66; }\n"
    "@media (prefers-color-scheme: dark) { :root { --text: #e9e8e3; --soft: #a5a49d; --page: "
    "#161615; --card: #1f1f1d; --line: #3a3936; --grid: #2c2b29; --link: #8ab8f2; --pass: #17401d; "
    "--fail: #5a1a18; --stale: #4a3f10; --none: #262624; --c0: #5b9df0; --c1: #f0834f; --c2: "
    "#3dbb8c; --c3: #ab8aee; --c4: #d9ab3a; --c5: #e87aae; --c6: #3fb5c2; --c7: #9c9b95; } }\n"
    "* { box-sizing: border-box; }\n"
    "body { margin: 0 auto; padding: 1rem; max-width: 84rem; font: 0.94rem/1.5 system-ui, "
    "-apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; color: var(--text); background: "
    "var(--page); overflow-wrap: break-word; }\n"
    "h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; }\n"
    "h2 { font-size: 1.25rem; margin: 2.5rem 0 0.25rem; padding-top: 0.75rem; border-top: 1px "
    "solid var(--line); }\n"
    "h3 { font-size: 1.02rem; margin: 1.5rem 0 0.5rem; }\n"
    "h4 { font-size: 0.94rem; margin: 0; overflow-wrap: anywhere; }\n"
    "p { margin: 0.4rem 0; max-width: 68rem; }\n"
    "a { color: var(--link); }\n"
    ".soft { color: var(--soft); }\n"
    "code { font: 0.88em ui-monospace, 'DejaVu Sans Mono', monospace; overflow-wrap: anywhere; }\n"
    "nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; padding: 0; list-style: none; }\n"
    ".tiles, .cards { display: grid; gap: 0.75rem; margin: 0.75rem 0; }\n"
    ".tiles { grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); }\n"
    ".cards { grid-template-columns: repeat(auto-fill, minmax(min(100%, 20.5rem), 1fr)); "
    "align-items: start; }\n"
    ".tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 0.5rem; "
    "padding: 0.75rem; min-width: 0; }\n"
    ".tile b { display: block; font-size: 1.5rem; line-height: 1.2; font-variant-numeric: "
    "tabular-nums; }\n"
    ".card p { font-size: 0.82rem; margin: 0.1rem 0 0.5rem; color: var(--soft); overflow-wrap: "
    "anywhere; }\n"
    ".card svg { display: block; width: 100%; height: auto; }\n"
    "svg text { font-size: 11px; fill: var(--text); }\n"
    "svg .tick { font-size: 10px; fill: var(--soft); }\n"
    "svg .value { font-weight: 600; }\n"
    ".grid { stroke: var(--grid); fill: none; }\n"
    ".axis { stroke: var(--soft); fill: none; }\n"
    ".line { fill: none; stroke-width: 2; stroke-linejoin: round; }\n"
    ".line.roof { stroke: var(--soft); stroke-width: 1.2; }\n"
    ".dot { stroke: var(--card); stroke-width: 1; }\n"
    ".c0 { --s: var(--c0); } .c1 { --s: var(--c1); } .c2 { --s: var(--c2); } .c3 { --s: var(--c3); "
    "}\n"
    ".c4 { --s: var(--c4); } .c5 { --s: var(--c5); } .c6 { --s: var(--c6); } .c7 { --s: var(--c7); "
    "}\n"
    ".line[class*=' c'] { stroke: var(--s); }\n"
    ".dot, .bar { fill: var(--s); }\n"
    ".pale { opacity: 0.45; }\n"
    ".legend { display: flex; flex-wrap: wrap; gap: 0.1rem 0.9rem; padding: 0; margin: 0.4rem 0 0; "
    "list-style: none; font-size: 0.8rem; }\n"
    ".legend li::before { content: ''; display: inline-block; width: 0.7em; height: 0.7em; "
    "border-radius: 2px; background: var(--s); margin-right: 0.4em; }\n"
    ".box { overflow-x: auto; margin: 0.5rem 0; border: 1px solid var(--line); border-radius: "
    "0.4rem; background: var(--card); }\n"
    "table { border-collapse: collapse; width: 100%; font-size: 0.84rem; }\n"
    "th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: left; "
    "vertical-align: top; }\n"
    "th { white-space: nowrap; font-weight: 600; color: var(--soft); }\n"
    "td { white-space: nowrap; }\n"
    "td.long { white-space: normal; min-width: 16rem; max-width: 26rem; }\n"
    "tr:last-child td { border-bottom: 0; }\n"
    ".n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }\n"
    ".pass { background: var(--pass); }\n"
    ".fail, .slower { background: var(--fail); }\n"
    ".faster { background: var(--pass); }\n"
    ".stale { background: var(--stale); }\n"
    ".unsupported, .untested { background: var(--none); }\n"
    "td.unsupported { white-space: normal; min-width: 8rem; }\n"
    "details { margin: 0.5rem 0; }\n"
    "summary { cursor: pointer; color: var(--link); }\n"
    "footer { margin-top: 3rem; border-top: 1px solid var(--line); font-size: 0.85rem; color: "
    "var(--soft); }\n"
    "@media print { body { max-width: none; padding: 0; font-size: 9.5pt; } nav { display: none; } "
    ".card, .tile, tr { break-inside: avoid; } h2, h3 { break-after: avoid; } .box { overflow: "
    "visible; } table { font-size: 7.5pt; } td, td.long { max-width: none; overflow-wrap: "
    "anywhere; white-space: normal; min-width: 0; } .cards { grid-template-columns: repeat(2, "
    "1fr); } }\n";

void cli_html_begin(FILE *to, const char *title) {
  fputs(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      to);
  tool_markup_text(to, title);
  fprintf(to, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
  tool_markup_text(to, title);
  fputs("</h1>\n", to);
}

void cli_html_end(FILE *to) { fputs("</body>\n</html>\n", to); }

/* The first word of a verdict, which colours its cell; "" of other cells. */
static const char *class_of(const char *text) {
  static const char *const names[] = {"pass",     "fail",   "stale", "unsupported",
                                      "untested", "slower", "faster"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (!strncmp(text, names[i], strlen(names[i]))) return names[i];
  return "";
}

void cli_table_html(FILE *to, cli_table *table, const char *align) {
  cli_progress_end();
  fputs("<div class=\"box\">\n<table>\n", to);
  for (uint32_t r = 0; r < table->rows; ++r) {
    fputs("<tr>", to);
    for (uint32_t c = 0; c < table->columns; ++c) {
      const char *text = cli_table_cell(table, r, c), *name = r ? class_of(text) : "";
      char classes[40];
      if (!*name && c < strlen(align) && align[c] == 'r') name = "n";
      snprintf(classes, sizeof classes, "%s%s", name,
               strlen(text) <= LONG ? ""
               : *name              ? " long"
                                    : "long");
      fprintf(to, "<%s%s%s%s>", r ? "td" : "th", *classes ? " class=\"" : "", classes,
              *classes ? "\"" : "");
      tool_markup_text(to, text);
      fputs(r ? "</td>" : "</th>", to);
    }
    fputs("</tr>\n", to);
  }
  fputs("</table>\n</div>\n", to);
  cli_table_empty(table);
}
