/* longline bench: measures how fast the library is on this machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

#define USUAL "1024,4096,16384,65536" /* lengths */
enum { SECONDS = 30 };

static int yardsticks, ops, models, generation, dist;
static const char *lengths, *json, *pattern, *figure, *against;
static int64_t repeats, position;
static double seconds, compute_seconds;
static ll_arg_list set;

static const ll_arg args[] = {
    {LL_ARG_FLAG, 0, "yardsticks", NULL, &yardsticks, 0, 0, "matrix products and copies of memory"},
    {LL_ARG_FLAG, 0, "ops", NULL, &ops, 0, 0, "attention alone, forward and backward"},
    {LL_ARG_FLAG, 0, "models", NULL, &models, 0, 0, "training steps of whole models"},
    {LL_ARG_FLAG, 0, "generate", NULL, &generation, 0, 0, "a prompt; tokens generated, early and late in a stream"},
    {LL_ARG_FLAG, 0, "dist", NULL, &dist, 0, 0, "ranks under mpirun: the link, training steps, bytes sent"},
    {LL_ARG_NUMBER, 0, "rehearse", "S", &compute_seconds, 0, 1e6,
     "for --dist: steps that sleep S seconds in place of computing; messages are real"},
    {LL_ARG_TEXT, 0, "lengths", "A,B,..", &lengths, 0, 0, "lengths for --ops; default " USUAL},
    {LL_ARG_INTEGER, 0, "repeats", "N", &repeats, 0, LL_BENCH_REPEATS, "runs of each case; 0 = as many as time allows"},
    {LL_ARG_NUMBER, 0, "seconds", "S", &seconds, 0, 1e6, "time for each section, if --repeats is not given; 0 = 30"},
    {LL_ARG_TEXT, 0, "case", "A,B,..", &pattern, 0, 0,
     "only cases whose name contains or matches (*) one of these; long models only by full name"},
    {LL_ARG_INTEGER, 0, "position", "N", &position, 0, 1e12,
     "position of the late tokens; 0 = 1000000 if time allows, 4096 with --against"},
    {LL_ARG_LIST, 0, "set", "KEY=VALUE", &set, 0, 0, "changes the recipe of --models, --generate and --dist"},
    {LL_ARG_TEXT, 0, "against", "FILE", &against, 0, 0,
     "an earlier longline: measures in turns; exit 1 if this one is over 3 % slower"},
    {LL_ARG_TEXT, 0, "json", "FILE", &json, 0, 0, "writes the results as JSON"},
    {LL_ARG_TEXT, 0, "figure", "FILE", &figure, 0, 0, "draws time against length (.svg, .png); measures more lengths"},
    {.type = LL_ARG_END},
};

/* -1, or the exit code. */
static int read_lengths(ll_bench *b) {
    for (const char *s = lengths ? lengths : USUAL; *s;) {
        char *end = NULL;
        const long T = strtol(s, &end, 10);
        if (end == s || (*end && *end != ',') || (*end && !end[1]) || T < 1 || T > 1 << 23)
            return ll_usage("--lengths %s: needs numbers from 1 to %d with commas between", lengths, 1 << 23);
        if (b->lengths == LL_BENCH_LENGTHS) return ll_usage("--lengths: at most %d of them", LL_BENCH_LENGTHS);
        b->length[b->lengths++] = (int)T;
        s = *end ? end + 1 : end;
    }
    return b->lengths ? -1 : ll_usage("--lengths needs at least one");
}

/* The best of a few tries, because other programs may disturb any of them. */
static void measure_peak(ll_bench *b) {
    for (int i = 0; i < 3; i++) {
        b->peak_one = fmax(b->peak_one, 1e9 * ll_measure_peak(1, 0.15));
        b->peak = fmax(b->peak, 1e9 * ll_measure_peak(ll_threads(), 0.15));
        b->peak = fmax(b->peak, b->peak_one);
        if (b->peak > 0.9 * ll_threads() * b->peak_one) return;
    }
}

