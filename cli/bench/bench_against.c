/* longline bench --against FILE: this program and an earlier one measure the same cases in turns.
 *
 * In a turn each program runs all cases once, one program directly after the other; which of them begins alternates
 * from turn to turn. So a turn gives one ratio of times for each case, and what slows the machine for a while slows
 * both sides of a ratio. A case's figure is the median of its ratios. Its interval runs between two of the sorted
 * ratios, chosen so that it holds the true median with a probability of at least 95 %, whatever the distribution of the
 * ratios is: of n turns, the true median lies below the k-th of them with the probability that fewer than k of n tossed
 * coins show heads. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"

extern char **environ;

enum { TURNS = 11, LEAST_TURNS = 6, WORDS = 96 };
#define TOLERANCE 0.03 /* slower by more than this fails */

/* The times of one case: the last of each program, and the ratios new / old so far. */
typedef struct {
    char name[80];
    double ms[2], ratio[LL_BENCH_REPEATS];
    double least[2];
    int turns;
} against_case;

typedef struct {
    const char *program[2]; /* the earlier one, this one */
    char folder[64], json[96], errors[96];
    const char *words[WORDS]; /* of the command line of both */
    int n, cases;
    against_case *list;
} against;

enum { OLD, NEW };

static against_case *find_case(against *a, const char *name) {
    for (int i = 0; i < a->cases; i++)
        if (!strcmp(a->list[i].name, name)) return &a->list[i];
    if (a->cases == LL_BENCH_ROWS) return NULL;
    against_case *c = &a->list[a->cases++];
    snprintf(c->name, sizeof c->name, "%s", name);
    return c;
}

/* The rows that a program has left, as the times of this turn. Returns how many, or -1 where the file has none. */
static int read_times(against *a, int side) {
    json_t *root = json_load_file(a->json, 0, NULL);
    const json_t *rows = json_object_get(root, "rows");
    const int n = rows ? (int)json_array_size(rows) : -1;
    for (int i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, (size_t)i);
        const char *name = json_string_value(json_object_get(row, "case"));
        const double ms = json_number_value(json_object_get(row, "ms"));
        against_case *c = name && ms > 0 ? find_case(a, name) : NULL;
        if (!c) continue;
        c->ms[side] = ms;
        if (c->least[side] == 0 || ms < c->least[side]) c->least[side] = ms;
    }
    json_decref(root);
    return n;
}

/* What a program said last before it failed. */
static void last_line(const against *a, char *out, size_t size) {
    char line[256];
    FILE *file = fopen(a->errors, "re");
    snprintf(out, size, "it says nothing");
    while (file && fgets(line, sizeof line, file)) snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
    if (file) fclose(file);
}

/* A signal to this program alone ends the child, too. */
static int wait_for(pid_t child) {
    int state = 0, asked = 0;
    do {
        if (ll_stop_wanted() && !asked) asked = !kill(child, SIGTERM);
    } while (waitpid(child, &state, 0) < 0 && errno == EINTR);
    return state;
}

