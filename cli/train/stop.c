/* Signals that ask the program to come to an end in order: the first time they set a flag, the second time they end it.
 */
#include <signal.h>

#include "cli.h"

static volatile sig_atomic_t stop;

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

void ll_stop_on_signals(int restart) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (restart ? SA_RESTART : 0) | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        /* What the parent ignores (nohup, a shell's background jobs) stays ignored. */
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler == SIG_IGN) continue;
        sigaction(numbers[i], &action, NULL);
    }
}

void ll_stop_on(int number) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

int ll_stop_wanted(void) {
    return stop;
}
