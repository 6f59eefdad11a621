/* serve_fields.h - members of a request's JSON or form by name, type and range, and the pictures and
 * sounds in them.
 *
 * The first member that is wrong is answered with 400, which names it, and sets `failed`; what is
 * asked for from then on is `otherwise`.  A member that is absent or null is `otherwise`, too.  JSON
 * may have members in an object "parameters", and in that in "generate_parameters" (or
 * "generate_kwargs"), as Hugging Face's clients send them.
 * Whatever nobody has asked for until fields_end() is named in the answer's header x-accel-ignored.
 */
#ifndef ACCEL_SERVE_FIELDS_H
#define ACCEL_SERVE_FIELDS_H

#include "serve/serve.h"

enum {
  SERVE_FIELDS = 80,       /* members that one handler asks for */
  SERVE_MAX_TEXTS = 16384, /* texts of one request */
  SERVE_MAX_MEDIA = 64,    /* pictures of one request */
  SERVE_MAX_SOUNDS = 8,    /* sounds of one request */
  SERVE_MAX_SECONDS = 7200 /* of a sound */
};

typedef struct serve_fields {
  serve_request *request;
  const cJSON *object;
  bool failed;
  bool form;       /* numbers and flags are written as text */
  bool flat;       /* there are no members in inner objects, as in OpenAI's requests */
  cJSON *made;     /* the object of a form */
  uint64_t pixels; /* of the pictures so far */
  void **owned;    /* [n_owned] to free */
  uint32_t n_owned;
  uint32_t n_asked;
  const char *asked[SERVE_FIELDS];
} serve_fields;

/* Of the body's JSON object, or of its form.  `failed` is set when the body is none.  Ended with
 * fields_free() in every case. */
void fields_of_json(serve_fields *f, serve_request *request);
void fields_of_form(serve_fields *f, serve_request *request);
/* Of an object inside the body, whose parent has the request. */
void fields_of_object(serve_fields *f, serve_request *request, const cJSON *object);
/* Names what was not asked for; true when nothing was wrong. */
bool fields_end(serve_fields *f);
void fields_free(serve_fields *f);

/* The member itself; NULL: absent or null. */
const cJSON *field_item(serve_fields *f, const char *name);
const char *field_text(serve_fields *f, const char *name, const char *otherwise);
/* One of `words`, "a|b|c". */
const char *field_choice(serve_fields *f, const char *name, const char *words,
                         const char *otherwise);
bool field_flag(serve_fields *f, const char *name, bool otherwise);
double field_number(serve_fields *f, const char *name, double least, double most, double otherwise);
int64_t field_integer(serve_fields *f, const char *name, int64_t least, int64_t most,
                      int64_t otherwise);
/* [*n] texts of a member that is one text or a list of them, valid until fields_free(); *single: it
 * was one, and not in a list.  NULL: absent or wrong. */
const char *const *field_texts(serve_fields *f, const char *name, uint32_t *n, bool *single);
/* The texts of an item that is at hand. */
const char *const *item_texts(serve_fields *f, const char *name, const cJSON *item, uint32_t *n,
                              bool *single);
/* Answers 400 for a member that is wrong in a way that the others do not see; once. */
void field_wrong(serve_fields *f, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* malloc'd memory that fields_free() frees; NULL: 500 has been answered. */
void *fields_memory(serve_fields *f, size_t bytes);

typedef enum serve_media_kind { SERVE_PICTURE, SERVE_SOUND } serve_media_kind;
/* The bytes of a "data:TYPE;base64,..." URI, or of base64 alone; URLs are refused, as nothing is
 * ever fetched.  `name` is what messages call it. */
bool field_media(serve_fields *f, const char *name, const char *given, serve_media_kind kind,
                 accel_media *out);
/* Bytes at hand: checks the caps on pixels. */
bool field_media_bytes(serve_fields *f, const char *name, const char *data, size_t n,
                       serve_media_kind kind, accel_media *out);

#endif
