/* processor.h - what stands between an endpoint and its user: tokenizer, limits, prompts; and the
 * walk of many texts through it.
 *
 * Tasks tokenize all their texts on the pool, cut them into pieces, and hand the pieces to
 * accel__run_pieces, which sorts them by length, packs them into runs of bounded size, and gives
 * each run's results back piece by piece.  Rows are packed, so a run costs what its tokens cost.
 */
#ifndef ACCEL_PROCESSING_PROCESSOR_H
#define ACCEL_PROCESSING_PROCESSOR_H

#include "dispatch/run_adapter.h"
#include "processing/sentence_modules.h"
#include "text/tokenizer.h"

typedef struct accel__processor {
  accel__arena arena;
  /* NULL: the directory has none; tasks then fail with `no_tokenizer` */
  accel__tokenizer *tokenizer;
  char *no_tokenizer; /* why */
  accel__sentence_modules modules;
  uint32_t max_length;   /* tokens of a piece, special tokens included */
  uint32_t asked_length; /* what accel_init was given; 0 nothing */
  uint32_t batch_size;   /* pieces per run; 0: as many as fit the token budget */
} accel__processor;

/* Fills ep->processor and its view; ep->directory NULL: no tokenizer.  modules are taken over
 * (their strings live in ep->arena). */
accel_status accel__processor_new(accel_endpoint *ep, const accel__sentence_modules *modules,
                                  const accel_init_params *params);
accel__processor *accel__processor_for(const accel_endpoint *ep);
/* ACCEL_ERROR_UNSUPPORTED when the model's head does not serve `task`. */
accel_status accel__task_check(const accel_endpoint *ep, const char *task);
/* ACCEL_ERROR_UNSUPPORTED when the endpoint has no tokenizer, or its head does not serve `task`
 * ("text-classification"). */
accel_status accel__processor_check(const accel_endpoint *ep, const char *task);

/* How texts are encoded for a model: with special tokens, cut at max_length (0: the endpoint's own,
 * and never more than the model has positions) as `truncation` says in transformers' words (NULL:
 * longest_first).  ACCEL_ERROR_ARGUMENT: another word. */
accel_status accel__choose_truncation(const accel_endpoint *ep, const char *truncation,
                                      uint32_t max_length, accel__encode_options *out);
/* Tokenizes texts[n] (with pairs[i] where that is not NULL) on the pool.  out[n] must be {0}; free
 * each one.  Of how->truncation ACCEL__TRUNCATE_NONE a text of more than max_length tokens (0: any
 * number) is ACCEL_ERROR_LIMIT.
 */
accel_status accel__encode_texts(accel_endpoint *ep, const char *const *texts,
                                 const char *const *pairs, uint32_t n,
                                 const accel__encode_options *how, accel__encoding *out);
void accel__encodings_free(accel__encoding *encodings, uint32_t n); /* the array, too; NULL-safe */

/* One sequence for the model. */
typedef struct accel__piece {
  const int32_t *ids, *type_ids;
  uint32_t n;
  accel_plugin_adapter_use adapter; /* {NULL}: none */
} accel__piece;
/* Pieces of many texts, and where each comes from. */
typedef struct accel__piece_list {
  uint32_t n;
  accel__piece *piece;
  uint32_t *text, *number; /* piece i is piece number[i] of encoding text[i] */
} accel__piece_list;
/* all: every piece of each encoding (windows of a long text); else only the first.  Arena memory;
 * ids stay in the encodings.
 */
accel_status accel__list_pieces(const accel__encoding *enc, uint32_t n, bool all,
                                accel__arena *arena, accel__piece_list *out);
/* All pieces are run with an adapter of `ep`, as a task's parameters name it; NULL: without one.
 * Failures as of accel__run_adapter_use. */
accel_status accel__adapt_pieces(const accel_endpoint *ep, const accel_adapter *adapter,
                                 double scale, accel__piece_list *pieces);
/* What became of piece `index`: its rows in results[k] begin at row `row` of a ragged output, or
 * are row `item` of a per-item one. */
typedef struct accel__piece_result {
  uint32_t index, item, tokens;
  uint64_t row;
  const accel__result *results;
} accel__piece_result;
typedef accel_status (*accel__piece_fn)(void *user, const accel__piece_result *result);

/* What a task over texts asks the model for: all pieces through `entry`, and of it
 * output[n_outputs]. */
typedef struct accel__piece_run {
  const char *entry, *what; /* `what` names the work for progress callbacks */
  uint32_t output[2], n_outputs;
  accel__piece_list pieces;
  /* Called once a piece, one piece at a time; of an endpoint alone longest first and on the caller's
   * thread, with replicas on theirs. */
  accel__piece_fn take;
  void *user; /* its first argument */
} accel__piece_run;

/* Runs all pieces, on all replicas of the endpoint. */
accel_status accel__run_pieces(accel_endpoint *ep, const accel__piece_run *run);
/* The most tokens that accel__run_pieces would put into one run of the model, of `all` of them, the
 * shortest piece having `shortest`. */
accel_status accel__piece_budget(accel_endpoint *ep, const accel__piece_run *run, uint32_t shortest,
                                 uint64_t all, uint64_t *tokens);
/* Index of a named output of "forward"; ACCEL_ERROR_UNSUPPORTED when the model has none. */
accel_status accel__output_index(const accel_endpoint *ep, const char *name, uint32_t *index);

#endif
