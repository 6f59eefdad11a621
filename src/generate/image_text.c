/* image_text.c - text about pictures: captions and answers (BLIP), pages (Donut), and language
 * models whose text shows pictures (LLaVA).
 *
 * BLIP's and Donut's decoders look at the encoder's states.  In LLaVA a picture takes the positions
 * of as many image tokens as it has rows: the prompt's one token for it is repeated so often, and
 * the prompt is read together with the pixels. */
#include "generate/image_text.h"

#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "processing/media.h"
#include "processing/processor.h"
#include "generate/image_prompt.h"
#include "models/model_build.h"
#include "processing/result.h"
#include "text/chat_template.h"

/* ---- pictures ---- */

static accel_status read_pictures(accel__image_reader *j, const accel_image_prompt *p,
                                  accel__image_text *s) {
  accel__image *image = calloc((size_t)p->n_images + 1, sizeof *image);
  s->parts = calloc((size_t)p->n_images + 1, sizeof *s->parts);
  accel_status status =
      image && s->parts ? ACCEL_OK : accel__no_memory(p->n_images * sizeof *image);
  for (uint32_t i = 0; i < p->n_images && status == ACCEL_OK; i++)
    status = accel__media_image(&p->images[i], &image[i]);
  if (status == ACCEL_OK && p->n_images) s->height = image[0].height, s->width = image[0].width;
  if (status == ACCEL_OK && p->n_images)
    status = accel__image_tensors(&j->processor, image, p->n_images, j->ep->ctx->pool, s->parts,
                                  &s->pixels);
  for (uint32_t i = 0; image && i < p->n_images; i++) accel__image_free(&image[i]);
  free(image);
  return status;
}

/* ---- texts ---- */

/* [{"role": "user", "content": [{"type": "image"}, ..., {"type": "text", "text": text}]}] */
static cJSON *message_of(const accel_image_prompt *p) {
  cJSON *list = cJSON_CreateArray(), *message = cJSON_CreateObject(),
        *content = cJSON_CreateArray();
  bool ok = cJSON_AddItemToArray(list, message) &&
            cJSON_AddStringToObject(message, "role", "user") != NULL &&
            cJSON_AddItemToObject(message, "content", content);
  for (uint32_t i = 0; ok && i <= p->n_images; i++) {
    cJSON *part = cJSON_CreateObject();
    const bool text = i == p->n_images;
    ok = cJSON_AddItemToArray(content, part) &&
         cJSON_AddStringToObject(part, "type", text ? "text" : "image") != NULL &&
         (!text || cJSON_AddStringToObject(part, "text",
                                           p->text ? p->text : "Describe the picture.") != NULL);
  }
  if (ok) return list;
  cJSON_Delete(list);
  return NULL;
}

/* The conversation as the model's template writes it. */
static accel_status render(accel__image_reader *j, const accel_image_prompt *p,
                           accel__buffer *out) {
  accel__json_file file = {0};
  cJSON *made = NULL;
  accel_status status = ACCEL_OK;
  if (p->kind == ACCEL_PROMPT_MESSAGES) {
    status = accel__json_parse(p->text, strlen(p->text), "messages", &file);
    if (status == ACCEL_ERROR_FORMAT)
      status = accel__wrap(ACCEL_ERROR_ARGUMENT, "accel_generate_images");
  } else if (!(made = message_of(p))) {
    status = accel__no_memory(0);
  }
  accel__chat_request how = {.messages = made ? made : file.root, .add_generation_prompt = true};
  if (status == ACCEL_OK && !j->chat)
    status = accel__chat_template_load(j->ep->directory, &j->chat);
  if (status == ACCEL_OK) status = accel__chat_template_render(j->chat, &how, out, NULL);
  cJSON_Delete(made);
  accel__json_free(&file);
  return status;
}

/* A template's text that begins with <s> gets no second one, as in transformers' processors. */
static bool begins_with_bos(const accel__tokenizer *tokenizer, const char *text) {
  size_t n = 0;
  const char *bos = accel__id_to_token(tokenizer, accel__tokenizer_describe(tokenizer)->bos, &n);
  return bos && n && !strncmp(text, bos, n);
}

