/* Models, and streams of tokens through them. */
#ifndef LL_MODEL_API_H
#define LL_MODEL_API_H

#include "longline/base.h"

LL_C_BEGIN

/* ---- Models ---- */

typedef struct ll_model ll_model;

/* A new model with parameters drawn from `train.seed`. */
LL_API LL_MUST_USE ll_status ll_model_create(ll_model **model, const ll_recipe *recipe);
/* A model from a .safetensors file that longline wrote: last.safetensors, best.safetensors. A plain file stays mapped
 * until the model is freed: it may be replaced (renamed over, as ll_model_save does) or removed meanwhile, but not be
 * cut short or written over in place. What changes the model does not change the file. Reads all parameters once. Such
 * a model cannot be trained (ll_adam_create), be its file plain or packed (.gz, .xz, .zst). */
LL_API LL_MUST_USE ll_status ll_model_load(ll_model **model, const char *path);
/* Written to a temporary file in the same folder, flushed, then renamed. LL_EDIVERGED for a parameter that is infinite
 * or not a number, whose file could not be loaded. */
LL_API LL_MUST_USE ll_status ll_model_save(const ll_model *model, const char *path);
/* The same from a file's bytes in memory, of which nothing is kept: its parameters are a block of its own, which can
 * be trained (ll_adam_create). `name` stands in messages for the path. */
LL_API LL_MUST_USE ll_status ll_model_load_bytes(ll_model **model, const void *bytes, size_t size, const char *name);
/* The file that ll_model_save would write, in memory that the caller frees with ll_text_free. */
LL_API LL_MUST_USE ll_status ll_model_save_bytes(const ll_model *model, char **bytes, size_t *size);
LL_API void ll_model_free(ll_model *model);

LL_API const ll_recipe *ll_model_recipe(const ll_model *model);
/* Changes a key of [data] or [train] in the model's recipe ("data.test=other.txt"), so that the model can be evaluated
 * on other files or lengths. LL_EINVAL for keys that define the model. train.seed is one of these where it draws the
 * noise of stochastic positions, and data.format where tokens of the other format stand for something else. LL_EINVAL,
 * too, from the callbacks of a run that trains the model (ll_trainer_run). A run that goes on gives the model its own
 * recipe back. */
LL_API LL_MUST_USE ll_status ll_model_set(ll_model *model, const char *assignment);
typedef struct {
    size_t parameters;
    int vocab;   /* V: different tokens, and logits of a stream */
    int layers;  /* blocks; of seq2seq those of the decoder */
    int width;   /* C: of the vectors of tokens */
    int classes; /* 0: no classifier of single sequences; match has its number in the recipe, model.classes */
    int checked; /* tensors of its file whose checksum was right; 0: it was made, or its file has no checksums */
    size_t block; /* floats of a block of gradients: ll_model_loss */
} ll_model_sizes;
LL_API ll_model_sizes ll_model_size(const ll_model *model);

typedef struct {
    const char *name; /* "blocks.0.attention.query.weight" */
    int rows, cols;   /* cols = 1 for vectors */
    float *data;      /* the parameters themselves; NULL: they are quantized */
    size_t offset;    /* of its gradient in a block of them */
} ll_tensor;
/* Tensor number i, or name = NULL past the last. */
LL_API ll_tensor ll_model_tensor(const ll_model *model, int i);

typedef enum { LL_FLOAT32, LL_BFLOAT16, LL_INT8, LL_INT4 } ll_precision;
/* Quantizes the matrices of the blocks, of patches, and of the head but for an output layer that is the embedding.
 * Generation waits for memory, and streams then read 16 (LL_BFLOAT16), 8.5 (LL_INT8) or 4.5 bits (LL_INT4) of a
 * weight. The integers have one scale, in bfloat16, for 32 neighbouring rows of a column. ll_evaluate measures the loss
 * in quality. ll_model_save then writes a file of that size, which ll_model_load maps. A quantized model cannot be
 * trained or quantized again, and a model whose run goes on cannot be quantized (LL_EINVAL); the kind that it has
 * changes nothing. Parameters must be finite, as for ll_model_save. O(parameters). */
LL_API LL_MUST_USE ll_status ll_model_quantize(ll_model *model, ll_precision precision);

typedef struct {
    double multiply_adds; /* forward alone; seq2seq: of one token of the source and one of the target */
    size_t stream_bytes;  /* bytes of the state after T tokens, without scratch; 0: nothing, or there is no stream */
} ll_model_costs;
/* What one token costs at position T; of seq2seq, at position T of a target whose source has T tokens. */
LL_API ll_model_costs ll_model_cost(const ll_model *model, int T);

/* Log-probabilities. Language models: logp (B, T, V), where row t is of the token after token t. It depends on tokens
 * 0..t alone, unless attention.compat names a program whose stabiliser depends on later tokens (ll_model_can_stream).
 * Masked language models: logp (B, T, V), where row t is of the token that stands at t, given all tokens of its
 * sequence. Rows past `lengths` become 0. Classifiers: logp (B, classes). Match: logp (B / 2, classes), of sequences 2i
 * and 2i + 1. tokens (B, T); lengths (B) or NULL. O(B T) time for linear attention. LL_EINVAL names a token that is not
 * in [0, V), and is for seq2seq models, which streams serve (ll_stream_source); LL_EDIVERGED the place of a number that
 * is not finite. */
