/* ovn_library.c - OpenVINO's C library by dlopen, its element types, and its devices. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openvino/ovn.h"
#include "shared/library_places.h"

static struct {
  pthread_once_t once;
  ovn_library ov;
} found = {.once = PTHREAD_ONCE_INIT};

static bool load_functions(ovn_library *ov) {
  const accel_library_wish wish = {getenv("ACCEL_OPENVINO_DIR"), getenv("VIRTUAL_ENV"),
                                   getenv("HOME")};
  accel_library_find(&accel_openvino_places, &wish, ov->path);
  void *library = dlopen(ov->path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *error = dlerror();
    snprintf(ov->why, sizeof ov->why, "%.100s; %s", error ? error : ov->path,
             ACCEL_OPENVINO_REMEDY);
    return false;
  }
#define OVN_LOAD(result, name, parameters)                                                         \
  *(void **)&ov->name = dlsym(library, #name);                                                     \
  if (!ov->name) {                                                                                 \
    snprintf(ov->why, sizeof ov->why, "%.120s has no " #name ": OpenVINO 2024 or later is wanted", \
             ov->path);                                                                            \
    return false;                                                                                  \
  }
  OVN_FUNCTIONS(OVN_LOAD)
  return true;
}

int32_t ovn_fail(const ovn_library *ov, int status, const char *call, accel_plugin_error *error) {
  const char *message = ov->ov_get_last_err_msg ? ov->ov_get_last_err_msg() : NULL;
  /* the message begins with the place in the library's sources; the cause stands last */
  const size_t n = message ? strlen(message) : 0;
  const char *tail = n > 150 ? message + n - 150 : message;
  kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s: %s (%d)", call, tail ? tail : "failed", status);
  for (char *at = error ? error->message : NULL; at && *at; at++)
    if (*at == '\n' || *at == '\t') *at = ' ';
  if (error) error->native = status;
  return ACCEL_PLUGIN_E_DRIVER;
}

/* The numbers of element types differ between releases: a model with an input of each type tells
 * them. */
static bool learn_types(ovn_library *ov) {
  static const struct {
    uint8_t dtype;
    const char *name, *port;
  } types[] = {{ACCEL_PLUGIN_F32, "f32", "FP32"},
               {ACCEL_PLUGIN_I32, "i32", "I32"},
               {ACCEL_PLUGIN_I64, "i64", "I64"},
               {ACCEL_PLUGIN_U8, "u8", "U8"}};
  bool good = true;
  for (size_t i = 0; good && i < sizeof types / sizeof *types; i++) {
    char text[600];
    ov_model_t *model = NULL;
    ov_output_const_port_t *port = NULL;
    const int n = snprintf(
        text, sizeof text,
        "<?xml version=\"1.0\"?><net name=\"t\" version=\"11\"><layers>"
        "<layer id=\"0\" name=\"p\" type=\"Parameter\" version=\"opset1\">"
        "<data shape=\"1\" element_type=\"%s\"/><output><port id=\"0\" "
        "precision=\"%s\"><dim>1</dim></port></output>"
        "</layer><layer id=\"1\" name=\"r\" type=\"Result\" version=\"opset1\"><input>"
        "<port id=\"0\"><dim>1</dim></port></input></layer></layers><edges>"
        "<edge from-layer=\"0\" from-port=\"0\" to-layer=\"1\" to-port=\"0\"/></edges></net>",
        types[i].name, types[i].port);
    good = !ov->ov_core_read_model_from_memory_buffer(ov->core, text, (size_t)n, NULL, &model) &&
           !ov->ov_model_const_input_by_index(model, 0, &port) &&
           !ov->ov_port_get_element_type(port, &ov->type[types[i].dtype]);
    if (port) ov->ov_output_const_port_free(port);
    if (model) ov->ov_model_free(model);
  }
  if (!good)
    snprintf(ov->why, sizeof ov->why, "%.100s does not read a small model: reinstall it (%s)",
             ov->path, "pip install --force-reinstall openvino");
  return good;
}

static void list_devices(ovn_library *ov) {
  ov_available_devices_t all = {0};
  if (ov->ov_core_get_available_devices(ov->core, &all)) {
    snprintf(ov->why, sizeof ov->why, "OpenVINO %.40s does not list its devices: reinstall it (%s)",
             ov->version, "pip install --force-reinstall openvino");
    return;
  }
  for (size_t i = 0; i < all.size && ov->n_device < OVN_DEVICES; i++) {
    ovn_device *d = &ov->device[ov->n_device++];
    snprintf(d->name, sizeof d->name, "%s", all.devices[i]);
    ovn_describe(ov, d);
  }
  ov->ov_available_devices_free(&all);
  if (!ov->n_device)
    snprintf(ov->why, sizeof ov->why, "OpenVINO %.40s has no device on this machine", ov->version);
}

static void find(void) {
  ovn_library *ov = &found.ov;
  ov_version_t version = {0};
  if (!load_functions(ov)) return;
  if (!ov->ov_get_openvino_version(&version) && version.buildNumber)
    snprintf(ov->version, sizeof ov->version, "%s", version.buildNumber);
  ov->ov_version_free(&version);
  const int status = ov->ov_core_create(&ov->core);
  if (status) {
    snprintf(ov->why, sizeof ov->why, "%.100s does not start (%d): reinstall it (%s)", ov->path,
             status, "pip install --force-reinstall openvino");
    return;
  }
  if (learn_types(ov)) list_devices(ov);
}

const ovn_library *ovn_open_library(void) {
  pthread_once(&found.once, find);
  return &found.ov;
}
