/* The folder of a run belongs to one run at a time, on every file system. It may be removed during the run, or be
 * read-only. */
#include "runs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static enum { LOCAL, NFS, NO_LOCKS } disk;

/* Replaces flock of the C library. NFS locks a file only if it is open for writing. Some file systems have no locks. */
int flock(int fd, int how) {
    const int reads = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
    if (disk == LOCAL || (disk == NFS && !reads)) return (int)syscall(SYS_flock, fd, how);
    errno = disk == NFS ? EBADF : ENOLCK;
    return -1;
}

static int local(void **state) {
    (void)state;
    disk = LOCAL;
    return 0;
}

static void a_folder_takes_one_run(void **state) {
    (void)state;
    const char *const folders[] = {"local", "nfs"};
    for (int i = 0; i < 2; i++) {
        ll_trainer *first = NULL, *second = NULL;
        ll_recipe *recipe = recipe_of(NULL);
        disk = i ? NFS : LOCAL;
        CHECK_OK(ll_trainer_create(&first, recipe, at(folders[i]), NULL));
        CHECK_FAILS(ll_trainer_create(&second, recipe, at(folders[i]), NULL), LL_EIO, "another run is writing to");
        CHECK_OK(ll_trainer_run(first, NULL, NULL));
        CHECK_OK(ll_trainer_create(&second, NULL, NULL, at(folders[i]))); /* the first has ended */
        ll_trainer_free(first);
        CHECK_FAILS(ll_trainer_create(&first, NULL, NULL, at(folders[i])), LL_EIO, "another run is writing to");
        ll_trainer_free(second);
        ll_recipe_free(recipe);
    }
}

/* A checkpoint that another run is about to replace is not read. */
static void the_lock_comes_before_the_checkpoint(void **state) {
    (void)state;
    ll_trainer *first = NULL, *second = NULL;
    run(NULL, at("order"), NULL, 6, LL_ESTOPPED);
    CHECK_OK(ll_trainer_create(&first, NULL, NULL, at("order")));
    CHECK_OK(ll_file_write(in("order", "last.safetensors"), "half", 4));
    CHECK_FAILS(ll_trainer_create(&second, NULL, NULL, at("order")), LL_EIO, "another run is writing to");
    ll_trainer_free(first);
    CHECK_FAILS(ll_trainer_create(&second, NULL, NULL, at("order")), LL_EFORMAT, "last.safetensors");
}

static int stop_at_6(const ll_progress *p, void *arg) {
    (void)arg;
    return p->step == 6;
}

/* A trainer that was stopped goes on in its folder, unless another has gone on there meanwhile. */
static void a_stopped_trainer_goes_on(void **state) {
    (void)state;
    ll_trainer *first = NULL, *second = NULL;
    ll_recipe *recipe = recipe_of(NULL);
    run(NULL, at("whole"), NULL, 0, LL_OK);
    for (int i = 0; i < 2; i++) {
        const char *folder = i ? "left" : "entered";
        CHECK_OK(ll_trainer_create(&first, recipe, at(folder), NULL));
        CHECK_FAILS(ll_trainer_run(first, stop_at_6, NULL), LL_ESTOPPED, "step 6");
        if (i) {
            CHECK_OK(ll_trainer_create(&second, NULL, NULL, at(folder)));
            CHECK_FAILS(ll_trainer_run(first, NULL, NULL), LL_EIO, "another run is writing to");
            CHECK_OK(ll_trainer_run(second, NULL, NULL));
            ll_trainer_free(second);
            CHECK_FAILS(ll_trainer_run(first, NULL, NULL), LL_EIO, "since this one left it at step 6");
            CHECK_OK(ll_trainer_create(&second, NULL, NULL, at(folder))); /* the first has not kept its lock */
            ll_trainer_free(second);
        } else {
            CHECK_OK(ll_trainer_run(first, NULL, NULL));
        }
        ll_trainer_free(first);
        same_run("whole", folder);
    }
    ll_recipe_free(recipe);
}

static int on_report(const ll_progress *p, void *arg) {
    if (p->event && !strcmp(p->event, "no lock")) snprintf(arg, 300, "%s", ll_error());
    return 0;
}

/* Without locks a run goes on, and says so once. */
static void a_disk_without_locks(void **state) {
    (void)state;
    char reports[300] = "";
    ll_trainer *trainer = NULL;
    ll_recipe *recipe = recipe_of(NULL);
    disk = NO_LOCKS;
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("without"), NULL));
    CHECK_OK(ll_trainer_run(trainer, on_report, reports));
    assert_non_null(strstr(reports, at("without")));
    assert_non_null(strstr(reports, strerror(ENOLCK)));
    ll_trainer_free(trainer);
    disk = LOCAL;
    reports[0] = 0;
    CHECK_OK(ll_trainer_create(&trainer, NULL, NULL, at("without")));
    CHECK_OK(ll_trainer_run(trainer, on_report, reports));
    assert_string_equal(reports, "");
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
}

static int copy_at_first_eval(const ll_progress *p, void *arg) {
    int *copied = arg;
    if (p->event && !strcmp(p->event, "eval") && !(*copied)++) copy_folder(at("early"), at("early-killed"));
    return 0;
}

/* A run that is killed when it has its first best model, long before a checkpoint is due, goes on. */
static void a_best_model_has_a_checkpoint(void **state) {
    (void)state;
    int copied = 0;
    ll_trainer *trainer = NULL;
    ll_recipe *recipe = recipe_of("train.checkpoint-every=0");
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("early"), NULL));
    CHECK_OK(ll_trainer_run(trainer, copy_at_first_eval, &copied));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    run("train.checkpoint-every=0", at("early-killed"), at("early-killed"), 0, LL_OK);
    same_run("early", "early-killed");
}

