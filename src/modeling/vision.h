/* vision.h - what models of images and sounds share: sizes, convolutions, patches and their
 * positions, rows of a fixed number per item, pre-norm transformer blocks.
 *
 * Pictures are [B,C,H,W] (planes) or [B*H*W, C] (rows) in a fixed row space of H*W rows per
 * item.
 */
#ifndef ACCEL_MODELING_VISION_H
#define ACCEL_MODELING_VISION_H

#include "modeling/config_lists.h"
#include "modeling/rope.h"

/* ---- tensors ---- */
accel__dim accel__times(accel__build *b, accel__dim a, accel__dim c);
/* "pixel_values" [B,C,H,W]; size NULL: any height and width. Sets b->B (a symbol "images" when
 * tokens came first: pictures need not be as many). */
accel__tensor accel__add_pixels(accel__build *b, int64_t channels, const accel__size2 *size);
/* A weight that is a plain tensor (class token, position table), in the checkpoint's own shape. */
accel__tensor accel__table(accel__build *b, uint32_t rank, const int64_t *dims, const char *name);
typedef struct accel__conv {
  int64_t out;                                /* channels */
  accel__size2 kernel, stride, pad, dilation; /* stride and dilation 0: 1 */
  int64_t groups;                             /* 0: 1 */
  bool bias;
  const accel__activation *act; /* NULL none */
  /* like the result, added before act; 0: none (tensor 0 is an input) */
  accel__tensor residual;
} accel__conv;
/* <name>.weight [out, in/groups, kh, kw], <name>.bias; x [B,C,H,W]. */
accel__tensor accel__conv2d(accel__build *b, accel__tensor x, const accel__conv *c,
                            const char *format, ...) ACCEL_PRINTF(4, 5);
/* torch's ConvTranspose2d whose stride is its kernel: <name>.weight [in, out, kernel, kernel],
 * <name>.bias; each pixel becomes kernel x kernel of them. */
accel__tensor accel__conv2d_up(accel__build *b, accel__tensor x, int64_t out, int64_t kernel,
                               const char *name);
/* Planes x bilinearly at another size, as torch's interpolate; x itself where it has that size. */
accel__tensor accel__resize_linear(accel__build *b, accel__tensor x, accel__dim h, accel__dim w,
                                   bool align_corners);
typedef struct accel__conv1 {
  /* stride, dilation, groups 0: 1; zeros before and after */
  int64_t out, kernel, stride, dilation, before, after, groups;
  bool bias;
  const accel__activation *act; /* NULL none */
  /* like the result, added before act; 0: none (tensor 0 is an input) */
  accel__tensor residual;
} accel__conv1;
/* <name>.weight [out, in/groups, kernel], <name>.bias; x [B,C,L]. */
accel__tensor accel__conv1d(accel__build *b, accel__tensor x, const accel__conv1 *c,
                            const char *format, ...) ACCEL_PRINTF(4, 5);
/* The same with a weight already there. */
accel__tensor accel__conv1d_by(accel__build *b, accel__tensor x, const accel__conv1 *c,
                               accel__tensor w, accel__tensor bias, int32_t space);
/* Over each of `groups` groups of channels and all positions: <name>.weight, <name>.bias [C]; x
 * [B,C,..]. */
accel__tensor accel__group_norm(accel__build *b, accel__tensor x, int64_t groups, double eps,
                                const char *name);
accel__tensor accel__transpose(accel__build *b, accel__tensor x, uint32_t rank,
                               const int64_t *perm);
accel__tensor accel__planes_to_items(accel__build *b, accel__tensor x); /* [B,C,H,W] -> [B,H*W,C] */
/* [B,S,C] -> [B*S,C], rows of a new fixed space of S per item, which becomes b->space. */
accel__tensor accel__items_to_rows(accel__build *b, accel__tensor x, const char *space);
/* [B*S,C] -> [B,S,C], B = b->B */
accel__tensor accel__rows_to_items(accel__build *b, accel__tensor x, accel__dim per_item);
/* x of items x (groups * n)^2 x C, line by line, in any shape -> [items, groups^2, n * n * C]: n x n
 * neighbours side by side, their lines behind one another (torch's PixelUnshuffle with columns
 * last). */
