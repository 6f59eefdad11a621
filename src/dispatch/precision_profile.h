/* precision_profile.h - precisions by kind of layer, as `accel tune` finds them for one model on
 * one kind of device: a JSON file,
 *
 *   {"schema": "accel.precision_profile/1",
 *    "model": {"architecture": "BertModel", "weights": "89c1a34e5b20f7d6"},
 *    "device": "cpu",
 *    "precision": "int8",
 *    "kinds": {"attention": "fp16"}}
 *
 * precision: of every kind that "kinds" does not name; also how activations and the KV cache are
 * kept, as accel_init_params.precision.  Kinds are those of weight_roles.h.  device: the plugin's
 * name.  weights: accel__model_identity.  "tuned", an object, tells people what was measured and is
 * not read.  Other members are refused by name. */
#ifndef ACCEL_DISPATCH_PRECISION_PROFILE_H
#define ACCEL_DISPATCH_PRECISION_PROFILE_H

#include "core/text.h"
#include "dispatch/endpoint.h"
#include "dispatch/weight_roles.h"

/* Strings are constants, or lie in the arena that was given. */
typedef struct accel__precision_profile {
  const char *name;         /* the file, or "precision_profile" for a text */
  const char *architecture; /* class of transformers */
  uint64_t weights;         /* accel__model_identity */
  const char *device;       /* name of a plugin */
  const char *precision;    /* canonical */
  /* canonical; NULL: as `precision` */
  const char *kind[ACCEL__KIND_COUNT];
} accel__precision_profile;

/* ACCEL_ERROR_FORMAT names file, member, value and what would do. */
accel_status accel__precision_profile_parse(const char *text, size_t n, const char *name,
                                            accel__arena *arena, accel__precision_profile *out);
/* what: a file's path, or the JSON text itself, which begins with '{'. */
accel_status accel__precision_profile_read(const char *what, accel__arena *arena,
                                           accel__precision_profile *out);
/* The file's text; kinds[n] of `listed` are written with their precision, others only where it
 * differs. */
void accel__precision_profile_write(const accel__precision_profile *profile,
                                    const bool listed[ACCEL__KIND_COUNT], accel__buffer *out);
/* "attention=fp16,head=fp32": the kinds that differ from the profile's precision; "": none. */
void accel__precision_profile_kinds(const accel__precision_profile *profile, accel__buffer *out);

/* Tells checkpoints apart by what they hold, wherever their files are: a hash of the names, types,
 * shapes and first and last bytes of all tensors (random weights: of the seed) and of the
 * config. */
accel_status accel__model_identity(const accel_endpoint *ep, uint64_t *out);
/* ACCEL_ERROR_ARGUMENT with the remedy: the profile is of another class or checkpoint.  The
 * endpoint's model is built, its checkpoint mapped. */
accel_status accel__precision_profile_check(const accel__precision_profile *profile,
                                            const accel_endpoint *ep);

/* The formats of kinds that have a precision of their own, over what out->format holds; `arena` as
 * that of accel__precision_for. */
accel_status accel__precision_by_kind(const accel_plugin_program *program,
                                      const accel__precision_profile *profile,
                                      const char *const *keep_fp32, uint32_t n_keep,
                                      accel__arena *arena, accel_plugin_precision *out);
/* What a placed endpoint runs with, as a profile's text: every kind that its model has. */
accel_status accel__precision_profile_of(const accel_endpoint *ep, accel__buffer *out);

#endif
