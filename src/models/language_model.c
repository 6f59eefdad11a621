/* language_model.c - decoders by the model_type of a text_config. */
#include "models/language_model.h"

#include <string.h>

static accel_status read_decoder(accel__build *b, accel__language *l,
                                 accel_status (*read)(accel__build *, accel__decoder *)) {
  if ((l->decoder = accel__arena_alloc(b->arena, sizeof *l->decoder)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read(b, l->decoder));
  l->decoder->logit_softcap = 0;
  l->hidden = l->decoder->hidden;
  return ACCEL_OK;
}

static accel_status read_gpt(accel__build *b, accel__language *l,
                             accel_status (*read)(accel__build *, accel__gpt *)) {
  if ((l->gpt = accel__arena_alloc(b->arena, sizeof *l->gpt)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read(b, l->gpt));
  l->hidden = l->gpt->hidden;
  if (l->gpt->embedding != 0 && l->gpt->embedding != l->hidden)
    return accel__refuse(b,
                         "field 'text_config.word_embed_proj_dim' differs from hidden_size: "
                         "pictures have no such rows");
  return ACCEL_OK;
}

accel_status accel__language_read(accel__build *b, const char *type, accel__language *l) {
  static const struct {
    const char *type;
    accel_status (*decoder)(accel__build *b, accel__decoder *c);
    accel_status (*gpt)(accel__build *b, accel__gpt *c);
  } known[] = {{"llama", accel__llama_read, NULL},
               {"mistral", accel__mistral_read, NULL},
               {"qwen2", accel__qwen2_read, NULL},
               {"qwen3", accel__qwen3_read, NULL},
               {"phi3", accel__phi3_read, NULL},
               {"gemma", accel__gemma1_read, NULL},
               {"gemma2", accel__gemma2_read, NULL},
               {"gemma3_text", accel__gemma3_read, NULL},
               {"mixtral", accel__mixtral_read, NULL},
               {"qwen2_moe", accel__qwen2_moe_read, NULL},
               {"qwen3_moe", accel__qwen3_moe_read, NULL},
               {"gpt2", NULL, accel__gpt2_read},
               {"opt", NULL, accel__opt_read},
               {"gpt_neox", NULL, accel__gpt_neox_read},
               {"bloom", NULL, accel__bloom_read},
               {"falcon", NULL, accel__falcon_read}};
  *l = (accel__language){0};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].type, type) != 0) continue;
    return known[i].gpt != NULL ? read_gpt(b, l, known[i].gpt)
                                : read_decoder(b, l, known[i].decoder);
  }
  return accel__refuse(b,
                       "field 'text_config.model_type': '%s' is not supported; known: llama, "
                       "mistral, qwen2, qwen3, phi3, "
                       "gemma, gemma2, gemma3_text, mixtral, qwen2_moe, qwen3_moe, gpt2, opt, "
                       "gpt_neox, bloom, falcon",
                       type);
}

void accel__language_tie(accel__language *l, bool tied) {
  bool *own = l->gpt != NULL ? &l->gpt->tied : &l->decoder->tied;
  *own = *own || tied;
}

accel_status accel__language_build(accel__build *b, const accel__language *l) {
  return l->gpt != NULL ? accel__gpt_build(b, l->gpt) : accel__decoder_build(b, l->decoder);
}
