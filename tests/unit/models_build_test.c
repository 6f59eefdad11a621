/* models_build_test.c - from config to program without files: classes and tasks, refusals by name,
 * labels, the embed entry, checkpoint names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "models/model_build.h"

/* Builds from a JSON text; NULL with the thread's message when refused. */
static accel__model *build_with(const char *text, const char *class_name,
                                const accel__checkpoint *checkpoint,
                                const accel__embed_head *embed) {
  accel__json_file config = {0};
  accel__model *model = NULL;
  assert_int_equal(accel__json_parse(text, strlen(text), "config.json", &config), ACCEL_OK);
  accel__model_request request = {
      .config = &config, .checkpoint = checkpoint, .architecture = class_name, .embed = embed};
  accel_status status = accel__model_build(&request, &model);
  assert_int_equal(status == ACCEL_OK, model != NULL);
  accel__json_free(&config);
  return model;
}
static accel__model *build(const char *text, const char *class_name) {
  return build_with(text, class_name, NULL, NULL);
}

static void expect_refusal(const char *text, const char *class_name, const char *part) {
  accel__model *model = build(text, class_name);
  if (model != NULL) fail_msg("built, though it should say: %s", part);
  if (strstr(accel__message(), part) == NULL)
    fail_msg("'%s' is not in: %s", part, accel__message());
}

#define ESM "\"model_type\":\"esm\",\"vocab_size\":33,\"pad_token_id\":1"
#define BERT                                                                                    \
  "\"model_type\":\"bert\",\"vocab_size\":31,\"hidden_size\":12,\"num_hidden_layers\":1,\"num_" \
  "attention_heads\":3,"                                                                        \
  "\"intermediate_size\":7"

static bool has_weight(const accel__model *m, const char *name) {
  const accel_plugin_program *p = accel__program_view(m->program);
  for (uint32_t i = 0; i < p->n_weight; i++) {
    if (strcmp(p->weight[i].name, name) == 0) return true;
  }
  return false;
}

#define SECTIONS ",\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[1,1,0]}"

/* Two layers of twelve numbers, by the names that the families have for that. */
#define SMALL                                                                                   \
  "\"vocab_size\":31,\"pad_token_id\":1,\"hidden_size\":12,\"dim\":12,\"embedding_size\":12,"   \
  "\"num_hidden_layers\":2,\"n_layers\":2,\"num_attention_heads\":3,\"num_key_value_heads\":3," \
  "\"rotary_pct\":1.0,\"partial_rotary_factor\":1.0,\"rotary_dim\":4,"                          \
  "\"attention_types\":[[[\"local\"],2]],\"encoder_attention_heads\":3,"                        \
  "\"decoder_attention_heads\":3,\"d_model\":12,\"num_conv_pos_embedding_groups\":3,"           \
  "\"n_heads\":3,\"intermediate_size\":7,\"hidden_dim\":7,\"relative_attention\":true,"         \
  "\"pos_att_type\":[\"c2p\",\"p2c\"]"

/* What some classes need besides. */
static const struct {
  const char *begins, *more;
} special[] = {
    {"Mamba2", ",\"num_heads\":3,\"head_dim\":8,\"n_groups\":3"},
    {"Mistral3",
     ",\"text_config\":{\"hidden_size\":12,\"num_attention_heads\":3,\"num_key_value_heads\":3}"},
    {"Qwen3_5",
     ",\"text_config\":{\"hidden_size\":12,\"num_attention_heads\":3,\"num_key_value_heads\":3}"},
    {"Qwen2VL", ",\"vision_config\":{\"hidden_size\":12}" SECTIONS},
    {"Qwen2_5_VL", ",\"vision_config\":{\"out_hidden_size\":12}" SECTIONS},
    {"Gemma3", ",\"mm_tokens_per_image\":16"},
    {"Qwen3VLMoe", ",\"vision_config\":{\"out_hidden_size\":2048}"},
    {"Qwen3VL", ",\"vision_config\":{\"out_hidden_size\":4096}"},
    {"ChronosBolt",
     ",\"chronos_config\":{\"context_length\":8,\"prediction_length\":2,\"input_patch_size\":2,"
     "\"input_patch_stride\":2,\"quantiles\":[0.5]}"},
    {"Moonshine", ",\"encoder_num_attention_heads\":3,\"decoder_num_attention_heads\":3"},
    {"Florence2", ",\"text_config\":{\"vocab_size\":51290}"},
    {"LayoutLMv3", ",\"coordinate_size\":2,\"shape_size\":2"},
    {"VisionEncoderDecoder",
     ",\"encoder\":{\"model_type\":\"vit\",\"hidden_size\":12,\"num_attention_heads\":3},"
     "\"decoder\":{\"model_type\":\"trocr\",\"d_model\":12,\"decoder_attention_heads\":3,"
     "\"cross_attention_hidden_size\":12}"},
};

