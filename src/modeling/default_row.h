/* default_row.h - what a class's forward puts in place of an argument that was not given:
 * positions, token types, the decoder's ids.  One row at a time, of packed and of padded inputs
 * alike. */
#ifndef ACCEL_MODELING_DEFAULT_ROW_H
#define ACCEL_MODELING_DEFAULT_ROW_H

#include "modeling/model.h"

typedef struct accel__default_row_args {
  const int32_t *ids; /* [n] of the row: see accel__default_needs_ids */
  int64_t n;          /* tokens of the row */
  int32_t position;   /* ARANGE and MASK_CUMSUM: of the row's first token */
  int32_t seen;       /* ROBERTA: tokens of the sequence before the row that are no padding */
  int32_t total_len;  /* TOTAL_LEN: tokens of the whole sequence, which every token gets */
  int32_t pad_id;     /* ROBERTA: padding keeps it, and positions count from behind it */
  int32_t sequence;   /* SEQUENCE: its number */
  int32_t
      front; /* first token: SHIFTED, START decoder_start_id, WRAPPED the row's last real token */
} accel__default_row_args;

/* Whether a rule is made of the ids of the row: of those of input_ids (SHIFTED, WRAPPED), or of
 * those of the input's own side. */
bool accel__default_needs_ids(accel__input_default rule);
bool accel__default_shifts(accel__input_default rule);
/* Writes out[n].  False, and nothing is written, for rules that make no row of tokens (REQUIRED,
 * ONES) or that need ids when there are none. */
bool accel__default_row(accel__input_default rule, const accel__default_row_args *row,
                        int32_t *out);

#endif
