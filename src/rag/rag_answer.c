/* rag_answer.c - an answer of a language model from the passages that a search found. */
#include <stdlib.h>
#include <string.h>

#include "generate/generation.h"
#include "generate/model_stepper.h"
#include "processing/processor.h"
#include "processing/result.h"
#include "rag/rag_index.h"
#include "text/chat_template.h"

enum { NEW_TOKENS = 256 };

static const char instruction[] =
    "Answer the question from the numbered sources below, and from nothing else. Behind each "
    "statement cite the sources that it comes from by their numbers in brackets, such as [1] or "
    "[2]. If the sources do not hold the answer, say so.\n\nSources:\n";

typedef struct prompt {
  accel_endpoint *ep;
  accel__chat_template *template; /* NULL: the model has none */
  const char *question;
  const accel_rag_passages *found;
  accel__buffer text; /* as the model reads it */
  size_t tokens;
} prompt;

/* ---- the prompt ---- */

static void write_source(accel__buffer *b, uint32_t number, const accel_rag_passage *p) {
  const char *slash = strrchr(p->path, '/');
  accel__buffer_printf(b, "\n[%u] %s%s%s, lines %u-%u\n%s\n", number, slash ? slash + 1 : p->path,
                       *p->heading ? ", " : "", p->heading, p->first_line, p->last_line, p->text);
}

/* What documents and questions spell as special tokens of the model stays text: a space goes into
 * it, so that nothing in a document ends its turn. */
static accel_status defuse(const accel__tokenizer *tokenizer, accel__buffer *text) {
  accel__encoding enc = {0};
  accel__buffer out = {0};
  const accel__encode_options how = {0};
  size_t done = 0, n;
  ACCEL_TRY(accel__encode(tokenizer, text->data, text->n, NULL, 0, &how, &enc));
  for (size_t i = 0; i < enc.n; i++) {
    const accel__span at = enc.bytes[i];
    const char *token = accel__id_to_token(tokenizer, enc.ids[i], &n);
    if (!token || !accel__id_is_special(tokenizer, enc.ids[i]) || at.start < done || n < 2 ||
        at.end - at.start < n || !memmem(text->data + at.start, at.end - at.start, token, n))
      continue;
    const char *where = memmem(text->data + at.start, at.end - at.start, token, n);
    const size_t cut = (size_t)(where - text->data) + 1;
    if (((unsigned char)text->data[cut] & 0xC0) == 0x80) continue;
    accel__buffer_bytes(&out, text->data + done, cut - done);
    accel__buffer_text(&out, " ");
    done = cut;
  }
  accel__buffer_bytes(&out, text->data + done, text->n - done);
  accel__encoding_free(&enc);
  accel__buffer_free(text);
  *text = out;
  return accel__buffer_status(text);
}

static accel_status render(prompt *p, const accel__buffer *message) {
  accel__buffer json = {0};
  accel__json_file file = {0};
  accel__buffer_text(&json, "[{\"role\": \"user\", \"content\": ");
  accel__buffer_json_string(&json, message->data, message->n);
  accel__buffer_text(&json, "}]");
  accel_status status = accel__buffer_status(&json);
  if (status == ACCEL_OK) status = accel__json_parse(json.data, json.n, "messages", &file);
  const accel__chat_request request = {.messages = file.root, .add_generation_prompt = true};
  if (status == ACCEL_OK)
    status = accel__chat_template_render(p->template, &request, &p->text, NULL);
  accel__json_free(&file);
  accel__buffer_free(&json);
  return status;
}

/* The prompt with the first n sources, and its length. */
static accel_status write_prompt(prompt *p, uint32_t n) {
  const accel__tokenizer *tokenizer = accel__processor_for(p->ep)->tokenizer;
  const accel__encode_options how = {.add_special_tokens = !p->template};
  accel__encoding enc = {0};
  accel__buffer message = {0};
  accel__buffer_text(&message, instruction);
  for (uint32_t i = 0; i < n; i++) write_source(&message, i + 1, &p->found->item[i]);
  accel__buffer_printf(&message, "\nQuestion: %s", p->question);
  accel__buffer_free(&p->text);
  accel_status status = accel__buffer_status(&message);
  if (status == ACCEL_OK) status = defuse(tokenizer, &message);
  if (status == ACCEL_OK && p->template) {
    status = render(p, &message);
  } else if (status == ACCEL_OK) {
    accel__buffer_printf(&p->text, "%s\nAnswer:", message.data);
    status = accel__buffer_status(&p->text);
  }
  accel__buffer_free(&message);
  if (status == ACCEL_OK)
    status = accel__encode(tokenizer, p->text.data, p->text.n, NULL, 0, &how, &enc);
  p->tokens = enc.n;
  accel__encoding_free(&enc);
  return status;
}

