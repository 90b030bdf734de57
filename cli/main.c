/* longline: the program. Finds the command in one table and runs it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "cli.h"
#include "output/print.h"

static const ll_command help_command, version_command; /* below; they read the table */

static const ll_command *const commands[] = {
    &ll_command_train,
    &ll_command_eval,
    &ll_command_generate,
    &ll_command_score,
    &ll_command_encode,
    &ll_command_classify,
    &ll_command_serve,
    &ll_command_inspect,
    &ll_command_attend,
    &ll_command_demo,
    &ll_command_report,
    &ll_command_bench,
    &ll_command_recipe,
    &ll_command_list,
    &ll_command_analyse,
    &ll_command_table,
    &ll_command_data,
    &ll_command_import,
    &ll_command_export,
    &ll_command_quantize,
    &ll_command_tokenize,
    &help_command,
    &version_command,
    NULL,
};

/* If a standard stream is closed, the next opened file would take its number, and messages would go into that file. So
 * it is opened on /dev/null, in the wrong direction, so that using it still fails. */
static void hold_streams(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) return;
}

/* A stack that cannot grow ends a program without a message. So the stack that commands need is touched at the start,
 * where a lack of memory can be reported. */
enum { STACK = 384 << 10, PAGE = 4096 };
static void touch(size_t bytes) {
    volatile char page[PAGE];
    page[0] = 0;
    if (bytes > PAGE) touch(bytes - PAGE);
    page[1] = page[0]; /* after the call, so that it is not a tail call */
}

static int reserve_stack(void) {
    struct rlimit limit;
    size_t bytes = STACK;
    if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur / 2 < bytes) bytes = (size_t)limit.rlim_cur / 2;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return ll_fail_message("no memory for %zu bytes of stack", bytes);
    munmap(stack, bytes);
    touch(bytes);
    return -1;
}

static const ll_command *find(const char *name) {
    for (int i = 0; commands[i]; i++)
        if (!strcmp(commands[i]->name, name)) return commands[i];
    return NULL;
}

static int unknown(const char *name) {
    const char *names[32];
    int n = 0;
    for (; n < 32 && commands[n]; n++) names[n] = commands[n]->name;
    const char *near = ll_args_nearest(name, names, n);
    if (near) return ll_usage("there is no command '%s'; did you mean '%s'?", name, near);
    return ll_usage("there is no command '%s'", name);
}

/* Joins the other ranks, if there are any. One of them prints. Work that they cannot share is done by the first one
 * alone. */
static int join_ranks(const ll_command *command) {
    if (!command->ranks) return ll_dist_launch_rank() ? 0 : -1;
    if (ll_dist_start()) return ll_failed(LL_EDIST, NULL);
    return -1;
}

/* ---- help and version ---- */

static void overview(void) {
    printf("longline %s: Transformers on very long sequences\n\nusage: longline COMMAND [options]\n\n", ll_version());
    for (int i = 0; commands[i]; i++) printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    printf("\nTry first:\n"
           "  longline demo                                     two minutes, needs nothing else\n"
           "  longline train recipes/text-bytes.ini --data my.txt\n"
           "  longline generate runs/text-bytes-1/last.safetensors --prompt 'It was'\n\n"
           "'longline COMMAND --help' explains a command.\n"
           "Exit codes: 0 done; 1 failure; 2 wrong usage or bad input.\n");
}

static int help(int n, const char **words) {
    if (!n) {
        overview();
        return 0;
    }
    const ll_command *command = find(words[0]);
    if (!command) return unknown(words[0]);
    ll_args_help(command);
    return 0;
}

static const ll_command help_command = {
    .name = "help",
    .words = "[COMMAND]",
    .most = 1,
    .summary = "explain a command",
    .text = "Prints what a command does and its options; without a command, the list of commands.\n\n"
            "  longline help train",
    .run = help,
};

static int version(int n, const char **words) {
    (void)n, (void)words;
    printf("longline %s\n", ll_version());
    return 0;
}

static const ll_command version_command = {
    .name = "version",
    .words = "",
    .summary = "print the version",
    .text = "Prints the version.\n\n  longline version",
    .run = version,
};

int main(int argc, char **argv) {
    hold_streams();
    if (reserve_stack() >= 0) return 1;
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the user's limit is an error, as on a full disk */
    const char *name = argc > 1 ? argv[1] : "";
    if (argc < 2) return ll_dist_end(ll_usage("needs a command"), NULL);
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
    if (!strcmp(name, "--version")) name = "version";
    const ll_command *command = find(name);
    if (!command) return ll_dist_end(unknown(name), NULL);
    ll_print_as(command->name);
    ll_stop_on_shortened_file();
    ll_figure_own_fonts();
    int n = 0;
    const char **words = (const char **)argv + 2;
    /* All ranks read the same arguments; one of them reports errors. */
    if (ll_dist_launch_rank() && !freopen("/dev/null", "w", stdout)) return 1;
    int code = ll_args_parse(command, argc - 2, words, &n);
    if (code < 0) code = join_ranks(command);
    if (code < 0) {
        ll_reading_line_begin();
        code = command->run(n, words);
        ll_reading_line_end();
    }
    code = ll_stdout_check(code);
    if (code) ll_stop_quietly(); /* a launcher ends all ranks by signals when one has failed */
    return ll_dist_end(code, ll_printed());
}
