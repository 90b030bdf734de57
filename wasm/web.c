/* What the page in a browser calls: one model from bytes in memory, streams of it, answers about a text. A call that
 * fails returns -1 or NULL, and ll_web_error() says why. Numbers that may be large are doubles, because JavaScript has
 * no other. */
#include <emscripten.h>
#include <stdlib.h>
#include <string.h>

#include "longline.h"
#include "longline-batch.h"
#include "longline-lab/attention_maps.h"

#define WEB EMSCRIPTEN_KEEPALIVE
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* JavaScript needs none */

typedef struct {
    ll_stream *stream;
    float *logits; /* (vocab), after the last token */
} web_session;

static struct {
    uint8_t *file;
    ll_model *model;
    ll_tokenizer *tokenizer;
    int vocab, text_vocab, layers, heads; /* text_vocab: tokens that have a text */
    size_t count;     /* tokens of the last text */
    size_t text_size; /* of the last token */
    float *numbers;   /* of the last answer */
} web;

static const char *trouble = "";

/* 0, or -1 after the error's text has been kept. */
static int failed(ll_status status) {
    if (status) trouble = ll_error();
    return status ? -1 : 0;
}

static int no_memory(void) {
    trouble = "the browser gives this page no more memory; use a smaller model or a shorter text";
    return -1;
}

WEB const char *ll_web_error(void) { return trouble; }

/* ---- The model ---- */

WEB void ll_web_release(void) {
    free(web.file);
    web.file = NULL;
}

/* Where the page puts the bytes of a model file, or NULL. ll_web_open or ll_web_release frees them. */
WEB uint8_t *ll_web_reserve(double size) {
    ll_web_release();
    web.file = size < (double)SIZE_MAX ? malloc((size_t)size + 1) : NULL;
    if (!web.file) no_memory();
    return web.file;
}

static void close_model(void) {
    ll_tokenizer_free(web.tokenizer);
    ll_model_free(web.model);
    free(web.numbers);
    web.tokenizer = NULL, web.model = NULL, web.numbers = NULL;
}

static int whole(const char *key) {
    const char *text = ll_recipe_get(ll_model_recipe(web.model), key);
    return text ? atoi(text) : 0;
}

/* The page goes on with a text. An encoder-decoder has a stream, too, but reads a source first. */
static int check_task(void) {
    const char *task = ll_recipe_get(ll_model_recipe(web.model), "model.task");
    if (!task || strcmp(task, "seq2seq") != 0) return failed(ll_model_can_stream(web.model));
    trouble = "the model makes one text of another (model.task = seq2seq), and this page only goes on with a text; "
              "`longline generate` runs it";
    return -1;
}

/* The libraries that tokenizers of other programs need are not in a browser's build. */
static int open_tokenizer(void) {
    const char *format = ll_recipe_get(ll_model_recipe(web.model), "data.format");
    if (format && (!strcmp(format, "subwords") || !strcmp(format, "pieces"))) {
        trouble = "the model's tokenizer is that of another program, which this page lacks the libraries for; "
                  "`longline serve` shows the same page with it";
        return -1;
    }
    return failed(ll_tokenizer_create(&web.tokenizer, web.model));
}

/* Opens the model file in the reserved bytes. It replaces the model before, whose sessions must have been freed. */
WEB int ll_web_open(double size, const char *name, int threads) {
    close_model();
    ll_set_threads(threads);
    const ll_status status = ll_model_load_bytes(&web.model, web.file, (size_t)size, name);
    ll_web_release();
    if (failed(status) || check_task() || open_tokenizer()) {
        close_model();
        return -1;
    }
    web.vocab = whole("model.vocab");
    web.layers = whole("model.layers");
    web.heads = whole("model.heads");
    web.text_vocab = ll_tokenizer_vocab(web.tokenizer);
    return 0;
}

/* The value of a key of its recipe, or NULL. */
WEB const char *ll_web_fact(const char *key) { return ll_recipe_get(ll_model_recipe(web.model), key); }
WEB const char *ll_web_unit(void) { return ll_recipe_unit(ll_model_recipe(web.model)); }
WEB const char *ll_web_cpu(void) { return ll_cpu(); }
WEB double ll_web_parameters(void) { return (double)ll_model_size(web.model).parameters; }

