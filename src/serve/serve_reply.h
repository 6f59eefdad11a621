/* serve_reply.h - answers that are longer than a cJSON tree should be, and what routes of texts have
 * in common. */
#ifndef ACCEL_SERVE_REPLY_H
#define ACCEL_SERVE_REPLY_H

#include <stdio.h>

#include "serve/serve_fields.h"

/* An answer that is written as text. */
typedef struct serve_reply {
  FILE *to;
  char *text;
  size_t n;
} serve_reply;

/* false: out of memory, which has been answered. */
bool reply_begin(serve_request *request, serve_reply *reply);
void reply_end(serve_request *request, serve_reply *reply, const char *type);
/* `prefix`, "rerank-", and what no other answer has; returns `into`. */
enum { SERVE_ID = 64 };
const char *reply_id(const char *prefix, char into[SERVE_ID]);
/* A number with all of its digits: cJSON's own have up to two too few.  NaN and infinity: null. */
cJSON *exact_number(double value);
void add_exact(cJSON *object, const char *name, double value);
/* JSON: [0.25,...] with as many digits as a float has. */
void reply_floats(FILE *to, const float *values, size_t n);

/* The model of the member "model", which may be of any task; without it the first one that serves
 * one of `tasks`, a list closed by NULL.  NULL: an error has been answered. */
const serve_model *fields_model(serve_fields *f, const char *const *tasks);
/* Refuses the adapter of a model, for a route that can not run with one. */
void fields_no_adapter(serve_fields *f, const serve_model *model);

/* What a text route has done, for the headers x-compute-type, -tokens and -characters and
 * x-total-time, which TEI has, too, and for /metrics. */
typedef struct serve_work {
  const serve_model *model;
  uint64_t tokens, characters;
} serve_work;
void work_count(serve_request *request, const serve_work *work);
/* Code points of n texts. */
uint64_t count_characters(const char *const *texts, uint32_t n);

/* How texts that are too long are treated: TEI's truncate and truncation_direction. */
typedef struct serve_cutting {
  bool truncate, left;
} serve_cutting;
serve_cutting fields_cutting(serve_fields *f);
/* `cut` texts were cut at their ends: true when that was asked for, else it has been answered. */
bool cutting_allowed(serve_fields *f, const serve_cutting *how, uint32_t cut, const char *name,
                     const serve_model *model);

/* Texts through the queue of a classifier; wait with nothing, free with
 * accel_classifications_free().  `member` is where the texts are from.  NULL: an error has been
 * answered. */
accel_classifications *classify_texts(serve_fields *f, const serve_model *model, const char *member,
                                      const char *const *texts, const char *const *pairs,
                                      uint32_t n, const accel_classify_params *how,
                                      const serve_cutting *cutting);
/* [{"label", "score"}, ...] of item i. */
cJSON *label_scores(const accel_classifications *found, uint32_t i);

/* accel_generate_params.on_token of a call that the queue does not take: ends it once the client has
 * left.  user: the serve_request. */
int serve_stop_when_gone(void *user, const accel_token_event *event);

/* One request to the queue of a model, to its end: afterwards the accel_wait_...() that goes with
 * its kind answers at once.  An error has been answered when it returns false. */
bool serve_queued(serve_request *request, const serve_model *model, accel_request *what,
                  accel_ticket **ticket);

#endif
