/* routes_embed.c - TEI's /embed, /embed_all and /similarity, and Cohere's /v1/embed and
 * /v2/embed. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "serve/serve_reply.h"

enum { MOST_VECTORS = 4096, MOST_ROWS = 32768 }; /* texts, and tokens of /embed_all */
static const char *const embedders[] = {"feature-extraction", NULL};

typedef struct wish {
  const serve_model *model;
  const char *member; /* that has the texts */
  const char *const *texts;
  uint32_t n;
  serve_cutting cutting;
  accel_embed_params how;
  uint32_t dimensions; /* numbers kept of each vector; 0: all */
} wish;

/* ---- vectors ---- */

static const char pools[] = "mean|cls|max|mean_sqrt_len_tokens|weightedmean|lasttoken";

/* Texts through the queue; NULL: an error has been answered. */
static accel_embeddings *embed(serve_fields *f, const wish *w) {
  accel_embed_params how = w->how;
  accel_request what = accel_request_default(ACCEL_REQUEST_EMBED);
  accel_embeddings *found = NULL;
  accel_ticket *ticket = NULL;
  what.texts = w->texts;
  what.n = w->n;
  what.embed = &how;
  if (f->failed) return NULL;
  serve_use_adapter(&how, w->model);
  if (!serve_queued(f->request, w->model, &what, &ticket)) return NULL;
  const accel_status status = accel_wait_embeddings(&ticket, -1, &found);
  if (status != ACCEL_OK) serve_fail_with(f->request, status, w->member);
  if (status == ACCEL_OK && !cutting_allowed(f, &w->cutting, found->truncated, w->member, w->model))
    accel_embeddings_free(&found);
  return found;
}

/* Embeddings of one vector a text. */
static accel_embeddings *embed_texts(serve_fields *f, const wish *w) {
  accel_embeddings *found = embed(f, w);
  if (!found || (!found->per_token && w->dimensions <= found->dim)) return found;
  if (found->per_token)
    serve_fail(f->request, 400, "pooling", NULL,
               "the model does not say how the vectors of tokens become that of a text; say it "
               "with `pooling` (%s), or ask /embed_all for all of them",
               pools);
  else
    serve_fail(f->request, 400, "dimensions", NULL, "`dimensions`: the model's vectors have %u",
               found->dim);
  accel_embeddings_free(&found);
  return NULL;
}

/* The first n numbers, scaled to length 1 again where that is asked for. */
static void write_vector(FILE *to, const wish *w, const accel_embeddings *found, uint32_t i) {
  const float *v = found->data + (size_t)i * found->dim;
  const uint32_t n = w->dimensions ? w->dimensions : found->dim;
  double sum = 0;
  if (n == found->dim || w->how.normalize == 0) {
    reply_floats(to, v, n);
    return;
  }
  for (uint32_t k = 0; k < n; ++k) sum += (double)v[k] * v[k];
  const double scale = sum > 0 ? 1 / sqrt(sum) : 1;
  for (uint32_t k = 0; k < n; ++k)
    fprintf(to, "%c%.9g", k ? ',' : '[', (double)(float)(v[k] * scale));
  putc(']', to);
}

static void write_vectors(FILE *to, const wish *w, const accel_embeddings *found) {
  putc('[', to);
  for (uint32_t i = 0; i < found->n; ++i) {
    if (i) putc(',', to);
    write_vector(to, w, found, i);
  }
  putc(']', to);
}

static void write_token_vectors(FILE *to, const accel_embeddings *found) {
  putc('[', to);
  for (uint32_t i = 0; i < found->n; ++i) {
    fputs(i ? ",[" : "[", to);
    for (uint64_t row = found->row_start[i]; row < found->row_start[i + 1]; ++row) {
      if (row > found->row_start[i]) putc(',', to);
      reply_floats(to, found->data + row * found->dim, found->dim);
    }
    putc(']', to);
  }
  putc(']', to);
}

static void count(serve_fields *f, const wish *w, const accel_embeddings *found) {
  const serve_work work = {w->model, found->tokens, count_characters(w->texts, w->n)};
  work_count(f->request, &work);
}

/* ---- TEI ---- */

static void read_common(serve_fields *f, wish *w) {
  w->how = accel_embed_params_default();
  w->cutting = fields_cutting(f);
  w->how.prompt_name = field_text(f, "prompt_name", NULL);
}

