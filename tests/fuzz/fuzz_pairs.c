/* Any bytes as lines of source TAB target: refused, or read within their bounds. */
#include <string.h>

#include "base/memory.h"
#include "data/text/pairs.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MOST = 20 };
    ll_pair *pairs = NULL;
    int64_t count = 0;
    if (ll_pairs_parse(&pairs, &count, data, size, "input", MOST)) {
        check(pairs == NULL && count == 0);
        return 0;
    }
    size_t end = 0;
    for (int64_t i = 0; i < count; i++) {
        const ll_pair *p = &pairs[i];
        check(p->at == end && p->source > 0 && p->target > 0 && p->source <= MOST && p->target <= MOST);
        end = p->at + p->source + 1 + p->target;
        check(end <= size && data[p->at + p->source] == '\t');
        check(!memchr(data + p->at, '\n', end - p->at));
        end += end < size && data[end] == '\r';
        check(end >= size || data[end] == '\n');
        end += end < size;
    }
    check(end == size);
    ll_free(pairs);
    return 0;
}
