/* What the files of this room share: the parameters, the workspace, and the parts of a network, each with forward and
 * backward.
 *
 * A network is one stack of blocks or two (encoder, decoder). A stack is a chain of sublayers around one residual
 * stream: attention, feed-forward, attention, ...; in a decoder that reads an encoder: attention, cross attention,
 * feed-forward, attention, ... Sublayer j of J has the norm N_j and the function F_j:
 *
 *   pre-norm    a_j = N_j(r_j)                                    r_(j+1) = r_j + F_j(a_j)
 *   post-norm   a_0 = r_0, a_j = N_(j-1)(r_j) for j > 0           r_(j+1) = a_j + F_j(a_j)
 *   parallel    as pre-norm, but a_j of feed-forward is N_j(r_(j-1)), the norm of the block's input
 *
 * The output of the last block is r_J (pre), which a final norm may follow, or N_(J-1)(r_J) (post). An encoder
 * stores it, and every cross attention computes its keys and values from it. Training stores r_j, projections and
 * pre-activations. Backward computes inputs a_j, statistics of norms, activations and dropout masks again, in chunks
 * of rows, so that scratch does not grow with the length. With train.recompute training stores only the input of
 * each block, r_j of its first sublayer; backward computes its attention again as a whole, and feed-forward chunk by
 * chunk. Rows are tokens, (sequence, position) in that order. Rows past a sequence's length are zero at the bottom
 * of the network, count nowhere, and get zero gradients; where there are many, they are left out (ll_next_rows). */
#ifndef LL_NETWORK_H
#define LL_NETWORK_H

#include "attention/cross_cache.h"
#include "attention/parameter.h"
#include "kernel/kernel.h"
#include "model/model_internal.h"
#include "model/quantize.h"
#include "model/sequence/carry.h"

/* Tensors of a block, in table order. A block has those that its recipe needs. */
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
    LL_GATE_WEIGHT, /* for kernels with a gate */
    LL_GATE_BIAS,
    LL_FEED_NORM,
    LL_FEED_GATE_WEIGHT, /* for swiglu */
    LL_FEED_GATE_BIAS,
    LL_IN_WEIGHT,
    LL_IN_BIAS,
    LL_OUT_WEIGHT,
    LL_OUT_BIAS,
    LL_CROSS_NORM, /* for a decoder that reads an encoder */
    LL_CROSS_QUERY_WEIGHT,
    LL_CROSS_KEY_WEIGHT,
    LL_CROSS_VALUE_WEIGHT,
    LL_CROSS_OUTPUT_WEIGHT,
    LL_BLOCK_TENSORS
};

enum {
    LL_CHUNK = 1024, /* rows that go through a layer at a time */
    LL_PIECE = 64    /* rows of one parallel task */
};

/* Rows first .. first+n-1 of all rows. */
typedef struct {
    size_t first;
    int n;
} ll_rows;

enum { LL_EVALUATE, LL_TRAIN, LL_STREAM };

/* Memory of the match layer for half a chunk of pairs: x, dx (pairs, 4C), u, h, dh (pairs, ff). */
typedef struct {
    float *x, *u, *h, *dx, *dh;
} ll_match;

