/* cli_chat.c - accel generate --chat: a conversation, turn by turn.  Turns are operands, --input,
 * or lines of stdin; lines that begin with "/" are commands. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli/cli_generation.h"
#include "cli/cli_print.h"

enum { INTERRUPTED = 130, MAX_LINE = 16 << 20 };

/* Lines of stdin, read so that a signal wakes the reader. */
typedef struct lines {
  char *data;
  size_t n, at, capacity;
  bool end;
} lines;

typedef struct turn {
  uint64_t prompt, reused, new;
  double prefill_ms, decode_ms;
  char finish[16];
} turn;

typedef struct conversation {
  cli_run *run;
  accel_chat *chat;
  accel_generate_params params;
  bool terminal, json; /* stdin is a terminal; no text is printed */
  int wake;            /* see cli_converse */
  lines in;
  turn *turns;
  uint32_t n_turns;
  bool over; /* the conversation was ended by a command */
} conversation;

/* ---- lines ---- */

static int too_long(const conversation *c) {
  return cli_error(c->run, ACCEL_ERROR_LIMIT, "a line of more than %d bytes", MAX_LINE);
}

/* Waits for input or a signal, and reads.  0, or an exit code. */
static int fill(conversation *c) {
  lines *in = &c->in;
  if (in->capacity - in->n < 4096) {
    size_t capacity = in->capacity ? 2 * in->capacity : 8192;
    char *data = capacity > 2 * (size_t)MAX_LINE ? NULL : realloc(in->data, capacity);
    if (!data) return too_long(c);
    in->data = data;
    in->capacity = capacity;
  }
  struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = c->wake, .events = POLLIN}};
  int times;
  while (poll(wait, 2, -1) < 0 && errno == EINTR) continue;
  int asked = cli_asked_to_stop(&times);
  if (asked)
    return asked == SIGINT ? INTERRUPTED : cli_error(c->run, ACCEL_ERROR_CANCELLED, "stopped");
  ssize_t got = read(STDIN_FILENO, in->data + in->n, in->capacity - in->n - 1);
  if (got < 0 && errno != EINTR)
    return cli_error(c->run, ACCEL_ERROR_IO, "stdin: %s", strerror(errno));
  if (got == 0) in->end = true;
  if (got > 0) in->n += (size_t)got;
  return 0;
}

/* The next line, without its end; NULL when there is none. */
static int next_line(conversation *c, char **line) {
  lines *in = &c->in;
  *line = NULL;
  if (in->at) memmove(in->data, in->data + in->at, in->n - in->at);
  in->n -= in->at;
  in->at = 0;
  if (c->terminal) fputs("> ", stderr);
  for (;;) {
    char *end = in->n ? memchr(in->data, '\n', in->n) : NULL;
    if (!end && in->end && in->n) end = in->data + in->n;
    if (end) {
      in->at = (size_t)(end - in->data) + (end < in->data + in->n);
      if (end > in->data && end[-1] == '\r') end[-1] = 0;
      *end = 0;
      *line = in->data;
      return 0;
    }
    if (in->end) return 0;
    int code = fill(c);
    if (code) return code;
  }
}

/* ---- answers ---- */

static int on_token(void *user, const accel_token_event *event) {
  const conversation *c = user;
  int times;
  cli_progress_end();
  cli_hold(true); /* from here on the listener ends the answer, so that what is there stays */
  if (!c->json) {
    cli_print_text(event->text);
    fflush(stdout);
  }
  return cli_asked_to_stop(&times) != 0;
}

