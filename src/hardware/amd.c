/* amd.c - one answer about AMD cards from five sources: HIP, HSA, sysfs, rocm-smi, a CUDA layer.
 *
 * The first source that lists a device is believed; what it does not say is filled in from the
 * others by PCI address, and where they disagree a sentence says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "hardware/hardware_internal.h"

/* ---- visibility ---- */

/* One filter: keeps of order[0..*n) what `list` names, in its order; a number or uuid that does not
 * exist ends the list. */
static void apply_list(const char *list, const accel__gpu *gpu, uint32_t *order, uint32_t *n) {
  uint32_t kept[ACCEL__MAX_DEVICES], n_kept = 0;
  if (!list || !*list) return;
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    char token[64];
    uint32_t found = *n;
    snprintf(token, sizeof token, "%.*s", (int)strcspn(at, ","), at);
    bool number = *token && strspn(token, "0123456789") == strlen(token);
    if (number && strtoul(token, NULL, 10) < *n) found = (uint32_t)strtoul(token, NULL, 10);
    for (uint32_t i = 0; !number && i < *n; i++)
      if (*token && *gpu[order[i]].uuid && !strncasecmp(gpu[order[i]].uuid, token, strlen(token)))
        found = i;
    if (found == *n || n_kept == ACCEL__MAX_DEVICES) break;
    kept[n_kept++] = order[found];
  }
  memcpy(order, kept, n_kept * sizeof *kept);
  *n = n_kept;
}

void accel__amd_hide(accel__gpu *gpu, uint32_t n) {
  uint32_t order[ACCEL__MAX_DEVICES], left = n < ACCEL__MAX_DEVICES ? n : ACCEL__MAX_DEVICES;
  for (uint32_t i = 0; i < left; i++) order[i] = i;
  apply_list(accel__env_raw("ROCR_VISIBLE_DEVICES"), gpu, order, &left);
  apply_list(accel__env_raw("GPU_DEVICE_ORDINAL"), gpu, order, &left);
  const char *hip = accel__env_raw("HIP_VISIBLE_DEVICES");
  apply_list(hip && *hip ? hip : accel__env_raw("CUDA_VISIBLE_DEVICES"), gpu, order, &left);
  for (uint32_t i = 0; i < n; i++) gpu[i].hidden = 1;
  for (uint32_t i = 0; i < left; i++) gpu[order[i]].hidden = 0;
}

/* ---- rocm-smi ---- */

static const char *smi_text(const accel__json *card, const char *const *keys) {
  for (; *keys; keys++) ACCEL_JSON_EACH(item, card)
  if (item->string && accel__equal_ignoring_case(item->string, *keys) && cJSON_IsString(item) &&
      item->valuestring && strcmp(item->valuestring, "N/A"))
    return item->valuestring;
  return "";
}
#define SMI(card, ...) smi_text((card), (const char *const[]){__VA_ARGS__, NULL})

