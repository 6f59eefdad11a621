/* pack.h - transformers' padded tensors to packed rows and back: what stands behind accel_run. */
#ifndef ACCEL_DISPATCH_PACK_H
#define ACCEL_DISPATCH_PACK_H

#include "dispatch/endpoint.h"
#include "dispatch/tensor_list.h"

/* inputs: named [B,S] tensors as accel.h says; names: outputs wanted, NULL for all that need no
 * asking.  The result is one allocation chain freed by accel__tensors_free. */
accel_status accel__run_padded(accel_endpoint *ep, const accel_tensors *inputs,
                               const char *const *names, uint32_t n_names, accel_tensors **outputs);

/* A DERIVED input (model.h) from the arguments it follows from; *owned: its data, to be freed,
 * after a failure, too. */
accel_status accel__derive_item(const accel_endpoint *ep, const accel__derived *how,
                                const accel_tensors *inputs, void **owned, accel__item *item);

/* Position ids [3, tokens] (accel__image_tokens.mrope_positions) of these tokens (ids .. tokens are
 * set) and the sizes among the inputs; rope_delta[n] may be NULL. */
accel_status accel__mrope_positions(const accel_endpoint *ep, const accel_tensors *inputs,
                                    const accel__mrope_input *tokens, int32_t *out,
                                    int32_t *rope_delta);
/* mm_token_type_ids or token_type_ids of a prompt, which say 1 where ids show a picture and 2 where
 * they show a video (PaliGemma: 0 everywhere): anything else is ACCEL_ERROR_ARGUMENT. */
accel_status accel__check_token_types(const accel_endpoint *ep, const accel_tensor *ids,
                                      const accel_tensor *types);

#endif
