/* Pairs of texts, such as a sentence and its translation, from a file of lines: a source, a TAB and a target. Bytes are
 * tokens. A source gets LL_TOKEN_BEGIN before it and LL_TOKEN_END after it, so that the model can find both ends. The
 * decoder reads LL_TOKEN_BEGIN and the target, and predicts the target and LL_TOKEN_END. */
#include "base/integer.h"
#include "data/text/pairs.h"

#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/format.h"

/* Reads the pair of one line, or returns LL_EFORMAT. */
static ll_status parse_line(ll_pair *pair, const uint8_t *data, size_t at, size_t end, const char *name, int64_t line,
                            int most) {
    const uint8_t *tab = at < end ? memchr(data + at, '\t', end - at) : NULL;
    if (!tab)
        return ll_fail(LL_EFORMAT, "%s: line %lld has no TAB between source and target", name, (long long)line);
    const size_t source = (size_t)(tab - data) - at, target = end - at - source - 1;
    if (memchr(tab + 1, '\t', target))
        return ll_fail(LL_EFORMAT, "%s: line %lld has more than one TAB; expected source TAB target", name,
                       (long long)line);
    if (!source || !target)
        return ll_fail(LL_EFORMAT, "%s: line %lld has an empty %s", name, (long long)line,
                       source ? "target" : "source");
    if (source > (size_t)most || target > (size_t)most)
        return ll_fail(LL_EFORMAT,
                       "%s: line %lld has a %s of %zu bytes, and there is room for %d; set train.length=%zu", name,
                       (long long)line, source > (size_t)most ? "source" : "target", ll_max_size(source, target), most,
                       ll_max_size(source, target) + 2);
    *pair = (ll_pair){at, (uint32_t)source, (uint32_t)target};
    return LL_OK;
}

/* The beginning of the next line. */
static size_t next_line(const uint8_t *data, size_t size, size_t at) {
    const uint8_t *newline = memchr(data + at, '\n', size - at);
    return newline ? (size_t)(newline - data) + 1 : size;
}

ll_status ll_pair_parse(ll_pair *pair, const uint8_t *data, size_t size, size_t *at, const char *name, int64_t line,
                        int most) {
    const size_t begin = *at;
    size_t end = *at = next_line(data, size, begin);
    if (end > begin && data[end - 1] == '\n') end--;
    if (end > begin && data[end - 1] == '\r') end--; /* line ends of other systems */
    return parse_line(pair, data, begin, end, name, line, most);
}

/* Lines stay in their file: one pass checks them and leaves marks, and a pair is read from there. */
typedef struct {
    ll_marks lines;
    int64_t first;  /* number of the first pair of this split */
    int64_t next;   /* number of the line ... */
    size_t at;      /* ... that begins here */
    size_t touched; /* for ll_bytes_touch */
} pairs;

static void close_pairs(const ll_reader *r) {
    pairs *own = r->own;
    ll_marks_free(&own->lines);
}

static ll_status pass(ll_reader *r, int64_t *count, const char *name, int most) {
    pairs *own = r->own;
    const ll_bytes *file = &r->file[0];
    ll_pair pair;
    size_t left = 0;
    ll_mark here = {0};
    ll_status status = ll_marks_create(&own->lines, (int64_t)file->size, 0);
    if (!status && !file->size) return ll_fail(LL_EFORMAT, "%s: 0 bytes, expected lines of source TAB target", name);
    own->at = ll_byte_order_mark(file->data, file->size);
    for (size_t at = own->at; !status && at < file->size;) {
        here.byte = (int64_t)at;
        ll_marks_pass(&own->lines, &here);
        ll_bytes_pass(file, at, &left);
        status = ll_pair_parse(&pair, file->data, file->size, &at, name, ++here.text, most);
    }
    *count = here.text;
    ll_bytes_leave(file);
    return status;
}

static ll_status open_pairs(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    pairs *own = r->own;
    int64_t count = 0;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    if (c->length < 3)
        return ll_fail(LL_EINVAL, "train.length is %d; source and target have at least 3 tokens each", c->length);
    status = ll_file_take(&r->file[0], from.path);
    if (!status) status = pass(r, &count, from.path, c->length - 2);
    if (status) return ll_fail_in(status, from.key);
    status = ll_split_examples(&own->first, &r->rows, c, split, count, "pair", from.path);
    if (status) return status;
    r->vocab = LL_TOKEN_COUNT;
    r->size = r->rows;
    r->stride = 1;
    r->examples = 1;
    return LL_OK;
}

/* Writes n bytes between `front` and `back`, and pads the row. */
static int fill_row(int *row, int T, int front, const uint8_t *bytes, size_t n, int back) {
    int t = 0;
    if (front >= 0) row[t++] = front;
    for (size_t i = 0; i < n; i++) row[t++] = bytes[i];
    if (back >= 0) row[t++] = back;
    for (int i = t; i < T; i++) row[i] = LL_TOKEN_PAD;
    return t;
}

void ll_pair_fill(ll_batch *batch, int row, const uint8_t *source, size_t n, const uint8_t *target, size_t m) {
    const size_t at = (size_t)row * (size_t)batch->T;
    batch->source_lengths[row] =
        fill_row(batch->source + (size_t)row * (size_t)batch->S, batch->S, LL_TOKEN_BEGIN, source, n, LL_TOKEN_END);
    batch->lengths[row] = fill_row(batch->tokens + at, batch->T, LL_TOKEN_BEGIN, target, m, -1);
    const int end = fill_row(batch->targets + at, batch->T, -1, target, m, LL_TOKEN_END);
    for (int t = end; t < batch->T; t++) batch->targets[at + (size_t)t] = -1;
}

static void fill_pair(const ll_reader *r, ll_batch *batch, int row, int64_t index) {
    pairs *own = r->own;
    const ll_bytes *file = &r->file[0];
    const int64_t number = own->first + index;
    const ll_mark *m = ll_marks_find(&own->lines, LL_BY_TEXT, number);
    ll_pair p = {0};
    ll_bytes_touch(file, (size_t)own->lines.spacing, &own->touched);
    if (own->next > number || own->next < m->text) {
        own->next = m->text;
        own->at = (size_t)m->byte;
    }
    for (; own->next < number; own->next++) own->at = next_line(file->data, file->size, own->at);
    own->next++;
    /* A file that was changed after it was opened may lack the pair. It is empty then. */
    if (ll_pair_parse(&p, file->data, file->size, &own->at, "the file", number + 1, r->T - 2)) p = (ll_pair){0};
    const uint8_t *source = file->data + p.at;
    ll_pair_fill(batch, row, source, p.source, source + p.source + !!p.source, p.target);
}

const ll_format ll_format_pairs = {
    "pairs", 1u << LL_TASK_SEQ2SEQ, open_pairs, fill_pair, sizeof(pairs), close_pairs, .unit = "token",
    .cut = LL_CUT_BYTE};