struct ll_workspace {
    const ll_model *model;
    const ll_stack *stack;
    ll_workspace *source;     /* workspace of the encoder that this stack reads, or NULL */
    int mode;                 /* one of the above */
    int keeps;                /* training stores every layer; 0: only the input of each block */
    struct ll_shared *shared; /* if other processes have the rest of the sequences: how; or NULL */
    ll_ready_fn *ready;       /* ll_workspace_on_gradient */
    void *ready_arg;
    int64_t part, parts; /* the current batch is number part of parts */
    int64_t span;        /* ... or, with chunks, so many of them: 1 or 4 */
    int below, blocks;   /* blocks of the batch before those of this stack, and all of them */
    int B, T;            /* the most; T with CLS tokens */
    size_t bytes;
    float *block, **layers;
    /* Stored by forward for backward. Evaluation has one of each and overwrites it, as does training that
     * computes blocks again. */
    float **residual; /* (sublayers + 1) of (rows, C) */
    float **project;  /* (layers) of (rows, ll_row_width): q, k, v side by side */
    float **gate;     /* (layers) of (rows, H): log r, or NULL */
    float **mixed;    /* (layers) of (rows, H E): output of attention */
    float **hidden;   /* (layers) of (rows, ff): pre-activations; if not stored: (chunk, ff) */
    float **gates;    /* as hidden: for swiglu, the pre-activations of the gate */
    float **saved;    /* (layers) of ll_attention_saved; evaluation: NULL */
    /* Cross attention: queries (rows, H D); keys and values (source rows, H D + H E); the others as above. */
    float **cross_query, **cross_source, **cross_mixed, **cross_saved;
    float *top;   /* (rows, C) the output of an encoder, else NULL */
    float *sinus; /* (T, C) sinusoidal positions, or NULL */
    /* For backward. */
    float *d;         /* (rows, C) gradient of the residual stream, or of a_j (post-norm) */
    float *dparallel; /* (rows, C) norm = parallel: the part that feed-forward adds besides attention */
    float *dproject;  /* (rows, ll_row_width) */
    float *dgate;     /* (rows, H), or NULL */
    float *dmixed;    /* (rows, H E) */
    float *dsource;   /* (source rows, H D + H E) */
    /* Scratch for one chunk. */
    float *input, *output, *gradient; /* (chunk, C) */
    float *wide, *dwide;              /* (chunk, ff) */
    float *grouped;                   /* (chunk, keys or values of the projected heads), with kv-heads */
    float *transform[4];              /* (chunk, C) of head_transform.c: u, act(u), its norm, their gradients */
    float *token_scale;               /* (B) model.mask-token: factors of token vectors */
    float *pixels;                    /* (chunk, numbers of a patch) with model.patch */
    int *type;                        /* (rows) types of tokens, or NULL: all have the first type */
    float *heads;                     /* (chunk, H E) normalised output of attention, or NULL */
    float *statistics;                /* (2, chunk) means and reciprocal deviations */
    float *partial;                   /* (chunk / LL_PIECE, 2, C) gain and bias gradients */
    float *packed;                    /* scratch of products */
    float *scratch;                   /* for attention, for the threads at creation; NULL: streams */
    size_t scratch_floats;
    float *logits; /* (logit_rows, V or classes) */
    int logit_rows;
    float *loss;          /* (2, chunk) losses, and 1 if the most likely answer is right */
    double *pool, *dpool; /* (B, C) classifiers: sums over tokens */
    ll_match match;
    int *lengths;                 /* (B), CLS tokens included */
    int *position;                /* (rows) position of each token in its document, or NULL: each row is a document */
    ll_segment *segment;          /* (rows) number of the document */
    ll_carry *carry;              /* states of the tokens before, or NULL */
    struct ll_chunks *chunks;     /* batches go through it in chunks; or NULL */
    int *wrong;                   /* (B) seq2seq: number of wrong targets */
};

/* Tokens of each sequence whose output is read. */
enum { LL_READS_ALL, LL_READS_FIRST, LL_READS_LAST, LL_READS_NONE };

/* The run of one batch. */
typedef struct {
    const ll_model *model;
    const ll_model_config *c;
    ll_workspace *ws;
    const ll_kernels *k;
    const ll_stack *stack;
    const int *tokens;
    int B, T;           /* T with CLS tokens */
    size_t rows;        /* B T */
    const int *lengths; /* (B), with CLS tokens */
    int segments;       /* ws->segment contains documents, which model.separator begins */
    const int *source;  /* tokens (B, S) of the encoder, which runs first; or NULL */
    int S;
    int64_t position; /* position of the first token */
    const struct ll_stream_set *streams; /* the streams of the rows (stream_rows.h), or NULL */
    float *grad;      /* NULL: only forward */
    int64_t draw;     /* number of the dropout masks; used if grad is not NULL */
    int again;        /* a block is computed a second time */
    int reads;        /* what will be read of the output, one of the above; the last block computes no more */
    int first;        /* number of the first sequence in the whole batch */
    float *attended; /* distillation: what the last attention sublayer gave (rows, C), its gradient; or NULL */
    const struct ll_soft *soft; /* soft_loss.h; or NULL */
} ll_batch_run;

/* ---- stack.c ---- */

/* The stacks of the recipe's task. */
void ll_stacks_plan(ll_model *model);
/* The stack that has the output layer. */
const ll_stack *ll_top_stack(const ll_model *model);
/* The stack and layer of attention operator number `op`. */
typedef struct {
    const ll_stack *stack;
    int layer, cross;
} ll_operator_location;
ll_operator_location ll_operator_at(const ll_model *model, int op);
/* The operator of a layer of a stack: its own, or that of cross attention. */
int ll_operator_of(const ll_stack *stack, int layer, int cross);
/* "decoder.blocks.3." and the like, for tensors of an operator; "attention." or "cross." follows. */
enum { LL_PREFIX = 40 };
void ll_operator_prefix(const ll_model *model, int op, char prefix[LL_PREFIX]);
/* The encoder's run that belongs to this run of the decoder. */
ll_batch_run ll_source_run(const ll_batch_run *run);

