/* Progress of long reads (read_progress.h). Each thread has its own: those that compute are not watched. */
#include "base/read_progress.h"

enum { EVERY = 1 << 16 };

static _Thread_local struct {
    ll_reading_fn *call;
    void *arg;
    size_t passed; /* the byte of the last report of ll_read_progress_pass */
} watch;

void ll_read_progress_watch(ll_reading_fn *call, void *arg) {
    watch.call = call;
    watch.arg = arg;
    watch.passed = 0;
}

void ll_read_progress(const char *name, int64_t done, int64_t total) {
    if (watch.call) watch.call(name, done, total, watch.arg);
}

/* A pass that begins is at a byte before the last report, and the difference wraps around. */
void ll_read_progress_pass(size_t at, size_t size) {
    if (!watch.call || at - watch.passed < EVERY) return;
    watch.passed = at;
    watch.call(NULL, (int64_t)at, (int64_t)size, watch.arg);
}
