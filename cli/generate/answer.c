/* The answer of a seq2seq model to a source. The source goes through the encoder once. Then the target is generated
 * byte by byte, until the token that ends it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate/generate_output.h"

enum { SOURCE_MOST = 1 << 26 };
#define NOT_SAVED "the state was not saved"

/* A whole file as text, without the newline at its end. -1, or the exit code. */
static int read_file(const char *path, char **text, size_t *size) {
    const int code = ll_read_whole(path, SOURCE_MOST, text, size);
    if (code < 0 && *size && (*text)[*size - 1] == '\n') --*size;
    return code;
}

/* -1, or the exit code. */
static int ended(ll_status status, const char *place) {
    if (!status) return -1;
    return place ? ll_failed_at(status, place) : ll_failed(status, NULL);
}

/* place: of the text, for errors; or NULL. -1, or the exit code. */
static int read_source(ll_stream *stream, ll_model *model, const uint8_t *text, size_t n, const char *place) {
    if (!n) {
        ll_print("%s%sthe source is empty, and no model is trained on such; give it some text", place ? place : "",
                 place ? ": " : "");
        return 2;
    }
    int *tokens = malloc((n + 2) * sizeof *tokens);
    if (!tokens) return ll_fail_message("out of memory");
    tokens[0] = LL_TOKEN_BEGIN;
    for (size_t i = 0; i < n; i++) tokens[i + 1] = text[i];
    tokens[n + 1] = LL_TOKEN_END;
    ll_progress_line progress = ll_progress_of(LL_PROGRESS_SHARE, "source read");
    ll_model_watch(model, ll_progress_report, &progress);
    const ll_status status = ll_stream_source(stream, tokens, (int)n + 2);
    ll_model_watch(model, NULL, NULL);
    ll_progress_end(&progress);
    free(tokens);
    return ended(status, place);
}

/* Generates from the present token until the target ends. -1, or the exit code. */
static int write_target(ll_stream *stream, const ll_question *q, FILE *to) {
    float logits[LL_TOKEN_COUNT];
    int token = LL_TOKEN_BEGIN;
    ll_status status =
        ll_stream_position(stream) ? ll_stream_logits(stream, logits) : ll_stream_feed(stream, &token, 1, logits);
    for (int64_t n = 0; !status && !ll_stop_wanted(); n++) {
        const int full = !ll_stream_left(stream); /* what comes now can never be read: a saved target ends before it */
        token = ll_sample(logits, LL_TOKEN_COUNT, &q->how, ll_stream_position(stream));
        if (token == LL_TOKEN_END || (q->most && n == q->most)) break;
        if (token < LL_TOKEN_PAD && !(full && q->save_state)) fputc(token, to);
        if (fflush(to)) {
            if (!q->save_state) return 1; /* main prints why */
            ll_output_lost();
            break;
        }
        if (full) {
            ll_print_end("target", ll_stream_position(stream), q->place);
            break;
        }
        status = ll_stream_feed(stream, &token, 1, logits);
    }
    return ended(status, q->place);
}

/* before: the position where generation began; the token in front of a target has one, too. A state that grows with the
 * source and the target is not told. */
static void print_end(const ll_model *model, const ll_stream *stream, int64_t before) {
    char size[24], state[64] = "";
    const size_t bytes = ll_state_at(model, 1);
    const int64_t now = ll_stream_position(stream), made = now ? now - (before ? before : 1) : 0;
    putchar('\n');
    if (bytes == ll_state_at(model, 1 << 20))
        snprintf(state, sizeof state, "; the state has %s", ll_size(size, (double)bytes));
    ll_print("%lld bytes%s", (long long)made, state);
}

static int save(const ll_stream *stream, const char *path) {
    const ll_status status = ll_stream_save(stream, path);
    if (status) return ll_failed(status, NULL);
    char quoted[LL_QUOTED];
    ll_print("state after byte %lld of the target saved; go on with: --load-state %s",
             (long long)(ll_stream_position(stream) ? ll_stream_position(stream) - 1 : 0), ll_quoted(quoted, path));
    return 0;
}

static int check_model(const ll_model *model) {
    const int vocab = ll_model_size(model).vocab;
    if (vocab != LL_TOKEN_COUNT) {
        ll_print("the model has %d different tokens; bytes with begin and end are %d", vocab, LL_TOKEN_COUNT);
        return 2;
    }
    return -1;
}

static int check_usage(const ll_question *q, const ll_model *model) {
    const int code = check_model(model);
    if (code >= 0) return code;
    if (q->load_state && (q->prompt || q->prompt_file))
        return ll_usage("the state has a source already; to give another one, leave out --load-state");
    if (!q->load_state && !q->prompt && !q->prompt_file)
        return ll_usage("the model turns one text into another; give a source: --prompt TEXT");
    return -1;
}

/* A stream with its source. -1, or the exit code. */
static int begin(ll_stream **stream, ll_model *model, const ll_question *q) {
    char *text = NULL;
    size_t size = q->prompt ? strlen(q->prompt) : 0;
    int code = q->prompt_file ? read_file(q->prompt_file, &text, &size) : -1;
    if (code < 0) {
        const ll_status status =
            q->load_state ? ll_stream_load(stream, model, q->load_state) : ll_stream_create(stream, model);
        code = status ? ll_failed(status, q->load_state) : -1;
    }
    if (code < 0 && !q->load_state)
        code = read_source(*stream, model, (const uint8_t *)(q->prompt ? q->prompt : text), size, NULL);
    free(text);
    return code;
}

int ll_answer(ll_model *model, const ll_question *q) {
    ll_stream *stream = NULL;
    int code = check_usage(q, model);
    if (q->save_state) signal(SIGPIPE, SIG_IGN);
    if (code < 0 && q->save_state) ll_stop_on_signals(0, "stopping", NOT_SAVED);
    if (code < 0) code = begin(&stream, model, q);
    if (code >= 0 && q->save_state && ll_stop_wanted()) ll_print(NOT_SAVED);
    if (code < 0 && q->save_state) ll_stop_on_signals(0, "saving", NOT_SAVED);
    if (code < 0 && !q->only_read) {
        const int64_t before = ll_stream_position(stream);
        code = write_target(stream, q, stdout);
        if (code < 0) print_end(model, stream, before);
    }
    if (code < 0) code = q->save_state ? ll_output_code(save(stream, q->save_state)) : 0;
    ll_stream_free(stream);
    return code;
}

int ll_answer_line(ll_model *model, const ll_question *q, const char *text, size_t n, FILE *to) {
    ll_stream *stream = NULL;
    int code = check_model(model);
    if (code < 0) code = ended(ll_stream_create(&stream, model), q->place);
    if (code < 0) code = read_source(stream, model, (const uint8_t *)text, n, q->place);
    if (code < 0) code = write_target(stream, q, to);
    ll_stream_free(stream);
    return code;
}
