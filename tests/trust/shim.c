/* Memory that runs out on order, in a program that this is preloaded into (LD_PRELOAD). Allocations of libraries count,
 * too. They are counted from the beginning of main.
 *
 *   LL_AT      number of the allocation that is refused; 0: none
 *   LL_ALL     all: and all that follow it
 *   LL_CLOCK   seconds by which the time of day jumps after it was first asked for
 *   LL_COUNT   file to which the number of allocations is written at the end
 *   LL_ASK     each in turn, in one run: see branch.h
 *
 * A crash, and the end of its time, writes to stderr the object in which it happened. */
#include "branch.h"
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *count_file;
static long at;
static int all;
static atomic_long calls;
static atomic_int started;
static char alternate[1 << 16];

static int refused(void) {
    if (!atomic_load(&started)) return 0;
    const long n = atomic_fetch_add(&calls, 1) + 1;
    if (branch_is_on() && branch_at(n)) at = n, count_file = NULL;
    if (n != at && !(all && at && n > at)) return 0;
    errno = ENOMEM;
    return 1;
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
void *malloc(size_t n) { return refused() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return refused() ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return refused() ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t a, size_t n) { return refused() ? NULL : __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) {
    if (refused()) return ENOMEM;
    return (*p = __libc_memalign(a, n)) ? 0 : ENOMEM;
}

/* The time of day, which jumps; other clocks are the kernel's. */
int clock_gettime(clockid_t clock, struct timespec *t) {
    static atomic_int asked;
    const char *jump = getenv("LL_CLOCK");
    const int error = (int)syscall(SYS_clock_gettime, clock, t);
    if (!error) branch_clock(clock, t);
    if (!error && jump && clock == CLOCK_REALTIME && atomic_fetch_add(&asked, 1)) t->tv_sec += atol(jump);
    return error;
}
time_t time(time_t *out) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}

char *realpath(const char *path, char *out) {
    char *same = branch_is_on() || at ? branch_realpath(path, out) : NULL;
    return same ? same : ((__typeof__(&realpath))dlsym(RTLD_NEXT, "realpath"))(path, out);
}

/* Prints "crash in /usr/lib/../libcairo.so.2": the object of the innermost frame outside libc and this file. */
static void crashed(int number) {
    void *frame[64];
    const int n = backtrace(frame, 64);
    for (int i = 2; i < n; i++) { /* skips this function and the kernel's frame */
        Dl_info about;
        if (!dladdr(frame[i], &about) || !about.dli_fname || strstr(about.dli_fname, "libc.so") ||
            strstr(about.dli_fname, "shim.so"))
            continue;
        const int late = number == SIGPROF || number == SIGALRM;
        dprintf(STDERR_FILENO, "%s in %s\n", late ? "endless" : "crash", about.dli_fname);
        break;
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void count(void) {
    if (!count_file) return;
    atomic_store(&started, 0);
    const int fd = open(count_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    dprintf(fd, "%ld\n", atomic_load(&calls));
    close(fd);
}

static int (*real_main)(int, char **, char **);
static int begin(int argc, char **argv, char **environment) {
    void *frame[2];
    backtrace(frame, 2); /* its first call allocates */
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGPROF, SIGALRM};
    const struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
    for (int i = 0; i < 7; i++) sigaction(numbers[i], &action, NULL);
    at = getenv("LL_AT") ? atol(getenv("LL_AT")) : 0;
    all = getenv("LL_ALL") && !strcmp(getenv("LL_ALL"), "all");
    count_file = getenv("LL_COUNT");
    branch_begin();
    unsetenv("LD_PRELOAD"); /* programs that this one starts are not tested */
    atexit(count);
    atomic_store(&started, 1);
    return real_main(argc, argv, environment);
}

int __libc_start_main(int (*program)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld)(void), void *stack);
int __libc_start_main(int (*program)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld)(void), void *stack) {
    real_main = program;
    return ((__typeof__(&__libc_start_main))dlsym(RTLD_NEXT, "__libc_start_main"))(begin, argc, argv, init, fini, rtld,
                                                                                    stack);
}
