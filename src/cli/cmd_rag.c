/* cmd_rag.c - accel rag: an index of documents, search in it, and answers from it. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_generation.h"
#include "cli/cli_print.h"

/* A path as people here write it: relative to where they are, when it is below. */
static const char *shown(const char *path) {
  static char here[PATH_MAX];
  if (!*here && !getcwd(here, sizeof here)) here[0] = '/';
  const size_t n = strlen(here);
  return !strncmp(path, here, n) && path[n] == '/' ? path + n + 1 : path;
}

/* ---- opening ---- */

/* The embedder of an index that is there, malloc'd in *name; NULL: there is no such file. */
static int embedder_of(cli_run *run, const char *path, char **name) {
  accel_rag *rag;
  accel_rag_info *info = NULL;
  *name = NULL;
  if (access(path, F_OK)) return 0;
  accel_status status = accel_rag_open(run->ctx, path, NULL, NULL, &rag);
  if (status == ACCEL_OK) status = accel_rag_describe(rag, &info);
  if (status == ACCEL_OK && !(*name = strdup(info->embedder))) status = ACCEL_ERROR_OUT_OF_MEMORY;
  const int code = status == ACCEL_OK ? 0 : cli_fail(run, status);
  accel_rag_info_free(&info);
  accel_rag_close(&rag);
  return code;
}

typedef struct opened {
  accel_endpoint *embedder, *reranker, *generator;
  accel_rag *rag;
} opened;

static void close_all(opened *o) {
  accel_rag_close(&o->rag);
  accel_cleanup(&o->generator);
  accel_cleanup(&o->reranker);
  accel_cleanup(&o->embedder);
}

/* The one value of --model; NULL: none.  A second one is a usage error. */
static int one_model(cli_run *run, const char **model) {
  uint32_t n;
  const char **given = cli_values(run, OPT_MODEL, &n);
  *model = n ? given[n - 1] : NULL;
  free(given);
  return n > 1 ? cli_usage(run, "--model: one model") : 0;
}

/* `model` NULL: the embedder that the index names. */
static int open_index(cli_run *run, const char *model, bool create, opened *o) {
  const char *path = run->value[OPT_INDEX];
  accel_rag_params how = accel_rag_params_default();
  char *name = NULL;
  int code = cli_context(run);
  if (!code && !model) code = embedder_of(run, path, &name);
  if (!code && !model && !name && create)
    code = cli_usage(run, "--model EMBEDDER: %s is not there yet, and needs one", path);
  if (!code && (model || name))
    code = cli_open(run, model ? model : name, "feature-extraction", &o->embedder);
  how.create = create;
  how.chunk_tokens = (uint32_t)cli_count(run, OPT_CHUNK_TOKENS, 0);
  how.overlap = (uint32_t)cli_count(run, OPT_OVERLAP, ACCEL_RAG_OVERLAP_DEFAULT);
  how.document_prompt = run->value[OPT_DOCUMENT_PROMPT];
  how.query_prompt = run->value[OPT_QUERY_PROMPT];
  if (!code) {
    const accel_status status = accel_rag_open(run->ctx, path, o->embedder, &how, &o->rag);
    if (status != ACCEL_OK) code = cli_fail(run, status);
  }
  free(name);
  return code;
}

/* ---- accel rag index ---- */