/* Rows of one part of the pictures, which all have as many. */
static accel_status part_rows(const accel__image_reader *j, const accel_image_prompt *p,
                              const accel__image_text *s, int64_t *out) {
  uint32_t parts = 0;
  *out = 0;
  for (uint32_t i = 0; i < p->n_images; i++) parts += s->parts[i].n;
  if (!parts) return ACCEL_OK;
  ACCEL_TRY(accel__image_rows(j->ep, s->pixels->item, s->pixels->n, 0, out));
  if (j->ep->model->image_tokens->rows_of) *out /= parts; /* of all of them */
  return ACCEL_OK;
}

/* What the task token stands for, behind the picture. */
static accel_status write_task(const accel__image_reader *j, const accel_image_prompt *p,
                               uint32_t number, accel__image_text *s, const char *text,
                               accel__buffer *out) {
  accel__buffer prompt = {0};
  int64_t rows = 0;
  if (p->n_images != 1)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: prompt %u has %u pictures; a %s takes one",
                       j->ep->name, number, p->n_images, j->ep->model->architecture);
  accel_status status = accel__florence_prompt(text, &prompt, &s->answer);
  if (status != ACCEL_OK) status = accel__wrap(status, "%s", j->ep->name);
  if (status == ACCEL_OK) status = part_rows(j, p, s, &rows);
  if (status == ACCEL_OK)
    status = accel__picture_words_write(&j->words, prompt.data ? prompt.data : "", s->parts, 1,
                                        rows, out);
  accel__buffer_free(&prompt);
  return status;
}

/* The text with pictures in their places, as the model's processor writes it. */
static accel_status write_pictures(const accel__image_reader *j, const accel_image_prompt *p,
                                   uint32_t number, accel__image_text *s, const char *text,
                                   accel__buffer *out) {
  if (j->words.style == ACCEL__PICTURE_FLORENCE2) return write_task(j, p, number, s, text, out);
  const uint32_t places = accel__picture_places(&j->words, text);
  int64_t rows;
  if (places != p->n_images && (places || j->words.style != ACCEL__PICTURE_PALIGEMMA))
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT, "%s: prompt %u has %u image tokens (%s) and %u pictures",
                    j->ep->name, number, places, j->words.place, p->n_images),
        "write one image token for each picture, or let the chat template write them");
  if (!p->n_images && j->words.style == ACCEL__PICTURE_PALIGEMMA)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: prompt %u has no picture; a %s needs one",
                       j->ep->name, number, j->ep->model->architecture);
  ACCEL_TRY(part_rows(j, p, s, &rows));
  return accel__picture_words_write(&j->words, text, s->parts, p->n_images, rows, out);
}

/* Do processors of this style write all of the prompt, special tokens too, around a plain text? */
static bool writes_whole(accel__picture_style style) {
  return style == ACCEL__PICTURE_PALIGEMMA || style == ACCEL__PICTURE_FLORENCE2;
}

static accel_status read_text(accel__image_reader *j, const accel_image_prompt *p, uint32_t number,
                              accel__image_text *s) {
  const accel__processor *processor = accel__processor_for(j->ep);
  const accel__image_tokens *image_tokens = j->ep->model->image_tokens;
  const bool plain = image_tokens && writes_whole(image_tokens->style),
             renders = image_tokens && (p->kind == ACCEL_PROMPT_MESSAGES ||
                                        (p->kind == ACCEL_PROMPT_QUESTION && !plain)),
             templated = renders || p->kind == ACCEL_PROMPT_TEMPLATED,
             answers = j->ep->model->generation.answer_prefix;
  accel__buffer text = {0}, whole = {0};
  accel_status status = ACCEL_OK;
  if (!renders && !p->text && !plain) return ACCEL_OK;
  if (!processor->tokenizer) return accel__processor_check(j->ep, j->ep->model->task);
  if (renders)
    status = render(j, p, &text);
  else
    accel__buffer_text(&text, p->text ? p->text : "");
  if (status == ACCEL_OK) status = accel__buffer_status(&text);
  const char *bytes = text.data ? text.data : "";
  if (status == ACCEL_OK && image_tokens && image_tokens->style != ACCEL__PICTURE_TOKENS) {
    status = write_pictures(j, p, number, s, bytes, &whole);
    bytes = whole.data ? whole.data : "";
  }
  if (status == ACCEL_OK) {
    accel__encode_options how = {.add_special_tokens =
                                     !j->no_special_tokens && !plain && !answers &&
                                     !(templated && begins_with_bos(processor->tokenizer, bytes))};
    status = accel__encode(processor->tokenizer, bytes, strlen(bytes), NULL, 0, &how, &s->enc);
  }
  accel__buffer_free(&text);
  accel__buffer_free(&whole);
  return status;
}

