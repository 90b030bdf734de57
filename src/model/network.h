/* What the files of this room share: where parameters are, what a workspace holds, and the parts of a
 * network, each with its forward and backward.
 *
 * A network is one stack of blocks or two (encoder, decoder). A stack is a chain of sublayers around one residual
 * stream: attention, feed-forward, attention, ...; in a decoder that reads an encoder attention, cross attention,
 * feed-forward, attention, ... Sublayer j of J has the norm N_j and the function F_j:
 *
 *   pre-norm    a_j = N_j(r_j)                                    r_(j+1) = r_j + F_j(a_j)
 *   post-norm   a_0 = r_0, a_j = N_(j-1)(r_j) for j > 0           r_(j+1) = a_j + F_j(a_j)
 *   parallel    as pre-norm, but a_j of feed-forward is N_j(r_(j-1)), what enters the block
 *
 * What leaves the last block is r_J (pre), which a final norm may follow, or N_(J-1)(r_J) (post); an encoder keeps
 * it, and every cross attention makes its keys and values from it.
 * Training keeps r_j, projections and pre-activations; inputs a_j, norms' statistics, activations and
 * dropout masks are computed again on the way back, in chunks of rows, so that scratch does not grow
 * with the length. Rows are tokens, (sequence, position) in that order; rows past a sequence's length
 * hold zeros at the bottom of the network, count nowhere, and get gradients of zero. */
#ifndef LL_NETWORK_H
#define LL_NETWORK_H

#include "attention/cross_cache.h"
#include "kernel/kernel.h"
#include "model/model_internal.h"

/* Tensors of a block, in table order. A block has those that its recipe asks for. */
enum {
    LL_ATTENTION_NORM, /* the gain; a bias follows each but RMSNorm's */
    LL_QUERY_WEIGHT,
    LL_KEY_WEIGHT,
    LL_VALUE_WEIGHT,
    LL_OUTPUT_WEIGHT,
    LL_QUERY_BIAS,
    LL_KEY_BIAS,
    LL_VALUE_BIAS,
    LL_OUTPUT_BIAS,
    LL_GATE_WEIGHT, /* of kernels whose calls need a gate */
    LL_GATE_BIAS,
    LL_FEED_NORM,
    LL_FEED_GATE_WEIGHT, /* of swiglu */
    LL_FEED_GATE_BIAS,
    LL_IN_WEIGHT,
    LL_IN_BIAS,
    LL_OUT_WEIGHT,
    LL_OUT_BIAS,
    LL_CROSS_NORM, /* of a decoder that reads an encoder */
    LL_CROSS_QUERY_WEIGHT,
    LL_CROSS_KEY_WEIGHT,
    LL_CROSS_VALUE_WEIGHT,
    LL_CROSS_OUTPUT_WEIGHT,
    LL_BLOCK_TENSORS
};

enum {
    LL_CHUNK = 1024, /* rows that pass through a layer together */
    LL_PIECE = 64    /* rows of one parallel task */
};

/* Rows first .. first+n-1 of all rows. */
typedef struct {
    size_t first;
    int n;
} ll_rows;

enum { LL_EVALUATE, LL_TRAIN, LL_STREAM };

/* What the head of match writes to for half a chunk of pairs: x, dx (pairs, 4C), u, h, dh (pairs, ff). */
typedef struct {
    float *x, *u, *h, *dx, *dh;
} ll_match;

