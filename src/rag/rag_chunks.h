/* rag_chunks.h - documents to passages of a bounded number of tokens. */
#ifndef ACCEL_RAG_CHUNKS_H
#define ACCEL_RAG_CHUNKS_H

#include "core/arena.h"
#include "rag/rag_document.h"
#include "text/tokenizer.h"

/* One passage: bytes [start, end) of the document's text. */
typedef struct accel__chunk {
  uint32_t start, end;
  uint32_t first_line, last_line; /* of the file */
  char *heading;                  /* headings above it, " > " between them; "" without any */
  bool with_heading;              /* there is room for the heading in front of what is embedded */
} accel__chunk;

typedef struct accel__chunks {
  accel__chunk *item; /* headings are in the arena */
  uint32_t n, capacity;
  accel__arena arena;
} accel__chunks; /* {0} is empty */

/* How passages are cut. */
typedef struct accel__chunking {
  const accel__tokenizer *tokenizer;
  uint32_t tokens;  /* of a passage with heading, prompt and special tokens */
  uint32_t overlap; /* that neighbours share, below half of `tokens` */
  uint32_t taken;   /* of `tokens`, by the prompt and special tokens */
} accel__chunking;

/* A heading begins a new passage.  A section that is longer than one is cut where, in the second half
 * of the passage, the text has its strongest boundary - between paragraphs, then lines or sentences,
 * then words - and the next one begins at a boundary, too, at most `overlap` tokens before.  Where
 * there is no boundary, or a token covers very many bytes, it is cut between code points: a passage
 * has at most 128 bytes for each of its tokens. */
accel_status accel__chunks_make(const accel__document *d, const accel__chunking *how,
                                accel__chunks *out);
void accel__chunks_free(accel__chunks *chunks);
/* Tokens of text[n] without special tokens. */
accel_status accel__count_tokens(const accel__tokenizer *tokenizer, const char *text, size_t n,
                                 uint32_t *count);

#endif
