/* The option parser of all commands. */
#include "args.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static int64_t threads;
static const char *cpu;
static int help;

/* Options of every command, after its own. */
static const ll_arg common[] = {
    {LL_ARG_INTEGER, 0, "threads", "N", &threads, 0, 256, "threads to use; 0 = one for each core it may use"},
    {LL_ARG_TEXT, 0, "cpu", "TIER", &cpu, 0, 0,
     "instructions to use: scalar, avx2, avx512, avx512bf16, neon, neonbf16; else the fastest"},
    {LL_ARG_FLAG, 'h', "help", NULL, &help, 0, 0, "print this page"},
    {.type = LL_ARG_END},
};

/* Option number i of a command, its own first; NULL past the last. */
static const ll_arg *option_at(const ll_command *command, int i) {
    const ll_arg *const tables[] = {command->args, command->shared, common};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const ll_arg *a = tables[t]; a && a->type; a++)
            if (i-- == 0) return a;
    return NULL;
}

/* The option that a word names: "--NAME", or "-L" for its letter; NULL if there is none. */
static const ll_arg *find(const ll_command *command, const char *word, size_t length) {
    for (int i = 0; option_at(command, i); i++) {
        const ll_arg *a = option_at(command, i);
        if (length == 2 && word[0] == '-' && a->letter && word[1] == a->letter) return a;
        if (length == strlen(a->name) + 2 && !strncmp(word, "--", 2) && !strncmp(word + 2, a->name, length - 2))
            return a;
    }
    return NULL;
}

/* ---- Suggestions ---- */

const char *ll_args_key(const char *assignment, char text[LL_KEY]) {
    assignment += strspn(assignment, " \t");
    snprintf(text, LL_KEY, "%.*s", (int)strcspn(assignment, " \t="), assignment);
    return text;
}

int ll_args_name_key(const ll_arg_list *list, const char *key) {
    char text[LL_KEY];
    for (int i = 0; i < list->n; i++)
        if (!strcmp(ll_args_key(list->at[i], text), key)) return 1;
    return 0;
}

const char *ll_args_nearest(const char *word, const char *const *names, int n) {
    const char *best = NULL;
    int least = 1 + (int)strlen(word) / 3;
    for (int i = 0; i < n; i++) {
        const int e = ll_edit_distance(word, names[i]);
        if (e <= least && (!best || e < least)) best = names[i], least = e;
    }
    return best;
}

const char *ll_args_nearest_key(const char *word, int least) {
    const char *best = NULL;
    const ll_recipe_key *key;
    for (int i = 0; (key = ll_recipe_key_at(i)); i++) {
        const int e = ll_edit_distance(word, strrchr(key->name, '.') + 1);
        if (e < least) best = key->name, least = e;
    }
    return best;
}

static int unknown(const ll_command *command, const char *word, size_t length) {
    char name[64];
    const char *names[64];
    int n = 0;
    snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), word);
    for (const ll_arg *a; n < 64 && (a = option_at(command, n)); n++) names[n] = a->name;
    if (strncmp(name, "--", 2)) return ll_usage("unknown option '%s'", name);
    const char *near = ll_args_nearest(name + 2, names, n);
    const int least = near ? ll_edit_distance(name + 2, near) : 2 + (int)strlen(name + 2) / 3;
    const char *key = find(command, "--set", strlen("--set")) ? ll_args_nearest_key(name + 2, least) : NULL;
    if (key) return ll_usage("unknown option '%s'; did you mean '--set %s=VALUE'?", name, key);
    if (near) return ll_usage("unknown option '%s'; did you mean '--%s'?", name, near);
    return ll_usage("unknown option '%s'", name);
}

static int unexpected(const ll_command *command, const char *word) {
    if (strchr(word, '=') && find(command, "--set", strlen("--set")))
        return ll_usage("unexpected argument '%s'; did you mean '--set %s'?", word, word);
    return ll_usage("unexpected argument '%s'", word);
}

/* ---- Values ---- */

static int bad_value(const ll_arg *a, const char *text) {
    if (a->type == LL_ARG_INTEGER)
        return ll_usage("--%s %s: needs a whole number from %.0f to %.0f", a->name, text, a->min, a->max);
    return ll_usage("--%s %s: needs a number from %g to %g", a->name, text, a->min, a->max);
}

/* The whole text as a number within the option's range; -1, or the exit code. */
static int take_number(const ll_arg *a, const char *text) {
    char *end = NULL;
    errno = 0;
    const double x = strtod(text, &end);
    if (end == text || *end || !isfinite(x) || x < a->min || x > a->max) return bad_value(a, text);
    if (a->type == LL_ARG_NUMBER) {
        *(double *)a->to = x;
        return -1;
    }
    const long long i = strtoll(text, &end, 10);
    if (*end || errno) return bad_value(a, text);
    *(int64_t *)a->to = i;
    return -1;
}

