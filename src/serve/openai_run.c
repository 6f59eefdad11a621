/* openai_run.c - generations of one request: prompts to tokens, tickets, events from the queue's
 * thread to the handler's, and what is counted. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve/openai.h"

/* Events and ends, from the queue's thread to the handler's. */
typedef struct openai_feed {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  openai_event *first, **last;
  uint32_t done; /* prompts that have ended */
  bool failed;   /* no memory for an event */
} openai_feed;

/* ---- prompts ---- */

static openai_prompt *next_prompt(openai_job *job) {
  if (job->n_prompts == OPENAI_PROMPTS) {
    serve_fail(job->request, 400, "prompt", NULL, "prompt: at most %d in one request",
               OPENAI_PROMPTS);
    return NULL;
  }
  openai_prompt *p = &job->prompt[job->n_prompts];
  *p = (openai_prompt){.job = job, .number = job->n_prompts};
  job->n_prompts++;
  return p;
}

/* calloc: a prompt without tokens is the library's to refuse. */
static bool reserve_ids(openai_job *job, openai_prompt *p, uint32_t n) {
  p->n = n;
  p->ids = calloc((size_t)n + 1, sizeof *p->ids);
  if (!p->ids) serve_fail(job->request, 500, NULL, NULL, "out of memory");
  return p->ids != NULL;
}

bool openai_add_prompt(openai_job *job, const char *text, int special_tokens) {
  accel_tokenizer *tokenizer = accel_tokenizer_of(job->model->endpoint);
  accel_token_ids *found = NULL;
  openai_prompt *p = next_prompt(job);
  if (!p) return false;
  if (!tokenizer) {
    serve_fail(job->request, 400, "model", NULL, "%s has no tokenizer", job->model->name);
    return false;
  }
  const accel_status status = accel_tokenize(tokenizer, &text, 1, special_tokens, &found);
  if (status != ACCEL_OK) {
    serve_fail_with(job->request, status, "prompt");
    return false;
  }
  const bool ok = reserve_ids(job, p, found->count[0]);
  if (ok && p->n) memcpy(p->ids, found->ids[0], p->n * sizeof *p->ids);
  accel_token_ids_free(&found);
  return ok;
}

bool openai_add_pictured(openai_job *job, const char *text, const openai_messages *pictures) {
  openai_prompt *p = next_prompt(job);
  if (!p) return false;
  p->text = strdup(text);
  p->images = pictures->image;
  p->n_images = pictures->images;
  if (!p->text) serve_fail(job->request, 500, NULL, NULL, "out of memory");
  return p->text != NULL;
}

bool openai_add_ids(openai_job *job, const cJSON *ids) {
  const cJSON *item;
  uint32_t n = 0;
  openai_prompt *p = next_prompt(job);
  if (!p || !reserve_ids(job, p, (uint32_t)cJSON_GetArraySize(ids))) return false;
  cJSON_ArrayForEach(item, ids) {
    const double id = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (id < 0 || id > INT32_MAX || id != (double)(int32_t)id) {
      serve_fail(job->request, 400, "prompt", NULL, "prompt: element %u is no token", n);
      return false;
    }
    p->ids[n++] = (int32_t)id;
  }
  return true;
}

/* ---- events ---- */

/* A copy in one block. */
static openai_event *copy_event(const accel_token_event *from, uint32_t choice) {
  const size_t text = strlen(from->text) + 1,
               others = from->alternatives * sizeof *from->alternative;
  openai_event *e = malloc(sizeof *e + others + text);
  if (!e) return NULL;
  accel_token_logprob *alternative = (accel_token_logprob *)(e + 1);
  if (others) memcpy(alternative, from->alternative, others);
  *e = (openai_event){.choice = choice,
                      .id = from->id,
                      .logprob = from->logprob,
                      .finish = from->finish,
                      .alternatives = from->alternatives,
                      .alternative = alternative,
                      .text = memcpy((char *)alternative + others, from->text, text)};
  return e;
}

static int on_token(void *user, const accel_token_event *event) {
  const openai_prompt *p = user;
  openai_feed *feed = p->job->feed;
  openai_event *copy = copy_event(event, p->number * p->job->settings->n + event->sequence);
  pthread_mutex_lock(&feed->lock);
  if (copy) {
    *feed->last = copy;
    feed->last = &copy->next;
  }
  feed->failed |= !copy;
  pthread_cond_signal(&feed->changed);
  pthread_mutex_unlock(&feed->lock);
  return !copy;
}

static void on_done(void *user) {
  const openai_prompt *p = user;
  openai_feed *feed = p->job->feed;
  pthread_mutex_lock(&feed->lock);
  feed->done++;
  pthread_cond_signal(&feed->changed);
  pthread_mutex_unlock(&feed->lock);
}

/* Gives the events to the job until `ended` prompts have ended.  A job that does not take one gets
 * no more. */
