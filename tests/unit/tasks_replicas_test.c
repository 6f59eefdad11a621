/* tasks_replicas_test.c - one model on several devices: the results are those of one device, bit by
 * bit where the devices are the same, also when some of them are lost on the way. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "core/config.h"
#include "dispatch/replicas.h"
#include "processing/item_run.h"
#include "processing/processor.h"
#include "tasks/open.h"
#include "test_endpoint.h"

#define EMBEDDER ACCEL_FIXTURES "/tasks/st_mean"
#define WRITER   ACCEL_FIXTURES "/pipelines/text"

enum { TEXTS = 400, PROMPTS = 9, REPLICAS = 3 };

static accel_endpoint *open_on(accel *ctx, const char *model, const char *device) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep = NULL;
  how.device = device;
  how.queue_capacity = 64;
  assert_ok(accel_init(ctx, model, &how, &ep));
  return ep;
}

/* Processors that are all in, as cards are, so that each has something to do. */
static accel_endpoint *open_replicas(accel *ctx, const char *model) {
  static const bool on_trial[REPLICAS];
  accel_endpoint *ep[REPLICAS];
  for (int i = 0; i < REPLICAS; i++) ep[i] = open_on(ctx, model, "cpu");
  assert_ok(accel__replicas_new(ep[0], ep + 1, REPLICAS, on_trial));
  accel__endpoint_to_front(ep[0]);
  assert_int_equal(accel_replica_count(ep[0]), REPLICAS);
  return ep[0];
}

static accel_replica_stats stats_of(const accel_endpoint *ep, uint32_t i) {
  accel_replica_stats s = {.size = sizeof s};
  assert_ok(accel_replica_statistics(ep, i, &s));
  return s;
}

static uint32_t count_standing(const accel_endpoint *ep, int32_t standing) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < REPLICAS; i++) n += stats_of(ep, i).standing == standing;
  return n;
}

/* ---- texts ---- */

static const char *const *texts(void) {
  static char text[TEXTS][64];
  static const char *list[TEXTS];
  static const char *const word[] = {
      "the", "old", "cat", "sat on", "a mat", "Ada", "lives in London"};
  for (int i = 0; !list[TEXTS - 1] && i < TEXTS; i++) {
    text[i][0] = 0;
    for (int k = 0; k <= i % 6; k++) {
      strcat(text[i], word[(i * (k + 3)) % 7]);
      strcat(text[i], " ");
    }
    list[i] = text[i];
  }
  return list;
}

static void assert_vectors(const accel_embeddings *a, const accel_embeddings *b) {
  assert_int_equal(a->n, b->n);
  assert_memory_equal(a->data, b->data, (size_t)a->n * a->dim * sizeof *a->data);
}

/* Each device has its part, in all as many as there are; a lost one's is done by the others. */
static void texts_are_shared(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *one = open_on(ctx, EMBEDDER, "cpu"), *all = open_replicas(ctx, EMBEDDER);
  accel_embeddings *want, *found;
  uint64_t items = 0;
  assert_ok(accel_embed(one, texts(), TEXTS, &want));
  assert_ok(accel_embed(all, texts(), TEXTS, &found));
  assert_vectors(found, want);
  accel_embeddings_free(&found);
  for (uint32_t i = 0; i < REPLICAS; i++) {
    const accel_replica_stats s = stats_of(all, i);
    /* on a busy machine the others may have been sooner with what it had begun */
    assert_true(s.runs + s.failures > 0 && s.seconds > 0 && s.standing == 1 && !*s.reason);
    assert_string_equal(s.device, "cpu");
    items += s.items;
  }
  assert_int_equal(items, TEXTS);
  for (uint32_t lost = 1; lost < REPLICAS; lost++) {
    accel__fault_arm("device_lost:2");
    assert_ok(accel_embed(all, texts(), TEXTS, &found));
    accel__fault_arm(NULL);
    assert_vectors(found, want);
    accel_embeddings_free(&found);
    assert_int_equal(count_standing(all, -1), lost);
  }
  accel__fault_arm("device_lost:1");
  assert_int_equal(accel_embed(all, texts(), TEXTS, &found), ACCEL_ERROR_DEVICE_LOST);
  accel__fault_arm(NULL);
  assert_int_equal(accel_embed(all, texts(), TEXTS, &found), ACCEL_ERROR_DEVICE_LOST);
  assert_non_null(strstr(accel_last_error(), "all 3 devices are lost"));
  accel_embeddings_free(&want);
  accel_cleanup(&all);
  accel_cleanup(&one);
  accel_destroy(&ctx);
}

