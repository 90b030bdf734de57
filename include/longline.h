/* longline: Transformers on very long sequences, in C.
 *
 * Attention here costs time and memory linear in the length, knows relative positions, and generates
 * with a state of constant size. This header is the whole public interface, and its manual: read it
 * from top to bottom once.
 *
 *     ll_recipe *recipe;  ll_trainer *trainer;
 *     if (ll_recipe_load(&recipe, "recipes/text-bytes.ini") ||
 *         ll_recipe_set(recipe, "data.train=my.txt") ||
 *         ll_trainer_create(&trainer, recipe, "runs/mine", NULL) ||
 *         ll_trainer_run(trainer, NULL, NULL))
 *         fprintf(stderr, "%s\n", ll_error());
 *
 * Conventions. Functions that can fail return ll_status and give results through their first
 * arguments, which are set only on success. The text of the last error of the calling thread is
 * ll_error(). Arguments are borrowed for the call unless "keeps" is written. Objects come from
 * ll_x_create or ll_x_load and go with ll_x_free, which accepts NULL. The library never prints, never
 * exits, and never aborts on input. One object may be used by one thread at a time; different
 * objects by different threads.
 *
 * Letters: B sequences in a batch, T tokens in a sequence, C width, H heads, D query/key size of a
 * head, E value size of a head, M features of a head, V vocabulary. All tensors are row-major float
 * unless another type is named. */
#ifndef LONGLINE_H
#define LONGLINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LL_API __attribute__((visibility("default")))
#define LL_MUST_USE __attribute__((warn_unused_result))
#else
#define LL_API
#define LL_MUST_USE
#endif

#define LL_VERSION_MAJOR 0
#define LL_VERSION_MINOR 1
#define LL_VERSION_PATCH 0

/* "0.1.0", of the library that runs (not of the header compiled against). */
LL_API const char *ll_version(void);

/* ---- Status ------------------------------------------------------------------------------------ */

typedef enum {
    LL_OK = 0,
    LL_EINVAL,  /* an argument, option or recipe key that cannot be */
    LL_ENOMEM,  /* memory refused */
    LL_EIO,     /* a file that cannot be read or written */
    LL_EFORMAT, /* a file whose content is wrong */
    LL_ESTOPPED, /* stopped on request, everything saved */
    LL_EDIVERGED /* a loss or gradient became infinite or NaN */
} ll_status;

/* One sentence on the last failure in this thread: where, what was found, what to do. Never NULL. */
LL_API const char *ll_error(void);

/* ---- Machine ----------------------------------------------------------------------------------- */

/* Threads that every later call may use; 0 = physical cores (the default). Results do not depend on
 * it, to the last bit. */
LL_API void ll_set_threads(int threads);
LL_API int ll_threads(void);

/* Instruction tier of the compute kernels: "scalar", "avx2", "avx512" or NULL for the best this
 * machine has (the default, or what the environment variable LL_CPU names). LL_EINVAL if the name is
 * unknown or the machine lacks it. Not while other calls run. */
LL_API LL_MUST_USE ll_status ll_set_cpu(const char *tier);
LL_API const char *ll_cpu(void);

/* Fused multiply-add rate in GFLOP/s of the tier in use on `threads` threads, measured for about
 * `seconds`: the yardstick for fractions of peak. */
LL_API double ll_measure_peak(int threads, double seconds);

/* Seconds on a clock that never goes back; bytes this process holds in memory now and at most. */
LL_API double ll_now(void);
LL_API size_t ll_memory_now(void);
LL_API size_t ll_memory_peak(void);

/* ---- Recipes ----------------------------------------------------------------------------------- */

/* A recipe is INI text with the sections [model] [attention] [position] [train] [data]; it describes
 * model, data and training completely. docs/format.md lists the keys; so does ll_recipe_key. */
typedef struct ll_recipe ll_recipe;

typedef struct {
    const char *name;    /* "position.type" */
    const char *type;    /* "integer", "number", "flag", "text" or "choice" */
    const char *fallback; /* default, as text */
    const char *choices; /* "none|permute|..." or NULL */
    const char *help;    /* one line: what, unit, range */
} ll_recipe_key;

LL_API LL_MUST_USE ll_status ll_recipe_create(ll_recipe **recipe); /* all keys at their defaults */
LL_API LL_MUST_USE ll_status ll_recipe_load(ll_recipe **recipe, const char *path);
LL_API LL_MUST_USE ll_status ll_recipe_parse(ll_recipe **recipe, const char *text, const char *name);
LL_API LL_MUST_USE ll_status ll_recipe_copy(ll_recipe **copy, const ll_recipe *recipe);
LL_API void ll_recipe_free(ll_recipe *recipe);

