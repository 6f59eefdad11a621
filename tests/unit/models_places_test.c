/* models_places_test.c - Qwen2-VL: where its pictures and videos stand (M-RoPE), and what is refused: counts
 * that do not match, configs and processors that cannot be. */
#include "test_endpoint.h"

#include <stdio.h>

#include "core/file.h"
#include "dispatch/pack.h"
#include "dispatch/videos.h"
#include "tasks/open.h"
#include "temp.h"
#include "vision/image_processor.h"
#include "models/model_build.h"

enum { IMAGE = 59, VIDEO = 58 };

static accel_endpoint *open_named(accel *ctx, const char *model) {
  accel_init_params how = accel_init_params_default();
  char path[256];
  accel_endpoint *ep;
  how.device = "reference";
  snprintf(path, sizeof path, "%s/models/%s", ACCEL_FIXTURES, model);
  assert_ok(accel__open(ctx, path, &how, &ep));
  return ep;
}

static accel_endpoint *open_model(accel *ctx) { return open_named(ctx, "qwen2_vl"); }

static accel_status place(const accel_endpoint *ep, const int32_t *ids, const int32_t *lengths,
                          uint32_t n, const int64_t *grid, int64_t pictures, int32_t *out,
                          int32_t *rope_delta) {
  accel_tensor sizes = {.name = "image_grid_thw",
                        .dtype = ACCEL_I64,
                        .rank = 2,
                        .dim = {pictures, 3},
                        .data = (void *)grid};
  accel__mrope_input tokens = {.ids = ids, .lengths = lengths, .n = n};
  for (uint32_t i = 0; i < n; i++) tokens.tokens += (uint64_t)lengths[i];
  return accel__mrope_positions(ep, &(accel_tensors){1, &sizes}, &tokens, out, rope_delta);
}

/* A picture of 4 x 6 patches is 2 x 3 rows: they count from where it stands, and the text goes on
 * behind its longer side. */
static void places_by_hand(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx);
  const int32_t ids[] = {7, 8, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, 9, IMAGE, 5, 6, 7},
                lengths[] = {11, 2};
  const int64_t grid[] = {1, 4, 6, 1, 2, 2};
  const int32_t want[3][13] = {{0, 1, 2, 2, 2, 2, 2, 2, 5, 6, 7, 0, 1},
                               {0, 1, 2, 2, 2, 3, 3, 3, 5, 6, 7, 0, 1},
                               {0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 7, 0, 1}};
  int32_t out[3 * 13], rope_delta[2];
  assert_ok(place(ep, ids, lengths, 2, grid, 2, out, rope_delta));
  assert_memory_equal(out, want, sizeof want);
  assert_int_equal(rope_delta[0], 8 - 11); /* the next token stands at 8, in row 11 */
  assert_int_equal(rope_delta[1], 0);
  accel__close(&ep);
  accel_destroy(&ctx);
}

static void refused(accel_status status, accel_status code, const char *words) {
  assert_int_equal(status, code);
  if (!strstr(accel_last_error(), words)) fail_msg("'%s' is not in: %s", words, accel_last_error());
}

static void tokens_and_pictures_must_match(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx);
  const int32_t ids[] = {7, IMAGE, IMAGE, IMAGE, IMAGE, 9}, video[] = {7, VIDEO, 9}, n6 = 6, n3 = 3,
                n4 = 4;
  const int64_t grid[] = {1, 4, 4, 1, 4, 4}, large[] = {1, 4, 6}, odd[] = {1, 3, 4},
                none[] = {0, 4, 4}, huge[] = {INT64_C(1) << 40, 4, 4}, two[] = {1, 2, 2};
  int32_t out[18];
  assert_ok(place(ep, ids, &n6, 1, grid, 1, out, NULL));
  refused(place(ep, ids, &n6, 1, grid, 2, out, NULL), ACCEL_ERROR_ARGUMENT, "show 1 pictures");
  refused(place(ep, ids, &n6, 1, grid, 0, out, NULL), ACCEL_ERROR_ARGUMENT, "more pictures");
  refused(place(ep, ids, &n6, 1, two, 1, out, NULL), ACCEL_ERROR_ARGUMENT, "more pictures");
  refused(place(ep, ids, &n6, 1, large, 1, out, NULL), ACCEL_ERROR_ARGUMENT,
          "4 image tokens (59) for picture 0");
  refused(place(ep, ids, &n4, 1, grid, 1, out, NULL), ACCEL_ERROR_ARGUMENT,
          "3 image tokens (59) for picture 0");
  refused(place(ep, ids, &n6, 1, odd, 1, out, NULL), ACCEL_ERROR_ARGUMENT, "no multiples of 2");
  assert_non_null(strstr(accel__remedy_text(), "spatial_merge_size"));
  refused(place(ep, ids, &n6, 1, none, 1, out, NULL), ACCEL_ERROR_ARGUMENT, "0 x 4 x 4");
  refused(place(ep, ids, &n6, 1, huge, 1, out, NULL), ACCEL_ERROR_ARGUMENT, "1099511627776 x 4");
  refused(place(ep, video, &n3, 1, grid, 0, out, NULL), ACCEL_ERROR_ARGUMENT, "more pictures");
  accel__close(&ep);
  accel_destroy(&ctx);
}