/* ---- image tokens in prompts ---- */

/* What LlavaProcessor counts must be what the model has: its fields of processor_config.json. */
static accel_status check_processor(const accel_endpoint *ep, const int64_t *dim, int64_t rows) {
  accel__json_file file;
  const char *strategy = NULL;
  int64_t patch = 0, more = 0;
  accel_status status = accel__json_read_beside(ep->directory, "processor_config.json", 0, &file);
  if (file.root) {
    ACCEL_GOTO(accel__json_int(&file, file.root, "patch_size", 1, 65536, &patch));
    ACCEL_GOTO(accel__json_int(&file, file.root, "num_additional_image_tokens", 0, 65536, &more));
    ACCEL_GOTO(accel__json_string(&file, file.root, "vision_feature_select_strategy", &strategy));
    const int64_t counted = patch ? (dim[2] / patch) * (dim[3] / patch) + more -
                                        (strategy && !strcmp(strategy, "default"))
                                  : rows;
    if (counted != rows)
      ACCEL_GOTO(accel__fail(ACCEL_ERROR_FORMAT,
                             "%s: patch_size, num_additional_image_tokens and "
                             "vision_feature_select_strategy give a picture "
                             "%lld image tokens, the model has %lld rows for it",
                             file.name, (long long)counted, (long long)rows));
  }
done:
  accel__json_free(&file);
  return status;
}

static accel_status wrong_count(const accel__image_reader *j, uint32_t number, uint32_t tokens,
                                uint32_t images) {
  const int32_t id = (int32_t)j->ep->model->image_tokens->token;
  const accel__tokenizer *tokenizer = accel__processor_for(j->ep)->tokenizer;
  const char *text = tokenizer ? accel__id_to_token(tokenizer, id, NULL) : NULL;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_ARGUMENT,
                  "%s: prompt %u has %u image tokens (%s, id %d) and %u pictures", j->ep->name,
                  number, tokens, text ? text : "unknown to the tokenizer", id, images),
      "write one image token for each picture, or let the chat template write them");
}

/* Each image token becomes as many as its picture has rows. */
static accel_status expand(const accel__image_reader *j, const accel_image_prompt *p,
                           uint32_t number, accel__image_text *s) {
  const accel__image_tokens *image_tokens = j->ep->model->image_tokens;
  const accel_tensor *pixels = accel__find_tensor(s->pixels, "pixel_values");
  uint32_t tokens = 0;
  uint64_t n = s->enc.n;
  if (image_tokens->style != ACCEL__PICTURE_TOKENS) { /* the text has all of them */
    if (!(s->ids = malloc((n + 1) * sizeof *s->ids))) return accel__no_memory(n * sizeof *s->ids);
    memcpy(s->ids, s->enc.ids, n * sizeof *s->ids);
    s->n = (uint32_t)n;
    return ACCEL_OK;
  }
  for (size_t i = 0; i < s->enc.n; i++) tokens += s->enc.ids[i] == image_tokens->token;
  if (tokens != p->n_images) return wrong_count(j, number, tokens, p->n_images);
  int64_t *rows = calloc((size_t)p->n_images + 1, sizeof *rows);
  accel_status status = rows ? ACCEL_OK : accel__no_memory(p->n_images * sizeof *rows);
  for (uint32_t k = 0; k < p->n_images && status == ACCEL_OK; k++) {
    status = accel__image_rows(j->ep, s->pixels->item, s->pixels->n, k, &rows[k]);
    if (status == ACCEL_OK && !k && pixels->rank == 4)
      status = check_processor(j->ep, pixels->dim, rows[k]);
    n += (uint64_t)rows[k] - 1;
  }
  if (status == ACCEL_OK && n > INT32_MAX)
    status =
        accel__fail(ACCEL_ERROR_LIMIT, "%s: prompt %u has too many tokens", j->ep->name, number);
  if (status == ACCEL_OK && !(s->ids = malloc((n + 1) * sizeof *s->ids)))
    status = accel__no_memory(n * sizeof *s->ids);
  for (size_t i = 0, k = 0; i < s->enc.n && status == ACCEL_OK; i++) {
    const bool here = s->enc.ids[i] == image_tokens->token;
    for (int64_t times = here ? rows[k++] : 1; times > 0; times--) s->ids[s->n++] = s->enc.ids[i];
  }
  free(rows);
  return status;
}

