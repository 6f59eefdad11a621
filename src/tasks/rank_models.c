/* rank_models.c - models of a group of ranks: opened on all of them, and what the others do while
 * rank 0 works. */
#include "tasks/rank_models.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "dispatch/rank_order.h"
#include "tasks/open.h"

/* ---- opening ---- */

/* What all ranks must have in common: the model as it was read, and its precision. */
static uint64_t fingerprint(const accel_endpoint *ep) {
  char *config = ep->config.root ? cJSON_PrintUnformatted(ep->config.root) : NULL;
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const uint64_t facts[] = {config ? accel__hash(config, strlen(config), 1) : 0, ep->seed,
                            ep->checkpoint != NULL, p->n_entry, p->n_weight};
  cJSON_free(config);
  return accel__hash(ep->placed.precision.name, strlen(ep->placed.precision.name),
                     accel__hash(facts, sizeof facts, 2));
}

static void put_params(accel__order *o, const accel_endpoint *ep, const accel_init_params *p) {
  const bool automatic = p->precision && !strcmp(p->precision, "auto");
  accel__order_text(o, p->device);
  accel__order_text(o, automatic ? ep->placed.precision.name : p->precision);
  accel__order_text(o, p->task);
  accel__order_text(o, p->architecture);
  accel__order_text(o, p->kv_cache);
  accel__order_text(o, p->precision_profile);
  accel__order_text(o, p->decoder);
  accel__order_text(o, p->variant);
  accel__order_number(o, p->without_safety_checker);
  accel__order_number(o, p->random_weights);
  accel__order_number(o, (int64_t)p->seed);
  accel__order_number(o, p->n_adapters);
  for (uint32_t i = 0; i < p->n_adapters; i++) {
    accel__order_text(o, p->adapters[i].path);
    accel__order_bytes(o, &p->adapters[i].scale, sizeof p->adapters[i].scale);
  }
}

/* *adapters is the caller's to free. */
static void take_params(accel__order *o, accel_init_params *p, accel_adapter_spec **adapters) {
  p->device = accel__order_take_text(o);
  p->precision = accel__order_take_text(o);
  p->task = accel__order_take_text(o);
  p->architecture = accel__order_take_text(o);
  p->kv_cache = accel__order_take_text(o);
  p->precision_profile = accel__order_take_text(o);
  p->decoder = accel__order_take_text(o);
  p->variant = accel__order_take_text(o);
  p->without_safety_checker = (uint32_t)accel__order_get(o);
  p->random_weights = (uint32_t)accel__order_get(o);
  p->seed = (uint64_t)accel__order_get(o);
  p->n_adapters = (uint32_t)accel__order_get(o);
  p->candidates = "";
  *adapters = p->n_adapters ? calloc(p->n_adapters, sizeof **adapters) : NULL;
  o->broken |= p->n_adapters && !*adapters;
  for (uint32_t i = 0; i < p->n_adapters && !o->broken; i++) {
    (*adapters)[i].path = accel__order_take_text(o);
    const void *scale = accel__order_take(o, sizeof(*adapters)[i].scale);
    if (scale) memcpy(&(*adapters)[i].scale, scale, sizeof(*adapters)[i].scale);
  }
  p->adapters = *adapters;
}

/* Did all ranks open it, and the same? */
static accel_status agree_on(accel__ranks *r, accel_endpoint *ep, accel_status mine) {
  char text[512];
  int32_t all = accel__ranks_agree(r, (int32_t)mine, accel__message(), text, sizeof text);
  if (r->lost) return accel__ranks_lost(r);
  if (all && mine == ACCEL_OK)
    return accel__fail((accel_status)all, "another rank cannot open the model: %s", text);
  if (all) return mine;
  if (accel__ranks_same(r, fingerprint(ep))) return ACCEL_OK;
  if (r->lost) return accel__ranks_lost(r);
  return accel__fail(ACCEL_ERROR_ARGUMENT,
                     "the ranks have opened different models, or one at different precisions");
}

/* An endpoint that all ranks have. */
static accel_status enter(accel__ranks *r, accel_endpoint *ep, accel_status mine) {
  const int64_t number = r->next_endpoint++;
  ACCEL_TRY(agree_on(r, ep, mine));
  accel__ranked *d = accel__ranked_of(ep);
  d->number = number;
  d->open = true;
  return ACCEL_OK;
}

