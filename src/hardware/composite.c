/* composite.c - a device that stands for several, over which one model is placed. */
#include <string.h>

#include "hardware/hardware_internal.h"

static bool same_parts(const accel__device_parts *a, const accel__device_parts *b) {
  bool same = a->n == b->n;
  for (uint32_t i = 0; same && i < a->n; i++)
    same = a->device[i] == b->device[i] && a->first[i] == b->first[i] && a->last[i] == b->last[i];
  return same;
}

/* What all parts can; a processor only where all are. */
static accel_plugin_device common_facts(const accel__device_parts *parts) {
  accel_plugin_device facts = {.size = sizeof facts,
                               .type = parts->device[0]->facts.type,
                               .flags = parts->device[0]->facts.flags};
  for (uint32_t i = 1; i < parts->n; i++) {
    const accel_plugin_device *f = &parts->device[i]->facts;
    if (f->type != facts.type) facts.type = ACCEL_PLUGIN_DEVICE_OTHER;
    facts.flags &= f->flags;
  }
  return facts;
}

/* "a+b" of one text a part; a text that all have is written once. */
static const char *join(accel__arena *arena, const char *const *text, uint32_t n) {
  accel__buffer b = {0};
  bool same = true;
  for (uint32_t i = 1; i < n; i++) same &= !strcmp(text[i], text[0]);
  for (uint32_t i = 0; i < (same ? 1 : n); i++)
    accel__buffer_printf(&b, "%s%s", i ? "+" : "", text[i]);
  const char *copy = b.failed ? NULL : accel__arena_string(arena, b.data ? b.data : "");
  accel__buffer_free(&b);
  return copy;
}

static const char *name_of(accel__arena *arena, const accel__device_parts *parts) {
  accel__buffer b = {0};
  for (uint32_t i = 0; i < parts->n; i++) {
    accel__buffer_printf(&b, "%s%s", i ? "+" : "", parts->device[i]->info.name);
    if (parts->first[i] >= 0) accel__buffer_printf(&b, "=%d-%d", parts->first[i], parts->last[i]);
  }
  const char *copy = b.failed ? NULL : accel__arena_string(arena, b.data);
  accel__buffer_free(&b);
  return copy;
}

static accel_status fill_info(accel__arena *arena, const accel__device_parts *parts,
                              accel_device_info *info) {
  const char *hardware[ACCEL__MAX_PARTS], *plugin[ACCEL__MAX_PARTS], *kind[ACCEL__MAX_PARTS],
      *text[ACCEL__MAX_PARTS];
  for (uint32_t i = 0; i < parts->n; i++) {
    const accel_device_info *one = &parts->device[i]->info;
    hardware[i] = one->hardware;
    plugin[i] = one->plugin;
    kind[i] = one->implementation_type;
    text[i] = one->description;
  }
  *info = (accel_device_info){.name = name_of(arena, parts),
                              .hardware = join(arena, hardware, parts->n),
                              .plugin = join(arena, plugin, parts->n),
                              .implementation_type = join(arena, kind, parts->n),
                              .description = join(arena, text, parts->n),
                              .arch = "",
                              .driver = "",
                              .id = "",
                              .type = "other",
                              .compiled = 1,
                              .loaded = 1,
                              .found = 1,
                              .tested = -1,
                              .reason = "",
                              .remedy = ""};
  return info->name && info->hardware && info->plugin && info->implementation_type &&
                 info->description
             ? ACCEL_OK
             : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__composite_of(accel__hardware *h, const accel__device_parts *parts,
                                 accel__device **out) {
  for (size_t i = 0; i < h->n_composites; i++)
    if (same_parts(h->composite[i]->parts, parts)) {
      *out = h->composite[i];
      return ACCEL_OK;
    }
  accel__device *d;
  accel__device_parts *copy;
  ACCEL_ALLOC(d, &h->arena, 1);
  ACCEL_ALLOC(copy, &h->arena, 1);
  *copy = *parts;
  *d = (accel__device){.plugin_path = "", .facts = common_facts(parts), .parts = copy};
  ACCEL_TRY(fill_info(&h->arena, parts, &d->info));
  ACCEL_PUSH(&h->arena, h->composite, h->n_composites, h->composites_capacity, d);
  *out = d;
  return ACCEL_OK;
}
