/* longline data: lists, generates, checks and fetches data sets. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static ll_arg_list assignments;
static const char *out, *from, *split;
static int64_t count = 10000, seed = 1, size, order = 5;

static const ll_arg args[] = {
    {LL_ARG_TEXT, 'o', "out", "PATH", &out, 0, 0, "folder or file of the data set; default data/NAME"},
    {LL_ARG_INTEGER, 0, "count", "N", &count, 1, 2e9, "make: how many examples"},
    {LL_ARG_INTEGER, 0, "size", "S", &size, 0, 1e6,
     "make: side of images, bars, or more than an expression has tokens; 0 = the usual"},
    {LL_ARG_INTEGER, 0, "seed", "S", &seed, 0, 9e15, "make: seed of the examples"},
    {LL_ARG_TEXT, 0, "from", "URL", &from, 0, 0, "get: address of another server's folder with the same files"},
    {LL_ARG_INTEGER, 0, "order", "N", &order, 1, 16, "ngrams: how many tokens, with the one that is predicted"},
    {LL_ARG_TEXT, 0, "split", "NAME", &split, 0, 0, "ngrams: valid or test; default: test if the recipe has it"},
    {LL_ARG_LIST, 0, "set", "KEY=VALUE", &assignments, 0, 0, "ngrams: sets a key of the recipe; may be repeated"},
    {.type = LL_ARG_END},
};

static int is_known(const char *set) {
    for (int i = 0; ll_data_known(i); i++)
        if (!strcmp(ll_data_known(i)->set, set)) return 1;
    return 0;
}

static int unknown(const char *set) {
    const char *names[64];
    int n = 0;
    for (; n < 64 && ll_data_known(n); n++) names[n] = ll_data_known(n)->set;
    const char *near = ll_args_nearest(set, names, n);
    if (near) return ll_usage("there is no data set '%s' to get; did you mean '%s'?", set, near);
    return ll_usage("there is no data set '%s' to get; 'longline data list' names them", set);
}

static int list(void) {
    const char *last = "";
    for (int i = 0; ll_data_known(i); i++) {
        const ll_known_file *f = ll_data_known(i);
        if (strcmp(last, f->set)) printf("%s%s\n", i ? "\n" : "", f->set);
        last = f->set;
        printf("  %-28s %s\n      %s\n      sha256 %s\n", f->file, f->what, f->url,
               f->sha256 ? f->sha256 : "not known");
    }
    printf("\nlistops\n  drawn here: longline data make listops --out FILE --count N\n"
           "\npathfinder, pathfinder-9, pathfinder-6 (paths of 14, 9, 6 segments: hard, intermediate, easy),\n"
           "pathfinder-5 to pathfinder-1 (nothing else in the image, to begin with),\n"
           "pathfinder-6-3 (3 other paths in the image)\n"
           "  drawn here: longline data make pathfinder --out FOLDER --count N --size 32|64|128|256\n"
           "  (-6 to -1 also: 16)\n"
           "\nmusic\n  drawn here, MIDI files: longline data make music --out FOLDER --count N --size BARS\n");
    return 0;
}

/* "data/mnist", or the value of --out. */
static const char *folder_of(const char *set) {
    static char path[4096];
    if (out) return out;
    snprintf(path, sizeof path, "data/%s", set);
    return path;
}

/* A file in a folder that is made for it, if it is not there. -1, or the exit code. */
static int check_file(const char *path) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash && slash[1] ? (int)(slash - path) : 0, path);
    return *folder && access(folder, F_OK) ? ll_folder_check("--out", folder) : ll_target_check("--out", path);
}

static int make(const char *what) {
    const char *path = folder_of(what);
    if (!strcmp(what, "listops") && !out) return ll_usage("make listops needs --out FILE");
    const int code = strcmp(what, "listops") ? ll_folder_check("--out", path) : check_file(path);
    if (code >= 0) return code;
    ll_progress_line t = ll_progress_of(LL_PROGRESS_COUNT, path);
    ll_stop_on_signals(1, "stopping", "the same command makes unfinished files again");
    const ll_status status = ll_data_make(what, path, count, (int)size, (uint64_t)seed, ll_progress_report, &t);
    ll_progress_end(&t);
    if (status) return ll_failed(status, NULL);
    printf("data.made=%s\ndata.count=%lld\ndata.seed=%lld\n", path, (long long)count, (long long)seed);
    return 0;
}