/* num_attention_heads is a list for these, or d_model too small, or their libraries name them
 * otherwise: their defaults will do. */
static const char *const by_defaults[] = {
    "Clap", "Swin",          "Segformer",           "UNet",       "StableDiffusion",
    "SD3",  "Flux",          "DonutSwin",           "MobileBert", "RTDetr",
    "DPT",  "DepthAnything", "DetrForSegmentation", NULL};

static bool begins_with_one_of(const char *name, const char *const *list) {
  for (; *list; list++)
    if (strncmp(name, *list, strlen(*list)) == 0) return true;
  return false;
}

static const char *more_of(const char *name) {
  for (size_t i = 0; i < sizeof special / sizeof *special; i++)
    if (strncmp(name, special[i].begins, strlen(special[i].begins)) == 0) return special[i].more;
  return "";
}

/* Fields that transformers works out from others rank over these where a config says them. */
static void test_worked_out_fields(void **state) {
  (void)state;
  accel__model *t5 = build(
      "{\"model_type\":\"t5\",\"feed_forward_proj\":\"relu\",\"is_gated_act\":true,"
      "\"dense_act_fn\":\"tanh\"}",
      "T5EncoderModel");
  assert_non_null(t5);
  assert_true(has_weight(t5, "encoder.block.0.layer.1.DenseReluDense.wi_1.weight"));
  accel__model_free(&t5);
  expect_refusal("{\"model_type\":\"t5\",\"dense_act_fn\":\"prelu\"}", "T5EncoderModel",
                 "'dense_act_fn'");
  accel__model *mamba = build("{\"model_type\":\"mamba\",\"intermediate_size\":7}", "MambaModel");
  assert_non_null(mamba);
  const accel_plugin_program *p = accel__program_view(mamba->program);
  bool found = false;
  for (uint32_t i = 0; i < p->n_weight; i++)
    found |= strcmp(p->weight[i].name, "layers.0.mixer.out_proj.weight") == 0 &&
             p->weight[i].dim[1] == 7;
  assert_true(found);
  accel__model_free(&mamba);
  accel__model *words = build(
      "{\"model_type\":\"deberta-v2\",\"hidden_size\":12,\"num_attention_heads\":3,"
      "\"pooler_hidden_size\":7,\"max_relative_positions\":-2}",
      "DebertaV2ForMaskedLM");
  assert_non_null(words); /* which has no pooler, and all positions are relative ones */
  accel__model_free(&words);
}

static void test_every_class(void **state) {
  (void)state;
  uint32_t n;
  const char *const *names = accel__model_architectures(&n);
  assert_true(n > 40);
  for (uint32_t i = 0; i < n; i++) {
    char config[1200];
    const bool bare = begins_with_one_of(names[i], by_defaults);
    if (bare)
      snprintf(config, sizeof config, "{\"architectures\":[\"%s\"]}", names[i]);
    else
      snprintf(config, sizeof config, "{\"architectures\":[\"%s\"]," SMALL "%s}", names[i],
               more_of(names[i]));
    accel__model *m = build(config, NULL);
    if (m == NULL) fail_msg("%s: %s", names[i], accel__message());
    assert_string_equal(m->architecture, names[i]);
    assert_true(m->n_inputs >= 1 && m->n_outputs >= 1);
    if (strcmp(m->inputs[0].name, "lengths") == 0) { /* text: packed rows */
      if (m->n_inputs < 2 || m->n_outputs < 2)
        fail_msg("%s: %u inputs, %u outputs", names[i], m->n_inputs, m->n_outputs);
      assert_string_equal(m->inputs[1].name, "input_ids");
      bool towers = bare; /* each with a config of its own */
      for (uint32_t k = 0; k < m->n_inputs; k++) towers |= m->inputs[k].kind == ACCEL__INPUT_ITEM;
      if (!towers) assert_int_equal(m->hidden_size, 12);
    }
    assert_non_null(m->task);
    accel__model_free(&m);
    assert_null(m);
  }
}

