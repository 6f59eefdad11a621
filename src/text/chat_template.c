/* chat_template.c - a model's chat templates: which there are, and what they are given. */
#include "text/chat_template.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "text/jinja/jinja.h"

typedef accel__jinja_value value;

enum { TEMPLATES_MAX = 64, SPECIALS_MAX = 32 };

typedef struct one_template {
  const char *name, *text, *where; /* where: for messages */
  const accel__jinja_node *body;
} one_template;

struct accel__chat_template {
  accel__arena arena;
  one_template at[TEMPLATES_MAX];
  size_t n;
  /* bos_token ... and their texts */
  const char *special_name[SPECIALS_MAX], *special[SPECIALS_MAX];
  size_t specials;
};

/* ---- loading ---- */

static accel_status add_template(accel__chat_template *chat, const char *name, const char *text,
                                 size_t n, const char *where) {
  one_template t = {.name = accel__arena_string(&chat->arena, name),
                    .where = accel__arena_string(&chat->arena, where)};
  t.text = accel__arena_copy(&chat->arena, text, n);
  if (!t.name || !t.text || !t.where) return ACCEL_ERROR_OUT_OF_MEMORY;
  size_t i = 0;
  while (i < chat->n && strcmp(chat->at[i].name, name) != 0) i++;
  if (i == TEMPLATES_MAX)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: more than %d chat templates", where, TEMPLATES_MAX);
  chat->at[i] = t;
  if (i == chat->n) chat->n++;
  return ACCEL_OK;
}

/* "chat_template": text, or [{"name": ..., "template": ...}] */
static accel_status from_json(accel__chat_template *chat, const accel__json_file *file) {
  const accel__json *field = accel__json_get(file->root, "chat_template");
  if (!field) return ACCEL_OK;
  if (cJSON_IsString(field))
    return add_template(chat, "default", field->valuestring, strlen(field->valuestring),
                        file->name);
  if (!cJSON_IsArray(field))
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: field 'chat_template' must be a string or an array of {name, template}",
                       file->name);
  ACCEL_JSON_EACH(item, field) {
    const char *name = NULL, *text = NULL;
    ACCEL_TRY_AS(accel__json_require(file, item, "name"), "chat_template");
    ACCEL_TRY_AS(accel__json_require(file, item, "template"), "chat_template");
    ACCEL_TRY_AS(accel__json_string(file, item, "name", &name), "chat_template");
    ACCEL_TRY_AS(accel__json_string(file, item, "template", &text), "chat_template");
    ACCEL_TRY(add_template(chat, name, text, strlen(text), file->name));
  }
  return ACCEL_OK;
}

