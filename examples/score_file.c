/* Tells how likely a model thinks each sequence of some files is, and where it is surprised most. Files are lines,
 * JSONL, FASTA, images (idx, PNG), plain or packed (.gz, .xz, .zst). Sequences of any length: a stream scores them
 * piece by piece, which for models over bytes may be cut anywhere.
 *
 *     cc score_file.c $(pkg-config --cflags --libs longline) && ./a.out runs/mine/best.safetensors lines.txt
 */
#include <longline.h>
#include <stdio.h>

enum { PIECE = 4096 };

typedef struct {
    double sum;       /* log-probability so far */
    int64_t position; /* tokens so far */
    int64_t where;    /* of the least likely one */
    float least;
} result;

/* Adds up to PIECE tokens. */
static ll_status add_tokens(result *r, ll_stream *stream, const int *tokens, int n) {
    float logp[PIECE];
    const ll_status status = ll_stream_score(stream, logp, tokens, n);
    for (int i = 0; i < n && !status; i++, r->position++) {
        r->sum += (double)logp[i];
        if (logp[i] < r->least) r->least = logp[i], r->where = r->position;
    }
    return status;
}

/* Adds one piece of a sequence. It may have more tokens than bytes. */
static ll_status add_piece(result *r, ll_stream *stream, const ll_tokenizer *tokenizer, const ll_sequence *s) {
    int *tokens = NULL;
    size_t n = 0;
    ll_status status = s->size ? ll_tokenizer_encode(tokenizer, s->text, s->size, &tokens, &n) : LL_OK;
    for (size_t i = 0; i < n && !status; i += PIECE)
        status = add_tokens(r, stream, tokens + i, n - i < PIECE ? (int)(n - i) : PIECE);
    ll_text_free(tokens);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s MODEL FILE...\n", argv[0]);
        return 2;
    }
    ll_model *model = NULL;
    ll_stream *stream = NULL;
    ll_tokenizer *tokenizer = NULL;
    ll_input *input = NULL;
    ll_sequence s;
    result r = {0};
    int found = 1;
    const ll_input_options how = {.struct_size = sizeof how, .piece = PIECE};

    ll_status status = ll_model_load(&model, argv[1]);
    if (!status) status = ll_stream_create(&stream, model);
    if (!status) status = ll_tokenizer_create(&tokenizer, model);
    if (!status) status = ll_input_open(&input, (const char *const *)argv + 2, argc - 2, &how);
    while (!status && !(status = ll_input_next(input, &s, &found)) && found) {
        if (s.begins) {
            ll_stream_reset(stream);
            r = (result){0};
        }
        status = add_piece(&r, stream, tokenizer, &s);
        if (s.ends && !status)
            printf("%s: log-probability %.2f, least likely at %lld\n", s.id, r.sum, (long long)r.where);
    }
    if (status) fprintf(stderr, "score: %s\n", ll_error());
    ll_input_close(input);
    ll_tokenizer_free(tokenizer);
    ll_stream_free(stream);
    ll_model_free(model);
    return status ? 1 : 0;
}