struct ll_workspace {
    const ll_model *model;
    const ll_stack *stack;
    ll_workspace *source;     /* of the encoder that this stack reads, or NULL */
    int mode;                 /* one of the above */
    struct ll_shared *shared; /* how other processes have the rest of the sequences, or NULL */
    ll_ready_fn *ready;       /* ll_workspace_on_gradient */
    void *ready_arg;
    int64_t part, parts; /* the batch that goes through it, of so many; parts = 0: of one */
    int below, blocks;   /* blocks of the batch that come before those of this stack, and all of them */
    int B, T;            /* at most; T with CLS tokens */
    size_t bytes;
    float *block, **layers;
    /* Kept from forward for backward; evaluation has one of each and writes over it. */
    float **residual; /* (sublayers + 1) of (rows, C) */
    float **project;  /* (layers) of (rows, ll_row_width): q, k, v side by side */
    float **gate;     /* (layers) of (rows, H): log r, or NULL */
    float **mixed;    /* (layers) of (rows, H E): what attention gives */
    float **hidden;   /* (layers) of (rows, ff): pre-activations; evaluation: (chunk, ff) */
    float **gates;    /* as hidden: of swiglu, which of these makes the gate */
    float **saved;    /* (layers) of ll_attention_saved; evaluation: NULL */
    /* Cross attention: queries (rows, H D); keys and values (source rows, H D + H E); the others as above. */
    float **cross_query, **cross_source, **cross_mixed, **cross_saved;
    float *top;   /* (rows, C) what leaves an encoder, else NULL */
    float *sinus; /* (T, C) sinusoidal positions, or NULL */
    /* Backward. */
    float *d;         /* (rows, C) gradient of the residual stream, or of a_j (post-norm) */
    float *dparallel; /* (rows, C) what feed-forward adds to it beside attention; norm = parallel alone */
    float *dproject;  /* (rows, ll_row_width) */
    float *dgate;     /* (rows, H), or NULL */
    float *dmixed;    /* (rows, H E) */
    float *dsource;   /* (source rows, H D + H E) */
    /* Scratch of one chunk. */
    float *input, *output, *gradient; /* (chunk, C) */
    float *wide, *dwide;              /* (chunk, ff) */
    float *grouped;                   /* (chunk, keys or values of the heads that have own ones), with kv-heads */
    float *transform[4];              /* (chunk, C) of head_transform.c: u, act(u), its norm, their gradients */
    float *token_scale;               /* (B) model.mask-token: what token vectors are multiplied by */
    int *type;                        /* (rows) types of tokens, or NULL: all are of the first */
    float *heads;                     /* (chunk, H E) what attention gives, normalised; or NULL */
    float *statistics;                /* (2, chunk) means and reciprocal deviations */
    float *partial;                   /* (chunk / LL_PIECE, 2, C) gain and bias gradients */
    float *packed;                    /* scratch of products */
    float *scratch;                   /* of attention, for as many threads as there were; NULL: streams need none */
    size_t scratch_floats;
    float *logits; /* (logit_rows, V or classes) */
    int logit_rows;
    float *loss;          /* (2, chunk) losses, and 1 where the most likely answer is right */
    double *pool, *dpool; /* (B, C) classifiers: sums over tokens */
    ll_match match;
    int *lengths;                 /* (B), CLS tokens included */
    int *position;                /* (rows) of each token in its document, or NULL: rows are documents */
    ll_segment *segment;          /* (rows) the documents */
    ll_carry *carry;              /* states of the tokens before, or NULL */
    int *wrong;                   /* (B) seq2seq: targets that were missed */
};

/* One batch on its way. */
typedef struct {
    const ll_model *model;
    const ll_model_config *c;
    ll_workspace *ws;
    const ll_kernels *k;
    const ll_stack *stack;
    const int *tokens;
    int B, T;           /* T: CLS tokens included */
    size_t rows;        /* B T */
    const int *lengths; /* (B), CLS tokens included */
    int segments;       /* documents in ws->segment, where model.separator begins new ones */
    const int *source;  /* tokens (B, S) that go through the encoder first, or NULL */
    int S;
    int64_t position; /* of the first token */
    const struct ll_stream_set *streams; /* whose tokens the rows are (stream_rows.h), or NULL */
    float *grad;      /* NULL: forward alone */
    int64_t draw;     /* dropout; applies where grad is wanted */
    int first;        /* number of the first sequence in the whole batch */
} ll_batch_run;

/* ---- stack.c ---- */

/* The stacks that the recipe's task has. */
void ll_stacks_plan(ll_model *model);
/* The stack that has the head. */
const ll_stack *ll_top_stack(const ll_model *model);
/* Whose attention operator number `op` is. */
typedef struct {
    const ll_stack *stack;
    int layer, cross;
} ll_operator_location;
ll_operator_location ll_operator_at(const ll_model *model, int op);
/* How many of the operators are cross attention. */
int ll_cross_layers(const ll_model *model);
/* The operator of a layer of a stack, its own or the one of cross attention. */
int ll_operator_of(const ll_stack *stack, int layer, int cross);
/* "decoder.blocks.3." and the like, for tensors of an operator: "attention." or "cross." follows. */
enum { LL_PREFIX = 40 };
void ll_operator_prefix(const ll_model *model, int op, char prefix[LL_PREFIX]);
/* What goes through the encoder while this run goes through the decoder. */
ll_batch_run ll_source_run(const ll_batch_run *run);

/* ---- params.c ---- */

