/* model_builder.h - what the model files share: reading config fields, finding checkpoint names,
 * packed inputs, layers, heads, outputs.
 *
 * A model file does four things with one accel__build `b`:
 *
 *   1. accel__build_begin(&b, request, architecture, model, "bert.");
 *          makes the program and its symbols; "bert." is the prefix of names in the checkpoint
 *   2. ACCEL_TRY(accel__read_fields(&b, fields, n));
 *          reads the fields of the config class; a value that is not supported is refused by name
 *   3. accel__add_tokens(&b, ...);
 *      x = ... layers ...;
 *      accel__add_output(&b, "last_hidden_state", x, 0);
 *          inputs, layers and outputs of the program
 *   4. return accel__build_end(&b, hidden);
 *          adds the entries "forward" and "embed" and finishes the program
 *
 * Failures of the program are sticky (program.h): a layer made after a failure does nothing, and
 * accel__build_end returns the first failure.  So layers need no checks.
 */
#ifndef ACCEL_MODELING_MODEL_BUILDER_H
#define ACCEL_MODELING_MODEL_BUILDER_H

#include "modeling/model.h"

enum {
  ACCEL__MAX_LAYERS = 1024,
  ACCEL__MAX_WIDTH = 1 << 20, /* hidden sizes and the like */
  ACCEL__MAX_VOCAB = 1 << 24,
  ACCEL__MAX_POSITIONS = 1 << 24,
  ACCEL__MAX_LABELS = 1 << 20
};

/* An entry of transformers' ACT2FN as a fused activation and, for the odd ones, a unary behind it
 * (gelu_10: clamp; sqrtsoftplus: sqrt). */
typedef struct accel__activation {
  int act;      /* accel_plugin_act */
  double alpha; /* of act; 0 none */
  int then;     /* accel_plugin_unary; 0 none */
  double then_alpha, then_beta;
} accel__activation;

/* Another spelling of tensor names: every `from` in a name becomes `to`.  A table ends with from ==
 * NULL. */
typedef struct accel__rename {
  const char *from, *to;
} accel__rename;

/* The token rows of one side of an encoder-decoder (seq2seq.h). */
typedef struct accel__side {
  accel__dim T;
  int32_t space;
  accel__tensor lengths, input_ids, position_ids, total_len;
} accel__side;

struct accel__build;

/* Of an encoder-decoder (seq2seq.h). */
typedef struct accel__build_seq2seq {
  accel__side idle[2];              /* the side that layers are not being added to */
  accel__input_default ids_default; /* what an absent decoder_input_ids becomes */
  accel__tensor eos_row;            /* [B] row of each sequence's last eos, for classification */
  int32_t *cross;                   /* [layers] states of cross attention; NULL until asked for */
  accel__tensor position_table;     /* sinusoidal positions (bart.c); -1 until made */
  accel__tensor memory_mask; /* int32, 0 hides a row of the encoder from attention; -1 none */
} accel__build_seq2seq;

/* Inputs of kind BLOCKS, once some layer has asked for them (blocks.h). */
typedef struct accel__build_blocks {
  accel__tensor last; /* tensor + 1; 0 not yet */
  bool windowed;      /* the others are there */
  accel__tensor rows, first, keys;
  int32_t space, key_space;
} accel__build_blocks;

enum { ACCEL__MAX_PICTURE_ROWS = 65 }; /* for the image tokens, and behind layers of the text */