/* ---- Checking ---- */

/* With a line of progress, also after other work. */
static ll_status find_checksum(const char *path, char digits[65], int64_t *bytes) {
    ll_reading_line_begin();
    const ll_status status = ll_data_checksum(path, digits, bytes);
    ll_reading_line_end();
    return status;
}

/* 0 if the checksum of the file is right, as far as is known. */
static int judge(const char *path, const char *digits, int64_t bytes, const char *sha256) {
    const int wrong = sha256 && strcmp(digits, sha256);
    printf("%s %12lld %s%s\n", digits, (long long)bytes, path, wrong ? " WRONG" : sha256 ? " ok" : "");
    return wrong ? ll_fail_message("%s does not have the published checksum %s", path, sha256) : 0;
}

static int verify_file(const char *path, const char *sha256) {
    char digits[65];
    int64_t bytes = 0;
    if (find_checksum(path, digits, &bytes)) return ll_failed(LL_EIO, path);
    return judge(path, digits, bytes, sha256);
}

/* The published file of this name; if several have the name, any of them. */
static int verify_path(const char *path) {
    char digits[65];
    int64_t bytes = 0;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *expected = NULL;
    if (find_checksum(path, digits, &bytes)) return ll_failed(LL_EIO, path);
    for (int i = 0; ll_data_known(i); i++) {
        const ll_known_file *f = ll_data_known(i);
        if (strcmp(f->file, name) || !f->sha256) continue;
        expected = f->sha256;
        if (!strcmp(digits, expected)) break;
    }
    return judge(path, digits, bytes, expected);
}

static int verify(const char *what) {
    int code = 0;
    char path[4600];
    if (!is_known(what))
        return out ? ll_usage("--out is the folder of a data set, and '%s' is none", what) : verify_path(what);
    for (int i = 0; ll_data_known(i); i++) {
        const ll_known_file *f = ll_data_known(i);
        if (strcmp(f->set, what)) continue;
        snprintf(path, sizeof path, "%s/%s", folder_of(what), f->file);
        const int one = verify_file(path, f->sha256);
        if (one && (!code || one < code)) code = one; /* a wrong file counts more than a missing one */
    }
    return code;
}

/* ---- Fetching ---- */

static int unpack(const ll_known_file *f, const char *path) {
    ll_progress_line t = ll_progress_of(LL_PROGRESS_BYTES, "unpacking");
    const ll_status status = ll_data_unpack(path, folder_of(f->set), f->strip, ll_progress_report, &t);
    ll_progress_end(&t);
    if (status) return ll_fail_message("%s", ll_error());
    printf("data.folder=%s\n", folder_of(f->set));
    return 0;
}

/* An ll_done_fn. What comes after the download is read for its checksum, and has the line of that. */
static int fetched(int64_t done, int64_t total, void *line) {
    const int stop = ll_progress_report(done, total, line);
    ll_reading_line_begin();
    return stop;
}

static int fetch(const ll_known_file *f, const char *path) {
    char url[4600];
    ll_progress_line t = ll_progress_of(LL_PROGRESS_BYTES, f->file);
    t.resumes = 1;
    snprintf(url, sizeof url, "%s%s%s", from ? from : f->url, from && from[strlen(from) - 1] != '/' ? "/" : "",
             from ? f->file : "");
    ll_stop_on_signals(1, "stopping", "the same command goes on");
    const ll_status status = ll_data_fetch(url, path, f->sha256, fetched, &t);
    ll_stop_no_more();
    ll_progress_end(&t);
    ll_reading_line_end();
    if (status) return ll_fail_message("%s", ll_error());
    printf("data.file=%s\n", path);
    return 0;
}