/* ---- Text ---- */

/* The tokens of a text, ll_web_count() of them, which the page frees with ll_text_free. */
WEB int *ll_web_encode(const char *text, int size) {
    int *tokens = NULL;
    return failed(ll_tokenizer_encode(web.tokenizer, text, (size_t)size, &tokens, &web.count)) ? NULL : tokens;
}
WEB int ll_web_count(void) { return (int)web.count; }

/* The text of a token, ll_web_text_size() bytes, valid until the next call. */
WEB const char *ll_web_text(int token) { return ll_tokenizer_text(web.tokenizer, token, &web.text_size); }
WEB int ll_web_text_size(void) { return (int)web.text_size; }

/* ---- Sessions ---- */

WEB void ll_web_free(web_session *s) {
    if (!s) return;
    ll_stream_free(s->stream);
    free(s->logits);
    free(s);
}

/* A new session, or a copy of `from`. */
WEB web_session *ll_web_session(const web_session *from) {
    web_session *s = calloc(1, sizeof *s);
    if (s) s->logits = malloc((size_t)web.vocab * sizeof *s->logits);
    int code = s && s->logits ? 0 : no_memory();
    if (!code)
        code = failed(from ? ll_stream_clone(&s->stream, from->stream) : ll_stream_create(&s->stream, web.model));
    if (!code && ll_stream_position(s->stream)) code = failed(ll_stream_logits(s->stream, s->logits));
    if (!code) return s;
    ll_web_free(s);
    return NULL;
}

WEB double ll_web_position(const web_session *s) { return (double)ll_stream_position(s->stream); }
/* Is there no learned position for another token? */
WEB int ll_web_full(const web_session *s) { return !ll_stream_left(s->stream); }
WEB double ll_web_bytes(const web_session *s) { return (double)ll_stream_bytes(s->stream); }

/* Reads n >= 1 tokens. */
WEB int ll_web_read(web_session *s, const int *tokens, int n) {
    size_t before;
    const int *special = ll_tokenizer_special(web.tokenizer, LL_SPECIAL_BEFORE, &before);
    ll_status status = LL_OK;
    if (before && !ll_stream_position(s->stream)) status = ll_stream_feed(s->stream, special, (int)before, s->logits);
    if (!status) status = ll_stream_feed(s->stream, tokens, n, s->logits);
    return failed(status);
}

/* Samples the next token, feeds it, and returns it. */
WEB int ll_web_next(web_session *s, double temperature, int top_k, double top_p, double seed) {
    if (!ll_stream_position(s->stream)) {
        trouble = "the session has read nothing; give a prompt";
        return -1;
    }
    ll_sampling how = ll_sampling_default();
    how.temperature = (float)temperature;
    how.top_k = top_k;
    how.top_p = (float)top_p;
    how.seed = (uint64_t)seed;
    const int token = ll_sample(s->logits, web.text_vocab, &how, ll_stream_position(s->stream));
    return failed(ll_stream_feed(s->stream, &token, 1, s->logits)) ? -1 : token;
}

/* ---- Answers about a text ---- */

static float *numbers(size_t n) {
    free(web.numbers);
    web.numbers = malloc(n * sizeof *web.numbers);
    if (!web.numbers) no_memory();
    return web.numbers;
}

/* Log-probabilities (nats) of n >= 1 tokens, each given all that the session has read before it. */
WEB float *ll_web_score(web_session *s, const int *tokens, int n) {
    float *logp = numbers((size_t)n);
    return logp && !failed(ll_stream_score(s->stream, logp, tokens, n)) ? logp : NULL;
}

/* Weights (heads, n) with which token `query` of n attends to each of them in one layer. */
WEB float *ll_web_attention(const int *tokens, int n, int layer, int query) {
    float *weights = numbers((size_t)web.heads * (size_t)n);
    if (!weights || failed(ll_model_attention_rows(web.model, tokens, n, layer, &query, 1, weights))) return NULL;
    return weights;
}
WEB int ll_web_layers(void) { return web.layers; }
WEB int ll_web_heads(void) { return web.heads; }