/* Of a model that takes pictures. */
typedef struct accel__build_images {
  /* Called with the embedded tokens [T, hidden]: returns them with the rows of the pictures in
   * place of the image tokens (llava.c, qwen2_vl.c).  NULL: the text contains no pictures. */
  accel__tensor (*merge)(struct accel__build *b, void *user, accel__tensor x);
  /* Called with the rows [T, hidden] behind `layers` layers: returns them with what pictures add
   * there (Qwen3-VL).  NULL: nothing. */
  accel__tensor (*add)(struct accel__build *b, void *user, accel__tensor x, uint32_t layers);
  void *merge_user; /* of both */
  int64_t token;    /* stands for a picture's rows; it may lie beyond the vocabulary; 0: none */
  bool blocks;      /* rows of image_tokens->blocks see one another */
  accel__build_blocks made;
  bool text_only; /* neither is called: entry "decode" takes no pictures */
  /* [n_rows] what the two have put into the text, each [picture rows, hidden] */
  accel__tensor rows[ACCEL__MAX_PICTURE_ROWS];
  uint32_t n_rows;
  /* The same as inputs of entry "decode_image": [picture rows, n_rows * hidden], and the row of the
   * run that each is for, [picture rows]; -1: what the tower makes is put in. */
  accel__tensor given, given_at;
  int64_t typical_size[2]; /* height, width; 0: image_size of the config, else 224 */
} accel__build_images;

/* Of a model of time series (series.h). */
typedef struct accel__build_series {
  accel__tensor patches, mask;
} accel__build_series;

/* Of rotary positions whose frequencies depend on the length, or whose queries grow (rope.c). */
typedef struct accel__build_rope {
  struct {
    accel__tensor constant, rows; /* inverse frequencies; those of each row made from them */
  } by_length[2];
  uint32_t n_by_length;
  accel__tensor query_scales; /* tensor + 1; 0 not yet */
  /* Types of layers have parameters of their own: `truncate` counts beside these, and inside them not
   * at all (as transformers 5.23 reads it). */
  bool by_layer_type;
  /* mrope_section is read as Qwen3-VL has it (accel__rope_interleave); without one: 24, 20, 20 */
  bool interleaved;
} accel__build_rope;

/* A program under construction: what every layer and head reads and adds to. */
typedef struct accel__build {
  const accel__model_request *request;
  const accel__json_file *file; /* config.json */
  const accel__json *config;    /* its root, or the part that accel__enter_config chose */
  accel__model *model;
  accel__program *p;
  accel__arena *arena;    /* the program's */
  int64_t default_labels; /* num_labels of the config class; 0: 2 */

  /* names of tensors in the checkpoint */
  const char *prefix;       /* of base-model tensors in head classes: "bert." */
  const char *other_prefix; /* one more that checkpoints of other origin have; NULL none */
  /* in front of every name, behind the prefix: the part being built ("vision_model."); NULL none */
  const char *scope;
  /* tried in turn when a checkpoint has not the canonical name; NULL none */
  const accel__rename *spelling[3];
  bool is_base; /* the class is the base class: names have no prefix */
  bool in_head; /* names asked for now are the head's own: no prefix */

  /* inputs */
  accel__dim T, B; /* token rows, sequences */
  int32_t space;   /* ragged space of the tokens */
  /* of the inputs added now (model.h): 1 for those of a decoder beside an encoder */
  uint32_t side;
  /* [B], [T] ...; -1 absent */
  accel__tensor lengths, input_ids, token_type_ids, position_ids, total_len;
  int64_t position_offset; /* position id of a sequence's first token (RoBERTa: pad_id + 1) */
  accel__model_input *input;

  /* outputs and entries */
  const char *output_path; /* in front of hidden_states.N: "text_model_output."; NULL none */
  accel__model_output *output;
  uint32_t cap_output, n_hidden;
  accel__model_entry more[8]; /* entries beside "forward" and "embed" */
  uint32_t n_more;

  /* Layers built now belong to "decode": attention reads and extends states, and hidden states are
   * not listed as outputs. */
  bool decoding;
  int32_t
      *kv_state; /* [ACCEL__MAX_LAYERS] of "decode": index + 1, 0 not yet; NULL until asked for */

  accel__build_rope rope;
  accel__build_seq2seq seq2seq;
  accel__build_images images;
  accel__build_series series;
} accel__build;