static int get_file(const ll_known_file *f) {
    char path[4600], digits[65];
    int64_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder_of(f->set), f->file);
    const int there = !access(path, F_OK) && !find_checksum(path, digits, &bytes);
    if (there && f->sha256 && strcmp(digits, f->sha256))
        return ll_fail_message("%s exists, but does not have the published checksum; move it away", path);
    if (there) ll_print("%s is there already", path);
    const int code = there ? 0 : fetch(f, path);
    return code || !f->archive ? code : unpack(f, path);
}

static int get(const char *set) {
    if (!is_known(set)) return unknown(set);
    if (from && strncmp(from, "http://", 7) && strncmp(from, "https://", 8))
        return ll_usage("--from %s: needs an address that begins with http:// or https://", from);
    const char *folder = folder_of(set);
    int code = ll_folder_check("--out", folder);
    if (code >= 0) return code;
    const int is_new = access(folder, F_OK), is_data_new = !out && access("data", F_OK);
    code = 0;
    for (int i = 0; !code && ll_data_known(i); i++)
        if (!strcmp(ll_data_known(i)->set, set)) code = get_file(ll_data_known(i));
    if (code && is_new) rmdir(folder); /* it stays where something came */
    if (code && is_data_new) rmdir("data");
    return code;
}

/* ---- Comparing ---- */

static int compare(const char *a, const char *b) {
    ll_likeness like;
    const ll_status status = ll_music_compare(&like, a, b);
    if (status) return ll_failed(status, access(a, R_OK) ? a : b);
    printf("compare.time_pitch=%.6f\ncompare.onset_duration=%.6f\ncompare.notes=%lld\ncompare.other_notes=%lld\n",
           like.time_pitch, like.onset_duration, (long long)like.notes[0], (long long)like.notes[1]);
    return 0;
}

/* How much of a piece of music lies on the grids of its events. */
static int measure(const char *path) {
    ll_music_fit fit;
    const ll_status status = ll_music_measure(&fit, path);
    if (status) return ll_failed(status, path);
    printf("grid.files=%lld\ngrid.notes=%lld\n", (long long)fit.files, (long long)fit.notes);
    printf("grid.held=%.6f\n", fit.held);
    for (int i = 0; i < 2; i++)
        printf("grid.%d.onsets_off=%.6f\ngrid.%d.durations_off=%.6f\ngrid.%d.moved=%.6f\n", fit.grid[i].positions,
               fit.grid[i].onsets_off, fit.grid[i].positions, fit.grid[i].durations_off, fit.grid[i].positions,
               fit.grid[i].moved);
    return 0;
}

/* ---- Counting ---- */

/* The loss that counts of short sequences reach, which a model is to beat. */
static int ngrams(const char *path) {
    ll_recipe *recipe = NULL;
    double loss = 0;
    int64_t tokens = 0;
    if (split && strcmp(split, "valid") && strcmp(split, "test"))
        return ll_usage("--split %s: needs valid or test; what is counted is the train split", split);
    ll_status status = ll_recipe_load(&recipe, path);
    if (!status) status = ll_set_all(recipe, &assignments);
    if (status) {
        ll_recipe_free(recipe);
        return ll_failed(status, path);
    }
    const char *test = ll_recipe_get(recipe, "data.test"), *of = split ? split : test && *test ? "test" : "valid";
    ll_progress_line t = ll_progress_of(LL_PROGRESS_COUNT, "n-grams");
    status = ll_ngrams(recipe, (int)order, of, ll_progress_report, &t, &loss, &tokens);
    ll_progress_end(&t);
    const int code = status ? ll_failed_data(status, recipe) : 0;
    ll_recipe_free(recipe);
    if (status) return code;
    printf("ngrams.order=%lld\nngrams.split=%s\nngrams.count=%lld\n", (long long)order, of, (long long)tokens);
    printf("ngrams.loss=%.6f\nngrams.perplexity=%.4f\n", loss, exp(loss));
    printf("ngrams.bits_per_token=%.6f\n", loss / log(2));
    return 0;
}

