/* What a seq2seq model makes of a source: the source goes through the encoder once, then the target comes byte by byte,
 * until the token that ends it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speak.h"

enum { SOURCE_MOST = 1 << 26 };

/* A whole file as text; the newline at its end is the file's. -1, or the exit code. */
static int read_file(const char *path, uint8_t **text, size_t *size) {
    const int standard = !strcmp(path, "-");
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file) {
        ll_say("cannot read %s: %s", path, strerror(errno));
        return 2;
    }
    size_t n = 0, room = 0;
    int code = -1;
    for (size_t got = 1; got && code < 0; n += got) {
        if (n == room) {
            uint8_t *more = realloc(*text, room = room ? 2 * room : 4096);
            if (more) *text = more;
            if (!more) code = ll_trouble("out of memory");
            if (code >= 0) break;
        }
        got = fread(*text + n, 1, room - n, file);
        if (n > SOURCE_MOST) code = ll_usage("%s is longer than %d bytes", path, SOURCE_MOST);
    }
    if (code < 0 && ferror(file)) {
        ll_say("cannot read %s: %s", standard ? "standard input" : path, strerror(errno));
        code = 2;
    }
    if (!standard) fclose(file);
    *size = n && (*text)[n - 1] == '\n' ? n - 1 : n;
    return code;
}

/* -1, or the exit code. */
static int read_source(ll_stream *stream, const uint8_t *text, size_t n) {
    int *tokens = malloc((n + 2) * sizeof *tokens);
    if (!tokens) return ll_trouble("out of memory");
    tokens[0] = LL_TOKEN_BEGIN;
    for (size_t i = 0; i < n; i++) tokens[i + 1] = text[i];
    tokens[n + 1] = LL_TOKEN_END;
    const ll_status status = ll_stream_source(stream, tokens, (int)n + 2);
    free(tokens);
    return status ? ll_failed(status, NULL) : -1;
}

static int write_target(ll_stream *stream, const ll_sampling *how, int64_t most) {
    float logits[LL_TOKEN_COUNT];
    int token = LL_TOKEN_BEGIN;
    for (int64_t n = 0;; n++) {
        const ll_status status = ll_stream_feed(stream, &token, 1, logits);
        if (status) return ll_failed(status, NULL);
        token = ll_sample(logits, LL_TOKEN_COUNT, how, ll_stream_position(stream));
        if (token == LL_TOKEN_END || (most && n == most)) break;
        if (token < LL_TOKEN_PAD) putchar(token);
        if (fflush(stdout)) return 1; /* main says why */
    }
    putchar('\n');
    char state[24];
    ll_say("%lld bytes; the stream holds %s", (long long)ll_stream_position(stream) - 1,
           ll_size(state, (double)ll_stream_bytes(stream)));
    return 0;
}

int ll_answer(ll_model *model, const char *prompt, const char *prompt_file, const ll_sampling *how, int64_t most) {
    const char *vocab = ll_recipe_get(ll_model_recipe(model), "model.vocab");
    if (!vocab || atoi(vocab) != LL_TOKEN_COUNT) {
        ll_say("the model has %s different tokens, and bytes with their ends are %d", vocab, LL_TOKEN_COUNT);
        return 2;
    }
    if (!prompt && !prompt_file) return ll_usage("the model makes texts from others; give it one: --prompt TEXT");
    uint8_t *text = NULL;
    size_t size = prompt ? strlen(prompt) : 0;
    ll_stream *stream = NULL;
    int code = prompt_file ? read_file(prompt_file, &text, &size) : -1;
    if (code < 0) {
        const ll_status status = ll_stream_create(&stream, model);
        code = status ? ll_failed(status, NULL) : -1;
    }
    if (code < 0) code = read_source(stream, prompt ? (const uint8_t *)prompt : text, size);
    if (code < 0) code = write_target(stream, how, most);
    ll_stream_free(stream);
    free(text);
    return code;
}
