/* The attention operator by itself: whole sequences forward and backward, and streams. */
#ifndef LL_ATTENTION_API_H
#define LL_ATTENTION_API_H

#include "longline/base.h"

LL_C_BEGIN

/* ---- Attention: the operator by itself ---- */

/* All heads of one layer. Linear kernels: y_i = sum_j A_ij v_j / sum_j A_ij with
 * A_ij = decay^(i-j) <P^i phi(q_i), P^j phi(k_j)>; softmax: A_ij = exp(scale <q_i, k_j>). */
typedef enum {
    LL_KERNEL_SOFTMAX,
    LL_KERNEL_FAVOR, /* random features of the softmax kernel: ll_feature_kind */
    /* phi = f(u) + feature_eps, u = W x, or x without a projection: */
    LL_KERNEL_RELU,
    LL_KERNEL_ELU1, /* u + 1 for u > 0, else e^u */
    LL_KERNEL_EXP, LL_KERNEL_SIGMOID, LL_KERNEL_ABS, LL_KERNEL_GELU,
    LL_KERNEL_COS, LL_KERNEL_TANH, LL_KERNEL_IDENTITY, LL_KERNEL_SQUARE,
    LL_KERNEL_GLA, /* features x; every call brings a gate (below); causal */
    /* Approximate operators, which the papers compare with: */
    LL_KERNEL_VALUE, /* identity attention (OPT): y = v; q and k are not read (may be NULL, as dq and dk) */
    LL_KERNEL_LOCAL,     /* softmax over the keys j with |i - j| < window; causal: the last `window` tokens */
    LL_KERNEL_LINFORMER, /* softmax over `rank` sums of keys and of values; not causal, at most `length` keys */
    LL_KERNEL_NYSTROM,   /* softmax through `landmarks` means of queries and keys; not causal */
    LL_KERNEL_REFORMER   /* softmax over tokens with the same hash; queries are the keys: k and dk may be NULL */
} ll_kernel;
/* Features of favor, u = W x and n = |x|^2 / 2, over sqrt(features): */
typedef enum {
    LL_FEATURES_POSITIVE,      /* exp(u - n), M of them */
    LL_FEATURES_HYPERBOLIC,    /* exp(u - n), then exp(-u - n): 2 M */
    LL_FEATURES_TRIGONOMETRIC, /* exp(n) cos u, then exp(n) sin u, over sqrt(M): 2 M; weights may be negative */
    LL_FEATURES_GAUSSIAN       /* the same without exp(n): estimates exp(-|x - y|^2 / 2) */
} ll_feature_kind;
typedef enum {
    LL_POSITION_NONE,
    LL_POSITION_SINUSOIDAL,
    LL_POSITION_LEARNED, /* added to the vectors of tokens by a model; to an operator they are as none */
    LL_POSITION_PERMUTE,
    LL_POSITION_PERMUTE2D,
    LL_POSITION_ROPE,        /* q and k rotated by angles proportional to the position; any kernel */
    LL_POSITION_ROPE_LINEAR, /* features rotated in the weighted sum, not in the divisor; linear kernels */
    LL_POSITION_SINE_SPE,    /* stochastic encodings: q and k become `realizations` wide */
    LL_POSITION_CONV_SPE,
    LL_POSITION_RELATIVE_S1, /* q and k extended by a learned cosine of the distance: D + 2 scales (4 for images) */
    LL_POSITION_RELATIVE_S2, /* the last heads have a learned vector for each distance, up to a clip, instead of keys */
    LL_POSITION_T5,          /* softmax: learned numbers added to the logits, by head and bucket of the distance */
    LL_POSITION_SHAW,        /* softmax: learned vectors added to keys, values or both, by distance up to a clip */
    LL_POSITION_ORTHOGONAL   /* linear kernels: powers of a random rotation of the features, instead of a permutation */
} ll_position;

