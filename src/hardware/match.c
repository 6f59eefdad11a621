/* match.c - from a user's device string to devices, and the sentences for what is passed over. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/hardware_internal.h"
#include "registry/registry.h"

enum { MAX_WANTED = 1024, MAX_ELEMENTS = 16 };

typedef struct wish { /* one element of the chain, "rocm:1" */
  char text[128];
  char head[64];    /* lower case, aliases resolved to the device stem: "rocm" */
  const char *tail; /* after the first colon, lower case; NULL none */
} wish;

typedef struct answer {
  accel__hardware *h;
  accel__arena *arena;
  accel__device **device;
  const char **reason;
  size_t n, n_capacity, n_reasons, reasons_capacity;
  const char *remedy; /* of the last thing that is not there */
} answer;

/* ---- order ---- */

/* accel_plugin_device.route, whose 0 comes last. */
static int64_t route_rank(const accel__entry *e) {
  return e->device.facts.route ? e->device.facts.route : INT64_MAX;
}

static int type_rank(const accel__entry *e) {
  /* by accel_plugin_device_type: discrete (and the CPU) first, software last */
  static const int rank[] = {3, 0, 0, 1, 4, 3};
  uint32_t type = e->device.facts.type;
  return type < sizeof rank / sizeof *rank ? rank[type] : 3;
}

/* Within one plugin: discrete, integrated, other, software; then by number. */
static int compare_within(const void *a, const void *b) {
  const accel__entry *x = *(accel__entry *const *)a, *y = *(accel__entry *const *)b;
  if (type_rank(x) != type_rank(y)) return type_rank(x) - type_rank(y);
  return x->number < y->number ? -1 : x->number > y->number;
}

/* Across plugins: real before software, discrete before integrated, then by route. */
static int compare_across(const void *a, const void *b) {
  const accel__entry *x = *(accel__entry *const *)a, *y = *(accel__entry *const *)b;
  if (type_rank(x) != type_rank(y)) return type_rank(x) - type_rank(y);
  if (route_rank(x) != route_rank(y)) return route_rank(x) < route_rank(y) ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

/* ---- collecting ---- */

static accel_status say(answer *a, const char *reason) {
  if (!reason) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < a->n_reasons; i++)
    if (!strcmp(a->reason[i], reason)) return ACCEL_OK;
  ACCEL_PUSH(a->arena, a->reason, a->n_reasons, a->reasons_capacity, reason);
  return ACCEL_OK;
}

