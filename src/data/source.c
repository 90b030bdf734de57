/* From the keys of a recipe to the files of a split, and the part of them that is used. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/file_list.h"
#include "data/format.h"

static const char *given(const char *path) {
    return path ? path : "";
}

int ll_split_is_cut(const ll_reader_options *c) {
    return !given(c->data.valid)[0] && c->data.valid_fraction > 0;
}

ll_status ll_split_source(ll_source *source, const ll_reader_options *c, int split, int labels) {
    static const char *const keys[2][3] = {{"data.train", "data.valid", "data.test"},
                                           {"data.train-labels", "data.valid-labels", "data.test-labels"}};
    const char *const files[2][3] = {{c->data.train, c->data.valid, c->data.test},
                                     {c->data.train_labels, c->data.valid_labels, c->data.test_labels}};
    const int from = split == LL_SPLIT_VALID && ll_split_is_cut(c) ? LL_SPLIT_TRAIN : split;
    const ll_source s = {keys[labels][from], given(files[labels][from])};
    if (from != split && given(files[1][split])[0])
        return ll_fail(LL_EINVAL, "data.valid-labels is %s, but data.valid is empty; name both or neither",
                       files[1][split]);
    if (s.path[0]) {
        const ll_status status = ll_files_check(s.path);
        *source = s;
        return status ? ll_fail_in(status, s.key) : LL_OK;
    }
    if (split == LL_SPLIT_TEST)
        return ll_fail(LL_EINVAL, "%s is empty: there is no test split; name its file%s", s.key,
                       given(c->data.valid)[0] || ll_split_is_cut(c) ? ", or evaluate on valid" : "");
    if (split == LL_SPLIT_VALID && !labels)
        return ll_fail(LL_EINVAL, "data.valid is empty and data.valid-fraction is 0, so there is no valid split; "
                                  "name its file, or set the share of train to hold out");
    return ll_fail(LL_EINVAL, "%s is empty; name its file: --set %s=FILE", s.key, s.key);
}

static int64_t held_out(const ll_reader_options *c, int64_t n) {
    const int64_t held = ll_split_is_cut(c) ? (int64_t)floor(c->data.valid_fraction * (double)n + 0.5) : 0;
    return held < n ? held : n;
}

void ll_split_range(int64_t *first, int64_t *count, const ll_reader_options *c, int split, int64_t n) {
    const int64_t held = held_out(c, n);
    *first = 0;
    *count = n;
    if (split == LL_SPLIT_VALID && ll_split_is_cut(c)) {
        *first = n - held;
        *count = held;
    } else if (split == LL_SPLIT_TRAIN) {
        *count = n - held;
        if (c->data.limit > 0 && *count > c->data.limit) *count = c->data.limit;
    }
}

int ll_split_is_empty(const ll_reader_options *c, int64_t n) {
    return ll_split_is_cut(c) && (held_out(c, n) < 1 || held_out(c, n) == n);
}

ll_status ll_split_examples(int64_t *first, int64_t *count, const ll_reader_options *c, int split, int64_t n,
                            const char *what, const char *name) {
    const int joins = c->data.format == LL_DATA_FASTA || c->data.format == LL_DATA_MIDI;
    char some[60] = "data.valid-fraction=0 to train without";
    ll_split_range(first, count, c, split, n);
    if (*count > 0) return LL_OK;
    if (!n) return ll_fail(LL_EINVAL, "%s: it is empty, and has no %s", name, what);
    if (n > 1) ll_format_text(some, sizeof some, "data.valid-fraction=%.2g, which holds out one", 1 / (double)n);
    return ll_fail(LL_EINVAL, "%s: data.valid-fraction=%g holds out %s of %lld %s%s; name data.valid=FILE, or set %s%s",
                   name, c->data.valid_fraction, split == LL_SPLIT_TRAIN ? "all" : "none", (long long)n, what,
                   n > 1 ? "s" : "", some, joins ? ", or data.joined=on, which holds out a part of the text" : "");
}

ll_status ll_bytes_keep(ll_bytes *bytes, int64_t first, int64_t count) {
    uint8_t *data = ll_alloc((size_t)count + 1, 1);
    if (!data) return LL_ENOMEM;
    memcpy(data, bytes->data + first, (size_t)count);
    ll_bytes_free(bytes);
    *bytes = (ll_bytes){data, (size_t)count};
    return LL_OK;
}
