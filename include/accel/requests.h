/**
 * @file requests.h
 * Requests to an endpoint's queue: priorities, deadlines, a callback at the end, cancelling.
 *
 * Include accel/accel.h, which includes this file.  accel_submit(), accel_submit_texts() and
 * accel_submit_generate() (inference.h, generate.h) submit the same requests without these options.
 *
 * One thread of the queue runs the requests.  Those that share runs of the model go on together:
 * generations join and leave between two tokens; the texts of embeddings, classifications and
 * rankings that wait at the same time are put into one run, a piece of each request in turn.  Steps
 * of the two alternate.  Company changes no result, bit by bit, and where a joint run fails each is
 * run by itself, so that only the request at fault fails.
 */
#ifndef ACCEL_REQUESTS_H
#define ACCEL_REQUESTS_H

#include "accel/generate.h"
#include "accel/text_tasks.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a request asks for, and which function waits for it. */
typedef enum accel_request_kind {
  /** accel_run(): `inputs`; waited for with accel_wait(). */
  ACCEL_REQUEST_RUN = 0,
  /** accel_embed_with(): `texts`; accel_wait_embeddings(). */
  ACCEL_REQUEST_EMBED = 1,
  /** accel_classify(): `texts`, `pairs`; accel_wait_classifications(). */
  ACCEL_REQUEST_CLASSIFY = 2,
  /** accel_rerank(): `query`, and documents as `texts`; accel_wait_ranking(). */
  ACCEL_REQUEST_RERANK = 3,
  /** accel_generate(): `prompt` or `ids`, or accel_generate_images(): `image_prompt`;
   *  accel_wait_generations(). */
  ACCEL_REQUEST_GENERATE = 4
} accel_request_kind;

/**
 * Called once when a request is done, however it ended: from the queue's thread, or from the thread
 * that cancels a request that still waits.  It may be called before the submission returns.  It
 * should not block, and must not submit or clean up.  Waiting for the ticket does not block from
 * then on; a thread that waits already may have the result a moment before the callback.
 */
typedef void (*accel_done_fn)(void *user);

/** One request.  Everything it points to is read during the submission, and may be freed after it. */
typedef struct accel_request {
  /** sizeof(accel_request) of the caller. */
  uint32_t size;
  /** Which of the fields below count. */
  accel_request_kind kind;
  /** Larger ones begin first; among equals earlier deadlines, then earlier submissions.  Those that
   *  have begun are not interrupted. */
  int32_t priority;
  /** Milliseconds from the submission.  A request that has not begun by then ends with
   *  ACCEL_ERROR_TIMEOUT, at the queue's next step.  0: none. */
  uint32_t deadline_ms;
  /** Called at the end; NULL: nobody is. */
  accel_done_fn done;
  /** First argument of `done`. */
  void *user;
  /** ACCEL_REQUEST_RUN: its inputs. */
  const accel_tensors *inputs;
  /** [n] texts to embed or to classify, or the documents to rank. */
  const char *const *texts;
  /** ACCEL_REQUEST_CLASSIFY: [n] second texts as accel_classify() takes them, or NULL. */
  const char *const *pairs;
  /** Number of texts, or of ids. */
  uint32_t n;
  /** ACCEL_REQUEST_RERANK: what the documents are to answer. */
  const char *query;
  /** ACCEL_REQUEST_GENERATE: the prompt; NULL: ids[n] is, as tokens. */
  const char *prompt;
  /** ACCEL_REQUEST_GENERATE: [n] tokens of the prompt, where `prompt` is NULL. */
  const int32_t *ids;
  /** Parameters of ACCEL_REQUEST_EMBED; NULL: the defaults. */
  const accel_embed_params *embed;
  /** Parameters of ACCEL_REQUEST_CLASSIFY; NULL: the defaults. */
  const accel_classify_params *classify;
  /** Parameters of ACCEL_REQUEST_RERANK; NULL: the defaults. */
  const accel_rerank_params *rerank;
  /** Parameters of ACCEL_REQUEST_GENERATE; NULL: the defaults. */
  const accel_generate_params *generate;
  /** ACCEL_REQUEST_GENERATE: a prompt about pictures, in the place of `prompt` and `ids`; NULL: there
   *  is none.  Its pictures are decoded during the submission. */
  const accel_image_prompt *image_prompt;
} accel_request;