/* Fills the table, at, cls_tokens, widths and size. LL_EINVAL names what cannot be. */
LL_MUST_USE ll_status ll_params_plan(ll_model *model);
/* One block for all tensors, of zeros. */
LL_MUST_USE ll_status ll_params_allocate(ll_model *model);
/* Draws all parameters from train.seed; their room is there. */
void ll_params_init(ll_model *model);
/* adopt.c: then takes those that another model has, and says how many (`summary`, to be freed with ll_free). LL_EINVAL
 * where widths or heads differ. */
LL_MUST_USE ll_status ll_params_adopt(ll_model *model, const ll_model *from, char **summary);
/* Tensor number i in a block of gradients; among the parameters themselves. */
float *ll_param_in(const ll_model *model, float *block, int i);
const float *ll_param_at(const ll_model *model, int i);
/* Number of a tensor of a layer; -1: the blocks of its stack have none. */
int ll_block_tensor(const ll_stack *stack, int layer, int which);
/* Width of what a stack's own attention projects: queries and keys, as far as the kernel has them, and values. */
size_t ll_row_width(const ll_model *model);

/* ---- position_params.c: parameters of positions inside attention ---- */

enum { LL_POSITION_TENSORS = 4 };
typedef struct {
    const char *name;
    int rows, cols;
} ll_position_tensor;
/* The tensors of an operator; returns how many. */
int ll_position_params_tensors(const ll_model *model, ll_position_tensor tensor[LL_POSITION_TENSORS]);
/* First values of a tensor of that name; 0: it is none of ours. */
int ll_position_params_init(const ll_model *model, const ll_param *p, float *x, uint64_t stream);
/* What an operator reads, and where backward adds its gradients. */
void ll_position_params_config(const ll_model *model, int op, ll_attention_config *a);
ll_position_gradients ll_position_params_gradients(const ll_model *model, int op, float *grad);
/* Noise for this pass: its own in training, always the same elsewhere. */
void ll_position_params_noise(const ll_batch_run *run, int op);

/* ---- token_gate.c ---- */

/* u (n) becomes log r; d (n), the gradient at log r, becomes the one at u. */
void ll_gate_forward(size_t n, float *u);
void ll_gate_back(size_t n, const float *gate, float *d);
/* A run's (rows, H) as a call takes it; NULL: no gate. */
ll_view ll_gate_view(const ll_batch_run *run, float *gate);
/* First values of a gate's bias; 0: the tensor is none. */
int ll_gate_init(const ll_param *p, float *x);

/* ---- carry.c ---- */

/* The call of operator `op`, whose rows take and leave states. */
ll_attention_call ll_carry_call(const ll_carry *carry, int op, const ll_attention_call *call);
/* Before the calls of a batch: document number i begins with a separator, or goes on from the window before. */
void ll_carry_segment(ll_carry *carry, int i, const ll_segment *document);

/* ---- head_norm.c ---- */

/* n rows (H E) of what attention gives, each head normalised where the recipe has it so: x itself, or in ws->heads.
 * Then d, the gradient at that, becomes the one at x. */
const float *ll_head_norm(const ll_batch_run *run, int n, const float *x);
void ll_head_norm_back(const ll_batch_run *run, int n, const float *x, float *d);

/* ---- approximate_params.c: what approximate operators need; as position_params.c ---- */

enum { LL_APPROXIMATE_TENSORS = 2 };
int ll_approximate_tensors(const ll_model *model, ll_position_tensor tensor[LL_APPROXIMATE_TENSORS]);
int ll_approximate_init(const ll_model *model, const ll_param *p, float *x, uint64_t stream);
void ll_approximate_config_of(const ll_model *model, int op, ll_attention_config *a);
ll_approximate_gradients ll_approximate_gradients_of(const ll_model *model, int op, float *grad);

/* ---- operators.c ---- */

/* Makes model->attention. Draws come from `file`; if it is NULL, from the operators of the same names and kinds that
 * `from` has; else, and where that is NULL, they are drawn. */
LL_MUST_USE ll_status ll_operators_create(ll_model *model, const ll_safetensors *file, const ll_model *from);
void ll_operators_free(ll_model *model);
LL_MUST_USE ll_status ll_operators_write(const ll_model *model, ll_st_writer *writer);

/* ---- origin.c ---- */

LL_MUST_USE ll_status ll_origin_copy(ll_model *model, const ll_model *from);
LL_MUST_USE ll_status ll_origin_write(const ll_model *model, ll_st_writer *writer);
LL_MUST_USE ll_status ll_origin_read(ll_model *model, const ll_safetensors *file);
void ll_origin_free(ll_model *model);

/* ---- quantize.c: weights in fewer bits ---- */