/* Takes the device, or says why not. */
static accel_status take(answer *a, accel__entry *e) {
  for (size_t i = 0; i < a->n; i++)
    if (a->device[i] == &e->device) return ACCEL_OK;
  if (e->device.info.reason[0]) {
    a->remedy = e->device.info.remedy;
    return say(a,
               accel__arena_printf(a->arena, "%s: %s", e->device.info.name, e->device.info.reason));
  }
  accel_status status = accel__open_plugin(a->h, e->file);
  if (status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
  if (status != ACCEL_OK) {
    status = say(a, accel__arena_printf(a->arena, "%s: %s", e->device.info.name, accel__message()));
    accel__clear_error();
    return status;
  }
  ACCEL_PUSH(a->arena, a->device, a->n, a->n_capacity, &e->device);
  return ACCEL_OK;
}

/* Why the files whose devices would be called `stem` gave none; false when there is no such
 * file. */
static accel_status say_files(answer *a, const char *stem, bool *any) {
  *any = false;
  for (size_t i = 0; i < a->h->n_files; i++) {
    const accel__plugin_file *f = a->h->file[i];
    if (!accel__key_fits(f->key, stem)) continue;
    if (f->verdict == ACCEL__VERDICT_GOOD && f->n > 0) continue;
    *any = true;
    const char *why =
        f->verdict == ACCEL__VERDICT_GOOD ? "the plugin is loaded and found no device" : f->why;
    ACCEL_TRY(say(a, accel__arena_printf(a->arena, "%s: %s: %s", stem, f->path, why)));
  }
  return ACCEL_OK;
}

static accel_status say_absent(answer *a, const wish *w) {
  bool any = false;
  accel__absence absence;
  const char *hardware = accel__hardware_of(w->head);
  ACCEL_TRY(say_files(a, w->head, &any));
  if (!accel__registry_hardware_name(w->head)) {
    if (any) return ACCEL_OK;
    return say(a, accel__arena_printf(a->arena, "%s: no plugin of this name", w->text));
  }
  ACCEL_TRY(accel__ask_vendors(a->h, false));
  ACCEL_TRY(accel__explain_absence(a->h, hardware, &absence));
  a->remedy = absence.remedy;
  return say(a, accel__arena_printf(a->arena, "%s: %s", w->text, absence.reason));
}

/* ---- the kinds of wishes ---- */

static bool is_number(const char *text) {
  return *text && strlen(text) < 6 && strspn(text, "0123456789") == strlen(text);
}

static bool contains(const char *text, const char *part) {
  size_t n = strlen(part);
  for (; *text; text++)
    if (!strncasecmp(text, part, n)) return true;
  return n == 0;
}

/* What a tail may mean, the first that fits a device: an id alone, then its name, then the driver
 * (of two for one processor, as Intel's and PoCL's for OpenCL). */
enum { BY_ID, BY_NAME, BY_DRIVER, WAYS };

static bool tail_fits(const accel__entry *e, const char *tail, int way) {
  char address[64];
  accel__normal_address(address, sizeof address, tail);
  if (way == BY_ID)
    return !strcmp(e->device.info.id, address) ||
           accel__equal_ignoring_case(e->device.facts.id, tail);
  if (is_number(tail)) return (uint32_t)strtoul(tail, NULL, 10) == e->number;
  if (way == BY_DRIVER) return contains(e->device.info.driver, tail);
  return contains(e->device.info.description, tail) ||
         accel__equal_ignoring_case(e->device.info.arch, tail);
}

static accel_status gather_stem(answer *a, const char *stem, accel__entry ***out, size_t *n) {
  size_t capacity = 0;
  *n = 0;
  *out = NULL;
  for (size_t i = 0; i < a->h->n_entries; i++)
    if (!strcmp(a->h->entry[i]->stem, stem))
      ACCEL_PUSH(a->arena, *out, *n, capacity, a->h->entry[i]);
  if (*n) qsort(*out, *n, sizeof **out, compare_within);
  return ACCEL_OK;
}

/* rocm, rocm:1, rocm:0000:03:00.0, vulkan:llvmpipe, opencl:portable */
static accel_status want_plugin(answer *a, const wish *w) {
  accel__entry **found;
  size_t n, taken = 0;
  ACCEL_TRY(accel__know_named(a->h, w->head));
  /* AMD cards behind a CUDA layer */
  if (!strcmp(w->head, "rocm")) ACCEL_TRY(accel__know_named(a->h, "cuda"));
  if (!strcmp(w->head, "qualcomm")) ACCEL_TRY(accel__know_named(a->h, "onnxruntime"));
  ACCEL_TRY(gather_stem(a, w->head, &found, &n));
  if (n == 0) return say_absent(a, w);
  if (!w->tail) {
    for (size_t i = 0; i < n; i++) ACCEL_TRY(take(a, found[i]));
    return ACCEL_OK;
  }
  for (int way = BY_ID; way < WAYS && !taken; way++)
    for (size_t i = 0; i < n; i++)
      if (tail_fits(found[i], w->tail, way)) {
        ACCEL_TRY(take(a, found[i]));
        taken++;
      }
  if (taken) return ACCEL_OK;
  accel__buffer names = {0};
  for (size_t i = 0; i < n; i++)
    accel__buffer_printf(&names, "%s%s (%s)", i ? ", " : "", found[i]->device.info.name,
                         found[i]->device.info.description);
  accel_status status = accel__buffer_status(&names);
  if (status == ACCEL_OK)
    status = say(a, accel__arena_printf(a->arena, "%s: no such device; there %s %s", w->text,
                                        n == 1 ? "is" : "are", names.data));
  accel__buffer_free(&names);
  return status;
}

static bool may_be_chosen(const accel__hardware *h, const accel__entry *e) {
  if (!strcmp(e->stem, "cpu")) return false;
  if (e->device.facts.type != ACCEL_PLUGIN_DEVICE_SOFTWARE &&
      e->device.facts.type != ACCEL_PLUGIN_DEVICE_CPU)
    return true;
  return h->allow_software && e->device.facts.route; /* without: by name alone */
}

/* All devices that may be chosen for the user, best first: every card's best route, then the other
 * routes. */
static accel_status gather_gpus(answer *a, accel__entry ***out, size_t *n, size_t *n_cards) {
  accel__entry **all = NULL, **routes = NULL;
  size_t n_all = 0, all_capacity = 0, capacity = 0, n_routes = 0, routes_capacity = 0;
  *out = NULL;
  *n = 0;
  ACCEL_TRY(accel__know_all(a->h));
  for (size_t i = 0; i < a->h->n_entries; i++)
    if (may_be_chosen(a->h, a->h->entry[i]))
      ACCEL_PUSH(a->arena, all, n_all, all_capacity, a->h->entry[i]);
  if (n_all) qsort(all, n_all, sizeof *all, compare_across);
  for (size_t i = 0; i < n_all; i++) {
    bool seen = false;
    for (size_t j = 0; j < *n && !seen; j++)
      seen = all[i]->device.card && (*out)[j]->device.card == all[i]->device.card &&
             !(*out)[j]->device.info.reason[0];
    if (seen)
      ACCEL_PUSH(a->arena, routes, n_routes, routes_capacity, all[i]);
    else
      ACCEL_PUSH(a->arena, *out, *n, capacity, all[i]);
  }
  *n_cards = *n;
  for (size_t i = 0; i < n_routes; i++) ACCEL_PUSH(a->arena, *out, *n, capacity, routes[i]);
  return ACCEL_OK;
}

static accel_status want_gpu(answer *a, const wish *w) {
  accel__entry **found;
  size_t n, n_cards, usable = 0;
  ACCEL_TRY(gather_gpus(a, &found, &n, &n_cards));
  if (!w->tail) {
    size_t before = a->n;
    for (size_t i = 0; i < n; i++) ACCEL_TRY(take(a, found[i]));
    if (a->n > before) return ACCEL_OK;
    return say(a, accel__arena_string(a->arena,
                                      "gpu: no usable GPU; accel detect says why for each kind"));
  }
  if (!is_number(w->tail))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "device '%s': gpu takes a number, as in gpu:0",
                       w->text);
  size_t wanted = strtoul(w->tail, NULL, 10);
  for (size_t i = 0; i < n_cards; i++) {
    if (found[i]->device.info.reason[0]) continue;
    if (usable++ != wanted) continue;
    ACCEL_TRY(take(a, found[i]));
    for (size_t j = n_cards; j < n; j++)
      if (found[i]->device.card && found[j]->device.card == found[i]->device.card)
        ACCEL_TRY(take(a, found[j]));
    return ACCEL_OK;
  }
  return say(a, accel__arena_printf(a->arena, "%s: there %s %zu usable GPU%s", w->text,
                                    usable == 1 ? "is" : "are", usable, usable == 1 ? "" : "s"));
}

