/**
 * @file accel.h
 * libaccel runs Hugging Face models straight from their directories, on whatever hardware the
 * machine has.  This is the one header that programs include.
 *
 *     accel *ctx;
 *     accel_create(NULL, &ctx);
 *
 *     accel_init_params how = accel_init_params_default();
 *     how.device = "auto";
 *     accel_endpoint *embedder;
 *     accel_init(ctx, "sentence-transformers/all-MiniLM-L6-v2", &how, &embedder);
 *
 *     accel_embeddings *found;
 *     accel_embed(embedder, texts, text_count, &found);
 *     use(found->data, found->dim);  // float [text_count, found->dim]
 *     puts(accel_placement(embedder)->label);
 *
 *     accel_embeddings_free(&found);
 *     accel_cleanup(&embedder);
 *     accel_destroy(&ctx);
 *
 * Rules that hold for every function
 *
 *  - **Errors.**  A function returns accel_status: ACCEL_OK (0) or a negative code.  On failure
 *    accel_last_error() has this thread's message with its chain of causes, and accel_last_remedy()
 *    what to do about it; outputs are NULL or 0, nothing is leaked, and objects are as they were.
 *    The codes that any call can return are described at accel_status; each function lists the
 *    others with their conditions.
 *  - **Honesty.**  Nothing is simulated: a result is computed, or it is an error.  Nothing is
 *    printed, no signal is handled, no environment variable is set, no network is used, and no
 *    code from a model's directory runs.
 *  - **Arguments.**  Pointers must not be NULL unless their description says what NULL means.
 *    Strings are UTF-8; U+0000 inside of a text is written as the two bytes C0 80.  Arrays are
 *    row-major.  An argument is read during the call, and may be freed after it unless its
 *    description says else.
 *  - **Parameter structs** begin with `size`, so that they can grow: get one from its _default()
 *    function, then change what is needed.  NULL means all defaults.
 *  - **Results** belong to the caller, who frees them with the _free() function of their type;
 *    `char *` results with accel_string_free().  Pointers inside of a result live as long as it.
 *    Every _free(), _close(), accel_cleanup() and accel_destroy() takes a pointer to the pointer,
 *    sets it to NULL, and accepts a pointer to NULL.
 *  - **Threads.**  A context, an endpoint, a queue, a tokenizer and a template may be used from
 *    many threads at once.  A session or chat does one call at a time; a second one waits.  Making
 *    and ending an object must not overlap its use.
 */
#ifndef ACCEL_ACCEL_H
#define ACCEL_ACCEL_H

#include "accel/base.h"             /* version, status, contexts, tensors */
#include "accel/devices.h"          /* detection, devices in hand */
#include "accel/models.h"           /* registry, what fits, cache */
#include "accel/inference.h"        /* endpoints, runs, queue, profile, proof */
#include "accel/data_parallel.h"    /* devices that share an endpoint's work */
#include "accel/text_tasks.h"       /* tokenizer, templates, embeddings, classification ... */
#include "accel/media_tasks.h"      /* pictures and sounds */
#include "accel/image_generation.h" /* pictures from texts */
#include "accel/forecast.h"         /* time series */
#include "accel/text_to_speech.h"   /* speech from texts */
#include "accel/generate.h"         /* text generation, translation, summaries */
#include "accel/tools.h"            /* tool calls in generated texts */
#include "accel/chat.h"             /* sessions and conversations */
#include "accel/rag.h"              /* answers from documents */
#include "accel/requests.h"         /* requests with priorities, deadlines and cancelling */
#include "accel/pool.h"             /* several models under one memory budget */

#endif