typedef struct ll_quantized ll_quantized;
void ll_quantized_free(ll_quantized *w);
const char *ll_quantized_name(const ll_model *model); /* "f32", "bf16", "int8" */
/* A matrix as floats and, if it is quantized, in bf16 or int8. Products of one row use the quantized form. */
typedef struct {
    const float *f;
    const uint16_t *bf16;
    const int8_t *int8;
    const float *scale; /* one for each column of int8 */
} ll_matrix;
ll_matrix ll_quantized_find(const ll_model *model, const float *weight);

/* ---- layers.c: what acts on rows; out never aliases in ---- */

/* ll_gemm; on the way to gradients ll_gemm_bf16 with train.precision = bf16. */
void ll_product(const ll_batch_run *run, int ta, int tb, int M, int N, int K, const float *A, size_t lda,
                const float *B, size_t ldb, float *C, size_t ldc, int add, const float *bias);
/* out (n, N) = in (n, K) W + bias; bias may be NULL. */
void ll_linear(const ll_batch_run *run, int n, int K, int N, const float *in, size_t ldi, const float *W,
               const float *bias, float *out, size_t ldo);
/* dW (K, N) += in^T dout. */
void ll_linear_weight_back(const ll_batch_run *run, int n, int K, int N, const float *in, size_t ldi, const float *dout,
                           size_t ldo, float *dW);
/* din (n, K) = or += dout W^T. */
void ll_linear_input_back(const ll_batch_run *run, int n, int K, int N, const float *dout, size_t ldo, const float *W,
                          float *din, size_t ldi, int add);
/* db (N) += column sums of dout (n, N). */
void ll_bias_back(int n, int N, const float *dout, float *db);
/* The same of rows ldo apart. */
void ll_bias_back_rows(int n, int N, const float *dout, size_t ldo, float *db);
/* Norm whose gain is tensor `gain` (a bias follows that of LayerNorm); the statistics stay in the workspace for ... */
void ll_norm(const ll_batch_run *run, int n, int gain, const float *x, float *y);
/* ... dx += and the gradients of gain and bias, after ll_norm of the same rows. */
void ll_norm_back(const ll_batch_run *run, int n, int gain, const float *x, const float *dy, float *dx);
/* y = f(x), and times x with a gate: f(gate) x. gate NULL: none. */
void ll_activate(const ll_batch_run *run, int n, int width, const float *x, const float *gate, float *y);
/* dx from dy; with a gate, dy becomes the gate's gradient. */
void ll_activate_back(const ll_batch_run *run, int n, int width, const float *x, const float *gate, float *dy,
                      float *dx);
enum { LL_SITE_EMBEDDING, LL_SITE_ATTENTION, LL_SITE_FEED, LL_SITE_CROSS };
/* y = or += x / keep where the mask of (train.seed, draw, stack's layer, site, row, column) keeps, else 0; the same
 * call forward and backward. Nothing is dropped where no gradient is wanted. y == x is allowed if !add. */
void ll_dropout(const ll_batch_run *run, ll_rows rows, int layer, int site, const float *x, float *y, int add);
/* Copies n rows of width C. */
void ll_copy_rows(const ll_batch_run *run, int n, const float *x, float *y);

/* ---- embed.c ---- */

/* (count, C) position vectors for positions first, first + 1, ... */
void ll_sinus(float *out, int count, int C, int64_t first, double amplitude);
void ll_embed(const ll_batch_run *run);
/* From ws->d to the gradients of embedding, positions and their norm; ws->d is destroyed. */
void ll_embed_back(const ll_batch_run *run);

/* ---- block.c ---- */

/* Sublayers of a stack, and the numbers of a layer's attention, cross attention (parts = 3) and feed-forward. */
int ll_sublayers(const ll_stack *stack);
/* a_j of some rows: in place or computed into `out`. */
const float *ll_sublayer_input(const ll_batch_run *run, int j, ll_rows rows, float *out);
int ll_pre_norm(const ll_batch_run *run);
/* r_j of some rows. */
float *ll_residual(const ll_batch_run *run, int j, ll_rows rows);
/* r_(j+1) = r_j or a_j (computed into ws->input) + dropout(F). */
void ll_sublayer_add(const ll_batch_run *run, int j, ll_rows rows, const float *F);
/* From the gradient d at what sublayer j gives to the one at F_j (d itself, or in ws->gradient); d becomes the one at
 * its sum. */