/* Before the first table: describes the machine, and warns if other programs use it. */
static void head(const ll_bench *b) {
    printf("%s, %d threads; peak %.0f GFLOP/s, one thread %.0f\n\n", ll_cpu(), ll_threads(), 1e-9 * b->peak,
           1e-9 * b->peak_one);
    if (b->peak < 0.7 * ll_threads() * b->peak_one)
        ll_print("%d threads are %.1f times as fast as one: other programs use this machine, and these times show it",
                 ll_threads(), b->peak / b->peak_one);
}

static int section(ll_bench *b, ll_status (*measure)(ll_bench *), const char *remedy) {
    const int from = b->rows;
    const ll_status status = measure(b);
    if (status == LL_ENOMEM) return ll_fail_message("there is not enough memory for these cases; %s", remedy);
    if (status) return ll_failed(status, NULL);
    measure_peak(b);
    if (!from && b->rows) head(b);
    ll_bench_table(b, from);
    return -1;
}

/* Is none asked for by name? */
static int no_section(void) { return !yardsticks && !ops && !models && !generation; }

static int measure(ll_bench *b) {
    static const char fewer[] = "choose others with --case", shorter[] = "ask for shorter --lengths",
                      smaller[] = "choose smaller ones with --case, or --set a smaller model.width";
    const int all = no_section();
    int code = -1;
    measure_peak(b);
    if (yardsticks || all) code = section(b, ll_bench_yardstick, fewer);
    if (code < 0 && (ops || all || (figure && !models && !generation))) code = section(b, ll_bench_ops, shorter);
    if (code < 0 && (models || all)) code = section(b, ll_bench_models, smaller);
    if (code < 0 && (generation || all)) code = section(b, ll_bench_generate, smaller);
    if (code < 0 && !b->rows && b->left_out)
        return ll_fail_message("all of these cases need more memory than there is; %s", shorter);
    if (code < 0 && !b->rows)
        return ll_usage("no case is called '%s'; without --case all of them run", pattern ? pattern : "");
    return code;
}

/* Late tokens with --against. A name has the position, so that it must not depend on time. */
enum { LATE_AGAINST = 4096 };

/* Runs this program in turns with that of --against. */
static int compare(void) {
    ll_bench_against o = {.file = against, .lengths = lengths, .pattern = pattern, .set = &set, .turns = (int)repeats};
    const int none = no_section(), all = none && pattern;
    int n = 0;
    if (yardsticks) o.sections[n++] = "--yardsticks";
    if (ops || (none && !all)) o.sections[n++] = "--ops";
    if (models) o.sections[n++] = "--models";
    if (generation) o.sections[n++] = "--generate";
    if ((ops || none) && !lengths) o.lengths = USUAL;
    if (generation || all) o.position = position ? position : LATE_AGAINST;
    if (seconds > 0) return ll_usage("--seconds: with --against, --repeats is the number of turns");
    if (json || figure) return ll_usage("--against prints ratios; --json and --figure are of one program's times");
    return ll_bench_compare(&o);
}

/* Keys that the cases set themselves. -1, or the exit code. */
static int check_keys(void) {
    static const char *const fixed[] = {"train.length", "train.batch", "dist.shards"};
    for (int k = 0; k < 3; k++) {
        if (!ll_args_name_key(&set, fixed[k])) continue;
        if (!dist && k < 2) return ll_usage("--set %s: each case has its own; choose cases with --case", fixed[k]);
        if (dist && k > 0) return ll_usage("--set %s: the steps of --dist have their own", fixed[k]);
    }
    return -1;
}

/* Options of sections that do not run. -1, or the exit code. */
static int check_takers(void) {
    const int none = no_section() && !dist, all = none && (!against || pattern);
    if (lengths && !ops && !none && !(figure && !models && !generation))
        return ll_usage("--lengths are for --ops, which these options leave out");
    if (position && !generation && !all) return ll_usage("--position is for --generate; add it");
    if (set.n && !models && !generation && !dist && !all)
        return ll_usage("--set changes the recipe of --models, --generate and --dist; add one of them");
    return check_keys();
}