/* ---- begin, end ---- */
accel_status accel__build_begin(accel__build *b, const accel__model_request *request,
                                const char *architecture, accel__model *model, const char *prefix);
/* One more entry: its outputs, and the inputs the model has so far (or those of one side).  Call
 * before accel__build_end. */
void accel__add_entry(accel__build *b, const char *name, const accel__model_input *inputs,
                      uint32_t n_inputs, const accel__model_output *outputs, uint32_t n_outputs);
/* hidden [T,C]: what "embed" pools.  Adds the entries and finishes the program. */
accel_status accel__build_end(accel__build *b, accel__tensor hidden);
bool accel__is_class(const accel__build *b, const char *suffix); /* "ForMaskedLM"; "Model" */
/* A refusal or failure as a status whose message names the config file. */
accel_status accel__refuse(const accel__build *b, const char *format, ...) ACCEL_PRINTF(2, 3);

/* ---- config ---- */
typedef enum accel__field_kind {
  ACCEL__FIELD_INT,
  ACCEL__FIELD_NUMBER,
  ACCEL__FIELD_BOOL,
  ACCEL__FIELD_STRING,
  ACCEL__FIELD_ACT
} accel__field_kind;
typedef struct accel__field {
  const char *key;
  accel__field_kind kind;
  /* int64_t *, double *, bool *, const char **, accel__activation *; left as it is when the field
   * is absent or null */
  void *out;
  int64_t min, max;
} accel__field;
#define ACCEL_FIELD_INT(name, target, least, most) \
  { .key = (name), .kind = ACCEL__FIELD_INT, .out = (target), .min = (least), .max = (most) }
#define ACCEL_FIELD_NUMBER(name, target) \
  { .key = (name), .kind = ACCEL__FIELD_NUMBER, .out = (target) }
#define ACCEL_FIELD_BOOL(name, target) \
  { .key = (name), .kind = ACCEL__FIELD_BOOL, .out = (target) }
#define ACCEL_FIELD_STRING(name, target) \
  { .key = (name), .kind = ACCEL__FIELD_STRING, .out = (target) }
#define ACCEL_FIELD_ACT(name, target) \
  { .key = (name), .kind = ACCEL__FIELD_ACT, .out = (target) }
accel_status accel__read_fields(const accel__build *b, const accel__field *fields, uint32_t n);
/* Refuses values that change the forward pass and are not implemented: is_decoder,
 * add_cross_attention, pruned_heads. */
accel_status accel__refuse_variants(const accel__build *b);
/* position_embedding_type other than absolute: for the classes that once read it (the others ignore
 * the field). */
accel_status accel__refuse_relative_positions(const accel__build *b);
/* id2label, num_labels, problem_type into the model; nothing for classes without labels. */
accel_status accel__read_labels(accel__build *b);
/* An ACT2FN name; ACCEL_ERROR_UNSUPPORTED lists the known ones. */
accel_status accel__activation_of(const accel__build *b, const char *key, const char *name,
                                  accel__activation *out);
accel_status accel__divides(const accel__build *b, const char *small_key, int64_t small,
                            const char *large_key, int64_t large);

/* ---- weights: names as transformers writes them, without the base prefix ---- */
/* The tensor's name in the checkpoint: with or without the prefix, LayerNorm.gamma/beta for
 * .weight/.bias; canonical when none is there. */
const char *accel__resolve(accel__build *b, const char *format, ...) ACCEL_PRINTF(2, 3);
/* without a checkpoint: true */
bool accel__has(accel__build *b, const char *format, ...) ACCEL_PRINTF(2, 3);
/* dims[rank]; `name` is the canonical one. */
accel__tensor accel__weight_at(accel__build *b, accel_plugin_weight_use use, uint32_t rank,
                               const int64_t *dims, const char *name);