/* ---- params.c ---- */

/* Fills the table, at, cls_tokens, widths and size. LL_EINVAL names the key that is wrong. */
LL_MUST_USE ll_status ll_params_plan(ll_model *model);
/* Allocates one block for all tensors, filled with zeros. */
LL_MUST_USE ll_status ll_params_allocate(ll_model *model);
/* Draws all parameters from train.seed into the block. */
void ll_params_init(ll_model *model);
/* adopt.c: then copies those that another model has, and says how many (`summary`, to be freed with ll_free). LL_EINVAL
 * if widths or heads differ. */
LL_MUST_USE ll_status ll_params_adopt(ll_model *model, const ll_model *from, char **summary);

/* ---- param_at.c ---- */

/* Appends a tensor to the table, and returns its index. */
int ll_param_add(ll_model *model, const char *name, int rows, int cols, ll_role role);
/* The stream of random numbers of a tensor. */
uint64_t ll_param_stream(const char *name);
/* Tensor number i in a block of gradients; among the parameters. */
float *ll_param_in(const ll_model *model, float *block, int i);
const float *ll_param_at(const ll_model *model, int i);
/* The index of a tensor of a layer; -1: the blocks of its stack have none. */
int ll_block_tensor(const ll_stack *stack, int layer, int which);
/* Width of what a stack's own attention projects: queries and keys, if the kernel has them, and values. */
size_t ll_row_width(const ll_model *model);

/* ---- operator_params.c: parameters of positions inside attention, and of kernels ---- */

enum { LL_OPERATOR_TENSORS = 2 * LL_PARAMETERS };
typedef struct {
    int n, positions; /* how many; the first ones are those of the position */
    ll_parameter p[LL_OPERATOR_TENSORS];
} ll_operator_parameters;
/* What an operator of this model may have. */
ll_operator_parameters ll_operator_params_list(const ll_model *model);
/* Adds those of all operators to the table; draws their first values. */
void ll_operator_params_add(ll_model *model);
void ll_operator_params_init(const ll_model *model);
/* What an operator reads, and the gradients to which backward adds. */
void ll_operator_params_config(const ll_model *model, int op, ll_attention_config *a);
void ll_operator_params_gradients(const ll_model *model, int op, float *grad, ll_attention_call *call);
/* The noise of this pass: new in training, fixed elsewhere. */
void ll_operator_noise(const ll_batch_run *run, int op);

/* ---- token_gate.c ---- */

/* u (n) becomes log r; d (n), the gradient at log r, becomes the gradient at u. */
void ll_gate_forward(size_t n, float *u);
void ll_gate_back(size_t n, const float *gate, float *d);
/* A run's gates (rows, H) in the form of a call; NULL: no gate. */
ll_view ll_gate_view(const ll_batch_run *run, float *gate);
/* Initial values of the bias of H heads. */
void ll_gate_init(int H, float *x);

/* ---- head_norm.c ---- */

/* Forward: n rows (H E) of attention's output, each head normalised if the recipe asks for it: x itself, or in
 * ws->heads. Backward: d, the gradient at that, becomes the gradient at x. */
const float *ll_head_norm(const ll_batch_run *run, int n, const float *x);
void ll_head_norm_back(const ll_batch_run *run, int n, const float *x, float *d);

/* ---- operators.c ---- */

/* Creates model->attention. Draws come from `file`; if it is NULL, from the operators of `from` that have the same name
 * and kind; else they are drawn. */
LL_MUST_USE ll_status ll_operators_create(ll_model *model, const ll_safetensors *file, const ll_model *from);
void ll_operators_free(ll_model *model);
LL_MUST_USE ll_status ll_operators_write(const ll_model *model, ll_st_writer *writer);

/* ---- origin.c ---- */

LL_MUST_USE ll_status ll_origin_copy(ll_model *model, const ll_model *from);
LL_MUST_USE ll_status ll_origin_write(const ll_model *model, ll_st_writer *writer);
LL_MUST_USE ll_status ll_origin_read(ll_model *model, const ll_safetensors *file);
void ll_origin_free(ll_model *model);

/* ---- layers.c: what acts on rows; out never aliases in ---- */

