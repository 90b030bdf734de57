/* Runs a command, and makes one of its system calls go wrong:
 *
 *     trouble KIND N HOW [-c FILE] [-t FILE] COMMAND..
 *
 *   KIND   open read write pwrite fsync rename mmap ftruncate close; change: all that alter files
 *   N      which call of the kind, in the order in which they are made; 0: none
 *   HOW    EIO ENOSPC EINTR EDQUOT EACCES ESTALE: the call is not made, and fails with this
 *          short: a read or write does one byte
 *          kill: the program is gone before the call
 *   -c     the number of calls of the kind is written to FILE
 *   -t     all calls that alter files are written to FILE, for disk_states.c
 *
 * A filter of seccomp stops the program at these calls alone, and ptrace changes them; so the calls that libraries make
 * are met, too. Those of the dynamic loader do not count. The exit status is the command's, or 128 and a signal. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
#error "trouble.c knows the registers of x86-64 alone"
#endif

enum { PATH = 4096 };

typedef struct {
    const char *kind;
    int number, changes; /* of the system call; does it alter files? */
} known_call;

static const known_call known[] = {
    {"open", SYS_openat, 0},    {"open", SYS_open, 0},           {"read", SYS_read, 0},
    {"write", SYS_write, 1},    {"write", SYS_writev, 1},        {"pwrite", SYS_pwrite64, 1},
    {"fsync", SYS_fsync, 1},    {"fsync", SYS_fdatasync, 1},     {"rename", SYS_rename, 1},
    {"rename", SYS_renameat, 1}, {"rename", SYS_renameat2, 1},   {"mmap", SYS_mmap, 0},
    {"ftruncate", SYS_ftruncate, 1}, {"close", SYS_close, 0},    {"unlink", SYS_unlink, 1},
    {"unlink", SYS_unlinkat, 1},
};
enum { KNOWN = sizeof known / sizeof *known };

static struct {
    const char *kind, *how;
    long at, count;
    FILE *trace;
    uintptr_t loader, loader_end;
    int closing; /* a close is running that is to fail when it returns */
} plan;

static void give_up(const char *what) {
    fprintf(stderr, "trouble: %s: %s\n", what, strerror(errno));
    exit(125);
}

static int error_of(const char *name) {
    static const struct {
        const char *name;
        int number;
    } e[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EINTR", EINTR}, {"EDQUOT", EDQUOT},
             {"EACCES", EACCES}, {"ESTALE", ESTALE}, {"ENOMEM", ENOMEM}};
    for (size_t i = 0; i < sizeof e / sizeof *e; i++)
        if (!strcmp(name, e[i].name)) return e[i].number;
    return 0;
}

/* ---- The command ---- */

static void begin(char **command) {
    struct sock_filter filter[KNOWN + 3];
    size_t n = 0;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < KNOWN; i++)
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)known[i].number,
                                                   (unsigned char)(KNOWN - i), 0);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    const struct sock_fprog program = {(unsigned short)n, filter};
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) give_up("ptrace");
    raise(SIGSTOP); /* the parent sets its options */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        give_up("seccomp");
    execvp(command[0], command);
    give_up(command[0]);
}

/* Finds the loader's addresses. Each call has the address from which it was made. */
static void find_loader(pid_t pid) {
    char path[64], line[PATH + 128];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "r");
    plan.loader = plan.loader_end = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (!strstr(line, "/ld-linux") || sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
        if (!plan.loader) plan.loader = from;
        plan.loader_end = to;
    }
    if (maps) fclose(maps);
}

/* ---- What it does to files, for disk_states.c: one line a call, and behind a write its bytes ---- */

static void text_of(pid_t pid, uintptr_t at, char text[PATH]) {
    memset(text, 0, PATH);
    for (size_t n = 0; n + 1 < PATH; n++) { /* byte by byte, because the next page may not exist */
        const struct iovec to = {text + n, 1}, from = {(void *)(at + n), 1};
        if (process_vm_readv(pid, &to, 1, &from, 1, 0) != 1 || !text[n]) break;
    }
    text[PATH - 1] = 0;
}

static void file_of(pid_t pid, int fd, char text[PATH]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
    const ssize_t n = readlink(link, text, PATH - 1);
    text[n > 0 ? n : 0] = 0;
}

static void bytes_of(pid_t pid, uintptr_t at, size_t size) {
    char *copy = malloc(size ? size : 1);
    const struct iovec to = {copy, size}, from = {(void *)at, size};
    if (!copy || process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)size) give_up("process_vm_readv");
    fwrite(copy, 1, size, plan.trace);
    fputc('\n', plan.trace);
    free(copy);
}