static int keep_turn(conversation *c, const accel_generations *found) {
  turn *more = realloc(c->turns, (c->n_turns + 1u) * sizeof *more);
  if (!more) return cli_error(c->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  c->turns = more;
  turn *t = &c->turns[c->n_turns++];
  *t = (turn){.prompt = found->prompt_tokens,
              .reused = accel_chat_reused(c->chat),
              .new = found->new_tokens,
              .prefill_ms = found->prefill_ms,
              .decode_ms = found->decode_ms};
  snprintf(t->finish, sizeof t->finish, "%s", found->item[0].finish);
  if (!strcmp(t->finish, "length"))
    cli_note(c->run, "the answer is cut at %llu tokens: --max-new-tokens, or the model's context",
             (unsigned long long)t->new);
  if (cli_flag(c->run, OPT_VERBOSE))
    cli_note(c->run, "%llu tokens, %llu of them read before; %llu generated in %.0f ms",
             (unsigned long long)t->prompt, (unsigned long long)t->reused,
             (unsigned long long)t->new, t->decode_ms);
  return 0;
}

/* What a signal during the answer asks for: 0 go on, or the exit code. */
static int after_signal(conversation *c, const char *finish) {
  int times, asked = cli_asked_to_stop(&times);
  if (!asked) return 0;
  if (asked != SIGINT) return cli_error(c->run, ACCEL_ERROR_CANCELLED, "stopped");
  if (times > 1) return INTERRUPTED;
  if (!strcmp(finish, "cancelled")) cli_note(c->run, "answer cancelled; Ctrl-C again ends");
  cli_forget_interrupt();
  return 0;
}

static int say(conversation *c, const char *text) {
  accel_generations *found = NULL;
  c->params.on_token = on_token;
  c->params.on_token_user = c;
  cli_forget_interrupt();
  accel_status status = accel_chat_send(c->chat, text, &c->params, &found);
  cli_hold(false);
  if (!c->json && status == ACCEL_OK) putchar('\n');
  int code = status == ACCEL_OK                ? keep_turn(c, found)
             : status == ACCEL_ERROR_CANCELLED ? 0
                                               : cli_fail(c->run, status);
  if (code && c->terminal && status == ACCEL_ERROR_LIMIT)
    fputs("  /forget leaves out the oldest question and answer, /reset all of them\n", stderr);
  /* one can ask something else */
  if (status != ACCEL_OK && status != ACCEL_ERROR_CANCELLED && c->terminal) code = 0;
  int stop = after_signal(c, found ? found->item[0].finish : "cancelled");
  accel_generations_free(&found);
  return stop ? stop : code;
}

/* ---- commands ---- */

static bool has_role(const cJSON *message, const char *role) {
  const cJSON *is = cJSON_GetObjectItemCaseSensitive(message, "role");
  return cJSON_IsString(is) && !strcmp(is->valuestring, role);
}

static void forget_oldest(cJSON *messages) {
  int first = 0;
  while (has_role(cJSON_GetArrayItem(messages, first), "system")) first++;
  do cJSON_DeleteItemFromArray(messages, first);
  while (cJSON_GetArrayItem(messages, first) &&
         !has_role(cJSON_GetArrayItem(messages, first), "user"));
}

static void undo(cJSON *messages) {
  for (int last = cJSON_GetArraySize(messages) - 1; last >= 0; last--) {
    const cJSON *message = cJSON_GetArrayItem(messages, last);
    if (has_role(message, "system")) return;
    bool question = has_role(message, "user");
    cJSON_DeleteItemFromArray(messages, last);
    if (question) return;
  }
}

static void reset(cJSON *messages) {
  for (int last = cJSON_GetArraySize(messages) - 1; last >= 0; last--)
    if (!has_role(cJSON_GetArrayItem(messages, last), "system"))
      cJSON_DeleteItemFromArray(messages, last);
}

static void set_system(cJSON *messages, const char *text) {
  if (has_role(cJSON_GetArrayItem(messages, 0), "system")) cJSON_DeleteItemFromArray(messages, 0);
  cJSON *message = *text ? cJSON_CreateObject() : NULL;
  if (!message) return;
  cJSON_AddStringToObject(message, "role", "system");
  cJSON_AddStringToObject(message, "content", text);
  cJSON_InsertItemInArray(messages, 0, message);
}

/* Changes the messages as the command says. */
static int edit(conversation *c, const char *name, const char *text) {
  char *json = NULL;
  accel_status status = accel_chat_messages(c->chat, &json);
  if (status != ACCEL_OK) return cli_fail(c->run, status);
  cJSON *messages = cJSON_Parse(json);
  accel_string_free(&json);
  if (!messages) return cli_error(c->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  if (!strcmp(name, "reset")) reset(messages);
  if (!strcmp(name, "undo")) undo(messages);
  if (!strcmp(name, "forget")) forget_oldest(messages);
  if (!strcmp(name, "system")) set_system(messages, text);
  char *changed = cJSON_PrintUnformatted(messages);
  status = changed ? accel_chat_set_messages(c->chat, changed) : ACCEL_ERROR_OUT_OF_MEMORY;
  cJSON_free(changed);
  cJSON_Delete(messages);
  return status == ACCEL_OK ? 0 : cli_fail(c->run, status);
}

static int command(conversation *c, char *line) {
  static const char *const edits[] = {"reset", "undo", "forget", "system"};
  char *text = line + strcspn(line, " \t");
  if (*text) *text++ = 0;
  text += strspn(text, " \t");
  for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
    if (!strcmp(line, edits[i])) return edit(c, line, text);
  c->over = !strcmp(line, "exit") || !strcmp(line, "quit");
  if (c->over) return 0;
  if (strcmp(line, "help"))
    fprintf(stderr, "no command /%s; a text that begins with / is written with //\n", line);
  fputs(
      "/reset        forget all questions and answers\n"
      "/undo         take the last question and its answer back\n"
      "/forget       leave out the oldest question and its answer, for room in the context\n"
      "/system TEXT  another system message; without TEXT none\n"
      "/exit         end (so does Ctrl-D)\n",
      stderr);
  return 0;
}

/* ---- the conversation ---- */

static int talk(conversation *c) {
  char *line;
  while (!c->over) {
    int code = next_line(c, &line);
    if (code || !line) {
      if (c->terminal) fputc('\n', stderr);
      return code;
    }
    if (!line[strspn(line, " \t")]) continue;
    if (line[0] == '/' && line[1] != '/') {
      code = command(c, line + 1);
    } else {
      code = say(c, line[0] == '/' ? line + 1 : line);
    }
    if (code) return code;
  }
  return 0;
}

static int print_json(conversation *c, const accel_endpoint *endpoint) {
  cli_json json;
  char *messages = NULL;
  int code = cli_json_begin(c->run, "accel.chat/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  accel_status status = accel_chat_messages(c->chat, &messages);
  if (status != ACCEL_OK) return cli_fail(c->run, status);
  cli_json_raw(&json, "messages", messages);
  accel_string_free(&messages);
  cli_json_open(&json, "turns", '[');
  for (uint32_t i = 0; i < c->n_turns; ++i) {
    const turn *t = &c->turns[i];
    cli_json_open(&json, NULL, '{');
    cli_json_int(&json, "prompt_tokens", (int64_t)t->prompt);
    cli_json_int(&json, "reused_tokens", (int64_t)t->reused);
    cli_json_int(&json, "new_tokens", (int64_t)t->new);
    cli_json_text(&json, "finish", t->finish);
    cli_json_double(&json, "prefill_ms", t->prefill_ms);
    cli_json_double(&json, "decode_ms", t->decode_ms);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(c->run, &json);
}

static int open_chat(conversation *c, accel_endpoint *endpoint) {
  char *messages = NULL;
  accel_chat_params how = accel_chat_params_default();
  if (c->run->value[OPT_MESSAGES]) {
    int code = cli_file_read(c->run, c->run->value[OPT_MESSAGES], &messages, NULL);
    if (code) return code;
  }
  how.system = c->run->value[OPT_SYSTEM];
  how.messages = messages;
  how.variables = c->run->value[OPT_VARIABLES];
  how.template_name = c->run->value[OPT_TEMPLATE_NAME];
  accel_status status = accel_chat_open(endpoint, &how, &c->chat);
  free(messages);
  return status == ACCEL_OK ? cli_converse(c->run, &c->wake) : cli_fail(c->run, status);
}

static int read_turns(cli_run *run, cli_texts *texts) {
  static const char *const fields[] = {"text"};
  static const cli_option_id others[] = {OPT_IDS,      OPT_BEAMS,  OPT_SEQUENCES,
                                         OPT_LOGPROBS, OPT_STREAM, OPT_NO_SPECIAL};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (run->value[others[i]])
      return cli_usage(run, "--%s does not go with --chat", cli_options[others[i]].name);
  if (run->value[OPT_MESSAGES] && !strcmp(run->value[OPT_MESSAGES], "-"))
    return cli_usage(
        run, "--messages -: stdin is where the conversation's lines come from; give a file");
  return run->n_args > 1 || run->value[OPT_INPUT] ? cli_texts_read(run, 1, fields, 1, texts) : 0;
}

int cli_chat(cli_run *run, const accel_generate_params *params) {
  cli_texts texts = {0};
  accel_endpoint *endpoint = NULL;
  conversation c = {.run = run, .params = *params, .json = cli_flag(run, OPT_JSON)};
  int code = read_turns(run, &texts);
  if (!code) code = cli_open(run, run->args[0], NULL, &endpoint);
  if (!code) code = open_chat(&c, endpoint);
  c.terminal = !texts.n && isatty(STDIN_FILENO);
  if (!code && c.terminal)
    cli_note(run, "/help lists the commands; Ctrl-C cancels an answer, Ctrl-D ends");
  for (uint32_t i = 0; !code && i < texts.n; ++i) code = say(&c, texts.text[i]);
  if (!code && !texts.n) code = talk(&c);
  if (!code && c.json) code = print_json(&c, endpoint);
  accel_chat_close(&c.chat);
  accel_cleanup(&endpoint);
  cli_texts_free(&texts);
  free(c.in.data);
  free(c.turns);
  return code;
}
