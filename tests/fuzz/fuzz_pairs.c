/* Any bytes as lines of source TAB target: refused, or read within their bounds. */
#include "data/text/pairs.h"
#include "fuzz/read_all.h"

static void as_data(const uint8_t *data, size_t size) {
    char *path = strdup(in_memory(data, size));
    ll_reader_options c = {.task = LL_TASK_SEQ2SEQ, .batch = 2, .length = 22, .data = {.format = LL_DATA_PAIRS}};
    c.data.train = path;
    c.data.valid_fraction = 0.5;
    read_all(&c, "train");
    read_all(&c, "valid");
    c.length = 2;
    read_all(&c, "train");
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MOST = 20 };
    ll_pair p;
    int64_t line = 0;
    as_data(data, size);
    for (size_t at = 0, begin; at < size;) {
        begin = at;
        if (ll_pair_parse(&p, data, size, &at, "input", ++line, MOST)) return 0;
        check(p.at == begin && p.source > 0 && p.target > 0 && p.source <= MOST && p.target <= MOST);
        size_t end = p.at + p.source + 1 + p.target;
        check(end <= at && at <= size && data[p.at + p.source] == '\t');
        check(!memchr(data + p.at, '\n', end - p.at));
        end += end < size && data[end] == '\r';
        check(end == size ? at == size : data[end] == '\n' && at == end + 1);
    }
    return 0;
}
