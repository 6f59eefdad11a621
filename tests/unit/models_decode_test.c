/* models_decode_test.c - entry "decode" of every language model's fixture, on the reference plugin
 * and on the CPU plugin: a prompt at once, token by token, in pieces, and beside other sequences
 * gives the numbers that "forward" gives without a session; a copied and a truncated sequence go on
 * as the original would. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "dispatch/endpoint.h"
#include "test_endpoint.h"
#include "models/model_build.h"

enum { LONGEST = 24, SEQUENCES = 3, MAX_VOCAB = 256 };

typedef struct sequence {
  int32_t id, past_len; /* tokens the session holds */
  int32_t token[LONGEST];
  int32_t source[LONGEST]; /* encoder-decoders: what the encoder reads */
  const int32_t *source_rows;
} sequence;

typedef struct fixture {
  accel_endpoint *ep;
  accel_plugin_session *session;
  int64_t vocab;
} fixture;

static const char *const models[][2] = {
    {"llama", "LlamaForCausalLM"},
    {"llama_tied", "LlamaForCausalLM"},
    {"mistral", "MistralForCausalLM"},
    {"qwen2_sliding", "Qwen2ForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},
    {"gemma", "GemmaForCausalLM"},
    {"gemma2", "Gemma2ForCausalLM"},
    {"gemma3", "Gemma3ForCausalLM"},
    {"phi3", "Phi3ForCausalLM"},
    {"mixtral", "MixtralForCausalLM"},
    {"qwen2_moe", "Qwen2MoeForCausalLM"},
    {"qwen3_moe", "Qwen3MoeForCausalLM"},
    {"qwen3_next", "Qwen3NextForCausalLM"},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration"},
    {"gpt_oss", "GptOssForCausalLM"},
    {"olmo3", "Olmo3ForCausalLM"},
    {"cohere2", "Cohere2ForCausalLM"},
    {"smollm3_sliding", "SmolLM3ForCausalLM"},
    {"ministral3", "Ministral3ForCausalLM"},
    {"gpt_neo", "GPTNeoForCausalLM"},
    {"mpt", "MptForCausalLM"},
    {"gpt2", "GPT2LMHeadModel"},
    {"opt", "OPTForCausalLM"},
    {"opt_post_norm", "OPTForCausalLM"},
    {"gpt_neox", "GPTNeoXForCausalLM"},
    {"bloom", "BloomForCausalLM"},
    {"falcon", "FalconForCausalLM"},
    {"falcon_new", "FalconForCausalLM"},
    {"falcon_alibi", "FalconForCausalLM"},
    {"t5", "T5ForConditionalGeneration"},
    {"t5_gated", "T5ForConditionalGeneration"},
    {"bart", "BartForConditionalGeneration"},
    {"mbart", "MBartForConditionalGeneration"},
    {"marian", "MarianMTModel"},
    {"m2m_100", "M2M100ForConditionalGeneration"},
    {"mamba", "MambaForCausalLM"},
    {"mamba2", "Mamba2ForCausalLM"},
    {"pegasus", "PegasusForConditionalGeneration"},
};

/* ---- one run of an entry ---- */

typedef struct packed {
  int32_t lengths[SEQUENCES], token[SEQUENCES * LONGEST], position[SEQUENCES * LONGEST],
      total_len[SEQUENCES * LONGEST], none[SEQUENCES * LONGEST];
  int32_t rows;
} packed;

static void pack(packed *p, const sequence *const *s, const int32_t *rows, uint32_t n,
                 bool encoder) {
  p->rows = 0;
  for (uint32_t i = 0; i < n; i++) {
    p->lengths[i] = rows[i];
    for (int32_t k = 0; k < rows[i]; k++, p->rows++) {
      int32_t at = encoder ? k : s[i]->past_len + k;
      p->token[p->rows] = encoder ? s[i]->source[at] : s[i]->token[at];
      p->position[p->rows] = at;
      p->total_len[p->rows] = (encoder ? 0 : s[i]->past_len) + rows[i];
      p->none[p->rows] = -1;
    }
  }
}

static const int32_t *values_of(const packed *p, const accel__model_input *in) {
  if (in->otherwise == ACCEL__DEFAULT_NONE) return p->none;
  if (in->kind == ACCEL__INPUT_LENGTHS) return p->lengths;
  if (in->otherwise == ACCEL__DEFAULT_TOTAL_LEN) return p->total_len;
  return strstr(in->name, "input_ids") ? p->token : p->position;
}

static const int32_t lengths[SEQUENCES] = {LONGEST, 9, 17}, source_lengths[SEQUENCES] = {7, 12, 5};

/* Output `wanted` of an entry over the next rows[i] tokens of each sequence; session NULL:
 * stateless. */
static void run(const fixture *f, const char *name, accel_plugin_session *session,
                sequence *const *s, const int32_t *rows, uint32_t n, const char *wanted,
                float *result, uint64_t floats) {
  const accel__model_entry *e = accel__model_entry_of(f->ep->model, name);
  assert_non_null(e);
  accel_plugin_view in[8] = {0}, out[80] = {0};
  int32_t ids[SEQUENCES];
  packed p[2]; /* by side */
  bool two = f->ep->model->is_encoder_decoder && !strcmp(name, "forward");
  pack(&p[0], (const sequence *const *)s, two ? s[0]->source_rows : rows, n,
       two || !strcmp(name, "encode"));
  pack(&p[1], (const sequence *const *)s, rows, n, false);
  for (uint32_t i = 0; i < e->n_inputs; i++) {
    int64_t count =
        e->inputs[i].kind == ACCEL__INPUT_LENGTHS ? (int64_t)n : p[e->inputs[i].side].rows;
    in[i] = (accel_plugin_view){
        .size = sizeof in[i], .dtype = ACCEL_PLUGIN_I32, .rank = 1, .dim = {count}};
    in[i].host = (void *)values_of(&p[e->inputs[i].side], &e->inputs[i]);
    in[i].capacity = (uint64_t)count * 4;
  }
  for (uint32_t i = 0; i < e->n_outputs; i++) {
    out[i] = (accel_plugin_view){.size = sizeof out[i]};
    if (strcmp(e->outputs[i].name, wanted)) continue;
    out[i].host = result;
    out[i].capacity = floats * sizeof(float);
  }
  for (uint32_t i = 0; i < n; i++) ids[i] = s[i]->id;
  accel_plugin_run r = {
      .size = sizeof r, .sequence = ids, .n_sequence = session ? n : 0, .host = &f->ep->host};
  while (strcmp(accel__program_view(f->ep->model->program)->entry[r.entry].name, name)) r.entry++;
  accel_plugin_error error = {.size = sizeof error};
  if (f->ep->placed.plugin->handler(f->ep->placed.handle, session, &r, in, e->n_inputs, out,
                                    e->n_outputs, &error))
    fail_msg("%s: %s: %s", f->ep->name, name, error.message);
  if (session && strcmp(name, "encode"))
    for (uint32_t i = 0; i < n; i++) s[i]->past_len += rows[i];
}

/* ---- comparing ---- */

static double rms_of(const float *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum / (double)n);
}

