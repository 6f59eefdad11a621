/* choose.c - candidates of a model and which is tried next (choose.h). */
#include "dispatch/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "dispatch/candidates_file.h"
#include "dispatch/precision.h"
#include "dispatch/stored.h"

const char *const accel__metric_names[ACCEL__METRIC_COUNT] = {"latency", "throughput", "memory",
                                                              "energy"};

accel_status accel__metric_of(const char *name, accel__metric *out) {
  *out = ACCEL__METRIC_LATENCY;
  if (!name || !*name) return ACCEL_OK;
  for (int m = 0; m < ACCEL__METRIC_COUNT; m++)
    if (!strcmp(name, accel__metric_names[m])) {
      *out = (accel__metric)m;
      return ACCEL_OK;
    }
  const char *near = accel__nearest(name, accel__metric_names, ACCEL__METRIC_COUNT);
  accel__fail(ACCEL_ERROR_ARGUMENT, "metric '%s' is unknown", name);
  return near ? accel__remedy(ACCEL_ERROR_ARGUMENT, "did you mean '%s'?", near)
              : accel__remedy(ACCEL_ERROR_ARGUMENT,
                              "metrics are latency, throughput, memory and energy");
}

/* ---- which is next ---- */

static bool is_better(const accel__figure *a, const accel__figure *b, bool more) {
  return more ? a->value > b->value : a->value < b->value;
}
static bool touch(const accel__figure *a, const accel__figure *b) {
  return a->low <= b->high && b->low <= a->high;
}
/* Is `a` as good as `b`, which is better?  Of what was measured the medians say so: they are apart
 * by less than machines drift. */
static bool is_as_good(const accel__figure *a, const accel__figure *b, bool more) {
  const double drift = 1.02;
  if (a->source != ACCEL__FIGURE_ROWS || b->source != ACCEL__FIGURE_ROWS) return touch(a, b);
  return more ? a->value * drift >= b->value : a->value <= b->value * drift;
}

/* The best of what was measured, and a prediction only where it is surely better than that. */
static uint32_t best_of(const accel__candidate *item, uint32_t n, bool more) {
  uint32_t best = UINT32_MAX;
  for (int s = ACCEL__FIGURE_ROWS; s <= ACCEL__FIGURE_PREDICTION; s++)
    for (uint32_t i = 0; i < n; i++) {
      const accel__figure *f = &item[i].figure, *b = best < n ? &item[best].figure : NULL;
      if (item[i].closed || (int)f->source != s) continue;
      if (!b || (is_better(f, b, more) && (f->source == b->source || !touch(f, b)))) best = i;
    }
  return best;
}

/* Of the other open candidates that have a figure, how many there are, and how many touch it. */
static uint32_t others(const accel__candidate *item, uint32_t n, uint32_t at, uint32_t *touching) {
  uint32_t known = 0;
  *touching = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (i == at || item[i].closed || !item[i].figure.source) continue;
    known++;
    *touching += touch(&item[i].figure, &item[at].figure);
  }
  return known;
}

uint32_t accel__choose(const accel__candidate *item, uint32_t n, bool more, accel__choosing *how) {
  const uint32_t best = best_of(item, n, more);
  uint32_t first = 0;
  while (first < n && (item[first].closed || !item[first].on_ladder)) first++;
  *how = ACCEL__CHOSEN_NONE;
  if (first == n && best == UINT32_MAX) return UINT32_MAX;
  *how = best == UINT32_MAX ? ACCEL__CHOSEN_NO_FIGURES : ACCEL__CHOSEN_UNKNOWN;
  if (best == UINT32_MAX || (first < n && !item[first].figure.source)) return first;
  const accel__figure *b = &item[best].figure, *f = first < n ? &item[first].figure : b;
  const bool rows = b->source == ACCEL__FIGURE_ROWS && f->source == ACCEL__FIGURE_ROWS;
  const bool stays = first < n && (first == best || is_as_good(f, b, more));
  uint32_t touching;
  const uint32_t known = others(item, n, best, &touching);
  const bool apart = first == best ? !touching : !stays;
  if (!known && stays)
    *how = ACCEL__CHOSEN_ALONE;
  else if (rows)
    *how = ACCEL__CHOSEN_ROWS;
  else
    *how = apart ? ACCEL__CHOSEN_PREDICTION : ACCEL__CHOSEN_TOUCHING;
  return stays ? first : best;
}

/* ---- what there is ---- */

static bool is_auto(const accel__place_request *request) {
  return request->precision && !strcmp(request->precision, "auto");
}

/* Does one of item[from, n) have the precision? */
static bool has_precision(const accel__candidates *all, uint32_t from, const char *precision) {
  for (uint32_t i = from; i < all->n; i++)
    if (!strcmp(all->item[i].precision, precision)) return true;
  return false;
}

static void add(accel__candidates *all, accel__device *device, const char *precision,
                bool on_ladder) {
  all->item[all->n++] = (accel__candidate){
      .device = device, .precision = precision, .on_ladder = on_ladder, .cosine = (double)NAN};
}