/* Sets "section.key=value". An unknown key is LL_EINVAL and the text names the nearest one. */
LL_API LL_MUST_USE ll_status ll_recipe_set(ll_recipe *recipe, const char *assignment);
/* Value of a key as text, valid until the key is set again; NULL for an unknown key. */
LL_API const char *ll_recipe_get(const ll_recipe *recipe, const char *key);
/* The whole recipe as INI text, resolved (every key). The caller frees it with ll_text_free. */
LL_API LL_MUST_USE ll_status ll_recipe_text(const ll_recipe *recipe, char **text);
/* Key number i, or NULL past the last. */
LL_API const ll_recipe_key *ll_recipe_key_at(int i);
LL_API void ll_text_free(char *text);

/* ---- Attention: the operator by itself --------------------------------------------------------- */

/* All heads of one layer. Linear kernels: y_i = sum_j A_ij v_j / sum_j A_ij with
 * A_ij = decay^(i-j) <P^i phi(q_i), P^j phi(k_j)>; softmax: A_ij = exp(scale <q_i, k_j>). */
typedef enum {
    LL_KERNEL_SOFTMAX,
    LL_KERNEL_FAVOR, /* random features of the softmax kernel: ll_feature_kind */
    /* phi = f(u) + feature_eps, u = W x, or x without a projection: */
    LL_KERNEL_RELU,
    LL_KERNEL_ELU1, /* u + 1 for u > 0, else e^u */
    LL_KERNEL_EXP, LL_KERNEL_SIGMOID, LL_KERNEL_ABS, LL_KERNEL_GELU,
    LL_KERNEL_COS, LL_KERNEL_TANH, LL_KERNEL_IDENTITY, LL_KERNEL_SQUARE
} ll_kernel;
/* Features of favor, u = W x and n = |x|^2 / 2, over sqrt(features): */
typedef enum {
    LL_FEATURES_POSITIVE,      /* exp(u - n), M of them */
    LL_FEATURES_HYPERBOLIC,    /* exp(u - n), then exp(-u - n): 2 M */
    LL_FEATURES_TRIGONOMETRIC, /* exp(n) cos u, then exp(n) sin u, over sqrt(M): 2 M; weights may be negative */
    LL_FEATURES_GAUSSIAN       /* the same without exp(n): estimates exp(-|x - y|^2 / 2) */
} ll_feature_kind;
typedef enum {
    LL_POSITION_NONE, LL_POSITION_PERMUTE, LL_POSITION_PERMUTE2D,
    LL_POSITION_ROPE,        /* q and k turned by angles that grow with the position; any kernel */
    LL_POSITION_ROPE_LINEAR, /* features turned in the weighted sum, plain in the divisor; linear kernels */
    LL_POSITION_SINE_SPE,    /* stochastic encodings: q and k become `realizations` wide */
    LL_POSITION_CONV_SPE,
    LL_POSITION_RELATIVE_S1  /* q and k grow by a learnt cosine of the distance: D + 2 scales (4 for images) */
} ll_position;

/* Over what the stabiliser c of softmax features exp(u - |x|^2/2 - c) + eps takes its maximum.
 * PREFIX is the default: causal, and can be streamed. With eps = 0 the choice changes nothing.
 * Queries take theirs over their own token (TOKEN or PREFIX), or none; keys never over a token. Trigonometric
 * features exp(n - c) take the maximum of n; their queries may take SEQUENCE too.
 * SEQUENCE and BATCH are the rules of released codes: they look at later tokens. */
typedef enum { LL_MAX_PREFIX, LL_MAX_TOKEN, LL_MAX_SEQUENCE, LL_MAX_BATCH, LL_MAX_NONE } ll_max;

/* What the weighted sum is divided by, s being the sum of the weights. */
typedef enum {
    LL_DEN_SUM,      /* s */
    LL_DEN_EPS,      /* s + den_eps */
    LL_DEN_EPS_PHI,  /* s + den_eps * sum of the query's features */
    LL_DEN_EPS_L,    /* s + den_eps * number of keys */
    LL_DEN_GUARD,    /* s, and s + 2 den_eps where |s| <= den_eps */
    LL_DEN_NONE      /* 1: not divided at all */
} ll_den;

/* What positions that act on q and k need. `theta` and noise are kept as copies; the other arrays are parameters
 * that may train: they stay the caller's, must outlive the operator, and are read at every call. */
