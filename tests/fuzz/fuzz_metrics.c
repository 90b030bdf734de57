/* Any bytes as the metrics of a run: refused with a line, or columns of numbers, of which the first has no gaps. */
#include <math.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "report/report_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"step", "loss", "valid_loss", "seconds"};
    ll_columns t = {0};
    if (ll_columns_read(&t, in_memory(data, size), names, 4, 2)) {
        check(strlen(ll_error()) > 10);
        return 0;
    }
    for (int i = 0; i < t.n; i++) check(!isnan(t.column[0][i]));
    for (int c = 0; c < 4; c++) {
        const int last = ll_columns_last(&t, c), least = ll_columns_least(&t, c);
        check(last >= -1 && last < t.n && least >= -1 && least < t.n);
        (void)ll_columns_median(&t, c);
    }
    ll_columns_free(&t);
    return 0;
}
