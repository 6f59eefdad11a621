/* openai_messages.c - messages of a request as chat templates read them: parts of text are joined,
 * pictures are taken out of data: URIs, arguments of calls become objects. */
#include <stdlib.h>
#include <string.h>

#include "serve/openai.h"
#include "serve/serve_media.h"

enum { PICTURES = 64 };

typedef struct reader {
  serve_request *request;
  openai_messages *out;
  uint64_t pixels; /* of all pictures so far */
  unsigned number; /* of the message */
  bool objects;    /* arguments of calls became objects */
} reader;

static bool refuse(const reader *r, const char *what) {
  serve_fail(r->request, 400, "messages", NULL, "messages[%u]: %s", r->number, what);
  return false;
}

static bool no_memory(const reader *r) {
  serve_fail(r->request, 500, NULL, NULL, "out of memory");
  return false;
}

/* ---- content ---- */

/* "data:image/png;base64,...": nothing else is read, and nothing is fetched. */
static bool take_picture(reader *r, const cJSON *part) {
  const cJSON *image = cJSON_GetObjectItemCaseSensitive(part, "image_url");
  const char *url = openai_string(image);
  if (!url) url = openai_string(cJSON_GetObjectItemCaseSensitive(image, "url"));
  const char *encoded = url ? serve_data_uri(url) : NULL;
  if (!encoded)
    return refuse(r,
                  "image_url.url must be a data: URI in base64, as "
                  "data:image/png;base64,...; no other address is read");
  if (r->out->images == PICTURES) return refuse(r, "more than 64 pictures");
  accel_media *media = &r->out->image[r->out->images];
  char *bytes = malloc(strlen(encoded) / 4 * 3 + 3);
  if (!bytes) return no_memory(r);
  r->out->images++;
  *media = (accel_media){.name = "the picture of a data: URI", .data = bytes};
  media->n = serve_base64(encoded, false, bytes);
  if (media->n == SIZE_MAX) return refuse(r, "image_url.url: what follows the comma is no base64");
  r->pixels += serve_pixels((const uint8_t *)bytes, media->n);
  return r->pixels <= SERVE_MAX_PIXELS ||
         refuse(r, "the pictures have more than 50 million pixels together");
}

/* One part behind those in `list`; texts that follow each other are one. */
static bool take_part(reader *r, const cJSON *part, cJSON *list) {
  const char *type = openai_string(cJSON_GetObjectItemCaseSensitive(part, "type"));
  if (!type) return refuse(r, "a part of content has no type");
  const bool text = !strcmp(type, "text") || !strcmp(type, "refusal");
  const char *said = text ? openai_string(cJSON_GetObjectItemCaseSensitive(part, type)) : NULL;
  if (text && !said) return refuse(r, "a part of type text has no text");
  if (!text && strcmp(type, "image_url") != 0)
    return refuse(r, "only parts of the types text and image_url are taken");
  if (!text && !take_picture(r, part)) return false;
  cJSON *made = cJSON_CreateObject();
  cJSON_AddStringToObject(made, "type", text ? "text" : "image");
  if (text) cJSON_AddStringToObject(made, "text", said);
  return cJSON_AddItemToArray(list, made) || no_memory(r);
}

/* The texts of parts, joined by line ends. */
static char *join(const cJSON *list) {
  openai_text text = {0};
  const cJSON *part;
  openai_add_text(&text, "");
  cJSON_ArrayForEach(part, list) {
    if (part != list->child) openai_add_text(&text, "\n");
    openai_add_text(&text, cJSON_GetObjectItemCaseSensitive(part, "text")->valuestring);
  }
  if (text.failed) openai_text_free(&text);
  return text.data;
}

static bool take_content(reader *r, const cJSON *content, cJSON *message) {
  if (cJSON_IsString(content))
    return cJSON_AddStringToObject(message, "content", content->valuestring) || no_memory(r);
  if (!content || cJSON_IsNull(content)) return true;
  if (!cJSON_IsArray(content))
    return refuse(r, "content is neither a string nor an array of parts");
  const uint32_t before = r->out->images;
  const cJSON *part;
  cJSON *list = cJSON_CreateArray();
  bool ok = list != NULL || no_memory(r);
  if (ok) cJSON_ArrayForEach(part, content) if (ok) ok = take_part(r, part, list);
  if (ok && r->out->images > before) {
    if (cJSON_AddItemToObject(message, "content", list)) return true;
    ok = no_memory(r);
  } else if (ok) {
    char *text = join(list);
    ok = (text && cJSON_AddStringToObject(message, "content", text)) || no_memory(r);
    free(text);
  }
  cJSON_Delete(list);
  return ok;
}

/* ---- calls ---- */