typedef struct {
    const float *theta; /* rope: (D/2), rope-linear: (features/2) angles a token; NULL: 10000^(-2t/n) */
    int realizations;   /* spe: R */
    int sines;          /* sine-spe: K */
    int taps, taps2;    /* conv-spe: filter length; with taps2 > 0 filters are images (taps rows, taps2 columns) */
    const float *freqs, *offsets, *gains;  /* sine-spe: (H, D, K), before sigmoid(.)/2 and softplus */
    const float *filter_q, *filter_k;      /* conv-spe: (H, D, taps [, taps2]) */
    const float *gate;                     /* spe: (H, D), before sigmoid; NULL: not gated */
    const float *noise;      /* sine-spe: (H, D, 2K, R); conv-spe: (H, D, noise_rows [, noise_cols], R), of which
                              * token i takes i .. i + taps - 1. NULL: drawn */
    int noise_rows, noise_cols;
    const float *gate_noise; /* (H, D, R); NULL: drawn */
    uint64_t seed;           /* draws are functions of (seed, layer, head, position) */
    int layer;
    int scales, axes;                      /* relative-s1: angular frequencies, and 1 or 2 axes */
    const float *inv_freq, *alpha, *beta;  /* (scales), (H, axes scales), the same: rows before columns */
} ll_position_config;

/* Gradients of those parameters, added to; NULL: not wanted. */
typedef struct {
    float *freqs, *offsets, *gains, *filter_q, *filter_k, *gate, *inv_freq, *alpha, *beta;
} ll_position_gradients;

typedef struct {
    ll_kernel kernel;
    ll_feature_kind features; /* favor */
    ll_position position;
    ll_position_config where;
    int causal;          /* token i sees 0..i */
    int H, D, E;         /* heads, query/key size, value size */
    int M;               /* rows of `projection`; 0: no projection, features = D. Else features = M, or 2 M where
                          * `features` makes two of a row */
    float input_scale;   /* multiplies q and k before all else; softmax: multiplies the logits */
    float feature_eps;   /* added to every feature (inside the root of favor) */
    ll_max query_max, key_max;
    int max_of_u;        /* favor: maximum of u alone (released codes) instead of u - |x|^2/2 */
    int max_gradient;    /* favor: differentiate the maximum, as some released codes do */
    ll_den den;
    float den_eps;
    int width, height, before; /* images (permute2d, conv-spe and relative-s1 in two dimensions): size, and tokens
                                * in front of the first pixel; relative-s1: those have no position */
    const float *projection;   /* (M, D or what the position makes of it), kept as a copy; required where M > 0 */
    const int32_t *permutation; /* (H, features), permute2d: half of that; kept as a copy. Contiguous cycles are free */
    const float *decay;         /* (H) in (0, 1], kept as a copy; NULL: 1. Causal only */
} ll_attention_config;

typedef struct ll_attention ll_attention;

/* Softmax, causal, one head of size 64; change what differs. */
LL_API ll_attention_config ll_attention_default(void);
/* LL_EINVAL with the reason where the parts do not fit together. */
LL_API LL_MUST_USE ll_status ll_attention_create(ll_attention **op, const ll_attention_config *config);
LL_API void ll_attention_free(ll_attention *op);

/* A tensor (B, H, T, n): element (b, h, t, e) is data[b*batch + h*head + t*token + e]. */
typedef struct {
    float *data;
    size_t batch, head, token;
} ll_view;

/* One call. For q of (B, H, T, D), k of (B, H, S, D), v of (B, H, S, E); causal needs S = T. */
typedef struct {
    int B, T, S;
    const int *lengths;     /* (B) keys (and, where S = T, queries) in use, from the front; NULL: all */
    const float *key_mask;  /* (B, S) 1 keeps a key, 0 removes it; NULL: all. Not with softmax */
    ll_view q, k, v, y;     /* y is written; rows past `lengths` become 0 */
    float *saved;           /* ll_attention_saved floats, written by forward and read by backward;
                             * NULL: forward alone */
    ll_view g, dq, dk, dv;  /* backward: gradient at y, and the gradients, overwritten; reads q, k, v and
                             * the y that forward wrote */
    float *ddecay;          /* (H), added to; NULL: not wanted */
    ll_position_gradients dposition;
} ll_attention_call;

/* Floats that backward needs from forward: O(B H T), without the features. */
LL_API size_t ll_attention_saved(const ll_attention *op, int B, int T, int S);
/* Linear kernels: O(B H T M (D + E)) time and O(M (D + E)) memory a thread; softmax O(B H T S (D + E))
 * time. LL_ENOMEM for scratch; otherwise cannot fail. */