static void read_inputs(serve_fields *f, wish *w) {
  bool single;
  w->member = "inputs";
  w->texts = field_texts(f, "inputs", &w->n, &single);
  if (!f->failed && (!w->n || w->n > MOST_VECTORS))
    field_wrong(f, "inputs", "must be a text, or a list of 1 to %d", MOST_VECTORS);
}

static void tei_embed(serve_request *request) {
  serve_fields f;
  serve_reply reply;
  wish w = {0};
  accel_embeddings *found = NULL;
  fields_of_json(&f, request);
  read_inputs(&f, &w);
  read_common(&f, &w);
  field_choice(&f, "encoding_format", "float", NULL);
  w.how.normalize = field_flag(&f, "normalize", true);
  w.how.pooling = field_choice(&f, "pooling", pools, NULL);
  w.dimensions = (uint32_t)field_integer(&f, "dimensions", 1, 1 << 20, 0);
  w.model = fields_model(&f, embedders);
  if (fields_end(&f)) found = embed_texts(&f, &w);
  if (found && reply_begin(request, &reply)) {
    count(&f, &w, found);
    write_vectors(reply.to, &w, found);
    reply_end(request, &reply, "application/json");
  }
  accel_embeddings_free(&found);
  fields_free(&f);
}

/* Each token has a vector: how many there will be is known before anything runs. */
static void count_rows(serve_fields *f, const wish *w) {
  accel_tokenizer *tokenizer = f->failed ? NULL : accel_tokenizer_of(w->model->endpoint);
  accel_token_ids *found = NULL;
  uint64_t rows = 0;
  if (!tokenizer || accel_tokenize(tokenizer, w->texts, w->n, 1, &found) != ACCEL_OK) return;
  const uint32_t most = (uint32_t)accel_processor_of(w->model->endpoint)->max_length;
  for (uint32_t i = 0; i < w->n; ++i) rows += found->count[i] < most ? found->count[i] : most;
  accel_token_ids_free(&found);
  if (rows > MOST_ROWS)
    field_wrong(f, w->member, "has %llu tokens; /embed_all takes %d", (unsigned long long)rows,
                MOST_ROWS);
}

void route_embed_all(serve_request *request) {
  serve_fields f;
  serve_reply reply;
  wish w = {0};
  accel_embeddings *found = NULL;
  fields_of_json(&f, request);
  read_inputs(&f, &w);
  read_common(&f, &w);
  w.how.pooling = "none";
  w.how.normalize = 0;
  w.model = fields_model(&f, embedders);
  count_rows(&f, &w);
  if (fields_end(&f)) found = embed(&f, &w);
  if (found && reply_begin(request, &reply)) {
    count(&f, &w, found);
    write_token_vectors(reply.to, found);
    reply_end(request, &reply, "application/json");
  }
  accel_embeddings_free(&found);
  fields_free(&f);
}

/* [0] the sentence, then those it is compared with. */
static void read_sentences(serve_fields *f, wish *w) {
  const cJSON *inputs = field_item(f, "inputs"),
              *source = cJSON_GetObjectItemCaseSensitive(inputs, "source_sentence"),
              *others = cJSON_GetObjectItemCaseSensitive(inputs, "sentences");
  bool single;
  uint32_t n = 0;
  const char *const *list = others ? item_texts(f, "sentences", others, &n, &single) : NULL;
  w->member = "inputs";
  if (!cJSON_IsString(source) || !n)
    field_wrong(f, "inputs", "must be {\"source_sentence\": TEXT, \"sentences\": [TEXT, ...]}");
  const char **all = fields_memory(f, ((size_t)n + 1) * sizeof *all);
  if (!all) return;
  all[0] = source->valuestring;
  memcpy(all + 1, list, n * sizeof *all);
  w->texts = all;
  w->n = n + 1;
}

void route_similarity(serve_request *request) {
  serve_fields f;
  wish w = {0};
  accel_embeddings *found = NULL;
  fields_of_json(&f, request);
  read_sentences(&f, &w);
  read_common(&f, &w);
  w.how.pooling = field_choice(&f, "pooling", pools, NULL);
  w.model = fields_model(&f, embedders);
  if (fields_end(&f)) found = embed_texts(&f, &w);
  cJSON *answer = found ? cJSON_CreateArray() : NULL;
  for (uint32_t i = 1; answer && i < found->n; ++i) {
    const double cosine =
        accel_cosine(found->data, found->data + (size_t)i * found->dim, found->dim);
    cJSON_AddItemToArray(answer, exact_number(cosine));
  }
  if (found) {
    count(&f, &w, found);
    serve_answer_json(request, 200, answer);
  }
  accel_embeddings_free(&found);
  fields_free(&f);
}