static void compare(const fixture *f, const char *what, const float *got, const float *want,
                    int64_t n) {
  double bound = 1e-4 * rms_of(want, n);
  for (int64_t i = 0; i < n; i++)
    if (!(fabs((double)got[i] - (double)want[i]) <= bound))
      fail_msg("%s: %s: element %lld is %.9g, expected %.9g", f->ep->name, what, (long long)i,
               (double)got[i], (double)want[i]);
}

/* ---- the steps ---- */

typedef struct logits {
  float row[SEQUENCES][LONGEST][MAX_VOCAB];
} logits;

static void start(const fixture *f, sequence *s) {
  for (int i = 0; i < SEQUENCES; i++) {
    s[i].id = 5 + 2 * i;
    s[i].past_len = 0;
    s[i].source_rows = &source_lengths[i];
    for (int k = 0; k < LONGEST; k++) {
      s[i].token[k] = (int32_t)((3 + 7 * k + 11 * i + k * k * (i + 1)) % f->vocab);
      s[i].source[k] = (int32_t)((5 + 3 * k + 13 * i + k * k) % f->vocab);
    }
  }
}

static void forget(const fixture *f, sequence *s) {
  accel_plugin_error error = {.size = sizeof error};
  for (int i = 0; i < SEQUENCES; i++) {
    f->ep->placed.plugin->session_control(f->session, ACCEL_PLUGIN_SESSION_RESET, s[i].id, 0, NULL,
                                          NULL, &error);
    s[i].past_len = 0;
  }
}

static void encode(const fixture *f, sequence *s) {
  static float hidden[LONGEST * MAX_VOCAB];
  if (!f->ep->model->is_encoder_decoder) return;
  for (int i = 0; i < SEQUENCES; i++) {
    sequence *one = &s[i];
    run(f, "encode", f->session, &one, &source_lengths[i], 1, "encoder_last_hidden_state", hidden,
        LONGEST * MAX_VOCAB);
  }
}

/* All logits of every sequence, prompt at once and alone. */
static void at_once(const fixture *f, sequence *s, logits *to) {
  forget(f, s);
  encode(f, s);
  for (int i = 0; i < SEQUENCES; i++) {
    sequence *one = &s[i];
    static float all[LONGEST * MAX_VOCAB];
    run(f, "decode", f->session, &one, &lengths[i], 1, "all_logits", all, LONGEST * MAX_VOCAB);
    for (int k = 0; k < lengths[i]; k++)
      memcpy(to->row[i][k], all + k * f->vocab, (size_t)f->vocab * sizeof(float));
  }
}

static void check_stateless(const fixture *f, sequence *s, const logits *want) {
  static float all[LONGEST * MAX_VOCAB];
  for (int i = 0; i < SEQUENCES; i++) {
    sequence *one = &s[i];
    s[i].past_len = 0;
    run(f, "forward", NULL, &one, &lengths[i], 1, "logits", all, LONGEST * MAX_VOCAB);
    for (int k = 0; k < lengths[i]; k++)
      compare(f, "forward", all + k * f->vocab, want->row[i][k], f->vocab);
  }
}