static void test_choice(void **state) {
  (void)state;
  accel__model *m = build("{" BERT "}", NULL); /* no architectures: the base class */
  assert_string_equal(m->architecture, "BertModel");
  assert_string_equal(m->task, "feature-extraction");
  accel__model_free(&m);
  /* the request wins */
  m = build("{" BERT ",\"architectures\":[\"BertForMaskedLM\"]}", "BertForQuestionAnswering");
  assert_string_equal(m->task, "question-answering");
  accel__model_free(&m);
  expect_refusal(
      "{" BERT ",\"architectures\":[\"BertForMaskdLM\"]}", NULL,
      "class 'BertForMaskdLM' is not supported; the nearest supported one is 'BertForMaskedLM'");
  expect_refusal("{\"model_type\":\"brt\"}", NULL,
                 "model_type 'brt' is not supported; the nearest supported one is 'bert'");
  expect_refusal("{\"hidden_size\":4}", NULL, "has neither 'model_type' nor 'architectures'");
  expect_refusal("[1]", NULL, "not a JSON object");
  expect_refusal("{\"model_type\":7}", NULL, "model_type");
}

static const char *const decoder_refusals[][2] = {
    {"{\"model_type\":\"olmo\",\"clip_qkv\":-1}", "field 'clip_qkv' is negative"},
    {"{\"model_type\":\"olmo3\",\"num_hidden_layers\":1,\"layer_types\":[\"chunked\"]}",
     "field 'layer_types': 'chunked' is not supported"},
    {"{\"model_type\":\"qwen3_next\",\"num_hidden_layers\":1,\"layer_types\":[\"sliding_"
     "attention\"]}",
     "field 'layer_types': 'sliding_attention' is not supported; known: full_attention"},
    {"{\"model_type\":\"qwen3_next\",\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\"]}",
     "field 'layer_types' has not one entry per layer"},
    {"{\"model_type\":\"qwen3_5_text\",\"linear_num_key_heads\":5}",
     "field 'linear_num_key_heads' (5) does not divide 'linear_num_value_heads' (32)"},
    {"{\"model_type\":\"qwen3_5_text\",\"attn_output_gate\":false}",
     "field 'attn_output_gate': false is not supported"},
    {"{\"model_type\":\"qwen3_5_moe_text\",\"num_experts\":4}",
     "field 'num_experts_per_tok' (8) is more than the 4 experts"},
    {"{\"model_type\":\"qwen3_5\"}", "field 'text_config' is missing"},
    {"{\"model_type\":\"granite\",\"logits_scaling\":0}", "field 'logits_scaling'"},
    {"{\"model_type\":\"cohere\",\"logit_scale\":0}", "field 'logit_scale' is 0"},
    {"{\"model_type\":\"smollm3\",\"no_rope_layers\":[1,1]}",
     "field 'no_rope_layers' has fewer entries than there are layers"},
    {"{\"model_type\":\"smollm3\",\"num_hidden_layers\":1,\"no_rope_layers\":[\"yes\"]}",
     "field 'no_rope_layers' holds what is neither 0 nor 1"},
    {"{\"model_type\":\"stablelm\",\"hidden_size\":10,\"num_attention_heads\":3}",
     "'num_attention_heads' (3) does not divide 'hidden_size' (10)"},
    {"{\"model_type\":\"ministral3\",\"hidden_act\":\"foo\"}",
     "field 'hidden_act': activation 'foo' is not supported"},
    {"{\"model_type\":\"granitemoe\",\"num_local_experts\":2,\"num_experts_per_tok\":3}",
     "field 'num_experts_per_tok' (3) is more than the 2 experts"},
    {"{\"model_type\":\"gpt_oss\",\"swiglu_limit\":0}", "'swiglu_limit' is not positive"},
    {"{\"model_type\":\"gptj\",\"n_embd\":32,\"n_head\":4}",
     "field 'rotary_dim' (64) is more than a head's 8 columns"},
    {"{\"model_type\":\"gpt_neo\",\"num_layers\":3}",
     "field 'attention_types' is missing, which is for 24 layers"},
    {"{\"model_type\":\"gpt_neo\",\"num_layers\":3,\"attention_types\":[[[\"local\"],2]]}",
     "field 'attention_types' is not for 3 layers"},
    {"{\"model_type\":\"gpt_neo\",\"attention_types\":[[[\"banded\"],24]]}",
     "field 'attention_types': known types are global and local"},
    {"{\"model_type\":\"mistral3\"}", "field 'text_config' is missing"},
    {"{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":\"foo\"}}",
     "field 'text_config.model_type': 'foo' is not supported; known: llama, "},
    {"{\"model_type\":\"mpt\",\"attn_config\":{\"clip_qkv\":-2}}",
     "field 'attn_config.clip_qkv' is negative"},
};

#define FLORENCE "{\"model_type\":\"florence2\","
#define DONUT \
  "{\"model_type\":\"vision-encoder-decoder\",\"encoder\":{\"model_type\":\"donut-swin\""

