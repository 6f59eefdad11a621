/* cli_tune_inputs.c - accel tune: reading inputs, running them, comparing outputs (cli_tune.h). */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bench/bench_collect.h"
#include "cli/cli_tune.h"

enum { EVERY = 3 }; /* which input is held out */

/* ---- reading ---- */

static bool has_ending(const char *name, const char *const *endings, size_t n) {
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < n; ++i)
    if (strcasecmp(dot, endings[i]) == 0) return true;
  return false;
}

static bool is_picture(const char *name) {
  static const char *const endings[] = {".jpg", ".jpeg", ".png", ".webp"};
  return has_ending(name, endings, sizeof endings / sizeof *endings);
}

static bool is_sound(const char *name) {
  static const char *const endings[] = {".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif"};
  return has_ending(name, endings, sizeof endings / sizeof *endings);
}

static bool is_tensors(const char *name) {
  static const char *const endings[] = {".safetensors"};
  return has_ending(name, endings, 1);
}

static int no_memory(cli_run *run) {
  return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

/* n more inputs at the end. */
static tune_input *add(tune_inputs *inputs, uint32_t n) {
  tune_input *more = realloc(inputs->item, (inputs->n + (size_t)n) * sizeof *more);
  if (!more) return NULL;
  inputs->item = more;
  memset(more + inputs->n, 0, n * sizeof *more);
  inputs->n += n;
  return more + inputs->n - n;
}

static int read_texts(cli_run *run, const char *file, tune_inputs *out) {
  static const char *const fields[] = {"text"};
  cli_texts *more = realloc(out->texts, (out->n_texts + 1) * sizeof *more);
  if (!more) return no_memory(run);
  out->texts = more;
  cli_texts *texts = &out->texts[out->n_texts];
  run->value[OPT_INPUT] = file;
  const int code = cli_texts_read(run, run->n_args, fields, 1, texts);
  if (code) return code;
  ++out->n_texts;
  tune_input *to = add(out, texts->n);
  if (!to) return no_memory(run);
  for (uint32_t i = 0; i < texts->n; ++i) to[i].name = to[i].text = texts->text[i];
  return 0;
}

static int read_file(cli_run *run, const char *file, tune_inputs *out) {
  if (!is_picture(file) && !is_sound(file) && !is_tensors(file)) return read_texts(run, file, out);
  tune_input *to = add(out, 1);
  if (!to) return no_memory(run);
  to->name = file;
  if (!is_tensors(file)) return 0;
  const accel_status status = accel_tensors_read(file, &to->read);
  return status == ACCEL_OK ? 0 : cli_fail(run, status);
}

int tune_inputs_read(cli_run *run, tune_inputs *out) {
  uint32_t n;
  const char **files = cli_values(run, OPT_INPUT, &n);
  int code = files ? 0
                   : cli_usage(run,
                               "no inputs: give --input FILE of texts, pictures, sounds or "
                               "tensors (.safetensors)");
  for (uint32_t i = 0; !code && i < n; ++i) code = read_file(run, files[i], out);
  for (uint32_t i = EVERY - 1; !code && i < out->n; i += EVERY) {
    out->item[i].held_out = true;
    ++out->n_held;
  }
  free(files);
  return code;
}

/* ---- tensors ---- */

/* Another tensor of the input; data is lent. */
static bool give(tune_input *in, const accel_tensor *tensor) {
  if (in->tensors.n == sizeof in->item / sizeof *in->item) return false;
  in->item[in->tensors.n++] = *tensor;
  return true;
}

static bool give_ids(tune_input *in, const char *name, const int64_t *ids, uint32_t n) {
  return give(in,
              &(accel_tensor){
                  .name = name, .dtype = ACCEL_I64, .rank = 2, .dim = {1, n}, .data = (void *)ids});
}

/* Tokens of a text, cut at `most` (0: not), without the last `less`; malloc'd. */
static accel_status tokens(accel_tokenizer *tokenizer, const char *text, int64_t most,
                           uint32_t less, int64_t **ids, uint32_t *n) {
  accel_token_ids *found;
  accel_status status = accel_tokenize(tokenizer, &text, 1, 1, &found);
  if (status != ACCEL_OK) return status;
  *n = found->count[0] > less ? found->count[0] - less : found->count[0];
  if (most > 0 && *n > most) *n = (uint32_t)most;
  *ids = malloc((*n + 1) * sizeof **ids);
  for (uint32_t i = 0; *ids && i < *n; ++i) (*ids)[i] = found->ids[0][i];
  accel_token_ids_free(&found);
  return *ids ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

typedef struct preparing {
  cli_run *run;
  accel_endpoint *reference;
  accel_tokenizer *tokenizer; /* NULL until it is needed */
  bool decodes;               /* takes decoder_input_ids */
  int64_t start;              /* the first of these */
  int64_t longest;            /* so many at most */
} preparing;

/* The decoder is given what the reference hears, behind the tokens that begin every transcript. */
static accel_status listen(const preparing *p, const accel_media *sound, tune_input *in) {
  accel_transcripts *heard;
  uint32_t n;
  accel_status status = accel_transcribe(p->reference, sound, 1, NULL, &heard);
  if (status != ACCEL_OK) return status;
  status = tokens(p->tokenizer, heard->text[0], p->longest, 1, &in->decoder_ids, &n);
  accel_transcripts_free(&heard);
  if (status == ACCEL_OK && !give_ids(in, "decoder_input_ids", in->decoder_ids, n))
    status = ACCEL_ERROR_LIMIT;
  return status;
}

/* The decoder is given what the reference writes, all but the last token. */
static accel_status write_down(const preparing *p, tune_input *in) {
  enum { NEW = 32 };
  accel_text2text_params how = accel_text2text_params_default();
  accel_generate_params short_one = accel_generate_params_default();
  accel_generations *made;
  short_one.max_new_tokens = p->longest < NEW ? (int32_t)p->longest : NEW;
  short_one.num_beams = 1;
  short_one.do_sample = 0;
  how.generate = &short_one;
  accel_status status = accel_text2text(p->reference, &in->text, 1, &how, &made);
  if (status != ACCEL_OK) return status;
  const uint32_t n = made->n && made->item[0].n ? made->item[0].n : 1;
  in->decoder_ids = malloc(n * sizeof *in->decoder_ids);
  for (uint32_t i = 0; in->decoder_ids && i < n; ++i)
    in->decoder_ids[i] = i ? made->item[0].ids[i - 1] : p->start;
  accel_generations_free(&made);
  if (!in->decoder_ids) return ACCEL_ERROR_OUT_OF_MEMORY;
  return give_ids(in, "decoder_input_ids", in->decoder_ids, n) ? ACCEL_OK : ACCEL_ERROR_LIMIT;
}

/* A whole number of config.json; `otherwise` where it has none. */
static int64_t config_number(cli_run *run, const char *name, int64_t otherwise) {
  char *directory, path[4096], *text;
  if (accel_find_model(run->ctx, run->args[0], &directory) != ACCEL_OK) return otherwise;
  snprintf(path, sizeof path, "%s/config.json", directory);
  accel_string_free(&directory);
  if (cli_file_read(run, path, &text, NULL)) return otherwise;
  cJSON *root = cJSON_Parse(text);
  const double value = cli_json_number(root, name);
  cJSON_Delete(root);
  free(text);
  return isnan(value) ? otherwise : (int64_t)value;
}

static accel_status need_tokenizer(preparing *p) {
  return p->tokenizer ? ACCEL_OK
                      : accel_tokenizer_open(p->run->ctx, p->run->args[0], &p->tokenizer);
}

static accel_status prepare_text(preparing *p, tune_input *in) {
  uint32_t n;
  const accel_processor *processor = accel_processor_of(p->reference);
  in->embeds = processor->task && strcmp(processor->task, "feature-extraction") == 0;
  if (in->embeds) return ACCEL_OK;
  accel_status status = need_tokenizer(p);
  if (status != ACCEL_OK) return status;
  status = tokens(p->tokenizer, in->text, processor->max_length, 0, &in->ids, &n);
  if (status == ACCEL_OK && !give_ids(in, "input_ids", in->ids, n)) status = ACCEL_ERROR_LIMIT;
  return status == ACCEL_OK && p->decodes && p->start >= 0 ? write_down(p, in) : status;
}

static accel_status prepare_media(preparing *p, tune_input *in) {
  const accel_media media = {.name = in->name};
  accel_preprocess_params how = accel_preprocess_params_default();
  const bool sound = is_sound(in->name);
  how.images = how.sounds = &media;
  how.n_images = !sound;
  how.n_sounds = sound;
  accel_status status = accel_preprocess(p->run->ctx, p->run->args[0], &how, &in->read);
  if (status == ACCEL_OK && sound && p->decodes) status = need_tokenizer(p);
  return status == ACCEL_OK && sound && p->decodes ? listen(p, &media, in) : status;
}

static accel_status prepare_one(preparing *p, tune_input *in) {
  accel_status status = in->text                                     ? prepare_text(p, in)
                        : is_picture(in->name) || is_sound(in->name) ? prepare_media(p, in)
                                                                     : ACCEL_OK;
  for (uint32_t i = 0; status == ACCEL_OK && in->read && i < in->read->n; ++i)
    if (!give(in, &in->read->item[i])) status = ACCEL_ERROR_LIMIT;
  in->tensors.item = in->item;
  return status;
}

int tune_inputs_prepare(cli_run *run, accel_endpoint *reference, tune_inputs *inputs) {
  preparing p = {.run = run,
                 .reference = reference,
                 .start = config_number(run, "decoder_start_token_id", -1),
                 .longest = config_number(run, "max_target_positions", 200)};
  accel_strings *names = NULL, *results = NULL;
  accel_status status = accel_endpoint_io(reference, &names, &results);
  for (uint32_t i = 0; status == ACCEL_OK && i < names->n; ++i)
    p.decodes |= strcmp(names->item[i], "decoder_input_ids") == 0;
  accel_strings_free(&names);
  accel_strings_free(&results);
  for (uint32_t i = 0; status == ACCEL_OK && i < inputs->n; ++i)
    status = prepare_one(&p, &inputs->item[i]);
  accel_tokenizer_close(&p.tokenizer);
  if (status == ACCEL_ERROR_LIMIT && !*accel_last_error())
    return cli_error(run, status, "an input has more than 8 tensors");
  return status == ACCEL_OK ? 0 : cli_fail(run, status);
}

void tune_inputs_free(tune_inputs *inputs) {
  for (uint32_t i = 0; i < inputs->n; ++i) {
    tune_input *in = &inputs->item[i];
    accel_tensors_free(&in->read);
    accel_tensors_free(&in->outputs);
    free(in->ids);
    free(in->decoder_ids);
  }
  for (uint32_t i = 0; i < inputs->n_texts; ++i) cli_texts_free(&inputs->texts[i]);
  free(inputs->texts);
  free(inputs->item);
  *inputs = (tune_inputs){0};
}

/* ---- running ---- */

static accel_status run_one(accel_endpoint *endpoint, const tune_input *in, accel_tensors **out) {
  accel_ticket *ticket;
  if (!in->embeds) return accel_run(endpoint, &in->tensors, out);
  accel_status status = accel_submit_texts(accel_queue_of(endpoint), &in->text, 1, &ticket);
  return status == ACCEL_OK ? accel_wait(&ticket, -1, out) : status;
}

accel_status tune_inputs_refer(accel_endpoint *reference, tune_inputs *inputs) {
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; status == ACCEL_OK && i < inputs->n; ++i)
    status = run_one(reference, &inputs->item[i], &inputs->item[i].outputs);
  return status;
}

static bool generates(const accel_endpoint *endpoint, const tune_inputs *inputs) {
  const char *task = accel_processor_of(endpoint)->task;
  return task && strcmp(task, "text-generation") == 0 && inputs->n_texts;
}

/* Texts of the search; free() it. */
static const char **texts_of(const tune_inputs *inputs, uint32_t *n) {
  const char **texts = malloc((inputs->n + 1) * sizeof *texts);
  *n = 0;
  for (uint32_t i = 0; texts && i < inputs->n; ++i)
    if (inputs->item[i].text && !inputs->item[i].held_out) texts[(*n)++] = inputs->item[i].text;
  return texts;
}

static accel_status pass_texts(accel_endpoint *endpoint, const char *const *texts, uint32_t n,
                               uint32_t new_tokens) {
  accel_generate_params how = accel_generate_params_default();
  accel_embeddings *vectors;
  accel_generations *made;
  accel_status status;
  if (!new_tokens) {
    status = accel_embed(endpoint, texts, n, &vectors);
    if (status == ACCEL_OK) accel_embeddings_free(&vectors);
    return status;
  }
  how.max_new_tokens = (int32_t)new_tokens;
  how.do_sample = 0;
  how.num_beams = 1;
  how.ignore_eos = 1;
  status = accel_generate(endpoint, texts, n, &how, &made);
  if (status == ACCEL_OK) accel_generations_free(&made);
  return status;
}

accel_status tune_pass(accel_endpoint *endpoint, const tune_inputs *inputs, uint32_t new_tokens,
                       double *ms) {
  uint32_t n;
  bool embeds = false;
  const bool generation = generates(endpoint, inputs);
  const char **texts = texts_of(inputs, &n);
  if (!texts) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = ACCEL_OK;
  const double begin = bench_now_ms();
  for (uint32_t i = 0; i < inputs->n; ++i) embeds |= inputs->item[i].embeds;
  if (n && (generation || embeds))
    status = pass_texts(endpoint, texts, n, generation ? new_tokens : 0);
  for (uint32_t i = 0; status == ACCEL_OK && i < inputs->n; ++i) {
    const tune_input *in = &inputs->item[i];
    accel_tensors *outputs;
    if (in->held_out || in->embeds || (in->text && generation)) continue;
    status = accel_run(endpoint, &in->tensors, &outputs);
    if (status == ACCEL_OK) accel_tensors_free(&outputs);
  }
  *ms = bench_now_ms() - begin;
  free(texts);
  return status;
}

/* ---- comparing ---- */

static bool all_zero(const float *x, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i)
    if (x[i] != 0) return false;
  return true;
}

