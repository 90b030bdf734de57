/* The answers of a model to held-out sources, beside the targets: the most likely token each time, up to the one that
 * ends an answer. */
#include <string.h>

#include "base/memory.h"
#include "study/study.h"

enum { SHOWN = 12, MOST = 200 /* bytes of a text that are shown */ };

typedef struct {
    char source[MOST + 4], wanted[MOST + 4], answer[MOST + 4];
    int right;
} example;

/* The text of tokens, without those that begin and end it. A text that is cut ends behind a whole UTF-8 character. */
static void read_text(char out[MOST + 4], const int *tokens, int n) {
    size_t size = 0;
    int cut = 0; /* the first byte that is left out, or 0 */
    for (int i = 0; i < n && !cut; i++) {
        if (tokens[i] <= 0 || tokens[i] >= LL_TOKEN_PAD) continue;
        if (size < MOST)
            out[size++] = (char)tokens[i];
        else
            cut = tokens[i];
    }
    while (size && (cut & 0xc0) == 0x80) cut = (unsigned char)out[--size];
    memcpy(out + size, cut ? "..." : "", cut ? 4 : 1);
}

/* The answer to the source that the stream has read: at most n tokens, of which *count came before the end. */
static ll_status answer(ll_stream *stream, float *logits, int V, int *tokens, int n, int *count) {
    const ll_sampling likeliest = {.temperature = 0, .top_p = 1};
    ll_status status = LL_OK;
    int token = LL_TOKEN_BEGIN;
    for (*count = 0; *count < n && !status; ++*count) {
        status = ll_stream_feed(stream, &token, 1, logits);
        if (status) break;
        token = ll_sample(logits, V, &likeliest, ll_stream_position(stream));
        if (token == LL_TOKEN_END) break;
        tokens[*count] = token;
    }
    return status;
}

static ll_status ask(const ll_study *s, ll_stream *stream, const ll_batch *b, int row, float *logits, int *tokens,
                     example *e) {
    const int *source = b->source + (size_t)row * (size_t)b->S, *targets = b->targets + (size_t)row * (size_t)b->T;
    int wanted = 0, count = 0;
    while (wanted < b->T && targets[wanted] >= 0 && targets[wanted] != LL_TOKEN_END) wanted++;
    ll_status status = ll_stream_source(stream, source, b->source_lengths[row]);
    if (!status) status = answer(stream, logits, s->c->model.vocab, tokens, b->T, &count);
    read_text(e->source, source, b->source_lengths[row]);
    read_text(e->wanted, targets, wanted);
    read_text(e->answer, tokens, count);
    e->right = count == wanted && !memcmp(tokens, targets, (size_t)count * sizeof *tokens);
    return status;
}

static void show(const ll_study *s, const example *e, int n) {
    static const char *const head[3] = {"source", "should become", "becomes"};
    const ll_html_table table = {.label = "Answers", .cols = 3, .head = head};
    ll_html_paragraph(s->h,
                      "What the model makes of held-out sources, the likeliest token each time; wrong answers are "
                      "marked:");
    ll_html_table_begin(s->h, &table);
    for (int i = 0; i < n; i++) {
        const char *const cells[3] = {e[i].source, e[i].wanted, e[i].right ? "the same" : e[i].answer};
        ll_html_row(s->h, 3, cells, !e[i].right);
    }
    ll_html_table_end(s->h);
}

ll_status ll_study_answers(const ll_study *s) {
    ll_stream *stream = NULL;
    ll_batch batch = {0};
    example *e = ll_alloc(SHOWN, sizeof *e);
    float *logits = ll_alloc((size_t)s->c->model.vocab, sizeof *logits);
    int *tokens = ll_alloc((size_t)s->window.train.length, sizeof *tokens), n = 0;
    ll_status status = e && logits && tokens ? ll_batch_create(&batch, &s->window) : LL_ENOMEM;
    if (!status) status = ll_stream_create(&stream, s->model);
    const double work = ll_model_cost(s->model, s->window.train.length).multiply_adds * s->window.train.length;
    const int most = ll_study_bound(work, 1, SHOWN);
    const int64_t batches = ll_reader_eval_batches(s->data);
    for (int64_t i = 0; i < batches && n < most && !status; i++) {
        ll_reader_eval_batch(s->data, &batch, i);
        for (int row = 0; row < batch.B && n < most && !status; row++)
            if (batch.source_lengths[row] > 0) status = ask(s, stream, &batch, row, logits, tokens, &e[n++]);
    }
    if (!status) show(s, e, n);
    ll_stream_free(stream);
    ll_batch_free(&batch);
    ll_free(tokens);
    ll_free(logits);
    ll_free(e);
    return status;
}