static int changes_json(cli_run *run, const accel_rag_changes *c) {
  cli_json json;
  int code = cli_json_begin(run, "accel.rag.index/1", &json);
  if (code) return code;
  cli_json_int(&json, "added", c->added);
  cli_json_int(&json, "changed", c->changed);
  cli_json_int(&json, "unchanged", c->unchanged);
  cli_json_int(&json, "removed", c->removed);
  cli_json_int(&json, "skipped", c->skipped);
  cli_json_int(&json, "passages", (int64_t)c->passages);
  cli_json_int(&json, "tokens", (int64_t)c->tokens);
  cli_json_open(&json, "problems", '[');
  for (uint32_t i = 0; i < c->n_problem; ++i) {
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "path", c->problem[i].path);
    cli_json_text(&json, "message", c->problem[i].message);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

/* The exit code of the first document that failed. */
static int print_changes(cli_run *run, const accel_rag_changes *c) {
  int failed = 0;
  for (uint32_t i = 0; i < c->n_problem; ++i) {
    const int code = cli_error(run, c->problem[i].status, "%s: %s", shown(c->problem[i].path),
                               c->problem[i].message);
    if (!failed) failed = code;
  }
  int code = 0;
  if (cli_flag(run, OPT_JSON))
    code = changes_json(run, c);
  else
    printf("%u added, %u changed, %u unchanged, %u removed; %llu passages written\n", c->added,
           c->changed, c->unchanged, c->removed, (unsigned long long)c->passages);
  if (c->skipped)
    cli_note(run, "%u files are no text, Markdown or HTML by their names", c->skipped);
  return code ? code : failed;
}

static int index_documents(cli_run *run) {
  opened o = {0};
  accel_rag_changes *changes = NULL;
  const char *model;
  if (run->n_args < 2) return cli_usage(run, "give files or folders to index");
  int code = one_model(run, &model);
  if (!code) code = open_index(run, model, true, &o);
  if (!code) {
    const accel_status status = accel_rag_add(o.rag, (const char *const *)run->args + 1,
                                              (uint32_t)run->n_args - 1, &changes);
    cli_progress_end();
    code = status == ACCEL_OK ? print_changes(run, changes) : cli_fail(run, status);
  }
  accel_rag_changes_free(&changes);
  close_all(&o);
  return code;
}

/* ---- accel rag query ---- */

static void passages_json(cli_json *json, const accel_rag_passages *found) {
  cli_json_double(json, "embed_ms", found->embed_ms);
  cli_json_double(json, "search_ms", found->search_ms);
  cli_json_double(json, "rerank_ms", found->rerank_ms);
  cli_json_open(json, "sources", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    const accel_rag_passage *p = &found->item[i];
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "path", p->path);
    cli_json_text(json, "title", p->title);
    cli_json_text(json, "heading", p->heading);
    cli_json_int(json, "first_line", p->first_line);
    cli_json_int(json, "last_line", p->last_line);
    cli_json_double(json, "score", p->score);
    cli_json_double(json, "similarity", p->similarity);
    cli_json_int(json, "vector_rank", p->vector_rank);
    cli_json_int(json, "words_rank", p->words_rank);
    cli_json_text(json, "text", p->text);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void print_source(uint32_t number, const accel_rag_passage *p, const char *behind) {
  printf("[%u] %s:%u-%u%s%s%s\n", number, shown(p->path), p->first_line, p->last_line,
         *p->heading ? "  " : "", p->heading, behind);
}

static int print_passages(cli_run *run, const char *query, const accel_rag_passages *found) {
  cli_json json;
  if (cli_flag(run, OPT_JSON)) {
    int code = cli_json_begin(run, "accel.rag.query/1", &json);
    if (code) return code;
    cli_json_text(&json, "query", query);
    passages_json(&json, found);
    return cli_json_end(run, &json);
  }
  for (uint32_t i = 0; i < found->n; ++i) {
    char text[1024];
    print_source(i + 1, &found->item[i], "");
    printf("    %s\n", cli_excerpt(found->item[i].text, 200, text, sizeof text));
  }
  if (!found->n) cli_note(run, "no passage was found");
  cli_note(run, "searched in %.1f ms", found->search_ms);
  return cli_flush(run);
}

static bool is_cited(const accel_rag_answer *a, uint32_t number) {
  for (uint32_t i = 0; i < a->n_cited; ++i)
    if (a->cited[i] == number) return true;
  return false;
}

static int answer_json(cli_run *run, const char *query, const accel_endpoint *generator,
                       const accel_rag_answer *a) {
  cli_json json;
  int code = cli_json_begin(run, "accel.rag.query/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(generator));
  cli_json_text(&json, "query", query);
  cli_json_text(&json, "answer", a->text);
  cli_json_text(&json, "finish", a->finish);
  cli_json_open(&json, "cited", '[');
  for (uint32_t i = 0; i < a->n_cited; ++i) cli_json_int(&json, NULL, a->cited[i]);
  cli_json_close(&json, ']');
  cli_json_int(&json, "left_out", a->n_left_out);
  cli_json_int(&json, "prompt_tokens", (int64_t)a->prompt_tokens);
  cli_json_int(&json, "new_tokens", (int64_t)a->new_tokens);
  cli_json_double(&json, "prefill_ms", a->prefill_ms);
  cli_json_double(&json, "decode_ms", a->decode_ms);
  passages_json(&json, a->sources);
  return cli_json_end(run, &json);
}

static int print_answer(cli_run *run, const cli_wishes *w, const accel_rag_answer *a) {
  if (!w->streamed) cli_print_text(a->text);
  printf("\n\nSources:\n");
  for (uint32_t i = 0; i < a->sources->n; ++i)
    print_source(i + 1, &a->sources->item[i], is_cited(a, i + 1) ? "  (cited)" : "");
  if (a->n_left_out)
    cli_note(run, "%u more were found; the model's context has no room for them", a->n_left_out);
  if (!strcmp(a->finish, "length"))
    cli_note(run, "the answer is cut at %llu tokens: --max-new-tokens, or the model's context",
             (unsigned long long)a->new_tokens);
  return cli_flush(run);
}

static int answer(cli_run *run, opened *o, const char *query, const accel_rag_search_params *how) {
  cli_wishes w;
  accel_rag_answer *found = NULL;
  int code = cli_wishes_read(run, &w);
  if (!code) code = cli_wishes_stream(run, &w, 1);
  if (!code) {
    const accel_status status =
        accel_rag_answer_query(o->rag, o->generator, query, how, &w.params, &found);
    cli_progress_end();
    code = status != ACCEL_OK        ? cli_fail(run, status)
           : cli_flag(run, OPT_JSON) ? answer_json(run, query, o->generator, found)
                                     : print_answer(run, &w, found);
  }
  accel_rag_answer_free(&found);
  cli_wishes_free(&w);
  return code;
}

static int search(cli_run *run, const opened *o, const char *query,
                  const accel_rag_search_params *how) {
  accel_rag_passages *found;
  const accel_status status = accel_rag_search(o->rag, query, how, &found);
  if (status != ACCEL_OK) return cli_fail(run, status);
  const int code = print_passages(run, query, found);
  accel_rag_passages_free(&found);
  return code;
}

static int query_index(cli_run *run) {
  opened o = {0};
  accel_rag_search_params how = accel_rag_search_params_default();
  const char *generator, *by = run->value[OPT_BY];
  if (run->n_args != 2) return cli_usage(run, "give one question");
  int code = one_model(run, &generator);
  how.top_k = (uint32_t)cli_count(run, OPT_TOP, how.top_k);
  how.path_pattern = run->value[OPT_PATHS];
  if (by) how.mode = !strcmp(by, "vectors") ? ACCEL_RAG_VECTORS : ACCEL_RAG_HYBRID;
  if (by && !strcmp(by, "words")) how.mode = ACCEL_RAG_WORDS;
  if (!code) code = open_index(run, run->value[OPT_EMBEDDER], false, &o);
  if (!code && run->value[OPT_RERANKER])
    code = cli_open(run, run->value[OPT_RERANKER], "text-ranking", &o.reranker);
  how.reranker = o.reranker;
  if (!code && generator) code = cli_open(run, generator, NULL, &o.generator);
  if (!code)
    code = o.generator ? answer(run, &o, run->args[1], &how) : search(run, &o, run->args[1], &how);
  close_all(&o);
  return code;
}

/* ---- accel rag info ---- */

static int print_info(cli_run *run, const accel_rag_info *info) {
  cli_json json;
  if (!cli_flag(run, OPT_JSON)) {
    printf("%u documents, %llu passages of at most %u tokens (overlap %u), vectors of %u by %s\n",
           info->documents->n, (unsigned long long)info->passages, info->chunk_tokens,
           info->overlap, info->dim, info->embedder);
    for (uint32_t i = 0; i < info->documents->n; ++i) puts(shown(info->documents->item[i]));
    return cli_flush(run);
  }
  int code = cli_json_begin(run, "accel.rag.info/1", &json);
  if (code) return code;
  cli_json_text(&json, "embedder", info->embedder);
  cli_json_int(&json, "dim", info->dim);
  cli_json_int(&json, "chunk_tokens", info->chunk_tokens);
  cli_json_int(&json, "overlap", info->overlap);
  cli_json_text(&json, "document_prompt", info->document_prompt);
  cli_json_text(&json, "query_prompt", info->query_prompt);
  cli_json_int(&json, "passages", (int64_t)info->passages);
  cli_json_strings(&json, "documents", info->documents);
  return cli_json_end(run, &json);
}

static int tell(cli_run *run) {
  accel_rag *rag = NULL;
  accel_rag_info *info = NULL;
  if (run->n_args != 1) return cli_usage(run, "info takes no more operands");
  int code = cli_context(run);
  if (code) return code;
  accel_status status = accel_rag_open(run->ctx, run->value[OPT_INDEX], NULL, NULL, &rag);
  if (status == ACCEL_OK) status = accel_rag_describe(rag, &info);
  code = status == ACCEL_OK ? print_info(run, info) : cli_fail(run, status);
  accel_rag_info_free(&info);
  accel_rag_close(&rag);
  return code;
}

int cmd_rag(cli_run *run) {
  const char *verb = run->args[0];
  if (!run->value[OPT_INDEX]) return cli_usage(run, "--index FILE says which index");
  if (!strcmp(verb, "index")) return index_documents(run);
  if (!strcmp(verb, "query")) return query_index(run);
  if (!strcmp(verb, "info")) return tell(run);
  return cli_usage(run, "'%s' is none of index, query and info", verb);
}