/* As many sources as there is room for; *n gets their number, and max_new_tokens what is left. */
static accel_status fit(prompt *p, accel_generate_params *how, uint32_t *n) {
  const int64_t context = accel__context_length(p->ep);
  int64_t wanted = how->max_new_tokens > 0 ? how->max_new_tokens : NEW_TOKENS;
  if (how->max_new_tokens <= 0 && context > 0 && wanted > context / 4) wanted = context / 4 + 1;
  uint32_t low = 0, high = p->found->n;
  ACCEL_TRY(write_prompt(p, high));
  if (context <= 0 || (int64_t)p->tokens + wanted <= context) {
    low = high;
  } else {
    while (low + 1 < high) { /* low sources fit, or are none; high do not */
      const uint32_t middle = low + (high - low) / 2;
      ACCEL_TRY(write_prompt(p, middle));
      if ((int64_t)p->tokens + wanted <= context)
        low = middle;
      else
        high = middle;
    }
    ACCEL_TRY(write_prompt(p, low ? low : 1));
  }
  if (!low)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_LIMIT,
                    "%s: the question and one source have %zu tokens and the answer %lld, the "
                    "model's context is %lld",
                    p->ep->name, p->tokens, (long long)wanted, (long long)context),
        "ask for fewer new tokens, or index with smaller passages (--chunk-tokens)");
  how->max_new_tokens = (int32_t)wanted;
  *n = low;
  return ACCEL_OK;
}

/* ---- citations ---- */

/* The number at `c`; *next is behind it.  0: there is none, or it is beyond n. */
static uint32_t number_at(const char *c, uint32_t n, const char **next) {
  uint32_t number = 0;
  for (; *c >= '0' && *c <= '9'; c++)
    if (number <= n) number = number * 10 + (uint32_t)(*c - '0');
  *next = c;
  return number <= n ? number : 0;
}

/* [1], [1, 2] and [1][2] in the text, of n sources: *cited gets the numbers, ascending. */
static accel_status find_citations(const char *text, uint32_t n, accel__arena *arena,
                                   accel_rag_answer *out) {
  bool *seen = accel__arena_array(arena, (size_t)n + 1, sizeof *seen);
  uint32_t *cited = accel__arena_array(arena, n, sizeof *cited);
  if (!seen || !cited) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (const char *open = strchr(text, '['); open; open = strchr(open + 1, '[')) {
    const size_t inside = strspn(open + 1, "0123456789, ");
    const char *end = open + 1 + inside;
    if (*end != ']') continue;
    for (const char *c = open + 1; c < end; c++)
      if (*c >= '0' && *c <= '9') seen[number_at(c, n, &c)] = true;
  }
  for (uint32_t i = 1; i <= n; i++)
    if (seen[i]) cited[out->n_cited++] = i;
  out->cited = cited;
  return ACCEL_OK;
}

/* ---- the answer ---- */

static accel_status generate(prompt *p, const accel_generate_params *given, accel_rag_answer *out) {
  accel_generate_params how = *given;
  accel_generations *made = NULL;
  accel__arena *arena = accel__task_arena(out);
  uint32_t n = 0;
  ACCEL_TRY(fit(p, &how, &n));
  out->n_left_out = p->found->n - n;
  how.no_special_tokens = p->template != NULL;
  ACCEL_TRY(accel__generate(p->ep, (const char *const[]){p->text.data}, 1, &how, &made));
  const accel_generation *one = &made->item[0];
  out->text = accel__arena_string(arena, one->text);
  out->finish = accel__arena_string(arena, one->finish);
  out->prompt_tokens = made->prompt_tokens;
  out->new_tokens = made->new_tokens;
  out->prefill_ms = made->prefill_ms;
  out->decode_ms = made->decode_ms;
  accel__task_free(made);
  if (!out->text || !out->finish) return ACCEL_ERROR_OUT_OF_MEMORY;
  return find_citations(out->text, n, arena, out);
}

static accel_status find_template(prompt *p) {
  ACCEL_TRY(accel__processor_check(p->ep, p->ep->model->task));
  const accel_status status = accel__endpoint_template(p->ep, &p->template);
  if (status != ACCEL_ERROR_NOT_FOUND) return status;
  p->template = NULL;
  return ACCEL_OK;
}

accel_status accel__rag_answer(accel_rag *r, accel_endpoint *generator, const char *question,
                               const accel_rag_search_params *search,
                               const accel_generate_params *generate_how, accel_rag_answer **out) {
  accel_rag_passages *found = NULL;
  prompt p = {.ep = generator, .question = question};
  if (generate_how->num_return_sequences > 1)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "num_return_sequences is %u: an answer is one",
                       generate_how->num_return_sequences);
  ACCEL_TRY(find_template(&p));
  ACCEL_TRY(accel__rag_search(r, question, search, &found));
  accel_rag_answer *answer = accel__task_result(sizeof *answer);
  accel_status status = answer ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK && !found->n)
    status =
        accel__remedy(accel__fail(ACCEL_ERROR_NOT_FOUND, "%s: no passage was found", r->store.path),
                      "index documents first, or ask with other words");
  p.found = found;
  if (status == ACCEL_OK) status = generate(&p, generate_how, answer);
  if (status == ACCEL_OK) {
    found->n -= answer->n_left_out;
    answer->sources = found;
  } else {
    accel__task_free(found);
  }
  accel__buffer_free(&p.text);
  *out = accel__task_finish(answer, status);
  return status;
}

void accel__rag_answer_free(accel_rag_answer *answer) {
  if (answer) accel__task_free((void *)(uintptr_t)answer->sources);
  accel__task_free(answer);
}
