/**
 * @file rag.h
 * Answers from documents (retrieval-augmented generation): an index of texts in a file, search in it
 * by meaning and by words, and answers of a language model that cite what was found.
 *
 * Include accel/accel.h, which includes this file.  docs/rag.md has the formats that are read, how
 * texts are cut into passages, and how results are ranked.
 *
 *     accel_rag_params how = accel_rag_params_default();
 *     how.create = 1;
 *     accel_rag_open(ctx, "docs.sqlite", embedder, &how, &index);
 *     accel_rag_add(index, (const char *[]){"docs"}, 1, &changes);
 *     accel_rag_search(index, "How is a model placed?", NULL, &found);
 *     accel_rag_answer_query(index, generator, "How is a model placed?", NULL, NULL, &answer);
 *
 * An index is one SQLite file, in WAL mode: any number of processes may read and write it at once.
 * Each document is written in one transaction, so a process that is killed loses at most the document
 * that it was working on.
 */
#ifndef ACCEL_RAG_H
#define ACCEL_RAG_H

#include "accel/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- an index ------------------------------------------------------------------------------ */

/** An open index.  May be used from many threads; one call at a time runs on it, a second one
 *  waits.  The endpoints given to it must live as long as it. */
typedef struct accel_rag accel_rag;

/** How an index is opened; accel_rag_params_default() fills it. */
typedef struct accel_rag_params {
  /** sizeof(accel_rag_params). */
  uint32_t size;
  /** 1: a file that is not there is made.  0 (default): it is ACCEL_ERROR_NOT_FOUND. */
  uint32_t create;
  /** Tokens of a passage, its heading and special tokens included: from 16 to what the embedder reads
   *  at once.  0: what the index was made with; of a new one 256, or what the embedder reads where
   *  that is less. */
  uint32_t chunk_tokens;
  /** Tokens that neighbouring passages share, below half of chunk_tokens.  ACCEL_RAG_OVERLAP_DEFAULT:
   *  what the index was made with; of a new one an eighth of chunk_tokens. */
  uint32_t overlap;
  /** Put in front of each passage before it is embedded, such as "passage: ".  NULL: what the index
   *  was made with; of a new one the embedder's own prompt for documents
   *  (config_sentence_transformers.json), or nothing. */
  const char *document_prompt;
  /** Put in front of each query, such as "query: ".  NULL as for document_prompt, of queries. */
  const char *query_prompt;
} accel_rag_params;

/** accel_rag_params.overlap that was not chosen. */
#define ACCEL_RAG_OVERLAP_DEFAULT UINT32_MAX

/** An index that is there, with the settings it was made with. */
ACCEL_API accel_rag_params accel_rag_params_default(void);

/**
 * Opens an index.
 *
 * @param path the SQLite file.
 * @param embedder the model that makes vectors of texts; it must be the one that the index was made
 *                 with, at any precision and on any device.  NULL: the index can be searched by words
 *                 alone, and told about.
 * @param params NULL: the defaults.  Copied.
 * @param out closed with accel_rag_close().
 * @return ACCEL_ERROR_NOT_FOUND: there is no such file, and `create` is 0.  ACCEL_ERROR_FORMAT: it is
 *         no index, is damaged, or a newer version made it.  ACCEL_ERROR_ARGUMENT: the embedder is
 *         not the index's, which the message names; settings other than those it was made with, or
 *         outside of their range.  ACCEL_ERROR_UNSUPPORTED: the embedder has no tokenizer or makes no
 *         vectors.  ACCEL_ERROR_IO: the file cannot be opened.
 */
ACCEL_API accel_status accel_rag_open(accel *ctx, const char *path, accel_endpoint *embedder,
                                      const accel_rag_params *params, accel_rag **out);

/** Closes an index and sets the pointer to NULL; its embedder stays. */
ACCEL_API void accel_rag_close(accel_rag **rag);

/** What an index holds. */
typedef struct accel_rag_info {
  /** The model that makes its vectors: a directory or an id, as accel_init() takes it. */
  const char *embedder;
  /** Numbers in a vector. */
  uint32_t dim;
  /** As accel_rag_params. */
  uint32_t chunk_tokens;
  /** As accel_rag_params. */
  uint32_t overlap;
  /** 0. */
  uint32_t reserved;
  /** As accel_rag_params. */
  const char *document_prompt;
  /** As accel_rag_params. */
  const char *query_prompt;
  /** Passages of all documents. */
  uint64_t passages;
  /** [documents->n] paths and names, sorted. */
  const accel_strings *documents;
} accel_rag_info;