enum { ACTIONS = 7 };
static const char *const actions[ACTIONS] = {"list", "make", "verify", "get", "grid", "ngrams", "compare"};

/* Options of other actions. -1, or the exit code. */
static int check_takers(const char *action) {
    static const struct {
        const char *option, *takers;
    } options[] = {
        {"out", "make, verify and get"},
        {"count", "make"},
        {"size", "make"},
        {"seed", "make"},
        {"from", "get"},
        {"order", "ngrams"},
        {"split", "ngrams"},
        {"set", "ngrams"},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (ll_args_given(options[i].option) && !strstr(options[i].takers, action))
            return ll_usage("--%s is for %s; %s does not take it", options[i].option, options[i].takers, action);
    return -1;
}

static int data(int n, const char **words) {
    const char *action = words[0];
    int code = -1;
    for (int i = 0; i < ACTIONS && code < 0; i++)
        if (!strcmp(action, actions[i])) code = check_takers(action);
    if (code >= 0) return code;
    if (!strcmp(action, "list")) return n == 1 ? list() : ll_usage("list takes no name");
    if (!strcmp(action, "compare"))
        return n == 3 ? compare(words[1], words[2]) : ll_usage("compare needs two files of music, or folders of them");
    if (n > 2) return ll_usage("unexpected argument '%s'", words[2]);
    for (int i = 1; i < 4; i++)
        if (!strcmp(action, actions[i]) && n < 2) return ll_usage("%s needs the name of a data set", action);
    if (!strcmp(action, "grid"))
        return n == 2 ? measure(words[1]) : ll_usage("grid needs a file of music, or a folder of them");
    if (!strcmp(action, "ngrams")) return n == 2 ? ngrams(words[1]) : ll_usage("ngrams needs a recipe");
    if (!strcmp(action, "make")) return make(words[1]);
    if (!strcmp(action, "verify")) return verify(words[1]);
    if (!strcmp(action, "get")) return get(words[1]);
    const char *near = ll_args_nearest(action, actions, ACTIONS);
    if (near) return ll_usage("there is no action '%s'; did you mean '%s'?", action, near);
    return ll_usage("there is no action '%s'; there are list, make, verify, get, grid, ngrams and compare", action);
}

const ll_command ll_command_data = {
    .name = "data",
    .words = "list | make NAME | verify NAME | get NAME | grid MUSIC | ngrams RECIPE | compare A B",
    .least = 1,
    .most = 3,
    .summary = "list, draw, check, fetch and compare data sets",
    .text =
        "list: the public data sets that recipes are written for, their addresses and checksums. get: fetches\n"
        "one into data/NAME, where recipes look for it, goes on where an earlier try stopped, checks it, and\n"
        "unpacks it where it is an archive. verify: checksums of a data set, or of any file. make: draws one,\n"
        "the same for the same seed. compare: how alike the styles of two MIDI files are, or of two folders of\n"
        "them: cosines of their histograms of distances in time and pitch, and of positions in the bar and durations,\n"
        "as in the SPE paper. grid: what share of notes, and of their durations, is off the grids of data.grid=4\n"
        "and 12, and how far notes are moved, in quarter notes. ngrams: the loss that n-grams with Kneser-Ney\n"
        "smoothing reach, counted in the recipe's train split: what a language model is to beat.\n\n"
        "  longline data list\n"
        "  longline data get mnist\n"
        "  longline data verify fashion-mnist --out /somewhere/fashion-mnist\n"
        "  longline data make pathfinder --out data/pathfinder --count 40000\n"
        "  longline data make listops --out data/listops/train.tsv --count 96000 --seed 1\n"
        "  longline data make music --out data/music --count 500 --size 32\n"
        "  longline data compare song.mid continued.mid\n"
        "  longline data grid folder-of-midi-files\n"
        "  longline data ngrams recipes/text-bytes.ini --order 5 --set data.train=my.txt",
    .args = args,
    .run = data,
};