/* ---- requests ---- */

/* Whether the encoder reads a text beside the picture, as one that answers does. */
static bool reads_question(const accel__model *model) {
  const accel__model_entry *encode = accel__model_entry_of(model, "encode");
  return encode && accel__entry_input(encode, "input_ids") >= 0;
}

accel_status accel__image_text_read(accel__image_reader *j, const accel_image_prompt *p,
                                    uint32_t number, accel__image_text *s) {
  const accel__model *model = j->ep->model;
  *s = (accel__image_text){0};
  if (!model->image_tokens && p->n_images != 1)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: prompt %u has %u pictures; a %s takes one",
                       j->ep->name, number, p->n_images, model->architecture);
  if ((!model->image_tokens || model->image_tokens->style == ACCEL__PICTURE_FLORENCE2) &&
      (p->kind == ACCEL_PROMPT_MESSAGES || p->kind == ACCEL_PROMPT_TEMPLATED))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a %s holds no conversations; ask with a text",
                       j->ep->name, model->architecture);
  const bool asks = !model->image_tokens && !model->generation.caption_prefix,
             text = p->text && *p->text && !model->generation.answer_prefix;
  if (asks && text && !reads_question(model))
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT, "%s: prompt %u has a text; a %s takes a picture alone",
                    j->ep->name, number, model->architecture),
        "leave the text out");
  if (asks && !text && reads_question(model))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: prompt %u has no question", j->ep->name, number);
  ACCEL_TRY(read_pictures(j, p, s));
  ACCEL_TRY(read_text(j, p, number, s));
  return model->image_tokens ? expand(j, p, number, s) : ACCEL_OK;
}

void accel__image_text_free(accel__image_text *s) {
  accel__tensors_free(&s->pixels);
  accel__encoding_free(&s->enc);
  free(s->ids);
  free(s->parts);
  *s = (accel__image_text){0};
}

accel_status accel__image_text_request(const accel_endpoint *ep, const accel__generate_plan *plan,
                                       const accel_generate_params *params,
                                       const accel__image_text *s, uint32_t number, int64_t context,
                                       accel__request *out) {
  const accel__ids ids = ep->model->image_tokens ? (accel__ids){s->ids, s->n}
                                                 : (accel__ids){s->enc.ids, (uint32_t)s->enc.n};
  const accel__encoder_input prompt = {.ids = ids,
                                       .tensor = s->pixels ? s->pixels->item : NULL,
                                       .n_tensors = s->pixels ? s->pixels->n : 0};
  return accel__pictured_request(ep, plan, params, &prompt, number, context, out);
}

