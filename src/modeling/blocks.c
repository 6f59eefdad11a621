/* blocks.c - attention where the rows of a block see one another in both directions. */
#include "modeling/blocks.h"

/* ---- inputs ---- */

static accel__tensor block_input(accel__build *b, const char *name, accel__dim n,
                                 accel__block_part part) {
  accel__tensor t = accel__input(b->p, name, ACCEL_PLUGIN_I32, -1, 1, &n);
  b->input[b->model->n_inputs++] = (accel__model_input){
      .name = "token_type_ids", .tensor = t, .kind = ACCEL__INPUT_BLOCKS, .part = part};
  return t;
}

static void add_blocks(accel__build *b, accel__build_blocks *made) {
  accel__program *p = b->p;
  accel__dim blocks = accel__symbol(p, "blocks", 1, 0, 1),
             rows = accel__symbol(p, "block_rows", 1, 0, 256),
             keys = accel__symbol(p, "block_keys", 1, 0, 1024);
  accel__tensor lengths = block_input(b, "block_lengths", blocks, ACCEL__BLOCK_LENGTHS),
                key_lengths = block_input(b, "block_key_lengths", blocks, ACCEL__BLOCK_KEY_LENGTHS);
  made->rows = block_input(b, "block_rows", rows, ACCEL__BLOCK_ROWS);
  made->first = block_input(b, "block_first_keys", rows, ACCEL__BLOCK_FIRST_KEYS);
  made->keys = block_input(b, "block_keys", keys, ACCEL__BLOCK_KEYS);
  made->space = accel__space_ragged(p, "block_rows", lengths, rows, blocks);
  made->key_space = accel__space_ragged(p, "block_keys", key_lengths, keys, blocks);
  made->windowed = true;
}

/* ---- attention ---- */

accel__tensor accel__attend_blocks(accel__build *b, accel__tensor q, accel__tensor k,
                                   accel__tensor v, const accel__attention *how) {
  accel__build_blocks *made = &b->images.made;
  accel__attention all = *how, apart = *how;
  if (how->left < 0) {
    if (made->last == 0) made->last = block_input(b, "last_keys", b->T, ACCEL__BLOCK_LAST_KEYS) + 1;
    all.q_positions = made->last - 1;
    return accel__attend(b, q, k, v, &all);
  }
  accel__tensor y = accel__attend(b, q, k, v, &all);
  if (!made->windowed) add_blocks(b, made);
  apart.causal = false;
  apart.left = 0; /* keys in front of q_positions are hidden */
  apart.right = -1;
  apart.q_positions = made->first;
  apart.q_space = made->space;
  apart.kv_space = made->key_space;
  apart.state = -1;
  accel__tensor z =
      accel__attend(b, accel__gather(b->p, q, made->rows), accel__gather(b->p, k, made->keys),
                    accel__gather(b->p, v, made->keys), &apart);
  accel__attr set = ACCEL_I(SCATTER_MODE, 0);
  return accel__node(b->p, ACCEL_PLUGIN_OP_SCATTER_ROWS, (accel__tensor[]){y, made->rows, z}, 3,
                     &set, 1, NULL, 1);
}