/* Over what the stabiliser c of softmax features exp(u - |x|^2/2 - c) + eps takes its maximum.
 * PREFIX is the default: causal, and can be streamed. With eps = 0 and LL_DEN_SUM the choice does not change y. There
 * is one limit of float: within a call, a feature of a key that is smaller than e^-60 times the largest so far may
 * become 0 when a larger key follows. The same holds for LL_KERNEL_EXP. And u - |x|^2/2 is a float: where x, times
 * input_scale, is longer than 1e3, its error is above 1e-2, and beyond 1.9e4 all keys have the same weight, e^-1.9e8.
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

/* Smaller angles for longer sequences, as LLaMA 3.1 has them ("llama3", Grattafiori et al. 2024). A pair with the angle
 * w turns length w / 2 pi times within `length` tokens. Pairs that turn `low` times or less have w / factor, those that
 * turn `high` times or more keep w, and between these it is interpolated. With length = 0 all have w / factor
 * ("linear", Chen et al. 2023). */
typedef struct {
    double factor; /* at least 1; 0 is 1 */
    double length, low, high;
} ll_rope_scaling;

/* What positions that act on q and k need. `theta` and noise are kept as copies; the other arrays are parameters
 * that may train: they stay the caller's, must outlive the operator, and are read at every call and every feed of a
 * stream. Exception: a stream of sine-spe reads them at its first feed after it was created, cloned, reset or
 * prefilled, and not again. */
typedef struct {
    const float *theta; /* rope: (D/2), rope-linear: (features/2) angles a token; NULL: 10000^(-2t/n) */
    double base;        /* rope, in place of 10000; 0: 10000 */
    ll_rope_scaling scaling; /* rope without `theta` */
    int rotary;         /* rope: number of channels of a head that are rotated, even; 0: all, as with `theta` */
    const float *basis; /* orthogonal: (H, features, features) B with P = B^T R B; theta (H, features/2) rotates R's
                         * pairs of neighbours. Copies are kept of both, as of theta */
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
    int scales, axes;                      /* relative-s1: angular frequencies; relative-s1, -s2: 1 or 2 axes */
    const float *inv_freq, *alpha, *beta;  /* (scales), (H, axes scales), the same: rows before columns */
    int clip;         /* relative-s2, shaw: distances from this one on, 1 to 255, count as one */
    int keyless;      /* relative-s2: so many of the heads, the last, have no keys: k and dk have H - keyless heads */
    const float *rpe; /* relative-s2: (clip + 1, D), the same for all of those heads */
    const float *bias; /* t5: (H, 32) */
    const float *distance_k, *distance_v; /* shaw: (n, D) and (n, E) for j - i = -clip .. clip (causal: .. 0), the same
                                           * for all heads; one may be NULL */
} ll_position_config;

/* Gradients of those parameters, added to; NULL: not wanted. */
typedef struct {
    float *freqs, *offsets, *gains, *filter_q, *filter_k, *gate, *inv_freq, *alpha, *beta, *rpe;
    float *bias, *distance_k, *distance_v;
} ll_position_gradients;

/* What the approximate operators need. linformer_k and linformer_v are parameters that may train: they stay the
 * caller's, must outlive the operator, and are read at every call. */
typedef struct {
    int window;                              /* local */
    int length, rank;                        /* linformer */
    const float *linformer_k, *linformer_v;  /* (length, rank) */
    int landmarks, iterations;               /* nystrom: iterations of the inverse of the landmarks' matrix */
    int buckets, chunk, rounds;              /* reformer: even; tokens that see each other and those before; hashes */
    const float *rotations; /* reformer: (rounds, H, D, buckets/2), kept as a copy; NULL: drawn by (seed, layer) */
    uint64_t seed;
    int layer;
} ll_approximate_config;

/* Gradients of those parameters, added to; NULL: not wanted. */
typedef struct {
    float *linformer_k, *linformer_v;
} ll_approximate_gradients;

