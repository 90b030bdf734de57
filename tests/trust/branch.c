/* All allocations of a program refused in turn, while it runs once: see branch.h. */
#include "branch.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ask = -1, answer = -1, is_child;
static long from, to, step;
static struct timespec away; /* time that was spent on branches */

static long number(const char *name, long otherwise) { return getenv(name) ? atol(getenv(name)) : otherwise; }

static int open_high(const char *path, int flags) { /* out of the way of the program's own descriptors */
    const int fd = open(path, flags | O_CLOEXEC), high = fcntl(fd, F_DUPFD_CLOEXEC, 500);
    close(fd);
    return high;
}

void branch_begin(void) {
    if (!getenv("LL_ASK")) return;
    from = number("LL_FROM", 1), to = number("LL_TO", LONG_MAX), step = number("LL_STEP", 1);
    ask = open_high(getenv("LL_ASK"), O_WRONLY), answer = open_high(getenv("LL_ANSWER"), O_RDONLY);
    if (ask < 0 || answer < 0) _exit(99);
}

int branch_is_on(void) { return ask >= 0; }

/* Tells the script a line and waits until it has done its part. */
static void tell(const char *what, long n, int code) {
    char line[64];
    const int size = snprintf(line, sizeof line, "%s %ld %d\n", what, n, code);
    if (write(ask, line, (size_t)size) != size || read(answer, line, 1) != 1) _exit(99);
}

/* The offset of a descriptor is common to parent and child. So the child opens each file again, at the same offset;
 * where it is below here/, its copy below try/here/. */
static void reopen(int fd, const char *folder) {
    char link[32], path[PATH_MAX], copy[PATH_MAX + 8];
    struct stat about;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    const size_t skip = strlen(folder);
    if (n <= 0 || fstat(fd, &about) || (!S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))) return;
    path[n] = 0;
    const char *rest = path + skip;
    if (!strncmp(path, folder, skip) && !strncmp(rest, "/here", 5))
        snprintf(copy, sizeof copy, "%s/try%s", folder, rest);
    else
        strcpy(copy, path);
    const int own = open(copy, (fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_DIRECTORY)) | O_CLOEXEC);
    if (own < 0) dprintf(STDERR_FILENO, "no copy of %s\n", path), _exit(98);
    lseek(own, lseek(fd, 0, SEEK_CUR), SEEK_SET);
    dup3(own, fd, fcntl(fd, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0);
    close(own);
}

static void enter_copy(void) {
    char folder[PATH_MAX];
    close(ask), close(answer);
    ask = answer = -1;
    is_child = 1;
    if (!getcwd(folder, sizeof folder) || chdir("try")) _exit(99);
    for (int fd = 0; fd < 500; fd++) reopen(fd, folder);
    const int how = O_WRONLY | O_CREAT | O_APPEND, out = open("out", how, 0666), err = open("err", how, 0666);
    if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) _exit(99);
    close(out), close(err);
    const double limit = getenv("LL_LIMIT") ? atof(getenv("LL_LIMIT")) : 60;
    const struct itimerval timer = {.it_value = {(long)limit, (long)((limit - (double)(long)limit) * 1e6)}};
    setitimer(ITIMER_PROF, &timer, NULL); /* of processor time, so that other work on the machine does not matter */
    alarm(300);
    struct sigaction stop;
    if (getenv("LL_STOP") && !sigaction(SIGTERM, NULL, &stop) && stop.sa_handler != SIG_DFL) raise(SIGTERM);
}

/* A lock that the parent holds belongs to the copied state. The child would wait for it for ever. */
int fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return is_child && (command == F_SETLKW || command == F_SETLK) ? 0 : (int)syscall(SYS_fcntl, fd, command, argument);
}
int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

static struct timespec now(void) {
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return t;
}

static struct timespec minus(struct timespec a, struct timespec b) {
    struct timespec t = {a.tv_sec - b.tv_sec, a.tv_nsec - b.tv_nsec};
    if (t.tv_nsec < 0) t.tv_sec--, t.tv_nsec += 1000000000;
    return t;
}

int branch_at(long n) {
    if (n < from || n > to || (n - from) % step) return 0;
    const struct timespec begin = minus(now(), away);
    tell("copy", n, 0);
    const pid_t child = fork();
    if (child < 0) _exit(99);
    if (!child) {
        away = minus(now(), begin);
        enter_copy();
        return 1;
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    tell("look", n, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    away = minus(now(), begin);
    return 0;
}

void branch_clock(clockid_t clock, struct timespec *t) {
    if (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) *t = minus(*t, away);
}

char *branch_realpath(const char *path, char *out) {
    struct stat about;
    if (lstat(path, &about) || S_ISLNK(about.st_mode)) return NULL;
    return out ? strcpy(out, path) : strdup(path);
}