accel_status accel__image_text_finish(const accel_endpoint *ep, const accel__image_text *prompts,
                                      bool keep_special_tokens, accel_generations *found) {
  const accel__tokenizer *tokenizer = accel__processor_for(ep)->tokenizer;
  const bool whole = ep->model->generation.answer_prefix,
             begins = (ep->model->generation.caption_prefix || whole) && tokenizer;
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; begins && status == ACCEL_OK && i < found->n; i++) {
    accel_generation *g = (accel_generation *)&found->item[i]; /* ours until it is handed out */
    const accel__image_text *s = &prompts[g->prompt];
    if (s->enc.n < (whole ? 1 : 2)) continue;
    const size_t front = s->enc.n - (whole ? 0 : 1), n = front + g->n;
    int32_t *ids = malloc(n * sizeof *ids);
    accel__buffer text = {0};
    if (!ids) return accel__no_memory(n * sizeof *ids);
    memcpy(ids, s->enc.ids, front * sizeof *ids);
    memcpy(ids + front, g->ids, g->n * sizeof *ids);
    if (!whole) ids[0] = (int32_t)ep->model->bos_id;
    status = accel__decode(tokenizer, ids, n, !keep_special_tokens,
                           accel__tokenizer_describe(tokenizer)->clean_up, &text);
    if (status == ACCEL_OK)
      g->text = accel__arena_copy(accel__task_arena(found), text.data ? text.data : "", text.n);
    if (status == ACCEL_OK && !g->text) status = ACCEL_ERROR_OUT_OF_MEMORY;
    accel__buffer_free(&text);
    free(ids);
  }
  return status;
}

/* ---- readers ---- */

/* Processors say for themselves whether pictures are cut: InternVL's does, Gemma 3's does not
 * unless the call asks for it. */
static accel_status load_words(accel__image_reader *j) {
  const accel__processor *processor = accel__processor_for(j->ep);
  const accel__image_tokens *image_tokens = j->ep->model->image_tokens;
  if (!image_tokens || image_tokens->style == ACCEL__PICTURE_TOKENS) return ACCEL_OK;
  if (image_tokens->style == ACCEL__PICTURE_INTERNVL) j->processor.splits = true;
  if (image_tokens->style == ACCEL__PICTURE_GEMMA3) {
    j->processor.splits = false;
    j->processor.do_convert_rgb = true; /* null in its files */
  }
  if (!processor->tokenizer) return accel__processor_check(j->ep, j->ep->model->task);
  return accel__picture_words_load(j->ep->directory, processor->tokenizer, image_tokens, &j->words);
}

accel_status accel__image_reader_open(accel_endpoint *ep, bool no_special_tokens,
                                      accel__image_reader *out) {
  const char *directory;
  *out = (accel__image_reader){.ep = ep, .no_special_tokens = no_special_tokens};
  ACCEL_TRY(accel__can_generate(ep));
  if (!accel__generates_from_pictures(ep))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a %s does not look at pictures", ep->name,
                       ep->model->architecture);
  ACCEL_TRY(accel__media_directory(ep, &directory));
  ACCEL_TRY(accel__image_processor_load(directory, &out->processor));
  return load_words(out);
}

void accel__image_reader_close(accel__image_reader *j) {
  accel__picture_words_free(&j->words);
  accel__chat_template_free(&j->chat);
}

/* ---- all of them at once ---- */

typedef struct job {
  const accel_endpoint *ep;
  const accel_generate_params *params;
  accel__image_text *prepared; /* [n] */
} job;

static accel_status make_request(void *user, const accel__generate_plan *plan, uint32_t number,
                                 int64_t context, accel__request *out) {
  const job *j = user;
  return accel__image_text_request(j->ep, plan, j->params, &j->prepared[number], number, context,
                                   out);
}

