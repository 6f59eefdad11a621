/* amd_sysfs.c - AMD cards as the kernel shows them: KFD's topology (/sys/class/kfd), DRM cards
 * (/sys/class/drm), device files.
 *
 * KFD node properties (simd_count, gfx_target_version, location_id ...) and the mem_info_* files
 * are documented in the Linux kernel's amdgpu and amdkfd sources.  All paths lie under h->root, so
 * that tests can build trees of their own. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "hardware/hardware_internal.h"

enum { TEXT = 4096, MAX_CARDS = 64 };

/* The start of a small file, NUL-terminated, without the last newline; false when it cannot be
 * read. */
static bool slurp(char out[TEXT], const char *format, ...) ACCEL_PRINTF(2, 3);
static bool slurp(char out[TEXT], const char *format, ...) {
  char path[1024];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(path, sizeof path, format, args);
  va_end(args);
  out[0] = 0;
  if (length < 0 || length >= (int)sizeof path) return false;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  size_t n = 0;
  for (ssize_t got = 1; got > 0 && n<TEXT - 1; n += got> 0 ? (size_t)got : 0)
    got = read(fd, out + n, TEXT - 1 - n);
  close(fd);
  out[n] = 0;
  if (n && out[n - 1] == '\n') out[n - 1] = 0;
  return true;
}

