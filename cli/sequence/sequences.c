/* The loop over sequences. They are read, made into tokens, and gathered in a window. Long ones are scored piece by
 * piece as a stream. */
#include "sequence/sequences.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *format, *text_key, *id_key;
static int whole;
static int64_t length, window = 1024;

const ll_arg ll_sequence_args[] = {
    {LL_ARG_TEXT, 0, "format", "KIND", &format, 0, 0,
     "lines, jsonl, fasta, idx, png or midi; default: by the first byte of each file, or the model"},
    {LL_ARG_FLAG, 0, "whole", NULL, &whole, 0, 0, "each file is one sequence"},
    {LL_ARG_TEXT, 0, "text-key", "KEY", &text_key, 0, 0, "key of the text in JSONL; default text or sequence"},
    {LL_ARG_TEXT, 0, "id-key", "KEY", &id_key, 0, 0, "key of the name in JSONL; default id"},
    {LL_ARG_INTEGER, 0, "length", "N", &length, 0, 1e9, "uses the first N tokens of a sequence; 0 = all"},
    {LL_ARG_INTEGER, 0, "window", "N", &window, 1, 1e6,
     "sequences read ahead and batched by length; 1 answers each at once"},
    {.type = LL_ARG_END},
};

typedef struct {
    const ll_job *job;
    ll_window w;
    ll_input *input;
    ll_tokenizer *tokenizer;
    ll_stream *stream;          /* NULL: long sequences go through the model like others */
    int *before, *after, image; /* tokens around every sequence; pixels of an image, 0: the model reads no images */
    size_t before_n, after_n;
    ll_item item; /* the current sequence ... */
    char *text;   /* ... and its text that is not tokens yet */
    size_t n, capacity;
    int64_t taken; /* bytes of its text so far, or tokens if bytes are not tokens */
    int streaming; /* it goes through the stream */
    int by_byte;   /* a piece of text can be coded by itself, byte by byte; else lines can */
    int whole;     /* or the text can be coded only as a whole */
    float logp[LL_PIECE + 1];
    int64_t sequences;
    int64_t trained, longer; /* tokens of a text that a classifier was trained on, 0: of all; longer ones so far */
    ll_line line;
    int files; /* that are read, and ... */
    const char **paths;
    int file;      /* ... the number, from 1, of the one with the last sequence */
    int headed;    /* the header of the answers is written */
    double start, shown, wrote; /* times: of the beginning, of the last line of progress, of the last answers */
    int64_t answered; /* bytes of the input whose sequences have been answered */
    int64_t read, begun; /* bytes of the input that were read before the last piece; before the current sequence */
} run;

/* ---- Progress ---- */

/* Does a terminal get the answers, and has it just got some, or half a line? */
static int is_busy(const run *r, double now) {
    if (r->job->quiet || !isatty(STDOUT_FILENO)) return 0;
    return now - r->wrote < 2 || (r->streaming && r->job->in_parts);
}

/* "1200 sequences, 3.4 MB of 28 MB, eta 0:23", after two seconds. share: the part of what was read behind r->answered
 * that has been answered meanwhile. Non-zero, after a message, if a signal ends the run. */
static int progress(void *arg, double share) {
    run *r = arg;
    const double now = ll_now();
    ll_reading_line_end();
    if (ll_stop_wanted()) {
        ll_print("interrupted after %lld sequences", (long long)(r->sequences - r->w.n));
        return 1;
    }
    if (is_busy(r, now) || now - r->start < 2) return 0;
    if (now - r->shown < (r->line.moves ? 0.1 : 10)) return 0;
    int64_t read, total;
    char a[24], b[24], eta[24];
    ll_fields fields = {0};
    ll_input_progress(r->input, &read, &total);
    const double done = (double)r->answered + share * (double)(read - r->answered);
    const double sequences = (double)r->sequences - (1 - share) * r->w.n;
    ll_field_add(&fields, 3, "%.0f sequences, ", sequences);
    ll_field_add(&fields, 1, "%s", ll_size(a, done));
    if (r->streaming && r->by_byte && length) total = ll_bytes_wanted(r->begun, read, total, r->taken, length);
    if (total > 0 && done > 0) {
        ll_field_add(&fields, 1, " of %s", ll_size(b, (double)total));
        ll_field_add(&fields, 2, ", eta %s", ll_duration(eta, (now - r->start) * ((double)total - done) / done));
    }
    ll_line_show(&r->line, &fields);
    r->shown = now;
    return 0;
}

