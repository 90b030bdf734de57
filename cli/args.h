/* One table of options a command: it parses the command line, prints --help, and suggests what was
 * meant. Long options; a value follows as `--name VALUE` or `--name=VALUE`; `--` ends them. */
#ifndef LL_ARGS_H
#define LL_ARGS_H

#include <stdint.h>

typedef enum {
    LL_ARG_END,
    LL_ARG_FLAG,    /* int: 1 if given */
    LL_ARG_INTEGER, /* int64_t */
    LL_ARG_NUMBER,  /* double */
    LL_ARG_TEXT,    /* const char * */
    LL_ARG_LIST     /* ll_arg_list: may be given more than once */
} ll_arg_type;

typedef struct {
    int n;
    const char **at;
} ll_arg_list;

typedef struct {
    ll_arg_type type;
    char letter;       /* a short form, or 0 */
    const char *name;  /* without dashes */
    const char *value; /* what --help calls its value */
    void *to;          /* where it goes; what is there before is the default */
    double min, max;   /* of numbers */
    const char *help;
} ll_arg;

typedef struct {
    const char *name;
    const char *words;                     /* what follows the name: "RECIPE", "[KEY]" */
    int least, most;                       /* how many words */
    const char *summary;                   /* one line, for the list of commands */
    const char *text;                      /* what it does, and examples */
    const ll_arg *args;                    /* up to LL_ARG_END; NULL: none */
    const ll_arg *shared;                  /* those it shares with other commands, after its own; NULL: none */
    int (*run)(int n, const char **words); /* gives the exit code */
    int ranks;  /* ranks share its work; of other commands the first rank does all */
} ll_command;

/* Fills the fields of command->args, gathers the other words at the front of argv (argv[0] is the first
 * after the command's name) and counts them in *n. Returns -1 to go on, else the exit code: after
 * --help 0, after an error, which is then printed, 2. */
int ll_args_parse(const ll_command *command, int argc, const char **argv, int *n);

/* The page that --help prints. */
void ll_args_help(const ll_command *command);

/* The nearest of n names (`step` bytes apart, each a const char *), or NULL if none is near. */
const char *ll_args_nearest(const char *word, const char *const *names, int n);

#endif