/* ll_gemm; on the way to gradients ll_gemm_bf16 with train.precision = bf16. */
void ll_product(const ll_batch_run *run, int ta, int tb, int M, int N, int K, const float *A, size_t lda,
                const float *B, size_t ldb, float *C, size_t ldc, int add, const float *bias);
/* out (n, N) = in (n, K) W + bias; bias may be NULL. */
void ll_linear(const ll_batch_run *run, int n, int K, int N, const float *in, size_t ldi, ll_matrix W,
               const float *bias, float *out, size_t ldo);
/* dW (K, N) += in^T dout. */
void ll_linear_weight_back(const ll_batch_run *run, int n, int K, int N, const float *in, size_t ldi, const float *dout,
                           size_t ldo, float *dW);
/* din (n, K) = or += dout W^T. */
void ll_linear_input_back(const ll_batch_run *run, int n, int K, int N, const float *dout, size_t ldo, const float *W,
                          float *din, size_t ldi, int add);
/* db (N) += column sums of dout (n, N). */
void ll_bias_back(int n, int N, const float *dout, float *db);
/* The same for rows ldo apart. */
void ll_bias_back_rows(int n, int N, const float *dout, size_t ldo, float *db);
/* Norm whose gain is tensor `gain`; for LayerNorm a bias follows. The statistics stay in the workspace for ... */
void ll_norm(const ll_batch_run *run, int n, int gain, const float *x, float *y);
/* ... the backward pass: dx +=, and the gradients of gain and bias, after ll_norm of the same rows. */
void ll_norm_back(const ll_batch_run *run, int n, int gain, const float *x, const float *dy, float *dx);
/* y = f(x), or with a gate f(gate) x. gate NULL: none. */
void ll_activate(const ll_batch_run *run, int n, int width, const float *x, const float *gate, float *y);
/* dx from dy. With a gate, dy becomes the gradient of the gate. Without one, dx may be dy, and y gets what ll_activate
 * gives unless it is NULL. */
void ll_activate_back(const ll_batch_run *run, int n, int width, const float *x, const float *gate, float *dy,
                      float *dx, float *y);
enum { LL_SITE_EMBEDDING, LL_SITE_ATTENTION, LL_SITE_FEED, LL_SITE_CROSS };
/* y = or += x / keep where the mask of (train.seed, draw, stack's layer, site, row, column) is set, else 0. The same
 * call serves forward and backward. Without gradients nothing is dropped. y == x is allowed if !add. */
void ll_dropout(const ll_batch_run *run, ll_rows rows, int layer, int site, const float *x, float *y, int add);
/* Copies n rows of width C. */
void ll_copy_rows(const ll_batch_run *run, int n, const float *x, float *y);

/* ---- embed.c ---- */

/* The angles a token of a model with sinusoidal positions, if it does not have them yet. */
LL_MUST_USE ll_status ll_sinus_create(ll_model *model);
/* (count, C) position vectors for positions first, first + 1, ... */
void ll_sinus(const ll_model *model, float *out, int count, int64_t first);
/* Rows of a sequence of T numbers, its CLS token included. */
int ll_model_rows(const ll_model *model, int T);
void ll_embed(const ll_batch_run *run);
/* From ws->d to the gradients of embedding, positions and their norm; ws->d is overwritten. */
void ll_embed_back(const ll_batch_run *run);

/* ---- block.c ---- */

/* Sublayers of a stack, and the indices of a layer's attention, cross attention (parts = 3) and feed-forward. */
int ll_sublayers(const ll_stack *stack);
/* The next rows, at most LL_CHUNK, of those with tokens: for (ll_rows r = {0}; ll_next_rows(run, &r);). Padding is
 * among them only where little of it lies between tokens. */
int ll_next_rows(const ll_batch_run *run, ll_rows *rows);
/* The same of the rows that are read of what a block makes: in the last block those that run->reads names, one by
 * one. */
int ll_next_read(const ll_batch_run *run, int layer, ll_rows *rows);
/* Is it the last block of a run that reads the first tokens? Then attention needs no other queries. */
int ll_reads_first(const ll_batch_run *run, int layer);
/* a_j of some rows: in place, or computed into `out`. */
const float *ll_sublayer_input(const ll_batch_run *run, int j, ll_rows rows, float *out);
int ll_pre_norm(const ll_batch_run *run);
/* r_j of some rows. */
float *ll_residual(const ll_batch_run *run, int j, ll_rows rows);
/* r_(j+1) = r_j or a_j (computed into ws->input) + dropout(F). */
void ll_sublayer_add(const ll_batch_run *run, int j, ll_rows rows, const float *F);
/* From d, the gradient at the output of sublayer j, to the gradient at F_j (d itself, or in ws->gradient). d becomes
 * the gradient at the sum's other term. */