static accel_status want_auto(answer *a, const wish *w) {
  accel__entry **found;
  size_t n, n_cards;
  if (w->tail)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "device '%s': auto takes nothing after it", w->text);
  ACCEL_TRY(gather_gpus(a, &found, &n, &n_cards));
  for (size_t i = 0; i < n; i++) ACCEL_TRY(take(a, found[i]));
  for (size_t i = 0; i < a->h->n_files; i++) { /* plugins that are there and could not serve */
    const accel__plugin_file *f = a->h->file[i];
    if (f->verdict != ACCEL__VERDICT_GOOD && f->verdict != ACCEL__VERDICT_ABSENT &&
        f->verdict != ACCEL__VERDICT_SHADOWED)
      ACCEL_TRY(say(a, accel__arena_printf(a->arena, "%s: %s: %s", f->key, f->path, f->why)));
    else if (f->verdict == ACCEL__VERDICT_GOOD && f->n == 0)
      ACCEL_TRY(say(a, accel__arena_printf(a->arena, "%s: the plugin is loaded and found no device",
                                           f->name)));
  }
  accel__entry **cpu;
  ACCEL_TRY(gather_stem(a, "cpu", &cpu, &n));
  for (size_t i = 0; i < n; i++) ACCEL_TRY(take(a, cpu[i]));
  return ACCEL_OK;
}

