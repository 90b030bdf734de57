/* A small run, and what tests do with its folder: create, stop, copy, compare. All files are in one folder that is
 * removed with the tests. */
#ifndef LL_RUNS_H
#define LL_RUNS_H

#include "test.h"

#include <unistd.h>

#include "base/file.h"
#include "train/train_internal.h"

static char root[] = "/tmp/ll-train-XXXXXX";
static char names[16][128];

/* root/name, in one of a few buffers. */
static inline const char *at(const char *name) {
    static int next;
    char *text = names[next++ % 16];
    snprintf(text, sizeof names[0], "%s/%s", root, name);
    return text;
}

static inline const char *in(const char *folder, const char *name) {
    char both[64];
    snprintf(both, sizeof both, "%s/%s", folder, name);
    return at(both);
}

/* Text with patterns to learn, and some without. */
static inline int make_data(void **state) {
    (void)state;
    static char text[6000];
    if (!mkdtemp(root)) return -1;
    size_t n = 0;
    for (unsigned i = 0; n + 32 < sizeof text; i++)
        n += (size_t)snprintf(text + n, 32, "line %u is %s;\n", i * i % 97, i % 3 ? "long" : "short");
    ll_status status = ll_file_write(at("train.txt"), text, n);
    if (!status) status = ll_file_write(at("valid.txt"), text, 1500);
    if (!status) status = ll_file_write(at("other.txt"), text, n - 100);
    return status != LL_OK;
}

static inline int remove_data(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static inline void set(ll_recipe *recipe, const char *assignment) {
    CHECK_OK(ll_recipe_set(recipe, assignment));
}

/* A small model with all that draws random numbers: features redrawn, dropout, random windows. */
static inline ll_recipe *recipe_of(const char *more) {
    static const char *const keys[] = {
        "model.layers=1",
        "model.width=16",
        "model.heads=2",
        "model.ff=32",
        "model.dropout=0.1",
        "attention.kernel=favor",
        "attention.num-features=16",
        "attention.redraw=3",
        "position.type=permute",
        "train.batch=4",
        "train.length=24",
        "train.steps=20",
        "train.warmup=4",
        "train.clip=1",
        "train.learning-rate=0.01",
        "train.eval-every=7",
        "train.checkpoint-every=5",
        "train.eval-batches=2",
        "train.report=off",
        "data.format=bytes",
    };
    ll_recipe *recipe = NULL;
    char text[256];
    CHECK_OK(ll_recipe_create(&recipe));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) set(recipe, keys[i]);
    snprintf(text, sizeof text, "data.train=%s", at("train.txt"));
    set(recipe, text);
    snprintf(text, sizeof text, "data.valid=%s", at("valid.txt"));
    set(recipe, text);
    for (; more && *more; more += *more == ' ') { /* words, each an assignment */
        const size_t n = strcspn(more, " ");
        snprintf(text, sizeof text, "%.*s", (int)n, more);
        set(recipe, text);
        more += n;
    }
    return recipe;
}

/* What the callback does, and what it has seen. */
typedef struct {
    int64_t stop_at; /* step after which to stop; 0: never */
    int64_t stop_in; /* step whose evaluation to stop */
    int64_t copy_at; /* step after which the folder is copied, as a kill would leave it */
    const char *from, *to;
    int calls, evals, checkpoints, done;
    ll_progress last;
} observer;

static inline void copy_folder(const char *from, const char *to) {
    char command[300];
    snprintf(command, sizeof command, "cp -r '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

static inline int observe(const ll_progress *p, void *arg) {
    observer *o = arg;
    o->last = *p;
    if (!p->event)
        o->calls++;
    else if (!strcmp(p->event, "eval"))
        o->evals++;
    else if (!strcmp(p->event, "checkpoint"))
        o->checkpoints++;
    else if (!strcmp(p->event, "done"))
        o->done++;
    if (!p->event && p->step == o->copy_at) copy_folder(o->from, o->to);
    if (p->event && !strcmp(p->event, "evaluating")) return p->step == o->stop_in;
    return !p->event && p->step == o->stop_at;
}

/* Makes or resumes a run and brings it to its end, which is `expected`. */
static inline observer run(const char *more, const char *out, const char *resume, int64_t stop_at, ll_status expected) {
    observer o = {.stop_at = stop_at};
    ll_recipe *recipe = recipe_of(more);
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, recipe, out, resume));
    ll_trainer_on_report(trainer, ll_trainer_report, NULL);
    const ll_status got = ll_trainer_run(trainer, observe, &o);
    if (got != expected) fail_msg("status %d, expected %d: %s", got, expected, got ? ll_error() : "");
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return o;
}

/* The run that was not interrupted, with which all others are compared. */
static inline int make_straight(void **state) {
    if (make_data(state)) return -1;
    run(NULL, at("straight"), NULL, 0, LL_OK);
    return 0;
}

static inline ll_status refused(const char *more, const char *out, const char *resume) {
    ll_recipe *recipe = recipe_of(more);
    ll_trainer *trainer = NULL;
    const ll_status status = ll_trainer_create(&trainer, recipe, out, resume);
    assert_true((status == LL_OK) == (trainer != NULL));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return status;
}

static inline ll_bytes slurp(const char *path) {
    ll_bytes bytes = {0};
    CHECK_OK(ll_file_read(&bytes, path, (size_t)1 << 28));
    return bytes;
}

static inline void same_file(const char *a, const char *b) {
    ll_bytes x = slurp(a), y = slurp(b);
    if (x.size != y.size || memcmp(x.data, y.data, x.size)) fail_msg("%s and %s differ", a, b);
    ll_bytes_free(&x);
    ll_bytes_free(&y);
}

/* Blanks the columns that hold times and memory: 1 (from 0), 10, 11. */
static inline void blank_times(char *text) {
    int column = 0;
    for (char *c = text; *c; c++) {
        if (*c == ',')
            column++;
        else if (*c == '\n')
            column = 0;
        else if (column == 1 || column == 10 || column == 11)
            *c = ' ';
    }
}

/* The same rows except for times, whose number of digits may differ. */
static inline void same_metrics(const char *a, const char *b) {
    ll_bytes x = slurp(a), y = slurp(b);
    blank_times((char *)x.data);
    blank_times((char *)y.data);
    const char *p = (char *)x.data, *q = (char *)y.data;
    for (;; p++, q++) {
        p += strspn(p, " ");
        q += strspn(q, " ");
        if (*p != *q) fail_msg("%s and %s differ:\n%s\n%s", a, b, (char *)x.data, (char *)y.data);
        if (!*p) break;
    }
    ll_bytes_free(&x);
    ll_bytes_free(&y);
}

static inline void same_run(const char *a, const char *b) {
    same_file(in(a, "last.safetensors"), in(b, "last.safetensors"));
    same_file(in(a, "best.safetensors"), in(b, "best.safetensors"));
    same_metrics(in(a, "metrics.csv"), in(b, "metrics.csv"));
}

#endif