static const char *const document_refusals[][2] = {
    {FLORENCE "\"vision_config\":{\"model_type\":\"davit\"}}",
     "field 'vision_config.model_type': 'davit' is a checkpoint of the repository's own code"},
    {FLORENCE "\"vision_config\":{\"model_type\":\"swin\"}}",
     "field 'vision_config.model_type': 'swin' is not supported; known: florence_vision"},
    {FLORENCE "\"vision_config\":7}", "vision_config"},
    {FLORENCE "\"vision_config\":{\"embed_dim\":[]}}", "field 'embed_dim' has 0 entries"},
    {FLORENCE "\"vision_config\":{\"embed_dim\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}",
     "field 'embed_dim' has 17 entries"},
    {FLORENCE "\"vision_config\":{\"embed_dim\":[128,256,512,1024,1024]}}",
     "field 'depths' is missing, which 'embed_dim' has 5 stages for"},
    {FLORENCE "\"vision_config\":{\"embed_dim\":[8,8,8],\"depths\":[1,1,1,1]}}",
     "field 'depths' has 4 entries, expected 3"},
    {FLORENCE "\"vision_config\":{\"embed_dim\":[128,256,512,-1]}}", "embed_dim"},
    {FLORENCE "\"vision_config\":{\"embed_dim\":[128,256,512,1024.5]}}", "embed_dim"},
    {FLORENCE "\"vision_config\":{\"num_heads\":[3,8,16,32]}}",
     "'num_heads' (3) does not divide 'embed_dim' (128)"},
    {FLORENCE "\"vision_config\":{\"num_groups\":[4,8,16,31]}}",
     "'num_groups' (31) does not divide 'embed_dim' (1024)"},
    {FLORENCE "\"vision_config\":{\"patch_stride\":[4,2,0,2]}}", "patch_stride"},
    {FLORENCE "\"vision_config\":{\"patch_padding\":[3,1,-1,1]}}", "patch_padding"},
    {FLORENCE "\"vision_config\":{\"patch_size\":[7,3,3,4294967299]}}", "patch_size"},
    {FLORENCE "\"vision_config\":{\"patch_prenorm\":[false,true,1,true]}}",
     "field 'patch_prenorm': entry 2 is neither true nor false"},
    {FLORENCE "\"vision_config\":{\"depths\":[1,1,1000000,1]}}", "depths"},
    {FLORENCE "\"vision_config\":{\"window_size\":0}}", "window_size"},
    {FLORENCE "\"vision_config\":{\"mlp_ratio\":-1e300}}", "field 'mlp_ratio'"},
    {FLORENCE "\"vision_config\":{\"projection_dim\":0}}", "projection_dim"},
    {FLORENCE "\"vision_config\":{\"max_position_embeddings\":0}}", "max_position_embeddings"},
    {FLORENCE "\"vision_config\":{\"activation_function\":\"maxout\"}}",
     "activation 'maxout' is not supported"},
    {FLORENCE "\"text_config\":{\"model_type\":\"t5\"}}",
     "field 'text_config.model_type': 't5' is not supported; known: bart"},
    {FLORENCE "\"text_config\":{\"d_model\":768}}",
     "field 'text_config.d_model' is 768, vision_config.projection_dim 1024"},
    {FLORENCE "\"text_config\":{\"encoder_attention_heads\":7}}", "encoder_attention_heads"},
    {FLORENCE "\"image_token_id\":51289}",
     "field 'image_token_id' is 51289, text_config.vocab_size 50265"},
    {FLORENCE "\"image_token_id\":-5}", "image_token_id"},
    {"{\"model_type\":\"layoutlmv3\",\"input_size\":15}",
     "field 'input_size' (15) is less than 'patch_size', 16"},
    {"{\"model_type\":\"layoutlmv3\",\"input_size\":1048576}",
     "field 'input_size' (1048576) makes 65536 patches of 'patch_size' 16 to a side"},
    {"{\"model_type\":\"layoutlmv3\",\"coordinate_size\":-128}", "coordinate_size"},
    {"{\"model_type\":\"layoutlmv3\",\"rel_pos_bins\":0}", "rel_pos_bins"},
    {"{\"model_type\":\"layoutlmv3\",\"rel_2d_pos_bins\":3}", "rel_2d_pos_bins"},
    {"{\"model_type\":\"layoutlmv3\",\"max_2d_position_embeddings\":0}",
     "max_2d_position_embeddings"},
    {"{\"model_type\":\"layoutlmv3\",\"max_position_embeddings\":2}", "leaves no position"},
    {"{\"model_type\":\"layoutlmv3\",\"text_embed\":false,\"visual_embed\":false}",
     "field 'text_embed': false"},
    {"{\"model_type\":\"layoutlmv3\",\"has_spatial_attention_bias\":\"yes\"}",
     "has_spatial_attention_bias"},
    {"{\"model_type\":\"donut-swin\",\"patch_size\":1048576}",
     "field 'patch_size' (1048576) needs pictures of more than 1048576 pixels"},
    {"{\"model_type\":\"donut-swin\",\"num_heads\":[3,6,12]}",
     "field 'num_heads' has 3 entries, expected 4"},
    {"{\"model_type\":\"donut-swin\",\"window_size\":0}", "window_size"},
    {"{\"model_type\":\"donut-swin\",\"image_size\":[0,640]}", "image_size"},
    {"{\"model_type\":\"donut-swin\",\"mlp_ratio\":0}", "mlp_ratio"},
    {DONUT "}}", "field 'decoder.model_type': '' is not supported"},
    {DONUT ",\"embed_dim\":-128},\"decoder\":{\"model_type\":\"mbart\"}}", "embed_dim"},
    {DONUT "},\"decoder\":{\"model_type\":\"mbart\",\"d_model\":0}}", "d_model"},
    {DONUT "},\"decoder\":{\"model_type\":\"mbart\",\"decoder_layers\":-1}}", "decoder_layers"},
};

