/* image_features.c - transformers' image-feature-extraction pipeline: the last hidden state of each
 * picture, or what the model's pooler makes of it. */
#include "tasks/image_features.h"

#include <string.h>

#include "dispatch/pack.h"
#include "models/model_build.h"

/* Features, picture by picture. */
typedef struct extracting {
  accel__picture_job job;
  accel_tensor *found; /* [n] */
} extracting;

static accel_status take_features(void *user, uint32_t i, const int32_t side[2],
                                  const accel_tensors *found) {
  extracting *e = user;
  const size_t bytes = accel__tensor_bytes(&found->item[0]);
  (void)side;
  e->found[i] = found->item[0];
  e->found[i].data = accel__arena_alloc(e->job.arena, bytes + 1);
  if (!e->found[i].data) return ACCEL_ERROR_OUT_OF_MEMORY;
  memcpy(e->found[i].data, found->item[0].data, bytes);
  return ACCEL_OK;
}

static accel_status check_model(const accel_endpoint *ep, const char *output) {
  const accel__model_entry *forward = accel__model_entry_of(ep->model, "forward");
  if (!forward || accel__entry_input(forward, "pixel_values") < 0)
    return accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a %s takes no pictures",
                                     ep->name, ep->model->architecture),
                         "use a model of pictures alone, such as ViT or DINOv2");
  if (accel__entry_output(forward, output) >= 0) return ACCEL_OK;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a %s has no %s", ep->name, ep->model->architecture,
                  output),
      strcmp(output, "pooler_output")
          ? "open the model for the task image-feature-extraction, which takes its base class"
          : "leave `pool` out: the checkpoint has no weights of a pooler, or the class has none");
}

/* One list of what was found, each picture's under its output's name. */
static accel_status list_features(const extracting *e, uint32_t n, accel_tensors **out) {
  ACCEL_TRY(accel__tensors_new(e->found, n, out));
  for (uint32_t i = 0; i < n; i++)
    memcpy((*out)->item[i].data, e->found[i].data, accel__tensor_bytes(&e->found[i]));
  return ACCEL_OK;
}

accel_status accel__extract_image_features(accel_endpoint *ep, const accel_media *images,
                                           uint32_t n, bool pool, accel_tensors **out) {
  const char *const output = pool ? "pooler_output" : "last_hidden_state";
  accel__arena arena = {0};
  extracting e = {.job = {.ep = ep, .arena = &arena}};
  *out = NULL;
  accel_status status = check_model(ep, output);
  if (status == ACCEL_OK) status = accel__picture_begin(&e.job, NULL);
  if (status == ACCEL_OK) e.found = accel__arena_array(&arena, (size_t)n + 1, sizeof *e.found);
  if (status == ACCEL_OK && !e.found) status = ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK)
    status = accel__pictures_run(&e.job, images, n, &output, 1, take_features, &e);
  if (status == ACCEL_OK) {
    for (uint32_t i = 0; i < n; i++) e.found[i].name = output; /* its run's is freed */
    status = list_features(&e, n, out);
  }
  accel__arena_free(&arena);
  return status;
}