static void check_one_by_one(const fixture *f, sequence *s, const logits *want) {
  static float last[MAX_VOCAB];
  const int32_t one_row = 1;
  forget(f, s);
  encode(f, s);
  for (int i = 0; i < SEQUENCES; i++)
    for (int k = 0; k < lengths[i]; k++) {
      sequence *one = &s[i];
      run(f, "decode", f->session, &one, &one_row, 1, "logits", last, MAX_VOCAB);
      compare(f, "token by token", last, want->row[i][k], f->vocab);
    }
}

/* All sequences at once, each in pieces of other sizes; one that is done leaves. */
static void check_together(const fixture *f, sequence *s, const logits *want) {
  static const int32_t pieces[] = {3, 1, 5, 1, 1, 6, 2};
  static float last[SEQUENCES * MAX_VOCAB];
  forget(f, s);
  encode(f, s);
  for (int round = 0;
       s[0].past_len < lengths[0] || s[1].past_len < lengths[1] || s[2].past_len < lengths[2];
       round++) {
    sequence *run_of[SEQUENCES];
    int32_t rows[SEQUENCES];
    uint32_t n = 0;
    for (int i = 0; i < SEQUENCES; i++) {
      int32_t left = lengths[i] - s[i].past_len, piece = pieces[(round + 2 * i) % 7];
      if (left == 0) continue;
      run_of[n] = &s[i];
      rows[n++] = piece < left ? piece : left;
    }
    run(f, "decode", f->session, run_of, rows, n, "logits", last, SEQUENCES * MAX_VOCAB);
    for (uint32_t k = 0; k < n; k++)
      compare(f, "together", last + k * f->vocab, want->row[run_of[k] - s][run_of[k]->past_len - 1],
              f->vocab);
  }
}

/* A copy goes on where the original was; a truncated sequence where it is cut (states that can go
 * back only). */
static void check_copies(const fixture *f, sequence *s, const logits *want) {
  static float last[MAX_VOCAB];
  const accel_plugin *plugin = f->ep->placed.plugin;
  accel_plugin_error error = {.size = sizeof error};
  const int32_t most = LONGEST - 4;
  int32_t rest = 4;
  forget(f, s);
  encode(f, s);
  sequence *one = &s[0], copy = s[0], *other = &copy;
  run(f, "decode", f->session, &one, &most, 1, "logits", last, MAX_VOCAB);
  copy = s[0];
  copy.id = 99;
  assert_int_equal(plugin->session_control(f->session, ACCEL_PLUGIN_SESSION_COPY, one->id, copy.id,
                                           NULL, NULL, &error),
                   0);
  run(f, "decode", f->session, &other, &rest, 1, "logits", last, MAX_VOCAB);
  compare(f, "copy", last, want->row[0][LONGEST - 1], f->vocab);
  if (!plugin->session_control(f->session, ACCEL_PLUGIN_SESSION_TRUNCATE, one->id, 8, NULL, NULL,
                               &error)) {
    one->past_len = 8;
    rest = 3;
    run(f, "decode", f->session, &one, &rest, 1, "logits", last, MAX_VOCAB);
    compare(f, "truncated", last, want->row[0][10], f->vocab);
  }
  plugin->session_control(f->session, ACCEL_PLUGIN_SESSION_RESET, copy.id, 0, NULL, NULL, &error);
}

static void check_model(accel *ctx, const char *device, const char *directory,
                        const char *class_name) {
  static logits want;
  static sequence s[SEQUENCES];
  char path[512];
  snprintf(path, sizeof path, "%s/models/%s", ACCEL_FIXTURES, directory);
  accel_init_params how = accel_init_params_default();
  how.device = device;
  how.architecture = class_name;
  fixture f = {0};
  assert_ok(accel_init(ctx, path, &how, &f.ep));
  f.vocab = f.ep->model->vocab_size;
  assert_true(f.vocab <= MAX_VOCAB);
  accel_plugin_error error = {.size = sizeof error};
  assert_int_equal(f.ep->placed.plugin->session_new(f.ep->placed.handle, &f.session, &error), 0);
  start(&f, s);
  at_once(&f, s, &want);
  check_stateless(&f, s, &want);
  check_one_by_one(&f, s, &want);
  check_together(&f, s, &want);
  check_copies(&f, s, &want);
  f.ep->placed.plugin->session_free(f.session);
  accel_cleanup(&f.ep);
}

static void check_all(const char *device) {
  accel *ctx = test_context();
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    check_model(ctx, device, models[i][0], models[i][1]);
  accel_destroy(&ctx);
}

static void test_reference(void **state) {
  (void)state;
  check_all("reference");
}

static void test_cpu(void **state) {
  (void)state;
  if (access(ACCEL_TEST_PLUGINS "/libaccel_cpu.so", R_OK) != 0) skip(); /* not built */
  check_all("cpu");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_cpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