/* Rows part*dims[0] .. of a stored [parts*dims[0], ...] `name` as a weight of its own. */
accel__tensor accel__weight_rows(accel__build *b, accel_plugin_weight_use use, uint32_t rank,
                                 const int64_t *dims, uint32_t part, uint32_t parts,
                                 const char *name);
/* dims[0] rows of a stored `name`: `each` from row `first` on, then `each` from `step` rows further
 * on, and so forth, to its end (dims[0] / each * step rows). */
accel__tensor accel__weight_blocks(accel__build *b, accel_plugin_weight_use use, uint32_t rank,
                                   const int64_t *dims, int64_t each, int64_t first, int64_t step,
                                   const char *name);

/* ---- packed inputs ---- */
/* lengths [B], input_ids [T] and the space "tokens"; then the optional ones in transformers'
 * order.  With b->side 1, the decoder's: decoder_lengths, decoder_input_ids, for as many items as
 * b->B says. */
void accel__add_tokens(accel__build *b, int64_t vocab);
void accel__add_token_types(accel__build *b, int64_t types);
/* token_type_ids that name words of the vocabulary, -1 where they are absent (GPT-2) */
void accel__add_word_types(accel__build *b, int64_t vocab);
/* An input handed on whole, [B, ...] of F32 or I32; its dims may be symbols of its own. */
accel__tensor accel__add_item(accel__build *b, const char *name, accel_plugin_dtype dtype,
                              uint32_t rank, const accel__dim *dims,
                              accel__input_default otherwise);
/* An int32 input made from another argument (model.h); `how` lives as long as the program. */
accel__tensor accel__add_derived(accel__build *b, const char *name, uint32_t rank,
                                 const accel__dim *dims, const accel__derived *how);
void accel__add_positions(accel__build *b, int64_t max, accel__input_default otherwise,
                          int64_t offset);
/* position_ids [3,T] (ACCEL__INPUT_MROPE), row numbers where nothing is said */
void accel__add_mrope_positions(accel__build *b);
/* int32 [T]: the number of each row's sequence, for values of sequences that rows need */
accel__tensor accel__add_sequence(accel__build *b);
/* int32 [T]: the id of the token in front of each token plus 1, or with `next` of that behind it; 0
 * where there is none (ACCEL__DEFAULT_PREVIOUS) */
accel__tensor accel__add_neighbour(accel__build *b, int64_t vocab, bool next);
void accel__add_total_len(accel__build *b); /* "total_len": see ACCEL__DEFAULT_TOTAL_LEN */

/* ---- layers ---- */
/* act(x W^T + bias) + residual with <name>.weight [out, columns of x] and <name>.bias [out]; act
 * NULL: none. */
accel__tensor accel__dense_layer(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                 accel__tensor residual, const accel__activation *act,
                                 const char *format, ...) ACCEL_PRINTF(7, 8);
/* x W^T + bias with rows part*out .. of a fused <name>.weight [parts*out, columns of x] (and its
 * bias): q, k or v of Wqkv.
 */
accel__tensor accel__dense_rows(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                uint32_t part, uint32_t parts, const char *format, ...)
    ACCEL_PRINTF(7, 8);
/* The same with rows first .. first+out of a weight of `stored` rows. */
accel__tensor accel__dense_slice(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                 int64_t first, int64_t stored, const char *format, ...)
    ACCEL_PRINTF(7, 8);
/* The same with `blocks` times `each` rows: row `first` and on, then `step` rows further on, and so
 * forth, of a weight of blocks * step rows (heads of q, k and v that lie interleaved). */
accel__tensor accel__dense_blocks(accel__build *b, accel__tensor x, int64_t blocks, int64_t each,
                                  int64_t first, int64_t step, bool bias, const char *name);
/* act(x W + bias) + residual with columns first .. first+out of <name>.weight [columns of x,
 * stored] and <name>.bias [stored] (GPT-2's Conv1D). */
