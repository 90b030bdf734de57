/* A model: one block of parameters described by one table, and the functions over it. */
#ifndef LL_MODEL_H
#define LL_MODEL_H

#include "data/batch.h"
#include "model/config/model_config.h"
#include "base/safetensors.h"

/* What a tensor is for: by this it is drawn, decays and is taken from another model. */
typedef enum {
    LL_ROLE_WEIGHT,      /* a matrix */
    LL_ROLE_RESIDUAL,    /* a matrix whose product is added to the residual stream */
    LL_ROLE_BIAS,        /* 0 at first */
    LL_ROLE_GAIN,        /* 1 at first */
    LL_ROLE_GATE_BIAS,   /* of the gates of all heads (token_gate.c) */
    LL_ROLE_TOKENS,      /* a row for each token */
    LL_ROLE_POSITIONS,   /* a row for each position */
    LL_ROLE_VECTOR,      /* vectors with a meaning of their own: the CLS token, token types */
    LL_ROLE_HEAD_WEIGHT, /* a column for each class or token */
    LL_ROLE_HEAD_BIAS,   /* a number for each of them */
    LL_ROLE_POSITION,    /* of a position inside attention, drawn by its own rule */
    LL_ROLE_KERNEL       /* a matrix of a kernel, drawn by its own rule */
} ll_role;

/* One tensor of the block: gradients and Adam's moments use the same offsets in blocks of the same size. */
enum { LL_PARAM_NAME = 64 };
typedef struct {
    char name[LL_PARAM_NAME];
    size_t offset;
    int rows, cols;
    float *value; /* of a model: in its block, or in the file it was loaded from; NULL: it is quantized */
    ll_role role;
} ll_param;
/* Does weight decay act on it? On matrices it does; on biases, gains, positions and single vectors it does not. */
int ll_param_decays(const ll_param *p);

/* A stack of blocks around one residual stream. Language models have a causal stack. Classifiers have one that sees
 * both directions. seq2seq has both: an encoder, and a decoder whose blocks also attend to the encoder's output. */
enum { LL_BLOCK_MOST = 32 };
typedef struct {
    const char *prefix; /* prefix of its tensors: "", "encoder.", "decoder." */
    int layers, causal;
    int parts; /* sublayers of a block: 2, or 3 with cross attention */
    int first; /* index of its first attention operator; those of cross attention follow its own */
    struct {   /* indices of tensors in the table; -1: it has none */
        int position, embedding_norm, blocks, norm;
    } at;
    int tensors;               /* tensors of a block, at most LL_BLOCK_MOST, ... */
    int tensor[LL_BLOCK_MOST]; /* ... and the index of each among them, by the enum of network.h; -1: it has none */
} ll_stack;

/* A file of the folder that a model was imported from. */
typedef struct {
    char *name;
    ll_bytes bytes;
} ll_origin;

struct ll_model {
    ll_recipe *recipe;        /* own copy */
    ll_model_config config;   /* what the recipe says of a model, ... */
    const ll_model_config *c; /* ... which is this */
    int count;                /* tensors */
    ll_param *param;
    size_t size;              /* floats in the block */
    double *sinusoid_rates;   /* (ceil(width / 2)) angles a token of sinusoidal positions, or NULL */
    float *data;              /* 64-byte aligned; NULL if the tensors are in `file` */
    int checked;              /* number of tensors in its file with a correct checksum */
    ll_safetensors *file;     /* mapped, or NULL; changes to it stay in memory */
    int stacks;               /* the last one has the output layer */
    ll_stack stack[2];
    int operators;
    int *operator_tensor; /* (operators, LL_OPERATOR_TENSORS) indices of their parameters; -1: it has none */
    ll_attention **attention; /* (operators) one for each layer; seq2seq: encoder, decoder, cross attention */
    ll_bytes vocabulary;      /* the vocabulary, as the data room defines it; may be empty */
    int origins;
    ll_origin *origin;              /* of an imported model: files of the folder that it came from */
    struct ll_quantized *quantized; /* quantized matrices, whose param.value is NULL; or NULL */
    int64_t redraws;                /* how often the random projections were drawn anew */
    int queries, values;            /* widths H D and H E of all heads together */
    int projections;                /* how many of queries and keys are projected: 2, 1 or 0 */
    int gated;                      /* has the kernel a gate for each token and head */
    int keys;             /* width of the keys: as queries; relative-s2: half, because half of the heads have keys */
    int training;         /* a run is updating its parameters */
    ll_done_fn *progress; /* ll_model_watch, or NULL */
    void *progress_arg;
    int key_heads;  /* heads of projected keys and values: heads, or model.kv-heads */
    int cls_tokens; /* CLS tokens before the caller's tokens: 1 with pool = first, else 0 */
    struct {        /* indices of tensors in the table; -1: the model has none */
        int embedding, patch, first, match, head, head_bias, transform, types;
        int operators; /* the first parameter of an operator: of its position or kernel */
    } at;
};

