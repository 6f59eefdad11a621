/* rank_order.h - what rank 0 says to the others, as bytes (private to dispatch/rank*.c). */
#ifndef ACCEL_DISPATCH_RANK_ORDER_H
#define ACCEL_DISPATCH_RANK_ORDER_H

#include "core/text.h"
#include "dispatch/ranks.h"

typedef enum accel__order_verb {
  ACCEL__ORDER_OPEN = 1,        /* a model with parameters of accel_init */
  ACCEL__ORDER_CLOSE,           /* an endpoint */
  ACCEL__ORDER_RUN,             /* accel_plugin.handler */
  ACCEL__ORDER_SESSION_NEW,     /* of an endpoint */
  ACCEL__ORDER_SESSION_FREE,    /* */
  ACCEL__ORDER_SESSION_CONTROL, /* a verb without bytes */
  ACCEL__ORDER_LEAVE            /* nothing more comes */
} accel__order_verb;

/* Written by one build and read by the same: plain values one after the other. */
typedef struct accel__order {
  accel__buffer bytes; /* while it is written */
  const char *at;      /* while it is read: what is left */
  size_t left;
  bool broken; /* more was read than there was */
} accel__order;

void accel__order_number(accel__order *o, int64_t value);
void accel__order_bytes(accel__order *o, const void *data, uint64_t n);
void accel__order_text(accel__order *o, const char *text); /* NULL, too */
int64_t accel__order_get(accel__order *o);
/* Points into the order; NULL: it has fewer. */
const void *accel__order_take(accel__order *o, uint64_t n);
const char *accel__order_take_text(accel__order *o);

/* A group and its endpoints. */
struct accel__ranks {
  const accel_comm_transport *transport;
  accel_comm *comm;
  /* what a transport between devices is carried over; NULL: not needed */
  const accel_comm_transport *over;
  accel_comm *over_comm;
  uint32_t rank, world;
  pthread_mutex_t lock; /* one order at a time; rank 0 */
  bool lost;            /* the group is gone */
  bool following;       /* a rank behind 0, in accel__ranks_follow */
  /* In the order that runs now another rank has failed, and the others wait no more. */
  bool stopped;
  int64_t next_endpoint, next_session;
  struct accel__ranked *endpoints; /* wrapped, newest first */
};

/* Sends an order to all, or receives one into *o, which owns it. */
accel_status accel__ranks_tell(accel__ranks *r, const accel__order *o);
accel_status accel__ranks_hear(accel__ranks *r, accel__order *o);
/* How all ranks fared with the order: `mine` with `message`, or the first failure of another rank,
 * whose message *text (of `bytes`) is then. */
int32_t accel__ranks_agree(accel__ranks *r, int32_t mine, const char *message, char *text,
                           size_t bytes);
/* Are these numbers the same on all ranks? */
bool accel__ranks_same(accel__ranks *r, uint64_t fingerprint);
accel_status accel__ranks_lost(const accel__ranks *r);

/* A session of a wrapped endpoint, by its number. */
typedef struct accel__ranked_session {
  struct accel__ranked *of;
  struct accel__ranked_session *next;
  accel_plugin_session *own;
  int64_t number;
} accel__ranked_session;
/* An endpoint whose plugin is this table. */
typedef struct accel__ranked {
  accel_plugin table;
  accel__ranks *ranks;
  struct accel__ranked *next;
  accel_endpoint *ep;
  const accel_plugin *plugin; /* the device's own, and its endpoint */
  accel_plugin_endpoint *handle;
  accel__ranked_session *sessions;
  int64_t number;
  bool open; /* the other ranks have it, too */
} accel__ranked;
accel__ranked *accel__ranked_of(const accel_endpoint *ep);
/* Ranks behind 0: an order about an endpoint. */
accel_status accel__ranked_follow(accel__ranked *d, int64_t verb, accel__order *o);

#endif