static const ll_arg *given[64]; /* each once; more than a command has */

int ll_args_given(const char *name) {
    for (int i = 0; given[i]; i++)
        if (!strcmp(given[i]->name, name)) return 1;
    return 0;
}

static void note_given(const ll_arg *a) {
    int i = 0;
    while (given[i] && given[i] != a) i++;
    if (i + 1 < (int)(sizeof given / sizeof *given)) given[i] = a;
}

static int take(const ll_arg *a, const char *text, int argc) {
    ll_arg_list *list = a->to;
    note_given(a);
    switch (a->type) {
    case LL_ARG_INTEGER:
    case LL_ARG_NUMBER: return take_number(a, text);
    case LL_ARG_TEXT: *(const char **)a->to = text; return -1;
    case LL_ARG_LIST:
        if (!list->at) list->at = calloc((size_t)argc, sizeof *list->at); /* lives as long as the program */
        if (!list->at) return ll_fail_message("out of memory");
        list->at[list->n++] = text;
        return -1;
    case LL_ARG_FLAG: *(int *)a->to = 1; return -1;
    case LL_ARG_END: break;
    }
    return -1;
}

/* ---- Arguments ---- */

/* Reads the option at argv[*i], and its value; -1, or the exit code. */
static int one_option(const ll_command *command, int argc, const char **argv, int *i) {
    const char *word = argv[*i], *equals = strchr(word, '=');
    const size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const ll_arg *a = find(command, word, length);
    if (!a) return unknown(command, word, length);
    if (a->type == LL_ARG_FLAG) return equals ? ll_usage("--%s takes no value", a->name) : take(a, NULL, argc);
    if (equals) return take(a, equals + 1, argc);
    if (*i + 1 >= argc) return ll_usage("--%s needs a value: --%s %s", a->name, a->name, a->value);
    return take(a, argv[++*i], argc);
}

/* Threads and tier, for all commands. */
static int set_machine(void) {
    ll_set_threads((int)threads);
    const ll_status status = ll_set_cpu(cpu); /* without one, the tier in LL_CPU must exist */
    return !status ? -1 : cpu ? ll_failed_at(status, "--cpu") : ll_failed(status, NULL);
}

/* Is --help among the options? It is looked for before any value is taken: a help page shows defaults. */
static int asks_for_help(const ll_command *command, int argc, const char **argv) {
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (argv[i][0] != '-' || !argv[i][1]) continue;
        const char *equals = strchr(argv[i], '=');
        const ll_arg *a = find(command, argv[i], equals ? (size_t)(equals - argv[i]) : strlen(argv[i]));
        if (!a) return 0;
        if (a->to == &help && !equals) return 1;
        if (a->type != LL_ARG_FLAG && !equals) i++;
    }
    return 0;
}

int ll_args_parse(const ll_command *command, int argc, const char **argv, int *n) {
    int ended = 0;
    *n = 0;
    if (asks_for_help(command, argc, argv)) {
        ll_args_help(command);
        return 0;
    }
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!ended && !strcmp(word, "--")) {
            ended = 1;
        } else if (!ended && word[0] == '-' && word[1]) {
            const int code = one_option(command, argc, argv, &i);
            if (code >= 0) return code;
        } else {
            argv[(*n)++] = word;
        }
    }
    for (int i = 0; i < *n; i++)
        if (!*argv[i]) return ll_usage("an argument is empty; needs %s", command->words);
    if (*n < command->least) return ll_usage("needs %s", command->words);
    if (*n > command->most) return unexpected(command, argv[command->most]);
    return set_machine();
}

/* ---- Help ---- */

static void help_option(const ll_arg *a) {
    char left[64];
    if (a->letter)
        snprintf(left, sizeof left, "-%c, --%s %s", a->letter, a->name, a->value ? a->value : "");
    else
        snprintf(left, sizeof left, "--%s %s", a->name, a->value ? a->value : "");
    printf("  %-24s %s", left, a->help);
    const int64_t whole = a->type == LL_ARG_INTEGER ? *(int64_t *)a->to : 0; /* one out of range: not given */
    if (a->type == LL_ARG_INTEGER && (double)whole >= a->min && (double)whole <= a->max)
        printf(" (default %lld)", (long long)whole);
    if (a->type == LL_ARG_NUMBER) printf(" (default %g)", *(double *)a->to);
    if (a->type == LL_ARG_TEXT && *(const char **)a->to) printf(" (default %s)", *(const char **)a->to);
    printf("\n");
}

void ll_args_help(const ll_command *command) {
    printf("usage: longline %s%s%s [options]\n\n%s\n\noptions:\n", command->name, command->words[0] ? " " : "",
           command->words, command->text);
    for (int i = 0; option_at(command, i); i++) help_option(option_at(command, i));
}