/* All that was read has been answered. end: there is no more. */
static int flush(run *r, int end) {
    int64_t total;
    const int code = end ? ll_window_end(&r->w) : ll_window_flush(&r->w);
    r->wrote = ll_now();
    ll_input_progress(r->input, &r->answered, &total);
    return code;
}

/* ---- Tokens ---- */

/* The part of r->text whose tokens do not depend on what follows. */
static size_t ready(const run *r) {
    const char *last = r->by_byte || r->whole || r->item.ends || !r->n ? NULL : memrchr(r->text, '\n', r->n);
    return r->by_byte || r->item.ends ? r->n : last ? (size_t)(last - r->text) + 1 : 0;
}

/* The tokens of that part, which is removed from the text. */
static ll_status take_tokens(run *r, int **tokens, size_t *n) {
    const size_t size = ready(r);
    const ll_status status = size ? ll_tokenizer_encode(r->tokenizer, r->text, size, tokens, n) : LL_OK;
    if (status) return status;
    r->n -= size;
    if (r->n) memmove(r->text, r->text + size, r->n);
    if (r->by_byte) return LL_OK;
    if (length && (int64_t)*n > length - r->taken) *n = (size_t)(length - r->taken);
    r->taken += (int64_t)*n;
    return LL_OK;
}

/* Makes tokens of before (at the beginning of the sequence) + r->text + after (at its end), as r->item. */
static int make_tokens(run *r) {
    ll_item *item = &r->item;
    int *text = NULL;
    size_t n = 0;
    const ll_status status = take_tokens(r, &text, &n);
    if (status) return ll_item_failed(status, item);
    const size_t before = item->begins ? r->before_n : 0, after = item->ends ? r->after_n : 0, all = before + n + after;
    item->n = all < INT_MAX / 2 ? (int)all : 0;
    item->tokens = item->n || !all ? malloc((all + 1) * sizeof *text) : NULL;
    if (item->tokens) {
        if (before) memcpy(item->tokens, r->before, before * sizeof *text);
        if (n) memcpy(item->tokens + before, text, n * sizeof *text);
        if (after) memcpy(item->tokens + before + n, r->after, after * sizeof *text);
    }
    ll_text_free(text);
    if (r->image && n != (size_t)r->image) {
        ll_print("%s: sequence %s has %zu tokens; the model reads images of %d numbers, from PNG or idx files",
                 item->file, item->id, n, r->image);
        return 2;
    }
    return item->tokens ? -1
                        : ll_fail_message("no memory for the %zu tokens of sequence %s%s", all, item->id, LL_USE_LESS);
}

static int keep_text(run *r, const uint8_t *text, size_t n) {
    if (length && r->by_byte && (int64_t)n > length - r->taken) n = (size_t)(length - r->taken);
    if (r->capacity - r->n < n) {
        const size_t capacity = 2 * r->capacity + n;
        char *more = realloc(r->text, capacity);
        if (!more)
            return ll_fail_message("%s: no memory for %zu bytes of sequence %s%s", r->item.file, capacity, r->item.id,
                                   LL_USE_LESS);
        r->text = more;
        r->capacity = capacity;
    }
    if (n) memcpy(r->text + r->n, text, n);
    r->n += n;
    if (r->by_byte) r->taken += (int64_t)n;
    return -1;
}

/* ---- Sequences ---- */

static void free_item(ll_item *item) {
    free(item->id);
    free(item->file);
    free(item->label);
    free(item->tokens);
    *item = (ll_item){0};
}

static int begin(run *r, const ll_sequence *s) {
    ll_note_empty(r->files, r->paths, &r->file, s->file);
    free_item(&r->item);
    r->item = (ll_item){.id = strdup(s->id), .file = strdup(s->file), .line = s->line, .begins = 1};
    r->item.first = -(int64_t)r->before_n;
    r->n = 0;
    r->taken = 0;
    r->streaming = 0;
    r->begun = r->read;
    if (s->label) r->item.label = strdup(s->label);
    return r->item.id && r->item.file && (r->item.label || !s->label) ? -1 : ll_fail_message("out of memory");
}

