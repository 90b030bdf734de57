/* Rows that stay in their file (table_rows.h). */
#include "base/integer.h"
#include "data/text/table_rows.h"

#include <string.h>

#include "base/memory.h"

/* Does a line end with CR alone, and none with LF? Then the file would be one row. The beginning of a file usually
 * tells, so that its other pages are not read. */
static int has_bare_returns(const ll_bytes *file) {
    enum { BEGINNING = 1 << 16 };
    const size_t n = ll_min_size(file->size, BEGINNING);
    const uint8_t *cr = n ? memchr(file->data, '\r', n) : NULL;
    if (!cr || cr + 1 == file->data + file->size || memchr(file->data, '\n', n)) return 0;
    return !memchr(file->data, '\n', file->size);
}

ll_status ll_table_rows_open(ll_table_rows *t, const char *path, int fields, int comma, int rest) {
    ll_status status = ll_file_take(&t->file, path);
    if (status) return status;
    if (has_bare_returns(&t->file)) {
        ll_table_rows_close(t);
        return ll_fail(LL_EFORMAT, "%s: its lines end with CR alone; convert them: tr '\\r' '\\n' <%s >NEW", path,
                       path);
    }
    t->cells = ll_cells_of(&t->file, path, comma, rest);
    t->fields = fields;
    t->field = ll_alloc((size_t)fields, sizeof *t->field);
    status = t->field ? ll_marks_create(&t->marks, (int64_t)t->file.size, 0) : LL_ENOMEM;
    if (status) ll_table_rows_close(t);
    return status;
}

void ll_table_rows_close(ll_table_rows *t) {
    ll_free(t->field);
    ll_marks_free(&t->marks);
    ll_bytes_free(&t->file);
    *t = (ll_table_rows){0};
}

ll_status ll_table_rows_skip(ll_table_rows *t) {
    int found;
    return ll_cells_next(&t->cells, t->field, t->fields, &found);
}

int ll_table_rows_next(ll_table_rows *t, ll_status *status) {
    int found = 0;
    if (*status) return 0;
    const ll_mark at = {.byte = t->cells.at - t->file.data, .text = t->next};
    *status = ll_cells_next(&t->cells, t->field, t->fields, &found);
    if (*status) return 0;
    if (found) {
        ll_marks_pass(&t->marks, &at);
        ll_bytes_pass(&t->file, (size_t)at.byte, &t->passed);
        t->next++;
    } else {
        t->next = INT64_MAX;
        t->cells.name = "the file"; /* the rows may outlive the recipe with its name */
        ll_bytes_leave(&t->file);
    }
    return found;
}

const ll_slice *ll_table_row_read(ll_table_rows *t, int64_t number) {
    const ll_mark *m = ll_marks_find(&t->marks, LL_BY_TEXT, number);
    int found = 1;
    ll_bytes_touch(&t->file, (size_t)t->marks.spacing, &t->touched);
    if (t->next > number || t->next < m->text) {
        t->cells.at = t->file.data + m->byte;
        t->next = m->text;
    }
    for (; t->next <= number && found; t->next++)
        if (ll_cells_next(&t->cells, t->field, t->fields, &found)) found = 0;
    return found ? t->field : NULL;
}
