/* The folder of a run belongs to one run at a time, on every file system. */
#include "runs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>

static enum { LOCAL, NFS, NO_LOCKS } disk;

/* Takes the place of the C library's flock. NFS locks a file only where it is open for writing; some file systems have
 * no locks at all. */
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
        CHECK_FAILS(ll_trainer_create(&second, NULL, NULL, at(folders[i])), LL_EIO, "another run is writing to");
        ll_trainer_free(first);
        CHECK_OK(ll_trainer_create(&second, NULL, NULL, at(folders[i])));
        ll_trainer_free(second);
        ll_recipe_free(recipe);
    }
}

/* What another run is about to replace is not looked at. */
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

static int hear(const ll_progress *p, void *arg) {
    if (p->event && !strcmp(p->event, "no lock")) snprintf(arg, 300, "%s", ll_error());
    return 0;
}

/* Without locks a run goes on, and says so once. */
static void a_disk_without_locks(void **state) {
    (void)state;
    char said[300] = "";
    ll_trainer *trainer = NULL;
    ll_recipe *recipe = recipe_of(NULL);
    disk = NO_LOCKS;
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("without"), NULL));
    CHECK_OK(ll_trainer_run(trainer, hear, said));
    assert_non_null(strstr(said, at("without")));
    assert_non_null(strstr(said, strerror(ENOLCK)));
    ll_trainer_free(trainer);
    disk = LOCAL;
    said[0] = 0;
    CHECK_OK(ll_trainer_create(&trainer, NULL, NULL, at("without")));
    CHECK_OK(ll_trainer_run(trainer, hear, said));
    assert_string_equal(said, "");
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_folder_takes_one_run, local),
        cmocka_unit_test_teardown(the_lock_comes_before_the_checkpoint, local),
        cmocka_unit_test_teardown(a_disk_without_locks, local),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