static accel_status want_pci(answer *a, const wish *w) {
  accel__entry **found;
  size_t n, n_cards, seen = 0;
  char address[64];
  if (!w->tail)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "device '%s': pci needs an address, as in pci:0000:03:00.0", w->text);
  accel__normal_address(address, sizeof address, w->tail);
  ACCEL_TRY(gather_gpus(a, &found, &n, &n_cards));
  for (size_t i = 0; i < n; i++) {
    if (strcmp(found[i]->device.info.id, address)) continue;
    ACCEL_TRY(take(a, found[i]));
    seen++;
  }
  return seen ? ACCEL_OK
              : say(a, accel__arena_printf(a->arena, "%s: no device at this address", w->text));
}

/* ---- reading the string ---- */

static void suggest(accel__hardware *h, const char *head) {
  const char *known[64] = {"auto", "gpu",    "pci",    "cpu",      "rocm",
                           "cuda", "opencl", "vulkan", "reference"};
  size_t n = 9;
  for (size_t i = 0; i < h->n_files && n < 64; i++)
    if (*h->file[i]->key) known[n++] = h->file[i]->key;
  const char *near = accel__nearest(head, known, n);
  char hint[160];
  if (near) /* else what a card or its maker is called: adreno, arc, mali */
    snprintf(hint, sizeof hint, " (did you mean '%s'?)", near);
  else
    snprintf(hint, sizeof hint, "; part of a device's name goes behind its plugin, as in vulkan:%s",
             head);
  accel__fail(ACCEL_ERROR_ARGUMENT,
              "device '%s' is not known%s; a device is auto, gpu[:N], pci:ADDRESS, cpu, rocm[:N], "
              "cuda[:N], opencl[:N], vulkan[:N] or the name of a plugin, or several joined by '+'",
              head, hint);
}

bool accel__is_plugin_name(const accel__hardware *h, const char *head) {
  for (size_t i = 0; i < h->n_files; i++)
    if (*head &&
        (!strcmp(h->file[i]->key, head) || (h->file[i]->known && !strcmp(h->file[i]->name, head))))
      return true;
  /* a plugin of every build: when it is gone, that is the news */
  return !strcmp(head, "reference");
}

static accel_status read_wish(accel__hardware *h, const char *text, size_t n, wish *w) {
  while (n && isspace((unsigned char)*text)) text++, n--;
  while (n && isspace((unsigned char)text[n - 1])) n--;
  if (n == 0 || n >= sizeof w->text)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "device '%.*s': %s", (int)(n < 80 ? n : 80), text,
                       n ? "the name is too long" : "an empty name");
  accel__clean_copy(w->text, sizeof w->text, text, n);
  for (char *c = w->text; *c; c++) *c = (char)tolower((unsigned char)*c);
  char *colon = strchr(w->text, ':');
  snprintf(w->head, sizeof w->head, "%.*s",
           (int)(colon ? colon - w->text : (ptrdiff_t)sizeof w->head - 1), w->text);
  w->tail = colon && colon[1] ? colon + 1 : NULL;
  if (colon && !w->tail)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "device '%s': nothing after the colon", w->text);
  if (!strcmp(w->head, "all"))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "device '%s': all opens a model on several devices at once, and is not "
                       "for what takes one; name a device, or auto",
                       w->text);
  if (!strcmp(w->head, "auto") || !strcmp(w->head, "gpu") || !strcmp(w->head, "pci"))
    return ACCEL_OK;
  const char *hardware = accel__registry_hardware_name(w->head);
  if (hardware) {
    snprintf(w->head, sizeof w->head, "%s", accel__stem_of(hardware));
    return ACCEL_OK;
  }
  ACCEL_TRY(accel__search_plugins(h));
  if (accel__is_plugin_name(h, w->head)) return ACCEL_OK;
  suggest(h, w->head);
  return ACCEL_ERROR_ARGUMENT;
}