/* A video of 3 frames of 1 x 2 rows: they count frames, or what time_steps say, which goes on behind
 * the text that follows; a sequence goes on behind its last token. */
static void frames_by_hand(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = open_named(ctx, "qwen2_5_vl");
  const int32_t ids[] = {7, VIDEO, VIDEO, VIDEO, VIDEO, VIDEO, VIDEO, 9}, length = 8;
  int64_t grid[] = {3, 2, 4};
  float step = 2.6f;
  const int32_t wide[8] = {0, 1, 2, 1, 2, 1, 2, 3}, high[8] = {0, 1, 1, 1, 1, 1, 1, 3},
                counted[8] = {0, 1, 1, 2, 2, 3, 3, 3}, timed[8] = {0, 1, 1, 3, 3, 6, 6, 3};
  accel_tensor in[] = {
      {.name = "image_grid_thw", .dtype = ACCEL_I64, .rank = 2, .dim = {1, 3}, .data = grid},
      {.name = ACCEL__TIME_STEPS, .dtype = ACCEL_F32, .rank = 1, .dim = {1}, .data = &step}};
  const accel__mrope_input tokens = {.ids = ids, .lengths = &length, .n = 1, .tokens = 8};
  int32_t out[3 * 8], rope_delta;
  for (uint32_t n = 1; n <= 2; n++) {
    assert_ok(accel__mrope_positions(ep, &(accel_tensors){n, in}, &tokens, out, &rope_delta));
    assert_memory_equal(out, n == 1 ? counted : timed, sizeof counted);
    assert_memory_equal(out + 8, high, sizeof high);
    assert_memory_equal(out + 16, wide, sizeof wide);
    assert_int_equal(rope_delta, 4 - 8);
  }
  accel__close(&ep);
  accel_destroy(&ctx);
}

/* A picture of 2 x 2 patches and a video of 2 frames of 2 x 4; each change of the inputs, and what is
 * said then. */
static void videos_and_text_must_match(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = open_named(ctx, "qwen2_5_vl");
  int64_t ids[] = {VIDEO, VIDEO, VIDEO, VIDEO, 7, IMAGE, 9}, types[] = {2, 2, 2, 2, 0, 1, 0},
          grid[] = {1, 2, 2}, moving[] = {2, 2, 4};
  float second = 0.5f;
  static float pixels[4 * 96], frames[17 * 96];
  accel_tensor in[] = {
      {.name = "input_ids", .dtype = ACCEL_I64, .rank = 2, .dim = {1, 7}, .data = ids},
      {.name = "pixel_values", .dtype = ACCEL_F32, .rank = 2, .dim = {4, 96}, .data = pixels},
      {.name = "image_grid_thw", .dtype = ACCEL_I64, .rank = 2, .dim = {1, 3}, .data = grid},
      {.name = "pixel_values_videos",
       .dtype = ACCEL_F32,
       .rank = 2,
       .dim = {16, 96},
       .data = frames},
      {.name = "second_per_grid_ts", .dtype = ACCEL_F32, .rank = 1, .dim = {1}, .data = &second},
      {.name = "mm_token_type_ids", .dtype = ACCEL_I64, .rank = 2, .dim = {1, 7}, .data = types},
      {.name = "video_grid_thw", .dtype = ACCEL_I64, .rank = 2, .dim = {1, 3}, .data = moving}};
  accel_tensors list = {7, in}, *out = NULL;
  const char *name = "logits";
#define REFUSED(words) \
  refused(accel__run_padded(ep, &list, &name, 1, &out), ACCEL_ERROR_ARGUMENT, words)
  assert_ok(accel__run_padded(ep, &list, &name, 1, &out));
  accel__tensors_free(&out);
  list.n = 6;
  REFUSED("'video_grid_thw' is missing");
  list.n = 7;
  types[0] = 1;
  REFUSED("mm_token_type_ids row 0 holds 1 at 0");
  types[0] = 2;
  second = -1;
  REFUSED("'second_per_grid_ts' holds -1 for video 0");
  second = 0;
  in[4].dim[0] = 2;
  REFUSED("'second_per_grid_ts' must hold a number for each video, [1]");
  in[4].dim[0] = 1;
  in[6].dim[1] = 1;
  REFUSED("'video_grid_thw' must hold integers [videos, 3]");
  in[6].dim[1] = 3;
  in[3].dim[0] = 15;
  REFUSED("'pixel_values_videos' has 15 patches, fewer than 'video_grid_thw' says");
  in[3].dim[0] = 17;
  REFUSED("16 of the 17 patches of 'pixel_values_videos'");
  in[3].dim[0] = 16;
  in[3].dim[1] = 95;
  REFUSED("same dtype and columns");
  in[3].dim[1] = 96;
  moving[1] = 3;
  REFUSED("3 x 4 patches, no multiples of 2");
  moving[1] = 2;
  list.n = 5; /* without types, which would tell first */
  in[4] = in[6];
  ids[4] = VIDEO;
  REFUSED("more videos (token 58) than the 1");
  ids[4] = 7;
  ids[3] = 9;
  REFUSED("3 image tokens");
  ids[0] = ids[1] = ids[2] = 9;
  REFUSED("show 0 of the 1 videos");
#undef REFUSED
  accel__close(&ep);
  accel_destroy(&ctx);
}