/* Generates, and lets `take` have the result with the prompts it is of. */
static accel_status generate_prompts(accel_endpoint *ep, const accel__task_settings *task,
                                     const accel_image_prompt *prompts, uint32_t n,
                                     const accel_generate_params *params,
                                     accel_status (*take)(void *user, accel_generations **found,
                                                          const accel__image_text *prepared),
                                     void *user) {
  accel__image_reader reader = {0};
  accel__generate_plan plan = {0};
  job j = {.ep = ep, .params = params, .prepared = calloc((size_t)n + 1, sizeof *j.prepared)};
  accel_generations *found = NULL;
  accel_status status = ACCEL_OK;
  if (!j.prepared) return accel__no_memory(n * sizeof *j.prepared);
  ACCEL_GOTO(accel__image_reader_open(ep, params->no_special_tokens != 0, &reader));
  for (uint32_t i = 0; i < n; i++)
    ACCEL_GOTO(accel__image_text_read(&reader, &prompts[i], i, &j.prepared[i]));
  ACCEL_GOTO(task ? accel__generate_plan_for(ep, task, params, &plan)
                  : accel__generate_plan_make(ep, params, &plan));
  status = accel__generate_with(ep, &plan, params, n, make_request, &j, &found);
  if (status == ACCEL_OK)
    status = accel__image_text_finish(ep, j.prepared, params->keep_special_tokens != 0, found);
  if (status == ACCEL_OK) status = take(user, &found, j.prepared);
  if (found) accel__task_free(found);
done:
  for (uint32_t i = 0; i < n; i++) accel__image_text_free(&j.prepared[i]);
  free(j.prepared);
  accel__generate_plan_free(&plan);
  accel__image_reader_close(&reader);
  return status;
}

static accel_status take_all(void *user, accel_generations **found,
                             const accel__image_text *prepared) {
  (void)prepared;
  *(accel_generations **)user = *found;
  *found = NULL;
  return ACCEL_OK;
}

accel_status accel__generate_images_for(accel_endpoint *ep, const accel__task_settings *task,
                                        const accel_image_prompt *prompts, uint32_t n,
                                        const accel_generate_params *params,
                                        accel_generations **out) {
  *out = NULL;
  return generate_prompts(ep, task, prompts, n, params, take_all, out);
}

accel_status accel__generate_images(accel_endpoint *ep, const accel_image_prompt *prompts,
                                    uint32_t n, const accel_generate_params *params,
                                    accel_generations **out) {
  return accel__generate_images_for(ep, NULL, prompts, n, params, out);
}

/* ---- regions ---- */

typedef struct region_job {
  const accel_endpoint *ep;
  accel__florence_rules rules;
  accel_region_answers *result;
} region_job;

static accel_status take_regions(void *user, accel_generations **found,
                                 const accel__image_text *prepared) {
  region_job *j = user;
  accel__arena *arena = accel__task_arena(j->result);
  const uint32_t n = (*found)->n;
  accel_region_answer *item = accel__arena_array(arena, (size_t)n + 1, sizeof *item);
  if (!item) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    const accel_generation *g = &(*found)->item[i];
    const accel__image_text *s = &prepared[g->prompt];
    ACCEL_TRY(
        accel__florence_read(s->answer, &j->rules, g->text, s->width, s->height, arena, &item[i]));
    item[i].prompt = g->prompt;
  }
  *j->result = (accel_region_answers){.n = n, .item = item};
  return ACCEL_OK;
}

bool accel__names_regions(const accel_endpoint *ep) {
  const accel__image_tokens *image_tokens = ep->model->image_tokens;
  return image_tokens && image_tokens->style == ACCEL__PICTURE_FLORENCE2;
}

accel_status accel__generate_regions(accel_endpoint *ep, const accel_image_prompt *prompts,
                                     uint32_t n, const accel_generate_params *params,
                                     accel_region_answers **out) {
  region_job j = {.ep = ep};
  accel_generate_params how = *params;
  const char *directory;
  *out = NULL;
  if (!accel__names_regions(ep))
    return accel__remedy(
        accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a %s names no places in pictures", ep->name,
                    ep->model->architecture),
        "use a Florence-2, or accel_generate_images() for words alone");
  if (!(j.result = accel__task_result(sizeof *j.result))) return ACCEL_ERROR_OUT_OF_MEMORY;
  how.keep_special_tokens = 1; /* places are such */
  accel_status status = accel__media_directory(ep, &directory);
  if (status == ACCEL_OK)
    status = accel__florence_rules_read(directory, accel__task_arena(j.result), &j.rules);
  if (status == ACCEL_OK) status = generate_prompts(ep, NULL, prompts, n, &how, take_regions, &j);
  *out = accel__task_finish(j.result, status);
  return status;
}
