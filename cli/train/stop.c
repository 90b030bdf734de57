/* Signals that ask the program to stop. Of Ctrl-C, SIGTERM and SIGHUP the first one sets a flag, and the second one
 * ends the program. Both print a line: that the first was received, and what the second one leaves. A notice, which a
 * job's manager sends and may repeat, sets the flag alone. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "output/print.h"

static volatile sig_atomic_t stop, asked; /* asked: by a signal that ends the program when it comes again */

/* Made before the signal arrives, because a handler can only write. There are two buffers for each text, one of which
 * is in use. */
enum { TEXT = 4600 };
typedef struct {
    char buffer[2][TEXT];
    const char *volatile now;
} message;
static message at_first, at_second, at_notice;

static void prepare(message *m, const char *text, const char *more) {
    if (!ll_dist_ranks().reports) return; /* a launcher sends a signal to all ranks; one of them prints */
    char *buffer = m->buffer[m->now == m->buffer[0]];
    ll_print_text(buffer, TEXT, text, more);
    m->now = buffer;
}

static void say(const char *text) {
    const int reason = errno;
    if (text && write(STDERR_FILENO, text, strlen(text)) < 0) errno = reason; /* nobody reads it */
}

static void on_signal(int number) {
    const int again = asked;
    stop = asked = 1;
    say(again ? at_second.now : at_first.now);
    if (!again) return;
    signal(number, SIG_DFL);
    raise(number); /* the parent sees that a signal ended the program */
}

static void on_notice(int number) {
    (void)number;
    if (!stop) say(at_notice.now);
    stop = 1;
}

static const char at_once[] = "stopped at once; ";

void ll_stop_leaves(const char *second) { prepare(&at_second, at_once, second); }

const char *ll_stop_left(void) {
    const char *text = at_second.now ? strstr(at_second.now, at_once) : NULL;
    return text && text[strlen(at_once)] != '\n' ? text + strlen(at_once) : NULL;
}

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static void install(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < NUMBERS; i++) {
        struct sigaction before;
        /* What the parent ignores (nohup, a shell's background jobs) stays ignored. */
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler == SIG_IGN) continue;
        sigaction(numbers[i], &action, NULL);
    }
}

void ll_stop_on_signals(int restart, const char *first, const char *second) {
    prepare(&at_first, first, "; again stops at once");
    ll_stop_leaves(second);
    install(on_signal, restart ? SA_RESTART : 0);
}

static void (*before_end)(void);

static void on_early_signal(int number) {
    before_end();
    signal(number, SIG_DFL);
    raise(number);
}

void ll_stop_after(void (*last)(void)) {
    before_end = last;
    install(on_early_signal, SA_RESTART);
}

void ll_stop_no_more(void) {
    struct sigaction now;
    for (int i = 0; i < NUMBERS; i++)
        if (!sigaction(numbers[i], NULL, &now) && now.sa_handler == on_signal) signal(numbers[i], SIG_DFL);
}

void ll_stop_quietly(void) {
    at_first.now = at_second.now = at_notice.now = NULL;
}

void ll_stop_on_notice(int number, const char *text) {
    struct sigaction action = {.sa_handler = on_notice, .sa_flags = SA_RESTART};
    prepare(&at_notice, text, "");
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

int ll_stop_wanted(void) {
    return stop;
}