/* Checks all options before minutes of measuring. -1, or the exit code. */
static int check(ll_bench *b) {
    ll_recipe *recipe = NULL;
    const size_t n = figure ? strlen(figure) : 0;
    if (figure && (n < 5 || (strcmp(figure + n - 4, ".svg") && strcmp(figure + n - 4, ".png"))))
        return ll_usage("--figure %s: the picture's name must end in .svg or .png", figure);
    ll_status status = ll_recipe_create(&recipe);
    if (!status) status = ll_set_all(recipe, &set);
    ll_recipe_free(recipe);
    int code = status ? ll_failed(status, NULL) : read_lengths(b);
    if (code < 0) code = check_takers();
    if (code < 0 && compute_seconds > 0 && !dist) return ll_usage("--rehearse goes with --dist");
    if (code < 0 && position && position <= LL_BENCH_EARLY)
        return ll_usage("--position %lld: early tokens go to %d; give a later one", (long long)position,
                        LL_BENCH_EARLY);
    if (code < 0 && figure && !ops && (models || generation))
        return ll_usage("--figure draws attention by itself: add --ops");
    if (code < 0 && figure) code = ll_target_check("--figure", figure);
    if (code < 0 && figure) code = ll_bench_figure_check(b);
    return code < 0 && json ? ll_text_target_check("--json", json) : code;
}

/* What needs all ranks, and is not one of the sections. */
static int rank_costs(const ll_bench *b) {
    if (!no_section() || json || figure || pattern || against || seconds > 0)
        return ll_usage("--dist goes with --rehearse, --repeats and --set alone");
    const ll_status status = ll_bench_dist(b, compute_seconds);
    return status ? ll_failed(status, NULL) : 0;
}

/* The sections, and what is concluded of them. */
static int run_sections(ll_bench *b) {
    const int code = measure(b);
    if (code >= 0) return code;
    ll_bench_summary(b);
    if (figure) {
        const ll_status status = ll_bench_figure(b, figure);
        if (status) return ll_failed(status, NULL);
        printf("bench.figure=%s\n", figure);
    }
    return json ? ll_bench_json(b, json) : 0;
}

static int bench(int n, const char **words) {
    (void)n, (void)words;
    ll_bench b = {.figure = figure != NULL,
                  .pattern = pattern,
                  .repeats = repeats,
                  .position = position,
                  .set = &set,
                  .seconds = seconds > 0 ? seconds : SECONDS};
    int code = check(&b);
    if (code < 0 && dist) return rank_costs(&b);
    if (ll_dist_ranks().rank) return code < 0 ? 0 : code; /* the first one measures alone */
    if (code < 0 && against) code = compare();
    if (code >= 0) return code;
    b.row = calloc(LL_BENCH_ROWS, sizeof *b.row); /* only what is used takes memory */
    code = b.row ? run_sections(&b) : ll_fail_message("no memory for %d cases", LL_BENCH_ROWS);
    free(b.row);
    return code;
}

const ll_command ll_command_bench = {
    .name = "bench",
    .words = "",
    .summary = "measure speed and memory on this machine",
    .text = "Measures what the machine can do (--yardsticks), attention by itself (--ops), training steps of whole\n"
            "models (--models) and generation (--generate); without one of these, all four, in about two minutes on\n"
            "a machine of two cores. Cases take turns, times are medians, GFLOP is the work that the\n"
            "mathematics needs (docs/performance.md), MiB the memory beyond what goes in and out. --against prints\n"
            "the least time of each program, and the median of the ratios of its turns, with an interval; without\n"
            "a section or --case it measures --ops.\n\n"
            "  longline bench\n"
            "  longline bench --ops --repeats 9 --lengths 4096,65536 --json speed.json\n"
            "  longline bench --ops --figure time.svg\n"
            "  longline bench --case attention/favor/causal/fwdbwd --repeats 5\n"
            "  longline bench --case attention/relu/,attention/relu+permute/ --repeats 9\n"
            "  longline bench --generate --position 1000000 --set model.width=512\n"
            "  longline bench --ops --lengths 4096 --against ./longline-before\n"
            "  mpirun -n 4 longline bench --dist\n"
            "  mpirun -n 4 longline bench --dist --rehearse 0.5 --set model.width=1024",
    .args = args,
    .run = bench,
    .ranks = 1,
};
