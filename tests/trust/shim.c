/* Trouble on order, for programs that it is preloaded into (LD_PRELOAD). The n-th call of a kind since main began
 * fails, comes back short, or is the last thing that the program does.
 *
 *   LL_TROUBLE   memory | open read write pwrite fsync rename mmap ftruncate close | change (all that alter files)
 *   LL_AT        number of the call that meets it; 0: none
 *   LL_HOW       EIO ENOSPC EINTR EDQUOT EACCES ..: the call fails with this once;  short: it does one byte
 *                once: this allocation fails;  all: this one and all that follow
 *                kill: the program is gone before the call;  lose: and with it what no fsync has brought to the disk
 *   LL_COUNT     file to which the number of calls of the kind is appended at the end
 *
 * A crash writes the name of the object that it was in to stderr. Calls that libc makes for its own streams go past. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *trouble, *how, *count_file;
static long at;
static atomic_long calls;
static atomic_int started;
static char alternate[1 << 16];

/* ---- Files, and how much of each is on the disk for sure ---- */

enum { FILES = 1024 };
static long synced[FILES]; /* bytes, by descriptor; -1: it is not written to */

static void lose(void) {
    for (int fd = 0; fd < FILES; fd++)
        if (synced[fd] >= 0) (void)!syscall(SYS_ftruncate, fd, synced[fd]);
}

static void forget(int fd) {
    if (fd >= 0 && fd < FILES) synced[fd] = -1;
}

static void opened(int fd, int flags) {
    struct stat about;
    if (fd < 0 || fd >= FILES || !(flags & (O_WRONLY | O_RDWR)) || fstat(fd, &about) || !S_ISREG(about.st_mode)) return;
    synced[fd] = (long)about.st_size;
}

static void brought(int fd) {
    struct stat about;
    if (fd >= 0 && fd < FILES && synced[fd] >= 0 && !fstat(fd, &about)) synced[fd] = (long)about.st_size;
}

/* ---- When ---- */

static int error_of(const char *name) {
    static const struct {
        const char *name;
        int number;
    } known[] = {{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EINTR", EINTR}, {"EDQUOT", EDQUOT}, {"EACCES", EACCES}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) return known[i].number;
    return EIO;
}

/* Is it this call's turn? */
static int meets(const char *call, int changes) {
    if (!atomic_load(&started) || !trouble) return 0;
    if (strcmp(trouble, call) && (!changes || strcmp(trouble, "change"))) return 0;
    const long n = atomic_fetch_add(&calls, 1) + 1;
    if (!at || n != at) return at && n > at && !strcmp(how, "all");
    if (!strcmp(how, "lose")) lose();
    if (!strcmp(how, "lose") || !strcmp(how, "kill")) syscall(SYS_exit_group, 137);
    return 1;
}

static int is_short(void) { return !strcmp(how, "short"); }
static long fails(void) { return errno = error_of(how), -1; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* ---- Memory ---- */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
void *malloc(size_t n) { return meets("memory", 0) ? (errno = ENOMEM, NULL) : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return meets("memory", 0) ? (errno = ENOMEM, NULL) : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return meets("memory", 0) ? (errno = ENOMEM, NULL) : __libc_realloc(p, n); }
void *aligned_alloc(size_t a, size_t n) { return meets("memory", 0) ? (errno = ENOMEM, NULL) : __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) {
    if (meets("memory", 0)) return ENOMEM;
    return (*p = __libc_memalign(a, n)) ? 0 : ENOMEM;
}

/* ---- Calls of the system ---- */

int open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    if (meets("open", flags & O_CREAT) && !is_short()) return (int)fails();
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    opened(fd, flags);
    return fd;
}
ssize_t read(int fd, void *to, size_t n) {
    if (!meets("read", 0)) return syscall(SYS_read, fd, to, n);
    return is_short() ? syscall(SYS_read, fd, to, n ? 1 : 0) : fails();
}
ssize_t write(int fd, const void *from, size_t n) {
    if (fd == STDERR_FILENO || !meets("write", 1)) return syscall(SYS_write, fd, from, n);
    return is_short() ? syscall(SYS_write, fd, from, n ? 1 : 0) : fails();
}
ssize_t pwrite(int fd, const void *from, size_t n, off_t where) {
    if (!meets("pwrite", 1)) return syscall(SYS_pwrite64, fd, from, n, where);
    return is_short() ? syscall(SYS_pwrite64, fd, from, n ? 1 : 0, where) : fails();
}
int fsync(int fd) {
    if (meets("fsync", 1) && !is_short()) return (int)fails();
    const int failed = (int)syscall(SYS_fsync, fd);
    if (!failed) brought(fd);
    return failed;
}
int rename(const char *from, const char *to) {
    return meets("rename", 1) && !is_short() ? (int)fails() : (int)syscall(SYS_rename, from, to);
}
int ftruncate(int fd, off_t n) {
    return meets("ftruncate", 1) && !is_short() ? (int)fails() : (int)syscall(SYS_ftruncate, fd, n);
}
int close(int fd) {
    const int met = meets("close", 0) && !is_short();
    const int failed = (int)syscall(SYS_close, fd); /* Linux frees the descriptor in any case */
    forget(fd);
    return met ? (int)fails() : failed;
}
void *mmap(void *where, size_t n, int protection, int flags, int fd, off_t from) {
    if (meets("mmap", 0) && !is_short()) return fails(), MAP_FAILED;
    return (void *)syscall(SYS_mmap, where, n, protection, flags, fd, from);
}

/* ---- Beginning and end ---- */

/* "crash in /usr/lib/../libcairo.so.2" */
static void crashed(int number) {
    void *frame[64];
    const int n = backtrace(frame, 64);
    for (int i = 2; i < n; i++) { /* past this function and the kernel's frame */
        Dl_info about;
        if (!dladdr(frame[i], &about) || !about.dli_fname) continue;
        if (i == 2 || strstr(about.dli_fname, "longline") || strstr(about.dli_fname, "cairo")) {
            dprintf(STDERR_FILENO, "crash in %s\n", about.dli_fname);
            if (i == 2 && !strstr(about.dli_fname, "libc.so")) break;
        }
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void count(void) {
    if (!count_file) return;
    atomic_store(&started, 0);
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, count_file, O_WRONLY | O_CREAT | O_APPEND, 0666);
    dprintf(fd, "%ld\n", atomic_load(&calls));
}

static int (*real_main)(int, char **, char **);
static int begin(int argc, char **argv, char **environment) {
    void *frame[2];
    backtrace(frame, 2); /* it allocates the first time */
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    const struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
    for (int i = 0; i < 5; i++) sigaction(numbers[i], &action, NULL);
    memset(synced, -1, sizeof synced);
    how = getenv("LL_HOW") ? getenv("LL_HOW") : "";
    at = getenv("LL_AT") ? atol(getenv("LL_AT")) : 0;
    count_file = getenv("LL_COUNT");
    trouble = getenv("LL_TROUBLE");
    atexit(count);
    atomic_store(&started, 1);
    return real_main(argc, argv, environment);
}

int __libc_start_main(int (*program)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld)(void), void *stack);
int __libc_start_main(int (*program)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld)(void), void *stack) {
    real_main = program;
    return REAL(__libc_start_main)(begin, argc, argv, init, fini, rtld, stack);
}
