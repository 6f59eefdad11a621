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

/* Ids of the tokens `step` behind, plus 1. */
static void neighbours(const accel__default_row_args *row, int64_t step, int32_t *out) {
  for (int64_t i = 0; i < row->n; i++) {
    const int64_t at = i + step;
    out[i] = at >= 0 && at < row->n ? row->ids[at] + 1 : 0;
  }
}

bool accel__default_shifts(accel__input_default rule) {
  return rule == ACCEL__DEFAULT_SHIFTED || rule == ACCEL__DEFAULT_WRAPPED;
}

bool accel__default_needs_ids(accel__input_default rule) {
  return accel__default_shifts(rule) || rule == ACCEL__DEFAULT_ROBERTA ||
         rule == ACCEL__DEFAULT_PREVIOUS || rule == ACCEL__DEFAULT_NEXT;
}

bool accel__default_row(accel__input_default rule, const accel__default_row_args *row,
                        int32_t *out) {
  if (accel__default_needs_ids(rule) && !row->ids) return false;
  switch (rule) {
    case ACCEL__DEFAULT_ZEROS:
      for (int64_t i = 0; i < row->n; i++) out[i] = 0;
      return true;
    case ACCEL__DEFAULT_NONE:
      for (int64_t i = 0; i < row->n; i++) out[i] = -1;
      return true;
    case ACCEL__DEFAULT_ARANGE:
    case ACCEL__DEFAULT_MASK_CUMSUM:
      for (int64_t i = 0; i < row->n; i++) out[i] = row->position + (int32_t)i;
      return true;
    case ACCEL__DEFAULT_TOTAL_LEN:
      for (int64_t i = 0; i < row->n; i++) out[i] = row->total_len;
      return true;
    case ACCEL__DEFAULT_SEQUENCE:
      for (int64_t i = 0; i < row->n; i++) out[i] = row->sequence;
      return true;
    case ACCEL__DEFAULT_ROBERTA:
      roberta(row, out);
      return true;
    case ACCEL__DEFAULT_SHIFTED:
    case ACCEL__DEFAULT_WRAPPED:
      shifted(row, out);
      return true;
    case ACCEL__DEFAULT_START:
      for (int64_t i = 0; i < row->n; i++) out[i] = row->front;
      return true;
    case ACCEL__DEFAULT_PREVIOUS:
      neighbours(row, -1, out);
      return true;
    case ACCEL__DEFAULT_NEXT:
      neighbours(row, 1, out);
      return true;
    default:
      return false;
  }
}
