/* rope.h - rotary position embeddings as configs spell them (transformers' modeling_rope_utils):
 * rope_parameters, rope_scaling, rope_theta. */
#ifndef ACCEL_MODELING_ROPE_H
#define ACCEL_MODELING_ROPE_H

#include "modeling/model_builder.h"

enum { ACCEL__MAX_SECTIONS = 512 };

typedef struct accel__rope {
  int64_t head_dim, rot_dims; /* columns of a head, rotated ones among them (even) */
  double attention_scale;     /* factor on sine and cosine (yarn) */
  int style;                  /* accel_plugin_rope: ROPE_HALF or ROPE_INTERLEAVED */
  accel__tensor inv_freq;     /* constant [rot_dims/2]; longrope [2, rot_dims/2]: short, long */
  /* dynamic: frequency i grows with ratio^power[i], constant [rot_dims/2]; else -1 */
  accel__tensor power;
  double factor; /* dynamic */
  /* tokens up to which nothing changes (dynamic, longrope); 0: the type knows no length */
  int64_t length;
  /* M-RoPE: frequencies that follow time, height, width, and so on in turn */
  int64_t section[ACCEL__MAX_SECTIONS];
  uint32_t n_sections; /* 0: none */
  /* queries grow by 1 + query_beta * log(1 + floor(position / query_length)) (Ministral 3); 0: not */
  double query_beta;
  int64_t query_length;
} accel__rope;

/* `params`: one rope_parameters or rope_scaling object (NULL: plain); theta_key's value is in theta
 * unless params has rope_theta. Types default (also "mrope"), linear, dynamic, yarn, longrope (also
 * "su"), llama3, proportional; others are refused by name. partial: partial_rotary_factor unless
 * params has one. */
accel_status accel__rope_read(accel__build *b, const accel__json *params, double theta,
                              double partial, int64_t head_dim, int64_t max_positions,
                              const char *name, accel__rope *out);
/* The same from config.json as decoders spell it: rope_scaling (old) or rope_parameters, in which
 * `layer_type` may have an object of its own (NULL: there are no such), rope_theta,
 * partial_rotary_factor and original_max_position_embeddings beside them.  partial 0: the class
 * reads no partial_rotary_factor, its heads turn whole. */
accel_status accel__rope_config(accel__build *b, const char *layer_type, double theta,
                                double partial, int64_t head_dim, int64_t max_positions,
                                const char *name, accel__rope *out);
/* Frequencies by section (mrope_section); refused by name unless they sum to all of them. */
accel_status accel__rope_divide(const accel__build *b, const int64_t *section, uint32_t n,
                                accel__rope *rope);
/* Frequencies i = 1, 4, 7 .. below 3 * section[1] follow height, those i = 2, 5, 8 .. below 3 *
 * section[2] width, all others time (Qwen3-VL's M-RoPE). */
accel_status accel__rope_interleave(const accel__build *b, const int64_t section[3],
                                    accel__rope *rope);
/* Rotates the heads of x [T, heads*head_dim] by b->position_ids: [T], or [3,T] by `section`.  Types
 * that change with the length of the call add the input "total_len" (ACCEL__DEFAULT_TOTAL_LEN) when
 * they first rotate. */
accel__tensor accel__rope_rows(accel__build *b, accel__tensor x, const accel__rope *rope);
/* Queries q [T, columns] times what query_beta and query_length make of b->position_ids [T]; q
 * itself where query_beta is 0. */
accel__tensor accel__rope_scale_query(accel__build *b, accel__tensor q, const accel__rope *rope);

#endif