accel__tensor accel__dense_transposed(accel__build *b, accel__tensor x, int64_t out, int64_t first,
                                      int64_t stored, accel__tensor residual,
                                      const accel__activation *act, const char *name);
/* x W with W `name` [columns of x, out]. */
accel__tensor accel__product_transposed(accel__build *b, accel__tensor x, int64_t out,
                                        const char *name);
/* Rows first .. first+rows of <name>.weight [first + rows, width]. */
accel__tensor accel__position_table(accel__build *b, int64_t rows, int64_t width, int64_t first,
                                    const char *name);
/* act(gate) * up where <name>.weight [2*out, columns of x] holds the gate's rows, then up's. */
accel__tensor accel__gated_fused(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                 const accel__activation *act, const char *format, ...)
    ACCEL_PRINTF(6, 7);
/* The same where up's rows come first. */
accel__tensor accel__gated_fused_last(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                      const accel__activation *act, const char *format, ...)
    ACCEL_PRINTF(6, 7);
/* act(x Wg^T) * (x Wu^T) with <path>.<gate>.weight and <path>.<up>.weight [out, columns of x] */
accel__tensor accel__gated_layer(accel__build *b, accel__tensor x, int64_t out, bool bias,
                                 const accel__activation *act, const char *path, const char *gate,
                                 const char *up);
/* Layer normalisation of x + residual with <name>.weight and, with bias, <name>.bias. */
accel__tensor accel__norm_layer(accel__build *b, accel__tensor x, accel__tensor residual,
                                double eps, bool bias, const char *format, ...) ACCEL_PRINTF(6, 7);
/* Rows of <name>.weight [rows, width]. */
accel__tensor accel__embedding(accel__build *b, accel__tensor idx, int64_t rows, int64_t width,
                               const char *name);
/* Embedded tokens with the rows of pictures in their places (accel__build_images.merge); x itself
 * where there are none. */
accel__tensor accel__merge_images(accel__build *b, accel__tensor x);
/* Rows behind `layers` layers with what pictures add there (accel__build_images.add). */
accel__tensor accel__add_images(accel__build *b, accel__tensor x, uint32_t layers);
accel__tensor accel__scaled_embedding(accel__build *b, accel__tensor idx, int64_t rows,
                                      int64_t width, double scale,
                                      const char *name); /* times scale; 0: as they are */
accel__tensor accel__activate(accel__build *b, accel__tensor x, const accel__activation *act);
/* RMS normalisation with <name>.weight [columns of x]: x / rms(x) * (weight + offset). */
accel__tensor accel__rms_layer(accel__build *b, accel__tensor x, double eps, double offset,
                               const char *format, ...) ACCEL_PRINTF(5, 6);
/* The same over each head of x [T, heads*D], one <name>.weight [D] for all of them. */
accel__tensor accel__rms_heads(accel__build *b, accel__tensor x, int64_t heads, double eps,
                               double offset, const char *format, ...) ACCEL_PRINTF(6, 7);