typedef struct {
    size_t struct_size; /* sizeof(ll_attention_config), or 0: the fields of version 0.2 */
    ll_kernel kernel;
    ll_approximate_config approximate; /* of the kernels that papers compare with */
    ll_feature_kind features; /* favor */
    ll_position position;
    ll_position_config encoding; /* of that position */
    int causal;          /* token i sees 0..i */
    int H, D, E;         /* heads, query/key size, value size */
    int M;               /* rows of `projection`; 0: no projection, features = D. Else features = M, or 2 M where
                          * `features` makes two of a row */
    float input_scale;   /* multiplies q and k, and what relative-s1 appends to them; softmax, and what approximates it:
                          * multiplies the logits, but for the bias of t5 */
    float feature_eps;   /* added to every feature (inside the root of favor) */
    ll_max query_max, key_max;
    int max_of_u;        /* favor: maximum of u alone (released codes) instead of u - |x|^2/2 */
    int max_gradient;    /* favor: differentiate the maximum, as some released codes do */
    ll_den den;
    float den_eps;
    int width, height, before; /* images (permute2d; conv-spe, relative-s1 and -s2 in two dimensions): size, and
                                * tokens in front of the first pixel; relative-s1, -s2: those have no position */
    const float *projection;   /* (M, D or what the position makes of it), kept as a copy; required where M > 0 */
    const int32_t *permutation; /* (H, features), permute2d: half of that; kept as a copy. Cycles in order,
                                 * as ll_permutation_* makes them, take no table */
    const float *decay;         /* (H) in (0, 1], kept as a copy; NULL: 1. Causal only */
} ll_attention_config;

typedef struct ll_attention ll_attention;

/* Softmax, causal, one head of size 64; change what differs. */
static inline ll_attention_config ll_attention_default(void) {
    static ll_attention_config zeros; /* softmax is the first kernel */
    ll_attention_config c = zeros;
    c.struct_size = sizeof c;
    c.causal = c.H = 1, c.D = c.E = 64, c.input_scale = 0.125f;
    return c;
}
/* LL_EINVAL with the reason where the parts do not fit together. */
LL_API LL_MUST_USE ll_status ll_attention_create(ll_attention **op, const ll_attention_config *config);
LL_API void ll_attention_free(ll_attention *op);

/* p (n): a permutation for one head of permute (n: its features) or permute2d (half of them), in cycle order, that is
 * its cycles a -> a + 1 end to end. O(n). Of a uniformly random permutation, as Chen (2021) draws them: */
LL_API void ll_permutation_random(int32_t *p, int n, uint64_t seed, int layer, int head);
/* One cycle of more than half of n; the others, which come after it, stay where they are. The cycles of heads 0, 1, ..
 * of a model, counted through its layers, have lengths spread evenly between n / 2 and n, so that a distance looks
 * like another one to few of them. Nothing is drawn. */
LL_API void ll_permutation_long(int32_t *p, int n, int head);

/* A tensor (B, H, T, n): element (b, h, t, e) is data[b*batch + h*head + t*token + e]. */
typedef struct {
    float *data;
    size_t batch, head, token;
} ll_view;

/* A sequence inside a row of a packed batch: its first query and key there, and how many of them it has. Tokens count
 * from 0 in every sequence, and none sees another's. */
typedef struct {
    int row, query, queries, key, keys;
} ll_segment;

/* One call. For q of (B, H, T, D), k of (B, H, S, D), v of (B, H, S, E); causal needs S = T. Rows in use are finite,
 * but for keys and values that key_mask removes. (Causal, a value that is NaN or infinite changes no output of earlier
 * queries. With softmax, local and reformer their gradients may become NaN.) */