LL_API LL_MUST_USE ll_status ll_model_logp(ll_model *model, float *logp, const int *tokens, const int *lengths, int B,
                                           int T);

/* Calls `progress` from now on while this model computes; NULL: no longer. ll_evaluate counts all of its batches.
 * ll_model_logp, ll_model_score, ll_model_encode, ll_model_loss and ll_stream_source count their one batch: after
 * every block of layers, and more often where the batch has more than 1024 tokens. They return LL_ESTOPPED where
 * `progress` asks for that. ll_stream_feed and ll_stream_score do not call it: the caller chooses how many tokens it
 * feeds at a time. */
LL_API void ll_model_watch(ll_model *model, ll_done_fn *progress, void *arg);

/* ---- Streams: generation with constant memory ---- */

typedef struct ll_stream ll_stream;

/* LL_EINVAL with the reason where there cannot be a stream of this model: a classifier, or a model with a
 * released stabiliser that takes later tokens into account. */
LL_API LL_MUST_USE ll_status ll_model_can_stream(const ll_model *model);
/* Keeps the model, which must outlive the stream and pass ll_model_can_stream. The stream of a seq2seq model needs a
 * source first. After a change of the model's parameters (ll_adam_step) reset the stream: its state was made with the
 * old ones, and with sine-spe it keeps old frequencies, gains and gates until then. */
LL_API LL_MUST_USE ll_status ll_stream_create(ll_stream **stream, ll_model *model);
LL_API void ll_stream_free(ll_stream *stream);
/* Back to before the first token; a source stays. */
LL_API void ll_stream_reset(ll_stream *stream);
/* seq2seq: reads a source of n >= 1 tokens in place of the last one, and resets the stream. O(n) time; what is kept
 * of it does not grow with n (softmax: its keys and values). After LL_EINVAL the stream stays as it was; after
 * LL_ENOMEM and LL_ESTOPPED it has no source. */
LL_API LL_MUST_USE ll_status ll_stream_source(ll_stream *stream, const int *tokens, int n);
/* Feeds n >= 1 tokens (each in [0, V), else LL_EINVAL and the stream stays as it was) and writes the logits
 * (V) of the token after the last; NULL: not wanted now. Time and memory a token do not depend on how many came
 * before (linear attention). How tokens are cut into calls changes no bit; many at a time take less time. After
 * LL_ENOMEM, or LL_EDIVERGED where the logits after the last token are not finite, the stream is to be reset. */
LL_API LL_MUST_USE ll_status ll_stream_feed(ll_stream *stream, const int *tokens, int n, float *logits);
/* The logits after the last token fed, again; also for a clone or a loaded stream. LL_EINVAL before the first token. */
LL_API LL_MUST_USE ll_status ll_stream_logits(const ll_stream *stream, float *logits);
/* A second stream of the same model that goes on from here to the same bits, each on its own; of seq2seq with
 * its source. O(state). */
LL_API LL_MUST_USE ll_status ll_stream_clone(ll_stream **copy, const ll_stream *stream);
/* Writes the state to a file (docs/format.md), as ll_model_save does. ll_stream_load makes a stream that continues from
 * it, in any process: to the same bits as the saved one, on the same instruction tier (ll_cpu). The file has the source
 * of a seq2seq stream. Time and size are proportional to the state, not to the number of tokens fed (softmax's keys and
 * values are written in blocks of 256 tokens); loading also reads all parameters once. LL_EINVAL: the state is of
 * another model, recognised by a digest of parameters, draws and recipe. LL_EFORMAT: no stream wrote the file. */
LL_API LL_MUST_USE ll_status ll_stream_save(const ll_stream *stream, const char *path);
LL_API LL_MUST_USE ll_status ll_stream_load(ll_stream **stream, ll_model *model, const char *path);
/* Tokens fed so far. */
LL_API int64_t ll_stream_position(const ll_stream *stream);
/* Bytes of all memory of the stream: its state (softmax: with room for more keys and values), and the scratch of its
 * calls, for the threads it has run on. The state alone is ll_model_cost(model, position).stream_bytes; of
 * seq2seq with softmax, where the source has as many tokens. */
LL_API size_t ll_stream_bytes(const ll_stream *stream);

typedef struct {
    size_t struct_size; /* sizeof(ll_sampling), or 0: the fields of version 0.2. What a larger one adds is left out */
    float temperature; /* 1; 0 = the most likely token */
    int top_k;         /* 0 = all */
    float top_p;       /* 1 = all */
    uint64_t seed;
} ll_sampling;
static inline ll_sampling ll_sampling_default(void) {
    ll_sampling usual = {sizeof usual, 1, 0, 1, 0};
    return usual;
}
/* A token drawn from logits (V), which are finite or -INFINITY; a function of (seed, position) alone. logits are
 * overwritten. */
LL_API int ll_sample(float *logits, int V, const ll_sampling *how, int64_t position);

LL_C_END

#endif