static bool drain(openai_job *job, uint32_t ended) {
  openai_feed *feed = job->feed;
  bool takes = true, over = false;
  while (!over) {
    pthread_mutex_lock(&feed->lock);
    while (!feed->first && feed->done < ended) pthread_cond_wait(&feed->changed, &feed->lock);
    openai_event *e = feed->first;
    feed->first = NULL;
    feed->last = &feed->first;
    over = feed->done >= ended;
    pthread_mutex_unlock(&feed->lock);
    if (e && job->first_token_s == 0) job->first_token_s = serve_age(job->request);
    for (openai_event *next; e; e = next) {
      next = e->next;
      if (takes && !job->take(job, e)) {
        takes = false;
        for (uint32_t i = 0; i < job->n_prompts; i++) accel_ticket_cancel(job->prompt[i].ticket);
      }
      free(e);
    }
  }
  return takes && !feed->failed;
}

/* ---- tickets ---- */

static accel_status submit(openai_job *job, openai_prompt *p) {
  accel_request what = accel_request_default(ACCEL_REQUEST_GENERATE);
  accel_generate_params params = job->settings->params;
  serve_use_adapter(&params, job->model);
  if (job->settings->stream) {
    params.on_token = on_token;
    params.on_token_user = p;
  }
  what.priority = job->settings->priority;
  what.deadline_ms = job->settings->deadline_ms;
  const accel_image_prompt pictured = {.kind = ACCEL_PROMPT_TEMPLATED,
                                       .text = p->text,
                                       .images = p->images,
                                       .n_images = p->n_images};
  if (p->text) {
    what.image_prompt = &pictured;
    params.no_special_tokens = 0; /* as the model's processor does with the template's text */
  }
  what.ids = p->ids;
  what.n = p->n;
  what.generate = &params;
  what.done = on_done;
  what.user = p;
  const accel_status status = accel_submit_request(job->model->queue, &what, &p->ticket);
  if (status == ACCEL_OK) serve_watch(job->request, p->ticket);
  return status;
}

/* Which field a request that fails at once is about: its grammar, when it has one, else the
 * messages with its pictures. */
static const char *blamed(const openai_job *job, accel_status status) {
  if (status == ACCEL_ERROR_QUEUE_FULL) return NULL;
  return job->settings->grammar_field ? job->settings->grammar_field
         : job->prompt[0].text        ? "messages"
                                      : NULL;
}

/* The first failure is the answer; those that are under way are cancelled and waited for. */
static bool run_queued(openai_job *job) {
  accel_status status = ACCEL_OK;
  uint32_t begun = 0;
  bool answered = false;
  while (begun < job->n_prompts && status == ACCEL_OK) {
    status = submit(job, &job->prompt[begun]);
    begun += status == ACCEL_OK;
  }
  if (status != ACCEL_OK) {
    serve_fail_with(job->request, status, blamed(job, status));
    answered = true;
    for (uint32_t i = 0; i < begun; i++) accel_ticket_cancel(job->prompt[i].ticket);
  }
  const bool begins = !answered && job->settings->stream && job->begin(job);
  if (!answered && job->settings->stream && !begins) {
    answered = true;
    for (uint32_t i = 0; i < begun; i++) accel_ticket_cancel(job->prompt[i].ticket);
  }
  const bool took = drain(job, begun);
  for (uint32_t i = 0; i < begun; i++) {
    openai_prompt *p = &job->prompt[i];
    serve_unwatch(job->request, p->ticket);
    status = accel_wait_generations(&p->ticket, -1, &p->result);
    if (status == ACCEL_OK || answered) continue;
    answered = true;
    serve_fail_with(job->request, status, NULL);
    for (uint32_t k = i + 1; k < begun; k++) accel_ticket_cancel(job->prompt[k].ticket);
  }
  if (begins && !took && !answered) serve_end(job->request);
  return !answered && (took || !begins);
}

/* ---- all of it ---- */

static void count(const openai_job *job) {
  serve_counts counts = {0};
  for (uint32_t i = 0; i < job->n_prompts; i++) {
    const accel_generations *g = job->prompt[i].result;
    if (!g || !g->n) continue;
    counts.prompt_tokens += g->prompt_tokens;
    counts.generated_tokens += g->new_tokens;
    counts.first_token_s = g->item[0].first_ms / 1000;
    if (job->first_token_s > 0) counts.first_token_s = job->first_token_s;
    if (g->item[0].n > 1) counts.token_s = g->decode_ms / 1000 / (g->item[0].n - 1);
  }
  serve_count(job->request, &counts);
}

bool openai_run(openai_job *job) {
  openai_feed feed = {.last = &feed.first};
  pthread_mutex_init(&feed.lock, NULL);
  pthread_cond_init(&feed.changed, NULL);
  job->feed = &feed;
  const bool ok = run_queued(job);
  job->feed = NULL;
  pthread_cond_destroy(&feed.changed);
  pthread_mutex_destroy(&feed.lock);
  if (ok) count(job);
  return ok;
}

void openai_job_free(openai_job *job) {
  for (uint32_t i = 0; i < job->n_prompts; i++) {
    free(job->prompt[i].ids);
    free(job->prompt[i].text);
    accel_generations_free(&job->prompt[i].result);
  }
}