/* What accel_run is given: ids [1,6] with one picture of 4 x 4 patches of 96 values. */
static void forward_checks_its_inputs(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx);
  int64_t ids[] = {7, IMAGE, IMAGE, IMAGE, IMAGE, 9}, types[] = {0, 1, 1, 1, 1, 0},
          grid[] = {1, 4, 4}, places[18] = {0};
  static float pixels[17 * 96];
  accel_tensor in[] = {
      {.name = "input_ids", .dtype = ACCEL_I64, .rank = 2, .dim = {1, 6}, .data = ids},
      {.name = "pixel_values", .dtype = ACCEL_F32, .rank = 2, .dim = {16, 96}, .data = pixels},
      {.name = "image_grid_thw", .dtype = ACCEL_I64, .rank = 2, .dim = {1, 3}, .data = grid},
      {.name = "mm_token_type_ids", .dtype = ACCEL_I64, .rank = 2, .dim = {1, 6}, .data = types},
      {.name = "position_ids", .dtype = ACCEL_I64, .rank = 3, .dim = {3, 1, 6}, .data = places}};
  accel_tensors list = {4, in}, *out = NULL;
  const char *name = "logits";
  assert_ok(accel__run_padded(ep, &list, &name, 1, &out));
  accel__tensors_free(&out);
  types[2] = 0;
  refused(accel__run_padded(ep, &list, &name, 1, &out), ACCEL_ERROR_ARGUMENT,
          "mm_token_type_ids row 0 holds 0 at 2");
  list.n = 3;
  ids[5] = IMAGE;
  refused(accel__run_padded(ep, &list, &name, 1, &out), ACCEL_ERROR_ARGUMENT, "more pictures");
  ids[4] = ids[5] = 9;
  refused(accel__run_padded(ep, &list, &name, 1, &out), ACCEL_ERROR_ARGUMENT, "3 image tokens");
  ids[4] = IMAGE;
  in[1].dim[0] = 17;
  refused(accel__run_padded(ep, &list, &name, 1, &out), ACCEL_ERROR_ARGUMENT,
          "pixel_values has 17 patches");
  in[1].dim[0] = 16;
  in[2].dim[1] = 1;
  refused(accel__run_padded(ep, &list, &name, 1, &out), ACCEL_ERROR_ARGUMENT, "image_grid_thw");
  in[2].dim[1] = 3;
  list.n = 5;
  types[2] = 1;
  assert_ok(accel__run_padded(ep, &list, &name, 1, &out));
  accel__tensors_free(&out);
  places[3] = -1;
  refused(accel__run_padded(ep, &list, &name, 1, &out), ACCEL_ERROR_ARGUMENT, "position_ids");
  in[4].dim[0] = 2;
  refused(accel__run_padded(ep, &list, &name, 1, &out), ACCEL_ERROR_ARGUMENT, "position_ids");
  accel__close(&ep);
  accel_destroy(&ctx);
}

