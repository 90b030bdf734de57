/* longline table: the systems of a paper's table under one budget. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const char *budget = "2m", *out;
static int64_t seeds = 3;
static int list;
static ll_arg_list only, set;

static const ll_arg args[] = {
    {LL_ARG_TEXT, 0, "budget", "TIME", &budget, 0, 0,
     "training time of each run, \"30m\", \"90s\", \"1h30m\"; or \"500steps\""},
    {LL_ARG_INTEGER, 0, "seeds", "N", &seeds, 1, 64, "runs of each system"},
    {LL_ARG_LIST, 0, "only", "SYSTEM", &only, 0, 0, "runs only this system; may be repeated"},
    {LL_ARG_TEXT, 'o', "out", "DIR", &out, 0, 0, "folder of runs and results; default tables/NAME"},
    {LL_ARG_LIST, 0, "set", "KEY=VALUE", &set, 0, 0, "sets a key of all recipes; may be repeated"},
    {LL_ARG_FLAG, 0, "list", NULL, &list, 0, 0, "prints systems and differences from the paper, and runs nothing"},
    {.type = LL_ARG_END},
};

/* ---- Options ---- */

static const long long MOST_STEPS = 1000000000000; /* of train.steps */

/* "1h30m" in seconds, or "500steps". -1, or the exit code. */
static int read_budget(ll_comparison_how *how) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"h", 3600}, {"m", 60}, {"s", 1}};
    char *end;
    const long long steps = strtoll(budget, &end, 10);
    while (*end == ' ') end++;
    if (steps > 0 && end != budget && (!strcmp(end, "steps") || !strcmp(end, "step"))) {
        how->steps = steps;
        return steps <= MOST_STEPS ? -1 : ll_usage("--budget %s: needs at most %lld steps", budget, MOST_STEPS);
    }
    for (const char *s = budget; *s;) {
        const double n = strtod(s, &end);
        int i = 0;
        while (i < 3 && *end != *units[i].unit) i++;
        if (end == s || i == 3 || !(n >= 0) || *s == '-')
            return ll_usage("--budget %s: needs a time with its unit, as 30m, 90s, 1h30m, or 500steps", budget);
        how->seconds += n * units[i].seconds;
        s = end + 1;
    }
    if (!(how->seconds >= 1) || how->seconds > 1e7)
        return ll_usage("--budget %s: needs a second at least, and less than 4 months", budget);
    return -1;
}

/* "recipes/tables/wikitext2.ini" -> "tables/wikitext2" */
static const char *name_folder(char *folder, size_t size, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    snprintf(folder, size, "tables/%.*s", (int)(dot && dot != name ? dot - name : (long)strlen(name)), name);
    return folder;
}

/* A name in --only that the table does not have. */
static int check_names(const ll_comparison *c) {
    const char *names[64];
    int n = 0;
    ll_system s;
    for (; n < 64 && ll_comparison_system(c, n, &s); n++) names[n] = s.name;
    for (int k = 0; k < only.n; k++) {
        int i = 0;
        while (i < n && strcmp(only.at[k], names[i])) i++;
        if (i < n) continue;
        const char *near = ll_args_nearest(only.at[k], names, n);
        if (near) return ll_usage("--only %s: the table has no such system; did you mean '%s'?", only.at[k], near);
        return ll_usage("--only %s: the table has no such system; --list prints them", only.at[k]);
    }
    return -1;
}

/* ---- The table ---- */

static const char *decimals(char text[64], const ll_comparison_about *a, double value, double deviation) {
    if (!isfinite(value)) return "-";
    snprintf(text, 64, isfinite(deviation) ? "%.*f +- %.*f" : "%.*f", a->decimals, value, a->decimals, deviation);
    return text;
}

static const char *large(char text[64], double n) {
    if (!(n > 0)) return "-";
    if (n < 99999.5)
        snprintf(text, 64, "%.0f", n);
    else if (n < 999.5e6)
        snprintf(text, 64, n < 9.995e6 ? "%.2fM" : "%.1fM", n / 1e6);
    else
        snprintf(text, 64, "%.2fG", n / 1e9);
    return text;
}

