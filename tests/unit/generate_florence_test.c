/* generate_florence_test.c - what Florence-2's answers are read as, beside transformers'
 * post_process_generation (tests/goldens/make_seeing_goldens.py). */
#include <string.h>

#include "core/arena.h"
#include "core/json.h"
#include "generate/florence_tasks.h"
#include "test_endpoint.h"

#define DIRECTORY ACCEL_FIXTURES "/seeing/florence2"

static cJSON *numbers(const accel_region *r, uint32_t i) {
  return cJSON_CreateIntArray(r->outline[i], (int)r->count[i]);
}

static cJSON *outlines_of(const accel_region *r) {
  if (r->kind != ACCEL_REGION_POLYGON) return numbers(r, 0);
  cJSON *list = cJSON_CreateArray();
  for (uint32_t i = 0; i < r->n; i++) cJSON_AddItemToArray(list, numbers(r, i));
  return list;
}

/* Outlines and labels of all regions of a kind, under these names. */
static void add(cJSON *to, const accel_region_answer *a, accel_region_kind kind,
                const char *outlines, const char *labels) {
  cJSON *places = cJSON_AddArrayToObject(to, outlines), *words = cJSON_AddArrayToObject(to, labels);
  for (uint32_t i = 0; i < a->n; i++) {
    if (a->region[i].kind != kind) continue;
    cJSON_AddItemToArray(places, outlines_of(&a->region[i]));
    cJSON_AddItemToArray(words, cJSON_CreateString(a->region[i].label));
  }
}

static cJSON *answer_of(accel__florence_answer kind, const accel_region_answer *a) {
  if (kind == ACCEL__FLORENCE_TEXT) return cJSON_CreateString(a->text);
  cJSON *out = cJSON_CreateObject();
  if (kind == ACCEL__FLORENCE_OCR) {
    add(out, a, ACCEL_REGION_QUAD, "quad_boxes", "labels");
  } else if (kind == ACCEL__FLORENCE_POLYGONS) {
    add(out, a, ACCEL_REGION_POLYGON, "polygons", "labels");
  } else if (kind == ACCEL__FLORENCE_EITHER) {
    add(out, a, ACCEL_REGION_BOX, "bboxes", "bboxes_labels");
    add(out, a, ACCEL_REGION_POLYGON, "polygons", "polygons_labels");
  } else {
    add(out, a, ACCEL_REGION_BOX, "bboxes", "labels");
  }
  return out;
}

static void test_answers(void **state) {
  accel__json_file file;
  accel__arena arena = {0};
  accel__florence_rules rules;
  uint32_t n = 0;
  (void)state;
  assert_ok(accel__florence_rules_read(DIRECTORY, &arena, &rules));
  assert_ok(accel__json_read_beside(DIRECTORY, "answers.json", 0, &file));
  ACCEL_JSON_EACH(item, file.root) {
    const accel__json *size = accel__json_get(item, "size");
    accel__buffer prompt = {0};
    accel__florence_answer kind;
    accel_region_answer got;
    assert_ok(accel__florence_prompt(accel__json_get(item, "prompt")->valuestring, &prompt, &kind));
    assert_ok(accel__florence_read(kind, &rules, accel__json_get(item, "text")->valuestring,
                                   size->child->valueint, size->child->next->valueint, &arena,
                                   &got));
    cJSON *found = answer_of(kind, &got);
    const accel__json *want = accel__json_get(item, "want");
    if (!cJSON_Compare(found, want, 1)) {
      char *text[3] = {cJSON_PrintUnformatted(item), cJSON_PrintUnformatted(found), NULL};
      fail_msg("%s: got %s", text[0], text[1]);
    }
    cJSON_Delete(found);
    accel__buffer_free(&prompt);
    n++;
  }
  assert_int_equal(n, 320);
  accel__json_free(&file);
  accel__arena_free(&arena);
}

static void test_prompts(void **state) {
  static const char *const told[][2] = {
      {"<OD>", "Locate the objects with category name in the image."},
      {"<REFERRING_EXPRESSION_SEGMENTATION> a car ", "Locate a car in the image with mask"},
      {"the <REGION_TO_OCR>", "What text is in the region the?"},
      {"what is this ?", "what is this ?"}};
  accel__florence_answer kind;
  (void)state;
  for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
    accel__buffer out = {0};
    assert_ok(accel__florence_prompt(told[i][0], &out, &kind));
    assert_string_equal(out.data, told[i][1]);
    accel__buffer_free(&out);
  }
  accel__buffer out = {0};
  assert_int_equal(accel__florence_prompt("<OD> cat", &out, &kind), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel_last_error(), "<OD> stands alone"));
  accel__buffer_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers),
                                     cmocka_unit_test(test_prompts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