#define TEXT                                                                                  \
  "\"model_type\":\"qwen2_vl\",\"vocab_size\":31,\"hidden_size\":32,\"num_hidden_layers\":1," \
  "\"num_attention_heads\":2,"                                                                \
  "\"num_key_value_heads\":1,\"intermediate_size\":7"
#define SECTIONS(...) ",\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[" __VA_ARGS__ "]}"
#define LOOKS(...)                                                                    \
  ",\"vision_config\":{\"depth\":1,\"embed_dim\":24,\"num_heads\":2,\"hidden_size\":" \
  "32" __VA_ARGS__ "}"

#define WINDOWED(...) \
  "{\"architectures\":[\"Qwen2_5_VLModel\"],\"model_type\":\"qwen2_5_vl\",\"hidden_size\":32," \
  "\"num_hidden_layers\":1," \
  "\"num_attention_heads\":2,\"num_key_value_heads\":1" SECTIONS("2,3,3") ",\"vision_config\":{\"depth\":1,"         \
  "\"hidden_size\":24,\"num_heads\":2,\"out_hidden_size\":32" __VA_ARGS__ "}}"

static void configs(void **state) {
  (void)state;
  static const char *const good[] = {
      WINDOWED(""), "{" TEXT SECTIONS("2,3,3") LOOKS("") "}", "{" TEXT SECTIONS("8") LOOKS("") "}",
      "{" TEXT SECTIONS("1,1,1,2,2,1") LOOKS(",\"num_attention_heads\":3,\"num_heads\":2") "}"};
  static const char *const bad[][2] = {
      {"{" TEXT SECTIONS("2,3,4") LOOKS("") "}", "field 'mrope_section': its 3 entries sum to 9"},
      {"{" TEXT SECTIONS("2,3") LOOKS("") "}", "sum to 5, but a head of 16 turns with 8"},
      {"{" TEXT SECTIONS("") LOOKS("") "}", "sum to 0"},
      {"{" TEXT SECTIONS("-1,9") LOOKS("") "}", "field 'mrope_section' must be a list"},
      {"{" TEXT SECTIONS("\"2\",6") LOOKS("") "}", "field 'mrope_section' must be a list"},
      {"{" TEXT LOOKS("") "}", "sum to 64"}, /* what is usual does not fit */
      {"{" TEXT SECTIONS("2,3,3") "}",
       "field 'vision_config.hidden_size' is 3584, but the text has hidden_size 32"},
      {"{" TEXT SECTIONS("2,3,3") LOOKS(",\"num_heads\":5") "}",
       "'vision_config.num_heads' (5) does not divide"},
      {"{" TEXT SECTIONS("2,3,3") LOOKS(",\"num_heads\":4") "}", "must be a multiple of 4"},
      {"{" TEXT SECTIONS("2,3,3") LOOKS(",\"model_type\":\"siglip\"") "}",
       "'vision_config.model_type': 'siglip'"},
      {"{" TEXT SECTIONS("2,3,3") LOOKS(",\"patch_size\":0") "}", "patch_size"},
      {"{" TEXT SECTIONS("2,3,3") LOOKS(",\"patch_size\":[4,4]") "}", "patch_size"},
      {"{" TEXT SECTIONS("2,3,3") LOOKS(",\"mlp_ratio\":-1") "}", "mlp_ratio"},
      {"{" TEXT SECTIONS("2,3,3") LOOKS(",\"rope_parameters\":{\"rope_type\":\"yarn\"}") "}",
       "rope_type"},
      {"{" TEXT
       ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2,\"mrope_section\":[2,3,3]}" LOOKS(
           "") "}",
       "length of the text"},
      {"{" TEXT SECTIONS("2,3,3") LOOKS("") ",\"image_token_id\":-4}", "image_token_id"},
      {WINDOWED(",\"window_size\":27"), "field 'vision_config.window_size': 27 is less than"},
      {WINDOWED(",\"fullatt_block_indexes\":[-1]"), "fullatt_block_indexes"},
      {WINDOWED(",\"out_hidden_size\":33"), "field 'vision_config.out_hidden_size' is 33"},
      {WINDOWED(",\"model_type\":\"qwen2_vl\""), "known: qwen2_5_vl_vision"},
  };
  for (size_t i = 0; i < sizeof good / sizeof *good + sizeof bad / sizeof *bad; i++) {
    const size_t k = i - sizeof good / sizeof *good;
    const bool wanted = i < sizeof good / sizeof *good;
    const char *text = wanted ? good[i] : bad[k][0];
    accel__json_file config = {0};
    accel__model *model = NULL;
    assert_ok(accel__json_parse(text, strlen(text), "config.json", &config));
    const accel_status status = accel__model_build(
        &(accel__model_request){
            .config = &config,
            .architecture = strstr(text, "2_5") ? NULL : "Qwen2VLForConditionalGeneration"},
        &model);
    accel__json_free(&config);
    if (wanted && status != ACCEL_OK) fail_msg("%s: %s", text, accel_last_error());
    if (!wanted && status == ACCEL_OK) fail_msg("%s is built", text);
    if (!wanted &&
        (!strstr(accel_last_error(), bad[k][1]) || !strstr(accel_last_error(), "config.json")))
      fail_msg("'%s' is not in: %s", bad[k][1], accel_last_error());
    accel__model_free(&model);
  }
}