const float *ll_sublayer_back(const ll_batch_run *run, int j, ll_rows rows, float *d);
/* After it: where the gradient at a_j is to go, and whether it is added to what is there; then, from there on to d. */
float *ll_sublayer_gradient(const ll_batch_run *run, float *d, int *add);
void ll_sublayer_through(const ll_batch_run *run, int j, ll_rows rows, const float *da, float *d);
/* Parameter or gradient `which` of a layer; NULL: it has none. */
const float *ll_weight(const ll_batch_run *run, int layer, int which);
float *ll_weight_gradient(const ll_batch_run *run, int layer, int which);
LL_MUST_USE ll_status ll_block_forward(const ll_batch_run *run, int layer);
LL_MUST_USE ll_status ll_block_backward(const ll_batch_run *run, int layer);
/* Rows number `first` of all that are to come, at most LL_CHUNK: for (r = {0}; ll_next_chunk(&r, total);) */
int ll_next_chunk(ll_rows *rows, size_t total);

/* ---- attend.c: attention sublayers ---- */

LL_MUST_USE ll_status ll_attend(const ll_batch_run *run, int layer, int cross);
LL_MUST_USE ll_status ll_attend_back(const ll_batch_run *run, int layer, int cross);
/* A stream's cross attention: what a layer reads, of a source run whose `top` is there. */
LL_MUST_USE ll_status ll_attend_remember(const ll_batch_run *source, const ll_stack *stack, int layer, float *buffer,
                                         ll_cross_cache *memory);

/* ---- output_head.c ---- */

/* Numbers in a row of logits: V or classes. */
int ll_head_width(const ll_model *model);
/* What leaves the stack, of some rows, (n, C): logits are computed from it. */
const float *ll_head_input(const ll_batch_run *run, ll_rows rows);
/* After ll_head_input of the same rows: their ws->d, from the gradient of what it gave. */
void ll_head_input_back(const ll_batch_run *run, ll_rows rows, const float *dx);
/* Logits (n, V or classes) of n such rows. */
void ll_head_logits(const ll_batch_run *run, int n, const float *x, float *logits);
/* Means over sequences, or their first rows, as sums in ws->pool; then rows of them as such input. */
void ll_head_pool(const ll_batch_run *run);
const float *ll_head_pooled(const ll_batch_run *run, ll_rows sequences);
/* Losses into tally; with run->grad the head's gradients, and ws->d. */
void ll_head_loss(const ll_batch_run *run, const int *targets, float scale, ll_tally *tally);

/* ---- infer.c ---- */

/* The log-probability of every token of a batch but the first of each row, which is left alone, as what is past the
 * lengths is; logp (B, T), after ll_network_forward. */
void ll_score_rows(const ll_batch_run *run, const int *tokens, float *logp);

/* ---- workspace.c ---- */

/* For one stack alone; a decoder's with its encoder's, for sources of S tokens. */
LL_MUST_USE ll_status ll_workspace_make(ll_workspace **ws, const ll_model *model, const ll_stack *stack, int B, int T,
                                        int S, int mode);

/* ---- network.c ---- */

/* A batch (its CLS tokens added to T and lengths) that fits ws. */
ll_batch_run ll_network_begin(const ll_model *model, ll_workspace *ws, const ll_batch *batch);
/* LL_EINVAL for a batch with a token that does not exist, or a length out of bounds. */
LL_MUST_USE ll_status ll_check_tokens(const ll_model *model, const int *tokens, const int *lengths, int B, int T);
/* LL_EDIVERGED where one of the numbers x (B, T, width) that a model gave is not finite. */
LL_MUST_USE ll_status ll_check_output(const float *x, int B, int T, int width);
/* Embedding and blocks, of an encoder first: everything below the head. */
LL_MUST_USE ll_status ll_network_forward(const ll_batch_run *run);
/* The embedding and the first blocks of the run's stack. */
LL_MUST_USE ll_status ll_stack_forward(const ll_batch_run *run, int blocks);
/* Tells whom ll_model_watch named how many of the blocks of this batch are done, of all stacks. */
LL_MUST_USE ll_status ll_network_report(const ll_batch_run *run, int64_t done, int64_t blocks);
/* Tells how far sublayer j is with the rows r, which are done: passes over all rows are parts first .. last of it. Only
 * where there are several chunks of rows; blocks suffice for short ones. */
LL_MUST_USE ll_status ll_sublayer_report(const ll_batch_run *run, int j, ll_rows r, double first, double last);
/* The encoder alone: a source run, up to its top. */
LL_MUST_USE ll_status ll_encoder_forward(const ll_batch_run *source);
/* log sum exp of n numbers, the sum in double. */
double ll_log_sum_exp(const ll_kernels *k, int n, const float *x);

#endif
