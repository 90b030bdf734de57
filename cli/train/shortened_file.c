/* A mapped file that another program shortens has no bytes where it had some, and reading them is SIGBUS. The program
 * then ends with a line that names the file. The handler only calls what POSIX allows in one. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "output/print.h"

static char prefix[80], path[4200];

static int hex(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/* The file of an address, from lines "begin-end rights offset device inode path" of /proc/self/maps. */
static void find_path(int maps, uintptr_t address) {
    static char block[4096];
    uintptr_t range[2] = {0};
    size_t n = 0;
    int numbers = 0;
    for (ssize_t got; (got = read(maps, block, sizeof block)) > 0;)
        for (ssize_t i = 0; i < got; i++) {
            const char c = block[i];
            if (c == '\n' && n && address >= range[0] && address < range[1]) return;
            if (c == '\n') {
                memset(path, 0, n);
                range[0] = range[1] = n = 0;
                numbers = 0;
            } else if (numbers == 2) {
                if ((c == '/' || n) && n + 1 < sizeof path) path[n++] = c < ' ' || c == 127 ? '?' : c;
            } else if (c == '-' || c == ' ') {
                numbers++;
            } else {
                range[numbers] = 16 * range[numbers] + (uintptr_t)hex(c);
            }
        }
}

static void put(const char *text) {
    const ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* nobody reads it */
}

static void on_bus(int number, siginfo_t *info, void *context) {
    static volatile sig_atomic_t begun;
    (void)context;
    if (info->si_code != BUS_ADRERR) { /* not of a file: the instruction fails again, and ends the program */
        signal(number, SIG_DFL);
        return;
    }
    while (__atomic_exchange_n(&begun, 1, __ATOMIC_SEQ_CST)) pause(); /* another thread prints, and ends all */
    const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps >= 0) find_path(maps, (uintptr_t)info->si_addr);
    put(prefix);
    put(*path ? path : "a file");
    put(" became shorter while it was read, or its disk failed; restore it");
    const char *left = ll_stop_left();
    if (left) put("; ");
    put(left ? left : "\n");
    _exit(1);
}

void ll_stop_on_shortened_file(void) {
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    ll_print_text(prefix, sizeof prefix, "", "");
    prefix[strlen(prefix) - 1] = 0;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