#define TYPE(name) "{\"image_processor_type\":\"" name "ImageProcessor\""
#define KIND       TYPE("Qwen2VL")

static void processors(void **state) {
  (void)state;
  static const char *const bad[][2] = {
      {KIND ",\"size\":{\"shortest_edge\":3136}}", "size has no longest_edge"},
      {KIND ",\"size\":{\"longest_edge\":3136}}", "size has no shortest_edge"},
      {KIND ",\"size\":{\"height\":224,\"width\":224}}", "size has no shortest_edge"},
      {KIND ",\"size\":{},\"min_pixels\":56}", "size has no longest_edge"},
      {KIND ",\"size\":224}", "size"},
      {KIND ",\"min_pixels\":-1}", "min_pixels"},
      {KIND ",\"patch_size\":0}", "patch_size"},
      {KIND ",\"merge_size\":1.5}", "merge_size"},
      {KIND ",\"temporal_patch_size\":\"2\"}", "temporal_patch_size"},
      {"{\"patch_size\":14}", "image_processor_type"},
      {TYPE("Gemma3") ",\"size\":{\"shortest_edge\":5}}", "size must have height and width"},
      {TYPE("GotOcr2") ",\"min_patches\":5,\"max_patches\":2}", "min_patches is 5"},
      {TYPE("Idefics3") ",\"size\":{\"shortest_edge\":5}}", "size must have longest_edge"},
      {TYPE("SmolVLM") ",\"max_image_size\":{\"longest_edge\":0}}", "longest_edge"},
  };
  accel__image_processor p;
  const char *path = temp_path("preprocessor_config.json");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_ok(accel__file_write(path, bad[i][0], strlen(bad[i][0])));
    if (accel__image_processor_load(temp_directory(), &p) == ACCEL_OK)
      fail_msg("%s is read", bad[i][0]);
    if (!strstr(accel_last_error(), bad[i][1]) ||
        !strstr(accel_last_error(), "preprocessor_config.json"))
      fail_msg("'%s' is not in: %s", bad[i][1], accel_last_error());
  }
  const char *plain = KIND ",\"do_resize\":false}", *usual = KIND "}";
  accel__image image = {0};
  accel__pixels px;
  assert_ok(accel__file_write(path, plain, strlen(plain)));
  assert_ok(accel__image_processor_load(temp_directory(), &p));
  assert_ok(accel__image_new(56, 57, "a picture", &image));
  refused(accel__pixels_of(&p, &image, 1, NULL, &px), ACCEL_ERROR_ARGUMENT,
          "no multiples of patch_size * merge_size, 28");
  accel__image_free(&image);
  assert_ok(accel__file_write(path, usual, strlen(usual)));
  assert_ok(accel__image_processor_load(temp_directory(), &p));
  assert_ok(accel__image_new(2, 401, "a picture", &image));
  refused(accel__pixels_of(&p, &image, 1, NULL, &px), ACCEL_ERROR_ARGUMENT, "too long and thin");
  accel__image_free(&image);
  /* 1 x 15 blocks after growing to 3136 pixels and more */
  assert_ok(accel__image_new(2, 400, "a picture", &image));
  assert_ok(accel__pixels_of(&p, &image, 1, NULL, &px));
  assert_int_equal(px.dim[1], 3 * 2 * 14 * 14);
  assert_int_equal(px.grid[2], 2);
  assert_int_equal(px.dim[0], px.grid[1] * px.grid[2]);
  accel__pixels_free(&px);
  accel__image_free(&image);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(places_by_hand),
                                     cmocka_unit_test(tokens_and_pictures_must_match),
                                     cmocka_unit_test(frames_by_hand),
                                     cmocka_unit_test(videos_and_text_must_match),
                                     cmocka_unit_test(forward_checks_its_inputs),
                                     cmocka_unit_test(configs),
                                     cmocka_unit_test(processors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