/** A request of this kind: no priority, no deadline, all parameters at their defaults. */
ACCEL_API accel_request accel_request_default(accel_request_kind kind);

/**
 * Submits a request.  Texts are cut into tokens during the call, on the caller's thread, so that
 * wrong texts and parameters fail at once, as in the function that the kind names; what fails while
 * it runs comes when the ticket is waited for.
 *
 * @param out waited for with the function that the kind names, which alone frees it.
 * @return ACCEL_ERROR_QUEUE_FULL, at once, when as many requests wait as the queue has room for.
 *         ACCEL_ERROR_ARGUMENT: no such kind, or a field that the kind needs is NULL.
 */
ACCEL_API accel_status accel_submit_request(accel_queue *queue, const accel_request *request,
                                            accel_ticket **out);

/**
 * Asks for the end of a request.  One that waits ends at once; one that has begun leaves at the next
 * step of the queue, and where a run of the model serves no other request, that run is given up,
 * too.  It ends with ACCEL_ERROR_CANCELLED, or as if nothing had been asked when it is done
 * already.  Its ticket is waited for as ever.
 *
 * May be called from any thread, also while another thread waits for the ticket, but not after that
 * thread has taken the result.  NULL does nothing.
 */
ACCEL_API void accel_ticket_cancel(accel_ticket *ticket);

/** accel_wait() for tickets of ACCEL_REQUEST_EMBED and of accel_submit_texts(); a ticket of another
 *  kind is ACCEL_ERROR_ARGUMENT and stays valid.  Freed with accel_embeddings_free(). */
ACCEL_API accel_status accel_wait_embeddings(accel_ticket **ticket, int64_t timeout_ms,
                                             accel_embeddings **out);

/** The same for ACCEL_REQUEST_CLASSIFY.  Freed with accel_classifications_free(). */
ACCEL_API accel_status accel_wait_classifications(accel_ticket **ticket, int64_t timeout_ms,
                                                  accel_classifications **out);

/** The same for ACCEL_REQUEST_RERANK.  Freed with accel_ranking_free(). */
ACCEL_API accel_status accel_wait_ranking(accel_ticket **ticket, int64_t timeout_ms,
                                          accel_ranking **out);

/* ---- statistics ---------------------------------------------------------------------------- */

/** What a queue's generations have done since the endpoint was made. */
typedef struct accel_queue_stats {
  /** sizeof(accel_queue_stats) of the caller; then what was filled. */
  uint32_t size;
  /** Requests that wait. */
  uint32_t waiting;
  /** Tokens of the prompts of finished generations. */
  uint64_t prompt_tokens;
  /** Of these, tokens that were not read because they were kept of an earlier prompt. */
  uint64_t cached_tokens;
  /** Prompts that shared some. */
  uint64_t cache_hits;
  /** Prompts that are kept now. */
  uint64_t cache_prompts;
  /** Bytes of their keys and values, at most accel_init_params.prefix_cache_bytes. */
  uint64_t cache_bytes;
  /** Speculation: tokens that were guessed, and those of them that were right. */
  uint64_t draft_tokens;
  uint64_t accepted_tokens; /**< the right ones */
  /** Why prompts share nothing, a constant text; NULL: they do. */
  const char *no_cache;
} accel_queue_stats;

/** Fills `out`, whose size the caller has set.  May be called from any thread at any time. */
ACCEL_API accel_status accel_queue_statistics(accel_queue *queue, accel_queue_stats *out);

#ifdef __cplusplus
}
#endif

#endif
