/* Runs a command as on Linux 4.0: system calls that came later fail with ENOSYS.
 *
 *     old_kernel COMMAND..
 *
 * The exit status is the command's, or 125. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __x86_64__
#error "old_kernel.c knows the system calls of x86-64 alone"
#endif

int main(int argc, char **argv) {
    enum { NEWEST = SYS_execveat }; /* of Linux 3.19; the next one is of 4.2 */
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ||
        syscall(SYS_membarrier, 0, 0) != -1 || errno != ENOSYS) {
        perror("old_kernel");
        return 125;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 125;
}
