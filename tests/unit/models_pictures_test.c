/* models_pictures_test.c - language models that show pictures: rows that see one another,
 * configs that are built and refused, and what processors write for pictures. */
#include "test_endpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include "generate/picture_words.h"
#include "modeling/block_rows.h"
#include "models/model_build.h"

/* ---- blocks ---- */

static void expect_part(const accel__image_tokens *it, const accel__block_tokens *t,
                        accel__block_part part, int64_t n, const int32_t *want) {
  int32_t *values;
  int64_t found;
  assert_ok(accel__blocks_make(it, t, part, &values, &found));
  assert_int_equal(found, n);
  assert_memory_equal(values, want, (size_t)n * sizeof *want);
  free(values);
}

/* Two sequences: one picture of three rows, and two of two and one with a token between them. */
static void pictures_by_hand(void **state) {
  (void)state;
  const accel__image_tokens it = {.token = 9, .blocks = ACCEL__BLOCKS_PICTURES, .block_window = 3};
  const int32_t types[] = {0, 0, 1, 1, 1, 0, 1, 1, 0, 1}, lengths[] = {6, 4};
  const accel__block_tokens t = {.types = types, .lengths = lengths, .n = 2, .tokens = 10};
  expect_part(&it, &t, ACCEL__BLOCK_LAST_KEYS, 10, (int32_t[]){0, 1, 4, 4, 4, 5, 1, 1, 2, 3});
  expect_part(&it, &t, ACCEL__BLOCK_LENGTHS, 3, (int32_t[]){3, 2, 1});
  expect_part(&it, &t, ACCEL__BLOCK_ROWS, 6, (int32_t[]){2, 3, 4, 6, 7, 9});
  /* row 2 sees rows 0 to 4, row 3 those from 1, row 4 those from 2 */
  expect_part(&it, &t, ACCEL__BLOCK_KEY_LENGTHS, 3, (int32_t[]){5, 2, 3});
  expect_part(&it, &t, ACCEL__BLOCK_KEYS, 10, (int32_t[]){0, 1, 2, 3, 4, 6, 7, 7, 8, 9});
  expect_part(&it, &t, ACCEL__BLOCK_FIRST_KEYS, 6, (int32_t[]){0, 1, 2, 0, 0, 0});
  assert_int_equal(accel__block_type(&it, 9), 1);
  assert_int_equal(accel__block_type(&it, 8), 0);
}

static void prefixes_by_hand(void **state) {
  (void)state;
  const accel__image_tokens it = {.token = 9, .blocks = ACCEL__BLOCKS_PREFIX};
  const int32_t types[] = {0, 0, 1, 1, 0, 0, 0}, lengths[] = {4, 3}, wrong[] = {0, 1, 0};
  accel__block_tokens t = {.types = types, .lengths = lengths, .n = 2, .tokens = 7};
  int32_t *values;
  int64_t n;
  expect_part(&it, &t, ACCEL__BLOCK_LAST_KEYS, 7, (int32_t[]){1, 1, 2, 3, 2, 2, 2});
  expect_part(&it, &t, ACCEL__BLOCK_KEY_LENGTHS, 2, (int32_t[]){2, 3});
  expect_part(&it, &t, ACCEL__BLOCK_FIRST_KEYS, 5, (int32_t[]){0, 0, 0, 0, 0});
  t.types = NULL; /* all is causal: a block of the first row alone stands for none */
  expect_part(&it, &t, ACCEL__BLOCK_LAST_KEYS, 7, (int32_t[]){0, 1, 2, 3, 0, 1, 2});
  expect_part(&it, &t, ACCEL__BLOCK_ROWS, 1, (int32_t[]){0});
  t = (accel__block_tokens){.types = wrong, .lengths = &(int32_t){3}, .n = 1, .tokens = 3};
  assert_int_equal(accel__blocks_make(&it, &t, ACCEL__BLOCK_ROWS, &values, &n),
                   ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel_last_error(), "token_type_ids row 0"));
}

/* ---- configs ---- */

#define GEMMA                                                                                     \
  "\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":" \
  "1,\"vocab_size\":50"
#define SMALL \
  "\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1"
#define LOOKS SMALL ",\"image_size\":8,\"patch_size\":2"
#define WHOLE(type, text, vision, ...)                                                 \
  "{\"model_type\":\"" type "\",\"text_config\":{" text "},\"vision_config\":{" vision \
  "}" __VA_ARGS__ "}"
#define QWEN3_TEXT SMALL ",\"head_dim\":8"
#define QWEN3_LOOKS                                                                           \
  "\"hidden_size\":16,\"depth\":1,\"num_heads\":2,\"out_hidden_size\":16,\"deepstack_visual_" \
  "indexes\":[0]"