accel__tensor accel__join_patches(accel__build *b, accel__tensor x, accel__dim items,
                                  accel__dim groups, int64_t n);
/* [B,h*w,C] -> [B,C,h,w] */
accel__tensor accel__items_to_planes(accel__build *b, accel__tensor x, accel__dim h, accel__dim w);
accel__tensor accel__broadcast(accel__build *b, accel__tensor x, uint32_t rank,
                               const accel__dim *dims);
/* `table` [1,n,C] repeated for each item: [B,n,C]. */
accel__tensor accel__repeat(accel__build *b, accel__tensor table, accel__dim items);
accel__tensor accel__concat(accel__build *b, int64_t axis, uint32_t n, const accel__tensor *parts);
accel__tensor accel__slice_dims(accel__build *b, accel__tensor x, int64_t axis, accel__dim start,
                                accel__dim end);
/* The position table [1, before + h*w + after, C] whose middle is a grid, resized to [to_h, to_w]
 * (cubic): [1, .., C]. */
typedef struct accel__grid_table {
  accel__tensor table;
  int64_t before, after;
  accel__size2 grid;
  bool antialias;
  int kind; /* accel_plugin_resize */
} accel__grid_table;
accel__tensor accel__resize_grid(accel__build *b, const accel__grid_table *t, accel__dim to_h,
                                 accel__dim to_w);
/* Row `at` of each item of x [B*S,C]: [B,C]. */
accel__tensor accel__row_of_items(accel__build *b, accel__tensor x, accel__dim per_item,
                                  int64_t at);

/* ---- rows picked, numbers counted ---- */
/* [A,n] F32: running sums along each row, the element's own included */
accel__tensor accel__cumsum(accel__build *b, accel__tensor x);
accel__tensor accel__count(accel__build *b, accel__dim n); /* 0, 1 .. n-1 as F32 [n] */
/* The number n as F32 [1]. */
accel__tensor accel__dim_number(accel__build *b, accel__dim n);
/* Row at[i] (int32 [items], within the sequence) of each sequence of b->space: x [T,C] ->
 * [items,C]. */
accel__tensor accel__rows_at(accel__build *b, accel__tensor x, accel__tensor at);
/* While another tower is built beside the language model: its names stand outside the language
 * model's prefix, and the rows that the layers work on are its own.  Keeps what accel__back_from
 * puts right again. */
typedef struct accel__aside {
  accel__dim items;
  int32_t space;
  accel__tensor position_ids;
  bool in_head;
} accel__aside;
accel__aside accel__step_aside(accel__build *b);
void accel__back_from(accel__build *b, const accel__aside *kept);
/* x [T,C] with its rows where input_ids is `token` replaced by those of `rows` [n,C], in order
 * (torch's masked_scatter). More such tokens than rows are an error when it runs. */
accel__tensor accel__put_rows(accel__build *b, accel__tensor x, accel__tensor rows, int64_t token);
/* The same with the rows that `look` makes of pictures, beside the language model: once, *features is
 * -1 until then. */
accel__tensor accel__show_rows(accel__build *b, accel__tensor x, accel__tensor *features,
                               int64_t token, accel__tensor (*look)(accel__build *b, void *user),
                               void *user);
/* As accel__put_rows, with the rows added to those of x. */
accel__tensor accel__plus_rows(accel__build *b, accel__tensor x, accel__tensor rows, int64_t token);
/* [n] -> [1]: its last element */
accel__tensor accel__reduce_last(accel__build *b, accel__tensor x);
accel__tensor accel__affine(accel__build *b, accel__tensor x, double factor, double offset);
accel__tensor accel__clamp(accel__build *b, accel__tensor x, double low, double high);
accel__tensor accel__cast(accel__build *b, accel__tensor x, accel_plugin_dtype dtype);
/* Rows `one_more` - 1 (fp32 [T]) of the table, and zeros where that is -1. */
accel__tensor accel__optional_embedding(accel__build *b, accel__tensor one_more, int64_t rows,
                                        int64_t width, const char *name);