static accel_status from_file(accel__chat_template *chat, const char *path, const char *name) {
  accel__mapping map = {0};
  ACCEL_TRY(accel__file_load(path, &map));
  accel_status status = add_template(chat, name, (const char *)map.data, map.n, path);
  accel__file_unmap(&map);
  return status;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* additional_chat_templates/NAME.jinja, in the order of their names */
static accel_status from_folder(accel__chat_template *chat, const char *folder) {
  char *names[TEMPLATES_MAX];
  size_t n = 0;
  DIR *open = opendir(folder);
  if (!open) return ACCEL_OK;
  accel_status status = ACCEL_OK;
  for (struct dirent *entry;
       status == ACCEL_OK && n < TEMPLATES_MAX && (entry = readdir(open)) != NULL;) {
    if (!accel__ends_with(entry->d_name, ".jinja")) continue;
    names[n] = accel__arena_string(&chat->arena, entry->d_name);
    if (!names[n++]) status = ACCEL_ERROR_OUT_OF_MEMORY;
  }
  closedir(open);
  if (status != ACCEL_OK) return status;
  qsort(names, n, sizeof *names, by_name);
  for (size_t i = 0; i < n; ++i) {
    char *path = accel__path_join(&chat->arena, folder, names[i]);
    if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
    names[i][strlen(names[i]) - strlen(".jinja")] = 0;
    ACCEL_TRY(from_file(chat, path, names[i]));
  }
  return ACCEL_OK;
}

/* Files of their own win over what JSON files say: all of it. */
static accel_status from_files(accel__chat_template *chat, const char *directory) {
  char *path = accel__path_join(&chat->arena, directory, "chat_template.jinja");
  char *folder = accel__path_join(&chat->arena, directory, "additional_chat_templates");
  if (!path || !folder) return ACCEL_ERROR_OUT_OF_MEMORY;
  size_t before = chat->n;
  one_template kept[TEMPLATES_MAX];
  memcpy(kept, chat->at, sizeof kept);
  chat->n = 0;
  if (accel__file_exists(path)) ACCEL_TRY(from_file(chat, path, "default"));
  if (accel__is_directory(folder)) ACCEL_TRY(from_folder(chat, folder));
  if (chat->n) return ACCEL_OK;
  memcpy(chat->at, kept, sizeof kept);
  chat->n = before;
  return ACCEL_OK;
}

static accel_status add_special(accel__chat_template *chat, const char *name, const char *text) {
  size_t i = 0;
  while (i < chat->specials && strcmp(chat->special_name[i], name) != 0) i++;
  if (i == SPECIALS_MAX) return ACCEL_OK;
  chat->special_name[i] = accel__arena_string(&chat->arena, name);
  chat->special[i] = accel__arena_string(&chat->arena, text);
  if (i == chat->specials) chat->specials++;
  return chat->special[i] && chat->special_name[i] ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* Members of the file that name special tokens: a string, or an object with a "content". */
static accel_status read_specials(accel__chat_template *chat, const accel__json *root) {
  static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const accel__json *at = accel__json_get(root, names[i]);
    if (cJSON_IsObject(at)) at = accel__json_get(at, "content");
    if (cJSON_IsString(at)) ACCEL_TRY(add_special(chat, names[i], at->valuestring));
  }
  /* {"image_token": "<image>"} */
  ACCEL_JSON_EACH(item, accel__json_get(root, "extra_special_tokens")) {
    const accel__json *at = cJSON_IsObject(item) ? accel__json_get(item, "content") : item;
    if (item->string && cJSON_IsString(at))
      ACCEL_TRY(add_special(chat, item->string, at->valuestring));
  }
  return ACCEL_OK;
}

static accel_status parse_all(accel__chat_template *chat) {
  for (size_t i = 0; i < chat->n; ++i) {
    one_template *t = &chat->at[i];
    if (strcmp(t->name, "default") != 0) {
      t->where = accel__arena_printf(&chat->arena, "%s: chat template '%s'", t->where, t->name);
      if (!t->where) return ACCEL_ERROR_OUT_OF_MEMORY;
    }
    ACCEL_TRY(accel__jinja_parse(&chat->arena, t->text, strlen(t->text), t->where, &t->body));
  }
  return ACCEL_OK;
}

static accel_status load(accel__chat_template *chat, const char *directory) {
  accel__json_file map = {0}, config = {0}, processor = {0};
  accel_status status = accel__json_read_beside(directory, "special_tokens_map.json", 0, &map);
  if (status == ACCEL_OK)
    status = accel__json_read_beside(directory, "tokenizer_config.json", 0, &config);
  if (status == ACCEL_OK)
    status = accel__json_read_beside(directory, "chat_template.json", 0, &processor);
  if (status == ACCEL_OK && map.root) status = read_specials(chat, map.root);
  if (status == ACCEL_OK && config.root) status = read_specials(chat, config.root);
  if (status == ACCEL_OK && config.root) status = from_json(chat, &config);
  if (status == ACCEL_OK && processor.root) status = from_json(chat, &processor);
  if (status == ACCEL_OK) status = from_files(chat, directory);
  accel__json_free(&map);
  accel__json_free(&config);
  accel__json_free(&processor);
  if (status == ACCEL_OK && chat->n == 0) {
    accel__fail(ACCEL_ERROR_NOT_FOUND, "%s: the model has no chat template", directory);
    status = accel__remedy(ACCEL_ERROR_NOT_FOUND,
                           "it is no chat model, or save its tokenizer with transformers' "
                           "save_pretrained, which writes chat_template.jinja");
  }
  return status == ACCEL_OK ? parse_all(chat) : status;
}

static accel_status load_file(const char *path, accel__chat_template **out) {
  accel__mapping map = {0};
  ACCEL_TRY(accel__file_load(path, &map));
  accel_status status = accel__chat_template_parse((const char *)map.data, map.n, path, out);
  accel__file_unmap(&map);
  return status;
}

accel_status accel__chat_template_load(const char *path, accel__chat_template **out) {
  *out = NULL;
  if (!accel__is_directory(path)) return load_file(path, out);
  accel__chat_template *chat = calloc(1, sizeof *chat);
  if (!chat) return accel__no_memory(sizeof *chat);
  accel_status status = load(chat, path);
  if (status != ACCEL_OK) accel__chat_template_free(&chat);
  *out = chat;
  return status;
}

accel_status accel__chat_template_parse(const char *text, size_t n, const char *name,
                                        accel__chat_template **out) {
  *out = NULL;
  accel__chat_template *chat = calloc(1, sizeof *chat);
  if (!chat) return accel__no_memory(sizeof *chat);
  accel_status status = add_template(chat, "default", text, n, name);
  if (status == ACCEL_OK)
    status =
        accel__jinja_parse(&chat->arena, chat->at[0].text, n, chat->at[0].where, &chat->at[0].body);
  if (status != ACCEL_OK) accel__chat_template_free(&chat);
  *out = chat;
  return status;
}

void accel__chat_template_free(accel__chat_template **chat) {
  if (!chat || !*chat) return;
  accel__arena_free(&(*chat)->arena);
  free(*chat);
  *chat = NULL;
}

size_t accel__chat_template_count(const accel__chat_template *chat) { return chat->n; }
const char *accel__chat_template_name(const accel__chat_template *chat, size_t i) {
  return chat->at[i].name;
}
const char *accel__chat_template_text(const accel__chat_template *chat, size_t i) {
  return chat->at[i].text;
}

/* ---- rendering ---- */

static const one_template *find_template(const accel__chat_template *chat, const char *name) {
  for (size_t i = 0; i < chat->n; ++i) {
    if (strcmp(chat->at[i].name, name) == 0) return &chat->at[i];
  }
  return NULL;
}

const char *accel__chat_template_for_tools(const accel__chat_template *chat) {
  const one_template *found = find_template(chat, "tool_use");
  if (!found) found = find_template(chat, "default");
  if (!found && chat->n) found = &chat->at[0];
  return found ? found->text : "";
}

static accel_status choose(const accel__chat_template *chat, const accel__chat_request *how,
                           const one_template **out) {
  *out = find_template(chat, how->name                                       ? how->name
                             : how->tools && find_template(chat, "tool_use") ? "tool_use"
                                                                             : "default");
  if (*out) return ACCEL_OK;
  if (!how->name && chat->n == 1) return *out = &chat->at[0], ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no chat template is named '%s'; there is '%s'%s",
                     chat->at[0].where, how->name ? how->name : "default", chat->at[0].name,
                     chat->n > 1 ? " and others" : "");
}

