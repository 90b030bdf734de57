/* One table of options for each command. It parses the command line, prints --help, and suggests the nearest option.
 * Options are long; a value follows as `--name VALUE` or `--name=VALUE`; `--` ends them. */
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
    const char *value; /* name of the value in --help */
    void *to;          /* where the value is stored; its initial value is the default */
    double min, max;   /* range of numbers */
    const char *help;
} ll_arg;

typedef struct {
    const char *name;
    const char *words;                     /* what follows the command's name: "RECIPE", "[KEY]" */
    int least, most;                       /* the least and the most arguments */
    const char *summary;                   /* one line, for the list of commands */
    const char *text;                      /* its description, and examples */
    const ll_arg *args;                    /* ends with LL_ARG_END; NULL: none */
    const ll_arg *shared;                  /* options shared with other commands, after its own; NULL: none */
    int (*run)(int n, const char **words); /* returns the exit code */
    int ranks;  /* ranks share its work; other commands run on the first rank alone */
} ll_command;

/* Stores the options in the fields of command->args. Moves the other arguments to the front of argv (argv[0] is the
 * first after the command's name) and counts them in *n. Returns -1 to go on, else the exit code: 0 after --help, 2
 * after an error, which it has printed. */
int ll_args_parse(const ll_command *command, int argc, const char **argv, int *n);

/* The key of "KEY=VALUE" or " KEY = VALUE", cut to fit. Returns text. */
enum { LL_KEY = 64 };
const char *ll_args_key(const char *assignment, char text[LL_KEY]);
/* Does one of the words of a list name this key? */
int ll_args_name_key(const ll_arg_list *list, const char *key);

/* Was this option given, also with the value that it has by itself? name: without dashes. */
int ll_args_given(const char *name);

/* The page that --help prints. */
void ll_args_help(const ll_command *command);

/* The nearest of n names, or NULL if none is near. */
const char *ll_args_nearest(const char *word, const char *const *names, int n);
/* The key of recipes whose last word is nearest to `word`, or NULL if none is nearer than `least` letters. */
const char *ll_args_nearest_key(const char *word, int least);

#endif
