/* generate_session.c - sessions: feeding, generating, going back, forking, files. */
#include "generate/generate_session.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "processing/processor.h"

/* ---- life ---- */

static accel_status make(accel__session *shared, accel_session **out) {
  accel_session *s = calloc(1, sizeof *s);
  if (!s) return accel__no_memory(sizeof *s);
  s->shared = shared;
  accel_status status = accel__model_stepper_open(shared, &s->stepper);
  s->sequence = status == ACCEL_OK ? accel__session_number(shared) : -1;
  if (s->sequence < 0) {
    free(s);
    return status == ACCEL_OK ? accel__no_memory(0) : status;
  }
  pthread_mutex_init(&s->lock, NULL);
  *out = s;
  return ACCEL_OK;
}

accel_status accel__session_make(accel_endpoint *ep, accel_session **out) {
  accel__session *shared;
  ACCEL_TRY(accel__can_generate(ep));
  if (ep->model->is_encoder_decoder)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: sessions are for decoders; a %s answers each text anew", ep->name,
                       ep->model->architecture);
  ACCEL_TRY(accel__session_open(ep, &shared));
  accel_status status = make(shared, out);
  if (status != ACCEL_OK) accel__session_close(&shared);
  return status;
}

void accel__session_end(accel_session *s) {
  accel__session_drop(s->shared, s->sequence);
  accel__model_stepper_close(&s->stepper);
  accel__session_close(&s->shared);
  accel__hypothesis_free(&s->tokens);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

/* A session may have forgotten its sequences with a device that was lost: they are fed again. */
static void note_loss(accel_session *s) {
  uint64_t length;
  if (s->shared->ep->n_replaced && s->tokens.past_len &&
      accel__session_length(s->shared, s->sequence, &length) == ACCEL_OK &&
      length != s->tokens.past_len)
    s->tokens.past_len = 0;
}

/* Makes the device hold at most `keep` tokens; states that cannot go back are forgotten and made
 * anew when needed. */
static accel_status rewind_to(accel_session *s, uint32_t keep) {
  note_loss(s);
  if (s->tokens.past_len <= keep) return ACCEL_OK;
  accel_status status =
      keep ? accel__session_control(s->shared, ACCEL_PLUGIN_SESSION_TRUNCATE, s->sequence, keep)
           : ACCEL_ERROR_UNSUPPORTED;
  if (status == ACCEL_ERROR_UNSUPPORTED) {
    accel__clear_error();
    keep = 0;
    status = accel__session_control(s->shared, ACCEL_PLUGIN_SESSION_RESET, s->sequence, 0);
  }
  if (status == ACCEL_OK) s->tokens.past_len = keep;
  return status;
}

/* ---- feeding ---- */

/* All tokens but the last one go to the device. */
static accel_status catch_up(accel_session *s) {
  accel__hypothesis *h = &s->tokens;
  while (h->n && h->past_len < h->n - 1) {
    const uint32_t rows = h->n - 1 - h->past_len;
    accel__step_item item =
        accel__hypothesis_item(h, rows < ACCEL__STEP_TOKENS ? rows : ACCEL__STEP_TOKENS);
    item.sequence = s->sequence;
    item.adapter = s->adapter;
    ACCEL_TRY(s->stepper.stepper.step(&s->stepper, &item, 1));
    accel__hypothesis_fed(h, &item);
  }
  return ACCEL_OK;
}

static accel_status check_feed(const accel_session *s, const int32_t *ids, uint32_t n) {
  const accel_endpoint *ep = s->shared->ep;
  int64_t context = accel__context_length(ep);
  for (uint32_t i = 0; i < n; i++)
    if (ids[i] < 0 || ids[i] >= ep->model->vocab_size)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: token %u is %d; the model's are 0 to %lld",
                         ep->name, i, ids[i], (long long)ep->model->vocab_size - 1);
  if (context > 0 && (int64_t)s->tokens.n + n > context)
    return accel__fail(ACCEL_ERROR_LIMIT,
                       "%s: the session has %u tokens; with %u more it passes the context of %lld",
                       ep->name, s->tokens.n, n, (long long)context);
  return ACCEL_OK;
}

accel_status accel__session_feed(accel_session *s, const int32_t *ids, uint32_t n) {
  uint32_t before = s->tokens.n, past_len = s->tokens.past_len;
  ACCEL_TRY(check_feed(s, ids, n));
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++)
    status = accel__hypothesis_add(&s->tokens, ids[i]);
  if (status == ACCEL_OK) status = catch_up(s);
  if (status == ACCEL_OK) return ACCEL_OK;
  s->tokens.n = before;
  if (s->tokens.past_len > past_len) rewind_to(s, past_len);
  return status;
}