/* Of one vector.  A single number has no direction: its relative error counts as the angle. */
static double likeness(const float *a, const float *b, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i)
    if (!isfinite(a[i]) || !isfinite(b[i])) return -1;
  if (n == 1) {
    const double size = fmax(fabs((double)a[0]), 1e-12), off = ((double)b[0] - (double)a[0]) / size;
    return fmax(-1, 1 - 0.5 * off * off);
  }
  if (memcmp(a, b, n * sizeof *a) == 0 || (all_zero(a, n) && all_zero(b, n))) return 1;
  return accel_cosine(a, b, (size_t)n);
}

/* Numbers of an output that are one vector: a row of tokens [items, rows, channels], else an item
 * [items, ...], else all. */
static uint64_t vector_length(const accel_tensor *t, uint64_t all) {
  const int64_t last = t->rank ? t->dim[t->rank - 1] : 1, first = t->rank ? t->dim[0] : 1;
  if (t->rank == 3 && last > 1) return (uint64_t)last;
  return t->rank >= 2 && first > 0 ? all / (uint64_t)first : all;
}

static double compare_tensor(const accel_tensor *a, const accel_tensor *b) {
  uint64_t all = 1;
  double least = 1;
  if (a->dtype != ACCEL_F32) return 1;
  if (a->rank != b->rank || b->dtype != ACCEL_F32) return -1;
  for (uint32_t d = 0; d < a->rank; ++d) {
    if (a->dim[d] != b->dim[d]) return -1;
    all *= (uint64_t)a->dim[d];
  }
  const uint64_t n = vector_length(a, all);
  const float *x = a->data, *y = b->data;
  for (uint64_t i = 0; n && i + n <= all; i += n) least = fmin(least, likeness(x + i, y + i, n));
  return least;
}

accel_status tune_compare(accel_endpoint *endpoint, const tune_inputs *inputs, bool held_out,
                          double *cosine, uint32_t *n) {
  *n = 0;
  for (uint32_t i = 0; i < inputs->n; ++i) {
    const tune_input *in = &inputs->item[i];
    accel_tensors *outputs;
    double least = 1;
    if (in->held_out != held_out) continue;
    const accel_status status = run_one(endpoint, in, &outputs);
    if (status != ACCEL_OK) return status;
    for (uint32_t k = 0; k < outputs->n && k < in->outputs->n; ++k)
      least = fmin(least, compare_tensor(&in->outputs->item[k], &outputs->item[k]));
    accel_tensors_free(&outputs);
    cosine[(*n)++] = least;
  }
  return ACCEL_OK;
}
