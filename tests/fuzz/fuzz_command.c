/* Any text as a command line, arguments divided by line ends: the parser of options refuses it with a message,
 * prints the help, or leaves every field within its range and the other words in order. */
#include <string.h>

#include "../../cli/args.c" /* for what it remembers of a command line: a program reads one alone */
#include "fuzz/fuzz.h"

enum { WORDS = 200 };

static int64_t count;
static double share;
static const char *text;
static ll_arg_list list;
static int flag;

static const ll_arg own[] = {
    {LL_ARG_INTEGER, 'n', "count", "N", &count, -5, 1000, "how many"},
    {LL_ARG_NUMBER, 0, "share", "X", &share, 0, 1, "a part"},
    {LL_ARG_TEXT, 'o', "out", "PATH", &text, 0, 0, "a file"},
    {LL_ARG_LIST, 's', "set", "KEY=VALUE", &list, 0, 0, "a key"},
    {.type = LL_ARG_END},
};
static const ll_arg shared[] = {{LL_ARG_FLAG, 'f', "flag", NULL, &flag, 0, 0, "yes or no"}, {.type = LL_ARG_END}};
static const ll_command command = {"fuzz", "WORD [WORD]", 1, 3, "summary", "text", own, shared, NULL, 0};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int quiet;
    const char *argv[WORDS];
    int argc = 0, n = 0;
    if (!quiet++) check(freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr));
    char *copy = malloc(size + 1);
    check(copy != NULL);
    if (size) memcpy(copy, data, size);
    copy[size] = 0;
    for (char *rest = copy, *word; argc < WORDS && (word = strsep(&rest, "\n"));) argv[argc++] = word;
    count = 0, share = 0, text = NULL, flag = 0;
    threads = 0, cpu = NULL, help = 0;
    const int code = ll_args_parse(&command, argc, argv, &n);
    check(code >= -1 && code <= 2 && code != 1);
    check(count >= -5 && count <= 1000 && share >= 0 && share <= 1 && (flag == 0 || flag == 1));
    if (code == -1) {
        check(n >= 1 && n <= 3);
        for (int i = 0; i < n; i++) check(argv[i] >= copy && argv[i] <= copy + size && *argv[i]);
        for (int i = 1; i < n; i++) check(argv[i] > argv[i - 1]);
    }
    free(list.at);
    list = (ll_arg_list){0};
    free(copy);
    return 0;
}
