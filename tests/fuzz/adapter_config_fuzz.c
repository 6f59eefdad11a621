/* adapter_config_fuzz.c - adapter_config.json: whatever the bytes, a refusal with a message, or a
 * config that answers for any module with a rank and a finite scaling, or names a field. */
#include <math.h>
#include <stdlib.h>

#include "adapters/adapter_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort(); /* a finding */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const modules[] = {"model.layers.0.self_attn.q_proj",
                                        "encoder.layer.11.attention.self.query", "lm_head", ""};
  accel__adapter_config config;
  accel_status status = accel__adapter_config_parse((const char *)data, size, "fuzz", &config);
  if (status != ACCEL_OK) require(accel__message()[0] != '\0');
  for (size_t i = 0; status == ACCEL_OK && i < sizeof modules / sizeof *modules; i++) {
    accel__module_lora lora;
    if (accel__adapter_config_module(&config, modules[i], &lora) == ACCEL_OK)
      require(lora.rank > 0 && isfinite(lora.scaling));
    else
      require(accel__message()[0] != '\0');
  }
  accel__adapter_config_free(&config);
  return 0;
}
