/* Marks in a file (marks.h). */
#include "data/marks.h"

#include "base/memory.h"

ll_status ll_marks_create(ll_marks *m, int64_t bytes, int64_t spacing) {
    if (!spacing) spacing = bytes / LL_MARKS_MOST > LL_MARKS_SPACING ? bytes / LL_MARKS_MOST + 1 : LL_MARKS_SPACING;
    *m = (ll_marks){.spacing = spacing};
    m->mark = ll_alloc((size_t)(bytes / spacing) + 2, sizeof *m->mark);
    return m->mark ? LL_OK : LL_ENOMEM;
}

void ll_marks_free(ll_marks *m) {
    ll_free(m->mark);
    *m = (ll_marks){0};
}

void ll_marks_end(ll_marks *m, const ll_mark *here) { m->mark[m->count++] = *here; }

void ll_marks_pass(ll_marks *m, const ll_mark *here) {
    if (!m->count || here->byte - m->mark[m->count - 1].byte >= m->spacing) ll_marks_end(m, here);
}

const ll_mark *ll_marks_find(const ll_marks *m, ll_mark_field by, int64_t number) {
    int64_t low = 0, high = m->count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (ll_mark_number(&m->mark[middle], by) <= number)
            low = middle;
        else
            high = middle;
    }
    return &m->mark[low];
}
