/* plane_body.h - images with something around them, for kernels that slide windows: included by
 * conv_body.h and image_body.h. */

/* to[i] = row[at + i * stride]; where that is no element of the row of w, `outside`, or with
 * `again` what is there. */
V_INLINE void lay_run(const float *row, int64_t w, int64_t at, int64_t stride, int64_t n,
                      float outside, bool again, float *to) {
  int64_t from = 0, end = n; /* a division takes as long as a short row */
  if (at < 0) from = stride == 1 ? -at : (-at + stride - 1) / stride;
  if (at + (n - 1) * stride >= w)
    end = at >= w ? 0 : stride == 1 ? w - at : (w - at + stride - 1) / stride;
  if (!again && (from > 0 || end < n))
    for (int64_t i = 0; i < n; i += V) v_storen(to + i, v_set(outside), n - i);
  if (from >= end) return;
  const float *x = row + at;
  if (stride == 1)
    for (int64_t i = from; i < end; i += V) v_storen(to + i, v_loadn(x + i, end - i), end - i);
  else if (stride == 2)
    for (int64_t i = from; i < end; i += V)
      v_storen(to + i, v_load_even(x + 2 * i, end - i), end - i);
  else
    for (int64_t i = from; i < end; i++) to[i] = x[i * stride];
}

/* x with `outside` around it, the columns of each row sorted by their remainder modulo the stride.
 * With `again` what lies around is there from another x of the same plane. */
static inline void lay_plane(const kit_plane *p, const float *x, const cpu_depthwise_plan *l,
                             float outside, bool again, float *to) {
  for (int64_t r = 0; r < l->rows; r++) {
    const int64_t y = r - p->begin[0];
    for (int64_t s = 0; s < p->stride[1]; s++, to += l->pitch) {
      if (y >= 0 && y < p->in[0])
        lay_run(x + y * p->in[1], p->in[1], s - p->begin[1], p->stride[1], l->pitch, outside, again,
                to);
      else if (!again)
        for (int64_t i = 0; i < l->pitch; i += V) v_storen(to + i, v_set(outside), l->pitch - i);
    }
  }
}