/* A failure of a text is the call's, and no device's. */
static void a_text_may_fail(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *all = open_replicas(ctx, EMBEDDER);
  accel_embeddings *found;
  accel__fault_arm("nonfinite");
  assert_int_not_equal(accel_embed(all, texts(), TEXTS, &found), ACCEL_ERROR_DEVICE_LOST);
  accel__fault_arm(NULL);
  accel_embeddings_free(&found);
  assert_int_equal(count_standing(all, 1), REPLICAS);
  assert_ok(accel_embed(all, texts(), TEXTS, &found));
  accel_embeddings_free(&found);
  accel_destroy(&ctx); /* which closes them in their order */
}

/* What is handed over comes once, also where that fails as devices do. */
enum { BAD = 3, HANDED = 8 };

typedef struct handed {
  uint32_t times[HANDED];
} handed;

static accel_status take_one(handed *h, uint32_t i) {
  h->times[i]++;
  return i == BAD ? accel__fail(ACCEL_ERROR_OUT_OF_MEMORY, "no room for it") : ACCEL_OK;
}

static accel_status take_piece(void *user, const accel__piece_result *one) {
  return take_one(user, one->index);
}

static accel_status run_nothing(void *user, accel_endpoint *ep, uint32_t i, void **found) {
  (void)user, (void)ep, (void)i;
  *found = NULL;
  return ACCEL_OK;
}

static accel_status take_item(void *user, uint32_t i, void *found) {
  assert_null(found);
  return take_one(user, i);
}

static void a_failed_hand_over_ends_it(void **state) {
  (void)state;
  static const int32_t ids[] = {2, 5, 3};
  accel *ctx = test_context();
  accel_endpoint *all = open_replicas(ctx, EMBEDDER);
  accel__piece piece[HANDED];
  handed pieces = {0}, items = {0};
  for (int i = 0; i < HANDED; i++) piece[i] = (accel__piece){.ids = ids, .n = 3};
  accel__piece_run run = {.entry = "forward",
                          .n_outputs = 1,
                          .pieces = {.n = HANDED, .piece = piece},
                          .take = take_piece,
                          .user = &pieces};
  assert_int_equal(accel__run_pieces(all, &run), ACCEL_ERROR_OUT_OF_MEMORY);
  assert_int_equal(
      accel__run_items(
          all,
          &(accel__item_run){.n = HANDED, .run = run_nothing, .take = take_item, .user = &items}),
      ACCEL_ERROR_OUT_OF_MEMORY);
  for (int i = 0; i < HANDED; i++) assert_true(pieces.times[i] <= 1 && items.times[i] <= 1);
  assert_int_equal(pieces.times[BAD], 1);
  assert_int_equal(items.times[BAD], 1);
  assert_int_equal(count_standing(all, 1), REPLICAS);
  accel_cleanup(&all);
  accel_destroy(&ctx);
}

typedef struct caller {
  accel_endpoint *ep;
  const accel_embeddings *want;
  bool same;
  pthread_t thread;
} caller;

static void *embed_again(void *arg) {
  caller *c = arg;
  const char *const *given = texts();
  for (int i = 0; i < 5; i++) {
    accel_embeddings *found = NULL;
    c->same &= accel_embed(c->ep, given, TEXTS, &found) == ACCEL_OK &&
               !memcmp(found->data, c->want->data, (size_t)TEXTS * found->dim * sizeof(float));
    accel_embeddings_free(&found);
  }
  return NULL;
}