accel_status accel__session_feed_text(accel_session *s, const char *text, bool special) {
  accel_endpoint *ep = s->shared->ep;
  accel__encoding enc = {0};
  accel__encode_options how = {.add_special_tokens = special};
  ACCEL_TRY(accel__processor_check(ep, ep->model->task));
  accel_status status = accel__encode_texts(ep, &text, NULL, 1, &how, &enc);
  if (status == ACCEL_OK) status = accel__session_feed(s, enc.ids, (uint32_t)enc.n);
  accel__encoding_free(&enc);
  return status;
}

/* ---- generating ---- */

/* From now on tokens are read with this adapter; what was read with another is read anew. */
static accel_status take_adapter(accel_session *s, const accel_plugin_adapter_use *use) {
  const bool same = s->adapter.adapter == use->adapter && s->adapter.scale == use->scale;
  if (!same) ACCEL_TRY(rewind_to(s, 0));
  s->adapter = *use;
  return ACCEL_OK;
}

static accel_status go_on(accel_session *s, const accel__generate_plan *plan,
                          const accel_generate_params *params, accel_generations **out) {
  accel_endpoint *ep = s->shared->ep;
  accel__request r = {0};
  accel__engine engine = {.model = &s->stepper.stepper};
  ACCEL_TRY(take_adapter(s, &plan->adapter));
  uint32_t before = s->tokens.n, past_len = s->tokens.past_len;
  ACCEL_TRY(accel__generate_request(ep, plan, params, (accel__ids){s->tokens.ids, s->tokens.n}, 0,
                                    accel__context_length(ep), &r));
  r.start.sequence = s->sequence;
  r.start.past_len = past_len;
  r.start.total_len = s->tokens.total_len;
  accel_status status = accel__generate_run(ep, &engine, &r, 1);
  for (uint32_t i = before; status == ACCEL_OK && i < r.outcome.done[0].n; i++)
    status = accel__hypothesis_add(&s->tokens, r.outcome.done[0].ids[i]);
  if (status == ACCEL_OK) status = accel__generate_collect(&r, 1, out);
  if (status == ACCEL_OK) {
    s->tokens.past_len = r.start.past_len;
    s->tokens.total_len = r.start.total_len;
  } else { /* as it was before; how far the device has come is not known */
    s->tokens.n = before;
    accel__session_control(s->shared, ACCEL_PLUGIN_SESSION_RESET, s->sequence, 0);
    s->tokens.past_len = 0;
  }
  accel__request_end(&r, NULL);
  accel__engine_free(&engine);
  return status;
}

accel_status accel__session_generate(accel_session *s, const accel_generate_params *params,
                                     accel_generations **out) {
  accel__generate_plan plan;
  accel_status status = accel__generate_plan_make(s->shared->ep, params, &plan);
  if (status == ACCEL_OK && (plan.config.num_beams > 1 || plan.config.num_return > 1))
    status =
        accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED,
                                  "%s: a session goes on with one sequence", s->shared->ep->name),
                      "fork the session for several");
  if (status == ACCEL_OK && !s->tokens.n)
    status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: the session holds no tokens to go on from",
                         s->shared->ep->name);
  if (status == ACCEL_OK) status = go_on(s, &plan, params, out);
  accel__generate_plan_free(&plan);
  return status;
}

/* ---- going back, forking ---- */

accel_status accel__session_truncate(accel_session *s, uint32_t tokens) {
  if (tokens >= s->tokens.n) return ACCEL_OK;
  ACCEL_TRY(rewind_to(s, tokens ? tokens - 1 : 0));
  s->tokens.n = tokens;
  return ACCEL_OK;
}

accel_status accel__session_fork(accel_session *s, accel_session **out) {
  accel__session *shared = accel__session_share(s->shared);
  accel_session *fork = NULL;
  note_loss(s);
  accel_status status = make(shared, &fork);
  if (status != ACCEL_OK) {
    accel__session_close(&shared);
    return status;
  }
  for (uint32_t i = 0; i < s->tokens.n && status == ACCEL_OK; i++)
    status = accel__hypothesis_add(&fork->tokens, s->tokens.ids[i]);
  if (status == ACCEL_OK && s->tokens.past_len)
    status = accel__session_control(shared, ACCEL_PLUGIN_SESSION_COPY, s->sequence, fork->sequence);
  fork->adapter = s->adapter;
  fork->tokens.past_len = s->tokens.past_len;
  fork->tokens.total_len = s->tokens.total_len;
  if (status != ACCEL_OK) {
    accel__session_end(fork);
    return status;
  }
  *out = fork;
  return ACCEL_OK;
}