/* Runs one program over all cases. -1, or the exit code. */
static int run_program(against *a, int side) {
    const char *argv[WORDS + 1] = {a->program[side]};
    memcpy(argv + 1, a->words, (size_t)a->n * sizeof *argv);
    argv[a->n + 1] = NULL;
    posix_spawn_file_actions_t files;
    pid_t child = 0;
    unlink(a->json);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, a->errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int error = posix_spawn(&child, a->program[side], &files, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (error) return ll_usage("--against %s: it cannot be started (%s)", a->program[side], strerror(error));
    const int state = wait_for(child);
    if (ll_stop_wanted()) return 1;
    if (state == 0 && read_times(a, side) > 0) return -1;
    char said[256];
    last_line(a, said, sizeof said);
    ll_print("--against: %s bench has failed: %s", a->program[side], said);
    return side == OLD ? 2 : 1;
}

static int take_turn(against *a, int turn) {
    for (int i = 0; i < a->cases; i++) a->list[i].ms[OLD] = a->list[i].ms[NEW] = 0;
    for (int i = 0; i < 2; i++) {
        const int code = run_program(a, i ^ (turn & 1));
        if (code >= 0) return code;
    }
    for (int i = 0; i < a->cases; i++) {
        against_case *c = &a->list[i];
        if (c->ms[OLD] > 0 && c->ms[NEW] > 0) c->ratio[c->turns++] = c->ms[NEW] / c->ms[OLD];
    }
    return -1;
}

/* Of n sorted ratios, how many lie on each side of the 95 % interval of their median; -1: n is too few. */
static int outside_interval(int n) {
    double below = 0, term = pow(0.5, n); /* P(fewer than k heads), and P(exactly k heads) */
    int k = 0;
    while (k < n / 2 && 2 * (below + term) <= 0.05) {
        below += term;
        term *= (double)(n - k) / (k + 1);
        k++;
    }
    return k - 1;
}

/* A case that too few turns of both programs have for an interval. */
static void report_missing(const against *a, const against_case *c, int width) {
    if (c->least[OLD] > 0 && c->least[NEW] > 0)
        printf("%-*s turns of both programs: %d; an interval needs %d\n", width, c->name, c->turns, LEAST_TURNS);
    else
        printf("%-*s only in %s\n", width, c->name, c->least[OLD] > 0 ? a->program[OLD] : "this program");
}

/* The table, and the exit code. */
static int conclude(against *a) {
    int width = 4, slower = 0, compared = 0;
    double sum = 0;
    for (int i = 0; i < a->cases; i++) width = (int)fmax(width, (double)strlen(a->list[i].name));
    printf("%-*s %17s %14s %13s   %-18s\n", width, "case", "before: least ms", "now: least ms", "median ratio",
           "95 % interval");
    for (int i = 0; i < a->cases; i++) {
        against_case *c = &a->list[i];
        if (c->turns < LEAST_TURNS) {
            report_missing(a, c, width);
            continue;
        }
        const double median = ll_median(c->ratio, c->turns); /* sorts */
        const int outside = outside_interval(c->turns);
        const double from = c->ratio[outside], to = c->ratio[c->turns - 1 - outside];
        const int fails = from > 1 + TOLERANCE;
        printf("%-*s %17.3f %14.3f %+12.1f%%   %+6.1f%% to %+6.1f%%%s\n", width, c->name, c->least[OLD], c->least[NEW],
               100 * (median - 1), 100 * (from - 1), 100 * (to - 1),
               fails    ? "  slower"
               : to < 1 ? "  faster"
                        : "");
        slower += fails;
        sum += log(median);
        compared++;
    }
    if (!compared) return ll_fail_message("--against: no case is in %d turns of both programs", LEAST_TURNS);
    printf("\nbench.against.cases=%d\nbench.against.slower=%d\nbench.against.mean=%+.1f%%\n", compared, slower,
           100 * (exp(sum / compared) - 1));
    if (!slower) return 0;
    return ll_fail_message("%d of %d cases are slower than %s by more than %.0f %%: their whole interval is", slower,
                           compared, a->program[OLD], 100 * TOLERANCE);
}

static int measure(against *a, int turns) {
    const double start = ll_now();
    for (int turn = 0; turn < turns; turn++) {
        const int code = take_turn(a, turn);
        if (code >= 0) return code;
        const double spent = ll_now() - start;
        ll_bench_progress("turns", spent, spent / (turn + 1) * (turns - turn - 1));
    }
    return conclude(a);
}

static void add(against *a, const char *word) {
    if (a->n < WORDS - 1) a->words[a->n++] = word;
}

/* The words that both programs get, after their name. */
static int compose(against *a, const ll_bench_against *o, char threads[24], char position[24]) {
    if (o->set->n > 30) return ll_usage("--against: at most 30 times --set");
    add(a, "bench");
    for (const char *const *w = o->sections; *w; w++) add(a, *w);
    snprintf(threads, 24, "%d", ll_threads());
    snprintf(position, 24, "%lld", (long long)o->position);
    const char *pairs[] = {"--lengths", o->lengths, "--repeats", "3",     "--threads", threads,
                           "--cpu",     ll_cpu(),   "--json",    a->json, "--case",    o->pattern,
                           "--position", o->position ? position : NULL};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i += 2)
        if (pairs[i + 1]) add(a, pairs[i]), add(a, pairs[i + 1]);
    for (int i = 0; i < o->set->n; i++) add(a, "--set"), add(a, o->set->at[i]);
    return -1;
}

int ll_bench_compare(const ll_bench_against *o) {
    against a = {.program = {o->file, "/proc/self/exe"}};
    char threads[24], position[24];
    const char *temporary = getenv("TMPDIR");
    if (access(o->file, X_OK) || !strchr(o->file, '/'))
        return ll_usage("--against %s: needs the path of a program of longline, as ./longline-before", o->file);
    if (o->turns && o->turns < LEAST_TURNS)
        return ll_usage("--repeats %d: with --against at least %d, else no interval is known with 95 %%", o->turns,
                        LEAST_TURNS);
    snprintf(a.folder, sizeof a.folder, "%s/longline-bench-XXXXXX",
             temporary && strlen(temporary) < 32 ? temporary : "/tmp");
    if (!mkdtemp(a.folder)) return ll_fail_message("%s: cannot make a folder there (%s)", a.folder, strerror(errno));
    snprintf(a.json, sizeof a.json, "%s/rows.json", a.folder);
    snprintf(a.errors, sizeof a.errors, "%s/errors", a.folder);
    a.list = calloc(LL_BENCH_ROWS, sizeof *a.list);
    ll_stop_on_signals(0, "stopping", "nothing was compared");
    int code = a.list ? compose(&a, o, threads, position) : ll_fail_message("no memory for %d cases", LL_BENCH_ROWS);
    if (code < 0) code = measure(&a, o->turns ? o->turns : TURNS);
    unlink(a.json);
    unlink(a.errors);
    rmdir(a.folder);
    free(a.list);
    return code;
}