static accel_status read_smi_card(accel__arena *arena, const accel__json *card, accel__gpu *g) {
  char clean[128], address[64];
  *g = (accel__gpu){.platform = "rocm-smi", .driver = "", .type = ""};
  accel__clean_copy(clean, sizeof clean, SMI(card, "Card series", "Device Name", "Card model"),
                    sizeof clean);
  g->name = accel__arena_string(arena, clean);
  accel__clean_copy(clean, sizeof clean, SMI(card, "GFX Version"), 32);
  g->arch = accel__arena_string(arena, clean);
  accel__clean_copy(clean, sizeof clean, SMI(card, "PCI Bus"), 48);
  accel__normal_address(address, sizeof address, clean);
  g->id = accel__arena_string(arena, address);
  const char *unique = SMI(card, "Unique ID");
  accel__clean_copy(clean, sizeof clean, !strncmp(unique, "0x", 2) ? unique + 2 : unique, 32);
  g->uuid = *clean ? accel__arena_printf(arena, "GPU-%s", clean) : "";
  g->vram_total = strtoull(SMI(card, "VRAM Total Memory (B)"), NULL, 10);
  g->vram_used = strtoull(SMI(card, "VRAM Total Used Memory (B)"), NULL, 10);
  g->gtt_total = strtoull(SMI(card, "GTT Total Memory (B)"), NULL, 10);
  g->gtt_used = strtoull(SMI(card, "GTT Total Used Memory (B)"), NULL, 10);
  if (accel__gfx_is_integrated(accel__or_empty(g->arch))) g->type = "integrated";
  return g->name && g->arch && g->id && g->uuid ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status read_smi(accel__hardware *h, const char *text, accel__source *s) {
  accel__json_file json = {0};
  const char *start = strchr(text, '{'); /* warnings may come first */
  accel_status status = start ? accel__json_parse(start, strlen(start), "rocm-smi's answer", &json)
                              : ACCEL_ERROR_FORMAT;
  if (status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
  if (status != ACCEL_OK) {
    accel__clear_error();
    s->error = "rocm-smi printed no JSON";
    s->remedy = "run rocm-smi --json by hand to see what is wrong with it";
    return ACCEL_OK;
  }
  ACCEL_ALLOC(s->gpu, &h->arena, ACCEL__MAX_DEVICES);
  ACCEL_JSON_EACH(card, json.root) {
    char clean[64];
    if (card->string && accel__equal_ignoring_case(card->string, "system")) {
      accel__clean_copy(clean, sizeof clean, SMI(card, "Driver version"), sizeof clean);
      s->driver = accel__arena_string(&h->arena, clean);
    } else if (card->string && !strncasecmp(card->string, "card", 4) && s->n < ACCEL__MAX_DEVICES &&
               status == ACCEL_OK) {
      status = read_smi_card(&h->arena, card, &s->gpu[s->n++]);
    }
  }
  accel__json_free(&json);
  accel__amd_hide(s->gpu, s->n);
  return s->driver ? status : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status judge_smi(accel__hardware *h, const accel__spawned *run, accel__source *s) {
  if (run->timed_out) {
    ACCEL_FORMAT(s->error, &h->arena, "rocm-smi hung for %lld s and was stopped",
                 (long long)(run->waited_ms + 500) / 1000);
    s->remedy = "the driver may be stuck: see dmesg";
    return ACCEL_OK;
  }
  if (run->signal || run->exit_code > 0) {
    ACCEL_FORMAT(s->error, &h->arena, "rocm-smi ended with %s %d",
                 run->signal ? "signal" : "exit code", run->signal ? run->signal : run->exit_code);
    return ACCEL_OK;
  }
  return read_smi(h, run->out.n ? run->out.data : "", s);
}

accel_status accel__amd_smi(accel__hardware *h, accel__vendors *v) {
  accel__source *s = &v->source[ACCEL__SOURCE_SMI];
  const char *rocm = accel__env("ROCM_PATH");
  const char *programs[] = {
      "rocm-smi", accel__arena_printf(&h->arena, "%s/bin/rocm-smi", rocm ? rocm : "/opt/rocm")};
  s->asked = true;
  for (size_t i = 0; i < 2; i++) {
    accel__spawned run;
    if (!programs[i]) return ACCEL_ERROR_OUT_OF_MEMORY;
    const char *const argv[] = {
        programs[i], "--showproductname", "--showbus",           "--showmeminfo", "vram",
        "gtt",       "--showuniqueid",    "--showdriverversion", "--json",        NULL};
    accel_status status = accel__spawn(argv, h->timeout_ms, &run);
    if (status == ACCEL_OK) {
      s->library = programs[i];
      status = judge_smi(h, &run, s);
      accel__spawned_free(&run);
      return status;
    }
    accel__spawned_free(&run);
    if (status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
    s->error = accel__or_empty(accel__arena_string(&h->arena, accel__message()));
    accel__clear_error();
    if (status != ACCEL_ERROR_NOT_FOUND) break;
  }
  s->remedy = "install rocm-smi (part of ROCm)";
  return ACCEL_OK;
}

/* ---- the conclusion ---- */

static const accel__gpu *find_by_id(const accel__source *s, const char *id) {
  for (uint32_t i = 0; *id && i < s->n; i++)
    if (!strcmp(s->gpu[i].id, id)) return &s->gpu[i];
  return NULL;
}

/* Where addresses are missing, the only card of one source is the only card of the other. */
static const accel__gpu *same_card(const accel__source *s, const accel__gpu *g, uint32_t n) {
  const accel__gpu *found = find_by_id(s, g->id);
  if (found) return found;
  return s->n == 1 && n == 1 && (!*g->id || !*s->gpu[0].id) ? &s->gpu[0] : NULL;
}

#define FILL_TEXT(field) \
  if (!*g->field && *from->field) g->field = from->field
#define FILL_NUMBER(field) \
  if (!g->field) g->field = from->field

static void fill_gaps(accel__gpu *g, const accel__gpu *from) {
  FILL_TEXT(name);
  FILL_TEXT(arch);
  FILL_TEXT(id);
  FILL_TEXT(uuid);
  FILL_TEXT(type);
  FILL_NUMBER(vram_total);
  FILL_NUMBER(vram_used);
  FILL_NUMBER(gtt_total);
  FILL_NUMBER(gtt_used);
  FILL_NUMBER(units);
  FILL_NUMBER(wave);
}

typedef struct sentences {
  accel__arena *arena;
  const char **item;
  size_t n, capacity;
} sentences;

static accel_status compare(sentences *out, const accel__source *won, const accel__source *other) {
  if (won->error[0] || !won->n || other->error[0] || !other->asked) return ACCEL_OK;
  const char *text;
  if (other->n != won->n) {
    ACCEL_FORMAT(text, out->arena, "%s lists %u device%s, %s lists %u", won->name, won->n,
                 won->n == 1 ? "" : "s", other->name, other->n);
    ACCEL_PUSH(out->arena, out->item, out->n, out->capacity, text);
  }
  for (uint32_t i = 0; i < won->n; i++) {
    const accel__gpu *a = &won->gpu[i], *b = same_card(other, a, won->n);
    if (!b) continue;
    if (*a->arch && *b->arch && strcmp(a->arch, b->arch)) {
      ACCEL_FORMAT(text, out->arena, "%s: %s says %s, %s says %s", *a->id ? a->id : a->name,
                   won->name, a->arch, other->name, b->arch);
      ACCEL_PUSH(out->arena, out->item, out->n, out->capacity, text);
    }
    uint64_t more = a->vram_total > b->vram_total ? a->vram_total : b->vram_total,
             less = a->vram_total + b->vram_total - more;
    if (less && more - less > more / 50) { /* rounding and reserved pages differ by less */
      ACCEL_FORMAT(text, out->arena, "%s: %s says %llu MiB of memory, %s says %llu MiB",
                   *a->id ? a->id : a->name, won->name, (unsigned long long)(a->vram_total >> 20),
                   other->name, (unsigned long long)(b->vram_total >> 20));
      ACCEL_PUSH(out->arena, out->item, out->n, out->capacity, text);
    }
  }
  return ACCEL_OK;
}

accel_status accel__amd_conclude(accel__hardware *h, accel__vendors *v) {
  sentences differences = {.arena = &h->arena};
  for (int i = ACCEL__SOURCE_HIP; i <= ACCEL__SOURCE_CUDA_AMD && v->amd_source < 0; i++)
    if (v->source[i].n) v->amd_source = i;
  /* HIP's number, where ROCm's is not written down */
  if (!*v->amd_version) v->amd_version = v->source[ACCEL__SOURCE_HIP].version;
  if (v->amd_source < 0) return ACCEL_OK;
  const accel__source *won = &v->source[v->amd_source];
  ACCEL_ALLOC(v->amd, &h->arena, won->n);
  for (uint32_t i = 0; i < won->n; i++) {
    accel__gpu *g = &v->amd[v->amd_n];
    if (won->gpu[i].hidden) continue;
    *g = won->gpu[i];
    for (int other = ACCEL__SOURCE_HIP; other <= ACCEL__SOURCE_CUDA_AMD; other++) {
      const accel__gpu *same =
          other == v->amd_source ? NULL : same_card(&v->source[other], &won->gpu[i], won->n);
      if (same) fill_gaps(g, same);
    }
    if (!*g->type) g->type = accel__gfx_is_integrated(g->arch) ? "integrated" : "discrete";
    v->amd_n++;
  }
  for (int other = v->amd_source + 1; other <= ACCEL__SOURCE_CUDA_AMD; other++)
    ACCEL_TRY(compare(&differences, won, &v->source[other]));
  if (v->amd_source == ACCEL__SOURCE_HIP) /* HIP does not tell the gfx version: HSA speaks for it */
    for (int other = ACCEL__SOURCE_SYSFS; other <= ACCEL__SOURCE_SMI; other++)
      ACCEL_TRY(compare(&differences, &v->source[ACCEL__SOURCE_HSA], &v->source[other]));
  v->difference = differences.item;
  v->n_differences = (uint32_t)differences.n;
  return ACCEL_OK;
}