static void configs(void **state) {
  (void)state;
  static const char *const all[][2] = {
      /* config, words of the refusal; NULL: it is built */
      {WHOLE("qwen3_vl", QWEN3_TEXT, QWEN3_LOOKS), NULL},
      {WHOLE("qwen3_vl", QWEN3_TEXT ",\"rope_scaling\":{\"mrope_section\":[1,2]}", QWEN3_LOOKS),
       "'mrope_section' has 2 entries"},
      {WHOLE("qwen3_vl", QWEN3_TEXT, QWEN3_LOOKS ",\"num_heads\":8"), "multiple of 4"},
      {WHOLE("qwen3_vl", QWEN3_TEXT, QWEN3_LOOKS ",\"out_hidden_size\":8"), "out_hidden_size"},
      {WHOLE("qwen3_vl_moe", QWEN3_TEXT ",\"model_type\":\"qwen3_vl_text\"", QWEN3_LOOKS),
       "known: qwen3_vl_moe_text"},
      {WHOLE("gemma3", GEMMA, LOOKS, ",\"mm_tokens_per_image\":4"), NULL},
      {WHOLE("gemma3", GEMMA, LOOKS), "'mm_tokens_per_image': 256"},
      {WHOLE("gemma3", GEMMA ",\"model_type\":\"llama\"", LOOKS), "known: gemma3_text"},
      {WHOLE("gemma3", GEMMA ",\"use_bidirectional_attention\":true", LOOKS), "with pictures"},
      {WHOLE("paligemma", GEMMA ",\"use_bidirectional_attention\":true", LOOKS,
             ",\"projection_dim\":16"),
       NULL},
      {WHOLE("paligemma", GEMMA, LOOKS), "'projection_dim' is 2048"},
      {WHOLE("paligemma", GEMMA ",\"model_type\":\"gemma3_text\"", LOOKS), "known: gemma, gemma2"},
      {WHOLE("paligemma", GEMMA, LOOKS ",\"model_type\":\"clip_vision_model\""),
       "known: siglip_vision_model"},
      {WHOLE("idefics3", SMALL, LOOKS), NULL},
      {WHOLE("smolvlm", SMALL, LOOKS ",\"model_type\":\"siglip\""), "'vision_config.model_type'"},
      {WHOLE("internvl", SMALL, LOOKS), NULL},
      {WHOLE("internvl", SMALL, LOOKS, ",\"downsample_ratio\":0.4"), "'downsample_ratio': 0.4"},
      {WHOLE("internvl", SMALL, LOOKS, ",\"vision_feature_layer\":7"), "'vision_feature_layer'"},
      {WHOLE("internvl", SMALL, LOOKS, ",\"vision_feature_select_strategy\":\"full\""), "'full'"},
      {WHOLE("internvl", SMALL, LOOKS ",\"norm_type\":\"batch\""), "'batch'"},
      {WHOLE("internvl", SMALL, SMALL ",\"image_size\":[8,4],\"patch_size\":2"), "only squares"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    accel__json_file config = {0};
    accel__model *model = NULL;
    assert_ok(accel__json_parse(all[i][0], strlen(all[i][0]), "config.json", &config));
    const accel_status status =
        accel__model_build(&(accel__model_request){.config = &config}, &model);
    accel__json_free(&config);
    if (!all[i][1] && status != ACCEL_OK) fail_msg("%s: %s", all[i][0], accel_last_error());
    if (all[i][1] && status == ACCEL_OK) fail_msg("%s is built", all[i][0]);
    if (all[i][1] && !strstr(accel_last_error(), all[i][1]))
      fail_msg("'%s' is not in: %s", all[i][1], accel_last_error());
    accel__model_free(&model);
  }
}

/* ---- words ---- */

static void expect_words(accel__picture_style style, const char *text,
                         const accel__picture_parts *parts, uint32_t n, const char *want) {
  const accel__picture_words w = {.style = style,
                                  .place = style == ACCEL__PICTURE_GEMMA3 ? "[" : "#",
                                  .token = "#",
                                  .begin = "[",
                                  .end = "]",
                                  .bos = "^"};
  accel__buffer out = {0};
  assert_ok(accel__picture_words_write(&w, text, parts, n, 2, &out));
  assert_string_equal(out.data, want);
  accel__buffer_free(&out);
}

static void words(void **state) {
  (void)state;
  const accel__picture_parts one = {.n = 1}, crops[] = {{.n = 3}, {.n = 1}},
                             frames = {.n = 5, .rows = 2, .cols = 2};
  expect_words(ACCEL__PICTURE_GEMMA3, "a [ b [", crops, 2,
               "a Here is the original image \n\n[##]\n\n and here are some crops to help you see "
               "better \n\n[##]\n\n \n\n[##]\n\n b \n\n[##]\n\n");
  expect_words(ACCEL__PICTURE_PALIGEMMA, "what", crops + 1, 1, "##^what\n");
  expect_words(ACCEL__PICTURE_PALIGEMMA, "a # b # c", (accel__picture_parts[]){one, one}, 2,
               "a ## b ##^ c\n");
  expect_words(ACCEL__PICTURE_IDEFICS3, "#?", &one, 1, "[]##[?");
  expect_words(ACCEL__PICTURE_IDEFICS3, "#?", &frames, 1,
               "[<row_1_col_1>##[<row_1_col_2>##\n[<row_2_col_1>##[<row_2_col_2>##\n\n[]##[?");
  expect_words(ACCEL__PICTURE_INTERNVL, "#?", crops, 1, "[######]?");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(pictures_by_hand),
                                     cmocka_unit_test(prefixes_by_hand), cmocka_unit_test(configs),
                                     cmocka_unit_test(words)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
