/* Rows of TSV and CSV (cells.h). */
#include "data/text/cells.h"

#include <string.h>

#include "base/text.h"

ll_cells ll_cells_of(ll_bytes *bytes, const char *name, int comma, int rest) {
    ll_cells t = {.name = name, .at = bytes->data, .end = bytes->data + bytes->size, .comma = comma, .rest = rest};
    t.at += ll_byte_order_mark(bytes->data, bytes->size);
    return t;
}

size_t ll_slice_copy(uint8_t *to, size_t most, const ll_slice *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->size && n < most;) to[n++] = ll_slice_byte(s, &i);
    return n;
}

int ll_slice_is(const ll_slice *s, const char *text) {
    const size_t n = strlen(text);
    return s->size == n && !memcmp(s->at, text, n);
}

/* Reads a quoted field from its first quote on; *at moves to what follows it. */
static ll_status take_quoted(ll_cells *t, ll_slice *field) {
    uint8_t *p = t->at + 1;
    *field = (ll_slice){.at = p};
    for (; p < t->end; p++) {
        if (*p == '"') {
            if (p + 1 == t->end || p[1] != '"') break;
            field->quoted = 1;
            p++;
        }
        if (*p == '\n') t->last++;
    }
    if (p == t->end)
        return ll_fail(LL_EFORMAT, "%s: the quote that opens in line %lld is never closed", t->name,
                       (long long)t->line);
    field->size = (size_t)(p - field->at);
    t->at = p + 1;
    const int ends = t->at < t->end && *t->at == '\r' && (t->at + 1 == t->end || t->at[1] == '\n');
    if (t->at < t->end && *t->at != ',' && *t->at != '\n' && !ends)
        return ll_fail(LL_EFORMAT, "%s: line %lld has text after a closing quote; double quotes inside quotes", t->name,
                       (long long)t->last);
    return LL_OK;
}

static void take_plain(ll_cells *t, ll_slice *field, int rest) {
    uint8_t *p = t->at;
    while (p < t->end && *p != '\n' && (rest || *p != (t->comma ? ',' : '\t'))) p++;
    *field = (ll_slice){.at = t->at, .size = (size_t)(p - t->at)};
    if ((p == t->end || *p == '\n') && field->size && field->at[field->size - 1] == '\r') field->size--;
    t->at = p;
}

/* Skips the line end, which may come after a '\r'. */
static int take_end(ll_cells *t) {
    if (t->at < t->end && *t->at == '\r' && (t->at + 1 == t->end || t->at[1] == '\n')) t->at++;
    if (t->at < t->end && *t->at != '\n') return 0;
    if (t->at < t->end) t->at++;
    return 1;
}

/* A separator inside a text makes one column more, and would move those behind it. */
static ll_status check_columns(ll_cells *t, int columns, int fields) {
    if (columns < fields)
        return ll_fail(LL_EFORMAT, "%s: line %lld has %d columns, expected at least %d", t->name, (long long)t->line,
                       columns, fields);
    if (!t->columns) t->columns = columns;
    if (columns <= t->columns) return LL_OK;
    return ll_fail(LL_EFORMAT, "%s: line %lld has %d columns, and the first row has %d; %s", t->name,
                   (long long)t->line, columns, t->columns,
                   t->comma ? "a text with commas must stand in double quotes"
                            : "a text with tabs must be the last column");
}

ll_status ll_cells_next(ll_cells *t, ll_slice *field, int fields, int *found) {
    while (t->at < t->end && take_end(t)) t->last++;
    *found = 0;
    if (t->at == t->end) return LL_OK;
    t->line = ++t->last;
    int n = 0;
    do {
        if (n) t->at++; /* skips the separator */
        ll_slice ignored, *to = n < fields ? &field[n] : &ignored;
        if (t->comma && t->at < t->end && *t->at == '"') {
            const ll_status status = take_quoted(t, to);
            if (status) return status;
        } else {
            take_plain(t, to, t->rest && n == fields - 1);
        }
        n++;
    } while (!take_end(t));
    *found = 1;
    return check_columns(t, n, fields);
}
