/* ListOps in files: TSV of an expression and its answer, in either order, with or without a line of column names. This
 * covers the form of the Long-Range Arena (Source, Target) and that of Nangia and Bowman. An answer that is not the
 * value of its expression is an error. */
#include <string.h>

#include "base/memory.h"
#include "data/examples.h"
#include "data/synthetic/listops.h"

static int is_digit(const ll_slice *s) {
    return s->size == 1 && s->at[0] >= '0' && s->at[0] <= '9';
}

static ll_status wrong(const ll_cells *t, const char *what) {
    return ll_fail(LL_EFORMAT, "%s: line %lld %s", t->name, (long long)t->line, what);
}

static ll_status take(ll_reader *r, const ll_cells *t, ll_slice field[2]) {
    ll_examples *own = r->own;
    const int answer = is_digit(&field[0]) && !is_digit(&field[1]) ? 0 : 1;
    ll_slice *text = &field[1 - answer];
    if (!is_digit(&field[answer])) return wrong(t, "has no answer 0..9 in either of its two columns");
    text->size = ll_listops_tokens(text->at, text->size);
    const int value = ll_listops_value(text->at, text->size);
    if (value < 0) return wrong(t, "has no expression of MIN, MAX, MED and SM over digits");
    if (value != field[answer].at[0] - '0')
        return ll_fail(LL_EFORMAT, "%s: line %lld has the answer %c, but its expression comes to %d", t->name,
                       (long long)t->line, field[answer].at[0], value);
    r->file[1].data[r->size] = (uint8_t)value;
    if (value > own->most) own->most = value;
    own->text[r->size++] = *text;
    return LL_OK;
}

static ll_status open_listops(ll_reader *r, const ll_reader_options *c, int split) {
    ll_examples *own = r->own;
    ll_source from = {0};
    ll_slice field[2];
    int found = 1;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    status = ll_file_read(&r->file[0], from.path, SIZE_MAX / 4);
    if (status) return ll_fail_in(status, from.key);
    const size_t capacity = ll_count_lines(&r->file[0]);
    ll_cells t = ll_cells_of(&r->file[0], from.path, 0, 0);
    own->text = ll_alloc(capacity, sizeof *own->text);
    r->file[1].data = ll_alloc(capacity, 1);
    if (!own->text || !r->file[1].data) return LL_ENOMEM;
    own->labels = r->file[1].data;
    while (!status && found) {
        status = ll_cells_next(&t, field, 2, &found);
        if (status || !found || (t.line == 1 && ll_slice_is(&field[0], "Source"))) continue;
        status = take(r, &t, field);
    }
    r->vocab = LL_LISTOPS_VOCAB;
    return status ? ll_fail_in(status, from.key) : ll_examples_use(r, c, split, from.path);
}

/* ---- Writing ---- */

static ll_status check(const ll_listops *how) {
    if (how->depth < 2 || how->depth > 64)
        return ll_fail(LL_EINVAL, "the depth is %d; expressions are 2 to 64 deep", how->depth);
    if (how->arguments < 2 || how->arguments > 1000)
        return ll_fail(LL_EINVAL, "the number of arguments is %d; operations have 2 to 1000", how->arguments);
    if (how->least < 0 || how->most > 1000000 || how->least + 5 > how->most)
        return ll_fail(LL_EINVAL, "the lengths are %d to %d; they must be 5 apart or more, and at most 1000000",
                       how->least, how->most);
    return LL_OK;
}

static ll_status write_one(ll_writer *writer, const uint8_t *tokens, int n, char *line) {
    size_t size = ll_listops_text(line, tokens, (size_t)n);
    line[size++] = '\t';
    line[size++] = (char)('0' + ll_listops_value(tokens, (size_t)n));
    line[size++] = '\n';
    return ll_writer_put(writer, line, size);
}

ll_status ll_listops_write(const char *path, const ll_listops *how, int64_t count, uint64_t seed, ll_done_fn *progress,
                           void *arg) {
    ll_writer *writer = NULL;
    ll_status status = check(how);
    if (status) return status;
    uint8_t *tokens = ll_alloc((size_t)how->most, 1);
    char *line = ll_alloc((size_t)how->most, 8); /* a token with its brackets takes 8 characters */
    status = tokens && line ? ll_writer_open(&writer, path) : LL_ENOMEM;
    if (!status) status = ll_writer_put(writer, "Source\tTarget\n", 14);
    for (int64_t i = 0; i < count && !status; i++) {
        status = write_one(writer, tokens, ll_listops_draw(tokens, how, seed, i), line);
        if (!status) status = ll_progress_done(progress, arg, i + 1, count);
    }
    if (!status)
        status = ll_writer_commit(writer);
    else
        ll_writer_abandon(writer);
    ll_free(tokens);
    ll_free(line);
    return status;
}

const ll_format ll_format_listops = {"listops",        1u << LL_TASK_CLASSIFY, open_listops,
                                     ll_examples_fill, sizeof(ll_examples),    ll_examples_close};