static accel_status follow(answer *a, const wish *w) {
  if (!strcmp(w->head, "auto")) return want_auto(a, w);
  if (!strcmp(w->head, "gpu")) return want_gpu(a, w);
  if (!strcmp(w->head, "pci")) return want_pci(a, w);
  return want_plugin(a, w);
}

/* One model over the first device of each name. */
static accel_status want_parts(answer *a, const accel__parts_spelling *s) {
  accel__device_parts parts = {.n = s->n};
  accel__device *device;
  for (uint32_t i = 0; i < s->n; i++) {
    answer one = {.h = a->h, .arena = a->arena};
    wish w;
    ACCEL_TRY(read_wish(a->h, s->part[i].name, s->part[i].n_name, &w));
    ACCEL_TRY(follow(&one, &w));
    for (size_t k = 0; !one.n && k < one.n_reasons; k++) ACCEL_TRY(say(a, one.reason[k]));
    if (!one.n) {
      a->remedy = one.remedy;
      return ACCEL_OK;
    }
    parts.device[i] = one.device[0];
    parts.first[i] = s->part[i].first;
    parts.last[i] = s->part[i].last;
  }
  ACCEL_TRY(accel__composite_of(a->h, &parts, &device));
  ACCEL_PUSH(a->arena, a->device, a->n, a->n_capacity, device);
  return ACCEL_OK;
}

static accel_status follow_element(answer *a, const char *text, size_t n) {
  accel__parts_spelling parts;
  wish w;
  ACCEL_TRY(accel__parts_parse(text, n, &parts));
  if (parts.n) return want_parts(a, &parts);
  ACCEL_TRY(read_wish(a->h, text, n, &w));
  return follow(a, &w);
}

/* What could be used instead, for a demand that cannot be met; the processor last. */
static void list_usable(answer *a, accel__buffer *out) {
  if (accel__know_all(a->h) != ACCEL_OK) return;
  for (int cpu = 0; cpu < 2; cpu++)
    for (size_t i = 0; i < a->h->n_entries; i++) {
      const accel__entry *e = a->h->entry[i];
      if (e->device.info.reason[0] || e->device.facts.type == ACCEL_PLUGIN_DEVICE_SOFTWARE ||
          cpu != !strcmp(e->stem, "cpu"))
        continue;
      accel__buffer_printf(out, "%s%s", out->n ? ", " : "", e->device.info.name);
      if (!cpu) accel__buffer_printf(out, " (%s)", e->device.info.description);
    }
}

static accel_status nothing_serves(answer *a, const char *wanted) {
  accel__buffer all = {0}, usable = {0};
  for (size_t i = 0; i < a->n_reasons; i++)
    accel__buffer_printf(&all, "%s%s", i ? "; " : "", a->reason[i]);
  list_usable(a, &usable);
  accel_status status = accel__fail(ACCEL_ERROR_DEVICE_UNAVAILABLE, "device '%s' cannot serve: %s",
                                    wanted, all.n ? all.data : "no device");
  const char *first = accel__or_empty(a->remedy);
  accel__remedy(status, "%s%sdevices here: %s", first, *first ? "; " : "",
                usable.n ? usable.data : "none");
  accel__buffer_free(&all);
  accel__buffer_free(&usable);
  return status;
}