/* The precisions to try on a device for what was asked; "auto" begins with a quantised checkpoint's
 * own.  Under an accuracy bound the others follow, for what verdicts say of them. */
static void add_device(const accel_endpoint *ep, accel__device *device,
                       const accel__place_request *request, accel__candidates *all) {
  const uint32_t from = all->n;
  if (!is_auto(request)) {
    add(all, device, request->precision ? request->precision : accel__default_precision(ep), true);
    return;
  }
  if (ep->import) add(all, device, accel__stored_precision(ep), true);
  const char *const *ladder = accel__precision_ladder(&device->facts, request->bf16_only);
  for (uint32_t i = 0; ladder[i]; i++) add(all, device, ladder[i], true);
  for (uint32_t i = 0; request->min_cosine > 0 && i < accel__precision_count; i++)
    if (!has_precision(all, from, accel__precision_names[i]))
      add(all, device, accel__precision_names[i], false);
}

/* ---- what is known of it ---- */

static int bits_of(const char *precision) {
  return strstr(precision, "32")   ? 32
         : strstr(precision, "16") ? 16
         : strchr(precision, '8')  ? 8
                                   : 4;
}

/* reason NULL: there was no memory for it */
static void close_for(accel__candidate *c, const char *reason) {
  c->closed = true;
  c->reason = reason ? reason : "its goldens do not hold the accuracy bound";
}

/* The verdicts of its goldens beside the bound. */
static void apply_bound(accel_endpoint *ep, const accel__place_request *request,
                        const accel__known *known, accel__candidate *c) {
  const char *own = accel__default_precision(ep);
  const bool below = strcmp(c->precision, own) != 0 && bits_of(c->precision) <= bits_of(own);
  const bool fails = known && known->golden < 0;
  if (!is_auto(request) || !(request->min_cosine > 0)) {
    if (fails) c->figure = (accel__figure){0};
  } else if (fails) {
    close_for(c, "a golden fails here");
  } else if (below && (!known || known->golden <= 0 || isnan(known->cosine))) {
    close_for(c, "no verdict of this build on this device tells its accuracy: accel verify --all");
  } else if (below && known->cosine < request->min_cosine) {
    close_for(c, accel__arena_printf(&ep->arena, "its goldens give a cosine of %.6f here, below %g",
                                     known->cosine, request->min_cosine));
  }
}

/* What candidates_fn tells of the candidates. */
static accel_status ask(accel_endpoint *ep, const accel__place_request *request,
                        const accel__candidates *all, accel__candidates_file *file) {
  accel_placement_candidate *list = accel__arena_array(&ep->arena, all->n, sizeof *list);
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < all->n; i++)
    list[i] = (accel_placement_candidate){.device = all->item[i].device->info.name,
                                          .precision = all->item[i].precision,
                                          .source = "",
                                          .reason = "",
                                          .value = (double)NAN,
                                          .low = (double)NAN,
                                          .high = (double)NAN,
                                          .cosine = (double)NAN};
  char *text = request->candidates_fn(request->candidates_user, list, all->n);
  const accel_status status = accel__candidates_read(ep, text ? text : "", file);
  free(text);
  return status;
}

static accel_status read_figures(accel_endpoint *ep, const accel__place_request *request,
                                 const accel__candidates *all, accel__candidates_file *file) {
  uint64_t limit = 0;
  *file = (accel__candidates_file){0};
  if (ep->precision_profile)
    return accel__fail(ACCEL_ERROR_NOT_FOUND, "the precision profile says what to take");
  ACCEL_TRY(accel__context_memory_limit(ep->ctx, &limit));
  if (limit)
    return accel__fail(ACCEL_ERROR_NOT_FOUND,
                       "figures are of models without a memory limit, and here there is one");
  return request->candidates || !request->candidates_fn
             ? accel__candidates_read(ep, request->candidates, file)
             : ask(ep, request, all, file);
}