accel__tensor accel__unit_rows(accel__build *b, accel__tensor x); /* x / |x| over the last dim */
accel__tensor accel__scalar(accel__build *b, const char *name);   /* a weight of one element, [1] */

/* ---- pre-norm blocks: x += attention(norm(x)); x += mlp(norm(x)) ---- */
typedef struct accel__block {
  /* names below the layer's path; k NULL: q is fused [3C,C] */
  const char *q, *k, *v, *o, *norm1, *norm2, *up, *down;
  int64_t hidden, heads, inner, head_dim; /* head_dim 0: hidden / heads */
  double eps, scale;
  bool qkv_bias, no_q_bias, no_k_bias, no_v_bias, o_bias, no_mlp_bias, causal;
  accel__activation act;
  const char *q_norm, *k_norm; /* RMS norms of whole rows of q and k, eps 1e-6; NULL none */
  const char *gate;            /* SwiGLU: act(gate) * up; NULL: act(up) */
  /* the same in one [2*inner, hidden] weight, gate first, where the checkpoint has that; NULL:
   * never */
  const char *fused_gate;
  const char *scale1, *scale2; /* layer scale: names of [C] factors; NULL none */
  accel__tensor mask;          /* of keys; 0 none */
  const accel__rope *rope;     /* turns q and k by b->position_ids; NULL none */
  bool rms;                    /* norms by the root mean square, without an offset */
} accel__block;
accel__tensor accel__pre_norm_block(accel__build *b, const accel__block *c, accel__tensor x,
                                    const char *format, ...) ACCEL_PRINTF(4, 5);

/* x [B,n,C] with the rows where the input "bool_masked_pos" [B,n] is not 0 replaced by the row of
 * `name` [1,1,C] or [1,C].
 */
accel__tensor accel__masked_rows(accel__build *b, accel__tensor x, uint32_t rank, const char *name);
/* Output "reconstruction" [B, channels, h*stride, w*stride] of patches x [B, h*w, C]: decoder.0, a
 * convolution to channels * stride^2 columns, whose pixels stand side by side (torch's
 * PixelShuffle). */
void accel__output_pixels(accel__build *b, accel__tensor x, accel__dim h, accel__dim w,
                          int64_t channels, int64_t stride);
/* <name>.layers.0 .. 2 with relu between them: the box and class heads of DETR and YOLOS. */
accel__tensor accel__mlp_head(accel__build *b, accel__tensor x, int64_t out, const char *name);
/* Sum of n tensors with softmaxed weights [n]: the layers of an encoder, as classifiers of sounds
 * weigh them. */
accel__tensor accel__weighted_states(accel__build *b, const accel__tensor *states, int64_t n,
                                     accel__tensor weights);
/* "last_hidden_state" and the like from rows: [B,S,C] of b->B items */
void accel__output_items(accel__build *b, const char *name, accel__tensor rows, accel__dim per_item,
                         bool asked);
/* the next hidden_states.N */
void accel__hidden_items(accel__build *b, accel__tensor rows, accel__dim per_item);

/* ---- weights computed on load ---- */
/* Convolution with the batch norm behind it folded in: <conv>.weight, <norm>.weight, .bias,
 * .running_mean, .running_var. */
accel__tensor accel__conv2d_norm(accel__build *b, accel__tensor x, const accel__conv *c, double eps,
                                 const char *conv, const char *norm);
/* A convolution that has a bias of its own, then the batch norm, unfolded: for small ones. */
accel__tensor accel__conv2d_bias_norm(accel__build *b, accel__tensor x, const accel__conv *c,
                                      double eps, const char *conv, const char *norm);
/* The weight [dims] of torch's weight_norm over all but the dim `axis` (0 or 2): <name>.weight_v *
 * <name>.weight_g / |weight_v|, in either spelling. */
accel__tensor accel__normed_weight(accel__build *b, const int64_t dims[3], uint32_t axis,
                                   const char *name);
/* A batch norm's own factor and offset, [n]: weight / sqrt(var + eps), bias - mean * factor. */
void accel__batch_norm(accel__build *b, int64_t n, double eps, const char *norm,
                       accel__tensor *factor, accel__tensor *offset);

#endif