/* Each card by its best route. */
static accel_status want_cards(answer *a) {
  accel__entry **found;
  size_t n, n_cards;
  ACCEL_TRY(gather_gpus(a, &found, &n, &n_cards));
  for (size_t i = 0; i < n_cards; i++) ACCEL_TRY(take(a, found[i]));
  return ACCEL_OK;
}

/* What auto would try, but a card once. */
static accel_status want_every(answer *a) {
  accel__entry **found;
  size_t n;
  ACCEL_TRY(want_cards(a));
  ACCEL_TRY(gather_stem(a, "cpu", &found, &n));
  for (size_t i = 0; i < n; i++) ACCEL_TRY(take(a, found[i]));
  return ACCEL_OK;
}

static accel_status want_named(answer *a, const char *wanted, const char *text, size_t n) {
  const size_t before = a->n;
  wish w;
  ACCEL_TRY(read_wish(a->h, text, n, &w));
  if (!strcmp(w.head, "auto"))
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "device '%s': behind all: there are names of devices, as in all:cpu+vulkan:0", wanted);
  ACCEL_TRY(!strcmp(w.head, "gpu") && !w.tail ? want_cards(a) : follow(a, &w));
  return a->n > before ? ACCEL_OK : nothing_serves(a, wanted);
}

static accel_status choose_all(answer *a, const char *wanted) {
  if (strlen(wanted) >= MAX_WANTED || strchr(wanted, ',') || strchr(wanted, '='))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "device '%.80s': all stands alone, or with names joined by '+', as in "
                       "all:cpu+vulkan:0",
                       wanted);
  const char *at = strchr(wanted, ':');
  if (!at) {
    ACCEL_TRY(want_every(a));
    return a->n ? ACCEL_OK : nothing_serves(a, wanted);
  }
  do {
    const size_t n = strcspn(++at, "+");
    ACCEL_TRY(want_named(a, wanted, at, n));
    at += n;
  } while (*at);
  return ACCEL_OK;
}

bool accel__wants_all(const char *wanted) {
  return wanted && !strncasecmp(wanted, "all", 3) && (!wanted[3] || strchr(":,+=", wanted[3]));
}

static accel_status choose(answer *a, const char *wanted) {
  size_t n_elements = 0;
  if (strlen(wanted) >= MAX_WANTED)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "device: the name is longer than %d bytes",
                       MAX_WANTED);
  for (const char *at = wanted;; at++) {
    size_t n = strcspn(at, ",");
    if (++n_elements > MAX_ELEMENTS)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "device '%s': more than %d names", wanted,
                         MAX_ELEMENTS);
    ACCEL_TRY(follow_element(a, at, n));
    at += n;
    if (!*at) break;
  }
  return a->n ? ACCEL_OK : nothing_serves(a, wanted);
}

static accel_status answer_with(accel__hardware *h, accel_status (*how)(answer *, const char *),
                                const char *wanted, accel__choice *out) {
  memset(out, 0, sizeof *out);
  pthread_mutex_lock(&h->lock);
  answer a = {.h = h, .arena = &out->arena};
  accel_status status = how(&a, wanted);
  out->n = status == ACCEL_OK ? (uint32_t)a.n : 0;
  out->device = a.device;
  out->n_reasons = (uint32_t)a.n_reasons;
  out->reason = a.reason;
  pthread_mutex_unlock(&h->lock);
  if (status == ACCEL_ERROR_OUT_OF_MEMORY) accel__choice_free(out);
  return status;
}

accel_status accel__hardware_choose(accel__hardware *h, const char *wanted, accel__choice *out) {
  return answer_with(h, choose, wanted && *wanted ? wanted : "cpu", out);
}

accel_status accel__hardware_choose_all(accel__hardware *h, const char *wanted,
                                        accel__choice *out) {
  return answer_with(h, choose_all, wanted, out);
}

void accel__choice_free(accel__choice *choice) {
  accel__arena_free(&choice->arena);
  memset(choice, 0, sizeof *choice);
}