static void record(pid_t pid, const struct user_regs_struct *r) {
    char one[PATH] = "", two[PATH] = "";
    const int fd = (int)r->rdi;
    switch (r->orig_rax) {
    case SYS_openat:
        text_of(pid, r->rsi, one);
        if (!(r->rdx & O_ACCMODE) || one[0] != '/') break;
        fprintf(plan.trace, "open %d %d %s\n", (r->rdx & O_TRUNC) != 0, (r->rdx & O_APPEND) != 0, one);
        break;
    case SYS_write:
    case SYS_pwrite64:
        file_of(pid, fd, one);
        if (one[0] != '/') break; /* a pipe */
        fprintf(plan.trace, "write %ld %zu %s\n", r->orig_rax == SYS_write ? -1L : (long)r->r10, (size_t)r->rdx, one);
        bytes_of(pid, r->rsi, r->rdx);
        break;
    case SYS_ftruncate:
        file_of(pid, fd, one);
        fprintf(plan.trace, "truncate %ld 0 %s\n", (long)r->rsi, one);
        break;
    case SYS_fsync:
    case SYS_fdatasync:
        file_of(pid, fd, one);
        fprintf(plan.trace, "sync 0 0 %s\n", one);
        break;
    case SYS_rename:
        text_of(pid, r->rdi, one);
        text_of(pid, r->rsi, two);
        fprintf(plan.trace, "rename 0 0 %s\n%s\n", one, two);
        break;
    case SYS_unlink:
        text_of(pid, r->rdi, one);
        fprintf(plan.trace, "unlink 0 0 %s\n", one);
        break;
    default: break;
    }
}

/* ---- The call that goes wrong ---- */

static int is_meant(const known_call *call) {
    return !strcmp(plan.kind, call->kind) || (call->changes && !strcmp(plan.kind, "change"));
}

static void meet(pid_t pid, struct user_regs_struct *r) {
    if (!strcmp(plan.how, "kill")) {
        kill(pid, SIGKILL);
        return;
    }
    if (!strcmp(plan.how, "short")) {
        if (r->rdx > 1) r->rdx = 1;
    } else if (r->orig_rax == SYS_close) {
        plan.closing = 1; /* Linux frees the descriptor even if close fails */
    } else {
        r->orig_rax = (unsigned long long)-1;                 /* no call is made */
        r->rax = (unsigned long long)-error_of(plan.how);
    }
    if (ptrace(PTRACE_SETREGS, pid, NULL, r)) give_up("ptrace");
}

static void closed(pid_t pid) {
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &r)) return;
    r.rax = (unsigned long long)-error_of(plan.how);
    if (ptrace(PTRACE_SETREGS, pid, NULL, &r)) give_up("ptrace");
    plan.closing = 0;
}

static void look(pid_t pid) {
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &r)) return;
    if (r.rip >= plan.loader && r.rip < plan.loader_end) return;
    /* Writes to stderr never fail, because messages are no data. */
    if ((r.orig_rax == SYS_write || r.orig_rax == SYS_writev) && r.rdi == STDERR_FILENO) return;
    if (plan.trace) record(pid, &r);
    for (size_t i = 0; i < KNOWN; i++)
        if (known[i].number == (int)r.orig_rax && is_meant(&known[i]) && ++plan.count == plan.at) meet(pid, &r);
}

/* Waits for the end of the command and returns its exit status. */
static int follow(pid_t command) {
    int status;
    const long wanted = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                        PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    if (waitpid(command, &status, 0) != command || !WIFSTOPPED(status)) give_up("the command does not begin");
    if (ptrace(PTRACE_SETOPTIONS, command, NULL, wanted)) give_up("ptrace");
    for (pid_t pid = command; pid > 0; pid = waitpid(-1, &status, __WALL)) {
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (pid == command) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        const int event = status >> 16, sign = WSTOPSIG(status);
        if (event == PTRACE_EVENT_EXEC) find_loader(pid);
        if (event == PTRACE_EVENT_SECCOMP) look(pid);
        if (sign == (SIGTRAP | 0x80)) closed(pid);
        const int own = event || sign == SIGSTOP || (sign & ~0x80) == SIGTRAP;
        ptrace(plan.closing ? PTRACE_SYSCALL : PTRACE_CONT, pid, NULL, own ? 0 : (long)sign);
    }
    return 125;
}

int main(int argc, char **argv) {
    const char *count = NULL, *trace = NULL;
    int at = 4;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) *(argv[at][1] == 'c' ? &count : &trace) = argv[at + 1];
    if (at >= argc) {
        fprintf(stderr, "usage: trouble KIND N HOW [-c FILE] [-t FILE] COMMAND..\n");
        return 125;
    }
    plan.kind = argv[1];
    plan.at = atol(argv[2]);
    plan.how = argv[3];
    if (!error_of(plan.how) && strcmp(plan.how, "short") && strcmp(plan.how, "kill")) give_up(plan.how);
    if (trace && !(plan.trace = fopen(trace, "we"))) give_up(trace);
    const pid_t pid = fork();
    if (pid < 0) give_up("fork");
    if (!pid) begin(argv + at);
    const int status = follow(pid);
    FILE *file = count ? fopen(count, "we") : NULL;
    if (file) fprintf(file, "%ld\n", plan.count), fclose(file);
    if (plan.trace) fclose(plan.trace);
    return status;
}
