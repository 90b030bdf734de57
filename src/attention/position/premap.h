/* Positions that act on the queries and keys of one head, before the feature map. Each is one file with this interface.
 * They work on tiles of tokens. premap.c encodes calls, attention_stream.c tokens of streams. */
#ifndef LL_PREMAP_H
#define LL_PREMAP_H

#include "attention/operator.h"
#include "attention/parameter.h"

enum { LL_PREMAP_TILE = 64 };

typedef struct ll_premap ll_premap;

/* C <= LL_PREMAP_TILE tokens from t0 of one head. `work` is scratch of the kind. `prepare` writes there what both sides
 * and all sequences use, and what the next tile of the same head shares. It is zeroed for a new head, whose tiles then
 * go all forward or all back. */
typedef struct {
    const ll_premap *b;
    const ll_kernels *k;
    int head, C;
    int64_t t0;
    float *work;
} ll_premap_tile;

typedef struct ll_premap_kind {
    int same; /* does to queries what it does to keys, and the same in all heads */
    ll_status (*check)(const ll_attention_config *c); /* LL_EINVAL with the reason */
    int (*width)(const ll_attention_config *c);       /* of what becomes of q and k */
    ll_status (*create)(ll_premap *b);                /* makes b->own; NULL: nothing to make */
    void (*free)(void *own);                          /* also what create left on failure; own is never NULL */
    void (*draw)(ll_premap *b);                       /* after a new seed; NULL: nothing drawn ahead */
    size_t (*scratch)(const ll_premap *b);            /* floats */
    int (*parameters)(const ll_attention_config *c, ll_parameter *list); /* that train; NULL: none */
    size_t (*sums)(const ll_premap *b);               /* numbers that backward sums for a head; NULL: none */
    double (*cost)(const ll_premap *b);               /* multiply-adds of a query and a key of one head */
    int64_t (*longest)(const ll_premap *b);           /* sequence that it can encode; NULL: any */
    void (*prepare)(const ll_premap_tile *t);
    /* out (n, width), rows ldo apart, of in (n, D), rows `token` apart; 1 <= n <= C */
    void (*forward)(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo);
    /* din (n, D) is overwritten; sum (sums) is added to */
    void (*back)(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum);
    /* Adds the sums of a head, if there are any, to the gradients. */
    void (*collect)(const ll_premap *b, int head, const double *sum, const ll_position_gradients *d);
} ll_premap_kind;

struct ll_premap {
    const ll_premap_kind *kind;
    ll_attention_config c;     /* of the operator; arrays that do not train are in the copies that own has */
    int given;                 /* the noise came with the config: it is never drawn again */
    int R;                     /* width of encoded q and k */
    void *own;                 /* of the kind, or NULL */
};

/* LL_EINVAL with the reason where a config's position before the map cannot be, with this kernel. */
LL_MUST_USE ll_status ll_premap_check(const ll_premap_kind *kind, const ll_attention_config *c,
                                      const ll_operator_kind *kernel);
/* Where it fails, *premap is to be freed too. */
LL_MUST_USE ll_status ll_premap_create(ll_premap **premap, const ll_premap_kind *kind,
                                       const ll_attention_config *config);
void ll_premap_free(ll_premap *premap);

/* Floats of the encoded queries and keys of a call; 0 where nothing is encoded. */
size_t ll_premap_floats(const ll_attention *op, int B, int T, int S);
/* The call on encoded queries and keys, which are in `encoded`. In `saved` the floats of the kind follow them. */
ll_attention_call ll_premap_call(const ll_attention *op, const ll_attention_call *call, float *encoded);
/* Encodes q and k of the call to those of `encoded`. Backward: computes dq and dk of the call from those of `encoded`.
 * Both use the scratch of the call; it needs so many floats. */
void ll_premap_forward(const ll_attention *op, const ll_attention_call *call, const ll_attention_call *encoded);
void ll_premap_backward(const ll_attention *op, const ll_attention_call *call, const ll_attention_call *encoded);
size_t ll_premap_scratch(const ll_attention *op, const ll_attention_call *call, int backward);

/* LL_EINVAL where tokens up to this count cannot be encoded; where those of a call cannot. */
LL_MUST_USE ll_status ll_premap_reaches_call(const ll_premap *b, const ll_attention_call *c);
LL_MUST_USE ll_status ll_premap_reaches(const ll_premap *b, int64_t tokens);

/* The stage of a stream, or of a cache of cross attention (premap_stream.c). A head's scratch stays from token to
 * token: conv-spe keeps the noise there that one token shares with the next, so that no number of noise is drawn twice.
 * The memory is constant. */
typedef struct {
    const ll_premap *b; /* NULL: there is no stage, and nothing to do */
    float *work;        /* (H, scratch); (scratch) of all heads where they do the same */
    size_t scratch;
} ll_premap_stream;
/* Where it fails, the stream is to be freed too. */
LL_MUST_USE ll_status ll_premap_stream_create(ll_premap_stream *s, const ll_premap *b);
void ll_premap_stream_free(ll_premap_stream *s);
/* Forgets what a token shares with the next. */
void ll_premap_stream_reset(const ll_premap_stream *s);
size_t ll_premap_stream_floats(const ll_premap_stream *s);
/* n <= LL_PREMAP_TILE tokens of B sequences from a position on: the sides whose `in` has data. */
void ll_premap_stream_encode(const ll_premap_stream *s, int B, int64_t first, int n, const ll_view in[2],
                             const ll_view out[2]);

double ll_sigmoid(double x);

#endif