const float *ll_sublayer_back(const ll_batch_run *run, int j, ll_rows rows, float *d);
/* After it: the memory for the gradient at a_j, and whether to add to it; then from that gradient to d. */
float *ll_sublayer_gradient(const ll_batch_run *run, float *d, int *add);
void ll_sublayer_through(const ll_batch_run *run, int j, ll_rows rows, const float *da, float *d);
/* Parameter or gradient `which` of a layer; NULL: there is none. */
const float *ll_weight(const ll_batch_run *run, int layer, int which);
/* The same in the form that products read. */
ll_matrix ll_weight_matrix(const ll_batch_run *run, int layer, int which);
float *ll_weight_gradient(const ll_batch_run *run, int layer, int which);
LL_MUST_USE ll_status ll_feed_forward(const ll_batch_run *run, int layer);
LL_MUST_USE ll_status ll_block_forward(const ll_batch_run *run, int layer);
/* What backward needs of a block, from what entered it: the same bits as forward left. */
LL_MUST_USE ll_status ll_block_again(const ll_batch_run *run, int layer);
LL_MUST_USE ll_status ll_block_backward(const ll_batch_run *run, int layer);
/* The next ones, at most LL_CHUNK, of `total` rows. */
int ll_next_chunk(ll_rows *rows, size_t total);

/* ---- attention_layer.c ---- */

LL_MUST_USE ll_status ll_attend(const ll_batch_run *run, int layer, int cross);
LL_MUST_USE ll_status ll_attend_back(const ll_batch_run *run, int layer, int cross);
/* Fills the cross-attention cache of a layer from a source run whose `top` is computed. */
LL_MUST_USE ll_status ll_attend_remember(const ll_batch_run *source, const ll_stack *stack, int layer, float *buffer,
                                         ll_cross_cache *cache);

/* ---- infer.c ---- */

/* After ll_network_forward: the log-probability of every token except the first of each row; logp (B, T). The first and
 * those past the lengths are not written. */
void ll_score_rows(const ll_batch_run *run, const int *tokens, float *logp);

/* ---- workspace.c ---- */

/* For one stack; for a decoder with its encoder, for sources of S tokens. The caller checks their reach. */
LL_MUST_USE ll_status ll_workspace_make(ll_workspace **ws, const ll_model *model, const ll_stack *stack, int B, int T,
                                        int S, int mode);

/* ---- network.c ---- */

/* A batch, with CLS tokens added to T and lengths, that fits ws. */
ll_batch_run ll_network_begin(const ll_model *model, ll_workspace *ws, const ll_batch *batch);
/* Of a run whose output will be pooled: reads the first tokens alone if these are what is pooled, and the last
 * attention computes each query by itself. */
void ll_network_pooled(ll_batch_run *run);
/* LL_EDIVERGED if one of the numbers x (B, T, width), which a model computed, is not finite. */
LL_MUST_USE ll_status ll_check_output(const float *x, int B, int T, int width);
/* Embedding and blocks, of an encoder first: everything below the output layer. */
LL_MUST_USE ll_status ll_network_forward(const ll_batch_run *run);
/* After the loss: gradients of all parameters, added to run->grad. */
LL_MUST_USE ll_status ll_network_backward(const ll_batch_run *run);
/* The embedding and the first blocks of the run's stack. */
LL_MUST_USE ll_status ll_stack_forward(const ll_batch_run *run, int blocks);
/* Reports to the function of ll_model_watch how many blocks of this batch are done, of all stacks. Where gradients
 * follow, forward passes are a third of the work. */
LL_MUST_USE ll_status ll_network_report(const ll_batch_run *run, int64_t done, int64_t blocks);
/* The same in a backward pass: `left` blocks are left. */
LL_MUST_USE ll_status ll_network_report_back(const ll_batch_run *run, int64_t left);
/* Reports how far sublayer j is after rows r. Passes over all rows are parts first .. last of the sublayer. Only with
 * several chunks of rows; for short inputs, blocks suffice. */
LL_MUST_USE ll_status ll_sublayer_report(const ll_batch_run *run, int j, ll_rows r, double first, double last);
/* The encoder alone: a run of the source, up to its output. */
LL_MUST_USE ll_status ll_encoder_forward(const ll_batch_run *source);
/* log sum exp of n numbers, the sum in double. */
double ll_log_sum_exp(const ll_kernels *k, int n, const float *x);

#endif