/* ---- Removed while the run goes on ---- */

typedef struct {
    const char *folder, *command; /* what is done to the folder ... */
    int64_t step;                 /* ... after this step, */
    const char *event;            /* or at this event of it */
    int reports, whole;           /* how often it was reported; whole then? */
} remover;

static int whole(const char *name) {
    static const char *const files[] = {"recipe.ini", "metrics.csv", ".lock"};
    for (int i = 0; i < 3; i++)
        if (access(in(name, files[i]), F_OK)) return 0;
    return 1;
}

static int remove_it(const ll_progress *p, void *arg) {
    remover *r = arg;
    const int here = r->event ? p->event && !strcmp(p->event, r->event) : !p->event;
    if (p->event && !strcmp(p->event, "no folder")) {
        assert_non_null(strstr(ll_error(), at(r->folder)));
        r->reports++;
        r->whole = whole(r->folder) && !access(in(r->folder, "last.safetensors"), F_OK);
    }
    if (p->step != r->step || !here) return 0;
    char command[300];
    snprintf(command, sizeof command, "cd '%s' && %s", root, r->command);
    assert_int_equal(system(command), 0);
    r->step = -1;
    return 0;
}

static remover remove_while(const char *folder, const char *command, int64_t step, const char *event,
                            ll_status expected) {
    remover r = {.folder = folder, .command = command, .step = step, .event = event};
    ll_trainer *trainer = NULL;
    ll_recipe *recipe = recipe_of("train.checkpoint-every=0");
    CHECK_OK(ll_trainer_create(&trainer, recipe, at(folder), NULL));
    const ll_status got = ll_trainer_run(trainer, remove_it, &r);
    if (got != expected) fail_msg("status %d, expected %d: %s", got, expected, ll_error());
    assert_int_equal(r.step, -1);
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return r;
}

/* The removal is reported at the next step, and the run is whole again: it can be killed then and resumed. */
static void a_removed_folder_is_made_again(void **state) {
    (void)state;
    static const struct {
        const char *folder, *command, *event;
        int64_t step;
    } cases[] = {
        {"after8", "rm -r after8", NULL, 8},
        {"after14", "rm -r after14", "eval", 14},
        {"during14", "rm -r during14", "evaluating", 14},
        {"during20", "rm -r during20", "evaluating", 20},
        {"moved", "mv moved elsewhere", NULL, 9},
        {"emptied", "rm emptied/*", NULL, 8},
        {"metrics", "rm metrics/metrics.csv", NULL, 8},
        {"recipe", "rm recipe/recipe.ini", NULL, 8},
    };
    run("train.checkpoint-every=0", at("untouched"), NULL, 0, LL_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const remover r = remove_while(cases[i].folder, cases[i].command, cases[i].step, cases[i].event, LL_OK);
        if (r.reports != 1 || !r.whole) fail_msg("%s: %d reports, whole: %d", cases[i].command, r.reports, r.whole);
        assert_true(whole(cases[i].folder));
        same_metrics(in("untouched", "metrics.csv"), in(cases[i].folder, "metrics.csv"));
        run("train.steps=22 train.checkpoint-every=0", at(cases[i].folder), at(cases[i].folder), 0, LL_OK);
    }
    same_file(in("untouched", "recipe.ini"), in("elsewhere", "recipe.ini"));
}

/* A run whose lock file is removed makes it again. A folder that another run has taken is left to that run. */
static void whose_folder_it_is(void **state) {
    (void)state;
    assert_int_equal(remove_while("unlocked", "rm unlocked/.lock", 8, NULL, LL_OK).reports, 0);
    assert_true(whole("unlocked"));
    run(NULL, at("other"), NULL, 6, LL_ESTOPPED);
    copy_folder(at("other"), at("kept"));
    remove_while("taken", "mv taken old && cp -r other taken", 8, NULL, LL_EIO);
    assert_non_null(strstr(ll_error(), "another run"));
    same_file(in("taken", "last.safetensors"), in("kept", "last.safetensors"));
    same_file(in("taken", "metrics.csv"), in("kept", "metrics.csv"));
}

/* ---- Not to be written to ---- */

/* Runs in a process of another user, because root may write everywhere. */
static int as_nobody(void) {
    ll_trainer *trainer = NULL;
    if (!getuid() && (setgid(65534) || setuid(65534))) return 2;
    const ll_status status = ll_trainer_create(&trainer, NULL, NULL, at("closed"));
    if (status == LL_EIO && strstr(ll_error(), "cannot write to folder") && strstr(ll_error(), "--out")) return 0;
    printf("status %d: %s\n", status, ll_error());
    return 1;
}

static void a_closed_folder_is_refused_first(void **state) {
    (void)state;
    run(NULL, at("closed"), NULL, 6, LL_ESTOPPED);
    assert_int_equal(chmod(root, 0755), 0);
    assert_int_equal(unlink(in("closed", ".lock")), 0);
    assert_int_equal(chmod(at("closed"), 0555), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) _exit(as_nobody());
    int code = -1;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(chmod(at("closed"), 0755), 0);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 0);
    assert_int_not_equal(access(in("closed", ".lock"), F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_folder_takes_one_run, local),
        cmocka_unit_test_teardown(the_lock_comes_before_the_checkpoint, local),
        cmocka_unit_test_teardown(a_stopped_trainer_goes_on, local),
        cmocka_unit_test_teardown(a_disk_without_locks, local),
        cmocka_unit_test(a_best_model_has_a_checkpoint),
        cmocka_unit_test(a_removed_folder_is_made_again),
        cmocka_unit_test(whose_folder_it_is),
        cmocka_unit_test(a_closed_folder_is_refused_first),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