static void test_refusals(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"{" BERT ",\"hidden_act\":\"foo\"}",
       "field 'hidden_act': activation 'foo' is not supported; known: gelu, "},
      {"{" BERT ",\"hidden_act\":\"laplace\"}", "activation 'laplace' is not supported"},
      {"{" BERT ",\"is_decoder\":true}", "field 'is_decoder': true is not supported"},
      {"{" BERT ",\"add_cross_attention\":true}", "field 'add_cross_attention'"},
      {"{" BERT ",\"position_embedding_type\":\"relative_key\"}",
       "field 'position_embedding_type': 'relative_key' is not supported"},
      {"{" BERT ",\"pruned_heads\":{\"0\":[1]}}", "field 'pruned_heads' is not empty"},
      {"{\"model_type\":\"bert\",\"hidden_size\":10,\"num_attention_heads\":3}",
       "'num_attention_heads' (3) does not divide 'hidden_size' (10)"},
      {"{\"model_type\":\"bert\",\"hidden_size\":\"big\"}", "hidden_size"},
      {"{\"model_type\":\"bert\",\"hidden_size\":1e300}", "hidden_size"},
      {"{\"model_type\":\"bert\",\"vocab_size\":-3}", "vocab_size"},
      {"{\"model_type\":\"bert\",\"num_hidden_layers\":1000000}", "num_hidden_layers"},
      {"{\"model_type\":\"roberta\",\"max_position_embeddings\":2,\"pad_token_id\":1}",
       "leaves no position"},
      {"{\"model_type\":\"mpnet\",\"relative_attention_num_buckets\":16}",
       "relative_attention_num_buckets"},
      {"{\"model_type\":\"deberta-v2\",\"pos_att_type\":[\"p2p\"]}",
       "field 'pos_att_type': 'p2p' is not supported"},
      {"{\"model_type\":\"deberta-v2\",\"conv_kernel_size\":4}", "field 'conv_kernel_size'"},
      {"{\"model_type\":\"deberta-v2\",\"architectures\":[\"DebertaV2ForSequenceClassification\"],"
       "\"pooler_hidden_size\":5}",
       "field 'pooler_hidden_size'"},
      {"{\"model_type\":\"modernbert\",\"layer_types\":[\"full_attention\"]}",
       "field 'layer_types' has not one entry per layer"},
      {"{\"model_type\":\"modernbert\",\"num_hidden_layers\":1,\"layer_types\":[\"linear_"
       "attention\"]}",
       "'linear_attention' is not supported"},
      {"{\"model_type\":\"modernbert\",\"classifier_pooling\":\"max\"}",
       "field 'classifier_pooling': 'max'"},
      {"{\"model_type\":\"modernbert\",\"rope_scaling\":{\"rope_type\":\"axial\"}}",
       "rope type 'axial' is not supported; known: default, linear"},
      {"{\"model_type\":\"nomic_bert\",\"n_embd\":12,\"n_head\":3,\"prenorm\":true}",
       "field 'prenorm'"},
      {"{\"model_type\":\"nomic_bert\",\"n_embd\":12,\"n_head\":3,\"num_experts\":8}",
       "field 'num_experts'"},
      {"{\"model_type\":\"nomic_bert\",\"n_embd\":12,\"n_head\":3,\"causal\":true}",
       "field 'causal'"},
      {"{\"model_type\":\"esm\",\"pad_token_id\":1}", "field 'vocab_size' is missing"},
      {"{\"model_type\":\"esm\",\"vocab_size\":33}", "field 'pad_token_id' is missing"},
      {"{" ESM ",\"token_dropout\":true}", "field 'mask_token_id' is missing"},
      {"{" ESM ",\"is_folding_model\":true}", "field 'is_folding_model'"},
      {"{" ESM ",\"position_embedding_type\":\"relative_key\"}",
       "field 'position_embedding_type': 'relative_key' is not supported; known: absolute, rotary"},
      {"{" ESM ",\"max_position_embeddings\":2}", "leaves no position"},
      {"{\"model_type\":\"eurobert\",\"classifier_pooling\":\"max\"}",
       "field 'classifier_pooling': 'max'"},
      {"{\"model_type\":\"mobilebert\",\"normalization_type\":\"rms\"}",
       "field 'normalization_type': 'rms'"},
      {"{\"model_type\":\"mobilebert\",\"key_query_shared_bottleneck\":false}",
       "field 'key_query_shared_bottleneck': false is not supported"},
      {"{\"model_type\":\"mobilebert\",\"embedding_size\":1000}", "field 'embedding_size' (1000)"},
      {"{\"model_type\":\"mobilebert\",\"num_attention_heads\":5}",
       "'num_attention_heads' (5) does not divide 'intra_bottleneck_size' (128)"},
      {"{\"model_type\":\"layoutlmv3\",\"shape_size\":7}",
       "4 'coordinate_size' (128) and 2 'shape_size' (7) do not make 'hidden_size', 768"},
      {"{\"model_type\":\"layoutlmv3\",\"max_rel_2d_pos\":16}",
       "field 'max_rel_2d_pos': 16 is not above a quarter of 64, 'rel_2d_pos_bins'"},
      {"{\"model_type\":\"layoutlmv3\",\"patch_size\":[16,16]}", "patch_size"},
      {"{\"model_type\":\"layoutlmv3\",\"text_embed\":false,\"architectures\":"
       "[\"LayoutLMv3ForQuestionAnswering\"]}",
       "field 'text_embed': false, but a LayoutLMv3ForQuestionAnswering reads words"},
      {"{\"model_type\":\"donut-swin\",\"use_absolute_embeddings\":true}",
       "field 'use_absolute_embeddings': true is not supported"},
      {"{\"model_type\":\"vision-encoder-decoder\",\"encoder\":{\"model_type\":\"beit\"}}",
       "field 'encoder.model_type': 'beit' is not supported; known: vit, deit, swin, donut-swin"},
      {"{\"model_type\":\"vision-encoder-decoder\",\"encoder\":{\"model_type\":\"donut-swin\"},"
       "\"decoder\":{\"model_type\":\"bert\"}}",
       "field 'decoder.model_type': 'bert' is not supported; known: trocr, mbart, gpt2"},
      {"{\"model_type\":\"vision-encoder-decoder\",\"encoder\":{\"model_type\":\"vit\"},"
       "\"decoder\":{\"model_type\":\"gpt2\"}}",
       "field 'decoder.add_cross_attention' must be true"},
      {"{\"model_type\":\"vision-encoder-decoder\",\"encoder\":{\"model_type\":\"vit\"},"
       "\"decoder\":{\"model_type\":\"gpt2\",\"add_cross_attention\":true,\"n_embd\":24,"
       "\"n_head\":2,\"cross_attention_hidden_size\":768}}",
       "field 'cross_attention_hidden_size' is 768, the decoder's width 24"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    expect_refusal(cases[i][0], NULL, cases[i][1]);
  for (size_t i = 0; i < sizeof decoder_refusals / sizeof *decoder_refusals; i++)
    expect_refusal(decoder_refusals[i][0], NULL, decoder_refusals[i][1]);
  for (size_t i = 0; i < sizeof document_refusals / sizeof *document_refusals; i++)
    expect_refusal(document_refusals[i][0], NULL, document_refusals[i][1]);
  expect_refusal("{" BERT ",\"num_labels\":3}", "BertForQuestionAnswering", "num_labels 2");
  expect_refusal("{" BERT ",\"problem_type\":\"ranking\"}", "BertForSequenceClassification",
                 "field 'problem_type': 'ranking' is unknown");
}

