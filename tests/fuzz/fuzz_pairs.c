/* Any bytes as lines of source TAB target: refused, or read within their bounds. */
#include <string.h>

#include "data/text/pairs.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MOST = 20 };
    ll_pair p;
    int64_t line = 0;
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