/* Figures and verdicts of all candidates; `why` when there are none. */
static accel_status learn(accel_endpoint *ep, const accel__place_request *request,
                          accel__candidates *all) {
  accel__candidates_file file;
  const accel_status status = read_figures(ep, request, all, &file);
  if (status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
  if (status != ACCEL_OK) {
    all->why = accel__arena_string(&ep->arena, accel__message());
    accel__clear_error();
    file = (accel__candidates_file){0};
  } else {
    all->why = file.notes;
    all->of = file.of[all->metric];
  }
  for (uint32_t i = 0; i < all->n; i++) {
    accel__candidate *c = &all->item[i];
    const accel__known *known = accel__candidates_find(&file, &c->device->info, c->precision);
    if (known) c->figure = known->figure[all->metric];
    if (known) c->cosine = known->cosine;
    apply_bound(ep, request, known, c);
  }
  return all->why ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__candidates_make(accel_endpoint *ep, const accel__choice *choice,
                                    const accel__place_request *request, accel__candidates *out) {
  *out = (accel__candidates){.metric = (accel__metric)request->metric,
                             .any_device = accel__equal_ignoring_case(request->device, "auto"),
                             .of = "",
                             .why = "",
                             .taken = UINT32_MAX};
  out->item = accel__arena_array(&ep->arena, choice->n * (accel__precision_count + (size_t)4),
                                 sizeof *out->item);
  if (!out->item) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < choice->n; i++) add_device(ep, choice->device[i], request, out);
  return out->n > 1 ? learn(ep, request, out) : ACCEL_OK;
}

/* ---- the walk ---- */

accel__candidate *accel__candidates_next(accel__candidates *all) {
  uint32_t from = 0, n = all->n;
  if (!all->any_device) { /* one device after the other */
    while (from < n && all->item[from].closed) from++;
    uint32_t end = from;
    while (end < n && all->item[end].device == all->item[from].device) end++;
    n = end - from;
  }
  const uint32_t at =
      n ? accel__choose(all->item + from, n, all->metric == ACCEL__METRIC_THROUGHPUT, &all->how)
        : UINT32_MAX;
  all->taken = at == UINT32_MAX ? at : from + at;
  return at == UINT32_MAX ? NULL : &all->item[all->taken];
}

void accel__candidates_close(accel__candidates *all, accel__candidate *candidate, bool whole_device,
                             const char *reason) {
  for (uint32_t i = 0; i < all->n; i++) {
    accel__candidate *c = &all->item[i];
    if (c->closed || (c != candidate && !(whole_device && c->device == candidate->device)))
      continue;
    c->closed = true;
    c->reason = reason;
  }
}

/* ---- the report ---- */

static const char *why_not(const accel__candidates *all, const accel__candidate *c) {
  const accel__candidate *taken = &all->item[all->taken];
  if (c == taken) return "";
  if (c->closed) return c->reason ? c->reason : "out of memory";
  if (all->how == ACCEL__CHOSEN_ROWS || all->how == ACCEL__CHOSEN_PREDICTION) {
    if (!c->figure.source) return "it has no figure";
    const bool more = all->metric == ACCEL__METRIC_THROUGHPUT;
    return is_as_good(&c->figure, &taken->figure, more) ? "as good as the one taken"
                                                        : "not the best";
  }
  return c->on_ladder ? "behind it on the ladder" : "not on the ladder";
}

static char *sentence(accel_endpoint *ep, const accel__candidates *all) {
  const char *metric = accel__metric_names[all->metric], *of = all->of;
  const accel__candidate *first = all->item;
  while (first < all->item + all->n - 1 && (first->closed || !first->on_ladder)) first++;
  switch (all->how) {
    case ACCEL__CHOSEN_ROWS:
    case ACCEL__CHOSEN_PREDICTION:
      return accel__arena_printf(&ep->arena, "the best of %u by %s as it was %s here%s%s", all->n,
                                 metric, all->how == ACCEL__CHOSEN_ROWS ? "measured" : "predicted",
                                 *of ? ": " : "", of);
    case ACCEL__CHOSEN_UNKNOWN:
      return accel__arena_printf(
          &ep->arena, "%s at %s, the ladder's first, has no figure of %s%s%s",
          first->device->info.name, first->precision, metric, *all->why ? "; " : "", all->why);
    case ACCEL__CHOSEN_ALONE:
      return accel__arena_printf(&ep->arena, "nothing but %s at %s has a figure of %s%s%s",
                                 first->device->info.name, first->precision, metric,
                                 *all->why ? "; " : "", all->why);
    case ACCEL__CHOSEN_TOUCHING:
      return accel__arena_printf(&ep->arena, "the intervals of predictions of %s touch", metric);
    default:
      return accel__arena_printf(&ep->arena, "no candidate has a figure of %s%s%s", metric,
                                 *all->why ? "; " : "", all->why);
  }
}

accel_status accel__candidates_report(accel_endpoint *ep, const accel__candidates *all) {
  static const char *const sources[] = {"", "rows", "prediction"};
  accel_placement_report *r = &ep->placement;
  r->metric = accel__metric_names[all->metric];
  if (all->n < 2) return ACCEL_OK;
  accel_placement_candidate *list = accel__arena_array(&ep->arena, all->n, sizeof *list);
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < all->n; i++) {
    const accel__candidate *c = &all->item[i];
    const accel__figure *f = &c->figure;
    const double none = (double)NAN;
    list[i] =
        (accel_placement_candidate){.device = accel__arena_string(&ep->arena, c->device->info.name),
                                    .precision = c->precision,
                                    .source = sources[f->source],
                                    .reason = why_not(all, c),
                                    .value = f->source ? f->value : none,
                                    .low = f->source ? f->low : none,
                                    .high = f->source ? f->high : none,
                                    .cosine = c->cosine};
    if (!list[i].device) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  r->chosen_by = all->how == ACCEL__CHOSEN_ROWS         ? "rows"
                 : all->how == ACCEL__CHOSEN_PREDICTION ? "prediction"
                                                        : "ladder";
  r->chosen_why = sentence(ep, all);
  r->candidate = list;
  r->n_candidate = all->n;
  return r->chosen_why ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}
