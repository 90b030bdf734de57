/* What every test program shares: cmocka, and a few checks of our own. */
#ifndef LL_TEST_H
#define LL_TEST_H

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "longline-lab.h"

#include "base/memory.h"

/* Takes the user's locale, as programs with windows do. Numbers of the library must not depend on it (`make locale`).
 * Messages of the system may, so they stay in English. */
static __attribute__((constructor)) void take_locale(void) {
    setlocale(LC_ALL, "");
    setlocale(LC_MESSAGES, "C");
}

/* The call succeeds; else the test fails with the library's error text. */
#define CHECK_OK(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != LL_OK) fail_msg("%s: %s", #call, ll_error());                                                    \
    } while (0)

/* The call fails with this status and its text contains `word`. */
#define CHECK_FAILS(call, status, word)                                                                                \
    do {                                                                                                               \
        ll_status got = (call);                                                                                        \
        if (got != (status)) fail_msg("%s: status %d, expected %d (%s)", #call, got, (status), ll_error());            \
        if (!strstr(ll_error(), word)) fail_msg("%s: \"%s\" does not name \"%s\"", #call, ll_error(), word);           \
    } while (0)

/* |a - b|, infinite where it is no number: a maximum would lose NaN. */
static inline double abs_error(double a, double b) {
    const double e = fabs(a - b);
    return isnan(e) ? INFINITY : e;
}

/* max|a - b| <= tolerance * max|b| over n values, both finite; else fails and names the worst index. */
static inline void check_close(const char *what, size_t n, const float *a, const double *b, double tolerance) {
    double worst = 0, scale = 0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = abs_error((double)a[i], b[i]);
        if (e > worst) worst = e, at = i;
        if (fabs(b[i]) > scale) scale = fabs(b[i]);
    }
    if (!(worst <= tolerance * scale))
        fail_msg("%s: [%zu] is %.9g, expected %.9g; error %.3g of %.3g, allowed %.3g", what, at, (double)a[at], b[at],
                 worst, scale, tolerance * scale);
}

/* Refuses the first allocation of `use`, then the second, and so on until it succeeds: alone, and with all that follow.
 * It must fail with LL_ENOMEM each time. Returns how many allocations it needs. */
static inline long check_refused_memory(ll_status (*use)(void)) {
    long n = 0;
    for (int alone = -1; alone <= 1; alone += 2) {
        ll_status status = LL_ENOMEM;
        for (n = 0; status; n++) {
            assert_true(n < 1000);
            ll_memory_fail_at(alone * (n + 1));
            status = use();
            ll_memory_fail_at(0);
            if (status) assert_int_equal(status, LL_ENOMEM);
        }
    }
    return n - 1;
}

#endif
