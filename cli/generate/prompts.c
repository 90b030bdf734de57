/* Many prompts, one a line: what the model makes of each, on a line of its own. Ranks take prompts in turn, and rank 0
 * writes the answers in the order of the prompts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "generate/generate_output.h"

enum { PROMPTS_MOST = 1 << 28 }; /* bytes */

/* On one line: what could not be told from its end, or seen, is escaped as in C. */
static void write_escaped(FILE *to, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            fputs("\\n", to);
        else if (c == '\\')
            fputs("\\\\", to);
        else if (c == '\t')
            fputs("\\t", to);
        else if (c < 32 || c == 127)
            fprintf(to, "\\x%02x", c);
        else
            fputc(c, to);
    }
}

static const char *source;      /* of the prompts */
static ll_text_output output;   /* of one prompt after the other, */
static const ll_stream *before; /* each of which begins with a copy of this */

/* -1, or the exit code. */
static int generate_one(const ll_question *q, const char *line, size_t n, FILE *to) {
    ll_text_output *s = &output;
    ll_status status = ll_text_output_begin(s, before);
    if (!status) status = ll_text_output_feed(s, (const uint8_t *)line, n);
    if (!status) status = ll_text_output_flush(s);
    if (!status && !ll_stream_position(s->stream)) { /* as for a prompt that is empty */
        status = ll_text_output_feed(s, (const uint8_t *)"\n", 1);
        if (!status) status = ll_text_output_flush(s);
    }
    int64_t i = 0;
    for (; i < q->most && !status && !ll_text_output_ended(s); i++) {
        const char *text;
        size_t size;
        status = ll_text_output_next(s, &q->how, &text, &size);
        if (!status) fwrite(text, 1, size, to);
    }
    if (i < q->most && !status) ll_print_end("text", ll_text_output_position(s), q->place);
    return status ? ll_failed_at(status, q->place) : -1;
}

/* The answer to prompt number i, as text that is to be freed, or NULL. -1, or the exit code. */
static int answer(ll_model *model, const ll_question *q, int64_t i, const char *line, size_t n, char **text,
                  size_t *size) {
    ll_question own = *q;
    char place[PATH_MAX + 40];
    snprintf(place, sizeof place, "%s, line %lld", source, (long long)i + 1);
    own.place = place;
    *text = NULL;
    FILE *to = open_memstream(text, size);
    if (!to) return ll_fail_message("out of memory");
    own.how.seed += (uint64_t)i;
    int code = q->pairs ? ll_answer_line(model, &own, line, n, to) : generate_one(&own, line, n, to);
    if (fclose(to) && code < 0) code = ll_fail_message("out of memory");
    return code;
}

/* The answer of another rank comes to rank 0. A prompt that failed there is done again here, to say why. */
static int take(ll_model *model, const ll_question *q, int64_t i, const char *line, size_t n, int from, char **text,
                size_t *size) {
    size_t found = *size;
    ll_status status = ll_dist_collect(&found, sizeof found, from);
    if (status) return ll_failed(status, NULL);
    if (found == SIZE_MAX) return ll_dist_ranks().rank ? -1 : answer(model, q, i, line, n, text, size);
    if (ll_dist_ranks().rank) return ll_dist_collect(*text, found, from) ? 1 : -1;
    if (!(*text = malloc(found + 1))) return ll_fail_message("out of memory");
    *size = found;
    status = ll_dist_collect(*text, found, from);
    return status ? ll_failed(status, NULL) : -1;
}

/* One prompt: by the rank whose turn it is, written by rank 0. -1, or the exit code. */
static int serve(ll_model *model, const ll_question *q, int64_t i, const char *line, size_t n) {
    const ll_ranks ranks = ll_dist_ranks();
    const int from = (int)(i % ranks.size);
    char *text = NULL;
    size_t size = 0;
    int code = from == ranks.rank ? answer(model, q, i, line, n, &text, &size) : -1;
    if (code >= 0 && from) size = SIZE_MAX; /* rank 0 finds the same, says why, and ends all */
    if (from && (from == ranks.rank || !ranks.rank)) code = take(model, q, i, line, n, from, &text, &size);
    if (code < 0 && !ranks.rank) {
        write_escaped(stdout, text, size);
        putchar('\n');
        if (ll_stdout_flush()) code = 1; /* main says why */
    }
    free(text);
    return code;
}

/* Ranks whose files differ would answer other prompts. -1, or the exit code. */
static int compare_files(const char *what, const char *path) {
    char sum[65] = "";
    int64_t bytes;
    if (ll_dist_ranks().size == 1) return -1;
    ll_status status = ll_data_checksum(path, sum, &bytes);
    if (status) return ll_failed(status, path);
    status = ll_dist_same(what, sum, "give all machines the same file");
    return status ? ll_failed(status, NULL) : -1;
}

/* -1, or the exit code. */
static int compare_ranks(const ll_model *model, const ll_question *q, const char *path) {
    const ll_status status = ll_dist_same_model(model);
    int code = status ? ll_failed(status, NULL) : compare_files("the checksum of --prompts", path);
    if (code < 0 && q->load_state) code = compare_files("the checksum of --load-state", q->load_state);
    return code;
}

/* What all lines share: the tokenizer, and the stream that each begins with. -1, or the exit code. */
static int open_output(ll_stream **first, ll_model *model, const char *state) {
    const int code = ll_text_output_create(&output, model, state);
    before = *first = output.stream;
    output.stream = NULL;
    return code;
}

int ll_answer_prompts(ll_model *model, const ll_question *q, const char *path) {
    char *text = NULL;
    ll_stream *first = NULL;
    size_t size = 0, at = 0, n;
    const char *line;
    if (ll_dist_ranks().size > 1 && !strcmp(path, "-"))
        return ll_usage("standard input goes to one rank alone; give --prompts a file");
    source = path;
    int code = compare_ranks(model, q, path);
    if (code < 0) code = ll_read_whole(path, PROMPTS_MOST, &text, &size);
    if (code < 0 && !q->pairs) code = open_output(&first, model, q->load_state);
    ll_progress_line progress = ll_progress_of(LL_PROGRESS_SHARE, "prompts");
    for (int64_t i = 0; code < 0 && ll_next_line(text, size, &at, &line, &n); i++) {
        code = serve(model, q, i, line, n);
        if (!isatty(STDOUT_FILENO)) (void)ll_progress_report((int64_t)at, (int64_t)size, &progress);
    }
    ll_progress_end(&progress);
    ll_text_output_free(&output);
    ll_stream_free(first);
    free(text);
    return code < 0 ? 0 : code;
}