/* A model with the names and shapes of its tensors, and nothing else. */
LL_MUST_USE ll_status ll_model_plan(ll_model **model, const ll_recipe *recipe);
/* A model without parameters of its own: to be measured, not run. Its tensors all lie in one place. */
LL_MUST_USE ll_status ll_model_sketch(ll_model **model, const ll_recipe *recipe);
/* As ll_model_create, but starts with the weights of another model: tensors of the same name and shape; of tables with
 * a row for each token or position, the rows that both have; and the random draws that these were learned with.
 * *summary says how many were copied and what is new; free it with ll_free. LL_EINVAL if widths or heads differ. */
LL_MUST_USE ll_status ll_model_create_from(ll_model **model, const ll_recipe *recipe, const ll_model *from,
                                           char **summary);

/* As ll_model_logp, for a seq2seq model: rows of `tokens` follow the sources (B, S). */
LL_MUST_USE ll_status ll_model_logp_from(ll_model *model, float *logp, const int *source,
                                                const int *source_lengths, int S, const int *tokens,
                                                const int *lengths, int B, int T);

/* LL_EINVAL if its weights are quantized: they have no gradients. */
LL_MUST_USE ll_status ll_model_trainable(const ll_model *m);

/* Sets m->config from m->recipe after a change. LL_EINVAL if the recipe is not consistent. */
LL_MUST_USE ll_status ll_model_read_recipe(ll_model *m);

/* Draws the projections of all layers for `redraws`; a draw is a function of (seed, layer, redraws). */
LL_MUST_USE ll_status ll_model_redraw(ll_model *model, int64_t redraws);
/* The same with a block of so many floats: it cannot fail for memory. The block then has the projections of before. */
size_t ll_model_redraw_floats(const ll_model *model);
LL_MUST_USE ll_status ll_model_redraw_in(ll_model *model, int64_t redraws, float *block);
/* Exchanges the projections of all operators and those of such a block, which are of `redraws`. */
void ll_model_swap_projections(ll_model *model, int64_t redraws, float *block);

/* Makes the noise of stochastic positions that of evaluation, after passes with gradients have drawn their own. Streams
 * in several threads then only read it. */
void ll_model_fix_noise(const ll_model *model);

/* A name for what the model computes: of its parameters, draws and keys (stream_file.c). O(parameters). */
LL_MUST_USE ll_status ll_model_digest(const ll_model *model, char hex[LL_DIGEST_TEXT]);

/* Stores a copy of a vocabulary, which goes into the model file. */
LL_MUST_USE ll_status ll_model_keep(ll_model *model, const ll_bytes *vocabulary);

/* Stores a copy of a file of the folder that a model came from; finds the one of this name, or NULL. These files go
 * into the model file, and into models that start with this one. */
LL_MUST_USE ll_status ll_model_keep_origin(ll_model *model, const char *name, const void *data, size_t size);
const ll_bytes *ll_model_origin(const ll_model *model, const char *name);

/* Writes or reads the parameters and draws of a model to or from an open safetensors file. Checkpoints contain more
 * than that. Reading names the tensor that is missing or has another shape. ll_model_read copies into one block.
 * ll_model_map leaves the parameters in the file where it can, and the file belongs to the model then; else it is
 * freed. */
