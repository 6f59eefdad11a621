/* default_row.c - the rules of absent inputs. */
#include "modeling/default_row.h"

/* transformers' create_position_ids_from_input_ids: padding keeps pad_id and does not count. */
static void roberta(const accel__default_row_args *row, int32_t *out) {
  int32_t seen = row->seen;
  for (int64_t i = 0; i < row->n; i++)
    out[i] = row->ids[i] == row->pad_id ? row->pad_id : ++seen + row->pad_id;
}

/* transformers' shift_tokens_right: one to the right, the last token falls off. */
static void shifted(const accel__default_row_args *row, int32_t *out) {
  for (int64_t i = 0; i < row->n; i++) out[i] = i ? row->ids[i - 1] : row->front;
}

bool accel__default_row(accel__input_default rule, const accel__default_row_args *row,
                        int32_t *out) {
  switch (rule) {
    case ACCEL__DEFAULT_ZEROS:
      for (int64_t i = 0; i < row->n; i++) out[i] = 0;
      return true;
    case ACCEL__DEFAULT_ARANGE:
    case ACCEL__DEFAULT_MASK_CUMSUM:
      for (int64_t i = 0; i < row->n; i++) out[i] = row->position + (int32_t)i;
      return true;
    case ACCEL__DEFAULT_TOTAL_LEN:
      for (int64_t i = 0; i < row->n; i++) out[i] = row->total_len;
      return true;
    case ACCEL__DEFAULT_ROBERTA:
      if (row->ids) roberta(row, out);
      return row->ids != NULL;
    case ACCEL__DEFAULT_SHIFTED:
    case ACCEL__DEFAULT_WRAPPED:
      if (row->ids) shifted(row, out);
      return row->ids != NULL;
    default:
      return false;
  }
}