/** Tells what an index holds now; freed with accel_rag_info_free(). */
ACCEL_API accel_status accel_rag_describe(accel_rag *rag, accel_rag_info **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_rag_info_free(accel_rag_info **info);

/* ---- documents ----------------------------------------------------------------------------- */

/** A document that could not be indexed. */
typedef struct accel_rag_problem {
  const char *path;    /**< the file */
  const char *message; /**< why, with what to do about it where that is known */
  accel_status status; /**< what it would have been alone */
} accel_rag_problem;

/** What accel_rag_add() did. */
typedef struct accel_rag_changes {
  uint32_t added;     /**< documents that are new */
  uint32_t changed;   /**< documents that were read anew */
  uint32_t unchanged; /**< documents that the index has as they are */
  uint32_t removed;   /**< documents that are no longer there */
  /** Files in directories that are of no kind that is read. */
  uint32_t skipped;
  uint32_t n_problem; /**< documents that failed; what the index had of them stays */
  /** [n_problem] */
  const accel_rag_problem *problem;
  uint64_t passages; /**< passages that were written */
  uint64_t tokens;   /**< tokens that went through the embedder */
} accel_rag_changes;

/**
 * Brings an index up to date with files and directories.
 *
 * Of directories and all below them, files ending in .txt .text .md .markdown .html .htm .xhtml are
 * read; names that begin with a dot and symbolic links are passed over.  Files that are named are
 * read whatever their name.  A file whose size and time of change are as the index knows them is not
 * opened; one whose content is the same is not embedded again.  Documents of the index that are no
 * longer below a directory given here, and named files that are gone, are removed.
 *
 * Reports its progress as "indexing".  Cancelled, it keeps what was done.
 *
 * @param paths [n]
 * @param out freed with accel_rag_changes_free(); may be NULL.  A file that fails is a problem of it
 *            and does not end the call.
 * @return ACCEL_ERROR_NOT_FOUND: a path is not there, nor in the index.  ACCEL_ERROR_ARGUMENT: the
 *         index was opened without an embedder.  ACCEL_ERROR_IO: the index cannot be written;
 *         ACCEL_ERROR_TIMEOUT: another process kept it locked.
 */
ACCEL_API accel_status accel_rag_add(accel_rag *rag, const char *const *paths, uint32_t n,
                                     accel_rag_changes **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_rag_changes_free(accel_rag_changes **changes);

/** How the text of a document is written. */
typedef enum accel_rag_format {
  ACCEL_RAG_TEXT = 0,     /**< plain text, no headings */
  ACCEL_RAG_MARKDOWN = 1, /**< Markdown: headings, fenced code, front matter */
  ACCEL_RAG_HTML = 2      /**< HTML: its text and headings, no scripts and styles */
} accel_rag_format;

/**
 * Adds a text that is no file, or puts it in the place of the one of that name.
 *
 * @param name what passages of it have as their path.
 * @param text UTF-8, at most 21 MiB.
 * @param format an accel_rag_format.
 * @return ACCEL_ERROR_ARGUMENT: no embedder, an empty name, an unknown format.  Else as
 *         accel_rag_add().
 */
ACCEL_API accel_status accel_rag_add_text(accel_rag *rag, const char *name, const char *text,
                                          accel_rag_format format);

/**
 * Removes documents.
 *
 * @param paths [n] as accel_rag_info.documents has them, or paths of files; of a directory all below
 *              it.
 * @param removed receives how many documents that were; may be NULL.
 * @return ACCEL_ERROR_NOT_FOUND: the index has none of a path.
 */
ACCEL_API accel_status accel_rag_remove(accel_rag *rag, const char *const *paths, uint32_t n,
                                        uint32_t *removed);

/* ---- search -------------------------------------------------------------------------------- */

/** What is compared. */
typedef enum accel_rag_mode {
  /** Vectors and words, joined by reciprocal rank fusion; to a passage's score what else was found
   *  of its document adds a little. */
  ACCEL_RAG_HYBRID = 0,
  ACCEL_RAG_VECTORS = 1, /**< vectors alone */
  ACCEL_RAG_WORDS = 2    /**< words alone, by BM25 */
} accel_rag_mode;

/** How passages are found; accel_rag_search_params_default() fills it. */
typedef struct accel_rag_search_params {
  /** sizeof(accel_rag_search_params). */
  uint32_t size;
  /** Passages given, 1 to 1000; default 5. */
  uint32_t top_k;
  /** An accel_rag_mode; default ACCEL_RAG_HYBRID, which without an embedder is ACCEL_RAG_WORDS. */
  uint32_t mode;
  /** Passages that vectors and words each propose, and that a reranker reads; 0: 30, or top_k where
   *  that is more. */
  uint32_t candidates;
  /** A model that ranks what was found, as accel_rerank() takes it; NULL: none. */
  accel_endpoint *reranker;
  /** Only documents whose path matches this pattern, in which * is any text and ? one character; NULL:
   *  all. */
  const char *path_pattern;
} accel_rag_search_params;

/** A passage of a document. */
typedef struct accel_rag_passage {
  /** The document's file, absolute, or its name. */
  const char *path;
  /** The document's title; "" without one. */
  const char *title;
  /** Headings above the passage, outermost first, " > " between them; "" without any. */
  const char *heading;
  /** The passage. */
  const char *text;
  /** Line of the file in which it begins, from 1. */
  uint32_t first_line;
  /** Line in which it ends. */
  uint32_t last_line;
  /** What passages are ordered by, larger is better: the reranker's score, else that of the fusion,
   *  the cosine, or BM25. */
  double score;
  /** Cosine of its vector with the query's; NaN where it was not compared. */
  double similarity;
  /** Its rank by vectors, from 1; 0: not among the candidates. */
  uint32_t vector_rank;
  /** Its rank by words, from 1; 0: not among the candidates. */
  uint32_t words_rank;
} accel_rag_passage;

/** Passages that were found. */
typedef struct accel_rag_passages {
  uint32_t n;                    /**< how many */
  const accel_rag_passage *item; /**< [n] best first */
  double embed_ms;               /**< milliseconds of the embedder */
  double search_ms;              /**< milliseconds of the search, all models excepted */
  double rerank_ms;              /**< milliseconds of the reranker */
} accel_rag_passages;

/** Five passages, by vectors and words. */
ACCEL_API accel_rag_search_params accel_rag_search_params_default(void);

/**
 * Finds the passages that fit a query best.
 *
 * The vectors of the whole index are kept in memory from the first search on (4 bytes a number), and
 * read again after a change.
 *
 * @param params NULL: the defaults.
 * @param out freed with accel_rag_passages_free(); n is 0 in an empty index.
 * @return ACCEL_ERROR_ARGUMENT: vectors are asked for without an embedder, a parameter is outside of
 *         its range, or the query has no token.  ACCEL_ERROR_UNSUPPORTED: `reranker` does not rank.
 */
ACCEL_API accel_status accel_rag_search(accel_rag *rag, const char *query,
                                        const accel_rag_search_params *params,
                                        accel_rag_passages **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_rag_passages_free(accel_rag_passages **passages);

/* ---- answers ------------------------------------------------------------------------------- */

/** An answer with its sources. */
typedef struct accel_rag_answer {
  /** What the model wrote. */
  const char *text;
  /** As accel_generation.finish. */
  const char *finish;
  /** What the model was given, source [1] first: the passages found, best first, as far as its
   *  context has room for them. */
  const accel_rag_passages *sources;
  /** Sources that the text cites as [n]. */
  uint32_t n_cited;
  /** Passages found that the context had no room for. */
  uint32_t n_left_out;
  /** [n_cited] their numbers, from 1, ascending. */
  const uint32_t *cited;
  /** Tokens of the prompt. */
  uint64_t prompt_tokens;
  /** Tokens of the answer. */
  uint64_t new_tokens;
  /** Milliseconds to the first token. */
  double prefill_ms;
  /** Milliseconds from then on. */
  double decode_ms;
} accel_rag_answer;

/**
 * Answers a question from the documents: searches, and has a language model write an answer that
 * cites its sources as [1], [2].
 *
 * Question and sources go through the model's chat template; a model without one continues a plain
 * text.  What documents say is text of the prompt: a document can mislead the model, and answers are
 * to be checked against their sources.
 *
 * @param generator a model that generates.
 * @param search NULL: the defaults.
 * @param generate NULL: the defaults; its on_token receives the answer as it comes.
 * @param out freed with accel_rag_answer_free().
 * @return ACCEL_ERROR_NOT_FOUND: no passage was found.  ACCEL_ERROR_LIMIT: the model's context has no
 *         room for the question with one source.  Else as accel_rag_search() and accel_generate().
 */
ACCEL_API accel_status accel_rag_answer_query(accel_rag *rag, accel_endpoint *generator,
                                              const char *question,
                                              const accel_rag_search_params *search,
                                              const accel_generate_params *generate,
                                              accel_rag_answer **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_rag_answer_free(accel_rag_answer **answer);

#ifdef __cplusplus
}
#endif
#endif