/* Runs what has been gathered through the stream, and shows it. */
static int stream_part(run *r, int ends) {
    ll_item *item = &r->item;
    item->ends = ends;
    int code = make_tokens(r);
    const int shows = !ll_dist_ranks().rank; /* a stream goes from token to token, so one rank has it */
    for (int done = 0, n; shows && code < 0 && (done < item->n || ends); done += n) {
        n = item->n - done < LL_PIECE ? item->n - done : LL_PIECE;
        const ll_status status = n ? ll_stream_score(r->stream, r->logp, item->tokens + done, n) : LL_OK;
        if (status) return ll_item_failed(status, item);
        ll_item part = *item;
        part.tokens += done;
        part.n = n;
        part.ends = ends && done + n == item->n;
        part.answer = r->logp;
        if (part.ends) ll_window_answers(&r->w);
        code = r->job->show(&part);
        item->begins = 0;
        item->first += n;
        if (part.ends) break;
    }
    int64_t total;
    if (ends) r->wrote = ll_now();
    free(item->tokens);
    item->tokens = NULL;
    ll_input_progress(r->input, &r->answered, &total);
    return code < 0 && ll_stdout_flush() ? 1 : code;
}

static int end(run *r) {
    r->sequences++;
    if (r->streaming) return stream_part(r, 1);
    r->item.ends = 1;
    const int code = make_tokens(r);
    if (code >= 0) return code;
    r->longer += r->trained && r->taken > r->trained;
    const int added = ll_window_add(&r->w, &r->item);
    if (added >= 0) return added;
    r->item = (ll_item){0};
    return ll_window_full(&r->w, window) ? flush(r, 0) : -1;
}

/* A piece of a sequence. A long one that a stream can score is not gathered. */
static int take(run *r, const ll_sequence *s) {
    int code = s->begins ? begin(r, s) : -1;
    if (code < 0) code = keep_text(r, s->text, s->size);
    if (code >= 0) return code;
    if (s->ends) return end(r);
    if (!r->stream || (r->by_byte && length && length <= LL_PIECE)) return -1;
    if (!r->streaming) {
        code = flush(r, 0);
        ll_stream_reset(r->stream);
        r->streaming = 1;
    }
    return code < 0 ? stream_part(r, 0) : code;
}

static int loop(run *r) {
    for (;;) {
        ll_sequence s;
        int64_t total;
        int found = 0;
        if (progress(r, 0)) return 1;
        ll_input_progress(r->input, &r->read, &total);
        const ll_status status = ll_input_next(r->input, &s, &found);
        if (status) {
            /* What was read before an error is answered first; the text of the error is kept meanwhile. */
            char text[1000];
            snprintf(text, sizeof text, "%s", ll_error());
            const int code = flush(r, 0);
            if (code >= 0) return code;
            ll_print("%s", text);
            return status == LL_EFORMAT || status == LL_EINVAL ? 2 : 1;
        }
        if (!r->headed && r->job->header) r->job->header();
        r->headed = 1;
        if (!found) ll_note_empty(r->files, r->paths, &r->file, NULL);
        if (!found) return flush(r, 1);
        const int code = take(r, &s);
        if (code >= 0) return code;
    }
}

/* ---- Beginning and end ---- */

static const char *value(const ll_job *job, const char *key) {
    const char *text = ll_recipe_get(ll_model_recipe(job->model), key);
    return text ? text : "";
}

/* Training and evaluation cut texts with classes, and a model may answer otherwise to what it never saw. */
static void note_longer(const run *r) {
    const long long T = (long long)r->trained;
    if (r->longer)
        ll_print("%lld of %lld texts are longer than train.length = %lld, to which training and eval cut them, and are "
                 "read whole; --length %lld cuts them, too",
                 (long long)r->longer, (long long)r->sequences, T, T);
}

/* What goes before each sequence, or after it: the tokenizer's own tokens outermost, and those of a text. */
static ll_status encode_end(run *r, ll_special end, const char *text, int **tokens, size_t *n) {
    size_t own = 0;
    int *words = NULL;
    const int *special = ll_tokenizer_special(r->tokenizer, end, &own);
    const ll_status status = text && *text ? ll_tokenizer_encode(r->tokenizer, text, strlen(text), &words, n) : LL_OK;
    if (status) return status;
    *tokens = malloc((*n + own + 1) * sizeof **tokens);
    if (*tokens && own) memcpy(*tokens + (end == LL_SPECIAL_BEFORE ? 0 : *n), special, own * sizeof *special);
    if (*tokens && *n) memcpy(*tokens + (end == LL_SPECIAL_BEFORE ? own : 0), words, *n * sizeof *words);
    *n += own;
    ll_text_free(words);
    return *tokens ? LL_OK : LL_ENOMEM;
}