LL_API LL_MUST_USE ll_status ll_attention_forward(const ll_attention *op, const ll_attention_call *call);
LL_API LL_MUST_USE ll_status ll_attention_backward(const ll_attention *op, const ll_attention_call *call);

/* The same causal operator as a stream: a state of constant size for linear kernels (softmax keeps
 * its keys and values and grows), fed with any number of tokens at a time. */
typedef struct ll_attention_stream ll_attention_stream;

/* Keeps the operator, which must outlive it. LL_EINVAL with the reason for an operator that needs later
 * tokens. */
LL_API LL_MUST_USE ll_status ll_attention_stream_create(ll_attention_stream **s, const ll_attention *op, int B);
LL_API void ll_attention_stream_free(ll_attention_stream *s);
LL_API void ll_attention_stream_reset(ll_attention_stream *s);
LL_API size_t ll_attention_stream_bytes(const ll_attention_stream *s);
/* Feeds n tokens: q, k, v, y as above with T = n. O(n M (D + E)) for each of B and H. How tokens are cut
 * into calls changes no bit of y. LL_ENOMEM (softmax grows) leaves the stream as it was. */
LL_API LL_MUST_USE ll_status ll_attention_stream_feed(ll_attention_stream *s, int n, ll_view q, ll_view k, ll_view v,
                                                      ll_view y);

/* Reads a case (inputs, draws and mechanism in one safetensors file, docs/format.md), computes y and,
 * if the case has g, every grad.NAME, and writes them to `out`. tile: tokens a tile, 0 = default. streaming:
 * y comes from a stream, token by token; LL_EINVAL with the reason where it needs later tokens. */
LL_API LL_MUST_USE ll_status ll_attend_file(const char *in, const char *out, int streaming, int tile);

/* ---- Models ------------------------------------------------------------------------------------ */

typedef struct ll_model ll_model;

/* A new model with parameters drawn from `train.seed`. */
LL_API LL_MUST_USE ll_status ll_model_create(ll_model **model, const ll_recipe *recipe);
/* A model from a .safetensors file that longline wrote: last.safetensors, best.safetensors. */
LL_API LL_MUST_USE ll_status ll_model_load(ll_model **model, const char *path);
/* Written to a temporary file in the same folder, flushed, then renamed. */
LL_API LL_MUST_USE ll_status ll_model_save(const ll_model *model, const char *path);
LL_API void ll_model_free(ll_model *model);

LL_API const ll_recipe *ll_model_recipe(const ll_model *model);
/* Changes a key of [data] or [train] in the model's recipe ("data.test=other.txt"), so that it can be
 * evaluated on other files or lengths. LL_EINVAL for keys that say what the model is. */
LL_API LL_MUST_USE ll_status ll_model_set(ll_model *model, const char *assignment);
LL_API size_t ll_model_parameters(const ll_model *model);

typedef struct {
    const char *name; /* "blocks.0.attention.query.weight" */
    int rows, cols;   /* cols = 1 for vectors */
    float *data;      /* the parameters themselves */
} ll_tensor;
/* Tensor number i, or data = NULL past the last. */
LL_API ll_tensor ll_model_tensor(const ll_model *model, int i);

/* Cost of one token: multiply-adds at position T, forward alone, and bytes of stream state. */
LL_API double ll_model_token_cost(const ll_model *model, int T);
LL_API size_t ll_model_stream_bytes(const ll_model *model, int T);

/* Log-probabilities of the next token at every position (language models): logp (B, T, V);
 * row t depends on tokens 0..t alone, rows past `lengths` become 0. Classifiers: logp (B, classes).
 * tokens (B, T); lengths (B) or NULL. O(B T) time for linear attention. LL_EINVAL names a token that is not
 * in [0, V). */
LL_API LL_MUST_USE ll_status ll_model_logp(ll_model *model, float *logp, const int *tokens, const int *lengths, int B,
                                           int T);

/* ---- Streams: generation with constant memory --------------------------------------------------- */

typedef struct ll_stream ll_stream;

/* Keeps the model, which must outlive it. Causal language models only. */
LL_API LL_MUST_USE ll_status ll_stream_create(ll_stream **stream, ll_model *model);
LL_API void ll_stream_free(ll_stream *stream);
LL_API void ll_stream_reset(ll_stream *stream);
/* Feeds n >= 1 tokens (each in [0, V), else LL_EINVAL and the stream stays as it was) and writes the logits
 * (V) of the token after the last. Time and memory a token do not depend on how many came before (linear
 * attention). */