/* ---- Cohere ---- */

/* Prompts that models have for a kind of input, by name; a model without them takes none. */
static const char *const *prompts_of(const char *input_type) {
  static const char *const query[] = {"query", NULL},
                           *const document[] = {"document", "passage", NULL},
                           *const none[] = {NULL};
  if (!input_type) return none;
  return !strcmp(input_type, "search_query")      ? query
         : !strcmp(input_type, "search_document") ? document
                                                  : none;
}

/* Whether the model knows a prompt of this name: no texts, nothing runs. */
static bool has_prompt(const serve_model *model, const char *name) {
  accel_embed_params how = accel_embed_params_default();
  accel_embeddings *none = NULL;
  how.prompt_name = name;
  const accel_status status =
      accel_embed_with(model->endpoint, &(const char *){""}, 0, &how, &none);
  accel_embeddings_free(&none);
  return status == ACCEL_OK;
}

static void read_embedding_types(serve_fields *f) {
  const cJSON *types = field_item(f, "embedding_types"), *type;
  cJSON_ArrayForEach(type, types) {
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "float") != 0)
      field_wrong(f, "embedding_types", "\"float\" is served, nothing else");
  }
}

static void read_cohere(serve_fields *f, wish *w) {
  static const char kinds[] = "search_document|search_query|classification|clustering";
  bool single;
  w->member = "texts";
  w->texts = field_texts(f, "texts", &w->n, &single);
  if (!f->failed && (!w->n || w->n > MOST_VECTORS))
    field_wrong(f, "texts", "must be a list of 1 to %d texts", MOST_VECTORS);
  for (const char *const *name = (const char *const[]){"images", "inputs", NULL}; *name; ++name)
    if (field_item(f, *name)) field_wrong(f, *name, "`texts` are embedded, nothing else");
  read_embedding_types(f);
  const char *input_type = field_choice(f, "input_type", kinds, NULL);
  const char *cut = field_choice(f, "truncate", "NONE|START|END", "END");
  w->cutting = (serve_cutting){.truncate = *cut != 'N', .left = *cut == 'S'};
  w->how = accel_embed_params_default();
  w->dimensions = (uint32_t)field_integer(f, "output_dimension", 1, 1 << 20, 0);
  w->model = fields_model(f, embedders);
  if (f->failed) return;
  for (const char *const *name = prompts_of(input_type); *name && !w->how.prompt_name; ++name)
    if (has_prompt(w->model, *name)) w->how.prompt_name = *name;
}

static void write_cohere(FILE *to, const wish *w, const accel_embeddings *found, bool typed) {
  char *texts = NULL, id[SERVE_ID];
  cJSON *list = cJSON_CreateStringArray(w->texts, (int)w->n);
  if (list) texts = cJSON_PrintUnformatted(list);
  cJSON_Delete(list);
  fprintf(to, "{\"id\":\"%s\",\"embeddings\":%s", reply_id("embed-", id),
          typed ? "{\"float\":" : "");
  write_vectors(to, w, found);
  fprintf(to,
          "%s,\"texts\":%s,\"response_type\":\"%s\",\"meta\":{\"api_version\":{\"version\":\"%s\"},"
          "\"tokens\":{\"input_tokens\":%" PRIu64 "}}}",
          typed ? "}" : "", texts ? texts : "[]",
          typed ? "embeddings_by_type" : "embeddings_floats", typed ? "2" : "1", found->tokens);
  cJSON_free(texts);
}

static void cohere_embed(serve_request *request, bool second) {
  serve_fields f;
  serve_reply reply;
  wish w = {0};
  accel_embeddings *found = NULL;
  fields_of_json(&f, request);
  read_cohere(&f, &w);
  const bool typed = second || field_item(&f, "embedding_types");
  if (fields_end(&f)) found = embed_texts(&f, &w);
  if (found && reply_begin(request, &reply)) {
    count(&f, &w, found);
    write_cohere(reply.to, &w, found, typed);
    reply_end(request, &reply, "application/json");
  }
  accel_embeddings_free(&found);
  fields_free(&f);
}

/* TEI's /embed with a prefix, and Cohere's first form: the one has `inputs`, the other `texts`. */
void route_embed(serve_request *request) {
  const cJSON *body = serve_json(request);
  if (body && cJSON_HasObjectItem(body, "texts"))
    cohere_embed(request, false);
  else if (body)
    tei_embed(request);
}

void route_embed_v2(serve_request *request) { cohere_embed(request, true); }