/* Is the model's state as large after a million tokens as after one? Then long sequences need not be gathered. */
static ll_status make_stream(run *r) {
    ll_model *m = r->job->model;
    const size_t bytes = ll_model_cost(m, 1).stream_bytes;
    if (!r->job->scored || !bytes || bytes != ll_model_cost(m, 1 << 20).stream_bytes) return LL_OK;
    return ll_stream_create(&r->stream, m);
}

static int open_all(run *r, int files, const char **paths) {
    static const char *standard_input[] = {"-"};
    ll_input_options how = ll_input_of(ll_model_recipe(r->job->model));
    how.text_key = text_key;
    how.id_key = id_key;
    how.label_key = r->job->label_key;
    how.labels = r->job->labels;
    how.piece = LL_PIECE;
    const int music = ll_format_input(value(r->job, "data.format")) == LL_INPUT_MIDI;
    const int code = ll_choose_format(&how.format, format, whole, music);
    if (code >= 0) return code;
    if (how.labels && how.format == LL_INPUT_AUTO) how.format = LL_INPUT_IDX;
    if (how.labels && how.format != LL_INPUT_IDX) return ll_usage("--labels are for images (idx)");
    if (ll_keys_check(&how) >= 0) return 2;
    for (int i = 0; i < files || (!files && !i); i++)
        if (ll_dist_ranks().size > 1 && (!files || !strcmp(paths[i], "-")))
            return ll_usage("only one rank can read standard input; name files");
    if (how.format == LL_INPUT_AUTO && !ll_dist_ranks().rank) ll_tables_are_lines(files, paths);
    if (!files && isatty(STDIN_FILENO)) ll_print("reads sequences from the terminal; Ctrl-D ends them");
    if (!files) files = 1, paths = standard_input;
    if (how.labels && ll_first_unreadable(1, &how.labels)) return ll_usage("--labels: cannot open %s", how.labels);
    r->files = files, r->paths = paths;
    const ll_status status = ll_input_open(&r->input, paths, files, &how);
    return status ? ll_failed(status, ll_first_unreadable(files, paths)) : -1;
}

int ll_sequences(const ll_job *job, int files, const char **paths) {
    const char *out = ll_dist_ranks().rank ? NULL : job->out; /* rank 0 writes */
    run *r = calloc(1, sizeof *r);
    if (!r) return ll_fail_message("out of memory");
    r->job = r->w.job = job;
    r->start = ll_now();
    r->line = ll_line_start();
    r->w.tick = progress;
    r->w.arg = r;
    ll_model_watch(job->model, ll_window_report, &r->w);
    r->image = ll_image_numbers(ll_model_recipe(job->model));
    r->by_byte = ll_format_cuts_bytes(value(job, "data.format"));
    r->whole = !ll_format_cuts_lines(value(job, "data.format"));
    const char *task = value(job, "model.task");
    if (!r->image && (!strcmp(task, "classify") || !strcmp(task, "match")))
        r->trained = atoi(value(job, "train.length"));
    int code = open_all(r, files, paths);
    if (code < 0 && out) {
        const size_t n = strlen(out);
        ll_stop_on_signals(1, "stopping", "no file was written");
        if (n > 4 && !strcmp(out + n - 4, ".csv")) ll_put_csv();
        code = ll_stdout_begin(out);
    }
    if (code < 0) {
        ll_status status = ll_tokenizer_create(&r->tokenizer, job->model);
        if (!status) status = encode_end(r, LL_SPECIAL_BEFORE, job->before, &r->before, &r->before_n);
        if (!status) status = encode_end(r, LL_SPECIAL_AFTER, job->after, &r->after, &r->after_n);
        if (!status) status = make_stream(r);
        code = status ? ll_failed(status, NULL) : loop(r);
        if (code < 0) note_longer(r);
    }
    ll_model_watch(job->model, NULL, NULL);
    ll_line_end(&r->line);
    free_item(&r->item);
    ll_window_free(&r->w);
    ll_input_close(r->input);
    ll_tokenizer_free(r->tokenizer);
    ll_stream_free(r->stream);
    free(r->before);
    free(r->after);
    free(r->text);
    free(r);
    return ll_stdout_end(code < 0 ? 0 : code);
}

int ll_sequences_with(int n, const char **words, int (*use)(ll_model *model, int files, const char **paths)) {
    ll_model *model = NULL;
    int code = ll_load_model(&model, words[0]);
    if (code >= 0) return code;
    const ll_status status = ll_dist_same_model(model);
    code = status ? ll_failed(status, NULL) : use(model, n - 1, words + 1);
    ll_model_free(model);
    return code;
}