LL_MUST_USE ll_status ll_model_write(const ll_model *model, ll_st_writer *writer);
LL_MUST_USE ll_status ll_model_read(ll_model **model, const ll_safetensors *file);
LL_MUST_USE ll_status ll_model_map(ll_model **model, ll_safetensors *file);
/* LL_EDIVERGED where a parameter is infinite or not a number, so that the model cannot be `what` ("saved"). */
LL_MUST_USE ll_status ll_model_finite(const ll_model *model, const char *what);
/* LL_EFORMAT where one of a model that was read from this file is. The pages of a mapped file are then loaded, too, and
 * not at the first token. */
LL_MUST_USE ll_status ll_model_check_file(const ll_model *model, const char *path);
/* Parameters and draws of a model that can be trained become those of a file of the same model. */
LL_MUST_USE ll_status ll_model_restore(ll_model *model, const ll_safetensors *file);

/* Activations and scratch for batches of up to (B, T); seq2seq: with sources of up to (B, T). */
typedef struct ll_workspace ll_workspace;
LL_MUST_USE ll_status ll_workspace_create(ll_workspace **ws, const ll_model *model, int B, int T, int training);
/* LL_EINVAL if a sequence of T numbers is longer than learned positions or linformer allow. */
LL_MUST_USE ll_status ll_check_reach(const ll_model *model, int T);
/* LL_EINVAL for a batch with a token or a length out of range, or with more tokens in a sequence than an image has. */
LL_MUST_USE ll_status ll_check_tokens(const ll_model *model, const int *tokens, const int *lengths, int B, int T);
/* The same, and the reach of the longest sequence, or with model.separator document. */
LL_MUST_USE ll_status ll_check_sequences(const ll_model *model, const int *tokens, const int *lengths, int B, int T);
/* The next batch is number `part` of `parts`, for ll_model_watch; parts 0: nothing is told of it. */
void ll_workspace_part(ll_workspace *ws, int64_t part, int64_t parts);
/* In the following backward passes, calls `ready` each time that gradients from .. to - 1 of the block are complete,
 * block of layers by block of layers; the others are complete at the end. NULL: no calls. */
typedef void ll_ready_fn(void *arg, size_t from, size_t to);
void ll_workspace_on_gradient(ll_workspace *ws, ll_ready_fn *ready, void *arg);
/* The bytes that ll_workspace_create would take, and sharing the sequences of a training step with so many parts.
 * Nothing is made. */
LL_MUST_USE ll_status ll_workspace_measure(size_t *bytes, const ll_model *model, int B, int T, int training, int parts);
/* Gives its memory back until the next batch. */
void ll_workspace_rest(ll_workspace *ws);
/* The bytes of a workspace that reads whole sequences without gradients. */
LL_MUST_USE ll_status ll_workspace_measure_reading(size_t *bytes, const ll_model *model, int B, int T);
void ll_workspace_free(ll_workspace *ws);
size_t ll_workspace_bytes(const ll_workspace *ws);

/* The result of a batch. */
typedef struct {
    double loss; /* sum over counted targets, nats */
    int64_t count, correct;
    int64_t sequences, exact; /* seq2seq: with a target, and with none wrong */
    float *each;              /* NULL, or as many as targets: the loss of each counted target */
    double *classes;          /* NULL; or of each class its examples, and how many of them are answered right */
} ll_tally;

/* Runs one batch through the network and adds to tally. In training (grad not NULL) it adds scale * d(sum of
 * losses)/d(parameters) to grad (model->size floats); dropout masks are functions of (train.seed, draw). In evaluation
 * (grad NULL) there is no dropout. LL_ENOMEM (attention scratch); LL_ESTOPPED if ll_model_watch's function says so;
 * LL_EDIST if ranks share its sequences and one is lost. */
LL_MUST_USE ll_status ll_model_run(const ll_model *model, ll_workspace *ws, const ll_batch *batch, float *grad,
                                   float scale, int64_t draw, ll_tally *tally);

#endif