/* factor * x; 0 or 1: x */
accel__tensor accel__scaled(accel__build *b, accel__tensor x, double factor);
/* x within -limit .. limit; 0: x */
accel__tensor accel__clamped(accel__build *b, accel__tensor x, double limit);
/* cap * tanh(x / cap); 0: x */
accel__tensor accel__softcap(accel__build *b, accel__tensor x, double cap);
/* Attention; begin with accel__attention_of and change what differs. */
typedef struct accel__attention {
  int64_t heads, kv_heads;
  double scale;        /* 0: 1/sqrt(columns of a head) */
  double softcap;      /* 0 off */
  bool causal;         /* keys behind the query only */
  int64_t left, right; /* tokens seen to either side; -1 no limit */
  accel__tensor bias;
  int bias_kind; /* accel_plugin_bias */
  int64_t buckets, max_distance;
  int64_t period; /* dense bias: item i uses slice i mod period; 0: the first dim of the bias */
  accel__tensor positions;   /* int32 [rows] of q and k, for biases by distance; -1: row numbers */
  accel__tensor q_positions; /* those of q alone, where they are others; -1: as `positions` */
  accel__tensor mask;        /* int32 [rows of kv_space], 0 hides the key; -1 none */
  accel__tensor sinks;       /* [heads]: a further score in each softmax, of no key; -1 none */
  int32_t q_space, kv_space;
  int32_t state; /* k and v are appended to it, or it is only read (state_static); -1 none */
  bool state_static;
  /* [n_probs] heads whose probabilities are wanted, too: [n_probs, Tq, keys of kv_space] */
  const int64_t *probs;
  uint32_t n_probs;
  accel__tensor *probabilities; /* gets them */
} accel__attention;
/* over the tokens' space, everything seen */
accel__attention accel__attention_of(const accel__build *b, int64_t heads);
/* q [Tq, heads*D], k [Tk, kv_heads*D], v [Tk, kv_heads*Dv] -> [Tq, heads*Dv]; with a state q or k
 * and v may be -1. */
accel__tensor accel__attend(accel__build *b, accel__tensor q, accel__tensor k, accel__tensor v,
                            const accel__attention *how);
/* Self-attention over the tokens' space: q, k, v [T, heads*D]; scale 0: 1/sqrt(D). */
accel__tensor accel__self_attention(accel__build *b, accel__tensor q, accel__tensor k,
                                    accel__tensor v, int64_t heads, double scale);
/* The same where each token sees at most `window` tokens to either side. */
accel__tensor accel__window_attention(accel__build *b, accel__tensor q, accel__tensor k,
                                      accel__tensor v, int64_t heads, int64_t window);
/* [T,C] -> [B,C]: the first token of each sequence */
accel__tensor accel__first_rows(accel__build *b, accel__tensor x);
int64_t accel__columns(const accel__build *b, accel__tensor x); /* the last dim, a constant */

/* ---- heads and outputs ---- */
enum {
  ACCEL__OUTPUT_ON_REQUEST = 1, /* computed only when named (accel__model_output.asked) */
  ACCEL__OUTPUT_SQUEEZE = 2     /* a last dim of 1 is dropped (accel__model_output.squeeze) */
};
/* flags: 0 or some of the above; `name` is copied. */
void accel__add_output(accel__build *b, const char *name, accel__tensor t, uint32_t flags);
/* the next "hidden_states.N" */
void accel__add_hidden(accel__build *b, accel__tensor x);
/* logits [T, num_labels] */
void accel__head_tokens(accel__build *b, accel__tensor x, const char *name);
/* pooled [B,C] -> logits [B, num_labels] by <name> */
void accel__head_sequence(accel__build *b, accel__tensor pooled, const char *name);
/* start_logits, end_logits: x without its columns */
void accel__head_spans(accel__build *b, accel__tensor x, const char *name);
/* ForTokenClassification ("classifier") and ForQuestionAnswering ("qa_outputs") as BERT and its kin
 * have them. */
void accel__head_words(accel__build *b, accel__tensor x);
/* x [T,C] times the word embeddings, or <decoder>.weight when the checkpoint has its own; bias:
 * <decoder>.bias when it is there, else `bias`; NULL none. */
accel__tensor accel__head_vocabulary(accel__build *b, accel__tensor x, int64_t vocab, bool tied,
                                     const char *embeddings, const char *decoder, const char *bias);

/* Classes that most encoders, and most decoders, have alike; for accel__architecture.classes. */
#define ACCEL_ENCODER_CLASSES(name)                                   \
  name "Model", name "ForMaskedLM", name "ForSequenceClassification", \
      name "ForTokenClassification", name "ForQuestionAnswering"
#define ACCEL_CAUSAL_CLASSES(name)                                    \
  name "Model", name "ForCausalLM", name "ForSequenceClassification", \
      name "ForTokenClassification", name "ForQuestionAnswering"

#endif