/* The number after `key` at the start of a line of "key value" lines; 0 when it is not there. */
static uint64_t property(const char *text, const char *key) {
  size_t n = strlen(key);
  for (const char *line = text; line && *line;
       line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
    if (!strncmp(line, key, n) && line[n] == ' ') return strtoull(line + n + 1, NULL, 10);
  return 0;
}

static uint64_t number_file(const char *directory, const char *name) {
  char text[TEXT];
  return slurp(text, "%s/%s", directory, name) ? strtoull(text, NULL, 0) : 0;
}

/* ---- DRM: one directory a card ---- */

typedef struct drm_card {
  char directory[512]; /* .../card0/device */
  char address[48];
  accel__gpu memory; /* vram_*, gtt_* */
  char name[96];
  bool used;
} drm_card;

static bool is_card(const char *name, const char *stem) {
  size_t n = strlen(stem);
  /* not card0-HDMI-A-1 */
  return !strncmp(name, stem, n) && name[n] && strspn(name + n, "0123456789") == strlen(name + n);
}

static void card_address(const char *directory, char *out, size_t n) {
  char text[TEXT];
  *out = 0;
  if (!slurp(text, "%s/uevent", directory)) return;
  for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
    if (!strncmp(line, "PCI_SLOT_NAME=", 14)) {
      char slot[48];
      snprintf(slot, sizeof slot, "%.*s", (int)strcspn(line + 14, "\n"), line + 14);
      accel__normal_address(out, n, slot);
    }
}

static void card_memory(const char *directory, accel__gpu *g) {
  g->vram_total = number_file(directory, "mem_info_vram_total");
  g->vram_used = number_file(directory, "mem_info_vram_used");
  g->gtt_total = number_file(directory, "mem_info_gtt_total");
  g->gtt_used = number_file(directory, "mem_info_gtt_used");
}

/* AMD's cards; the number of them. */
static uint32_t list_cards(const accel__hardware *h, drm_card cards[MAX_CARDS]) {
  accel__arena arena = {0};
  char **names = NULL, folder[512];
  size_t n = 0;
  uint32_t found = 0;
  snprintf(folder, sizeof folder, "%s/sys/class/drm", h->root);
  if (accel__is_directory(folder) &&
      accel__list_directory(folder, &arena, &names, &n) != ACCEL_OK) {
    accel__clear_error();
    n = 0;
  }
  for (size_t i = 0; i < n && found < MAX_CARDS; i++) {
    drm_card *c = &cards[found];
    if (!is_card(names[i], "card")) continue;
    memset(c, 0, sizeof *c);
    if (snprintf(c->directory, sizeof c->directory, "%s/%s/device", folder, names[i]) >=
        (int)sizeof c->directory)
      continue;
    if (number_file(c->directory, "vendor") != 0x1002) continue;
    char text[TEXT];
    card_address(c->directory, c->address, sizeof c->address);
    card_memory(c->directory, &c->memory);
    if (slurp(text, "%s/product_name", c->directory))
      accel__clean_copy(c->name, sizeof c->name, text, sizeof text);
    found++;
  }
  accel__arena_free(&arena);
  return found;
}

bool accel__amd_memory(const accel__hardware *h, const char *address, accel__gpu *out) {
  drm_card *cards = calloc(MAX_CARDS, sizeof *cards);
  bool found = false;
  if (!cards) return false;
  uint32_t n = list_cards(h, cards);
  for (uint32_t i = 0; i < n && !found; i++) {
    found = *address && !strcmp(cards[i].address, address);
    if (found) *out = cards[i].memory;
  }
  free(cards);
  return found;
}

/* ---- KFD: one directory a node, CPUs among them ---- */

/* 90010 -> gfx90a: major, minor, stepping; the last two in hexadecimal. */
static const char *gfx_name(accel__arena *arena, uint64_t version) {
  if (!version) return "";
  return accel__arena_printf(arena, "gfx%u%x%x", (unsigned)(version / 10000),
                             (unsigned)(version / 100 % 100), (unsigned)(version % 100));
}

/* Known APUs of LLVM's AMDGPU processor table; MI300A is told from MI300X by its CPU cores, not by
 * its number. */
bool accel__gfx_is_integrated(const char *arch) {
  static const char *const apus[] = {"gfx902",  "gfx909",  "gfx90c",  "gfx1013",
                                     "gfx1033", "gfx1035", "gfx1036", "gfx1103",
                                     "gfx1150", "gfx1151", "gfx1152", "gfx1153"};
  for (size_t i = 0; i < sizeof apus / sizeof *apus; i++)
    if (!strcmp(arch, apus[i])) return true;
  return false;
}

static uint64_t node_vram(const char *node) {
  uint64_t total = 0;
  for (int bank = 0; bank < 16; bank++) {
    char text[TEXT];
    if (!slurp(text, "%s/mem_banks/%d/properties", node, bank)) break;
    uint64_t heap = property(text, "heap_type");
    /* frame buffer, seen by the host or not */
    if (heap == 1 || heap == 2) total += property(text, "size_in_bytes");
  }
  return total;
}

static accel_status read_node(accel__arena *arena, const char *node, drm_card *cards,
                              uint32_t n_cards, accel__gpu *g, bool *is_gpu) {
  char text[TEXT], name[TEXT], clean[96];
  *is_gpu = slurp(text, "%s/properties", node) && property(text, "simd_count") > 0;
  if (!*is_gpu) return ACCEL_OK;
  uint64_t location = property(text, "location_id"), per_cu = property(text, "simd_per_cu"),
           unique = property(text, "unique_id");
  *g = (accel__gpu){.name = "", .uuid = "", .platform = "KFD", .driver = ""};
  g->arch = gfx_name(arena, property(text, "gfx_target_version"));
  ACCEL_FORMAT(g->id, arena, "%04x:%02x:%02x.%x", (unsigned)property(text, "domain") & 0xffff,
               (unsigned)(location >> 8 & 255), (unsigned)(location >> 3 & 31),
               (unsigned)(location & 7));
  if (unique) ACCEL_FORMAT(g->uuid, arena, "GPU-%016llx", (unsigned long long)unique);
  g->units = per_cu ? (uint32_t)(property(text, "simd_count") / per_cu) : 0;
  g->wave = (uint32_t)property(text, "wave_front_size");
  g->vram_total = node_vram(node);
  for (uint32_t i = 0; i < n_cards; i++) {
    if (strcmp(cards[i].address, g->id)) continue;
    cards[i].used = true;
    g->gtt_total = cards[i].memory.gtt_total;
    g->gtt_used = cards[i].memory.gtt_used;
    g->vram_used = cards[i].memory.vram_used;
    if (cards[i].memory.vram_total) g->vram_total = cards[i].memory.vram_total;
    if (cards[i].name[0]) g->name = accel__arena_string(arena, cards[i].name);
  }
  if (g->name && !*g->name && slurp(name, "%s/name", node)) { /* the chip's code name */
    accel__clean_copy(clean, sizeof clean, name, sizeof name);
    g->name = accel__arena_string(arena, clean);
  }
  g->type =
      property(text, "cpu_cores_count") > 0 || accel__gfx_is_integrated(accel__or_empty(g->arch))
          ? "integrated"
          : "discrete";
  return g->name && g->arch ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status read_topology(accel__hardware *h, accel__source *s, drm_card *cards,
                                  uint32_t n_cards) {
  enum { MAX_NODES = 128 };
  for (int i = 0; i < MAX_NODES && s->n < MAX_CARDS; i++) {
    char node[512];
    bool is_gpu = false;
    snprintf(node, sizeof node, "%s/sys/class/kfd/kfd/topology/nodes/%d", h->root, i);
    if (!accel__is_directory(node)) break; /* numbered without gaps */
    ACCEL_TRY(read_node(&h->arena, node, cards, n_cards, &s->gpu[s->n], &is_gpu));
    s->n += is_gpu;
  }
  return ACCEL_OK;
}

/* Cards that the graphics driver has and KFD has not: too old, or KFD is off. */
static accel_status add_others(accel__hardware *h, accel__source *s, const drm_card *cards,
                               uint32_t n_cards) {
  for (uint32_t i = 0; i < n_cards && s->n < MAX_CARDS; i++) {
    if (cards[i].used) continue;
    accel__gpu *g = &s->gpu[s->n++];
    *g = cards[i].memory;
    g->name =
        accel__arena_string(&h->arena, cards[i].name[0] ? cards[i].name : "AMD graphics card");
    g->id = accel__arena_string(&h->arena, cards[i].address);
    g->arch = g->uuid = g->driver = g->type = "";
    g->platform = "DRM only: KFD does not offer it for computing";
    if (!g->name || !g->id) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  return ACCEL_OK;
}

static accel_status read_versions(accel__hardware *h, accel__vendors *v) {
  char text[TEXT], clean[64], folder[512];
  snprintf(folder, sizeof folder, "%s/sys/module/amdgpu", h->root);
  if (slurp(text, "%s/version", folder)) {
    accel__clean_copy(clean, sizeof clean, text, sizeof text);
    ACCEL_FORMAT(v->amd_driver, &h->arena, "amdgpu %s", clean);
  } else if (accel__is_directory(folder)) {
    v->amd_driver = "amdgpu (the kernel's own)";
  }
  if (slurp(text, "%s/opt/rocm/.info/version", h->root)) {
    text[strcspn(text, "-\n ")] = 0;
    accel__clean_copy(clean, sizeof clean, text, sizeof text);
    v->amd_version = accel__arena_string(&h->arena, clean);
  }
  return v->amd_version ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__amd_sysfs(accel__hardware *h, accel__vendors *v) {
  accel__source *s = &v->source[ACCEL__SOURCE_SYSFS];
  drm_card *cards;
  char kfd[512];
  s->asked = true;
  ACCEL_ALLOC(cards, &h->arena, MAX_CARDS);
  ACCEL_ALLOC(s->gpu, &h->arena, MAX_CARDS);
  uint32_t n = list_cards(h, cards);
  snprintf(kfd, sizeof kfd, "%s/sys/class/kfd/kfd/topology/nodes", h->root);
  s->library = "/sys/class/kfd, /sys/class/drm";
  ACCEL_TRY(read_versions(h, v));
  s->driver = v->amd_driver;
  if (accel__is_directory(kfd)) {
    ACCEL_TRY(read_topology(h, s, cards, n));
  } else {
    s->error =
        "no /sys/class/kfd: the amdgpu kernel driver is not loaded, or was built without KFD";
    s->remedy =
        "load the driver (modprobe amdgpu); in a container or virtual machine the host must hand "
        "the card on";
  }
  ACCEL_TRY(add_others(h, s, cards, n));
  if (s->n) s->error = s->remedy = "";
  accel__amd_hide(s->gpu, s->n);
  return ACCEL_OK;
}

/* ---- may we use the device files? ---- */

static const char *group_name(accel__arena *arena, gid_t gid) {
  struct group group, *found = NULL;
  char buffer[4096];
  if (getgrgid_r(gid, &group, buffer, sizeof buffer, &found) == 0 && found)
    return accel__arena_string(arena, found->gr_name);
  return accel__arena_printf(arena, "%u", (unsigned)gid);
}

static accel_status access_remedy(accel__arena *arena, accel__access *a) {
  if (a->error == ENOENT) {
    a->remedy = "load the amdgpu driver; in a container: --device /dev/kfd --device /dev/dri";
  } else if (a->error == EACCES) {
    bool usual = !strcmp(a->group, "render") || !strcmp(a->group, "video");
    ACCEL_FORMAT(a->remedy, arena,
                 "sudo usermod -aG render,video%s%s $USER, then log in again; in a container: "
                 "--group-add %u",
                 usual ? "" : ",", usual ? "" : a->group, a->gid);
  } else if (a->error == EPERM) {
    a->remedy = "the container may not use it: start it with --device /dev/kfd --device /dev/dri";
  } else if (a->error) {
    a->remedy = "see the kernel's messages (dmesg) about amdgpu";
  }
  return ACCEL_OK;
}

static accel_status check_access(accel__hardware *h, accel__vendors *v, const char *name,
                                 size_t *capacity) {
  struct stat info;
  accel__access a = {.group = "", .remedy = ""};
  size_t n = v->n_access;
  const char *path = accel__arena_printf(&h->arena, "%s/dev/%s", h->root, name);
  ACCEL_FORMAT(a.path, &h->arena, "/dev/%s", name);
  if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (stat(path, &info) == 0) {
    a.group = group_name(&h->arena, info.st_gid);
    a.gid = info.st_gid;
    a.mode = info.st_mode & 07777;
    if (!a.group) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  a.error = fd < 0 ? errno : 0;
  if (fd >= 0) close(fd);
  ACCEL_TRY(access_remedy(&h->arena, &a));
  ACCEL_PUSH(&h->arena, v->access, n, *capacity, a);
  v->n_access = (uint32_t)n;
  return ACCEL_OK;
}

accel_status accel__amd_access(accel__hardware *h, accel__vendors *v) {
  char folder[512], **names = NULL, device[600];
  size_t n = 0, capacity = 0;
  ACCEL_TRY(check_access(h, v, "kfd", &capacity));
  snprintf(folder, sizeof folder, "%s/sys/class/drm", h->root);
  if (!accel__is_directory(folder)) return ACCEL_OK;
  if (accel__list_directory(folder, &h->arena, &names, &n) != ACCEL_OK) {
    accel__clear_error();
    return ACCEL_OK;
  }
  for (size_t i = 0; i < n; i++) {
    if (!is_card(names[i], "renderD")) continue;
    snprintf(device, sizeof device, "%s/%s/device", folder, names[i]);
    if (number_file(device, "vendor") != 0x1002) continue;
    snprintf(device, sizeof device, "dri/%s", names[i]);
    ACCEL_TRY(check_access(h, v, device, &capacity));
  }
  return ACCEL_OK;
}