/* A call as templates read it: arguments are an object, where they are one. */
static bool take_call(reader *r, const cJSON *call, cJSON *list) {
  const cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function"),
              *arguments = cJSON_GetObjectItemCaseSensitive(function, "arguments");
  const char *name = openai_string(cJSON_GetObjectItemCaseSensitive(function, "name")),
             *id = openai_string(cJSON_GetObjectItemCaseSensitive(call, "id")),
             *text = openai_string(arguments);
  if (!name) return refuse(r, "a call of tool_calls has no function.name");
  cJSON *made = cJSON_CreateObject(), *inner = cJSON_CreateObject();
  cJSON *given = text ? cJSON_Parse(*text ? text : "{}") : cJSON_Duplicate(arguments, true);
  if (text && !cJSON_IsObject(given)) {
    cJSON_Delete(given);
    given = cJSON_CreateString(text);
  }
  if (id) cJSON_AddStringToObject(made, "id", id);
  cJSON_AddStringToObject(made, "type", "function");
  cJSON_AddStringToObject(inner, "name", name);
  if (!given) given = cJSON_CreateObject();
  r->objects |= cJSON_IsObject(given) != 0;
  cJSON_AddItemToObject(inner, "arguments", given);
  cJSON_AddItemToObject(made, "function", inner);
  return cJSON_AddItemToArray(list, made) || no_memory(r);
}

static bool take_calls(reader *r, const cJSON *calls, cJSON *message) {
  const cJSON *call;
  if (!calls || cJSON_IsNull(calls)) return true;
  if (!cJSON_IsArray(calls)) return refuse(r, "tool_calls is no array");
  if (!calls->child) return true;
  cJSON *list = cJSON_AddArrayToObject(message, "tool_calls");
  if (!list) return no_memory(r);
  cJSON_ArrayForEach(call, calls) if (!take_call(r, call, list)) return false;
  return true;
}

/* ---- messages ---- */

static bool take_message(reader *r, const cJSON *from, cJSON *list) {
  static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
  static const char *const kept[] = {"name", "tool_call_id", "reasoning_content", "reasoning"};
  const char *role = openai_string(cJSON_GetObjectItemCaseSensitive(from, "role"));
  size_t i = 0;
  while (role && i < sizeof roles / sizeof *roles && strcmp(roles[i], role) != 0) i++;
  if (!role || i == sizeof roles / sizeof *roles)
    return refuse(r, "role is none of system, developer, user, assistant, tool");
  cJSON *message = cJSON_CreateObject();
  if (!message || !cJSON_AddItemToArray(list, message)) {
    cJSON_Delete(message);
    return no_memory(r);
  }
  cJSON_AddStringToObject(message, "role", i == 1 ? "system" : role);
  if (!take_content(r, cJSON_GetObjectItemCaseSensitive(from, "content"), message)) return false;
  for (i = 0; i < sizeof kept / sizeof *kept; i++) {
    const char *text = openai_string(cJSON_GetObjectItemCaseSensitive(from, kept[i]));
    if (text) cJSON_AddStringToObject(message, kept[i], text);
  }
  const cJSON *calls = cJSON_GetObjectItemCaseSensitive(from, "tool_calls");
  if (!take_calls(r, calls, message)) return false;
  if (cJSON_HasObjectItem(message, "content")) return true;
  if (strcmp(role, "assistant") != 0) return refuse(r, "content is missing");
  return cJSON_AddStringToObject(message, "content", "") || no_memory(r);
}

/* Arguments that are objects become texts. */
static bool write_arguments(cJSON *messages) {
  cJSON *message, *call;
  cJSON_ArrayForEach(message, messages) {
    cJSON_ArrayForEach(call, cJSON_GetObjectItemCaseSensitive(message, "tool_calls")) {
      cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function"),
            *arguments = cJSON_GetObjectItemCaseSensitive(function, "arguments");
      if (!cJSON_IsObject(arguments)) continue;
      char *text = cJSON_PrintUnformatted(arguments);
      cJSON *made = text ? cJSON_CreateString(text) : NULL;
      cJSON_free(text);
      if (!made || !cJSON_ReplaceItemInObjectCaseSensitive(function, "arguments", made))
        return false;
    }
  }
  return true;
}

bool openai_messages_read(serve_request *request, const cJSON *messages, openai_messages *out) {
  reader r = {.request = request, .out = out};
  const cJSON *item;
  bool ok = true;
  if (!messages) {
    serve_fail(request, 400, "messages", NULL, "messages: expected an array of messages");
    return false;
  }
  cJSON *list = cJSON_CreateArray();
  out->image = calloc(PICTURES, sizeof *out->image);
  if (!list || !out->image) ok = no_memory(&r);
  cJSON_ArrayForEach(item, messages) {
    if (ok) ok = take_message(&r, item, list);
    r.number++;
  }
  if (ok && !(out->json = cJSON_PrintUnformatted(list))) ok = no_memory(&r);
  if (ok && r.objects &&
      !(write_arguments(list) && (out->json_of_texts = cJSON_PrintUnformatted(list))))
    ok = no_memory(&r);
  cJSON_Delete(list);
  return ok;
}

void openai_messages_free(openai_messages *m) {
  for (uint32_t i = 0; i < m->images; i++) free((void *)m->image[i].data);
  free(m->image);
  free(m->json);
  free(m->json_of_texts);
}