typedef struct {
    size_t struct_size; /* sizeof(ll_attention_call), or 0: the fields of version 0.2 */
    int B, T, S;
    const int *lengths;     /* (B) keys in use, from the front; NULL: all */
    const int *query_lengths; /* (B) queries in use; NULL: as many as keys where S = T, else all. Causal: NULL */
    const ll_segment *segment; /* (segments) packed rows: in the order in which they lie, apart from each other; causal,
                                * keys = queries. The lengths are NULL. NULL: a row is a sequence */
    int segments;
    const float *key_mask;  /* (B, S) 1 keeps a key, 0 removes it; NULL: all. Linear kernels alone */
    ll_view q, k, v, y;     /* y is written; rows that are in no sequence become 0 */
    int64_t query_offset, key_offset; /* position of the first query and of the first key of a sequence, 0 to 2^52;
                                       * causal: the same */
    const int64_t *offsets; /* (sequences) those of each sequence, where keys are the queries' own tokens; NULL: of all
                             * sequences the two above */
    /* Gated linear attention: log r of every token and head (B, H, T, 1), at most 0. The state decays by r before the
     * token joins it, besides config.decay: A_ij = <phi(q_i), phi(k_j)> times r of the tokens j+1 .. i (Yang et al.
     * 2024, with a scalar gate). No data: no gate, which costs nothing. Causal linear kernels; favor under a running
     * maximum only with LL_DEN_SUM and feature_eps = 0. dgate: its gradient, overwritten; no data: not wanted. A call
     * without a gate has no dgate either. */
    ll_view gate, dgate;
    /* What earlier calls leave, so that a sequence may be cut into calls: (sequences, ll_attention_state_floats) each.
     * NULL: nothing came before; not wanted. The offsets then count the tokens of earlier calls. A causal operator's
     * queries see the tokens before through it; in both directions they see keys of other calls (state_in) besides
     * those of their own. state_out may be state_in where no backward follows, but not with states_of_rows.
     * state_in is what a call of an operator with the same config left. Counts and exponents that no call leaves are
     * LL_EINVAL; its other numbers are not checked.
     * The sums in it are float, and each call rounds them: use calls of some hundred tokens or more, or a stream. */
    const float *state_in;
    float *state_out;
    const float *dstate_out; /* backward: gradient at what forward wrote to state_out; NULL: zeros */
    float *dstate_in;        /* and at state_in, overwritten; NULL: not wanted. Backward reads both states again */
    size_t state_row;        /* floats from one sequence's state to the next one's; 0: no gaps */
    int states_of_rows;      /* packed rows: a state for each row. Its first sequence takes it, its last one leaves it,
                              * and those between begin from nothing. A row without sequences passes it on */
    float *saved;           /* ll_attention_saved floats, written by forward and read by backward;
                             * NULL: forward alone, or these are 0 */
    ll_view g, dq, dk, dv;  /* backward: gradient at y, and the gradients, overwritten; reads q, k, v and
                             * the y that forward wrote */
    float *ddecay;          /* (H), added to; NULL: not wanted */
    /* Memory of ll_attention_scratch floats that the call may use, so that it need not allocate; NULL: it allocates.
     * threads: the most that may work on the call; more than 256 count as 256; 0: ll_threads(), or as many as the
     * scratch is large enough for. */
    float *scratch;
    size_t scratch_floats;
    int threads;
    ll_position_gradients dposition;
    ll_approximate_gradients dapproximate;
    int bf16; /* products round their factors to bfloat16, forward and backward alike: all of softmax and local, and the
               * softmax of linformer and nystrom; of linear kernels those with the random projection and, in both
               * directions, with sums over keys and queries. The others ignore it */
} ll_attention_call;

/* Floats that backward needs from forward: O(B H T), without the features. Linear kernels add a state for each chunk of
 * tokens (causal) or for each sequence. rope, spe and relative-s1 add the encoded queries and keys. Of the call B, T, S
 * and segments count, the most that there will be (segment may be NULL). */
LL_API size_t ll_attention_saved(const ll_attention *op, const ll_attention_call *call);
/* Floats of scratch that a call takes, forward or backward. Besides, threads count, and whether saved and ddecay are
 * there. A larger B, T, S or number of segments takes no less. */
LL_API size_t ll_attention_scratch(const ll_attention *op, const ll_attention_call *call, int backward);
/* Floats of the state of one sequence: constant, whatever the length. LL_EINVAL with the reason for operators whose
 * state grows (softmax) or whose stabiliser sees the whole sequence. */