/* ---- files: header, ids int32 [n], what the plugin exports ---- */

typedef struct file_header {
  char magic[8];       /* "ACCELSES" */
  uint32_t version, n; /* 1; tokens */
  uint32_t past_len, total_len;
  uint64_t bytes;  /* of the plugin's part */
  uint64_t plugin; /* hash of its name and build */
  uint64_t check;  /* hash of all that follows */
} file_header;
static const char magic[8] = {'A', 'C', 'C', 'E', 'L', 'S', 'E', 'S'};

static uint64_t plugin_hash(const accel_endpoint *ep) {
  uint64_t h = accel__hash(ep->placed.plugin->name, strlen(ep->placed.plugin->name), 1);
  return accel__hash(ep->placed.plugin->build_id, strlen(ep->placed.plugin->build_id), h);
}

accel_status accel__session_save(accel_session *s, const char *path) {
  void *state = NULL;
  uint64_t bytes = 0;
  accel__buffer b = {0};
  /* files know no adapters: a session that has one leaves its states out */
  if (s->adapter.adapter) ACCEL_TRY(rewind_to(s, 0));
  note_loss(s);
  file_header h = {.version = 1,
                   .n = s->tokens.n,
                   .past_len = s->tokens.past_len,
                   .total_len = s->tokens.total_len,
                   .plugin = plugin_hash(s->shared->ep)};
  if (s->tokens.past_len) ACCEL_TRY(accel__session_export(s->shared, s->sequence, &state, &bytes));
  memcpy(h.magic, magic, sizeof magic);
  h.bytes = bytes;
  accel__buffer_bytes(&b, &h, sizeof h);
  if (s->tokens.n) accel__buffer_bytes(&b, s->tokens.ids, s->tokens.n * sizeof *s->tokens.ids);
  if (bytes) accel__buffer_bytes(&b, state, bytes);
  accel_status status = accel__buffer_status(&b);
  if (status == ACCEL_OK) {
    h.check = accel__hash(b.data + sizeof h, b.n - sizeof h, 0);
    memcpy(b.data, &h, sizeof h);
    status = accel__file_write(path, b.data, b.n);
  }
  accel__buffer_free(&b);
  free(state);
  return status;
}

static accel_status read_file(accel_session *s, const char *path, const accel__mapping *map) {
  const accel_endpoint *ep = s->shared->ep;
  file_header h;
  if (map->n < sizeof h || memcmp(map->data, magic, sizeof magic))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: not a session file", path);
  memcpy(&h, map->data, sizeof h);
  const uint8_t *rest = map->data + sizeof h;
  uint64_t left = map->n - sizeof h, ids = (uint64_t)h.n * sizeof(int32_t);
  if (h.version != 1 || ids > left || h.bytes != left - ids ||
      (h.n ? h.past_len >= h.n : h.past_len > 0) || h.check != accel__hash(rest, left, 0))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: the session file is damaged, or of another version",
                       path);
  if (h.plugin != plugin_hash(ep))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: made with another device's plugin, or another build of '%s'", path,
                       ep->placed.plugin->name);
  int32_t *copy = malloc(ids ? ids : 1);
  if (!copy) return accel__no_memory(ids);
  memcpy(copy, rest, ids);
  accel_status status = check_feed(s, copy, h.n);
  for (uint32_t i = 0; i < h.n && status == ACCEL_OK; i++)
    status = accel__hypothesis_add(&s->tokens, copy[i]);
  free(copy);
  if (status == ACCEL_OK && h.bytes)
    status = accel__session_import(s->shared, s->sequence, rest + ids, h.bytes);
  if (status == ACCEL_OK && h.bytes)
    s->tokens.past_len = h.past_len, s->tokens.total_len = h.total_len;
  return status;
}

accel_status accel__session_load(accel_endpoint *ep, const char *path, accel_session **out) {
  accel__mapping map = {0};
  accel_session *s = NULL;
  ACCEL_TRY(accel__session_make(ep, &s));
  accel_status status = accel__file_load(path, &map);
  if (status == ACCEL_OK) status = read_file(s, path, &map);
  accel__file_unmap(&map);
  if (status == ACCEL_OK)
    *out = s;
  else
    accel__session_end(s);
  return status;
}
