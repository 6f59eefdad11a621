/* spm.c - see spm.h. */
#include "text/spm.h"

#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"

typedef struct reader {
  const uint8_t *at, *end;
} reader;
typedef struct field {
  uint32_t number, wire;
  uint64_t value;      /* varint */
  const uint8_t *data; /* length-delimited, or fixed */
  size_t n;
} field;

static bool varint(reader *r, uint64_t *out) {
  *out = 0;
  for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
    uint8_t byte = *r->at++;
    *out |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

/* The next field; false at the end, and (*broken) when what is there is none. */
static bool next_field(reader *r, field *f, bool *broken) {
  uint64_t key, length = 0;
  if (r->at == r->end) return false;
  *broken = true;
  if (!varint(r, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX) return false;
  *f = (field){.number = (uint32_t)(key >> 3), .wire = (uint32_t)(key & 7), .data = r->at};
  if (f->wire == 0) {
    if (!varint(r, &f->value)) return false;
  } else {
    if (f->wire == 1) length = 8;
    if (f->wire == 5) length = 4;
    if (f->wire == 2 && !varint(r, &length)) return false;
    if ((f->wire != 1 && f->wire != 2 && f->wire != 5) || length > (size_t)(r->end - r->at))
      return false;
    f->data = r->at;
    f->n = (size_t)length;
    r->at += length;
  }
  *broken = false;
  return true;
}

accel_status accel__spm_malformed(const char *name, const char *what) {
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: not a SentencePiece model: %s", name, what);
}

static float fixed_float(const field *f) {
  uint32_t bits = (uint32_t)f->data[0] | (uint32_t)f->data[1] << 8 | (uint32_t)f->data[2] << 16 |
                  (uint32_t)f->data[3] << 24;
  float out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

static accel_status read_piece(accel__spm *m, const field *from) {
  reader r = {from->data, from->data + from->n};
  accel__spm_piece p = {.text = "", .type = ACCEL__SPM_NORMAL};
  field f;
  bool broken = false;
  while (next_field(&r, &f, &broken)) {
    if (f.number == 1 && f.wire == 2) {
      p.text = (const char *)f.data;
      p.n = (uint32_t)f.n;
    } else if (f.number == 2 && f.wire == 5) {
      p.score = fixed_float(&f);
    } else if (f.number == 3 && f.wire == 0) {
      p.type = (uint8_t)(f.value < 7 ? f.value : 0);
    }
  }
  if (broken) return accel__spm_malformed(m->name, "a piece is cut short");
  if (!accel__utf8_valid(p.text, p.n) || (p.n && memchr(p.text, 0, p.n)))
    return accel__spm_malformed(m->name, "a piece is not UTF-8");
  if (!(p.score > -1e30f && p.score < 1e30f))
    return accel__spm_malformed(m->name, "a score is not a number");
  if (m->n == ACCEL__TOKENS_MAX) return accel__spm_malformed(m->name, "more than 4194304 pieces");
  ACCEL_TRY(accel__grow(&m->at, &m->capacity, m->n + 1, sizeof *m->at));
  m->at[m->n++] = p;
  return ACCEL_OK;
}

static accel_status read_trainer(accel__spm *m, const field *from) {
  reader r = {from->data, from->data + from->n};
  field f;
  bool broken = false;
  while (next_field(&r, &f, &broken)) {
    if (f.wire != 0) continue;
    if (f.number == 3) m->kind = (uint32_t)f.value;
    if (f.number == 24) m->whitespace_is_suffix = f.value != 0;
    if (f.number == 35) m->byte_fallback = f.value != 0;
    if (f.number == 40) m->unk_id = (int32_t)f.value;
  }
  return broken ? accel__spm_malformed(m->name, "the trainer's part is cut short") : ACCEL_OK;
}

static accel_status read_normalizer(accel__spm *m, const field *from) {
  reader r = {from->data, from->data + from->n};
  field f;
  bool broken = false;
  while (next_field(&r, &f, &broken)) {
    if (f.wire == 0 && f.number == 3) m->dummy_prefix = f.value != 0;
    if (f.wire == 0 && f.number == 4) m->remove_extra = f.value != 0;
    if (f.wire == 0 && f.number == 5) m->escape = f.value != 0;
    if (f.number != 2 || f.wire != 2) continue;
    m->charsmap = f.data;
    m->charsmap_n = f.n;
  }
  return broken ? accel__spm_malformed(m->name, "the normalizer's part is cut short") : ACCEL_OK;
}

accel_status accel__spm_read(const uint8_t *data, size_t n, const char *name, accel__spm *m) {
  *m = (accel__spm){.name = name,
                    .kind = ACCEL__SPM_UNIGRAM,
                    .dummy_prefix = true,
                    .remove_extra = true,
                    .escape = true};
  if (n == 0) return accel__spm_malformed(name, "the file is empty");
  reader r = {data, data + n};
  field f;
  bool broken = false;
  while (next_field(&r, &f, &broken)) {
    if (f.wire != 2) continue;
    if (f.number == 1) ACCEL_TRY(read_piece(m, &f));
    if (f.number == 2) ACCEL_TRY(read_trainer(m, &f));
    if (f.number == 3) ACCEL_TRY(read_normalizer(m, &f));
  }
  if (broken) return accel__spm_malformed(m->name, "a field is cut short");
  if (m->n == 0) return accel__spm_malformed(m->name, "it has no pieces");
  if (m->kind != ACCEL__SPM_UNIGRAM && m->kind != ACCEL__SPM_BPE)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: the model's kind is %u, expected 1 (Unigram) or 2 (BPE)", m->name,
                       m->kind);
  return ACCEL_OK;
}

void accel__spm_free(accel__spm *m) {
  free(m->at);
  *m = (accel__spm){0};
}