LL_API LL_MUST_USE ll_status ll_attention_state_floats(const ll_attention *op, size_t *floats);
/* Linear kernels with m features: O(B H T m (D + E)) time and O(m (D + E)) memory a thread; softmax O(B H T S (D + E))
 * time; value O(B H T E), local O(B H T window (D + E)), linformer O(B H (T + S) rank (D + E)), nystrom the same
 * with landmarks for rank, reformer O(B H T rounds (D buckets + chunk (D + E))). Positions add what
 * ll_position_at(i)->cost says of a head, such as T m^2 (orthogonal) or T clip (D + E) (shaw). LL_EINVAL for sizes that
 * the operator does not take, or scratch that is too small; LL_ENOMEM without scratch; otherwise cannot fail. */
LL_API LL_MUST_USE ll_status ll_attention_forward(const ll_attention *op, const ll_attention_call *call);
/* Gradients of the sum of g times y; time and errors are those of forward. Reads again what forward read, and the y and
 * saved that it wrote. These must be unchanged: otherwise the gradients are wrong, without an error. */
LL_API LL_MUST_USE ll_status ll_attention_backward(const ll_attention *op, const ll_attention_call *call);

/* The same causal operator as a stream: a state of constant size for linear kernels (softmax keeps its keys and values
 * and grows, local those of the window, reformer the last 2 chunk of each round's buckets), fed with any number of
 * tokens at a time. */
typedef struct ll_attention_stream ll_attention_stream;

/* Keeps the operator, which must outlive it. LL_EINVAL with the reason for an operator that needs later
 * tokens. */
LL_API LL_MUST_USE ll_status ll_attention_stream_create(ll_attention_stream **s, const ll_attention *op, int B);
LL_API void ll_attention_stream_free(ll_attention_stream *s);
/* A second stream that goes on from here as this one would, to the same bits, each on its own. O(state). (After a
 * change of the parameters of sine-spe, see above, only the copy has the new ones.) */
LL_API LL_MUST_USE ll_status ll_attention_stream_clone(ll_attention_stream **copy, const ll_attention_stream *s);
/* Bytes of all memory of the stream: its state (softmax: with room for more keys and values), and scratch for the
 * threads it has run on. Scratch may be larger than the state. */
LL_API size_t ll_attention_stream_bytes(const ll_attention_stream *s);
/* Feeds n tokens: q, k, v, gate, y as above with T = n; gate.data NULL where no gate is needed. O(n m (D + E)) for
 * each of B and H. How tokens are cut into calls changes no bit of y. Where the divisor of a linear kernel is below
 * 1e-36, ll_attention_forward gives 0; a stream divides in double and gives the quotient. LL_EINVAL for a gate that is
 * missing or that the operator does not take; LL_ENOMEM (softmax grows) leaves the stream as it was. */
LL_API LL_MUST_USE ll_status ll_attention_stream_feed(ll_attention_stream *s, int n, ll_view q, ll_view k, ll_view v,
                                                      ll_view gate, ll_view y);
/* Reads a prompt of call->T tokens of each sequence with the tiles of ll_attention_forward, as fast as that and on all
 * threads, and writes y: q, k, v, y, gate, scratch and threads of the call count. S and the offsets are those of the
 * stream; what else a call may have is LL_EINVAL. The stream then stands behind the prompt. Sums of tiles are float,
 * and a stream's are double: y and what follows differ from those of ll_attention_stream_feed by rounding, and the cuts
 * of prompts count. Divisors below 1e-36 give 0, as in ll_attention_forward. Softmax, and what else has no state of
 * constant size, reads as ll_attention_stream_feed does. Takes memory of a state; LL_ENOMEM leaves the stream as it
 * was. */
LL_API LL_MUST_USE ll_status ll_attention_stream_prefill(ll_attention_stream *s, const ll_attention_call *call);

LL_C_END

#endif
