/* The results as a table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

static void grouped(char *out, double x) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.0f", x);
    const size_t n = strlen(digits);
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) *out++ = ',';
        *out++ = digits[i];
    }
    *out = 0;
}

void ll_bench_table(const ll_bench *b, int from) {
    int width = 4;
    for (int i = from; i < b->rows; i++) width = (int)fmax(width, (double)strlen(b->row[i].name));
    if (from == b->rows) return;
    printf("%-*s %11s %12s %9s %8s %9s %5s\n", width, "case", "ms", "tokens/s", "GFLOP", "of peak", "MiB", "runs");
    for (int i = from; i < b->rows; i++) {
        const ll_bench_row *r = &b->row[i];
        char rate[48];
        grouped(rate, r->tokens / r->seconds);
        printf("%-*s %11.*f %12s ", width, r->name, r->seconds < 1e-3 ? 4 : 2, 1e3 * r->seconds, rate);
        if (r->flops > 0)
            printf("%9.2f %6.0f %% ", 1e-9 * r->flops, 100 * r->flops / r->seconds / b->peak);
        else
            printf("%9s %8s ", "", "");
        printf("%9.*f %5d\n", r->bytes < 1e7 ? 2 : 0, r->bytes / 1048576, r->repeats);
    }
    printf("\n");
    fflush(stdout);
}

int ll_bench_length(const ll_bench_row *r, const char *group) {
    const size_t n = strlen(group);
    return !strncmp(r->name, group, n) && r->name[n] == '/' && !strchr(r->name + n + 1, '/') ? atoi(r->name + n + 1)
                                                                                             : 0;
}

int ll_bench_next_length(const ll_bench *b, const char *group, int T) {
    int next = 0;
    for (int i = 0; i < b->rows; i++) {
        const int length = ll_bench_length(&b->row[i], group);
        if (length > T && (!next || length < next)) next = length;
    }
    return next;
}