/* What tokenizers and processors write beside a model's inputs is left unread, as forwards do. */
static void test_unread(void **state) {
  (void)state;
  static const struct {
    const char *config, *class_name, *input;
    bool unread;
  } cases[] = {
      {"{\"model_type\":\"distilbert\"}", "DistilBertModel", "token_type_ids", true},
      {"{\"model_type\":\"llama\"}", "LlamaForCausalLM", "token_type_ids", true},
      {"{\"model_type\":\"gpt_neox\"}", "GPTNeoXModel", "token_type_ids", true},
      {"{\"model_type\":\"gpt2\"}", "GPT2Model", "token_type_ids", false},
      {"{\"model_type\":\"gptj\"}", "GPTJModel", "token_type_ids", false},
      {"{\"model_type\":\"gpt_neo\"}", "GPTNeoModel", "token_type_ids", false},
      {"{\"model_type\":\"vit\"}", "ViTModel", "token_type_ids", false},
      {"{" BERT "}", "BertModel", "special_tokens_mask", true},
      {"{" BERT "}", "BertModel", "offset_mapping", true},
      {"{" BERT "}", "BertModel", "special_token_mask", false},
      {"{" BERT "}", "BertModel", "inputs_embeds", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    accel__model *m = build(cases[i].config, cases[i].class_name);
    assert_non_null(m);
    if (accel__model_leaves_unread(m, cases[i].input) != cases[i].unread)
      fail_msg("%s of a %s", cases[i].input, cases[i].class_name);
    accel__model_free(&m);
  }
}

static void test_labels(void **state) {
  (void)state;
  accel__model *m = build("{" BERT
                          ",\"id2label\":{\"1\":\"yes\",\"0\":\"no\",\"2\":\"perhaps\"},\"problem_"
                          "type\":\"multi_label_classification\"}",
                          "BertForSequenceClassification");
  assert_int_equal(m->num_labels, 3);
  assert_string_equal(m->labels[0], "no");
  assert_string_equal(m->labels[2], "perhaps");
  assert_string_equal(m->problem_type, "multi_label_classification");
  accel__model_free(&m);
  m = build("{" BERT ",\"num_labels\":4}", "BertForTokenClassification");
  assert_int_equal(m->num_labels, 4);
  assert_string_equal(m->labels[3], "LABEL_3");
  accel__model_free(&m);
  expect_refusal("{" BERT ",\"id2label\":{\"0\":\"a\",\"7\":\"b\"}}", "BertForTokenClassification",
                 "field 'id2label': key '7'");
  expect_refusal("{" BERT ",\"id2label\":{\"0\":1}}", "BertForTokenClassification",
                 "label 0 is no string");
  m = build("{" BERT ",\"id2label\":{\"5\":\"left over\"}}", "BertModel"); /* not its business */
  assert_non_null(m);
  accel__model_free(&m);
}

static void test_positions(void **state) {
  (void)state;
  accel__model *m = build(
      "{\"model_type\":\"roberta\",\"max_position_embeddings\":514,\"hidden_size\":12,\"num_"
      "attention_heads\":3,\"num_"
      "hidden_layers\":1}",
      NULL);
  assert_int_equal(m->max_positions, 512); /* after pad_token_id 1 */
  assert_int_equal(m->inputs[3].otherwise, ACCEL__DEFAULT_ROBERTA);
  assert_int_equal(m->inputs[3].max, 514);
  accel__model_free(&m);
  m = build("{" BERT "}", NULL);
  assert_int_equal(m->inputs[3].otherwise, ACCEL__DEFAULT_ARANGE);
  assert_int_equal(m->inputs[1].max, 31);
  accel__model_free(&m);
}

/* What a config class has where config.json is silent. */
static void test_ends(void **state) {
  (void)state;
  accel__model *m = build("{\"model_type\":\"glm\",\"num_hidden_layers\":0}", "GlmForCausalLM");
  assert_int_equal(m->n_eos, 3);
  assert_int_equal(m->eos_ids[2], 151338);
  accel__model_free(&m);
  m = build("{\"model_type\":\"glm\",\"num_hidden_layers\":0,\"eos_token_id\":7}",
            "GlmForCausalLM");
  assert_int_equal(m->n_eos, 1);
  accel__model_free(&m);
  m = build("{\"model_type\":\"gpt_oss\",\"num_hidden_layers\":0}", "GptOssForCausalLM");
  assert_int_equal(m->n_eos, 0);
  accel__model_free(&m);
}

static void test_embed(void **state) {
  (void)state;
  accel__dense dense[] = {{.in = 36,
                           .out = 5,
                           .bias = true,
                           .activation = ACCEL_PLUGIN_ACT_TANH,
                           .weight = "2_Dense/linear.weight",
                           .bias_name = "2_Dense/linear.bias"}};
  accel__embed_head head = {
      .pooling = {ACCEL__POOL_CLS, ACCEL__POOL_WEIGHTED_MEAN, ACCEL__POOL_MEAN_SQRT_LEN},
      .n_pooling = 3,
      .dense = dense,
      .n_dense = 1,
      .normalize = true};
  accel__model *m =
      build_with("{" BERT ",\"architectures\":[\"BertForMaskedLM\"]}", NULL, NULL, &head);
  assert_non_null(m);
  assert_string_equal(m->architecture, "BertModel"); /* sentence embeddings use the base class */
  const accel_plugin_program *p = accel__program_view(m->program);
  assert_int_equal(p->n_entry, 2);
  assert_string_equal(p->entry[1].name, "embed");
  assert_int_equal(p->entry[1].n_in, p->entry[0].n_in);
  const accel_plugin_tensor *out = &p->tensor[p->entry[1].out[0]];
  assert_string_equal(out->name, "embeddings");
  assert_int_equal(out->rank, 2);
  assert_int_equal(p->dim[out->dim[1]].c, 5);
  assert_true(has_weight(m, "2_Dense/linear.weight"));
  accel__model_free(&m);
  dense[0].in = 24;
  assert_null(build_with("{" BERT "}", NULL, NULL, &head));
  assert_non_null(strstr(accel__message(), "takes 24 columns, but 36 come to it"));
}

static void test_names(void **state) {
  (void)state;
  /* canonical names of the head class; decoder tied */
  accel__model *m = build("{" BERT "}", "BertForMaskedLM");
  assert_true(has_weight(m, "bert.embeddings.word_embeddings.weight"));
  assert_true(has_weight(m, "cls.predictions.bias"));
  assert_false(has_weight(m, "cls.predictions.decoder.weight"));
  accel__model_free(&m);
  m = build("{" BERT ",\"tie_word_embeddings\":false}", "BertForMaskedLM");
  assert_true(has_weight(m, "cls.predictions.decoder.weight"));
  accel__model_free(&m);
  m = build("{" BERT "}", "BertModel");
  assert_true(has_weight(m, "embeddings.LayerNorm.weight"));
  assert_true(has_weight(m, "pooler.dense.weight"));
  accel__model_free(&m);
  accel__checkpoint *checkpoint = NULL;
  assert_int_equal(accel__checkpoint_open(ACCEL_FIXTURES "/models/bert_old_names", &checkpoint),
                   ACCEL_OK);
  m = build_with("{" BERT "}", "BertModel", checkpoint, NULL);
  assert_true(has_weight(m, "bert.embeddings.LayerNorm.gamma"));
  accel__model_free(&m);
  accel__checkpoint_close(&checkpoint);
  assert_int_equal(accel__checkpoint_open(ACCEL_FIXTURES "/models/bert_no_pooler", &checkpoint),
                   ACCEL_OK);
  m = build_with("{" BERT "}", "BertModel", checkpoint, NULL);
  for (uint32_t i = 0; i < m->n_outputs; i++)
    assert_string_not_equal(m->outputs[i].name, "pooler_output");
  accel__model_free(&m);
  accel__checkpoint_close(&checkpoint);
}

/* A fused Wqkv becomes three linears over rows of one stored tensor. */
static void test_fused(void **state) {
  (void)state;
  accel__model *m = build(
      "{\"model_type\":\"modernbert\",\"hidden_size\":12,\"num_attention_heads\":3,\"num_hidden_"
      "layers\":1,\"attention_"
      "bias\":true}",
      "ModernBertModel");
  const accel_plugin_program *p = accel__program_view(m->program);
  uint32_t slices = 0;
  for (uint32_t i = 0; i < p->n_weight; i++) {
    const accel__weight_spec *s = accel__weight_source(m->program, i);
    if (s->stored_rows == 0) continue;
    assert_int_equal(s->stored_rows, 36);
    assert_int_equal(s->dim[0], 12);
    assert_int_equal(s->first_row % 12, 0);
    slices++;
  }
  assert_int_equal(slices, 6);
  accel__model_free(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_class), cmocka_unit_test(test_worked_out_fields),
      cmocka_unit_test(test_choice),      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_unread),      cmocka_unit_test(test_labels),
      cmocka_unit_test(test_positions),   cmocka_unit_test(test_ends),
      cmocka_unit_test(test_embed),       cmocka_unit_test(test_names),
      cmocka_unit_test(test_fused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
