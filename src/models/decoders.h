/* decoders.h - the decoders of LLaMA's and of GPT's kind by family: each sets *c to the defaults of
 * its transformers config class, then takes what config.json says.  Each is in the file of its
 * name;  language_model.c has the table by model_type. */
#ifndef ACCEL_MODELS_DECODERS_H
#define ACCEL_MODELS_DECODERS_H

#include "modeling/decoder.h"
#include "modeling/gpt.h"

accel_status accel__llama_read(accel__build *b, accel__decoder *c);
accel_status accel__mistral_read(accel__build *b, accel__decoder *c);
accel_status accel__qwen2_read(accel__build *b, accel__decoder *c);
accel_status accel__qwen3_read(accel__build *b, accel__decoder *c);
accel_status accel__phi3_read(accel__build *b, accel__decoder *c);
accel_status accel__gemma1_read(accel__build *b, accel__decoder *c);
accel_status accel__gemma2_read(accel__build *b, accel__decoder *c);
accel_status accel__gemma3_read(accel__build *b, accel__decoder *c);
accel_status accel__mixtral_read(accel__build *b, accel__decoder *c);
accel_status accel__qwen2_moe_read(accel__build *b, accel__decoder *c);
accel_status accel__qwen3_moe_read(accel__build *b, accel__decoder *c);

accel_status accel__gpt2_read(accel__build *b, accel__gpt *c);
accel_status accel__opt_read(accel__build *b, accel__gpt *c);
accel_status accel__gpt_neox_read(accel__build *b, accel__gpt *c);
accel_status accel__bloom_read(accel__build *b, accel__gpt *c);
accel_status accel__falcon_read(accel__build *b, accel__gpt *c);

#endif