accel_status accel__ranks_open(accel_endpoint *ep, const char *model,
                               const accel_init_params *params) {
  accel__ranks *r = ep->ctx->ranks;
  accel__order o = {.left = 0};
  accel__order_number(&o, ACCEL__ORDER_OPEN);
  accel__order_text(&o, model);
  put_params(&o, ep, params);
  pthread_mutex_lock(&r->lock);
  accel_status status = accel__ranks_tell(r, &o);
  if (status == ACCEL_OK) status = enter(r, ep, ACCEL_OK);
  pthread_mutex_unlock(&r->lock);
  accel__buffer_free(&o.bytes);
  return status;
}

/* ---- following ---- */

/* Of several devices of one plugin and kind, named without a number ("cuda"), each rank has its
 * own. */
static accel_status choose_own(accel *ctx, const char **device) {
  accel__hardware *hardware;
  accel__choice choice = {.n = 0};
  uint32_t alike = 0;
  if (!*device || strpbrk(*device, ":,+")) return ACCEL_OK;
  ACCEL_TRY(accel__context_hardware(ctx, &hardware));
  const accel_status status = accel__hardware_choose(hardware, *device, &choice);
  while (status == ACCEL_OK && alike < choice.n &&
         choice.device[alike]->plugin == choice.device[0]->plugin &&
         choice.device[alike]->facts.type == choice.device[0]->facts.type)
    alike++;
  if (alike > 1) *device = choice.device[ctx->ranks->rank % alike]->info.name;
  accel__choice_free(&choice);
  return status;
}

static accel_status follow_open(accel *ctx, accel__order *o) {
  accel_init_params params = {.size = sizeof params};
  accel_adapter_spec *adapters = NULL;
  accel_endpoint *ep = NULL;
  const char *model = accel__order_take_text(o);
  take_params(o, &params, &adapters);
  accel_status status =
      o->broken || !model
          ? accel__fail(ACCEL_ERROR_INTERNAL, "rank 0 says what this build does not know")
          : choose_own(ctx, &params.device);
  if (status == ACCEL_OK) status = accel__open(ctx, model, &params, &ep);
  free(adapters);
  const accel_status own = status;
  status = enter(ctx->ranks, ep, status);
  if (status != ACCEL_OK && own == ACCEL_OK) accel__close(&ep);
  if (ctx->ranks->lost) return status;
  if (status != ACCEL_OK)
    accel__logf(&ctx->log, ACCEL_LOG_INFO, "rank %u: %s", ctx->ranks->rank, accel__message());
  accel__clear_error();
  return ACCEL_OK;
}

static accel__ranked *find_endpoint(accel__ranks *r, int64_t number) {
  accel__ranked *d = r->endpoints;
  while (d && d->number != number) d = d->next;
  return d;
}

/* One order; *end: it was the last. */
static accel_status follow_one(accel *ctx, accel__order *o, bool *end) {
  const int64_t verb = accel__order_get(o);
  *end = verb == ACCEL__ORDER_LEAVE;
  if (*end) return ACCEL_OK;
  if (verb == ACCEL__ORDER_OPEN) return follow_open(ctx, o);
  accel__ranked *d = find_endpoint(ctx->ranks, accel__order_get(o));
  if (!d || o->broken)
    return accel__fail(ACCEL_ERROR_INTERNAL, "rank 0 names an endpoint that is not here");
  if (verb != ACCEL__ORDER_CLOSE) return accel__ranked_follow(d, verb, o);
  accel_endpoint *ep = d->ep;
  accel__close(&ep);
  return ACCEL_OK;
}

accel_status accel__ranks_follow(accel *ctx) {
  accel__ranks *r = ctx->ranks;
  bool end = false;
  accel_status status = ACCEL_OK;
  if (!r || r->rank == 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "only ranks behind 0 follow, and this is rank %u of %u",
                       accel__ranks_rank(r), accel__ranks_world(r));
  r->following = true;
  while (!end && status == ACCEL_OK) {
    accel__order o;
    status = accel__ranks_hear(r, &o);
    if (status != ACCEL_OK) break;
    status = follow_one(ctx, &o, &end);
    accel__buffer_free(&o.bytes);
  }
  r->following = false;
  if (status != ACCEL_OK && !r->lost) r->transport->abort(r->comm);
  if (status != ACCEL_OK) r->lost = true;
  return status;
}