static value text_value(const char *text) {
  return (value){.kind = ACCEL__J_STRING, .n = (uint32_t)strlen(text), .text = text};
}

static const value *member(accel__jinja *run, const accel__jinja_dict *dict, const char *name) {
  const value *found = NULL;
  value key = text_value(name);
  return accel__jinja_dict_find(run, dict, &key, &found) == ACCEL_OK && found &&
                 found->kind != ACCEL__J_NONE
             ? found
             : NULL;
}

/* Members of a message that are null are left out, as apply_chat_template does. */
static accel_status without_null(accel__jinja *run, const accel__jinja_dict *from, value *out) {
  ACCEL_TRY(accel__jinja_dict_new(run, from->n + 2, out));
  for (size_t i = 0; i < from->n; ++i) {
    if (from->value[i].kind != ACCEL__J_NONE)
      ACCEL_TRY(accel__jinja_dict_set(run, out->dict, from->key[i], from->value[i]));
  }
  return ACCEL_OK;
}

/* A message's reasoning goes under every name templates know: {"thinking": r, **message,
 * "reasoning_content": r}. */
static accel_status alias_reasoning(accel__jinja *run, value *message) {
  static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
  const value *reasoning = NULL;
  for (int i = 0; i < 3 && !reasoning; ++i) reasoning = member(run, message->dict, names[i]);
  if (!reasoning) return ACCEL_OK;
  value kept = *reasoning, made;
  ACCEL_TRY(accel__jinja_dict_new(run, message->dict->n + 2, &made));
  ACCEL_TRY(accel__jinja_dict_set(run, made.dict, text_value("thinking"), kept));
  for (size_t i = 0; i < message->dict->n; ++i)
    ACCEL_TRY(
        accel__jinja_dict_set(run, made.dict, message->dict->key[i], message->dict->value[i]));
  ACCEL_TRY(accel__jinja_dict_set(run, made.dict, text_value("reasoning_content"), kept));
  *message = made;
  return ACCEL_OK;
}

static accel_status take_messages(accel__jinja *run, const accel__json *node, value *out) {
  if (!cJSON_IsArray(node) || !node->child)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "the messages must be an array of at least one object with role and content");
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, 4, out));
  ACCEL_JSON_EACH(item, node) {
    value all, message;
    if (!cJSON_IsObject(item))
      return accel__fail(ACCEL_ERROR_ARGUMENT, "message %zu is not an object with role and content",
                         out->list->n + 1);
    ACCEL_TRY(accel__jinja_from_json(run, item, &all));
    ACCEL_TRY(without_null(run, all.dict, &message));
    ACCEL_TRY(alias_reasoning(run, &message));
    ACCEL_TRY(accel__jinja_push(run, out->list, message));
  }
  return ACCEL_OK;
}

static const char continue_tag[] = "CONTINUE_FINAL_MESSAGE_TAG ";

static accel_status append_tag(accel__jinja *run, value *text) {
  value tag = text_value(continue_tag), before = *text;
  return accel__jinja_binary(run, '+', &before, &tag, text);
}