static void callers_at_once(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *all = open_replicas(ctx, EMBEDDER);
  accel_embeddings *want;
  caller c[4];
  assert_ok(accel_embed(all, texts(), TEXTS, &want));
  for (int i = 0; i < 4; i++) {
    c[i] = (caller){.ep = all, .want = want, .same = true};
    assert_int_equal(pthread_create(&c[i].thread, NULL, embed_again, &c[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(c[i].thread, NULL);
    assert_true(c[i].same);
  }
  accel_embeddings_free(&want);
  accel_cleanup(&all);
  accel_destroy(&ctx);
}

/* ---- generation ---- */

static const char *const prompts[PROMPTS] = {
    "the old cat", "a", "Ada lives in", "the quick brown fox", "on a mat",
    "London",      "x", "the the",      "sat on a mat and"};

static accel_generate_params how_to_write(void) {
  accel_generate_params how = accel_generate_params_default();
  how.max_new_tokens = 6;
  return how;
}

static void assert_texts(const accel_generations *a, const accel_generations *b) {
  assert_int_equal(a->n, b->n);
  for (uint32_t i = 0; i < a->n; i++) {
    assert_int_equal(a->item[i].prompt, b->item[i].prompt);
    assert_string_equal(a->item[i].text, b->item[i].text);
  }
}

static void prompts_are_shared(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *one = open_on(ctx, WRITER, "cpu"), *all = open_replicas(ctx, WRITER);
  const accel_generate_params how = how_to_write();
  accel_generations *want, *found;
  assert_ok(accel_generate(one, prompts, PROMPTS, &how, &want));
  assert_ok(accel_generate(all, prompts, PROMPTS, &how, &found));
  assert_texts(found, want);
  accel_generations_free(&found);
  for (uint32_t i = 0; i < REPLICAS; i++)
    assert_true(stats_of(all, i).runs + stats_of(all, i).failures > 0);
  accel__fault_arm("device_lost:9");
  assert_ok(accel_generate(all, prompts, PROMPTS, &how, &found));
  accel__fault_arm(NULL);
  assert_texts(found, want);
  assert_int_equal(count_standing(all, -1), 1);
  accel_generations_free(&found);
  accel_generations_free(&want);
  accel_cleanup(&all);
  accel_cleanup(&one);
  accel_destroy(&ctx);
}

/* Requests of a queue go to the queues of the devices, and on in another one where theirs is lost. */
static void queued_prompts(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *one = open_on(ctx, WRITER, "cpu"), *all = open_replicas(ctx, WRITER);
  const accel_generate_params how = how_to_write();
  accel_generations *want[PROMPTS];
  for (int i = 0; i < PROMPTS; i++) assert_ok(accel_generate(one, &prompts[i], 1, &how, &want[i]));
  for (int lost = 0; lost < REPLICAS; lost++) {
    accel_ticket *ticket[PROMPTS];
    if (lost) accel__fault_arm("device_lost:6");
    for (int i = 0; i < PROMPTS; i++)
      assert_ok(accel_submit_generate(accel_queue_of(all), prompts[i], NULL, 0, &how, &ticket[i]));
    for (int i = 0; i < PROMPTS; i++) {
      accel_generations *found;
      assert_ok(accel_wait_generations(&ticket[i], -1, &found));
      assert_texts(found, want[i]);
      accel_generations_free(&found);
    }
    accel__fault_arm(NULL);
    assert_int_equal(count_standing(all, -1), lost);
  }
  for (int i = 0; i < PROMPTS; i++) accel_generations_free(&want[i]);
  accel_queue_stats now = {.size = sizeof now};
  assert_ok(accel_queue_statistics(accel_queue_of(all), &now));
  assert_true(now.prompt_tokens > 0 && now.waiting == 0);
  accel_cleanup(&all);
  accel_cleanup(&one);
  accel_destroy(&ctx);
}

static void queued_texts(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *all = open_replicas(ctx, EMBEDDER);
  accel_ticket *ticket[8];
  accel_embeddings *want, *found;
  assert_ok(accel_embed(all, texts(), TEXTS, &want));
  for (int i = 0; i < 8; i++)
    assert_ok(accel_submit_texts(accel_queue_of(all), texts(), TEXTS, &ticket[i]));
  for (int i = 0; i < 8; i++) {
    assert_ok(accel_wait_embeddings(&ticket[i], -1, &found));
    assert_vectors(found, want);
    accel_embeddings_free(&found);
  }
  accel_embeddings_free(&want);
  accel_cleanup(&all);
  accel_destroy(&ctx);
}

/* ---- pictures, sounds, pages ---- */

enum { ITEMS = 7 };

/* Files of tests/fixtures, read from there. */
static const accel_media *files(const char *const name[ITEMS], const char *directory) {
  static char path[ITEMS][256];
  static accel_media list[ITEMS];
  for (int i = 0; i < ITEMS; i++) {
    snprintf(path[i], sizeof path[i], ACCEL_FIXTURES "/%s/%s", directory, name[i]);
    list[i] = (accel_media){.name = path[i]};
  }
  return list;
}

static const accel_media *pictures(void) {
  static const char *const name[ITEMS] = {"rgb.png",       "colour_420.jpg", "grey.png",
                                          "turned_1.jpg",  "turned_6.jpg",   "palette.png",
                                          "colour_444.jpg"};
  return files(name, "image/pictures");
}

static const accel_media *sounds(void) {
  static const char *const name[ITEMS] = {"s16.wav", "f32.wav",  "stereo_s16.wav", "u8.wav",
                                          "s24.wav", "rf64.wav", "f64.wav"};
  return files(name, "audio/sounds");
}

/* All that a call finds, number by number. */
static void write_labels(FILE *f, accel_classifications *found) {
  for (uint32_t i = 0; i < found->n; i++)
    for (uint32_t k = 0; k < found->count[i]; k++)
      fprintf(f, "%u %s %a\n", i, found->score[i][k].label, found->score[i][k].score);
  accel_classifications_free(&found);
}

static void write_picture_labels(accel_endpoint *ep, FILE *f) {
  accel_classifications *found;
  assert_ok(accel_classify_images(ep, pictures(), ITEMS, NULL, &found));
  write_labels(f, found);
}

static void write_made_up_labels(accel_endpoint *ep, FILE *f) {
  static const char *const labels[] = {"a cat", "the old dog"};
  accel_classifications *found;
  assert_ok(accel_zero_shot_image(ep, pictures(), ITEMS, labels, 2, NULL, &found));
  write_labels(f, found);
}

static void write_sound_labels(accel_endpoint *ep, FILE *f) {
  accel_classifications *found;
  assert_ok(accel_classify_sounds(ep, sounds(), ITEMS, NULL, &found));
  write_labels(f, found);
}

static void write_made_up_sounds(accel_endpoint *ep, FILE *f) {
  static const char *const labels[] = {"a cat", "the old dog"};
  accel_classifications *found;
  assert_ok(accel_zero_shot_audio(ep, sounds(), ITEMS, labels, 2, NULL, 0, &found));
  write_labels(f, found);
}

static void write_objects(accel_endpoint *ep, FILE *f) {
  accel_detect_params how = accel_detect_params_default();
  accel_detections *found;
  how.threshold = 0.01;
  assert_ok(accel_detect_objects(ep, pictures(), ITEMS, &how, &found));
  for (uint32_t i = 0; i < found->n; i++)
    for (uint32_t k = 0; k < found->count[i]; k++)
      fprintf(f, "%u %d %d %s %a %a %a\n", i, found->height[i], found->width[i],
              found->object[i][k].label, found->object[i][k].score,
              (double)found->object[i][k].xmin, (double)found->object[i][k].ymax);
  accel_detections_free(&found);
}

static void write_segments(accel_endpoint *ep, FILE *f) {
  accel_segmentations *found;
  assert_ok(accel_segment_images(ep, pictures(), ITEMS, NULL, &found));
  for (uint32_t i = 0; i < found->n; i++) {
    fprintf(f, "%u %u segments\n", i, found->count[i]);
    for (int64_t k = 0; k < (int64_t)found->height[i] * found->width[i]; k += 37)
      fprintf(f, "%d ", found->map[i][k]);
  }
  accel_segmentations_free(&found);
}

static void write_depths(accel_endpoint *ep, FILE *f) {
  accel_depths *found;
  assert_ok(accel_estimate_depth(ep, pictures(), ITEMS, &found));
  for (uint32_t i = 0; i < found->n; i++)
    fprintf(f, "%u %d %d %a %a %a\n", i, found->height[i], found->width[i], (double)found->least[i],
            (double)found->most[i], (double)found->depth[i][found->width[i] / 2]);
  accel_depths_free(&found);
}

/* A sound in windows, which come back in any order. */
static void write_transcripts(accel_endpoint *ep, FILE *f) {
  static const accel_media list[] = {{.name = ACCEL_FIXTURES "/speech/long.wav"},
                                     {.name = ACCEL_FIXTURES "/speech/short.wav"}};
  accel_transcribe_params how = accel_transcribe_params_default();
  accel_transcripts *found;
  how.chunk_length = 1;
  how.timestamps = "word";
  assert_ok(accel_transcribe(ep, list, 2, &how, &found));
  for (uint32_t i = 0; i < found->n; i++) {
    fprintf(f, "%u %s\n", i, found->text[i]);
    for (uint32_t k = 0; k < found->count[i]; k++)
      fprintf(f, "%s %a %a\n", found->chunk[i][k].text, found->chunk[i][k].start,
              found->chunk[i][k].end);
  }
  accel_transcripts_free(&found);
}

static void write_answers(accel_endpoint *ep, FILE *f) {
  static const char *const words[] = {"Total:", "31.50", "paid", "on", "3", "May"};
  static const int32_t boxes[6][4] = {{20, 40, 76, 75},     {110, 40, 134, 75},
                                      {200, 40, 232, 75},   {20, 100, 76, 135},
                                      {110, 100, 134, 135}, {200, 100, 232, 135}};
  accel_document_question asked[ITEMS];
  accel_document_answers *found;
  for (uint32_t i = 0; i < ITEMS; i++)
    asked[i] = (accel_document_question){.question = i % 2 ? "When was it paid?" : "What is it?",
                                         .image = &pictures()[i],
                                         .words = words,
                                         .boxes = boxes[0],
                                         .n_words = 3 + i % 4};
  assert_ok(accel_answer_documents(ep, asked, ITEMS, NULL, &found));
  for (uint32_t i = 0; i < found->n; i++)
    for (uint32_t k = 0; k < found->count[i]; k++)
      fprintf(f, "%u %s %a\n", i, found->answer[i][k].answer, found->answer[i][k].score);
  accel_document_answers_free(&found);
}

static char *written(accel_endpoint *ep, void (*write)(accel_endpoint *ep, FILE *f)) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  assert_non_null(f);
  write(ep, f);
  fclose(f);
  assert_true(n > 0);
  return text;
}

static void items_are_shared(void **state) {
  (void)state;
  static const struct {
    const char *model;
    void (*write)(accel_endpoint *ep, FILE *f);
  } task[] = {{"media/vit", write_picture_labels},   {"media/clip", write_made_up_labels},
              {"media/detr", write_objects},         {"media/rt_detr", write_objects},
              {"seeing/segformer", write_segments},  {"seeing/depth_anything", write_depths},
              {"media/ast", write_sound_labels},     {"media/clap", write_made_up_sounds},
              {"media/wav2vec2", write_transcripts}, {"seeing/layoutlmv3_qa", write_answers}};
  accel *ctx = test_context();
  for (size_t t = 0; t < sizeof task / sizeof *task; t++) {
    char path[256];
    snprintf(path, sizeof path, ACCEL_FIXTURES "/%s", task[t].model);
    accel_endpoint *one = open_on(ctx, path, "cpu"), *all = open_replicas(ctx, path);
    char *want = written(one, task[t].write), *found = written(all, task[t].write);
    uint64_t items = 0;
    assert_string_equal(found, want);
    free(found);
    for (uint32_t i = 0; i < REPLICAS; i++) {
      const accel_replica_stats s = stats_of(all, i);
      assert_true(s.runs + s.failures > 0);
      items += s.items;
    }
    if (task[t].write != write_transcripts) assert_int_equal(items, ITEMS);
    accel__fault_arm("device_lost:2");
    found = written(all, task[t].write);
    accel__fault_arm(NULL);
    assert_string_equal(found, want);
    assert_int_equal(count_standing(all, -1), 1);
    free(found);
    free(want);
    accel_cleanup(&all);
    accel_cleanup(&one);
  }
  accel_destroy(&ctx);
}

/* The file that is damaged is named, and no device is blamed. */
static void a_picture_may_fail(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *all = open_replicas(ctx, ACCEL_FIXTURES "/media/vit");
  accel_media list[ITEMS];
  accel_classifications *found;
  memcpy(list, pictures(), sizeof list);
  list[4] = (accel_media){.name = "no_picture", .data = "GIF89a", .n = 6};
  assert_int_not_equal(accel_classify_images(all, list, ITEMS, NULL, &found), ACCEL_OK);
  assert_null(found);
  assert_non_null(strstr(accel_last_error(), "no_picture"));
  assert_int_equal(count_standing(all, 1), REPLICAS);
  accel_cleanup(&all);
  accel_destroy(&ctx);
}

/* ---- the log ---- */

typedef struct listener {
  accel_endpoint *ep;
  uint32_t lost;
} listener;

/* What the log says of a lost device may be looked up at once. */
static void look_up(void *user, accel_log_level level, const char *message) {
  listener *l = user;
  (void)level;
  if (!l->ep || !strstr(message, "takes no more work")) return;
  for (uint32_t i = 0; i < REPLICAS; i++) l->lost += stats_of(l->ep, i).standing == -1;
}

static void a_log_may_look(void **state) {
  (void)state;
  listener l = {0};
  accel_params params = test_params();
  accel_embeddings *found;
  accel *ctx;
  params.log = look_up;
  params.log_user = &l;
  assert_ok(accel_create(&params, &ctx));
  accel_endpoint *all = open_replicas(ctx, EMBEDDER);
  l.ep = all;
  accel__fault_arm("device_lost:2");
  assert_ok(accel_embed(all, texts(), TEXTS, &found));
  accel__fault_arm(NULL);
  assert_int_equal(l.lost, 1);
  assert_true(strlen(stats_of(all, 0).reason) + strlen(stats_of(all, 1).reason) +
                  strlen(stats_of(all, 2).reason) >
              0);
  accel_embeddings_free(&found);
  accel_cleanup(&all);
  accel_destroy(&ctx);
}

/* ---- by name ---- */

static void named_devices(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = open_on(ctx, EMBEDDER, "all:reference+cpu");
  accel_endpoint *one = open_on(ctx, EMBEDDER, "cpu");
  const accel_placement_report *r = accel_placement(ep);
  accel_embeddings *want, *found;
  assert_string_equal(r->device, "all:cpu+reference"); /* the processor's own plugin is the first */
  assert_string_equal(r->wanted_device, "all:reference+cpu");
  assert_non_null(strstr(r->label, "on all:cpu+reference (fp32)"));
  assert_int_equal(accel_replica_count(ep), 2);
  assert_int_equal(stats_of(ep, 0).standing, 1);
  assert_int_equal(stats_of(ep, 1).standing, 0); /* on the same processor: not known to pay */
  assert_ok(accel_embed(one, texts(), TEXTS, &want));
  assert_ok(accel_embed(ep, texts(), TEXTS, &found));
  for (size_t i = 0; i < (size_t)want->n * want->dim; i++)
    assert_true(found->data[i] - want->data[i] < 1e-4f && want->data[i] - found->data[i] < 1e-4f);
  accel_embeddings_free(&found);
  accel_embeddings_free(&want);
  accel_cleanup(&ep);
  accel_cleanup(&one);
  accel_init_params how = accel_init_params_default();
  how.device = "ALL:cpu"; /* one device is an endpoint as any other */
  assert_ok(accel_init(ctx, EMBEDDER, &how, &ep));
  assert_int_equal(accel_replica_count(ep), 1);
  assert_string_equal(accel_placement(ep)->device, "cpu");
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static void refusals(void **state) {
  (void)state;
  static const struct {
    const char *device, *message;
    bool adapters;
  } wrong[] = {{"all,cpu", "all stands alone", false},
               {"all:cpu+cuda", "cannot serve: cuda", false},
               {"all:nonsense", "'nonsense' is not known", false},
               {"all:", "an empty name", false},
               {"all:cpu+", "an empty name", false},
               {"all:auto", "behind all: there are names", false},
               {"all:all", "not for what takes one", false},
               {"all:cpu=0-1", "all stands alone", false},
               {"cpu,all", "not for what takes one", false},
               {"all:cpu+reference", "adapters that requests name", true}};
  accel *ctx = test_context();
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    accel_init_params how = accel_init_params_default();
    accel_endpoint *ep;
    how.device = wrong[i].device;
    how.enable_adapters = wrong[i].adapters;
    assert_int_not_equal(accel_init(ctx, EMBEDDER, &how, &ep), ACCEL_OK);
    assert_null(ep);
    if (!strstr(accel_last_error(), wrong[i].message))
      fail_msg("%s: %s", wrong[i].device, accel_last_error());
  }
  accel_fit_params fit = accel_fit_params_default();
  accel_fit_report *report;
  fit.device = "all";
  assert_int_equal(accel_fit(ctx, EMBEDDER, &fit, &report), ACCEL_ERROR_ARGUMENT);
  accel_replica_stats s = {.size = sizeof s};
  accel_endpoint *ep = open_on(ctx, EMBEDDER, "cpu");
  assert_int_equal(accel_replica_statistics(ep, 1, &s), ACCEL_ERROR_ARGUMENT);
  assert_ok(accel_replica_statistics(ep, 0, &s));
  assert_string_equal(s.device, "cpu");
  assert_int_equal(accel_replica_count(NULL), 0);
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_shared),
                                     cmocka_unit_test(a_text_may_fail),
                                     cmocka_unit_test(callers_at_once),
                                     cmocka_unit_test(prompts_are_shared),
                                     cmocka_unit_test(queued_prompts),
                                     cmocka_unit_test(queued_texts),
                                     cmocka_unit_test(items_are_shared),
                                     cmocka_unit_test(a_picture_may_fail),
                                     cmocka_unit_test(a_log_may_look),
                                     cmocka_unit_test(named_devices),
                                     cmocka_unit_test(a_failed_hand_over_ends_it),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