LL_API LL_MUST_USE ll_status ll_stream_feed(ll_stream *stream, const int *tokens, int n, float *logits);
LL_API int64_t ll_stream_position(const ll_stream *stream);
LL_API size_t ll_stream_bytes(const ll_stream *stream);

typedef struct {
    float temperature; /* 1; 0 = the most likely token */
    int top_k;         /* 0 = all */
    float top_p;       /* 1 = all */
    uint64_t seed;
} ll_sampling;
LL_API ll_sampling ll_sampling_default(void);
/* A token drawn from logits (V); a function of (seed, position) alone. logits are overwritten. */
LL_API int ll_sample(float *logits, int V, const ll_sampling *how, int64_t position);

/* ---- Training ---------------------------------------------------------------------------------- */

typedef struct ll_trainer ll_trainer;

typedef struct {
    int64_t step, steps;
    double loss;             /* mean of the last steps, nats a token (or an example) */
    double valid_loss;       /* last evaluation, NaN before the first */
    double valid_accuracy;   /* the same, fraction */
    double learning_rate, gradient_norm;
    double tokens_per_second, seconds, eta; /* eta in seconds, NaN while unknown */
    const char *event;       /* NULL, "evaluating", "eval", "checkpoint", "done" */
} ll_progress;

/* Called after every step with event = NULL, then once more for each thing that was done there, named by event;
 * "evaluating" after every batch of an evaluation. Return non-zero to stop: the trainer saves and
 * ll_trainer_run returns LL_ESTOPPED. */
typedef int ll_progress_fn(const ll_progress *progress, void *arg);

/* A run in folder `out`, created if missing; files in it as docs/format.md says. resume: NULL for a
 * new run, or a run folder whose last.safetensors goes on, to the same bits as an uninterrupted run
 * (recipe may then be NULL). Opens the data and allocates everything: after this only files can fail. */
LL_API LL_MUST_USE ll_status ll_trainer_create(ll_trainer **trainer, const ll_recipe *recipe, const char *out,
                                               const char *resume);
/* Runs to the last step. LL_EDIVERGED keeps the last good checkpoint. */
LL_API LL_MUST_USE ll_status ll_trainer_run(ll_trainer *trainer, ll_progress_fn *progress, void *arg);
LL_API void ll_trainer_free(ll_trainer *trainer);
LL_API ll_model *ll_trainer_model(ll_trainer *trainer); /* belongs to the trainer */
LL_API const char *ll_trainer_folder(const ll_trainer *trainer);

/* Seconds for one full training step (forward, backward, update) on random tokens, data and files
 * untouched: what `longline bench` times. */
LL_API LL_MUST_USE ll_status ll_train_step_time(const ll_recipe *recipe, int repeats, double *seconds);

typedef struct {
    double loss;           /* nats a token, or an example */
    double bits_per_token; /* loss / ln 2; for bytes: bits per byte */
    double accuracy;       /* fraction of tokens, or examples, whose most likely answer is right */
    int64_t count;         /* tokens or examples */
    double seconds;
} ll_evaluation;
/* Evaluates on a split of the model's recipe ("valid" or "test"). max_batches 0 = all of it; else that many
 * batches, evenly spread over the split. */
LL_API LL_MUST_USE ll_status ll_evaluate(ll_model *model, const char *split, int max_batches, ll_evaluation *result);

/* Bits per byte that a bigram model with add-one smoothing, counted on the train split, needs on the other split
 * (all but its first byte, which nothing precedes). */
LL_API LL_MUST_USE ll_status ll_bigram_bits(const ll_recipe *recipe, const char *split, double *bits);

/* ---- Pictures ---------------------------------------------------------------------------------- */

typedef struct {
    const char *label;
    int n;
    const double *x, *y;
} ll_curve;

typedef struct {
    const char *title, *x_label, *y_label;
    int log_x, log_y;
    int width, height; /* pixels; 0 = 960 x 540 */
    int n;
    const ll_curve *curves;
} ll_figure;

/* Draws curves into a .svg or .png file (by its ending). */
LL_API LL_MUST_USE ll_status ll_figure_write(const ll_figure *figure, const char *path);
/* Draws the loss curves of a run folder's metrics.csv. */
LL_API LL_MUST_USE ll_status ll_run_picture(const char *run, const char *path);

#ifdef __cplusplus
}
#endif
#endif