/* Marks the end of the last message's text, so that it can be found again in what the template
 * makes of it. */
static accel_status mark_last(accel__jinja *run, const value *messages) {
  accel__jinja_dict *last = messages->list->at[messages->list->n - 1].dict;
  value *content = NULL;
  for (size_t i = 0; i < last->n; ++i) {
    if (accel__jinja_is(&last->key[i], "content")) content = &last->value[i];
  }
  if (content && content->kind == ACCEL__J_LIST) { /* the last block that has text */
    accel__jinja_list *blocks = content->list;
    content = NULL;
    for (size_t k = blocks->n; k-- > 0 && !content;) {
      accel__jinja_dict *block = blocks->at[k].kind == ACCEL__J_DICT ? blocks->at[k].dict : NULL;
      for (size_t i = 0; block && i < block->n; ++i) {
        if (accel__jinja_is(&block->key[i], "text")) content = &block->value[i];
      }
    }
  }
  if (!content || content->kind != ACCEL__J_STRING)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "the last message has no text to continue");
  return append_tag(run, content);
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Cuts out[from..] where the mark is; the template may have trimmed the space behind the mark, then
 * also that before it. */
static accel_status cut_at_mark(accel__buffer *out, size_t from) {
  size_t n = strlen(continue_tag), bare = n - 1, at = out->n;
  for (size_t i = from; i + bare <= out->n; ++i) {
    if (memcmp(out->data + i, continue_tag, bare) == 0) at = i;
  }
  if (at == out->n)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "the template leaves the last message out, so it cannot be continued");
  bool trimmed = at + n > out->n || memcmp(out->data + at, continue_tag, n) != 0;
  while (trimmed && at > from && is_space(out->data[at - 1])) at--;
  out->n = at;
  out->data[at] = 0;
  return ACCEL_OK;
}

static accel_status bind_json(accel__jinja *run, accel__jinja_scope *scope, const char *name,
                              const accel__json *node) {
  value v = accel__jinja_none();
  if (node) ACCEL_TRY(accel__jinja_from_json(run, node, &v));
  return accel__jinja_bind(run, scope, name, v);
}

/* What the template sees, in the order in which later ones win. */
static accel_status bind_all(accel__jinja *run, const accel__chat_template *chat,
                             const accel__chat_request *how, accel__jinja_scope *scope) {
  value messages;
  for (size_t i = 0; i < chat->specials; ++i)
    ACCEL_TRY(accel__jinja_bind(run, scope, chat->special_name[i], text_value(chat->special[i])));
  ACCEL_JSON_EACH(item, how->variables) ACCEL_TRY(bind_json(run, scope, item->string, item));
  ACCEL_TRY(take_messages(run, how->messages, &messages));
  if (how->continue_final_message) ACCEL_TRY(mark_last(run, &messages));
  ACCEL_TRY(accel__jinja_bind(run, scope, "messages", messages));
  ACCEL_TRY(bind_json(run, scope, "tools", how->tools));
  ACCEL_TRY(bind_json(run, scope, "documents", how->documents));
  return accel__jinja_bind(run, scope, "add_generation_prompt",
                           accel__jinja_bool(how->add_generation_prompt));
}

static accel_status render(const accel__chat_template *chat, const accel__chat_request *how,
                           accel__buffer *out, accel__jinja *run) {
  const one_template *t;
  accel__jinja_scope outer = {0}, scope = {.parent = &outer};
  size_t from = out->n;
  ACCEL_TRY(choose(chat, how, &t));
  run->name = t->where;
  ACCEL_TRY(bind_all(run, chat, how, &outer));
  ACCEL_TRY(accel__jinja_run(run, t->body, &scope));
  return how->continue_final_message ? cut_at_mark(out, from) : accel__buffer_status(out);
}

accel_status accel__chat_template_render(const accel__chat_template *chat,
                                         const accel__chat_request *how, accel__buffer *out,
                                         accel__chat_spans *spans) {
  accel__jinja run = {
      .name = chat->at[0].where, .line = 1, .out = out, .main = out, .spans = spans};
  time_t now = time(NULL);
  if (how->variables && !cJSON_IsObject(how->variables))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "the template's variables must be an object");
  if (how->continue_final_message && how->add_generation_prompt)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "continue_final_message and add_generation_prompt exclude each other");
  if (how->now)
    run.now = *how->now;
  else
    localtime_r(&now, &run.now);
  size_t before = out->n;
  if (spans) spans->n = 0;
  accel__buffer_text(out, "");
  accel_status status = render(chat, how, out, &run);
  accel__arena_free(&run.arena);
  if (status != ACCEL_OK && out->data) { /* nothing half done */
    out->n = before;
    out->data[before] = 0;
  }
  return status;
}
