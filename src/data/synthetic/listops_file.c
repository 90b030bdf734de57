/* ListOps in files: TSV of an expression and its answer, in either order, with or without a line of column names. This
 * covers the form of the Long-Range Arena (Source, Target) and that of Nangia and Bowman. An answer that is not the
 * value of its expression is an error. */
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "data/examples.h"
#include "data/synthetic/listops.h"

static int is_digit(const ll_slice *s) {
    return s->size == 1 && s->at[0] >= '0' && s->at[0] <= '9';
}

static ll_status wrong(const ll_cells *t, const char *what) {
    return ll_fail(LL_EFORMAT, "%s: line %lld %s", t->name, (long long)t->line, what);
}

/* The tokens of the expression that one of two fields has; *answer: the number of the other field. */
static ll_slice tokens_of(uint8_t *to, const ll_slice field[2], int *answer) {
    *answer = is_digit(&field[0]) && !is_digit(&field[1]) ? 0 : 1;
    const ll_slice *text = &field[1 - *answer];
    if (text->size) memcpy(to, text->at, text->size);
    return (ll_slice){.at = to, .size = ll_listops_tokens(to, text->size)};
}

typedef struct {
    ll_examples examples;
    uint8_t *tokens; /* (capacity) of the expression that was read last */
    size_t capacity;
} listops;

static ll_status reserve(listops *own, size_t size) {
    if (own->tokens && size <= own->capacity) return LL_OK;
    ll_free(own->tokens);
    own->capacity = 2 * size;
    own->tokens = ll_alloc(own->capacity, 1);
    return own->tokens ? LL_OK : LL_ENOMEM;
}

static ll_status check_row(ll_reader *r) {
    listops *own = r->own;
    const ll_cells *t = &own->examples.rows.cells;
    const ll_slice *field = own->examples.rows.field;
    int answer = 0;
    const ll_status status = reserve(own, ll_max_size(field[0].size, field[1].size));
    if (status) return status;
    const ll_slice tokens = tokens_of(own->tokens, field, &answer);
    if (!is_digit(&field[answer])) return wrong(t, "has no answer 0..9 in either of its two columns");
    const int value = ll_listops_value(tokens.at, tokens.size);
    if (value < 0)
        return ll_fail(LL_EFORMAT,
                       "%s: line %lld has no expression of MIN, MAX, MED and SM over digits, at most %d deep", t->name,
                       (long long)t->line, LL_LISTOPS_DEEPEST);
    if (value != field[answer].at[0] - '0')
        return ll_fail(LL_EFORMAT, "%s: line %lld has the answer %c, but its expression comes to %d", t->name,
                       (long long)t->line, field[answer].at[0], value);
    if (value > own->examples.most) own->examples.most = value, own->examples.most_line = t->line;
    ll_examples_see(r, &tokens);
    return LL_OK;
}

/* A row that is longer than any before is there no more, too. */
static int read_row(const ll_reader *r, int64_t number, ll_slice *text) {
    listops *own = r->own;
    const ll_slice *field = ll_table_row_read(&own->examples.rows, number);
    int answer = 0;
    if (!field || field[0].size > own->capacity || field[1].size > own->capacity) return -1;
    *text = tokens_of(own->tokens, field, &answer);
    return is_digit(&field[answer]) ? field[answer].at[0] - '0' : -1;
}

static ll_status read_rows(ll_reader *r, const char *path) {
    listops *own = r->own;
    ll_table_rows *rows = &own->examples.rows;
    ll_status status = ll_table_rows_open(rows, path, 2, 0, 0);
    const ll_cells *t = &rows->cells;
    own->examples.read = read_row;
    if (!status && t->end - t->at >= 7 && !memcmp(t->at, "Source\t", 7)) status = ll_table_rows_skip(rows);
    for (; ll_table_rows_next(rows, &status); r->size++) status = check_row(r);
    return status;
}

static ll_status open_listops(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    status = read_rows(r, from.path);
    r->vocab = LL_LISTOPS_VOCAB;
    return status ? ll_fail_in(status, from.key) : ll_examples_use(r, c, split, from.path);
}

static void close_listops(const ll_reader *r) {
    listops *own = r->own;
    ll_free(own->tokens);
    ll_examples_close(r);
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

const ll_format ll_format_listops = {
    "listops", 1u << LL_TASK_CLASSIFY, open_listops, ll_examples_fill, sizeof(listops), close_listops,
    .unit = "symbol"};