/* Columns on a terminal: bytes that continue a character of UTF-8 take none. */
static int columns(const char *text) {
    int n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

static void print_row(const ll_comparison_about *a, const ll_system *s, int width) {
    char text[5][64], runs[48], minutes[24] = "-";
    snprintf(runs, sizeof runs, s->diverged ? "%d, %d diverged" : "%d", s->runs, s->diverged);
    if (s->steps > 0) snprintf(minutes, sizeof minutes, "%.1f", s->seconds / 60);
    printf("%s%*s  %18s  %9s  %4s  %8s  %8s  %7s  %10s\n", s->label, width - columns(s->label), "",
           decimals(text[0], a, s->mean, s->deviation), decimals(text[1], a, s->published, NAN), runs,
           large(text[2], s->steps), large(text[3], s->tokens), minutes, large(text[4], s->parameters));
}

static void print_differences(const ll_comparison_about *a) {
    if (a->differences) printf("\nWhat differs from the paper:\n");
    for (int i = 0; i < a->differences; i++) printf("  %-10s %s\n", a->difference[i].what, a->difference[i].how);
}

static void print_table(const ll_comparison *c) {
    const ll_comparison_about *a = ll_comparison_report(c);
    int width = 6, diverged = 0, pairs, agree;
    double count = 0;
    ll_system s;
    for (int i = 0; ll_comparison_system(c, i, &s); i++) {
        if (columns(s.label) > width) width = columns(s.label);
        if (s.count > count) count = s.count;
        diverged += s.diverged;
    }
    printf("%s\n%s%s\n", a->title, a->paper, *a->paper ? "\n" : "");
    printf("%-*s  %18s  %9s  %4s  %8s  %8s  %7s  %10s\n", width, "system", a->metric, "published", "runs", "steps",
           "tokens", "minutes", "parameters");
    for (int i = 0; ll_comparison_system(c, i, &s); i++) print_row(a, &s, width);
    printf("\n%s on the %s split (%.0f predictions), mean and standard deviation over seeds; %s is better.\n",
           !strcmp(a->metric, "accuracy") ? "Per cent right" : a->metric, a->split, count, a->rises ? "more" : "less");
    if (diverged)
        printf(
            "Means are of the runs that did not diverge. A system with a diverged run is in no pair of the published "
            "order.\n");
    ll_comparison_order(c, &pairs, &agree);
    if (pairs) printf("%d of %d pairs of systems come in the published order.\n", agree, pairs);
    print_differences(a);
}

static void print_list(const ll_comparison *c) {
    const ll_comparison_about *a = ll_comparison_report(c);
    char text[64];
    ll_system s;
    printf("%s\n%s\n\n%-16s  %9s  label\n", a->title, a->paper, "system", "published");
    for (int i = 0; ll_comparison_system(c, i, &s); i++)
        printf("%-16s  %9s  %s\n", s.name, decimals(text, a, s.published, NAN), s.label);
    print_differences(a);
}

/* ---- Progress ---- */

typedef struct {
    ll_watch watch;
    int number; /* the run that it shows */
    const ll_recipe *recipe;
    char name[160];
} follower;

static int show(const ll_comparison_progress *p, void *arg) {
    follower *f = arg;
    if (f->number != p->number) {
        if (f->number) ll_watch_end(&f->watch);
        snprintf(f->name, sizeof f->name, "[%d/%d] %s, seed %d", p->number, p->of, p->system->name, p->seed);
        ll_watch_start(&f->watch, p->recipe, NULL);
        f->watch.name = f->name;
        f->number = p->number;
        f->recipe = p->recipe;
    }
    f->watch.after = p->after;
    if (p->run) return ll_watch_step(p->run, &f->watch);
    ll_watch_end(&f->watch);
    ll_reading_line_begin(); /* each run reads its data */
    if (!strcmp(p->stage, "pace")) ll_print("%s: timing a step", f->name);
    if (!strcmp(p->stage, "elsewhere")) ll_print("%s: another process makes this run", f->name);
    return ll_stop_wanted();
}

/* ---- The command ---- */

/* recipe: that of the last run, or NULL if none began. */
static int finish(const ll_comparison *c, const char *folder, ll_status made, const ll_recipe *recipe) {
    if (made && made != LL_ESTOPPED) return recipe ? ll_failed_data(made, recipe) : ll_failed(made, NULL);
    if (ll_dist_ranks().rank) return 0;
    print_table(c);
    const ll_status status = ll_comparison_write(c, folder);
    if (status) return ll_failed(status, NULL);
    printf("\ntable.csv=%s/table.csv\ntable.page=%s/table.html\n", folder, folder);
    if (made == LL_ESTOPPED) ll_print("stopped; finished runs are kept, and the same command continues");
    return 0;
}

/* how: the budget. */
static int run(ll_comparison *c, const char *path, ll_comparison_how how) {
    char own[4096];
    follower f = {0};
    how.seeds = (int)seeds;
    how.only = only.n;
    how.names = only.at;
    how.progress = show;
    how.arg = &f;
    how.folder = out ? out : name_folder(own, sizeof own, path);
    ll_stop_on_signals(1, "stopping", "finished runs are kept; the same command continues");
    const ll_status status = ll_comparison_run(c, &how);
    if (f.number) ll_watch_end(&f.watch);
    return finish(c, how.folder, status, f.recipe);
}

/* A table of results that were measured before runs nothing. -1: the table has systems to run. */
static int print_measured(const char *path) {
    char *text;
    const ll_status status = ll_measured_table(&text, path);
    if (status) return ll_failed(status, path);
    if (!text) return -1;
    const int runs = only.n || set.n || out || ll_args_given("budget") || ll_args_given("seeds");
    if (!runs) fputs(text, stdout);
    ll_text_free(text);
    return runs ? ll_usage("%s has results that were measured before, and runs nothing; leave out --budget, --seeds, "
                           "--only, --set and -o",
                           path)
                : 0;
}

static int table(int n, const char **words) {
    ll_comparison *c = NULL;
    ll_comparison_how how = {0};
    (void)n;
    int code = read_budget(&how);
    if (code < 0) code = print_measured(words[0]);
    if (code >= 0) return code;
    ll_status status = ll_comparison_load(&c, words[0]);
    for (int i = 0; i < set.n && !status; i++) status = ll_comparison_set(c, set.at[i]);
    code = status ? ll_failed(status, words[0]) : check_names(c);
    if (code < 0 && list) {
        print_list(c);
        code = 0;
    }
    if (code < 0 && out) code = ll_folder_check("--out", out);
    if (code < 0) code = run(c, words[0], how);
    ll_comparison_free(c);
    return code;
}

const ll_command ll_command_table = {
    .name = "table",
    .words = "TABLE",
    .least = 1,
    .most = 1,
    .summary = "run the systems of a paper's table under one budget",
    .text = "Trains every system of a table (recipes/tables) with some seeds, each run under the same budget. Prints\n"
            "mean and standard deviation beside the published figures, and the differences from the paper. A budget\n"
            "of time is converted into steps by timing one step of each system, so slower systems make fewer steps.\n"
            "Unless --set says otherwise, a run warms up for at most a tenth of its steps, is evaluated after every\n"
            "tenth, and is saved after every twentieth.\n"
            "It can be interrupted or killed at any time: the same command continues and repeats no finished run.\n"
            "Seeds can be added later. table.csv and table.html are written beside the runs. mpirun -n N shares each\n"
            "run among N ranks; a batch is then cut into dist.shards, as for train. A table with `results` prints\n"
            "what was measured before, and runs nothing; it refuses options about runs.\n\n"
            "  longline table recipes/tables/wikitext2.ini --budget 30m --seeds 3\n"
            "  longline table recipes/tables/lra-listops.ini --list\n"
            "  longline table recipes/tables/lra.ini\n"
            "  longline table recipes/tables/proteins-masked.ini --only performer-relu --budget 500steps",
    .args = args,
    .run = table,
    .ranks = 1,
};
